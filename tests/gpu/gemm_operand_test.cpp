// ufp4 - quantized_gemm on a GPU: operands quantized by the call, in a workspace of workspace_bytes.
// SPDX-License-Identifier: Apache-2.0
// ctest: amd
#include "gpu/gemm_check.hpp"

#include "support/hostile.hpp"
#include "support/seed.hpp"

using namespace ufp4;
using support::exactly;
using support::text_of;

namespace {

constexpr std::size_t m = 21, n = 35;

/// The operation with an operand that is quantized on the way, on the host and on the device;
/// the workspace has what it needs, to the byte.
template <class F, class... Policies>
void check_request(const char* name, std::size_t k, bool all_magnitudes, const Policies&... policies) {
  INFO(support::seed_note());
  CAPTURE(name, k, all_magnitudes);
  support::hostile source(support::seed(k));
  const std::vector<float> x = source.values(m * k, all_magnitudes), w = source.values(n * k, all_magnitudes);
  const matrix_view<const float> hx{x.data(), m, k}, hw{w.data(), n, k};
  const gpu::buffer<float> bx{std::span<const float>(x)}, bw{std::span<const float>(w)}, c(m * n);
  const matrix_view<const float> dx{bx.data(), m, k}, dw{bw.data(), n, k};
  const matrix_view<float> out{c.data(), m, n};
  std::vector<float> want(m * n);
  const matrix_view<float> want_view{want.data(), m, n};
  const auto multiply = [&](const auto& a, const auto& b) {
    const std::size_t bytes = gpu::workspace_bytes(gpu::context{}, a, b, out, exactly);
    REQUIRE(bytes > 0);
    const gpu::buffer<std::byte> workspace(bytes);
    const gpu::context ctx{.workspace = workspace.span()};
    REQUIRE(text_of(gpu::quantized_gemm(ctx, a, b, out, exactly)) == "");
    return support::difference(support::on_host(c), want);
  };
  quantized_gemm(operand<F>(hx, policies...), operand<F>(hw, policies...), want_view, exactly);
  CHECK(multiply(operand<F>(dx, policies...), operand<F>(dw, policies...)) == "");
  const auto q = quantize<F>(hw, policies...);
  const gpu::quantized_matrix<ufp4::detail::format_of<F>> dq{q.view()};
  CHECK(multiply(operand<F>(dx, policies...), dq) == "");
}

}  // namespace

TEST_CASE("an operand quantized by the call gives the bits of one quantized before", "[gpu]") {
  for (const std::size_t k : {1u, 64u, 100u}) {
    for (const bool all_magnitudes : {false, true}) {
      check_request<e1m2_f32>("e1m2_f32", k, all_magnitudes, random_hadamard<16>{7});
      check_request<nvfp4>("nvfp4", k, all_magnitudes);
      check_request<mxfp4>("mxfp4", k, all_magnitudes, mx_ceil{}, hadamard<64>{});
    }
  }
  check_request<nvint4>("nvint4, the tensor's maximum given", 80, false, tensor_amax{3.5f}, scale_up{});
  check_request<nvfp4>("nvfp4, no columns", 0, false);
}

TEST_CASE("stochastic random bits of an operand are the host's", "[gpu]") {
  INFO(support::seed_note());
  const std::size_t k = 96;
  support::hostile source(support::seed(1));
  const std::vector<float> x = source.values(m * k, false, false), w = source.values(n * k, false, false);
  const gpu::buffer<float> bx{std::span<const float>(x)}, bw{std::span<const float>(w)}, c(m * n);
  std::vector<float> want(m * n);
  const auto call = [](const float* px, const float* pw, auto multiply) {
    multiply(operand<e1m2_f32>(matrix_view<const float>{px, m, k}, stochastic{.seed = 7, .stream = 1}),
             operand<int4_f32>(matrix_view<const float>{pw, n, k}, stochastic{.seed = 7, .stream = 2}));
  };
  call(x.data(), w.data(),
       [&](const auto& a, const auto& b) { quantized_gemm(a, b, matrix_view<float>{want.data(), m, n}, exactly); });
  call(bx.data(), bw.data(), [&](const auto& a, const auto& b) {
    const matrix_view<float> out{c.data(), m, n};
    const gpu::buffer<std::byte> workspace(gpu::workspace_bytes(gpu::context{}, a, b, out, exactly));
    REQUIRE(text_of(gpu::quantized_gemm(gpu::context{.workspace = workspace.span()}, a, b, out, exactly)) == "");
  });
  CHECK(support::difference(support::on_host(c), want) == "");
}

TEST_CASE("plain operands give the host's bits, with the transformed operand in the workspace", "[gpu]") {
  INFO(support::seed_note());
  const std::size_t k = 72;
  support::hostile source(support::seed(2));
  const std::vector<float> x = source.values(m * k, false, false), w = source.values(n * k, false, false);
  const random_hadamard<32> t{9};
  const auto q = quantize<nvfp4>(matrix_view<const float>{w.data(), n, k}, t);
  const gpu::quantized_matrix<nvfp4> dq{q.view()};
  const gpu::buffer<float> bx{std::span<const float>(x)}, c(m * n);
  const auto plain = unquantized(matrix_view<const float>{bx.data(), m, k}, t);
  const matrix_view<float> out{c.data(), m, n};
  std::vector<float> want(m * n);
  quantized_gemm(unquantized(matrix_view<const float>{x.data(), m, k}, t), q, matrix_view<float>{want.data(), m, n},
                 exactly);
  const std::size_t bytes = gpu::workspace_bytes(gpu::context{}, plain, dq, out, exactly);
  const gpu::buffer<std::byte> workspace(bytes);
  REQUIRE(text_of(gpu::quantized_gemm(gpu::context{.workspace = workspace.span()}, plain, dq, out, exactly)) == "");
  CHECK(support::difference(support::on_host(c), want) == "");
  const gpu::buffer<std::byte> short_of(bytes - 1);
  const gpu::status s = gpu::quantized_gemm(gpu::context{.workspace = short_of.span()}, plain, dq, out, exactly);
  CHECK(s.code() == gpu::invalid_argument);
  CHECK(text_of(s) == "quantized_gemm: context.workspace is too small: " + std::to_string(bytes - 1) +
                          " bytes, needs " + std::to_string(bytes));
}
