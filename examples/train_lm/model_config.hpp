// ufp4 - model_config: the shape of a model, and its checks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <sstream>
#include <stdexcept>

#include "matrix.hpp"

namespace train_lm {

inline constexpr index vocabulary = 256;  ///< bytes

struct model_config {
  index layers = 4, width = 128, heads = 4;
  index ffn = 384;       ///< hidden units of SwiGLU, in a mixture per expert
  index sequence = 256;  ///< tokens
  index experts = 0;     ///< 0: dense
  index top_k = 2;       ///< experts per token
  bool tied = false;     ///< the head is the embedding
  double rope_base = 10000;
  double balance = 0.01;  ///< weight of the load-balancing losses, which are summed over layers

  bool is_mixture() const { return experts > 0; }
  index head_size() const { return width / heads; }

  /// Throws std::invalid_argument with a message that names the member and its value.
  void check() const {
    expects(layers >= 1 && layers < 1 << 14, "layers must be 1 to 16383, got ", layers);
    expects(width >= 16 && width % 16 == 0, "width must be a multiple of 16, got ", width);
    expects(heads >= 1 && width % heads == 0 && width / heads % 2 == 0, "heads must divide the width, ", width,
            ", into heads of an even size, got ", heads);
    expects(ffn >= 16 && ffn % 16 == 0, "ffn must be a multiple of 16, got ", ffn);
    expects(sequence >= 16 && sequence % 16 == 0, "sequence must be a multiple of 16, got ", sequence);
    expects(experts >= 0 && experts <= 4096, "experts must be 0 (dense) to 4096, got ", experts);
    expects(experts == 0 || (top_k >= 1 && top_k <= experts), "top_k must be 1 to the number of experts, ", experts,
            ", got ", top_k);
    expects(rope_base > 1, "rope_base must be above 1, got ", rope_base);
    expects(balance >= 0, "balance must not be negative, got ", balance);
  }

 private:
  template <class... Words>
  static void expects(bool holds, const Words&... words) {
    if (holds) return;
    std::ostringstream message;
    (message << ... << words);
    throw std::invalid_argument(message.str());
  }
};

/// The linear layers of a block, in the order in which they run. Fused layers are one GEMM: the rows of the weights of
/// qkv are q, k, v; those of gate_up are gate, up.
enum class linear_kind : std::uint8_t { qkv, out, gate_up, down };
inline constexpr const char* linear_names[4] = {"qkv", "out", "gate_up", "down"};

/// The `layer` argument of a recipe for a linear layer.
constexpr std::uint32_t linear_number(index layer, linear_kind kind) {
  return static_cast<std::uint32_t>(layer) * 4 + static_cast<std::uint32_t>(kind);
}

/// A parameter that is the weights of a linear layer.
struct linear_weight {
  std::uint32_t linear = 0;   ///< linear_number
  std::size_t parameter = 0;  ///< its place in model::parameters()
};

}  // namespace train_lm
