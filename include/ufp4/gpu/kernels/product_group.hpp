// ufp4 - several products in one launch: what kernels that multiply groups take as their parameter.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/thread/epilogue.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

/// What products of one launch may differ in; left and right.
struct grouped_product {
  const std::uint8_t* codes[2] = {};
  const void* scales[2] = {};
  const float* tensor_scale[2] = {};
  void* out = nullptr;
  std::ptrdiff_t row_stride = 0, col_stride = 0;
  unsigned rows[2] = {};  ///< of the operands: M and N
  unsigned padded = 0;
  unsigned first_tile = 0;  ///< of the launch
};

inline constexpr unsigned most_products = 32;

/// What they have in common, and they. Rows and columns are counted in 32 bits.
struct product_group {
  scale_kind scale[2]{};
  unsigned block_rows[2] = {1, 1};
  unsigned block = 16;
  dtype out = dtype::f32;
  accumulate mode = accumulate::exact_blocks;
  float alpha = 1, beta = 0;
  const float* bias = nullptr;
  unsigned count = 0;
  grouped_product product[most_products]{};
};

/// The product that tile `tile` of the launch belongs to.
UFP4_DEVICE unsigned product_of(const product_group& group, unsigned tile) {
  unsigned e = 0;
  while (e + 1 < group.count && tile >= group.product[e + 1].first_tile) ++e;
  return e;
}

UFP4_DEVICE thread::epilogue epilogue_of(const product_group& group, const grouped_product& product) {
  return {{product.out, group.out, product.rows[0], product.rows[1], product.row_stride, product.col_stride},
          product.tensor_scale[0],
          product.tensor_scale[1],
          group.bias,
          group.alpha,
          group.beta,
          group.mode};
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

inline bool on_bytes(const void* p, std::size_t n) { return reinterpret_cast<std::uintptr_t>(p) % n == 0; }

/// Can a group's 32 bits count the rows and columns of a product?
inline bool counts_in_32_bits(const gemm_job& job) {
  constexpr std::size_t most = std::size_t{1} << 31;
  return job.left.rows < most && job.right.rows < most && job.padded() < most;
}

/// Tiles of rows x cols that a product's C has.
inline std::size_t tiles_of(const gemm_job& job, unsigned rows, unsigned cols) {
  return ((job.left.rows + rows - 1) / rows) * ((job.right.rows + cols - 1) / cols);
}

/// Fills an empty group with products that differ in pointers, shapes and strides alone: as many as it holds, which are
/// taken off the front of `jobs`. Returns how many tiles they have.
inline unsigned take_products(kernels::product_group& to, std::span<const gemm_job>& jobs, unsigned tile_rows,
                              unsigned tile_cols) {
  const gemm_job& first = jobs.front();
  to.scale[0] = first.left.scale, to.scale[1] = first.right.scale;
  to.block_rows[0] = first.left.block_rows, to.block_rows[1] = first.right.block_rows;
  to.block = first.block;
  to.out = first.out.kind;
  to.mode = first.mode;
  to.alpha = first.alpha, to.beta = first.beta;
  to.bias = first.bias;
  unsigned tiles = 0;
  for (; !jobs.empty() && to.count < kernels::most_products; jobs = jobs.subspan(1)) {
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

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
