// ufp4 - SwiGLU: silu(gate) * up, where a row holds F values of gate, then F of up; and its gradients.
// SPDX-License-Identifier: Apache-2.0
//
// Shazeer, "GLU variants improve transformer", 2020. silu(x) = x sigmoid(x).
#pragma once

#include "elementwise.hpp"
#include "matrix.hpp"
#include "parallel.hpp"

namespace train_lm {

namespace detail {
inline constexpr index swiglu_rows = 16;  ///< rows per task; the number of rows is a multiple
}

template <class T>
void swiglu_forward(thread_pool& threads, const matrix<T>& gate_up, matrix<T>& y) {
  const index hidden = gate_up.cols() / 2;
  y.resize(gate_up.rows(), hidden);
  threads.for_each(y.rows() / detail::swiglu_rows, [&](index task) {
    for (index i = task * detail::swiglu_rows; i < (task + 1) * detail::swiglu_rows; ++i) {
      const T *gate = gate_up.row(i).data(), *up = gate + hidden;
      T* to = y.row(i).data();
      sigmoids(gate, to, hidden);
      for (index j = 0; j < hidden; ++j) to[j] = gate[j] * to[j] * up[j];
    }
  });
}

/// silu'(x) = s + x s (1 - s), s = sigmoid(x).
template <class T>
void swiglu_backward(thread_pool& threads, const matrix<T>& dy, const matrix<T>& gate_up, matrix<T>& dgate_up) {
  const index hidden = dy.cols();
  dgate_up.resize(dy.rows(), 2 * hidden);
  threads.for_each(dy.rows() / detail::swiglu_rows, [&](index task) {
    for (index i = task * detail::swiglu_rows; i < (task + 1) * detail::swiglu_rows; ++i) {
      const T *gate = gate_up.row(i).data(), *up = gate + hidden, *from = dy.row(i).data();
      T *dgate = dgate_up.row(i).data(), *dup = dgate + hidden;
      sigmoids(gate, dgate, hidden);
      // Stored, so that this product is not fused into the sum below.
      for (index j = 0; j < hidden; ++j) dup[j] = gate[j] * dgate[j] * (T(1) - dgate[j]);
      for (index j = 0; j < hidden; ++j) {
        const T s = dgate[j];
        dgate[j] = from[j] * up[j] * (s + dup[j]);
        dup[j] = from[j] * (gate[j] * s);
      }
    }
  });
}

}  // namespace train_lm
