// ufp4 - what the GPU's verbs reach, beside the device's own copy bandwidth and cuBLAS in bf16, all measured in one run.
// SPDX-License-Identifier: Apache-2.0
//
// Built and run by tests/gpu/run.sh. Prints a page in Markdown: every row its time, its rate, and the ratio to the limit that it is
// held to (goals: quantize 0.8 of a copy's bytes, 0.5 with bf16 input, transform and stochastic rounding). Times are the median of
// batches between two events; the buffers of the memory-bound rows together exceed the last cache.
#include <cublas_v2.h>
#include <ufp4/cuda.hpp>
#include <ufp4/cuda/cublas.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace ufp4;
namespace cuda = ufp4::cuda;

namespace {

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "gpu_bench: %s: %s\n", what, cudaGetErrorString(cudaGetLastError()));
  std::exit(1);
}

bool failed = false;  // any row

cudaStream_t stream = nullptr;
cuda::buffer<std::byte> workspace;
cuda::context context() { return {stream, workspace.span()}; }

/// Milliseconds of one call.
template <class Call>
double time_of(const Call& call) {
  cudaEvent_t begin = nullptr, end = nullptr;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  const auto batch = [&](int calls) {
    cudaEventRecord(begin, stream);
    for (int i = 0; i < calls; ++i) call();
    cudaEventRecord(end, stream);
    require(cudaEventSynchronize(end) == cudaSuccess, "a call failed");
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    return static_cast<double>(ms) / calls;
  };
  const double once = std::max(batch(2), 1e-4);
  const int calls = std::clamp(static_cast<int>(4.0 / once), 1, 400);
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) times.push_back(batch(calls));
  std::sort(times.begin(), times.end());
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return times[times.size() / 2];
}

template <class Call>
double checked_time_of(const char* what, const Call& call) {
  if (const cuda::status s = call(); !s) {
    std::fprintf(stderr, "gpu_bench: %s: %s\n", what, s.text().c_str());
    failed = true;
    return 0;
  }
  return time_of([&] { (void)call(); });
}

template <class T>
cuda::buffer<T> numbers(std::size_t count) {
  std::vector<T> all;
  all.reserve(count);
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    all.push_back(T(static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-30f));
  }
  return cuda::buffer<T>(std::span<const T>(all));
}

// Memory-bound verbs.

double copy_rate = 0;  // GB/s, bytes read plus bytes written

void row(const std::string& name, double bytes, double ms) {
  if (ms <= 0) {
    std::printf("| %s | failed | | |\n", name.c_str());
    return;
  }
  const double rate = bytes / ms * 1e-6;
  std::printf("| %s | %.1f | %.0f | %.2f |\n", name.c_str(), ms * 1e3, rate, rate / copy_rate);
}

constexpr std::size_t side = 8192;  // 256 MiB of float

template <class F, class T, class... Policies>
void quantize_row(const char* name, const cuda::buffer<T>& x, bool turned, const Policies&... policies) {
  using quantized = cuda::quantized_matrix<F>;
  const auto options = ufp4::detail::collect(policies...);
  const quantized q(side, side, options.transform);
  const matrix_view<const T> plain{x.data(), side, side};
  const matrix_view<const T> view = turned ? transpose(plain) : plain;
  const double bytes = static_cast<double>(side * side) * (sizeof(T) + F::bits_per_element / 8);
  row(name, bytes, checked_time_of(name, [&] { return cuda::quantize<F>(context(), view, q.view(), policies...); }));
}

void memory_bound() {
  const auto x = numbers<float>(side * side);
  const auto h = numbers<bf16>(side * side);
  const cuda::buffer<float> y(side * side);
  const double floats = static_cast<double>(side * side) * sizeof(float);
  const double copy =
      time_of([&] { cudaMemcpyAsync(y.data(), x.data(), side * side * 4, cudaMemcpyDeviceToDevice, stream); });
  copy_rate = 2 * floats / copy * 1e-6;
  std::printf("\n## Memory-bound verbs, %zu x %zu\n\n", side, side);
  std::printf(
      "Rates count bytes read and written once. A tensor maximum is a pass of its own unless tensor_amax is "
      "given.\n\n");
  std::printf("| verb | microseconds | GB/s | of the copy |\n|---|---|---|---|\n");
  row("device copy (cudaMemcpyAsync), float", 2 * floats, copy);
  const random_hadamard<16> rht{1};
  const stochastic sr{.seed = 1};
  const tensor_amax known{2.0f};
  quantize_row<e1m2_f32>("quantize e1m2_f32", x, false);
  quantize_row<e1m2_f32>("quantize e1m2_f32, RHT-16", x, false, rht);
  quantize_row<e1m2_f32>("quantize e1m2_f32, stochastic", x, false, sr);
  quantize_row<e1m2_f32>("quantize e1m2_f32, RHT-16, stochastic", x, false, rht, sr);
  quantize_row<e1m2_f32>("quantize e1m2_f32 of the transpose", x, true);
  quantize_row<e1m2_f32>("quantize e1m2_f32, bf16 input", h, false);
  quantize_row<e1m2_f32>("quantize e1m2_f32, bf16 input, RHT-16, stochastic", h, false, rht, sr);
  quantize_row<nvfp4>("quantize nvfp4, tensor_amax given", x, false, known);
  quantize_row<nvfp4>("quantize nvfp4, maximum in its own pass", x, false);
  quantize_row<nvfp4>("quantize nvfp4, RHT-16, stochastic, tensor_amax given", x, false, rht, sr, known);
  quantize_row<mxfp4>("quantize mxfp4", x, false);
  quantize_row<mxfp4>("quantize mxfp4, bf16 input, RHT-16, stochastic", h, false, rht, sr);

  const matrix_view<const float> in{x.data(), side, side};
  const matrix_view<float> out{y.data(), side, side};
  const cuda::quantized_matrix<e1m2_f32> q(side, side);
  require(cuda::quantize<e1m2_f32>(context(), in, q.view()).ok(), "quantize");
  row("dequantize e1m2_f32 to float", floats + floats / 4 * e1m2_f32::bits_per_element / 8,
      checked_time_of("dequantize", [&] { return cuda::dequantize(context(), q.view(), out); }));
  row("hadamard_forward 16", 2 * floats, checked_time_of("hadamard 16", [&] {
        return cuda::hadamard_forward(context(), in, out, random_hadamard<16>{1});
      }));
  row("hadamard_forward 128", 2 * floats, checked_time_of("hadamard 128", [&] {
        return cuda::hadamard_forward(context(), in, out, random_hadamard<128>{1});
      }));
}

// Products.

double library_rate(cublasHandle_t handle, std::size_t m, std::size_t n, std::size_t k, const cuda::buffer<bf16>& a,
                    const cuda::buffer<bf16>& b, const cuda::buffer<float>& c) {
  const float one = 1, zero = 0;
  const auto size = [](std::size_t x) { return static_cast<int>(x); };
  const double ms = time_of([&] {  // C^T = B A^T in its column-major words
    cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, size(n), size(m), size(k), &one, b.data(), CUDA_R_16BF, size(k),
                 a.data(), CUDA_R_16BF, size(k), &zero, c.data(), CUDA_R_32F, size(n), CUBLAS_COMPUTE_32F,
                 CUBLAS_GEMM_DEFAULT);
  });
  return 2.0 * static_cast<double>(m * n * k) / ms * 1e-9;
}

template <class F>
void gemm_row(const char* format, accumulate mode, std::size_t m, std::size_t n, std::size_t k, double library,
              const cuda::buffer<float>& x, const cuda::buffer<float>& c) {
  const cuda::quantized_matrix<F> a(m, k), b(n, k);
  require(cuda::quantize<F>(context(), matrix_view<const float>{x.data(), m, k}, a.view()).ok(), "quantize");
  require(cuda::quantize<F>(context(), matrix_view<const float>{x.data(), n, k}, b.view()).ok(), "quantize");
  const matrix_view<float> out{c.data(), m, n};
  const gemm_options options{.accumulate = mode};
  const std::size_t needed = cuda::workspace_bytes(context(), a, b, out, options);
  if (needed > workspace.size()) workspace = cuda::buffer<std::byte>(needed);
  const auto why = cuda::explain(context(), a, b, out, options);
  const double ms = checked_time_of(format, [&] { return cuda::quantized_gemm(context(), a, b, out, options); });
  const double rate = ms <= 0 ? 0 : 2.0 * static_cast<double>(m * n * k) / ms * 1e-9;
  std::printf("| %zu x %zu x %zu | %s | %s | %s | %.1f | %.1f | %.1f | %.2f |\n", m, n, k, format, name(mode),
              why.kernel, ms * 1e3, rate, library, rate / library);
  std::fflush(stdout);
}

void products() {
  cublasHandle_t handle = nullptr;
  require(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS, "cublasCreate");
  cublasSetStream(handle, stream);
  std::printf(
      "\n## quantized_gemm, M x N x K\n\nTFLOP/s count 2 M N K; cuBLAS multiplies bf16 by bf16 into float.\n\n");
  std::printf("| shape | format | accumulate | kernel | microseconds | TFLOP/s | cuBLAS bf16 | ratio |\n");
  std::printf("|---|---|---|---|---|---|---|---|\n");
  const std::size_t shapes[][3] = {{1, 8192, 8192},   {8, 8192, 8192},    {16, 8192, 8192},  {128, 8192, 8192},
                                   {512, 8192, 8192}, {4096, 4096, 4096}, {8192, 8192, 8192}};
  const auto a = numbers<bf16>(8192 * 8192), b = numbers<bf16>(8192 * 8192);
  const auto x = numbers<float>(8192 * 8192);
  const cuda::buffer<float> c(8192 * 8192);
  for (const auto& [m, n, k] : shapes) {
    const double library = library_rate(handle, m, n, k, a, b, c);
    gemm_row<nvfp4>("nvfp4", accumulate::fast, m, n, k, library, x, c);
    gemm_row<mxfp4>("mxfp4", accumulate::fast, m, n, k, library, x, c);
    gemm_row<nv_e1m2>("nv_e1m2", accumulate::fast, m, n, k, library, x, c);
    gemm_row<e1m2_f32>("e1m2_f32", accumulate::folded_bf16, m, n, k, library, x, c);
    gemm_row<e1m2_f32>("e1m2_f32", accumulate::exact_blocks, m, n, k, library, x, c);
    gemm_row<mxfp4>("mxfp4", accumulate::exact_blocks, m, n, k, library, x, c);
  }
  const cuda::cublas installed;
  require(installed.made().ok(), "cublasLt");
  for (const auto& [m, n, k] : shapes) {
    if (m < 512) continue;
    const double library = library_rate(handle, m, n, k, a, b, c);
    gemm_row<nvfp4>("nvfp4", accumulate::fast, m, n, k, library, x, c);
    gemm_row<nv_e1m2>("nv_e1m2", accumulate::fast, m, n, k, library, x, c);
    gemm_row<e1m2_f32>("e1m2_f32", accumulate::folded_bf16, m, n, k, library, x, c);
  }
  cublasDestroy(handle);
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "gpu_bench: no GPU\n");
    return 77;
  }
  cudaDeviceProp device{};
  int driver = 0, runtime = 0;
  require(cudaGetDeviceProperties(&device, 0) == cudaSuccess, "cudaGetDeviceProperties");
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess, "cudaStreamCreate");
  workspace = cuda::buffer<std::byte>(std::size_t{1} << 20);
  std::printf("%s, compute capability %d.%d, %d multiprocessors, %.0f GiB; CUDA driver %d.%d, runtime %d.%d.\n",
              device.name, device.major, device.minor, device.multiProcessorCount,
              static_cast<double>(device.totalGlobalMem) / (1u << 30), driver / 1000, driver % 1000 / 10,
              runtime / 1000, runtime % 1000 / 10);
  memory_bound();
  products();
  return failed ? 1 : 0;
}
