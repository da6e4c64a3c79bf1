// ufp4 - the CPU simulator behaves as gpu/vendor.hpp describes, and rejects what would be undefined on a device.
// SPDX-License-Identifier: Apache-2.0
// ctest: threads simulator
#include "gpu/device.hpp"

#include "support/catch.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <random>
#include <ufp4/cuda/block_mma_sm120.hpp>
#include <ufp4/cuda/memory_sm80.hpp>
#include <ufp4/cuda/mma_sm80.hpp>
#include <ufp4/cuda/tma_sm90.hpp>
#include <vector>

using namespace ufp4;

namespace {

/// The device and the settings of one test case.
struct simulated {
  gpu::device_facts device = simt::device();
  simt::simulator_settings settings = simt::settings();
  simulated() = default;
  explicit simulated(int architecture, int wave = 32) {
    simt::device().architecture = architecture;
    simt::device().wave = wave;
  }
  simulated(const simulated&) = delete;
  simulated& operator=(const simulated&) = delete;
  ~simulated() {
    simt::device() = device;
    simt::settings() = settings;
  }
};

struct job {
  std::uint32_t* out = nullptr;
  unsigned n = 0;
};

/// What `work` wrote to stderr, in another process.
template <class Work>
std::string rejection_of(Work work) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], 2);
    simt::the_machine.threads.clear();  // ThreadSanitizer watches those of the parent, and no new ones
    std::signal(SIGABRT, SIG_DFL);      // Catch2's handler would tell of a failed test
    work();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char piece[256];
  for (ssize_t n; (n = read(ends[0], piece, sizeof piece)) > 0;) text.append(piece, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return !text.empty() ? text : WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "(nothing)" : "(ended by force)";
}

/// Emulators of other processors add lines of their own to the simulator's message.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

template <class Kernel>
std::string rejection_of_kernel(Kernel kernel, gpu::index3 blocks, gpu::index3 threads, std::size_t shared_bytes = 0) {
  std::vector<std::uint32_t> out(4096);
  return first_line(rejection_of([&] {
    if (gpu::launch(kernel, blocks, threads, shared_bytes, nullptr, job{out.data(), 0}) != gpu::success) _exit(1);
  }));
}

// ---- Who runs where ----

UFP4_KERNEL(1024) count_threads(const job job) {
  const gpu::index3 t = gpu::thread_index(), b = gpu::block_index(), size = gpu::block_size(), grid = gpu::grid_size();
  const unsigned block = b.x + grid.x * (b.y + grid.y * b.z), thread = t.x + size.x * (t.y + size.y * t.z);
  ++job.out[block * size.x * size.y * size.z + thread];
  const bool inside = t.x < size.x && t.y < size.y && t.z < size.z && b.x < grid.x && b.y < grid.y && b.z < grid.z;
  if (!inside || gpu::lane() != thread % gpu::wave_size()) job.out[0] = 99;
}

}  // namespace

TEST_CASE("every thread of every block runs once, in every order", "[gpu]") {
  const simulated here(80, GENERATE(32, 64));
  support::in_every_order([&](const char* order) {
    CAPTURE(order);
    for (const gpu::index3 threads : {gpu::index3{1}, {33}, {5, 7, 3}, {1024}, {32, 32}})
      for (const gpu::index3 blocks : {gpu::index3{1}, {7}, {3, 2, 4}}) {
        const unsigned n = threads.x * threads.y * threads.z * blocks.x * blocks.y * blocks.z;
        std::vector<std::uint32_t> out(n);
        REQUIRE(gpu::launch(count_threads, blocks, threads, 0, nullptr, job{out.data(), n}) == gpu::success);
        REQUIRE(out == std::vector<std::uint32_t>(n, 1));
      }
  });
}

TEST_CASE("a launch beyond the limits of the device is an error, and nothing runs", "[gpu]") {
  const simulated here;
  simt::device().shared_bytes = 4096;
  std::uint32_t out = 0;
  const auto launch = [&](gpu::index3 blocks, gpu::index3 threads, std::size_t shared) {
    return gpu::launch(count_threads, blocks, threads, shared, nullptr, job{&out, 0});
  };
  REQUIRE(launch({1}, {1025}, 0) == gpu::error::bad_launch);
  REQUIRE(launch({1}, {0}, 0) == gpu::error::bad_launch);
  REQUIRE(launch({1}, {1, 1, 65}, 0) == gpu::error::bad_launch);
  REQUIRE(launch({1}, {1u << 16, 1u << 16}, 0) == gpu::error::bad_launch);
  REQUIRE(launch({0}, {1}, 0) == gpu::error::bad_launch);
  REQUIRE(launch({1, 65536}, {1}, 0) == gpu::error::bad_launch);
  REQUIRE(launch({1, 1, 65536}, {1}, 0) == gpu::error::bad_launch);
  REQUIRE(launch({1}, {1}, 4097) == gpu::error::bad_launch);
  REQUIRE(out == 0);
  REQUIRE(launch({1}, {1}, 4096) == gpu::success);
  REQUIRE(out == 1);
}

// ---- Shuffles ----

namespace {

struct four_words {
  std::uint32_t w[4];
};

UFP4_KERNEL(64) shuffle_all(const job job) {
  const unsigned me = gpu::lane(), wave = gpu::wave_size();
  bool right = true;
  for (unsigned mask = 0; mask < wave; ++mask) {
    const double v = gpu::shuffle_xor(1000.0 * mask + me, mask);
    right = right && v == 1000.0 * mask + (me ^ mask);
  }
  for (unsigned step = 0; step < 2 * wave; ++step) {
    const four_words v = gpu::shuffle(four_words{{me, me + 1, me + 2, me + 3}}, me * 5 + step);
    for (unsigned i = 0; i < 4; ++i) right = right && v.w[i] == (me * 5 + step) % wave + i;
  }
  job.out[gpu::thread_index().x] = right ? 1 : 0;
}

}  // namespace

TEST_CASE("a shuffle returns the value of the other lane, in waves of 32 and 64", "[gpu]") {
  const simulated here(80, GENERATE(32, 64));
  support::in_every_order([&](const char* order) {
    CAPTURE(order);
    std::vector<std::uint32_t> out(64);
    REQUIRE(gpu::launch(shuffle_all, {1}, {64}, 0, nullptr, job{out.data(), 64}) == gpu::success);
    REQUIRE(out == std::vector<std::uint32_t>(64, 1));
  });
}

// ---- Barriers and shared memory ----

namespace {

/// Every thread sums the values that all threads wrote before the barrier; after a second barrier all write again.
UFP4_KERNEL(1024) sum_rounds(const job job) {
  auto* shared = reinterpret_cast<std::uint32_t*>(gpu::shared_memory());
  const unsigned me = gpu::thread_index().x, n = gpu::block_size().x;
  std::uint32_t sum = 0;
  for (unsigned round = 0; round < 5; ++round) {
    shared[me] = me * round;
    gpu::sync_block();
    for (unsigned i = 0; i < n; ++i) sum += shared[i];
    gpu::sync_block();
  }
  job.out[me] = sum;
}

/// The same without the second barrier, or without the first.
template <bool first>
UFP4_KERNEL(1024)
sum_rounds_forgetting(const job job) {
  auto* shared = reinterpret_cast<std::uint32_t*>(gpu::shared_memory());
  const unsigned me = gpu::thread_index().x, n = gpu::block_size().x;
  std::uint32_t sum = 0;
  for (unsigned round = 0; round < 5; ++round) {
    shared[me] = me * round;
    if (first) gpu::sync_block();
    for (unsigned i = 0; i < n; ++i) sum += shared[i];
    if (!first) gpu::sync_block();
  }
  job.out[me] = sum;
}

/// A neighbour's word within the wave, with and without the barrier of the wave.
template <bool barrier>
UFP4_KERNEL(64)
swap_within_wave(const job job) {
  auto* shared = reinterpret_cast<std::uint32_t*>(gpu::shared_memory());
  const unsigned me = gpu::thread_index().x;
  shared[me] = me;
  if (barrier) gpu::sync_wave();
  job.out[me] = shared[me ^ 1u];
}

/// Blocks that write one word: who comes last wins.
[[maybe_unused]] UFP4_KERNEL(32) overwrite(const job job) { job.out[0] = gpu::block_index().x; }

template <class Kernel>
std::vector<std::vector<std::uint32_t>> results_in_every_order(Kernel kernel, unsigned blocks, unsigned threads) {
  std::vector<std::vector<std::uint32_t>> all;
  support::in_every_order([&](const char*) {
    all.emplace_back(threads);
    REQUIRE(gpu::launch(kernel, {blocks}, {threads}, threads * 4, nullptr, job{all.back().data(), 0}) == gpu::success);
  });
  return all;
}
bool all_equal(const std::vector<std::vector<std::uint32_t>>& all) {
  for (const auto& one : all)
    if (one != all.front()) return false;
  return true;
}

}  // namespace

TEST_CASE("a barrier waits for all threads, so sums are the same in every order", "[gpu]") {
  for (const unsigned n : {1u, 31u, 32u, 96u, 1000u}) {
    const auto all = results_in_every_order(sum_rounds, 1, n);
    REQUIRE(all_equal(all));
    REQUIRE(all.front() == std::vector<std::uint32_t>(n, 10 * (n * (n - 1) / 2)));
  }
  const auto swapped = results_in_every_order(swap_within_wave<true>, 1, 64);
  REQUIRE(all_equal(swapped));
  for (unsigned i = 0; i < 64; ++i) REQUIRE(swapped.front()[i] == (i ^ 1u));
}

#if !defined(UFP4_SIMT_TSAN)  // which would report the races of these two
TEST_CASE("without a barrier results depend on the order of threads", "[gpu]") {
  REQUIRE_FALSE(all_equal(results_in_every_order(sum_rounds_forgetting<true>, 1, 64)));
  REQUIRE_FALSE(all_equal(results_in_every_order(sum_rounds_forgetting<false>, 1, 64)));
  REQUIRE_FALSE(all_equal(results_in_every_order(swap_within_wave<false>, 1, 64)));
  REQUIRE_FALSE(all_equal(results_in_every_order(overwrite, 5, 32)));
}

TEST_CASE("the shuffled order depends on the seed alone", "[gpu]") {
  const simulated here;
  const auto run = [](std::uint64_t seed) {
    simt::settings().order = simt::thread_order::shuffled;
    simt::settings().seed = seed;
    std::vector<std::uint32_t> out(64);
    REQUIRE(gpu::launch(sum_rounds_forgetting<true>, {1}, {64}, 256, nullptr, job{out.data(), 0}) == gpu::success);
    return out;
  };
  REQUIRE(run(1) == run(1));
  REQUIRE(run(1) != run(2));
}
#endif

#if defined(UFP4_SIMT_TSAN)

// Hidden: each is run in a process of its own, since ThreadSanitizer does not watch the child of a fork.
TEST_CASE("race: no first barrier", "[.]") { (void)results_in_every_order(sum_rounds_forgetting<true>, 2, 64); }
TEST_CASE("race: no second barrier", "[.]") { (void)results_in_every_order(sum_rounds_forgetting<false>, 2, 64); }
TEST_CASE("race: no barrier of the wave", "[.]") { (void)results_in_every_order(swap_within_wave<false>, 2, 64); }
TEST_CASE("race: no race", "[.]") {
  (void)results_in_every_order(sum_rounds, 2, 100);
  (void)results_in_every_order(swap_within_wave<true>, 2, 64);
}

TEST_CASE("ThreadSanitizer reports a missing barrier, and nothing in a correct kernel", "[gpu]") {
  char path[4096] = {};
  REQUIRE(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
  const auto races = [&](const char* name) {
    const std::string command = std::string(path) + " 'race: " + name + "' 2>&1";
    std::FILE* const out = popen(command.c_str(), "r");
    REQUIRE(out != nullptr);
    std::string text;
    char piece[256];
    for (std::size_t n; (n = std::fread(piece, 1, sizeof piece, out)) > 0;) text.append(piece, n);
    pclose(out);
    REQUIRE(text.find("All tests passed") != std::string::npos);
    return text.find("ThreadSanitizer: data race") != std::string::npos;
  };
  REQUIRE(races("no first barrier"));
  REQUIRE(races("no second barrier"));
  REQUIRE(races("no barrier of the wave"));
  REQUIRE_FALSE(races("no race"));
}

#endif

namespace {

UFP4_KERNEL(32) read_unwritten(const job job) {
  std::memcpy(&job.out[gpu::lane()], gpu::shared_memory() + 4 * gpu::lane(), 4);
  std::memset(gpu::shared_memory() + 4 * gpu::lane(), 1, 4);
}

[[maybe_unused]] UFP4_KERNEL(1) write_shared(const job job) { gpu::shared_memory()[job.n] = 1; }

}  // namespace

TEST_CASE("shared memory is aligned to 128 bytes and poisoned again for every block", "[gpu]") {
  std::vector<std::uint32_t> out(32);
  REQUIRE(gpu::launch(read_unwritten, {3}, {32}, 128, nullptr, job{out.data(), 0}) == gpu::success);
  REQUIRE(out == std::vector<std::uint32_t>(32, 0xA5A5A5A5u));
  REQUIRE(reinterpret_cast<std::uintptr_t>(simt::the_machine.shared) % 128 == 0);
}

TEST_CASE("a sanitizer detects an access behind shared memory of any size", "[gpu]") {
#if defined(UFP4_SIMT_ASAN)
  for (const unsigned bytes : {1u, 13u, 128u, 1000u})
    for (const unsigned beyond : {0u, 1u}) {
      const std::string text = rejection_of([&] {
        if (gpu::launch(write_shared, {1}, {1}, bytes, nullptr, job{nullptr, bytes - 1 + beyond}) != gpu::success)
          _exit(1);
      });
      CAPTURE(bytes, text);
      REQUIRE((text.find("heap-buffer-overflow") != std::string::npos) == (beyond == 1));
    }
#else
  support::skip("this program is built without AddressSanitizer");
#endif
}

// ---- Copies ----

namespace {

/// out[0..3]: before the first wait, after wait<1>, after the wait for all, of what was never committed.
UFP4_KERNEL(1) watch_copies(const job job) {
  auto* shared = reinterpret_cast<std::uint32_t*>(gpu::shared_memory());
  shared[0] = shared[1] = shared[2] = 7;
  gpu::mma::copy_async4(shared, job.out + 4, true);
  gpu::mma::commit_copies();
  gpu::mma::copy_async4(shared + 1, job.out + 5, true);
  gpu::mma::commit_copies();
  gpu::mma::copy_async4(shared + 2, job.out + 6, true);
  job.out[0] = shared[0];
  gpu::mma::wait_copies<1>();
  job.out[1] = shared[0] ^ shared[1];
  gpu::mma::wait_copies<0>();
  job.out[2] = shared[0] ^ shared[1];
  job.out[3] = shared[2];
}

}  // namespace

TEST_CASE("memory holds poison until a wait for the copy", "[gpu]") {
  std::vector<std::uint32_t> out{0, 0, 0, 0, 0x11, 0x22, 0x33};
  REQUIRE(gpu::launch(watch_copies, {1}, {1}, 64, nullptr, job{out.data(), 0}) == gpu::success);
  REQUIRE(out[0] == 0xA5A5A5A5u);
  REQUIRE(out[1] == (0x11u ^ 0xA5A5A5A5u));
  REQUIRE(out[2] == (0x11u ^ 0x22u));
  REQUIRE(out[3] == 0xA5A5A5A5u);
}

// ---- Boxes ----

namespace {

struct box_job {
  gpu::mma::tensor_map map;
  unsigned char* out;
  unsigned column, row, announced;
};

/// A box of 16 rows x 64 bytes; out: its memory before the wait and after it. Thread 0 copies, thread 1 looks.
template <unsigned offset, unsigned arrivals>
UFP4_KERNEL(2)
watch_box(const box_job job) {
  unsigned char* shared = gpu::shared_memory();
  const std::uint32_t to = (gpu::mma::shared_address(shared) + 1023) / 1024 * 1024 + offset, barrier = to + 1024;
  const unsigned char* box = shared + (to - gpu::mma::shared_address(shared));
  if (gpu::lane() == 0) {
    gpu::mma::barrier_start(barrier, 1);
    gpu::mma::barriers_ready();
  }
  gpu::sync_block();
  if (gpu::lane() == 0) {
    for (unsigned i = 0; i < arrivals; ++i) gpu::mma::barrier_expect(barrier, job.announced);
    gpu::mma::copy_box(to, job.map, job.column, job.row, barrier);
    std::memcpy(job.out, box, 1024);
    return;
  }
  gpu::mma::barrier_wait(barrier, 1);  // the phase before the first
  gpu::mma::barrier_wait(barrier, 0);
  std::memcpy(job.out + 1024, box, 1024);
}

struct box_of_bytes {
  std::vector<unsigned char> data = std::vector<unsigned char>(20 * 96), out = std::vector<unsigned char>(2048);
  box_job job{};

  explicit box_of_bytes(unsigned announced = 1024) {
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<unsigned char>(i % 251 + 1);
    job = {{}, out.data(), 64, 10, announced};
    REQUIRE(gpu::mma::make_tensor_map(job.map, gpu::mma::swizzled_64_bytes_tensor, data.data(), 20, 96, 16, 64) ==
            gpu::success);
  }
  std::string rejection(void (*kernel)(box_job)) const {
    return first_line(rejection_of([&] { (void)gpu::launch(kernel, {1}, {2}, 4096, gpu::stream{}, job); }));
  }
};

}  // namespace

TEST_CASE("a box is poison until a wait for its barrier, then swizzled bytes, and zeros outside the matrix", "[gpu]") {
  const simulated here(90);
  simt::settings().order = simt::thread_order::forwards;  // nobody waits when the box is looked at first
  box_of_bytes b;
  REQUIRE(gpu::launch(watch_box<0, 1>, {1}, {2}, 4096, nullptr, b.job) == gpu::success);
  for (std::size_t row = 0; row < 16; ++row)
    for (std::size_t col = 0; col < 64; ++col) {
      CAPTURE(row, col);
      const std::size_t at = row * 64 + 16 * (col / 16 ^ (row / 2 & 3)) + col % 16;
      REQUIRE(b.out[at] == 0xA5);
      const bool inside = 10 + row < 20 && 64 + col < 96;
      REQUIRE(b.out[1024 + at] == (inside ? b.data[(10 + row) * 96 + 64 + col] : 0));
    }
}

TEST_CASE("copies of boxes and barriers that the hardware does not define are rejected", "[gpu]") {
  const std::string first = "simt: thread (0, 0, 0) of block (0, 0, 0) ",
                    second = "simt: thread (1, 0, 0) of block (0, 0, 0) ";
  const simulated here(90);
  const box_of_bytes right, one_more(1025);
  REQUIRE(right.rejection(watch_box<128, 1>) ==
          first + "copies a box to an address at which its pattern does not begin");
  REQUIRE(right.rejection(watch_box<0, 2>) == first + "arrives at a barrier at which all have arrived");
  REQUIRE(one_more.rejection(watch_box<0, 1>) ==
          second +
              "waits at a barrier in shared memory for thread (0, 0, 0) of block (0, 0, 0), which left the kernel");
  gpu::mma::tensor_map map;
  const auto kind = gpu::mma::swizzled_64_bytes_tensor;
  REQUIRE(gpu::mma::make_tensor_map(map, kind, right.data.data(), 20, 95, 16, 64) == gpu::invalid_argument);
  REQUIRE(gpu::mma::make_tensor_map(map, kind, right.data.data() + 1, 20, 96, 16, 64) == gpu::invalid_argument);
  REQUIRE(gpu::mma::make_tensor_map(map, kind, right.data.data(), 20, 96, 16, 80) == gpu::invalid_argument);
  const simulated old(80);
  REQUIRE(right.rejection(watch_box<0, 1>) ==
          first + "uses a barrier in shared memory, which architecture 80 does not have");
}

// ---- Sums ----

namespace {

struct sum_job {
  float d, a[16], b[16];
  float* out;
};

/// d + a . b in every element of the tile.
UFP4_KERNEL(32) bf16_dot(const sum_job job) {
  const auto two = [](const float(&x)[16], unsigned i) {
    std::uint32_t lo, hi;
    std::memcpy(&lo, &x[i], 4);
    std::memcpy(&hi, &x[i + 1], 4);
    return lo >> 16 | (hi & 0xFFFF0000u);
  };
  const unsigned t = gpu::lane() % 4;
  const std::uint32_t a0 = two(job.a, 2 * t), a1 = two(job.a, 2 * t + 8), b0 = two(job.b, 2 * t),
                      b1 = two(job.b, 2 * t + 8);
  float d[4] = {job.d, job.d, job.d, job.d};
  gpu::mma::mma_bf16(d, {a0, a0, a1, a1}, {b0, b1});
  for (unsigned i = 0; i < 4; ++i) job.out[4 * gpu::lane() + i] = d[i];
}

float dot(simt::mma_sums sums, float d, std::initializer_list<float> products) {
  const simulated here;
  simt::settings().sums = sums;
  float out[128];
  sum_job job{d, {}, {}, out};
  std::copy(products.begin(), products.end(), job.a);
  std::fill(std::begin(job.b), std::end(job.b), 1.0f);
  REQUIRE(gpu::launch(bf16_dot, {1}, {32}, 0, nullptr, job) == gpu::success);
  for (const float f : out) REQUIRE(std::memcmp(&f, &out[0], 4) == 0);
  return out[0];
}

}  // namespace

TEST_CASE("sums are rounded once, or every term is truncated at 2^-23 of the greatest", "[gpu]") {
  using enum simt::mma_sums;
  const float one = 0x1p-23f, half = 0x1p-24f;
  for (const auto sums : {nearest, truncated}) {
    REQUIRE(dot(sums, 0, {1, 2, 3, 4, -5}) == 5);
    REQUIRE(dot(sums, 1, {one}) == 1 + one);
    REQUIRE(dot(sums, -2, {2}) == 0);
    REQUIRE_FALSE(std::signbit(dot(sums, -0.0f, {0, -0.0f})));
    REQUIRE(dot(sums, HUGE_VALF, {1}) == HUGE_VALF);
    const float nan = dot(sums, HUGE_VALF, {-HUGE_VALF});
    std::uint32_t bits;
    std::memcpy(&bits, &nan, 4);
    REQUIRE(bits == 0x7FFFFFFFu);
    REQUIRE(dot(sums, 0x1.fep127f, {0x1p127f, 0x1p127f}) == HUGE_VALF);
    REQUIRE(dot(sums, 0x1p-149f, {}) == 0x1p-149f);
  }
  REQUIRE(dot(nearest, 1, {half, half}) == 1 + one);
  REQUIRE(dot(truncated, 1, {half, half}) == 1);
  REQUIRE(dot(nearest, 1, {half, half, half}) == 1 + 2 * one);  // a tie, to even
  REQUIRE(dot(nearest, 0x1p40f, {1, -0x1p40f}) == 1);
  REQUIRE(dot(truncated, 0x1p40f, {1, -0x1p40f}) == 0);
  REQUIRE(dot(nearest, -1, {half / 2}) == -1);
  REQUIRE(dot(truncated, -1, {half / 2}) == -1);
}

// ---- Rejections ----

namespace {

UFP4_KERNEL(64) leave_before_barrier(const job) {
  if (gpu::thread_index().x == 37) return;
  gpu::sync_block();
}
UFP4_KERNEL(64) leave_before_shuffle(const job) {
  if (gpu::thread_index().y == 2 && gpu::thread_index().x == 8) return;
  (void)gpu::shuffle_xor(1u, 1);
}
UFP4_KERNEL(64) part_at_barrier(const job) {
  if (gpu::lane() < 16)
    gpu::sync_block();
  else
    (void)gpu::shuffle(1u, 0);
}
UFP4_KERNEL(64) different_meetings(const job) {
  if (gpu::lane() == 3)
    gpu::sync_wave();
  else
    (void)gpu::shuffle(1u, 0);
}
UFP4_KERNEL(64) read_lane(const job) { (void)gpu::shuffle(1u, 9); }
UFP4_KERNEL(64) wide_mask(const job) { (void)gpu::shuffle_xor(1u, 32); }
UFP4_KERNEL(64) launch_again(const job job) { (void)gpu::launch(read_lane, {1}, {32}, 0, gpu::stream{}, job); }
UFP4_KERNEL(64) multiply(const job) {
  float d[4] = {};
  gpu::mma::mma_f16(d, {0, 0, 0, 0}, {0, 0});
}
UFP4_KERNEL(64) multiply_scaled(const job) {
  float d[4] = {};
  gpu::mma::mma_mxf4nvf4(d, {0, 0, 0, 0}, {0, 0}, 0x80, 0);
}
template <unsigned offset>
UFP4_KERNEL(64)
load_rows(const job) {
  std::uint32_t r[4];
  gpu::mma::load_matrix4(r, gpu::shared_memory() + 16 * gpu::lane() + (gpu::lane() == 5 ? offset : 0));
}
template <unsigned to, unsigned from>
UFP4_KERNEL(64)
copy_row(const job job) {
  gpu::mma::copy_async16(gpu::shared_memory() + to, reinterpret_cast<unsigned char*>(job.out) + from, false);
}

}  // namespace

TEST_CASE("the message names a thread that does not arrive at a barrier", "[gpu]") {
  REQUIRE(
      rejection_of_kernel(leave_before_barrier, {1}, {64}) ==
      "simt: thread (63, 0, 0) of block (0, 0, 0) waits at sync_block for thread (37, 0, 0) of block (0, 0, 0), which "
      "left the kernel");
  REQUIRE(rejection_of_kernel(leave_before_shuffle, {1}, {16, 4}) ==
          "simt: thread (0, 2, 0) of block (0, 0, 0) waits at a shuffle for thread (8, 2, 0) of block (0, 0, 0), which "
          "left "
          "the kernel");
  REQUIRE(
      rejection_of_kernel(part_at_barrier, {1}, {64}) ==
      "simt: thread (16, 0, 0) of block (0, 0, 0) waits at a shuffle for thread (0, 0, 0) of block (0, 0, 0), which "
      "waits at sync_block");
  REQUIRE(rejection_of_kernel(different_meetings, {1}, {64}) ==
          "simt: thread (3, 0, 0) of block (0, 0, 0) arrives at sync_wave while thread (0, 0, 0) of block (0, 0, 0), "
          "of the "
          "same wave, waits at a shuffle");
}

TEST_CASE("invalid operations of a kernel are rejected with a message", "[gpu]") {
  const std::string first = "simt: thread (0, 0, 0) of block (0, 0, 0) ";
  REQUIRE(rejection_of_kernel(read_lane, {1}, {40}) ==
          "simt: thread (32, 0, 0) of block (0, 0, 0) reads a lane that its wave does not have");
  REQUIRE(rejection_of_kernel(wide_mask, {1}, {64}) == first + "shuffles with a mask that leads out of the wave");
  REQUIRE(rejection_of_kernel(launch_again, {1}, {32}) == first + "launches a kernel");
  REQUIRE(rejection_of_kernel(read_lane, {1}, {32}) == "(nothing)");
}

TEST_CASE("instructions are rejected on devices without them, and in partial waves", "[gpu]") {
  const std::string first = "simt: thread (0, 0, 0) of block (0, 0, 0) ";
  {
    const simulated here(75);
    REQUIRE(rejection_of_kernel(multiply, {1}, {32}) ==
            first + "executes mma_f16, which architecture 75 does not have");
    REQUIRE(rejection_of_kernel(load_rows<0>, {1}, {32}, 512) ==
            first + "executes ldmatrix.x4, which architecture 75 does not have");
    REQUIRE(rejection_of_kernel(copy_row<0, 0>, {1}, {32}, 16) ==
            first + "executes cp.async, which architecture 75 does not have");
  }
  {
    const simulated here(80, 64);
    REQUIRE(rejection_of_kernel(multiply, {1}, {64}) ==
            first + "executes mma_f16, which architecture 80 does not have");
  }
  const simulated here(90);
  REQUIRE(rejection_of_kernel(multiply_scaled, {1}, {32}) ==
          first + "executes mma_mxf4nvf4, which architecture 90 does not have");
  REQUIRE(rejection_of_kernel(multiply, {1}, {33}) ==
          "simt: thread (32, 0, 0) of block (0, 0, 0) executes mma_f16 in a wave of 1 threads");
}

TEST_CASE("operands that the hardware does not define are rejected", "[gpu]") {
  const std::string last = "simt: thread (31, 0, 0) of block (0, 0, 0) ",
                    fifth = "simt: thread (5, 0, 0) of block (0, 0, 0) ";
  const std::string first = "simt: thread (0, 0, 0) of block (0, 0, 0) ";
  const simulated here(120);
  REQUIRE(rejection_of_kernel(multiply_scaled, {1}, {32}) ==
          last + "gives mma_mxf4nvf4 a scale whose top bit is not 0");
  REQUIRE(rejection_of_kernel(load_rows<8>, {1}, {32}, 1024) ==
          fifth + "gives ldmatrix.x4 an address that is not aligned");
  REQUIRE(rejection_of_kernel(load_rows<1024>, {1}, {32}, 1024) ==
          fifth + "gives ldmatrix.x4 an address outside its block's shared memory");
  REQUIRE(rejection_of_kernel(load_rows<0>, {1}, {32}, 512) == "(nothing)");
  REQUIRE(rejection_of_kernel(copy_row<4, 0>, {1}, {1}, 32) == first + "gives cp.async an address that is not aligned");
  REQUIRE(rejection_of_kernel(copy_row<16, 0>, {1}, {1}, 24) ==
          first + "gives cp.async an address outside its block's shared memory");
  REQUIRE(rejection_of_kernel(copy_row<0, 4>, {1}, {1}, 32) ==
          first + "gives cp.async an address of device memory that is not aligned");
}

// ---- Stacks ----

namespace {

/// Frames deeper than the stack, which nothing may be optimised out of.
unsigned deeper(volatile char* above, unsigned n) {
  volatile char frame[1024];
  frame[0] = static_cast<char>(above[0] + 1);
  return n == 0 ? static_cast<unsigned>(frame[0]) : deeper(frame, n - 1) + static_cast<unsigned>(frame[0]);
}
UFP4_KERNEL(32) recurse(const job job) {
  volatile char first[1] = {};
  job.out[gpu::lane()] = deeper(first, job.n);
  gpu::sync_wave();
}

}  // namespace

TEST_CASE("each thread has a stack of its own, and an overflow is a fault", "[gpu]") {
  std::vector<std::uint32_t> out(32);
  REQUIRE(gpu::launch(recurse, {1}, {32}, 0, nullptr, job{out.data(), 60}) == gpu::success);
  REQUIRE(out == std::vector<std::uint32_t>(32, out[0]));
  REQUIRE(rejection_of([&] {
            std::signal(SIGSEGV, SIG_DFL);
            (void)gpu::launch(recurse, {1}, {32}, 0, gpu::stream{}, job{out.data(), 10000});
          }) != "(nothing)");
}

TEST_CASE("environment values that simt.hpp does not list are rejected", "[gpu]") {
  const auto with = [](const char* name, const char* value) {
    return first_line(rejection_of([&] {
      setenv(name, value, 1);
      if (simt::settings_of_environment().order != simt::thread_order::forwards) _exit(0);
    }));
  };
  REQUIRE(with("UFP4_SIMT_ORDER", "sideways") ==
          "simt: UFP4_SIMT_ORDER=sideways is none of the values that simt.hpp lists");
  REQUIRE(with("UFP4_SIMT_SUMS", "exact") == "simt: UFP4_SIMT_SUMS=exact is none of the values that simt.hpp lists");
  REQUIRE(with("UFP4_SIMT_ORDER", "shuffled:17") == "(nothing)");
}
