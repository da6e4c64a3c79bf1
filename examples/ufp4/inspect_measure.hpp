// ufp4 - the error of 4-bit formats on a matrix of a file, measured a few rows at a time.
// SPDX-License-Identifier: Apache-2.0
/// The numbers are those of analysis::measure on the whole matrix, bit for bit; of three or more dimensions each slice
/// has its own tensor scale, as `ufp4 quantize` gives it. Memory holds one chunk of rows. A matrix of several chunks is
/// read twice: the first pass determines the amax, which formats with a tensor scale need.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <ufp4/analysis/measure.hpp>
#include <ufp4/hadamard/signs.hpp>
#include <ufp4/interop/tensor_file.hpp>
#include <ufp4/quantize.hpp>
#include <utility>
#include <vector>

#include "format_list.hpp"
#include "inspect_file.hpp"
#include "random_transform.hpp"
#include "row_chunks.hpp"
#include "scale_rule_options.hpp"

namespace tool {

/// Of the finite elements.
struct value_statistics {
  std::uint64_t elements = 0, nonfinite = 0, zeros = 0;
  double amax = 0;  ///< the largest magnitude
  double squares = 0, fourth_powers = 0;

  void add(float x) {
    ++elements;
    const auto v = static_cast<double>(x), square = v * v;
    if (!std::isfinite(v)) {
      ++nonfinite;
      return;
    }
    zeros += v == 0;
    amax = std::max(amax, std::abs(v));
    squares += square;
    fourth_powers += square * square;
  }
  double finite() const { return static_cast<double>(elements - nonfinite); }
  double rms() const { return std::sqrt(squares / finite()); }
  double crest() const { return amax / rms(); }
  /// About zero: 3 for a Gaussian, more where a few values are large.
  double kurtosis() const { return fourth_powers * finite() / (squares * squares); }
};

/// One format, with or without a transform.
struct format_outcome {
  format_facts format;
  std::uint32_t hadamard = 1;  ///< length; 1 is none
  ufp4::analysis::report report;
};

struct measured_matrix {
  std::uint64_t rows = 0, of_rows = 0, cols = 0;  ///< rows < of_rows: evenly spaced ones
  value_statistics values;
  std::vector<format_outcome> outcomes;  ///< of each format without, then with the transform
};

/// What is measured of every matrix.
struct measure_plan {
  std::vector<std::string> formats;
  bool hadamard = true;
  std::uint32_t hadamard_length = 0;  ///< 0: each format's block
  scale_choice scales{};              ///< --rule, --search
  std::uint64_t seed = 0;             ///< of the transform's signs
  std::uint64_t rows = 0;             ///< at most this number of rows of a matrix; 0: all
  int threads = 0;
  std::size_t chunk_elements = std::size_t{1} << 24;  ///< 64 MiB of floats
};

/// Called with the part of a matrix that is done, from 0 to 1.
using part_callback = std::function<void(double)>;

namespace detail {

using row_view = ufp4::matrix_view<const float>;

/// A format and a transform that are being measured.
struct trial {
  format_facts format;
  ufp4::transform_spec transform;
  ufp4::scale_rule_spec rule;
  ufp4::analysis::any_measurement sums;

  void add(const ufp4::cpu::context& ctx, const row_view& x, float global_amax) {
    if (format.spec.has_tensor_scale())
      sums.add(x, transform, rule, ufp4::tensor_amax{global_amax}, ctx);
    else
      sums.add(x, transform, rule, ctx);
  }
};

inline std::vector<trial> trials_of(const measure_plan& plan) {
  std::vector<trial> trials;
  for (const std::string& name : plan.formats) {
    const format_facts& facts = format_named(name);
    const auto block = static_cast<std::uint32_t>(facts.spec.block.cols);
    const std::uint32_t length = plan.hadamard_length == 0 ? block : plan.hadamard_length;
    for (const std::uint32_t n : {1u, length})
      if (n == 1 || plan.hadamard)
        trials.push_back({facts, tool::random_transform(n, plan.seed), plan.scales.rule,
                          ufp4::analysis::any_measurement(facts.spec)});
  }
  return trials;
}

/// The rows that are measured, a chunk of one slice at a time, in one buffer.
class sampled_rows {
 public:
  sampled_rows(ufp4::interop::tensor_file& file, const file_entry& entry, const measure_plan& plan)
      : matrix_(file, entry.tensor, entry.axis), rows_(matrix_.rows()) {
    if (plan.rows != 0) rows_ = std::min(rows_, plan.rows);
    // The measurement needs some memory per row, which matters for short rows.
    constexpr std::uint64_t most_rows = 1 << 16;
    const std::uint64_t height = std::clamp<std::uint64_t>(plan.chunk_elements / cols(), 1, std::min(most_rows, rows_));
    for (std::uint64_t row = 0; row < rows_; row = std::min(row + height, end_of_slice(row))) begins_.push_back(row);
    begins_.push_back(rows_);
    values_.resize(static_cast<std::size_t>(height * cols()));
  }

  std::uint64_t rows() const { return rows_; }
  std::uint64_t of_rows() const { return matrix_.rows(); }
  std::uint64_t cols() const { return matrix_.cols(); }
  std::uint64_t count() const { return begins_.size() - 1; }
  /// The slice of chunk i.
  std::uint64_t slice(std::uint64_t i) const { return slice_of(begins_[static_cast<std::size_t>(i)]); }

  /// Chunk i; read from the file unless it is the one in memory.
  row_view read(std::uint64_t i) {
    const std::uint64_t first = begins_[static_cast<std::size_t>(i)];
    const auto height = static_cast<std::size_t>(begins_[static_cast<std::size_t>(i) + 1] - first);
    const auto width = static_cast<std::size_t>(cols());
    if (held_ != i) {
      if (rows_ == of_rows())
        matrix_.read(first, ufp4::matrix_view<float>{values_.data(), height, width});
      else
        for (std::size_t r = 0; r < height; ++r)
          matrix_.read(row_index(first + r), ufp4::matrix_view<float>{values_.data() + r * width, 1, width});
      held_ = i;
    }
    return {values_.data(), height, width};
  }

 private:
  /// floor(i * of / n) without the product, which may exceed 64 bits.
  std::uint64_t row_index(std::uint64_t i) const { return of_rows() / rows_ * i + of_rows() % rows_ * i / rows_; }
  std::uint64_t slice_of(std::uint64_t row) const { return row_index(row) / matrix_.part_rows(); }

  /// The first measured row that is in a later slice than `row`.
  std::uint64_t end_of_slice(std::uint64_t row) const {
    std::uint64_t low = row, high = rows_;  // low is in the slice, high is not
    while (high - low > 1) {
      const std::uint64_t middle = low + (high - low) / 2;
      (slice_of(middle) == slice_of(row) ? low : high) = middle;
    }
    return high;
  }

  matrix_rows matrix_;
  std::uint64_t rows_, held_ = (std::numeric_limits<std::uint64_t>::max)();
  std::vector<std::uint64_t> begins_;  // of the chunks, and the end of the last
  std::vector<float> values_;
};

/// The amax after each transform, by the transform's length: what tensor scales are derived from.
using amax_by_length = std::map<std::uint32_t, float>;

inline void raise(amax_by_length& amax, const std::vector<trial>& trials, const ufp4::cpu::context& ctx,
                  const row_view& x) {
  amax_by_length here;
  for (const trial& t : trials)
    if (t.format.spec.has_tensor_scale() && !here.contains(t.transform.n))
      here[t.transform.n] = ufp4::amax(x, t.transform, ctx).value;
  for (const auto& [n, value] : here) amax[n] = std::max(amax[n], value);
}

}  // namespace detail

inline measured_matrix measure_matrix(ufp4::interop::tensor_file& file, const file_entry& entry,
                                      const measure_plan& plan, const part_callback& progress) {
  const ufp4::cpu::context ctx{.threads = plan.threads};
  detail::sampled_rows chunks(file, entry, plan);
  std::vector<detail::trial> trials = detail::trials_of(plan);
  measured_matrix m{chunks.rows(), chunks.of_rows(), chunks.cols(), {}, {}};
  std::map<std::uint64_t, detail::amax_by_length> amax;  // by slice
  const auto total = static_cast<double>(chunks.count() * (trials.size() + 1));
  double done = 0;
  const auto step = [&] { progress(done++ / total); };

  for (std::uint64_t i = 0; i < chunks.count(); ++i) {
    step();
    const detail::row_view x = chunks.read(i);
    for (std::size_t r = 0; r < x.rows(); ++r)
      for (std::size_t k = 0; k < x.cols(); ++k) m.values.add(x(r, k));
    detail::raise(amax[chunks.slice(i)], trials, ctx, x);
  }
  for (std::uint64_t i = 0; i < chunks.count(); ++i) {
    const detail::row_view x = chunks.read(i);
    for (detail::trial& t : trials) {
      step();
      t.add(ctx, x, amax[chunks.slice(i)][t.transform.n]);
    }
  }
  for (const detail::trial& t : trials) m.outcomes.push_back({t.format, t.transform.n, t.sums.result()});
  return m;
}

}  // namespace tool
