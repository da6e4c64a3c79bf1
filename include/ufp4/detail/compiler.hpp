// ufp4 - what differs between compilers: attributes, and the flags we reject.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/detail/cxx20.hpp>    // before all others
#include <ufp4/detail/odr_key.hpp>  // UFP4_TYPES, UFP4_CODE
#include <ufp4/gpu/vendor.hpp>      // UFP4_HD: __host__ __device__ where the compiler knows that, else nothing

#if defined(_MSC_VER) && !defined(__clang__)
#error "ufp4: MSVC is not supported: nobody has run ufp4 with it; use g++ 11 or newer, or clang 16 or newer."
#endif
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \
    defined(__NO_SIGNED_ZEROS__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "ufp4: -ffast-math (or a part of it) changes the bits that ufp4 promises; compile this file without it."
#endif
#if defined(__FLT_EVAL_METHOD__) && (__FLT_EVAL_METHOD__ == 1 || __FLT_EVAL_METHOD__ == 2)
#error "ufp4: float arithmetic is done in a wider type here (x87); compile with -mfpmath=sse -msse2."
#endif

// The type _Float16 exists: not in g++ before 13 on aarch64, and perhaps not in a compiler for GPUs.
#if defined(__FLT16_MAX__) && !defined(UFP4_GPU) && (defined(__clang__) || defined(__x86_64__) || __GNUC__ >= 13)
#define UFP4_HAS_FLOAT16 1
#endif

// A member of a vocabulary type. Always inlined: the linker could pick a copy compiled for another instruction set.
#define UFP4_MEMBER __attribute__((always_inline)) UFP4_HD
#define UFP4_HOST_MEMBER __attribute__((always_inline))  // of a type that no GPU kernel uses
// Behind a member function whose result ends with its object: clang reports a result that is kept longer.
#if __has_cpp_attribute(clang::lifetimebound)
#define UFP4_LIFETIMEBOUND [[clang::lifetimebound]]
#else
#define UFP4_LIFETIMEBOUND
#endif
