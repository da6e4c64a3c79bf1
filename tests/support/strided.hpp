// ufp4 - matrices in every layout that a view allows, between guards, with gaps that must not change.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <ufp4/matrix/matrix_view.hpp>

#include "support/matrices.hpp"
#include "support/poison.hpp"

namespace support {

/// | wide          | gaps of three elements between rows  |
/// | every_other   | gaps of one element between columns  |
/// | transposed    | contiguous along columns             |
/// | rows_reversed | the last row first                   |
/// | cols_reversed | the last column first                |
enum class layout { packed, wide, every_other, transposed, rows_reversed, cols_reversed };
inline constexpr layout all_layouts[] = {layout::packed,     layout::wide,          layout::every_other,
                                         layout::transposed, layout::rows_reversed, layout::cols_reversed};

/// A matrix all of whose bytes, including gaps, are initially 0xA5.
template <class T>
class strided {
 public:
  strided(std::size_t rows, std::size_t cols, layout l) : rows_(rows), cols_(cols), memory_(size(l), 1, 0xA5) {
    const auto r = static_cast<std::ptrdiff_t>(rows), c = static_cast<std::ptrdiff_t>(cols);
    switch (l) {
      case layout::packed: row_ = c; break;
      case layout::wide: row_ = c + 3; break;
      case layout::every_other: row_ = 2 * c + 1, col_ = 2; break;
      case layout::transposed: row_ = 1, col_ = r + 1; break;
      case layout::rows_reversed: row_ = -c, first_ = r > 0 ? (r - 1) * c : 0; break;
      case layout::cols_reversed: row_ = c, col_ = -1, first_ = c > 0 ? c - 1 : 0; break;
    }
  }

  ufp4::matrix_view<T> view() { return {memory_.data() + first_, rows_, cols_, row_, col_}; }
  void fill(const std::vector<T>& values) {
    const auto to = view();
    for (std::size_t i = 0; i < rows_; ++i)
      for (std::size_t j = 0; j < cols_; ++j) to(i, j) = values[i * cols_ + j];
  }

  /// The same numbers (all NaNs are equal) and unchanged gaps and guards.
  bool same_as(const strided& other) const {
    return memory_.guards_intact() && same_numbers(numbers<T>(memory_.span()), numbers<T>(other.memory_.span()));
  }

 private:
  std::size_t size(layout l) const {
    const std::size_t gaps = l == layout::wide ? 3 * rows_ : l == layout::transposed ? cols_ : 0;
    return l == layout::every_other ? rows_ * (2 * cols_ + 1) : rows_ * cols_ + gaps;
  }

  std::size_t rows_, cols_;
  std::ptrdiff_t row_ = 0, col_ = 1, first_ = 0;
  guarded<T> memory_;
};

}  // namespace support
