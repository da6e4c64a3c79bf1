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
  ufp4::scale_rule_spec rule{};
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

namespace detail {

/// One matrix that is quantized in the type T in which it is stored, part by part.
template <class T, class Emit>
class rows_quantizer {
 public:
  rows_quantizer(matrix_rows& matrix, const ufp4::format_spec& format, const quantize_settings& with,
                 const row_progress& progress, Emit& emit)
      : matrix_(matrix),
        format_(format),
        with_(with),
        progress_(progress),
        emit_(emit),
        slice_(static_cast<std::size_t>(format.has_tensor_scale() ? matrix.part_rows() : matrix.rows())),
        at_once_(rows_at_once(slice_, matrix.cols(), static_cast<std::size_t>(format.block.rows), with.chunk)),
        to_do_(matrix.rows() * (format.has_tensor_scale() ? 2 : 1)),
        memory_(format, at_once_, static_cast<std::size_t>(matrix.cols()), with.transform) {}

  quantized_error run() {
    const auto rows = static_cast<std::size_t>(matrix_.rows());
    for (std::size_t begin = 0; begin < rows; begin += slice_) {
      const ufp4::tensor_amax global_amax{format_.has_tensor_scale() ? amax_of(begin) : 0};
      const auto quantize = [&](std::size_t first, const auto& x) { quantize_chunk(first, x, global_amax); };
      for_parts(matrix_, begin, begin + slice_, at_once_, values_, quantize);
    }
    return sums_;
  }

 private:
  float amax_of(std::size_t begin) {
    float amax = 0;
    const auto raise = [&](std::size_t, const auto& x) {
      amax = (std::max)(amax, ufp4::amax(x, with_.transform, with_.ctx).value);
      progress_(done_ += x.rows(), to_do_);
    };
    for_parts(matrix_, begin, begin + slice_, at_once_, values_, raise);
    return amax;
  }

  void quantize_chunk(std::size_t first, const ufp4::matrix_view<const T>& x, const ufp4::tensor_amax& global_amax) {
    ufp4::quantize_report seen;
    const ufp4::quantized_storage::size size = ufp4::storage_size(format_, x.rows(), x.cols(), with_.transform);
    const auto quantized = [&](const auto&... amax) {
      return ufp4::quantize_into(
          format_, x, {memory_.codes().first(size.codes), memory_.scale_bytes().first(size.scales)}, with_.transform,
          with_.rounding, with_.rule, ufp4::shard{first, 0, x.cols()}, ufp4::count_into{seen}, amax..., with_.ctx);
    };
    const ufp4::any_quantized_view q = format_.has_tensor_scale() ? quantized(global_amax) : quantized();
    emit_(first, q);
    add_error(with_.ctx, x, q, restored_, sums_);
    sums_.blocks += ufp4::detail::scale_rows(x.rows(), format_.block) * q.padded_cols() /
                    static_cast<std::size_t>(format_.block.cols);
    sums_.nonfinite_blocks += seen.nonfinite_blocks;
    sums_.underflowed_blocks += seen.underflowed_scales;
    progress_(done_ += x.rows(), to_do_);
  }

  matrix_rows& matrix_;
  const ufp4::format_spec& format_;
  const quantize_settings& with_;
  const row_progress& progress_;
  Emit& emit_;
  std::size_t slice_, at_once_;  // rows that share a tensor scale; rows in memory
  std::uint64_t to_do_, done_ = 0;
  ufp4::any_quantized memory_;
  std::vector<T> values_;
  std::vector<float> restored_;
  quantized_error sums_;
};

}  // namespace detail

/// emit(first row, any_quantized_view) for each chunk of a matrix of F32, F16 or BF16. A format with a tensor scale
/// reads each slice twice; every view has the tensor scale of its slice.
template <class Emit>
quantized_error quantize_rows(ufp4::interop::tensor_file& file, const ufp4::interop::stored_tensor& t, std::size_t axis,
                              const ufp4::format_spec& format, const quantize_settings& with,
                              const row_progress& progress, Emit emit) {
  using ufp4::interop::number_type;
  matrix_rows matrix(file, t, axis);
  if (t.type == number_type::bf16)
    return detail::rows_quantizer<ufp4::bf16, Emit>(matrix, format, with, progress, emit).run();
  if (t.type == number_type::f16)
    return detail::rows_quantizer<ufp4::fp16, Emit>(matrix, format, with, progress, emit).run();
  return detail::rows_quantizer<float, Emit>(matrix, format, with, progress, emit).run();
}

}  // namespace tool
