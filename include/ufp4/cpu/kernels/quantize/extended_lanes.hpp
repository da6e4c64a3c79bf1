// ufp4 - quantize of formats with outer scales of rows and segments, several grids or one-bit exponents, over lanes.
// SPDX-License-Identifier: Apache-2.0
//
// Blocks are lanes as in quantize_lanes.hpp, whose steps these loops share. What is constant for a call there is a
// number a lane here: the constants of the outer scale, the grid of the block. Errors are computed for every grid, and
// codes to nearest even with them; a mask selects those of the grid that the block has.
#if !defined(UFP4_EXTENDED_LANES)
#define UFP4_EXTENDED_LANES
#include <ufp4/cpu/kernels/quantize/grid_lanes.hpp>
#include <ufp4/cpu/kernels/quantize/outer_lanes.hpp>
#include <ufp4/cpu/kernels/quantize/value_scale_lanes.hpp>

UFP4_BEGIN_LANES(quantize_kernel)

/// One call of quantize_lanes for such a format.
class extended_quantizer : outer_tiles {
 public:
  extended_quantizer(const quantize_job& job, const kernel_coder& coder, const quantized_sink& out,
                     quantize_report& report, const tile_transform& transform,
                     code_blocks* (*code_of)(rounding_plan::kind))
      : outer_tiles(quantize_call{job, coder, out, report}, transform),
        plain_(without_values(coder)),
        divides_(scale_divides(job.format)),
        is_stochastic_(coder.rounding.what == rounding_spec::kind::stochastic),
        trials_code_(coder.rounding.what == rounding_spec::kind::nearest_even),
        random_bits_(coder.rounding.random_bits),
        is_pair_(remapped_pair::is(job.format)),
        exponents_(job.format) {
    if (is_pair_) pair_ = remapped_pair(job.format);
    for (int g = 0; g <= job.format.choice.count; ++g) {
      const grid4& grid = nth_grid(job.format, g);
      grid_codes& codes = grids_[g];
      codes.error = plan_errors(grid, false);
      codes.plan = trials_code_ ? codes.error.rounding : make_plan(grid, coder.rounding.what, cheap_lookup);
      codes.code = code_of(codes.plan.what);
      regular_ = regular_ && regular_grids::have(codes.plan);
      const bool rescales = factor_of(job.format, g) != 1.0f;
      codes.search = trial_functions_of<false>(codes.error.rounding.what, divides_, rescales);
      codes.trial =
          trials_code_ ? trial_functions_of<true>(codes.error.rounding.what, divides_, rescales) : codes.search;
      codes.end = end_of_binade(grid.qmax) * factor_of(job.format, g) * 0.999f;
      codes.scales = grid_scaler(plain_, g);
    }
    if (trials_code_ && !divides_ && job.format.choice.count == 1)
      two_ = two_products_of(grids_[0].plan, grids_[1].plan,
                             !coder.rule.searches && grids_[1].scales.has_scales_of(grids_[0].scales));
    if (job.format.block.group[0] != 0)
      error_with_exponents_ = exponent_trial::function_of(grids_[0].error.rounding, divides_);
  }

  /// For a rule that reads the values of blocks.
  void choose_by(value_scales& from_values) { from_values_ = &from_values; }

  void strips(std::size_t first, std::size_t last) {
    const bool reads_twice = covered_ != 0 && job_.padded_cols > tile_width_ && tile_width_ % covered_ != 0;
    for (std::size_t row = first; row < last; ++row) {
      char* const scales = static_cast<char*>(out_.scales) + row * strip_.bytes();
      for (std::size_t i = 0; i < outers_.size; ++i) outers_.amax.data()[i] = 0;
      for (std::size_t k = 0; reads_twice && k < job_.padded_cols; k += tile_width_) raise_outers(read(row, k), k);
      if (reads_twice) find_outers(0, up(job_.padded_cols, tile_width_));
      for (std::size_t k = 0; k < job_.padded_cols; k += tile_width_) {
        const std::size_t blocks = read(row, k);
        if (covered_ != 0 && !reads_twice) raise_outers(blocks, k), find_outers(k, k + tile_width_);
        if (outer_lanes_ != lanes) number_blocks(k);
        code_tile(row, k, blocks);
        store_tile(row, k, scales);
      }
      store_outers(scales);
    }
  }

 private:
  static constexpr std::size_t most_words = max_transform / 8;

  /// A grid of the format, the functions that code with it, and its scales.
  struct grid_codes {
    rounding_plan plan{};
    code_blocks* code = nullptr;
    error_plan error{};
    trial_functions trial{}, search{};  ///< for choosing a grid and a scale
    float end = 0;  ///< trial.in_range takes smaller magnitudes; three digits below the bound, which roundings move
    grid_scaler scales{};
  };

  /// The scales of all blocks of the tile for all grids.
  template <bool is_e4m3>
  [[gnu::noinline]] void choose_scales(std::size_t k, std::size_t blocks) {
    for (std::size_t b = 0; b < blocks; ++b) {
      const outer_lanes outer = outers_of(k, b);
      const scale_kind kind = is_e4m3 ? scale_kind::e4m3 : job_.format.scale;
      const std::uint32_t first = grids_[0].scales(kind, amax_[b], outer, scales_[0][b]);
      special_[b] = first;
      for (int g = 1; !is_pair_ && g <= job_.format.choice.count; ++g) {
        const grid_scaler& scales = grids_[g].scales;
        if (scales.has_scales_of(grids_[0].scales))
          scales.from(scales_[0][b], kind, amax_[b], first, outer, scales_[g][b]);
        else
          special_[b] |= scales(kind, amax_[b], outer, scales_[g][b]);
      }
    }
  }
  /// The same by a rule that reads values.
  void choose_scales_by_values(std::size_t k, std::size_t blocks) {
    const bool is_plain = job_.format.choice.count == 0 && job_.format.block.group[0] == 0;  // one grid, no exponents
    for (std::size_t b = 0; b < blocks; ++b) {
      const float* const x = tile_.x + b * block_ * lanes;
      const lane_values v = is_plain ? from_values_->take(x, block_) : lane_values{x, block_};
      const outer_lanes outer = outers_of(k, b);
      const u32 from = from_values_->argument(v, amax_[b]);
      special_[b] = 0;
      for (int g = 0; g <= job_.format.choice.count; ++g)
        special_[b] |= grids_[g].scales(job_.format.scale, from, outer, scales_[g][b]);
      if (!is_plain && coder_.rule.searches) search_scales(x, b, outer);
      if (!is_plain || !from_values_->compares()) continue;
      grid_scales& s = scales_[0][b];
      from_values_->place_under(outer.decode, grids_[0].scales.scale_factor(outer));
      s = from_values_->best(v, s.bits, amax_[b]);
      const u32 empty = reinterpret_cast<u32>(amax_[b] == 0u);
      special_[b] = lane_bits(empty | nonfinite(b) | reinterpret_cast<u32>(s.factor == 0.0f));
    }
  }
  /// Of the scales of a search around scales_, those with the smallest errors, of equal ones the first.
  void search_scales(const float* x, std::size_t b, const outer_lanes& outer) {
    const scale_kind kind = job_.format.scale;
    const search_window window = window_of(kind, coder_.rule.window);
    least_error_scale best[4];
    if (error_with_exponents_ != nullptr) exponents_.take(x);
    for (int j = -static_cast<int>(window.below); j <= static_cast<int>(window.above); ++j)
      for (int g = 0; g <= job_.format.choice.count; ++g) {
        u32 exists;
        const u32 bits = candidate_scales(kind, scales_[g][b].bits, j, exists);
        const grid_scales s = grids_[g].scales.under(kind, bits, outer);
        if (!is_pair_) {
          best[g].compare(exists, bits, error_under(x, b, g, s));
          continue;
        }
        remapped_pair::trial both;
        try_pair(x, b, s, coder_.rule.error, false, both);
        best[0].compare(exists, bits, both.error[0]);
        best[1].compare(exists, bits, both.error[1]);
        break;
      }
    const u32 keeps = nonfinite(b) | reinterpret_cast<u32>(amax_[b] == 0u);  // these have scales
    u32 special = keeps;
    for (int g = 0; g <= job_.format.choice.count; ++g) {
      grid_scales& s = scales_[g][b];
      s = chosen_scales(keeps, grids_[g].scales.under(kind, best[g].bits, outer), s);
      special |= reinterpret_cast<u32>(s.factor == 0.0f);
    }
    special_[b] = lane_bits(special);
  }
  /// The errors of a block under a scale of a search.
  f32 error_under(const float* x, std::size_t b, int g, const grid_scales& s) const {
    const grid_codes& grid = grids_[g];
    const grid_trial by{divisor(s.factor), grid.scales.rescale(), s.effective, coder_.rule.error};
    if (error_with_exponents_ != nullptr) return error_with_exponents_(exponents_, grid.error, by);
    return (reaches(b, s.factor, grid.end) ? grid.search.any : grid.search.in_range)(grid.error, by, x, block_,
                                                                                     nullptr);
  }
  u32 nonfinite(std::size_t b) const { return reinterpret_cast<u32>(amax_[b] >= infinity_bits); }
  /// Stores the bits of a block whose scale is chosen. Returns which lanes have codes of zeros, and counts them.
  u32 finish(std::size_t b, const grid_scales& s) {
    bits_[b] = s.bits;
    if (special_[b] == 0) return u32{};
    return finish_special_scales(job_.format.scale, amax_[b], s.factor, bits_[b], report_);
  }
  u32* words_of(std::size_t b) { return words_ + b * block_ / 8; }

  /// A block of one grid, with or without one-bit exponents.
  void code_block(const float* x, std::size_t b) {
    const grid_codes& grid = grids_[0];
    const grid_scales& s = scales_[0][b];
    const u32 zero = finish(b, s);
    lane_scales scale{zero != 0u ? broadcast(1.0f) : s.factor, zero};
    if (divides_ || job_.format.block.group[0] != 0) {
      scale_values(x, scale.factor, broadcast(1.0f), divides_);
      if (job_.format.block.group[0] != 0) bits_[b] |= take_exponents(job_.format, t_) & ~zero;
      x = t_;
      scale.factor = broadcast(1.0f);
    }
    grid.code(grid.plan, {x, block_, 1, &scale, &random_bits_, nullptr}, words_of(b));
    if (!job_.counts) return;
    scale_values(x, scale.factor, broadcast(1.0f), false);
    count_saturated(broadcast(grid.plan.range.least), broadcast(grid.plan.range.most), s.factor, ~zero);
  }
  /// The scaled values of a block, to t_.
  void scale_values(const float* x, f32 factor, f32 rescale, bool divides) {
    for (std::size_t j = 0; divides && j < block_ * lanes; j += lanes)
      store(t_ + j, scaled_by<true>(load(x + j), factor) * rescale);
    for (std::size_t j = 0; !divides && j < block_ * lanes; j += lanes)
      store(t_ + j, scaled_by<false>(load(x + j), factor) * rescale);
  }
  /// Counts the scaled values of the lanes of `which` that are below `least` or above `most`, or under a limited
  /// factor not 0.
  void count_saturated(f32 least, f32 most, f32 factor, u32 which) {
    const u32 none = limited(divides_, factor);
    least = none != 0u ? f32{} : least, most = none != 0u ? f32{} : most;
    u32 counts{};
    for (std::size_t j = 0; j < block_ * lanes; j += lanes) {
      const f32 t = load(t_ + j);
      counts -= reinterpret_cast<u32>((t > most) | (t < least)) & which;
    }
    for (std::size_t l = 0; l < lanes; ++l) report_.saturated += counts[l];
  }

  /// A block that chooses among grids: errors and codes under all of them, and of these those of the smallest error.
  void choose_grid(const float* x, std::size_t b) {
    u32 words[most_words];
    if (two_ != nullptr && !reaches(b, scales_[0][b].factor, grids_[0].end) &&
        !reaches(b, scales_[1][b].factor, grids_[1].end))
      return choose_of_two(x, b);
    f32 least = try_grid(x, b, 0, words_of(b));
    u32 number{};
    grid_scales chosen = scales_[0][b];
    for (int g = 1; g <= job_.format.choice.count; ++g) {
      const f32 err = try_grid(x, b, g, words);
      const u32 better = reinterpret_cast<u32>(err < least);
      least = better != 0u ? err : least;
      number = better != 0u ? broadcast(static_cast<std::uint32_t>(g)) : number;
      chosen = chosen_scales(better, chosen, scales_[g][b]);
      for (std::size_t w = 0; trials_code_ && w < block_ / 8; ++w)
        words_of(b)[w] = better != 0u ? words[w] : words_of(b)[w];
    }
    finish_choice(x, b, number, chosen);
  }
  /// The same of two grids at once.
  void choose_of_two(const float* x, std::size_t b) {
    const grid_scales &first = scales_[0][b], &other = scales_[1][b];
    const search_error what = coder_.rule.grids;
    const two_trials trials{{&grids_[0].error, &grids_[1].error},
                            {{first.factor, broadcast(1.0f), first.effective, what},
                             {other.factor, grids_[1].scales.rescale(), other.effective, what}}};
    const u32 second = two_(trials, x, block_, words_of(b));
    finish_choice(x, b, second & 1u, chosen_scales(second, first, other));
  }
  /// The same of a pair. Without a search both grids have the scales of the first.
  void choose_of_pair(const float* x, std::size_t b) {
    const int own = coder_.rule.searches ? 1 : 0;
    remapped_pair::trial trials[2];
    for (int g = 0; g <= own; ++g) try_pair(x, b, scales_[g][b], coder_.rule.grids, trials_code_, trials[g]);
    const u32 second = reinterpret_cast<u32>(trials[own].error[1] < trials[0].error[0]);
    for (std::size_t w = 0; trials_code_ && w < block_ / 8; ++w)
      words_of(b)[w] = pair_.codes_of(trials[0], trials[own], w, second);
    finish_choice(x, b, second & 1u, chosen_scales(second, scales_[0][b], scales_[own][b]));
  }
  void try_pair(const float* x, std::size_t b, const grid_scales& s, search_error what, bool codes,
                remapped_pair::trial& out) const {
    const grid_trial by{divisor(s.factor), broadcast(1.0f), s.effective, what};
    remapped_pair::trial_of(divides_, !reaches(b, s.factor, pair_.end()), codes)(pair_, by, x, block_, out);
  }
  /// What is left to do for a block whose grids have these numbers, under these scales.
  void finish_choice(const float* x, std::size_t b, u32 number, const grid_scales& s) {
    if (special_[b] != 0) number = nonfinite(b) != 0u ? u32{} : number;
    const u32 zero = finish(b, s);
    bits_[b] |= number << static_cast<std::uint32_t>(grid_shift(job_.format));
    if (trials_code_ && !job_.counts && special_[b] == 0) return;
    code_chosen(x, b, number, zero != 0u ? broadcast(1.0f) : s.factor, zero);
  }
  /// What a block is divided by, or its factor: a scale of 0 that divides gives the codes of 0, as an infinite one.
  f32 divisor(f32 factor) const {
    if (!divides_) return factor;
    return factor == 0.0f ? broadcast(infinity) : factor;
  }
  /// Whether a scaled magnitude of a block reaches a number.
  bool reaches(std::size_t b, f32 factor, float end) const {
    const f32 amax = as_float(amax_[b]), scaled = divides_ ? amax / factor : amax * factor;
    return lane_bits(reinterpret_cast<u32>(scaled >= end)) != 0;
  }
  /// The errors of a block under a grid, and its codes to nearest even.
  f32 try_grid(const float* x, std::size_t b, int g, u32* words) const {
    const grid_codes& grid = grids_[g];
    const grid_scales& s = scales_[g][b];
    const grid_trial trial{divisor(s.factor), grid.scales.rescale(), s.effective, coder_.rule.grids};
    const auto code = reaches(b, s.factor, grid.end) ? grid.trial.any : grid.trial.in_range;
    const f32 err = code(grid.error, trial, x, block_, words);
    for (std::size_t w = 0; trials_code_ && w < block_ / 8; ++w) words[w] = codes_of(grid.error.rounding, words[w]);
    return err;
  }
  /// What the trials have not done: roundings but to nearest even, blocks of zeros, counts.
  void code_chosen(const float* x, std::size_t b, u32 number, f32 factor, u32 zero) {
    u32 words[most_words], drawn[most_words][4];
    if (is_stochastic_) random_bits_.draw(block_ / 8, drawn);
    if (is_stochastic_ && is_pair_) return code_by_pair(x, b, number, factor, zero, drawn);
    if (regular_) return code_by_regular_grids(x, b, number, factor, zero, drawn);
    for (int g = 0; g <= job_.format.choice.count; ++g) {
      const grid_codes& grid = grids_[g];
      const u32 where = reinterpret_cast<u32>(number == static_cast<std::uint32_t>(g));
      const bool scaled = divides_ || job_.counts || factor_of(job_.format, g) != 1.0f;
      if (scaled) scale_values(x, factor, grid.scales.rescale(), divides_);
      const lane_scales scale{scaled ? broadcast(1.0f) : factor, zero};
      grid.code(grid.plan, {scaled ? t_ : x, block_, 1, &scale, &random_bits_, nullptr, false, drawn}, words);
      for (std::size_t w = 0; w < block_ / 8; ++w) words_of(b)[w] = where != 0u ? words[w] : words_of(b)[w];
      if (job_.counts)
        count_saturated(broadcast(grid.plan.range.least), broadcast(grid.plan.range.most), factor, where & ~zero);
    }
  }

  /// The same for stochastic rounding to regular grids, all at once.
  void code_by_regular_grids(const float* x, std::size_t b, u32 number, f32 factor, u32 zero, const u32 (*drawn)[4]) {
    u32 words[most_words];
    regular_grids grids(grids_[0].plan, grids_[0].scales.rescale());
    const auto where = [&](int g) { return reinterpret_cast<u32>(number == static_cast<std::uint32_t>(g)); };
    for (int g = 1; g <= job_.format.choice.count; ++g)
      grids.change(where(g), {grids_[g].plan, grids_[g].scales.rescale()});
    divides_ ? grids.code<true>(x, block_, factor, drawn, words) : grids.code<false>(x, block_, factor, drawn, words);
    for (int g = 0; g <= job_.format.choice.count; ++g)
      for (std::size_t w = 0; w < block_ / 8; ++w)
        words_of(b)[w] = where(g) != 0u ? mapped(grids_[g].plan, {factor, zero}, words[w]) : words_of(b)[w];
    if (!job_.counts) return;
    scale_values(x, factor, grids.rescale(), divides_);
    count_saturated(-grids.qmax(), grids.qmax(), factor, ~zero);
  }

  /// The same to the grids of a pair.
  void code_by_pair(const float* x, std::size_t b, u32 number, f32 factor, u32 zero, const u32 (*drawn)[4]) {
    const u32 second = reinterpret_cast<u32>(number == 1u);
    divides_ ? pair_.code<true>(x, block_, factor, second, drawn, words_of(b))
             : pair_.code<false>(x, block_, factor, second, drawn, words_of(b));
    const u32 zeros = second != 0u ? broadcast(grids_[1].plan.zeros) : broadcast(grids_[0].plan.zeros);
    for (std::size_t w = 0; w < block_ / 8; ++w) words_of(b)[w] = zero != 0u ? zeros : words_of(b)[w];
    if (!job_.counts) return;
    scale_values(x, factor, broadcast(1.0f), divides_);
    count_saturated(broadcast(-grids_[0].plan.qmax), broadcast(grids_[0].plan.qmax), factor, ~zero);
  }

  void code_tile(std::size_t row, std::size_t k, std::size_t blocks) {
    if (from_values_ != nullptr)
      choose_scales_by_values(k, blocks);
    else if (job_.format.scale == scale_kind::e4m3)  // a loop of its own, whose constants stay in registers
      choose_scales<true>(k, blocks);
    else
      choose_scales<false>(k, blocks);
    for (std::size_t b = 0; b < blocks; ++b) {
      if (is_stochastic_)
        random_bits_.place((job_.first_row + row) * job_.whole_padded_cols + job_.first_col + column_of(k, b), run_);
      const float* const x = tile_.x + b * block_ * lanes;
      if (is_pair_)
        choose_of_pair(x, b);
      else if (job_.format.choice.count != 0)
        choose_grid(x, b);
      else
        code_block(x, b);
    }
  }

  /// Codes and scales of the tile to memory.
  void store_tile(std::size_t row, std::size_t k, char* scales) const {
    const scale_kind as_large = strip_.block_bytes == 1   ? scale_kind::e4m3
                                : strip_.block_bytes == 2 ? scale_kind::bf16
                                                          : scale_kind::f32;
    const std::size_t runs = runs_from(k);
    for (std::size_t r = 0, panel = 0; r < runs; r += lanes, ++panel) {
      const std::size_t count = runs - r < lanes ? runs - r : lanes, at = k + r * run_;
      store_lanes(words_ + panel * run_ / 8, run_ / 8, out_.codes + (row * job_.padded_cols + at) / 2, run_ / 2, count);
      store_scales(scales, as_large, bits_ + panel * blocks_, blocks_, at / block_, blocks_, count);
    }
  }

  kernel_coder plain_;
  value_scales* from_values_ = nullptr;         ///< of a rule that reads values
  bool divides_, is_stochastic_, trials_code_;  ///< trials_code_: the codes of a trial are those of the call
  bool regular_ = true;                         ///< every grid is one of regular_grids, and the rounding stochastic
  random_bit_lanes random_bits_;
  grid_codes grids_[4];
  code_two_trials* two_ = nullptr;  ///< where both grids are tried at once
  bool is_pair_;                    ///< the grids are those of pair_
  remapped_pair pair_{};
  exponent_trial exponents_;
  exponent_trial::error_of* error_with_exponents_ = nullptr;  ///< if there are such exponents
  u32 bits_[most_blocks];
  grid_scales scales_[4][most_blocks];
  std::uint32_t special_[most_blocks];  ///< which lanes have a special scale of any grid
  u32 words_[most_words];
  alignas(64) float t_[max_transform * lanes];  ///< scaled values of a block
};

/// Whether extended_quantizer has code for a job whose format has further parts.
inline bool takes_extended(const quantize_job& job, const kernel_coder& c) {
  const format_spec& f = job.format;
  if (f.block.rows != 1 || f.block.cols < 16 || f.has_bytes() || job.rounds_input_to_bf16) return false;
  for (int g = 0; g <= f.choice.count; ++g) {
    const grid4& grid = nth_grid(f, g);
    if (to_bits(grid.qmax) < 0x00800000u || (grid.minus_zero != grid.code[grid.zero] && !is_symmetric(grid)))
      return false;
  }
  const auto even = rounding_spec::kind::nearest_even;
  return !c.rule.searches || f.block.group[0] == 0 ||
         exponent_trial::function_of(make_plan(f.grid, even, cheap_lookup), false) != nullptr;
}
UFP4_END_LANES
#endif
