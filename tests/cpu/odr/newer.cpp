// ufp4 - the translation unit that is compiled for newer processors.
// SPDX-License-Identifier: Apache-2.0
#include "operations.hpp"

#if !defined(__AVX2__)
#error "this file is compiled with -mavx512f and more, or -march=native: that is the test"
#endif

std::uint64_t hash_in_newer() { return hash_of_operations(); }
