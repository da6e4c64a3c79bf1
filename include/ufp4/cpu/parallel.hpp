// ufp4 - spreading the tasks of one verb over threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>
#include <ufp4/cpu/context.hpp>
#include <ufp4/cpu/fp_environment.hpp>
#if defined(_OPENMP)
#include <omp.h>
#else
#include <system_error>
#include <vector>
#endif

namespace ufp4::cpu::detail::inline UFP4_CODE {

inline std::size_t thread_limit(const context& ctx) {
  if (ctx.threads > 0) return static_cast<std::size_t>(ctx.threads);
#if defined(_OPENMP)
  return static_cast<std::size_t>(omp_get_max_threads());
#else
  const unsigned cores = std::thread::hardware_concurrency();
  return cores == 0 ? 1 : cores;
#endif
}

/// Hands out indices to whoever asks, so that a slow core does not hold up the rest.
struct task_queue {
  task_ref task;
  std::size_t count;
  std::atomic<std::size_t> next{0};

  void drain() {
    for (std::size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) task(i);
  }
};

#if defined(_OPENMP)
inline void run_on_threads(std::size_t threads, std::size_t count, task_ref task) {
  task_queue queue{task, count};
#pragma omp parallel num_threads(static_cast<int>(threads))
  queue.drain();
}
#else
inline void run_on_threads(std::size_t threads, std::size_t count, task_ref task) {
  task_queue queue{task, count};
  std::vector<std::jthread> helpers;
  helpers.reserve(threads - 1);
  const auto start = [&] {
    for (std::size_t t = 1; t < threads; ++t) helpers.emplace_back([&queue] { queue.drain(); });
  };
#if defined(UFP4_NO_EXCEPTIONS)
  start();
#else
  try {
    start();
  } catch (const std::system_error&) {
  }  // no more threads to be had: those there are do the work
#endif
  queue.drain();
}
#endif

/// The first exception of any task, carried to the caller: no thread may let one escape.
class first_exception {
 public:
  template <class F>
  void guard(const F& f) {
#if defined(UFP4_NO_EXCEPTIONS)
    f();
#else
    try {
      f();
    } catch (...) {
      if (!taken_.test_and_set()) error_ = std::current_exception();
    }
#endif
  }
  void rethrow() const {
#if !defined(UFP4_NO_EXCEPTIONS)
    if (error_) std::rethrow_exception(error_);
#endif
  }

 private:
  std::atomic_flag taken_ = ATOMIC_FLAG_INIT;
  std::exception_ptr error_;
};

template <class F>
struct guarded_task {
  const F& body;
  first_exception& error;
  static void call(const void* self, std::size_t i) {
    const auto& task = *static_cast<const guarded_task*>(self);
    task.error.guard([&task, i] { in_exact_environment(&run, &task, i); });
  }
  static void run(const guarded_task* task, std::size_t i) { task->body(i); }
};

/// body(i) once for every i < count, each in the exact floating-point environment; an exception of one reaches the
/// caller after all have ended.
template <class F>
void parallel_for(const context& ctx, std::size_t count, const F& body) {
  if (count == 0) return;
  first_exception error;
  const guarded_task<F> guarded{body, error};
  const task_ref task{&guarded, &guarded_task<F>::call};
  const std::size_t limit = thread_limit(ctx), threads = limit < count ? limit : count;
  if (ctx.executor)
    ctx.executor(count, task);
  else if (threads == 1)
    for (std::size_t i = 0; i < count; ++i) task(i);
  else
    run_on_threads(threads, count, task);
  error.rethrow();
}

/// body(first, last) over ranges of `rows` that together cover them, each with enough elements to be worth a thread.
template <class F>
void parallel_rows(const context& ctx, std::size_t rows, std::size_t elements_a_row, const F& body) {
  constexpr std::size_t elements = 1 << 15;
  const std::size_t chunk = elements_a_row == 0 || elements_a_row >= elements ? 1 : elements / elements_a_row;
  parallel_for(ctx, (rows + chunk - 1) / chunk, [&](std::size_t task) {
    const std::size_t first = task * chunk, last = rows - first < chunk ? rows : first + chunk;
    body(first, last);
  });
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
