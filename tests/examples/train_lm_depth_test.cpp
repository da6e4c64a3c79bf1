// ufp4 - tests: the gain of quantized products over a stack of layers.
// SPDX-License-Identifier: Apache-2.0
#include "../../examples/train_lm/depth_gain.hpp"

#include <string>
#include <vector>

#include "train_lm_numeric.hpp"

namespace train_lm_tests {

using namespace train_lm;
using train_lm::index;  // and not the one of <strings.h>

using support::pool;

namespace {

using rows_of_recipes = std::vector<std::vector<depth_row>>;

rows_of_recipes measured(const depth_setting& s, const std::vector<std::string>& recipes,
                         const std::vector<index>& depths) {
  return measure_depth(s, recipes, depths, pool());
}

}  // namespace

TEST_CASE("bf16 products keep the signal over 8 layers", "[train_lm]") {
  for (const auto kind : {stack_kind::chain, stack_kind::residual})
    for (const bool outliers : {false, true}) {
      const depth_setting s{.kind = kind, .outliers = outliers, .draw = 3, .width = 64, .tokens = 64};
      const depth_row row = measured(s, {"bf16"}, {8})[0][0];
      CHECK(row.layers == 8);
      CHECK(row.gain == Approx(1).margin(0.02));
      CHECK(row.cosine > 0.999);
    }
}

TEST_CASE("a depth has the same gain whichever other depths and recipes are measured", "[train_lm]") {
  const depth_setting s{.kind = stack_kind::residual, .draw = 5, .width = 64, .tokens = 64};
  const rows_of_recipes all = measured(s, {"ufp4", "e2m1-rht-none"}, {1, 2, 4});
  const rows_of_recipes one = measured(s, {"e2m1-rht-none"}, {4});
  CHECK(all[1][2].gain == one[0][0].gain);
  CHECK(all[1][2].cosine == one[0][0].cosine);
  CHECK(all[0][2].gain != all[1][2].gain);
}

TEST_CASE("a chain's gain after one layer is that of the quantized operands' exact product", "[train_lm]") {
  const depth_setting s{.kind = stack_kind::chain, .draw = 7, .width = 64, .tokens = 64};
  const matrix<float> x = initial_weights<float>(7, 0xFFFFFFFF, 64, 64, 1);
  const matrix<float> w = initial_weights<float>(7, 0, 64, 64, 0.125);
  const auto rounded = [](const matrix<float>& m) {
    matrix<float> q(m.rows(), m.cols());
    ufp4::fake_quantize<ufp4::e2m1_f32>(view_of(m), view_of(q), pool().context());
    return q;
  };
  const matrix<double> y = x.cast<double>() * w.cast<double>().transpose();
  const matrix<double> q = rounded(x).cast<double>() * rounded(w).cast<double>().transpose();
  CHECK(measured(s, {"e2m1-rht-none"}, {1})[0][0].gain ==
        Approx(y.cwiseProduct(q).sum() / y.squaredNorm()).epsilon(1e-5));
}

TEST_CASE("outliers are one channel in 16, 8 times as large, at the same mean square", "[train_lm]") {
  const matrix<float> scales = detail::channel_scales({.outliers = true, .width = 64});
  CHECK(scales.squaredNorm() == Approx(64));
  for (index c = 0; c < 64; ++c) CHECK(scales(0, c) == Approx((c % 16 == 0 ? 8 : 1) * scales(0, 1)));
}

}  // namespace train_lm_tests
