// ufp4 - transposed_tile: a tile of a matrix with contiguous columns, transposed in shared memory.
// SPDX-License-Identifier: Apache-2.0
//
// The tile is read by columns, in the order of device memory, and taken from shared memory sixteen elements of a row at
// a time. Every group of sixteen columns is shifted against the previous one, so that lanes access different banks.
#pragma once

#include <ufp4/gpu/thread/elements.hpp>

namespace ufp4::gpu::block::inline UFP4_GPU {

using thread::run_of_thread;

/// 256 groups of sixteen elements, one for each thread; `sixteens` groups of each row, a power of two up to 16.
struct transposed_tile {
  static constexpr unsigned threads = 256, banks = 32;  ///< of a thread block; of shared memory
  unsigned sixteens = 4;                                ///< columns of the tile divided by 16
  unsigned shift = 8;  ///< banks / sixteens if lanes are counted along rows first; rows if along columns

  UFP4_HD unsigned rows() const { return threads / sixteens; }        ///< of the tile
  UFP4_HD unsigned cols() const { return sixteens * run_of_thread; }  ///< of the tile
  /// Index of element (r, k) in shared memory.
  UFP4_HD unsigned at(unsigned r, unsigned k) const { return k * rows() + k / run_of_thread * shift + r; }
  /// Of shared memory.
  UFP4_HD std::size_t bytes() const { return sizeof(float) * (threads * run_of_thread + sixteens * shift); }
};

/// Reads the tile of x at (row, col); zeros outside the matrix. Every thread must call it, and a barrier must follow.
UFP4_DEVICE void stage(const ufp4::detail::source& x, const transposed_tile& t, std::size_t row, std::size_t col,
                       float* shared) {
  const unsigned rows = t.rows();
  for (unsigned i = 0; i < run_of_thread; ++i) {
    const unsigned e = i * transposed_tile::threads + thread_index().x, r = e % rows, k = e / rows;
    shared[t.at(r, k)] = row + r < x.rows && col + k < x.cols ? thread::load(x, row + r, col + k) : 0.0f;
  }
}

/// Sixteen elements of row r of the tile.
UFP4_DEVICE void take_sixteen(const transposed_tile& t, const float* shared, unsigned r, unsigned sixteen,
                              float (&v)[run_of_thread]) {
  UFP4_UNROLL
  for (unsigned j = 0; j < run_of_thread; ++j) v[j] = shared[t.at(r, sixteen * run_of_thread + j)];
}

}  // namespace ufp4::gpu::block::inline UFP4_GPU
