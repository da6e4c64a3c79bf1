// ufp4 - rounders: scaled values to indices of a grid, over one instruction set's lanes.
// SPDX-License-Identifier: Apache-2.0
//
// A rounder gives the index of |t| in three bits from `bit` on, with the next bit clear and the other bits arbitrary.
// `random` is the random number of the element, 16 bits; only rounders with is_stochastic read it.

UFP4_LANE f32 magnitude(f32 t) { return as_float(as_bits(t) & ufp4::detail::magnitude_mask); }

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
        offset(broadcast(0u - ((ufp4::detail::to_bits(2 * p.unit) + (std::uint32_t{22} << 23)) >> 22))) {}
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
  UFP4_LANE u32 index_of(f32 magnitude) const {
    const u32 bits = as_bits(at_least(magnitude, lowest));
    return bits + as_bits(lookup(step, bits >> 22));
  }
};

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

/// Any grid and any rounding, several values at a time, since the cuts are a loop: whole nibbles, the sign in bit 3
/// where the grid is symmetric.
struct cuts_rounder {
  const rounding_plan& plan;

  template <std::size_t count>
  UFP4_LANE void ranks(const f32 (&t)[count], u32 (&index)[count]) const {
    for (int i = 0; i < plan.cuts; ++i) {
      const f32 cut = broadcast(plan.cut[i]);
#pragma GCC unroll 4
      for (std::size_t j = 0; j < count; ++j) index[j] -= reinterpret_cast<u32>(t[j] > cut);
    }
  }
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
  static constexpr int bit = 20;
  static constexpr std::uint32_t limit = 4;
  f32 scale, bound, offset;
  UFP4_LANE near_uniform(const rounding_plan& p, f32 factor)
      : scale(1.0f / factor * (1.0f / p.unit)),
        bound(factor * (7.25f * p.unit)),
        offset(broadcast(8.5f + 2 * 0x1p-20f)) {}
  UFP4_LANE u32 operator()(f32 x, u32& doubt, u32) const {
    const u32 v = as_bits(fma(magnitude_at_most(x, bound), scale, offset));
    doubt = minimum(doubt, v & 0x000FFFFFu);
    return v;
  }
};

/// The index of |x| / (2 * scale * unit) + near_offset by plan_near. Errors: the product's two roundings are worth two
/// ulp of the sum at most, the sum's a half.
struct near_two_bit_mantissa {
  static constexpr bool is_stochastic = false;
  static constexpr int bit = 24;
  static constexpr std::uint32_t limit = 2 * near_margin;
  table16 step;
  f32 scale, bound, offset;
  UFP4_LANE near_two_bit_mantissa(const rounding_plan& p, f32 factor)
      : step(load_table(p.near_step)),
        scale(1.0f / factor * (0.5f / p.unit)),
        bound(factor * (11.5f * p.unit)),
        offset(broadcast(near_offset)) {}
  UFP4_LANE u32 operator()(f32 x, u32& doubt, u32) const {
    const u32 bits = as_bits(fma(magnitude_at_most(x, bound), scale, offset));
    const u32 v = bits + as_bits(lookup(step, bits >> 21));
    doubt = minimum(doubt, v & 0x00FFFFFFu);
    return v;
  }
};
