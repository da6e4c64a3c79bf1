// ufp4 - the translation unit of the ODR test that is compiled for any x86-64 (docs/architecture.md, decision 5).
// SPDX-License-Identifier: Apache-2.0
//
// The linker keeps one definition of an inline function that both units emit. If it kept the newer unit's definition of
// a function of this library, this program would crash on an older processor without calling that unit. Prints the hash
// of its own results and, with an argument, also that of the newer unit.
#include "operations.hpp"

#include <cstdio>

#if defined(__AVX__)
#error "this file must be compiled for the baseline, without AVX"
#endif

std::uint64_t hash_in_newer();

int main(int argc, char**) {
  std::printf("%016llx\n", static_cast<unsigned long long>(hash_of_operations()));
  if (argc > 1) std::printf("%016llx\n", static_cast<unsigned long long>(hash_in_newer()));
}
