// ufp4 - a GPU's linear operations reject a part of a batch in a message: they do not silently take it for the whole.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/device.hpp"

#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"

#include <string>
#include <vector>

using namespace ufp4;

TEST_CASE("every linear operation of a GPU rejects a token_shard and writes nothing", "[gpu]") {
  const std::vector<float> some(16 * 32, 1.0f);
  const gpu::buffer<float> x{std::span<const float>(some)};
  gpu::buffer<float> out{std::span<const float>(some)};
  gpu::buffer<std::byte> workspace(1 << 20);
  const gpu::context ctx{{}, workspace.span()};
  const matrix_view<const float> tokens{x.data(), 16, 32}, gradient{x.data(), 16, 16}, weight{x.data(), 16, 32};
  const std::size_t first[] = {16}, total[] = {32};
  const auto now = recipe::ufp4_recipe(1).at(2, 3), part = now.shard({.first = first, .total = total});
  const matrix_view<float> y{out.data(), 16, 16}, dx{out.data(), 16, 32};
  const auto check_rejected = [](const char* operation, const gpu::status& s) {
    CHECK(std::string(s.text()) ==
          std::string(operation) + ": token_shard: unsupported: the linear operations of a GPU take a whole batch");
  };
  check_rejected("linear_forward", gpu::linear_forward(ctx, part, tokens, weight, y));
  check_rejected("linear_backward_input", gpu::linear_backward_input(ctx, part, gradient, weight, dx));
  check_rejected("linear_backward_weight", gpu::linear_backward_weight(ctx, part, gradient, tokens, dx));
  gpu::buffer<std::byte> memory(1 << 16);
  gpu::buffer<float> other(16 * 16);
  gpu::saved_activation saved(memory.span());
  CHECK(static_cast<bool>(
      gpu::linear_forward(ctx, now, tokens, weight, matrix_view<float>{other.data(), 16, 16}, &saved)));
  check_rejected("linear_backward_weight", gpu::linear_backward_weight(ctx, part, gradient, saved, dx));
  const std::size_t offsets[] = {0, 16};
  check_rejected("linear_forward_grouped", gpu::linear_forward_grouped(ctx, part, tokens, offsets, weight, y));
  check_rejected("linear_backward_input_grouped",
                 gpu::linear_backward_input_grouped(ctx, part, gradient, offsets, weight, dx));
  check_rejected("linear_backward_weight_grouped",
                 gpu::linear_backward_weight_grouped(ctx, part, gradient, tokens, offsets, dx));
  check_rejected("linear_backward_weight_grouped",
                 gpu::linear_backward_weight_grouped(ctx, part, gradient, saved, offsets, dx));
  CHECK(support::on_host(out) == some);
  CHECK(static_cast<bool>(gpu::linear_forward(ctx, now, tokens, weight, y)));
}
