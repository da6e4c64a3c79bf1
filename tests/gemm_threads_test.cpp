// ufp4 - quantized_gemm on many threads: no data race, the same bits.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/gemm.hpp>

#include "support/catch.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

#include <stdexcept>
#include <thread>
#include <vector>

using namespace ufp4;

namespace {

constexpr std::size_t m = 200, n = 140, k = 300;

struct problem {
  std::vector<float> xs, ws;
  matrix_view<const float> x, w;
  quantized_matrix<nvfp4> qx;
  quantized_matrix<e1m2_f32> qw;

  explicit problem(std::mt19937_64 gen)
      : xs(model::wide_floats(gen, m * k)), ws(model::wide_floats(gen, n * k)), x(xs.data(), m, k), w(ws.data(), n, k) {
    qx = quantize<nvfp4>(x, cpu::context{.threads = 1});
    qw = quantize<e1m2_f32>(w, cpu::context{.threads = 1});
  }
};

}  // namespace

TEST_CASE("tiles of C on several threads do not touch each other", "[gemm][threads]") {
  INFO(support::seed_note());
  const problem p(std::mt19937_64{support::seed(0)});
  for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks, accumulate::folded_bf16}) {
    support::guarded<ufp4::bf16> alone(m * n), together(m * n);
    quantized_gemm(p.qx, p.qw, matrix_view<ufp4::bf16>{alone.data(), m, n}, {.accumulate = mode},
                   cpu::context{.threads = 1});
    for (const int threads : {2, 3, 5, 16}) {
      quantized_gemm(operand<nvfp4>(p.x), operand<e1m2_f32>(p.w), matrix_view<ufp4::bf16>{together.data(), m, n},
                     {.accumulate = mode}, cpu::context{.threads = threads});
      REQUIRE(together.same_bytes(alone.span()));
    }
    support::dealt executor{5};
    quantized_gemm(operand<nvfp4>(p.x), p.qw, matrix_view<ufp4::bf16>{together.data(), m, n}, {.accumulate = mode},
                   cpu::context{.executor = executor});
    REQUIRE(together.same_bytes(alone.span()));
    REQUIRE(together.guards_intact());
  }
}

TEST_CASE("several calls at once may read the same operands", "[gemm][threads]") {
  INFO(support::seed_note());
  const problem p(std::mt19937_64{support::seed(1)});
  std::vector<std::vector<float>> results(4, std::vector<float>(m * n));
  std::vector<std::thread> callers;
  for (auto& result : results)
    callers.emplace_back(
        [&] { quantized_gemm(p.qx, p.qw, matrix_view<float>{result.data(), m, n}, cpu::context{.threads = 2}); });
  for (std::thread& caller : callers) caller.join();
  for (const auto& result : results) REQUIRE(result == results[0]);
}

TEST_CASE("an executor gets every tile once, and its work is what the caller gets", "[gemm][threads]") {
  INFO(support::seed_note());
  const problem p(std::mt19937_64{support::seed(2)});
  std::vector<float> alone(m * n), c(m * n);
  quantized_gemm(p.qx, p.qw, matrix_view<float>{alone.data(), m, n}, cpu::context{.threads = 1});
  support::backwards executor;
  quantized_gemm(p.qx, p.qw, matrix_view<float>{c.data(), m, n}, cpu::context{.executor = executor});
  CHECK(executor.tasks > 1);
  CHECK(c == alone);
}
