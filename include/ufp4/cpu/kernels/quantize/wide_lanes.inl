// ufp4 - blocks of scaled values to words of four codes of one byte, a block a lane.
// SPDX-License-Identifier: Apache-2.0
//
// The codes of round_to_int8 (round/round_to_int8.hpp). No division by the unit rounds, because it is a power of two.

/// What such rounders are set up with: unit, qmax, and the fraction of a unit from which on `rounding` goes away from
/// zero as cut[0].
inline rounding_plan wide_plan(const format_spec& f, rounding_spec::kind rounding) {
  rounding_plan p;
  p.unit = f.grid.unit;
  p.qmax = f.grid.qmax;
  p.cut[0] = rounding == rounding_spec::kind::nearest_away ? 0.5f : infinity;
  return p;
}

/// To nearest even: the sum with 1.5 * 2^23 units has the code in its low byte.
struct wide_nearest {
  static constexpr bool is_stochastic = false;
  f32 least, most, shift;
  UFP4_LANE explicit wide_nearest(const rounding_plan& p)
      : least(broadcast(-p.qmax)), most(broadcast(p.qmax)), shift(broadcast(p.unit * 12582912.0f)) {}
  UFP4_LANE u32 operator()(f32 t, u32) const { return as_bits(at_most(at_least(t, least), most) + shift); }
};

/// Any policy, on the units of the magnitude: the integer below them, and one more if a fraction, which is exact,
/// reaches a limit.
template <bool is_random>
struct wide_rounder {
  static constexpr bool is_stochastic = is_random;
  f32 per_unit, away;  ///< `away`: the fraction that rounds up
  UFP4_LANE explicit wide_rounder(const rounding_plan& p)
      : per_unit(broadcast(1.0f / p.unit)), away(broadcast(p.cut[0])) {}
  UFP4_LANE u32 operator()(f32 t, u32 random) const {
    const f32 units = magnitude_at_most(t * per_unit, broadcast(127.0f));
    const i32 below = __builtin_convertvector(units, i32);
    const f32 fraction = units - to_float(below);
    i32 n = below;
    if constexpr (is_random)
      n += reinterpret_cast<i32>(stochastic_carry(fraction, broadcast(65536.0f), random) >> 16);
    else
      n -= fraction >= away;
    const i32 sign = reinterpret_cast<i32>(t) >> 31;
    return reinterpret_cast<u32>((n ^ sign) - sign);
  }
};

template <class Rounder>
void code_wide(const rounding_plan& p, const lane_blocks& v, u32* words) {
  const Rounder rounder(p);
  const float* x = v.x;
  u32 random_words[Rounder::is_stochastic ? max_transform / 8 : 1][4];
  if constexpr (Rounder::is_stochastic) v.random_bits->draw(v.count * v.length / 8, random_words);
  std::size_t element = 0;
  for (std::size_t b = 0; b < v.count; ++b) {
    const f32 factor = v.scales[b].factor;
    for (std::size_t k = 0; k < v.length; k += 4, element += 4) {
      u32 code[4];
#pragma GCC unroll 4
      for (std::size_t j = 0; j < 4; ++j, x += lanes) {
        const f32 t = v.divides ? load(x) / factor : rounded(load(x) * factor);
        u32 random{};
        if constexpr (Rounder::is_stochastic)
          random = random_bit_lanes::of(random_words[element / 8], static_cast<int>(element % 8 + j));
        code[j] = rounder(t, random) & 0xFFu;
      }
      const u32 word = code[0] | code[1] << 8 | code[2] << 16 | code[3] << 24;
      *words++ = v.scales[b].zero != 0u ? u32{} : word;
    }
  }
}

template <quantize_needs needs>
code_blocks* code_wide_of(rounding_spec::kind rounding) {
  if constexpr (has_every_rounding(needs))
    if (rounding == rounding_spec::kind::stochastic) return &code_wide<wide_rounder<true>>;
  return rounding == rounding_spec::kind::nearest_even ? &code_wide<wide_nearest> : &code_wide<wide_rounder<false>>;
}
