// ufp4 - the structures of ufp4.h, checked, as the types of the C++ operations.
// SPDX-License-Identifier: Apache-2.0
//
// Checks what C++ types exclude: null pointers, numbers that are no enumerator, sizes that do not belong to a shape.
#pragma once

#include <cstddef>
#include <ufp4/c/guard.hpp>
#include <ufp4/ufp4.hpp>

namespace ufp4::c::detail::inline UFP4_CODE {

using namespace ufp4::detail;

/// The struct behind a pointer that must not be null.
template <class T>
T& given(const char* argument, T* pointer) {
  expects(pointer != nullptr, argument, " is NULL");
  return *pointer;
}

/// The offset of the last member of a structure in the header of version 0.1, an int32_t.
constexpr std::size_t last_in_0_1(const ufp4_context*) { return offsetof(ufp4_context, threads); }
constexpr std::size_t last_in_0_1(const ufp4_quantize_options*) {
  return offsetof(ufp4_quantize_options, undo_transform);
}
constexpr std::size_t last_in_0_1(const ufp4_gemm_options*) { return offsetof(ufp4_gemm_options, accumulate); }
constexpr std::size_t last_in_0_1(const ufp4_recipe*) { return offsetof(ufp4_recipe, accumulate); }
/// The size of the structure there. A member that is added later begins at this offset or behind it, not in the padding
/// before it, which programs of version 0.1 leave without a value.
template <class T>
inline constexpr std::size_t size_in_0_1 =
    (last_in_0_1(static_cast<T*>(nullptr)) + sizeof(std::int32_t) + alignof(T) - 1) / alignof(T) * alignof(T);

/// A structure that may be absent: the defaults. Its size tells the version of the header that the caller has: members
/// that this header lacks have their defaults, and are not read. A call only reads structures that have a size.
template <class T>
T with_defaults(const char* argument, const T* pointer, const T& defaults) {
  if (pointer == nullptr) return defaults;
  const std::size_t size = pointer->struct_size;
  expects(size >= size_in_0_1<T>, argument, ".struct_size must be at least ", size_in_0_1<T>, ", got ", size,
          "; initialise it with its _INIT macro");
  expects(size <= sizeof(T), argument, ".struct_size must be at most ", sizeof(T), ", got ", size,
          ": the library, version ", version_string, ", is older than the ufp4.h of the program");
  T out = defaults;
  std::memcpy(&out, pointer, size);
  return out;
}

/// One of the values 0 .. last of an enumeration of the interface.
template <class Enum>
Enum chosen(const char* member, std::int32_t value, std::int32_t last) {
  expects(value >= 0 && value <= last, member, " must be 0 to ", last, ", got ", value);
  return static_cast<Enum>(value);
}
inline bool flag(const char* member, std::int32_t value) {
  expects(value == 0 || value == 1, member, " must be 0 or 1, got ", value);
  return value == 1;
}
inline std::uint8_t steps(const char* member, std::int32_t value) {
  expects(value >= -1 && value <= 254, member, " must be -1 to 254, got ", value);
  return value < 0 ? ufp4::detail::search_window::by_format : static_cast<std::uint8_t>(value);
}

inline cpu::isa isa_of(const char* wanted) {
  if (wanted == nullptr) return cpu::isa::automatic;
  for (const cpu::isa i : cpu::all_isas)
    if (std::string_view(cpu::name(i)) == wanted) return i;
  expects(false, "context.isa: ", wanted, " is not an instruction set of ufp4");
  return cpu::isa::automatic;
}

/// A context and, while it is used, the caller's executor as a C++ one.
class context_of {
 public:
  context_of(const ufp4_context* c) : given_(with_defaults("context", c, ufp4_context UFP4_CONTEXT_INIT)) {
    context_.threads = given_.threads;
    expects(given_.threads >= 0, "context.threads must not be negative, got ", given_.threads);
    context_.isa = isa_of(given_.isa);
    if (given_.executor != nullptr) context_.executor = cpu::executor_ref(*this);
  }
  context_of(const context_of&) = delete;
  void operator()(std::size_t count, ufp4::cpu::task_ref task) const {
    given_.executor(given_.executor_state, count, task.call, task.object);
  }
  operator const cpu::context&() const { return context_; }

 private:
  ufp4_context given_;
  cpu::context context_;
};

inline transform_spec transform_of(const ufp4_transform* t) {
  transform_spec out;
  if (t == nullptr || t->n == 0) return out;
  out.n = t->n;
  expects(t->rounds_to_bf16 <= 1, "transform.rounds_to_bf16 must be 0 or 1, got ", t->rounds_to_bf16);
  out.rounds_to_bf16 = t->rounds_to_bf16 == 1;
  for (int w = 0; w < 8; ++w) out.signs[w] = t->signs[w];
  return out;
}
inline ufp4_transform to_c(const transform_spec& t) {
  ufp4_transform out{t.n, t.rounds_to_bf16 ? 1u : 0u, {}};
  for (int w = 0; w < 8; ++w) out.signs[w] = t.signs[w];
  return out;
}

/// The grid of a preset with these values, bit for bit; one of the program's own otherwise.
inline grid4 grid_of_format(const ufp4_format& f) {
  grid4 grid{};
  ufp4::detail::for_each_row(ufp4::detail::presets{}, [&](auto row) {
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): -0 is another value than 0
    if (std::memcmp(row.spec.grid.value, f.values, sizeof f.values) == 0) grid = row.spec.grid;
  });
  if (grid.levels == 0) grid = grid4::of(f.values);
  if (grid.levels != 0) return grid;
  int zeros = 0, finite = 0;
  for (const float value : f.values) zeros += value == 0, finite += is_finite(value);
  expects(false, "format.values must be finite, one of them zero and one not, got ", finite, " finite values and ",
          zeros, " zeros");
  return grid;
}
/// The constants of elements of one byte; their values must be 0 .. 15 units, or those of the float's first codes.
inline grid4 byte_grid_of_format(const ufp4_format& f, ufp4::detail::byte_element kind) {
  const float unit = f.values[1];
  const bool integers = kind == ufp4::detail::byte_element::int8;
  for (std::uint32_t c = 0; c < 16; ++c) {
    expects(integers || f.values[c] == ufp4::detail::byte_float_value(kind, c),
            "format.values must be those of the codes 0 to 15 of format.element ", f.element, ", got ", f.values[c],
            " as values[", c, "]");
    expects(!integers || f.values[c] == static_cast<float>(c) * unit,
            "format.values of UFP4_ELEMENT_INT8 must be 0 to 15 times values[1], ", unit, ", got ", f.values[c],
            " as values[", c, "]");
  }
  return ufp4::detail::byte_grid(kind, unit);
}
/// ufp4_format::has_tensor_scale of extended preset i: a format that the other members do not describe.
inline constexpr std::int32_t first_extended = 256;

inline ufp4_format to_c(const format_spec& f) {
  ufp4_format out{{},           static_cast<std::int32_t>(f.scale), f.block.rows,
                  f.block.cols, f.has_tensor_scale() ? 1 : 0,       static_cast<std::int32_t>(f.byte)};
  for (std::uint8_t c = 0; c < 16; ++c) out.values[c] = value_of(f, c);
  std::int32_t mark = first_extended;
  ufp4::detail::for_each_row(ufp4::detail::extended_presets{}, [&](auto row) {
    if (f == row.spec) out.has_tensor_scale = mark;
    ++mark;
  });
  return out;
}
/// The extended preset with that mark, whose other members must be as ufp4_preset stored them.
inline format_spec extended_format(const ufp4_format& f) {
  format_spec found{};
  std::int32_t mark = first_extended;
  ufp4::detail::for_each_row(ufp4::detail::extended_presets{}, [&](auto row) {
    if (f.has_tensor_scale == mark++) found = row.spec;
  });
  expects(found.grid.levels != 0, "invalid format.has_tensor_scale ", f.has_tensor_scale);
  const ufp4_format expected = to_c(found);
  // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): a structure without padding
  expects(std::memcmp(&expected, &f, sizeof f) == 0, "a member of the format ",
          std::string(ufp4::detail::preset_name(found)), " was changed; only its name, in ufp4_preset, selects it");
  return found;
}

inline format_spec format_of(const ufp4_format* format) {
  const ufp4_format& f = given("format", format);
  if (f.has_tensor_scale >= first_extended) return extended_format(f);
  const auto scale = chosen<scale_kind>("format.scale", f.scale, UFP4_SCALE_E8M0);
  const auto byte = chosen<ufp4::detail::byte_element>("format.element", f.element, UFP4_ELEMENT_E2M3);
  format_spec out{byte == ufp4::detail::byte_element::none ? grid_of_format(f) : byte_grid_of_format(f, byte),
                  scale,
                  {f.block_rows, f.block_cols},
                  flag("format.has_tensor_scale", f.has_tensor_scale) ? outer_scale::per_tensor() : outer_scale{},
                  byte};
  check_format(function, out);
  return out;
}

/// Rejects an address that is no multiple of the width of the elements there.
inline void check_alignment(const char* argument, const char* member, const void* address, std::size_t width) {
  if (reinterpret_cast<std::uintptr_t>(address) % width == 0) return;
  char digits[32];
  std::snprintf(digits, sizeof digits, "%p", address);
  expects(false, argument, member, " must be aligned to ", width, " bytes, got ", digits);
}
inline sink matrix_of(const char* argument, const ufp4_matrix* matrix) {
  const ufp4_matrix& m = given(argument, matrix);
  const std::string member = std::string(argument) + ".dtype";
  const sink out{m.data, chosen<dtype>(member.c_str(), m.dtype, UFP4_FP16), m.rows, m.cols, m.row_stride, m.col_stride};
  check_data(function, argument, out);
  check_alignment(argument, ".data", m.data, out.kind == dtype::f32 ? 4 : 2);
  return out;
}
inline source source_of(const sink& m) { return {m.data, m.kind, m.rows, m.cols, m.row_stride, m.col_stride}; }

/// Calls body with the matrix as a matrix_view of its element type.
template <class Body>
void with_view(const sink& m, const Body& body) {
  const auto as = [&]<class T>(T*) {
    body(matrix_view<T>(static_cast<T*>(m.data), m.rows, m.cols, m.row_stride, m.col_stride));
  };
  switch (m.kind) {
    case dtype::f32: return as(static_cast<float*>(nullptr));
    case dtype::bf16: return as(static_cast<bf16*>(nullptr));
    case dtype::fp16: return as(static_cast<fp16*>(nullptr));
  }
}
template <class Body>
void with_views(const sink& x, const sink& y, const Body& body) {
  with_view(x, [&](const auto& first) { with_view(y, [&](const auto& second) { body(first, second); }); });
}

/// Codes and scales of a quantized matrix against its shape.
inline quantized_storage storage_of(const char* argument, const ufp4_quantized& q, std::int32_t layout,
                                    const format_spec& format) {
  expects(q.layout == layout, argument, ".layout must be ",
          layout == UFP4_CANONICAL ? "UFP4_CANONICAL" : "UFP4_PREPACKED", ", got ", q.layout);
  check_alignment(argument, ".scales", q.scales, static_cast<std::size_t>(scale_bytes(format.scale)));
  const quantized_storage memory{{q.codes, q.codes_size}, {static_cast<std::byte*>(q.scales), q.scales_size}};
  const quantized_shape shape{format, 1, q.rows, q.cols, transform_of(&q.transform)};
  const std::string what = std::string(function) + ": " + argument;
  if (layout == UFP4_CANONICAL)
    check_spans(what.c_str(), shape, memory.codes, memory.scales);
  else
    check_prepacked_spans(what.c_str(), shape, memory.codes, memory.scales);
  return memory;
}

template <class View = any_quantized_view>
View view_of(const char* argument, const ufp4_quantized* quantized) {
  constexpr std::int32_t layout = std::is_same_v<View, any_quantized_view> ? UFP4_CANONICAL : UFP4_PREPACKED;
  const ufp4_quantized& q = given(argument, quantized);
  const format_spec format = format_of(&q.format);
  const quantized_storage memory = storage_of(argument, q, layout, format);
  return {format, memory.codes, memory.scales, q.tensor_scale, q.rows, q.cols, transform_of(&q.transform)};
}
inline bool is_prepacked(const ufp4_quantized* q) { return q != nullptr && q->layout != UFP4_CANONICAL; }

inline gemm_options options_of(const ufp4_gemm_options* given_options, std::size_t columns) {
  const auto o = with_defaults("options", given_options, ufp4_gemm_options UFP4_GEMM_OPTIONS_INIT);
  gemm_options out{.alpha = o.alpha,
                   .beta = o.beta,
                   .accumulate = chosen<accumulate>("options.accumulate", o.accumulate, UFP4_FOLDED_BF16)};
  if (o.bias != nullptr) out.bias = {o.bias, columns};
  return out;
}

/// The policies of a call. They refer to `counted`, which the caller's counts are copied from.
inline ufp4::detail::quantize_options<> options_of(const ufp4_quantize_options& o, const transform_spec& transform,
                                                   quantize_report& counted) {
  ufp4::detail::quantize_options<> out;
  out.transform = transform;
  out.rounding.what = chosen<rounding_spec::kind>("options.rounding", o.rounding, UFP4_EDEN);
  out.rounding.random_bits = {.seed = o.seed, .stream = o.stream};
  out.rule.what = chosen<ufp4::scale_rule_spec::kind>("options.rule", o.rule, UFP4_RULE_PERCENTILE);
  out.rule.searches = flag("options.searches", o.searches);
  out.rule.error = chosen<search_error>("options.error", o.error, UFP4_ABSOLUTE_ERROR);
  out.rule.grids = chosen<search_error>("options.choose_grid", o.choose_grid, UFP4_LARGEST_ERROR);
  out.rule.window = {steps("options.search_below", o.search_below), steps("options.search_above", o.search_above)};
  expects(o.per_mille >= 1 && o.per_mille <= 1000, "options.per_mille must be 1 to 1000, got ", o.per_mille);
  out.rule.per_mille = static_cast<std::uint16_t>(o.per_mille);
  out.has_amax = flag("options.has_amax", o.has_amax);
  out.global_amax = out.has_amax ? o.tensor_amax : 0.0f;
  out.has_shard = flag("options.has_shard", o.has_shard);
  if (out.has_shard) out.place = {o.first_row, o.first_col, o.total_cols};
  out.undo = flag("options.undo_transform", o.undo_transform);
  if (o.counts != nullptr) out.report = &counted;
  return out;
}
/// Calls body with the policies of a call, and adds what it counts to the caller's counts.
template <class Body>
void with_options(const ufp4_quantize_options* given_options, const ufp4_transform* transform, const Body& body) {
  const auto o = with_defaults("options", given_options, ufp4_quantize_options UFP4_QUANTIZE_OPTIONS_INIT);
  quantize_report counted;
  body(options_of(o, transform_of(transform), counted));
  if (o.counts == nullptr) return;
  o.counts->nonfinite_blocks += counted.nonfinite_blocks;
  o.counts->saturated += counted.saturated;
  o.counts->underflowed_scales += counted.underflowed_scales;
}

inline void add_cast(ufp4_cast_report* to, const cast_report& from) {
  if (to == nullptr) return;
  to->blocks += from.blocks;
  to->inexact_blocks += from.inexact_blocks;
  to->inexact_elements += from.inexact_elements;
  to->signal += from.signal;
  to->noise += from.noise;
}

inline ufp4_report to_c(const analysis::report& r) {
  ufp4_report out{};
  out.attenuation = r.attenuation, out.sqnr_db = r.sqnr_db, out.bucket_utilization = r.bucket_utilization;
  out.scale_underflow_rate = r.scale_underflow_rate, out.saturation_rate = r.saturation_rate;
  out.nonfinite_blocks = r.nonfinite_blocks, out.elements = r.elements, out.blocks = r.blocks;
  for (std::size_t c = 0; c < 16; ++c) out.histogram[c] = r.histogram[c];
  return out;
}

}  // namespace ufp4::c::detail::inline UFP4_CODE
