// ufp4 - what a GEMM is to the GPU's kernels, and what a kernel is to the operation that chooses it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <ufp4/gpu/vendor.hpp>
#include <ufp4/matrix/job.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

/// One operand of a product: codes and scales in the canonical layout, or a plain matrix.
/// Pointers are to device memory.
struct gemm_side {
  bool is_quantized = true;
  const std::uint8_t* codes = nullptr;
  const void* scales = nullptr;
  const float* tensor_scale = nullptr;  ///< null: 1
  grid4 grid{};
  scale_kind scale = scale_kind::f32;
  unsigned block_rows = 1;  ///< rows that share a scale
  std::size_t rows = 0, cols = 0, padded_cols = 0;
  ufp4::detail::source plain{};       ///< where not quantized: transformed as it is read
  bool rounds_plain_to_bf16 = false;  ///< and, before that, rounded to nearest even: the bf16 recipe
  transform_spec transform{};

  UFP4_HD bool exact() const { return is_quantized && grid.exact_products; }
};

/// C = alpha * left * right^T + bias + beta * C: a kernel's parameter.
struct gemm_job {
  gemm_side left{}, right{};
  ufp4::detail::sink out{};
  unsigned block = 16;  ///< length along K of a block of either side
  float alpha = 1, beta = 0;
  accumulate mode = accumulate::fast;
  const float* bias = nullptr;  ///< one a column of C, or null

  UFP4_HD std::size_t padded() const { return left.padded_cols; }
  UFP4_HD std::size_t blocks() const { return left.padded_cols / block; }
};

}  // namespace ufp4::gpu::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

/// The largest magnitude of a grid's integers.
inline int largest_integer(const grid4& grid) {
  int largest = 0;
  for (const int i : grid.integer) largest = largest < i ? i : largest < -i ? -i : largest;
  return largest;
}
/// The exponent of the product of the units.
inline int dot_exponent(const gemm_job& job) {
  return ufp4::detail::floor_log2(job.left.grid.unit) + ufp4::detail::floor_log2(job.right.grid.unit);
}
/// Is every block's dot product an integer below `most`, 2^24 or less, times the units, and that a float?
inline bool exact_dots_below(const gemm_job& job, std::int64_t most) {
  if (!job.left.exact() || !job.right.exact()) return false;
  const std::int64_t product = std::int64_t{largest_integer(job.left.grid)} * largest_integer(job.right.grid);
  const int exponent = dot_exponent(job);
  return product * job.block < most && exponent >= -149 && exponent <= 103;
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU

namespace ufp4::gpu::inline UFP4_GPU {

/// One way to multiply. The vendor's table (gemm_kernels()) lists them, the best first;
/// the first that takes a job runs it.
///
/// | instruction  | of the machine, that does the multiplying: "fma", "mma.sync.m16n8k32.s8", ...                    |
/// | takes        | can it run this job on this device, with what this program was compiled for? Looks at no data    |
/// | workspace    | bytes of device memory it needs                                                                  |
/// | run          | queues it                                                                                        |
/// | fast_is      | exact_blocks where `fast` gives its very bits                                                    |
/// | experimental | built on what the executor cannot play, and not yet run on a device (architecture decision 3):   |
/// |              | only taken where the program defines UFP4_EXPERIMENTAL                                           |
/// | tile_side    | rows and columns of the tiles that the job alone would be cut into; null: tile_rows, tile_cols   |
/// | run_group    | queues many at once; they differ in pointers, shapes and strides alone, take no bias and are not |
/// |              | empty. Null: they are run one by one                                                             |
struct gemm_kernel {
  const char* name = "";
  const char* instruction = "";
  unsigned tile_rows = 1, tile_cols = 1;  ///< of C, one thread block's
  bool (*takes)(const gemm_job&, const device_facts&) = nullptr;
  std::size_t (*workspace)(const gemm_job&, const device_facts&) = nullptr;
  error (*run)(const gemm_job&, const device_facts&, std::span<std::byte> workspace, stream) = nullptr;
  accumulate fast_is = accumulate::fast;
  bool experimental = false;
  unsigned (*tile_side)(const gemm_job&, const device_facts&) = nullptr;
  error (*run_group)(std::span<const gemm_job>, const device_facts&, stream) = nullptr;
};

/// The kernels of the machine this program is compiled for, the best first: each vendor's gemm_kernels.hpp, which his
/// header of all operations gives.
std::span<const gemm_kernel* const> gemm_kernels();

}  // namespace ufp4::gpu::inline UFP4_GPU
