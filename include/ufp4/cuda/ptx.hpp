// ufp4 - UFP4_PTX_SM80, _SM90, _SM120: a PTX instruction for a GPU that has it, for others, and for the simulator.
// SPDX-License-Identifier: Apache-2.0
//
//   UFP4_PTX_SM80(simt::commit_copies(), "cp.async.commit_group;" ::: "memory");
//
// | compiled for                                   | the macro is                                                    |
// |------------------------------------------------|-----------------------------------------------------------------|
// | the CPU simulator of tests/gpu                 | the first argument                                              |
// | a GPU that has the instruction                 | asm volatile of the other arguments                             |
// | an older GPU, and the host's compilation       | a trap: gemm_kernel::takes chooses no such kernel for that GPU  |
#pragma once

#include <ufp4/gpu/vendor.hpp>

// Instructions of one architecture alone: the compiler must have been given sm_120a, sm_121a or their family.
#if defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_FEAT_SM121_ALL) ||                              \
    (defined(__CUDA_ARCH_SPECIFIC__) && (__CUDA_ARCH_SPECIFIC__ == 1200 || __CUDA_ARCH_SPECIFIC__ == 1210)) || \
    (defined(__CUDA_ARCH_FAMILY_SPECIFIC__) && __CUDA_ARCH_FAMILY_SPECIFIC__ == 1200)
#define UFP4_HAS_BLOCK_MMA_SM120 1
#endif

/// In the CPU simulator `simulated`; a trap on a device without the instruction.
#if defined(UFP4_SIMT_HEADER)
#define UFP4_PTX_ASM(simulated, ...) simulated
#else
#define UFP4_PTX_ASM(simulated, ...) asm volatile(__VA_ARGS__)
#endif
/// A trap.
#define UFP4_PTX_NONE(simulated, ...) __trap()

/// An asm statement of PTX that needs sm_80.
#if defined(UFP4_SIMT_HEADER) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800)
#define UFP4_PTX_SM80 UFP4_PTX_ASM
#else
#define UFP4_PTX_SM80 UFP4_PTX_NONE
#endif
/// The same for instructions of sm_90 and newer.
#if defined(UFP4_SIMT_HEADER) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900)
#define UFP4_PTX_SM90 UFP4_PTX_ASM
#else
#define UFP4_PTX_SM90 UFP4_PTX_NONE
#endif
/// The same for the block-scaled mma of sm_120.
#if defined(UFP4_SIMT_HEADER) || defined(UFP4_HAS_BLOCK_MMA_SM120)
#define UFP4_PTX_SM120 UFP4_PTX_ASM
#else
#define UFP4_PTX_SM120 UFP4_PTX_NONE
#endif
