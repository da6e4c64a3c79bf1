// ufp4 - what tests/debugger/check.py looks at: one object of each type that the debugger scripts print.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#include <vector>

using namespace ufp4;

template <class T>
std::vector<float> values_of(unsigned codes) {
  std::vector<float> values;
  for (unsigned c = 0; c < codes; ++c) values.push_back(static_cast<float>(T::from_bits(static_cast<std::uint8_t>(c))));
  return values;
}

int here(const void*) { return 0; }  // the breakpoint

int main() {
  std::vector<float> x(6 * 40), decoded(6 * 40), plain(6 * 40), apart(6 * 40);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 37) - 18.0f;
  const matrix_view<const float> xv{x.data(), 6, 40};
  const quantized_matrix<nvfp4> matrix = quantize<nvfp4>(xv, random_hadamard<16>{42});
  const any_quantized any = quantize(preset("e1m2_f32"), xv);
  const quantized_view<nvfp4> view = matrix.view();
  const auto segments = quantize<block_format<fp4<E2M1>, e4m3, 16, per_segment<32, float>>>(xv);
  for (std::size_t i = 0; i < x.size(); ++i) decoded[i] = matrix(i / 40, i % 40), plain[i] = any(i / 40, i % 40);
  for (std::size_t i = 0; i < x.size(); ++i) apart[i] = segments(i / 40, i % 40);

  const auto e2m1 = values_of<fp4<E2M1>>(16), e1m2 = values_of<fp4<E1M2>>(16), e3m0 = values_of<fp4<E3M0>>(16),
             integer = values_of<int4>(16), e4 = values_of<e4m3>(256), ue5 = values_of<ue5m3>(256),
             e8 = values_of<e8m0>(256);
  const fp4<E2M1> a{-1.5f};
  const fp4<E1M2> b{1.25f};
  const fp4<E3M0> c{8.0f};
  const int4 d{-3.0f};
  const e4m3 e{448.0f};
  const ue5m3 f{114688.0f};
  const e8m0 g{0.25f};
  const bf16 h{3.0f};
  const fp16 i{-0.5f};
  const void* all[] = {&matrix, &any, &view, &segments, &decoded, &plain, &apart, &a, &b, &c, &d, &e, &f, &g, &h, &i};
  const void* tables[] = {&e2m1, &e1m2, &e3m0, &integer, &e4, &ue5, &e8};
  return here(all) + here(tables);
}
