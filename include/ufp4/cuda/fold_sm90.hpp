// ufp4 - folded operands for wgmma: codes times their block scale as f16 or bf16, in the registers of one thread.
// SPDX-License-Identifier: Apache-2.0
//
// | wgmma_fold | operands                                         | integer instructions for 8 codes, and others    |
// |------------|--------------------------------------------------|-------------------------------------------------|
// | f16        | e4m3 scales, grids of a few bits: products are   | 15: one table of bytes; 4 multiplications of    |
// |            | exact normal numbers of f16                      | pairs                                           |
// | mxfp4      | e8m0 scales, E2M1                                | 8 masks, 7 shifts: the bits of a code become a  |
// |            |                                                  | subnormal bf16; 8 multiplications               |
// | e8m0       | e8m0 scales: exact in bf16                       | 21: two tables of bytes; 4 multiplications      |
// | exact      | other scales of 1 or 2 bytes, of a type known at | the same, and a dozen for the scale of 16 codes |
// |            | run time; exact in bf16                          |                                                 |
// | rounded    | scales of 2 or 4 bytes: products are computed in | 21, 8 to unpack, 8 multiplications, 4           |
// |            | binary32 and rounded to bf16                     | conversions                                     |
//
// Masks, permutes and most shifts run at half rate, which decides the speed of a kernel; multiplications do not. A
// kernel compiles one variant for both of its operands, so their eight products have the same order: that of K, but in
// `mxfp4` products i and i + 4 are a pair. The scale of a tensor is applied to the sums.
#pragma once

#include <ufp4/cuda/memory_sm80.hpp>
#include <ufp4/gpu/kernels/folding.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

enum class wgmma_fold : std::uint8_t { f16, mxfp4, e8m0, exact, rounded };
UFP4_HD constexpr bool is_e8m0(wgmma_fold how) { return how == wgmma_fold::mxfp4 || how == wgmma_fold::e8m0; }

/// How the bits of a scale become a float, as data: ufp4::detail::decode_scale without branches, which would end a
/// pipeline of wgmma. The value is the magnitude's bits, shifted to the fields of a float, times a power of two.
struct scale_decoder {
  unsigned bytes = 1, shift = 0, sign_shift = 0;
  std::uint32_t magnitude = 0xFF, sign = 0, nan = 0xFFFFFFFF;  ///< masks, and the magnitude of the only NaN
  float power = 1, of_zero = 0;                                ///< of_zero: the value of magnitude 0

  UFP4_DEVICE float value(std::uint32_t bits) const {
    const std::uint32_t m = bits & magnitude;
    const float plain = rounded(to_float(m << shift) * power), v = m == 0 ? of_zero : plain;
    return to_float(to_bits(m == nan ? ufp4::detail::quiet_nan : v) | (bits & sign) << sign_shift);
  }
};
inline scale_decoder scale_decoder_of(scale_kind kind) {
  switch (kind) {
    case scale_kind::f32: return {.bytes = 4, .magnitude = 0x7FFFFFFF, .sign = 0x80000000};
    case scale_kind::bf16: return {.bytes = 2, .shift = 16, .sign_shift = 16, .magnitude = 0x7FFF, .sign = 0x8000};
    case scale_kind::e4m3:
      return {.shift = 20, .sign_shift = 24, .magnitude = 0x7F, .sign = 0x80, .nan = 0x7F, .power = 0x1p120f};
    case scale_kind::ue5m3: return {.shift = 20, .nan = 0xFF, .power = 0x1p112f};
    case scale_kind::e8m0: return {.shift = 23, .nan = 0xFF, .of_zero = 0x1p-127f};
    case scale_kind::e6m2: break;  // not here (has_extended_blocks)
  }
  return {};
}

struct wgmma_side : folding {
  scale_decoder decoder{};
  const void* scales = nullptr;
  std::size_t rows = 0;
  unsigned block_rows = 1;
  std::uint32_t nonzero = 0, zero = 0;  ///< eight codes are zeros if codes & nonzero == zero; else they may be as well
  bool words = false;  ///< the scales of 64 elements from a multiple of 64 on are one aligned word of 4 or 2 bytes
};

/// Are all products of a side exact, normal numbers of f16 whose upper byte has all bits of the value?
constexpr bool folds_to_f16(const gemm_side& side) {
  if (side.scale != scale_kind::e4m3 || !thread::fits_f16(side.grid)) return false;
  if (!thread::f16_table_of(side.grid).high_suffices() || significant_bits(side.grid) + 4 > 11) return false;
  for (const float v : side.grid.value) {
    const float m = magnitude(v);
    if (m * 448.0f > 65504.0f || (m != 0.0f && m * 0x1p-9f < 0x1p-14f)) return false;
  }
  return true;
}

constexpr wgmma_fold fold_of(const gemm_side& left, const gemm_side& right) {
  if (folds_to_f16(left) && folds_to_f16(right)) return wgmma_fold::f16;
  if (!products_fit(left) || !products_fit(right)) return wgmma_fold::rounded;
  const bool e8m0 = left.scale == scale_kind::e8m0 && right.scale == scale_kind::e8m0;
  if (e8m0 && is_e2m1(left.grid) && is_e2m1(right.grid)) return wgmma_fold::mxfp4;
  return e8m0 ? wgmma_fold::e8m0 : wgmma_fold::exact;
}

inline wgmma_side wgmma_side_of(const gemm_side& side, unsigned block, wgmma_fold how) {
  wgmma_side s{folding_of(side), scale_decoder_of(side.scale), side.scales, side.rows, side.block_rows};
  if (side.grid.value[0] == 0.0f)
    s.nonzero = side.grid.value[8] == 0.0f ? 0x77777777u : 0xFFFFFFFFu;
  else
    s.zero = 1;  // no code is known to be zero
  if (how == wgmma_fold::f16) s.values = thread::f16_table_of(side.grid);
  const unsigned bytes = block == 16 ? 4 : block == 32 ? 2 : 0;
  const bool byte_scales = how == wgmma_fold::f16 || is_e8m0(how);
  s.words = byte_scales && bytes != 0 && side.padded_cols % 64 == 0 && is_aligned(side.scales, bytes);
  return s;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <wgmma_fold how>
UFP4_DEVICE float scale_of(const wgmma_side& side, std::uint32_t bits) {
  return is_e8m0(how) ? thread::scale_value(scale_kind::e8m0, bits) : side.decoder.value(bits);
}
/// In two loads, without branches. Of a scale that is one part, they are the same.
template <wgmma_fold how>
UFP4_DEVICE std::uint32_t load_scale_bits(const wgmma_side& side, std::size_t i) {
  using part = std::conditional_t<how == wgmma_fold::rounded, std::uint16_t, std::uint8_t>;
  const unsigned parts = side.decoder.bytes / sizeof(part);
  const auto* at = static_cast<const part*>(side.scales) + i * parts;
  return at[0] | std::uint32_t{at[parts - 1]} << (8 * sizeof(part) * (parts - 1));
}

/// What the codes of a block are multiplied by: a pair of f16 or bf16, or the bits of a binary32.
template <wgmma_fold how>
UFP4_DEVICE std::uint32_t factor_of(const wgmma_side& side, std::uint32_t bits) {
  if constexpr (how == wgmma_fold::f16) {
    std::uint32_t pair;
    const auto both = static_cast<std::uint16_t>(bits * 0x0101u);
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(both));
    return pair;
  }
  const float scale = scale_of<how>(side, bits);
  return how == wgmma_fold::rounded ? to_bits(scale) : thread::pair_bf16(scale, scale);
}

/// Does bf16 not hold a product of sixteen codes? Without branches, for a wgmma pipeline. f16 holds every product.
template <wgmma_fold how>
UFP4_DEVICE bool is_unfit(const wgmma_side& side, std::uint32_t bits, std::uint32_t first, std::uint32_t last) {
  if constexpr (how == wgmma_fold::f16) return false;
  const float m = magnitude(scale_of<how>(side, bits));
  const bool outside = (m < side.in_range.low) | (m > side.in_range.high);  // false for NaN
  return outside & (m != 0.0f) & (((first | last) & side.nonzero) != side.zero);
}

/// Eight values of E2M1 as pairs of bf16, times 2^-126: exponent and mantissa of a code are the lowest bits of the
/// exponent and the highest of the mantissa. Pair i is of codes i and i + 4.
UFP4_DEVICE void place_e2m1(std::uint32_t codes, std::uint32_t (&pairs)[4]) {
  UFP4_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint32_t magnitude = i < 2 ? codes << (6 - 4 * i) : codes >> (4 * i - 6);
    pairs[i] = (codes << (12 - 4 * i) & 0x80008000u) | (magnitude & 0x01C001C0u);
  }
}

template <wgmma_fold how>
UFP4_DEVICE void fold8(const wgmma_side& side, std::uint32_t codes, std::uint32_t factor, std::uint32_t (&pairs)[4]) {
  if constexpr (how == wgmma_fold::f16)
    thread::decode8_halves(side.values.high, codes, pairs);
  else if constexpr (how == wgmma_fold::mxfp4)
    place_e2m1(codes, pairs);
  else
    thread::decode8_halves(side.values, codes, pairs);
  UFP4_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    if constexpr (how == wgmma_fold::f16)
      asm("mul.rn.f16x2 %0, %0, %1;" : "+r"(pairs[i]) : "r"(factor));
    else if constexpr (how == wgmma_fold::mxfp4)
      pairs[i] = thread::multiply_bf16(thread::multiply_bf16(pairs[i], 0x7E807E80u), factor);  // 2^126: both are exact
    else if constexpr (how == wgmma_fold::rounded)
      pairs[i] = thread::pair_bf16(rounded(thread::low_bf16(pairs[i]) * to_float(factor)),
                                   rounded(thread::high_bf16(pairs[i]) * to_float(factor)));
    else
      pairs[i] = thread::multiply_bf16(pairs[i], factor);
  }
}

#endif

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
