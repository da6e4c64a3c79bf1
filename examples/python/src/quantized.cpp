// ufp4 - QuantizedMatrix in Python: its arrays, its values, pickles.
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <ufp4/c/convert.hpp>

#include "quantized.hpp"
#include "signatures.hpp"

namespace ufp4::python {
namespace {

using c::detail::with_view;

/// The decoded values; with `undo` of the transform too.
void dequantize_matrix(const cpu::context& ctx, const any_quantized_view& q, bool undo, const sink& out) {
  const transform_spec& t = q.transform();
  if (!undo || t.n == 1) return with_view(out, [&](const auto& view) { ufp4::dequantize(q, view, ctx); });
  const std::size_t padded = q.padded_cols(), runs = (q.cols() + t.n - 1) / t.n;
  const any_quantized_view whole(q.spec(), q.codes(), q.scale_bytes(), q.tensor_scale(), q.rows(), padded, t);
  const matrix<float> decoded = ufp4::dequantize(whole, ctx);  // the inverse transform reads the padding too
  const matrix_view<const float> used(decoded.data(), q.rows(), runs * t.n, static_cast<std::ptrdiff_t>(padded));
  with_view(out, [&](const auto& view) { hadamard_inverse(used, view, t, ctx); });
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

/// Codes and scales as numpy's arrays: the program's own, or views of this object's memory.
nb::object codes_of(nb::handle_t<quantized> self) {
  const auto& q = nb::cast<const quantized&>(self);
  if (q.codes.is_valid()) return q.codes;
  return view_of_bytes(const_cast<std::uint8_t*>(q.view.codes().data()), element::u8, q.view.rows(),
                       ufp4::detail::code_bytes(q.view.spec(), q.view.padded_cols()), self);
}
nb::object scales_of(nb::handle_t<quantized> self) {
  const auto& q = nb::cast<const quantized&>(self);
  if (q.scales.is_valid()) return q.scales;
  const format_spec& f = q.view.spec();
  const auto [rows, cols] = scale_shape(f, q.view.rows(), q.view.padded_cols());
  return view_of_bytes(const_cast<std::byte*>(q.view.scale_bytes().data()), scale_element(f), rows, cols, self);
}

/// Whether a code alone decides on the value of E2M1 that it means.
bool has_e2m1_grid(const format_spec& f) {
  return f.grid == spec_of<nvfp4>.grid && f.choice.count == 0 && f.block.group[0] == 0;
}

/// One code a byte.
nb::object unpacked_of(const quantized& q) {
  const std::size_t padded = q.view.padded_cols(), count = q.view.rows() * padded;
  nb::object out = new_array(element::u8, q.view.rows(), padded);
  const array bytes("unpacked", "out", out, true);
  auto* to = static_cast<std::uint8_t*>(bytes.data());
  const std::uint8_t* from = q.view.codes().data();
  for (std::size_t i = 0; i < count; ++i) to[i] = ufp4::detail::element_code(q.view.spec(), from, i);
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
  const element wanted = scale_element(format);
  const bool as_bytes = scales.type() == element::u8 && ufp4::detail::scale_bytes(format.scale) == 1;
  expects(scales.type() == wanted || as_bytes, operation, ": scales must have elements of ", name_of(wanted), ", got ",
          name_of(scales.type()));
  for (const auto& [name, of] : {std::pair("codes", &codes), std::pair("scales", &scales)})
    expects(of->is_contiguous(), operation, ": ", name, " must be C-contiguous, got ", of->layout_text());
}

}  // namespace

quantized from_arrays(const char* operation, nb::object codes, nb::object scales, const format_spec& format,
                      nb::handle cols, float tensor_scale, const transform_spec& transform) {
  quantized q;
  q.codes = std::move(codes);
  q.scales = std::move(scales);
  q.held_codes = array(operation, "codes", q.codes);
  q.held_scales = array(operation, "scales", q.scales);
  check_arrays(operation, format, q);
  const std::size_t rows = q.held_codes.shape(0), padded = (format.has_bytes() ? 1 : 2) * q.held_codes.shape(1);
  std::size_t columns = padded;
  if (!cols.is_none() && !nb::try_cast(cols, columns, false))
    reject(concat(operation, ": cols must be a number that is not negative, got ", argument_text(cols)));
  const ufp4::detail::quantized_shape shape{format, tensor_scale, rows, columns, transform};
  ufp4::detail::check_length(operation, transform);
  expects(shape.padded_cols() == padded, operation, ": codes have ", padded, " columns, but ", columns,
          " columns padded to whole blocks and transform runs are ", shape.padded_cols());
  const auto [down, across] = scale_shape(format, rows, padded);
  expects(q.held_scales.shape(0) == down && q.held_scales.shape(1) == across, operation,
          ": shape mismatch: scales are ", q.held_scales.shape(0), " x ", q.held_scales.shape(1),
          ", but the codes need ", down, " x ", across);
  expects(format.has_tensor_scale() || tensor_scale == 1.0f, operation,
          ": the format has no tensor scale, but tensor_scale is ", tensor_scale);
  const bool as_bytes = interop::has_bytes_of_scales(format);
  const std::size_t width = as_bytes ? 1 : static_cast<std::size_t>(ufp4::detail::scale_bytes(format.scale));
  expects(reinterpret_cast<std::uintptr_t>(q.held_scales.data()) % width == 0, operation,
          ": scales are not aligned to ", width, " bytes");
  q.view = any_quantized_view(
      format, {static_cast<const std::uint8_t*>(q.held_codes.data()), ufp4::detail::code_bytes(format, rows * padded)},
      {static_cast<const std::byte*>(q.held_scales.data()), q.held_scales.size() * width}, tensor_scale, rows, columns,
      transform);
  return q;
}

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
          "where these have one byte; of formats of which `scales` is bytes, such bytes.\n"
          "cols: the columns without padding; all of them if None.\n"
          "ValueError: types, shapes or strides that do not fit.")
      .def_prop_ro("codes", &codes_of, nb::sig("def codes(self) -> numpy.typing.NDArray[numpy.uint8]"),
                   "uint8 [rows, padded columns / 2]: two codes a byte, the even column in the low half; of 8-bit "
                   "formats one code a"
                   " byte. Not a copy.")
      .def_prop_ro(
          "scales", &scales_of, nb::sig("def scales(self) -> " UFP4_NEW),
          "The block scales [rows / block rows, padded columns / block columns], in float32, ml_dtypes' bfloat16,\n"
          "float8_e4m3fn or float8_e8m0fnu, or uint8 for ue5m3. Of formats with several grids, one-bit exponents or "
          "outer\n"
          "scales of segments uint8 [rows / block rows, bytes of a row of blocks]: what is stored for a block, in one "
          "byte\n"
          "(e4m3; the sign bit is the number of the grid) or four (e6m2 and exponents), then float32 outer scales.\n"
          "Not a copy.")
      .def("unpacked", &unpacked_of, nb::sig("def unpacked(self) -> " UFP4_NEW),
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
            return q.view.codes().size() + q.view.scale_bytes().size() + (q.view.spec().has_tensor_scale() ? 4 : 0);
          },
          "Bytes of codes, block scales and tensor scale.")
      .def("dequantize", &dequantize, "dtype"_a = nb::none(), nb::kw_only(), "out"_a = nb::none(),
           "undo_transform"_a = false, "threads"_a = 0, "isa"_a = nb::none(),
           nb::sig("def dequantize(self, dtype: numpy.typing.DTypeLike | None = None, *, out: " UFP4_ARRAY
                   " | None = None, undo_transform: bool = False, " UFP4_CALL ") -> " UFP4_NEW),
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
            const bool own = scale_element(v.spec()) != element::f32;
            return state(v.spec(), v.cols(), v.tensor_scale(), v.transform(), codes_of(self),
                         own ? nb::object(scales.attr("view")("uint8")) : scales);
          },
          nb::sig("def __getstate__(self) -> tuple[typing.Any, ...]"))
      .def(
          "__setstate__",
          [](quantized& q, const state& s) {
            const format_spec& f = std::get<0>(s);
            nb::object scales = std::get<5>(s);
            if (f.scale != scale_kind::f32) scales = scales.attr("view")(dtype_of(scale_element(f)));
            new (&q) quantized(from_arrays("QuantizedMatrix", std::get<4>(s), scales, f, nb::int_(std::get<1>(s)),
                                           std::get<2>(s), std::get<3>(s)));
          },
          nb::sig("def __setstate__(self, state: tuple[typing.Any, ...], /) -> None"));
}

}  // namespace ufp4::python
