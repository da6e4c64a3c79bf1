// ufp4 - which kernel a call runs: the tier is resolved once, the kernel looked up by tier.
// SPDX-License-Identifier: Apache-2.0
//
// Adding a kernel is one row in one of the tables below. A tier without a row runs its parent's kernel (cpu/isa.hpp).
#pragma once

#include <cstddef>
#include <cstdlib>
#include <string>
#include <ufp4/cpu/context.hpp>
#include <ufp4/cpu/detect.hpp>
#include <ufp4/cpu/kernels/dequantize_scalar.hpp>
#include <ufp4/cpu/kernels/gemm_scalar.hpp>
#include <ufp4/cpu/kernels/hadamard_scalar.hpp>
#include <ufp4/cpu/kernels/quantize_scalar.hpp>
#include <ufp4/detail/expects.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

template <class Kernel>
struct kernel_row {
  isa tier;
  const char* name;
  Kernel* kernel;
};
/// A row of the quantizers: `takes` says whether it has code for this format, rule and rounding.
struct quantize_row {
  isa tier;
  const char* name;
  bool (*takes)(const quantize_job&, const block_coder<rounding_spec>&);
  decltype(quantize_scalar)* kernel;
};

inline constexpr quantize_row quantize_kernels[] = {
    {isa::scalar, "quantize_scalar", [](const quantize_job&, const block_coder<rounding_spec>&) { return true; },
     &quantize_scalar},
};
inline constexpr kernel_row<decltype(amax_strips)> amax_kernels[] = {
    {isa::scalar, "amax_scalar", &amax_strips},
};
inline constexpr kernel_row<decltype(dequantize_scalar)> dequantize_kernels[] = {
    {isa::scalar, "dequantize_scalar", &dequantize_scalar},
};
inline constexpr kernel_row<decltype(hadamard_scalar)> hadamard_kernels[] = {
    {isa::scalar, "hadamard_scalar", &hadamard_scalar},
};
/// Within a tier the first that takes a job runs it.
inline constexpr const gemm_kernel* gemm_kernels[] = {
    &gemm_scalar_kernel,
};

/// The row of a tier, or of its nearest ancestor that has one.
template <class Kernel, std::size_t n>
const kernel_row<Kernel>& kernel_for(const kernel_row<Kernel> (&table)[n], isa tier) {
  for (isa i = tier;; i = parent(i))
    for (const auto& row : table)
      if (row.tier == i) return row;
}
inline const quantize_row& quantize_kernel_for(const quantize_job& job, const block_coder<rounding_spec>& coder,
                                               isa tier) {
  for (isa i = tier;; i = parent(i))
    for (const quantize_row& row : quantize_kernels)
      if (row.tier == i && row.takes(job, coder)) return row;
}
inline const gemm_kernel& gemm_kernel_for(const gemm_job& job, isa tier) {
  for (isa i = tier;; i = parent(i))
    for (const gemm_kernel* row : gemm_kernels)
      if (row->tier == i && row->takes(job)) return *row;
}

inline std::string names_of(isa_set set) {
  std::string text;
  for (const isa i : all_isas)
    if (set.has(i)) text += (text.empty() ? "" : ", ") + std::string(name(i));
  return text;
}

inline isa require_available(isa tier, const char* asked_by) {
  ufp4::detail::expects(available().has(tier), asked_by, " asks for ", name(tier), ", which this machine lacks; it has ",
                        names_of(available()));
  return tier;
}

/// The tier that UFP4_ISA names, or the best one.
inline isa from_environment() {
  const char* wanted = std::getenv("UFP4_ISA");
  if (wanted == nullptr || *wanted == '\0') return available().best();
  for (const isa i : all_isas)
    if (std::string(name(i)) == wanted) return require_available(i, "UFP4_ISA");
  ufp4::detail::refuse(ufp4::detail::sentence("UFP4_ISA is ", wanted, ", which is no instruction set of ufp4; this ",
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
