// ufp4 - transposed_tile: a tile of a matrix, written to shared memory by rows and read by columns.
// SPDX-License-Identifier: Apache-2.0
//
// Device memory is read along rows, sixteen elements in a thread. Then each thread takes sixteen elements of a column,
// and consecutive threads take those of one column, so that what they store is contiguous in the transpose as well.
// Stores move 16 bytes. Neither they nor the loads of the 64 x 64 tile have bank conflicts.
#pragma once

#include <ufp4/gpu/thread/elements.hpp>

namespace ufp4::gpu::block::inline UFP4_GPU {

using thread::run_of_thread;

/// 256 groups of sixteen elements, one for each thread: 64 x 64, or 256 x 16 for runs of up to 256 along columns.
template <unsigned tile_rows>
struct transposed_tile {
  static_assert(tile_rows == 64 || tile_rows == 256);
  static constexpr unsigned threads = 256;                          ///< of a thread block
  static constexpr unsigned rows = tile_rows;                       ///< of the tile
  static constexpr unsigned cols = threads * run_of_thread / rows;  ///< of the tile
  static constexpr unsigned sixteens = cols / run_of_thread;        ///< groups of sixteen in a row
  static constexpr unsigned sixteens_down = rows / run_of_thread;   ///< groups of sixteen in a column
  static constexpr unsigned shift = 8;                              ///< floats between four groups along columns
  static constexpr std::size_t bytes = sizeof(float) * (threads * run_of_thread + 4 * shift);  ///< of shared memory

  /// What the place of element k of a group is exchanged with, in row r, group s: two bits above the lowest two.
  UFP4_HD static constexpr unsigned exchanged(unsigned r, unsigned s) {
    return (cols == 64 ? (s >> 1 & 1u) | (r & 1u) << 1 : r >> 1 & 3u) << 2;
  }
  /// Index of group s of row r in shared memory. Every quarter of the rows is moved by 8 floats: other banks for the
  /// lanes of a wave that read one column.
  UFP4_HD static constexpr unsigned group_at(unsigned r, unsigned s) {
    return r * cols + r / (rows / 4) * shift + 16 * s;
  }

  /// Stores sixteen elements of row r, group s. A barrier must follow before they are taken.
  UFP4_DEVICE static void put_sixteen(float* shared, unsigned r, unsigned s, const float (&v)[run_of_thread]) {
    UFP4_UNROLL
    for (unsigned q = 0; q < 4; ++q) {
      thread::words4 four;
      UFP4_UNROLL
      for (unsigned j = 0; j < 4; ++j) four.word[j] = ufp4::detail::to_bits(v[4 * q + j]);
      *reinterpret_cast<thread::words4*>(shared + group_at(r, s) + ((4 * q) ^ exchanged(r, s))) = four;
    }
  }

  /// Elements 16 g .. 16 g + 15 of column k. A barrier must follow before the next tile is put.
  UFP4_DEVICE static void take_sixteen(const float* shared, unsigned k, unsigned g, float (&v)[run_of_thread]) {
    UFP4_UNROLL
    for (unsigned j = 0; j < run_of_thread; ++j)
      v[j] = shared[group_at(16 * g, k / 16) + j * cols + ((k % 16) ^ exchanged(j, k / 16))];
  }
};

}  // namespace ufp4::gpu::block::inline UFP4_GPU
