// ufp4 - operations queue and return: none allocates, none waits, so a graph can capture them.
// SPDX-License-Identifier: Apache-2.0
// ctest: amd
#include "gpu/device.hpp"

#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/skip.hpp"

#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

using namespace ufp4;

namespace {

/// Every operation of a training step on a layer, and others, with memory allocated before.
struct step {
  static constexpr std::size_t tokens = 48, inputs = 64, outputs = 32;
  static constexpr std::size_t offsets[] = {0, 16, tokens};  ///< of two experts, with outputs / 2 each
  gpu::buffer<float> x, w, dy, transformed, inverted, amax, y, y_fast, dx, dw, plain, y_group, y_experts, dx_experts,
      dw_experts;
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
        inverted(tokens * inputs),
        amax(2),
        y(tokens * outputs),
        y_fast(tokens * outputs),
        dx(tokens * inputs),
        dw(outputs * inputs),
        plain(tokens * inputs),
        y_group(tokens * outputs),
        y_experts(tokens * outputs / 2),
        dx_experts(tokens * inputs),
        dw_experts(outputs * inputs),
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

  struct operation {
    const char* name;
    std::function<gpu::status()> queue;
  };

  /// On the operands of the step, in an order in which each finds what it reads.
  std::vector<operation> operations(gpu::stream where) {
    const gpu::context ctx{where, work.span()};
    const recipe::bound_recipe bound = now.at(2, 1);
    const auto xs = in(x, tokens, inputs), ws = in(w, outputs, inputs), dys = in(dy, tokens, outputs);
    const matrix_view<float> ts{transformed.data(), tokens, inputs}, back{inverted.data(), tokens, inputs},
        ps{plain.data(), tokens, inputs}, ys{y.data(), tokens, outputs}, fast{y_fast.data(), tokens, outputs},
        dxs{dx.data(), tokens, inputs}, dws{dw.data(), outputs, inputs}, dxe{dx_experts.data(), tokens, inputs},
        dwe{dw_experts.data(), outputs, inputs}, ye{y_experts.data(), tokens, outputs / 2};
    const auto dye = in(dy, tokens, outputs / 2);
    const std::vector<gpu::quantized_view<nvfp4>> parts{gpu::row_range(qx, 0, 16), gpu::row_range(qx, 16, tokens - 16)},
        weights(2, qw.view());
    const std::vector<matrix_view<float>> products{{y_group.data(), 16, outputs},
                                                   {y_group.data() + 16 * outputs, tokens - 16, outputs}};
    return {
        {"hadamard_forward", [=] { return gpu::hadamard_forward(ctx, xs, ts, hadamard<16>{}); }},
        {"hadamard_inverse", [=] { return gpu::hadamard_inverse(ctx, xs, back, hadamard<16>{}); }},
        {"amax", [=, this] { return gpu::amax(ctx, xs, amax.data()); }},
        {"amax of a transpose", [=, this] { return gpu::amax(ctx, transpose(xs), amax.data() + 1, rht()); }},
        {"quantize", [=, this] { return gpu::quantize<nvfp4>(ctx, xs, qx.view(), rht(), stochastic{.seed = 1}); }},
        {"quantize of weights", [=, this] { return gpu::quantize<nvfp4>(ctx, ws, qw.view(), rht()); }},
        {"quantize of a transpose", [=, this] { return gpu::quantize<nvfp4>(ctx, transpose(xs), qx_columns.view()); }},
        {"quantize, block by block", [=, this] { return gpu::quantize<e1m2_f32>(ctx, xs, ux.view(), mse_search{}); }},
        {"quantize_both",
         [=, this] { return gpu::quantize_both<e1m2_f32, nvfp4>(ctx, xs, ux.view(), qx_columns.view()); }},
        {"dequantize", [=, this] { return gpu::dequantize(ctx, ux.view(), ps); }},
        {"quantized_gemm, exact_blocks",
         [=, this] { return gpu::quantized_gemm(ctx, qx, qw, ys, {.accumulate = accumulate::exact_blocks}); }},
        {"quantized_gemm, fast", [=, this] { return gpu::quantized_gemm(ctx, qx, qw, fast); }},
        {"linear_forward", [=, this] { return gpu::linear_forward(ctx, bound, xs, ws, ys, &saved); }},
        {"linear_backward_input", [=] { return gpu::linear_backward_input(ctx, bound, dys, ws, dxs); }},
        {"linear_backward_weight", [=, this] { return gpu::linear_backward_weight(ctx, bound, dys, saved, dws); }},
        {"quantized_gemm_grouped", [=] { return gpu::quantized_gemm_grouped(ctx, parts, weights, products); }},
        {"linear_forward_grouped", [=] { return gpu::linear_forward_grouped(ctx, bound, xs, offsets, ws, ye); }},
        {"linear_backward_input_grouped",
         [=] { return gpu::linear_backward_input_grouped(ctx, bound, dye, offsets, ws, dxe); }},
        {"linear_backward_weight_grouped",
         [=] { return gpu::linear_backward_weight_grouped(ctx, bound, dye, xs, offsets, dwe); }},
    };
  }

  /// The first message of a rejection, or "".
  std::string queue(gpu::stream where) {
    for (const operation& o : operations(where))
      if (const gpu::status s = o.queue(); !s) return std::string(o.name) + ": " + s.text();
    return "";
  }

  std::vector<float> results() const {
    std::vector<float> all;
    for (const gpu::buffer<float>* b : {&transformed, &inverted, &amax, &plain, &y, &y_fast, &dx, &dw, &y_group,
                                        &y_experts, &dx_experts, &dw_experts}) {
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

// The first test of the program, so no kernel has run yet.
TEST_CASE(
    "after prepare() a graph captures the first call of every operation, and its replays give the bits of the calls",
    "[gpu]") {
  step direct, captured;
  REQUIRE(support::text_of(gpu::prepare()) == "");
  RUNTIME(Stream_t) stream = nullptr;
  REQUIRE(RUNTIME(StreamCreateWithFlags)(&stream, RUNTIME(StreamNonBlocking)) == RUNTIME(Success));
  RUNTIME(Graph_t) graph = nullptr;
  REQUIRE(RUNTIME(StreamBeginCapture)(stream, RUNTIME(StreamCaptureModeGlobal)) ==
          RUNTIME(Success));  // rejects what waits or allocates
  const std::string wrong = captured.queue(stream);
  REQUIRE(RUNTIME(StreamEndCapture)(stream, &graph) == RUNTIME(Success));
  REQUIRE(wrong == "");
  REQUIRE(direct.queue(nullptr) == "");
  REQUIRE(RUNTIME(StreamSynchronize)(nullptr) == RUNTIME(Success));
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

/// While an object of this type exists, the stream is captured, and at its start no kernel is loaded.
struct cold_capture {
  explicit cold_capture(bool prepared) {
    simt::loaded_kernels().clear();
    if (prepared) REQUIRE(support::text_of(gpu::prepare()) == "");
    simt::settings().capturing = true;
  }
  cold_capture(const cold_capture&) = delete;
  cold_capture& operator=(const cold_capture&) = delete;
  ~cold_capture() { simt::settings().capturing = false; }
};

TEST_CASE("after prepare() the first call of every operation can be captured, without it none", "[gpu]") {
  step s;
  REQUIRE(s.queue({}) == "");
  for (const step::operation& operation : s.operations({})) {
    CAPTURE(operation.name);
    {
      const cold_capture capture(false);
      CHECK_THAT(operation.queue().text(), Catch::Matchers::EndsWith(": a kernel was not loaded before the capture"));
    }
    const cold_capture capture(true);
    CHECK(support::text_of(operation.queue()) == "");
  }
}

TEST_CASE("the same calls on the same memory give the same bits again", "[gpu]") {
  step s;
  REQUIRE(s.queue({}) == "");
  const std::vector<float> first = s.results();
  REQUIRE(s.queue({}) == "");
  CHECK(support::same_bits(s.results(), first));
}

#endif
