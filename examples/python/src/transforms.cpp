// ufp4 - Hadamard transforms of arrays in Python.
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/optional.h>

#include <optional>
#include <ufp4/c/convert.hpp>

#include "calls.hpp"
#include "policies.hpp"
#include "signatures.hpp"

namespace ufp4::python {
namespace {

using c::detail::with_views;

nb::object hadamard_forward(nb::handle x, nb::handle transform, nb::handle out, nb::handle dtype, int threads,
                            nb::handle isa) {
  constexpr const char* operation = "hadamard_forward";
  const matrix_argument from(operation, "x", x);
  const transform_spec t = transform_of(operation, transform);
  const cpu::context ctx = context_of(operation, threads, isa);
  const std::size_t padded = (from.elements.cols + t.n - 1) / t.n * t.n;
  const output to(operation, out, dtype, from.elements.rows, padded, from.elements.kind);
  run(ctx, elements_in(from.elements.rows, padded), long_pass, [&](const cpu::context& c) {
    with_views(from.elements, to.elements(),
               [&](const auto& in, const auto& result) { ufp4::hadamard_forward(in, result, t, c); });
  });
  return to.object;
}

nb::object hadamard_inverse(nb::handle x, nb::handle transform, std::optional<std::size_t> cols, nb::handle out,
                            nb::handle dtype, int threads, nb::handle isa) {
  constexpr const char* operation = "hadamard_inverse";
  const matrix_argument from(operation, "x", x);
  const transform_spec t = transform_of(operation, transform);
  const cpu::context ctx = context_of(operation, threads, isa);
  const output to(operation, out, dtype, from.elements.rows, cols.value_or(from.elements.cols), from.elements.kind);
  run(ctx, elements_in(from.elements.rows, from.elements.cols), long_pass, [&](const cpu::context& c) {
    with_views(from.elements, to.elements(),
               [&](const auto& in, const auto& result) { ufp4::hadamard_inverse(in, result, t, c); });
  });
  return to.object;
}

}  // namespace

void bind_transforms(nb::module_& m) {
  using namespace nb::literals;
  m.def(
      "hadamard_forward", &hadamard_forward, "x"_a, "transform"_a, nb::kw_only(), "out"_a = nb::none(),
      "dtype"_a = nb::none(), "threads"_a = 0, "isa"_a = nb::none(),
      nb::sig("def hadamard_forward(x: " UFP4_ARRAY ", transform: int | Transform, *, " UFP4_TO UFP4_CALL
              ") -> " UFP4_NEW),
      "Transforms the rows of x [rows, columns]; the result has the columns rounded up to a multiple of n, x being "
      "padded with zeros.\n\n"
      "transform: a Transform, or n for random_hadamard(n, 0). out: an array of the result's shape to write to, which\n"
      "is returned; it may be x itself. dtype: of a new result, that of x if None.\n"
      "ValueError: an argument that does not fit, or an out of another shape or that overlaps x in part.");
  m.def("hadamard_inverse", &hadamard_inverse, "x"_a, "transform"_a, nb::kw_only(), "cols"_a = nb::none(),
        "out"_a = nb::none(), "dtype"_a = nb::none(), "threads"_a = 0, "isa"_a = nb::none(),
        nb::sig("def hadamard_inverse(x: " UFP4_ARRAY
                ", transform: int | Transform, *, cols: int | None = None, " UFP4_TO UFP4_CALL ") -> " UFP4_NEW),
        "The inverse of hadamard_forward: x [rows, columns], columns a multiple of n, becomes [rows, cols].\n\n"
        "cols: the columns of the result, without padding; those of x if None. out, dtype: as of hadamard_forward.\n"
        "ValueError: columns that are not cols rounded up to a multiple of n, or another argument that does not fit.");
}

}  // namespace ufp4::python
