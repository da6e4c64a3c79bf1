// ufp4 - quantize contiguous elements without a transform, in their order, with AVX-512.
// SPDX-License-Identifier: Apache-2.0
//
// A vector is neighbours of a row, so nothing is transposed: the scale of a block is broadcast, and lane l of a word
// holds code l of eight vectors until one permutation sorts them. A panel is as many blocks of one or two vectors as
// there are lanes, so that their scales are one vector. A part is some neighbouring panels.
#pragma once

#undef UFP4_LANES
#define UFP4_LANES avx512
#include <ufp4/cpu/kernels/quantize/code_lanes.hpp>
#include <ufp4/cpu/kernels/quantize/tile_lanes.hpp>

UFP4_BEGIN_LANES(quantize_kernel)

constexpr std::size_t panels_of_a_part = 4, vectors_of_a_part = panels_of_a_part * 2 * lanes;

/// Numbers of each vector of a part: the amax and the factor of its block, and what is computed from them.
struct vector_factors {
  alignas(64) float amax[vectors_of_a_part];
  float factor[vectors_of_a_part];
  float scale[vectors_of_a_part], bound[vectors_of_a_part];  ///< prepare_near
  bool in_range;                                             ///< a rounder without a bound is enough
};

struct ordered_part;
using code_ordered = void(const rounding_plan&, const ordered_part&);
struct ordered_part {
  const void* x;
  std::size_t vectors;  ///< a multiple of eight
  const vector_factors* of;
  std::uint64_t random_group;  ///< number of the first eight elements in the operand (numerics 3)
  const random_bit_lanes* random_bits;
  code_ordered* products;  ///< for binary32 elements
  std::uint8_t* codes;
};

/// The functions of a call for elements of one type.
struct ordered_functions {
  u32 (*amax)(const void* x, std::size_t vectors_a_block) = nullptr;  ///< of a panel; null: takes other calls only
  void (*prepare)(const rounding_plan&, vector_factors&, std::size_t vectors) = nullptr;  ///< null: needs none
  code_ordered *code = nullptr, *products = nullptr;
};

/// a in the lanes whose bit in `which` is 0, b in the others.
template <std::uint16_t which>
UFP4_LANE u32 blend(u32 a, u32 b) {
  u32 r;
  asm("vpblendmd %2, %1, %0%{%3%}" : "=v"(r) : "v"(a), "v"(b), "Yk"(which));
  return r;
}
/// One bit a lane of v that is below `limit`.
UFP4_LANE std::uint32_t lanes_below(u32 v, std::uint32_t limit) {
  std::uint32_t bits;
  asm("vpcmpud $1, %2, %1, %%k1\n\tkmovw %%k1, %0" : "=r"(bits) : "v"(v), "v"(broadcast(limit)) : "k1");
  return bits;
}
UFP4_BINARY("v", u32, maximum_of_words, u32, u32, "vpmaxuw %2, %1, %0")
template <bool words>
UFP4_LANE u32 larger(u32 a, u32 b) {
  return words ? maximum_of_words(a, b) : maximum(a, b);
}
/// The larger of lanes l and l ^ 8, dwords or words: a's in the lower half, b's in the upper half.
template <bool words>
UFP4_LANE u32 halves_of(u32 a, u32 b) {
  return larger<words>(blend<0xFF00>(a, b), quarters<0x4E>(a, b));
}
/// The order in which largest_of_blocks leaves the halves of u.
constexpr std::size_t place_of(std::size_t i) {
  constexpr std::uint8_t place[16] = {0, 8, 2, 10, 1, 9, 3, 11, 4, 12, 6, 14, 5, 13, 7, 15};
  return place[i];
}
/// Lane l is the largest lane of block l: the lower half of u[i] is block place_of(i), its upper half place_of(i + 8).
/// In each 16 bytes: two lanes of each of two vectors, then one of each of four; then the two quarters of a half.
template <bool words>
UFP4_LANE u32 largest_of_blocks(u32 (&u)[8]) {
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i)
    u[i] = larger<words>(blend<0xCCCC>(u[i], u[i + 4]), pick_dwords<0x4E>(u[i], u[i + 4]));
#pragma GCC unroll 2
  for (std::size_t i = 0; i < 2; ++i)
    u[i] = larger<words>(pick_dwords<0x88>(u[i], u[i + 2]), pick_dwords<0xDD>(u[i], u[i + 2]));
  return larger<words>(quarters<0x88>(u[0], u[1]), quarters<0xDD>(u[0], u[1]));
}
/// The same if the halves of u[i] are blocks 2 i and 2 i + 1.
UFP4_LANE u32 from_pairs(u32 v) {
  const u32 lane = {0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15};
  return as_bits(lookup(as_float(v), lane));
}
/// p[0] in the lower half of the lanes, p[1] in the upper half.
UFP4_LANE f32 two_broadcasts(const float* p) {
  f32 r = load_broadcast(p);
  asm("vbroadcastss %1, %0%{%2%}" : "+v"(r) : "m"(*bytes_of<4>(p + 1)), "Yk"(std::uint16_t{0xFF00}));
  return r;
}
/// Where transpose4 brings the Philox counters of neighbours next to each other.
inline constexpr u32 lane_groups = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
/// The words of half of a vector, a lane each.
template <int half>
UFP4_LANE u32 words_of(u32 v) {
  const u32 word = u32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} + 16u * half;
  u32 r;
  asm("vpermw %2, %1, %0%{%3%}%{z%}" : "=v"(r) : "v"(word), "v"(v), "Yk"(std::uint32_t{0x55555555}));
  return r;
}
/// The codes of eight vectors in memory order, of words whose nibble j of lane l is code l of vector j.
/// Lanes l and l + 1, l even, have nibbles that are next to each other in memory: those with an even number are put
/// together in lane l, those with an odd number in lane l + 1; then bytes are moved.
UFP4_LANE u32 sort_codes(u32 word) {
  const u64 from = u64{} + 0x1C140C04342C241C;  // the bits that a byte of a lane and the next has from the other lane
  u32 other;
  asm("vpmultishiftqb %2, %1, %0" : "=v"(other) : "v"(from), "v"(word));
  const u64 keep = u64{} + 0xF0F0F0F00F0F0F0F;
  const u64 vector = {0, 4, 1, 5, 2, 6, 3, 7};
  return reinterpret_cast<u32>(lookup_bytes(reinterpret_cast<u8>(select(reinterpret_cast<u32>(keep), other, word)),
                                            reinterpret_cast<u32>(vector * 0x0101010101010101 + 0x3830282018100800)));
}
/// The same of pairs of vectors with the even and the odd elements of 2 * lanes.
UFP4_LANE u32 sort_code_pairs(u32 word) {
  const u32 lane = {0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12},
            pair = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  return reinterpret_cast<u32>(
      lookup_bytes(reinterpret_cast<u8>(word), (lane * 4u + pair) * 0x01010101u + 0x0C080400u));
}

/// Vectors at .. at + 7. Those of bf16 are pairs of the even and of the odd elements of 2 * lanes neighbours.
template <dtype kind>
UFP4_LANE void load_eight(const void* x, std::size_t at, f32 (&t)[8]) {
  if constexpr (kind == dtype::bf16) {
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 8; j += 2) {
      const u32 pairs = load_as<u32>(static_cast<const std::uint16_t*>(x) + (at + j) * lanes);
      t[j] = as_float(pairs << 16);
      t[j + 1] = as_float(pairs & 0xFFFF0000u);
    }
  } else {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < 8; ++j) {
      t[j] = load_vector<kind>(x, static_cast<std::ptrdiff_t>((at + j) * lanes));
      asm("" : "+v"(t[j]));  // read once
    }
  }
}
/// What belongs to vector at + j of load_eight, from numbers that belong to the vectors of a panel.
template <dtype kind>
UFP4_LANE f32 of_vector(const float* by_vector, std::size_t at, std::size_t j) {
  if constexpr (kind == dtype::bf16) return two_broadcasts(by_vector + at + j / 2 * 2);
  return load_broadcast(by_vector + at + j);
}
template <dtype kind>
UFP4_LANE void store_eight(const rounding_plan& p, u32 word, std::uint8_t* codes) {
  word = codes_of(p, word);
  store(codes, kind == dtype::bf16 ? sort_code_pairs(word) : sort_codes(word));
}

/// The random bits of `count` times eight vectors, from group number `first` on: words of neighbours in their order.
[[gnu::noinline]] inline void draw_in_order(const random_bit_lanes& random_bits, std::uint64_t first, std::size_t count,
                                            u32 (*word)[4]) {
  const auto low = static_cast<std::uint32_t>(first), high = static_cast<std::uint32_t>(first >> 32);
  const auto groups = static_cast<std::uint32_t>(count * lanes);
  const u32 number = lane_groups;
  if (low + groups < low) {
    random_bit_lanes some = random_bits;
    for (std::size_t i = 0; i < count; ++i) {
      some.low = number + static_cast<std::uint32_t>(first + i * lanes);
      some.high = broadcast(static_cast<std::uint32_t>((first + i * lanes) >> 32));
      some.high -= reinterpret_cast<u32>(some.low < number);
      some.draw(1, word + i);
      transpose4(word[i]);
    }
    return;
  }
  const uniform_philox_rounds rounds(high, random_bits.stream, random_bits.keys);
  for (std::uint32_t i = 0; i < count; ++i) {
    rounds(number + (low + i * static_cast<std::uint32_t>(lanes)), random_bits.keys, word[i]);
    transpose4(word[i]);
  }
}
/// The random bits of a part, as load_eight has its vectors, or zeros.
template <dtype kind, bool is_stochastic>
struct ordered_random_bits {
  u32 word[is_stochastic ? vectors_of_a_part / 8 : 1][4];
  UFP4_LANE explicit ordered_random_bits([[maybe_unused]] const ordered_part& c) {
    if constexpr (is_stochastic) draw_in_order(*c.random_bits, c.random_group, c.vectors / 8, word);
  }
  UFP4_LANE u32 of(std::size_t at, std::size_t j) const {
    if constexpr (!is_stochastic) return u32{};
    const u32 w = word[at / 8][j / 2];
    if constexpr (kind == dtype::bf16) return j % 2 == 0 ? w & 0xFFFFu : w >> 16;
    return j % 2 == 0 ? words_of<0>(w) : words_of<1>(w);
  }
};

template <dtype kind, class Rounder>
void code_ordered_products(const rounding_plan& p, const ordered_part& c) {
  if constexpr (std::is_same_v<Rounder, halves_rounder>)
    if (c.of->in_range) return code_ordered_products<kind, halves_in_range_rounder>(p, c);
  const Rounder rounder(p);
  const ordered_random_bits<kind, Rounder::is_stochastic> random(c);
  for (std::size_t at = 0; at < c.vectors; at += 8) {
    f32 t[8];
    load_eight<kind>(c.x, at, t);
    u32 word{};
#pragma GCC unroll 8
    for (std::size_t j = 0; j < 8; ++j) {
      const f32 v = rounded(t[j] * of_vector<kind>(c.of->factor, at, j));
      word = add_code<Rounder::bit>(word, static_cast<int>(j), rounder(v, random.of(at, j)), v);
    }
    store_eight<kind>(p, finish_codes<Rounder::bit>(word), c.codes + at * lanes / 2);
  }
}

/// For scales that divide: the quotients first, then as products with 1. Leaves out every eight vectors whose bit in
/// `only` is 0.
template <dtype kind>
[[gnu::noinline]] void code_some_ordered_quotients(const rounding_plan& p, const ordered_part& c, std::uint32_t only) {
  alignas(64) float t[8 * lanes];
  vector_factors ones;
  for (std::size_t j = 0; j < 8; ++j) ones.factor[j] = 1.0f;
  ones.in_range = false;
  ordered_part eight = c;
  eight.x = t;
  eight.vectors = 8;
  eight.of = &ones;
  for (; only != 0; only &= only - 1) {
    const auto at = 8 * static_cast<std::size_t>(__builtin_ctz(only));
    for (std::size_t j = 0; j < 8; ++j) {
      const f32 x = load_vector<kind>(c.x, static_cast<std::ptrdiff_t>((at + j) * lanes));
      store(t + j * lanes, x / load_broadcast(c.of->factor + at + j));
    }
    eight.random_group = c.random_group + at * (lanes / 8);
    eight.codes = c.codes + at * lanes / 2;
    c.products(p, eight);
  }
}
template <dtype kind>
void code_ordered_quotients(const rounding_plan& p, const ordered_part& c) {
  code_some_ordered_quotients<kind>(p, c, ~0u >> (32 - c.vectors / 8));
}

/// Whether all blocks have amax * scale < end.
inline bool amax_below(const float* amax, const float* scale, std::size_t vectors, float end) {
  u32 below = ~u32{};
  for (std::size_t i = 0; i < vectors; i += lanes)
    below &= reinterpret_cast<u32>(rounded(load(amax + i) * load(scale + i)) < end);
  return !any(~below);
}
inline void prepare_halves(const rounding_plan& p, vector_factors& f, std::size_t vectors) {
  f.in_range = amax_below(f.amax, f.factor, vectors, end_of_binade(p.qmax));
}
/// What code_ordered_near multiplies by, and the bounds of magnitudes.
template <class Near>
void prepare_near(const rounding_plan& p, vector_factors& f, std::size_t vectors) {
  u32 in_range = ~u32{};
  for (std::size_t i = 0; i < vectors; i += lanes) {
    const f32 factor = load(f.factor + i);
    const Near of_block(p, factor);
    store(f.scale + i, of_block.scale);
    store(f.bound + i, of_block.bound);
    // Scales and reciprocals from 2^-64 to 2^64: nothing overflows or is subnormal.
    in_range &= reinterpret_cast<u32>(as_bits(factor) - (63u << 23) < 128u << 23);
  }
  f.in_range = !any(~in_range) && (Near::end == 0 || amax_below(f.amax, f.scale, vectors, Near::end));
}
/// The same by reciprocals; eight vectors with a value in doubt again with quotients.
template <dtype kind, class Near>
void code_ordered_near(const rounding_plan& p, const ordered_part& c) {
  if (!c.of->in_range) return code_ordered_quotients<kind>(p, c);
  std::uint32_t in_doubt = 0;
  Near nearby(p, broadcast(1.0f));
  const ordered_random_bits<kind, Near::is_stochastic> random(c);
  for (std::size_t at = 0; at < c.vectors; at += 8) {
    f32 t[8];
    load_eight<kind>(c.x, at, t);
    u32 word{}, doubt = ~u32{};
#pragma GCC unroll 8
    for (std::size_t j = 0; j < 8; ++j) {
      nearby.scale = of_vector<kind>(c.of->scale, at, j);
      u32 index;
      if constexpr (Near::end == 0) {
        nearby.bound = of_vector<kind>(c.of->bound, at, j);
        index = nearby(t[j], doubt, random.of(at, j));
      } else {
        index = nearby.of_magnitude(magnitude(t[j]), doubt);
      }
      word = add_code<Near::bit>(word, static_cast<int>(j), index, t[j]);
    }
    store_eight<kind>(p, finish_codes<Near::bit>(word), c.codes + at * lanes / 2);
    in_doubt |= (lanes_below(doubt, Near::limit) != 0 ? 1u : 0u) << (at / 8);
  }
  if (in_doubt != 0) code_some_ordered_quotients<kind>(p, c, in_doubt);
}

/// Vector i of a panel as magnitudes that compare as integers; of 16-bit elements twice as many.
template <dtype kind>
UFP4_LANE u32 magnitudes_at(const void* x, std::size_t i) {
  if constexpr (kind == dtype::f32) return as_bits(magnitude(load(static_cast<const float*>(x) + i * lanes)));
  return load_as<u32>(static_cast<const std::uint16_t*>(x) + 2 * i * lanes) & 0x7FFF7FFFu;
}
/// Two vectors that magnitudes_at reads, a block each: the larger lanes, a half each.
template <dtype kind, std::size_t vectors_a_block>
UFP4_LANE u32 halves_at(const void* x, std::size_t i) {
  const std::size_t a = place_of(i), b = place_of(i + lanes / 2);
  if constexpr (vectors_a_block == 1)
    return halves_of < kind != dtype::f32 > (magnitudes_at<kind>(x, a), magnitudes_at<kind>(x, b));
  return halves_of<false>(maximum(magnitudes_at<kind>(x, 2 * a), magnitudes_at<kind>(x, 2 * a + 1)),
                          maximum(magnitudes_at<kind>(x, 2 * b), magnitudes_at<kind>(x, 2 * b + 1)));
}
/// The amax of the blocks of a panel, as bits.
template <dtype kind>
u32 ordered_amax(const void* x, std::size_t vectors_a_block) {
  constexpr bool words = kind != dtype::f32;
  u32 u[lanes / 2];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < lanes / 2; ++i)
    if (words && vectors_a_block == 1)
      u[i] = magnitudes_at<kind>(x, i);
    else if (words || vectors_a_block == 1)
      u[i] = halves_at<kind, 1>(x, i);
    else
      u[i] = halves_at<kind, 2>(x, i);
  const u32 largest = largest_of_blocks<words>(u);
  if constexpr (!words) return largest;
  const u32 all = maximum(largest & 0xFFFF0000u, largest << 16);
  const u32 bits = kind == dtype::bf16 ? all : as_bits(widen_fp16(upper_halves(all)));
  return vectors_a_block == 1 ? from_pairs(bits) : bits;
}

template <features needs, dtype kind>
ordered_functions ordered_functions_for(const rounding_plan& p, bool divides) {
  ordered_functions f;
  with_rounder<needs>(p.what, [&]<class Rounder>() {
    f.code = &code_ordered_products<kind, Rounder>;
    f.products = &code_ordered_products<dtype::f32, Rounder>;
    f.amax = &ordered_amax<kind>;
  });
  if constexpr (plans<needs>(rounding_plan::kind::halves))
    if (!divides && p.what == rounding_plan::kind::halves) f.prepare = &prepare_halves;
  if constexpr (has(needs, features::quotient)) {
    if (divides && f.code != nullptr) f.code = &code_ordered_quotients<kind>;
    if constexpr (has(needs, features::uniform_grid))
      if (divides && p.nearby == near_kind::uniform)
        f.code = &code_ordered_near<kind, near_uniform>, f.prepare = &prepare_near<near_uniform>;
    if constexpr (has(needs, features::two_bit_grid))
      if (divides && p.nearby == near_kind::two_bit_mantissa)
        f.code = &code_ordered_near<kind, near_two_bit_mantissa>, f.prepare = &prepare_near<near_two_bit_mantissa>;
    if constexpr (plans<needs>(rounding_plan::kind::uniform_stochastic))
      if (divides && p.what == rounding_plan::kind::uniform_stochastic)
        f.code = &code_ordered_near<kind, near_uniform_stochastic>, f.prepare = &prepare_near<near_uniform_stochastic>;
  }
  return f;
}
template <features needs>
ordered_functions ordered_functions_of(const rounding_plan& p, bool divides, [[maybe_unused]] dtype kind) {
  if constexpr (has(needs, features::half_input)) {
    if (kind == dtype::bf16) return ordered_functions_for<needs, dtype::bf16>(p, divides);
    if (kind == dtype::fp16) return ordered_functions_for<needs, dtype::fp16>(p, divides);
  }
  return ordered_functions_for<needs, dtype::f32>(p, divides);
}

// ---- The loops over rows.

/// Whether a job is for these loops, if its rounder has ordered_functions. Blocks of 32 of large matrices of binary32
/// are faster in tiles where the second-level cache is read ahead.
inline bool takes_ordered(const quantize_job& job) {
  const auto block = static_cast<std::size_t>(job.format.block.cols);
  if (job.format.has_bytes() || job.format.block.rows != 1 || job.transform.n != 1 || job.counts ||
      job.x.col_stride != 1 || (block != lanes && block != 2 * lanes))
    return false;
  return block == lanes || job.x.kind != dtype::f32 || read_ahead_of(job.x) != read_ahead::second_level;
}

/// One call of quantize_lanes for such a job.
class ordered_rows : quantize_call {
 public:
  ordered_rows(const quantize_job& job, const kernel_coder& coder, const quantized_sink& out, quantize_report& report,
               const rounding_plan& plan, scales_of_amax* scales, const ordered_functions& functions)
      : quantize_call{job, coder, out, report},
        plan_(plan),
        choose_scales_(scales),
        do_(functions),
        ahead_(read_ahead_of(job.x)),
        block_(static_cast<std::size_t>(job.format.block.cols)),
        block_shift_(static_cast<unsigned>(__builtin_ctzll(block_))),
        element_bytes_(job.x.kind == dtype::f32 ? 4 : 2) {
    if (coder.rounding.what == rounding_spec::kind::stochastic)
      random_bits_ = random_bit_lanes(coder.rounding.random_bits);
  }

  void strips(std::size_t first, std::size_t last) {
    source x = job_.x;
    const std::size_t width = join_rows(job_, x, first, last);
    for (std::size_t row = first; row < last; ++row) quantize_row(x, row, width);
  }

 private:
  /// Whole panels of a row from column k on, and the scales of their blocks.
  struct part {
    const char* x = nullptr;
    std::size_t row = 0, k = 0, panels = 0;
    std::uint32_t zero[panels_of_a_part];  ///< a bit for each block whose codes are +0
    vector_factors of;
  };
  /// `live`: how many blocks are not padding.
  void choose_panel(part& p, std::size_t c, std::size_t live = lanes) {
    const std::size_t panel = block_ * lanes, place = p.row * job_.padded_cols + p.k + c * panel;
    prefetch_ahead(ahead_, p.x + c * panel * element_bytes_, panel * element_bytes_);
    const u32 amax = do_.amax(p.x + c * panel * element_bytes_, block_ / lanes);
    u32 bits;
    lane_scales s;
    choose_scales_(coder_, amax, bits, s, report_);
    store_scales(out_.scales, job_.format.scale, &bits, 1, place >> block_shift_, 1, live);
    p.zero[c] = lane_bits(s.zero) & ~(~0u << live);
    each_vector(amax, p.of.amax + c * block_);
    each_vector(as_bits(s.factor), p.of.factor + c * block_);
  }
  /// A number of each block to each vector of a panel.
  void each_vector(u32 of_block, float* out) const {
    u32 low = of_block, high = of_block;
    if (block_ != lanes) {
      interleave(low, high);
      store(out + lanes, high);
    }
    store(out, low);
  }
  std::uint8_t* codes_at(std::size_t row, std::size_t k) const { return out_.codes + (row * job_.padded_cols + k) / 2; }
  /// The first `vectors` of a part.
  void code_part(const part& p, std::size_t vectors, std::uint8_t* codes) {
    const std::uint64_t element = (job_.first_row + p.row) * job_.whole_padded_cols + job_.first_col + p.k;
    do_.code(plan_, {p.x, vectors, &p.of, element / 8, &random_bits_, do_.products, codes});
    for (std::size_t c = 0; c < p.panels; ++c)
      for (std::uint32_t left = p.zero[c]; left != 0; left &= left - 1)
        __builtin_memset(codes + (c * lanes + static_cast<std::size_t>(__builtin_ctz(left))) * block_ / 2,
                         static_cast<int>(plan_.zeros & 0xFFu), block_ / 2);
  }
  /// A row of `width` padded elements. A part is coded while the scales of the next one are computed.
  void quantize_row(const source& x, std::size_t row, std::size_t width) {
    const std::size_t panel = block_ * lanes, panels = x.cols / panel;
    const char* data =
        static_cast<const char*>(x.data) + x.offset(row, 0) * static_cast<std::ptrdiff_t>(element_bytes_);
    part parts[2];
    part *here = parts, *before = parts + 1;
    for (std::size_t c = 0; c < panels; c += before->panels) {
      here->x = data + c * panel * element_bytes_;
      here->row = row;
      here->k = c * panel;
      here->panels = panels - c < panels_of_a_part ? panels - c : panels_of_a_part;
      for (std::size_t i = 0; i < here->panels; ++i) choose_panel(*here, i);
      if (do_.prepare != nullptr) do_.prepare(plan_, here->of, here->panels * block_);
      if (c != 0) code_part(*before, before->panels * block_, codes_at(row, before->k));
      std::swap(here, before);
    }
    if (panels != 0) code_part(*before, before->panels * block_, codes_at(row, before->k));
    if (panels * panel < width) rest_of_row(x, row, panels * panel, width);
  }
  /// What is left of a row, less than a panel, in a buffer that is filled up with zeros.
  void rest_of_row(const source& x, std::size_t row, std::size_t k, std::size_t width) {
    alignas(64) char staged[2 * lanes * lanes * sizeof(float)];
    alignas(64) std::uint8_t codes[lanes * lanes];
    const std::size_t live = x.cols < k ? 0 : (x.cols - k) * element_bytes_, panel = block_ * lanes * element_bytes_;
    for (std::size_t i = live / 64 * 64; i < panel; i += 64) store(staged + i, u32{});
    if (live != 0)
      __builtin_memcpy(
          staged, static_cast<const char*>(x.data) + x.offset(row, k) * static_cast<std::ptrdiff_t>(element_bytes_),
          live);
    part p;
    p.x = staged;
    p.row = row;
    p.k = k;
    p.panels = 1;
    choose_panel(p, 0, (width - k) >> block_shift_);
    if (do_.prepare != nullptr) do_.prepare(plan_, p.of, block_);
    code_part(p, (width - k + 8 * lanes - 1) / (8 * lanes) * 8, codes);
    __builtin_memcpy(codes_at(row, k), codes, (width - k) / 2);
  }

  const rounding_plan& plan_;
  scales_of_amax* choose_scales_;
  ordered_functions do_;
  read_ahead ahead_;
  std::size_t block_;  ///< elements of a block
  unsigned block_shift_;
  std::size_t element_bytes_;
  random_bit_lanes random_bits_;  ///< of stochastic rounding
};
UFP4_END_LANES
