// ufp4 - quantized_gemm on a GPU: C = alpha * A * B^T + bias + beta * C, and which kernel makes it.
// SPDX-License-Identifier: Apache-2.0
//
//   gpu::quantized_gemm(ctx, qx, qw, y);                       // queued on ctx.where
//   gpu::explain(ctx, qx, qw, y).text();                       // "quantized_gemm: gemm_simt (fma), tiles of ..."
//   gpu::workspace_bytes(ctx, operand<nvfp4>(x), qw, y);       // what ctx.workspace must have for the same arguments
//
// Kernels are listed in the vendor's table (gemm_kernels.hpp of its folder), best first;
// a call runs the first that takes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <ufp4/gpu/context.hpp>
#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/matrix.hpp>
#include <ufp4/gpu/quantize.hpp>
#include <ufp4/matrix/product.hpp>

template <ufp4::any_block_format F>
struct ufp4::detail::is_device_matrix<ufp4::gpu::quantized_view<F>> : std::true_type {};

namespace ufp4::gpu::inline UFP4_GPU {

/// | kernel      | its name, as in the vendor's table                                                            |
/// | instruction | of the machine, that multiplies                                                               |
/// | tile_*      | of C, one thread block's                                                                      |
/// | mode        | how the sums are made: exact_blocks also where `fast` was asked for and the kernel's bits are |
/// |             | those                                                                                         |
/// | note        | why a better kernel is not taken, in words; empty if there is nothing to say                  |
struct explanation {
  const char* operation = "";
  const char* kernel = "";
  const char* instruction = "";
  std::size_t tile_rows = 0, tile_cols = 0;
  accumulate mode = accumulate::fast;
  std::string note;

  /// All of it in one line.
  std::string text() const {
    const std::string line = ufp4::detail::concat(operation, ": ", kernel, " (", instruction, "), tiles of ", tile_rows,
                                                  " x ", tile_cols, ", accumulate ", name(mode));
    return note.empty() ? line : line + "; " + note;
  }
};

}  // namespace ufp4::gpu::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

template <class T>
concept coded_operand = ufp4::detail::is_device_matrix<T>::value;
/// What either side of a product may be, but for gpu::quantized_matrix, which is read through its view.
template <class T>
concept viewed_operand = coded_operand<T> || ufp4::detail::request_operand<T> || ufp4::detail::plain_operand<T>;

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

/// Device memory, cut into pieces on 256 bytes. Without memory it counts what would be needed.
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
  return ufp4::detail::scale_rows(side.rows, F::block) * (side.padded_cols / F::block_size);
}
inline gemm_side side_of_format(const format_spec& format, std::size_t rows, std::size_t cols,
                                const transform_spec& t) {
  gemm_side side;
  side.grid = format.grid;
  side.scale = format.scale;
  side.block_rows = static_cast<unsigned>(format.block.rows);
  side.rows = rows;
  side.cols = cols;
  side.padded_cols = ufp4::detail::padded_length(cols, format.block, t);
  side.transform = t;
  return side;
}

/// One side as kernels take it. Memory for what is quantized on the way is cut from the workspace; `maximum`: where the
/// largest magnitude of its tensor goes, if nobody gave it.
template <any_block_format F>
gemm_side side_of(const quantized_view<F>& q, int, workspace_cutter&, std::uint32_t*&) {
  gemm_side side = side_of_format(spec_of<F>, q.rows(), q.cols(), q.transform());
  side.codes = q.codes().data();
  side.scales = q.scales().data();
  side.tensor_scale = F::two_level ? q.tensor_scale() : nullptr;
  return side;
}
template <class T>
gemm_side side_of(const unquantized_operand<T>& x, int block, workspace_cutter&, std::uint32_t*&) {
  gemm_side side;
  side.is_quantized = false;
  side.plain = ufp4::detail::source_of(x.x);
  side.transform = x.transform;
  side.rows = x.x.rows();
  side.cols = x.x.cols();
  side.padded_cols = ufp4::detail::padded_length(side.cols, block, x.transform);
  return side;
}
template <class T>
gemm_side side_of(const matrix_view<T>& x, int block, workspace_cutter& memory, std::uint32_t*& maximum) {
  return side_of(unquantized(x), block, memory, maximum);
}
template <class F, class T, rounding_policy R>
gemm_side side_of(const quantize_request<F, T, R>& r, int, workspace_cutter& memory, std::uint32_t*& maximum) {
  using Format = format_of<F>;
  gemm_side side = side_of_format(spec_of<Format>, r.x.rows(), r.x.cols(), r.options.transform);
  side.codes = memory.take<std::uint8_t>(side.rows * side.padded_cols / 2);
  side.scales = memory.take<typename Format::scale_type>(scale_count<Format>(side));
  if (Format::two_level) side.tensor_scale = memory.take<float>(1);
  if (needs_maximum<F>(options<R>{r.options})) maximum = memory.take<std::uint32_t>(1);
  return side;
}

/// A call, ready to be queued, and the memory its operands take.
struct gemm_call {
  gemm_job job{};
  std::uint32_t *left_maximum = nullptr, *right_maximum = nullptr;
  std::size_t operand_bytes = 0;
};

template <viewed_operand A, viewed_operand B>
gemm_call call_of(const A& a, const B& b, const ufp4::detail::sink& out, const gemm_options& options,
                  std::span<std::byte> workspace) {
  const int left = ufp4::detail::shape_of(a).block, block = left != 0 ? left : ufp4::detail::shape_of(b).block;
  workspace_cutter memory(workspace);
  gemm_call call;
  call.job.left = side_of(a, block, memory, call.left_maximum);
  call.job.right = side_of(b, block, memory, call.right_maximum);
  call.job.out = out;
  call.job.block = static_cast<unsigned>(block);
  call.job.alpha = options.alpha;
  call.job.beta = options.beta;
  call.job.mode = options.accumulate;
  call.job.bias = options.bias.empty() ? nullptr : options.bias.data();
  call.operand_bytes = (memory.used() + 255) / 256 * 256;
  return call;
}

/// Queues what a side needs before it can be multiplied: for one that is quantized already, nothing.
template <viewed_operand T>
error queue_operand(const T&, const gemm_side&, std::uint32_t*, stream) {
  return success;
}
template <class F, class T, rounding_policy R>
error queue_operand(const quantize_request<F, T, R>& r, const gemm_side& side, std::uint32_t* maximum, stream where) {
  using Format = format_of<F>;
  using scale = typename Format::scale_type;
  const options<R> all{r.options};
  // the memory is the workspace's, which is to be written, and const on the side alone
  const quantized_view<Format> out{
      {const_cast<std::uint8_t*>(side.codes), side.rows * side.padded_cols / 2},
      {const_cast<scale*>(static_cast<const scale*>(side.scales)), scale_count<Format>(side)},
      const_cast<float*>(side.tensor_scale),
      side.rows,
      side.cols,
      side.transform};
  const quantize_task task = task_of<F>(r.x, out, all, maximum);
  const error e = queue_maximum<F>(task, all, maximum, where);
  return e == success ? queue_codes<F>(task, all, where) : e;
}

#if defined(UFP4_EXPERIMENTAL)
inline constexpr bool takes_experimental = true;
#else
inline constexpr bool takes_experimental = false;
#endif

/// The first kernel of the table that takes a job; null if none does.
inline const gemm_kernel* choose_kernel(const gemm_job& job, const device_facts& device) {
  for (const gemm_kernel* kernel : gemm_kernels())
    if ((takes_experimental || !kernel->experimental) && kernel->takes(job, device)) return kernel;
  return nullptr;
}

inline std::string target_name(int architecture) {
  const target_spelling how = target_spelling_of(architecture);
  std::string digits;
  for (int rest = architecture; rest != 0; rest /= how.base)
    digits.insert(digits.begin(), "0123456789abcdef"[rest % how.base]);
  return how.prefix + digits;
}

/// Why kernels above the chosen one are not taken: the program's own doing, which its author may change.
inline std::string why_not_better(const gemm_job& job, const device_facts& device, const gemm_kernel* chosen) {
  device_facts able = device;
  able.compiled = 0;
  able.specific = true;
  device_facts common = able;
  common.specific = false;
  std::string why;
  for (const gemm_kernel* kernel : gemm_kernels()) {
    if (kernel == chosen) break;
    if (!kernel->takes(job, able)) continue;
    if (!why.empty()) why += "; ";
    if (!kernel->takes(job, device))
      why += ufp4::detail::concat(kernel->name, " needs code compiled for ", target_name(device.architecture),
                                  kernel->takes(job, common) ? "" : "a", ", which this program lacks");
    else
      why +=
          ufp4::detail::concat(kernel->name, " has not run on a device yet and is taken with UFP4_EXPERIMENTAL alone");
  }
  return why;
}

inline explanation explain_job(const char* operation, const gemm_job& job, const device_facts& device) {
  explanation e{operation, "", "", 0, 0, job.mode, {}};
  const gemm_kernel* kernel = choose_kernel(job, device);
  e.note = why_not_better(job, device, kernel);
  if (kernel == nullptr) return e;
  e.kernel = kernel->name;
  e.instruction = kernel->instruction;
  const unsigned side = kernel->tile_side == nullptr ? 0 : kernel->tile_side(job, device);
  e.tile_rows = side != 0 ? side : kernel->tile_rows;
  e.tile_cols = side != 0 ? side : kernel->tile_cols;
  if (e.mode == accumulate::fast) e.mode = kernel->fast_is;
  return e;
}

inline std::size_t kernel_bytes(const gemm_job& job, const device_facts& device) {
  const gemm_kernel* kernel = choose_kernel(job, device);
  return kernel == nullptr || kernel->workspace == nullptr ? 0 : kernel->workspace(job, device);
}

/// Queues a checked job. `workspace` has kernel_bytes() bytes, on 256.
inline status run_gemm(const char* operation, const gemm_job& job, const device_facts& device,
                       std::span<std::byte> workspace, stream where) {
  if (job.out.rows == 0 || job.out.cols == 0) return {};
  const gemm_kernel* kernel = choose_kernel(job, device);
  if (kernel == nullptr) return {not_supported, ufp4::detail::concat(operation, ": no kernel takes this product")};
  return status_of(operation, kernel->run(job, device, workspace, where));
}

/// What there is to check on a GPU alone: where a tensor scale lies, and who counts.
template <viewed_operand T>
void check_device_operand(const char*, const char*, const T&, const ufp4::detail::byte_range&) {}
template <any_block_format F>
void check_device_operand(const char* operation, const char* name, const quantized_view<F>& q,
                          const ufp4::detail::byte_range& c) {
  const auto at = reinterpret_cast<std::uintptr_t>(q.tensor_scale());
  ufp4::detail::expects(at == 0 || !c.overlaps({at, at + sizeof(float)}), operation,
                        ": C overlaps the tensor scale of ", name);
}
template <class F, class T, rounding_policy R>
void check_device_operand(const char* operation, const char* name, const quantize_request<F, T, R>& r,
                          const ufp4::detail::byte_range&) {
  ufp4::detail::expects(r.options.report == nullptr, operation, ": count_into of ", name,
                        " counts in host memory, which a kernel cannot reach; quantize it ahead, with count_at");
}

template <viewed_operand A, viewed_operand B>
void check_call(const char* operation, const A& a, const B& b, const ufp4::detail::sink& out,
                const gemm_options& options) {
  ufp4::detail::check_gemm(operation, a, b, out, options);
  check_device_operand(operation, "A", a, ufp4::detail::bytes_of(out));
  check_device_operand(operation, "B", b, ufp4::detail::bytes_of(out));
}

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
  if (const error e = queue_operand(a, call.job.left, call.left_maximum, ctx.where); e != success)
    return status_of(operation, e);
  if (const error e = queue_operand(b, call.job.right, call.right_maximum, ctx.where); e != success)
    return status_of(operation, e);
  return run_gemm(operation, call.job, device,
                  own == 0 ? std::span<std::byte>{} : ctx.workspace.subspan(call.operand_bytes), ctx.where);
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU

namespace ufp4::gpu::inline UFP4_GPU {

/// As the host's (gemm.hpp): shapes, transforms, NaN, K = 0, and with exact_blocks the bits; everything that is read or
/// written lies in device memory, bias included.
///
/// | A, B   | gpu::quantized_matrix or gpu::quantized_view, or operand<F>(x, policies...), quantized into the      |
/// |        | workspace on the way; formats may differ, block lengths not. One of them may be a plain matrix_view, |
/// |        | or unquantized(x, transform)                                                                         |
/// | fast   | which kernel, and so which bits, depends on the device, the shapes and what the program was compiled |
/// |        | for: explain() says                                                                                  |
/// | errors | the host's messages, and then nothing was queued                                                    |
template <detail::any_operand A, detail::any_operand B, matrix_scalar T>
status quantized_gemm(const context& ctx, const A& a, const B& b, const matrix_view<T>& c,
                      const gemm_options& options = {}) {
  return detail::checked(
      [&] { return detail::multiply(ctx, detail::viewed(a), detail::viewed(b), ufp4::detail::sink_of(c), options); });
}

/// Bytes that context.workspace must have for quantized_gemm of the same arguments, on the current device.
/// Nothing is checked.
template <detail::any_operand A, detail::any_operand B, matrix_scalar T>
std::size_t workspace_bytes(const context&, const A& a, const B& b, const matrix_view<T>& c,
                            const gemm_options& options = {}) {
  device_facts device;
  if (facts(device) != success) return 0;
  const auto call = detail::call_of(detail::viewed(a), detail::viewed(b), ufp4::detail::sink_of(c), options, {});
  return call.operand_bytes + detail::kernel_bytes(call.job, device);
}

/// Does quantized_gemm of the same arguments have a kernel on the current device? Nothing is checked.
template <detail::any_operand A, detail::any_operand B, matrix_scalar T>
bool can_run(const context&, const A& a, const B& b, const matrix_view<T>& c, const gemm_options& options = {}) {
  device_facts device;
  if (facts(device) != success) return false;
  const auto call = detail::call_of(detail::viewed(a), detail::viewed(b), ufp4::detail::sink_of(c), options, {});
  return detail::choose_kernel(call.job, device) != nullptr;
}

/// Which kernel quantized_gemm of the same arguments would run on the current device.
/// Nothing is checked, read or queued.
template <detail::any_operand A, detail::any_operand B, matrix_scalar T>
explanation explain(const context&, const A& a, const B& b, const matrix_view<T>& c, const gemm_options& options = {}) {
  device_facts device;
  if (const error wrong = facts(device); wrong != success)
    return {"quantized_gemm", "", "", 0, 0, options.accumulate, error_text(wrong)};
  const auto call = detail::call_of(detail::viewed(a), detail::viewed(b), ufp4::detail::sink_of(c), options, {});
  return detail::explain_job("quantized_gemm", call.job, device);
}

/// Reads what the operations must know of the current device, once for the calling thread: its operations there ask the
/// runtime nothing more. Call it in the thread that captures a graph, before it does.
inline status prepare() {
  device_facts device;
  return detail::status_of("prepare", facts(device));
}

}  // namespace ufp4::gpu::inline UFP4_GPU
