// ufp4 - the kernels of examples/embed_kernel.cu give the host's bytes.
// SPDX-License-Identifier: Apache-2.0
// ctest: separate amd
#include "gpu/device.hpp"

#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

// For the CPU simulator: the CUDA keywords and functions that the example uses. Threads of a block are fibers of one
// thread and blocks run one after another, so a static variable is shared memory.
#if defined(UFP4_SIMT_HEADER)
#define __global__ [[maybe_unused]]
#define __shared__ static
#define threadIdx (ufp4::gpu::thread_index())
#define blockIdx (ufp4::gpu::block_index())
#define blockDim (ufp4::gpu::block_size())
#define __syncthreads() ufp4::gpu::sync_block()
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // the example counts in int, as CUDA programs do
#endif
#define EMBED_KERNELS_ONLY
#include "../examples/embed_kernel.cu"
#if defined(UFP4_SIMT_HEADER)
#pragma GCC diagnostic pop
#undef __global__
#undef __shared__
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef __syncthreads
#endif

using namespace ufp4;

namespace {

std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::vector<float> all;
  for (std::size_t i = 0; i < count; ++i) {
    const auto h = static_cast<std::uint32_t>(i * 2654435761u + seed * 40503u) * 2246822519u;
    all.push_back(static_cast<float>(static_cast<int>(h >> 12 & 0xFFFF) - 32768) / 4096.0f);
  }
  return all;
}

/// x / rms(x) * gain by the example's own sums: a lane's in order, then lanes that differ in one bit,
/// the highest first.
std::vector<float> rmsnorm(const std::vector<float>& x, const std::vector<float>& gain, std::size_t rows,
                           std::size_t cols) {
  std::vector<float> y(x.size());
  for (std::size_t i = 0; i < rows; ++i) {
    float sums[32] = {};
    for (std::size_t k = 0; k < cols; ++k) {
      float& sum = sums[k / 16 % 32];
      sum = std::fma(x[i * cols + k], x[i * cols + k], sum);
    }
    for (unsigned step = 16; step > 0; step /= 2)
      for (unsigned lane = 0; lane < step; ++lane) sums[lane] = sums[lane] + sums[lane + step];
    const float factor = 1.0f / std::sqrt(sums[0] / static_cast<float>(cols) + 1e-6f);
    for (std::size_t k = 0; k < cols; ++k) y[i * cols + k] = x[i * cols + k] * factor * gain[k];
  }
  return y;
}

/// What a kernel wrote is what the host's quantize makes of a matrix.
void check(const gpu::buffer<std::uint8_t>& codes, const gpu::buffer<float>& scales,
           const quantized_matrix<e1m2_f32>& want) {
  const auto seen_codes = support::on_host(codes);
  const auto seen_scales = support::on_host(scales);
  REQUIRE(seen_codes.size() == want.codes().size());
  REQUIRE(seen_scales.size() == want.scales().size());
  CHECK(std::memcmp(seen_codes.data(), want.codes().data(), seen_codes.size()) == 0);
  CHECK(std::memcmp(seen_scales.data(), want.scales().data(), seen_scales.size() * sizeof(float)) == 0);
}

template <class Rounding>
void check_rmsnorm(std::size_t rows, std::size_t cols, const Rounding& rounding) {
  CAPTURE(rows, cols);
  const std::vector<float> x = numbers(rows * cols, 1), gain = numbers(cols, 2), y = rmsnorm(x, gain, rows, cols);
  const transform_spec rht = random_hadamard<16>{42}.spec();
  const gpu::buffer<float> in{std::span<const float>(x)}, by{std::span<const float>(gain)}, scales(rows * cols / 16);
  const gpu::buffer<std::uint8_t> codes(rows * cols / 2);
  REQUIRE(gpu::launch(&rmsnorm_quantize<Rounding>, {static_cast<unsigned>((rows + 3) / 4)}, {128}, 0, gpu::stream{},
                      in.data(), by.data(), static_cast<int>(rows), static_cast<int>(cols), 1e-6f, rht, rounding,
                      codes.data(), scales.data()) == gpu::success);
  check(codes, scales, quantize<e1m2_f32>(matrix_view<const float>{y.data(), rows, cols}, rht, rounding));
}

}  // namespace

TEST_CASE("a user's fused RMSNorm, Hadamard transform and quantizer gives the bytes of the three steps", "[gpu]") {
  for (const std::size_t cols : {16u, 80u, 512u, 1040u}) {
    check_rmsnorm(5, cols, nearest_even{});
    check_rmsnorm(9, cols, stochastic{.seed = 7, .stream = 3});
  }
}

TEST_CASE("a user's GEMM that quantizes its output gives the bytes of quantizing the product", "[gpu]") {
  for (const std::size_t m : {1u, 33u, 64u})
    for (const std::size_t n : {16u, 80u})
      for (const std::size_t k : {1u, 16u, 37u}) {
        CAPTURE(m, n, k);
        const std::vector<float> a = numbers(m * k, 3), b = numbers(n * k, 4);
        std::vector<float> c(m * n);
        for (std::size_t i = 0; i < m; ++i)
          for (std::size_t j = 0; j < n; ++j)
            for (std::size_t d = 0; d < k; ++d) c[i * n + j] = std::fma(a[i * k + d], b[j * k + d], c[i * n + j]);
        const gpu::buffer<float> left{std::span<const float>(a)}, right{std::span<const float>(b)}, scales(m * n / 16);
        const gpu::buffer<std::uint8_t> codes(m * n / 2);
        const gpu::index3 blocks{static_cast<unsigned>((n + tile_cols - 1) / tile_cols),
                                 static_cast<unsigned>((m + tile_rows - 1) / tile_rows)};
        REQUIRE(gpu::launch(&gemm_quantize, blocks, {128}, 0, gpu::stream{}, left.data(), right.data(),
                            static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), codes.data(),
                            scales.data()) == gpu::success);
        check(codes, scales, quantize<e1m2_f32>(matrix_view<const float>{c.data(), m, n}));
      }
}
