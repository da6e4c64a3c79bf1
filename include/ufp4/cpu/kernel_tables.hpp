// ufp4 - the tables of kernels, and how a kernel is looked up in them.
// SPDX-License-Identifier: Apache-2.0
//
// The rows stand in cpu/kernels.hpp. A tier without a row runs its parent's kernel (cpu/isa.hpp).
#pragma once

#include <cstddef>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/gemm_kernel.hpp>
#include <ufp4/cpu/isa.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// What the kernels of each operation are: strips or rows first .. last - 1 of a job.
using quantize_function = void(const quantize_job&, const block_coder<rounding_spec>&, const quantized_sink&,
                               std::size_t first, std::size_t last, quantize_report&);
using amax_function = std::uint32_t(const quantize_job&, std::size_t first, std::size_t last);
using dequantize_function = void(const quantized_source&, const sink&, std::size_t first, std::size_t last);
using hadamard_function = void(const transform_spec&, bool inverse, const source&, const sink&, std::size_t first,
                               std::size_t last);

template <class Kernel>
struct kernel_row {
  isa tier;
  const char* name;
  Kernel* kernel;
};
/// A row of the quantizers: `takes` says whether it has code for this format, rule and rounding.
struct quantize_row {
  isa tier;
  const char* name;
  bool (*takes)(const quantize_job&, const block_coder<rounding_spec>&);
  quantize_function* kernel;
};

/// Rows in constant memory.
template <class Row>
struct kernel_table {
  const Row* rows;
  std::size_t count;

  template <std::size_t n>
  constexpr kernel_table(const Row (&all)[n]) : rows(all), count(n) {}
  constexpr const Row* begin() const { return rows; }
  constexpr const Row* end() const { return rows + count; }
};

#if defined(UFP4_EXTERNAL_KERNELS)
/// Of the file that is compiled with UFP4_COMPILE_KERNELS.
namespace kernels {
extern const kernel_table<quantize_row> quantize;
extern const kernel_table<kernel_row<amax_function>> amax;
extern const kernel_table<kernel_row<dequantize_function>> dequantize;
extern const kernel_table<kernel_row<hadamard_function>> hadamard;
extern const kernel_table<const gemm_kernel*> gemm;
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
                                               const block_coder<rounding_spec>& coder, isa tier) {
  for (isa i = tier;; i = parent(i))
    for (const quantize_row& row : table)
      if (row.tier == i && row.takes(job, coder)) return row;
}
inline const gemm_kernel& gemm_kernel_for(const kernel_table<const gemm_kernel*>& table, const gemm_job& job,
                                          isa tier) {
  for (isa i = tier;; i = parent(i))
    for (const gemm_kernel* row : table)
      if (row->tier == i && row->takes(job)) return *row;
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
