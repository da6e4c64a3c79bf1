// ufp4 - amax_rows, amax_tiles: the kernels of the largest finite magnitude of a matrix after its transform.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gpu/kernels/quantize_tiles.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned amax_threads = lanes_threads;

struct amax_side {
  transform_spec transform{};
  std::uint32_t* bits = nullptr;  ///< is raised

  UFP4_HD unsigned lanes_of_run() const { return transform.n <= 16 ? 1 : transform.n / 16; }
};

/// Thread blocks stride over the matrix, so that a wave needs one atomic operation for any size.
struct amax_job {
  thread::row_reader reader{};
  amax_side side{};
  std::uint32_t* also = nullptr;  ///< is raised too, if not null
  unsigned tiles = 0;             ///< of 256 groups of sixteen
  std::uint32_t across = 1;       ///< groups of sixteen in a row, rounded up to whole runs
};

struct amax_tiles_job {
  tiled_source from{};
  amax_side rows{}, cols{};
};

struct running_amax {
  std::uint32_t bits = 0;

  UFP4_DEVICE void add(std::uint32_t m) { bits = m < infinity_bits && m > bits ? m : bits; }
  /// Adds sixteen elements after their transform, whose factor is one product if all of them are finite.
  UFP4_DEVICE void add(const transform_spec& t, const warp::sign_table& signs, unsigned place,
                       float (&v)[thread::run_of_thread]) {
    warp::hadamard_sums(t, signs, place, v);
    const std::uint32_t largest = thread::amax_bits(v);
    if (largest < infinity_bits && !t.rounds_to_bf16) {
      add(t.n == 1 ? largest : to_bits(product(to_float(largest), hadamard_factor(t.n))));
      return;
    }
    if (t.n != 1) warp::scale_and_round(t, v);
    UFP4_UNROLL
    for (unsigned j = 0; j < thread::run_of_thread; ++j) add(magnitude_bits(v[j]));
  }
  UFP4_DEVICE void raise(std::uint32_t* to) const {
    const std::uint32_t amax = warp::amax_bits(bits, wave_size());
    if (lane() == 0 && amax != 0) atomic_max(to, amax);
  }
};

UFP4_LAZY_KERNEL(amax_threads) amax_rows(const amax_job job) {
  const transform_spec& t = job.side.transform;
  grid_place at = thread::split(std::size_t{block_index().x} * amax_threads + thread_index().x, job.across);
  const grid_place step = thread::split(std::size_t{grid_size().x} * amax_threads, job.across);
  const unsigned place = at.sixteen & (job.side.lanes_of_run() - 1);
  const warp::sign_table signs{reinterpret_cast<float*>(shared_memory())};
  signs.write(t);
  sync_block();
  running_amax amax;
  for (unsigned tile = block_index().x; tile < job.tiles; tile += grid_size().x) {
    float v[thread::run_of_thread];
    job.reader.load(at.row, at.sixteen, v);
    amax.add(t, signs, place, v);
    at = thread::advanced(at, step, job.across);
  }
  amax.raise(job.side.bits);
  if (job.also != nullptr) amax.raise(job.also);
}

/// Reads tiles of a matrix with contiguous rows and transforms its columns; with `both`, also its rows.
template <bool both, unsigned tile_rows>
UFP4_KERNEL(amax_threads)
amax_tiles(const amax_tiles_job job) {
  using Tile = block::transposed_tile<tile_rows>;
  auto* shared = reinterpret_cast<float*>(shared_memory());
  tile_reader<Tile> in(job.from, false);
  const tile_taker<Tile> out(false);
  const unsigned row_place = in.sixteen & (job.rows.lanes_of_run() - 1);
  const unsigned col_place = out.sixteen & (job.cols.lanes_of_run() - 1);
  const warp::sign_table of_cols{shared + Tile::bytes / sizeof(float)}, of_rows{of_cols.of + max_transform};
  of_cols.write(job.cols.transform);
  if constexpr (both) of_rows.write(job.rows.transform);
  running_amax rows, cols;
  for (unsigned tile = block_index().x; tile < job.from.tiles; tile += grid_size().x) {
    float v[thread::run_of_thread];
    in.load(job.from, v);
    sync_block();  // the tables have been written, the previous tile has been taken
    Tile::put_sixteen(shared, in.row, in.sixteen, v);
    if constexpr (both) rows.add(job.rows.transform, of_rows, row_place, v);
    sync_block();
    Tile::take_sixteen(shared, out.col, out.sixteen, v);
    cols.add(job.cols.transform, of_cols, col_place, v);
    in.next(job.from);
  }
  if constexpr (both) rows.raise(job.rows.bits);
  cols.raise(job.cols.bits);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
