// ufp4 - std::float16_t and std::bfloat16_t are quantized to the codes and scales of fp16 and bf16 with the same bits.
// SPDX-License-Identifier: Apache-2.0
//
// Compiled as C++23 by tests/compilers.sh. Exit status 77: this compiler or its dialect has neither type.
#include <ufp4/quantize.hpp>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

/// Every bit pattern of 16 bits, in 256 columns.
template <class Ours, class Theirs>
bool same() {
  std::vector<Ours> ours;
  std::vector<Theirs> theirs;
  for (std::uint32_t b = 0; b < 65536; ++b) {
    ours.push_back(std::bit_cast<Ours>(static_cast<std::uint16_t>(b)));
    theirs.push_back(std::bit_cast<Theirs>(static_cast<std::uint16_t>(b)));
  }
  using ufp4::matrix_view, ufp4::quantize, ufp4::e1m2_f32;
  return quantize<e1m2_f32>(matrix_view<const Ours>{ours.data(), 256, 256}) ==
         quantize<e1m2_f32>(matrix_view<const Theirs>{theirs.data(), 256, 256});
}

}  // namespace

int main() {
  int wrong = 0;
#if !defined(__STDCPP_FLOAT16_T__) && !defined(__STDCPP_BFLOAT16_T__)
  std::puts("SKIPPED: neither std::float16_t nor std::bfloat16_t");
  return 77;
#endif
#if defined(__STDCPP_FLOAT16_T__)
  if (!same<ufp4::fp16, std::float16_t>()) wrong = std::puts("std::float16_t is not read as fp16");
#endif
#if defined(__STDCPP_BFLOAT16_T__)
  if (!same<ufp4::bf16, std::bfloat16_t>()) wrong = std::puts("std::bfloat16_t is not read as bf16");
#endif
  return wrong == 0 ? 0 : 1;
}
