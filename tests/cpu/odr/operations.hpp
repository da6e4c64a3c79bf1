// ufp4 - what the translation units of the tests call, each compiled with other flags.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/gemm.hpp>

namespace {

/// FNV-1a of the results of quantize, dequantize and quantized_gemm for one input: the same on every machine. Two
/// threads, so that the code that starts threads runs, too.
std::uint64_t hash_of_operations() {
  using namespace ufp4;
  constexpr std::size_t m = 37, n = 70, k = 200;
  static float x[m * k], w[n * k], c[m * n], back[m * k];  // not std::vector, whose functions this test does not cover
  std::uint32_t state = 1;
  const auto fill = [&state](float* values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      state = state * 1664525u + 1013904223u;
      values[i] = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f;
    }
  };
  fill(x, m * k);
  fill(w, n * k);
  std::uint64_t hash = 0xCBF29CE484222325u;
  const auto add = [&hash](const void* data, std::size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 0x100000001B3u;
  };
  const cpu::context context{.threads = 2};
  const gemm_options exactly{.accumulate = accumulate::exact_blocks};
  const matrix_view<const float> left{x, m, k}, right{w, n, k};
  const random_hadamard<32> transform{5};
  const auto a = quantize<nvfp4>(left, transform, stochastic{.seed = 3}, context);
  const auto b = quantize<nv_e1m2>(right, transform, context);
  add(a.codes().data(), a.codes().size());
  add(a.scales().data(), a.scales().size());
  add(b.codes().data(), b.codes().size());
  quantized_gemm(a, b, matrix_view<float>{c, m, n}, exactly, context);
  add(c, sizeof c);
  quantized_gemm(unquantized(left, transform), b, matrix_view<float>{c, m, n}, exactly, context);
  add(c, sizeof c);
  dequantize(a, matrix_view<float>{back, m, k}, context);
  add(back, sizeof back);
  return hash;
}

}  // namespace
