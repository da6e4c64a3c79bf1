// ufp4 - spreading the tasks of one operation over threads: the caller's executor, or the thread pool.
// SPDX-License-Identifier: Apache-2.0
//
// Tasks run in the exact floating-point environment. The first exception of a task reaches the caller after all tasks
// have ended. How tasks are divided never depends on the number of threads, so no result does.
#pragma once

#include <sched.h>
#include <unistd.h>
#include <exception>
#include <ufp4/cpu/context.hpp>
#include <ufp4/cpu/fp_environment.hpp>
#include <ufp4/cpu/thread_pool.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// The cores that this process may use. Read once: the system takes microseconds to answer.
inline std::size_t cores() {
  static constinit std::size_t known_cores = 0;  // 0: not read yet; atomic
  std::size_t count = __atomic_load_n(&known_cores, __ATOMIC_RELAXED);
  if (count != 0) return count;
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) count = static_cast<std::size_t>(CPU_COUNT(&allowed));
#endif
  const long online = count == 0 ? sysconf(_SC_NPROCESSORS_ONLN) : 0;
  if (count == 0) count = online < 1 ? 1 : static_cast<std::size_t>(online);
  __atomic_store_n(&known_cores, count, __ATOMIC_RELAXED);
  return count;
}

inline std::size_t thread_limit(const context& ctx) {
  return ctx.threads > 0 ? static_cast<std::size_t>(ctx.threads) : cores();
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

 private:
  T value_ = 0;
};

/// The first exception of any task, carried to the caller: no thread may let one escape.
class first_exception {
 public:
#if defined(UFP4_NO_EXCEPTIONS)
  template <class F>
  void guard(const F& f) {
    f();
  }
  void rethrow() const {}
#else
  template <class F>
  void guard(const F& f) {
    try {
      f();
    } catch (...) {
      if (!__atomic_test_and_set(&taken_, __ATOMIC_RELAXED)) error_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  bool taken_ = false;
  std::exception_ptr error_;
#endif
};

/// A loop's body, whatever its type, in the exact floating-point environment.
struct guarded_task {
  const void* body;
  void (*run)(const void* body, std::size_t i);
  first_exception error{};

  static void call(const void* self, std::size_t i) {
    auto& task = *static_cast<guarded_task*>(const_cast<void*>(self));
    task.error.guard([&task, i] { in_exact_environment(task.run, task.body, i); });
  }
};

/// All iterations of a loop, on the context's executor or threads.
inline void run_loop(const context& ctx, std::size_t count, const void* body, void (*run)(const void*, std::size_t)) {
  if (count == 0) return;
  guarded_task guarded{body, run};
  const task_ref task{&guarded, &guarded_task::call};
  const std::size_t limit = thread_limit(ctx), threads = limit < count ? limit : count;
  if (ctx.executor)
    ctx.executor(count, task);
  else if (threads == 1)
    for (std::size_t i = 0; i < count; ++i) task(i);
  else
    run_on_threads(threads, count, task);
  guarded.error.rethrow();
}

/// body(i) once for every i < count.
template <class F>
void parallel_for(const context& ctx, std::size_t count, const F& body) {
  run_loop(ctx, count, &body, [](const void* f, std::size_t i) { (*static_cast<const F*>(f))(i); });
}

/// Elements of a task: work of some microseconds, so that a small matrix stays on the caller's thread.
inline constexpr std::size_t task_elements = 1 << 15;

/// body(first, last) over ranges that together cover all rows, unless these are empty. A range has about task_elements,
/// or one longer row.
template <class F>
void parallel_rows(const context& ctx, std::size_t rows, std::size_t elements_a_row, const F& body) {
  if (elements_a_row == 0) return;  // nothing to do, however many rows
  const std::size_t part = elements_a_row >= task_elements ? 1 : task_elements / elements_a_row;
  parallel_for(ctx, (rows + part - 1) / part, [&](std::size_t task) {
    const std::size_t first = task * part, last = rows - first < part ? rows : first + part;
    body(first, last);
  });
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
