// ufp4 - blocks whose grids are chosen, a grid a lane: stochastic rounding to all of them at once.
// SPDX-License-Identifier: Apache-2.0

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
