// ufp4 - product_group: several products in one launch, as the parameter of the kernels that can multiply groups.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gpu/thread/epilogue.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

/// What the products of one launch may differ in. Arrays: of the left operand, of the right operand.
struct grouped_product {
  const std::uint8_t* codes[2] = {};
  const void* scales[2] = {};
  const float* tensor_scale[2] = {};
  void* out = nullptr;
  std::ptrdiff_t row_stride = 0, col_stride = 0;
  unsigned rows[2] = {};  ///< M and N
  unsigned padded = 0;
  unsigned first_tile = 0;  ///< the number of tiles of the products before it
};

inline constexpr unsigned most_products = 32;

/// The products, and what they have in common. Rows and columns are counted in 32 bits.
struct product_group {
  float value[2][16] = {};  ///< the grids, by code
  scale_kind scale[2]{};
  unsigned block_rows[2] = {1, 1};
  unsigned block = 16, block_shift = 4;  ///< the block length, and its log2
  dtype out = dtype::f32;
  accumulate mode = accumulate::exact_blocks;
  float alpha = 1, beta = 0;
  const float* bias = nullptr;
  unsigned count = 0;
  grouped_product product[most_products]{};
};

UFP4_DEVICE unsigned product_of(const product_group& group, unsigned tile) {
  unsigned e = 0;
  while (e + 1 < group.count && tile >= group.product[e + 1].first_tile) ++e;
  return e;
}

UFP4_DEVICE thread::epilogue epilogue_of(const product_group& group, const grouped_product& product) {
  return thread::epilogue_of(
      {product.out, group.out, product.rows[0], product.rows[1], product.row_stride, product.col_stride},
      product.tensor_scale[0], product.tensor_scale[1], group.bias, group.alpha, group.beta, group.mode);
}

UFP4_DEVICE thread::operand_memory memory_of(const product_group& group, const grouped_product& product, unsigned s) {
  return {product.codes[s],    product.scales[s], group.value[s], group.scale[s],
          group.block_rows[s], nullptr,           product.padded, group.block};
}
/// thread::recomputed for kernels of groups; grids have exact products where the mode is exact_blocks.
UFP4_DEVICE_CALL float recomputed(const product_group& group, const grouped_product& product, thread::result_scales by,
                                  std::size_t i, std::size_t j) {
  return thread::recomputed(memory_of(group, product, 0), memory_of(group, product, 1), true, group.mode, group.alpha,
                            by, i, j);
}

/// Do 32 bits suffice for the rows and columns of a product?
inline bool counts_in_32_bits(const gemm_job& job) {
  constexpr std::size_t most = std::size_t{1} << 31;
  return job.left.rows < most && job.right.rows < most && job.padded() < most;
}

inline std::size_t tiles_of(const gemm_job& job, unsigned rows, unsigned cols) {
  return ((job.left.rows + rows - 1) / rows) * ((job.right.rows + cols - 1) / cols);
}

/// Moves as many products as the group holds from the front of `jobs`. Returns the number of their tiles.
inline unsigned take_products(product_group& to, std::span<const gemm_job>& jobs, unsigned tile_rows,
                              unsigned tile_cols) {
  const gemm_job& first = jobs.front();
  for (unsigned c = 0; c < 16; ++c)
    to.value[0][c] = first.left.grid.value[c], to.value[1][c] = first.right.grid.value[c];
  to.scale[0] = first.left.scale, to.scale[1] = first.right.scale;
  to.block_rows[0] = first.left.block_rows, to.block_rows[1] = first.right.block_rows;
  to.block = first.block, to.block_shift = log2_of(first.block);
  to.out = first.out.kind;
  to.mode = first.mode;
  to.alpha = first.alpha, to.beta = first.beta;
  to.bias = first.bias;
  unsigned tiles = 0;
  for (; !jobs.empty() && to.count < most_products; jobs = jobs.subspan(1)) {
    const gemm_job& job = jobs.front();
    to.product[to.count++] = {{job.left.codes, job.right.codes},
                              {job.left.scales, job.right.scales},
                              {job.left.tensor_scale, job.right.tensor_scale},
                              job.out.data,
                              job.out.row_stride,
                              job.out.col_stride,
                              {static_cast<unsigned>(job.left.rows), static_cast<unsigned>(job.right.rows)},
                              static_cast<unsigned>(job.padded()),
                              tiles};
    tiles += static_cast<unsigned>(tiles_of(job, tile_rows, tile_cols));
  }
  return tiles;
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
