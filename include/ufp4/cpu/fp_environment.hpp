// ufp4 - the floating-point environment of tasks: round to nearest, subnormals kept, no traps; the caller's restored.
// SPDX-License-Identifier: Apache-2.0
//
// The kernel runs behind a call through a pointer, so no arithmetic of it can be moved across the change.
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

/// Sets the environment while it lives. What the caller had, flags included, comes back.
class exact_environment {
 public:
  exact_environment() : caller_(read_control()) { write_control(exact_control); }
  ~exact_environment() { write_control(caller_); }
  exact_environment(const exact_environment&) = delete;
  exact_environment& operator=(const exact_environment&) = delete;

 private:
  control_word caller_;
};

/// Calls f(arguments...) in that environment; f is a function pointer the compiler does not see through.
template <class... Parameters, class... Arguments>
[[gnu::noinline]] void in_exact_environment(void (*f)(Parameters...), Arguments&&... arguments) {
  asm volatile("" : "+r"(f));
  const exact_environment set;
  f(static_cast<Arguments&&>(arguments)...);
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
