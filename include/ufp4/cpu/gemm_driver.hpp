// ufp4 - running GEMM jobs: which kernel each takes, the left operands packed, then parts of every C over the threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
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

/// The job with its sides exchanged: C^T = B A^T. Every formula of numerics 6 is symmetric but for the epilogue, which
/// looks at `swapped`.
inline gemm_job exchanged(const gemm_job& job) {
  gemm_job other = job;
  other.left = job.right;
  other.right = job.left;
  other.out = {job.out.data, job.out.kind, job.out.cols, job.out.rows, job.out.col_stride, job.out.row_stride};
  other.swapped = !job.swapped;
  return other;
}

/// Vector kernels run over columns; a C of few columns and many rows is made on its side, where the kernel's bits are
/// those of exact_blocks and so do not depend on it.
inline gemm_plan plan_gemm(const gemm_job& job, isa tier) {
  const gemm_kernel* kernel = &gemm_kernel_for(kernels::gemm, job, tier);
  const bool narrow = job.out.cols < kernel->tile_cols && job.out.rows > 2 * job.out.cols;
  if (!narrow || job.right.interleaved() || kernel->made_as(job.mode) != accumulate::exact_blocks) return {job, kernel};
  const gemm_job other = exchanged(job);
  return {other, &gemm_kernel_for(kernels::gemm, other, tier)};
}

/// Consecutive rows of one job, at most part_rows, that are packed together.
struct gemm_piece {
  const gemm_plan* plan;
  std::size_t row, rows;
  std::size_t left_at;     ///< where its packed rows begin
  std::size_t first_task;  ///< among all parts of a wave
  std::size_t first_pack;  ///< among all packing tasks of a wave

  std::size_t parts() const { return (plan->job.out.cols + plan->kernel->part_cols - 1) / plan->kernel->part_cols; }
  /// Rows of one packing task: whole register tiles.
  std::size_t pack_rows() const {
    return (64 + plan->kernel->tile_rows - 1) / plan->kernel->tile_rows * plan->kernel->tile_rows;
  }
  std::size_t packs() const { return (rows + pack_rows() - 1) / pack_rows(); }
};

/// Scratch of the tasks that run at one time.
class scratch_pool {
 public:
  scratch_pool(std::size_t places, std::size_t bytes)
      : bytes_((bytes + 63) / 64 * 64), used_(places), memory_(places * bytes_) {
    std::memset(used_.data(), 0, places);
  }

  /// body(memory) with memory that nobody else has; allocated where an executor runs more tasks at once than we have
  /// threads.
  template <class F>
  void with(const F& body) {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (__atomic_exchange_n(used_.data() + i, char{1}, __ATOMIC_ACQUIRE) != 0) continue;
      body(memory_.data() + i * bytes_);
      __atomic_store_n(used_.data() + i, char{0}, __ATOMIC_RELEASE);
      return;
    }
    const ufp4::detail::buffer<std::byte> own(bytes_);
    body(own.data());
  }

 private:
  std::size_t bytes_;
  ufp4::detail::buffer<char> used_;
  ufp4::detail::buffer<std::byte> memory_;
};

/// Pieces whose packed rows lie in memory at the same time.
struct gemm_wave {
  static constexpr std::size_t memory = std::size_t{64} << 20;

  std::vector<gemm_piece> pieces;
  std::size_t left_bytes = 0, scratch_bytes = 0, tasks = 0, packs = 0;

  void add(const gemm_plan& plan, std::size_t row, std::size_t count) {
    pieces.push_back({&plan, row, count, left_bytes, tasks, packs});
    left_bytes += plan.kernel->left_bytes(plan.job, count);
    const std::size_t scratch = plan.kernel->scratch_bytes(plan.job, count);
    scratch_bytes = scratch > scratch_bytes ? scratch : scratch_bytes;
    tasks += pieces.back().parts();
    packs += pieces.back().packs();
  }

  /// The last piece whose `first` is not beyond a task.
  const gemm_piece& piece_of(std::size_t gemm_piece::* first, std::size_t task) const {
    std::size_t low = 0, high = pieces.size();
    while (high - low > 1) {
      const std::size_t middle = (low + high) / 2;
      (pieces[middle].*first <= task ? low : high) = middle;
    }
    return pieces[low];
  }
};

/// Packs the left operands; few rows on the caller's thread, since a thread costs more than they do.
inline void pack_wave(const context& ctx, const gemm_wave& wave, std::byte* left) {
  constexpr std::size_t few = std::size_t{1} << 17;  // bytes: some 20 microseconds of packing
  if (wave.left_bytes == 0) return;
  parallel_for(wave.left_bytes < few ? context{.threads = 1} : ctx, wave.packs, [&](std::size_t task) {
    const gemm_piece& p = wave.piece_of(&gemm_piece::first_pack, task);
    const gemm_kernel& kernel = *p.plan->kernel;
    const std::size_t first = (task - p.first_pack) * p.pack_rows(), rows = p.rows - first;
    kernel.pack_left(p.plan->job, p.row + first, rows < p.pack_rows() ? rows : p.pack_rows(),
                     left + p.left_at + kernel.left_bytes(p.plan->job, first));
  });
}

inline void run_wave(const context& ctx, const gemm_wave& wave) {
  const ufp4::detail::buffer<std::byte> left(wave.left_bytes);
  pack_wave(ctx, wave, left.data());
  const std::size_t limit = thread_limit(ctx);
  scratch_pool scratch(limit < wave.tasks ? limit : wave.tasks, wave.scratch_bytes);
  parallel_for(ctx, wave.tasks, [&](std::size_t task) {
    const gemm_piece& p = wave.piece_of(&gemm_piece::first_task, task);
    const std::size_t width = p.plan->kernel->part_cols, col = (task - p.first_task) * width;
    const std::size_t across = p.plan->job.out.cols - col;
    const gemm_part part{p.row, p.rows, col, across < width ? across : width};
    scratch.with(
        [&](std::byte* memory) { p.plan->kernel->multiply(p.plan->job, part, left.data() + p.left_at, memory); });
  });
}

/// Rows of a piece: part_rows, or fewer where there would be too few parts to keep all threads busy. Not fewer than 64,
/// since every piece decodes the right operand anew. No sum depends on it.
inline std::size_t piece_rows(const gemm_plan& plan, std::size_t parts, std::size_t threads) {
  const std::size_t tile = plan.kernel->tile_rows, most = plan.kernel->part_rows;
  const std::size_t pieces = threads == 1 ? 1 : (3 * threads + parts - 1) / parts;
  const std::size_t share = (plan.job.out.rows + pieces - 1) / pieces, rows = share < 64 ? 64 : share;
  return rows < most ? (rows + tile - 1) / tile * tile : most;
}

/// Runs checked jobs, many small ones spread over the threads as well as one large one. No C overlaps another.
inline void run_gemms(const context& ctx, std::span<const gemm_job> jobs) {
  const isa tier = resolve(ctx);
  const std::size_t threads = thread_limit(ctx);
  std::vector<gemm_plan> plans;
  plans.reserve(jobs.size());
  std::size_t parts = 0;  // of C's first rows, over all jobs
  for (const gemm_job& job : jobs) {
    if (job.out.rows == 0 || job.out.cols == 0) continue;
    const gemm_plan& plan = plans.emplace_back(plan_gemm(job, tier));
    parts += (plan.job.out.cols + plan.kernel->part_cols - 1) / plan.kernel->part_cols;
  }
  gemm_wave wave;
  for (const gemm_plan& plan : plans) {
    const std::size_t most = piece_rows(plan, parts, threads);
    for (std::size_t row = 0; row < plan.job.out.rows; row += most) {
      const std::size_t left = plan.job.out.rows - row;
      wave.add(plan, row, left < most ? left : most);
      if (wave.left_bytes < gemm_wave::memory) continue;
      run_wave(ctx, wave);
      wave = {};
    }
  }
  if (!wave.pieces.empty()) run_wave(ctx, wave);
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
