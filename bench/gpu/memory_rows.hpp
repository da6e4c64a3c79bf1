// ufp4 - rows of the GPU bench that memory bounds: quantize, dequantize and Hadamard transforms beside a copy.
// SPDX-License-Identifier: Apache-2.0
//
// A line is named operation/format/type of the matrix, with what is done to it: 8192 x 8192, by rows, "of the
// transpose", or both in one pass. Bytes are those that the operation has to read and write once.
#pragma once

#include "gpu/measure.hpp"

#include "gpu/device.hpp"

namespace bench {

using namespace ufp4;

inline constexpr int memory_sets = 4;
inline std::size_t side() { return now().small ? 128 : 8192; }

inline gpu::buffer<std::byte>& workspace() {
  static gpu::buffer<std::byte> all(std::size_t{1} << 20);
  return all;
}
inline gpu::context context() { return {now().stream, workspace().span()}; }
inline void need_workspace(std::size_t bytes) {
  if (bytes > workspace().size()) workspace() = gpu::buffer<std::byte>(bytes);
}

inline void memory_line(const std::string& name, double bytes, double us) {
  if (us <= 0) return;
  line("memory").text("name", name).number("us", us).number("gbs", bytes / us * 1e-3).print();
}

template <class T>
struct inputs {
  gpu::buffer<T> all = numbers<T>(memory_sets * side() * side());
  matrix_view<const T> operator[](int i) const {
    return {all.data() + static_cast<std::size_t>(i) * side() * side(), side(), side()};
  }
};

template <class F>
struct outputs {
  std::vector<gpu::quantized_matrix<F>> all;
  explicit outputs(const transform_spec& t = {}) {
    for (int i = 0; i < memory_sets; ++i) all.emplace_back(side(), side(), t);
  }
  const gpu::quantized_matrix<F>& operator[](int i) const { return all[static_cast<std::size_t>(i)]; }
};

template <class F>
constexpr double bytes_of_element = F::bits_per_element / 8.0;

/// By rows, of the transpose, and both, under the same policies.
template <class F, class T, class... Policies>
void quantize_lines(const std::string& what, const inputs<T>& x, const Policies&... policies) {
  const auto policy = gpu::with(policies...);
  const transform_spec transform = ufp4::detail::collect(policies...).transform;
  const double elements = static_cast<double>(side() * side());
  if (const std::string name = "quantize/" + what; is_wanted(name)) {
    const outputs<F> q(transform);
    memory_line(name, elements * (sizeof(T) + bytes_of_element<F>), timed(name, memory_sets, [&](int i) {
                  return gpu::quantize<F>(context(), x[i], q[i].view(), policies...);
                }));
  }
  if (const std::string name = "quantize/" + what + " of the transpose"; is_wanted(name)) {
    const outputs<F> q(transform);
    memory_line(name, elements * (sizeof(T) + bytes_of_element<F>), timed(name, memory_sets, [&](int i) {
                  return gpu::quantize<F>(context(), transpose(x[i]), q[i].view(), policies...);
                }));
  }
  if (const std::string name = "quantize_both/" + what; is_wanted(name)) {
    const outputs<F> rows(transform), columns(transform);
    memory_line(name, elements * (sizeof(T) + 2 * bytes_of_element<F>), timed(name, memory_sets, [&](int i) {
                  return gpu::quantize_both<F>(context(), x[i], rows[i].view(), columns[i].view(), policy, policy);
                }));
  }
}

template <class T>
void dequantize_line(const std::string& type, const inputs<T>& x, const matrix_view<T>& out) {
  const std::string name = "dequantize/nvfp4/" + type;
  if (!is_wanted(name)) return;
  const outputs<nvfp4> q;
  for (int i = 0; i < memory_sets; ++i) require(gpu::quantize<nvfp4>(context(), x[i], q[i].view(), tensor_amax{2.0f}));
  memory_line(name, static_cast<double>(side() * side()) * (sizeof(T) + bytes_of_element<nvfp4>),
              timed(name, memory_sets, [&](int i) { return gpu::dequantize(context(), q[i].view(), out); }));
}

template <unsigned n, class T>
void hadamard_line(const std::string& type, const inputs<T>& x, const matrix_view<T>& out) {
  const std::string name = "hadamard_forward/" + std::to_string(n) + "/" + type;
  if (!is_wanted(name)) return;
  memory_line(name, 2 * static_cast<double>(side() * side()) * sizeof(T), timed(name, memory_sets, [&](int i) {
                return gpu::hadamard_forward(context(), x[i], out, random_hadamard<n>{1});
              }));
}

/// The limit of the rows of kind "memory".
inline void copy_line(const inputs<bf16>& x, const gpu::buffer<bf16>& y) {
  if (!is_wanted("copy")) return;
  const unsigned blocks = now().small ? 4 : 4096;
  const double us = timed("copy", memory_sets, [&](int i) {
    const copy_job job{reinterpret_cast<const four_words*>(x[i].data()), reinterpret_cast<four_words*>(y.data()),
                       side() * side() * sizeof(bf16) / sizeof(four_words)};
    const gpu::error e = gpu::launch(&copy_words, {blocks}, {256}, 0, now().stream, job);
    return e == gpu::success ? gpu::status{} : gpu::status{e, gpu::error_text(e)};
  });
  memory_line("copy", 2.0 * static_cast<double>(side() * side()) * sizeof(bf16), us);
}

inline void memory_rows() {
  const random_hadamard<16> rht{1};
  const stochastic sr{.seed = 1};
  const tensor_amax known{2.0f};
  const inputs<bf16> x;
  const gpu::buffer<bf16> y(side() * side());
  const matrix_view<bf16> out{y.data(), side(), side()};
  copy_line(x, y);
  quantize_lines<nvfp4>("nvfp4/bf16", x, known);
  quantize_lines<nvfp4>("nvfp4/bf16 + RHT-16 + SR", x, rht, sr, known);
  quantize_lines<nvfp4>("nvfp4/bf16 + amax", x);
  quantize_lines<nv_e1m2>("nv_e1m2/bf16 + RHT-16 + SR", x, rht, sr, known);
  quantize_lines<mxfp4>("mxfp4/bf16 + RHT-16 + SR", x, rht, sr);
  quantize_lines<e1m2_f32>("e1m2_f32/bf16", x);
  quantize_lines<e1m2_f32>("e1m2_f32/bf16 + RHT-16 + SR", x, rht, sr);
  dequantize_line("bf16", x, out);
  hadamard_line<16>("bf16", x, out);
  hadamard_line<128>("bf16", x, out);
}

}  // namespace bench
