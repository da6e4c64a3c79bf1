// ufp4 - quantized_gemm in integers for AVX2 and NEON: panels of the operands, and the loops over them.
// SPDX-License-Identifier: Apache-2.0
//
// Exact block dot products, rescaled in binary32: they start at magic_bits (gemm_integers.hpp) and so end as a binary32
// without a conversion. Then acc = fma(d, fl(sA * sB), acc) in block order: the bits of exact_blocks, also in fast.
// Either operand may have byte elements (int8) where the sums of its products fit.
//
// A tile has four rows by two vectors of columns. In a panel a block is its parts of 16 k and then its scales. A part
// has four quads of k: the even ones below 8, the even ones from 8 on, the odd ones below 8, those from 8 on; in order
// where the right operand has byte elements. A unit is a row of C, or two.
//
// A class of dot products, which is its layout or names it as `layout`:
//
// | fits(job)                      | whether no sum overflows                                                        |
// | begin(sum, start)              | the dot products of a unit and the tile's columns; end(sum, start, c): as bits  |
// | add<first>(sums, left, right)  | of a part; first_begins: where it is the first of a block the sums begin there |
//
// A layout:
//
// | left_part, right_part        | bytes of a part of four rows, of the tile's columns                            |
// | left_ends, right_ends          | bytes after a block's parts                                                    |
// | offset(job), corrected_start   | of the integers of the right operand; what it needs to be stored for a row      |
// | put_left(at, r, v)             | a part of row r                                                                |
// | put_right(at, i, a, b)         | quads i and i + 2 (i = 0, 1) of a vector of columns; at: column_bytes a column  |
// | unit_rows, unit_registers      | rows of C in a unit, and the registers that hold it                             |
// | start, by_rows(ends, u)        | where a unit's dot products start; its scales, as all its registers have them   |
#include <ufp4/cpu/kernels/gemm/gemm_f32_lanes.hpp>

UFP4_BEGIN_LANES()

#if UFP4_LANE_COUNT != 0  // else a tier of NEON, and they share this
using half_u64 = std::uint64_t __attribute__((vector_size(16)));
using half_u8 = std::uint8_t __attribute__((vector_size(16)));
#if defined(__x86_64__)
UFP4_BINARY("x", half_u8, lookup_bytes, half_u8, half_u8, "vpshufb %2, %1, %0")
#endif

template <class Layout, features needs>
struct int8_panels {
  static constexpr std::size_t rows = 4, cols = 2 * lanes, depth = 1024;

  static std::size_t left_codes(const gemm_job& job) { return job.block / 16 * Layout::left_part; }
  static std::size_t right_codes(const gemm_job& job) { return job.block / 16 * Layout::right_part; }
  static std::size_t left_block(const gemm_job& job) { return left_codes(job) + Layout::left_ends; }
  static std::size_t right_block(const gemm_job& job) { return right_codes(job) + Layout::right_ends; }
  static std::size_t left_bytes(const gemm_job& job, std::size_t k) { return k / job.block * left_block(job); }
  static std::size_t right_bytes(const gemm_job& job, std::size_t k) { return k / job.block * right_block(job); }

  static void pack_left(const gemm_job& job, std::size_t row, std::size_t live, std::size_t k, std::size_t length,
                        std::byte* out) {
    if (live < rows) __builtin_memset(out, 0, left_bytes(job, length));
    for (std::size_t r = 0; r < live; ++r) pack_left_row(job, row + r, k, length, out, r);
  }

  /// A part of a row.
  UFP4_LANE static half_u8 left_integers(const std::uint8_t* codes, std::size_t step, half_u8 table, bool wide,
                                         bool in_order) {
    constexpr half_u8 apart = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
    constexpr half_u8 together = {0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15};
    if (wide) return in_order ? load_as<half_u8>(codes) : lookup_bytes(load_as<half_u8>(codes), apart);
    const std::uint64_t pairs = load_as<std::uint32_t>(codes) | std::uint64_t{load_as<std::uint32_t>(codes + step)}
                                                                    << 32;
    const half_u64 nibbles = half_u64{pairs, pairs >> 4} & 0x0F0F0F0F0F0F0F0Full;
    const half_u8 integers = lookup_bytes(table, reinterpret_cast<half_u8>(nibbles));
    return in_order ? lookup_bytes(integers, together) : integers;
  }

  /// Row r of a tile.
  static void pack_left_row(const gemm_job& job, std::size_t row, std::size_t k, std::size_t length, std::byte* out,
                            std::size_t r) {
    const quantized_source& q = job.left.q;
    const bool wide = has_bytes_in<needs>(q.format), in_order = has_bytes_in<needs>(job.right.q.format);
    half_u8 table{};
    for (std::size_t c = 0; c < 16; ++c) table[c] = static_cast<std::uint8_t>(q.format.grid.integer[c]);
    const std::uint8_t* codes = q.codes + q.code_index(row, k);
    const std::size_t step = q.word_step(), blocks = length / job.block;
    typename Layout::corrected_start start(job);
    std::byte* at = out;
    for (std::size_t b = 0; b < blocks; ++b, at += Layout::left_ends) {
      for (std::size_t c = 0; c < job.block; c += 16, codes += wide ? 16 : 2 * step, at += Layout::left_part) {
        const half_u8 integers = left_integers(codes, step, table, wide, in_order);
        start.add(integers);
        Layout::put_left(at, r, integers);
      }
      start.put(at, r);
    }
    float scale[64];
    for (std::size_t first = 0; first < blocks; first += 64) {
      const std::size_t count = blocks - first < 64 ? blocks - first : 64;
      row_scales<needs & scale_features>(job.left, row, k / job.block + first, count, scale);
      for (std::size_t b = 0; b < count; ++b)
        Layout::put_left_scale(out + (first + b) * left_block(job) + left_codes(job), r, scale[b]);
    }
  }

  static void pack_right(const gemm_job& job, std::size_t col, std::size_t live, std::size_t k, std::size_t length,
                         std::byte* out) {
    const quantized_source& q = job.right.q;
    std::uint8_t integer[16];
    for (std::size_t c = 0; c < 16; ++c)
      integer[c] = static_cast<std::uint8_t>(q.format.grid.integer[c] + Layout::offset(job));
    const u8 table = load_nibble_map(integer);
    const u32 mask = broadcast(0x0F0F0F0Fu);
    const int shift = __builtin_ctzll(job.block / 8);  // from dwords to blocks
    for (std::size_t c = 0; c < cols; c += lanes) {
      const std::size_t first = live > c ? c : 0;  // columns that C does not have repeat others
      std::byte* const group = out + Layout::column_bytes * c;
      if (has_bytes_in<needs>(q.format))
        byte_columns(job, col + first, live - first, k, length, group);
      else
        each_codes(
            q, col + first, live - first, k, length, [&](std::size_t i, u32 codes) __attribute__((always_inline)) {
              std::byte* at = group + i / 2 * Layout::right_part + (i >> shift) * Layout::right_ends;
              Layout::put_right(at, i % 2, shuffle_bytes(table, codes & mask), shuffle_bytes(table, codes >> 4 & mask));
            });
      std::byte* scales = out + right_codes(job) + c * (Layout::right_ends / cols);
      column_scales<(needs & (scale_features | features::prepacked))>(
          job.right, col + first, live - first, k / job.block, length / job.block, scales, right_block(job));
      if constexpr (Layout::unit_rows == 2)
        for (std::size_t b = 0; b < length / job.block; ++b) Layout::spread_scales(scales + b * right_block(job));
    }
  }

  /// A vector of columns of an operand of byte elements.
  static void byte_columns(const gemm_job& job, std::size_t col, std::size_t live, std::size_t k, std::size_t length,
                           std::byte* out) {
    const quantized_source& q = job.right.q;
    const std::uint8_t* row[lanes];
    for (std::size_t j = 0; j < lanes; ++j) row[j] = q.codes + q.code_index(lane_column(col, live, j), k);
    const std::uint32_t flip = Layout::offset(job) == 0 ? 0 : 0x80808080u;
    for (std::size_t i = 0; i < length; out += Layout::right_ends)
      for (const std::size_t end = i + job.block; i < end; i += 16, out += Layout::right_part) {
        u32 quad[4];
        load_dwords(row, i, quad);
        Layout::put_right(out, 0, quad[0] ^ flip, quad[2] ^ flip);
        Layout::put_right(out, 1, quad[1] ^ flip, quad[3] ^ flip);
      }
  }
};

/// The sums of a unit in 32 bits, which any grid fits.
template <std::size_t registers>
struct sums_of_32_bits {
  static constexpr bool first_begins = false;
  struct sum {
    u32 v[registers];
  };

  static bool fits(const gemm_job&) { return true; }
  UFP4_LANE static void begin(sum& s, u32 start) {
#pragma GCC unroll 4
    for (u32& v : s.v) v = start;
  }
  UFP4_LANE static u32 end(const sum& s, u32, std::size_t c) { return s.v[c]; }
};

/// Units of one row, in two registers of columns. No offset: dot products start at magic_bits.
struct row_units {
  static constexpr std::size_t left_ends = 16, right_ends = 8 * lanes, unit_rows = 1, unit_registers = 2;

  struct corrected_start {
    explicit corrected_start(const gemm_job&) {}
    void add(half_u8) {}
    void put(std::byte*, std::size_t) {}
  };
  static int offset(const gemm_job&) { return 0; }
  UFP4_LANE static u32 start(const std::byte*, std::size_t, u32 magic) { return magic; }
  UFP4_LANE static void put_left_scale(std::byte* ends, std::size_t r, float s) { store(ends + 4 * r, s); }
  UFP4_LANE static f32 by_rows(const std::byte* ends, std::size_t r) { return load_broadcast(ends + 4 * r); }
  UFP4_LANE static f32 load_c(const float* acc, std::size_t stride, std::size_t r, std::size_t c) {
    return load(acc + r * stride + c * lanes);
  }
  UFP4_LANE static void store_c(float* acc, std::size_t stride, std::size_t r, std::size_t c, f32 v) {
    store(acc + r * stride + c * lanes, v);
  }
};
/// Bytes. Left: quads of a row. Right: each quad of all columns.
struct quad_layout : row_units {
  static constexpr std::size_t left_part = 4 * 16, right_part = 32 * lanes, column_bytes = 4;

  UFP4_LANE static void put_left(std::byte* at, std::size_t r, half_u8 v) { store(at + 16 * r, v); }
  UFP4_LANE static void put_right(std::byte* at, std::size_t i, u32 a, u32 b) {
    store(at + 8 * lanes * i, a);
    store(at + 8 * lanes * (2 + i), b);
  }
};
#else
using namespace neon;

/// sum[p].v[c] += the products of 16 bytes of pair p of rows and pair c of columns.
template <class Sum, std::size_t pairs, class Add>
UFP4_LANE void add_matrices(Sum (&sum)[pairs], const std::byte* left, const std::byte* right, const Add& add) {
  u8 b[4];
#pragma GCC unroll 4
  for (std::size_t c = 0; c < 4; ++c) b[c] = load_as<u8>(right + 16 * c);
#pragma GCC unroll 4
  for (std::size_t p = 0; p < pairs; ++p) {
    const u8 a = load_as<u8>(left + 16 * p);
#pragma GCC unroll 4
    for (std::size_t c = 0; c < 4; ++c) add(sum[p].v[c], a, b[c]);
  }
}
#endif

template <class Dots>
struct int8_tiles {
  using panels = int8_panels<typename Dots::layout, features::none>;  // their sizes

  static void multiply(const gemm_job& job, const std::byte* left, const std::byte* right, std::size_t live,
                       std::size_t length, float* acc, std::size_t stride) {
    if (live <= Dots::unit_rows) return multiply_units<1>(job, left, right, length, acc, stride);
    if constexpr (lanes == 8)
      if (live == 2) return multiply_units<2>(job, left, right, length, acc, stride);
    multiply_units<panels::rows / Dots::unit_rows>(job, left, right, length, acc, stride);
  }

  /// Units keep their sums in registers over all blocks; AVX2 has none left for those of four rows, which use the cache
  /// and prefetch the tile that is multiplied after theirs.
  template <std::size_t units>
  static void multiply_units(const gemm_job& job, const std::byte* left, const std::byte* right, std::size_t length,
                             float* acc, std::size_t stride) {
    constexpr std::size_t registers = Dots::unit_registers;
    constexpr bool in_registers = lanes == 4 || units <= 2;
    const std::size_t block = job.block, codes = panels::left_codes(job), next = panels::left_bytes(job, job.padded());
    const u32 magic = broadcast(magic_bits(job));
    f32 kept[units][registers];
#pragma GCC unroll 4
    for (std::size_t u = 0; in_registers && u < units; ++u)
#pragma GCC unroll 4
      for (std::size_t c = 0; c < registers; ++c) kept[u][c] = Dots::load_c(acc, stride, u, c);
    for (std::size_t k = 0; k < length; k += block) {
      if constexpr (!in_registers)
        for (std::size_t i = 0; i < panels::left_block(job); i += 64) __builtin_prefetch(left + next + i);
      const std::byte* const ends = left + codes;
      typename Dots::sum sum[units];
#pragma GCC unroll 4
      for (std::size_t u = 0; u < units; ++u) Dots::begin(sum[u], Dots::start(ends, u, magic));
      Dots::template add<Dots::first_begins>(sum, left, right);
      for (std::size_t i = 16; i < block; i += 16) {
        left += Dots::left_part, right += Dots::right_part;
        Dots::template add<false>(sum, left, right);
      }
      left += Dots::left_part, right += Dots::right_part;
#pragma GCC unroll 4
      for (std::size_t u = 0; u < units; ++u) {
        const u32 start = Dots::start(ends, u, magic);
        const f32 by = Dots::by_rows(ends, u);
#pragma GCC unroll 4
        for (std::size_t c = 0; c < registers; ++c) {
          const f32 d = as_float(Dots::end(sum[u], start, c)) - as_float(magic);
          const f32 t = rounded(load_as<f32>(right + 4 * lanes * c) * by);
          if constexpr (in_registers)
            kept[u][c] = fma(d, t, kept[u][c]);
          else
            Dots::store_c(acc, stride, u, c, fma(d, t, Dots::load_c(acc, stride, u, c)));
        }
      }
      left += Dots::left_ends, right += Dots::right_ends;
    }
#pragma GCC unroll 4
    for (std::size_t u = 0; in_registers && u < units; ++u)
#pragma GCC unroll 4
      for (std::size_t c = 0; c < registers; ++c) Dots::store_c(acc, stride, u, c, kept[u][c]);
  }
};

template <class Dots, features needs = features::all>
struct int8_gemm : int8_panels<typename Dots::layout, needs> {
  static bool takes(const gemm_job& job) { return int8_fits(job) && Dots::fits(job); }
  static constexpr auto multiply = &int8_tiles<Dots>::multiply;
};

template <class Dots, features needs = features::all>
inline constexpr gemm_kernel int8_kernel =
    byte_kernel_of<blocked_gemm<int8_gemm<Dots, needs>, needs & stored_features>, needs>(Dots::tier, Dots::name,
                                                                                         Dots::tile_depth, 512, 128);
UFP4_END_LANES
