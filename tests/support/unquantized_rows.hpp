// ufp4 - unquantized left operands of quantized_gemm in tests: a matrix with gaps between rows, and the bound of fast.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "support/gemm_model.hpp"

namespace support {

/// An unquantized matrix whose rows are `pad` elements apart from one another, and its values.
template <class T>
struct plain {
  std::size_t rows, cols, step;
  std::vector<T> data;
  std::vector<float> values;

  plain(const std::vector<float>& x, std::size_t r, std::size_t c, std::size_t pad = 3)
      : rows(r), cols(c), step(c + pad), data(r * step, T(NAN)) {
    for (std::size_t i = 0; i < r; ++i)
      for (std::size_t k = 0; k < c; ++k) {
        data[i * step + k] = T(x[i * c + k]);
        values.push_back(model::output_value(data[i * step + k]));
      }
  }
  ufp4::matrix_view<const T> view() const { return {data.data(), rows, cols, static_cast<std::ptrdiff_t>(step)}; }
};

/// The bound of numerics 6 for an unquantized operand.
struct plain_bound {
  model::bounded exact;
  std::vector<long double> least;  ///< of each column: what may be off besides the relative error
  long double relative;

  plain_bound(const model::side& x, const model::side& w) : exact(model::extended(x, w)) {
    const std::size_t blocks = w.padded / w.block;
    const auto padded = static_cast<long double>(w.padded), tensor = static_cast<long double>(w.tensor);
    relative = (padded + 6) * 0x1p-24L;
    for (std::size_t j = 0; j < w.rows; ++j) {
      long double scales = 0;
      for (std::size_t b = 0; b < blocks; ++b) scales += static_cast<long double>(w.scale[j * blocks + b]);
      least.push_back(tensor * (padded * 0x1p-126L + scales * static_cast<long double>(w.block) * 0x1p-149L));
    }
  }
  /// An empty text, or the first element of C that is beyond the bound; C is the upper left corner of the product.
  std::string broken_by(const std::vector<float>& c, std::size_t cols) const {
    for (std::size_t i = 0; i < c.size(); ++i) {
      const std::size_t at = i / cols * least.size() + i % cols;
      const long double error = std::abs(static_cast<long double>(c[i]) - exact.value[at]);
      const long double bound = relative * exact.magnitude[at] + least[i % cols];
      if (!(error <= bound))
        return std::to_string(i) + ": " + std::to_string(c[i]) + ", error / bound " +
               std::to_string(static_cast<double>(error / bound));
    }
    return "";
  }
};

}  // namespace support
