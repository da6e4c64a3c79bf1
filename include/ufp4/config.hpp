// ufp4 - every macro a user may set, in one place.
// SPDX-License-Identifier: Apache-2.0
//
// Define these before the first ufp4 header, the same way in every translation unit of a program.
//
// | macro                  | effect                                                                                  |
// |------------------------|-----------------------------------------------------------------------------------------|
// | UFP4_NO_EXCEPTIONS     | errors print their message to stderr and abort (set by itself under -fno-exceptions)   |
// | UFP4_EXTERNAL_KERNELS | the CPU kernels are not compiled in this file: it compiles in a fraction of the time    |
// | UFP4_EXPERIMENTAL      | GPU kernels that no device has run yet may be taken (architecture decision 15);         |
// |                        | explain() names them                                                                    |
// | UFP4_UNDOCUMENTED_E0M3 | names a data type of tcgen05's descriptors that no manual lists (docs/gpu.md);          |
// |                        | no kernel uses it                                                                       |
// | UFP4_COMPILE_KERNELS      | with `#include <ufp4/cpu/kernels.hpp>`: in the one file that then compiles them for all |
// |                        | others                                                                                  |
//
// The two about CPU kernels need the same instruction set flags (-march) in the files they join.
//
// Set by the environment at run time, not a macro: UFP4_ISA=<name> (see cpu/dispatch.hpp).
#pragma once

#if !defined(UFP4_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define UFP4_NO_EXCEPTIONS 1
#endif
