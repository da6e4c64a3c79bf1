// ufp4 - the loops around the register tiles of GEMM kernels on AVX-512.
// SPDX-License-Identifier: Apache-2.0
//
// streamed_gemm: tiles are up to eight rows by sixteen columns, a column a lane. The left operand is packed for the
// live rows of a tile: a single row takes the cache and the loads of one row only. A kernel has these static members:
//
// | record        | (job, live): bytes of one packed block of `live` rows                                          |
// | pack_row      | (job, row, r, live, out): row r of a tile into the records of all its blocks                   |
// | panel         | panel(job, columns, memory), then read(k, depth): a panel of columns, for a range of K. It has |
// |               | depth_of(rows): its K in a part of so many rows, a multiple of 256; bytes(job, rows) of memory |
// | multiply_tile | (panel, live, first, left, acc): adds products to live x 16 sums; first: the part's first tile |
//
// column_panel: such a panel of codes, which the first tile of rows decodes in registers and keeps. Products has:
//
// | values, most, few_most   | vectors of eight k; K of a panel, with more rows than a tile has and without        |
// | table(job), unit(job)    | of the codes; a constant for the tile                                               |
// | reads_values(job)        | whether read_values writes the values instead                                       |
// | read_scales              | scales_of, for products of scales_of_panel; may note in the table what its codes need  |
#pragma once

#include <ufp4/cpu/detect.hpp>
#include <ufp4/cpu/gemm_blocked.hpp>
#include <ufp4/cpu/kernels/gemm/pack_avx512.hpp>

UFP4_BEGIN_REGION(avx512, UFP4_AVX512)

inline constexpr std::size_t tile_rows = 8;

template <class Kernel>
struct streamed_gemm {
  static constexpr std::size_t tile_rows = avx512::tile_rows, tile_cols = lanes;

  static bool takes(const gemm_job& job) { return Kernel::takes(job); }
  /// Bytes of a tile with `live` rows.
  static std::size_t tile_bytes(const gemm_job& job, std::size_t live) {
    return live == 0 ? 0 : up(job.padded() / job.block * Kernel::record(job, live));
  }
  /// The position of column k of the tile that begins at row i.
  static std::size_t place(const gemm_job& job, std::size_t i, std::size_t live, std::size_t k) {
    return tile_bytes(job, tile_rows) * (i / tile_rows) + k / job.block * Kernel::record(job, live);
  }
  static std::size_t left_bytes(const gemm_job& job, std::size_t count) {
    return tile_bytes(job, tile_rows) * (count / tile_rows) + tile_bytes(job, count % tile_rows);
  }
  static void pack_left(const gemm_job& job, std::size_t row, std::size_t count, std::byte* out) {
    for (std::size_t i = 0; i < count; i += tile_rows) {
      const std::size_t live = count - i < tile_rows ? count - i : tile_rows;
      for (std::size_t r = 0; r < live; ++r) Kernel::pack_row(job, row + i + r, r, live, out + place(job, i, live, 0));
    }
  }

  static std::size_t scratch_bytes(const gemm_job& job, std::size_t count) {
    return up(count * lanes * sizeof(float)) + Kernel::panel::bytes(job, count);
  }
  static void multiply_panel(const gemm_job& job, const gemm_part& part, const std::byte* left, std::byte* scratch) {
    const std::size_t most = Kernel::panel::depth_of(part.rows);
    auto* acc = reinterpret_cast<float*>(scratch);
    for (std::size_t i = 0; i < part.rows * lanes; ++i) acc[i] = 0.0f;
    typename Kernel::panel panel(job, part, scratch + up(part.rows * lanes * sizeof(float)));
    for (std::size_t k = 0; k < job.padded(); k += most) {
      panel.read(k, job.padded() - k < most ? job.padded() - k : most);
      for (std::size_t i = 0; i < part.rows; i += tile_rows) {
        const std::size_t live = part.rows - i < tile_rows ? part.rows - i : tile_rows;
        Kernel::multiply_tile(panel, live, i == 0, left + place(job, i, live, k), acc + i * lanes);
      }
    }
    store_sums<Kernel::panel::needs>(job, part, acc, lanes);
  }
  static void multiply(const gemm_job& job, const gemm_part& part, const std::byte* left, std::byte* scratch) {
    for (std::size_t j = 0; j < part.cols; j += lanes)
      multiply_panel(job, {part.row, part.rows, part.col + j, part.cols - j < lanes ? part.cols - j : lanes}, left,
                     scratch);
  }
};

/// f<rows>() for a tile of 1 to 8 rows.
template <class F>
void with_rows(std::size_t rows, const F& f) {
  switch (rows) {
    case 1: return f.template operator()<1>();
    case 2: return f.template operator()<2>();
    case 3: return f.template operator()<3>();
    case 4: return f.template operator()<4>();
    case 5: return f.template operator()<5>();
    case 6: return f.template operator()<6>();
    case 7: return f.template operator()<7>();
    default: return f.template operator()<8>();
  }
}

/// Formats whose scales are all that is stored for their blocks.
template <features needed = features::all>
struct scales_of_panel {
  static constexpr features needs = needed;
  using decoder = void;  ///< of a tile that decodes: products of codes have one
  template <class Table>
  static void read_scales(const quantized_source& q, std::size_t row, std::size_t live, std::size_t block,
                          std::size_t count, float* out, Table&) {
    scales_of<(needs & (scale_features | features::prepacked))>(q, row, live, block, count, out);
  }
};

/// Sixteen columns, and the range of K that a tile multiplies: the same for all formats whose codes a Decoder decodes.
template <class Decoder, class Table>
struct panel_data {
  using decoder = Decoder;
  Table table;
  f32 unit;
  std::size_t block;
  bool first_level;  ///< prefetches_first_level
  bool decodes;      ///< the first tile of rows decodes; otherwise read() writes the values
  u32* value =
      nullptr;  ///< Products::values for every 8 k, written by the first tile for the others; null for one tile
  code_rows codes{};
  const std::uint8_t* ahead = nullptr;  ///< codes that will be read next, 256 bytes every `ahead_step`: prefetched
  std::size_t ahead_step = 256, blocks = 0;
  float* scale;  ///< sixteen a block
};
template <class Products>
using panel_data_of = panel_data<typename Products::decoder, decltype(Products::table(std::declval<gemm_job>()))>;

/// The same, with what reads it.
template <class Products>
class column_panel : public panel_data_of<Products> {
 public:
  using data = panel_data_of<Products>;
  static constexpr features needs = Products::needs;
  using data::blocks, data::codes, data::ahead, data::ahead_step, data::scale, data::table, data::decodes, data::value;
  static constexpr bool are_many(std::size_t rows) { return rows > tile_rows; }
  static std::size_t depth_of(std::size_t rows) { return are_many(rows) ? Products::most : Products::few_most; }
  /// K of the longest panel of a job, filled up to what codes_of stages.
  static std::size_t longest(const gemm_job& job, std::size_t rows) {
    const std::size_t most = depth_of(rows), all = up(job.padded(), 128);
    return all < most ? all : most;
  }
  static std::size_t bytes(const gemm_job& job, std::size_t rows) {
    const std::size_t depth = longest(job, rows);
    const std::size_t values = are_many(rows) || Products::reads_values(job) ? Products::values : 0;
    return depth / 8 * (values + 1) * sizeof(u32) + staged_code_bytes(depth);
  }

  column_panel(const gemm_job& job, const gemm_part& columns, std::byte* memory)
      : data{.table = Products::table(job),
             .unit = Products::unit(job),
             .block = job.block,
             .first_level = prefetches_first_level(),
             .decodes = !Products::reads_values(job),
             .scale = reinterpret_cast<float*>(memory)},
        job_(job),
        columns_(columns),
        many_(are_many(columns.rows)),
        staged_(reinterpret_cast<std::uint8_t*>(memory) + longest(job, columns_.rows) / 8 * sizeof(u32)) {
    if (many_ || !decodes) value = reinterpret_cast<u32*>(staged_ + staged_code_bytes(longest(job, columns_.rows)));
  }

  void read(std::size_t k, std::size_t length) {
    blocks = length / this->block;
    if constexpr (Products::may_read_values)
      if (!decodes) return Products::read_values(job_, columns_, k, length, value, scale);
    const quantized_source& q = job_.right.q;
    codes = codes_of < Products::needs & features::prepacked > (q, columns_.col, columns_.cols, k, length, staged_);
    Products::read_scales(q, columns_.col, columns_.cols, k / this->block, blocks, scale, table);
    prefetch_scales(q, columns_.col, k / this->block, blocks);
    if (!many_) {  // the next panel, in the order of memory
      ahead = q.codes + q.code_index(columns_.col + lanes, 0) + k * 8;
    } else {  // the next panel, which will still be in the cache when it is multiplied
      const std::size_t next = k + depth_of(columns_.rows);
      const bool last = next >= q.padded_cols;
      ahead = q.codes + q.code_index(last ? columns_.col + lanes : columns_.col, last ? 0 : next);
      ahead_step = q.interleaved ? 256 : q.padded_cols / 2;
    }
  }

 private:
  const gemm_job& job_;
  gemm_part columns_;
  bool many_;
  std::uint8_t* staged_;
};
UFP4_END_REGION
