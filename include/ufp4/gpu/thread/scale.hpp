// ufp4 - the scale of a block from its amax, in one thread: the bits of block/scale_rules.hpp without loops.
// SPDX-License-Identifier: Apache-2.0
//
// For the rules that depend on nothing but the amax. scale_plan has the numbers of a format and rule that do not depend
// on the block; the host computes them once.
#pragma once

#include <ufp4/block/block_codec.hpp>
#include <ufp4/gpu/thread/decode.hpp>

namespace ufp4::gpu::thread::inline UFP4_GPU {

/// How the amax of a block becomes a scale.
struct scale_plan {
  scale_kind kind = scale_kind::f32;        ///< of the block scales
  bool two_level = false;                   ///< with a tensor scale
  bool up = false;                          ///< the rule scale_up
  bool divides = false;                     ///< codes are those of x / factor
  std::uint32_t nan = 0;                    ///< the bits of a NaN
  float qmax = 1;                           ///< of the grid
  float most = 0;                           ///< the largest scale of an 8-bit kind with a mantissa
  std::uint32_t least = 0;                  ///< the exponent field of such a kind's subnormal numbers
  ufp4::detail::power_of_two_rule power{};  ///< of e8m0
};

/// The plan of a format and a rule.
inline scale_plan scale_plan_of(const format_spec& f, const ufp4::detail::scale_rule_spec& rule) {
  using kind = ufp4::detail::scale_rule_spec::kind;
  const float qmax = f.grid.qmax;
  return {.kind = f.scale,
          .two_level = f.two_level(),
          .up = rule.what == kind::up,
          .divides = ufp4::detail::scale_divides(f),
          .nan = ufp4::detail::nan_scale(f.scale),
          .qmax = qmax,
          .most = ufp4::detail::decode_scale(f.scale, ufp4::detail::max_scale(f.scale)),
          .least = f.scale == scale_kind::e4m3 ? 121u : 113u,
          .power = ufp4::detail::make_power_of_two_rule(qmax, rule.what)};
}

/// The code of x >= 0 in e4m3 or ue5m3, to nearest even or, for scale_up, above; saturating. The sum with 2^20 binades
/// of x has three bits of mantissa.
UFP4_DEVICE std::uint32_t encode_eighths(const scale_plan& p, float x) {
  const std::uint32_t bits = to_bits(x), most = to_bits(p.most), least = p.least << 23;
  const std::uint32_t in_range = bits < most ? bits : most;
  const std::uint32_t binade = (in_range > least ? in_range : least) & 0x7F800000u;
  const float above = to_float(binade + (20u << 23)), sum = to_float(in_range) + above;
  const std::uint32_t code = (to_bits(sum) & 31u) + ((binade - least) >> 20);
  return p.up && sum - above < to_float(in_range) ? code + 1 : code;
}

/// The same as bf16.
UFP4_DEVICE std::uint32_t encode_bf16(const scale_plan& p, float x) {
  const std::uint32_t bits = to_bits(x), half = p.up ? 0xFFFFu : 0x7FFFu + (bits >> 16 & 1u);
  const std::uint32_t code = (bits + half) >> 16;
  return code < 0x7F7Fu ? code : 0x7F7Fu;
}

/// The e8m0 code for a finite amax.
UFP4_DEVICE std::uint32_t encode_power(const scale_plan& p, float amax) {
  const bool subnormal = to_bits(amax) < 0x00800000u;
  const std::uint32_t bits = to_bits(subnormal ? amax * 0x1p64f : amax);
  const bool one_more = ((bits & 0x007FFFFFu) | 0x00800000u) >= p.power.carry;
  const std::int32_t e =
      static_cast<std::int32_t>(bits >> 23) - (subnormal ? 64 : 0) - p.power.top + (one_more ? 1 : 0);
  const std::int32_t last = ufp4::detail::largest_power(p.power.top), code = e < 0 ? 0 : e > last ? last : e;
  return amax == 0.0f ? 0u : static_cast<std::uint32_t>(code);
}

/// The bits of the scale for a finite amax.
UFP4_DEVICE std::uint32_t scale_bits(const scale_plan& p, const tensor_constants& tensor, float amax) {
  if (p.kind == scale_kind::e8m0) return encode_power(p, amax);
  const float x = p.two_level ? ufp4::detail::product(amax, tensor.scale_factor) : amax / p.qmax;
  if (p.kind == scale_kind::f32) return to_bits(ufp4::detail::at_most(x, ufp4::detail::max_finite));
  return p.kind == scale_kind::bf16 ? encode_bf16(p, x) : encode_eighths(p, x);
}

/// block_scale::factor of a scale.
UFP4_DEVICE float scale_factor(const scale_plan& p, const tensor_constants& tensor, std::uint32_t bits) {
  if (p.kind == scale_kind::e8m0) return ufp4::detail::exp2i(127 - static_cast<int>(bits));
  const float s = scale_value(p.kind, bits);
  if (!p.two_level) return s;
  const float inverse = 1.0f / ufp4::detail::product(s, tensor.decode);
  return s == 0.0f ? 0.0f : inverse < ufp4::detail::max_finite ? inverse : ufp4::detail::max_finite;
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
