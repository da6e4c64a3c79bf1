// ufp4 - the Hadamard transform of a matrix's rows in portable C++.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <ufp4/cpu/elements.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// Transforms rows first .. last - 1, run by run. x is read as if padded with zeros; out is written where it has
/// columns. Either may have more columns; both may be the same matrix.
inline void hadamard_scalar(const transform_spec& t, bool inverse, const source& x, const sink& out, std::size_t first,
                            std::size_t last) {
  const std::size_t n = t.n, cols = x.cols > out.cols ? x.cols : out.cols;
  const auto within = [n](std::size_t width, std::size_t k) { return width <= k ? 0 : width - k < n ? width - k : n; };
  float run[max_transform];
  for (std::size_t i = first; i < last; ++i)
    for (std::size_t k = 0; k < cols; k += n) {
      const std::size_t in = within(x.cols, k);
      if (in != 0) load_row(x, i, k, in, run);
      for (std::size_t j = in; j < n; ++j) run[j] = 0.0f;
      if (inverse)
        hadamard_inverse(t, run);
      else
        hadamard_forward(t, run);
      const std::size_t kept = within(out.cols, k);
      if (kept != 0) store_row(out, i, k, kept, run);
    }
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
