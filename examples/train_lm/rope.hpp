// ufp4 - rotary position embedding: pairs (i, i + half) of every head rotated by position * base^(-2 i / size).
// SPDX-License-Identifier: Apache-2.0
//
// Su et al., "RoFormer: enhanced transformer with rotary position embedding", 2021; with pairs half a head
// apart, as in GPT-NeoX and Llama.
#pragma once

#include <cmath>

#include "matrix.hpp"
#include "parallel.hpp"

namespace train_lm {

template <class T>
class rotary_embedding {
 public:
  rotary_embedding() = default;
  /// For positions below `length` and heads of `size` values; size is even.
  rotary_embedding(index length, index size, double base) : cos_(length, size / 2), sin_(length, size / 2) {
    for (index t = 0; t < length; ++t)
      for (index i = 0; i < size / 2; ++i) {
        const double angle =
            static_cast<double>(t) * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(size));
        cos_(t, i) = static_cast<T>(std::cos(angle));
        sin_(t, i) = static_cast<T>(std::sin(angle));
      }
  }

  /// Rotates the first `heads` heads of every row in place; row i is at position i % length. Gradients are rotated
  /// back: the transpose of a rotation is its inverse.
  void rotate(thread_pool& threads, matrix<T>& x, index heads) const { apply(threads, x, heads, T(1)); }
  void rotate_back(thread_pool& threads, matrix<T>& x, index heads) const { apply(threads, x, heads, T(-1)); }

 private:
  void apply(thread_pool& threads, matrix<T>& x, index heads, T direction) const {
    const index length = cos_.rows(), half = cos_.cols();
    threads.for_each(x.rows() / length, [&, length, half](index sequence) {
      for (index t = 0; t < length; ++t) {
        const T *c = cos_.row(t).data(), *s = sin_.row(t).data();
        for (index h = 0; h < heads; ++h) {
          T *a = x.row(sequence * length + t).data() + 2 * half * h, *b = a + half;
          for (index i = 0; i < half; ++i) {
            const T u = a[i], v = b[i], sine = direction * s[i];
            a[i] = u * c[i] - v * sine;
            b[i] = u * sine + v * c[i];
          }
        }
      }
    });
  }

  matrix<T> cos_, sin_;
};

}  // namespace train_lm
