// ufp4 - the products that the GPU bench compares with: cublasLt, bf16 by bf16 and e4m3 by e4m3 into float.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/measure.hpp"

#include <ufp4/cuda/cublas.hpp>

namespace bench {

inline void require(cublasStatus_t s, const char* what) {
  if (s != CUBLAS_STATUS_SUCCESS) stop(std::string(what) + ": " + cublasLtGetStatusString(s));
}

/// C = A B^T in row-major terms, the first algorithm that cublasLt proposes.
class cublas_yardstick {
 public:
  cublas_yardstick() : workspace_(std::size_t{32} << 20) { require(cublasLtCreate(&handle_), "cublasLtCreate"); }
  cublas_yardstick(const cublas_yardstick&) = delete;
  cublas_yardstick& operator=(const cublas_yardstick&) = delete;
  ~cublas_yardstick() { (void)cublasLtDestroy(handle_); }

  /// One line, or none if cublasLt has no such product. `type`: CUDA_R_16BF or CUDA_R_8F_E4M3.
  template <class T>
  void measure(const char* type_name, cudaDataType_t type, std::size_t m, std::size_t n, std::size_t k, int sets,
               const gpu::buffer<T>& a, const gpu::buffer<T>& b, const gpu::buffer<float>& c) {
    const std::string name = std::string("cublasLt/") + type_name + "/" + std::to_string(m) + "x" + std::to_string(n) +
                             "x" + std::to_string(k);
    if (!is_wanted(name)) return;
    cublasLtMatmulDescOpaque_t operation{};
    cublasLtMatrixLayoutOpaque_t left{}, right{}, out{};
    cublasLtMatmulPreferenceOpaque_t preference{};
    require(cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a description");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    require(cublasLtMatmulDescSetAttribute(&operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
            "a description");
    require(cublasLtMatrixLayoutInit(&right, type, k, n, static_cast<std::int64_t>(k)), "a layout");
    require(cublasLtMatrixLayoutInit(&left, type, k, m, static_cast<std::int64_t>(k)), "a layout");
    require(cublasLtMatrixLayoutInit(&out, CUDA_R_32F, n, m, static_cast<std::int64_t>(n)), "a layout");
    const std::size_t memory = workspace_.size();
    require(cublasLtMatmulPreferenceInit(&preference), "a preference");
    require(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &memory,
                                                 sizeof memory),
            "a preference");
    cublasLtMatmulHeuristicResult_t choice{};
    int found = 0;
    const cublasStatus_t answer =
        cublasLtMatmulAlgoGetHeuristic(handle_, &operation, &right, &left, &out, &out, &preference, 1, &choice, &found);
    if (answer != CUBLAS_STATUS_SUCCESS || found == 0) return;
    const float one = 1, zero = 0;
    const double us = microseconds_of(sets, [&](int i) {
      const std::size_t set = static_cast<std::size_t>(i);
      require(
          cublasLtMatmul(handle_, &operation, &one, b.data() + set * n * k, &right, a.data() + set * m * k, &left,
                         &zero, c.data(), &out, c.data(), &out, &choice.algo, workspace_.data(), memory, now().stream),
          "cublasLtMatmul");
    });
    line("library")
        .text("name", name)
        .text("type", type_name)
        .number("m", static_cast<double>(m))
        .number("n", static_cast<double>(n))
        .number("k", static_cast<double>(k))
        .number("us", us)
        .number("tflops", 2.0 * static_cast<double>(m * n * k) / us * 1e-6)
        .print();
  }

 private:
  cublasLtHandle_t handle_ = nullptr;
  gpu::buffer<std::byte> workspace_;
};

}  // namespace bench
