// ufp4 - fake_quantize with the kernels of one instruction set: quantize a chunk, decode it, undo the transform.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <ufp4/cpu/dispatch.hpp>
#include <ufp4/cpu/kernels/quantize/quantized_chunk.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// Does what fake_quantize_strips does, with the kernels of an instruction set. A chunk is read before any of it is
/// written, so x and out may be the same matrix.
inline void fake_quantize_chunks(isa tier, const quantize_job& whole, const block_coder<rounding_spec>& coder,
                                 bool undo_transform, const sink& out, std::size_t first, std::size_t last,
                                 quantize_report& report) {
  const auto quantize = quantize_kernel_for(kernels::quantize, whole, coder, tier).kernel;
  const auto dequantize = kernel_for(kernels::dequantize, tier).kernel;
  const auto transform = kernel_for(kernels::hadamard, tier).kernel;
  const auto height = static_cast<std::size_t>(whole.format.block.rows);
  const auto size = static_cast<std::ptrdiff_t>(out.kind == dtype::f32 ? 4 : 2);
  quantized_chunk chunk;
  for_chunks(whole, first, last, [&](const quantize_job& job, std::size_t s, std::size_t strips, std::size_t k) {
    sink to = out;
    to.data = static_cast<char*>(out.data) + out.offset(s * height, k) * size;
    to.rows = job.x.rows;
    to.cols = job.x.cols;
    quantize(job, coder, {chunk.codes, chunk.scales}, 0, strips, report);
    if (!undo_transform || job.transform.n == 1)
      return dequantize(chunk.quantized(job, coder.tensor.decode, to.cols), to, 0, to.rows);
    const auto stride = static_cast<std::ptrdiff_t>(job.padded_cols);
    const sink decoded{chunk.values, dtype::f32, to.rows, job.padded_cols, stride, 1};
    dequantize(chunk.quantized(job, coder.tensor.decode, job.padded_cols), decoded, 0, to.rows);
    transform(job.transform, true, {chunk.values, dtype::f32, to.rows, job.padded_cols, stride, 1}, to, 0, to.rows);
  });
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
