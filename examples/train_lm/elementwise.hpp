// ufp4 - e^x, sigmoid and sums along a row, in loops that a compiler turns into vectors.
// SPDX-License-Identifier: Apache-2.0
//
// A result depends on the values alone, never on where a row lies in memory or on which thread: sums have a fixed
// order, and float's e^x is arithmetic, not a call whose vector form rounds differently from its scalar one.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "matrix.hpp"
#include "parallel.hpp"

namespace train_lm {

/// e^x. In float: for x in [-86, 88], beyond which it stays at the value there; within 2 units in the last place.
/// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by Taylor's series to r^7, whose rest is below 0.35^8 / 8! = 6e-9 of it.
template <class T>
inline T exponential(T x) {
  if constexpr (!std::is_same_v<T, float>) {
    return std::exp(x);
  } else {
    x = x < -86.0f ? -86.0f : x;
    x = x > 88.0f ? 88.0f : x;
    constexpr float shift = 12582912.0f;  // 1.5 * 2^23: a sum near it has units of 1, so n stands in its last bits
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

/// x_i = e^(scale x_i - shift), in a function of its own: inlined into more, GCC 12 makes branches of the two limits
/// and no vectors of the loop.
template <class T>
[[gnu::noinline]] void exponentials(T* x, index n, T scale, T shift) {
  for (index i = 0; i < n; ++i) x[i] = exponential(x[i] * scale - shift);
}

template <class T>
inline T sigmoid(T x) {
  return T(1) / (T(1) + exponential(-x));
}

namespace detail {

/// Sixteen partial results: the order of a reduction over any row, in registers of every width.
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
/// n > 0. Of numbers: what it says of a row with a NaN is not promised.
template <class T>
inline T largest_of(const T* x, index n) {
  detail::lanes<T> lane = detail::lanes<T>::Constant(x[0]);
  index i = 0;
  for (; i + 16 <= n; i += 16) lane = lane.max(detail::lanes_at(x + i));
  T largest = lane.maxCoeff();
  for (; i < n; ++i) largest = std::max(largest, x[i]);
  return largest;
}

/// y += x, rows of the whole matrices in tasks of the pool.
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
