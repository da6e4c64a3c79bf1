// ufp4 - the tensor cores' multiply-and-add from compute capability 8.0 on: mma.sync with f16, bf16 and s8 operands.
// SPDX-License-Identifier: Apache-2.0
//
// d += a b for a 16 x K tile a, a K x 8 tile b and a 16 x 8 tile d, distributed over the 32 lanes of a warp, which must
// all call it, as in the PTX ISA ("Matrix Fragments for mma.m16n8k16", "... mma.m16n8k32").
//
// With g = lane / 4 and t = lane % 4, and e the index of an element in its register, counted from the low bits:
//
// | register         | f16, bf16: 2 elements       | s8, K = 32: 4 elements      | s8, K = 16: 4 elements     |
// |------------------|-----------------------------|-----------------------------|----------------------------|
// | a[0]: row, col   | g,     2t + e               | g,     4t + e               | g,     4t + e              |
// | a[1]             | g + 8, 2t + e               | g + 8, 4t + e               | g + 8, 4t + e              |
// | a[2]             | g,     2t + e + 8           | g,     4t + e + 16          |                            |
// | a[3]             | g + 8, 2t + e + 8           | g + 8, 4t + e + 16          |                            |
// | b[0]: row, col   | 2t + e,     g               | 4t + e,      g              | 4t + e, g                  |
// | b[1]             | 2t + e + 8, g               | 4t + e + 16, g              |                            |
// | d[0], d[1]       | g, 2t and g, 2t + 1         | the same                    | the same                   |
// | d[2], d[3]       | g + 8, 2t and g + 8, 2t + 1 | the same                    | the same                   |
//
// Guarantees: s32 sums are exact, modulo 2^32. For f32 sums PTX guarantees exact products and "at least single
// precision", but neither the order nor the rounding. So a sum is the same on every device only if every partial sum,
// in every order and with d, is a multiple of some u and below 2^24 u. The payload of a NaN is unspecified.
#pragma once

#include <ufp4/cuda/ptx.hpp>

namespace ufp4::gpu::mma::inline UFP4_GPU {

/// The lists of operands of instructions with four registers of a and two of b, after the text.
#define UFP4_MMA(simulated, name, sum)                                                                         \
  UFP4_PTX_SM80(simulated,                                                                                     \
                "mma.sync.aligned." name " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : sum(d[0]), \
                sum(d[1]), sum(d[2]), sum(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

UFP4_DEVICE void mma_f16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  UFP4_MMA(simt::mma_f16(d, a, b), "m16n8k16.row.col.f32.f16.f16.f32", "+f");
}
UFP4_DEVICE void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  UFP4_MMA(simt::mma_bf16(d, a, b), "m16n8k16.row.col.f32.bf16.bf16.f32", "+f");
}
UFP4_DEVICE void mma_s8_k32(std::int32_t (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  UFP4_MMA(simt::mma_s8_k32(d, a, b), "m16n8k32.row.col.s32.s8.s8.s32", "+r");
}
#undef UFP4_MMA

UFP4_DEVICE void mma_s8_k16(std::int32_t (&d)[4], const std::uint32_t (&a)[2], std::uint32_t b) {
  UFP4_PTX_SM80(
      simt::mma_s8_k16(d, a, b),
      "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};" : "+r"(d[0]),
      "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(b));
}

/// Stores a warp's tiles d to shared memory, `stride` floats from row to row.
template <unsigned down, unsigned across>
UFP4_DEVICE void store_tiles(const float (&d)[down][across][4], float* to, unsigned stride) {
  UFP4_UNROLL
  for (unsigned m = 0; m < down; ++m) {
    UFP4_UNROLL
    for (unsigned n = 0; n < across; ++n) {
      UFP4_UNROLL
      for (unsigned e = 0; e < 4; ++e)
        to[(16 * m + lane() / 4 + e / 2 * 8) * stride + 8 * n + lane() % 4 * 2 + e % 2] = d[m][n][e];
    }
  }
}

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
