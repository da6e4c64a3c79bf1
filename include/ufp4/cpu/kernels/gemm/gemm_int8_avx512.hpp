// ufp4 - quantized_gemm on AVX-512 VNNI: block products in int8, rescaled in block order: the bits of exact_blocks.
// SPDX-License-Identifier: Apache-2.0
//
// The right operand becomes unsigned bytes, integer + offset; the left stays signed. Either may have byte elements:
// int8. The accumulator of a block starts at magic_bits (gemm_integers.hpp) less offset * (sum of the left block), so
// that it ends as a binary32.
//
// A record (tile_avx512.hpp): start[rows], scale[rows]; for every 16 k, 16 bytes a row, the even k of each 8 first, or,
// where the right operand has byte elements, in order.
//
// One row by quantized columns (int8_gemv) uses the same offset and float bits. Weights stream from memory once and are
// decoded in registers. A vector holds 128 k of one column in the order of memory, so codes need no transposition. The
// dot product of a block is the sum of four (block 32) or two (block 16) dwords; those of sixteen columns are added up
// and transposed together, which takes two shuffles a vector where transposing the codes takes four. Formats with
// selectors (gemv_extended_avx512.hpp) share the loops, also in blocks of 64.
#pragma once

#include <ufp4/cpu/kernels/gemm/tile_avx512.hpp>

UFP4_BEGIN_REGION(avx512, UFP4_AVX512)

/// a += four products of unsigned bytes with the signed bytes at p, the same four for every lane.
UFP4_LANE void add_dots(u32& a, u8 bytes, const void* p) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(a) : "v"(bytes), "m"(*bytes_of<4>(p)));
}
/// 16 k of a row as signed bytes: the four even and four odd ones of each 8, or in order.
UFP4_LANE i8x16 pick_bytes(i8x16 from, i8x16 places) {
  i8x16 r;
  asm("vpermb %1, %2, %0" : "=v"(r) : "v"(from), "v"(places));
  return r;
}
template <features needs = features::all>
UFP4_LANE i8x16 left_bytes_of(const quantized_source& q, i8x16 table, std::size_t row, std::size_t k,
                              bool in_order = false) {
  using u64x2 = std::uint64_t __attribute__((vector_size(16)));
  if (has_bytes_in<needs>(q.format)) {
    const i8x16 codes = load_as<i8x16>(q.codes + q.code_index(row, k));
    return in_order ? codes : pick_bytes(codes, i8x16{0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15});
  }
  std::uint32_t first, second;
  __builtin_memcpy(&first, q.codes + q.code_index(row, k), 4);
  __builtin_memcpy(&second, q.codes + q.code_index(row, k + 8), 4);
  const u64x2 codes = {first, second};
  const i8x16 bytes = pick_bytes(table, reinterpret_cast<i8x16>(codes | codes << 28));  // the upper half: codes >> 4
  return in_order ? pick_bytes(bytes, i8x16{0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15}) : bytes;
}

/// Integers of a grid plus the offset that makes them unsigned, for low and high.
UFP4_LANE u8 offset_table(const format_spec& f) {
  return nibble_table(low_bytes(f.grid.integer) + static_cast<std::uint8_t>(-integers_of(f).low));
}
/// weight * (sum of the signed bytes)
UFP4_LANE std::uint32_t weighted_sum(std::uint8_t weight, i8x16 bytes) {
  using u32x4 = std::uint32_t __attribute__((vector_size(16)));
  u32x4 sums = {};
  asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(i8x16{} + weight), "v"(bytes));
  return sums[0] + sums[1] + sums[2] + sums[3];
}

/// Those of 16 k: in each 8 the even k and the odd ones.
struct step_bytes {
  u8 v[4];
};
/// Decodes codes without selectors, 16 k of sixteen columns: steps 0, 1, ... of a panel.
struct step_decoder {
  u8 table;
  UFP4_LANE explicit step_decoder(u8 bytes) : table(bytes) {}
  UFP4_LANE step_bytes operator()(u32 first, u32 second, std::size_t) const {
    return {{low(table, first), high(table, first), low(table, second), high(table, second)}};
  }
};

template <features needed = features::all>
struct int8_products : scales_of_panel<needed> {
  using decoder = step_decoder;
  static constexpr std::size_t values = 2, most = 512, few_most = 1024;
  static u8 table(const gemm_job& job) { return offset_table(job.right.q.format); }
  static f32 unit(const gemm_job& job) { return as_float(broadcast(magic_bits(job))); }
  static constexpr bool may_read_values = has(needed, features::byte_element);
  static bool reads_values(const gemm_job& job) { return may_read_values && job.right.has_bytes(); }
  /// Sixteen columns of an operand of byte elements: vectors of four k in order, with the offset.
  [[gnu::noinline]] static void read_values(const gemm_job& job, const gemm_part& columns, std::size_t k,
                                            std::size_t depth, u32* value, float* scale) {
    const quantized_source& q = job.right.q;
    const std::uint8_t* p = q.codes + q.code_index(columns.col, k);
    std::size_t step = q.padded_cols;
    alignas(64) std::uint8_t staged[lanes * few_most];
    if (columns.cols != lanes || depth % 32 != 0) {  // lanes beyond the columns repeat the last
      for (std::size_t j = 0; j < lanes; ++j)
        std::memcpy(staged + j * few_most, p + (j < columns.cols ? j : columns.cols - 1) * step, depth);
      p = staged, step = few_most;
    }
    for (std::size_t at = 0; at < depth; at += 32) {
      const octad bytes = transposed_32(p + at, step);
      for (std::size_t i = 0; i < 8 && at + 4 * i < depth; ++i) *value++ = bytes.v[i] ^ 0x80808080u;
    }
    scales_of<(needed & (scale_features | features::prepacked))>(q, columns.col, columns.cols, k / job.block,
                                                                 depth / job.block, scale);
  }
};

/// The register tile: sums of up to eight rows, and dot products of the block that is being added.
template <std::size_t rows>
struct int8_sums {
  f32 sum[rows];
  u32 dot[rows];

  UFP4_LANE void begin_block(const std::byte* head) {
#pragma GCC unroll 8
    for (std::size_t r = 0; r < rows; ++r) dot[r] = broadcast(load_as<std::uint32_t>(head + r * 4));
  }
  UFP4_LANE void add_step(const step_bytes& bytes, const std::byte* p) {
#pragma GCC unroll 8
    for (std::size_t r = 0; r < rows; ++r) {
      u32 d = dot[r];
#pragma GCC unroll 4
      for (std::size_t i = 0; i < 4; ++i) add_dots(d, bytes.v[i], p + r * 16 + i * 4);
      dot[r] = d;
    }
  }
  UFP4_LANE void end_block(const std::byte* head, f32 column, f32 magic) {
#pragma GCC unroll 8
    for (std::size_t r = 0; r < rows; ++r)
      sum[r] =
          fma(as_float(dot[r]) - magic, rounded(broadcast(load_as<float>(head + rows * 4 + r * 4)) * column), sum[r]);
  }
};
/// Two parts of 256 bytes of the codes that are read next; on to the next two.
UFP4_LANE void prefetch_rows(const std::uint8_t*& ahead, std::size_t step, bool first_level) {
  const std::uint8_t* p = ahead;
  ahead += 2 * step;
  asm("" : "+r"(ahead), "+r"(p));  // sixteen addresses would not fit the registers
  if (first_level)
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i) __builtin_prefetch(p + i / 4 * step + i % 4 * 64, 0, 3);
  else
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i) __builtin_prefetch(p + i / 4 * step + i % 4 * 64, 0, 2);
}
/// Adds the products of decoded values. Panel: the panel_data of int8_products, or of products derived from them.
template <std::size_t rows, class Panel>
inline void int8_tile(const Panel& s, const std::byte* left, float* acc) {
  int8_sums<rows> t;
#pragma GCC unroll 8
  for (std::size_t r = 0; r < rows; ++r) t.sum[r] = load(acc + r * lanes);
  const f32 magic = s.unit;
  const float* scale = s.scale;
  const auto* value = reinterpret_cast<const u8*>(s.value);
  for (std::size_t block = 0; block < s.blocks; ++block, scale += lanes) {
    const std::byte* head = left;
    t.begin_block(head);
    left += rows * 8;
    for (std::size_t k = 0; k < s.block; k += 16, value += 4, left += rows * 16)
      t.add_step({{value[0], value[1], value[2], value[3]}}, left);
    t.end_block(head, load(scale), magic);
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < rows; ++r) store(acc + r * lanes, t.sum[r]);
}
/// Decodes, and adds the products. The codes of the next 64 k are transposed in two parts between the products of this
/// 64 k: the processor looks some hundred instructions ahead, and would else do the one after the other.
template <std::size_t rows, class Panel>
inline void int8_decoding_tile(const Panel& s, const std::byte* left, float* acc) {
  int8_sums<rows> t;
#pragma GCC unroll 8
  for (std::size_t r = 0; r < rows; ++r) t.sum[r] = load(acc + r * lanes);
  const typename Panel::decoder decode{s.table};
  const f32 magic = s.unit;
  const float* scale = s.scale;
  const std::size_t each = s.block / 16, steps = s.blocks * each, stride = s.codes.step;
  const bool interleaved = s.codes.interleaved;
  auto* decoded = reinterpret_cast<u8*>(s.value);
  const std::byte *p = left, *head = left;
  const std::uint8_t *ahead = s.ahead, *next = s.codes.p;
  octad codes = interleaved ? interleaved_32(s.codes.p) : transposed_32(s.codes.p, stride);
  std::size_t done = 0;  // steps of the block
  for (std::size_t step = 0; step < steps;) {
    if (step + 4 < steps) next += interleaved ? 512 : 32;  // else these are read again, and not used
    prefetch_rows(ahead, s.ahead_step, s.first_level);
    quad first, second;
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i, ++step) {
      if (step == steps) break;
      if (done == 0) head = p, t.begin_block(p), p += rows * 8;
      const step_bytes bytes = decode(codes.v[2 * i], codes.v[2 * i + 1], step);
      if (rows == tile_rows && decoded != nullptr)  // fewer rows are the only tile
#pragma GCC unroll 4
        for (const u8& v : bytes.v) *decoded++ = v;
      t.add_step(bytes, p), p += rows * 16;
      if (++done == each) t.end_block(head, load(scale), magic), scale += lanes, done = 0;
      if (!interleaved && i == 0) first = rows_by_four(next, stride);
      if (!interleaved && i == 1) second = rows_by_four(next + 8 * stride, stride);
    }
    codes = interleaved ? interleaved_32(next) : rows_by_eight(first, second);
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < rows; ++r) store(acc + r * lanes, t.sum[r]);
}

template <features needs = features::all>
struct int8_gemm {
  using panel = column_panel<int8_products<needs>>;

  static bool takes(const gemm_job& job) { return int8_fits(job); }
  static std::size_t record(const gemm_job& job, std::size_t live) { return live * (job.block + 8); }

  static void pack_row(const gemm_job& job, std::size_t row, std::size_t r, std::size_t live, std::byte* out) {
    const quantized_source& q = job.left.q;
    const bool in_order = has_bytes_in<needs>(job.right.q.format);
    const i8x16 table = low_bytes(q.format.grid.integer);
    const auto offset = static_cast<std::uint8_t>(-integers_of(job.right.q.format).low);
    const std::uint32_t magic = magic_bits(job);
    float scale[16];
    for (std::size_t b = 0; b < job.padded() / job.block; ++b, out += record(job, live)) {
      if (b % 16 == 0) {
        const std::size_t left = job.padded() / job.block - b;
        row_scales_of<needs & scale_features>(q, row, b, left < 16 ? left : 16, scale);
      }
      std::uint32_t start = magic;
      for (std::size_t k = 0; k < job.block; k += 16) {
        const i8x16 bytes = left_bytes_of<needs>(q, table, row, b * job.block + k, in_order);
        avx512::store(out + live * 8 + k * live + r * 16, bytes);
        start -= weighted_sum(offset, bytes);
      }
      __builtin_memcpy(out + r * 4, &start, 4);
      __builtin_memcpy(out + live * 4 + r * 4, &scale[b % 16], 4);
    }
  }

  template <class Decoder, class Table>
  static void multiply_tile(const panel_data<Decoder, Table>& s, std::size_t live, bool first, const std::byte* left,
                            float* acc) {
    with_rows(live, [&]<std::size_t count>() {
      first&& s.decodes ? int8_decoding_tile<count>(s, left, acc) : int8_tile<count>(s, left, acc);
    });
  }
};

// ---- One row.

inline constexpr std::size_t gemv_part = 128, gemv_depth = 1024;
/// How many bytes ahead of their use the codes of interleaved columns are prefetched.
inline constexpr std::size_t gemv_lead = 8192;

/// 128 k of a packed row: the even k of each 8, four bytes a dword; the odd ones; where dwords of products start.
struct gemv_part_of_row {
  alignas(64) std::uint8_t even[64], odd[64];
  std::uint32_t start[16];
  float scale[16];  ///< four or eight are used
};

UFP4_LANE void add_dots(u32& a, u8 bytes, u32 signed_bytes) {
  asm("vpdpbusd %2, %1, %0" : "+v"(a) : "v"(bytes), "v"(signed_bytes));
}
/// The quarters of four vectors, as a 4 x 4 matrix, transposed.
UFP4_LANE quad transposed_quarters(const u32 (&v)[4]) {
  const u32 ab = quarters<0x44>(v[0], v[1]), cd = quarters<0x44>(v[2], v[3]);
  const u32 above = quarters<0xEE>(v[0], v[1]), beyond = quarters<0xEE>(v[2], v[3]);
  return {
      {quarters<0x88>(ab, cd), quarters<0xDD>(ab, cd), quarters<0x88>(above, beyond), quarters<0xDD>(above, beyond)}};
}

/// Sixteen columns, and the range of K that is multiplied.
struct gemv_panel {
  static constexpr bool selects = false;  ///< a panel that selects reads `stored`, the bits of blocks of each column
  u8 table;
  f32 magic;
  code_rows codes{};
  std::size_t blocks = 0;
  const float* scale;
  const std::uint8_t *ahead = nullptr,
                     *scale_ahead = nullptr;  ///< of the next panel, in the order of memory: prefetched
  std::size_t scale_bytes;                    ///< of a block of sixteen columns
  const std::uint8_t* stored = nullptr;
  std::size_t stored_step = 0, stored_part = 0;  ///< bytes to the next column, and to the next 128 k

  /// Adds the products of 128 codes of one column.
  UFP4_LANE void add_products(u32& dots, u32 dword, const std::uint8_t*, u32 even, u32 odd) const {
    add_dots(dots, low(table, dword), even);
    add_dots(dots, high(table, dword), odd);
  }
  /// Of 8 codes of each of sixteen columns with the same of a row; `group` of 8 in a block.
  UFP4_LANE void add_products(u32& even_dots, u32& odd_dots, u32 dword, std::size_t, std::size_t,
                              const std::uint8_t* even, const std::uint8_t* odd) const {
    add_dots(even_dots, low(table, dword), even);
    add_dots(odd_dots, high(table, dword), odd);
  }
};

/// Prefetches a line after v is computed. Compilers would move all prefetches to one place, and the core would wait.
template <read_ahead how, class V>
UFP4_LANE void prefetch_after(V& v, const std::uint8_t* p) {
  if constexpr (how == read_ahead::first_level) asm("prefetcht0 %1" : "+v"(v) : "m"(*p));
  if constexpr (how == read_ahead::second_level) asm("prefetcht1 %1" : "+v"(v) : "m"(*p));
}
/// Products of 128 k of four columns with the row; on to the next four.
template <read_ahead how, class Panel>
UFP4_LANE quad dots_of_four(const Panel& s, const std::uint8_t*& codes, const std::uint8_t*& ahead,
                            const std::uint8_t*& stored, u32 even, u32 odd, u32 start) {
  quad dots;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    const u32 dword = load_as<u32>(codes + i * s.codes.step);
    dots.v[i] = start;
    s.add_products(dots.v[i], dword, stored + i * s.stored_step, even, odd);
    prefetch_after<how>(dots.v[i], ahead + i * 64);
  }
  codes += 4 * s.codes.step;
  ahead += 256;
  if constexpr (Panel::selects) {
    stored += 4 * s.stored_step;
    asm("" : "+r"(stored));
  }
  asm("" : "+r"(codes), "+r"(ahead));  // one address each: sixteen would not fit the registers
  return dots;
}
template <read_ahead how>
UFP4_LANE f32 rescaled(const gemv_panel& s, const gemv_part_of_row& row, std::size_t block, std::size_t b, u32 dot,
                       f32 sum) {
  const f32 t = rounded(load(s.scale + (block + b) * lanes) * broadcast(row.scale[b]));
  if constexpr (how != read_ahead::none) prefetch_after<how>(sum, s.scale_ahead + (block + b) * s.scale_bytes);
  return fma(as_float(dot) - s.magic, t, sum);
}

/// Columns in the order of memory, blocks of 64, 32 or 16: `part_blocks` = 2, 4 or 8 a part.
template <std::size_t part_blocks, read_ahead how, class Panel>
f32 gemv_rows(const Panel& s, const gemv_part_of_row* row, f32 sum) {
  const std::uint8_t* ahead = s.ahead;
  for (std::size_t block = 0, part = 0; block < s.blocks; block += part_blocks, ++part, ++row) {
    const u32 even = load_as<u32>(row->even), odd = load_as<u32>(row->odd), start = load_as<u32>(row->start);
    const std::uint8_t *codes = s.codes.p + part * 64, *stored = s.stored + part * s.stored_part;
    u32 first[4], second[4];  // of the block, or the two blocks, in each quarter
#pragma GCC unroll 4
    for (std::size_t g = 0; g < 4; ++g) {
      const quad d = dots_of_four<how>(s, codes, ahead, stored, even, odd, start);
      if constexpr (part_blocks <= 4) {
        const u32 ab = low_pairs(d.v[0], d.v[1]) + high_pairs(d.v[0], d.v[1]);
        const u32 cd = low_pairs(d.v[2], d.v[3]) + high_pairs(d.v[2], d.v[3]);
        first[g] = low_quads(ab, cd) + high_quads(ab, cd);
      } else {
        const u32 ab = pick_dwords<0x88>(d.v[0], d.v[1]) + pick_dwords<0xDD>(d.v[0], d.v[1]);
        const u32 cd = pick_dwords<0x88>(d.v[2], d.v[3]) + pick_dwords<0xDD>(d.v[2], d.v[3]);
        first[g] = pick_dwords<0x88>(ab, cd);
        second[g] = pick_dwords<0xDD>(ab, cd);
      }
    }
    quad dots[2] = {transposed_quarters(first)};
    if constexpr (part_blocks == 8) dots[1] = transposed_quarters(second);
    if constexpr (part_blocks == 2)
      dots[0] = {{dots[0].v[0] + dots[0].v[1], dots[0].v[2] + dots[0].v[3], u32{}, u32{}}};
    constexpr std::size_t halves = part_blocks == 8 ? 2 : 1;  // of a quarter
#pragma GCC unroll 8
    for (std::size_t b = 0; b < part_blocks; ++b)
      if (block + b < s.blocks) sum = rescaled<how>(s, *row, block, b, dots[b % halves].v[b / halves], sum);
  }
  return sum;
}

/// Block b of a part, interleaved columns. Even and odd k have sums of their own, so that neither waits for the other.
template <std::size_t blocks, read_ahead how, class Panel>  // of a part
UFP4_LANE u32 dots_of_lanes(const Panel& s, const gemv_part_of_row& row, std::size_t first, std::size_t b,
                            const std::uint8_t*& codes) {
  constexpr std::size_t groups = gemv_part / 8 / blocks;  // of 8 k in a block
  u32 even = broadcast(row.start[b * groups]), odd{};
#pragma GCC unroll 8
  for (std::size_t g = 0; g < groups; ++g) {
    const u32 dword = load_as<u32>(codes + g * 64);
    s.add_products(even, odd, dword, first + b, g, row.even + 4 * (b * groups + g), row.odd + 4 * (b * groups + g));
    prefetch_after<how>(odd, codes + g * 64 + gemv_lead);
  }
  codes += groups * 64;
  return even + odd;
}
/// Interleaved columns are lanes already.
template <std::size_t blocks, read_ahead how, class Panel>
f32 gemv_interleaved(const Panel& s, const gemv_part_of_row* row, f32 sum) {
  const std::uint8_t* codes = s.codes.p;
  std::size_t block = 0;
  for (; block + blocks <= s.blocks; block += blocks, ++row)
#pragma GCC unroll 8
    for (std::size_t b = 0; b < blocks; ++b)
      sum = rescaled<how>(s, *row, block, b, dots_of_lanes<blocks, how>(s, *row, block, b, codes), sum);
  for (std::size_t b = 0; block + b < s.blocks; ++b)
    sum = rescaled<how>(s, *row, block, b, dots_of_lanes<blocks, how>(s, *row, block, b, codes), sum);
  return sum;
}

template <features needs = features::all>
struct int8_gemv {
  static constexpr std::size_t tile_rows = 1, tile_cols = lanes;
  static bool takes(const gemm_job& job) {
    return job.out.rows == 1 && int8_fits(job) && !job.right.has_bytes() && job.block <= 32;
  }
  /// K of a panel. Its scales are decoded before its codes are multiplied, with few reads of codes from memory
  /// meanwhile: few scales at a time, but not fewer than scales_of decodes together. Shorter panels take more
  /// instructions.
  static std::size_t depth_of(const gemm_job& job) {
    const bool bytes = scale_bytes(job.right.q.format.scale) == 1;  // are decoded 32 together
    if (!prefetches_first_level()) return gemv_depth / (bytes && !job.right.interleaved() ? 1 : 2);
    return job.right.interleaved() ? gemv_depth : gemv_depth / (bytes && job.block == 16 ? 2 : 4);
  }
  /// Prefetches the first codes of the next panel, so that they come from memory while scales are decoded.
  static const std::uint8_t* prefetch_codes_for_decoding(const std::uint8_t* ahead) {
    constexpr std::size_t lines = 16;  // 10 to 32 are as good
#pragma GCC unroll 16
    for (std::size_t i = 0; i < lines; ++i) __builtin_prefetch(ahead + i * 64, 0, 2);
    return ahead + lines * 64;
  }
  static std::size_t parts(const gemm_job& job) { return (job.padded() + gemv_part - 1) / gemv_part; }
  static std::size_t left_bytes(const gemm_job& job, std::size_t rows) {
    return rows * parts(job) * sizeof(gemv_part_of_row);
  }

  static void pack_left(const gemm_job& job, std::size_t row, std::size_t, std::byte* out) {
    const quantized_source& q = job.left.q;
    const i8x16 table = low_bytes(q.format.grid.integer);
    pack_parts(
        job, out,
        [&](std::size_t block, std::size_t count, float* scale) {
          row_scales_of<needs & scale_features>(q, row, block, count, scale);
        },
        [&](std::size_t k) { return left_bytes_of<needs>(q, table, row, k); });
  }
  /// scales_at(block, count, out): scales of the row; bytes_at(k): 16 k of it, as left_bytes_of gives them.
  template <class Scales, class Bytes>
  static void pack_parts(const gemm_job& job, std::byte* out, const Scales& scales_at, const Bytes& bytes_at) {
    const auto offset = static_cast<std::uint8_t>(-integers_of(job.right.q.format).low);
    auto* part = reinterpret_cast<gemv_part_of_row*>(out);
    for (std::size_t k = 0; k < job.padded(); k += gemv_part, ++part) {
      *part = {};
      const std::size_t depth = job.padded() - k < gemv_part ? job.padded() - k : gemv_part;
      scales_at(k / job.block, depth / job.block, part->scale);
      for (std::size_t e = 0; e < depth; e += 16) {
        std::uint32_t bytes[4];
        store(bytes, bytes_at(k + e));
        for (std::size_t i = 0; i < 2; ++i) {
          __builtin_memcpy(part->even + e / 2 + 4 * i, bytes + 2 * i, 4);
          __builtin_memcpy(part->odd + e / 2 + 4 * i, bytes + 2 * i + 1, 4);
        }
        std::uint32_t& start = part->start[e / job.block * job.block / 8];
        if (e % job.block == 0) start = magic_bits(job);
        start -= weighted_sum(offset, load_as<i8x16>(bytes));
      }
    }
  }

  using loop = f32(const gemv_panel&, const gemv_part_of_row*, f32 sum);
  /// The order of interleaved columns is that of memory, which the hardware of processors but Zen 5 follows alone.
  template <read_ahead rows, read_ahead interleaved>
  static loop* loop_of(const gemm_job& job) {
    loop* loop = nullptr;
    const auto may_be = [&]<features length, std::size_t part_blocks>() {
      if constexpr (has(needs, length))
        if (job.block == gemv_part / part_blocks) loop = gemv_rows<part_blocks, rows, gemv_panel>;
      if constexpr (has(needs, length) && has(needs, features::prepacked))
        if (job.block == gemv_part / part_blocks && job.right.interleaved())
          loop = gemv_interleaved<part_blocks, interleaved, gemv_panel>;
    };
    may_be.template operator()<features::block_16, 8>();
    may_be.template operator()<features::block_32, 4>();
    return loop;
  }
  static std::size_t scratch_bytes(const gemm_job&, std::size_t) {
    return gemv_depth / 16 * lanes * 4 + staged_code_bytes(gemv_depth) + lanes * 4;
  }
  static void multiply(const gemm_job& job, const gemm_part& part, const std::byte* left, std::byte* scratch) {
    const quantized_source& q = job.right.q;
    auto* scale = reinterpret_cast<float*>(scratch);
    auto* staged = reinterpret_cast<std::uint8_t*>(scale + gemv_depth / 16 * lanes);
    auto* sums = reinterpret_cast<float*>(staged + staged_code_bytes(gemv_depth));
    gemv_panel s{};
    s.table = offset_table(q.format);
    s.magic = as_float(broadcast(magic_bits(job)));
    s.scale = scale;
    s.scale_bytes = scale_row_count(q) * static_cast<std::size_t>(scale_bytes(q.format.scale));
    const std::size_t most = depth_of(job);
    const bool streams = !job.right.interleaved() && !prefetches_first_level();
    loop* const multiply = prefetches_first_level() ? loop_of<read_ahead::first_level, read_ahead::first_level>(job)
                                                    : loop_of<read_ahead::second_level, read_ahead::none>(job);
    for (std::size_t j = 0; j < part.cols; j += lanes) {
      const std::size_t live = part.cols - j < lanes ? part.cols - j : lanes, col = part.col + j;
      f32 sum{};
      for (std::size_t k = 0; k < job.padded(); k += most) {
        const std::size_t depth = job.padded() - k < most ? job.padded() - k : most;
        s.blocks = depth / job.block;
        s.codes = codes_of<(needs & features::prepacked), gemv_part>(q, col, live, k, depth, staged);
        s.ahead = q.codes + (col + lanes) * (q.padded_cols / 2) + k * 8;
        if (streams) s.ahead = prefetch_codes_for_decoding(s.ahead);
        scales_of<(needs & (scale_features | features::prepacked))>(q, col, live, k / job.block, s.blocks, scale);
        s.scale_ahead = next_scales(q, col, k / job.block);
        const auto* row = reinterpret_cast<const gemv_part_of_row*>(left) + k / gemv_part;
        sum = multiply(s, row, sum);
      }
      store(sums, sum);
      store_sums<needs>(job, {part.row, 1, col, live}, sums, lanes);
    }
  }
};

template <features needs = features::all>
inline constexpr gemm_kernel gemm_int8_kernel =
    byte_kernel_of<streamed_gemm<int8_gemm<needs>>, needs>(isa::avx512, "gemm_int8_avx512", 4, 512, 256);

template <features needs = features::all>
inline constexpr gemm_kernel gemv_int8_kernel =
    byte_kernel_of<int8_gemv<needs>, needs>(isa::avx512, "gemv_int8_avx512", 4, 1, 128);
UFP4_END_REGION
