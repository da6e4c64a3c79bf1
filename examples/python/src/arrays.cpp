// ufp4 - arrays of a Python program as matrices of the library: numpy's and DLPack's description, types of ml_dtypes.
// SPDX-License-Identifier: Apache-2.0
#include "arrays.hpp"

#include <nanobind/stl/string.h>

namespace ufp4::python {
namespace {

/// numpy and ml_dtypes, imported when they are first needed. Never released: the interpreter may end before the
/// program's destructors run. The GIL guards it.
struct imported_modules {
  nb::handle numpy_empty, numpy_dtype;
  nb::handle dtypes[static_cast<int>(element::other)];

  void load() {
    const nb::object numpy = nb::module_::import_("numpy"), ml_dtypes = nb::module_::import_("ml_dtypes");
    const nb::object make = numpy.attr("dtype");
    for (int i = 0; i < static_cast<int>(element::f4x2); ++i) {
      const char* const name = name_of(static_cast<element>(i));
      const bool own = nb::hasattr(ml_dtypes, name);
      if (own || i != static_cast<int>(element::f4))
        dtypes[i] = make(own ? nb::object(ml_dtypes.attr(name)) : nb::object(nb::str(name))).release();
    }
    numpy_empty = nb::object(numpy.attr("empty")).release();
    numpy_dtype = make.inc_ref();
  }
};

imported_modules& modules() {
  static constinit imported_modules* loaded = nullptr;
  if (loaded == nullptr) {
    auto* const made = new imported_modules;
    made->load();
    loaded = made;
  }
  return *loaded;
}

element named(const std::string& name) {
  for (int i = 0; i < static_cast<int>(element::other); ++i)
    if (name == name_of(static_cast<element>(i))) return static_cast<element>(i);
  return element::other;
}

/// The type that DLPack describes.
element described(const nb::dlpack::dtype& t) {
  using code = nb::dlpack::dtype_code;
  const auto is = [&t](code c, int bits, int lanes = 1) {
    return t.code == static_cast<std::uint8_t>(c) && t.bits == bits && t.lanes == lanes;
  };
  if (is(code::Float, 32)) return element::f32;
  if (is(code::Bfloat, 16)) return element::bf16;
  if (is(code::Float, 16)) return element::f16;
  if (is(code::UInt, 8)) return element::u8;
  if (is(code::Int, 8)) return element::i8;
  if (is(code::Float, 64)) return element::f64;
  if (is(code::Int, 64)) return element::i64;
  if (is(code::Int, 32)) return element::i32;
  if (is(code::Float8_E4M3FN, 8)) return element::f8_e4m3;
  if (is(code::Float8_E8M0FNU, 8)) return element::f8_e8m0;
  if (is(code::Float4_E2M1FN, 4, 2)) return element::f4x2;
  return element::other;
}

/// Memory that the CPU addresses, that which a GPU reads too included.
bool is_on_cpu(int device) {
  return device == nb::device::cpu::value || device == nb::device::cuda_host::value ||
         device == nb::device::rocm_host::value;
}
std::string device_text(int device, int number) {
  switch (device) {
    case nb::device::cuda::value: return concat("the CUDA device ", number);
    case nb::device::rocm::value: return concat("the ROCm device ", number);
    default: return concat("device ", number, " of DLPack's kind ", device);
  }
}

/// The bytes of one element where numpy has no description of the type for others, so that it is imported as integers.
int bytes_of_own(element type) {
  switch (type) {
    case element::bf16: return 2;
    case element::f8_e4m3:
    case element::f8_e8m0:
    case element::f4: return 1;
    default: return 0;
  }
}

std::string python_type(nb::handle h) { return nb::cast<std::string>(nb::object(h.type().attr("__name__"))); }

/// The name of the type of an array, or what an argument is that is no array.
std::string dtype_text(nb::handle from) {
  if (!nb::hasattr(from, "dtype")) return python_type(from);
  return nb::cast<std::string>(nb::str(nb::object(from.attr("dtype"))));
}

}  // namespace

std::string argument_text(nb::handle h) {
  const auto text = nb::cast<std::string>(nb::object(nb::repr(h)));
  return text.size() <= 60 ? text : text.substr(0, 60) + "...";
}

const char* name_of(element type) {
  constexpr const char* names[] = {"float32",        "bfloat16", "float16",       "float8_e4m3fn",
                                   "float8_e8m0fnu", "uint8",    "int8",          "float64",
                                   "int64",          "int32",    "float4_e2m1fn", "float4_e2m1fn_x2"};
  return type >= element::other ? "other" : names[static_cast<int>(type)];
}

nb::object dtype_of(element type) {
  const nb::handle known = modules().dtypes[static_cast<int>(type)];
  expects(known.is_valid(), "numpy has no type ", name_of(type), " here");
  return nb::borrow(known);
}

element element_of(nb::handle dtype) {
  if (nb::isinstance<nb::str>(dtype)) return named(nb::cast<std::string>(nb::borrow<nb::str>(dtype)));
  return named(nb::cast<std::string>(nb::object(modules().numpy_dtype(dtype).attr("name"))));
}

ufp4::dtype output_of(const char* operation, nb::handle dtype, ufp4::dtype usual) {
  if (dtype.is_none()) return usual;
  const element type = element_of(dtype);
  expects(type <= element::f16, operation, ": dtype must be float32, bfloat16 or float16, got ",
          nb::cast<std::string>(nb::str(dtype)));
  return static_cast<ufp4::dtype>(type);
}

bool array::import(nb::handle from, bool writable) {
  if (writable) return nb::try_cast(from, held_, false);
  nb::ndarray<nb::ro> read_only;
  if (!nb::try_cast(from, read_only, false)) return false;
  held_ = nb::ndarray<>(read_only);
  return true;
}

array::array(const char* operation, const char* name, nb::handle from, bool writable) {
  if (import(from, writable)) {
    type_ = described(held_.dtype());
  } else if (nb::hasattr(from, "dtype") && nb::hasattr(from, "view")) {
    type_ = named(dtype_text(from));
    const int bytes = bytes_of_own(type_);
    if (bytes != 0 && !import(nb::object(from.attr("view")(bytes == 2 ? "uint16" : "uint8")), writable))
      type_ = element::other;
  }
  if (held_.is_valid()) {
    expects(is_on_cpu(held_.device_type()), operation, ": ", name, " is in the memory of ",
            device_text(held_.device_type(), held_.device_id()),
            ", not of the CPU; ufp4.cuda has the operations on CUDA tensors");
    return;
  }
  if (writable && array(operation, name, from).held_.is_valid()) reject(concat(operation, ": ", name, " is read-only"));
  reject(concat(operation, ": ", name, " must be an array of numpy, or an object with __dlpack__, got ",
                dtype_text(from)));
}

bool array::is_contiguous() const {
  std::int64_t expected = 1;
  for (std::size_t i = held_.ndim(); i-- != 0; expected *= static_cast<std::int64_t>(held_.shape(i)))
    if (held_.shape(i) != 1 && held_.stride(i) != expected && held_.size() != 0) return false;
  return true;
}

std::string array::layout_text() const {
  const auto list = [&](const auto& number) {
    std::string text;
    for (std::size_t i = 0; i < held_.ndim(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(number(i));
    return "(" + text + ")";
  };
  return list([&](std::size_t i) { return shape(i); }) + " with strides " +
         list([&](std::size_t i) { return stride(i); });
}

void array::check_aligned(const char* operation, const char* name, std::uintptr_t width) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data());
  expects(address % width == 0, operation, ": ", name, " is not aligned to ", width, " bytes: its address is ",
          address);
}

sink array::matrix(const char* operation, const char* name) const {
  expects(type_ <= element::f16, operation, ": ", name, " must have elements of float32, bfloat16 or float16, got ",
          type_text(type_));
  expects(ndim() == 2, operation, ": ", name, " must have 2 dimensions, got ", ndim());
  check_aligned(operation, name, type_ == element::f32 ? 4 : 2);
  return {data(), static_cast<dtype>(type_), shape(0), shape(1), stride(0), stride(1)};
}

output::output(const char* operation, nb::handle out, nb::handle dtype, std::size_t rows, std::size_t cols,
               ufp4::dtype usual) {
  if (out.is_none()) {
    object = new_array(static_cast<element>(output_of(operation, dtype, usual)), rows, cols);
  } else {
    expects(dtype.is_none(), operation, ": dtype must not be given with out, which has its own");
    object = nb::borrow(out);
  }
  matrix = matrix_argument(operation, "out", object, true);
  ufp4::detail::check_output(operation, "out", matrix.elements);
}

nb::object new_array(element type, std::size_t rows, std::size_t cols) {
  return modules().numpy_empty(nb::make_tuple(rows, cols), dtype_of(type));
}

nb::object view_of_bytes(void* data, element type, std::size_t rows, std::size_t cols, nb::handle owner) {
  const std::size_t shape[] = {rows, cols};
  const auto as = [&](nb::dlpack::dtype plain) {
    return nb::object(nb::ndarray<nb::numpy>(data, 2, shape, owner, nullptr, plain).cast());
  };
  const int own = bytes_of_own(type);
  if (own == 2) return as(nb::dtype<std::uint16_t>()).attr("view")(dtype_of(type));
  if (own == 1) return as(nb::dtype<std::uint8_t>()).attr("view")(dtype_of(type));
  return as(type == element::f32 ? nb::dtype<float>() : nb::dtype<std::uint8_t>());
}

}  // namespace ufp4::python
