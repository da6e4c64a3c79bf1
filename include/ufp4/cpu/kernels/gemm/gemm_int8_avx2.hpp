// ufp4 - quantized_gemm in 8-bit integers with AVX2 and AVX-VNNI: exact block dot products, rescaled in binary32.
// SPDX-License-Identifier: Apache-2.0
//
// vpmaddubsw multiplies unsigned bytes (the right operand plus an offset that makes it so) by signed ones (the left)
// and adds neighbours in 16 bits, where a whole block is added up: takes() admits grids for which no lane can overflow.
// vpdpbusd, for processors with AVX-VNNI and no AVX-512, adds in 32 bits from the start, so any grid is taken.
//
// A wide left operand (int8) has products that do not fit 16 bits in so long a block: pairs_in_steps adds them up to 32
// bits after every 16 k. A wide right operand, for which no sum of two products fits, is only taken by vpdpbusd.
//
// The offset is corrected by -offset * sum(left), one number a row and block, to which the left panel adds magic_bits
// (gemm_integers.hpp). Then acc = fma(d, fl(sA * sB), acc) in block order: the bits of exact_blocks, in fast too.
//
// | left, a tile  | for each block: for each 16 k: 4 rows x 16 bytes; then 4 int32 (offset, magic); 4 binary32 scales |
// | right, a tile | for each block: for each 16 k: 4 quads x 2 groups of 8 columns x 4 k; then 2 x 8 binary32 scales  |
// | quads         | of 16 k: the even ones below 8, the even ones from 8 on, the odd ones below 8, those from 8 on;   |
// |               | in order where the right operand is wide                                                          |
#pragma once

#if defined(__x86_64__)

#include <ufp4/cpu/kernels/kernels_avx2.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX2)
namespace ufp4::cpu::detail::inline UFP4_CODE::avx2 {

using s16 = std::int16_t __attribute__((vector_size(32)));
using half_u8 = std::uint8_t __attribute__((vector_size(16)));
using half_u64 = std::uint64_t __attribute__((vector_size(16)));

UFP4_BINARY("x", half_u8, lookup_bytes, half_u8, half_u64, "vpshufb %2, %1, %0")
UFP4_BINARY("x", half_u64, sum_differences, half_u8, half_u8, "vpsadbw %2, %1, %0")
UFP4_BINARY("x", u32, add_pairs, s16, s16, "vpmaddwd %2, %1, %0")

/// vpmaddubsw. Such a class adds products of four unsigned bytes a column and four signed ones at `left` to two sums.
struct pairs_in_16_bits {
  static constexpr isa tier = isa::avx2;
  static constexpr const char* name = "gemm_int8_avx2";
  static constexpr bool in_steps = false;
  using sum = s16;
  static bool fits(const gemm_job& job) { return !job.right.is_wide() && half_blocks_fit_16_bits(job); }
  UFP4_LANE static void begin(sum (&)[2], u32) {}
  /// `first`: the sums begin with these. One statement, because separate ones are reordered so that registers run out.
  template <bool first>
  UFP4_LANE static void add(u8 right0, u8 right1, const std::byte* left, sum (&s)[2]) {
    f32 a;
    s16 p;
    if constexpr (first)
      asm volatile("vbroadcastss %5, %2\n\tvpmaddubsw %2, %3, %0\n\tvpmaddubsw %2, %4, %1"
                   : "=&x"(s[0]), "=&x"(s[1]), "=&x"(a)
                   : "x"(right0), "x"(right1), "m"(*bytes_of<4>(left)));
    else
      asm volatile(
          "vbroadcastss %6, %2\n\tvpmaddubsw %2, %4, %3\n\tvpaddw %3, %0, %0\n\t"
          "vpmaddubsw %2, %5, %2\n\tvpaddw %2, %1, %1"
          : "+x"(s[0]), "+x"(s[1]), "=&x"(a), "=&x"(p)
          : "x"(right0), "x"(right1), "m"(*bytes_of<4>(left)));
  }
  UFP4_LANE static void end_step(sum (&)[2]) {}
  UFP4_LANE static u32 end(sum s, u32 start) { return add_pairs(s, s16{} + std::int16_t{1}) + start; }
};

/// The same for longer blocks and larger integers: 16 k are added up in 16 bits, and these sums in 32.
struct pairs_in_steps {
  static constexpr isa tier = isa::avx2;
  static constexpr const char* name = "gemm_int8_steps_avx2";
  static constexpr bool in_steps = true;
  struct sum {
    s16 step;
    u32 total;
  };
  static bool fits(const gemm_job& job) { return !job.right.is_wide() && steps_fit_16_bits(job); }
  UFP4_LANE static void begin(sum (&s)[2], u32 start) { s[0].total = s[1].total = start; }
  template <bool first>
  UFP4_LANE static void add(u8 right0, u8 right1, const std::byte* left, sum (&s)[2]) {
    s16 both[2] = {s[0].step, s[1].step};
    pairs_in_16_bits::add<first>(right0, right1, left, both);
    s[0].step = both[0], s[1].step = both[1];
  }
  UFP4_LANE static void end_step(sum (&s)[2]) {
    for (sum& each : s) each.total += add_pairs(each.step, s16{} + std::int16_t{1});
  }
  UFP4_LANE static u32 end(const sum& s, u32) { return s.total; }
};

/// vpdpbusd. Processors with AVX-512 have another encoding, with which tests run the same kernel.
template <bool vex>
struct dots_in_32_bits {
  static constexpr isa tier = isa::avx_vnni;
  static constexpr const char* name = "gemm_int8_avx_vnni";
  static constexpr bool in_steps = false;
  using sum = u32;
  static bool fits(const gemm_job&) { return true; }
  UFP4_LANE static void begin(sum (&s)[2], u32 start) { s[0] = s[1] = start; }
  template <bool>
  UFP4_LANE static void add(u8 right0, u8 right1, const std::byte* left, sum (&s)[2]) {
    const u32 a = as_bits(load_broadcast(left));
    dots(s[0], right0, a);
    dots(s[1], right1, a);
  }
  UFP4_LANE static void dots(u32& s, u8 right, u32 left) {
    if constexpr (vex)
      asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(s) : "x"(right), "x"(left));
    else
      asm("%{evex%} vpdpbusd %2, %1, %0" : "+x"(s) : "x"(right), "x"(left));
  }
  UFP4_LANE static void end_step(sum (&)[2]) {}
  UFP4_LANE static u32 end(sum s, u32) { return s; }
};

/// The sizes of panels, the same for all dot products.
struct int8_panel_sizes {
  static constexpr std::size_t rows = 4, cols = 2 * lanes, depth = 1024;

  static std::size_t left_block(const gemm_job& job) { return rows * (job.block + 8); }
  static std::size_t right_block(const gemm_job& job) { return cols * (job.block + 4); }
  static std::size_t left_bytes(const gemm_job& job, std::size_t k) { return k / job.block * left_block(job); }
  static std::size_t right_bytes(const gemm_job& job, std::size_t k) { return k / job.block * right_block(job); }
};
template <features needs>
struct int8_panels : int8_panel_sizes {
  static void pack_left(const gemm_job& job, std::size_t row, std::size_t live, std::size_t k, std::size_t length,
                        std::byte* out) {
    for (std::size_t r = 0; r < rows; ++r) {
      if (r < live)
        pack_left_row(job, row + r, k, length, out, r);
      else
        for (std::size_t b = 0; b < length / job.block; ++b) {
          std::byte* block = out + b * left_block(job);
          for (std::size_t c = 0; c < job.block; c += 16) __builtin_memset(block + rows * c + 16 * r, 0, 16);
          __builtin_memset(block + rows * job.block + 4 * r, 0, 4);
          __builtin_memset(block + rows * (job.block + 4) + 4 * r, 0, 4);
        }
    }
  }

  /// 16 k of a row, as quads: even and odd ones apart, or in order.
  UFP4_LANE static half_u8 left_integers(const std::uint8_t* codes, std::size_t step, half_u8 table, bool wide,
                                         bool in_order) {
    constexpr half_u64 apart = {0x0E0C0A0806040200u, 0x0F0D0B0907050301u};
    constexpr half_u64 together = {0x0B030A0209010800u, 0x0F070E060D050C04u};
    if (wide) return in_order ? load_as<half_u8>(codes) : lookup_bytes(load_as<half_u8>(codes), apart);
    const std::uint64_t pairs = load_as<std::uint32_t>(codes) | std::uint64_t{load_as<std::uint32_t>(codes + step)}
                                                                    << 32;
    const half_u8 integers = lookup_bytes(table, half_u64{pairs, pairs >> 4} & 0x0F0F0F0F0F0F0F0Full);
    return in_order ? lookup_bytes(integers, together) : integers;
  }

  /// Row r of a tile.
  static void pack_left_row(const gemm_job& job, std::size_t row, std::size_t k, std::size_t length, std::byte* out,
                            std::size_t r) {
    const quantized_source& q = job.left.q;
    const bool wide = is_wide_in<needs>(q.format), in_order = is_wide_in<needs>(job.right.q.format);
    const int amax = integers_of(q.format).amax(), offset = -integers_of(job.right.q.format).low;
    half_u8 table{};
    for (std::size_t c = 0; c < 16; ++c) table[c] = static_cast<std::uint8_t>(q.format.grid.integer[c]);
    const half_u8 above = half_u8{} + static_cast<std::uint8_t>(amax);  // makes the integers unsigned, to be added up
    const std::uint32_t magic = magic_bits(job);
    const std::uint8_t* codes = q.codes + q.code_index(row, k);
    const std::size_t step = q.word_step();
    for (std::size_t b = 0; b < length / job.block; ++b) {
      std::byte* block = out + b * left_block(job);
      half_u64 sum{};
      for (std::size_t c = 0; c < job.block; c += 16, codes += wide ? 16 : 2 * step) {
        const half_u8 integers = left_integers(codes, step, table, wide, in_order);
        sum += sum_differences(integers + above, half_u8{});
        store(block + rows * c + 16 * r, integers);
      }
      const auto total = static_cast<std::uint32_t>(sum[0] + sum[1]) -
                         static_cast<std::uint32_t>(amax) * static_cast<std::uint32_t>(job.block);
      store(block + rows * job.block + 4 * r, magic - static_cast<std::uint32_t>(offset) * total);
    }
    float scale[64];
    const std::size_t blocks = length / job.block;
    for (std::size_t first = 0; first < blocks; first += 64) {
      const std::size_t count = blocks - first < 64 ? blocks - first : 64;
      row_scales<needs & scale_features>(job.left, row, k / job.block + first, count, scale);
      for (std::size_t b = 0; b < count; ++b)
        store(out + (first + b) * left_block(job) + rows * (job.block + 4) + 4 * r, scale[b]);
    }
  }

  static void pack_right(const gemm_job& job, std::size_t col, std::size_t live, std::size_t k, std::size_t length,
                         std::byte* out) {
    const quantized_source& q = job.right.q;
    const int offset = -integers_of(q.format).low;
    u8 table{};
    for (std::size_t c = 0; c < 32; ++c) table[c] = static_cast<std::uint8_t>(q.format.grid.integer[c % 16] + offset);
    const u32 mask = broadcast(0x0F0F0F0Fu);
    const int shift = __builtin_ctzll(job.block / 8);  // from dwords to blocks
    for (std::size_t half = 0; half < cols; half += lanes) {
      const std::size_t first = live > half ? half : 0;  // columns that C does not have repeat others
      std::byte* group = out + 4 * half;
      if (is_wide_in<needs>(q.format))
        wide_columns(job, col + first, live - first, k, length, group);
      else
        each_codes(q, col + first, live - first, k, length,
                   [&](std::size_t i, u32 codes) __attribute__((always_inline)) {
                     std::byte* to = group + i / 2 * 256 + (i >> shift) * (4 * cols) + i % 2 * 64;
                     store(to, shuffle_bytes(table, codes & mask));
                     store(to + 128, shuffle_bytes(table, codes >> 4 & mask));
                   });
      column_scales<(needs & (scale_features | features::prepacked))>(job.right, col + first, live - first,
                                                                      k / job.block, length / job.block,
                                                                      group + cols * job.block, right_block(job));
    }
  }

  /// Eight columns of a wide operand: four k of each column at a time, in order, with the offset.
  static void wide_columns(const gemm_job& job, std::size_t col, std::size_t live, std::size_t k, std::size_t length,
                           std::byte* out) {
    const quantized_source& q = job.right.q;
    const std::uint8_t* row[lanes];
    for (std::size_t j = 0; j < lanes; ++j) row[j] = q.codes + q.code_index(lane_column(col, live, j), k);
    for (std::size_t b = 0; b < length / job.block; ++b)
      for (std::size_t i = 0; i < job.block; i += 16) {
        u32 dwords[4];
        load_dwords(row, b * job.block + i, dwords);
        for (std::size_t d = 0; d < 4; ++d)
          store(out + b * right_block(job) + cols * i + 4 * cols * d, dwords[d] ^ 0x80808080u);
      }
  }
};

template <class Dots>
struct int8_tiles : int8_panel_sizes {
  static void multiply(const gemm_job& job, const std::byte* left, const std::byte* right, std::size_t live,
                       std::size_t length, float* acc, std::size_t stride) {
    (live == 1   ? multiply_rows<1>
     : live == 2 ? multiply_rows<2>
                 : multiply_rows<4>)(job, left, right, length / job.block, acc, stride);
  }

  /// Sixteen k of every row; `first`: of a block.
  template <bool first, std::size_t height>
  UFP4_LANE static void add_products(const std::byte* left, const std::byte* right,
                                     typename Dots::sum (&sum)[height][2]) {
#pragma GCC unroll 4
    for (std::size_t quad = 0; quad < 4; ++quad) {
      const u8 b0 = load_as<u8>(right + 64 * quad), b1 = load_as<u8>(right + 64 * quad + 32);
#pragma GCC unroll 4
      for (std::size_t r = 0; r < height; ++r) {
        const std::byte* a = left + 16 * r + 4 * quad;
        if ((first || Dots::in_steps) && quad == 0)
          Dots::template add<true>(b0, b1, a, sum[r]);
        else
          Dots::template add<false>(b0, b1, a, sum[r]);
      }
    }
#pragma GCC unroll 4
    for (std::size_t r = 0; r < height; ++r) Dots::end_step(sum[r]);
  }

  /// One or two rows keep their sums in registers over all blocks. Four have no registers left for that and use the
  /// cache; they also prefetch the tile that is multiplied after theirs.
  template <std::size_t height>
  static void multiply_rows(const gemm_job& job, const std::byte* left, const std::byte* right, std::size_t count,
                            float* acc, std::size_t stride) {
    const std::size_t block = job.block, next = left_bytes(job, job.padded());
    const f32 magic = as_float(broadcast(magic_bits(job)));
    constexpr bool in_registers = height <= 2;
    f32 kept[height][2];
#pragma GCC unroll 2
    for (std::size_t r = 0; in_registers && r < height; ++r)
#pragma GCC unroll 2
      for (std::size_t c = 0; c < 2; ++c) kept[r][c] = load(acc + r * stride + c * lanes);
    for (std::size_t b = 0; b < count; ++b) {
      if constexpr (!in_registers)
        for (std::size_t i = 0; i < rows * (block + 8); i += 64) __builtin_prefetch(left + next + i);
      const std::byte *row = left + rows * block, *column = right + cols * block;
      typename Dots::sum sum[height][2];
#pragma GCC unroll 4
      for (std::size_t r = 0; r < height; ++r) Dots::begin(sum[r], as_bits(load_broadcast(row + 4 * r)));
      add_products<true>(left, right, sum);
      for (std::size_t k = 16; k < block; k += 16) add_products<false>(left + rows * k, right + 16 * k, sum);
      const f32 scale[2] = {load_as<f32>(column), load_as<f32>(column + 32)};
#pragma GCC unroll 4
      for (std::size_t r = 0; r < height; ++r) {
        const u32 start = as_bits(load_broadcast(row + 4 * r));
        const f32 by = load_broadcast(row + 4 * rows + 4 * r);
#pragma GCC unroll 2
        for (std::size_t c = 0; c < 2; ++c) {
          const f32 d = as_float(Dots::end(sum[r][c], start)) - magic, t = rounded(scale[c] * by);
          float* at = acc + r * stride + c * lanes;
          if constexpr (in_registers)
            kept[r][c] = fma(d, t, kept[r][c]);
          else
            store(at, fma(d, t, load(at)));
        }
      }
      left += rows * (block + 8);
      right += cols * (block + 4);
    }
#pragma GCC unroll 2
    for (std::size_t r = 0; in_registers && r < height; ++r)
#pragma GCC unroll 2
      for (std::size_t c = 0; c < 2; ++c) store(acc + r * stride + c * lanes, kept[r][c]);
  }
};

template <class Dots, features needs = features::all>
struct int8_gemm : int8_panels<needs> {
  static bool takes(const gemm_job& job) { return int8_fits(job) && Dots::fits(job); }
  static constexpr auto multiply = &int8_tiles<Dots>::multiply;
};

template <class Dots, features needs = features::all>
inline constexpr gemm_kernel int8_kernel =
    wide_kernel_of<blocked_gemm<int8_gemm<Dots, needs>, needs & stored_features>, needs>(Dots::tier, Dots::name, 4, 512,
                                                                                         128);

}  // namespace ufp4::cpu::detail::inline UFP4_CODE::avx2
UFP4_END_TARGET

#endif
