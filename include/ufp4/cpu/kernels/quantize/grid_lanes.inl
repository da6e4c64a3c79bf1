// ufp4 - rounding to 4-bit codes over one instruction set's lanes; included inside its region and namespace.
// SPDX-License-Identifier: Apache-2.0
//
// Any grid and any rounding that is a function of the value is a list of cuts: the index of t is how many it exceeds,
// with ties and directions folded into the cuts. Grids that are regular enough have shorter ways to that index.

inline constexpr float infinity = __builtin_bit_cast(float, ufp4::detail::infinity_bits);

/// Grids and roundings whose codes a product with the reciprocal of the scale decides, but for a few values near a tie.
enum class near_kind : std::uint8_t { none, uniform, two_bit_mantissa };

/// How values become codes, as data: which of the rounders below, and its constants.
struct rounding_plan {
  enum class kind : std::uint8_t {
    uniform,
    two_bit_mantissa,
    halves,
    magnitudes,
    levels,
    uniform_random_bits,
    halves_random_bits,
    magnitude_random_bits,
    level_random_bits
  };
  kind what = kind::levels;
  int cuts = 0;  ///< t has the index "how many cuts it exceeds"; of |t| where the grid is symmetric
  float cut[15] = {};
  float level[16] = {};    ///< by index
  float gap[16] = {};      ///< to the next level; if exact_gaps, 65536 over that
  bool exact_gaps = true;  ///< distances are powers of two
  float unit = 0, qmax = 0;
  float lowest = 0;                         ///< halves: what smaller magnitudes may count as
  alignas(64) std::uint32_t step[16] = {};  ///< halves: see plan_halves
  alignas(16) std::uint8_t code[16] = {};   ///< of each index; with magnitudes, bit 3 is the sign
  near_kind nearby = near_kind::none;
  alignas(64) std::uint32_t near_step[16] = {};  ///< near two_bit_mantissa: see plan_near
  bool maps = false;                             ///< code[i] is not i everywhere
  std::uint32_t zeros = 0;                       ///< eight codes of +0
};

inline float float_before(float x) {  // x is finite
  const std::uint32_t bits = ufp4::detail::to_bits(x);
  if ((bits & ufp4::detail::magnitude_mask) == 0) return ufp4::detail::to_float(0x80000001u);
  return ufp4::detail::to_float(ufp4::detail::is_negative(x) ? bits + 1 : bits - 1);
}

/// The largest float that does not reach level i from level i - 1, so that t reaches it iff t > cut.
inline float cut_below(const grid4& g, rounding_spec::kind rounding, int i) {
  const bool positive = i > g.zero;
  const float below = g.level[i - 1], above = g.level[i];
  if (rounding == rounding_spec::kind::toward_zero || rounding == rounding_spec::kind::stochastic)
    return positive || rounding == rounding_spec::kind::stochastic ? float_before(above) : below;
  const double middle = (static_cast<double>(below) + static_cast<double>(above)) / 2;
  const int rank = positive ? i - 1 - g.zero : g.zero - i;  // of the neighbour nearer to zero
  const bool away = rounding == rounding_spec::kind::nearest_away || (rank & 1) != 0;
  const auto nearest = static_cast<float>(middle);
  if (static_cast<double>(nearest) > middle) return float_before(nearest);
  const bool tie_reaches = positive == away;
  return tie_reaches && static_cast<double>(nearest) == middle ? float_before(nearest) : nearest;
}

inline bool is_power_of_two(float x) {
  const std::uint32_t bits = ufp4::detail::to_bits(x);
  return (bits & 0x007FFFFFu) == 0 && bits >= 67u << 23 && bits <= 187u << 23;  // and within 2^+-60
}

inline bool is_symmetric(const grid4& g) {
  bool same = g.zero <= 7 && g.levels == 2 * g.zero + 1;
  for (int i = 1; same && i <= g.zero; ++i) same = g.level[g.zero + i] == -g.level[g.zero - i];
  return same;
}

/// Are the magnitudes unit times these?
inline bool has_magnitudes(const grid4& g, float unit, const int (&multiple)[8]) {
  bool same = g.zero == 7 && is_power_of_two(unit);
  for (int i = 0; same && i < 8; ++i) same = g.level[7 + i] == unit * static_cast<float>(multiple[i]);
  return same;
}

inline void plan_levels(const grid4& g, rounding_spec::kind rounding, bool symmetric, rounding_plan& p) {
  const int first = symmetric ? g.zero : 0;
  p.cuts = g.levels - 1 - first;
  for (int i = 0; i < p.cuts; ++i) p.cut[i] = cut_below(g, rounding, first + i + 1);
  if (rounding != rounding_spec::kind::stochastic) return;
  for (int i = 0; i <= p.cuts; ++i) {
    const float gap = i < p.cuts ? g.level[first + i + 1] - g.level[first + i] : 1.0f;
    p.level[i] = g.level[first + i];
    p.exact_gaps = p.exact_gaps && is_power_of_two(gap);
    p.gap[i] = gap;
  }
  for (int i = 0; p.exact_gaps && i <= p.cuts; ++i) p.gap[i] = 65536.0f / p.gap[i];
}

/// Halves of binades, eight of them up to qmax's, each with one cut at most: then the bits of |t| plus a number of its
/// half are the index, in bits 24 and up. Those of a cut's successor give exactly the index above it.
inline bool plan_halves(rounding_plan& p) {
  const std::uint32_t top = ufp4::detail::to_bits(p.qmax) >> 23;
  if (top < 32 || top > 222) return false;
  const std::uint32_t first = (top - 7) << 1;
  p.lowest = ufp4::detail::to_float(first << 22);
  int index = 0;
  for (std::uint32_t half = first; half < first + 16; ++half) {
    const std::uint32_t start = half << 22, end = start + (1u << 22);
    std::uint32_t base = (static_cast<std::uint32_t>(index) << 24) - start;
    if (index < p.cuts && ufp4::detail::to_bits(p.cut[index]) < end - 1) {
      const std::uint32_t above = ufp4::detail::to_bits(p.cut[index]) + 1;
      if (above < start || (half == first && above == start)) return false;
      base = (static_cast<std::uint32_t>(++index) << 24) - above;
    }
    if (index < p.cuts && ufp4::detail::to_bits(p.cut[index]) < end - 1) return false;
    p.step[half & 15u] = base;
  }
  return index == p.cuts;
}

inline void plan_codes(const grid4& g, bool symmetric, rounding_plan& p) {
  for (int i = 0; i < g.levels; ++i) {
    const int magnitude = i < g.zero ? g.zero - i : i - g.zero;
    p.code[symmetric ? (i < g.zero ? 8 | magnitude : magnitude) : i] = g.code[i];
  }
  if (symmetric) p.code[8] = g.minus_zero;
  for (int i = 0; i < 16; ++i) p.maps = p.maps || p.code[i] != i;
  p.zeros = g.code[g.zero] * 0x11111111u;
}

/// The quarters of the binades [1/2, 8) hold one cut each at most of |t| / (2 unit) + near_offset, none of them near an
/// end: then bits plus step[quarter] is the index in bits 24 and up, and the bits below are small, after near_margin
/// was added, only next to a cut.
inline constexpr float near_offset = 0.53125f;
inline constexpr std::uint32_t near_margin = 4;

inline void plan_near(rounding_plan& p) {
  constexpr float cut[8] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f, infinity};
  std::uint32_t index = 0;
  for (std::uint32_t quarter = 126 << 2; quarter < 130 << 2; ++quarter) {
    const std::uint32_t start = quarter << 21, here = ufp4::detail::to_bits(cut[index] + near_offset);
    const bool inside = here < start + (1u << 21);
    if (inside) ++index;
    p.near_step[quarter & 15u] = (index << 24) + near_margin - (inside ? here : start - (1u << 21));
  }
}

inline rounding_plan make_plan(const grid4& g, rounding_spec::kind rounding) {
  using kind = rounding_plan::kind;
  rounding_plan p;
  const bool symmetric = is_symmetric(g), even = rounding == rounding_spec::kind::nearest_even;
  const bool random_bits = rounding == rounding_spec::kind::stochastic;
  p.qmax = g.qmax;
  p.unit = g.level[g.zero + 1 < g.levels ? g.zero + 1 : g.zero];
  const bool uniform = symmetric && has_magnitudes(g, p.unit, {0, 1, 2, 3, 4, 5, 6, 7});
  const bool two_bit = symmetric && has_magnitudes(g, p.unit, {0, 1, 2, 3, 4, 6, 8, 12});
  plan_codes(g, symmetric, p);
  if (even || rounding == rounding_spec::kind::nearest_away)
    p.nearby = uniform ? near_kind::uniform : two_bit ? near_kind::two_bit_mantissa : near_kind::none;
  if (p.nearby == near_kind::two_bit_mantissa) plan_near(p);
  if (uniform && even) return p.what = kind::uniform, p;
  plan_levels(g, rounding, symmetric, p);
  if (!symmetric)
    p.what = random_bits ? kind::level_random_bits : kind::levels;
  else if (uniform && random_bits)
    p.what = kind::uniform_random_bits;
  else if (cheap_lookup && plan_halves(p))
    p.what = random_bits ? kind::halves_random_bits : kind::halves;
  else if (two_bit && even)
    p.what = kind::two_bit_mantissa;
  else
    p.what = random_bits ? kind::magnitude_random_bits : kind::magnitudes;
  return p;
}

// ---- Rounders. With magnitudes, the index of |t| in three bits from `bit` on, the next bit clear, the others
// arbitrary; with levels, that of t in the four lowest bits, nothing above.

UFP4_LANE f32 magnitude(f32 t) { return as_float(as_bits(t) & ufp4::detail::magnitude_mask); }

/// Multiples of a power of two up to seven, nearest even: a sum that has no bits below the unit.
struct uniform_rounder {
  static constexpr bool draws = false, has_levels = false;
  static constexpr int bit = 0;
  f32 qmax, shift;
  UFP4_LANE explicit uniform_rounder(const rounding_plan& p)
      : qmax(broadcast(p.qmax)), shift(broadcast(p.unit * 12582912.0f)) {}  // 1.5 * 2^23: exact, the unit's binade
  UFP4_LANE u32 operator()(f32 t, u32) const { return as_bits(magnitude_at_most(t, qmax) + shift); }
};

/// 0 1 2 3 4 6 8 12 units, nearest even: the same with the unit of the value's binade.
struct two_bit_mantissa_rounder {
  static constexpr bool draws = false, has_levels = false;
  static constexpr int bit = 0;
  f32 qmax, normal;
  u32 lift, offset;
  UFP4_LANE explicit two_bit_mantissa_rounder(const rounding_plan& p)
      : qmax(broadcast(p.qmax)),
        normal(broadcast(2 * p.unit)),
        lift(broadcast(std::uint32_t{22} << 23)),
        offset(broadcast(0u - ((ufp4::detail::to_bits(2 * p.unit) + (std::uint32_t{22} << 23)) >> 22))) {}
  UFP4_LANE u32 operator()(f32 t, u32) const {
    const f32 a = magnitude_at_most(t, qmax);
    const u32 shift = (as_bits(at_least(a, normal)) & 0x7F800000u) + lift;  // 2^(e + 22): its last bit is 2^(e - 1)
    const u32 sum = as_bits(a + as_float(shift));                           // a in halves of 2^e: four at most
    return (sum & 7u) + (shift >> 22) + offset;                             // two codes a binade
  }
};

/// How many cuts |t| exceeds: `above` as rounders say it, `rank` with nothing beside it.
struct halves_rank {
  table step;
  f32 qmax, lowest;
  UFP4_LANE explicit halves_rank(const rounding_plan& p)
      : step(load_table(p.step)), qmax(broadcast(p.qmax)), lowest(broadcast(p.lowest)) {}
  static constexpr int bit = 24;
  UFP4_LANE u32 above(f32 t) const {
    const u32 bits = as_bits(at_least(magnitude_at_most(t, qmax), lowest));
    return bits + as_bits(lookup(step, bits >> 22));
  }
  UFP4_LANE u32 rank(f32 t) const { return above(t) >> bit; }
};
struct magnitude_rank {
  f32 cut[7];
  UFP4_LANE explicit magnitude_rank(const rounding_plan& p) {
    for (int i = 0; i < 7; ++i) cut[i] = broadcast(i < p.cuts ? p.cut[i] : infinity);
  }
  static constexpr int bit = 0;
  UFP4_LANE u32 above(f32 t) const {
    const f32 a = magnitude(t);
    i32 r{};
#pragma GCC unroll 7
    for (int i = 0; i < 7; ++i) r -= a > cut[i];
    return reinterpret_cast<u32>(r);
  }
  UFP4_LANE u32 rank(f32 t) const { return above(t); }
};

/// A symmetric grid under any rounding that is a function of the value.
template <class Rank>
struct magnitudes_rounder {
  static constexpr bool draws = false, has_levels = false;
  static constexpr int bit = Rank::bit;
  Rank ranks;
  UFP4_LANE explicit magnitudes_rounder(const rounding_plan& p) : ranks(p) {}
  UFP4_LANE u32 operator()(f32 t, u32) const { return ranks.above(t); }
};

/// Any grid.
struct levels_rounder {
  static constexpr bool draws = false, has_levels = true;
  static constexpr int bit = 0;
  f32 cut[15];
  UFP4_LANE explicit levels_rounder(const rounding_plan& p) {
    for (int i = 0; i < 15; ++i) cut[i] = broadcast(i < p.cuts ? p.cut[i] : infinity);
  }
  UFP4_LANE u32 rank(f32 t) const {
    i32 r{};
#pragma GCC unroll 15
    for (int i = 0; i < 15; ++i) r -= t > cut[i];
    return reinterpret_cast<u32>(r);
  }
  UFP4_LANE u32 operator()(f32 t, u32) const { return rank(t); }
};

/// Does a value at `distance` from its lower neighbour, in the gap of an index, move up under a random number? 65536 or more if
/// so (numerics 3).
struct random_word_tosser {
  table gaps;
  bool exact;
  UFP4_LANE explicit random_word_tosser(const rounding_plan& p) : gaps(load_table(p.gap)), exact(p.exact_gaps) {}
  UFP4_LANE u32 operator()(f32 distance, u32 index, u32 random_word) const {
    const f32 g = lookup(gaps, index), half = broadcast(0.5f);
    // The product with 65536 is exact, so one rounding or two are the same.
    const f32 k = exact ? fma(distance, g, half) : fma(distance / g, broadcast(65536.0f), half);
    return reinterpret_cast<u32>(__builtin_convertvector(k, i32)) + random_word;
  }
};

/// Stochastic rounding on multiples of a power of two: index and fraction in one sum, floor(fl(|t| / unit * 65536 +
/// 1/2)). Seven units have 19 bits before the point, so a sum that is rounded at all stays between the same two
/// integers: the fraction alone, which numerics 3 takes, gives the same 16 bits.
struct uniform_random_bits_rounder {
  static constexpr bool draws = true, has_levels = false;
  static constexpr int bit = 16;
  f32 qmax, scale;
  UFP4_LANE explicit uniform_random_bits_rounder(const rounding_plan& p)
      : qmax(broadcast(p.qmax)), scale(broadcast(65536.0f / p.unit)) {}
  UFP4_LANE u32 operator()(f32 t, u32 random_word) const {
    const f32 sum = fma(magnitude_at_most(t, qmax), scale, broadcast(0.5f));
    return reinterpret_cast<u32>(__builtin_convertvector(sum, i32)) + random_word;
  }
};

template <class Rank>
struct magnitude_random_bits_rounder {
  static constexpr bool draws = true, has_levels = false;
  static constexpr int bit = 16;
  Rank ranks;
  random_word_tosser toss;
  table level;
  f32 qmax;
  UFP4_LANE explicit magnitude_random_bits_rounder(const rounding_plan& p)
      : ranks(p), toss(p), level(load_table(p.level)), qmax(broadcast(p.qmax)) {}
  UFP4_LANE u32 operator()(f32 t, u32 random_word) const {
    const f32 a = magnitude_at_most(t, qmax);
    const u32 rank = ranks.rank(a);
    return toss(a - lookup(level, rank), rank, random_word) + (rank << 16);
  }
};

struct level_random_bits_rounder {
  static constexpr bool draws = true, has_levels = true;
  static constexpr int bit = 0;
  levels_rounder down;
  random_word_tosser toss;
  table level;
  f32 lowest, highest;
  UFP4_LANE explicit level_random_bits_rounder(const rounding_plan& p)
      : down(p),
        toss(p),
        level(load_table(p.level)),
        lowest(broadcast(p.level[0])),
        highest(broadcast(p.level[p.cuts])) {}
  UFP4_LANE u32 operator()(f32 t, u32 random_word) const {
    t = at_most(at_least(t, lowest), highest);
    const u32 at = down.rank(t), negative = reinterpret_cast<u32>(t < f32{}) & 1u;
    const f32 distance = magnitude(t - lookup(level, at + negative));  // from the neighbour nearer to zero
    return at + (toss(distance, at, random_word) >> 16 ^ negative);
  }
};

// ---- Without a division: values under a product with the reciprocal of their scale. `doubt` gets small where that
// could have changed the code.

/// v = |x| / (scale * unit) + 8.5, a few ulp off, lies in [8, 16): the index is in bits 20..22, and the bits below are
/// small or large only near a tie. The product's two roundings are worth 7.25 * 2^-23, the sum's 2^-21: two ulp of
/// 2^-20 in all.
struct near_uniform {
  f32 scale, bound, offset;
  UFP4_LANE near_uniform(const rounding_plan& p, f32 factor)
      : scale(1.0f / factor * (1.0f / p.unit)),
        bound(factor * (7.25f * p.unit)),
        offset(broadcast(8.5f + 2 * 0x1p-20f)) {}
  static constexpr bool has_levels = false;
  static constexpr int bit = 20;
  static constexpr std::uint32_t limit = 4;
  UFP4_LANE u32 operator()(f32 x, u32& doubt) const {
    const u32 v = as_bits(fma(magnitude_at_most(x, bound), scale, offset));
    doubt = minimum(doubt, v & 0x000FFFFFu);
    return v;
  }
};

/// The index of |x| / (2 * scale * unit) + near_offset by plan_near. Errors: the product's two roundings are worth two
/// ulp of the sum at most, the sum's a half.
struct near_two_bit_mantissa {
  table step;
  f32 scale, bound, offset;
  UFP4_LANE near_two_bit_mantissa(const rounding_plan& p, f32 factor)
      : step(load_table(p.near_step)),
        scale(1.0f / factor * (0.5f / p.unit)),
        bound(factor * (11.5f * p.unit)),
        offset(broadcast(near_offset)) {}
  static constexpr bool has_levels = false;
  static constexpr int bit = 24;
  static constexpr std::uint32_t limit = 2 * near_margin;
  UFP4_LANE u32 operator()(f32 x, u32& doubt) const {
    const u32 bits = as_bits(fma(magnitude_at_most(x, bound), scale, offset));
    const u32 v = bits + as_bits(lookup(step, bits >> 21));
    doubt = minimum(doubt, v & 0x00FFFFFFu);
    return v;
  }
};
