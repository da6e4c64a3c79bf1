// ufp4 - the scale of a block, and sixteen of its elements divided by it and rounded to codes, in one thread.
// SPDX-License-Identifier: Apache-2.0
//
// The bits of round/round_to_grid.hpp. The library's uniform grids and E2M1, with nearest_even and stochastic, take six
// to ten instructions a value, without branches or tables. Every other grid or rounding loops over the levels.
#pragma once

#include <ufp4/block/block_codec.hpp>
#include <ufp4/gpu/thread/elements.hpp>

namespace ufp4::gpu::thread::inline UFP4_GPU {

/// Sixteen numbers of sixteen random bits, two in each word, the first in the low half.
struct sixteen_random_bits {
  std::uint32_t word[8];  ///< two elements in a word

  /// The 16 random bits of element j.
  UFP4_DEVICE std::uint32_t random_word(unsigned j) const {
    return j % 2 == 0 ? word[j / 2] & 0xFFFFu : word[j / 2] >> 16;
  }
};

/// The random bits of elements index .. index + 15 (numerics 3), index a multiple of eight, by two Philox calls.
UFP4_DEVICE sixteen_random_bits draw_sixteen(const stochastic& s, std::uint64_t index) {
  const philox_counter low = s.random_bits(index >> 3), high = s.random_bits((index >> 3) + 1);
  sixteen_random_bits c;
  UFP4_UNROLL
  for (unsigned w = 0; w < 4; ++w) {
    c.word[w] = low.word[w];
    c.word[4 + w] = high.word[w];
  }
  return c;
}

/// How to round to a grid.
///
/// | levels           | by a loop over the levels                                                                 |
/// | uniform          | magnitudes 0 .. 7 units: an addition whose last bit is the unit rounds to nearest even    |
/// | two_bit_mantissa | 0 1 2 3 4 6 8 12 units: the same with the unit of the value's binade, which has two codes |
struct rounding_plan {
  enum class grid : std::uint8_t { levels, uniform, two_bit_mantissa };  ///< How codes are computed.
  grid kind = grid::levels;                                              ///< how codes are computed
  bool twos_complement = false;                                          ///< else a code is sign << 3 | magnitude
  float unit = 0;                                                        ///< a power of two from 2^-8 to 2^8
  std::uint32_t qmax_bits = 0;                                           ///< the bits of qmax
  std::uint32_t zeros = 0;                                               ///< eight codes of +0
};

/// Are the levels of the grid these multiples of the unit, with both signs?
UFP4_HD constexpr bool has_magnitudes(const grid4& g, float unit, const int (&multiple)[8]) {
  bool same = true;
  for (int i = 0; i < 8; ++i) {
    const float magnitude = unit * static_cast<float>(multiple[i]);
    same = same && g.level[7 + i] == magnitude && g.level[7 - i] == -magnitude;
  }
  return same;
}

/// The plan of a grid.
UFP4_HD constexpr rounding_plan plan_of(const grid4& g) {
  rounding_plan p;
  p.zeros = g.code[g.zero] * 0x11111111u;
  p.qmax_bits = to_bits(g.qmax);
  if (g.levels != 15 || g.zero != 7) return p;
  p.unit = g.level[8];
  const std::uint32_t bits = to_bits(p.unit);
  if ((bits & 0x007FFFFFu) != 0 || bits < 119u << 23 || bits > 135u << 23) return p;
  bool magnitudes = g.minus_zero == 8, complements = g.minus_zero == 0;
  for (int i = 0; i < 8; ++i) {
    magnitudes = magnitudes && g.code[7 + i] == i && (i == 0 || g.code[7 - i] == (8 | i));
    complements = complements && g.code[7 + i] == i && g.code[7 - i] == ((16 - i) & 15);
  }
  if (!magnitudes && !complements) return p;
  p.twos_complement = complements;
  if (has_magnitudes(g, p.unit, {0, 1, 2, 3, 4, 5, 6, 7})) p.kind = rounding_plan::grid::uniform;
  if (has_magnitudes(g, p.unit, {0, 1, 2, 3, 4, 6, 8, 12})) p.kind = rounding_plan::grid::two_bit_mantissa;
  return p;
}

/// The codes of sixteen elements as they are stored: eight in each word, the first in the low nibble.
struct sixteen_codes {
  std::uint32_t word[2] = {0, 0};  ///< sixteen codes, the first in the low bits

  /// Adds sign << 3 | index as the code of element j; the highest bit of `t` is the sign.
  UFP4_DEVICE void add(unsigned j, std::uint32_t index, std::uint32_t t) {
    const unsigned at = 4 * (j % 8);
    word[j / 8] |= index << at | (t >> (28 - at) & (8u << at));
  }
  /// Converts the codes to two's complement. For a negative nibble of magnitude m, 8 - m borrows nothing from the next
  /// nibble; with bit 3 inverted it is 16 - m, or 0 for m = 0.
  UFP4_DEVICE void complement() {
    UFP4_UNROLL
    for (unsigned w = 0; w < 2; ++w) {
      constexpr std::uint32_t signs = 0x88888888u;
      const std::uint32_t negative = word[w] & signs, mask = negative | (negative - (negative >> 3));
      word[w] = (word[w] & ~mask) | (((signs - (word[w] & ~signs)) ^ signs) & mask);
    }
  }
};

/// |t|, at most qmax.
UFP4_DEVICE float clamped(const rounding_plan& p, float t) {
  const std::uint32_t m = magnitude_bits(t);
  return to_float(m < p.qmax_bits ? m : p.qmax_bits);
}

/// The exponent field of a value on a grid with two bits of mantissa; below two units that of two.
UFP4_DEVICE std::uint32_t binade_of(const rounding_plan& p, float a) {
  const std::uint32_t least = to_bits(2 * p.unit), bits = to_bits(a);
  return (bits > least ? bits : least) & 0x7F800000u;
}
/// Two codes for each binade above that of two units.
UFP4_DEVICE std::uint32_t codes_below(const rounding_plan& p, std::uint32_t binade) {
  return (binade - to_bits(2 * p.unit)) >> 22;
}

/// The index of |t| rounded to nearest even.
UFP4_DEVICE std::uint32_t nearest_index(const rounding_plan& p, float t) {
  const float a = clamped(p, t);
  if (p.kind == rounding_plan::grid::uniform)  // 1.5 * 2^23 units
    return to_bits(a + p.unit * 12582912.0f) & 7u;
  const std::uint32_t binade = binade_of(p, a);  // 2^e; the last bit of 2^(e + 22) is 2^(e - 1)
  return (to_bits(a + to_float(binade + (22u << 23))) & 7u) + codes_below(p, binade);
}

/// floor(x) for 0 <= x < 2^22 in the low bits, 0x4B000000 above them. It is an addition that rounds down: a conversion
/// to an integer has a quarter of its rate.
UFP4_DEVICE std::uint32_t floor_bits(float x) {
#if defined(UFP4_HAS_ADD_DOWN)
  return to_bits(device_add_down(x, 0x1p23f));
#else
  return 0x4B000000u + static_cast<std::uint32_t>(x);
#endif
}

/// Bits 16 and up of floor(fl(|t| / step * 65536 + 1/2)) + random number are the index, whereas numerics 3 uses only
/// the fraction of |t| / step. For index 0 that is the same sum. For others |t| / step * 65536 is a multiple of 2^-7 or
/// more, so both sums are exact, or this one is rounded just above a power of two, which does not change the floor.
UFP4_DEVICE std::uint32_t stochastic_index(const rounding_plan& p, float t, std::uint32_t random_word) {
  const float a = clamped(p, t);
  if (p.kind == rounding_plan::grid::uniform)
    return (floor_bits(fma(a, 65536.0f / p.unit, 0.5f)) + random_word) >> 16 & 7u;
  const std::uint32_t binade = binade_of(p, a);         // 2^e; a step is 2^(e - 1)
  const float steps = to_float((271u << 23) - binade);  // 65536 / 2^(e - 1)
  return ((floor_bits(fma(a, steps, 0.5f)) + random_word) >> 16 & 7u) + codes_below(p, binade);
}

/// By the scalar code, one value at a time. t is a copy in local memory, so that the other paths keep v in registers.
template <rounding_policy Rounding>
UFP4_DEVICE sixteen_codes round_by_levels(const grid4& grid, const Rounding& rounding, const float (&v)[run_of_thread],
                                          std::uint64_t index) {
  float t[run_of_thread];
  for (unsigned j = 0; j < run_of_thread; ++j) t[j] = v[j];
  sixteen_codes out;
  for (unsigned j = 0; j < run_of_thread; ++j)
    out.word[j / 8] |= std::uint32_t{round_to_grid(grid, rounding, t[j], index + j)} << (4 * (j % 8));
  return out;
}

/// stochastic with random bits that were drawn before: two Philox calls for sixteen values.
struct drawn_sixteen {
  sixteen_random_bits random_bits;  ///< of the sixteen elements
  UFP4_DEVICE bool round_up(const neighbours& n, float t, std::uint64_t index) const {
    return stochastic::moves_up(n, t, random_bits.random_word(static_cast<unsigned>(index % 16)));
  }
};

/// The codes where no plan applies.
UFP4_DEVICE sixteen_codes round_other(const grid4& grid, const rounding_spec& rounding, const float (&v)[run_of_thread],
                                      std::uint64_t index) {
  if (rounding.what != rounding_spec::kind::stochastic) return round_by_levels(grid, rounding, v, index);
  return round_by_levels(grid, drawn_sixteen{draw_sixteen(rounding.random_bits, index)}, v, index);
}

/// The codes of sixteen scaled, finite values. `index`: the element index of the first (numerics 3), a multiple of 16.
UFP4_DEVICE sixteen_codes round_sixteen(const rounding_plan& p, const grid4& grid, const rounding_spec& rounding,
                                        const float (&t)[run_of_thread], std::uint64_t index) {
  const bool random_bits = rounding.what == rounding_spec::kind::stochastic;
  const bool even = rounding.what == rounding_spec::kind::nearest_even;
  if (p.kind == rounding_plan::grid::levels || !(random_bits || even)) return round_other(grid, rounding, t, index);
  sixteen_codes out;
  if (even) {
    UFP4_UNROLL
    for (unsigned j = 0; j < run_of_thread; ++j) out.add(j, nearest_index(p, t[j]), to_bits(t[j]));
  } else {
    const sixteen_random_bits drawn = draw_sixteen(rounding.random_bits, index);
    UFP4_UNROLL
    for (unsigned j = 0; j < run_of_thread; ++j)
      out.add(j, stochastic_index(p, t[j], drawn.random_word(j)), to_bits(t[j]));
  }
  if (p.twos_complement) out.complement();
  return out;
}

/// The bits of the largest magnitude; infinity_bits or more if a value is not finite.
UFP4_DEVICE std::uint32_t amax_bits(const float (&v)[run_of_thread]) {
  std::uint32_t amax = 0;
  UFP4_UNROLL
  for (unsigned j = 0; j < run_of_thread; ++j) {
    const std::uint32_t m = magnitude_bits(v[j]);
    amax = m > amax ? m : amax;
  }
  return amax;
}

/// choose_scale (block/scale_rules.hpp) for the rules that depend only on the amax.
UFP4_DEVICE block_scale scale_of(const format_spec& f, const scale_rule_spec& rule, const tensor_constants& tensor,
                                 std::uint32_t amax) {
  const float magnitude = to_float(amax);
  if (f.scale == scale_kind::e8m0)
    return ufp4::detail::scale_from_bits(f, tensor, ufp4::detail::power_of_two_scale(f.grid, rule.what, magnitude));
  const float argument = ufp4::detail::scale_argument(f, tensor, magnitude);
  const std::uint32_t bits = rule.what == scale_rule_spec::kind::up ? ufp4::detail::encode_scale_up(f.scale, argument)
                                                                    : ufp4::detail::encode_scale(f.scale, argument);
  return ufp4::detail::scale_from_bits(f, tensor, bits);
}

/// x / s correctly rounded, where y is 1 / s correctly rounded: two steps of Markstein's iteration, four fma after the
/// product. After the first step the error is below one unit in the last place; the second rounds once (Markstein 1990:
/// a faithful quotient, a correctly rounded reciprocal, an exact remainder). For s from 2^-60 to 2^60 nothing
/// overflows, and the remainder is exact if the quotient is 2^-30 or more. Smaller quotients may be wrong by one ulp,
/// which does not change their code in any plan except `levels`. The sign is that of x: sums lose that of a zero.
UFP4_DEVICE float quotient(float x, float s, float y) {
  float q = ufp4::detail::product(x, y);
  q = fma(fma(-q, s, x), y, q);
  q = fma(fma(-q, s, x), y, q);
  return to_float(magnitude_bits(q) | (to_bits(x) & ufp4::detail::sign_mask));
}

/// The values that are rounded to codes: x * factor, or x / factor, correctly rounded (numerics 5).
UFP4_DEVICE void scale_sixteen(const rounding_plan& p, const block_scale& scale, float (&v)[run_of_thread]) {
  const float s = scale.factor;
  if (!scale.divides) {
    UFP4_UNROLL
    for (unsigned j = 0; j < run_of_thread; ++j) v[j] = ufp4::detail::product(v[j], s);
  } else if (p.kind != rounding_plan::grid::levels && to_bits(s) - (67u << 23) < 120u << 23) {
    const float y = 1.0f / s;
    UFP4_UNROLL
    for (unsigned j = 0; j < run_of_thread; ++j) v[j] = quotient(v[j], s, y);
  } else {
    UFP4_UNROLL
    for (unsigned j = 0; j < run_of_thread; ++j) v[j] = v[j] / s;
  }
}

/// The number of scaled values above qmax in magnitude.
UFP4_DEVICE std::uint32_t count_beyond(const rounding_plan& p, const float (&t)[run_of_thread]) {
  std::uint32_t beyond = 0;
  UFP4_UNROLL
  for (unsigned j = 0; j < run_of_thread; ++j) beyond += magnitude_bits(t[j]) > p.qmax_bits;
  return beyond;
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
