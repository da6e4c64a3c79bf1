// ufp4 - target regions: code between a BEGIN and the END is compiled for an instruction set that the file is not.
// SPDX-License-Identifier: Apache-2.0
//
// A function attribute would not reach the lambdas and helpers inside a function, so kernels sit in regions
// (architecture decision 4). Every #include stands above the region; inside it stand kernels and the instructions they
// use, nothing else. Macros, because a pragma cannot come from a template.
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

// One instruction or a few: always inlined, so that no call stands between a kernel and its registers.
#define UFP4_LANE inline __attribute__((always_inline))
