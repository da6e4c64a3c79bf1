// ufp4 - a matrix in a file becomes blocks, a chunk of rows at a time, in the bits of quantizing it whole.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ufp4/interop/tensor_file.hpp>
#include <ufp4/quantize.hpp>
#include <vector>

#include "row_chunks.hpp"

namespace tool {

/// How every matrix of a file is quantized.
struct quantize_settings {
  ufp4::transform_spec transform{};
  ufp4::rounding_spec rounding{};
  ufp4::cpu::context ctx{};
  std::size_t chunk = usual_chunk;  ///< elements read at once; changes no bit
};

/// What quantizing did to one matrix: sums over its elements in binary64, row by row in order.
struct quantized_error {
  double signal = 0, noise = 0;
  std::uint64_t blocks = 0, nonfinite_blocks = 0;
  std::uint64_t underflowed_blocks = 0;  ///< not of zeros, and rounded to zero: the scale underflowed

  /// Infinite where nothing was lost, not a number where a block holds NaN or there is nothing but zeros.
  double sqnr_db() const { return 10 * std::log10(signal / noise); }
};

/// Told of every chunk: rows done of all, over both passes.
using row_progress = std::function<void(std::uint64_t done, std::uint64_t of)>;

namespace detail {

template <class F, class T>
void add_error(const ufp4::cpu::context& ctx, const ufp4::matrix_view<const T>& x, const ufp4::quantized_view<F>& q,
               std::vector<float>& memory, quantized_error& sums) {
  memory.resize((std::max)(memory.size(), x.rows() * x.cols()));
  const ufp4::matrix_view<float> got(memory.data(), x.rows(), x.cols());
  restore(ctx, q, got);
  for (std::size_t i = 0; i < x.rows(); ++i) {
    double signal = 0, noise = 0;
    for (std::size_t k = 0; k < x.cols(); ++k) {
      const double want = static_cast<double>(static_cast<float>(x(i, k)));
      const double lost = static_cast<double>(got(i, k)) - want;
      signal += want * want;
      noise += lost * lost;
    }
    sums.signal += signal;
    sums.noise += noise;
  }
}

}  // namespace detail

/// emit(first row, quantized_view<F>) for each chunk of a matrix of F32, F16 or BF16; a format with a tensor scale
/// reads the matrix twice. Every view has the whole's tensor scale.
template <class F, class Emit>
quantized_error quantize_rows(ufp4::interop::tensor_file& file, const ufp4::interop::stored_tensor& t,
                              const quantize_settings& with, const row_progress& progress, Emit emit) {
  constexpr auto height = static_cast<std::size_t>(F::block.rows);
  const auto rows = static_cast<std::size_t>(t.shape[0]), cols = static_cast<std::size_t>(t.shape[1]);
  const std::size_t at_once = rows_at_once(rows, cols, height, with.chunk);
  const std::uint64_t to_do = std::uint64_t{rows} * (F::two_level ? 2 : 1);

  ufp4::tensor_amax global_amax;
  if (F::two_level)
    for_chunks(file, t, at_once, [&](std::size_t first, const auto& x) {
      global_amax.value = (std::max)(global_amax.value, ufp4::amax(with.ctx, x, with.transform).value);
      progress(first + x.rows(), to_do);
    });

  quantized_error sums;
  ufp4::quantized_matrix<F> memory(at_once, cols, with.transform);
  const std::size_t bytes = memory.padded_cols() / 2, blocks = memory.padded_cols() / F::block_size;
  std::vector<float> restored;
  for_chunks(file, t, at_once, [&](std::size_t first, const auto& x) {
    ufp4::quantize_report seen;
    const ufp4::quantized_view<F> q =
        ufp4::quantize_into<F>(with.ctx, x, memory.codes().first(x.rows() * bytes),
                               memory.scales().first((x.rows() + height - 1) / height * blocks), with.transform,
                               with.rounding, global_amax, ufp4::shard{first, 0, cols}, ufp4::count_into{seen});
    emit(first, q);
    detail::add_error(with.ctx, x, q, restored, sums);
    sums.blocks += (x.rows() + height - 1) / height * blocks;
    sums.nonfinite_blocks += seen.nonfinite_blocks;
    sums.underflowed_blocks += seen.underflowed_scales;
    progress(to_do - rows + first + x.rows(), to_do);
  });
  return sums;
}

}  // namespace tool
