// ufp4 - from a sum in a register to an element of C.
// SPDX-License-Identifier: Apache-2.0
//
// The bits of the host's epilogue (numerics 6): fl(fl(acc * TA) * fl(alpha * TB)), then + bias, then fma(beta, C, .).
// A sum that is not finite is computed again (thread/recompute.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/thread/elements.hpp>
#include <ufp4/gpu/thread/recompute.hpp>

namespace ufp4::gpu::thread::inline UFP4_GPU {

/// What turns the sums of a job into C.
struct epilogue {
  sink out{};                                                        ///< C
  const float *tensor_scale_a = nullptr, *tensor_scale_b = nullptr;  ///< in device memory, or nullptr for 1
  const float* bias = nullptr;                                       ///< one for each column, or nullptr
  float alpha = 1, beta = 0;                                         ///< as in gemm_options
  accumulate mode = accumulate::fast;                                ///< as in gemm_options
};
/// The epilogue of a job.
UFP4_DEVICE epilogue epilogue_of(const gemm_job& job) {
  return {job.out, job.left.tensor_scale, job.right.tensor_scale, job.bias, job.alpha, job.beta, job.mode};
}

/// The tensor scales, which a thread reads once.
UFP4_DEVICE result_scales scales_of(const epilogue& to) {
  const float a = to.tensor_scale_a == nullptr ? 1.0f : *to.tensor_scale_a;
  const float b = to.tensor_scale_b == nullptr ? 1.0f : *to.tensor_scale_b;
  return {a, ufp4::detail::rounded(to.alpha * b), b};
}

/// Is x neither zero, subnormal, infinite nor NaN?
UFP4_DEVICE bool is_normal(float x) {
  const std::uint32_t m = ufp4::detail::magnitude_bits(x);
  return m >= 0x00800000u && m < ufp4::detail::infinity_bits;
}

/// The sum times alpha and the tensor scales. The bound of the fast modes holds for every tensor scale, so there the
/// product is rounded once if a factor is outside the normal range.
UFP4_DEVICE float scaled_result(const epilogue& to, const result_scales& by, float acc) {
  const float left = ufp4::detail::rounded(acc * by.a);
  if (to.mode == accumulate::exact_blocks || (is_normal(left) && is_normal(by.alpha_b)))
    return ufp4::detail::rounded(left * by.alpha_b);
  const double exact = static_cast<double>(to.alpha) * static_cast<double>(by.a) * static_cast<double>(by.b);
  return static_cast<float>(static_cast<double>(acc) * exact);
}

/// C(i, j) from its scaled result; i and j must be inside C.
UFP4_DEVICE void store_scaled(const epilogue& to, std::size_t i, std::size_t j, float r) {
  if (to.bias != nullptr) r = r + to.bias[j];
  const source old{to.out.data, to.out.kind, to.out.rows, to.out.cols, to.out.row_stride, to.out.col_stride};
  if (to.beta != 0.0f) r = ufp4::detail::fma(to.beta, load(old, i, j), r);
  store(to.out, i, j, r);
}

/// C(i, j) from its sum; i and j must be inside C. recompute(i, j) is called for a sum that is not finite.
template <class Recompute>
UFP4_DEVICE void store_sum(const epilogue& to, const result_scales& by, std::size_t i, std::size_t j, float sum,
                           const Recompute& recompute) {
  store_scaled(to, i, j, ufp4::detail::is_finite(sum) ? scaled_result(to, by, sum) : recompute(i, j));
}

/// A row and a column of C.
struct element_place {
  std::size_t row, col;  ///< of C
};
/// The same of `bands` times `passes` sums, at most 64, where places outside C are skipped. put(band) makes the sums of
/// a band readable; sum(n) is stored at place(n), n = band * passes + pass. The sums that are not finite follow in a
/// loop, so that the unrolled code does not contain `recompute` once for each sum.
template <unsigned bands, unsigned passes, class Put, class Sum, class Place, class Recompute>
UFP4_DEVICE void store_bands(const epilogue& to, const result_scales& by, const Put& put, const Sum& sum,
                             const Place& place, const Recompute& recompute) {
  static_assert(bands * passes <= 64);
  std::uint64_t again = 0;
  UFP4_UNROLL
  for (unsigned band = 0; band < bands; ++band) {
    put(band);
    for (unsigned n = band * passes; n < (band + 1) * passes; ++n) {
      const element_place at = place(n);
      if (at.row >= to.out.rows || at.col >= to.out.cols) continue;
      const float one = sum(n);
      if (ufp4::detail::is_finite(one))
        store_scaled(to, at.row, at.col, scaled_result(to, by, one));
      else
        again |= std::uint64_t{1} << n;
    }
  }
  for (unsigned n = 0; again != 0; ++n, again >>= 1) {
    const element_place at = place(n);
    if ((again & 1u) != 0) store_scaled(to, at.row, at.col, recompute(at.row, at.col));
  }
}
/// The same of `count` sums in registers: every index is a constant.
template <unsigned count, class Sum, class Place, class Recompute>
UFP4_DEVICE void store_sums(const epilogue& to, const result_scales& by, const Sum& sum, const Place& place,
                            const Recompute& recompute) {
  store_bands<count, 1>(to, by, [](unsigned) {}, sum, place, recompute);
}

/// A tile of sums in shared memory as C: consecutive threads of the block store consecutive elements of a row.
/// `stride`: floats from row to row. If not `usable`, the sums are ignored and every element is computed again.
template <unsigned rows, unsigned cols, unsigned threads>
UFP4_DEVICE void store_tile(const gemm_job& job, std::size_t first_row, std::size_t first_col, const float* sums,
                            unsigned stride, bool usable = true) {
  const epilogue to = epilogue_of(job);
  const result_scales by = scales_of(to);
  for (unsigned at = thread_index().x; at < rows * cols; at += threads) {
    const std::size_t i = first_row + at / cols, j = first_col + at % cols;
    if (i >= to.out.rows || j >= to.out.cols) continue;
    store_sum(to, by, i, j, usable ? sums[at / cols * stride + at % cols] : ufp4::detail::quiet_nan,
              [&](std::size_t row, std::size_t col) { return recomputed(job, by, row, col); });
  }
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
