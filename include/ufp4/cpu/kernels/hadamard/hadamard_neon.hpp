// ufp4 - the Hadamard transform of a matrix's rows with NEON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__aarch64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/kernels/hadamard/hadamard_scalar.hpp>
#include <ufp4/cpu/simd/neon.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace neon::transform_kernel {

inline constexpr std::size_t hadamard_regs = 16;  ///< of the 32 that exist

#include <ufp4/cpu/kernels/hadamard/hadamard_lanes.inl>

}  // namespace neon::transform_kernel
}  // namespace ufp4::cpu::detail::inline UFP4_CODE

#endif
