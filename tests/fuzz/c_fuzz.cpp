// ufp4 - fuzz target: the C interface. Structures with wrong members give a status with a message; nothing is written.
// SPDX-License-Identifier: Apache-2.0
//
// Memory is as large as the first, valid structure says; then members change that a function can check: sizes, enums,
// NULL addresses, formats, transforms. Any structure may also be NULL as a whole. AddressSanitizer sees reads and
// writes outside the memory.
#include <ufp4/c/functions.hpp>

#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "input.hpp"

namespace {

using fuzz::require;

/// A number that no valid structure has, or one that is off by a little.
template <class T>
T strange(fuzz::input& in, T now) {
  switch (in.below(8)) {
    case 0: return static_cast<T>(now + 1);
    case 1: return static_cast<T>(now - 1);
    case 2: return std::numeric_limits<T>::max();
    case 3: return std::numeric_limits<T>::min();
    case 4: return static_cast<T>(now * 2);
    case 5: return T{0};
    case 6: return static_cast<T>(std::numeric_limits<T>::max() / 2 + 1);
    default: return in.raw<T>();
  }
}

/// The bytes of a call's output before it, to compare with those after a call that failed.
struct memory {
  std::vector<std::uint8_t> bytes;
  explicit memory(std::size_t size) : bytes(size, 0xA5) {}
};

std::size_t size_of(std::int32_t dtype) { return dtype == UFP4_F32 ? 4 : 2; }

/// A structure, or no structure.
template <class T>
T* maybe(fuzz::input& in, T& structure) {
  return in.one_in(64) ? nullptr : &structure;
}

/// A matrix and its memory: rows or columns contiguous or with gaps, in either direction; an input may also repeat one
/// row or column (stride 0).
struct c_matrix : ufp4_matrix, memory {
  enum class use { input, output };

  c_matrix(fuzz::input& in, std::size_t r, std::size_t k, use what)
      : ufp4_matrix{nullptr, r, k, 0, 0, static_cast<std::int32_t>(in.below(3))}, memory(0) {
    const bool by_columns = in.one_in(4);
    const std::size_t gap = in.one_in(4) ? 1 + in.below(3) : 0, step = in.one_in(4) ? 2 + in.below(2) : 1;
    const bool up = in.one_in(4), left = in.one_in(8), repeats = what == use::input && in.one_in(16);
    row_stride = static_cast<std::ptrdiff_t>(by_columns ? step : k * step + gap);
    col_stride = static_cast<std::ptrdiff_t>(by_columns ? r * step + gap : step);
    if (repeats) (in.one_in(2) ? row_stride : col_stride) = 0;
    const std::size_t down = r == 0 ? 0 : (r - 1) * static_cast<std::size_t>(row_stride);
    const std::size_t across = k == 0 ? 0 : (k - 1) * static_cast<std::size_t>(col_stride);
    if (r == 0 || k == 0) return;
    bytes.assign((down + across + 1) * size_of(dtype), 0xA5);
    data = bytes.data() + ((up ? down : 0) + (left ? across : 0)) * size_of(dtype);
    if (up) row_stride = -row_stride;
    if (left) col_stride = -col_stride;
    in.fill(bytes.data(), bytes.size());
  }
  /// Members that a function checks. Strides and addresses that it trusts stay inside the memory.
  void disturb(fuzz::input& in) {
    switch (in.below(3)) {
      case 0:
        dtype = in.below(2) == 0 ? 3 + static_cast<std::int32_t>(in.below(200))
                                 : -1 - static_cast<std::int32_t>(in.below(9));
        break;
      case 1: data = nullptr; break;
      default: rows = std::numeric_limits<std::size_t>::max() / (1 + in.below(4)), data = nullptr;
    }
  }
};

struct c_quantized : ufp4_quantized {
  memory code_memory{0}, scale_memory{0};

  /// Canonical in formats of one byte, which are not prepacked.
  c_quantized(const ufp4_format& f, std::size_t r, std::size_t k, const ufp4_transform& t, bool prepacked)
      : ufp4_quantized{} {
    require((prepacked && f.element == UFP4_ELEMENT_4_BITS ? ufp4_prepacked_init : ufp4_quantized_init)(
                &f, r, k, &t, this) == UFP4_OK,
            ufp4_error_message());
    code_memory = memory(codes_size), scale_memory = memory(scales_size);
    codes = code_memory.bytes.data();
    scales = scale_memory.bytes.data();
  }
  c_quantized(const c_quantized&) = delete;
  void fill(fuzz::input& in) {
    in.fill(code_memory.bytes.data(), codes_size);
    in.fill(scale_memory.bytes.data(), scales_size);
  }
  void disturb(fuzz::input& in) {
    switch (in.below(14)) {
      case 0: codes_size = strange(in, codes_size); break;
      case 1: scales_size = strange(in, scales_size); break;
      case 2: rows = strange(in, rows); break;
      case 3: cols = strange(in, cols); break;
      case 4: codes = nullptr; break;
      case 5: scales = nullptr; break;
      case 6: layout = strange(in, layout); break;
      case 7: format.scale = strange(in, format.scale); break;
      case 8: format.block_rows = strange(in, format.block_rows); break;
      case 9: format.block_cols = strange(in, format.block_cols); break;
      case 10: format.values[in.below(16)] = in.raw<float>(); break;
      case 11: format.element = strange(in, format.element); break;
      case 12: format.has_tensor_scale = strange(in, format.has_tensor_scale); break;
      default: transform.n = strange(in, transform.n);
    }
  }
};

ufp4_format preset(fuzz::input& in) {
  constexpr const char* wide[] = {"int8_f32", "mxint8", "mxfp8_e5m2", "mxfp6_e2m3"};  // known by name only
  const std::size_t count = ufp4_preset_count(), i = in.below(count + std::size(wide));
  ufp4_format format;
  require(ufp4_preset(i < count ? ufp4_preset_name(i) : wide[i - count], &format) == UFP4_OK, "a preset is unknown");
  return format;
}
ufp4_transform transform(fuzz::input& in) {
  ufp4_transform t{};
  if (in.one_in(2)) require(ufp4_random_hadamard(16u << in.below(3), in.byte(), &t) == UFP4_OK, ufp4_error_message());
  return t;
}
ufp4_context context(fuzz::input& in) {
  ufp4_context c = UFP4_CONTEXT_INIT;
  c.threads = 1;
  if (in.one_in(16)) c.threads = strange(in, c.threads) % 4;
  if (in.one_in(16)) c.isa = in.one_in(2) ? "scalar" : "no such instruction set";
  if (in.one_in(32)) c.struct_size = strange(in, c.struct_size);
  return c;
}
ufp4_quantize_options quantize_options(fuzz::input& in, ufp4_counts& counts) {
  ufp4_quantize_options o = UFP4_QUANTIZE_OPTIONS_INIT;
  o.seed = in.byte(), o.counts = in.one_in(2) ? &counts : nullptr;
  o.rounding = static_cast<std::int32_t>(in.below(in.one_in(8) ? 256 : 4));
  o.rule = in.one_in(2) ? 0 : static_cast<std::int32_t>(in.below(in.one_in(8) ? 256 : UFP4_RULE_PERCENTILE + 1));
  if (o.rule == UFP4_RULE_PERCENTILE || in.one_in(16)) o.per_mille = static_cast<std::int32_t>(in.below(1003)) - 1;
  o.searches = in.one_in(8), o.undo_transform = in.one_in(16);
  if (o.searches != 0 || in.one_in(16)) {
    o.error = static_cast<std::int32_t>(in.below(in.one_in(8) ? 256 : 2));
    o.search_below = static_cast<std::int32_t>(in.below(in.one_in(4) ? 300 : 6)) - 1;
    o.search_above = static_cast<std::int32_t>(in.below(in.one_in(4) ? 300 : 6)) - 1;
  }
  if (in.one_in(8)) o.choose_grid = static_cast<std::int32_t>(in.below(in.one_in(8) ? 256 : 3));
  if (in.one_in(32)) o.struct_size = strange(in, o.struct_size);
  if (in.one_in(4)) o.has_amax = 1, o.tensor_amax = in.raw<float>();
  if (in.one_in(8))
    o.has_shard = 1, o.first_row = in.below(64), o.first_col = in.below(64),
    o.total_cols = strange<std::size_t>(in, 256);
  return o;
}
ufp4_gemm_options gemm_options(fuzz::input& in) {
  ufp4_gemm_options o = UFP4_GEMM_OPTIONS_INIT;
  if (in.one_in(4)) o.alpha = in.raw<float>();
  if (in.one_in(4)) o.beta = in.raw<float>();
  o.accumulate = static_cast<std::int32_t>(in.below(in.one_in(8) ? 256 : 3));
  if (in.one_in(32)) o.struct_size = strange(in, o.struct_size);
  return o;
}

/// A status and a message that belong together; a call that failed has left the outputs as they were.
template <class F>
void checked(const char* operation, std::initializer_list<const memory*> outputs, const F& call) {
  std::vector<std::vector<std::uint8_t>> before;
  for (const memory* output : outputs) before.push_back(output->bytes);
  const std::int32_t status = call();
  const std::string name = operation;
  require(status == UFP4_OK || status == UFP4_INVALID_ARGUMENT,
          name + ": status " + std::to_string(status) + ": " + ufp4_error_message());
  if (status == UFP4_OK) return;
  require(std::string(ufp4_error_message()).size() > 10, name + ": an error without a message");
  std::size_t i = 0;
  for (const memory* output : outputs) require(output->bytes == before[i++], name + ": wrote before it failed");
}

void check_quantize(fuzz::input& in) {
  const std::size_t rows = in.below(9), cols = in.below(140);
  const ufp4_format format = preset(in);
  const ufp4_transform t = transform(in);
  const ufp4_context ctx = context(in);
  ufp4_counts counts{};
  const ufp4_quantize_options options = quantize_options(in, counts);
  c_matrix x(in, rows, cols, c_matrix::use::input), out(in, rows, cols, c_matrix::use::output);
  c_quantized q(format, rows, cols, t, false), packed(format, rows, cols, t, true);
  if (in.one_in(4)) x.disturb(in);
  if (in.one_in(4)) q.disturb(in);
  if (in.one_in(8)) out.disturb(in);
  const ufp4_context* const on = maybe(in, ctx);
  const ufp4_quantize_options* const with = maybe(in, options);
  const ufp4_matrix *const from = maybe(in, x), *const to = maybe(in, out);
  ufp4_quantized *const made = maybe<ufp4_quantized>(in, q), *const prepacked = maybe<ufp4_quantized>(in, packed);
  char text[64];
  checked("explain", {}, [&] {
    return ufp4_explain_quantize(on, from, with, made, in.one_in(64) ? nullptr : text, in.below(sizeof text));
  });
  checked("quantize", {&q.code_memory, &q.scale_memory}, [&] { return ufp4_quantize(on, from, with, made); });
  const std::uint64_t seed = in.below(4), stream = in.below(4);
  checked("ms_eden", {&q.code_memory, &q.scale_memory},
          [&] { return ufp4_quantize_ms_eden(on, from, seed, stream, made); });
  checked("prepack", {&packed.code_memory, &packed.scale_memory}, [&] { return ufp4_prepack(on, made, prepacked); });
  checked("dequantize", {&out}, [&] { return ufp4_dequantize(on, in.one_in(2) ? made : prepacked, to); });
  ufp4_format changed = format;
  if (in.one_in(8)) changed.block_cols = strange(in, changed.block_cols);
  ufp4_transform other = t;
  if (in.one_in(8)) other.n = strange(in, other.n);
  const ufp4_format* const as = maybe(in, changed);
  const ufp4_transform* const first = maybe(in, other);
  ufp4_report report;
  float amax;
  checked("fake_quantize", {&out}, [&] { return ufp4_fake_quantize(on, as, from, first, with, to); });
  checked("measure", {}, [&] { return ufp4_measure(on, as, from, first, with, maybe(in, report)); });
  c_quantized other_format(preset(in), rows, in.one_in(16) ? cols + 1 : cols, t, false);
  if (in.one_in(4)) other_format.disturb(in);
  ufp4_cast_report lost{};
  checked("cast", {&other_format.code_memory, &other_format.scale_memory},
          [&] { return ufp4_cast(on, made, maybe<ufp4_quantized>(in, other_format), maybe(in, lost)); });
  checked("amax", {}, [&] { return ufp4_amax(on, from, first, maybe(in, amax)); });
  checked("forward", {&out}, [&] { return ufp4_hadamard_forward(on, from, first, to); });
  checked("inverse", {&out}, [&] { return ufp4_hadamard_inverse(on, from, first, to); });
}

void check_gemm(fuzz::input& in) {
  const std::size_t m = in.below(9), n = in.below(40), k = in.below(100);
  const ufp4_format format = preset(in), other = in.one_in(4) ? preset(in) : format;
  const ufp4_transform t = transform(in);
  const ufp4_context ctx = context(in);
  c_quantized left(format, m, k, t, false), right(other, n, in.one_in(16) ? k + 1 : k, t, in.one_in(4));
  left.fill(in), right.fill(in);
  c_matrix result(in, m, n, c_matrix::use::output), plain(in, m, k, c_matrix::use::input);
  if (in.one_in(4)) left.disturb(in);
  if (in.one_in(4)) right.disturb(in);
  if (in.one_in(8)) result.disturb(in);
  if (in.one_in(8)) plain.disturb(in);
  const ufp4_gemm_options options = gemm_options(in);
  const ufp4_context* const on = maybe(in, ctx);
  const ufp4_gemm_options* const with = maybe(in, options);
  const ufp4_quantized *const a = maybe<ufp4_quantized>(in, left), *const b = maybe<ufp4_quantized>(in, right);
  const ufp4_matrix *const c = maybe(in, result), *const x = maybe(in, plain);
  char text[64];
  checked("explain", {},
          [&] { return ufp4_explain_gemm(on, a, b, c, with, in.one_in(64) ? nullptr : text, in.below(sizeof text)); });
  checked("gemm", {&result}, [&] { return ufp4_gemm(on, a, b, c, with); });
  checked("gemm_mixed", {&result}, [&] { return ufp4_gemm_mixed(on, x, b, c, with); });
  checked("grouped", {&result}, [&] { return ufp4_gemm_grouped(on, in.below(2), a, b, c, with); });
}

/// Layers of up to three experts. Wrong offsets stay inside the array, whose length no call knows.
void check_grouped(fuzz::input& in, const ufp4_context* on, const ufp4_recipe* recipe) {
  using enum c_matrix::use;
  const std::size_t experts = 1 + in.below(3), n = in.below(20), k = in.below(40);
  std::vector<std::size_t> offsets(experts + 1);
  for (std::size_t e = 0; e < experts; ++e) offsets[e + 1] = offsets[e] + in.below(5);
  c_matrix x(in, offsets[experts], k, input), w(in, experts * n, k, input), y(in, offsets[experts], n, output);
  c_matrix dx(in, offsets[experts], k, output), dw(in, experts * n, k, output);
  if (in.one_in(4)) offsets[in.below(experts + 1)] = in.raw<std::size_t>();
  const std::size_t count = in.one_in(16) ? (in.one_in(2) ? 0 : experts + 65536) : experts;
  const std::size_t* const at = in.one_in(16) ? nullptr : offsets.data();
  const auto mode = static_cast<std::int32_t>(in.below(2));
  const ufp4_matrix *const xs = maybe(in, x), *const ws = maybe(in, w), *const ys = maybe(in, y);
  checked("forward", {&y}, [&] { return ufp4_linear_forward_grouped(on, recipe, count, at, xs, ws, nullptr, ys); });
  checked("dgrad", {&dx},
          [&] { return ufp4_linear_backward_input_grouped(on, recipe, count, at, ys, ws, maybe(in, dx), mode); });
  checked("wgrad", {&dw},
          [&] { return ufp4_linear_backward_weight_grouped(on, recipe, count, at, ys, xs, maybe(in, dw), mode); });
}

void check_linear(fuzz::input& in) {
  using enum c_matrix::use;
  const std::size_t t = in.below(9), n = in.below(40), k = in.below(40);
  const ufp4_context ctx = context(in);
  ufp4_recipe recipe = UFP4_RECIPE_INIT;
  recipe.name = in.one_in(16) ? "no such recipe" : ufp4_recipe_name(in.below(ufp4_recipe_count()));
  if (in.one_in(64)) recipe.name = nullptr;
  recipe.layer = in.one_in(16) ? in.raw<std::uint32_t>() : 3;
  recipe.accumulate = static_cast<std::int32_t>(in.below(in.one_in(8) ? 256 : 3));
  if (in.one_in(32)) recipe.struct_size = strange(in, recipe.struct_size);
  c_matrix x(in, t, k, input), w(in, n, in.one_in(8) ? k + 1 : k, input), y(in, t, n, output);
  c_matrix dx(in, t, k, output), dw(in, n, k, output);
  for (c_matrix* one : {&x, &w, &y, &dx, &dw})
    if (in.one_in(16)) one->disturb(in);
  const auto mode = static_cast<std::int32_t>(in.below(in.one_in(8) ? 256 : 2));
  const ufp4_context* const on = maybe(in, ctx);
  const ufp4_recipe* const now = maybe(in, recipe);
  const ufp4_matrix *const xs = maybe(in, x), *const ws = maybe(in, w), *const ys = maybe(in, y);
  checked("forward", {&y}, [&] { return ufp4_linear_forward(on, now, xs, ws, nullptr, ys); });
  checked("dgrad", {&dx}, [&] { return ufp4_linear_backward_input(on, now, ys, ws, maybe(in, dx), mode); });
  checked("wgrad", {&dw}, [&] { return ufp4_linear_backward_weight(on, now, ys, xs, maybe(in, dw), mode); });
  check_grouped(in, on, now);
}

/// Shapes as data: storage is computed, or an overflow is reported.
void check_sizes(fuzz::input& in) {
  ufp4_format format = preset(in);
  if (in.one_in(2)) in.fill(&format, sizeof format);
  ufp4_transform t = transform(in);
  if (in.one_in(4)) t.n = in.raw<std::uint32_t>();
  ufp4_quantized q{};
  const auto rows = in.raw<std::size_t>(), cols = in.raw<std::size_t>();
  const ufp4_format* const as = maybe(in, format);
  const ufp4_transform* const first = maybe(in, t);
  checked("init", {}, [&] { return ufp4_quantized_init(as, rows, cols, first, maybe(in, q)); });
  checked("prepacked", {}, [&] { return ufp4_prepacked_init(as, rows, cols, first, maybe(in, q)); });
  checked("hadamard", {}, [&] { return ufp4_hadamard(in.raw<std::uint32_t>(), maybe(in, t)); });
  checked("random", {}, [&] { return ufp4_random_hadamard(in.raw<std::uint32_t>(), in.byte(), maybe(in, t)); });
  checked("preset", {}, [&] { return ufp4_preset(in.one_in(2) ? nullptr : "mxfp4", maybe(in, format)); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  switch (in.below(4)) {
    case 0: check_sizes(in); break;
    case 1: check_linear(in); break;
    case 2: check_gemm(in); break;
    default: check_quantize(in);
  }
  return 0;
}
