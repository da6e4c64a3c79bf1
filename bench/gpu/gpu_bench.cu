// ufp4 - GPU benchmark: every operation beside a copy, every kernel of a product beside cuBLAS in bf16 and fp8.
// SPDX-License-Identifier: Apache-2.0
//
// tests/gpu/borrowed.sh builds and runs it; measure.hpp describes arguments and output. Operands are rotated over four
// sets or more, which together exceed the last-level cache. A line is named operation/format/what/shape.
#define UFP4_EXPERIMENTAL  // times what a program would not choose, too
#include "gpu/device.hpp"
#include "gpu/measure.hpp"

#if defined(__CUDACC__) && !defined(UFP4_BENCH_WITHOUT_CUBLAS)
#define HAS_CUBLAS 1
#include "gpu/cublas_yardstick.hpp"
#endif

using namespace ufp4;
namespace gpu = ufp4::gpu;

namespace {

gpu::buffer<std::byte> workspace;
gpu::context context() { return {bench::now().stream, workspace.span()}; }
void make_workspace(std::size_t bytes) {
  if (bytes > workspace.size()) workspace = gpu::buffer<std::byte>(bytes);
}

constexpr int memory_sets = 4;

/// Sets of operands of which all but one together exceed a cache of 60 MB; four at least.
int sets_for(std::size_t bytes) {
  return bench::now().small ? 4 : static_cast<int>(std::clamp<std::size_t>((std::size_t{240} << 20) / bytes, 4, 64));
}

// Memory-bound operations.

void memory_line(const std::string& name, double bytes, double us) {
  if (us <= 0) return;
  bench::line("memory").text("name", name).number("us", us).number("gbs", bytes / us * 1e-3).print();
}

std::size_t side() { return bench::now().small ? 128 : 8192; }

template <class T>
struct inputs {
  gpu::buffer<T> all = bench::numbers<T>(memory_sets * side() * side());
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

template <class F, class T, class... Policies>
void quantize_line(const std::string& what, const inputs<T>& x, bool transposed, const Policies&... policies) {
  const std::string name = "quantize/" + what;
  if (!bench::is_wanted(name)) return;
  const outputs<F> q(ufp4::detail::collect(policies...).transform);
  const double us = bench::timed(name, memory_sets, [&](int i) {
    return gpu::quantize<F>(context(), transposed ? transpose(x[i]) : x[i], q[i].view(), policies...);
  });
  memory_line(name, static_cast<double>(side() * side()) * (sizeof(T) + bytes_of_element<F>), us);
}

template <class T>
void quantize_lines(const std::string& type, const inputs<T>& x) {
  const random_hadamard<16> rht{1};
  const stochastic sr{.seed = 1};
  const tensor_amax known{2.0f};
  quantize_line<nvfp4>("nvfp4/" + type, x, false, known);
  quantize_line<nvfp4>("nvfp4/" + type + " + amax", x, false);
  quantize_line<nvfp4>("nvfp4/" + type + " + RHT-16 + SR", x, false, rht, sr, known);
  quantize_line<nvfp4>("nvfp4/" + type + " + RHT-16 + SR of the transpose", x, true, rht, sr, known);
  quantize_line<mxfp4>("mxfp4/" + type, x, false);
  quantize_line<mxfp4>("mxfp4/" + type + " + RHT-16 + SR", x, false, rht, sr);
  quantize_line<e1m2_f32>("e1m2_f32/" + type, x, false);
  quantize_line<e1m2_f32>("e1m2_f32/" + type + " + RHT-16 + SR", x, false, rht, sr);
  quantize_line<e1m2_f32>("e1m2_f32/" + type + " of the transpose", x, true);
}

void both_line(const inputs<bf16>& x) {
  const std::string name = "quantize_both/nvfp4/bf16";
  if (!bench::is_wanted(name)) return;
  const outputs<nvfp4> rows, columns;
  const auto known = gpu::with(tensor_amax{2.0f});
  const double us = bench::timed(name, memory_sets, [&](int i) {
    return gpu::quantize_both<nvfp4>(context(), x[i], rows[i].view(), columns[i].view(), known, known);
  });
  memory_line(name, static_cast<double>(side() * side()) * (2 + 2 * bytes_of_element<nvfp4>), us);
}

template <class T>
void transform_lines(const std::string& type, const inputs<T>& x, const gpu::buffer<T>& y) {
  const matrix_view<T> out{y.data(), side(), side()};
  const double elements = static_cast<double>(side() * side());
  const auto hadamard_line = [&]<unsigned n>(std::integral_constant<unsigned, n>) {
    const std::string name = "hadamard_forward/" + std::to_string(n) + "/" + type;
    if (!bench::is_wanted(name)) return;
    memory_line(name, 2 * elements * sizeof(T), bench::timed(name, memory_sets, [&](int i) {
                  return gpu::hadamard_forward(context(), x[i], out, random_hadamard<n>{1});
                }));
  };
  hadamard_line(std::integral_constant<unsigned, 16>{});
  hadamard_line(std::integral_constant<unsigned, 128>{});
  const std::string name = "dequantize/nvfp4/" + type;
  if (!bench::is_wanted(name)) return;
  const outputs<nvfp4> q;
  for (int i = 0; i < memory_sets; ++i)
    bench::require(gpu::quantize<nvfp4>(context(), x[i], q[i].view(), tensor_amax{2.0f}));
  memory_line(name, elements * (sizeof(T) + bytes_of_element<nvfp4>),
              bench::timed(name, memory_sets, [&](int i) { return gpu::dequantize(context(), q[i].view(), out); }));
}

struct copy_job {
  const ufp4::bf16* from;
  ufp4::bf16* to;
  std::size_t eights;
};
struct alignas(16) eight_halves {
  std::uint32_t words[4];
};
UFP4_KERNEL(256) copy_eights(const copy_job job) {
  const std::size_t step = std::size_t{gpu::grid_size().x} * 256;
  for (std::size_t i = std::size_t{gpu::block_index().x} * 256 + gpu::thread_index().x; i < job.eights; i += step)
    reinterpret_cast<eight_halves*>(job.to)[i] = reinterpret_cast<const eight_halves*>(job.from)[i];
}

/// A kernel that copies 16 bytes a thread and step: the limit of the rows of kind "memory".
void copy_line(const inputs<bf16>& x, const gpu::buffer<bf16>& y) {
  if (!bench::is_wanted("copy")) return;
  const copy_job job{nullptr, y.data(), side() * side() / 8};
  const unsigned blocks = bench::now().small ? 4 : 4096;
  const double us = bench::timed("copy", memory_sets, [&](int i) {
    copy_job of_set = job;
    of_set.from = x[i].data();
    const gpu::error e = gpu::launch(&copy_eights, {blocks}, {256}, 0, bench::now().stream, of_set);
    return e == gpu::success ? gpu::status{} : gpu::status{e, gpu::error_text(e)};
  });
  memory_line("copy", 2.0 * static_cast<double>(side() * side()) * sizeof(bf16), us);
}

void memory_bound() {
  const inputs<bf16> h;
  {
    const gpu::buffer<bf16> y(side() * side());
    copy_line(h, y);
    transform_lines("bf16", h, y);
  }
  quantize_lines("bf16", h);
  both_line(h);
  const inputs<float> x;
  const gpu::buffer<float> y(side() * side());
  quantize_lines("float", x);
  transform_lines("float", x, y);
}

// Products.

struct shape {
  std::size_t m, n, k;
  std::string text() const { return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k); }
};

template <class F>
struct gemm_operands {
  std::vector<gpu::quantized_matrix<F>> a, b;
  gemm_operands(const shape& s, int sets, const gpu::buffer<float>& x) {
    for (int i = 0; i < sets; ++i) {
      a.emplace_back(s.m, s.k);
      b.emplace_back(s.n, s.k);
      const float* from = x.data() + static_cast<std::size_t>(i) * 64;
      bench::require(gpu::quantize<F>(context(), matrix_view<const float>{from, s.m, s.k}, a.back().view()));
      bench::require(gpu::quantize<F>(context(), matrix_view<const float>{from, s.n, s.k}, b.back().view()));
    }
  }
};

void gemm_line(const std::string& name, const char* format, accumulate mode, const shape& s,
               const gpu::gemm_kernel& kernel, bool chosen, double bytes, double us) {
  const double flops = 2.0 * static_cast<double>(s.m * s.n * s.k);
  bench::line("gemm")
      .text("name", name)
      .text("format", format)
      .text("accumulate", ufp4::name(mode))
      .text("kernel", kernel.name)
      .truth("chosen", chosen)
      .number("m", static_cast<double>(s.m))
      .number("n", static_cast<double>(s.n))
      .number("k", static_cast<double>(s.k))
      .number("us", us)
      .number("tflops", flops / us * 1e-6)
      .number("gbs", bytes / us * 1e-3)
      .print();
}

/// A line for every kernel that takes the product: the chosen one and those that it is preferred to.
template <class F>
void gemm_lines(const char* format, accumulate mode, const shape& s, const gpu::buffer<float>& x,
                const gpu::buffer<float>& c) {
  const std::string name = std::string("gemm/") + format + "/" + ufp4::name(mode) + "/" + s.text();
  if (!bench::is_wanted(name)) return;
  const std::size_t operand = static_cast<std::size_t>(static_cast<double>((s.m + s.n) * s.k) * bytes_of_element<F>);
  const int sets = sets_for(operand);
  const gemm_operands<F> operands(s, sets, x);
  gpu::device_facts device;
  bench::require(gpu::facts(device), "facts");
  const auto job_of = [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    const auto sink = ufp4::detail::sink_of(matrix_view<float>{c.data(), s.m, s.n});
    return gpu::detail::call_of(operands.a[at].view(), operands.b[at].view(), sink, {.accumulate = mode}, {}).job;
  };
  const gpu::gemm_kernel* chosen = gpu::detail::choose_kernel(job_of(0), device);
  for (const gpu::gemm_kernel* kernel : gpu::gemm_kernels()) {
    const bool portable = std::strcmp(kernel->name, "gemm_simt") == 0;
    if (!kernel->takes(job_of(0), device) || (kernel != chosen && (portable || bench::now().once))) continue;
    make_workspace(kernel->workspace(job_of(0), device));
    const double us = bench::timed(name, sets, [&](int i) {
      return gpu::detail::status_of(kernel->name,
                                    kernel->run(job_of(i), device, workspace.span(), bench::now().stream));
    });
    const double bytes = static_cast<double>(operand) + 4.0 * static_cast<double>(s.m * s.n);
    if (us > 0) gemm_line(name, format, mode, s, *kernel, kernel == chosen, bytes, us);
  }
}

#if defined(HAS_CUBLAS)
void library_lines(const std::vector<shape>& shapes, const gpu::buffer<float>& c) {
  bench::cublas_yardstick cublas;
  const auto measure = [&]<class T>(const char* type_name, cudaDataType_t type, const shape& s, const T&) {
    const int sets = sets_for((s.m + s.n) * s.k * sizeof(T));
    const auto a = bench::numbers<T>(static_cast<std::size_t>(sets) * s.m * s.k, 1);
    const auto b = bench::numbers<T>(static_cast<std::size_t>(sets) * s.n * s.k, 2);
    cublas.measure(type_name, type, s.m, s.n, s.k, sets, a, b, c);
  };
  for (const shape& s : shapes) {
    measure("bf16", CUDA_R_16BF, s, bf16{});
    measure("fp8", CUDA_R_8F_E4M3, s, std::uint8_t{});
  }
}
#endif

void products() {
  const std::vector<shape> shapes =
      bench::now().small
          ? std::vector<shape>{{1, 64, 64}, {64, 64, 64}}
          : std::vector<shape>{{1, 8192, 8192},    {8, 8192, 8192},   {16, 8192, 8192},  {32, 8192, 8192},
                               {64, 8192, 8192},   {128, 8192, 8192}, {256, 8192, 8192}, {512, 8192, 8192},
                               {4096, 4096, 4096}, {8192, 8192, 8192}};
  const std::size_t most = shapes.back().n * shapes.back().k;
  const auto x = bench::numbers<float>(most + 64 * 64);
  const gpu::buffer<float> c(most);
#if defined(HAS_CUBLAS)
  library_lines(shapes, c);
  const gpu::cublas installed;
  bench::require(installed.made());
#endif
  for (const shape& s : shapes) {
    gemm_lines<nvfp4>("nvfp4", accumulate::fast, s, x, c);
    gemm_lines<nvfp4>("nvfp4", accumulate::exact_blocks, s, x, c);
    gemm_lines<mxfp4>("mxfp4", accumulate::fast, s, x, c);
    gemm_lines<nv_e1m2>("nv_e1m2", accumulate::fast, s, x, c);
    gemm_lines<e1m2_f32>("e1m2_f32", accumulate::folded_bf16, s, x, c);
    gemm_lines<e1m2_f32>("e1m2_f32", accumulate::exact_blocks, s, x, c);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::start(argc, argv);
  make_workspace(std::size_t{1} << 20);
  memory_bound();
  products();
  return bench::now().failed ? 1 : 0;
}
