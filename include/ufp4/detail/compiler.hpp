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

// Two inline namespaces. UFP4_TYPES contains vocabulary types and the thread pool: one of each for the whole program.
// UFP4_CODE contains functions. Of equal weak symbols the linker keeps one, which may be compiled for a newer processor
// than its caller; so the name of UFP4_CODE is a key of everything that the compiled functions depend on: the
// instruction sets of the translation unit and the macros of config.hpp.
//
// UFP4_BIT(macro) is 1 if the macro is defined as 1 or as nothing (2 and 3: __ARM_FEATURE_RCPC), else 0.
#define UFP4_DEFINED_ ~, 1
#define UFP4_DEFINED_1 ~, 1
#define UFP4_DEFINED_2 ~, 1
#define UFP4_DEFINED_3 ~, 1
#define UFP4_BIT_OF(first, bit, ...) bit
#define UFP4_BIT_PICK(...) UFP4_BIT_OF(__VA_ARGS__)
#define UFP4_BIT_PASTE(value) UFP4_BIT_PICK(UFP4_DEFINED_##value, 0, 0)
#define UFP4_BIT(macro) UFP4_BIT_PASTE(macro)

// UFP4_DIGIT(a, b, c, d) is the hexadecimal digit of four bits.
#define UFP4_HEX_0000 0
#define UFP4_HEX_0001 1
#define UFP4_HEX_0010 2
#define UFP4_HEX_0011 3
#define UFP4_HEX_0100 4
#define UFP4_HEX_0101 5
#define UFP4_HEX_0110 6
#define UFP4_HEX_0111 7
#define UFP4_HEX_1000 8
#define UFP4_HEX_1001 9
#define UFP4_HEX_1010 a
#define UFP4_HEX_1011 b
#define UFP4_HEX_1100 c
#define UFP4_HEX_1101 d
#define UFP4_HEX_1110 e
#define UFP4_HEX_1111 f
#define UFP4_DIGIT_PASTE(a, b, c, d) UFP4_HEX_##a##b##c##d
#define UFP4_DIGIT(a, b, c, d) UFP4_DIGIT_PASTE(a, b, c, d)
#define UFP4_BITS(a, b, c, d) UFP4_DIGIT(UFP4_BIT(a), UFP4_BIT(b), UFP4_BIT(c), UFP4_BIT(d))
#define UFP4_ISA_BITS(a, b, c, d) UFP4_DIGIT(UFP4_HAS_ISA(a), UFP4_HAS_ISA(b), UFP4_HAS_ISA(c), UFP4_HAS_ISA(d))

#define UFP4_KEY_SETTINGS \
  UFP4_DIGIT(UFP4_BIT(UFP4_NO_EXCEPTIONS), UFP4_BIT(UFP4_EXTERNAL_KERNELS), UFP4_BIT(__clang__), UFP4_HAS_ISA(amx))
#if defined(__aarch64__)
#define UFP4_KEY_ISAS UFP4_ISA_BITS(neon, neon_dotprod, neon_i8mm, neon_bf16)
#define UFP4_KEY_DIGITS                                                                               \
  UFP4_BITS(__ARM_FEATURE_DOTPROD, __ARM_FEATURE_MATMUL_INT8, __ARM_FEATURE_BF16, __ARM_FEATURE_SVE), \
      UFP4_BITS(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC, __ARM_FEATURE_FP16_FML, __ARM_FEATURE_QRDMX,    \
                __ARM_FEATURE_FRINT),                                                                 \
      UFP4_BITS(__ARM_FEATURE_SVE2, __ARM_FEATURE_SHA3, __ARM_FEATURE_ATOMICS, __ARM_FEATURE_JCVT),   \
      UFP4_BITS(__ARM_FEATURE_RCPC, __ARM_FEATURE_MOPS, __ARM_FEATURE_CSSC, __ARM_FEATURE_SME), 0, 0, 0, 0, 0, 0
#else
#define UFP4_KEY_ISAS UFP4_ISA_BITS(avx2, avx_vnni, avx512, avx512_bf16)
#define UFP4_KEY_DIGITS                                                                                        \
  UFP4_BITS(__SSE3__, __SSSE3__, __SSE4_1__, __SSE4_2__), UFP4_BITS(__POPCNT__, __LZCNT__, __BMI__, __BMI2__), \
      UFP4_BITS(__AVX__, __AVX2__, __FMA__, __F16C__), UFP4_BITS(__MOVBE__, __FMA4__, __XOP__, __TBM__),       \
      UFP4_BITS(__AVX512F__, __AVX512BW__, __AVX512DQ__, __AVX512VL__),                                        \
      UFP4_BITS(__AVX512CD__, __AVX512IFMA__, __AVX512VBMI__, __AVX512VBMI2__),                                \
      UFP4_BITS(__AVX512VNNI__, __AVX512BITALG__, __AVX512VPOPCNTDQ__, __AVX512BF16__),                        \
      UFP4_BITS(__AVX512FP16__, __AVXVNNI__, __AVXIFMA__, __GFNI__),                                           \
      UFP4_BITS(__AVXVNNIINT8__, __AVXVNNIINT16__, __AVXNECONVERT__, __CMPCCXADD__),                           \
      UFP4_BITS(__AVX10_1__, __AVX10_2__, __APX_F__, __SSE4A__)
#endif
#define UFP4_KEY_PASTE(s, i, a, b, c, d, e, f, g, h, j, k) v0_1_##a##b##c##d##e##f##g##h##j##k##_##i##s
#define UFP4_KEY(...) UFP4_KEY_PASTE(__VA_ARGS__)

#define UFP4_TYPES v0_1
#define UFP4_CODE UFP4_KEY(UFP4_KEY_SETTINGS, UFP4_KEY_ISAS, UFP4_KEY_DIGITS)

static_assert(UFP4_VERSION_MAJOR == 0 && UFP4_VERSION_MINOR == 1, "rename UFP4_TYPES and UFP4_CODE with the version");
