// ufp4 - which tier a call runs on: resolved from the context, the environment, or the machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <string>
#include <ufp4/cpu/context.hpp>
#include <ufp4/cpu/detect.hpp>
#include <ufp4/cpu/kernel_tables.hpp>
#include <ufp4/cpu/kernels/quantize/quantize_scalar.hpp>
#include <ufp4/detail/expects.hpp>
#if !defined(UFP4_EXTERNAL_KERNELS)
#include <ufp4/cpu/kernels.hpp>
#endif

namespace ufp4::cpu::detail::inline UFP4_CODE {

inline std::string names_of(isa_set set) {
  std::string text;
  for (const isa i : all_isas)
    if (set.has(i)) text += (text.empty() ? "" : ", ") + std::string(name(i));
  return text;
}

inline isa require_available(isa tier, const char* asked_by) {
  ufp4::detail::expects(tier <= isa::neon_bf16, asked_by, " is ", static_cast<unsigned>(tier),
                        ", which is no instruction set of ufp4");
  ufp4::detail::expects(available().has(tier), asked_by, " asks for ", name(tier),
                        ", which this machine lacks; it has ", names_of(available()));
  return tier;
}

/// The tier that UFP4_ISA names, or the best one.
inline isa from_environment() {
  const char* wanted = std::getenv("UFP4_ISA");
  if (wanted == nullptr || *wanted == '\0') return available().best();
  for (const isa i : all_isas)
    if (std::string(name(i)) == wanted) return require_available(i, "UFP4_ISA");
  ufp4::detail::reject(ufp4::detail::concat("UFP4_ISA is ", wanted, ", which is no instruction set of ufp4; this ",
                                            "machine has ", names_of(available())));
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE

namespace ufp4::cpu::inline UFP4_CODE {

/// The tier a context's calls run on. Throws std::invalid_argument, listing what there is, for one that is not.
inline isa resolve(const context& ctx) {
  if (ctx.isa != isa::automatic) return detail::require_available(ctx.isa, "cpu::context::isa");
  static const isa chosen = detail::from_environment();
  return chosen;
}

}  // namespace ufp4::cpu::inline UFP4_CODE
