// ufp4 - wgmma: the matrix products of a warpgroup on Hopper, with operands in shared memory. Only sm_90a has them.
// SPDX-License-Identifier: Apache-2.0
//
// A warpgroup is four consecutive warps, the first a multiple of four. wgmma.mma_async m64n128k16 adds the product of
// a 64 x 16 and a 16 x 128 matrix of bf16 to 64 x 128 sums, a quarter of the rows for each warp. Here both operands are
// K-major in rows of 128 bytes, 64 bf16, swizzled (swizzled_offset, in memory aligned to 1024 bytes):
//
// | operand_128      | the descriptor of such an operand; its start address advances by 32 bytes for the next 16 of K |
// | sum_row, sum_col | the place of element i of a thread's sums in the warpgroup's 64 x 128                          |
//
// Order: stores to operands, fence_to_async (cuda/tma_sm90.hpp), a barrier; then every thread of the warpgroup calls
// multiply_fence, multiply..., multiply_commit, multiply_wait. In between the sums must not be accessed.
//
// Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": matrix layout, descriptor, register fragments.
#pragma once

#include <ufp4/cuda/memory_sm80.hpp>

namespace ufp4::gpu::mma::inline UFP4_GPU {

/// Of an operand whose first row is at `start` in shared memory: a multiple of 1024, plus 32 for every 16 of K.
UFP4_HD constexpr std::uint64_t operand_128(std::uint32_t start) {
  return shared_descriptor(start, 16, 1024, swizzle::bytes_128);
}

/// Element i of the 64 sums of thread t of a warpgroup.
UFP4_HD constexpr unsigned sum_row(unsigned t, unsigned i) { return t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8; }
UFP4_HD constexpr unsigned sum_col(unsigned t, unsigned i) { return i / 4 * 8 + t % 4 * 2 + i % 2; }

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

UFP4_DEVICE void multiply_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
UFP4_DEVICE void multiply_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until all but the last `left` groups are complete.
template <int left>
UFP4_DEVICE void multiply_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}
/// Tells the compiler that the sums change here.
template <unsigned n>
UFP4_DEVICE void settle_sums(float (&d)[n]) {
#pragma unroll
  for (unsigned i = 0; i < n; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

#define UFP4_EIGHT_SUMS(i)                                                                                    \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
/// d += a * b^T; a 64 x 16, b 128 x 16, both K-major.
UFP4_DEVICE void multiply_bf16_m64n128k16(float (&d)[64], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.eq.u32 adds, 1, 1;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, adds, 1, 1, 0, 0;\n}"
      : UFP4_EIGHT_SUMS(0), UFP4_EIGHT_SUMS(8), UFP4_EIGHT_SUMS(16), UFP4_EIGHT_SUMS(24), UFP4_EIGHT_SUMS(32),
        UFP4_EIGHT_SUMS(40), UFP4_EIGHT_SUMS(48), UFP4_EIGHT_SUMS(56)
      : "l"(a), "l"(b)
      : "memory");
}
#undef UFP4_EIGHT_SUMS

#endif

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
