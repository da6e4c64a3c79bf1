// ufp4 - load_transposed of quantize_avx2.hpp and quantize_neon.hpp, whose vectors have one or two pieces of 16 bytes.
// SPDX-License-Identifier: Apache-2.0
//
// Needs load_pieces(p, step): four elements from p on and, in the other piece, from p + step on.

/// Sixteen elements of `lanes` runs, `step` apart: v[k] holds element k of every run.
UFP4_LANE void load_transposed(const float* p, std::size_t step, f32 (&v)[16]) {
#pragma GCC unroll 4
  for (std::size_t c = 0; c < 16; c += 4) {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) v[c + i] = load_pieces(p + i * step + c, 4 * step);
    transpose4(v + c);
  }
}
