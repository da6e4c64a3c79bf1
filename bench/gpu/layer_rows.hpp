// ufp4 - rows of the GPU bench: a linear layer's three products under a recipe, and in bf16 by cublasLt.
// SPDX-License-Identifier: Apache-2.0
//
// T = N = K = 8192; X, W, dY, Y and dX in bf16, dW in float. A line has the number of launches, the bytes that the
// launches read and write (each operand once for each launch; of a kernel with a workspace, that twice, without the
// memory that it lends to cublasLt), and the bytes that the product itself reads and writes.
#pragma once

#include "gpu/product_rows.hpp"

namespace bench {

/// Work queued by a call, where the runtime counts it: kernels and memsets; 0 if it cannot be captured.
template <class Call>
std::size_t launches_of(const Call& call) {
#if defined(RUNTIME)
  RUNTIME(Graph_t) graph = nullptr;
  std::size_t count = 0;
  const gpu::stream s = now().stream;
  if (RUNTIME(StreamBeginCapture)(s, RUNTIME(StreamCaptureModeRelaxed)) != gpu::success) return 0;
  call();
  if (RUNTIME(StreamEndCapture)(s, &graph) == gpu::success) (void)RUNTIME(GraphGetNodes)(graph, nullptr, &count);
  if (graph != nullptr) (void)RUNTIME(GraphDestroy)(graph);
  (void)RUNTIME(GetLastError)();
  return count;
#else
  const auto before = simt::calls().launches;
  call();
  return simt::calls().launches - before;
#endif
}

/// Matrices of a layer, and the bytes of what each product reads and writes itself.
struct layer {
  std::size_t n = now().small ? 64 : 8192;
  gpu::buffer<bf16> x = numbers<bf16>(n * n, 1), w = numbers<bf16>(n * n, 2), dy = numbers<bf16>(n * n, 3);
  gpu::buffer<bf16> y{n * n}, dx{n * n};
  gpu::buffer<float> dw{n * n};

  template <class T>
  matrix_view<const T> in(const gpu::buffer<T>& all) const {
    return {all.data(), n, n};
  }
  template <class T>
  matrix_view<T> out(const gpu::buffer<T>& all) const {
    return {all.data(), n, n};
  }
  double matrices(double bytes_of_an_element) const { return static_cast<double>(n * n) * bytes_of_an_element; }
};

/// What the launches of a product of a layer read and write.
inline double bytes_moved(gpu::detail::layer_call call) {
  require(gpu::detail::prepare_layer(call, {}), "facts");
  const gpu::gemm_job job = call.job(0);
  const gpu::gemm_kernel* kernel = call.kernels[0];
  std::size_t workspace = gpu::detail::kernel_bytes(kernel, job, call.device);
#if defined(HAS_CUBLAS)
  if (std::strncmp(kernel->name, "gemm_library", 12) == 0)
    workspace -= std::min(workspace, gpu::detail::library()->workspace);
#endif
  double bytes = 2 * static_cast<double>(workspace) +
                 static_cast<double>(job.out.rows * job.out.cols * (job.out.kind == dtype::f32 ? 4 : 2));
  for (const gpu::detail::layer_side* side : {&call.left, &call.right}) {
    const auto part = side->job(0);
    const double plain = static_cast<double>(part.x.rows * part.x.cols) * 2;
    const double coded = static_cast<double>(part.x.rows * part.padded_cols / 2 + gpu::detail::scale_bytes(part));
    bytes += side->quantizes() ? plain * (side->two_level() ? 2 : 1) + 2 * coded : plain;  // coded: written, then read
  }
  return bytes;
}

/// One product of a layer, or all three.
template <class Call>
void layer_line(const std::string& recipe, const char* what, const layer& all, int products, double moved,
                double needed, const Call& call) {
  const std::string name = "layer/" + recipe + "/" + what;
  if (!is_wanted(name)) return;
  const double us = timed(name, 1, [&](int) { return call(); });
  if (us <= 0) return;
  line("layer")
      .text("name", name)
      .number("us", us)
      .number("tflops", products * shape{all.n, all.n, all.n}.flops() / us * 1e-6)
      .number("launches", static_cast<double>(launches_of([&] { (void)call(); })))
      .number("bytes", moved)
      .number("needed", needed)
      .print();
}

/// The products' own bytes: two matrices of bf16, and Y or dX in bf16 or dW in float.
inline double needed_bytes(const layer& all, bool is_weight) { return all.matrices(is_weight ? 8 : 6); }

/// The three products, and the step that consists of them.
template <class Forward, class Input, class Weight>
void step_lines(const std::string& recipe, const layer& all, const double (&moved)[3], const Forward& forward,
                const Input& input, const Weight& weight) {
  layer_line(recipe, "forward", all, 1, moved[0], needed_bytes(all, false), forward);
  layer_line(recipe, "backward_input", all, 1, moved[1], needed_bytes(all, false), input);
  layer_line(recipe, "backward_weight", all, 1, moved[2], needed_bytes(all, true), weight);
  layer_line(recipe, "step", all, 3, moved[0] + moved[1] + moved[2], all.matrices(3 * 2 + 2 * 2 + 4), [&] {
    if (gpu::status s = forward(); !s) return s;
    if (gpu::status s = input(); !s) return s;
    return weight();
  });
}

inline void recipe_lines(const std::string& name, const recipe::training_recipe& r, const layer& all) {
  const recipe::bound_recipe now_bound = r.at(0, 0);
  const auto x = all.in(all.x), w = all.in(all.w), dy = all.in(all.dy);
  const auto y = all.out(all.y), dx = all.out(all.dx);
  const auto dw = all.out(all.dw);
  need_workspace(std::max({gpu::linear_forward_workspace_bytes(now_bound, x, w, y),
                           gpu::linear_backward_input_workspace_bytes(now_bound, dy, w, dx),
                           gpu::linear_backward_weight_workspace_bytes(now_bound, dy, x, dw)}));
  const double moved[] = {
      bytes_moved(gpu::detail::forward_of(now_bound, x, w, y, {})),
      bytes_moved(gpu::detail::backward_input_of(now_bound, dy, w, dx, {})),
      bytes_moved(gpu::detail::backward_weight_of(now_bound, dy, gpu::detail::source_of(x), dw, {}))};
  step_lines(
      name, all, moved, [&] { return gpu::linear_forward(context(), now_bound, x, w, y); },
      [&] { return gpu::linear_backward_input(context(), now_bound, dy, w, dx); },
      [&] { return gpu::linear_backward_weight(context(), now_bound, dy, x, dw); });
}

#if defined(HAS_CUBLAS)
inline void library_step_lines(const layer& all) {
  const cublas_yardstick cublas;
  const std::size_t n = all.n;
  cublas_product forward = cublas.product({CUDA_R_16BF, CUDA_R_16BF, n, n, n}),
                 input = cublas.product({CUDA_R_16BF, CUDA_R_16BF, n, n, n, false, true}),
                 weight = cublas.product({CUDA_R_16BF, CUDA_R_32F, n, n, n, true, true});
  if (!forward.exists() || !input.exists() || !weight.exists()) return;
  const double moved[] = {needed_bytes(all, false), needed_bytes(all, false), needed_bytes(all, true)};
  step_lines(
      "bf16 of cublasLt", all, moved, [&] { return forward(all.x.data(), all.w.data(), all.y.data()); },
      [&] { return input(all.dy.data(), all.w.data(), all.dx.data()); },
      [&] { return weight(all.dy.data(), all.x.data(), all.dw.data()); });
}
#endif

inline void layer_rows() {
  const layer all;
#if defined(HAS_CUBLAS)
  library_step_lines(all);
#endif
  recipe::training_recipe folded = recipe::ufp4_recipe(1);
  folded.accumulate = accumulate::folded_bf16;
  recipe_lines("ufp4", recipe::ufp4_recipe(1), all);
  recipe_lines("ufp4, folded_bf16", folded, all);
  recipe_lines("ufp4<nv_e1m2>", recipe::ufp4_recipe<nv_e1m2>(1), all);
  recipe_lines("e2m1_baseline", recipe::e2m1_baseline_recipe(1), all);
}

}  // namespace bench
