// ufp4 - thread_pool: the threads of train_lm, for its own loops and, as an executor, for the library's operations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <ufp4/concepts.hpp>
#include <ufp4/cpu/context.hpp>
#include <vector>

namespace train_lm {

/// The result of a task depends on its number alone, so no bit depends on the number of threads or on which thread runs
/// which task. Tasks must not throw, and must not start a loop on their own pool.
class thread_pool {
 public:
  /// 0: one thread per core.
  explicit thread_pool(int threads = 0) {
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    const int wanted = threads > 0 ? threads : cores > 0 ? cores : 1;
    for (int i = 1; i < wanted; ++i) helpers_.emplace_back([this] { help(); });
  }
  ~thread_pool() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    start_.notify_all();
    for (std::thread& t : helpers_) t.join();
  }
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;

  int threads() const { return static_cast<int>(helpers_.size()) + 1; }

  /// Runs task(i) once for every i < count; returns when all are done.
  void operator()(std::size_t count, ufp4::task_ref task) {
    if (helpers_.empty() || count < 2) {
      for (std::size_t i = 0; i < count; ++i) task(i);
      return;
    }
    std::unique_lock lock(mutex_);
    task_ = task;
    count_ = count;
    next_ = done_ = 0;
    start_.notify_all();
    drain(lock);
    finish_.wait(lock, [this] { return done_ == count_; });
    count_ = next_ = 0;
  }

  template <class Body>
  void for_each(std::ptrdiff_t count, const Body& body) {
    const auto call = [](const void* b, std::size_t i) {
      (*static_cast<const Body*>(b))(static_cast<std::ptrdiff_t>(i));
    };
    (*this)(static_cast<std::size_t>(count), ufp4::task_ref{&body, call});
  }

  /// The context with which the library's operations run on these threads.
  ufp4::cpu::context context() { return {.threads = threads(), .executor = *this}; }

 private:
  void help() {
    std::unique_lock lock(mutex_);
    while (true) {
      start_.wait(lock, [this] { return ending_ || next_ < count_; });
      if (ending_) return;
      drain(lock);
    }
  }
  /// Runs tasks until there are none. A task takes tens of microseconds, so one lock per task is negligible.
  void drain(std::unique_lock<std::mutex>& lock) {
    while (next_ < count_) {
      const std::size_t mine = next_++;
      const ufp4::task_ref task = task_;
      lock.unlock();
      task(mine);
      lock.lock();
      if (++done_ == count_) finish_.notify_one();
    }
  }

  std::vector<std::thread> helpers_;
  std::mutex mutex_;
  std::condition_variable start_, finish_;
  ufp4::task_ref task_{};
  std::size_t count_ = 0, next_ = 0, done_ = 0;
  bool ending_ = false;
};

static_assert(ufp4::executor<thread_pool>);

}  // namespace train_lm
