// ufp4 - quantized_gemm_grouped: each product as if it were alone; and row_range, which cuts experts out of a matrix.
// SPDX-License-Identifier: Apache-2.0
// ctest: threads
#include <ufp4/gemm_grouped.hpp>

#include "support/catch.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

#include <vector>

using namespace ufp4;

namespace {

/// Experts with these many tokens, each with weights of its own: 24 outputs, K = 80.
struct mixture {
  static constexpr std::size_t outputs = 24, inputs = 80;
  std::vector<std::size_t> tokens;
  quantized_matrix<e1m2_f32> all;
  std::vector<quantized_matrix<nvfp4>> weights;
  std::vector<quantized_view<e1m2_f32>> left;
  std::vector<quantized_view<nvfp4>> right;

  mixture(std::mt19937_64& gen, std::vector<std::size_t> counts) : tokens(std::move(counts)) {
    std::size_t total = 0;
    for (const std::size_t t : tokens) total += t;
    all = model::random_quantized<e1m2_f32>(gen, total, inputs);
    std::size_t first = 0;
    for (const std::size_t t : tokens) {
      weights.push_back(model::random_quantized<nvfp4>(gen, outputs, inputs, model::scales::ordinary, 0x1.3p-2f));
      left.push_back(row_range(all, first, t));
      first += t;
    }
    for (const auto& w : weights) right.push_back(w);
  }

  std::vector<matrix_view<float>> cut(float* y) const { return support::row_parts(y, tokens, outputs); }
};

void grouped(const cpu::context& ctx, const mixture& m, const std::vector<matrix_view<float>>& c,
             const gemm_options& options = {}) {
  quantized_gemm_grouped(m.left, m.right, c, options, ctx);
}

}  // namespace

TEST_CASE("every product of a group has the bits of its own quantized_gemm, on any number of threads", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(0)};
  const mixture m(gen, {3, 0, 1, 40, 0, 130, 7, 2});
  const std::size_t size = m.all.rows() * mixture::outputs;
  for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks}) {
    const gemm_options options{.alpha = 0.75f, .beta = -1.5f, .accumulate = mode};
    support::on_every_context([&](const cpu::context& ctx) {
      support::guarded<float> alone(size), together(size);
      for (std::size_t i = 0; i < size; ++i) alone[i] = together[i] = static_cast<float>(i % 17);
      const auto c = m.cut(alone.data());
      for (std::size_t e = 0; e < c.size(); ++e) quantized_gemm(m.left[e], m.right[e], c[e], options, ctx);
      grouped(ctx, m, m.cut(together.data()), options);
      REQUIRE(together.same_bytes(alone.span()));
      REQUIRE(together.guards_intact());
    });
  }
}

TEST_CASE("a group takes prepacked weights, and no products at all", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  const mixture m(gen, {5, 9});
  const std::size_t size = 14 * mixture::outputs;
  std::vector<float> plain(size), packed(size, 1.0f);
  grouped(cpu::context{}, m, m.cut(plain.data()));
  std::vector<prepacked_matrix<nvfp4>> weights;
  for (const auto& w : m.weights) weights.push_back(prepack(w));
  const auto c = m.cut(packed.data());
  quantized_gemm_grouped(std::span(m.left), weights, c);
  REQUIRE(packed == plain);
  grouped(cpu::context{}, mixture(gen, {}), {});
}

TEST_CASE("a group names what is wrong with it before anything is written", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  const mixture m(gen, {5, 9, 5});
  support::guarded<float> y(19 * mixture::outputs), poison(19 * mixture::outputs);
  const auto good = m.cut(y.data());
  const auto rejection = [&](const std::vector<matrix_view<float>>& c, const gemm_options& options = {}) {
    const std::string text = support::rejection([&] { grouped(cpu::context{}, m, c, options); });
    CHECK(y.same_bytes(poison.span()));
    return text;
  };
  CHECK(rejection({good[0], good[1]}) == "quantized_gemm_grouped: 3 left operands, 3 right ones and 2 outputs");
  CHECK(rejection({good[0], good[0], good[2]}) ==
        "quantized_gemm_grouped, product 1: shape mismatch: C has 5 rows, A has 9");
  CHECK(rejection({good[0], good[1], good[0]}) == "quantized_gemm_grouped: C[0] overlaps C[2]");
  const std::vector<float> bias(24);
  CHECK(rejection(good, {.bias = bias}) == "quantized_gemm_grouped: bias has 24 entries; leave it empty");
  auto codes = m.weights[2];  // C of the first product in the weights of the last
  mixture theirs = m;
  theirs.right[2] = codes;
  const matrix_view<float> inside{reinterpret_cast<float*>(codes.codes().data()), 5, 24, 24};
  const std::string text = support::rejection([&] { grouped(cpu::context{}, theirs, {inside, good[1], good[2]}); });
  CHECK(text == "quantized_gemm_grouped: C[0] overlaps an operand of product [2]");
}

TEST_CASE("row_range is a view of rows, whole squares only, within the matrix", "[matrix]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(3)};
  const auto q = model::random_quantized<mxfp4>(gen, 10, 70);
  const auto part = row_range(q, 3, 4);
  REQUIRE((part.rows() == 4 && part.cols() == 70));
  REQUIRE(part.codes().data() == q.codes().data() + 3 * 48);
  REQUIRE(reinterpret_cast<const char*>(part.scales().data()) ==
          reinterpret_cast<const char*>(q.scales().data()) + 3 * 3);
  REQUIRE((part.codes().size() == 4 * 48 && part.scales().size() == 4 * 3));
  REQUIRE(row_range(q.view(), 10, 0).rows() == 0);
  CHECK(support::rejection([&] { row_range(q, 8, 3); }) == "row_range: rows out of range: 8 + 3 > 10");
  const auto squares = model::random_quantized<block_format<fp4<E2M1>, e4m3, square(16), float>>(gen, 40, 40);
  REQUIRE(row_range(squares, 16, 24).scales().size() == 2 * 3);
  CHECK(support::rejection([&] { row_range(squares, 8, 16); }) ==
        "row_range: first must be a multiple of the block's 16 rows, got 8");
}
