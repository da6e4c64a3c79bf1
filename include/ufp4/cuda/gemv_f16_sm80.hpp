// ufp4 - gemv_f16_sm80, gemm_few_f16_sm80: fast and folded_bf16, at most 64 rows on one side, e4m3 scales, in fp16.
// SPDX-License-Identifier: Apache-2.0
//
// Element x e4m3 scale is exact in fp16, so scales are folded into the operands of mma m16n8k16 by one multiplication
// for each pair, and tensor scales are applied to the sums. How K and rows are divided: gemv_stream_sm80.hpp. Of 128
// columns a lane reads 32 codes of each of its rows with one load of 16 bytes, and their two scales with another. Pair
// j of a word holds codes j and j + 4; an mma takes two pairs of every lane, the same of both operands.
//
// | elements  | decoding of eight codes                                                               | with scales |
// |-----------|---------------------------------------------------------------------------------------|-------------|
// | fp4 types | A code is a small float, so its bits move to the upper byte of fp16: 7 instructions   | 15          |
// |           | make eight bytes, 4 permutes make pairs. They are subnormal: value * 2^-14 (E3M0:     |             |
// |           | 2^-12). A scale times 2^7 multiplies them; a power of two is left for the sums        |             |
// | int4      | In bits 4 to 7 of fp16's 1024 a code, offset by 8, is 1152 + 16 code; one fma with    | 11          |
// |           | scale / 16 and -72 scale gives code * scale                                           |             |
//
// The products of the fp4 types are multiples of 2^-17, some of them subnormal in fp16. PTX does not say how an mma
// reads subnormal numbers; the kernel assumes that it keeps them, as reported for compute capability 7 and 8 (Fasi et
// al., doi 10.7717/peerj-cs.330).
//
// Scales that are NaN or negative (quantize makes no negative ones) are flagged: the results are computed again.
//
// Predicted rates, and what limits more than 16 rows: docs/gpu.md.
#pragma once

#include <ufp4/cuda/gemv_stream_sm80.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

struct f16_stream_job : stream_job {
  unsigned weight_bits = 1, narrow_bits = 1;
  float factor = 1;  ///< of the sums
};

/// One lane's 32 codes, with their scales, of `count` rows that are eight apart.
template <unsigned count>
struct f16_part {
  thread::words4 codes[count];
  std::uint32_t scales[count];
};
struct __attribute__((may_alias)) scale_couple {
  std::uint16_t bits;
};

/// Where a lane reads `count` rows: their numbers, since addresses would take four registers for each.
template <unsigned count>
struct f16_rows {
  const std::uint8_t *codes, *scales;  ///< of the lane's part of the slab in row 0
  std::uint32_t pitch;                 ///< bytes of scales in a row
  std::uint32_t row[count], scale_row[count];

  UFP4_DEVICE f16_rows(const stream_side& side, std::size_t first, std::size_t padded)
      : codes(side.codes), scales(side.scales), pitch(static_cast<std::uint32_t>(padded / 16)) {
    const unsigned place = thread_index().x / 32 * 4 + warp::word_of_lane();
    codes += 16 * place, scales += 2 * place;
    UFP4_UNROLL
    for (unsigned i = 0; i < count; ++i) {
      row[i] = static_cast<std::uint32_t>(side.row(first + 8 * i + warp::row_of_lane()));
      scale_row[i] = row[i] >> side.rows_shift;
    }
  }
  UFP4_DEVICE void load(f16_part<count>& to) const {
    UFP4_UNROLL
    for (unsigned i = 0; i < count; ++i) {
      to.codes[i] = *reinterpret_cast<const thread::words4*>(codes + ufp4::detail::wide_product(row[i], 8 * pitch));
      to.scales[i] =
          reinterpret_cast<const scale_couple*>(scales + ufp4::detail::wide_product(scale_row[i], pitch))->bits;
    }
  }
  UFP4_DEVICE void advance() { codes += 512, scales += 64; }
};

/// The scale of 16 codes as fp16, ready to multiply their pairs.
struct f16_scale {
  std::uint32_t by, offset;

  template <bool integers>
  UFP4_DEVICE static f16_scale of(std::uint32_t couple, unsigned which) {
    // a code at the place of fp16's exponent is the scale times 2^-8
    const std::uint32_t scale = (which == 0 ? couple & 0xFFu : couple >> 8) * 0x00800080u;
    if constexpr (integers)
      return {thread::multiply_f16(scale, 0x4C004C00u), thread::multiply_f16(scale, 0xF480F480u)};  // 2^4, -72 * 2^8
    else
      return {thread::multiply_f16(scale, 0x78007800u), 0};  // 2^15
  }
};
/// What the types of operands have: a product of pairs and an mma.
struct pairs_f16 {
  UFP4_DEVICE static std::uint32_t times(std::uint32_t x, std::uint32_t by) { return thread::multiply_f16(x, by); }
  UFP4_DEVICE static void add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    mma::mma_f16(d, a, b);
  }
};

// Decodings: pairs of eight codes times their scale. in_order: of two consecutive codes, else of codes j and j + 4.

struct int4_to_f16 : pairs_f16 {
  static constexpr bool in_order = false;
  UFP4_DEVICE explicit int4_to_f16(unsigned) {}
  UFP4_DEVICE void fold(std::uint32_t codes, const f16_scale& scale, std::uint32_t (&pairs)[4]) const {
    const std::uint32_t moved[4] = {codes << 4, codes, codes >> 4, codes >> 8};
    UFP4_UNROLL
    for (unsigned j = 0; j < 4; ++j)
      pairs[j] = thread::fma_f16((moved[j] & 0x00F000F0u) ^ 0x64806480u, scale.by, scale.offset);
  }
};
struct fp4_to_f16 : pairs_f16 {
  static constexpr bool in_order = false;
  unsigned bits;  ///< of the mantissa
  UFP4_DEVICE explicit fp4_to_f16(unsigned mantissa_bits) : bits(mantissa_bits) {}
  UFP4_DEVICE void fold(std::uint32_t codes, const f16_scale& scale, std::uint32_t (&pairs)[4]) const {
    const std::uint32_t magnitudes = 0x07070707u << (2 - bits);
    const std::uint32_t even = (codes << 4 & 0x80808080u) | (codes << (2 - bits) & magnitudes);
    const std::uint32_t odd = (codes & 0x80808080u) | (codes >> (2 + bits) & magnitudes);
    UFP4_UNROLL
    for (unsigned j = 0; j < 4; ++j)
      pairs[j] = times(thread::byte_permute(j % 2 == 0 ? even : odd, 0, j < 2 ? 0x2404u : 0x3414u), scale.by);
  }
};

/// Adds the products of eight k of each lane, as two mma of pairs.
template <class Decoding, class Shape>
UFP4_DEVICE void add_products(stream_sums<Shape>& sums, unsigned n, const std::uint32_t (&a)[2 * Shape::tiles][4],
                              const std::uint32_t (&b)[4]) {
  UFP4_UNROLL
  for (unsigned m = 0; m < Shape::tiles; ++m) {
    const auto& upper = a[2 * m];
    const auto& lower = a[2 * m + 1];
    Decoding::add(sums.acc[m][n], {upper[0], lower[0], upper[1], lower[1]}, {b[0], b[1]});
    Decoding::add(sums.acc[m][n], {upper[2], lower[2], upper[3], lower[3]}, {b[2], b[3]});
  }
}

template <class Shape, bool integers>
struct f16_streamer {
  struct buffer {
    f16_part<2 * Shape::tiles> weights;
    f16_part<Shape::groups> narrow;
  };
  using decoding = std::conditional_t<integers, int4_to_f16, fp4_to_f16>;
  decoding of_weights, of_narrow;
  f16_rows<2 * Shape::tiles> weights;
  f16_rows<Shape::groups> narrow;
  stream_sums<Shape> sums{};
  std::uint32_t unfit = 0;

  UFP4_DEVICE f16_streamer(const f16_stream_job& job, std::size_t first_row)
      : of_weights(job.weight_bits),
        of_narrow(job.narrow_bits),
        weights(job.weights, first_row, job.padded),
        narrow(job.narrow, 0, job.padded) {}

  template <unsigned count>
  UFP4_DEVICE void take_scales(const f16_part<count>& from, unsigned which, f16_scale (&to)[count]) {
    UFP4_UNROLL
    for (unsigned i = 0; i < count; ++i) {
      to[i] = f16_scale::of<integers>(from.scales[i], which);
      // bit 7 of a byte is set where a scale is negative or NaN
      if (which == 0) unfit |= from.scales[i] | (from.scales[i] + 0x0101u);
    }
  }

  UFP4_DEVICE void multiply(const buffer& from) {
    UFP4_UNROLL
    for (unsigned block = 0; block < 2; ++block) {
      f16_scale of[2 * Shape::tiles], by[Shape::groups];
      take_scales(from.weights, block, of);
      take_scales(from.narrow, block, by);
      UFP4_UNROLL
      for (unsigned w = 2 * block; w < 2 * block + 2; ++w) multiply(from, w, of, by);
    }
  }
  UFP4_DEVICE void multiply(const buffer& from, unsigned w, const f16_scale (&of)[2 * Shape::tiles],
                            const f16_scale (&by)[Shape::groups]) {
    std::uint32_t a[2 * Shape::tiles][4];
    UFP4_UNROLL
    for (unsigned m = 0; m < 2 * Shape::tiles; ++m) of_weights.fold(from.weights.codes[m].word[w], of[m], a[m]);
    UFP4_UNROLL
    for (unsigned n = 0; n < Shape::groups; ++n) {
      std::uint32_t b[4];
      of_narrow.fold(from.narrow.codes[n].word[w], by[n], b);
      add_products<decoding>(sums, n, a, b);
    }
  }

  UFP4_DEVICE void run(std::size_t padded) {
    const unsigned first_k = thread_index().x / 32 * 128 + 32 * warp::word_of_lane();
    stream_slabs<buffer>(
        padded,
        [&](buffer& to, unsigned slab) {
          const std::size_t behind = (std::size_t{slab} + 1) * 1024;
          if (behind > padded) to = {};
          if (behind > padded && behind - 1024 + first_k >= padded) return;
          weights.load(to.weights), narrow.load(to.narrow);
          weights.advance(), narrow.advance();
        },
        [&](const buffer& from) { multiply(from); });
  }
};

template <unsigned tiles, unsigned groups, bool integers>
UFP4_KERNEL(256, tiles* groups < 4 ? 2 : 1)
gemv_f16(UFP4_PARAMETER f16_stream_job job) {
  using shape = stream_shape<tiles, groups>;
  const std::size_t first_row = std::size_t{block_index().x} * shape::rows;
  f16_streamer<shape, integers> streamer(job, first_row);
  streamer.run(job.padded);
  store_stream(job, first_row, streamer.sums, (streamer.unfit & 0x8080u) != 0, job.factor);
}

struct f16_decoding {
  bool fits = false, integers = false;
  unsigned bits = 1;  ///< mantissa bits of fp4
  float factor = 1;   ///< value * scale / factor is what is multiplied
};
constexpr f16_decoding fp4_or_int4(const grid4& grid) {
  if (has_values_of<int4>(grid)) return {.fits = true, .integers = true};
  if (has_values_of<fp4<E3M0>>(grid)) return {.fits = true, .bits = 0, .factor = 0x1p5f};
  if (has_values_of<fp4<E2M1>>(grid)) return {.fits = true, .bits = 1, .factor = 0x1p7f};
  if (has_values_of<fp4<E1M2>>(grid)) return {.fits = true, .bits = 2, .factor = 0x1p7f};
  return {};
}
constexpr f16_decoding f16_decoding_of(const gemm_side& side) {
  if (!side.is_quantized || side.scale != scale_kind::e4m3) return {};
  return fp4_or_int4(side.grid);
}

inline bool f16_stream_takes(const gemm_job& job, const device_facts& facts) {
  const auto is_aligned_side = [](const gemm_side& s) { return is_aligned(s.codes, 16) && is_aligned(s.scales, 2); };
  const f16_decoding left = f16_decoding_of(job.left), right = f16_decoding_of(job.right);
  return facts.has(80) && facts.wave == 32 && job.mode != accumulate::exact_blocks && job.block == 16 &&
         job.padded() % 32 == 0 && left.fits && right.fits && left.integers == right.integers &&
         is_aligned_side(job.left) && is_aligned_side(job.right);
}

inline bool gemv_f16_takes(const gemm_job& job, const device_facts& facts) {
  return narrow_rows(job) <= 16 && f16_stream_takes(job, facts);
}
inline bool gemm_few_f16_takes(const gemm_job& job, const device_facts& facts) {
  const std::size_t few = narrow_rows(job);
  return few > 16 && few <= 64 && facts.shared_bytes >= stream_shape<2, 8>::shared_bytes &&
         f16_stream_takes(job, facts);
}

/// Calls queue(job, integers) with a constant that states whether the elements are int4.
template <class Product, class Queue>
error queue_f16_stream(const gemm_job& job, const Queue& queue) {
  const bool swapped = weights_are_left(job);
  const f16_decoding weights = f16_decoding_of(swapped ? job.left : job.right);
  const f16_decoding narrow = f16_decoding_of(swapped ? job.right : job.left);
  const f16_stream_job stream{stream_job_of(job), weights.bits, narrow.bits, weights.factor * narrow.factor};
  if constexpr (Product::may([](const gemm_job& p) { return f16_decoding_of(p.left).integers; }))
    if (weights.integers) return queue(stream, std::true_type{});
  constexpr auto fp4 = [](const gemm_job& p) {
    return f16_decoding_of(p.left).fits && !f16_decoding_of(p.left).integers && f16_decoding_of(p.right).fits;
  };
  if constexpr (Product::may(fp4)) return queue(stream, std::false_type{});
  return not_supported;
}
template <bool integers, unsigned tiles, unsigned groups>
error queue_gemv_f16(const f16_stream_job& job, stream_shape<tiles, groups>, stream where) {
  return launch_stream<stream_shape<tiles, groups>>(listed<&gemv_f16<tiles, groups, integers>>, job, where);
}
template <class Product>
error run_gemv_f16(const gemm_job& job, const device_facts& facts, std::span<std::byte>, stream where) {
  const bool two_tiles = streams_two_tiles(job, facts), two_groups = narrow_rows(job) > 8;
  return queue_f16_stream<Product>(job, [&]<bool integers>(const f16_stream_job& s, std::bool_constant<integers>) {
    if (two_tiles)
      return two_groups ? queue_gemv_f16<integers>(s, stream_shape<2, 2>{}, where)
                        : queue_gemv_f16<integers>(s, stream_shape<2, 1>{}, where);
    return two_groups ? queue_gemv_f16<integers>(s, stream_shape<1, 2>{}, where)
                      : queue_gemv_f16<integers>(s, stream_shape<1, 1>{}, where);
  });
}
template <class Product>
error run_gemm_few_f16(const gemm_job& job, const device_facts&, std::span<std::byte>, stream where) {
  const bool four_groups = narrow_rows(job) <= 32;
  return queue_f16_stream<Product>(job, [&]<bool integers>(const f16_stream_job& s, std::bool_constant<integers>) {
    return four_groups ? queue_gemv_f16<integers>(s, stream_shape<2, 4>{}, where)
                       : queue_gemv_f16<integers>(s, stream_shape<2, 8>{}, where);
  });
}

template <class Product = any_product>
inline constexpr gemm_kernel gemv_f16_sm80 = {"gemv_f16_sm80", "mma.sync.m16n8k16.f16", 16, 32,
                                              &gemv_f16_takes, &run_gemv_f16<Product>};
template <class Product = any_product>
inline constexpr gemm_kernel gemm_few_f16_sm80 = {"gemm_few_f16_sm80", "mma.sync.m16n8k16.f16",   64, 32,
                                                  &gemm_few_f16_takes, &run_gemm_few_f16<Product>};

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
