// ufp4 - quantized_gemm on AVX-512 VNNI: exact block products in int8, rescaled in block order.
// SPDX-License-Identifier: Apache-2.0
//
// Gives the bits of exact_blocks, in fast mode too. A tile is up to eight rows by sixteen columns, a column a lane.
//
// The right operand becomes unsigned bytes, integer + offset; the left stays signed. The accumulator of a block starts
// at the bits of 1.5 * 2^23 units, less offset * (sum of the left block): an integer added to such a float's bits moves
// it by as many ulps, and an ulp is one unit. So the dot product, read as a float and less 1.5 * 2^23 units, is d:
// exact, and +0 for 0, as long as |d| stays below 2^22 units.
//
// Packed left operand, tile by tile, block by block, for the tile's live rows:
//   start[rows], scale[rows] (4 bytes each), then for every 16 k:
//   16 bytes a row, in each 8 k the even k before the odd.
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/gemm_blocked.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_integers.hpp>
#include <ufp4/cpu/kernels/gemm/pack_avx512.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX512)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace avx512 {

inline constexpr std::size_t int8_rows = 8;  ///< of a tile

/// a += four products of unsigned bytes with the signed bytes at p, the same four for every lane.
UFP4_LANE void add_dots(u32& a, u8 bytes, const std::byte* p) {
  struct four {
    std::byte b[4];
  };
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(a) : "v"(bytes), "m"(*reinterpret_cast<const four*>(p)));
}
UFP4_LANE u32 broadcast_dword(const std::byte* p) {
  std::uint32_t x;
  __builtin_memcpy(&x, p, 4);
  return broadcast(x);
}

/// Sixteen columns, and the range of K that int8_tile multiplies.
struct int8_slice {
  static constexpr std::size_t depth = 512, few_depth = 1024;  ///< K, with more rows than a tile has and without
  static constexpr std::size_t depth_of(bool many) { return many ? depth : few_depth; }
  static constexpr std::size_t bytes(bool many) {
    return depth_of(many) / 16 * lanes * 4 + staged_code_bytes(depth_of(many)) + (many ? depth * lanes : 0);
  }

  u8 table;   ///< of the codes: integer + offset
  f32 magic;  ///< 1.5 * 2^23 units
  std::size_t block;
  u8* decoded = nullptr;  ///< four vectors for every 16 k, written by the first tile for the others; null for one tile
  code_rows codes{};
  const std::uint8_t* ahead = nullptr;  ///< codes that will be read next, 256 bytes every `ahead_step`: prefetched
  std::size_t ahead_step = 256;
  std::size_t blocks = 0;
  const float* scale;  ///< sixteen a block

  int8_slice(const gemm_job& job, const gemm_part& columns, std::byte* memory)
      : table(nibble_table(job.right.q.format.grid.integer, -integers_of(job.right.q.format.grid).low)),
        magic(as_float(broadcast(magic_bits(job)))),
        block(job.block),
        scale(reinterpret_cast<float*>(memory)),
        q_(job.right.q),
        columns_(columns),
        scales_(reinterpret_cast<float*>(memory)) {
    const bool many = columns.rows > int8_rows;
    staged_ = reinterpret_cast<std::uint8_t*>(memory) + depth_of(many) / 16 * lanes * 4;
    if (many) decoded = reinterpret_cast<u8*>(staged_ + staged_code_bytes(depth));
  }
  void read(std::size_t k, std::size_t length) {
    blocks = length / block;
    codes = codes_of(q_, columns_.col, columns_.cols, k, length, staged_);
    scales_of(q_, columns_.col, columns_.cols, k / block, blocks, scales_);
    prefetch_scales(q_, columns_.col, k / block, blocks);
    if (decoded == nullptr) {  // few rows: the next panel, in the order of memory
      ahead = q_.codes + q_.code_index(columns_.col + lanes, 0) + k * 8;
    } else {  // many: the next slice, which will still be in the cache when it is multiplied
      const bool last = k + depth >= q_.padded_cols;
      ahead = q_.codes + q_.code_index(last ? columns_.col + lanes : columns_.col, last ? 0 : k + depth);
      ahead_step = q_.interleaved ? 256 : q_.padded_cols / 2;
    }
  }

 private:
  const quantized_source& q_;
  gemm_part columns_;
  float* scales_;
  std::uint8_t* staged_;
};

/// Those of 16 k: in each 8 the even k and the odd ones.
struct step_bytes {
  u8 v[4];
};
template <std::size_t rows, bool decodes>
inline void int8_tile(const int8_slice& s, const std::byte* left, float* acc) {
  f32 sum[rows];
  u32 dot[rows];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < rows; ++r) sum[r] = load(acc + r * lanes);
  const std::byte *p = left, *head = left;
  const float* scale = s.scale;
  const std::size_t each = s.block / 16, steps = s.blocks * each;
  std::size_t done = 0;  // steps of the block
  const auto begin_block = [&]() __attribute__((always_inline)) {
    head = p;
#pragma GCC unroll 8
    for (std::size_t r = 0; r < rows; ++r) dot[r] = broadcast_dword(head + r * 4);
    p += rows * 8;
  };
  const auto add_step = [&](const step_bytes& bytes) __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (std::size_t r = 0; r < rows; ++r)
#pragma GCC unroll 8
      for (std::size_t i = 0; i < 4; ++i) add_dots(dot[r], bytes.v[i], p + r * 16 + i * 4);
    p += rows * 16;
  };
  const auto end_block = [&]() __attribute__((always_inline)) {
    const f32 column = load(scale);
    scale += lanes;
    done = 0;
#pragma GCC unroll 8
    for (std::size_t r = 0; r < rows; ++r)
      sum[r] =
          fma(as_float(dot[r]) - s.magic, rounded(as_float(broadcast_dword(head + rows * 4 + r * 4)) * column), sum[r]);
  };
  u8* decoded = s.decoded;
  if constexpr (decodes) {
    for (std::size_t step = 0; step < steps;) {
      const octad codes = codes_at(s.codes, step * 16);
#pragma GCC unroll 8
      for (std::size_t i = 0; i < 8; ++i)
        __builtin_prefetch(s.ahead + (step / 2 + i / 4) * s.ahead_step + i % 4 * 64, 0, 2);
#pragma GCC unroll 4
      for (std::size_t i = 0; i < 4; ++i, ++step) {
        if (step == steps) break;
        if (done == 0) begin_block();
        const step_bytes bytes{{low(s.table, codes.v[2 * i]), high(s.table, codes.v[2 * i]),
                                low(s.table, codes.v[2 * i + 1]), high(s.table, codes.v[2 * i + 1])}};
        if (decoded != nullptr)
#pragma GCC unroll 4
          for (const u8& v : bytes.v) *decoded++ = v;
        add_step(bytes);
        if (++done == each) end_block();
      }
    }
  } else {
    for (std::size_t step = 0; step < steps; ++step, decoded += 4) {
      if (done == 0) begin_block();
      add_step({{decoded[0], decoded[1], decoded[2], decoded[3]}});
      if (++done == each) end_block();
    }
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < rows; ++r) store(acc + r * lanes, sum[r]);
}

/// The four even and four odd values of each 8 of 16 k of a row, as signed bytes.
using i8x16 = std::uint8_t __attribute__((vector_size(16)));
UFP4_LANE i8x16 left_bytes_of(const quantized_source& q, i8x16 table, std::size_t row, std::size_t k) {
  using u64x2 = std::uint64_t __attribute__((vector_size(16)));
  std::uint32_t first, second;
  __builtin_memcpy(&first, q.codes + q.code_index(row, k), 4);
  __builtin_memcpy(&second, q.codes + q.code_index(row, k + 8), 4);
  const u64x2 codes = {first, second};
  const u64x2 spread = codes | codes << 28;  // the upper half of each: codes >> 4
  i8x16 r;
  asm("vpermb %1, %2, %0" : "=v"(r) : "v"(table), "v"(spread));
  return r;
}

UFP4_LANE i8x16 signed_bytes_of(const grid4& grid) {
  i8x16 table;
  for (std::size_t i = 0; i < 16; ++i) table[i] = static_cast<std::uint8_t>(grid.integer[i]);
  return table;
}
/// weight * (sum of the signed bytes)
UFP4_LANE std::uint32_t weighted_sum(std::uint8_t weight, i8x16 bytes) {
  using u32x4 = std::uint32_t __attribute__((vector_size(16)));
  u32x4 sums = {};
  asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(i8x16{} + weight), "v"(bytes));
  return sums[0] + sums[1] + sums[2] + sums[3];
}

struct int8_gemm {
  using slice = int8_slice;
  static constexpr std::size_t rows = int8_rows, cols = lanes;
  static std::size_t depth_of(std::size_t count) { return slice::depth_of(count > rows); }
  static std::size_t slice_bytes(const gemm_job&, std::size_t count) { return slice::bytes(count > rows); }
  static std::size_t record(const gemm_job& job, std::size_t live) { return live * (job.block + 8); }

  static bool takes(const gemm_job& job) { return int8_fits(job); }

  static void pack_row(const gemm_job& job, std::size_t row, std::size_t r, std::size_t live, std::byte* out) {
    const quantized_source& q = job.left.q;
    const i8x16 table = signed_bytes_of(q.format.grid);
    const auto offset = static_cast<std::uint8_t>(-integers_of(job.right.q.format.grid).low);
    const std::uint32_t magic = magic_bits(job);
    float scale[16];
    for (std::size_t b = 0; b < job.padded() / job.block; ++b, out += record(job, live)) {
      if (b % 16 == 0) {
        const std::size_t left = job.padded() / job.block - b;
        row_scales_of(q, row, b, left < 16 ? left : 16, scale);
      }
      std::uint32_t start = magic;
      for (std::size_t k = 0; k < job.block; k += 16) {
        const i8x16 bytes = left_bytes_of(q, table, row, b * job.block + k);
        avx512::store(out + live * 8 + k * live + r * 16, bytes);
        start -= weighted_sum(offset, bytes);
      }
      __builtin_memcpy(out + r * 4, &start, 4);
      __builtin_memcpy(out + live * 4 + r * 4, &scale[b % 16], 4);
    }
  }

  static void store(const gemm_job& job, const gemm_part& part, const float* acc, std::size_t stride) {
    store_sums(job, part, acc, stride);
  }
  static void multiply_tile(const slice& s, std::size_t live, bool first, const std::byte* left, float* acc) {
    with_rows(live, [&]<std::size_t count>() {
      first ? int8_tile<count, true>(s, left, acc) : int8_tile<count, false>(s, left, acc);
    });
  }
};

}  // namespace avx512

inline constexpr gemm_kernel gemm_int8_avx512_kernel =
    streamed_gemm<avx512::int8_gemm>::row(isa::avx512, "gemm_int8_avx512", 4, 512, 256);

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
