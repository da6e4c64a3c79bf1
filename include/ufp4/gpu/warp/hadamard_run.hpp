// ufp4 - the Hadamard transform of a run that several lanes hold, sixteen elements in each.
// SPDX-License-Identifier: Apache-2.0
//
// The bits of hadamard/transform.hpp: the same sums in the same order, the first four stages by the same function.
#pragma once

#include <ufp4/gpu/thread/elements.hpp>
#include <ufp4/hadamard/transform.hpp>

namespace ufp4::gpu::warp::inline UFP4_GPU {

using thread::run_of_thread;

/// Applies the signs of elements 16 * place .. 16 * place + 15 of a run.
UFP4_DEVICE void flip_signs(const transform_spec& t, unsigned place, float (&v)[run_of_thread]) {
  std::uint32_t word = t.signs[0];  // by selects: for a run-time index the kernel's parameter is copied to local memory
  for (unsigned w = 1; w < 8; ++w) word = place / 2 == w ? t.signs[w] : word;
  const std::uint32_t signs = word >> (place % 2 * 16);
  UFP4_UNROLL
  for (unsigned j = 0; j < run_of_thread; ++j)
    v[j] = ufp4::detail::to_float(ufp4::detail::to_bits(v[j]) ^ (signs >> j << 31));
}

/// The stages of stride 16, 32, ..., n / 2: lanes whose places differ in one bit hold the two elements of a butterfly.
UFP4_DEVICE void butterflies_across(std::uint32_t n, unsigned place, float (&v)[run_of_thread]) {
  struct sixteen {
    float of[run_of_thread];
  } mine;
  for (unsigned step = 1; step < n / run_of_thread; step *= 2) {
    UFP4_UNROLL
    for (unsigned j = 0; j < run_of_thread; ++j) mine.of[j] = v[j];
    const sixteen other = shuffle_xor(mine, step);
    const bool upper = (place & step) != 0;  // other - v = other + (-v), with the same rounding
    UFP4_UNROLL
    for (unsigned j = 0; j < run_of_thread; ++j) v[j] = other.of[j] + (upper ? -v[j] : v[j]);
  }
}

/// Transforms a run of which this lane holds elements 16 * place .. 16 * place + 15 and the neighbouring lanes the
/// others, in order. Runs begin at lanes that are multiples of n / 16. Every lane of the wave must call it. Does
/// nothing if n = 1.
UFP4_DEVICE void hadamard(const transform_spec& t, bool inverse, unsigned place, float (&v)[run_of_thread]) {
  if (t.n == 1) return;
  ufp4::detail::settle(v, run_of_thread);  // the caller may have put products there
  if (!inverse) flip_signs(t, place, v);
  ufp4::detail::butterflies(run_of_thread, v);
  butterflies_across(t.n, place, v);
  const float c = hadamard_factor(t.n);
  UFP4_UNROLL
  for (unsigned j = 0; j < run_of_thread; ++j) {
    v[j] = ufp4::detail::product(v[j], c);
    if (t.rounds_to_bf16) v[j] = static_cast<float>(round_to<bf16>(v[j]));
  }
  if (inverse) flip_signs(t, place, v);
}

}  // namespace ufp4::gpu::warp::inline UFP4_GPU
