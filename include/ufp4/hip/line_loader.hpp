// ufp4 - loads rows of packed codes of both operands from device memory to a thread block's shared memory.
// SPDX-License-Identifier: Apache-2.0
//
// Through registers, so that the rows of a step are loaded while the previous step is multiplied: load() starts the
// loads, put() stores the registers. Neighbouring threads load neighbouring pieces of a row. Codes need no alignment:
// AMD's global loads of several words take any address (the HSA ABI sets the unaligned access mode).
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/gpu/kernels/product_group.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

/// A load from any address.
template <class T>
UFP4_DEVICE T load_unaligned(const void* from) {
  T v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

/// Lines 0 .. left - 1 are rows of the left operand, the following `right` lines rows of the right one. A step loads
/// `bytes` of each, in pieces of `words` words; a row of codes must be a whole number of pieces.
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

  /// The beginning of each of a thread's pieces: rows from first_row and first_col on; beyond the last row, the last
  /// row.
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

  /// From byte `at` of each row, zeros behind its end. Only the last step reaches the end; the others load without
  /// branches.
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

  /// Calls use(line, piece of the line, whether it is of the left operand, codes) for each of the thread's pieces.
  template <class Use>
  UFP4_DEVICE static void put(const cargo& from, Use use) {
    UFP4_UNROLL
    for (unsigned i = 0; i < mine; ++i)
      use((i * threads + thread_index().x) / pieces, thread_index().x % pieces, i * threads < left * pieces,
          from.codes[i]);
  }
};

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
