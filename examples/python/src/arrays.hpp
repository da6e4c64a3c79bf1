// ufp4 - arrays of a Python program (numpy, ml_dtypes, DLPack) as the matrices of the library, without a copy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <span>
#include <string>
#include <ufp4/ufp4.hpp>

namespace ufp4::python {

namespace nb = nanobind;
using ufp4::detail::concat, ufp4::detail::expects, ufp4::detail::reject, ufp4::detail::sink, ufp4::detail::source;

/// The types of the elements of an array. The first three are those of matrices, in the order of ufp4::dtype.
enum class element : std::uint8_t { f32, bf16, f16, f8_e4m3, f8_e8m0, u8, i8, f64, i64, i32, f4, f4x2, other };

/// An argument in a message: its repr, cut after 60 characters.
std::string argument_text(nb::handle h);

/// The name of a type in numpy and ml_dtypes; f4x2, two codes a byte, is PyTorch's.
const char* name_of(element type);
/// The same in a message; "another type" for one that the package does not know.
inline const char* type_text(element type) { return type == element::other ? "another type" : name_of(type); }
/// numpy's dtype object of that type.
nb::object dtype_of(element type);
/// The type of a dtype argument: a name, a type or a dtype of numpy. TypeError for what is none.
element element_of(nb::handle dtype);
/// The type of an output: f32, bf16 or f16; `usual` for None.
ufp4::dtype output_of(const char* operation, nb::handle dtype, ufp4::dtype usual = ufp4::dtype::f32);

/// An array whose memory is kept while this lives. With `writable`, one that may be written to.
class array {
 public:
  array() = default;
  array(const char* operation, const char* name, nb::handle from, bool writable = false);

  element type() const { return type_; }
  std::size_t ndim() const { return held_.ndim(); }
  std::size_t shape(std::size_t i) const { return held_.shape(i); }
  std::ptrdiff_t stride(std::size_t i) const { return static_cast<std::ptrdiff_t>(held_.stride(i)); }
  std::size_t size() const { return held_.size(); }
  void* data() const { return held_.data(); }
  /// Whether the elements are adjacent, in the order of their indices.
  bool is_contiguous() const;
  /// "(5, 32) with strides (64, 2)", in elements.
  std::string layout_text() const;
  /// Rejects an address that is no multiple of an element's bytes.
  void check_aligned(const char* operation, const char* name, std::uintptr_t width) const;
  /// The array as a matrix of float32, bfloat16 or float16; ValueError for another type or number of dimensions.
  sink matrix(const char* operation, const char* name) const;

 private:
  bool import(nb::handle from, bool writable);

  nb::ndarray<> held_;
  element type_ = element::other;
};

/// A matrix argument of a call.
struct matrix_argument {
  array held;
  sink elements{};

  matrix_argument() = default;
  matrix_argument(const char* operation, const char* name, nb::handle from, bool writable = false)
      : held(operation, name, from, writable), elements(held.matrix(operation, name)) {}
  source input() const {
    return {elements.data, elements.kind, elements.rows, elements.cols, elements.row_stride, elements.col_stride};
  }
};

/// The output of a call: the caller's `out`, or a new array of that shape and type where it is None.
struct output {
  nb::object object;
  matrix_argument matrix;

  output(const char* operation, nb::handle out, nb::handle dtype, std::size_t rows, std::size_t cols,
         ufp4::dtype usual = ufp4::dtype::f32);
  const sink& elements() const { return matrix.elements; }
};

/// The argument `bias` of a product: None, or numbers that are adjacent in memory.
struct bias_argument {
  array held;
  std::span<const float> values;

  bias_argument(const char* operation, nb::handle bias) {
    if (bias.is_none()) return;
    held = array(operation, "bias", bias);
    expects(held.type() == element::f32 && held.ndim() == 1 && held.is_contiguous(), operation,
            ": bias must be a contiguous array of float32 with 1 dimension, got ", type_text(held.type()), " ",
            held.layout_text());
    held.check_aligned(operation, "bias", 4);
    values = {static_cast<const float*>(held.data()), held.shape(0)};
  }
};

/// An array of numpy over memory that `owner` keeps; the bytes of `type`, which ml_dtypes may have.
nb::object view_of_bytes(void* data, element type, std::size_t rows, std::size_t cols, nb::handle owner);
/// A new array of numpy.
nb::object new_array(element type, std::size_t rows, std::size_t cols);

}  // namespace ufp4::python
