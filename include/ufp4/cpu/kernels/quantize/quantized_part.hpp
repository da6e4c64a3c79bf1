// ufp4 - a matrix quantized part by part, for operations that decode each part while it is in the cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/cpu/dispatch.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// The codes of a rectangle of whole strips and runs, small enough for the first-level cache.
struct quantized_part {
  static constexpr std::size_t elements = 4096;  ///< of a part; a single run of a strip may have more: 64 rows of 256
  static constexpr std::size_t most = 64 * 256;

  alignas(64) std::uint8_t codes[most];
  alignas(64) float scales[elements / 2];  ///< enough for blocks of 1 x 2; a higher block has fewer
  alignas(64) float values[most];          ///< decoded, before the inverse transform

  quantized_source quantized(const quantize_job& job, float tensor_scale, std::size_t cols) const {
    return {codes, scales, job.format, job.x.rows, cols, job.padded_cols, tensor_scale, job.transform};
  }
};

/// Calls body(part, strip, strips, k) for rectangles that cover strips first .. last - 1, in the order of columns, then
/// those of the next strips: `part` is the job of `strips` strips from `strip` on and part.padded_cols columns from k.
template <class Body>
void for_parts(const quantize_job& whole, std::size_t first, std::size_t last, const Body& body) {
  const auto height = static_cast<std::size_t>(whole.format.block.rows);
  const std::size_t run = whole.run(), widest = quantized_part::elements / height / run * run;
  const std::size_t cols = widest < run ? run : widest < whole.padded_cols ? widest : whole.padded_cols;
  const std::size_t fit = cols == 0 ? 1 : quantized_part::elements / (cols * height), strips = fit == 0 ? 1 : fit;
  for (std::size_t s = first; s < last; s += strips)
    for (std::size_t k = 0; k < whole.padded_cols; k += cols) {
      const std::size_t here = last - s < strips ? last - s : strips, row = s * height, left = whole.x.rows - row;
      quantize_job job = whole;
      job.padded_cols = whole.padded_cols - k < cols ? whole.padded_cols - k : cols;
      job.x.data =
          static_cast<const char*>(whole.x.data) + whole.x.offset(row, k) * (whole.x.kind == dtype::f32 ? 4 : 2);
      job.x.rows = left < here * height ? left : here * height;
      job.x.cols = whole.x.cols - k < job.padded_cols ? whole.x.cols - k : job.padded_cols;
      job.first_row += row;
      job.first_col += k;
      body(job, s, here, k);
    }
}

/// The kernels of such an operation.
struct part_kernels {
  quantize_function* quantize;
  dequantize_function* dequantize;
  hadamard_function* transform;  ///< or null, where no policy asks for one
};
template <features needs>
part_kernels kernels_of_parts(isa tier, const quantize_job& job, const kernel_coder& coder) {
  part_kernels all{quantize_kernel_for(kernels::quantize<needs>, job, coder, tier).kernel,
                   kernel_for(kernels::dequantize<needs>, tier).kernel, nullptr};
  if constexpr (has(needs, features::transform)) all.transform = kernel_for(kernels::hadamard<needs>, tier).kernel;
  return all;
}

/// fake_quantize_strips by the kernels of an instruction set. A part is read before it is written: x may be out.
inline void fake_quantize_parts(const part_kernels& run, const quantize_job& whole, const kernel_coder& coder,
                                bool undo_transform, const sink& out, std::size_t first, std::size_t last,
                                quantize_report& report) {
  const auto height = static_cast<std::size_t>(whole.format.block.rows);
  const auto size = static_cast<std::ptrdiff_t>(out.kind == dtype::f32 ? 4 : 2);
  quantized_part staged;
  for_parts(whole, first, last, [&](const quantize_job& job, std::size_t s, std::size_t strips, std::size_t k) {
    sink to = out;
    to.data = static_cast<char*>(out.data) + out.offset(s * height, k) * size;
    to.rows = job.x.rows;
    to.cols = job.x.cols;
    run.quantize(job, coder, {staged.codes, staged.scales}, 0, strips, report);
    if (!undo_transform || job.transform.n == 1)
      return run.dequantize(staged.quantized(job, coder.tensor.decode, to.cols), to, 0, to.rows);
    const auto stride = static_cast<std::ptrdiff_t>(job.padded_cols);
    const sink decoded{staged.values, dtype::f32, to.rows, job.padded_cols, stride, 1};
    run.dequantize(staged.quantized(job, coder.tensor.decode, job.padded_cols), decoded, 0, to.rows);
    run.transform(job.transform, true, {staged.values, dtype::f32, to.rows, job.padded_cols, stride, 1}, to, 0,
                  to.rows);
  });
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
