// ufp4 - errors of blocks under the grids and scales that a block chooses from, over one instruction set's lanes.
// SPDX-License-Identifier: Apache-2.0
//
// What error_of of a grid (block/scale_rules.hpp) gives, with the codes where they are wanted.
#if !defined(UFP4_TRIAL_LANES)
#define UFP4_TRIAL_LANES
#include <ufp4/cpu/kernels/quantize/error_lanes.hpp>

UFP4_BEGIN_LANES(quantize_kernel)

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

/// The codes of a word of indices.
UFP4_LANE u32 codes_of(const rounding_plan& p, u32 word) {
  return p.maps ? map_nibbles(load_nibble_map(p.code), word) : word;
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
  using kind = rounding_plan::kind;
  using in_halves = std::conditional_t<cheap_lookup, signed_halves_rounder, two_bit_mantissa_rounder>;
  constexpr kind halves = cheap_lookup ? kind::halves : kind::two_bit_mantissa;
  if (a.what == halves && b.what == kind::uniform)
    return same ? &code_two_products<in_halves, uniform_rounder, true>
                : &code_two_products<in_halves, uniform_rounder, false>;
  if (a.what == kind::uniform && b.what == halves)
    return same ? &code_two_products<uniform_rounder, in_halves, true>
                : &code_two_products<uniform_rounder, in_halves, false>;
  return nullptr;
}
UFP4_END_LANES
#endif
