// ufp4 - errors of blocks under scales, a block a lane, over one instruction set's lanes.
// SPDX-License-Identifier: Apache-2.0
//
// Element k of block l is lane l of vector k, so that every error is summed in the order of the specification.
#if !defined(UFP4_ERROR_LANES)
#define UFP4_ERROR_LANES
#include <ufp4/cpu/kernels/quantize/rounder_lanes.hpp>

UFP4_BEGIN_LANES(quantize_kernel)

struct error_plan;
/// The errors of the blocks of `length` vectors under the scales of a trial.
using block_error = f32(const error_plan&, const float* x, std::size_t length, f32 factor, f32 effective);

struct error_plan {
  rounding_plan rounding;       ///< nearest even
  alignas(64) float value[16];  ///< by index
  std::uint32_t value_mask;     ///< bits of the elements that are read
  block_error* sum;
  distance_bins bins{};  ///< where scales divide
  void (*estimate[2])(const distance_bins&, const float* x, std::size_t length, const f32* scales, f32* errors) = {};
};

/// All but the functions, for a grid.
inline error_plan plan_errors(const grid4& g, bool divides) {
  error_plan p{make_plan(g, rounding_spec::kind::nearest_even, cheap_lookup), {}, ~0u, nullptr};
  const int first = is_symmetric(g) ? g.zero : 0;
  if (is_symmetric(g)) p.value_mask = ufp4::detail::magnitude_mask;
  for (int i = first; i < g.levels; ++i) p.value[i - first] = g.level[i];
  if (divides) p.bins = plan_distances(p.value, g.levels - first, is_symmetric(g));
  return p;
}

using ufp4::search_error;

template <search_error what>
UFP4_LANE f32 add_error(f32 err, f32 d) {
  if constexpr (what == search_error::squared) return fma(d, d, err);
  return err + magnitude(d);
}
template <bool divides>
UFP4_LANE f32 scaled_by(f32 x, f32 factor) {
  return rounded(divides ? x / factor : x * factor);
}

/// The values of the grid that magnitudes are rounded to: by a rounder, or without an index.
template <class Rounder>
struct looked_up_value {
  Rounder rounder;
  table16 value;
  UFP4_LANE explicit looked_up_value(const error_plan& p) : rounder(p.rounding), value(load_table(p.value)) {}
  UFP4_LANE f32 operator()(f32 t) const { return lookup(value, rounder(t, u32{}) >> Rounder::bit); }
};
/// Of small floats with M bits of mantissa, as wide_float_nearest: the sum with 2^(e + 23 - M) is a multiple of
/// 2^(e - M), and less that number the value.
struct minifloat_value {
  f32 qmax, normal;
  std::uint32_t up;
  UFP4_LANE explicit minifloat_value(const error_plan& p)
      : qmax(broadcast(p.rounding.qmax)),
        normal(broadcast(p.rounding.smallest_normal())),
        up((23 - p.rounding.mantissa_bits) << 23) {}
  UFP4_LANE f32 operator()(f32 t) const {
    const f32 a = at_most(t, qmax);
    const f32 shift = as_float((as_bits(at_least(a, normal)) & 0x7F800000u) + up);
    return rounded(a + shift) - shift;
  }
};

/// Of uniform grids and int8: the sum with 2^23 units is a multiple of a unit.
struct uniform_value {
  f32 qmax, shift;
  UFP4_LANE explicit uniform_value(const error_plan& p)
      : qmax(broadcast(p.rounding.qmax)), shift(broadcast(p.rounding.unit * 8388608.0f)) {}
  UFP4_LANE f32 operator()(f32 t) const { return rounded(at_most(t, qmax) + shift) - shift; }
};

/// For symmetric grids, of whose blocks x has the magnitudes.
template <class Value, bool divides, search_error what>
f32 error_by(const error_plan& p, const float* x, std::size_t length, f32 factor, f32 effective) {
  const Value value(p);
  f32 err{};
#pragma GCC unroll 4
  for (std::size_t k = 0; k < length; ++k) {
    const f32 v = load(x + k * lanes);
    err = add_error<what>(err, v - rounded(value(scaled_by<divides>(v, factor)) * effective));
  }
  return err;
}
UFP4_END_LANES
#endif
