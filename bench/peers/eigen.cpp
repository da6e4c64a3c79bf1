// ufp4 - benches against other libraries: Eigen, a product of binary32 matrices.
// SPDX-License-Identifier: Apache-2.0
#include <Eigen/Core>

#include "side_by_side.hpp"

int main(int argc, char** argv) {
  using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  constexpr auto n = static_cast<Eigen::Index>(peers::n), k = static_cast<Eigen::Index>(peers::k);
  for (const peers::product& p : peers::products(argc, argv)) {
    const auto m = static_cast<Eigen::Index>(p.m);
    const std::vector<float> x = peers::normal_numbers(p.m * peers::k, 2);
    const matrix left = Eigen::Map<const matrix>(x.data(), m, k);
    const std::vector<matrix> right(peers::copies(p, peers::n * peers::k * 4),
                                    Eigen::Map<const matrix>(peers::weights().data(), n, k));
    matrix result(m, n);
    peers::compare(
        p, peers::ours<ufp4::nvfp4, ufp4::nvfp4>(p, "nvfp4"),
        {"Eigen, binary32", right.size(), [&](std::size_t i) { result.noalias() = left * right[i].transpose(); }});
  }
}
