// ufp4 - rounds sixteen scaled values to sixteen codes in one thread.
// SPDX-License-Identifier: Apache-2.0
//
// The bits of round/round_to_grid.hpp. The library's uniform grids and E2M1, with nearest_even and stochastic, take six
// to ten instructions for each value, without branches or tables. Every other grid or rounding uses a loop over the
// levels of the grid.
#pragma once

#include <cstdint>
#include <ufp4/block/block_codec.hpp>
#include <ufp4/gpu/thread/elements.hpp>
#include <ufp4/gpu/thread/random_bits.hpp>
#include <ufp4/gpu/vendor.hpp>

namespace ufp4::gpu::thread::inline UFP4_GPU {

/// How to round to a grid.
///
/// | levels           | by a loop over the levels                                                                 |
/// | uniform          | the magnitudes are 0 .. 7 units: an addition whose last bit is the unit rounds to nearest |
/// |                  | even                                                                                      |
/// | two_bit_mantissa | 0 1 2 3 4 6 8 12 units: the same with the unit of the value's binade, two codes in each   |
/// |                  | binade                                                                                    |
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
  p.qmax_bits = ufp4::detail::to_bits(g.qmax);
  if (g.levels != 15 || g.zero != 7) return p;
  p.unit = g.level[8];
  const std::uint32_t bits = ufp4::detail::to_bits(p.unit);
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
  const std::uint32_t m = ufp4::detail::magnitude_bits(t);
  return ufp4::detail::to_float(m < p.qmax_bits ? m : p.qmax_bits);
}

/// The exponent field of a value on a grid with two bits of mantissa; below two units that of two.
UFP4_DEVICE std::uint32_t binade_of(const rounding_plan& p, float a) {
  const std::uint32_t least = ufp4::detail::to_bits(2 * p.unit), bits = ufp4::detail::to_bits(a);
  return (bits > least ? bits : least) & 0x7F800000u;
}
/// Two codes for each binade above that of two units.
UFP4_DEVICE std::uint32_t codes_below(const rounding_plan& p, std::uint32_t binade) {
  return (binade - ufp4::detail::to_bits(2 * p.unit)) >> 22;
}

/// The index of |t| rounded to nearest even.
UFP4_DEVICE std::uint32_t nearest_index(const rounding_plan& p, float t) {
  const float a = clamped(p, t);
  if (p.kind == rounding_plan::grid::uniform)  // 1.5 * 2^23 units
    return ufp4::detail::to_bits(a + p.unit * 12582912.0f) & 7u;
  const std::uint32_t binade = binade_of(p, a);  // 2^e; the last bit of 2^(e + 22) is 2^(e - 1)
  return (ufp4::detail::to_bits(a + ufp4::detail::to_float(binade + (22u << 23))) & 7u) + codes_below(p, binade);
}

/// floor(x) for 0 <= x < 2^22 in the low bits, 0x4B000000 above them. It is an addition that rounds down: a conversion
/// to an integer has a quarter of its rate.
UFP4_DEVICE std::uint32_t floor_bits(float x) {
#if defined(UFP4_HAS_ADD_DOWN)
  return ufp4::detail::to_bits(device_add_down(x, 0x1p23f));
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
    return (floor_bits(ufp4::detail::fma(a, 65536.0f / p.unit, 0.5f)) + random_word) >> 16 & 7u;
  const std::uint32_t binade = binade_of(p, a);                       // 2^e; a step is 2^(e - 1)
  const float steps = ufp4::detail::to_float((271u << 23) - binade);  // 65536 / 2^(e - 1)
  return ((floor_bits(ufp4::detail::fma(a, steps, 0.5f)) + random_word) >> 16 & 7u) + codes_below(p, binade);
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
    const std::uint32_t word = random_bits.word[index / 2 % 8];
    return stochastic::moves_up(n, t, index % 2 == 0 ? word & 0xFFFFu : word >> 16);
  }
};

/// The codes where no plan applies.
UFP4_DEVICE sixteen_codes round_other(const grid4& grid, const rounding_spec& rounding, const float (&v)[run_of_thread],
                                      std::uint64_t index) {
  if (rounding.what != rounding_spec::kind::stochastic) return round_by_levels(grid, rounding, v, index);
  return round_by_levels(grid, drawn_sixteen{draw_sixteen(rounding.random_bits, index)}, v, index);
}

/// The codes of sixteen scaled, finite values. `index` is the element index of the first (numerics 3), a multiple of
/// 16.
UFP4_DEVICE sixteen_codes round_sixteen(const rounding_plan& p, const grid4& grid, const rounding_spec& rounding,
                                        const float (&t)[run_of_thread], std::uint64_t index) {
  const bool random_bits = rounding.what == rounding_spec::kind::stochastic;
  const bool even = rounding.what == rounding_spec::kind::nearest_even;
  if (p.kind == rounding_plan::grid::levels || !(random_bits || even)) return round_other(grid, rounding, t, index);
  sixteen_codes out;
  if (even) {
    UFP4_UNROLL
    for (unsigned j = 0; j < run_of_thread; ++j) out.add(j, nearest_index(p, t[j]), ufp4::detail::to_bits(t[j]));
  } else {
    const sixteen_random_bits drawn = draw_sixteen(rounding.random_bits, index);
    UFP4_UNROLL
    for (unsigned j = 0; j < run_of_thread; ++j)
      out.add(j, stochastic_index(p, t[j], drawn.random_word(j)), ufp4::detail::to_bits(t[j]));
  }
  if (p.twos_complement) out.complement();
  return out;
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
