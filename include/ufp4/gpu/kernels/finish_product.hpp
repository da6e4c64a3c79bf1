// ufp4 - around somebody else's multiplication: its factors, the epilogue, and rescue where its format is too narrow.
// SPDX-License-Identifier: Apache-2.0
//
// Nothing waits for the device: whether a product needs rescue is decided there, by a flag that the decoders raise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/kernels/decode_bf16.hpp>
#include <ufp4/gpu/thread/epilogue.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned finish_threads = 256;

/// In device memory. `unfit` is raised by the decoders; `rescue`: the multiplication's result is worth nothing.
struct product_factors {
  float alpha, beta;
  std::uint32_t unfit, rescue;
};

struct finish_job {
  gemm_job product{};
  product_factors* factors = nullptr;
  const float* sums = nullptr;  ///< of the multiplication; null: it writes C itself
  std::size_t sums_stride = 0;
  thread::words4* operands = nullptr;  ///< everything it reads but its factors, and how many words4 that is
  std::size_t operand_words = 0;
};

/// What the multiplication scales by. Where it writes C itself that is alpha * TA * TB and beta; but where that
/// factor is no normal number, or an operand did not fit, it multiplies zeros and adds C, so that C is there when
/// finish_product makes it.
UFP4_KERNEL(finish_threads) set_factors(const finish_job job) {
  product_factors& f = *job.factors;
  const bool writes = job.sums == nullptr;
  const thread::result_scales by = thread::scales_of(job.product);
  const float alpha = ufp4::detail::rounded(by.a * by.alpha_b);
  const bool rescue = f.unfit != 0 || (writes && !(thread::is_normal(alpha) && thread::is_normal(by.alpha_b)));
  const std::size_t at = std::size_t{block_index().x} * finish_threads + thread_index().x;
  if (at == 0) {
    f.alpha = !writes ? 1.0f : rescue ? 0.0f : alpha;
    f.beta = !writes || job.product.beta == 0.0f ? 0.0f : rescue ? 1.0f : job.product.beta;
    f.rescue = rescue ? 1 : 0;
  }
  if (rescue && writes)
    for (std::size_t i = at; i < job.operand_words; i += std::size_t{grid_size().x} * finish_threads)
      job.operands[i] = {};
}

/// value * scale, exactly.
UFP4_DEVICE double element_of(const gemm_side& side, unsigned block, std::size_t row, std::size_t k) {
  if (!side.is_quantized) {
    const float x = k < side.plain.cols ? thread::load(side.plain, row, k) : 0.0f;
    return static_cast<double>(side.rounds_plain_to_bf16 ? static_cast<float>(round_to<bf16>(x)) : x);
  }
  const std::uint32_t pair = side.codes[(row * side.padded_cols + k) / 2];
  const float scale = load_scale(side, row / side.block_rows * (side.padded_cols / block) + k / block);
  return static_cast<double>(side.grid.value[k % 2 == 0 ? pair & 15u : pair >> 4]) * static_cast<double>(scale);
}

/// An element of C from codes and scales alone. In binary64, whose range no scale leaves, until the factors are in.
UFP4_DEVICE void rescue_result(const gemm_job& job, const thread::result_scales& by, std::size_t i, std::size_t j) {
  double sum = 0;
  for (std::size_t k = 0; k < job.padded(); ++k)
    sum += element_of(job.left, job.block, i, k) * element_of(job.right, job.block, j, k);
  sum *= static_cast<double>(job.alpha) * static_cast<double>(by.a) * static_cast<double>(by.b);
  const thread::epilogue to{job.out, nullptr, nullptr, job.bias, 1.0f, job.beta, accumulate::exact_blocks};
  thread::store_result(to, {1, 1, 1}, i, j, static_cast<float>(sum));
}

/// C from the sums; C anew where they are worth nothing; nothing at all where C is there already. A thread a column.
UFP4_KERNEL(finish_threads) finish_product(const finish_job job) {
  const bool rescue = job.factors->rescue != 0;
  const std::size_t j = std::size_t{block_index().x} * finish_threads + thread_index().x;
  if ((!rescue && job.sums == nullptr) || j >= job.product.out.cols) return;
  const thread::result_scales by = thread::scales_of(job.product);
  for (std::size_t i = block_index().y; i < job.product.out.rows; i += grid_size().y) {
    if (rescue)
      rescue_result(job.product, by, i, j);
    else
      thread::store_result(job.product, by, i, j, job.sums[i * job.sums_stride + j]);
  }
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

/// Two blocks a multiprocessor: to clear operands with, which as good as never happens.
inline error queue_set_factors(const kernels::finish_job& job, const device_facts& device, stream where) {
  return launch(&kernels::set_factors, {2 * static_cast<unsigned>(device.processors)}, {kernels::finish_threads}, 0,
                where, job);
}

/// Eight blocks a multiprocessor at most: where there is nothing to do, they come and go in no time.
inline error queue_finish_product(const kernels::finish_job& job, const device_facts& device, stream where) {
  const std::size_t across = (job.product.out.cols + kernels::finish_threads - 1) / kernels::finish_threads;
  std::size_t down = 8 * static_cast<std::size_t>(device.processors) / across;
  down = down < 1 ? 1 : down > job.product.out.rows ? job.product.out.rows : down > 65535 ? 65535 : down;
  return launch(&kernels::finish_product, {static_cast<unsigned>(across), static_cast<unsigned>(down)},
                {kernels::finish_threads}, 0, where, job);
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
