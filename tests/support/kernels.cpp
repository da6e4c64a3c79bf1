// ufp4 - the CPU kernels of every test.
// SPDX-License-Identifier: Apache-2.0
#define UFP4_KERNELS_HERE
#include <ufp4/cpu/kernels.hpp>
