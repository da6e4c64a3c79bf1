// ufp4 - running GEMM jobs: which kernel each takes, the left operands packed, then parts of every C over the threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <ufp4/cpu/dispatch.hpp>
#include <ufp4/cpu/parallel.hpp>
#include <vector>

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// What a job will be run as.
struct gemm_plan {
  gemm_job job;
  const gemm_kernel* kernel;
};

/// The job with its sides exchanged: C^T = B A^T. Every formula of numerics 6 is symmetric but for the epilogue, which looks
/// at `swapped`.
inline gemm_job exchanged(const gemm_job& job) {
  gemm_job other = job;
  other.left = job.right;
  other.right = job.left;
  other.out = {job.out.data, job.out.kind, job.out.cols, job.out.rows, job.out.col_stride, job.out.row_stride};
  other.swapped = !job.swapped;
  return other;
}

/// Vector kernels run over columns; a C of few columns and many rows is made on its side.
inline gemm_plan plan_gemm(const gemm_job& job, isa tier) {
  const gemm_kernel* kernel = &gemm_kernel_for(job, tier);
  const bool narrow = job.out.cols < kernel->tile_cols && job.out.rows > 2 * job.out.cols;
  if (!narrow || job.right.interleaved()) return {job, kernel};
  const gemm_job other = exchanged(job);
  return {other, &gemm_kernel_for(other, tier)};
}

/// Consecutive rows of one job, at most part_rows, that are packed together.
struct gemm_piece {
  const gemm_plan* plan;
  std::size_t row, rows;
  std::size_t left_at;     ///< where its packed rows begin
  std::size_t first_task;  ///< among all parts of a wave

  std::size_t parts() const { return (plan->job.out.cols + plan->kernel->part_cols - 1) / plan->kernel->part_cols; }
};

/// Scratch of the tasks that run at one time.
class scratch_pool {
 public:
  scratch_pool(std::size_t slots, std::size_t bytes) : bytes_((bytes + 63) / 64 * 64), used_(slots), memory_(slots * bytes_) {}

  /// body(memory) with memory that nobody else has; allocated where an executor runs more tasks at once than we have threads.
  template <class F>
  void with(const F& body) {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (__atomic_exchange_n(&used_[i], char{1}, __ATOMIC_ACQUIRE) != 0) continue;
      body(memory_.data() + i * bytes_);
      __atomic_store_n(&used_[i], char{0}, __ATOMIC_RELEASE);
      return;
    }
    ufp4::detail::buffer<std::byte> own(bytes_);
    body(own.data());
  }

 private:
  std::size_t bytes_;
  std::vector<char> used_;
  ufp4::detail::buffer<std::byte> memory_;
};

/// Pieces whose packed rows lie in memory at the same time.
struct gemm_wave {
  static constexpr std::size_t memory = std::size_t{64} << 20;

  std::vector<gemm_piece> pieces;
  std::size_t left_bytes = 0, scratch_bytes = 0, tasks = 0, rows = 0;

  void add(const gemm_plan& plan, std::size_t row, std::size_t count) {
    pieces.push_back({&plan, row, count, left_bytes, tasks});
    left_bytes += plan.kernel->left_bytes(plan.job, count);
    const std::size_t scratch = plan.kernel->scratch_bytes(plan.job, count);
    scratch_bytes = scratch > scratch_bytes ? scratch : scratch_bytes;
    tasks += pieces.back().parts();
    rows += count;
  }

  const gemm_piece& piece_of(std::size_t task) const {
    std::size_t low = 0, high = pieces.size();
    while (high - low > 1) {
      const std::size_t middle = (low + high) / 2;
      (pieces[middle].first_task <= task ? low : high) = middle;
    }
    return pieces[low];
  }
};

inline void pack_wave(const context& ctx, const gemm_wave& wave, std::byte* left) {
  parallel_for(ctx, wave.pieces.size(), [&](std::size_t i) {
    const gemm_piece& p = wave.pieces[i];
    p.plan->kernel->pack_left(p.plan->job, p.row, p.rows, left + p.left_at);
  });
}

inline void run_wave(const context& ctx, const gemm_wave& wave) {
  const ufp4::detail::buffer<std::byte> left(wave.left_bytes);
  pack_wave(ctx, wave, left.data());
  const std::size_t limit = thread_limit(ctx);
  scratch_pool scratch(limit < wave.tasks ? limit : wave.tasks, wave.scratch_bytes);
  parallel_for(ctx, wave.tasks, [&](std::size_t task) {
    const gemm_piece& p = wave.piece_of(task);
    const std::size_t width = p.plan->kernel->part_cols, col = (task - p.first_task) * width;
    const std::size_t across = p.plan->job.out.cols - col;
    const gemm_part part{p.row, p.rows, col, across < width ? across : width};
    scratch.with([&](std::byte* memory) { p.plan->kernel->multiply(p.plan->job, part, left.data() + p.left_at, memory); });
  });
}

/// Runs checked jobs, many small ones spread over the threads as well as one large one. No C overlaps another.
inline void run_gemms(const context& ctx, std::span<const gemm_job> jobs) {
  const isa tier = resolve(ctx);
  std::vector<gemm_plan> plans;
  plans.reserve(jobs.size());
  for (const gemm_job& job : jobs)
    if (job.out.rows != 0 && job.out.cols != 0) plans.push_back(plan_gemm(job, tier));
  gemm_wave wave;
  for (const gemm_plan& plan : plans)
    for (std::size_t row = 0; row < plan.job.out.rows; row += plan.kernel->part_rows) {
      const std::size_t left = plan.job.out.rows - row, most = plan.kernel->part_rows;
      wave.add(plan, row, left < most ? left : most);
      if (wave.left_bytes < gemm_wave::memory) continue;
      run_wave(ctx, wave);
      wave = {};
    }
  if (!wave.pieces.empty()) run_wave(ctx, wave);
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
