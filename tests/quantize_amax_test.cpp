// ufp4 - amax, and what tensor_amax does to a two-level format.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/dequantize.hpp>
#include <ufp4/quantize.hpp>

#include <vector>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"

namespace {

using namespace ufp4;

template <class T>
std::uint32_t amax_bits(const std::vector<T>& x, std::size_t rows, std::size_t cols, const transform_spec& t = {}) {
  return model::bits_of(amax(matrix_view<const T>{x.data(), rows, cols}, t).value);
}
float from(std::uint32_t bits) { return model::float_of(bits); }

}  // namespace

TEST_CASE("amax is the largest finite magnitude, wherever it stands") {
  for (const std::size_t cols : {1u, 15u, 16u, 17u, 100u})
    for (std::size_t at = 0; at < 3 * cols; ++at) {
      std::vector<float> x(3 * cols, -1.0f);
      x[at] = -7;
      REQUIRE(amax_bits(x, 3, cols) == model::bits_of(7.0f));
    }
  CHECK(amax_bits(std::vector<float>{0.0f, -0.0f}, 1, 2) == 0);
  CHECK(amax_bits(std::vector<float>{0.0f, -0x1p-149f}, 1, 2) == 1);
  CHECK(amax_bits(std::vector<float>{from(0xFF7FFFFFu), 1}, 1, 2) == 0x7F7FFFFFu);
}

TEST_CASE("amax ignores NaN and Inf, and is 0 where nothing is finite or nothing is there") {
  CHECK(amax_bits(std::vector<float>{from(0x7FC00000u), 2, from(0xFF800000u)}, 1, 3) == model::bits_of(2.0f));
  CHECK(amax_bits(std::vector<float>{from(0x7FC00000u), from(0x7F800000u)}, 1, 2) == 0);
  CHECK(amax_bits(std::vector<float>{}, 0, 5) == 0);
  CHECK(amax_bits(std::vector<float>{}, 5, 0) == 0);
  // A NaN spreads over its transform run of 16; element 16 is in the next one.
  std::vector<float> x(32, 0.0f);
  x[3] = from(0x7FC00000u), x[4] = 100, x[16] = 8;
  CHECK(amax_bits(x, 1, 32, hadamard<16>{}.spec()) == model::bits_of(2.0f));  // 8 * 2^-2
}

TEST_CASE("amax after a transform is that of the transformed and padded matrix") {
  INFO(support::seed_note());
  support::hostile source(support::seed());
  for (int i = 0; i < 200; ++i) {
    const std::size_t cols = 1 + source.below(200);
    const std::vector<float> x = source.values(2 * cols, i % 3 == 0);
    const model::transform theirs = model::random_transform(64, 5);
    const std::vector<float> y = model::prepared(model::format_of<nvfp4>(), theirs, x, 2, cols);
    CAPTURE(i, cols);
    REQUIRE(amax_bits(x, 2, cols, random_hadamard<64>{5}.spec()) == model::bits_of(model::largest_finite(y)));
    REQUIRE(amax_bits(x, 2, cols) == model::bits_of(model::largest_finite(x)));
  }
}

TEST_CASE("amax reads bf16, fp16 and a user's type") {
  CHECK(amax_bits(std::vector<bf16>{bf16::from_bits(0xC0E0), bf16::from_bits(0x7F80)}, 1, 2) == model::bits_of(7.0f));
  CHECK(amax_bits(std::vector<fp16>{fp16::from_bits(0xFBFF), fp16::from_bits(0x7C00)}, 1, 2) ==
        model::bits_of(65504.0f));
  CHECK(amax_bits(std::vector<their_half>{{0x0001}, {0x8000}}, 1, 2) == model::bits_of(0x1p-24f));
}

TEST_CASE("tensor_amax replaces the matrix's own, at any value, and the tensor scale follows from it") {
  INFO(support::seed_note());
  support::hostile source(support::seed(1));
  const model::format f = model::format_of<nvfp4>();
  for (int i = 0; i < 100; ++i) {
    const std::vector<float> x = source.values(2 * 40, i % 2 == 0);
    const matrix_view<const float> view{x.data(), 2, 40};
    const float own = amax(view).value;
    REQUIRE(quantize<nvfp4>(view, tensor_amax{own}) == quantize<nvfp4>(view));
    REQUIRE(quantize<nvfp4>(view, amax(view)) == quantize<nvfp4>(view));
    for (const float g : {0.0f, -0.0f, 0x1p-149f, 0x1p-120f, 1e-3f, own / 2, 1.0f, 1e30f, from(0x7F7FFFFFu)}) {
      CAPTURE(i, own, g);
      const model::request want{.global_amax = model::absolute(g)};
      REQUIRE(support::matches(quantize<nvfp4>(view, tensor_amax{g}), model::quantize(f, x, 2, 40, want)));
    }
  }
}

TEST_CASE("tensor_amax is an error for formats without a tensor scale") {
  const std::vector<float> x(40, 3.0f);
  const matrix_view<const float> view{x.data(), 1, 40};
  ufp4::detail::for_each_row(ufp4::detail::presets{}, [&](auto row) {
    const std::string message = support::rejection([&] { quantize(row.spec, view, tensor_amax{1e30f}); });
    CAPTURE(row.name);
    CHECK(message ==
          (row.spec.two_level() ? "" : "quantize: tensor_amax has no effect: the format has no tensor scale"));
  });
}
