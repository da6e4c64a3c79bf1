// ufp4 - the SIMT executor: the shims of gpu/vendor.hpp on the host, so that the kernel sources run here (architecture
// decision 3).
// SPDX-License-Identifier: Apache-2.0
//
// Every thread of a block is a fiber; a fiber runs until it waits for others, so there are no races between the two points
// at which it waits, and none are looked for. Blocks run one after another. Memory of the device is memory of the host.
//
// What it refuses, with a sentence and abort(): a barrier or shuffle that some thread of the block or wave never comes to, a
// kernel that leaves one while others wait, a launch beyond the limits of the device that is played.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define UFP4_DEVICE inline
#define UFP4_KERNEL(threads) inline void

namespace ufp4::simt {

using gpu::device_facts;
using gpu::index3;

[[noreturn]] inline void refuse(const char* what, unsigned thread) {
  std::fprintf(stderr, "simt: %s (thread %u)\n", what, thread);
  std::abort();
}

/// The device that is played. Tests set it.
inline device_facts& device() {
  static device_facts facts{.architecture = 80, .processors = 4, .wave = 32, .shared_bytes = 160 * 1024};
  return facts;
}

struct fiber {
  ucontext_t context{};
  std::unique_ptr<char[]> stack;
  bool done = false;
  unsigned long arrivals_block = 0, arrivals_wave = 0;
  index3 thread{};
};

/// The block that runs.
struct running_block {
  std::vector<fiber> fibers;
  ucontext_t scheduler{};
  const std::function<void()>* body = nullptr;
  unsigned current = 0;
  bool progressed = false;
  index3 block{}, threads{}, blocks{};
  unsigned char* shared = nullptr;
  struct alignas(16) slot {
    unsigned char bytes[64];
  };
  std::vector<slot> slots;  ///< what the lanes of a wave show one another
};
inline running_block& now() {
  static running_block block;
  return block;
}

inline void yield() {
  running_block& b = now();
  swapcontext(&b.fibers[b.current].context, &b.scheduler);
}

/// Waits until every thread of [first, last) has arrived as often as this one.
template <unsigned long fiber::* arrivals>
void barrier(unsigned first, unsigned last) {
  running_block& b = now();
  const unsigned me = b.current;
  const unsigned long mine = ++(b.fibers[me].*arrivals);
  b.progressed = true;
  const auto all_here = [&] {
    for (unsigned i = first; i < last; ++i) {
      if (b.fibers[i].*arrivals < mine) {
        if (b.fibers[i].done) refuse("left the kernel while others wait for it at a barrier or shuffle", i);
        return false;
      }
    }
    return true;
  };
  while (!all_here()) yield();
}

inline unsigned wave() { return static_cast<unsigned>(device().wave); }
inline unsigned threads_of_block() { return static_cast<unsigned>(now().fibers.size()); }
inline unsigned first_of_wave() { return now().current / wave() * wave(); }
inline void sync_block() { barrier<&fiber::arrivals_block>(0, threads_of_block()); }
inline void sync_wave() {
  const unsigned first = first_of_wave(), last = first + wave();
  barrier<&fiber::arrivals_wave>(first, last < threads_of_block() ? last : threads_of_block());
}

/// Every lane of the wave shows v; `read` may look at what any lane showed: read(get), get(lane).
template <class T, class Read>
auto exchange(const T& v, Read read) {
  static_assert(sizeof(T) <= sizeof(running_block::slot));
  running_block& b = now();
  std::memcpy(b.slots[b.current].bytes, &v, sizeof v);
  sync_wave();
  const unsigned first = first_of_wave();
  auto result = read([&](unsigned lane) {
    if (first + lane >= threads_of_block()) refuse("read a lane that the block does not have", b.current);
    T shown;
    std::memcpy(&shown, b.slots[first + lane].bytes, sizeof shown);
    return shown;
  });
  sync_wave();
  return result;
}

inline void enter() {
  running_block& b = now();
  (*b.body)();
  b.fibers[b.current].done = true;
  b.progressed = true;
  swapcontext(&b.fibers[b.current].context, &b.scheduler);
}

inline void start(fiber& f) {
  constexpr std::size_t stack_bytes = 256 * 1024;
  if (f.stack == nullptr) f.stack.reset(new char[stack_bytes]);
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = f.stack.get();
  f.context.uc_stack.ss_size = stack_bytes;
  makecontext(&f.context, &enter, 0);
  f.done = false;
  f.arrivals_block = f.arrivals_wave = 0;
}

inline void run_block(const std::function<void()>& body) {
  running_block& b = now();
  b.body = &body;
  for (fiber& f : b.fibers) start(f);
  for (bool live = true; live;) {
    live = b.progressed = false;
    for (unsigned i = 0; i < b.fibers.size(); ++i) {
      if (b.fibers[i].done) continue;
      live = true;
      b.current = i;
      swapcontext(&b.scheduler, &b.fibers[i].context);
    }
    if (live && !b.progressed) refuse("waits for ever at a barrier or shuffle", b.current);
  }
}

}  // namespace ufp4::simt

namespace ufp4::gpu::inline UFP4_GPU {

inline index3 thread_index() { return simt::now().fibers[simt::now().current].thread; }
inline index3 block_index() { return simt::now().block; }
inline index3 block_size() { return simt::now().threads; }
inline index3 grid_size() { return simt::now().blocks; }
inline unsigned wave_size() { return simt::wave(); }
inline unsigned lane() { return simt::now().current % simt::wave(); }
inline void sync_block() { simt::sync_block(); }
inline void sync_wave() { simt::sync_wave(); }
template <class T>
T shuffle(T v, unsigned from) {
  return simt::exchange(v, [from](auto get) { return get(from % simt::wave()); });
}
template <class T>
T shuffle_xor(T v, unsigned mask) {
  return simt::exchange(v, [mask](auto get) { return get(lane() ^ mask); });
}
inline void atomic_max(std::uint32_t* p, std::uint32_t v) { *p = *p < v ? v : *p; }
inline void atomic_add(std::uint64_t* p, std::uint64_t v) { *p += v; }
inline unsigned char* shared_memory() { return simt::now().shared; }

struct stream_tag;
using stream = stream_tag*;
enum class error { success, invalid_argument, not_supported, out_of_memory, bad_launch };
inline constexpr error success = error::success;
inline constexpr error invalid_argument = error::invalid_argument;
inline constexpr error not_supported = error::not_supported;
inline const char* error_text(error e) {
  switch (e) {
    case error::success: return "no error";
    case error::invalid_argument: return "invalid argument";
    case error::not_supported: return "operation not supported";
    case error::out_of_memory: return "out of memory";
    case error::bad_launch: return "invalid configuration argument";
  }
  return "?";
}

/// Runs the whole grid before it returns. Shared memory is a heap block of exactly that size, filled anew for every block, so
/// that a sanitizer sees what lies outside and a test what was never written.
template <class... Parameters, class... Arguments>
error launch(void (*kernel)(Parameters...), index3 blocks, index3 threads, std::size_t shared_bytes, stream,
             const Arguments&... arguments) {
  const unsigned count = threads.x * threads.y * threads.z;
  if (count == 0 || count > 1024 || blocks.x == 0 || blocks.y == 0 || blocks.z == 0 || blocks.y > 65535 ||
      blocks.z > 65535 || shared_bytes > simt::device().shared_bytes)
    return error::bad_launch;
  simt::running_block& b = simt::now();
  b.fibers = std::vector<simt::fiber>(count);
  b.slots.resize(count);
  b.threads = threads;
  b.blocks = blocks;
  for (unsigned i = 0; i < count; ++i)
    b.fibers[i].thread = {i % threads.x, i / threads.x % threads.y, i / threads.x / threads.y};
  const std::function<void()> body = [&] { kernel(static_cast<Parameters>(arguments)...); };
  for (unsigned z = 0; z < blocks.z; ++z)
    for (unsigned y = 0; y < blocks.y; ++y)
      for (unsigned x = 0; x < blocks.x; ++x) {
        b.block = {x, y, z};
        b.shared = static_cast<unsigned char*>(std::aligned_alloc(128, (shared_bytes + 127) / 128 * 128 + 128));
        std::memset(b.shared, 0xA5, (shared_bytes + 127) / 128 * 128 + 128);
        simt::run_block(body);
        std::free(b.shared);
      }
  return success;
}

inline error set_zero(void* p, std::size_t bytes, stream) {
  if (bytes != 0) std::memset(p, 0, bytes);
  return success;
}
inline error copy(void* to, const void* from, std::size_t bytes, stream) {
  if (bytes != 0) std::memmove(to, from, bytes);
  return success;
}
inline error allocate(void** p, std::size_t bytes) {
  *p = std::malloc(bytes == 0 ? 1 : bytes);
  return *p == nullptr ? error::out_of_memory : success;
}
inline error allocate(void** p, std::size_t bytes, stream) { return allocate(p, bytes); }
inline error release(void* p) {
  std::free(p);
  return success;
}
inline error release(void* p, stream) { return release(p); }
inline error wait(stream) { return success; }
inline error facts(device_facts& out) {
  out = simt::device();
  return success;
}

}  // namespace ufp4::gpu::inline UFP4_GPU
