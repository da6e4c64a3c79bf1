// ufp4 - blocks of scaled values to words of eight codes, a block a lane, and codes and scales to memory.
// SPDX-License-Identifier: Apache-2.0
#if !defined(UFP4_CODE_LANES)
#define UFP4_CODE_LANES
#include <ufp4/cpu/kernels/quantize/block_scale_lanes.hpp>
#include <ufp4/cpu/kernels/quantize/rounder_lanes.hpp>

UFP4_BEGIN_LANES(quantize_kernel)

/// The random bits of a run a lane (numerics 3): the Philox counters of its first eight elements, and the keys.
struct random_bit_lanes {
  u32 low{}, high{};
  std::uint32_t stream[2] = {};
  philox_keys keys;

  random_bit_lanes() = default;
  explicit random_bit_lanes(const stochastic& s)
      : stream{static_cast<std::uint32_t>(s.stream), static_cast<std::uint32_t>(s.stream >> 32)}, keys(s.seed) {}
  /// Lane l starts at element + l * step, both multiples of 16.
  void place(std::uint64_t element, std::uint64_t step) {
    const std::uint64_t group = element >> 3, apart = step >> 3;
    if (apart < std::uint64_t{1} << 27) {  // that of lanes, times it, does not overflow
      static constexpr std::uint32_t lane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
      low = broadcast(static_cast<std::uint32_t>(group)) + load_as<u32>(lane) * static_cast<std::uint32_t>(apart);
      high = broadcast(static_cast<std::uint32_t>(group >> 32));
      high -= reinterpret_cast<u32>(low < static_cast<std::uint32_t>(group));
      return;
    }
    for (std::size_t l = 0; l < lanes; ++l) {
      low[l] = static_cast<std::uint32_t>(group + l * apart);
      high[l] = static_cast<std::uint32_t>((group + l * apart) >> 32);
    }
  }
  void skip(std::size_t elements) {
    const u32 before = low;
    low += static_cast<std::uint32_t>(elements / 8);
    high -= reinterpret_cast<u32>(low < before);
  }
  /// The random bits of `groups` groups of eight elements of every lane, two elements a word.
  [[gnu::noinline]] void draw(std::size_t groups, u32 (*word)[4]) const {
    const u32 last = low + static_cast<std::uint32_t>(groups);
    if (lane_bits(reinterpret_cast<u32>(high != high[0]) | reinterpret_cast<u32>(last < low)) == 0) {
      const uniform_philox_rounds rounds(high[0], stream, keys);
      for (std::uint32_t group = 0; group < groups; ++group) rounds(low + group, keys, word[group]);
      return;
    }
    for (std::uint32_t group = 0; group < groups; ++group) {
      u32 counter[4] = {low + group, high, broadcast(stream[0]), broadcast(stream[1])};
      counter[1] -= reinterpret_cast<u32>(counter[0] < low);
      philox_rounds(counter, keys);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) word[group][i] = counter[i];
    }
  }
  /// The random number of element j of a group.
  static UFP4_LANE u32 of(const u32* word, int j) { return j % 2 == 0 ? word[j / 2] & 0xFFFFu : word[j / 2] >> 16; }
};

struct lane_blocks;
using code_blocks = void(const rounding_plan&, const lane_blocks&, u32* words);

/// `count` blocks a lane, one after the other, of `length` elements each; random_bits is placed at the first.
struct lane_blocks {
  const float* x;
  std::size_t length, count;
  const lane_scales* scales;
  const random_bit_lanes* random_bits;
  code_blocks* code_products;  ///< codes blocks whose scales multiply
  bool divides = false;        ///< whether scales divide, for code_byte_elements
  u32 (*drawn)[4] = nullptr;   ///< where they are drawn already: the words of all groups
};

/// A word of indices as a word of codes.
UFP4_LANE u32 mapped(const rounding_plan& p, const lane_scales& s, u32 word) {
  word = codes_of(p, word);
  return s.zero != 0u ? broadcast(p.zeros) : word;
}

/// Eight elements of every lane by cuts_rounder, four at a time: they and their indices fit in sixteen registers.
/// random_word is null where the rounding is not stochastic.
UFP4_LANE u32 code_eight(const rounding_plan& p, const float* x, f32 factor, const u32* random_word) {
  const cuts_rounder rounder{p};
  u32 word{};
  for (int first = 0; first < 8; first += 4, x += 4 * lanes) {
    f32 t[4];
    u32 index[4] = {}, sign[4];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 4; ++j) {
      const f32 scaled = rounded(load(x + j * lanes) * factor);
      sign[j] = rounder.sign(scaled);
      t[j] = rounder.value(scaled);
    }
    rounder.ranks(t, index);
    if (random_word != nullptr) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) index[j] = rounder.moved(t[j], index[j], random_bit_lanes::of(random_word, j));
      random_word += 2;
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) word |= (index[j] | sign[j]) << (4 * (first + j));
  }
  return word;
}
template <class Rounder, bool is_stochastic = Rounder::is_stochastic>
void code_products(const rounding_plan& p, const lane_blocks& v, u32* words) {
  [[maybe_unused]] const Rounder rounder{p};
  const float* x = v.x;
  u32 memory[is_stochastic ? max_transform / 8 : 1][4];
  u32(*random_words)[4] = memory;
  if constexpr (is_stochastic) {
    if (v.drawn != nullptr)
      random_words = v.drawn;
    else
      v.random_bits->draw(v.count * v.length / 8, memory);
  }
  std::uint32_t group = 0;
  for (std::size_t b = 0; b < v.count; ++b) {
    const f32 factor = v.scales[b].factor;
    for (std::size_t k = 0; k < v.length; k += 8, x += 8 * lanes) {
      const u32* random_word = random_words[is_stochastic ? group : 0];
      u32 word{};
      if constexpr (std::is_same_v<Rounder, cuts_rounder>) {
        word = code_eight(p, x, factor, is_stochastic ? random_word : nullptr);
      } else {
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) {
          const f32 t = rounded(load(x + static_cast<std::size_t>(j) * lanes) * factor);
          const u32 random = is_stochastic ? random_bit_lanes::of(random_word, j) : u32{};
          word = add_code<Rounder::bit>(word, j, rounder(t, random), t);
        }
        word = finish_codes<Rounder::bit>(word);
      }
      words[group++] = mapped(p, v.scales[b], word);
    }
  }
}

/// What the functions that code depend on.
inline constexpr features rounding_features =
    grid_features | features::random_bits | features::other_rounding | features::quotient;

/// Whether a plan of this kind can be made for the grids and roundings of `needs`.
template <features needs>
constexpr bool plans(rounding_plan::kind what) {
  using kind = rounding_plan::kind;
  constexpr bool random = has(needs, features::random_bits), uniform = has(needs, features::uniform_grid),
                 two_bit = has(needs, features::two_bit_grid), other = has(needs, features::other_grid),
                 any_cut = other || has(needs, features::other_rounding);
  switch (what) {
    case kind::uniform: return uniform;
    case kind::two_bit_mantissa: return two_bit && !cheap_lookup;
    case kind::halves: return (two_bit || any_cut) && cheap_lookup;
    case kind::cuts: return any_cut;
    case kind::uniform_stochastic: return random && uniform;
    case kind::two_bit_mantissa_stochastic: return random && two_bit;
    case kind::halves_stochastic: return random && other && cheap_lookup;
    case kind::cuts_stochastic: return random && other;
  }
  return false;
}
/// visit<Rounder>() for the rounder of a kind but cuts and cuts_stochastic.
template <features needs, class Visit>
void with_rounder(rounding_plan::kind what, const Visit& visit) {
  using kind = rounding_plan::kind;
  const auto may_be = [&]<kind k, class Rounder>() {
    if constexpr (plans<needs>(k))
      if (what == k) visit.template operator()<Rounder>();
  };
  may_be.template operator()<kind::uniform, uniform_rounder>();
  may_be.template operator()<kind::two_bit_mantissa, two_bit_mantissa_rounder>();
  may_be.template operator()<kind::halves, halves_rounder>();
  may_be.template operator()<kind::uniform_stochastic, uniform_stochastic_rounder>();
  may_be.template operator()<kind::two_bit_mantissa_stochastic, two_bit_mantissa_stochastic_rounder>();
  may_be.template operator()<kind::halves_stochastic, halves_stochastic_rounder>();
}
template <features needs>
code_blocks* code_products_of(rounding_plan::kind what) {
  using kind = rounding_plan::kind;
  code_blocks* code = nullptr;
  with_rounder<needs>(what, [&]<class Rounder>() { code = &code_products<Rounder>; });
  if constexpr (plans<needs>(kind::cuts))
    if (what == kind::cuts) code = &code_products<cuts_rounder, false>;
  if constexpr (plans<needs>(kind::cuts_stochastic))
    if (what == kind::cuts_stochastic) code = &code_products<cuts_rounder, true>;
  return code;
}

/// For scales that divide: the quotients first, then as products with 1. Leaves out blocks whose bit in `only` is 0.
inline void code_some_quotients(const rounding_plan& p, const lane_blocks& v, u32* words, std::uint32_t only) {
  alignas(64) float t[max_transform * lanes];
  lane_scales one = v.scales[0];
  random_bit_lanes random_bits = *v.random_bits;
  one.factor = broadcast(1.0f);
  for (std::size_t b = 0; b < v.count; ++b, random_bits.skip(v.length)) {
    if ((only >> b & 1u) == 0) continue;
    one.zero = v.scales[b].zero;
    for (std::size_t k = 0; k < v.length; ++k)
      store(t + k * lanes, load(v.x + (b * v.length + k) * lanes) / v.scales[b].factor);
    v.code_products(p, {t, v.length, 1, &one, &random_bits, nullptr}, words + b * v.length / 8);
  }
}
inline void code_quotients(const rounding_plan& p, const lane_blocks& v, u32* words) {
  code_some_quotients(p, v, words, ~0u);
}

/// The same by reciprocals; blocks with a value in doubt again with quotients.
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
      u32 word{};
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) {
        const f32 t = load(x + static_cast<std::size_t>(j) * lanes);
        word = add_code<Near::bit>(word, j, nearby(t, doubt, u32{}), t);
      }
      words[(b * v.length + k) / 8] = mapped(p, s, finish_codes<Near::bit>(word));
    }
    in_doubt |= (lane_bits(reinterpret_cast<u32>(doubt < Near::limit)) != 0 ? 1u : 0u) << b;
  }
  if (in_doubt != 0) code_some_quotients(p, v, words, in_doubt);
}

template <features needs>
code_blocks* code_blocks_of(const rounding_plan& p, bool divides, code_blocks* code_products) {
  if constexpr (has(needs, features::quotient)) {
    if constexpr (has(needs, features::uniform_grid))
      if (divides && p.nearby == near_kind::uniform) return &code_near<near_uniform>;
    if constexpr (has(needs, features::two_bit_grid))
      if (divides && p.nearby == near_kind::two_bit_mantissa) return &code_near<near_two_bit_mantissa>;
    if (divides) return &code_quotients;
  }
  return code_products;
}

/// Where a factor is limited (block_scale::is_limited).
UFP4_LANE u32 limited(bool divides, f32 factor) {
  return divides ? u32{} : reinterpret_cast<u32>(factor == max_finite);
}

/// How many elements of a block a lane are beyond counted_range. None is where the amax of the block is not.
inline std::uint64_t count_beyond(const float* x, std::size_t count, u32 amax, const lane_scales& s, bool divides,
                                  const value_range& range) {
  const auto scaled = [&](f32 v) { return divides ? v / s.factor : v * s.factor; };
  const u32 none = limited(divides, s.factor);
  const f32 least = none != 0u ? f32{} : broadcast(range.least), most = none != 0u ? f32{} : broadcast(range.most);
  if (lane_bits(reinterpret_cast<u32>(scaled(as_float(amax)) > at_most(-least, most)) & ~s.zero) == 0) return 0;
  u32 counts{};
  const auto add = [&](const auto& is_beyond) {
    for (std::size_t k = 0; k < count; ++k)
      counts -= reinterpret_cast<u32>(is_beyond(scaled(load(x + k * lanes)))) & ~s.zero;
  };
  if (range.least == -range.most)
    add([&](f32 t) { return magnitude(t) > most; });
  else
    add([&](f32 t) { return (t > most) | (t < least); });
  std::uint64_t sum = 0;
  for (std::size_t l = 0; l < lanes; ++l) sum += counts[l];
  return sum;
}

// ---- Writing the codes and the scales of a panel.

/// Writes words[0 .. count) of lane l to base + l * stride, for l < live.
[[gnu::noinline]] inline void store_lanes(const u32* words, std::size_t count, std::uint8_t* base, std::size_t stride,
                                          std::size_t live) {
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
    for (std::size_t i = 0; i < 4; ++i) store_parts(four[i], base + i * stride + 4 * w, 4 * stride);
  }
  for (std::size_t l = 0; l < live; ++l)
    for (std::size_t i = w; i < count; ++i) {
      const std::uint32_t word = words[i][l];
      __builtin_memcpy(base + l * stride + 4 * i, &word, 4);
    }
}

/// Writes scales[0 .. count) of lane l to numbers first + l * stride on.
inline void store_scales(void* out, scale_kind kind, const u32* scales, std::size_t count, std::size_t first,
                         std::size_t stride, std::size_t live) {
  const auto bytes = static_cast<std::size_t>(scale_bytes(kind)), a_word = 4 / bytes;
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
  u32 words[max_transform / 16] = {};
  for (std::size_t i = 0; i < count; ++i)
    words[i / a_word] |= scales[i] << static_cast<std::uint32_t>(8 * bytes * (i % a_word));
  store_lanes(words, count / a_word, base, stride * bytes, live);
}
UFP4_END_LANES
#endif
