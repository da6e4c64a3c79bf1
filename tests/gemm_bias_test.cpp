// ufp4 - quantized_gemm's bias: added after scaling and before beta * C, one rounding, whichever way round C is made.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/gemm.hpp>

#include "support/catch.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

#include <vector>

using namespace ufp4;

TEST_CASE("out = fma(beta, C, fl(scaled + bias)), in every type and shape of C", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(0)};
  struct shape {
    std::size_t m, n;
  };
  for (const cpu::isa tier : support::runnable_isas())
    for (const shape s : {shape{1, 1}, {3, 70}, {70, 3}, {200, 1}, {65, 65}}) {
      CAPTURE(cpu::name(tier), s.m, s.n);
      const auto a = model::random_quantized<nvfp4>(gen, s.m, 90, model::scales::ordinary, 0x1.9p-5f);
      const auto b = model::random_quantized<nvint4>(gen, s.n, 90, model::scales::ordinary, 0x1.2345p-3f);
      const std::vector<float> bias = model::wide_floats(gen, s.n), before = model::wide_floats(gen, s.m * s.n);
      const std::vector<float> scaled = model::exact_blocks(model::side_of(a), model::side_of(b), -0.3f);
      for (const float beta : {0.0f, 0.7f}) {
        support::guarded<float> c(s.m * s.n);
        for (std::size_t i = 0; i < c.size(); ++i) c[i] = before[i];
        quantized_gemm(a, b, matrix_view<float>{c.data(), s.m, s.n},
                       {.alpha = -0.3f, .beta = beta, .accumulate = accumulate::exact_blocks, .bias = bias},
                       cpu::context{.threads = 1, .isa = tier});
        bool equal = true;
        for (std::size_t i = 0; i < c.size(); ++i) {
          const float with = model::fl(static_cast<model::wide>(scaled[i]) + static_cast<model::wide>(bias[i % s.n]));
          equal = equal && c[i] == (beta == 0 ? with : model::fma(beta, before[i], with));
        }
        REQUIRE(equal);
        REQUIRE(c.guards_intact());
      }
    }
}

TEST_CASE("a bias of another length, or inside C, is rejected", "[gemm]") {
  std::vector<float> x(64, 1.0f), c(12);
  const auto a = quantize<nvfp4>(matrix_view<const float>{x.data(), 4, 16});
  const auto b = quantize<nvfp4>(matrix_view<const float>{x.data(), 3, 16});
  const matrix_view<float> out{c.data(), 4, 3};
  const auto rejection = [&](std::span<const float> bias) {
    return support::rejection([&] { quantized_gemm(a, b, out, {.bias = bias}); });
  };
  CHECK(rejection({x.data(), 4}) == "quantized_gemm: shape mismatch: bias has 4 entries, C has 3 columns");
  CHECK(rejection({c.data() + 9, 3}) == "quantized_gemm: C overlaps bias");
  CHECK(rejection({x.data(), 3}).empty());
}

TEST_CASE("a bias without entries adds nothing, wherever it points", "[gemm]") {
  std::vector<float> x(48, 1.0f), bias(3, 100.0f), with(9), without(9);
  const auto a = quantize<nvfp4>(matrix_view<const float>{x.data(), 3, 16});
  quantized_gemm(a, a, matrix_view<float>{with.data(), 3, 3}, {.bias = std::span<const float>(bias).first(0)});
  quantized_gemm(a, a, matrix_view<float>{without.data(), 3, 3});
  CHECK(with == without);
}
