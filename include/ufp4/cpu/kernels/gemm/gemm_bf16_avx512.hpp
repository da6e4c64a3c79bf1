// ufp4 - quantized_gemm on AVX-512 BF16: folded_bf16 by vdpbf16ps.
// SPDX-License-Identifier: Apache-2.0
//
// value * scale, rounded to bf16 (numerics 6), two k a dword. A tile is up to eight rows by sixteen columns, a column a
// lane. The instruction treats subnormal operands as zeros, so a panel that has any is multiplied by fma instead.
//
// A record (tile_avx512.hpp): whether the block has a subnormal value, then for every 2 k a dword a row.
#pragma once

#include <ufp4/cpu/kernels/gemm/gemm_f32_avx512.hpp>

UFP4_BEGIN_REGION(avx512, UFP4_AVX512_BF16)

inline constexpr std::size_t bf16_depth = 512;

UFP4_LANE void add_pairs(f32& sum, u32 pairs, const std::uint32_t* factors) {
  asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(pairs), "m"(*factors));
}
/// Of each lane even and odd rounded to bf16, odd in the upper half.
UFP4_LANE u32 round_pairs(f32 even, f32 odd, u32 interleave) {
  u32 r;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(r) : "v"(even), "v"(odd));
  return lookup_words(r, interleave);
}
inline constexpr struct bf16_order {
  alignas(64) std::uint16_t word[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
} bf16_interleave;
inline bool is_subnormal(float x) {
  const std::uint32_t m = magnitude_bits(x);
  return m != 0 && m < min_normal_bits;
}

/// Sixteen columns, and the range of K that bf16_tile multiplies.
class bf16_panel {
 public:
  static constexpr features needs = features::all;
  static std::size_t depth_of(std::size_t) { return bf16_depth; }
  static std::size_t bytes(const gemm_job&, std::size_t) {
    return (bf16_depth / 2 + bf16_depth / 8) * lanes * 4 + staged_code_bytes(bf16_depth);
  }

  std::size_t block, blocks = 0;
  std::uint32_t* pairs;    ///< sixteen dwords for every 2 k
  bool subnormal = false;  ///< among the columns' values

  bf16_panel(const gemm_job& job, const gemm_part& columns, std::byte* memory)
      : block(job.block),
        pairs(reinterpret_cast<std::uint32_t*>(memory)),
        job_(job),
        columns_(columns),
        scale_(reinterpret_cast<float*>(pairs + bf16_depth / 2 * lanes)),
        staged_(reinterpret_cast<std::uint8_t*>(scale_ + bf16_depth / 8 * lanes)),
        smallest_(ufp4::detail::to_float(range_of(job.right.q.format).low)) {}

  void read(std::size_t k, std::size_t depth) {
    blocks = depth / block;
    if (job_.right.is_quantized && fold(k, depth)) return;
    float row[bf16_depth], scale[bf16_depth / 8];
    subnormal = false;
    for (std::size_t j = 0; j < columns_.cols; ++j) {
      row_values(job_, job_.right, columns_.col + j, k, depth, row, scale);
      for (std::size_t e = 0; e < depth; e += 2) {
        pairs[e / 2 * lanes + j] = to_bits(row[e]) >> 16 | to_bits(row[e + 1]);
        subnormal = subnormal || is_subnormal(row[e]) || is_subnormal(row[e + 1]);
      }
    }
  }

 private:
  /// False where some value may be subnormal: the conversion treats it as zero too.
  bool fold(std::size_t k, std::size_t depth) {
    scales_of(job_.right.q, columns_.col, columns_.cols, k / block, blocks, scale_);
    u32 tiny{};
    for (std::size_t b = 0; b < blocks; ++b) {
      const f32 s = load(scale_ + b * lanes), least = rounded(s * smallest_);
      tiny |= reinterpret_cast<u32>((as_bits(least) & 0x7FFFFFFFu) < min_normal_bits) &
              reinterpret_cast<u32>((as_bits(s) & 0x7FFFFFFFu) != 0u);
    }
    if (any(tiny)) return false;
    subnormal = false;
    const code_rows codes = codes_of(job_.right.q, columns_.col, columns_.cols, k, depth, staged_);
    prefetch_codes(job_.right.q, columns_.col, k, bf16_depth);
    prefetch_scales(job_.right.q, columns_.col, k / block, blocks);
    const f32 table = load(job_.right.q.format.grid.value);
    const u32 order = load_as<u32>(bf16_interleave.word);
    std::uint32_t* out = pairs;
    octad group{};
    for (std::size_t i = 0; i < depth / 8; ++i) {
      if (i % 8 == 0) group = codes_at(codes, i * 8);
      const f32 s = load(scale_ + i * 8 / block * lanes);
      u32 dword = group.v[i % 8];
#pragma GCC unroll 4
      for (std::size_t e = 0; e < 4; ++e, dword = dword >> 8, out += lanes)
        store(out, round_pairs(rounded(lookup(table, dword) * s), rounded(lookup(table, dword >> 4) * s), order));
    }
    return true;
  }

  const gemm_job& job_;
  gemm_part columns_;
  float* scale_;
  std::uint8_t* staged_;
  float smallest_;  ///< magnitude of the grid beside 0
};

template <std::size_t rows>
inline void bf16_tile(const bf16_panel& s, const std::byte* left, float* acc) {
  constexpr std::size_t ways = rows <= 2 ? 4 : 1;  // sums a row, where there are too few rows to hide one's latency
  f32 sum[ways * rows] = {};
#pragma GCC unroll 8
  for (std::size_t r = 0; r < rows; ++r) sum[r] = load(acc + r * lanes);
  const auto* p = reinterpret_cast<const std::uint32_t*>(left);
  const std::uint32_t* pairs = s.pairs;
  for (std::size_t b = 0; b < s.blocks; ++b) {
    ++p;
    for (std::size_t e = 0; e < s.block / 8; ++e) {
#pragma GCC unroll 4
      for (std::size_t i = 0; i < 4; ++i, p += rows, pairs += lanes) {
        const u32 v = load_as<u32>(pairs);
#pragma GCC unroll 8
        for (std::size_t r = 0; r < rows; ++r) add_pairs(sum[i % ways * rows + r], v, p + r);
      }
    }
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (std::size_t i = 1; i < ways; ++i) sum[r] = sum[r] + sum[i * rows + r];
    store(acc + r * lanes, sum[r]);
  }
}

/// The same by fma, which keeps subnormal operands.
[[gnu::cold]] inline void bf16_tile_by_fma(std::size_t rows, const bf16_panel& s, const std::byte* left, float* acc) {
  for (std::size_t r = 0; r < rows; ++r) {
    f32 sum = load(acc + r * lanes);
    const auto* p = reinterpret_cast<const std::uint32_t*>(left) + r;
    const std::uint32_t* pairs = s.pairs;
    for (std::size_t b = 0; b < s.blocks; ++b) {
      ++p;
      for (std::size_t e = 0; e < s.block / 2; ++e, p += rows, pairs += lanes) {
        const u32 v = load_as<u32>(pairs);
        sum = fma(as_float(v << 16), as_float(broadcast(*p << 16)), sum);
        sum = fma(as_float(v & 0xFFFF0000u), as_float(broadcast(*p & 0xFFFF0000u)), sum);
      }
    }
    store(acc + r * lanes, sum);
  }
}

struct bf16_gemm {
  using panel = bf16_panel;
  static bool takes(const gemm_job& job) {
    return job.mode == accumulate::folded_bf16 && job.block % 8 == 0 && !int8_fits(job);
  }
  static std::size_t record(const gemm_job& job, std::size_t live) { return (live * job.block / 2 + 1) * 4; }

  static void pack_row(const gemm_job& job, std::size_t row, std::size_t r, std::size_t live, std::byte* out) {
    float value[bf16_depth], scale[bf16_depth / 8];
    auto* p = reinterpret_cast<std::uint32_t*>(out);
    for (std::size_t k = 0; k < job.padded(); k += bf16_depth) {
      const std::size_t depth = job.padded() - k < bf16_depth ? job.padded() - k : bf16_depth;
      row_values(job, job.left, row, k, depth, value, scale);
      for (std::size_t e = 0; e < depth; e += job.block) {
        std::uint32_t& flag = *p++;
        bool tiny = r != 0 && flag != 0;
        for (std::size_t i = e; i < e + job.block; i += 2, p += live) {
          p[r] = to_bits(value[i]) >> 16 | to_bits(value[i + 1]);
          tiny = tiny || is_subnormal(value[i]) || is_subnormal(value[i + 1]);
        }
        flag = tiny ? 1 : 0;
      }
    }
  }

  template <class Panel>
  static void multiply_tile(const Panel& s, std::size_t live, bool, const std::byte* left, float* acc) {
    const auto* p = reinterpret_cast<const std::uint32_t*>(left);
    std::uint32_t subnormal = s.subnormal ? 1 : 0;
    for (std::size_t b = 0; b < s.blocks; ++b) subnormal |= p[b * (live * s.block / 2 + 1)];
    if (subnormal != 0) return bf16_tile_by_fma(live, s, left, acc);
    with_rows(live, [&]<std::size_t count>() { bf16_tile<count>(s, left, acc); });
  }
};

template <features needs = features::all>
inline constexpr gemm_kernel gemm_bf16_kernel =
    kernel_of<streamed_gemm<bf16_gemm>, needs>(isa::avx512_bf16, "gemm_bf16_avx512", 2, 256, 256);
UFP4_END_REGION
