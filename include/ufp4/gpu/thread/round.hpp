// ufp4 - sixteen elements divided by the scale of their block and rounded to codes, in one thread.
// SPDX-License-Identifier: Apache-2.0
//
// The bits of round/round_to_grid.hpp. The library's uniform grids and E2M1, with nearest_even and stochastic, take six
// to eleven instructions a value, without branches or tables: code_by_plan. Every other grid or rounding loops over the
// levels: code_by_levels.
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

/// The seed and stream of stochastic rounding with the keys of Philox's rounds, which then cost no instructions.
struct random_source {
  std::uint64_t stream = 0;                                                                  ///< of stochastic
  std::uint32_t k0[ufp4::detail::philox_rounds] = {}, k1[ufp4::detail::philox_rounds] = {};  ///< of each round

  /// The random bits of eight elements, as stochastic::random_bits.
  UFP4_DEVICE ufp4::detail::philox_counter random_bits(std::uint64_t group) const {
    ufp4::detail::philox_counter c{{static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32),
                                    static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}};
    UFP4_UNROLL
    for (int round = 0; round < ufp4::detail::philox_rounds; ++round)
      c = ufp4::detail::philox_round(c, k0[round], k1[round]);
    return c;
  }
};
/// Of a rounding.
UFP4_HD constexpr random_source random_source_of(const stochastic& s) {
  random_source r{s.stream};
  for (std::uint32_t round = 0; round < std::uint32_t{ufp4::detail::philox_rounds}; ++round) {
    r.k0[round] = static_cast<std::uint32_t>(s.seed) + round * ufp4::detail::philox_step0;
    r.k1[round] = static_cast<std::uint32_t>(s.seed >> 32) + round * ufp4::detail::philox_step1;
  }
  return r;
}

/// The random bits of elements index .. index + 15 (numerics 3), index a multiple of 16, by two Philox calls. From
/// stochastic or a random_source.
template <class Source>
UFP4_DEVICE sixteen_random_bits draw_sixteen(const Source& s, std::uint64_t index) {
  const ufp4::detail::philox_counter low = s.random_bits(index >> 3), high = s.random_bits(index >> 3 | 1);
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
  float half_draw = 0;                ///< half of 1 / draws
  float to_subnormal = 0;             ///< 2^-127 / unit: two units become the smallest normal number
  float bound = 0;                    ///< above qmax: the largest |t| whose stochastic index is at most 8
  std::uint32_t drawn = 0x4B000080u;  ///< bytes to join with a random number; as data they cost no instruction
  std::uint32_t qmax_bits = 0;        ///< the bits of qmax
  std::uint32_t zeros = 0;            ///< eight codes of +0
};

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
  p.half_draw = p.unit * 0x1p-17f;
  p.to_subnormal = 0x1p-127f / p.unit;
  const ufp4::detail::features values = ufp4::detail::features_of(g);
  if (values == ufp4::detail::features::uniform_grid) p.kind = rounding_plan::grid::uniform;
  if (values == ufp4::detail::features::two_bit_grid) p.kind = rounding_plan::grid::two_bit_mantissa;
  p.bound = p.unit * (p.kind == rounding_plan::grid::uniform ? 8.0f : 16.0f);
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

/// |t|.
UFP4_DEVICE float magnitude(float t) {
#if defined(UFP4_HAS_PAIRS)
  return device_magnitude(t);
#else
  return to_float(magnitude_bits(t));
#endif
}
/// |t|, at most qmax.
UFP4_DEVICE float clamped(const rounding_plan& p, float t) {
#if defined(UFP4_HAS_PAIRS)
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

// Stochastic rounding: the index is the integer part of draws * |t| + 1/2 + r in random numbers of a step, r the random
// number. numerics 3 rounds the sum of the first two where its steps begin at |t| = 0, as `offset_magnitude` does for
// every |t|: above the first step it is exact, or so near the end of a step that any r rounds up.

/// |t| + half_draw, at most qmax's; `bounded`: |t| is at most plan.bound, so that no instruction is needed for it.
template <bool bounded>
UFP4_DEVICE float offset_magnitude(const rounding_plan& p, float t) {
  return (bounded ? magnitude(t) : clamped(p, t)) + p.half_draw;
}

/// On a uniform grid: 0x4B00 and the index of |t| in the upper half. `random`: two random numbers.
template <bool bounded>
UFP4_DEVICE std::uint32_t stochastic_index_uniform(const rounding_plan& p, float t, std::uint32_t random, bool upper) {
  const std::uint32_t drawn = byte_permute(random, p.drawn & 0xFFFF0000u, upper ? 0x7632u : 0x7610u);  // 2^23 + r
  const float offset = offset_magnitude<bounded>(p, t);
#if defined(UFP4_HAS_ADD_DOWN)  // a conversion to an integer has a quarter of its rate
  return to_bits(device_fma_down(offset, p.draws, to_float(drawn)));
#else
  return drawn + static_cast<std::uint32_t>(offset * p.draws);
#endif
}

#if defined(UFP4_HAS_ADD_DOWN)
/// On a grid with two bits of mantissa: the index of |t| in the upper byte. Where two units are the smallest normal
/// number, the smaller ones are subnormal, evenly spaced, and bit 22 and those above it are the index. The other bits
/// are the part of a step: 2^6 of them are a random number, 32 the half.
template <bool bounded>
UFP4_DEVICE std::uint32_t stochastic_index_by_bits(const rounding_plan& p, float t, std::uint32_t random, bool upper) {
  const float scaled = device_fma_down(offset_magnitude<bounded>(p, t), p.to_subnormal, -0x1p-144f);
  return (to_bits(scaled) << 2) + byte_permute(random, p.drawn, upper ? 0x5324u : 0x5104u);
}
/// Four indices from there, one in a byte.
UFP4_DEVICE std::uint32_t four_indices(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  return byte_permute(byte_permute(a, b, 0x0073u), byte_permute(c, d, 0x0073u), 0x5410u);
}
#endif

/// The same by the binade of |t|, which has two codes; below two units that of two. 0x4B00 and the index in the upper
/// half, as on a uniform grid.
template <bool bounded>
UFP4_DEVICE std::uint32_t stochastic_index_by_binade(const rounding_plan& p, float t, std::uint32_t random,
                                                     bool upper) {
  const float a = bounded ? magnitude(t) : clamped(p, t);
  const std::uint32_t drawn = byte_permute(random, p.drawn & 0xFFFF0000u, upper ? 0x7632u : 0x7610u);
  const std::uint32_t least = to_bits(2 * p.unit), bits = to_bits(a);
  const std::uint32_t binade = (bits > least ? bits : least) & 0x7F800000u;  // 2^e; a step is 2^(e - 1)
  const float steps = to_float((271u << 23) - binade);                       // 65536 / 2^(e - 1)
  return drawn + ((binade - least) >> 6) + static_cast<std::uint32_t>(fma(a, steps, 0.5f));
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

/// Eight indices, where those of |t| above qmax may be 8: 7.
UFP4_DEVICE std::uint32_t at_most_seven(std::uint32_t indices) { return indices - (indices >> 3 & 0x11111111u); }

/// Eight codes rounded stochastically; `random` has their random numbers, two in a word. `bounded`: every |t| is at
/// most plan.bound.
template <rounding_plan::grid kind, bool bounded = false>
UFP4_DEVICE std::uint32_t stochastic_eight(const rounding_plan& p, const float* t, const std::uint32_t* random) {
  std::uint32_t sum = 0;
#if defined(UFP4_HAS_ADD_DOWN)
  if constexpr (kind == rounding_plan::grid::two_bit_mantissa) {
    const auto index = [&](unsigned j) {
      return stochastic_index_by_bits<bounded>(p, t[j], random[j / 2], j % 2 != 0);
    };
    sum = four_indices(index(0), index(2), index(4), index(6)) +
          16 * four_indices(index(1), index(3), index(5), index(7));
    return (bounded ? at_most_seven(sum) : sum) | signs_of(t);
  }
#endif
  const auto index = [&](unsigned j) {
    if constexpr (kind == rounding_plan::grid::uniform)
      return stochastic_index_uniform<bounded>(p, t[j], random[j / 2], j % 2 != 0);
    else
      return stochastic_index_by_binade<bounded>(p, t[j], random[j / 2], j % 2 != 0);
  };
  UFP4_UNROLL
  for (unsigned j = 4; j-- > 0;)  // element j in the lower half, j + 4 in the upper
    sum = 16 * sum + byte_permute(index(j), index(j + 4), 0x7632u);
  sum -= 0x4B004B00u * 0x1111u;
  return (bounded ? at_most_seven(sum) : sum) | signs_of(t);
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
/// 3), a multiple of 16. `bounded`: every |t| is at most plan.bound, which saves instructions.
template <rounding_plan::grid kind, bool bounded = false>
UFP4_DEVICE sixteen_codes code_by_plan(const rounding_plan& p, const sixteen_rounding& rounding,
                                       const float (&t)[run_of_thread], std::uint64_t index) {
  sixteen_codes out;
  if (!rounding.draws) {
    out = {{nearest_eight<kind>(p, t), nearest_eight<kind>(p, t + 8)}};
  } else {
    const sixteen_random_bits drawn = draw_sixteen(rounding.random, index);
    out = {
        {stochastic_eight<kind, bounded>(p, t, drawn.word), stochastic_eight<kind, bounded>(p, t + 8, drawn.word + 4)}};
  }
  if (kind == rounding_plan::grid::uniform && p.twos_complement) out.complement();
  return out;
}
/// The same for either kind of plan.
template <bool bounded = false>
UFP4_DEVICE sixteen_codes code_by_plan(const rounding_plan& p, const sixteen_rounding& rounding,
                                       const float (&t)[run_of_thread], std::uint64_t index) {
  using grid = rounding_plan::grid;
  if (p.kind == grid::uniform) return code_by_plan<grid::uniform, bounded>(p, rounding, t, index);
  return code_by_plan<grid::two_bit_mantissa, bounded>(p, rounding, t, index);
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
    out.word[j / 8] |= std::uint32_t{ufp4::detail::round_to_grid(grid, rounding, t[j], index + j)} << (4 * (j % 8));
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

/// The number of scaled values beyond those of a grid.
UFP4_DEVICE std::uint32_t count_beyond(const ufp4::detail::value_range& range, const float (&t)[run_of_thread]) {
  std::uint32_t beyond = 0;
  for (unsigned j = 0; j < run_of_thread; ++j) beyond += range.leaves_out(t[j]);
  return beyond;
}
/// The same of a grid with a plan, which is symmetric.
UFP4_DEVICE std::uint32_t count_beyond(std::uint32_t most, const float (&t)[run_of_thread]) {
  std::uint32_t beyond = 0;
  UFP4_UNROLL
  for (unsigned j = 0; j < run_of_thread; ++j) beyond += magnitude_bits(t[j]) > most;
  return beyond;
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
