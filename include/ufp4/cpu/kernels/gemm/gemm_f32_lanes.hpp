// ufp4 - GEMM for AVX2 and NEON: columns of operands side by side, a column a lane, and quantized_gemm in binary32.
// SPDX-License-Identifier: Apache-2.0
//
// Codes and scales are read as rows of dwords: of eight codes, or one, two or four scales.
#if !defined(UFP4_GEMM_F32_LANES)
#define UFP4_GEMM_F32_LANES
#include <ufp4/cpu/gemm_blocked.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_integers.hpp>
#include <ufp4/cpu/kernels/step_lanes.hpp>

UFP4_BEGIN_LANES()

/// A kernel reads the same k of columns this many further on next: their codes and scales are prefetched.
inline constexpr std::size_t columns_ahead = 16;

/// The next 16 of `bytes` bytes of rows that are `stride` bytes apart, as four transposed dwords: dword i of each row
/// in t[i]. Bytes beyond count as zero and are not read. Prefetches the same bytes of rows further on.
UFP4_LANE void load_next(const std::uint8_t* const (&row)[lanes], std::size_t stride, std::size_t bytes, std::size_t at,
                         u32 (&t)[4]) {
  constexpr std::size_t line = 64, rows_a_step = lanes / 4;  // four steps of 16 bytes cover a line of every row
  if (at + 16 <= bytes) {
    load_dwords(row, at, t);
#pragma GCC unroll 2
    for (std::size_t i = 0; i < rows_a_step; ++i)
      __builtin_prefetch(row[at / 16 % 4 * rows_a_step + i] + at / line * line + columns_ahead * stride, 0, 2);
    return;
  }
  std::uint8_t rest[lanes][16] = {};
  const std::uint8_t* tail[lanes];
  for (std::size_t j = 0; j < lanes; ++j) {
    __builtin_memcpy(rest[j], row[j] + at, bytes - at);
    tail[j] = rest[j];
  }
  load_dwords(tail, 0, t);
}

/// Column col + j of the `live` that there are; lanes beyond repeat the last.
UFP4_LANE std::size_t lane_column(std::size_t col, std::size_t live, std::size_t j) {
  return col + (j < live ? j : live - 1);
}

/// use(i, v): the codes of k + 8i .. k + 8i + 7 of `lanes` columns from col on, the first k in the low four bits.
template <class Use>
UFP4_LANE void each_codes(const quantized_source& q, std::size_t col, std::size_t live, std::size_t k,
                          std::size_t depth, const Use& use) {
  const std::uint8_t* row[lanes];
  for (std::size_t j = 0; j < lanes; ++j) row[j] = q.codes + q.code_index(lane_column(col, live, j), k);
  if (q.interleaved) {
    for (std::size_t i = 0; 8 * i < depth; ++i) use(i, load_as<u32>(row[0] + prepacked_layout::group_bytes * i));
    return;
  }
  const std::size_t stride = q.padded_cols / 2;
  u32 t[4];
  for (std::size_t i = 0; 8 * i < depth; i += 4) {
    load_next(row, stride, depth / 2, 4 * i, t);
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 4; ++j)
      if (8 * (i + j) < depth) use(i + j, t[j]);
  }
}

/// The scales of blocks first .. first + count - 1 of `lanes` columns from col on, without the tensor scale; 1 for a
/// unquantized operand. Those of block first + b at out + b * stride.
template <features needs = features::all>
[[gnu::noinline]] void column_scales(const gemm_operand& side, std::size_t col, std::size_t live, std::size_t first,
                                     std::size_t count, std::byte* out, std::size_t stride) {
  if (has(needs, features::mixed_input) && !side.is_quantized) {
    for (std::size_t b = 0; b < count; ++b) store(out + b * stride, broadcast(1.0f));
    return;
  }
  const quantized_source& q = side.q;
  const scale_kind kind = scale_in<needs>(q.format);
  if (has(needs, features::prepacked) && q.interleaved) {
    const void* const scales = q.scales;
    const std::size_t at = q.scale_index(col, first);
    for (std::size_t b = 0; b < count; ++b, out += stride)
      store(out, load_scales(kind, scales, at + prepacked_layout::panel_rows * b));
    return;
  }
  const auto width = static_cast<std::size_t>(scale_bytes(kind));
  const std::uint8_t* row[lanes];
  for (std::size_t j = 0; j < lanes; ++j)
    row[j] = static_cast<const std::uint8_t*>(q.scales) + width * q.scale_index(lane_column(col, live, j), first);
  const u32 mask = broadcast(~std::uint32_t{0} >> (32 - 8 * width));
  const auto shift = static_cast<std::uint32_t>(8 * width % 32);
  const std::size_t row_bytes = width * q.blocks();
  u32 t[4];
  for (std::size_t b = 0; b < count; b += 16 / width) {
    load_next(row, row_bytes, width * count, width * b, t);
    for (std::size_t i = 0; i < 16 / width && b + i < count; ++i) {
      u32& dword = t[i * width / 4];
      store(out + (b + i) * stride, decode_scale_bits(kind, dword & mask));
      dword = dword >> shift;
    }
  }
}

/// The same of one row, side by side.
template <features needs = features::all>
[[gnu::noinline]] void row_scales(const gemm_operand& side, std::size_t row, std::size_t first, std::size_t count,
                                  float* out) {
  std::size_t b = 0;
  if (has(needs, features::mixed_input) && !side.is_quantized)
    for (; b < count; ++b) out[b] = 1.0f;
  if (!side.interleaved()) {
    const scale_kind kind = scale_in<needs>(side.q.format);
    const void* const scales = side.q.scales;
    const std::size_t at = side.is_quantized ? side.q.scale_index(row, first) : 0;
    for (; b + lanes <= count; b += lanes) store(out + b, load_scales(kind, scales, at + b));
  }
  for (; b < count; ++b) out[b] = scale_at(side.q, row, first + b, 1.0f);
}

/// What the integer kernels do not take. A column of C a lane. d is the chain of fma over a block, from +0 in index
/// order, and acc = fma(d, fl(sA * sB), acc): exact_blocks of unquantized operands and of grids whose products are not
/// exact, and for exact grids the exact dot product, because no partial sum needs more than 24 bits. fast is the same;
/// in folded_bf16 the panels hold value * scale, rounded to bf16, and scales of 1.
///
/// | left, a tile  | for each block: rows x (block) values, then rows scales |
/// | right, a tile | for each k: cols values; then for each block cols scales |
struct f32_gemm {
  static constexpr std::size_t rows = 6, cols = 16, depth = 256, registers = cols / lanes;

  static bool takes(const gemm_job& job) { return !(job.left.exact() && job.right.exact()) || exact_dots(job); }

  static std::size_t left_bytes(const gemm_job& job, std::size_t k) {
    return k / job.block * (job.block + 1) * rows * sizeof(float);
  }
  static std::size_t right_bytes(const gemm_job& job, std::size_t k) {
    return (k + k / job.block) * cols * sizeof(float);
  }

  // ---- Left: row by row.

  static constexpr std::size_t part = 256;  ///< k that are decoded at a time: whole blocks and whole transforms

  static void pack_left(const gemm_job& job, std::size_t row, std::size_t live, std::size_t k, std::size_t length,
                        std::byte* out) {
    auto* to = reinterpret_cast<float*>(out);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t p = 0; p < length; p += part) {
        const std::size_t count = length - p < part ? length - p : part, blocks = count / job.block;
        float value[part] = {}, scale[part / 2] = {};
        if (r < live) {
          const panel line{row + r, 1, k + p, count};
          row_scales(job.left, line.row, line.k / job.block, blocks, scale);
          decode_values<stored_features>(job.left, line, value);
          if (job.mode == accumulate::folded_bf16) fold_to_bf16(line, job.block, scale, value);
        }
        for (std::size_t b = 0; b < blocks; ++b) {
          float* block = to + (p / job.block + b) * rows * (job.block + 1);
          for (std::size_t i = 0; i < job.block; ++i) block[r * job.block + i] = value[b * job.block + i];
          block[rows * job.block + r] = scale[b];
        }
      }
  }

  // ---- Right: `lanes` columns at a time.

  static void pack_right(const gemm_job& job, std::size_t col, std::size_t live, std::size_t k, std::size_t length,
                         std::byte* out) {
    auto *value = reinterpret_cast<float*>(out), *scale = value + length * cols;
    const std::size_t blocks = length / job.block;
    for (std::size_t c = 0; c < cols; c += lanes) {
      const std::size_t first = live > c ? c : 0;  // columns that C does not have repeat others
      column_scales(job.right, col + first, live - first, k / job.block, blocks,
                    reinterpret_cast<std::byte*>(scale + c), cols * sizeof(float));
      if (job.right.is_quantized && !job.right.has_bytes())
        right_codes(job.right.q, col + first, live - first, k, length, value + c);
      else
        right_values(job.right, col + first, live - first, k, length, value + c);
    }
    if (job.mode == accumulate::folded_bf16) fold(job.block, length, value, scale);
  }

  static void right_codes(const quantized_source& q, std::size_t col, std::size_t live, std::size_t k,
                          std::size_t length, float* value) {
    const table16 table = load_table(q.format.grid.value);
    u32 dwords[depth / 8];
    each_codes(q, col, live, k, length,
               [&](std::size_t i, u32 codes) __attribute__((always_inline)) { dwords[i] = codes; });
    for (std::size_t i = 0; 8 * i < length; ++i, value += 8 * cols) {
      const u32 codes = dwords[i];
      const std::size_t count = length - 8 * i;
#pragma GCC unroll 8
      for (std::uint32_t j = 0; j < 8; ++j)
        if (j < count) store(value + j * cols, lookup(table, codes >> 4 * j));
    }
  }

  /// Of an unquantized operand or one of byte elements.
  static void right_values(const gemm_operand& side, std::size_t col, std::size_t live, std::size_t k,
                           std::size_t length, float* value) {
    float line[lanes][part];
    for (std::size_t p = 0; p < length; p += part) {
      const std::size_t count = length - p < part ? length - p : part;
      for (std::size_t j = 0; j < lanes; ++j)
        decode_values<stored_features>(side, {lane_column(col, live, j), 1, k + p, count}, line[j]);
      for (std::size_t i = 0; i < count; i += 16) {
        f32 v[16];
        load_transposed(line[0] + i, part, v);
        for (std::size_t j = 0; j < 16 && i + j < count; ++j) store(value + (p + i + j) * cols, v[j]);
      }
    }
  }

  static void fold(std::size_t block, std::size_t length, float* value, float* scale) {
    for (std::size_t b = 0; b < length / block; ++b, scale += cols)
      for (std::size_t c = 0; c < cols; c += lanes) {
        const f32 by = load(scale + c);
        for (std::size_t k = 0; k < block; ++k) {
          float* at = value + (b * block + k) * cols + c;
          store(at, round_bf16(load(at) * by) & 0xFFFF0000u);
        }
        store(scale + c, broadcast(1.0f));
      }
  }

  // ---- The register tile.

  static void multiply(const gemm_job& job, const std::byte* left, const std::byte* right, std::size_t live,
                       std::size_t length, float* acc, std::size_t stride) {
    const auto* a = reinterpret_cast<const float*>(left);
    const auto *b = reinterpret_cast<const float*>(right), *scale = b + length * cols;
    const std::size_t blocks = length / job.block, next = left_bytes(job, job.padded());
    if (live == 1) return multiply_rows<1>(job.block, blocks, next, a, b, scale, acc, stride);
    if (live == 2) return multiply_rows<2>(job.block, blocks, next, a, b, scale, acc, stride);
    if (live <= 4) return multiply_rows<4>(job.block, blocks, next, a, b, scale, acc, stride);
    return multiply_rows<rows>(job.block, blocks, next, a, b, scale, acc, stride);
  }

  /// `next`: where the tile begins that will be multiplied after this one; it is prefetched.
  template <std::size_t height>
  static void multiply_rows(std::size_t block, std::size_t blocks, std::size_t next, const float* left,
                            const float* right, const float* scale, float* acc, std::size_t stride) {
    for (std::size_t n = 0; n < blocks; ++n, left += rows * (block + 1), scale += cols) {
      if constexpr (height == rows)
        for (std::size_t i = 0; i < rows * (block + 1); i += 16)
          __builtin_prefetch(reinterpret_cast<const std::byte*>(left + i) + next);
      f32 d[height][registers];
#pragma GCC unroll 6
      for (std::size_t r = 0; r < height; ++r)
#pragma GCC unroll 4
        for (std::size_t c = 0; c < registers; ++c) d[r][c] = f32{};
      for (std::size_t k = 0; k < block; ++k, right += cols) {
        f32 b[registers];
#pragma GCC unroll 4
        for (std::size_t c = 0; c < registers; ++c) b[c] = load(right + c * lanes);
#pragma GCC unroll 6
        for (std::size_t r = 0; r < height; ++r) {
          const f32 a = load_broadcast(left + r * block + k);
#pragma GCC unroll 4
          for (std::size_t c = 0; c < registers; ++c) d[r][c] = fma(a, b[c], d[r][c]);
        }
      }
#pragma GCC unroll 6
      for (std::size_t r = 0; r < height; ++r) {
        const f32 by = load_broadcast(left + rows * block + r);
#pragma GCC unroll 4
        for (std::size_t c = 0; c < registers; ++c) {
          float* at = acc + r * stride + c * lanes;
          store(at, fma(d[r][c], rounded(by * load(scale + c * lanes)), load(at)));
        }
      }
    }
  }
};
template <features needs = features::all>
inline constexpr gemm_kernel gemm_f32_kernel =
    byte_kernel_of<blocked_gemm<f32_gemm>, needs>(isa::UFP4_LANES, UFP4_WITH_LANES("gemm_f32_"), 1, 132, 128);
UFP4_END_LANES
#endif
