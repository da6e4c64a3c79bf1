// ufp4 - exact_blocks on the matrix cores of AMD GPUs gives the host's bits, in waves of 64 and of 32.
// SPDX-License-Identifier: Apache-2.0
#if !defined(__CUDACC__)
#define UFP4_PLAYS_AMD
#endif
#include "gpu/gemm_check.hpp"

#include "support/matrices.hpp"

#include <cstddef>
#include <string>
#include <vector>

using namespace ufp4;

#if defined(UFP4_SIMT_HEADER)

namespace {

struct target {
  const char* kernel;
  int architecture, wave;
};
constexpr target targets[] = {{"gemm_blocks_gfx90a", 0x90a, 64},
                              {"gemm_blocks_gfx90a", 0x942, 64},
                              {"gemm_blocks_gfx11", 0x1100, 32},
                              {"gemm_blocks_gfx12", 0x1201, 32}};

/// Plays a target as long as it lives.
struct played {
  gpu::device_facts before = simt::device();
  explicit played(const target& t) {
    simt::device().architecture = t.architecture;
    simt::device().wave = t.wave;
    simt::device().shared_bytes = 64 * 1024;
  }
  ~played() { simt::device() = before; }
};

const gpu::gemm_kernel& kernel_named(const std::string& name) {
  for (const gpu::gemm_kernel* k : gpu::gemm_kernels())
    if (name == k->name) return *k;
  FAIL("no kernel is called " << name);
  return *gpu::gemm_kernels().front();
}

template <class F>
quantized_matrix<F> numbers(std::size_t rows, std::size_t cols, unsigned seed) {
  std::vector<float> x(rows * cols);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<int>((i * 2654435761u + seed * 97u) >> 8 & 1023) - 512) *
           (i % 7 == 0 ? 0.5f : 0.03f);
  return quantize<F>(matrix_view<const float>{x.data(), rows, cols});
}

template <class Left, class Right>
void check_shapes() {
  struct {
    std::size_t m, n, k;
  } const shapes[] = {{1, 1, 16}, {16, 16, 64}, {65, 33, 80}, {70, 130, 272}};
  for (const target& t : targets) {
    const played device{t};
    for (const auto& s : shapes) {
      CAPTURE(t.kernel, s.m, s.n, s.k);
      REQUIRE(support::against_host(kernel_named(t.kernel), numbers<Left>(s.m, s.k, 1), numbers<Right>(s.n, s.k, 2)) ==
              "");
    }
  }
}

}  // namespace

TEST_CASE("blocks of 16 on matrix cores give the host's bits", "[gpu]") {
  check_shapes<nvfp4, nvfp4>();
  check_shapes<e1m2_f32, int4_f32>();
}
TEST_CASE("longer blocks are chains of instructions, and give the host's bits", "[gpu]") {
  check_shapes<mxfp4, mxfp4>();
  check_shapes<block_format<fp4<E1M2>, bf16, 128>, block_format<fp4<E2M1>, e4m3, 128>>();
}

TEST_CASE("a block whose scale is NaN makes NaN of what it touches and of nothing else", "[gpu]") {
  for (const target& t : targets) {
    const played device{t};
    CAPTURE(t.kernel);
    auto a = numbers<nvfp4>(20, 96, 3);
    a.scales()[7] = e4m3::from_bits(0x7F);
    REQUIRE(support::against_host(kernel_named(t.kernel), a, numbers<nvfp4>(40, 96, 4)) == "");
  }
}

TEST_CASE("fast and exact_blocks run the matrix cores where the device has them, the plain kernel elsewhere", "[gpu]") {
  const auto a = numbers<nvfp4>(4, 32, 1), b = numbers<nvfp4>(4, 32, 2);
  const gpu::quantized_matrix<nvfp4> there_a(a.view()), there_b(b.view());
  const gpu::buffer<float> c(16);
  const matrix_view<float> out{c.data(), 4, 4};
  for (const target& t : targets) {
    const played device{t};
    const auto e = gpu::explain(gpu::context{}, there_a, there_b, out);
    REQUIRE(std::string(e.kernel) == t.kernel);
    REQUIRE(e.mode == accumulate::exact_blocks);
  }
  const played old{{"", 0x906, 64}};
  REQUIRE(std::string(gpu::explain(gpu::context{}, there_a, there_b, out).kernel) == "gemm_simt");
}

#else

TEST_CASE("AMD's matrix cores are asked of the executor, which plays every device", "[gpu]") { SUCCEED(); }

#endif
