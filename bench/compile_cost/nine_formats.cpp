// ufp4 - bench: the cost of one_format.cpp with every preset.
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
  ufp4::detail::for_each_row(ufp4::detail::presets{},
                             [&](auto preset) { multiply_in<typename decltype(preset)::format>(x, w, y, back); });
}

int main() {}
