// ufp4 - bench: what one call of the widest operation costs to compile.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/gemm.hpp>

void multiply(const ufp4::quantized_matrix<ufp4::nvfp4>& a, const ufp4::quantized_matrix<ufp4::nvfp4>& b,
              const ufp4::matrix_view<float>& c) {
  ufp4::quantized_gemm(a, b, c);
}

int main() {}
