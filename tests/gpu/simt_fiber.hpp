// ufp4 - fibers: several stacks, which one thread of the host runs alternately.
// SPDX-License-Identifier: Apache-2.0
//
// A switch on x86-64 and aarch64 (ELF) is twenty instructions. swapcontext() would also save the signal mask, with a
// system call each time, and a block of 256 threads switches whenever its threads shuffle. On other machines, and with
// UFP4_SIMT_UCONTEXT, a switch is swapcontext(). Every switch is announced to AddressSanitizer. For ThreadSanitizer
// each fiber is a thread that runs at the same time as the others: only happens_before and happens_after order them.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#define UFP4_SIMT_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define UFP4_SIMT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UFP4_SIMT_ASAN 1
#elif __has_feature(thread_sanitizer)
#define UFP4_SIMT_TSAN 1
#endif
#endif
#if defined(UFP4_SIMT_ASAN)
#include <sanitizer/common_interface_defs.h>
#elif defined(UFP4_SIMT_TSAN)
#include <sanitizer/tsan_interface.h>
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);  // of the run-time library
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);
#endif

#if !defined(UFP4_SIMT_UCONTEXT) && defined(__ELF__) && (defined(__x86_64__) || defined(__aarch64__))
#define UFP4_SIMT_ASSEMBLY 1
#else
#include <ucontext.h>
#endif

#if defined(UFP4_SIMT_ASSEMBLY)
/// Saves the callee-saved registers on this stack and its top in *from, and continues on the stack `to`. Floating-point
/// modes are not switched, because kernels do not change them.
extern "C" void ufp4_simt_switch(void** from, void* to);
#if defined(__x86_64__)
asm(R"(
.pushsection .text
.weak ufp4_simt_switch
.type ufp4_simt_switch, @function
ufp4_simt_switch:
.irp register, rbp, rbx, r12, r13, r14, r15
  pushq %\register
.endr
  movq %rsp, (%rdi)
  movq %rsi, %rsp
.irp register, r15, r14, r13, r12, rbx, rbp
  popq %\register
.endr
  ret
.size ufp4_simt_switch, . - ufp4_simt_switch
.popsection
)");
#else
asm(R"(
.macro ufp4_saved_registers instruction
  \instruction x19, x20, [sp, #16]
  \instruction x21, x22, [sp, #32]
  \instruction x23, x24, [sp, #48]
  \instruction x25, x26, [sp, #64]
  \instruction x27, x28, [sp, #80]
  \instruction d8, d9, [sp, #96]
  \instruction d10, d11, [sp, #112]
  \instruction d12, d13, [sp, #128]
  \instruction d14, d15, [sp, #144]
.endm
.pushsection .text
.weak ufp4_simt_switch
.type ufp4_simt_switch, %function
ufp4_simt_switch:
  stp x29, x30, [sp, #-160]!
  ufp4_saved_registers stp
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ufp4_saved_registers ldp
  ldp x29, x30, [sp], #160
  ret
.size ufp4_simt_switch, . - ufp4_simt_switch
.popsection
)");
#endif
#endif

namespace ufp4::simt {

/// What a fiber did before happens_before(x) comes before what another does after happens_after(x).
inline void happens_before([[maybe_unused]] void* x) {
#if defined(UFP4_SIMT_TSAN)
  __tsan_release(x);
#endif
}
inline void happens_after([[maybe_unused]] void* x) {
#if defined(UFP4_SIMT_TSAN)
  __tsan_acquire(x);
#endif
}

/// While an object of this type exists, ThreadSanitizer ignores this fiber: all fibers share the simulator's own data.
struct unwatched {
  unwatched() {
#if defined(UFP4_SIMT_TSAN)
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
  }
  unwatched(const unwatched&) = delete;
  unwatched& operator=(const unwatched&) = delete;
  ~unwatched() {
#if defined(UFP4_SIMT_TSAN)
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
  }
};

/// A stack and the point where its execution was interrupted. Without an entry function: the stack of the program
/// itself.
class fiber {
 public:
  /// Enough for kernels that keep tiles in arrays, unoptimised and under a sanitizer.
  static constexpr std::size_t stack_bytes = 256 * 1024;

  fiber() = default;
  /// `entry` must never return.
  explicit fiber(void (*entry)()) : entry_(entry) {
    const std::size_t guard = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    mapped_bytes_ = guard + stack_bytes;
    // Pages take no memory until they are accessed. The lowest one is inaccessible, so that an overflow is a fault.
    mapped_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped_ == MAP_FAILED || mprotect(mapped_, guard, PROT_NONE) != 0) {
      std::perror("simt: no memory for the stack of a fiber");
      std::abort();
    }
    bottom_ = static_cast<char*>(mapped_) + guard;
    bytes_ = stack_bytes;
#if defined(UFP4_SIMT_TSAN)
    watched_as_ = __tsan_create_fiber(0);
#endif
    prepare();
  }
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;
  ~fiber() {
    if (mapped_ != nullptr)
      munmap(mapped_, mapped_bytes_);  // ThreadSanitizer's side of it lives as long as the program
  }

  /// Switches from this stack, which must be the running one, to `to`. Returns when another fiber switches to this one.
  void switch_to(fiber& to) {
    const unwatched machinery;
    left() = this;
    entered() = &to;
    [[maybe_unused]] void* const top = to.top_;
#if defined(UFP4_SIMT_ASAN)
    __sanitizer_start_switch_fiber(&fake_stack_, to.bottom_, to.bytes_);
#elif defined(UFP4_SIMT_TSAN)
    if (watched_as_ == nullptr) watched_as_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to.watched_as_, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(UFP4_SIMT_ASSEMBLY)
    ufp4_simt_switch(&top_, top);
#else
    swapcontext(&context_, &to.context_);
#endif
    arrived(fake_stack_);
  }

 private:
  static fiber*& left() {
    static fiber* f = nullptr;
    return f;
  }
  /// The sanitizer reports the bounds of the previous stack; those of the program's own stack are known only from here.
  static void arrived([[maybe_unused]] void* fake_stack) {
#if defined(UFP4_SIMT_ASAN)
    __sanitizer_finish_switch_fiber(fake_stack, &left()->bottom_, &left()->bytes_);
#endif
  }
  static fiber*& entered() {
    static fiber* f = nullptr;
    return f;
  }
  static void begin() {
    void (*entry)() = nullptr;
    {
      const unwatched machinery;
      arrived(nullptr);
      entry = entered()->entry_;
    }
    entry();
    std::abort();
  }

#if defined(UFP4_SIMT_ASSEMBLY)
  void prepare() {
    auto* end = reinterpret_cast<std::uintptr_t*>(const_cast<char*>(static_cast<const char*>(bottom_)) + bytes_);
    const auto first = reinterpret_cast<std::uintptr_t>(&begin);
#if defined(__x86_64__)
    end[-1] = 0;      // where a caller's address would be: on 16 bytes less 8, as the ABI wants it on entry
    end[-2] = first;  // taken by ret
    top_ = end - 8;   // six registers below it
#else
    end[-19] = first;  // x30, of the 160 bytes that a switch leaves
    top_ = end - 20;
#endif
  }
#else
  void prepare() {
    getcontext(&context_);
    context_.uc_stack.ss_sp = const_cast<void*>(bottom_);
    context_.uc_stack.ss_size = bytes_;
    makecontext(&context_, &begin, 0);
  }
  ucontext_t context_{};
#endif

  void (*entry_)() = nullptr;
  void* top_ = nullptr;
  void* fake_stack_ = nullptr;
#if defined(UFP4_SIMT_TSAN)
#if defined(UFP4_SIMT_TSAN)
  void* watched_as_ = nullptr;
#endif
#endif
  const void* bottom_ = nullptr;
  std::size_t bytes_ = 0;
  void* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
};

}  // namespace ufp4::simt
