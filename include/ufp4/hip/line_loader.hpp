// ufp4 - rows of packed codes of both operands, on their way from device memory to a thread block's shared memory.
// SPDX-License-Identifier: Apache-2.0
//
// Through registers, so that a step's rows are under way while the one before is multiplied: load() asks for them,
// put() hands them on. Neighbouring threads load neighbouring pieces of a row. AMD's global loads of several words
// take any address (the HSA ABI sets the unaligned access mode), so codes may lie anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/gpu/kernels/product_group.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

/// Words from anywhere.
template <class T>
UFP4_DEVICE T load_unaligned(const void* from) {
  T v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

/// Lines 0 .. left - 1 are rows of the left operand, those behind them rows of the right one; `bytes` of each a step,
/// in pieces of `words` words, of which a row of codes must be a whole number.
template <unsigned left, unsigned right, unsigned bytes, unsigned words, unsigned threads>
struct line_loader {
  static constexpr unsigned lines = left + right, pieces = bytes / (4 * words);
  static constexpr unsigned mine = lines * pieces / threads;
  static_assert(lines * pieces % threads == 0 && left * pieces % threads == 0 && threads % pieces == 0);

  struct alignas(4 * words) piece {
    std::uint32_t word[words];
  };
  struct cargo {
    piece codes[mine];
  };

  /// Where a thread's pieces begin: rows from first_row and first_col on, the last one again beyond it.
  struct source {
    const std::uint8_t* from[mine];
    std::size_t row_bytes;
  };
  UFP4_DEVICE static source source_of(const grouped_product& product, unsigned first_row, unsigned first_col) {
    source s;
    s.row_bytes = product.padded / 2;
    UFP4_UNROLL
    for (unsigned i = 0; i < mine; ++i) {
      const unsigned side = i * threads < left * pieces ? 0 : 1;
      const unsigned line = (i * threads + thread_index().x) / pieces - side * left;
      const unsigned row = (side == 0 ? first_row : first_col) + line, last = product.rows[side] - 1;
      s.from[i] =
          product.codes[side] + (row < last ? row : last) * s.row_bytes + thread_index().x % pieces * (4 * words);
    }
    return s;
  }

  /// From byte `at` of each row, zeros behind its end. The last step alone has an end, and the others no branch a load.
  UFP4_DEVICE static void load(const source& s, std::size_t at, cargo& to) {
    if (at + bytes <= s.row_bytes) {
      UFP4_UNROLL
      for (unsigned i = 0; i < mine; ++i) to.codes[i] = load_unaligned<piece>(s.from[i] + at);
      return;
    }
    const bool inside = at + thread_index().x % pieces * (4 * words) < s.row_bytes;
    UFP4_UNROLL
    for (unsigned i = 0; i < mine; ++i) to.codes[i] = inside ? load_unaligned<piece>(s.from[i] + at) : piece{};
  }

  /// use(line, piece of the line, is it of the left operand, codes) for each of the thread's pieces.
  template <class Use>
  UFP4_DEVICE static void put(const cargo& from, Use use) {
    UFP4_UNROLL
    for (unsigned i = 0; i < mine; ++i)
      use((i * threads + thread_index().x) / pieces, thread_index().x % pieces, i * threads < left * pieces,
          from.codes[i]);
  }
};

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
