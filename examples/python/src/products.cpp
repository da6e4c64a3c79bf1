// ufp4 - products in Python: matmul, prepacked weights.
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <variant>

#include "quantized.hpp"
#include "signatures.hpp"

namespace ufp4::python {
namespace {

using ufp4::detail::gemm_job, ufp4::detail::unquantized_side;

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

/// Quantizes an unquantized operand in the format of the call.
void quantize_operand(const char* operation, const cpu::context& ctx, nb::handle format, nb::handle rht, operand& x) {
  if (!x.is_plain()) return;
  detail::quantize_options<> options;
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
    unquantized_side side(matrix_view<const float>{});
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
    if (job.out.rows != 0 && job.out.cols != 0)
      cpu::detail::run_gemms(c, cpu::detail::kernels::gemm<ufp4::detail::features::all>, {&job, 1});
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
  return cpu::detail::explain_gemm(ctx, cpu::detail::kernels::gemm<ufp4::detail::features::all>, job).text();
}

any_prepacked prepack_matrix(const quantized& q, int threads, nb::handle isa) {
  const cpu::context ctx = context_of("prepack", threads, isa);
  any_prepacked out;
  run(ctx, elements_in(q.view.rows(), q.view.cols()), long_pass,
      [&](const cpu::context& c) { out = prepack(q.view, c); });
  return out;
}

}  // namespace

void bind_products(nb::module_& m) {
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
        "A copy of q [N, K] in the order in which products read their second operand: the weights of matmul(a, q).\n\n"
        "ValueError: a format of one byte an element, which is not prepacked.");
  m.def(
      "matmul", &matmul, "a"_a, "b"_a, nb::kw_only(), "format"_a = nb::none(), "rht"_a = nb::none(),
      "out"_a = nb::none(), "dtype"_a = nb::none(), "alpha"_a = 1.0f, "beta"_a = 0.0f, "bias"_a = nb::none(),
      "accumulate"_a = "fast", "threads"_a = 0, "isa"_a = nb::none(),
      nb::sig("def matmul(a: QuantizedMatrix | " UFP4_ARRAY ", b: QuantizedMatrix | PrepackedMatrix | " UFP4_ARRAY
              ", *, format: str | Format | None = None, rht: int | Transform | None = None, " UFP4_TO
              "alpha: float = 1.0, beta: float = 0.0, bias: " UFP4_ARRAY " | None = None, " UFP4_MODE UFP4_CALL
              ") -> " UFP4_NEW),
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
        "Which kernel matmul(a [M, K], b [N, K]) with these arguments runs, as text.\n\n"
        "ValueError: what matmul rejects.");
}

}  // namespace ufp4::python
