// ufp4 - the matrix instructions of AMD GPUs in the SIMT executor, from the layouts that AMD's ISA documents print.
// SPDX-License-Identifier: Apache-2.0
//
// A layout says which element of a 16 x 16 operand (row, and column along K) half h of a lane's registers is, and which element of
// the result a lane's sum i: the way of the documents, and not that of the kernels, which ask for the inverse.
#pragma once

#include <cstdint>
#include <cstring>

namespace ufp4::simt {

struct element_place {
  unsigned row, column;
};

/// CDNA: 64 lanes; 4 halves, 4 sums.
struct mfma_layout {
  static constexpr unsigned wave = 64, halves = 4, sums = 4;
  static constexpr element_place operand(unsigned lane, unsigned h) { return {lane & 15u, (lane >> 4) * 4 + h}; }
  static constexpr element_place result(unsigned lane, unsigned i) { return {(lane >> 4) * 4 + i, lane & 15u}; }
};
/// RDNA 3: 32 lanes; 16 halves, the upper lanes with the lower ones' operands; 8 sums, rows by turns.
struct wmma_gfx11_layout {
  static constexpr unsigned wave = 32, halves = 16, sums = 8;
  static constexpr element_place operand(unsigned lane, unsigned h) { return {lane & 15u, h}; }
  static constexpr element_place result(unsigned lane, unsigned i) { return {i * 2 + (lane >> 4), lane & 15u}; }
};
/// RDNA 4: 32 lanes; 8 halves; 8 sums.
struct wmma_gfx12_layout {
  static constexpr unsigned wave = 32, halves = 8, sums = 8;
  static constexpr element_place operand(unsigned lane, unsigned h) { return {lane & 15u, (lane >> 4) * 8 + h}; }
  static constexpr element_place result(unsigned lane, unsigned i) { return {(lane >> 4) * 8 + i, lane & 15u}; }
};

/// d += a b, a and b 16 x 16 of Element (simt_mma.hpp), b given by its columns; sums as simt_mma.hpp plays them.
template <class Layout, class Element, unsigned sums, unsigned words>
void matrix_16x16x16(const char* name, float (&d)[sums], const std::uint32_t (&a)[words],
                     const std::uint32_t (&b)[words]) {
  static_assert(Layout::sums == sums && Layout::halves == 2 * words);
  struct operands {
    std::uint32_t a[words], b[words];
    float d[sums];
  } mine;
  struct result {
    float d[sums];
  };
  std::memcpy(mine.a, a, sizeof a);
  std::memcpy(mine.b, b, sizeof b);
  std::memcpy(mine.d, d, sizeof d);
  const auto got = meet<result>(name, mine, [](const operands* lanes, result* given, unsigned count) {
    if (count != Layout::wave) refuse("comes to a matrix instruction in a wave of another size");
    double left[16][16], right[16][16];
    bool seen[16][16] = {};
    for (unsigned l = 0; l < count; ++l)
      for (unsigned h = 0; h < Layout::halves; ++h) {
        const element_place at = Layout::operand(l, h);
        const double x = Element::value(lanes[l].a[h / 2] >> 16 * (h % 2) & 0xFFFFu);
        const double y = Element::value(lanes[l].b[h / 2] >> 16 * (h % 2) & 0xFFFFu);
        if (seen[at.row][at.column] && (left[at.row][at.column] != x || right[at.row][at.column] != y))
          refuse("gives lanes that must hold the same operand different ones");
        left[at.row][at.column] = x, right[at.row][at.column] = y;
        seen[at.row][at.column] = true;
      }
    for (unsigned l = 0; l < count; ++l)
      for (unsigned i = 0; i < sums; ++i) {
        const element_place at = Layout::result(l, i);
        given[l].d[i] = sum_of(lanes[l].d[i], left[at.row], right[at.column]);
      }
  });
  std::memcpy(d, got.d, sizeof d);
}

template <class Layout, unsigned sums, unsigned words>
void matrix_f16(const char* name, float (&d)[sums], const std::uint32_t (&a)[words], const std::uint32_t (&b)[words]) {
  matrix_16x16x16<Layout, f16>(name, d, a, b);
}

}  // namespace ufp4::simt
