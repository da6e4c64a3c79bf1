// ufp4 - the lanes of the instruction set UFP4_LANES, for headers that are read for several of them.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/cpu/simd/target.hpp>
#if UFP4_LANE_COUNT == 16
#include <ufp4/cpu/simd/avx512.hpp>
#elif UFP4_LANE_COUNT == 8
#include <ufp4/cpu/simd/avx2.hpp>
#else
#include <ufp4/cpu/simd/neon.hpp>
#endif
