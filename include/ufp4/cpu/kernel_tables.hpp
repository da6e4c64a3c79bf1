// ufp4 - what the kernels of each operation are, their tables, and how a kernel is looked up in them.
// SPDX-License-Identifier: Apache-2.0
//
// GEMM: a call is cut into parts of C. The rows of a part are packed once, before any part is multiplied. The columns
// of a part are decoded by the task that multiplies it, so the right operand is decoded M / part_rows times in all.
// Every kernel stores its sums with store_part (kernels/gemm/store_part.hpp) or its AVX-512 form.
//
// The rows are in cpu/kernels.hpp. A tier without a row runs its parent's kernel (cpu/isa.hpp).
#pragma once

#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/isa.hpp>

namespace ufp4::cpu::detail::inline UFP4_TYPES {

using namespace ufp4::detail;

/// What the kernels of each operation are: strips or rows first .. last - 1 of a job.
using quantize_function = void(const quantize_job&, const kernel_coder&, const quantized_sink&, std::size_t first,
                               std::size_t last, quantize_report&);
using amax_function = std::uint32_t(const quantize_job&, std::size_t first, std::size_t last);
using dequantize_function = void(const quantized_source&, const sink&, std::size_t first, std::size_t last);
using hadamard_function = void(const transform_spec&, bool inverse, const source&, const sink&, std::size_t first,
                               std::size_t last);

/// Rows and columns of C that one task computes.
struct gemm_part {
  std::size_t row, rows, col, cols;
};

/// One way to multiply. The caller provides all memory, aligned to 64 bytes.
///
/// | takes         | whether it can run a job. Depends on modes, grids and shapes only: explain() calls it without    |
/// |               | codes                                                                                            |
/// | left_bytes    | of `rows` packed rows; a multiple of 64. Row i, a multiple of tile_rows, begins at left_bytes(i) |
/// | pack_left     | packs rows [row, row + rows), row a multiple of tile_rows; pads the last tile as it needs        |
/// | scratch_bytes | for a part with that many rows                                                                   |
/// | multiply      | computes one part of C and stores it; `left` is what pack_left made of the part's rows           |
struct gemm_kernel {
  isa tier = isa::scalar;
  const char* name = "";
  std::size_t tile_rows = 1, tile_cols = 1;  ///< of C, in registers
  std::size_t tile_depth = 1;                ///< K that one multiply instruction adds up
  std::size_t part_rows = 1, part_cols = 1;  ///< at most; multiples of the tile's
  bool (*takes)(const gemm_job&) = nullptr;
  std::size_t (*left_bytes)(const gemm_job&, std::size_t rows) = nullptr;
  void (*pack_left)(const gemm_job&, std::size_t row, std::size_t rows, std::byte* out) = nullptr;
  std::size_t (*scratch_bytes)(const gemm_job&, std::size_t rows) = nullptr;
  void (*multiply)(const gemm_job&, const gemm_part&, const std::byte* left, std::byte* scratch) = nullptr;
  accumulate fast_is = accumulate::fast;  ///< exact_blocks if `fast` gives its bits where they are finite
  features parts = features::none;        ///< of formats, that it has code for: takes() is not asked about the others

  UFP4_HOST_MEMBER accumulate made_as(accumulate mode) const { return mode == accumulate::fast ? fast_is : mode; }
};

template <class Kernel>
struct kernel_row {
  isa tier;
  const char* name;
  Kernel* kernel;
};
/// `takes`: whether the kernel has code for this format, rule and rounding.
struct quantize_row {
  isa tier;
  const char* name;
  bool (*takes)(const quantize_job&, const kernel_coder&);
  quantize_function* kernel;
};

/// Rows of one operation, in constant memory.
template <class Row>
struct row_list {
  const Row* rows;
  std::size_t count;
};
/// The kernels that a file with UFP4_COMPILE_KERNELS defines for all files with UFP4_EXTERNAL_KERNELS. They may be
/// compiled with other flags, so no name in this has a key (detail/odr_key.hpp): both call kernels by one type.
struct compiled_kernels {
  row_list<quantize_row> quantize;
  row_list<kernel_row<amax_function>> amax;
  row_list<kernel_row<dequantize_function>> dequantize;
  row_list<kernel_row<hadamard_function>> hadamard;
  row_list<const gemm_kernel*> gemm;
  isa_set compiled;
};
extern const compiled_kernels external_kernels;

}  // namespace ufp4::cpu::detail::inline UFP4_TYPES

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// n rounded up to a multiple of `to`: a cache line, if not given.
constexpr std::size_t up(std::size_t n, std::size_t to = 64) { return (n + to - 1) / to * to; }

/// What the kernels of quantize_scalar and dequantize depend on, so that calls that differ in the rest share them.
inline constexpr features coded_features =
    features::further_parts | features::search | element_features | features::random_bits | features::other_rounding;
inline constexpr features portable_features = coded_features | features::corrected_scales;
inline constexpr features quantized_features = coded_features | features::transform | features::half_input |
                                               features::quotient | grid_features | scale_features |
                                               features::tall_block;
inline constexpr features decoded_features =
    features::further_parts | element_features | features::short_block | features::half_input | scale_features;

/// A kernel whose functions are static members of a class, and so are tile_rows and tile_cols. Most of them add up
/// block by block in order, whatever the mode, so that `fast` gives the bits of exact_blocks. `needs`: so that a table
/// instantiates the kernel, not an include.
template <class F, features needs = features::all>
constexpr gemm_kernel kernel_of(isa tier, const char* name, std::size_t depth, std::size_t part_rows,
                                std::size_t part_cols, accumulate fast_is = accumulate::exact_blocks,
                                features parts = features::none) {
  return {tier,      name,           F::tile_rows,  F::tile_cols,      depth,        part_rows, part_cols,
          &F::takes, &F::left_bytes, &F::pack_left, &F::scratch_bytes, &F::multiply, fast_is,   parts};
}
/// The same of a kernel that also reads operands with elements of one byte, where its takes() admits them.
template <class F, features needs = features::all>
constexpr gemm_kernel byte_kernel_of(isa tier, const char* name, std::size_t depth, std::size_t part_rows,
                                     std::size_t part_cols) {
  return kernel_of<F, needs>(tier, name, depth, part_rows, part_cols, accumulate::exact_blocks, features::byte_element);
}

/// The rows of one operation: an array, or a list of external_kernels. Constant-initialized.
template <class Row>
class kernel_table {
 public:
  template <std::size_t n>
  constexpr kernel_table(const Row (&rows)[n]) : rows_(rows), count_(n) {}
  constexpr kernel_table(const Row* rows, std::size_t count) : rows_(rows), count_(count) {}
  constexpr explicit kernel_table(const row_list<Row>& external) : external_(&external) {}

  const Row* begin() const { return external_ == nullptr ? rows_ : external_->rows; }
  const Row* end() const { return external_ == nullptr ? rows_ + count_ : begin() + external_->count; }

 private:
  const Row* rows_ = nullptr;
  std::size_t count_ = 0;
  const row_list<Row>* external_ = nullptr;
};

/// Whether dequantize is portable code for a format on every tier: the vector kernels call it.
inline bool is_decoded_by_scalar(const format_spec& f) {
  return f.block.cols < 16 || (f.has_bytes() && has(parts_of(f), features::further_parts | features::byte_float));
}

using gemm_table = kernel_table<const gemm_kernel*>;

#if defined(UFP4_EXTERNAL_KERNELS)
/// Of the file that is compiled with UFP4_COMPILE_KERNELS. Without UFP4_EXTERNAL_KERNELS: cpu/kernels.hpp.
namespace kernels {
template <features>
inline constexpr kernel_table<quantize_row> quantize{external_kernels.quantize};
template <features>
inline constexpr kernel_table<kernel_row<amax_function>> amax{external_kernels.amax};
template <features>
inline constexpr kernel_table<kernel_row<dequantize_function>> dequantize{external_kernels.dequantize};
template <features>
inline constexpr kernel_table<kernel_row<hadamard_function>> hadamard{external_kernels.hadamard};
template <features>
inline constexpr gemm_table gemm{external_kernels.gemm};
inline constexpr const isa_set& compiled = external_kernels.compiled;
}  // namespace kernels
#endif

/// The row of a tier, or of its nearest ancestor that has one.
template <class Kernel>
const kernel_row<Kernel>& kernel_for(const kernel_table<kernel_row<Kernel>>& table, isa tier) {
  for (isa i = tier;; i = parent(i))
    for (const auto& row : table)
      if (row.tier == i) return row;
}
inline const quantize_row& quantize_kernel_for(const kernel_table<quantize_row>& table, const quantize_job& job,
                                               const kernel_coder& coder, isa tier) {
  for (isa i = tier;; i = parent(i))
    for (const quantize_row& row : table)
      if (row.tier == i && row.takes(job, coder)) return row;
}
inline const gemm_kernel& gemm_kernel_for(const gemm_table& table, const gemm_job& job, isa tier) {
  const auto parts_in = [](const gemm_operand& side) {
    return side.is_quantized ? ufp4::detail::parts_of(side.q.format) : features::none;
  };
  const features parts = parts_in(job.left) | parts_in(job.right);
  for (isa i = job.needs_binary64() ? isa::scalar : tier;; i = parent(i))
    for (const gemm_kernel* row : table)
      if (row->tier == i && !has(parts, ~row->parts) && row->takes(job)) return *row;
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
