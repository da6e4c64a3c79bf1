// ufp4 - Philox4x32-10, block scales, and shuffles of whole vectors: the one body for all CPU instruction sets.
// SPDX-License-Identifier: Apache-2.0
//
// Needs of an instruction set low_pairs, high_pairs, low_quads, high_quads, upper_halves and
//
// | philox_word, philox_parts | words as they are multiplied: some instruction sets keep the lanes in two parts   |
// | part_of(v, part)          | one part of the words of all lanes                                                |
// | join_parts(part, ...)     | all lanes again                                                                   |
// | multiply(a, b, high, low) | the upper and the lower half of each product                                      |
// | xor_all(a, b, c)          | a ^ b ^ c                                                                         |
#if !defined(UFP4_SHARED_LANES)
#define UFP4_SHARED_LANES
#if !defined(UFP4_LANES)  // opened alone
#include <ufp4/cpu/simd/lanes.hpp>
#endif

UFP4_BEGIN_LANES()

// ---- Philox, one counter a lane. philox4x32 of round/philox.hpp is the reference.

/// The keys of all rounds, two a round, in order.
struct philox_keys {
  std::uint32_t word[20] = {};

  philox_keys() = default;
  explicit philox_keys(std::uint64_t key) {
    word[0] = static_cast<std::uint32_t>(key);
    word[1] = static_cast<std::uint32_t>(key >> 32);
    for (int i = 2; i < 20; ++i) word[i] = word[i - 2] + (i % 2 == 0 ? 0x9E3779B9u : 0xBB67AE85u);
  }
};

UFP4_LANE void philox_round(philox_word (&w)[4], philox_word k0, philox_word k1) {
  philox_word high0, low0, high1, low1;
  multiply(w[0], broadcast(0xD2511F53u), high0, low0);
  multiply(w[2], broadcast(0xCD9E8D57u), high1, low1);
  w[0] = xor_all(high1, w[1], k0);
  w[1] = low1;
  w[2] = xor_all(high0, w[3], k1);
  w[3] = low0;
}

/// Rounds `first` and up, on the four words of each lane's counter in parts.
template <int first>
UFP4_LANE void philox_rounds_from(philox_word (&c)[philox_parts][4], const philox_keys& keys, u32 (&counter)[4]) {
#pragma GCC unroll 10
  for (int i = 2 * first; i < 20; i += 2) {
    const auto k0 = reinterpret_cast<philox_word>(broadcast(keys.word[i]));
    const auto k1 = reinterpret_cast<philox_word>(broadcast(keys.word[i + 1]));
    philox_round(c[0], k0, k1);
    if constexpr (philox_parts == 2) philox_round(c[1], k0, k1);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) counter[i] = join_parts(c[0][i], c[philox_parts - 1][i]);
}
/// Ten rounds on the four words of each lane's counter.
UFP4_LANE void philox_rounds(u32 (&counter)[4], const philox_keys& keys) {
  philox_word c[philox_parts][4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    c[0][i] = part_of(counter[i], 0);
    if constexpr (philox_parts == 2) c[1][i] = part_of(counter[i], 1);
  }
  philox_rounds_from<0>(c, keys, counter);
}

/// The same for counters whose lanes differ only in the first word: half of the first two rounds is the same for all.
class uniform_philox_rounds {
 public:
  uniform_philox_rounds(std::uint32_t high, const std::uint32_t (&stream)[2], const philox_keys& keys) {
    const std::uint64_t first = std::uint64_t{0xCD9E8D57u} * stream[0];
    const auto w0 = static_cast<std::uint32_t>(first >> 32) ^ high ^ keys.word[0];
    const std::uint64_t second = std::uint64_t{0xD2511F53u} * w0;
    flip_[0] = stream[1] ^ keys.word[1];
    flip_[1] = static_cast<std::uint32_t>(first) ^ keys.word[2];
    flip_[2] = static_cast<std::uint32_t>(second >> 32) ^ keys.word[3];
    last_ = static_cast<std::uint32_t>(second);
  }
  UFP4_LANE void operator()(u32 low, const philox_keys& keys, u32 (&out)[4]) const {
    philox_word c[philox_parts][4];
#pragma GCC unroll 2
    for (int part = 0; part < philox_parts; ++part) {
      philox_word(&w)[4] = c[part];
      philox_word high_word;
      multiply(part_of(low, part), broadcast(0xD2511F53u), high_word, w[2]);
      multiply(high_word ^ flipped_by(0), broadcast(0xCD9E8D57u), high_word, w[1]);
      w[0] = high_word ^ flipped_by(1);
      w[2] ^= flipped_by(2);
      w[3] = reinterpret_cast<philox_word>(broadcast(last_));
    }
    philox_rounds_from<2>(c, keys, out);
  }

 private:
  UFP4_LANE philox_word flipped_by(int i) const { return reinterpret_cast<philox_word>(broadcast(flip_[i])); }
  std::uint32_t flip_[3], last_;
};

// ---- Block scales, from their codes to binary32 and back.
//
// | decode_scale_bits(kind, bits)    | the values of scale codes, a code in the low bits of each lane                 |
// | load_scales(kind, scales, first) | the values of `lanes` neighbouring scales, from scale number `first` on        |
// | encode_scale_bits(kind, x)       | the codes of positive normal numbers; not e8m0, whose rule is not a rounding   |
//
// The results are those of detail::decode_scale and detail::encode_scale, the reference; a NaN code gives 0x7FC00000
// with the sign of an e4m3 code. No operand or result is subnormal, which some processors are slow on.

/// Three bits of mantissa below those of the exponent, no sign; the smallest normal number is 2^lowest. Read with the
/// binary32 exponent of 2^lowest / 2, a subnormal code m becomes f = 2^lowest (8 + m) / 16, and 2 f - 2^lowest is its
/// value 2^lowest m / 8. For all other codes f is the value, and 2 f - 2^lowest is not below it.
UFP4_LANE f32 decode_three_bit_mantissa(u32 code, int lowest) {
  const f32 f = as_float((code << 20) + (static_cast<std::uint32_t>(lowest + 126) << 23));
  return at_most(f, fma(f, broadcast(2.0f), broadcast(-ufp4::detail::exp2i(lowest))));
}
UFP4_LANE f32 nan_where(i32 mask, f32 v) { return mask ? as_float(broadcast(0x7FC00000u)) : v; }

/// `finite`: there are no NaN codes, in e4m3 no signs, and no e8m0 codes.
template <bool finite = false>
UFP4_LANE f32 decode_scale_bits(scale_kind kind, u32 bits) {
  switch (kind) {
    case scale_kind::f32: break;
    case scale_kind::bf16: return as_float(bits << 16);
    case scale_kind::e4m3: {
      if constexpr (finite) return decode_three_bit_mantissa(bits, -6);
      const u32 code = bits & 0x7Fu;
      const f32 v = nan_where(code == 0x7Fu, decode_three_bit_mantissa(code, -6));
      return as_float(as_bits(v) | (bits & 0x80u) << 24);
    }
    case scale_kind::ue5m3: {
      const f32 v = decode_three_bit_mantissa(bits, -14);
      return finite ? v : nan_where(bits == 0xFFu, v);
    }
    case scale_kind::e8m0:
      if constexpr (finite) break;
      return nan_where(bits == 0xFFu, as_float(maximum(bits << 23, broadcast(0x00400000u))));  // code 0 is 2^-127
    case scale_kind::e6m2: {
      const f32 v = as_float((bits << 21) + ((127u - 48u) << 23));
      return finite ? v : nan_where(bits == 0xFFu, v);
    }
  }
  return as_float(bits);
}

UFP4_LANE f32 load_scales(scale_kind kind, const void* scales, std::size_t first) {
  if (kind == scale_kind::f32) return load(static_cast<const float*>(scales) + first);
  if (kind == scale_kind::bf16) return widen_bf16(load_as<half_u16>(static_cast<const std::uint16_t*>(scales) + first));
  return decode_scale_bits(kind, widen_bytes(static_cast<const std::uint8_t*>(scales) + first));
}

/// f<kind>(): a loop for each kind keeps its constants in registers. Not e6m2, which only extended formats have.
template <class F>
UFP4_LANE void with_scale_kind(scale_kind kind, const F& f) {
  switch (kind) {
    case scale_kind::f32: return f.template operator()<scale_kind::f32>();
    case scale_kind::bf16: return f.template operator()<scale_kind::bf16>();
    case scale_kind::e4m3: return f.template operator()<scale_kind::e4m3>();
    case scale_kind::ue5m3: return f.template operator()<scale_kind::ue5m3>();
    case scale_kind::e8m0: return f.template operator()<scale_kind::e8m0>();
    case scale_kind::e6m2: return;
  }
}

/// Signed bytes, one a lane, as numbers.
UFP4_LANE f32 numbers_of_bytes(const std::uint8_t* p) {
  return to_float(reinterpret_cast<i32>(widen_bytes(p) << 24) >> 24);
}

/// Rounds to nearest even, at most `max_code`. The smallest normal number is 2^lowest.
UFP4_LANE u32 encode_three_bit_mantissa(f32 x, std::uint32_t max_code, int lowest) {
  const u32 bits = as_bits(x);
  const u32 normal = ((bits + 0x7FFFFu + (bits >> 20 & 1u)) >> 20) - (static_cast<std::uint32_t>(lowest + 126) << 3);
  // The last bit of this sum counts 2^lowest / 8, the distance of subnormal codes.
  const u32 subnormal = as_bits(x + broadcast(ufp4::detail::exp2i(lowest + 20))) & 15u;
  return minimum(x < ufp4::detail::exp2i(lowest) ? subnormal : normal, broadcast(max_code));
}

UFP4_LANE u32 encode_scale_bits(scale_kind kind, f32 x) {
  const u32 bits = as_bits(x);
  switch (kind) {
    case scale_kind::bf16: return minimum((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16, broadcast(0x7F7Fu));
    case scale_kind::e4m3: return encode_three_bit_mantissa(x, 0x7E, -6);
    case scale_kind::ue5m3: return encode_three_bit_mantissa(x, 0xFE, -14);
    case scale_kind::e6m2: {  // without subnormal numbers: the smallest is 2^-48
      const u32 code = ((bits + 0xFFFFFu + (bits >> 21 & 1u)) >> 21) - ((127u - 48u) << 2);
      return x < 0x1p-48f ? u32{} : minimum(code, broadcast(0xFEu));
    }
    default: return bits;
  }
}

/// Binary32 numbers as bf16.
UFP4_LANE half_u16 narrow_bf16(f32 v) { return upper_halves(round_bf16(v)); }

// ---- Shuffles, and the stages of a Hadamard transform across vectors.

/// Transposes four vectors of four lanes in each 16 bytes.
template <class V>
UFP4_LANE void transpose4(V* v) {
  const V ab_low = low_pairs(v[0], v[1]), ab_high = high_pairs(v[0], v[1]);
  const V cd_low = low_pairs(v[2], v[3]), cd_high = high_pairs(v[2], v[3]);
  v[0] = low_quads(ab_low, cd_low);
  v[1] = high_quads(ab_low, cd_low);
  v[2] = low_quads(ab_high, cd_high);
  v[3] = high_quads(ab_high, cd_high);
}

/// Stages of stride 1, 2, ... count / 2: (a, b) becomes (a + b, a - b), as butterflies() of hadamard/transform.hpp. The
/// difference is one fma, which rounds once too: some processors have more units for fmas than for additions.
template <std::size_t count>
UFP4_LANE void butterflies(f32 (&v)[count]) {
  const f32 minus_one = broadcast(-1.0f);
#pragma GCC unroll 4
  for (std::size_t stride = 1; stride < count; stride *= 2) {
#pragma GCC unroll 16
    for (std::size_t j = 0; j < count; ++j)
      if ((j & stride) == 0) {
        const f32 a = v[j], b = v[j + stride];
        v[j] = a + b;
        v[j + stride] = fma(b, minus_one, a);
      }
  }
}
UFP4_END_LANES
#endif
