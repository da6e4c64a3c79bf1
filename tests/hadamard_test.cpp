// ufp4 - the Hadamard transform of a whole matrix.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"

#include <bit>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

using namespace ufp4;

namespace {

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

// Small integers: every sum of 256 of them is exact, whatever the order.
std::vector<float> integers(std::size_t count) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50);
  return x;
}

// c_n * sum over j of (-1)^popcount(i & j) * d_j * x_j, the sum exact in binary64.
float definition(const transform_spec& t, const float* run, std::size_t i, float factor) {
  double sum = 0;
  for (std::size_t j = 0; j < t.n; ++j) {
    const bool minus = (std::popcount(i & j) & 1) != 0;
    const bool flipped = (t.signs[j / 32] >> (j % 32) & 1u) != 0;
    sum += (minus != flipped ? -1.0 : 1.0) * static_cast<double>(run[j]);
  }
  return static_cast<float>(sum) * factor;
}

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("every row is padded with zeros and transformed run by run", "[hadamard]") {
  const transform_spec specs[] = {hadamard<16>{}.spec(), random_hadamard<32>{7}.spec(), random_hadamard<256>{9}.spec()};
  const float factors[] = {0.25f, std::bit_cast<float>(0x3E3504F3u), 0.0625f};
  for (std::size_t s = 0; s < 3; ++s)
    for (const std::size_t cols : {std::size_t{1}, std::size_t{16}, std::size_t{31}, std::size_t{300}}) {
      const std::size_t n = specs[s].n, padded = (cols + n - 1) / n * n, rows = 5;
      const std::vector<float> x = integers(rows * cols);
      std::vector<float> y(rows * padded, -1.0f);
      hadamard_forward(matrix_view<const float>{x.data(), rows, cols}, matrix_view<float>{y.data(), rows, padded},
                       specs[s]);
      for (std::size_t r = 0; r < rows; ++r) {
        std::vector<float> row(padded, 0.0f);
        for (std::size_t k = 0; k < cols; ++k) row[k] = x[r * cols + k];
        for (std::size_t k = 0; k < padded; ++k) {
          INFO("n " << n << ", cols " << cols << ", row " << r << ", column " << k);
          // Adding 0 makes the zero of a cancelled sum positive on both sides.
          REQUIRE(bits(y[r * padded + k] + 0.0f) ==
                  bits(definition(specs[s], &row[k / n * n], k % n, factors[s]) + 0.0f));
        }
      }
    }
}

TEST_CASE("the inverse restores integers exactly, in place, for n = 16, 64 and 256", "[hadamard]") {
  const transform_spec specs[] = {random_hadamard<16>{1}.spec(), hadamard<64>{}.spec(), random_hadamard<256>{3}.spec()};
  for (const transform_spec& t : specs) {
    const std::vector<float> x = integers(4 * 512);
    std::vector<float> y = x;
    const matrix_view<float> m{y.data(), 4, 512};
    hadamard_forward(m, m, t);
    REQUIRE(y != x);
    hadamard_inverse(m, m, t);
    REQUIRE(y == x);
  }
}

TEST_CASE("the inverse drops what was padding and writes nothing beyond", "[hadamard]") {
  const std::vector<float> x = integers(3 * 19);
  std::vector<float> wide(3 * 32), back(3 * 20, 777.0f);
  hadamard_forward(matrix_view<const float>{x.data(), 3, 19}, matrix_view<float>{wide.data(), 3, 32},
                   random_hadamard<16>{5});
  hadamard_inverse(matrix_view<const float>{wide.data(), 3, 32}, matrix_view<float>{back.data(), 3, 19, 20},
                   random_hadamard<16>{5});
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t k = 0; k < 19; ++k) REQUIRE(back[r * 20 + k] == x[r * 19 + k]);
    REQUIRE(back[r * 20 + 19] == 777.0f);
  }
}

TEST_CASE("a quantizer sees the transform that the operation gives", "[hadamard]") {
  const std::vector<float> x = integers(7 * 100);
  const random_hadamard<16> rht{11};
  std::vector<float> y(7 * 112);
  hadamard_forward(matrix_view<const float>{x.data(), 7, 100}, matrix_view<float>{y.data(), 7, 112}, rht);
  const auto fused = quantize<e1m2_f32>(matrix_view<const float>{x.data(), 7, 100}, rht);
  const auto apart = quantize<e1m2_f32>(matrix_view<const float>{y.data(), 7, 112});
  REQUIRE(std::vector<std::uint8_t>(fused.codes().begin(), fused.codes().end()) ==
          std::vector<std::uint8_t>(apart.codes().begin(), apart.codes().end()));
}

TEST_CASE("thread counts change no bit", "[hadamard]") {
  const std::vector<float> x = integers(300 * 512);
  std::vector<float> one(x.size()), many(x.size());
  const matrix_view<const float> m{x.data(), 300, 512};
  hadamard_forward(m, matrix_view<float>{one.data(), 300, 512}, random_hadamard<128>{2}, cpu::context{.threads = 1});
  hadamard_forward(m, matrix_view<float>{many.data(), 300, 512}, random_hadamard<128>{2}, cpu::context{.threads = 5});
  REQUIRE(one == many);
}

TEST_CASE("bad shapes are named before anything is written", "[hadamard]") {
  std::vector<float> x(2 * 20, 1.0f), y(2 * 32, 777.0f);
  const matrix_view<const float> in{x.data(), 2, 20};
  REQUIRE(message_of([&] { hadamard_forward(in, matrix_view<float>{y.data(), 2, 20}, hadamard<16>{}); }) ==
          "hadamard_forward: out has 20 columns, but 20 columns padded to runs of 16 are 32");
  REQUIRE(message_of([&] { hadamard_forward(in, matrix_view<float>{y.data(), 1, 32}, hadamard<16>{}); }) ==
          "hadamard_forward: out has 1 rows, but x has 2");
  REQUIRE(message_of([&] { hadamard_inverse(in, matrix_view<float>{y.data(), 2, 20}, hadamard<16>{}); }) ==
          "hadamard_inverse: x has 20 columns, but 20 columns padded to runs of 16 are 32");
  REQUIRE(message_of([&] {
            hadamard_forward(matrix_view<const float>{y.data(), 1, 32}, matrix_view<float>{y.data() + 1, 1, 32},
                             hadamard<16>{});
          }) == "hadamard_forward: out overlaps x without being the same matrix");
  REQUIRE(message_of([&] {
            std::array<int, 16> signs{};
            hadamard_forward(in, matrix_view<float>{y.data(), 2, 32}, signed_hadamard<16>(signs));
          }) == "hadamard_forward: signed_hadamard was given a sign that is neither +1 nor -1");
  for (const float v : y) REQUIRE(v == 777.0f);
}
