// ufp4 - the operations on a GPU that device.hpp declares. Compiled by nvcc, and in tests with the CPU simulator.
// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include <stdexcept>
#include <ufp4/cuda.hpp>

namespace ufp4::python::device {
namespace {

namespace lib = gpu::detail;

/// A matrix as the checks and the kernels of a product see it.
class coded {
 public:
  explicit coded(const matrix& m) : m_(&m) {}

  const format_spec& spec() const { return m_->format; }
  std::size_t rows() const { return m_->rows; }
  std::size_t cols() const { return m_->cols; }
  std::size_t padded_cols() const { return ufp4::detail::padded_length(cols(), spec().block, transform()); }
  const transform_spec& transform() const { return m_->transform; }
  std::span<const std::uint8_t> codes() const { return {m_->codes, rows() * padded_cols() / 2}; }
  std::span<const std::byte> scales() const {
    return {static_cast<const std::byte*>(m_->scales), ufp4::detail::scale_rows(rows(), spec().block) *
                                                           ufp4::detail::scale_strip_of(spec(), padded_cols()).bytes()};
  }
  float* tensor_scale() const { return m_->tensor_scale; }

  friend gpu::gemm_side side_of(const coded& q, int, lib::workspace_cutter&, std::uint32_t*&) {
    gpu::gemm_side side = lib::side_of_format(q.spec(), q.rows(), q.cols(), q.transform());
    side.codes = q.codes().data();
    side.scales = q.scales().data();
    side.tensor_scale = q.spec().has_tensor_scale() ? q.tensor_scale() : nullptr;
    return side;
  }

 private:
  const matrix* m_;
};

}  // namespace
}  // namespace ufp4::python::device

template <>
struct ufp4::detail::is_device_matrix<ufp4::python::device::coded> : std::true_type {};

namespace ufp4::python::device {
namespace {

/// Throws what a status reports.
void require(const gpu::status& s) {
  if (s.ok()) return;
  if (s.code() == gpu::invalid_argument) throw std::invalid_argument(s.text());
  throw std::runtime_error(s.text());
}
void require(const char* operation, gpu::error e) { require(lib::status_of(operation, e)); }

/// The context of a call that needs so many bytes.
gpu::context context_of(const place& at, std::size_t bytes) {
  gpu::context ctx{reinterpret_cast<gpu::stream>(at.stream), {}};
  if (bytes != 0) ctx.workspace = {static_cast<std::byte*>(at.allocate(at.state, bytes)), bytes};
  return ctx;
}

/// Calls body with the matrix as a matrix_view of its element type.
template <class Data, class Body>
auto with_view(const ufp4::detail::any_view<Data>& x, const Body& body) {
  const auto as = [&]<class T>(T*) {
    using element = std::conditional_t<std::is_const_v<Data>, const T, T>;
    return body(matrix_view<element>(static_cast<element*>(x.data), x.rows, x.cols, x.row_stride, x.col_stride));
  };
  switch (x.kind) {
    case dtype::bf16: return as(static_cast<bf16*>(nullptr));
    case dtype::fp16: return as(static_cast<fp16*>(nullptr));
    default: return as(static_cast<float*>(nullptr));
  }
}

/// Calls body(a, b) with the operands as the products take them.
template <class Body>
auto with_operands(const operand& a, const operand& b, const Body& body) {
  const auto plain = [](const operand& x, const operand& other) {
    ufp4::detail::unquantized_side side(matrix_view<const float>{});
    side.x = x.unquantized;
    side.transform = other.coded.transform;
    return side;
  };
  ufp4::detail::expects(a.is_quantized || b.is_quantized, "matmul: one of the operands must be quantized");
  if (!a.is_quantized) return body(plain(a, b), coded(b.coded));
  if (!b.is_quantized) return body(coded(a.coded), plain(b, a));
  return body(coded(a.coded), coded(b.coded));
}

}  // namespace

void quantize(const place& at, const source& x, const matrix& out, const policies& how) {
  constexpr const char* operation = "quantize";
  ufp4::detail::quantize_options<> options;
  options.transform = out.transform;
  options.rounding = how.rounding;
  options.rule = how.rule;
  options.has_amax = how.has_amax, options.global_amax = how.amax;
  options.has_shard = how.has_shard, options.place = how.where;
  ufp4::detail::check_quantize(operation, out.format, x, options);
  lib::check_places(operation, "x", x.rows, x.cols);
  const bool measures = out.format.has_tensor_scale() && !how.has_amax;
  const gpu::context ctx = context_of(at, measures ? lib::amax_bytes : 0);
  auto* const bits = reinterpret_cast<std::uint32_t*>(ctx.workspace.data());
  lib::quantize_task task;
  task.job = ufp4::detail::make_job(x, out.format, options);
  task.job.counts = false;
  task.rule = how.rule, task.rounding = how.rounding;
  task.codes = out.codes, task.scales = out.scales;
  task.tensor_scale = out.format.has_tensor_scale() ? out.tensor_scale : nullptr;
  task.global_amax = how.amax;
  if (measures) {
    task.global_amax_bits = bits;
    require(operation, gpu::set_zero(bits, sizeof *bits, ctx.where));
    require(operation, lib::queue_amax(task.job, bits, ctx.where));
  }
  require(operation, lib::queue_quantize(task, ctx.where));
}

void dequantize(const place& at, const matrix& q, const sink& out) {
  require(with_view(out,
                    [&](const auto& view) { return lib::dequantize_as(context_of(at, 0), coded(q), q.format, view); }));
}

void matmul(const place& at, const operand& a, const operand& b, const sink& c, const gemm_options& options) {
  with_operands(a, b, [&](const auto& left, const auto& right) {
    lib::check_call("matmul", left, right, c, options);
    lib::gemm_call call;
    require("matmul", lib::plan_call(call, left, right, c, options, {}));
    const gpu::context ctx = context_of(at, call.operand_bytes + call.own_bytes);
    require(lib::multiply(ctx, left, right, c, options));
  });
}

std::string explain_matmul(const operand& a, const operand& b, const sink& c, const gemm_options& options) {
  return with_operands(a, b, [&](const auto& left, const auto& right) {
    lib::check_call("explain_matmul", left, right, c, options);
    lib::gemm_call call;
    require("explain_matmul", lib::plan_call(call, left, right, c, options, {}));
    return lib::explain_job("matmul", call.job, call.device, call.kernel).text();
  });
}

namespace {

/// A source or a sink as the linear operations take it.
lib::any_source any(const source& x) {
  return with_view(x, [](const auto& view) { return lib::any_source(view); });
}
lib::any_sink any(const sink& x) {
  return with_view(x, [](const auto& view) { return lib::any_sink(view); });
}

void queue(const char* operation, const place& at, const lib::layer_call& call) {
  require(lib::queue_layer(operation, context_of(at, lib::most_layer_bytes(call)), call));
}

}  // namespace

void linear_forward(const place& at, const recipe::bound_recipe& now, const source& x, const source& w, const sink& y) {
  constexpr const char* operation = "linear_forward";
  const std::size_t offsets[] = {0, x.rows};
  recipe::detail::check_forward(operation, now, x, offsets, w, y, false);
  queue(operation, at, lib::forward_of(now, any(x), any(w), any(y), offsets));
}

void linear_backward_input(const place& at, const recipe::bound_recipe& now, const source& dy, const source& w,
                           const sink& dx) {
  constexpr const char* operation = "linear_backward_input";
  const std::size_t offsets[] = {0, dy.rows};
  recipe::detail::check_backward_input(operation, now, dy, offsets, w, dx);
  queue(operation, at, lib::backward_input_of(now, any(dy), any(w), any(dx), offsets));
}

void linear_backward_weight(const place& at, const recipe::bound_recipe& now, const source& dy, const source& x,
                            const sink& dw) {
  constexpr const char* operation = "linear_backward_weight";
  const std::size_t offsets[] = {0, dy.rows};
  recipe::detail::check_backward_weight(operation, now, dy, x, offsets, dw);
  queue(operation, at, lib::backward_weight_of(now, any(dy), x, any(dw), offsets));
}

}  // namespace ufp4::python::device
