// ufp4 - gemm_bf16_sm80: quantized_gemm, fast and folded_bf16, by mma.sync of element x scale as bf16.
// SPDX-License-Identifier: Apache-2.0
//
// For compute capability 8.0 and above. Which formats each mode takes: folds (gpu/kernels/folding.hpp).
//
// A thread block computes rows x cols of C in steps of 64 columns of K. The pipeline has three stages:
//
// | copy     | codes to shared memory: cp.async, 16 bytes (32 codes of a row) for each thread, three steps ahead. A |
// |          | thread decodes what it has copied itself, without a barrier. Its scales are loaded one step ahead    |
// | decode   | once for each thread block, to one of two buffers of bf16: byte permutes (thread/decode.hpp) and one |
// |          | multiplication for each pair. Decoding in the registers of every warp would repeat it 2 to 4 times   |
// | multiply | ldmatrix from the other buffer, mma m16n8k16 with binary32 sums                                      |
//
// Of the two warps that share a scheduler one decodes first and the other multiplies first, so both pipes are busy; one
// barrier for each step suffices. Rows of the buffers are 128 bytes. The index of a 16-byte part is exclusive-ored
// with the row, so neither the eight rows of an ldmatrix nor the stores have bank conflicts.
//
// K is summed in steps of 16 from first to last, for every tile size: the bits depend only on the operands and the
// device. The bound of `fast`: docs/gpu.md.
//
// If a block of a tile is not zero and its scale moves a product out of bf16's normal range, the whole tile of C is
// computed again from codes and scales in binary64. Blocks of zeros have the smallest scale in mx formats.
#pragma once

#include <ufp4/cuda/memory_sm80.hpp>
#include <ufp4/cuda/mma_sm80.hpp>
#include <ufp4/gpu/kernels/folding.hpp>
#include <ufp4/gpu/thread/epilogue.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

/// One operand for the decoder, made on the host. Threads hold a copy: a kernel parameter whose address is taken, or
/// that is indexed at run time, may be copied to local memory. `grain`: 16, 4 or 1, the alignment of every 32 codes.
struct bf16_side : folding {
  const std::uint8_t* codes = nullptr;
  const void* scales = nullptr;
  std::size_t rows = 0;
  unsigned block_rows = 1;
  std::uint8_t grain = 1;
};
struct bf16_product {
  gemm_job job{};
  bf16_side left{}, right{};
  unsigned block_shift = 4;  ///< log2 of the block length, since a division costs as much as decoding
  tile_grid tiles{};
};

/// The tile of a thread block, and its constants. A step of 64 k is 32 bytes of codes or 128 of bf16 for each row.
template <unsigned Rows, unsigned Cols>
struct bf16_tile {
  static constexpr unsigned threads = 256, depth = 64, stages = 3, rows = Rows, cols = Cols;
  static constexpr unsigned part_k = 32, parts = (rows + cols) * depth / part_k, passes = parts / threads;
  static constexpr unsigned row_bytes = 2 * depth, stage_bytes = parts * 16, buffer_bytes = (rows + cols) * row_bytes;
  static constexpr unsigned warps_down = 2, warps_across = 4;
  static constexpr unsigned m_tiles = rows / warps_down / 16, n_pairs = cols / warps_across / 16;  ///< of one warp
  static constexpr std::size_t shared_bytes = stages * stage_bytes + 2 * buffer_bytes + 16;
  static_assert(passes * threads == parts && m_tiles * warps_down * 16 == rows && n_pairs * warps_across * 16 == cols);
};

/// 32 codes of a row: what a thread copies and decodes at once. In a step it does so `passes` times.
struct bf16_part {
  bf16_side side{};
  bool exists = false;          ///< does the operand have that row?
  std::size_t row_code = 0;     ///< the first byte of the row
  std::size_t row_scale = 0;    ///< its first scale
  unsigned place = 0;           ///< row of the tile's buffer
  unsigned half = 0;            ///< of the step's K
  std::uint32_t scale[2] = {};  ///< bits, of the first 16 k and of the others
};

template <class Tile>
struct bf16_worker {
  const bf16_product& product;
  std::size_t first_row, first_col;
  unsigned warp = thread_index().x / 32;
  unsigned char* memory = shared_memory();
  bf16_part part[Tile::passes] = {};
  float acc[Tile::m_tiles][2 * Tile::n_pairs][4] = {};

  UFP4_DEVICE bf16_worker(const bf16_product& p, std::size_t row, std::size_t col)
      : product(p), first_row(row), first_col(col) {
    UFP4_UNROLL
    for (unsigned pass = 0; pass < Tile::passes; ++pass) {
      const unsigned at = pass * Tile::threads + thread_index().x, place = at / 2;
      // if all threads of a pass have the same side, it is known at compile time
      const bool is_left =
          2 * Tile::rows % Tile::threads == 0 ? pass < 2 * Tile::rows / Tile::threads : place < Tile::rows;
      bf16_part& c = part[pass];
      c.side = is_left ? p.left : p.right;
      const std::size_t of_side = is_left ? row + place : col + place - Tile::rows;
      c.exists = of_side < c.side.rows;
      c.row_code = of_side * p.job.padded() / 2;
      c.row_scale = of_side / c.side.block_rows * (p.job.padded() >> p.block_shift);
      c.place = place;
      c.half = at % 2;
    }
    if (thread_index().x == 0) *unfit() = 0;
  }

  UFP4_DEVICE std::uint32_t* unfit() const {
    return reinterpret_cast<std::uint32_t*>(memory + Tile::stages * Tile::stage_bytes + 2 * Tile::buffer_bytes);
  }
  UFP4_DEVICE unsigned char* decoded(unsigned step) const {
    return memory + Tile::stages * Tile::stage_bytes + step % 2 * Tile::buffer_bytes;
  }
  UFP4_DEVICE unsigned char* staged(unsigned step, unsigned pass) const {
    return memory + step % Tile::stages * Tile::stage_bytes + (pass * Tile::threads + thread_index().x) * 16;
  }
  UFP4_DEVICE static std::size_t first_k(const bf16_part& c, unsigned step) {
    return std::size_t{step} * Tile::depth + c.half * Tile::part_k;
  }
  UFP4_DEVICE bool inside(const bf16_part& c, std::size_t k) const { return c.exists && k < product.job.padded(); }

  UFP4_DEVICE void copy(unsigned step, unsigned steps) const {
    UFP4_UNROLL
    for (unsigned pass = 0; pass < Tile::passes; ++pass) {
      const bf16_part& c = part[pass];
      const std::size_t k = first_k(c, step);
      unsigned char* to = staged(step, pass);
      if (step >= steps) continue;
      const std::uint8_t* from = c.side.codes + (inside(c, k) ? c.row_code + k / 2 : 0);
      // rows hold whole blocks of at least 16, so a word is inside or outside
      const auto valid = [&](unsigned word) { return inside(c, k + 8 * word); };
      if (c.side.grain != 1)
        mma::copy_async16_of(to, from, c.side.grain == 16, valid);
      else
        for (unsigned byte = 0; byte < 16; ++byte) to[byte] = valid(byte / 4) ? from[byte] : std::uint8_t{0};
    }
    mma::commit_copies();
  }

  UFP4_DEVICE void load_scales(unsigned step) {
    UFP4_UNROLL
    for (unsigned pass = 0; pass < Tile::passes; ++pass) {
      bf16_part& c = part[pass];
      UFP4_UNROLL
      for (unsigned i = 0; i < 2; ++i) {
        const std::size_t k = first_k(c, step) + 16 * i;
        c.scale[i] = inside(c, k)
                         ? thread::load_scale(c.side.scales, c.side.scale, c.row_scale + (k >> product.block_shift))
                         : 0u;
      }
    }
  }

  UFP4_DEVICE static thread::words4 fold(const bf16_side& how, std::uint32_t codes, float scale) {
    std::uint32_t pairs[4];
    thread::decode8_halves(how.values, codes, pairs);
    if (how.rounds) {
      UFP4_UNROLL
      for (unsigned i = 0; i < 4; ++i)
        pairs[i] = thread::pair_bf16(rounded(thread::low_bf16(pairs[i]) * scale),
                                     rounded(thread::high_bf16(pairs[i]) * scale));
    } else {
      const std::uint32_t both = thread::pair_bf16(scale, scale);  // exact: the scale has 8 bits at most
      UFP4_UNROLL
      for (unsigned i = 0; i < 4; ++i) pairs[i] = thread::multiply_bf16(pairs[i], both);
    }
    return {{pairs[0], pairs[1], pairs[2], pairs[3]}};
  }
  UFP4_DEVICE static bool all_zero(const bf16_side& how, std::uint32_t codes) {
    std::uint32_t pairs[4];
    thread::decode8_halves(how.values, codes, pairs);
    return ((pairs[0] | pairs[1] | pairs[2] | pairs[3]) & 0x7FFF7FFFu) == 0;
  }

  UFP4_DEVICE void decode(unsigned step) const {
    UFP4_UNROLL
    for (unsigned pass = 0; pass < Tile::passes; ++pass) {
      const bf16_part& c = part[pass];
      const auto codes = *reinterpret_cast<const thread::words4*>(staged(step, pass));
      UFP4_UNROLL
      for (unsigned i = 0; i < 2; ++i) {
        // 0 outside the operand, because code 0 need not mean 0
        const float scale = inside(c, first_k(c, step) + 16 * i) ? thread::scale_value(c.side.scale, c.scale[i]) : 0.0f;
        UFP4_UNROLL
        for (unsigned w = 2 * i; w < 2 * i + 2; ++w) {
          *reinterpret_cast<thread::words4*>(decoded(step) + mma::swizzled_offset(c.place, 4 * c.half + w)) =
              fold(c.side, codes.word[w], scale);
          if (!is_in_range(c.side, scale) && !all_zero(c.side, codes.word[w])) atomic_max(unfit(), 1);
        }
      }
    }
  }

  UFP4_DEVICE void multiply(unsigned step) {
    const unsigned char* buffer = decoded(step);
    const unsigned l = lane(), row = warp / Tile::warps_across * Tile::m_tiles * 16;
    const unsigned col = Tile::rows + warp % Tile::warps_across * Tile::n_pairs * 16;
    UFP4_UNROLL
    for (unsigned k = 0; k < Tile::depth / 16; ++k) {
      std::uint32_t a[Tile::m_tiles][4], b[Tile::n_pairs][4];
      UFP4_UNROLL
      for (unsigned m = 0; m < Tile::m_tiles; ++m)  // rows 0 .. 15 of the first eight k, then of the others
        mma::load_matrix4(a[m], buffer + mma::swizzled_offset(row + 16 * m + l % 16, 2 * k + l / 16));
      UFP4_UNROLL
      for (unsigned n = 0; n < Tile::n_pairs; ++n)  // two column tiles, each its first and last eight k
        mma::load_matrix4(b[n], buffer + mma::swizzled_offset(col + 16 * n + l / 16 * 8 + l % 8, 2 * k + l / 8 % 2));
      UFP4_UNROLL
      for (unsigned m = 0; m < Tile::m_tiles; ++m) UFP4_UNROLL
      for (unsigned n = 0; n < 2 * Tile::n_pairs; ++n) {
        const std::uint32_t column[2] = {b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]};
        mma::mma_bf16(acc[m][n], a[m], column);
      }
    }
  }

  UFP4_DEVICE void run() {
    const auto steps = static_cast<unsigned>((product.job.padded() + Tile::depth - 1) / Tile::depth);
    constexpr int ahead = Tile::stages;  // a stage is free when its step is decoded, one step before it is multiplied
    if (steps == 0) return;
    for (unsigned step = 0; step < ahead; ++step) copy(step, steps);
    load_scales(0);
    sync_block();  // the flag is cleared before a thread sets it
    mma::wait_copies<ahead - 1>();
    decode(0);
    const bool decodes_first = warp >= Tile::threads / 64;  // warps w and w + 4 share a scheduler
    for (unsigned step = 0; step < steps; ++step) {
      load_scales(step + 1);
      copy(step + ahead, steps);
      sync_block();  // this step's buffer is decoded, and the other buffer has been read
      if (!decodes_first) multiply(step);
      mma::wait_copies<ahead - 1>();
      if (step + 1 < steps) decode(step + 1);
      if (decodes_first) multiply(step);
    }
  }

  /// Through shared memory, so that a warp stores consecutive elements. The stride puts eight rows in different banks.
  UFP4_DEVICE void store() const {
    constexpr unsigned stride = Tile::cols + 8;
    static_assert(Tile::rows * stride * sizeof(float) <= Tile::shared_bytes - 16);
    auto* sums = reinterpret_cast<float*>(memory);
    const unsigned row = warp / Tile::warps_across * Tile::m_tiles * 16;
    const unsigned col = warp % Tile::warps_across * Tile::n_pairs * 16;
    sync_block();  // no thread reads operands any more, and the flag has its final value
    mma::store_tiles(acc, sums + row * stride + col, stride);
    const bool usable = *unfit() == 0;
    sync_block();
    thread::store_tile<Tile::rows, Tile::cols, Tile::threads>(product.job, first_row, first_col, sums, stride, usable);
  }
};

template <unsigned Rows, unsigned Cols>
UFP4_KERNEL(256)
gemm_bf16(UFP4_PARAMETER bf16_product product) {
  const tile_index at = tile_of_strips(product.tiles, block_index().x);
  bf16_worker<bf16_tile<Rows, Cols>> worker(product, std::size_t{at.down} * Rows, std::size_t{at.across} * Cols);
  worker.run();
  worker.store();
}

inline bf16_side bf16_side_of(const gemm_side& side) {
  const int grain = is_aligned(side.codes, 16) && side.padded_cols % 32 == 0 ? 16 : is_aligned(side.codes, 4) ? 4 : 1;
  return {folding_of(side), side.codes, side.scales, side.rows, side.block_rows, static_cast<std::uint8_t>(grain)};
}

inline bool gemm_bf16_takes(const gemm_job& job, const device_facts& facts) {
  return facts.has(80) && facts.wave == 32 && job.block >= 16 &&
         facts.shared_bytes >= bf16_tile<128, 128>::shared_bytes && folds(job.left, job.mode) &&
         folds(job.right, job.mode);
}

/// Tiles of 128 x 128 if they keep every multiprocessor busy, else of 64 x 64. The bits are the same.
template <class Product>
error run_gemm_bf16(const gemm_job& job, const device_facts& facts, std::span<std::byte>, stream where) {
  const bf16_product product{job, bf16_side_of(job.left), bf16_side_of(job.right), log2_of(job.block), {}};
  const auto queue = [&]<unsigned side>(std::integral_constant<unsigned, side>) {
    using tile = bf16_tile<side, side>;
    if constexpr (Product::may(&may_fold))
      return launch_tiled(listed<&gemm_bf16<side, side>>, product, job.out, side, side, tile::threads,
                          tile::shared_bytes, where);
    return not_supported;
  };
  const std::size_t large = ((job.out.rows + 127) / 128) * ((job.out.cols + 127) / 128);
  if (large >= static_cast<std::size_t>(facts.processors) && job.out.rows > 64)
    return queue(std::integral_constant<unsigned, 128>{});
  return queue(std::integral_constant<unsigned, 64>{});
}

template <class Product = any_product>
inline constexpr gemm_kernel gemm_bf16_sm80 = {"gemm_bf16_sm80", "mma.sync.m16n8k16.bf16", 128, 128,
                                               &gemm_bf16_takes, &run_gemm_bf16<Product>};

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
