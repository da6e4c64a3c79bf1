// ufp4 - gemv_dots_sm80: quantized_gemm, fast, with at most 16 rows on one side and binary32 or e8m0 scales.
// SPDX-License-Identifier: Apache-2.0
//
// For scales that the operands of an mma cannot hold. Elements are small integers times a power of two: mma.sync
// m16n8k32 gives the exact dot products of blocks of signed bytes, as floats after one subtraction
// (gemm_blocks_sm80.hpp). Then acc = fma(d, fl(sA sB), acc), as in exact_blocks, in the order of gemv_stream_sm80.hpp.
//
// A warp multiplies 32 columns at a time. A lane has one word, eight codes, of each row (fragments_sm80.hpp), so an
// instruction sums a block of 32. Blocks of 16 are in the lanes with t < 2 and in the others: columns 0 .. 3 of the mma
// are four narrow rows with the second half of K set to zero, columns 4 .. 7 the same rows without the first half. Of
// every scale, a lane loads what its own four sums need.
//
// Products of scales that overflow give sums that are not finite, which are computed again; so is what has a NaN scale.
//
// Predicted rates: docs/gpu.md.
#pragma once

#include <ufp4/cuda/gemm_blocks_sm80.hpp>
#include <ufp4/cuda/gemv_stream_sm80.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

struct dots_stream_job : stream_job {
  thread::byte_table weight_values{}, narrow_values{};
  std::uint32_t magic = 0;  ///< dot_magic
};

/// Four steps of 32 columns: a lane's words of `rows` rows, and the scales of `sums` rows of its sums.
template <unsigned rows, unsigned sums>
struct dots_part {
  std::uint32_t codes[rows][4], scales[sums][4];
};

/// Where a lane reads. Kind: of the scales, binary32 of blocks of 16 or e8m0 of blocks of 32.
template <scale_kind kind, unsigned rows, unsigned sums>
struct dots_rows {
  static constexpr unsigned block = kind == scale_kind::f32 ? 16 : 32, scale_bytes = kind == scale_kind::f32 ? 4 : 1;
  static constexpr unsigned step_bytes = 32 / block * scale_bytes;  ///< of scales
  const std::uint8_t *codes[rows], *scales[sums];

  /// row(i): the row of word i; sum(i): the row of scale i.
  template <class Row, class Sum>
  UFP4_DEVICE dots_rows(const stream_side& side, std::size_t padded, const Row& row, const Sum& sum) {
    const unsigned warp = thread_index().x / 32, t = warp::word_of_lane();
    UFP4_UNROLL
    for (unsigned i = 0; i < rows; ++i) codes[i] = side.codes + side.row(row(i)) * (padded / 2) + 64 * warp + 4 * t;
    UFP4_UNROLL
    for (unsigned i = 0; i < sums; ++i)
      scales[i] = side.scales + (side.row(sum(i)) >> side.rows_shift) * (padded / block) * scale_bytes +
                  warp * 4 * step_bytes + (block == 16 ? t / 2 * scale_bytes : 0);
  }
  UFP4_DEVICE std::uint32_t code_word(unsigned i, unsigned step) const {
    return reinterpret_cast<const thread::words1*>(codes[i] + 16 * step)->word;
  }
  UFP4_DEVICE std::uint32_t scale_bits(unsigned i, unsigned step) const {
    const std::uint8_t* at = scales[i] + step * step_bytes;
    if constexpr (kind == scale_kind::f32)
      return reinterpret_cast<const thread::words1*>(at)->word;
    else
      return *at;
  }
  /// codes_inside(step), scales_inside(step): is this lane's part of the step within K?
  template <class Codes, class Scales>
  UFP4_DEVICE void load(dots_part<rows, sums>& to, const Codes& codes_inside, const Scales& scales_inside) const {
    UFP4_UNROLL
    for (unsigned step = 0; step < 4; ++step) {
      UFP4_UNROLL
      for (unsigned i = 0; i < rows; ++i) to.codes[i][step] = codes_inside(step) ? code_word(i, step) : 0u;
      UFP4_UNROLL
      for (unsigned i = 0; i < sums; ++i) to.scales[i][step] = scales_inside(step) ? scale_bits(i, step) : 0u;
    }
  }
  UFP4_DEVICE void advance() {
    UFP4_UNROLL
    for (const std::uint8_t*& at : codes) at += 512;
    UFP4_UNROLL
    for (const std::uint8_t*& at : scales) at += 32 * step_bytes;
  }
};

/// A scale; of e8m0 twice the scale, so that it is normal, or -0 for NaN.
template <scale_kind kind>
UFP4_DEVICE float stream_scale(std::uint32_t bits) {
  return to_float(kind == scale_kind::f32 ? bits : (bits + 1) << 23);
}

template <scale_kind kind, class Shape>
struct dots_streamer {
  using weight_rows = dots_rows<kind, 2 * Shape::tiles, 2 * Shape::tiles>;
  using narrow_rows = dots_rows<kind, Shape::groups, 2 * Shape::groups>;
  static constexpr unsigned in_group = Shape::halves ? 4 : 8;
  struct buffer {
    dots_part<2 * Shape::tiles, 2 * Shape::tiles> weights;
    dots_part<Shape::groups, 2 * Shape::groups> narrow;
  };
  thread::byte_table weight_values, narrow_values;
  std::uint32_t magic;
  weight_rows weights;
  narrow_rows narrow;
  stream_sums<Shape> sums{};
  std::uint32_t signs = 0;

  UFP4_DEVICE dots_streamer(const dots_stream_job& job, std::size_t first_row)
      : weight_values(job.weight_values),
        narrow_values(job.narrow_values),
        magic(job.magic),
        weights(
            job.weights, job.padded, [&](unsigned i) { return first_row + 8 * i + warp::row_of_lane(); },
            [&](unsigned i) { return first_row + 8 * i + warp::row_of_lane(); }),
        narrow(
            job.narrow, job.padded,
            [&](unsigned i) { return std::size_t{in_group * i + warp::row_of_lane() % in_group}; },
            [&](unsigned i) { return std::size_t{i / 2 * in_group + 2 * warp::word_of_lane() % in_group + i % 2}; }) {}

  template <unsigned rows, unsigned count>
  UFP4_DEVICE void take_scales(const dots_part<rows, count>& from, unsigned step, float (&to)[count]) {
    UFP4_UNROLL
    for (unsigned i = 0; i < count; ++i) {
      to[i] = stream_scale<kind>(from.scales[i][step]);
      if constexpr (kind == scale_kind::e8m0) signs |= to_bits(to[i]);
    }
  }
  UFP4_DEVICE void multiply(const buffer& from) {
    UFP4_UNROLL
    for (unsigned step = 0; step < 4; ++step) {
      float of[2 * Shape::tiles], by[2 * Shape::groups];
      take_scales(from.weights, step, of);
      take_scales(from.narrow, step, by);
      std::uint32_t b[Shape::groups][2];
      UFP4_UNROLL
      for (unsigned n = 0; n < Shape::groups; ++n) {
        warp::right_s8(narrow_values, from.narrow.codes[n][step], b[n]);
        if constexpr (Shape::halves) warp::of_half(warp::row_of_lane() / 4, b[n], b[n]);
      }
      UFP4_UNROLL
      for (unsigned m = 0; m < Shape::tiles; ++m) {
        std::uint32_t a[4];
        warp::left_s8(weight_values, from.weights.codes[2 * m][step], from.weights.codes[2 * m + 1][step], a);
        UFP4_UNROLL
        for (unsigned n = 0; n < Shape::groups; ++n) {
          const auto start = static_cast<std::int32_t>(magic);
          std::int32_t d[4] = {start, start, start, start};
          mma::mma_s8_k32(d, a, b[n]);
          UFP4_UNROLL
          for (unsigned i = 0; i < 4; ++i) {
            const float dot = to_float(static_cast<std::uint32_t>(d[i])) - to_float(magic);
            sums.acc[m][n][i] = fma(dot, of[2 * m + i / 2] * by[2 * n + i % 2], sums.acc[m][n][i]);
          }
        }
      }
    }
  }

  UFP4_DEVICE void run(std::size_t padded) {
    const unsigned first_k = thread_index().x / 32 * 128;
    const auto load = [&](buffer& to, unsigned slab) {
      const std::size_t k = std::size_t{slab} * 1024 + first_k;
      const auto everywhere = [](unsigned) { return true; };
      const auto codes = [&](unsigned step) { return k + 32 * step + 8 * warp::word_of_lane() < padded; };
      const auto scales = [&](unsigned step) {
        return k + 32 * step + (Shape::halves ? warp::word_of_lane() / 2 * 16 : 0) < padded;
      };
      if ((std::size_t{slab} + 1) * 1024 <= padded) {
        weights.load(to.weights, everywhere, everywhere);
        narrow.load(to.narrow, everywhere, everywhere);
      } else {
        weights.load(to.weights, codes, scales);
        narrow.load(to.narrow, codes, scales);
      }
      weights.advance(), narrow.advance();
    };
    stream_slabs<buffer>(padded, load, [&](const buffer& from) { multiply(from); });
  }
};

template <scale_kind kind, unsigned tiles, unsigned groups>
UFP4_KERNEL(256, tiles* groups == 1 ? 2 : 1)
gemv_dots(UFP4_PARAMETER dots_stream_job job) {
  using shape = stream_shape<tiles, groups, kind == scale_kind::f32>;
  const std::size_t first_row = std::size_t{block_index().x} * shape::rows;
  dots_streamer<kind, shape> streamer(job, first_row);
  streamer.run(job.padded);
  constexpr float factor = kind == scale_kind::e8m0 ? 0.25f : 1.0f;
  store_stream(job, first_row, streamer.sums, (streamer.signs >> 31) != 0, factor);
}

/// Both sides have blocks of 16 with binary32 scales and at most 8 narrow rows, or blocks of 32 with e8m0 scales.
inline bool gemv_dots_takes(const gemm_job& job, const device_facts& facts) {
  const auto has_blocks = [&](scale_kind kind, unsigned block, unsigned rows) {
    return job.left.scale == kind && job.right.scale == kind && job.block == block && narrow_rows(job) <= rows;
  };
  return facts.has(80) && facts.wave == 32 && job.mode == accumulate::fast && byte_dots_are_exact(job) &&
         (has_blocks(scale_kind::f32, 16, 8) || has_blocks(scale_kind::e8m0, 32, 16)) &&
         is_aligned(job.left.codes, 4) && is_aligned(job.right.codes, 4);
}

/// Two tiles and two groups of columns fit in registers with e8m0 scales only.
template <scale_kind kind>
error queue_gemv_dots(const dots_stream_job& job, bool two_tiles, stream where) {
  constexpr bool halves = kind == scale_kind::f32;
  const auto queue = [&]<unsigned tiles, unsigned groups>(stream_shape<tiles, groups, halves> shape) {
    return launch_stream<decltype(shape)>(listed<&gemv_dots<kind, tiles, groups>>, job, where);
  };
  if (job.narrow.rows <= (halves ? 4 : 8))
    return two_tiles ? queue(stream_shape<2, 1, halves>{}) : queue(stream_shape<1, 1, halves>{});
  if constexpr (!halves)
    if (two_tiles) return queue(stream_shape<2, 2, halves>{});
  return queue(stream_shape<1, 2, halves>{});
}
template <class Product>
error run_gemv_dots(const gemm_job& job, const device_facts& facts, std::span<std::byte>, stream where) {
  const bool swapped = weights_are_left(job), wide = streams_two_tiles(job, facts);
  const gemm_side &weights = swapped ? job.left : job.right, &narrow = swapped ? job.right : job.left;
  const dots_stream_job stream{stream_job_of(job), thread::s8_table_of(weights.grid), thread::s8_table_of(narrow.grid),
                               dot_magic(job)};
  if constexpr (Product::may([](const gemm_job& p) { return p.block == 16 && p.left.scale == scale_kind::f32; }))
    if (job.block == 16) return queue_gemv_dots<scale_kind::f32>(stream, wide, where);
  if constexpr (Product::may([](const gemm_job& p) { return p.block == 32 && p.left.scale == scale_kind::e8m0; }))
    return queue_gemv_dots<scale_kind::e8m0>(stream, wide, where);
  return not_supported;
}

template <class Product = any_product>
inline constexpr gemm_kernel gemv_dots_sm80 = {"gemv_dots_sm80", "mma.sync.m16n8k32.s8", 16, 32,
                                               &gemv_dots_takes, &run_gemv_dots<Product>};

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
