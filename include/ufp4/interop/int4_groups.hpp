// ufp4 - reading weights of AWQ and GPTQ: 4-bit integers with a scale and a zero point for each group.
// SPDX-License-Identifier: Apache-2.0
/// A linear layer of N outputs and K inputs in G groups of inputs; value = (code - zero point) * scale. All tensors but
/// the scales are I32, each number eight codes or zero points of 4 bits, the first in the lowest bits:
///
/// | tensor       | AWQ                                 | GPTQ                                                       |
/// |--------------|-------------------------------------|------------------------------------------------------------|
/// | NAME.qweight | [K, N/8], outputs 0 2 4 6 1 3 5 7   | [K/8, N], inputs 0 .. 7                                    |
/// | NAME.qzeros  | [G, N/8], outputs 0 2 4 6 1 3 5 7   | [G, N/8], outputs 0 .. 7; version 1 stores (z - 1) mod 16  |
/// | NAME.scales  | F16 [G, N]                          | F16 [G, N]                                                 |
/// | NAME.g_idx   |                                     | [K], the group of each input; may be absent                |
///
/// Without g_idx group g is the inputs g K/G .. (g + 1) K/G - 1. A weight is read as a whole. The files beside a model
/// (quant_config.json, quantize_config.json) tell which layout it has.
///
/// Sources: AutoAWQ, WQLinear_GEMM (packing_utils.py); AutoGPTQ and GPTQModel, QuantLinear (formats gptq and gptq_v2).
#pragma once

#include <numeric>
#include <ufp4/interop/safetensors_file.hpp>
#include <ufp4/matrix/zero_points.hpp>

namespace ufp4::interop::inline UFP4_TYPES {

/// Whose tensors; gptq is version 1, in which 1 is added to stored zero points.
enum class int4_layout : std::uint8_t { awq, gptq, gptq_v2 };

/// A weight as plain arrays, row-major. Rows are outputs, columns inputs, as in torch.nn.Linear.weight.
struct int4_groups {
  std::size_t rows = 0, cols = 0, groups = 0;  ///< of the weight
  std::vector<std::uint8_t> codes;             ///< [rows, cols], 0 .. 15, one a byte
  std::vector<std::uint8_t> zero_points;       ///< [rows, groups], 0 .. 15
  std::vector<float> scales;                   ///< [rows, groups]
  std::vector<std::uint32_t> group;            ///< [cols]

  /// Element (row, col): exact in binary32 for scales of F16 and BF16.
  float operator()(std::size_t row, std::size_t col) const {
    const std::size_t at = row * groups + group[col];
    return static_cast<float>(codes[row * cols + col] - zero_points[at]) * scales[at];
  }
};

}  // namespace ufp4::interop::inline UFP4_TYPES

namespace ufp4::interop::inline UFP4_CODE {

/// The numbers of an I32 matrix or vector of that shape; file_error for any other tensor.
inline std::vector<std::uint32_t> read_int32(safetensors_reader& file, const std::string& name,
                                             const std::vector<std::uint64_t>& shape) {
  const stored_tensor& t = file.at(name);
  if (t.type != number_type::i32 || t.shape != shape)
    file.fail(tensor_text(t) + ", not the expected " + shape_text(shape) + " I32");
  std::vector<std::uint32_t> numbers(static_cast<std::size_t>(t.bytes / 4));
  file.read_bytes(t, 0, numbers.data(), numbers.size() * 4);
  return numbers;
}

/// Four bits of a number: the i-th of eight.
constexpr std::uint8_t nibble(std::uint32_t number, std::size_t i) {
  return static_cast<std::uint8_t>(number >> (4 * i) & 15u);
}
/// Which four bits of a number hold output i of eight, in AWQ's order.
constexpr std::size_t awq_position(std::size_t i) { return i % 2 * 4 + i / 2; }

/// Rows, columns and groups, from the shapes of qweight and scales; file_error unless these fit each other.
inline int4_groups read_group_shape(const safetensors_reader& file, const std::string& name, int4_layout layout) {
  const stored_tensor &codes = file.at(name + ".qweight"), &scales = file.at(name + ".scales");
  file.check_matrix(scales);
  const std::uint64_t outputs = scales.shape[1], groups = scales.shape[0];
  const bool awq = layout == int4_layout::awq;
  const bool fits = codes.shape.size() == 2 && outputs % 8 == 0 && codes.shape[1] == (awq ? outputs / 8 : outputs) &&
                    codes.shape[0] != 0 && codes.type == number_type::i32;
  if (!fits)
    file.fail(tensor_text(codes) + ", which does not fit scales of " + shape_text(scales.shape) + " in the layout of " +
              (awq ? "AWQ" : "GPTQ"));
  int4_groups w;
  w.rows = static_cast<std::size_t>(outputs);
  w.cols = static_cast<std::size_t>(awq ? codes.shape[0] : 8 * codes.shape[0]);
  w.groups = static_cast<std::size_t>(groups);
  return w;
}

/// The layout of the weight NAME by its shapes, which are the same in both versions of GPTQ: then `gptq`. file_error
/// unless it is one of 4 bits with all of its tensors.
inline int4_layout int4_layout_of(const safetensors_reader& file, const std::string& name,
                                  int4_layout gptq = int4_layout::gptq) {
  const stored_tensor &codes = file.at(name + ".qweight"), &scales = file.at(name + ".scales");
  const bool awq = codes.shape.size() == 2 && scales.shape.size() == 2 && codes.shape[1] != scales.shape[1];
  const int4_layout layout = awq ? int4_layout::awq : gptq;
  const int4_groups w = read_group_shape(file, name, layout);
  const stored_tensor& zeros = file.at(name + ".qzeros");
  const stored_tensor* const indices = file.find(name + ".g_idx");
  if (zeros.type != number_type::i32 || zeros.shape != std::vector<std::uint64_t>{w.groups, w.rows / 8})
    file.fail(tensor_text(zeros) + ", not the expected " + shape_text({w.groups, w.rows / 8}) + " I32");
  if (indices != nullptr && (indices->type != number_type::i32 || indices->shape != std::vector<std::uint64_t>{w.cols}))
    file.fail(tensor_text(*indices) + ", not the expected " + shape_text({w.cols}) + " I32");
  return layout;
}

/// The group of each input, from g_idx or by the number of groups. file_error for a group that does not exist.
inline void read_group_indices(safetensors_reader& file, const std::string& name, int4_groups& w) {
  if (file.find(name + ".g_idx") != nullptr) {
    w.group = read_int32(file, name + ".g_idx", {w.cols});
    for (const std::uint32_t g : w.group)
      if (g >= w.groups) file.fail("tensor ", printable(name), ".g_idx: group out of range: ", g, " of ", w.groups);
    return;
  }
  if (w.cols % w.groups != 0)
    file.fail("tensor ", printable(name), ".scales: ", w.groups, " groups do not divide the ", w.cols,
              " inputs, and there is no g_idx");
  w.group.resize(w.cols);
  for (std::size_t k = 0; k < w.cols; ++k) w.group[k] = static_cast<std::uint32_t>(k / (w.cols / w.groups));
}

/// The weight NAME. file_error if a tensor of it is missing or they do not fit each other.
inline int4_groups read_int4_groups(safetensors_reader& file, const std::string& name, int4_layout layout) {
  const bool awq = layout == int4_layout::awq;
  int4_groups w = read_group_shape(file, name, layout);
  w.scales.resize(w.rows * w.groups);
  file.read_rows(file.at(name + ".scales"), 0, ufp4::transpose(matrix_view<float>(w.scales.data(), w.rows, w.groups)));
  read_group_indices(file, name, w);
  const std::vector<std::uint32_t> zeros = read_int32(file, name + ".qzeros", {w.groups, w.rows / 8});
  const std::uint8_t added = layout == int4_layout::gptq ? 1 : 0;
  w.zero_points.resize(w.rows * w.groups);
  for (std::size_t n = 0; n < w.rows; ++n)
    for (std::size_t g = 0; g < w.groups; ++g) {
      const std::uint32_t number = zeros[g * (w.rows / 8) + n / 8];
      w.zero_points[n * w.groups + g] =
          static_cast<std::uint8_t>((nibble(number, awq ? awq_position(n % 8) : n % 8) + added) & 15);
    }
  const stored_tensor& packed = file.at(name + ".qweight");
  const std::vector<std::uint32_t> numbers = read_int32(file, name + ".qweight", packed.shape);
  w.codes.resize(w.rows * w.cols);
  for (std::size_t n = 0; n < w.rows; ++n)
    for (std::size_t k = 0; k < w.cols; ++k)
      w.codes[n * w.cols + k] = awq ? nibble(numbers[k * (w.rows / 8) + n / 8], awq_position(n % 8))
                                    : nibble(numbers[k / 8 * w.rows + n], k % 8);
  return w;
}

/// out = (code - zero point) * scale, rounded to out's type once; out is w.rows x w.cols.
template <ufp4::detail::matrix_scalar T>
void dequantize(const int4_groups& w, const matrix_view<T>& out) {
  expects(out.rows() == w.rows && out.cols() == w.cols, "dequantize: shape mismatch: out is ", out.rows(), " x ",
          out.cols(), ", the weight is ", w.rows, " x ", w.cols);
  ufp4::detail::check_output("dequantize", "out", out);
  for (std::size_t n = 0; n < w.rows; ++n)
    for (std::size_t k = 0; k < w.cols; ++k) out(n, k) = ufp4::detail::round_to<T>(w(n, k));
}

/// The inputs in the order of their groups: 0, 1, 2, ... unless g_idx permutes them (act-order).
inline std::vector<std::uint32_t> input_order(const int4_groups& w) {
  std::vector<std::uint32_t> order(w.cols);
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](auto a, auto b) { return w.group[a] != w.group[b] ? w.group[a] < w.group[b] : a < b; });
  return order;
}

/// The weight for quantized_gemm. Column j is input input_order(w)[j], which must also be the order of X's columns.
/// std::invalid_argument unless every group has the same number of inputs, a power of two from 2 to 256.
inline zero_point_matrix to_zero_point_matrix(const int4_groups& w) {
  const std::vector<std::uint32_t> order = input_order(w);
  const std::size_t length = w.groups == 0 ? 0 : w.cols / w.groups;
  std::vector<std::uint8_t> codes(w.codes.size());
  for (std::size_t k = 0; k < w.cols; ++k) {
    expects(w.group[order[k]] == k / length && w.groups * length == w.cols,
            "to_zero_point_matrix: groups of different lengths: ", w.cols, " inputs in ", w.groups, " groups");
    for (std::size_t n = 0; n < w.rows; ++n) codes[n * w.cols + k] = w.codes[n * w.cols + order[k]];
  }
  return {w.rows, w.cols, length, codes, w.scales, w.zero_points};
}

}  // namespace ufp4::interop::inline UFP4_CODE
