// ufp4 - the Hadamard transform of a matrix's rows with AVX2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/kernels/hadamard/hadamard_scalar.hpp>
#include <ufp4/cpu/simd/avx2.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX2)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace avx2::transform_kernel {

inline constexpr std::size_t hadamard_regs = 8;  ///< of the 16 that exist

#include <ufp4/cpu/kernels/hadamard/hadamard_lanes.inl>

}  // namespace avx2::transform_kernel
}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
