// ufp4 - sixteen neighbouring elements of a matrix in the registers of one thread: the unit of the row kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/detail/bits.hpp>
#include <ufp4/format/scales.hpp>
#include <ufp4/gpu/vendor.hpp>
#include <ufp4/matrix/matrix_view.hpp>

namespace ufp4::gpu::thread::inline UFP4_GPU {

using ufp4::detail::sink;
using ufp4::detail::source;

inline constexpr unsigned run_of_thread = 16;

/// One load or store instruction's worth.
struct __attribute__((may_alias, aligned(16))) words4 {
  std::uint32_t word[4];
};

UFP4_DEVICE float load(const source& x, std::size_t i, std::size_t k) {
  const std::ptrdiff_t at = x.offset(i, k);
  switch (x.kind) {
    case dtype::f32: return static_cast<const float*>(x.data)[at];
    case dtype::bf16: return ufp4::detail::to_float(std::uint32_t{static_cast<const std::uint16_t*>(x.data)[at]} << 16);
    case dtype::fp16: return static_cast<float>(fp16::from_bits(static_cast<const std::uint16_t*>(x.data)[at]));
  }
  return 0;
}

/// Rounded to the matrix's type (IEEE: overflow gives infinity).
UFP4_DEVICE void store(const sink& x, std::size_t i, std::size_t k, float value) {
  const std::ptrdiff_t at = x.offset(i, k);
  switch (x.kind) {
    case dtype::f32: static_cast<float*>(x.data)[at] = value; return;
    case dtype::bf16: static_cast<std::uint16_t*>(x.data)[at] = round_to<bf16>(value).bits(); return;
    case dtype::fp16: static_cast<std::uint16_t*>(x.data)[at] = round_to<fp16>(value).bits(); return;
  }
}

/// Does element (i, k) lie on 16 bytes, with all of its row's sixteen beside it?
template <class View>
UFP4_DEVICE bool vectors(const View& x, std::size_t i, std::size_t k) {
  const std::size_t bytes = x.kind == dtype::f32 ? 4 : 2;
  const auto at = reinterpret_cast<std::uintptr_t>(x.data) + static_cast<std::uintptr_t>(x.offset(i, k)) * bytes;
  return x.col_stride == 1 && k + run_of_thread <= x.cols && at % 16 == 0;
}

/// Elements k .. k + 15 of row i, zero beyond the matrix.
UFP4_DEVICE void load_sixteen(const source& x, std::size_t i, std::size_t k, float (&v)[run_of_thread]) {
  if (x.kind == dtype::f32 && i < x.rows && vectors(x, i, k)) {
    const auto* p = reinterpret_cast<const words4*>(static_cast<const float*>(x.data) + x.offset(i, k));
    for (unsigned q = 0; q < 4; ++q) {
      const words4 four = p[q];
      for (unsigned j = 0; j < 4; ++j) v[4 * q + j] = ufp4::detail::to_float(four.word[j]);
    }
    return;
  }
  for (unsigned j = 0; j < run_of_thread; ++j) v[j] = i < x.rows && k + j < x.cols ? load(x, i, k + j) : 0.0f;
}

/// The inverse; what lies beyond the matrix is not stored.
UFP4_DEVICE void store_sixteen(const sink& x, std::size_t i, std::size_t k, const float (&v)[run_of_thread]) {
  if (x.kind == dtype::f32 && i < x.rows && vectors(x, i, k)) {
    auto* p = reinterpret_cast<words4*>(static_cast<float*>(x.data) + x.offset(i, k));
    for (unsigned q = 0; q < 4; ++q) {
      words4 four;
      for (unsigned j = 0; j < 4; ++j) four.word[j] = ufp4::detail::to_bits(v[4 * q + j]);
      p[q] = four;
    }
    return;
  }
  for (unsigned j = 0; j < run_of_thread; ++j)
    if (i < x.rows && k + j < x.cols) store(x, i, k + j, v[j]);
}

}  // namespace ufp4::gpu::thread::inline UFP4_GPU
