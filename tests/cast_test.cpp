// ufp4 - tests: cast between block formats.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <ufp4/cast.hpp>
#include <ufp4/ufp4.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"

namespace {

using namespace ufp4;

/// One row a scale code of an 8-bit scale: every block of the row has that scale, and all sixteen codes.
any_quantized every_code(const format_spec& f, std::uint32_t first_scale, std::uint32_t last_scale,
                         float tensor_scale) {
  const auto length = static_cast<std::size_t>(f.block.cols);
  any_quantized q(f, last_scale - first_scale + 1, length < 16 ? 16 : length);
  q.set_tensor_scale(tensor_scale);
  for (std::size_t i = 0; i < q.codes().size(); ++i)
    q.codes()[i] = static_cast<std::uint8_t>(2 * i % 16 | (2 * i + 1) % 16 << 4);
  const std::size_t blocks = q.padded_cols() / length;
  for (std::size_t r = 0; r < q.rows(); ++r)
    for (std::size_t b = 0; b < blocks; ++b)
      detail::store_scale(q.scale_bytes().data(), f.scale, r * blocks + b, first_scale + static_cast<std::uint32_t>(r));
  return q;
}

std::vector<float> decoded(const any_quantized_view& q) {
  std::vector<float> x(q.rows() * q.cols());
  dequantize(q, matrix_view<float>{x.data(), q.rows(), q.cols()});
  return x;
}

/// Elements whose values differ; -0 and 0 are the same value.
template <ufp4::detail::quantized_like A, ufp4::detail::quantized_like B>
std::size_t differences(const A& a, const B& b) {
  const std::vector<float> x = decoded(a), y = decoded(b);
  std::size_t n = 0;
  for (std::size_t i = 0; i < x.size(); ++i) n += x[i] != y[i] ? 1 : 0;
  return n;
}

/// Casts, and compares the report with a comparison of the decoded values.
template <ufp4::detail::quantized_like Q>
any_quantized checked(const Q& q, const format_spec& to, cast_report& report) {
  report = {};
  any_quantized out = cast(q, to, report);
  CHECK(report.inexact_elements == differences(q, out));
  CHECK((report.noise == 0) == (report.inexact_elements == 0));
  cast_report again;
  CHECK(cast(q, to, again, cpu::context{.threads = 1, .isa = cpu::isa::scalar}) == out);
  CHECK((again.noise == report.noise && again.inexact_blocks == report.inexact_blocks));
  return out;
}

}  // namespace

TEST_CASE("mxfp4 becomes nvfp4 with the same codes and values where all scales are within 2^16 of the largest") {
  for (const std::uint32_t largest : {16u, 100u, 127u, 200u, 252u}) {
    cast_report report;
    const any_quantized mx = every_code(spec_of<mxfp4>, largest - 16, largest, 1);
    const any_quantized nv = checked(mx, spec_of<nvfp4>, report);
    CAPTURE(largest);
    CHECK(report.inexact_elements == 0);
    CHECK(report.blocks == 2 * mx.rows());
    CHECK(std::isinf(report.sqnr_db()));
    CHECK(nv.tensor_scale() == std::ldexp(1.0f, static_cast<int>(largest) - 127 - 8));
    CHECK(std::equal(mx.codes().begin(), mx.codes().end(), nv.codes().begin()));
    CHECK(static_cast<std::uint8_t>(nv.scale_bytes().back()) == 0x78);  // 2^8
    CHECK(static_cast<std::uint8_t>(nv.scale_bytes()[0]) == 2);         // 2^-8
  }
}

TEST_CASE("mxfp4 to nvfp4 reports the blocks whose scales are too small, and what was lost in them") {
  cast_report report;
  const any_quantized mx = every_code(spec_of<mxfp4>, 100, 120, 1);  // 100, 101 and 102 are below 2^-17 of 2^-7
  const any_quantized nv = checked(mx, spec_of<nvfp4>, report);
  CHECK(report.inexact_blocks == 2 * 3);
  CHECK(report.inexact_elements > 0);
  CHECK(report.sqnr_db() > 100);
  // The scale 2^-17 of the largest is the least one, 2^-9: still exact.
  CHECK(static_cast<std::uint8_t>(nv.scale_bytes()[2 * 3]) == 1);
}

TEST_CASE("E1M2 and int4 are cast into each other with the same scales and values, for every code and scale") {
  cast_report report;
  const any_quantized e1m2 = every_code(spec_of<nv_e1m2>, 0, 0x7E, 0.7f);
  const any_quantized ints = checked(e1m2, spec_of<nvint4>, report);
  CHECK(report.inexact_elements == 0);
  CHECK(ints.tensor_scale() == 0.7f / 4);
  CHECK(std::equal(ints.scale_bytes().begin(), ints.scale_bytes().end(), e1m2.scale_bytes().begin()));
  const any_quantized back = checked(ints, spec_of<nv_e1m2>, report);
  CHECK(report.inexact_elements == 0);
  CHECK(back.tensor_scale() == 0.7f);
  CHECK(std::equal(back.scale_bytes().begin(), back.scale_bytes().end(), e1m2.scale_bytes().begin()));
  for (const std::uint32_t first : {2u, 100u, 200u}) {
    const any_quantized mx = every_code(spec_of<mx_e1m2>, first, first + 52, 1);
    const any_quantized mxint = checked(mx, spec_of<mxint4>, report);
    CHECK(report.inexact_elements == 0);
    CHECK(static_cast<std::uint32_t>(mxint.scale_bytes()[0]) == first - 2);
  }
  // Below 2^-127 there is no e8m0 scale; and int4's -8 is not a value of E1M2.
  cast_report tiny, minus_eight;
  (void)checked(every_code(spec_of<mx_e1m2>, 0, 1, 1), spec_of<mxint4>, tiny);
  CHECK(tiny.inexact_blocks == 2);
  (void)checked(every_code(spec_of<nvint4>, 0x38, 0x38, 1), spec_of<nv_e1m2>, minus_eight);
  CHECK(minus_eight.inexact_blocks == 1);
}

TEST_CASE("a binary32 scale holds every effective scale of another format with the same elements") {
  cast_report report;
  (void)checked(every_code(spec_of<nvfp4>, 0, 0x7E, 0.123f), spec_of<e2m1_f32>, report);
  (void)checked(every_code(spec_of<mxfp4>, 1, 252, 1), spec_of<e2m1_f32>, report);
  (void)checked(every_code(spec_of<nvint4>, 0, 0x7E, 3.3f), spec_of<e1m2_f32>, report);
  CHECK(report.inexact_blocks == 126);  // int4's -8
}

TEST_CASE("nvfp4 to mxfp4 has the bits of quantizing the decoded values under mse_search, and reports their SQNR") {
  INFO(support::seed_note());
  support::hostile source(support::seed(1));
  std::vector<float> x(24 * 160);
  for (float& v : x) v = static_cast<float>(source.below(20001)) - 10000.5f;
  const auto nv = quantize<nvfp4>(matrix_view<const float>{x.data(), 24, 160});
  cast_report report;
  const any_quantized mx = checked(nv, spec_of<mxfp4>, report);
  const std::vector<float> y = decoded(nv), z = decoded(mx);
  const auto again = quantize<mxfp4>(matrix_view<const float>{y.data(), 24, 160}, mse_search{});
  CHECK(mx.view() == any_quantized_view(again));
  CHECK(report.inexact_blocks == report.blocks);
  double signal = 0, noise = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double a = static_cast<double>(y[i]), d = static_cast<double>(z[i]) - a;
    signal += a * a, noise += d * d;
  }
  CHECK(std::abs(report.sqnr_db() - 10 * std::log10(signal / noise)) < 1e-9);
}

TEST_CASE("cast keeps NaN blocks, zeros, ragged edges and the transform") {
  std::vector<float> x(3 * 70, 0.0f);
  for (std::size_t i = 0; i < 70; ++i) x[i] = 0.5f * static_cast<float>(i % 7) - 1.5f;
  x[70 + 40] = std::numeric_limits<float>::quiet_NaN();
  x[70 + 3] = -0.25f;
  const auto mx = quantize<mxfp4>(matrix_view<const float>{x.data(), 3, 70});
  cast_report report;
  const auto nv = cast<nvfp4>(mx, report);
  CHECK((nv.rows() == 3 && nv.cols() == 70 && nv.padded_cols() == 80));
  CHECK(report.inexact_elements == 0);
  const std::vector<float> a = decoded(mx), b = decoded(nv);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK((a[i] == b[i] || (a[i] != a[i] && b[i] != b[i])));
  const auto h = quantize<mxfp4>(matrix_view<const float>{x.data(), 1, 70}, random_hadamard<64>{3});
  CHECK(cast<nvfp4>(h).transform().signs[0] == h.transform().signs[0]);
  CHECK(cast<nvfp4>(h).padded_cols() == 128);
  CHECK(differences(h, cast<nvfp4>(h)) == 0);
}

TEST_CASE(
    "cast_into fills memory of the caller with the bits and the report of cast, and writes nothing when it fails") {
  std::vector<float> x(5 * 96);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) - 50.0f;
  const any_quantized q = quantize(spec_of<nvfp4>, matrix_view<const float>{x.data(), 5, 96});
  const ufp4::quantized_storage::size size = storage_size(spec_of<mxfp4>, 5, 96);
  std::vector<std::uint8_t> codes(size.codes, 0xA5);
  std::vector<std::byte> scales(size.scales, std::byte{0xA5});
  cast_report report, expected;
  const auto into = [&](const quantized_storage& memory) {
    return support::rejection([&] { (void)cast_into(q, spec_of<mxfp4>, memory, report); });
  };
  CHECK(into({{codes.data(), size.codes - 1}, scales}) ==
        "cast_into: codes has 239 bytes, but 5 x 96 elements (96 with padding) take 240");
  CHECK(into({{const_cast<std::uint8_t*>(q.codes().data()), size.codes}, scales}) ==
        "cast_into: codes overlaps the quantized matrix");
  CHECK((report.blocks == 0 && codes == std::vector<std::uint8_t>(size.codes, 0xA5)));
  const any_quantized_view made = cast_into(q, spec_of<mxfp4>, {codes, scales}, report);
  CHECK(made == cast(q, spec_of<mxfp4>, expected));
  CHECK((made.codes().data() == codes.data() && made.scale_bytes().data() == scales.data()));
  CHECK((report.noise == expected.noise && report.inexact_blocks == expected.inexact_blocks && report.blocks == 15));
}

TEST_CASE("cast rejects formats whose blocks have different numbers of rows") {
  const auto q = quantize<mxfp4>(matrix<float>(4, 64));
  CHECK(support::rejection([&] { (void)cast(q, spec_of<block_format<fp4<E2M1>, e4m3, square(16), float>>); }) ==
        "cast: both formats need blocks of as many rows, got 1 and 16");
}

TEST_CASE("nvfp4 becomes every format that has the values of E2M1 under e4m3 scales, without loss, for every scale") {
  const any_quantized nv = every_code(spec_of<nvfp4>, 0, 0x7E, 0.7f);
  cast_report report;
  for (const format_spec& to : {spec_of<tetrajet2>, spec_of<if4>, spec_of<razer>}) {
    const any_quantized out = checked(nv, to, report);
    CHECK(report.inexact_elements == 0);
    CHECK(out.tensor_scale() == (to.has_tensor_scale() ? 0.7f : 1.0f));
    if (to != spec_of<razer>)  // from the second row on: the scale of the first one is 0
      CHECK(std::equal(nv.codes().begin() + 8, nv.codes().end(), out.codes().begin() + 8));
    (void)checked(out, spec_of<nvfp4>, report);
    CHECK(report.inexact_elements == 0);
  }
  // A block of mixfp4 is E2M1 times 1/4, so the tensor scale is four times as large.
  CHECK(checked(nv, spec_of<mixfp4>, report).tensor_scale() == 4 * 0.7f);
  CHECK(report.inexact_elements == 0);
}

TEST_CASE("binary32 scales hold the products of block scales and scales of segments, and the reverse is not exact") {
  INFO(support::seed_note());
  support::hostile source(support::seed(2));
  std::vector<float> x(8 * 300);
  for (float& v : x) v = static_cast<float>(source.below(20001)) - 10000.5f;
  cast_report report;
  const any_quantized segments = quantize(spec_of<tetrajet2>, matrix_view<const float>{x.data(), 8, 300});
  (void)checked(segments, spec_of<e2m1_f32>, report);
  CHECK(report.inexact_elements == 0);
  (void)checked(segments, spec_of<nvfp4>, report);  // each of the 24 segments has another scale
  CHECK((report.inexact_blocks > 0 && report.sqnr_db() > 25));
}

TEST_CASE("if4 to nvfp4 keeps the blocks in E2M1 and reports the others, and to int4 those in integers") {
  INFO(support::seed_note());
  support::hostile source(support::seed(3));
  std::vector<float> x(16 * 160);
  for (float& v : x) v = static_cast<float>(source.below(20001)) - 10000.5f;
  const any_quantized q = quantize(spec_of<if4>, matrix_view<const float>{x.data(), 16, 160});
  std::uint64_t integers = 0;
  for (const std::byte scale : q.scale_bytes()) integers += static_cast<std::uint8_t>(scale) >> 7;
  REQUIRE((integers > 0 && integers < 160));
  cast_report report;
  (void)checked(q, spec_of<nvfp4>, report);
  CHECK(report.inexact_blocks == integers);
  (void)checked(q, spec_of<int4_f32>, report);
  CHECK(report.inexact_blocks == 160 - integers);
}

TEST_CASE("one-bit exponents are part of the scale of a block whose columns have equal ones") {
  std::vector<float> x(64);
  for (std::size_t i = 0; i < 64; ++i) x[i] = (i < 16 ? 7.0f : i < 32 ? 1.75f : 0.75f) - static_cast<float>(i % 2);
  const any_quantized q = quantize(spec_of<hif4>, matrix_view<const float>{x.data(), 1, 64});
  CHECK(q(0, 0) == 7.0f);
  cast_report report;
  const any_quantized out = checked(q, spec_of<e1m2_f32>, report);
  CHECK(out(0, 0) == 7.0f);
  CHECK(report.blocks == 4);
  CHECK(checked(q, spec_of<hif4>, report) == q);  // with its exponents
  CHECK(report.inexact_elements == 0);
}

TEST_CASE("the scale of a segment reaches every block of the matrix that the segment covers a part of") {
  std::vector<float> x(128, 0.125f);
  for (std::size_t i = 64; i < 128; ++i) x[i] = 100000.0f - static_cast<float>(i);
  const any_quantized q = quantize(spec_of<hif4>, matrix_view<const float>{x.data(), 1, 128});
  using segments_of_48 = block_format<fp4<E2M1>, e4m3, 16, per_segment<48, float>>;
  cast_report report;
  const any_quantized out = checked(q, spec_of<segments_of_48>, report);  // columns 48 to 95: parts of two blocks of q
  CHECK(out(0, 64) > 80000.0f);
  CHECK(report.sqnr_db() > 15);
}

TEST_CASE("a format whose outer scales are bf16 numbers is cast to itself with every bit") {
  const auto bf16_scales = [](outer_scale::kind span, int segment) {
    return outer_scale{.span = span, .type = scale_kind::bf16, .segment = segment};
  };
  std::vector<float> x(3 * 256);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::ldexp(static_cast<float>(static_cast<int>(i * 37 % 101) - 50), static_cast<int>(i / 96) - 3);
  for (const outer_scale& outer : {bf16_scales(outer_scale::kind::tensor, 0), bf16_scales(outer_scale::kind::row, 0),
                                   bf16_scales(outer_scale::kind::segment, 64)})
    for (const bool groups : {false, true}) {
      format_spec f = spec_of<nvfp4>;
      f.outer = outer;
      if (groups) f.block = grouped(64, 8);
      const any_quantized q = quantize(f, matrix_view<const float>{x.data(), 3, 256});
      cast_report report;
      CHECK(checked(q, f, report) == q);
      CHECK(report.inexact_elements == 0);
    }
}

TEST_CASE("cast rejects formats with elements of one byte") {
  const auto q = quantize<nvfp4>(matrix<float>(4, 64));
  const auto wide = quantize<mxint8>(matrix<float>(4, 64));
  const char* const message = "cast: a format with elements of one byte cannot be cast";
  CHECK(support::rejection([&] { (void)cast(q, spec_of<mxfp8_e4m3>); }) == message);
  CHECK(support::rejection([&] { (void)cast<nvfp4>(wide); }) == message);
}
