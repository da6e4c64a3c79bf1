// ufp4 - block scales for each of several grids, under an outer scale for each lane, a block a lane.
// SPDX-License-Identifier: Apache-2.0
#if !defined(UFP4_GRID_SCALE_LANES)
#define UFP4_GRID_SCALE_LANES
#include <ufp4/cpu/kernels/quantize/block_scale_lanes.hpp>
#include <ufp4/cpu/kernels/quantize/outer_lanes.hpp>

UFP4_BEGIN_LANES(quantize_kernel)

/// What scale_for_grid gives, a block a lane. Lanes whose amax is not finite have any scale.
struct grid_scales {
  u32 bits;
  f32 factor, effective;
};

/// The scales of blocks for one grid of a format.
class grid_scaler {
 public:
  grid_scaler() = default;
  grid_scaler(const kernel_coder& c, int g)
      : coder_(&c), g_(g), grid_(ufp4::detail::nth_grid(c.format, g)), factor_(ufp4::detail::factor_of(c.format, g)) {
    grid_.qmax = ufp4::detail::qmax_of(c.format, g);
    per_qmax_ = 1.0f / grid_.qmax;
    rescale_ = 1.0f / factor_;
    zero_bits_ = scalar({}, 0.0f).bits;
  }

  f32 rescale() const { return broadcast(rescale_); }
  /// tensor_constants::scale_factor.
  f32 scale_factor(const outer_lanes& outer) const { return rounded(outer.encode * per_qmax_); }
  /// `kind` is the format's. Returns which lanes are special: zero, not finite, or with an amax or factor that is not a
  /// normal number.
  UFP4_LANE std::uint32_t operator()(scale_kind kind, u32 amax, const outer_lanes& outer, grid_scales& s) const {
    constexpr std::uint32_t least = 0x00800000, range = 0x7F000000;  // of normal numbers
    const u32 watched = kind == scale_kind::e8m0 ? power_of_two(amax, s) : rounded_scale(kind, amax, outer, s);
    const std::uint32_t special =
        lane_bits(reinterpret_cast<u32>(maximum(watched - least, as_bits(s.factor) - least) >= range));
    if (special != 0) replace_special(amax, special, outer, s);
    return special;
  }

  /// Those with these bits.
  UFP4_LANE grid_scales under(scale_kind kind, u32 bits, const outer_lanes& outer) const {
    if (kind == scale_kind::e8m0) return {bits, inverse_power_of(bits), effective(power_of_two_of(bits), outer)};
    const f32 scale = decode_scale_bits<true>(kind, bits);
    grid_scales s{bits, scale, effective(scale, outer)};
    if (coder_->format.two_level())
      s.factor =
          scale == 0.0f ? f32{} : at_most(1.0f / rounded(scale * outer.decode), broadcast(ufp4::detail::max_finite));
    return s;
  }

  /// Whether blocks have the same scales for another grid of the format: the largest magnitudes are equal.
  bool has_scales_of(const grid_scaler& other) const { return grid_.qmax == other.grid_.qmax; }
  /// The same from the scales for such a grid.
  UFP4_LANE void from(const grid_scales& other, scale_kind kind, u32 amax, std::uint32_t special,
                      const outer_lanes& outer, grid_scales& s) const {
    s = other;
    const f32 scale = kind == scale_kind::e8m0 ? power_of_two_of(s.bits) : decode_scale_bits<true>(kind, s.bits);
    s.effective = effective(scale, outer);
    if (special != 0) replace_special(amax, special, outer, s);
  }

 private:
  UFP4_LANE f32 effective(f32 scale, const outer_lanes& outer) const {
    const f32 of_grid = rounded(scale * factor_);
    return coder_->format.two_level() ? rounded(of_grid * outer.decode) : of_grid;
  }
  /// Both return what is a normal number unless the block is special, as the factor is.
  u32 power_of_two(u32 amax, grid_scales& s) const {
    s = under(scale_kind::e8m0, power_of_two_scales(grid_, coder_->rule.what, amax), outer_lanes{});
    return amax;
  }
  UFP4_LANE u32 rounded_scale(scale_kind kind, u32 amax, const outer_lanes& outer, grid_scales& s) const {
    const bool two_level = coder_->format.two_level();
    const f32 x = as_float(amax), argument = rounded(two_level ? x * scale_factor(outer) : x / grid_.qmax);
    s.bits = encode_scale_bits(kind, argument);
    if (coder_->rule.what == ufp4::detail::rule_kind::up)
      s.bits -= reinterpret_cast<u32>(decode_scale_bits<true>(kind, s.bits) < argument) &
                reinterpret_cast<u32>(s.bits < ufp4::detail::max_scale(kind));
    const f32 scale = decode_scale_bits<true>(kind, s.bits);
    s.factor = two_level ? 1.0f / (scale * outer.decode) : scale;
    s.effective = effective(scale, outer);
    return as_bits(argument);
  }
  block_scale scalar(const ufp4::tensor_constants& constants, float amax) const {
    return ufp4::detail::scale_for_grid(coder_->format, g_, coder_->rule, constants, {}, amax);
  }
  /// The scales of the lanes whose bits in `special` are set.
  [[gnu::cold, gnu::noinline]] void replace_special(u32 amax, std::uint32_t special, const outer_lanes& outer,
                                                    grid_scales& s) const {
    const u32 empty = reinterpret_cast<u32>(amax == 0u),
              nonfinite = reinterpret_cast<u32>(amax >= ufp4::detail::infinity_bits);
    s.bits = empty != 0u ? broadcast(zero_bits_) : s.bits;
    s.factor = (empty | nonfinite) != 0u ? broadcast(1.0f) : s.factor;
    s.effective = empty != 0u ? f32{} : s.effective;
    for (std::uint32_t left = special & ~lane_bits(empty | nonfinite); left != 0; left &= left - 1) {
      const auto l = static_cast<std::size_t>(__builtin_ctz(left));
      const block_scale one = scalar({outer.decode[l], 0, outer.encode[l]}, ufp4::detail::to_float(amax[l]));
      s.bits[l] = one.bits;
      s.factor[l] = one.factor;
      s.effective[l] = one.effective;
    }
  }

  const kernel_coder* coder_ = nullptr;
  int g_ = 0;
  grid4 grid_{};  ///< its qmax with the factor and all one-bit exponents
  float factor_ = 1, rescale_ = 1, per_qmax_ = 1;
  std::uint32_t zero_bits_ = 0;  ///< of the scale of a zero block
};
UFP4_END_LANES
#endif
