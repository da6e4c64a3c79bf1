// ufp4 - tensors in files: types of numbers, the place of a tensor in a file, sources of bytes for writers.
// SPDX-License-Identifier: Apache-2.0
/// Vocabulary of every reader and writer of this folder, with the standard headers of their interfaces. Nothing here
/// opens a file. Files are little-endian, and so must the machine be: numbers are copied as they are.
#pragma once

#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <ufp4/interop/text.hpp>
#include <ufp4/matrix/output.hpp>
#include <utility>
#include <vector>

static_assert(std::endian::native == std::endian::little,
              "ufp4: tensor files are little-endian and copied as they are");

namespace ufp4::interop::inline UFP4_TYPES {

/// The type of a stored number; `other`: any type not listed. f4 is E2M1, two numbers a byte, the first in the low
/// nibble; mxfp4 and nvfp4 are ggml's blocks of 32 and 64 elements.
enum class number_type : char { f32, f16, bf16, f8_e4m3, f8_e8m0, u8, i8, f64, i64, i32, f4, mxfp4, nvfp4, other };
/// Their names in .safetensors and GGUF files, in the same order.
inline constexpr std::string_view number_type_names[] = {"F32", "F16", "BF16", "F8_E4M3", "F8_E8M0", "U8",   "I8",
                                                         "F64", "I64", "I32",  "F4",      "MXFP4",   "NVFP4"};

/// What a file states of one tensor.
struct stored_tensor {
  std::string name;                       ///< empty in .npy files
  std::string type_name;                  ///< as the file spells it
  number_type type = number_type::other;  ///< the same as one of ours
  bool column_major = false;              ///< of a matrix: NumPy's Fortran order
  std::vector<std::uint64_t> shape;       ///< elements of the last dimension are contiguous
  std::uint64_t offset = 0;               ///< of the first byte, from the start of the file
  std::uint64_t bytes = 0;                ///< size of the data
};

using byte_sink = std::function<void(const void*, std::size_t)>;  ///< takes the next bytes of a tensor
/// Writes all bytes of a tensor into a sink, in any number of parts.
using byte_source = std::function<void(const byte_sink&)>;

/// A tensor to be written: `write` is called once, when the writer reaches the tensor.
struct tensor_source {
  number_type type = number_type::other;  ///< of the elements
  std::vector<std::uint64_t> shape;       ///< the extents
  byte_source write;                      ///< writes the data
};

}  // namespace ufp4::interop::inline UFP4_TYPES

namespace ufp4::interop::inline UFP4_CODE {

using ufp4::detail::expects;  ///< std::invalid_argument unless a condition holds

/// The name of a type; "other" for number_type::other.
constexpr std::string_view type_text(number_type type) {
  return type >= number_type::other ? "other" : number_type_names[static_cast<std::size_t>(type)];
}
/// The type of that name, or number_type::other.
constexpr number_type number_type_named(std::string_view name) {
  auto type = number_type::f32;
  while (type != number_type::other && name != type_text(type)) type = number_type(static_cast<int>(type) + 1);
  return type;
}

/// Size in bytes of a tensor whose last dimension is stored in blocks of `elements` elements and `bytes` bytes. Nothing
/// if that dimension is not a whole number of blocks, or the size exceeds 64 bits.
inline std::optional<std::uint64_t> byte_count(std::uint64_t elements, std::uint64_t bytes,
                                               const std::vector<std::uint64_t>& shape) {
  for (const std::uint64_t extent : shape)
    if (extent == 0) return 0;
  if (!shape.empty() && shape.back() % elements != 0) return {};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::uint64_t extent = i + 1 == shape.size() ? shape[i] / elements : shape[i];
    if (bytes > (std::numeric_limits<std::uint64_t>::max)() / extent) return {};
    bytes *= extent;
  }
  return bytes;
}

/// The same of a type; for an empty shape the bytes of one number, pair (f4) or block. Nothing for number_type::other,
/// and for f4 of an odd number of elements.
inline std::optional<std::uint64_t> byte_count(number_type type, const std::vector<std::uint64_t>& shape) {
  constexpr std::uint64_t bytes[] = {4, 2, 2, 1, 1, 1, 1, 8, 8, 4, 1, 17, 36};
  if (type >= number_type::other) return {};
  if (type == number_type::f4 && !shape.empty()) {
    const auto count = byte_count(1, 1, shape);
    return count && *count % 2 == 0 ? std::optional(*count / 2) : std::nullopt;
  }
  const std::uint64_t elements = type == number_type::mxfp4 ? 32 : type == number_type::nvfp4 ? 64 : 1;
  return byte_count(elements, bytes[static_cast<std::size_t>(type)], shape);
}

/// "2 x 3", or "no shape" for a tensor of no dimensions.
inline std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text;
  for (const std::uint64_t extent : shape) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return text.empty() ? "no shape" : text;
}

/// For messages: "tensor w is 2 x 3 F32".
inline std::string tensor_text(const stored_tensor& t) {
  return "tensor " + printable(t.name) + " is " + shape_text(t.shape) + " " + printable(t.type_name);
}

/// The transpose: the same bytes described in the other order. std::invalid_argument unless `t` is a matrix.
inline stored_tensor transpose(stored_tensor t) {
  expects(t.shape.size() == 2, "transpose: not a matrix: the tensor has ", t.shape.size(), " dimensions");
  std::swap(t.shape[0], t.shape[1]);
  t.column_major = !t.column_major;
  return t;
}

/// Whether an element is one number that binary32 represents exactly: f32, f16, bf16, f8_e4m3, f8_e8m0, u8 and i8.
constexpr bool is_plain_number(number_type type) { return type <= number_type::i8; }

/// The value of the number at `at`. Requires is_plain_number(type).
inline float decode_number(number_type type, const unsigned char* at) {
  const auto load = [at](auto number) {
    std::memcpy(&number, at, sizeof number);
    return number;
  };
  switch (type) {
    case number_type::f32: return load(0.0f);
    case number_type::f16: return static_cast<float>(fp16::from_bits(load(std::uint16_t{})));
    case number_type::bf16: return static_cast<float>(bf16::from_bits(load(std::uint16_t{})));
    case number_type::f8_e4m3: return static_cast<float>(e4m3::from_bits(*at));
    case number_type::f8_e8m0: return static_cast<float>(e8m0::from_bits(*at));
    case number_type::u8: return static_cast<float>(*at);
    case number_type::i8: return static_cast<float>(static_cast<signed char>(*at));
    default: return 0;
  }
}

/// The type of an element in files: F32, BF16 or F16.
template <ufp4::detail::matrix_scalar T>
constexpr number_type number_type_of() {
  constexpr number_type types[] = {number_type::f32, number_type::bf16, number_type::f16};  // as dtype lists them
  return types[static_cast<int>(matrix_element<std::remove_const_t<T>>::kind)];
}

/// A matrix in memory as F32, BF16 or F16, row-major for any strides. It must stay valid until the file is written.
template <ufp4::detail::matrix_scalar T>
tensor_source source_of(const matrix_view<T>& x) {
  return {number_type_of<T>(), {x.rows(), x.cols()}, [x](const byte_sink& sink) {
            std::vector<std::remove_const_t<T>> row(x.cols());
            for (std::size_t i = 0; i < x.rows(); ++i) {
              for (std::size_t k = 0; k < x.cols(); ++k) row[k] = x(i, k);
              sink(row.data(), row.size() * sizeof(T));
            }
          }};
}
/// Deleted: the source would refer to a matrix that ends with its statement.
template <class T = void, ufp4::detail::matrix_scalar U>
void source_of(const matrix<U>&&) = delete;

/// Bytes in memory, valid until the file is written, as a tensor. std::invalid_argument if the shape has no byte count.
inline tensor_source source_of(number_type type, std::vector<std::uint64_t> shape, const void* data) {
  const auto bytes = byte_count(type, shape);
  expects(bytes.has_value(), "source_of: no byte count for this type and shape: ", shape_text(shape));
  const auto count = static_cast<std::size_t>(*bytes);
  return {type, std::move(shape), [data, count](const byte_sink& sink) { sink(data, count); }};
}

/// One float as a tensor of shape [1], or of no dimensions.
inline tensor_source source_of(float value, std::vector<std::uint64_t> shape) {
  return {number_type::f32, std::move(shape), [value](const byte_sink& sink) { sink(&value, sizeof value); }};
}

}  // namespace ufp4::interop::inline UFP4_CODE
