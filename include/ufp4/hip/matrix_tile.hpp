// ufp4 - a tile of C on the matrix cores of AMD GPUs: shared by gemm_bf16.hpp, gemm_blocks.hpp and gemm_iu4.hpp.
// SPDX-License-Identifier: Apache-2.0
//
// A block of 256 threads computes 128 x 128 of C in steps of 32 columns of K, or 64 x 64 in steps of 64: a thread loads
// 32 codes of one row, 16 bytes, and two scales in a step. A step works on three consecutive parts of K at once:
//
// | loaded     | codes and scales of the step after the next, to registers: a whole step hides the memory latency |
// | decoded    | the codes of the previous step, once per block, to one of two shared buffers of 16-bit elements  |
// | multiplied | the other buffer: a wave of 64 computes 64 x 64 (small tile: 32 x 32), a wave of 32 half of that |
//
// so that one barrier a step is enough. Decoding in registers, directly before the multiplication, would be repeated by
// every wave of a row of waves, and twice within a wave on gfx11.
//
// Rows of the buffers are 64 or 128 bytes. The position of a 16-byte part in its row is exclusive-ored with the row
// number, so that eight consecutive lanes have no bank conflict, neither storing nor loading. A slab is 32 columns of
// K, four parts. The instruction family determines which columns of a slab a lane reads:
//
// | groups of lanes | parts that a lane reads | their registers, for an instruction of 2 words and of 4 or more |
// |-----------------|--------------------------|-----------------------------------------------------------------|
// | 4 (MFMA)        | one, that of its group   | first half, then second half; all                               |
// | 2 (gfx12)       | two, those of its group  | one part, then the other                                       |
// | 1 (gfx11)       | four                     | two parts, then the others                                     |
#pragma once

#include <ufp4/gpu/kernels/product_group.hpp>
#include <ufp4/hip/byte_tables.hpp>
#include <ufp4/hip/matrix_core.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned matrix_threads = 256;

template <class Operation, unsigned rows_>
struct matrix_tile {
  using Op = Operation;
  static constexpr unsigned rows = rows_, cols = rows_, lines = rows + cols;  ///< lines: rows of both operands
  static constexpr unsigned panel_k = 32, panels = matrix_threads / lines, depth = panel_k * panels;
  static constexpr unsigned parts = depth / 8, row_bytes = 2 * depth;
  static constexpr unsigned waves = matrix_threads / Op::wave, waves_across = 2, waves_down = waves / waves_across;
  static constexpr unsigned down = rows / waves_down / 16, across = cols / waves_across / 16;  ///< of one wave
  static constexpr unsigned operand_bytes = lines * row_bytes, scale_bytes = lines * (depth / 16) * sizeof(float);
  static constexpr std::size_t shared_bytes = 2 * (operand_bytes + scale_bytes);  ///< the same for either tile
  static_assert(panels * lines == matrix_threads && down * waves_down * 16 == rows);
  static_assert(waves * 16 * 16 * across * sizeof(float) <= 2 * operand_bytes);
};

struct matrix_cargo {
  thread::words4 codes;
  std::uint32_t scale[2];  ///< bits; of the first 16 columns and of the others
};

/// Tells the compiler that all lanes of a wave have the same value x.
UFP4_DEVICE unsigned same_in_wave(unsigned x) {
#if defined(__AMDGCN__)
  return static_cast<unsigned>(__builtin_amdgcn_readfirstlane(static_cast<int>(x)));
#else
  return x;
#endif
}

struct tile_place {
  unsigned row, col;
};
template <class Tile>
UFP4_DEVICE tile_place place_of_tile(const grouped_product& product, unsigned tile) {
  const tile_grid tiles{(product.rows[0] + Tile::rows - 1) / Tile::rows,
                        (product.rows[1] + Tile::cols - 1) / Tile::cols};
  const tile_index at = tile_of_strips(tiles, tile);
  return {at.down * Tile::rows, at.across * Tile::cols};
}

/// One thread's part of a tile of C: its row of an operand, the buffers, the fragments of its wave, and the stores.
template <class Tile>
struct matrix_place {
  using Op = typename Tile::Op;
  unsigned padded, block_shift;
  unsigned first_row, first_col;  ///< of C
  bool is_left;                   ///< whether the row that this thread loads is of the left operand
  bool live;                      ///< whether that row exists
  scale_kind kind;
  const std::uint8_t* codes;  ///< the beginning of the row
  const void* scales;
  std::size_t first_scale;
  unsigned line, half;  ///< of the tile; of the row's panels
  unsigned wave = same_in_wave(thread_index().x / Op::wave);
  unsigned char* memory = shared_memory();

  UFP4_DEVICE matrix_place(const product_group& group, const grouped_product& product, const tile_place& place)
      : padded(product.padded), block_shift(group.block_shift), first_row(place.row), first_col(place.col) {
    line = thread_index().x / Tile::panels, half = thread_index().x % Tile::panels;
    is_left = same_in_wave(line < Tile::rows) != 0;  // rows of a side are whole waves
    const unsigned at = is_left ? first_row + line : first_col + line - Tile::rows;
    live = at < (is_left ? product.rows[0] : product.rows[1]);
    kind = is_left ? group.scale[0] : group.scale[1];
    codes = (is_left ? product.codes[0] : product.codes[1]) + std::size_t{live ? at : 0} * padded / 2;
    scales = is_left ? product.scales[0] : product.scales[1];
    first_scale = std::size_t{at / (is_left ? group.block_rows[0] : group.block_rows[1])} * (padded >> block_shift);
  }

  UFP4_DEVICE unsigned steps() const { return (padded + Tile::depth - 1) / Tile::depth; }
  UFP4_DEVICE unsigned first_k(unsigned step) const { return step * Tile::depth + half * Tile::panel_k; }
  UFP4_DEVICE bool inside(unsigned k) const { return live && k < padded; }

  UFP4_DEVICE unsigned char* operands(unsigned step) const { return memory + step % 2 * Tile::operand_bytes; }
  UFP4_DEVICE float* scale_floats(unsigned step) const {
    return reinterpret_cast<float*>(memory + 2 * Tile::operand_bytes + step % 2 * Tile::scale_bytes);
  }
  /// Rows hold whole blocks of at least 16, so half a panel exists completely or not at all. Loads need no alignment.
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
  /// 0 beyond the operand, because code 0 need not mean 0.
  UFP4_DEVICE float scale_of(const matrix_cargo& c, unsigned step, unsigned i) const {
    if (!inside(first_k(step) + 16 * i)) return 0.0f;
    return kind == scale_kind::e4m3 ? thread::e4m3_value(c.scale[i]) : thread::scale_value(kind, c.scale[i]);
  }

  UFP4_DEVICE void put_scales(unsigned step, const matrix_cargo& c) const {
    UFP4_UNROLL
    for (unsigned i = 0; i < 2; ++i) scale_floats(step)[(2 * half + i) * Tile::lines + line] = scale_of(c, step, i);
  }
  /// The scales of columns 16 * sixteen and on: of the rows of a lane's sums in part m, and of its column in part n.
  UFP4_DEVICE void left_scales(unsigned step, unsigned sixteen, unsigned m, float (&to)[Op::sums]) const {
    const float* scale = scale_floats(step) + sixteen * Tile::lines + wave_row() + 16 * m;
    UFP4_UNROLL
    for (unsigned i = 0; i < Op::sums; ++i) to[i] = scale[Op::row_of_sum(lane(), i)];
  }
  UFP4_DEVICE float right_scale(unsigned step, unsigned sixteen, unsigned n) const {
    return scale_floats(step)[sixteen * Tile::lines + Tile::rows + wave_col() + 16 * n + lane() % 16];
  }

  UFP4_DEVICE static unsigned part_offset(unsigned line_, unsigned part) {
    const unsigned mask = Tile::parts == 8 ? line_ % 8 : line_ / 2 % 4;
    return line_ * Tile::row_bytes + 16 * (part ^ mask);
  }
  UFP4_DEVICE void put(unsigned step, unsigned part, const thread::words4& elements) const {
    *reinterpret_cast<thread::words4*>(operands(step) + part_offset(line, 4 * half + part)) = elements;
  }

  UFP4_DEVICE unsigned wave_row() const { return wave / Tile::waves_across * Tile::down * 16; }
  UFP4_DEVICE unsigned wave_col() const { return wave % Tile::waves_across * Tile::across * 16; }

  static constexpr unsigned units = Op::groups == 4 ? 1 : 2;       ///< parts of a slab that a lane reads at once
  static constexpr unsigned unit_words = 16 / Op::groups / units;  ///< of a lane; a row of a slab has 16
  static constexpr unsigned unit_parts = unit_words / 4;

  template <unsigned words>
  using unit = std::uint32_t[unit_words / words][words];

  /// Reads a lane's registers of `count` consecutive parts of 16 rows of an operand; the first row is line `first`.
  template <unsigned words, unsigned count>
  UFP4_DEVICE void read(unsigned step, unsigned first, unsigned slab, unsigned u, unit<words> (&to)[count]) const {
    const unsigned part = 4 * slab + 4 / units * u + lane() / 16 % Op::groups * unit_parts;
    UFP4_UNROLL
    for (unsigned i = 0; i < count; ++i) {
      UFP4_UNROLL
      for (unsigned p = 0; p < unit_parts; ++p) {
        const auto four = *reinterpret_cast<const thread::words4*>(operands(step) +
                                                                   part_offset(first + 16 * i + lane() % 16, part + p));
        UFP4_UNROLL
        for (unsigned w = 0; w < 4; ++w) to[i][(4 * p + w) / words][(4 * p + w) % words] = four.word[w];
      }
    }
  }
};

/// The sums of every wave, down x across parts of 16 x 16 from `first` on, to C. Through shared memory, sixteen rows
/// of a wave at a time, so that neighbouring lanes store neighbouring elements. If not `usable`, sums are ignored.
template <class Op, unsigned down, unsigned across>
UFP4_DEVICE void store_waves(const product_group& group, const grouped_product& product, unsigned wave,
                             const tile_place& first, const float (&acc)[down][across][Op::sums], bool usable = true) {
  constexpr unsigned columns = 16 * across, passes = 16 * columns / Op::wave;  ///< passes: sums of a lane
  const thread::epilogue to = epilogue_of(group, product);
  float* mine = reinterpret_cast<float*>(shared_memory()) + wave * 16 * columns;
  const auto in_part = [](unsigned n) { return n % passes * Op::wave + lane(); };
  const auto put = [&](unsigned m) {
    sync_wave();
    UFP4_UNROLL
    for (unsigned n = 0; n < across; ++n) {
      UFP4_UNROLL
      for (unsigned i = 0; i < Op::sums; ++i)
        mine[Op::row_of_sum(lane(), i) * columns + 16 * n + lane() % 16] = acc[m][n][i];
    }
    sync_wave();
  };
  thread::store_parts<down, passes>(
      to, put, [&](unsigned n) { return usable ? mine[in_part(n)] : quiet_nan; },
      [&](unsigned n) {
        const unsigned at = in_part(n);
        return thread::element_place{first.row + n / passes * 16 + at / columns, first.col + at % columns};
      },
      [&](std::size_t i, std::size_t j) { return recomputed(group, product, to.by, i, j); });
}

/// The loop over K. A worker has decode(step, cargo) and multiply(step).
template <class Worker>
UFP4_DEVICE void walk(Worker& worker) {
  const auto& at = worker.at;
  const unsigned steps = at.steps() == 0 ? 1 : at.steps();  // one step of zeros if K is 0
  worker.decode(0, at.load(0));
  matrix_cargo next = at.load(1);
  sync_block();
  unsigned step = 0;
  do {
    worker.decode(step + 1, next);  // to the buffer that was read before the last barrier; zeros beyond K
    next = at.load(step + 2);
    worker.multiply(step);
    sync_block();
  } while (++step < steps);
}

/// Whether any thread of the block has set its flag. Uses shared memory, so call it after the loop over K.
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

/// The waves that a SIMD unit of CDNA is to hold. From two on the compiler has at most 256 registers for a wave, and
/// keeps the sums where MFMA can add to them; else it moves all sums between two kinds of registers in every step.
template <class Op>
constexpr unsigned waves_of(unsigned waves) {
  return Op::groups == 4 ? waves : 1;
}
/// Of a kernel: n waves are to fit in a SIMD unit.
#if defined(__HIPCC__)
#define UFP4_WAVES(n) __attribute__((amdgpu_waves_per_eu(n)))
#else
#define UFP4_WAVES(n)
#endif

/// One thread block computes one tile of C. A worker is constructed from (job, product, place of the tile) and has the
/// types tile and job_type, its number of waves, what walk needs, the sums acc, and usable(): whether these are.
template <class Worker>
UFP4_KERNEL(matrix_threads)
UFP4_WAVES(Worker::waves) gemm_matrix(const typename Worker::job_type job) {
  using tile = typename Worker::tile;
  if constexpr (tile::Op::compiled) {
    const grouped_product& product = job.product[product_of(job, block_index().x)];
    Worker worker(job, product, place_of_tile<tile>(product, block_index().x - product.first_tile));
    walk(worker);
    const auto& at = worker.at;
    const tile_place first{at.first_row + at.wave_row(), at.first_col + at.wave_col()};
    store_waves<typename tile::Op>(job, product, at.wave, first, worker.acc, worker.usable());
  } else {
    __builtin_trap();  // never launched: the table does not choose this kernel for this device
  }
}
#undef UFP4_WAVES

/// Whether the device has the instructions, and the loaded code, perhaps for a generic target, too.
template <class Op>
constexpr bool has_instructions(const device_facts& device) {
  return Op::runs_on(device.architecture) && (device.compiled == 0 || Op::runs_on(device.compiled)) &&
         device.wave == static_cast<int>(Op::wave);
}

template <class Op>
bool matrix_cores_take(const gemm_job& job, const device_facts& device) {
  return has_instructions<Op>(device) && device.shared_bytes >= 64 * 1024 && job.block >= 16 && counts_in_32_bits(job);
}

/// Rows and columns of the tiles: 128 if there are enough for every processor, else 64; `small`: 64. The same bits.
inline unsigned tile_side(std::span<const gemm_job> jobs, const device_facts& device, bool small = false) {
  std::size_t tiles = 0, most_rows = 0;
  for (const gemm_job& job : jobs) {
    tiles += tiles_of(job, 128, 128);
    most_rows = job.left.rows < most_rows ? most_rows : job.left.rows;
  }
  const bool large = tiles >= static_cast<std::size_t>(device.processors) * jobs.size() && most_rows > 64;
  return large && !small ? 128 : 64;
}

/// Queues jobs that differ only in pointers, shapes and strides, as many in a launch as fit: make_job(job) returns the
/// parameters they share, kernel(large, job) the listed kernel for tiles of side x side, with 128 large.
template <class MakeJob, class ChooseKernel>
error run_matrix_tiles(std::span<const gemm_job> jobs, unsigned side, std::size_t shared_bytes, stream where,
                       MakeJob make_job, ChooseKernel kernel) {
  while (!jobs.empty()) {
    auto all = make_job(jobs.front());
    const unsigned tiles = take_products(all, jobs, side, side);
    const error e = launch(kernel(side == 128, all), {tiles}, {matrix_threads}, shared_bytes, where, all);
    if (e != success) return e;
  }
  return success;
}

inline tile_shape tile_of(const gemm_job& job, const device_facts& device) {
  const unsigned side = tile_side({&job, 1}, device);
  return {side, side};
}

/// A row of the kernel table; run_many queues any number of jobs.
template <auto run_many, accumulate fast_is = accumulate::fast>
constexpr gemm_kernel matrix_kernel(const char* name, const char* instruction,
                                    bool (*takes)(const gemm_job&, const device_facts&),
                                    tile_shape (*tile)(const gemm_job&, const device_facts&) = &tile_of) {
  return {
      .name = name,
      .instruction = instruction,
      .tile_rows = 128,
      .tile_cols = 128,
      .takes = takes,
      .run = [](const gemm_job& job, const device_facts& device, std::span<std::byte>,
                stream where) { return run_many({&job, 1}, device, where); },
      .fast_is = fast_is,
      .tile_of = tile,
      .run_group = run_many,
  };
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
