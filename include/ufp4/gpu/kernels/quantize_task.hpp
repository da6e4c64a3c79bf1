// ufp4 - what every kernel that quantizes does first: the tensor's constants.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ufp4/gpu/quantize_task.hpp>
#include <ufp4/gpu/vendor.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

using detail::quantize_task;

/// The constants of a two-level format. Each thread works them out anew: two divisions, against a wait for another
/// kernel. A maximum in device memory that is no finite number >= 0 could not be rejected before:
/// it makes the tensor scale a NaN.
template <class Coder>
UFP4_DEVICE tensor_constants constants_of(const quantize_task& task, const Coder& coder) {
  std::uint32_t bits =
      task.global_amax_bits != nullptr ? *task.global_amax_bits : ufp4::detail::to_bits(task.global_amax);
  if (bits == ufp4::detail::sign_mask) bits = 0;
  tensor_constants tensor{};
  if constexpr (requires { Coder::constants(coder.format, 0.0f); })
    tensor = Coder::constants(coder.format, ufp4::detail::to_float(bits));
  else
    tensor = ufp4::detail::make_tensor_constants(coder.format, coder.rule, ufp4::detail::to_float(bits));
  if (task.job.format.two_level && bits >= ufp4::detail::infinity_bits)
    tensor.decode = ufp4::detail::to_float(0x7FC00000u);
  return tensor;
}

UFP4_DEVICE void publish_tensor_scale(const quantize_task& task, const tensor_constants& tensor) {
  if (task.tensor_scale != nullptr && block_index().x == 0 && thread_index().x == 0) *task.tensor_scale = tensor.decode;
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
