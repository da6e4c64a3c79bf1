// ufp4 - a program for hostile settings: it quantizes, multiplies and prints a hash of the results.
// SPDX-License-Identifier: Apache-2.0
//
// Compiled by tests/compilers.sh behind macros.hpp, without exceptions and RTTI, and in other ways. With an argument it
// causes an error, whose message is printed to stderr before the program aborts.
#include <ufp4/ufp4.hpp>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

// Conversions and comparisons are constants also where g++ 11 has no comparison of floats that is one.
constexpr float not_a_number = __builtin_nanf(""), large = 3e38f;
static_assert(ufp4::int4{not_a_number}.bits() == 7 && ufp4::int4{-large}.bits() == 9 &&
              ufp4::nf4{not_a_number}.bits() == 15);
static_assert(ufp4::int8{not_a_number}.bits() == 127 && ufp4::int8q6{large}.bits() == 127 &&
              ufp4::fp8_e4m3{not_a_number}.bits() == 126);
static_assert(ufp4::fp4<ufp4::E1M2>{not_a_number}.bits() == 7 &&
              ufp4::fp4_remapped<ufp4::E2M1, 5>{not_a_number}.bits() == 7);
static_assert(!(ufp4::e4m3{not_a_number} < 1.0f) && !(ufp4::e4m3{not_a_number} >= ufp4::e4m3{1.0f}) &&
              ufp4::e4m3{1.0f} > 0.5f);

constexpr std::size_t rows = 5, cols = 70;

/// FNV-1a
std::uint64_t hash_of(const void* data, std::size_t size, std::uint64_t hash) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 0x100000001B3u;
  return hash;
}

template <class Format, class... Policies>
std::uint64_t operations(const ufp4::matrix_view<const float>& x, std::uint64_t hash, const Policies&... policies) {
  const auto q = ufp4::quantize<Format>(x, policies...);
  hash = hash_of(q.codes().data(), q.codes().size_bytes(), hash);
  hash = hash_of(q.scales().data(), q.scales().size_bytes(), hash);

  std::vector<float> y(rows * q.padded_cols()), product(rows * rows);
  const ufp4::matrix_view<float> plain{y.data(), rows, cols}, c{product.data(), rows, rows};
  ufp4::dequantize(q, plain);
  hash = hash_of(y.data(), rows * cols * sizeof(float), hash);
  ufp4::fake_quantize<Format>(x, plain, policies..., ufp4::undo_transform{});
  hash = hash_of(y.data(), rows * cols * sizeof(float), hash);

  const ufp4::gemm_options exact{.alpha = 0.5f, .accumulate = ufp4::accumulate::exact_blocks};
  ufp4::quantized_gemm(q, ufp4::operand<Format>(x, policies...), c, exact);
  hash = hash_of(product.data(), product.size() * sizeof(float), hash);
  ufp4::quantized_gemm(q, ufp4::prepack(q), c, exact);
  return hash_of(product.data(), product.size() * sizeof(float), hash);
}

}  // namespace

int main(int count, char**) {
  std::vector<float> values(rows * cols);
  std::uint32_t state = 1;
  for (float& v : values) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-30f;
  }
  const ufp4::matrix_view<const float> x{values.data(), rows, cols};
  if (count > 1) {  // prints a message, and aborts
    float none = 0;
    ufp4::dequantize(ufp4::quantize<ufp4::nvfp4>(x), ufp4::matrix_view<float>{&none, 1, 1});
    return 0;
  }
  std::uint64_t hash = 0xCBF29CE484222325u;
  hash = operations<ufp4::nvfp4>(x, hash, ufp4::random_hadamard<16>{42});
  hash = operations<ufp4::mxfp4>(x, hash, ufp4::mx_even{});
  hash = operations<ufp4::e1m2_f32>(x, hash, ufp4::random_hadamard<64>{7}, ufp4::nearest_away{});
  std::printf("%016llx\n", static_cast<unsigned long long>(hash));
  return 0;
}
