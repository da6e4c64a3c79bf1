// ufp4 - GPU benchmark: each operation, compared with the copy bandwidth and, on NVIDIA GPUs, with cuBLAS in bf16.
// SPDX-License-Identifier: Apache-2.0
//
// Built and run by tests/gpu/run.sh. Prints a page in Markdown: for every row the time, the rate, and the ratio to its
// limit (goals: quantize 0.8 of a copy's bytes, 0.5 with bf16 input, transform and stochastic rounding). Times are the
// median of batches between two events; the buffers of the memory-bound rows together exceed the last-level cache.
#if defined(__HIPCC__)
#include <ufp4/hip.hpp>
#define RUNTIME(name) hip##name  // the two runtimes differ in their prefix
#else
#include <cublas_v2.h>
#include <ufp4/cuda.hpp>
#include <ufp4/cuda/cublas.hpp>
#define RUNTIME(name) cuda##name
#endif

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace ufp4;
namespace gpu = ufp4::gpu;

namespace {

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "gpu_bench: %s: %s\n", what, RUNTIME(GetErrorString)(RUNTIME(GetLastError)()));
  std::exit(1);
}

bool failed = false;  // any row

gpu::stream stream = nullptr;
gpu::buffer<std::byte> workspace;
gpu::context context() { return {stream, workspace.span()}; }

/// Milliseconds of one call.
template <class Call>
double time_of(const Call& call) {
  RUNTIME(Event_t) begin = nullptr, end = nullptr;
  (void)RUNTIME(EventCreate)(&begin);
  (void)RUNTIME(EventCreate)(&end);
  const auto batch = [&](int calls) {
    (void)RUNTIME(EventRecord)(begin, stream);
    for (int i = 0; i < calls; ++i) call();
    (void)RUNTIME(EventRecord)(end, stream);
    require(RUNTIME(EventSynchronize)(end) == RUNTIME(Success), "a call failed");
    float ms = 0;
    (void)RUNTIME(EventElapsedTime)(&ms, begin, end);
    return static_cast<double>(ms) / calls;
  };
  const double once = std::max(batch(2), 1e-4);
  const int calls = std::clamp(static_cast<int>(4.0 / once), 1, 400);
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) times.push_back(batch(calls));
  std::sort(times.begin(), times.end());
  (void)RUNTIME(EventDestroy)(begin);
  (void)RUNTIME(EventDestroy)(end);
  return times[times.size() / 2];
}

template <class Call>
double checked_time_of(const char* what, const Call& call) {
  if (const gpu::status s = call(); !s) {
    std::fprintf(stderr, "gpu_bench: %s: %s\n", what, s.text().c_str());
    failed = true;
    return 0;
  }
  return time_of([&] { (void)call(); });
}

template <class T>
gpu::buffer<T> numbers(std::size_t count) {
  std::vector<T> all;
  all.reserve(count);
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    all.push_back(T(static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-30f));
  }
  return gpu::buffer<T>(std::span<const T>(all));
}

// Memory-bound operations.

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
void quantize_row(const char* name, const gpu::buffer<T>& x, bool transposed, const Policies&... policies) {
  using quantized = gpu::quantized_matrix<F>;
  const auto options = ufp4::detail::collect(policies...);
  const quantized q(side, side, options.transform);
  const matrix_view<const T> plain{x.data(), side, side};
  const matrix_view<const T> view = transposed ? transpose(plain) : plain;
  const double bytes = static_cast<double>(side * side) * (sizeof(T) + F::bits_per_element / 8);
  row(name, bytes, checked_time_of(name, [&] { return gpu::quantize<F>(context(), view, q.view(), policies...); }));
}

void memory_bound() {
  const auto x = numbers<float>(side * side);
  const auto h = numbers<bf16>(side * side);
  const gpu::buffer<float> y(side * side);
  const double floats = static_cast<double>(side * side) * sizeof(float);
  const double copy = time_of(
      [&] { (void)RUNTIME(MemcpyAsync)(y.data(), x.data(), side * side * 4, RUNTIME(MemcpyDeviceToDevice), stream); });
  copy_rate = 2 * floats / copy * 1e-6;
  std::printf("\n## Memory-bound operations, %zu x %zu\n\n", side, side);
  std::printf(
      "Rates count bytes read and written once. A tensor maximum is a pass of its own unless tensor_amax is "
      "given.\n\n");
  std::printf("| operation | microseconds | GB/s | of the copy |\n|---|---|---|---|\n");
  row("device copy (the runtime's), float", 2 * floats, copy);
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
  const gpu::quantized_matrix<e1m2_f32> q(side, side);
  require(gpu::quantize<e1m2_f32>(context(), in, q.view()).ok(), "quantize");
  row("dequantize e1m2_f32 to float", floats + floats / 4 * e1m2_f32::bits_per_element / 8,
      checked_time_of("dequantize", [&] { return gpu::dequantize(context(), q.view(), out); }));
  row("hadamard_forward 16", 2 * floats, checked_time_of("hadamard 16", [&] {
        return gpu::hadamard_forward(context(), in, out, random_hadamard<16>{1});
      }));
  row("hadamard_forward 128", 2 * floats, checked_time_of("hadamard 128", [&] {
        return gpu::hadamard_forward(context(), in, out, random_hadamard<128>{1});
      }));
}

// Products.

/// The rate that products are compared with: the vendor's bf16 by bf16 into float, TFLOP/s. 0 if it is not available.
#if defined(__HIPCC__)
struct yardstick {
  double rate(std::size_t, std::size_t, std::size_t, const gpu::buffer<bf16>&, const gpu::buffer<bf16>&,
              const gpu::buffer<float>&) const {
    return 0;
  }
};
#else
class yardstick {
 public:
  yardstick() {
    require(cublasCreate(&handle_) == CUBLAS_STATUS_SUCCESS, "cublasCreate");
    cublasSetStream(handle_, stream);
  }
  yardstick(const yardstick&) = delete;
  yardstick& operator=(const yardstick&) = delete;
  ~yardstick() { cublasDestroy(handle_); }

  double rate(std::size_t m, std::size_t n, std::size_t k, const gpu::buffer<bf16>& a, const gpu::buffer<bf16>& b,
              const gpu::buffer<float>& c) const {
    const float one = 1, zero = 0;
    const auto size = [](std::size_t x) { return static_cast<int>(x); };
    const double ms = time_of([&] {  // C^T = B A^T in its column-major words
      cublasGemmEx(handle_, CUBLAS_OP_T, CUBLAS_OP_N, size(n), size(m), size(k), &one, b.data(), CUDA_R_16BF, size(k),
                   a.data(), CUDA_R_16BF, size(k), &zero, c.data(), CUDA_R_32F, size(n), CUBLAS_COMPUTE_32F,
                   CUBLAS_GEMM_DEFAULT);
    });
    return 2.0 * static_cast<double>(m * n * k) / ms * 1e-9;
  }

 private:
  cublasHandle_t handle_ = nullptr;
};
#endif

template <class F>
void gemm_row(const char* format, accumulate mode, std::size_t m, std::size_t n, std::size_t k, double library,
              const gpu::buffer<float>& x, const gpu::buffer<float>& c) {
  const gpu::quantized_matrix<F> a(m, k), b(n, k);
  require(gpu::quantize<F>(context(), matrix_view<const float>{x.data(), m, k}, a.view()).ok(), "quantize");
  require(gpu::quantize<F>(context(), matrix_view<const float>{x.data(), n, k}, b.view()).ok(), "quantize");
  const matrix_view<float> out{c.data(), m, n};
  const gemm_options options{.accumulate = mode};
  const std::size_t needed = gpu::workspace_bytes(context(), a, b, out, options);
  if (needed > workspace.size()) workspace = gpu::buffer<std::byte>(needed);
  const auto why = gpu::explain(context(), a, b, out, options);
  const double ms = checked_time_of(format, [&] { return gpu::quantized_gemm(context(), a, b, out, options); });
  const double rate = ms <= 0 ? 0 : 2.0 * static_cast<double>(m * n * k) / ms * 1e-9;
  std::printf("| %zu x %zu x %zu | %s | %s | %s | %.1f | %.1f | ", m, n, k, format, name(mode), why.kernel, ms * 1e3,
              rate);
  if (library > 0)
    std::printf("%.1f | %.2f |\n", library, rate / library);
  else
    std::printf("none here | |\n");
  std::fflush(stdout);
}

void products() {
  const yardstick vendors;
  std::printf(
      "\n## quantized_gemm, M x N x K\n\nTFLOP/s count 2 M N K; the yardstick is cuBLAS, bf16 by bf16 into float.\n\n");
  std::printf("| shape | format | accumulate | kernel | microseconds | TFLOP/s | yardstick | ratio |\n");
  std::printf("|---|---|---|---|---|---|---|---|\n");
  const std::size_t shapes[][3] = {{1, 8192, 8192},   {8, 8192, 8192},    {16, 8192, 8192},  {128, 8192, 8192},
                                   {512, 8192, 8192}, {4096, 4096, 4096}, {8192, 8192, 8192}};
  const auto a = numbers<bf16>(8192 * 8192), b = numbers<bf16>(8192 * 8192);
  const auto x = numbers<float>(8192 * 8192);
  const gpu::buffer<float> c(8192 * 8192);
  for (const auto& [m, n, k] : shapes) {
    const double library = vendors.rate(m, n, k, a, b, c);
    gemm_row<nvfp4>("nvfp4", accumulate::fast, m, n, k, library, x, c);
    gemm_row<mxfp4>("mxfp4", accumulate::fast, m, n, k, library, x, c);
    gemm_row<nv_e1m2>("nv_e1m2", accumulate::fast, m, n, k, library, x, c);
    gemm_row<e1m2_f32>("e1m2_f32", accumulate::folded_bf16, m, n, k, library, x, c);
    gemm_row<e1m2_f32>("e1m2_f32", accumulate::exact_blocks, m, n, k, library, x, c);
    gemm_row<mxfp4>("mxfp4", accumulate::exact_blocks, m, n, k, library, x, c);
  }
#if !defined(__HIPCC__)
  const gpu::cublas installed;
  require(installed.made().ok(), "cublasLt");
  for (const auto& [m, n, k] : shapes) {
    if (m < 512) continue;
    const double library = vendors.rate(m, n, k, a, b, c);
    gemm_row<nvfp4>("nvfp4", accumulate::fast, m, n, k, library, x, c);
    gemm_row<nv_e1m2>("nv_e1m2", accumulate::fast, m, n, k, library, x, c);
    gemm_row<e1m2_f32>("e1m2_f32", accumulate::folded_bf16, m, n, k, library, x, c);
  }
#endif
}

}  // namespace

int main() {
  int devices = 0;
  if (RUNTIME(GetDeviceCount)(&devices) != RUNTIME(Success) || devices == 0) {
    std::fprintf(stderr, "gpu_bench: no GPU\n");
    return 77;
  }
#if defined(__HIPCC__)
  hipDeviceProp_t device{};
#else
  cudaDeviceProp device{};
#endif
  int driver = 0, runtime = 0;
  require(RUNTIME(GetDeviceProperties)(&device, 0) == RUNTIME(Success), "device properties");
  (void)RUNTIME(DriverGetVersion)(&driver);
  (void)RUNTIME(RuntimeGetVersion)(&runtime);
  require(RUNTIME(StreamCreateWithFlags)(&stream, RUNTIME(StreamNonBlocking)) == RUNTIME(Success), "a stream");
  workspace = gpu::buffer<std::byte>(std::size_t{1} << 20);
#if defined(__HIPCC__)
  std::printf("%s, %s, %d compute units", device.name, device.gcnArchName, device.multiProcessorCount);
#else
  std::printf("%s, compute capability %d.%d, %d multiprocessors", device.name, device.major, device.minor,
              device.multiProcessorCount);
#endif
  std::printf(", %.0f GiB; driver %d, runtime %d.\n", static_cast<double>(device.totalGlobalMem) / (1u << 30), driver,
              runtime);
  memory_bound();
  products();
  return failed ? 1 : 0;
}
