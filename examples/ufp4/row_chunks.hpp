// ufp4 - a stored matrix in chunks of rows, in the type it is stored in, and the values of a quantized chunk.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ufp4/dequantize.hpp>
#include <ufp4/hadamard.hpp>
#include <ufp4/interop/tensor_file.hpp>
#include <utility>
#include <vector>

namespace tool {

/// 2^22 elements: with all intermediate results tens of megabytes, and enough work for every thread.
inline constexpr std::size_t usual_chunk = std::size_t{1} << 22;

/// The number of rows with at most `chunk` elements, a multiple of `height` and at least `height`; at most `rows`.
inline std::size_t rows_at_once(std::uint64_t rows, std::uint64_t cols, std::size_t height, std::size_t chunk) {
  const std::uint64_t fit = chunk / (std::max<std::uint64_t>)(cols, 1) / height * height;
  return static_cast<std::size_t>((std::min)(rows, (std::max<std::uint64_t>)(fit, height)));
}

/// A stored tensor as a matrix: the dimension `axis` is the columns, the others in their order are the rows. Slices, of
/// three or more dimensions, are the indices of the first of the others.
class matrix_rows {
 public:
  /// Requires at least one dimension, no extent of 0, and a plain number type.
  matrix_rows(ufp4::interop::tensor_file& file, const ufp4::interop::stored_tensor& t, std::size_t axis)
      : file_(file), tensor_(t), cols_(t.shape[axis]) {
    for (std::size_t i = 0; i < t.shape.size(); ++i)
      if (i != axis) (i < axis ? outer_ : inner_) *= t.shape[i];
    slices_ = t.shape.size() < 3 ? 1 : t.shape[axis == 0 ? 1 : 0];
    if (t.shape.size() == 2 && axis == 0) {
      tensor_ = ufp4::interop::transpose(t);
    } else if (inner_ == 1) {
      tensor_.shape = {outer_, cols_};
    } else {
      return;
    }
    is_matrix_ = true;
  }

  std::uint64_t rows() const { return outer_ * inner_; }
  std::uint64_t cols() const { return cols_; }
  std::uint64_t slices() const { return slices_; }
  std::uint64_t part_rows() const { return rows() / slices_; }

  /// Rows from `first` on, as many as `out` has, rounded to its type; `out` is contiguous.
  template <class T>
  void read(std::uint64_t first, const ufp4::matrix_view<T>& out) {
    if (!is_matrix_) return read_strided(first, out);
    if (tensor_.column_major || tensor_.type != ufp4::interop::number_type_of<T>())
      return file_.read_rows(tensor_, first, out);
    file_.read_bytes(tensor_, first * cols_ * sizeof(T), out.data(), out.rows() * out.cols() * sizeof(T));
  }

 private:
  /// Row (o, s) of the matrix has its element k at (o * cols + k) * inner + s of the tensor.
  template <class T>
  void read_strided(std::uint64_t first, const ufp4::matrix_view<T>& out) {
    for (std::uint64_t row = 0; row < out.rows();) {
      const std::uint64_t s = (first + row) % inner_, count = (std::min)(inner_ - s, out.rows() - row);
      const std::uint64_t begin = (first + row) / inner_ * cols_ * inner_ + s;
      if (count == inner_) {
        read_run(begin, cols_ * inner_);
        for (std::uint64_t k = 0; k < cols_; ++k) place(out, row, count, k, k * inner_);
      } else {
        for (std::uint64_t k = 0; k < cols_; ++k) {
          read_run(begin + k * inner_, count);
          place(out, row, count, k, 0);
        }
      }
      row += count;
    }
  }

  std::size_t width() const { return static_cast<std::size_t>(ufp4::interop::byte_count(tensor_.type, {}).value()); }
  void read_run(std::uint64_t begin, std::uint64_t count) {
    bytes_.resize(static_cast<std::size_t>(count) * width());
    file_.read_bytes(tensor_, begin * width(), bytes_.data(), bytes_.size());
  }
  template <class T>
  void place(const ufp4::matrix_view<T>& out, std::uint64_t row, std::uint64_t count, std::uint64_t k,
             std::uint64_t at) const {
    for (std::size_t i = 0; i < count; ++i)
      out(static_cast<std::size_t>(row) + i, static_cast<std::size_t>(k)) = ufp4::detail::round_to<T>(
          ufp4::interop::decode_number(tensor_.type, bytes_.data() + (static_cast<std::size_t>(at) + i) * width()));
  }

  ufp4::interop::tensor_file& file_;
  ufp4::interop::stored_tensor tensor_;
  std::uint64_t outer_ = 1, inner_ = 1, cols_, slices_ = 1;
  bool is_matrix_ = false;  ///< tensor_ is the matrix itself
  std::vector<unsigned char> bytes_;
};

/// visit(first row, matrix_view<const T>) over rows begin .. end - 1, from top to bottom, at most `at_once` at a time.
template <class T, class Visit>
void for_parts(matrix_rows& matrix, std::size_t begin, std::size_t end, std::size_t at_once, std::vector<T>& memory,
               Visit& visit) {
  const auto cols = static_cast<std::size_t>(matrix.cols());
  memory.resize(at_once * cols);
  for (std::size_t first = begin; first < end; first += at_once) {
    const std::size_t count = (std::min)(at_once, end - first);
    matrix.read(first, ufp4::matrix_view<T>(memory.data(), count, cols));
    visit(first, ufp4::matrix_view<const T>(memory.data(), count, cols));
  }
}

/// The bytes of a tensor, unchanged, in pieces; `progress` is called before each piece.
inline ufp4::interop::byte_source bytes_of(ufp4::interop::tensor_file& file, const ufp4::interop::stored_tensor& t,
                                           std::function<void()> progress) {
  return [&file, &t, progress = std::move(progress)](const ufp4::interop::byte_sink& sink) {
    constexpr std::uint64_t piece = 1 << 20;
    std::vector<unsigned char> memory(static_cast<std::size_t>((std::min)(piece, t.bytes)));
    for (std::uint64_t at = 0; at < t.bytes; at += piece) {
      progress();
      const auto count = static_cast<std::size_t>((std::min)(piece, t.bytes - at));
      file.read_bytes(t, at, memory.data(), count);
      sink(memory.data(), count);
    }
  };
}

/// The values of a quantized matrix: decoded, its transform undone, rounded to out's type once.
template <ufp4::detail::matrix_scalar T>
void restore(const ufp4::cpu::context& ctx, const ufp4::any_quantized_view& q, const ufp4::matrix_view<T>& out) {
  if (q.transform().n == 1) return ufp4::dequantize(q, out, ctx);
  const std::size_t padded = q.padded_cols();  // the inverse transform reads the padding too
  const ufp4::matrix<float> transformed = ufp4::dequantize(
      ufp4::any_quantized_view(q.spec(), q.codes(), q.scale_bytes(), q.tensor_scale(), q.rows(), padded, q.transform()),
      ctx);
  const std::size_t runs = (q.cols() + q.transform().n - 1) / q.transform().n;  // fewer than a longer block has
  const ufp4::matrix_view<const float> used(transformed.data(), q.rows(), runs * q.transform().n,
                                            static_cast<std::ptrdiff_t>(padded));
  ufp4::hadamard_inverse(used, out, q.transform(), ctx);
}

}  // namespace tool
