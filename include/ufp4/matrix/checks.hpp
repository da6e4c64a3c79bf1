// ufp4 - checks of the arguments of quantize, dequantize and the Hadamard transform, and the job that kernels receive.
// SPDX-License-Identifier: Apache-2.0
//
// CPU and GPU operations check here before they write anything, so an error message is the same on both.
#pragma once

#include <ufp4/block/compat.hpp>
#include <ufp4/matrix/job.hpp>
#include <ufp4/matrix/output.hpp>
#include <ufp4/matrix/policies.hpp>

namespace ufp4::detail::inline UFP4_CODE {

/// The job of a matrix under options; place as the shard says.
template <class O>
quantize_job make_job(const source& x, const format_spec& format, const O& options) {
  const std::size_t padded = padded_length(x.cols, format.block, options.transform);
  quantize_job job{.x = x, .format = format, .transform = options.transform, .padded_cols = padded};
  job.whole_padded_cols = padded;
  job.counts = options.report != nullptr;
  job.plans = options.plans;
  if (options.has_shard) {
    job.first_row = options.place.first_row;
    job.first_col = options.place.first_col;
    job.whole_padded_cols = padded_length(options.place.total_cols, format.block, options.transform);
  }
  return job;
}

template <class S>
byte_range bytes_of(std::span<S> span) {
  const auto first = reinterpret_cast<std::uintptr_t>(span.data());
  return {first, first + span.size_bytes()};
}

/// The block scales of a quantized matrix; one in device memory has no scale_bytes().
template <class Q>
auto scales_in(const Q& q) {
  if constexpr (requires { q.scale_bytes(); })
    return q.scale_bytes();
  else
    return q.scales();
}
template <class S, matrix_scalar T>
void check_apart(const char* operation, const char* span_name, std::span<S> span, const char* view_name,
                 const matrix_view<T>& x) {
  expects(!bytes_of(source_of(x)).overlaps(bytes_of(span)), operation, ": ", span_name, " overlaps ", view_name);
}

/// The caller's memory must share no byte with q, and the codes none with the scales.
inline void check_memory_apart(const char* operation, const any_quantized_view& q, const quantized_storage& memory) {
  const byte_range codes = bytes_of(memory.codes), scales = bytes_of(memory.scales);
  for (const byte_range& from : {bytes_of(q.codes()), bytes_of(q.scale_bytes())}) {
    expects(!codes.overlaps(from), operation, ": codes overlaps the quantized matrix");
    expects(!scales.overlaps(from), operation, ": scales overlaps the quantized matrix");
  }
  expects(!codes.overlaps(scales), operation, ": codes overlaps scales");
}
template <quantizer_target F, class O>
void check_preset(const char* operation, const O& options) {
  if constexpr (compat::preset<F>) {
    static_assert(std::is_same_v<decltype(options.rounding), rounding_spec>,
                  "a compat preset has a rounding of its own; leave the rounding policy out");
    static_assert(std::is_same_v<decltype(options.rule), scale_rule_spec>,
                  "a compat preset has a scale rule of its own; leave the scale rule out");
    expects(options.rounding.what == rounding_spec::kind::nearest_even, operation,
            ": a compat preset has a rounding of its own; leave the rounding policy out");
    expects(options.rule == scale_rule_spec{}, operation,
            ": a compat preset has a scale rule of its own; leave the scale rule out");
  }
}

/// What quantize checks, for a format as data. valid_format: a type tells it, and has checked it.
template <bool valid_format = false, class O>
void check_quantize(const char* operation, const format_spec& format, const source& x, const O& options,
                    bool may_undo = false, bool amax_is_known = false) {
  if constexpr (!valid_format) check_format(operation, format);
  expects(may_undo || !options.undo, operation,
          ": undo_transform is for fake_quantize; codes stay in the transformed domain");
  check_options(operation, options, format, x.cols, amax_is_known);
  check_data(operation, "x", x);
}
template <quantizer_target F, class O, matrix_scalar T>
void check_quantize(const char* operation, const matrix_view<T>& x, const O& options, bool may_undo = false,
                    bool amax_is_known = false) {
  check_preset<F>(operation, options);
  check_quantize<true>(operation, spec_of<format_of<F>>, source_of(x), options, may_undo, amax_is_known);
}

/// `wide` has the padded columns of `narrow`, whichever of the two is the input.
template <matrix_scalar X, matrix_scalar Y>
void check_transform(const char* operation, const transform_spec& t, bool inverse, const matrix_view<X>& x,
                     const matrix_view<Y>& out) {
  check_data(operation, "x", x);
  check_output(operation, "out", out);
  check_signs(operation, t);
  expects(out.rows() == x.rows(), operation, ": out has ", out.rows(), " rows, but x has ", x.rows());
  const std::size_t narrow = inverse ? out.cols() : x.cols(), wide = inverse ? x.cols() : out.cols();
  const std::size_t padded = (narrow + t.n - 1) / t.n * t.n;
  expects(wide == padded, operation, ": ", inverse ? "x" : "out", " has ", wide, " columns, but ", narrow,
          " columns padded to runs of ", t.n, " are ", padded);
  const source from = source_of(x);
  const sink to = sink_of(out);
  expects(same_elements(from, to) || !share_bytes(from, to), operation,
          ": out overlaps x without being the same matrix");
}
template <class Q, matrix_scalar T>
void check_decoded(const char* operation, const Q& q, const matrix_view<T>& out) {
  expects(out.rows() == q.rows() && out.cols() == q.cols(), operation, ": shape mismatch: out is ", out.rows(), " x ",
          out.cols(), ", the quantized matrix is ", q.rows(), " x ", q.cols());
  check_output(operation, "out", out);
}
/// Q: any quantized matrix with codes() and scales() that are spans.
template <class Q, matrix_scalar T>
void check_dequantize(const char* operation, const Q& q, const matrix_view<T>& out) {
  check_decoded(operation, q, out);
  check_apart(operation, "codes", q.codes(), "out", out);
  check_apart(operation, "scales", scales_in(q), "out", out);
}

/// The format of a quantized matrix for as long as kernels read it: that of the type, or the one in q.
template <class Q>
const format_spec& format_in(const Q& q) {
  if constexpr (requires { typename Q::format; })
    return spec_of<typename Q::format>;
  else
    return q.spec();
}
template <class Q>
quantized_source quantized_source_of(const Q& q) {
  return {q.codes().data(), q.scale_bytes().data(), format_in(q),     q.rows(),
          q.cols(),         q.padded_cols(),        q.tensor_scale(), q.transform()};
}

}  // namespace ufp4::detail::inline UFP4_CODE
