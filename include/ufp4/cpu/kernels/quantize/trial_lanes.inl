// ufp4 - errors of blocks under the grids and scales that a block chooses from, over one instruction set's lanes.
// SPDX-License-Identifier: Apache-2.0
//
// What block_error (block/grid_choice.hpp) gives, with the codes where they are wanted.

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
      if constexpr (codes) word = add_code<Rounder::bit>(word, static_cast<int>(j), index, t);
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
    constexpr const halves_in_range_rounder* in_range = nullptr;
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
