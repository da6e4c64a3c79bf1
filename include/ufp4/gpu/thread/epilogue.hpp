// ufp4 - from a sum in a register to an element of C.
// SPDX-License-Identifier: Apache-2.0
//
// The bits of the host's epilogue (cpu/gemm_kernel.hpp; numerics 6):
// fl(fl(acc * TA) * fl(alpha * TB)), + bias, fma(beta, C, .).
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/thread/elements.hpp>

namespace ufp4::gpu::thread::inline UFP4_GPU {

/// What a job says of the way from sums to C.
struct epilogue {
  sink out{};
  const float *tensor_scale_a = nullptr, *tensor_scale_b = nullptr;
  const float* bias = nullptr;
  float alpha = 1, beta = 0;
  accumulate mode = accumulate::fast;
};
UFP4_DEVICE epilogue epilogue_of(const gemm_job& job) {
  return {job.out, job.left.tensor_scale, job.right.tensor_scale, job.bias, job.alpha, job.beta, job.mode};
}

/// TA and fl(alpha * TB): read once a thread.
struct result_scales {
  float a, alpha_b, b;
};
UFP4_DEVICE result_scales scales_of(const epilogue& to) {
  const float a = to.tensor_scale_a == nullptr ? 1.0f : *to.tensor_scale_a;
  const float b = to.tensor_scale_b == nullptr ? 1.0f : *to.tensor_scale_b;
  return {a, ufp4::detail::rounded(to.alpha * b), b};
}
UFP4_DEVICE result_scales scales_of(const gemm_job& job) { return scales_of(epilogue_of(job)); }

UFP4_DEVICE bool is_normal(float x) {
  const std::uint32_t m = ufp4::detail::magnitude_bits(x);
  return m >= 0x00800000u && m < ufp4::detail::infinity_bits;
}

/// In the fast modes, whose bound holds for every tensor scale, rounded once where a factor has left the normal range.
UFP4_DEVICE float scaled_result(const epilogue& to, const result_scales& by, float acc) {
  const float left = ufp4::detail::rounded(acc * by.a);
  if (to.mode == accumulate::exact_blocks || (is_normal(left) && is_normal(by.alpha_b)))
    return ufp4::detail::rounded(left * by.alpha_b);
  const double exact = static_cast<double>(to.alpha) * static_cast<double>(by.a) * static_cast<double>(by.b);
  return static_cast<float>(static_cast<double>(acc) * exact);
}
UFP4_DEVICE float scaled_result(const gemm_job& job, const result_scales& by, float acc) {
  return scaled_result(epilogue_of(job), by, acc);
}

/// C(i, j) from its sum; i and j must lie in C.
UFP4_DEVICE void store_result(const epilogue& to, const result_scales& by, std::size_t i, std::size_t j, float acc) {
  float r = scaled_result(to, by, acc);
  if (to.bias != nullptr) r = r + to.bias[j];
  const source old{to.out.data, to.out.kind, to.out.rows, to.out.cols, to.out.row_stride, to.out.col_stride};
  if (to.beta != 0.0f) r = ufp4::detail::fma(to.beta, load(old, i, j), r);
  store(to.out, i, j, r);
}
UFP4_DEVICE void store_result(const gemm_job& job, const result_scales& by, std::size_t i, std::size_t j, float acc) {
  store_result(epilogue_of(job), by, i, j, acc);
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
