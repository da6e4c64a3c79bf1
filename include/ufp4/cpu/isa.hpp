// ufp4 - the instruction sets that CPU kernels are written for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ufp4/detail/compiler.hpp>

namespace ufp4::cpu::inline UFP4_TYPES {

/// Tiers. Each includes its parent's instructions; an operation without a kernel for a tier uses its parent's kernel.
///
/// | isa          | needs                                                    | parent      |
/// |--------------|----------------------------------------------------------|-------------|
/// | scalar       | nothing beyond what the program is compiled for          | -           |
/// | avx2         | AVX2, FMA, F16C                                          | scalar      |
/// | avx_vnni     | AVX-VNNI: byte dot products without AVX-512              | avx2        |
/// | avx512       | AVX-512 F, BW, DQ, VL, VBMI, VNNI                        | avx2        |
/// | avx512_bf16  | AVX-512 BF16                                             | avx512      |
/// | amx          | AMX tile, int8 and bf16, and the system's permission     | avx512_bf16 |
/// | neon         | aarch64                                                  | scalar      |
/// | neon_dotprod | dot product instructions                                 | neon        |
/// | neon_i8mm    | int8 matrix instructions                                 | neon_dotprod |
/// | neon_bf16    | bf16 matrix instructions                                 | neon_i8mm   |
///
/// automatic: the tier that the environment variable UFP4_ISA names, or else the best one of the machine and the build.
enum class isa : std::uint8_t {
  automatic,
  scalar,
#define UFP4_TIER(name, architecture, parent) name,
  UFP4_EACH_ISA(UFP4_TIER)
#undef UFP4_TIER
};

/// Every tier, each after its parent.
inline constexpr isa all_isas[] = {isa::scalar,
#define UFP4_TIER(name, architecture, parent) isa::name,
                                   UFP4_EACH_ISA(UFP4_TIER)
#undef UFP4_TIER
};

/// Whether a value is one of the enumerators.
constexpr bool is_known(isa i) { return static_cast<unsigned>(i) <= sizeof all_isas / sizeof *all_isas; }

/// The name in UFP4_ISA, UFP4_ISAS and error messages.
constexpr const char* name(isa i) {
#define UFP4_TIER(name, architecture, parent) #name,
  constexpr const char* names[] = {"automatic", "scalar", UFP4_EACH_ISA(UFP4_TIER)};
#undef UFP4_TIER
  return is_known(i) ? names[static_cast<unsigned>(i)] : "?";
}

/// The tier whose kernel is used if a tier has none; scalar is its own parent.
constexpr isa parent(isa i) {
#define UFP4_TIER(name, architecture, parent) isa::parent,
  constexpr isa parents[] = {isa::scalar, isa::scalar, UFP4_EACH_ISA(UFP4_TIER)};
#undef UFP4_TIER
  return is_known(i) ? parents[static_cast<unsigned>(i)] : isa::scalar;
}

/// A set of tiers; scalar is in every set.
class isa_set {
 public:
  /// Whether a tier is in the set.
  constexpr bool has(isa i) const { return is_known(i) && (bits_ >> static_cast<unsigned>(i) & 1u) != 0; }
  /// Adds a tier.
  constexpr isa_set& add(isa i) {
    bits_ |= 1u << static_cast<unsigned>(i);
    return *this;
  }
  /// The tiers of both sets.
  constexpr isa_set operator&(isa_set other) const {
    isa_set both;
    both.bits_ = bits_ & other.bits_;
    return both;
  }
  /// The tier of the set that comes last in all_isas.
  constexpr isa best() const {
    isa found = isa::scalar;
    for (const isa i : all_isas)
      if (has(i)) found = i;
    return found;
  }

 private:
  std::uint32_t bits_ = 1u << static_cast<unsigned>(isa::scalar);
};

}  // namespace ufp4::cpu::inline UFP4_TYPES
