// ufp4 - tests: NVINT4 and Four Over Six have the bits of their authors' code.
// SPDX-License-Identifier: Apache-2.0
#include "author_vectors.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <ufp4/ufp4.hpp>
#include <vector>

#include "support/catch.hpp"

namespace {

using namespace ufp4;
namespace av = author_vectors;

/// Quantizes every matrix with `policies` and compares codes and scales with those of the vectors.
template <class Preset, class... Policies>
void check(std::span<const std::uint64_t> codes, std::span<const std::uint8_t> scales, const Policies&... policies) {
  constexpr std::size_t size = av::rows * av::cols, blocks = size / 16;
  for (std::size_t m = 0; m < av::matrices; ++m) {
    std::vector<float> x(size);
    for (std::size_t i = 0; i < size; ++i) x[i] = std::bit_cast<float>(av::inputs[m * size + i]);
    const auto q = quantize<Preset>(matrix_view<const float>{x.data(), av::rows, av::cols}, policies...);
    for (std::size_t b = 0; b < blocks; ++b) {
      CAPTURE(m, b);
      std::uint64_t word = 0;
      for (std::size_t k = 0; k < 8; ++k) word |= std::uint64_t{q.codes()[8 * b + k]} << (8 * k);
      REQUIRE(q.scales()[b].bits() == scales[m * blocks + b]);
      REQUIRE(word == codes[m * blocks + b]);
    }
  }
}

constexpr auto squared = search_error::squared, absolute = search_error::absolute;

}  // namespace

TEST_CASE("nvint4 has the codes and scales of fouroversix's nvint4") {
  check<nvint4>(av::fouroversix_nvint4_codes, av::fouroversix_nvint4_scales);
}

TEST_CASE("nvfp4 has the codes and scales of fouroversix with ScaleRule.static_6") {
  check<nvfp4>(av::fouroversix_nvfp4_codes, av::fouroversix_nvfp4_scales);
}

TEST_CASE("compat::fouroversix_nvfp4 has the codes and scales of fouroversix with ScaleRule.mse and mae") {
  check<compat::fouroversix_nvfp4<squared>>(av::fouroversix_mse_codes, av::fouroversix_mse_scales);
  check<compat::fouroversix_nvfp4<absolute>>(av::fouroversix_mae_codes, av::fouroversix_mae_scales);
}

TEST_CASE("compat::te_nvfp4_four_over_six has the codes and scales of Transformer Engine's 4over6") {
  check<compat::te_nvfp4_four_over_six<absolute, 256>>(av::te_mae_256_codes, av::te_mae_256_scales);
  check<compat::te_nvfp4_four_over_six<squared, 256>>(av::te_mse_256_codes, av::te_mse_256_scales);
  check<compat::te_nvfp4_four_over_six<absolute, 448>>(av::te_mae_448_codes, av::te_mae_448_scales);
  check<compat::te_nvfp4_four_over_six<squared, 448>>(av::te_mse_448_codes, av::te_mse_448_scales);
}

TEST_CASE("compat Four Over Six: the order of the sum of errors and the tie decide as in each project") {
  // A block whose errors under 4 and 6 are equal takes 6: 1 becomes 6 or 4, both exact.
  const std::vector<float> x = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1};
  const matrix_view<const float> view{x.data(), 1, 16};
  const auto usual = quantize<compat::te_nvfp4_four_over_six<>>(view);
  CHECK(usual.scales()[0].bits() == 0x78);  // 256
  const auto authors = quantize<compat::fouroversix_nvfp4<>>(view);
  CHECK(authors.scales()[0].bits() == 0x78);
  const auto with_448 = quantize<compat::te_nvfp4_four_over_six<absolute, 448>>(view);
  CHECK(with_448.scales()[0].bits() == 0x7E);  // both saturate
  // A scale that underflows: Transformer Engine has the codes of x * FLT_MAX, fouroversix has zeros.
  std::vector<float> two(32, 0.0f);
  two[0] = 3, two[16] = 1e-7f, two[17] = -1e-7f;
  const matrix_view<const float> vanishing{two.data(), 2, 16};
  const auto te = quantize<compat::te_nvfp4_four_over_six<>>(vanishing);
  CHECK((te.codes()[8] == 0xF7 && te.scales()[1].bits() == 0));
  const auto mit = quantize<compat::fouroversix_nvfp4<>>(vanishing);
  CHECK((mit.codes()[8] == 0 && mit.scales()[1].bits() == 0));
}
