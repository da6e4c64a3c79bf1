// ufp4 - rows of the GPU bench: every kernel of a product, and the same product by cublasLt in bf16 and fp8.
// SPDX-License-Identifier: Apache-2.0
//
// A line is named gemm/format/accumulate/MxNxK; "bf16 x nvfp4" has activations in bf16 and weights in 4 bits.
#pragma once

#include "gpu/memory_rows.hpp"

#if defined(HAS_CUBLAS)
#include "gpu/cublas_yardstick.hpp"
#endif

namespace bench {

struct shape {
  std::size_t m, n, k;
  std::string text() const { return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k); }
  double flops() const { return 2.0 * static_cast<double>(m * n * k); }
};
inline line shaped_line(const char* kind, const std::string& name, const shape& s, double us) {
  line l(kind);
  l.text("name", name).number("m", static_cast<double>(s.m)).number("n", static_cast<double>(s.n));
  l.number("k", static_cast<double>(s.k)).number("us", us).number("tflops", s.flops() / us * 1e-6);
  return l;
}

/// Sets of operands of which all but one together exceed a cache of 60 MB; four at least.
inline int sets_for(std::size_t bytes) {
  return now().small ? 4 : static_cast<int>(std::clamp<std::size_t>((std::size_t{240} << 20) / bytes, 4, 64));
}

/// A product as a kernel of the table takes it.
struct product {
  const char* format;
  accumulate mode;
  shape of;
  std::size_t operand_bytes;
  std::string name() const { return std::string("gemm/") + format + "/" + ufp4::detail::name(mode) + "/" + of.text(); }
};

/// A line for every kernel that takes the product: the chosen one and those that it is preferred to.
template <class JobOf>
void kernel_lines(const product& p, const JobOf& job_of) {
  if (!is_wanted(p.name())) return;
  gpu::device_facts device;
  require(gpu::facts(device), "facts");
  const gpu::gemm_kernel* first = gpu::detail::choose_kernel(job_of(0), device);
  const double bytes = static_cast<double>(p.operand_bytes) + 4.0 * static_cast<double>(p.of.m * p.of.n);
  for (const gpu::gemm_kernel* kernel : gpu::gemm_kernels<>()) {
    const bool portable = std::strcmp(kernel->name, "gemm_simt") == 0;
    if (!gpu::detail::takes(*kernel, job_of(0), device) || leaves_out(kernel->name)) continue;
    if (kernel != first && (portable || now().once || !now().label.empty())) continue;
    if (portable && p.of.flops() > 1e10) {
      line("left_out")
          .text("name", p.name())
          .text("why", "gemm_simt would take seconds; no other kernel takes it")
          .print();
      continue;
    }
    need_workspace(kernel->workspace(job_of(0), device));
    const double us = timed(p.name(), sets_for(p.operand_bytes), [&](int i) {
      return gpu::detail::status_of(kernel->name, kernel->run(job_of(i), device, workspace().span(), now().stream));
    });
    if (us <= 0) continue;
    shaped_line("gemm", p.name(), p.of, us)
        .text("format", p.format)
        .text("accumulate", ufp4::detail::name(p.mode))
        .text("kernel", kernel->name)
        .truth("chosen", kernel == first)
        .number("gbs", bytes / us * 1e-3)
        .print();
  }
}

/// Quantized matrices, one for each set. `x` has rows * k numbers and 64 more for each set.
template <class F>
std::vector<gpu::quantized_matrix<F>> quantized_sets(std::size_t rows, std::size_t k, int sets,
                                                     const gpu::buffer<float>& x) {
  std::vector<gpu::quantized_matrix<F>> all;
  for (int i = 0; i < sets; ++i) {
    all.emplace_back(rows, k);
    const matrix_view<const float> from{x.data() + static_cast<std::size_t>(i) * 64, rows, k};
    require(gpu::quantize<F>(context(), from, all.back().view()));
  }
  return all;
}

template <class F>
std::size_t coded_bytes(std::size_t elements) {
  return static_cast<std::size_t>(static_cast<double>(elements) * bytes_of_element<F>);
}

/// Products of two matrices of a format.
template <class F>
void product_lines(const char* format, std::initializer_list<accumulate> modes, const shape& s,
                   const gpu::buffer<float>& x, const gpu::buffer<float>& c) {
  const std::size_t bytes = coded_bytes<F>((s.m + s.n) * s.k);
  const auto wanted = [&](accumulate mode) { return is_wanted(product{format, mode, s, bytes}.name()); };
  if (std::none_of(modes.begin(), modes.end(), wanted)) return;
  const auto a = quantized_sets<F>(s.m, s.k, sets_for(bytes), x), b = quantized_sets<F>(s.n, s.k, sets_for(bytes), x);
  const auto sink = ufp4::detail::sink_of(matrix_view<float>{c.data(), s.m, s.n});
  for (const accumulate mode : modes)
    kernel_lines({format, mode, s, bytes}, [&](int i) {
      const auto at = static_cast<std::size_t>(i);
      return gpu::detail::call_of(a[at].view(), b[at].view(), sink, {.accumulate = mode}, {}).job;
    });
}

/// Products of activations in bf16 and weights in nvfp4.
inline void plain_lines(const shape& s, const gpu::buffer<float>& x, const gpu::buffer<float>& c) {
  const product p{"bf16 x nvfp4", accumulate::fast, s, coded_bytes<nvfp4>(s.n * s.k) + 2 * s.m * s.k};
  if (!is_wanted(p.name())) return;
  const int sets = sets_for(p.operand_bytes);
  const auto a = numbers<bf16>(s.m * s.k);
  const auto b = quantized_sets<nvfp4>(s.n, s.k, sets, x);
  const auto sink = ufp4::detail::sink_of(matrix_view<float>{c.data(), s.m, s.n});
  kernel_lines(p, [&](int i) {
    return gpu::detail::call_of(unquantized(matrix_view<const bf16>{a.data(), s.m, s.k}),
                                b[static_cast<std::size_t>(i)].view(), sink, {.accumulate = p.mode}, {})
        .job;
  });
}

#if defined(HAS_CUBLAS)
template <class T>
void library_line(const cublas_yardstick& cublas, const char* type, cudaDataType_t kind, const shape& s,
                  const gpu::buffer<float>& c) {
  const std::string name = std::string("cublasLt/") + type + "/" + s.text();
  if (!is_wanted(name)) return;
  cublas_product multiply = cublas.product({kind, CUDA_R_32F, s.m, s.n, s.k});
  if (!multiply.exists()) return;
  const int sets = sets_for((s.m + s.n) * s.k * sizeof(T));
  const auto count = static_cast<std::size_t>(sets) * s.k;
  const auto a = numbers<T>(count * s.m, 1), b = numbers<T>(count * s.n, 2);
  const double us = timed(name, sets, [&](int i) {
    const std::size_t set = static_cast<std::size_t>(i) * s.k;
    return multiply(a.data() + set * s.m, b.data() + set * s.n, c.data());
  });
  if (us > 0) shaped_line("library", name, s, us).text("type", type).print();
}
#endif

inline std::vector<shape> product_shapes() {
  if (now().small) return {{64, 64, 64}, {1, 64, 64}};
  std::vector<shape> all;
  for (const std::size_t n : {8192u, 4096u})
    for (const std::size_t m : {8192u, 1024u, 256u, 64u, 32u, 16u, 8u, 1u}) all.push_back({m, n, n});
  return all;
}

inline void product_rows() {
  using enum accumulate;
  const std::vector<shape> shapes = product_shapes();
  const std::size_t most = shapes.front().n * shapes.front().k;
  const auto x = numbers<float>(most + 64 * 64);
  const gpu::buffer<float> c(most);
  for (const shape& s : shapes) {
#if defined(HAS_CUBLAS)
    static const cublas_yardstick cublas;
    library_line<bf16>(cublas, "bf16", CUDA_R_16BF, s, c);
    library_line<std::uint8_t>(cublas, "fp8", CUDA_R_8F_E4M3, s, c);
#endif
    product_lines<nvfp4>("nvfp4", {fast, exact_blocks}, s, x, c);
    product_lines<nv_e1m2>("nv_e1m2", {fast}, s, x, c);
    product_lines<mxfp4>("mxfp4", {fast}, s, x, c);
    product_lines<e1m2_f32>("e1m2_f32", {fast, folded_bf16}, s, x, c);
    plain_lines(s, x, c);
  }
}

}  // namespace bench
