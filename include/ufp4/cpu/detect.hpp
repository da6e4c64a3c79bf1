// ufp4 - which instruction sets this machine and its operating system support.
// SPDX-License-Identifier: Apache-2.0
//
// With cpuid, xgetbv and Linux's AMX permission: the compilers' __builtin_cpu_supports does not know all of them.
// Sources: Intel SDM volume 2, CPUID; volume 1, chapter 13 (XCR0); Linux Documentation/arch/x86/xstate.rst.
#pragma once

#include <ufp4/cpu/isa.hpp>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif
#endif

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// How a kernel prefetches what it reads from memory: not at all, into the first-level cache or into the second.
enum class read_ahead { none, first_level, second_level };

struct detected {
  isa_set tiers;
  const char* amx_rejection;  ///< why amx is not among them; null if it is
};

#if defined(__x86_64__)
struct cpuid_leaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};
inline cpuid_leaf cpuid(unsigned leaf, unsigned subleaf) {
  cpuid_leaf r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}
constexpr bool bits_set(unsigned word, unsigned mask) { return (word & mask) == mask; }
constexpr unsigned bit(int n) { return 1u << n; }

/// Which register state the operating system saves (XCR0), or 0.
inline std::uint64_t enabled_state() {
  if (!bits_set(cpuid(1, 0).ecx, bit(27))) return 0;  // OSXSAVE
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low | std::uint64_t{high} << 32;
}

/// Whether palette 1 is what the kernels configure (cpu/simd/amx.hpp): eight tiles of 1024 bytes, 16 rows of 64.
inline bool has_palette() {
  const cpuid_leaf palette = cpuid(0x1D, 1);
  const bool size = palette.eax >> 16 == 1024 && (palette.ebx & 0xFFFF) == 64;
  return size && palette.ebx >> 16 == 8 && (palette.ecx & 0xFFFF) == 16;
}

/// Asks Linux for permission to use AMX tile data, which a process needs once.
inline bool amx_permitted() {
#if defined(__linux__)
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

inline detected detect() {
  isa_set found;
  const cpuid_leaf one = cpuid(1, 0), seven = cpuid(7, 0), seven_one = cpuid(7, 1);
  const bool amx = bits_set(seven.edx, bit(22) | bit(24) | bit(25));  // BF16, TILE, INT8
  const char* rejection = amx ? "present, but not the AVX-512 that its kernels use" : "not present";
  const std::uint64_t state = enabled_state();
  const bool ymm = (state & 0x6) == 0x6, zmm = (state & 0xE6) == 0xE6, tiles = (state & 0x60000) == 0x60000;
  if (!ymm || !bits_set(one.ecx, bit(12) | bit(28) | bit(29)) || !bits_set(seven.ebx, bit(5) | bit(3) | bit(8)))
    return {found, rejection};  // FMA, AVX, F16C; AVX2, BMI1, BMI2
  found.add(isa::avx2);
  if (bits_set(seven_one.eax, bit(4))) found.add(isa::avx_vnni);
  // F, DQ, BW, VL; VBMI, VNNI
  if (!zmm || !bits_set(seven.ebx, bit(16) | bit(17) | bit(30) | bit(31)) || !bits_set(seven.ecx, bit(1) | bit(11)))
    return {found, rejection};
  found.add(isa::avx512);
  if (!bits_set(seven_one.eax, bit(5))) return {found, rejection};
  found.add(isa::avx512_bf16);
  if (!amx) return {found, rejection};
  if (!has_palette()) return {found, "present, but its tiles have other sizes"};
  if (!tiles) return {found, "present, but the system does not save tiles"};
  if (!amx_permitted()) return {found, "present, but the system rejects tile data"};
  return {found.add(isa::amx), nullptr};
}

/// AMD's family 1Ah and later.
inline bool is_zen5() {
  const cpuid_leaf vendor = cpuid(0, 0);
  const bool amd = vendor.ebx == 0x68747541 && vendor.edx == 0x69746E65 && vendor.ecx == 0x444D4163;  // AuthenticAMD
  const unsigned version = cpuid(1, 0).eax, family = (version >> 8 & 15) + (version >> 20 & 255);
  return amd && family >= 0x1A;
}
/// Whether prefetches from memory are faster into the first-level cache than into the second. On Zen 4 the first level
/// waits for 24 lines at most, which is 14 GB/s; prefetches into the second reach 24, the hardware's own 33, but only
/// in the order of memory. Read once: cpuid takes microseconds in a virtual machine.
inline bool prefetches_first_level() {
  static const bool found = is_zen5();
  return found;
}

#else
inline detected detect() {
  isa_set found;
#if defined(__aarch64__)
  found.add(isa::neon);
#if defined(__linux__)
  constexpr unsigned long asimddp = 1ul << 20, i8mm = 1ul << 13, bf16 = 1ul << 14;  // HWCAP, HWCAP2, HWCAP2
  const bool dotprod = (getauxval(AT_HWCAP) & asimddp) != 0;
  if (dotprod) found.add(isa::neon_dotprod);
  const unsigned long newer = dotprod ? getauxval(AT_HWCAP2) & (i8mm | bf16) : 0;
  if ((newer & i8mm) != 0) found.add(isa::neon_i8mm);
  if (newer == (i8mm | bf16)) found.add(isa::neon_bf16);
#endif
#endif
  return {found, "not present"};
}
inline bool prefetches_first_level() { return true; }
#endif

/// Detected once.
inline const detected& detection() {
  static const detected found = detect();
  return found;
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE

namespace ufp4::cpu::inline UFP4_CODE {

/// The tiers of this machine, detected once. See also compiled().
inline isa_set available() { return detail::detection().tiers; }

/// Why the amx tier is not available: "not present", or "present, but ..." and what is missing. Empty if available.
inline const char* amx_rejection() {
  const char* why = detail::detection().amx_rejection;
  return why == nullptr ? "" : why;
}

}  // namespace ufp4::cpu::inline UFP4_CODE
