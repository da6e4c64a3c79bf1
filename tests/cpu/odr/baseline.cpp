// ufp4 - the translation unit that is compiled for any x86-64, linked with one that is not (detail/odr_key.hpp).
// SPDX-License-Identifier: Apache-2.0
//
// An inline function that both units emit exists once in the program. If the linker kept the newer unit's copy of one
// of the library's functions, this program would stop on an older processor, although it does not call that unit.
// Prints the hash of its own operations; with an argument also that of the newer unit's.
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
