// ufp4 - products on cublasLt: include it after ufp4/cuda.hpp in a program that links cublasLt.
// SPDX-License-Identifier: Apache-2.0
//
//   ufp4::cuda::cublas library;             // while it exists, operations may use cublasLt on this device
//   if (!library.made()) std::puts(library.made().text().c_str());
//   ufp4::cuda::quantized_gemm(ctx, qx, qw, y);
//
// cuda/library_gemm.hpp describes which products use it and how their operands are prepared. The bits are cublasLt's,
// within the bound of accumulate::fast; exact_blocks never uses it.
#pragma once

#include <cublasLt.h>

#include <ufp4/cuda/library_gemm.hpp>

namespace ufp4::gpu::detail::inline UFP4_GPU {

inline error error_of(cublasStatus_t s) {
  switch (s) {
    case CUBLAS_STATUS_SUCCESS: return success;
    case CUBLAS_STATUS_NOT_INITIALIZED: return cudaErrorInitializationError;
    case CUBLAS_STATUS_ALLOC_FAILED: return cudaErrorMemoryAllocation;
    case CUBLAS_STATUS_INVALID_VALUE: return invalid_argument;
    case CUBLAS_STATUS_ARCH_MISMATCH: return cudaErrorNoKernelImageForDevice;
    case CUBLAS_STATUS_EXECUTION_FAILED: return cudaErrorLaunchFailure;
    case CUBLAS_STATUS_NOT_SUPPORTED: return not_supported;
    default: return cudaErrorUnknown;
  }
}
/// The same; keeps the name of the call and the library's text for the status of the operation.
inline error checked_call(const char* call, cublasStatus_t s) {
  return s == CUBLAS_STATUS_SUCCESS ? success : failed(error_of(s), call, cublasLtGetStatusString(s));
}

/// Block scales and E2M1 elements exist since CUDA 12.8; a program built with an older one multiplies bf16.
inline constexpr bool cublas_has_blocks = CUBLAS_VERSION >= 120800;

/// cublasLt matrices are column-major, so it computes C^T = right * left^T: its A is `right`, transposed, its B `left`,
/// its D C. Only in that form, with both operands contiguous along K, it multiplies block-scaled operands.
struct cublas_call {
  cublasLtMatmulDescOpaque_t operation{};
  cublasLtMatrixLayoutOpaque_t right{}, left{}, out{};
  cublasLtMatmulPreferenceOpaque_t preference{};
  cublasStatus_t state = CUBLAS_STATUS_SUCCESS;
  const char* failed_at = "";

  void step(const char* what, cublasStatus_t s) {
    if (state != CUBLAS_STATUS_SUCCESS || s == CUBLAS_STATUS_SUCCESS) return;
    state = s;
    failed_at = what;
  }
  template <class T>
  void set(cublasLtMatmulDescAttributes_t what, const T& value) {
    step("cublasLtMatmulDescSetAttribute", cublasLtMatmulDescSetAttribute(&operation, what, &value, sizeof value));
  }
  template <class T>
  void prefer(cublasLtMatmulPreferenceAttributes_t what, const T& value) {
    step("cublasLtMatmulPreferenceSetAttribute",
         cublasLtMatmulPreferenceSetAttribute(&preference, what, &value, sizeof value));
  }
  void lay_out(cublasLtMatrixLayoutOpaque_t& layout, cudaDataType_t type, std::size_t rows, std::size_t cols,
               std::size_t stride) {
    step("cublasLtMatrixLayoutInit",
         cublasLtMatrixLayoutInit(&layout, type, rows, cols, static_cast<std::int64_t>(stride)));
  }

  static cudaDataType_t type_of(library_operands kind) {
    if (kind == library_operands::bf16) return CUDA_R_16BF;
#if CUBLAS_VERSION >= 120800
    if (kind == library_operands::nvfp4) return CUDA_R_4F_E2M1;
#endif
    return CUDA_R_8F_E4M3;
  }

  void describe_scales(const library_product& p) {
    if (p.kind == library_operands::bf16) return;
#if CUBLAS_VERSION >= 120800
    const cublasLtMatmulMatrixScale_t mode = p.kind == library_operands::nvfp4
                                                 ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3
                                                 : CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode);
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.right_scales);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.left_scales);
#else
    step("block scales before CUDA 12.8", CUBLAS_STATUS_NOT_SUPPORTED);
#endif
  }

  void describe(const library_product& p, std::size_t workspace) {
    const cudaDataType_t operand = type_of(p.kind);
    step("cublasLtMatmulDescInit", cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
    describe_scales(p);
    lay_out(right, operand, p.depth, p.cols, p.depth);
    lay_out(left, operand, p.depth, p.rows, p.depth);
    lay_out(out, p.out_kind == dtype::f32 ? CUDA_R_32F : CUDA_R_16BF, p.cols, p.rows, p.out_stride);
    step("cublasLtMatmulPreferenceInit", cublasLtMatmulPreferenceInit(&preference));
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
    // partial sums along K are added in binary32, never in C's type
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    for (const auto matrix : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      prefer(matrix, std::uint32_t{16});  // that of C; operands in the workspace are aligned to 256 bytes
  }

  /// cublasLt caches the answer, so every call asks.
  void choose(cublasLtHandle_t handle, cublasLtMatmulHeuristicResult_t& choice) {
    if (state != CUBLAS_STATUS_SUCCESS) return;
    int found = 0;
    step("cublasLtMatmulAlgoGetHeuristic", cublasLtMatmulAlgoGetHeuristic(handle, &operation, &right, &left, &out, &out,
                                                                          &preference, 1, &choice, &found));
    if (found == 0) step("cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_NOT_SUPPORTED);
  }
};

inline constexpr int most_devices = 64;
inline std::atomic<cublasLtHandle_t> cublas_handles[most_devices];

inline cublasLtHandle_t current_cublas_handle() {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= most_devices) return nullptr;
  return cublas_handles[device].load(std::memory_order_acquire);
}

inline error multiply_with_cublas(const library_product& p, std::span<std::byte> workspace, stream where) {
  const cublasLtHandle_t handle = current_cublas_handle();
  cublas_call call;
  cublasLtMatmulHeuristicResult_t choice{};
  call.describe(p, workspace.size());
  call.choose(handle, choice);
  if (call.state != CUBLAS_STATUS_SUCCESS) return checked_call(call.failed_at, call.state);
  return checked_call("cublasLtMatmul", cublasLtMatmul(handle, &call.operation, p.alpha, p.right, &call.right, p.left,
                                                       &call.left, p.beta, p.out, &call.out, p.out, &call.out,
                                                       &choice.algo, workspace.data(), workspace.size(), where));
}

/// 32 MiB: what NVIDIA's documentation of cublasSetWorkspace recommends for Hopper and Blackwell.
inline constexpr gemm_library cublas_library = {[] { return current_cublas_handle() != nullptr; },
                                                std::size_t{32} << 20, &multiply_with_cublas, cublas_has_blocks,
                                                &run_library<>};

}  // namespace ufp4::gpu::detail::inline UFP4_GPU

namespace ufp4::gpu::inline UFP4_GPU {

/// While it exists, products on the device that was current at its construction may run on cublasLt. explain reports
/// which ones do, and workspace_bytes includes their workspace; so construct it before you call workspace_bytes.
///
/// | cublas()       | creates a handle, which allocates, and destroys it                                             |
/// | cublas(handle) | uses the caller's handle; a cublasHandle_t may be cast to it                                   |
/// | made()         | the status of the construction; after an error the operations run without cublasLt             |
/// | threads        | operations may run in any thread; construct and destroy while no thread runs one on the device |
class cublas {
 public:
  cublas() : cublas(nullptr, true) {}
  /// Uses the caller's handle.
  explicit cublas(cublasLtHandle_t handle) : cublas(handle, false) {}
  cublas(const cublas&) = delete;
  cublas& operator=(const cublas&) = delete;
  ~cublas() {
    if (handle_ == nullptr) return;
    detail::cublas_handles[device_].store(nullptr, std::memory_order_release);
    if (owned_) (void)cublasLtDestroy(handle_);
  }

  const status& made() const { return state_; }  ///< whether the library can be used

 private:
  cublas(cublasLtHandle_t handle, bool owned) : owned_(owned) {
    note(detail::status_of("cublas", cudaGetDevice(&device_)));
    if (!state_.ok()) return;
    if (device_ >= detail::most_devices || detail::cublas_handles[device_].load() != nullptr)
      note({invalid_argument, ufp4::detail::concat("cublas: device ", device_,
                                                   " has a cublas object already, or its number is above 63")});
    else if (owned)
      note(detail::status_of("cublas", detail::checked_call("cublasLtCreate", cublasLtCreate(&handle))));
    else if (handle == nullptr)
      note({invalid_argument, "cublas: handle is null"});
    if (!state_.ok()) return;
    handle_ = handle;
    detail::cublas_handles[device_].store(handle, std::memory_order_release);
    installed_library.store(&detail::cublas_library, std::memory_order_release);
  }
  void note(status s) { (void)(state_ = static_cast<status&&>(s)); }

  status state_;
  int device_ = 0;
  cublasLtHandle_t handle_ = nullptr;
  bool owned_;
};

}  // namespace ufp4::gpu::inline UFP4_GPU
