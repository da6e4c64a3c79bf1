// ufp4 - spreading the tasks of one operation over threads.
// SPDX-License-Identifier: Apache-2.0
//
// POSIX threads and the compilers' atomic operations: <thread> and <atomic> cost a quarter of the include budget.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <ufp4/cpu/context.hpp>
#include <ufp4/cpu/fp_environment.hpp>
#if defined(_OPENMP)
#include <omp.h>
#else
#include <pthread.h>
#include <unistd.h>
#endif

namespace ufp4::cpu::detail::inline UFP4_CODE {

inline std::size_t thread_limit(const context& ctx) {
  if (ctx.threads > 0) return static_cast<std::size_t>(ctx.threads);
#if defined(_OPENMP)
  return static_cast<std::size_t>(omp_get_max_threads());
#else
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  return cores < 1 ? 1 : static_cast<std::size_t>(cores);
#endif
}

/// A number that tasks on several threads change. Relaxed: the end of a parallel loop orders it before what follows.
template <class T>
class shared_number {
 public:
  void add(T n) { __atomic_fetch_add(&value_, n, __ATOMIC_RELAXED); }
  void raise_to(T n) {
    T before = load();
    while (before < n && !__atomic_compare_exchange_n(&value_, &before, n, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
  }
  T load() const { return __atomic_load_n(&value_, __ATOMIC_RELAXED); }
  T next() { return __atomic_fetch_add(&value_, T{1}, __ATOMIC_RELAXED); }

 private:
  T value_ = 0;
};

/// Hands out indices to whoever asks, so that a slow core does not hold up the rest.
struct task_queue {
  task_ref task;
  std::size_t count;
  shared_number<std::size_t> taken{};

  void drain() {
    for (std::size_t i = taken.next(); i < count; i = taken.next()) task(i);
  }
};

#if defined(_OPENMP)
inline void run_on_threads(std::size_t threads, std::size_t count, task_ref task) {
  task_queue queue{task, count};
#pragma omp parallel num_threads(static_cast<int>(threads))
  queue.drain();
}
#else
/// Threads that drain a queue until their owner has joined them.
class helpers {
 public:
  /// At most `count`: where the system has no more, those there are do the work.
  helpers(std::size_t count, task_queue& queue) {
    while (started_ < most && started_ < count && pthread_create(&thread_[started_], nullptr, &drain, &queue) == 0)
      ++started_;
  }
  ~helpers() {
    for (std::size_t i = 0; i < started_; ++i) pthread_join(thread_[i], nullptr);
  }
  helpers(const helpers&) = delete;
  helpers& operator=(const helpers&) = delete;

 private:
  static constexpr std::size_t most = 1023;
  static void* drain(void* queue) {
    static_cast<task_queue*>(queue)->drain();
    return nullptr;
  }
  pthread_t thread_[most];
  std::size_t started_ = 0;
};

inline void run_on_threads(std::size_t threads, std::size_t count, task_ref task) {
  task_queue queue{task, count};
  const helpers join_at_the_end(threads - 1, queue);
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
      if (!__atomic_test_and_set(&taken_, __ATOMIC_RELAXED)) error_ = std::current_exception();
    }
#endif
  }
  void rethrow() const {
#if !defined(UFP4_NO_EXCEPTIONS)
    if (error_) std::rethrow_exception(error_);
#endif
  }

#if !defined(UFP4_NO_EXCEPTIONS)
 private:
  bool taken_ = false;
  std::exception_ptr error_;
#endif
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
