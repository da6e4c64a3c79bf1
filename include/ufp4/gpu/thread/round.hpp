// ufp4 - sixteen elements divided by the scale of their block and rounded to codes, in one thread.
// SPDX-License-Identifier: Apache-2.0
//
// The bits of round/round_to_grid.hpp. The library's uniform grids and E2M1, with nearest_even and stochastic, take six
// to eleven instructions a value, without branches or tables: code_by_plan. Every other grid or rounding loops over the
// levels: code_by_levels.
#pragma once

#include <ufp4/block/block_codec.hpp>
#include <ufp4/gpu/thread/decode.hpp>
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

/// The seed and stream of stochastic rounding with the keys of Philox's rounds, which then cost no instructions.
struct random_source {
  std::uint64_t stream = 0;                                      ///< of stochastic
  std::uint32_t k0[philox_rounds] = {}, k1[philox_rounds] = {};  ///< of each round

  /// The random bits of eight elements, as stochastic::random_bits.
  UFP4_DEVICE philox_counter random_bits(std::uint64_t group) const {
    philox_counter c{{static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32),
                      static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}};
    UFP4_UNROLL
    for (int round = 0; round < philox_rounds; ++round) c = philox_round(c, k0[round], k1[round]);
    return c;
  }
};
/// Of a rounding.
UFP4_HD constexpr random_source random_source_of(const stochastic& s) {
  random_source r{s.stream};
  for (std::uint32_t round = 0; round < std::uint32_t{philox_rounds}; ++round) {
    r.k0[round] = static_cast<std::uint32_t>(s.seed) + round * philox_step0;
    r.k1[round] = static_cast<std::uint32_t>(s.seed >> 32) + round * philox_step1;
  }
  return r;
}

/// The random bits of elements index .. index + 15 (numerics 3), index a multiple of 16, by two Philox calls. From
/// stochastic or a random_source.
template <class Source>
UFP4_DEVICE sixteen_random_bits draw_sixteen(const Source& s, std::uint64_t index) {
  const philox_counter low = s.random_bits(index >> 3), high = s.random_bits(index >> 3 | 1);
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
/// | levels           | by a loop over the levels                                                          |
/// | uniform          | magnitudes 0 .. 7 units: an addition whose last bit is the unit rounds to nearest  |
/// | two_bit_mantissa | 0 1 2 3 4 6 8 12 units: the index of a is the least of a, a / 2 + 2, a / 4 + 4 in  |
/// |                  | units, a concave line between the levels; each is rounded as a uniform grid's is   |
struct rounding_plan {
  enum class grid : std::uint8_t { levels, uniform, two_bit_mantissa };  ///< How codes are computed.
  grid kind = grid::levels;                                              ///< how codes are computed
  bool twos_complement = false;                                          ///< else a code is sign << 3 | magnitude
  float unit = 0;                                                        ///< a power of two from 2^-8 to 2^8
  float zero = 0;                     ///< 1.5 * 2^23 units: the last bit of a sum with it is a unit
  float draws = 0;                    ///< 65536 / unit: the random numbers of a step
  std::uint32_t drawn = 0x4B000000u;  ///< 2^23, above a random number; as data it costs no instruction
  std::uint32_t qmax_bits = 0;        ///< the bits of qmax
  std::uint32_t zeros = 0;            ///< eight codes of +0
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
  p.zero = p.unit * 12582912.0f;
  p.draws = 65536.0f / p.unit;
  if (has_magnitudes(g, p.unit, {0, 1, 2, 3, 4, 5, 6, 7})) p.kind = rounding_plan::grid::uniform;
  if (has_magnitudes(g, p.unit, {0, 1, 2, 3, 4, 6, 8, 12})) p.kind = rounding_plan::grid::two_bit_mantissa;
  return p;
}

/// The codes of sixteen elements as they are stored: eight in each word, the first in the low nibble.
struct sixteen_codes {
  std::uint32_t word[2] = {0, 0};  ///< sixteen codes, the first in the low bits

  /// Converts codes of sign << 3 | magnitude to two's complement. For a negative nibble of magnitude m, 8 - m borrows
  /// nothing from the next nibble; with bit 3 inverted it is 16 - m, or 0 for m = 0.
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
#if defined(UFP4_HAS_MAGNITUDES)
  return device_min_magnitude(t, to_float(p.qmax_bits));
#else
  const std::uint32_t m = magnitude_bits(t);
  return to_float(m < p.qmax_bits ? m : p.qmax_bits);
#endif
}
/// The smaller of two positive floats, as bits.
UFP4_DEVICE std::uint32_t smaller(float a, float b) { return to_bits(a) < to_bits(b) ? to_bits(a) : to_bits(b); }

/// The bits of plan.zero plus the index of |t| rounded to nearest even. Rounding keeps the order of the three lines.
template <rounding_plan::grid kind>
UFP4_DEVICE std::uint32_t nearest_index(const rounding_plan& p, float t) {
  const float a = clamped(p, t), sum = a + p.zero;
  if constexpr (kind == rounding_plan::grid::uniform) return to_bits(sum);
  const float above4 = fma(a, 0.5f, p.zero + 2 * p.unit), above8 = fma(a, 0.25f, p.zero + 4 * p.unit);
  return smaller(to_float(smaller(sum, above4)), above8);
}

/// Above the 2^23 of stochastic_index: floor(x) + r for the random number r in the low half of `drawn`.
UFP4_DEVICE std::uint32_t floor_onto(float x, std::uint32_t drawn) {
#if defined(UFP4_HAS_ADD_DOWN)  // a conversion to an integer has a quarter of its rate
  return to_bits(device_add_down(x, to_float(drawn)));
#else
  return drawn + static_cast<std::uint32_t>(x);
#endif
}

// stochastic_index: 0x4B00 and the index of |t| in the upper half of the result; `drawn` is 2^23 + r as a float's bits.
//
// The upper half of floor(fl(|t| / step * 65536 + 1/2)) + r is the index, whereas numerics 3 uses only the fraction of
// |t| / step. For index 0 that is the same sum. For others |t| / step * 65536 is a multiple of 2^-7 or more, so both
// sums are exact, or this one is rounded just above a power of two, which does not change the floor.

/// On a uniform grid.
UFP4_DEVICE std::uint32_t stochastic_index_uniform(const rounding_plan& p, float t, std::uint32_t drawn) {
  return floor_onto(fma(clamped(p, t), p.draws, 0.5f), drawn);
}

#if defined(UFP4_HAS_ADD_DOWN)
/// On a grid with two bits of mantissa, by the three lines. Below four units the sum is that of a uniform grid. The
/// other two have more bits than a float, of which rounding down keeps the floor.
UFP4_DEVICE std::uint32_t stochastic_index_by_lines(const rounding_plan& p, float t, std::uint32_t drawn) {
  const float a = clamped(p, t), below4 = fma(a, p.draws, 0.5f);
  const float above4 = device_fma_down(a, p.draws * 0.5f, 2 * 65536 + 0.5f);
  const float above8 = device_fma_down(a, p.draws * 0.25f, 4 * 65536 + 0.5f);
  return floor_onto(to_float(smaller(to_float(smaller(below4, above4)), above8)), drawn);
}
#endif

/// The same by the binade of |t|, which has two codes; below two units that of two.
UFP4_DEVICE std::uint32_t stochastic_index_by_binade(const rounding_plan& p, float t, std::uint32_t drawn) {
  const float a = clamped(p, t);
  const std::uint32_t least = to_bits(2 * p.unit), bits = to_bits(a);
  const std::uint32_t binade = (bits > least ? bits : least) & 0x7F800000u;  // 2^e; a step is 2^(e - 1)
  const float steps = to_float((271u << 23) - binade);                       // 65536 / 2^(e - 1)
  return drawn + ((binade - least) >> 6) + static_cast<std::uint32_t>(fma(a, steps, 0.5f));
}

/// On the plan's grid, as the device has instructions for it.
template <rounding_plan::grid kind>
UFP4_DEVICE std::uint32_t stochastic_index(const rounding_plan& p, float t, std::uint32_t drawn) {
  if constexpr (kind == rounding_plan::grid::uniform) return stochastic_index_uniform(p, t, drawn);
#if defined(UFP4_HAS_ADD_DOWN)
  return stochastic_index_by_lines(p, t, drawn);
#else
  return stochastic_index_by_binade(p, t, drawn);
#endif
}

/// The signs of eight values in bit 3 of each nibble, the first value's in the lowest.
UFP4_DEVICE std::uint32_t signs_of(const float* t) {
  std::uint32_t top = 0;
  UFP4_UNROLL
  for (unsigned j = 8; j-- > 0;) top = top << 4 | to_bits(t[j]) >> 28;
  return top & 0x88888888u;
}

/// Eight codes of sign << 3 | index, rounded to nearest even.
template <rounding_plan::grid kind>
UFP4_DEVICE std::uint32_t nearest_eight(const rounding_plan& p, const float* t) {
  std::uint32_t sum = 0;
  UFP4_UNROLL
  for (unsigned j = 8; j-- > 0;) sum = 16 * sum + nearest_index<kind>(p, t[j]);
  return (sum - to_bits(p.zero) * 0x11111111u) | signs_of(t);
}

/// Eight codes rounded stochastically; `random` has their random numbers, two in a word.
template <rounding_plan::grid kind>
UFP4_DEVICE std::uint32_t stochastic_eight(const rounding_plan& p, const float* t, const std::uint32_t* random) {
  const auto index = [&](unsigned j) {
    return stochastic_index<kind>(p, t[j], byte_permute(random[j / 2], p.drawn, j % 2 == 0 ? 0x7610u : 0x7632u));
  };
  std::uint32_t sum = 0;  // element j in the lower half, j + 4 in the upper
  UFP4_UNROLL
  for (unsigned j = 4; j-- > 0;) sum = 16 * sum + byte_permute(index(j), index(j + 4), 0x7632u);
  return (sum - 0x4B004B00u * 0x1111u) | signs_of(t);
}

/// A rounding as a kernel receives it.
struct sixteen_rounding {
  bool draws = false;      ///< stochastic; else nearest_even
  random_source random{};  ///< if it draws
};
/// Of nearest_even or stochastic rounding.
UFP4_HD constexpr sixteen_rounding sixteen_rounding_of(const rounding_spec& r) {
  return {r.what == rounding_spec::kind::stochastic, random_source_of(r.random_bits)};
}

/// The codes of sixteen scaled, finite values on a grid with a plan. `index`: the element index of the first (numerics
/// 3), a multiple of 16.
template <rounding_plan::grid kind>
UFP4_DEVICE sixteen_codes code_by_plan(const rounding_plan& p, const sixteen_rounding& rounding,
                                       const float (&t)[run_of_thread], std::uint64_t index) {
  sixteen_codes out;
  if (!rounding.draws) {
    out = {{nearest_eight<kind>(p, t), nearest_eight<kind>(p, t + 8)}};
  } else {
    const sixteen_random_bits drawn = draw_sixteen(rounding.random, index);
    out = {{stochastic_eight<kind>(p, t, drawn.word), stochastic_eight<kind>(p, t + 8, drawn.word + 4)}};
  }
  if (kind == rounding_plan::grid::uniform && p.twos_complement) out.complement();
  return out;
}
/// The same for either kind of plan.
UFP4_DEVICE sixteen_codes code_by_plan(const rounding_plan& p, const sixteen_rounding& rounding,
                                       const float (&t)[run_of_thread], std::uint64_t index) {
  if (p.kind == rounding_plan::grid::uniform) return code_by_plan<rounding_plan::grid::uniform>(p, rounding, t, index);
  return code_by_plan<rounding_plan::grid::two_bit_mantissa>(p, rounding, t, index);
}
/// Does code_by_plan apply to a plan and a rounding?
UFP4_HD constexpr bool has_plan(const rounding_plan& p, const rounding_spec& rounding) {
  return p.kind != rounding_plan::grid::levels &&
         (rounding.what == rounding_spec::kind::nearest_even || rounding.what == rounding_spec::kind::stochastic);
}

/// By the scalar code, one value at a time. t is a copy in local memory, so that other code keeps v in registers.
template <rounding_policy Rounding>
UFP4_DEVICE sixteen_codes codes_by_levels(const grid4& grid, const Rounding& rounding, const float (&v)[run_of_thread],
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

/// The codes of sixteen scaled values on any grid by any of the library's roundings.
UFP4_DEVICE sixteen_codes code_by_levels(const grid4& grid, const rounding_spec& rounding,
                                         const float (&v)[run_of_thread], std::uint64_t index) {
  if (rounding.what != rounding_spec::kind::stochastic) return codes_by_levels(grid, rounding, v, index);
  return codes_by_levels(grid, drawn_sixteen{draw_sixteen(rounding.random_bits, index)}, v, index);
}

/// Stores sixteen codes; `on_words`: `to` is aligned to 8 bytes.
UFP4_DEVICE void store_sixteen(std::uint8_t* to, const sixteen_codes& codes, bool on_words) {
  if (on_words) {
    *reinterpret_cast<words2*>(to) = {{codes.word[0], codes.word[1]}};
    return;
  }
  UFP4_UNROLL
  for (unsigned b = 0; b < 8; ++b) to[b] = static_cast<std::uint8_t>(codes.word[b / 4] >> (8 * (b % 4)));
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

/// The values that are rounded to codes: x * s, or x / s, correctly rounded (numerics 5).
UFP4_DEVICE void scale_sixteen(const rounding_plan& p, float s, bool divides, float (&v)[run_of_thread]) {
  if (!divides) {
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
