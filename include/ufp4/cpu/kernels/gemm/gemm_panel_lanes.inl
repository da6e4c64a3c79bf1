// ufp4 - columns of a GEMM operand side by side, one a lane: the text of gemm_panel_avx2.hpp and gemm_panel_neon.hpp.
// SPDX-License-Identifier: Apache-2.0
//
// Included where `lanes`, f32, u32, half_u16, quarter_u8 and load_dwords are those of one instruction set. A code row
// and a row of scales are both dwords to be transposed: eight codes a dword, or one, two or four scales.

/// How many columns on a kernel will ask for the same k: their codes and scales are prefetched meanwhile.
inline constexpr std::size_t columns_ahead = 16;

/// use(i, v) for every dword that holds one of the first `bytes` bytes of the rows, dword i of each in v's lanes; bytes
/// beyond count as zero and are not read. Rows are `stride` bytes apart.
template <class Use>
UFP4_LANE void each_dword(const std::uint8_t* const (&row)[lanes], std::size_t stride, std::size_t bytes,
                          const Use& use) {
  constexpr std::size_t line = 64, rows_a_step = lanes / 4;  // four steps of 16 bytes pass a line of every row
  std::size_t at = 0;
  for (; at + 16 <= bytes; at += 16) {
    u32 t[4];
    load_dwords(row, at, t);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) use(at / 4 + i, t[i]);
#pragma GCC unroll 2
    for (std::size_t i = 0; i < rows_a_step; ++i)
      __builtin_prefetch(row[at / 16 % 4 * rows_a_step + i] + at / line * line + columns_ahead * stride, 0, 2);
  }
  if (at == bytes) return;
  std::uint8_t rest[lanes][16] = {};
  const std::uint8_t* tail[lanes];
  for (std::size_t j = 0; j < lanes; ++j) {
    __builtin_memcpy(rest[j], row[j] + at, bytes - at);
    tail[j] = rest[j];
  }
  u32 t[4];
  load_dwords(tail, 0, t);
  for (std::size_t i = 0; at + 4 * i < bytes; ++i) use(at / 4 + i, t[i]);
}

/// Column col + j of the `live` that there are; lanes beyond repeat the last.
UFP4_LANE std::size_t lane_column(std::size_t col, std::size_t live, std::size_t j) {
  return col + (j < live ? j : live - 1);
}

/// use(i, v): the codes of k + 8i .. k + 8i + 7 of `lanes` columns from col on, the first k in the low four bits.
template <class Use>
UFP4_LANE void each_codes(const quantized_source& q, std::size_t col, std::size_t live, std::size_t k,
                          std::size_t depth, const Use& use) {
  const std::uint8_t* row[lanes];
  for (std::size_t j = 0; j < lanes; ++j) row[j] = q.codes + q.code_index(lane_column(col, live, j), k);
  if (!q.interleaved) return each_dword(row, q.padded_cols / 2, depth / 2, use);
  for (std::size_t i = 0; 8 * i < depth; ++i) use(i, load_as<u32>(row[0] + 64 * i));
}

/// Scale codes of 8 bits as binary32: exponent bits above three of mantissa. Subnormal codes go through a subtraction,
/// so that no operand is a subnormal binary32, which some processors are slow on.
UFP4_LANE f32 decode_mini(u32 magnitude, std::uint32_t bias, std::uint32_t nan_code) {
  const u32 normal = (magnitude << 20) + broadcast((127 - bias) << 23);
  const u32 one = broadcast((128 - bias) << 23);  // the smallest normal value: subnormal m is (m/8 + 1 - 1) times it
  const u32 tiny = as_bits(as_float((magnitude << 20) + one) - as_float(one));
  const u32 finite = magnitude < 8u ? tiny : normal;
  return as_float(magnitude == nan_code ? broadcast(0x7FC00000u) : finite);
}
template <scale_kind kind>
UFP4_LANE f32 decode_scales(u32 bits) {
  if constexpr (kind == scale_kind::f32) return as_float(bits);
  if constexpr (kind == scale_kind::bf16) return as_float(bits << 16);
  if constexpr (kind == scale_kind::e4m3)
    return as_float(as_bits(decode_mini(bits & 0x7Fu, 7, 0x7F)) | (bits & 0x80u) << 24);
  if constexpr (kind == scale_kind::ue5m3) return decode_mini(bits, 15, 0xFF);
  // e8m0: code 0 is 2^-127, a subnormal; 255 becomes a NaN of the same low bits
  const u32 first = bits == 0u ? broadcast(0x00400000u) : u32{};
  return as_float(bits << 23 | (bits == 0xFFu ? broadcast(0x00400000u) : first));
}

/// `lanes` scales that lie side by side.
template <scale_kind kind>
UFP4_LANE f32 load_scales(const std::uint8_t* from) {
  constexpr int width = ufp4::detail::scale_bytes(kind);
  if constexpr (width == 4)
    return decode_scales<kind>(load_as<u32>(from));
  else if constexpr (width == 2)
    return decode_scales<kind>(__builtin_convertvector(load_as<half_u16>(from), u32));
  else
    return decode_scales<kind>(__builtin_convertvector(load_as<quarter_u8>(from), u32));
}

/// The scales of blocks first .. first + count - 1 of a quantized operand.
template <scale_kind kind, class Use>
UFP4_LANE void each_scale_of(const quantized_source& q, std::size_t col, std::size_t live, std::size_t first,
                             std::size_t count, const Use& use) {
  constexpr auto width = static_cast<std::size_t>(ufp4::detail::scale_bytes(kind));
  constexpr std::size_t each = 4 / width;
  const std::uint8_t* row[lanes];
  for (std::size_t j = 0; j < lanes; ++j)
    row[j] = static_cast<const std::uint8_t*>(q.scales) + width * q.scale_index(lane_column(col, live, j), first);
  if (q.interleaved) {
    for (std::size_t b = 0; b < count; ++b) use(b, load_scales<kind>(row[0] + 16 * width * b));
    return;
  }
  each_dword(row, width * q.blocks(), width * count, [&](std::size_t i, u32 v) __attribute__((always_inline)) {
    if constexpr (each == 1)
      use(i, decode_scales<kind>(v));
    else
      for (std::size_t e = 0; e < each && i * each + e < count; ++e, v = v >> 32 / each)
        use(i * each + e, decode_scales<kind>(v & ((1u << 32 / each) - 1)));
  });
}

/// use(b, v): the scales of block first + b of `lanes` columns from col on, b < count, without the tensor scale; 1 for
/// a plain operand.
template <class Use>
UFP4_LANE void each_scale(const gemm_operand& side, std::size_t col, std::size_t live, std::size_t first,
                          std::size_t count, const Use& use) {
  if (!side.is_quantized) {
    for (std::size_t b = 0; b < count; ++b) use(b, broadcast(1.0f));
    return;
  }
  switch (side.q.format.scale) {
    case scale_kind::f32: return each_scale_of<scale_kind::f32>(side.q, col, live, first, count, use);
    case scale_kind::bf16: return each_scale_of<scale_kind::bf16>(side.q, col, live, first, count, use);
    case scale_kind::e4m3: return each_scale_of<scale_kind::e4m3>(side.q, col, live, first, count, use);
    case scale_kind::ue5m3: return each_scale_of<scale_kind::ue5m3>(side.q, col, live, first, count, use);
    case scale_kind::e8m0: return each_scale_of<scale_kind::e8m0>(side.q, col, live, first, count, use);
  }
}

/// The scales of blocks first .. first + count - 1 of one row, without the tensor scale; 1 for a plain operand.
template <scale_kind kind>
UFP4_LANE void row_scales_of(const quantized_source& q, std::size_t row, std::size_t first, std::size_t count,
                             float* out) {
  constexpr auto width = static_cast<std::size_t>(ufp4::detail::scale_bytes(kind));
  const auto* from = static_cast<const std::uint8_t*>(q.scales) + width * q.scale_index(row, first);
  std::size_t b = 0;
  for (; !q.interleaved && b + lanes <= count; b += lanes) store(out + b, load_scales<kind>(from + width * b));
  for (; b < count; ++b) out[b] = scale_at(q, row, first + b, 1.0f);
}
inline void row_scales(const gemm_operand& side, std::size_t row, std::size_t first, std::size_t count, float* out) {
  if (!side.is_quantized) {
    for (std::size_t b = 0; b < count; ++b) out[b] = 1.0f;
    return;
  }
  switch (side.q.format.scale) {
    case scale_kind::f32: return row_scales_of<scale_kind::f32>(side.q, row, first, count, out);
    case scale_kind::bf16: return row_scales_of<scale_kind::bf16>(side.q, row, first, count, out);
    case scale_kind::e4m3: return row_scales_of<scale_kind::e4m3>(side.q, row, first, count, out);
    case scale_kind::ue5m3: return row_scales_of<scale_kind::ue5m3>(side.q, row, first, count, out);
    case scale_kind::e8m0: return row_scales_of<scale_kind::e8m0>(side.q, row, first, count, out);
  }
}

/// The sums of `height` rows and two vectors of columns.
template <std::size_t height>
UFP4_LANE void load_sums(const float* acc, std::size_t stride, f32 (&sum)[height][2]) {
#pragma GCC unroll 4
  for (std::size_t r = 0; r < height; ++r)
#pragma GCC unroll 2
    for (std::size_t c = 0; c < 2; ++c) sum[r][c] = load(acc + r * stride + c * lanes);
}
template <std::size_t height>
UFP4_LANE void store_sums(float* acc, std::size_t stride, const f32 (&sum)[height][2]) {
#pragma GCC unroll 4
  for (std::size_t r = 0; r < height; ++r)
#pragma GCC unroll 2
    for (std::size_t c = 0; c < 2; ++c) store(acc + r * stride + c * lanes, sum[r][c]);
}
