// ufp4 - a GEMM kernel on every AMD GPU that it is for: played by the executor; on a GPU, that one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/device.hpp"

#include "support/catch.hpp"

#include <span>

namespace support {

#if defined(UFP4_SIMT_HEADER)
/// Plays an AMD GPU as long as it lives.
struct played_amd {
  gpu::device_facts before = ufp4::simt::device();
  explicit played_amd(int architecture) { ufp4::simt::device() = ufp4::simt::amd_device(architecture); }
  ~played_amd() { ufp4::simt::device() = before; }
  played_amd(const played_amd&) = delete;
  played_amd& operator=(const played_amd&) = delete;
};
#endif

struct amd_target {
  const gpu::gemm_kernel* kernel;
  int architecture;
};

/// work(kernel)
template <class Work>
void on_targets(std::span<const amd_target> targets, Work work) {
  for (const amd_target& t : targets) {
#if defined(UFP4_SIMT_HEADER)
    const played_amd device{t.architecture};
#else
    gpu::device_facts device;
    REQUIRE(gpu::facts(device) == gpu::success);
    if (device.architecture != t.architecture) continue;
#endif
    CAPTURE(t.kernel->name, t.architecture);
    work(*t.kernel);
  }
}

}  // namespace support
