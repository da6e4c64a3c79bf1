// ufp4 - amax_rows, amax_transposed: the kernels of the largest finite magnitude of a matrix after its transform.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gpu/block/transpose.hpp>
#include <ufp4/gpu/warp/hadamard_run.hpp>
#include <ufp4/gpu/warp/reduce.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned amax_threads = 256;

/// Thread blocks stride over the matrix, so that a wave needs one atomic operation for any size.
struct amax_job {
  source x{};
  transform_spec transform{};
  std::size_t across = 0;  ///< groups of sixteen in a row, rounded up to whole runs
  std::uint32_t* bits = nullptr;
  block::transposed_tile tile{};

  UFP4_HD unsigned lanes_of_run() const { return transform.n <= 16 ? 1 : transform.n / 16; }
};

UFP4_DEVICE std::uint32_t finite_amax(const float (&v)[thread::run_of_thread], std::uint32_t amax) {
  UFP4_UNROLL
  for (unsigned j = 0; j < thread::run_of_thread; ++j) {
    const std::uint32_t m = magnitude_bits(v[j]);
    amax = m < infinity_bits && m > amax ? m : amax;
  }
  return amax;
}

/// *bits = max(*bits, the amax of the wave).
UFP4_DEVICE void raise(std::uint32_t* bits, std::uint32_t amax) {
  amax = warp::amax_bits(amax, wave_size());
  if (lane() == 0 && amax != 0) atomic_max(bits, amax);
}

/// Each thread reads sixteen elements of a row.
UFP4_KERNEL(amax_threads) amax_rows(const amax_job job) {
  const std::size_t total = job.x.rows * job.across, step = std::size_t{grid_size().x} * amax_threads;
  std::uint32_t amax = 0;
  for (std::size_t first = std::size_t{block_index().x} * amax_threads; first < total; first += step) {
    const thread::grid_place at = thread::split(first + thread_index().x, job.across);
    float v[thread::run_of_thread];
    thread::load_sixteen(job.x, at.row, at.sixteen * thread::run_of_thread, v);
    warp::hadamard(job.transform, false, static_cast<unsigned>(at.sixteen) % job.lanes_of_run(), v);
    amax = finite_amax(v, amax);
  }
  raise(job.bits, amax);
}

/// The same for a matrix whose columns are contiguous.
UFP4_KERNEL(amax_threads) amax_transposed(const amax_job job) {
  auto* shared = reinterpret_cast<float*>(shared_memory());
  const block::transposed_tile& t = job.tile;
  const std::size_t down = (job.x.rows + t.rows() - 1) / t.rows(), across = (job.across + t.sixteens - 1) / t.sixteens;
  const unsigned me = thread_index().x;
  std::uint32_t amax = 0;
  for (std::size_t tile = block_index().x; tile < down * across; tile += grid_size().x) {
    sync_block();  // the previous tile has been read
    block::stage(job.x, t, tile / across * t.rows(), tile % across * t.cols(), shared);
    sync_block();
    float v[thread::run_of_thread];
    block::take_sixteen(t, shared, me / t.sixteens, me % t.sixteens, v);
    warp::hadamard(job.transform, false, me % job.lanes_of_run(), v);
    amax = finite_amax(v, amax);
  }
  raise(job.bits, amax);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
