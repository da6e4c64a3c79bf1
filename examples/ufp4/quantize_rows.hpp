// ufp4 - quantizing a matrix of a file in chunks of rows, to the bits of quantizing it whole.
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
  std::size_t chunk = usual_chunk;  ///< elements read at once; no bit depends on it
};

/// The error of one matrix: sums over its elements in binary64, row by row in order.
struct quantized_error {
  double signal = 0, noise = 0;
  std::uint64_t blocks = 0, nonfinite_blocks = 0;
  std::uint64_t underflowed_blocks = 0;  ///< blocks with values other than zero whose scale underflowed to zero

  /// Infinite if the matrix is represented exactly, NaN if a block is NaN or all elements are zero.
  double sqnr_db() const { return 10 * std::log10(signal / noise); }
};

/// Called for every chunk with the number of rows done and in all, over both passes.
using row_progress = std::function<void(std::uint64_t done, std::uint64_t of)>;

namespace detail {

template <class T>
void add_error(const ufp4::cpu::context& ctx, const ufp4::matrix_view<const T>& x, const ufp4::any_quantized_view& q,
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

/// emit(first row, any_quantized_view) for each chunk of a matrix of F32, F16 or BF16. A format with a tensor scale
/// reads the matrix twice; every view has the tensor scale of the whole matrix.
template <class Emit>
quantized_error quantize_rows(ufp4::interop::tensor_file& file, const ufp4::interop::stored_tensor& t,
                              const ufp4::format_spec& format, const quantize_settings& with,
                              const row_progress& progress, Emit emit) {
  const auto height = static_cast<std::size_t>(format.block.rows);
  const auto rows = static_cast<std::size_t>(t.shape[0]), cols = static_cast<std::size_t>(t.shape[1]);
  const std::size_t at_once = rows_at_once(rows, cols, height, with.chunk);
  const std::uint64_t to_do = std::uint64_t{rows} * (format.has_tensor_scale() ? 2 : 1);

  ufp4::tensor_amax global_amax;
  if (format.has_tensor_scale())
    for_chunks(file, t, at_once, [&](std::size_t first, const auto& x) {
      global_amax.value = (std::max)(global_amax.value, ufp4::amax(with.ctx, x, with.transform).value);
      progress(first + x.rows(), to_do);
    });

  quantized_error sums;
  ufp4::any_quantized memory(format, at_once, cols, with.transform);
  std::vector<float> restored;
  for_chunks(file, t, at_once, [&](std::size_t first, const auto& x) {
    ufp4::quantize_report seen;
    const ufp4::quantized_size size = ufp4::storage_size(format, x.rows(), cols, with.transform);
    const auto quantized = [&](const auto&... amax) {
      return ufp4::quantize_into(
          with.ctx, format, x, {memory.codes().first(size.codes), memory.scale_bytes().first(size.scales)},
          with.transform, with.rounding, ufp4::shard{first, 0, cols}, ufp4::count_into{seen}, amax...);
    };
    const ufp4::any_quantized_view q = format.has_tensor_scale() ? quantized(global_amax) : quantized();
    emit(first, q);
    detail::add_error(with.ctx, x, q, restored, sums);
    sums.blocks += size.scales / static_cast<std::size_t>(ufp4::detail::scale_bytes(format.scale));
    sums.nonfinite_blocks += seen.nonfinite_blocks;
    sums.underflowed_blocks += seen.underflowed_scales;
    progress(to_do - rows + first + x.rows(), to_do);
  });
  return sums;
}

}  // namespace tool
