// ufp4 - every macro that a user may set, in one place.
// SPDX-License-Identifier: Apache-2.0
//
// Define a macro before the first ufp4 header. Translation units of one program may define different macros and be
// compiled with different flags: detail/odr_key.hpp gives each combination a namespace of its own.
//
// | macro                  | effect                                                                                 |
// |------------------------|----------------------------------------------------------------------------------------|
// | UFP4_ISAS              | a list, as -DUFP4_ISAS=avx2,avx512: compile the CPU kernels of these instruction sets  |
// |                        | (names of cpu/isa.hpp) and the portable ones; without it of all, or see below          |
// | UFP4_EXTERNAL_KERNELS  | do not compile the CPU kernels in this file: another file of the program, compiled     |
// |                        | with UFP4_COMPILE_KERNELS, or the CMake target ufp4::kernels contains them             |
// | UFP4_COMPILE_KERNELS   | with `#include <ufp4/cpu/kernels.hpp>`: this file contains the kernels for all files   |
// |                        | with UFP4_EXTERNAL_KERNELS, whatever flags those are compiled with                     |
// | UFP4_EXTERNAL_GPU_...  | UFP4_EXTERNAL_GPU_KERNELS and UFP4_COMPILE_GPU_KERNELS: the same for <ufp4/cuda.hpp>   |
// |                        | and <ufp4/hip.hpp>; ufp4::cuda_kernels, ufp4::hip_kernels (docs/gpu.md)                |
// | UFP4_NO_EXCEPTIONS     | errors print their message to stderr and abort; set automatically by -fno-exceptions   |
// | UFP4_EXPERIMENTAL      | GPU kernels that have not run on a device yet may be chosen; explain() names them      |
// | UFP4_UNDOCUMENTED_E0M3 | names a data type of tcgen05's descriptors that no manual lists (docs/gpu.md);         |
// |                        | no kernel uses it                                                                      |
//
// At run time, the environment variable UFP4_ISA=<name> chooses an instruction set (cpu/dispatch.hpp).
#pragma once

#if !defined(UFP4_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define UFP4_NO_EXCEPTIONS 1  ///< errors print their message and abort
#endif

// AddressSanitizer of g++ 13 and 14 puts variables of 64 bytes at odd multiples of 32 in some functions, where aligned
// moves of AVX-512 fault: such a build has the kernels without 64-byte vectors, unless UFP4_ISAS lists others.
#if !defined(UFP4_ISAS) && defined(__SANITIZE_ADDRESS__) && defined(__x86_64__) && !defined(__clang__) && \
    (__GNUC__ == 13 || __GNUC__ == 14)
#define UFP4_ISAS avx2, avx_vnni
#endif

/// Every instruction set with kernels of its own, each after its parent: x(name, architecture, parent).
#define UFP4_EACH_ISA(x)                                                                                       \
  x(avx2, X86, scalar) x(avx_vnni, X86, avx2) x(avx512, X86, avx2) x(avx512_bf16, X86, avx512)                 \
      x(amx, X86, avx512_bf16) x(neon, ARM, scalar) x(neon_dotprod, ARM, neon) x(neon_i8mm, ARM, neon_dotprod) \
          x(neon_bf16, ARM, neon_i8mm)

// UFP4_HAS_ISA(name) is the token 1 or 0: whether the kernels of that instruction set are compiled. Where a name of
// UFP4_ISAS is N, UFP4_SAME_N_N adds the argument 1 before the final 0; no other token does.
#if defined(UFP4_ISAS)
#define UFP4_SAME_scalar_scalar ~, 1,
#define UFP4_SAME_avx2_avx2 ~, 1,
#define UFP4_SAME_avx_vnni_avx_vnni ~, 1,
#define UFP4_SAME_avx512_avx512 ~, 1,
#define UFP4_SAME_avx512_bf16_avx512_bf16 ~, 1,
#define UFP4_SAME_amx_amx ~, 1,
#define UFP4_SAME_neon_neon ~, 1,
#define UFP4_SAME_neon_dotprod_neon_dotprod ~, 1,
#define UFP4_SAME_neon_i8mm_neon_i8mm ~, 1,
#define UFP4_SAME_neon_bf16_neon_bf16 ~, 1,
#define UFP4_SAME__ ~, 1,  // an empty list, and what fills a short list up
#define UFP4_SECOND_OF(first, second, ...) second
#define UFP4_SECOND(...) UFP4_SECOND_OF(__VA_ARGS__)
#define UFP4_KNOWN(a) UFP4_SECOND(UFP4_SAME_##a##_##a, 0, 0)
#define UFP4_ALL_KNOWN_OF(a, b, c, d, e, f, g, h, i, j, rest, ...)                                       \
  (UFP4_KNOWN(a) && UFP4_KNOWN(b) && UFP4_KNOWN(c) && UFP4_KNOWN(d) && UFP4_KNOWN(e) && UFP4_KNOWN(f) && \
   UFP4_KNOWN(g) && UFP4_KNOWN(h) && UFP4_KNOWN(i) && UFP4_KNOWN(j) && UFP4_KNOWN(rest))
#define UFP4_ALL_KNOWN(...) UFP4_ALL_KNOWN_OF(__VA_ARGS__)
#define UFP4_AND_KNOWN(isa, architecture, parent) &&UFP4_KNOWN(isa)
#if !(1 UFP4_EACH_ISA(UFP4_AND_KNOWN))
#error "ufp4: an instruction set of UFP4_EACH_ISA has no macro UFP4_SAME_"
#endif
#if !UFP4_ALL_KNOWN(UFP4_ISAS, , , , , , , , , , , )
#error "ufp4: UFP4_ISAS must list instruction sets of ufp4, as -DUFP4_ISAS=avx2,avx512 (names: ufp4/cpu/isa.hpp)"
#undef UFP4_ISAS  // this error is enough
#define UFP4_ISAS scalar
#endif
#define UFP4_LISTED_OF(isa, a, b, c, d, e, f, g, h, i, j, ...)                                            \
  UFP4_SECOND(UFP4_SAME_##isa##_##a UFP4_SAME_##isa##_##b UFP4_SAME_##isa##_##c UFP4_SAME_##isa##_##d     \
                  UFP4_SAME_##isa##_##e UFP4_SAME_##isa##_##f UFP4_SAME_##isa##_##g UFP4_SAME_##isa##_##h \
                      UFP4_SAME_##isa##_##i UFP4_SAME_##isa##_##j,                                        \
              0, 0)
#define UFP4_LISTED(...) UFP4_LISTED_OF(__VA_ARGS__)
#define UFP4_HAS_ISA(isa) UFP4_LISTED(isa, UFP4_ISAS, , , , , , , , , , , )
#else
#define UFP4_HAS_ISA(isa) 1  ///< whether the kernels of an instruction set are compiled
#endif
