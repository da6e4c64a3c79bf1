// ufp4 - GPU benchmark: operations beside a copy, a linear layer's step, every kernel of a product beside cuBLAS.
// SPDX-License-Identifier: Apache-2.0
//
// tests/gpu/borrowed.sh builds and runs it; measure.hpp describes arguments and output. Operands are rotated over four
// sets or more, which together exceed the last-level cache, or are larger than it. The first rows are those that most
// depends on, in case the time ends.
#define UFP4_EXPERIMENTAL  // times what a program would not choose, too
#include "gpu/measure.hpp"

#if defined(__CUDACC__) && !defined(UFP4_BENCH_WITHOUT_CUBLAS)
#define HAS_CUBLAS 1
#endif
#include "gpu/layer_rows.hpp"

int main(int argc, char** argv) {
  bench::start(argc, argv);
#if defined(HAS_CUBLAS)
  const ufp4::gpu::cublas installed;  // as in a program that links it
  bench::require(installed.made());
#endif
  bench::warm_up();
  bench::memory_rows();
  bench::layer_rows();
  bench::product_rows();
  bench::line("end").print();
  return bench::now().failed ? 1 : 0;
}
