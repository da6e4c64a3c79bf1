// ufp4 - the CPU kernels of every test.
// SPDX-License-Identifier: Apache-2.0
#define UFP4_COMPILE_KERNELS
#include <ufp4/cpu/kernels.hpp>
