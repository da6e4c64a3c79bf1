// ufp4 - element and scale access for CPU kernels, one element or row at a time, for every element and scale type.
// SPDX-License-Identifier: Apache-2.0
//
// The jobs that kernels get are plain data with pointers to any type (matrix/job.hpp). These functions read and write
// through such a pointer; kernels of an instruction set replace them by whole registers where elements are contiguous.
#pragma once

#include <ufp4/hadamard/transform.hpp>
#include <ufp4/matrix/job.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

using namespace ufp4::detail;

/// Reads `count` elements of row i, from column k on, as binary32.
inline void load_row(const source& x, std::size_t i, std::size_t k, std::size_t count, float* out) {
  const std::ptrdiff_t step = x.col_stride;
  const auto each = [&](auto* first, auto convert) {
    const auto* p = first + x.offset(i, k);
    for (std::size_t j = 0; j < count; ++j, p += step) out[j] = convert(*p);
  };
  switch (x.kind) {
    case dtype::f32: return each(static_cast<const float*>(x.data), [](float v) { return v; });
    case dtype::bf16:
      return each(static_cast<const std::uint16_t*>(x.data),
                  [](std::uint16_t v) { return ufp4::detail::to_float(std::uint32_t{v} << 16); });
    case dtype::fp16:
      return each(static_cast<const std::uint16_t*>(x.data),
                  [](std::uint16_t v) { return static_cast<float>(fp16::from_bits(v)); });
  }
}

/// Reads one element of an output matrix.
inline float load_element(const sink& x, std::size_t i, std::size_t j) {
  float value = 0;
  load_row({x.data, x.kind, x.rows, x.cols, x.row_stride, x.col_stride}, i, j, 1, &value);
  return value;
}

/// Writes `count` binary32 values to row i, from column k on, rounded to its type (IEEE: overflow gives infinity).
inline void store_row(const sink& x, std::size_t i, std::size_t k, std::size_t count, const float* values) {
  const std::ptrdiff_t step = x.col_stride;
  const auto each = [&](auto* first, auto convert) {
    auto* p = first + x.offset(i, k);
    for (std::size_t j = 0; j < count; ++j, p += step) *p = convert(values[j]);
  };
  switch (x.kind) {
    case dtype::f32: return each(static_cast<float*>(x.data), [](float v) { return v; });
    case dtype::bf16:
      return each(static_cast<std::uint16_t*>(x.data), [](float v) { return round_to<bf16>(v).bits(); });
    case dtype::fp16:
      return each(static_cast<std::uint16_t*>(x.data), [](float v) { return round_to<fp16>(v).bits(); });
  }
}

/// Makes rows first .. last - 1 one long row where there are no gaps between them; returns their width.
inline std::size_t join_rows(const quantize_job& job, source& x, std::size_t first, std::size_t& last) {
  const std::size_t width = job.padded_cols;
  if (x.col_stride != 1 || width != x.cols || x.row_stride != static_cast<std::ptrdiff_t>(width) ||
      job.whole_padded_cols != width)
    return width;
  x.cols = width * (last - first);
  last = first + 1;
  return x.cols;
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
