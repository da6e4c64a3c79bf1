// ufp4 - cpu::context: on which threads and with which instructions a call runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/concepts.hpp>
#include <ufp4/cpu/isa.hpp>

namespace ufp4::cpu::inline UFP4_TYPES {

/// A caller's executor (concepts.hpp), which must outlive the calls that use it. Empty: the library's thread pool.
class executor_ref {
 public:
  executor_ref() = default;  ///< empty
  /// Refers to e, which must outlive the calls that use this.
  template <class E>
    requires(!std::is_same_v<std::remove_const_t<E>, executor_ref> && executor<E>)
  executor_ref(E& e)
      : object_(const_cast<std::remove_const_t<E>*>(&e)),
        run_([](void* object, std::size_t n, task_ref task) { (*static_cast<E*>(object))(n, task); }) {}

  /// False if it is empty.
  explicit operator bool() const { return run_ != nullptr; }
  /// Calls the executor.
  void operator()(std::size_t n, task_ref task) const { run_(object_, n, task); }

 private:
  void* object_ = nullptr;
  void (*run_)(void*, std::size_t, task_ref) = nullptr;
};

/// A policy of the operations that take policies; the last argument of the others. Default: all cores that the process
/// may use, the best instructions. No member changes a bit of a result that numerics.md calls bit-exact; `threads` and
/// `executor` change no bit of any result.
struct context {
  int threads = 0;                     ///< at most; 0: all these cores. Small work stays on the caller's thread
  cpu::isa isa = cpu::isa::automatic;  ///< std::invalid_argument if the machine or the build lacks the tier
  executor_ref executor{};             ///< runs the tasks instead of the library's threads; `threads` is then ignored
};

}  // namespace ufp4::cpu::inline UFP4_TYPES
