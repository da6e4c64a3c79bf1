// ufp4 - the floating-point environment of an operation: to nearest even, subnormals kept, no traps.
// SPDX-License-Identifier: Apache-2.0
//
// The caller's environment, flags included, is restored at the end, also by an exception. The kernel is called through
// a pointer that hides it from the compiler, so that no arithmetic moves across the change of the environment.
#pragma once

#include <cfenv>
#include <cstdint>
#include <ufp4/detail/compiler.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

#if defined(__x86_64__) || defined(__SSE__)
using control_word = std::uint32_t;
inline constexpr control_word exact_control = 0x1F80;  // MXCSR at reset: nearest, FTZ and DAZ off, exceptions masked
inline control_word read_control() { return __builtin_ia32_stmxcsr(); }
inline void write_control(control_word w) { __builtin_ia32_ldmxcsr(w); }
#elif defined(__aarch64__)
using control_word = std::uint64_t;
inline constexpr control_word exact_control = 0;  // FPCR: nearest, FZ and AH off, traps off
inline control_word read_control() {
  control_word w;
  asm volatile("mrs %0, fpcr" : "=r"(w));
  return w;
}
inline void write_control(control_word w) { asm volatile("msr fpcr, %0" : : "r"(w)); }
#else
using control_word = std::fenv_t;
inline const control_word& exact_control = *FE_DFL_ENV;
inline control_word read_control() {
  control_word w;
  std::fegetenv(&w);
  return w;
}
inline void write_control(const control_word& w) { std::fesetenv(&w); }
#endif

/// Sets the environment; the destructor restores the caller's, flags included.
class exact_environment {
 public:
  exact_environment() : caller_(read_control()) { write_control(exact_control); }
  ~exact_environment() { write_control(caller_); }
  exact_environment(const exact_environment&) = delete;
  exact_environment& operator=(const exact_environment&) = delete;

 private:
  control_word caller_;
};

/// Calls f(arguments...) in that environment. The compiler cannot know which function f points to.
template <class... Parameters, class... Arguments>
[[gnu::noinline]] void in_exact_environment(void (*f)(Parameters...), Arguments&&... arguments) {
  asm volatile("" : "+r"(f));
  const exact_environment set;
  f(static_cast<Arguments&&>(arguments)...);
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
