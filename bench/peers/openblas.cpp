// ufp4 - benches against other libraries: OpenBLAS, sgemm and sgemv on binary32.
// SPDX-License-Identifier: Apache-2.0
#include <cblas.h>

#include <memory>

#include "side_by_side.hpp"

int main(int argc, char** argv) {
  openblas_set_num_threads(1);
  for (const peers::product& p : peers::products(argc, argv)) {
    const auto m = static_cast<blasint>(p.m), n = static_cast<blasint>(peers::n), k = static_cast<blasint>(peers::k);
    const std::vector<float> x = peers::normal_numbers(p.m * peers::k, 2);
    const std::vector<std::vector<float>> w(peers::copies(p, peers::n * peers::k * 4), peers::weights());
    std::vector<float> y(p.m * peers::n);
    const peers::side theirs{"OpenBLAS sgemm, binary32", w.size(), [&](std::size_t i) {
                               cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1.0f, x.data(), k,
                                           w[i].data(), k, 0.0f, y.data(), n);
                             }};
    peers::compare(p, peers::ours<ufp4::nvfp4, ufp4::nvfp4>(p, "nvfp4"), theirs);
  }
}
