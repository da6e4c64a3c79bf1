// ufp4 - amax over one instruction set's lanes.
// SPDX-License-Identifier: Apache-2.0
#if !defined(UFP4_AMAX_LANES)
#define UFP4_AMAX_LANES
#include <ufp4/cpu/kernels/quantize/tile_lanes.hpp>

UFP4_BEGIN_LANES(quantize_kernel)

/// The largest lane of a vector.
inline std::uint32_t largest_lane(u32 v) {
  std::uint32_t largest = 0;
  for (std::size_t l = 0; l < lanes; ++l) largest = v[l] > largest ? v[l] : largest;
  return largest;
}

/// amax without a transform: any order of elements gives it, so contiguous columns are read as rows.
inline std::uint32_t amax_untransformed(source x, std::size_t first, std::size_t last) {
  constexpr std::size_t part = 1024;
  alignas(64) float staged[part + lanes];
  u32 largest{};
  x.data = static_cast<const char*>(x.data) + x.offset(first, 0) * (x.kind == dtype::f32 ? 4 : 2);
  x.rows = last - first;
  if (reads_columns(x)) x = {x.data, x.kind, x.cols, x.rows, x.col_stride, x.row_stride};
  for (std::size_t i = 0; i < x.rows; ++i)
    for (std::size_t k = 0; k < x.cols; k += part) {
      const std::size_t count = x.cols - k < part ? x.cols - k : part;
      const float* p = staged;
      if (x.kind == dtype::f32 && x.col_stride == 1 && count % lanes == 0) {
        p = static_cast<const float*>(x.data) + x.offset(i, k);
      } else {
        read_row(x, i, k, count, staged);
        for (std::size_t j = count; j % lanes != 0; ++j) staged[j] = 0.0f;
      }
      u32 amax{};
      for (std::size_t j = 0; j < count; j += lanes) amax = maximum(amax, as_bits(magnitude(load(p + j))));
      largest = maximum(largest, finite_amax(p, up(count, lanes) / lanes, amax));
    }
  return largest_lane(largest);
}

/// The amax of whole panels of contiguous elements, transformed in runs of 16; not the bits of a finite number if an
/// element is not finite. The last stage gives a + b and a - b, of which the larger magnitude is |a| + |b|. The factor
/// is applied to the largest.
template <dtype kind>
std::uint32_t amax_of_sixteens(const tile_transform& h, lane_runs<kind> from, std::size_t panels) {
  u32 amax{};
  for (; panels != 0; --panels, from.next_panel()) {
    if (h.ahead == read_ahead::first_level) prefetch_ahead(h.ahead, from.x, lanes * 16 * (kind == dtype::f32 ? 4 : 2));
    f32 v[16], low[8], high[8];
    from.read(0, v);
#pragma GCC unroll 8
    for (std::size_t j = 0; j < 8; ++j) {
      low[j] = as_float(as_bits(v[j]) ^ h.flip[j]);
      high[j] = as_float(as_bits(v[j + 8]) ^ h.flip[j + 8]);
    }
    butterflies(low);
    butterflies(high);
#pragma GCC unroll 8
    for (std::size_t j = 0; j < 8; ++j) amax = maximum(amax, as_bits(magnitude(low[j]) + magnitude(high[j])));
  }
  const std::uint32_t largest = largest_lane(amax);
  return largest < infinity_bits ? to_bits(ufp4::detail::to_float(largest) * h.factor) : largest;
}
/// Whole panels of a row, from column k on.
template <features needs>
std::uint32_t amax_of_panels(const source& x, const tile_transform& h, std::size_t row, std::size_t k,
                             std::size_t panels) {
  if (x.kind == dtype::f32)
    return amax_of_sixteens<dtype::f32>(h, {static_cast<const float*>(x.data) + x.offset(row, k), 16}, panels);
  if constexpr (has(needs, features::half_input)) {
    const std::uint16_t* first = static_cast<const std::uint16_t*>(x.data) + x.offset(row, k);
    if (x.kind == dtype::bf16) return amax_of_sixteens<dtype::bf16>(h, {first, 16}, panels);
    if constexpr (loads_fp16) return amax_of_sixteens<dtype::fp16>(h, {first, 16}, panels);
  }
  return infinity_bits;
}

/// amax of rows first .. last - 1 after a transform, a tile at a time.
template <features needs>
std::uint32_t amax_transformed(source x, const transform_spec& t, std::size_t first, std::size_t last) {
  tile_transform h = transform_of<needs>(t);
  h.ahead = read_ahead_of(x);
  const bool columns = reads_columns(x);
  const std::size_t run = h.n;  // blocks do not matter
  if (x.col_stride == 1 && x.cols % run == 0 && x.row_stride == static_cast<std::ptrdiff_t>(x.cols)) {
    x.data = static_cast<const char*>(x.data) + x.offset(first, 0) * (x.kind == dtype::f32 ? 4 : 2);
    x.cols *= last - first;  // one long row
    first = 0, last = 1;
  }
  const std::size_t width = up(x.cols, run);
  const std::size_t tile_rows = columns ? lanes : 1, tile_cols = columns ? run : lanes * run;
  const std::size_t whole = run == 16 && h.in_registers() && x.col_stride == 1 ? x.cols / tile_cols : 0;  // tiles
  u32 largest{};
  tile one;
  for (std::size_t row = first; row < last; row += tile_rows) {
    const std::uint32_t of_panels = whole != 0 ? amax_of_panels<needs>(x, h, row, 0, whole) : 0;
    const bool finite = of_panels < infinity_bits;  // else again, by elements
    if (finite) largest = maximum(largest, broadcast(of_panels));
    for (std::size_t k = finite ? whole * tile_cols : 0; k < width; k += tile_cols) {
      const std::size_t rows = last - row, runs = (width - k) / run, count = columns ? rows : runs;
      (columns ? read_columns : read_runs)(x, h, row, k, run, count < lanes ? count : lanes, one, 0);
      largest = maximum(largest, finite_amax(one.x, run, block_amax(one, 0, run)));
    }
  }
  return largest_lane(largest);
}

/// Does what amax_strips does.
template <features needs>
std::uint32_t amax_lanes(const quantize_job& whole, std::size_t first, std::size_t last) {
  if (whole.rounds_input_to_bf16) return amax_strips(whole, first, last);
  const auto height = static_cast<std::size_t>(whole.format.block.rows);
  first *= height;
  last = last * height < whole.x.rows ? last * height : whole.x.rows;
  if (whole.padded_cols == 0 || first >= last) return 0;
  if constexpr (has(needs, features::transform))
    if (whole.transform.n != 1)
      return amax_transformed<(needs & (features::transform | features::half_input))>(whole.x, whole.transform, first,
                                                                                      last);
  return amax_untransformed(whole.x, first, last);
}
UFP4_END_LANES
#endif
