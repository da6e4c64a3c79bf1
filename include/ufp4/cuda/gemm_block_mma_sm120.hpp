// ufp4 - fast GEMM by the block-scaled mma.sync of compute capability 12, on codes and scales as stored.
// SPDX-License-Identifier: Apache-2.0
//
// | kernel                   | blocks, scales | elements                          | mma.sync                          |
// |--------------------------|----------------|-----------------------------------|-----------------------------------|
// | gemm_nvfp4_sm120         | 16, e4m3       | E2M1                              | m16n8k64 kind::mxf4nvf4, 4X ue4m3 |
// | gemm_mxfp4_sm120         | 32, e8m0       | E2M1                              | m16n8k64 kind::mxf4, 2X ue8m0     |
// | gemm_mx_containers_sm120 | 32, e8m0       | any pair of grids that E4M3 holds | m16n8k32 kind::mxf8f6f4, 1X ue8m0 |
//
// The bound of `fast` (numerics 6). The instruction multiplies each element by the scale of its block and adds the
// products. PTX specifies products "with specified precision" and sums with "at least single precision", in an
// unspecified order with unspecified rounding. The products are exact. A sum that loses at most 2^-24 of its largest
// term with each term is within the bound. That needs one bit more than truncation to 24 bits keeps, which for operands
// constructed against it (one product a power of two, 48 others just below 2^-23 of it) could exceed the bound by a
// factor of 1.4; 25 bits and more are reported for these units. For the 8-bit units of an earlier architecture fewer
// are documented, so for containers every instruction starts from zero: a block of 32 integers times one number needs
// 13 bits (E2M1 and the uniform grids; 18 with E3M0), and the running sum is one binary32 addition for each block. A
// NaN as a scale makes every product of its block NaN. The sign of an e4m3 scale, which no quantizer sets, is ignored.
//
// Speed: codes and scales are copied to shared memory 16 bytes at a time, `block_mma_stages` - 1 stages ahead and
// without registers. ldmatrix reads shared memory without bank conflicts; each warp computes 64 x 32 of C from 96 rows
// of codes. E2M1 needs no arithmetic besides the multiplication, a container under 1.5 instructions a code.
#pragma once

#include <ufp4/cuda/block_mma_sm120.hpp>
#include <ufp4/cuda/memory_sm80.hpp>
#include <ufp4/cuda/mma_sm80.hpp>
#include <ufp4/gpu/thread/epilogue.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned block_mma_tile = 128;     ///< rows and columns of C that a thread block computes
inline constexpr unsigned block_mma_depth = 128;    ///< elements of K in a stage: 64 bytes of each row
inline constexpr unsigned block_mma_stages = 4;     ///< with e4m3 scales 73,728 of the 101,376 bytes of a block
inline constexpr unsigned block_mma_threads = 256;  ///< 8 warps, 2 x 4, of 64 x 32 of C each

struct block_mma_job {
  gemm_job gemm{};
  thread::container_table left{}, right{};  ///< containers by code
  bool wide_codes = false;                  ///< rows of codes are aligned to 16 bytes; else to 4
  bool wide_scales = false;                 ///< rows of scales are aligned to 4 bytes; else to 1
  /// log2 of the rows that share a scale
  unsigned left_shift = log2_of(gemm.left.block_rows), right_shift = log2_of(gemm.right.block_rows);
  tile_grid tiles{};
};

/// The instruction of each kernel, and its fragments of 64 elements of K from what ldmatrix loads.
///
/// | block, scale   | elements of K that share a scale, and the type of the scale                                    |
/// | holds          | can the kernel multiply elements of this grid?                                                 |
/// | scale_words    | words of scales of each row in a stage                                                         |
/// | scales_of      | the scales of 64 elements, from the row's words; those of the first block in the low bits      |
/// | left, right    | fragments of 16 rows of A, 8 columns of B                                                      |
struct nvfp4_multiplier {
  static constexpr unsigned block = 16, scale_words = 2;
  static constexpr scale_kind scale = scale_kind::e4m3;
  static constexpr const char* instruction = "mma.sync.m16n8k64.kind::mxf4nvf4.block_scale.scale_vec::4X";
  static bool holds(const grid4& grid) { return is_e2m1(grid); }
  using left = std::uint32_t[4];
  using right = std::uint32_t[2];

  UFP4_DEVICE static std::uint32_t scales_of(const std::uint32_t* words, unsigned step) {
    return words[step * 2 * block_mma_tile];
  }
  UFP4_DEVICE static void prepare(left& to, const std::uint32_t (&codes)[4], const thread::container_table&) {
    for (unsigned i = 0; i < 4; ++i) to[i] = codes[i];
  }
  UFP4_DEVICE static void prepare(right& to, std::uint32_t near, std::uint32_t far, const thread::container_table&) {
    to[0] = near, to[1] = far;
  }
  UFP4_DEVICE static void add(float (&sum)[4], const left& a, const right& b, std::uint32_t scales_a,
                              std::uint32_t scales_b) {
    mma::mma_mxf4nvf4(sum, a, b, scales_a, scales_b);
  }
};

struct mxfp4_multiplier : nvfp4_multiplier {
  static constexpr unsigned block = 32, scale_words = 1;
  static constexpr scale_kind scale = scale_kind::e8m0;
  static constexpr const char* instruction = "mma.sync.m16n8k64.kind::mxf4.block_scale.scale_vec::2X";

  UFP4_DEVICE static std::uint32_t scales_of(const std::uint32_t* words, unsigned step) {
    return words[0] >> (16 * step);
  }
  UFP4_DEVICE static void add(float (&sum)[4], const left& a, const right& b, std::uint32_t scales_a,
                              std::uint32_t scales_b) {
    mma::mma_mxf4(sum, a, b, scales_a, scales_b);
  }
};

/// Two instructions of one block each. A lane has elements 8 t to 8 t + 7 of a block where the instruction expects 4 t
/// to 4 t + 3 and 16 + 4 t to 19 + 4 t: the order of the block's elements is another one, the same for A and B.
struct container_multiplier : mxfp4_multiplier {
  static constexpr const char* instruction = "mma.sync.m16n8k32.kind::mxf8f6f4.block_scale.scale_vec::1X";
  static bool holds(const grid4& grid) { return thread::fits_containers(grid); }
  struct left {
    std::uint32_t block[2][4];
  };
  struct right {
    std::uint32_t block[2][2];
  };

  UFP4_DEVICE static void prepare(left& to, const std::uint32_t (&codes)[4], const thread::container_table& table) {
    for (unsigned i = 0; i < 4; ++i) {  // registers 2 b and 2 b + 1: rows g and g + 8 of block b
      const thread::eight_containers eight = thread::containers_of(codes[i], table);
      to.block[i / 2][i % 2] = eight.first;
      to.block[i / 2][i % 2 + 2] = eight.last;
    }
  }
  UFP4_DEVICE static void prepare(right& to, std::uint32_t near, std::uint32_t far,
                                  const thread::container_table& table) {
    const thread::eight_containers blocks[2] = {thread::containers_of(near, table), thread::containers_of(far, table)};
    for (unsigned i = 0; i < 2; ++i) to.block[i][0] = blocks[i].first, to.block[i][1] = blocks[i].last;
  }
  UFP4_DEVICE static void add(float (&sum)[4], const left& a, const right& b, std::uint32_t scales_a,
                              std::uint32_t scales_b) {
    for (unsigned i = 0; i < 2; ++i) {
      float of_block[4] = {0, 0, 0, 0};
      mma::mma_mxf8f6f4(of_block, a.block[i], b.block[i], scales_a >> (8 * i), scales_b >> (8 * i));
      for (unsigned e = 0; e < 4; ++e) sum[e] = sum[e] + of_block[e];
    }
  }
};

/// A stage: 128 rows of codes of A, 128 of B, 64 bytes each, then scales: word w of row r is scales[w * 256 + r].
template <class Multiplier>
inline constexpr unsigned block_mma_stage_bytes =
    2 * block_mma_tile * (block_mma_depth / 2 + 4 * Multiplier::scale_words);

/// The offset of a 16-byte piece of a row. A row has half the width of the 32 banks; exclusive-or with half the row
/// number puts the pieces of 8 consecutive rows, which ldmatrix reads at once, into different banks.
UFP4_DEVICE unsigned block_mma_offset(unsigned row, unsigned piece) {
  return row * (block_mma_depth / 2) + 16 * (piece ^ (row / 2 & 3u));
}

/// Starts the copies of one side's codes for a stage; zeros outside the side. Four consecutive threads copy a row.
UFP4_DEVICE void copy_codes(const gemm_side& side, std::size_t first_row, std::size_t k, bool wide, unsigned char* to) {
  const std::size_t bytes = side.padded_cols / 2, at = k / 2 + 16 * (thread_index().x % 4);
  for (unsigned i = 0; i < block_mma_tile; i += block_mma_threads / 4) {
    const unsigned row = i + thread_index().x / 4;
    const bool inside = first_row + row < side.rows;
    const std::uint8_t* from = inside ? side.codes + (first_row + row) * bytes : side.codes;
    unsigned char* piece = to + block_mma_offset(row, thread_index().x % 4);
    const auto valid = [&](unsigned word) { return inside && at + 4 * word < bytes; };
    mma::copy_async16_of(piece, valid(0) ? from + at : side.codes, wide, valid);
  }
}

/// The same for the scales of both sides. Outside a side the bytes are 0: scales of 0 or 2^-127, times codes of zero.
template <class Multiplier>
UFP4_DEVICE void copy_scales(const block_mma_job& job, std::size_t first_row, std::size_t first_col, std::size_t k,
                             std::uint32_t* to) {
  constexpr unsigned words = Multiplier::scale_words, rows = 2 * block_mma_tile;
  const std::size_t blocks = job.gemm.padded() / Multiplier::block;
  for (unsigned i = thread_index().x; i < rows * words; i += block_mma_threads) {
    const unsigned row = i / words, word = i % words;
    const bool is_left = row < block_mma_tile;
    const gemm_side& side = is_left ? job.gemm.left : job.gemm.right;
    const std::size_t of_side = is_left ? first_row + row : first_col + (row - block_mma_tile);
    const std::size_t at = k / Multiplier::block + 4 * word;
    const bool inside = of_side < side.rows && at < blocks;
    const auto* scales = static_cast<const std::uint8_t*>(side.scales);
    const auto* from =
        inside ? scales + (of_side >> (is_left ? job.left_shift : job.right_shift)) * blocks + at : scales;
    if (job.wide_scales) {
      mma::copy_async4(to + word * rows + row, from, inside);
      continue;
    }
    std::uint32_t some = 0;
    for (unsigned b = 0; b < 4 && inside && at + b < blocks; ++b) some |= std::uint32_t{from[b]} << (8 * b);
    to[word * rows + row] = some;
  }
}

/// The sums of a warp, 64 x 32 of C.
using block_mma_sums = float[4][4][4];

/// Adds 64 elements of K, the half `step` of a stage.
template <class Multiplier>
UFP4_DEVICE void multiply_step(const block_mma_job& job, const unsigned char* stage, unsigned row, unsigned col,
                               unsigned step, block_mma_sums& sums) {
  const unsigned l = lane();
  const auto* scales = reinterpret_cast<const std::uint32_t*>(stage + block_mma_tile * block_mma_depth);
  typename Multiplier::right b[4];
  std::uint32_t scales_b[4];
  for (unsigned n = 0; n < 4; n += 2) {
    // two tiles at once: 8 columns by 16 bytes in each of the four matrices
    const unsigned at = block_mma_tile + col + 8 * n + l / 16 * 8 + l % 8;
    std::uint32_t codes[4];
    mma::load_matrix4(codes, stage + block_mma_offset(at, 2 * step + l / 8 % 2));
    for (unsigned i = 0; i < 2; ++i) {
      Multiplier::prepare(b[n + i], codes[2 * i], codes[2 * i + 1], job.right);
      scales_b[n + i] = Multiplier::scales_of(scales + block_mma_tile + col + 8 * (n + i) + l / 4, step);
    }
  }
  for (unsigned m = 0; m < 4; ++m) {
    std::uint32_t codes[4];
    mma::load_matrix4(codes, stage + block_mma_offset(row + 16 * m + l % 16, 2 * step + l / 16));
    typename Multiplier::left a;
    Multiplier::prepare(a, codes, job.left);
    const std::uint32_t scales_a = Multiplier::scales_of(scales + row + 16 * m + l / 4 + l % 2 * 8, step);
    for (unsigned n = 0; n < 4; ++n) Multiplier::add(sums[m][n], a, b[n], scales_a, scales_b[n]);
  }
}

/// Floats from row to row of the sums in shared memory: 8 more than the tile has, so that the four rows that half a
/// warp writes at once, 8 bytes for each lane, are in different banks.
inline constexpr unsigned block_mma_pitch = block_mma_tile + 8;
static_assert(block_mma_tile * block_mma_pitch * 4 <= block_mma_stages * block_mma_stage_bytes<mxfp4_multiplier>);

/// A thread block computes 128 x 128 of C. Consecutive blocks share columns, so they read the right operand from L2.
template <class Multiplier>
UFP4_KERNEL(block_mma_threads)
block_mma_tiles(UFP4_PARAMETER block_mma_job job) {
  constexpr unsigned stage_bytes = block_mma_stage_bytes<Multiplier>;
  unsigned char* shared = shared_memory();
  const std::size_t first_row = std::size_t{block_index().x % job.tiles.down} * block_mma_tile;
  const std::size_t first_col = std::size_t{block_index().x / job.tiles.down} * block_mma_tile;
  const std::size_t stages = (job.gemm.padded() + block_mma_depth - 1) / block_mma_depth;
  const auto fetch = [&](std::size_t s) {
    if (s < stages) {
      unsigned char* stage = shared + s % block_mma_stages * stage_bytes;
      const std::size_t k = s * block_mma_depth;
      copy_codes(job.gemm.left, first_row, k, job.wide_codes, stage);
      copy_codes(job.gemm.right, first_col, k, job.wide_codes, stage + block_mma_tile * block_mma_depth / 2);
      copy_scales<Multiplier>(job, first_row, first_col, k,
                              reinterpret_cast<std::uint32_t*>(stage + block_mma_tile * block_mma_depth));
    }
    mma::commit_copies();  // also empty groups: the number of incomplete groups tells which stage is complete
  };

  const unsigned warp = thread_index().x / 32, row = warp / 4 * 64, col = warp % 4 * 32;
  block_mma_sums sums = {};
  for (unsigned s = 0; s < block_mma_stages - 1; ++s) fetch(s);
  for (std::size_t s = 0; s < stages; ++s) {
    mma::wait_copies<block_mma_stages - 2>();
    sync_block();  // stage s is visible to all threads, and all have read stage s - 1, whose memory is written next
    fetch(s + block_mma_stages - 1);
    for (unsigned step = 0; step < block_mma_depth / 64; ++step)
      multiply_step<Multiplier>(job, shared + s % block_mma_stages * stage_bytes, row, col, step, sums);
  }
  auto* staged = reinterpret_cast<float*>(shared);
  sync_block();  // every warp has read its last codes
  mma::store_tiles(sums, staged + row * block_mma_pitch + col, block_mma_pitch);
  sync_block();
  thread::store_tile<block_mma_tile, block_mma_tile, block_mma_threads>(job.gemm, first_row, first_col, staged,
                                                                        block_mma_pitch);
}

/// Codes must be aligned to 4 bytes, as those of every allocation and of every row range of whole words are.
template <class Multiplier>
bool block_mma_takes(const gemm_job& job, const device_facts& facts) {
  return facts.has_specific(12) && job.mode == accumulate::fast &&
         has_blocks(job, Multiplier::block, Multiplier::scale, Multiplier::holds) && is_aligned(job.left.codes, 4) &&
         is_aligned(job.right.codes, 4) && facts.shared_bytes >= block_mma_stages * block_mma_stage_bytes<Multiplier>;
}

template <class Multiplier>
error run_block_mma(const gemm_job& gemm, const device_facts&, std::span<std::byte>, stream where) {
  block_mma_job job{.gemm = gemm};
  const std::size_t blocks = gemm.padded() / Multiplier::block;
  job.wide_codes = gemm.padded() % 32 == 0 && is_aligned(gemm.left.codes, 16) && is_aligned(gemm.right.codes, 16);
  job.wide_scales = blocks % 4 == 0 && is_aligned(gemm.left.scales, 4) && is_aligned(gemm.right.scales, 4);
  if constexpr (std::is_same_v<Multiplier, container_multiplier>) {
    job.left = thread::container_table_of(gemm.left.grid);
    job.right = thread::container_table_of(gemm.right.grid);
  }
  return launch_tiled(listed<&block_mma_tiles<Multiplier>>, job, gemm.out, block_mma_tile, block_mma_tile,
                      block_mma_threads, block_mma_stages * block_mma_stage_bytes<Multiplier>, where);
}

template <class Multiplier>
constexpr gemm_kernel block_mma_kernel(const char* name) {
  return {.name = name,
          .instruction = Multiplier::instruction,
          .tile_rows = block_mma_tile,
          .tile_cols = block_mma_tile,
          .takes = &block_mma_takes<Multiplier>,
          .run = &run_block_mma<Multiplier>};
}

inline constexpr gemm_kernel gemm_nvfp4_sm120 = block_mma_kernel<nvfp4_multiplier>("gemm_nvfp4_sm120");
inline constexpr gemm_kernel gemm_mxfp4_sm120 = block_mma_kernel<mxfp4_multiplier>("gemm_mxfp4_sm120");
inline constexpr gemm_kernel gemm_mx_containers_sm120 =
    block_mma_kernel<container_multiplier>("gemm_mx_containers_sm120");

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
