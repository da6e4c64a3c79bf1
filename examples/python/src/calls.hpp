// ufp4 - how a call runs: threads, instruction set, without the GIL; a long one ends with KeyboardInterrupt at Ctrl-C.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "arrays.hpp"

namespace ufp4::python {

/// The context of the arguments `threads` and `isa`.
inline cpu::context context_of(const char* operation, int threads, nb::handle isa) {
  expects(threads >= 0, operation, ": threads must not be negative, got ", threads);
  cpu::context ctx{.threads = threads};
  if (isa.is_none()) return ctx;
  const std::string wanted = nb::cast<std::string>(nb::str(isa));
  for (const cpu::isa i : cpu::all_isas)
    if (cpu::name(i) == wanted) {
      ctx.isa = i;
      return ctx;
    }
  reject(concat(operation, ": unknown isa: ", wanted));
}

/// An executor: the library's threads. The calling thread handles signals between its tasks, every 50 ms; when a
/// handler raises an exception, the remaining tasks are left out, and the call ends with that exception.
class interruptible {
 public:
  explicit interruptible(const cpu::context& ctx)
      : threads_(cpu::detail::thread_limit(ctx)), caller_(pthread_self()), last_(now()) {}

  void operator()(std::size_t count, cpu::task_ref task) {
    const loop all{this, task};
    const cpu::task_ref each{&all, &run};
    if (count == 0) return;
    cpu::detail::run_on_threads(threads_ < count ? threads_ : count, count, each);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  struct loop {
    interruptible* self;
    cpu::task_ref task;
  };
  static void run(const void* object, std::size_t i) {
    const loop& all = *static_cast<const loop*>(object);
    if (__atomic_load_n(&all.self->stopped_, __ATOMIC_RELAXED)) return;
    all.task(i);
    if (pthread_equal(pthread_self(), all.self->caller_)) all.self->poll();
  }
  static std::int64_t now() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::int64_t>(t.tv_sec) * 1000 + t.tv_nsec / 1000000;
  }
  void poll() {
    const std::int64_t t = now();
    if (error_ || t - last_ < 50) return;
    last_ = t;
    const nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() == 0) return;
    try {
      throw nb::python_error();
    } catch (...) {
      error_ = std::current_exception();
    }
    __atomic_store_n(&stopped_, true, __ATOMIC_RELAXED);
  }

  std::size_t threads_;
  pthread_t caller_;
  std::int64_t last_;
  bool stopped_ = false;
  std::exception_ptr error_;
};

/// Work in products or elements, from which on a call may take more than some milliseconds.
inline constexpr double long_product = 1e9, long_pass = 1e7;

/// Calls body(context) without the GIL; `work` of `is_long` or more can be interrupted.
template <class Body>
void run(cpu::context ctx, double work, double is_long, const Body& body) {
  const nb::gil_scoped_release released;
  if (work < is_long) return body(static_cast<const cpu::context&>(ctx));
  interruptible executor(ctx);
  ctx.executor = cpu::executor_ref(executor);
  body(static_cast<const cpu::context&>(ctx));
}

inline double elements_in(std::size_t rows, std::size_t cols) {
  return static_cast<double>(rows) * static_cast<double>(cols);
}

}  // namespace ufp4::python
