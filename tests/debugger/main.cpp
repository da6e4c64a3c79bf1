// ufp4 - what tests/debugger/check.py looks at: one object of each type that the debugger scripts print.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#include <vector>

using namespace ufp4;

template <class T>
std::vector<float> values_of(unsigned codes) {
  std::vector<float> values;
  for (unsigned c = 0; c < codes; ++c)
    values.push_back(static_cast<float>(T::from_bits(static_cast<decltype(T{}.bits())>(c))));
  return values;
}

/// The 6 x 40 decoded values of a matrix.
template <class Q>
std::vector<float> decoded_of(const Q& q) {
  std::vector<float> values;
  for (std::size_t i = 0; i < 6 * 40; ++i) values.push_back(q(i / 40, i % 40));
  return values;
}

int here(const void*) { return 0; }  // the breakpoint

int main() {
  std::vector<float> x(6 * 40);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 37) - 18.0f;
  const matrix_view<const float> xv{x.data(), 6, 40};
  const quantized_matrix<nvfp4> matrix = quantize<nvfp4>(xv, random_hadamard<16>{42});
  const any_quantized any = quantize(preset("e1m2_f32"), xv);
  const quantized_view<nvfp4> view = matrix.view();
  const auto segments = quantize<block_format<fp4<E2M1>, e4m3, 16, per_segment<32, float>>>(xv);
  const any_quantized wide = quantize(preset("int8_f32"), xv), ocp = quantize(preset("mxint8"), xv);
  const any_quantized chosen = quantize(preset("if4"), xv), exponents = quantize(preset("hif4"), xv);
  const any_quantized powers = quantize(preset("mxfp4"), xv), eight = quantize(preset("mxfp8_e5m2"), xv);
  const any_quantized six = quantize(preset("mxfp6_e2m3"), xv);
  const auto eight_values = decoded_of(eight), six_values = decoded_of(six);
  const quantized_matrix<block_format<fp4<E1M2>, ue5m3, 8>> unsigned_scales =
      quantize<block_format<fp4<E1M2>, ue5m3, 8>>(xv);
  const quantized_matrix<block_format<int4, bf16, 8>> halves = quantize<block_format<int4, bf16, 8>>(xv);
  const any_quantized_view any_view = any.view();
  const auto decoded = decoded_of(matrix), plain = decoded_of(any), apart = decoded_of(segments),
             bytes = decoded_of(wide), ocp_bytes = decoded_of(ocp), grids = decoded_of(chosen),
             exponent_values = decoded_of(exponents), power_values = decoded_of(powers),
             unsigned_values = decoded_of(unsigned_scales), half_values = decoded_of(halves);

  const auto e2m1 = values_of<fp4<E2M1>>(16), e1m2 = values_of<fp4<E1M2>>(16), e3m0 = values_of<fp4<E3M0>>(16),
             integer = values_of<int4>(16), e4 = values_of<e4m3>(256), ue5 = values_of<ue5m3>(256),
             e8 = values_of<e8m0>(256), e6 = values_of<e6m2>(256), byte = values_of<int8>(256),
             byte_q6 = values_of<int8q6>(256), bfloat = values_of<bf16>(65536), half = values_of<fp16>(65536);
  const fp4<E2M1> a{-1.5f};
  const fp4<E1M2> b{1.25f};
  const fp4<E3M0> c{8.0f};
  const int4 d{-3.0f};
  const e4m3 e{448.0f};
  const ue5m3 f{114688.0f};
  const e8m0 g{0.25f};
  const bf16 h{3.0f};
  const fp16 i{-0.5f};
  const e6m2 j{3.0f};
  const int8 k{-100.0f};
  const int8q6 l{0.5f};
  const void* all[] = {&eight,
                       &six,
                       &eight_values,
                       &six_values,
                       &matrix,
                       &any,
                       &view,
                       &segments,
                       &wide,
                       &ocp,
                       &chosen,
                       &exponents,
                       &powers,
                       &unsigned_scales,
                       &halves,
                       &any_view,
                       &decoded,
                       &plain,
                       &apart,
                       &bytes,
                       &ocp_bytes,
                       &grids,
                       &exponent_values,
                       &power_values,
                       &unsigned_values,
                       &half_values,
                       &a,
                       &b,
                       &c,
                       &d,
                       &e,
                       &f,
                       &g,
                       &h,
                       &i,
                       &j,
                       &k,
                       &l};
  const void* tables[] = {&e2m1, &e1m2, &e3m0, &integer, &e4, &ue5, &e8, &e6, &byte, &byte_q6, &bfloat, &half};
  return here(all) + here(tables);
}
