// ufp4 - the three products of a linear layer under a training recipe, in Python.
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "quantized.hpp"
#include "signatures.hpp"

#define UFP4_PLACE "seed: int = 0, step: int = 0, layer: int = 0, " UFP4_MODE UFP4_TO

namespace ufp4::python {

recipe::bound_recipe recipe_of(const char* operation, const std::string& name, std::uint64_t seed, std::uint64_t step,
                               std::uint32_t layer, nb::handle mode) {
  std::string all;
  for (const recipe::named_recipe& r : recipe::named_recipes) {
    if (name == r.name) {
      recipe::training_recipe out = r.make(seed);
      out.accumulate = accumulate_of(operation, mode);
      return out.at(step, layer);
    }
    all += (all.empty() ? "" : ", ") + std::string(r.name);
  }
  reject(concat(operation, ": unknown recipe: ", name, "; the recipes are ", all));
}

namespace {

double products_in(const sink& c, std::size_t depth) {
  return elements_in(c.rows, c.cols) * static_cast<double>(depth);
}

nb::object linear_forward(nb::handle x, nb::handle w, const std::string& recipe, nb::handle bias, std::uint64_t seed,
                          std::uint64_t step, std::uint32_t layer, nb::handle mode, nb::handle out, nb::handle dtype,
                          int threads, nb::handle isa) {
  constexpr const char* operation = "linear_forward";
  const cpu::context ctx = context_of(operation, threads, isa);
  const auto now = recipe_of(operation, recipe, seed, step, layer, mode);
  const matrix_argument from(operation, "x", x), weights(operation, "w", w);
  const bias_argument added(operation, bias);
  const output to(operation, out, dtype, from.elements.rows, weights.elements.rows, from.elements.kind);
  recipe::forward_options options;
  options.bias = added.values;
  const std::size_t offsets[] = {0, from.elements.rows};
  run(ctx, products_in(to.elements(), from.elements.cols), long_product, [&](const cpu::context& c) {
    recipe::detail::forward(operation, c, now, from.input(), offsets, weights.input(), to.elements(), options);
  });
  return to.object;
}

recipe::write_mode mode_of(const char* operation, bool add, nb::handle out) {
  expects(!add || !out.is_none(), operation, ": add has no effect without out");
  return add ? recipe::write_mode::add : recipe::write_mode::overwrite;
}

nb::object linear_backward_input(nb::handle dy, nb::handle w, const std::string& recipe, std::uint64_t seed,
                                 std::uint64_t step, std::uint32_t layer, nb::handle mode, nb::handle out,
                                 nb::handle dtype, bool add, int threads, nb::handle isa) {
  constexpr const char* operation = "linear_backward_input";
  const cpu::context ctx = context_of(operation, threads, isa);
  const auto now = recipe_of(operation, recipe, seed, step, layer, mode);
  const matrix_argument from(operation, "dy", dy), weights(operation, "w", w);
  const auto write = mode_of(operation, add, out);
  const output to(operation, out, dtype, from.elements.rows, weights.elements.cols, from.elements.kind);
  const std::size_t offsets[] = {0, from.elements.rows};
  run(ctx, products_in(to.elements(), from.elements.cols), long_product, [&](const cpu::context& c) {
    recipe::detail::backward_input(operation, c, now, from.input(), offsets, weights.input(), to.elements(), write);
  });
  return to.object;
}

nb::object linear_backward_weight(nb::handle dy, nb::handle x, const std::string& recipe, std::uint64_t seed,
                                  std::uint64_t step, std::uint32_t layer, nb::handle mode, nb::handle out,
                                  nb::handle dtype, bool add, int threads, nb::handle isa) {
  constexpr const char* operation = "linear_backward_weight";
  const cpu::context ctx = context_of(operation, threads, isa);
  const auto now = recipe_of(operation, recipe, seed, step, layer, mode);
  const matrix_argument from(operation, "dy", dy), saved(operation, "x", x);
  const auto write = mode_of(operation, add, out);
  const output to(operation, out, dtype, from.elements.cols, saved.elements.cols);
  const std::size_t offsets[] = {0, from.elements.rows};
  run(ctx, products_in(to.elements(), from.elements.rows), long_product, [&](const cpu::context& c) {
    recipe::detail::backward_weight(operation, c, now, from.input(), saved.input(), offsets, to.elements(), write);
  });
  return to.object;
}

}  // namespace

void bind_linear(nb::module_& m) {
  using namespace nb::literals;
  m.def(
      "recipes",
      [] {
        std::vector<std::string> names;
        for (const recipe::named_recipe& r : recipe::named_recipes) names.emplace_back(r.name);
        return names;
      },
      "The names of the training recipes.");
  m.def("linear_forward", &linear_forward, "x"_a, "w"_a, "recipe"_a = "ufp4", nb::kw_only(), "bias"_a = nb::none(),
        "seed"_a = 0, "step"_a = 0, "layer"_a = 0, "accumulate"_a = "fast", "out"_a = nb::none(),
        "dtype"_a = nb::none(), "threads"_a = 0, "isa"_a = nb::none(),
        nb::sig("def linear_forward(x: " UFP4_ARRAY ", w: " UFP4_ARRAY ", recipe: str = 'ufp4', *, bias: " UFP4_ARRAY
                " | None = None, " UFP4_PLACE UFP4_CALL ") -> " UFP4_NEW),
        "Y[T,N] = X[T,K] * W[N,K]^T + bias under a recipe's forward policy; the result has the type of x without "
        "dtype.\n\n"
        "x [T, K], w [N, K]: float32, float16 or bfloat16. bias: float32 [N]. out: an array [T, N] to write to, which "
        "is returned.\n"
        "recipe: one of recipes(). seed, step, layer: the same give the same random signs and bits.\n"
        "ValueError: shapes that do not match, an unknown recipe, a layer above 65535, or an out that overlaps an "
        "operand.");
  m.def(
      "linear_backward_input", &linear_backward_input, "dy"_a, "w"_a, "recipe"_a = "ufp4", nb::kw_only(), "seed"_a = 0,
      "step"_a = 0, "layer"_a = 0, "accumulate"_a = "fast", "out"_a = nb::none(), "dtype"_a = nb::none(),
      "add"_a = false, "threads"_a = 0, "isa"_a = nb::none(),
      nb::sig("def linear_backward_input(dy: " UFP4_ARRAY ", w: " UFP4_ARRAY ", recipe: str = 'ufp4', *, " UFP4_PLACE
              "add: bool = False, " UFP4_CALL ") -> " UFP4_NEW),
      "dX[T,K] = dY[T,N] * W[N,K] under a recipe's policy for it; the result has the type of dy without dtype.\n\n"
      "dy [T, N], w [N, K]. out: an array [T, K] to write to, which is returned; add=True adds to it.\n"
      "ValueError: shapes that do not match, an unknown recipe, add without out, or an out that overlaps an operand.");
  m.def(
      "linear_backward_weight", &linear_backward_weight, "dy"_a, "x"_a, "recipe"_a = "ufp4", nb::kw_only(),
      "seed"_a = 0, "step"_a = 0, "layer"_a = 0, "accumulate"_a = "fast", "out"_a = nb::none(), "dtype"_a = nb::none(),
      "add"_a = false, "threads"_a = 0, "isa"_a = nb::none(),
      nb::sig("def linear_backward_weight(dy: " UFP4_ARRAY ", x: " UFP4_ARRAY ", recipe: str = 'ufp4', *, " UFP4_PLACE
              "add: bool = False, " UFP4_CALL ") -> " UFP4_NEW),
      "dW[N,K] = dY[T,N]^T * X[T,K] under a recipe's policy for it, in float32 without dtype.\n\n"
      "dy [T, N], x [T, K]. out: an array [N, K] to write to, which is returned; add=True adds to it.\n"
      "ValueError: shapes that do not match, an unknown recipe, add without out, or an out that overlaps an operand.");
}

}  // namespace ufp4::python
