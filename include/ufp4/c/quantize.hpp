// ufp4 - definitions of the functions of ufp4.h about formats, transforms and quantized matrices (functions.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/c/convert.hpp>

namespace ufp4::c::detail::inline UFP4_CODE {

/// Both kinds of init: shape and sizes, without memory.
inline void describe(const ufp4_format* format, std::size_t rows, std::size_t cols, const ufp4_transform* transform,
                     std::int32_t layout, ufp4_quantized* q) {
  given("q", q);
  const format_spec f = format_of(format);
  const transform_spec t = transform_of(transform);
  const quantized_shape shape{f, 1, rows, cols, t};
  const ufp4::detail::quantized_size size =
      layout == UFP4_CANONICAL ? storage_of(function, shape) : prepacked_size(function, shape);
  *q = {*format, to_c(t), rows, cols, nullptr, nullptr, size.codes, size.scales, 1.0f, layout};
}

inline void transform_into(const transform_spec& t, ufp4_transform* out) {
  given("transform", out);
  check_length(function, t);
  *out = to_c(t);
}

inline void hadamard(bool inverse, const ufp4_context* context, const ufp4_matrix* x, const ufp4_transform* transform,
                     const ufp4_matrix* out) {
  const context_of ctx(context);
  const transform_spec t = transform_of(&given("transform", transform));
  with_views(matrix_of("x", x), matrix_of("out", out), [&](const auto& from, const auto& to) {
    if (inverse)
      hadamard_inverse(from, to, t, ctx);
    else
      hadamard_forward(from, to, t, ctx);
  });
}

inline void copy_text(const std::string& from, char* text, std::size_t size) {
  given("text", text);
  expects(size != 0, "size is 0");
  const std::size_t length = from.size() < size - 1 ? from.size() : size - 1;
  std::memcpy(text, from.data(), length);
  text[length] = 0;
}
inline source input_of(const ufp4_matrix* x, const ufp4_quantized& q) {
  const source from = source_of(matrix_of("x", x));
  expects(from.rows == q.rows && from.cols == q.cols, "shape mismatch: q is ", q.rows, " x ", q.cols, ", x is ",
          from.rows, " x ", from.cols);
  return from;
}

/// `to` is for a matrix with the rows, the columns and the transform of q.
inline void check_same_matrix(const any_quantized_view& q, const ufp4_quantized& to) {
  expects(to.rows == q.rows() && to.cols == q.cols(), "shape mismatch: to is ", to.rows, " x ", to.cols, ", q is ",
          q.rows(), " x ", q.cols());
  expects(same_map(transform_of(&to.transform), q.transform()), "to.transform is not the transform of q");
}

#pragma GCC visibility push(default)  // of ufp4.h, which g++ does not apply in another namespace
extern "C" {
// NOLINTBEGIN(misc-definitions-in-headers): for one file of a program

std::uint32_t ufp4_abi_version() { return UFP4_ABI_VERSION; }
const char* ufp4_version() { return version_string; }
const char* ufp4_error_message() { return last_failure.text; }

std::size_t ufp4_preset_count() { return presets::size + ufp4::detail::extended_presets::size; }
const char* ufp4_preset_name(std::size_t i) {
  const char* name = nullptr;
  const auto look = [&](auto row) {
    if (i-- == 0) name = row.name;
  };
  ufp4::detail::for_each_row(ufp4::detail::presets{}, look);
  ufp4::detail::for_each_row(ufp4::detail::extended_presets{}, look);
  return name;
}
std::int32_t ufp4_preset(const char* name, ufp4_format* format) {
  return guarded(__func__, [&] {
    given("name", name);
    given("format", format) = to_c(preset(name));
  });
}

std::int32_t ufp4_hadamard(std::uint32_t n, ufp4_transform* transform) {
  return guarded(__func__, [&] { transform_into({.n = n}, transform); });
}
std::int32_t ufp4_random_hadamard(std::uint32_t n, std::uint64_t seed, ufp4_transform* transform) {
  return guarded(__func__, [&] {
    check_length(function, {.n = n});
    transform_into(transform_spec::random(n, seed), transform);
  });
}

std::int32_t ufp4_quantized_init(const ufp4_format* format, std::size_t rows, std::size_t cols,
                                 const ufp4_transform* transform, ufp4_quantized* q) {
  return guarded(__func__, [&] { describe(format, rows, cols, transform, UFP4_CANONICAL, q); });
}
std::int32_t ufp4_prepacked_init(const ufp4_format* format, std::size_t rows, std::size_t cols,
                                 const ufp4_transform* transform, ufp4_quantized* q) {
  return guarded(__func__, [&] { describe(format, rows, cols, transform, UFP4_PREPACKED, q); });
}

std::int32_t ufp4_amax(const ufp4_context* context, const ufp4_matrix* x, const ufp4_transform* transform,
                       float* amax) {
  return guarded(__func__, [&] {
    given("amax", amax);
    const context_of ctx(context);
    const transform_spec t = transform_of(transform);
    with_view(matrix_of("x", x), [&](const auto& view) { *amax = ufp4::amax(view, t, ctx).value; });
  });
}
std::int32_t ufp4_quantize(const ufp4_context* context, const ufp4_matrix* x, const ufp4_quantize_options* options,
                           ufp4_quantized* q) {
  return guarded(__func__, [&] {
    const context_of ctx(context);
    const source from = input_of(x, given("q", q));
    const format_spec format = format_of(&q->format);
    const quantized_storage memory = storage_of("q", *q, UFP4_CANONICAL, format);
    with_options(options, &q->transform, [&](const auto& all) {
      q->tensor_scale = quantize_into_memory<any_quantized_view>(ctx, format, from, memory, all).tensor_scale();
    });
  });
}
std::int32_t ufp4_quantize_ms_eden(const ufp4_context* context, const ufp4_matrix* x, std::uint64_t seed,
                                   std::uint64_t stream, ufp4_quantized* q) {
  return guarded(__func__, [&] {
    const context_of ctx(context);
    const source from = input_of(x, given("q", q));
    expects(format_of(&q->format) == spec_of<nvfp4>, "q.format must be that of ufp4_preset(\"nvfp4\")");
    const transform_spec t = transform_of(&q->transform);
    check_ms_eden(function, from, t);
    const quantized_storage memory = storage_of("q", *q, UFP4_CANONICAL, spec_of<nvfp4>);
    check_memory(memory, from);
    const quantized_sink to{memory.codes.data(), memory.scales.data()};
    q->tensor_scale = quantize_whole_ms_eden(ctx, from, t, {seed, stream}, to);
  });
}
std::int32_t ufp4_dequantize(const ufp4_context* context, const ufp4_quantized* q, const ufp4_matrix* out) {
  return guarded(__func__, [&] {
    const context_of ctx(context);
    with_view(matrix_of("out", out), [&](const auto& view) {
      if (is_prepacked(q))
        dequantize(view_of<ufp4::any_prepacked_view>("q", q), view, ctx);
      else
        dequantize(view_of("q", q), view, ctx);
    });
  });
}
std::int32_t ufp4_fake_quantize(const ufp4_context* context, const ufp4_format* format, const ufp4_matrix* x,
                                const ufp4_transform* transform, const ufp4_quantize_options* options,
                                const ufp4_matrix* out) {
  return guarded(__func__, [&] {
    const context_of ctx(context);
    const source from = source_of(matrix_of("x", x));
    with_options(options, transform,
                 [&](const auto& all) { fake_quantize_to(ctx, from, format_of(format), matrix_of("out", out), all); });
  });
}
std::int32_t ufp4_measure(const ufp4_context* context, const ufp4_format* format, const ufp4_matrix* x,
                          const ufp4_transform* transform, const ufp4_quantize_options* options, ufp4_report* report) {
  return guarded(__func__, [&] {
    given("report", report);
    const context_of ctx(context);
    const source from = source_of(matrix_of("x", x));
    const format_spec f = format_of(format);
    analysis::detail::totals measured;
    with_options(options, transform, [&](const auto& all) { analysis::detail::add_part(ctx, f, from, all, measured); });
    *report = to_c(measured.result(f));
  });
}

std::int32_t ufp4_cast(const ufp4_context* context, const ufp4_quantized* q, ufp4_quantized* to,
                       ufp4_cast_report* report) {
  return guarded(__func__, [&] {
    const context_of ctx(context);
    ufp4_quantized& out = given("to", to);
    const any_quantized_view from = view_of("q", q);
    const format_spec format = format_of(&out.format);
    check_same_matrix(from, out);
    const quantized_storage memory = storage_of("to", out, UFP4_CANONICAL, format);
    cast_report counted;
    out.tensor_scale = cast_into(from, format, memory, counted, ctx).tensor_scale();
    add_cast(report, counted);
  });
}

std::int32_t ufp4_hadamard_forward(const ufp4_context* context, const ufp4_matrix* x, const ufp4_transform* transform,
                                   const ufp4_matrix* out) {
  return guarded(__func__, [&] { hadamard(false, context, x, transform, out); });
}
std::int32_t ufp4_hadamard_inverse(const ufp4_context* context, const ufp4_matrix* x, const ufp4_transform* transform,
                                   const ufp4_matrix* out) {
  return guarded(__func__, [&] { hadamard(true, context, x, transform, out); });
}

std::int32_t ufp4_explain_quantize(const ufp4_context* context, const ufp4_matrix* x,
                                   const ufp4_quantize_options* options, const ufp4_quantized* q, char* text,
                                   std::size_t size) {
  return guarded(__func__, [&] {
    const context_of ctx(context);
    const source from = source_of(matrix_of("x", x));
    const format_spec format = format_of(&given("q", q).format);
    with_options(options, &q->transform, [&](const auto& all) {
      check_quantize(function, format, from, all);
      const auto coder = make_coder(format, all, 0.0f);
      const auto job = make_job(from, format, all);
      copy_text(cpu::detail::explain_quantize<features::all>(ctx, job, coder).text(), text, size);
    });
  });
}
// NOLINTEND(misc-definitions-in-headers)
}
#pragma GCC visibility pop

}  // namespace ufp4::c::detail::inline UFP4_CODE
