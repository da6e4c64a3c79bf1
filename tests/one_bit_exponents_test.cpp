// ufp4 - one-bit exponents under a block scale, and the scale type e6m2.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/random_matrix.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace ufp4;
using support::random_matrix;
using support::rejection;

namespace {

constexpr std::size_t rows = 5, cols = 192;

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }
bool same_bits(const matrix<float>& a, const matrix<float>& b) {
  return a.rows() == b.rows() && a.cols() == b.cols() &&
         std::memcmp(a.data(), b.data(), a.rows() * a.cols() * sizeof(float)) == 0;
}

std::uint32_t word_at(const std::byte* p) {
  std::uint32_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

}  // namespace

TEST_CASE("every code of e6m2 converts to its value and back, and midpoints go to the even code", "[exponents]") {
  for (unsigned code = 0; code < 255; ++code) {
    const float value = std::ldexp(1.0f + static_cast<float>(code % 4) / 4.0f, static_cast<int>(code / 4) - 48);
    CHECK(static_cast<float>(e6m2::from_bits(static_cast<std::uint8_t>(code))) == value);
    CHECK(e6m2(value).bits() == code);
    if (code == 254) break;
    const float next = static_cast<float>(e6m2::from_bits(static_cast<std::uint8_t>(code + 1)));
    const float middle = value + (next - value) / 2;
    CHECK(e6m2(middle).bits() == (code % 2 == 0 ? code : code + 1));
    CHECK(e6m2(std::nextafter(middle, 0.0f)).bits() == code);
    CHECK(e6m2(std::nextafter(middle, 1e9f)).bits() == code + 1);
  }
  CHECK(std::isnan(static_cast<float>(e6m2::from_bits(0xFF))));
  CHECK(e6m2(std::numeric_limits<float>::quiet_NaN()).bits() == 0xFF);
  CHECK(e6m2(std::numeric_limits<float>::infinity()).bits() == 0xFE);
  CHECK(e6m2(1e30f).bits() == 0xFE);
  for (const float x : {0.0f, -0.0f, 1e-30f, -1.0f, 0x1p-149f}) CHECK(e6m2(x).bits() == 0);
}

TEST_CASE("a block of hif4 stores its scale, then the exponents of groups of 8 and of 4", "[exponents]") {
  matrix<float> x(1, 64);
  x(0, 0) = 7.0f;    // 1.75 * 2 * 2: both exponents of groups 0 and 0
  x(0, 6) = -3.5f;   // group 0 of 8 has exponent 1, so 3.5 / 2 = 1.75 needs none of its own
  x(0, 17) = 2.0f;   // group 2 of 8: below 4; group 4 of 4: not below 2
  x(0, 20) = 1.25f;  // group 5 of 4: 0
  x(0, 63) = 1.75f;  // nothing
  const auto q = quantize<hif4>(x);
  REQUIRE(q.scale_bytes().size() == 4);
  const std::uint32_t bits = word_at(q.scale_bytes().data());
  CHECK((bits & 0xFF) == e6m2(1.0f).bits());
  CHECK((bits >> 8 & 0xFF) == 0b00000001);
  CHECK(bits >> 16 == 0b0000000000010001);
  for (std::size_t k = 0; k < 64; ++k) CHECK(q(0, k) == x(0, k));
  CHECK(ufp4::detail::code_at(q.codes().data(), 0) == fp4<E1M2>(1.75f).bits());
  CHECK(ufp4::detail::code_at(q.codes().data(), 6) == fp4<E1M2>(-1.75f).bits());
  CHECK(ufp4::detail::code_at(q.codes().data(), 17) == fp4<E1M2>(1.0f).bits());
  CHECK(hif4::bits_per_element == 4.5);
}

TEST_CASE("values between qmax and twice its power of two saturate and are counted", "[exponents]") {
  matrix<float> x(1, 64);
  x(0, 0) = 7.0f;
  x(0, 40) = 1.9f;  // below 2, so without an exponent, and beyond 1.75
  quantize_report report;
  const auto q = quantize<hif4>(x, count_into{report});
  CHECK(report.saturated == 1);
  CHECK(q(0, 40) == 1.75f);
}

TEST_CASE("blocks of zeros and blocks with a NaN have no exponents", "[exponents]") {
  matrix<float> x(1, 192);
  x(0, 70) = std::numeric_limits<float>::quiet_NaN(), x(0, 71) = 100.0f;
  x(0, 130) = 3.5f;
  quantize_report report;
  const auto q = quantize<hif4>(x, count_into{report});
  CHECK(report.nonfinite_blocks == 1);
  CHECK(word_at(q.scale_bytes().data()) == 0);
  CHECK(word_at(q.scale_bytes().data() + 4) == 0xFF);
  for (std::size_t k = 0; k < 64; ++k) CHECK((same_bits(q(0, k), 0.0f) && std::isnan(q(0, 64 + k))));
  CHECK(q(0, 130) == 3.5f);
}

TEST_CASE("fake_quantize, elements, prepacked matrices and products of hif4 agree with dequantize", "[exponents]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(1, rows, cols), w = random_matrix(2, 7, cols);
  for (const cpu::isa tier : {cpu::isa::automatic, cpu::isa::scalar}) {
    const cpu::context ctx{.threads = 2, .isa = tier};
    const auto q = quantize<hif4>(x, stochastic{.seed = 4}, hadamard<32>{}, ctx),
               b = quantize<hif4>(w, hadamard<32>{}, ctx);
    const matrix<float> decoded = dequantize(q, ctx);
    matrix<float> faked(rows, cols), exact(rows, 7), fast(rows, 7), packed(rows, 7);
    fake_quantize<hif4>(x, faked, stochastic{.seed = 4}, hadamard<32>{}, ctx);
    REQUIRE(same_bits(faked, decoded));
    REQUIRE(unpack(prepack(q, ctx)) == q);
    quantized_gemm(q, b, exact, {.accumulate = accumulate::exact_blocks}, ctx);
    quantized_gemm(q, b, fast, ctx);
    quantized_gemm(q, prepack(b), packed, {.accumulate = accumulate::exact_blocks}, ctx);
    REQUIRE(same_bits(packed, exact));
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t k = 0; k < cols; ++k)
        REQUIRE((same_bits(q(i, k), decoded(i, k)) && same_bits(prepack(q)(i, k), q(i, k))));
      for (std::size_t j = 0; j < 7; ++j) {
        double sum = 0, magnitude = 0;
        for (std::size_t k = 0; k < cols; ++k) {
          const double product = static_cast<double>(q(i, k)) * static_cast<double>(b(j, k));
          sum += product, magnitude += std::fabs(product);
        }
        CHECK(std::fabs(static_cast<double>(fast(i, j)) - sum) <= magnitude * 250 * 0x1p-24);
        CHECK(std::fabs(static_cast<double>(exact(i, j)) - sum) <= magnitude * 250 * 0x1p-24);
      }
    }
  }
}

TEST_CASE("what cannot apply to one-bit exponents is rejected", "[exponents]") {
  const matrix<float> x = random_matrix(3, 2, 64);
  CHECK(rejection([&] { quantize(spec_of<hif4>, x, four_over_six{}); }) ==
        "quantize: four_over_six is for formats of one grid without one-bit exponents");
  const auto bad = [&](auto change) {
    format_spec f = spec_of<hif4>;
    change(f);
    return rejection([&] { quantize(f, x); });
  };
  CHECK(bad([](format_spec& f) { f.block.group.narrow = 8; }) ==
        "quantize: the groups of a block must be powers of two, the first at most a block, the second smaller or 0");
  CHECK(bad([](format_spec& f) { f.block.group.wide = 128; }).find("the groups of a block") != std::string::npos);
  CHECK(bad([](format_spec& f) { f.block.rows = 2; }) ==
        "quantize: one-bit exponents are for blocks of one row and one grid");
  format_spec of_rows = spec_of<block_format<fp4<E1M2>, e4m3, grouped(64, 8, 4), per_row<float>>>;
  CHECK(rejection([&] { quantize(of_rows, x); }).empty());
  of_rows.outer.type = scale_kind::bf16;
  CHECK(rejection([&] { quantize(of_rows, x); }) ==
        "quantize: outer scales of rows and segments are float where a block has more than 8 one-bit exponents");
  CHECK(bad([](format_spec& f) { f.scale = scale_kind::bf16; }) ==
        "quantize: one-bit exponents need a scale of 8 bits, and there are at most 24 in a block");
  CHECK(bad([](format_spec& f) { f.block.group.narrow = 2; }).find("at most 24") != std::string::npos);
}
