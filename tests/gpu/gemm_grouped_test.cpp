// ufp4 - quantized_gemm_grouped on a GPU: each product as if it were alone, many in a launch.
// SPDX-License-Identifier: Apache-2.0
// ctest: amd
#include "gpu/gemm_check.hpp"

#include "support/rejection.hpp"
#include "support/seed.hpp"

#include <array>
#include <cstring>

using namespace ufp4;
using support::exactly;
using support::text_of;

namespace {

/// Experts with so many tokens, cut out of one matrix, each with weights of its own: 24 outputs.
template <class Left, class Right>
struct mixture {
  static constexpr std::size_t outputs = 24;
  std::vector<std::size_t> tokens;
  quantized_matrix<Left> all;
  std::vector<quantized_matrix<Right>> weights;
  gpu::quantized_matrix<Left> device_all;
  std::vector<gpu::quantized_matrix<Right>> device_weights;
  std::vector<gpu::quantized_view<Left>> left;

  mixture(std::mt19937_64& gen, std::vector<std::size_t> counts, std::size_t inputs) : tokens(std::move(counts)) {
    std::size_t total = 0;
    for (const std::size_t t : tokens) total += t;
    all = model::random_quantized<Left>(gen, total, inputs, model::scales::ordinary, 0x1.1p1f);
    device_all = gpu::quantized_matrix<Left>(all.view());
    std::size_t first = 0;
    for (const std::size_t t : tokens) {
      weights.push_back(model::random_quantized<Right>(gen, outputs, inputs, model::scales::ordinary, 0x1.3p-2f));
      device_weights.emplace_back(weights.back().view());
      left.push_back(gpu::row_range(device_all, first, t));
      first += t;
    }
  }
  std::vector<matrix_view<float>> cut(float* y) const { return support::row_parts(y, tokens, outputs); }
  /// Each product alone, on the host.
  std::vector<float> expected(std::vector<float> c, const gemm_options& options) const {
    const auto parts = cut(c.data());
    std::size_t first = 0;
    for (std::size_t e = 0; e < tokens.size(); ++e) {
      quantized_gemm(row_range(all, first, tokens[e]), weights[e], parts[e], options);
      first += tokens[e];
    }
    return c;
  }
};

template <class Left, class Right>
void check_mixture(const std::vector<std::size_t>& tokens, std::size_t inputs) {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(inputs)};
  const mixture<Left, Right> m(gen, tokens, inputs);
  std::vector<float> start(m.all.rows() * m.outputs);
  for (std::size_t i = 0; i < start.size(); ++i) start[i] = static_cast<float>(i % 17);
  const gemm_options options{.alpha = 0.75f, .beta = -1.5f, .accumulate = accumulate::exact_blocks};
  const std::vector<float> want = m.expected(start, options);
  support::in_every_order([&](const std::string& order) {
    CAPTURE(order);
    const gpu::buffer<float> c{std::span<const float>(start)};
    const auto parts = m.cut(c.data());
    const std::size_t bytes = gpu::workspace_bytes_grouped(gpu::context{}, m.left, m.device_weights, parts, options);
    const gpu::buffer<std::byte> workspace(bytes);
    const gpu::context ctx{.workspace = workspace.span()};
    REQUIRE(text_of(gpu::quantized_gemm_grouped(ctx, m.left, m.device_weights, parts, options)) == "");
    REQUIRE(support::difference(support::on_host(c), want) == "");
  });
}

}  // namespace

TEST_CASE("every product of a group has the bits of its own quantized_gemm on the host", "[gpu]") {
  check_mixture<e1m2_f32, nvfp4>({3, 0, 1, 40, 0, 130, 7, 2}, 80);
  check_mixture<mxfp4, mxint4>({5, 33, 64}, 100);
  check_mixture<block_format<nf4, float, 16>, e2m1_f32>({5, 0, 9}, 33);  // one by one
}

TEST_CASE("more experts than a launch takes, most of them without tokens", "[gpu]") {
  std::vector<std::size_t> tokens;
  for (std::size_t e = 0; e < 75; ++e) tokens.push_back(e % 3 == 0 ? 0 : e % 7);
  check_mixture<nvfp4, nvfp4>(tokens, 32);
}

TEST_CASE("products of a group may differ in every extent", "[gpu]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  std::vector<quantized_matrix<e1m2_f32>> a, b;
  std::vector<gpu::quantized_matrix<e1m2_f32>> da, db;
  std::vector<std::vector<float>> want;
  std::vector<gpu::buffer<float>> c;
  std::vector<matrix_view<float>> out;
  for (std::size_t e = 0; e < 5; ++e) {
    const std::size_t rows = 20 * e + 1, cols = 70 - 13 * e, k = 48 * e;
    a.push_back(model::random_quantized<e1m2_f32>(gen, rows, k));
    b.push_back(model::random_quantized<e1m2_f32>(gen, cols, k));
    da.emplace_back(a.back().view());
    db.emplace_back(b.back().view());
    want.emplace_back(rows * cols);
    c.emplace_back(rows * cols);
    out.emplace_back(c.back().data(), rows, cols);
    quantized_gemm(a.back(), b.back(), matrix_view<float>{want.back().data(), rows, cols}, exactly);
  }
  REQUIRE(text_of(gpu::quantized_gemm_grouped(gpu::context{}, da, db, out, exactly)) == "");
  for (std::size_t e = 0; e < 5; ++e) REQUIRE(support::difference(support::on_host(c[e]), want[e]) == "");

  const auto explained = gpu::explain_grouped(gpu::context{}, da, db, out, exactly);
  REQUIRE(explained.size() == 5);
  for (const gpu::explanation& e : explained) CHECK(std::string(e.kernel) != "gemm_simt");
  if (std::string(explained[3].kernel).ends_with("sm80"))
    CHECK(std::string(explained[0].kernel) == "gemv_blocks_sm80");  // one row
  CHECK(gpu::can_run_grouped(gpu::context{}, da, db, out, exactly));
  out.pop_back();
  CHECK(gpu::explain_grouped(gpu::context{}, da, db, out, exactly).empty());
  CHECK_FALSE(gpu::can_run_grouped(gpu::context{}, da, db, out, exactly));
}

TEST_CASE("mistakes of a group are named as the host names them, and nothing is written", "[gpu]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  const mixture<e1m2_f32, nvfp4> m(gen, {3, 4}, 32);
  const std::vector<float> start(7 * 24, 5.0f);
  const gpu::buffer<float> c{std::span<const float>(start)};
  const auto rejection = [&](const auto& a, const auto& b, const auto& out, const gemm_options& options = {}) {
    const gpu::status s = gpu::quantized_gemm_grouped(gpu::context{}, a, b, out, options);
    CHECK(s.code() == gpu::invalid_argument);
    CHECK(support::difference(support::on_host(c), start) == "");
    return text_of(s);
  };
  auto parts = m.cut(c.data());
  const std::array<gpu::quantized_view<e1m2_f32>, 1> one{m.left[0]};
  CHECK(rejection(one, m.device_weights, parts) ==
        "quantized_gemm_grouped: 1 left operands, 2 right ones and 2 outputs");
  const std::vector<float> bias(24);
  CHECK(rejection(m.left, m.device_weights, parts, {.bias = bias}) ==
        "quantized_gemm_grouped: bias has 24 entries; leave it empty");
  auto wrong = parts;
  wrong[1] = {c.data(), 3, 24};
  CHECK(rejection(m.left, m.device_weights, wrong) ==
        "quantized_gemm_grouped, product 1: shape mismatch: C has 3 rows, A has 4");
  wrong[1] = {c.data() + 24, 4, 24};
  CHECK(rejection(m.left, m.device_weights, wrong) == "quantized_gemm_grouped: C[0] overlaps C[1]");
  CHECK(support::rejection([&] { gpu::row_range(m.device_all, 4, 4); }) == "row_range: rows out of range: 4 + 4 > 7");
}

TEST_CASE("an empty group is nothing", "[gpu]") {
  const std::vector<gpu::quantized_view<nvfp4>> none;
  const std::vector<matrix_view<float>> c;
  CHECK(text_of(gpu::quantized_gemm_grouped(gpu::context{}, none, none, c)) == "");
}
