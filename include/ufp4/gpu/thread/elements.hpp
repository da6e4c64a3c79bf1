// ufp4 - sixteen consecutive elements of a matrix row in the registers of one thread: the unit of the row kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gpu/thread/decode.hpp>
#include <ufp4/matrix/matrix_view.hpp>

namespace ufp4::gpu::thread::inline UFP4_GPU {

using ufp4::detail::sink;
using ufp4::detail::source;

inline constexpr unsigned run_of_thread = 16;  ///< elements that a thread holds

/// What one load or store instruction moves.
struct __attribute__((may_alias, aligned(16))) words4 {
  std::uint32_t word[4];  ///< 16 bytes, for one memory access
};
/// The same of half the size.
struct __attribute__((may_alias, aligned(8))) words2 {
  std::uint32_t word[2];  ///< the bytes
};
/// Of a quarter.
struct __attribute__((may_alias, aligned(4))) words1 {
  std::uint32_t word;  ///< the bytes
};

/// A binary16 as binary32: its fields shifted into place, then times 2^112, which is exact and normalizes a subnormal.
UFP4_DEVICE float widened_fp16(std::uint32_t half) {
  const std::uint32_t magnitude = half & 0x7FFFu, sign = (half & 0x8000u) << 16;
  if (magnitude >= 0x7C00u) return to_float(sign | 0x7F800000u | magnitude << 13);
  const float value = to_float(magnitude << 13) * 0x1p112f;
  return to_float(to_bits(value) | sign);
}
/// Element (i, k) of a source or a sink.
template <class View>
UFP4_DEVICE float load(const View& x, std::size_t i, std::size_t k) {
  const std::ptrdiff_t at = x.offset(i, k);
  switch (x.kind) {
    case dtype::f32: return static_cast<const float*>(x.data)[at];
    case dtype::bf16: return to_float(std::uint32_t{static_cast<const std::uint16_t*>(x.data)[at]} << 16);
    case dtype::fp16: return widened_fp16(static_cast<const std::uint16_t*>(x.data)[at]);
  }
  return 0;
}

/// Rounded to the matrix's type (IEEE: overflow gives infinity).
UFP4_DEVICE void store(const sink& x, std::size_t i, std::size_t k, float value) {
  const std::ptrdiff_t at = x.offset(i, k);
  switch (x.kind) {
    case dtype::f32: static_cast<float*>(x.data)[at] = value; return;
    case dtype::bf16: static_cast<std::uint16_t*>(x.data)[at] = ufp4::detail::round_to<bf16>(value).bits(); return;
    case dtype::fp16: static_cast<std::uint16_t*>(x.data)[at] = ufp4::detail::round_to<fp16>(value).bits(); return;
  }
}

/// Is element (i, k) aligned to 16 bytes, and the first of sixteen that are contiguous in memory?
template <class View>
UFP4_DEVICE bool vectors(const View& x, std::size_t i, std::size_t k) {
  const std::size_t bytes = x.kind == dtype::f32 ? 4 : 2;
  const auto at = reinterpret_cast<std::uintptr_t>(x.data) + static_cast<std::uintptr_t>(x.offset(i, k)) * bytes;
  return x.col_stride == 1 && k + run_of_thread <= x.cols && at % 16 == 0;
}

/// The bits of an element of a 16-bit matrix.
UFP4_DEVICE std::uint32_t narrowed(dtype kind, float x) {
  return kind == dtype::bf16 ? ufp4::detail::round_to<bf16>(x).bits() : ufp4::detail::round_to<fp16>(x).bits();
}

/// Sixteen elements that are contiguous from p on, which is aligned to 16 bytes.
UFP4_DEVICE void load_vectors(const void* at, dtype kind, float (&v)[run_of_thread]) {
  const auto* p = static_cast<const words4*>(at);
  if (kind == dtype::f32) {
    UFP4_UNROLL
    for (unsigned q = 0; q < 4; ++q) {
      const words4 four = p[q];
      UFP4_UNROLL
      for (unsigned j = 0; j < 4; ++j) v[4 * q + j] = to_float(four.word[j]);
    }
    return;
  }
  const words4 eight[2] = {p[0], p[1]};
  if (kind == dtype::bf16) {
    UFP4_UNROLL
    for (unsigned j = 0; j < run_of_thread; ++j)
      v[j] = to_float(j % 2 == 0 ? eight[j / 8].word[j / 2 % 4] << 16 : eight[j / 8].word[j / 2 % 4] & 0xFFFF0000u);
  } else {
    UFP4_UNROLL
    for (unsigned j = 0; j < run_of_thread; ++j)
      v[j] = widened_fp16(eight[j / 8].word[j / 2 % 4] >> (16 * (j % 2)) & 0xFFFFu);
  }
}

/// Elements k .. k + 15 of row i, one by one; 0 outside the matrix.
UFP4_DEVICE void load_each(const source& x, std::size_t i, std::size_t k, float (&v)[run_of_thread]) {
  UFP4_UNROLL
  for (unsigned j = 0; j < run_of_thread; ++j) v[j] = i < x.rows && k + j < x.cols ? load(x, i, k + j) : 0.0f;
}

/// Elements k .. k + 15 of row i; 0 outside the matrix.
UFP4_DEVICE void load_sixteen(const source& x, std::size_t i, std::size_t k, float (&v)[run_of_thread]) {
  if (i >= x.rows || !vectors(x, i, k)) return load_each(x, i, k, v);
  const std::ptrdiff_t bytes = x.kind == dtype::f32 ? 4 : 2;
  load_vectors(static_cast<const char*>(x.data) + x.offset(i, k) * bytes, x.kind, v);
}

/// The larger magnitude; a NaN if either is one.
UFP4_DEVICE float larger_magnitude(float a, float b) {
#if defined(UFP4_HAS_PAIRS)
  return device_max_magnitude(a, b);
#else
  const std::uint32_t m = magnitude_bits(a), n = magnitude_bits(b);
  return to_float(m > n ? m : n);
#endif
}
/// The bits of the largest magnitude; infinity_bits or more if a value is not finite.
UFP4_DEVICE std::uint32_t amax_bits(const float (&v)[run_of_thread]) {
  float most[run_of_thread / 2];
  UFP4_UNROLL
  for (unsigned j = 0; j < run_of_thread / 2; ++j) most[j] = larger_magnitude(v[j], v[j + run_of_thread / 2]);
  UFP4_UNROLL
  for (unsigned n = run_of_thread / 4; n > 0; n /= 2) {
    UFP4_UNROLL
    for (unsigned j = 0; j < n; ++j) most[j] = larger_magnitude(most[j], most[j + n]);
  }
  return to_bits(most[0]);
}

/// Sixteen elements to p, which is aligned to 16 bytes, rounded to the matrix's type.
UFP4_DEVICE void store_vectors(void* at, dtype kind, const float (&v)[run_of_thread]) {
  auto* p = static_cast<words4*>(at);
  if (kind == dtype::f32) {
    UFP4_UNROLL
    for (unsigned q = 0; q < 4; ++q) {
      words4 four;
      UFP4_UNROLL
      for (unsigned j = 0; j < 4; ++j) four.word[j] = to_bits(v[4 * q + j]);
      p[q] = four;
    }
    return;
  }
  words4 eight[2];
  const auto pairs = [&](auto pair) {
    UFP4_UNROLL
    for (unsigned w = 0; w < run_of_thread / 2; ++w) eight[w / 4].word[w % 4] = pair(v[2 * w], v[2 * w + 1]);
  };
  if (amax_bits(v) > ufp4::detail::infinity_bits)  // instructions for pairs give other NaNs
    pairs([&](float a, float b) { return narrowed(kind, a) | narrowed(kind, b) << 16; });
  else if (kind == dtype::bf16)
    pairs([](float a, float b) { return pair_bf16(a, b); });
  else
    pairs([](float a, float b) { return pair_fp16(a, b); });
  p[0] = eight[0];
  p[1] = eight[1];
}

/// Elements k .. k + 15 of row i, one by one; those outside the matrix are not stored.
UFP4_DEVICE void store_each(const sink& x, std::size_t i, std::size_t k, const float (&v)[run_of_thread]) {
  UFP4_UNROLL
  for (unsigned j = 0; j < run_of_thread; ++j)
    if (i < x.rows && k + j < x.cols) store(x, i, k + j, v[j]);
}

/// The inverse of load_sixteen; elements outside the matrix are not stored.
UFP4_DEVICE void store_sixteen(const sink& x, std::size_t i, std::size_t k, const float (&v)[run_of_thread]) {
  if (i >= x.rows || !vectors(x, i, k)) return store_each(x, i, k, v);
  const std::ptrdiff_t bytes = x.kind == dtype::f32 ? 4 : 2;
  store_vectors(static_cast<char*>(x.data) + x.offset(i, k) * bytes, x.kind, v);
}

/// The rows of a matrix as groups of sixteen, of which a kernel moves many: the host tests their alignment once.
struct row_places {
  std::uint32_t rows = 0;   ///< of the matrix, which has fewer than 2^32 rows and columns
  std::uint32_t whole = 0;  ///< whole groups of sixteen in a row; 0 if they are not contiguous and aligned to 16 bytes
  std::int64_t row_bytes = 0;       ///< between rows
  std::uint32_t sixteen_bytes = 0;  ///< of a group

  /// Is a group whole and aligned?
  UFP4_DEVICE bool has(std::uint32_t row, std::uint32_t sixteen) const { return row < rows && sixteen < whole; }
  /// Bytes from the first element of the matrix to a group.
  UFP4_DEVICE std::int64_t offset(std::uint32_t row, std::uint32_t sixteen) const {
    return row * row_bytes + static_cast<std::int64_t>(ufp4::detail::wide_product(sixteen, sixteen_bytes));
  }
};
/// The places of a matrix.
template <class View>
row_places places_of(const View& x) {
  const std::int64_t bytes = x.kind == dtype::f32 ? 4 : 2, row_bytes = x.row_stride * bytes;
  const bool aligned =
      x.col_stride == 1 && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && (row_bytes % 16 == 0 || x.rows <= 1);
  return {static_cast<std::uint32_t>(x.rows), aligned ? static_cast<std::uint32_t>(x.cols / run_of_thread) : 0u,
          row_bytes, static_cast<std::uint32_t>(bytes) * run_of_thread};
}

/// A matrix that a kernel reads so.
struct row_reader {
  source x{};           ///< the matrix
  row_places places{};  ///< its own

  /// load_sixteen of group `sixteen` of a row.
  UFP4_DEVICE void load(std::uint32_t row, std::uint32_t sixteen, float (&v)[run_of_thread]) const {
    if (!places.has(row, sixteen)) return load_each(x, row, std::size_t{sixteen} * run_of_thread, v);
    load_vectors(static_cast<const char*>(x.data) + places.offset(row, sixteen), x.kind, v);
  }
};
/// The reader of a matrix.
inline row_reader reader_of(const source& x) { return {x, places_of(x)}; }

/// A matrix that a kernel writes so.
struct row_writer {
  sink x{};             ///< the matrix
  row_places places{};  ///< its own

  /// store_sixteen of group `sixteen` of a row.
  UFP4_DEVICE void store(std::uint32_t row, std::uint32_t sixteen, const float (&v)[run_of_thread]) const {
    if (!places.has(row, sixteen)) return store_each(x, row, std::size_t{sixteen} * run_of_thread, v);
    store_vectors(static_cast<char*>(x.data) + places.offset(row, sixteen), x.kind, v);
  }
};
/// The writer of a matrix.
inline row_writer writer_of(const sink& x) { return {x, places_of(x)}; }

/// Where a thread works: a row, and the index of a group of sixteen in it. Both are below 2^32: has_places().
struct grid_place {
  std::uint32_t row = 0, sixteen = 0;  ///< the row, and the column divided by 16
};
/// The place with index `at` in rows of `across` places. Divides in 32 bits if it can: 64 bits take 100 instructions.
UFP4_DEVICE grid_place split(std::size_t at, std::uint32_t across) {
  if (at <= 0xFFFFFFFFu) return {static_cast<std::uint32_t>(at) / across, static_cast<std::uint32_t>(at) % across};
  return {static_cast<std::uint32_t>(at / across), static_cast<std::uint32_t>(at % across)};
}
/// The place that is `step` further on, without a division: kernels that stride over a matrix divide only once.
UFP4_DEVICE grid_place advanced(const grid_place& at, const grid_place& step, std::uint32_t across) {
  const std::uint32_t sixteen = at.sixteen + step.sixteen;  // < 2^29
  const bool next = sixteen >= across;
  return {at.row + step.row + (next ? 1u : 0u), next ? sixteen - across : sixteen};
}

/// Scale i of an array, as bits.
UFP4_DEVICE std::uint32_t load_scale(const void* scales, scale_kind kind, std::size_t i) {
  switch (ufp4::detail::scale_bytes(kind)) {
    case 4: return to_bits(static_cast<const float*>(scales)[i]);
    case 2: return static_cast<const std::uint16_t*>(scales)[i];
    default: return static_cast<const std::uint8_t*>(scales)[i];
  }
}
/// The same as a number.
UFP4_DEVICE float scale_at(scale_kind kind, const void* scales, std::size_t i) {
  return scale_value(kind, load_scale(scales, kind, i));
}
/// Stores scale i of an array from its bits.
UFP4_DEVICE void store_scale(void* scales, scale_kind kind, std::size_t i, std::uint32_t bits) {
  switch (ufp4::detail::scale_bytes(kind)) {
    case 4: static_cast<float*>(scales)[i] = to_float(bits); return;
    case 2: static_cast<std::uint16_t*>(scales)[i] = static_cast<std::uint16_t>(bits); return;
    default: static_cast<std::uint8_t*>(scales)[i] = static_cast<std::uint8_t>(bits); return;
  }
}

/// The codes of sixteen elements, the first in the low nibble of word 0. Bytes from `count` on are read as 0.
using packed_sixteen = words2;
/// Loads `count` bytes of codes, at most 8.
UFP4_DEVICE packed_sixteen load_codes(const std::uint8_t* codes, unsigned count) {
  if (count == 8 && reinterpret_cast<std::uintptr_t>(codes) % 8 == 0) return *reinterpret_cast<const words2*>(codes);
  packed_sixteen packed{};
  UFP4_UNROLL
  for (unsigned b = 0; b < 8; ++b)
    if (b < count) packed.word[b / 4] |= std::uint32_t{codes[b]} << (8 * (b % 4));
  return packed;
}

/// The values of sixteen codes, from a table of sixteen floats in shared memory. The sixteen entries are in different
/// banks, so a lookup has no bank conflicts and costs as much as arithmetic would, for every grid.
UFP4_DEVICE void decode_sixteen(const packed_sixteen& codes, const float* table, float (&v)[run_of_thread]) {
  UFP4_UNROLL
  for (unsigned j = 0; j < run_of_thread; ++j) v[j] = table[codes.word[j / 8] >> (4 * (j % 8)) & 15u];
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
