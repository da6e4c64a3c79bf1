// ufp4 - policies: any order, any subset, what each of them says to the operations.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/matrix/policies.hpp>

#include <type_traits>
#include <vector>

#include <ufp4/block/presets.hpp>
#include <ufp4/matrix/product.hpp>
#include <ufp4/quantize.hpp>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/seed.hpp"

namespace {

using namespace ufp4;

struct always_up {
  bool round_up(const neighbours&, float, std::uint64_t) const { return true; }
};

static_assert(detail::policy<hadamard<16>> && detail::policy<transform_spec> && detail::policy<stochastic> &&
              detail::policy<rounding_spec> && detail::policy<always_up> && detail::policy<scale_up> &&
              detail::policy<ufp4::scale_rule_spec> && detail::policy<mse_search> && detail::policy<tensor_amax> &&
              detail::policy<shard> && detail::policy<count_into> && detail::policy<undo_transform> &&
              detail::policy<cpu::context>);
static_assert(!detail::policy<int> && !detail::policy<fp4<E2M1>> && !detail::policy<gemm_options>);

// The library's own roundings become one type, so that a kernel is compiled once; a user's keeps its own.
static_assert(std::is_same_v<decltype(detail::collect(stochastic{}).rounding), rounding_spec>);
static_assert(std::is_same_v<decltype(detail::collect(hadamard<16>{}, toward_zero{}).rounding), rounding_spec>);
static_assert(std::is_same_v<decltype(detail::collect(hadamard<16>{}, always_up{}).rounding), always_up>);

}  // namespace

TEST_CASE("nothing given: no transform, nearest_even, the format's rule, the matrix's own amax, no shard") {
  const auto o = detail::collect();
  CHECK((o.transform.n == 1 && o.transform.signs_valid));
  CHECK(o.rounding.what == rounding_spec::kind::nearest_even);
  CHECK(o.rule == ufp4::scale_rule_spec{});
  CHECK((!o.has_amax && !o.has_shard && o.report == nullptr && !o.undo));
}

TEST_CASE("each policy sets its own member") {
  quantize_report report;
  const auto o =
      detail::collect(count_into{report}, shard{.first_row = 1, .first_col = 32, .total_cols = 99}, mx_even{},
                      tensor_amax{3}, stochastic{.seed = 4, .stream = 5}, undo_transform{}, random_hadamard<32>{7});
  CHECK((o.transform.n == 32 && same_map(o.transform, random_hadamard<32>{7}.spec())));
  CHECK((o.rounding.what == rounding_spec::kind::stochastic && o.rounding.random_bits.seed == 4 &&
         o.rounding.random_bits.stream == 5));
  CHECK((o.rule == ufp4::scale_rule_spec{.what = ufp4::scale_rule_spec::kind::mx_even}));
  CHECK((o.has_amax && o.global_amax == 3));
  CHECK((o.has_shard && o.place.first_row == 1 && o.place.first_col == 32 && o.place.total_cols == 99));
  CHECK((o.report == &report && o.undo));
}

TEST_CASE("a search joins a rule, before it and after it") {
  const ufp4::scale_rule_spec both{.what = ufp4::scale_rule_spec::kind::up, .searches = true};
  CHECK(detail::collect(scale_up{}, mse_search{}).rule == both);
  CHECK(detail::collect(mse_search{}, scale_up{}).rule == both);
  CHECK(detail::collect(both).rule == both);
  CHECK(detail::collect(mae_search{1, 2}, scale_up{}).rule ==
        ufp4::scale_rule_spec{ufp4::scale_rule_spec::kind::up, true, search_error::absolute, {1, 2}});
  CHECK(detail::collect(mse_search{}).rule == ufp4::scale_rule_spec{.searches = true});
}

TEST_CASE("the order of policies changes nothing") {
  INFO(support::seed_note());
  support::hostile source(support::seed());
  const std::vector<float> values = source.values(5 * 100);
  const matrix_view<const float> x{values.data(), 5, 100};
  const random_hadamard<32> t{3};
  const stochastic random_bits{.seed = 1, .stream = 2};
  const tensor_amax g{4};
  const shard place{.first_row = 7, .first_col = 64, .total_cols = 164};
  quantize_report a, b, c;
  const auto first = quantize<nvfp4>(x, t, random_bits, scale_up{}, g, place, count_into{a});
  CHECK(quantize<nvfp4>(x, count_into{b}, place, g, scale_up{}, random_bits, t) == first);
  CHECK(quantize<nvfp4>(x, g, t, count_into{c}, random_bits, place, scale_up{}) == first);
  CHECK((a == b && b == c));

  model::request want{.t = model::random_transform(32, 3),
                      .rounding = {model::rounding::stochastic, 1, 2},
                      .how = model::rule::up,
                      .global_amax = 4};
  want.sharded = true, want.first_row = 7, want.first_col = 64, want.total_cols = 164;
  const model::result r = model::quantize(model::format_of<nvfp4>(), values, 5, 100, want);
  CHECK(support::matches(first, r));
  CHECK(a == quantize_report{r.nonfinite_blocks, r.saturated, r.underflowed_scales});
}

TEST_CASE("a context takes any place among the policies") {
  const std::vector<float> x(64 * 32, 1.5f);
  const matrix_view<const float> view{x.data(), 64, 32};
  const auto want = quantize<nvfp4>(view, hadamard<16>{}, stochastic{1});
  std::size_t ran = 0;
  const auto executor = [&](std::size_t n, cpu::task_ref task) {
    ++ran;
    for (std::size_t i = 0; i < n; ++i) task(i);
  };
  const cpu::context ctx{.executor = executor};
  const auto runs = [&](const auto& call) {
    ran = 0;
    REQUIRE(call() == want);
    REQUIRE(ran != 0);
  };
  runs([&] { return quantize<nvfp4>(view, ctx, hadamard<16>{}, stochastic{1}); });
  runs([&] { return quantize<nvfp4>(view, hadamard<16>{}, ctx, stochastic{1}); });
  runs([&] { return quantize(spec_of<nvfp4>, view, hadamard<16>{}, stochastic{1}, ctx); });
  any_quantized out(spec_of<nvfp4>, 64, 32, hadamard<16>{}.spec());
  runs([&] { return quantize_into(view, out, stochastic{1}, ctx, hadamard<16>{}), out; });
}

TEST_CASE("count_into adds up over calls and threads") {
  std::vector<float> x(3000 * 32, 7.5f);  // two of 32 lie beyond 6 times the scale
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 16 == 0 ? 7.5f : 1.0f;
  x[64] = model::float_of(0x7FC00000u);
  const matrix_view<const float> view{x.data(), 3000, 32};
  quantize_report seen{100, 0, 5};
  quantize<mxfp4>(view, count_into{seen}, cpu::context{.threads = 3});
  CHECK(seen == quantize_report{101, 2 * 2999, 5});
  std::vector<float> out(x.size());
  fake_quantize<mxfp4>(view, matrix_view<float>{out.data(), 3000, 32}, count_into{seen});
  CHECK(seen == quantize_report{102, 4 * 2999, 5});
}

TEST_CASE("a rounding policy of a user's own goes through every operation") {
  const std::vector<float> x{4, -4, 0.1f, -0.1f, 1.6f, -1.6f, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  const matrix_view<const float> view{x.data(), 1, 16};
  const auto q = quantize<e2m1_f32>(view, always_up{});
  const std::uint8_t want[8] = {0xE6, 0x91, 0xC4, 0x07, 0, 0, 0, 0};
  CHECK(std::equal(q.codes().begin(), q.codes().end(), want));
  std::vector<float> fake(16);
  fake_quantize<e2m1_f32>(view, matrix_view<float>{fake.data(), 1, 16}, always_up{});
  CHECK(fake == std::vector<float>{4, -4, 0.5f, -0.5f, 2, -2, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  std::vector<std::uint8_t> codes(8);
  std::vector<float> scales(1);
  CHECK(quantize_into<e2m1_f32>(view, codes, std::span<float>(scales), always_up{}) == q);
}
