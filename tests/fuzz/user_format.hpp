// ufp4 - block formats of a program's own from bytes: any grids, scales, blocks, outer scales, factors and exponents.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <memory>
#include <sstream>
#include <string>

#include <ufp4/block/presets.hpp>
#include <ufp4/block/scale_rules.hpp>

#include "input.hpp"

namespace fuzz {

/// A format as data, and the memory that it refers to.
struct user_format {
  std::shared_ptr<ufp4::detail::scaled_grid[]> more{new ufp4::detail::scaled_grid[3]{}};
  ufp4::format_spec spec{};
};

/// The exponent of the unit of a grid: mostly near 0, or anywhere in binary32, its ends among them.
inline int grid_exponent(input& in) {
  switch (in.below(8)) {
    case 0: return static_cast<int>(in.below(272)) - 149;
    case 1: return -149 + static_cast<int>(in.below(30));
    case 2: return 122 - static_cast<int>(in.below(30));
    case 3: return static_cast<int>(in.below(9)) - 8;
    case 4: return -1;  // E2M1 ends at 6
    default: return 0;
  }
}

/// Sixteen numbers, some of them equal, mostly with a +0: integers, E2M1, powers of two, or any numbers, times
/// 2^exponent.
inline ufp4::grid4 any_grid(input& in, int exponent) {
  constexpr float e2m1[] = {0, 1, 2, 3, 4, 6, 8, 12};
  const std::size_t kind = in.below(8);
  float value[16];
  for (int c = 0; c < 16; ++c) {
    const std::uint8_t byte = in.byte();
    float v = 0;
    switch (kind) {
      case 0: v = static_cast<float>(byte % 3) - 1.0f; break;
      case 1: v = static_cast<float>(c & 7) * (c < 8 ? 1.0f : -1.0f); break;
      case 2: v = e2m1[c & 7] * (c < 8 ? 1.0f : -1.0f) + (c == byte % 64 ? 5.0f : 0.0f); break;
      case 3: v = static_cast<float>(byte % 16); break;
      case 4: v = static_cast<float>(c) - 8.0f; break;
      case 5: v = (static_cast<float>(byte) - 127.5f) * 0.0078125f * static_cast<float>(1 + in.byte()); break;
      case 6: v = std::ldexp(byte % 2 != 0 ? 1.0f : -1.0f, byte / 4); break;  // far apart
      default: v = static_cast<float>(byte % 25) - 12.0f; break;
    }
    v = std::ldexp(v, exponent);
    value[c] = std::fabs(v) <= ufp4::detail::max_finite ? v : 1.0f;
  }
  value[kind == 1 || kind == 2 ? 0 : in.below(16)] = 0.0f;
  if (in.one_in(8)) value[in.below(16)] = -0.0f;
  return ufp4::grid4::of(value);
}

/// Elements of one byte, in place of the grid.
inline void take_bytes(input& in, ufp4::format_spec& f) {
  using namespace ufp4;
  constexpr format_spec bytes[] = {spec_of<int8_f32>,   spec_of<mxint8>,     spec_of<mxfp8_e4m3>,
                                   spec_of<mxfp8_e5m2>, spec_of<mxfp6_e3m2>, spec_of<mxfp6_e2m3>};
  const format_spec& one = bytes[in.below(6)];
  f.grid = one.grid, f.byte = one.byte;
}

/// One of several grids of a block, with a simple factor, or with a factor that puts its values where binary32 ends.
inline ufp4::detail::scaled_grid further_grid(input& in) {
  constexpr float simple[] = {1.0f, 4.0f, 0.25f, 6.0f / 7.0f, 1.5f, 0x1p40f, 0x1p-40f, 0.3f};
  if (!in.one_in(3)) return {any_grid(in, grid_exponent(in)), simple[in.below(8)]};
  const bool small = !in.one_in(3);
  const int power = static_cast<int>(in.below(40)), end = small ? -148 + static_cast<int>(in.below(24)) : 124;
  const float digits = 1.0f + static_cast<float>(in.byte()) / 256.0f;
  return {any_grid(in, small ? end + power : end - power), std::ldexp(digits, small ? -power : power)};
}

/// Mostly valid; format_mismatch tells. 0 rows or cols: any.
inline user_format any_format(input& in, int rows = 0, int cols = 0) {
  using ufp4::outer_scale;
  using ufp4::scale_kind;
  user_format f;
  f.spec.grid = any_grid(in, grid_exponent(in));
  f.spec.scale = static_cast<scale_kind>(in.below(6));
  f.spec.block.cols = cols != 0 ? cols : in.one_in(4) ? 2 << in.below(3) : 16 << in.below(5);
  f.spec.block.rows = rows != 0 ? rows : in.one_in(4) ? 1 << in.below(8) : in.one_in(4) ? f.spec.block.cols : 1;
  const bool mantissa = f.spec.scale == scale_kind::e4m3 || f.spec.scale == scale_kind::ue5m3;
  if (mantissa && !in.one_in(3)) {
    f.spec.outer.span = static_cast<outer_scale::kind>(in.below(4));
    if (f.spec.outer.span == outer_scale::kind::segment)
      f.spec.outer.segment = f.spec.block.cols * static_cast<int>(1 + in.below(9));
    if (f.spec.outer.span != outer_scale::kind::none && in.one_in(3)) f.spec.outer.type = scale_kind::bf16;
  }
  if (in.one_in(3)) {
    f.spec.choice.count = static_cast<int>(1 + (in.one_in(3) ? in.below(3) : 0));
    f.spec.choice.more = f.more.get();
    if (in.one_in(3)) f.spec.scale = scale_kind::e8m0, f.spec.outer = {};
    for (int g = 0; g < f.spec.choice.count; ++g) f.more[g] = further_grid(in);
  } else if (ufp4::detail::scale_bytes(f.spec.scale) == 1 && f.spec.block.rows == 1 && in.one_in(4)) {
    f.spec.block.group.wide = f.spec.block.cols >> in.below(4);
    if (in.one_in(2)) f.spec.block.group.narrow = f.spec.block.group.wide >> (1 + in.below(3));
  } else if (in.one_in(8)) {
    take_bytes(in, f.spec);
  }
  return f;
}

/// What repeats a case by hand: the format and the rule, enumerators as numbers, floats in hexadecimal.
inline std::string description(const ufp4::format_spec& f, const ufp4::scale_rule_spec& rule) {
  std::ostringstream out;
  const auto all = [&](const char* name, const auto&... numbers) {
    out << ", " << name;
    ((out << ' ' << static_cast<int>(numbers)), ...);
  };
  out << "scale " << static_cast<int>(f.scale);
  all("byte", f.byte), all("block", f.block.rows, f.block.cols),
      all("groups", f.block.group.wide, f.block.group.narrow);
  all("outer", f.outer.span, f.outer.segment, f.outer.type), all("rule", rule.what, rule.per_mille);
  all("search", rule.searches, rule.error, rule.window.below, rule.window.above), all("grids by", rule.grids);
  out << std::hexfloat;
  for (int g = 0; g <= f.choice.count && !f.has_bytes(); ++g) {
    out << "\n  grid times " << ufp4::detail::factor_of(f, g) << ':';
    for (const float v : ufp4::detail::nth_grid(f, g).value) out << ' ' << v;
  }
  return out.str();
}

}  // namespace fuzz
