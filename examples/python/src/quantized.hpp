// ufp4 - the matrix behind QuantizedMatrix.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/interop/safetensors_layout.hpp>

#include "calls.hpp"
#include "policies.hpp"

namespace ufp4::python {

/// Codes and scales in memory of their own, or in the arrays that the program gave.
struct quantized {
  any_quantized own;
  any_quantized_view view;
  nb::object codes, scales;  ///< the program's arrays; null for memory of its own
  array held_codes, held_scales;

  quantized() = default;
  explicit quantized(any_quantized&& matrix) : own(std::move(matrix)), view(own.view()) {}
};

/// A matrix over arrays of the program; ValueError where they do not fit the format.
quantized from_arrays(const char* operation, nb::object codes, nb::object scales, const format_spec& format,
                      nb::handle cols, float tensor_scale, const transform_spec& transform);

/// Quantizes a matrix. With `progress`, in chunks of rows, which changes no bit.
any_quantized quantize_matrix(const char* operation, const cpu::context& ctx, const format_spec& format,
                              const source& x, const detail::quantize_options<>& options,
                              nb::handle progress = nb::none());

/// The type in which numpy has the scales of a format: bytes where not every one is a number of the scale's type.
constexpr element scale_element(const format_spec& f) {
  constexpr element types[] = {element::f32, element::bf16,    element::f8_e4m3,
                               element::u8,  element::f8_e8m0, element::u8};  // as scale_kind lists them
  return interop::has_bytes_of_scales(f) ? element::u8 : types[static_cast<int>(f.scale)];
}
/// Rows and columns of the array of scales of a matrix.
inline std::pair<std::size_t, std::size_t> scale_shape(const format_spec& f, std::size_t rows, std::size_t padded) {
  return {ufp4::detail::scale_rows(rows, f.block), interop::has_bytes_of_scales(f)
                                                       ? ufp4::detail::scale_strip_of(f, padded).bytes()
                                                       : padded / static_cast<std::size_t>(f.block.cols)};
}

}  // namespace ufp4::python
