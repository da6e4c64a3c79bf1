// ufp4 - fuzz target: block formats of a program's own through quantize, dequantize, fake_quantize, cast and GEMM.
// SPDX-License-Identifier: Apache-2.0
//
// Every tier gives the bits and the counts of the scalar one. What numerics.md promises of every format holds: a block
// of zeros decodes to zeros, a finite block to no NaN, what is beyond the values of a block's grid is counted; `fast`
// and `folded_bf16` stay within their bounds, with a matrix of float, bf16 or fp16 on the left too.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <ufp4/cast.hpp>
#include <ufp4/gemm.hpp>
#include <ufp4/quantize.hpp>

#include "input.hpp"
#include "policies.hpp"
#include "user_format.hpp"

namespace {

using namespace ufp4;
using fuzz::require;

cpu::context on(cpu::isa tier) { return {.threads = 1, .isa = tier}; }

/// Numbers around the magnitudes at which constants of a format overflow or vanish, numbers whose e8m0 scale for one of
/// its grids is in range, and any others.
std::vector<float> numbers(fuzz::input& in, std::size_t n, const format_spec& f) {
  const std::size_t kind = in.below(8);
  int exponent = static_cast<int>(in.below(290)) - 150;
  if (kind >= 6) {
    const int g = static_cast<int>(in.below(static_cast<std::size_t>(f.choice.count) + 1));
    const int most = std::ilogb(ufp4::detail::qmax_of(f, g)) + 128;
    exponent = std::min(128, most - static_cast<int>(in.below(in.one_in(2) ? 8 : 256)));
  }
  std::vector<float> x = in.numbers<float>(n);
  for (float& v : x) {
    if (kind == 0 || std::isnan(v)) continue;
    int own = 0;
    const float m = std::frexp(std::isinf(v) ? 1.0f : v, &own);
    const int near = kind == 1 ? 128 : kind == 2 ? -140 : exponent;
    v = std::ldexp(m, near - (own & (kind == 5 ? 63 : 7)));
    if (std::isinf(v)) v = std::copysign(ufp4::detail::max_finite, v);
  }
  if (kind == 4)
    for (std::size_t i = 0; i < n; ++i)
      if ((i / 64) % 2 == 0) x[i] = 0.0f;
  return x;
}

struct outcome {
  std::string rejected;
  any_quantized q;
  quantize_report report{};
};
outcome quantized(cpu::isa tier, const format_spec& f, const matrix_view<const float>& x, const transform_spec& t,
                  const rounding_spec& r, const scale_rule_spec& rule) {
  outcome o;
  o.rejected = fuzz::rejection([&] { o.q = quantize(f, x, t, r, rule, count_into{o.report}, on(tier)); });
  return o;
}
void require_same(const any_quantized& got, const any_quantized& want, const std::string& where) {
  require(fuzz::same_bytes(got.codes(), want.codes()), where + ": codes differ");
  require(fuzz::same_bytes(got.scale_bytes(), want.scale_bytes()), where + ": scales differ");
  require(got == want, where + ": tensor scales differ");
}

/// What holds of the decoded values y of finite numbers x without a transform.
void require_decoded(const std::vector<float>& x, const std::vector<float>& y, const format_spec& f, std::size_t rows,
                     std::size_t cols) {
  const auto height = static_cast<std::size_t>(f.block.rows), length = static_cast<std::size_t>(f.block.cols);
  for (std::size_t i = 0; i < rows; i += height)
    for (std::size_t k = 0; k < cols; k += length) {
      bool finite = true, zero = true, nan = false, zeros = true;
      for (std::size_t r = i; r < i + height && r < rows; ++r)
        for (std::size_t c = k; c < k + length && c < cols; ++c) {
          finite = finite && std::isfinite(x[r * cols + c]), zero = zero && x[r * cols + c] == 0.0f;
          nan = nan || std::isnan(y[r * cols + c]), zeros = zeros && y[r * cols + c] == 0.0f;
        }
      require(!finite || !nan, "a block of finite numbers decodes to a NaN");
      require(!zero || zeros, "a block of zeros does not decode to zeros");
    }
}

/// Elements of finite blocks that are clearly beyond the decoded values which their block can have were counted as
/// saturated, and those of blocks whose factor is limited. Other scales of subnormal size apart, for they are rounded.
void require_counted(const std::vector<float>& x, const any_quantized& q, std::uint64_t saturated) {
  const format_spec& f = q.spec();
  const ufp4::detail::quantized_source s = ufp4::detail::quantized_source_of(q);
  const std::size_t cols = q.cols();
  std::uint64_t beyond = 0;
  for (std::size_t n = 0; n < x.size() && !f.has_bytes(); ++n) {
    const std::size_t row = n / cols, k = n % cols, b = k / static_cast<std::size_t>(f.block.cols);
    const std::uint32_t bits = ufp4::detail::load_block(s.scales, f, s.scale_index(row, b));
    const float scale = cpu::detail::scale_at(s, row, b, q.tensor_scale());
    if (!(scale > 0) || !std::isfinite(x[n])) continue;  // a block with an Inf has a NaN as its scale
    const float own = ufp4::detail::decode_scale(f.scale, bits & ufp4::detail::scale_mask(f));
    const float factor = ufp4::detail::factor_of(f, ufp4::detail::grid_number(f, bits));
    if (f.two_level() && own * (f.has_outer_array() ? s.outer_scale(row, b) : q.tensor_scale()) <= 0x1p-128f) {
      beyond += std::fabs(x[n] * ufp4::detail::max_finite * (1.0f / factor)) > 0x1p-100f ? 1 : 0;
      continue;
    }
    if (scale < 0x1p-126f) continue;
    const long double unit = std::ldexp(static_cast<long double>(scale),
                                        ufp4::detail::exponent_of(f, bits, static_cast<int>(k) % f.block.cols));
    const long double t = static_cast<long double>(x[n]) / unit;
    const float(&value)[16] = ufp4::detail::nth_grid(f, ufp4::detail::grid_number(f, bits)).value;
    const auto [lowest, highest] = std::minmax_element(std::begin(value), std::end(value));
    const long double tiny = 0x1p-120L + 0x1p-149L / static_cast<long double>(factor);  // a quotient may be subnormal
    const auto is_beyond = [&](long double end) { return std::fabs(t - end) > std::fabs(end) * 0x1p-18L + tiny; };
    beyond += (t > *highest && is_beyond(*highest)) || (t < *lowest && is_beyond(*lowest)) ? 1 : 0;
  }
  require(beyond <= saturated, std::to_string(beyond) + " elements are beyond the grid of their block, and " +
                                   std::to_string(saturated) + " are counted as saturated");
}

/// Of equal values of a grid, the two zeros apart, the lowest code is used.
void require_lowest_codes(const any_quantized& q) {
  const format_spec& f = q.spec();
  const ufp4::detail::quantized_source s = ufp4::detail::quantized_source_of(q);
  for (std::size_t row = 0; row < q.rows() && !f.has_bytes(); ++row)
    for (std::size_t k = 0; k < s.padded_cols; ++k) {
      const std::size_t block = s.scale_index(row, k / static_cast<std::size_t>(f.block.cols));
      const int g = ufp4::detail::grid_number(f, ufp4::detail::load_block(s.scales, f, block));
      const float(&value)[16] = ufp4::detail::nth_grid(f, g).value;
      const std::uint8_t code = ufp4::detail::code_at(s.codes + s.code_index(row, 0), k);
      for (std::uint8_t lower = 0; lower < code; ++lower)
        require(std::memcmp(&value[lower], &value[code], sizeof(float)) != 0, "a value has not its lowest code");
    }
}

/// A number by itself gets the code that it has as a scaled value: between every two levels, and a float beside.
void require_conversions(const grid4& g) {
  for (int i = 0; i + 1 < g.levels; ++i) {
    const float middle = g.level[i] * 0.5f + g.level[i + 1] * 0.5f;
    for (const float end : {-INFINITY, middle, INFINITY}) {
      const float x = std::nextafter(middle, end);
      require(ufp4::detail::nearest_code(g, x) == ufp4::detail::round_to_grid(g, nearest_even{}, x, 0),
              "a number is not converted to the code that it has in a block");
    }
  }
}

std::vector<float> decoded(const any_quantized& q, cpu::isa tier) {
  std::vector<float> y(q.rows() * q.cols());
  dequantize(q, matrix_view<float>(y.data(), q.rows(), q.cols()), on(tier));
  return y;
}

/// A rule that applies to the format: its own only where no other one is drawn.
scale_rule_spec rule_of(fuzz::input& in, const format_spec& f) {
  scale_rule_spec rule{};
  for (int tries = 0; tries < 4 && rule == scale_rule_spec{}; ++tries) {
    scale_rule_spec other = fuzz::rule(in);
    if (f.choice.count != 0) other.grids = static_cast<search_error>(in.below(3));
    if (ufp4::detail::rule_mismatch(other, f) == nullptr) rule = other;
  }
  return rule;
}

/// quantize, its counts, dequantize and fake_quantize on every tier; the scalar result.
any_quantized check_quantize(fuzz::input& in, const format_spec& f, std::size_t rows, std::size_t cols,
                             const transform_spec& t) {
  rounding_spec rounding = fuzz::rounding(in);
  if (ufp4::detail::eden_mismatch(f, t) == nullptr && in.one_in(4)) rounding = eden{in.raw<std::uint64_t>(), in.byte()};
  const scale_rule_spec rule = rule_of(in, f);
  const std::vector<float> x = numbers(in, rows * cols, f);
  const matrix_view<const float> view(x.data(), rows, cols);
  outcome want = quantized(cpu::isa::scalar, f, view, t, rounding, rule);
  const std::string request = fuzz::description(f, rule);
  require(want.rejected.empty(), "a valid request was rejected: " + want.rejected + ", of " + request);
  const std::vector<float> y = decoded(want.q, cpu::isa::scalar);
  require_lowest_codes(want.q);
  if (t.n == 1) require_decoded(x, y, f, rows, cols);
  if (t.n == 1 && rounding.what != rounding_spec::kind::eden) require_counted(x, want.q, want.report.saturated);
  for (const cpu::isa tier : fuzz::tiers()) {
    const std::string where = cpu::name(tier) + (" of " + request);
    const outcome got = quantized(tier, f, view, t, rounding, rule);
    require_same(got.q, want.q, where);
    require(got.report == want.report, where + ": reports differ");
    require(support::same_numbers(decoded(want.q, tier), y), where + ": dequantize differs");
    std::vector<float> faked(rows * cols);
    fake_quantize(f, view, matrix_view<float>(faked.data(), rows, cols), t, rounding, rule, on(tier));
    require(support::same_numbers(faked, y), where + ": fake_quantize differs");
  }
  return std::move(want.q);
}

void check_cast(const any_quantized& q, const format_spec& to) {
  cast_report report;
  const any_quantized want = cast(q, to, report, on(cpu::isa::scalar));
  require_lowest_codes(want);
  for (const cpu::isa tier : fuzz::tiers()) {
    cast_report here;
    require_same(cast(q, to, here, on(tier)), want, std::string(cpu::name(tier)) + " cast");
    require(here.inexact_elements == report.inexact_elements, std::string(cpu::name(tier)) + ": cast reports differ");
  }
  if (q.transform().n != 1) return;  // padding has other values than zeros
  const std::vector<float> x = decoded(q, cpu::isa::scalar), y = decoded(want, cpu::isa::scalar);
  require_decoded(x, y, to, q.rows(), q.cols());
}

/// An operand without rounding: value times block scale, without the tensor scale; 1 for those of a plain matrix.
struct exact_operand {
  std::size_t rows, cols;  ///< padded
  long double tensor_scale;
  std::vector<long double> value, scale;
};
exact_operand exact(const any_quantized& q) {
  const format_spec& f = q.spec();
  const ufp4::detail::quantized_source s = ufp4::detail::quantized_source_of(q);
  exact_operand out{q.rows(), s.padded_cols, q.tensor_scale(), {}, {}};
  for (std::size_t n = 0; n < q.rows() * s.padded_cols; ++n) {
    const std::size_t row = n / s.padded_cols, k = n % s.padded_cols;
    const std::size_t b = k / static_cast<std::size_t>(f.block.cols);
    const std::uint32_t bits = ufp4::detail::load_block(s.scales, f, s.scale_index(row, b));
    const float value =
        ufp4::detail::element_value(f, bits, ufp4::detail::element_code(f, s.codes + s.code_index(row, 0), k));
    out.scale.push_back(cpu::detail::scale_at(s, row, b, 1.0f));
    out.value.push_back(std::ldexp(static_cast<long double>(value) * out.scale.back(),
                                   ufp4::detail::exponent_of(f, bits, static_cast<int>(k) % f.block.cols)));
  }
  return out;
}
template <class T>
exact_operand exact(const matrix<T>& x, std::size_t padded) {
  exact_operand out{x.rows(), padded, 1, {}, std::vector<long double>(x.rows() * padded, 1.0L)};
  for (std::size_t i = 0; i < x.rows(); ++i)
    for (std::size_t k = 0; k < padded; ++k)
      out.value.push_back(k < x.cols() ? static_cast<long double>(static_cast<float>(x(i, k))) : 0);
  return out;
}

/// |C - E| within the bound of the mode (numerics 6), where it holds.
void require_bound(const exact_operand& a, const exact_operand& b, const std::vector<float>& c, float alpha,
                   accumulate mode, bool plain, const std::string& where) {
  const bool folded = mode == accumulate::folded_bf16;
  const long double scales = std::fabs(alpha * a.tensor_scale * b.tensor_scale);
  const auto kp = static_cast<long double>(a.cols);
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < b.rows; ++j) {
      long double e = 0, sum = 0, lost = 0;
      bool applies = true;
      for (std::size_t k = 0; k < a.cols; ++k) {
        const long double left = a.value[i * a.cols + k], right = b.value[j * b.cols + k];
        e += left * right, sum += std::fabs(left * right);
        if (plain) lost += std::fabs(b.scale[j * b.cols + k]) * 0x1p-149L;
        for (const long double v : {left, right}) applies = applies && (!folded || v == 0 || std::fabs(v) >= 0x1p-126L);
      }
      e *= alpha * a.tensor_scale * b.tensor_scale, sum *= scales;
      if (!applies || !(sum < ufp4::detail::max_finite / 2)) continue;
      long double allowed = (kp + 6) * 0x1p-24L * sum + scales * (kp * 0x1p-126L + lost);
      if (folded) allowed += (0x1p-7L + 0x1p-16L) * sum;
      allowed += std::fmax((std::fabs(e) + allowed) * 0x1p-24L, 0x1p-150L);
      const long double error = std::fabs(c[i * b.rows + j] - e);
      require(error <= allowed, where + ": error " + std::to_string(static_cast<double>(error / allowed)) +
                                    " times the bound, element " + std::to_string(i) + ", " + std::to_string(j));
    }
}

/// Products of a side that `left` describes with b, prepacked and not, on every tier.
template <class A>
void check_products(fuzz::input& in, const A& a, const exact_operand& left, const any_quantized& b, bool plain) {
  constexpr float alphas[] = {1.0f, 1.0f, -0.5f, 0x1p100f, 0x1p-100f, 3.1415927f};
  const float alpha = alphas[in.below(6)];
  const exact_operand right = exact(b);
  const auto product = [&](cpu::isa tier, accumulate mode, bool packed) {
    std::vector<float> c(left.rows * b.rows());
    const matrix_view<float> out(c.data(), left.rows, b.rows());
    const gemm_options options{.alpha = alpha, .accumulate = mode};
    if (packed)
      quantized_gemm(a, prepack(b), out, options, on(tier));
    else
      quantized_gemm(a, b, out, options, on(tier));
    return c;
  };
  const std::vector<float> want = product(cpu::isa::scalar, accumulate::exact_blocks, false);
  for (const cpu::isa tier : fuzz::tiers())
    for (const bool packed : {false, true}) {
      if (packed && b.spec().has_bytes()) continue;
      const std::string where =
          std::string(cpu::name(tier)) + (plain ? ", unquantized" : "") + (packed ? ", prepacked, " : ", ");
      require(support::same_numbers(product(tier, accumulate::exact_blocks, packed), want),
              where + "exact_blocks differs");
      for (const accumulate mode : {accumulate::fast, accumulate::folded_bf16})
        if (!plain || mode == accumulate::fast)
          require_bound(left, right, product(tier, mode, packed), alpha, mode, plain, where + ufp4::detail::name(mode));
    }
}

/// With a matrix of T on the left.
template <class T>
void check_plain(fuzz::input& in, const any_quantized& b, std::size_t cols) {
  const std::size_t rows = 1 + in.below(4);
  const std::vector<float> x = numbers(in, rows * cols, b.spec());
  matrix<T> a(rows, cols);
  for (std::size_t n = 0; n < rows * cols; ++n) {
    a.data()[n] = T(x[n]);
    if (!std::isfinite(static_cast<float>(a.data()[n]))) a.data()[n] = T(1.0f);
  }
  check_products(in, a, exact(a, b.padded_cols()), b, true);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  const fuzz::user_format left = fuzz::any_format(in);
  const bool same_height = in.one_in(2);
  const fuzz::user_format right =
      fuzz::any_format(in, same_height ? left.spec.block.rows : 0, in.one_in(2) ? left.spec.block.cols : 0);
  if (ufp4::detail::format_mismatch(left.spec) != nullptr || ufp4::detail::format_mismatch(right.spec) != nullptr)
    return 0;
  for (int g = 0; g <= left.spec.choice.count; ++g) require_conversions(ufp4::detail::nth_grid(left.spec, g));
  constexpr std::uint32_t lengths[] = {1, 1, 1, 1, 1, 16, 64, 256};
  const transform_spec t{.n = lengths[in.below(8)], .signs = {0x1234567u}};
  const std::size_t rows = 1 + in.below(5), cols = in.below(in.one_in(8) ? 600 : 140);
  const any_quantized a = check_quantize(in, left.spec, rows, cols, t);
  if (same_height && !left.spec.has_bytes() && !right.spec.has_bytes()) check_cast(a, right.spec);
  const any_quantized b = check_quantize(in, right.spec, 1 + in.below(in.one_in(4) ? 40 : 4), cols, t);
  if (left.spec.block.cols == right.spec.block.cols) check_products(in, a, exact(a), b, false);
  if (t.n == 1) fuzz::with_one_of<float, bf16, fp16>(in, [&]<class T> { check_plain<T>(in, b, cols); });
  return 0;
}
