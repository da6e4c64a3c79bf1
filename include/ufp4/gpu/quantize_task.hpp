// ufp4 - quantize_task: one quantization as operations pass it to the kernels, and the constants of its tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/matrix/job.hpp>

namespace ufp4::gpu::detail::inline UFP4_GPU {

/// Pointers are to device memory.
struct quantize_task {
  stored_quantize_job job{};
  scale_rule_spec rule{};
  rounding_spec rounding{};
  std::uint8_t* codes = nullptr;
  void* scales = nullptr;
  float* tensor_scale = nullptr;                    ///< written for a two-level format
  const std::uint32_t* global_amax_bits = nullptr;  ///< of the tensor, computed before on the same stream
  float global_amax = 0;                            ///< if global_amax_bits is null
  quantize_report* report = nullptr;                ///< is added to; null: no report
};

}  // namespace ufp4::gpu::detail::inline UFP4_GPU

namespace ufp4::gpu::kernels::inline UFP4_GPU {

using detail::quantize_task;

/// Takes from a thread's copy of a format what its kernel does not take (needs_portable), so that its code is left out:
/// an index of a grid would put the format into memory.
UFP4_DEVICE void leave_out_extended(format_spec& f) {
  f.wide = wide_element::none;
  f.choice = {};
  f.block.group = {};
}

/// The constants of a two-level format. Each thread computes them: two divisions cost less than waiting for a kernel.
/// An amax in device memory that is negative or not finite makes the tensor scale NaN.
template <class Coder>
UFP4_DEVICE tensor_constants constants_of(const quantize_task& task, const Coder& coder) {
  std::uint32_t bits = task.global_amax_bits != nullptr ? *task.global_amax_bits : to_bits(task.global_amax);
  if (bits == sign_mask) bits = 0;
  tensor_constants tensor{};
  if constexpr (requires { Coder::constants(coder.format, 0.0f); })
    tensor = Coder::constants(coder.format, to_float(bits));
  else
    tensor = make_tensor_constants(coder.format, coder.rule, to_float(bits));
  if (task.job.format.has_tensor_scale() && bits >= infinity_bits) tensor.decode = to_float(0x7FC00000u);
  return tensor;
}

UFP4_DEVICE void publish_tensor_scale(const quantize_task& task, const tensor_constants& tensor) {
  if (task.tensor_scale != nullptr && block_index().x == 0 && thread_index().x == 0) *task.tensor_scale = tensor.decode;
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
