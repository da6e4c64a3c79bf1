// ufp4 - accumulate: the modes of a GEMM and their guarantees.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ufp4/detail/compiler.hpp>

namespace ufp4::inline UFP4_TYPES {

/// How quantized_gemm accumulates: numerics 6.
enum class accumulate : std::uint8_t {
  fast,          ///< any order, fixed for an ISA and build; a stated error bound
  exact_blocks,  ///< exact block dots, binary32 rescale in block order: the same bits everywhere
  folded_bf16,   ///< value * scale rounded to bf16 first; a looser bound, never the default
};

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

/// The name of a mode, for messages.
constexpr const char* name(accumulate mode) {
  constexpr const char* names[] = {"fast", "exact_blocks", "folded_bf16"};
  return mode <= accumulate::folded_bf16 ? names[static_cast<int>(mode)] : "?";
}

}  // namespace ufp4::detail::inline UFP4_TYPES
