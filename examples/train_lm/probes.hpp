// ufp4 - probes: the quantization error of every operand of every linear layer, and of the residual stream.
// SPDX-License-Identifier: Apache-2.0
/// | attenuation | <q, x> / <x, x>, q the quantized x after its transform: below 1 where rounding shrinks |
/// | SQNR        | 10 log10(<x, x> / <q - x, q - x>), dB                                                  |
/// | residual    | both measures of the stream after a block: x under bf16, q under the recipe, with the  |
/// |             | same weights and batch                                                                 |
///
/// An operand is measured as one matrix: all tokens of a step, all experts. This differs from the GEMMs in three
/// points: a two-level format has one tensor scale for all microbatches; stochastic rounding has the random bits of the
/// first part; and in wgrad, whose blocks and transform runs begin anew with each expert and microbatch (multiples of
/// 16 rows), blocks of 32 and transforms longer than 16 may contain rows of two of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "linear.hpp"
#include "model.hpp"
#include "run_folder.hpp"

namespace train_lm {

struct distortion {
  double attenuation, sqnr_db;
};

/// The distortion of q against x over `count` numbers; pair(i) returns (x, q).
template <class Pair>
distortion distortion_of(index count, const Pair& pair) {
  double xx = 0, xq = 0, ee = 0;
  for (index i = 0; i < count; ++i) {
    const std::pair<float, float> p = pair(i);
    const double x = static_cast<double>(p.first), q = static_cast<double>(p.second);
    xx += x * x, xq += x * q, ee += (q - x) * (q - x);
  }
  return {xq / xx, 10 * std::log10(xx / ee)};
}

/// The same of an operand under MS-EDEN, which no report of the library measures.
inline distortion measure_ms_eden(const ufp4::recipe::bound_operand& operand,
                                  const ufp4::matrix_view<const float>& view, thread_pool& threads) {
  const auto q = ufp4::quantize_ms_eden(view, operand.transform, operand.rounding.random_bits, threads.context());
  const auto rows = static_cast<index>(view.rows()), cols = static_cast<index>(q.padded_cols());
  matrix<float> padded = matrix<float>::Zero(rows, cols), decoded(rows, cols);
  for (index i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < view.cols(); ++j)
      padded(i, static_cast<index>(j)) = view(static_cast<std::size_t>(i), j);
  ufp4::hadamard_forward(view_of(std::as_const(padded)), view_of(padded), operand.transform, threads.context());
  const ufp4::any_quantized_view whole(q.spec(), q.codes(), q.scale_bytes(), q.tensor_scale(), q.rows(),
                                       q.padded_cols(), operand.transform);
  ufp4::dequantize(whole, view_of(decoded), threads.context());
  return distortion_of(padded.size(), [&](index i) { return std::pair(padded.data()[i], decoded.data()[i]); });
}

/// The distortion of the operand, which is x or, with `transposed`, its transpose.
inline distortion measure_operand(const ufp4::recipe::bound_operand& operand, const matrix<float>& x, bool transposed,
                                  thread_pool& threads) {
  if (!operand.policy.quantized)
    return distortion_of(x.size(),
                         [&](index i) { return std::pair(x.data()[i], static_cast<float>(ufp4::bf16(x.data()[i]))); });
  if (operand.policy.ms_eden)
    return measure_ms_eden(operand, transposed ? ufp4::transpose(view_of(x)) : view_of(x), threads);
  const auto report =
      ufp4::analysis::measure(operand.policy.format, transposed ? ufp4::transpose(view_of(x)) : view_of(x),
                              operand.transform, operand.rounding, operand.policy.rule, threads.context());
  return {report.attenuation, report.sqnr_db};
}

/// A recipe_engine that also measures its operands.
class probing_engine final : public linear_engine<float> {
 public:
  probing_engine(recipe_engine& inner, const model_recipe& recipe, thread_pool& threads, std::uint64_t step)
      : inner_(inner), recipe_(recipe), threads_(threads), step_(step) {}

  void forward(std::uint32_t linear, const token_segments& s, const matrix<float>& x, const matrix<float>& w,
               matrix<float>& y) override {
    measure(linear, 0, x, false, 1, w, false);
    inner_.forward(linear, s, x, w, y);
  }
  void backward_input(std::uint32_t linear, const token_segments& s, const matrix<float>& dy, const matrix<float>& w,
                      matrix<float>& dx) override {
    measure(linear, 2, dy, false, 3, w, true);
    inner_.backward_input(linear, s, dy, w, dx);
  }
  void backward_weight(std::uint32_t linear, const token_segments& s, const matrix<float>& dy, const matrix<float>& x,
                       matrix<float>& dw) override {
    measure(linear, 4, dy, true, 5, x, true);
    inner_.backward_weight(linear, s, dy, x, dw);
  }

  /// In the order of the calls; the caller sets the step.
  std::vector<probe_row> rows;

 private:
  void measure(std::uint32_t linear, int i, const matrix<float>& a, bool a_transposed, int j, const matrix<float>& b,
               bool b_transposed) {
    static constexpr const char* names[6] = {"X", "W", "dY", "W^T", "dY^T", "X^T"};
    const auto now = recipe_.at(step_, linear);
    const auto add = [&](int operand, const matrix<float>& x, bool transposed) {
      const distortion d = measure_operand(now.operand(operand), x, transposed, threads_);
      rows.push_back({0, linear / 4, linear_names[linear % 4], names[operand], d.attenuation, d.sqnr_db});
    };
    add(i, a, a_transposed);
    add(j, b, b_transposed);
  }

  recipe_engine& inner_;
  model_recipe recipe_;
  thread_pool& threads_;
  std::uint64_t step_;
};

/// The residual stream after each block under a recipe, against the one under bf16.
inline std::vector<probe_row> probe_residual(model<float>& m, const token_batch& batch, const model_recipe& recipe,
                                             std::uint64_t step, thread_pool& threads) {
  recipe_engine reference(ufp4::recipe::bf16_recipe(0), threads), quantized(recipe, threads);
  quantized.begin_step(step);
  m.loss(batch, reference, threads);
  std::vector<matrix<float>> expected;
  for (index layer = 0; layer < m.config().layers; ++layer) expected.push_back(m.hidden(layer));
  m.loss(batch, quantized, threads);
  std::vector<probe_row> rows;
  for (index layer = 0; layer < m.config().layers; ++layer) {
    const matrix<float>&x = expected[static_cast<std::size_t>(layer)], &q = m.hidden(layer);
    const distortion d = distortion_of(x.size(), [&](index i) { return std::pair(x.data()[i], q.data()[i]); });
    rows.push_back({0, static_cast<std::uint32_t>(layer), "residual", "h", d.attenuation, d.sqnr_db});
  }
  return rows;
}

}  // namespace train_lm
