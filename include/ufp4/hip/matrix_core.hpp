// ufp4 - what MFMA and WMMA have in common: registers of a thread as the vectors that the compiler's builtins take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ufp4/gpu/vendor.hpp>

namespace ufp4::gpu::mma::inline UFP4_GPU {

/// d = builtin(a, b, d): `words` registers a side, filled by the builtin's Elements; `sums` of binary32 or int.
template <class Element, class Sum, unsigned words, unsigned sums, class Builtin>
UFP4_DEVICE void multiply_registers(Sum (&d)[sums], const std::uint32_t (&a)[words], const std::uint32_t (&b)[words],
                                    Builtin builtin) {
  using elements = Element __attribute__((ext_vector_type(4 * words / sizeof(Element))));
  using results = Sum __attribute__((ext_vector_type(sums)));
  elements left, right;
  results sum;
  __builtin_memcpy(&left, a, sizeof a);
  __builtin_memcpy(&right, b, sizeof b);
  __builtin_memcpy(&sum, d, sizeof sum);
  sum = builtin(left, right, sum);
  __builtin_memcpy(d, &sum, sizeof sum);
}

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
