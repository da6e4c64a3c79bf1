// ufp4 - the names of step_lanes.hpp with AVX-512, and what its other kernels share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#undef UFP4_LANES
#define UFP4_LANES avx512
#include <ufp4/cpu/simd/avx512.hpp>

UFP4_BEGIN_LANES()

/// Sixteen elements of `lanes` runs: v[k] holds element k of every run. load_row(i) is run i.
template <class LoadRow>
UFP4_LANE void transpose16(const LoadRow& load_row, f32 (&v)[16]) {
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    const f32 r0 = load_row(i), r1 = load_row(4 + i), r2 = load_row(8 + i), r3 = load_row(12 + i);
    const f32 a = quarters<0x44>(r0, r1), b = quarters<0xEE>(r0, r1), c = quarters<0x44>(r2, r3),
              d = quarters<0xEE>(r2, r3);
    v[i] = quarters<0x88>(a, c);
    v[4 + i] = quarters<0xDD>(a, c);
    v[8 + i] = quarters<0x88>(b, d);
    v[12 + i] = quarters<0xDD>(b, d);
  }
#pragma GCC unroll 4
  for (std::size_t c = 0; c < 16; c += 4) transpose4(v + c);
}
/// Run i of runs that are `step` apart, at an address that an instruction can form.
template <class T>
struct run_addresses {
  const T* quarter[4];
  std::size_t step, step3;
  UFP4_LANE run_addresses(const T* p, std::size_t by)
      : quarter{p, p + 4 * by, p + 8 * by, p + 12 * by}, step(by), step3(3 * by) {}
  UFP4_LANE const T* operator()(std::size_t i) const { return quarter[i / 4] + (i % 4 < 3 ? i % 4 * step : step3); }
};
/// The same of runs in memory, `step` apart.
UFP4_LANE void load_transposed(const float* p, std::size_t step, f32 (&v)[16]) {
  const run_addresses<float> run(p, step);
  transpose16([&](std::size_t i) __attribute__((always_inline)) { return load(run(i)); }, v);
}
inline constexpr bool loads_fp16 = true;
UFP4_LANE void load_transposed_fp16(const std::uint16_t* p, std::size_t step, f32 (&v)[16]) {
  const run_addresses<std::uint16_t> run(p, step);
  transpose16([&](std::size_t i) __attribute__((always_inline)) { return widen_fp16(load_as<half_u16>(run(i))); }, v);
}
/// 32 bytes from each of two addresses.
UFP4_LANE u32 load_halves(const void* low, const void* high) {
  u32 v;
  asm("vmovdqu %1, %t0\n\tvinserti64x4 $1, %2, %0, %0" : "=&x"(v) : "m"(*bytes_of<32>(low)), "m"(*bytes_of<32>(high)));
  return v;
}
/// Sixteen 16-bit elements of `lanes` runs: v[k] holds elements 2 k and 2 k + 1 of every run.
UFP4_LANE void load_transposed_pairs(const std::uint16_t* p, std::size_t step, u32 (&v)[8]) {
  const run_addresses<std::uint16_t> run(p, step);
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    const u32 a = load_halves(run(i), run(4 + i)), b = load_halves(run(8 + i), run(12 + i));
    v[i] = quarters<0x88>(a, b);
    v[4 + i] = quarters<0xDD>(a, b);
  }
  transpose4(v);
  transpose4(v + 4);
}
/// The smaller of |t| and a positive bound.
UFP4_BINARY("v", f32, magnitude_at_most, f32, f32, "vrangeps $10, %2, %1, %0")
/// The larger.
UFP4_BINARY("v", f32, magnitude_at_least, f32, f32, "vrangeps $11, %2, %1, %0")
/// The larger, with the sign of t.
UFP4_BINARY("v", f32, signed_at_least, f32, f32, "vrangeps $3, %2, %1, %0")
/// In each lane; from memory, since a register that a compiler sets from a general one costs as much as a shuffle.
template <std::uint32_t value>
UFP4_LANE u32 constant() {
  static constexpr std::uint32_t in_memory = value;
  u32 r;
  asm("vpbroadcastd %1, %0" : "=v"(r) : "m"(in_memory));
  return r;
}
/// The bits of b where `mask` has ones, else those of a.
UFP4_LANE u32 select(u32 mask, u32 a, u32 b) {
  asm("vpternlogd $0xD8, %2, %1, %0" : "+v"(a) : "v"(b), "v"(mask));
  return a;
}
/// Code j of a word from an index of three bits from `bit` on and its highest bit, the sign: the codes before are
/// rotated down, so that indices follow each other and signs do. finish_codes moves the indices next to the signs.
template <int bit>
UFP4_LANE u32 add_signed_code(u32 word, int j, u32 index) {
  return j == 0 ? index : select(constant<(std::uint32_t{7} << bit) | 0x80000000>(), word >> 4 | word << 28, index);
}
/// The same with the sign of t.
template <int bit>
UFP4_LANE u32 add_code(u32 word, int j, u32 index, f32 t) {
  return add_signed_code<bit>(word, j, select(constant<0x80000000>(), index, as_bits(t)));
}
template <int bit>
UFP4_LANE u32 finish_codes(u32 word) {
  constexpr int down = (bit + 4) % 32;  // index 0 is at `bit` after a rotation by 28
  return select(constant<0x88888888>(), word >> down | word << (32 - down), word);
}

/// In the lanes where u < width: d becomes a - b, and the highest bit of code j of the word `marks` is set.
template <bool marks_too>
UFP4_LANE void take_difference(std::size_t j, u32 u, u32 width, f32 a, f32 b, f32& d, u32& marks) {
  static constexpr std::uint32_t bit[8] = {0x8, 0x80, 0x800, 0x8000, 0x80000, 0x800000, 0x8000000, 0x80000000};
  if constexpr (marks_too)
    asm("vpcmpltud %3, %2, %%k1\n\tvsubps %5, %4, %0%{%%k1%}\n\tvpord %6%{1to16%}, %1, %1%{%%k1%}"
        : "+v"(d), "+v"(marks)
        : "v"(u), "v"(width), "v"(a), "v"(b), "m"(bit[j])
        : "k1");
  else
    asm("vpcmpltud %2, %1, %%k1\n\tvsubps %4, %3, %0%{%%k1%}" : "+v"(d) : "v"(u), "v"(width), "v"(a), "v"(b) : "k1");
}
UFP4_END_LANES
