// ufp4 - a first program that uses the library.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#include <vector>

int main() {
  const std::vector<float> ones(64, 1.0f);
  std::vector<float> product(4);
  const ufp4::matrix_view<const float> x{ones.data(), 2, 32};
  const auto q = ufp4::quantize<ufp4::mxfp4>(x);
  ufp4::quantized_gemm(q, q, ufp4::matrix_view<float>{product.data(), 2, 2});
  return product == std::vector<float>(4, 32.0f) ? 0 : 1;
}
