// ufp4 - the products that the GPU bench compares with: cublasLt, of bf16 or e4m3 operands.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/measure.hpp"

#include <ufp4/cuda/cublas.hpp>

namespace bench {

inline void require(cublasStatus_t s, const char* what) {
  if (s != CUBLAS_STATUS_SUCCESS) stop(std::string(what) + ": " + cublasLtGetStatusString(s));
}

/// The operands' type (CUDA_R_16BF or CUDA_R_8F_E4M3) and C's, and which operands are in memory as their transposes,
/// as both of dW = dY^T X are.
struct cublas_shape {
  cudaDataType_t type, out;
  std::size_t m, n, k;
  bool left_turned = false, right_turned = false;
};

/// C[m,n] = A[m,k] B[n,k]^T in row-major terms, by the first algorithm that cublasLt proposes.
class cublas_product {
 public:
  cublas_product(cublasLtHandle_t handle, const cublas_shape& s, std::span<std::byte> workspace)
      : handle_(handle), workspace_(workspace) {
    const cublasOperation_t right = s.right_turned ? CUBLAS_OP_N : CUBLAS_OP_T,
                            left = s.left_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    require(cublasLtMatmulDescInit(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a description");
    set(CUBLASLT_MATMUL_DESC_TRANSA, right);
    set(CUBLASLT_MATMUL_DESC_TRANSB, left);
    lay_out(right_, s.type, s.right_turned ? s.n : s.k, s.right_turned ? s.k : s.n);
    lay_out(left_, s.type, s.left_turned ? s.m : s.k, s.left_turned ? s.k : s.m);
    lay_out(out_, s.out, s.n, s.m);
    choose();
  }

  bool exists() const { return exists_; }  ///< has cublasLt an algorithm?

  gpu::status operator()(const void* a, const void* b, void* c) {
    const float one = 1, zero = 0;
    const cublasStatus_t s = cublasLtMatmul(handle_, &operation_, &one, b, &right_, a, &left_, &zero, c, &out_, c,
                                            &out_, &choice_.algo, workspace_.data(), workspace_.size(), now().stream);
    return gpu::detail::status_of("cublasLt", gpu::detail::checked_call("cublasLtMatmul", s));
  }

 private:
  void set(cublasLtMatmulDescAttributes_t what, cublasOperation_t value) {
    require(cublasLtMatmulDescSetAttribute(&operation_, what, &value, sizeof value), "a description");
  }
  /// Column-major, as the library counts: the transpose of what is in memory row by row.
  static void lay_out(cublasLtMatrixLayoutOpaque_t& layout, cudaDataType_t type, std::size_t rows, std::size_t cols) {
    require(cublasLtMatrixLayoutInit(&layout, type, rows, cols, static_cast<std::int64_t>(rows)), "a layout");
  }
  void choose() {
    const std::size_t memory = workspace_.size();
    cublasLtMatmulPreferenceOpaque_t preference{};
    require(cublasLtMatmulPreferenceInit(&preference), "a preference");
    require(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &memory,
                                                 sizeof memory),
            "a preference");
    int found = 0;
    exists_ = cublasLtMatmulAlgoGetHeuristic(handle_, &operation_, &right_, &left_, &out_, &out_, &preference, 1,
                                             &choice_, &found) == CUBLAS_STATUS_SUCCESS &&
              found != 0;
  }

  cublasLtHandle_t handle_;
  std::span<std::byte> workspace_;
  cublasLtMatmulDescOpaque_t operation_{};
  cublasLtMatrixLayoutOpaque_t left_{}, right_{}, out_{};
  cublasLtMatmulHeuristicResult_t choice_{};
  bool exists_ = false;
};

/// The library and its workspace; one object for the bench.
class cublas_yardstick {
 public:
  cublas_yardstick() : workspace_(std::size_t{32} << 20) { require(cublasLtCreate(&handle_), "cublasLtCreate"); }
  cublas_yardstick(const cublas_yardstick&) = delete;
  cublas_yardstick& operator=(const cublas_yardstick&) = delete;
  ~cublas_yardstick() { (void)cublasLtDestroy(handle_); }

  cublas_product product(const cublas_shape& s) const { return {handle_, s, workspace_.span()}; }

 private:
  cublasLtHandle_t handle_ = nullptr;
  gpu::buffer<std::byte> workspace_;
};

}  // namespace bench
