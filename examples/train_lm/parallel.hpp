// ufp4 - thread_pool: the threads of train_lm, for its own loops and, as an executor, for the library's operations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <ufp4/concepts.hpp>
#include <ufp4/cpu/context.hpp>
#include <vector>

namespace train_lm {

/// The result of a task depends on its number alone, so no bit depends on the number of threads or on which thread runs
/// which task. Tasks must not throw, and must not start a loop on their own pool. One thread at a time starts loops.
///
/// A step of a small model has about a hundred loops of tens of microseconds, and waking a thread takes as long. So
/// threads claim tasks without a lock, and wait for the next loop in a short busy loop before they sleep.
class thread_pool {
 public:
  /// 0: one thread per core.
  explicit thread_pool(int threads = 0) {
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    const int wanted = threads > 0 ? threads : cores > 0 ? cores : 1;
    for (int i = 1; i < wanted; ++i) helpers_.emplace_back([this] { help(); });
  }
  ~thread_pool() {
    ending_ = true;
    publish(0);
    for (std::thread& t : helpers_) t.join();
  }
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;

  int threads() const { return static_cast<int>(helpers_.size()) + 1; }

  /// Runs task(i) once for every i < count; returns when all are done. count is below 2^32.
  void operator()(std::size_t count, ufp4::cpu::task_ref task) {
    if (helpers_.empty() || count < 2) {
      for (std::size_t i = 0; i < count; ++i) task(i);
      return;
    }
    task_ = task;
    left_ = count;
    drain(publish(count));
    wait(finished_, [this] { return left_ == 0; });
  }

  template <class Body>
  void for_each(std::ptrdiff_t count, const Body& body) {
    const auto call = [](const void* b, std::size_t i) {
      (*static_cast<const Body*>(b))(static_cast<std::ptrdiff_t>(i));
    };
    (*this)(static_cast<std::size_t>(count), ufp4::cpu::task_ref{&body, call});
  }

  /// The context with which the library's operations run on these threads.
  ufp4::cpu::context context() { return {.threads = threads(), .executor = *this}; }

 private:
  static constexpr std::uint64_t one_loop = std::uint64_t{1} << 32;

  /// Starts loop number claims_ / 2^32, whose unclaimed tasks are the lower half of claims_: count, ..., 1.
  std::uint64_t publish(std::size_t count) {
    const std::uint64_t loop = (claims_ / one_loop + 1) * one_loop;
    count_ = count;
    claims_ = loop + count;
    wake(started_);
    return loop;
  }
  void help() {
    for (std::uint64_t seen = 0; !ending_;) {
      wait(started_, [&] { return claims_ / one_loop != seen / one_loop; });
      seen = claims_;
      drain(seen / one_loop * one_loop);
    }
  }
  /// Runs tasks of a loop until all are claimed. While a claimed task is not done, no other loop starts.
  void drain(std::uint64_t loop) {
    for (std::uint64_t now = claims_; now - loop - 1 < one_loop - 1;) {  // modulo 2^64: after 2^32 loops, from 0 again
      if (!claims_.compare_exchange_weak(now, now - 1)) continue;
      task_(static_cast<std::size_t>(count_ - (now - loop)));
      if (--left_ == 0) wake(finished_);
      now = claims_;
    }
  }

  /// Threads that sleep until something happens.
  struct event {
    std::mutex mutex;
    std::condition_variable condition;
    std::atomic<int> sleepers = 0;
  };
  template <class Happened>
  static void wait(event& e, const Happened& happened) {
    for (int i = 0; i < 2000; ++i) {  // tens of microseconds
      if (happened()) return;
      pause();
    }
    std::unique_lock lock(e.mutex);
    ++e.sleepers;
    e.condition.wait(lock, happened);
    --e.sleepers;
  }
  /// After the change that happened() sees. Every atomic is sequentially consistent: a thread is seen to sleep here, or
  /// it sees the change before it sleeps.
  static void wake(event& e) {
    if (e.sleepers == 0) return;
    {
      const std::lock_guard lock(e.mutex);
    }
    e.condition.notify_all();
  }
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  std::vector<std::thread> helpers_;
  event started_, finished_;
  ufp4::cpu::task_ref task_{};
  std::atomic<std::size_t> count_ = 0, left_ = 0;
  std::atomic<std::uint64_t> claims_ = 0;
  std::atomic<bool> ending_ = false;
};

static_assert(ufp4::cpu::executor<thread_pool>);

}  // namespace train_lm
