// ufp4 - cast in Python: a quantized matrix in another format, and what was lost.
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/tuple.h>

#include "quantized.hpp"
#include "signatures.hpp"

namespace ufp4::python {
namespace {

nb::object report_of(const cast_report& r) {
  return nb::module_::import_("ufp4._cast")
      .attr("CastReport")(r.blocks, r.inexact_blocks, r.inexact_elements, r.signal, r.noise);
}

std::tuple<quantized, nb::object> cast_matrix(const quantized& q, nb::handle format, int threads, nb::handle isa) {
  constexpr const char* operation = "cast";
  const cpu::context ctx = context_of(operation, threads, isa);
  const format_spec to = format_of(operation, format);
  any_quantized out;
  cast_report report;
  run(ctx, elements_in(q.view.rows(), q.view.cols()), long_pass, [&](const cpu::context& c) {
    report = {};
    out = cast(q.view, to, report, c);
  });
  return {quantized(std::move(out)), report_of(report)};
}

}  // namespace

void bind_cast(nb::module_& m) {
  using namespace nb::literals;
  m.def("cast", &cast_matrix, "q"_a, "format"_a, nb::kw_only(), "threads"_a = 0, "isa"_a = nb::none(),
        nb::sig("def cast(q: QuantizedMatrix, format: str | Format, *, " UFP4_CALL
                ") -> tuple[QuantizedMatrix, ufp4.CastReport]"),
        "q [rows, columns] in another format, and what was lost: blocks whose values and scales fit keep them.\n\n"
        "mxfp4 becomes nvfp4 without loss where its scales are within 2^17 of each other, E1M2 becomes int4 and back,\n"
        "scales of 8 bits become float32, nvfp4 becomes if4. Other blocks are quantized from their values, under "
        "search='mse',\n"
        "and counted in the report. The transform of q stays.\n"
        "ValueError: a format with elements of one byte, or with blocks of another number of rows.");
}

}  // namespace ufp4::python
