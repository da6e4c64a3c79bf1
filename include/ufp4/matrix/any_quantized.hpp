// ufp4 - any_quantized: a quantized matrix whose format is data; the sizes and the memory of one.
// SPDX-License-Identifier: Apache-2.0
//
// Canonical layout (numerics 5): codes row-major, two a byte, the even k low, padded_cols() / 2 bytes a row, or, in a
// format of byte elements, one a byte, padded_cols() bytes a row; scales row-major, padded_cols() / block.cols a row,
// one row of them for every block.rows rows, each followed by its outer scales where there is an array of them
// (scale_strip).
#pragma once

#if defined(__linux__)
#include <sys/mman.h>
#endif
#include <cstring>
#include <new>
#include <span>
#include <ufp4/block/packing.hpp>
#include <ufp4/block/scale_rules.hpp>
#include <ufp4/detail/expects.hpp>
#include <ufp4/hadamard/signs.hpp>
#include <utility>

namespace ufp4::detail::inline UFP4_TYPES {

/// The bytes of a quantized matrix.
struct quantized_size {
  std::size_t codes = 0;   ///< bytes of codes
  std::size_t scales = 0;  ///< bytes of block scales, and of outer scales of rows or segments
  /// The bytes of one memory range for both: the scales begin at the next multiple of 64.
  constexpr std::size_t total() const { return (codes + 63) / 64 * 64 + scales; }
};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

/// The caller's memory for the codes and the scales of one matrix; storage_size computes the sizes.
struct quantized_storage {
  using size = detail::quantized_size;  ///< what storage_size returns: `codes` and `scales` in bytes, total()
  std::span<std::uint8_t> codes;        ///< packed codes
  std::span<std::byte> scales;          ///< aligned as the scale type is

  /// Both in one array of at least size.total() bytes, aligned to 64.
  UFP4_HOST_MEMBER static quantized_storage in(std::span<std::byte> memory, const detail::quantized_size& size) {
    detail::expects(memory.size() >= size.total(), "quantized_storage: memory has ", memory.size(), " bytes, ",
                    size.total(), " are needed");
    return {{reinterpret_cast<std::uint8_t*>(memory.data()), size.codes},
            {memory.data() + (size.total() - size.scales), size.scales}};
  }
};

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

/// K rounded up to whole blocks and whole transform runs.
UFP4_HOST_MEMBER constexpr std::size_t padded_length(std::size_t cols, const block_shape& b, const transform_spec& t) {
  const std::size_t run = t.n > static_cast<std::uint32_t>(b.cols) ? t.n : static_cast<std::size_t>(b.cols);
  if ((run & (run - 1)) == 0) return (cols + run - 1) & ~(run - 1);  // a division takes as long as a small block
  return (cols + run - 1) / run * run;
}

/// Memory for n trivial objects, aligned to 64 bytes, uninitialised. A copy copies. Compiles faster than std::vector.
/// From 4 MiB on in huge pages, where Linux has them: weights in pages of 4 KiB are read a third slower.
template <class T>
class buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  buffer() = default;
  UFP4_HOST_MEMBER explicit buffer(std::size_t size) : size_(size) {
    if (size == 0) return;
    data_ = static_cast<T*>(::operator new(size * sizeof(T), alignment()));
#if defined(__linux__)
    if (is_large()) madvise(data_, size * sizeof(T) / huge_page * huge_page, MADV_HUGEPAGE);  // a wish: may fail
#endif
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
    if (data_ != nullptr) ::operator delete(data_, alignment());
  }

  UFP4_HOST_MEMBER T* data() const { return data_; }
  UFP4_HOST_MEMBER std::size_t size() const { return size_; }
  UFP4_HOST_MEMBER T& operator[](std::size_t i) const { return data_[i]; }
  UFP4_HOST_MEMBER operator std::span<const T>() const { return {data_, size_}; }

 private:
  static constexpr std::size_t huge_page = std::size_t{2} << 20;
  UFP4_HOST_MEMBER bool is_large() const { return size_ * sizeof(T) >= 2 * huge_page; }
  UFP4_HOST_MEMBER std::align_val_t alignment() const { return std::align_val_t{is_large() ? huge_page : 64}; }

  T* data_ = nullptr;
  std::size_t size_ = 0;
};
struct quantized_shape {
  format_spec format{};
  float tensor_scale = 1;
  std::size_t rows = 0, cols = 0;
  transform_spec transform{};

  constexpr std::size_t padded_cols() const { return padded_length(cols, format.block, transform); }
};
struct view_of_checked {
  template <class View>
  UFP4_HOST_MEMBER static View make(const quantized_shape& shape, std::span<const std::uint8_t> codes,
                                    std::span<const std::byte> scales) {
    return View(shape, codes, scales);
  }
};

/// The members of every quantized matrix and view that read its shape.
class shaped {
 public:
  UFP4_HOST_MEMBER const format_spec& spec() const& { return shape_.format; }
  UFP4_HOST_MEMBER format_spec spec() const&& { return shape_.format; }        ///< of a temporary: a copy
  UFP4_HOST_MEMBER float tensor_scale() const { return shape_.tensor_scale; }  ///< 1 where the format has none
  UFP4_HOST_MEMBER std::size_t rows() const { return shape_.rows; }
  UFP4_HOST_MEMBER std::size_t cols() const { return shape_.cols; }
  UFP4_HOST_MEMBER std::size_t padded_cols() const { return shape_.padded_cols(); }
  UFP4_HOST_MEMBER const transform_spec& transform() const& { return shape_.transform; }  ///< applied before quantizing
  UFP4_HOST_MEMBER transform_spec transform() const&& { return shape_.transform; }        ///< of a temporary: a copy

 protected:
  shaped() = default;
  UFP4_HOST_MEMBER explicit shaped(const quantized_shape& shape) : shape_(shape) {}
  quantized_shape shape_;
};

/// Codes and scales in memory of their own, in the layout of the derived class. Spans of temporaries end with them.
class quantized_memory : public shaped {
 public:
  UFP4_HOST_MEMBER std::span<const std::uint8_t> codes() const UFP4_LIFETIMEBOUND { return codes_; }
  UFP4_HOST_MEMBER std::span<std::uint8_t> codes() UFP4_LIFETIMEBOUND { return {codes_.data(), codes_.size()}; }
  /// The block scales as bytes; their type is spec().scale.
  UFP4_HOST_MEMBER std::span<const std::byte> scale_bytes() const UFP4_LIFETIMEBOUND { return scales_; }
  UFP4_HOST_MEMBER std::span<std::byte> scale_bytes() UFP4_LIFETIMEBOUND { return {scales_.data(), scales_.size()}; }
  UFP4_HOST_MEMBER void set_tensor_scale(float scale) { shape_.tensor_scale = scale; }

 protected:
  quantized_memory() = default;
  /// Uninitialised memory of that size.
  UFP4_HOST_MEMBER quantized_memory(const quantized_shape& shape, const quantized_size& size)
      : shaped(shape), codes_(size.codes), scales_(size.scales) {}

 private:
  buffer<std::uint8_t> codes_;
  buffer<std::byte> scales_;
};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_CODE {

/// Rejects with the reason that a function found, unless it found none.
inline void check_none(const char* what, const char* reason) {
  if (reason != nullptr) reject(concat(what, ": ", reason));
}
/// Rejects a format that kernels do not support, with the block or the segment where that is the reason.
inline void check_format(const char* what, const format_spec& f) {
  const char* const reason = format_mismatch(f);
  if (reason == nullptr) return;
  if (reason == block_mismatch(f.block))
    reject(concat(what, ": ", reason, ", got ", f.block.rows, " x ", f.block.cols));
  if (reason == segment_mismatch(f.outer, f.block))
    reject(concat(what, ": ", reason, ", got ", f.outer.segment, " for blocks of ", f.block.cols));
  check_none(what, reason);
}
/// Checks the length of a transform_spec, which a program may have assembled.
inline void check_length(const char* what, const transform_spec& t) {
  expects(t.valid_length(), what, ": transform length must be 16, 32, 64, 128 or 256 (or 1 for none), got ", t.n);
}
/// rows * padded elements, or an error where a size_t cannot count them.
inline std::size_t element_count(const char* what, std::size_t rows, std::size_t cols, std::size_t padded,
                                 const transform_spec& t) {
  check_length(what, t);
  std::size_t count = 0;
  expects(!__builtin_mul_overflow(rows, padded, &count) && padded >= cols, what, ": too many elements: ", rows, " x ",
          cols);
  return count;
}
constexpr std::size_t scale_rows(std::size_t rows, const block_shape& block) {
  const auto height = static_cast<std::size_t>(block.rows);
  return height == 1 ? rows : (rows + height - 1) / height;
}

/// A transform in a message: "none", or "hadamard<16>".
inline std::string transform_name(const transform_spec& t) { return t.n == 1 ? "none" : concat("hadamard<", t.n, ">"); }

/// valid_format: a type tells the format, and has checked it.
template <bool valid_format = false>
quantized_size storage_of(const char* what, const format_spec& f, std::size_t rows, std::size_t cols,
                          const transform_spec& t) {
  if constexpr (!valid_format) check_format(what, f);
  const std::size_t padded = padded_length(cols, f.block, t), elements = element_count(what, rows, cols, padded, t);
  return {code_bytes(f, elements), scale_rows(rows, f.block) * scale_strip_of(f, padded).bytes()};
}
inline quantized_size storage_of(const char* what, const quantized_shape& s) {
  return storage_of(what, s.format, s.rows, s.cols, s.transform);
}

/// The code of element k of a row whose codes begin at `row`.
inline std::uint8_t element_code(const format_spec& f, const std::uint8_t* row, std::size_t k) {
  return f.has_bytes() ? row[k] : code_at(row, k);
}

/// Writes `count` codes, one a byte, as a row has them; count is even.
inline void store_codes(const format_spec& f, const std::uint8_t* codes, std::size_t count, std::uint8_t* out) {
  if (f.has_bytes())
    std::memcpy(out, codes, count);
  else
    pack_codes(codes, count, out);
}
template <bool valid_format = false>
void check_spans(const char* what, const format_spec& f, std::size_t rows, std::size_t cols, const transform_spec& t,
                 std::span<const std::uint8_t> codes, std::span<const std::byte> scales) {
  const quantized_size size = storage_of<valid_format>(what, f, rows, cols, t);
  if (codes.size() != size.codes) [[unlikely]]
    reject(concat(what, ": codes has ", codes.size(), " bytes, but ", rows, " x ", cols, " elements (",
                  padded_length(cols, f.block, t), " with padding) take ", size.codes));
  if (scales.size() != size.scales) [[unlikely]] {
    const auto width = static_cast<std::size_t>(block_bytes(f.scale, f.choice.count, f.block));
    reject(concat(what, ": scales has ", scales.size() / width, " entries",
                  scales.size() % width == 0 ? "" : " and a part of one", ", but ", rows, " x ", cols,
                  " elements take ", size.scales / width));
  }
  expects(codes.data() != nullptr || codes.empty(), what, ": codes is null");
  expects(scales.data() != nullptr || scales.empty(), what, ": scales is null");
}

inline void check_spans(const char* what, const quantized_shape& s, std::span<const std::uint8_t> codes,
                        std::span<const std::byte> scales) {
  check_spans(what, s.format, s.rows, s.cols, s.transform, codes, scales);
}

/// The bits of number i of an array of numbers of 1, 2 or 4 bytes.
inline std::uint32_t load_bits(const void* scales, int bytes, std::size_t i) {
  std::uint32_t wide = 0;
  std::uint16_t half = 0;
  switch (bytes) {
    case 4: std::memcpy(&wide, static_cast<const char*>(scales) + 4 * i, 4); return wide;
    case 2: std::memcpy(&half, static_cast<const char*>(scales) + 2 * i, 2); return half;
    default: return static_cast<const std::uint8_t*>(scales)[i];
  }
}

inline void store_bits(void* scales, int bytes, std::size_t i, std::uint32_t bits) {
  const auto half = static_cast<std::uint16_t>(bits);
  switch (bytes) {
    case 4: std::memcpy(static_cast<char*>(scales) + 4 * i, &bits, 4); return;
    case 2: std::memcpy(static_cast<char*>(scales) + 2 * i, &half, 2); return;
    default: static_cast<std::uint8_t*>(scales)[i] = static_cast<std::uint8_t>(bits);
  }
}
inline std::uint32_t load_scale(const void* scales, scale_kind kind, std::size_t i) {
  return load_bits(scales, scale_bytes(kind), i);
}
inline void store_scale(void* scales, scale_kind kind, std::size_t i, std::uint32_t bits) {
  store_bits(scales, scale_bytes(kind), i, bits);
}
/// What is stored for block i: its scale, with the number of its grid.
inline std::uint32_t load_block(const void* scales, const format_spec& f, std::size_t i) {
  return load_bits(scales, block_bytes(f.scale, f.choice.count, f.block), i);
}

/// The outer scale that covers column k, from the outer scales of a strip; 1 without an array of them.
inline float outer_scale_at(const format_spec& f, std::size_t padded, const void* outers, std::size_t k) {
  const std::size_t covered = outer_columns(f, padded);
  return covered == 0 ? 1.0f : decode_scale(f.outer.type, load_scale(outers, f.outer.type, k / covered));
}

inline bool same_bytes(const void* a, const void* b, std::size_t size) {
  return size == 0 || std::memcmp(a, b, size) == 0;
}

/// Bytes first .. first + count - 1 of every row of `pitch` bytes, packed.
inline void copy_columns(const void* from, std::size_t pitch, std::size_t first, std::size_t count, std::size_t rows,
                         void* out) {
  for (std::size_t r = 0; count != 0 && r < rows; ++r)
    std::memcpy(static_cast<char*>(out) + r * count, static_cast<const char*>(from) + r * pitch + first, count);
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_TYPES {

/// A quantized matrix in a caller's memory, its format as data.
class any_quantized_view : public detail::shaped {
 public:
  any_quantized_view() = default;
  /// Refers to codes and scales in the canonical layout. Throws std::invalid_argument if a size does not match.
  UFP4_HOST_MEMBER any_quantized_view(const format_spec& format, std::span<const std::uint8_t> codes,
                                      std::span<const std::byte> scales, float tensor_scale, std::size_t rows,
                                      std::size_t cols, const transform_spec& applied = {})
      : any_quantized_view("any_quantized_view", {format, tensor_scale, rows, cols, applied}, codes, scales) {}

  UFP4_HOST_MEMBER std::span<const std::uint8_t> codes() const { return codes_; }
  UFP4_HOST_MEMBER std::span<const std::byte> scale_bytes() const { return scales_; }
  /// Element (row, col), decoded: value * fl(block scale * outer scale).
  UFP4_HOST_MEMBER float operator()(std::size_t row, std::size_t col) const {
    const format_spec& f = shape_.format;
    const auto height = static_cast<std::size_t>(f.block.rows), length = static_cast<std::size_t>(f.block.cols);
    detail::expects(row < rows() && col < cols(), "element (", row, ", ", col, ") of a quantized matrix of ", rows(),
                    " x ", cols());
    const detail::scale_strip strip = detail::scale_strip_of(f, padded_cols());
    const std::byte* scales = scales_.data() + row / height * strip.bytes();
    const std::uint32_t bits = detail::load_block(scales, f, col / length);
    const float scale = detail::decode_block(f, bits);
    const float outer =
        f.has_outer_array() ? detail::outer_scale_at(f, padded_cols(), scales + strip.outer_at(), col) : tensor_scale();
    const float power = detail::exp2i(detail::exponent_of(f, bits, static_cast<int>(col % length)));
    const std::uint8_t code = detail::element_code(f, codes_.data() + detail::code_bytes(f, row * padded_cols()), col);
    return detail::element_value(f, bits, code) * power * (scale * outer);
  }

 protected:
  UFP4_HOST_MEMBER any_quantized_view(const char* what, const detail::quantized_shape& shape,
                                      std::span<const std::uint8_t> codes, std::span<const std::byte> scales)
      : shaped(shape), codes_(codes), scales_(scales) {
    detail::check_spans(what, shape, codes, scales);
  }
  /// Of a matrix that owns them, or of spans that were checked.
  UFP4_HOST_MEMBER any_quantized_view(const detail::quantized_shape& shape, std::span<const std::uint8_t> codes,
                                      std::span<const std::byte> scales)
      : shaped(shape), codes_(codes), scales_(scales) {}

 private:
  friend class any_quantized;
  friend struct detail::view_of_checked;
  std::span<const std::uint8_t> codes_;
  std::span<const std::byte> scales_;
};

/// The same, owning its memory (aligned to 64, uninitialised). A copy copies; destroy or assign to what was moved from.
class any_quantized : public detail::quantized_memory {
 public:
  any_quantized() = default;
  /// Uninitialised codes and scales for rows x cols elements after a transform; quantize_into fills them.
  UFP4_HOST_MEMBER any_quantized(const format_spec& format, std::size_t rows, std::size_t cols,
                                 const transform_spec& applied = {})
      : any_quantized(detail::quantized_shape{format, 1, rows, cols, applied}) {}

  UFP4_HOST_MEMBER any_quantized_view view() const& { return {shape_, codes(), scale_bytes()}; }
  any_quantized_view view() const&& = delete;  ///< the matrix ends with its statement
  UFP4_HOST_MEMBER operator any_quantized_view() const& { return view(); }
  operator any_quantized_view() const&& = delete;
  /// Its memory, for quantize_into and others.
  UFP4_HOST_MEMBER quantized_storage storage() & { return {codes(), scale_bytes()}; }
  UFP4_HOST_MEMBER float operator()(std::size_t row, std::size_t col) const { return view()(row, col); }

 private:
  UFP4_HOST_MEMBER explicit any_quantized(const detail::quantized_shape& shape)
      : quantized_memory(shape, detail::storage_of("any_quantized", shape)) {}
  UFP4_HOST_MEMBER explicit any_quantized(quantized_memory&& memory) : quantized_memory(std::move(memory)) {}

  template <detail::any_block_format>
  friend class quantized_matrix;
};

/// Bytes of rows x cols elements in a format after a transform. std::invalid_argument if invalid, or if they overflow.
UFP4_HOST_MEMBER inline detail::quantized_size storage_size(const format_spec& format, std::size_t rows,
                                                            std::size_t cols, const transform_spec& applied = {}) {
  return detail::storage_of("storage_size", {format, 1, rows, cols, applied});
}

}  // namespace ufp4::inline UFP4_TYPES
