// ufp4 - what a GEMM kernel is, and the end of every one: sums to C.
// SPDX-License-Identifier: Apache-2.0
//
// A call is cut into parts of C. The rows of a part are packed once, before any part is multiplied; the columns of a
// part are decoded by the task that multiplies it, so a matrix of M rows decodes its right operand M / part_rows times
// in all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/isa.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

inline constexpr std::uint32_t min_normal_bits = 0x00800000u;  ///< of 2^-126

/// Rows and columns of C that one task makes.
struct gemm_part {
  std::size_t row, rows, col, cols;
};

/// One way to multiply. Memory comes from the caller, on a cache line.
///
/// | takes         | can it run this job (modes, grids, block length)? Looks at modes, grids and shapes alone:        |
/// |               | explain() asks it before there are any codes                                                     |
/// | left_bytes    | of `rows` packed rows; a multiple of 64. Row i, a multiple of tile_rows, begins at left_bytes(i) |
/// | pack_left     | packs rows [row, row + rows), row a multiple of tile_rows;                                       |
/// |               | what fills a last tile up is its affair                                                          |
/// | scratch_bytes | of a part with that many rows                                                                    |
/// | multiply      | makes one part of C and stores it; `left` is what pack_left made of the part's rows              |
struct gemm_kernel {
  isa tier;
  const char* name;
  std::size_t tile_rows, tile_cols;  ///< of C, in registers
  std::size_t tile_depth;            ///< K that one multiply instruction adds up
  std::size_t part_rows, part_cols;  ///< at most; multiples of the tile's
  bool (*takes)(const gemm_job&);
  std::size_t (*left_bytes)(const gemm_job&, std::size_t rows);
  void (*pack_left)(const gemm_job&, std::size_t row, std::size_t rows, std::byte* out);
  std::size_t (*scratch_bytes)(const gemm_job&, std::size_t rows);
  void (*multiply)(const gemm_job&, const gemm_part&, const std::byte* left, std::byte* scratch);
  accumulate fast_is = accumulate::fast;  ///< exact_blocks where `fast` gives its very bits

  accumulate made_as(accumulate asked) const { return asked == accumulate::fast ? fast_is : asked; }
};

}  // namespace ufp4::cpu::detail::inline UFP4_CODE

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// TA and alpha * TB of the caller's A and B, whichever side of the job they are on.
struct result_scales {
  float a, b;
};
inline result_scales scales_of(const gemm_job& job) {
  const float left = job.left.tensor_scale(), right = job.right.tensor_scale();
  return job.swapped ? result_scales{right, job.alpha * left} : result_scales{left, job.alpha * right};
}

/// fl(fl(acc * TA) * fl(alpha * TB)). In the fast modes, whose bound holds for every tensor scale, the product is
/// rounded once where one of the two factors has left the normal range.
inline float scaled_result(const gemm_job& job, const result_scales& by, float acc) {
  const float left = acc * by.a;
  const auto normal = [](float x) {
    const std::uint32_t m = ufp4::detail::magnitude_bits(x);
    return m >= min_normal_bits && m < ufp4::detail::infinity_bits;
  };
  if (job.mode == accumulate::exact_blocks || (normal(left) && normal(by.b))) return left * by.b;
  const double exact = static_cast<double>(job.alpha) * static_cast<double>(job.left.tensor_scale()) *
                       static_cast<double>(job.right.tensor_scale());
  return static_cast<float>(static_cast<double>(acc) * exact);
}

/// scaled_result of `count` sums. A loop without branches first:
/// only where some product left the normal range, one at a time.
inline void scale_results(const gemm_job& job, const result_scales& by, const float* acc, std::size_t count,
                          float* out) {
  std::uint32_t abnormal = 0;
  for (std::size_t j = 0; j < count; ++j) {
    const float left = acc[j] * by.a;
    out[j] = left * by.b;
    abnormal |= ufp4::detail::magnitude_bits(left) - min_normal_bits >= ufp4::detail::infinity_bits - min_normal_bits;
  }
  const std::uint32_t right = ufp4::detail::magnitude_bits(by.b);
  if (job.mode == accumulate::exact_blocks ||
      (abnormal == 0 && right >= min_normal_bits && right < ufp4::detail::infinity_bits))
    return;
  for (std::size_t j = 0; j < count; ++j) out[j] = scaled_result(job, by, acc[j]);
}

/// Stores sums, `stride` floats a row, as a part of C: scaled, then + bias, then fma(beta, C, .) (numerics 6).
inline void store_part(const gemm_job& job, const gemm_part& part, const float* acc, std::size_t stride) {
  constexpr std::size_t chunk = 64;
  const result_scales by = scales_of(job);
  float line[chunk];
  for (std::size_t i = 0; i < part.rows; ++i)
    for (std::size_t first = 0; first < part.cols; first += chunk) {
      const std::size_t count = part.cols - first < chunk ? part.cols - first : chunk;
      const std::size_t row = part.row + i, col = part.col + first;
      scale_results(job, by, acc + i * stride + first, count, line);
      ufp4::detail::settle(line);
      if (job.bias != nullptr)
        for (std::size_t j = 0; j < count; ++j) line[j] = line[j] + job.bias[job.swapped ? row : col + j];
      if (job.beta != 0.0f)
        for (std::size_t j = 0; j < count; ++j)
          line[j] = ufp4::detail::fma(job.beta, load_element(job.out, row, col + j), line[j]);
      store_row(job.out, row, col, count, line);
    }
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
