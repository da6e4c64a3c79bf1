// ufp4 - quantized_gemm_grouped on a GPU: many small products in one launch, as a mixture of experts needs them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gpu/gemm.hpp>
#include <vector>

namespace ufp4::gpu::detail::inline UFP4_GPU {

template <any_block_format F>
void add_ranges(group_ranges& all, const quantized_view<F>& q, std::size_t entry) {
  add_range(all, q.codes().data(), q.codes().size_bytes(), entry);
  add_range(all, q.scales().data(), q.scales().size_bytes(), entry);
  add_range(all, q.tensor_scale(), q.tensor_scale() == nullptr ? 0 : sizeof(float), entry);
}

inline bool all_run(std::span<const explanation> products) {
  for (const explanation& product : products)
    if (*product.kernel == '\0') return false;
  return true;
}

inline device_facts shared_among(device_facts device, std::size_t products) {
  const int share = device.processors / static_cast<int>(products == 0 ? 1 : products);
  device.whole = device.processors;
  device.processors = share < 1 ? 1 : share;
  return device;
}

/// Queues the jobs of one kernel: together if it has run_group, else one by one.
inline error run_alike(const gemm_kernel& kernel, std::span<const gemm_job> jobs, const device_facts& device,
                       std::span<std::byte> workspace, stream where) {
  if (kernel.run_group != nullptr) return kernel.run_group(jobs, device, where);
  for (const gemm_job& job : jobs)
    if (const error e = kernel.run(job, facts_for(kernel, device), workspace, where); e != success) return e;
  return success;
}

/// The products of a group, and the kernel of each: null for those without elements, and where there is none.
struct group_plan {
  std::vector<gemm_job> jobs{};
  std::vector<const gemm_kernel*> kernels{};
  device_facts device{};  ///< the share of a product

  /// The products use the same workspace one after another.
  std::size_t workspace_bytes() const {
    std::size_t most = 0;
    for (std::size_t e = 0; e < jobs.size(); ++e)
      if (const std::size_t own = kernel_bytes(kernels[e], jobs[e], device); own > most) most = own;
    return most;
  }
};

template <class Product = any_product>
status run_group(const char* operation, const group_plan& plan, std::span<std::byte> workspace, stream where) {
  for (std::size_t e = 0; e < plan.jobs.size(); ++e)
    if (!is_empty(plan.jobs[e]) && plan.kernels[e] == nullptr)
      return {not_supported, concat(operation, ": no kernel takes product ", e)};
  std::vector<gemm_job> alike;
  for (const gemm_kernel* kernel : gemm_kernels<Product>()) {
    alike.clear();
    for (std::size_t e = 0; e < plan.jobs.size(); ++e)
      if (plan.kernels[e] == kernel) alike.push_back(plan.jobs[e]);
    if (alike.empty()) continue;
    if (const error e = run_alike(*kernel, alike, plan.device, workspace, where); e != success)
      return status_of(operation, e);
  }
  return {};
}

/// The `Product` of every product of a group.
template <sequence As, sequence Bs>
using group_types = product_types<std::remove_cvref_t<decltype(*std::declval<const As&>().data())>,
                                  std::remove_cvref_t<decltype(*std::declval<const Bs&>().data())>>;

template <sequence As, sequence Bs, sequence Cs>
error plan_group(group_plan& plan, const As& a, const Bs& b, const Cs& c, const gemm_options& options) {
  device_facts device;
  if (const error e = facts(device); e != success) return e;
  plan.device = shared_among(device, a.size());
  for (std::size_t e = 0; e < a.size(); ++e) {
    const gemm_job& job = plan.jobs.emplace_back(
        call_of(viewed(a.data()[e]), viewed(b.data()[e]), sink_of(c.data()[e]), options, {}).job);
    plan.kernels.push_back(is_empty(job) ? nullptr : choose_kernel<group_types<As, Bs>>(job, plan.device));
  }
  return success;
}

template <sequence As, sequence Bs, sequence Cs>
void check_group(const As& a, const Bs& b, const Cs& c, const gemm_options& options) {
  expects(a.size() == b.size() && a.size() == c.size(), "quantized_gemm_grouped: ", a.size(), " left operands, ",
          b.size(), " right ones and ", c.size(), " outputs");
  expects(options.bias.empty(), "quantized_gemm_grouped: bias has ", options.bias.size(), " entries; leave it empty");
  group_ranges all(7 * a.size());
  for (std::size_t e = 0; e < a.size(); ++e) {
    const std::string operation = concat("quantized_gemm_grouped, product ", e);
    const sink out = sink_of(c.data()[e]);
    const auto left = viewed(a.data()[e]);
    const auto right = viewed(b.data()[e]);
    check_call(operation.c_str(), left, right, out, options);
    add_output(all, out, e);
    add_ranges(all, left, e);
    add_ranges(all, right, e);
  }
  check_group_memory(all);
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU

namespace ufp4::gpu::inline UFP4_GPU {

/// Rows first .. first + count - 1 of a quantized matrix in device memory; conditions as for the host's row_range.
template <detail::any_block_format F>
quantized_view<F> row_range(const quantized_view<F>& q, std::size_t first, std::size_t count) {
  constexpr auto height = static_cast<std::size_t>(F::block.rows);
  detail::expects(first <= q.rows() && count <= q.rows() - first, "row_range: rows out of range: ", first, " + ", count,
                  " > ", q.rows());
  detail::expects(first % height == 0 || count == 0, "row_range: first must be a multiple of the block's ", height,
                  " rows, got ", first);
  const std::size_t blocks = q.padded_cols() / F::block_size;
  return {q.codes().subspan(first * q.padded_cols() / 2, count * q.padded_cols() / 2),
          q.scales().subspan(first / height * blocks, (count + height - 1) / height * blocks),
          q.tensor_scale(),
          count,
          q.cols(),
          q.transform()};
}
/// The same for a matrix with memory of its own.
template <detail::any_block_format F>
quantized_view<F> row_range(const quantized_matrix<F>& q, std::size_t first, std::size_t count) {
  return row_range(q.view(), first, count);
}
template <detail::any_block_format F>
void row_range(const quantized_matrix<F>&&, std::size_t, std::size_t) = delete;  ///< the matrix ends with its statement

/// The same as the host's (gemm_grouped.hpp): C[e] = alpha * A[e] * B[e]^T + beta * C[e]. Outputs must not overlap, any
/// product may have no rows, and there is no bias. With exact_blocks each product has the bits of its own
/// quantized_gemm; with fast it may run another kernel than alone, because it has only a share of the device.
///
/// | a, b, c | vectors, arrays or spans on the host, which may be destroyed after the call: of gpu::quantized_matrix  |
/// |         | or gpu::quantized_view, and of matrix_view of device memory                                            |
/// | launch  | one for 32 products if the kernel has run_group (gemm_kernel.hpp): kernels of exact_blocks with matrix |
/// |         | instructions have it, some of those of fast, and other kernels run the products one by one             |
template <detail::sequence As, detail::sequence Bs, detail::sequence Cs>
status quantized_gemm_grouped(const context& ctx, const As& a, const Bs& b, const Cs& c,
                              const gemm_options& options = {}) {
  return detail::checked([&]() -> status {
    constexpr const char* operation = "quantized_gemm_grouped";
    detail::check_group(a, b, c, options);
    detail::group_plan plan;
    if (const error e = detail::plan_group(plan, a, b, c, options); e != success)
      return detail::status_of(operation, e);
    detail::check_memory(operation, "context.workspace", ctx.workspace, plan.workspace_bytes());
    return detail::run_group<detail::group_types<As, Bs>>(operation, plan, ctx.workspace, ctx.where);
  });
}

/// The kernels that quantized_gemm_grouped would run on the current device; empty if the lengths of a, b and c differ.
template <detail::sequence As, detail::sequence Bs, detail::sequence Cs>
std::vector<explanation> explain_grouped(const context&, const As& a, const Bs& b, const Cs& c,
                                         const gemm_options& options = {}) {
  std::vector<explanation> all;
  detail::group_plan plan;
  if (a.size() != b.size() || a.size() != c.size() || detail::plan_group(plan, a, b, c, options) != success) return all;
  for (std::size_t e = 0; e < a.size(); ++e)
    all.push_back(detail::explain_job<detail::group_types<As, Bs>>("quantized_gemm_grouped", plan.jobs[e], plan.device,
                                                                   plan.kernels[e]));
  return all;
}

/// Is there a kernel for every product of quantized_gemm_grouped with the same arguments on the current device?
bool can_run_grouped(const context& ctx, const auto& a, const auto& b, const auto& c, const gemm_options& options = {})
  requires requires { explain_grouped(ctx, a, b, c, options); }
{
  return a.size() == b.size() && a.size() == c.size() && detail::all_run(explain_grouped(ctx, a, b, c, options));
}

/// Bytes of context.workspace that quantized_gemm_grouped needs on this device; 0 if the lengths of a, b and c differ.
template <detail::sequence As, detail::sequence Bs, detail::sequence Cs>
std::size_t workspace_bytes_grouped(const context&, const As& a, const Bs& b, const Cs& c,
                                    const gemm_options& options = {}) {
  detail::group_plan plan;  // of no bytes on an error
  if (a.size() == b.size() && a.size() == c.size()) (void)detail::plan_group(plan, a, b, c, options);
  return plan.workspace_bytes();
}

}  // namespace ufp4::gpu::inline UFP4_GPU
