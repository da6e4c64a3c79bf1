// ufp4 - dequantize of formats with outer scales of rows and segments, several grids or one-bit exponents, over lanes.
// SPDX-License-Identifier: Apache-2.0
//
// Included by dequantize_lanes.inl. The bits and the scales of the blocks of a stretch are decoded first; a block has
// one of the grids, and its elements under one-bit exponents are multiplied by powers of two.

/// The parts of the bits that are stored for a block, a block a lane.
class block_parts {
 public:
  explicit block_parts(const format_spec& f)
      : scale_mask(f.block.group.wide == 0 ? ~0u : 0xFFu),
        kind_(f.scale),
        count_(static_cast<std::uint32_t>(f.choice.count)) {
    if (count_ == 0) return;
    shift_ = static_cast<std::uint32_t>(grid_shift(f));
    scale_mask = (1u << shift_) - 1;
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

/// The bits of `count` blocks of a row, from block b on, and the factors of their values: fl(scale * outer scale).
/// Writes whole registers.
inline void extended_scales(const quantized_source& q, std::size_t row, std::size_t b, std::size_t count,
                            std::uint32_t* bits, float* effective) {
  const auto length = static_cast<std::size_t>(q.format.block.cols);
  const std::size_t first = q.scale_index(row, b), covered = outer_columns(q.format, q.padded_cols);
  const block_parts parts(q.format);
  float outer = q.tensor_scale;
  for (std::size_t i = 0; i < count; ++i) {
    if (covered != 0 && (i == 0 || (b + i) * length % covered == 0)) outer = q.outer_scale(row, b + i);
    bits[i] = load_block(q.scales, q.format, first + i);
    effective[i] = outer;
  }
  for (std::size_t i = count; i % lanes != 0; ++i) bits[i] = 0, effective[i] = 0;
  for (std::size_t i = 0; i < count; i += lanes)
    store(effective + i, quiet_nans(parts.scale(load_as<u32>(bits + i)) * load(effective + i)));
}

/// Decodes blocks one after the other.
class extended_decoder {
 public:
  explicit extended_decoder(const format_spec& f) : format_(f) {
    for (int g = 0; g <= f.choice.count; ++g) {
      alignas(64) float values[16];
      for (std::size_t c = 0; c < 16; ++c) values[c] = nth_grid(f, g).value[c];
      for (std::size_t c = 0; c < 16; c += lanes) store(values + c, quiet_nans(load(values + c)));
      table_[g] = load_grid(values);
    }
    for (int k = 0; f.block.group.wide != 0 && k < f.block.cols; ++k) {
      wide_[k] = ufp4::detail::exponent_bit(f.block, 0, k);
      if (f.block.group.narrow != 0) narrow_[k] = ufp4::detail::exponent_bit(f.block, 1, k);
    }
  }

  /// `groups` groups of sixteen of one block.
  void operator()(const std::uint8_t* codes, std::uint32_t bits, float effective, std::size_t groups,
                  float* out) const {
    const grid_table table = table_[grid_number(format_, bits)];
    const f32 scale = broadcast(effective);
    for (std::size_t g = 0; g < groups; ++g) {
      f32 v[group_regs];
      decode16(table, codes + g * (group / 2), v);
      for (std::size_t r = 0; r < group_regs; ++r) {
        const std::size_t k = g * group + r * lanes;
        if (format_.block.group.wide != 0) v[r] = v[r] * power(bits, k);
        store(out + k, v[r] * scale);
      }
    }
  }

 private:
  /// Two to the exponents of columns k to k + lanes - 1 of a block.
  UFP4_LANE f32 power(std::uint32_t bits, std::size_t k) const {
    u32 e = broadcast(bits) >> load_as<u32>(wide_ + k) & 1u;
    if (format_.block.group.narrow != 0) e += broadcast(bits) >> load_as<u32>(narrow_ + k) & 1u;
    return as_float((e + 127u) << 23);
  }

  const format_spec& format_;
  grid_table table_[4];
  alignas(64) std::uint32_t wide_[256], narrow_[256];  ///< of each column: which bit is its exponent
};

/// dequantize_rows of such a format.
inline void dequantize_extended(const quantized_source& q, const sink& out, std::size_t first, std::size_t last) {
  constexpr std::size_t stretch = 4096;
  const auto length = static_cast<std::size_t>(q.format.block.cols);
  alignas(64) float effective[stretch / group], values[stretch];
  alignas(64) std::uint32_t bits[stretch / group];
  const extended_decoder decode(q.format);
  for (std::size_t i = first; i < last; ++i)
    for (std::size_t k = 0; k < q.cols; k += stretch) {
      const std::size_t live = q.cols - k < stretch ? q.cols - k : stretch, blocks = (live + length - 1) / length;
      extended_scales(q, i, k / length, blocks, bits, effective);
      const bool direct = out.kind == dtype::f32 && out.col_stride == 1 && live % group == 0;
      float* const to = direct ? static_cast<float*>(out.data) + out.offset(i, k) : values;
      for (std::size_t b = 0; b < blocks; ++b) {
        const std::size_t left = live - b * length, here = left < length ? left : length;
        decode(q.codes + q.code_index(i, k + b * length), bits[b], effective[b], (here + group - 1) / group,
               to + b * length);
      }
      if (!direct) store_values(out, i, k, live, values);
    }
}
