// ufp4 - the inline namespaces: the key that keeps code compiled with different flags apart.
// SPDX-License-Identifier: Apache-2.0
//
// UFP4_TYPES contains vocabulary types and the thread pool: one of each for the whole program. UFP4_CODE contains
// functions. Of equal weak symbols the linker keeps one, which may be compiled for a newer processor than its caller;
// so the name of UFP4_CODE is a key of everything that the compiled functions depend on: the instruction sets of the
// translation unit and the macros of config.hpp (architecture decision 5; tests/cpu/odr).
//
// All regions of a file must use one namespace, but g++ from 14 on redefines macros such as __AVX512BF16__ in a target
// region. So what regions of the library change is read once, here. Do not include a ufp4 header in a target region.
#pragma once

#include <ufp4/config.hpp>
#include <ufp4/version.hpp>

#ifdef UFP4_NO_EXCEPTIONS
#define UFP4_KEY_NO_EXCEPTIONS 1
#endif
#ifdef UFP4_EXTERNAL_KERNELS
#define UFP4_KEY_EXTERNAL_KERNELS 1
#endif

#if defined(__aarch64__)
#ifdef __ARM_FEATURE_DOTPROD
#define UFP4_KEY_DOTPROD 1
#endif
#ifdef __ARM_FEATURE_MATMUL_INT8
#define UFP4_KEY_MATMUL_INT8 1
#endif
#ifdef __ARM_FEATURE_BF16
#define UFP4_KEY_BF16 1
#endif
#ifdef __ARM_FEATURE_SVE
#define UFP4_KEY_SVE 1
#endif
#ifdef __ARM_FEATURE_FP16_VECTOR_ARITHMETIC
#define UFP4_KEY_FP16_VECTOR_ARITHMETIC 1
#endif
#ifdef __ARM_FEATURE_FP16_FML
#define UFP4_KEY_FP16_FML 1
#endif
#ifdef __ARM_FEATURE_QRDMX
#define UFP4_KEY_QRDMX 1
#endif
#ifdef __ARM_FEATURE_FRINT
#define UFP4_KEY_FRINT 1
#endif
#ifdef __ARM_FEATURE_SVE2
#define UFP4_KEY_SVE2 1
#endif
#ifdef __ARM_FEATURE_SHA3
#define UFP4_KEY_SHA3 1
#endif
#ifdef __ARM_FEATURE_ATOMICS
#define UFP4_KEY_ATOMICS 1
#endif
#ifdef __ARM_FEATURE_JCVT
#define UFP4_KEY_JCVT 1
#endif
#ifdef __ARM_FEATURE_RCPC
#define UFP4_KEY_RCPC 1
#endif
#ifdef __ARM_FEATURE_MOPS
#define UFP4_KEY_MOPS 1
#endif
#ifdef __ARM_FEATURE_CSSC
#define UFP4_KEY_CSSC 1
#endif
#ifdef __ARM_FEATURE_SME
#define UFP4_KEY_SME 1
#endif
#else
#ifdef __SSE3__
#define UFP4_KEY_SSE3 1
#endif
#ifdef __SSSE3__
#define UFP4_KEY_SSSE3 1
#endif
#ifdef __SSE4_1__
#define UFP4_KEY_SSE4_1 1
#endif
#ifdef __SSE4_2__
#define UFP4_KEY_SSE4_2 1
#endif
#ifdef __POPCNT__
#define UFP4_KEY_POPCNT 1
#endif
#ifdef __AVX__
#define UFP4_KEY_AVX 1
#endif
#ifdef __AVX2__
#define UFP4_KEY_AVX2 1
#endif
#ifdef __FMA__
#define UFP4_KEY_FMA 1
#endif
#ifdef __F16C__
#define UFP4_KEY_F16C 1
#endif
#ifdef __AVX512F__
#define UFP4_KEY_AVX512F 1
#endif
#ifdef __AVX512BW__
#define UFP4_KEY_AVX512BW 1
#endif
#ifdef __AVX512DQ__
#define UFP4_KEY_AVX512DQ 1
#endif
#ifdef __AVX512VL__
#define UFP4_KEY_AVX512VL 1
#endif
#ifdef __AVX512VBMI__
#define UFP4_KEY_AVX512VBMI 1
#endif
#ifdef __AVX512VNNI__
#define UFP4_KEY_AVX512VNNI 1
#endif
#ifdef __AVX512BF16__
#define UFP4_KEY_AVX512BF16 1
#endif
#endif

// UFP4_BIT(bit) is 1 if the macro is defined (as 1), else 0.
#define UFP4_BIT_1 ~, 1
#define UFP4_BIT_OF(first, bit, ...) bit
#define UFP4_BIT_PICK(...) UFP4_BIT_OF(__VA_ARGS__)
#define UFP4_BIT_PASTE(value) UFP4_BIT_PICK(UFP4_BIT_##value, 0, 0)
#define UFP4_BIT(bit) UFP4_BIT_PASTE(bit)

// UFP4_DIGIT(a, b, c, d) is the hexadecimal digit of the bits UFP4_KEY_a to UFP4_KEY_d; UFP4_FIXED_DIGIT that of the
// macros __a__ to __d__, which no region of the library changes.
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
#define UFP4_DIGIT_OF(a, b, c, d) UFP4_DIGIT_PASTE(a, b, c, d)
#define UFP4_DIGIT(a, b, c, d) \
  UFP4_DIGIT_OF(UFP4_BIT(UFP4_KEY_##a), UFP4_BIT(UFP4_KEY_##b), UFP4_BIT(UFP4_KEY_##c), UFP4_BIT(UFP4_KEY_##d))
#define UFP4_FIXED_DIGIT(a, b, c, d) \
  UFP4_DIGIT_OF(UFP4_BIT(__##a##__), UFP4_BIT(__##b##__), UFP4_BIT(__##c##__), UFP4_BIT(__##d##__))

#define UFP4_SETTINGS                                                                                       \
  UFP4_DIGIT_OF(UFP4_BIT(UFP4_KEY_NO_EXCEPTIONS), UFP4_BIT(UFP4_KEY_EXTERNAL_KERNELS), UFP4_BIT(__clang__), \
                UFP4_HAS_ISA(amx))
#if defined(__aarch64__)
#define UFP4_KERNEL_ISAS \
  UFP4_DIGIT_OF(UFP4_HAS_ISA(neon), UFP4_HAS_ISA(neon_dotprod), UFP4_HAS_ISA(neon_i8mm), UFP4_HAS_ISA(neon_bf16))
#define UFP4_ISA_DIGITS                                                                                    \
  UFP4_DIGIT(DOTPROD, MATMUL_INT8, BF16, SVE), UFP4_DIGIT(FP16_VECTOR_ARITHMETIC, FP16_FML, QRDMX, FRINT), \
      UFP4_DIGIT(SVE2, SHA3, ATOMICS, JCVT), UFP4_DIGIT(RCPC, MOPS, CSSC, SME), 0, 0, 0, 0, 0, 0
#else
#define UFP4_KERNEL_ISAS \
  UFP4_DIGIT_OF(UFP4_HAS_ISA(avx2), UFP4_HAS_ISA(avx_vnni), UFP4_HAS_ISA(avx512), UFP4_HAS_ISA(avx512_bf16))
#define UFP4_ISA_DIGITS                                                                                        \
  UFP4_DIGIT(SSE3, SSSE3, SSE4_1, SSE4_2), UFP4_DIGIT(POPCNT, AVX, AVX2, FMA),                                 \
      UFP4_DIGIT(F16C, AVX512F, AVX512BW, AVX512DQ), UFP4_DIGIT(AVX512VL, AVX512VBMI, AVX512VNNI, AVX512BF16), \
      UFP4_FIXED_DIGIT(BMI, BMI2, LZCNT, MOVBE), UFP4_FIXED_DIGIT(FMA4, XOP, TBM, SSE4A),                      \
      UFP4_FIXED_DIGIT(AVX512CD, AVX512IFMA, AVX512VBMI2, AVX512BITALG),                                       \
      UFP4_FIXED_DIGIT(AVX512VPOPCNTDQ, AVX512FP16, AVXVNNI, AVXIFMA),                                         \
      UFP4_FIXED_DIGIT(GFNI, AVXVNNIINT8, AVXVNNIINT16, AVXNECONVERT),                                         \
      UFP4_FIXED_DIGIT(CMPCCXADD, AVX10_1, AVX10_2, APX_F)
#endif
#define UFP4_CODE_PASTE(s, i, a, b, c, d, e, f, g, h, j, k) v0_1_##a##b##c##d##e##f##g##h##j##k##_##i##s
#define UFP4_CODE_OF(...) UFP4_CODE_PASTE(__VA_ARGS__)

#define UFP4_TYPES v0_1
#define UFP4_CODE UFP4_CODE_OF(UFP4_SETTINGS, UFP4_KERNEL_ISAS, UFP4_ISA_DIGITS)

static_assert(UFP4_VERSION_MAJOR == 0 && UFP4_VERSION_MINOR == 1, "rename UFP4_TYPES and UFP4_CODE with the version");
