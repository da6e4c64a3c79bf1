// ufp4 - the GPU that a test runs on: a real one if nvcc or hipcc compiles the test, else the CPU simulator.
// SPDX-License-Identifier: Apache-2.0
//
// In the CPU simulator the operations' kernels are those of kernel_tables.cpp, compiled once: of products NVIDIA's or
// AMD's, depending on simt::device() at the time of the call. A test that names kernels includes their headers. One
// that defines UFP4_TEST_OWN_KERNELS, which needs a program of its own, compiles the kernels of its calls.
#pragma once

#if defined(__HIPCC__)
#include <ufp4/hip.hpp>
#elif defined(__CUDACC__)
#include <ufp4/cuda.hpp>
#else
#if defined(UFP4_TEST_OWN_KERNELS)
#include "gpu/kernel_tables.hpp"
#else
#define UFP4_SIMT_HEADER "gpu/simt.hpp"
#define UFP4_EXTERNAL_GPU_KERNELS
#endif
#include <ufp4/gpu/operations.hpp>
#endif

#include <cstring>
#include <string>
#include <tuple>
#include <vector>

namespace support {

namespace gpu = ufp4::gpu;

/// The error message of a status, "" if there is none.
inline std::string text_of(const gpu::status& s) { return s.ok() ? "" : s.text(); }

/// While an object of this type exists, the CPU simulator simulates that device; a real device stays the same.
class simulated_device {
 public:
#if defined(UFP4_SIMT_HEADER)
  explicit simulated_device(const gpu::device_facts& now) { ufp4::simt::device() = now; }
  explicit simulated_device(int architecture) {
    ufp4::simt::device().architecture = architecture;
  }  ///< the other facts stay the same
  ~simulated_device() { ufp4::simt::device() = before_; }
#else
  explicit simulated_device(int) {}
#endif
  simulated_device(const simulated_device&) = delete;
  simulated_device& operator=(const simulated_device&) = delete;

#if defined(UFP4_SIMT_HEADER)
 private:
  gpu::device_facts before_ = ufp4::simt::device();
#endif
};

/// The contents of a buffer after the device has finished.
template <class T>
std::vector<T> on_host(const gpu::buffer<T>& b) {
  std::vector<T> all(b.size());
  b.download(all);
  return all;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// Calls work(order), where `order` is a word for CAPTURE, for each order of threads and blocks of the CPU simulator;
/// once on a GPU, which has an order of its own. Results that depend on the order reveal a missing barrier or a
/// conflict between blocks.
template <class Work>
void in_every_order(Work work) {
#if defined(UFP4_SIMT_HEADER)
  namespace simt = ufp4::simt;
  struct restorer {  // a failed REQUIRE throws
    simt::simulator_settings before = simt::settings();
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
