// ufp4 - rounders: scaled values to indices of a grid, over one instruction set's lanes.
// SPDX-License-Identifier: Apache-2.0
//
// A rounder gives the index of |t| in three bits from `bit` on, with the next bit clear and the other bits arbitrary.
// `random` is the random number of the element, 16 bits; only rounders with is_stochastic read it.
#if !defined(UFP4_ROUNDER_LANES)
#define UFP4_ROUNDER_LANES
#include <ufp4/cpu/kernels/quantize/rounding_plan.hpp>
#include <ufp4/cpu/kernels/step_lanes.hpp>

UFP4_BEGIN_LANES(quantize_kernel)

UFP4_LANE f32 magnitude(f32 t) { return as_float(as_bits(t) & magnitude_mask); }

/// Magnitudes 0 .. 7 units, a power of two, to nearest even: a sum that has no bits below the unit.
struct uniform_rounder {
  static constexpr bool is_stochastic = false;
  static constexpr int bit = 0;
  f32 qmax, shift;
  UFP4_LANE explicit uniform_rounder(const rounding_plan& p)
      : qmax(broadcast(p.qmax)), shift(broadcast(p.unit * 12582912.0f)) {}  // 1.5 * 2^23: exact, the unit's binade
  UFP4_LANE u32 operator()(f32 t, u32) const { return as_bits(magnitude_at_most(t, qmax) + shift); }
};

/// Magnitudes 0 1 2 3 4 6 8 12 units, to nearest even: the same with the unit of the value's binade.
struct two_bit_mantissa_rounder {
  static constexpr bool is_stochastic = false;
  static constexpr int bit = 0;
  f32 qmax, normal;
  u32 lift, offset;
  UFP4_LANE explicit two_bit_mantissa_rounder(const rounding_plan& p)
      : qmax(broadcast(p.qmax)),
        normal(broadcast(2 * p.unit)),
        lift(broadcast(std::uint32_t{22} << 23)),
        offset(broadcast(0u - ((to_bits(2 * p.unit) + (std::uint32_t{22} << 23)) >> 22))) {}
  UFP4_LANE u32 operator()(f32 t, u32) const {
    const f32 a = magnitude_at_most(t, qmax);
    const u32 shift = (as_bits(at_least(a, normal)) & 0x7F800000u) + lift;  // 2^(e + 22): its last bit is 2^(e - 1)
    const u32 sum = as_bits(a + as_float(shift));                           // a in halves of 2^e: four at most
    return (sum & 7u) + (shift >> 22) + offset;                             // two codes a binade
  }
};

/// A symmetric grid with at most one cut in each half of a binade (plan_halves), any rounding.
struct halves_rounder {
  static constexpr bool is_stochastic = false;
  static constexpr int bit = 24;
  table16 step;
  f32 qmax, lowest;
  UFP4_LANE explicit halves_rounder(const rounding_plan& p)
      : step(load_table(p.step)), qmax(broadcast(p.qmax)), lowest(broadcast(p.lowest)) {}
  UFP4_LANE u32 operator()(f32 t, u32) const { return index_of(magnitude_at_most(t, qmax)); }
  UFP4_LANE u32 index_of(f32 magnitude) const { return index_at(at_least(magnitude, lowest)); }
  UFP4_LANE u32 index_at(f32 magnitude) const {
    const u32 bits = as_bits(magnitude);
    return bits + as_bits(lookup(step, bits >> 22));
  }
};
/// The same for magnitudes below the end of qmax's binade.
struct halves_in_range_rounder : halves_rounder {
  UFP4_LANE explicit halves_in_range_rounder(const rounding_plan& p) : halves_rounder(p) {}
  UFP4_LANE u32 operator()(f32 t, u32) const { return index_at(magnitude_at_least(t, lowest)); }
};
/// The same with the sign of the value in the highest bit of the index, which the sum does not reach.
struct signed_halves_rounder : halves_rounder {
  UFP4_LANE explicit signed_halves_rounder(const rounding_plan& p) : halves_rounder(p) {}
  UFP4_LANE u32 operator()(f32 t, u32) const { return index_at(signed_at_least(t, lowest)); }
};
/// What rounds magnitudes 0 1 2 3 4 6 8 12 units to nearest even; and where none reaches the end of qmax's binade.
using binade_rounder = std::conditional_t<cheap_lookup, halves_rounder, two_bit_mantissa_rounder>;
using in_range_rounder = std::conditional_t<cheap_lookup, signed_halves_rounder, two_bit_mantissa_rounder>;
inline constexpr rounding_plan::kind by_binades =
    cheap_lookup ? rounding_plan::kind::halves : rounding_plan::kind::two_bit_mantissa;

/// Code j of a word.
template <class Rounder>
UFP4_LANE u32 add_index(u32 word, std::size_t j, u32 index, f32 t) {
  if constexpr (std::is_same_v<Rounder, signed_halves_rounder>)
    return add_signed_code<Rounder::bit>(word, static_cast<int>(j), index);
  else
    return add_code<Rounder::bit>(word, static_cast<int>(j), index, t);
}
/// The codes of a word of indices.
UFP4_LANE u32 codes_of(const rounding_plan& p, u32 word) {
  return p.maps ? map_nibbles(load_nibble_map(p.code), word) : word;
}
inline float end_of_binade(float x) { return ufp4::detail::to_float((to_bits(x) & 0x7F800000u) + 0x00800000u); }

/// Stochastic rounding of a value at `distance` from its lower neighbour (numerics 3): bit 16 is set if it moves up.
UFP4_LANE u32 stochastic_carry(f32 distance, f32 gap_reciprocal, u32 random) {
  const f32 k = fma(distance, gap_reciprocal, broadcast(0.5f));
  return reinterpret_cast<u32>(__builtin_convertvector(k, i32)) + random;
}

/// Stochastic rounding on magnitudes 0 .. 7 units: index and fraction in one sum, floor(fl(|t| / unit * 65536 + 1/2)).
/// Seven units have 19 bits before the point, so a sum that is rounded at all stays between the same two integers: the
/// fraction alone, which numerics 3 takes, gives the same 16 bits.
struct uniform_stochastic_rounder {
  static constexpr bool is_stochastic = true;
  static constexpr int bit = 16;
  f32 qmax, scale;
  UFP4_LANE explicit uniform_stochastic_rounder(const rounding_plan& p)
      : qmax(broadcast(p.qmax)), scale(broadcast(65536.0f / p.unit)) {}
  UFP4_LANE u32 operator()(f32 t, u32 random) const {
    return stochastic_carry(magnitude_at_most(t, qmax), scale, random);
  }
};

/// Stochastic rounding on magnitudes 0 1 2 3 4 6 8 12 units: the sum of the codes up to 2 units, with their fraction,
/// and of those above. The former is that of uniform_stochastic_rounder. Above, the bits of a float count two codes in
/// a binade with a fraction of 22 bits, which numerics 3 rounds to 16 bits without another rounding.
struct two_bit_mantissa_stochastic_rounder {
  static constexpr bool is_stochastic = true;
  static constexpr int bit = 16;
  f32 qmax, normal, scale;
  u32 offset;
  UFP4_LANE explicit two_bit_mantissa_stochastic_rounder(const rounding_plan& p)
      : qmax(broadcast(p.qmax)),
        normal(broadcast(2 * p.unit)),
        scale(broadcast(65536.0f / p.unit)),
        offset(broadcast(32u - to_bits(2 * p.unit))) {}
  UFP4_LANE u32 operator()(f32 t, u32 random) const {
    const f32 a = magnitude_at_most(t, qmax);
    return stochastic_carry(at_most(a, normal), scale, random) + ((as_bits(at_least(a, normal)) + offset) >> 6);
  }
};

/// Stochastic rounding on the grids of halves_rounder whose gaps are powers of two.
struct halves_stochastic_rounder {
  static constexpr bool is_stochastic = true;
  static constexpr int bit = 16;
  halves_rounder down;
  table16 level, gap;
  UFP4_LANE explicit halves_stochastic_rounder(const rounding_plan& p)
      : down(p), level(load_table(p.level)), gap(load_table(p.gap)) {}
  UFP4_LANE u32 operator()(f32 t, u32 random) const {
    const f32 a = magnitude_at_most(t, down.qmax);
    const u32 index = down.index_of(a) >> halves_rounder::bit;
    return stochastic_carry(a - lookup(level, index), lookup(gap, index), random) + (index << 16);
  }
};

#if UFP4_LANE_COUNT == 16
/// The bins at the ends, as sums with level_bins::zero. Sums below 0 and NaNs are clamped too.
struct bin_ends {
  i32 first, last;
  UFP4_LANE explicit bin_ends(const level_bins& b)
      : first(reinterpret_cast<i32>(broadcast(b.first))), last(reinterpret_cast<i32>(broadcast(b.last))) {}
  UFP4_LANE u32 clamped(u32 bin) const {
    return reinterpret_cast<u32>(minimum(maximum(reinterpret_cast<i32>(bin), first), last));
  }
};
#endif

/// Any grid and any rounding, several values at a time, since the cuts are a loop: whole nibbles, the sign in bit 3
/// where the grid is symmetric.
struct cuts_rounder {
  const rounding_plan& plan;

  template <std::size_t count>
  UFP4_LANE void ranks(const f32 (&t)[count], u32 (&index)[count]) const {
#if UFP4_LANE_COUNT == 16
    if (plan.ranks.usable) return ranks_by_bins(t, index);
#endif
    for (int i = 0; i < plan.cuts; ++i) {
      const f32 cut = broadcast(plan.cut[i]);
#pragma GCC unroll 4
      for (std::size_t j = 0; j < count; ++j) index[j] -= reinterpret_cast<u32>(t[j] > cut);
    }
  }
#if UFP4_LANE_COUNT == 16
  template <std::size_t count>
  UFP4_LANE void ranks_by_bins(const f32 (&t)[count], u32 (&index)[count]) const {
    const rank_bins& r = plan.ranks;
    const table16 below[2] = {load_table(r.below), load_table(r.below + 16)},
                  cut[2] = {load_table(r.cut), load_table(r.cut + 16)};
    const f32 per_width = broadcast(r.bins.per_width), zero = broadcast(level_bins::zero);
    const bin_ends ends(r.bins);
#pragma GCC unroll 4
    for (std::size_t j = 0; j < count; ++j) {
      const u32 bin = ends.clamped(as_bits(fma(t[j], per_width, zero)));
      index[j] = as_bits(lookup(below[0], below[1], bin)) - reinterpret_cast<u32>(t[j] > lookup(cut[0], cut[1], bin));
    }
  }
#endif
  UFP4_LANE u32 sign(f32 t) const { return (as_bits(t) & plan.sign_mask) >> 28; }
  UFP4_LANE f32 value(f32 t) const { return as_float(as_bits(t) & plan.value_mask); }
  /// Rounds down to `index`, then moves up or not by the distance from the neighbour nearer to zero.
  UFP4_LANE u32 moved(f32 t, u32 index, u32 random) const {
    const table16 level = load_table(plan.level), gap = load_table(plan.gap);
    t = at_most(at_least(t, broadcast(plan.level[0])), broadcast(plan.level[plan.cuts]));
    const u32 negative = reinterpret_cast<u32>(t < 0.0f) & 1u;
    f32 distance = magnitude(t - lookup(level, index + negative)), by = lookup(gap, index);
    if (!plan.exact_gaps) {  // the product with 65536 is exact, so one rounding or two are the same
      distance = distance / by;
      by = broadcast(65536.0f);
    }
    return index + (stochastic_carry(distance, by, random) >> 16 ^ negative);
  }
};

// ---- Without a division: values under a product with the reciprocal of their scale. `doubt` becomes small where the
// rounding of that product could have changed the code.

/// v = |x| / (scale * unit) + 8.5, a few ulp off, is in [8, 16): the index is in bits 20..22, and the bits below are
/// small or large only near a tie. The product's two roundings are worth 7.25 * 2^-23, the sum's 2^-21: two ulp of
/// 2^-20 in all.
struct near_uniform {
  static constexpr bool is_stochastic = false;
  static constexpr float end = 7.25f;  ///< magnitude times scale may be so large and a little more
  static constexpr int bit = 20;
  static constexpr std::uint32_t limit = 4;
  f32 scale, bound, offset;
  UFP4_LANE near_uniform(const rounding_plan& p, f32 factor)
      : scale(1.0f / factor * (1.0f / p.unit)),
        bound(factor * (7.25f * p.unit)),
        offset(broadcast(8.5f + 2 * 0x1p-20f)) {}
  UFP4_LANE u32 operator()(f32 x, u32& doubt, u32) const { return of_magnitude(magnitude_at_most(x, bound), doubt); }
  UFP4_LANE u32 of_magnitude(f32 x, u32& doubt) const {
    const u32 v = as_bits(fma(x, scale, offset));
    doubt = minimum(doubt, v & 0x000FFFFFu);
    return v;
  }
};

/// The index of |x| / (2 * scale * unit) + near_offset by plan_near. Errors: the product's two roundings are worth two
/// ulp of the sum at most, the sum's a half.
struct near_two_bit_mantissa {
  static constexpr bool is_stochastic = false;
  static constexpr float end = 7.25f;
  static constexpr int bit = 24;
  static constexpr std::uint32_t limit = 2 * near_margin;
  table16 step;
  f32 scale, bound, offset;
  UFP4_LANE near_two_bit_mantissa(const rounding_plan& p, f32 factor)
      : step(load_table(p.near_step)),
        scale(1.0f / factor * (0.5f / p.unit)),
        bound(factor * (11.5f * p.unit)),
        offset(broadcast(near_offset)) {}
  UFP4_LANE u32 operator()(f32 x, u32& doubt, u32) const { return of_magnitude(magnitude_at_most(x, bound), doubt); }
  UFP4_LANE u32 of_magnitude(f32 x, u32& doubt) const {
    const u32 bits = as_bits(fma(x, scale, offset));
    const u32 v = bits + as_bits(lookup(step, bits >> 21));
    doubt = minimum(doubt, v & 0x00FFFFFFu);
    return v;
  }
};

/// Stochastic rounding on magnitudes 0 .. 7 units, with one added to the fraction of 16 bits. A product with the
/// reciprocal moves |t| / unit * 65536, less than 2^19, by less than a half, and so the fraction by at most one: only
/// next to a carry can that change the index. A bound that is a little off changes no more.
struct near_uniform_stochastic {
  static constexpr bool is_stochastic = true;
  static constexpr float end = 0;  ///< every magnitude needs the bound
  static constexpr int bit = 16;
  static constexpr std::uint32_t limit = 2;
  f32 scale, bound, offset;
  UFP4_LANE near_uniform_stochastic(const rounding_plan& p, f32 factor)
      : scale(1.0f / factor * (65536.0f / p.unit)), bound(factor * (7 * p.unit)), offset(broadcast(1.5f)) {}
  UFP4_LANE u32 operator()(f32 x, u32& doubt, u32 random) const {
    const f32 fraction = fma(magnitude_at_most(x, bound), scale, offset);
    const u32 sum = reinterpret_cast<u32>(__builtin_convertvector(fraction, i32)) + random;
    doubt = minimum(doubt, sum & 0xFFFFu);
    return sum;
  }
};
UFP4_END_LANES
#endif
