// ufp4 - columns of a GEMM operand side by side, a column a lane: for AVX2 and NEON.
// SPDX-License-Identifier: Apache-2.0
//
// Included inside a target region. A row of codes and a row of scales are both rows of dwords to be transposed: eight
// codes a dword, or one, two or four scales.

/// A kernel reads the same k of columns this many further on next: their codes and scales are prefetched.
inline constexpr std::size_t columns_ahead = 16;

/// The next 16 of `bytes` bytes of rows that are `stride` bytes apart, as four transposed dwords: dword i of each row
/// in t[i]. Bytes beyond count as zero and are not read. Prefetches the same bytes of rows further on.
UFP4_LANE void load_next(const std::uint8_t* const (&row)[lanes], std::size_t stride, std::size_t bytes, std::size_t at,
                         u32 (&t)[4]) {
  constexpr std::size_t line = 64, rows_a_step = lanes / 4;  // four steps of 16 bytes cover a line of every row
  if (at + 16 <= bytes) {
    load_dwords(row, at, t);
#pragma GCC unroll 2
    for (std::size_t i = 0; i < rows_a_step; ++i)
      __builtin_prefetch(row[at / 16 % 4 * rows_a_step + i] + at / line * line + columns_ahead * stride, 0, 2);
    return;
  }
  std::uint8_t rest[lanes][16] = {};
  const std::uint8_t* tail[lanes];
  for (std::size_t j = 0; j < lanes; ++j) {
    __builtin_memcpy(rest[j], row[j] + at, bytes - at);
    tail[j] = rest[j];
  }
  load_dwords(tail, 0, t);
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
  if (q.interleaved) {
    for (std::size_t i = 0; 8 * i < depth; ++i)
      use(i, load_as<u32>(row[0] + ufp4::detail::prepacked_layout::group_bytes * i));
    return;
  }
  const std::size_t stride = q.padded_cols / 2;
  u32 t[4];
  for (std::size_t i = 0; 8 * i < depth; i += 4) {
    load_next(row, stride, depth / 2, 4 * i, t);
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 4; ++j)
      if (8 * (i + j) < depth) use(i + j, t[j]);
  }
}

/// The scales of blocks first .. first + count - 1 of `lanes` columns from col on, without the tensor scale; 1 for a
/// plain operand. Those of block first + b at out + b * stride.
[[gnu::noinline]] inline void column_scales(const gemm_operand& side, std::size_t col, std::size_t live,
                                            std::size_t first, std::size_t count, std::byte* out, std::size_t stride) {
  if (!side.is_quantized) {
    for (std::size_t b = 0; b < count; ++b) store(out + b * stride, broadcast(1.0f));
    return;
  }
  const quantized_source& q = side.q;
  const scale_kind kind = q.format.scale;
  if (q.interleaved) {
    const void* const scales = q.scales;
    const std::size_t at = q.scale_index(col, first);
    for (std::size_t b = 0; b < count; ++b, out += stride)
      store(out, load_scales(kind, scales, at + ufp4::detail::prepacked_layout::panel_rows * b));
    return;
  }
  const auto width = static_cast<std::size_t>(ufp4::detail::scale_bytes(kind));
  const std::uint8_t* row[lanes];
  for (std::size_t j = 0; j < lanes; ++j)
    row[j] = static_cast<const std::uint8_t*>(q.scales) + width * q.scale_index(lane_column(col, live, j), first);
  const u32 mask = broadcast(~std::uint32_t{0} >> (32 - 8 * width));
  const auto shift = static_cast<std::uint32_t>(8 * width % 32);
  const std::size_t row_bytes = width * q.blocks();
  u32 t[4];
  for (std::size_t b = 0; b < count; b += 16 / width) {
    load_next(row, row_bytes, width * count, width * b, t);
    for (std::size_t i = 0; i < 16 / width && b + i < count; ++i) {
      u32& dword = t[i * width / 4];
      store(out + (b + i) * stride, decode_scale_bits(kind, dword & mask));
      dword = dword >> shift;
    }
  }
}

/// The same of one row, side by side.
[[gnu::noinline]] inline void row_scales(const gemm_operand& side, std::size_t row, std::size_t first,
                                         std::size_t count, float* out) {
  std::size_t b = 0;
  if (!side.is_quantized)
    for (; b < count; ++b) out[b] = 1.0f;
  if (!side.interleaved()) {
    const scale_kind kind = side.q.format.scale;
    const void* const scales = side.q.scales;
    const std::size_t at = side.is_quantized ? side.q.scale_index(row, first) : 0;
    for (; b + lanes <= count; b += lanes) store(out + b, load_scales(kind, scales, at + b));
  }
  for (; b < count; ++b) out[b] = scale_at(side.q, row, first + b, 1.0f);
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
