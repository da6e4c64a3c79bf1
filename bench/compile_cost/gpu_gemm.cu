// ufp4 - bench: what one product of two known formats on a GPU costs to compile.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/cuda.hpp>

ufp4::cuda::status multiply(const ufp4::cuda::context& ctx, const ufp4::cuda::quantized_view<ufp4::nvfp4>& a,
                            const ufp4::cuda::quantized_view<ufp4::nvfp4>& b, const ufp4::matrix_view<float>& c) {
  return ufp4::cuda::quantized_gemm(ctx, a, b, c);
}

int main() {}
