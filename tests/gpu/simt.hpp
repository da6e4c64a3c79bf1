// ufp4 - the CPU simulator of a GPU: the shims of gpu/vendor.hpp on the host, which run the kernels' sources.
// SPDX-License-Identifier: Apache-2.0
//
// Every thread of a block is a fiber (simt_fiber.hpp) that runs until it waits for others: at a barrier, or at an
// operation of a whole wave (shuffles, and the instructions of simt_mma.hpp and simt_memory.hpp). Blocks run one after
// another. Device memory is host memory.
//
// The test chooses the order in which ready threads, and blocks, run. A kernel with all necessary barriers gives the
// same bits in every order; support::in_every_order (device.hpp) runs a test in several.
//
// | settings().order | the next thread to run                                                               |
// |------------------|--------------------------------------------------------------------------------------|
// | forwards         | the first ready lane of the first ready wave: a wave runs until a barrier            |
// | backwards        | the last ready lane of the last ready wave                                           |
// | shuffled         | a random ready lane of a random ready wave, by settings().seed                       |
//
// Environment variables of a test program: UFP4_SIMT_ORDER=forwards|backwards|shuffled:<seed> sets the order,
// UFP4_SIMT_SUMS=nearest|truncated the rounding of mma (simt_mma.hpp), and UFP4_SIMT_TARGET=gfx90a, or another AMD GPU,
// the simulated device unless the test sets one; the default is compute capability 8.0.
//
// Shared memory is a heap block of exactly the size of the launch, filled with 0xA5 for every block: a sanitizer
// detects accesses outside, and a test detects bytes that were never written.
//
// Compiled with -fsanitize=thread, it reports two accesses of threads of a block to the same bytes, one of them a
// write, without a sync_block or sync_wave between them, in whatever order they run. Shuffles and mma do not order
// memory, and accesses of different blocks are not compared.
//
// It aborts, with a message that names the thread, if a thread of a block or wave does not arrive at a barrier, shuffle
// or mma; if lanes of a wave wait at different ones; if a lane outside the block is read; and if an address is invalid
// for ldmatrix or cp.async. A launch beyond the limits of the simulated device is an error, as on a device.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpu/simt_fiber.hpp"

#define UFP4_DEVICE inline
#define UFP4_HAS_ADD_DOWN
#define UFP4_KERNEL(...) inline void
#define UFP4_UNROLL

namespace ufp4::simt {

using gpu::device_facts;
using gpu::index3;

[[noreturn]] inline void reject_setting(const char* name, const char* value) {
  std::fprintf(stderr, "simt: %s=%s is none of the values that simt.hpp lists\n", name, value);
  std::abort();
}

/// AMD's numbers are hexadecimal, from gfx900 on; NVIDIA's stay below.
inline bool is_amd(const device_facts& facts) { return facts.architecture >= 0x900; }

/// An AMD GPU with the properties of its ISA document: waves of 64 on CDNA, 32 on RDNA; 64 KiB for a block, 160 on
/// gfx950.
inline device_facts amd_device(int architecture) {
  return {.architecture = architecture,
          .processors = 4,
          .wave = architecture < 0x1000 ? 64 : 32,
          .shared_bytes = (architecture == 0x950 ? 160u : 64u) * 1024};
}

inline device_facts device_of_environment() {
  const char* target = std::getenv("UFP4_SIMT_TARGET");
  if (target == nullptr) return {.architecture = 80, .processors = 4, .wave = 32, .shared_bytes = 160 * 1024};
  char* end = nullptr;
  const auto number = std::strncmp(target, "gfx", 3) == 0 ? std::strtol(target + 3, &end, 16) : 0;
  if (number < 0x900 || *end != '\0') reject_setting("UFP4_SIMT_TARGET", target);
  return amd_device(static_cast<int>(number));
}

/// The simulated device. Tests set it.
inline device_facts& device() {
  static device_facts facts = device_of_environment();
  return facts;
}

/// The numbers of the host's calls so far, without the memory of launches.
struct host_calls {
  unsigned long allocations = 0, waits = 0, launches = 0;
};
inline host_calls& calls() {
  static host_calls so_far;
  return so_far;
}

/// The kernels that load() or a launch loaded. Tests clear it.
inline std::set<const void*>& loaded_kernels() {
  static std::set<const void*> so_far;
  return so_far;
}

enum class thread_order { forwards, backwards, shuffled };
/// The rounding of binary32 sums of mma: see simt_mma.hpp.
enum class mma_sums { nearest, truncated };

struct simulator_settings {
  thread_order order = thread_order::forwards;
  std::uint64_t seed = 1;
  mma_sums sums = mma_sums::nearest;
  /// As while a device records a graph: what allocates, waits or launches a kernel that was not loaded is an error.
  /// What is launched runs nevertheless.
  bool capturing = false;
};

inline simulator_settings settings_of_environment() {
  simulator_settings s;
  if (const char* o = std::getenv("UFP4_SIMT_ORDER")) {
    if (std::strcmp(o, "backwards") == 0)
      s.order = thread_order::backwards;
    else if (std::strncmp(o, "shuffled:", 9) == 0)
      s.order = thread_order::shuffled, s.seed = std::strtoull(o + 9, nullptr, 10);
    else if (std::strcmp(o, "forwards") != 0)
      reject_setting("UFP4_SIMT_ORDER", o);
  }
  if (const char* m = std::getenv("UFP4_SIMT_SUMS")) {
    if (std::strcmp(m, "truncated") == 0)
      s.sums = mma_sums::truncated;
    else if (std::strcmp(m, "nearest") != 0)
      reject_setting("UFP4_SIMT_SUMS", m);
  }
  return s;
}

/// The settings of the following launches. Tests set them.
inline simulator_settings& settings() {
  static simulator_settings s = settings_of_environment();
  return s;
}

inline constexpr unsigned max_threads = 1024, max_wave = 64;
inline constexpr unsigned char poison = 0xA5;      ///< the content of shared memory before the first write
inline constexpr std::size_t exchange_bytes = 96;  ///< that a lane can pass to the others

/// A copy to shared memory that has not finished (simt_memory.hpp).
struct copy_under_way {
  void* to;
  const void* from;
  unsigned bytes;
  bool valid;
  unsigned long group;
};

/// What TMA needs to know of a matrix (simt_tma.hpp). Rows are packed.
struct tensor_map {
  const unsigned char* data = nullptr;
  std::size_t rows = 0, row_bytes = 0;
  unsigned box_rows = 0, box_bytes = 0, element_bytes = 1;
  unsigned swizzled_row = 0;  ///< 64 or 128: the bytes of a box's row, swizzled

  bool valid() const {
    const unsigned box_cols = box_bytes / element_bytes;
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && rows != 0 && row_bytes != 0 && row_bytes % 16 == 0 &&
           box_rows != 0 && box_rows <= 256 && box_cols != 0 && box_cols <= 256 && box_bytes % 16 == 0 &&
           (swizzled_row == 0 || box_bytes <= swizzled_row);
  }
};
struct box_under_way {
  tensor_map map;
  std::size_t first_byte, first_row;
  std::uint32_t to;
};
/// A barrier in shared memory: the arrivals and bytes that its phase waits for, and the threads that wait for it.
struct mbarrier {
  unsigned expected = 0, pending = 0;
  std::uint32_t bytes = 0;
  unsigned long phase = 0;
  std::vector<box_under_way> copies;
  std::vector<unsigned> waiting;
};

struct simt_thread {
  explicit simt_thread(void (*entry)()) : stack(entry) {}

  fiber stack;
  index3 index{};
  const char* waits_at = nullptr;  ///< null: running or ready
  bool left = false;               ///< whether the thread has left the kernel, in this block
  std::vector<copy_under_way> copies;
  unsigned long copy_group = 0;
};

/// The threads of a wave. Bit l of a mask is lane l.
struct simt_wave {
  std::uint64_t all = 0, ready = 0, arrived = 0;
  const char* meets_at = nullptr;
  unsigned long barriers = 0;
  char barrier[2];  ///< the address for happens_before, of even and odd barriers: a lane may arrive at the next barrier
                    ///< before another has left this one
  alignas(16) unsigned char shown[max_wave * exchange_bytes], given[max_wave * exchange_bytes];
};

/// The running block, and the stacks, which are reused for the next block.
struct machine {
  fiber host;
  std::vector<std::unique_ptr<simt_thread>> threads;
  std::vector<std::unique_ptr<simt_wave>> waves;
  unsigned count = 0, wave = 32, current = 0, live = 0, at_block_barrier = 0;
  std::uint64_t ready_waves = 0;
  std::uint64_t random = 1;
  index3 block{}, block_size{}, blocks{};
  unsigned char* shared = nullptr;
  std::size_t shared_bytes = 0;
  void (*body)(void*) = nullptr;
  void* body_arguments = nullptr;
  unsigned long barriers = 0;
  char barrier[2] = {}, begin = 0, end = 0;
  std::map<std::uint32_t, mbarrier> mbarriers;  ///< by address in the shared state space
};
inline machine the_machine;

inline simt_thread& thread_now() { return *the_machine.threads[the_machine.current]; }
inline simt_wave& wave_now() { return *the_machine.waves[the_machine.current / the_machine.wave]; }
inline unsigned lane_now() { return the_machine.current % the_machine.wave; }
inline unsigned lanes_of(const simt_wave& w) { return static_cast<unsigned>(__builtin_popcountll(w.all)); }

struct thread_name {
  char text[96];
  explicit thread_name(unsigned thread) {
    const machine& m = the_machine;
    const index3 t = m.threads[thread]->index;
    std::snprintf(text, sizeof text, "thread (%u, %u, %u) of block (%u, %u, %u)", t.x, t.y, t.z, m.block.x, m.block.y,
                  m.block.z);
  }
};

[[noreturn]] inline void reject(unsigned thread, const char* what) {
  std::fprintf(stderr, "simt: %s %s\n", thread_name(thread).text, what);
  std::abort();
}
[[noreturn]] inline void reject(const char* what) { reject(the_machine.current, what); }

/// No thread is ready: one waits for another that never arrives.
[[noreturn]] inline void reject_waiting(unsigned waiting, unsigned missing) {
  const simt_thread& other = *the_machine.threads[missing];
  std::fprintf(stderr, "simt: %s waits at %s for %s, which %s%s\n", thread_name(waiting).text,
               the_machine.threads[waiting]->waits_at, thread_name(missing).text,
               other.left ? "left the kernel" : "waits at ", other.left ? "" : other.waits_at);
  std::abort();
}

[[noreturn]] inline void reject_deadlock() {
  const machine& m = the_machine;
  for (unsigned w = 0; w < m.waves.size(); ++w) {
    const simt_wave& wave = *m.waves[w];
    if (wave.arrived != 0)
      reject_waiting(w * m.wave + static_cast<unsigned>(__builtin_ctzll(wave.arrived)),
                     w * m.wave + static_cast<unsigned>(__builtin_ctzll(wave.all & ~wave.arrived)));
  }
  unsigned waiting = 0, missing = 0;
  for (unsigned i = 0; i < m.count; ++i) (m.threads[i]->left ? missing : waiting) = i;
  reject_waiting(waiting, missing);
}

/// xorshift64*, which is random enough for the order of threads.
inline unsigned random_below(unsigned n) {
  std::uint64_t& x = the_machine.random;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  return static_cast<unsigned>(((x * 0x2545F4914F6CDD1Du) >> 32) * n >> 32);
}

inline unsigned choose_bit(std::uint64_t mask) {
  if (settings().order == thread_order::forwards) return static_cast<unsigned>(__builtin_ctzll(mask));
  if (settings().order == thread_order::backwards) return 63 - static_cast<unsigned>(__builtin_clzll(mask));
  for (unsigned skip = random_below(static_cast<unsigned>(__builtin_popcountll(mask))); skip != 0; --skip)
    mask &= mask - 1;
  return static_cast<unsigned>(__builtin_ctzll(mask));
}

/// Takes the next thread to run.
inline unsigned take_ready() {
  machine& m = the_machine;
  if (m.ready_waves == 0) reject_deadlock();
  const unsigned w = choose_bit(m.ready_waves);
  simt_wave& wave = *m.waves[w];
  const unsigned lane = choose_bit(wave.ready);
  wave.ready &= ~(std::uint64_t{1} << lane);
  if (wave.ready == 0) m.ready_waves &= ~(std::uint64_t{1} << w);
  return w * m.wave + lane;
}

inline void make_ready(unsigned w) {
  the_machine.waves[w]->ready = the_machine.waves[w]->all;
  the_machine.ready_waves |= std::uint64_t{1} << w;
}

/// Lets other threads run until this one is chosen again.
inline void give_way() {
  machine& m = the_machine;
  const unsigned me = m.current;
  m.current = take_ready();
  if (m.current != me) m.threads[me]->stack.switch_to(m.threads[m.current]->stack);
}

/// An operation of all lanes of a wave: each passes `mine`, the last one to arrive does work(shown, given, lanes) for
/// all, and each returns its element of `given`. `where` names the operation, which must be the same for all lanes.
template <class Given, class Shown, class Work>
Given meet(const char* where, const Shown& mine, Work work) {
  static_assert(sizeof(Shown) <= exchange_bytes && sizeof(Given) <= exchange_bytes);
  static_assert(std::is_trivially_copyable_v<Shown> && std::is_trivially_copyable_v<Given>);
  const unwatched machinery;
  simt_wave& w = wave_now();
  const unsigned lane = lane_now();
  if (w.arrived == 0) w.meets_at = where;
  if (std::strcmp(w.meets_at, where) != 0) {
    const unsigned other = the_machine.current - lane + static_cast<unsigned>(__builtin_ctzll(w.arrived));
    std::fprintf(stderr, "simt: %s arrives at %s while %s, of the same wave, waits at %s\n",
                 thread_name(the_machine.current).text, where, thread_name(other).text, w.meets_at);
    std::abort();
  }
  std::memcpy(w.shown + lane * sizeof mine, static_cast<const void*>(&mine), sizeof mine);
  w.arrived |= std::uint64_t{1} << lane;
  thread_now().waits_at = where;
  if (w.arrived == w.all) {
    const unsigned lanes = lanes_of(w);
    Shown shown[max_wave];
    Given given[max_wave];
    std::memcpy(static_cast<void*>(shown), w.shown, lanes * sizeof(Shown));
    work(static_cast<const Shown*>(shown), static_cast<Given*>(given), lanes);
    std::memcpy(w.given, given, lanes * sizeof(Given));
    w.arrived = 0;
    make_ready(the_machine.current / the_machine.wave);
  }
  give_way();
  thread_now().waits_at = nullptr;
  Given result;
  std::memcpy(&result, w.given + lane * sizeof result, sizeof result);
  return result;
}

inline void sync_block() {
  const unwatched machinery;
  machine& m = the_machine;
  char* const barrier = &m.barrier[m.barriers % 2];
  happens_before(barrier);
  thread_now().waits_at = "sync_block";
  if (++m.at_block_barrier == m.count) {
    m.at_block_barrier = 0;
    ++m.barriers;
    for (unsigned w = 0; w < m.waves.size(); ++w) make_ready(w);
  }
  give_way();
  thread_now().waits_at = nullptr;
  happens_after(barrier);
}

inline void sync_wave() {
  simt_wave& w = wave_now();
  char* const barrier = &w.barrier[w.barriers % 2];
  happens_before(barrier);
  meet<char>("sync_wave", char{}, [&](const char*, char*, unsigned) { ++w.barriers; });
  happens_after(barrier);
}

/// The function of a thread's stack: runs one kernel after another.
inline void live_as_thread() {
  for (;;) {
    machine& m = the_machine;
    happens_after(&m.begin);
    m.body(m.body_arguments);
    happens_before(&m.end);
    const unwatched machinery;
    simt_thread& me = thread_now();
    me.left = true;
    if (--m.live == 0) {
      me.stack.switch_to(m.host);
    } else {
      m.current = take_ready();
      me.stack.switch_to(m.threads[m.current]->stack);
    }
  }
}

inline void run_block() {
  machine& m = the_machine;
  for (unsigned i = 0; i < m.count; ++i) {
    m.threads[i]->left = false;
    m.threads[i]->copies.clear();
    m.threads[i]->copy_group = 0;
  }
  m.live = m.count;
  m.at_block_barrier = 0;
  m.mbarriers.clear();
  if (m.shared_bytes != 0) std::memset(m.shared, poison, m.shared_bytes);
  for (unsigned w = 0; w < m.waves.size(); ++w) make_ready(w);
  m.current = take_ready();
  happens_before(&m.begin);
  m.host.switch_to(m.threads[m.current]->stack);
  happens_after(&m.end);
}

/// Makes the threads and waves of blocks of that size.
inline void set_block_size(index3 size) {
  machine& m = the_machine;
  m.block_size = size;
  m.count = size.x * size.y * size.z;
  m.wave = static_cast<unsigned>(device().wave);
  while (m.threads.size() < m.count) m.threads.push_back(std::make_unique<simt_thread>(&live_as_thread));
  for (unsigned i = 0; i < m.count; ++i) m.threads[i]->index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
  m.waves.resize((m.count + m.wave - 1) / m.wave);
  for (unsigned w = 0; w < m.waves.size(); ++w) {
    if (m.waves[w] == nullptr) m.waves[w] = std::make_unique<simt_wave>();
    const unsigned lanes = m.count - w * m.wave < m.wave ? m.count - w * m.wave : m.wave;
    m.waves[w]->all = ~std::uint64_t{0} >> (64 - lanes);
    m.waves[w]->arrived = 0;
  }
}

inline bool can_launch(index3 blocks, index3 threads, std::size_t shared_bytes) {
  const std::uint64_t count = std::uint64_t{threads.x} * threads.y * threads.z;
  return threads.x <= max_threads && threads.y <= max_threads && threads.z <= 64 && count != 0 &&
         count <= max_threads && blocks.x != 0 && blocks.x <= 0x7FFFFFFF && blocks.y != 0 && blocks.y <= 65535 &&
         blocks.z != 0 && blocks.z <= 65535 && shared_bytes <= device().shared_bytes;
}

/// The blocks of a grid in the order of settings(): shuffled, they come by a stride that is prime to their number.
inline void run_grid(index3 blocks) {
  machine& m = the_machine;
  const std::uint64_t count = std::uint64_t{blocks.x} * blocks.y * blocks.z;
  m.random = (settings().seed + 1) * 0x9E3779B97F4A7C15u | 1;
  std::uint64_t stride = 1, at = 0;
  if (settings().order == thread_order::backwards) stride = count - 1, at = count - 1;
  if (settings().order == thread_order::shuffled) {
    const auto gcd = [](std::uint64_t a, std::uint64_t b) {
      while (b != 0) a = std::exchange(b, a % b);
      return a;
    };
    for (stride = random_below(0x7FFFFFFF) % count; gcd(stride, count) != 1;) ++stride;
    at = random_below(0x7FFFFFFF) % count;
  }
  for (std::uint64_t i = 0; i < count; ++i, at = (at + stride) % count) {
    m.block = {static_cast<unsigned>(at % blocks.x), static_cast<unsigned>(at / blocks.x % blocks.y),
               static_cast<unsigned>(at / blocks.x / blocks.y)};
    run_block();
  }
}

}  // namespace ufp4::simt

namespace ufp4::gpu::inline UFP4_GPU {

inline index3 thread_index() { return simt::thread_now().index; }
inline index3 block_index() { return simt::the_machine.block; }
inline index3 block_size() { return simt::the_machine.block_size; }
inline index3 grid_size() { return simt::the_machine.blocks; }
inline unsigned wave_size() { return simt::the_machine.wave; }
inline unsigned lane() { return simt::lane_now(); }
inline void sync_block() { simt::sync_block(); }
inline void sync_wave() { simt::sync_wave(); }

template <class T>
T shuffle(T v, unsigned from) {
  static_assert(sizeof(T) % 4 == 0, "the hardware shuffles words of 32 bits");
  struct shown {
    T v;
    unsigned from;
  };
  return simt::meet<T>("a shuffle", shown{v, from % simt::the_machine.wave},
                       [](const shown* s, T* given, unsigned lanes) {
                         const unsigned first = simt::the_machine.current - simt::lane_now();
                         for (unsigned l = 0; l < lanes; ++l) {
                           if (s[l].from >= lanes) simt::reject(first + l, "reads a lane that its wave does not have");
                           given[l] = s[s[l].from].v;
                         }
                       });
}
template <class T>
T shuffle_xor(T v, unsigned mask) {
  if (mask >= simt::the_machine.wave) simt::reject("shuffles with a mask that leads out of the wave");
  return shuffle(v, lane() ^ mask);
}

/// The largest float that is not above x.
inline float rounded_down(double x) {
  const float nearest = static_cast<float>(x);
  return static_cast<double>(nearest) > x ? std::nextafterf(nearest, -std::numeric_limits<float>::infinity()) : nearest;
}
/// Exact in double before they round: sums of numbers up to 2^24 that differ by less than 2^29, or by so much that only
/// the sign of the smaller one counts.
inline float device_add_down(float x, float y) { return rounded_down(double{x} + double{y}); }
inline float device_fma_down(float a, float b, float c) { return rounded_down(double{a} * double{b} + double{c}); }

inline void atomic_max(std::uint32_t* p, std::uint32_t v) {
  std::uint32_t is = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (is < v && !__atomic_compare_exchange_n(p, &is, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}
inline void atomic_add(std::uint64_t* p, std::uint64_t v) { __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
inline unsigned char* shared_memory() { return simt::the_machine.shared; }

struct stream_tag;
using stream = stream_tag*;
enum class error { success, invalid_argument, not_supported, out_of_memory, bad_launch, not_loaded, forbidden };
inline target_spelling target_spelling_of(int architecture) {
  return architecture >= 0x900 ? target_spelling{"gfx", 16} : target_spelling{"sm_", 10};
}
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
    case error::not_loaded: return "a kernel was not loaded before the capture";
    case error::forbidden: return "operation not permitted when stream is capturing";
  }
  return "?";
}

/// As on a device, a kernel's first launch loads it.
inline error load(const void* kernel) {
  simt::loaded_kernels().insert(kernel);
  return success;
}

/// Runs the whole grid before it returns, also in a capture.
template <class... Parameters, class... Arguments>
error launch(void (*kernel)(Parameters...), index3 blocks, index3 threads, std::size_t shared_bytes, stream,
             const Arguments&... arguments) {
  static_assert((sizeof(Parameters) + ... + 0) <= 4096, "what a kernel of any CUDA takes as parameters");
  if (!simt::can_launch(blocks, threads, shared_bytes)) return error::bad_launch;
  const auto* entry = reinterpret_cast<const void*>(kernel);
  if (simt::settings().capturing && !simt::loaded_kernels().contains(entry)) return error::not_loaded;
  (void)load(entry);
  const simt::unwatched machinery;
  simt::machine& m = simt::the_machine;
  if (m.live != 0) simt::reject("launches a kernel");
  simt::set_block_size(threads);
  m.blocks = blocks;
  const auto release = [](unsigned char* p) { ::operator delete(p, std::align_val_t{128}); };
  const std::unique_ptr<unsigned char, decltype(release)> shared(
      static_cast<unsigned char*>(::operator new(shared_bytes, std::align_val_t{128})), release);
  m.shared = shared.get();
  m.shared_bytes = shared_bytes;
  auto run = [&, parameters = std::tuple<Parameters...>(static_cast<Parameters>(arguments)...)] {
    std::apply(kernel, parameters);
  };
  m.body = [](void* f) { (*static_cast<decltype(run)*>(f))(); };
  m.body_arguments = &run;
  ++simt::calls().launches;
  simt::run_grid(blocks);
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
  ++simt::calls().allocations;
  if (simt::settings().capturing) return error::forbidden;
  return posix_memalign(p, 256, bytes == 0 ? 1 : bytes) == 0 ? success : error::out_of_memory;  // as a device's
}
inline error release(void* p) {
  std::free(p);
  return success;
}
inline error wait(stream) {
  ++simt::calls().waits;
  if (simt::settings().capturing) return error::forbidden;
  return success;
}
inline error facts(device_facts& out) {
  out = simt::device();
  return success;
}

}  // namespace ufp4::gpu::inline UFP4_GPU

#include "gpu/simt_memory.hpp"
#include "gpu/simt_mma.hpp"
#include "gpu/simt_tma.hpp"

// after simt_mma.hpp, whose elements it takes
#include "gpu/simt_mfma.hpp"
#include "gpu/simt_mfma_scale.hpp"
