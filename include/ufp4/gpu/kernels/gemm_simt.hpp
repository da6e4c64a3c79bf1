// ufp4 - gemm_simt: quantized_gemm on any GPU with fma: every pair of formats, unquantized operands, every mode.
// SPDX-License-Identifier: Apache-2.0
//
// The last row of every table. A thread block computes 64 x 64 of C. It decodes 32 columns of K at a time to floats in
// shared memory, so a code is decoded once for 64 products; a thread has 4 x 4 sums and reads 8 floats for 16 fma.
//
// Bits: those of exact_blocks (numerics 6) in every mode except folded_bf16. The floats of two exact grids are their
// integers, whose chain of fma is the exact dot product; of others the values, whose chain is the definition.
#pragma once

#include <ufp4/gpu/hadamard.hpp>
#include <ufp4/gpu/kernels/decode_extended.hpp>
#include <ufp4/gpu/thread/epilogue.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

struct simt_tile {
  static constexpr unsigned side = 64, depth = 32, threads = 256;
  static constexpr unsigned stride = side + 4;  ///< floats: puts the eight rows that a warp writes into different banks
  static constexpr unsigned most_blocks = depth / 2;  ///< in `depth` columns, of the shortest length
};

struct simt_operand {
  float table[16];  ///< by code
  float value[simt_tile::depth][simt_tile::stride];
  float scale[simt_tile::most_blocks][simt_tile::side];
};

struct simt_job {
  gemm_job product{};
  float table[2][16] = {};  ///< of the left and the right grid, by code: if both grids are exact, their integers
  float unit = 1;           ///< by which dot products of integers are multiplied
  tile_grid tiles{};
};

UFP4_DEVICE float scale_of(const gemm_side& side, unsigned block, std::size_t row, std::size_t b) {
  return thread::scale_at(side.scale, side.scales, row / side.block_rows * (side.padded_cols / block) + b);
}

/// Eight elements of one row from column k on; zeros outside the operand. Scaled and rounded in the mode folded_bf16.
UFP4_DEVICE void stage_values(const simt_job& job, const gemm_side& side, std::size_t row, std::size_t k,
                              unsigned first, unsigned column, simt_operand& to) {
  const bool folds = job.product.mode == accumulate::folded_bf16;
  UFP4_UNROLL
  for (unsigned e = 0; e < 8; ++e) {
    float v = 0;
    if (row < side.rows && k + e < side.padded_cols) {
      if (side.is_quantized) {
        const unsigned pair = side.codes[(row * side.padded_cols + k + e) / 2];
        v = to.table[e % 2 == 0 ? pair & 15u : pair >> 4];
      } else if (k + e < side.unquantized.cols) {
        v = thread::load(side.unquantized, row, k + e);
      }
      if (folds && side.scales != nullptr)
        v = rounded(v * scale_of(side, job.product.block, row, (k + e) / job.product.block));
      if (folds || (!side.is_quantized && side.rounds_unquantized_to_bf16)) v = static_cast<float>(round_to<bf16>(v));
    }
    to.value[first + e][column] = v;
  }
}

/// The scales of the blocks that contain the columns from k on; 1 if they are folded into the values.
UFP4_DEVICE void stage_scales(const simt_job& job, const gemm_side& side, std::size_t first_row, std::size_t k,
                              simt_operand& to) {
  const unsigned block = job.product.block, count = block < simt_tile::depth ? simt_tile::depth / block : 1;
  const bool ones = (!side.is_quantized && side.scales == nullptr) || job.product.mode == accumulate::folded_bf16;
  for (unsigned i = thread_index().x; i < count * simt_tile::side; i += simt_tile::threads) {
    const std::size_t row = first_row + i / count, b = k / block + i % count;
    const bool there = row < side.rows && b < side.padded_cols / block;
    to.scale[i % count][i / count] = !there ? 0.0f : ones ? 1.0f : scale_of(side, block, row, b);
  }
}

UFP4_DEVICE void stage(const simt_job& job, const gemm_side& side, std::size_t first_row, std::size_t k,
                       simt_operand& to) {
  const unsigned t = thread_index().x, first = t % 4 * 8, column = t / 4;
  stage_values(job, side, first_row + column, k + first, first, column, to);
  stage_scales(job, side, first_row, k, to);
}

/// Adds `depth` staged columns to a thread's sums. `dot` keeps its value while a block continues.
UFP4_DEVICE void multiply(const simt_job& job, const simt_operand& a, const simt_operand& b, std::size_t k,
                          unsigned depth, float (&dot)[4][4], float (&acc)[4][4]) {
  const unsigned x = thread_index().x % 16, y = thread_index().x / 16, block = job.product.block;
  for (unsigned e = 0; e < depth; ++e) {
    UFP4_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      UFP4_UNROLL
      for (unsigned j = 0; j < 4; ++j) dot[i][j] = fma(a.value[e][y + 16 * i], b.value[e][x + 16 * j], dot[i][j]);
    }
    if ((k + e + 1) % block != 0) continue;
    const unsigned at = e / block;
    UFP4_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      UFP4_UNROLL
      for (unsigned j = 0; j < 4; ++j) {
        const float scale = a.scale[at][y + 16 * i] * b.scale[at][x + 16 * j];
        acc[i][j] = fma(dot[i][j] * job.unit, scale, acc[i][j]);
        dot[i][j] = 0;
      }
    }
  }
}

/// As thread::recomputed, for products that add up in binary64. Not inlined either.
UFP4_DEVICE_CALL float recomputed_in_binary64(const gemm_job& product, thread::result_scales by, std::size_t i,
                                              std::size_t j) {
  return thread::recomputed(thread::memory_of(product.left, product.block),
                            thread::memory_of(product.right, product.block), false, product.mode, product.alpha, by, i,
                            j, true);
}

/// Not in the kernel itself: clang 15 copies a kernel's parameter to memory if a lambda of the kernel refers to it.
UFP4_DEVICE void store(const gemm_job& product, std::size_t row, std::size_t col, const float (&acc)[4][4]) {
  const unsigned x = thread_index().x % 16, y = thread_index().x / 16;
  const thread::epilogue to = thread::epilogue_of(product);
  thread::store_sums<16>(
      to, [&](unsigned n) { return acc[n / 4][n % 4]; },
      [&](unsigned n) { return thread::element_place{row + y + n / 4 * 16, col + x + n % 4 * 16}; },
      [&](std::size_t i, std::size_t j) {
        return product.in_binary64 ? recomputed_in_binary64(product, to.by, i, j)
                                   : thread::recomputed(product, to.by, i, j);
      });
}

UFP4_LAZY_KERNEL(simt_tile::threads) multiply_simt(UFP4_PARAMETER simt_job job) {
  auto* a = reinterpret_cast<simt_operand*>(shared_memory());
  simt_operand* b = a + 1;
  const gemm_job& product = job.product;
  const std::size_t row = std::size_t{block_index().x % job.tiles.down} * simt_tile::side;
  const std::size_t col = std::size_t{block_index().x / job.tiles.down} * simt_tile::side;
  const unsigned t = thread_index().x;
  if (t < 32) {
    float entry = 0;
    UFP4_UNROLL
    for (unsigned c = 0; c < 32; ++c)  // not [t]: for a run-time index a compiler may copy the job to local memory
      if (t == c) entry = job.table[c / 16][c % 16];
    (t < 16 ? a : b)->table[t % 16] = entry;
  }
  sync_block();
  float dot[4][4] = {}, acc[4][4];
  for (auto& sums : acc)
    for (float& sum : sums) sum = product.in_binary64 ? ufp4::detail::quiet_nan : 0.0f;  // not finite: computed again
  for (std::size_t k = 0; k < product.padded(); k += simt_tile::depth) {
    stage(job, product.left, row, k, *a);
    stage(job, product.right, col, k, *b);
    sync_block();
    const std::size_t rest = product.padded() - k;
    multiply(job, *a, *b, k, rest < simt_tile::depth ? static_cast<unsigned>(rest) : simt_tile::depth, dot, acc);
    sync_block();
  }
  store(product, row, col, acc);
}

/// An unquantized operand with a transform is transformed before the product: once for each row and not for each tile.
inline bool is_transformed(const gemm_side& side) { return !side.is_quantized && side.transform.n > 1; }
inline std::size_t prepared_bytes(const gemm_side& side, unsigned block) {
  if (side.extended != nullptr) return decoded_bytes(side, block);
  return is_transformed(side) ? decoded_value_bytes(side) : 0;
}

/// Queues the transform or the decoding of a side into `memory`, and makes the side that matrix.
template <class Product>
error prepare_side(gemm_side& side, unsigned block, std::byte* memory, stream where) {
  if constexpr (Product::may(&has_extended))
    if (side.extended != nullptr) return decode_side(side, block, memory, where);
  if constexpr (Product::may(&has_unquantized))
    if (is_transformed(side)) {
      const auto stride = static_cast<std::ptrdiff_t>(side.padded_cols);
      const sink out{memory, dtype::f32, side.rows, side.padded_cols, stride, 1};
      const source from = side.unquantized;
      side.unquantized = {memory, dtype::f32, side.rows, side.padded_cols, stride, 1};
      return queue_hadamard(from, out, side.transform, false, side.padded_cols, where);
    }
  return success;
}

template <class Product, class Use = void>
error run_gemm_simt(const gemm_job& product, const device_facts&, std::span<std::byte> workspace, stream where) {
  simt_job job{.product = product};
  const std::size_t left = prepared_bytes(product.left, product.block);
  if (const error e = prepare_side<Product>(job.product.left, product.block, workspace.data(), where); e != success)
    return e;
  if (const error e = prepare_side<Product>(job.product.right, product.block, workspace.data() + left, where);
      e != success)
    return e;
  const bool integers =
      product.mode != accumulate::folded_bf16 && job.product.left.exact() && job.product.right.exact();
  for (unsigned c = 0; c < 32; ++c) {
    const grid4& grid = c < 16 ? product.left.grid : product.right.grid;
    job.table[c / 16][c % 16] = integers ? static_cast<float>(grid.integer[c % 16]) : grid.value[c % 16];
  }
  job.product.in_binary64 = needs_binary64(product);
  if (integers) job.unit = product.left.grid.unit * product.right.grid.unit;
  return launch_tiled(listed<&multiply_simt<Use>>, job, product.out, simt_tile::side, simt_tile::side,
                      simt_tile::threads, 2 * sizeof(simt_operand), where);
}

template <class Product = any_product>
inline constexpr gemm_kernel gemm_simt = {
    .name = "gemm_simt",
    .instruction = "fma",
    .tile_rows = simt_tile::side,
    .tile_cols = simt_tile::side,
    .takes = [](const gemm_job&, const device_facts&) { return true; },
    .run = &run_gemm_simt<Product>,
    .workspace =
        [](const gemm_job& job, const device_facts&) {
          return prepared_bytes(job.left, job.block) + prepared_bytes(job.right, job.block);
        },
    .fast_is = accumulate::exact_blocks,
    .any_format = true,
};

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
