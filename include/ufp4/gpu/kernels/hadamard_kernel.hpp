// ufp4 - hadamard_rows: the kernel that transforms the rows of a matrix.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <ufp4/gpu/thread/elements.hpp>
#include <ufp4/gpu/vendor.hpp>
#include <ufp4/gpu/warp/hadamard_run.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned hadamard_threads = 256;

struct hadamard_job {
  ufp4::detail::source x{};
  ufp4::detail::sink out{};
  transform_spec transform{};
  bool inverse = false;
  std::size_t padded_cols = 0;

  /// Groups of sixteen elements in a row, one for each thread.
  UFP4_HD std::size_t across() const { return (padded_cols + 15) / 16; }
};

/// Each thread transforms sixteen elements of a row. Threads outside the matrix take part in the shuffles and store
/// nothing. x and out may be the same matrix: a thread reads only what it writes.
UFP4_KERNEL(hadamard_threads) hadamard_rows(const hadamard_job job) {
  const std::size_t at = std::size_t{block_index().x} * hadamard_threads + thread_index().x, across = job.across();
  const std::size_t row = at / across, sixteen = at % across;
  float v[thread::run_of_thread];
  thread::load_sixteen(job.x, row, 16 * sixteen, v);
  warp::hadamard(job.transform, job.inverse,
                 static_cast<unsigned>(sixteen % (job.transform.n < 16 ? 1 : job.transform.n / 16)), v);
  thread::store_sixteen(job.out, row, 16 * sixteen, v);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

inline error queue_hadamard(const kernels::hadamard_job& job, stream where) {
  const std::size_t threads = job.x.rows * job.across();
  const std::size_t blocks = (threads + kernels::hadamard_threads - 1) / kernels::hadamard_threads;
  if (blocks == 0) return success;
  return launch(&kernels::hadamard_rows, {static_cast<unsigned>(blocks)}, {kernels::hadamard_threads}, 0, where, job);
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
