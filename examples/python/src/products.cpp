// ufp4 - products in Python: matmul, prepacked weights, and the three products of a linear layer under a recipe.
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <variant>

#include "quantized.hpp"

namespace ufp4::python {
namespace {

using ufp4::detail::gemm_job, ufp4::detail::plain_side;

/// An operand of a product: quantized, prepacked or plain, with the memory that it refers to.
struct operand {
  matrix_argument array;
  any_quantized made;
  std::variant<any_quantized_view, const any_prepacked*, source> matrix;

  bool is_plain() const { return std::holds_alternative<source>(matrix); }
  std::size_t rows() const {
    if (is_plain()) return std::get<source>(matrix).rows;
    if (const auto* q = std::get_if<any_quantized_view>(&matrix)) return q->rows();
    return std::get<const any_prepacked*>(matrix)->rows();
  }
  std::size_t cols() const {
    if (is_plain()) return std::get<source>(matrix).cols;
    if (const auto* q = std::get_if<any_quantized_view>(&matrix)) return q->cols();
    return std::get<const any_prepacked*>(matrix)->cols();
  }
  transform_spec transform() const {
    if (const auto* q = std::get_if<any_quantized_view>(&matrix)) return q->transform();
    if (const auto* p = std::get_if<const any_prepacked*>(&matrix)) return (*p)->transform();
    return {};
  }
};

void set_operand(const char* operation, const char* name, nb::handle from, operand& out) {
  if (nb::isinstance<quantized>(from)) {
    out.matrix = nb::cast<const quantized&>(from).view;
  } else if (nb::isinstance<any_prepacked>(from)) {
    out.matrix = &nb::cast<const any_prepacked&>(from);
  } else {
    out.array = matrix_argument(operation, name, from);
    out.matrix = out.array.input();
  }
}

/// Quantizes a plain operand in the format of the call.
void quantize_operand(const char* operation, const cpu::context& ctx, nb::handle format, nb::handle rht, operand& x) {
  if (!x.is_plain()) return;
  quantize_options<> options;
  options.transform = transform_of(operation, rht);
  x.made = quantize_matrix(operation, ctx, format_of(operation, format), std::get<source>(x.matrix), options);
  x.matrix = x.made.view();
}

/// The checked job of a product.
gemm_job job_of(const char* operation, const operand& a, const operand& b, const sink& c, const gemm_options& options) {
  const auto job = [&](const auto& left, const auto& right) {
    ufp4::detail::check_gemm(operation, left, right, c, options);
    return ufp4::detail::gemm_job_of(left, right, c, options);
  };
  const auto plain = [](const operand& x, const operand& other) {
    plain_side side(matrix_view<const float>{});
    side.x = std::get<source>(x.matrix);
    side.transform = other.transform();
    return side;
  };
  const auto* right = std::get_if<any_quantized_view>(&b.matrix);
  const auto* packed = std::get_if<const any_prepacked*>(&b.matrix);
  if (const auto* left = std::get_if<any_quantized_view>(&a.matrix))
    return right != nullptr ? job(*left, *right) : packed != nullptr ? job(*left, **packed) : job(*left, plain(b, a));
  expects(a.is_plain(), operation, ": a PrepackedMatrix must be the second operand");
  expects(!b.is_plain(), operation, ": one of the operands must be quantized, or format given");
  return right != nullptr ? job(plain(a, b), *right) : job(plain(a, b), **packed);
}

struct bias_argument {
  array held;
  std::span<const float> values;

  bias_argument(const char* operation, nb::handle bias) {
    if (bias.is_none()) return;
    held = array(operation, "bias", bias);
    expects(held.type() == element::f32 && held.ndim() == 1 && held.is_contiguous(), operation,
            ": bias must be a contiguous array of float32 with 1 dimension");
    expects(reinterpret_cast<std::uintptr_t>(held.data()) % 4 == 0, operation, ": bias is not aligned to 4 bytes");
    values = {static_cast<const float*>(held.data()), held.shape(0)};
  }
};

/// The operands of a product, quantized where the call has a format.
struct operands {
  operand a, b;

  operands(const char* operation, const cpu::context& ctx, nb::handle left, nb::handle right, nb::handle format,
           nb::handle rht) {
    set_operand(operation, "a", left, a);
    set_operand(operation, "b", right, b);
    expects(a.cols() == b.cols(), operation, ": shape mismatch: a has ", a.cols(), " columns, b has ", b.cols());
    if (format.is_none()) {
      expects(rht.is_none(), operation, ": rht has no effect without format");
      return;
    }
    expects(a.is_plain() || b.is_plain(), operation, ": format has no effect: both operands are quantized");
    quantize_operand(operation, ctx, format, rht, a);
    quantize_operand(operation, ctx, format, rht, b);
  }
};

nb::object matmul(nb::handle a, nb::handle b, nb::handle format, nb::handle rht, nb::handle out, nb::handle dtype,
                  float alpha, float beta, nb::handle bias, nb::handle mode, int threads, nb::handle isa) {
  constexpr const char* operation = "matmul";
  const cpu::context ctx = context_of(operation, threads, isa);
  const operands both(operation, ctx, a, b, format, rht);
  expects(beta == 0.0f || !out.is_none(), operation, ": beta must be 0 without out, got ", beta);
  const bias_argument added(operation, bias);
  const output to(operation, out, dtype, both.a.rows(), both.b.rows());
  const gemm_options options{
      .alpha = alpha, .beta = beta, .accumulate = accumulate_of(operation, mode), .bias = added.values};
  const gemm_job job = job_of(operation, both.a, both.b, to.elements(), options);
  const double work = elements_in(both.a.rows(), both.b.rows()) * static_cast<double>(both.a.cols());
  run(ctx, work, long_product, [&](const cpu::context& c) {
    cpu::resolve(c);
    if (job.out.rows != 0 && job.out.cols != 0) cpu::detail::run_gemms(c, cpu::detail::kernels::gemm<>, {&job, 1});
  });
  return to.object;
}

std::string explain_matmul(nb::handle a, nb::handle b, nb::handle dtype, nb::handle mode, int threads, nb::handle isa) {
  constexpr const char* operation = "explain_matmul";
  const cpu::context ctx = context_of(operation, threads, isa);
  const operands both(operation, ctx, a, b, nb::none(), nb::none());
  alignas(4) static char nowhere[4];  // no element is written
  const sink c{
      nowhere, output_of(operation, dtype), both.a.rows(), both.b.rows(), static_cast<std::ptrdiff_t>(both.b.rows()),
      1};
  const gemm_job job = job_of(operation, both.a, both.b, c, {.accumulate = accumulate_of(operation, mode)});
  return cpu::detail::explain_gemm(ctx, cpu::detail::kernels::gemm<>, job).text();
}

any_prepacked prepack_matrix(const quantized& q, int threads, nb::handle isa) {
  const cpu::context ctx = context_of("prepack", threads, isa);
  any_prepacked out;
  run(ctx, elements_in(q.view.rows(), q.view.cols()), long_pass,
      [&](const cpu::context& c) { out = prepack(c, q.view); });
  return out;
}

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

#define UFP4_ARRAY "ufp4.Array"
#define UFP4_OUT "numpy.typing.NDArray[typing.Any]"
#define UFP4_MODE "accumulate: str = 'fast', "
#define UFP4_TO "out: " UFP4_ARRAY " | None = None, dtype: numpy.typing.DTypeLike | None = None, "
#define UFP4_CALL "threads: int = 0, isa: str | None = None"
#define UFP4_PLACE "seed: int = 0, step: int = 0, layer: int = 0, " UFP4_MODE UFP4_TO

void bind_matmul(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<any_prepacked>(
      m, "PrepackedMatrix",
      "Weights in the order in which products read them, for a second operand that is used again.\n\n"
      "Made by `prepack`. A product with it has the bits of the product with the QuantizedMatrix.")
      .def_prop_ro(
          "shape", [](const any_prepacked& p) { return std::tuple(p.rows(), p.cols()); },
          "(rows, columns), without padding.")
      .def_prop_ro(
          "format", [](const any_prepacked& p) { return p.spec(); }, "The format of codes and scales.")
      .def_prop_ro(
          "nbytes", [](const any_prepacked& p) { return p.codes().size() + p.scale_bytes().size(); },
          "Bytes of codes and scales, with the rows filled up to panels of 16.")
      .def("__repr__", [](const any_prepacked& p) {
        return concat("<ufp4.PrepackedMatrix ", name_of(p.spec()), ", ", p.rows(), " x ", p.cols(), ">");
      });
  m.def("prepack", &prepack_matrix, "q"_a, nb::kw_only(), "threads"_a = 0, "isa"_a = nb::none(),
        nb::sig("def prepack(q: QuantizedMatrix, *, " UFP4_CALL ") -> PrepackedMatrix"),
        "A copy of q in the order in which products read their second operand.");
  m.def(
      "matmul", &matmul, "a"_a, "b"_a, nb::kw_only(), "format"_a = nb::none(), "rht"_a = nb::none(),
      "out"_a = nb::none(), "dtype"_a = nb::none(), "alpha"_a = 1.0f, "beta"_a = 0.0f, "bias"_a = nb::none(),
      "accumulate"_a = "fast", "threads"_a = 0, "isa"_a = nb::none(),
      nb::sig("def matmul(a: QuantizedMatrix | " UFP4_ARRAY ", b: QuantizedMatrix | PrepackedMatrix | " UFP4_ARRAY
              ", *, format: str | Format | None = None, rht: int | Transform | None = None, " UFP4_TO
              "alpha: float = 1.0, beta: float = 0.0, bias: " UFP4_ARRAY " | None = None, " UFP4_MODE UFP4_CALL
              ") -> " UFP4_OUT),
      "C[M,N] = alpha * A[M,K] * B[N,K]^T + bias + beta * C. B is transposed: both operands have K as their "
      "columns.\n\n"
      "At least one operand is quantized; an array is multiplied in its own precision, transformed as the other was.\n"
      "format, rht: quantize the operands that are arrays in this call, both with the same transform.\n"
      "out: C, which beta * C reads; it is returned. dtype: of a new C: float32 (default), float16, bfloat16.\n"
      "bias: float32 [N]. accumulate: 'fast' (within an error bound), 'exact_blocks' (the same bits everywhere) or\n"
      "'folded_bf16'.\n"
      "ValueError: shapes, blocks or transforms that do not match, or an out that overlaps an operand.");
  m.def("explain_matmul", &explain_matmul, "a"_a, "b"_a, nb::kw_only(), "dtype"_a = nb::none(), "accumulate"_a = "fast",
        "threads"_a = 0, "isa"_a = nb::none(),
        nb::sig("def explain_matmul(a: QuantizedMatrix | " UFP4_ARRAY
                ", b: QuantizedMatrix | PrepackedMatrix | " UFP4_ARRAY
                ", *, dtype: numpy.typing.DTypeLike | None = None, " UFP4_MODE UFP4_CALL ") -> str"),
        "Which kernel matmul with these arguments runs.");
}

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
                " | None = None, " UFP4_PLACE UFP4_CALL ") -> " UFP4_OUT),
        "Y[T,N] = X[T,K] * W[N,K]^T + bias under a recipe's forward policy; the result has the type of x without "
        "dtype.\n\n"
        "recipe: one of recipes(). seed, step, layer: the same give the same random signs and bits.");
  m.def("linear_backward_input", &linear_backward_input, "dy"_a, "w"_a, "recipe"_a = "ufp4", nb::kw_only(),
        "seed"_a = 0, "step"_a = 0, "layer"_a = 0, "accumulate"_a = "fast", "out"_a = nb::none(),
        "dtype"_a = nb::none(), "add"_a = false, "threads"_a = 0, "isa"_a = nb::none(),
        nb::sig("def linear_backward_input(dy: " UFP4_ARRAY ", w: " UFP4_ARRAY ", recipe: str = 'ufp4', *, " UFP4_PLACE
                "add: bool = False, " UFP4_CALL ") -> " UFP4_OUT),
        "dX[T,K] = dY[T,N] * W[N,K] under a recipe's policy for it. add=True adds to out.");
  m.def("linear_backward_weight", &linear_backward_weight, "dy"_a, "x"_a, "recipe"_a = "ufp4", nb::kw_only(),
        "seed"_a = 0, "step"_a = 0, "layer"_a = 0, "accumulate"_a = "fast", "out"_a = nb::none(),
        "dtype"_a = nb::none(), "add"_a = false, "threads"_a = 0, "isa"_a = nb::none(),
        nb::sig("def linear_backward_weight(dy: " UFP4_ARRAY ", x: " UFP4_ARRAY ", recipe: str = 'ufp4', *, " UFP4_PLACE
                "add: bool = False, " UFP4_CALL ") -> " UFP4_OUT),
        "dW[N,K] = dY[T,N]^T * X[T,K] under a recipe's policy for it, in float32 without dtype. add=True adds to out.");
}

void bind_products(nb::module_& m) {
  bind_matmul(m);
  bind_linear(m);
}

}  // namespace ufp4::python
