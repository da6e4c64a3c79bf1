// ufp4 - CDNA 4's block-scaled MFMA and the 4-bit integer WMMA of RDNA 3 and 4 in the CPU simulator.
// SPDX-License-Identifier: Apache-2.0
//
// As in simt_mfma.hpp, a layout maps a lane's elements to places in the matrix, as the published tables do (for sources
// see hip/mfma_scale_gfx950.hpp); the kernels use the inverse.
#pragma once

#include <cstdint>
#include <cstring>

namespace ufp4::simt {

// ---- v_mfma_scale_f32_16x16x128_f8f6f4 ----

/// The element types by the instruction's numbers, with the value of a code.
template <unsigned number>
struct f8f6f4_element;
template <>
struct f8f6f4_element<0> : e4m3 {};
template <>
struct f8f6f4_element<1> : e5m2 {};
template <>
struct f8f6f4_element<2> : e2m3 {};
template <>
struct f8f6f4_element<3> : e3m2 {};
template <>
struct f8f6f4_element<4> : e2m1 {};

/// Element e of a lane's 32. Of 8 bits: four quarters of the wave have 16 columns each of the first 64, then of the
/// last.
template <class Element>
constexpr element_place scaled_operand(unsigned lane, unsigned e) {
  const unsigned quarter = lane >> 4;
  if (Element::width == 8) return {lane & 15u, (e < 16 ? 0u : 64u) + quarter * 16 + (e & 15u)};
  return {lane & 15u, quarter * 32 + e};
}
/// The row, and the block of 32 along K, whose scale a lane holds.
constexpr element_place scale_place(unsigned lane) { return {lane & 15u, lane >> 4}; }

/// A row of the operand, each element times its block's scale.
struct scaled_rows {
  double row[16][128];
};
template <class Element, unsigned words>
void gather_rows(scaled_rows& to, unsigned lane, const std::uint32_t (&registers)[words]) {
  for (unsigned e = 0; e < 32; ++e) {
    unsigned code = 0;
    for (unsigned bit = 0; bit < Element::width; ++bit) {
      const unsigned at = e * Element::width + bit;
      code |= (registers[at / 32] >> (at % 32) & 1u) << bit;
    }
    const element_place at = scaled_operand<Element>(lane, e);
    to.row[at.row][at.column] = Element::value(code);
  }
}
inline void scale_rows(scaled_rows& to, unsigned lane, std::uint32_t scale) {
  const element_place at = scale_place(lane);
  const double by = ue8m0<1>::value(scale & 0xFFu);
  for (unsigned i = 0; i < 32; ++i) to.row[at.row][32 * at.column + i] *= by;
}

/// d += (scale_a a) (scale_b b); both selectors are 0, so that a scale is the lowest byte. Sums are rounded as in
/// simt_mma.hpp: the truncated variant truncates every product, which loses at least as much as a unit that scales the
/// sums of blocks.
template <unsigned type_a, unsigned type_b, unsigned words_a, unsigned words_b>
void mfma_scale_16x16x128(float (&d)[4], const std::uint32_t (&a)[words_a], const std::uint32_t (&b)[words_b],
                          std::uint32_t scale_a, std::uint32_t scale_b) {
  using left_element = f8f6f4_element<type_a>;
  using right_element = f8f6f4_element<type_b>;
  static_assert(words_a == left_element::width && words_b == right_element::width);
  struct operands {
    std::uint32_t a[words_a], b[words_b], scale_a, scale_b;
    float d[4];
  } mine{.a = {}, .b = {}, .scale_a = scale_a, .scale_b = scale_b, .d = {}};
  struct result {
    float d[4];
  };
  std::memcpy(mine.a, a, sizeof a);
  std::memcpy(mine.b, b, sizeof b);
  std::memcpy(mine.d, d, sizeof d);
  const auto got =
      meet<result>("mfma_scale_f32_16x16x128_f8f6f4", mine, [](const operands* lanes, result* given, unsigned count) {
        if (device().architecture != 0x950) reject("executes mfma_scale on a device without it");
        if (count != 64) reject("executes a matrix instruction in a wave of another size");
        scaled_rows left, right;
        for (unsigned l = 0; l < count; ++l) {
          gather_rows<left_element>(left, l, lanes[l].a);
          gather_rows<right_element>(right, l, lanes[l].b);
        }
        for (unsigned l = 0; l < count; ++l) {
          scale_rows(left, l, lanes[l].scale_a);
          scale_rows(right, l, lanes[l].scale_b);
        }
        for (unsigned l = 0; l < count; ++l)
          for (unsigned i = 0; i < 4; ++i)
            given[l].d[i] = sum_of(lanes[l].d[i], left.row[(l >> 4) * 4 + i], right.row[l & 15u]);
      });
  std::memcpy(d, got.d, sizeof d);
}

// ---- v_wmma_i32_16x16x16_iu4, v_wmma_i32_16x16x32_iu4, both operands signed ----

/// Element e of a lane. RDNA 3: all 16 columns, the upper lanes with the lower ones' operands; RDNA 4: half of the
/// columns.
struct iu4_gfx11_layout {
  static constexpr unsigned depth = 16, words = 2;
  static constexpr bool runs_on(int architecture) { return architecture >= 0x1100 && architecture < 0x1200; }
  static constexpr element_place operand(unsigned lane, unsigned e) { return {lane & 15u, e}; }
  static constexpr element_place result(unsigned lane, unsigned i) { return {i * 2 + (lane >> 4), lane & 15u}; }
};
template <unsigned depth_>
struct iu4_gfx12_layout {
  static constexpr unsigned depth = depth_, words = depth / 16;
  static constexpr bool runs_on(int architecture) { return architecture >= 0x1200 && architecture < 0x1300; }
  static constexpr element_place operand(unsigned lane, unsigned e) {
    return {lane & 15u, (lane >> 4) * (depth / 2) + e};
  }
  static constexpr element_place result(unsigned lane, unsigned i) { return {(lane >> 4) * 8 + i, lane & 15u}; }
};

/// d += a b, without saturation.
template <class Layout>
void wmma_iu4(const char* name, std::int32_t (&d)[8], const std::uint32_t (&a)[Layout::words],
              const std::uint32_t (&b)[Layout::words]) {
  struct operands {
    std::uint32_t a[Layout::words], b[Layout::words];
    std::int32_t d[8];
  } mine;
  struct result {
    std::int32_t d[8];
  };
  std::memcpy(mine.a, a, sizeof a);
  std::memcpy(mine.b, b, sizeof b);
  std::memcpy(mine.d, d, sizeof d);
  const auto got = meet<result>(name, mine, [](const operands* lanes, result* given, unsigned count) {
    if (!Layout::runs_on(device().architecture)) reject("executes a WMMA instruction of another architecture");
    if (count != 32) reject("executes a matrix instruction in a wave of another size");
    constexpr auto nibble = [](const std::uint32_t* words, unsigned e) {
      const auto code = static_cast<std::int32_t>(words[e / 8] >> 4 * (e % 8) & 15u);
      return code < 8 ? code : code - 16;
    };
    std::int32_t left[16][Layout::depth], right[16][Layout::depth];
    bool seen[16][Layout::depth] = {};
    for (unsigned l = 0; l < count; ++l)
      for (unsigned e = 0; e < 8 * Layout::words; ++e) {
        const element_place at = Layout::operand(l, e);
        const std::int32_t x = nibble(lanes[l].a, e), y = nibble(lanes[l].b, e);
        if (seen[at.row][at.column] && (left[at.row][at.column] != x || right[at.row][at.column] != y))
          reject("gives lanes that must hold the same operand different ones");
        left[at.row][at.column] = x, right[at.row][at.column] = y;
        seen[at.row][at.column] = true;
      }
    for (unsigned l = 0; l < count; ++l)
      for (unsigned i = 0; i < 8; ++i) {
        const element_place at = Layout::result(l, i);
        given[l].d[i] = sum_of(lanes[l].d[i], left[at.row], right[at.column]);
      }
  });
  std::memcpy(d, got.d, sizeof d);
}

}  // namespace ufp4::simt
