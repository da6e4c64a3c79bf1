// ufp4 - gemv_mixed_sm80: fast products of weights in 4 bits with at most 16 rows of bf16 or fp16 ("W4A16").
// SPDX-License-Identifier: Apache-2.0
//
// The unquantized rows are operands of mma m16n8k16 as they are in memory. Weights are decoded in registers to the type
// of the unquantized rows and multiplied by their scales, which is exact: bf16 holds every 8-bit scale times a grid of
// few bits, fp16 e4m3 scales. Tensor scales are applied to the sums. How K and rows are divided:
// gemv_stream_sm80.hpp. Of 128 columns a lane reads 32 codes of each of its rows, and those columns of its unquantized
// rows.
//
// | weights, unquantized rows   | decoding of eight codes                                               | with scales |
// |-----------------------|----------------------------------------------------------------------------|-------------|
// | fp4 types, bf16       | A code is a small float. Seven shifts, and two masks for each pair, make   | 23          |
// |                       | subnormal bf16 numbers; times 2^126 (E3M0: 2^124) they are the values      |             |
// | other grids, bf16     | byte permutes, thread/decode.hpp                                           | 25          |
// | fp4 types, int4; fp16 | as in gemv_f16_sm80.hpp                                                    | 15, 11      |
//
// Except from byte permutes, a pair is codes j and j + 4: unquantized rows are permuted, four instructions for eight
// columns. Scales whose products the type cannot hold, and NaN, are flagged where a code is not zero: the results are
// computed again.
#pragma once

#include <ufp4/cuda/gemv_f16_sm80.hpp>
#include <ufp4/gpu/kernels/folding.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

struct byte_scale {
  std::uint32_t place = 0;           ///< times the byte: the bits of the scale, twice, but for a power of two
  std::uint32_t by = 0, offset = 0;  ///< pairs that this is multiplied with: the scale, and the offset of int4
  std::uint32_t low = 0, high = 0;   ///< pairs of 16 bits: the range of the bytes whose products the type holds
};

struct mixed_stream_job : stream_job {
  thread::half_table values{};  ///< of grids that are decoded by byte permutes
  byte_scale scale{};
  unsigned bits = 1;         ///< mantissa bits of fp4
  std::uint32_t unit = 0;    ///< of fp4 in bf16: a pair that makes the subnormal numbers the values
  float factor = 1;          ///< of the sums
  unsigned block_shift = 4;  ///< log2 of the block length
  const std::uint8_t* unquantized = nullptr;
  std::size_t unquantized_pitch = 0, unquantized_cols = 0;  ///< bytes from row to row, columns
};

struct pairs_bf16 {
  UFP4_DEVICE static std::uint32_t times(std::uint32_t x, std::uint32_t by) { return thread::multiply_bf16(x, by); }
  UFP4_DEVICE static void add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    mma::mma_bf16(d, a, b);
  }
};

struct fp4_to_bf16 : pairs_bf16 {
  static constexpr bool in_order = false;
  unsigned bits;
  std::uint32_t unit;
  UFP4_DEVICE explicit fp4_to_bf16(const mixed_stream_job& job) : bits(job.bits), unit(job.unit) {}
  UFP4_DEVICE void fold(std::uint32_t codes, const f16_scale& scale, std::uint32_t (&pairs)[4]) const {
    const std::uint32_t magnitudes = 0x00070007u << (7 - bits);
    UFP4_UNROLL
    for (unsigned j = 0; j < 4; ++j) {
      const std::uint32_t top = codes << (12 - 4 * j);
      pairs[j] = times(times((top & 0x80008000u) | (top >> (5 + bits) & magnitudes), unit), scale.by);
    }
  }
};
struct grid_to_bf16 : pairs_bf16 {
  static constexpr bool in_order = true;
  thread::half_table values;
  UFP4_DEVICE explicit grid_to_bf16(const mixed_stream_job& job) : values(job.values) {}
  UFP4_DEVICE void fold(std::uint32_t codes, const f16_scale& scale, std::uint32_t (&pairs)[4]) const {
    thread::decode8_halves(values, codes, pairs);
    UFP4_UNROLL
    for (std::uint32_t& pair : pairs) pair = times(pair, scale.by);
  }
};

template <class Shape>
struct mixed_part {
  static constexpr unsigned weight_rows = 2 * Shape::tiles;
  thread::words4 codes[weight_rows];
  std::uint32_t scales[weight_rows];  ///< of the first 16 columns in the lower half, of the others in the upper
  thread::words4 unquantized[Shape::groups][4];
};

/// Where a lane reads: addresses of row 0, and rows.
template <class Shape>
struct unquantized_rows {
  static constexpr unsigned weight_rows = 2 * Shape::tiles;
  const std::uint8_t *codes, *scales, *unquantized;
  std::uint32_t pitch, unquantized_pitch;  ///< of codes and of unquantized rows, in bytes
  unsigned block_shift;
  std::uint32_t row[weight_rows], scale_row[weight_rows], unquantized_row[Shape::groups];

  UFP4_DEVICE unquantized_rows(const mixed_stream_job& job, std::size_t first_row)
      : codes(job.weights.codes),
        scales(job.weights.scales),
        unquantized(job.unquantized),
        pitch(static_cast<std::uint32_t>(job.padded / 2)),
        unquantized_pitch(static_cast<std::uint32_t>(job.unquantized_pitch)),
        block_shift(job.block_shift) {
    UFP4_UNROLL
    for (unsigned i = 0; i < weight_rows; ++i) {
      row[i] = static_cast<std::uint32_t>(job.weights.row(first_row + 8 * i + warp::row_of_lane()));
      scale_row[i] = row[i] >> job.weights.rows_shift;
    }
    UFP4_UNROLL
    for (unsigned n = 0; n < Shape::groups; ++n)
      unquantized_row[n] = static_cast<std::uint32_t>(job.narrow.row(8 * n + warp::row_of_lane()));
  }

  /// Columns k .. k + 31, which are inside the weights' K; inside(w): are columns k + 8 w on inside the unquantized
  /// rows?
  template <class Inside>
  UFP4_DEVICE void load(std::uint32_t k, mixed_part<Shape>& to, const Inside& inside) const {
    const std::uint32_t first = k >> block_shift, second = (k + 16) >> block_shift;
    UFP4_UNROLL
    for (unsigned i = 0; i < weight_rows; ++i) {
      to.codes[i] = *reinterpret_cast<const thread::words4*>(codes + ufp4::detail::wide_product(row[i], pitch) + k / 2);
      const std::uint8_t* at = scales + ufp4::detail::wide_product(scale_row[i], 2 * pitch >> block_shift);
      to.scales[i] = at[first] | std::uint32_t{at[second]} << 16;
    }
    UFP4_UNROLL
    for (unsigned n = 0; n < Shape::groups; ++n) {
      const auto* at = reinterpret_cast<const thread::words4*>(
          unquantized + ufp4::detail::wide_product(unquantized_row[n], unquantized_pitch) + 2 * std::size_t{k});
      UFP4_UNROLL
      for (unsigned w = 0; w < 4; ++w) to.unquantized[n][w] = inside(w) ? at[w] : thread::words4{};
    }
  }
};

template <class Decoding>
UFP4_DEVICE Decoding decoding_of(const mixed_stream_job& job) {
  if constexpr (std::is_constructible_v<Decoding, unsigned>)
    return Decoding(job.bits);
  else
    return Decoding(job);
}

template <class Shape, class Decoding>
struct mixed_streamer {
  static constexpr unsigned weight_rows = 2 * Shape::tiles;
  const Decoding decoding;
  const byte_scale how;
  const unquantized_rows<Shape> rows;
  stream_sums<Shape> sums{};
  bool unfit = false;

  UFP4_DEVICE mixed_streamer(const mixed_stream_job& job, std::size_t first_row)
      : decoding(decoding_of<Decoding>(job)), how(job.scale), rows(job, first_row) {}

  UFP4_DEVICE f16_scale scale_of(std::uint32_t byte) const {
    const std::uint32_t placed = byte * how.place;
    return {Decoding::times(placed, how.by), Decoding::times(placed, how.offset)};
  }
  /// Flags scales that are too large, and too small ones of codes that are not zero.
  UFP4_DEVICE void check_scales(const mixed_part<Shape>& from) {
    std::uint32_t outside = 0;
    UFP4_UNROLL
    for (unsigned i = 0; i < weight_rows; ++i) outside |= (from.scales[i] - how.low) | (how.high - from.scales[i]);
    if ((outside & 0x80008000u) == 0) return;
    UFP4_UNROLL
    for (unsigned i = 0; i < weight_rows; ++i) {  // rare, but for zeros, which may have any scale
      const thread::words4& c = from.codes[i];
      const std::uint32_t any = c.word[0] | c.word[1] | c.word[2] | c.word[3];
      const std::uint32_t below = any != 0 ? from.scales[i] - how.low : 0u;
      unfit = unfit || ((below | (how.high - from.scales[i])) & 0x80008000u) != 0;
    }
  }
  /// Columns 8 w .. 8 w + 7 of an unquantized row in the order of the pairs.
  UFP4_DEVICE static thread::words4 in_pairs(const thread::words4& x) {
    if constexpr (Decoding::in_order) {
      return x;
    } else {
      thread::words4 pairs;
      UFP4_UNROLL
      for (unsigned j = 0; j < 4; ++j)
        pairs.word[j] = thread::byte_permute(x.word[j / 2], x.word[2 + j / 2], j % 2 == 0 ? 0x5410u : 0x7632u);
      return pairs;
    }
  }
  UFP4_DEVICE void multiply(const mixed_part<Shape>& from) {
    check_scales(from);
    UFP4_UNROLL
    for (unsigned block = 0; block < 2; ++block) {
      f16_scale scale[weight_rows];
      UFP4_UNROLL
      for (unsigned i = 0; i < weight_rows; ++i)
        scale[i] = scale_of(block == 0 ? from.scales[i] & 0xFFu : from.scales[i] >> 16);
      UFP4_UNROLL
      for (unsigned w = 2 * block; w < 2 * block + 2; ++w) multiply(from, w, scale);
    }
  }
  UFP4_DEVICE void multiply(const mixed_part<Shape>& from, unsigned w, const f16_scale (&scale)[weight_rows]) {
    std::uint32_t a[weight_rows][4];
    UFP4_UNROLL
    for (unsigned i = 0; i < weight_rows; ++i) decoding.fold(from.codes[i].word[w], scale[i], a[i]);
    UFP4_UNROLL
    for (unsigned n = 0; n < Shape::groups; ++n)
      add_products<Decoding>(sums, n, a, in_pairs(from.unquantized[n][w]).word);
  }

  UFP4_DEVICE void run(std::size_t padded, std::size_t unquantized_cols) {
    const unsigned first_k = thread_index().x / 32 * 128 + 32 * warp::word_of_lane();
    const auto whole = static_cast<std::uint32_t>(unquantized_cols / 1024 * 1024);
    stream_slabs<mixed_part<Shape>>(
        padded,
        [&](mixed_part<Shape>& to, unsigned slab) {
          const std::uint32_t k = slab * 1024 + first_k;
          if (slab * 1024 < whole) return rows.load(k, to, [](unsigned) { return true; });
          to = {};
          if (k < padded) rows.load(k, to, [&](unsigned w) { return k + 8 * w < unquantized_cols; });
        },
        [&](const mixed_part<Shape>& from) { multiply(from); });
  }
};

template <unsigned groups, class Decoding>
UFP4_KERNEL(256, groups < 2 ? 2 : 1)
gemv_mixed(UFP4_PARAMETER mixed_stream_job job) {
  using shape = stream_shape<2, groups>;
  const std::size_t first_row = std::size_t{block_index().x} * shape::rows;
  mixed_streamer<shape, Decoding> streamer(job, first_row);
  streamer.run(job.padded, job.unquantized_cols);
  store_stream(job, first_row, streamer.sums, streamer.unfit, job.factor);
}

/// Sets the range of the bytes whose scales are in a range; 0 is in it if every other scale is that small.
inline void set_range(byte_scale& scale, const gemm_side& side, const scale_range& safe) {
  const std::uint32_t most = ufp4::detail::max_scale(side.scale);
  const auto value = [&](std::uint32_t byte) { return ufp4::detail::decode_scale(side.scale, byte); };
  const std::uint32_t first = value(0) == 0.0f ? 1 : 0;
  std::uint32_t low = first, high = most;
  while (low < most && value(low) < safe.low) ++low;
  while (high > low && value(high) > safe.high) --high;
  scale.low = (low == first ? 0 : low) * 0x10001u, scale.high = high * 0x10001u;
}
inline std::uint32_t bf16_power(int e) {
  return static_cast<std::uint32_t>(e + 127) << 7 | static_cast<std::uint32_t>(e + 127) << 23;
}

inline byte_scale bf16_scale_of(const gemm_side& side) {
  byte_scale scale{.place = side.scale == scale_kind::e8m0 ? 0x00800080u : 0x00100010u,
                   .by = bf16_power(side.scale == scale_kind::e4m3    ? 120
                                    : side.scale == scale_kind::ue5m3 ? 112
                                                                      : 0)};
  set_range(scale, side, safe_scales(side.grid));
  return scale;
}
/// Of e4m3: 2^15 and 0, or for int4 2^4 and -72 * 2^8, as f16_scale::of.
inline byte_scale f16_scale_of(const gemm_side& side, bool integers) {
  byte_scale scale{
      .place = 0x00800080u, .by = integers ? 0x4C004C00u : 0x78007800u, .offset = integers ? 0xF480F480u : 0u};
  set_range(scale, side, {0.0f, 448.0f});
  return scale;
}

inline bool decodes_to(dtype type, const gemm_side& weights) {
  if (type == dtype::fp16) return f16_decoding_of(weights).fits;
  return type == dtype::bf16 && ufp4::detail::scale_bytes(weights.scale) == 1 && weights.grid.value[0] == 0.0f &&
         folds(weights, accumulate::fast);
}

inline bool gemv_mixed_takes(const gemm_job& job, const device_facts& facts) {
  const bool swapped = job.left.is_quantized;
  const gemm_side &weights = swapped ? job.left : job.right, &narrow = swapped ? job.right : job.left;
  const auto& x = narrow.unquantized;
  return facts.has(80) && facts.wave == 32 && job.mode != accumulate::exact_blocks && weights.is_quantized &&
         !narrow.is_quantized && narrow.rows <= 16 && decodes_to(x.kind, weights) && job.block >= 16 &&
         job.padded() % 32 == 0 && job.padded() < std::size_t{1} << 31 && is_aligned(weights.codes, 16) &&
         narrow.transform.n == 1 && (x.kind == dtype::bf16 || !narrow.rounds_unquantized_to_bf16) &&
         x.col_stride == 1 && x.row_stride >= 0 && x.row_stride < std::ptrdiff_t{1} << 31 && x.row_stride % 8 == 0 &&
         x.cols % 8 == 0 && is_aligned(x.data, 16);
}

template <class Product, class Decoding>
error queue_gemv_mixed(const mixed_stream_job& job, stream where) {
  if constexpr (Product::may(&has_unquantized)) {
    if (job.narrow.rows > 8) return launch_stream<stream_shape<2, 2>>(listed<&gemv_mixed<2, Decoding>>, job, where);
    return launch_stream<stream_shape<2, 1>>(listed<&gemv_mixed<1, Decoding>>, job, where);
  }
  return not_supported;
}
template <class Product>
error run_gemv_mixed(const gemm_job& job, const device_facts&, std::span<std::byte>, stream where) {
  const bool swapped = job.left.is_quantized;
  const gemm_side &weights = swapped ? job.left : job.right, &narrow = swapped ? job.right : job.left;
  mixed_stream_job stream;
  stream.weights = stream_side_of(weights);
  stream.narrow.rows = narrow.rows;
  stream.padded = job.padded();
  stream.swapped = swapped;
  stream.product = job;
  stream.block_shift = log2_of(job.block);
  stream.unquantized = static_cast<const std::uint8_t*>(narrow.unquantized.data);
  stream.unquantized_pitch = 2 * static_cast<std::size_t>(narrow.unquantized.row_stride);
  stream.unquantized_cols = narrow.unquantized.cols;
  const f16_decoding elements = fp4_or_int4(weights.grid);
  stream.bits = elements.bits;
  if (narrow.unquantized.kind == dtype::fp16) {
    stream.scale = f16_scale_of(weights, elements.integers);
    stream.factor = elements.factor;
    return elements.integers ? queue_gemv_mixed<Product, int4_to_f16>(stream, where)
                             : queue_gemv_mixed<Product, fp4_to_f16>(stream, where);
  }
  stream.scale = bf16_scale_of(weights);
  stream.unit = bf16_power(elements.bits == 0 ? 124 : 126);
  stream.values = thread::bf16_table_of(weights.grid);
  if (elements.fits && !elements.integers) return queue_gemv_mixed<Product, fp4_to_bf16>(stream, where);
  return queue_gemv_mixed<Product, grid_to_bf16>(stream, where);
}

template <class Product = any_product>
inline constexpr gemm_kernel gemv_mixed_sm80 = {"gemv_mixed_sm80", "mma.sync.m16n8k16",     16, 32,
                                                &gemv_mixed_takes, &run_gemv_mixed<Product>};

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
