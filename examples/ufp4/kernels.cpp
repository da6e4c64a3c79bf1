// ufp4 - the CPU kernels of the command-line tool: compiled here, once for all of its commands.
// SPDX-License-Identifier: Apache-2.0
#define UFP4_COMPILE_KERNELS
#include <ufp4/cpu/kernels.hpp>
