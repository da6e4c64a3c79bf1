// ufp4 - outer scales of rows and segments: quantize, dequantize, ranges, products and errors.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/interop/gguf.hpp>
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/random_matrix.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

using namespace ufp4;
using support::random_matrix;
using support::rejection;

namespace {

using nvfp4_rows = block_format<fp4<E2M1>, e4m3, 16, per_row<float>>;
using int4_tiles = block_format<int4, ue5m3, block_shape{4, 16}, per_segment<64, bf16>>;
using by_48 = block_format<fp4<E2M1>, e4m3, 16, per_segment<48, float>>;
using tiles_of_80 = block_format<int4, ue5m3, block_shape{4, 16}, per_segment<80, bf16>>;

constexpr std::size_t rows = 11, cols = 300;

/// Rows whose magnitudes differ from row to row and from segment to segment.
matrix<float> uneven(std::uint64_t which, std::size_t m = rows, std::size_t k = cols) {
  matrix<float> x = random_matrix(which, m, k);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < k; ++j) x(i, j) = std::ldexp(x(i, j), static_cast<int>(7 * i + 5 * (j / 64)) % 23 - 11);
  return x;
}

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }
bool same_bits(const matrix<float>& a, const matrix<float>& b) {
  return a.rows() == b.rows() && a.cols() == b.cols() &&
         std::memcmp(a.data(), b.data(), a.rows() * a.cols() * sizeof(float)) == 0;
}

float binary32_at(const std::byte* p) {
  float value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

/// Columns k .. k + count - 1 of row i as a matrix of its own.
matrix<float> piece(const matrix<float>& x, std::size_t i, std::size_t k, std::size_t count) {
  matrix<float> one(1, count);
  for (std::size_t j = 0; j < count; ++j) one(0, j) = x(i, k + j);
  return one;
}

}  // namespace

TEST_CASE("each segment of tetrajet2 has the codes, scales and tensor scale of an nvfp4 matrix", "[outer]") {
  const matrix<float> x = uneven(1);
  const auto q = quantize<tetrajet2>(x, random_hadamard<64>{5});
  REQUIRE(q.padded_cols() == 320);
  constexpr std::size_t blocks = 20, strip = blocks + 3 * 4;  // 20 is a multiple of 4: nothing between
  REQUIRE(q.scale_bytes().size() == rows * strip);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < cols; k += 128) {
      const std::size_t count = cols - k < 128 ? cols - k : 128;
      const auto alone = quantize<nvfp4>(piece(x, i, k, count), random_hadamard<64>{5});
      const std::byte* scales = q.scale_bytes().data() + i * strip;
      REQUIRE(std::memcmp(q.codes().data() + (i * 320 + k) / 2, alone.codes().data(), alone.codes().size()) == 0);
      REQUIRE(std::memcmp(scales + k / 16, alone.scale_bytes().data(), alone.scale_bytes().size()) == 0);
      REQUIRE(same_bits(binary32_at(scales + blocks + k / 128 * 4), alone.tensor_scale()));
    }
}

TEST_CASE("a segment of any number of blocks has the bits of an nvfp4 matrix of its transformed columns", "[outer]") {
  const matrix<float> x = uneven(13, rows, 1000);
  const auto check = [&]<int length>(per_segment<length, float>, const auto& transform) {
    using F = block_format<fp4<E2M1>, e4m3, 16, per_segment<length, float>>;
    constexpr std::size_t covered = length;
    for (const cpu::isa tier : {cpu::isa::automatic, cpu::isa::scalar}) {
      const cpu::context ctx{.isa = tier};
      const auto q = quantize<F>(x, transform, ctx);
      const std::size_t padded = q.padded_cols(), blocks = padded / 16, outers = (padded + covered - 1) / covered,
                        begin = (blocks + 3) / 4 * 4, strip = begin + 4 * outers;
      REQUIRE(q.scale_bytes().size() == rows * strip);
      matrix<float> y(rows, padded);
      hadamard_forward(x, y, transform);
      for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t k = 0; k < padded; k += covered) {
          const std::size_t count = padded - k < covered ? padded - k : covered;
          const auto alone = quantize<nvfp4>(piece(y, i, k, count));
          const std::byte* scales = q.scale_bytes().data() + i * strip;
          REQUIRE(std::memcmp(q.codes().data() + (i * padded + k) / 2, alone.codes().data(), count / 2) == 0);
          REQUIRE(std::memcmp(scales + k / 16, alone.scale_bytes().data(), count / 16) == 0);
          REQUIRE(same_bits(binary32_at(scales + begin + k / covered * 4), alone.tensor_scale()));
        }
    }
  };
  // Segments that end within runs, runs that end within segments, and one segment longer than the row.
  const auto check_runs = [&](auto segment) {
    check(segment, hadamard<16>{}), check(segment, hadamard<64>{}), check(segment, random_hadamard<256>{7});
  };
  check_runs(per_segment<48, float>{}), check_runs(per_segment<80, float>{}), check_runs(per_segment<368, float>{});
  check_runs(per_segment<16 * 65537, float>{});
}

TEST_CASE("each row of a format with scales of rows has the bits of an nvfp4 matrix", "[outer]") {
  const matrix<float> x = uneven(2);
  const auto q = quantize<nvfp4_rows>(x, scale_up{});
  constexpr std::size_t blocks = 19, strip = 20 + 4;  // a byte of 0 between
  REQUIRE(q.scale_bytes().size() == rows * strip);
  for (std::size_t i = 0; i < rows; ++i) {
    const auto alone = quantize<nvfp4>(piece(x, i, 0, cols), scale_up{});
    const std::byte* scales = q.scale_bytes().data() + i * strip;
    REQUIRE(std::memcmp(q.codes().data() + i * 152, alone.codes().data(), 152) == 0);
    REQUIRE(std::memcmp(scales, alone.scale_bytes().data(), blocks) == 0);
    REQUIRE(scales[blocks] == std::byte{0});
    REQUIRE(same_bits(binary32_at(scales + 20), alone.tensor_scale()));
  }
}

TEST_CASE("an outer scale of type bf16 is a bf16 number near the binary32 one", "[outer]") {
  const matrix<float> x = uneven(3);
  const auto q = quantize<int4_tiles>(x);
  constexpr std::size_t blocks = 19, strip = 20 + 5 * 2;  // 5 segments of 64 columns
  REQUIRE(q.scale_bytes().size() == 3 * strip);           // strips of 4 rows
  for (std::size_t s = 0; s < 3; ++s)
    for (std::size_t g = 0; g < 5; ++g) {
      float amax = 0;
      for (std::size_t i = 4 * s; i < rows && i < 4 * s + 4; ++i)
        for (std::size_t k = 64 * g; k < cols && k < 64 * g + 64; ++k) amax = std::max(amax, std::fabs(x(i, k)));
      std::uint16_t bits;
      std::memcpy(&bits, q.scale_bytes().data() + s * strip + blocks + 1 + 2 * g, 2);
      const float exact = amax / (114688.0f * 7.0f), stored = static_cast<float>(bf16::from_bits(bits));
      CHECK(std::fabs(stored - exact) <= exact * 0x1.02p-8f);
    }
}

TEST_CASE("fake_quantize, elements, prepacked matrices and ranges agree with dequantize", "[outer]") {
  const matrix<float> x = uneven(4);
  const auto check = [&]<class F>(F) {
    for (const cpu::isa tier : {cpu::isa::automatic, cpu::isa::scalar}) {
      const cpu::context ctx{.threads = 2, .isa = tier};
      const auto q = quantize<F>(x, stochastic{.seed = 9}, ctx);
      const matrix<float> decoded = dequantize(q, ctx), packed = dequantize(prepack(q, ctx));
      matrix<float> faked(rows, cols);
      fake_quantize<F>(x, faked, stochastic{.seed = 9}, ctx);
      REQUIRE(same_bits(faked, decoded));
      REQUIRE(same_bits(packed, decoded));
      const auto p = prepack(q);
      for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t k = 0; k < cols; ++k) {
          REQUIRE(same_bits(q(i, k), decoded(i, k)));
          REQUIRE(same_bits(p(i, k), decoded(i, k)));
        }
      REQUIRE(unpack(p) == q);
      const auto tail = row_range(q, 8, 3);
      for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t k = 0; k < cols; ++k) REQUIRE(same_bits(tail(i, k), decoded(8 + i, k)));
      const std::size_t first = ufp4::detail::common_columns(16, static_cast<std::size_t>(F::outer.segment));
      const auto middle = col_range(q, first, cols - first);
      for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t k = 0; k < cols - first; ++k) REQUIRE(same_bits(middle(i, k), decoded(i, first + k)));
    }
  };
  check(tetrajet2{}), check(nvfp4_rows{}), check(int4_tiles{}), check(by_48{}), check(tiles_of_80{});
}

TEST_CASE("the bits do not depend on threads, instruction set or layout of the input", "[outer]") {
  const matrix<float> x = uneven(5);
  matrix<float> columns(cols, rows);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < cols; ++k) columns(k, i) = x(i, k);
  const auto check = [&]<class F>(F) {
    const auto want = quantize<F>(x, hadamard<16>{}, cpu::context{.threads = 1, .isa = cpu::isa::scalar});
    for (const cpu::isa tier : {cpu::isa::automatic, cpu::isa::scalar})
      for (const int threads : {1, 3})
        REQUIRE(quantize<F>(x, hadamard<16>{}, cpu::context{.threads = threads, .isa = tier}) == want);
    REQUIRE(quantize<F>(transpose(matrix_view<const float>(columns.data(), cols, rows)), hadamard<16>{}) == want);
    const auto a = analysis::measure<F>(x, cpu::context{.isa = cpu::isa::scalar}),
               b = analysis::measure<F>(x, cpu::context{});
    CHECK((a.sqnr_db == b.sqnr_db && a.histogram == b.histogram));
  };
  check(tetrajet2{}), check(nvfp4_rows{}), check(int4_tiles{}), check(by_48{}), check(tiles_of_80{});
}

TEST_CASE("a NaN makes its block NaN and leaves the outer scale alone", "[outer]") {
  matrix<float> x = uneven(6);
  const auto clean = quantize<tetrajet2>(x);
  x(2, 130) = std::numeric_limits<float>::quiet_NaN();
  quantize_report report;
  const auto q = quantize<tetrajet2>(x, count_into{report});
  CHECK(report.nonfinite_blocks == 1);
  const matrix<float> decoded = dequantize(q), before = dequantize(clean);
  std::size_t nans = 0;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < cols; ++k) {
      nans += std::isnan(decoded(i, k));
      const bool other_segment = i != 2 || k / 128 != 1;
      if (other_segment) REQUIRE(same_bits(decoded(i, k), before(i, k)));
    }
  CHECK(nans == 16);
}

TEST_CASE("a segment of zeros has the outer scale 1 and block scales of 0", "[outer]") {
  const auto q = quantize<tetrajet2>(matrix<float>(1, 128));
  for (std::size_t b = 0; b < 8; ++b) CHECK(q.scale_bytes()[b] == std::byte{0});
  CHECK(binary32_at(q.scale_bytes().data() + 8) == 1.0f);
  const auto none = quantize<tetrajet2>(matrix<float>(3, 0));
  CHECK((none.codes().empty() && none.scale_bytes().empty()));
}

TEST_CASE("parts of a matrix quantize to the bits of the whole", "[outer]") {
  const matrix<float> x = uneven(7);
  const auto whole = quantize<tetrajet2>(x, stochastic{.seed = 3});
  const matrix_view<const float> part(x.data() + 3 * cols + 128, 5, 128, cols);
  const auto q = quantize<tetrajet2>(part, stochastic{.seed = 3}, shard{3, 128, cols});
  REQUIRE(q == col_range(row_range(whole, 3, 5), 128, 128));
  const auto by_rows = quantize<nvfp4_rows>(x, stochastic{.seed = 3});
  const matrix_view<const float> low(x.data() + 6 * cols, 5, cols);
  REQUIRE(quantize<nvfp4_rows>(low, stochastic{.seed = 3}, shard{6, 0, cols}) == row_range(by_rows, 6, 5));
  const auto all = quantize<by_48>(x, hadamard<64>{}, stochastic{.seed = 3});  // whole runs and segments: 192 columns
  const matrix_view<const float> end(x.data() + 192, rows, cols - 192, cols);
  REQUIRE(quantize<by_48>(end, hadamard<64>{}, stochastic{.seed = 3}, shard{0, 192, cols}) ==
          col_range(all, 192, cols - 192));
}

TEST_CASE("a product with an operand of outer scales is that of its decoded blocks", "[outer]") {
  const matrix<float> x = uneven(8), w = uneven(9, 5, cols);
  const auto check = [&](const auto& a, const auto& b) {
    matrix<float> exact(rows, 5), fast(rows, 5), packed(rows, 5);
    quantized_gemm(a, b, exact, {.accumulate = accumulate::exact_blocks});
    quantized_gemm(a, b, fast);
    quantized_gemm(a, prepack(b), packed, {.accumulate = accumulate::exact_blocks});
    CHECK(same_bits(packed, exact));
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < 5; ++j) {
        double sum = 0, magnitude = 0;
        for (std::size_t k = 0; k < cols; ++k) {
          const double product = static_cast<double>(a(i, k)) * static_cast<double>(b(j, k));
          sum += product, magnitude += std::fabs(product);
        }
        CHECK(std::fabs(static_cast<double>(fast(i, j)) - sum) <= magnitude * 350 * 0x1p-24);
        CHECK(std::fabs(static_cast<double>(exact(i, j)) - sum) <= magnitude * 350 * 0x1p-24);
      }
  };
  check(quantize<tetrajet2>(x), quantize<tetrajet2>(w));
  check(quantize<by_48>(x), quantize<by_48>(w));
  check(quantize<by_48>(x), quantize<nvfp4>(w));
}

TEST_CASE("a matrix with outer scales of rows has the tensor scale 1, on a grid of tiny values too", "[outer]") {
  float values[16];
  for (int c = 0; c < 16; ++c) values[c] = std::ldexp(static_cast<float>(c - 8), -140);
  format_spec format = spec_of<nvfp4_rows>;
  format.grid = grid4::of(values);
  const matrix<float> x = uneven(5);
  const any_quantized q = quantize(format, x);
  CHECK(q.tensor_scale() == 1.0f);
  matrix<float> c(rows, rows), y(rows, cols);
  quantized_gemm(q, q, c, {});
  dequantize(q, y);
  double exact = 0;
  for (std::size_t k = 0; k < cols; ++k) exact += static_cast<double>(y(0, k)) * static_cast<double>(y(0, k));
  CHECK(std::fabs(static_cast<double>(c(0, 0)) - exact) <= 1e-4 * exact);
}

TEST_CASE("what cannot apply to outer scales is rejected", "[outer]") {
  const matrix<float> x = uneven(10);
  CHECK(rejection([&] { quantize(spec_of<tetrajet2>, x, tensor_amax{1}); }) ==
        "quantize: tensor_amax has no effect: the format has no tensor scale");
  CHECK(rejection([&] { quantize(spec_of<tetrajet2>, x, shard{0, 64, 400}); }) ==
        "quantize: shard.first_col must be a multiple of 128 (the least common multiple of block, transform and "
        "segment), "
        "got 64");
  CHECK(rejection([&] { quantize(spec_of<nvfp4_rows>, x, shard{0, 0, 400}); }).find("multiple of 16") !=
        std::string::npos);
  const matrix_view<const float> part(x.data(), rows, 160, cols);
  CHECK(rejection([&] { quantize(spec_of<nvfp4_rows>, part, shard{0, 0, cols}); }) ==
        "quantize: a shard of a format with an outer scale for each row must have whole rows, got 160 of 300 columns");
  CHECK(rejection([&] { col_range(quantize<tetrajet2>(x), 16, 16); }) ==
        "col_range: first and count must be multiples of 128 (the least common multiple of block, transform and "
        "segment), "
        "got 16 and 16");
  const auto bad = [&](outer_scale outer, scale_kind scale = scale_kind::e4m3) {
    format_spec f = spec_of<nvfp4>;
    f.outer = outer, f.scale = scale;
    return rejection([&] { quantize(f, x); });
  };
  for (const int segment : {0, -16, 8, 40, 65})
    CHECK(bad({outer_scale::kind::segment, scale_kind::f32, segment}) ==
          "quantize: outer.segment must be a positive multiple of the block length, got " + std::to_string(segment) +
              " for blocks of 16");
  CHECK(bad({outer_scale::kind::row, scale_kind::f32, 128}) ==
        "quantize: outer.segment is for outer scales of segments, got 128 for blocks of 16");
  CHECK(bad({outer_scale::kind::row, scale_kind::e4m3}) == "quantize: outer scales are float or bf16");
  CHECK(bad({outer_scale::kind::none, scale_kind::bf16}) ==
        "quantize: a format without outer scales has an outer.type");
  CHECK(bad({outer_scale::kind::row}, scale_kind::f32) ==
        "quantize: only e4m3 and ue5m3 block scales take outer scales: the range of the others needs none");
}

TEST_CASE("GGUF, which has no outer scales of segments, rejects them by name", "[outer]") {
  const auto q = quantize<tetrajet2>(uneven(11));
  interop::gguf_writer ggml;
  CHECK(rejection([&] { interop::add_quantized(ggml, "w", q); }) ==
        "add_quantized: format not available in GGUF: w is neither mxfp4 nor nvfp4, but tetrajet2");
}
