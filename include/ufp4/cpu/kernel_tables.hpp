// ufp4 - the tables of kernels, and how a kernel is looked up in them.
// SPDX-License-Identifier: Apache-2.0
//
// The rows are in cpu/kernels.hpp. A tier without a row runs its parent's kernel (cpu/isa.hpp).
#pragma once

#include <cstddef>
#include <ufp4/cpu/elements.hpp>
#include <ufp4/cpu/gemm_kernel.hpp>
#include <ufp4/cpu/isa.hpp>

namespace ufp4::cpu::detail::inline UFP4_TYPES {

struct untyped_table {
  const void* rows;
  std::size_t count;
};
/// The kernels that a file with UFP4_COMPILE_KERNELS defines for all files with UFP4_EXTERNAL_KERNELS. The name of
/// external_kernels has no key (detail/compiler.hpp), because those files may be compiled with other flags.
struct compiled_kernels {
  untyped_table quantize, amax, dequantize, hadamard, gemm;
  isa_set compiled;
};
extern const compiled_kernels external_kernels;

}  // namespace ufp4::cpu::detail::inline UFP4_TYPES

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
/// `takes`: whether the kernel has code for this format, rule and rounding.
struct quantize_row {
  isa tier;
  const char* name;
  bool (*takes)(const quantize_job&, const block_coder<rounding_spec>&);
  quantize_function* kernel;
};

/// The rows of one operation, in constant memory: an array, or a table of external_kernels. Constant-initialized.
template <class Row>
class kernel_table {
 public:
  template <std::size_t n>
  constexpr kernel_table(const Row (&rows)[n]) : rows_(rows), count_(n) {}
  constexpr explicit kernel_table(const untyped_table& external) : external_(&external) {}

  const Row* begin() const {
    if (external_ == nullptr) return rows_;
    const void* rows = external_->rows;
    asm("" : "+r"(rows));  // the types behind it are keyed: calls must not be inlined at link time
    return static_cast<const Row*>(rows);
  }
  const Row* end() const { return external_ == nullptr ? rows_ + count_ : begin() + external_->count; }

 private:
  const Row* rows_ = nullptr;
  std::size_t count_ = 0;
  const untyped_table* external_ = nullptr;
};

#if defined(UFP4_EXTERNAL_KERNELS)
/// Of the file that is compiled with UFP4_COMPILE_KERNELS. Without UFP4_EXTERNAL_KERNELS: cpu/kernels.hpp.
namespace kernels {
inline constexpr kernel_table<quantize_row> quantize{external_kernels.quantize};
inline constexpr kernel_table<kernel_row<amax_function>> amax{external_kernels.amax};
inline constexpr kernel_table<kernel_row<dequantize_function>> dequantize{external_kernels.dequantize};
inline constexpr kernel_table<kernel_row<hadamard_function>> hadamard{external_kernels.hadamard};
inline constexpr kernel_table<const gemm_kernel*> gemm{external_kernels.gemm};
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
