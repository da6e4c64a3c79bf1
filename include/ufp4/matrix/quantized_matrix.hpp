// ufp4 - quantized_matrix (owns its memory) and quantized_view (a caller's memory), their format a template argument.
// SPDX-License-Identifier: Apache-2.0
//
// Typed wrappers of any_quantized.hpp, which defines the layout of codes and scales.
#pragma once

#include <ufp4/matrix/any_quantized.hpp>

namespace ufp4::detail::inline UFP4_TYPES {

/// The parameter of an operation that reads a quantized matrix within its call: temporary matrices too.
class quantized_argument : public any_quantized_view {
 public:
  using any_quantized_view::any_quantized_view;
  template <class Q>
    requires(std::is_convertible_v<const Q&, any_quantized_view>)
  UFP4_HOST_MEMBER quantized_argument(const Q& q) : any_quantized_view(q) {}
};
template <any_block_format Format>
class typed_memory : public quantized_memory {
 public:
  using format = Format;
  using scale_type = typename Format::scale_type;

  /// The block scales; a format without an array of them (has_scale_array) has scale_bytes() only.
  UFP4_HOST_MEMBER std::span<const scale_type> scales() const UFP4_LIFETIMEBOUND
    requires(Format::has_scale_array)
  {
    return {reinterpret_cast<const scale_type*>(scale_bytes().data()), scale_bytes().size() / sizeof(scale_type)};
  }
  UFP4_HOST_MEMBER std::span<scale_type> scales() UFP4_LIFETIMEBOUND
    requires(Format::has_scale_array)
  {
    return {reinterpret_cast<scale_type*>(scale_bytes().data()), scale_bytes().size() / sizeof(scale_type)};
  }

 protected:
  UFP4_HOST_MEMBER typed_memory() : quantized_memory({spec_of<Format>}, {}) {}
  UFP4_HOST_MEMBER explicit typed_memory(quantized_memory&& memory) : quantized_memory(std::move(memory)) {}
  UFP4_HOST_MEMBER typed_memory(const quantized_shape& shape, const quantized_size& size)
      : quantized_memory(shape, size) {}
};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

/// An any_quantized_view whose format is a type: codes and scales in the caller's memory.
template <detail::any_block_format Format>
class quantized_view : public any_quantized_view {
 public:
  using format = Format;
  using scale_type = typename Format::scale_type;

  UFP4_HOST_MEMBER quantized_view() : quantized_view({}, {}, 1, 0, 0) {}
  /// Refers to codes and scales in the canonical layout (numerics 5). std::invalid_argument if a size does not match.
  UFP4_HOST_MEMBER quantized_view(std::span<const std::uint8_t> codes, std::span<const scale_type> scales,
                                  float tensor_scale, std::size_t rows, std::size_t cols,
                                  const transform_spec& applied = {})
    requires(Format::has_scale_array)
      : any_quantized_view("quantized_view", {spec_of<Format>, tensor_scale, rows, cols, applied}, codes,
                           std::as_bytes(scales)) {}
  /// A view whose format is this one, as data: std::invalid_argument for any other.
  UFP4_HOST_MEMBER explicit quantized_view(const any_quantized_view& q) : any_quantized_view(q) {
    detail::expects(q.spec() == spec_of<Format>, "quantized_view: the view has another format");
  }

  /// The block scales; a format without an array of them (has_scale_array) has scale_bytes() only.
  UFP4_HOST_MEMBER std::span<const scale_type> scales() const
    requires(Format::has_scale_array)
  {
    return {reinterpret_cast<const scale_type*>(scale_bytes().data()), scale_bytes().size() / sizeof(scale_type)};
  }

 private:
  UFP4_HOST_MEMBER quantized_view(const detail::quantized_shape& shape, std::span<const std::uint8_t> codes,
                                  std::span<const std::byte> scales)
      : any_quantized_view(shape, codes, scales) {}

  template <detail::any_block_format>
  friend class quantized_matrix;
  friend struct detail::view_of_checked;
};

/// An any_quantized whose format is a type: it owns its memory.
template <detail::any_block_format Format>
class quantized_matrix : public detail::typed_memory<Format> {
 public:
  quantized_matrix() = default;
  /// Uninitialised codes and scales for rows x cols elements under a transform; quantize_into fills it.
  UFP4_HOST_MEMBER quantized_matrix(std::size_t rows, std::size_t cols, const transform_spec& applied = {})
      : quantized_matrix(detail::quantized_shape{spec_of<Format>, 1, rows, cols, applied}) {}
  /// Takes over the memory of a matrix whose format is this one, as data: std::invalid_argument for any other.
  UFP4_HOST_MEMBER explicit quantized_matrix(any_quantized q) : detail::typed_memory<Format>(std::move(q)) {
    detail::expects(this->spec() == spec_of<Format>, "quantized_matrix: the matrix has another format");
  }

  /// A view of the whole matrix.
  UFP4_HOST_MEMBER quantized_view<Format> view() const& { return {this->shape_, this->codes(), this->scale_bytes()}; }
  quantized_view<Format> view() const&& = delete;  ///< the matrix ends with its statement
  UFP4_HOST_MEMBER operator quantized_view<Format>() const& { return view(); }
  operator quantized_view<Format>() const&& = delete;
  UFP4_HOST_MEMBER operator any_quantized_view() const& { return view(); }
  operator any_quantized_view() const&& = delete;
  /// The same memory with the format as data.
  UFP4_HOST_MEMBER any_quantized to_any() && { return any_quantized(std::move(*this)); }
  UFP4_HOST_MEMBER float operator()(std::size_t row, std::size_t col) const { return view()(row, col); }

 private:
  UFP4_HOST_MEMBER explicit quantized_matrix(const detail::quantized_shape& shape)
      : detail::typed_memory<Format>(shape, detail::storage_of("quantized_matrix", shape)) {}
};

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

/// A quantized_matrix or a quantized_view: the format is a type.
template <class T>
concept quantized =
    std::is_same_v<T, quantized_view<typename T::format>> || std::is_same_v<T, quantized_matrix<typename T::format>>;

/// The same, or any_quantized, or any_quantized_view: the format is data.
template <class T>
concept quantized_like = quantized<T> || std::is_same_v<T, any_quantized> || std::is_same_v<T, any_quantized_view>;

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_CODE {

inline bool same_matrix(const any_quantized_view& a, const any_quantized_view& b) {
  const float scale_a = a.tensor_scale(), scale_b = b.tensor_scale();
  return a.spec() == b.spec() && a.rows() == b.rows() && a.cols() == b.cols() && a.codes().size() == b.codes().size() &&
         same_bytes(&scale_a, &scale_b, sizeof(float)) &&
         same_bytes(a.codes().data(), b.codes().data(), a.codes().size()) &&
         same_bytes(a.scale_bytes().data(), b.scale_bytes().data(), a.scale_bytes().size());
}

/// What parts of a row must be multiples of: the least common multiple of block, transform and segment.
inline std::size_t whole_run(const format_spec& f, const transform_spec& t) {
  return common_columns(padded_length(1, f.block, t), static_cast<std::size_t>(f.outer.segment));
}
inline const char* run_name(const format_spec& f) {
  return f.outer.segment != 0 ? "the least common multiple of block, transform and segment"
                              : "the longer of block and transform";
}

/// The scales of the columns from `first` on, with their outer scales.
inline void copy_strips(const any_quantized_view& q, std::size_t first, quantized_memory& out) {
  const format_spec& f = q.spec();
  const scale_strip from = scale_strip_of(f, q.padded_cols()), to = scale_strip_of(f, out.padded_cols());
  const std::size_t block = first / static_cast<std::size_t>(f.block.cols);
  const std::size_t outer =
      f.outer.span == outer_scale::kind::row ? 0 : first / static_cast<std::size_t>(f.outer.segment);
  for (std::size_t strip = 0; to.bytes() != 0 && strip < scale_rows(q.rows(), f.block); ++strip) {
    const std::byte* in = q.scale_bytes().data() + strip * from.bytes();
    std::byte* copy = out.scale_bytes().data() + strip * to.bytes();
    std::memset(copy, 0, to.bytes());  // also what aligns the outer scales
    std::memcpy(copy, in + block * from.block_bytes, to.blocks * to.block_bytes);
    std::memcpy(copy + to.outer_at(), in + from.outer_at() + outer * from.outer_bytes, to.outers * to.outer_bytes);
  }
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_CODE {

/// The same format, shape and bits: codes, scales, tensor scale. (The transform is not stored in the bits.)
template <detail::quantized_like A, detail::quantized_like B>
bool operator==(const A& a, const B& b) {
  return detail::same_matrix(a, b);
}

/// Rows first .. first + count - 1 of a quantized matrix, as a view of its memory: an expert's tokens, a rank's
/// weights. std::invalid_argument unless the rows exist and whole blocks begin at `first`.
inline any_quantized_view row_range(const any_quantized_view& q, std::size_t first, std::size_t count) {
  const auto height = static_cast<std::size_t>(q.spec().block.rows);
  detail::expects(first <= q.rows() && count <= q.rows() - first, "row_range: rows out of range: ", first, " + ", count,
                  " > ", q.rows());
  detail::expects(first % height == 0 || count == 0, "row_range: first must be a multiple of the block's ", height,
                  " rows, got ", first);
  const auto size = [&q](std::size_t rows) { return storage_size(q.spec(), rows, q.cols(), q.transform()); };
  const detail::quantized_size skipped = size(first), taken = size(count);
  const auto codes = q.codes().subspan(skipped.codes, taken.codes);
  const auto scales = q.scale_bytes().subspan(skipped.scales, taken.scales);
  return {q.spec(), codes, scales, q.tensor_scale(), count, q.cols(), q.transform()};
}
template <detail::quantized Q>
quantized_view<typename Q::format> row_range(const Q& q, std::size_t first, std::size_t count) {
  return quantized_view<typename Q::format>(row_range(any_quantized_view(q), first, count));
}
/// Deleted: the rows would refer to a matrix that ends with its statement.
template <detail::any_block_format F>
void row_range(const quantized_matrix<F>&&, std::size_t, std::size_t) = delete;

/// A copy of columns first .. first + count - 1. std::invalid_argument unless the columns exist, and whole blocks, runs
/// of the transform and segments of outer scales begin at `first` and end there or at the matrix's end.
inline any_quantized col_range(const detail::quantized_argument& q, std::size_t first, std::size_t count) {
  const std::size_t run = detail::whole_run(q.spec(), q.transform());
  detail::expects(first <= q.cols() && count <= q.cols() - first, "col_range: columns out of range: ", first, " + ",
                  count, " > ", q.cols());
  detail::expects(first % run == 0 && (count % run == 0 || first + count == q.cols()),
                  "col_range: first and count must be multiples of ", run, " (", detail::run_name(q.spec()), "), got ",
                  first, " and ", count);
  any_quantized out(q.spec(), q.rows(), count, q.transform());
  out.set_tensor_scale(q.tensor_scale());
  const auto row = [&q](std::size_t cols) { return storage_size(q.spec(), 1, cols, q.transform()); };
  const detail::quantized_size all = row(q.cols()), skipped = row(first), taken = row(count);
  detail::copy_columns(q.codes().data(), all.codes, skipped.codes, taken.codes, q.rows(), out.codes().data());
  if (q.spec().has_outer_array())
    detail::copy_strips(q, first, out);
  else
    detail::copy_columns(q.scale_bytes().data(), all.scales, skipped.scales, taken.scales,
                         detail::scale_rows(q.rows(), q.spec().block), out.scale_bytes().data());
  return out;
}
template <detail::quantized Q>
quantized_matrix<typename Q::format> col_range(const Q& q, std::size_t first, std::size_t count) {
  return quantized_matrix<typename Q::format>(col_range(any_quantized_view(q), first, count));
}

/// The transpose of a matrix of square blocks, made from its codes: it has the bits of quantizing the transposed matrix
/// with the same policies, unless rounding is stochastic. std::invalid_argument after a Hadamard transform.
template <detail::quantized Q>
  requires(Q::format::block.rows > 1 && Q::format::block.rows == Q::format::block.cols && Q::format::has_scale_array &&
           Q::format::grids == 1)
quantized_matrix<typename Q::format> transpose(const Q& in) {
  detail::expects(in.transform().n == 1, "transpose: codes after a Hadamard transform cannot be transposed, n is ",
                  in.transform().n);
  using F = typename Q::format;
  quantized_matrix<F> out(in.cols(), in.rows());
  out.set_tensor_scale(in.tensor_scale());
  constexpr std::uint8_t zero = detail::zero_code(spec_of<F>);
  const auto code = [&in](std::size_t i, std::size_t k) {
    return detail::element_code(in.spec(), in.codes().data() + detail::code_bytes(in.spec(), i * in.padded_cols()), k);
  };
  for (std::size_t i = 0; i < out.rows(); ++i)
    for (std::size_t k = 0; k < out.padded_cols(); k += 2) {
      const std::uint8_t codes[2] = {k < out.cols() ? code(k, i) : zero, k + 1 < out.cols() ? code(k + 1, i) : zero};
      detail::store_codes(in.spec(), codes, 2, &out.codes()[detail::code_bytes(in.spec(), i * out.padded_cols() + k)]);
    }
  const std::size_t down = in.padded_cols() / F::block_size, across = out.padded_cols() / F::block_size;
  for (std::size_t i = 0; i < detail::scale_rows(out.rows(), F::block); ++i)
    for (std::size_t k = 0; k < across; ++k) out.scales()[i * across + k] = in.scales()[k * down + i];
  return out;
}

}  // namespace ufp4::inline UFP4_CODE
