// ufp4 - std::mdspan as a matrix_view and back, in every strided layout.
// SPDX-License-Identifier: Apache-2.0
// ctest: separate
#include "support/catch.hpp"
#include "support/skip.hpp"

#include <version>

#if defined(__cpp_lib_mdspan)
#include <ufp4/interop/mdspan.hpp>
#include <vector>

using namespace ufp4;

TEST_CASE("a view of an mdspan reads its elements in any strided layout", "[interop]") {
  std::vector<float> memory(15);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
  const matrix_view<float> rows = interop::view(std::mdspan(memory.data(), 3, 5));
  CHECK(rows.rows() == 3);
  CHECK(rows.cols() == 5);
  CHECK(rows(2, 4) == 14.0f);
  using columns = std::mdspan<const float, std::extents<int, 3, 5>, std::layout_left>;
  const matrix_view<const float> transposed = interop::view(columns(memory.data()));
  CHECK(transposed(2, 4) == 14.0f);
  CHECK(transposed(1, 0) == 1.0f);
  CHECK(transposed(0, 1) == 3.0f);
}

TEST_CASE("span_of reads and writes a view's elements with their strides", "[interop]") {
  std::vector<float> memory(24);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
  const auto s = interop::span_of(matrix_view<float>{memory.data(), 3, 4, 8, 2});
  CHECK(s[2, 3] == 22.0f);
  s[1, 1] = -1.0f;
  CHECK(memory[10] == -1.0f);
}

#else

TEST_CASE("mdspan interoperability", "[interop]") {
  support::skip("this standard library has no <mdspan>, or this is not C++23");
}

#endif
