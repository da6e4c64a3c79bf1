// ufp4 - tests: MS-EDEN, blocks of 16 x 16 and NF4 have the bits of the code of their authors.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <ufp4/ufp4.hpp>
#include <vector>

#include "recipe_vectors.hpp"
#include "support/catch.hpp"
#include "support/philox.hpp"

namespace {

using namespace ufp4;
namespace rv = recipe_vectors;

/// 16 codes, element k in bits 4 k to 4 k + 3, from the word'th sixteen of q on.
template <class Quantized>
std::uint64_t codes_of(const Quantized& q, std::size_t word) {
  std::uint64_t codes = 0;
  for (std::size_t k = 0; k < 8; ++k) codes |= std::uint64_t{q.codes()[8 * word + k]} << (8 * k);
  return codes;
}

/// u rounded to one of its e4m3 neighbours by steps 1 to 3 of section 3 of docs/numerics.md, for 0 < u < 448.
/// Not `decided` if the random bits are within 8 of where the other neighbour begins.
struct rounded_scale {
  int code;
  bool decided;
};
rounded_scale stochastic_scale(double u, std::uint32_t random_bits) {
  const auto value = [](int code) {  // of E4M3FN
    return code < 8 ? std::ldexp(code, -9) : std::ldexp(8 + code % 8, code / 8 - 10);
  };
  int low = 0;
  while (value(low + 1) <= u) ++low;
  const double share = (u - value(low)) / (value(low + 1) - value(low));
  const double sum = std::floor(share * 65536 + 0.5) + random_bits;
  return {sum >= 65536 ? low + 1 : low, std::abs(sum - 65536) > 8};
}

constexpr std::size_t te_size = rv::te_2d_rows * rv::te_2d_cols, te_blocks = te_size / 256;

/// Quantizes every matrix of te_2d in blocks of 16 x 16 and compares codes and scales.
template <class... Policies>
void check_te_2d(std::span<const std::uint64_t> codes, std::span<const std::uint8_t> scales,
                 const Policies&... policies) {
  using nvfp4_square = block_format<fp4<E2M1>, e4m3, square(16), float>;
  for (std::size_t m = 0; m < rv::te_2d_matrices; ++m) {
    std::vector<float> x;
    for (std::size_t i = 0; i < te_size; ++i) x.push_back(std::bit_cast<float>(rv::te_2d_inputs[m * te_size + i]));
    const auto q =
        quantize<nvfp4_square>(matrix_view<const float>{x.data(), rv::te_2d_rows, rv::te_2d_cols}, policies...);
    for (std::size_t b = 0; b < te_blocks; ++b) REQUIRE(q.scales()[b].bits() == scales[m * te_blocks + b]);
    for (std::size_t w = 0; w < te_size / 16; ++w) {
      CAPTURE(m, w);
      REQUIRE(codes_of(q, w) == codes[m * te_size / 16 + w]);
    }
  }
}

}  // namespace

TEST_CASE(
    "quantize_ms_eden has the codes of Quartet II's kernel, and the scales of its correction and our random bits") {
  constexpr std::size_t size = rv::eden_rows * rv::eden_cols, blocks = size / 16;
  const hadamard<256> transform;  // exact for these numbers, and its own inverse
  const stochastic random_bits{.seed = 20261127, .stream = 5};
  for (std::size_t m = 0; m < rv::eden_matrices; ++m) {
    std::vector<float> y, z(size), again(size);
    for (std::size_t i = 0; i < size; ++i)
      y.push_back(std::bit_cast<float>(std::uint32_t{rv::eden_inputs[m * size + i]} << 16));
    const auto view = [](std::vector<float>& v) { return matrix_view<float>{v.data(), rv::eden_rows, rv::eden_cols}; };
    hadamard_inverse(matrix_view<const float>(view(y)), view(z), transform);
    hadamard_forward(matrix_view<const float>(view(z)), view(again), transform);
    REQUIRE(again == y);

    const auto q = quantize_ms_eden(matrix_view<const float>(view(z)), transform, random_bits);
    const double theirs = std::bit_cast<float>(rv::eden_tensor_scales[m]), ours = q.tensor_scale();
    CHECK(std::abs(ours * 256 / (theirs * 255.99) - 1) < 1e-6);  // their largest scale is 255.99
    std::size_t undecided = 0;
    for (std::size_t b = 0; b < blocks; ++b) {
      CAPTURE(m, b);
      const std::size_t at = m * blocks + b;
      REQUIRE(codes_of(q, b) == rv::eden_codes[at]);
      if (rv::eden_scales[at] == 0) {
        CHECK(q.scales()[b].bits() == 0);
        continue;
      }
      const double corrected = std::bit_cast<float>(rv::eden_corrected[at]);
      const auto r = model::random_word(random_bits.seed, random_bits.stream, 16 * b);
      const rounded_scale expected = stochastic_scale(corrected * theirs / ours, r);
      if (expected.decided)
        CHECK(q.scales()[b].bits() == expected.code);
      else
        ++undecided;
    }
    CHECK(undecided < 3);
  }
}

TEST_CASE("NF4 in blocks of 64 has the codes and scales of bitsandbytes") {
  using nf4_64 = block_format<nf4, float, 64>;
  constexpr std::size_t size = rv::nf4_rows * rv::nf4_cols;
  for (std::size_t m = 0; m < rv::nf4_matrices; ++m) {
    std::vector<float> x;
    for (std::size_t i = 0; i < size; ++i) x.push_back(std::bit_cast<float>(rv::nf4_inputs[m * size + i]));
    const auto q = quantize<nf4_64>(matrix_view<const float>{x.data(), rv::nf4_rows, rv::nf4_cols});
    for (std::size_t b = 0; b < size / 64; ++b)
      REQUIRE(std::bit_cast<std::uint32_t>(q.scales()[b]) == rv::nf4_scales[m * size / 64 + b]);
    for (std::size_t w = 0; w < size / 16; ++w) {
      CAPTURE(m, w);
      REQUIRE(codes_of(q, w) == rv::nf4_codes[m * size / 16 + w]);
    }
  }
}

TEST_CASE("nvfp4 in blocks of 16 x 16 has the codes and scales of Transformer Engine's reference") {
  check_te_2d(rv::te_2d_nvfp4_codes, rv::te_2d_nvfp4_scales);
}

TEST_CASE("four_over_six in blocks of 16 x 16 has the codes and scales of Transformer Engine's 4over6") {
  check_te_2d(rv::te_2d_mae_codes, rv::te_2d_mae_scales, four_over_six{search_error::absolute});
  check_te_2d(rv::te_2d_mse_codes, rv::te_2d_mse_scales, four_over_six{});
}
