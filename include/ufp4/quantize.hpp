// ufp4 - amax, quantize, quantize_into, fake_quantize: from a matrix of floats to 4-bit blocks.
// SPDX-License-Identifier: Apache-2.0
//
// An operation takes the format, as data or as a template argument; a matrix_view (or matrix) of float, bf16 or fp16
// (matrix_element lists the types); and policies in any order: a transform, a rounding policy, a scale rule,
// tensor_amax, shard, count_into, cpu::context. A rounding policy or scale rule of the program, and a compat preset,
// run in portable code; cpu::explain reports it.
//
// | blocks and transform | along the columns (the contraction axis); transpose(x) for the rows                        |
// | ragged columns       | padded with zeros to a multiple of the longer of block and transform, before the transform |
// | NaN and Inf          | their block gets codes +0 and a NaN scale; counted by count_into                           |
// | bits                 | numerics.md; identical for every isa, thread count, executor and sharding                  |
// | errors               | std::invalid_argument names the argument and the value, before anything is written         |
#pragma once

#include <ufp4/cpu/dispatch.hpp>
#include <ufp4/cpu/kernels/quantize/quantized_part.hpp>
#include <ufp4/cpu/kernels/quantize/rounding_plan.hpp>
#include <ufp4/cpu/parallel.hpp>
#include <ufp4/matrix/checks.hpp>
#include <ufp4/matrix/operand.hpp>

namespace ufp4::detail::inline UFP4_CODE {

/// The collected policies of a call in a format that its type tells. T...: as collect_for has them.
template <any_block_format F, class... T, class... Policies>
constexpr auto options_for(const Policies&... policies) {
  auto options = collect_for<F, T...>(policies...);
#if !defined(UFP4_EXTERNAL_KERNELS)  // whose kernels have all features and plan for themselves
  constexpr features needs = decltype(options)::needs;
  constexpr auto rounding =
      has(needs, features::random_bits) ? rounding_spec::kind::stochastic : rounding_spec::kind::nearest_even;
  if constexpr (!has(needs, element_features | features::other_grid | features::other_rounding))
    options.plans = &cpu::detail::plans_of_type<F, rounding>;
#endif
  return options;
}

/// A body(first strip, last strip, report), whatever its type.
class strip_body {
 public:
  template <class F>
  strip_body(const F& f)
      : self_(&f), run_([](const void* self, std::size_t first, std::size_t last, quantize_report& seen) {
          (*static_cast<const F*>(self))(first, last, seen);
        }) {}
  void operator()(std::size_t first, std::size_t last, quantize_report& seen) const { run_(self_, first, last, seen); }

 private:
  const void* self_;
  void (*run_)(const void* self, std::size_t first, std::size_t last, quantize_report&);
};
inline void run_strips(const strip_body* body, std::size_t strips, quantize_report* seen) { (*body)(0, strips, *seen); }

/// Calls body over all strips, on the context's threads; adds the reports up. What one task would do is done at once.
inline void for_strips(const cpu::context& ctx, const cpu::detail::quantize_job& job, quantize_report* report,
                       const strip_body& body) {
  // Where columns are contiguous, a task reads long parts of them, since each may begin on a page of its own.
  const bool by_columns = job.x.row_stride == 1 && job.x.col_stride != 1;
  const std::size_t strips = job.strips(), at_once = !by_columns ? 1 : strips < 4096 ? 128 : 256;
  const std::size_t elements = job.padded_cols * static_cast<std::size_t>(job.format.block.rows) * at_once;
  if (strips * elements <= cpu::detail::task_elements * at_once && !ctx.executor) {
    quantize_report seen;
    if (elements != 0) cpu::detail::in_exact_environment(&run_strips, &body, strips, &seen);
    if (report != nullptr) *report += seen;
    return;
  }
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

template <features needs = features::all>
float amax_of(const cpu::context& ctx, const cpu::detail::quantize_job& job) {
  const auto kernel = cpu::detail::kernel_for(cpu::detail::kernels::amax<needs>, cpu::resolve(ctx)).kernel;
  cpu::detail::shared_number<std::uint32_t> amax;
  for_strips(ctx, job, nullptr,
             [&](std::size_t first, std::size_t last, quantize_report&) { amax.raise_to(kernel(job, first, last)); });
  return to_float(amax.load());
}

/// The Preset of the functions below for a target: void for a block format.
template <quantizer_target F>
using preset_of = std::conditional_t<any_block_format<F>, void, F>;

/// The constants of a format with outer scales of rows or segments are those of each of them; its tensor scale stays 1.
template <class Coder>
void constants_into(Coder* coder, float global_amax) {
  if (!coder->format.has_outer_array()) coder->tensor = constants_of(*coder, global_amax);
}

/// The coder of a format under options, or of a compat preset. Its constants are computed in the exact environment.
template <class Preset = void, class O>
auto make_coder(const format_spec& format, [[maybe_unused]] const O& options, float global_amax) {
  if constexpr (std::is_void_v<Preset>) {
    using coder_type =
        block_coder<decltype(options.rounding), decltype(options.rule), features::all, const format_spec&>;
    coder_type coder{format, options.rule, {}, options.rounding};
    if (!format.two_level()) return coder;
    cpu::detail::in_exact_environment(&constants_into<coder_type>, &coder, global_amax);
    return coder;
  } else {
    typename Preset::coder coder{};
    coder.format = format;
    cpu::detail::in_exact_environment(&constants_into<typename Preset::coder>, &coder, global_amax);
    return coder;
  }
}

template <features needs>
float global_amax_of(const cpu::context& ctx, const cpu::detail::quantize_job& job, const quantize_settings& options) {
  if (!job.format.has_tensor_scale()) return 0.0f;
  return options.has_amax ? options.global_amax : amax_of<needs>(ctx, job);
}
template <class Coder>
inline constexpr bool is_kernel_coder = std::is_same_v<Coder, kernel_coder>;

/// The kernel of a tier where the coder is the library's own; the portable one instantiated for any other.
template <features needs, class Coder>
void quantize_with(const cpu::context& ctx, cpu::isa tier, const cpu::detail::quantize_job& job, const Coder& coder,
                   const cpu::detail::quantized_sink& out, quantize_report* report) {
  const auto kernel = [&] {
    if constexpr (is_kernel_coder<Coder>)
      return cpu::detail::quantize_kernel_for(cpu::detail::kernels::quantize<needs>, job, coder, tier).kernel;
    else
      return &cpu::detail::quantize_strips<Coder>;
  }();
  for_strips(ctx, job, report, [&](std::size_t first, std::size_t last, quantize_report& seen) {
    kernel(job, coder, out, first, last, seen);
  });
}

/// Whether a call may quantize part by part (quantized_part.hpp): any format but those of `whole_strips`.
inline constexpr features whole_strips = features::further_parts | features::byte_float;
template <features needs, class Coder>
bool quantizes_parts(const cpu::detail::quantize_job& job) {
  if constexpr (!is_kernel_coder<Coder>) return false;
  return !has(needs, whole_strips) || !has(parts_of(job.format), whole_strips);
}
template <features needs, class Coder>
void fake_quantize_with(const cpu::context& ctx, cpu::isa tier, const cpu::detail::quantize_job& job,
                        const Coder& coder, bool undo_transform, const sink& out, quantize_report* report) {
  for_strips(ctx, job, report, [&](std::size_t first, std::size_t last, quantize_report& seen) {
    if constexpr (is_kernel_coder<Coder>)
      if (quantizes_parts<needs, Coder>(job))
        return fake_quantize_parts(cpu::detail::kernels_of_parts<needs>(tier, job, coder), job, coder, undo_transform,
                                   out, first, last, seen);
    if constexpr (has(needs, whole_strips) || !is_kernel_coder<Coder>)
      cpu::detail::fake_quantize_strips(job, coder, undo_transform, out, first, last, seen);
  });
}

/// Checked options to codes and scales; returns the tensor scale. One function for all formats whose policies are the
/// library's own; Preset, where given, is a compat preset with a coder of its own.
template <class Preset = void, class O>
float quantize_to(const cpu::context& ctx, const source& x, const format_spec& format, const O& options,
                  const cpu::detail::quantized_sink& out) {
  const cpu::isa tier = cpu::resolve(ctx);
  const cpu::detail::quantize_job job = make_job(x, format, options);
  const auto coder = make_coder<Preset>(format, options, global_amax_of<O::needs>(ctx, job, options));
  quantize_with<O::needs>(ctx, tier, job, coder, out, options.report);
  return coder.tensor.decode;
}
template <class Preset = void, class O>
void quantize_to(const cpu::context& ctx, const source& x, const O& options, quantized_memory& out) {
  out.set_tensor_scale(
      quantize_to<Preset>(ctx, x, out.spec(), options, {out.codes().data(), out.scale_bytes().data()}));
}

template <class Preset = void, class O>
void fake_quantize_to(const cpu::context& ctx, const source& x, const format_spec& format, const sink& out,
                      const O& options) {
  constexpr const char* operation = "fake_quantize";
  constexpr features needs = O::needs;
  check_quantize(operation, format, x, options, true);
  check_output(operation, "out", out);
  expects(out.rows == x.rows && out.cols == x.cols, operation, ": shape mismatch: out is ", out.rows, " x ", out.cols,
          ", x is ", x.rows, " x ", x.cols);
  expects(same_elements(x, out) || !share_bytes(x, out), operation, ": out overlaps x without being the same matrix");
  const cpu::isa tier = cpu::resolve(ctx);
  const cpu::detail::quantize_job job = make_job(x, format, options);
  const auto coder = make_coder<Preset>(format, options, global_amax_of<needs>(ctx, job, options));
  fake_quantize_with<needs>(ctx, tier, job, coder, options.undo, out, options.report);
}

/// Into a matrix that was made for this shape and transform.
template <class O>
void quantize_again(const cpu::context& ctx, const source& x, const O& options, quantized_memory& out) {
  const transform_spec& t = options.transform;
  check_quantize("quantize_into", out.spec(), x, options);
  expects(out.rows() == x.rows && out.cols() == x.cols, "quantize_into: shape mismatch: out is ", out.rows(), " x ",
          out.cols(), ", x is ", x.rows, " x ", x.cols);
  if (!same_map(out.transform(), t)) [[unlikely]]
    reject(concat("quantize_into: transform mismatch: out was made for ", transform_name(out.transform()),
                  ", the call has ", transform_name(t), out.transform().n == t.n ? " with other signs" : ""));
  quantize_to(ctx, x, options, out);
}

/// The caller's codes and scales must not share bytes with x or with each other.
inline void check_memory(const quantized_storage& memory, const source& x) {
  expects(!bytes_of(x).overlaps(bytes_of(memory.codes)), "quantize_into: codes overlaps x");
  expects(!bytes_of(x).overlaps(bytes_of(memory.scales)), "quantize_into: scales overlaps x");
  expects(!bytes_of(memory.codes).overlaps(bytes_of(memory.scales)), "quantize_into: codes overlaps scales");
}

/// View: the type of the result, any_quantized_view or a quantized_view, whose type tells a valid format.
template <class View, class Preset = void, class O>
View quantize_into_memory(const cpu::context& ctx, const format_spec& format, const source& x,
                          const quantized_storage& memory, const O& options) {
  constexpr bool valid_format = !std::is_same_v<View, any_quantized_view>;
  check_quantize<valid_format>("quantize_into", format, x, options);
  check_spans<valid_format>("quantize_into", format, x.rows, x.cols, options.transform, memory.codes, memory.scales);
  check_memory(memory, x);
  const float scale = quantize_to<Preset>(ctx, x, format, options, {memory.codes.data(), memory.scales.data()});
  return view_of_checked::make<View>({format, scale, x.rows, x.cols, options.transform}, memory.codes, memory.scales);
}

template <class T>
inline constexpr bool is_batch = false;
template <class T>
inline constexpr bool is_batch<matrix_batch<T>> = true;

/// Values in a row: a span, an array, a vector.
template <class R>
concept contiguous_values = requires(const R& values) { std::span(values); };

template <class R>
using value_in = typename decltype(std::span(std::declval<const R&>()))::value_type;
template <class R>
concept row_of_values = contiguous_values<R> && matrix_scalar<value_in<R>>;

template <row_of_values R>
auto one_row(const R& values) {
  const std::span all(values);
  return matrix_view<const value_in<R>>(all.data(), 1, all.size());
}

template <class T>
concept no_context = !std::same_as<T, cpu::context>;

/// The context among the policies of a call, or the default.
template <class... Policies>
cpu::context context_among(const Policies&... policies) {
  cpu::context ctx;
  [[maybe_unused]] const auto take = [&ctx]<class P>(const P& policy) {
    if constexpr (!no_context<P>) ctx = policy;
  };
  if constexpr (!(no_context<Policies> && ...)) (take(policies), ...);
  return ctx;
}

template <class T>
void viewed(const matrix_view<T>&);
template <class T>
concept viewable = requires(const T& x) { viewed(x); };

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_CODE {

/// The tensor amax of x: the largest finite magnitude, after a transform if one is given (padding included). The tensor
/// scale of a two-level format is computed from it. 0 if x is empty or has no finite element.
template <detail::matrix_scalar T, detail::transform Transform = transform_spec>
tensor_amax amax(const matrix_view<T>& x, const Transform& t = {}, const cpu::context& ctx = {}) {
  detail::quantize_settings options;
  options.transform = t.spec();
  detail::check_data("amax", "x", x);
  detail::check_signs("amax", options.transform);
  cpu::resolve(ctx);
  const format_spec format{};  // only its block length matters, which divides every transform
  return {detail::amax_of < detail::features_of_scalar<T> |
          detail::features_of_policies<Transform>() > (ctx, detail::make_job(detail::source_of(x), format, options))};
}

// The format as data: spec_of<nvfp4>, preset("nvfp4"), or a format_spec of the program's own.

/// Quantizes x in a format that is known at run time.
template <detail::matrix_scalar T, class... Policies>
any_quantized quantize(const format_spec& format, const matrix_view<T>& x, const Policies&... policies) {
  const auto options = detail::collect_as_data<T>(policies...);
  const detail::source from = detail::source_of(x);
  detail::check_quantize("quantize", format, from, options);
  any_quantized out(format, x.rows(), x.cols(), options.transform);
  detail::quantize_to(detail::context_among(policies...), from, options, out);
  return out;
}
/// Quantizes into the caller's memory of exactly storage_size(format, x.rows(), x.cols(), transform), without
/// allocating matrix memory. The returned view refers to it and has the tensor scale. Nothing may overlap.
template <detail::matrix_scalar T, class... Policies>
any_quantized_view quantize_into(const format_spec& format, const matrix_view<T>& x, const quantized_storage& memory,
                                 const Policies&... policies) {
  return detail::quantize_into_memory<any_quantized_view>(detail::context_among(policies...), format,
                                                          detail::source_of(x), memory,
                                                          detail::collect_as_data<T>(policies...));
}
/// Quantizes into a matrix of that format, shape and transform, without allocating matrix memory.
template <detail::matrix_scalar T, class... Policies>
void quantize_into(const matrix_view<T>& x, any_quantized& out, const Policies&... policies) {
  detail::quantize_again(detail::context_among(policies...), detail::source_of(x),
                         detail::collect_as_data<T>(policies...), out);
}
/// dequantize(quantize(format, x, policies...)) in one pass: see the typed fake_quantize below.
template <detail::matrix_scalar T, detail::matrix_scalar U, class... Policies>
void fake_quantize(const format_spec& format, const matrix_view<T>& x, const matrix_view<U>& out,
                   const Policies&... policies) {
  detail::fake_quantize_to(detail::context_among(policies...), detail::source_of(x), format, detail::sink_of(out),
                           detail::collect_as_data<T, U>(policies...));
}

// The format as a template argument, a block_format or a compat preset: policies that cannot apply do not compile.

/// Quantizes x.
template <detail::quantizer_target F, detail::matrix_scalar T, class... Policies>
quantized_matrix<detail::format_of<F>> quantize(const matrix_view<T>& x, const Policies&... policies) {
  static_assert(detail::are_policies<Policies...>());  // here, so that its message is short
  const auto options = detail::options_for<detail::format_of<F>, T>(policies...);
  detail::check_quantize<F>("quantize", x, options);
  quantized_matrix<detail::format_of<F>> out(x.rows(), x.cols(), options.transform);
  detail::quantize_to<detail::preset_of<F>>(detail::context_among(policies...), detail::source_of(x), options, out);
  return out;
}

/// Quantizes a span, an array or a vector as one row.
template <detail::quantizer_target F, detail::row_of_values R, class... Policies>
quantized_matrix<detail::format_of<F>> quantize(const R& values, const Policies&... policies) {
  return quantize<F>(detail::one_row(values), policies...);
}

/// Quantizes x into the caller's memory, without allocating matrix memory: see the untyped overload above.
template <detail::quantizer_target F, detail::matrix_scalar T, class... Policies>
quantized_view<detail::format_of<F>> quantize_into(const matrix_view<T>& x, const quantized_storage& memory,
                                                   const Policies&... policies) {
  const auto options = detail::options_for<detail::format_of<F>, T>(policies...);
  detail::check_preset<F>("quantize_into", options);
  return detail::quantize_into_memory<quantized_view<detail::format_of<F>>, detail::preset_of<F>>(
      detail::context_among(policies...), spec_of<detail::format_of<F>>, detail::source_of(x), memory, options);
}
template <detail::quantizer_target F, detail::matrix_scalar T, class... Policies>
quantized_view<detail::format_of<F>> quantize_into(const matrix_view<T>& x, std::span<std::uint8_t> codes,
                                                   std::span<typename detail::format_of<F>::scale_type> scales,
                                                   const Policies&... policies) {
  return quantize_into<F>(x, quantized_storage{codes, std::as_writable_bytes(scales)}, policies...);
}

/// Quantizes into a quantized_matrix of that shape and transform, without allocating matrix memory.
template <detail::any_block_format F, detail::matrix_scalar T, class... Policies>
void quantize_into(const matrix_view<T>& x, quantized_matrix<F>& out, const Policies&... policies) {
  detail::quantize_again(detail::context_among(policies...), detail::source_of(x),
                         detail::options_for<F, T>(policies...), out);
}

/// dequantize(quantize<F>(x, policies...)) in one pass, bit for bit, without storing codes. With undo_transform{} the
/// inverse transform is applied to the decoded values. `out` has x's shape; it may be x itself (the same data and
/// strides), but may not overlap it otherwise.
template <detail::quantizer_target F, detail::matrix_scalar T, detail::matrix_scalar U, class... Policies>
void fake_quantize(const matrix_view<T>& x, const matrix_view<U>& out, const Policies&... policies) {
  const auto options = detail::options_for<detail::format_of<F>, T, U>(policies...);
  detail::check_preset<F>("fake_quantize", options);
  detail::fake_quantize_to<detail::preset_of<F>>(detail::context_among(policies...), detail::source_of(x),
                                                 spec_of<detail::format_of<F>>, detail::sink_of(out), options);
}

/// The same with the context in front: quantize<nvfp4>(ctx, x, policies...).
template <class F, class X, class... Policies>
auto quantize(const cpu::context& ctx, const X& x, const Policies&... policies) {
  return quantize<F>(x, policies..., ctx);
}
template <class X, class... Policies>
any_quantized quantize(const cpu::context& ctx, const format_spec& format, const X& x, const Policies&... policies) {
  return quantize(format, x, policies..., ctx);
}

// Other arguments: says which of them is not accepted.

template <class F, class X, class... Policies>
  requires(!detail::quantizer_target<F> || (!detail::viewable<X> && !detail::row_of_values<X> && !detail::is_batch<X>))
void quantize(const X&, const Policies&...) {
  constexpr bool is_format = detail::quantizer_target<F>,
                 is_matrix = detail::viewable<X> || detail::contiguous_values<X> || detail::is_batch<X>,
                 is_known = !detail::contiguous_values<X> || detail::viewable<X> || detail::row_of_values<X>;
  static_assert(is_format,
                "quantize<F>: F is a block format, such as nvfp4 or block_format<fp4<E2M1>, e4m3, 16>, or a "
                "compat preset");
  static_assert(is_matrix, "quantize: x is a matrix_view, a matrix, a span, array or vector, or a matrix_batch");
  static_assert(is_known,
                "quantize: the elements of x are float, bf16 or fp16 (matrix_element lists the types); convert "
                "others, such as double, first");
}
template <class X, class... Policies>
  requires(!detail::viewable<X> && !detail::is_batch<X>)
void quantize(const format_spec&, const X&, const Policies&...) {
  constexpr bool is_matrix = detail::viewable<X>;
  static_assert(is_matrix, "quantize: x is a matrix_view, matrix or matrix_batch of float, bf16 or fp16");
}
/// A function is not a policy.
template <class F, class X, class... Policies>
void quantize(const X&, float (*)(float), const Policies&...) {
  static_assert(std::is_void_v<F>,
                "quantize: a rounding policy is a class such as nearest_even, stochastic, or one of "
                "your own (rounding_policy in concepts.hpp), not a function");
}

}  // namespace ufp4::inline UFP4_CODE
