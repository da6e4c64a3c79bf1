// ufp4 - a std::span goes into the operations and comes out of them as a matrix of the size that it has.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/interop/span.hpp>

#include <ufp4/dequantize.hpp>
#include <ufp4/quantize.hpp>

#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "support/catch.hpp"
#include "support/rejection.hpp"

using namespace ufp4;

TEST_CASE("a span is quantized and filled as the matrix of its elements, row by row", "[interop]") {
  std::vector<float> values(2 * 32), back(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 8) * 0.25f;
  const std::span<const float> x = values;
  const auto q = quantize<e1m2_f32>(interop::view(x, 2, 32));
  CHECK(q == quantize<e1m2_f32>(matrix_view<const float>{values.data(), 2, 32}));
  dequantize(q, interop::view(std::span(back), 2, 32));
  CHECK(back == values);  // eight steps of E1M2
  std::array<bf16, 6> six{};
  CHECK(interop::view(std::span(six), 3, 2).row_stride() == 2);
}

TEST_CASE("a span of another size is named with both sizes", "[interop]") {
  std::vector<float> values(7), one(1);
  const std::span<float> x = values;
  const auto rejected = [&](std::size_t rows, std::size_t cols) {
    return support::rejection([&] { interop::view(x, rows, cols); });
  };
  CHECK(rejected(2, 3) == "view: x has 7 elements, not 2 x 3");
  CHECK(rejected(2, 4) == "view: x has 7 elements, not 2 x 4");
  CHECK(rejected(1, 0) == "view: x has 7 elements, not 1 x 0");
  const std::size_t most = std::numeric_limits<std::size_t>::max();
  CHECK_FALSE(
      support::rejection([&] { interop::view(std::span(one), most, most); }).empty());  // the product wraps to 1
  CHECK(rejected(7, 1).empty());
  CHECK(interop::view(std::span<float>(), 5, 0).rows() == 5);
}
