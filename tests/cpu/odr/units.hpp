// ufp4 - the functions of the translation units of pairs.sh. A program links two of them; the others are null.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

struct unit_result {
  std::size_t sizes[16];  ///< of types that units hand to each other
  std::size_t calls[8];   ///< hashes of the names of the types by which a unit calls kernels of another
  const void* pool;       ///< the thread pool: one for the program
  std::uint64_t hash;     ///< of the operations' bytes; 0 if they were not run
};

#define UFP4_TEST_UNITS(unit)                                                                                 \
  unit(baseline) unit(v3) unit(skylake) unit(sapphirerapids) unit(openmp) unit(no_exceptions) unit(some_isas) \
      unit(clang)

#define UFP4_TEST_DECLARE(name) [[gnu::weak]] unit_result unit_##name(bool run);
UFP4_TEST_UNITS(UFP4_TEST_DECLARE)
