// ufp4 - cpu::context: on which threads and with which instructions a operation runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>
#include <ufp4/concepts.hpp>
#include <ufp4/cpu/isa.hpp>

namespace ufp4::cpu::inline UFP4_TYPES {

/// A caller's executor by reference; it must outlive the calls it serves. Empty: the library's own threads (OpenMP
/// where the program is compiled with it, else std::thread).
class executor_ref {
 public:
  executor_ref() = default;
  template <class E>
    requires(!std::is_same_v<std::remove_const_t<E>, executor_ref> && executor<E>)
  executor_ref(E& e)
      : object_(const_cast<std::remove_const_t<E>*>(&e)),
        run_([](void* object, std::size_t n, task_ref task) { (*static_cast<E*>(object))(n, task); }) {}

  explicit operator bool() const { return run_ != nullptr; }
  void operator()(std::size_t n, task_ref task) const { run_(object_, n, task); }

 private:
  void* object_ = nullptr;
  void (*run_)(void*, std::size_t, task_ref) = nullptr;
};

/// Every operation takes one as its first argument, or none: all cores, best instructions. Neither member changes a bit of
/// any result that numerics.md calls bit-exact, and `threads` changes no bit of any result.
///
/// | threads  | at most this many; 0 is all cores. Small work stays on the caller's thread |
/// | isa      | a tier; one that the machine lacks is std::invalid_argument                |
/// | executor | runs the tasks instead of the library's threads                            |
struct context {
  int threads = 0;
  cpu::isa isa = cpu::isa::automatic;
  executor_ref executor{};
};

}  // namespace ufp4::cpu::inline UFP4_TYPES
