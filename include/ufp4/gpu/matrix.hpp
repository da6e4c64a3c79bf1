// ufp4 - gpu::quantized_view and gpu::quantized_matrix: quantized matrices in device memory.
// SPDX-License-Identifier: Apache-2.0
//
// The layout is that of the host's types (matrix/quantized_matrix.hpp). The tensor scale of a two-level format is in
// device memory too: it depends on the data, and no operation waits for it.
#pragma once

#include <ufp4/gpu/buffer.hpp>
#include <ufp4/matrix/quantized_matrix.hpp>

namespace ufp4::detail::inline UFP4_CODE {

/// What the scales of a matrix in device memory are an array of: bytes where they are not one of the format's scales.
template <any_block_format Format>
using device_scale = std::conditional_t<Format::has_scale_array, typename Format::scale_type, std::byte>;

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::gpu::inline UFP4_GPU {

/// Codes, scales and, for a two-level format, one float, in device memory that the view does not own. The constructor
/// checks the sizes as the host's quantized_view does, and reads nothing.
template <detail::any_block_format Format>
class quantized_view {
  static_assert(!Format::has_bytes, "formats with elements of one byte (int8_f32, mxint8) run on the CPU only");

 public:
  using format = Format;
  using scale_type = detail::device_scale<Format>;  ///< std::byte for formats without Format::has_scale_array

  quantized_view() = default;
  /// Refers to device memory. Throws std::invalid_argument if a size does not match.
  quantized_view(std::span<std::uint8_t> codes, std::span<scale_type> scales, float* tensor_scale, std::size_t rows,
                 std::size_t cols, const transform_spec& applied = {})
      : codes_(codes), scales_(scales), tensor_scale_(tensor_scale), rows_(rows), cols_(cols), transform_(applied) {
    if constexpr (Format::has_scale_array)
      (void)ufp4::quantized_view<Format>(codes, scales, 1.0f, rows, cols, applied);  // for its checks
    else
      detail::check_spans("quantized_view", {spec_of<Format>, 1.0f, rows, cols, applied}, codes, scales);
    detail::expects(!Format::has_tensor_scale || tensor_scale != nullptr || rows * cols == 0,
                    "quantized_view: tensor_scale is null: the format has two levels of scales");
  }

  std::span<std::uint8_t> codes() const { return codes_; }
  std::span<scale_type> scales() const { return scales_; }
  float* tensor_scale() const { return tensor_scale_; }  ///< in device memory; null for formats of one level
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::size_t padded_cols() const { return detail::padded_length(cols_, Format::block, transform_); }
  const transform_spec& transform() const& { return transform_; }
  transform_spec transform() const&& { return transform_; }

 private:
  std::span<std::uint8_t> codes_;
  std::span<scale_type> scales_;
  float* tensor_scale_ = nullptr;
  std::size_t rows_ = 0, cols_ = 0;
  transform_spec transform_;
};

/// The same with memory of its own (buffer): for examples, tests and first programs. Movable, not copyable.
template <detail::any_block_format Format>
class quantized_matrix {
 public:
  using format = Format;
  using scale_type = typename quantized_view<Format>::scale_type;

  quantized_matrix() = default;
  /// Uninitialized memory for rows x cols elements with a transform.
  quantized_matrix(std::size_t rows, std::size_t cols, const transform_spec& applied = {})
      : rows_(rows), cols_(cols), transform_(applied) {
    const std::size_t padded = detail::padded_length(cols, Format::block, applied);
    codes_ = buffer<std::uint8_t>(detail::element_count("quantized_matrix", rows, cols, padded, applied) / 2);
    scales_ =
        buffer<scale_type>(detail::storage_of("quantized_matrix", {spec_of<Format>, 1.0f, rows, cols, applied}).scales /
                           sizeof(scale_type));
    if (Format::has_tensor_scale) tensor_scale_ = buffer<float>(1);
  }
  /// A copy of a matrix on the host; waits for the device.
  explicit quantized_matrix(const ufp4::quantized_view<Format>& q)
      : quantized_matrix(q.rows(), q.cols(), q.transform()) {
    codes_.upload(q.codes());
    scales_.upload(scale_array<const scale_type>(q.scale_bytes()));
    const float scale = q.tensor_scale();
    if (Format::has_tensor_scale) tensor_scale_.upload({&scale, 1});
  }
  explicit quantized_matrix(const ufp4::quantized_matrix<Format>& q) : quantized_matrix(q.view()) {}  ///< the same

  /// A view of the whole matrix.
  quantized_view<Format> view() const& {
    return {codes_.span(), scales_.span(), tensor_scale_.data(), rows_, cols_, transform_};
  }
  quantized_view<Format> view() const&& = delete;  ///< the matrix ends with its statement
  operator quantized_view<Format>() const& { return view(); }
  operator quantized_view<Format>() const&& = delete;

  /// A copy on the host; waits for the device.
  ufp4::quantized_matrix<Format> download() const {
    ufp4::quantized_matrix<Format> out(rows_, cols_, transform_);
    codes_.download(out.codes());
    scales_.download(scale_array<scale_type>(out.scale_bytes()));
    float scale = 1;
    if (Format::has_tensor_scale) tensor_scale_.download({&scale, 1});
    out.set_tensor_scale(scale);
    return out;
  }

 private:
  template <class Scale, class Bytes>
  static std::span<Scale> scale_array(Bytes bytes) {
    return {reinterpret_cast<Scale*>(bytes.data()), bytes.size() / sizeof(Scale)};
  }

  std::size_t rows_ = 0, cols_ = 0;
  transform_spec transform_;
  buffer<std::uint8_t> codes_;
  buffer<scale_type> scales_;
  buffer<float> tensor_scale_;
};

}  // namespace ufp4::gpu::inline UFP4_GPU
