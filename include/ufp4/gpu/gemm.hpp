// ufp4 - quantized_gemm on a GPU: C = alpha * A * B^T + bias + beta * C.
// SPDX-License-Identifier: Apache-2.0
//
//   gpu::quantized_gemm(ctx, qx, qw, y);                    // queued on ctx.where
//   gpu::explain(ctx, qx, qw, y).text();                    // "quantized_gemm: gemm_simt (fma), tiles of ..."
//   gpu::workspace_bytes(ctx, operand<nvfp4>(x), qw, y);    // bytes that ctx.workspace must have for these arguments
#pragma once

#include <ufp4/gpu/quantize.hpp>
#include <ufp4/matrix/product.hpp>

template <ufp4::detail::any_block_format F>
struct ufp4::detail::is_device_matrix<ufp4::gpu::quantized_view<F>> : std::true_type {};

namespace ufp4::gpu::detail::inline UFP4_GPU {

template <class T>
concept coded_operand = ufp4::detail::is_device_matrix<T>::value;
/// An operand of a product; a gpu::quantized_matrix is replaced by its view.
template <class T>
concept viewed_operand = coded_operand<T> || request_operand<T> || unquantized_input<T>;

template <viewed_operand T>
const T& viewed(const T& x) {
  return x;
}
template <any_block_format F>
quantized_view<F> viewed(const quantized_matrix<F>& q) {
  return q.view();
}
template <class T>
concept any_operand = requires(const T& x) { viewed(x); };

/// Divides device memory into parts aligned to 256 bytes. Without memory it only counts the bytes.
class workspace_cutter {
 public:
  workspace_cutter() = default;
  explicit workspace_cutter(std::span<std::byte> memory) : memory_(memory) {}

  template <class T>
  T* take(std::size_t count) {
    const std::size_t first = (used_ + 255) / 256 * 256;
    used_ = first + count * sizeof(T);
    return memory_.data() == nullptr ? nullptr : reinterpret_cast<T*>(memory_.data() + first);
  }
  std::size_t used() const { return used_; }

 private:
  std::span<std::byte> memory_;
  std::size_t used_ = 0;
};

template <any_block_format F>
std::size_t scale_count(const gemm_side& side) {
  return scale_rows(side.rows, F::block) * scale_strip_of(spec_of<F>, side.padded_cols).bytes() /
         sizeof(device_scale<F>);
}
/// A format of static storage.
constexpr gemm_side side_of_format(const format_spec& format, std::size_t rows, std::size_t cols,
                                   const transform_spec& t) {
  return {.grid = format.grid,
          .scale = format.scale,
          .block_rows = static_cast<unsigned>(format.block.rows),
          .rows = rows,
          .cols = cols,
          .padded_cols = padded_length(cols, format.block, t),
          .transform = t,
          .extended = has_extended_blocks(format) ? &format : nullptr};
}
/// What the types of two operands show: a job without data.
template <viewed_operand A, viewed_operand B>
struct product_of {
  template <class T>
  static constexpr gemm_side side() {
    if constexpr (unquantized_input<T>) return {.is_quantized = false};
    return side_of_format(static_format<T>, 0, 0, {});
  }
  static constexpr int block = unquantized_input<A> ? static_block_length<B> : static_block_length<A>;
  static constexpr gemm_job job{.left = side<A>(), .right = side<B>(), .block = static_cast<unsigned>(block)};

  static constexpr bool may(bool (*holds)(const gemm_job&)) { return holds(job); }
};
template <class T>
inline constexpr bool shows_format = unquantized_input<T> || static_block_length<T> != 0;
template <class T>
using viewed_type = std::remove_cvref_t<decltype(viewed(std::declval<const T&>()))>;

/// The `Product` of two operands. Where another file has the kernels, those for every product.
template <any_operand A, any_operand B>
using product_types =
    std::conditional_t<shows_format<viewed_type<A>> && shows_format<viewed_type<B>> && !kernels_are_external,
                       product_of<viewed_type<A>, viewed_type<B>>, any_product>;

inline gemm_side side_of_unquantized(const source& x, std::size_t padded_cols, const transform_spec& t) {
  return {.is_quantized = false,
          .rows = x.rows,
          .cols = x.cols,
          .padded_cols = padded_cols,
          .unquantized = x,
          .transform = t};
}

/// An operand as kernels take it. An operand that is still to be quantized gets memory from the workspace, and
/// `amax_bits` points to the memory for the amax of its tensor if that must be computed.
template <any_block_format F>
gemm_side side_of(const quantized_view<F>& q, int, workspace_cutter&, std::uint32_t*&) {
  gemm_side side = side_of_format(spec_of<F>, q.rows(), q.cols(), q.transform());
  side.codes = q.codes().data();
  side.scales = q.scales().data();
  side.tensor_scale = F::has_tensor_scale ? q.tensor_scale() : nullptr;
  return side;
}
inline gemm_side side_of(const unquantized_side& p, int block, workspace_cutter&, std::uint32_t*&) {
  return side_of_unquantized(p.x, padded_length(p.x.cols, block, p.transform), p.transform);
}
template <class F, class T, class O>
gemm_side side_of(const quantize_request<F, T, O>& r, int, workspace_cutter& memory, std::uint32_t*& amax_bits) {
  using Format = format_of<F>;
  static_assert(!Format::has_bytes, "formats with elements of one byte (int8_f32, mxint8) run on the CPU only");
  gemm_side side = side_of_format(spec_of<Format>, r.x.rows(), r.x.cols(), r.options.transform);
  side.codes = memory.take<std::uint8_t>(side.rows * side.padded_cols / 2);
  side.scales = memory.take<device_scale<Format>>(scale_count<Format>(side));
  if (Format::has_tensor_scale) side.tensor_scale = memory.take<float>(1);
  if (computes_amax<F>(options<O>{r.options})) amax_bits = memory.take<std::uint32_t>(1);
  return side;
}

/// A product, ready to be queued, and the workspace of its operands and of its kernel.
struct gemm_call {
  gemm_job job{};
  std::uint32_t *left_amax = nullptr, *right_amax = nullptr;
  std::size_t operand_bytes = 0, own_bytes = 0;
  device_facts device{};
  const gemm_kernel* kernel = nullptr;  ///< null: none takes the product
};

template <viewed_operand A, viewed_operand B>
gemm_call call_of(const A& a, const B& b, const sink& out, const gemm_options& options,
                  std::span<std::byte> workspace) {
  const int left = shape_of(a).block, block = left != 0 ? left : shape_of(b).block;
  workspace_cutter memory(workspace);
  gemm_call call;
  call.job.left = side_of(a, block, memory, call.left_amax);
  call.job.right = side_of(b, block, memory, call.right_amax);
  call.job.out = out;
  call.job.block = static_cast<unsigned>(block);
  call.job.alpha = options.alpha;
  call.job.beta = options.beta;
  call.job.mode = options.accumulate;
  call.job.bias = options.bias.empty() ? nullptr : options.bias.data();
  call.operand_bytes = (memory.used() + 255) / 256 * 256;
  return call;
}

/// The same with its kernel on the current device.
template <viewed_operand A, viewed_operand B>
error plan_call(gemm_call& call, const A& a, const B& b, const sink& out, const gemm_options& options,
                std::span<std::byte> workspace) {
  device_facts device;
  if (const error e = facts(device); e != success) return e;
  call = call_of(a, b, out, options, workspace);
  call.device = device;
  call.kernel = choose_kernel<product_types<A, B>>(call.job, device);
  call.own_bytes = kernel_bytes(call.kernel, call.job, device);
  return success;
}

/// Queues what an operand needs before the product: nothing if it is quantized already.
template <viewed_operand T>
error queue_operand(const T&, const gemm_side&, std::uint32_t*, stream) {
  return success;
}
template <class F, class T, class O>
error queue_operand(const quantize_request<F, T, O>& r, const gemm_side& side, std::uint32_t* amax_bits, stream where) {
  using Format = format_of<F>;
  using scale = device_scale<Format>;
  // this memory is part of the workspace and may be written; only gemm_side declares it const
  const quantized_view<Format> out{
      {const_cast<std::uint8_t*>(side.codes), side.rows * side.padded_cols / 2},
      {const_cast<scale*>(static_cast<const scale*>(side.scales)), scale_count<Format>(side)},
      const_cast<float*>(side.tensor_scale),
      side.rows,
      side.cols,
      side.transform};
  return queue_quantization<F>(r.x, out, options<O>{r.options}, amax_bits, where);
}

/// Checks that only a GPU needs: the memory of the tensor scale and of the report, and the size of what is quantized.
template <viewed_operand T>
void check_device_operand(const char* operation, const char* name, const T& x, const byte_range& c) {
  if constexpr (coded_operand<T>) {
    const auto at = reinterpret_cast<std::uintptr_t>(x.tensor_scale());
    expects(at == 0 || !c.overlaps({at, at + sizeof(float)}), operation, ": C overlaps the tensor scale of ", name);
  } else if constexpr (request_operand<T>) {
    check_places(operation, name, x.x.rows(), x.x.cols());
    expects(x.options.report == nullptr, operation, ": count_into of ", name,
            " is in host memory, which a kernel cannot write; quantize it first, with count_at");
  }
}

template <viewed_operand A, viewed_operand B>
void check_call(const char* operation, const A& a, const B& b, const sink& out, const gemm_options& options) {
  check_gemm(operation, a, b, out, options);
  check_device_operand(operation, "A", a, bytes_of(out));
  check_device_operand(operation, "B", b, bytes_of(out));
}

template <viewed_operand A, viewed_operand B>
status multiply(const context& ctx, const A& a, const B& b, const sink& out, const gemm_options& options) {
  constexpr const char* operation = "quantized_gemm";
  check_call(operation, a, b, out, options);
  if (out.rows == 0 || out.cols == 0) return {};
  gemm_call call;
  error e = plan_call(call, a, b, out, options, ctx.workspace);
  if (e != success) return status_of(operation, e);
  check_memory(operation, "context.workspace", ctx.workspace, call.operand_bytes + call.own_bytes);
  if (call.kernel == nullptr) return {not_supported, concat(operation, ": no kernel takes the product")};
  e = queue_operand(a, call.job.left, call.left_amax, ctx.where);
  if (e == success) e = queue_operand(b, call.job.right, call.right_amax, ctx.where);
  if (e == success)
    e = call.kernel->run(call.job, call.device,
                         call.own_bytes == 0 ? std::span<std::byte>{} : ctx.workspace.subspan(call.operand_bytes),
                         ctx.where);
  return status_of(operation, e);
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU

namespace ufp4::gpu::inline UFP4_GPU {

/// The same as the host's (gemm.hpp) for shapes, transforms, NaN and K = 0, and with exact_blocks for the bits.
/// Everything that is read or written is in device memory, bias included.
///
/// | A, B   | gpu::quantized_matrix, gpu::quantized_view, or operand<F>(x, policies...), which is first quantized   |
/// |        | into the workspace. Formats may differ, block lengths may not. One of them may be an unquantized      |
/// |        | matrix_view or unquantized(x, transform)                                                              |
/// | fast   | the kernel, and so the bits, depends on the device, the shapes and the architectures that the program |
/// |        | was compiled for: see explain()                                                                       |
/// | errors | the host's messages; nothing is queued                                                                |
template <detail::any_operand A, detail::any_operand B, detail::matrix_scalar T>
status quantized_gemm(const context& ctx, const A& a, const B& b, const matrix_view<T>& c,
                      const gemm_options& options = {}) {
  return detail::checked(
      [&] { return detail::multiply(ctx, detail::viewed(a), detail::viewed(b), detail::sink_of(c), options); });
}

/// Bytes of context.workspace for quantized_gemm with the same arguments on the current device. Checks nothing.
template <detail::any_operand A, detail::any_operand B, detail::matrix_scalar T>
std::size_t workspace_bytes(const context&, const A& a, const B& b, const matrix_view<T>& c,
                            const gemm_options& options = {}) {
  detail::gemm_call call;  // of no bytes on an error
  (void)detail::plan_call(call, detail::viewed(a), detail::viewed(b), detail::sink_of(c), options, {});
  return call.operand_bytes + call.own_bytes;
}

/// The kernel that quantized_gemm with the same arguments would run on this device. Nothing is checked, read or queued.
template <detail::any_operand A, detail::any_operand B, detail::matrix_scalar T>
explanation explain(const context&, const A& a, const B& b, const matrix_view<T>& c, const gemm_options& options = {}) {
  detail::gemm_call call;
  const error e = detail::plan_call(call, detail::viewed(a), detail::viewed(b), detail::sink_of(c), options, {});
  if (e != success) return {"quantized_gemm", "", "", 0, 0, options.accumulate, error_text(e)};
  return detail::explain_job<detail::product_types<A, B>>("quantized_gemm", call.job, call.device, call.kernel);
}

/// Is there a kernel for quantized_gemm with the same arguments on the current device? Checks nothing.
bool can_run(const context& ctx, const auto& a, const auto& b, const auto& c, const gemm_options& options = {})
  requires requires { explain(ctx, a, b, c, options); }
{
  return *explain(ctx, a, b, c, options).kernel != '\0';
}

/// Loads every kernel that this program's operations can launch onto the current device, and reads the facts of the
/// device, once for the calling thread. Call it in a thread before it captures a graph: the operations then need
/// nothing that a capture forbids, also in their first call. Kernels of cublasLt are not loaded.
inline status prepare() {
  device_facts device;
  if (const error e = facts(device); e != success) return detail::status_of("prepare", e);
  return detail::status_of("prepare", detail::program_kernels.load_all());
}

}  // namespace ufp4::gpu::inline UFP4_GPU
