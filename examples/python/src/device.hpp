// ufp4 - the operations on a GPU as the module calls them: formats as data, addresses of device memory, a stream.
// SPDX-License-Identifier: Apache-2.0
//
// device.cu defines them, compiled by nvcc; this file is for both compilers. They throw std::invalid_argument with the
// library's message before anything is queued, and std::runtime_error with that of CUDA.
#pragma once

#include <cstdint>
#include <string>
#include <ufp4/matrix/product.hpp>
#include <ufp4/recipe/recipes.hpp>

namespace ufp4::python::device {

using ufp4::detail::sink, ufp4::detail::source;

/// Where a call runs.
struct place {
  std::uintptr_t stream = 0;                              ///< a cudaStream_t
  void* (*allocate)(void* state, std::size_t) = nullptr;  ///< device memory that calls on the stream may use
  void* state = nullptr;                                  ///< first argument of allocate
};

/// A quantized matrix in device memory, in the canonical layout.
struct matrix {
  format_spec format{};
  transform_spec transform{};
  std::size_t rows = 0, cols = 0;
  std::uint8_t* codes = nullptr;
  void* scales = nullptr;
  float* tensor_scale = nullptr;  ///< of formats with one
};

/// How a matrix is quantized; its transform is that of the output.
struct policies {
  rounding_spec rounding{};
  scale_rule_spec rule{};
  bool has_amax = false, has_shard = false;
  float amax = 0;
  shard where{0, 0, 0};
};

/// A left or right operand of a product: quantized or unquantized.
struct operand {
  bool is_quantized = false;
  matrix coded{};
  source unquantized{};
};

void quantize(const place& at, const source& x, const matrix& out, const policies& how);
void dequantize(const place& at, const matrix& q, const sink& out);
void matmul(const place& at, const operand& a, const operand& b, const sink& c, const gemm_options& options);
std::string explain_matmul(const operand& a, const operand& b, const sink& c, const gemm_options& options);
void linear_forward(const place& at, const recipe::bound_recipe& now, const source& x, const source& w, const sink& y);
void linear_backward_input(const place& at, const recipe::bound_recipe& now, const source& dy, const source& w,
                           const sink& dx);
void linear_backward_weight(const place& at, const recipe::bound_recipe& now, const source& dy, const source& x,
                            const sink& dw);

}  // namespace ufp4::python::device
