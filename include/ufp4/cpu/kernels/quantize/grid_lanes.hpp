// ufp4 - blocks with grids of their own, a block a lane: several regular grids, and pairs that differ in one value.
// SPDX-License-Identifier: Apache-2.0
#if !defined(UFP4_GRID_LANES)
#define UFP4_GRID_LANES
#include <ufp4/cpu/kernels/quantize/code_lanes.hpp>
#include <ufp4/cpu/kernels/quantize/error_lanes.hpp>

UFP4_BEGIN_LANES(quantize_kernel)

/// Stochastic rounding of blocks whose grids, of magnitudes 0 .. 7 units or 0 1 2 3 4 6 8 12 units, differ: as
/// two_bit_mantissa_stochastic_rounder, whose constants are numbers a lane.
class regular_grids {
 public:
  /// Whether a grid is such a one.
  static bool have(const rounding_plan& p) {
    using kind = rounding_plan::kind;
    return p.what == kind::uniform_stochastic || p.what == kind::two_bit_mantissa_stochastic;
  }
  /// All lanes have this grid, under scaled values times `rescale`.
  regular_grids(const rounding_plan& p, f32 rescale)
      : rescale_(rescale), qmax_(broadcast(p.qmax)), scale_(broadcast(65536.0f / p.unit)) {
    normal_ = p.what == rounding_plan::kind::uniform_stochastic ? qmax_ : broadcast(2 * p.unit);
    offset_ = 32u - as_bits(normal_);
  }
  /// The lanes of `where` have another grid.
  void change(u32 where, const regular_grids& to) {
    const auto choose = [&](f32& a, f32 b) { a = where != 0u ? b : a; };
    choose(rescale_, to.rescale_);
    choose(qmax_, to.qmax_);
    choose(scale_, to.scale_);
    choose(normal_, to.normal_);
    offset_ = where != 0u ? to.offset_ : offset_;
  }
  f32 rescale() const { return rescale_; }
  f32 qmax() const { return qmax_; }
  /// Indices as words, without the maps of the grids.
  template <bool divides>
  void code(const float* x, std::size_t length, f32 factor, const u32 (*random_words)[4], u32* words) const {
    const grid_trial by{factor, rescale_, f32{}, search_error::squared};
    const f32 qmax = qmax_, scale = scale_, normal = normal_;
    const u32 offset = offset_;
    for (std::size_t k = 0; k < length; k += 8, x += 8 * lanes) {
      u32 word{};
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) {
        const f32 t = by.scaled<divides, true>(load(x + static_cast<std::size_t>(j) * lanes));
        const f32 a = magnitude_at_most(t, qmax);
        const u32 index = stochastic_carry(at_most(a, normal), scale, random_bit_lanes::of(random_words[k / 8], j)) +
                          ((as_bits(at_least(a, normal)) + offset) >> 6);
        word = add_code<16>(word, j, index, t);
      }
      words[k / 8] = finish_codes<16>(word);
    }
  }

 private:
  f32 rescale_, qmax_, scale_, normal_;
  u32 offset_;
};

/// Two grids that are magnitudes of 0 1 2 3 4 6 8 12 units, with one zero, and the value 10 units in one and -10 units
/// in the other (fp4_remapped<E2M1, 5> and fp4_remapped<E2M1, -5>). Scales are the same for both, and codes differ only
/// where a magnitude is between 9 and 11 units.
class remapped_pair {
 public:
  /// Whether the grids of a format are such a pair.
  static bool is(const format_spec& f) {
    if (f.choice.count != 1 || factor_of(f, 1) != 1.0f) return false;
    const grid4 &a = f.grid, &b = nth_grid(f, 1);
    return a.levels == 16 && b.levels == 16 && a.zero + b.zero == 15 && unit_of(a) == unit_of(b) && has_values(a) &&
           has_values(b);
  }
  remapped_pair() = default;
  explicit remapped_pair(const format_spec& f)
      : unit_(unit_of(f.grid)), near_(to_bits(9 * unit_) + 1), first_is_negative_(f.grid.zero == 8) {
    error_ = plan_errors(symmetric_part(f.grid), false);
    end_ = end_of_binade(f.grid.qmax) * 0.999f;
    for (int g = 0; g < 2; ++g) plan_maps(nth_grid(f, g), map_[g], map_of_counts_[g]);
  }

  /// Errors of a block under both grids, and its codes to nearest even: a word of indices, and the elements that have
  /// the further value of a grid.
  struct trial {
    f32 error[2] = {};
    u32 words[max_transform / 8], further[2][max_transform / 8];
  };
  using try_grids = void(const remapped_pair&, const grid_trial&, const float* x, std::size_t length, trial&);
  /// `in_range`: no scaled magnitude reaches the end of qmax's binade; `codes`: the words are wanted.
  static try_grids* trial_of(bool divides, bool in_range, bool codes) {
    if (divides) return in_range ? trial_of<true, in_range_rounder>(codes) : trial_of<true, binade_rounder>(codes);
    return in_range ? trial_of<false, in_range_rounder>(codes) : trial_of<false, binade_rounder>(codes);
  }
  float end() const { return end_; }

  /// The codes of a trial of grid 0, or where `second` is set of one of grid 1.
  UFP4_LANE u32 codes_of(const trial& of_first, const trial& of_second, std::size_t w, u32 second) const {
    const trial* const trials[2] = {&of_first, &of_second};
    u32 word[2];
#pragma GCC unroll 2
    for (int g = 0; g < 2; ++g) {
      const u32 further = trials[g]->further[g][w], nibbles = (further << 1) - (further >> 3);
      const std::uint32_t code = map_of_counts_[g][7] * 0x11111111u;
      word[g] = (map_nibbles(load_nibble_map(map_[g]), trials[g]->words[w]) & ~nibbles) | (nibbles & code);
    }
    return second != 0u ? word[1] : word[0];
  }

  /// Codes of stochastic rounding, under grid 1 where `second` is set. The sum of two_bit_mantissa_stochastic_rounder
  /// counts one code from 8 to 12 units, and two where 10 units is a value: the part above 8 units twice.
  template <bool divides>
  void code(const float* x, std::size_t length, f32 factor, u32 second, const u32 (*random_words)[4],
            u32* words) const {
    const f32 qmax = broadcast(12 * unit_), scale = broadcast(65536.0f / unit_), normal = broadcast(2 * unit_);
    const u32 offset = 32u - as_bits(normal), eight = as_bits(broadcast(8 * unit_));
    const u32 flip = (first_is_negative_ ? ~second : second) & sign_mask;
    for (std::size_t k = 0; k < length; k += 8, x += 8 * lanes) {
      u32 word{};
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) {
        const f32 t = scaled_by<divides>(load(x + static_cast<std::size_t>(j) * lanes), factor);
        const f32 a = magnitude_at_most(t, qmax);
        const u32 longer = reinterpret_cast<u32>(reinterpret_cast<i32>(as_bits(t) ^ flip) >= 0);
        const u32 above = maximum(as_bits(a), eight) - eight, sum = as_bits(at_least(a, normal)) + offset;
        const u32 count = stochastic_carry(at_most(a, normal), scale, random_bit_lanes::of(random_words[k / 8], j)) +
                          ((longer != 0u ? sum + above : sum) >> 6);
        const u32 index =
            (longer != 0u ? count : 0xFFFFu - count) & 0xF0000u;  // -8 to 8, from the further value's side
        word |= j < 4 ? index >> (16 - 4 * j) : index << (4 * j - 16);
      }
      const u32 first = map_nibbles(load_nibble_map(map_of_counts_[0]), word);
      words[k / 8] = second != 0u ? map_nibbles(load_nibble_map(map_of_counts_[1]), word) : first;
    }
  }

 private:
  static float unit_of(const grid4& g) { return g.level[g.zero + 1]; }
  /// Level i steps from zero, in units; `steps` of them where a value is 10 units.
  static int multiple(int i, int steps) {
    constexpr int longer[9] = {0, 1, 2, 3, 4, 6, 8, 10, 12};
    return steps == 7 && i == 7 ? 12 : longer[i];
  }
  static bool has_values(const grid4& g) {
    bool same = is_power_of_two(unit_of(g)) && g.minus_zero == g.code[g.zero];
    for (int i = 0; same && i < 16; ++i) {
      const int steps = i < g.zero ? g.zero - i : i - g.zero, most = i < g.zero ? g.zero : 15 - g.zero;
      const float level = unit_of(g) * static_cast<float>(multiple(steps, most));
      same = g.level[i] == (i < g.zero ? -level : level);
    }
    return same;
  }
  static grid4 symmetric_part(const grid4& from) {
    grid4 g = from;
    g.levels = 15;
    g.zero = 7;
    for (int i = 0; i < 15; ++i) {
      const float level = unit_of(from) * static_cast<float>(multiple(i < 7 ? 7 - i : i - 7, 7));
      g.level[i] = i < 7 ? -level : level;
    }
    return g;
  }
  /// The codes by sign and index, and by steps from zero, modulo 16, on the side that has 8 levels.
  static void plan_maps(const grid4& g, std::uint8_t (&map)[16], std::uint8_t (&of_counts)[16]) {
    const int side = g.zero == 8 ? -1 : 1;  // of the further value
    for (int n = -7; n <= 8; ++n) of_counts[n & 15] = g.code[g.zero + side * n];
    for (int i = 0; i < 7; ++i) map[i] = g.code[g.zero + i], map[8 + i] = g.code[g.zero - i];
    map[7] = g.code[15];
    map[15] = g.code[0];
  }
  template <bool divides, class Rounder>
  static try_grids* trial_of(bool codes) {
    return codes ? &try_both<divides, Rounder, true> : &try_both<divides, Rounder, false>;
  }
  template <bool divides, class Rounder, bool codes>
  static void try_both(const remapped_pair& p, const grid_trial& by, const float* x, std::size_t length, trial& out) {
    const Rounder rounder(p.error_.rounding);
    const table16 value = load_table(p.error_.value);
    const f32 further = rounded(by.effective * (10 * p.unit_));
    const u32 width = broadcast(to_bits(11 * p.unit_) - p.near_);
    const std::uint32_t sign = p.first_is_negative_ ? sign_mask : 0;  // of the further value of grid 0
    const u32 near_values[2] = {broadcast(p.near_ | sign), broadcast(p.near_ | (sign ^ sign_mask))};
    f32 err[2] = {};
    for (std::size_t k = 0; k < length; k += 8, x += 8 * lanes) {
      u32 word{}, marks[2] = {};
#pragma GCC unroll 2
      for (std::size_t first = 0; first < 8; first += 4) {
        f32 d[2][4];
#pragma GCC unroll 4
        for (std::size_t j = 0; j < 4; ++j) {
          const f32 v = load(x + (first + j) * lanes), t = scaled_by<divides>(v, by.factor), m = magnitude(v);
          const u32 index = rounder(t, u32{});
          if constexpr (codes) word = add_index<Rounder>(word, first + j, index, t);
          d[0][j] = d[1][j] = m - rounded(lookup(value, index >> Rounder::bit) * by.effective);
          take_difference<codes>(first + j, as_bits(t) - near_values[0], width, m, further, d[0][j], marks[0]);
          take_difference<codes>(first + j, as_bits(t) - near_values[1], width, m, further, d[1][j], marks[1]);
        }
        err[0] = by.add_errors(err[0], d[0]);
        err[1] = by.add_errors(err[1], d[1]);
      }
      if constexpr (!codes) continue;
      out.words[k / 8] = finish_codes<Rounder::bit>(word);
      out.further[0][k / 8] = marks[0];
      out.further[1][k / 8] = marks[1];
    }
    out.error[0] = err[0];
    out.error[1] = err[1];
  }

  error_plan error_{};  ///< of the values that both grids have
  float unit_ = 1, end_ = 0;
  std::uint32_t near_ = 0;  ///< the bits of the first float above 9 units
  bool first_is_negative_ = false;
  alignas(16) std::uint8_t map_[2][16] = {}, map_of_counts_[2][16] = {};
};
UFP4_END_LANES
#endif
