// ufp4 - tests: routing and the experts' part of train_lm, at its edges.
// SPDX-License-Identifier: Apache-2.0
#include "../../examples/train_lm/moe.hpp"

#include "../../examples/train_lm/swiglu.hpp"
#include "train_lm_numeric.hpp"

namespace train_lm_tests {

using namespace train_lm;
using train_lm::index;  // and not the one of <strings.h>

using support::check_gradient;
using support::inner;
using support::pool;
using support::random_matrix;

namespace {

/// Tokens, a router and what came of them; x's first column is 1, so that a router can prefer an expert outright.
template <class T>
struct routed {
  routing_shape shape;
  matrix<T> x, router;
  routing<T> r;

  routed(const routing_shape& s, index tokens, index width, double spread) : shape(s) {
    std::mt19937_64 gen{support::seed(1)};
    x = random_matrix<T>(gen, tokens, width);
    x.col(0).setOnes();
    router = random_matrix<T>(gen, s.experts, width, spread);
  }
  routing<T>& run() {
    route(pool(), shape, x, router, r);
    return r;
  }
};

/// Every promise of a routing that does not depend on values.
template <class T>
void check_places(const routed<T>& a) {
  const routing_shape& s = a.shape;
  const index tokens = a.x.rows(), each = tokens / s.microbatches;
  const auto& begin = a.r.segments.begin;
  REQUIRE(begin.size() == static_cast<std::size_t>(s.experts * s.microbatches + 1));
  REQUIRE(a.r.token_of.size() == a.r.segments.rows());
  for (std::size_t part = 0; part + 1 < begin.size(); ++part) {
    const auto e = static_cast<index>(part) / s.microbatches, m = static_cast<index>(part) % s.microbatches;
    const index count = a.r.counts[static_cast<std::size_t>(m * s.experts + e)];
    CHECK(begin[part] % 16 == 0);
    CHECK(begin[part + 1] - begin[part] == static_cast<std::size_t>((count + 15) / 16 * 16));
    index last = -1;
    for (std::size_t row = begin[part]; row < begin[part + 1]; ++row) {
      const index token = a.r.token_of[row];
      if (static_cast<index>(row - begin[part]) >= count) {
        CHECK(token == -1);
        continue;
      }
      CHECK(token > last);  // in order, none twice
      CHECK(token / each == m);
      last = token;
      bool asked = false;
      for (index c = 0; c < s.top_k; ++c) {
        const auto at = static_cast<std::size_t>(token * s.top_k + c);
        asked = asked || (a.r.chosen[at] == e && a.r.row_of[at] == static_cast<index>(row));
      }
      CHECK(asked);
    }
  }
  index assigned = 0;
  for (const index c : a.r.counts) assigned += c;
  CHECK(assigned == tokens * s.top_k);
}

}  // namespace

TEST_CASE("a token goes to the k most probable experts, with weights that sum to 1 in falling order", "[train_lm]") {
  routed<double> a({16, 2, 5, 3}, 64, 8, 1);
  const routing<double>& r = a.run();
  check_places(a);
  for (index t = 0; t < 64; ++t) {
    matrix<double> p = (a.x.row(t) * a.router.transpose()).array().exp();
    p /= p.sum();
    CHECK((r.probabilities.row(t) - p).norm() < 1e-14);
    CHECK(r.weights.row(t).sum() == Approx(1));
    double chosen = 0;
    for (index c = 0; c < 3; ++c) chosen += p(r.chosen[static_cast<std::size_t>(t * 3 + c)]);
    for (index c = 0; c < 3; ++c)
      CHECK(r.weights(t, c) == Approx(p(r.chosen[static_cast<std::size_t>(t * 3 + c)]) / chosen));
    CHECK(r.weights(t, 0) >= r.weights(t, 1));
    CHECK(r.weights(t, 1) >= r.weights(t, 2));
    index above = 0;  // nobody who was left out is more probable than the last one chosen
    for (index e = 0; e < 5; ++e) above += p(e) > p(r.chosen[static_cast<std::size_t>(t * 3 + 2)]);
    CHECK(above == 2);
  }
}

TEST_CASE("equally probable experts are taken in their order, and their load-balancing loss is 1", "[train_lm]") {
  routed<float> a({16, 1, 4, 2}, 32, 8, 0);  // a router of zeros
  const routing<float>& r = a.run();
  check_places(a);
  for (index t = 0; t < 32; ++t) {
    CHECK(r.chosen[static_cast<std::size_t>(t * 2)] == 0);
    CHECK(r.chosen[static_cast<std::size_t>(t * 2 + 1)] == 1);
    CHECK(r.weights(t, 0) == 0.5f);
  }
  CHECK(r.balance_loss[0] == 1);  // P is even, whatever f is
}

TEST_CASE("with every token on one expert the others have no rows, and the load-balancing loss is their number",
          "[train_lm]") {
  routed<float> a({16, 2, 4, 1}, 64, 8, 0);
  a.router(2, 0) = 80;
  const routing<float>& r = a.run();
  check_places(a);
  CHECK(r.segments.expert_offsets() == std::vector<std::size_t>{0, 0, 0, 64, 64});
  for (const double loss : r.balance_loss) CHECK(loss == Approx(4));
}

TEST_CASE("an expert of one token has one segment of 16 rows, zeros below the first", "[train_lm]") {
  routed<float> a({16, 2, 3, 1}, 32, 8, 0);
  a.router(1, 0) = 5;
  a.x(20, 1) = 1000, a.router(0, 1) = 1;
  a.x.col(1) = (a.x.col(1).array() > 999).select(a.x.col(1), 0.0f);
  const routing<float>& r = a.run();
  check_places(a);
  CHECK(r.segments.begin == std::vector<std::size_t>{0, 0, 16, 32, 48, 48, 48});
  matrix<float> rows;
  gather_tokens(pool(), r, a.x, rows);
  CHECK(rows.row(0) == a.x.row(20));
  CHECK(rows.middleRows(1, 15).isZero(0));
  CHECK(rows.middleRows(32, 4) == a.x.middleRows(16, 4));
}

TEST_CASE("experts' combined answers are those of asking each token's experts one by one", "[train_lm]") {
  routed<double> a({16, 2, 4, 2}, 64, 16, 1);
  a.router.row(3).setConstant(-100), a.router(3, 0) = -1e4;  // nobody asks the last one
  const routing<double>& r = a.run();
  check_places(a);
  CHECK(r.segments.expert_offsets()[3] == r.segments.expert_offsets()[4]);
  std::mt19937_64 gen{support::seed(2)};
  const matrix<double> gate_up = random_matrix(gen, 4 * 32, 16, 0.3), down = random_matrix(gen, 4 * 16, 16, 0.3);
  plain_engine<double> engine;
  matrix<double> rows, hidden, activated, answers, y = a.x;
  gather_tokens(pool(), r, a.x, rows);
  engine.forward(0, r.segments, rows, gate_up, hidden);
  swiglu_forward(pool(), hidden, activated);
  engine.forward(1, r.segments, activated, down, answers);
  combine_answers(pool(), a.shape, r, answers, y);
  for (index t = 0; t < 64; ++t) {
    matrix<double> expected = a.x.row(t);
    for (index c = 0; c < 2; ++c) {
      const index e = r.chosen[static_cast<std::size_t>(t * 2 + c)];
      const matrix<double> h = a.x.row(t) * gate_up.middleRows(e * 32, 32).transpose();
      const matrix<double> s = h.leftCols(16).array() / (1 + (-h.leftCols(16).array()).exp()) * h.rightCols(16).array();
      expected += r.weights(t, c) * s * down.middleRows(e * 16, 16).transpose();
    }
    CHECK((y.row(t) - expected).norm() < 1e-12);
  }
}

TEST_CASE("gathering, combining and routing have the gradients of their formulas", "[train_lm]") {
  routed<double> a({16, 2, 4, 2}, 64, 8, 1);
  a.run();
  std::mt19937_64 gen{support::seed(3)};
  const auto height = static_cast<index>(a.r.segments.rows());
  const matrix<double> up = random_matrix(gen, 64, 8), on_rows = random_matrix(gen, height, 8);
  const matrix<double> on_weights = random_matrix(gen, 64, 2);
  matrix<double> rows, dx, answers = random_matrix(gen, height, 8), danswers, dweights;

  gather_backward(pool(), a.shape, a.r, on_rows, dx);
  check_gradient(a.x, dx, [&] {
    gather_tokens(pool(), a.r, a.x, rows);
    return inner(on_rows, rows);
  });

  const auto combined = [&] {
    matrix<double> y = matrix<double>::Zero(64, 8);
    combine_answers(pool(), a.shape, a.r, answers, y);
    return inner(up, y);
  };
  combine_backward(pool(), a.shape, a.r, up, answers, danswers, dweights);
  check_gradient(answers, danswers, combined, 200);
  check_gradient(a.r.weights, dweights, combined);
  for (std::size_t i = 0; i < a.r.token_of.size(); ++i)
    if (a.r.token_of[i] < 0) CHECK(danswers.row(static_cast<index>(i)).isZero(0));

  const double balance = 0.7;
  const auto objective = [&] {
    a.run();
    double sum = inner(on_weights, a.r.weights);
    for (const double b : a.r.balance_loss) sum += balance * b;
    return sum;
  };
  objective();
  const matrix<double> start = random_matrix(gen, 64, 8);
  matrix<double> dlogits, drouter(2 * 4, 8);
  dx = start;
  route_backward(pool(), a.shape, a.r, a.x, a.router, on_weights, balance, dlogits, dx, drouter);
  check_gradient(a.x, dx - start, objective, 200);
  check_gradient(a.router, drouter.topRows(4) + drouter.bottomRows(4), objective);
}

}  // namespace train_lm_tests
