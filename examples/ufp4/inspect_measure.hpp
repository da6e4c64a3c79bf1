// ufp4 - what 4 bits do to a matrix of a file, measured a few rows at a time.
// SPDX-License-Identifier: Apache-2.0
/// The numbers are those of analysis::measure on the whole matrix, bit for bit: memory holds a chunk of rows, and a
/// matrix of several chunks is read twice where a format has a tensor scale,
/// which needs the largest magnitude of all first.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <ufp4/analysis/measure.hpp>
#include <ufp4/hadamard/signs.hpp>
#include <ufp4/interop/tensor_file.hpp>
#include <ufp4/quantize.hpp>
#include <utility>
#include <vector>

#include "formats.hpp"
#include "inspect_file.hpp"
#include "random_transform.hpp"

namespace tool {

/// Of the finite elements.
struct value_statistics {
  std::uint64_t elements = 0, nonfinite = 0, zeros = 0;
  double largest = 0;  ///< magnitude
  double squares = 0, fourth_powers = 0;

  void add(float x) {
    ++elements;
    const auto v = static_cast<double>(x), square = v * v;
    if (!std::isfinite(v)) {
      ++nonfinite;
      return;
    }
    zeros += v == 0;
    largest = std::max(largest, std::abs(v));
    squares += square;
    fourth_powers += square * square;
  }
  double finite() const { return static_cast<double>(elements - nonfinite); }
  double rms() const { return std::sqrt(squares / finite()); }
  double crest() const { return largest / rms(); }
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
  std::vector<format_outcome> outcomes;  ///< of each format as it is, then after the transform
};

/// What is asked of every matrix.
struct measure_plan {
  std::vector<std::string> formats;
  bool hadamard = true;
  std::uint32_t hadamard_length = 0;  ///< 0: each format's block
  std::uint64_t seed = 0;             ///< of its signs
  std::uint64_t rows = 0;             ///< at most so many of a matrix; 0: all
  int threads = 0;
  std::size_t chunk_elements = std::size_t{1} << 24;  ///< 64 MiB of floats
};

/// Told how much of a matrix has been dealt with, from 0 to 1.
using part_callback = std::function<void(double)>;

namespace detail {

using row_view = ufp4::matrix_view<const float>;

/// analysis::measurement of a format that is known when the program runs.
class meter {
 public:
  virtual ~meter() = default;
  virtual void add(const ufp4::cpu::context& ctx, const row_view& x, float global_amax) = 0;
  virtual ufp4::analysis::report result() const = 0;
};

template <class Format>
class meter_of final : public meter {
 public:
  explicit meter_of(const ufp4::transform_spec& transform) : transform_(transform) {}
  void add(const ufp4::cpu::context& ctx, const row_view& x, float global_amax) override {
    sums_.add(ctx, x, transform_, ufp4::tensor_amax{global_amax});
  }
  ufp4::analysis::report result() const override { return sums_.result(); }

 private:
  ufp4::transform_spec transform_;
  ufp4::analysis::measurement<Format> sums_;
};

struct trial {
  format_facts format;
  ufp4::transform_spec transform;
  std::unique_ptr<meter> sums;
};

inline std::vector<trial> trials_of(const measure_plan& plan) {
  std::vector<trial> trials;
  for (const std::string& name : plan.formats) {
    const format_facts facts = facts_of(named_format(name));
    const auto block = static_cast<std::uint32_t>(facts.spec.block.cols);
    const std::uint32_t length = plan.hadamard_length == 0 ? block : plan.hadamard_length;
    for (const std::uint32_t n : {1u, length}) {
      if (n != 1 && !plan.hadamard) continue;
      const ufp4::transform_spec transform = tool::random_transform(n, plan.seed);
      trials.push_back({facts, transform, visit_format(name, [&]<class Format>(std::type_identity<Format>) {
                          return std::unique_ptr<meter>(std::make_unique<meter_of<Format>>(transform));
                        })});
    }
  }
  return trials;
}

/// The rows that take part, a chunk at a time, in one buffer.
class sampled_rows {
 public:
  sampled_rows(ufp4::interop::tensor_file& file, const file_entry& entry, const measure_plan& plan)
      : file_(file), tensor_(entry.tensor) {
    std::uint64_t rows = 1;
    for (std::size_t i = 0; i + 1 < tensor_.shape.size(); ++i) rows *= tensor_.shape[i];
    tensor_.shape = {rows, tensor_.shape.back()};
    rows_ = plan.rows == 0 ? rows : std::min(rows, plan.rows);
    // A row costs the measurement some memory of its own, which counts where rows are short.
    constexpr std::uint64_t most_rows = 1 << 16;
    height_ = std::clamp<std::uint64_t>(plan.chunk_elements / cols(), 1, std::min(most_rows, rows_));
    values_.resize(static_cast<std::size_t>(height_ * cols()));
  }

  std::uint64_t rows() const { return rows_; }
  std::uint64_t of_rows() const { return tensor_.shape[0]; }
  std::uint64_t cols() const { return tensor_.shape[1]; }
  std::uint64_t count() const { return (rows_ + height_ - 1) / height_; }

  /// Chunk i, which is read unless it is the one in memory.
  row_view read(std::uint64_t i) {
    const std::uint64_t first = i * height_, height = std::min(height_, rows_ - first);
    const auto width = static_cast<std::size_t>(cols());
    if (held_ != i) {
      if (rows_ == of_rows()) {
        file_.read_rows(tensor_, first,
                        ufp4::matrix_view<float>{values_.data(), static_cast<std::size_t>(height), width});
      } else {
        for (std::size_t r = 0; r < height; ++r)
          file_.read_rows(tensor_, row_index(first + r),
                          ufp4::matrix_view<float>{values_.data() + r * width, 1, width});
      }
      held_ = i;
    }
    return {values_.data(), static_cast<std::size_t>(height), width};
  }

 private:
  /// floor(i * of / n) without the product, which 64 bits may not hold.
  std::uint64_t row_index(std::uint64_t i) const { return of_rows() / rows_ * i + of_rows() % rows_ * i / rows_; }

  ufp4::interop::tensor_file& file_;
  stored_tensor tensor_;
  std::uint64_t rows_ = 0, height_ = 0, held_ = (std::numeric_limits<std::uint64_t>::max)();
  std::vector<float> values_;
};

/// By length of the transform, the largest magnitude after it: a tensor scale's.
using largest_values = std::map<std::uint32_t, float>;

inline void raise(largest_values& largest, const std::vector<trial>& trials, const ufp4::cpu::context& ctx,
                  const row_view& x) {
  std::map<std::uint32_t, float> here;
  for (const trial& t : trials)
    if (t.format.spec.two_level && !here.contains(t.transform.n))
      here[t.transform.n] = ufp4::amax(ctx, x, t.transform).value;
  for (const auto& [n, value] : here) largest[n] = std::max(largest[n], value);
}

}  // namespace detail

inline measured_matrix measure_matrix(ufp4::interop::tensor_file& file, const file_entry& entry,
                                      const measure_plan& plan, const part_callback& told) {
  const ufp4::cpu::context ctx{.threads = plan.threads};
  detail::sampled_rows chunks(file, entry, plan);
  std::vector<detail::trial> trials = detail::trials_of(plan);
  measured_matrix m{chunks.rows(), chunks.of_rows(), chunks.cols(), {}, {}};
  detail::largest_values largest;
  const auto total = static_cast<double>(chunks.count() * (trials.size() + 1));
  double done = 0;
  const auto step = [&] { told(done++ / total); };

  for (std::uint64_t i = 0; i < chunks.count(); ++i) {
    step();
    const detail::row_view x = chunks.read(i);
    for (std::size_t r = 0; r < x.rows(); ++r)
      for (std::size_t k = 0; k < x.cols(); ++k) m.values.add(x(r, k));
    detail::raise(largest, trials, ctx, x);
  }
  for (std::uint64_t i = 0; i < chunks.count(); ++i) {
    const detail::row_view x = chunks.read(i);
    for (const detail::trial& t : trials) {
      step();
      t.sums->add(ctx, x, t.format.spec.two_level ? largest[t.transform.n] : 0.0f);
    }
  }
  for (const detail::trial& t : trials) m.outcomes.push_back({t.format, t.transform.n, t.sums->result()});
  return m;
}

}  // namespace tool
