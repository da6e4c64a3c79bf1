// ufp4 - quantized_gemm on AVX-512 VNNI: exact block products in int8, rescaled in block order.
// SPDX-License-Identifier: Apache-2.0
//
// Gives the bits of exact_blocks, in fast mode too.
//
// The right operand becomes unsigned bytes, integer + offset; the left stays signed. The accumulator of a block starts
// at the bits of 1.5 * 2^23 units, less offset * (sum of the left block): an integer added to such a float's bits moves
// it by as many ulps, and an ulp is one unit. So the dot product, read as a float and less 1.5 * 2^23 units, is d:
// exact, and +0 for 0, as long as |d| stays below 2^22 units.
//
// A record (tile_avx512.hpp) is start[rows], scale[rows] (4 bytes each), then for every 16 k:
// 16 bytes a row, in each 8 k the even k before the odd.
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/kernels/gemm/gemm_integers.hpp>
#include <ufp4/cpu/kernels/gemm/tile_avx512.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX512)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace avx512 {

/// a += four products of unsigned bytes with the signed bytes at p, the same four for every lane.
UFP4_LANE void add_dots(u32& a, u8 bytes, const void* p) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(a) : "v"(bytes), "m"(*bytes_of<4>(p)));
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
/// Integers of a grid plus the offset that makes them unsigned, for low and high.
UFP4_LANE u8 offset_table(const grid4& grid) { return nibble_table(grid.integer, -integers_of(grid).low); }
/// weight * (sum of the signed bytes)
UFP4_LANE std::uint32_t weighted_sum(std::uint8_t weight, i8x16 bytes) {
  using u32x4 = std::uint32_t __attribute__((vector_size(16)));
  u32x4 sums = {};
  asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(i8x16{} + weight), "v"(bytes));
  return sums[0] + sums[1] + sums[2] + sums[3];
}

struct int8_products {
  static constexpr std::size_t values = 2, most = 512, few_most = 1024;
  static u8 table(const gemm_job& job) { return offset_table(job.right.q.format.grid); }
  static f32 unit(const gemm_job& job) { return as_float(broadcast(magic_bits(job))); }
  static bool reads_values(const gemm_job&) { return false; }
  static void read_values(const gemm_job&, const gemm_part&, std::size_t, std::size_t, u32*, float*) {}
};

/// Those of 16 k: in each 8 the even k and the odd ones.
struct step_bytes {
  u8 v[4];
};
template <std::size_t rows, bool decodes>
inline void int8_tile(const column_slice<int8_products>& s, const std::byte* left, float* acc) {
  f32 sum[rows];
  u32 dot[rows];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < rows; ++r) sum[r] = load(acc + r * lanes);
  const std::byte *p = left, *head = left;
  const f32 magic = s.unit;
  const float* scale = s.scale;
  const std::size_t each = s.block / 16, steps = s.blocks * each;
  std::size_t done = 0;  // steps of the block
  const auto begin_block = [&]() __attribute__((always_inline)) {
    head = p;
#pragma GCC unroll 8
    for (std::size_t r = 0; r < rows; ++r) dot[r] = broadcast(load_as<std::uint32_t>(head + r * 4));
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
          fma(as_float(dot[r]) - magic, rounded(broadcast(load_as<float>(head + rows * 4 + r * 4)) * column), sum[r]);
  };
  auto* decoded = reinterpret_cast<u8*>(s.value);
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

struct int8_gemm {
  using slice = column_slice<int8_products>;

  static bool takes(const gemm_job& job) { return int8_fits(job); }
  static std::size_t record(const gemm_job& job, std::size_t live) { return live * (job.block + 8); }

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

  static void multiply_tile(const slice& s, std::size_t live, bool first, const std::byte* left, float* acc) {
    with_rows(live, [&]<std::size_t count>() {
      first ? int8_tile<count, true>(s, left, acc) : int8_tile<count, false>(s, left, acc);
    });
  }
};

}  // namespace avx512

inline constexpr gemm_kernel gemm_int8_avx512_kernel =
    avx512::streamed_gemm<avx512::int8_gemm>::row(isa::avx512, "gemm_int8_avx512", 4, 512);

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
