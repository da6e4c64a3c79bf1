// ufp4 - quantized_gemm with BFMMLA: folded_bf16, and fast where all operands are bf16 and no integer kernel fits.
// SPDX-License-Identifier: Apache-2.0
//
// BFMMLA multiplies two rows by two columns over 4 k. A register of sums holds what one of pair_layout does; sixteen of
// them are a tile of 8 x 8, and as many as hide the instruction's latency on a core with four multipliers.
//
// Its roundings (Arm ARM, BFMatMulAdd, BFDotAdd, with FPCR.EBF = 0, which exact_environment sets), two for each sum:
//
//     sum = ro(sum + ro(ro(a0 b0) + ro(a1 b1))), then the same of a2 b2 and a3 b3
//
// ro being "to odd": off by less than a last place, 2^-23 of the result; subnormal operands and results become zeros.
// Why that is within the bound of numerics 6, |C - E| <= (Kp + 6) u S + Kp 2^-126, u = 2^-24, S = sum|a||b|:
// | products | 16 bits of 24: exact                                                                                  |
// | pairs    | 2u of each: 2u S in all                                                                               |
// | sums     | a panel of d <= 1024 adds d / 2 pairs to +0, the first exactly: (d / 2 - 1) 2u S at most. With the    |
// |          | pairs d u S, and second-order terms of less than d^2 u^2 S <= u S / 16                                |
// | panels   | begin at +0 and are added up to nearest: u S each after the first, instead of the d u S they may cost |
// | the rest | scaled_result, bias and beta: 5 u of the 6                                                            |
// | folding  | makes S larger by 2^-7 at most, which adds 9 u to the 1024 u and the u of each panel; operands off by |
// |          | 2^-8 / (1 + 2^-8) each leave 512 u of the (2^-7 + 2^-16) S that folded_bf16 may be off besides        |
// | flushed  | each less than 2^-126, at most two in a pair: both products; one of them and the sum; the pair's or   |
// |          | the sum. So 2^-126 for each k                                                                         |
// | overflow | at 2^128, as to nearest                                                                               |
// Sums that are binary32 numbers are not rounded. Subnormal operands, which the flushed row does not cover, are
// multiplied by fma: a tile looks at flags of its panels. With FPCR.EBF set there would be one rounding of two.
//
// An unquantized operand of bf16 is multiplied as it is, by value * scale of the other side. e8m0 scales are accepted
// there: at the lower end of their range the products are subnormal bf16 numbers, which fma multiplies; beyond the
// upper end they become infinite, and store_part computes the sums again.
//
// fast uses SMMLA where that takes the job. For 2 x 2 of C a block of 16 takes two SMMLA and three operations that
// rescale, or four BFMMLA; a block of 32 four and three, or eight; all cost the same on the cores that have both. Bytes
// also need half the memory, are decoded without a product each and give the bits of exact_blocks.
//
// Panels of 8 rows or columns, in parts of 256 k: 64 bytes whose first four tell whether an operand is subnormal; then
// for every 4 k and pair of rows 16 bytes, a row's 4 k after the other's.
#pragma once

#include <ufp4/cpu/kernels/gemm/gemm_int8_neon.hpp>

#undef UFP4_LANES
#define UFP4_LANES neon_bf16
#include <ufp4/cpu/kernels/gemm/int8_lanes.hpp>

UFP4_BEGIN_LANES()

/// Four binary32 numbers as bf16, to nearest even; subnormal results are kept (unlike BFMMLA's).
UFP4_UNARY("w", half_u16, to_bf16, f32, "bfcvtn %0.4h, %1.4s")

struct bfmmla_gemm {
  static constexpr std::size_t rows = 8, cols = 8, depth = 1024;
  static constexpr std::size_t part = 256, header = 64, quad = rows * 4 * 2;  ///< k; bytes; bytes of 4 k

  static bool takes(const gemm_job& job) {
    if (job.block % 8 != 0 || job.mode == accumulate::exact_blocks || int8_fits(job)) return false;
    return job.mode == accumulate::folded_bf16 || (is_bf16(job.left) && is_bf16(job.right)) ||
           is_mixed_product(job.left, job.right) || is_mixed_product(job.right, job.left);
  }
  /// Products with e8m0 scales are multiples of 2^-127 times the grid's unit, and subnormal bf16 ones of 2^-133.
  static bool is_mixed_product(const gemm_operand& unquantized, const gemm_operand& weights) {
    return bf16_terms(unquantized) == 1 && weights.exact() && folds_exactly(weights.q) &&
           (weights.q.format.scale != scale_kind::e8m0 || weights.q.format.grid.unit >= 0x1p-6f);
  }
  /// Scales near the ends of e8m0's range would take products out of bf16's.
  static bool is_bf16(const gemm_operand& side) {
    return side.exact() && folds_exactly(side.q) && side.q.format.scale != scale_kind::e8m0;
  }

  static std::size_t bytes_of(std::size_t k) { return (k + 15) / 16 * 4 * quad + (k + part - 1) / part * header; }
  static std::size_t left_bytes(const gemm_job&, std::size_t k) { return bytes_of(k); }
  static std::size_t right_bytes(const gemm_job&, std::size_t k) { return bytes_of(k); }

  // ---- Packing: both sides alike, row by row.

  static void pack_left(const gemm_job& job, std::size_t row, std::size_t live, std::size_t k, std::size_t length,
                        std::byte* out) {
    pack(job.left, job.block, row, live, k, length, out);
  }
  static void pack_right(const gemm_job& job, std::size_t col, std::size_t live, std::size_t k, std::size_t length,
                         std::byte* out) {
    pack(job.right, job.block, col, live, k, length, out);
  }

  static void pack(const gemm_operand& side, std::size_t block, std::size_t row, std::size_t live, std::size_t k,
                   std::size_t length, std::byte* out) {
    const grid_table table = load_grid((side.is_quantized ? side.q.format.grid : grid4{}).value);
    for (std::size_t p = 0; p < length; p += part) {
      const std::size_t count = length - p < part ? length - p : part;
      std::byte* at = out + bytes_of(p);
      bool tiny = false;
      for (std::size_t r = 0; r < rows; ++r) {
        std::byte* to = at + header + r / 2 * 16 + r % 2 * 8;
        if (r >= live)
          for (std::size_t i = 0; i < (count + 15) / 16 * 4; ++i) store(to + i * quad, std::uint64_t{0});
        else if (side.is_quantized)
          tiny = pack_codes(side, table, block, row + r, k + p, count, to) || tiny;
        else
          tiny = pack_values(side.unquantized, row + r, k + p, count, to) || tiny;
      }
      store(at, std::uint32_t{tiny});
    }
  }

  /// True where a product with a scale may be subnormal.
  static bool pack_codes(const gemm_operand& side, const grid_table& values, std::size_t block, std::size_t row,
                         std::size_t k, std::size_t count, std::byte* to) {
    const quantized_source& q = side.q;
    float scale[part / 8 + 2 * lanes] = {};
    row_scales(side, row, k / block, count / block, scale);
    const grid_table table = values;           // of which the compiler knows that no store below changes it
    const int shift = __builtin_ctzll(block);  // from k to blocks
    const std::size_t step = q.word_step();    // from 8 codes to the next 8
    const std::uint8_t* codes = q.codes + q.code_index(row, k);
    for (std::size_t i = 0; i < count; i += 16, codes += 2 * step, to += 4 * quad) {
      const bool half = count - i < 16;  // a last block of 8: the scale after it is 0
      const std::uint64_t second = half ? 0 : load_as<std::uint32_t>(codes + step);
      f32 value[4];
      const std::uint64_t sixteen = load_as<std::uint32_t>(codes) | second << 32;
      decode16(table, &sixteen, value);
      const f32 by[2] = {load_broadcast(scale + (i >> shift)), load_broadcast(scale + ((i + 8) >> shift))};
#pragma GCC unroll 4
      for (std::size_t j = 0; j < 4; ++j) store(to + j * quad, to_bf16(rounded(value[j] * by[j / 2])));
    }
    if (!any_subnormal(q.format, scale, count / block)) return false;
    return q.format.scale != scale_kind::e8m0 || !blocks_fit(q, row, 1, k, count);  // blocks of zeros: 2^-127
  }
  /// `scale` goes on with zeros.
  static bool any_subnormal(const format_spec& format, const float* scale, std::size_t count) {
    const float least = ufp4::detail::to_float(range_of(format).low);
    u32 tiny{};
    for (std::size_t b = 0; b < count; b += lanes) {
      const f32 s = load(scale + b), product = rounded(s * least);
      tiny |= reinterpret_cast<u32>((as_bits(product) & 0x7FFFFFFFu) < min_normal_bits) &
              reinterpret_cast<u32>((as_bits(s) & 0x7FFFFFFFu) != 0u);
    }
    return (tiny[0] | tiny[1] | tiny[2] | tiny[3]) != 0;
  }

  static bool pack_values(const quantize_job& unquantized, std::size_t row, std::size_t k, std::size_t count,
                          std::byte* to) {
    float value[part + 8] = {};
    load_unquantized(unquantized, {row, 1, k, count}, value);
    bool tiny = false;
    for (std::size_t i = 0; i < (count + 15) / 16 * 16; i += 4, to += quad) {
      const half_u16 v = to_bf16(load(value + i));
      for (std::size_t j = 0; j < 4; ++j) tiny = tiny || ((v[j] & 0x7FFFu) != 0 && (v[j] & 0x7FFFu) < 0x80u);
      store(to, v);
    }
    return tiny;
  }

  // ---- The register tile.

  static void multiply(const gemm_job&, const std::byte* left, const std::byte* right, std::size_t live,
                       std::size_t length, float* acc, std::size_t stride) {
    std::uint32_t tiny = 0;
    for (std::size_t p = 0; p < length; p += part)
      tiny |= load_as<std::uint32_t>(left + bytes_of(p)) | load_as<std::uint32_t>(right + bytes_of(p));
    if (tiny != 0) return multiply_by_fma(left, right, live, length, acc, stride);
    if (live <= 2) return multiply_pairs<1>(left, right, length, acc, stride);
    if (live <= 4) return multiply_pairs<2>(left, right, length, acc, stride);
    return multiply_pairs<4>(left, right, length, acc, stride);
  }

  /// `pairs` of rows, with as many sums for each element of C as make sixteen registers.
  template <std::size_t pairs>
  static void multiply_pairs(const std::byte* left, const std::byte* right, std::size_t length, float* acc,
                             std::size_t stride) {
    constexpr std::size_t ways = 4 / pairs;
    struct unit {
      f32 v[4];
    } sum[ways][pairs] = {};
    // Volatile keeps the order of the statements, in which no addition waits for the one before.
    const auto add = [](f32& c, u8 a, u8 b) __attribute__((always_inline)) {
      asm volatile("bfmmla %0.4s, %1.8h, %2.8h" : "+w"(c) : "w"(a), "w"(b));
    };
    for (std::size_t p = 0; p < length; p += part) {
      const std::size_t count = length - p < part ? length - p : part;
      left += header, right += header;
      for (std::size_t k = 0; k < count; k += 16)
#pragma GCC unroll 4
        for (std::size_t i = 0; i < 4; ++i, left += quad, right += quad) add_matrices(sum[i % ways], left, right, add);
    }
#pragma GCC unroll 4
    for (std::size_t r = 0; r < pairs; ++r)
#pragma GCC unroll 4
      for (std::size_t c = 0; c < 4; ++c) {
        f32 all = sum[0][r].v[c];
#pragma GCC unroll 4
        for (std::size_t i = 1; i < ways; ++i) all = all + sum[i][r].v[c];
        pair_layout::store_c(acc, stride, r, c, pair_layout::load_c(acc, stride, r, c) + all);
      }
  }

  /// The same by fma, which keeps subnormal operands.
  static void multiply_by_fma(const std::byte* left, const std::byte* right, std::size_t live, std::size_t length,
                              float* acc, std::size_t stride) {
    const auto element = [](const std::byte* panel, std::size_t r, std::size_t k) {
      const std::byte* at = panel + k / part * header + header + k / 4 * quad + r / 2 * 16 + r % 2 * 8 + k % 4 * 2;
      return ufp4::detail::to_float(std::uint32_t{load_as<std::uint16_t>(at)} << 16);
    };
    for (std::size_t r = 0; r < live; ++r)
      for (std::size_t c = 0; c < cols; ++c) {
        float sum = acc[r * stride + c];
        for (std::size_t k = 0; k < length; ++k)
          sum = ufp4::detail::fma(element(left, r, k), element(right, c, k), sum);
        acc[r * stride + c] = sum;
      }
  }
};

template <features needs = features::all>
inline constexpr gemm_kernel gemm_bf16_kernel =
    kernel_of<blocked_gemm<bfmmla_gemm>, needs>(isa::neon_bf16, "gemm_bf16_neon", 4, 256, 128, accumulate::fast);
UFP4_END_LANES
