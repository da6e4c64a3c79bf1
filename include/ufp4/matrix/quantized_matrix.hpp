// ufp4 - quantized_matrix (owns its memory) and quantized_view (the caller's memory).
// SPDX-License-Identifier: Apache-2.0
//
// Canonical layout (numerics 5): codes row-major, two a byte, the even k low, padded_cols() / 2 bytes a row; scales
// row-major, padded_cols() / B a row, one row for each row (or for each B rows where blocks are squares).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <ufp4/block/block_format.hpp>
#include <ufp4/block/packing.hpp>
#include <ufp4/detail/expects.hpp>
#include <ufp4/hadamard/signs.hpp>
#include <utility>

namespace ufp4::detail::inline UFP4_TYPES {

/// Memory for n trivial objects, on a cache line, not written before its user writes it. Copies copy.
template <class T>
class buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  buffer() = default;
  UFP4_HOST_MEMBER explicit buffer(std::size_t size) : size_(size) {
    if (size != 0) data_ = static_cast<T*>(::operator new(size * sizeof(T), line));
  }
  UFP4_HOST_MEMBER buffer(const buffer& other) : buffer(other.size_) {
    if (size_ != 0) std::memcpy(data_, other.data_, size_ * sizeof(T));
  }
  UFP4_HOST_MEMBER buffer(buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  UFP4_HOST_MEMBER buffer& operator=(buffer other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  UFP4_HOST_MEMBER ~buffer() {
    if (data_ != nullptr) ::operator delete(data_, line);
  }

  UFP4_HOST_MEMBER T* data() const { return data_; }
  UFP4_HOST_MEMBER std::size_t size() const { return size_; }

 private:
  static constexpr std::align_val_t line{64};
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// K rounded up to whole blocks and whole transform runs.
constexpr std::size_t padded_length(std::size_t cols, const block_shape& block, const transform_spec& t) {
  const std::size_t run = t.n > static_cast<std::uint32_t>(block.cols) ? t.n : static_cast<std::size_t>(block.cols);
  return (cols + run - 1) / run * run;
}
/// A transform_spec is data, and may have been put together by hand.
inline void check_length(const char* what, const transform_spec& t) {
  expects(t.valid_length(), what, ": the transform's length is ", t.n, ", not 16, 32, 64, 128 or 256 (or 1 for none)");
}
/// rows * padded elements, which a size_t must be able to count: a wrapped product would pass for a small matrix.
inline std::size_t element_count(const char* what, std::size_t rows, std::size_t cols, std::size_t padded,
                                 const transform_spec& t) {
  check_length(what, t);
  expects(padded >= cols && (padded == 0 || rows <= static_cast<std::size_t>(-1) / padded), what, ": ", rows, " x ",
          cols, " elements are more than can be counted");
  return rows * padded;
}
constexpr std::size_t scale_rows(std::size_t rows, const block_shape& block) {
  const auto height = static_cast<std::size_t>(block.rows);
  return (rows + height - 1) / height;
}

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

/// Codes and scales in memory that somebody else owns, with what is needed to read them.
/// Constructing one checks the sizes of the spans: std::invalid_argument names the one that does not fit.
template <any_block_format Format>
class quantized_view {
 public:
  using format = Format;
  using scale_type = typename Format::scale_type;

  quantized_view() = default;
  UFP4_HOST_MEMBER quantized_view(std::span<const std::uint8_t> codes, std::span<const scale_type> scales,
                                  float tensor_scale, std::size_t rows, std::size_t cols,
                                  const transform_spec& applied = {})
      : codes_(codes), scales_(scales), tensor_scale_(tensor_scale), rows_(rows), cols_(cols), transform_(applied) {
    const std::size_t code_bytes = detail::element_count("quantized_view", rows, cols, padded_cols(), applied) / 2;
    const std::size_t scale_count = detail::scale_rows(rows, Format::block) * (padded_cols() / Format::block_size);
    detail::expects(codes.size() == code_bytes, "quantized_view: codes has ", codes.size(), " bytes, but ", rows, " x ",
                    cols, " elements (", padded_cols(), " with padding) take ", code_bytes);
    detail::expects(scales.size() == scale_count, "quantized_view: scales has ", scales.size(), " entries, but ", rows,
                    " x ", cols, " elements take ", scale_count);
    detail::expects(codes.data() != nullptr || codes.empty(), "quantized_view: codes is null");
    detail::expects(scales.data() != nullptr || scales.empty(), "quantized_view: scales is null");
  }

  UFP4_HOST_MEMBER std::span<const std::uint8_t> codes() const { return codes_; }
  UFP4_HOST_MEMBER std::span<const scale_type> scales() const { return scales_; }
  UFP4_HOST_MEMBER float tensor_scale() const { return tensor_scale_; }  ///< 1 for formats of one level
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::size_t padded_cols() const { return detail::padded_length(cols_, Format::block, transform_); }
  const transform_spec& transform() const { return transform_; }  ///< what was applied before quantizing

 private:
  std::span<const std::uint8_t> codes_;
  std::span<const scale_type> scales_;
  float tensor_scale_ = 1;
  std::size_t rows_ = 0, cols_ = 0;
  transform_spec transform_;
};

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

/// Codes and scales in memory of their own, with what is needed to read them; in which order they lie is the affair of
/// the type that derives from it.
template <any_block_format Format>
class quantized_storage {
 public:
  using format = Format;
  using scale_type = typename Format::scale_type;

  UFP4_HOST_MEMBER std::span<const std::uint8_t> codes() const { return {codes_.data(), codes_.size()}; }
  UFP4_HOST_MEMBER std::span<const scale_type> scales() const { return {scales_.data(), scales_.size()}; }
  UFP4_HOST_MEMBER std::span<std::uint8_t> codes() { return {codes_.data(), codes_.size()}; }
  UFP4_HOST_MEMBER std::span<scale_type> scales() { return {scales_.data(), scales_.size()}; }
  UFP4_HOST_MEMBER float tensor_scale() const { return tensor_scale_; }  ///< 1 for formats of one level
  UFP4_HOST_MEMBER void set_tensor_scale(float scale) { tensor_scale_ = scale; }
  UFP4_HOST_MEMBER std::size_t rows() const { return rows_; }
  UFP4_HOST_MEMBER std::size_t cols() const { return cols_; }
  UFP4_HOST_MEMBER std::size_t padded_cols() const { return padded_length(cols_, Format::block, transform_); }
  UFP4_HOST_MEMBER const transform_spec& transform() const { return transform_; }

 protected:
  quantized_storage() = default;
  /// Uninitialised: `elements` codes and `scales` scales.
  UFP4_HOST_MEMBER quantized_storage(std::size_t rows, std::size_t cols, const transform_spec& applied,
                                     std::size_t elements, std::size_t scales)
      : rows_(rows), cols_(cols), transform_(applied), codes_(elements / 2), scales_(scales) {}

 private:
  std::size_t rows_ = 0, cols_ = 0;
  transform_spec transform_;
  buffer<std::uint8_t> codes_;
  buffer<scale_type> scales_;
  float tensor_scale_ = 1;
};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

/// The same, owning its memory (64-byte aligned, not zero-filled before it is written). Copies copy; a moved-from
/// matrix may only be destroyed or assigned to.
template <any_block_format Format>
class quantized_matrix : public detail::quantized_storage<Format> {
 public:
  quantized_matrix() = default;
  /// Uninitialised codes and scales for rows x cols elements under a transform; quantize_into fills it.
  UFP4_HOST_MEMBER quantized_matrix(std::size_t rows, std::size_t cols, const transform_spec& applied = {})
      : quantized_matrix(rows, cols, applied, detail::padded_length(cols, Format::block, applied)) {}

  UFP4_HOST_MEMBER quantized_view<Format> view() const {
    return {this->codes(), this->scales(), this->tensor_scale(), this->rows(), this->cols(), this->transform()};
  }
  UFP4_HOST_MEMBER operator quantized_view<Format>() const { return view(); }

 private:
  UFP4_HOST_MEMBER quantized_matrix(std::size_t rows, std::size_t cols, const transform_spec& applied,
                                    std::size_t padded)
      : detail::quantized_storage<Format>(rows, cols, applied,
                                          detail::element_count("quantized_matrix", rows, cols, padded, applied),
                                          detail::scale_rows(rows, Format::block) * (padded / Format::block_size)) {}
};

template <class T>
struct is_quantized : std::false_type {};
template <any_block_format F>
struct is_quantized<quantized_view<F>> : std::true_type {};
template <any_block_format F>
struct is_quantized<quantized_matrix<F>> : std::true_type {};

/// A quantized_matrix or a quantized_view.
template <class T>
concept quantized = is_quantized<T>::value;

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_CODE {

inline bool same_bytes(const void* a, const void* b, std::size_t size) {
  return size == 0 || std::memcmp(a, b, size) == 0;
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_CODE {

/// The same shape and the same bits: codes, scales, tensor scale. (The transform is not stored in the bits.)
template <quantized A, quantized B>
  requires std::is_same_v<typename A::format, typename B::format>
bool operator==(const A& a, const B& b) {
  const float scale_a = a.tensor_scale(), scale_b = b.tensor_scale();
  return a.rows() == b.rows() && a.cols() == b.cols() && a.codes().size() == b.codes().size() &&
         detail::same_bytes(&scale_a, &scale_b, sizeof(float)) &&
         detail::same_bytes(a.codes().data(), b.codes().data(), a.codes().size_bytes()) &&
         detail::same_bytes(a.scales().data(), b.scales().data(), a.scales().size_bytes());
}

/// Rows first .. first + count - 1 of a quantized matrix, as a view of its memory: an expert's tokens, a rank's
/// weights. The rows must exist and, of square blocks, whole blocks must begin at `first`:
/// std::invalid_argument otherwise.
template <quantized Q>
quantized_view<typename Q::format> row_range(const Q& q, std::size_t first, std::size_t count) {
  constexpr auto height = static_cast<std::size_t>(Q::format::block.rows);
  detail::expects(first <= q.rows() && count <= q.rows() - first, "row_range: rows ", first, " to ", first + count,
                  ", but the matrix has ", q.rows());
  detail::expects(first % height == 0, "row_range: first is ", first, ", not a multiple of the block's ", height,
                  " rows");
  const std::size_t blocks = q.padded_cols() / Q::format::block_size;
  const quantized_view<typename Q::format> all = q;
  return {all.codes().subspan(first * q.padded_cols() / 2, count * q.padded_cols() / 2),
          all.scales().subspan(first / height * blocks, (count + height - 1) / height * blocks),
          q.tensor_scale(),
          count,
          q.cols(),
          q.transform()};
}

/// The transpose of a matrix of square blocks, by its codes: the bits of quantizing the transposed matrix with the same
/// policies, unless they were stochastic. After a Hadamard transform there is no such thing: std::invalid_argument.
template <quantized Q>
  requires(Q::format::block.rows > 1)
quantized_matrix<typename Q::format> transpose(const Q& q) {
  detail::expects(q.transform().n == 1, "transpose: the matrix was quantized after a Hadamard transform of ",
                  q.transform().n, " along its columns, so its codes cannot be read along its rows");
  using F = typename Q::format;
  const auto& in = q;
  quantized_matrix<F> out(in.cols(), in.rows());
  out.set_tensor_scale(in.tensor_scale());
  constexpr std::uint8_t zero = spec_of<F>.grid.code[spec_of<F>.grid.zero];
  const auto code = [&in](std::size_t i, std::size_t k) {
    return code_at(in.codes().data() + i * in.padded_cols() / 2, k);
  };
  for (std::size_t i = 0; i < out.rows(); ++i)
    for (std::size_t k = 0; k < out.padded_cols(); k += 2) {
      const std::uint8_t codes[2] = {k < out.cols() ? code(k, i) : zero, k + 1 < out.cols() ? code(k + 1, i) : zero};
      pack_codes(codes, 2, &out.codes()[(i * out.padded_cols() + k) / 2]);
    }
  const std::size_t down = in.padded_cols() / F::block_size, across = out.padded_cols() / F::block_size;
  for (std::size_t i = 0; i < detail::scale_rows(out.rows(), F::block); ++i)
    for (std::size_t k = 0; k < across; ++k) out.scales()[i * across + k] = in.scales()[k * down + i];
  return out;
}

}  // namespace ufp4::inline UFP4_CODE
