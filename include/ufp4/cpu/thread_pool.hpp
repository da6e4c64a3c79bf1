// ufp4 - the threads of calls without an executor: started when first needed, kept until the program ends.
// SPDX-License-Identifier: Apache-2.0
//
// One pool for the whole program, whatever flags its files are compiled with: any thread runs the tasks of any call.
//
// | first use, growth  | threads are started up to the number that a call asks for, less one: the caller works   |
// | idle               | a thread polls for at most 50 microseconds, then sleeps on a condition variable         |
// | who runs what      | a range of consecutive tasks each; a thread that is done takes tasks of other ranges    |
// | calls at once      | every caller runs its own tasks and waits only for threads that have taken one of them, |
// |                    | so calls from several threads, and calls inside tasks, always make progress             |
// | fork               | the child begins without threads and starts its own when it needs them                  |
// | end of the program | nothing is joined or destroyed: idle threads end with the process                       |
// | dlclose (Linux)    | a shared library that has started a thread stays loaded (RTLD_NODELETE)                 |
// | signals            | are blocked in the threads of the pool                                                  |
//
// POSIX threads and the compilers' atomic operations: <thread> and <atomic> cost a quarter of the include budget.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <ufp4/concepts.hpp>
#if defined(__linux__)
#include <dlfcn.h>
#endif

namespace ufp4::cpu::detail::inline UFP4_TYPES {

/// Consecutive tasks, on a cache line of their own.
struct alignas(64) pool_range {
  std::size_t next = 0;  ///< the first task that no thread has taken; beyond `end` when all are; atomic
  std::size_t end = 0;
};

/// A parallel loop that is running; in its caller's memory. A thread begins with a range of its own: in a call like the
/// one before the caller's thread, and on two threads the other too, finds what it has read in its caches.
struct pool_job {
  static constexpr std::size_t most_ranges = 32;  ///< more threads share them

  task_ref task;
  std::size_t threads;
  std::size_t joined = 1;    ///< threads, the caller's among them; guarded by the pool's mutex
  std::size_t working = 0;   ///< threads of the pool that have joined and not left; atomic
  pool_job* next = nullptr;  ///< in the list of jobs that threads may still join
  std::size_t range_count = threads < most_ranges ? threads : most_ranges;
  pool_range ranges[most_ranges]{};
};

/// Everything but `jobs`, which idle threads also poll, is guarded by the mutex.
struct pool_state {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t job_added = PTHREAD_COND_INITIALIZER, job_left = PTHREAD_COND_INITIALIZER;
  pool_job* jobs = nullptr;  ///< that threads may still join, the newest first
  std::size_t threads = 0, sleeping = 0;
  std::size_t waiting = 0;  ///< callers that sleep until their last task has ended
  bool forks_are_seen = false;
};
inline constinit pool_state pool{};

}  // namespace ufp4::cpu::detail::inline UFP4_TYPES

namespace ufp4::cpu::detail::inline UFP4_CODE {

class pool_lock {
 public:
  pool_lock() { pthread_mutex_lock(&pool.mutex); }
  ~pool_lock() { pthread_mutex_unlock(&pool.mutex); }
  pool_lock(const pool_lock&) = delete;
  pool_lock& operator=(const pool_lock&) = delete;
};

/// Polls until done() or for 50 microseconds: about the time that waking a thread takes.
template <class F>
void poll_until(const F& done) {
  const auto microseconds = [] {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::int64_t>(now.tv_sec) * 1000000 + now.tv_nsec / 1000;
  };
  const std::int64_t end = microseconds() + 50;
  while (!done() && microseconds() < end) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
}

inline void divide_tasks(pool_job& job, std::size_t count) {
  const std::size_t each = count / job.range_count, over = count % job.range_count;
  for (std::size_t r = 0, first = 0; r < job.range_count; ++r) {
    const std::size_t end = first + each + (r < over);
    job.ranges[r] = {first, end};
    first = end;
  }
}
/// What the thread that joined as number `place` does.
inline void run_tasks(pool_job& job, std::size_t place) {
  for (std::size_t r = 0; r < job.range_count; ++r) {
    pool_range& range = job.ranges[(place + r) % job.range_count];
    const auto next = [&range] { return __atomic_fetch_add(&range.next, 1, __ATOMIC_RELAXED); };
    if (__atomic_load_n(&range.next, __ATOMIC_RELAXED) >= range.end) continue;
    for (std::size_t i = next(); i < range.end; i = next()) job.task(i);
  }
}

/// What a thread of the pool does. A job may leave its caller's memory as soon as `working` is 0.
inline void* pool_thread(void*) {
  for (;;) {
    poll_until([] { return __atomic_load_n(&pool.jobs, __ATOMIC_RELAXED) != nullptr; });
    pthread_mutex_lock(&pool.mutex);
    ++pool.sleeping;
    while (pool.jobs == nullptr) pthread_cond_wait(&pool.job_added, &pool.mutex);
    --pool.sleeping;
    pool_job& job = *pool.jobs;
    const std::size_t place = job.joined++;
    if (job.joined == job.threads) __atomic_store_n(&pool.jobs, job.next, __ATOMIC_RELAXED);
    __atomic_fetch_add(&job.working, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&pool.mutex);
    run_tasks(job, place);
    const pool_lock lock;
    if (__atomic_sub_fetch(&job.working, 1, __ATOMIC_RELEASE) == 0 && pool.waiting != 0)
      pthread_cond_broadcast(&pool.job_left);
  }
}

#if defined(__linux__)
// Null where a program is linked statically, or without libdl, which C libraries before glibc 2.34 have it in.
[[maybe_unused]] static int find_library(const void* address, Dl_info* found) __attribute__((weakref("dladdr")));
[[maybe_unused]] static void* open_library(const char* name, int flags) __attribute__((weakref("dlopen")));

/// Keeps the library that contains the threads' code from being unloaded.
inline void stay_loaded() {
  if (&find_library == nullptr || &open_library == nullptr) return;
  Dl_info here{};
  if (find_library(reinterpret_cast<const void*>(&pool_thread), &here) != 0 && here.dli_fname != nullptr)
    open_library(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}
#else
inline void stay_loaded() {}
#endif

/// Starts threads until there are `count`, or as many as the system allows. The mutex is held.
inline void grow_pool(std::size_t count) {
  if (pool.threads >= count) return;
  stay_loaded();
  if (!pool.forks_are_seen)
    pool.forks_are_seen = pthread_atfork(nullptr, nullptr, [] {
                            pool = {};
                            pool.forks_are_seen = true;
                          }) == 0;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  while (pool.threads < count && pthread_create(&thread, nullptr, &pool_thread, nullptr) == 0) {
    pthread_detach(thread);
    ++pool.threads;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

inline void add_job(pool_job& job) {
  std::size_t woken = 0;
  {
    const pool_lock lock;
    grow_pool(job.threads - 1);
    job.next = pool.jobs;
    __atomic_store_n(&pool.jobs, &job, __ATOMIC_RELAXED);
    woken = job.threads - 1 < pool.sleeping ? job.threads - 1 : pool.sleeping;
  }
  for (std::size_t i = 0; i < woken; ++i) pthread_cond_signal(&pool.job_added);
}

/// Lets no further thread join, and waits until those that have joined have left.
inline void end_job(pool_job& job) {
  {
    const pool_lock lock;
    pool_job** place = &pool.jobs;
    while (*place != nullptr && *place != &job) place = &(*place)->next;
    if (*place != nullptr) __atomic_store_n(place, job.next, __ATOMIC_RELAXED);
  }
  const auto ended = [&job] { return __atomic_load_n(&job.working, __ATOMIC_ACQUIRE) == 0; };
  poll_until(ended);
  if (ended()) return;
  const pool_lock lock;
  ++pool.waiting;
  while (!ended()) pthread_cond_wait(&pool.job_left, &pool.mutex);
  --pool.waiting;
}

/// Returns when task(i) has run once for every i < count, on this thread or threads - 1 of the pool. No task throws.
inline void run_on_threads(std::size_t threads, std::size_t count, task_ref task) {
  pool_job job{.task = task, .threads = threads};
  divide_tasks(job, count);
  add_job(job);
  run_tasks(job, 0);
  end_job(job);
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
