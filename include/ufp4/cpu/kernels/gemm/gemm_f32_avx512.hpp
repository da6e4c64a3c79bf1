// ufp4 - quantized_gemm on AVX-512 in binary32: unquantized operands, grids without exact products, folded_bf16.
// SPDX-License-Identifier: Apache-2.0
//
// d = fma(a_k, b_k, d) from +0 in index order within a block, then acc = fma(d, fl(sA * sB), acc): the bits of
// exact_blocks where an operand is unquantized or its grid has no exact products, and the order of the fast modes. In
// folded_bf16 a value is value * scale, rounded to bf16, and scales are 1. A record begins with scale[rows].
#pragma once

#include <ufp4/cpu/kernels/gemm/tile_avx512.hpp>
#include <ufp4/cpu/kernels/kernels_avx512.hpp>

UFP4_BEGIN_REGION(avx512, UFP4_AVX512)

inline constexpr std::size_t f32_depth = 256;

/// The values of 16 k of a row; `k + 8` may be the row's end.
UFP4_LANE f32 values_at(const quantized_source& q, f32 table, std::size_t row, std::size_t k) {
  constexpr u32 place = {0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28};
  std::uint32_t first, second = 0;
  __builtin_memcpy(&first, q.codes + q.code_index(row, k), 4);
  if (k + 8 < q.padded_cols) __builtin_memcpy(&second, q.codes + q.code_index(row, k + 8), 4);
  const u32 dwords = {first,  first,  first,  first,  first,  first,  first,  first,
                      second, second, second, second, second, second, second, second};
  return lookup(table, dwords >> place);
}

/// The values of [k, k + depth) of a row with elements of one byte. Writes whole vectors.
inline void byte_row(const quantized_source& q, std::size_t row, std::size_t k, std::size_t depth, float* value) {
  const std::uint8_t* codes = q.codes + q.code_index(row, k);
  const f32 unit = broadcast(q.format.grid.unit);
  for (std::size_t e = 0; e < depth; e += lanes) {
    std::uint8_t bytes[lanes] = {};
    __builtin_memcpy(bytes, codes + e, depth - e < lanes ? depth - e : lanes);
    store(value + e, numbers_of_bytes(bytes) * unit);
  }
}

/// load_unquantized of one row, in registers where there is no transform. Writes whole vectors.
inline void unquantized_row(const quantize_job& unquantized, std::size_t row, std::size_t k, std::size_t depth,
                            float* value) {
  if (unquantized.transform.n != 1) return load_unquantized(unquantized, {row, 1, k, depth}, value);
  const std::size_t left = unquantized.x.cols > k ? unquantized.x.cols - k : 0, live = left < depth ? left : depth;
  if (unquantized.x.kind == dtype::f32 && unquantized.x.col_stride == 1 && live != 0)
    __builtin_memcpy(value, static_cast<const float*>(unquantized.x.data) + unquantized.x.offset(row, k),
                     live * sizeof(float));
  else
    transform_kernel::read_row(unquantized.x, row, k, live, value);
  for (std::size_t e = live; e < depth; ++e) value[e] = 0.0f;
  for (std::size_t e = 0; unquantized.rounds_input_to_bf16 && e < depth; e += lanes)
    store(value + e, as_float(round_bf16(load(value + e)) & 0xFFFF0000u));
}

/// One row of an operand, [k, k + depth), as numerics 6 multiplies it: without scales, or folded. Writes whole vectors.
template <std::size_t most>
inline void row_values(const gemm_job& job, const gemm_operand& side, std::size_t row, std::size_t k, std::size_t depth,
                       float* value, float (&scale)[most]) {
  const std::size_t blocks = depth / job.block;
  if (blocks > most) __builtin_unreachable();  // takes() wants blocks of 8 at least; g++ warns of overflow without it
  if (side.is_quantized) {
    row_scales_of(side.q, row, k / job.block, blocks, scale);
    if (side.q.format.has_bytes()) byte_row(side.q, row, k, depth, value);
    const f32 table = load(side.q.format.grid.value);
    for (std::size_t e = 0; !side.q.format.has_bytes() && e < depth; e += lanes)
      store(value + e, values_at(side.q, table, row, k + e));
  } else {
    for (std::size_t b = 0; b < blocks; ++b) scale[b] = 1.0f;
    unquantized_row(side.unquantized, row, k, depth, value);
  }
  if (job.mode != accumulate::folded_bf16) return;
  for (std::size_t e = 0; e < depth; e += 8) {
    const float s = scale[e / job.block];
    for (std::size_t i = e; i < e + 8; ++i) value[i] *= s;
  }
  for (std::size_t e = 0; e < depth; e += lanes) store(value + e, round_bf16(load(value + e)) & 0xFFFF0000u);
  for (std::size_t b = 0; b < blocks; ++b) scale[b] = 1.0f;
}

struct f32_products : scales_of_panel<> {
  static constexpr std::size_t values = 8, most = f32_depth, few_most = f32_depth;

  static f32 unit(const gemm_job&) { return f32{}; }
  static f32 table(const gemm_job& job) { return load(job.right.q.format.grid.value); }
  static constexpr bool may_read_values = true;
  static bool reads_values(const gemm_job& job) {
    return !job.right.is_quantized || job.right.has_bytes() || job.mode == accumulate::folded_bf16;
  }
  /// Writes whole vectors, so beyond a `depth` that is no multiple of 16.
  [[gnu::noinline]] static void read_values(const gemm_job& job, const gemm_part& columns, std::size_t k,
                                            std::size_t depth, u32* value, float* scale) {
    alignas(64) float row[lanes][f32_depth] = {}, row_scale[f32_depth / 8];
    for (std::size_t j = 0; j < columns.cols; ++j) {
      row_values(job, job.right, columns.col + j, k, depth, row[j], row_scale);
      for (std::size_t b = 0; b < depth / job.block; ++b) scale[b * lanes + j] = row_scale[b];
    }
    for (std::size_t e = 0; e < depth; e += lanes, value += lanes) {
      f32 v[lanes];
      load_transposed(row[0] + e, f32_depth, v);
      for (std::size_t i = 0; i < lanes; ++i) value[i] = as_bits(v[i]);
    }
  }
};

UFP4_LANE void add_product(f32& sum, f32 v, const float* factor) {
  asm("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(v), "m"(*factor));
}

template <std::size_t rows, bool decodes>
inline void f32_tile(const column_panel<f32_products>& s, const std::byte* left, float* acc) {
  f32 sum[rows];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < rows; ++r) sum[r] = load(acc + r * lanes);
  const auto* p = reinterpret_cast<const float*>(left);
  const f32 table = s.table;
  u32* value = s.value;
  octad codes{};
  for (std::size_t b = 0, word = 0; b < s.blocks; ++b) {
    f32 dot[rows] = {};
    const float* head = p;
    p += rows;
    for (const std::size_t end = word + s.block / 8; word < end; ++word) {
      f32 v[8];
      if constexpr (decodes) {
        if (word % 8 == 0) {
          codes = codes_at(s.codes, word * 8);
#pragma GCC unroll 8
          for (std::size_t i = 0; i < 8; ++i)
            __builtin_prefetch(s.ahead + (word / 4 + i / 4) * s.ahead_step + i % 4 * 64, 0, 2);
        }
        const u32 eight = codes.v[word % 8];
#pragma GCC unroll 8
        for (std::uint32_t e = 0; e < 8; ++e) v[e] = lookup(table, eight >> (4 * e));
        if (value != nullptr)
#pragma GCC unroll 8
          for (std::size_t e = 0; e < 8; ++e) *value++ = as_bits(v[e]);
      } else {
#pragma GCC unroll 8
        for (std::size_t e = 0; e < 8; ++e) v[e] = as_float(*value++);
      }
#pragma GCC unroll 8
      for (std::size_t e = 0; e < 8; ++e, p += rows)
#pragma GCC unroll 8
        for (std::size_t r = 0; r < rows; ++r) add_product(dot[r], v[e], p + r);
    }
    const f32 column = load(s.scale + b * lanes);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < rows; ++r) sum[r] = fma(dot[r], rounded(broadcast(head[r]) * column), sum[r]);
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < rows; ++r) store(acc + r * lanes, sum[r]);
}

/// One row, blocks of 16 or 32: all blocks of 64 k at a time, because every fma of one block waits for the one before.
template <std::size_t block>
inline void f32_row(const column_panel<f32_products>& s, const std::byte* left, float* acc) {
  constexpr std::size_t chains = 64 / block;
  const auto* p = reinterpret_cast<const float*>(left);
  const f32 table = s.table;
  f32 sum = load(acc);
  for (std::size_t b = 0; b < s.blocks; b += chains) {
    const octad codes = codes_at(s.codes, b * block);
    const float* record[chains];
    f32 dot[chains] = {};
#pragma GCC unroll 4
    for (std::size_t c = 0; c < chains; ++c) record[c] = p + (b + c < s.blocks ? b + c : b) * (1 + block) + 1;
    for (std::size_t k = 0; k < block; k += 8) {
#pragma GCC unroll 8
      for (std::size_t e = 0; e < 8; ++e)
#pragma GCC unroll 4
        for (std::size_t c = 0; c < chains; ++c)
          add_product(dot[c], lookup(table, codes.v[(c * block + k) / 8] >> static_cast<std::uint32_t>(4 * e)),
                      record[c] + k + e);
    }
#pragma GCC unroll 4
    for (std::size_t c = 0; c < chains; ++c)
      if (b + c < s.blocks) sum = fma(dot[c], rounded(broadcast(record[c][-1]) * load(s.scale + (b + c) * lanes)), sum);
  }
  store(acc, sum);
}

struct f32_gemm {
  using panel = column_panel<f32_products>;

  static bool takes(const gemm_job& job) { return job.block % 8 == 0; }
  static std::size_t record(const gemm_job& job, std::size_t live) { return live * (1 + job.block) * sizeof(float); }

  static void pack_row(const gemm_job& job, std::size_t row, std::size_t r, std::size_t live, std::byte* out) {
    float value[f32_depth], scale[f32_depth / 8];
    auto* p = reinterpret_cast<float*>(out) + r;
    for (std::size_t k = 0; k < job.padded(); k += f32_depth) {
      const std::size_t depth = job.padded() - k < f32_depth ? job.padded() - k : f32_depth;
      row_values(job, job.left, row, k, depth, value, scale);
      for (std::size_t b = 0; b < depth / job.block; ++b) {
        *p = scale[b];
        p += live;
        for (std::size_t e = 0; e < job.block; ++e, p += live) *p = value[b * job.block + e];
      }
    }
  }

  template <class Panel>
  static void multiply_tile(const Panel& s, std::size_t live, bool first, const std::byte* left, float* acc) {
    if (first && s.decodes && live == 1 && s.block == 16) return f32_row<16>(s, left, acc);
    if (first && s.decodes && live == 1 && s.block == 32) return f32_row<32>(s, left, acc);
    with_rows(live, [&]<std::size_t count>() {
      first&& s.decodes ? f32_tile<count, true>(s, left, acc) : f32_tile<count, false>(s, left, acc);
    });
  }
};

template <features needs = features::all>
inline constexpr gemm_kernel gemm_f32_kernel =
    byte_kernel_of<streamed_gemm<f32_gemm>, needs>(isa::avx512, "gemm_f32_avx512", 1, 128, 256);
UFP4_END_REGION
