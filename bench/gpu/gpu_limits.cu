// ufp4 - the limits of an NVIDIA GPU that ufp4's kernels are compared with, and how its matrix instructions add.
// SPDX-License-Identifier: Apache-2.0
//
// | line "ceiling"          | what runs                                                                               |
// |-------------------------|-----------------------------------------------------------------------------------------|
// | mma/...                 | the matrix instruction on operands that stay in registers or shared memory: no decoding |
// | decode/...              | codes from memory to operands of mma.sync, which are only combined with xor: no product |
// | copy, read              | 16 bytes a thread and step                                                              |
// | line "probe"            | accumulators.hpp                                                                        |
#include "gpu/accumulators.hpp"

#include <ufp4/block/presets.hpp>
#include <ufp4/cuda/fragments_sm80.hpp>

using namespace ufp4;
namespace gpu = ufp4::gpu;

namespace {

using bench::four_words;

struct loop_job {
  unsigned steps = 0;
  const four_words* from = nullptr;
  four_words* to = nullptr;  ///< written only where a value occurs that does not occur, so that nothing is left out
  std::size_t count = 0;
  gpu::thread::half_table table{};
};

// ---- Products without decoding ----

constexpr unsigned sums_of_warp = 8;

template <auto multiply, class Sum>
UFP4_KERNEL(256)
multiply_mma(const loop_job job) {
  std::uint32_t a[4], b[2];
  for (unsigned i = 0; i < 4; ++i) a[i] = (gpu::lane() * 0x9E3779B9u + i * 0x85EBCA6Bu) & 0xBF3FBF3Fu;
  for (unsigned i = 0; i < 2; ++i) b[i] = (gpu::lane() * 0x85EBCA6Bu + i * 0x9E3779B9u) & 0xBF3FBF3Fu;
  Sum d[sums_of_warp][4] = {};
  for (unsigned s = 0; s < job.steps; ++s) {
    UFP4_UNROLL
    for (unsigned i = 0; i < sums_of_warp; ++i) multiply(d[i], a, b);
  }
  Sum all = 0;
  for (auto& sums : d)
    for (const Sum sum : sums) all += sum;
  if (all == Sum(12345)) job.to->words[0] = 1;
}

#if defined(__CUDACC__)
/// Two warpgroups with 64 rows each, as the library's kernels.
UFP4_KERNEL(256) multiply_wgmma(const loop_job job) {
  unsigned char* shared = gpu::shared_memory();
  constexpr unsigned bytes = (2 * 64 + 256) * 32;
  for (unsigned i = gpu::thread_index().x; i < bytes / 4; i += 256)
    reinterpret_cast<std::uint32_t*>(shared)[i] = i * 0x9E3779B9u & 0xBF3FBF3Fu;
  float d[128] = {};
  bench::publish_operands();
  gpu::sync_block();
  const std::uint64_t a = bench::unswizzled_operand(shared + gpu::thread_index().x / 128 * 64 * 32, 256),
                      b = bench::unswizzled_operand(shared + 2 * 64 * 32, 256);
  for (unsigned s = 0; s < job.steps; ++s) {
    bench::wgmma_begin();
    UFP4_UNROLL
    for (unsigned i = 0; i < 4; ++i) bench::wgmma_bf16_n256(d, a, b);
    bench::wgmma_end();
  }
  float all = 0;
  for (const float sum : d) all += sum;
  if (all == 12345.0f) job.to->words[0] = 1;
}
#endif

// ---- Decoding without products ----

UFP4_KERNEL(256) decode_halves(const loop_job job) {
  const std::size_t step = std::size_t{gpu::grid_size().x} * 256;
  std::uint32_t all = 0;
  for (std::size_t i = std::size_t{gpu::block_index().x} * 256 + gpu::thread_index().x; i < job.count; i += step) {
    const four_words codes = job.from[i];
    for (const std::uint32_t word : codes.words) {
      std::uint32_t b[2][2];
      gpu::warp::right_halves(job.table, word, b);
      all ^= b[0][0] ^ b[0][1] ^ b[1][0] ^ b[1][1];
    }
  }
  if (all == 0x12345678u) job.to->words[0] = 1;
}

// ---- Memory ----

UFP4_KERNEL(256) read_words(const loop_job job) {
  const std::size_t step = std::size_t{gpu::grid_size().x} * 256;
  std::uint32_t all = 0;
  for (std::size_t i = std::size_t{gpu::block_index().x} * 256 + gpu::thread_index().x; i < job.count; i += step) {
    const four_words read = job.from[i];
    for (const std::uint32_t word : read.words) all ^= word;
  }
  if (all == 0x12345678u) job.to->words[0] = 1;
}

// ---- Lines ----

/// `work` of one launch in `unit` of 10^12 (TFLOP/s) or 10^9 (GB/s).
template <class Job>
void ceiling(const std::string& name, const char* unit, double work, void (*kernel)(const Job), const Job& job,
             unsigned blocks, std::size_t shared = 0) {
  if (!bench::is_wanted(name)) return;
  const double us = bench::timed(name, 1, [&](int) {
    const gpu::error e = gpu::launch(kernel, {blocks}, {256}, shared, bench::now().stream, job);
    return e == gpu::success ? gpu::status{} : gpu::status{e, gpu::error_text(e)};
  });
  if (us <= 0) return;
  const double rate = work / us * (std::string_view(unit) == "GB/s" ? 1e-3 : 1e-6);
  bench::line("ceiling").text("name", name).number("rate", rate).text("unit", unit).print();
}

void products(const gpu::device_facts& device, loop_job job) {
  namespace mma = gpu::mma;
  job.steps = bench::now().small ? 2 : 2048;
  const auto blocks = static_cast<unsigned>(bench::now().small ? 1 : 2 * device.processors);
  const double halves = 2.0 * 16 * 8 * 16 * sums_of_warp * 8 * job.steps * blocks;
  ceiling("mma/mma.sync.bf16", "TFLOP/s", halves, &multiply_mma<&mma::mma_bf16, float>, job, blocks);
  ceiling("mma/mma.sync.f16", "TFLOP/s", halves, &multiply_mma<&mma::mma_f16, float>, job, blocks);
  ceiling("mma/mma.sync.s8", "TFLOP/s", 2 * halves, &multiply_mma<&mma::mma_s8_k32, std::int32_t>, job, blocks);
#if defined(__CUDACC__)
  if (device.has(89))
    ceiling("mma/mma.sync.e4m3", "TFLOP/s", 2 * halves, &multiply_mma<&bench::mma_e4m3, float>, job, blocks);
  if (device.has_specific(9)) {
    const auto once = static_cast<unsigned>(device.processors);
    ceiling("mma/wgmma.bf16", "TFLOP/s", 2.0 * 128 * 256 * 16 * 4 * job.steps * once, &multiply_wgmma, job, once,
            (2 * 64 + 256) * 32);
  }
#endif
}

void memory(loop_job job) {
  const std::size_t bytes = bench::now().small ? 4096 : std::size_t{512} << 20;  // more than a cache
  const gpu::buffer<std::uint32_t> from = bench::numbers<std::uint32_t>(bytes / 4), to(bytes / 4);
  job.from = reinterpret_cast<const four_words*>(from.data());
  job.to = reinterpret_cast<four_words*>(to.data());
  job.count = bytes / sizeof(four_words);
  job.table = gpu::thread::f16_table_of(grid_of<fp4<E2M1>>());
  const unsigned blocks = bench::now().small ? 2 : 4096;
  const auto read = static_cast<double>(bytes);
  ceiling("copy", "GB/s", 2 * read, &bench::copy_words, bench::copy_job{job.from, job.to, job.count}, blocks);
  ceiling("read", "GB/s", read, &read_words, job, blocks);
  ceiling("decode/e2m1 to f16", "GB/s", read, &decode_halves, job, blocks);
}

}  // namespace

int main(int argc, char** argv) {
  bench::start(argc, argv);
  bench::warm_up();
  gpu::device_facts device;
  bench::require(gpu::facts(device), "facts");
  const gpu::buffer<four_words> unused(1);
  loop_job job;
  job.to = unused.data();
  if (device.has(80)) products(device, job);
  memory(job);
  bench::probe_accumulators(device);
  return bench::now().failed ? 1 : 0;
}
