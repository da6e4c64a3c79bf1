// ufp4 - what a format does to data: attenuation, SQNR, bucket utilization, code histogram, bin bias (numerics 8).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <ufp4/quantize.hpp>
#include <vector>

namespace ufp4::analysis::inline UFP4_TYPES {

/// The result of measure (numerics 8). x is the transformed input, q its decoded quantization. Padding does not count,
/// unless the transform spread data over it. Sums are binary64 over rows in a fixed order: the same numbers for every
/// thread count. A NaN block makes attenuation and sqnr_db NaN.
struct report {
  double attenuation = 0;  ///< sum(x q) / sum(x x): below 1 if rounding shrinks values. NaN if x is zero
  double sqnr_db = 0;      ///< 10 log10(sum x^2 / sum (q - x)^2). Infinite if q equals x
  double bucket_utilization =
      0;  ///< 2^H / V, H the entropy in bits of the values used, V their number; NaN for elements of one byte
  double scale_underflow_rate = 0;            ///< share of blocks with amax > 0 whose scale became 0
  double saturation_rate = 0;                 ///< share of elements that count as saturated: quantize_report
  std::uint64_t nonfinite_blocks = 0;         ///< blocks with a NaN or Inf after the transform
  std::uint64_t elements = 0;                 ///< elements that were measured
  std::uint64_t blocks = 0;                   ///< blocks, padding included
  std::array<std::uint64_t, 16> histogram{};  ///< elements by code; zeros for elements of one byte
};

/// (2 q_i - q_{i-1} - q_{i+1}) / 4 on magnitudes, in units of the grid: what rounding to nearest adds on average in the
/// bin of code i. 0 on uniform grids, for 0, and for the amax of the grid, whose bins have one side.
constexpr double bin_bias(const grid4& grid, std::uint8_t code) {
  const float value = grid.value[code & 15u], a = value < 0 ? -value : value;
  float below = -1.0f, above = std::numeric_limits<float>::infinity();
  for (int i = 0; i < grid.levels; ++i) {
    const float level = grid.level[i];
    if ((level < 0) != (value < 0) && level != 0.0f) continue;
    const float m = level < 0 ? -level : level;
    if (m < a && m > below) below = m;
    if (m > a && m < above) above = m;
  }
  if (a == 0.0f || above == std::numeric_limits<float>::infinity()) return 0.0;
  return (2.0 * static_cast<double>(a) - static_cast<double>(below) - static_cast<double>(above)) / 4.0;
}

template <element_format E>
constexpr double bin_bias(std::uint8_t code) {
  return bin_bias(grid_of<E>(), code);
}

}  // namespace ufp4::analysis::inline UFP4_TYPES

namespace ufp4::analysis::detail::inline UFP4_CODE {

using namespace ufp4::detail;
using namespace cpu::detail;
struct sums {
  double xx = 0, xq = 0, ee = 0;
  std::uint64_t elements = 0;
  std::array<std::uint64_t, 16> histogram{};  ///< of 4-bit codes

  void add(const float* values, const float* decoded, std::size_t count) {
    elements += count;
    for (std::size_t i = 0; i < count; ++i) {
      const auto x = static_cast<double>(values[i]), q = static_cast<double>(decoded[i]);
      xx += x * x;
      xq += x * q;
      ee += (q - x) * (q - x);
    }
  }
  sums& operator+=(const sums& other) {
    xx += other.xx;
    xq += other.xq;
    ee += other.ee;
    elements += other.elements;
    for (std::size_t c = 0; c < 16; ++c) histogram[c] += other.histogram[c];
    return *this;
  }
};

/// How many of `width` columns hold data if `cols` did before the transform, which fills up a ragged run of n elements.
inline std::size_t live_columns(std::size_t cols, std::size_t width, std::size_t n) {
  const std::size_t reached = (cols + n - 1) / n * n;
  return reached < width ? reached : width;
}

inline void add_run(const quantize_job& job, const coded_run& run, sums& s) {
  alignas(64) float q[coded_run::max_rows * coded_run::max_cols];
  decode_run(job, run, q);
  const std::size_t width = static_cast<std::size_t>(run.cols);
  const std::size_t left = job.x.cols > run.first_col ? job.x.cols - run.first_col : 0;
  const std::size_t live = live_columns(left, width, job.transform.n);
  for (std::size_t r = 0; r < run.rows; ++r) {
    s.add(run.x + r * width, q + r * width, live);
    for (std::size_t k = 0; !job.format.has_bytes() && k < live; ++k) ++s.histogram[run.codes[r * width + k]];
  }
}

/// Counts packed codes by value, in four tables: equal codes that follow each other do not wait for one another.
inline void count_codes(const std::uint8_t* packed, std::size_t count, std::array<std::uint64_t, 16>& histogram) {
  std::uint32_t seen[4][16] = {};
  for (std::size_t i = 0; i < count / 2; ++i) {
    ++seen[i % 2][packed[i] & 15u];
    ++seen[2 + i % 2][packed[i] >> 4];
  }
  if (count % 2 != 0) ++seen[0][packed[count / 2] & 15u];
  for (std::size_t c = 0; c < 16; ++c) histogram[c] += std::uint64_t{seen[0][c]} + seen[1][c] + seen[2][c] + seen[3][c];
}
struct measured_part : quantized_part {
  alignas(64) float x[most];

  /// Strip `strip` of a part: its values in the order of each_coded_run.
  void add_strip(const quantize_job& part, std::size_t strip, sums& s) const {
    const auto height = static_cast<std::size_t>(part.format.block.rows);
    const std::size_t width = part.padded_cols, row = strip * height, left = part.x.rows - row;
    const std::size_t rows = left < height ? left : height, run = height == 1 ? width : part.run();
    const std::size_t live = live_columns(part.x.cols, width, part.transform.n);
    for (std::size_t k = 0; k < live; k += run)
      for (std::size_t r = row; r < row + rows; ++r) {
        const std::size_t at = r * width + k, count = live - k < run ? live - k : run;
        s.add(x + at, values + at, count);
        if (!part.format.has_bytes()) count_codes(codes + at / 2, count, s.histogram);
      }
  }
};

/// The same numbers, bit for bit, with the kernels of a tier.
inline void measure_parts(const part_kernels& run, const quantize_job& whole, const kernel_coder& coder,
                          std::size_t first, std::size_t last, std::vector<sums>& strips, quantize_report& seen) {
  measured_part staged;
  for_parts(whole, first, last, [&](const quantize_job& job, std::size_t s, std::size_t count, std::size_t) {
    const std::size_t rows = job.x.rows, width = job.padded_cols;
    const auto stride = static_cast<std::ptrdiff_t>(width);
    run.quantize(job, coder, {staged.codes, staged.scales}, 0, count, seen);
    run.dequantize(staged.quantized(job, coder.tensor.decode, width),
                   {staged.values, dtype::f32, rows, width, stride, 1}, 0, rows);
    if (job.transform.n == 1)
      for (std::size_t r = 0; r < rows; ++r) load_row(job.x, r, 0, job.x.cols, staged.x + r * width);
    else
      run.transform(job.transform, false, job.x, {staged.x, dtype::f32, rows, width, stride, 1}, 0, rows);
    for (std::size_t i = 0; i < count; ++i) staged.add_strip(job, i, strips[s + i]);
  });
}

template <features needs, class Coder>
void measure_with(const cpu::context& ctx, cpu::isa tier, const quantize_job& job, const Coder& coder,
                  std::vector<sums>& strips, quantize_report& seen) {
  for_strips(ctx, job, &seen, [&](std::size_t first, std::size_t last, quantize_report& here) {
    if constexpr (is_kernel_coder<Coder>)
      if (quantizes_parts<needs, Coder>(job))
        return measure_parts(kernels_of_parts<needs>(tier, job, coder), job, coder, first, last, strips, here);
    if constexpr (has(needs, whole_strips) || !is_kernel_coder<Coder>)
      each_coded_run(job, coder, first, last, here, [&](const coded_run& run) {
        add_run(job, run, strips[run.first_row / static_cast<std::size_t>(job.format.block.rows)]);
      });
  });
}

/// 2^H / V over the distinct values: codes that mean the same value (the two zeros) are one.
inline double utilization(const grid4& grid, const std::array<std::uint64_t, 16>& histogram) {
  double total = 0;
  for (const std::uint64_t n : histogram) total += static_cast<double>(n);
  double entropy = 0;
  for (int i = 0; i < grid.levels; ++i) {
    double n = 0;
    for (std::size_t c = 0; c < 16; ++c)
      if (grid.value[c] == grid.level[i]) n += static_cast<double>(histogram[c]);
    if (n > 0) entropy -= n / total * __builtin_log2(n / total);
  }
  return total == 0 ? 0 : __builtin_exp2(entropy) / grid.levels;
}
struct totals {
  sums all;
  quantize_report seen;
  std::uint64_t blocks = 0;  ///< blocks, padding included

  report result(const format_spec& format) const {
    report r;
    r.histogram = all.histogram;
    r.elements = all.elements;
    r.blocks = blocks;
    r.attenuation = all.xq / all.xx;
    r.sqnr_db = 10.0 * __builtin_log10(all.xx / all.ee);
    r.bucket_utilization =
        format.has_bytes() ? std::numeric_limits<double>::quiet_NaN() : utilization(format.grid, all.histogram);
    r.nonfinite_blocks = seen.nonfinite_blocks;
    const auto share = [](std::uint64_t n, std::uint64_t of) {
      return of == 0 ? 0 : static_cast<double>(n) / static_cast<double>(of);
    };
    r.scale_underflow_rate = share(seen.underflowed_scales, r.blocks);
    r.saturation_rate = share(seen.saturated, r.elements);
    return r;
  }
};

/// Adds a part. Preset: as in quantize_to.
template <class Preset = void, class O>
void add_part(const cpu::context& ctx, const format_spec& format, const source& x, const O& options, totals& to) {
  check_quantize("analysis::measure", format, x, options);
  const cpu::isa tier = cpu::resolve(ctx);
  if (x.cols == 0) return;  // no element, however many rows
  auto job = make_job(x, format, options);
  job.counts = true;
  const auto coder = make_coder<Preset>(format, options, global_amax_of<O::needs>(ctx, job, options));
  std::vector<sums> strips(job.strips());
  quantize_report here;
  measure_with<O::needs>(ctx, tier, job, coder, strips, here);
  for (const sums& s : strips) to.all += s;
  to.blocks += job.strips() * (job.padded_cols / static_cast<std::size_t>(format.block.cols));
  to.seen += here;
  if (options.report != nullptr) *options.report += here;
}

}  // namespace ufp4::analysis::detail::inline UFP4_CODE

namespace ufp4::analysis::inline UFP4_CODE {

/// measure() of a matrix in parts of rows, top to bottom, with the same policies. The report is that of the whole
/// matrix, bit for bit, for any division into rows (multiples of the block's rows). With stochastic rounding each part
/// needs its shard, and a two-level format then the whole's tensor_amax; else a part is a matrix of its own.
class any_measurement {
 public:
  explicit any_measurement(const format_spec& format) : format_(format) {}  ///< Starts with no rows.

  /// Adds the next rows.
  template <detail::matrix_scalar T, class... Policies>
  void add(const matrix_view<T>& x, const Policies&... policies) {
    detail::add_part(ufp4::detail::context_among(policies...), format_, detail::source_of(x),
                     detail::collect_as_data<T>(policies...), totals_);
  }
  report result() const { return totals_.result(format_); }  ///< The report over all rows so far.

 private:
  format_spec format_;
  detail::totals totals_;
};

/// The same for a format that is a type, or a compat preset.
template <detail::quantizer_target F>
class measurement {
 public:
  /// Adds the next rows.
  template <detail::matrix_scalar T, class... Policies>
  void add(const matrix_view<T>& x, const Policies&... policies) {
    const auto options = detail::options_for<detail::format_of<F>, T>(policies...);
    detail::check_preset<F>("analysis::measure", options);
    detail::add_part<detail::preset_of<F>>(ufp4::detail::context_among(policies...), spec_of<detail::format_of<F>>,
                                           detail::source_of(x), options, totals_);
  }
  report result() const { return totals_.result(spec_of<detail::format_of<F>>); }  ///< The report over all rows so far.

 private:
  detail::totals totals_;
};

/// Quantizes x as quantize(format, x, policies...) does, and returns the error and the counts. Nothing is stored.
template <detail::matrix_scalar T, class... Policies>
report measure(const format_spec& format, const matrix_view<T>& x, const Policies&... policies) {
  any_measurement whole(format);
  whole.add(x, policies...);
  return whole.result();
}
template <detail::quantizer_target F, detail::matrix_scalar T, class... Policies>
report measure(const matrix_view<T>& x, const Policies&... policies) {
  measurement<F> whole;
  whole.add(x, policies...);
  return whole.result();
}

/// The gain of a transform on x in a format, in dB (negative for a loss): 10 log10(NMSE without / NMSE with).
template <detail::matrix_scalar T, detail::transform Transform, class... Policies>
double delta_sqnr(const format_spec& format, const matrix_view<T>& x, const Transform& t, const Policies&... policies) {
  return measure(format, x, t, policies...).sqnr_db - measure(format, x, policies...).sqnr_db;
}
template <detail::quantizer_target F, detail::matrix_scalar T, detail::transform Transform, class... Policies>
double delta_sqnr(const matrix_view<T>& x, const Transform& t, const Policies&... policies) {
  return measure<F>(x, t, policies...).sqnr_db - measure<F>(x, policies...).sqnr_db;
}

}  // namespace ufp4::analysis::inline UFP4_CODE
