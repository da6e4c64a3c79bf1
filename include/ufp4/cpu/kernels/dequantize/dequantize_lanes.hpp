// ufp4 - dequantize over one instruction set's lanes.
// SPDX-License-Identifier: Apache-2.0
//
// The scales of a stretch of columns are decoded first and multiplied by the tensor scale; then sixteen codes take a
// lookup, a product and a store. store_bf16<by_unit> rounds by an instruction that takes subnormals for zeros.
#if !defined(UFP4_DEQUANTIZE_LANES)
#define UFP4_DEQUANTIZE_LANES
#include <ufp4/cpu/kernels/dequantize/extended_lanes.hpp>

UFP4_BEGIN_LANES(dequantize_kernel)

/// fl(scale * tensor scale) of `count` blocks of a row, padded with zeros to whole registers.
template <features needs = features::all>
void effective_scales(const quantized_source& q, std::size_t row, std::size_t b, std::size_t count, float* out) {
  const std::size_t first = q.scale_index(row, b), whole = count / lanes * lanes;
  const auto decode = [=, scales = q.scales, tensor = broadcast(q.tensor_scale)]<scale_kind kind>() {
    for (std::size_t i = 0; i < whole; i += lanes)
      store(out + i, quiet_nans(load_scales(kind, scales, first + i) * tensor));
  };
  with_scale_kind(scale_in<needs>(q.format), decode);
  if (whole == count) return;
  store(out + whole, f32{});
  for (std::size_t i = whole; i < count; ++i) {
    const float scale = scale_at(q, row, b + i, q.tensor_scale);
    out[i] = is_nan(scale) ? quiet_nan : scale;
  }
}

/// `groups` groups of sixteen from group g on, each under its scale.
template <dtype kind, bool by_unit, std::size_t groups>
UFP4_LANE void decode(const grid_table& table, const std::uint8_t* codes, const f32 (&scale)[groups], std::size_t g,
                      void* out) {
  f32 v[groups * group_regs];
#pragma GCC unroll 2
  for (std::size_t i = 0; i < groups; ++i) {
    f32 some[group_regs];
    decode16(table, codes + (g + i) * (group / 2), some);
#pragma GCC unroll 4
    for (std::size_t r = 0; r < group_regs; ++r) v[i * group_regs + r] = some[r] * scale[i];
  }
  const std::size_t at = g * group;
  if constexpr (kind == dtype::bf16) return store_bf16<by_unit>(static_cast<std::uint16_t*>(out) + at, v);
#pragma GCC unroll 8
  for (std::size_t r = 0; r < groups * group_regs; ++r) {
    if constexpr (kind == dtype::f32) store(static_cast<float*>(out) + at + r * lanes, v[r]);
    if constexpr (kind == dtype::fp16) store(static_cast<std::uint16_t*>(out) + at + r * lanes, narrow_fp16(v[r]));
  }
}

/// Decodes `count` groups; 1 << shift neighbours share one scale.
template <dtype kind, bool by_unit>
void decode_groups(const grid_table& grid, const std::uint8_t* codes, const float* scales, int shift, std::size_t count,
                   void* out) {
  const grid_table table = grid;  // a copy, which no store can change
  std::size_t g = 0;
  if (shift == 0) {
#pragma GCC unroll 2
    for (; count - g >= 2; g += 2)
      decode<kind, by_unit, 2>(table, codes, {broadcast(scales[g]), broadcast(scales[g + 1])}, g, out);
  } else {
#pragma GCC unroll 2
    for (; count - g >= 2; g += 2) {
      const f32 scale = broadcast(scales[g >> shift]);
      decode<kind, by_unit, 2>(table, codes, {scale, scale}, g, out);
    }
  }
  if (g < count) decode<kind, by_unit, 1>(table, codes, {broadcast(scales[g >> shift])}, g, out);
}

/// Whether all products of nonzero values and scales are normal, infinite or NaN: bf16 instructions flush subnormals.
inline bool all_normal(const grid4& grid, const float* scales, std::size_t count) {
  constexpr std::uint32_t least_value = (127u - 26) << 23, least_scale = (127u - 100) << 23;  // 2^-26, 2^-100
  for (const float v : grid.value)
    if (v != 0.0f && magnitude_bits(v) < least_value) return false;
  u32 tiny{};
  for (std::size_t i = 0; i < count; i += lanes)
    tiny |= reinterpret_cast<u32>((load_as<u32>(scales + i) & 0x7FFFFFFF) - 1 < least_scale - 1);
  return lane_bits(tiny) == 0;
}

/// decode_groups for outputs of a kind; `by_unit`: where all numbers are normal.
template <bool has_unit, features needs>
auto decoder_of(dtype kind, [[maybe_unused]] bool by_unit) {
  if constexpr (has(needs, features::half_input)) {
    if (kind == dtype::fp16) return &decode_groups<dtype::fp16, false>;
    if (kind == dtype::bf16)
      return by_unit ? &decode_groups<dtype::bf16, has_unit> : &decode_groups<dtype::bf16, false>;
  }
  return &decode_groups<dtype::f32, false>;
}

/// Copies `count` numbers of `size` bytes to places that are `step` numbers apart.
template <std::size_t size>
void scatter(const void* from, std::size_t count, char* to, std::ptrdiff_t step) {
  for (std::size_t j = 0; j < count; ++j, to += step * static_cast<std::ptrdiff_t>(size))
    __builtin_memcpy(to, static_cast<const char*>(from) + j * size, size);
}

/// Rows without gaps between them are treated as one row, so that none ends in the middle of a register of scales.
inline bool has_no_gaps(const quantized_source& q, const sink& out) {
  return q.format.block.rows == 1 && q.cols == q.padded_cols && out.col_stride == 1 &&
         out.row_stride == static_cast<std::ptrdiff_t>(q.cols);
}
inline quantized_source as_one_row(const quantized_source& q, std::size_t first, std::size_t last) {
  quantized_source one = q;
  const auto bytes = static_cast<std::size_t>(scale_bytes(q.format.scale));
  one.codes += q.code_index(first, 0);
  one.scales = static_cast<const char*>(q.scales) + q.scale_index(first, 0) * bytes;
  one.rows = 1;
  one.cols = one.padded_cols = (last - first) * q.cols;
  return one;
}
inline sink as_one_row(const sink& out, std::size_t first, std::size_t last) {
  char* data = static_cast<char*>(out.data) + out.offset(first, 0) * (out.kind == dtype::f32 ? 4 : 2);
  return {data, out.kind, 1, (last - first) * out.cols, out.row_stride, 1};
}

/// dequantize_rows of a format with elements of one byte, whose blocks have at least sixteen.
inline void dequantize_bytes(const quantized_source& q, const sink& out, std::size_t first, std::size_t last) {
  const auto length = static_cast<std::size_t>(q.format.block.cols);
  const int shift = __builtin_ctzll(length);
  const f32 unit = broadcast(q.format.grid.unit);
  alignas(64) float scales[buffered / group];
  decode_rows(q, out, first, last, [&](std::size_t i, std::size_t k, std::size_t live, float* to) {
    effective_scales(q, i, k / length, (live + length - 1) / length, scales);
    const std::uint8_t* const codes = q.codes + q.code_index(i, k);
    const auto decode = [&](const std::uint8_t* from, std::size_t j) __attribute__((always_inline)) {
      const f32 scale = broadcast(scales[j >> shift]);
#pragma GCC unroll 4
      for (std::size_t r = 0; r < group; r += lanes) store(to + j + r, numbers_of_bytes(from + r) * unit * scale);
    };
    std::size_t j = 0;
    for (; live - j >= group; j += group) decode(codes + j, j);
    if (j == live) return;
    std::uint8_t rest[group] = {};
    __builtin_memcpy(rest, codes + j, live - j);
    decode(rest, j);
  });
}

/// Does what dequantize_scalar does, which it calls for some formats.
template <bool has_unit, features needs>
void dequantize_rows(const quantized_source& q, const sink& out, std::size_t first, std::size_t last) {
  const auto length = static_cast<std::size_t>(q.format.block.cols);
  if constexpr (has(needs, features::short_block | element_features))
    if (is_decoded_by_scalar(q.format))
      return dequantize_scalar<(needs & features::further_parts)>(q, out, first, last);
  bool extended = false;
  if constexpr (has(needs, features::further_parts)) {
    extended = has(features_of(q.format), features::further_parts);
    if (q.format.choice.count != 0 || q.format.block.group.wide != 0) return dequantize_selected(q, out, first, last);
  }
  if (last - first > 1 && !extended && has_no_gaps(q, out))
    return dequantize_rows<has_unit, needs>(as_one_row(q, first, last), as_one_row(out, first, last), 0, 1);
  if constexpr (has(needs, features::byte_element))
    if (q.format.has_bytes()) return dequantize_bytes(q, out, first, last);
  const int shift = __builtin_ctzll(length / group);
  alignas(64) float scales[stretch / group], values[stretch];
  for (std::size_t c = 0; c < 16; ++c) values[c] = q.format.grid.value[c];
  for (std::size_t c = 0; c < 16; c += lanes) store(values + c, quiet_nans(load(values + c)));
  const grid_table table = load_grid(values);
  const std::ptrdiff_t size = out.kind == dtype::f32 ? 4 : 2, step = out.col_stride;
  for (std::size_t i = first; i < last; ++i)
    for (std::size_t k = 0; k < q.cols; k += stretch) {
      const std::size_t live = q.cols - k < stretch ? q.cols - k : stretch, blocks = (live + length - 1) / length;
      if (!extended) effective_scales<needs & scale_features>(q, i, k / length, blocks, scales);
      if constexpr (has(needs, features::further_parts))
        if (extended) {
          alignas(64) std::uint32_t bits[stretch / group];
          extended_scales(q, i, k / length, blocks, bits, scales);
        }
      const std::uint8_t* const codes = q.codes + (i * q.padded_cols + k) / 2;
      const auto decoder = decoder_of<has_unit, needs>(
          out.kind, has_unit && out.kind == dtype::bf16 && all_normal(q.format.grid, scales, blocks));
      const std::size_t direct = step == 1 ? live / group : 0, done = direct * group;
      char* to = static_cast<char*>(out.data) + out.offset(i, k) * size;
      decoder(table, codes, scales, shift, direct, to);
      if (done == live) continue;
      // The rest begins a scale, or is the last group.
      decoder(table, codes + done / 2, scales + (direct >> shift), shift, (live - done + group - 1) / group, values);
      to += static_cast<std::ptrdiff_t>(done) * size;
      (size == 4 ? scatter<4> : scatter<2>)(values, live - done, to, step);
    }
}
UFP4_END_LANES
#endif
