// ufp4 - bench: what a program in one format costs to compile: quantize, multiply, dequantize.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

void multiply(const ufp4::matrix_view<const float>& x, const ufp4::matrix_view<const float>& w,
              const ufp4::matrix_view<float>& y, const ufp4::matrix_view<float>& back) {
  const auto qx = ufp4::quantize<ufp4::nvfp4>(x);
  ufp4::quantized_gemm(qx, ufp4::quantize<ufp4::nvfp4>(w), y);
  ufp4::dequantize(qx, back);
}

int main() {}
