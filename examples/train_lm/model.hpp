// ufp4 - the model: a byte-level decoder-only transformer, dense or a mixture of experts, and its gradients.
// SPDX-License-Identifier: Apache-2.0
//
//   stream = embedding[byte]
//   every block:  stream += out(attention(rope(qkv(norm1(stream)))))
//                 stream += down(swiglu(gate_up(norm2(stream))))        or a weighted sum of the experts' outputs
//   loss = mean cross entropy of head(norm(stream))
//
// A linear_engine computes the four linear layers of a block; everything else is in T. The gradients of a parameter are
// separate for each microbatch. A task of a loop is one sequence or a fixed number of rows, so that results do not
// depend on the number of threads.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "attention.hpp"
#include "elementwise.hpp"
#include "initial_weights.hpp"
#include "linear.hpp"
#include "loss.hpp"
#include "matrix.hpp"
#include "model_config.hpp"
#include "moe.hpp"
#include "norm.hpp"
#include "parallel.hpp"
#include "rope.hpp"
#include "swiglu.hpp"

namespace train_lm {

/// The whole sequences of a batch that one process holds. A row of S + 1 bytes has S inputs and S targets, each the
/// next byte.
struct token_batch {
  index sequences = 0;              ///< of this process
  index length = 0;                 ///< S
  index microbatches = 1;           ///< of this process; sequences is a multiple of it
  index whole_microbatches = 1;     ///< of the whole batch, over which loss and gradients are means
  std::vector<std::uint8_t> bytes;  ///< sequences x (S + 1)

  index tokens() const { return sequences * length; }
};

/// The results of a pass beside its gradients.
struct pass_statistics {
  std::vector<double> loss;          ///< by local microbatch: mean cross entropy, nats per byte
  std::vector<double> balance;       ///< by local microbatch: load-balancing loss, summed over layers; empty if dense
  std::vector<index> expert_tokens;  ///< layers x experts: assignments; empty if dense

  // Wall-clock seconds; "elementwise" is norms, RoPE, SwiGLU, residual sums and the embedding.
  double linear_seconds = 0, attention_seconds = 0, elementwise_seconds = 0, router_seconds = 0, head_seconds = 0;

  /// Over the local microbatches, in their order.
  static double mean(const std::vector<double>& each) {
    double sum = 0;
    for (const double l : each) sum += l;
    return each.empty() ? 0 : sum / static_cast<double>(each.size());
  }
  double mean_loss() const { return mean(loss); }
};

template <class T>
class model {
 public:
  /// Weights of standard deviation 0.02, divided by sqrt(2 layers) for the projections into the stream; gains of 1.
  model(const model_config& config, std::uint64_t seed) : config_(config) {
    config.check();
    const double deviation = 0.02, into_stream = deviation / std::sqrt(2.0 * static_cast<double>(config.layers));
    const index d = config.width, copies = config.is_mixture() ? config.experts : 1;
    embedding_ = add(seed, "embedding", vocabulary, d, deviation);
    for (index l = 0; l < config.layers; ++l) {
      const std::string block = "block" + std::to_string(l) + ".";
      places at;
      at.norm1 = add_gain(block + "norm1");
      at.qkv = add(seed, block + "qkv", 3 * d, d, deviation);
      at.out = add(seed, block + "out", d, d, into_stream);
      at.norm2 = add_gain(block + "norm2");
      if (config.is_mixture()) at.router = add(seed, block + "router", config.experts, d, deviation);
      at.gate_up = add(seed, block + "gate_up", copies * 2 * config.ffn, d, deviation);
      at.down = add(seed, block + "down", copies * d, config.ffn, into_stream);
      places_.push_back(at);
    }
    norm_ = add_gain("norm");
    head_ = config.tied ? embedding_ : add(seed, "head", vocabulary, d, deviation);
    blocks_.resize(static_cast<std::size_t>(config.layers));
    rope_ = rotary_embedding<T>(config.sequence, config.head_size(), config.rope_base);
  }

  const model_config& config() const { return config_; }
  /// In a fixed order: embedding; for each block norm1, qkv, out, norm2, [router,] gate_up, down; norm; [head].
  std::vector<parameter<T>>& parameters() { return parameters_; }
  const std::vector<parameter<T>>& parameters() const { return parameters_; }
  /// The parameters that are weights of linear layers inside blocks.
  std::vector<linear_weight> linear_weights() const {
    std::vector<linear_weight> all;
    for (std::size_t l = 0; l < places_.size(); ++l) {
      const places& at = places_[l];
      const std::size_t of_kind[] = {at.qkv, at.out, at.gate_up, at.down};
      for (std::uint32_t kind = 0; kind < 4; ++kind)
        all.push_back({linear_number(static_cast<index>(l), static_cast<linear_kind>(kind)), of_kind[kind]});
    }
    return all;
  }
  index parameter_count() const {
    index count = 0;
    for (const parameter<T>& p : parameters_) count += p.value.size();
    return count;
  }

  /// The gradients of (mean cross entropy + balance * load-balancing loss) of the whole batch with respect to every
  /// parameter: each local microbatch's share, so that the sum over all microbatches is the gradient. Returns
  /// statistics.mean_loss().
  double forward_backward(const token_batch& batch, linear_engine<T>& engine, thread_pool& threads,
                          microbatch_gradients<T>& gradients, pass_statistics& statistics) {
    pass p = begin(batch, engine, threads, statistics);
    forward(p);
    gradients.resize(parameters_, batch.microbatches);
    backward(p, gradients);
    return statistics.mean_loss();
  }

  /// Mean cross entropy of the batch, without gradients.
  double loss(const token_batch& batch, linear_engine<T>& engine, thread_pool& threads, pass_statistics& statistics) {
    pass p = begin(batch, engine, threads, statistics);
    forward(p);
    return statistics.mean_loss();
  }
  double loss(const token_batch& batch, linear_engine<T>& engine, thread_pool& threads) {
    pass_statistics unused;
    return loss(batch, engine, threads, unused);
  }

  /// The stream after a block in the last pass, tokens x width.
  const matrix<T>& hidden(index layer) const {
    return layer + 1 < config_.layers ? blocks_[static_cast<std::size_t>(layer + 1)].input : last_;
  }

 private:
  /// The parameters of a block.
  struct places {
    std::size_t norm1 = 0, qkv = 0, out = 0, norm2 = 0, router = 0, gate_up = 0, down = 0;
  };
  /// Results of a block's forward pass that its gradients need.
  struct block_state {
    matrix<T> input, normed1, qkv, log_sum, attended, middle, normed2, gate_up, activated;
    std::vector<T> inverse1, inverse2;
    routing<T> routed;
    matrix<T> gathered, answers;  // inputs and outputs of the experts
  };
  /// The arguments of a pass and values that follow from them.
  struct pass {
    const token_batch& batch;
    linear_engine<T>& engine;
    thread_pool& threads;
    pass_statistics& statistics;
    attention_shape attention;
    routing_shape routing_of;
    token_segments tokens;
    std::vector<std::uint8_t> inputs, targets;
  };

  // ---- Parameters

  std::size_t add(std::uint64_t seed, const std::string& name, index rows, index cols, double deviation) {
    const auto stream = static_cast<std::uint32_t>(parameters_.size());
    parameters_.push_back({name, initial_weights<T>(seed, stream, rows, cols, deviation), true});
    return parameters_.size() - 1;
  }
  std::size_t add_gain(const std::string& name) {
    parameters_.push_back({name, matrix<T>::Ones(1, config_.width), false});
    return parameters_.size() - 1;
  }
  const matrix<T>& value(std::size_t p) const { return parameters_[p].value; }

  // ---- A pass

  pass begin(const token_batch& b, linear_engine<T>& engine, thread_pool& threads, pass_statistics& statistics) {
    check(b);
    statistics = {};
    pass p{b,
           engine,
           threads,
           statistics,
           {b.sequences, b.length, config_.heads, config_.head_size()},
           {b.length, b.microbatches, config_.experts, config_.top_k},
           token_segments::dense(static_cast<std::size_t>(b.tokens()), static_cast<std::size_t>(b.microbatches)),
           {},
           {}};
    for (index s = 0; s < b.sequences; ++s) {
      const auto row = b.bytes.begin() + s * (b.length + 1);
      p.inputs.insert(p.inputs.end(), row, row + b.length);
      p.targets.insert(p.targets.end(), row + 1, row + b.length + 1);
    }
    return p;
  }

  void check(const token_batch& b) const {
    const auto reject = [](const std::string& message) { throw std::invalid_argument("token_batch: " + message); };
    if (b.length != config_.sequence)
      reject("length must be the model's sequence, " + std::to_string(config_.sequence) + ", got " +
             std::to_string(b.length));
    if (b.microbatches < 1 || b.sequences < 1 || b.sequences % b.microbatches != 0)
      reject("sequences must be a positive multiple of microbatches, " + std::to_string(b.microbatches) + ", got " +
             std::to_string(b.sequences));
    if (b.whole_microbatches < b.microbatches)
      reject("whole_microbatches must be at least microbatches, " + std::to_string(b.microbatches) + ", got " +
             std::to_string(b.whole_microbatches));
    if (b.bytes.size() != static_cast<std::size_t>(b.sequences * (b.length + 1)))
      reject("bytes must have sequences * (length + 1) entries, " + std::to_string(b.sequences * (b.length + 1)) +
             ", got " + std::to_string(b.bytes.size()));
  }

  /// Runs f and adds its wall seconds.
  template <class F>
  static void timed(double& seconds, const F& f) {
    const auto start = std::chrono::steady_clock::now();
    f();
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  void linear(pass& p, index layer, linear_kind kind, const token_segments& s, const matrix<T>& x, std::size_t w,
              matrix<T>& y) {
    timed(p.statistics.linear_seconds, [&] { p.engine.forward(linear_number(layer, kind), s, x, value(w), y); });
  }
  /// dw of every microbatch, then dx.
  void linear_backward(pass& p, index layer, linear_kind kind, const token_segments& s, const matrix<T>& dy,
                       const matrix<T>& x, std::size_t w, microbatch_gradients<T>& gradients, matrix<T>& dx) {
    timed(p.statistics.linear_seconds, [&] {
      p.engine.backward_weight(linear_number(layer, kind), s, dy, x, gradients.stacked[w]);
      p.engine.backward_input(linear_number(layer, kind), s, dy, value(w), dx);
    });
  }

  // ---- Forward

  void forward(pass& p) {
    timed(p.statistics.elementwise_seconds, [&] { embed(p); });
    for (index l = 0; l < config_.layers; ++l) {
      attention_part(p, l);
      if (config_.is_mixture())
        mixture_part(p, l);
      else
        dense_part(p, l);
    }
    timed(p.statistics.elementwise_seconds,
          [&] { norm_forward(p.threads, p.batch.length, last_, value(norm_), normed_, inverse_); });
    timed(p.statistics.head_seconds,
          [&] { head_forward(p.threads, p.batch.length, normed_, value(head_), p.targets, logits_, losses_); });
    p.statistics.loss = microbatch_means(losses_, p.batch.microbatches);
  }

  void embed(pass& p) {
    matrix<T>& stream = blocks_[0].input;
    stream.resize(p.batch.tokens(), config_.width);
    for (index t = 0; t < stream.rows(); ++t)
      stream.row(t) = value(embedding_).row(p.inputs[static_cast<std::size_t>(t)]);
  }

  matrix<T>& output_of(index layer) {
    return layer + 1 < config_.layers ? blocks_[static_cast<std::size_t>(layer + 1)].input : last_;
  }

  void attention_part(pass& p, index l) {
    block_state& b = blocks_[static_cast<std::size_t>(l)];
    const places& at = places_[static_cast<std::size_t>(l)];
    timed(p.statistics.elementwise_seconds,
          [&] { norm_forward(p.threads, p.batch.length, b.input, value(at.norm1), b.normed1, b.inverse1); });
    linear(p, l, linear_kind::qkv, p.tokens, b.normed1, at.qkv, b.qkv);
    timed(p.statistics.elementwise_seconds, [&] { rope_.rotate(p.threads, b.qkv, 2 * config_.heads); });  // Q and K
    timed(p.statistics.attention_seconds,
          [&] { attention_forward(p.threads, p.attention, b.qkv, b.attended, b.log_sum); });
    linear(p, l, linear_kind::out, p.tokens, b.attended, at.out, b.middle);
    timed(p.statistics.elementwise_seconds, [&] {
      add_to(p.threads, b.input, b.middle);
      norm_forward(p.threads, p.batch.length, b.middle, value(at.norm2), b.normed2, b.inverse2);
    });
  }

  void dense_part(pass& p, index l) {
    block_state& b = blocks_[static_cast<std::size_t>(l)];
    const places& at = places_[static_cast<std::size_t>(l)];
    linear(p, l, linear_kind::gate_up, p.tokens, b.normed2, at.gate_up, b.gate_up);
    timed(p.statistics.elementwise_seconds, [&] { swiglu_forward(p.threads, b.gate_up, b.activated); });
    linear(p, l, linear_kind::down, p.tokens, b.activated, at.down, output_of(l));
    timed(p.statistics.elementwise_seconds, [&] { add_to(p.threads, b.middle, output_of(l)); });
  }

  void mixture_part(pass& p, index l) {
    block_state& b = blocks_[static_cast<std::size_t>(l)];
    const places& at = places_[static_cast<std::size_t>(l)];
    timed(p.statistics.router_seconds, [&] {
      route(p.threads, p.routing_of, b.normed2, value(at.router), b.routed);
      gather_tokens(p.threads, b.routed, b.normed2, b.gathered);
    });
    count_routed(p, b.routed);
    linear(p, l, linear_kind::gate_up, b.routed.segments, b.gathered, at.gate_up, b.gate_up);
    timed(p.statistics.elementwise_seconds, [&] { swiglu_forward(p.threads, b.gate_up, b.activated); });
    linear(p, l, linear_kind::down, b.routed.segments, b.activated, at.down, b.answers);
    timed(p.statistics.router_seconds, [&] {
      output_of(l) = b.middle;
      combine_answers(p.threads, p.routing_of, b.routed, b.answers, output_of(l));
    });
  }

  void count_routed(pass& p, const routing<T>& r) const {
    p.statistics.balance.resize(r.balance_loss.size());
    for (std::size_t m = 0; m < r.balance_loss.size(); ++m) p.statistics.balance[m] += r.balance_loss[m];
    for (index e = 0; e < config_.experts; ++e) {
      index sum = 0;
      for (index m = 0; m < p.batch.microbatches; ++m)
        sum += r.counts[static_cast<std::size_t>(m * config_.experts + e)];
      p.statistics.expert_tokens.push_back(sum);
    }
  }

  // ---- Backward; stream_ is the gradient of the stream, from the last block's output to the embedding.

  void backward(pass& p, microbatch_gradients<T>& gradients) {
    timed(p.statistics.head_seconds, [&] {
      const T scale = T(1) / static_cast<T>(p.batch.tokens() / p.batch.microbatches * p.batch.whole_microbatches);
      head_backward(p.threads, p.batch.length, value(head_), p.targets, losses_, scale, logits_, dnormed_);
      gradients.stacked[head_].setZero();
      add_weight_gradient(p.threads, p.batch.length, p.batch.microbatches, logits_, normed_, gradients.stacked[head_]);
    });
    stream_.setZero(p.batch.tokens(), config_.width);
    back_through_norm(p, norm_, last_, inverse_, gradients);
    for (index l = config_.layers - 1; l >= 0; --l) {
      if (config_.is_mixture())
        mixture_backward(p, l, gradients);
      else
        dense_backward(p, l, gradients);
      attention_part_backward(p, l, gradients);
    }
    timed(p.statistics.elementwise_seconds, [&] { embed_backward(p, gradients); });
  }

  /// From dnormed_ to stream_ and the gain's gradient.
  void back_through_norm(pass& p, std::size_t gain, const matrix<T>& x, const std::vector<T>& inverse,
                         microbatch_gradients<T>& gradients) {
    timed(p.statistics.elementwise_seconds, [&] {
      norm_backward(p.threads, p.batch.length, dnormed_, x, value(gain), inverse, stream_, dgain_);
      sum_partial_rows(dgain_, p.batch.microbatches, gradients.stacked[gain]);
    });
  }

  void attention_part_backward(pass& p, index l, microbatch_gradients<T>& gradients) {
    block_state& b = blocks_[static_cast<std::size_t>(l)];
    const places& at = places_[static_cast<std::size_t>(l)];
    linear_backward(p, l, linear_kind::out, p.tokens, stream_, b.attended, at.out, gradients, dattended_);
    timed(p.statistics.attention_seconds,
          [&] { attention_backward(p.threads, p.attention, dattended_, b.qkv, b.attended, b.log_sum, dqkv_); });
    timed(p.statistics.elementwise_seconds, [&] { rope_.rotate_back(p.threads, dqkv_, 2 * config_.heads); });
    linear_backward(p, l, linear_kind::qkv, p.tokens, dqkv_, b.normed1, at.qkv, gradients, dnormed_);
    back_through_norm(p, at.norm1, b.input, b.inverse1, gradients);
  }

  void dense_backward(pass& p, index l, microbatch_gradients<T>& gradients) {
    block_state& b = blocks_[static_cast<std::size_t>(l)];
    const places& at = places_[static_cast<std::size_t>(l)];
    linear_backward(p, l, linear_kind::down, p.tokens, stream_, b.activated, at.down, gradients, dactivated_);
    timed(p.statistics.elementwise_seconds, [&] { swiglu_backward(p.threads, dactivated_, b.gate_up, dgate_up_); });
    linear_backward(p, l, linear_kind::gate_up, p.tokens, dgate_up_, b.normed2, at.gate_up, gradients, dnormed_);
    back_through_norm(p, at.norm2, b.middle, b.inverse2, gradients);
  }

  void mixture_backward(pass& p, index l, microbatch_gradients<T>& gradients) {
    block_state& b = blocks_[static_cast<std::size_t>(l)];
    const places& at = places_[static_cast<std::size_t>(l)];
    timed(p.statistics.router_seconds,
          [&] { combine_backward(p.threads, p.routing_of, b.routed, stream_, b.answers, danswers_, dweights_); });
    linear_backward(p, l, linear_kind::down, b.routed.segments, danswers_, b.activated, at.down, gradients,
                    dactivated_);
    timed(p.statistics.elementwise_seconds, [&] { swiglu_backward(p.threads, dactivated_, b.gate_up, dgate_up_); });
    linear_backward(p, l, linear_kind::gate_up, b.routed.segments, dgate_up_, b.gathered, at.gate_up, gradients,
                    dgathered_);
    timed(p.statistics.router_seconds, [&] {
      gather_backward(p.threads, p.routing_of, b.routed, dgathered_, dnormed_);
      const T balance = static_cast<T>(config_.balance / static_cast<double>(p.batch.whole_microbatches));
      route_backward(p.threads, p.routing_of, b.routed, b.normed2, value(at.router), dweights_, balance, dlogits_,
                     dnormed_, gradients.stacked[at.router]);
    });
    back_through_norm(p, at.norm2, b.middle, b.inverse2, gradients);
  }

  /// The gradient of a tied embedding already contains that of the head.
  void embed_backward(pass& p, microbatch_gradients<T>& gradients) {
    if (!config_.tied) gradients.stacked[embedding_].setZero();
    const index each = p.batch.tokens() / p.batch.microbatches;
    p.threads.for_each(p.batch.microbatches, [&](index m) {
      auto to = gradients.part(embedding_, m);
      for (index t = m * each; t < (m + 1) * each; ++t) to.row(p.inputs[static_cast<std::size_t>(t)]) += stream_.row(t);
    });
  }

  model_config config_;
  std::vector<parameter<T>> parameters_;
  std::size_t embedding_ = 0, norm_ = 0, head_ = 0;
  std::vector<places> places_;
  rotary_embedding<T> rope_;

  // Reused by all passes, so that a step does not allocate.
  std::vector<block_state> blocks_;
  matrix<T> last_, normed_, logits_;
  std::vector<T> inverse_, losses_;
  matrix<T> stream_, dnormed_, dgain_, dattended_, dqkv_, dactivated_, dgate_up_;
  matrix<T> danswers_, dweights_, dgathered_, dlogits_;
};

}  // namespace train_lm
