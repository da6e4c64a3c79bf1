// ufp4 - the experiment: one matrix in every preset, with and without a Hadamard transform, multiplied with itself.
// SPDX-License-Identifier: Apache-2.0
/// Everything is compared with the binary32 matrix X and its product X X^T, accumulated in binary64:
///
/// | sqnr_db, attenuation, utilization | numerics section 8, of the input of quantization (after the transform)    |
/// | product_error                     | Frobenius norm of the difference of the products over that of the exact one |
/// | neighbours_kept                   | documents whose best match by cosine is still a best match                |
/// | bytes                             | codes, block scales and tensor scale, as stored                           |
/// | quantize_ms, gemm_ms              | wall time on this machine; the only fields that change from run to run    |
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <ufp4/ufp4.hpp>
#include <utility>
#include <vector>

#include "../ufp4/format_list.hpp"
#include "../ufp4/random_transform.hpp"
#include "../ufp4/scale_rule_options.hpp"
#include "matrix.hpp"

namespace compare {

/// A preset in the reports. Presets of one family differ in the element only.
struct preset {
  std::string_view name;
  std::string_view element;  ///< "E2M1", "E1M2", "int4", "fp8_e4m3", "2 grids"
  std::string scale;         ///< the family: "binary32", "E4M3 + tensor", "E8M0"
  std::size_t block = 0;
  bool uniform = false;            ///< evenly spaced values: E1M2 and integers
  bool has_one_grid = true;        ///< an element is one of 16 values times its scale
  std::array<float, 16> values{};  ///< by code, if has_one_grid
};

struct outcome {
  preset format;
  std::size_t hadamard = 0;  ///< length of the transform, 0 for none
  double sqnr_db = 0;
  double attenuation = 0;
  double utilization = 0;
  double underflow_rate = 0;                  ///< share of blocks whose scale became 0
  double saturation_rate = 0;                 ///< share of elements rounded from beyond the largest value
  std::array<std::uint64_t, 16> histogram{};  ///< by code
  double product_error = 0;
  std::size_t neighbours_kept = 0;
  std::size_t bytes = 0;
  double bits_per_element = 0;
  double quantize_ms = 0;
  double gemm_ms = 0;
};

struct settings {
  int threads = 0;         ///< 0: all cores
  std::uint64_t seed = 0;  ///< of the transform's signs
  std::vector<std::string> formats = tool::formats_in_list("base");
  tool::scale_choice scales{};  ///< --rule, --search
};

struct comparison {
  std::string source;
  std::size_t rows = 0;
  std::size_t cols = 0;
  settings with;
  double rms = 0;
  double amax = 0;             ///< largest magnitude
  double zeros = 0;            ///< share of the elements
  std::size_t neighbours = 0;  ///< documents that have a nearest neighbour at all
  std::size_t binary32_bytes = 0;
  std::vector<outcome> outcomes;  ///< the plain one, then the transformed one, of each preset in turn

  double kept_share(const outcome& o) const {
    return neighbours == 0 ? std::numeric_limits<double>::quiet_NaN()
                           : static_cast<double>(o.neighbours_kept) / static_cast<double>(neighbours);
  }
};

/// Called before each step with its number, the number of steps and a description.
using progress_callback = std::function<void(std::size_t, std::size_t, const std::string&)>;

namespace detail {

/// The exact product, its norm and nearest neighbours.
class reference {
 public:
  explicit reference(const matrix& x) : size_(x.rows), product_(x.rows * x.rows), length_(x.rows), nearest_(x.rows) {
    for (std::size_t i = 0; i < size_; ++i)
      for (std::size_t j = 0; j <= i; ++j) product_[i * size_ + j] = product_[j * size_ + i] = dot(x, i, j);
    for (const double c : product_) norm_ += c * c;
    norm_ = std::sqrt(norm_);
    for (std::size_t i = 0; i < size_; ++i) length_[i] = std::sqrt(product_[i * size_ + i]);
    for (std::size_t i = 0; i < size_; ++i) nearest_[i] = nearest(product_, i);
  }

  /// Relative Frobenius error of `got`, row-major.
  double error_of(const std::vector<float>& got) const {
    double sum = 0;
    for (std::size_t i = 0; i < product_.size(); ++i) {
      const double d = static_cast<double>(got[i]) - product_[i];
      sum += d * d;
    }
    return std::sqrt(sum) / norm_;
  }

  /// Documents with a nearest neighbour: those of some length, where another such document exists.
  std::size_t neighbours() const {
    const auto usable =
        static_cast<std::size_t>(std::count_if(length_.begin(), length_.end(), [](double l) { return l > 0; }));
    return usable > 1 ? usable : 0;
  }

  /// How many of them have a nearest neighbour in `got` that is also nearest in the exact product; equal cosines count.
  std::size_t kept_by(const std::vector<float>& got) const {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      const std::size_t best = nearest_[i], chosen = nearest(got, i);
      if (best == size_ || chosen == size_) continue;
      const double target = cosine(product_, i, best);
      kept += cosine(product_, i, chosen) >= target - 1e-7 * std::abs(target);
    }
    return kept;
  }

 private:
  static double dot(const matrix& x, std::size_t i, std::size_t j) {
    const float *a = x.values.data() + i * x.cols, *b = x.values.data() + j * x.cols;
    std::array<double, 8> sums{};  // independent: the loop can be vectorized
    std::size_t k = 0;
    for (; k + 8 <= x.cols; k += 8)
      for (std::size_t lane = 0; lane < 8; ++lane)
        sums[lane] += static_cast<double>(a[k + lane]) * static_cast<double>(b[k + lane]);
    double sum = 0;
    for (; k < x.cols; ++k) sum += static_cast<double>(a[k]) * static_cast<double>(b[k]);
    for (const double s : sums) sum += s;
    return sum;
  }

  /// The cosine multiplied by the length of document i, a constant within its row. Lengths are those of the binary32
  /// matrix: a search stores them beside the codes.
  template <class T>
  double cosine(const std::vector<T>& product, std::size_t i, std::size_t j) const {
    return static_cast<double>(product[i * size_ + j]) / length_[j];
  }

  /// The other document with the largest cosine, the first among equals; size_ where there is none.
  template <class T>
  std::size_t nearest(const std::vector<T>& product, std::size_t i) const {
    std::size_t best = size_;
    double highest = -std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; length_[i] > 0 && j < size_; ++j) {
      if (j == i || length_[j] == 0) continue;
      const double here = cosine(product, i, j);
      if (!(here > highest)) continue;
      highest = here;
      best = j;
    }
    return best;
  }

  std::size_t size_;
  std::vector<double> product_;
  std::vector<double> length_;
  std::vector<std::size_t> nearest_;
  double norm_ = 0;
};

/// Milliseconds of the fastest of `times` calls.
template <class Call>
double fastest_ms(int times, Call call) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

/// Runs the presets on one matrix, one after the other.
class bench {
 public:
  bench(const matrix& x, const settings& with, comparison& result, progress_callback progress)
      : x_(x), view_{x.values.data(), x.rows, x.cols}, with_(with), result_(result), progress_(std::move(progress)) {
    progress_(++step_, steps(), "binary32: the exact product");
    reference_ = std::make_unique<reference>(x);
    result_.neighbours = reference_->neighbours();
    product_.resize(x.rows * x.rows);
  }

  /// Without and with a transform of one block: it spreads each value over the elements that share its scale.
  void run(const tool::format_facts& facts) {
    preset format{facts.name, short_name(facts), scale_name(facts.spec), 0, facts.uniform(), facts.has_one_grid(), {}};
    format.block = static_cast<std::size_t>(facts.spec.block.cols);
    if (format.has_one_grid)
      std::copy(std::begin(facts.spec.grid.value), std::end(facts.spec.grid.value), format.values.begin());
    measure(format, facts.spec, 0);
    measure(format, facts.spec, format.block);
  }

 private:
  /// The exact product, and every format twice.
  std::size_t steps() const { return 1 + 2 * with_.formats.size(); }

  /// "E2M1" for "fp4<E2M1>", "2 grids" for blocks that choose one of two.
  static std::string_view short_name(const tool::format_facts& facts) {
    constexpr std::array<std::string_view, 5> several{"", "", "2 grids", "3 grids", "4 grids"};
    if (facts.grids() > 1) return several[static_cast<std::size_t>(facts.grids())];
    const std::string_view element = facts.element;
    constexpr std::string_view begin = "fp4<";
    return element.starts_with(begin) ? element.substr(begin.size(), element.size() - begin.size() - 1) : element;
  }
  static std::string scale_name(const ufp4::format_spec& format) {
    constexpr std::array<const char*, 6> names{"binary32", "bfloat16", "E4M3", "UE5M3", "E8M0", "E6M2"};
    const std::string outer = format.has_tensor_scale()   ? " + tensor"
                              : !format.has_outer_array() ? ""
                              : format.outer.segment == 0 ? " + row"
                                                          : " + " + std::to_string(format.outer.segment) + " columns";
    return names[static_cast<std::size_t>(format.scale)] + outer;
  }

  /// hadamard: length of the transform, 0 for none.
  void measure(const preset& format, const ufp4::format_spec& spec, std::size_t hadamard) {
    progress_(++step_, steps(), std::string(format.name) + (hadamard == 0 ? "" : " + RHT"));
    outcome o{.format = format, .hadamard = hadamard};

    const ufp4::cpu::context context{.threads = with_.threads};
    const ufp4::transform_spec transform = tool::random_transform(hadamard, with_.seed);
    const auto report = ufp4::analysis::measure(spec, view_, transform, with_.scales.rule, context);
    o.sqnr_db = report.sqnr_db;
    o.attenuation = report.attenuation;
    o.utilization = report.bucket_utilization;
    o.underflow_rate = report.scale_underflow_rate;
    o.saturation_rate = report.saturation_rate;
    o.histogram = report.histogram;

    const ufp4::any_quantized q = ufp4::quantize(spec, view_, transform, with_.scales.rule, context);
    o.quantize_ms = fastest_ms(3, [&] { (void)ufp4::quantize(spec, view_, transform, with_.scales.rule, context); });
    o.gemm_ms = fastest_ms(
        1, [&] { ufp4::quantized_gemm(q, q, ufp4::matrix_view<float>{product_.data(), x_.rows, x_.rows}, context); });
    o.product_error = reference_->error_of(product_);
    o.neighbours_kept = reference_->kept_by(product_);
    o.bytes = q.codes().size() + q.scale_bytes().size() + (spec.has_tensor_scale() ? 4 : 0);
    o.bits_per_element = 8.0 * static_cast<double>(o.bytes) / static_cast<double>(x_.values.size());
    result_.outcomes.push_back(o);
  }

  const matrix& x_;
  ufp4::matrix_view<const float> view_;
  settings with_;
  comparison& result_;
  progress_callback progress_;
  std::size_t step_ = 0;
  std::unique_ptr<reference> reference_;
  std::vector<float> product_;
};

}  // namespace detail

inline comparison run_comparison(const matrix& x, const settings& with, const progress_callback& progress) {
  comparison result;
  result.source = x.source;
  result.rows = x.rows;
  result.cols = x.cols;
  result.with = with;
  result.binary32_bytes = x.values.size() * sizeof(float);
  double squares = 0;
  for (const float v : x.values) {
    squares += static_cast<double>(v) * static_cast<double>(v);
    result.amax = std::max(result.amax, std::abs(static_cast<double>(v)));
    result.zeros += v == 0;
  }
  result.rms = std::sqrt(squares / static_cast<double>(x.values.size()));
  result.zeros /= static_cast<double>(x.values.size());

  detail::bench bench(x, with, result, progress);
  for (const std::string& format : with.formats) bench.run(tool::format_named(format));
  return result;
}

}  // namespace compare
