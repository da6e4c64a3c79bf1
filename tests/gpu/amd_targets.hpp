// ufp4 - runs a GEMM kernel on every AMD GPU that it supports in the CPU simulator, or on the GPU of the machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/device.hpp"

#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"

#include <span>

namespace support {

/// A simulated AMD GPU.
class simulated_amd : public simulated_device {
 public:
#if defined(UFP4_SIMT_HEADER)
  using simulated_device::simulated_device;
  explicit simulated_amd(int architecture) : simulated_device(ufp4::simt::amd_device(architecture)) {}
#else
  explicit simulated_amd(int architecture) : simulated_device(architecture) {}
#endif
};

struct amd_target {
  const gpu::gemm_kernel* kernel;
  int architecture;
};

/// work(kernel)
template <class Work>
void on_targets(std::span<const amd_target> targets, Work work) {
  for (const amd_target& t : targets) {
    const simulated_amd simulated{t.architecture};
#if !defined(UFP4_SIMT_HEADER)
    gpu::device_facts device;
    REQUIRE(gpu::facts(device) == gpu::success);
    if (device.architecture != t.architecture) continue;
#endif
    CAPTURE(t.kernel->name, t.architecture);
    work(*t.kernel);
  }
}

}  // namespace support
