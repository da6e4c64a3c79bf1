// ufp4 - amax, quantize, quantize_into, fake_quantize: from a matrix of floats to 4-bit blocks.
// SPDX-License-Identifier: Apache-2.0
//
// Every operation takes an optional cpu::context, a matrix_view of float, bf16 or fp16 (or any type with a matrix_element),
// and policies in any order: a transform, a rounding policy, a scale rule, tensor_amax, shard, count_into.
//
// | blocks and transform | along the columns (the contraction axis); transpose(x) for the rows                        |
// | ragged columns       | padded with zeros to a multiple of the longer of block and transform, before the transform |
// | NaN and Inf          | their block gets codes +0 and a NaN scale; counted by count_into                           |
// | bits                 | numerics.md; identical for every isa, thread count, executor and sharding                  |
// | errors               | std::invalid_argument names the argument and the value, before anything is written         |
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <ufp4/cpu/dispatch.hpp>
#include <ufp4/cpu/kernels/quantize/fake_quantize.hpp>
#include <ufp4/cpu/parallel.hpp>
#include <ufp4/matrix/checks.hpp>
#include <ufp4/matrix/operand.hpp>

namespace ufp4::detail::inline UFP4_CODE {

/// body(first strip, last strip, report) over all strips, reports added up at the end.
template <class Body>
void for_strips(const cpu::context& ctx, const cpu::detail::quantize_job& job, quantize_report* report,
                const Body& body) {
  // Where columns lie along memory, a task reads long pieces of them: each may lie on a page of its own.
  const bool turned = job.x.row_stride == 1 && job.x.col_stride != 1;
  const std::size_t strips = job.strips(), at_once = !turned ? 1 : strips < 4096 ? 128 : 256;
  const std::size_t elements = job.padded_cols * static_cast<std::size_t>(job.format.block.rows) * at_once;
  cpu::detail::shared_number<std::uint64_t> nonfinite, saturated, underflowed;
  cpu::detail::parallel_rows(ctx, (strips + at_once - 1) / at_once, elements, [&](std::size_t first, std::size_t last) {
    quantize_report seen;
    body(first * at_once, last * at_once < strips ? last * at_once : strips, seen);
    if (report == nullptr) return;
    nonfinite.add(seen.nonfinite_blocks);
    saturated.add(seen.saturated);
    underflowed.add(seen.underflowed_scales);
  });
  if (report != nullptr) *report += quantize_report{nonfinite.load(), saturated.load(), underflowed.load()};
}

inline float amax_of(const cpu::context& ctx, const cpu::detail::quantize_job& job) {
  const auto kernel = cpu::detail::kernel_for(cpu::detail::kernels::amax, cpu::resolve(ctx)).kernel;
  cpu::detail::shared_number<std::uint32_t> largest;
  for_strips(ctx, job, nullptr, [&](std::size_t first, std::size_t last, quantize_report&) {
    largest.raise_to(kernel(job, first, last));
  });
  return to_float(largest.load());
}

inline void tensor_constants_into(const format_spec* f, const scale_rule_spec* rule, float global_amax,
                                  tensor_constants* out) {
  *out = make_tensor_constants(*f, *rule, global_amax);
}

/// The coder of a target under options, its tensor constants worked out in the exact environment.
template <class Coder>
void preset_constants_into(Coder* coder, float global_amax) {
  coder->tensor = Coder::constants(coder->format, global_amax);
}
template <compat::preset P, class O>
auto make_coder(const O&, float global_amax) {
  typename P::coder coder{{spec_of<typename P::format>, {}}};
  cpu::detail::in_exact_environment(&preset_constants_into<typename P::coder>, &coder, global_amax);
  return coder;
}
template <any_block_format F, class O>
auto make_coder(const O& options, float global_amax) {
  block_coder<decltype(options.rounding)> coder{spec_of<F>, options.rule, {}, options.rounding};
  cpu::detail::in_exact_environment(&tensor_constants_into, &coder.format, &coder.rule, global_amax, &coder.tensor);
  return coder;
}

template <class O>
float global_amax_of(const cpu::context& ctx, const cpu::detail::quantize_job& job, const O& options) {
  if (!job.format.two_level) return 0.0f;
  return options.has_amax ? options.global_amax : amax_of(ctx, job);
}

/// The kernel of a tier where the coder is the library's own; the portable one instantiated for any other.
template <class Coder>
void quantize_with(const cpu::context& ctx, cpu::isa tier, const cpu::detail::quantize_job& job, const Coder& coder,
                   const cpu::detail::quantized_sink& out, quantize_report* report) {
  if constexpr (std::is_same_v<Coder, block_coder<rounding_spec>>) {
    const auto kernel = cpu::detail::quantize_kernel_for(cpu::detail::kernels::quantize, job, coder, tier).kernel;
    for_strips(ctx, job, report, [&](std::size_t first, std::size_t last, quantize_report& seen) {
      kernel(job, coder, out, first, last, seen);
    });
  } else {
    for_strips(ctx, job, report, [&](std::size_t first, std::size_t last, quantize_report& seen) {
      cpu::detail::quantize_strips(job, coder, out, first, last, seen);
    });
  }
}

/// The same for fake_quantize; the scalar tier, too, runs the portable one.
template <class Coder>
void fake_quantize_with(const cpu::context& ctx, cpu::isa tier, const cpu::detail::quantize_job& job,
                        const Coder& coder, bool undo_transform, const sink& out, quantize_report* report) {
  if constexpr (std::is_same_v<Coder, block_coder<rounding_spec>>) {
    if (tier != cpu::isa::scalar)
      return for_strips(ctx, job, report, [&](std::size_t first, std::size_t last, quantize_report& seen) {
        cpu::detail::fake_quantize_chunks(tier, job, coder, undo_transform, out, first, last, seen);
      });
  }
  for_strips(ctx, job, report, [&](std::size_t first, std::size_t last, quantize_report& seen) {
    cpu::detail::fake_quantize_strips(job, coder, coder.tensor.decode, undo_transform, out, first, last, seen);
  });
}

/// Everything but the memory: checks, tensor amax, blocks. Returns the tensor scale.
template <quantizer_target F, matrix_scalar T, class O>
float quantize_to(const cpu::context& ctx, const matrix_view<T>& x, const O& options,
                  const cpu::detail::quantized_sink& out) {
  const cpu::isa tier = cpu::resolve(ctx);
  const cpu::detail::quantize_job job = make_job(source_of(x), spec_of<format_of<F>>, options);
  const auto coder = make_coder<F>(options, global_amax_of(ctx, job, options));
  quantize_with(ctx, tier, job, coder, out, options.report);
  return coder.tensor.decode;
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_CODE {

/// The largest finite magnitude of x, after a transform if one is given (padding included): what a two-level format's
/// tensor scale comes from. 0 for an empty matrix or one without a finite element.
template <matrix_scalar T>
tensor_amax amax(const cpu::context& ctx, const matrix_view<T>& x, const transform_spec& t = {}) {
  detail::check_data("amax", "x", x);
  detail::check_signs("amax", t);
  cpu::resolve(ctx);
  quantize_options<rounding_spec> options{.transform = t};
  const format_spec format{};  // only its block length matters, which divides every transform
  return {detail::amax_of(ctx, detail::make_job(detail::source_of(x), format, options))};
}
template <matrix_scalar T, transform Transform>
tensor_amax amax(const cpu::context& ctx, const matrix_view<T>& x, const Transform& t) {
  return amax(ctx, x, t.spec());
}
template <matrix_scalar T>
tensor_amax amax(const matrix_view<T>& x) {
  return amax(cpu::context{}, x);
}
template <matrix_scalar T, transform Transform>
tensor_amax amax(const matrix_view<T>& x, const Transform& t) {
  return amax(cpu::context{}, x, t.spec());
}

/// Quantizes x into memory of the caller's, without allocating any matrix memory: rows * padded_cols / 2 bytes of codes
/// and one scale a block (see quantized_matrix.hpp). The returned view refers to that memory and holds the tensor
/// scale. Neither span may overlap x.
template <quantizer_target F, matrix_scalar T, class... Policies>
quantized_view<format_of<F>> quantize_into(const cpu::context& ctx, const matrix_view<T>& x,
                                           std::span<std::uint8_t> codes,
                                           std::span<typename format_of<F>::scale_type> scales,
                                           const Policies&... policies) {
  const auto options = detail::collect(policies...);
  detail::check_quantize<F>("quantize_into", x, options);
  const quantized_view<format_of<F>> sized{codes, scales, 1.0f, x.rows(), x.cols(), options.transform};
  detail::check_apart("quantize_into", "codes", codes, "x", x);
  detail::check_apart("quantize_into", "scales", scales, "x", x);
  detail::check_apart("quantize_into", codes, scales);
  const float tensor_scale = detail::quantize_to<F>(ctx, x, options, {codes.data(), scales.data()});
  return {codes, scales, tensor_scale, sized.rows(), sized.cols(), options.transform};
}

/// The same into a quantized_matrix of that shape and transform; its memory is used again.
template <any_block_format F, matrix_scalar T, class... Policies>
void quantize_into(const cpu::context& ctx, const matrix_view<T>& x, quantized_matrix<F>& out,
                   const Policies&... policies) {
  const auto options = detail::collect(policies...);
  detail::check_quantize<F>("quantize_into", x, options);
  detail::expects(out.rows() == x.rows() && out.cols() == x.cols(), "quantize_into: out is ", out.rows(), " x ",
                  out.cols(), ", but x is ", x.rows(), " x ", x.cols());
  detail::expects(same_map(out.transform(), options.transform),
                  "quantize_into: out was made for a transform of length ", out.transform().n,
                  " and its signs, not for the one given, of length ", options.transform.n);
  out.set_tensor_scale(detail::quantize_to<F>(ctx, x, options, {out.codes().data(), out.scales().data()}));
}

/// Quantizes x. F is a block_format or a compat preset.
template <quantizer_target F, matrix_scalar T, class... Policies>
quantized_matrix<format_of<F>> quantize(const cpu::context& ctx, const matrix_view<T>& x, const Policies&... policies) {
  const auto options = detail::collect(policies...);
  detail::check_quantize<F>("quantize", x, options);
  quantized_matrix<format_of<F>> out(x.rows(), x.cols(), options.transform);
  out.set_tensor_scale(detail::quantize_to<F>(ctx, x, options, {out.codes().data(), out.scales().data()}));
  return out;
}

/// dequantize(quantize<F>(x, policies...)) in one pass, bit for bit, without storing codes. With undo_transform{} the
/// inverse transform is applied to what was decoded. `out` has x's shape; it may be x itself (the same data and
/// strides), but may not overlap it otherwise.
template <quantizer_target F, matrix_scalar T, matrix_scalar U, class... Policies>
void fake_quantize(const cpu::context& ctx, const matrix_view<T>& x, const matrix_view<U>& out,
                   const Policies&... policies) {
  const auto options = detail::collect(policies...);
  detail::check_quantize<F>("fake_quantize", x, options, true);
  detail::check_data("fake_quantize", "out", out);
  detail::expects(out.rows() == x.rows() && out.cols() == x.cols(), "fake_quantize: out is ", out.rows(), " x ",
                  out.cols(), ", but x is ", x.rows(), " x ", x.cols());
  const detail::source in = detail::source_of(x);
  const detail::sink to = detail::sink_of(out);
  detail::expects(detail::same_elements(in, to) || !detail::share_bytes(in, to),
                  "fake_quantize: out overlaps x without being the same matrix");
  const cpu::isa tier = cpu::resolve(ctx);
  const auto job = detail::make_job(in, spec_of<format_of<F>>, options);
  const auto coder = detail::make_coder<F>(options, detail::global_amax_of(ctx, job, options));
  detail::fake_quantize_with(ctx, tier, job, coder, options.undo, to, options.report);
}

// Without a context: all cores, the best instructions.

template <quantizer_target F, matrix_scalar T, class... Policies>
quantized_matrix<format_of<F>> quantize(const matrix_view<T>& x, const Policies&... policies) {
  return quantize<F>(cpu::context{}, x, policies...);
}
template <quantizer_target F, matrix_scalar T, class... Policies>
quantized_view<format_of<F>> quantize_into(const matrix_view<T>& x, std::span<std::uint8_t> codes,
                                           std::span<typename format_of<F>::scale_type> scales,
                                           const Policies&... policies) {
  return quantize_into<F>(cpu::context{}, x, codes, scales, policies...);
}
template <any_block_format F, matrix_scalar T, class... Policies>
void quantize_into(const matrix_view<T>& x, quantized_matrix<F>& out, const Policies&... policies) {
  quantize_into(cpu::context{}, x, out, policies...);
}
template <quantizer_target F, matrix_scalar T, matrix_scalar U, class... Policies>
void fake_quantize(const matrix_view<T>& x, const matrix_view<U>& out, const Policies&... policies) {
  fake_quantize<F>(cpu::context{}, x, out, policies...);
}

}  // namespace ufp4::inline UFP4_CODE
