// ufp4 - policies from bytes, valid and invalid ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/quantize.hpp>

#include "input.hpp"

namespace fuzz {

inline ufp4::transform_spec transform(input& in) {
  constexpr std::uint32_t lengths[] = {1, 16, 32, 64, 128, 256, 1, 16};
  ufp4::transform_spec t{.n = lengths[in.below(8)]};
  if (in.one_in(32)) t.n = in.raw<std::uint16_t>();  // most of these lengths are invalid
  t.rounds_to_bf16 = in.one_in(4);
  t.signs_valid = !in.one_in(64);
  for (std::uint32_t j = 0; j < t.n && j < 256; j += 32)
    t.signs[j / 32] = in.raw<std::uint32_t>() & (t.n >= 32 ? 0xFFFFFFFFu : (1u << t.n) - 1);
  return t;
}

inline ufp4::rounding_spec rounding(input& in) {
  switch (in.below(6)) {
    case 0: return ufp4::nearest_away{};
    case 1: return ufp4::toward_zero{};
    case 2: return ufp4::stochastic{in.raw<std::uint64_t>(), in.byte()};
    default: return ufp4::nearest_even{};
  }
}

/// Mostly the format's own rule: most others are rejected for most formats.
inline ufp4::scale_rule_spec rule(input& in) {
  using kind = ufp4::scale_rule_spec::kind;
  constexpr kind kinds[] = {kind::up,      kind::mx_floor,      kind::mx_even,
                            kind::mx_ceil, kind::four_over_six, kind::percentile};
  const std::size_t which = in.below(10);
  ufp4::scale_rule_spec rule{.what = which < 6 ? kinds[which] : kind::by_format, .searches = in.one_in(8)};
  if (!ufp4::detail::reads_values(rule)) return rule;
  if (in.one_in(2)) rule.error = ufp4::search_error::absolute;
  if (in.one_in(2)) rule.window = {static_cast<std::uint8_t>(in.below(40)), in.byte()};
  rule.per_mille = static_cast<std::uint16_t>(in.below(1002));
  return rule;
}

inline ufp4::shard place(input& in, std::size_t cols) {
  ufp4::shard s{in.raw<std::uint32_t>(), 256 * in.below(8), 0};
  if (in.byte() % 4 != 0) s.first_row = s.first_row / 64 * 64;
  s.total_cols = s.first_col + cols + 256 * in.below(4);
  if (in.one_in(8)) s.first_col = in.raw<std::uint64_t>();
  if (in.one_in(8)) s.total_cols = in.raw<std::uint64_t>();
  return s;
}

}  // namespace fuzz
