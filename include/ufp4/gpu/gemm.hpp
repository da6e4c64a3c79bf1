// ufp4 - quantized_gemm on a GPU: C = alpha * A * B^T + bias + beta * C.
// SPDX-License-Identifier: Apache-2.0
//
//   gpu::quantized_gemm(ctx, qx, qw, y);                    // queued on ctx.where
//   gpu::explain(ctx, qx, qw, y).text();                    // "quantized_gemm: gemm_simt (fma), tiles of ..."
//   gpu::workspace_bytes(ctx, operand<nvfp4>(x), qw, y);    // bytes that ctx.workspace must have for these arguments
#pragma once

#include <cstddef>
#include <span>
#include <ufp4/gpu/gemm_call.hpp>
#include <ufp4/gpu/kernel_choice.hpp>

namespace ufp4::gpu::detail::inline UFP4_GPU {

template <viewed_operand A, viewed_operand B>
status multiply(const context& ctx, const A& a, const B& b, const ufp4::detail::sink& out,
                const gemm_options& options) {
  constexpr const char* operation = "quantized_gemm";
  check_call(operation, a, b, out, options);
  if (out.rows == 0 || out.cols == 0) return {};
  device_facts device;
  if (const error e = facts(device); e != success) return status_of(operation, e);
  gemm_call call = call_of(a, b, out, options, {});
  const std::size_t own = kernel_bytes(call.job, device);
  check_workspace(operation, ctx, call.operand_bytes + own);
  if (call.operand_bytes != 0) call = call_of(a, b, out, options, ctx.workspace);
  if (const error e = queue_operand(a, call.job.left, call.left_amax, ctx.where); e != success)
    return status_of(operation, e);
  if (const error e = queue_operand(b, call.job.right, call.right_amax, ctx.where); e != success)
    return status_of(operation, e);
  return run_gemm(operation, call.job, device,
                  own == 0 ? std::span<std::byte>{} : ctx.workspace.subspan(call.operand_bytes), ctx.where);
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU

namespace ufp4::gpu::inline UFP4_GPU {

/// The same as the host's (gemm.hpp) for shapes, transforms, NaN and K = 0, and with exact_blocks for the bits.
/// Everything that is read or written is in device memory, bias included.
///
/// | A, B   | gpu::quantized_matrix, gpu::quantized_view, or operand<F>(x, policies...), which is first quantized   |
/// |        | into the workspace. Formats may differ, block lengths may not. One of them may be a plain matrix_view |
/// |        | or unquantized(x, transform)                                                                          |
/// | fast   | the kernel, and so the bits, depends on the device, the shapes and the architectures that the program |
/// |        | was compiled for: see explain()                                                                       |
/// | errors | the host's messages; nothing is queued                                                                |
template <detail::any_operand A, detail::any_operand B, matrix_scalar T>
status quantized_gemm(const context& ctx, const A& a, const B& b, const matrix_view<T>& c,
                      const gemm_options& options = {}) {
  return detail::checked(
      [&] { return detail::multiply(ctx, detail::viewed(a), detail::viewed(b), ufp4::detail::sink_of(c), options); });
}

/// Bytes that context.workspace must have for quantized_gemm with the same arguments on the current device. Checks
/// nothing.
template <detail::any_operand A, detail::any_operand B, matrix_scalar T>
std::size_t workspace_bytes(const context&, const A& a, const B& b, const matrix_view<T>& c,
                            const gemm_options& options = {}) {
  device_facts device;
  if (facts(device) != success) return 0;
  const auto call = detail::call_of(detail::viewed(a), detail::viewed(b), ufp4::detail::sink_of(c), options, {});
  return call.operand_bytes + detail::kernel_bytes(call.job, device);
}

/// The kernel that quantized_gemm with the same arguments would run on the current device. Nothing is checked, read or
/// queued.
template <detail::any_operand A, detail::any_operand B, matrix_scalar T>
explanation explain(const context&, const A& a, const B& b, const matrix_view<T>& c, const gemm_options& options = {}) {
  device_facts device;
  if (const error wrong = facts(device); wrong != success)
    return {"quantized_gemm", "", "", 0, 0, options.accumulate, error_text(wrong)};
  const auto call = detail::call_of(detail::viewed(a), detail::viewed(b), ufp4::detail::sink_of(c), options, {});
  return detail::explain_job("quantized_gemm", call.job, device);
}

/// Is there a kernel for quantized_gemm with the same arguments on the current device? Checks nothing.
template <detail::any_operand A, detail::any_operand B, matrix_scalar T>
bool can_run(const context& ctx, const A& a, const B& b, const matrix_view<T>& c, const gemm_options& options = {}) {
  return *explain(ctx, a, b, c, options).kernel != '\0';
}

/// Reads the facts of the current device, once for the calling thread; its operations then ask the runtime nothing
/// more. Call it in the thread that captures a graph, before the capture.
inline status prepare() {
  device_facts device;
  return detail::status_of("prepare", facts(device));
}

}  // namespace ufp4::gpu::inline UFP4_GPU
