// ufp4 - what surrounds a multiplication by a library: its factors, the epilogue, and the results outside its range.
// SPDX-License-Identifier: Apache-2.0
//
// Nothing waits for the device: a flag that the decoders set tells later kernels to compute C from codes and scales.
#pragma once

#include <ufp4/gpu/kernels/library_operands.hpp>
#include <ufp4/gpu/thread/epilogue.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned finish_threads = 256;

/// In device memory. `unfit` is set by the decoders; `rescue`: the result of the multiplication is not usable.
struct product_factors {
  float alpha, beta;
  std::uint32_t unfit, rescue;
};

struct finish_job {
  gemm_job product{};
  product_factors* factors = nullptr;
  const float* sums = nullptr;  ///< the result of the multiplication; null: it writes C itself
  std::size_t sums_stride = 0;
  thread::words4* operands = nullptr;  ///< all that the multiplication reads except its factors
  std::size_t operand_words = 0;       ///< the size of that
};

/// Sets the factors of the multiplication: alpha * TA * TB and beta if it writes C itself. If that product is not
/// normal, or an operand did not fit, it clears the operands and lets C keep its old value, which finish_product reads.
UFP4_LAZY_KERNEL(finish_threads) set_factors(const finish_job job) {
  product_factors& f = *job.factors;
  const bool writes = job.sums == nullptr;
  const thread::result_scales by = thread::scales_of(thread::epilogue_of(job.product));
  const float alpha = rounded(by.a * by.alpha_b);
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

/// C from the sums; or all of C computed again; or nothing, if the multiplication wrote C. One thread for each column.
UFP4_LAZY_KERNEL(finish_threads) finish_product(UFP4_PARAMETER finish_job job) {
  const bool rescue = job.factors->rescue != 0;
  const std::size_t j = std::size_t{block_index().x} * finish_threads + thread_index().x;
  if ((!rescue && job.sums == nullptr) || j >= job.product.out.cols) return;
  const thread::epilogue to = thread::epilogue_of(job.product);
  const thread::result_scales by = thread::scales_of(to);
  for (std::size_t i = block_index().y; i < job.product.out.rows; i += grid_size().y)
    thread::store_sum(to, by, i, j, rescue ? quiet_nan : job.sums[i * job.sums_stride + j],
                      [&](std::size_t row, std::size_t col) { return thread::recomputed(job.product, by, row, col); });
}

/// Two blocks for each multiprocessor: enough to clear the operands, which is rarely needed.
template <class Use = void>
error queue_set_factors(const finish_job& job, const device_facts& device, stream where) {
  return launch(listed<&set_factors<Use>>, {2 * static_cast<unsigned>(device.processors)}, {finish_threads}, 0, where,
                job);
}

/// At most eight blocks for each multiprocessor, so that the launch costs little if there is nothing to do.
template <class Use = void>
error queue_finish_product(const finish_job& job, const device_facts& device, stream where) {
  const std::size_t across = (job.product.out.cols + finish_threads - 1) / finish_threads;
  std::size_t down = 8 * static_cast<std::size_t>(device.processors) / across;
  down = down < 1 ? 1 : down > job.product.out.rows ? job.product.out.rows : down > 65535 ? 65535 : down;
  return launch(listed<&finish_product<Use>>, {static_cast<unsigned>(across), static_cast<unsigned>(down)},
                {finish_threads}, 0, where, job);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
