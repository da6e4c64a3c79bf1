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
    product p;
    if (!is_wanted(name) || !choose(p, type, m, n, k)) return;
    const float one = 1, zero = 0;
    const double us = timed(name, sets, [&](int i) {
      const auto set = static_cast<std::size_t>(i);
      const cublasStatus_t s = cublasLtMatmul(
          handle_, &p.operation, &one, b.data() + set * n * k, &p.right, a.data() + set * m * k, &p.left, &zero,
          c.data(), &p.out, c.data(), &p.out, &p.choice.algo, workspace_.data(), workspace_.size(), now().stream);
      return gpu::detail::status_of("cublasLt", gpu::detail::checked_call("cublasLtMatmul", s));
    });
    if (us <= 0) return;
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
  struct product {
    cublasLtMatmulDescOpaque_t operation{};
    cublasLtMatrixLayoutOpaque_t left{}, right{}, out{};
    cublasLtMatmulHeuristicResult_t choice{};
  };

  /// Describes C^T = B A^T in column-major terms; false if cublasLt has no algorithm.
  bool choose(product& p, cudaDataType_t type, std::size_t m, std::size_t n, std::size_t k) {
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const std::size_t memory = workspace_.size();
    cublasLtMatmulPreferenceOpaque_t preference{};
    require(cublasLtMatmulDescInit(&p.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a description");
    require(cublasLtMatmulDescSetAttribute(&p.operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
            "a description");
    require(cublasLtMatrixLayoutInit(&p.right, type, k, n, static_cast<std::int64_t>(k)), "a layout");
    require(cublasLtMatrixLayoutInit(&p.left, type, k, m, static_cast<std::int64_t>(k)), "a layout");
    require(cublasLtMatrixLayoutInit(&p.out, CUDA_R_32F, n, m, static_cast<std::int64_t>(n)), "a layout");
    require(cublasLtMatmulPreferenceInit(&preference), "a preference");
    require(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &memory,
                                                 sizeof memory),
            "a preference");
    int found = 0;
    return cublasLtMatmulAlgoGetHeuristic(handle_, &p.operation, &p.right, &p.left, &p.out, &p.out, &preference, 1,
                                          &p.choice, &found) == CUBLAS_STATUS_SUCCESS &&
           found != 0;
  }

 private:
  cublasLtHandle_t handle_ = nullptr;
  gpu::buffer<std::byte> workspace_;
};

}  // namespace bench
