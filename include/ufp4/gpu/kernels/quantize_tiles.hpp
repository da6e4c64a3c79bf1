// ufp4 - quantize_tiles: the transpose of a matrix with contiguous rows, or the matrix and its transpose, in one pass.
// SPDX-License-Identifier: Apache-2.0
//
// A thread block reads a tile once, codes its rows if they are wanted, and through shared memory its columns.
#pragma once

#include <ufp4/gpu/block/transpose.hpp>
#include <ufp4/gpu/kernels/quantize_lanes.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

/// A matrix with contiguous rows as tiles, over which the thread blocks stride.
struct tiled_source {
  thread::row_reader reader{};
  unsigned tiles = 0;        ///< in all
  std::uint32_t across = 1;  ///< tiles in a row of tiles
};

/// `rows` quantizes x, if the kernel does; `cols` quantizes the transpose.
struct tiles_job {
  tiled_source from{};
  lanes_side rows{}, cols{};
};

/// The tile and the place in it of this thread as it reads rows.
template <class Tile>
struct tile_reader {
  grid_place at, step;  ///< of the tile; of the next one
  unsigned row, sixteen;

  /// `squares`: sixteen rows are in sixteen lanes.
  UFP4_DEVICE tile_reader(const tiled_source& from, bool squares)
      : at(thread::split(block_index().x, from.across)), step(thread::split(grid_size().x, from.across)) {
    const unsigned me = thread_index().x;
    row = squares ? me / (16 * Tile::sixteens) * 16 + me % 16 : me / Tile::sixteens;
    sixteen = squares ? me / 16 % Tile::sixteens : me % Tile::sixteens;
  }
  UFP4_DEVICE grid_place here() const { return {at.row * Tile::rows + row, at.sixteen * Tile::sixteens + sixteen}; }
  UFP4_DEVICE void load(const tiled_source& from, float (&v)[thread::run_of_thread]) const {
    const grid_place h = here();
    from.reader.load(h.row, h.sixteen, v);
  }
  UFP4_DEVICE void next(const tiled_source& from) { at = thread::advanced(at, step, from.across); }
};

/// The place in a tile of this thread as it takes columns: consecutive threads take one column.
template <class Tile>
struct tile_taker {
  unsigned col, sixteen;

  UFP4_DEVICE explicit tile_taker(bool squares) {
    const unsigned me = thread_index().x;
    col = squares ? me / (16 * Tile::sixteens_down) * 16 + me % 16 : me / Tile::sixteens_down;
    sixteen = squares ? me / 16 % Tile::sixteens_down : me % Tile::sixteens_down;
  }
  UFP4_DEVICE grid_place here(const grid_place& at) const {
    return {at.sixteen * Tile::cols + col, at.row * Tile::sixteens_down + sixteen};
  }
};

template <lanes_path path, bool both, unsigned tile_rows>
UFP4_KERNEL(lanes_threads)
quantize_tiles(const tiles_job job) {
  using Tile = block::transposed_tile<tile_rows>;
  auto* shared = reinterpret_cast<float*>(shared_memory());
  tile_reader<Tile> in(job.from, both && job.rows.squares);
  const tile_taker<Tile> out(job.cols.squares);
  auto* tables = shared_memory() + Tile::bytes;
  const lanes_constants of_cols = begin<path>(job.cols, out.sixteen, tables);
  const lanes_constants of_rows = both ? begin<path>(job.rows, in.sixteen, tables + table_bytes<path>) : of_cols;
  warp::lane_counts seen_rows{}, seen_cols{};
  for (unsigned tile = block_index().x; tile < job.from.tiles; tile += grid_size().x) {
    float v[thread::run_of_thread];
    in.load(job.from, v);
    sync_block();  // the tables have been written, the previous tile has been taken
    Tile::put_sixteen(shared, in.row, in.sixteen, v);
    if constexpr (both) code_sixteen<path>(job.rows, of_rows, in.here(), v, seen_rows);
    sync_block();
    Tile::take_sixteen(shared, out.col, out.sixteen, v);
    code_sixteen<path>(job.cols, of_cols, out.here(in.at), v, seen_cols);
    in.next(job.from);
  }
  if (both && job.rows.task.report != nullptr) warp::add_report(job.rows.task.report, seen_rows);
  if (job.cols.task.report != nullptr) warp::add_report(job.cols.task.report, seen_cols);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
