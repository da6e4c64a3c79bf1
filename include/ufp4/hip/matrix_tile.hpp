// ufp4 - a tile of C on the matrix cores of AMD GPUs: what gemm_bf16.hpp, gemm_blocks.hpp and gemm_iu4.hpp share.
// SPDX-License-Identifier: Apache-2.0
//
// A thread block of 256 threads makes 128 x 128 of C and walks along K by 32, or 64 x 64 and walks by 64: either way a
// thread brings 32 codes of one row, 16 bytes, and their two scales. Three things happen in a step, of three steps:
//
// | loaded     | codes and scales of the step after the next, to registers: a whole step hides the way from memory |
// | decoded    | what was loaded a step ago, once a thread block, to one of two buffers of 16-bit elements         |
// | multiplied | from the other buffer: a wave of 64 makes 64 x 64 (of the small tile 32 x 32),                    |
// |            | one of 32 half of that                                                                            |
//
// so that one barrier a step is enough. Decoding where it is multiplied, in registers, would be done over by every wave
// of a row of waves, and twice in a wave on gfx11.
//
// Rows of the buffers are 64 or 128 bytes; their 16-byte pieces are exclusive-ored with the row so that eight lanes
// that follow one another meet in no bank, neither storing nor reading. A slab is 32 columns of K, four pieces. How a
// lane's columns of it are taken by instructions is the family's:
//
// | lanes in groups | pieces that a lane reads | and their registers, for an instruction of 2 words and of 4 or more |
// |-----------------|--------------------------|----------------------------------------------------------------------|
// | 4 (MFMA)        | one, its group's         | first half and second half; all                                      |
// | 2 (gfx12)       | two, its group's         | one piece, then the other                                            |
// | 1 (gfx11)       | four                     | two pieces, then the others                                          |
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/kernels/product_group.hpp>
#include <ufp4/gpu/thread/decode.hpp>
#include <ufp4/gpu/thread/elements.hpp>
#include <ufp4/gpu/thread/epilogue.hpp>
#include <ufp4/hip/byte_tables.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned matrix_threads = 256;

template <class Operation, unsigned rows_>
struct matrix_tile {
  using Op = Operation;
  static constexpr unsigned rows = rows_, cols = rows_, lines = rows + cols;  ///< lines: rows of both operands
  static constexpr unsigned chunk_k = 32, chunks = matrix_threads / lines, depth = chunk_k * chunks;
  static constexpr unsigned pieces = depth / 8, row_bytes = 2 * depth;
  static constexpr unsigned waves = matrix_threads / Op::wave, waves_across = 2, waves_down = waves / waves_across;
  static constexpr unsigned down = rows / waves_down / 16, across = cols / waves_across / 16;  ///< of one wave
  static constexpr unsigned operand_bytes = lines * row_bytes, scale_bytes = lines * (depth / 16) * sizeof(float);
  static constexpr std::size_t shared_bytes = 2 * (operand_bytes + scale_bytes);  ///< the same for either tile
  static constexpr unsigned sums_stride = 16 * across;                            ///< floats
  static_assert(chunks * lines == matrix_threads && down * waves_down * 16 == rows);
  static_assert(waves * 16 * sums_stride * sizeof(float) <= 2 * operand_bytes);
};

/// 32 codes of one row on their way to shared memory.
struct matrix_cargo {
  thread::words4 codes;
  std::uint32_t scale[2];  ///< bits; of the first 16 columns and of the others
};

/// A value that all lanes of a wave have, for the compiler to know that they do.
UFP4_DEVICE unsigned same_in_wave(unsigned x) {
#if defined(__AMDGCN__)
  return static_cast<unsigned>(__builtin_amdgcn_readfirstlane(static_cast<int>(x)));
#else
  return x;
#endif
}

/// What one thread knows of the tile it works on.
template <class Tile>
struct matrix_place {
  using Op = typename Tile::Op;
  unsigned padded, block_shift;
  unsigned first_row, first_col;  ///< of C
  bool is_left;                   ///< the operand of the row that this thread brings
  bool live;                      ///< does that row exist?
  scale_kind kind;
  const std::uint8_t* codes;  ///< where the row begins
  const void* scales;
  std::size_t first_scale;
  unsigned line, half;  ///< of the tile; of the row's chunks
  unsigned wave = same_in_wave(thread_index().x / Op::wave);
  unsigned char* memory = shared_memory();

  UFP4_DEVICE matrix_place(const product_group& group, const grouped_product& product, unsigned shift, unsigned row,
                           unsigned col)
      : padded(product.padded), block_shift(shift), first_row(row), first_col(col) {
    line = thread_index().x / Tile::chunks, half = thread_index().x % Tile::chunks;
    is_left = same_in_wave(line < Tile::rows) != 0;  // rows of a side are whole waves
    const unsigned at = is_left ? row + line : col + line - Tile::rows;
    live = at < (is_left ? product.rows[0] : product.rows[1]);
    kind = is_left ? group.scale[0] : group.scale[1];
    codes = (is_left ? product.codes[0] : product.codes[1]) + std::size_t{live ? at : 0} * padded / 2;
    scales = is_left ? product.scales[0] : product.scales[1];
    first_scale = std::size_t{at / (is_left ? group.block_rows[0] : group.block_rows[1])} * (padded >> shift);
  }

  UFP4_DEVICE unsigned steps() const { return (padded + Tile::depth - 1) / Tile::depth; }
  UFP4_DEVICE unsigned first_k(unsigned step) const { return step * Tile::depth + half * Tile::chunk_k; }
  UFP4_DEVICE bool inside(unsigned k) const { return live && k < padded; }

  UFP4_DEVICE unsigned char* operands(unsigned step) const { return memory + step % 2 * Tile::operand_bytes; }
  UFP4_DEVICE float* scale_floats(unsigned step) const {
    return reinterpret_cast<float*>(memory + 2 * Tile::operand_bytes + step % 2 * Tile::scale_bytes);
  }
  /// Rows hold whole blocks, of 16 at least: half a chunk is there or not. These GPUs load from any byte.
  UFP4_DEVICE matrix_cargo load(unsigned step) const {
    matrix_cargo c{{{0, 0, 0, 0}}, {0, 0}};
    const unsigned k = first_k(step);
    if (inside(k + 16))
      __builtin_memcpy(&c.codes, codes + k / 2, 16);
    else if (inside(k))
      __builtin_memcpy(&c.codes, codes + k / 2, 8);
    UFP4_UNROLL
    for (unsigned i = 0; i < 2; ++i)
      if (inside(k + 16 * i))
        c.scale[i] = thread::load_scale(scales, kind, first_scale + ((k + 16 * i) >> block_shift));
    return c;
  }
  /// 0 beyond the operand, where code 0 need not mean 0.
  UFP4_DEVICE float scale_of(const matrix_cargo& c, unsigned step, unsigned i) const {
    return inside(first_k(step) + 16 * i) ? thread::scale_value(kind, c.scale[i]) : 0.0f;
  }

  UFP4_DEVICE static unsigned piece_offset(unsigned line_, unsigned piece) {
    const unsigned mask = Tile::pieces == 8 ? line_ % 8 : line_ / 2 % 4;
    return line_ * Tile::row_bytes + 16 * (piece ^ mask);
  }
  /// Eight decoded elements of this thread's row.
  UFP4_DEVICE void put(unsigned step, unsigned piece, const thread::words4& elements) const {
    *reinterpret_cast<thread::words4*>(operands(step) + piece_offset(line, 4 * half + piece)) = elements;
  }

  // ---- Fragments ----

  UFP4_DEVICE unsigned wave_row() const { return wave / Tile::waves_across * Tile::down * 16; }
  UFP4_DEVICE unsigned wave_col() const { return wave % Tile::waves_across * Tile::across * 16; }

  static constexpr unsigned units = Op::groups == 4 ? 1 : 2;       ///< of a slab, read at once
  static constexpr unsigned unit_words = 16 / Op::groups / units;  ///< of a lane: a slab's row is 16
  static constexpr unsigned unit_pieces = unit_words / 4;

  /// Registers of a unit, by instruction.
  template <unsigned words>
  using unit = std::uint32_t[unit_words / words][words];

  /// Those of a lane's row of `count` 16-row pieces of an operand that begin at line `first`.
  template <unsigned words, unsigned count>
  UFP4_DEVICE void read(unsigned step, unsigned first, unsigned slab, unsigned u, unit<words> (&to)[count]) const {
    const unsigned piece = 4 * slab + 4 / units * u + lane() / 16 % Op::groups * unit_pieces;
    UFP4_UNROLL
    for (unsigned i = 0; i < count; ++i) {
      UFP4_UNROLL
      for (unsigned p = 0; p < unit_pieces; ++p) {
        const auto four = *reinterpret_cast<const thread::words4*>(
            operands(step) + piece_offset(first + 16 * i + lane() % 16, piece + p));
        UFP4_UNROLL
        for (unsigned w = 0; w < 4; ++w) to[i][(4 * p + w) / words][(4 * p + w) % words] = four.word[w];
      }
    }
  }

  // ---- The way to C ----

  /// Through shared memory, sixteen rows of a wave at a time, so that neighbouring lanes store neighbouring elements of
  /// C. If not `usable`, the sums are ignored. Elements without a finite sum are computed again, in a loop at the end
  /// so that the unrolled code does not contain that computation.
  UFP4_DEVICE void store(const product_group& group, const grouped_product& product,
                         const float (&acc)[Tile::down][Tile::across][Op::sums], bool usable = true) const {
    constexpr unsigned piece = 16 * 16 * Tile::across, passes = piece / Op::wave;  ///< of sums; of a lane
    static_assert(Tile::down * passes <= 64);
    const thread::epilogue to = epilogue_of(group, product);
    const thread::result_scales by = thread::scales_of(to);
    auto* mine = reinterpret_cast<float*>(memory) + wave * 16 * Tile::sums_stride;
    std::uint64_t again = 0;
    UFP4_UNROLL
    for (unsigned m = 0; m < Tile::down; ++m) {
      sync_wave();
      UFP4_UNROLL
      for (unsigned n = 0; n < Tile::across; ++n) {
        UFP4_UNROLL
        for (unsigned i = 0; i < Op::sums; ++i)
          mine[Op::row_of_sum(lane(), i) * Tile::sums_stride + 16 * n + lane() % 16] = acc[m][n][i];
      }
      sync_wave();
      for (unsigned pass = 0; pass < passes; ++pass) {
        const thread::element_place p = place_of_sum(m, pass);
        if (p.row >= to.out.rows || p.col >= to.out.cols) continue;
        const float sum = mine[in_piece(pass) / sums_across * Tile::sums_stride + in_piece(pass) % sums_across];
        if (usable && ufp4::detail::is_finite(sum))
          thread::store_scaled(to, p.row, p.col, thread::scaled_result(to, by, sum));
        else
          again |= std::uint64_t{1} << (m * passes + pass);
      }
    }
    for (unsigned n = 0; again != 0; ++n, again >>= 1) {
      const thread::element_place p = place_of_sum(n / passes, n % passes);
      if ((again & 1u) != 0) thread::store_scaled(to, p.row, p.col, recomputed(group, product, by, p.row, p.col));
    }
  }

 private:
  static constexpr unsigned sums_across = 16 * Tile::across;  ///< of a wave
  UFP4_DEVICE static unsigned in_piece(unsigned pass) { return pass * Op::wave + lane(); }
  /// Where C has the sum that this lane stores in a pass of the m-th sixteen rows of its wave.
  UFP4_DEVICE thread::element_place place_of_sum(unsigned m, unsigned pass) const {
    return {first_row + wave_row() + 16 * m + in_piece(pass) / sums_across,
            first_col + wave_col() + in_piece(pass) % sums_across};
  }
};

/// All of K. A worker has decode(step, cargo) and multiply(step).
template <class Worker>
UFP4_DEVICE void walk(Worker& worker) {
  const auto& at = worker.at;
  const unsigned steps = at.steps() == 0 ? 1 : at.steps();  // of zeros, if K is 0
  worker.decode(0, at.load(0));
  matrix_cargo next = at.load(1);
  sync_block();
  unsigned step = 0;
  do {
    worker.decode(step + 1, next);  // to the buffer that was multiplied a barrier ago; zeros in the end
    next = at.load(step + 2);
    worker.multiply(step);
    sync_block();
  } while (++step < steps);
}

/// Has any thread of the block raised its flag? For after the walk: its memory is free.
UFP4_DEVICE bool any_of_block(bool flag) {
  auto* common = reinterpret_cast<std::uint32_t*>(shared_memory());
  if (thread_index().x == 0) *common = 0;
  sync_block();
  if (flag) *common = 1;
  sync_block();
  const bool any = *common != 0;
  sync_block();
  return any;
}

/// Thread blocks that run together make tiles of C that lie together: eight tile rows of a column, then the next
/// column, so that what they read twice is in the cache.
struct tile_place {
  unsigned row, col;
};
template <class Tile>
UFP4_DEVICE tile_place place_of_tile(const grouped_product& product, unsigned tile) {
  const unsigned tiles_down = (product.rows[0] + Tile::rows - 1) / Tile::rows;
  const unsigned tiles_across = (product.rows[1] + Tile::cols - 1) / Tile::cols;
  const unsigned band = 8 * tiles_across, first = tile / band * 8, left = tiles_down - first,
                 down = left < 8 ? left : 8;
  return {(first + tile % band % down) * Tile::rows, tile % band / down * Tile::cols};
}

/// A kernel's body: the thread block's tile of C. A worker is made of (job, product, place) and has, besides what walk
/// asks, store(job, product), which ends its work.
template <class Tile, class Worker, class Job>
UFP4_DEVICE void make_tile(const Job& job) {
  if constexpr (Tile::Op::compiled) {
    const grouped_product& product = job.product[product_of(job, block_index().x)];
    Worker worker(job, product, place_of_tile<Tile>(product, block_index().x - product.first_tile));
    walk(worker);
    worker.store(job, product);
  } else {
    __builtin_trap();  // code for a device that the table does not choose this kernel on
  }
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

/// Has the device the instructions, and the running code, compiled for that device or for a generic target, as well?
template <class Op>
constexpr bool has_instructions(const device_facts& device) {
  return Op::runs_on(device.architecture) && (device.compiled == 0 || Op::runs_on(device.compiled)) &&
         device.wave == static_cast<int>(Op::wave);
}

/// What every kernel of this kind asks.
template <class Op>
bool matrix_cores_take(const gemm_job& job, const device_facts& device) {
  return has_instructions<Op>(device) && device.shared_bytes >= 64 * 1024 && job.block >= 16 && counts_in_32_bits(job);
}

/// Large tiles where they keep every processor busy; `device`: a product's share of it. No bit depends on it.
inline bool wants_large_tiles(std::span<const gemm_job> jobs, const device_facts& device) {
  std::size_t tiles = 0, most_rows = 0;
  for (const gemm_job& job : jobs) {
    tiles += tiles_of(job, 128, 128);
    most_rows = job.left.rows < most_rows ? most_rows : job.left.rows;
  }
  return tiles >= static_cast<std::size_t>(device.processors) * jobs.size() && most_rows > 64;
}

/// `small`: whatever their size.
inline unsigned tile_side(std::span<const gemm_job> jobs, const device_facts& device, bool small) {
  return !small && wants_large_tiles(jobs, device) ? 128 : 64;
}

/// Queues jobs that differ in pointers, shapes and strides alone, as many at once as a launch takes: make_job(job) has
/// what they share, kernel(large, job) is the kernel for it. `small`: in small tiles, whatever their size.
template <class Op, class MakeJob, class ChooseKernel>
error run_matrix_tiles(std::span<const gemm_job> jobs, const device_facts& device, stream where, bool small,
                       MakeJob make_job, ChooseKernel kernel,
                       std::size_t shared_bytes = kernels::matrix_tile<Op, 128>::shared_bytes) {
  const unsigned side = tile_side(jobs, device, small);
  while (!jobs.empty()) {
    auto all = make_job(jobs.front());
    const unsigned tiles = take_products(all, jobs, side, side);
    const error e = launch(kernel(side == 128, all), {tiles}, {kernels::matrix_threads}, shared_bytes, where, all);
    if (e != success) return e;
  }
  return success;
}

/// Of a job alone, where its size and the device's decide.
inline unsigned tile_side_of(const gemm_job& job, const device_facts& device) {
  return tile_side({&job, 1}, device, false);
}

/// A row of the table: a kernel without a workspace that queues jobs by run_many, one as many.
template <auto run_many>
constexpr gemm_kernel matrix_kernel(const char* name, const char* instruction,
                                    bool (*takes)(const gemm_job&, const device_facts&),
                                    unsigned (*side)(const gemm_job&, const device_facts&) = &tile_side_of) {
  return {
      .name = name,
      .instruction = instruction,
      .tile_rows = 128,
      .tile_cols = 128,
      .takes = takes,
      .workspace = [](const gemm_job&, const device_facts&) { return std::size_t{0}; },
      .run = [](const gemm_job& job, const device_facts& device, std::span<std::byte>,
                stream where) { return run_many({&job, 1}, device, where); },
      .tile_side = side,
      .run_group = run_many,
  };
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
