// ufp4 - errors of blocks under scales, a block a lane, over one instruction set's lanes.
// SPDX-License-Identifier: Apache-2.0
//
// Element k of block l is lane l of vector k, so that every error is summed in the order of the specification.
#if !defined(UFP4_ERROR_LANES)
#define UFP4_ERROR_LANES
#include <ufp4/cpu/kernels/quantize/rounder_lanes.hpp>

UFP4_BEGIN_LANES(quantize_kernel)

struct error_plan;
/// The errors of the blocks of `length` vectors under the scales of a trial.
using block_error = f32(const error_plan&, const float* x, std::size_t length, f32 factor, f32 effective);

struct error_plan {
  rounding_plan rounding;       ///< nearest even
  alignas(64) float value[16];  ///< by index
  std::uint32_t value_mask;     ///< bits of the elements that are read
  block_error* sum;
  distance_bins bins{};  ///< where scales divide
  void (*estimate[2])(const distance_bins&, const float* x, std::size_t length, const f32* scales, f32* errors) = {};
};

/// All but the functions, for a grid.
inline error_plan plan_errors(const grid4& g, bool divides) {
  error_plan p{make_plan(g, rounding_spec::kind::nearest_even, cheap_lookup), {}, ~0u, nullptr};
  const int first = is_symmetric(g) ? g.zero : 0;
  if (is_symmetric(g)) p.value_mask = magnitude_mask;
  for (int i = first; i < g.levels; ++i) p.value[i - first] = g.level[i];
  if (divides) p.bins = plan_distances(p.value, g.levels - first, is_symmetric(g));
  return p;
}

template <search_error what>
UFP4_LANE f32 add_error(f32 err, f32 d) {
  if constexpr (what == search_error::squared) return fma(d, d, err);
  return err + magnitude(d);
}
template <bool divides>
UFP4_LANE f32 scaled_by(f32 x, f32 factor) {
  return rounded(divides ? x / factor : x * factor);
}

/// The values of the grid that magnitudes are rounded to: by a rounder, or without an index.
template <class Rounder>
struct looked_up_value {
  Rounder rounder;
  table16 value;
  UFP4_LANE explicit looked_up_value(const error_plan& p) : rounder(p.rounding), value(load_table(p.value)) {}
  UFP4_LANE f32 operator()(f32 t) const { return lookup(value, rounder(t, u32{}) >> Rounder::bit); }
};
/// Of small floats with M bits of mantissa, as byte_float_nearest: the sum with 2^(e + 23 - M) is a multiple of
/// 2^(e - M), and less that number the value.
struct minifloat_value {
  f32 qmax, normal;
  std::uint32_t up;
  UFP4_LANE explicit minifloat_value(const error_plan& p)
      : qmax(broadcast(p.rounding.qmax)),
        normal(broadcast(p.rounding.smallest_normal())),
        up((23 - p.rounding.mantissa_bits) << 23) {}
  UFP4_LANE f32 operator()(f32 t) const {
    const f32 a = at_most(t, qmax);
    const f32 shift = as_float((as_bits(at_least(a, normal)) & 0x7F800000u) + up);
    return rounded(a + shift) - shift;
  }
};

/// Of uniform grids and int8: the sum with 2^23 units is a multiple of a unit.
struct uniform_value {
  f32 qmax, shift;
  UFP4_LANE explicit uniform_value(const error_plan& p)
      : qmax(broadcast(p.rounding.qmax)), shift(broadcast(p.rounding.unit * 8388608.0f)) {}
  UFP4_LANE f32 operator()(f32 t) const { return rounded(at_most(t, qmax) + shift) - shift; }
};

/// For symmetric grids, of whose blocks x has the magnitudes.
template <class Value, bool divides, search_error what>
f32 error_by(const error_plan& p, const float* x, std::size_t length, f32 factor, f32 effective) {
  const Value value(p);
  f32 err{};
#pragma GCC unroll 4
  for (std::size_t k = 0; k < length; ++k) {
    const f32 v = load(x + k * lanes);
    err = add_error<what>(err, v - rounded(value(scaled_by<divides>(v, factor)) * effective));
  }
  return err;
}

// ---- Errors under the grids and scales that a block chooses from: what error_of (block/scale_rules.hpp) gives,
// with the codes where they are wanted.

/// How the values of blocks are compared with those of a grid.
struct grid_trial {
  f32 factor, rescale, effective;
  search_error what;

  template <bool divides, bool rescales>
  UFP4_LANE f32 scaled(f32 x) const {
    const f32 t = scaled_by<divides>(x, factor);
    return rescales ? rounded(t * rescale) : t;
  }
  /// By the errors of a search.
  UFP4_LANE f32 add_error(f32 err, f32 d) const {
    return what == search_error::squared ? fma(d, d, err) : err + magnitude(d);
  }
  template <std::size_t n>
  UFP4_LANE f32 add_errors(f32 err, const f32 (&d)[n]) const {
    if (what == search_error::squared) {
#pragma GCC unroll 8
      for (std::size_t j = 0; j < n; ++j) err = fma(d[j], d[j], err);
      return err;
    }
#pragma GCC unroll 8
    for (std::size_t j = 0; j < n; ++j) {
      const f32 m = magnitude(d[j]);
      err = what == search_error::absolute ? err + m : m > err ? m : err;
    }
    return err;
  }
};

/// The errors of blocks of `length` vectors under a trial, and their codes to nearest even, or errors alone.
using trial_codes = f32(const error_plan&, const grid_trial&, const float* x, std::size_t length, u32* words);

/// For symmetric grids.
template <class Rounder, bool divides, bool rescales, bool codes>
f32 code_trial(const error_plan& p, const grid_trial& trial, const float* x, std::size_t length,
               [[maybe_unused]] u32* words) {
  const Rounder rounder(p.rounding);
  const table16 value = load_table(p.value);
  f32 err{};
  for (std::size_t k = 0; k < length; k += 8, x += 8 * lanes) {
    [[maybe_unused]] u32 word{};
    f32 d[8];
#pragma GCC unroll 8
    for (std::size_t j = 0; j < 8; ++j) {
      const f32 v = load(x + j * lanes), t = trial.scaled<divides, rescales>(v);
      const u32 index = rounder(t, u32{});
      if constexpr (codes) word = add_index<Rounder>(word, j, index, t);
      d[j] = magnitude(v) - rounded(lookup(value, index >> Rounder::bit) * trial.effective);
    }
    err = trial.add_errors(err, d);
    if constexpr (codes) words[k / 8] = finish_codes<Rounder::bit>(word);
  }
  return err;
}

/// For any grid, four elements at a time.
template <bool divides, bool rescales, bool codes>
f32 code_trial_by_cuts(const error_plan& p, const grid_trial& trial, const float* x, std::size_t length,
                       [[maybe_unused]] u32* words) {
  const cuts_rounder rounder{p.rounding};
  const table16 value = load_table(p.value);
  f32 err{};
  for (std::size_t k = 0; k < length; k += 4, x += 4 * lanes) {
    f32 v[4], t[4];
    u32 index[4] = {};
    [[maybe_unused]] u32 word{};
    if constexpr (codes) word = k % 8 == 0 ? u32{} : words[k / 8];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 4; ++j) {
      v[j] = load(x + j * lanes);
      t[j] = trial.scaled<divides, rescales>(v[j]);
      if constexpr (codes) word |= rounder.sign(t[j]) << static_cast<std::uint32_t>(4 * (k % 8 + j));
      t[j] = rounder.value(t[j]);
    }
    rounder.ranks(t, index);
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 4; ++j) {
      if constexpr (codes) word |= index[j] << static_cast<std::uint32_t>(4 * (k % 8 + j));
      v[j] = as_float(as_bits(v[j]) & p.value_mask) - rounded(lookup(value, index[j]) * trial.effective);
    }
    err = trial.add_errors(err, v);
    if constexpr (codes) words[k / 8] = word;
  }
  return err;
}

/// The functions of a grid; in_range: where no scaled magnitude reaches the end of qmax's binade.
struct trial_functions {
  trial_codes *any = nullptr, *in_range = nullptr;
};
template <bool divides, bool rescales, bool codes>
trial_functions trial_functions_of(rounding_plan::kind rounding) {
  using kind = rounding_plan::kind;
  constexpr auto of = []<class Rounder>(const Rounder*) { return &code_trial<Rounder, divides, rescales, codes>; };
  constexpr const uniform_rounder* uniform = nullptr;
  if (rounding == kind::uniform) return {of(uniform), of(uniform)};
  if constexpr (cheap_lookup) {
    constexpr const halves_rounder* halves = nullptr;
    constexpr const signed_halves_rounder* in_range = nullptr;
    if (rounding == kind::halves) return {of(halves), of(in_range)};
  } else {
    constexpr const two_bit_mantissa_rounder* two_bit = nullptr;
    if (rounding == kind::two_bit_mantissa) return {of(two_bit), of(two_bit)};
  }
  return {&code_trial_by_cuts<divides, rescales, codes>, &code_trial_by_cuts<divides, rescales, codes>};
}
template <bool codes>
trial_functions trial_functions_of(rounding_plan::kind rounding, bool divides, bool rescales) {
  if (divides)
    return rescales ? trial_functions_of<true, true, codes>(rounding)
                    : trial_functions_of<true, false, codes>(rounding);
  return rescales ? trial_functions_of<false, true, codes>(rounding)
                  : trial_functions_of<false, false, codes>(rounding);
}

/// Two trials at once, of grids without a factor and with one.
struct two_trials {
  const error_plan* plan[2];
  grid_trial by[2];
};
/// Where the second grid has the smaller error; codes to nearest even of the grids that blocks then have.
using code_two_trials = u32(const two_trials&, const float* x, std::size_t length, u32* words);

/// For symmetric grids. `same`: both have the same factor.
template <class First, class Second, bool same>
u32 code_two_products(const two_trials& p, const float* x, std::size_t length, u32* words) {
  const First first(p.plan[0]->rounding);
  const Second second(p.plan[1]->rounding);
  const table16 value[2] = {load_table(p.plan[0]->value), load_table(p.plan[1]->value)};
  const grid_trial &a = p.by[0], &b = p.by[1];
  f32 err[2] = {};
  u32 coded[2][max_transform / 8];
  for (std::size_t k = 0; k < length; k += 8, x += 8 * lanes) {
    u32 word[2] = {};
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 8; half += 4) {
      f32 d[2][4];
#pragma GCC unroll 4
      for (std::size_t j = 0; j < 4; ++j) {
        const f32 v = load(x + (half + j) * lanes), m = magnitude(v), t = a.scaled<false, false>(v);
        const f32 other = rounded((same ? t : b.scaled<false, false>(v)) * b.rescale);
        const u32 index[2] = {first(t, u32{}), second(other, u32{})};
        word[0] = add_index<First>(word[0], half + j, index[0], t);
        word[1] = add_index<Second>(word[1], half + j, index[1], t);
        d[0][j] = m - rounded(lookup(value[0], index[0] >> First::bit) * a.effective);
        d[1][j] = m - rounded(lookup(value[1], index[1] >> Second::bit) * b.effective);
      }
      err[0] = a.add_errors(err[0], d[0]);
      err[1] = b.add_errors(err[1], d[1]);
    }
    coded[0][k / 8] = finish_codes<First::bit>(word[0]);
    coded[1][k / 8] = finish_codes<Second::bit>(word[1]);
  }
  const u32 better = reinterpret_cast<u32>(err[1] < err[0]);
  for (std::size_t w = 0; w < length / 8; ++w) {
    const u32 of_first = codes_of(p.plan[0]->rounding, coded[0][w]);
    words[w] = better != 0u ? codes_of(p.plan[1]->rounding, coded[1][w]) : of_first;
  }
  return better;
}

/// The function of two grids whose scales multiply, one of equal steps and one in halves of binades, for scaled
/// magnitudes below the end of qmax's binade; or null.
inline code_two_trials* two_products_of(const rounding_plan& a, const rounding_plan& b, bool same) {
  if (a.what == by_binades && b.what == rounding_plan::kind::uniform)
    return same ? &code_two_products<in_range_rounder, uniform_rounder, true>
                : &code_two_products<in_range_rounder, uniform_rounder, false>;
  if (a.what == rounding_plan::kind::uniform && b.what == by_binades)
    return same ? &code_two_products<uniform_rounder, in_range_rounder, true>
                : &code_two_products<uniform_rounder, in_range_rounder, false>;
  return nullptr;
}

// ---- One-bit exponents of blocks.

/// Chooses the one-bit exponents of blocks of scaled values, and divides them by their powers of two: take_exponents.
inline u32 take_exponents(const format_spec& f, float* t) {
  const int levels = exponent_levels(f.block), top = floor_log2(f.grid.qmax);
  u32 bits{};
  for (int level = 0, at = 8; level < levels; at += f.block.cols / f.block.group[level], ++level) {
    const auto size = static_cast<std::size_t>(f.block.group[level]),
               groups = static_cast<std::size_t>(f.block.cols) / size;
    const f32 least = broadcast(exp2i(top + levels - level));
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
  explicit exponent_trial(const format_spec& f) : levels_(exponent_levels(f.block)) {
    if (levels_ == 0) return;
    size_ = static_cast<std::size_t>(f.block.group[levels_ - 1]);
    groups_ = static_cast<std::size_t>(f.block.group[0]) / size_;
    wide_groups_ = static_cast<std::size_t>(f.block.cols / f.block.group[0]);
    const int top = floor_log2(f.grid.qmax);
    for (int level = 0; level < levels_; ++level) least_[level] = exp2i(top + levels_ - level);
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
