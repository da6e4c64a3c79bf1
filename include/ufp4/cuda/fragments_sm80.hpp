// ufp4 - operands of mma.sync from packed codes without shared memory: for kernels that multiply while they read.
// SPDX-License-Identifier: Apache-2.0
//
// A lane reads one word, eight codes, of a row; the fragments of mma.sync would give it elements from several places
// along K. The order of a sum over K is free if both operands use the same one, so the eight elements of the word take
// the places that the lane has. With g = lane() / 4 and t = lane() % 4, the warp reads 32 consecutive k of rows g and
// g + 8 of a left operand, and of row g of a right one; the lane's word (word_of_lane) holds k = 8t .. 8t + 7:
//
// | s8, m16n8k32        | k = 8t .. 8t + 3 take the places of 4t .. 4t + 3, and 8t + 4 .. 8t + 7 those of 4t + 16 ..  |
// | bf16, f16, m16n8k16 | mma 0 multiplies k = 8t .. 8t + 3 of every t, mma 1 the others                              |
//
// One s8 product, or the two of bf16, sums all 32 k: the dot product of a block of 32, or of a part of a longer one. A
// block of 16 is in the lanes with t < 2, or in the others: of_half() sets the rest of one side to zero, and two
// products give the dot products of the two blocks.
#pragma once

#include <ufp4/gpu/thread/decode.hpp>

namespace ufp4::gpu::warp::inline UFP4_GPU {

/// Which of the four words of 32 codes this lane reads.
UFP4_DEVICE unsigned word_of_lane() { return lane() % 4; }
/// The row of eight that this lane reads.
UFP4_DEVICE unsigned row_of_lane() { return lane() / 4; }

/// Of rows g and g + 8, for mma_s8_k32.
UFP4_DEVICE void left_s8(const thread::byte_table& t, std::uint32_t row, std::uint32_t row_plus_8,
                         std::uint32_t (&a)[4]) {
  std::uint32_t first[2], second[2];
  thread::decode8_s8(t, row, first);
  thread::decode8_s8(t, row_plus_8, second);
  a[0] = first[0], a[1] = second[0], a[2] = first[1], a[3] = second[1];
}
/// Of row g, for mma_s8_k32.
UFP4_DEVICE void right_s8(const thread::byte_table& t, std::uint32_t row, std::uint32_t (&b)[2]) {
  thread::decode8_s8(t, row, b);
}

/// Of rows g and g + 8, for two mma_bf16 or mma_f16 of 16 k. Table: half_table, or the byte_table of its upper bytes.
template <class Table>
UFP4_DEVICE void left_halves(const Table& t, std::uint32_t row, std::uint32_t row_plus_8, std::uint32_t (&a)[2][4]) {
  std::uint32_t first[4], second[4];
  thread::decode8_halves(t, row, first);
  thread::decode8_halves(t, row_plus_8, second);
  for (unsigned i = 0; i < 2; ++i)
    a[i][0] = first[2 * i], a[i][1] = second[2 * i], a[i][2] = first[2 * i + 1], a[i][3] = second[2 * i + 1];
}
/// Of row g, for two mma_bf16 or mma_f16 of 16 k each.
template <class Table>
UFP4_DEVICE void right_halves(const Table& t, std::uint32_t row, std::uint32_t (&b)[2][2]) {
  std::uint32_t pairs[4];
  thread::decode8_halves(t, row, pairs);
  b[0][0] = pairs[0], b[0][1] = pairs[1], b[1][0] = pairs[2], b[1][1] = pairs[3];
}

/// A right operand's fragment that is zero except in the lanes that hold block `half` (0, 1), 16 of the 32 k.
UFP4_DEVICE void of_half(unsigned half, const std::uint32_t (&b)[2], std::uint32_t (&only)[2]) {
  const bool mine = word_of_lane() / 2 == half;
  only[0] = mine ? b[0] : 0u, only[1] = mine ? b[1] : 0u;
}

}  // namespace ufp4::gpu::warp::inline UFP4_GPU
