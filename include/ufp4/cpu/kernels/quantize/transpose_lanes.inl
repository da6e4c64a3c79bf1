// ufp4 - reading runs of a row side by side where a vector has few quarters: quantize_avx2.hpp and quantize_neon.hpp.
// SPDX-License-Identifier: Apache-2.0
//
// Needs load_pieces of the instruction set.

/// Sixteen elements of as many runs as there are lanes, `step` apart, element by element.
UFP4_LANE void load_transposed(const float* p, std::size_t step, f32 (&v)[16]) {
#pragma GCC unroll 4
  for (std::size_t c = 0; c < 16; c += 4) {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) v[c + i] = load_pieces(p + i * step + c, 4 * step);
    transpose4(v + c);
  }
}
