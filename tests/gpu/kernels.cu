// ufp4 - every kernel of the library in one file, for either vendor's compiler: what compile.sh and compile_hip.sh
// compile for each architecture, and in whose output they look for instructions.
// SPDX-License-Identifier: Apache-2.0
//
// With UFP4_EXTERNAL_GPU_KERNELS the same program without the kernels, which links those of cmake/cuda_kernels.cu or
// cmake/hip_kernels.cpp.
//
// As a program, on a machine with a GPU, it prints which kernels that GPU would run; without a GPU its exit status is
// 77.
#if !defined(UFP4_EXTERNAL_GPU_KERNELS)
#define UFP4_COMPILE_GPU_KERNELS
#endif
#if defined(__HIPCC__)
#include <ufp4/hip.hpp>
#else
#include <ufp4/cuda.hpp>
#endif

#include <cstdio>
#include <type_traits>

using namespace ufp4;
namespace gpu = ufp4::gpu;

#if defined(__HIPCC__)
static_assert(std::is_same_v<ufp4::hip::context, gpu::context>);
#else
static_assert(std::is_same_v<ufp4::cuda::context, gpu::context>);
#endif

namespace {

const gpu::context none{};

/// Operations with null pointers, so that their kernels are in the program.
template <class F, class T>
int use_format(const matrix_view<const T>& x) {
  const gpu::quantized_view<F> q;
  int rejected = 0;
  rejected += !gpu::quantize<F>(none, x, q, random_hadamard<16>{1}, stochastic{.seed = 1});
  rejected += !gpu::quantize_both<F>(none, x, q, q);
  rejected += !gpu::dequantize<F>(none, q, matrix_view<float>{});
  return rejected;
}

int use_everything() {
  const matrix_view<const float> x;
  const matrix_view<const bf16> h;
  const matrix_view<float> y;
  const recipe::bound_recipe now = recipe::nvfp4_recipe(1).at(0, 0);
  int rejected = use_format<nvfp4>(x) + use_format<mxfp4>(h) + use_format<e1m2_f32>(x) + use_format<if4>(x);
  rejected += !gpu::quantize<compat::te_nvfp4>(none, x, gpu::quantized_view<nvfp4>{});
  rejected += !gpu::hadamard_forward(none, x, y, hadamard<16>{});
  rejected += !gpu::linear_forward(none, now, x, x, y);
  rejected += !gpu::linear_backward_input(none, now, x, x, y);
  rejected += !gpu::linear_backward_weight(none, now, x, x, y);
  return rejected;
}

template <class F>
void explain(const char* format, accumulate mode) {
  for (const std::size_t m : {1u, 16u, 128u, 512u, 8192u}) {
    const std::size_t n = 4096, k = 4096;
    const gpu::quantized_matrix<F> none_of_it;
    // Only shapes are read, so the pointers need only not be null.
    const auto bytes = [](std::size_t count) {
      return std::span<std::uint8_t>(reinterpret_cast<std::uint8_t*>(std::uintptr_t{256}), count);
    };
    const auto view = [&](std::size_t rows) {
      using scale = typename F::scale_type;
      return gpu::quantized_view<F>(
          bytes(rows * k / 2),
          std::span<scale>(reinterpret_cast<scale*>(std::uintptr_t{256}), rows * (k / F::block_size)),
          reinterpret_cast<float*>(std::uintptr_t{256}), rows, k);
    };
    const matrix_view<float> c(reinterpret_cast<float*>(std::uintptr_t{256}), m, n);
    std::printf("%-9s %-12s M = %4zu  %s\n", format, ufp4::detail::name(mode), m,
                gpu::explain(none, view(m), view(n), c, {.accumulate = mode}).text().c_str());
  }
}

}  // namespace

int main() {
  gpu::device_facts device;
  if (gpu::facts(device) != gpu::success) {
    std::printf("no GPU: this program was only compiled and linked\n");
    return 77;
  }
  for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks}) {
    explain<nvfp4>("nvfp4", mode);
    explain<mxfp4>("mxfp4", mode);
    explain<nv_e1m2>("nv_e1m2", mode);
    explain<e1m2_f32>("e1m2_f32", mode);
  }
  return use_everything() == 0 ? 0 : 1;
}
