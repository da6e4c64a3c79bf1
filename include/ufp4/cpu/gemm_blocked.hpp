// ufp4 - the loops around a vector kernel's register tile: panels of K, panels of columns, tiles of rows.
// SPDX-License-Identifier: Apache-2.0
//
// blocked_gemm: a kernel has these static members.
//
// | rows, cols, depth | of a register tile of C; K of a panel: a multiple of 256, so of every block and transform   |
// | left_bytes        | (job, k): of a tile's `rows` packed rows up to k; linear in k                               |
// | right_bytes       | (job, k): of a tile's `cols` packed columns                                                 |
// | pack_left         | (job, row, live, k, depth, out): rows beyond live count as zeros                            |
// | pack_right        | (job, col, live, k, depth, out): the same for columns                                       |
// | multiply          | (job, left, right, live, depth, acc, stride): adds the panel's products to live x cols sums |
//
// A panel of the right operand is decoded once and stays in the first-level cache while all rows are multiplied by it.
#pragma once

#include <ufp4/cpu/kernels/gemm/store_part.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

template <class Kernel, features needs = stored_features>
struct blocked_gemm {
  static constexpr std::size_t tile_rows = Kernel::rows, tile_cols = Kernel::cols;

  static bool takes(const gemm_job& job) { return Kernel::takes(job); }
  static std::size_t left_bytes(const gemm_job& job, std::size_t rows) {
    return up(rows, Kernel::rows) / Kernel::rows * up(Kernel::left_bytes(job, job.padded()));
  }

  static void pack_left(const gemm_job& job, std::size_t row, std::size_t rows, std::byte* out) {
    for (std::size_t i = 0; i < rows; i += Kernel::rows) {
      const std::size_t live = rows - i < Kernel::rows ? rows - i : Kernel::rows;
      Kernel::pack_left(job, row + i, live, 0, job.padded(), out + left_bytes(job, i));
    }
  }

  static std::size_t right_bytes(const gemm_job& job) {
    const std::size_t depth = job.padded() < Kernel::depth ? job.padded() : Kernel::depth;
    return up(Kernel::right_bytes(job, depth));
  }

  static std::size_t scratch_bytes(const gemm_job& job, std::size_t rows) {
    return up(rows, Kernel::rows) * Kernel::cols * sizeof(float) + right_bytes(job);
  }

  static void multiply(const gemm_job& job, const gemm_part& part, const std::byte* left, std::byte* scratch) {
    auto* acc = reinterpret_cast<float*>(scratch);
    std::byte* right = scratch + up(part.rows, Kernel::rows) * Kernel::cols * sizeof(float);
    for (std::size_t j = 0; j < part.cols; j += Kernel::cols) {
      const std::size_t live = part.cols - j < Kernel::cols ? part.cols - j : Kernel::cols;
      for (std::size_t i = 0; i < part.rows * Kernel::cols; ++i) acc[i] = 0.0f;
      for (std::size_t k = 0; k < job.padded(); k += Kernel::depth) {
        const std::size_t depth = job.padded() - k < Kernel::depth ? job.padded() - k : Kernel::depth;
        Kernel::pack_right(job, part.col + j, live, k, depth, right);
        for (std::size_t i = 0; i < part.rows; i += Kernel::rows) {
          const std::size_t rows = part.rows - i < Kernel::rows ? part.rows - i : Kernel::rows;
          Kernel::multiply(job, left + left_bytes(job, i) + Kernel::left_bytes(job, k), right, rows, depth,
                           acc + i * Kernel::cols, Kernel::cols);
        }
      }
      store_part<needs>(job, {part.row, part.rows, part.col + j, live}, acc, Kernel::cols);
    }
  }
};

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
