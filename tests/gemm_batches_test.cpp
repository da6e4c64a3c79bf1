// ufp4 - quantized_gemm's scratch memory: a left operand packed in several waves, each within 64 MiB (docs/cpu.md).
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/gemm.hpp>

#include "support/catch.hpp"
#include "support/poison.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

using namespace ufp4;

namespace {

/// Any codes, and scales from 1/8 to 2; quick to make, for tens of millions of elements.
quantized_matrix<mxfp4> filled(std::size_t rows, std::size_t cols) {
  quantized_matrix<mxfp4> q(rows, cols);
  std::uint32_t word = 1;
  for (std::uint8_t& byte : q.codes()) byte = static_cast<std::uint8_t>((word = word * 1664525u + 1013904223u) >> 24);
  for (e8m0& scale : q.scales())
    scale = e8m0::from_bits(static_cast<std::uint8_t>(124 + ((word = word * 1664525u + 1013904223u) >> 24) % 5));
  return q;
}

}  // namespace

TEST_CASE("a left operand of several waves gives the bits of its rows a few at a time", "[gemm]") {
  constexpr std::size_t m = 650, n = 40, k = 128 * 1024,
                        few = 50;  // a byte an element, packed: 81 MiB, and 6 MiB a call
  const quantized_matrix<mxfp4> a = filled(m, k), b = filled(n, k);
  support::guarded<float> c(m * n), d(m * n);
  quantized_gemm(a, b, matrix_view<float>{c.data(), m, n}, {.accumulate = accumulate::exact_blocks});
  for (std::size_t row = 0; row < m; row += few)
    quantized_gemm(row_range(a, row, few), b, matrix_view<float>{d.data() + row * n, few, n},
                   {.accumulate = accumulate::exact_blocks});
  REQUIRE(c.same_bytes(d.span()));
  REQUIRE(c.guards_intact());
}

TEST_CASE("tasks that run at once have scratch memory of their own, however many an executor runs", "[gemm]") {
  constexpr std::size_t bytes = 100;
  const detail::buffer<std::byte> memory(cpu::detail::scratch_pool::size(2, bytes));
  cpu::detail::scratch_pool pool(2, bytes, memory.data());
  pool.with([&](std::byte* first) {
    pool.with([&](std::byte* second) {
      pool.with([&](std::byte* third) {  // one more than there are places
        std::memset(first, 1, bytes);
        std::memset(second, 2, bytes);
        std::memset(third, 3, bytes);
        CHECK((first[bytes - 1] == std::byte{1} && second[bytes - 1] == std::byte{2} && second[0] == std::byte{2}));
      });
    });
    pool.with([&](std::byte* again) { CHECK(again != first); });
  });
}
