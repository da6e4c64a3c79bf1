// ufp4 - fake_quantize: dequantize(quantize(x)) in one pass, in place if asked, the transform undone if asked.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/dequantize.hpp>
#include <ufp4/hadamard/transform.hpp>
#include <ufp4/quantize.hpp>

#include <cstring>
#include <vector>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/seed.hpp"

namespace {

using namespace ufp4;

using square = block_format<fp4<E2M1>, e4m3, ufp4::square(16), float>;

template <class T>
bool same_bytes(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// In place and out of place, row-major and transposed: the same bytes.
template <class F, class T, class... Policies>
void check_in_place(const Policies&... policies) {
  INFO(support::seed_note());
  support::hostile source(support::seed(sizeof(T)));
  for (std::size_t cols = 0; cols < 80; cols += 3) {
    const std::size_t rows = 20;
    const std::vector<T> x = support::elements<T>(source.values(rows * cols, cols % 2 == 0));
    std::vector<T> apart(rows * cols), place = x, turned_apart(rows * cols), turned = x;
    CAPTURE(cols);
    const matrix_view<const T> view{x.data(), rows, cols};
    fake_quantize<F>(view, matrix_view<T>{apart.data(), rows, cols}, policies...);
    const matrix_view<T> here{place.data(), rows, cols};
    fake_quantize<F>(here, here, policies...);
    REQUIRE(same_bytes(place, apart));
    fake_quantize<F>(transpose(view), transpose(matrix_view<T>{turned_apart.data(), rows, cols}), policies...);
    const auto there = transpose(matrix_view<T>{turned.data(), rows, cols});
    fake_quantize<F>(there, there, policies...);
    REQUIRE(same_bytes(turned, turned_apart));
  }
}

}  // namespace

TEMPLATE_TEST_CASE("in place gives the bytes that another output gets", "", e1m2_f32, nvfp4, mxfp4, square) {
  check_in_place<TestType, float>();
  check_in_place<TestType, float>(random_hadamard<32>{1}, undo_transform{});
  check_in_place<TestType, bf16>(stochastic{.seed = 5}, hadamard<16>{});
  check_in_place<TestType, fp16>(toward_zero{});
}

TEST_CASE("undo_transform applies the inverse to what was decoded, and does nothing without a transform") {
  INFO(support::seed_note());
  support::hostile source(support::seed(7));
  const std::vector<float> x = source.values(4 * 96, false, false);
  const matrix_view<const float> view{x.data(), 4, 96};
  const random_hadamard<32> t{77};
  std::vector<float> turned(x.size()), undone(x.size()), plain(x.size()), same(x.size());
  fake_quantize<e1m2_f32>(view, matrix_view<float>{turned.data(), 4, 96}, t);
  fake_quantize<e1m2_f32>(view, matrix_view<float>{undone.data(), 4, 96}, t, undo_transform{});
  for (std::size_t k = 0; k < turned.size(); k += 32) hadamard_inverse(t.spec(), turned.data() + k);
  CHECK(same_bytes(turned, undone));
  fake_quantize<e1m2_f32>(view, matrix_view<float>{plain.data(), 4, 96});
  fake_quantize<e1m2_f32>(view, matrix_view<float>{same.data(), 4, 96}, undo_transform{});
  CHECK(same_bytes(plain, same));
}

TEST_CASE("values on the grid come back unchanged, -0 and the transform's round trip included") {
  const std::vector<float> x{6, -6, 4, -3, 2, 1.5f, -1, 0.5f, 0.0f, -0.0f, -0.5f, 3, -4, -1.5f, 1, -2};
  std::vector<float> out(16);
  fake_quantize<e2m1_f32>(matrix_view<const float>{x.data(), 1, 16}, matrix_view<float>{out.data(), 1, 16});
  CHECK(same_bytes(out, x));
  // A unit vector becomes 16 equal numbers, which a block holds exactly.
  std::vector<float> unit(16, 0.0f);
  unit[5] = 4;
  fake_quantize<nvfp4>(matrix_view<const float>{unit.data(), 1, 16}, matrix_view<float>{out.data(), 1, 16},
                       hadamard<16>{}, undo_transform{},
                       tensor_amax{2688});  // an amax of 1 under S = 1: scale 0.171875, t = 5.8 -> 6
  for (std::size_t k = 0; k < 16; ++k) CHECK(out[k] == (k == 5 ? 4 * 6 * 0.171875f : 0.0f));
}

TEST_CASE("the compat presets are a target too") {
  INFO(support::seed_note());
  support::hostile source(support::seed(8));
  const std::vector<float> x = source.values(6 * 50);
  const matrix_view<const float> view{x.data(), 6, 50};
  std::vector<float> fake(x.size()), back(x.size());
  const auto check = [&]<class P>(P) {
    fake_quantize<P>(view, matrix_view<float>{fake.data(), 6, 50}, random_hadamard<16>{4});
    dequantize(quantize<P>(view, random_hadamard<16>{4}), matrix_view<float>{back.data(), 6, 50});
    return support::same_numbers(fake, back);
  };
  CHECK(check(compat::te_nvfp4{}));
  CHECK(check(compat::torchao_nvfp4{}));
  CHECK(check(compat::torchao_mx_rceil{}));
  CHECK(check(compat::ggml_mxfp4{}));
  CHECK(check(compat::ggml_nvfp4{}));
}
