// ufp4 - both ends of AVX-512 GEMM kernels: codes and scales of sixteen rows, a row a lane; sums to elements of C.
// SPDX-License-Identifier: Apache-2.0
//
// A dword of codes is 8 consecutive k of one row. Eight of them, 64 k, are loaded from each of sixteen rows and
// transposed; scales likewise. An interleaved operand (matrix/job.hpp) is stored transposed already. Lanes of rows that
// the matrix does not have repeat its last row.
#pragma once

#include <ufp4/cpu/kernels/gemm/gemm_integers.hpp>
#include <ufp4/cpu/kernels/gemm/store_part.hpp>
#include <ufp4/cpu/simd/avx512.hpp>

UFP4_BEGIN_REGION(avx512, UFP4_AVX512)

/// Vectors that belong together.
template <std::size_t n>
struct group_of {
  u32 v[n];
};
using quad = group_of<4>;
using octad = group_of<8>;  ///< 32 bytes of each of sixteen rows: dword j of row r in lane r of v[j]

UFP4_LANE u32 two_rows(const std::uint8_t* p, const std::uint8_t* other) {
  using bytes32 = std::uint8_t __attribute__((vector_size(32)));
  u32 r;  // "x": clang 19 misprints %g of registers above 15
  asm("vinserti64x4 $1, %2, %g1, %0"
      : "=v"(r)
      : "x"(load_as<bytes32>(p)), "m"(*reinterpret_cast<const bytes32*>(other)));
  return r;
}
/// Rows p + i * step and p + (i + 4) * step in the halves of four registers become one dword of four rows a quarter.
UFP4_LANE quad rows_by_four(const std::uint8_t* p, std::size_t step) {
  quad q;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) q.v[i] = two_rows(p + i * step, p + (i + 4) * step);
  transpose4(q.v);
  return q;
}
/// 32 bytes of sixteen rows, of which a has the first eight.
UFP4_LANE octad rows_by_eight(const quad& a, const quad& b) {
  octad o;
#pragma GCC unroll 4
  for (std::size_t j = 0; j < 4; ++j) {
    o.v[j] = quarters<0x88>(a.v[j], b.v[j]);
    o.v[j + 4] = quarters<0xDD>(a.v[j], b.v[j]);
  }
  return o;
}
UFP4_LANE octad transposed_32(const std::uint8_t* p, std::size_t step) {
  return rows_by_eight(rows_by_four(p, step), rows_by_four(p + 8 * step, step));
}
/// The same of bytes that are transposed already.
UFP4_LANE octad interleaved_32(const std::uint8_t* p) {
  octad o;
#pragma GCC unroll 8
  for (std::size_t j = 0; j < 8; ++j) o.v[j] = load_as<u32>(p + 64 * j);
  return o;
}

/// A range of codes of sixteen rows. Row-major: row r at p + r * step. Interleaved: 64 bytes for every 8 k.
struct code_rows {
  const std::uint8_t* p;
  std::size_t step;
  bool interleaved;
};

/// Bytes that codes_of may need for `depth` k.
constexpr std::size_t staged_code_bytes(std::size_t depth) { return (depth + 127) / 128 * 1024; }

/// K [k, k + depth) of rows [row, row + live), live <= 16, k a multiple of 32; copied where rows are missing, or k: to
/// whole units. Row must be a multiple of 16 where the operand is interleaved. `staged` holds staged_code_bytes(depth).
template <features needs = features::all, std::size_t unit = 64>
code_rows codes_of(const quantized_source& q, std::size_t row, std::size_t live, std::size_t k, std::size_t depth,
                   std::uint8_t* staged) {
  const std::uint8_t* p = q.codes + q.code_index(row, k);
  const bool whole = depth % unit == 0;
  if (has(needs, features::prepacked) && q.interleaved) {
    if (whole) return {p, 0, true};
    std::memset(staged, 0, staged_code_bytes(depth));
    std::memcpy(staged, p, (depth + 7) / 8 * 64);
    return {staged, 0, true};
  }
  if (live == 16 && whole) return {p, q.padded_cols / 2, false};
  const std::size_t step = staged_code_bytes(depth) / 16;
  for (std::size_t r = 0; r < 16; ++r) {
    std::memset(staged + r * step + step - 64, 0, 64);
    std::memcpy(staged + r * step, p + (r < live ? r : live - 1) * (q.padded_cols / 2), depth / 2);
  }
  return {staged, step, false};
}

/// The codes of 64 k, from k on: lane r of v[j] is row r, k 8 j .. 8 j + 7, the first k in the low nibble.
UFP4_LANE octad codes_at(const code_rows& rows, std::size_t k) {
  if (!rows.interleaved) return transposed_32(rows.p + k / 2, rows.step);
  return interleaved_32(rows.p + k * 8);
}

using i8x16 = std::uint8_t __attribute__((vector_size(16)));
/// The low bytes of sixteen integers.
UFP4_LANE i8x16 low_bytes(const std::int16_t (&integer)[16]) {
  using i16x16 = std::int16_t __attribute__((vector_size(32)));
  i8x16 bytes;
  asm("vpmovwb %1, %0" : "=v"(bytes) : "v"(load_as<i16x16>(integer)));
  return bytes;
}
/// Sixteen bytes four times, for lookups by the low six bits of any byte: the two bits above a nibble have no effect.
UFP4_LANE u8 nibble_table(i8x16 bytes) {
  u8 table;
  asm("vshufi32x4 $0, %g1, %g1, %0" : "=v"(table) : "v"(bytes));
  return table;
}
/// Of each dword of eight codes: the four even k in order, and the four odd ones.
UFP4_LANE u8 low(u8 table, u32 codes) { return lookup_bytes(table, codes); }
UFP4_LANE u8 high(u8 table, u32 codes) { return lookup_bytes(table, codes >> 4); }

/// The entry of a table of 256 bytes for each byte, 128 entries in two registers. Upper: whether codes above 127 occur.
UFP4_LANE u32 lookup_bytes(const std::uint8_t (&table)[256], u32 codes, bool upper) {
  u32 low = codes;
  asm("vpermi2b %2, %1, %0" : "+v"(low) : "v"(load_as<u32>(table)), "v"(load_as<u32>(table + 64)));
  if (!upper) return low;
  u32 high = codes;
  std::uint64_t which;
  asm("vpermi2b %2, %1, %0" : "+v"(high) : "v"(load_as<u32>(table + 128)), "v"(load_as<u32>(table + 192)));
  asm("vpmovb2m %1, %0" : "=Yk"(which) : "v"(codes));
  asm("vmovdqu8 %2, %0%{%1%}" : "+v"(low) : "Yk"(which), "v"(high));
  return low;
}
/// Scales of 8 bits are bf16 numbers: the low and the high byte of each.
struct scale_table {
  alignas(64) std::uint8_t low[256], high[256];
};
inline scale_table make_scale_table(scale_kind kind) {
  scale_table t;
  for (std::uint32_t c = 0; c < 256; ++c) {
    const std::uint32_t bits = to_bits(decode_scale(kind, c));
    t.low[c] = static_cast<std::uint8_t>(bits >> 16);
    t.high[c] = static_cast<std::uint8_t>(bits >> 24);
  }
  return t;
}
/// Made when first used: as constants they would cost a compiler 30 ms.
template <scale_kind kind>
const scale_table& scale_table_of() {
  static const scale_table table = make_scale_table(kind);
  return table;
}
/// Of a scale of 8 bits.
UFP4_LANE const scale_table& scale_table_of(scale_kind kind) {
  if (kind == scale_kind::e4m3) return scale_table_of<scale_kind::e4m3>();
  if (kind == scale_kind::ue5m3) return scale_table_of<scale_kind::ue5m3>();
  if (kind == scale_kind::e6m2) return scale_table_of<scale_kind::e6m2>();
  return scale_table_of<scale_kind::e8m0>();
}

/// For scale j of a dword, where its two bytes are in the vectors of low and of high bytes.
inline constexpr struct scale_places {
  alignas(64) std::uint8_t of[4][64] = {};

  constexpr scale_places() {
    for (std::uint32_t j = 0; j < 4; ++j)
      for (std::uint32_t i = 0; i < 64; ++i)
        of[j][i] = static_cast<std::uint8_t>(i / 4 * 4 + j + (i % 4 == 3 ? 64 : 0));
  }
} places_of_scales;
/// Bytes 2 and 3 of each dword out of `low` and `high`; zeros below.
UFP4_LANE u32 join_bytes(u32 low, u32 places, u32 high) {
  asm("vpermi2b %2, %1, %0%{%3%}%{z%}" : "+v"(places) : "v"(low), "v"(high), "Yk"(0xCCCCCCCCCCCCCCCCu));
  return places;
}

/// The first `count` scales of sixteen rows, `step` bytes apart: of 8 bits, of 16 and 32. Whole parts of 32 bytes are
/// read.
[[gnu::noinline]] inline void decode_byte_scales(const scale_table& table, const std::uint8_t* rows, std::size_t step,
                                                 std::size_t count, float* out) {
  for (std::size_t at = 0; at < count; at += 32) {
    const octad part = transposed_32(rows + at, step);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i) {
      const bool upper = any(part.v[i] & 0x80808080u);
      const u32 low = lookup_bytes(table.low, part.v[i], upper), high = lookup_bytes(table.high, part.v[i], upper);
#pragma GCC unroll 4
      for (std::size_t j = 0; j < 4; ++j) {
        if (at + i * 4 + j == count) return;
        store(out + (at + i * 4 + j) * 16, join_bytes(low, load_as<u32>(places_of_scales.of[j]), high));
      }
    }
  }
}
[[gnu::noinline]] inline void decode_wide_scales(scale_kind kind, const std::uint8_t* rows, std::size_t step,
                                                 std::size_t count, float* out) {
  const std::size_t each = kind == scale_kind::bf16 ? 2 : 1;  // scales of a dword
  for (std::size_t at = 0; at < count; at += 8 * each) {
    const octad part = transposed_32(rows + at * 4 / each, step);
    const std::size_t left = count - at;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i) {
      float* to = out + (at + i * each) * 16;
      if (i * each >= left) return;
      store(to, each == 1 ? part.v[i] : part.v[i] << 16);
      if (each == 2 && i * each + 1 < left) store(to + 16, part.v[i] & 0xFFFF0000u);
    }
  }
}
/// `kind`: a constant where the caller's is.
UFP4_LANE void decode_scales(scale_kind kind, const std::uint8_t* rows, std::size_t step, std::size_t count,
                             float* out) {
  if (scale_bytes(kind) == 1) return decode_byte_scales(scale_table_of(kind), rows, step, count, out);
  decode_wide_scales(kind, rows, step, count, out);
}

UFP4_LANE std::uint64_t first_bytes(std::size_t count) {
  return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}
/// The first `count` bytes of a vector at p; the others are zero, and not read.
template <class V>
UFP4_LANE V load_bytes(const void* p, std::size_t count) {
  V v;
  asm("vmovdqu8 %1, %0%{%2%}%{z%}" : "=v"(v) : "m"(*bytes_of<sizeof(V)>(p)), "Yk"(first_bytes(count)));
  return v;
}
/// Stores them; the others are not written.
template <class V>
UFP4_LANE void store_bytes(void* p, V v, std::size_t count) {
  asm("vmovdqu8 %1, (%0)%{%2%}" : : "r"(p), "v"(v), "Yk"(first_bytes(count)) : "memory");
}

/// Scales of blocks [block, block + count) of one row.
template <features needs = features::all>
void row_scales_of(const quantized_source& q, std::size_t row, std::size_t block, std::size_t count, float* out) {
  std::size_t b = 0;
  const std::size_t first = q.scale_index(row, block);
  const scale_kind kind = scale_in<needs>(q.format);
  for (; !q.interleaved && b + lanes <= count; b += lanes) store(out + b, load_scales(kind, q.scales, first + b));
  if (!q.interleaved && b < count) {
    const auto bytes = static_cast<std::size_t>(scale_bytes(kind));
    std::uint8_t last[lanes * sizeof(float)];
    store(last, load_bytes<u32>(static_cast<const std::uint8_t*>(q.scales) + (first + b) * bytes, (count - b) * bytes));
    store_bytes(out + b, load_scales(kind, last, 0), (count - b) * sizeof(float));
    return;
  }
  for (; b < count; ++b) out[b] = scale_at(q, row, block + b, 1.0f);
}

/// Scales of blocks [block, block + count) of rows [row, row + live), as codes_of takes rows: out[b * 16 + r].
template <features needs = features::all>
void scales_of(const quantized_source& q, std::size_t row, std::size_t live, std::size_t block, std::size_t count,
               float* out) {
  const scale_kind kind = scale_in<needs>(q.format);
  const auto bytes = static_cast<std::size_t>(scale_bytes(kind)), each = 32 / bytes;
  if (has(needs, features::prepacked) && q.interleaved) {
    const std::size_t first = q.scale_index(row, block);
    with_scale_kind(kind, [&]<scale_kind known>() {
      for (std::size_t b = 0; b < count; ++b) store(out + b * lanes, load_scales(known, q.scales, first + b * lanes));
    });
    return;
  }
  const auto* all = static_cast<const std::uint8_t*>(q.scales);
  const bool direct = live == 16 && q.format.block.rows == 1;
  const std::size_t row_bytes = q.blocks() * bytes;
  const std::size_t first = q.scale_index(row, block), whole = (count + each - 1) / each * each;
  if (direct && q.scale_index(row + 15, block) + whole <= q.rows * q.blocks())  // nothing is read beyond the last scale
    return decode_scales(kind, all + first * bytes, row_bytes, count, out);
  for (std::size_t b = 0; b < count; b += each) {
    const std::size_t some = count - b < each ? count - b : each;
    using bytes32 = std::uint8_t __attribute__((vector_size(32)));
    std::uint8_t staged[512];
    for (std::size_t r = 0; r < 16; ++r)
      store(staged + r * 32,
            load_bytes<bytes32>(all + q.scale_index(row + (r < live ? r : live - 1), block + b) * bytes, some * bytes));
    decode_scales(kind, staged, 32, some, out + b * 16);
  }
}

/// Whether some of `count` vectors of scales, but 0 and NaN, are outside a range.
inline bool any_scale_outside(const magnitude_range& range, const float* scales, std::size_t count) {
  u32 found{};
  for (std::size_t b = 0; b < count; ++b) {
    const u32 m = load_as<u32>(scales + 16 * b) & 0x7FFFFFFFu;
    found |= reinterpret_cast<u32>((m < range.low || m > range.high) && m != 0u && m <= infinity_bits);
  }
  return any(found);
}

/// Prefetches the codes that codes_of reads next: the same rows further on, or the first `depth` k of the next sixteen.
inline void prefetch_codes(const quantized_source& q, std::size_t row, std::size_t k, std::size_t depth) {
  const bool last = k + depth >= q.padded_cols;
  const std::size_t row_bytes = q.interleaved ? depth / 2 : q.padded_cols / 2;
  const std::uint8_t* p = q.codes + q.code_index(last ? row + 16 : row, last ? 0 : k + depth);
  for (std::size_t r = 0; r < 16; ++r)
    for (std::size_t i = 0; i < depth / 2; i += 64) __builtin_prefetch(p + r * row_bytes + i, 0, 2);
}
/// Rows of scales that sixteen rows have.
inline std::size_t scale_row_count(const quantized_source& q) { return q.format.block.rows == 1 ? 16 : 1; }
/// Where to prefetch scales of the next sixteen rows, in the order of memory, while `row` is read from `block` on.
inline const std::uint8_t* next_scales(const quantized_source& q, std::size_t row, std::size_t block) {
  const auto bytes = static_cast<std::size_t>(scale_bytes(q.format.scale));
  return static_cast<const std::uint8_t*>(q.scales) +
         (q.scale_index(row, 0) + scale_row_count(q) * (q.blocks() + block)) * bytes;
}
inline void prefetch_scales(const quantized_source& q, std::size_t row, std::size_t block, std::size_t count) {
  const std::uint8_t* p = next_scales(q, row, block);
  const std::size_t bytes = count * scale_row_count(q) * static_cast<std::size_t>(scale_bytes(q.format.scale));
  for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i, 0, 2);
}

/// The first `count` of sixteen elements at p; other lanes are zero.
template <class V>
UFP4_LANE V load_some(const void* p, std::size_t count) {
  return count == lanes ? load_as<V>(p) : load_bytes<V>(p, count * sizeof(V) / lanes);
}
template <class V>
UFP4_LANE void store_some(void* p, V v, std::size_t count) {
  if (count == lanes) return store(p, v);
  store_bytes(p, v, count * sizeof(V) / lanes);
}
UFP4_LANE f32 load_result(const sink& out, const void* p, std::size_t count) {
  if (out.kind == dtype::f32) return load_some<f32>(p, count);
  const half_u16 v = load_some<half_u16>(p, count);
  return out.kind == dtype::bf16 ? widen_bf16(v) : widen_fp16(v);
}
UFP4_LANE void store_result(const sink& out, void* p, f32 v, std::size_t count) {
  if (out.kind == dtype::f32) return store_some(p, v, count);
  store_some(p, out.kind == dtype::bf16 ? narrow_bf16(v) : narrow_fp16(v), count);
}

/// Sums of up to sixteen columns, with the scales, bias and beta of a job, to C. plain: sixteen columns of binary32
/// without bias and beta.
template <bool plain, features needs>
void store_columns(const gemm_job& job, const gemm_part& part, const float* acc, std::size_t stride) {
  const result_scales by = detail::scales_of(job);
  const special_range special = special_range::of(job);
  const bool exact = job.mode == accumulate::exact_blocks;
  const f32 a = broadcast(by.a), b = broadcast(by.b), beta = broadcast(job.beta);
  const std::ptrdiff_t width = job.out.kind == dtype::f32 ? 4 : 2, step = job.out.row_stride * width;
  auto* out = static_cast<std::byte*>(job.out.data) + job.out.offset(part.row, part.col) * width;
  f32 bias{};
  if (!plain && job.bias != nullptr && !job.swapped) bias = load_some<f32>(job.bias + part.col, part.cols);
  for (std::size_t i = 0; i < part.rows; ++i, acc += stride, out += step) {
    const f32 v = load(acc), left = rounded(v * a);
    const u32 magnitude = as_bits(exact ? v : left) & magnitude_mask;
    const u32 found = reinterpret_cast<u32>(magnitude - special.least >= infinity_bits - special.least);
    if (any(found & reinterpret_cast<u32>(as_bits(v) != 0u))) [[unlikely]] {
      store_part<needs>(job, {part.row + i, 1, part.col, part.cols}, acc, lanes);
      continue;
    }
    f32 r = rounded(left * b);
    if constexpr (plain) {
      store(out, r);
    } else {
      if (job.bias != nullptr) r = r + (job.swapped ? broadcast(job.bias[part.row + i]) : bias);
      if (job.beta != 0.0f) r = fma(beta, load_result(job.out, out, part.cols), r);
      store_result(job.out, out, r, part.cols);
    }
  }
}
/// store_part where C's rows are contiguous. `acc` holds whole vectors.
template <features needs = stored_features>
void store_sums(const gemm_job& job, const gemm_part& part, const float* acc, std::size_t stride) {
  const bool exact = job.mode == accumulate::exact_blocks;
  if (job.out.col_stride != 1 || (!exact && special_range::of(job).has(detail::scales_of(job).b)))
    return store_part<needs>(job, part, acc, stride);
  const bool plain = job.out.kind == dtype::f32 && job.bias == nullptr && job.beta == 0.0f;
  for (std::size_t j = 0; j < part.cols; j += lanes) {
    const std::size_t count = part.cols - j < lanes ? part.cols - j : lanes;
    const gemm_part columns{part.row, part.rows, part.col + j, count};
    constexpr features kept = needs & stored_features;
    (plain && count == lanes ? store_columns<true, kept> : store_columns<false, kept>)(job, columns, acc + j, stride);
  }
}
UFP4_END_REGION
