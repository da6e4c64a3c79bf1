// ufp4 - outer scales of rows and segments, and the tiles of the blocks under them, a block a lane.
// SPDX-License-Identifier: Apache-2.0
//
// Where all lanes have the same outer scale, a shift gives the number of that of a column; otherwise a table has it for
// every block of a tile.
#if !defined(UFP4_OUTER_LANES)
#define UFP4_OUTER_LANES
#include <ufp4/cpu/kernels/quantize/block_scale_lanes.hpp>
#include <ufp4/cpu/kernels/quantize/tile_lanes.hpp>

UFP4_BEGIN_LANES(quantize_kernel)

/// Outer scales a lane: tensor_constants::decode and encode.
struct outer_lanes {
  f32 decode, encode;
};

/// make_tensor_constants, an amax a lane.
inline outer_lanes outer_of(const format_spec& f, const outer_bounds& bound, u32 amax) {
  using namespace ufp4::detail;
  const f32 quotient = amax == 0u ? broadcast(1.0f) : bound.numerator / as_float(amax);
  const f32 encode = at_most(quotient, broadcast(bound.encode));
  f32 decode = 1.0f / encode;
  const bool is_float = f.outer.type == scale_kind::f32;
  if (!is_float) decode = decode_scale_bits<true>(f.outer.type, encode_scale_bits(f.outer.type, decode));
  const u32 beyond = reinterpret_cast<u32>(decode > bound.decode) | (is_float ? 0u : ~0u);
  if (lane_bits(beyond) == 0) return {decode, encode};
  decode = at_most(decode, broadcast(bound.decode));
  return {decode, beyond != 0u ? at_most(1.0f / decode, broadcast(max_finite)) : encode};
}

/// A number for each outer scale of a row, and for those that the last tile has beyond them.
struct outer_numbers {
  std::size_t size;
  buffer<std::uint32_t> amax;    ///< of the finite elements that it covers
  buffer<float> decode, encode;  ///< tensor_constants
  explicit outer_numbers(std::size_t count) : size(up(count, lanes)), amax(size), decode(size), encode(size) {}
};

/// Reads rows in tiles, and finds their outer scales.
class outer_tiles : protected quantize_call {
 protected:
  static constexpr std::size_t most_blocks = max_transform / 16;

  outer_tiles(const quantize_call& call, const tile_transform& transform)
      : quantize_call(call),
        transform_(transform),
        bound_(outer_bounds::of(job_.format, coder_.rule)),
        run_(job_.run()),
        block_(static_cast<std::size_t>(job_.format.block.cols)),
        blocks_(run_ / block_),
        tile_width_(panels_for(job_) * lanes * run_),
        strip_(scale_strip_of(job_.format, job_.padded_cols)),
        covered_(outer_columns(job_.format, job_.padded_cols)),
        outer_shift_(job_.format.outer.segment == 0 ? 63
                                                    : __builtin_ctz(static_cast<unsigned>(job_.format.outer.segment))),
        outer_lanes_(job_.format.outer.segment == 0                                   ? lanes
                     : covered_ < run_ || !is_power_of_two(job_.format.outer.segment) ? 1
                     : covered_ < lanes * run_                                        ? covered_ / run_
                                                                                      : lanes),
        outers_(covered_ == 0 ? 0 : strip_.outers + tile_width_ / covered_ + 32) {
    transform_.ahead = read_ahead_of(job_.x);
  }

  std::size_t runs_from(std::size_t k) const {
    return (job_.padded_cols - k < tile_width_ ? job_.padded_cols - k : tile_width_) / run_;
  }
  /// Reads a tile; returns how many blocks a lane has in all its panels.
  std::size_t read(std::size_t row, std::size_t k) {
    const std::size_t runs = runs_from(k), blocks = (runs + lanes - 1) / lanes * blocks_;
    read_runs(job_.x, transform_, row, k, run_, runs, tile_, 0);
    for (std::size_t b = 0; b < blocks; ++b) amax_[b] = block_amax(tile_, b, block_);
    return blocks;
  }

  /// 0 counts as one.
  static bool is_power_of_two(int n) { return (n & (n - 1)) == 0; }
  /// Panels of a tile: four of short runs; one of long runs, whose cache lines are read out of order, so that a larger
  /// tile would not be prefetched in time; or a number of panels that is whole segments, if they fit in a tile, so that
  /// it is read once.
  static std::size_t panels_for(const quantize_job& job) {
    const std::size_t run = job.run(), usual = run < 64 ? 4 : 1;
    if (is_power_of_two(job.format.outer.segment)) return usual;
    const std::size_t panel = lanes * run, segment = static_cast<std::size_t>(job.format.outer.segment);
    const std::size_t whole = common_columns(panel, segment) / panel;
    return whole * run > max_transform ? usual : whole > usual ? whole : usual / whole * whole;
  }

  /// The first column of block b of lane 0 of the tile at column k; those of the other lanes are run_ apart.
  std::size_t column_of(std::size_t k, std::size_t b) const {
    const std::size_t within = b & (blocks_ - 1);  // of the blocks of a run
    return k + (b - within) * block_ * lanes + within * block_;
  }
  /// The amax of each group of outer_lanes_ lanes, in all of them.
  u32 amax_of_neighbours(u32 amax) const {
    if (outer_lanes_ >= 2) amax = maximum(amax, as_bits(exchange<1>(as_float(amax))));
    if (outer_lanes_ >= 4) amax = maximum(amax, as_bits(exchange<2>(as_float(amax))));
    if constexpr (lanes >= 8)
      if (outer_lanes_ >= 8) amax = maximum(amax, as_bits(exchange<4>(as_float(amax))));
    if constexpr (lanes >= 16)
      if (outer_lanes_ >= 16) amax = maximum(amax, as_bits(exchange<8>(as_float(amax))));
    return amax;
  }
  /// Fills numbered_ for the tile at column k, unless it has these numbers.
  void number_blocks(std::size_t k) {
    first_outer_ = k / covered_;
    if (numbered_at_ == k % covered_) return;
    numbered_at_ = k % covered_;
    std::size_t left = covered_ - numbered_at_;
    std::uint32_t number = 0;
    for (std::size_t panel = 0; panel < tile_width_ / run_ / lanes; ++panel)
      for (std::size_t l = 0; l < lanes; ++l)
        for (std::size_t within = 0; within < blocks_; ++within, left -= block_) {
          if (left == 0) ++number, left = covered_;
          numbered_[(panel * blocks_ + within) * lanes + l] = number;
        }
  }
  /// The number of the outer scale of lane l of block b.
  std::size_t number_of(std::size_t k, std::size_t b, std::size_t l) const {
    return outer_lanes_ == lanes ? column_of(k, b) >> outer_shift_ : first_outer_ + numbered_[b * lanes + l];
  }
  void raise_outers(std::size_t blocks, std::size_t k) {
    if (outer_lanes_ != lanes) number_blocks(k);
    for (std::size_t b = 0; b < blocks; ++b) {
      std::uint32_t of_block[lanes];
      store(of_block, amax_of_neighbours(finite_amax(tile_.x + b * block_ * lanes, block_, amax_[b])));
      for (std::size_t l = 0; l < lanes; l += outer_lanes_) {
        std::uint32_t& whole = outers_.amax.data()[number_of(k, b, l)];
        whole = of_block[l] > whole ? of_block[l] : whole;
      }
    }
  }
  /// The outer scales that begin in columns [first, last), from their amaxes.
  void find_outers(std::size_t first, std::size_t last) {
    const std::size_t end = (last - 1) / covered_ + 1;
    for (std::size_t i = first / covered_; i < end; i += lanes) {
      const outer_lanes o = outer_of(job_.format, bound_, load_as<u32>(outers_.amax.data() + i));
      store(outers_.decode.data() + i, o.decode);
      store(outers_.encode.data() + i, o.encode);
    }
  }
  /// Those of block b, a lane each.
  outer_lanes outers_of(std::size_t k, std::size_t b) const {
    if (covered_ == 0) return {broadcast(coder_.tensor.decode), broadcast(coder_.tensor.encode)};
    const std::size_t first = number_of(k, b, 0);
    const float *decode = outers_.decode.data() + first, *encode = outers_.encode.data() + first;
    if (outer_lanes_ == lanes) return {broadcast(*decode), broadcast(*encode)};
    const std::uint32_t* const number = numbered_ + b * lanes;
    if (covered_ >= run_) {  // a lane's block is at most 15 runs behind that of lane 0, so at most 15 outer scales
      const u32 which = load_as<u32>(number) - number[0];
      return {lookup(load_table(decode), which), lookup(load_table(encode), which)};
    }
    outer_lanes o;
    for (std::size_t l = 0; l < lanes; ++l) {
      o.decode[l] = decode[number[l] - number[0]];
      o.encode[l] = encode[number[l] - number[0]];
    }
    return o;
  }
  /// The outer scales of a row, and zeros in the bytes before them.
  void store_outers(char* scales) const {
    const std::size_t end = strip_.blocks * strip_.block_bytes;
    if (covered_ == 0) return;
    __builtin_memset(scales + end, 0, strip_.outer_at() - end);
    for (std::size_t i = 0; i < strip_.outers; ++i)
      store_scale(scales + strip_.outer_at(), job_.format.outer.type, i,
                  encode_scale(job_.format.outer.type, outers_.decode.data()[i]));
  }

  tile_transform transform_;
  outer_bounds bound_;
  std::size_t run_, block_, blocks_;  ///< elements of a run and of a block, blocks of a run
  std::size_t tile_width_;            ///< elements that a tile takes at once
  scale_strip strip_;
  std::size_t covered_;      ///< columns of an outer scale of a row or a segment; 0 without them
  int outer_shift_;          ///< a column shifted by it is the number of its outer scale, if outer_lanes_ is lanes
  std::size_t outer_lanes_;  ///< how many neighbouring lanes have the same one
  outer_numbers outers_;
  std::size_t first_outer_ = 0, numbered_at_ = static_cast<std::size_t>(-1);  ///< what number_blocks was called for
  alignas(64) std::uint32_t numbered_[most_blocks * lanes];  ///< of each lane of a block, from first_outer_ on
  u32 amax_[most_blocks];
  tile tile_;
};

// ---- Block scales under outer scales, for each of several grids.

/// The scales of blocks for one grid of a format.
class grid_scaler {
 public:
  grid_scaler() = default;
  grid_scaler(const kernel_coder& c, int g)
      : coder_(&c), g_(g), qmax_(qmax_of(c.format, g)), factor_(factor_of(c.format, g)) {
    power_ = make_power_of_two_rule(qmax_, c.rule.what);
    per_qmax_ = 1.0f / qmax_;
    largest_ = largest_scale(c.format, g);
    rescale_ = 1.0f / factor_;
  }

  f32 rescale() const { return broadcast(rescale_); }
  /// tensor_constants::scale_factor.
  f32 scale_factor(const outer_lanes& outer) const {
    const f32 factor = rounded(outer.encode * per_qmax_);
    return per_qmax_ <= 1.0f ? factor : at_most(factor, broadcast(max_finite));
  }
  /// `kind` is the format's. Returns which lanes are special: zero, not finite, or with an amax or factor that is not a
  /// normal number.
  UFP4_LANE std::uint32_t operator()(scale_kind kind, u32 amax, const outer_lanes& outer, grid_scales& s) const {
    constexpr std::uint32_t least = 0x00800000, range = 0x7F000000;  // of normal numbers
    u32 watched = amax;  // a normal number unless the block is special, as the factor is
    if (kind == scale_kind::e8m0)
      s = under(kind, minimum(power_of_two_scales(power_, amax), broadcast(largest_)), outer);
    else
      watched = rounded_scale(kind, amax, outer, s);
    const std::uint32_t special =
        lane_bits(reinterpret_cast<u32>(maximum(watched - least, as_bits(s.factor) - least) >= range));
    if (special != 0) replace_special(amax, special, outer, s);
    return special;
  }

  /// Those with these bits.
  UFP4_LANE grid_scales under(scale_kind kind, u32 bits, const outer_lanes& outer) const {
    return scales_of_bits(coder_->format, kind, bits, factor_, outer.decode);
  }

  /// Whether blocks have the same scales for another grid of the format: the largest magnitudes are equal.
  bool has_scales_of(const grid_scaler& other) const { return qmax_ == other.qmax_ && largest_ == other.largest_; }
  /// The same from the scales for such a grid.
  UFP4_LANE void from(const grid_scales& other, scale_kind kind, u32 amax, std::uint32_t special,
                      const outer_lanes& outer, grid_scales& s) const {
    s = other;
    const f32 scale = kind == scale_kind::e8m0 ? power_of_two_of(s.bits) : decode_scale_bits<true>(kind, s.bits);
    s.effective = effective(scale, outer);
    if (special != 0) replace_special(amax, special, outer, s);
  }

 private:
  UFP4_LANE f32 effective(f32 scale, const outer_lanes& outer) const {
    const f32 of_grid = rounded(scale * factor_);
    return coder_->format.two_level() ? rounded(of_grid * outer.decode) : of_grid;
  }
  /// Returns what the scale is computed from.
  UFP4_LANE u32 rounded_scale(scale_kind kind, u32 amax, const outer_lanes& outer, grid_scales& s) const {
    const bool two_level = coder_->format.two_level();
    const f32 x = as_float(amax), argument = rounded(two_level ? x * scale_factor(outer) : x / qmax_);
    s.bits = encode_scale_bits(kind, argument);
    if (coder_->rule.what == rule_kind::up)
      s.bits -= reinterpret_cast<u32>(decode_scale_bits<true>(kind, s.bits) < argument) &
                reinterpret_cast<u32>(s.bits < max_scale(kind));
    if (!two_level) s.bits = minimum(s.bits, broadcast(largest_));
    const f32 scale = decode_scale_bits<true>(kind, s.bits);
    s.factor = two_level ? 1.0f / (scale * outer.decode) : scale;
    s.effective = effective(scale, outer);
    return as_bits(argument);
  }
  /// The scales of the lanes whose bits in `special` are set.
  [[gnu::cold, gnu::noinline]] void replace_special(u32 amax, std::uint32_t special, const outer_lanes& outer,
                                                    grid_scales& s) const {
    const u32 empty = reinterpret_cast<u32>(amax == 0u), nonfinite = reinterpret_cast<u32>(amax >= infinity_bits);
    s.bits &= ~empty;
    s.factor = (empty | nonfinite) != 0u ? broadcast(1.0f) : s.factor;
    s.effective = empty != 0u ? f32{} : s.effective;
    for (std::uint32_t left = special & ~lane_bits(empty | nonfinite); left != 0; left &= left - 1) {
      const auto l = static_cast<std::size_t>(__builtin_ctz(left));
      const block_scale one = scale_for_grid(coder_->format, g_, coder_->rule, {outer.decode[l], 0, outer.encode[l]},
                                             {}, ufp4::detail::to_float(amax[l]));
      s.bits[l] = one.bits;
      s.factor[l] = one.factor;
      s.effective[l] = one.effective;
    }
  }

  const kernel_coder* coder_ = nullptr;
  int g_ = 0;
  float qmax_ = 1;             ///< with the factor and all one-bit exponents
  power_of_two_rule power_{};  ///< of e8m0
  float factor_ = 1, rescale_ = 1, per_qmax_ = 1;
  std::uint32_t largest_ = 0;  ///< the bits of the largest scale
};
UFP4_END_LANES
#endif
