// ufp4 - quantized_gemm with elements of one byte: the bits of numerics 6 and the bounds, on every tier; rejections.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/explain.hpp>
#include <ufp4/gemm.hpp>
#include <ufp4/gemm_grouped.hpp>
#include <ufp4/matrix/preset_names.hpp>

#include "support/catch.hpp"
#include "support/fast_cases.hpp"
#include "support/format_pairs.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

#include <cmath>
#include <string>
#include <vector>

using namespace ufp4;

namespace {

/// The product by every tier: C of exact_blocks against the model's bits, the other modes against their bounds.
template <class A, class B>
void check(const quantized_matrix<A>& a, const quantized_matrix<B>& b) {
  const std::size_t m = a.rows(), n = b.rows();
  const std::vector<float> exact = model::exact_blocks(model::side_of(a), model::side_of(b), -2.5f);
  const support::product_bound bound(a, b);
  for (const cpu::isa tier : support::runnable_isas())
    for (const accumulate mode : {accumulate::exact_blocks, accumulate::fast, accumulate::folded_bf16}) {
      const cpu::context ctx{.threads = 1, .isa = tier};
      const gemm_options options{.alpha = -2.5f, .accumulate = mode};
      support::guarded<float> c(m * n);
      const matrix_view<float> out{c.data(), m, n};
      CAPTURE(m, n, a.cols(), cpu::explain(a, b, out, options, ctx).text());
      quantized_gemm(a, b, out, options, ctx);
      if (mode == accumulate::exact_blocks)
        REQUIRE(support::same_numbers(c.span(), exact));
      else
        REQUIRE(bound.broken_by({c.data(), c.size()}, options, exact) == "");
      REQUIRE(c.guards_intact());
      if constexpr (!B::has_bytes)
        if (mode == accumulate::exact_blocks) {
          quantized_gemm(a, prepack(b), out, options, ctx);
          REQUIRE(support::same_numbers(c.span(), exact));
        }
    }
}

template <class A, class B>
void check_shapes() {
  INFO(support::seed_note());
  INFO((support::pair_text<A, B>()));
  std::mt19937_64 gen{support::seed(sizeof(typename A::scale_type) * 16 + sizeof(typename B::scale_type))};
  const std::size_t rows[] = {1, 2, 4, 9, 19, 40}, cols[] = {33, 5, 16, 70, 3, 17};
  const std::size_t depths[] = {300, 1, 48, 130, 1040, 15};
  for (std::size_t i = 0; i < 6; ++i)
    check(model::random_quantized<A>(gen, rows[i], depths[i], model::scales::ordinary, 0x1.8p-7f),
          model::random_quantized<B>(gen, cols[i], depths[i], model::scales::ordinary, 0x1.333334p+3f));
}

matrix<float> normal_matrix(std::uint64_t seed, std::size_t rows, std::size_t cols) {
  std::mt19937_64 gen{seed};
  matrix<float> x(rows, cols);
  for (std::size_t i = 0; i < rows * cols; ++i)
    x.data()[i] = static_cast<float>(model::uniform(gen) + model::uniform(gen) + model::uniform(gen)) - 1.5f;
  return x;
}

bool same_bits(const matrix<float>& a, const matrix<float>& b) {
  return support::same_numbers({a.data(), a.rows() * a.cols()}, {b.data(), b.rows() * b.cols()});
}

}  // namespace

TEST_CASE(
    "a product with elements of one byte has the bits of section 6 in exact_blocks and keeps the bounds otherwise",
    "[wide]") {
  const auto check_this = []<class Pair>(Pair) { check_shapes<typename Pair::left, typename Pair::right>(); };
  SECTION("8-bit activations, weights of 4 bits") { support::pairs_of_wide_left(check_this); }
  SECTION("elements of one byte on the right") { support::pairs_of_wide_right(check_this); }
}

TEST_CASE("hostile scales of operands of one byte give the bits of section 6", "[wide]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(3)};
  const auto compare = [&]<class A, class B>(support::format_pair<A, B>) {
    INFO((support::pair_text<A, B>()));
    const auto a = model::random_quantized<A>(gen, 9, 200, model::scales::hostile);
    const auto b = model::random_quantized<B>(gen, 21, 200, model::scales::hostile);
    const std::vector<float> want = model::exact_blocks(model::side_of(a), model::side_of(b));
    for (const cpu::isa tier : support::runnable_isas()) {
      CAPTURE(cpu::name(tier));
      support::guarded<float> c(9 * 21);
      quantized_gemm(a, b, matrix_view<float>{c.data(), 9, 21}, {.accumulate = accumulate::exact_blocks},
                     cpu::context{.threads = 1, .isa = tier});
      REQUIRE(support::same_numbers(c.span(), want));
    }
  };
  compare(support::format_pair<int8_f32, e2m1_f32>{});
  compare(support::format_pair<mxint8, mxfp4>{});
  compare(support::format_pair<mxint8, mxint8>{});
}

TEST_CASE("-128 comes from bits alone and multiplies as -128", "[wide]") {
  quantized_matrix<int8_f32> a(3, 32), b(2, 32);
  quantized_matrix<int4_f32> w(18, 32);
  for (auto* q : {&a, &b}) {
    for (auto& byte : q->codes()) byte = 0x80;
    for (auto& s : q->scales()) s = 1;
  }
  for (auto& byte : w.codes()) byte = 0x88;  // -8
  for (auto& s : w.scales()) s = 1;
  for (const cpu::isa tier : support::runnable_isas()) {
    CAPTURE(cpu::name(tier));
    matrix<float> c(3, 18), d(3, 2);
    quantized_gemm(a, w, c, cpu::context{.isa = tier});
    quantized_gemm(a, b, d, cpu::context{.isa = tier});
    for (std::size_t i = 0; i < 3 * 18; ++i) REQUIRE(c.data()[i] == 128.0f * 8 * 32);
    for (std::size_t i = 0; i < 3 * 2; ++i) REQUIRE(d.data()[i] == 128.0f * 128 * 32);
  }
  CHECK(dequantize(a)(2, 31) == -128.0f);
  CHECK(a(1, 7) == -128.0f);
}

TEST_CASE("quantized in the call, in a group, or as run-time formats, activations of one byte give the same bits",
          "[wide]") {
  const matrix<float> x = normal_matrix(1, 13, 96), w = normal_matrix(2, 40, 96);
  const random_hadamard<32> rht{7};
  const auto qx = quantize<int8_f32>(x, rht);
  const auto qw = quantize<nvfp4>(w, rht);
  matrix<float> want(13, 40), in_call(13, 40), at_run_time(13, 40), packed(13, 40), grouped(13, 40);
  quantized_gemm(qx, qw, want);
  quantized_gemm(operand<int8_f32>(x, rht), qw, in_call);
  quantized_gemm(quantize(preset("int8_f32"), x, rht), quantize(preset("nvfp4"), w, rht), at_run_time);
  quantized_gemm(qx, prepack(qw), packed);
  const std::vector<quantized_view<int8_f32>> rows{row_range(qx, 0, 5), row_range(qx, 5, 8)};
  const std::vector<quantized_view<nvfp4>> weights(2, qw.view());
  quantized_gemm_grouped(rows, weights,
                         std::vector<matrix_view<float>>{row_range(grouped, 0, 5), row_range(grouped, 5, 8)});
  CHECK(same_bits(in_call, want));
  CHECK(same_bits(at_run_time, want));
  CHECK(same_bits(packed, want));
  CHECK(same_bits(grouped, want));
}

TEST_CASE("col_range and row_range of a matrix of one-byte elements are those columns and rows", "[wide]") {
  const auto q = quantize<mxint8>(normal_matrix(3, 6, 128));
  const auto part = col_range(row_range(q, 2, 3), 32, 64);
  REQUIRE((part.rows() == 3 && part.cols() == 64 && part.codes().size() == 3 * 64));
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t k = 0; k < 64; ++k) REQUIRE(part(i, k) == q(i + 2, k + 32));
}

TEST_CASE("the codes of square blocks of one-byte elements transpose", "[wide]") {
  using squares = block_format<ufp4::int8, float, square(16)>;
  const matrix<float> x = normal_matrix(4, 20, 40);
  CHECK(transpose(quantize<squares>(x)) == quantize<squares>(transpose(x)));
}

TEST_CASE("storage of one-byte elements is a byte each, and preset names know them", "[wide]") {
  CHECK(storage_size(preset("mxint8"), 3, 33).codes == 3 * 64);
  CHECK(storage_size(preset("int8_f32"), 3, 33).codes == 3 * 48);
  CHECK(int8_f32::bits_per_element == 10.0);
  CHECK(mxint8::bits_per_element == 8.25);
  ufp4::detail::for_each_row(ufp4::detail::byte_presets{}, [](auto row) {
    CHECK(ufp4::detail::preset_name(row.spec) == row.name);
    CHECK(preset(row.name) == row.spec);
    CHECK(row.spec.has_bytes());
  });
  CHECK(ufp4::detail::preset_names().find(", int8_f32, mxint8") != std::string_view::npos);
}

TEST_CASE("what does not take elements of one byte rejects them before it writes", "[wide]") {
  const auto q = quantize<int8_f32>(normal_matrix(5, 2, 32));
  CHECK(support::rejection([&] { prepack(q); }) ==
        "prepacked_matrix: formats with elements of one byte are not prepacked: use the quantized matrix");
  CHECK(support::rejection([&] { prepacked_size(preset("mxint8"), 2, 32); }) ==
        "prepacked_size: formats with elements of one byte are not prepacked: use the quantized matrix");
  format_spec broken = preset("int8_f32");
  broken.grid.unit = 3;
  CHECK(support::rejection([&] { storage_size(broken, 2, 32); }) ==
        "storage_size: a format with elements of one byte needs the grid of its element type, as grid_of<int8>()");
  broken = preset("int8_f32");
  broken.byte = static_cast<ufp4::detail::byte_element>(9);
  CHECK(support::rejection([&] { storage_size(broken, 2, 32); }) ==
        "storage_size: format_spec::byte has an invalid value");
  broken.byte = ufp4::detail::byte_element::none;
  CHECK(support::rejection([&] { storage_size(broken, 2, 32); }) ==
        "storage_size: the format has no values; spec_of<nvfp4> is one that has");
}

TEST_CASE("fast keeps its bound for mxfp8_e5m2 where the product of two scales is subnormal", "[gemm]") {
  matrix<float> x(2, 64), c(2, 2);
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t k = 0; k < 64; ++k) x(i, k) = 57344 * 0x1p-76f;
  const auto q = quantize<mxfp8_e5m2>(x);
  REQUIRE(q(1, 63) == x(1, 63));
  const double e = 64 * std::pow(57344 * 0x1p-76, 2);
  for (const cpu::isa tier : cpu::all_isas) {
    if (!cpu::available().has(tier)) continue;
    CAPTURE(cpu::name(tier));
    quantized_gemm(q, q, c, {}, cpu::context{.isa = tier});
    CHECK(std::abs(static_cast<double>(c(1, 1)) - e) <= 70 * 0x1p-24 * e + 64 * 0x1p-126);
  }
}
