// ufp4 - quantize of formats with outer scales of rows and segments, several grids or one-bit exponents, over lanes.
// SPDX-License-Identifier: Apache-2.0
//
// Blocks are lanes as in quantize_lanes.hpp, whose steps these loops share. What is constant for a call there is a
// number a lane here: the constants of the outer scale, the grid of the block.
#if !defined(UFP4_EXTENDED_LANES)
#define UFP4_EXTENDED_LANES
#include <ufp4/cpu/kernels/quantize/choice_lanes.hpp>

UFP4_BEGIN_LANES(quantize_kernel)

/// One call of quantize_lanes for such a format.
class extended_quantizer : grid_blocks {
 public:
  extended_quantizer(const quantize_job& job, const kernel_coder& coder, const quantized_sink& out,
                     quantize_report& report, const tile_transform& transform,
                     code_blocks* (*code_of)(rounding_plan::kind))
      : grid_blocks(job, coder, report, transform, code_of), out_(out) {}

  /// For a rule that reads the values of blocks, that takes_values_rule accepts.
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
    for (std::size_t r = 0, band = 0; r < runs; r += lanes, ++band) {
      const std::size_t count = runs - r < lanes ? runs - r : lanes, at = k + r * run_;
      store_lanes(words_ + band * run_ / 8, run_ / 8, out_.codes + (row * job_.padded_cols + at) / 2, run_ / 2, count);
      store_scales(scales, as_large, bits_ + band * blocks_, blocks_, at / block_, blocks_, count);
    }
  }

  const quantized_sink& out_;
};

/// Whether extended_quantizer has code for a rule that reads the values of blocks.
inline bool takes_values_rule(const format_spec& f, const ufp4::scale_rule_spec& rule) {
  if (!rule.searches || f.block.group[0] == 0) return true;
  return exponent_trial::function_of(make_plan(f.grid, rounding_spec::kind::nearest_even, cheap_lookup), false) !=
         nullptr;
}
/// Whether it has code for a job whose format has further parts.
inline bool takes_extended(const quantize_job& job, const kernel_coder& c) {
  bool suitable = job.format.block.rows == 1 && !job.rounds_input_to_bf16 && job.format.block.cols >= 16 &&
                  !job.format.is_wide() &&
                  (!ufp4::detail::reads_values(c.rule) || takes_values_rule(job.format, c.rule));
  for (int g = 0; suitable && g <= job.format.choice.count; ++g) {
    const grid4& grid = ufp4::detail::nth_grid(job.format, g);
    suitable = ufp4::detail::to_bits(grid.qmax) >= 0x00800000u &&
               (grid.minus_zero == grid.code[grid.zero] || is_symmetric(grid));
  }
  return suitable;
}
UFP4_END_LANES
#endif
