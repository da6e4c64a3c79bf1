// ufp4 - reading a matrix into tiles, transformed, over one instruction set's lanes.
// SPDX-License-Identifier: Apache-2.0
//
// quantize_lanes.hpp explains runs, panels and tiles.
#if !defined(UFP4_TILE_LANES)
#define UFP4_TILE_LANES
#include <ufp4/cpu/detect.hpp>
#include <ufp4/cpu/kernel_tables.hpp>
#include <ufp4/cpu/kernels/hadamard/hadamard_lanes.hpp>
#include <ufp4/cpu/kernels/quantize/rounder_lanes.hpp>

UFP4_BEGIN_LANES(quantize_kernel)

using transform_kernel::load_vector;
using transform_kernel::read_row;

/// The panels of a tile: enough that the processor computes several of their scales at the same time, few enough (2
/// KiB, or one panel) that reading, which waits for memory, and rounding, which does not, alternate often.
constexpr std::size_t panels_of(std::size_t run) { return run < 512 / lanes ? 512 / lanes / run : 1; }

struct tile {
  alignas(64) float x[max_transform * lanes];       ///< transformed: element k of lane l is x[k * lanes + l]
  alignas(64) float staged[max_transform * lanes];  ///< what could not be read in place
  u32 amax[max_transform / 16];                     ///< of every sixteen elements, as bits
};

template <dtype kind>
struct lane_runs;
struct lane_columns;

/// A transform of the runs of a tile.
struct tile_transform {
  /// Reads `count` elements of every lane to element `base` of the tile, sixteen at a time, and transforms them; then
  /// those of the next panel, `panels` in all.
  template <class Source>
  using reader = void(const tile_transform&, Source, std::size_t count, std::size_t panels, tile&, std::size_t base);

  std::size_t n;
  bool rounds_to_bf16;
  read_ahead ahead = read_ahead::none;
  float factor;
  reader<lane_runs<dtype::f32>>* read_f32;
  reader<lane_runs<dtype::bf16>>* read_bf16;
  reader<lane_runs<dtype::fp16>>* read_fp16;
  reader<lane_columns>* read_columns = nullptr;   ///< for n > 1
  alignas(64) std::uint32_t flip[max_transform];  ///< sign bits

  explicit tile_transform(const transform_spec& t)
      : n(t.n), rounds_to_bf16(t.rounds_to_bf16), factor(t.n == 1 ? 1.0f : hadamard_factor(t.n)) {
    for (std::uint32_t j = 0; j < t.n; ++j) flip[j] = t.signs[j / 32] << (31 - j % 32) & sign_mask;
  }
  /// Whether one visit of sixteen elements does all.
  bool in_registers() const { return n == 1 || (n == 16 && !rounds_to_bf16); }
};

/// A memory page ahead into the first-level cache, or two pages into the second; nothing that a core's own cache has.
/// The hardware's own prefetches stop while codes are computed.
inline read_ahead read_ahead_of(const source& x) {
  const bool large = x.rows * x.cols * (x.kind == dtype::f32 ? 4 : 2) > std::size_t{1} << 20;
  if (!large) return read_ahead::none;
  return prefetches_first_level() ? read_ahead::first_level : read_ahead::second_level;
}

/// Prefetches what will be read a memory page or two after `bytes` from p on.
UFP4_LANE void prefetch_ahead(read_ahead how, const void* p, std::size_t bytes) {
  if (how == read_ahead::first_level)
    for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const char*>(p) + 4096 + i, 0, 3);
  else if (how == read_ahead::second_level)
    for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const char*>(p) + 8192 + i, 0, 2);
}

UFP4_LANE u32 amax_of_sixteen(const f32 (&v)[16]) {
  u32 amax[4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) amax[j] = as_bits(magnitude(v[j]));
#pragma GCC unroll 12
  for (int j = 4; j < 16; ++j) amax[j % 4] = maximum(amax[j % 4], as_bits(magnitude(v[j])));
  return maximum(maximum(amax[0], amax[1]), maximum(amax[2], amax[3]));
}

/// The amax of each lane's block b of `length` elements, as bits.
inline u32 block_amax(const tile& t, std::size_t b, std::size_t length) {
  const u32* const sixteen = t.amax + b * length / 16;
  u32 amax = sixteen[0];
  for (std::size_t g = 1; g < length / 16; ++g) amax = maximum(amax, sixteen[g]);
  return amax;
}
/// The amax of the finite ones of `length` vectors, a lane each, from that of all. They are read only where one is not
/// finite.
inline u32 finite_amax(const float* x, std::size_t length, u32 amax) {
  if (lane_bits(reinterpret_cast<u32>(amax >= infinity_bits)) == 0) return amax;
  amax = u32{};
  for (std::size_t k = 0; k < length; ++k) {
    const u32 m = as_bits(magnitude(load(x + k * lanes)));
    amax = maximum(amax, m < infinity_bits ? m : u32{});
  }
  return amax;
}

/// The stages of a longer transform that combine vectors `span` and, for radix 4, `2 * span` apart; then a factor.
template <std::size_t radix>
[[gnu::noinline]] void transform_across(float* x, std::size_t n, std::size_t span, float factor) {
  for (std::size_t first = 0; first < n; first += radix * span)
    for (std::size_t j = first; j < first + span; ++j) {
      f32 v[radix];
#pragma GCC unroll 4
      for (std::size_t r = 0; r < radix; ++r) v[r] = load(x + (j + r * span) * lanes);
      butterflies(v);
#pragma GCC unroll 4
      for (std::size_t r = 0; r < radix; ++r) store(x + (j + r * span) * lanes, v[r] * factor);
    }
}

/// What is left after the stages within sixteen elements: the other stages, the factor, the rounding to bf16, the amax.
[[gnu::noinline]] inline void finish_transform(const tile_transform& h, std::size_t count, tile& t, std::size_t base) {
  float* x = t.x + base * lanes;
  for (std::size_t k = 0; k < count; k += h.n) {
    float* run = x + k * lanes;
    std::size_t span = 16;
    for (; span * 4 <= h.n; span *= 4) transform_across<4>(run, h.n, span, span * 4 == h.n ? h.factor : 1.0f);
    if (span < h.n) transform_across<2>(run, h.n, span, h.factor);
  }
  for (float* p = x; h.rounds_to_bf16 && p < x + count * lanes; p += lanes)
    store(p, as_float(round_bf16(h.n == 16 ? load(p) * h.factor : load(p)) & 0xFFFF0000u));
  for (std::size_t k = 0; k < count; k += 16) {
    u32 amax{};
    for (std::size_t j = k; j < k + 16; ++j) amax = maximum(amax, as_bits(magnitude(load(x + j * lanes))));
    t.amax[(base + k) / 16] = amax;
  }
}

/// Runs of contiguous elements, `step` apart.
template <dtype kind>
struct lane_runs {
  using element = std::conditional_t<kind == dtype::f32, float, std::uint16_t>;
  const element* x;
  std::size_t step;

  /// Sixteen elements of every lane, from number k on.
  UFP4_LANE void read(std::size_t k, f32 (&v)[16]) const {
    const element* p = x + k;
    std::size_t by = step;
    asm("" : "+r"(by) : "r"(p));  // multiples of it that are kept across the loop would be spilled
    if constexpr (kind == dtype::f32) {
      load_transposed(p, by, v);
    } else if constexpr (kind == dtype::fp16) {
      load_transposed_fp16(p, by, v);
    } else {
      u32 pairs[8];  // transposed before they are widened: half as many shuffles
      load_transposed_pairs(p, by, pairs);
#pragma GCC unroll 8
      for (std::size_t j = 0; j < 8; ++j) {
        v[2 * j] = as_float(pairs[j] << 16);
        v[2 * j + 1] = as_float(pairs[j] & 0xFFFF0000u);
      }
    }
  }
  UFP4_LANE void next_panel() { x += lanes * step; }
};

/// Vectors of neighbours of any type, `step` apart.
struct lane_columns {
  const void* data;
  dtype kind;
  std::ptrdiff_t step;

  UFP4_LANE void next_panel() {}  // read panel by panel
  template <dtype one>
  UFP4_LANE void read_as(std::size_t k, f32 (&v)[16]) const {
#pragma GCC unroll 16
    for (std::size_t j = 0; j < 16; ++j) v[j] = load_vector<one>(data, static_cast<std::ptrdiff_t>(k + j) * step);
  }
  UFP4_LANE void read(std::size_t k, f32 (&v)[16]) const {
    if (kind == dtype::f32) return read_as<dtype::f32>(k, v);
    if (kind == dtype::bf16) return read_as<dtype::bf16>(k, v);
    read_as<dtype::fp16>(k, v);
  }
  /// `count` vectors to `to`, and the amax of every sixteen, without a transform.
  template <dtype one>
  void copy_as(std::size_t count, float* to, u32* amax) const {
    std::ptrdiff_t at = 0;
    for (std::size_t k = 0; k < count; k += 16, ++amax) {
      u32 largest{};
#pragma GCC unroll 4
      for (int j = 0; j < 16; ++j, at += step, to += lanes) {
        const f32 v = load_vector<one>(data, at);
        store(to, v);
        largest = maximum(largest, as_bits(magnitude(v)));
      }
      *amax = largest;
    }
  }
  void copy(std::size_t count, float* to, u32* amax) const {
    if (kind == dtype::f32) return copy_as<dtype::f32>(count, to, amax);
    if (kind == dtype::bf16) return copy_as<dtype::bf16>(count, to, amax);
    copy_as<dtype::fp16>(count, to, amax);
  }
};

template <bool transforms, class Source>
void read_sixteens(const tile_transform& h, Source from, std::size_t count, std::size_t panels, tile& t,
                   std::size_t base) {
  const bool complete = h.in_registers();
  for (; panels != 0; --panels, base += count, from.next_panel()) {
    for (std::size_t k = 0; k < count; k += 16) {
      const std::uint32_t* const flip = h.flip + k % h.n;
      f32 v[16];
      from.read(k, v);
      if constexpr (transforms) {
#pragma GCC unroll 16
        for (int j = 0; j < 16; ++j) v[j] = as_float(as_bits(v[j]) ^ flip[j]);
        butterflies(v);
      }
      if (transforms && complete) {
#pragma GCC unroll 16
        for (int j = 0; j < 16; ++j) v[j] = v[j] * h.factor;
      }
      if (!transforms || complete) t.amax[(base + k) / 16] = amax_of_sixteen(v);
      float* const x = t.x + (base + k) * lanes;
#pragma GCC unroll 16
      for (std::size_t j = 0; j < 16; ++j) store(x + j * lanes, v[j]);
    }
    if (transforms && !complete) finish_transform(h, count, t, base);
  }
}

template <features needs, bool transforms>
void set_readers(tile_transform& h) {
  h.read_f32 = &read_sixteens<transforms, lane_runs<dtype::f32>>;
  if constexpr (has(needs, features::half_input)) {
    h.read_bf16 = &read_sixteens<transforms, lane_runs<dtype::bf16>>;
    if constexpr (loads_fp16) h.read_fp16 = &read_sixteens<transforms, lane_runs<dtype::fp16>>;
  }
}
/// The transform of a job.
template <features needs>
tile_transform transform_of(const transform_spec& t) {
  tile_transform h(t);
  set_readers<needs, false>(h);
  if constexpr (has(needs, features::transform))
    if (t.n != 1) {
      set_readers<needs, true>(h);
      h.read_columns = &read_sixteens<true, lane_columns>;
    }
  return h;
}

/// `panels` panels of whole runs of a row of contiguous elements, from column k on.
UFP4_LANE void read_whole_panels(const source& x, const tile_transform& h, std::size_t row, std::size_t k,
                                 std::size_t run, std::size_t panels, tile& t, std::size_t base) {
  if (x.kind == dtype::f32) {
    const float* first = static_cast<const float*>(x.data) + x.offset(row, k);
    // Runs longer than a cache line are read a line of each at a time, an order that hardware does not follow. Of these
    // prefetches into the second level are slower, and in a function of its own, where no other reads are waiting, too.
    const bool prefetches_lines = h.ahead == read_ahead::second_level && run > 16;
    if (!prefetches_lines) prefetch_ahead(h.ahead, first, panels * lanes * run * 4);
    for (std::size_t j = 0; prefetches_lines && j < panels * lanes * run; j += 16)
      __builtin_prefetch(first + 1024 + j, 0, 3);
    return h.read_f32(h, {first, run}, run, panels, t, base);
  }
  const std::uint16_t* first = static_cast<const std::uint16_t*>(x.data) + x.offset(row, k);
  if (h.ahead == read_ahead::first_level || run > 32)
    prefetch_ahead(read_ahead::first_level, first, panels * lanes * run * 2);
  if (x.kind == dtype::bf16) return h.read_bf16(h, {first, run}, run, panels, t, base);
  h.read_fp16(h, {first, run}, run, panels, t, base);
}

/// `runs` runs of a row, from column k on, panel by panel. The other lanes of the last panel and the columns that the
/// matrix does not have are zeros.
[[gnu::noinline]] inline void read_runs(const source& x, const tile_transform& h, std::size_t row, std::size_t k,
                                        std::size_t run, std::size_t runs, tile& t, std::size_t base) {
  const std::size_t live = x.cols > k ? x.cols - k : 0;
  const bool direct = x.col_stride == 1 && (loads_fp16 || x.kind != dtype::fp16);
  std::size_t done = 0;  // runs
  if (direct)
    while (runs - done >= lanes && live >= (done + lanes) * run) done += lanes;
  if (done != 0) read_whole_panels(x, h, row, k, run, done / lanes, t, base);
  for (base += done / lanes * run; done < runs; done += lanes, base += run) {
    const std::size_t first = k + done * run, most = (runs - done < lanes ? runs - done : lanes) * run;
    const std::size_t left = x.cols > first ? x.cols - first : 0, here = left < most ? left : most;
    if (here != 0) read_row(x, row, first, here, t.staged);
    __builtin_memset(t.staged + here, 0, (lanes * run - here) * sizeof(float));
    h.read_f32(h, {t.staged, run}, run, 1, t, base);
  }
}

/// `run` columns of `count` rows from `row` on, of a matrix whose columns are contiguous.
[[gnu::noinline]] inline void read_columns(const source& x, const tile_transform& h, std::size_t row, std::size_t k,
                                           std::size_t run, std::size_t count, tile& t, std::size_t base) {
  const std::size_t left = x.cols > k ? x.cols - k : 0;
  const std::ptrdiff_t bytes = x.kind == dtype::f32 ? 4 : 2;
  lane_columns from{static_cast<const char*>(x.data) + x.offset(row, k) * bytes, x.kind, x.col_stride};
  if (h.ahead == read_ahead::second_level) {  // the next tile of the same columns
    const char* p = static_cast<const char*>(from.data) + static_cast<std::ptrdiff_t>(panels_of(run) * lanes) * bytes;
    for (std::size_t j = 0; j < run; ++j, p += x.col_stride * bytes) __builtin_prefetch(p, 0, 3);
  }
  if (count != lanes || left < run) {
    const source transposed{x.data, x.kind, x.cols, x.rows, x.col_stride, x.row_stride};
    for (std::size_t j = 0; j < run; ++j) {
      store(t.staged + j * lanes, f32{});
      if (j < left) read_row(transposed, k + j, row, count, t.staged + j * lanes);
    }
    from = {t.staged, dtype::f32, static_cast<std::ptrdiff_t>(lanes)};
  }
  if (h.n == 1) return from.copy(run, t.x + base * lanes, t.amax + base / 16);
  h.read_columns(h, from, run, 1, t, base);
}

/// Whether a lane is better a row, read along the columns, than a run of a row.
inline bool reads_columns(const source& x) { return x.row_stride == 1 && x.col_stride != 1 && x.rows > 1; }
UFP4_END_LANES
#endif
