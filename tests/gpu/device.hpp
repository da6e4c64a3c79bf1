// ufp4 - the GPU that a test runs on: a real one where nvcc or hipcc compiles the test, else the SIMT executor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__HIPCC__)
#include <ufp4/hip.hpp>
#elif defined(__CUDACC__)
#include <ufp4/cuda.hpp>
#else
#define UFP4_SIMT_HEADER "gpu/simt.hpp"
#include <ufp4/gpu/verbs.hpp>
#endif

#include <string>
#include <vector>

namespace support {

namespace gpu = ufp4::gpu;

/// A status as a test wants it: "" or the sentence.
inline std::string text_of(const gpu::status& s) { return s.ok() ? "" : s.text(); }

/// What a buffer holds, once the device is done with it.
template <class T>
std::vector<T> on_host(const gpu::buffer<T>& b) {
  std::vector<T> all(b.size());
  b.download(all);
  return all;
}

}  // namespace support
