// ufp4 - compares one GEMM kernel of the GPU's table with the host's quantized_gemm, bit for bit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/device.hpp"

#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/format_pairs.hpp"
#include "support/gemm_model.hpp"
#include "support/seed.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace support {

inline constexpr ufp4::gemm_options exactly{.accumulate = ufp4::accumulate::exact_blocks};

struct ascending_levels {
  static constexpr float values[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
  static constexpr bool exact_products = true;
};
/// Code 0 is not 0.
using ascending = ufp4::block_format<ufp4::table_element<ascending_levels>, ufp4::e4m3, 16>;

/// The layout of C in its memory, in elements. Guards before and behind it and in gaps between its rows show whether
/// anything else was written.
struct c_layout {
  std::size_t gap = 0;      ///< behind a row
  bool transposed = false;  ///< contiguous along columns
  bool reversed = false;    ///< the last row comes first
};

template <class T>
struct c_memory {
  static constexpr std::size_t guard = 40;
  std::size_t rows, cols;
  c_layout layout;
  std::vector<T> all;

  std::size_t stride() const { return (layout.transposed ? rows : cols) + layout.gap; }
  c_memory(std::size_t rows_, std::size_t cols_, c_layout layout_) : rows(rows_), cols(cols_), layout(layout_) {
    const std::size_t lines = layout.transposed ? cols : rows;
    for (std::size_t i = 0; i < 2 * guard + lines * stride(); ++i)
      all.push_back(static_cast<T>(static_cast<float>(static_cast<int>(i * 29 % 113) - 56) * 0.125f));
  }
  ufp4::matrix_view<T> view(T* data) const {
    const auto far = static_cast<std::ptrdiff_t>(stride());
    if (layout.transposed) return {data + guard, rows, cols, 1, far};
    if (!layout.reversed || rows == 0) return {data + guard, rows, cols, far, 1};
    return {data + guard + (rows - 1) * stride(), rows, cols, -far, 1};
  }
};

/// Every number of the memory is the other's, or both are NaN.
template <class T>
std::string difference(const std::vector<T>& got, const std::vector<T>& want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    const float a = model::output_value(got[i]), b = model::output_value(want[i]);
    if (!same_number(a, b))
      return "element " + std::to_string(i) + " is " + std::to_string(a) + ", not " + std::to_string(b);
  }
  return got.size() == want.size() ? "" : "sizes differ";
}

/// The device's copy of a host's operand. Unquantized operands are on the device already.
template <class T>
const T& on_device(const T& x) {
  return x;
}
template <ufp4::detail::any_block_format F>
gpu::quantized_matrix<F> on_device(const ufp4::quantized_matrix<F>& q) {
  return gpu::quantized_matrix<F>(q.view());
}

/// Compares C of one kernel, which must take the call, with the host's: "" or the first difference. HostA and DeviceA
/// are the same operand.
template <class T, class HostA, class HostB, class DeviceA, class DeviceB>
std::string against_host(const gpu::gemm_kernel& kernel, const HostA& a, const HostB& b, const DeviceA& device_a,
                         const DeviceB& device_b, std::size_t m, std::size_t n, const ufp4::gemm_options& options,
                         c_layout layout = {}) {
  c_memory<T> host(m, n, layout);
  const gpu::buffer<T> c{std::span<const T>(host.all)};
  const gpu::buffer<float> bias{options.bias};
  ufp4::gemm_options there = options;
  there.bias = bias.span();
  gpu::device_facts device;
  if (gpu::facts(device) != gpu::success) return "no device";
  auto call = gpu::detail::call_of(gpu::detail::viewed(device_a), gpu::detail::viewed(device_b),
                                   ufp4::detail::sink_of(host.view(c.data())), there, {});
  if (!kernel.takes(call.job, device)) return std::string(kernel.name) + " does not take it";
  const gpu::buffer<std::byte> workspace(kernel.workspace(call.job, device));
  if (kernel.run(call.job, device, workspace.span(), gpu::stream{}) != gpu::success) return "not queued";
  ufp4::quantized_gemm(a, b, host.view(host.all.data()), options, ufp4::cpu::context{.threads = 1});
  return difference(on_host(c), host.all);
}

template <class T = float, class A, class B>
std::string against_host(const gpu::gemm_kernel& kernel, const A& a, const B& b,
                         const ufp4::gemm_options& options = exactly, c_layout layout = {}) {
  return against_host<T>(kernel, a, b, on_device(a), on_device(b), a.rows(), b.rows(), options, layout);
}

/// C of the given kernel, between guards. Before the call it is `c` if beta is not 0, else NaN. `processors` is
/// reported to the kernel instead of the device's number, unless it is 0.
template <class A, class B>
std::vector<float> product_of(const gpu::gemm_kernel& kernel, const gpu::quantized_view<A>& a,
                              const gpu::quantized_view<B>& b, const ufp4::gemm_options& options = {},
                              const std::vector<float>& c = {}, int processors = 0) {
  const std::size_t m = a.rows(), n = b.rows(), guard = 64;
  std::vector<float> all(m * n + 2 * guard, -77.0f);
  std::fill_n(all.begin() + guard, m * n, std::nanf(""));
  if (options.beta != 0) std::copy(c.begin(), c.end(), all.begin() + guard);
  const gpu::buffer<float> out{std::span<const float>(all)}, bias{options.bias};
  ufp4::gemm_options there = options;
  if (!options.bias.empty()) there.bias = bias.span();
  const auto sink = ufp4::detail::sink_of(ufp4::matrix_view<float>{out.data() + guard, m, n});
  const gpu::gemm_job job = gpu::detail::call_of(a, b, sink, there, {}).job;
  gpu::device_facts device;
  REQUIRE(gpu::facts(device) == gpu::success);
  REQUIRE(kernel.takes(job, device));
  if (processors != 0) device.processors = processors;
  REQUIRE(kernel.run(job, device, {}, gpu::stream{}) == gpu::success);
  all = on_host(out);
  const auto overwritten = [](float x) { return x != -77.0f; };
  REQUIRE(std::none_of(all.begin(), all.begin() + guard, overwritten));
  REQUIRE(std::none_of(all.end() - guard, all.end(), overwritten));
  return {all.begin() + guard, all.end() - guard};
}
template <class A, class B>
std::vector<float> product_of(const gpu::gemm_kernel& kernel, const ufp4::quantized_matrix<A>& a,
                              const ufp4::quantized_matrix<B>& b, const ufp4::gemm_options& options = {},
                              const std::vector<float>& c = {}, int processors = 0) {
  const gpu::quantized_matrix<A> left{a.view()};
  const gpu::quantized_matrix<B> right{b.view()};
  return product_of(kernel, left.view(), right.view(), options, c, processors);
}

/// One pair of formats: K = `ordinary` with ordinary scales, K = `hostile` with scales from the ends of their range;
/// alpha and tensor scales that round.
template <class A, class B>
void check_exact_pair(const gpu::gemm_kernel& kernel, std::size_t ordinary, std::size_t hostile) {
  INFO(seed_note());
  INFO((pair_text<A, B>()));
  std::mt19937_64 gen{seed(sizeof(typename A::scale_type) * 16 + sizeof(typename B::scale_type))};
  for (const model::scales kind : {model::scales::ordinary, model::scales::hostile}) {
    const std::size_t k = kind == model::scales::ordinary ? ordinary : hostile;
    const auto a = model::random_quantized<A>(gen, 35, k, kind, 0x1.8p-7f);
    const auto b = model::random_quantized<B>(gen, 67, k, kind, 0x1.333334p+3f);
    CHECK(against_host(kernel, a, b, {.alpha = -2.5f, .accumulate = ufp4::accumulate::exact_blocks}) == "");
  }
}

/// The matrix with a NaN as the scale of one block.
template <class F>
ufp4::quantized_matrix<F> with_nan(ufp4::quantized_matrix<F> q, std::size_t row, std::size_t block) {
  q.scales()[row * (q.padded_cols() / F::block_size) + block] = typename F::scale_type(std::nanf(""));
  return q;
}
/// C is NaN in one row and one column, and nowhere else.
inline void require_only_nan_in(const std::vector<float>& c, std::size_t cols, std::size_t row, std::size_t col) {
  for (std::size_t i = 0; i < c.size(); ++i) REQUIRE(std::isnan(c[i]) == (i / cols == row || i % cols == col));
}

/// Operands of a grid whose code 0 is not 0, in ragged shapes, and their product; every sum is exact.
struct ascending_operands {
  ufp4::quantized_matrix<ascending> a{5, 80}, b{7, 80};
  std::vector<float> product = std::vector<float>(35);

  explicit ascending_operands(std::mt19937_64& gen) {
    for (auto* q : {&a, &b}) {
      for (auto& byte : q->codes()) byte = static_cast<std::uint8_t>(gen() % 256);
      for (auto& s : q->scales()) s = ufp4::e4m3(static_cast<float>(1u << gen() % 3));
    }
    quantized_gemm(a, b, ufp4::matrix_view<float>{product.data(), 5, 7}, exactly);
  }
};

/// work() with each rounding of sums of the simulated matrix instructions; once on a real device.
template <class Work>
void with_every_sum(Work work) {
#if defined(UFP4_SIMT_HEADER)
  for (const auto sums : {ufp4::simt::mma_sums::nearest, ufp4::simt::mma_sums::truncated}) {
    struct restorer {
      ufp4::simt::simulator_settings before = ufp4::simt::settings();
      ~restorer() { ufp4::simt::settings() = before; }
    } const restore;
    ufp4::simt::settings().sums = sums;
    work();
  }
#else
  work();
#endif
}

}  // namespace support
