// ufp4 - the code of docs/faq.md, compiled.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#undef NDEBUG
#include <cassert>
#include <vector>

using namespace ufp4;

int main() {
  std::vector<float> xs(32 * 64);
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(i * 31 % 17) - 8.0f;
  matrix_view<const float> x{xs.data(), 32, 64};

  auto a = quantize<nvfp4>(x);                 // blocks along the columns of x
  auto b = quantize<nvfp4>(transpose(x));      // along its rows; nothing is copied
  const bool equal = a == quantize<nvfp4>(x);  // every code and scale, bit for bit
  const float error_db = static_cast<float>(analysis::measure<nvfp4>(x).sqnr_db);

  assert(equal && error_db > 10 && b.rows() == 64 && b.cols() == 32);
}
