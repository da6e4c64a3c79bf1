// ufp4 - quantized_gemm in portable C++: one tile of C at a time, operands decoded into panels.
// SPDX-License-Identifier: Apache-2.0
//
// Loops run over outputs or over exact integer products, so the compiler may vectorize them without changing a bit. A
// sum that is not finite is only a mark here: store_part computes that element again, in the fast modes in binary64.
#pragma once

#include <ufp4/cpu/kernels/gemm/store_part.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

inline constexpr std::size_t gemm_tile = 64;  ///< rows and columns of a tile of C: one task

/// The decoded panels of both sides and the accumulators of one task.
struct gemm_scratch {
  alignas(64) std::int16_t integer[2][gemm_tile * panel_depth];  ///< values / unit
  alignas(64) float value[2][gemm_tile * panel_depth];           ///< values without scales
  alignas(64) float scale[2][gemm_tile * panel_depth / 2];
  alignas(64) float columns[gemm_tile * panel_depth];  ///< the right values transposed
  alignas(64) float column_scale[gemm_tile * panel_depth / 2];
  alignas(64) float acc[gemm_tile * gemm_tile];
};

/// acc = fma(d, fl(sA * sB), acc) for every block; d = dot(i, j, k) is the dot product of the block at column k.
template <class Dot>
void accumulate_blocks(const gemm_job& job, std::size_t rows, std::size_t cols, std::size_t depth, gemm_scratch& s,
                       const Dot& dot) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) {
      float acc = s.acc[i * gemm_tile + j];
      const float *sa = s.scale[0] + i * panel_depth / 2, *sb = s.scale[1] + j * panel_depth / 2;
      for (std::size_t k = 0; k < depth; k += job.block) acc = fma(dot(i, j, k), *sa++ * *sb++, acc);
      s.acc[i * gemm_tile + j] = acc;
    }
}

/// Exact dot products of integers.
inline void accumulate_exact(const gemm_job& job, std::size_t rows, std::size_t cols, std::size_t depth,
                             gemm_scratch& s) {
  const float unit = integer_unit(job.left.q.format) * integer_unit(job.right.q.format);
  accumulate_blocks(job, rows, cols, depth, s, [&](std::size_t i, std::size_t j, std::size_t k) {
    const std::int16_t *a = s.integer[0] + i * panel_depth + k, *b = s.integer[1] + j * panel_depth + k;
    std::int32_t d = 0;
    std::size_t e = 0;
    for (; e + 16 <= job.block; e += 16)  // of known length, for the compiler
      for (std::size_t n = 0; n < 16; ++n) d += std::int32_t{a[e + n]} * b[e + n];
    for (; e < job.block; ++e) d += std::int32_t{a[e]} * b[e];
    return static_cast<float>(d) * unit;
  });
}

/// Chains of fma in index order, for an operand or a grid whose products are not exact.
inline void accumulate_chain(const gemm_job& job, std::size_t rows, std::size_t cols, std::size_t depth,
                             gemm_scratch& s) {
  accumulate_blocks(job, rows, cols, depth, s, [&](std::size_t i, std::size_t j, std::size_t k) {
    const float *a = s.value[0] + i * panel_depth + k, *b = s.value[1] + j * panel_depth + k;
    float d = 0.0f;
    for (std::size_t e = 0; e < job.block; ++e) d = fma(a[e], b[e], d);
    return d;
  });
}

/// The right panel by columns, so that loops run over outputs; columns that C does not have are zero.
inline void transpose_panel(const panel& p, std::size_t block, gemm_scratch& s) {
  for (std::size_t k = 0; k < p.depth; ++k)
    for (std::size_t j = 0; j < gemm_tile; ++j)
      s.columns[k * gemm_tile + j] = j < p.rows ? s.value[1][j * panel_depth + k] : 0.0f;
  for (std::size_t b = 0; b < p.depth / block; ++b)
    for (std::size_t j = 0; j < gemm_tile; ++j)
      s.column_scale[b * gemm_tile + j] = j < p.rows ? s.scale[1][j * panel_depth / 2 + b] : 0.0f;
}

/// acc += d * (sA * sB) for every block, d a plain sum in K order. Scales stay apart, so that they make none subnormal.
/// `wide`: d may be so large that the rounding of a subnormal sA * sB would show, so that product is one of binary64.
inline void accumulate_fast(bool wide, std::size_t block, std::size_t rows, std::size_t depth, gemm_scratch& s) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < depth; k += block) {
      float dot[gemm_tile] = {};
      for (std::size_t e = k; e < k + block; ++e) {
        const float a = s.value[0][i * panel_depth + e];
        for (std::size_t j = 0; j < gemm_tile; ++j) dot[j] += a * s.columns[e * gemm_tile + j];
      }
      const float scale = s.scale[0][i * panel_depth / 2 + k / block];
      const float* column_scale = s.column_scale + k / block * gemm_tile;
      float* acc = s.acc + i * gemm_tile;
      if (wide)
        for (std::size_t j = 0; j < gemm_tile; ++j)
          acc[j] += static_cast<float>(static_cast<double>(dot[j]) *
                                       (static_cast<double>(scale) * static_cast<double>(column_scale[j])));
      else
        for (std::size_t j = 0; j < gemm_tile; ++j) acc[j] += dot[j] * (scale * column_scale[j]);
    }
}

template <features needs>
void multiply_fast(const gemm_job& job, const panel& left, const panel& right, gemm_scratch& s) {
  decode_values<needs>(job.left, left, s.value[0]);
  decode_values<needs>(job.right, right, s.value[1]);
  if (job.mode == accumulate::folded_bf16) {
    fold_to_bf16(left, job.block, s.scale[0], s.value[0]);
    fold_to_bf16(right, job.block, s.scale[1], s.value[1]);
  }
  transpose_panel(right, job.block, s);
  bool wide = false;
  if constexpr (has(needs, features::byte_float))
    wide = (job.left.has_bytes() && job.left.q.format.grid.qmax > 0x1p10f) ||
           (job.right.has_bytes() && job.right.q.format.grid.qmax > 0x1p10f);
  accumulate_fast(wide, job.block, left.rows, left.depth, s);
}

template <features needs>
void multiply_blocks(const gemm_job& job, const panel& left, const panel& right, gemm_scratch& s) {
  if (job.left.exact() && job.right.exact()) {
    decode_integers<needs>(job.left.q, left, s.integer[0]);
    decode_integers<needs>(job.right.q, right, s.integer[1]);
    return accumulate_exact(job, left.rows, right.rows, left.depth, s);
  }
  decode_values<needs>(job.left, left, s.value[0]);
  decode_values<needs>(job.right, right, s.value[1]);
  accumulate_chain(job, left.rows, right.rows, left.depth, s);
}

/// The tile of C whose first element is (row, col).
template <features needs>
void gemm_scalar(const gemm_job& job, const gemm_part& part, const std::byte*, std::byte* memory) {
  auto* scratch = reinterpret_cast<gemm_scratch*>(memory);
  const bool marks = job.needs_binary64();  // every element
  for (float& acc : scratch->acc) acc = marks ? quiet_nan : 0.0f;
  for (std::size_t k = 0; !marks && k < job.padded(); k += panel_depth) {
    const std::size_t depth = job.padded() - k < panel_depth ? job.padded() - k : panel_depth;
    const panel a{part.row, part.rows, k, depth}, b{part.col, part.cols, k, depth};
    decode_scales(job.left, a, job.block, scratch->scale[0]);
    decode_scales(job.right, b, job.block, scratch->scale[1]);
    if (job.mode == accumulate::exact_blocks)
      multiply_blocks<needs>(job, a, b, *scratch);
    else
      multiply_fast<needs>(job, a, b, *scratch);
  }
  store_part<needs>(job, part, scratch->acc, gemm_tile);
}

template <features needs = features::all>
inline constexpr gemm_kernel gemm_scalar_kernel = {
    .tier = isa::scalar,
    .name = "gemm_scalar",
    .part_rows = gemm_tile,
    .part_cols = gemm_tile,
    .takes = [](const gemm_job&) { return true; },
    .left_bytes = [](const gemm_job&, std::size_t) { return std::size_t{0}; },
    .pack_left = [](const gemm_job&, std::size_t, std::size_t, std::byte*) {},
    .scratch_bytes = [](const gemm_job&, std::size_t) { return sizeof(gemm_scratch); },
    .multiply = &gemm_scalar<needs & stored_features>,
    .parts = features::all,
};

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
