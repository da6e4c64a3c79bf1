// ufp4 - the translation unit of the ODR test that is compiled for newer processors.
// SPDX-License-Identifier: Apache-2.0
#include "operations.hpp"

#if !defined(__AVX2__)
#error "this file must be compiled for newer processors, with -mavx512f or -march=native"
#endif

std::uint64_t hash_in_newer() { return hash_of_operations(); }
