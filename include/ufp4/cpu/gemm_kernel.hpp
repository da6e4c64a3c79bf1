// ufp4 - what a GEMM kernel is.
// SPDX-License-Identifier: Apache-2.0
//
// A call is cut into parts of C. The rows of a part are packed once, before any part is multiplied. The columns of a
// part are decoded by the task that multiplies it, so the right operand is decoded M / part_rows times in all. Every
// kernel stores its sums with store_part (kernels/gemm/store_part.hpp) or its AVX-512 form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/isa.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// Rows and columns of C that one task computes.
struct gemm_part {
  std::size_t row, rows, col, cols;
};

/// One way to multiply. The caller provides all memory, aligned to 64 bytes.
///
/// | takes         | whether it can run a job. Depends on modes, grids and shapes only: explain() calls it without    |
/// |               | codes                                                                                            |
/// | left_bytes    | of `rows` packed rows; a multiple of 64. Row i, a multiple of tile_rows, begins at left_bytes(i) |
/// | pack_left     | packs rows [row, row + rows), row a multiple of tile_rows; pads the last tile as it needs        |
/// | scratch_bytes | for a part with that many rows                                                                   |
/// | multiply      | computes one part of C and stores it; `left` is what pack_left made of the part's rows           |
struct gemm_kernel {
  isa tier = isa::scalar;
  const char* name = "";
  std::size_t tile_rows = 1, tile_cols = 1;  ///< of C, in registers
  std::size_t tile_depth = 1;                ///< K that one multiply instruction adds up
  std::size_t part_rows = 1, part_cols = 1;  ///< at most; multiples of the tile's
  bool (*takes)(const gemm_job&) = nullptr;
  std::size_t (*left_bytes)(const gemm_job&, std::size_t rows) = nullptr;
  void (*pack_left)(const gemm_job&, std::size_t row, std::size_t rows, std::byte* out) = nullptr;
  std::size_t (*scratch_bytes)(const gemm_job&, std::size_t rows) = nullptr;
  void (*multiply)(const gemm_job&, const gemm_part&, const std::byte* left, std::byte* scratch) = nullptr;
  accumulate fast_is = accumulate::fast;  ///< exact_blocks if `fast` gives its bits where they are finite

  accumulate made_as(accumulate mode) const { return mode == accumulate::fast ? fast_is : mode; }
};

/// A kernel whose functions are static members of a class.
template <class Functions>
constexpr gemm_kernel kernel_of(gemm_kernel facts) {
  facts.takes = &Functions::takes;
  facts.left_bytes = &Functions::left_bytes;
  facts.pack_left = &Functions::pack_left;
  facts.scratch_bytes = &Functions::scratch_bytes;
  facts.multiply = &Functions::multiply;
  return facts;
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
