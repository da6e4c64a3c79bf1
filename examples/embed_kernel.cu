// ufp4 - two kernels of a user that quantize the values they compute, without a separate pass over memory.
// SPDX-License-Identifier: Apache-2.0
//
//   nvcc -std=c++20 -arch=sm_80 -I include examples/embed_kernel.cu -o embed_kernel && ./embed_kernel
//   hipcc -std=c++20 --offload-arch=gfx90a -I include -x hip examples/embed_kernel.cu -o embed_kernel && ./embed_kernel
//
// They use <ufp4/device.hpp> only: its functions take values in registers and return codes and a scale. The functions
// are __host__ __device__: main() calls them on the host too and compares the bytes of the GEMM. (The norm is not
// compared, because the host sums in another order.)
#include <ufp4/device.hpp>

#include <math.h>
#include <stdint.h>

using quantized = ufp4::e1m2_f32;  // 1x16 blocks of the uniform grid, one float scale each
constexpr int block = quantized::block.cols;

/// RMSNorm, random Hadamard transform of 16, quantization: y = x / rms(x) * gain; only codes and scales are written.
/// 32 threads compute a row, each sixteen consecutive elements at a time; a wave of 64 lanes has two rows. cols is a
/// multiple of 16.
template <class Rounding>
__global__ void rmsnorm_quantize(const float* x, const float* gain, int rows, int cols, float epsilon,
                                 ufp4::transform_spec rht, Rounding rounding, uint8_t* codes, float* scales) {
  const int row = static_cast<int>(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
  const int first = static_cast<int>(threadIdx.x % 32) * block;
  if (row >= rows) cols = 0;  // no work, but all threads of a wave must execute the shuffles
  x += static_cast<size_t>(row) * cols;

  float sum = 0;
  for (int k = first; k < cols; k += 32 * block)
    for (int j = 0; j < block; ++j) sum = fmaf(x[k + j], x[k + j], sum);
  for (int step = 16; step > 0; step /= 2) sum += ufp4::gpu::shuffle_xor(sum, static_cast<unsigned>(step));
  const float factor = 1.0f / sqrtf(sum / static_cast<float>(cols) + epsilon);

  for (int k = first; k < cols; k += 32 * block) {
    float y[block];
    for (int j = 0; j < block; ++j) y[j] = x[k + j] * factor * gain[k + j];
    ufp4::hadamard_forward(rht, y);
    const size_t at = static_cast<size_t>(row) * cols + k;  // the element index, which determines the random bits
    uint8_t packed[block / 2];
    scales[at / block] = ufp4::quantize_block<quantized>(y, packed, rounding, at);
    for (int b = 0; b < block / 2; ++b) codes[at / 2 + b] = packed[b];
  }
}

constexpr int tile_rows = 32, tile_cols = 64, tile_depth = 16;  // of C, and of K at a time; 128 threads

/// C = A B^T in float, and C is written in 4 bits: a thread computes sixteen consecutive elements of a row, one block.
/// a is m x k, b is n x k; n is a multiple of 16.
__global__ void gemm_quantize(const float* a, const float* b, int m, int n, int k, uint8_t* codes, float* scales) {
  __shared__ float as[tile_rows][tile_depth + 1], bs[tile_cols][tile_depth + 1];  // + 1: rows in different banks
  const int thread = static_cast<int>(threadIdx.x), row0 = static_cast<int>(blockIdx.y) * tile_rows;
  const int col0 = static_cast<int>(blockIdx.x) * tile_cols;
  const int row = thread % tile_rows, cols = thread / tile_rows * block;

  float c[block] = {};
  for (int k0 = 0; k0 < k; k0 += tile_depth) {
    const auto element = [&](const float* x, int i, int end, int j) {
      return i < end && j < k ? x[static_cast<size_t>(i) * k + j] : 0.0f;
    };
    for (int i = thread; i < tile_rows * tile_depth; i += 128)
      as[i / tile_depth][i % tile_depth] = element(a, row0 + i / tile_depth, m, k0 + i % tile_depth);
    for (int i = thread; i < tile_cols * tile_depth; i += 128)
      bs[i / tile_depth][i % tile_depth] = element(b, col0 + i / tile_depth, n, k0 + i % tile_depth);
    __syncthreads();
    for (int d = 0; d < tile_depth; ++d)
      for (int j = 0; j < block; ++j) c[j] = fmaf(as[row][d], bs[cols + j][d], c[j]);
    __syncthreads();
  }

  if (row0 + row >= m || col0 + cols >= n) return;
  const size_t at = static_cast<size_t>(row0 + row) * n + col0 + cols;
  uint8_t packed[block / 2];
  scales[at / block] = ufp4::quantize_block<quantized>(c, packed);
  for (int i = 0; i < block / 2; ++i) codes[at / 2 + i] = packed[i];
}

#if !defined(EMBED_KERNELS_ONLY)
#include <cstdio>

namespace {

#if defined(__HIPCC__)
bool allocated(void** p, size_t bytes) { return hipMallocManaged(p, bytes) == hipSuccess; }
bool finished() { return hipDeviceSynchronize() == hipSuccess; }
#else
bool allocated(void** p, size_t bytes) { return cudaMallocManaged(p, bytes) == cudaSuccess; }
bool finished() { return cudaDeviceSynchronize() == cudaSuccess; }
#endif

/// Memory that host and device can access; null if there is no GPU.
template <class T>
T* managed(size_t count) {
  void* p = nullptr;
  return allocated(&p, count * sizeof(T)) ? static_cast<T*>(p) : nullptr;
}

}  // namespace

int main() {
  const int m = 100, n = 128, k = 80;
  auto *a = managed<float>(m * k), *b = managed<float>(n * k), *gain = managed<float>(k);
  auto* codes = managed<uint8_t>(m * n / 2);
  auto* scales = managed<float>(m * n / 16);
  if (a == nullptr || b == nullptr || gain == nullptr || codes == nullptr || scales == nullptr) {
    std::printf("no GPU to run on\n");
    return 77;
  }
  for (int i = 0; i < m * k; ++i) a[i] = static_cast<float>(i * 7919 % 1009) / 504.0f - 1.0f;
  for (int i = 0; i < n * k; ++i) b[i] = static_cast<float>(i * 31 % 17) / 8.0f - 1.0f;
  for (int i = 0; i < k; ++i) gain[i] = 1.0f + static_cast<float>(i % 5) / 8.0f;

  rmsnorm_quantize<<<(m + 3) / 4, 128>>>(a, gain, m, k, 1e-6f, ufp4::random_hadamard<16>{42}.spec(),
                                         ufp4::stochastic{.seed = 7}, codes, scales);
  if (!finished()) return 1;
  std::printf("RMSNorm -> Hadamard -> 4 bits: the first scales are %g %g %g\n", scales[0], scales[1], scales[2]);

  gemm_quantize<<<dim3((n + tile_cols - 1) / tile_cols, (m + tile_rows - 1) / tile_rows), 128>>>(a, b, m, n, k, codes,
                                                                                                 scales);
  if (!finished()) return 1;
  size_t same = 0;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; j += block) {
      float c[block] = {};
      for (int d = 0; d < k; ++d)
        for (int q = 0; q < block; ++q) c[q] = fmaf(a[i * k + d], b[(j + q) * k + d], c[q]);
      uint8_t packed[block / 2];
      const float scale = ufp4::quantize_block<quantized>(c, packed);
      bool equal = scale == scales[(i * n + j) / block];
      for (int q = 0; q < block / 2; ++q) equal = equal && packed[q] == codes[(i * n + j) / 2 + q];
      same += equal;
    }
  std::printf("GEMM with a quantizing epilogue: %zu of %d blocks have the host's bytes\n", same, m * n / block);
  return same == static_cast<size_t>(m * n / block) ? 0 : 1;
}
#endif
