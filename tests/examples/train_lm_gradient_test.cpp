// ufp4 - tests: the gradients of every layer of train_lm, and of whole models, are those of central differences.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstdint>
#include <set>

#include "../../examples/train_lm/model.hpp"
#include "support/rejection.hpp"
#include "train_lm_numeric.hpp"

namespace train_lm_tests {

using namespace train_lm;
using train_lm::index;  // and not the one of <strings.h>
using train_lm::model;  // and not the namespace of support/model.hpp

using support::check_gradient;
using support::check_gradient_at;
using support::inner;
using support::pool;
using support::random_matrix;

namespace {

std::vector<std::uint8_t> random_bytes(std::mt19937_64& gen, index count) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count));
  for (auto& b : bytes) b = static_cast<std::uint8_t>(gen() % 7 * 31);  // few, so that some stand many times
  return bytes;
}

}  // namespace

TEST_CASE("RMSNorm's gradients are those of its formula, and dx is added to what is there", "[train_lm]") {
  std::mt19937_64 gen{support::seed(1)};
  matrix<double> x = random_matrix(gen, 64, 20), gain = random_matrix(gen, 1, 20);
  const matrix<double> up = random_matrix(gen, 64, 20), start = random_matrix(gen, 64, 20);
  matrix<double> y;
  std::vector<double> inverse;
  const auto f = [&] {
    norm_forward(pool(), 16, x, gain, y, inverse);
    return inner(up, y);
  };
  f();
  for (index i = 0; i < x.rows(); ++i)
    for (index j = 0; j < x.cols(); ++j)
      CHECK(y(i, j) == Approx(x(i, j) * gain(j) / std::sqrt(x.row(i).squaredNorm() / 20 + 1e-5)));
  matrix<double> dx = start, partial, sums(2, 20);
  norm_backward(pool(), 16, up, x, gain, inverse, dx, partial);
  sum_partial_rows(partial, 2, sums);
  check_gradient(x, dx - start, f);
  check_gradient(gain, sums.row(0) + sums.row(1), f);
  // The first microbatch's share is the gradient where the second has no weight.
  matrix<double> first_half = up;
  first_half.bottomRows(32).setZero();
  const matrix<double> share = sums.row(0);
  check_gradient(gain, share, [&] {
    norm_forward(pool(), 16, x, gain, y, inverse);
    return inner(first_half, y);
  });
}

TEST_CASE("RoPE keeps norms, depends on the distance of positions only, and rotate_back is its inverse", "[train_lm]") {
  std::mt19937_64 gen{support::seed(2)};
  const rotary_embedding<double> rope(32, 8, 10000);
  matrix<double> same(64, 16), before;
  const matrix<double> row = random_matrix(gen, 1, 16);
  for (index t = 0; t < 64; ++t) same.row(t) = row;
  before = same;
  rope.rotate(pool(), same, 1);
  CHECK(same.rightCols(8) == before.rightCols(8));  // one head is rotated, the other is not
  CHECK(same.row(0) == before.row(0));              // position 0
  CHECK(same.row(33) == same.row(1));               // the second sequence
  CHECK((same.row(1).leftCols(8) - before.row(1).leftCols(8)).norm() > 0.1);
  CHECK(same.row(9).norm() == Approx(before.row(9).norm()));
  CHECK(same.row(3).leftCols(8).dot(same.row(10).leftCols(8)) ==
        Approx(same.row(20).leftCols(8).dot(same.row(27).leftCols(8))));

  matrix<double> x = random_matrix(gen, 32, 16);
  const matrix<double> up = random_matrix(gen, 32, 16);
  matrix<double> dx = up;
  rope.rotate_back(pool(), dx, 2);
  check_gradient(x, dx, [&] {
    matrix<double> y = x;
    rope.rotate(pool(), y, 2);
    return inner(up, y);
  });
}

TEST_CASE("attention is the softmax of scaled scores over keys up to the query, with its gradients", "[train_lm]") {
  std::mt19937_64 gen{support::seed(3)};
  const attention_shape s{2, 80, 2, 4};  // more than one block of queries
  matrix<double> qkv = random_matrix(gen, 160, 24, 1.5), out, log_sum;
  const matrix<double> up = random_matrix(gen, 160, 8);
  const auto f = [&] {
    attention_forward(pool(), s, qkv, out, log_sum);
    return inner(up, out);
  };
  f();
  for (const index t : {0, 1, 63, 64, 79, 80, 133})
    for (index h = 0; h < 2; ++h) {
      const index first = t / 80 * 80;
      matrix<double> expected = matrix<double>::Zero(1, 4);
      double sum = 0;
      for (index u = first; u <= t; ++u) {
        const double p = std::exp(qkv.row(t).segment(4 * h, 4).dot(qkv.row(u).segment(8 + 4 * h, 4)) / 2);
        expected += p * qkv.row(u).segment(16 + 4 * h, 4);
        sum += p;
      }
      CAPTURE(t, h);
      CHECK((out.row(t).segment(4 * h, 4) - expected / sum).norm() < 1e-12);
    }
  matrix<double> dqkv;
  attention_backward(pool(), s, up, qkv, out, log_sum, dqkv);
  check_gradient(qkv, dqkv, f, 300);
}

TEST_CASE("no bit of attention depends on a later token", "[train_lm]") {
  std::mt19937_64 gen{support::seed(4)};
  const attention_shape s{1, 96, 2, 8};
  matrix<float> qkv = random_matrix<float>(gen, 96, 48), out, after, log_sum;
  attention_forward(pool(), s, qkv, out, log_sum);
  qkv.bottomRows(30).setConstant(1e30f);
  attention_forward(pool(), s, qkv, after, log_sum);
  CHECK(out.topRows(66) == after.topRows(66));
}

TEST_CASE("SwiGLU's gradients are those of silu(gate) * up", "[train_lm]") {
  std::mt19937_64 gen{support::seed(5)};
  matrix<double> gate_up = random_matrix(gen, 32, 24, 2), y;
  const matrix<double> up = random_matrix(gen, 32, 12);
  const auto f = [&] {
    swiglu_forward(pool(), gate_up, y);
    return inner(up, y);
  };
  f();
  CHECK(y(3, 5) == Approx(gate_up(3, 5) / (1 + std::exp(-gate_up(3, 5))) * gate_up(3, 17)));
  matrix<double> d;
  swiglu_backward(pool(), up, gate_up, d);
  check_gradient(gate_up, d, f, 800);
}

TEST_CASE("the head's loss is the mean of -log softmax, with the gradients of x and of W by microbatch", "[train_lm]") {
  std::mt19937_64 gen{support::seed(6)};
  matrix<double> x = random_matrix(gen, 64, 6), w = random_matrix(gen, 256, 6), logits, dx;
  const auto targets = random_bytes(gen, 64);
  std::vector<double> losses;
  const auto f = [&] {
    head_forward(pool(), 16, x, w, targets, logits, losses);
    return pass_statistics::mean(microbatch_means(losses, 2));
  };
  double expected = 0;
  f();
  for (index t = 0; t < 64; ++t)
    expected += std::log(logits.row(t).array().exp().sum()) - logits(t, targets[static_cast<std::size_t>(t)]);
  CHECK(f() == Approx(expected / 64));
  head_backward(pool(), 16, w, targets, losses, 1.0 / 64, logits, dx);
  matrix<double> dw = matrix<double>::Zero(512, 6);
  add_weight_gradient(pool(), 16, 2, logits, x, dw);
  CHECK(dw.topRows(256).isApprox(logits.topRows(32).transpose() * x.topRows(32)));
  check_gradient(x, dx, f, 400);
  check_gradient(w, dw.topRows(256) + dw.bottomRows(256), f, 100);
}

TEST_CASE("float's e^x, sigmoid and sums along rows are within a few units in the last place", "[train_lm]") {
  const auto exponential = [](float x) { return exponentials(&x, 1, 1.0f, 0.0f), x; };
  const auto sigmoid = [](float x) { return sigmoids(&x, &x, 1), x; };
  for (float x = -86; x < 88; x += 0.0137f) {
    CAPTURE(x);
    const double exact = std::exp(static_cast<double>(x));
    REQUIRE(std::abs(static_cast<double>(exponential(x)) / exact - 1) < 2.5e-7);
    REQUIRE(static_cast<double>(sigmoid(x)) == Approx(1 / (1 + 1 / exact)).epsilon(5e-7));
  }
  CHECK(exponential(0.0f) == 1);
  CHECK(exponential(-1e30f) < 1e-37f);
  CHECK(std::isfinite(exponential(1e30f)));
  CHECK(std::isnan(exponential(std::nanf(""))));
  std::vector<float> values;
  for (int n = 1; n < 70; ++n) {
    values.push_back(static_cast<float>(n * 7919 % 101 - 50));  // integers: every order gives the sum
    float sum = 0, squares = 0, most = values[0];
    for (const float v : values) sum += v, squares += v * v, most = std::max(most, v);
    CHECK(sum_of(values.data(), n) == sum);
    CHECK(dot(values.data(), values.data(), n) == squares);
    CHECK(maximum_of(values.data(), n) == most);
  }
}

TEST_CASE("e^x and sigmoid of a row have the bits of each value alone, whatever the row's length", "[train_lm]") {
  std::vector<float> row, sigmoid_row;
  for (int n = 1; n < 70; ++n) {
    std::vector<float> x;
    for (int i = 0; i < n; ++i) x.push_back(static_cast<float>((i + n) * 7919 % 2003 - 1001) / 9);
    row = x, sigmoid_row.resize(x.size());
    exponentials(row.data(), n, 0.25f, 1.5f);
    sigmoids(x.data(), sigmoid_row.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) {
      float alone = x[i], sigmoid_alone = 0;
      exponentials(&alone, 1, 0.25f, 1.5f);
      sigmoids(&x[i], &sigmoid_alone, 1);
      CHECK(std::bit_cast<std::uint32_t>(row[i]) == std::bit_cast<std::uint32_t>(alone));
      CHECK(std::bit_cast<std::uint32_t>(sigmoid_row[i]) == std::bit_cast<std::uint32_t>(sigmoid_alone));
    }
  }
}

namespace {

/// What the gradients of a pass are gradients of.
double objective(model<double>& m, const token_batch& batch) {
  plain_engine<double> engine;
  pass_statistics s;
  const double here = static_cast<double>(batch.microbatches), all = static_cast<double>(batch.whole_microbatches);
  const double loss = m.loss(batch, engine, pool(), s);
  return (loss + m.config().balance * pass_statistics::mean(s.balance)) * here / all;
}

/// Two places in every row of the embedding that the batch reads: a row that it does not has no gradient to be wrong.
std::vector<index> places_read(const token_batch& batch, index width) {
  const auto length = static_cast<std::size_t>(batch.length + 1);
  std::set<std::uint8_t> read;
  for (std::size_t i = 0; i < batch.bytes.size(); ++i)
    if (i % length != length - 1) read.insert(batch.bytes[i]);  // the last of a row is a target alone
  std::vector<index> places;
  for (const std::uint8_t byte : read)
    for (const index column : {index{byte} % width, index{byte} / 2 % width}) places.push_back(byte * width + column);
  return places;
}

void check_model(model_config c) {
  c.layers = 2, c.width = 16, c.heads = 2, c.ffn = 32, c.sequence = 16;
  std::mt19937_64 gen{support::seed(8)};
  model<double> m(c, 5);
  for (auto& p : m.parameters()) p.value += random_matrix(gen, p.value.rows(), p.value.cols(), 0.3);
  const token_batch batch{4, 16, 2, 6, random_bytes(gen, 4 * 17)};  // two microbatches of a whole of six
  plain_engine<double> engine;
  microbatch_gradients<double> gradients;
  pass_statistics statistics;
  const double loss = m.forward_backward(batch, engine, pool(), gradients, statistics);
  CHECK(loss == m.loss(batch, engine, pool()));
  std::vector<matrix<double>> sums;
  sum_in_order(gradients, sums);
  for (std::size_t p = 0; p < sums.size(); ++p) {
    CAPTURE(m.parameters()[p].name);
    CHECK(sums[p].norm() > 0);
    const auto f = [&] { return objective(m, batch); };
    if (m.parameters()[p].name == "embedding")
      check_gradient_at(places_read(batch, c.width), m.parameters()[p].value, sums[p], f);
    check_gradient(m.parameters()[p].value, sums[p], f, 12);
  }
}

}  // namespace

TEST_CASE("every parameter of a dense model has the gradient of its loss", "[train_lm]") { check_model({}); }
TEST_CASE("every parameter of a tied model has the gradient of its loss", "[train_lm]") { check_model({.tied = true}); }
TEST_CASE("every parameter of a mixture of experts has the gradient of loss and balance", "[train_lm]") {
  check_model({.experts = 3, .top_k = 2, .balance = 0.5});
  check_model({.experts = 4, .top_k = 1, .balance = 0.5});
  check_model({.experts = 2, .top_k = 2, .balance = 0});
}

TEST_CASE("a microbatch's gradient is that of the microbatch alone", "[train_lm]") {
  model_config c{.layers = 1, .width = 16, .heads = 2, .ffn = 16, .sequence = 16, .experts = 3, .top_k = 2};
  model<double> m(c, 3);
  std::mt19937_64 gen{support::seed(9)};
  const token_batch both{4, 16, 2, 2, random_bytes(gen, 4 * 17)};
  plain_engine<double> engine;
  microbatch_gradients<double> together, alone;
  pass_statistics s;
  m.forward_backward(both, engine, pool(), together, s);
  for (index part = 0; part < 2; ++part) {
    const auto first = both.bytes.begin() + part * 2 * 17;
    const token_batch one{2, 16, 1, 2, {first, first + 2 * 17}};
    m.forward_backward(one, engine, pool(), alone, s);
    for (std::size_t p = 0; p < m.parameters().size(); ++p) {
      CAPTURE(part, m.parameters()[p].name);
      CHECK((together.part(p, part) - alone.part(p, 0)).norm() <= 1e-14 * alone.part(p, 0).norm());
    }
  }
}

namespace {
template <class F>
bool rejects(const F& f, const std::string& words) {
  return support::rejection(f).find(words) != std::string::npos;
}
}  // namespace

TEST_CASE("a batch that does not fit is rejected by what is wrong with it", "[train_lm]") {
  model<float> m({.layers = 1, .width = 16, .heads = 1, .ffn = 16, .sequence = 16}, 1);
  plain_engine<float> engine;
  const auto loss = [&](const token_batch& b) { return m.loss(b, engine, pool()); };
  CHECK(rejects([&] { loss({1, 32, 1, 1, std::vector<std::uint8_t>(33)}); },
                "length must be the model's sequence, 16, got 32"));
  CHECK(rejects([&] { loss({3, 16, 2, 2, std::vector<std::uint8_t>(51)}); },
                "sequences must be a positive multiple of microbatches, 2, got 3"));
  CHECK(rejects([&] { loss({2, 16, 2, 1, std::vector<std::uint8_t>(34)}); },
                "whole_microbatches must be at least microbatches, 2, got 1"));
  CHECK(rejects([&] { loss({2, 16, 2, 2, std::vector<std::uint8_t>(33)}); },
                "bytes must have sequences * (length + 1) entries, 34, got 33"));
  CHECK(rejects([&] { model<float>({.width = 24}, 1); }, "width must be a multiple of 16, got 24"));
  CHECK(rejects([&] { model<float>({.heads = 3}, 1); }, "into heads of an even size, got 3"));
  CHECK(rejects([&] { model<float>({.experts = 2, .top_k = 3}, 1); },
                "top_k must be 1 to the number of experts, 2, got 3"));
}

}  // namespace train_lm_tests
