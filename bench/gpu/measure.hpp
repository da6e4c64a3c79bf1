// ufp4 - what the GPU benches share: the device, times of calls on rotated operands, and the lines of bench.json.
// SPDX-License-Identifier: Apache-2.0
//
// A bench prints one JSON object a line; tests/gpu/borrowed.sh collects the lines in bench.json, and page.py makes a
// page of them. Compiled by g++ with the CPU simulator a bench prints the same lines, whose times mean nothing: a
// rehearsal.
#pragma once

#if !defined(__HIPCC__) && !defined(__CUDACC__) && !defined(UFP4_SIMT_HEADER)
#define UFP4_SIMT_HEADER "gpu/simt.hpp"
#endif

#include <string_view>

// The choices of ufp4/gpu/tuning.hpp, as arguments of the bench.
namespace bench {
struct choices {
  unsigned tile_blocks = 4, cluster = 8;
  std::string_view left_out = "";  ///< names of kernels, with | between them
};
inline choices& chosen() {
  static choices c;
  return c;
}
bool leaves_out(const char* kernel);
}  // namespace bench
#define UFP4_TUNE_TILE_BLOCKS bench::chosen().tile_blocks
#define UFP4_TUNE_CLUSTER bench::chosen().cluster
#define UFP4_TUNE_LEAVES_OUT(name) bench::leaves_out(name)

#include <ufp4/gpu/buffer.hpp>
#include <ufp4/gpu/listed_kernel.hpp>
#include <ufp4/gpu/status.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#if defined(__HIPCC__)
#define RUNTIME(name) hip##name  // the two runtimes differ in their prefix
#elif defined(__CUDACC__)
#define RUNTIME(name) cuda##name
#endif

#if defined(__CUDACC__)  // of cuda_profiler_api.h, which not every CUDA toolkit has
extern "C" cudaError_t CUDARTAPI cudaProfilerStart(void);
extern "C" cudaError_t CUDARTAPI cudaProfilerStop(void);
#endif

namespace bench {

namespace gpu = ufp4::gpu;

/// Does holds(word) for one of the words, which have | between them?
template <class Holds>
bool any_word(std::string_view words, const Holds& holds) {
  for (;;) {
    const std::size_t bar = words.find('|');
    if (holds(words.substr(0, bar))) return true;
    if (bar == std::string_view::npos) return false;
    words.remove_prefix(bar + 1);
  }
}

inline bool leaves_out(const char* kernel) {
  return any_word(chosen().left_out, [&](std::string_view word) { return word == kernel; });
}

/// The arguments of a bench.
struct settings {
  bool small = false;           ///< tiny shapes and one call a row: a rehearsal
  bool once = false;            ///< one call of each row between the profiler's start and stop
  std::string_view only = "";   ///< rows whose names contain one of these words
  std::string_view label = "";  ///< "variant" of every line
  bool failed = false;          ///< any row
  gpu::stream stream{};
};
inline settings& now() {
  static settings s;
  return s;
}
inline bool is_wanted(const std::string& name) {
  return any_word(now().only, [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

inline void stop(const std::string& what) {
  std::fprintf(stderr, "bench: %s\n", what.c_str());
  std::exit(1);
}
inline void require(const gpu::status& s) {
  if (!s) stop(s.text());
}
inline void require(gpu::error e, const char* what) {
  if (e != gpu::success) stop(std::string(what) + ": " + gpu::error_text(e));
}

/// Microseconds between two points of the stream.
#if defined(RUNTIME)
class stopwatch {
 public:
  stopwatch() {
    require(RUNTIME(EventCreate)(&begin_), "an event");
    require(RUNTIME(EventCreate)(&end_), "an event");
  }
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;
  ~stopwatch() {
    (void)RUNTIME(EventDestroy)(begin_);
    (void)RUNTIME(EventDestroy)(end_);
  }
  void start() { require(RUNTIME(EventRecord)(begin_, now().stream), "an event"); }
  double elapsed() {
    require(RUNTIME(EventRecord)(end_, now().stream), "an event");
    require(RUNTIME(EventSynchronize)(end_), "a call failed");
    float ms = 0;
    require(RUNTIME(EventElapsedTime)(&ms, begin_, end_), "an event");
    return 1e3 * static_cast<double>(ms);
  }

 private:
  RUNTIME(Event_t) begin_ = nullptr, end_ = nullptr;
};
#else
class stopwatch {
 public:
  void start() { begin_ = std::chrono::steady_clock::now(); }
  double elapsed() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_;
};
#endif

inline void profile([[maybe_unused]] bool start) {
#if defined(__CUDACC__)
  (void)(start ? cudaProfilerStart() : cudaProfilerStop());
#endif
}

/// Microseconds of one call: the median of batches. call(i) uses operand set i; a batch uses each of `sets` at least
/// once, so that an operand has left the cache when its turn comes again. Three batches of one call where that is slow.
template <class Call>
double microseconds_of(int sets, const Call& call) {
  stopwatch watch;
  int next = 0;
  const auto batch = [&](int calls) {
    watch.start();
    for (int i = 0; i < calls; ++i, next = (next + 1) % sets) call(next);
    return watch.elapsed() / calls;
  };
  if (now().once) {
    (void)batch(1);
    profile(true);
    const double us = batch(1);
    profile(false);
    return us;
  }
  if (!now().small) (void)batch(1);  // the first call loads the kernel, and may check it
  const double once = std::max(batch(now().small ? 1 : 2), 0.1);
  if (now().small) return once;
  const bool slow = once * sets > 5e4;
  const int calls = slow ? 1 : std::clamp(static_cast<int>(4000.0 / once), sets, 400);
  std::vector<double> times;
  for (int i = 0; i < (slow ? 3 : 7); ++i) times.push_back(batch(calls));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// A line of bench.json: line("ceiling").text("name", "copy").number("gbs", 4000).print();
class line {
 public:
  explicit line(const char* kind) {
    text("kind", kind);
    if (!now().label.empty()) text("variant", now().label);
  }
  line& text(const char* name, std::string_view value) {
    std::string quoted = "\"";
    for (const char c : value) {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c == '\n' ? ' ' : c;
    }
    return add(name, quoted + "\"");
  }
  line& number(const char* name, double value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.6g", value);
    return add(name, value - value == 0 ? digits : "null");
  }
  line& truth(const char* name, bool value) { return add(name, value ? "true" : "false"); }
  void print() {
    std::printf("{%s}\n", all_.c_str());
    std::fflush(stdout);
  }

 private:
  line& add(const char* name, const std::string& value) {
    all_ += (all_.empty() ? "\"" : ", \"") + std::string(name) + "\": " + value;
    return *this;
  }
  std::string all_;
};

/// The time of call(i) -> status in microseconds; 0, with a line, if it failed.
template <class Call>
double timed(const std::string& name, int sets, const Call& call) {
  gpu::status wrong;
  const double us = microseconds_of(sets, [&](int i) {
    if (gpu::status s = call(i); !s) wrong = static_cast<gpu::status&&>(s);
  });
  if (wrong.ok()) return us;
  line("failed").text("name", name).text("why", wrong.text()).print();
  now().failed = true;
  return 0;
}

/// Pseudo-random floats in [-2, 2) as T, made on the device.
template <class T>
struct fill_job {
  T* out;
  std::size_t count;
  std::uint32_t seed;
};
template <class T>
UFP4_KERNEL(256)
fill(const fill_job<T> job) {
  const std::size_t step = std::size_t{gpu::grid_size().x} * 256;
  for (std::size_t i = std::size_t{gpu::block_index().x} * 256 + gpu::thread_index().x; i < job.count; i += step) {
    std::uint32_t x = static_cast<std::uint32_t>(i) * 0x9E3779B9u + job.seed * 0x85EBCA6Bu;
    x = (x ^ x >> 16) * 0x7FEB352Du;
    x = (x ^ x >> 15) * 0x846CA68Bu;
    x ^= x >> 16;
    if constexpr (sizeof(T) == 1)
      job.out[i] = static_cast<T>(x & 0xBFu);  // e4m3 below 2
    else
      job.out[i] = T(static_cast<float>(static_cast<std::int32_t>(x)) * 0x1p-30f);
  }
}
template <class T>
gpu::buffer<T> numbers(std::size_t count, std::uint32_t seed = 1) {
  gpu::buffer<T> all(count);
  require(
      gpu::launch(&fill<T>, {now().small ? 1u : 1024u}, {256}, 0, now().stream, fill_job<T>{all.data(), count, seed}),
      "fill");
  return all;
}

/// Sets the arguments; whether to print the device alone.
inline bool read_arguments(int argc, char** argv) {
  bool facts = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (word == "--small")
      now().small = true;
    else if (word == "--once")
      now().once = true;
    else if (word == "--facts")
      facts = true;
    else if (value == nullptr)
      stop(
          "usage: [--facts] [--small] [--once] [--only WORD|WORD...] [--label TEXT] [--tile-blocks N] [--cluster N] "
          "[--leave-out KERNEL|KERNEL...]");
    else if (++i; word == "--only")
      now().only = value;
    else if (word == "--label")
      now().label = value;
    else if (word == "--tile-blocks")
      chosen().tile_blocks = static_cast<unsigned>(std::atoi(value));
    else if (word == "--cluster")
      chosen().cluster = static_cast<unsigned>(std::atoi(value));
    else if (word == "--leave-out")
      chosen().left_out = value;
    else
      stop("unknown argument " + std::string(word));
  }
  return facts;
}

/// The facts of the device, or an end with the reason: 77 without a GPU, 78 if the program has no code for this one.
inline gpu::device_facts device_here() {
  gpu::device_facts facts;
  const gpu::error e = gpu::facts(facts);
  if (e == gpu::success) return facts;
#if defined(__CUDACC__)
  const bool other = e == cudaErrorNoKernelImageForDevice || e == cudaErrorInvalidDeviceFunction;
#elif defined(__HIPCC__)
  const bool other = e == hipErrorNoBinaryForGpu || e == hipErrorInvalidDeviceFunction;
#else
  const bool other = false;
#endif
  std::fprintf(stderr, "bench: %s: %s\n", other ? "no code for this GPU" : "no GPU", gpu::error_text(e));
  std::exit(other ? 78 : 77);
}

/// A kernel that copies 16 bytes a thread and step.
struct alignas(16) four_words {
  std::uint32_t words[4];
};
struct copy_job {
  const four_words* from;
  four_words* to;
  std::size_t count;
};
UFP4_KERNEL(256) copy_words(const copy_job job) {
  const std::size_t step = std::size_t{gpu::grid_size().x} * 256;
  for (std::size_t i = std::size_t{gpu::block_index().x} * 256 + gpu::thread_index().x; i < job.count; i += step)
    job.to[i] = job.from[i];
}

/// A third of a second of work, so that the first rows see the clocks of the later ones.
inline void warm_up() {
  using clock = std::chrono::steady_clock;
  const gpu::buffer<float> some = numbers<float>(now().small ? 64 : std::size_t{1} << 26);
  for (const auto end = clock::now() + std::chrono::milliseconds(now().small ? 0 : 300); clock::now() < end;) {
    require(gpu::launch(&fill<float>, {1024}, {256}, 0, now().stream, fill_job<float>{some.data(), some.size(), 1}),
            "fill");
    require(gpu::wait(now().stream), "fill");
  }
}

/// Prints the device, and how the program was compiled for it: {"kind": "device", ...}.
inline void start(int argc, char** argv) {
  const bool facts_alone = read_arguments(argc, argv);
  const gpu::device_facts facts = device_here();
  line device("device");
  device.truth("specific", facts.specific)
      .number("architecture", facts.architecture)
      .number("compiled", facts.compiled)
      .number("processors", facts.processors)
      .number("shared_bytes", static_cast<double>(facts.shared_bytes));
#if defined(RUNTIME)
#if defined(__HIPCC__)
  hipDeviceProp_t properties{};
#else
  cudaDeviceProp properties{};
#endif
  require(RUNTIME(GetDeviceProperties)(&properties, 0), "the properties of the device");
  int driver = 0, runtime = 0;
  (void)RUNTIME(DriverGetVersion)(&driver);
  (void)RUNTIME(RuntimeGetVersion)(&runtime);
  device.text("name", properties.name)
      .number("l2_bytes", properties.l2CacheSize)
      .number("memory_bytes", static_cast<double>(properties.totalGlobalMem))
      .number("driver", driver)
      .number("runtime", runtime);
  require(RUNTIME(StreamCreateWithFlags)(&now().stream, RUNTIME(StreamNonBlocking)), "a stream");
#else
  device.text("name", "CPU simulator").truth("simulated", true);
#endif
  device.print();
  if (facts_alone) std::exit(0);
}

}  // namespace bench
