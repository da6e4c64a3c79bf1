// ufp4 - quantize_task: one quantization as quantize, the GEMMs and the layers of a recipe pass it to the kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ufp4/gpu/vendor.hpp>
#include <ufp4/matrix/job.hpp>

namespace ufp4::gpu::detail::inline UFP4_GPU {

/// Pointers are to device memory.
///
/// | global_amax_bits | the bits of the tensor's amax, computed before on the same stream; null: the amax is |
/// |                  | `global_amax`                                                                        |
/// | tensor_scale     | written for a two-level format                                                       |
/// | report           | is added to; null: no report                                                         |
struct quantize_task {
  ufp4::detail::quantize_job job{};
  scale_rule_spec rule{};
  rounding_spec rounding{};
  std::uint8_t* codes = nullptr;
  void* scales = nullptr;
  float* tensor_scale = nullptr;
  const std::uint32_t* global_amax_bits = nullptr;
  float global_amax = 0;
  quantize_report* report = nullptr;
};

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
