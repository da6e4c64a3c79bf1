// ufp4 - matrix_view, matrix_batch: a caller's matrix, by pointer, shape and strides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__STDCPP_FLOAT16_T__) || defined(__STDCPP_BFLOAT16_T__)
#include <stdfloat>
#endif
#include <ufp4/format/scales.hpp>

struct __half;  // of the GPU vendors' headers, which a user includes

namespace ufp4::inline UFP4_TYPES {

/// The storage type of the elements of a matrix.
enum class dtype : std::uint8_t { f32, bf16, fp16 };

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

/// A matrix_element of that dtype.
template <dtype value>
struct element_kind {
  static constexpr dtype kind = value;  ///< the dtype
};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

/// The dtype of a C++ type: float, bf16, fp16, _Float16, std::float16_t, std::bfloat16_t, __half; with bfloat16.hpp of
/// cuda/ or hip/ also the vendor's bfloat16. Another 16-bit type with the bits of bfloat16 or binary16 is added with:
///   template <> struct ufp4::matrix_element<my_bf16> {
template <class T>
struct matrix_element;
template <>
struct matrix_element<float> : detail::element_kind<dtype::f32> {};
template <>
struct matrix_element<ufp4::bf16> : detail::element_kind<dtype::bf16> {};
template <>
struct matrix_element<ufp4::fp16> : detail::element_kind<dtype::fp16> {};
template <>
struct matrix_element<::__half> : detail::element_kind<dtype::fp16> {};
#if defined(UFP4_HAS_FLOAT16)
template <>
struct matrix_element<_Float16> : detail::element_kind<dtype::fp16> {};
#endif
#if defined(__STDCPP_FLOAT16_T__) && !defined(UFP4_HAS_FLOAT16)  // in nvcc; else it is _Float16
template <>
struct matrix_element<std::float16_t> : detail::element_kind<dtype::fp16> {};
#endif
#if defined(__STDCPP_BFLOAT16_T__)
template <>
struct matrix_element<std::bfloat16_t> : detail::element_kind<dtype::bf16> {};
#endif

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

template <class T>
concept matrix_scalar = requires { matrix_element<std::remove_const_t<T>>::kind; } &&
                        sizeof(T) == (matrix_element<std::remove_const_t<T>>::kind == dtype::f32 ? 4 : 2);

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

template <detail::matrix_scalar T>
class matrix;  // matrix.hpp

/// rows x cols elements at data[i * row_stride + j * col_stride], not owned. Strides are in elements, of any sign.
/// Elements may overlap, as in a broadcast row (row stride 0); an operation rejects such a view as its output.
template <class T>
class matrix_view {
 public:
  using element_type = T;

  constexpr matrix_view() = default;
  /// Row-major and contiguous.
  constexpr matrix_view(T* data, std::size_t rows, std::size_t cols)
      : matrix_view(data, rows, cols, static_cast<std::ptrdiff_t>(cols)) {}
  /// Any strides, in elements.
  constexpr matrix_view(T* data, std::size_t rows, std::size_t cols, std::ptrdiff_t row_stride,
                        std::ptrdiff_t col_stride = 1)
      : data_(data), rows_(rows), cols_(cols), row_stride_(row_stride), col_stride_(col_stride) {
    static_assert(
        detail::matrix_scalar<T>,
        "matrix_view: elements are float, bf16, fp16, _Float16, std::float16_t, std::bfloat16_t, __half, or a GPU "
        "vendor's bfloat16 with bfloat16.hpp of the vendor's folder; convert others, such as double, first");
  }
  /// From a view of non-const elements.
  template <class U>
    requires(std::is_same_v<const U, T>)
  constexpr matrix_view(const matrix_view<U>& other)
      : matrix_view(other.data(), other.rows(), other.cols(), other.row_stride(), other.col_stride()) {}
  /// Deleted: the view would refer to a matrix that ends with its statement.
  template <detail::matrix_scalar U>
    requires(std::is_same_v<const U, const T>)
  matrix_view(const matrix<U>&&) = delete;
  /// Deleted: the same.
  template <detail::matrix_scalar U>
    requires(std::is_same_v<const U, const T>)
  matrix_view& operator=(const matrix<U>&&) = delete;

  constexpr T* data() const { return data_; }
  constexpr std::size_t rows() const { return rows_; }
  constexpr std::size_t cols() const { return cols_; }
  constexpr std::ptrdiff_t row_stride() const { return row_stride_; }  ///< between rows, in elements
  constexpr std::ptrdiff_t col_stride() const { return col_stride_; }  ///< between columns, in elements
  /// Element (i, j); the indices are not checked.
  constexpr T& operator()(std::size_t i, std::size_t j) const {
    return data_[static_cast<std::ptrdiff_t>(i) * row_stride_ + static_cast<std::ptrdiff_t>(j) * col_stride_];
  }

 private:
  T* data_ = nullptr;
  std::size_t rows_ = 0, cols_ = 0;
  std::ptrdiff_t row_stride_ = 0, col_stride_ = 1;
};

/// The transposed view of the same elements; nothing is copied.
template <class T>
constexpr matrix_view<T> transpose(const matrix_view<T>& x) {
  return {x.data(), x.cols(), x.rows(), x.col_stride(), x.row_stride()};
}

/// Rows first .. first + count - 1.
template <class T>
constexpr matrix_view<T> row_range(const matrix_view<T>& x, std::size_t first, std::size_t count) {
  return {x.data() + static_cast<std::ptrdiff_t>(first) * x.row_stride(), count, x.cols(), x.row_stride(),
          x.col_stride()};
}

/// Columns first .. first + count - 1.
template <class T>
constexpr matrix_view<T> col_range(const matrix_view<T>& x, std::size_t first, std::size_t count) {
  return {x.data() + static_cast<std::ptrdiff_t>(first) * x.col_stride(), x.rows(), count, x.row_stride(),
          x.col_stride()};
}

// Deleted: the view would refer to a matrix that ends with its statement. (T is for transpose<const float>(m).)
template <class T = void, detail::matrix_scalar U>
void transpose(const matrix<U>&&) = delete;
template <class T = void, detail::matrix_scalar U>
void row_range(const matrix<U>&&, std::size_t, std::size_t) = delete;
template <class T = void, detail::matrix_scalar U>
void col_range(const matrix<U>&&, std::size_t, std::size_t) = delete;

/// size() matrices; matrix i begins i * stride elements after the first. Owns nothing.
template <class T>
class matrix_batch {
 public:
  using element_type = T;

  constexpr matrix_batch() = default;
  /// Packed: size x rows x cols elements, the last index fastest.
  constexpr matrix_batch(T* data, std::size_t size, std::size_t rows, std::size_t cols)
      : matrix_batch(matrix_view<T>(data, rows, cols), size, static_cast<std::ptrdiff_t>(rows * cols)) {}
  constexpr matrix_batch(const matrix_view<T>& first, std::size_t size, std::ptrdiff_t stride)
      : first_(first), size_(size), stride_(stride) {}
  /// Deleted: the batch would refer to a matrix that ends with its statement.
  template <detail::matrix_scalar U>
    requires(std::is_same_v<const U, const T>)
  matrix_batch(const matrix<U>&&, std::size_t, std::ptrdiff_t) = delete;

  constexpr std::size_t size() const { return size_; }  ///< number of matrices
  constexpr std::size_t rows() const { return first_.rows(); }
  constexpr std::size_t cols() const { return first_.cols(); }
  constexpr std::ptrdiff_t stride() const { return stride_; }  ///< between matrices, in elements
  /// Matrix i.
  constexpr matrix_view<T> operator[](std::size_t i) const {
    return {first_.data() + static_cast<std::ptrdiff_t>(i) * stride_, first_.rows(), first_.cols(), first_.row_stride(),
            first_.col_stride()};
  }

 private:
  matrix_view<T> first_;
  std::size_t size_ = 0;
  std::ptrdiff_t stride_ = 0;
};

/// What the tensor scale of a two-level format covers: the whole batch, or each matrix. Without effect, and so an error
/// at compile time where the format is a type, for other formats; leave it out there.
enum class batch_amax : std::uint8_t { shared, own };

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

/// A matrix_view whose element type is a value: what kernels take. Void is const or not.
template <class Void>
struct any_view {
  Void* data = nullptr;
  dtype kind = dtype::f32;
  std::size_t rows = 0, cols = 0;
  std::ptrdiff_t row_stride = 0, col_stride = 1;

  UFP4_HD constexpr std::ptrdiff_t offset(std::size_t i, std::size_t j) const {
    return static_cast<std::ptrdiff_t>(i) * row_stride + static_cast<std::ptrdiff_t>(j) * col_stride;
  }
};
using source = any_view<const void>;
using sink = any_view<void>;

template <matrix_scalar T>
constexpr source source_of(const matrix_view<T>& x) {
  return {x.data(), matrix_element<std::remove_const_t<T>>::kind, x.rows(), x.cols(), x.row_stride(), x.col_stride()};
}
template <matrix_scalar T>
constexpr sink sink_of(const matrix_view<T>& x) {
  static_assert(!std::is_const_v<T>, "the output is a view of const elements");
  return {x.data(), matrix_element<T>::kind, x.rows(), x.cols(), x.row_stride(), x.col_stride()};
}

/// Whether element (i, j) of both has the same address, for every i and j.
constexpr bool same_elements(const source& a, const sink& b) {
  return a.data == b.data && a.kind == b.kind && (a.row_stride == b.row_stride || a.rows <= 1) &&
         (a.col_stride == b.col_stride || (a.cols <= 1 && b.cols <= 1));
}

/// The bytes a strided matrix may touch: [first, last).
struct byte_range {
  std::uintptr_t first = 0, last = 0;
  constexpr bool overlaps(const byte_range& other) const { return first < other.last && other.first < last; }
};

/// A matrix as `count` lines of adjacent elements, `length` bytes each, that begin `pitch` bytes apart. None: pitch 0.
struct matrix_lines {
  std::size_t count = 0;
  std::uintptr_t length = 0, pitch = 0;
};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_CODE {

template <class Void>
byte_range bytes_of(const any_view<Void>& x) {
  if (x.rows == 0 || x.cols == 0) return {};
  const auto size = static_cast<std::ptrdiff_t>(x.kind == dtype::f32 ? 4 : 2);
  const std::ptrdiff_t down = static_cast<std::ptrdiff_t>(x.rows - 1) * x.row_stride;
  const std::ptrdiff_t across = static_cast<std::ptrdiff_t>(x.cols - 1) * x.col_stride;
  const std::ptrdiff_t low = (down < 0 ? down : 0) + (across < 0 ? across : 0);
  const std::ptrdiff_t high = (down > 0 ? down : 0) + (across > 0 ? across : 0) + 1;
  const auto base = reinterpret_cast<std::uintptr_t>(x.data);
  return {base + static_cast<std::uintptr_t>(low * size), base + static_cast<std::uintptr_t>(high * size)};
}

constexpr std::size_t magnitude(std::ptrdiff_t x) {
  return x < 0 ? std::size_t{0} - static_cast<std::size_t>(x) : static_cast<std::size_t>(x);
}

/// Have two elements the same address? Rows that are di apart and columns that are dj apart meet where di * row_stride
/// == dj * col_stride; with the gcd of the strides, first at di = |col_stride| / gcd, dj = |row_stride| / gcd.
template <class Void>
constexpr bool overlaps_itself(const any_view<Void>& x) {
  if (x.rows == 0 || x.cols == 0) return false;
  const std::size_t down = magnitude(x.row_stride), across = magnitude(x.col_stride);
  if ((down == 0 && x.rows > 1) || (across == 0 && x.cols > 1)) return true;
  if (x.rows == 1 || x.cols == 1) return false;
  std::size_t gcd = down;
  for (std::size_t rest = across; rest != 0;) {
    const std::size_t next = gcd % rest;
    gcd = rest, rest = next;
  }
  return across / gcd < x.rows && down / gcd < x.cols;
}

template <class Void>
matrix_lines lines_of(const any_view<Void>& x) {
  const std::uintptr_t size = x.kind == dtype::f32 ? 4 : 2;
  if (x.col_stride == 1 && x.row_stride > 0)
    return {x.rows, x.cols * size, static_cast<std::uintptr_t>(x.row_stride) * size};
  if (x.row_stride == 1 && x.col_stride > 0)
    return {x.cols, x.rows * size, static_cast<std::uintptr_t>(x.col_stride) * size};
  return {};
}

/// May they share a byte? Two columns of one buffer, such as Q and K of a fused projection, do not, though each lies
/// between the other's first byte and its last. For other strides those bytes decide.
template <class A, class B>
bool share_bytes(const any_view<A>& a, const any_view<B>& b) {
  const byte_range bytes_a = bytes_of(a), bytes_b = bytes_of(b);
  if (!bytes_a.overlaps(bytes_b)) return false;
  const matrix_lines lines_a = lines_of(a), lines_b = lines_of(b);
  const std::uintptr_t pitch = lines_a.count > 1 ? lines_a.pitch : lines_b.pitch;
  const bool alike = lines_a.pitch != 0 && lines_b.pitch != 0 && (lines_b.count <= 1 || lines_b.pitch == pitch);
  if (!alike || lines_a.length > pitch || lines_b.length > pitch) return true;
  const std::uintptr_t ahead = bytes_b.first >= bytes_a.first ? (bytes_b.first - bytes_a.first) % pitch
                                                              : pitch - 1 - (bytes_a.first - bytes_b.first - 1) % pitch;
  return ahead < lines_a.length || ahead + lines_b.length > pitch;
}

}  // namespace ufp4::detail::inline UFP4_CODE
