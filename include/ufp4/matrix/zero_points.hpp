// ufp4 - zero_point_matrix: weights in unsigned 4-bit integers with zero points, as AWQ and GPTQ store them.
// SPDX-License-Identifier: Apache-2.0
//
// Element (n, k) is scale * (code - zero point), code and zero point from 0 to 15, scale and zero point one a group of
// `group` columns. It is scale * (code - 8) + scale * (8 - zero point): the first term is a matrix of int4 blocks,
// which the kernels of every instruction set multiply; the second is constant within a group.
#pragma once

#include <ufp4/format/int4.hpp>
#include <ufp4/matrix/any_quantized.hpp>

namespace ufp4::detail::inline UFP4_CODE {

inline format_spec zero_point_format(std::size_t rows, std::size_t cols, std::size_t group, std::size_t codes,
                                     std::size_t scales, std::size_t zero_points) {
  expects(group >= 2 && group <= 256 && (group & (group - 1)) == 0,
          "zero_point_matrix: group must be a power of two from 2 to 256, got ", group);
  expects(cols % group == 0, "zero_point_matrix: cols must be a multiple of group ", group, ", got ", cols);
  element_count("zero_point_matrix", rows, cols, cols, {});
  const auto check_size = [](const char* name, std::size_t size, std::size_t needed) {
    expects(size == needed, "zero_point_matrix: ", name, " has ", size, " entries, ", needed, " are needed");
  };
  check_size("codes", codes, rows * cols);
  check_size("scales", scales, rows * (cols / group));
  check_size("zero_points", zero_points, rows * (cols / group));
  return {grid_of<int4>(), scale_kind::f32, static_cast<int>(group), {}};
}

inline void check_below_16(const char* name, std::span<const std::uint8_t> values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    expects(values[i] < 16, "zero_point_matrix: ", name, " must be below 16, got ", values[i], " at ", i);
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_TYPES {

/// rows x cols weights (out features x in features). Owns rows * cols / 2 bytes of codes, a float and a byte a group.
class zero_point_matrix {
 public:
  zero_point_matrix() = default;
  /// From one byte a code and a zero point, row-major: rows * cols codes, rows * (cols / group) scales and zero points.
  /// std::invalid_argument unless group is a power of two, 2 .. 256, and divides cols, sizes fit, numbers are below 16.
  UFP4_HOST_MEMBER zero_point_matrix(std::size_t rows, std::size_t cols, std::size_t group,
                                     std::span<const std::uint8_t> codes, std::span<const float> scales,
                                     std::span<const std::uint8_t> zero_points)
      : signed_(detail::zero_point_format(rows, cols, group, codes.size(), scales.size(), zero_points.size()), rows,
                cols),
        scales_(scales.size()),
        zero_points_(scales.size()),
        group_(group) {
    detail::check_below_16("codes", codes);
    detail::check_below_16("zero_points", zero_points);
    for (std::size_t i = 0; i < codes.size(); i += 2)  // code - 8 in two's complement is the code with bit 3 flipped
      signed_.codes()[i / 2] = static_cast<std::uint8_t>((codes[i] | codes[i + 1] << 4) ^ 0x88);
    for (std::size_t g = 0; g < scales.size(); ++g) {
      scales_.data()[g] = scales[g];
      zero_points_.data()[g] = zero_points[g];
      detail::store_scale(signed_.scale_bytes().data(), scale_kind::f32, g, detail::to_bits(scales[g]));
    }
  }

  UFP4_HOST_MEMBER std::size_t rows() const { return signed_.rows(); }
  UFP4_HOST_MEMBER std::size_t cols() const { return signed_.cols(); }
  UFP4_HOST_MEMBER std::size_t group() const { return group_; }  ///< columns that share a scale and a zero point
  /// scale * (code - 8), as a quantized matrix.
  UFP4_HOST_MEMBER const any_quantized& signed_part() const& { return signed_; }
  const any_quantized& signed_part() const&& = delete;  ///< it would end with its statement
  /// The scales of the groups, rows x (cols / group).
  UFP4_HOST_MEMBER std::span<const float> scales() const UFP4_LIFETIMEBOUND { return scales_; }
  /// The zero points of the groups, rows x (cols / group).
  UFP4_HOST_MEMBER std::span<const std::uint8_t> zero_points() const UFP4_LIFETIMEBOUND { return zero_points_; }
  /// Element (row, col): fl(scale * (code - zero point)).
  UFP4_HOST_MEMBER float operator()(std::size_t row, std::size_t col) const {
    detail::expects(row < rows() && col < cols(), "element (", row, ", ", col, ") of a zero_point_matrix of ", rows(),
                    " x ", cols());
    const std::size_t g = row * (cols() / group_) + col / group_;
    const int code = detail::code_at(signed_.codes().data() + row * cols() / 2, col) ^ 8;
    return scales_.data()[g] * static_cast<float>(code - zero_points_.data()[g]);
  }

 private:
  any_quantized signed_;
  detail::buffer<float> scales_;
  detail::buffer<std::uint8_t> zero_points_;
  std::size_t group_ = 0;
};

}  // namespace ufp4::inline UFP4_TYPES
