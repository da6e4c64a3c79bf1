// ufp4 - the CPU kernels of the command-line tool: compiled here, once for all of its verbs.
// SPDX-License-Identifier: Apache-2.0
#define UFP4_KERNELS_HERE
#include <ufp4/cpu/kernels.hpp>
