// ufp4 - gemm_call: the operands of a product in device memory, checked, and the workspace that they need.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <ufp4/gpu/context.hpp>
#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/matrix.hpp>
#include <ufp4/gpu/quantize.hpp>
#include <ufp4/matrix/product.hpp>

template <ufp4::any_block_format F>
struct ufp4::detail::is_device_matrix<ufp4::gpu::quantized_view<F>> : std::true_type {};

namespace ufp4::gpu::detail::inline UFP4_GPU {

template <class T>
concept coded_operand = ufp4::detail::is_device_matrix<T>::value;
/// An operand of a product; a gpu::quantized_matrix is replaced by its view.
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

/// Divides device memory into pieces aligned to 256 bytes. Without memory it only counts the bytes.
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

inline gemm_side side_of_plain(const ufp4::detail::source& x, std::size_t padded_cols, const transform_spec& t) {
  gemm_side side;
  side.is_quantized = false;
  side.plain = x;
  side.transform = t;
  side.rows = x.rows;
  side.cols = x.cols;
  side.padded_cols = padded_cols;
  return side;
}

/// An operand as kernels take it. An operand that is still to be quantized gets memory from the workspace, and
/// `amax_bits` points to the memory for the amax of its tensor if that must be computed.
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
  const std::size_t padded = ufp4::detail::padded_length(x.x.cols(), block, x.transform);
  return side_of_plain(ufp4::detail::source_of(x.x), padded, x.transform);
}
template <class T>
gemm_side side_of(const matrix_view<T>& x, int block, workspace_cutter& memory, std::uint32_t*& amax_bits) {
  return side_of(unquantized(x), block, memory, amax_bits);
}
template <class F, class T, rounding_policy R, any_scale_rule S>
gemm_side side_of(const quantize_request<F, T, R, S>& r, int, workspace_cutter& memory, std::uint32_t*& amax_bits) {
  using Format = format_of<F>;
  gemm_side side = side_of_format(spec_of<Format>, r.x.rows(), r.x.cols(), r.options.transform);
  side.codes = memory.take<std::uint8_t>(side.rows * side.padded_cols / 2);
  side.scales = memory.take<typename Format::scale_type>(scale_count<Format>(side));
  if (Format::two_level) side.tensor_scale = memory.take<float>(1);
  if (needs_amax<F>(options<R, S>{r.options})) amax_bits = memory.take<std::uint32_t>(1);
  return side;
}

/// A product, ready to be queued, and the workspace of its operands.
struct gemm_call {
  gemm_job job{};
  std::uint32_t *left_amax = nullptr, *right_amax = nullptr;
  std::size_t operand_bytes = 0;
};

template <viewed_operand A, viewed_operand B>
gemm_call call_of(const A& a, const B& b, const ufp4::detail::sink& out, const gemm_options& options,
                  std::span<std::byte> workspace) {
  const int left = ufp4::detail::shape_of(a).block, block = left != 0 ? left : ufp4::detail::shape_of(b).block;
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

/// Queues what an operand needs before the product: nothing if it is quantized already.
template <viewed_operand T>
error queue_operand(const T&, const gemm_side&, std::uint32_t*, stream) {
  return success;
}
template <class F, class T, rounding_policy R, any_scale_rule S>
error queue_operand(const quantize_request<F, T, R, S>& r, const gemm_side& side, std::uint32_t* amax_bits,
                    stream where) {
  using Format = format_of<F>;
  using scale = typename Format::scale_type;
  const options<R, S> all{r.options};
  // this memory is part of the workspace and may be written; only gemm_side declares it const
  const quantized_view<Format> out{
      {const_cast<std::uint8_t*>(side.codes), side.rows * side.padded_cols / 2},
      {const_cast<scale*>(static_cast<const scale*>(side.scales)), scale_count<Format>(side)},
      const_cast<float*>(side.tensor_scale),
      side.rows,
      side.cols,
      side.transform};
  const quantize_task task = task_of<F>(r.x, out, all, amax_bits);
  const error e = queue_tensor_amax<F>(task, all, amax_bits, where);
  return e == success ? queue_codes<F>(task, all, where) : e;
}

/// Checks that only a GPU needs: the memory of the tensor scale and of the report.
template <viewed_operand T>
void check_device_operand(const char*, const char*, const T&, const ufp4::detail::byte_range&) {}
template <any_block_format F>
void check_device_operand(const char* operation, const char* name, const quantized_view<F>& q,
                          const ufp4::detail::byte_range& c) {
  const auto at = reinterpret_cast<std::uintptr_t>(q.tensor_scale());
  ufp4::detail::expects(at == 0 || !c.overlaps({at, at + sizeof(float)}), operation,
                        ": C overlaps the tensor scale of ", name);
}
template <class F, class T, rounding_policy R, any_scale_rule S>
void check_device_operand(const char* operation, const char* name, const quantize_request<F, T, R, S>& r,
                          const ufp4::detail::byte_range&) {
  ufp4::detail::expects(r.options.report == nullptr, operation, ": count_into of ", name,
                        " is in host memory, which a kernel cannot write; quantize it first, with count_at");
}

template <viewed_operand A, viewed_operand B>
void check_call(const char* operation, const A& a, const B& b, const ufp4::detail::sink& out,
                const gemm_options& options) {
  ufp4::detail::check_gemm(operation, a, b, out, options);
  check_device_operand(operation, "A", a, ufp4::detail::bytes_of(out));
  check_device_operand(operation, "B", b, ufp4::detail::bytes_of(out));
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
