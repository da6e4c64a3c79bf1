// ufp4 - from sums in shared memory to C, four columns of a row at a time.
// SPDX-License-Identifier: Apache-2.0
//
// store_tile (thread/epilogue.hpp) costs about 40 instructions for each element, most of them for its address, its type
// and its bounds. Here four elements share them and one store. Bits: those of store_sum.
#pragma once

#include <ufp4/gpu/thread/epilogue.hpp>

namespace ufp4::gpu::thread::inline UFP4_GPU {

inline constexpr unsigned epilogue_run = 4;  ///< elements that are stored at once

/// Stores elements (i, j) .. (i, j + 3) in one access; `whole_runs` must hold, and j be a multiple of 4.
UFP4_DEVICE void store_run(const sink& x, std::size_t i, std::size_t j, const float (&v)[epilogue_run]) {
  const std::ptrdiff_t at = x.offset(i, j);
  if (x.kind == dtype::f32) {
    *reinterpret_cast<words4*>(static_cast<float*>(x.data) +
                               at) = {{to_bits(v[0]), to_bits(v[1]), to_bits(v[2]), to_bits(v[3])}};
  } else {
    *reinterpret_cast<words2*>(static_cast<std::uint16_t*>(x.data) + at) = {
        {narrowed(x.kind, v[0]) | narrowed(x.kind, v[1]) << 16, narrowed(x.kind, v[2]) | narrowed(x.kind, v[3]) << 16}};
  }
}
/// Are four elements of a row from a multiple of four on contiguous, and aligned to their size?
UFP4_DEVICE bool whole_runs(const sink& x) {
  const std::uintptr_t bytes = epilogue_run * (x.kind == dtype::f32 ? 4 : 2);
  return x.col_stride == 1 && x.row_stride % epilogue_run == 0 && reinterpret_cast<std::uintptr_t>(x.data) % bytes == 0;
}

/// Four columns of C(i, j ..) from their sums, which must be finite.
UFP4_DEVICE void store_finite_run(const epilogue& to, const result_scales& by, std::size_t i, std::size_t j,
                                  const float (&sum)[epilogue_run]) {
  const source old{to.out.data, to.out.kind, to.out.rows, to.out.cols, to.out.row_stride, to.out.col_stride};
  float r[epilogue_run];
  UFP4_UNROLL
  for (unsigned n = 0; n < epilogue_run; ++n) {
    r[n] = scaled_result(to, by, sum[n]);
    if (to.bias != nullptr) r[n] = r[n] + to.bias[j + n];
    if (to.beta != 0.0f) r[n] = fma(to.beta, load(old, i, j + n), r[n]);
  }
  store_run(to.out, i, j, r);
}

/// store_tile by `threads` threads, of which this is number `thread`. Sums are aligned to 16 bytes, rows too.
template <unsigned rows, unsigned cols, unsigned threads>
UFP4_DEVICE void store_tile_runs(const gemm_job& job, std::size_t first_row, std::size_t first_col, const float* sums,
                                 unsigned stride, unsigned thread, bool usable) {
  const epilogue to = epilogue_of(job);
  const result_scales by = scales_of(to);
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
      store_finite_run(to, by, i, j, sum);
      continue;
    }
    for (unsigned n = 0; n < epilogue_run && j + n < to.out.cols; ++n)  // rare
      store_sum(to, by, i, j + n, usable ? sums[row * stride + col + n] : ufp4::detail::quiet_nan,
                [&](std::size_t r, std::size_t c) { return recomputed(job, by, r, c); });
  }
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
