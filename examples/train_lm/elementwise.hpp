// ufp4 - e^x, sigmoid and sums along a row, in loops that compilers vectorize.
// SPDX-License-Identifier: Apache-2.0
//
// Results depend on the values alone, not on the address of a row or on the thread: sums have a fixed order, and e^x of
// floats is written as arithmetic, because a library's vector form may round differently from its scalar form.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "matrix.hpp"
#include "parallel.hpp"

namespace train_lm {

namespace detail {

/// The range of exponential_in_range, for float.
template <class T>
inline T clamped(T x) {
  if constexpr (!std::is_same_v<T, float>) return x;
  x = x < T(-86) ? T(-86) : x;
  return x > T(88) ? T(88) : x;
}

/// e^x. For float: within 2 units in the last place for x in [-86, 88].
/// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by Taylor's series to r^7, whose remainder is below 0.35^8 / 8! = 6e-9 of
/// it.
template <class T>
inline T exponential_in_range(T x) {
  if constexpr (!std::is_same_v<T, float>) {
    return std::exp(x);
  } else {
    constexpr float shift = 12582912.0f;  // 1.5 * 2^23: floats near it are 1 apart, so the last bits of the sum are n
    const float shifted = x * 1.44269504f + shift, n = shifted - shift;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 = 355/512 - 2.1219444e-4; 355 n is exact
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = (p * r) * r + r + 1.0f;
    return p * std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3F800000u);  // 2^n
  }
}

}  // namespace detail

/// x_i = e^(scale x_i - shift). A float exponent is clamped to [-86, 88], in a loop of its own: GCC compiles the limits
/// to branches in the same loop as the series, and vectorizes neither. Not inlined, so that no product of the caller is
/// fused into the subtraction.
template <class T>
[[gnu::noinline]] void exponentials(T* x, index n, T scale, T shift) {
  for (index i = 0; i < n; ++i) x[i] = detail::clamped(x[i] * scale - shift);
  for (index i = 0; i < n; ++i) x[i] = detail::exponential_in_range(x[i]);
}

/// y_i = 1 / (1 + e^-x_i). Not inlined either.
template <class T>
[[gnu::noinline]] void sigmoids(const T* x, T* y, index n) {
  for (index i = 0; i < n; ++i) y[i] = detail::clamped(-x[i]);
  for (index i = 0; i < n; ++i) y[i] = T(1) / (T(1) + detail::exponential_in_range(y[i]));
}

namespace detail {

/// A reduction has sixteen partial results, so that its order is the same for vector registers of every width.
template <class T>
using lanes = Eigen::Array<T, 16, 1>;
template <class T>
Eigen::Map<const lanes<T>> lanes_at(const T* x) {
  return Eigen::Map<const lanes<T>>(x);
}

template <class T>
inline T folded(lanes<T> lane) {
  for (index half = 8; half > 0; half /= 2)
    for (index j = 0; j < half; ++j) lane[j] += lane[j + half];
  return lane[0];
}

}  // namespace detail

template <class T>
inline T sum_of(const T* x, index n) {
  detail::lanes<T> lane = detail::lanes<T>::Zero();
  index i = 0;
  for (; i + 16 <= n; i += 16) lane += detail::lanes_at(x + i);
  for (index j = 0; i + j < n; ++j) lane[j] += x[i + j];
  return detail::folded<T>(lane);
}
template <class T>
inline T dot(const T* x, const T* y, index n) {
  detail::lanes<T> lane = detail::lanes<T>::Zero();
  index i = 0;
  for (; i + 16 <= n; i += 16) lane += detail::lanes_at(x + i) * detail::lanes_at(y + i);
  for (index j = 0; i + j < n; ++j) lane[j] += x[i + j] * y[i + j];
  return detail::folded<T>(lane);
}
/// The maximum of n > 0 values; unspecified where one is NaN.
template <class T>
inline T maximum_of(const T* x, index n) {
  detail::lanes<T> lane = detail::lanes<T>::Constant(x[0]);
  index i = 0;
  for (; i + 16 <= n; i += 16) lane = lane.max(detail::lanes_at(x + i));
  T most = lane.maxCoeff();
  for (; i < n; ++i) most = std::max(most, x[i]);
  return most;
}

/// y += x; a task is some rows.
template <class T>
void add_to(thread_pool& threads, const matrix<T>& x, matrix<T>& y) {
  constexpr index chunk = 1 << 14;
  threads.for_each((x.size() + chunk - 1) / chunk, [&](index task) {
    const T* from = x.data() + task * chunk;
    T* to = y.data() + task * chunk;
    const index n = std::min(chunk, x.size() - task * chunk);
    for (index i = 0; i < n; ++i) to[i] += from[i];
  });
}

}  // namespace train_lm
