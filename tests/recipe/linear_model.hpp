// ufp4 - numerics 7 written with the library's quantize calls: the linear operations must have its bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include <ufp4/ufp4.hpp>

#include "support/gemm_model.hpp"
#include "support/model.hpp"
#include "support/poison.hpp"
#include "support/tensor_amax.hpp"

namespace linear_model {

using namespace ufp4;

/// words 0 and 1 of Philox on (step, layer, 0x52000000 + role), by the model.
inline std::uint64_t derived(std::uint64_t seed, std::uint64_t step, std::uint32_t layer, std::uint32_t role) {
  const auto words = model::philox(
      {static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32), layer, 0x52000000u + role}, seed);
  return words[0] + (std::uint64_t{words[1]} << 32);
}

/// A recipe as numerics 7 describes it. Weight: the format of W and W^T.
template <class Format, class Weight = Format>
struct policies {
  std::uint64_t seed, step;
  std::uint32_t layer;
  bool transforms[3] = {false, false, false};  ///< a transform in fprop, dgrad, wgrad
  bool transformer_engine = false;             ///< its signs and bf16 rounding, not random signs
  ufp4::scale_rule_spec gradient_rule{};
  accumulate mode = accumulate::fast;

  transform_spec transform(std::uint32_t gemm) const {
    if (!transforms[gemm]) return {};
    if (transformer_engine) return signed_hadamard<16>(compat::transformer_engine_signs).to_bf16().spec();
    return random_hadamard<16>{derived(seed, 0, layer, gemm)}.spec();
  }
  /// X, W, W^T, X^T: nearest. Stochastic: dY (operand 2), dY^T (operand 4).
  template <class F, class T, class... More>
  quantized_matrix<F> nearest(std::uint32_t gemm, const matrix_view<T>& x, const More&... more) const {
    return quantize<F>(x, transform(gemm), more...);
  }
  template <class F, class T>
  quantized_matrix<F> nearest(std::uint32_t gemm, const matrix_view<T>& x, const tensor_amax& whole) const {
    return support::with_amax<F>(whole, [&](auto... amax) { return quantize<F>(x, transform(gemm), amax...); });
  }
  template <class T, class... More>
  quantized_matrix<Format> gradient(std::uint32_t operand, std::uint32_t expert, const matrix_view<T>& dy,
                                    const More&... more) const {
    return quantize<Format>(dy, transform(operand / 2), gradient_rule,
                            stochastic{.seed = derived(seed, step, layer + expert * 65536u, 16 + operand)}, more...);
  }
  template <class T>
  quantized_matrix<Format> gradient(std::uint32_t operand, std::uint32_t expert, const matrix_view<T>& dy,
                                    const tensor_amax& whole) const {
    return support::with_amax<Format>(whole, [&](auto... amax) {
      return quantize<Format>(dy, transform(operand / 2), gradient_rule,
                              stochastic{.seed = derived(seed, step, layer + expert * 65536u, 16 + operand)}, amax...);
    });
  }
};

/// A random matrix of T.
template <class T>
struct tensor {
  std::size_t rows, cols;
  std::vector<T> data;

  tensor(std::mt19937_64& gen, std::size_t r, std::size_t c) : rows(r), cols(c) {
    for (const float v : model::wide_floats(gen, r * c, 5)) data.push_back(T(v));
  }
  matrix_view<const T> view() const { return {data.data(), rows, cols}; }
  matrix_view<const T> part(std::size_t first, std::size_t count) const { return row_range(view(), first, count); }
};

/// X, W, dY of a layer.
template <class T>
struct layer {
  std::size_t tokens, inputs, outputs;
  tensor<T> x, w, dy;

  layer(std::mt19937_64& gen, std::size_t t, std::size_t k, std::size_t n)
      : tokens(t), inputs(k), outputs(n), x(gen, t, k), w(gen, n, k), dy(gen, t, n) {}
};

/// A poisoned output with its view.
template <class T>
struct output {
  support::guarded<T> c;
  std::size_t rows, cols;

  output(std::size_t r, std::size_t k) : c(r * k), rows(r), cols(k) {}
  matrix_view<T> view() { return {c.data(), rows, cols}; }
  matrix_view<T> part(std::size_t first, std::size_t count) { return row_range(view(), first, count); }
  void fill(std::uint64_t seed) {
    std::mt19937_64 gen{seed};
    for (T& x : c) x = T(static_cast<float>(gen() % 2001) / 64.0f - 15.0f);
  }
};

/// Y, dX and dW of a dense layer, from the three operations.
struct layer_outputs {
  output<float> y, dx, dw;

  template <class T>
  layer_outputs(const recipe::bound_recipe& now, const layer<T>& l, const recipe::forward_options& options = {})
      : y(l.tokens, l.outputs), dx(l.tokens, l.inputs), dw(l.outputs, l.inputs) {
    linear_forward(now, l.x.view(), l.w.view(), y.view(), options);
    linear_backward_input(now, l.dy.view(), l.w.view(), dx.view());
    linear_backward_weight(now, l.dy.view(), l.x.view(), dw.view());
  }
};

/// A shape for every kind of tail: blocks of 16 and 32, transform runs, tiles of 64, and empty matrices.
struct shape {
  std::size_t tokens, inputs, outputs;
};
inline constexpr shape shapes[] = {{1, 1, 1},    {16, 16, 16}, {37, 50, 45}, {33, 129, 64}, {130, 31, 17},
                                   {64, 600, 3}, {0, 20, 18},  {20, 0, 18},  {20, 18, 0}};

}  // namespace linear_model
