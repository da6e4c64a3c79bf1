// ufp4 - what MFMA and WMMA have in common: registers of a thread as the vectors that the compiler's builtins take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ufp4/gpu/vendor.hpp>

namespace ufp4::gpu::mma::inline UFP4_GPU {

/// d = builtin(a, b, d): `words` registers a side, two of the builtin's Element in each; `sums` of binary32.
template <class Element, unsigned words, unsigned sums, class Builtin>
UFP4_DEVICE void multiply_vectors(float (&d)[sums], const std::uint32_t (&a)[words], const std::uint32_t (&b)[words],
                                  Builtin builtin) {
  using elements = Element __attribute__((ext_vector_type(2 * words)));
  using floats = float __attribute__((ext_vector_type(sums)));
  elements left, right;
  floats sum;
  __builtin_memcpy(&left, a, sizeof left);
  __builtin_memcpy(&right, b, sizeof right);
  __builtin_memcpy(&sum, d, sizeof sum);
  sum = builtin(left, right, sum);
  __builtin_memcpy(d, &sum, sizeof sum);
}

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
