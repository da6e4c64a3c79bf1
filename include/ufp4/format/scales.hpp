// ufp4 - block scale types e4m3, ue5m3, e8m0, e6m2 and bf16; fp16 for inputs and outputs.
// SPDX-License-Identifier: Apache-2.0
//
// docs/formats.md, numerics 2: layouts, ranges, NaN codes and conversions. fp16 is IEEE binary16: it overflows to
// infinity and is never a scale.
// Sources: OCP Microscaling Formats v1.0; CUDA Math API, __nv_cvt_float_to_fp8 (SATFINITE), ..._to_e8m0 (RZ).
#pragma once

#include <ufp4/concepts.hpp>
#include <ufp4/format/minifloat.hpp>

namespace ufp4::inline UFP4_TYPES {

/// The block scale of NVFP4: E4M3FN.
class e4m3 : public detail::small_float<e4m3, std::uint8_t> {
 public:
  UFP4_MEMBER static constexpr detail::minifloat layout() { return {4, 3, 7, true, 0x7E, 0x7F}; }
  e4m3() = default;
  UFP4_MEMBER constexpr explicit e4m3(float x) { bits_ = static_cast<std::uint8_t>(detail::encode(layout(), x)); }
  UFP4_MEMBER constexpr float value() const {
    return (bits_ & 0x7Fu) == 0x7Fu ? detail::quiet_nan : detail::decode(layout(), bits_);
  }
  UFP4_MEMBER static constexpr float(max)() { return 448.0f; }
};

/// An unsigned block scale with a wider range: five exponent bits, three mantissa bits.
class ue5m3 : public detail::small_float<ue5m3, std::uint8_t> {
 public:
  UFP4_MEMBER static constexpr detail::minifloat layout() { return {5, 3, 15, false, 0xFE, 0xFF}; }
  ue5m3() = default;
  UFP4_MEMBER constexpr explicit ue5m3(float x) { bits_ = static_cast<std::uint8_t>(detail::encode(layout(), x)); }
  UFP4_MEMBER constexpr float value() const {
    return bits_ == 0xFFu ? detail::quiet_nan : detail::decode(layout(), bits_);
  }
  UFP4_MEMBER static constexpr float(max)() { return 114688.0f; }
};

/// The OCP MX block scale: a power of two, 2^-127 .. 2^127.
class e8m0 : public detail::small_float<e8m0, std::uint8_t> {
 public:
  e8m0() = default;
  UFP4_MEMBER constexpr explicit e8m0(float x) {
    const std::uint32_t exponent = detail::magnitude_bits(x) >> 23;
    bits_ = static_cast<std::uint8_t>(detail::is_nan(x) ? 0xFFu : exponent == 0xFFu ? 0xFEu : exponent);
  }
  UFP4_MEMBER constexpr float value() const {
    return bits_ == 0xFFu ? detail::quiet_nan : detail::exp2i(static_cast<int>(bits_) - 127);
  }
  UFP4_MEMBER static constexpr float(max)() { return detail::exp2i(127); }
};

/// The block scale of HiF4: unsigned, six exponent bits with bias 48, two mantissa bits, without zero and subnormals.
class e6m2 : public detail::small_float<e6m2, std::uint8_t> {
 public:
  e6m2() = default;
  /// To nearest even; saturates at both ends, negative values and zero at the lower one. NaN is the code 0xFF.
  UFP4_MEMBER constexpr explicit e6m2(float x) {
    constexpr std::uint32_t least = (127u - 48u) << 23;  // 2^-48
    const std::uint32_t m = detail::magnitude_bits(x);
    const std::uint32_t code = (m + 0x000FFFFFu + (m >> 21 & 1u)) >> 21;  // exponent and two bits, ties to even
    const bool underflows = m < least || detail::is_negative(x);
    const std::uint32_t above = code - (least >> 21);
    bits_ = static_cast<std::uint8_t>(detail::is_nan(x) ? 0xFFu : underflows ? 0u : above < 0xFEu ? above : 0xFEu);
  }
  UFP4_MEMBER constexpr float value() const {
    return bits_ == 0xFFu ? detail::quiet_nan : detail::to_float((std::uint32_t{bits_} << 21) + ((127u - 48u) << 23));
  }
  UFP4_MEMBER static constexpr float(max)() { return 49152.0f; }
};

/// bfloat16. The conversion from float is that of a scale: it saturates at the largest finite number, also for Inf.
/// bf16 matrices hold IEEE bits instead: an infinity stays an infinity (round_to<bf16>).
class bf16 : public detail::small_float<bf16, std::uint16_t> {
 public:
  UFP4_MEMBER static constexpr detail::minifloat layout() { return {8, 7, 127, true, 0x7F7F, 0x7FC0}; }
  bf16() = default;
  UFP4_MEMBER constexpr explicit bf16(float x) { bits_ = static_cast<std::uint16_t>(detail::encode(layout(), x)); }
  UFP4_MEMBER constexpr float value() const { return detail::to_float(std::uint32_t{bits_} << 16); }
  UFP4_MEMBER static constexpr float(max)() { return detail::to_float(0x7F7F0000u); }
};

/// IEEE binary16, for inputs and outputs.
class fp16 : public detail::small_float<fp16, std::uint16_t> {
 public:
  UFP4_MEMBER static constexpr detail::minifloat layout() { return {5, 10, 15, true, 0x7BFF, 0x7E00}; }
  fp16() = default;
  UFP4_MEMBER constexpr explicit fp16(float x) {
    const std::uint32_t code = detail::is_nan(x) ? layout().nan_code : detail::encode_magnitude(layout(), x);
    const std::uint32_t sign = detail::is_negative(x) && !detail::is_nan(x) ? 0x8000u : 0u;
    bits_ = static_cast<std::uint16_t>(sign | (code <= 0x7BFFu || detail::is_nan(x) ? code : 0x7C00u));
  }
  UFP4_MEMBER constexpr float value() const {
    const std::uint32_t sign = (bits_ & 0x8000u) << 16, code = bits_ & 0x7FFFu;
    if (code >= 0x7C00u) return detail::to_float(sign | 0x7F800000u | (code & 0x3FFu) << 13);
    return detail::to_float(sign | detail::to_bits(detail::decode(layout(), code)));
  }
  UFP4_MEMBER static constexpr float(max)() { return 65504.0f; }
};

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

template <>
struct scale_traits<float> : scale_of_kind<scale_kind::f32> {};
template <>
struct scale_traits<ufp4::bf16> : scale_of_kind<scale_kind::bf16> {};
template <>
struct scale_traits<ufp4::e4m3> : scale_of_kind<scale_kind::e4m3> {};
template <>
struct scale_traits<ufp4::ue5m3> : scale_of_kind<scale_kind::ue5m3> {};
template <>
struct scale_traits<ufp4::e8m0> : scale_of_kind<scale_kind::e8m0> {};
template <>
struct scale_traits<ufp4::e6m2> : scale_of_kind<scale_kind::e6m2> {};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

static_assert(detail::scale_format<float> && detail::scale_format<bf16> && detail::scale_format<e4m3> &&
              detail::scale_format<ue5m3> && detail::scale_format<e8m0> && !detail::scale_format<fp16>);

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_CODE {

/// Rounds a binary32 result to a matrix element as IEEE 754 does: to nearest even, overflow to infinity, NaN to NaN.
template <class T>
UFP4_HD constexpr T round_to(float x) {
  return T(x);
}
template <>
UFP4_HD constexpr bf16 round_to<bf16>(float x) {
  const std::uint32_t bits = to_bits(x);
  if (is_nan(x)) return bf16::from_bits(bf16::layout().nan_code);
  return bf16::from_bits(static_cast<std::uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16));
}

/// Size and conversions of a scale type given as a value. Scale bits are in the low bits of a uint32_t.
UFP4_HD constexpr int scale_bytes(scale_kind kind) {
  return kind == scale_kind::f32 ? 4 : kind == scale_kind::bf16 ? 2 : 1;
}
UFP4_HD constexpr std::uint32_t encode_scale(scale_kind kind, float x) {
  switch (kind) {
    case scale_kind::f32: return to_bits(x);
    case scale_kind::bf16: return bf16(x).bits();
    case scale_kind::e4m3: return e4m3(x).bits();
    case scale_kind::ue5m3: return ue5m3(x).bits();
    case scale_kind::e8m0: return e8m0(x).bits();
    case scale_kind::e6m2: return e6m2(x).bits();
  }
  return 0;
}
UFP4_HD constexpr float decode_scale(scale_kind kind, std::uint32_t bits) {
  const auto code = static_cast<std::uint8_t>(bits);
  switch (kind) {
    case scale_kind::f32: return to_float(bits);
    case scale_kind::bf16: return to_float(bits << 16);
    case scale_kind::e4m3: return static_cast<float>(e4m3::from_bits(code));
    case scale_kind::ue5m3: return static_cast<float>(ue5m3::from_bits(code));
    case scale_kind::e8m0: return static_cast<float>(e8m0::from_bits(code));
    case scale_kind::e6m2: return static_cast<float>(e6m2::from_bits(code));
  }
  return 0;
}
UFP4_HD constexpr std::uint32_t nan_scale(scale_kind kind) { return encode_scale(kind, quiet_nan); }
template <scale_format S>
UFP4_HD constexpr S scale_as(std::uint32_t bits) {
  if constexpr (scale_traits<S>::kind == scale_kind::f32)
    return to_float(bits);
  else
    return S::from_bits(static_cast<decltype(S().bits())>(bits));
}
/// The code of the largest finite scale.
UFP4_HD constexpr std::uint32_t max_scale(scale_kind kind) {
  switch (kind) {
    case scale_kind::f32: return max_finite_bits;
    case scale_kind::bf16: return 0x7F7Fu;
    case scale_kind::e4m3: return 0x7Eu;
    default: return 0xFEu;
  }
}

}  // namespace ufp4::detail::inline UFP4_CODE
