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

/// The descriptor of the same operand `bytes` further on, a multiple of 16: an addition to its lower half.
UFP4_HD constexpr std::uint64_t advanced(std::uint64_t operand, std::uint32_t bytes) {
  const auto low = static_cast<std::uint32_t>(operand) + (bytes >> 4);
  return (operand & 0xFFFFFFFF00000000u) | low;
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

/// A barrier of `count` threads, whole warps; `which`: 1 to 15, since sync_block is 0.
template <unsigned which, unsigned count>
UFP4_DEVICE void sync_threads() {
  asm volatile("bar.sync %0, %1;" ::"n"(which), "n"(count) : "memory");
}

/// Raises or lowers the registers of each thread of this warpgroup, all of which must call it.
template <bool more, int registers>
UFP4_DEVICE void take_registers() {
  if constexpr (more)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
  else
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
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

/// d = a * b^T, + d if `adds`; a 64 x 16, b 128 x 16 or 64 x 16, K-major. `a` is in registers: the fragment of mma.sync
/// m16n8k16 for the 16 rows of a warp.
UFP4_DEVICE void multiply_bf16(float (&d)[64], const std::uint32_t (&a)[4], std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.u32 adds, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, adds, 1, 1, 0;\n}"
      : UFP4_EIGHT_SUMS(0), UFP4_EIGHT_SUMS(8), UFP4_EIGHT_SUMS(16), UFP4_EIGHT_SUMS(24), UFP4_EIGHT_SUMS(32),
        UFP4_EIGHT_SUMS(40), UFP4_EIGHT_SUMS(48), UFP4_EIGHT_SUMS(56)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<std::uint32_t>(adds))
      : "memory");
}
UFP4_DEVICE void multiply_bf16(float (&d)[32], const std::uint32_t (&a)[4], std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.u32 adds, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, adds, 1, 1, 0;\n}"
      : UFP4_EIGHT_SUMS(0), UFP4_EIGHT_SUMS(8), UFP4_EIGHT_SUMS(16), UFP4_EIGHT_SUMS(24)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<std::uint32_t>(adds))
      : "memory");
}
#undef UFP4_EIGHT_SUMS

#endif

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
