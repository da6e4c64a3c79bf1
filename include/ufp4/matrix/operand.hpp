// ufp4 - operand: a matrix that a GEMM quantizes in its call; unquantized: an unquantized operand of a GEMM.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/block/compat.hpp>
#include <ufp4/matrix/matrix_view.hpp>
#include <ufp4/matrix/policies.hpp>

namespace ufp4::detail::inline UFP4_TYPES {

/// x with the policies of quantize<Format>. Refers to x: nothing is copied before the GEMM.
template <class Format, class T, class Options>
struct quantize_request {
  matrix_view<T> x;  ///< the matrix
  Options options;   ///< its policies: a quantize_options
};

/// A float, bf16 or fp16 matrix against a quantized one (weight-only use), by the chain of numerics 6. The transform,
/// if the other side has one, is applied to it in binary32; it is not quantized.
template <class T>
struct unquantized_operand {
  matrix_view<T> x;          ///< the matrix
  transform_spec transform;  ///< applied in the call
};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

/// quantized_gemm(operand<F>(x, policies...), ...) equals quantized_gemm(quantize<F>(x, policies...), ...) bit for bit.
template <class Format, detail::matrix_scalar T, class... Policies>
UFP4_HOST_MEMBER inline auto operand(const matrix_view<T>& x, const Policies&... policies) {
  static_assert(!(std::same_as<Policies, cpu::context> || ...),
                "operand: the cpu::context is the last argument of quantized_gemm");
  const auto options = detail::collect_for<detail::format_of<Format>, T>(policies...);
  return detail::quantize_request<Format, T, std::remove_const_t<decltype(options)>>{x, options};
}

/// Deleted: the request would refer to a matrix that ends with its statement.
template <class Format, class T = void, detail::matrix_scalar U, class... Policies>
void operand(const matrix<U>&&, const Policies&...) = delete;

/// An unquantized operand of quantized_gemm, optionally transformed in the call.
template <detail::matrix_scalar T, detail::transform Transform = transform_spec>
UFP4_HOST_MEMBER inline detail::unquantized_operand<T> unquantized(const matrix_view<T>& x, const Transform& t = {}) {
  return {x, t.spec()};
}
/// Deleted: the operand would refer to a matrix that ends with its statement.
template <class T = void, detail::matrix_scalar U, detail::transform Transform = transform_spec>
void unquantized(const matrix<U>&&, const Transform& = {}) = delete;

}  // namespace ufp4::inline UFP4_TYPES
