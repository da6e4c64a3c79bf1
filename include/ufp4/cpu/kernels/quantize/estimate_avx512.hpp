// ufp4 - estimates of the errors of blocks under many scales that divide, with AVX-512.
// SPDX-License-Identifier: Apache-2.0
//
// A search computes the errors that numerics 5 defines only of the scales that estimates leave. An estimate has no
// division and needs no code: the distance of x / scale to the nearest level is continuous, so a quotient that is a few
// ulp off changes it by as much, also next to a cut. With u = 2^-24, one estimated distance differs by less than 14 u
// amax from the exact one, and a term of the specified error by 5 u amax: together less than 20 u amax. Therefore two
// roots of sums of n squares differ by less than sqrt(n) 20 u amax, and two sums of magnitudes by less than n 20 u
// amax; the roundings of a sum are worth n u of it.
#pragma once

#undef UFP4_LANES
#define UFP4_LANES avx512
#include <ufp4/cpu/kernel_tables.hpp>
#include <ufp4/cpu/kernels/quantize/error_lanes.hpp>

UFP4_BEGIN_LANES(quantize_kernel)

/// How many scales one call takes.
inline constexpr std::size_t estimates_at_once = 5;
using estimate_errors = void(const distance_bins&, const float* x, std::size_t length, const f32* scales, f32* errors);

/// The errors of blocks of `length` vectors under some scales, each from 2^-64 to 2^56, with x in error_plan's form.
/// `clamps`: x / scale may be beyond the bins.
template <search_error what, bool clamps>
void errors_by_bins(const distance_bins& p, const float* x, std::size_t length, const f32* scales, f32* errors) {
  constexpr std::size_t n = estimates_at_once;
  const table16 middle[2] = {load_table(p.middle), load_table(p.middle + 16)},
                distance[2] = {load_table(p.distance), load_table(p.distance + 16)};
  const f32 zero = broadcast(level_bins::zero);
  const bin_ends ends(p.bins);
  const float width_of_one = 1.0f / p.bins.per_width;
  f32 per_width[n], err[n] = {};
#pragma GCC unroll 5
  for (std::size_t i = 0; i < n; ++i) per_width[i] = 1.0f / scales[i] * p.bins.per_width;
  for (std::size_t k = 0; k < length; ++k) {
    const f32 v = load(x + k * lanes);
    f32 t[n];
    u32 bin[n];
#pragma GCC unroll 5
    for (std::size_t i = 0; i < n; ++i) {
      t[i] = rounded(v * per_width[i]);
      bin[i] = as_bits(fma(v, per_width[i], zero));
    }
#pragma GCC unroll 5
    for (std::size_t i = 0; clamps && i < n; ++i) bin[i] = ends.clamped(bin[i]);
#pragma GCC unroll 5
    for (std::size_t i = 0; i < n; ++i)
      t[i] = magnitude(t[i] - lookup(middle[0], middle[1], bin[i])) - lookup(distance[0], distance[1], bin[i]);
#pragma GCC unroll 5
    for (std::size_t i = 0; i < n; ++i) err[i] = add_error<what>(err[i], t[i]);
  }
#pragma GCC unroll 5
  for (std::size_t i = 0; i < n; ++i) {
    const f32 width = scales[i] * width_of_one;
    errors[i] = what == search_error::squared ? err[i] * width * width : err[i] * width;
  }
}

/// The estimate of a scale whose exact error may be the smallest does not exceed this. For squares: (r + d)^2 is at
/// most r^2 (1 + 2^-14) + d^2 (1 + 2^14), here with d = 2 sqrt(n) 20 u amax.
inline f32 largest_estimate(search_error what, f32 smallest, f32 amax, std::size_t length) {
  const auto n = static_cast<float>(length);
  if (what == search_error::absolute) return smallest * (1.0f + n * 0x1p-20f) + amax * (n * 0x1.4p-19f);
  return smallest * (1.0f + 0x1p-14f + n * 0x1p-20f) + amax * amax * (n * 0x1p-23f);
}

/// The scales of a search around a float or bf16 scale.
struct float_steps {
  static constexpr int most = 64;  ///< that have estimates
  scale_kind kind;
  f32 base;
  int below, count;

  float_steps(scale_kind k, f32 around, search_window w)
      : kind(k), base(around), below(w.below), count(w.below + w.above + 1) {}
  f32 multiplier(int i) const { return broadcast(1.0f + static_cast<float>(i - below) / 32.0f); }
  u32 bits(f32 by) const { return encode_scale_bits(kind, rounded(base * by)); }
  f32 operator()(int i) const { return decode_scale_bits<true>(kind, bits(multiplier(i))); }
};

/// The estimates of all scales of a search.
struct error_estimates {
  f32 error[up(float_steps::most, estimates_at_once)];
  f32 smallest = broadcast(infinity), second = smallest;
  f32 multiplier{};  ///< of the scale with the smallest

  /// Whether a block of this amax has estimates: no intermediate result overflows, and none that matters is subnormal.
  static u32 hold(const distance_bins& p, const float_steps& step, f32 amax) {
    const f32 least = step(0), most = step(step.count - 1);
    return reinterpret_cast<u32>(amax > 0x1p-40f) & reinterpret_cast<u32>(amax < 0x1p56f) &
           reinterpret_cast<u32>(least > 0x1p-64f) & reinterpret_cast<u32>(most < 0x1p56f) &
           reinterpret_cast<u32>(amax * p.bins.per_width < least * 0x1p56f);
  }
  /// `functions`: errors_by_bins without clamps and with them.
  error_estimates(const distance_bins& p, estimate_errors* const (&functions)[2], const float* x, std::size_t length,
                  const float_steps& step, f32 amax) {
    constexpr auto group = static_cast<int>(estimates_at_once);
    for (int i = 0; i < step.count; i += group) {
      f32 scale[group];
      for (int j = 0; j < group; ++j) scale[j] = step(i + j);
      const bool clamps = lane_bits(reinterpret_cast<u32>(amax > scale[0] * p.reach)) != 0;
      functions[clamps ? 1 : 0](p, x, length, scale, error + i);
      for (int j = i; j < i + group && j < step.count; ++j) {
        second = at_most(second, at_least(error[j], smallest));
        multiplier = error[j] < smallest ? step.multiplier(j) : multiplier;
        smallest = at_most(error[j], smallest);
      }
    }
  }
};
UFP4_END_LANES
