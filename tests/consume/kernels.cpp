// ufp4 - the program links ufp4::kernels, built with UFP4_ISAS=avx2;neon: it has these kernels and no others.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/cpu/dispatch.hpp>

#if !defined(UFP4_EXTERNAL_KERNELS)
#error "ufp4::kernels does not define UFP4_EXTERNAL_KERNELS"
#endif

namespace {

const bool checked = [] {
  using ufp4::cpu::isa;
  for (const isa tier : ufp4::cpu::all_isas) {
#if defined(__x86_64__)
    const bool wanted = tier == isa::scalar || tier == isa::avx2;
#else
    const bool wanted = tier == isa::scalar || tier == isa::neon;
#endif
    if (ufp4::cpu::compiled().has(tier) != wanted) __builtin_trap();
  }
  return true;
}();

}  // namespace
