// ufp4 - choices between equal results that only a measurement on a device settles. Not for programs.
// SPDX-License-Identifier: Apache-2.0
//
// bench/gpu and tests/gpu define these macros as variables of a program, before the first header of ufp4, so that one
// program measures every choice; here they are constants, which cost nothing.
#pragma once

/// Thread blocks for each multiprocessor of kernels that stride over tiles (quantize_lanes, quantize_tiles, amax).
#if !defined(UFP4_TUNE_TILE_BLOCKS)
#define UFP4_TUNE_TILE_BLOCKS 4
#endif

/// The most thread blocks that share a tile of gemm_wgmma_sm90: at most 8.
#if !defined(UFP4_TUNE_CLUSTER)
#define UFP4_TUNE_CLUSTER 8
#endif

/// Whether an experimental kernel multiplies without the check of its first call, so that a test shows what is wrong.
#if !defined(UFP4_TUNE_UNCHECKED)
#define UFP4_TUNE_UNCHECKED false
#endif

/// Whether the kernel of this name is left out where a product chooses one.
#if !defined(UFP4_TUNE_LEAVES_OUT)
#define UFP4_TUNE_LEAVES_OUT(name) false
#endif
