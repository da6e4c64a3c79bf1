// ufp4 - the operations in Python that quantize a matrix, or measure what it would lose.
// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <ufp4/c/convert.hpp>

#include "quantized.hpp"
#include "signatures.hpp"

namespace ufp4::python {
namespace {

sink sink_of(const source& x) {
  return {const_cast<void*>(x.data), x.kind, x.rows, x.cols, x.row_stride, x.col_stride};
}

/// Rows first .. first + count - 1.
source rows_of(const source& x, std::size_t first, std::size_t count) {
  source part = x;
  const std::ptrdiff_t bytes = x.kind == dtype::f32 ? 4 : 2;
  part.data = static_cast<const std::byte*>(x.data) + static_cast<std::ptrdiff_t>(first) * x.row_stride * bytes;
  part.rows = count;
  return part;
}

/// Rows of about 2^22 elements, in whole blocks.
std::size_t rows_at_once(const format_spec& format, const source& x) {
  const auto height = static_cast<std::size_t>(format.block.rows);
  const std::size_t fit = (std::size_t{1} << 22) / (x.cols == 0 ? 1 : x.cols) / height * height;
  return fit == 0 ? height : fit;
}

/// Calls body(first row, rows) for parts of a matrix, and progress(done, all) after each.
void for_parts(const format_spec& format, const source& x, nb::handle progress, std::size_t passes, std::size_t pass,
               const std::function<void(std::size_t, const source&)>& body) {
  const std::size_t most = rows_at_once(format, x);
  for (std::size_t first = 0; first < x.rows; first += most) {
    const std::size_t count = x.rows - first < most ? x.rows - first : most;
    body(first, rows_of(x, first, count));
    progress(pass * x.rows + first + count, passes * x.rows);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

float amax_of_matrix(const cpu::context& ctx, const source& x, const transform_spec& t) {
  float found = 0;
  run(ctx, elements_in(x.rows, x.cols), long_pass, [&](const cpu::context& c) {
    c::detail::with_view(sink_of(x), [&](const auto& view) { found = amax(view, t, c).value; });
  });
  return found;
}

/// The options of one part: its place, and the amax of the whole.
detail::quantize_options<> options_of_rows(const detail::quantize_options<>& whole, const source& x,
                                           std::size_t first) {
  detail::quantize_options<> part = whole;
  if (!part.has_shard) part.place = {0, 0, x.cols};
  part.has_shard = true;
  part.place.first_row += first;
  return part;
}

/// Options with the amax of the whole matrix, where the format has a tensor scale and the program gave none.
detail::quantize_options<> with_amax(const cpu::context& ctx, const format_spec& format, const source& x,
                                     const detail::quantize_options<>& options, nb::handle progress) {
  detail::quantize_options<> out = options;
  if (!format.has_tensor_scale() || options.has_amax) return out;
  for_parts(format, x, progress, 2, 0, [&](std::size_t, const source& part) {
    const float found = amax_of_matrix(ctx, part, options.transform);
    out.global_amax = found > out.global_amax ? found : out.global_amax;
  });
  out.has_amax = true;
  return out;
}

void quantize_parts(const cpu::context& ctx, const source& x, const detail::quantize_options<>& options,
                    nb::handle progress, any_quantized& out) {
  const format_spec& format = out.spec();
  const detail::quantize_options<> all = with_amax(ctx, format, x, options, progress);
  const std::size_t passes = format.has_tensor_scale() && !options.has_amax ? 2 : 1;
  const std::size_t strip = storage_size(format, 1, x.cols, options.transform).scales;
  for_parts(format, x, progress, passes, passes - 1, [&](std::size_t first, const source& part) {
    const detail::quantize_options<> here = options_of_rows(all, x, first);
    const cpu::detail::quantized_sink to{
        out.codes().data() + ufp4::detail::code_bytes(format, first * out.padded_cols()),
        out.scale_bytes().data() + first / static_cast<std::size_t>(format.block.rows) * strip};
    run(ctx, elements_in(part.rows, part.cols), long_pass,
        [&](const cpu::context& c) { out.set_tensor_scale(ufp4::detail::quantize_to(c, part, format, here, to)); });
  });
}

quantized quantize(nb::handle x, nb::handle format, nb::handle rht, nb::handle rounding, nb::handle rule,
                   nb::handle search, nb::handle choose_grid, nb::handle tensor_amax, nb::handle shard,
                   nb::handle progress, int threads, nb::handle isa) {
  constexpr const char* operation = "quantize";
  const matrix_argument from(operation, "x", x);
  const detail::quantize_options<> options =
      options_of(operation, {rht, rounding, rule, search, choose_grid, tensor_amax, shard});
  return quantized(quantize_matrix(operation, context_of(operation, threads, isa), format_of(operation, format),
                                   from.input(), options, progress));
}

quantized quantize_ms_eden(nb::handle x, nb::handle rht, const stochastic& random_bits, int threads, nb::handle isa) {
  constexpr const char* operation = "quantize_ms_eden";
  const matrix_argument from(operation, "x", x);
  const transform_spec t = transform_of(operation, rht);
  const cpu::context ctx = context_of(operation, threads, isa);
  const source in = from.input();
  ufp4::detail::check_ms_eden(operation, in, t);
  any_quantized out(spec_of<nvfp4>, in.rows, in.cols, t);
  run(ctx, elements_in(in.rows, in.cols), long_pass, [&](const cpu::context& c) {
    out.set_tensor_scale(
        ufp4::detail::quantize_whole_ms_eden(c, in, t, random_bits, {out.codes().data(), out.scale_bytes().data()}));
  });
  return quantized(std::move(out));
}

nb::object fake_quantize(nb::handle x, nb::handle format, nb::handle rht, nb::handle rounding, nb::handle rule,
                         nb::handle search, nb::handle choose_grid, nb::handle tensor_amax, nb::handle shard,
                         bool undo_transform, nb::handle out, nb::handle dtype, int threads, nb::handle isa) {
  constexpr const char* operation = "fake_quantize";
  const matrix_argument from(operation, "x", x);
  const format_spec f = format_of(operation, format);
  detail::quantize_options<> options =
      options_of(operation, {rht, rounding, rule, search, choose_grid, tensor_amax, shard});
  options.undo = undo_transform;
  const cpu::context ctx = context_of(operation, threads, isa);
  const output to(operation, out, dtype, from.elements.rows, from.elements.cols, from.elements.kind);
  run(ctx, elements_in(from.elements.rows, from.elements.cols), long_pass,
      [&](const cpu::context& c) { ufp4::detail::fake_quantize_to(c, from.input(), f, to.elements(), options); });
  return to.object;
}

float amax_of(nb::handle x, nb::handle rht, int threads, nb::handle isa) {
  constexpr const char* operation = "amax";
  const matrix_argument from(operation, "x", x);
  return amax_of_matrix(context_of(operation, threads, isa), from.input(), transform_of(operation, rht));
}

nb::object measurement_of(const analysis::report& r) {
  nb::list histogram;
  for (const std::uint64_t n : r.histogram) histogram.append(n);
  return nb::module_::import_("ufp4._measurement")
      .attr("Measurement")(r.sqnr_db, r.attenuation, r.bucket_utilization, r.scale_underflow_rate, r.saturation_rate,
                           r.nonfinite_blocks, r.elements, r.blocks, nb::tuple(histogram));
}

/// A measurement in one piece, or in chunks between which progress is called.
analysis::report measure_matrix(const cpu::context& ctx, const format_spec& format, const source& x,
                                const detail::quantize_options<>& options, nb::handle progress) {
  analysis::detail::totals all;
  const auto add = [&](const source& part, const detail::quantize_options<>& o) {
    run(ctx, elements_in(part.rows, part.cols), long_pass,
        [&](const cpu::context& c) { analysis::detail::add_part(c, format, part, o, all); });
  };
  if (progress.is_none()) {
    add(x, options);
    return all.result(format);
  }
  ufp4::detail::check_quantize("measure", format, x, options);
  const detail::quantize_options<> known = with_amax(ctx, format, x, options, progress);
  const std::size_t passes = format.has_tensor_scale() && !options.has_amax ? 2 : 1;
  for_parts(format, x, progress, passes, passes - 1,
            [&](std::size_t first, const source& part) { add(part, options_of_rows(known, x, first)); });
  return all.result(format);
}

nb::object measure(nb::handle x, nb::handle format, nb::handle rht, nb::handle rounding, nb::handle rule,
                   nb::handle search, nb::handle choose_grid, nb::handle tensor_amax, nb::handle shard,
                   nb::handle progress, int threads, nb::handle isa) {
  constexpr const char* operation = "measure";
  const matrix_argument from(operation, "x", x);
  const detail::quantize_options<> options =
      options_of(operation, {rht, rounding, rule, search, choose_grid, tensor_amax, shard});
  return measurement_of(measure_matrix(context_of(operation, threads, isa), format_of(operation, format), from.input(),
                                       options, progress));
}

}  // namespace

any_quantized quantize_matrix(const char* operation, const cpu::context& ctx, const format_spec& format,
                              const source& x, const detail::quantize_options<>& options, nb::handle progress) {
  ufp4::detail::check_quantize(operation, format, x, options);
  any_quantized out(format, x.rows, x.cols, options.transform);
  if (!progress.is_none()) {
    quantize_parts(ctx, x, options, progress, out);
    return out;
  }
  run(ctx, elements_in(x.rows, x.cols), long_pass,
      [&](const cpu::context& c) { ufp4::detail::quantize_to(c, x, options, out); });
  return out;
}

void bind_quantize(nb::module_& m) {
  using namespace nb::literals;
  m.def("quantize", &quantize, "x"_a, "format"_a, nb::kw_only(), "rht"_a = nb::none(), "rounding"_a = nb::none(),
        "rule"_a = nb::none(), "search"_a = nb::none(), "choose_grid"_a = nb::none(), "tensor_amax"_a = nb::none(),
        "shard"_a = nb::none(), "progress"_a = nb::none(), "threads"_a = 0, "isa"_a = nb::none(),
        nb::sig("def quantize(x: " UFP4_ARRAY ", format: str | Format, " UFP4_POLICIES UFP4_PROGRESS UFP4_CALL
                ") -> QuantizedMatrix"),
        "Transforms, scales and rounds x [rows, columns] into blocks along the columns.\n\n"
        "x: an array of float32, float16 or bfloat16 (numpy with ml_dtypes, or any object with __dlpack__), any "
        "strides.\n"
        "format: the name of a preset, or a Format.\n"
        "rht: a Transform, or n for random_hadamard(n, 0).\n"
        "rounding: 'nearest_even' (default), 'nearest_away', 'toward_zero', Stochastic(seed) or Eden(seed).\n"
        "rule: how an amax becomes a scale: 'default', 'scale_up', 'mx_floor', 'mx_even', 'mx_ceil', "
        "'four_over_six', 'four_over_six_mae' or Percentile(per_mille).\n"
        "search: 'mse', 'mae' or Search(error, below, above): the scale near that of the rule with the smallest "
        "error.\n"
        "choose_grid: 'mse' (default), 'mae' or 'max': the error by which a block of if4, mixfp4 or razer chooses its "
        "grid.\n"
        "tensor_amax: the amax of the whole transformed matrix, for formats with a tensor scale.\n"
        "shard: (first_row, first_col, total_cols) of x in a larger matrix, whose bits it shall have.\n"
        "progress: called with (rows done, rows in all) now and then; an exception ends the call.\n"
        "threads: at most; 0 for all cores. isa: an instruction set, as 'avx2'. No bit depends on these.\n\n"
        "A block with a NaN or an infinity gets a NaN scale. ValueError: an argument that does not fit.");
  m.def("quantize_ms_eden", &quantize_ms_eden, "x"_a, "rht"_a, "rounding"_a, nb::kw_only(), "threads"_a = 0,
        "isa"_a = nb::none(),
        nb::sig("def quantize_ms_eden(x: " UFP4_ARRAY ", rht: int | Transform, rounding: Stochastic, *, " UFP4_CALL
                ") -> QuantizedMatrix"),
        "x [rows, columns] in nvfp4 by MS-EDEN (Eden is its form without bias): codes are the nearest\n"
        "ones; scales are corrected for each run of the transform, then rounded with the random bits of `rounding`.\n"
        "The operands of one product need different random bits. ValueError: no transform, or another argument that "
        "does\n"
        "not fit.");
  m.def("fake_quantize", &fake_quantize, "x"_a, "format"_a, nb::kw_only(), "rht"_a = nb::none(),
        "rounding"_a = nb::none(), "rule"_a = nb::none(), "search"_a = nb::none(), "choose_grid"_a = nb::none(),
        "tensor_amax"_a = nb::none(), "shard"_a = nb::none(), "undo_transform"_a = false, "out"_a = nb::none(),
        "dtype"_a = nb::none(), "threads"_a = 0, "isa"_a = nb::none(),
        nb::sig("def fake_quantize(x: " UFP4_ARRAY ", format: str | Format, " UFP4_POLICIES
                "undo_transform: bool = False, " UFP4_TO UFP4_CALL ") -> " UFP4_NEW),
        "quantize(x, ...).dequantize() in one pass, bit for bit: [rows, columns], in the shape and (without dtype) the "
        "type "
        "of x.\n\n"
        "x, format, rht and the policies: as of quantize. undo_transform=True applies the inverse transform to the "
        "result.\n"
        "out: an array [rows, columns] to write to, which is returned; it may be x itself. dtype: of a new result.\n"
        "ValueError: an argument that does not fit, an out of another shape, or one that overlaps x in part.");
  m.def("measure", &measure, "x"_a, "format"_a, nb::kw_only(), "rht"_a = nb::none(), "rounding"_a = nb::none(),
        "rule"_a = nb::none(), "search"_a = nb::none(), "choose_grid"_a = nb::none(), "tensor_amax"_a = nb::none(),
        "shard"_a = nb::none(), "progress"_a = nb::none(), "threads"_a = 0, "isa"_a = nb::none(),
        nb::sig("def measure(x: " UFP4_ARRAY ", format: str | Format, " UFP4_POLICIES UFP4_PROGRESS UFP4_CALL
                ") -> ufp4.Measurement"),
        "What quantize of x [rows, columns] with these arguments would lose: SQNR, attenuation, histogram of the codes "
        "and more.\n\n"
        "All arguments are those of quantize. ValueError: an argument that does not fit.");
  m.def(
      "amax", &amax_of, "x"_a, "rht"_a = nb::none(), nb::kw_only(), "threads"_a = 0, "isa"_a = nb::none(),
      nb::sig("def amax(x: " UFP4_ARRAY ", rht: int | Transform | None = None, *, " UFP4_CALL ") -> float"),
      "The largest finite magnitude of x [rows, columns] after a transform; 0 if there is none.\n\n"
      "rht: a Transform, or n for random_hadamard(n, 0). For tensor_amax of parts of a matrix: the largest of theirs.\n"
      "ValueError: x is no matrix of float32, float16 or bfloat16, or another length of the transform.");
}

}  // namespace ufp4::python
