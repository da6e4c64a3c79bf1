// ufp4 - quantized_gemm in binary32: what the integer kernels of AVX2 and NEON do not take.
// SPDX-License-Identifier: Apache-2.0
//
// A column of C a lane. d is the chain of fma over a block, from +0 in index order, and acc = fma(d, fl(sA * sB), acc):
// exact_blocks of plain operands and of grids whose products are not exact, and for exact grids the exact dot product,
// because no partial sum needs more than 24 bits. fast is the same; in folded_bf16 the panels hold value * scale,
// rounded to bf16, and scales of 1.
//
// | left, a tile  | for each block: rows x (block) values, then rows scales |
// | right, a tile | for each k: cols values; then for each block cols scales |

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

  static constexpr std::size_t piece = 256;  ///< k that are decoded at a time: whole blocks and whole transforms

  static void pack_left(const gemm_job& job, std::size_t row, std::size_t live, std::size_t k, std::size_t length,
                        std::byte* out) {
    const std::size_t height = block_floats(job);
    auto* to = reinterpret_cast<float*>(out);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t p = 0; p < length; p += piece) {
        const std::size_t count = length - p < piece ? length - p : piece, blocks = count / job.block;
        float value[piece] = {}, scale[piece / 2] = {};
        if (r < live) left_piece(job, row + r, k + p, count, value, scale);
        for (std::size_t b = 0; b < blocks; ++b) {
          float* block = to + (p / job.block + b) * height;
          for (std::size_t i = 0; i < job.block; ++i) block[r * job.block + i] = value[b * job.block + i];
          block[rows * job.block + r] = scale[b];
        }
      }
  }
  static std::size_t block_floats(const gemm_job& job) { return rows * (job.block + 1); }

  static void left_piece(const gemm_job& job, std::size_t row, std::size_t k, std::size_t count, float* value,
                         float* scale) {
    const panel line{row, 1, k, count};
    row_scales(job.left, row, k / job.block, count / job.block, scale);
    decode_values(job.left, line, value);
    if (job.mode == accumulate::folded_bf16) fold_to_bf16(line, job.block, scale, value);
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
      if (job.right.is_quantized)
        right_codes(job.right.q, col + first, live - first, k, length, value + c);
      else
        right_plain(job.right.plain, col + first, live - first, k, length, value + c);
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

  static void right_plain(const quantize_job& plain, std::size_t col, std::size_t live, std::size_t k,
                          std::size_t length, float* value) {
    float line[piece];
    for (std::size_t j = 0; j < lanes; ++j)
      for (std::size_t p = 0; p < length; p += piece) {
        const std::size_t count = length - p < piece ? length - p : piece;
        load_plain(plain, {lane_column(col, live, j), 1, k + p, count}, line);
        for (std::size_t i = 0; i < count; ++i) value[(p + i) * cols + j] = line[i];
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
    switch (live) {
      case 1: return multiply_rows<1>(job.block, blocks, next, a, b, scale, acc, stride);
      case 2: return multiply_rows<2>(job.block, blocks, next, a, b, scale, acc, stride);
      case 3:
      case 4: return multiply_rows<4>(job.block, blocks, next, a, b, scale, acc, stride);
      default: return multiply_rows<rows>(job.block, blocks, next, a, b, scale, acc, stride);
    }
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
