// ufp4 - bench: what one_format.cpp costs with all nine named formats.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

namespace {

template <class Format>
void multiply_in(const ufp4::matrix_view<const float>& x, const ufp4::matrix_view<const float>& w,
                 const ufp4::matrix_view<float>& y, const ufp4::matrix_view<float>& back) {
  const auto qx = ufp4::quantize<Format>(x);
  ufp4::quantized_gemm(qx, ufp4::quantize<Format>(w), y);
  ufp4::dequantize(qx, back);
}

}  // namespace

void multiply(const ufp4::matrix_view<const float>& x, const ufp4::matrix_view<const float>& w,
              const ufp4::matrix_view<float>& y, const ufp4::matrix_view<float>& back) {
  multiply_in<ufp4::e1m2_f32>(x, w, y, back);
  multiply_in<ufp4::int4_f32>(x, w, y, back);
  multiply_in<ufp4::e2m1_f32>(x, w, y, back);
  multiply_in<ufp4::nvfp4>(x, w, y, back);
  multiply_in<ufp4::nv_e1m2>(x, w, y, back);
  multiply_in<ufp4::nvint4>(x, w, y, back);
  multiply_in<ufp4::mxfp4>(x, w, y, back);
  multiply_in<ufp4::mx_e1m2>(x, w, y, back);
  multiply_in<ufp4::mxint4>(x, w, y, back);
}

int main() {}
