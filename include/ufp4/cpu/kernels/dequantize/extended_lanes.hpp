// ufp4 - dequantize of formats with outer scales of rows and segments, several grids or one-bit exponents, over lanes.
// SPDX-License-Identifier: Apache-2.0
//
// The bits and the scales of the blocks of a stretch are decoded first. Where a block
// has one of several grids its number selects the table; elements under one-bit exponents are multiplied by powers of
// two; other formats are decoded as those without such parts.
#if !defined(UFP4_DECODE_EXTENDED_LANES)
#define UFP4_DECODE_EXTENDED_LANES
#include <ufp4/cpu/kernel_tables.hpp>
#include <ufp4/cpu/kernels/hadamard/hadamard_lanes.hpp>

UFP4_BEGIN_LANES(dequantize_kernel)

inline constexpr std::size_t group = 16, group_regs = group / lanes;
inline constexpr std::size_t stretch = 4096;   ///< columns whose scales are decoded at once
inline constexpr std::size_t buffered = 1024;  ///< columns that decode_rows decodes at once, for the cache

/// Every NaN becomes the quiet NaN, of which a rounding that adds to its bits leaves a NaN.
UFP4_LANE f32 quiet_nans(f32 v) { return v == v ? v : as_float(broadcast(0x7FC00000u)); }

/// The parts of the bits that are stored for a block, a block a lane.
class block_parts {
 public:
  explicit block_parts(const format_spec& f)
      : scale_mask(ufp4::detail::scale_mask(f)), kind_(f.scale), count_(static_cast<std::uint32_t>(f.choice.count)) {
    if (count_ == 0) return;
    shift_ = static_cast<std::uint32_t>(grid_shift(f));
    alignas(64) float factor[16] = {};
    for (int g = 0; g <= f.choice.count; ++g)
      factor[g] = factor_of(f, g), has_factors = has_factors || factor[g] != 1.0f;
    factors_ = load_table(factor);
  }
  std::uint32_t scale_mask;  ///< the bits of the scale
  bool has_factors = false;  ///< whether a grid has a factor other than 1

  /// grid_number
  UFP4_LANE u32 grid(u32 bits) const { return minimum(bits >> shift_, broadcast(count_)); }
  UFP4_LANE f32 factor(u32 bits) const { return lookup(factors_, grid(bits)); }
  /// decode_block
  UFP4_LANE f32 scale(u32 bits) const {
    const f32 scale = decode_scale_bits(kind_, bits & scale_mask);
    return has_factors ? rounded(scale * factor(bits)) : scale;
  }

 private:
  scale_kind kind_;
  std::uint32_t count_, shift_ = 0;
  table16 factors_{};
};

/// What is stored for `lanes` blocks, `bytes` bytes each.
UFP4_LANE u32 stored_bits(const std::uint8_t* p, std::size_t bytes) {
  if (bytes == 1) return widen_bytes(p);
  return bytes == 2 ? widen_words(load_as<half_u16>(p)) : load_as<u32>(p);
}
/// The outer scales of `count` blocks of a row, from block b on; the tensor scale where there is no array of them.
inline void outer_scales(const quantized_source& q, std::size_t row, std::size_t b, std::size_t count, float* out) {
  if (!q.format.has_outer_array()) {
    for (std::size_t i = 0; i < count; ++i) out[i] = q.tensor_scale;
    return;
  }
  const scale_strip strip = q.strip();
  const auto* outers =
      static_cast<const std::byte*>(q.scales) + q.divided(row, q.format.block.rows) * strip.bytes() + strip.outer_at();
  const std::size_t covered = q.divided(outer_columns(q.format, q.padded_cols), q.format.block.cols);
  std::size_t segment = b / covered;
  for (std::size_t i = 0; i < count; ++segment) {
    const float scale = decode_scale(q.format.outer.type, load_scale(outers, q.format.outer.type, segment));
    const std::size_t end = (segment + 1) * covered - b;
    for (; i < count && i < end; ++i) out[i] = scale;
  }
}
/// The factors of the values of `count` blocks of a row, from block b on: fl(scale * outer scale); and, of blocks that
/// choose among grids, the number of the grid, else the bits. Writes whole registers.
inline void extended_scales(const quantized_source& q, std::size_t row, std::size_t b, std::size_t count,
                            std::uint32_t* bits, float* effective) {
  const block_parts parts(q.format);
  const bool has_grids = q.format.choice.count != 0;
  const auto bytes = static_cast<std::size_t>(block_bytes(q.format.scale, q.format.choice.count, q.format.block));
  const auto* stored = static_cast<const std::uint8_t*>(q.scales) + q.scale_index(row, b) * bytes;
  outer_scales(q, row, b, count, effective);
  for (std::size_t i = count; i % lanes != 0; ++i) effective[i] = 0;
  for (std::size_t i = 0; i < count; i += lanes) {
    std::uint8_t last[4 * lanes] = {};
    const bool whole = count - i >= lanes;
    if (!whole) __builtin_memcpy(last, stored + i * bytes, (count - i) * bytes);
    const u32 some = stored_bits(whole ? stored + i * bytes : last, bytes);
    store(effective + i, quiet_nans(parts.scale(some) * load(effective + i)));
    store(bits + i, has_grids ? parts.grid(some) : some);
  }
}
/// Decodes groups of sixteen of a row.
class extended_decoder {
 public:
  explicit extended_decoder(const format_spec& f)
      : format_(f), shift_(__builtin_ctz(static_cast<unsigned>(f.block.cols) / group)) {
    for (int g = 0; g <= f.choice.count; ++g) {
      alignas(64) float values[16];
      for (std::size_t c = 0; c < 16; ++c) values[c] = nth_grid(f, g).value[c];
      for (std::size_t c = 0; c < 16; c += lanes) store(values + c, quiet_nans(load(values + c)));
      table_[g] = load_grid(values);
    }
    for (int level = 0; level < exponent_levels(f.block); ++level) {
      const std::uint32_t at = exponent_bit(f.block, level, 0);
      const int shift = __builtin_ctz(static_cast<unsigned>(f.block.group[level]));
      for (int k = 0; k < f.block.cols; ++k)
        (level == 0 ? wide_ : narrow_)[k] = at + static_cast<std::uint32_t>(k >> shift);
    }
  }

  /// `groups` groups from the first of a block on; `bits` and `effective` of their blocks as of extended_scales.
  void operator()(const std::uint8_t* codes, const std::uint32_t* bits, const float* effective, std::size_t groups,
                  float* out) const {
    format_.block.group.wide != 0 ? decode<true>(codes, bits, effective, groups, out)
                                  : decode<false>(codes, bits, effective, groups, out);
  }

 private:
  template <bool has_exponents>
  void decode(const std::uint8_t* codes, const std::uint32_t* bits, const float* effective, std::size_t groups,
              float* out) const {
    const std::size_t mask = static_cast<std::size_t>(format_.block.cols) - 1;
    for (std::size_t g = 0; g < groups; ++g) {
      const std::uint32_t of_block = bits[g >> shift_];
      const f32 scale = broadcast(effective[g >> shift_]);
      f32 v[group_regs];
      decode16(table_[has_exponents ? 0 : of_block], codes + g * (group / 2), v);
#pragma GCC unroll 4
      for (std::size_t r = 0; r < group_regs; ++r) {
        const std::size_t k = g * group + r * lanes;
        if constexpr (has_exponents) v[r] = v[r] * power(of_block, k & mask);
        store(out + k, v[r] * scale);
      }
    }
  }
  /// Two to the exponents of columns k to k + lanes - 1 of a block.
  UFP4_LANE f32 power(std::uint32_t bits, std::size_t k) const {
    u32 e = broadcast(bits) >> load_as<u32>(wide_ + k) & 1u;
    if (format_.block.group.narrow != 0) e += broadcast(bits) >> load_as<u32>(narrow_ + k) & 1u;
    return as_float((e + 127u) << 23);
  }

  const format_spec& format_;
  int shift_;  ///< from groups to blocks
  grid_table table_[4];
  alignas(64) std::uint32_t wide_[256], narrow_[256];  ///< of each column: which bit is its exponent
};

/// Rows by decode(i, k, count, values): `count` elements of row i from column k on, and others up to a whole group.
template <class Decode>
void decode_rows(const quantized_source& q, const sink& out, std::size_t first, std::size_t last,
                 const Decode& decode) {
  alignas(64) float values[buffered];
  for (std::size_t i = first; i < last; ++i)
    for (std::size_t k = 0; k < q.cols; k += buffered) {
      const std::size_t live = q.cols - k < buffered ? q.cols - k : buffered;
      const bool direct = out.kind == dtype::f32 && out.col_stride == 1 && live % group == 0;
      decode(i, k, live, direct ? static_cast<float*>(out.data) + out.offset(i, k) : values);
      if (!direct) transform_kernel::write_row(out, i, k, live, values);
    }
}
/// dequantize_rows of a format with several grids or one-bit exponents.
inline void dequantize_selected(const quantized_source& q, const sink& out, std::size_t first, std::size_t last) {
  const auto length = static_cast<std::size_t>(q.format.block.cols);
  alignas(64) float effective[buffered / group];
  alignas(64) std::uint32_t bits[buffered / group];
  const extended_decoder decode(q.format);
  decode_rows(q, out, first, last, [&](std::size_t i, std::size_t k, std::size_t live, float* to) {
    extended_scales(q, i, k / length, (live + length - 1) / length, bits, effective);
    decode(q.codes + q.code_index(i, k), bits, effective, (live + group - 1) / group, to);
  });
}
UFP4_END_LANES
#endif
