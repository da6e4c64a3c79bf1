// ufp4 - the thread pool: growth, several callers, fork, nested calls and the end of the program.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/cpu/parallel.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <vector>

#include <ufp4/quantize.hpp>

#include "support/catch.hpp"
#include "support/skip.hpp"

#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#if defined(__SANITIZE_THREAD__)
#define UFP4_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UFP4_TEST_TSAN 1
#endif
#endif

namespace {

using namespace ufp4;

/// How many tasks ran, of `count` on at most `threads` threads.
std::size_t tasks_run(int threads, std::size_t count) {
  std::atomic<std::size_t> ran{0};
  cpu::detail::parallel_for(cpu::context{.threads = threads}, count, [&](std::size_t) { ++ran; });
  return ran;
}

std::size_t pool_threads() {
  const cpu::detail::pool_lock lock;
  return cpu::detail::pool.threads;
}

/// The exit status of a child process that runs body() and ends with _exit; -1 if it does not end within 20 seconds.
template <class Body>
int status_in_child(const Body& body) {
  std::fflush(nullptr);
  std::cout.flush();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // ends a child that waits for ever
    body();
    _exit(0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

#if defined(UFP4_TEST_TSAN)
constexpr bool can_fork = false;  // ThreadSanitizer ends a child that starts a thread
#else
constexpr bool can_fork = true;
#endif

}  // namespace

TEST_CASE("the pool keeps its threads, and grows to the number that a call asks for less the caller") {
  CHECK(tasks_run(3, 100) == 100);
  CHECK(pool_threads() >= 2);
  CHECK(tasks_run(6, 100) == 100);
  const std::size_t grown = pool_threads();
  CHECK(grown >= 5);
  for (int i = 0; i < 200; ++i) REQUIRE(tasks_run(6, 12) == 12);
  CHECK(pool_threads() == grown);
}

TEST_CASE("a call on one thread and a call of one task leave the pool alone") {
  if (!can_fork) return support::skip("ThreadSanitizer ends a child process that starts threads");
  CHECK(status_in_child([] {  // the child's pool is empty
          if (tasks_run(1, 1000) != 1000 || tasks_run(8, 1) != 1 || pool_threads() != 0) _exit(1);
        }) == 0);
}

TEST_CASE("thousands of calls after one another and after pauses run each task once") {
  for (int i = 0; i < 3000; ++i) {
    REQUIRE(tasks_run(4, static_cast<std::size_t>(2 + i % 7)) == static_cast<std::size_t>(2 + i % 7));
    if (i % 500 == 0) usleep(2000);  // longer than the threads poll
  }
}

TEST_CASE("callers on several threads share the pool, and each of them ends") {
  std::atomic<std::size_t> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 6; ++c)
    callers.emplace_back([&wrong, c] {
      for (int i = 0; i < 300; ++i) wrong += tasks_run(2 + c % 3, 9) != 9;
    });
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("a task may call the library, to any depth") {
  std::atomic<std::size_t> ran{0};
  const cpu::context three{.threads = 3};
  cpu::detail::parallel_for(three, 4, [&](std::size_t) {
    cpu::detail::parallel_for(three, 4,
                              [&](std::size_t) { cpu::detail::parallel_for(three, 4, [&](std::size_t) { ++ran; }); });
  });
  CHECK(ran == 64);
}

TEST_CASE("a long call of one thread does not hold up the calls of another") {
  std::atomic<bool> release{false}, started{false};
  std::thread slow([&] {
    cpu::detail::parallel_for(cpu::context{.threads = 64}, 64, [&](std::size_t) {
      started = true;
      while (!release) usleep(100);
    });
  });
  while (!started) usleep(100);
  CHECK(tasks_run(4, 100) == 100);  // every thread of the pool may be in the other call
  release = true;
  slow.join();
}

TEST_CASE("a forked child starts threads of its own, and the parent keeps its pool") {
  if (!can_fork) return support::skip("ThreadSanitizer ends a child process that starts threads");
  CHECK(tasks_run(4, 100) == 100);
  const std::size_t before = pool_threads();
  CHECK(status_in_child([] {
          if (pool_threads() != 0 || tasks_run(4, 100) != 100 || pool_threads() != 3) _exit(1);
          if (status_in_child([] { _exit(tasks_run(3, 50) == 50 ? 0 : 1); }) != 0) _exit(2);
        }) == 0);
  CHECK(pool_threads() == before);
  CHECK(tasks_run(4, 100) == 100);
}

TEST_CASE("fork while other threads are in calls gives children that can call") {
  if (!can_fork) return support::skip("ThreadSanitizer ends a child process that starts threads");
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  for (int c = 0; c < 2; ++c)
    callers.emplace_back([&stop] {
      while (!stop) tasks_run(4, 8);
    });
  int failed = 0;
  for (int i = 0; i < 40; ++i) failed += status_in_child([] { _exit(tasks_run(4, 100) == 100 ? 0 : 1); }) != 0;
  stop = true;
  for (std::thread& caller : callers) caller.join();
  CHECK(failed == 0);
}

TEST_CASE("a program ends while the pool is idle, polls or works") {
  if (!can_fork) return support::skip("ThreadSanitizer ends a child process that starts threads");
  for (const unsigned pause : {0u, 10u, 3000u})  // microseconds
    CHECK(status_in_child([pause] {
            tasks_run(4, 100);
            usleep(pause);
            std::exit(0);
          }) == 0);
  CHECK(status_in_child([] {
          std::thread([] { tasks_run(8, 1000000000); }).detach();
          while (pool_threads() == 0) usleep(10);
          std::exit(0);
        }) == 0);
}

TEST_CASE("threads of the pool take no signal") {
  std::atomic<int> open{0};
  const pthread_t caller = pthread_self();
  cpu::detail::parallel_for(cpu::context{.threads = 4}, 200, [&](std::size_t) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    if (!pthread_equal(caller, pthread_self()) && sigismember(&mask, SIGUSR1) == 0) ++open;
    usleep(10);
  });
  CHECK(open == 0);
}
