// ufp4 - the bits of a binary32, and the one place where a rounding is pinned down.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ufp4/detail/compiler.hpp>

namespace ufp4::detail::inline UFP4_CODE {

inline constexpr std::uint32_t sign_mask = 0x80000000u, magnitude_mask = 0x7FFFFFFFu, infinity_bits = 0x7F800000u;
inline constexpr std::uint32_t max_finite_bits = 0x7F7FFFFFu;

UFP4_HD constexpr std::uint32_t to_bits(float x) { return __builtin_bit_cast(std::uint32_t, x); }
UFP4_HD constexpr float to_float(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

// Tests on bits: immune to the caller's DAZ flag and to what a compiler believes of NaNs.
UFP4_HD constexpr std::uint32_t magnitude_bits(float x) { return to_bits(x) & magnitude_mask; }
UFP4_HD constexpr bool is_nan(float x) { return magnitude_bits(x) > infinity_bits; }
UFP4_HD constexpr bool is_finite(float x) { return magnitude_bits(x) < infinity_bits; }
UFP4_HD constexpr bool is_negative(float x) { return (to_bits(x) & sign_mask) != 0; }
UFP4_HD constexpr float magnitude(float x) { return to_float(magnitude_bits(x)); }

inline constexpr float max_finite = __builtin_bit_cast(float, max_finite_bits);

/// The bits of a number that is judged in the caller's environment. Hidden from the compiler: clang turns tests on the bits
/// of a float into float comparisons, which DAZ changes and an unmasked exception interrupts.
inline std::uint32_t opaque_bits(float x) {
  std::uint32_t bits = to_bits(x);
  asm("" : "+r"(bits));
  return bits;
}

/// 2^e for -149 <= e <= 127.
UFP4_HD constexpr float exp2i(int e) {
  return e >= -126 ? to_float(static_cast<std::uint32_t>(e + 127) << 23) : to_float(1u << (e + 149));
}

/// floor(log2 |x|) for finite x != 0, subnormals included.
UFP4_HD constexpr int floor_log2(float x) {
  const std::uint32_t bits = magnitude_bits(x);
  if (bits >= 0x00800000u) return static_cast<int>(bits >> 23) - 127;
  int e = -149;
  for (std::uint32_t m = bits; m > 1; m >>= 1) ++e;
  return e;
}

/// The binary32 number m * 2^e, which the caller knows to be representable (m < 2^24), by integer steps alone.
UFP4_HD constexpr float compose(std::uint32_t m, int e) {
  if (m == 0) return 0.0f;
  while (m < 0x00800000u && e > -149) m <<= 1, --e;
  while (e < -149) m >>= 1, ++e;  // exact: the bits shifted out are zeros
  return m < 0x00800000u ? to_float(m) : to_float((static_cast<std::uint32_t>(e + 150) << 23) | (m & 0x007FFFFFu));
}

#if defined(__CUDACC__) && !defined(__HIPCC__)
/// Resolved by the compiler: 1 under --use_fast_math and --ftz=true, of which no macro tells device code.
extern "C" __device__ int __nvvm_reflect(const char*);

/// Nothing in a proper build; under flags that change the promised bits an instruction that no assembler knows, named after the
/// remedy.
__device__ __forceinline__ void refuse_fast_math() {
  if (__nvvm_reflect("__CUDA_FTZ") != 0) asm volatile("ufp4_must_be_compiled_without_use_fast_math_and_ftz;");
#if defined(__NVCC__)  // other compilers do not answer this
  if (__nvvm_reflect("__CUDA_PREC_DIV") == 0) asm volatile("ufp4_must_be_compiled_without_prec_div_false;");
#endif
}
#endif

/// x, rounded to binary32 here: a product returned from it is never fused into a later add (architecture decision 11).
UFP4_HD constexpr float rounded(float x) {
#if (defined(__FMA__) || defined(__aarch64__)) && !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
  if (!__builtin_is_constant_evaluated()) {
#if defined(__aarch64__)
    asm("" : "+w"(x));
#else
    asm("" : "+x"(x));
#endif
  }
#elif defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) {
    refuse_fast_math();
    // ptxas fuses a mul into an add whatever stands between them, but for an addition that says how it rounds; x + -0 is x.
    asm("add.rn.f32 %0, %0, 0f80000000;" : "+f"(x));
  }
#elif defined(__HIP_DEVICE_COMPILE__)
  if (!__builtin_is_constant_evaluated()) asm("" : "+v"(x));
#endif
  return x;
}

/// The same for an array that was just written: what is read from it afterwards is what was stored.
UFP4_HD constexpr void settle([[maybe_unused]] const float* values) {
#if (defined(__FMA__) || defined(__aarch64__)) && !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
  if (!__builtin_is_constant_evaluated()) asm volatile("" : : "r"(values) : "memory");
#endif
}

/// The same for values in a thread's registers, where products of the caller's own would be fused into our sums.
UFP4_HD constexpr void settle([[maybe_unused]] float* values, [[maybe_unused]] std::uint32_t count) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  for (std::uint32_t i = 0; i < count; ++i) values[i] = rounded(values[i]);
#else
  settle(values);
#endif
}

/// a * b, rounded to binary32 here: rounded(a * b) where that costs an instruction.
UFP4_HD constexpr float product(float a, float b) {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) {
    float r = 0;
    asm("mul.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
  }
#endif
  return rounded(a * b);
}

/// One rounding of a * b + c.
#if defined(__CUDACC_RTC__)  // has no such builtin
UFP4_HD inline float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
#else
UFP4_HD inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#endif

}  // namespace ufp4::detail::inline UFP4_CODE
