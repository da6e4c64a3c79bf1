// ufp4 - quantized_gemm on AVX-512 BF16 of one row of bf16 or fp16 that is not quantized: weights in 4 bits, fast mode.
// SPDX-License-Identifier: Apache-2.0
//
// Rows of codes are read one after the other, the order in which memory is fastest; each line is prefetched far ahead
// in the same order. A register of 128 codes is looked up as words, one nibble of each word at a time. So a lane of
// vdpbf16ps holds 8 k of the row, which share a scale.
//
// | group   | d of k = 8 g .. 8 g + 7: from +0, the pairs (k, k + 4) of every term (gemm_integers.hpp). vdpbf16ps    |
// |         | adds the product of k + 4 first and rounds after each                                              |
// | lane    | sum = fma(d, s, sum) over the groups of equal g mod 16; s is the block scale                       |
// | element | lanes l and l + 8 are added, then l and l + 4, l and l + 2, l and l + 1                            |
//
// Interleaved weights have a column a lane and sixteen sums instead, which are added in the same order: the same bits.
//
// Roundings (numerics 6), in units of 2^-24 of the sum of magnitudes: 8 of a group; K / 128 of its lane, at least 1;
// of an element log2(K / 8), at most 4; in the terms of less weight, which are added first, less than 1 in all. That is
// at most K + 2 from K = 8 on, and the roundings of the result take 3.
#pragma once

#include <ufp4/cpu/kernels/gemm/gemm_f32_avx512.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_int8_avx512.hpp>

UFP4_BEGIN_REGION(avx512, UFP4_AVX512_BF16)

UFP4_LANE void add_pairs(f32& sum, u32 pairs, u32 factors) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(pairs), "v"(factors));
}
/// The two products of each lane by fma, which keeps subnormal numbers; the odd one first, as vdpbf16ps adds them.
UFP4_LANE void add_pairs_by_fma(f32& sum, u32 pairs, u32 factors) {
  sum = fma(as_float(pairs & 0xFFFF0000u), as_float(factors & 0xFFFF0000u), sum);
  sum = fma(as_float(pairs << 16), as_float(factors << 16), sum);
}
/// The values of a grid as bf16, twice: a lookup of words ignores the bit above a nibble.
inline u32 bf16_table(const grid4& grid) {
  alignas(64) std::uint16_t word[32];
  for (std::size_t i = 0; i < 32; ++i) word[i] = static_cast<std::uint16_t>(to_bits(grid.value[i % 16]) >> 16);
  return load_as<u32>(word);
}

/// The terms of unquantized elements in the upper halves of lanes, the one of most weight last.
template <std::size_t terms>
UFP4_LANE void split_terms(f32 x, u32 (&term)[terms]) {
  if constexpr (terms == 1) {
    term[0] = as_bits(x);
  } else {
    const u32 high = round_bf16(x) & 0xFFFF0000u;
    term[0] = (high & 0x7F800000u) == infinity_bits ? u32{} : as_bits(x - as_float(high));
    term[1] = high;
  }
}
/// The pairs (k, k + 4) of [k, k + length) of a row, four for each 8 k, and those of the next term `step` dwords on.
/// Whether an element is below least_mixed. Writes whole vectors; length is at most 256.
template <std::size_t terms>
bool unquantized_pairs(const quantize_job& unquantized, std::size_t row, std::size_t k, std::size_t length,
                       std::uint32_t* pairs, std::size_t step) {
  alignas(64) float value[256 + lanes] = {};
  unquantized_row(unquantized, row, k, length, value);
  u32 tiny{};
  for (std::size_t e = 0; e < length; e += 2 * lanes) {
    u32 four[2][terms];  // in lanes 0 to 3 and 8 to 11
#pragma GCC unroll 2
    for (std::size_t i = 0; i < 2; ++i) {
      const f32 v = e + i * lanes < length ? load(value + e + i * lanes) : f32{};
      tiny |= reinterpret_cast<u32>((as_bits(v) & magnitude_mask) - 1u < least_mixed_bits - 1u);
      split_terms<terms>(v, four[i]);
#pragma GCC unroll 2
      for (u32& t : four[i]) t = t >> 16 | (as_bits(exchange<4>(as_float(t))) & 0xFFFF0000u);
    }
#pragma GCC unroll 2
    for (std::size_t t = 0; t < terms; ++t) store(pairs + t * step + e / 2, quarters<0x88>(four[0][t], four[1][t]));
  }
  return any(tiny);
}

/// `count` consecutive scales of 8 bits as bf16. Writes whole vectors, so zeros or other finite numbers beyond them.
inline void scale_words(scale_kind kind, const std::uint8_t* scales, std::size_t count, std::uint16_t* out) {
  const scale_table& table = scale_table_of(kind);
  using quads = std::uint64_t __attribute__((vector_size(64)));
  const quads order = {0, 4, 1, 5, 2, 6, 3, 7};  // after which the unpacked bytes are in order
  for (std::size_t i = 0; i < count; i += 64) {
    quads codes{};
    if (count - i >= 64)
      codes = load_as<quads>(scales + i);
    else
      __builtin_memcpy(&codes, scales + i, count - i);
    asm("vpermq %0, %1, %0" : "+v"(codes) : "v"(order));
    const u32 bytes = reinterpret_cast<u32>(codes);
    const bool upper = any(bytes & 0x80808080u);
    const u32 low = lookup_bytes(table.low, bytes, upper), high = lookup_bytes(table.high, bytes, upper);
    u32 first, second;
    asm("vpunpcklbw %2, %1, %0" : "=v"(first) : "v"(low), "v"(high));
    asm("vpunpckhbw %2, %1, %0" : "=v"(second) : "v"(low), "v"(high));
    store(out + i, first), store(out + i + 32, second);
  }
}

/// `count` consecutive scales as Scale, which is bf16 for all but binary32, and at least sixteen finite numbers beyond
/// them: sixteen groups, of which the last of a row are 0, read so many.
template <class Scale>
void copy_scales(scale_kind kind, const std::uint8_t* scales, std::size_t count, Scale* out) {
  if (sizeof(Scale) == 2 && kind != scale_kind::bf16)
    return scale_words(kind, scales, count, reinterpret_cast<std::uint16_t*>(out));
  __builtin_memcpy(out, scales, count * sizeof(Scale));
  __builtin_memset(out + count, 0, lanes * sizeof(Scale));
}

/// The scales of sixteen groups of one row: group l has scale l * 8 / block from p on.
template <class Scale>
struct group_scales {
  u32 place;

  explicit group_scales(std::size_t block) {
    alignas(64) std::uint32_t at[lanes];
    for (std::uint32_t l = 0; l < lanes; ++l) {
      at[l] = l * 8 / static_cast<std::uint32_t>(block);
      if (sizeof(Scale) == 2) at[l] <<= 16;  // of the upper word of a lane; the lower becomes 0
    }
    place = load_as<u32>(at);
  }
  UFP4_LANE f32 operator()(const Scale* p) const {
    f32 r;
    if constexpr (sizeof(Scale) == 2)
      asm("vpermw %2, %1, %0%{%3%}%{z%}" : "=v"(r) : "v"(place), "m"(*bytes_of<64>(p)), "Yk"(0xAAAAAAAAu));
    else
      asm("vpermps %2, %1, %0" : "=v"(r) : "v"(place), "m"(*bytes_of<64>(p)));
    return r;
  }
};

struct mixed_gemv {
  static constexpr std::size_t tile_rows = 1, tile_cols = lanes;
  static constexpr std::size_t part_k = 128;                    ///< k of a register of codes
  static constexpr std::size_t lead = 8192, scale_lead = 2048;  ///< bytes that are prefetched ahead of their use
  static constexpr std::size_t panel_parts = 8;  ///< of interleaved columns, whose scales are decoded together

  static bool takes(const gemm_job& job) { return job.out.rows == 1 && mixed_fits(job); }

  // ---- The row: for each part and term four vectors, word w of vector i is k = 4 w + i; then a byte for each part,
  // whether it has elements that need fma.

  static std::size_t parts(const gemm_job& job) { return (job.padded() + part_k - 1) / part_k; }
  static std::size_t word_count(const gemm_job& job) { return parts(job) * bf16_terms(job.left) * part_k; }
  static std::size_t left_bytes(const gemm_job& job, std::size_t rows) {
    return rows * up(word_count(job) * 2 + parts(job));
  }
  static void pack_left(const gemm_job& job, std::size_t row, std::size_t, std::byte* out) {
    bf16_terms(job.left) == 1 ? pack_row<1>(job, row, out) : pack_row<2>(job, row, out);
  }
  template <std::size_t terms>
  static void pack_row(const gemm_job& job, std::size_t row, std::byte* out) {
    auto* word = reinterpret_cast<std::uint16_t*>(out);
    auto* tiny = reinterpret_cast<std::uint8_t*>(word + word_count(job));
    for (std::size_t k = 0; k < job.padded(); k += part_k, word += terms * part_k, ++tiny) {
      const std::size_t left = job.padded() - k;
      std::uint32_t pairs[terms][part_k / 2] = {};
      *tiny =
          unquantized_pairs<terms>(job.left.unquantized, row, k, left < part_k ? left : part_k, pairs[0], part_k / 2);
      for (std::size_t t = 0; t < terms; ++t)
        for (std::size_t i = 0; i < part_k / 2; ++i)
          __builtin_memcpy(word + t * part_k + i % 4 * 32 + i / 4 * 2, &pairs[t][i], 4);
    }
  }

  // ---- The weights.

  /// What is the same for all columns.
  struct row_job {
    u32 table;
    const std::uint16_t* words;
    const std::uint8_t* tiny;
    int shift;                ///< from k to blocks
    std::size_t parts, last;  ///< last: bytes of codes in the last part of a row
  };

  /// A nibble of each word at a time, times a term's words; x(i): vector i of a term.
  template <bool by_fma, class X>
  UFP4_LANE static void add_nibbles(f32& sum, u32 table, u32 codes, const X& x) {
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < 4; ++i) {
      const u32 v = lookup_words(table, codes >> 4 * i);
      by_fma ? add_pairs_by_fma(sum, v, x(i)) : add_pairs(sum, v, x(i));
    }
  }
  template <std::size_t terms, bool by_fma>
  UFP4_LANE static f32 groups_of(u32 table, u32 codes, const std::uint16_t* words) {
    f32 d{};
#pragma GCC unroll 2
    for (std::size_t t = 0; t < terms; ++t)
      add_nibbles<by_fma>(d, table, codes, [=](std::uint32_t i) __attribute__((always_inline)) {
        return load_as<u32>(words + t * part_k + i * 32);
      });
    return d;
  }
  template <std::size_t terms>
  [[gnu::cold, gnu::noinline]] static f32 groups_by_fma(u32 table, u32 codes, const std::uint16_t* words) {
    return groups_of<terms, true>(table, codes, words);
  }

  /// One column in the order of memory, the sums of its lanes.
  template <std::size_t terms, bool first_level, class Scale>
  static f32 multiply_row(const row_job& r, const std::uint8_t* codes, const Scale* scale,
                          const group_scales<Scale>& scales) {
    const u32 table = r.table;
    const std::uint16_t* words = r.words;
    f32 sum{};
    const auto add = [&](std::size_t c, u32 dword) __attribute__((always_inline)) {
      const f32 d =
          r.tiny[c] != 0 ? groups_by_fma<terms>(table, dword, words) : groups_of<terms, false>(table, dword, words);
      sum = fma(d, scales(scale + (c * part_k >> r.shift)), sum);
      words += terms * part_k;
    };
    const std::size_t whole = r.parts - (r.last != 64);
    for (std::size_t c = 0; c < whole; ++c) {
      __builtin_prefetch(codes + c * 64 + lead, 0, first_level ? 3 : 2);
      add(c, load_as<u32>(codes + c * 64));
    }
    if (whole != r.parts) {
      u32 rest{};
      __builtin_memcpy(&rest, codes + whole * 64, r.last);
      add(whole, rest);
    }
    return sum;
  }
  /// Lane 0 is the sum.
  UFP4_LANE static f32 sum_of_lanes(f32 v) {
    v = v + exchange<8>(v), v = v + exchange<4>(v), v = v + exchange<2>(v);
    return v + exchange<1>(v);
  }

  /// Scales are decoded one row ahead: a load waits until the stores whose bytes it joins have left the core.
  template <std::size_t terms, bool first_level, class Scale>
  static void multiply_rows(const gemm_job& job, const row_job& r, const gemm_part& columns, Scale* scale,
                            float* sums) {
    const quantized_source& q = job.right.q;
    const auto bytes = static_cast<std::size_t>(scale_bytes(q.format.scale));
    const group_scales<Scale> scales(job.block);
    Scale* const place[2] = {scale, scale + padded_scales(q.blocks())};
    const auto decode = [&](std::size_t j) {
      const auto* p = static_cast<const std::uint8_t*>(q.scales) + q.scale_index(columns.col + j, 0) * bytes;
      for (std::size_t i = 0; i < q.blocks() * bytes; i += 64)
        __builtin_prefetch(p + i + scale_lead, 0, first_level ? 3 : 2);
      copy_scales(q.format.scale, p, q.blocks(), place[j % 2]);
    };
    decode(0);
    for (std::size_t j = 0; j < columns.cols; ++j) {
      if (j + 1 < columns.cols) decode(j + 1);
      const std::uint8_t* codes = q.codes + q.code_index(columns.col + j, 0);
      sums[j] = sum_of_lanes(multiply_row<terms, first_level>(r, codes, place[j % 2], scales))[0];
    }
  }

  // ---- Interleaved weights: sixteen columns, a column a lane; group l of each part has a sum of its own.

  /// `words`: those of the group's first pair.
  template <std::size_t terms, bool by_fma>
  UFP4_LANE static void add_group(u32 table, const std::uint16_t* words, const std::uint8_t* codes, f32 by, f32& sum) {
    u32 dword = load_as<u32>(codes);
    asm("" : "+v"(dword));  // one load: compilers would make each shift read memory
    f32 d{};
#pragma GCC unroll 2
    for (std::size_t t = 0; t < terms; ++t)
      add_nibbles<by_fma>(d, table, dword, [=](std::uint32_t i) __attribute__((always_inline)) {
        return as_bits(load_broadcast(words + t * part_k + i * 32));
      });
    sum = fma(d, by, sum);
  }
  /// Parts of a panel, all of them whole and without elements for fma.
  template <std::size_t terms, bool first_level, class Scale>
  static void multiply_parts(const row_job& r, const std::uint16_t* words, std::size_t parts, const std::uint8_t* codes,
                             const Scale* scale, f32 (&sums)[lanes]) {
    const group_scales<Scale> scales(8);  // lane l has scale l
    const std::size_t within = (std::size_t{1} << r.shift) - 1;
    f32 sum[lanes], by{};
#pragma GCC unroll 16
    for (std::size_t l = 0; l < lanes; ++l) sum[l] = sums[l];
    for (std::size_t c = 0; c < parts; ++c, words += terms * part_k) {
#pragma GCC unroll 16
      for (std::size_t l = 0; l < lanes; ++l, codes += 64) {
        if (((c * part_k + 8 * l) & within) == 0) by = scales(scale), scale += lanes;
        add_group<terms, false>(r.table, words + 2 * l, codes, by, sum[l]);
        prefetch_after<first_level ? read_ahead::first_level : read_ahead::second_level>(sum[l], codes + lead);
      }
    }
#pragma GCC unroll 16
    for (std::size_t l = 0; l < lanes; ++l) sums[l] = sum[l];
  }
  /// Any parts of a panel, `tiny` whether they need fma; `groups` groups in all.
  template <std::size_t terms, class Scale>
  [[gnu::noinline]] static void multiply_groups(const row_job& r, const std::uint16_t* words, const std::uint8_t* tiny,
                                                std::size_t groups, const std::uint8_t* codes, const Scale* scale,
                                                f32 (&sums)[lanes]) {
    const group_scales<Scale> scales(8);
    for (std::size_t g = 0; g < groups; ++g, codes += 64) {
      const std::size_t c = g / lanes, l = g % lanes;
      const f32 by = scales(scale + (8 * g >> r.shift) * lanes);
      const std::uint16_t* pairs = words + c * terms * part_k + 2 * l;
      tiny[c] != 0 ? add_group<terms, true>(r.table, pairs, codes, by, sums[l])
                   : add_group<terms, false>(r.table, pairs, codes, by, sums[l]);
    }
  }
  static bool takes_fma(const row_job& r, std::size_t first, std::size_t end) {
    bool tiny = false;
    for (std::size_t c = first; c < end; ++c) tiny = tiny || r.tiny[c] != 0;
    return tiny;
  }

  template <std::size_t terms, bool first_level, class Scale>
  static void multiply_interleaved(const gemm_job& job, const row_job& r, std::size_t col, Scale* scale, float* sums) {
    const quantized_source& q = job.right.q;
    const auto bytes = static_cast<std::size_t>(scale_bytes(q.format.scale));
    const auto* all = static_cast<const std::uint8_t*>(q.scales) + q.scale_index(col, 0) * bytes;
    const std::uint8_t* codes = q.codes + q.code_index(col, 0);
    Scale* const place[2] = {scale, scale + padded_scales(part_scales(job))};
    const auto decode = [&](std::size_t first) {
      const std::size_t b = first * part_k / job.block, left = q.blocks() - b, most = part_scales(job) / lanes;
      const std::size_t count = (left < most ? left : most) * lanes;
      const std::uint8_t* p = all + b * lanes * bytes;
      for (std::size_t i = 0; i < count * bytes; i += 64)
        __builtin_prefetch(p + i + scale_lead, 0, first_level ? 3 : 2);
      copy_scales(q.format.scale, p, count, place[first / panel_parts % 2]);
    };
    f32 sum[lanes] = {};
    decode(0);
    for (std::size_t c = 0; c < r.parts; c += panel_parts, codes += panel_parts * lanes * 64) {
      const std::size_t next = c + panel_parts, end = next < r.parts ? next : r.parts;
      if (next < r.parts) decode(next);
      const std::uint16_t* words = r.words + c * terms * part_k;
      const Scale* from = place[c / panel_parts % 2];
      if (end * part_k > job.padded() || takes_fma(r, c, end)) {
        const std::size_t last = end * part_k < job.padded() ? end * part_k : job.padded();
        multiply_groups<terms>(r, words, r.tiny + c, last / 8 - c * lanes, codes, from, sum);
      } else {
        multiply_parts<terms, first_level>(r, words, end - c, codes, from, sum);
      }
    }
    for (std::size_t half = lanes / 2; half != 0; half /= 2)
      for (std::size_t l = 0; l < half; ++l) sum[l] = sum[l] + sum[l + half];
    store(sums, sum[0]);
  }

  // ---- A part of C.

  /// Scales of a panel of sixteen interleaved columns.
  static std::size_t part_scales(const gemm_job& job) {
    const std::size_t k = panel_parts * part_k;
    return (job.padded() < k ? job.padded() : k) / job.block * lanes;
  }
  /// Elements of memory for `count` scales and those that copy_scales writes beyond them.
  static std::size_t padded_scales(std::size_t count) { return up(count + lanes); }
  static std::size_t scratch_bytes(const gemm_job& job, std::size_t) {
    const std::size_t count = job.right.interleaved() ? part_scales(job) : job.right.q.blocks();
    return 2 * padded_scales(count) * sizeof(float) + lanes * sizeof(float);
  }
  using loop = void(const gemm_job&, const gemm_part&, const std::byte* left, std::byte* scratch);
  static void multiply(const gemm_job& job, const gemm_part& part, const std::byte* left, std::byte* scratch) {
    const bool one = bf16_terms(job.left) == 1, wide = job.right.q.format.scale == scale_kind::f32;
    loop* const chosen = wide ? (one ? loop_of<1, float>() : loop_of<2, float>())
                              : (one ? loop_of<1, std::uint16_t>() : loop_of<2, std::uint16_t>());
    chosen(job, part, left, scratch);
  }
  template <std::size_t terms, class Scale>
  static loop* loop_of() {
    return prefetches_first_level() ? multiply_part<terms, true, Scale> : multiply_part<terms, false, Scale>;
  }
  template <std::size_t terms, bool first_level, class Scale>
  static void multiply_part(const gemm_job& job, const gemm_part& part, const std::byte* left, std::byte* scratch) {
    const auto* words = reinterpret_cast<const std::uint16_t*>(left);
    auto* sums = reinterpret_cast<float*>(scratch);
    auto* scale = reinterpret_cast<Scale*>(sums + lanes);
    const std::size_t over = job.padded() % part_k;
    const row_job r{
        bf16_table(job.right.q.format.grid), words,      reinterpret_cast<const std::uint8_t*>(words + word_count(job)),
        __builtin_ctzll(job.block),          parts(job), over == 0 ? 64 : over / 2};
    for (std::size_t j = 0; j < part.cols; j += lanes) {
      const gemm_part columns{part.row, 1, part.col + j, part.cols - j < lanes ? part.cols - j : lanes};
      if (job.right.interleaved())
        multiply_interleaved<terms, first_level>(job, r, columns.col, scale, sums);
      else
        multiply_rows<terms, first_level>(job, r, columns, scale, sums);
      store_sums(job, columns, sums, lanes);
    }
  }
};

template <features needs = features::all>
inline constexpr gemm_kernel gemv_mixed_kernel =
    kernel_of<mixed_gemv, needs>(isa::avx512_bf16, "gemv_mixed_avx512", 2, 1, 128, accumulate::fast);
UFP4_END_REGION
