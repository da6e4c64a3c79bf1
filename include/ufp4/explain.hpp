// ufp4 - cpu::explain: which kernel a call would run, and why not a better one.
// SPDX-License-Identifier: Apache-2.0
//
//   std::puts(ufp4::cpu::explain(qx, qw, y, {.accumulate = accumulate::exact_blocks}).text().c_str());
//   quantized_gemm: gemm_int8_avx512 (avx512), tiles of 8 x 32 x 4, accumulate exact_blocks
//
// explain takes the arguments of the call it explains: three operands for quantized_gemm, a format for quantize<F>, two
// for dequantize, a transform after two for hadamard_forward. No element is read or written.
#pragma once

#include <ufp4/gemm.hpp>
#include <ufp4/hadamard.hpp>

namespace ufp4::cpu::inline UFP4_CODE {

/// What a call would run.
struct explanation {
  const char* operation = "";          ///< the function's name
  const char* kernel = "";             ///< its name, as in the dispatch table
  cpu::isa isa = cpu::isa::scalar;     ///< the tier of the kernel: the call's own, or an ancestor with a better kernel
  std::size_t tile_rows = 0;           ///< of C, in registers; 0 for every operation but quantized_gemm
  std::size_t tile_cols = 0;           ///< the same
  std::size_t tile_depth = 0;          ///< K that one multiply instruction adds up; 0 for the others
  accumulate mode = accumulate::fast;  ///< of a GEMM: exact_blocks also where the exact kernel is the fastest
  std::string note;                    ///< why a lesser tier is used; empty if there is nothing to report

  /// All of it in one line.
  std::string text() const {
    std::string line = ufp4::detail::concat(operation, ": ", kernel, " (", name(isa), ")");
    if (tile_rows != 0)
      line += ufp4::detail::concat(", tiles of ", tile_rows, " x ", tile_cols, " x ", tile_depth, ", accumulate ",
                                   ufp4::detail::name(mode));
    return note.empty() ? line : line + "; " + note;
  }
};

}  // namespace ufp4::cpu::inline UFP4_CODE

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// Why the kernel is of a lesser tier than the call asked for, or than the processor has.
inline std::string why_not_better(isa used, isa asked, const context& ctx) {
  std::string why;
  const auto add = [&why](const char* what, const char* text) {
    why += ufp4::detail::concat(why.empty() ? "" : "; ", what, text);
  };
  if (used != asked) why = ufp4::detail::concat("no ", name(asked), " kernel takes this call");
  if (ctx.isa != isa::automatic) return why;
  const isa best = available().best();
  if (!compiled().has(best)) add(name(best), " was left out of this build");
  if (std::string_view(amx_rejection()).starts_with("present")) add("amx: ", amx_rejection());
  return why;
}

template <class Row>
explanation explain_row(const char* operation, const Row& row, isa tier, const context& ctx) {
  return {.operation = operation, .kernel = row.name, .isa = row.tier, .note = why_not_better(row.tier, tier, ctx)};
}

inline explanation explain_gemm(const context& ctx, const gemm_table& table, const gemm_job& job) {
  const isa tier = resolve(ctx);
  gemm_job_place place;
  const gemm_plan plan = plan_gemm(table, job, tier, place);
  const gemm_kernel& k = *plan.kernel;
  std::string note = why_not_better(k.tier, tier, ctx);
  if (job.needs_binary64())
    note += std::string(note.empty() ? "" : "; ") + "a grid has values below 2^-40 or above 2^10: sums in binary64";
  if (plan.job->swapped) note += std::string(note.empty() ? "" : "; ") + "computed as the transposed product";
  return {"quantized_gemm", k.name, k.tier, k.tile_rows, k.tile_cols, k.tile_depth, k.made_as(job.mode), note};
}

template <ufp4::detail::features needs, class Coder>
explanation explain_quantize(const context& ctx, const quantize_job& job, const Coder& coder) {
  const isa tier = resolve(ctx);
  if constexpr (ufp4::detail::is_kernel_coder<Coder>)
    return explain_row("quantize", quantize_kernel_for(kernels::quantize<needs>, job, coder, tier), tier, ctx);
  else
    return {.operation = "quantize",
            .kernel = "quantize_scalar",
            .note = "a rounding policy or scale rule of the program's own, or a compat preset, runs in portable code"};
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE

namespace ufp4::cpu::inline UFP4_CODE {

/// quantized_gemm(a, b, c, options).
template <ufp4::detail::any_operand A, ufp4::detail::any_operand B, ufp4::detail::matrix_scalar T>
explanation explain(const A& a, const B& b, const matrix_view<T>& c, const gemm_options& options,
                    const context& ctx = {}) {
  return detail::explain_gemm(ctx,
                              detail::kernels::gemm<ufp4::detail::features_of_product<A, B, accumulate::folded_bf16>>,
                              ufp4::detail::gemm_job_of(a, b, ufp4::detail::sink_of(c), options));
}
template <ufp4::detail::any_operand A, ufp4::detail::any_operand B, ufp4::detail::matrix_scalar T>
explanation explain(const A& a, const B& b, const matrix_view<T>& c, const std::same_as<context> auto&... ctx) {
  return explain(a, b, c, gemm_options{}, ctx...);
}

/// quantize<F>(x, policies...), quantize_into and fake_quantize.
template <ufp4::detail::quantizer_target F, ufp4::detail::matrix_scalar T, class... Policies>
explanation explain(const matrix_view<T>& x, const Policies&... policies) {
  const auto options = ufp4::detail::collect_for<ufp4::detail::format_of<F>, T>(policies...);
  return detail::explain_quantize<options.needs>(
      ufp4::detail::context_among(policies...),
      ufp4::detail::make_job(ufp4::detail::source_of(x), spec_of<ufp4::detail::format_of<F>>, options),
      ufp4::detail::make_coder<ufp4::detail::preset_of<F>>(spec_of<ufp4::detail::format_of<F>>, options, 0.0f));
}
/// The same with the format as data.
template <ufp4::detail::matrix_scalar T, class... Policies>
explanation explain(const format_spec& format, const matrix_view<T>& x, const Policies&... policies) {
  const auto options = ufp4::detail::collect_as_data<T>(policies...);
  return detail::explain_quantize<options.needs>(ufp4::detail::context_among(policies...),
                                                 ufp4::detail::make_job(ufp4::detail::source_of(x), format, options),
                                                 ufp4::detail::make_coder(format, options, 0.0f));
}

/// dequantize(q, out).
template <ufp4::detail::quantized_like Q, ufp4::detail::matrix_scalar T>
explanation explain(const Q& q, const matrix_view<T>&, const context& ctx = {}) {
  const isa tier = resolve(ctx);
  const auto& kernels =
      detail::kernels::dequantize < ufp4::detail::features_of_matrix<Q> | ufp4::detail::features_of_scalar < T >>
      ;
  const bool is_portable = detail::is_decoded_by_scalar(any_quantized_view(q).spec());
  return detail::explain_row("dequantize", detail::kernel_for(kernels, is_portable ? isa::scalar : tier), tier, ctx);
}

/// hadamard_forward(x, out, t) and hadamard_inverse.
template <ufp4::detail::matrix_scalar X, ufp4::detail::matrix_scalar Y, ufp4::detail::transform Transform>
explanation explain(const matrix_view<X>&, const matrix_view<Y>&, const Transform&, const context& ctx = {}) {
  const isa tier = resolve(ctx);
  const auto& table =
      detail::kernels::hadamard < ufp4::detail::features_of_scalar<X> | ufp4::detail::features_of_scalar < Y >>
      ;
  return detail::explain_row("hadamard", detail::kernel_for(table, tier), tier, ctx);
}

}  // namespace ufp4::cpu::inline UFP4_CODE
