// ufp4 - the operations on a GPU in the extension module; ufp4.cuda calls them with the addresses of PyTorch's tensors.
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include "device.hpp"
#include "quantized.hpp"

namespace ufp4::python {
namespace {

/// Address, number of the type (float32, bfloat16, float16), rows, columns, strides in elements.
using tensor = std::tuple<std::uintptr_t, int, std::size_t, std::size_t, std::ptrdiff_t, std::ptrdiff_t>;
/// Format, transform, rows, columns, and the addresses of codes, scales and tensor scale.
using coded =
    std::tuple<format_spec, transform_spec, std::size_t, std::size_t, std::uintptr_t, std::uintptr_t, std::uintptr_t>;

sink sink_of(const tensor& t) {
  const auto& [address, kind, rows, cols, down, across] = t;
  return {reinterpret_cast<void*>(address), static_cast<dtype>(kind), rows, cols, down, across};
}
source source_of(const tensor& t) {
  const sink s = sink_of(t);
  return {s.data, s.kind, s.rows, s.cols, s.row_stride, s.col_stride};
}
device::matrix matrix_of(const coded& q) {
  const auto& [format, transform, rows, cols, codes, scales, tensor_scale] = q;
  return {format,
          transform,
          rows,
          cols,
          reinterpret_cast<std::uint8_t*>(codes),
          reinterpret_cast<void*>(scales),
          reinterpret_cast<float*>(tensor_scale)};
}
device::operand operand_of(nb::handle x) {
  device::operand out;
  out.is_quantized = nb::len(x) == 7;
  if (out.is_quantized)
    out.coded = matrix_of(nb::cast<coded>(x));
  else
    out.unquantized = source_of(nb::cast<tensor>(x));
  return out;
}

/// The stream and the program's function that gets the bytes of a workspace and returns its address.
struct call_place : device::place {
  nb::callable memory;
  call_place(std::uintptr_t on, nb::callable from) : place{on, &allocate, this}, memory(std::move(from)) {}
  call_place(const call_place&) = delete;
  static void* allocate(void* self, std::size_t bytes) {
    return reinterpret_cast<void*>(nb::cast<std::uintptr_t>(static_cast<call_place*>(self)->memory(bytes)));
  }
};

/// Throws unless GPUs have kernels for the format.
void check_available(const char* operation, const format_spec& f) {
  expects(!f.has_bytes(), operation, ": formats with elements of one byte run on the CPU only: ", text_of(f));
}

/// Padded columns, and of the array of scales the rows, the columns and the name of its type.
std::tuple<std::size_t, std::size_t, std::size_t, std::string> sizes(const format_spec& format, std::size_t rows,
                                                                     std::size_t cols,
                                                                     const transform_spec& transform) {
  check_available("QuantizedTensor", format);
  const ufp4::detail::quantized_shape shape{format, 1, rows, cols, transform};
  (void)ufp4::detail::storage_of("quantize", shape);  // for its checks
  const auto [down, across] = scale_shape(format, rows, shape.padded_cols());
  return {shape.padded_cols(), down, across, name_of(scale_element(format))};
}

void quantize(const tensor& x, const coded& out, nb::handle rounding, nb::handle rule, nb::handle search,
              nb::handle choose_grid, nb::handle tensor_amax, nb::handle shard, std::uintptr_t stream,
              nb::callable memory) {
  const detail::quantize_options<> o =
      options_of("quantize", {nb::none(), rounding, rule, search, choose_grid, tensor_amax, shard});
  device::policies how{o.rounding, o.rule, o.has_amax, o.has_shard, o.global_amax, o.place};
  device::quantize(call_place(stream, std::move(memory)), source_of(x), matrix_of(out), how);
}

void matmul(nb::handle a, nb::handle b, const tensor& c, float alpha, float beta, std::uintptr_t bias, nb::handle mode,
            std::uintptr_t stream, nb::callable memory) {
  const sink out = sink_of(c);
  gemm_options options{.alpha = alpha, .beta = beta, .accumulate = accumulate_of("matmul", mode)};
  if (bias != 0) options.bias = {reinterpret_cast<const float*>(bias), out.cols};
  device::matmul(call_place(stream, std::move(memory)), operand_of(a), operand_of(b), out, options);
}

void linear(const std::string& product, const std::string& recipe, std::uint64_t seed, std::uint64_t step,
            std::uint32_t layer, nb::handle mode, const tensor& left, const tensor& right, const tensor& out,
            std::uintptr_t stream, nb::callable memory) {
  const auto call = product == "linear_forward"          ? &device::linear_forward
                    : product == "linear_backward_input" ? &device::linear_backward_input
                                                         : &device::linear_backward_weight;
  call(call_place(stream, std::move(memory)), recipe_of(product.c_str(), recipe, seed, step, layer, mode),
       source_of(left), source_of(right), sink_of(out));
}

}  // namespace

void bind_device(nb::module_& m) {
  using namespace nb::literals;
  m.attr("device") = UFP4_PYTHON_DEVICE;
  m.def("device_format", [](nb::handle format) {
    const format_spec f = format_of("quantize", format);
    check_available("quantize", f);
    return f;
  });
  m.def("device_transform", [](nb::handle rht) { return transform_of("quantize", rht); }, "rht"_a.none());
  m.def("device_sizes", &sizes);
  m.def("device_quantize", &quantize, "x"_a, "out"_a, "rounding"_a.none(), "rule"_a.none(), "search"_a.none(),
        "choose_grid"_a.none(), "tensor_amax"_a.none(), "shard"_a.none(), "stream"_a, "memory"_a);
  m.def("device_dequantize", [](const coded& q, const tensor& out, std::uintptr_t stream) {
    device::dequantize({stream}, matrix_of(q), sink_of(out));
  });
  m.def("device_matmul", &matmul);
  m.def("device_explain_matmul", [](nb::handle a, nb::handle b, const tensor& c, nb::handle mode) {
    return device::explain_matmul(operand_of(a), operand_of(b), sink_of(c),
                                  {.accumulate = accumulate_of("explain_matmul", mode)});
  });
  m.def("device_linear", &linear);
}

}  // namespace ufp4::python
