// ufp4 - from a sum in a register to an element of C.
// SPDX-License-Identifier: Apache-2.0
//
// The bits of the host's epilogue (cpu/gemm_kernel.hpp; numerics 6): fl(fl(acc * TA) * fl(alpha * TB)), + bias, fma(beta, C, .).
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/thread/elements.hpp>

namespace ufp4::gpu::thread::inline UFP4_GPU {

/// TA and fl(alpha * TB): read once a thread.
struct result_scales {
  float a, alpha_b, b;
};
UFP4_DEVICE result_scales scales_of(const gemm_job& job) {
  const float a = job.left.tensor_scale == nullptr ? 1.0f : *job.left.tensor_scale;
  const float b = job.right.tensor_scale == nullptr ? 1.0f : *job.right.tensor_scale;
  return {a, ufp4::detail::rounded(job.alpha * b), b};
}

UFP4_DEVICE bool is_normal(float x) {
  const std::uint32_t m = ufp4::detail::magnitude_bits(x);
  return m >= 0x00800000u && m < ufp4::detail::infinity_bits;
}

/// In the fast modes, whose bound holds for every tensor scale, rounded once where a factor has left the normal range.
UFP4_DEVICE float scaled_result(const gemm_job& job, const result_scales& by, float acc) {
  const float left = ufp4::detail::rounded(acc * by.a);
  if (job.mode == accumulate::exact_blocks || (is_normal(left) && is_normal(by.alpha_b)))
    return ufp4::detail::rounded(left * by.alpha_b);
  const double exact = static_cast<double>(job.alpha) * static_cast<double>(by.a) * static_cast<double>(by.b);
  return static_cast<float>(static_cast<double>(acc) * exact);
}

/// C(i, j) from its sum; i and j must lie in C.
UFP4_DEVICE void store_result(const gemm_job& job, const result_scales& by, std::size_t i, std::size_t j, float acc) {
  float r = scaled_result(job, by, acc);
  if (job.bias != nullptr) r = r + job.bias[j];
  const ufp4::detail::source old{job.out.data, job.out.kind,       job.out.rows,
                                 job.out.cols, job.out.row_stride, job.out.col_stride};
  if (job.beta != 0.0f) r = ufp4::detail::fma(job.beta, load(old, i, j), r);
  store(job.out, i, j, r);
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
