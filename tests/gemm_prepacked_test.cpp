// ufp4 - prepack: the promised layout, and the bits of the product with the matrix it was made from.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/gemm.hpp>

#include "support/catch.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

#include <algorithm>
#include <type_traits>
#include <vector>

using namespace ufp4;

namespace {

/// Product with B and with B prepacked: the same bytes, in every mode.
template <class A, class B>
void same_product(const cpu::context& ctx, const A& a, const quantized_matrix<B>& b) {
  CAPTURE(a.rows(), b.rows(), b.cols(), cpu::name(ctx.isa));
  const auto packed = prepack(b, ctx);
  for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks, accumulate::folded_bf16}) {
    support::guarded<float> c(a.rows() * b.rows()), d(a.rows() * b.rows());
    quantized_gemm(a, b, matrix_view<float>{c.data(), a.rows(), b.rows()}, {.accumulate = mode}, ctx);
    quantized_gemm(a, packed, matrix_view<float>{d.data(), a.rows(), b.rows()}, {.accumulate = mode}, ctx);
    REQUIRE(c.same_bytes(d.span()));
    REQUIRE(d.guards_intact());
  }
}

}  // namespace

TEST_CASE("a prepacked matrix holds eight codes of sixteen rows side by side, and sixteen scales", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(0)};
  const auto q = model::random_quantized<nvfp4>(gen, 37, 90, model::scales::ordinary, 0x1.8p-3f);
  const auto p = prepack(q);
  REQUIRE((p.rows() == 37 && p.cols() == 90 && p.padded_cols() == 96 && p.panels() == 3));
  REQUIRE(p.tensor_scale() == 0x1.8p-3f);
  REQUIRE((p.codes().size() == 48 * 48 && p.scales().size() == 48 * 6));
  bool codes = true, scales = true;
  for (std::size_t i = 0; i < 48; ++i) {
    for (std::size_t k = 0; k < 96; k += 2) {
      const std::size_t at = i / 16 * (96 * 8) + k / 8 * 64 + i % 16 * 4 + k % 8 / 2;
      codes = codes && p.codes()[at] == (i < 37 ? q.codes()[i * 48 + k / 2] : 0);
    }
    for (std::size_t b = 0; b < 6; ++b)
      scales =
          scales && p.scales()[i / 16 * 96 + b * 16 + i % 16].bits() == (i < 37 ? q.scales()[i * 6 + b].bits() : 0);
  }
  REQUIRE(codes);
  REQUIRE(scales);
}

TEST_CASE("a row of a prepacked matrix is read back in the canonical layout", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  const auto check = [](const auto& q) {
    using F = typename std::remove_cvref_t<decltype(q)>::format;
    const auto p = prepack(q);
    const std::size_t bytes = q.padded_cols() / 2, blocks = q.padded_cols() / F::block_size;
    const detail::prepacked_layout layout{q.padded_cols(), blocks};
    REQUIRE(p.codes().size() == layout.code_bytes(q.rows()));
    REQUIRE(p.scales().size() == layout.scale_count(q.rows()));
    REQUIRE(unpack(p) == q);
    for (std::size_t i = 0; i < q.rows(); ++i) {
      const std::uint8_t* codes = q.codes().data() + i * bytes;
      for (std::size_t k = 0; k < q.padded_cols(); ++k)
        REQUIRE(layout.code(p.codes().data(), i, k) == (k % 2 == 0 ? codes[k / 2] & 15 : codes[k / 2] >> 4));
    }
  };
  check(model::random_quantized<nvfp4>(gen, 37, 90));
  check(model::random_quantized<block_format<int4, ue5m3, square(16), float>>(gen, 33, 50));
  check(model::random_quantized<block_format<fp4<E1M2>, float, 4>>(gen, 5, 12));
}

TEST_CASE("a product with prepacked weights has the bits of the product with the weights", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  for (const cpu::isa tier : support::runnable_isas())
    for (const std::size_t n : {1u, 15u, 16u, 17u, 40u}) {
      const cpu::context ctx{.threads = 2, .isa = tier};
      const auto a = model::random_quantized<nvint4>(gen, 9, 90, model::scales::ordinary, 0x1.9p-4f);
      same_product(ctx, a, model::random_quantized<nvfp4>(gen, n, 90));
      same_product(ctx, a, model::random_quantized<e1m2_f32>(gen, n, 90, model::scales::hostile));
      same_product(ctx, a, model::random_quantized<block_format<nf4, bf16, 16>>(gen, n, 90));
      same_product(ctx, a, model::random_quantized<block_format<int4, ue5m3, square(16), float>>(gen, n, 90));
      const auto b = model::random_quantized<mxfp4>(gen, 3, 600);
      same_product(ctx, b, model::random_quantized<mx_e1m2>(gen, n, 600));
      const std::vector<float> x = model::wide_floats(gen, 5 * 600);
      same_product(ctx, matrix_view<const float>{x.data(), 5, 600}, model::random_quantized<mxint4>(gen, n, 600));
      for (const std::size_t k : {2u, 6u, 10u}) {  // shorter than the eight codes of a word
        const auto tiny = model::random_quantized<block_format<fp4<E2M1>, e4m3, 2>>(gen, 4, k);
        same_product(ctx, tiny, model::random_quantized<block_format<fp4<E3M0>, float, 2>>(gen, n, k));
      }
    }
}

TEST_CASE("one row by prepacked weights has the bits of one row by the weights", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  for (const cpu::isa tier : support::runnable_isas()) {
    const cpu::context ctx{.threads = 2, .isa = tier};
    for (const std::size_t n : {1u, 16u, 37u, 300u})
      for (const std::size_t k : {16u, 100u, 128u, 1300u}) {  // within a chunk of 128, one, and several with a rest
        const auto a = model::random_quantized<nvint4>(gen, 1, k, model::scales::hostile, 0x1.9p-4f);
        same_product(ctx, a, model::random_quantized<nvfp4>(gen, n, k));
        same_product(ctx, a, model::random_quantized<e1m2_f32>(gen, n, k, model::scales::hostile));
        const auto b = model::random_quantized<mxfp4>(gen, 1, k);
        same_product(ctx, b, model::random_quantized<mxfp4>(gen, n, k, model::scales::hostile));
        same_product(ctx, b, model::random_quantized<mx_e1m2>(gen, n, k));
      }
  }
}

TEST_CASE("prepacked weights keep their transform and their errors", "[gemm]") {
  const std::vector<float> ones(64 * 64, 1.0f);
  const matrix_view<const float> x{ones.data(), 64, 64};
  const auto q = quantize<e1m2_f32>(x, random_hadamard<16>{1});
  const auto p = prepack(q);
  std::vector<float> c(64 * 64), d(64 * 64);
  const matrix_view<float> out{c.data(), 64, 64};
  quantized_gemm(operand<e1m2_f32>(x, random_hadamard<16>{1}), p, out);
  quantized_gemm(q, q, matrix_view<float>{d.data(), 64, 64});
  CHECK(c == d);
  CHECK(support::rejection([&] { quantized_gemm(quantize<e1m2_f32>(x), p, out); }) ==
        "quantized_gemm: transform mismatch: A has none, B has hadamard<16>");
  auto codes = p;
  const matrix_view<float> inside{reinterpret_cast<float*>(codes.codes().data()), 2, 64};
  CHECK(support::rejection([&] {
          quantized_gemm(operand<e1m2_f32>(matrix_view<const float>{ones.data(), 2, 64}, random_hadamard<16>{1}), codes,
                         inside);
        }) == "quantized_gemm: C overlaps the codes of B");
  const prepacked_matrix<nvfp4> none = prepack(quantized_matrix<nvfp4>(0, 64));
  CHECK((none.panels() == 0 && none.codes().empty() && none.scales().empty()));
}

TEST_CASE("ranges, elements and dequantize of a prepacked matrix are those of the matrix, as types and as data",
          "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(7)};
  const auto q = model::random_quantized<mxfp4>(gen, 37, 100);
  const auto p = prepack(q);
  const any_prepacked any = prepack(any_quantized_view(q));
  CHECK(unpack(row_range(p, 5, 20)) == row_range(q, 5, 20));
  CHECK(unpack(col_range(p, 32, 68)) == col_range(q, 32, 68));
  CHECK(unpack(any) == q);
  CHECK(unpack(row_range(any, 16, 21)) == row_range(q, 16, 21));
  const matrix<float> want = dequantize(q), got = dequantize(p);
  for (std::size_t i = 0; i < 37; ++i)
    for (std::size_t k = 0; k < 100; ++k) {
      REQUIRE(model::bits_of(got(i, k)) == model::bits_of(want(i, k)));
      REQUIRE(model::bits_of(p(i, k)) == model::bits_of(want(i, k)));
      REQUIRE(model::bits_of(any(i, k)) == model::bits_of(want(i, k)));
    }
  matrix<float> x(3, 100), c(3, 37), d(3, 37);
  for (std::size_t i = 0; i < 300; ++i) x.data()[i] = static_cast<float>(i % 11) - 5;
  quantized_gemm(x, p, c);
  quantized_gemm(x, any, d);
  CHECK(detail::same_bytes(c.data(), d.data(), 3 * 37 * sizeof(float)));
  CHECK(support::rejection([&] { p(37, 0); }) == "element (37, 0) of a prepacked matrix of 37 x 100");
}

TEST_CASE("prepack_into fills the caller's memory with the bytes of prepack, and its view multiplies alike", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(7)};
  const auto a = model::random_quantized<nvfp4>(gen, 5, 90), b = model::random_quantized<nvfp4>(gen, 37, 90);
  const auto expected = prepack(b);
  const ufp4::quantized_storage::size size = prepacked_size(b.spec(), 37, 90);
  support::guarded<std::uint8_t> codes(size.codes);
  support::guarded<std::byte> scales(size.scales);
  const auto view = prepack_into(b, {codes.span(), scales.span()});
  REQUIRE((codes.guards_intact() && scales.guards_intact()));
  REQUIRE(std::equal(codes.begin(), codes.end(), expected.codes().begin(), expected.codes().end()));
  REQUIRE(std::equal(scales.begin(), scales.end(), expected.scale_bytes().begin(), expected.scale_bytes().end()));
  REQUIRE((view(36, 89) == expected(36, 89) && view.tensor_scale() == b.tensor_scale()));
  matrix<float> c(5, 37), d(5, 37);
  quantized_gemm(a, expected, c);
  quantized_gemm(a, view, d);
  REQUIRE(std::equal(c.data(), c.data() + 5 * 37, d.data()));
  REQUIRE(dequantize(view)(36, 89) == expected(36, 89));

  REQUIRE(support::rejection([&] { prepack_into(b, {codes.span().first(8), scales.span()}); }) ==
          "prepack_into: codes has 8 bytes, but 37 x 90 prepacked elements need 2304");
  REQUIRE(support::rejection([&] { prepack_into(b, {codes.span(), scales.span().first(8)}); }) ==
          "prepack_into: scales has 8 bytes, but 37 x 90 prepacked elements need 288");
  const std::span<std::byte> overlapping = std::as_writable_bytes(codes.span()).first(size.scales);
  REQUIRE(support::rejection([&] { prepack_into(b, {codes.span(), overlapping}); }) ==
          "prepack_into: codes overlaps scales");
}
