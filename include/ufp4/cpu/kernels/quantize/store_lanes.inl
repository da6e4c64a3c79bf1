// ufp4 - writing the codes and the scales of a band, over one instruction set's lanes.
// SPDX-License-Identifier: Apache-2.0
//
// Included by lane_kernels.inl.

/// Writes words[0 .. count) of lane l to base + l * stride, for l < live.
[[gnu::noinline]] inline void store_lanes(const u32* words, std::size_t count, std::uint8_t* base, std::size_t stride,
                                          std::size_t live) {
  std::size_t w = 0;
  if (count == 2 && stride == 8 && live == lanes) {
    u32 low = words[0], high = words[1];
    interleave(low, high);
    store(base, low);
    store(base + sizeof low, high);
    return;
  }
  for (; live == lanes && w + 4 <= count; w += 4) {
    f32 four[4];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) four[i] = as_float(words[w + i]);
    transpose4(four);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) store_pieces(four[i], base + i * stride + 4 * w, 4 * stride);
  }
  for (std::size_t l = 0; l < live; ++l)
    for (std::size_t i = w; i < count; ++i) {
      const std::uint32_t word = words[i][l];
      __builtin_memcpy(base + l * stride + 4 * i, &word, 4);
    }
}

/// Writes scales[0 .. count) of lane l to numbers first + l * stride on.
inline void store_scales(void* out, scale_kind kind, const u32* scales, std::size_t count, std::size_t first,
                         std::size_t stride, std::size_t live) {
  const auto bytes = static_cast<std::size_t>(ufp4::detail::scale_bytes(kind)), a_word = 4 / bytes;
  auto* base = static_cast<std::uint8_t*>(out) + first * bytes;
  if (count == 1 && stride == 1 && live == lanes) {
    if (bytes == 1) return store(base, low_bytes(scales[0]));
    if (bytes == 2) return store(base, __builtin_convertvector(scales[0], half_u16));
    return store(base, scales[0]);
  }
  if (count % a_word != 0) {
    for (std::size_t l = 0; l < live; ++l)
      for (std::size_t i = 0; i < count; ++i) store_scale(out, kind, first + l * stride + i, scales[i][l]);
    return;
  }
  u32 words[max_transform / 16] = {};
  for (std::size_t i = 0; i < count; ++i)
    words[i / a_word] |= scales[i] << static_cast<std::uint32_t>(8 * bytes * (i % a_word));
  store_lanes(words, count / a_word, base, stride * bytes, live);
}
