// ufp4 - bench: what quantize costs to compile.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/quantize.hpp>

ufp4::quantized_matrix<ufp4::nvfp4> narrow(const ufp4::matrix_view<const float>& x) {
  return ufp4::quantize<ufp4::nvfp4>(x);
}

int main() {}
