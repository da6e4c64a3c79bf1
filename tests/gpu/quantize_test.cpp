// ufp4 - quantize on a GPU gives the host's bytes: every preset, transform, rounding, input type, tail; hostile rows.
// SPDX-License-Identifier: Apache-2.0
// ctest: amd
#include <cmath>

#include "gpu/presets.hpp"
#include "gpu/quantize_check.hpp"

using namespace ufp4;
using support::check_quantize;

namespace {

const rounding_spec all_roundings[] = {nearest_even{}, stochastic{.seed = 11, .stream = 0x500000006ull}, nearest_away{},
                                       toward_zero{}};

/// Every length of a row matters to some transform: one element, whole and broken sixteens, more than the longest run.
template <class F, class T>
void check_format(std::uint64_t number) {
  INFO(support::seed_note());
  support::hostile source(support::seed(number));
  for (const transform_spec& t : {transform_spec{}, random_hadamard<16>{1}.spec(),
                                  random_hadamard<64>{3}.to_bf16().spec(), random_hadamard<256>{4}.spec()})
    for (const rounding_spec& r : all_roundings)
      for (const std::size_t cols : {1u, 16u, 33u, 257u}) {
        const std::size_t rows = 1 + source.below(5);
        CAPTURE(t.n, static_cast<int>(r.what), cols, rows);
        check_quantize<F>(support::elements<T>(source.values(rows * cols, cols == 33)), rows, cols, t, r);
      }
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("float input gives the host's bytes for every preset", "[gpu]", support::presets) {
  check_format<TestType, float>(sizeof(TestType));
}

TEMPLATE_TEST_CASE("bf16 and fp16 input gives the host's bytes", "[gpu]", e1m2_f32, nvfp4, mxint4) {
  check_format<TestType, bf16>(1);
  check_format<TestType, fp16>(2);
}

TEST_CASE("several thread blocks, the last one not full, give the host's bytes", "[gpu]") {
  support::hostile source(support::seed(3));
  const std::vector<float> x = source.values(37 * 300);
  check_quantize<nvfp4>(x, 37, 300, random_hadamard<32>{5}, stochastic{.seed = 2});
  check_quantize<e1m2_f32>(x, 37, 300);
  check_quantize<mxfp4>(x, 300, 37);
}

TEMPLATE_TEST_CASE("scales without a reciprocal in binary32 give the host's bytes and counts", "[gpu]", nvfp4, nv_e1m2,
                   tetrajet2, razer) {
  std::vector<float> x(3 * 48);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::ldexp(static_cast<float>(i % 7) - 3.0f, -131 + static_cast<int>(i / 16 % 3) * 3);
  for (const transform_spec& t : {transform_spec{}, random_hadamard<16>{1}.spec()})
    check_quantize<TestType>(x, 3, 48, t, nearest_even{});
}

TEST_CASE("values next to a rounding boundary give the host's bytes, as with an exact division", "[gpu]") {
  // Quotients within a few ulp of every tie of the grid, by scales of all mantissas.
  support::hostile source(support::seed(4));
  for (int i = 0; i < 200; ++i) {
    const float scale = model::float_of((100u + source.below(50)) << 23 | source.below(1u << 23));
    std::vector<float> x(64);
    for (std::size_t j = 0; j < x.size(); ++j) {
      const float tie = 0.125f * static_cast<float>(source.below(56));
      x[j] = model::float_of(model::bits_of(tie * scale) + source.below(5) - (tie == 0 ? 0u : 2u));
      if (source.below(2) != 0) x[j] = -x[j];
    }
    x[0] = x[16] = 6 * scale;
    x[32] = x[48] = 1.75f * scale;
    check_quantize<e2m1_f32>(x, 1, 64);
    check_quantize<e1m2_f32>(x, 1, 64);
    check_quantize<int4_f32>(x, 1, 64, stochastic{.seed = 3});
  }
}

TEST_CASE("values whose probability differs by 1 / 65536 from their random bits give the host's bytes", "[gpu]") {
  const stochastic random_bits{.seed = 21, .stream = 4};
  support::hostile source(support::seed(6));
  for (int i = 0; i < 50; ++i) {
    std::vector<float> e2m1(64), uniform(64);
    for (std::size_t j = 0; j < 64; ++j) {
      // Moves up iff floor(65536 p + 1/2) + r >= 65536: p lies quarters around that.
      const float quarters = static_cast<float>(source.below(9)) - 4;
      const float p = (65536.0f - static_cast<float>(random_bits.random_word(j)) + 0.25f * quarters) / 65536.0f;
      const auto at = static_cast<float>(source.below(4));
      e2m1[j] = at + (at < 2 ? 0.5f : 1.0f) * p;  // between 0, .5; 1, 1.5; 2, 3; 3, 4
      uniform[j] = 0.25f * (at + p);
      if (source.below(2) != 0) e2m1[j] = -e2m1[j], uniform[j] = -uniform[j];
    }
    for (const std::size_t j : {0u, 16u, 32u, 48u}) e2m1[j] = 6, uniform[j] = 1.75f;  // scales of 1
    check_quantize<e2m1_f32>(e2m1, 1, 64, random_bits);
    check_quantize<e1m2_f32>(uniform, 1, 64, random_bits);
    check_quantize<mxfp4>(e2m1, 1, 64, random_bits);
  }
}

TEST_CASE("an empty matrix writes nothing but the tensor scale", "[gpu]") {
  const std::vector<float> none(16);
  for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{0, 5}, {5, 0}, {0, 0}}) {
    check_quantize<nvfp4>(none, rows, cols);
    check_quantize<nvfp4>(none, rows, cols, tensor_amax{3});
    check_quantize<e1m2_f32>(none, rows, cols, random_hadamard<16>{1});
    check_quantize<nvfp4>(none, rows, cols, mse_search{});
  }
}
