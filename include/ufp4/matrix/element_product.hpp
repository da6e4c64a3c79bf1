// ufp4 - one element of a product, block by block, where a kernel's sum has left the range of binary32.
// SPDX-License-Identifier: Apache-2.0
//
// Kernels add up in binary32, where an intermediate value (a dot product, a product of two scales, a partial sum) can
// overflow although the result does not. A sum that overflowed is infinite or NaN at the end, whatever is added later.
// So a kernel, when it stores its sums, computes those that are not finite again with this class.
//
// | exact_blocks      | numerics 6: acc = fma(d, fl(sA * sB), acc); d = 0 adds +0 even if fl(sA * sB) is not finite |
// | fast, folded_bf16 | the same acc where it is finite, else a sum in binary64, where no five factors overflow;    |
// |                   | that sum for grids with extreme values, whose acc may have lost products (needs_binary64)    |
// | NaN               | from a NaN scale, whatever the codes; in the fast modes also from an infinite one times 0   |
//
// For host and device code alike. The caller reads codes and scales, and adds bias and beta * C to the result.
#pragma once

#include <ufp4/detail/bits.hpp>
#include <ufp4/matrix/accumulate.hpp>

namespace ufp4::detail::inline UFP4_CODE {

UFP4_HD inline double factors(float alpha, float tensor_scale_a, float tensor_scale_b) {
  return static_cast<double>(alpha) * static_cast<double>(tensor_scale_a) * static_cast<double>(tensor_scale_b);
}

/// A finite sum times alpha and the tensor scales of the caller's A and B: fl(fl(acc * TA) * fl(alpha * TB)). In the
/// fast modes, whose bound holds for every tensor scale, rounded once where one of the two factors is not normal.
UFP4_HD inline float scaled_sum(accumulate mode, float acc, float alpha, float tensor_scale_a, float tensor_scale_b) {
  constexpr std::uint32_t least = 0x00800000u, span = infinity_bits - least;  // the normal numbers
  const float left = product(acc, tensor_scale_a), right = product(alpha, tensor_scale_b);
  const bool normal = magnitude_bits(left) - least < span && magnitude_bits(right) - least < span;
  if (normal || mode == accumulate::exact_blocks) return product(left, right);
  return static_cast<float>(static_cast<double>(acc) * factors(alpha, tensor_scale_a, tensor_scale_b));
}

class element_product {
 public:
  /// exact_grids: both operands are quantized to grids with exact_products. in_binary64: acc is not used.
  UFP4_HD element_product(accumulate mode, bool exact_grids, bool in_binary64)
      : mode_(mode), exact_grids_(exact_grids), in_binary64_(in_binary64) {}

  /// Adds the next block. a(k), b(k), k < length: elements without their block scales; an unquantized operand's scale
  /// is 1.
  template <class A, class B>
  UFP4_HD void add_block(float scale_a, float scale_b, std::uint32_t length, const A& a, const B& b) {
    if (is_nan(scale_a) || is_nan(scale_b)) {
      acc_ = to_float(0x7FC00000u);
      sum_ = static_cast<double>(acc_);
      return;
    }
    const float d = exact_grids_ ? dot(length, a, b) : chain(length, a, b), t = product(scale_a, scale_b);
    acc_ = fma(d, magnitude_bits(d) == 0 && !is_finite(t) ? 0.0f : t, acc_);
    if (mode_ == accumulate::exact_blocks) return;
    const auto left = static_cast<double>(scale_a), right = static_cast<double>(scale_b);
    for (std::uint32_t k = 0; k < length; ++k)
      sum_ += static_cast<double>(a(k)) * left * (static_cast<double>(b(k)) * right);
  }

  /// True when no further block can change the result.
  UFP4_HD bool is_nan_already() const { return mode_ == accumulate::exact_blocks ? is_nan(acc_) : sum_ != sum_; }

  /// The sum times alpha and the tensor scales of the caller's A and B, as numerics 6 rounds it.
  UFP4_HD float scaled(float alpha, float tensor_scale_a, float tensor_scale_b) const {
    if (mode_ == accumulate::exact_blocks || (!in_binary64_ && is_finite(acc_) && sum_ == sum_))
      return scaled_sum(mode_, acc_, alpha, tensor_scale_a, tensor_scale_b);
    return static_cast<float>(sum_ * factors(alpha, tensor_scale_a, tensor_scale_b));
  }

 private:
  /// Of grids with exact products, whose products are small integers times a power of two: exact.
  template <class A, class B>
  UFP4_HD static float dot(std::uint32_t length, const A& a, const B& b) {
    double d = 0;
    for (std::uint32_t k = 0; k < length; ++k) d += static_cast<double>(a(k)) * static_cast<double>(b(k));
    return static_cast<float>(d);
  }
  template <class A, class B>
  UFP4_HD static float chain(std::uint32_t length, const A& a, const B& b) {
    float d = 0;
    for (std::uint32_t k = 0; k < length; ++k) d = fma(a(k), b(k), d);
    return d;
  }

  accumulate mode_;
  bool exact_grids_, in_binary64_;
  float acc_ = 0;
  double sum_ = 0;
};

}  // namespace ufp4::detail::inline UFP4_CODE
