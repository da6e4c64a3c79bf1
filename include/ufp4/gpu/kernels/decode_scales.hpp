// ufp4 - decode_scales: the block scales of an operand as floats, one row of memory for each block along K.
// SPDX-License-Identifier: Apache-2.0
//
// A matrix kernel then copies the scales of a tile's rows in one contiguous piece for each block. If `paired`, each
// sixteen of a row of memory are in the order 0 1 8 9, 2 3 10 11, ...: a lane of mma or wgmma, whose sums of sixteen
// columns are in 2 t, 2 t + 1, 2 t + 8 and 2 t + 9, reads its four at once. A scale outside the range that the kernel
// accepts, other than 0 and NaN, sets a flag in device memory.
#pragma once

#include <ufp4/gpu/kernels/folding.hpp>
#include <ufp4/gpu/thread/elements.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned scales_threads = 128, scales_steps = 4;

struct decode_scales_job {
  gemm_side side{};
  std::size_t blocks = 0;          ///< along K
  std::size_t stride = 0;          ///< floats from block to block: at least the rows, below 2^32
  bool paired = false;             ///< the order of sixteen rows; the stride is then a multiple of sixteen
  scale_range accepted{};          ///< magnitudes
  float* out = nullptr;            ///< blocks x stride; 0 beyond the rows
  std::uint32_t* unfit = nullptr;  ///< set to 1
};

/// The place of a row in the paired order.
UFP4_HD constexpr std::size_t paired_place(std::size_t row) {
  return row / 16 * 16 + row % 8 / 2 * 4 + row % 16 / 8 * 2 + row % 2;
}

/// Each thread decodes four consecutive blocks of a row; consecutive threads write neighbouring floats.
UFP4_LAZY_KERNEL(scales_threads) decode_scales(const decode_scales_job job) {
  const std::size_t at = std::size_t{block_index().x} * scales_threads + thread_index().x;
  const thread::grid_place place = thread::split(at, static_cast<std::uint32_t>(job.stride));
  const std::size_t row = place.sixteen, first = place.row * scales_steps;
  bool unfit = false;
  for (unsigned i = 0; i < scales_steps; ++i) {
    const std::size_t b = first + i;
    if (b >= job.blocks) break;
    float scale = 0;
    if (row < job.side.rows)
      scale = thread::scale_at(job.side.scale, job.side.scales, row / job.side.block_rows * job.blocks + b);
    job.out[b * job.stride + (job.paired ? paired_place(row) : row)] = scale;
    const float size = ufp4::detail::magnitude(scale);
    unfit = unfit || size > job.accepted.high || (size < job.accepted.low && size != 0.0f);
  }
  if (unfit) atomic_max(job.unfit, 1u);
}

/// Queues `out` = the scales of a side, blocks x stride floats. Sets *unfit, which the caller has cleared.
template <class Use = void>
error queue_decode_scales(const gemm_side& side, unsigned block, std::size_t stride, bool paired, float* out,
                          const scale_range& accepted, std::uint32_t* unfit, stream where) {
  const decode_scales_job job{side, side.padded_cols / block, stride, paired, accepted, out, unfit};
  return launch_each(listed<&decode_scales<Use>>, (job.blocks + scales_steps - 1) / scales_steps * stride,
                     scales_threads, 0, where, job);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
