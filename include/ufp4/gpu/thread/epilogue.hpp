// ufp4 - from a sum in a register to an element of C.
// SPDX-License-Identifier: Apache-2.0
//
// The bits of the host's epilogue (numerics 6): fl(fl(acc * TA) * fl(alpha * TB)), then + bias, then fma(beta, C, .).
// A sum that is not finite is computed again from codes and scales, as matrix/element_product.hpp defines it. That is
// rare: an intermediate value of the kernel overflowed, or an operand contains a NaN.
#pragma once

#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/thread/elements.hpp>
#include <ufp4/matrix/element_product.hpp>

namespace ufp4::gpu::thread::inline UFP4_GPU {

/// TA, fl(alpha * TB) and TB: the tensor scales of a product, with its alpha.
struct result_scales {
  float a, alpha_b, b;  ///< TA, fl(alpha * TB), TB of numerics 6
};

/// One operand in device memory: codes and scales, or an unquantized matrix.
struct operand_memory {
  const std::uint8_t* codes = nullptr;     ///< packed codes
  const void* scales = nullptr;            ///< block scales
  const float* value = nullptr;            ///< by code
  scale_kind scale = scale_kind::f32;      ///< the type of the block scales
  unsigned block_rows = 1;                 ///< rows that share a scale
  const gemm_side* unquantized = nullptr;  ///< an operand that may be an unquantized matrix instead of codes, or null
  std::size_t padded_cols = 0;             ///< columns with padding
  unsigned block = 16;                     ///< the block length

  /// Whether the operand is a matrix without codes.
  UFP4_DEVICE bool is_unquantized() const { return unquantized != nullptr && !unquantized->is_quantized; }
  /// Element k of a row, without its scale.
  UFP4_DEVICE float element(std::size_t row, std::size_t k) const {
    if (is_unquantized()) {
      const float x = k < unquantized->unquantized.cols ? load(unquantized->unquantized, row, k) : 0.0f;
      return unquantized->rounds_unquantized_to_bf16 ? static_cast<float>(ufp4::detail::round_to<bf16>(x)) : x;
    }
    return value[codes[(row * padded_cols + k) / 2] >> (4 * (k % 2)) & 15u];
  }
  /// The scale of block b of a row.
  UFP4_DEVICE float block_scale(std::size_t row, std::size_t b) const {
    return is_unquantized() && scales == nullptr
               ? 1.0f
               : scale_at(scale, scales, row / block_rows * (padded_cols / block) + b);
  }
};

/// Element (i, j) of the product, with the tensor scales and alpha.
UFP4_DEVICE float recomputed(const operand_memory& left, const operand_memory& right, bool exact_grids, accumulate mode,
                             float alpha, const result_scales& by, std::size_t i, std::size_t j,
                             bool in_binary64 = false) {
  ufp4::detail::element_product sum(mode, exact_grids, in_binary64);
  for (std::size_t b = 0; b < left.padded_cols / left.block && !sum.is_nan_already(); ++b) {
    const std::size_t first = b * left.block;
    sum.add_block(
        left.block_scale(i, b), right.block_scale(j, b), left.block,
        [&](std::uint32_t k) { return left.element(i, first + k); },
        [&](std::uint32_t k) { return right.element(j, first + k); });
  }
  return sum.scaled(alpha, by.a, by.b);
}

/// Operand `side` of a job.
UFP4_DEVICE operand_memory memory_of(const gemm_side& side, unsigned block) {
  return {side.codes, side.scales, side.grid.value, side.scale, side.block_rows, &side, side.padded_cols, block};
}
/// Not inlined where that would cost the main loop registers. The job must be a kernel's UFP4_PARAMETER.
UFP4_DEVICE_CALL float recomputed(const gemm_job& job, result_scales by, std::size_t i, std::size_t j) {
  return recomputed(memory_of(job.left, job.block), memory_of(job.right, job.block),
                    job.left.exact() && job.right.exact(), job.mode, job.alpha, by, i, j);
}

/// What turns the sums of a job into C.
struct epilogue {
  sink out{};                          ///< C
  result_scales by{};                  ///< the tensor scales, which a thread reads once
  const float* bias = nullptr;         ///< one for each column, or nullptr
  float alpha = 1, beta = 0;           ///< as in gemm_options
  accumulate mode = accumulate::fast;  ///< as in gemm_options
};
/// `scale_a`, `scale_b`: in device memory, or nullptr for 1.
UFP4_DEVICE epilogue epilogue_of(const sink& out, const float* scale_a, const float* scale_b, const float* bias,
                                 float alpha, float beta, accumulate mode) {
  const float a = scale_a == nullptr ? 1.0f : *scale_a;
  const float b = scale_b == nullptr ? 1.0f : *scale_b;
  return {out, {a, rounded(alpha * b), b}, bias, alpha, beta, mode};
}
UFP4_DEVICE epilogue epilogue_of(const gemm_job& job) {
  return epilogue_of(job.out, job.left.tensor_scale, job.right.tensor_scale, job.bias, job.alpha, job.beta, job.mode);
}

/// Is x neither zero, subnormal, infinite nor NaN?
UFP4_DEVICE bool is_normal(float x) {
  const std::uint32_t m = magnitude_bits(x);
  return m >= 0x00800000u && m < ufp4::detail::infinity_bits;
}

/// The sum times alpha and the tensor scales. The bound of the fast modes holds for every tensor scale, so there the
/// product is rounded once if a factor is outside the normal range.
UFP4_DEVICE float scaled_result(const epilogue& to, float acc) {
  const result_scales& by = to.by;
  const float left = rounded(acc * by.a);
  if (to.mode == accumulate::exact_blocks || (is_normal(left) && is_normal(by.alpha_b)))
    return rounded(left * by.alpha_b);
  const double exact = static_cast<double>(to.alpha) * static_cast<double>(by.a) * static_cast<double>(by.b);
  return static_cast<float>(static_cast<double>(acc) * exact);
}

/// C(i, j) from its scaled result; i and j must be inside C.
UFP4_DEVICE void store_scaled(const epilogue& to, std::size_t i, std::size_t j, float r) {
  if (to.bias != nullptr) r = r + to.bias[j];
  if (to.beta != 0.0f) r = fma(to.beta, load(to.out, i, j), r);
  store(to.out, i, j, r);
}

/// C(i, j) from its sum; i and j must be inside C. The job must be a kernel's UFP4_PARAMETER.
UFP4_DEVICE void store_sum(const gemm_job& job, const epilogue& to, std::size_t i, std::size_t j, float sum) {
  store_scaled(to, i, j, ufp4::detail::is_finite(sum) ? scaled_result(to, sum) : recomputed(job, to.by, i, j));
}

/// Where a sum is stored.
struct element_place {
  std::size_t row, col;  ///< of C
};
/// The same of `parts` times `passes` sums, at most 64, where places outside C are skipped. put(part) makes the sums of
/// a part readable; sum(n) is stored at place(n), n = part * passes + pass. The sums that are not finite follow in a
/// loop, so that the unrolled code does not contain `recompute` once for each sum.
template <unsigned parts, unsigned passes, class Put, class Sum, class Place, class Recompute>
UFP4_DEVICE void store_parts(const epilogue& to, const Put& put, const Sum& sum, const Place& place,
                             const Recompute& recompute) {
  static_assert(parts * passes <= 64);
  std::uint64_t again = 0;
  UFP4_UNROLL
  for (unsigned part = 0; part < parts; ++part) {
    put(part);
    for (unsigned n = part * passes; n < (part + 1) * passes; ++n) {
      const element_place at = place(n);
      if (at.row >= to.out.rows || at.col >= to.out.cols) continue;
      const float one = sum(n);
      if (ufp4::detail::is_finite(one))
        store_scaled(to, at.row, at.col, scaled_result(to, one));
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
UFP4_DEVICE void store_sums(const epilogue& to, const Sum& sum, const Place& place, const Recompute& recompute) {
  store_parts<count, 1>(to, [](unsigned) {}, sum, place, recompute);
}

/// A tile of sums in shared memory as C: consecutive threads of the block store consecutive elements of a row.
/// `stride`: floats from row to row. If not `usable`, the sums are ignored and every element is computed again.
template <unsigned rows, unsigned cols, unsigned threads>
UFP4_DEVICE void store_tile(const gemm_job& job, std::size_t first_row, std::size_t first_col, const float* sums,
                            unsigned stride, bool usable = true) {
  const epilogue to = epilogue_of(job);
  for (unsigned at = thread_index().x; at < rows * cols; at += threads) {
    const std::size_t i = first_row + at / cols, j = first_col + at % cols;
    if (i >= to.out.rows || j >= to.out.cols) continue;
    store_sum(job, to, i, j, usable ? sums[at / cols * stride + at % cols] : ufp4::detail::quiet_nan);
  }
}

inline constexpr unsigned epilogue_run = 4;  ///< elements that are stored at once

/// Are four elements of a row from a multiple of four on contiguous, and aligned to their size?
UFP4_DEVICE bool whole_runs(const sink& x) {
  const std::uintptr_t bytes = epilogue_run * (x.kind == dtype::f32 ? 4 : 2);
  return x.col_stride == 1 && x.row_stride % epilogue_run == 0 && reinterpret_cast<std::uintptr_t>(x.data) % bytes == 0;
}

/// Four columns of C(i, j ..) from their sums, which must be finite, in one access; `whole_runs` must hold, and j be a
/// multiple of 4.
UFP4_DEVICE void store_finite_run(const epilogue& to, std::size_t i, std::size_t j, const float (&sum)[epilogue_run]) {
  float r[epilogue_run];
  UFP4_UNROLL
  for (unsigned n = 0; n < epilogue_run; ++n) {
    r[n] = scaled_result(to, sum[n]);
    if (to.bias != nullptr) r[n] = r[n] + to.bias[j + n];
    if (to.beta != 0.0f) r[n] = fma(to.beta, load(to.out, i, j + n), r[n]);
  }
  const sink& x = to.out;
  const std::ptrdiff_t at = x.offset(i, j);
  if (x.kind == dtype::f32) {
    *reinterpret_cast<words4*>(static_cast<float*>(x.data) +
                               at) = {{to_bits(r[0]), to_bits(r[1]), to_bits(r[2]), to_bits(r[3])}};
  } else {
    *reinterpret_cast<words2*>(static_cast<std::uint16_t*>(x.data) + at) = {
        {narrowed(x.kind, r[0]) | narrowed(x.kind, r[1]) << 16, narrowed(x.kind, r[2]) | narrowed(x.kind, r[3]) << 16}};
  }
}

/// store_tile by `threads` threads, of which this is number `thread`; four elements share the instructions for address,
/// type and bounds, and one store. Sums are aligned to 16 bytes, rows too.
template <unsigned rows, unsigned cols, unsigned threads>
UFP4_DEVICE void store_tile_runs(const gemm_job& job, std::size_t first_row, std::size_t first_col, const float* sums,
                                 unsigned stride, unsigned thread, bool usable) {
  const epilogue to = epilogue_of(job);
  const bool runs = whole_runs(to.out) && first_col % epilogue_run == 0;
  for (unsigned at = thread; at < rows * cols / epilogue_run; at += threads) {
    const unsigned row = at / (cols / epilogue_run), col = at % (cols / epilogue_run) * epilogue_run;
    const std::size_t i = first_row + row, j = first_col + col;
    if (i >= to.out.rows || j >= to.out.cols) continue;
    const auto four = *reinterpret_cast<const words4*>(sums + row * stride + col);
    float sum[epilogue_run];
    bool finite = usable;
    UFP4_UNROLL
    for (unsigned n = 0; n < epilogue_run; ++n) {
      sum[n] = usable ? to_float(four.word[n]) : ufp4::detail::quiet_nan;
      finite = finite && ufp4::detail::is_finite(sum[n]);
    }
    if (runs && finite && j + epilogue_run <= to.out.cols) {
      store_finite_run(to, i, j, sum);
      continue;
    }
    for (unsigned n = 0; n < epilogue_run && j + n < to.out.cols; ++n)  // rare
      store_sum(job, to, i, j + n, usable ? sums[row * stride + col + n] : ufp4::detail::quiet_nan);
  }
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
