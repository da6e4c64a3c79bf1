// ufp4 - quantize_ms_eden: nvfp4 blocks by MS-EDEN, the quantizer of the recipe quartet2.
// SPDX-License-Identifier: Apache-2.0
//
// | codes     | those of the nearest values: they do not depend on the random bits                              |
// | scales    | corrected for the attenuation of each transform run, then rounded stochastically                 |
// | bias      | the gain is 1 - 6e-4 on Gaussian numbers, farther from 1 with outliers: use eden to have none     |
// | transform | required, of 16 to 256 elements; one with random signs is what the estimate assumes              |
// | bits      | numerics 5, "MS-EDEN"; identical for every isa and thread count. Portable code                   |
// | errors    | std::invalid_argument names the argument and the value, before anything is written               |
#pragma once

#include <ufp4/block/ms_eden.hpp>
#include <ufp4/quantize.hpp>

namespace ufp4::detail::inline UFP4_CODE {

/// Checked: ms_eden_mismatch is nullptr. Returns the tensor scale.
template <class = void>  // so that an include instantiates no kernel (cpu/kernels.hpp)
float quantize_ms_eden_to(const cpu::context& ctx, const cpu::detail::quantize_job& job, float global_amax,
                          const stochastic& random_bits, const cpu::detail::quantized_sink& out) {
  ms_eden_coder coder{job.format, {}};
  cpu::detail::in_exact_environment(&constants_into<ms_eden_coder>, &coder, global_amax);
  for_strips(ctx, job, nullptr, [&](std::size_t first, std::size_t last, quantize_report& report) {
    cpu::detail::each_coded_run(job, coder, first, last, report, [&](cpu::detail::coded_run& run) {
      const std::uint64_t at = (job.first_row + run.first_row) * job.whole_padded_cols + job.first_col + run.first_col;
      correct_scales(job.format, coder.tensor, random_bits, run.x, run.codes, run.cols / job.format.block.cols, at,
                     run.scales);
      cpu::detail::store_codes(job, run, out);
    });
  });
  return coder.tensor.decode;
}

inline void check_ms_eden(const char* operation, const source& x, const transform_spec& t) {
  check_data(operation, "x", x);
  check_signs(operation, t);
  const char* const mismatch = ms_eden_mismatch(spec_of<nvfp4>, t);
  expects(mismatch == nullptr, operation, ": ", mismatch == nullptr ? "" : mismatch, ", got n = ", t.n);
}

/// A whole matrix, checked by check_ms_eden, as nvfp4 into memory of the sizes of the result. Returns the tensor scale.
template <class = void>
float quantize_whole_ms_eden(const cpu::context& ctx, const source& x, const transform_spec& t,
                             const stochastic& random_bits, const cpu::detail::quantized_sink& out) {
  quantize_settings options;
  options.transform = t;
  const auto job = make_job(x, spec_of<nvfp4>, options);
  return quantize_ms_eden_to(ctx, job, amax_of<>(ctx, job), random_bits, out);
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_CODE {

/// Quantizes x to nvfp4 by MS-EDEN after a transform. Two operands of one product need different random bits.
template <detail::matrix_scalar T, detail::transform Transform>
quantized_matrix<nvfp4> quantize_ms_eden(const matrix_view<T>& x, const Transform& t, const stochastic& random_bits,
                                         const cpu::context& ctx = {}) {
  const transform_spec transform = t.spec();
  detail::check_ms_eden("quantize_ms_eden", detail::source_of(x), transform);
  quantized_matrix<nvfp4> out(x.rows(), x.cols(), transform);
  out.set_tensor_scale(detail::quantize_whole_ms_eden(ctx, detail::source_of(x), transform, random_bits,
                                                      {out.codes().data(), out.scale_bytes().data()}));
  return out;
}

}  // namespace ufp4::inline UFP4_CODE
