// ufp4 - which tier a call runs on: resolved from the context, the environment, or the machine.
// SPDX-License-Identifier: Apache-2.0
//
// A tier can be used if the machine has it and the build has not left it out (UFP4_ISAS, config.hpp). To ask for any
// other one is an error that lists those that can be used.
#pragma once

#include <ufp4/cpu/context.hpp>
#include <ufp4/cpu/detect.hpp>
#include <ufp4/cpu/kernel_tables.hpp>
#include <ufp4/cpu/kernels/kernels_scalar.hpp>
#include <ufp4/detail/expects.hpp>
#if !defined(UFP4_EXTERNAL_KERNELS)
#include <ufp4/cpu/kernels.hpp>
#endif

namespace ufp4::cpu::detail::inline UFP4_CODE {

inline std::string names_of(isa_set set) {
  std::string text;
  for (const isa i : all_isas)
    if (set.has(i)) text.append(text.empty() ? "" : ", ").append(name(i));
  return text;
}

inline isa_set usable() { return available() & kernels::compiled; }

/// Throws: the tier `wanted` cannot be used.
[[noreturn, gnu::cold]] inline void reject_isa(const char* asked_by, const char* wanted, const char* why) {
  ufp4::detail::reject(ufp4::detail::concat(asked_by, ": ", wanted, " ", why, "; available: ", names_of(usable())));
}

[[gnu::noinline]] inline isa require_usable(isa tier, const char* asked_by) {
  if (usable().has(tier)) [[likely]]
    return tier;
  if (!is_known(tier) || tier == isa::automatic)
    reject_isa(asked_by, ufp4::detail::concat(static_cast<unsigned>(tier)).c_str(),
               "is not an instruction set of ufp4");
  reject_isa(asked_by, name(tier), available().has(tier) ? "was left out of this build" : "is not on this machine");
}

/// The tier that UFP4_ISA names, or the best one.
inline isa from_environment() {
  const char* wanted = std::getenv("UFP4_ISA");
  if (wanted == nullptr || *wanted == '\0') return usable().best();
  for (const isa i : all_isas)
    if (std::string_view(name(i)) == wanted) return require_usable(i, "UFP4_ISA");
  reject_isa("UFP4_ISA", wanted, "is not an instruction set of ufp4");
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE

namespace ufp4::cpu::inline UFP4_CODE {

/// The instruction sets whose kernels the program contains, on whatever machine: all of the architecture, unless
/// UFP4_ISAS leaves some out. See also available().
inline isa_set compiled() { return detail::kernels::compiled; }

/// The tier that a context's calls run on. Throws std::invalid_argument, with a list of those that can be used, for any
/// other one. UFP4_ISA is read by the first call whose context names no tier.
[[gnu::noinline]] inline isa resolve(const context& ctx) {
  if (ctx.isa != isa::automatic) return detail::require_usable(ctx.isa, "cpu::context::isa");
  static const isa chosen = detail::from_environment();
  return chosen;
}

}  // namespace ufp4::cpu::inline UFP4_CODE
