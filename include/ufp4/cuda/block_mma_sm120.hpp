// ufp4 - the block-scaled multiply-and-add of compute capability 12.0 (sm_120a, sm_121a): mma.sync with .block_scale.
// SPDX-License-Identifier: Apache-2.0
//
// d += (scale_a a) (scale_b b): each element of a row of a and of a column of b is multiplied by the scale of its block
// along K. Fragments as in mma_sm80.hpp: g = lane / 4, t = lane % 4, e is counted from a register's low bits:
//
// | register   | K = 64: 8 elements of 4 bits | K = 32: 4 elements in bytes of 8 bits |
// |------------|------------------------------|---------------------------------------|
// | a[0]       | row g,     col 8t + e        | row g,     col 4t + e                 |
// | a[1]       | row g + 8, col 8t + e        | row g + 8, col 4t + e                 |
// | a[2], a[3] | the same rows, col + 32      | the same rows, col + 16               |
// | b[0], b[1] | row 8t + e (+ 32), col g     | row 4t + e (+ 16), col g              |
//
// The scales of a tile's row or column are bytes of one register, byte j for block j along K. Both selectors are 0:
//
// | scales_a | row g from the lane with t = 0, row g + 8 from the lane with t = 1; the others are ignored            |
// | scales_b | column g from the lane with t = 0                                                                    |
//
// | function     | elements | scale | blocks of the tile | bytes read |
// |--------------|----------|-------|--------------------|------------|
// | mma_mxf4nvf4 | e2m1     | ue4m3 | 4 of 16 (4X)       | 0 to 3     |
// | mma_mxf4     | e2m1     | ue8m0 | 2 of 32 (2X)       | 0, 1       |
// | mma_mxf8f6f4 | e4m3     | ue8m0 | 1 of 32 (1X)       | 0          |
//
// The guarantees for the sums are those of f32 sums in mma_sm80.hpp.
#pragma once

#include <ufp4/cuda/ptx.hpp>

namespace ufp4::gpu::mma::inline UFP4_GPU {

// The lists of operands of all these instructions, after the text.
#define UFP4_BLOCK_MMA(simulated, name)                                                                             \
  UFP4_PTX_SM120(simulated,                                                                                         \
                 name                                                                                               \
                 " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, {%10}, {0,0}, {%11}, {0,0};" : "+f"(d[0]), \
                 "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),        \
                 "r"(b[1]), "r"(scales_a), "r"(scales_b))

UFP4_DEVICE void mma_mxf4nvf4(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                              std::uint32_t scales_a, std::uint32_t scales_b) {
  UFP4_BLOCK_MMA(simt::mma_mxf4nvf4(d, a, b, scales_a, scales_b),
                 "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3");
}

UFP4_DEVICE void mma_mxf4(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                          std::uint32_t scales_a, std::uint32_t scales_b) {
  UFP4_BLOCK_MMA(simt::mma_mxf4(d, a, b, scales_a, scales_b),
                 "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0");
}

UFP4_DEVICE void mma_mxf8f6f4(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                              std::uint32_t scales_a, std::uint32_t scales_b) {
  UFP4_BLOCK_MMA(simt::mma_mxf8f6f4(d, a, b, scales_a, scales_b),
                 "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0");
}
#undef UFP4_BLOCK_MMA

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
