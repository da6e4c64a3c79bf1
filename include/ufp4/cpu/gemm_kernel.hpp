// ufp4 - what a GEMM kernel is.
// SPDX-License-Identifier: Apache-2.0
//
// A call is cut into parts of C. The rows of a part are packed once, before any part is multiplied; the columns of a
// part are decoded by the task that multiplies it, so a matrix of M rows decodes its right operand M / part_rows times
// in all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/isa.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// Rows and columns of C that one task makes.
struct gemm_part {
  std::size_t row, rows, col, cols;
};

/// One way to multiply. Memory comes from the caller, on a cache line.
///
/// | takes         | can it run this job (modes, grids, block length)? Looks at modes, grids and shapes alone:        |
/// |               | explain() asks it before there are any codes                                                     |
/// | left_bytes    | of `rows` packed rows; a multiple of 64. Row i, a multiple of tile_rows, begins at left_bytes(i) |
/// | pack_left     | packs rows [row, row + rows), row a multiple of tile_rows;                                       |
/// |               | what fills a last tile up is its affair                                                          |
/// | scratch_bytes | of a part with that many rows                                                                    |
/// | multiply      | makes one part of C and stores it; `left` is what pack_left made of the part's rows              |
struct gemm_kernel {
  isa tier;
  const char* name;
  std::size_t tile_rows, tile_cols;  ///< of C, in registers
  std::size_t tile_depth;            ///< K that one multiply instruction adds up
  std::size_t part_rows, part_cols;  ///< at most; multiples of the tile's
  bool (*takes)(const gemm_job&);
  std::size_t (*left_bytes)(const gemm_job&, std::size_t rows);
  void (*pack_left)(const gemm_job&, std::size_t row, std::size_t rows, std::byte* out);
  std::size_t (*scratch_bytes)(const gemm_job&, std::size_t rows);
  void (*multiply)(const gemm_job&, const gemm_part&, const std::byte* left, std::byte* scratch);
  accumulate fast_is = accumulate::fast;  ///< exact_blocks if `fast` gives its bits where they are finite

  accumulate made_as(accumulate asked) const { return asked == accumulate::fast ? fast_is : asked; }
};

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
