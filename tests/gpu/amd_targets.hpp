// ufp4 - a GEMM kernel on every AMD GPU that it is for: played by the executor; on a GPU, that one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/device.hpp"

#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"

#include <span>

namespace support {

/// The executor plays an AMD GPU as long as it lives; a real GPU stays what it is.
class played_amd {
 public:
#if defined(UFP4_SIMT_HEADER)
  explicit played_amd(const gpu::device_facts& now) { ufp4::simt::device() = now; }
  explicit played_amd(int architecture) : played_amd(ufp4::simt::amd_device(architecture)) {}
  ~played_amd() { ufp4::simt::device() = before_; }
#else
  explicit played_amd(int) {}
#endif
  played_amd(const played_amd&) = delete;
  played_amd& operator=(const played_amd&) = delete;

#if defined(UFP4_SIMT_HEADER)
 private:
  gpu::device_facts before_ = ufp4::simt::device();
#endif
};

struct ascending_levels {
  static constexpr float values[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
  static constexpr bool exact_products = true;
};
/// Code 0 is not 0.
using ascending = ufp4::block_format<ufp4::table_element<ascending_levels>, ufp4::e4m3, 16>;

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
