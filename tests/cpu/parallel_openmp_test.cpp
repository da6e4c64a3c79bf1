// ufp4 - parallel again, in a program that is compiled with OpenMP.
// SPDX-License-Identifier: Apache-2.0
// ctest: openmp
#if defined(_OPENMP)
#include "cpu/parallel_threads_test.cpp"
#else
#include "support/catch.hpp"
#include "support/skip.hpp"

TEST_CASE("the operations' bytes under OpenMP") { support::skip("this compiler has no OpenMP"); }
#endif
