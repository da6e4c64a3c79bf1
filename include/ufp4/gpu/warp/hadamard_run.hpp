// ufp4 - the Hadamard transform of a run that several lanes hold, sixteen elements in each.
// SPDX-License-Identifier: Apache-2.0
//
// The bits of hadamard/transform.hpp: the same sums in the same order. A kernel that transforms many runs writes a
// sign_table once and calls hadamard_sums, then multiplies by hadamard_factor itself.
#pragma once

#include <ufp4/gpu/thread/elements.hpp>
#include <ufp4/hadamard/transform.hpp>

namespace ufp4::gpu::warp::inline UFP4_GPU {

using thread::run_of_thread;

/// The signs of elements 16 * place .. 16 * place + 15 of a run, the first in bit 0.
UFP4_DEVICE std::uint32_t sign_bits_of(const transform_spec& t, unsigned place) {
  std::uint32_t word = t.signs[0];  // by selects: for a run-time index the kernel's parameter is copied to local memory
  UFP4_UNROLL
  for (unsigned w = 1; w < 8; ++w) word = place / 2 == w ? t.signs[w] : word;
  return word >> (place % 2 * 16);
}

/// Applies them.
UFP4_DEVICE void flip_signs(const transform_spec& t, unsigned place, float (&v)[run_of_thread]) {
  const std::uint32_t signs = sign_bits_of(t, place);
  UFP4_UNROLL
  for (unsigned j = 0; j < run_of_thread; ++j)
    v[j] = ufp4::detail::to_float(ufp4::detail::to_bits(v[j]) ^ (signs >> j << 31));
}

/// The signs of a run as +1 and -1 in shared memory, aligned to 16 bytes: a kernel that transforms many runs writes
/// them once. In registers they would need sixteen; computed from bits, two instructions each.
struct sign_table {
  static constexpr std::size_t bytes = ufp4::detail::max_transform * sizeof(float);  ///< of shared memory
  float* of;                                                                         ///< of each element of the run

  /// Writes the table by all threads of a block of 256. A barrier must follow.
  UFP4_DEVICE void write(const transform_spec& t) const {
    const unsigned me = thread_index().x;
    of[me] = (sign_bits_of(t, me / run_of_thread) >> me % run_of_thread & 1u) != 0 ? -1.0f : 1.0f;
  }
};

/// The stages of stride 16, 32, ..., n / 2: lanes whose places differ in one bit hold the two elements of a butterfly.
UFP4_DEVICE void butterflies_across(std::uint32_t n, unsigned place, float (&v)[run_of_thread]) {
  struct sixteen {
    float of[run_of_thread];
  } mine;
  for (unsigned step = 1; step < n / run_of_thread; step *= 2) {
    UFP4_UNROLL
    for (unsigned j = 0; j < run_of_thread; ++j) mine.of[j] = v[j];
    const sixteen other = shuffle_xor(mine, step);
    const float sign = (place & step) != 0 ? -1.0f : 1.0f;  // other - v = other + (-1) v, whose product is exact
    UFP4_UNROLL
    for (unsigned j = 0; j < run_of_thread; ++j) v[j] = ufp4::detail::fma(v[j], sign, other.of[j]);
  }
}

/// The first stage, of neighbours, after their signs: the products are exact, so an fma rounds as the sum does.
UFP4_DEVICE void signed_first_stage(const float* signs, float (&v)[run_of_thread]) {
  UFP4_UNROLL
  for (unsigned q = 0; q < run_of_thread / 4; ++q) {
    const thread::words4 four = reinterpret_cast<const thread::words4*>(signs)[q];
    UFP4_UNROLL
    for (unsigned i = 0; i < 4; i += 2) {
      const unsigned j = 4 * q + i;
      const float a = v[j], sign = ufp4::detail::to_float(four.word[i]);
      const float b = ufp4::detail::product(v[j + 1], ufp4::detail::to_float(four.word[i + 1]));
      v[j] = ufp4::detail::fma(a, sign, b);
      v[j + 1] = ufp4::detail::fma(a, sign, -b);
    }
  }
  ufp4::detail::end_stage(v, run_of_thread);
}

/// The transform without its factor. Every lane of the wave must call it. Does nothing if n = 1.
UFP4_DEVICE void hadamard_sums(const transform_spec& t, const sign_table& signs, unsigned place,
                               float (&v)[run_of_thread]) {
  if (t.n == 1) return;
  signed_first_stage(signs.of + place * run_of_thread, v);
  UFP4_UNROLL
  for (unsigned stride = 2; stride < run_of_thread; stride *= 2) {
    UFP4_UNROLL
    for (unsigned j = 0; j < run_of_thread; ++j)
      if ((j & stride) == 0) {
        const float a = v[j], b = v[j + stride];
        v[j] = a + b;
        v[j + stride] = a - b;
      }
    ufp4::detail::end_stage(v, run_of_thread);
  }
  butterflies_across(t.n, place, v);
}

/// Its factor, and the rounding to bf16 if the transform has it.
UFP4_DEVICE void scale_and_round(const transform_spec& t, float (&v)[run_of_thread]) {
  const float c = ufp4::detail::hadamard_factor(t.n);
  UFP4_UNROLL
  for (unsigned j = 0; j < run_of_thread; ++j) v[j] = ufp4::detail::product(v[j], c);
  if (!t.rounds_to_bf16) return;
  UFP4_UNROLL
  for (unsigned j = 0; j < run_of_thread; ++j) v[j] = static_cast<float>(ufp4::detail::round_to<bf16>(v[j]));
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
  scale_and_round(t, v);
  if (inverse) flip_signs(t, place, v);
}

}  // namespace ufp4::gpu::warp::inline UFP4_GPU
