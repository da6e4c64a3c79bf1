// ufp4 - operands for libraries that multiply: bf16 with the scales folded in, or scales in the 128x4 layout and codes.
// SPDX-License-Identifier: Apache-2.0
//
// decode_bf16 makes a plain bf16 matrix in device memory:
//
// | exact   | if value * scale has at most 8 significant bits (products_fit): 8-bit scales and the usual grids |
// | rounded | to nearest even otherwise: folded_bf16 only                                                      |
// | range   | a product of finite factors that is not a normal bf16 number below `limit` sets a flag in device |
// |         | memory; the multiplication is then not used (finish_product)                         |
// | NaN     | a scale of NaN makes its block NaN                                                               |
//
// Libraries for block-scaled matrices take E2M1 codes as they are, other grids as E4M3 bytes (thread/decode.hpp).
#pragma once

#include <ufp4/block/layouts.hpp>
#include <ufp4/gpu/kernels/folding.hpp>
#include <ufp4/gpu/thread/elements.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

/// Where two operands are in a workspace: offsets in bytes, of the left one, of the right one.
struct operand_plan {
  std::size_t elements[2] = {}, scales[2] = {}, total = 0;

  std::size_t add(std::size_t bytes) {
    const std::size_t at = total;
    total += (bytes + 255) / 256 * 256;
    return at;
  }
};

inline constexpr unsigned decode_threads = 256, decode_steps = 4;

struct decode_bf16_job {
  gemm_side side{};
  unsigned block_shift = 4;        ///< log2 of the block length along K, at least 3
  bool rounds = false;             ///< some product may have more than 8 significant bits; always if not quantized
  bool folds = true;               ///< multiplies by the scales; else the values of the codes alone
  std::uint32_t least = 0x0080u;   ///< bf16 bits: products other than 0 must not be smaller in magnitude,
  std::uint32_t limit = 0x7F80u;   ///< and must be smaller than this
  scale_range safe{};              ///< scales whose products are in that range
  std::uint16_t* out = nullptr;    ///< rows x padded_cols bf16, packed, aligned to 16 bytes
  std::uint32_t* unfit = nullptr;  ///< set to 1

  UFP4_HD std::size_t row_eights() const { return side.padded_cols / 8; }
  UFP4_HD std::size_t eights() const { return side.rows * row_eights(); }
};

UFP4_DEVICE std::uint32_t load_word(const std::uint8_t* p) {
  if (reinterpret_cast<std::uintptr_t>(p) % 4 == 0) {
    std::uint32_t word;
    __builtin_memcpy(&word, __builtin_assume_aligned(p, 4), 4);
    return word;
  }
  return p[0] | std::uint32_t{p[1]} << 8 | std::uint32_t{p[2]} << 16 | std::uint32_t{p[3]} << 24;
}

UFP4_DEVICE float scale_of_eight(const decode_bf16_job& job, std::size_t at) {
  if (!job.folds) return 1.0f;
  const std::size_t block = at >> (job.block_shift - 3);  // rows hold whole blocks
  if (job.side.block_rows == 1) return thread::scale_at(job.side.scale, job.side.scales, block);
  const std::size_t across = job.side.padded_cols >> job.block_shift;
  const thread::grid_place place = thread::split(block, static_cast<std::uint32_t>(across));
  return thread::scale_at(job.side.scale, job.side.scales, place.row / job.side.block_rows * across + place.sixteen);
}

/// Is a bf16 product of finite factors neither in the job's range nor an exact zero?
UFP4_DEVICE bool is_unfit(const decode_bf16_job& job, std::uint32_t product, float value, float scale) {
  const std::uint32_t m = product & 0x7FFFu;
  return value != 0.0f && scale != 0.0f && (m < job.least || m >= job.limit) && is_finite(value) && is_finite(scale);
}

template <class Value>
UFP4_DEVICE thread::words4 eight_products(const decode_bf16_job& job, float scale, const Value& value) {
  thread::words4 out;
  const float size = magnitude(scale);
  const bool safe = size >= job.safe.low && size <= job.safe.high;
  bool unfit = false;
  UFP4_UNROLL
  for (unsigned j = 0; j < 4; ++j) {
    std::uint32_t half[2];
    UFP4_UNROLL
    for (unsigned h = 0; h < 2; ++h) {
      const float x = value(2 * j + h), product = rounded(x * scale);
      half[h] = job.rounds ? round_to<bf16>(product).bits() : to_bits(product) >> 16;
      if (!safe) unfit = unfit || is_unfit(job, half[h], x, scale);
    }
    out.word[j] = half[0] | half[1] << 16;
  }
  if (unfit) atomic_max(job.unfit, 1u);
  return out;
}

UFP4_DEVICE thread::words4 round_eight(const decode_bf16_job& job, std::size_t at) {
  const thread::grid_place place = thread::split(at, static_cast<std::uint32_t>(job.row_eights()));
  return eight_products(job, 1.0f, [&](unsigned n) {
    const std::size_t col = std::size_t{place.sixteen} * 8 + n;
    return col < job.side.unquantized.cols ? thread::load(job.side.unquantized, place.row, col) : 0.0f;
  });
}

UFP4_LAZY_KERNEL(decode_threads) decode_bf16(const decode_bf16_job job) {
  auto* table = reinterpret_cast<float*>(shared_memory());
  if (thread_index().x < 16) table[thread_index().x] = job.side.grid.value[thread_index().x];
  sync_block();
  const std::size_t first = std::size_t{block_index().x} * (decode_threads * decode_steps) + thread_index().x;
  auto* out = reinterpret_cast<thread::words4*>(job.out);
  if (!job.side.is_quantized) {
    for (unsigned u = 0; u < decode_steps; ++u)
      if (const std::size_t at = first + u * decode_threads; at < job.eights()) out[at] = round_eight(job, at);
    return;
  }
  std::uint32_t codes[decode_steps] = {};
  float scale[decode_steps] = {};
  UFP4_UNROLL
  for (unsigned u = 0; u < decode_steps; ++u) {
    const std::size_t at = first + u * decode_threads;
    if (at >= job.eights()) continue;
    codes[u] = load_word(job.side.codes + 4 * at);
    scale[u] = scale_of_eight(job, at);
  }
  UFP4_UNROLL
  for (unsigned u = 0; u < decode_steps; ++u) {
    const std::size_t at = first + u * decode_threads;
    if (at < job.eights())
      out[at] = eight_products(job, scale[u], [&](unsigned n) { return table[codes[u] >> (4 * n) & 15u]; });
  }
}

/// Can a side be decoded to bf16 in this mode? `block`: of the product.
inline bool decodes_to_bf16(const gemm_side& side, unsigned block, accumulate mode) {
  if (mode == accumulate::exact_blocks || block < 8) return false;
  if (!side.is_quantized && side.transform.n != 1) return false;
  return mode == accumulate::folded_bf16 || products_fit(side);
}

/// What decode_bf16 makes of a side: whether it folds the scales, and log2 of the magnitudes that it accepts.
struct decoding {
  bool folds = true;
  int least = -126, limit = 128;  ///< products other than 0 are at least 2^least and below 2^limit
};

/// Queues `out` = side as bf16. Sets *unfit to 1, which the caller has cleared, if a product is outside the range.
template <class Use = void>
error queue_decode_bf16(const gemm_side& side, unsigned block, std::uint16_t* out, std::uint32_t* unfit, stream where,
                        const decoding& how = {}) {
  const auto bits = [](int exponent) { return static_cast<std::uint32_t>(exponent + 127) << 7; };
  decode_bf16_job job{.side = side,
                      .block_shift = log2_of(block),
                      .rounds = !side.is_quantized || (how.folds && !products_fit(side)),
                      .folds = how.folds,
                      .least = bits(how.least),
                      .limit = bits(how.limit),
                      .out = out,
                      .unfit = unfit};
  if (side.is_quantized) job.safe = safe_scales(side.grid, how.limit < 127 ? how.limit : 127, how.least);
  return launch_each(listed<&decode_bf16<Use>>, (job.eights() + decode_steps - 1) / decode_steps, decode_threads,
                     16 * sizeof(float), where, job);
}

inline constexpr unsigned swizzle_threads = 128, swizzle_tiles = 8, widen_threads = 256;

struct swizzle_job {
  const std::uint8_t* scales = nullptr;
  std::size_t rows = 0, cols = 0;  ///< of elements, and of scales
  unsigned block_rows = 1;
  bool is_signed = false;          ///< e4m3, of which the library reads seven bits
  std::uint32_t most = 0xFEu;      ///< the largest scale code, besides NaN, that the library can multiply
  std::uint8_t* out = nullptr;     ///< swizzled_size(rows, cols), aligned to 16 bytes
  std::uint32_t* unfit = nullptr;  ///< set to 1 by a negative scale or one above `most`
};

/// Four scales as a word of the layout; 0 outside the matrix.
UFP4_DEVICE std::uint32_t four_scales(const swizzle_job& job, std::size_t row, std::size_t col) {
  std::uint32_t word = 0;
  bool unfit = false;
  for (unsigned j = 0; j < 4; ++j) {
    if (row >= job.rows || col + j >= job.cols) continue;
    std::uint32_t c = job.scales[row / job.block_rows * job.cols + col + j];
    if (job.is_signed) {
      unfit = unfit || (c > 0x80u && c < 0xFFu);
      c &= 0x7Fu;
    }
    unfit = unfit || (c > job.most && c != 0xFFu);
    word |= c << (8 * j);
  }
  if (unfit) atomic_max(job.unfit, 1u);
  return word;
}

/// A block makes eight consecutive tiles of 128 x 4, each thread one row: in eight steps it reads a memory sector.
UFP4_LAZY_KERNEL(swizzle_threads) swizzle_rows(const swizzle_job job) {
  const std::size_t row = std::size_t{block_index().x} * 128 + thread_index().x;
  for (unsigned t = 0; t < swizzle_tiles; ++t) {
    const std::size_t col = (std::size_t{block_index().y} * swizzle_tiles + t) * 4;
    if (col >= job.cols) continue;
    const std::uint32_t word = four_scales(job, row, col);
    __builtin_memcpy(__builtin_assume_aligned(job.out + ufp4::compat::swizzled_index(row, col, job.cols), 4), &word, 4);
  }
}

struct widen_job {
  const std::uint8_t* codes = nullptr;
  std::size_t eights = 0;
  thread::container_table table{};
  std::uint8_t* out = nullptr;  ///< 8 bytes for every eight codes, aligned to 16 bytes
};

UFP4_LAZY_KERNEL(widen_threads) widen_codes(const widen_job job) {
  const std::size_t at = std::size_t{block_index().x} * widen_threads + thread_index().x;
  if (at >= job.eights) return;
  const thread::eight_containers bytes = thread::containers_of(load_word(job.codes + 4 * at), job.table);
  __builtin_memcpy(__builtin_assume_aligned(job.out + 8 * at, 8), &bytes, 8);
}

/// Queues `out` = the 8-bit scales of a side, one row of scales for each row, in the 128x4 layout. E4M3 ends at
/// 448, so a scale of 2^(limit - 9) keeps every element below 2^limit; only e8m0 has larger ones.
template <class Use = void>
error queue_swizzle_scales(const gemm_side& side, unsigned block, std::uint8_t* out, std::uint32_t* unfit, stream where,
                           int limit = 128) {
  const int most = side.scale == scale_kind::e8m0 && limit < 128 ? 127 + limit - 9 : 0xFE;
  const swizzle_job job{static_cast<const std::uint8_t*>(side.scales),
                        side.rows,
                        side.padded_cols / block,
                        side.block_rows,
                        side.scale == scale_kind::e4m3,
                        static_cast<std::uint32_t>(most),
                        out,
                        unfit};
  const std::size_t down = (job.rows + 127) / 128, of_block = 4 * swizzle_tiles;
  const std::size_t across = (job.cols + of_block - 1) / of_block;
  if (down == 0 || across == 0) return success;
  return launch(listed<&swizzle_rows<Use>>, {static_cast<unsigned>(down), static_cast<unsigned>(across)},
                {swizzle_threads}, 0, where, job);
}

/// Queues `out` = the codes of a side as E4M3 bytes, rows x padded_cols.
template <class Use = void>
error queue_widen_codes(const gemm_side& side, std::uint8_t* out, stream where) {
  const widen_job job{side.codes, side.rows * side.padded_cols / 8, thread::container_table_of(side.grid), out};
  return launch_each(listed<&widen_codes<Use>>, job.eights, widen_threads, 0, where, job);
}

// decode_scales: the block scales of an operand as floats, one row of memory for each block along K. If `paired`, each
// sixteen of a row of memory are in the order 0 1 8 9, 2 3 10 11, ...: a lane of mma or wgmma, whose sums of sixteen
// columns are in 2 t, 2 t + 1, 2 t + 8 and 2 t + 9, reads its four at once. A scale that is not accepted sets the flag.

inline constexpr unsigned scales_threads = 128, scales_steps = 4;

struct decode_scales_job {
  gemm_side side{};
  std::size_t blocks = 0;          ///< along K
  std::size_t stride = 0;          ///< floats from block to block: at least the rows, below 2^32
  bool paired = false;             ///< the order of sixteen rows; the stride is then a multiple of sixteen
  scale_range accepted{};          ///< magnitudes
  float* out = nullptr;            ///< blocks x stride; 0 beyond the rows
  std::uint32_t* unfit = nullptr;  ///< set to 1
};

UFP4_HD constexpr std::size_t paired_place(std::size_t row) {
  return row / 16 * 16 + row % 8 / 2 * 4 + row % 16 / 8 * 2 + row % 2;
}

UFP4_LAZY_KERNEL(scales_threads) decode_scales(const decode_scales_job job) {
  const std::size_t at = std::size_t{block_index().x} * scales_threads + thread_index().x;
  const thread::grid_place place = thread::split(at, static_cast<std::uint32_t>(job.stride));
  const std::size_t row = place.sixteen, first = place.row * scales_steps;
  bool unfit = false;
  for (unsigned i = 0; i < scales_steps; ++i) {
    const std::size_t b = first + i;
    if (b >= job.blocks) break;
    float scale = 0;
    if (row < job.side.rows)
      scale = thread::scale_at(job.side.scale, job.side.scales, row / job.side.block_rows * job.blocks + b);
    job.out[b * job.stride + (job.paired ? paired_place(row) : row)] = scale;
    const float size = ufp4::detail::magnitude(scale);
    unfit = unfit || size > job.accepted.high || (size < job.accepted.low && size != 0.0f);
  }
  if (unfit) atomic_max(job.unfit, 1u);
}

/// Queues `out` = the scales of a side, blocks x stride floats. Sets *unfit, which the caller has cleared.
template <class Use = void>
error queue_decode_scales(const gemm_side& side, unsigned block, std::size_t stride, bool paired, float* out,
                          const scale_range& accepted, std::uint32_t* unfit, stream where) {
  const decode_scales_job job{side, side.padded_cols / block, stride, paired, accepted, out, unfit};
  return launch_each(listed<&decode_scales<Use>>, (job.blocks + scales_steps - 1) / scales_steps * stride,
                     scales_threads, 0, where, job);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
