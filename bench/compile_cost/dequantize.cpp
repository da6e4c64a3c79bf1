// ufp4 - bench: what dequantize costs to compile.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/dequantize.hpp>

void widen(const ufp4::quantized_matrix<ufp4::nvfp4>& q, const ufp4::matrix_view<float>& y) { ufp4::dequantize(q, y); }

int main() {}
