// ufp4 - which kernel runs a product: the first row of the vendor's table that takes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/status.hpp>
#include <ufp4/matrix/accumulate.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

/// Which kernel runs a product.
///
/// | kernel      | its name in the vendor's table; "" if no kernel takes the product                               |
/// | instruction | the machine instruction that multiplies                                                         |
/// | tile_*      | the part of C that a thread block computes                                                      |
/// | mode        | how sums are computed: exact_blocks also if `fast` was requested and the kernel has those bits  |
/// | note        | why a faster kernel is not used; may be empty                                                   |
struct explanation {
  const char* operation = "";                ///< the operation
  const char* kernel = "";                   ///< the name of its kernel
  const char* instruction = "";              ///< the matrix instruction
  std::size_t tile_rows = 0, tile_cols = 0;  ///< of C, of one thread block
  accumulate mode = accumulate::fast;        ///< what the kernel computes
  std::string note;                          ///< remarks, possibly empty

  /// All members in one line.
  std::string text() const {
    const std::string line = ufp4::detail::concat(operation, ": ", kernel, " (", instruction, "), tiles of ", tile_rows,
                                                  " x ", tile_cols, ", accumulate ", name(mode));
    return note.empty() ? line : line + "; " + note;
  }
};

}  // namespace ufp4::gpu::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

#if defined(UFP4_EXPERIMENTAL)
inline constexpr bool takes_experimental = true;
#else
inline constexpr bool takes_experimental = false;
#endif

/// The first kernel of the table that takes a job; null if there is none.
inline const gemm_kernel* choose_kernel(const gemm_job& job, const device_facts& device) {
  for (const gemm_kernel* kernel : gemm_kernels())
    if ((takes_experimental || !kernel->experimental) && kernel->takes(job, device)) return kernel;
  return nullptr;
}

/// An architecture as compilers spell it: "sm_90", "gfx942".
inline std::string target_name(int architecture) {
  const target_spelling how = target_spelling_of(architecture);
  std::string digits;
  for (int rest = architecture; rest != 0; rest /= how.base)
    digits.insert(digits.begin(), "0123456789abcdef"[rest % how.base]);
  return how.prefix + digits;
}

/// Why kernels above the chosen one are not used, where the author of the program can change that.
inline std::string why_not_better(const gemm_job& job, const device_facts& device, const gemm_kernel* chosen) {
  device_facts able = device;
  able.compiled = 0;
  able.specific = true;
  device_facts common = able;
  common.specific = false;
  std::string why;
  for (const gemm_kernel* kernel : gemm_kernels()) {
    if (kernel == chosen) break;
    if (!kernel->takes(job, able)) continue;
    if (!why.empty()) why += "; ";
    if (!kernel->takes(job, device))
      why += ufp4::detail::concat(kernel->name, " needs code compiled for ", target_name(device.architecture),
                                  kernel->takes(job, common) ? "" : "a", ", which this program lacks");
    else
      why += ufp4::detail::concat(kernel->name, " has not run on a device yet and is only used with UFP4_EXPERIMENTAL");
  }
  return why;
}

inline explanation explain_job(const char* operation, const gemm_job& job, const device_facts& device) {
  explanation e{operation, "", "", 0, 0, job.mode, {}};
  const gemm_kernel* kernel = choose_kernel(job, device);
  e.note = why_not_better(job, device, kernel);
  if (kernel == nullptr) return e;
  e.kernel = kernel->name;
  e.instruction = kernel->instruction;
  const unsigned side = kernel->tile_side == nullptr ? 0 : kernel->tile_side(job, device);
  e.tile_rows = side != 0 ? side : kernel->tile_rows;
  e.tile_cols = side != 0 ? side : kernel->tile_cols;
  if (e.mode == accumulate::fast) e.mode = kernel->fast_is;
  return e;
}

/// The workspace of the kernel that runs a job.
inline std::size_t kernel_bytes(const gemm_job& job, const device_facts& device) {
  const gemm_kernel* kernel = choose_kernel(job, device);
  return kernel == nullptr ? 0 : kernel->workspace(job, device);
}

/// Queues a checked job. `workspace` has kernel_bytes() bytes, aligned to 256.
inline status run_gemm(const char* operation, const gemm_job& job, const device_facts& device,
                       std::span<std::byte> workspace, stream where) {
  if (job.out.rows == 0 || job.out.cols == 0) return {};
  const gemm_kernel* kernel = choose_kernel(job, device);
  if (kernel == nullptr) return {not_supported, ufp4::detail::concat(operation, ": no kernel takes the product")};
  return status_of(operation, kernel->run(job, device, workspace, where));
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
