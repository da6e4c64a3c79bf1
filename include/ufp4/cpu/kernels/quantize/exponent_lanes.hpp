// ufp4 - one-bit exponents of blocks, a block a lane, over one instruction set's lanes.
// SPDX-License-Identifier: Apache-2.0
#if !defined(UFP4_EXPONENT_LANES)
#define UFP4_EXPONENT_LANES
#include <ufp4/cpu/kernels/quantize/trial_lanes.hpp>

UFP4_BEGIN_LANES(quantize_kernel)

/// Chooses the one-bit exponents of blocks of scaled values, and divides them by their powers of two: take_exponents.
inline u32 take_exponents(const format_spec& f, float* t) {
  const int levels = ufp4::detail::exponent_levels(f.block), top = ufp4::detail::floor_log2(f.grid.qmax);
  u32 bits{};
  for (int level = 0, at = 8; level < levels; at += f.block.cols / f.block.group[level], ++level) {
    const auto size = static_cast<std::size_t>(f.block.group[level]),
               groups = static_cast<std::size_t>(f.block.cols) / size;
    const f32 least = broadcast(ufp4::detail::exp2i(top + levels - level));
    for (std::size_t g = 0; g < groups; ++g) {
      float* const group = t + g * size * lanes;
      f32 amax{};
      for (std::size_t k = 0; k < size; ++k) amax = at_least(magnitude(load(group + k * lanes)), amax);
      const u32 large = reinterpret_cast<u32>(amax >= least);
      const f32 power = large != 0u ? broadcast(0.5f) : broadcast(1.0f);
      for (std::size_t k = 0; k < size; ++k) store(group + k * lanes, load(group + k * lanes) * power);
      bits |= large & broadcast(std::uint32_t{1} << (static_cast<std::uint32_t>(at) + static_cast<std::uint32_t>(g)));
    }
  }
  return bits;
}

/// Blocks with one-bit exponents whose errors under many scales are wanted. A quotient or a product with a scale does
/// not decrease with the magnitude, so the amaxes of groups decide the exponents under every scale.
class exponent_trial {
 public:
  using error_of = f32(const exponent_trial&, const error_plan&, const grid_trial&);
  /// The function of a grid, or null for one that is not regular.
  static error_of* function_of(const rounding_plan& rounding, bool divides) {
    using kind = rounding_plan::kind;
    if (rounding.what == kind::uniform) return function_of<looked_up_value<uniform_rounder>>(divides);
    if (rounding.nearby == near_kind::two_bit_mantissa) return function_of<minifloat_value>(divides);
    if constexpr (cheap_lookup)
      if (rounding.what == kind::halves) return function_of<looked_up_value<halves_rounder>>(divides);
    return nullptr;
  }
  /// For a format with such exponents, or unused.
  explicit exponent_trial(const format_spec& f) : levels_(ufp4::detail::exponent_levels(f.block)) {
    if (levels_ == 0) return;
    size_ = static_cast<std::size_t>(f.block.group[levels_ - 1]);
    groups_ = static_cast<std::size_t>(f.block.group[0]) / size_;
    wide_groups_ = static_cast<std::size_t>(f.block.cols / f.block.group[0]);
    const int top = ufp4::detail::floor_log2(f.grid.qmax);
    for (int level = 0; level < levels_; ++level) least_[level] = ufp4::detail::exp2i(top + levels_ - level);
  }
  /// Takes blocks, whose values stay where they are.
  void take(const float* x) {
    x_ = x;
    for (std::size_t g = 0; g < groups_ * wide_groups_; ++g, x += size_ * lanes) {
      amax_[g] = magnitude(load(x));
      for (std::size_t k = 1; k < size_; ++k) amax_[g] = at_least(magnitude(load(x + k * lanes)), amax_[g]);
    }
  }

 private:
  static constexpr std::size_t most_groups = 24;  ///< the bits of a block that are not its scale

  template <class Value>
  static error_of* function_of(bool divides) {
    return divides ? &error<Value, true> : &error<Value, false>;
  }
  /// error_with_exponents of block/grid_choice.hpp.
  template <class Value, bool divides>
  static f32 error(const exponent_trial& b, const error_plan& p, const grid_trial& by) {
    const Value value(p);
    const f32 one = broadcast(1.0f), half = broadcast(0.5f), two = broadcast(2.0f);
    const float* x = b.x_;
    f32 err{};
    for (std::size_t w = 0; w < b.wide_groups_; ++w) {
      const f32* const amax = b.amax_ + w * b.groups_;
      f32 scaled[most_groups], largest{};
      for (std::size_t g = 0; g < b.groups_; ++g) {
        scaled[g] = scaled_by<divides>(amax[g], by.factor);
        largest = at_least(largest, scaled[g]);
      }
      const u32 large = reinterpret_cast<u32>(largest >= b.least_[0]);
      const f32 power = large != 0u ? half : one;
      for (std::size_t g = 0; g < b.groups_; ++g) {
        f32 next = one, back = large != 0u ? two : one;
        if (b.levels_ == 2) {
          const u32 larger = reinterpret_cast<u32>(rounded(scaled[g] * power) >= b.least_[1]);
          next = larger != 0u ? half : one;
          back = larger != 0u ? back * 2.0f : back;
        }
        for (std::size_t k = 0; k < b.size_; ++k, x += lanes) {
          const f32 v = magnitude(load(x)), t = rounded(rounded(scaled_by<divides>(v, by.factor) * power) * next);
          err = by.add_error(err, v - rounded(rounded(value(t) * back) * by.effective));
        }
      }
    }
    return err;
  }

  const float* x_ = nullptr;
  int levels_;
  std::size_t size_ = 0, groups_ = 0, wide_groups_ = 0;  ///< elements of a smallest group, of these in a wide one, wide
  float least_[2] = {};                                  ///< of the magnitudes with the exponent 1, by level
  f32 amax_[most_groups];                                ///< of the smallest groups
};
UFP4_END_LANES
#endif
