// ufp4 - decodes eight codes to fp16 or bf16 with AMD's byte permute instruction, for any grid.
// SPDX-License-Identifier: Apache-2.0
//
// v_perm_b32 selects four bytes out of two registers, as NVIDIA's PRMT does (thread/decode.hpp), but a selector is a
// byte and not four bits: four codes are decoded at a time, three bits of each in a byte, a word's even codes and then
// its odd ones. So the decoded words hold codes 0 and 2, 1 and 3, 4 and 6, 5 and 7. Both operands need the same order.
//
// Integer instructions for eight codes: 7 for selectors, 12 for bytes, 4 for words of 16-bit numbers.
#pragma once

#include <ufp4/gpu/thread/decode.hpp>

namespace ufp4::gpu::thread::inline UFP4_GPU {

/// Byte i of the result: byte s of `low` (s < 4) or s - 4 of `high`, s being the selector's byte i, or 0 if s is 12.
UFP4_DEVICE std::uint32_t select_bytes(std::uint32_t high, std::uint32_t low, std::uint32_t selector) {
#if defined(__AMDGCN__)
  return __builtin_amdgcn_perm(high, low, selector);
#else
  const std::uint64_t bytes = std::uint64_t{high} << 32 | low;
  std::uint32_t r = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned s = selector >> 8 * i & 0xFFu;
    r |= (s < 8 ? static_cast<std::uint32_t>(bytes >> 8 * s) & 0xFFu : 0u) << 8 * i;
  }
  return r;
#endif
}

/// The entries of four codes, one in the lower nibble of each byte; the upper nibbles are ignored.
UFP4_DEVICE std::uint32_t select_four(const byte_table& t, std::uint32_t codes) {
  const std::uint32_t place = codes & 0x07070707u, half = (codes >> 1 & 0x04040404u) | 0x03020100u;
  return select_bytes(select_bytes(t.word[3], t.word[2], place), select_bytes(t.word[1], t.word[0], place), half);
}

/// Lower and upper bytes of the entries of codes 0, 2, 4, 6 and of codes 1, 3, 5, 7.
struct split_halves {
  std::uint32_t low[2], high[2];  ///< the low and high bytes of eight values
};
/// The halves of the values of eight codes.
UFP4_DEVICE split_halves split_eight(const half_table& t, std::uint32_t codes) {
  split_halves out;
  UFP4_UNROLL
  for (unsigned odd = 0; odd < 2; ++odd) {
    out.low[odd] = select_four(t.low, codes >> 4 * odd);
    out.high[odd] = select_four(t.high, codes >> 4 * odd);
  }
  return out;
}

/// Word w of the eight decoded entries, in the order above.
UFP4_DEVICE std::uint32_t halves_word(const split_halves& s, unsigned w) {
  return select_bytes(s.high[w % 2], s.low[w % 2], w < 2 ? 0x05010400u : 0x07030602u);
}

/// scale_value of an E4M3 scale, in fewer instructions: from a subnormal binary32, which HIP code keeps (isa_check.sh).
UFP4_DEVICE float e4m3_value(std::uint32_t bits) {
  const float scaled = ufp4::detail::to_float((bits << 24 & 0x80000000u) | (bits & 0x7Fu) << 20);
  return (bits & 0x7Fu) == 0x7Fu ? ufp4::detail::quiet_nan : scaled * 0x1p120f;
}

/// Two products with the same factor, each rounded: one instruction.
UFP4_DEVICE void multiply_pair(float first, float second, float by, float (&products)[2]) {
#if defined(__AMDGCN__)
  using pair = float __attribute__((ext_vector_type(2)));
  const pair both = pair{first, second} * pair{by, by};
  products[0] = rounded(both.x), products[1] = rounded(both.y);
#else
  products[0] = rounded(first * by), products[1] = rounded(second * by);
#endif
}

/// A pair of bf16 numbers from floats that are exact in bf16, or NaN.
UFP4_DEVICE std::uint32_t upper_halves(float first, float second) {
  return select_bytes(ufp4::detail::to_bits(second), ufp4::detail::to_bits(first), 0x07060302u);
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
