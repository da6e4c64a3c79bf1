// ufp4 - one element of a product, block by block, where a kernel's sum has left the range of binary32.
// SPDX-License-Identifier: Apache-2.0
//
// Kernels add up in binary32, where an intermediate value (a dot product, a product of two scales, a partial sum) can
// overflow although the result does not. A sum that overflowed is infinite or NaN at the end, whatever is added later.
// So a kernel looks for sums that are not finite when it stores them, and computes those elements again with this class.
//
// | exact_blocks        | the bits of numerics 6: acc = fma(d, fl(sA * sB), acc), where a block with d = 0 contributes   |
// |                     | +0 also if the product of its scales is not finite                                            |
// | fast, folded_bf16   | a sum in binary64, which no product of five binary32 numbers leaves; rounded once, at the end |
// | NaN                 | a block scale of NaN makes the element NaN, whatever the codes of the block are               |
//
// For host and device code alike. The caller reads codes and scales, and adds bias and beta * C to the result.
#pragma once

#include <cstdint>
#include <ufp4/detail/bits.hpp>
#include <ufp4/matrix/accumulate.hpp>

namespace ufp4::detail::inline UFP4_CODE {

class element_product {
 public:
  /// exact_grids: both operands are quantized to grids with exact_products.
  UFP4_HD element_product(accumulate mode, bool exact_grids)
      : in_blocks_(mode == accumulate::exact_blocks), exact_grids_(exact_grids) {}

  /// Adds the next block. a(k), b(k) for k < length: the elements without their block scales; the scale of an operand
  /// that is not quantized is 1.
  template <class A, class B>
  UFP4_HD void add_block(float scale_a, float scale_b, std::uint32_t length, const A& a, const B& b) {
    if (is_nan(scale_a) || is_nan(scale_b)) {
      acc_ = to_float(0x7FC00000u);
      sum_ = static_cast<double>(acc_);
    } else if (in_blocks_) {
      const float d = exact_grids_ ? static_cast<float>(dot(length, a, b)) : chain(length, a, b);
      const float t = product(scale_a, scale_b);
      acc_ = fma(d, magnitude_bits(d) == 0 && !is_finite(t) ? 0.0f : t, acc_);
    } else if (const double d = dot(length, a, b); d != 0) {
      sum_ += d * (static_cast<double>(scale_a) * static_cast<double>(scale_b));
    }
  }

  /// True when no further block can change the result.
  UFP4_HD bool is_nan_already() const { return in_blocks_ ? is_nan(acc_) : sum_ != sum_; }

  /// The sum times alpha and the tensor scales of the caller's A and B, as numerics 6 rounds it.
  UFP4_HD float scaled(float alpha, float tensor_scale_a, float tensor_scale_b) const {
    if (in_blocks_) return product(product(acc_, tensor_scale_a), product(alpha, tensor_scale_b));
    return static_cast<float>(sum_ * (static_cast<double>(alpha) * static_cast<double>(tensor_scale_a) *
                                      static_cast<double>(tensor_scale_b)));
  }

 private:
  /// Exact for grids with exact products: the products are integers times a power of two.
  template <class A, class B>
  UFP4_HD static double dot(std::uint32_t length, const A& a, const B& b) {
    double d = 0;
    for (std::uint32_t k = 0; k < length; ++k) d += static_cast<double>(a(k)) * static_cast<double>(b(k));
    return d;
  }
  template <class A, class B>
  UFP4_HD static float chain(std::uint32_t length, const A& a, const B& b) {
    float d = 0;
    for (std::uint32_t k = 0; k < length; ++k) d = fma(a(k), b(k), d);
    return d;
  }

  bool in_blocks_, exact_grids_;
  float acc_ = 0;
  double sum_ = 0;
};

}  // namespace ufp4::detail::inline UFP4_CODE
