// ufp4 - operations queue and return: none allocates, none waits, so a graph can capture them.
// SPDX-License-Identifier: Apache-2.0
// ctest: amd
#include "gpu/device.hpp"

#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/skip.hpp"

#include <cstdint>
#include <cstring>
#include <vector>

using namespace ufp4;

namespace {

/// Every operation of a training step on a layer, and others, with memory allocated before.
struct step {
  static constexpr std::size_t tokens = 48, inputs = 64, outputs = 32;
  gpu::buffer<float> x, w, dy, transformed, y, dx, dw, plain;
  gpu::quantized_matrix<nvfp4> qx, qw, qx_columns;
  gpu::quantized_matrix<e1m2_f32> ux;
  gpu::buffer<std::byte> work, kept;
  gpu::saved_activation saved;
  recipe::training_recipe now = recipe::nvfp4_recipe(3);

  static std::vector<float> numbers(std::size_t count, std::uint32_t seed) {
    std::vector<float> all;
    for (std::size_t i = 0; i < count; ++i)
      all.push_back(static_cast<float>((static_cast<std::uint32_t>(i) * 2654435761u + seed) >> 16) / 4096.0f - 8.0f);
    return all;
  }
  template <class T>
  static matrix_view<const T> in(const gpu::buffer<T>& b, std::size_t rows, std::size_t cols) {
    return {b.data(), rows, cols};
  }

  step()
      : x(std::span<const float>(numbers(tokens * inputs, 1))),
        w(std::span<const float>(numbers(outputs * inputs, 2))),
        dy(std::span<const float>(numbers(tokens * outputs, 3))),
        transformed(tokens * inputs),
        y(tokens * outputs),
        dx(tokens * inputs),
        dw(outputs * inputs),
        plain(tokens * inputs),
        qx(tokens, inputs, rht()),
        qw(outputs, inputs, rht()),
        qx_columns(inputs, tokens),
        ux(tokens, inputs),
        work(std::size_t{1} << 20) {
    now.accumulate = accumulate::exact_blocks;
    kept = gpu::buffer<std::byte>(gpu::linear_saved_bytes(now.at(0, 0), in(x, tokens, inputs)));
    saved = gpu::saved_activation(kept.span());
  }

  static transform_spec rht() { return random_hadamard<16>{5}.spec(); }

  /// The first message of a rejection, or "".
  std::string queue(gpu::stream where) {
    const gpu::context ctx{where, work.span()};
    const recipe::bound_recipe bound = now.at(2, 1);
    const auto xs = in(x, tokens, inputs), ws = in(w, outputs, inputs), dys = in(dy, tokens, outputs);
    const matrix_view<float> ys{y.data(), tokens, outputs}, dxs{dx.data(), tokens, inputs},
        dws{dw.data(), outputs, inputs};
    std::string wrong;
    const auto expect = [&](const gpu::status& s) { wrong += support::text_of(s); };
    expect(gpu::hadamard_forward(ctx, xs, matrix_view<float>{transformed.data(), tokens, inputs}, hadamard<16>{}));
    expect(gpu::quantize<nvfp4>(ctx, xs, qx.view(), rht(), stochastic{.seed = 1}));
    expect(gpu::quantize<nvfp4>(ctx, ws, qw.view(), rht()));
    expect(gpu::quantize_both<e1m2_f32, nvfp4>(ctx, xs, ux.view(), qx_columns.view()));
    expect(gpu::dequantize(ctx, ux.view(), matrix_view<float>{plain.data(), tokens, inputs}));
    expect(gpu::quantized_gemm(ctx, qx, qw, ys, {.accumulate = accumulate::exact_blocks}));
    expect(gpu::linear_forward(ctx, bound, xs, ws, ys, &saved));
    expect(gpu::linear_backward_input(ctx, bound, dys, ws, dxs));
    expect(gpu::linear_backward_weight(ctx, bound, dys, saved, dws));
    return wrong;
  }

  std::vector<float> results() const {
    std::vector<float> all;
    for (const gpu::buffer<float>* b : {&transformed, &plain, &y, &dx, &dw}) {
      const std::vector<float> part = support::on_host(*b);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
};

}  // namespace

#if !defined(UFP4_SIMT_HEADER)

#if defined(__HIPCC__)
#define RUNTIME(name) hip##name
#else
#define RUNTIME(name) cuda##name
#endif

TEST_CASE("a graph captures every operation, and its replays give the bits of the calls", "[gpu]") {
  step direct, captured;
  REQUIRE(support::text_of(gpu::prepare()) == "");
  REQUIRE(direct.queue(nullptr) == "");
  REQUIRE(RUNTIME(StreamSynchronize)(nullptr) == RUNTIME(Success));

  RUNTIME(Stream_t) stream = nullptr;
  REQUIRE(RUNTIME(StreamCreateWithFlags)(&stream, RUNTIME(StreamNonBlocking)) == RUNTIME(Success));
  RUNTIME(Graph_t) graph = nullptr;
  REQUIRE(RUNTIME(StreamBeginCapture)(stream, RUNTIME(StreamCaptureModeGlobal)) ==
          RUNTIME(Success));  // rejects what waits or allocates
  const std::string wrong = captured.queue(stream);
  REQUIRE(RUNTIME(StreamEndCapture)(stream, &graph) == RUNTIME(Success));
  REQUIRE(wrong == "");
  RUNTIME(GraphExec_t) ready = nullptr;
  REQUIRE(RUNTIME(GraphInstantiateWithFlags)(&ready, graph, 0) == RUNTIME(Success));
  for (int replay = 0; replay < 3; ++replay) {
    captured.y.upload(std::vector<float>(captured.y.size(), 0.0f));
    captured.dw.upload(std::vector<float>(captured.dw.size(), 0.0f));
    REQUIRE(RUNTIME(GraphLaunch)(ready, stream) == RUNTIME(Success));
    REQUIRE(RUNTIME(StreamSynchronize)(stream) == RUNTIME(Success));
    REQUIRE(support::same_bits(captured.results(), direct.results()));
  }
  (void)RUNTIME(GraphExecDestroy)(ready);
  (void)RUNTIME(GraphDestroy)(graph);
  (void)RUNTIME(StreamDestroy)(stream);
}

#else

TEST_CASE("no operation allocates or waits", "[gpu]") {
  step s;
  const simt::host_calls before = simt::calls();
  REQUIRE(s.queue({}) == "");
  CHECK(simt::calls().launches > before.launches + 9);
  CHECK(simt::calls().allocations == before.allocations);
  CHECK(simt::calls().waits == before.waits);
}

TEST_CASE("the same calls on the same memory give the same bits again", "[gpu]") {
  step s;
  REQUIRE(s.queue({}) == "");
  const std::vector<float> first = s.results();
  REQUIRE(s.queue({}) == "");
  CHECK(support::same_bits(s.results(), first));
}

#endif
