// ufp4 - quantize, amax, dequantize and the Hadamard transform with AVX-512.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)

#include <ufp4/cpu/kernel_tables.hpp>
#include <ufp4/cpu/kernels/kernels_scalar.hpp>
#include <ufp4/cpu/kernels/quantize/read_ahead.hpp>
#include <ufp4/cpu/kernels/quantize/rounding_plan.hpp>
#include <ufp4/cpu/simd/avx512.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX512)
namespace ufp4::cpu::detail::inline UFP4_CODE::avx512 {

using grid_table = table16;
UFP4_LANE grid_table load_grid(const float* values) { return load_table(values); }

/// Lane l has nibble l of the eight bytes in its low bits; what is above does not matter to a lookup.
UFP4_LANE void decode16(const grid_table& table, const std::uint8_t* codes, f32 (&v)[1]) {
  const u32 from = {0,  4,  8,  12, 16, 20, 24, 28,
                    32, 36, 40, 44, 48, 52, 56, 60};  // the bit where a lane's nibble begins
  u32 nibbles;
  asm("vpmultishiftqb %2%{1to8%}, %1, %0" : "=v"(nibbles) : "v"(from), "m"(*bytes_of<8>(codes)));
  v[0] = lookup(table, nibbles);
}

template <bool by_unit>
UFP4_LANE void store_bf16(std::uint16_t* p, const f32 (&v)[1]) {
  half_u16 r;
  if constexpr (by_unit)
    asm("vcvtneps2bf16 %1, %0" : "=v"(r) : "v"(v[0]));
  else
    r = upper_halves(round_bf16_numbers(v[0]));
  store(p, r);
}

/// Not by_unit: the upper halves of all elements in one register, the lower halves in another. An upper half is
/// incremented where its lower half, whose last bit is set if the upper half is odd, exceeds 0x8000: ties to even.
template <bool by_unit>
UFP4_LANE void store_bf16(std::uint16_t* p, const f32 (&v)[2]) {
  using words = std::uint16_t __attribute__((vector_size(64)));
  words upper;
  if constexpr (by_unit) {
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(upper) : "v"(v[0]), "v"(v[1]));
  } else {
    const words even = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
                        32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
    words lower = reinterpret_cast<words>(v[0]);
    upper = lower;
    asm("vpermt2w %2, %1, %0" : "+v"(lower) : "v"(even), "v"(v[1]));
    asm("vpermt2w %2, %1, %0" : "+v"(upper) : "v"(even + 1), "v"(v[1]));
    asm("vpternlogd $0xF8, %2, %1, %0" : "+v"(lower) : "v"(upper), "v"(words{} + 1));  // lower | (upper & 1)
    std::uint32_t rises;
    asm("vpcmpuw $6, %3, %2, %1\n\tvpaddw %4, %0, %0%{%1%}"
        : "+v"(upper), "=&Yk"(rises)
        : "v"(lower), "v"(words{} + 0x8000), "v"(words{} + 1));
  }
  store(p, upper);
}

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
/// Code j of a word from an index of three bits from `bit` on and the sign of t: the codes before are rotated down, so
/// that indices follow each other and signs do. finish_codes moves the eight indices next to their signs.
template <int bit>
UFP4_LANE u32 add_code(u32 word, int j, u32 index, f32 t) {
  constexpr std::uint32_t sign = 0x80000000;
  index = select(constant<sign>(), index, as_bits(t));
  return j == 0 ? index : select(constant<(std::uint32_t{7} << bit) | sign>(), word >> 4 | word << 28, index);
}
/// The same where `index` has the sign in its highest bit.
template <int bit>
UFP4_LANE u32 add_signed_code(u32 word, int j, u32 index) {
  constexpr std::uint32_t sign = 0x80000000;
  return j == 0 ? index : select(constant<(std::uint32_t{7} << bit) | sign>(), word >> 4 | word << 28, index);
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

// ---- For ordered_lanes.inl.

/// a in the lanes whose bit in `which` is 0, b in the others.
template <std::uint16_t which>
UFP4_LANE u32 blend(u32 a, u32 b) {
  u32 r;
  asm("vpblendmd %2, %1, %0%{%3%}" : "=v"(r) : "v"(a), "v"(b), "Yk"(which));
  return r;
}
/// One bit a lane of v that is below `limit`.
UFP4_LANE std::uint32_t lanes_below(u32 v, std::uint32_t limit) {
  std::uint32_t bits;
  asm("vpcmpud $1, %2, %1, %%k1\n\tkmovw %%k1, %0" : "=r"(bits) : "v"(v), "v"(broadcast(limit)) : "k1");
  return bits;
}
UFP4_BINARY("v", u32, maximum_of_words, u32, u32, "vpmaxuw %2, %1, %0")
template <bool words>
UFP4_LANE u32 larger(u32 a, u32 b) {
  return words ? maximum_of_words(a, b) : maximum(a, b);
}
template <bool words>
UFP4_LANE u32 halves_of(u32 a, u32 b) {
  return larger<words>(blend<0xFF00>(a, b), quarters<0x4E>(a, b));
}
template <int which>
UFP4_LANE u32 pick(u32 a, u32 b) {
  u32 r;
  asm("vshufps %3, %2, %1, %0" : "=v"(r) : "v"(a), "v"(b), "i"(which));
  return r;
}
/// The order in which largest_of_blocks leaves the halves of u.
constexpr std::size_t place_of(std::size_t i) {
  constexpr std::uint8_t place[16] = {0, 8, 2, 10, 1, 9, 3, 11, 4, 12, 6, 14, 5, 13, 7, 15};
  return place[i];
}
/// In each 16 bytes: two lanes of each of two vectors, then one of each of four; then the two quarters of a half.
template <bool words>
UFP4_LANE u32 largest_of_blocks(u32 (&u)[8]) {
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) u[i] = larger<words>(blend<0xCCCC>(u[i], u[i + 4]), pick<0x4E>(u[i], u[i + 4]));
#pragma GCC unroll 2
  for (std::size_t i = 0; i < 2; ++i) u[i] = larger<words>(pick<0x88>(u[i], u[i + 2]), pick<0xDD>(u[i], u[i + 2]));
  return larger<words>(quarters<0x88>(u[0], u[1]), quarters<0xDD>(u[0], u[1]));
}
UFP4_LANE u32 from_pairs(u32 v) {
  const u32 lane = {0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15};
  return as_bits(lookup(as_float(v), lane));
}
UFP4_LANE f32 two_broadcasts(const float* p) {
  f32 r = load_broadcast(p);
  asm("vbroadcastss %1, %0%{%2%}" : "+v"(r) : "m"(*bytes_of<4>(p + 1)), "Yk"(std::uint16_t{0xFF00}));
  return r;
}
inline constexpr u32 lane_groups = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
template <int half>
UFP4_LANE u32 words_of(u32 v) {
  const u32 word = u32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} + 16u * half;
  u32 r;
  asm("vpermw %2, %1, %0%{%3%}%{z%}" : "=v"(r) : "v"(word), "v"(v), "Yk"(std::uint32_t{0x55555555}));
  return r;
}
/// Lanes l and l + 1, l even, have nibbles that are next to each other in memory: those with an even number are put
/// together in lane l, those with an odd number in lane l + 1; then bytes are moved.
UFP4_LANE u32 sort_codes(u32 word) {
  const u64 from = u64{} + 0x1C140C04342C241C;  // the bits that a byte of a lane and the next has from the other lane
  u32 other;
  asm("vpmultishiftqb %2, %1, %0" : "=v"(other) : "v"(from), "v"(word));
  const u64 keep = u64{} + 0xF0F0F0F00F0F0F0F;
  const u64 vector = {0, 4, 1, 5, 2, 6, 3, 7};
  return reinterpret_cast<u32>(lookup_bytes(reinterpret_cast<u8>(select(reinterpret_cast<u32>(keep), other, word)),
                                            reinterpret_cast<u32>(vector * 0x0101010101010101 + 0x3830282018100800)));
}
UFP4_LANE u32 sort_code_pairs(u32 word) {
  const u32 lane = {0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12},
            pair = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  return reinterpret_cast<u32>(
      lookup_bytes(reinterpret_cast<u8>(word), (lane * 4u + pair) * 0x01010101u + 0x0C080400u));
}

#define UFP4_ORDERED_LANES
#include <ufp4/cpu/kernels/lane_kernels.inl>
#undef UFP4_ORDERED_LANES

}  // namespace ufp4::cpu::detail::inline UFP4_CODE::avx512
UFP4_END_TARGET

#endif
