// ufp4 - QuantizedMatrix, and the operations that make, decode and measure one.
// SPDX-License-Identifier: Apache-2.0
#include "quantized.hpp"

#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <functional>

namespace ufp4::python {
namespace {

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

/// Calls body(first row, rows) for chunks of a matrix, and progress(done, all) after each.
void for_chunks(const format_spec& format, const source& x, nb::handle progress, std::size_t passes, std::size_t pass,
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
  run(ctx, elements_in(x.rows, x.cols), long_pass,
      [&](const cpu::context& c) { with_view(sink_of(x), [&](const auto& view) { found = amax(c, view, t).value; }); });
  return found;
}

/// The options of one chunk: its place, and the amax of the whole.
quantize_options<> options_of_rows(const quantize_options<>& whole, const source& x, std::size_t first) {
  quantize_options<> part = whole;
  if (!part.has_shard) part.place = {0, 0, x.cols};
  part.has_shard = true;
  part.place.first_row += first;
  return part;
}

/// Options with the amax of the whole matrix, where the format has a tensor scale and the program gave none.
quantize_options<> with_amax(const cpu::context& ctx, const format_spec& format, const source& x,
                             const quantize_options<>& options, nb::handle progress) {
  quantize_options<> out = options;
  if (!format.two_level || options.has_amax) return out;
  for_chunks(format, x, progress, 2, 0, [&](std::size_t, const source& part) {
    const float found = amax_of_matrix(ctx, part, options.transform);
    out.global_amax = found > out.global_amax ? found : out.global_amax;
  });
  out.has_amax = true;
  return out;
}

void quantize_chunks(const cpu::context& ctx, const source& x, const quantize_options<>& options, nb::handle progress,
                     any_quantized& out) {
  const format_spec& format = out.spec();
  const quantize_options<> all = with_amax(ctx, format, x, options, progress);
  const std::size_t passes = format.two_level && !options.has_amax ? 2 : 1;
  const std::size_t strip = storage_size(format, 1, x.cols, options.transform).scales;
  for_chunks(format, x, progress, passes, passes - 1, [&](std::size_t first, const source& part) {
    const quantize_options<> here = options_of_rows(all, x, first);
    const cpu::detail::quantized_sink to{
        out.codes().data() + first * out.padded_cols() / 2,
        out.scale_bytes().data() + first / static_cast<std::size_t>(format.block.rows) * strip};
    run(ctx, elements_in(part.rows, part.cols), long_pass,
        [&](const cpu::context& c) { out.set_tensor_scale(ufp4::detail::quantize_to(c, part, format, here, to)); });
  });
}

quantized quantize(nb::handle x, nb::handle format, nb::handle rht, nb::handle rounding, nb::handle rule,
                   bool mse_search, nb::handle tensor_amax, nb::handle shard, nb::handle progress, int threads,
                   nb::handle isa) {
  constexpr const char* operation = "quantize";
  const matrix_argument from(operation, "x", x);
  const quantize_options<> options = options_of(operation, {rht, rounding, rule, mse_search, tensor_amax, shard});
  return quantized(quantize_matrix(operation, context_of(operation, threads, isa), format_of(operation, format),
                                   from.input(), options, progress));
}

nb::object fake_quantize(nb::handle x, nb::handle format, nb::handle rht, nb::handle rounding, nb::handle rule,
                         bool mse_search, nb::handle tensor_amax, nb::handle shard, bool undo_transform, nb::handle out,
                         nb::handle dtype, int threads, nb::handle isa) {
  constexpr const char* operation = "fake_quantize";
  const matrix_argument from(operation, "x", x);
  const format_spec f = format_of(operation, format);
  quantize_options<> options = options_of(operation, {rht, rounding, rule, mse_search, tensor_amax, shard});
  options.undo = undo_transform;
  const cpu::context ctx = context_of(operation, threads, isa);
  const output to(operation, out, dtype, from.elements.rows, from.elements.cols, from.elements.kind);
  run(ctx, elements_in(from.elements.rows, from.elements.cols), long_pass,
      [&](const cpu::context& c) { ufp4::detail::fake_quantize_to(c, from.input(), f, to.elements(), options); });
  return to.object;
}

/// The decoded values; with `undo` of the transform too.
void dequantize_matrix(const cpu::context& ctx, const any_quantized_view& q, bool undo, const sink& out) {
  const transform_spec& t = q.transform();
  if (!undo || t.n == 1) return with_view(out, [&](const auto& view) { ufp4::dequantize(ctx, q, view); });
  const std::size_t padded = q.padded_cols(), runs = (q.cols() + t.n - 1) / t.n;
  const any_quantized_view whole(q.spec(), q.codes(), q.scale_bytes(), q.tensor_scale(), q.rows(), padded, t);
  const matrix<float> decoded = ufp4::dequantize(ctx, whole);  // the inverse transform reads the padding too
  const matrix_view<const float> used(decoded.data(), q.rows(), runs * t.n, static_cast<std::ptrdiff_t>(padded));
  with_view(out, [&](const auto& view) { hadamard_inverse(ctx, used, view, t); });
}

nb::object dequantize(const quantized& q, nb::handle dtype, nb::handle out, bool undo_transform, int threads,
                      nb::handle isa) {
  constexpr const char* operation = "dequantize";
  const cpu::context ctx = context_of(operation, threads, isa);
  const output to(operation, out, dtype, q.view.rows(), q.view.cols());
  run(ctx, elements_in(q.view.rows(), q.view.cols()), long_pass,
      [&](const cpu::context& c) { dequantize_matrix(c, q.view, undo_transform, to.elements()); });
  return to.object;
}

nb::object hadamard_forward(nb::handle x, nb::handle transform, nb::handle out, nb::handle dtype, int threads,
                            nb::handle isa) {
  constexpr const char* operation = "hadamard_forward";
  const matrix_argument from(operation, "x", x);
  const transform_spec t = transform_of(operation, transform);
  const cpu::context ctx = context_of(operation, threads, isa);
  const std::size_t padded = (from.elements.cols + t.n - 1) / t.n * t.n;
  const output to(operation, out, dtype, from.elements.rows, padded, from.elements.kind);
  run(ctx, elements_in(from.elements.rows, padded), long_pass, [&](const cpu::context& c) {
    with_view(from.elements, [&](const auto& in) {
      with_view(to.elements(), [&](const auto& result) { ufp4::hadamard_forward(c, in, result, t); });
    });
  });
  return to.object;
}

nb::object hadamard_inverse(nb::handle x, nb::handle transform, std::optional<std::size_t> cols, nb::handle out,
                            nb::handle dtype, int threads, nb::handle isa) {
  constexpr const char* operation = "hadamard_inverse";
  const matrix_argument from(operation, "x", x);
  const transform_spec t = transform_of(operation, transform);
  const cpu::context ctx = context_of(operation, threads, isa);
  const output to(operation, out, dtype, from.elements.rows, cols.value_or(from.elements.cols), from.elements.kind);
  run(ctx, elements_in(from.elements.rows, from.elements.cols), long_pass, [&](const cpu::context& c) {
    with_view(from.elements, [&](const auto& in) {
      with_view(to.elements(), [&](const auto& result) { ufp4::hadamard_inverse(c, in, result, t); });
    });
  });
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
                                const quantize_options<>& options, nb::handle progress) {
  analysis::detail::totals all;
  const auto add = [&](const source& part, const quantize_options<>& o) {
    run(ctx, elements_in(part.rows, part.cols), long_pass,
        [&](const cpu::context& c) { analysis::detail::add_piece(c, format, part, o, all); });
  };
  if (progress.is_none()) {
    add(x, options);
    return all.result(format.grid);
  }
  ufp4::detail::check_quantize("measure", format, x, options);
  const quantize_options<> known = with_amax(ctx, format, x, options, progress);
  const std::size_t passes = format.two_level && !options.has_amax ? 2 : 1;
  for_chunks(format, x, progress, passes, passes - 1,
             [&](std::size_t first, const source& part) { add(part, options_of_rows(known, x, first)); });
  return all.result(format.grid);
}

nb::object measure(nb::handle x, nb::handle format, nb::handle rht, nb::handle rounding, nb::handle rule,
                   bool mse_search, nb::handle tensor_amax, nb::handle shard, nb::handle progress, int threads,
                   nb::handle isa) {
  constexpr const char* operation = "measure";
  const matrix_argument from(operation, "x", x);
  const quantize_options<> options = options_of(operation, {rht, rounding, rule, mse_search, tensor_amax, shard});
  return measurement_of(measure_matrix(context_of(operation, threads, isa), format_of(operation, format), from.input(),
                                       options, progress));
}

/// Codes and scales as numpy's arrays: the program's own, or views of this object's memory.
nb::object codes_of(nb::handle_t<quantized> self) {
  const auto& q = nb::cast<const quantized&>(self);
  if (q.codes.is_valid()) return q.codes;
  return view_of_bytes(const_cast<std::uint8_t*>(q.view.codes().data()), element::u8, q.view.rows(),
                       q.view.padded_cols() / 2, self);
}
nb::object scales_of(nb::handle_t<quantized> self) {
  const auto& q = nb::cast<const quantized&>(self);
  if (q.scales.is_valid()) return q.scales;
  const format_spec& f = q.view.spec();
  return view_of_bytes(const_cast<std::byte*>(q.view.scale_bytes().data()), scale_element(f.scale),
                       ufp4::detail::scale_rows(q.view.rows(), f.block),
                       q.view.padded_cols() / static_cast<std::size_t>(f.block.cols), self);
}

bool has_e2m1_grid(const format_spec& f) { return f.grid == spec_of<nvfp4>.grid; }

/// One code a byte.
nb::object unpacked_of(const quantized& q) {
  const std::size_t padded = q.view.padded_cols(), count = q.view.rows() * padded;
  nb::object out = new_array(element::u8, q.view.rows(), padded);
  const array bytes("unpacked", "out", out, true);
  auto* to = static_cast<std::uint8_t*>(bytes.data());
  const std::uint8_t* from = q.view.codes().data();
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(from[i / 2] >> i % 2 * 4 & 15);
  return has_e2m1_grid(q.view.spec()) ? out.attr("view")(dtype_of(element::f4)) : out;
}

bool same(const quantized& a, const quantized& b) {
  const any_quantized_view &x = a.view, &y = b.view;
  return x.spec() == y.spec() && x.rows() == y.rows() && x.cols() == y.cols() &&
         same_map(x.transform(), y.transform()) &&
         ufp4::detail::to_bits(x.tensor_scale()) == ufp4::detail::to_bits(y.tensor_scale()) &&
         ufp4::detail::same_bytes(x.codes().data(), y.codes().data(), x.codes().size()) &&
         ufp4::detail::same_bytes(x.scale_bytes().data(), y.scale_bytes().data(), x.scale_bytes().size());
}

std::string text_of(const quantized& q) {
  const std::string format = name_of(q.view.spec());
  return concat("<ufp4.QuantizedMatrix ", format.empty() ? "of its own format" : format, ", ", q.view.rows(), " x ",
                q.view.cols(), q.view.transform().n == 1 ? "" : concat(", hadamard<", q.view.transform().n, ">"), ">");
}

using state = std::tuple<format_spec, std::size_t, float, transform_spec, nb::object, nb::object>;

/// Codes unpacked, one a byte, as canonical ones; a copy.
nb::object packed(const array& codes) {
  const std::size_t rows = codes.shape(0), cols = codes.shape(1);
  expects(cols % 2 == 0, "from_arrays: codes must have an even number of columns, got ", cols);
  nb::object out = new_array(element::u8, rows, cols / 2);
  const array bytes("from_arrays", "codes", out, true);
  auto* to = static_cast<std::uint8_t*>(bytes.data());
  const auto* from = static_cast<const std::uint8_t*>(codes.data());
  const std::ptrdiff_t down = codes.stride(0), across = codes.stride(1);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < cols / 2; ++k) {
      const std::uint8_t* pair =
          from + static_cast<std::ptrdiff_t>(i) * down + static_cast<std::ptrdiff_t>(2 * k) * across;
      to[i * (cols / 2) + k] = static_cast<std::uint8_t>((pair[0] & 15) | pair[across] << 4);
    }
  return out;
}

/// The arrays of from_arrays against the format; unpacked codes become packed ones.
void check_arrays(const char* operation, const format_spec& format, quantized& q) {
  const array &codes = q.held_codes, &scales = q.held_scales;
  expects(codes.ndim() == 2 && scales.ndim() == 2, operation, ": codes and scales must have 2 dimensions, got ",
          codes.ndim(), " and ", scales.ndim());
  if (codes.type() == element::f4) {
    expects(has_e2m1_grid(format), operation, ": codes are float4_e2m1fn, but the format has other values");
    q.codes = packed(codes);
    q.held_codes = array(operation, "codes", q.codes);
  }
  expects(codes.type() == element::u8 || codes.type() == element::f4x2, operation,
          ": codes must have elements of uint8 (two codes each) or float4_e2m1fn, got ", name_of(codes.type()));
  const element wanted = scale_element(format.scale);
  const bool as_bytes = scales.type() == element::u8 && ufp4::detail::scale_bytes(format.scale) == 1;
  expects(scales.type() == wanted || as_bytes, operation, ": scales must have elements of ", name_of(wanted), ", got ",
          name_of(scales.type()));
  expects(codes.is_contiguous() && scales.is_contiguous(), operation, ": codes and scales must be C-contiguous");
}

}  // namespace

any_quantized quantize_matrix(const char* operation, const cpu::context& ctx, const format_spec& format,
                              const source& x, const quantize_options<>& options, nb::handle progress) {
  ufp4::detail::check_quantize(operation, format, x, options);
  any_quantized out(format, x.rows, x.cols, options.transform);
  if (!progress.is_none()) {
    quantize_chunks(ctx, x, options, progress, out);
    return out;
  }
  run(ctx, elements_in(x.rows, x.cols), long_pass,
      [&](const cpu::context& c) { ufp4::detail::quantize_to(c, x, options, out); });
  return out;
}

quantized from_arrays(const char* operation, nb::object codes, nb::object scales, const format_spec& format,
                      nb::handle cols, float tensor_scale, const transform_spec& transform) {
  quantized q;
  q.codes = std::move(codes);
  q.scales = std::move(scales);
  q.held_codes = array(operation, "codes", q.codes);
  q.held_scales = array(operation, "scales", q.scales);
  check_arrays(operation, format, q);
  const std::size_t rows = q.held_codes.shape(0), padded = 2 * q.held_codes.shape(1);
  std::size_t columns = padded;
  if (!cols.is_none() && !nb::try_cast(cols, columns, false))
    reject(concat(operation, ": cols must be a number that is not negative"));
  const ufp4::detail::quantized_shape shape{format, tensor_scale, rows, columns, transform};
  ufp4::detail::check_length(operation, transform);
  expects(shape.padded_cols() == padded, operation, ": codes have ", padded, " columns, but ", columns,
          " columns padded to whole blocks and transform runs are ", shape.padded_cols());
  const std::size_t blocks = padded / static_cast<std::size_t>(format.block.cols);
  expects(q.held_scales.shape(0) == ufp4::detail::scale_rows(rows, format.block) && q.held_scales.shape(1) == blocks,
          operation, ": shape mismatch: scales are ", q.held_scales.shape(0), " x ", q.held_scales.shape(1),
          ", but the codes need ", ufp4::detail::scale_rows(rows, format.block), " x ", blocks);
  expects(format.two_level || tensor_scale == 1.0f, operation, ": the format has no tensor scale, but tensor_scale is ",
          tensor_scale);
  const std::size_t width = static_cast<std::size_t>(ufp4::detail::scale_bytes(format.scale));
  expects(reinterpret_cast<std::uintptr_t>(q.held_scales.data()) % width == 0, operation,
          ": scales are not aligned to ", width, " bytes");
  q.view = any_quantized_view(format, {static_cast<const std::uint8_t*>(q.held_codes.data()), rows * padded / 2},
                              {static_cast<const std::byte*>(q.held_scales.data()), q.held_scales.size() * width},
                              tensor_scale, rows, columns, transform);
  return q;
}

#define UFP4_ARRAY "ufp4.Array"
#define UFP4_OUT "numpy.typing.NDArray[typing.Any]"
#define UFP4_POLICIES                                                                                          \
  "*, rht: int | Transform | None = None, rounding: str | Stochastic | None = None, rule: str | None = None, " \
  "mse_search: bool = False, tensor_amax: float | None = None, shard: tuple[int, int, int] | None = None, "
#define UFP4_CALL "threads: int = 0, isa: str | None = None"

void bind_quantized(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<quantized>(
      m, "QuantizedMatrix",
      "A matrix in 4-bit codes with block scales. Made by `quantize`, `from_arrays` or `load`; it does not change.\n\n"
      "len(codes) rows; blocks and codes extend along the columns, which are the contraction axis of a product.")
      .def_static(
          "from_arrays",
          [](nb::object codes, nb::object scales, nb::handle format, nb::handle cols, float tensor_scale,
             nb::handle transform) {
            return from_arrays("from_arrays", std::move(codes), std::move(scales), format_of("from_arrays", format),
                               cols, tensor_scale, transform_of("from_arrays", transform));
          },
          "codes"_a, "scales"_a, "format"_a, nb::kw_only(), "cols"_a = nb::none(), "tensor_scale"_a = 1.0f,
          "transform"_a = nb::none(),
          nb::sig("def from_arrays(codes: " UFP4_ARRAY ", scales: " UFP4_ARRAY
                  ", format: str | Format, *, cols: int | None = None, tensor_scale: float = 1.0, "
                  "transform: int | Transform | None = None) -> QuantizedMatrix"),
          "A matrix over arrays of codes and scales, without a copy; the arrays are kept and must not change.\n\n"
          "codes: uint8 [rows, padded columns / 2], the even column in the low half of a byte, or PyTorch's\n"
          "float4_e2m1fn_x2; or ml_dtypes.float4_e2m1fn [rows, padded columns], which is packed into a copy.\n"
          "scales: [rows / block rows, padded columns / block columns] in the type of the format's scales, or uint8 "
          "bytes\n"
          "where these have one byte. cols: the columns without padding; all of them if None.\n"
          "ValueError: types, shapes or strides that do not fit.")
      .def_prop_ro("codes", &codes_of, nb::sig("def codes(self) -> numpy.typing.NDArray[numpy.uint8]"),
                   "uint8 [rows, padded columns / 2]: two codes a byte, the even column in the low half. Not a copy.")
      .def_prop_ro(
          "scales", &scales_of, nb::sig("def scales(self) -> " UFP4_OUT),
          "The block scales [rows / block rows, padded columns / block columns], in float32, ml_dtypes' bfloat16,\n"
          "float8_e4m3fn or float8_e8m0fnu, or uint8 for ue5m3. Not a copy.")
      .def("unpacked", &unpacked_of, nb::sig("def unpacked(self) -> " UFP4_OUT),
           "The codes, one a byte: [rows, padded columns] of ml_dtypes.float4_e2m1fn in formats with the values of "
           "E2M1,\n"
           "else of uint8. A copy.")
      .def_prop_ro(
          "tensor_scale", [](const quantized& q) { return q.view.tensor_scale(); },
          "The scale of the whole matrix; 1 in formats without one.")
      .def_prop_ro(
          "shape", [](const quantized& q) { return std::tuple(q.view.rows(), q.view.cols()); },
          "(rows, columns), without padding.")
      .def_prop_ro(
          "padded_cols", [](const quantized& q) { return q.view.padded_cols(); },
          "The columns, rounded up to whole blocks and transform runs.")
      .def_prop_ro(
          "format", [](const quantized& q) { return q.view.spec(); }, "The format of codes and scales.")
      .def_prop_ro(
          "transform", [](const quantized& q) { return q.view.transform(); },
          "The transform that was applied to the rows before they were quantized.")
      .def_prop_ro(
          "nbytes",
          [](const quantized& q) {
            return q.view.codes().size() + q.view.scale_bytes().size() + (q.view.spec().two_level ? 4 : 0);
          },
          "Bytes of codes, block scales and tensor scale.")
      .def("dequantize", &dequantize, "dtype"_a = nb::none(), nb::kw_only(), "out"_a = nb::none(),
           "undo_transform"_a = false, "threads"_a = 0, "isa"_a = nb::none(),
           nb::sig("def dequantize(self, dtype: numpy.typing.DTypeLike | None = None, *, out: " UFP4_ARRAY
                   " | None = None, undo_transform: bool = False, " UFP4_CALL ") -> " UFP4_OUT),
           "The values, [rows, columns] of float32 (default), float16 or bfloat16.\n\n"
           "The transform is not undone, because it cancels in a product; undo_transform=True applies its inverse.\n"
           "out: an array of that shape to write to; it is returned.\n"
           "ValueError: another type or shape, or an `out` that overlaps codes or scales.")
      .def("__eq__", &same, "other"_a, nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"),
           "Whether both have the same format, shape, transform, and the same bits.")
      .def("__repr__", [](const quantized& q) { return text_of(q); })
      .def(
          "__getstate__",
          [](nb::handle_t<quantized> self) {
            const any_quantized_view& v = nb::cast<const quantized&>(self).view;
            const nb::object scales = scales_of(self);
            const bool own = scale_element(v.spec().scale) != element::f32;
            return state(v.spec(), v.cols(), v.tensor_scale(), v.transform(), codes_of(self),
                         own ? nb::object(scales.attr("view")("uint8")) : scales);
          },
          nb::sig("def __getstate__(self) -> tuple[typing.Any, ...]"))
      .def(
          "__setstate__",
          [](quantized& q, const state& s) {
            const format_spec& f = std::get<0>(s);
            nb::object scales = std::get<5>(s);
            if (f.scale != scale_kind::f32) scales = scales.attr("view")(dtype_of(scale_element(f.scale)));
            new (&q) quantized(from_arrays("QuantizedMatrix", std::get<4>(s), scales, f, nb::int_(std::get<1>(s)),
                                           std::get<2>(s), std::get<3>(s)));
          },
          nb::sig("def __setstate__(self, state: tuple[typing.Any, ...], /) -> None"));

  m.def("quantize", &quantize, "x"_a, "format"_a, nb::kw_only(), "rht"_a = nb::none(), "rounding"_a = nb::none(),
        "rule"_a = nb::none(), "mse_search"_a = false, "tensor_amax"_a = nb::none(), "shard"_a = nb::none(),
        "progress"_a = nb::none(), "threads"_a = 0, "isa"_a = nb::none(),
        nb::sig("def quantize(x: " UFP4_ARRAY ", format: str | Format, " UFP4_POLICIES
                "progress: collections.abc.Callable[[int, int], object] | None = None, " UFP4_CALL
                ") -> QuantizedMatrix"),
        "Transforms, scales and rounds x [rows, columns] into blocks along the columns.\n\n"
        "x: an array of float32, float16 or bfloat16 (numpy with ml_dtypes, or any object with __dlpack__), any "
        "strides.\n"
        "format: the name of a preset, or a Format.\n"
        "rht: a Transform, or n for random_hadamard(n, 0).\n"
        "rounding: 'nearest_even' (default), 'nearest_away', 'toward_zero' or Stochastic(seed).\n"
        "rule: how an amax becomes a scale: 'default', 'scale_up', 'mx_floor', 'mx_even', 'mx_ceil', 'four_over_six'.\n"
        "mse_search: search near that scale for the smallest squared error.\n"
        "tensor_amax: the amax of the whole transformed matrix, for formats with a tensor scale.\n"
        "shard: (first_row, first_col, total_cols) of x in a larger matrix, whose bits it shall have.\n"
        "progress: called with (rows done, rows in all) now and then; an exception ends the call.\n"
        "threads: at most; 0 for all cores. isa: an instruction set, as 'avx2'. No bit depends on these.\n\n"
        "A block with a NaN or an infinity gets a NaN scale. ValueError: an argument that does not fit.");
  m.def("fake_quantize", &fake_quantize, "x"_a, "format"_a, nb::kw_only(), "rht"_a = nb::none(),
        "rounding"_a = nb::none(), "rule"_a = nb::none(), "mse_search"_a = false, "tensor_amax"_a = nb::none(),
        "shard"_a = nb::none(), "undo_transform"_a = false, "out"_a = nb::none(), "dtype"_a = nb::none(),
        "threads"_a = 0, "isa"_a = nb::none(),
        nb::sig("def fake_quantize(x: " UFP4_ARRAY ", format: str | Format, " UFP4_POLICIES
                "undo_transform: bool = False, out: " UFP4_ARRAY
                " | None = None, dtype: numpy.typing.DTypeLike | None = None, " UFP4_CALL ") -> " UFP4_OUT),
        "quantize(x, ...).dequantize() in one pass, bit for bit, in the shape and (without dtype) the type of x.\n\n"
        "out may be x itself. undo_transform=True applies the inverse transform to the result.");
  m.def("measure", &measure, "x"_a, "format"_a, nb::kw_only(), "rht"_a = nb::none(), "rounding"_a = nb::none(),
        "rule"_a = nb::none(), "mse_search"_a = false, "tensor_amax"_a = nb::none(), "shard"_a = nb::none(),
        "progress"_a = nb::none(), "threads"_a = 0, "isa"_a = nb::none(),
        nb::sig("def measure(x: " UFP4_ARRAY ", format: str | Format, " UFP4_POLICIES
                "progress: collections.abc.Callable[[int, int], object] | None = None, " UFP4_CALL
                ") -> ufp4.Measurement"),
        "What quantize with these arguments would lose: SQNR, attenuation, histogram of the codes and more.");
  m.def("amax", &amax_of, "x"_a, "rht"_a = nb::none(), nb::kw_only(), "threads"_a = 0, "isa"_a = nb::none(),
        nb::sig("def amax(x: " UFP4_ARRAY ", rht: int | Transform | None = None, *, " UFP4_CALL ") -> float"),
        "The largest finite magnitude of x after a transform.");
  m.def("hadamard_forward", &hadamard_forward, "x"_a, "transform"_a, nb::kw_only(), "out"_a = nb::none(),
        "dtype"_a = nb::none(), "threads"_a = 0, "isa"_a = nb::none(),
        nb::sig("def hadamard_forward(x: " UFP4_ARRAY ", transform: int | Transform, *, out: " UFP4_ARRAY
                " | None = None, dtype: numpy.typing.DTypeLike | None = None, " UFP4_CALL ") -> " UFP4_OUT),
        "Transforms the rows of x; the columns are padded with zeros to a multiple of n. out may be x itself.");
  m.def("hadamard_inverse", &hadamard_inverse, "x"_a, "transform"_a, nb::kw_only(), "cols"_a = nb::none(),
        "out"_a = nb::none(), "dtype"_a = nb::none(), "threads"_a = 0, "isa"_a = nb::none(),
        nb::sig("def hadamard_inverse(x: " UFP4_ARRAY
                ", transform: int | Transform, *, cols: int | None = None, out: " UFP4_ARRAY
                " | None = None, dtype: numpy.typing.DTypeLike | None = None, " UFP4_CALL ") -> " UFP4_OUT),
        "The inverse of hadamard_forward. cols: the columns of the result, without padding; those of x if None.");
}

}  // namespace ufp4::python
