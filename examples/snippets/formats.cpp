// ufp4 - the code of docs/formats.md, compiled.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#undef NDEBUG
#include <cassert>
#include <cstddef>
#include <string>
#include <vector>

using namespace ufp4;

template <class T>
float dot(const std::vector<T>& a, const std::vector<T>& b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

int main() {
  const std::size_t M = 48, N = 64, K = 256;
  matrix<float> x(M, K), w(N, K), y(M, N);
  for (std::size_t i = 0; i < M * K; ++i) x.data()[i] = static_cast<float>(i * 7919 % 1009) - 504.0f;
  for (std::size_t i = 0; i < N * K; ++i) w.data()[i] = static_cast<float>(i * 31 % 17) - 8.0f;
  const std::string name = "nvfp4";

  const format_spec& format = preset(name);  // throws and lists the presets if there is none of that name
  any_quantized qx = quantize(format, x);
  any_quantized qw = quantize(format, w);
  quantized_gemm(qx, qw, y);

  // Memory of your own instead: its size in bytes is known before anything is quantized.
  const random_hadamard<64> rht{42};
  const quantized_storage::size size = storage_size(format, M, K, rht.spec());
  std::vector<std::uint8_t> codes(size.codes);
  std::vector<std::byte> scales(size.scales);
  const cpu::context two_threads{.threads = 2};
  any_quantized_view view = quantize_into(format, x, quantized_storage{codes, scales}, rht, two_threads);

  assert(qx(3, 21) == dequantize(qx)(3, 21));
  assert(view(3, 21) == quantize(format, x, rht)(3, 21));
  const std::vector<fp4<E2M1>> ones_and_halves{fp4<E2M1>{1.0f}, fp4<E2M1>{0.5f}};
  assert(dot(ones_and_halves, ones_and_halves) == 1.25f);
  assert(size.codes == M * K / 2 && size.scales == M * K / 16);
}
