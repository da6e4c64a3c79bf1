// ufp4 - products by a library that the program links: cublasLt (cuda/cublas.hpp).
// SPDX-License-Identifier: Apache-2.0
//
// Two kernels of the table that take no job until a library is installed, so explain and workspace_bytes describe what
// this program really runs. The library only multiplies; this file does what comes before and after:
//
//   decode operands to the workspace ─► set factors ─► library ─► finish: C from the sums, or computed again
//
// | kernel              | operands in the workspace                                    | devices                 |
// |---------------------|--------------------------------------------------------------|-------------------------|
// | gemm_library_bf16   | value * scale as bf16                                        | all with bf16           |
// | gemm_library_blocks | swizzled scales; nvfp4 codes as stored, mx formats' as E4M3  | Blackwell; experimental |
//
// The library writes C itself if C allows it (binary32 or bf16, contiguous rows aligned to 16 bytes, no bias), which
// saves passes over C and its sums. C is then rounded from fl(acc * fl(alpha * TA * TB)) + beta * C, which has no more
// roundings than the epilogue of other kernels. Nothing looks at the sums in that case, so the decoders reject operands
// whose sums could overflow. Otherwise the epilogue of thread/epilogue.hpp makes C of binary32 sums in the workspace.
#pragma once

#include <atomic>
#include <ufp4/gpu/kernels/library_operands.hpp>
#include <ufp4/gpu/thread/epilogue.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

/// D = alpha * left * right^T + beta * D, packed: left rows x depth, right cols x depth. Pointers aligned to 16 bytes.
struct library_product {
  enum class operands : std::uint8_t {
    bf16,
    nvfp4,  ///< E2M1 codes, e4m3 scales of 16 elements, 128x4
    mxfp8,  ///< E4M3 bytes, e8m0 scales of 32 elements, 128x4
  };
  operands kind = operands::bf16;
  const void *left = nullptr, *right = nullptr;
  const void *left_scales = nullptr, *right_scales = nullptr;
  std::size_t rows = 0, cols = 0, depth = 0;
  const float *alpha = nullptr, *beta = nullptr;  ///< in device memory
  void* out = nullptr;
  dtype out_kind = dtype::f32;  ///< f32 or bf16
  std::size_t out_stride = 0;   ///< elements from row to row; a multiple of 16 bytes
};

/// A library that multiplies. It is used while installed_library points to it.
struct gemm_library {
  bool (*ready)() = nullptr;  ///< can it be used on the current device?
  std::size_t workspace = 0;  ///< bytes that multiply may use
  error (*multiply)(const library_product&, std::span<std::byte> workspace, stream) = nullptr;
  bool blocks = true;  ///< multiplies operands with block scales
  /// &detail::run_library<>: only programs that install a library compile the kernels before and after `multiply`.
  error (*run)(const gemm_job&, library_product::operands, const gemm_library&, const device_facts&,
               std::span<std::byte> workspace, stream) = nullptr;
};

/// The library in use; null: none.
inline std::atomic<const gemm_library*> installed_library{nullptr};

}  // namespace ufp4::gpu::inline UFP4_GPU

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned finish_threads = 256;

/// In device memory. `unfit` is set by the decoders; `rescue`: the result of the multiplication is not usable.
struct product_factors {
  float alpha, beta;
  std::uint32_t unfit, rescue;
};

struct finish_job {
  gemm_job product{};
  product_factors* factors = nullptr;
  const float* sums = nullptr;  ///< the result of the multiplication; null: it writes C itself
  std::size_t sums_stride = 0;
  thread::words4* operands = nullptr;  ///< all that the multiplication reads except its factors
  std::size_t operand_words = 0;       ///< the size of that
};

/// Sets the factors of the multiplication: alpha * TA * TB and beta if it writes C itself. If that product is not
/// normal, or an operand did not fit, it clears the operands and lets C keep its old value, which finish_product reads.
UFP4_LAZY_KERNEL(finish_threads) set_factors(const finish_job job) {
  product_factors& f = *job.factors;
  const bool writes = job.sums == nullptr;
  const thread::result_scales by = thread::epilogue_of(job.product).by;
  const float alpha = rounded(by.a * by.alpha_b);
  const bool rescue = f.unfit != 0 || (writes && !(thread::is_normal(alpha) && thread::is_normal(by.alpha_b)));
  const std::size_t at = std::size_t{block_index().x} * finish_threads + thread_index().x;
  if (at == 0) {
    f.alpha = !writes ? 1.0f : rescue ? 0.0f : alpha;
    f.beta = !writes || job.product.beta == 0.0f ? 0.0f : rescue ? 1.0f : job.product.beta;
    f.rescue = rescue ? 1 : 0;
  }
  if (rescue && writes)
    for (std::size_t i = at; i < job.operand_words; i += std::size_t{grid_size().x} * finish_threads)
      job.operands[i] = {};
}

/// C from the sums; or all of C computed again; or nothing, if the multiplication wrote C. One thread for each column.
UFP4_LAZY_KERNEL(finish_threads) finish_product(UFP4_PARAMETER finish_job job) {
  const bool rescue = job.factors->rescue != 0;
  const std::size_t j = std::size_t{block_index().x} * finish_threads + thread_index().x;
  if ((!rescue && job.sums == nullptr) || j >= job.product.out.cols) return;
  const thread::epilogue to = thread::epilogue_of(job.product);
  for (std::size_t i = block_index().y; i < job.product.out.rows; i += grid_size().y)
    thread::store_sum(job.product, to, i, j, rescue ? quiet_nan : job.sums[i * job.sums_stride + j]);
}

/// Two blocks for each multiprocessor: enough to clear the operands, which is rarely needed.
template <class Use = void>
error queue_set_factors(const finish_job& job, const device_facts& device, stream where) {
  return launch(listed<&set_factors<Use>>, {2 * static_cast<unsigned>(device.processors)}, {finish_threads}, 0, where,
                job);
}

/// At most eight blocks for each multiprocessor, so that the launch costs little if there is nothing to do.
template <class Use = void>
error queue_finish_product(const finish_job& job, const device_facts& device, stream where) {
  const std::size_t across = (job.product.out.cols + finish_threads - 1) / finish_threads;
  std::size_t down = 8 * static_cast<std::size_t>(device.processors) / across;
  down = down < 1 ? 1 : down > job.product.out.rows ? job.product.out.rows : down > 65535 ? 65535 : down;
  return launch(listed<&finish_product<Use>>, {static_cast<unsigned>(across), static_cast<unsigned>(down)},
                {finish_threads}, 0, where, job);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

using library_operands = library_product::operands;

inline const gemm_library* library() {
  const gemm_library* here = installed_library.load(std::memory_order_acquire);
  return here != nullptr && here->ready() ? here : nullptr;
}

inline bool writes_result(const gemm_job& job) {
  const std::size_t size = job.out.kind == dtype::f32 ? 4 : 2;
  return job.out.kind != dtype::fp16 && job.bias == nullptr && job.out.col_stride == 1 &&
         job.out.row_stride >= static_cast<std::ptrdiff_t>(job.out.cols) &&
         static_cast<std::size_t>(job.out.row_stride) * size % 16 == 0 && is_aligned(job.out.data, 16);
}

struct library_plan : kernels::operand_plan {
  std::size_t sums = 0, factors = 0, own_memory = 0;
};

inline std::size_t sums_stride(const gemm_job& job) { return (job.out.cols + 31) / 32 * 32; }

/// Can the library read the codes of nvfp4 where they are?
inline bool stays(const gemm_side& side, library_operands kind) {
  return kind == library_operands::nvfp4 && is_aligned(side.codes, 16);
}

inline std::size_t element_bytes(const gemm_job& job, const gemm_side& side, library_operands kind) {
  const std::size_t elements = side.rows * job.padded();
  switch (kind) {
    case library_operands::bf16: return 2 * elements;
    case library_operands::nvfp4: return stays(side, kind) ? 0 : elements / 2;
    case library_operands::mxfp8: return elements;
  }
  return 0;
}

inline library_plan plan_library(const gemm_job& job, library_operands kind, std::size_t library_bytes) {
  library_plan plan;
  for (unsigned s = 0; s < 2; ++s) {
    const gemm_side& side = s == 0 ? job.left : job.right;
    plan.elements[s] = plan.add(element_bytes(job, side, kind));
    if (kind != library_operands::bf16) plan.scales[s] = plan.add(ufp4::compat::swizzled_size(side.rows, job.blocks()));
  }
  plan.sums = plan.add(writes_result(job) ? 0 : 4 * job.out.rows * sums_stride(job));
  plan.factors = plan.add(sizeof(kernels::product_factors));
  plan.own_memory = plan.add(library_bytes);
  return plan;
}

/// log2 of a bound on decoded elements: if the library writes C itself, Kp products of two must be below 2^127.
inline int operand_limit(const gemm_job& job) {
  if (!writes_result(job)) return 128;
  int k = 0;
  while (std::size_t{1} << k < job.padded()) ++k;
  return (126 - k) / 2;
}

template <class = void>
error queue_operand(const gemm_job& job, const gemm_side& side, library_operands kind, std::byte* elements,
                    std::byte* scales, std::uint32_t* unfit, stream where) {
  if (kind == library_operands::bf16)
    return kernels::queue_decode_bf16(side, job.block, reinterpret_cast<std::uint16_t*>(elements), unfit, where,
                                      {.limit = operand_limit(job)});
  const error e = kernels::queue_swizzle_scales(side, job.block, reinterpret_cast<std::uint8_t*>(scales), unfit, where,
                                                operand_limit(job));
  if (e != success) return e;
  if (stays(side, kind)) return success;
  if (kind == library_operands::nvfp4) return copy(elements, side.codes, side.rows * job.padded() / 2, where);
  return kernels::queue_widen_codes(side, reinterpret_cast<std::uint8_t*>(elements), where);
}

template <class = void>
error run_library(const gemm_job& job, library_operands kind, const gemm_library& with, const device_facts& device,
                  std::span<std::byte> workspace, stream where) {
  const library_plan plan = plan_library(job, kind, with.workspace);
  std::byte* memory = workspace.data();
  auto* factors = reinterpret_cast<kernels::product_factors*>(memory + plan.factors);
  if (error e = set_zero(factors, sizeof *factors, where); e != success) return e;
  const void* elements[2];
  for (unsigned s = 0; s < 2; ++s) {
    const gemm_side& side = s == 0 ? job.left : job.right;
    elements[s] = stays(side, kind) ? static_cast<const void*>(side.codes) : memory + plan.elements[s];
    const error e =
        queue_operand(job, side, kind, memory + plan.elements[s], memory + plan.scales[s], &factors->unfit, where);
    if (e != success) return e;
  }
  kernels::finish_job finish{job, factors};
  if (!writes_result(job)) finish.sums = reinterpret_cast<const float*>(memory + plan.sums);
  finish.sums_stride = sums_stride(job);
  finish.operands = reinterpret_cast<thread::words4*>(memory);
  finish.operand_words = plan.sums / sizeof(thread::words4);  // the operands are at the beginning
  if (error e = kernels::queue_set_factors(finish, device, where); e != success) return e;
  const bool writes = writes_result(job);
  const library_product product{.kind = kind,
                                .left = elements[0],
                                .right = elements[1],
                                .left_scales = memory + plan.scales[0],
                                .right_scales = memory + plan.scales[1],
                                .rows = job.out.rows,
                                .cols = job.out.cols,
                                .depth = job.padded(),
                                .alpha = &factors->alpha,
                                .beta = &factors->beta,
                                .out = writes ? job.out.data : memory + plan.sums,
                                .out_kind = writes ? job.out.kind : dtype::f32,
                                .out_stride = writes ? static_cast<std::size_t>(job.out.row_stride) : sums_stride(job)};
  if (error e = with.multiply(product, workspace.subspan(plan.own_memory), where); e != success) return e;
  return kernels::queue_finish_product(finish, device, where);
}
UFP4_GPU_FUNCTION(error run_library<void>(const gemm_job&, library_operands, const gemm_library&, const device_facts&,
                                          std::span<std::byte>, stream))

/// The smallest product for which the library is the fastest kernel: decoded operands must be read many times.
inline constexpr std::size_t library_rows = 1024, library_cols = 128;

inline bool library_takes(const gemm_job& job) {
  return job.mode != accumulate::exact_blocks && job.out.rows >= library_rows && job.out.cols >= library_cols &&
         job.padded() != 0 && ufp4::detail::is_finite(job.alpha) && ufp4::detail::magnitude(job.alpha) >= 0x1p-126f;
}

inline bool takes_bf16(const gemm_job& job, const device_facts& device) {
  return device.architecture >= 80 && library_takes(job) && kernels::decodes_to_bf16(job.left, job.block, job.mode) &&
         kernels::decodes_to_bf16(job.right, job.block, job.mode) && library() != nullptr;
}

/// The block-scaled operands that a library multiplies on Blackwell; bf16: the job has none.
inline library_operands block_operands(const gemm_job& job) {
  // the library needs rows whose size is a multiple of 16 bytes
  if (has_blocks(job, 16, scale_kind::e4m3, is_e2m1) && job.padded() % 32 == 0) return library_operands::nvfp4;
  return has_blocks(job, 32, scale_kind::e8m0, thread::fits_containers) ? library_operands::mxfp8
                                                                        : library_operands::bf16;
}

inline bool takes_blocks(const gemm_job& job, const device_facts& device) {
  // cublasLt needs sizes that are multiples of 16
  const bool sixteens = job.out.rows % 16 == 0 && job.out.cols % 16 == 0;
  const gemm_library* with = library();
  return device.architecture >= 100 && sixteens && library_takes(job) &&
         block_operands(job) != library_operands::bf16 && with != nullptr && with->blocks;
}

template <bool bf16>
library_operands operands_of(const gemm_job& job) {
  return bf16 ? library_operands::bf16 : block_operands(job);
}

/// `bf16`: the kernel that multiplies bf16, else the one of blocks.
template <bool bf16>
constexpr gemm_kernel library_kernel(const char* name, const char* instruction) {
  return {.name = name,
          .instruction = instruction,
          .takes = bf16 ? &takes_bf16 : &takes_blocks,
          .run =
              [](const gemm_job& job, const device_facts& device, std::span<std::byte> workspace, stream where) {
                const gemm_library* with = library();
                return with == nullptr ? not_supported
                                       : with->run(job, operands_of<bf16>(job), *with, device, workspace, where);
              },
          .workspace =
              [](const gemm_job& job, const device_facts&) {
                const gemm_library* with = library();
                return with == nullptr ? 0 : plan_library(job, operands_of<bf16>(job), with->workspace).total;
              },
          .experimental = !bf16};
}

inline constexpr gemm_kernel gemm_library_bf16 = library_kernel<true>("gemm_library_bf16", "cublasLtMatmul bf16");
inline constexpr gemm_kernel gemm_library_blocks =
    library_kernel<false>("gemm_library_blocks", "cublasLtMatmul block-scaled");

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
