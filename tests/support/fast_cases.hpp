// ufp4 - inputs of the tests of fast and folded_bf16 products on every backend, and the error bound of section 6.
// SPDX-License-Identifier: Apache-2.0
/// Each function makes operands and calls check(a, b, options), which multiplies them and compares with a
/// product_bound:
///
///   support::underflowing_products([&](const auto& a, const auto& b, const gemm_options& options) { ... });
#pragma once

#include <cfloat>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/gemm_model.hpp"
#include "support/seed.hpp"

namespace support {

#if !defined(UFP4_DEVICE_CODE)  // not in a compilation for a device
static_assert(LDBL_MANT_DIG >= 64, "the bounds are checked in a type of at least 64 bits");
#endif

/// |C - E| <= (folding + (Kp + 6) 2^-24) |alpha| sum|a||b| + (Kp + 6) 2^-24 |beta C| + |alpha| TA TB Kp 2^-126 +
/// 2^-150 for step 5 and, if beta is not 0, for step 7
/// (numerics 6) where the sum of magnitudes is below FLT_MAX / 2; NaN where a block scale is NaN.
class product_bound {
 public:
  template <class A, class B>
  product_bound(const ufp4::quantized_matrix<A>& a, const ufp4::quantized_matrix<B>& b)
      : padded_(static_cast<long double>(a.padded_cols())), folding_(folding_of<A>() + folding_of<B>()) {
    const model::side left = model::side_of(a), right = model::side_of(b);
    tensors_ = static_cast<long double>(left.tensor) * static_cast<long double>(right.tensor);
    exact_ = model::extended(left, right);
  }

  /// "", or the first element of C outside the bound, with its error. `old`: C before the call, read if beta is not 0.
  std::string broken_by(std::span<const float> c, const ufp4::gemm_options& options, std::span<const float> old) const {
    const auto alpha = static_cast<long double>(options.alpha), beta = static_cast<long double>(options.beta);
    const long double relative = (padded_ + 6) * 0x1p-24L;
    const long double folding = options.accumulate == ufp4::accumulate::folded_bf16 ? folding_ : 0;
    for (std::size_t i = 0; i < exact_.value.size(); ++i) {
      const long double added = beta == 0 ? 0 : beta * static_cast<long double>(old[i]);
      const long double magnitude = std::abs(alpha) * exact_.magnitude[i];
      if (std::isnan(exact_.value[i]) && std::isnan(c[i])) continue;
      if (!std::isnan(exact_.value[i]) && magnitude + std::abs(added) >= FLT_MAX / 2) continue;
      const long double error = std::abs(static_cast<long double>(c[i]) - (alpha * exact_.value[i] + added));
      const long double bound = relative * (magnitude + std::abs(added)) + folding * magnitude +
                                std::abs(alpha) * tensors_ * padded_ * 0x1p-126L + (beta == 0 ? 1 : 2) * 0x1p-150L;
      if (!(error <= bound))
        return "element " + std::to_string(i) + " is " + std::to_string(c[i]) + ", off by " + std::to_string(error) +
               " where " + std::to_string(bound) + " is allowed";
    }
    return c.size() == exact_.value.size() ? "" : "sizes differ";
  }

 private:
  /// The error of rounding to bf16 for a side whose value * scale has more than bf16's eight bits: half a step of 2^-7.
  template <class F>
  static constexpr long double folding_of() {
    using scale = typename F::scale_type;
    const bool fits = !std::is_same_v<scale, float> && !std::is_same_v<scale, ufp4::bf16> &&
                      F::element_type::exact_products && (!F::has_bytes || std::is_same_v<scale, ufp4::e8m0>);
    return fits ? 0.0L : 0x1p-8L;
  }

  long double padded_ = 0, folding_ = 0, tensors_ = 1;
  model::bounded exact_;
};

template <class A, class B>
struct quantized_pair {
  ufp4::quantized_matrix<A> a;
  ufp4::quantized_matrix<B> b;
};
template <class A, class B>
quantized_pair<A, B> random_pair(std::mt19937_64& gen, std::size_t m, std::size_t n, std::size_t k) {
  auto a = model::random_quantized<A>(gen, m, k);
  return {std::move(a), model::random_quantized<B>(gen, n, k)};
}

/// C before the call, for beta other than 0.
inline std::vector<float> old_values(std::size_t n) {
  std::vector<float> c(n);
  for (std::size_t i = 0; i < n; ++i) c[i] = static_cast<float>(i % 101) - 50.0f;
  return c;
}

/// Every code of 8-bit scales that is a number, between tensor scales far apart.
template <class Check>
void every_scale(std::initializer_list<std::size_t> lengths, Check check) {
  INFO(seed_note());
  std::mt19937_64 gen{seed(1)};
  using ufp4::block_format, ufp4::fp4, ufp4::E2M1, ufp4::ue5m3;
  for (const std::size_t k : lengths) {
    check(model::random_quantized<ufp4::nvfp4>(gen, 20, k, model::scales::hostile, 0x1p-30f),
          model::random_quantized<ufp4::nv_e1m2>(gen, 21, k, model::scales::hostile, 0x1p+20f), ufp4::gemm_options{});
    check(model::random_quantized<block_format<fp4<E2M1>, ue5m3, 16>>(gen, 20, k, model::scales::hostile),
          model::random_quantized<block_format<ufp4::int4, ue5m3, 16>>(gen, 21, k, model::scales::hostile),
          ufp4::gemm_options{});
  }
}

/// value * scale is subnormal on one side, or beyond binary32 on the other. Binary32 scales: in the mode given.
template <class Check>
void operands_beyond_bf16(ufp4::accumulate mode_of_floats, Check check) {
  INFO(seed_note());
  std::mt19937_64 gen{seed(2)};
  auto a = model::random_quantized<ufp4::mxfp4>(gen, 9, 96);
  auto b = model::random_quantized<ufp4::mxint4>(gen, 10, 96);
  const auto code = [&](unsigned least, unsigned count) {
    return ufp4::e8m0::from_bits(static_cast<std::uint8_t>(least + gen() % count));
  };
  for (auto& s : a.scales()) s = code(0, 3);    // 2^-127 .. 2^-125
  for (auto& s : b.scales()) s = code(247, 3);  // 2^120 .. 2^122
  check(a, b, ufp4::gemm_options{});
  for (auto& s : a.scales()) s = code(20, 3);
  for (auto& s : b.scales()) s = code(253, 2);  // 7 * 2^127
  check(a, b, ufp4::gemm_options{});
  auto c = model::random_quantized<ufp4::e1m2_f32>(gen, 9, 96);
  auto d = model::random_quantized<ufp4::int4_f32>(gen, 10, 96);
  for (float& s : c.scales()) s = model::float_of(1 + static_cast<std::uint32_t>(gen() % 20));
  for (float& s : d.scales()) s = 0x1p+121f * static_cast<float>(1 + gen() % 3);
  check(c, d, ufp4::gemm_options{.accumulate = mode_of_floats});
}

/// A tensor scale or alpha that leaves the range of binary32 unless it is combined with the others.
template <class Check>
void factors_far_apart(Check check) {
  INFO(seed_note());
  std::mt19937_64 gen{seed(6)};
  struct factors {
    float left, right, alpha;
  };
  for (const factors& f : {factors{0x1p-128f, 0x1.3p+100f, 1}, factors{0x1.7p+99f, 0x1p-128f, 0x1.1p-10f},
                           factors{0x1.1p-100f, 0x1.8p+90f, 0x1p+60f}, factors{0x1p-60f, 0x1p-60f, 0x1p+127f}}) {
    auto a = model::random_quantized<ufp4::nvfp4>(gen, 9, 64, model::scales::ordinary, f.left);
    auto b = model::random_quantized<ufp4::nv_e1m2>(gen, 10, 64, model::scales::ordinary, f.right);
    for (auto& s : a.scales()) s = ufp4::e4m3::from_bits(1);  // 2^-9
    for (auto& s : b.scales()) s = ufp4::e4m3::from_bits(1);
    check(a, b, ufp4::gemm_options{.alpha = f.alpha});
  }
}

/// Products near the smallest subnormal number.
template <class Check>
void underflowing_products(Check check) {
  INFO(seed_note());
  std::mt19937_64 gen{seed(3)};
  auto a = model::random_quantized<ufp4::mxfp4>(gen, 9, 96), b = model::random_quantized<ufp4::mxfp4>(gen, 10, 96);
  for (auto& s : a.scales()) s = ufp4::e8m0::from_bits(static_cast<std::uint8_t>(50 + gen() % 20));
  for (auto& s : b.scales()) s = ufp4::e8m0::from_bits(static_cast<std::uint8_t>(50 + gen() % 20));
  check(a, b, ufp4::gemm_options{});
}

/// Small integers times scales of 1, 2 or 4 (of 1 if the values have a wide range): every partial sum is below 2^24
/// units, so sums in any order have the bits of exact_blocks: check(a, b, options, bits). Binary32 scales with
/// folded_bf16.
template <class Check>
void exact_sums(std::initializer_list<std::size_t> lengths, Check check) {
  INFO(seed_note());
  std::mt19937_64 gen{seed(4)};
  const auto with = [&]<class A, class B>(quantized_pair<A, B> p, unsigned powers, ufp4::accumulate mode) {
    const auto scale = [&] { return static_cast<float>(1u << gen() % powers); };
    for (auto& s : p.a.scales()) s = typename A::scale_type(scale());
    for (auto& s : p.b.scales()) s = typename B::scale_type(scale());
    check(p.a, p.b, ufp4::gemm_options{.alpha = -2.5f, .accumulate = mode},
          model::exact_blocks(model::side_of(p.a), model::side_of(p.b), -2.5f));
  };
  using ufp4::accumulate;
  for (const std::size_t k : lengths) {
    with(random_pair<ufp4::nvfp4, ufp4::nvint4>(gen, 70, 66, k), 3, accumulate::fast);
    with(random_pair<ufp4::mxfp4, ufp4::mx_e1m2>(gen, 66, 7, k), 3, accumulate::fast);
    with(random_pair<ufp4::e1m2_f32, ufp4::e2m1_f32>(gen, 3, 130, k), 3, accumulate::folded_bf16);
    with(random_pair<ufp4::block_format<ufp4::fp4<ufp4::E3M0>, float, 16>, ufp4::int4_f32>(gen, 5, 5, k), 1,
         accumulate::folded_bf16);
  }
}

/// K = 0: C is beta times its value before the call, or +0.
template <class Check>
void empty_sums(Check check) {
  const ufp4::quantized_matrix<ufp4::nvfp4> a(3, 0), b(18, 0);
  check(a, b, ufp4::gemm_options{.alpha = -1, .beta = 3});
  check(a, b, ufp4::gemm_options{.alpha = -1});
}

/// A product that shows whether value * scale was rounded: 3 * (1 + 2^-7) needs 9 bits, and bf16 has 8:
/// a tie, rounded to even.
struct ninth_bit {
  static constexpr float kept = 3 * 0x1.02p0f, rounded = 0x1.84p1f;
  ufp4::quantized_matrix<ufp4::int4_f32> a{1, 16}, b{1, 16};

  ninth_bit() {
    for (auto* q : {&a, &b}) {
      for (auto& byte : q->codes()) byte = 0;
      for (float& s : q->scales()) s = 1;
    }
    a.codes()[0] = 3;
    a.scales()[0] = 0x1.02p0f;
    b.codes()[0] = 1;
  }
};

}  // namespace support
