// ufp4 - quantize and amax over one instruction set's lanes; included inside its region and namespace.
// SPDX-License-Identifier: Apache-2.0
//
// A tile is as many runs as there are lanes, element by element: vector k holds element k of every run. So a transform
// is adds and subtracts of whole vectors, a block's maximum is a maximum of vectors, the scales of as many blocks are
// worked out at once, and eight codes become a word by shifts. Rows that lie along memory are turned on their way in,
// four by four; columns (transpose(x)) lie as the tile wants them.
//
// Needs beside the names of simd/, grid_lanes.inl and read_row of hadamard_lanes.inl: load_transposed, store_pieces,
// transpose4, interleave, low_bytes, lane_bits, add_code, finish_codes, map_nibbles, philox_rounds, table,
// cheap_lookup, magnitude_at_most, at_most and at_least.

/// How many lanes of a mask are set, and the largest lane of a vector.
UFP4_LANE std::uint64_t count_lanes(u32 mask) {
  return static_cast<std::uint64_t>(__builtin_popcount(lane_bits(mask)));
}
inline std::uint32_t largest_lane(u32 v) {
  std::uint32_t largest = 0;
  for (std::size_t l = 0; l < lanes; ++l) largest = v[l] > largest ? v[l] : largest;
  return largest;
}

// ---- Block scales, a block a lane.

struct lane_scales {
  f32 factor;
  u32 zero;  ///< all ones where the codes are +0
};

/// The e8m0 codes of normal maxima: power_of_two_scale.
UFP4_LANE u32 power_of_two_lanes(const grid4& grid, ufp4::detail::rule_kind rule, u32 amax) {
  const auto largest = ufp4::detail::to_bits(grid.qmax) & 0x007FFFFFu;
  const auto top = static_cast<std::uint32_t>(ufp4::detail::floor_log2(grid.qmax));
  u32 rounded_up = amax;
  if (rule == ufp4::detail::rule_kind::mx_ceil) {
    rounded_up = amax + (0x007FFFFFu - largest);
  } else if (rule == ufp4::detail::rule_kind::mx_even) {
    std::uint32_t dropped = 23;  // bits below qmax's mantissa
    while (dropped > 0 && (largest << (9 + 23 - dropped)) != 0) --dropped;
    if (dropped == 23)
      rounded_up = amax + 0x00400000u;  // one bit, the leading one, is odd: a tie goes up
    else if (dropped != 0)
      rounded_up = amax + ((1u << (dropped - 1)) - 1) + (amax >> dropped & 1u);
  }
  const i32 code = reinterpret_cast<i32>((rounded_up >> 23) - top);
  const i32 least{}, most = i32{} + static_cast<std::int32_t>(254 - top);
  return reinterpret_cast<u32>(code < least ? least : code > most ? most : code);
}

/// Blocks one of which is not ordinary: empty, not finite, with a scale that is gone, or one whose way leads past
/// subnormals or overflows, which the scalar code goes.
inline void choose_odd_lanes(const block_coder<rounding_spec>& c, u32 amax, u32 odd, u32& bits, lane_scales& s,
                             quantize_report& report) {
  const format_spec& f = c.format;
  const block_scale nothing = choose_scale(f, c.rule, c.tensor, {}, 0.0f);
  const u32 wild = reinterpret_cast<u32>(amax >= ufp4::detail::infinity_bits),
            empty = reinterpret_cast<u32>(amax == 0u);
  for (std::uint32_t left = lane_bits(odd & ~wild & ~empty); left != 0; left &= left - 1) {
    const auto l = static_cast<std::size_t>(__builtin_ctz(left));
    const block_scale one = choose_scale(f, c.rule, c.tensor, {}, ufp4::detail::to_float(amax[l]));
    bits[l] = one.bits;
    s.factor[l] = one.factor;
  }
  const u32 gone = reinterpret_cast<u32>(s.factor == 0.0f) & ~wild & ~empty;
  bits = wild != 0u ? broadcast(ufp4::detail::nan_scale(f.scale)) : empty != 0u ? broadcast(nothing.bits) : bits;
  s.zero = wild | empty | gone;
  s.factor = s.zero != 0u ? broadcast(1.0f) : s.factor;
  report.nonfinite_blocks += count_lanes(wild);
  report.underflowed_scales += count_lanes(gone);
}

/// The scales of a block a lane, from the bits of the largest magnitudes.
inline void choose_lanes(const block_coder<rounding_spec>& c, u32 amax, u32& bits, lane_scales& s,
                         quantize_report& report) {
  const format_spec& f = c.format;
  u32 watched = amax;  // what is normal, and its factor too, in an ordinary block
  if (f.scale == scale_kind::e8m0) {
    bits = power_of_two_lanes(f.grid, c.rule.what, amax);
    s.factor = as_float(bits == 254u ? broadcast(std::uint32_t{0x00400000}) : (254u - bits) << 23);
  } else {
    const f32 x = as_float(amax);
    const f32 argument = rounded(f.two_level ? x * c.tensor.scale_factor : x / f.grid.qmax);
    watched = as_bits(argument);
    bits = encode_scale_bits(f.scale, argument);
    if (c.rule.what == ufp4::detail::rule_kind::up)
      bits -= reinterpret_cast<u32>(decode_scale_bits<true>(f.scale, bits) < argument) &
              reinterpret_cast<u32>(bits < ufp4::detail::max_scale(f.scale));
    s.factor = decode_scale_bits<true>(f.scale, bits);
    if (f.two_level) s.factor = 1.0f / (s.factor * c.tensor.decode);
  }
  constexpr std::uint32_t least = 0x00800000, range = 0x7F000000;  // of normal numbers
  const u32 odd = reinterpret_cast<u32>(maximum(watched - least, as_bits(s.factor) - least) >= range);
  s.zero = u32{};
  if (lane_bits(odd) != 0) choose_odd_lanes(c, amax, odd, bits, s, report);
}

// ---- Codes: words of eight, a block a lane.

/// The random bits of a run a lane (numerics 3): the Philox counter of its first eight elements, and what is the same for
/// all.
struct random_word_lanes {
  u32 low{}, high{};
  std::uint32_t stream[2] = {};
  std::uint32_t key[20] = {};  ///< two a round

  random_word_lanes() = default;
  explicit random_word_lanes(const stochastic& s)
      : stream{static_cast<std::uint32_t>(s.stream), static_cast<std::uint32_t>(s.stream >> 32)} {
    key[0] = static_cast<std::uint32_t>(s.seed);
    key[1] = static_cast<std::uint32_t>(s.seed >> 32);
    for (int i = 2; i < 20; ++i) key[i] = key[i - 2] + (i % 2 == 0 ? 0x9E3779B9u : 0xBB67AE85u);  // round/philox.hpp
  }
  /// Lane l starts at element + l * step, both multiples of 16.
  void place(std::uint64_t element, std::uint64_t step) {
    for (std::size_t l = 0; l < lanes; ++l) {
      const std::uint64_t group = (element + l * step) >> 3;
      low[l] = static_cast<std::uint32_t>(group);
      high[l] = static_cast<std::uint32_t>(group >> 32);
    }
  }
  void skip(std::size_t elements) {
    const u32 before = low;
    low += static_cast<std::uint32_t>(elements / 8);
    high -= reinterpret_cast<u32>(low < before);
  }
  /// The random bits of eight elements of every lane, two a word.
  UFP4_LANE void draw(std::uint32_t group, u32 (&word)[4]) const {
    word[0] = low + group;
    word[1] = high - reinterpret_cast<u32>(word[0] < low);
    word[2] = broadcast(stream[0]);
    word[3] = broadcast(stream[1]);
    philox_rounds(word, key);
  }
};

/// `count` blocks a lane, of `length` elements each: elements [0, count * length) of stretches of which the random bits know
/// the place.
struct lane_blocks {
  const float* x;
  std::size_t length, count;
  const lane_scales* scales;
  const random_word_lanes* random_bits;
};
using code_blocks = void(const rounding_plan&, const lane_blocks&, u32* words);

/// A word of codes, element by element: indices of magnitudes under the signs of t, or of levels.
template <class Rounder>
struct code_word {
  u32 word{};
  UFP4_LANE void add(int j, u32 index, f32 t) {
    if constexpr (Rounder::has_levels)
      word |= index << (4 * j);
    else
      word = add_code<Rounder::bit>(word, j, index, t);
  }
  UFP4_LANE u32 finished(const rounding_plan& p, const lane_scales& s) const {
    u32 w = word;
    if constexpr (!Rounder::has_levels) w = finish_codes<Rounder::bit>(w);
    if (p.maps) w = map_nibbles(load_nibble_map(p.code), w);
    return s.zero != 0u ? broadcast(p.zeros) : w;
  }
};

template <class Rounder>
void code_products(const rounding_plan& p, const lane_blocks& v, u32* words) {
  const Rounder rounder(p);
  const float* x = v.x;
  std::uint32_t group = 0;
  for (std::size_t b = 0; b < v.count; ++b) {
    const f32 factor = v.scales[b].factor;
    for (std::size_t k = 0; k < v.length; k += 8, x += 8 * lanes) {
      u32 random_word[4] = {};
      code_word<Rounder> word;
      if constexpr (Rounder::draws) v.random_bits->draw(group, random_word);
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) {
        const f32 t = rounded(load(x + static_cast<std::size_t>(j) * lanes) * factor);
        word.add(j, rounder(t, j % 2 == 0 ? random_word[j / 2] & 0xFFFFu : random_word[j / 2] >> 16), t);
      }
      words[group++] = word.finished(p, v.scales[b]);
    }
  }
}

inline code_blocks* code_products_of(rounding_plan::kind what) {
  switch (what) {
    case rounding_plan::kind::uniform: return &code_products<uniform_rounder>;
    case rounding_plan::kind::two_bit_mantissa: return &code_products<two_bit_mantissa_rounder>;
    case rounding_plan::kind::halves: return &code_products<magnitudes_rounder<halves_rank>>;
    case rounding_plan::kind::magnitudes: return &code_products<magnitudes_rounder<magnitude_rank>>;
    case rounding_plan::kind::levels: return &code_products<levels_rounder>;
    case rounding_plan::kind::uniform_random_bits: return &code_products<uniform_random_bits_rounder>;
    case rounding_plan::kind::halves_random_bits: return &code_products<magnitude_random_bits_rounder<halves_rank>>;
    case rounding_plan::kind::magnitude_random_bits:
      return &code_products<magnitude_random_bits_rounder<magnitude_rank>>;
    case rounding_plan::kind::level_random_bits: return &code_products<level_random_bits_rounder>;
  }
  return nullptr;
}

/// The same for scales that divide: the quotients first, then as products with 1. Leaves out blocks of which `only` has
/// no bit.
inline void code_some_quotients(const rounding_plan& p, const lane_blocks& v, u32* words, std::uint32_t only) {
  alignas(64) float t[max_transform * lanes];
  lane_scales one = v.scales[0];
  random_word_lanes random_bits = *v.random_bits;
  one.factor = broadcast(1.0f);
  for (std::size_t b = 0; b < v.count; ++b, random_bits.skip(v.length)) {
    if ((only >> b & 1u) == 0) continue;
    one.zero = v.scales[b].zero;
    for (std::size_t k = 0; k < v.length; ++k)
      store(t + k * lanes, load(v.x + (b * v.length + k) * lanes) / v.scales[b].factor);
    code_products_of(p.what)(p, {t, v.length, 1, &one, &random_bits}, words + b * v.length / 8);
  }
}
inline void code_quotients(const rounding_plan& p, const lane_blocks& v, u32* words) {
  code_some_quotients(p, v, words, ~0u);
}

/// The same by reciprocals; a block with a value in doubt again with quotients.
template <class Near>
void code_near(const rounding_plan& p, const lane_blocks& v, u32* words) {
  const float* x = v.x;
  std::uint32_t in_doubt = 0;
  for (std::size_t b = 0; b < v.count; ++b) {
    const lane_scales& s = v.scales[b];
    const Near nearby(p, s.factor);
    // Scales and reciprocals from 2^-64 to 2^64: nothing overflows or is subnormal.
    u32 doubt = as_bits(s.factor) - (63u << 23) < 128u << 23 ? ~u32{} : u32{};
    for (std::size_t k = 0; k < v.length; k += 8, x += 8 * lanes) {
      code_word<Near> word;
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) {
        const f32 t = load(x + static_cast<std::size_t>(j) * lanes);
        word.add(j, nearby(t, doubt), t);
      }
      words[(b * v.length + k) / 8] = word.finished(p, s);
    }
    in_doubt |= (lane_bits(reinterpret_cast<u32>(doubt < Near::limit)) != 0 ? 1u : 0u) << b;
  }
  if (in_doubt != 0) code_some_quotients(p, v, words, in_doubt);
}

inline code_blocks* code_blocks_of(const rounding_plan& p, bool divides) {
  if (!divides) return code_products_of(p.what);
  if (p.nearby == near_kind::uniform) return &code_near<near_uniform>;
  if (p.nearby == near_kind::two_bit_mantissa) return &code_near<near_two_bit_mantissa>;
  return &code_quotients;
}

/// How many elements of a block a lane lie beyond qmax. The largest of a block tells whether any can.
inline std::uint64_t count_beyond(const float* x, std::size_t count, u32 amax, const lane_scales& s, bool divides,
                                  float qmax) {
  const auto beyond = [&](f32 v) {
    return reinterpret_cast<u32>(magnitude(divides ? v / s.factor : v * s.factor) > qmax);
  };
  if (lane_bits(beyond(as_float(amax)) & ~s.zero) == 0) return 0;
  u32 counts{};
  for (std::size_t k = 0; k < count; ++k) counts -= beyond(load(x + k * lanes)) & ~s.zero;
  std::uint64_t sum = 0;
  for (std::size_t l = 0; l < lanes; ++l) sum += counts[l];
  return sum;
}

// ---- Tiles.

/// Bands of as many runs as there are lanes: several bands, so that the scales of several blocks are under way at once.
struct tile {
  alignas(64) float x[max_transform * lanes];       ///< transformed: element k of lane l is x[k * lanes + l]
  alignas(64) float staged[max_transform * lanes];  ///< what could not be read in place
  u32 peak[max_transform / 16];                     ///< the largest magnitudes of every sixteen elements, as bits
};

/// Stages of stride 1, 2, ... over whole vectors. The difference as one fma: it rounds once too, and finds free units
/// where additions have fewer of them.
template <std::size_t count>
UFP4_LANE void butterflies(f32 (&v)[count]) {
  const f32 minus_one = broadcast(-1.0f);
#pragma GCC unroll 4
  for (std::size_t stride = 1; stride < count; stride *= 2) {
#pragma GCC unroll 16
    for (std::size_t j = 0; j < count; ++j)
      if ((j & stride) == 0) {
        const f32 a = v[j], b = v[j + stride];
        v[j] = a + b;
        v[j + stride] = fma(b, minus_one, a);
      }
  }
}

/// A transform as a tile takes it.
struct tile_transform {
  std::size_t n;
  bool rounds_to_bf16;
  float factor;
  alignas(64) std::uint32_t flip[max_transform];

  explicit tile_transform(const transform_spec& t)
      : n(t.n), rounds_to_bf16(t.rounds_to_bf16), factor(hadamard_factor(t.n)) {
    for (std::uint32_t j = 0; j < t.n; ++j) flip[j] = t.signs[j / 32] << (31 - j % 32) & ufp4::detail::sign_mask;
  }
  UFP4_LANE f32 scaled(f32 v) const {
    v = v * factor;
    return rounds_to_bf16 ? as_float(round_bf16(v) & 0xFFFF0000u) : v;
  }
};

UFP4_LANE u32 peak_of(const f32 (&v)[16]) {
  u32 peak[4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) peak[j] = as_bits(magnitude(v[j]));
#pragma GCC unroll 12
  for (int j = 4; j < 16; ++j) peak[j % 4] = maximum(peak[j % 4], as_bits(magnitude(v[j])));
  return maximum(maximum(peak[0], peak[1]), maximum(peak[2], peak[3]));
}

/// The stages of a longer transform across its groups of sixteen elements, and the factor.
template <std::size_t groups>
void finish_transform(const tile_transform& h, float* x) {
  for (std::size_t j = 0; j < 16; ++j) {
    f32 v[groups];
#pragma GCC unroll 16
    for (std::size_t g = 0; g < groups; ++g) v[g] = load(x + (16 * g + j) * lanes);
    butterflies(v);
#pragma GCC unroll 16
    for (std::size_t g = 0; g < groups; ++g) store(x + (16 * g + j) * lanes, h.scaled(v[g]));
  }
}

enum class tile_stage { plain, transform_16, first_of_more };

/// Reads `count` elements of every lane, sixteen at a time: get(k, v). Their place in the tile starts at `base`.
template <tile_stage stage, class Get>
void read_groups(const tile_transform& h, std::size_t count, const Get& get, tile& t, std::size_t base) {
  for (std::size_t k = 0; k < count; k += 16) {
    f32 v[16];
    get(k, v);
    if constexpr (stage != tile_stage::plain) {
      const std::uint32_t* flip = h.flip + k % h.n;
#pragma GCC unroll 16
      for (int j = 0; j < 16; ++j) v[j] = as_float(as_bits(v[j]) ^ flip[j]);
      butterflies(v);
    }
    if constexpr (stage == tile_stage::transform_16) {
#pragma GCC unroll 16
      for (int j = 0; j < 16; ++j) v[j] = h.scaled(v[j]);
    }
    if constexpr (stage != tile_stage::first_of_more) t.peak[(base + k) / 16] = peak_of(v);
    float* x = t.x + (base + k) * lanes;
#pragma GCC unroll 16
    for (std::size_t j = 0; j < 16; ++j) store(x + j * lanes, v[j]);
  }
}

template <class Get>
void read_tile(const tile_transform& h, std::size_t count, const Get& get, tile& t, std::size_t base) {
  if (h.n == 1) return read_groups<tile_stage::plain>(h, count, get, t, base);
  if (h.n == 16) return read_groups<tile_stage::transform_16>(h, count, get, t, base);
  read_groups<tile_stage::first_of_more>(h, count, get, t, base);
  for (std::size_t k = base; k < base + count; k += h.n) {
    if (h.n == 32) finish_transform<2>(h, t.x + k * lanes);
    if (h.n == 64) finish_transform<4>(h, t.x + k * lanes);
    if (h.n == 128) finish_transform<8>(h, t.x + k * lanes);
    if (h.n == 256) finish_transform<16>(h, t.x + k * lanes);
  }
  for (std::size_t k = base; k < base + count; k += 16) {
    u32 peak{};
    for (std::size_t j = k; j < k + 16; ++j) peak = maximum(peak, as_bits(magnitude(load(t.x + j * lanes))));
    t.peak[k / 16] = peak;
  }
}

/// `count` runs of a row, one after the other from k on; the other lanes, and what lies beyond the matrix, are zeros.
inline void read_runs(const source& x, const tile_transform& h, std::size_t row, std::size_t k, std::size_t run,
                      std::size_t count, tile& t, std::size_t base) {
  const std::size_t left = x.cols > k ? x.cols - k : 0, live = left < count * run ? left : count * run;
  const float* first = t.staged;
  if (x.kind == dtype::f32 && x.col_stride == 1 && live == lanes * run) {
    first = static_cast<const float*>(x.data) + x.offset(row, k);
    // Runs longer than a cache line are read a line of each at a time, an order that prefetchers do not follow:
    // 4 KiB ahead.
    for (std::size_t j = 0; run > 16 && j < lanes * run; j += 16) __builtin_prefetch(first + 1024 + j, 0, 3);
  } else {
    if (live != 0) read_row(x, row, k, live, t.staged);
    for (std::size_t j = live; j < lanes * run; ++j) t.staged[j] = 0.0f;
  }
  read_tile(h, run, [=](std::size_t at, f32(&v)[16]) { load_transposed(first + at, run, v); }, t, base);
}

/// `run` columns of `count` rows from `row` on, of a matrix whose columns lie along memory.
inline void read_columns(const source& x, const tile_transform& h, std::size_t row, std::size_t count, std::size_t k,
                         std::size_t run, tile& t, std::size_t base) {
  const std::size_t left = x.cols > k ? x.cols - k : 0;
  source from = x;
  std::ptrdiff_t start = 0;
  if (count == lanes && left >= run) {
    start = from.offset(row, k);
  } else {
    const source turned{from.data, from.kind, from.cols, from.rows, from.col_stride, from.row_stride};
    for (std::size_t j = 0; j < run; ++j) {
      float* column = t.staged + j * lanes;
      for (std::size_t l = 0; l < lanes; ++l) column[l] = 0.0f;
      if (j < left) read_row(turned, k + j, row, count, column);
    }
    from = {t.staged, dtype::f32, lanes, run, 1, static_cast<std::ptrdiff_t>(lanes)};
  }
  const auto get = [&from, start](std::size_t at, f32(&v)[16]) {
    const std::ptrdiff_t step = from.col_stride, first = start + static_cast<std::ptrdiff_t>(at) * step;
    const auto* wide = static_cast<const float*>(from.data) + first;
    const auto* half = static_cast<const std::uint16_t*>(from.data) + first;
    if (from.kind == dtype::f32) {
#pragma GCC unroll 16
      for (int j = 0; j < 16; ++j) v[j] = load(wide + j * step);
    } else if (from.kind == dtype::bf16) {
#pragma GCC unroll 16
      for (int j = 0; j < 16; ++j) v[j] = widen_bf16(load_as<half_u16>(half + j * step));
    } else {
#pragma GCC unroll 16
      for (int j = 0; j < 16; ++j) v[j] = widen_fp16(load_as<half_u16>(half + j * step));
    }
  };
  read_tile(h, run, get, t, base);
}

// ---- Memory.

/// Writes words[0 .. count) of lane l to base + l * stride, for l < live.
inline void store_lanes(const u32* words, std::size_t count, std::uint8_t* base, std::size_t stride, std::size_t live) {
  std::size_t w = 0;
  if (count == 2 && stride == 8 && live == lanes) {
    u32 low = words[0], high = words[1];
    interleave(low, high);
    store(base, low);
    store(base + sizeof low, high);
    return;
  }
  for (; live == lanes && w + 4 <= count; w += 4) {
    f32 four[4];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) four[i] = as_float(words[w + i]);
    transpose4(four);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) store_pieces(four[i], base + i * stride + 4 * w, 4 * stride);
  }
  for (std::size_t l = 0; l < live; ++l)
    for (std::size_t i = w; i < count; ++i) {
      const std::uint32_t word = words[i][l];
      std::memcpy(base + l * stride + 4 * i, &word, 4);
    }
}

/// Writes scales[0 .. count) of lane l to numbers first + l * stride on.
inline void store_scales(void* out, scale_kind kind, const u32* scales, std::size_t count, std::size_t first,
                         std::size_t stride, std::size_t live) {
  const auto bytes = static_cast<std::size_t>(ufp4::detail::scale_bytes(kind)), a_word = 4 / bytes;
  auto* base = static_cast<std::uint8_t*>(out) + first * bytes;
  if (count == 1 && stride == 1 && live == lanes) {
    if (bytes == 1) return store(base, low_bytes(scales[0]));
    if (bytes == 2) return store(base, __builtin_convertvector(scales[0], half_u16));
    return store(base, scales[0]);
  }
  if (count % a_word != 0) {
    for (std::size_t l = 0; l < live; ++l)
      for (std::size_t i = 0; i < count; ++i) store_scale(out, kind, first + l * stride + i, scales[i][l]);
    return;
  }
  if (bytes == 4) return store_lanes(scales, count, base, stride * bytes, live);
  u32 words[max_transform / 32];
  for (std::size_t i = 0; i < count; i += a_word)
    words[i / a_word] = bytes == 2 ? scales[i] | scales[i + 1] << 16
                                   : scales[i] | scales[i + 1] << 8 | scales[i + 2] << 16 | scales[i + 3] << 24;
  store_lanes(words, count / a_word, base, stride * bytes, live);
}

// ---- The kernels.

/// Bands of runs of a tile: enough that their scales are worked out side by side, few enough (2 KiB, or one band) that
/// reading, which waits for memory, and rounding, which does not, take turns often.
constexpr std::size_t bands_of(std::size_t run) { return run < 512 / lanes ? 512 / lanes / run : 1; }

/// One call of quantize_lanes.
class lane_quantizer {
 public:
  lane_quantizer(const quantize_job& job, const block_coder<rounding_spec>& coder, const quantized_sink& out,
                 quantize_report& report)
      : job_(job),
        coder_(coder),
        out_(out),
        report_(report),
        transform_(job.transform),
        plan_(make_plan(job.format.grid, coder.rounding.what)),
        divides_(job.format.scale != scale_kind::e8m0 && !job.format.two_level),
        code_(code_blocks_of(plan_, divides_)),
        draws_(coder.rounding.what == rounding_spec::kind::stochastic),
        run_(job.run()),
        block_(static_cast<std::size_t>(job.format.block.cols)),
        blocks_(run_ / block_),
        random_bits_(coder.rounding.random_bits) {}

  /// Rows of one-row blocks: a lane is a run of a row. Rows without gaps between them are one long row.
  void rows(std::size_t first, std::size_t last) {
    source x = job_.x;
    std::size_t width = job_.padded_cols;
    if (x.col_stride == 1 && width == x.cols && x.row_stride == static_cast<std::ptrdiff_t>(width) &&
        job_.whole_padded_cols == width) {
      width *= last - first;
      x.cols = width;
      last = first + 1;
    }
    for (std::size_t row = first; row < last; ++row)
      for (std::size_t k = 0; k < width; k += tile_width()) {
        const std::size_t runs = runs_from(k, width);
        read_bands(x, row, k, runs);
        const std::size_t blocks = (runs + lanes - 1) / lanes * blocks_;
        for (std::size_t b = 0; b < blocks; ++b) amax_[b] = amax(b);
        choose(blocks);
        code_bands(row, k, runs);
        store_block_scales(row * job_.padded_cols + k, runs);
      }
  }

  /// Strips of squares: a lane is a run again, the rows of a strip one after the other; read twice, since a scale needs
  /// all of its square.
  void squares(std::size_t first, std::size_t last) {
    for (std::size_t strip = first; strip < last; ++strip)
      for (std::size_t k = 0; k < job_.padded_cols; k += tile_width()) square_tile(strip, k);
  }

  /// Rows of one-row blocks of a matrix whose columns lie along memory: a lane is a row. A patch of 128 columns (or a
  /// run) of many rows at a time, so that long pieces of columns are read and whole cache lines of codes written.
  void columns(std::size_t first, std::size_t last) {
    const std::size_t width = run_ < patch_cols ? patch_cols : run_;
    for (std::size_t row = first; row < last; row += patch_rows)
      for (std::size_t k = 0; k < job_.padded_cols; k += width)
        patch(row, last - row < patch_rows ? last - row : patch_rows, k,
              job_.padded_cols - k < width ? job_.padded_cols - k : width);
  }

 private:
  static constexpr std::size_t patch_rows = 256, patch_cols = 128, bands = patch_rows / lanes;

  std::size_t tile_width() const { return bands_of(run_) * lanes * run_; }
  std::size_t runs_from(std::size_t k, std::size_t width) const {
    return (width - k < tile_width() ? width - k : tile_width()) / run_;
  }
  /// body(band, first run, runs) of as many runs as a tile holds at most.
  template <class Body>
  static void each_band(std::size_t runs, const Body& body) {
    for (std::size_t r = 0, band = 0; r < runs; r += lanes, ++band) body(band, r, runs - r < lanes ? runs - r : lanes);
  }
  void read_bands(const source& x, std::size_t row, std::size_t k, std::size_t runs) {
    each_band(runs, [&](std::size_t band, std::size_t r, std::size_t count) {
      read_runs(x, transform_, row, k + r * run_, run_, count, tile_, band * run_);
    });
  }

  u32 amax(std::size_t block) const {
    u32 peak = tile_.peak[block * block_ / 16];
    for (std::size_t g = 1; g < block_ / 16; ++g) peak = maximum(peak, tile_.peak[block * block_ / 16 + g]);
    return peak;
  }
  void choose(std::size_t blocks) {
    for (std::size_t b = 0; b < blocks; ++b) choose_lanes(coder_, amax_[b], bits_[b], scale_[b], report_);
  }
  /// Lane l is l * step elements after (row, k).
  void place_random_bits(std::size_t row, std::size_t k, std::size_t step) {
    random_bits_.place((job_.first_row + row) * job_.whole_padded_cols + job_.first_col + k, step);
  }

  /// Codes blocks first .. first + count - 1 of the tile, which lie one after the other in their rows.
  void code(std::size_t first, std::size_t count, u32* words) {
    code_(plan_, {tile_.x + first * block_ * lanes, block_, count, scale_ + first, &random_bits_}, words);
    for (std::size_t b = first; job_.counts && b < first + count; ++b)
      report_.saturated +=
          count_beyond(tile_.x + b * block_ * lanes, block_, amax_[b], scale_[b], divides_, plan_.qmax);
  }
  /// Codes the tile, which starts at (row, k); random bits differ from band to band.
  void code_bands(std::size_t row, std::size_t k, std::size_t runs) {
    u32 words[max_transform / 8];
    if (!draws_) code(0, (runs + lanes - 1) / lanes * blocks_, words);
    each_band(runs, [&](std::size_t band, std::size_t r, std::size_t count) {
      u32* here = words + band * run_ / 8;
      if (draws_) place_random_bits(row, k + r * run_, run_), code(band * blocks_, blocks_, here);
      store_lanes(here, run_ / 8, out_.codes + (row * job_.padded_cols + k + r * run_) / 2, run_ / 2, count);
    });
  }
  /// `place` counts the elements before the tile's first block in all strips.
  void store_block_scales(std::size_t place, std::size_t runs) {
    each_band(runs, [&](std::size_t band, std::size_t r, std::size_t count) {
      store_scales(out_.scales, job_.format.scale, bits_ + band * blocks_, blocks_, (place + r * run_) / block_,
                   blocks_, count);
    });
  }

  void square_tile(std::size_t strip, std::size_t k) {
    const auto height = static_cast<std::size_t>(job_.format.block.rows);
    const std::size_t top = strip * height, left = job_.x.rows - top, bottom = top + (left < height ? left : height);
    const std::size_t runs = runs_from(k, job_.padded_cols), blocks = (runs + lanes - 1) / lanes * blocks_;
    for (std::size_t b = 0; b < blocks; ++b) amax_[b] = u32{};
    for (std::size_t row = top; row < bottom; ++row) {
      read_bands(job_.x, row, k, runs);
      for (std::size_t b = 0; b < blocks; ++b) amax_[b] = maximum(amax_[b], amax(b));
    }
    choose(blocks);
    for (std::size_t row = top; row < bottom; ++row) {
      read_bands(job_.x, row, k, runs);
      code_bands(row, k, runs);
    }
    store_block_scales(strip * job_.padded_cols + k, runs);
  }

  void patch(std::size_t row, std::size_t rows, std::size_t k, std::size_t width) {
    u32 words[bands][max_transform / 8], bits[bands][max_transform / 16];
    const std::size_t at_once = bands_of(run_), live = (rows + lanes - 1) / lanes;
    for (std::size_t j = 0; j < width; j += run_)
      for (std::size_t band = 0; band < live; band += at_once)
        column_bands(row, rows, k, j, band, live - band < at_once ? live - band : at_once, words, bits);
    for (std::size_t band = 0; band < live; ++band) {
      const std::size_t here = row + band * lanes, left = rows - band * lanes, count = left < lanes ? left : lanes;
      store_lanes(words[band], width / 8, out_.codes + (here * job_.padded_cols + k) / 2, job_.padded_cols / 2, count);
      store_scales(out_.scales, job_.format.scale, bits[band], width / block_, (here * job_.padded_cols + k) / block_,
                   job_.padded_cols / block_, count);
    }
  }
  /// One run of some bands: run j of the patch.
  void column_bands(std::size_t row, std::size_t rows, std::size_t k, std::size_t j, std::size_t first,
                    std::size_t count, u32 (*words)[max_transform / 8], u32 (*bits)[max_transform / 16]) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t above = (first + i) * lanes, left = rows - above;
      read_columns(job_.x, transform_, row + above, left < lanes ? left : lanes, k + j, run_, tile_, i * run_);
    }
    for (std::size_t b = 0; b < count * blocks_; ++b) amax_[b] = amax(b);
    choose(count * blocks_);
    u32 coded[max_transform / 8];
    if (!draws_) code(0, count * blocks_, coded);
    for (std::size_t i = 0; i < count; ++i) {
      u32* here = coded + i * run_ / 8;
      if (draws_)
        place_random_bits(row + (first + i) * lanes, k + j, job_.whole_padded_cols), code(i * blocks_, blocks_, here);
      for (std::size_t w = 0; w < run_ / 8; ++w) words[first + i][j / 8 + w] = here[w];
      for (std::size_t b = 0; b < blocks_; ++b) bits[first + i][j / block_ + b] = bits_[i * blocks_ + b];
    }
  }

  const quantize_job& job_;
  const block_coder<rounding_spec>& coder_;
  const quantized_sink& out_;
  quantize_report& report_;
  tile_transform transform_;
  rounding_plan plan_;
  bool divides_;
  code_blocks* code_;
  bool draws_;
  std::size_t run_, block_, blocks_;  ///< elements of a run and of a block, blocks of a run
  random_word_lanes random_bits_;
  lane_scales scale_[max_transform / 16];
  u32 amax_[max_transform / 16], bits_[max_transform / 16];
  tile tile_;
};

/// Whether columns are better read as they lie than gathered into rows.
inline bool reads_columns(const source& x) { return x.row_stride == 1 && x.col_stride != 1 && x.rows > 1; }

inline bool takes_quantize(const quantize_job& job, const block_coder<rounding_spec>& c) {
  using kind = ufp4::detail::rule_kind;
  const grid4& g = job.format.grid;
  const bool one_zero = g.minus_zero == g.code[g.zero], normal = ufp4::detail::to_bits(g.qmax) >= 0x00800000u;
  return job.format.block.cols >= 16 && !job.rounds_input_to_bf16 && !c.rule.mse_search &&
         c.rule.what != kind::four_over_six && normal && (one_zero || is_symmetric(g));
}

/// What quantize_scalar does, for the jobs that takes_quantize admits.
inline void quantize_lanes(const quantize_job& job, const block_coder<rounding_spec>& coder, const quantized_sink& out,
                           std::size_t first, std::size_t last, quantize_report& report) {
  if (job.padded_cols == 0 || first >= last) return;
  lane_quantizer q(job, coder, out, report);
  if (job.format.block.rows != 1)
    q.squares(first, last);
  else if (reads_columns(job.x))
    q.columns(first, last);
  else
    q.rows(first, last);
}

/// The largest finite magnitude of `count` elements of lanes. Those that are not finite are looked for only where the
/// largest of all is one.
inline std::uint32_t finite_peak(const float* x, std::size_t count) {
  u32 peak{};
  for (std::size_t i = 0; i < count; i += lanes) peak = maximum(peak, as_bits(magnitude(load(x + i))));
  const std::uint32_t largest = largest_lane(peak);
  if (largest < ufp4::detail::infinity_bits) return largest;
  peak = u32{};
  for (std::size_t i = 0; i < count; i += lanes) {
    const u32 m = as_bits(magnitude(load(x + i)));
    peak = maximum(peak, m < ufp4::detail::infinity_bits ? m : u32{});
  }
  return largest_lane(peak);
}

/// amax without a transform: any order of elements will do, so columns that lie along memory are read as rows.
inline std::uint32_t amax_plain(source x, std::size_t first, std::size_t last) {
  constexpr std::size_t chunk = 1024;
  alignas(64) float staged[chunk + lanes];
  std::uint32_t largest = 0;
  x.data = static_cast<const char*>(x.data) + x.offset(first, 0) * (x.kind == dtype::f32 ? 4 : 2);
  x.rows = last - first;
  if (reads_columns(x)) x = {x.data, x.kind, x.cols, x.rows, x.col_stride, x.row_stride};
  for (std::size_t i = 0; i < x.rows; ++i)
    for (std::size_t k = 0; k < x.cols; k += chunk) {
      const std::size_t count = x.cols - k < chunk ? x.cols - k : chunk;
      const float* p = staged;
      if (x.kind == dtype::f32 && x.col_stride == 1 && count % lanes == 0) {
        p = static_cast<const float*>(x.data) + x.offset(i, k);
      } else {
        read_row(x, i, k, count, staged);
        for (std::size_t j = count; j % lanes != 0; ++j) staged[j] = 0.0f;
      }
      const std::uint32_t here = finite_peak(p, (count + lanes - 1) / lanes * lanes);
      largest = here > largest ? here : largest;
    }
  return largest;
}

/// The largest finite magnitude of a tile.
inline std::uint32_t amax_of(const tile& t, std::size_t span) {
  u32 peak = t.peak[0];
  for (std::size_t g = 1; g < span / 16; ++g) peak = maximum(peak, t.peak[g]);
  const std::uint32_t largest = largest_lane(peak);
  return largest < ufp4::detail::infinity_bits ? largest : finite_peak(t.x, span * lanes);
}

/// What amax_strips does.
inline std::uint32_t amax_lanes(const quantize_job& whole, std::size_t first, std::size_t last) {
  if (whole.rounds_input_to_bf16) return amax_strips(whole, first, last);
  const auto height = static_cast<std::size_t>(whole.format.block.rows);
  first *= height;
  last = last * height < whole.x.rows ? last * height : whole.x.rows;
  if (whole.padded_cols == 0 || first >= last) return 0;
  if (whole.transform.n == 1) return amax_plain(whole.x, first, last);
  const source& x = whole.x;
  const tile_transform h(whole.transform);
  const std::size_t run = h.n, width = (x.cols + run - 1) / run * run;  // blocks do not matter
  std::uint32_t largest = 0;
  tile t;
  const auto keep = [&](std::size_t span) {
    const std::uint32_t here = amax_of(t, span);
    largest = here > largest ? here : largest;
  };
  for (std::size_t row = first; row < last; row += reads_columns(x) ? lanes : 1) {
    if (reads_columns(x))
      for (std::size_t k = 0; k < width; k += run) {
        read_columns(x, h, row, last - row < lanes ? last - row : lanes, k, run, t, 0);
        keep(run);
      }
    else
      for (std::size_t k = 0; k < width; k += lanes * run) {
        const std::size_t runs = (width - k) / run;
        read_runs(x, h, row, k, run, runs < lanes ? runs : lanes, t, 0);
        keep(run);
      }
  }
  return largest;
}
