// ufp4 - runs GEMM jobs: chooses their kernels, packs the left operands, computes parts of every C in parallel.
// SPDX-License-Identifier: Apache-2.0
//
// No result depends on how C is cut into parts or on the number of threads. A call with little work stays on the
// caller's thread, and a small one allocates no memory for its operands.
#pragma once

#include <ufp4/cpu/dispatch.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_integers.hpp>
#include <ufp4/cpu/parallel.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// A job and the kernel that runs it.
struct gemm_plan {
  const gemm_job* job;
  const gemm_kernel* kernel;
};

/// Memory for the job of a transposed product, which few calls need.
struct gemm_job_place {
  alignas(gemm_job) std::byte bytes[sizeof(gemm_job)];
};

/// The job of the transposed product, C^T = B A^T. Only the epilogue's formulas are not symmetric; it tests `swapped`.
inline gemm_job exchanged(const gemm_job& job) {
  const sink& c = job.out;
  return {job.right, job.left,  {c.data, c.kind, c.cols, c.rows, c.col_stride, c.row_stride},
          job.block, job.alpha, job.beta,
          job.mode,  job.bias,  !job.swapped};
}

/// Vector kernels run along the columns of C. A C of few columns and many rows is computed as the transposed product if
/// the kernel gives the bits of exact_blocks, which are the same for both. The plan refers to `job`, or to
/// that product's job in `place`.
inline gemm_plan plan_gemm(const gemm_table& table, const gemm_job& job, isa tier, gemm_job_place& place) {
  const gemm_kernel* kernel = &gemm_kernel_for(table, job, tier);
  const bool narrow = job.out.cols < kernel->tile_cols && job.out.rows > 2 * job.out.cols;
  if (!narrow || job.right.interleaved() || kernel->made_as(job.mode) != accumulate::exact_blocks)
    return {&job, kernel};
  const gemm_job* const other = ::new (place.bytes) gemm_job(exchanged(job));
  return {other, &gemm_kernel_for(table, *other, tier)};
}

/// Consecutive rows of one job, at most part_rows, that are packed together.
struct gemm_strip {
  const gemm_plan* plan;
  std::size_t row, rows;
  std::size_t left_at;     ///< offset of its packed rows
  std::size_t first_task;  ///< among all parts of a batch
  std::size_t first_pack;  ///< among all packing tasks of a batch

  std::size_t parts() const { return (plan->job->out.cols + plan->kernel->part_cols - 1) / plan->kernel->part_cols; }
  /// Rows of one packing task: whole register tiles.
  std::size_t pack_rows() const {
    return (64 + plan->kernel->tile_rows - 1) / plan->kernel->tile_rows * plan->kernel->tile_rows;
  }
  std::size_t packs() const { return (rows + pack_rows() - 1) / pack_rows(); }
};

/// Memory of one call on a cache line: up to `few` bytes are part of the object, on the caller's stack.
template <std::size_t few>
class gemm_memory {
 public:
  explicit gemm_memory(std::size_t bytes) : heap_(bytes <= few ? 0 : bytes) {}
  std::byte* data() { return heap_.size() == 0 ? small_ : heap_.data(); }

 private:
  buffer<std::byte> heap_;
  alignas(64) std::byte small_[few];
};

/// Scratch memory for tasks that run at the same time: `places` of them, each of `bytes`.
class scratch_pool {
 public:
  static constexpr std::size_t size(std::size_t places, std::size_t bytes) { return places * up(bytes) + places; }

  scratch_pool(std::size_t places, std::size_t bytes, std::byte* memory)
      : places_(places), bytes_(up(bytes)), memory_(memory), used_(reinterpret_cast<char*>(memory + places * bytes_)) {
    std::memset(used_, 0, places);
  }

  /// body(memory) with memory of its own: allocated if an executor runs more tasks at once than there are places.
  template <class F>
  void with(const F& body) {
    for (std::size_t i = 0; i < places_; ++i) {
      if (__atomic_exchange_n(used_ + i, char{1}, __ATOMIC_ACQUIRE) != 0) continue;
      body(memory_ + i * bytes_);
      __atomic_store_n(used_ + i, char{0}, __ATOMIC_RELEASE);
      return;
    }
    const buffer<std::byte> own(bytes_);
    body(own.data());
  }

 private:
  std::size_t places_, bytes_;
  std::byte* memory_;
  char* used_;
};

/// Consecutive strips whose packed rows are in memory at the same time.
struct gemm_batch {
  static constexpr std::size_t memory = std::size_t{64} << 20;

  gemm_strip* strips;
  std::size_t count = 0, left_bytes = 0, scratch_bytes = 0, tasks = 0, packs = 0;

  void add(const gemm_plan& plan, std::size_t row, std::size_t rows) {
    const gemm_strip& strip = *::new (strips + count++) gemm_strip{&plan, row, rows, left_bytes, tasks, packs};
    left_bytes += plan.kernel->left_bytes(*plan.job, rows);
    const std::size_t scratch = plan.kernel->scratch_bytes(*plan.job, rows);
    scratch_bytes = scratch > scratch_bytes ? scratch : scratch_bytes;
    tasks += strip.parts();
    packs += strip.packs();
  }

  /// The last strip whose `first` is not beyond a task.
  const gemm_strip& strip_of(std::size_t gemm_strip::* first, std::size_t task) const {
    std::size_t low = 0, high = count;
    while (high - low > 1) {
      const std::size_t middle = (low + high) / 2;
      (strips[middle].*first <= task ? low : high) = middle;
    }
    return strips[low];
  }
};

/// Packs the left operands; a small amount on the caller's thread.
inline void pack_batch(const context& ctx, const gemm_batch& batch, std::byte* left) {
  constexpr std::size_t few_bytes = std::size_t{1} << 17;  // about 20 microseconds
  if (batch.left_bytes == 0) return;
  parallel_for(batch.left_bytes < few_bytes ? context{.threads = 1} : ctx, batch.packs, [&](std::size_t task) {
    const gemm_strip& p = batch.strip_of(&gemm_strip::first_pack, task);
    const gemm_kernel& kernel = *p.plan->kernel;
    const std::size_t first = (task - p.first_pack) * p.pack_rows(), rows = p.rows - first;
    kernel.pack_left(*p.plan->job, p.row + first, rows < p.pack_rows() ? rows : p.pack_rows(),
                     left + p.left_at + kernel.left_bytes(*p.plan->job, first));
  });
}

inline void run_batch(const context& ctx, const gemm_batch& batch) {
  const std::size_t limit = thread_limit(ctx), places = limit < batch.tasks ? limit : batch.tasks;
  const std::size_t left_bytes = up(batch.left_bytes);
  gemm_memory<(std::size_t{1} << 14)> memory(left_bytes + scratch_pool::size(places, batch.scratch_bytes));
  std::byte* left = memory.data();
  pack_batch(ctx, batch, left);
  scratch_pool scratch(places, batch.scratch_bytes, left + left_bytes);
  parallel_for(ctx, batch.tasks, [&](std::size_t task) {
    const gemm_strip& p = batch.strip_of(&gemm_strip::first_task, task);
    const std::size_t width = p.plan->kernel->part_cols, col = (task - p.first_task) * width;
    const std::size_t across = p.plan->job->out.cols - col;
    const gemm_part part{p.row, p.rows, col, across < width ? across : width};
    scratch.with([&](std::byte* own) { p.plan->kernel->multiply(*p.plan->job, part, left + p.left_at, own); });
  });
}

/// Rows of a strip: part_rows, or fewer where there would be too few parts to keep all threads busy; at least 64,
/// because every strip decodes the right operand again.
inline std::size_t strip_rows(const gemm_plan& plan, std::size_t parts, std::size_t threads) {
  const std::size_t tile = plan.kernel->tile_rows, most = plan.kernel->part_rows;
  const std::size_t strips = threads == 1 ? 1 : (3 * threads + parts - 1) / parts;
  const std::size_t share = (plan.job->out.rows + strips - 1) / strips, rows = share < 64 ? 64 : share;
  return rows < most ? up(rows, tile) : most;
}

/// At most one thread for every 2^21 products of elements, which take 5 to 20 microseconds; to decode the right operand
/// takes as long as to multiply it by 8 rows. An executor decides for itself.
inline std::size_t useful_threads(const context& ctx, std::span<const gemm_plan> plans) {
  const std::size_t limit = thread_limit(ctx);
  if (limit == 1 || ctx.executor) return limit;
  std::uint64_t thousands = 0;  // integers: floating-point arithmetic would set flags in the caller's environment
  for (const gemm_plan& plan : plans) {
    const std::uint64_t outputs = (plan.job->out.rows + 8) * plan.job->out.cols, depth = plan.job->padded();
    thousands += (outputs >> 10) * depth + ((outputs & 1023) * depth >> 10);
  }
  const std::uint64_t threads = thousands >> 11;
  return threads < 2 ? 1 : threads < limit ? threads : limit;
}

inline void run_plans(const context& ctx, std::span<const gemm_plan> plans) {
  const std::size_t threads = useful_threads(ctx, plans);
  const context limited{.threads = static_cast<int>(threads), .isa = ctx.isa, .executor = ctx.executor};
  std::size_t parts = 0, strips = 0;  // parts: of C's first rows, over all jobs
  for (const gemm_plan& plan : plans)
    parts += (plan.job->out.cols + plan.kernel->part_cols - 1) / plan.kernel->part_cols;
  for (const gemm_plan& plan : plans) strips += plan.job->out.rows / strip_rows(plan, parts, threads) + 1;
  gemm_memory<1024> memory(strips * sizeof(gemm_strip));
  gemm_batch batch{reinterpret_cast<gemm_strip*>(memory.data())};
  for (const gemm_plan& plan : plans) {
    const std::size_t most = strip_rows(plan, parts, threads);
    for (std::size_t row = 0; row < plan.job->out.rows; row += most) {
      const std::size_t left = plan.job->out.rows - row;
      batch.add(plan, row, left < most ? left : most);
      if (batch.left_bytes < gemm_batch::memory) continue;
      run_batch(limited, batch);
      batch = {batch.strips};
    }
  }
  if (batch.count != 0) run_batch(limited, batch);
}

/// Runs checked jobs with kernels of a table; many small ones use all threads, as one large one does. No Cs overlap.
inline void run_gemms(const context& ctx, const gemm_table& table, std::span<const gemm_job> jobs) {
  const isa tier = resolve(ctx);
  const auto empty = [](const gemm_job& job) { return job.out.rows == 0 || job.out.cols == 0; };
  if (jobs.size() == 1 && !empty(jobs[0])) {
    gemm_job_place place;
    const gemm_plan plan = plan_gemm(table, jobs[0], tier, place);
    return run_plans(ctx, {&plan, 1});
  }
  const buffer<gemm_plan> plans(jobs.size());
  const buffer<gemm_job_place> places(jobs.size());
  std::size_t count = 0;
  for (const gemm_job& job : jobs)
    if (!empty(job)) {
      ::new (plans.data() + count) gemm_plan(plan_gemm(table, job, tier, places.data()[count]));
      ++count;
    }
  run_plans(ctx, {plans.data(), count});
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
