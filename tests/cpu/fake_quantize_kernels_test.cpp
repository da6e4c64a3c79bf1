// ufp4 - fake_quantize on every tier gives the scalar tier's numbers and report, in place too, and writes nothing else.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/quantize.hpp>

#include <cstddef>
#include <vector>

#include <ufp4/block/presets.hpp>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/seed.hpp"
#include "support/strided.hpp"
#include "support/threads.hpp"

namespace {

using namespace ufp4;
using support::layout;
using support::strided;

/// One call on every tier: out of place as X to Y, and in place as X.
template <class F, class X, class Y, class... Policies>
void compare(std::size_t rows, std::size_t cols, layout from, layout to, const std::vector<float>& values,
             const Policies&... policies) {
  strided<X> x(rows, cols, from);
  x.fill(support::elements<X>(values));
  const auto call = [&](cpu::isa tier, const auto& in, const auto& out) {
    quantize_report seen;
    fake_quantize<F>(in, out, count_into{seen}, policies..., cpu::context{.threads = 1, .isa = tier});
    return seen;
  };
  strided<Y> want(rows, cols, to);
  const quantize_report counted = call(cpu::isa::scalar, x.view(), want.view());
  strided<X> want_here(rows, cols, from);
  want_here.fill(support::elements<X>(values));
  call(cpu::isa::scalar, want_here.view(), want_here.view());
  for (const cpu::isa tier : support::runnable_isas()) {
    CAPTURE(cpu::name(tier), rows, cols, static_cast<int>(from), static_cast<int>(to));
    strided<Y> got(rows, cols, to);
    REQUIRE(call(tier, x.view(), got.view()) == counted);
    REQUIRE(got.same_as(want));
    strided<X> here(rows, cols, from);
    here.fill(support::elements<X>(values));
    REQUIRE(call(tier, here.view(), here.view()) == counted);
    REQUIRE(here.same_as(want_here));
  }
}

/// Widths around the ends of blocks, runs and chunks (4096 elements), rows around the height of a chunk.
template <class F, class X, class Y, class... Policies>
void compare_shapes(const Policies&... policies) {
  INFO(support::seed_note());
  support::hostile source(support::seed(sizeof(X) + F::block_size));
  struct shape {
    std::size_t rows, cols;
  };
  for (const shape s : {shape{1, 1}, shape{3, 15}, shape{2, 16}, shape{5, 33}, shape{70, 100}, shape{33, 256},
                        shape{17, 1000}, shape{3, 4095}, shape{2, 4097}, shape{2, 9000}, shape{0, 5}, shape{4, 0}})
    for (const layout l : {layout::packed, layout::wide})
      compare<F, X, Y>(s.rows, s.cols, l, layout::packed, source.values(s.rows * s.cols, s.cols % 2 == 0), policies...);
}

using square16 = block_format<fp4<E2M1>, e4m3, square(16), float>;
using square64 = block_format<int4, float, square(64)>;
using pairs = block_format<fp4<E1M2>, float, 2>;

}  // namespace

TEMPLATE_TEST_CASE("every tier gives the scalar tier's numbers and report for every shape", "[cpu]", e1m2_f32, nvfp4,
                   mxfp4, square16, pairs) {
  compare_shapes<TestType, float, bf16>();
  compare_shapes<TestType, bf16, float>(random_hadamard<32>{3});
  compare_shapes<TestType, float, fp16>(random_hadamard<256>{4}, undo_transform{});
}

TEST_CASE("every tier gives the scalar tier's numbers for squares under a transform of 256", "[cpu]") {
  compare_shapes<square64, float, float>(random_hadamard<256>{5}, undo_transform{});
  compare_shapes<square64, fp16, bf16>();
}

TEST_CASE("random bits depend on the place in the whole matrix, not on the chunk", "[cpu]") {
  compare_shapes<nvfp4, float, float>(stochastic{.seed = 9}, random_hadamard<16>{6});
  support::hostile source(support::seed(2));
  for (const std::size_t cols : {31u, 4097u, 9000u})
    compare<e1m2_f32, bf16, float>(2, cols, layout::packed, layout::packed, source.values(2 * cols),
                                   stochastic{.seed = 9},
                                   shard{.first_row = 5, .first_col = 512, .total_cols = 512 + cols});
}

TEST_CASE("fake_quantize gives the same on every tier for strided, reversed and transposed matrices", "[cpu]") {
  INFO(support::seed_note());
  support::hostile source(support::seed(1));
  for (const layout from : support::all_layouts)
    for (const layout to : support::all_layouts) {
      compare<nvfp4, float, bf16>(7, 75, from, to, source.values(7 * 75), random_hadamard<32>{1}, undo_transform{});
      compare<square16, fp16, float>(20, 50, from, to, source.values(20 * 50));
    }
}
