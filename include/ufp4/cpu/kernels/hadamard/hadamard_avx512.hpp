// ufp4 - the Hadamard transform of a matrix's rows with AVX-512.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/kernels/hadamard/hadamard_scalar.hpp>
#include <ufp4/cpu/simd/avx512.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX512)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace avx512::transform_kernel {

inline constexpr std::size_t hadamard_regs = 16;  ///< of the 32 that exist: a run of 256 stays in registers

#include <ufp4/cpu/kernels/hadamard/hadamard_lanes.inl>

}  // namespace avx512::transform_kernel
}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
