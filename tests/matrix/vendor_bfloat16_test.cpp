// ufp4 - the GPU vendors' 16-bit types are read by their bits.
// SPDX-License-Identifier: Apache-2.0
// ctest: separate
#include <ufp4/cuda/bfloat16.hpp>
#include <ufp4/hip/bfloat16.hpp>
#include <ufp4/quantize.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <vector>

// As the vendors' headers define them: one 16-bit number.
struct __half {
  std::uint16_t bits;
};
struct __nv_bfloat16 {
  std::uint16_t bits;
};
struct __hip_bfloat16 {
  std::uint16_t bits;
};

using namespace ufp4;

TEMPLATE_TEST_CASE("a vendor's 16-bit type gives the codes of the library's type of the same bits", "[matrix]",
                   ::__half, ::__nv_bfloat16, ::__hip_bfloat16) {
  using ours = std::conditional_t<std::is_same_v<TestType, ::__half>, fp16, bf16>;
  std::vector<ours> x;
  std::vector<TestType> theirs;
  for (int i = 0; i < 96; ++i) x.push_back(ours(static_cast<float>(i * i % 37) - 11));
  for (const ours v : x) theirs.push_back({v.bits()});
  CHECK(quantize<nvfp4>(matrix_view<const TestType>(theirs.data(), 2, 48)) ==
        quantize<nvfp4>(matrix_view<const ours>(x.data(), 2, 48)));
}
