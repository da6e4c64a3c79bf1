// ufp4 - wgmma: the matrix products of a warpgroup on Hopper, the left operand in registers. Only sm_90a has them.
// SPDX-License-Identifier: Apache-2.0
//
// A warpgroup is four consecutive warps, the first a multiple of four. wgmma.mma_async m64nNk16 adds the product of a
// 64 x 16 and a 16 x N matrix of f16 or bf16 to 64 x N binary32 sums, a quarter of the rows for each warp. The left
// operand is in registers, the fragment of mma.sync m16n8k16 for the 16 rows of a warp. The right operand is in shared
// memory, K-major in rows of 128 bytes, 64 elements, swizzled (swizzled_offset, in memory aligned to 1024 bytes):
//
// | operand_128      | the descriptor of such an operand; its start address advances by 32 bytes for the next 16 of K |
// | sum_row, sum_col | the place of element i of a thread's sums in the warpgroup's 64 x N                            |
// | set_..._registers | called by all warps of a warpgroup: how many registers each of its threads may use            |
//
// Order: stores to operands, fence_to_async (cuda/tma_sm90.hpp), a barrier; then every thread of the warpgroup calls
// multiply_fence, multiply..., multiply_commit, multiply_wait. In between neither the sums nor the registers of the
// left operand may be accessed.
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
/// Tells the compiler that values in registers change here.
template <unsigned n>
UFP4_DEVICE void settle(float (&d)[n]) {
#pragma unroll
  for (unsigned i = 0; i < n; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <unsigned n>
UFP4_DEVICE void settle(std::uint32_t (&d)[n]) {
#pragma unroll
  for (unsigned i = 0; i < n; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

template <int count>
UFP4_DEVICE void set_more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
UFP4_DEVICE void set_fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

#define UFP4_EIGHT_SUMS(i)                                                                                    \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define UFP4_16_SUMS(i) UFP4_EIGHT_SUMS(i), UFP4_EIGHT_SUMS(i + 8)
#define UFP4_16_NAMES "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define UFP4_32_NAMES UFP4_16_NAMES ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define UFP4_64_NAMES                                                                                      \
  UFP4_32_NAMES                                                                                            \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, " \
  "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define UFP4_WGMMA(type, shape, names, operands, flag, ...)                                             \
  asm volatile("{\n.reg .pred adds;\nsetp.ne.u32 adds, " flag                                           \
               ", 0;\n"                                                                                 \
               "wgmma.mma_async.sync.aligned." shape "k16.f32." type "." type " {" names "}, " operands \
               ", adds, 1, 1, 0;\n}"                                                                    \
               : __VA_ARGS__                                                                            \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds ? 1u : 0u)                \
               : "memory")
#define UFP4_WGMMA_OF(...)          \
  if constexpr (f16)                \
    UFP4_WGMMA("f16", __VA_ARGS__); \
  else                              \
    UFP4_WGMMA("bf16", __VA_ARGS__)

/// d = a * b^T, + d if `adds`; a 64 x 16 in registers, b 2n x 16 in shared memory, both f16 or both bf16.
template <bool f16>
UFP4_DEVICE void multiply_k16(float (&d)[16], const std::uint32_t (&a)[4], std::uint64_t b, bool adds = true) {
  UFP4_WGMMA_OF("m64n32", UFP4_16_NAMES, "{%16, %17, %18, %19}, %20", "%21", UFP4_16_SUMS(0));
}
template <bool f16>
UFP4_DEVICE void multiply_k16(float (&d)[32], const std::uint32_t (&a)[4], std::uint64_t b, bool adds = true) {
  UFP4_WGMMA_OF("m64n64", UFP4_32_NAMES, "{%32, %33, %34, %35}, %36", "%37", UFP4_16_SUMS(0), UFP4_16_SUMS(16));
}
template <bool f16>
UFP4_DEVICE void multiply_k16(float (&d)[64], const std::uint32_t (&a)[4], std::uint64_t b, bool adds = true) {
  UFP4_WGMMA_OF("m64n128", UFP4_64_NAMES, "{%64, %65, %66, %67}, %68", "%69", UFP4_16_SUMS(0), UFP4_16_SUMS(16),
                UFP4_16_SUMS(32), UFP4_16_SUMS(48));
}
#undef UFP4_WGMMA_OF
#undef UFP4_WGMMA
#undef UFP4_64_NAMES
#undef UFP4_32_NAMES
#undef UFP4_16_NAMES
#undef UFP4_16_SUMS
#undef UFP4_EIGHT_SUMS

#endif

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
