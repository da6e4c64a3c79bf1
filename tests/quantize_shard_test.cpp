// ufp4 - shard: a part of a matrix quantizes to the bits it has in the whole, wherever the whole is cut.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/quantize.hpp>

#include <algorithm>
#include <vector>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/seed.hpp"
#include "support/tensor_amax.hpp"

namespace {

using namespace ufp4;

const cpu::context one_thread{.threads = 1};
const stochastic random_bits{.seed = 11, .stream = 0x500000006ull};

/// The codes and scales of rows and columns of `part` are those of `whole` from (row, col) on.
template <class F>
bool lies_in(const quantized_matrix<F>& part, const quantized_matrix<F>& whole, std::size_t row, std::size_t col) {
  constexpr auto height = static_cast<std::size_t>(F::block.rows), length = F::block_size;
  bool same = model::bits_of(part.tensor_scale()) == model::bits_of(whole.tensor_scale());
  for (std::size_t r = 0; r < part.rows(); ++r)
    same = same && std::equal(part.codes().data() + r * part.padded_cols() / 2,
                              part.codes().data() + (r + 1) * part.padded_cols() / 2,
                              whole.codes().data() + ((row + r) * whole.padded_cols() + col) / 2);
  const std::size_t across = part.padded_cols() / length, whole_across = whole.padded_cols() / length;
  for (std::size_t r = 0; r < part.scales().size() / (across == 0 ? 1 : across); ++r)
    for (std::size_t c = 0; c < across; ++c)
      same = same && support::scale_bits(part.scales()[r * across + c]) ==
                         support::scale_bits(whole.scales()[(row / height + r) * whole_across + col / length + c]);
  return same;
}

/// Every allowed first row and column with every allowed extent, of one matrix.
template <class F, class Transform>
void check_all_parts(std::size_t rows, std::size_t cols, const Transform& t) {
  INFO(support::seed_note());
  support::hostile source(support::seed(cols));
  const std::vector<float> values = source.values(rows * cols);
  const matrix_view<const float> x{values.data(), rows, cols};
  const auto whole = quantize<F>(x, t, random_bits, one_thread);
  const tensor_amax g = amax(x, t, one_thread);
  const std::size_t n = t.spec().n, run = n > F::block_size ? n : F::block_size;
  constexpr auto height = static_cast<std::size_t>(F::block.rows);
  for (std::size_t row = 0; row < rows; row += height)
    for (std::size_t end = row; end <= rows; end = end == rows ? rows + 1 : std::min(end + height, rows))
      for (std::size_t col = 0; col <= cols; col += run)
        for (std::size_t last = col; last <= cols; last = last == cols ? cols + 1 : std::min(last + run, cols)) {
          const matrix_view<const float> view{values.data() + row * cols + col, end - row, last - col,
                                              static_cast<std::ptrdiff_t>(cols)};
          const shard place{.first_row = row, .first_col = col, .total_cols = cols};
          const auto part = support::with_amax<F>(
              g, [&](auto... amax) { return quantize<F>(view, t, random_bits, place, amax..., one_thread); });
          CAPTURE(row, end, col, last);
          REQUIRE(lies_in<F>(part, whole, row, col));
        }
}

using square_nvfp4 = block_format<fp4<E2M1>, e4m3, square(16), float>;
using square_mx = block_format<ufp4::int4, e8m0, square(32)>;

}  // namespace

TEMPLATE_TEST_CASE("every part of a matrix has the whole's bits under stochastic rounding", "", e1m2_f32, int4_f32,
                   nvfp4, nv_e1m2, mxfp4, mxint4) {
  check_all_parts<TestType>(5, 150, transform_spec{});
  check_all_parts<TestType>(3, 150, random_hadamard<16>{3});
  check_all_parts<TestType>(4, 300, random_hadamard<64>{3});
}
TEMPLATE_TEST_CASE("every part of a matrix of squares has the whole's bits", "", square_nvfp4, square_mx) {
  check_all_parts<TestType>(70, 130, transform_spec{});
  check_all_parts<TestType>(40, 200, random_hadamard<64>{3});
}

TEST_CASE("fake_quantize of a part gives the whole's values there") {
  support::hostile source(support::seed(1));
  const std::vector<float> values = source.values(8 * 96);
  std::vector<float> whole(values.size()), parts(values.size());
  const matrix_view<const float> x{values.data(), 8, 96};
  const random_hadamard<32> t{8};
  fake_quantize<nvfp4>(x, matrix_view<float>{whole.data(), 8, 96}, t, random_bits, undo_transform{});
  const tensor_amax g = amax(x, t);
  for (std::size_t row = 0; row < 8; row += 3)
    for (std::size_t col = 0; col < 96; col += 32) {
      const std::size_t height = std::min<std::size_t>(3, 8 - row);
      fake_quantize<nvfp4>(matrix_view<const float>{values.data() + row * 96 + col, height, 32, 96},
                           matrix_view<float>{parts.data() + row * 96 + col, height, 32, 96}, t, random_bits,
                           undo_transform{}, g, shard{.first_row = row, .first_col = col, .total_cols = 96});
    }
  CHECK(support::same_numbers(parts, whole));
}

TEST_CASE("the index of a random number is 64 bits wide: shards of matrices with 2^40 rows and columns") {
  INFO(support::seed_note());
  support::hostile source(support::seed(2));
  const model::format f = model::format_of<e1m2_f32>();
  const std::uint64_t far[] = {0,
                               std::uint64_t{1} << 31,
                               (std::uint64_t{1} << 32) - 1,
                               std::uint64_t{1} << 32,
                               std::uint64_t{1} << 40,
                               (std::uint64_t{1} << 40) + 12345};
  for (const std::uint64_t first_row : far)
    for (const std::uint64_t wide : far) {
      const std::uint64_t first_col = wide / 16 * 16, total = first_col + 100;
      const std::vector<float> x = source.values(3 * 100, false, false);
      model::request want{.rounding = {model::rounding::stochastic, 11, 0x500000006ull}};
      want.sharded = true, want.first_row = first_row, want.first_col = first_col, want.total_cols = total;
      const auto got =
          quantize<e1m2_f32>(matrix_view<const float>{x.data(), 3, 100}, random_bits,
                             shard{.first_row = first_row, .first_col = first_col, .total_cols = total}, one_thread);
      CAPTURE(first_row, first_col);
      REQUIRE(support::matches(got, model::quantize(f, x, 3, 100, want)));
    }
}

TEST_CASE("without a shard the padded length counts, so the same row has other random bits in a wider matrix") {
  std::vector<float> x(2 * 16, 0.3f), wide(2 * 17, 0.3f);
  x[16] = wide[17] = 1.75f;  // the amax of row 1: its scale is 1
  const auto narrow = quantize<e1m2_f32>(matrix_view<const float>{x.data(), 2, 16}, random_bits);
  const auto padded = quantize<e1m2_f32>(matrix_view<const float>{wide.data(), 2, 17}, random_bits);
  // Element (1, 0) has index 16 in one and 32 in the other.
  const model::rounding r{model::rounding::stochastic, random_bits.seed, random_bits.stream};
  const model::grid g = model::grid_of<fp4<E1M2>>();
  int differing = 0;
  for (std::uint64_t k = 1; k < 16; ++k) {
    const int a = ufp4::detail::code_at(narrow.codes().data() + 8, k),
              b = ufp4::detail::code_at(padded.codes().data() + 16, k);
    CHECK(a == model::round(g, 0.3f, r, 16 + k));
    CHECK(b == model::round(g, 0.3f, r, 32 + k));
    differing += a != b;
  }
  CHECK(differing > 0);
}
