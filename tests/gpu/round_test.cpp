// ufp4 - the rounding and the scales of GPU threads: every level, tie and draw of the grids with a plan, and the scale
// of every magnitude.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/device.hpp"

#include <ufp4/gpu/thread/round.hpp>
#include <ufp4/gpu/thread/scale.hpp>
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/seed.hpp"

#include <cmath>
#include <vector>

using namespace ufp4;
namespace gpu = ufp4::gpu;
namespace thread = ufp4::gpu::thread;
using plan_grid = thread::rounding_plan::grid;

namespace {

/// A value and the 16 random bits that round it.
struct draw {
  float t;
  std::uint32_t bits;
};
/// The codes of a value, rounded to nearest even and by the draw; `bounded` by the code for values up to the bound of
/// the plan; `by_binade` as devices without a sum that rounds down compute it.
struct codes {
  std::uint32_t nearest, drawn, bounded, by_binade;
};

struct round_job {
  thread::rounding_plan plan;
  const draw* in;
  codes* out;
  unsigned count;
};

/// The first of eight codes; the others are those of other values.
template <plan_grid kind>
UFP4_DEVICE codes codes_of(const thread::rounding_plan& p, const draw& d) {
  const float t[8] = {d.t, -d.t, 0.0f, -p.unit, p.unit, -d.t, d.t, -0.0f};
  const std::uint32_t random[4] = {d.bits | 0x12340000u, 0xFFFF0000u, 0x0000FFFFu, 0x89ABCDEFu};
  codes c{thread::nearest_eight<kind>(p, t) & 15u, thread::stochastic_eight<kind>(p, t, random) & 15u, 0, 0};
  c.bounded = thread::magnitude(d.t) <= p.bound ? thread::stochastic_eight<kind, true>(p, t, random) & 15u : c.drawn;
  if constexpr (kind == plan_grid::two_bit_mantissa) {
    const std::uint32_t index = thread::stochastic_index_by_binade<false>(p, d.t, d.bits, false) >> 16;
    c.by_binade = (index & 7u) | (thread::to_bits(d.t) >> 28 & 8u);
  } else {
    c.by_binade = c.drawn;
  }
  return c;
}

UFP4_KERNEL(128) round_values(const round_job job) {
  const unsigned i = gpu::block_index().x * 128 + gpu::thread_index().x;
  if (i >= job.count) return;
  job.out[i] = job.plan.kind == plan_grid::uniform ? codes_of<plan_grid::uniform>(job.plan, job.in[i])
                                                   : codes_of<plan_grid::two_bit_mantissa>(job.plan, job.in[i]);
}

/// Rounds with given random bits.
struct with_bits {
  std::uint32_t bits;
  UFP4_HD bool round_up(const neighbours& n, float t, std::uint64_t) const { return stochastic::moves_up(n, t, bits); }
};

float next_by(float x, int ulps) {
  for (; ulps > 0; --ulps) x = std::nextafterf(x, INFINITY);
  for (; ulps < 0; ++ulps) x = std::nextafterf(x, -INFINITY);
  return x;
}

/// Levels, midpoints, and the ends of the first and the last draws of each step, with their neighbours; tiny and huge
/// values.
std::vector<float> values_of(const grid4& grid) {
  std::vector<float> x{0x1p-149f, 0x1p-126f, 0x1p-40f, 1e6f, 3e38f};
  for (int i = 0; i + 1 < grid.levels; ++i) {
    const float lower = grid.level[i], step = grid.level[i + 1] - lower;
    for (const float part : {0.0f, 0x1p-17f, 0x1p-16f, 0x3p-17f, 0.25f, 0.5f, 0.7f, 1 - 0x3p-17f, 1 - 0x1p-17f, 1.0f})
      for (int ulps = -3; ulps <= 3; ++ulps) x.push_back(next_by(lower + part * step, ulps));
  }
  for (const float part : {1.01f, 1.07f, 1.2f, 1.33f})
    x.push_back(grid.qmax * part);  // some are within the plan's bound
  return x;
}

template <class Element>
void check_rounding() {
  constexpr grid4 grid = grid_of<Element>();
  support::hostile source(support::seed(16));
  std::vector<draw> in;
  for (const float magnitude : values_of(grid))
    for (const float t : {magnitude, -magnitude})
      for (const std::uint32_t bits : {0u, 1u, 0x7FFFu, 0x8000u, 0xFFFEu, 0xFFFFu, source.below(0x10000)})
        in.push_back({t, bits});
  const gpu::buffer<draw> there{std::span<const draw>(in)};
  const gpu::buffer<codes> out(in.size());
  const auto count = static_cast<unsigned>(in.size());
  REQUIRE(gpu::launch(&round_values, {(count + 127) / 128}, {128}, 0, nullptr,
                      round_job{thread::plan_of(grid), there.data(), out.data(), count}) == gpu::success);
  const std::vector<codes> got = support::on_host(out);

  std::size_t wrong = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    // A kernel of sign and magnitude: the codes of int4 are converted for eight at a time.
    const auto sign_magnitude = [&](std::uint32_t code) {
      const bool complements = thread::plan_of(grid).twos_complement && std::signbit(in[i].t);
      return complements ? 8u | ((16u - code) & 7u) : code;
    };
    const std::uint32_t nearest = sign_magnitude(ufp4::detail::round_to_grid(grid, nearest_even{}, in[i].t, 0));
    const std::uint32_t drawn = sign_magnitude(ufp4::detail::round_to_grid(grid, with_bits{in[i].bits}, in[i].t, 0));
    if (got[i].nearest == nearest && got[i].drawn == drawn && got[i].bounded == drawn && got[i].by_binade == drawn)
      continue;
    if (++wrong == 1) {
      CAPTURE(in[i].t, in[i].bits, got[i].nearest, nearest, got[i].drawn, got[i].bounded, got[i].by_binade, drawn);
      CHECK(false);
    }
  }
  CHECK(wrong == 0);
}

struct scale_job {
  thread::scale_plan plan;
  tensor_constants tensor;
  const float* amax;
  std::uint32_t* out;  ///< bits of the scale, bits of the factor
  unsigned count;
};
UFP4_KERNEL(128) choose_scales(const scale_job job) {
  const unsigned i = gpu::block_index().x * 128 + gpu::thread_index().x;
  if (i >= job.count) return;
  job.out[2 * i] = thread::scale_bits(job.plan, job.tensor, job.amax[i]);
  job.out[2 * i + 1] = thread::to_bits(thread::scale_factor(job.plan, job.tensor, job.out[2 * i]));
}

/// Magnitudes of all exponents around the ends and ties of three bits of mantissa.
std::vector<float> all_magnitudes() {
  std::vector<float> x{0.0f};
  for (int e = -149; e < 128; ++e)
    for (int m = 16; m < 32; ++m)
      for (int ulps = -1; ulps <= 1; ++ulps)
        if (const float at = next_by(std::ldexp(static_cast<float>(m), e - 4), ulps); at >= 0 && std::isfinite(at))
          x.push_back(at);
  return x;
}

template <class F>
void check_scales(const ufp4::scale_rule_spec& rule = {}, float tensor_amax = 0) {
  constexpr format_spec format = spec_of<F>;
  const tensor_constants tensor = F::two_level ? tensor_constants::of<F>(tensor_amax, rule) : tensor_constants{};
  const std::vector<float> amax = all_magnitudes();
  const gpu::buffer<float> there{std::span<const float>(amax)};
  const gpu::buffer<std::uint32_t> out(2 * amax.size());
  const auto count = static_cast<unsigned>(amax.size());
  REQUIRE(gpu::launch(&choose_scales, {(count + 127) / 128}, {128}, 0, nullptr,
                      scale_job{thread::scale_plan_of(format, rule), tensor, there.data(), out.data(), count}) ==
          gpu::success);
  const std::vector<std::uint32_t> got = support::on_host(out);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < amax.size(); ++i) {
    const float values[16] = {amax[i]};
    const ufp4::detail::block_scale want =
        ufp4::detail::choose_scale(format, rule, tensor, block_values{values, 1, 16, 16}, amax[i]);
    if (got[2 * i] == want.bits && got[2 * i + 1] == thread::to_bits(want.factor)) continue;
    if (++wrong == 1) {
      CAPTURE(amax[i], got[2 * i], want.bits, got[2 * i + 1], want.factor);
      CHECK(false);
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("rounding by plan gives the host's code for every level, tie and draw", "[gpu]") {
  check_rounding<fp4<E2M1>>();
  check_rounding<fp4<E1M2>>();
  check_rounding<ufp4::int4>();
}

TEST_CASE("the scale and factor of every magnitude are the host's under every scale type and rule", "[gpu]") {
  for (const float tensor_amax : {0.0f, 0x1p-149f, 1e-6f, 1.0f, 448.0f, 3e38f}) {
    check_scales<nvfp4>({}, tensor_amax);
    check_scales<nvint4>(scale_up{}.spec(), tensor_amax);
    check_scales<block_format<fp4<E1M2>, ue5m3, 16, float>>({}, tensor_amax);
  }
  check_scales<block_format<fp4<E2M1>, e4m3, 16>>();
  check_scales<block_format<fp4<E2M1>, ue5m3, 16>>(scale_up{}.spec());
  check_scales<block_format<fp4<E1M2>, bf16, 16>>();
  check_scales<block_format<ufp4::int4, bf16, 16>>(scale_up{}.spec());
  check_scales<e1m2_f32>();
  for (const ufp4::scale_rule_spec& rule : {mx_floor{}.spec(), mx_even{}.spec(), mx_ceil{}.spec()}) {
    check_scales<mxfp4>(rule);
    check_scales<mx_e1m2>(rule);
    check_scales<mxint4>(rule);
    check_scales<block_format<fp4<E3M0>, e8m0, 32>>(rule);
    check_scales<block_format<nf4, e8m0, 32>>(rule);
  }
}
