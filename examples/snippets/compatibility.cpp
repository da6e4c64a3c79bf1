// ufp4 - the code of docs/compatibility.md, compiled.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

#undef NDEBUG
#include <cassert>
#include <type_traits>
#include <vector>

int main() {
  std::vector<float> xs(4 * 64, 0.75f);
  const ufp4::matrix_view<const float> x{xs.data(), 4, 64};
  auto q = ufp4::quantize<ufp4::compat::ggml_mxfp4>(x);  // a quantized_matrix<mxfp4>
  static_assert(std::is_same_v<decltype(q), ufp4::quantized_matrix<ufp4::mxfp4>>);
  assert(q.rows() == 4);
}
