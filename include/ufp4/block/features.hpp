// ufp4 - features: what a call can need, as the types of its arguments show; the rest is not compiled for it.
// SPDX-License-Identifier: Apache-2.0
//
// An operation computes one value from its formats, policies and element types, and passes it to the templates between
// it and its kernels. Each keeps the bits that matter to it (features & some), so that calls share what is the same for
// them. What is known at run time alone (format_spec, rounding_spec, scale_rule_spec) has every feature of its kind.
#pragma once

#include <ufp4/block/block_format.hpp>

namespace ufp4::detail::inline UFP4_TYPES {

/// One bit for each. features_of gives those of a format.
enum class features : std::uint32_t {
  none = 0,
  // Policies.
  transform = 1u << 0,       ///< a Hadamard transform
  random_bits = 1u << 1,     ///< stochastic rounding
  other_rounding = 1u << 2,  ///< nearest_away and toward_zero
  search = 1u << 3,          ///< a scale rule that reads the values of a block, not only their amax
  // Matrices of floats.
  half_input = 1u << 4,  ///< elements of type bf16 or fp16, read or written
  // Formats.
  quotient = 1u << 5,        ///< values are divided by their block scale
  uniform_grid = 1u << 6,    ///< values 0 to 7 times a unit, and their negatives
  two_bit_grid = 1u << 7,    ///< values 0 1 2 3 4 6 8 12 times a unit, and their negatives
  other_grid = 1u << 8,      ///< any other values in 4 bits
  f32_scale = 1u << 9,       ///< the types of block scales
  bf16_scale = 1u << 10,     ///< ...
  e4m3_scale = 1u << 11,     ///< ...
  ue5m3_scale = 1u << 12,    ///< ...
  e8m0_scale = 1u << 13,     ///< ...
  e6m2_scale = 1u << 14,     ///< a further part too
  tall_block = 1u << 15,     ///< blocks of several rows
  short_block = 1u << 16,    ///< blocks of less than 16 columns
  byte_element = 1u << 17,   ///< int8
  byte_float = 1u << 18,     ///< floats of one byte
  further_parts = 1u << 19,  ///< several grids, one-bit exponents, outer scales of rows or segments, or e6m2 scales
  block_16 = 1u << 20,       ///< blocks of 16 columns
  block_32 = 1u << 21,       ///< blocks of 32 columns
  long_block = 1u << 22,     ///< longer ones
  // Products.
  prepacked = 1u << 23,    ///< a prepacked right operand
  mixed_input = 1u << 24,  ///< an operand that is not quantized
  any_product = 1u << 25,  ///< products that the 8-bit integer kernels do not compute alone (integers_suffice)
  other_mode = 1u << 26,   ///< exact_blocks or folded_bf16
  // Policies.
  corrected_scales = 1u << 27,  ///< eden
  all = (1u << 28) - 1,
};
UFP4_HD constexpr features operator|(features a, features b) {
  return static_cast<features>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
UFP4_HD constexpr features operator&(features a, features b) {
  return static_cast<features>(static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b));
}
UFP4_HD constexpr features operator~(features a) {
  return static_cast<features>(~static_cast<std::uint32_t>(a)) & features::all;
}
/// Whether a has any of b.
UFP4_HD constexpr bool has(features a, features b) { return (a & b) != features::none; }
UFP4_HD constexpr features only_if(bool condition, features f) { return condition ? f : features::none; }

/// Every feature of a kind.
inline constexpr features grid_features = features::uniform_grid | features::two_bit_grid | features::other_grid;
inline constexpr features scale_features = features::f32_scale | features::bf16_scale | features::e4m3_scale |
                                           features::ue5m3_scale | features::e8m0_scale | features::e6m2_scale;
inline constexpr features element_features = features::byte_element | features::byte_float;
inline constexpr features policy_features = features::transform | features::random_bits | features::other_rounding |
                                            features::search | features::corrected_scales;
inline constexpr features product_features =
    features::prepacked | features::mixed_input | features::any_product | features::other_mode;
inline constexpr features format_features = ~(policy_features | product_features | features::half_input);

/// A power of two from 2^-60 to 2^60.
UFP4_HD constexpr bool is_power_of_two(float x) {
  const std::uint32_t bits = to_bits(x);
  return (bits & 0x007FFFFFu) == 0 && bits >= 67u << 23 && bits <= 187u << 23;
}
/// Whether the magnitudes of a grid are a power of two times these, and its negative values the same.
UFP4_HD constexpr bool has_magnitudes(const grid4& g, const int (&multiple)[8]) {
  bool same = g.zero == 7 && g.levels == 15 && is_power_of_two(g.level[8]);
  for (int i = 0; same && i < 8; ++i)
    same = g.level[7 + i] == g.level[8] * static_cast<float>(multiple[i]) && g.level[7 - i] == -g.level[7 + i];
  return same;
}
UFP4_HD constexpr features features_of(const grid4& g) {
  if (has_magnitudes(g, {0, 1, 2, 3, 4, 5, 6, 7})) return features::uniform_grid;
  return has_magnitudes(g, {0, 1, 2, 3, 4, 6, 8, 12}) ? features::two_bit_grid : features::other_grid;
}
/// Of scale kind k, whose bits follow each other.
UFP4_HD constexpr features features_of(scale_kind kind) {
  return static_cast<features>(static_cast<std::uint32_t>(features::f32_scale) << static_cast<unsigned>(kind));
}
/// Whether a format has parts that not every kernel has code for, and which: they are quick to ask for.
UFP4_HD constexpr features parts_of(const format_spec& f) {
  const bool further = f.choice.count != 0 || f.block.group.wide != 0 || f.has_outer_array();
  return only_if(further || f.scale == scale_kind::e6m2, features::further_parts) |
         only_if(f.byte == byte_element::int8, features::byte_element) |
         only_if(f.byte > byte_element::int8, features::byte_float);
}
/// Whether a format has parts that only portable kernels and those named `extended` know.
UFP4_HD constexpr bool has_extended_blocks(const format_spec& f) {
  return has(parts_of(f), features::further_parts | features::byte_float);
}
constexpr features features_of(const format_spec& f) {
  const bool several = f.choice.count != 0 || f.block.group.wide != 0;
  const features all = parts_of(f) | features_of(f.scale) |
                       only_if(f.scale != scale_kind::e8m0 && !f.two_level(), features::quotient) |
                       only_if(f.block.rows > 1, features::tall_block) |
                       (f.block.cols < 16    ? features::short_block
                        : f.block.cols == 16 ? features::block_16
                        : f.block.cols == 32 ? features::block_32
                                             : features::long_block);
  return f.has_bytes() ? all : all | (several ? grid_features : features_of(f.grid));
}

// ---- What `needs` tells of a call's data; read from the data only where it does not tell.
template <features needs>
UFP4_HD constexpr scale_kind scale_in(const format_spec& f) {
  constexpr features scales = needs & scale_features;
  constexpr scale_kind kinds[] = {scale_kind::f32,   scale_kind::bf16, scale_kind::e4m3,
                                  scale_kind::ue5m3, scale_kind::e8m0, scale_kind::e6m2};
  for (const scale_kind kind : kinds)
    if (scales == features_of(kind)) return kind;
  return f.scale;
}
template <features needs>
UFP4_HD constexpr bool has_bytes_in(const format_spec& f) {
  return has(needs, element_features) && f.has_bytes();
}

}  // namespace ufp4::detail::inline UFP4_TYPES
