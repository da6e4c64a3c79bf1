// ufp4 - tests: AdamW, its schedule and clipping against the formulas in double; the sum of microbatches.
// SPDX-License-Identifier: Apache-2.0
#include "../../examples/train_lm/optimizer.hpp"

#include "../../examples/train_lm/initial_weights.hpp"

#include "train_lm_numeric.hpp"

namespace train_lm_tests {

using namespace train_lm;
using train_lm::index;  // and not the one of <strings.h>

using support::random_matrix;

TEST_CASE("AdamW follows its formula over many steps, with decay on matrices alone", "[train_lm]") {
  const double b1 = 0.8, b2 = 0.97, epsilon = 1e-6, decay = 0.3, factor = 0.25;
  std::mt19937_64 gen{support::seed(1)};
  thread_pool pool(2);
  std::vector<parameter<float>> p{{"w", random_matrix<float>(gen, 5, 7), true},
                                  {"g", random_matrix<float>(gen, 1, 33), false}};
  adamw<float> optimizer(p, {b1, b2, epsilon, decay});
  std::vector<matrix<double>> value, m, v;
  for (const auto& each : p) {
    value.push_back(each.value.cast<double>());
    m.push_back(matrix<double>::Zero(each.value.rows(), each.value.cols()));
    v.push_back(m.back());
  }
  for (int t = 1; t <= 50; ++t) {
    const double rate = 0.01 * t;
    std::vector<matrix<float>> gradients;
    for (std::size_t i = 0; i < 2; ++i) {
      gradients.push_back(random_matrix<float>(gen, p[i].value.rows(), p[i].value.cols(), 1e-2 * t));
      for (index k = 0; k < value[i].size(); ++k) {
        double &x = value[i].data()[k], &mk = m[i].data()[k], &vk = v[i].data()[k];
        const double g = factor * static_cast<double>(gradients[i].data()[k]);
        mk = b1 * mk + (1 - b1) * g;
        vk = b2 * vk + (1 - b2) * g * g;
        const double m_hat = mk / (1 - std::pow(b1, t)), v_hat = vk / (1 - std::pow(b2, t));
        x -= rate * (m_hat / (std::sqrt(v_hat) + epsilon) + (p[i].decays ? decay * x : 0));
      }
    }
    optimizer.update(p, gradients, factor, rate, pool);
    for (std::size_t i = 0; i < 2; ++i) {
      CAPTURE(t, p[i].name);
      CHECK((p[i].value.cast<double>() - value[i]).cwiseAbs().maxCoeff() < 1e-5 * t);
      CHECK((optimizer.first_moments[i].cast<double>() - m[i]).cwiseAbs().maxCoeff() < 1e-6);
      CHECK((optimizer.second_moments[i].cast<double>() - v[i]).cwiseAbs().maxCoeff() < 1e-6);
    }
  }
  CHECK(optimizer.updates == 50);
}

TEST_CASE("the learning rate rises to its peak over the warmup and falls as a cosine to a tenth", "[train_lm]") {
  const learning_rate rate{2.0, 10, 110, 0.1};
  CHECK(rate.at(0) == Approx(0.2));
  CHECK(rate.at(9) == 2.0);
  CHECK(rate.at(59) == Approx(2.0 * 0.55));  // half of the way down
  CHECK(rate.at(109) == Approx(0.2));
  CHECK(rate.at(5000) == Approx(0.2));
  for (std::uint64_t i = 10; i < 109; ++i) CHECK(rate.at(i + 1) < rate.at(i));
  CHECK(learning_rate{1, 0, 4, 0.1}.at(0) < 1);
  CHECK(learning_rate{1, 4, 4, 0.1}.at(3) == 1);  // warmup is all there is
  CHECK(learning_rate{1, 4, 4, 0.1}.at(4) == Approx(0.1));
  CHECK(learning_rate{1, 9, 4, 0.1}.at(3) == Approx(4.0 / 9));  // ended before the warmup did
}

TEST_CASE("a learning rate with floor 0 decays to zero", "[train_lm]") {
  const learning_rate rate{2.0, 10, 110, 0};
  CHECK(rate.at(59) == Approx(1.0));
  CHECK(rate.at(108) > 0);
  CHECK(rate.at(109) == 0);
}

TEST_CASE("the moving average of the weights weighs update i of t with decay^(t - i), without initial weights",
          "[train_lm]") {
  const double decay = 0.75;
  std::mt19937_64 gen{support::seed(3)};
  std::vector<parameter<float>> p{{"w", random_matrix<float>(gen, 5, 7), true},
                                  {"g", random_matrix<float>(gen, 1, 3), false}};
  parameter_average<float> average(p, decay);
  matrix<double> sum = matrix<double>::Zero(5, 7);
  double weights = 0;
  for (std::uint64_t t = 1; t <= 20; ++t) {
    p[0].value = random_matrix<float>(gen, 5, 7);
    average.add(p, t);
    sum = decay * sum + p[0].value.cast<double>();
    weights = decay * weights + 1;
    CHECK((average.means[0].cast<double>() - sum / weights).cwiseAbs().maxCoeff() < 1e-5);
  }
  const matrix<float> last = p[0].value, mean = average.means[0];
  average.exchange(p);
  CHECK(p[0].value == mean);
  average.exchange(p);
  CHECK(p[0].value == last);
  CHECK(parameter_average<float>(p, 0).means.empty());
}

TEST_CASE("the global norm is that of all gradients together, and clipping takes it down to the limit", "[train_lm]") {
  std::mt19937_64 gen{support::seed(2)};
  std::vector<matrix<float>> g{random_matrix<float>(gen, 3, 5), random_matrix<float>(gen, 1, 1),
                               random_matrix<float>(gen, 9, 8)};
  double sum = 0;
  for (const auto& each : g) sum += each.cast<double>().squaredNorm();
  CHECK(global_norm(g) == Approx(std::sqrt(sum)).epsilon(1e-14));
  CHECK(global_norm(g) * clip_factor(global_norm(g), 1) == Approx(1));
  CHECK(clip_factor(0.5, 1) == 1);
  CHECK(clip_factor(0, 1) == 1);
  g[0](0, 0) = 1e30f;  // its square is beyond binary32
  CHECK(global_norm(g) == Approx(1e30));
}

TEST_CASE("microbatches' gradients are summed from left to right", "[train_lm]") {
  microbatch_gradients<float> g;
  g.resize({{"w", matrix<float>(1, 2), true}}, 3);
  g.part(0, 0) << 1e8f, 1;
  g.part(0, 1) << -1e8f, 2;
  g.part(0, 2) << 1, 4;
  std::vector<matrix<float>> sums;
  sum_in_order(g, sums);
  CHECK(sums[0](0, 0) == 1.0f);  // (1e8 - 1e8) + 1; from the right it would be 0
  CHECK(sums[0](0, 1) == 7.0f);
}

TEST_CASE("initial weights follow from seed, number and place alone, and look normal", "[train_lm]") {
  const auto w = initial_weights<float>(1, 2, 64, 64, 0.02);
  CHECK(w == initial_weights<float>(1, 2, 64, 64, 0.02));
  CHECK(initial_weights<float>(1, 2, 3, 64, 0.02) == w.topRows(3));
  CHECK(initial_weights<double>(1, 2, 64, 64, 0.02).cast<float>() == w);
  CHECK(initial_weights<float>(1, 3, 64, 64, 0.02) != w);
  CHECK(initial_weights<float>(2, 2, 64, 64, 0.02) != w);
  const matrix<double> z = initial_weights<double>(7, 0, 400, 400, 1);
  CHECK(z.mean() == Approx(0).margin(0.01));
  CHECK(z.array().square().mean() == Approx(1).margin(0.015));
  CHECK(z.array().pow(4).mean() == Approx(3 - 1.2 / 16).margin(0.06));
}

}  // namespace train_lm_tests
