// ufp4 - one element of C computed again from codes and scales, because a kernel's sum of it is not finite.
// SPDX-License-Identifier: Apache-2.0
//
// That is rare: an intermediate value of the kernel overflowed, or an operand contains a NaN.
// matrix/element_product.hpp defines the result. Kernels call `recomputed` after their main loop, through
// thread/epilogue.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/thread/elements.hpp>
#include <ufp4/matrix/element_product.hpp>

namespace ufp4::gpu::thread::inline UFP4_GPU {

/// TA, fl(alpha * TB) and TB: the tensor scales of a product, with its alpha.
struct result_scales {
  float a, alpha_b, b;  ///< TA, fl(alpha * TB), TB of numerics 6
};

/// One operand in device memory: codes and scales, or a plain matrix.
struct operand_memory {
  const std::uint8_t* codes = nullptr;  ///< packed codes
  const void* scales = nullptr;         ///< block scales
  const float* value = nullptr;         ///< by code
  scale_kind scale = scale_kind::f32;   ///< the type of the block scales
  unsigned block_rows = 1;              ///< rows that share a scale
  const gemm_side* plain = nullptr;     ///< an operand that may be a plain matrix instead of codes, or null
  std::size_t padded_cols = 0;          ///< columns with padding
  unsigned block = 16;                  ///< the block length

  /// Is the operand a plain matrix?
  UFP4_DEVICE bool is_plain() const { return plain != nullptr && !plain->is_quantized; }
  /// Element k of a row, without its scale.
  UFP4_DEVICE float element(std::size_t row, std::size_t k) const {
    if (is_plain()) {
      const float x = k < plain->plain.cols ? load(plain->plain, row, k) : 0.0f;
      return plain->rounds_plain_to_bf16 ? static_cast<float>(round_to<bf16>(x)) : x;
    }
    return value[codes[(row * padded_cols + k) / 2] >> (4 * (k % 2)) & 15u];
  }
  /// The scale of block b of a row.
  UFP4_DEVICE float block_scale(std::size_t row, std::size_t b) const {
    return is_plain() ? 1.0f : scale_at(scale, scales, row / block_rows * (padded_cols / block) + b);
  }
};

/// Element (i, j) of the product, with the tensor scales and alpha.
UFP4_DEVICE float recomputed(const operand_memory& left, const operand_memory& right, bool exact_grids, accumulate mode,
                             float alpha, const result_scales& by, std::size_t i, std::size_t j) {
  ufp4::detail::element_product sum(mode, exact_grids);
  for (std::size_t b = 0; b < left.padded_cols / left.block && !sum.is_nan_already(); ++b) {
    const std::size_t first = b * left.block;
    sum.add_block(
        left.block_scale(i, b), right.block_scale(j, b), left.block,
        [&](std::uint32_t k) { return left.element(i, first + k); },
        [&](std::uint32_t k) { return right.element(j, first + k); });
  }
  return sum.scaled(alpha, by.a, by.b);
}

/// The memory of an operand of a job.
UFP4_DEVICE operand_memory memory_of(const gemm_side& side, unsigned block) {
  return {side.codes, side.scales, side.grid.value, side.scale, side.block_rows, &side, side.padded_cols, block};
}
/// Not inlined where that would cost the main loop registers. The job must be a kernel's UFP4_PARAMETER.
UFP4_DEVICE_CALL float recomputed(const gemm_job& job, result_scales by, std::size_t i, std::size_t j) {
  return recomputed(memory_of(job.left, job.block), memory_of(job.right, job.block),
                    job.left.exact() && job.right.exact(), job.mode, job.alpha, by, i, j);
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
