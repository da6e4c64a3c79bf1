// ufp4 - a GEMM kernel on every AMD GPU that it is for: played by the executor; on a GPU, that one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/device.hpp"

#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"

#include <span>

namespace support {

/// An AMD GPU, played.
class played_amd : public played {
 public:
#if defined(UFP4_SIMT_HEADER)
  using played::played;
  explicit played_amd(int architecture) : played(ufp4::simt::amd_device(architecture)) {}
#else
  explicit played_amd(int architecture) : played(architecture) {}
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
    const played_amd played{t.architecture};
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
