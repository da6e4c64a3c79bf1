// ufp4 - how values become codes, as data: what the rounders of the vector kernels (rounder_lanes.hpp) are set up with.
// SPDX-License-Identifier: Apache-2.0
//
// Any grid and any rounding that is a function of the value is a list of cuts: the index of t is the number of cuts
// that it exceeds, with ties and directions folded into the cuts. Grids that are regular enough have shorter ways to
// that index, and stochastic rounding adds its random bits to an index and a fraction.
#pragma once

#include <ufp4/cpu/elements.hpp>
#include <ufp4/round/round_to_grid.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

inline constexpr float infinity = __builtin_bit_cast(float, infinity_bits);

/// Grids and nearest roundings whose codes a product with the scale's reciprocal decides, except near a tie.
enum class near_kind : std::uint8_t { none, uniform, two_bit_mantissa };

/// Bins of equal width over a grid's range: bin k, at k modulo 32 in tables, has what rounds to k widths. Tables are
/// right a thousandth of a width beyond a bin too, so that its number may be computed from a reciprocal.
struct level_bins {
  static constexpr float zero = 12582912.0f;  ///< 1.5 * 2^23: a sum with it has k in its low bits
  float per_width = 1;                        ///< the reciprocal of the width
  std::uint32_t first = 0, last = 0;          ///< such sums of the bins at the ends
};

/// The index of a value from its bin. The tables are set if it is usable: small calls would notice the time.
struct rank_bins {
  bool usable = false;  ///< no bin has two cuts
  level_bins bins{};
  alignas(64) std::uint32_t below[32];  ///< how many cuts are below the bin
  alignas(64) float cut[32];            ///< the one in the bin, or infinity

  constexpr rank_bins() {
    if (!std::is_constant_evaluated()) return;
    for (int i = 0; i < 32; ++i) below[i] = 0, cut[i] = 0;
  }
};

struct rounding_plan {
  /// The rounder; cuts and cuts_stochastic take any grid.
  enum class kind : std::uint8_t {
    uniform,
    two_bit_mantissa,
    halves,
    cuts,
    uniform_stochastic,
    two_bit_mantissa_stochastic,
    halves_stochastic,
    cuts_stochastic
  };
  kind what = kind::cuts;
  int cuts = 0;  ///< t has the index "how many cuts it exceeds"; |t| where the grid is symmetric
  float cut[15] = {};
  float level[16] = {};                                   ///< by index
  float gap[16] = {};                                     ///< to the next level; with exact_gaps, 65536 over that
  bool exact_gaps = true;                                 ///< all gaps are powers of two
  std::uint32_t value_mask = 0xFFFFFFFFu, sign_mask = 0;  ///< bits of t that the index and the sign bit are made of
  float unit = 0, qmax = 0;
  value_range range{};              ///< of the grid
  std::uint32_t mantissa_bits = 1;  ///< of two_bit_mantissa, and of floats of one byte
  /// Of the same; the unit is their smallest number.
  constexpr float smallest_normal() const { return unit * static_cast<float>(1u << mantissa_bits); }
  float lowest = 0;                         ///< halves: smaller magnitudes count as this one
  alignas(64) std::uint32_t step[16] = {};  ///< halves: see plan_halves
  alignas(16) std::uint8_t code[16] = {};   ///< of each index; where the grid is symmetric, bit 3 is the sign
  near_kind nearby = near_kind::none;
  alignas(64) std::uint32_t near_step[16] = {};  ///< near two_bit_mantissa: see plan_near
  bool maps = false;                             ///< code[i] is not i for every i
  std::uint32_t zeros = 0;                       ///< eight codes of +0
  rank_bins ranks;                               ///< of cuts and cuts_stochastic, with cheap lookups
};

constexpr float float_before(float x) {  // x is finite
  const std::uint32_t bits = to_bits(x);
  if ((bits & magnitude_mask) == 0) return ufp4::detail::to_float(0x80000001u);
  return ufp4::detail::to_float(is_negative(x) ? bits + 1 : bits - 1);
}

/// The largest float that does not reach level i from level i - 1, so that t reaches it iff t > cut.
constexpr float cut_below(const grid4& g, rounding_spec::kind rounding, int i) {
  const bool positive = i > g.zero;
  const float below = g.level[i - 1], above = g.level[i];
  if (rounding == rounding_spec::kind::toward_zero || rounding == rounding_spec::kind::stochastic)
    return positive || rounding == rounding_spec::kind::stochastic ? float_before(above) : below;
  const exact_sum both = positive ? exact_sum::of(below, above) : exact_sum::of(above, below);
  const double middle = both.sum / 2;
  const int rank = positive ? i - 1 - g.zero : g.zero - i;  // of the neighbour nearer to zero
  const bool away = rounding == rounding_spec::kind::nearest_away || (rank & 1) != 0;
  const auto nearest = static_cast<float>(middle);
  const bool reaches_by_rest = both.rest < 0 || (both.rest == 0 && positive == away);  // if it is `middle`
  const auto value = static_cast<double>(nearest);
  return value > middle || (value == middle && reaches_by_rest) ? float_before(nearest) : nearest;
}

constexpr bool is_symmetric(const grid4& g) {
  bool same = g.zero <= 7 && g.levels == 2 * g.zero + 1;
  for (int i = 1; same && i <= g.zero; ++i) same = g.level[g.zero + i] == -g.level[g.zero - i];
  return same;
}

constexpr void plan_cuts(const grid4& g, rounding_spec::kind rounding, bool symmetric, rounding_plan& p) {
  const int first = symmetric ? g.zero : 0;
  p.cuts = g.levels - 1 - first;
  for (int i = 0; i < p.cuts; ++i) p.cut[i] = cut_below(g, rounding, first + i + 1);
  if (symmetric) p.value_mask = magnitude_mask, p.sign_mask = sign_mask;
  if (rounding != rounding_spec::kind::stochastic) return;
  for (int i = 0; i <= p.cuts; ++i) {
    p.level[i] = g.level[first + i];
    p.gap[i] = i < p.cuts ? g.level[first + i + 1] - g.level[first + i] : 1.0f;
    p.exact_gaps = p.exact_gaps && is_power_of_two(p.gap[i]);
  }
  for (int i = 0; p.exact_gaps && i <= p.cuts; ++i) p.gap[i] = 65536.0f / p.gap[i];
}

/// For magnitudes with at most one cut in each half of the eight binades up to that of qmax: the bits of |t| plus a
/// number of the half have the index in bits 24 and up. The bits of the float above a cut give exactly the next index.
constexpr bool plan_halves(rounding_plan& p) {
  const std::uint32_t top = to_bits(p.qmax) >> 23;
  if (top < 32 || top > 222) return false;
  const std::uint32_t first = (top - 7) << 1;
  p.lowest = ufp4::detail::to_float(first << 22);
  int index = 0;
  for (std::uint32_t half = first; half < first + 16; ++half) {
    const std::uint32_t start = half << 22, end = start + (1u << 22);
    std::uint32_t base = (static_cast<std::uint32_t>(index) << 24) - start;
    if (index < p.cuts && to_bits(p.cut[index]) < end - 1) {
      const std::uint32_t above = to_bits(p.cut[index]) + 1;
      if (above < start || (half == first && above == start)) return false;
      base = (static_cast<std::uint32_t>(++index) << 24) - above;
    }
    if (index < p.cuts && to_bits(p.cut[index]) < end - 1) return false;
    p.step[half & 15u] = base;
  }
  return index == p.cuts;
}

constexpr void plan_codes(const grid4& g, bool symmetric, rounding_plan& p) {
  for (int i = 0; i < g.levels; ++i) {
    const int magnitude = i < g.zero ? g.zero - i : i - g.zero;
    p.code[symmetric ? (i < g.zero ? 8 | magnitude : magnitude) : i] = g.code[i];
  }
  if (symmetric) p.code[8] = g.minus_zero;
  for (int i = 0; i < 16; ++i) p.maps = p.maps || p.code[i] != i;
  p.zeros = g.code[g.zero] * 0x11111111u;
}

/// |t| / (2 unit) + near_offset has at most one cut in each quarter of the binades [1/2, 8), and none near an end of a
/// quarter. So its bits plus near_step[quarter] have the index in bits 24 and up, and the bits below are less than
/// 2 * near_margin only next to a cut.
inline constexpr float near_offset = 0.53125f;
inline constexpr std::uint32_t near_margin = 4;

constexpr void plan_near(rounding_plan& p) {
  constexpr float cut[8] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f, infinity};
  std::uint32_t index = 0;
  for (std::uint32_t quarter = 126 << 2; quarter < 130 << 2; ++quarter) {
    const std::uint32_t start = quarter << 21, here = to_bits(cut[index] + near_offset);
    const bool inside = here < start + (1u << 21);
    if (inside) ++index;
    p.near_step[quarter & 15u] = (index << 24) + near_margin - (inside ? here : start - (1u << 21));
  }
}

constexpr level_bins make_bins(float low, float high) {
  level_bins b;
  b.per_width = 30.0f / (high - low);
  const auto sum_of = [&](float v) {
    const double place = static_cast<double>(v) * static_cast<double>(b.per_width);
    return to_bits(level_bins::zero) +
           static_cast<std::uint32_t>(static_cast<std::int32_t>(place + 0x1.8p52 - 0x1.8p52));
  };
  b.first = sum_of(low);
  b.last = sum_of(high);
  return b;
}
/// visit(k modulo 32, i, inside) for every bin: `i` cuts are below it, cut i is inside or not. False if two are inside.
template <class Cut, class Visit>
constexpr bool each_bin(const level_bins& bins, int cuts, const Cut& cut, const Visit& visit) {
  const auto place = [&](int i) { return static_cast<double>(cut(i)) * static_cast<double>(bins.per_width); };
  const auto zero = static_cast<std::int32_t>(to_bits(level_bins::zero));
  int i = 0;
  for (std::int32_t sum = static_cast<std::int32_t>(bins.first), n = 0; n < 32; ++sum, ++n) {
    const double end = sum - zero + 0.501;
    while (i < cuts && place(i) < sum - zero - 0.501) ++i;
    const bool inside = i < cuts && place(i) <= end;
    if (inside && i + 1 < cuts && place(i + 1) <= end) return false;
    visit(sum & 31, i, inside);
  }
  return true;
}
/// Whether a grid can be divided into bins without overflows.
constexpr bool has_bins(float low, float high) { return high - low > 0x1p-40f && high - low < 0x1p40f; }

constexpr void plan_ranks(float low, float high, rounding_plan& p) {
  if (!has_bins(low, high)) return;
  p.ranks.bins = make_bins(low, high);
  p.ranks.usable = each_bin(
      p.ranks.bins, p.cuts, [&](int i) { return p.cut[i]; },
      [&](int bin, int below, bool inside) {
        p.ranks.below[bin] = static_cast<std::uint32_t>(below);
        p.ranks.cut[bin] = inside ? p.cut[below] : infinity;
      });
}

/// The distance of a number to the nearest level: that between | number - middle | and `distance`. A bin that has a cut
/// has the middle and half the distance of the levels on both sides; any other bin has the nearest level, and 0.
struct distance_bins {
  bool usable = false;
  level_bins bins{};
  float reach = 0;                      ///< larger magnitudes may be beyond all bins
  alignas(64) float middle[32] = {};    ///< in widths
  alignas(64) float distance[32] = {};  ///< in widths
};
/// `magnitudes`: of these only, the levels are from 0 on.
constexpr distance_bins plan_distances(const float* level, int levels, bool magnitudes) {
  distance_bins d;
  const float low = level[0], high = level[levels - 1];
  if (!has_bins(low, high)) return d;
  d.bins = make_bins(low, high);
  d.reach = (magnitudes || high < -low ? high : -low) * (1.0f + 0x1p-8f);
  const auto place = [&](int i) { return static_cast<double>(level[i]) * static_cast<double>(d.bins.per_width); };
  d.usable = each_bin(
      d.bins, levels - 1,
      [&](int i) { return (static_cast<double>(level[i]) + static_cast<double>(level[i + 1])) / 2; },
      [&](int bin, int below, bool inside) {
        const double here = place(below), next = place(inside ? below + 1 : below);
        d.middle[bin] = static_cast<float>((here + next) / 2);
        d.distance[bin] = static_cast<float>((next - here) / 2);
      });
  return d;
}

/// `cheap_lookup`: the instruction set looks up sixteen floats in an instruction or two.
constexpr rounding_plan make_plan(const grid4& g, rounding_spec::kind rounding, bool cheap_lookup) {
  using kind = rounding_plan::kind;
  rounding_plan p;
  const bool symmetric = is_symmetric(g), even = rounding == rounding_spec::kind::nearest_even;
  const bool random = rounding == rounding_spec::kind::stochastic;
  p.qmax = g.qmax;
  p.range = value_range_of(g);
  p.unit = g.level[g.zero + 1 < g.levels ? g.zero + 1 : g.zero];
  const features values = features_of(g);
  const bool uniform = values == features::uniform_grid, two_bit = values == features::two_bit_grid;
  plan_codes(g, symmetric, p);
  if (even || rounding == rounding_spec::kind::nearest_away)
    p.nearby = uniform ? near_kind::uniform : two_bit ? near_kind::two_bit_mantissa : near_kind::none;
  if (p.nearby == near_kind::two_bit_mantissa) plan_near(p);
  if (uniform && even) return p.what = kind::uniform, p;
  plan_cuts(g, rounding, symmetric, p);
  p.what = random ? kind::cuts_stochastic : kind::cuts;
  if (uniform && random)
    p.what = kind::uniform_stochastic;
  else if (two_bit && random)
    p.what = kind::two_bit_mantissa_stochastic;
  else if (cheap_lookup && symmetric && p.exact_gaps && plan_halves(p))
    p.what = random ? kind::halves_stochastic : kind::halves;
  else if (!cheap_lookup && two_bit && even)
    p.what = kind::two_bit_mantissa;
  else if (cheap_lookup)
    plan_ranks(g.level[symmetric ? g.zero : 0], g.level[g.levels - 1], p);
  return p;
}

/// The plans of a format for instruction sets with cheap lookups and without.
struct rounding_plans {
  rounding_plan cheap, other;
};
/// Those of a format that its type tells: constants, which no call computes.
template <class F, rounding_spec::kind rounding>
inline constexpr rounding_plans plans_of_type{make_plan(spec_of<F>.grid, rounding, true),
                                              make_plan(spec_of<F>.grid, rounding, false)};

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
