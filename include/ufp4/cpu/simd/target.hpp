// ufp4 - target regions: code between a BEGIN and the END is compiled for an instruction set that the file is not.
// SPDX-License-Identifier: Apache-2.0
//
// A function attribute does not apply to the lambdas and helpers inside a function, so kernels are written in regions
// (architecture decision 4). Every #include of a header is above the region, which contains only kernels and the
// instructions that they use. These are macros because a template cannot produce a pragma. Headers whose name
// has an instruction set are for the compilers of its architecture; cpu/kernels.hpp includes them there.
//
// A lane header is read for the instruction set UFP4_LANES, which the header that includes it sets; by itself, as an
// editor reads it, for the one that is set here.
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

#if !defined(UFP4_LANES) && defined(__aarch64__)
#define UFP4_LANES neon
#elif !defined(UFP4_LANES)
#define UFP4_LANES avx2
#endif
#define UFP4_OF_LANES(what) UFP4_JOIN(UFP4_##what##_, UFP4_LANES)
#define UFP4_JOIN(a, b) UFP4_JOINED(a, b)
#define UFP4_JOINED(a, b) a##b
#define UFP4_WITH_LANES(text) text UFP4_QUOTED(UFP4_LANES)  ///< "gemm_f32_" is "gemm_f32_avx2"
#define UFP4_QUOTED(name) UFP4_QUOTE(name)
#define UFP4_QUOTE(text) #text
#define UFP4_LANE_COUNT UFP4_OF_LANES(COUNT)  ///< of 32 bits
#define UFP4_COUNT_avx2 8
#define UFP4_COUNT_avx512 16
#define UFP4_COUNT_neon 4
#define UFP4_REGION_avx2 UFP4_BEGIN_TARGET(UFP4_AVX2)
#define UFP4_REGION_avx512 UFP4_BEGIN_TARGET(UFP4_AVX512)
#define UFP4_REGION_neon  // part of every aarch64
#define UFP4_REGION_neon_dotprod UFP4_BEGIN_TARGET("arch=armv8.2-a+dotprod")
#define UFP4_REGION_neon_i8mm UFP4_BEGIN_TARGET("arch=armv8.2-a+dotprod+i8mm")
#define UFP4_REGION_neon_bf16 UFP4_BEGIN_TARGET("arch=armv8.2-a+bf16")
#define UFP4_END_avx2 UFP4_END_TARGET
#define UFP4_END_avx512 UFP4_END_TARGET
#define UFP4_END_neon
#define UFP4_END_neon_dotprod UFP4_END_TARGET
#define UFP4_END_neon_i8mm UFP4_END_TARGET
#define UFP4_END_neon_bf16 UFP4_END_TARGET
/// The namespace of the lanes, or one inside it, and the region. Pragmas are last: g++ 14 drops what follows them.
#define UFP4_BEGIN_LANES(...)                                                            \
  namespace ufp4::cpu::detail::inline UFP4_CODE::UFP4_LANES __VA_OPT__(::) __VA_ARGS__ { \
  UFP4_OF_LANES(REGION)
#define UFP4_END_LANES \
  }                    \
  UFP4_OF_LANES(END)
/// The same for kernels of one instruction set.
#define UFP4_BEGIN_REGION(lanes, isas)                   \
  namespace ufp4::cpu::detail::inline UFP4_CODE::lanes { \
  UFP4_BEGIN_TARGET(isas)
#define UFP4_END_REGION \
  }                     \
  UFP4_END_TARGET

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
