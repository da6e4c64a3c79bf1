// ufp4 - quantize over one instruction set's lanes.
// SPDX-License-Identifier: Apache-2.0
//
// | run   | as many neighbours of a row as the longer of block and transform has                                    |
// | panel | as many runs as there are lanes, a run a lane: neighbours in a row, or the same columns of some rows      |
// | tile  | panels in the first-level cache, element by element: vector k of a panel holds element k of every run |
// | part  | 256 rows of 128 columns (or one run) of a matrix whose columns are contiguous                            |
//
// So a transform is sums and differences of whole vectors, the amax of a block is a maximum of vectors, the scales of
// as many blocks are computed at once, and eight codes become a word by shifts.
//
// These are the loops over a matrix; the other files of this folder are the steps.
#if !defined(UFP4_QUANTIZE_LANES)
#define UFP4_QUANTIZE_LANES
#include <ufp4/cpu/kernels/quantize/extended_lanes.hpp>
#if UFP4_LANE_COUNT == 16
#include <ufp4/cpu/kernels/quantize/ordered_avx512.hpp>
#endif

UFP4_BEGIN_LANES(quantize_kernel)

/// One call of quantize_lanes.
class lane_quantizer : quantize_call {
 public:
  /// The functions that depend on what the call needs.
  struct functions {
    tile_transform (*transform)(const transform_spec&) = nullptr;
    code_blocks* (*products)(rounding_plan::kind) = nullptr;
    code_blocks* (*blocks)(const rounding_plan&, bool divides, code_blocks* products) = nullptr;
    code_blocks* (*byte_elements)(byte_element, rounding_spec::kind) = nullptr;
    scales_of_amax* scales = nullptr;
    void (lane_quantizer::*squares)(std::size_t first, std::size_t last) = nullptr;
  };
  lane_quantizer(const quantize_job& job, const kernel_coder& coder, const quantized_sink& out, quantize_report& report,
                 const rounding_plan& plan, const functions& f)
      : quantize_call{job, coder, out, report},
        transform_(f.transform(job.transform)),
        plan_(plan),
        divides_(scale_divides(job.format)),
        choose_scales_(f.scales),
        squares_(f.squares),
        code_products_(f.products(plan_.what)),
        code_(job.format.has_bytes() ? f.byte_elements(job.format.byte, coder.rounding.what)
                                     : f.blocks(plan_, divides_, code_products_)),
        is_stochastic_(coder.rounding.what == rounding_spec::kind::stochastic),
        run_(job.run()),
        block_(static_cast<std::size_t>(job.format.block.cols)),
        blocks_(run_ / block_),
        words_(job.format.has_bytes() ? run_ / 4 : run_ / 8),
        run_shift_(static_cast<unsigned>(__builtin_ctzll(run_))),
        block_shift_(static_cast<unsigned>(__builtin_ctzll(block_))),
        tile_width_(panels_of(run_) * lanes * run_),
        random_bits_(coder.rounding.random_bits) {
    transform_.ahead = read_ahead_of(job.x);
  }

  /// For a rule that reads the values of blocks.
  void choose_by(value_scales& from_values) {
    from_values_ = &from_values;
    choose_by_values_ = &lane_quantizer::choose_by_values;
    keep_row_ = &lane_quantizer::keep_row;
    if (job_.format.block.rows != 1) square_ = buffer<float>(block_vectors() * tile_width_ / block_);
  }

  void strips(std::size_t first, std::size_t last) {
    if (squares_ != nullptr)
      (this->*squares_)(first, last);
    else if (reads_columns(job_.x))
      columns(first, last);
    else
      rows(first, last);
  }

  /// Strips of square blocks: a lane is a run of a row again. Every row is read twice, since a scale needs all rows of
  /// its block.
  void squares(std::size_t first, std::size_t last) {
    const auto height = static_cast<std::size_t>(job_.format.block.rows);
    for (std::size_t strip = first; strip < last; ++strip)
      for (std::size_t k = 0; k < job_.padded_cols; k += tile_width_) {
        const std::size_t top = strip * height, left = job_.x.rows - top,
                          bottom = top + (left < height ? left : height);
        const std::size_t runs = runs_from(k, job_.padded_cols), blocks = panels_in(runs) * blocks_;
        for (std::size_t b = 0; b < blocks; ++b) amax_[b] = u32{};
        for (std::size_t row = top; row < bottom; ++row) {
          read_runs(job_.x, transform_, row, k, run_, runs, tile_, 0);
          for (std::size_t b = 0; b < blocks; ++b) amax_[b] = maximum(amax_[b], block_amax(tile_, b, block_));
          if (from_values_ != nullptr) (this->*keep_row_)(blocks, row - top, true);
        }
        for (std::size_t row = bottom; from_values_ != nullptr && row < top + height; ++row)
          (this->*keep_row_)(blocks, row - top, false);
        choose(blocks);
        for (std::size_t row = top; row < bottom; ++row) {
          read_runs(job_.x, transform_, row, k, run_, runs, tile_, 0);
          code_panels(row, k, runs);
        }
        store_block_scales(strip * job_.padded_cols + k, runs);
      }
  }

 private:
  /// Rows of one-row blocks: a lane is a run of a row.
  void rows(std::size_t first, std::size_t last) {
    source x = job_.x;
    const std::size_t width = join_rows(job_, x, first, last);
    for (std::size_t row = first; row < last; ++row)
      for (std::size_t k = 0; k < width; k += tile_width_) {
        const std::size_t runs = runs_from(k, width), blocks = panels_in(runs) * blocks_;
        read_runs(x, transform_, row, k, run_, runs, tile_, 0);
        for (std::size_t b = 0; b < blocks; ++b) amax_[b] = block_amax(tile_, b, block_);
        choose(blocks);
        code_panels(row, k, runs);
        store_block_scales(row * job_.padded_cols + k, runs);
      }
  }

  /// Rows of one-row blocks of a matrix whose columns are contiguous: a lane is a row. By parts, so that long parts
  /// of columns are read and whole cache lines of codes are written.
  void columns(std::size_t first, std::size_t last) {
    const std::size_t width = run_ < part_cols ? part_cols : run_;
    for (std::size_t row = first; row < last; row += part_rows)
      for (std::size_t k = 0; k < job_.padded_cols; k += width)
        part(row, last - row < part_rows ? last - row : part_rows, k,
             job_.padded_cols - k < width ? job_.padded_cols - k : width);
  }

  static constexpr std::size_t part_rows = 256, part_cols = 128, panels = part_rows / lanes;

  std::uint8_t* codes_at(std::size_t row, std::size_t k) const {
    return out_.codes + code_bytes(job_.format, row * job_.padded_cols + k);
  }
  std::size_t runs_from(std::size_t k, std::size_t width) const {
    return (width - k < tile_width_ ? width - k : tile_width_) >> run_shift_;
  }
  static std::size_t panels_in(std::size_t runs) { return (runs + lanes - 1) / lanes; }
  /// body(panel, first run, runs) of as many runs as a tile holds at most.
  template <class Body>
  static void each_panel(std::size_t runs, const Body& body) {
    for (std::size_t r = 0, panel = 0; r < runs; r += lanes, ++panel)
      body(panel, r, runs - r < lanes ? runs - r : lanes);
  }

  /// How many vectors have the elements of as many blocks as there are lanes.
  std::size_t block_vectors() const { return static_cast<std::size_t>(job_.format.block.rows) * block_; }
  /// Keeps row r of the blocks, which the tile has, or zeros for a row beyond the matrix.
  void keep_row(std::size_t blocks, std::size_t r, bool exists) {
    for (std::size_t b = 0; b < blocks; ++b) {
      float* const to = square_.data() + (b * block_vectors() + r * block_) * lanes;
      if (exists)
        from_values_->take(tile_.x + b * block_ * lanes, block_, to);
      else
        __builtin_memset(to, 0, block_ * lanes * sizeof(float));
    }
  }
  void choose(std::size_t blocks) {
    if (from_values_ != nullptr) return (this->*choose_by_values_)(blocks);
    for (std::size_t b = 0; b < blocks; ++b) choose_scales_(coder_, amax_[b], bits_[b], scale_[b], report_);
  }
  [[gnu::noinline]] void choose_by_values(std::size_t blocks) {
    for (std::size_t b = 0; b < blocks; ++b) {
      const lane_values v = job_.format.block.rows == 1
                                ? from_values_->take(tile_.x + b * block_ * lanes, block_)
                                : lane_values{square_.data() + b * block_vectors() * lanes, block_vectors()};
      (*from_values_)(v, amax_[b], bits_[b], scale_[b], report_);
    }
  }
  /// Lane l is l * step elements after (row, k).
  void place_random_bits(std::size_t row, std::size_t k, std::size_t step) {
    random_bits_.place((job_.first_row + row) * job_.whole_padded_cols + job_.first_col + k, step);
  }

  /// Codes blocks first .. first + count - 1 of the tile, neighbours in their rows.
  void code(std::size_t first, std::size_t count, u32* words) {
    code_(plan_,
          {tile_.x + first * block_ * lanes, block_, count, scale_ + first, &random_bits_, code_products_, divides_},
          words);
    for (std::size_t b = first; job_.counts && b < first + count; ++b)
      report_.saturated +=
          count_beyond(tile_.x + b * block_ * lanes, block_, amax_[b], scale_[b], divides_, plan_.range);
  }
  /// Codes the tile, which starts at (row, k), panel by panel where each needs random bits of its place.
  void code_panels(std::size_t row, std::size_t k, std::size_t runs) {
    u32 words[max_transform / 4];
    if (!is_stochastic_) code(0, panels_in(runs) * blocks_, words);
    each_panel(runs, [&](std::size_t panel, std::size_t r, std::size_t count) {
      u32* here = words + panel * words_;
      if (is_stochastic_) place_random_bits(row, k + r * run_, run_), code(panel * blocks_, blocks_, here);
      store_lanes(here, words_, codes_at(row, k + r * run_), code_bytes(job_.format, run_), count);
    });
  }
  /// `place`: how many elements of all strips are before the tile's first block.
  void store_block_scales(std::size_t place, std::size_t runs) {
    each_panel(runs, [&](std::size_t panel, std::size_t r, std::size_t count) {
      store_scales(out_.scales, job_.format.scale, bits_ + panel * blocks_, blocks_, (place + r * run_) >> block_shift_,
                   blocks_, count);
    });
  }

  void part(std::size_t row, std::size_t rows, std::size_t k, std::size_t width) {
    // Panel by panel without gaps: at distances of 4 KiB they would take the same places in the first-level cache.
    u32 words[panels * max_transform / 4], bits[panels * max_transform / 16], coded[max_transform / 4];
    const std::size_t runs = width >> run_shift_, at_once = panels_of(run_), live = (rows + lanes - 1) / lanes;
    const auto rows_of = [&](std::size_t panel) { return rows - panel * lanes < lanes ? rows - panel * lanes : lanes; };
    for (std::size_t r = 0; r < runs; ++r)
      for (std::size_t first = 0; first < live; first += at_once) {
        const std::size_t column = k + r * run_, count = live - first < at_once ? live - first : at_once;
        for (std::size_t i = 0; i < count; ++i)
          read_columns(job_.x, transform_, row + (first + i) * lanes, column, run_, rows_of(first + i), tile_,
                       i * run_);
        for (std::size_t b = 0; b < count * blocks_; ++b) amax_[b] = block_amax(tile_, b, block_);
        choose(count * blocks_);
        if (!is_stochastic_) code(0, count * blocks_, coded);
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t at = (first + i) * runs + r;
          if (is_stochastic_) {
            place_random_bits(row + (first + i) * lanes, column, job_.whole_padded_cols);
            code(i * blocks_, blocks_, coded + i * words_);
          }
          copy_vectors(coded + i * words_, words_, words + at * words_);
          copy_vectors(bits_ + i * blocks_, blocks_, bits + at * blocks_);
        }
      }
    for (std::size_t panel = 0; panel < live; ++panel) {
      const std::size_t here = row + panel * lanes, count = rows_of(panel), of_row = runs * words_,
                        blocks = runs * blocks_;
      store_lanes(words + panel * of_row, of_row, codes_at(here, k), code_bytes(job_.format, job_.padded_cols), count);
      store_scales(out_.scales, job_.format.scale, bits + panel * blocks, blocks,
                   (here * job_.padded_cols + k) >> block_shift_, job_.padded_cols >> block_shift_, count);
    }
  }
  /// One or a few vectors. `rounded` keeps compilers from calling memcpy, which takes longer.
  static void copy_vectors(const u32* from, std::size_t count, u32* to) {
    for (std::size_t i = 0; i < count; ++i) to[i] = as_bits(rounded(as_float(from[i])));
  }

  value_scales* from_values_ = nullptr;  ///< of a rule that reads values; set with what depends on it:
  void (lane_quantizer::*choose_by_values_)(std::size_t blocks) = nullptr;
  void (lane_quantizer::*keep_row_)(std::size_t blocks, std::size_t r, bool exists) = nullptr;
  tile_transform transform_;
  const rounding_plan& plan_;
  bool divides_;
  scales_of_amax* choose_scales_;
  void (lane_quantizer::*squares_)(std::size_t first, std::size_t last);
  code_blocks *code_products_, *code_;
  bool is_stochastic_;
  std::size_t run_, block_;           ///< elements of a run and of a block
  std::size_t blocks_, words_;        ///< of a run: blocks, and words of codes
  unsigned run_shift_, block_shift_;  ///< logarithms of run_ and block_
  std::size_t tile_width_;            ///< elements that a tile takes at once
  random_bit_lanes random_bits_;
  lane_scales scale_[max_transform / 16];
  u32 amax_[max_transform / 16], bits_[max_transform / 16];
  tile tile_;
  buffer<float> square_;  ///< for from_values_: the square blocks of a tile, row after row; here, it moves nothing else
};

template <features needs>
bool takes_quantize(const quantize_job& job, [[maybe_unused]] const kernel_coder& c) {
  if constexpr (has(needs, features::corrected_scales))
    if (c.rounding.what == rounding_spec::kind::eden) return false;
  if constexpr (has(needs, features::further_parts))
    if (has(features_of(job.format), features::further_parts)) return takes_extended(job, c);
  const grid4& g = job.format.grid;
  const bool byte_elements = job.format.has_bytes(), one_zero = byte_elements || g.minus_zero == g.code[g.zero];
  const bool normal = to_bits(g.qmax) >= 0x00800000u;
  return job.format.block.cols >= 16 && !job.rounds_input_to_bf16 && normal && (one_zero || is_symmetric(g));
}

/// One call, where no rule reads values.
[[gnu::noinline]] inline void quantize_strips_by_amax(const quantize_job& job, const kernel_coder& coder,
                                                      const quantized_sink& out, quantize_report& report,
                                                      const rounding_plan& plan, const lane_quantizer::functions& f,
                                                      std::size_t first, std::size_t last) {
  lane_quantizer q(job, coder, out, report, plan, f);
  q.strips(first, last);
}

/// Does what quantize_scalar does, for the jobs that takes_quantize accepts.
template <features needs>
void quantize_lanes(const quantize_job& job, const kernel_coder& coder, const quantized_sink& out, std::size_t first,
                    std::size_t last, quantize_report& report) {
  if (job.padded_cols == 0 || first >= last) return;
  // Runs a quantizer, under a rule of values with what chooses the scales.
  const auto run = [&](auto& q) {
    if constexpr (has(needs, features::search))
      if (reads_values(coder.rule)) {
        value_scales from_values(coder);
        q.choose_by(from_values);
        return q.strips(first, last);
      }
    q.strips(first, last);
  };
  if constexpr (has(needs, features::further_parts))
    if (has(features_of(job.format), features::further_parts)) {
      extended_quantizer q(job, coder, out, report, transform_of<needs>(job.transform), &code_products_of<needs>);
      return run(q);
    }
  lane_quantizer::functions f{.transform = &transform_of<(needs & (features::transform | features::half_input))>,
                              .products = &code_products_of<(needs & rounding_features)>,
                              .blocks = &code_blocks_of<(needs & rounding_features)>};
  f.scales = &choose_scales<(needs & (scale_features | features::quotient))>;
  if constexpr (has(needs, element_features)) f.byte_elements = &code_byte_elements_of<needs>;
  if constexpr (has(needs, features::tall_block))
    if (job.format.block.rows != 1) f.squares = &lane_quantizer::squares;
  const auto quantize = [&](const rounding_plan& plan) {
    if constexpr (has(needs, features::search))
      if (reads_values(coder.rule)) {
        lane_quantizer q(job, coder, out, report, plan, f);
        return run(q);
      }
#if UFP4_LANE_COUNT == 16
    if (takes_ordered(job)) {
      constexpr features choice = needs & (rounding_features | features::half_input);
      const ordered_functions ordered = ordered_functions_of<choice>(plan, scale_divides(job.format), job.x.kind);
      if (ordered.amax != nullptr)
        return ordered_rows(job, coder, out, report, plan, f.scales, ordered).strips(first, last);
    }
#endif
    quantize_strips_by_amax(job, coder, out, report, plan, f, first, last);
  };
  if constexpr (!has(needs, element_features | features::other_grid | features::other_rounding))
    if (job.plans != nullptr) {
      const auto& plans = *static_cast<const rounding_plans*>(job.plans);
      return quantize(cheap_lookup ? plans.cheap : plans.other);
    }
  const rounding_plan plan = job.format.has_bytes() ? byte_plan(job.format, coder.rounding.what)
                                                    : make_plan(job.format.grid, coder.rounding.what, cheap_lookup);
  quantize(plan);
}
UFP4_END_LANES
#endif
