// ufp4 - decodes eight codes in a word to s8, E4M3, fp16 or bf16, for any grid; decodes scales; pairs of bf16, fp16.
// SPDX-License-Identifier: Apache-2.0
//
// A grid is a table of sixteen bytes in four registers. A byte permute selects four bytes of two registers by the four
// nibbles of its selector. Codes are such nibbles: their lower three bits select in both halves of the table, and the
// fourth bit selects the half. Integer instructions for eight codes, for any grid:
//
// | decode8_s8, containers_of  | 11: two masks and two shifts for all, then three permutes for every four codes |
// | decode8_halves, one table  | 15: the lower bytes of the pairs are zero                                      |
// | decode8_halves             | 21: a table for either byte of the pairs, and four permutes that join them     |
//
// Element k of the eight is nibble k of the word; its result is byte k % 4 of word k / 4, or half k % 2 of pair k / 2.
// All functions also run on the host.
//
// Containers are E4M3 bytes for 8-bit matrix units, with exactly the values of their codes, none of them subnormal.
// E2M3 ends at 7.5, so -8 of int4 and 16 of E3M0 would need a factor in every sum.
#pragma once

#include <ufp4/format/grid.hpp>
#include <ufp4/format/scales.hpp>

namespace ufp4::gpu::thread::inline UFP4_GPU {

using ufp4::detail::fma, ufp4::detail::magnitude_bits, ufp4::detail::rounded;
using ufp4::detail::to_bits, ufp4::detail::to_float;

/// Byte i of the result is byte (selector >> 4 i & 7) of x (0 .. 3) and y (4 .. 7), i = 0 .. 3. Bit 3 of each of those
/// nibbles must be 0; the upper half of the selector is ignored.
UFP4_HD inline std::uint32_t byte_permute(std::uint32_t x, std::uint32_t y, std::uint32_t selector) {
#if defined(UFP4_HAS_BYTE_PERMUTE)
  return device_byte_permute(x, y, selector);
#else
  const std::uint64_t bytes = std::uint64_t{y} << 32 | x;
  std::uint32_t r = 0;
  for (unsigned i = 0; i < 4; ++i)
    r |= (static_cast<std::uint32_t>(bytes >> (8 * (selector >> (4 * i) & 7u))) & 0xFFu) << (8 * i);
  return r;
#endif
}

/// Entry c is byte c % 4 of word[c / 4].
struct byte_table {
  std::uint32_t word[4] = {};  ///< byte c is the value of code c

  /// Sets the byte of a code.
  UFP4_HD constexpr void set(unsigned code, std::uint32_t byte) {
    const unsigned at = 8 * (code % 4);
    word[code / 4] = (word[code / 4] & ~(0xFFu << at)) | (byte & 0xFFu) << at;
  }
};

/// Sixteen entries of 16 bits: their lower bytes and their upper bytes.
struct half_table {
  byte_table low, high;  ///< the low and high bytes of each value

  UFP4_HD constexpr bool high_suffices() const {  ///< are all lower bytes zero?
    return (low.word[0] | low.word[1] | low.word[2] | low.word[3]) == 0;
  }
};

/// The multiples of grid.unit, for grids with exact_products and multiples in [-128, 127]: every grid of numerics 1.
UFP4_HD constexpr byte_table s8_table_of(const grid4& grid) {
  byte_table t;
  for (unsigned c = 0; c < 16; ++c) t.set(c, static_cast<std::uint32_t>(static_cast<std::int32_t>(grid.integer[c])));
  return t;
}
/// Can s8_table_of represent the grid?
UFP4_HD constexpr bool fits_s8(const grid4& grid) {
  bool fits = grid.exact_products;
  for (unsigned c = 0; c < 16; ++c) fits = fits && grid.integer[c] >= -128 && grid.integer[c] <= 127;
  return fits;
}

/// The values as T. Those with more bits are rounded, so test fits_... first.
template <class T>
UFP4_HD constexpr half_table half_table_of(const grid4& grid) {
  half_table t;
  for (unsigned c = 0; c < 16; ++c) {
    const std::uint32_t bits = ufp4::detail::round_to<T>(grid.value[c]).bits();
    t.low.set(c, bits), t.high.set(c, bits >> 8);
  }
  return t;
}
/// The values as fp16.
UFP4_HD constexpr half_table f16_table_of(const grid4& grid) { return half_table_of<fp16>(grid); }
/// The values as bf16.
UFP4_HD constexpr half_table bf16_table_of(const grid4& grid) { return half_table_of<bf16>(grid); }
/// Can T represent every value, including the sign of zero?
template <class T>
UFP4_HD constexpr bool fits_half(const grid4& grid) {
  bool fits = true;
  for (unsigned c = 0; c < 16; ++c)
    fits = fits && to_bits(static_cast<float>(T(grid.value[c]))) == to_bits(grid.value[c]);
  return fits;
}
UFP4_HD constexpr bool fits_f16(const grid4& grid) { return fits_half<fp16>(grid); }   ///< fits_half of fp16
UFP4_HD constexpr bool fits_bf16(const grid4& grid) { return fits_half<bf16>(grid); }  ///< fits_half of bf16

/// Sixteen bits of selector for every four codes: the place in a half of a table, and the half.
struct code_selectors {
  std::uint32_t place, half;  ///< selectors of byte permutes
};
/// The selectors of eight codes.
UFP4_HD constexpr code_selectors selectors_of(std::uint32_t codes) {
  // bit 3 of nibble i moved to bit 2: byte i of the second word that a permute picks from, else byte i of the first
  return {codes & 0x77777777u, (codes >> 1 & 0x44444444u) | 0x32103210u};
}
/// The entries of four codes.
UFP4_HD inline std::uint32_t look_up4(const byte_table& t, std::uint32_t place, std::uint32_t half) {
  return byte_permute(byte_permute(t.word[0], t.word[1], place), byte_permute(t.word[2], t.word[3], place), half);
}
/// The entries of eight codes.
UFP4_HD inline void look_up8(const byte_table& t, const code_selectors& s, std::uint32_t (&bytes)[2]) {
  bytes[0] = look_up4(t, s.place, s.half);
  bytes[1] = look_up4(t, s.place >> 16, s.half >> 16);
}

/// Eight codes as signed bytes.
UFP4_HD inline void decode8_s8(const byte_table& t, std::uint32_t codes, std::uint32_t (&bytes)[2]) {
  look_up8(t, selectors_of(codes), bytes);
}

/// Eight codes as fp16 or bf16, from f16_table_of or bf16_table_of.
UFP4_HD inline void decode8_halves(const half_table& t, std::uint32_t codes, std::uint32_t (&pairs)[4]) {
  const code_selectors s = selectors_of(codes);
  std::uint32_t low[2], high[2];
  look_up8(t.low, s, low), look_up8(t.high, s, high);
  for (unsigned i = 0; i < 4; ++i) pairs[i] = byte_permute(low[i / 2], high[i / 2], i % 2 == 0 ? 0x5140u : 0x7362u);
}
/// The same from `high` of a table, if high_suffices(): as fp16 every grid of numerics 1.
UFP4_HD inline void decode8_halves(const byte_table& high_bytes, std::uint32_t codes, std::uint32_t (&pairs)[4]) {
  std::uint32_t high[2];
  look_up8(high_bytes, selectors_of(codes), high);
  for (unsigned i = 0; i < 4; ++i) pairs[i] = byte_permute(0, high[i / 2], i % 2 == 0 ? 0x5140u : 0x7362u);
}

/// ufp4::detail::decode_scale in a few instructions, without a loop; flush-to-zero flags have no effect.
UFP4_HD inline float scale_value(scale_kind kind, std::uint32_t bits) {
  const auto eighths = [](std::uint32_t code, int least) {  // 3 mantissa bits; `least`: the exponent of subnormals
    const std::uint32_t w = code << 20, first = static_cast<std::uint32_t>(least + 127) << 23;
    // a subnormal m / 8 * 2^least is (1 + m / 8) * 2^least - 2^least, which is exact
    return code < 8 ? to_float(w + first) - to_float(first) : to_float(w + first - (1u << 23));
  };
  switch (kind) {
    case scale_kind::f32: return to_float(bits);
    case scale_kind::bf16: return to_float(bits << 16);
    case scale_kind::e4m3: {
      const std::uint32_t code = bits & 0x7Fu;
      const float magnitude = code == 0x7Fu ? ufp4::detail::quiet_nan : eighths(code, -6);
      return to_float(to_bits(magnitude) | (code == 0x7Fu ? 0u : (bits & 0x80u) << 24));
    }
    case scale_kind::ue5m3: return bits == 0xFFu ? ufp4::detail::quiet_nan : eighths(bits, -14);
    case scale_kind::e6m2: break;  // extended.hpp decodes it
    case scale_kind::e8m0: return bits == 0xFFu ? ufp4::detail::quiet_nan : to_float(bits == 0 ? 1u << 22 : bits << 23);
  }
  return 0;
}

/// Two floats rounded to bf16, to nearest even; the first in the lower half.
UFP4_HD inline std::uint32_t pair_bf16(float first, float second) {
#if defined(UFP4_HAS_PAIRS)
  return device_pair_bf16(first, second);
#else
  return ufp4::detail::round_to<bf16>(first).bits() | std::uint32_t{ufp4::detail::round_to<bf16>(second).bits()} << 16;
#endif
}
/// The same of fp16; of a NaN the hardware's.
UFP4_HD inline std::uint32_t pair_fp16(float first, float second) {
#if defined(UFP4_HAS_PAIRS)
  return device_pair_fp16(first, second);
#else
  return ufp4::detail::round_to<fp16>(first).bits() | std::uint32_t{ufp4::detail::round_to<fp16>(second).bits()} << 16;
#endif
}
/// The first of a pair.
UFP4_HD inline float low_bf16(std::uint32_t pair) { return to_float(pair << 16); }
/// The second of a pair.
UFP4_HD inline float high_bf16(std::uint32_t pair) { return to_float(pair & 0xFFFF0000u); }

/// Both halves times those of `by`, each product rounded once to bf16; subnormals are kept.
UFP4_HD inline std::uint32_t multiply_bf16(std::uint32_t pair, std::uint32_t by) {
#if defined(UFP4_HAS_PAIRS)
  return device_multiply_bf16(pair, by);
#else
  return pair_bf16(low_bf16(pair) * low_bf16(by), high_bf16(pair) * high_bf16(by));
#endif
}

/// The first of a pair of fp16.
UFP4_HD inline float half_f16(std::uint32_t pair) {
  return static_cast<float>(fp16::from_bits(static_cast<std::uint16_t>(pair & 0xFFFFu)));
}
/// Both halves times those of `by`, each product rounded once to fp16; subnormals are kept.
UFP4_HD inline std::uint32_t multiply_f16(std::uint32_t pair, std::uint32_t by) {
#if defined(UFP4_HAS_F16_PAIRS)
  return device_multiply_f16(pair, by);
#else
  return fp16(half_f16(pair) * half_f16(by)).bits() |
         std::uint32_t{fp16(half_f16(pair >> 16) * half_f16(by >> 16)).bits()} << 16;
#endif
}

/// x times `by` plus c for both halves, each rounded once to fp16; of sums that fp16 does not hold the last bit may
/// differ on the host.
UFP4_HD inline std::uint32_t fma_f16(std::uint32_t x, std::uint32_t by, std::uint32_t c) {
#if defined(UFP4_HAS_F16_PAIRS)
  return device_fma_f16(x, by, c);
#else
  const auto one = [&](unsigned at) {
    return std::uint32_t{fp16(fma(half_f16(x >> at), half_f16(by >> at), half_f16(c >> at))).bits()} << at;
  };
  return one(0) | one(16);
#endif
}

/// Is every value of the grid zero or a normal number of E4M3?
constexpr bool fits_containers(const grid4& grid) {
  for (const float v : grid.value)
    if (v != 0.0f && (static_cast<float>(e4m3(v)) != v || ufp4::detail::magnitude(v) < 0x1p-6f)) return false;
  return true;
}

/// The E4M3 byte of each code. As a kernel's parameter it is in constant memory.
using container_table = byte_table;

/// The table of a grid for which fits_containers().
constexpr container_table container_table_of(const grid4& grid) {
  container_table table;
  for (unsigned c = 0; c < 16; ++c) table.set(c, e4m3(grid.value[c]).bits());
  return table;
}

/// Eight elements in the order of K, the first in the lowest byte: those of codes 0 to 3 and of codes 4 to 7.
struct eight_containers {
  std::uint32_t first, last;  ///< four bytes each
};

/// In eleven integer instructions.
UFP4_DEVICE eight_containers containers_of(std::uint32_t codes, const container_table& table) {
  std::uint32_t bytes[2];
  look_up8(table, selectors_of(codes), bytes);
  return {bytes[0], bytes[1]};
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
