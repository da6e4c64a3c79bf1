// ufp4 - block scales from the values of a block, a block a lane, over one instruction set's lanes.
// SPDX-License-Identifier: Apache-2.0
//
// What choose_scale (block/scale_rules.hpp) gives for the rules with reads_values: searches, four_over_six, percentile.
#if !defined(UFP4_VALUE_SCALE_LANES)
#define UFP4_VALUE_SCALE_LANES
#include <ufp4/cpu/kernels/quantize/byte_lanes.hpp>
#include <ufp4/cpu/kernels/quantize/error_lanes.hpp>
#if UFP4_LANE_COUNT == 16
#include <ufp4/cpu/kernels/quantize/estimate_avx512.hpp>
#endif

UFP4_BEGIN_LANES(quantize_kernel)

/// error_by on any grid.
template <bool divides, search_error what>
f32 error_by_cuts(const error_plan& p, const float* x, std::size_t length, f32 factor, f32 effective) {
  return code_trial_by_cuts<divides, false, false>(p, {factor, f32{}, effective, what}, x, length, nullptr);
}
template <bool divides, search_error what>
block_error* block_error_of(const rounding_plan& rounding, byte_element byte) {
  using kind = rounding_plan::kind;
  if (byte == byte_element::int8 || rounding.what == kind::uniform) return &error_by<uniform_value, divides, what>;
  if (byte != byte_element::none || rounding.nearby == near_kind::two_bit_mantissa)
    return &error_by<minifloat_value, divides, what>;
  if constexpr (cheap_lookup)
    if (rounding.what == kind::halves) return &error_by<looked_up_value<halves_rounder>, divides, what>;
  return &error_by_cuts<divides, what>;
}
inline error_plan make_error_plan(const format_spec& f, search_error what) {
  const bool divides = scale_divides(f);
  error_plan p = f.has_bytes()
                     ? error_plan{byte_plan(f, rounding_spec::kind::nearest_even), {}, magnitude_mask, nullptr}
                     : plan_errors(f.grid, divides);
  const auto choose = [&]<search_error by>() {
    p.sum = divides ? block_error_of<true, by>(p.rounding, f.byte) : block_error_of<false, by>(p.rounding, f.byte);
#if UFP4_LANE_COUNT == 16
    p.estimate[0] = &errors_by_bins<by, false>;
    p.estimate[1] = &errors_by_bins<by, true>;
#endif
  };
  if (what == search_error::squared)
    choose.operator()<search_error::squared>();
  else
    choose.operator()<search_error::absolute>();
  return p;
}

/// The percentile of a block a lane, as bits: the smallest number that `rank` magnitudes do not exceed.
inline u32 percentile_lanes(const float* x, std::size_t length, int rank) {
  u32 least{};
  for (std::uint32_t bit = 0x40000000u; bit != 0; bit >>= 1) {
    u32 below{};
    for (std::size_t k = 0; k < length; ++k)
      below -= reinterpret_cast<u32>(as_bits(magnitude(load(x + k * lanes))) < least + bit);
    least += reinterpret_cast<u32>(below < static_cast<std::uint32_t>(rank)) & bit;
  }
  return least;
}

/// search_candidate: the scales j steps from others; `exists` where their codes do.
inline u32 candidate_scales(scale_kind kind, u32 base, int j, u32& exists) {
  exists = ~u32{};
  if (has_float_steps(kind))
    return encode_scale_bits(
        kind, rounded(decode_scale_bits<true>(kind, base) * broadcast(1.0f + static_cast<float>(j) / 32.0f)));
  const u32 code = base + static_cast<std::uint32_t>(j);  // below 0 it wraps beyond the largest code
  exists = reinterpret_cast<u32>(code <= max_scale(kind));
  return code;
}

/// A coder with the rule that a rule of values starts from, which computes a scale from a number: the amax or the
/// percentile.
inline kernel_coder without_values(kernel_coder c) {
  c.rule.searches = false;
  if (!is_scale_of_amax(c.rule.what)) c.rule.what = rule_kind::by_format;
  return c;
}

/// Blocks of `length` vectors, as value_scales has them.
struct lane_values {
  const float* x;
  std::size_t length;
};

/// The scales with the smallest errors, of equal ones the first.
struct least_error_scale {
  u32 bits{}, found{};
  f32 error{};
  UFP4_LANE void compare(u32 where, u32 other, f32 err) {
    const u32 better = where & (~found | reinterpret_cast<u32>(err < error));
    bits = better != 0u ? other : bits;
    error = better != 0u ? err : error;
    found |= where;
  }
};

/// Chooses scales from values, for one call of quantize_lanes.
class value_scales {
 public:
  explicit value_scales(const kernel_coder& c)
      : given_(c.rule),
        plain_(without_values(c)),
        decode_(broadcast(c.tensor.decode)),
        scale_factor_(broadcast(c.tensor.scale_factor)),
        error_(make_error_plan(c.format, c.rule.error)) {}

  /// What the other functions read, from some vectors of blocks: magnitudes on a symmetric grid.
  void take(const float* x, std::size_t count, float* values) const {
    for (std::size_t k = 0; k < count * lanes; k += lanes)
      store(values + k, as_float(as_bits(load(x + k)) & error_.value_mask));
  }
  /// The same of blocks of one row, to memory that the next call overwrites; or the vectors themselves where no errors
  /// are computed.
  lane_values take(const float* x, std::size_t length) {
    if (!compares()) return {x, length};
    take(x, length, value_);
    return {value_, length};
  }

  /// The scales of blocks.
  void operator()(const lane_values& v, u32 amax, u32& bits, lane_scales& s, quantize_report& report) const {
    quantize_report ignored;
    choose_scales<scale_features | features::quotient>(plain_, argument(v, amax), bits, s,
                                                       compares() ? ignored : report);
    if (!compares()) return;
    const grid_scales found = best(v, bits, amax);
    bits = found.bits;
    s.zero = finish_special_scales(plain_.format.scale, amax, found.factor, bits, report);
    s.factor = s.zero != 0u ? broadcast(1.0f) : found.factor;
  }

  // ---- The steps of it, for blocks whose outer scales are not those of the coder.

  /// Whether a scale of a number is where the rule starts, not what it gives.
  bool compares() const { return given_.searches || given_.what == rule_kind::four_over_six; }
  /// The number that this scale is computed from: the amax or the percentile.
  u32 argument(const lane_values& v, u32 amax) const {
    if (given_.what != rule_kind::percentile) return amax;
    const u32 least = percentile_lanes(v.x, v.length, percentile_rank(static_cast<int>(v.length), given_.per_mille));
    return (reinterpret_cast<u32>(amax >= infinity_bits) | reinterpret_cast<u32>(least == 0u)) != 0u ? amax : least;
  }
  /// Sets tensor_constants::decode and scale_factor of the next blocks, a lane each.
  void place_under(f32 decode, f32 scale_factor) { decode_ = decode, scale_factor_ = scale_factor; }
  /// The scales of the smallest errors, from those that the rule starts from. Blocks that are zero or not finite have
  /// any.
  grid_scales best(const lane_values& v, u32 bits, u32 amax) const {
    if (given_.searches) return search(v, bits, amax);
    // four_over_six: the other scale is that under which amax becomes 4.
    const f32 u = rounded(as_float(amax) * scale_factor_);
    const u32 other = encode_scale_bits(plain_.format.scale, rounded(u * 1.5f));
    const f32 err = error_of(v, try_scales(bits));
    return try_scales(error_of(v, try_scales(other)) < err ? other : bits);
  }

 private:
  UFP4_LANE grid_scales try_scales(u32 bits) const {
    return scales_of_bits(plain_.format, plain_.format.scale, bits, 1.0f, decode_);
  }
  /// The error under a scale. One of 0 that divides gives the codes of 0, as an infinite one does.
  UFP4_LANE f32 error_of(const lane_values& v, const grid_scales& t) const {
    const bool divides = scale_divides(plain_.format);
    const f32 factor = divides ? (t.factor == 0.0f ? broadcast(infinity) : t.factor) : t.factor;
    return error_.sum(error_, v.x, v.length, factor, t.effective);
  }

  grid_scales search(const lane_values& v, u32 base, [[maybe_unused]] u32 amax) const {
    const search_window window = window_of(plain_.format.scale, given_.window);
#if UFP4_LANE_COUNT == 16
    if (error_.bins.usable && has_float_steps(plain_.format.scale)) {
      const float_steps step(plain_.format.scale, decode_scale_bits<true>(plain_.format.scale, base), window);
      const u32 live = reinterpret_cast<u32>(amax - 1u < infinity_bits - 1u);  // not 0, finite
      if (step.count <= float_steps::most &&
          lane_bits(live & ~error_estimates::hold(error_.bins, step, as_float(amax))) == 0)
        return search_by_estimates(v, step, as_float(amax), live);
    }
#endif
    const int last = static_cast<int>(window.above);
    int j = -static_cast<int>(window.below);
    least_error_scale best;
    u32 next_exists;
    grid_scales next = try_scales(candidate_scales(plain_.format.scale, base, j, next_exists));
    while (j <= last) {
      const grid_scales t = next;
      const u32 exists = next_exists;
      if (++j <= last)
        next = try_scales(
            candidate_scales(plain_.format.scale, base, j, next_exists));  // it divides while errors are added up
      best.compare(exists, t.bits, error_of(v, t));
    }
    return try_scales(best.bits);
  }
#if UFP4_LANE_COUNT == 16
  /// The same where estimates leave one scale in nearly all blocks. Lanes that are not live have any scale.
  [[gnu::noinline]] grid_scales search_by_estimates(const lane_values& v, const float_steps& step, f32 amax,
                                                    u32 live) const {
    const error_estimates estimates(error_.bins, error_.estimate, v.x, v.length, step, amax);
    const f32 limit = largest_estimate(given_.error, estimates.smallest, amax, v.length);
    const u32 several = reinterpret_cast<u32>(estimates.second <= limit) & live;
    least_error_scale best{step.bits(estimates.multiplier)};
    for (int i = 0; i < step.count && lane_bits(several) != 0; ++i) {
      const u32 left = reinterpret_cast<u32>(estimates.error[i] <= limit) & several;
      if (lane_bits(left) == 0) continue;
      const grid_scales t = try_scales(step.bits(step.multiplier(i)));
      best.compare(left, t.bits, error_of(v, t));
    }
    return try_scales(best.bits);
  }
#endif

  scale_rule_spec given_;
  kernel_coder plain_;
  f32 decode_, scale_factor_;  ///< tensor_constants of the blocks
  error_plan error_;
  alignas(64) float value_[max_transform * lanes];  ///< of blocks of one row
};
UFP4_END_LANES
#endif
