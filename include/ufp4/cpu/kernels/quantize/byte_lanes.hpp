// ufp4 - blocks of scaled values to words of four codes of one byte, a block a lane.
// SPDX-License-Identifier: Apache-2.0
//
// The codes of round_to_int8 and round_to_minifloat (round/). No division by the unit rounds, because it is a power of
// two.
#if !defined(UFP4_BYTE_LANES)
#define UFP4_BYTE_LANES
#include <ufp4/cpu/kernels/quantize/code_lanes.hpp>

UFP4_BEGIN_LANES(quantize_kernel)

/// What such rounders are set up with: unit, qmax, and the fraction of a unit from which on `rounding` goes away from
/// zero as cut[0]; of floats the bits of the mantissa, and the sign bit as sign_mask.
inline rounding_plan byte_plan(const format_spec& f, rounding_spec::kind rounding) {
  rounding_plan p;
  p.unit = f.grid.unit;
  p.qmax = f.grid.qmax;
  p.range = value_range_of(f.grid);
  p.cut[0] = rounding == rounding_spec::kind::nearest_away ? 0.5f : infinity;
  if (f.byte == byte_element::int8) return p;
  const minifloat layout = byte_layout(f.byte);
  p.mantissa_bits = static_cast<std::uint32_t>(layout.mantissa_bits);
  p.sign_mask = layout.sign_bit();
  return p;
}

/// To nearest even: the sum with 1.5 * 2^23 units has the code in its low byte.
struct byte_nearest {
  static constexpr bool is_stochastic = false;
  f32 least, most, shift;
  UFP4_LANE explicit byte_nearest(const rounding_plan& p)
      : least(broadcast(-p.qmax)), most(broadcast(p.qmax)), shift(broadcast(p.unit * 12582912.0f)) {}
  UFP4_LANE u32 operator()(f32 t, u32) const { return as_bits(at_most(at_least(t, least), most) + shift); }
};

/// Any policy: the integer below some units, and one more if their fraction, which is exact, reaches `away`.
template <bool is_random>
UFP4_LANE u32 rounded_units(f32 units, f32 away, u32 random) {
  const i32 below = __builtin_convertvector(units, i32);
  const f32 fraction = units - to_float(below);
  if constexpr (is_random)
    return reinterpret_cast<u32>(below) + (stochastic_carry(fraction, broadcast(65536.0f), random) >> 16);
  return reinterpret_cast<u32>(below - (fraction >= away));
}

/// Any policy, on the units of the magnitude.
template <bool is_random>
struct byte_rounder {
  static constexpr bool is_stochastic = is_random;
  f32 per_unit, away;  ///< `away`: the fraction that rounds up
  UFP4_LANE explicit byte_rounder(const rounding_plan& p)
      : per_unit(broadcast(1.0f / p.unit)), away(broadcast(p.cut[0])) {}
  UFP4_LANE u32 operator()(f32 t, u32 random) const {
    const f32 units = magnitude_at_most(t * per_unit, broadcast(127.0f));
    const i32 n = reinterpret_cast<i32>(rounded_units<is_random>(units, away, random));
    const i32 sign = reinterpret_cast<i32>(t) >> 31;
    return reinterpret_cast<u32>((n ^ sign) - sign);
  }
};

/// Codes of floats. In the binade of a magnitude they count multiples of its quantum: those of the magnitude and, for
/// each binade from the smallest on, 2^mantissa_bits. Subnormal numbers have the quantum of the smallest binade.
struct byte_float_codes {
  std::uint32_t dropped, sign;  ///< bits of a binary32 mantissa that the float has not; place of its sign bit
  f32 qmax, normal;
  UFP4_LANE explicit byte_float_codes(const rounding_plan& p)
      : dropped(23 - p.mantissa_bits),
        sign(31 - static_cast<std::uint32_t>(__builtin_ctz(p.sign_mask))),
        qmax(broadcast(p.qmax)),
        normal(broadcast(p.smallest_normal())) {}
  /// The exponent field of the binade.
  UFP4_LANE u32 binade(f32 a) const { return as_bits(at_least(a, normal)) & 0x7F800000u; }
  /// The code of `count` quanta with the sign of t.
  UFP4_LANE u32 code(u32 count, u32 binade, f32 t) const {
    return (count + ((binade - as_bits(normal)) >> dropped)) | (as_bits(t) & 0x80000000u) >> sign;
  }
};

/// To nearest even: the sum with 2^23 quanta counts them.
struct byte_float_nearest : byte_float_codes {
  static constexpr bool is_stochastic = false;
  UFP4_LANE explicit byte_float_nearest(const rounding_plan& p) : byte_float_codes(p) {}
  UFP4_LANE u32 operator()(f32 t, u32) const {
    const f32 a = magnitude_at_most(t, qmax);
    const u32 binade = this->binade(a), shift = binade + (dropped << 23);
    return code(as_bits(a + as_float(shift)) - shift, binade, t);
  }
};

/// Any policy, as byte_rounder has them.
template <bool is_random>
struct byte_float_rounder : byte_float_codes {
  static constexpr bool is_stochastic = is_random;
  f32 away;
  UFP4_LANE explicit byte_float_rounder(const rounding_plan& p) : byte_float_codes(p), away(broadcast(p.cut[0])) {}
  UFP4_LANE u32 operator()(f32 t, u32 random) const {
    const f32 a = magnitude_at_most(t, qmax);
    const u32 binade = this->binade(a);
    const f32 quanta = a * as_float(((277u - dropped) << 23) - binade);
    return code(rounded_units<is_random>(quanta, away, random), binade, t);
  }
};

template <class Rounder>
void code_byte_elements(const rounding_plan& p, const lane_blocks& v, u32* words) {
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

template <features needs, template <bool> class Rounder, class Nearest>
code_blocks* code_byte_elements_by(rounding_spec::kind rounding) {
  if constexpr (has(needs, features::random_bits))
    if (rounding == rounding_spec::kind::stochastic) return &code_byte_elements<Rounder<true>>;
  return rounding == rounding_spec::kind::nearest_even ? &code_byte_elements<Nearest>
                                                       : &code_byte_elements<Rounder<false>>;
}
template <features needs>
code_blocks* code_byte_elements_of(byte_element what, rounding_spec::kind rounding) {
  if constexpr (has(needs, features::byte_float))
    if (what != byte_element::int8)
      return code_byte_elements_by<needs, byte_float_rounder, byte_float_nearest>(rounding);
  return code_byte_elements_by<needs, byte_rounder, byte_nearest>(rounding);
}
UFP4_END_LANES
#endif
