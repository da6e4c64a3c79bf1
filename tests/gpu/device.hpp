// ufp4 - the GPU that a test runs on: a real one where nvcc or hipcc compiles the test, else the SIMT executor.
// SPDX-License-Identifier: Apache-2.0
//
// In the executor the GEMM kernels come from kernel_tables.cpp, compiled once: NVIDIA's or AMD's, as simt::device()
// says when they are asked for. A test that names kernels includes their headers.
#pragma once

#if defined(__HIPCC__)
#include <ufp4/hip.hpp>
#elif defined(__CUDACC__)
#include <ufp4/cuda.hpp>
#else
#define UFP4_SIMT_HEADER "gpu/simt.hpp"
#include <ufp4/gpu/operations.hpp>
#endif

#include <string>
#include <tuple>
#include <vector>

namespace support {

namespace gpu = ufp4::gpu;

/// A status as a test wants it: "" or the message.
inline std::string text_of(const gpu::status& s) { return s.ok() ? "" : s.text(); }

/// The executor plays another device as long as this lives; a real one stays what it is.
class played {
 public:
#if defined(UFP4_SIMT_HEADER)
  explicit played(const gpu::device_facts& now) { ufp4::simt::device() = now; }
  explicit played(int architecture) { ufp4::simt::device().architecture = architecture; }  ///< and else what it was
  ~played() { ufp4::simt::device() = before_; }
#else
  explicit played(int) {}
#endif
  played(const played&) = delete;
  played& operator=(const played&) = delete;

#if defined(UFP4_SIMT_HEADER)
 private:
  gpu::device_facts before_ = ufp4::simt::device();
#endif
};

/// What a buffer holds, once the device is done with it.
template <class T>
std::vector<T> on_host(const gpu::buffer<T>& b) {
  std::vector<T> all(b.size());
  b.download(all);
  return all;
}

/// work(order), a word for CAPTURE, once for each of the orders of threads and blocks that the executor plays; once on
/// a GPU, which has its own. Bits that depend on the order are those of a missing barrier, or of blocks that disturb
/// one another.
template <class Work>
void in_every_order(Work work) {
#if defined(UFP4_SIMT_HEADER)
  namespace simt = ufp4::simt;
  struct restorer {  // a failed REQUIRE throws
    simt::executor_settings before = simt::settings();
    ~restorer() { simt::settings() = before; }
  } const restore;
  using enum simt::thread_order;
  for (const auto& [name, order, seed] :
       {std::tuple{"forwards", forwards, 0u}, std::tuple{"backwards", backwards, 0u},
        std::tuple{"shuffled:1", shuffled, 1u}, std::tuple{"shuffled:2", shuffled, 2u}}) {
    simt::settings().order = order;
    simt::settings().seed = seed;
    work(name);
  }
#else
  work("the device's own");
#endif
}

}  // namespace support
