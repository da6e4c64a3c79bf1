// ufp4 - bench: what quantize on a GPU costs to compile.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/cuda.hpp>

ufp4::cuda::status narrow(const ufp4::cuda::context& ctx, const ufp4::matrix_view<const float>& x,
                          const ufp4::cuda::quantized_view<ufp4::nvfp4>& out) {
  return ufp4::cuda::quantize<ufp4::nvfp4>(ctx, x, out);
}

int main() {}
