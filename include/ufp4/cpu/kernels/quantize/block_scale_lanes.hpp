// ufp4 - the scales of blocks from their amax, a block a lane, over one instruction set's lanes.
// SPDX-License-Identifier: Apache-2.0
//
// What choose_scale (block/scale_rules.hpp) gives. Special blocks are those that are zero or not finite,
// and those whose scale, amax or factor is not a normal number: choose_scale computes the scales of the latter.
#if !defined(UFP4_BLOCK_SCALE_LANES)
#define UFP4_BLOCK_SCALE_LANES
#include <ufp4/cpu/kernels/kernels_scalar.hpp>
#include <ufp4/cpu/simd/lanes.hpp>

UFP4_BEGIN_LANES(quantize_kernel)

/// What one call of quantize_lanes works on.
struct quantize_call {
  const quantize_job& job_;
  const kernel_coder& coder_;
  const quantized_sink& out_;
  quantize_report& report_;
};

struct lane_scales {
  f32 factor;
  u32 zero;  ///< all ones where the codes are +0
};

/// How many lanes of a mask are set.
UFP4_LANE std::uint64_t count_lanes(u32 mask) {
  return static_cast<std::uint64_t>(__builtin_popcount(lane_bits(mask)));
}

/// power_of_two_scale: the e8m0 codes of amax that are normal numbers.
UFP4_LANE u32 power_of_two_scales(const power_of_two_rule& rule, u32 amax) {
  const u32 carried = amax + ((1u << 24) - rule.carry);
  const i32 code = reinterpret_cast<i32>(carried >> 23) - rule.top;
  const i32 least{}, most = i32{} + largest_power(rule.top);
  return reinterpret_cast<u32>(code < least ? least : code > most ? most : code);
}

/// Replaces the bits of the scales of blocks that are zero or not finite. Returns which lanes have codes of zeros:
/// these blocks and those whose factor is 0. Counts them.
inline u32 finish_special_scales(scale_kind kind, u32 amax, f32 factor, u32& bits, quantize_report& report) {
  const u32 nonfinite = reinterpret_cast<u32>(amax >= infinity_bits), empty = reinterpret_cast<u32>(amax == 0u);
  const u32 underflowed = reinterpret_cast<u32>(factor == 0.0f) & ~nonfinite & ~empty;
  bits = nonfinite != 0u ? broadcast(nan_scale(kind)) : bits & ~empty;
  report.nonfinite_blocks += count_lanes(nonfinite);
  report.underflowed_scales += count_lanes(underflowed);
  return nonfinite | empty | underflowed;
}

/// Replaces the scales of special blocks, and counts them.
[[gnu::cold]] inline void choose_special_scales(const kernel_coder& c, u32 amax, u32 special, u32& bits, lane_scales& s,
                                                quantize_report& report) {
  const format_spec& f = c.format;
  const u32 chosen = special & reinterpret_cast<u32>(amax < infinity_bits) & ~reinterpret_cast<u32>(amax == 0u);
  for (std::uint32_t left = lane_bits(chosen); left != 0; left &= left - 1) {
    const auto l = static_cast<std::size_t>(__builtin_ctz(left));
    const block_scale one =
        scale_from_bits(f, c.tensor, scale_bits_of_amax(f, c.rule.what, c.tensor, ufp4::detail::to_float(amax[l])));
    bits[l] = one.bits;
    s.factor[l] = one.factor;
  }
  s.zero = finish_special_scales(f.scale, amax, s.factor, bits, report);
  s.factor = s.zero != 0u ? broadcast(1.0f) : s.factor;
}

/// The powers of two with these e8m0 bits, none of them a NaN, and their inverses.
UFP4_LANE f32 power_of_two_of(u32 bits) { return as_float(maximum(bits << 23, broadcast(std::uint32_t{0x00400000}))); }
UFP4_LANE f32 inverse_power_of(u32 bits) {
  return as_float(bits == 254u ? broadcast(std::uint32_t{0x00400000}) : (254u - bits) << 23);
}

/// What scale_for_grid gives, a block a lane. Lanes whose amax is not finite have any scale.
struct grid_scales {
  u32 bits;
  f32 factor, effective;
};
/// b in the lanes of `where`, else a.
UFP4_LANE grid_scales chosen_scales(u32 where, const grid_scales& a, const grid_scales& b) {
  return {where != 0u ? b.bits : a.bits, where != 0u ? b.factor : a.factor, where != 0u ? b.effective : a.effective};
}
/// Those with these bits, of a grid with a factor under outer scales, tensor_constants::decode.
UFP4_LANE grid_scales scales_of_bits(const format_spec& f, scale_kind kind, u32 bits, float grid_factor, f32 decode) {
  const bool is_power = kind == scale_kind::e8m0;
  const f32 scale = is_power ? power_of_two_of(bits) : decode_scale_bits<true>(kind, bits);
  const f32 of_grid = rounded(scale * grid_factor);
  grid_scales s{bits, is_power ? inverse_power_of(bits) : scale, f.two_level() ? rounded(of_grid * decode) : of_grid};
  if (!is_power && f.two_level())
    s.factor = scale == 0.0f ? f32{} : at_most(1.0f / rounded(scale * decode), broadcast(max_finite));
  return s;
}

/// The scales of a block a lane, from the bits of its amax.
using scales_of_amax = void(const kernel_coder&, u32 amax, u32& bits, lane_scales&, quantize_report&);
template <features needs>
[[gnu::noinline]] void choose_scales(const kernel_coder& c, u32 amax, u32& bits, lane_scales& s,
                                     quantize_report& report) {
  const format_spec& f = c.format;
  const scale_kind kind = scale_in<needs>(f);
  const bool two_level = (has(needs, features::quotient) || kind == scale_kind::e8m0) ? f.two_level() : true;
  u32 watched = amax;  // a normal number unless the block is special, as the factor is
  if (kind == scale_kind::e8m0) {
    bits = power_of_two_scales(make_power_of_two_rule(f.grid.qmax, c.rule.what), amax);
    s.factor = inverse_power_of(bits);
  } else {
    const f32 x = as_float(amax);
    const f32 argument = rounded(two_level ? x * c.tensor.scale_factor : x / f.grid.qmax);
    watched = as_bits(argument);
    bits = encode_scale_bits(kind, argument);
    if (c.rule.what == rule_kind::up)
      bits -= reinterpret_cast<u32>(decode_scale_bits<true>(kind, bits) < argument) &
              reinterpret_cast<u32>(bits < max_scale(kind));
    s.factor = decode_scale_bits<true>(kind, bits);
    if (two_level) s.factor = 1.0f / (s.factor * c.tensor.decode);
  }
  constexpr std::uint32_t least = 0x00800000, range = 0x7F000000;  // of normal numbers
  const u32 special = reinterpret_cast<u32>(maximum(watched - least, as_bits(s.factor) - least) >= range);
  s.zero = u32{};
  if (lane_bits(special) == 0) return;
  const u32 empty = reinterpret_cast<u32>(amax == 0u);
  if (lane_bits(special & ~empty) != 0) return choose_special_scales(c, amax, special, bits, s, report);
  bits = empty != 0u ? u32{} : bits;
  s.factor = empty != 0u ? broadcast(1.0f) : s.factor;
  s.zero = empty;
}
UFP4_END_LANES
#endif
