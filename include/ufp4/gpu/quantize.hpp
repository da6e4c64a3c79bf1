// ufp4 - quantize, quantize_both, amax: from a matrix of floats in device memory to 4-bit blocks there.
// SPDX-License-Identifier: Apache-2.0
//
//   gpu::quantize<nvfp4>(ctx, x, out, random_hadamard<16>{42}, stochastic{.seed = 7});   // queued on ctx.where
//   gpu::quantize<nvfp4>(ctx, transpose(x), out_t);                                     // blocks along x's columns
//   gpu::quantize_both<nvfp4>(ctx, x, out, out_t, gpu::with(), gpu::with(stochastic{.seed = 7}));  // one pass over x
//
// | bits      | the host's (numerics.md), for every format, preset, policy, stride and sharding                 |
// | policies  | the host's, in any order, except count_into; and tensor_amax_at, count_at (device_policies.hpp) |
// | out       | has x's shape and the given transform; codes, scales and the tensor scale are written           |
// | workspace | workspace_bytes<F>(ctx, x, policies...): 256 if the tensor's amax must be computed, or 0        |
// | errors    | the host's messages; nothing is queued                                                          |
#pragma once

#include <ufp4/gpu/device_policies.hpp>
#include <ufp4/gpu/kernels/quantize_launch.hpp>
#include <ufp4/gpu/matrix.hpp>
#include <ufp4/matrix/checks.hpp>

namespace ufp4::gpu::detail::inline UFP4_GPU {

inline constexpr std::size_t amax_bytes = 256;  ///< of workspace for the amax of a tensor, aligned to 256

template <quantizer_target F, matrix_scalar T, class O>
void check_quantize(const char* operation, const matrix_view<T>& x, const quantized_view<format_of<F>>& out,
                    const O& all) {
  ufp4::detail::check_quantize<F>(operation, x, all.host, false, all.has_amax_at);
  check_places(operation, "x", x.rows(), x.cols());
  expects(!all.has_amax_at || format_of<F>::has_tensor_scale, operation, ": " UFP4_NO_TENSOR_SCALE("tensor_amax_at"));
  if constexpr (std::is_same_v<typename O::rounding, rounding_spec>)
    expects(all.host.rounding.what != rounding_spec::kind::eden, operation, ": eden is not available on GPUs");
  expects(!all.has_amax_at || all.amax_at != nullptr, operation, ": tensor_amax_at is null");
  expects(!all.counts || all.report != nullptr, operation, ": count_at is null");
  expects(out.rows() == x.rows() && out.cols() == x.cols(), operation, ": shape mismatch: out is ", out.rows(), " x ",
          out.cols(), ", x is ", x.rows(), " x ", x.cols());
  expects(same_map(out.transform(), all.host.transform), operation, ": transform mismatch: out was made for ",
          transform_name(out.transform()), ", the policies have ", transform_name(all.host.transform),
          out.transform().n == all.host.transform.n ? " with other signs" : "");
  check_apart(operation, "codes", out.codes(), "x", x);
  check_apart(operation, "scales", out.scales(), "x", x);
  const std::span<float> tensor_scale{out.tensor_scale(), out.tensor_scale() == nullptr ? 0u : 1u};
  check_apart(operation, "tensor_scale", tensor_scale, "x", x);
  expects(!all.has_amax_at || all.amax_at != out.tensor_scale(), operation,
          ": tensor_amax_at is the tensor_scale of out: it is written while threads still read the amax");
}

template <quantizer_target F, class O>
bool computes_amax(const O& all) {
  return format_of<F>::has_tensor_scale && !all.host.has_amax && !all.has_amax_at;
}

template <quantizer_target F, class O>
std::size_t amax_workspace(const O& all) {
  return computes_amax<F>(all) ? amax_bytes : 0;
}

/// `amax_bits`: memory for the bits of the tensor's amax, if it must be computed.
template <quantizer_target F, matrix_scalar T, class O>
quantize_task task_of(const matrix_view<T>& x, const quantized_view<format_of<F>>& out, const O& all,
                      std::uint32_t* amax_bits) {
  using Format = format_of<F>;
  quantize_task task;
  task.job = make_job(source_of(x), spec_of<Format>, all.host);
  task.job.counts = all.report != nullptr;
  if constexpr (std::is_same_v<typename O::rule, scale_rule_spec>) task.rule = all.host.rule;
  if constexpr (std::is_same_v<typename O::rounding, rounding_spec>) task.rounding = all.host.rounding;
  task.codes = out.codes().data();
  task.scales = out.scales().data();
  task.tensor_scale = Format::has_tensor_scale ? out.tensor_scale() : nullptr;
  task.global_amax = all.host.global_amax;
  if (Format::has_tensor_scale && all.has_amax_at)
    task.global_amax_bits = reinterpret_cast<const std::uint32_t*>(all.amax_at);
  if (computes_amax<F>(all)) task.global_amax_bits = amax_bits;
  task.report = all.report;
  return task;
}

/// Does this call need the scalar codec for every format, because its coder is not the library's own?
template <quantizer_target F, class O>
inline constexpr bool has_own_coder = compat::preset<F> || !std::is_same_v<typename O::rounding, rounding_spec> ||
                                      !std::is_same_v<typename O::rule, scale_rule_spec>;

template <quantizer_target Rows, quantizer_target Cols, class R, class C>
bool reads_once(const quantize_task& down, const quantize_task& across) {
  return !has_own_coder<Rows, R> && !has_own_coder<Cols, C> && takes_both(down, across);
}

/// The kernels that quantize<F> may need with options of this type.
template <quantizer_target F, class O>
constexpr unsigned parts_of() {
  constexpr features asked = decltype(O::host)::needs;
  constexpr format_spec f = spec_of<format_of<F>>;
  constexpr bool square = f.block.rows == 16 && f.block.cols == 16, extended = has_extended_blocks(f);
  constexpr bool lanes = !has_own_coder<F, O> && !extended && (square || (f.block.rows == 1 && f.block.cols >= 16));
  constexpr bool plan = lanes && thread::plan_of(f.grid).kind != thread::rounding_plan::grid::levels;
  constexpr bool transforms = has(asked, features::transform);
  constexpr auto part = [](bool needed, unsigned which) { return needed ? which : 0u; };
  if (kernels_are_external) return parts::all;
  return part(extended, parts::extended) | part(transforms, parts::transforms) |
         part(!extended && (!lanes || has(asked, features::search) || (square && transforms)), parts::blocks) |
         part(plan, f.has_tensor_scale() ? parts::tensor_scaled : parts::planned) |
         part(lanes && (!plan || has(asked, features::other_rounding)), parts::levels) |
         part(plan && (transforms || f.block.cols > 64), parts::long_runs);
}

template <quantizer_target F, class O>
error queue_codes(const quantize_task& task, [[maybe_unused]] const O& all, stream where) {
  if constexpr (compat::preset<F>)
    return queue_blocks(task, typename F::coder{{task.job.format, {}}}, where);
  else if constexpr (has_own_coder<F, O>)
    return queue_scalar<has_extended_blocks(spec_of<format_of<F>>)>(task, all.host.rule, all.host.rounding, where);
  else
    return queue_quantize<parts_of<F, O>()>(task, where);
}

template <quantizer_target F, class O>
error queue_tensor_amax(const quantize_task& task, const O& all, std::uint32_t* amax_bits, stream where) {
  if constexpr (format_of<F>::has_tensor_scale)
    if (computes_amax<F>(all)) {
      const error e = set_zero(amax_bits, sizeof *amax_bits, where);
      return e == success ? queue_amax<parts_of<F, O>()>(task.job, amax_bits, where) : e;
    }
  return success;
}

template <quantizer_target F, matrix_scalar T, class O>
error queue_quantization(const matrix_view<T>& x, const quantized_view<format_of<F>>& out, const O& all,
                         std::uint32_t* amax_bits, stream where) {
  const quantize_task task = task_of<F>(x, out, all, amax_bits);
  const error e = queue_tensor_amax<F>(task, all, amax_bits, where);
  return e == success ? queue_codes<F>(task, all, where) : e;
}

template <quantizer_target F, class O>
kernel_choice kernel_of(const quantize_task& task, const O&) {
  kernel_choice kernel = quantize_kernel(task);
  if (has_own_coder<F, O> && !has_extended_blocks(task.job.format)) kernel.name = "quantize_blocks";
  if (compat::preset<F>)
    kernel.note = "a compat preset has a coder of its own, which uses one thread for each block";
  else if (has_own_coder<F, O>)
    kernel.note = "a rounding policy or scale rule of the program's own uses one thread for each block";
  return kernel;
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU

namespace ufp4::gpu::inline UFP4_GPU {

/// The policies of one of the two outputs: quantize_both(..., with(hadamard<16>{}), with(stochastic{.seed = 1})).
template <class Options>
struct policy_set {
  Options options;  ///< the policies of the call
};
/// Collects policies into a policy_set.
template <class... Policies>
auto with(const Policies&... policies) {
  auto options = detail::collect(policies...);
  return policy_set<decltype(options)>{options};
}

/// The kernel that a call would run.
struct quantize_explanation {
  const char* operation = "";  ///< the operation
  const char* kernel = "";     ///< the name of its kernel
  std::string note;            ///< why a faster kernel is not used; may be empty

  /// All members in one line.
  std::string text() const {
    const std::string line = detail::concat(operation, ": ", kernel);
    return note.empty() ? line : line + "; " + note;
  }
};

/// Quantizes x. F is a block_format or a compat preset. See the top of this file.
template <detail::quantizer_target F, detail::matrix_scalar T, class... Policies>
status quantize(const context& ctx, const matrix_view<T>& x, const quantized_view<detail::format_of<F>>& out,
                const Policies&... policies) {
  const auto all = detail::collect_for<detail::format_of<F>>(policies...);
  return detail::checked([&]() -> status {
    detail::check_quantize<F>("quantize", x, out, all);
    detail::check_memory("quantize", "context.workspace", ctx.workspace, detail::amax_workspace<F>(all));
    auto* amax_bits = reinterpret_cast<std::uint32_t*>(ctx.workspace.data());
    return detail::status_of("quantize", detail::queue_quantization<F>(x, out, all, amax_bits, ctx.where));
  });
}

/// Bytes that context.workspace must have for quantize<F> with the same matrix and policies.
template <detail::quantizer_target F, detail::matrix_scalar T, class... Policies>
std::size_t workspace_bytes(const context&, const matrix_view<T>&, const Policies&... policies) {
  return detail::amax_workspace<F>(detail::collect_for<detail::format_of<F>>(policies...));
}

/// The kernel that quantize<F> with the same matrix and policies would run. Nothing is checked, read or queued.
template <detail::quantizer_target F, detail::matrix_scalar T, class... Policies>
quantize_explanation explain(const context&, const matrix_view<T>& x, const Policies&... policies) {
  const auto all = detail::collect_for<detail::format_of<F>>(policies...);
  const auto task = detail::task_of<F>(x, quantized_view<detail::format_of<F>>{}, all, nullptr);
  const detail::kernel_choice kernel = detail::kernel_of<F>(task, all);
  return {"quantize", kernel.name, kernel.note};
}

/// quantize<Rows>(x) and quantize<Cols>(transpose(x)), as a training step needs them of an activation or a gradient.
/// Reads x once if both have formats and policies of the library in runs up to 64 (explain_both), with the same bits.
template <detail::quantizer_target Rows, detail::quantizer_target Cols = Rows, detail::matrix_scalar T,
          class R = decltype(detail::collect()), class C = decltype(detail::collect())>
status quantize_both(const context& ctx, const matrix_view<T>& x, const quantized_view<detail::format_of<Rows>>& rows,
                     const quantized_view<detail::format_of<Cols>>& cols, const policy_set<R>& for_rows = {},
                     const policy_set<C>& for_cols = {}) {
  constexpr const char* operation = "quantize_both";
  return detail::checked([&]() -> status {
    detail::check_quantize<Rows>(operation, x, rows, for_rows.options);
    detail::check_quantize<Cols>(operation, transpose(x), cols, for_cols.options);
    const std::size_t row_bytes = detail::amax_workspace<Rows>(for_rows.options);
    const std::size_t bytes = row_bytes + detail::amax_workspace<Cols>(for_cols.options);
    detail::check_memory(operation, "context.workspace", ctx.workspace, bytes);
    auto* row_amax = reinterpret_cast<std::uint32_t*>(ctx.workspace.data());
    auto* col_amax = reinterpret_cast<std::uint32_t*>(ctx.workspace.data() + (bytes == 0 ? 0 : row_bytes));
    const auto down = detail::task_of<Rows>(x, rows, for_rows.options, row_amax);
    const auto across = detail::task_of<Cols>(transpose(x), cols, for_cols.options, col_amax);
    const bool once = detail::reads_once<Rows, Cols, R, C>(down, across);
    constexpr unsigned parts = detail::parts_of<Rows, R>() | detail::parts_of<Cols, C>();
    error e = success;
    if (once && detail::computes_amax<Rows>(for_rows.options) && detail::computes_amax<Cols>(for_cols.options)) {
      e = set_zero(row_amax, sizeof *row_amax, ctx.where);
      if (e == success) e = set_zero(col_amax, sizeof *col_amax, ctx.where);
      if (e == success) e = detail::queue_amax_both<parts>(down.job, row_amax, across.job, col_amax, ctx.where);
    } else {
      e = detail::queue_tensor_amax<Rows>(down, for_rows.options, row_amax, ctx.where);
      if (e == success) e = detail::queue_tensor_amax<Cols>(across, for_cols.options, col_amax, ctx.where);
    }
    if (e != success) return detail::status_of(operation, e);
    if (once) return detail::status_of(operation, detail::queue_both<parts>(down, across, ctx.where));
    e = detail::queue_codes<Rows>(down, for_rows.options, ctx.where);
    return detail::status_of(operation,
                             e == success ? detail::queue_codes<Cols>(across, for_cols.options, ctx.where) : e);
  });
}

/// Bytes that context.workspace must have for quantize_both with the same matrix and policies.
template <detail::quantizer_target Rows, detail::quantizer_target Cols = Rows, detail::matrix_scalar T,
          class R = decltype(detail::collect()), class C = decltype(detail::collect())>
std::size_t workspace_bytes_both(const context&, const matrix_view<T>&, const policy_set<R>& for_rows = {},
                                 const policy_set<C>& for_cols = {}) {
  return detail::amax_workspace<Rows>(for_rows.options) + detail::amax_workspace<Cols>(for_cols.options);
}

/// The kernels that quantize_both with the same matrix and policies would run.
template <detail::quantizer_target Rows, detail::quantizer_target Cols = Rows, detail::matrix_scalar T,
          class R = decltype(detail::collect()), class C = decltype(detail::collect())>
quantize_explanation explain_both(const context&, const matrix_view<T>& x, const policy_set<R>& for_rows = {},
                                  const policy_set<C>& for_cols = {}) {
  const auto down = detail::task_of<Rows>(x, quantized_view<detail::format_of<Rows>>{}, for_rows.options, nullptr);
  const auto across =
      detail::task_of<Cols>(transpose(x), quantized_view<detail::format_of<Cols>>{}, for_cols.options, nullptr);
  if (detail::reads_once<Rows, Cols, R, C>(down, across)) return {"quantize_both", "quantize_tiles", {}};
  return {"quantize_both", detail::kernel_of<Rows>(down, for_rows.options).name,
          detail::concat("x is read twice, by ", detail::kernel_of<Cols>(across, for_cols.options).name,
                         " for its transpose")};
}

/// *out = the host's amax(x, t), in device memory: for tensor_amax_at, or for an all-reduce over ranks first (the order
/// of floats >= 0 is the order of their bits). Needs no workspace.
template <detail::matrix_scalar T>
status amax(const context& ctx, const matrix_view<T>& x, float* out, const transform_spec& t = {}) {
  return detail::checked([&]() -> status {
    detail::check_data("amax", "x", x);
    detail::check_places("amax", "x", x.rows(), x.cols());
    detail::check_signs("amax", t);
    detail::expects(out != nullptr, "amax: out is null");
    detail::stored_quantize_job job;
    job.x = detail::source_of(x);
    job.transform = t;
    auto* bits = reinterpret_cast<std::uint32_t*>(out);
    const error e = set_zero(bits, sizeof *bits, ctx.where);
    return detail::status_of("amax", e == success ? detail::queue_amax(job, bits, ctx.where) : e);
  });
}
/// The same with a transform type, such as random_hadamard<16>.
template <detail::matrix_scalar T, detail::transform Transform>
status amax(const context& ctx, const matrix_view<T>& x, float* out, const Transform& t) {
  return amax(ctx, x, out, t.spec());
}

}  // namespace ufp4::gpu::inline UFP4_GPU
