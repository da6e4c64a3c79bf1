// ufp4 - the code of docs/blocks.md, compiled.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#undef NDEBUG
#include <cassert>
#include <cstdint>
#include <type_traits>
#include <vector>

using namespace ufp4;

// NVFP4; a format with longer blocks; a format with square blocks, which a matrix and its transpose share.
static_assert(std::is_same_v<nvfp4, block_format<fp4<E2M1>, e4m3, 16, float>>);
using wide = block_format<fp4<E1M2>, bf16, 64>;
using shared_squares = block_format<fp4<E2M1>, e4m3, square(16), float>;
static_assert(wide::bits_per_element == 4.25 && shared_squares::bits_per_element == 4.03125);

// NVFP4 with a scale of its own for each row, and for every 128 columns of a row.
using by_rows = block_format<fp4<E2M1>, e4m3, 16, per_row<float>>;
static_assert(std::is_same_v<tetrajet2, block_format<fp4<E2M1>, e4m3, 16, per_segment<128, float>>>);

int main() {
  const std::size_t rows = 64, cols = 160;
  std::vector<float> xs(rows * cols);
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(i * 7919 % 1009) - 504.0f;
  matrix_view<const float> x{xs.data(), rows, cols};

  auto up = quantize<nvfp4>(x, scale_up{});                              // no block's amax is clipped
  auto even = quantize<mxfp4>(x, mx_even{});                             // not the exponent of the OCP rule
  auto fewest = quantize<nvfp4>(x, mse_search{});                        // for each block the best of nine scales
  auto by_mae = quantize<nvfp4>(x, mae_search{.below = 4, .above = 8});  // of thirteen, by the magnitudes of errors
  auto clipped = quantize<nvfp4>(x, percentile{900});                    // a tenth of each block may saturate

  auto rows_apart = quantize<by_rows>(x);

  // Each block is E2M1, or a 4-bit integer times 6/7: whichever has the smaller squared error, or another error.
  static_assert(std::is_same_v<if4, block_format<one_of<fp4<E2M1>, scaled<int4, 6, 7>>, e4m3, 16, float>>);
  auto by_mse = quantize<if4>(x);
  auto by_magnitude = quantize<if4>(x, choose_grid{search_error::absolute});

  // 64 columns under one scale; groups of 8 and of 4 share exponents, 0 or 1, that multiply their values by 2 each.
  static_assert(std::is_same_v<hif4, block_format<fp4<E1M2>, e6m2, grouped(64, 8, 4)>>);
  auto by_groups = quantize<hif4>(x);

  quantize_report report;
  auto q = quantize<nvfp4>(x, count_into{report});
  assert(report.nonfinite_blocks == 0);

  cast_report lost;
  auto as_nvfp4 = cast<nvfp4>(even, lost);  // of mxfp4: the same codes, the same values
  assert(lost.inexact_elements == 0);
  auto as_mxfp4 = cast<mxfp4>(q, lost);  // of nvfp4: blocks of 32 with powers of two lose a little
  assert(lost.sqnr_db() > 15);

  // The value of element (3, 21), from its bits.
  const std::size_t row = 3, col = 21;
  const std::uint8_t byte = q.codes()[row * q.padded_cols() / 2 + col / 2];
  const auto code = static_cast<std::uint8_t>(col % 2 == 0 ? byte & 15 : byte >> 4);
  const e4m3 scale = q.scales()[row * q.padded_cols() / 16 + col / 16];
  const float value = static_cast<float>(fp4<E2M1>::from_bits(code)) * (static_cast<float>(scale) * q.tensor_scale());

  // The scales in the layout that the block-scaled products of cuBLASLt read.
  std::vector<e4m3> swizzled(compat::swizzled_size(rows, cols / 16));
  compat::swizzle_scales(q.scales().data(), rows, cols / 16, swizzled.data());

  std::vector<float> all(rows * cols);
  dequantize(q, matrix_view<float>{all.data(), rows, cols});
  assert(all[row * cols + col] == value && even.rows() == rows && up.cols() == cols && fewest.cols() == cols);
  assert(as_nvfp4.cols() == cols && as_mxfp4.cols() == cols && by_mae.cols() == cols && clipped.cols() == cols);
  const std::size_t per_row = cols / 16;
  assert(swizzled[compat::swizzled_index(row, 1, per_row)].bits() == q.scales()[row * per_row + 1].bits());
}
