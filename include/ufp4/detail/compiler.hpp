// ufp4 - what differs between compilers: attributes, namespaces, and the flags we reject.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/config.hpp>
#include <ufp4/gpu/vendor.hpp>  // UFP4_HD: __host__ __device__ where the compiler knows that, else nothing
#include <ufp4/version.hpp>

#if defined(_MSC_VER) && !defined(__clang__)
#error "ufp4: MSVC is not supported: nobody has run ufp4 with it; use g++ 11 or newer, or clang 16 or newer."
#endif
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \
    defined(__NO_SIGNED_ZEROS__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error \
    "ufp4: compiled with -ffast-math (or a part of it), which changes the bits ufp4 promises; compile this file \
without it."
#endif
#if defined(__FLT_EVAL_METHOD__) && (__FLT_EVAL_METHOD__ == 1 || __FLT_EVAL_METHOD__ == 2)
#error "ufp4: float arithmetic is done in a wider type here (x87); compile with -mfpmath=sse -msse2."
#endif

// A member of a vocabulary type. Always inlined, so that no weak symbol of it carries one file's instruction set to
// another.
#define UFP4_MEMBER __attribute__((always_inline)) UFP4_HD
#define UFP4_HOST_MEMBER __attribute__((always_inline))  // the same of a type that no kernel has

// Two inline namespaces. UFP4_TYPES holds vocabulary types: one type for the whole program. UFP4_CODE holds whatever
// has a body worth emitting, and is keyed on the instruction set the translation unit is compiled for: otherwise the
// linker may pick the AVX-512 body of an inline function for a caller that was compiled for any x86 (architecture
// decision 5).
#define UFP4_TYPES v0_1
#if defined(__AVX512F__)
#define UFP4_CODE v0_1_avx512
#elif defined(__AVX2__) && defined(__FMA__)
#define UFP4_CODE v0_1_avx2_fma
#elif defined(__AVX2__)
#define UFP4_CODE v0_1_avx2
#elif defined(__AVX__)
#define UFP4_CODE v0_1_avx
#elif defined(__SSE4_2__)
#define UFP4_CODE v0_1_sse42
#elif defined(__ARM_FEATURE_SVE)
#define UFP4_CODE v0_1_sve
#elif defined(__ARM_FEATURE_DOTPROD)
#define UFP4_CODE v0_1_dotprod
#else
#define UFP4_CODE v0_1_baseline
#endif

static_assert(UFP4_VERSION_MAJOR == 0 && UFP4_VERSION_MINOR == 1, "rename UFP4_TYPES and UFP4_CODE with the version");
