// ufp4 - the operations read bf16, fp16 and a user's own 16-bit types as the numbers they hold.
// SPDX-License-Identifier: Apache-2.0
#include "support/formats.hpp"
#include "support/operations.hpp"

using namespace ufp4;

TEMPLATE_LIST_TEST_CASE("a bf16 matrix gives the model's bits on every preset, transform and tail", "",
                        support::presets) {
  support::check_tails<TestType, bf16>();
}
TEMPLATE_LIST_TEST_CASE("an fp16 matrix gives the model's bits on every preset, transform and tail", "",
                        support::presets) {
  support::check_tails<TestType, fp16>();
}

namespace {

/// A user's type gives what the library's type of the same bits gives, through every operation.
template <class F, class Theirs, class Ours>
void check_same(std::uint64_t seed) {
  INFO(support::seed_note());
  support::hostile source(seed);
  for (std::size_t cols = 0; cols <= 2 * F::block_size + 1; ++cols) {
    const std::vector<float> values = source.values(3 * cols, cols % 2 == 0);
    const auto theirs = support::elements<Theirs>(values);
    const auto ours = support::elements<Ours>(values);
    const matrix_view<const Theirs> x{theirs.data(), 3, cols};
    const matrix_view<const Ours> y{ours.data(), 3, cols};
    CAPTURE(cols);
    REQUIRE(quantize<F>(x, support::one_thread) == quantize<F>(y, support::one_thread));
    REQUIRE(model::bits_of(amax(x).value) == model::bits_of(amax(y).value));
    std::vector<Theirs> a(3 * cols);
    std::vector<Ours> b(3 * cols);
    fake_quantize<F>(x, matrix_view<Theirs>{a.data(), 3, cols}, support::one_thread);
    fake_quantize<F>(y, matrix_view<Ours>{b.data(), 3, cols}, support::one_thread);
    REQUIRE((cols == 0 || std::memcmp(a.data(), b.data(), 6 * cols) == 0));
  }
}

}  // namespace

TEMPLATE_TEST_CASE("a user's 16-bit types mean what their matrix_element says", "", e1m2_f32, nvfp4, mxint4) {
  check_same<TestType, their_bf16, bf16>(support::seed(10));
  check_same<TestType, their_half, fp16>(support::seed(11));
}

namespace {

/// Every finite value of T and both infinities pass through a format whose blocks hold one value and a zero, so that
/// the float scale tells the magnitude that was read: amax / qmax with qmax = 16, a power of two.
template <class T>
void check_every_value() {
  using F = block_format<fp4<E3M0>, float, 2>;
  std::vector<T> x;
  for (std::uint32_t b = 0; b < 65536; ++b) {
    x.push_back(std::bit_cast<T>(static_cast<std::uint16_t>(b)));
    x.push_back(std::bit_cast<T>(std::uint16_t{0}));
  }
  const auto q = quantize<F>(matrix_view<const T>{x.data(), 1, x.size()}, support::one_thread);
  const std::vector<float> held = support::numbers<T>(x);
  std::uint32_t wrong = 0;
  for (std::uint32_t b = 0; b < 65536; ++b) {
    const float v = held[2 * b], s = q.scales()[b], want = model::div(model::absolute(v), 16);
    const bool negative_code = (q.codes()[b] & 8u) != 0;
    if (!model::finite(v))
      wrong += s == s || q.codes()[b] != 0;
    else
      wrong += model::bits_of(s) != model::bits_of(want) || (want != 0 && negative_code != model::negative(v));
  }
  REQUIRE(wrong == 0);
}

}  // namespace

TEST_CASE("all 2^16 bf16 and fp16 inputs are read as the numbers they are") {
  check_every_value<bf16>();
  check_every_value<fp16>();
}
