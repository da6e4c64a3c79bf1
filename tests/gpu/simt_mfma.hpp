// ufp4 - the matrix instructions of AMD GPUs in the CPU simulator, from the layouts in AMD's ISA documents.
// SPDX-License-Identifier: Apache-2.0
//
// A layout maps half h of a lane's registers to an element (row, and column along K) of an operand of 16 rows, and a
// lane's sum i to an element of the result. The documents define these maps; the kernels use their inverse.
//
// Sums are rounded as in simt_mma.hpp. On gfx90a subnormal operands, products and sums become zero, as AMD documents.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace ufp4::simt {

struct element_place {
  unsigned row, column;
};

/// CDNA: 64 lanes; 4 halves, 4 sums.
struct mfma_layout {
  static constexpr unsigned wave = 64, depth = 16, halves = 4, sums = 4;
  static constexpr element_place operand(unsigned lane, unsigned h) { return {lane & 15u, (lane >> 4) * 4 + h}; }
  static constexpr element_place result(unsigned lane, unsigned i) { return {(lane >> 4) * 4 + i, lane & 15u}; }
};
/// CDNA 4's of K = 32: 8 halves.
struct mfma_k32_layout : mfma_layout {
  static constexpr unsigned depth = 32, halves = 8;
  static constexpr element_place operand(unsigned lane, unsigned h) { return {lane & 15u, (lane >> 4) * 8 + h}; }
};
/// RDNA 3: 32 lanes; 16 halves, the upper lanes with the lower ones' operands; 8 sums, in every second row.
struct wmma_gfx11_layout {
  static constexpr unsigned wave = 32, depth = 16, halves = 16, sums = 8;
  static constexpr element_place operand(unsigned lane, unsigned h) { return {lane & 15u, h}; }
  static constexpr element_place result(unsigned lane, unsigned i) { return {i * 2 + (lane >> 4), lane & 15u}; }
};
/// RDNA 4: 32 lanes; 8 halves; 8 sums.
struct wmma_gfx12_layout {
  static constexpr unsigned wave = 32, depth = 16, halves = 8, sums = 8;
  static constexpr element_place operand(unsigned lane, unsigned h) { return {lane & 15u, (lane >> 4) * 8 + h}; }
  static constexpr element_place result(unsigned lane, unsigned i) { return {(lane >> 4) * 8 + i, lane & 15u}; }
};

inline double flushed(double x) { return std::fabs(x) < 0x1p-126 ? 0.0 : x; }

/// As sum_of, on a GPU that flushes subnormal numbers to zero.
template <unsigned depth>
float flushed_sum_of(float d, const double (&a)[depth], const double (&b)[depth]) {
  double left[depth];
  for (unsigned i = 0; i < depth; ++i) left[i] = flushed(a[i] * b[i]) == 0 ? 0.0 : a[i];
  const auto sum = sum_of(static_cast<float>(flushed(static_cast<double>(d))), left, b);
  return static_cast<float>(flushed(static_cast<double>(sum)));
}

/// d += a b, a and b 16 x Layout::depth of Element (simt_mma.hpp), b given by its columns; normal numbers of Element
/// from least_normal on.
template <class Layout, class Element, unsigned sums, unsigned words>
void multiply_matrices(const char* name, float (&d)[sums], const std::uint32_t (&a)[words],
                       const std::uint32_t (&b)[words], double least_normal) {
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
  const auto got = meet<result>(name, mine, [least_normal](const operands* lanes, result* given, unsigned count) {
    if (count != Layout::wave) reject("executes a matrix instruction in a wave of another size");
    const bool flushes = device().architecture == 0x90a;
    const auto value = [&](std::uint32_t word, unsigned h) {
      const double x = Element::value(word >> 16 * (h % 2) & 0xFFFFu);
      return flushes && std::fabs(x) < least_normal ? 0.0 : x;
    };
    double left[16][Layout::depth], right[16][Layout::depth];
    bool seen[16][Layout::depth] = {};
    for (unsigned l = 0; l < count; ++l)
      for (unsigned h = 0; h < Layout::halves; ++h) {
        const element_place at = Layout::operand(l, h);
        const double x = value(lanes[l].a[h / 2], h), y = value(lanes[l].b[h / 2], h);
        const auto differs = [](double p, double q) {
          return std::bit_cast<std::uint64_t>(p) != std::bit_cast<std::uint64_t>(q);
        };
        if (seen[at.row][at.column] && (differs(left[at.row][at.column], x) || differs(right[at.row][at.column], y)))
          reject("gives lanes that must hold the same operand different ones");
        left[at.row][at.column] = x, right[at.row][at.column] = y;
        seen[at.row][at.column] = true;
      }
    for (unsigned l = 0; l < count; ++l)
      for (unsigned i = 0; i < sums; ++i) {
        const element_place at = Layout::result(l, i);
        given[l].d[i] = flushes ? flushed_sum_of(lanes[l].d[i], left[at.row], right[at.column])
                                : sum_of(lanes[l].d[i], left[at.row], right[at.column]);
      }
  });
  std::memcpy(d, got.d, sizeof d);
}

template <class Layout, unsigned sums, unsigned words>
void matrix_f16(const char* name, float (&d)[sums], const std::uint32_t (&a)[words], const std::uint32_t (&b)[words]) {
  multiply_matrices<Layout, f16>(name, d, a, b, 0x1p-14);
}
template <class Layout, unsigned sums, unsigned words>
void matrix_bf16(const char* name, float (&d)[sums], const std::uint32_t (&a)[words], const std::uint32_t (&b)[words]) {
  multiply_matrices<Layout, bf16>(name, d, a, b, 0x1p-126);
}

}  // namespace ufp4::simt
