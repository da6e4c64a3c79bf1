// ufp4 - target regions: code between a BEGIN and the END is compiled for an instruction set that the file is not.
// SPDX-License-Identifier: Apache-2.0
//
// A function attribute does not apply to the lambdas and helpers inside a function, so kernels are written in regions
// (architecture decision 4). Every #include of a header is above the region, which contains only kernels and the
// instructions that they use. These are macros because a template cannot produce a pragma.
#pragma once

#include <ufp4/detail/compiler.hpp>

#define UFP4_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define UFP4_BEGIN_TARGET(isas) UFP4_PRAGMA(clang attribute push(__attribute__((target(isas))), apply_to = function))
#define UFP4_END_TARGET UFP4_PRAGMA(clang attribute pop)
#else
#define UFP4_BEGIN_TARGET(isas) UFP4_PRAGMA(GCC push_options) UFP4_PRAGMA(GCC target(isas))
#define UFP4_END_TARGET UFP4_PRAGMA(GCC pop_options)
#endif
#define UFP4_AVX2 "avx2,fma,f16c"
#define UFP4_AVX512 UFP4_AVX2 ",avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni"
#define UFP4_AVX512_BF16 UFP4_AVX512 ",avx512bf16"
#define UFP4_AMX UFP4_AVX512_BF16 ",amx-tile,amx-int8,amx-bf16"

// For functions of one instruction or a few: always inlined, so that values stay in registers.
#define UFP4_LANE inline __attribute__((always_inline))

// A function of one instruction: %0 is the result, %1 and %2 are the operands; `place` is the constraint of all.
// Macros, because the text of an asm statement is a literal.
#define UFP4_UNARY(place, Result, name, A, text) \
  UFP4_LANE Result name(A a) {                   \
    Result r;                                    \
    asm(text : "=" place(r) : place(a));         \
    return r;                                    \
  }
#define UFP4_BINARY(place, Result, name, A, B, text) \
  UFP4_LANE Result name(A a, B b) {                  \
    Result r;                                        \
    asm(text : "=" place(r) : place(a), place(b));   \
    return r;                                        \
  }
