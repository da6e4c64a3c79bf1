// ufp4 - tests: train_lm's engines. recipe_engine against numerics 7, and against itself on other threads and ranks.
// SPDX-License-Identifier: Apache-2.0
// ctest: threads
#include "../../examples/train_lm/linear.hpp"

#include <barrier>
#include <thread>

#include "../../examples/train_lm/model.hpp"
#include "../../examples/train_lm/optimizer.hpp"
#include "recipe/linear_model.hpp"
#include "train_lm_numeric.hpp"

namespace train_lm_tests {

using namespace train_lm;
using train_lm::index;  // and not the one of <strings.h>

using support::random_matrix;
using ufp4::quantized_gemm, ufp4::row_range, ufp4::tensor_amax, ufp4::transpose;

namespace {

using nvfp4_square = ufp4::block_format<ufp4::fp4<ufp4::E2M1>, ufp4::e4m3, ufp4::square(16), float>;

constexpr std::uint64_t step = 11;
constexpr std::uint32_t layer = 6;

/// X, W, dY of an expert layer: three experts, two microbatches, one expert without tokens, rows of zeros at some ends.
struct problem {
  token_segments segments;
  index inputs = 48, outputs = 32;
  matrix<float> x, w, dy;

  explicit problem(token_segments s) : segments(std::move(s)) {
    std::mt19937_64 gen{support::seed(1)};
    const auto rows = static_cast<index>(segments.rows());
    x = random_matrix<float>(gen, rows, inputs);
    dy = random_matrix<float>(gen, rows, outputs, 1e-3);
    w = random_matrix<float>(gen, static_cast<index>(segments.experts) * outputs, inputs, 0.1);
    x.row(rows - 1).setZero(), dy.row(rows - 1).setZero();
  }
};
problem mixture() { return problem({3, 2, {0, 32, 48, 48, 48, 64, 112}}); }
problem dense() { return problem(token_segments::dense(96, 2)); }

struct results {
  matrix<float> y, dx, dw;
  bool operator==(const results& other) const {
    const auto same = [](const matrix<float>& a, const matrix<float>& b) {
      return a.rows() == b.rows() && a.cols() == b.cols() &&
             std::equal(a.data(), a.data() + a.size(), b.data(), [](float p, float q) {
               return std::bit_cast<std::uint32_t>(p) == std::bit_cast<std::uint32_t>(q);
             });
    };
    return same(y, other.y) && same(dx, other.dx) && same(dw, other.dw);
  }
};

template <class Engine>
results through(Engine& engine, const problem& p) {
  results r;
  engine.forward(layer, p.segments, p.x, p.w, r.y);
  engine.backward_input(layer, p.segments, p.dy, p.w, r.dx);
  engine.backward_weight(layer, p.segments, p.dy, p.x, r.dw);
  return r;
}
results through(const ufp4::recipe::training_recipe& recipe, const problem& p, int threads) {
  thread_pool pool(threads);
  recipe_engine engine(recipe, pool);
  engine.begin_step(step);
  return through(engine, p);
}

/// Each operand's parts quantized by themselves, multiplied by quantized_gemm.
template <class Format, class Weight>
results by_definition(const linear_model::policies<Format, Weight>& q, const problem& p) {
  const std::size_t experts = p.segments.experts, microbatches = p.segments.microbatches;
  const auto outputs = static_cast<std::size_t>(p.outputs);
  const auto at = p.segments.expert_offsets();
  const auto& begin = p.segments.begin;
  results r{matrix<float>(p.x.rows(), p.outputs), matrix<float>(p.x.rows(), p.inputs),
            matrix<float>(static_cast<index>(microbatches) * p.w.rows(), p.inputs)};
  const auto of_expert = [&](auto& x, std::size_t e) { return row_range(view_of(x), at[e], at[e + 1] - at[e]); };
  const auto weights = [&](std::size_t e) { return row_range(view_of(p.w), e * outputs, outputs); };
  const auto columns = [&](auto& x, std::size_t part) {
    return transpose(row_range(view_of(x), begin[part], begin[part + 1] - begin[part]));
  };
  const auto amax_of_parts = [&](std::uint32_t gemm, std::size_t parts, const auto& operand) {
    tensor_amax found;
    for (std::size_t i = 0; i < parts; ++i)
      found.value = std::max(found.value, ufp4::amax(operand(i), q.transform(gemm)).value);
    return found;
  };
  const std::size_t parts = experts * microbatches;
  const auto gx = amax_of_parts(0, experts, [&](std::size_t e) { return of_expert(p.x, e); }),
             gw = amax_of_parts(0, experts, weights);
  const auto gdy = amax_of_parts(1, experts, [&](std::size_t e) { return of_expert(p.dy, e); });
  const auto gwt = amax_of_parts(1, experts, [&](std::size_t e) { return transpose(weights(e)); });
  const auto gdyt = amax_of_parts(2, parts, [&](std::size_t i) { return columns(p.dy, i); });
  const auto gxt = amax_of_parts(2, parts, [&](std::size_t i) { return columns(p.x, i); });
  for (std::size_t e = 0; e < experts; ++e) {
    quantized_gemm(q.template nearest<Format>(0, of_expert(p.x, e), gx), q.template nearest<Weight>(0, weights(e), gw),
                   of_expert(r.y, e), {.accumulate = q.mode});
    quantized_gemm(q.gradient(2, static_cast<std::uint32_t>(e), of_expert(p.dy, e), gdy),
                   q.template nearest<Weight>(1, transpose(weights(e)), gwt), of_expert(r.dx, e),
                   {.accumulate = q.mode});
    for (std::size_t m = 0; m < microbatches; ++m) {
      const std::size_t part = e * microbatches + m;
      quantized_gemm(q.gradient(4, static_cast<std::uint32_t>(part), columns(p.dy, part), gdyt),
                     q.template nearest<Format>(2, columns(p.x, part), gxt),
                     row_range(view_of(r.dw), (m * experts + e) * outputs, outputs), {.accumulate = q.mode});
    }
  }
  return r;
}

/// bf16 has no random bits and no tensor scale: each part is a dense layer of its own, whose sums are those of exact
/// products of operands rounded to bf16, up to what binary32 loses.
void check_bf16(const problem& p) {
  const auto now = ufp4::recipe::bf16_recipe(5).at(step, layer);
  const std::size_t experts = p.segments.experts, microbatches = p.segments.microbatches;
  const auto outputs = static_cast<std::size_t>(p.outputs);
  const auto at = p.segments.expert_offsets();
  const auto& begin = p.segments.begin;
  const results got = through(ufp4::recipe::bf16_recipe(5), p, 1);
  results alone{matrix<float>(p.x.rows(), p.outputs), matrix<float>(p.x.rows(), p.inputs),
                matrix<float>(got.dw.rows(), p.inputs)};
  for (std::size_t e = 0; e < experts; ++e) {
    const auto rows = [&](auto& x) { return row_range(view_of(x), at[e], at[e + 1] - at[e]); };
    const auto w = row_range(view_of(p.w), e * outputs, outputs);
    linear_forward(now, rows(p.x), w, rows(alone.y));
    linear_backward_input(now, rows(p.dy), w, rows(alone.dx));
    for (std::size_t m = 0; m < microbatches; ++m) {
      const std::size_t part = e * microbatches + m, count = begin[part + 1] - begin[part];
      linear_backward_weight(now, row_range(view_of(p.dy), begin[part], count),
                             row_range(view_of(p.x), begin[part], count),
                             row_range(view_of(alone.dw), (m * experts + e) * outputs, outputs));
    }
  }
  CHECK(got == alone);

  const auto rounded = [](const matrix<float>& x) {
    return x.unaryExpr([](float v) { return static_cast<double>(static_cast<float>(ufp4::bf16(v))); }).eval();
  };
  plain_engine<double> exact;
  const matrix<double> x = rounded(p.x), w = rounded(p.w), dy = rounded(p.dy);
  matrix<double> y, dx, dw;
  exact.forward(0, p.segments, x, w, y);
  exact.backward_input(0, p.segments, dy, w, dx);
  exact.backward_weight(0, p.segments, dy, x, dw);
  const auto close = [](const matrix<float>& a, const matrix<double>& b) {
    return (a.cast<double>() - b).cwiseAbs().maxCoeff() < 1e-6 * b.cwiseAbs().maxCoeff();
  };
  CHECK(close(got.y, y));
  CHECK(close(got.dx, dx));
  CHECK(close(got.dw, dw));
}

}  // namespace

TEST_CASE("recipe_engine is numerics 7 bit for bit, a microbatch's dW being a part of its own", "[train_lm]") {
  using namespace ufp4;
  for (const problem& p : {mixture(), dense()}) {
    CAPTURE(p.segments.experts);
    CHECK(through(recipe::ufp4_recipe(5), p, 1) ==
          by_definition(linear_model::policies<e1m2_f32>{5, step, layer, {true, true, true}}, p));
    CHECK(through(recipe::nvfp4_recipe(5), p, 1) ==
          by_definition(linear_model::policies<nvfp4, nvfp4_square>{5, step, layer, {false, false, true}, true}, p));
    check_bf16(p);
  }
}

TEST_CASE("an expert without tokens has a gradient of zeros", "[train_lm]") {
  const problem p = mixture();
  for (const auto& recipe :
       {ufp4::recipe::bf16_recipe(1), ufp4::recipe::ufp4_recipe(1), ufp4::recipe::nvfp4_recipe(1)}) {
    const results r = through(recipe, p, 1);
    CHECK(r.dw.allFinite());
    for (index m = 0; m < 2; ++m) {
      const auto of = [&](index e) { return r.dw.middleRows((m * 3 + e) * p.outputs, p.outputs); };
      CHECK(!of(0).isZero(0));
      CHECK(of(1).isZero(0));
      CHECK(!of(2).isZero(0));
    }
  }
}

TEST_CASE("the engines agree up to what rounding costs", "[train_lm]") {
  const problem p = mixture();
  plain_engine<float> plain;
  const results exact = through(plain, p);
  for (const auto& [recipe, error] :
       {std::pair{ufp4::recipe::bf16_recipe(1), 0.005}, std::pair{ufp4::recipe::ufp4_recipe(1), 0.25}}) {
    const results got = through(recipe, p, 1);
    CHECK((got.y - exact.y).norm() < static_cast<float>(error) * exact.y.norm());
    CHECK((got.dx - exact.dx).norm() < static_cast<float>(error) * exact.dx.norm());
    CHECK((got.dw - exact.dw).norm() < static_cast<float>(error) * exact.dw.norm());
  }
}

TEST_CASE("recipe_engine's random bits change with the step, its signs do not, and its seconds are counted",
          "[train_lm]") {
  const problem p = dense();
  thread_pool pool(1);
  recipe_engine engine(ufp4::recipe::ufp4_recipe(1), pool);
  engine.begin_step(1);
  const results one = through(engine, p);
  engine.begin_step(2);
  const results two = through(engine, p);
  CHECK(one.y.isApprox(two.y, 0));
  CHECK(!one.dx.isApprox(two.dx, 0));
  CHECK(!one.dw.isApprox(two.dw, 0));
  const linear_seconds s = engine.seconds();
  CHECK(s.quantize > 0);  // an estimate, on a busy machine as much as the total
  CHECK(s.quantize <= s.total);
  CHECK(s.total == Approx(s.quantize + s.gemm()));
}

// ---- The same bits on other threads and ranks

namespace {

/// Ranks that are threads of this process.
struct shared_exchange {
  explicit shared_exchange(int count) : all(static_cast<std::size_t>(count)), meet(count) {}
  std::vector<std::vector<std::uint64_t>> all;
  std::vector<const microbatch_gradients<float>*> gradients =
      std::vector<const microbatch_gradients<float>*>(all.size());
  std::barrier<> meet;
};
class thread_ranks final : public ranks {
 public:
  thread_ranks(shared_exchange& all, int rank) : all_(all), rank_(rank) {}
  int rank() const override { return rank_; }
  int count() const override { return static_cast<int>(all_.all.size()); }
  float maximum(float here) override {
    const std::uint64_t bits = std::bit_cast<std::uint32_t>(here);
    float most = 0;
    for (const std::uint64_t b : gather(std::span(&bits, 1)))
      most = std::max(most, std::bit_cast<float>(static_cast<std::uint32_t>(b)));
    return most;
  }
  std::vector<std::uint64_t> gather(std::span<const std::uint64_t> here) override {
    all_.all[static_cast<std::size_t>(rank_)].assign(here.begin(), here.end());
    all_.meet.arrive_and_wait();
    std::vector<std::uint64_t> joined;
    for (const auto& part : all_.all) joined.insert(joined.end(), part.begin(), part.end());
    all_.meet.arrive_and_wait();
    return joined;
  }
  void sum(const microbatch_gradients<float>& here, std::vector<matrix<float>>& sums) override {
    all_.gradients[static_cast<std::size_t>(rank_)] = &here;
    all_.meet.arrive_and_wait();
    microbatch_gradients<float> whole;
    for (const auto* g : all_.gradients) {
      whole.microbatches += g->microbatches;
      whole.stacked.resize(g->stacked.size());
      for (std::size_t p = 0; p < g->stacked.size(); ++p) {
        matrix<float>& to = whole.stacked[p];
        const index before = to.rows();
        to.conservativeResize(before + g->stacked[p].rows(), g->stacked[p].cols());
        to.bottomRows(g->stacked[p].rows()) = g->stacked[p];
      }
    }
    all_.meet.arrive_and_wait();
    sum_in_order(whole, sums);
  }

 private:
  shared_exchange& all_;
  int rank_;
};

/// Three steps on one rank's share of a batch of four microbatches; a hash of every bit of the model.
std::uint64_t trained(const model_config& c, const ufp4::recipe::training_recipe& recipe, int threads, ranks& all) {
  thread_pool pool(threads);
  train_lm::model<float> m(c, 1);
  recipe_engine engine(recipe, pool, all);
  adamw<float> optimizer(m.parameters(), {});
  const microbatch_share mine = share_of(all, 4);
  std::mt19937_64 gen{support::seed(4)};
  microbatch_gradients<float> gradients;
  std::vector<matrix<float>> sums;
  pass_statistics s;
  for (std::uint64_t i = 0; i < 3; ++i) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(8 * (c.sequence + 1)));
    for (auto& b : bytes) b = static_cast<std::uint8_t>(gen() % 50);
    const auto first = bytes.begin() + mine.first * 2 * (c.sequence + 1);
    const token_batch batch{mine.each * 2, c.sequence, mine.each, 4, {first, first + mine.each * 2 * (c.sequence + 1)}};
    engine.begin_step(i);
    m.forward_backward(batch, engine, pool, gradients, s);
    all.sum(gradients, sums);
    optimizer.update(m.parameters(), sums, clip_factor(global_norm(sums), 1), 1e-2, pool);
  }
  std::uint64_t hash = 0;
  for (const auto& p : m.parameters())
    for (index i = 0; i < p.value.size(); ++i)
      hash = hash * 0x9E3779B97F4A7C15u + std::bit_cast<std::uint32_t>(p.value.data()[i]);
  return hash;
}

std::uint64_t trained_by_ranks(const model_config& c, const ufp4::recipe::training_recipe& recipe, int count) {
  shared_exchange exchange(count);
  std::vector<std::uint64_t> hash(static_cast<std::size_t>(count));
  std::vector<std::thread> running;
  for (int r = 0; r < count; ++r)
    running.emplace_back([&, r] {
      thread_ranks mine(exchange, r);
      hash[static_cast<std::size_t>(r)] = trained(c, recipe, 1, mine);
    });
  for (std::thread& t : running) t.join();
  for (const std::uint64_t h : hash) CHECK(h == hash[0]);
  return hash[0];
}

}  // namespace

TEST_CASE("training gives the same bits on 1, 2 and 3 threads and on 1, 2 and 4 ranks", "[train_lm]") {
  const model_config dense_model{.layers = 1, .width = 32, .heads = 2, .ffn = 48, .sequence = 32};
  model_config mixture_model = dense_model;
  mixture_model.experts = 3;
  for (const model_config& c : {dense_model, mixture_model})
    for (const auto& recipe :
         {ufp4::recipe::ufp4_recipe(1), ufp4::recipe::nvfp4_recipe(1), ufp4::recipe::bf16_recipe(1)}) {
      CAPTURE(c.experts);
      ranks alone;
      const std::uint64_t expected = trained(c, recipe, 1, alone);
      CHECK(trained(c, recipe, 2, alone) == expected);
      CHECK(trained(c, recipe, 3, alone) == expected);
      CHECK(trained_by_ranks(c, recipe, 2) == expected);
      CHECK(trained_by_ranks(c, recipe, 4) == expected);
    }
}

}  // namespace train_lm_tests
