// ufp4 - fast GEMM by the block-scaled mma.sync of compute capability 12, on codes and scales as stored.
// SPDX-License-Identifier: Apache-2.0
//
// | kernel                   | blocks, scales | elements                          | mma.sync                          |
// |--------------------------|----------------|-----------------------------------|-----------------------------------|
// | gemm_nvfp4_sm120         | 16, e4m3       | E2M1                              | m16n8k64 kind::mxf4nvf4, 4X ue4m3 |
// | gemm_mxfp4_sm120         | 32, e8m0       | E2M1                              | m16n8k64 kind::mxf4, 2X ue8m0     |
// | gemm_mx_containers_sm120 | 32, e8m0       | any pair of grids that E4M3 holds | m16n8k32 kind::mxf8f6f4, 1X ue8m0 |
//
// For containers every instruction starts from zero, and the running sum is one binary32 addition for each block. Why
// the bound of `fast` holds: docs/gpu.md. A NaN as a scale makes every product of its block NaN. The sign of an e4m3
// scale, which no quantizer sets, is ignored.
//
// A thread block computes 128 x 128 of C in steps of 128 columns of K, through a ring of `block_mma_stages` stages in
// shared memory. Roles of warps:
//
// | warps | role                                                                                                   |
// |-------|--------------------------------------------------------------------------------------------------------|
// | 0 - 7 | multiply 64 x 32 of C each, from 96 rows of codes, and store C                                         |
// | 8     | one thread copies the codes by TMA, swizzled; codes that TMA cannot copy, the warp by cp.async         |
// | 9, 10 | each copies the scales of one operand by cp.async                                                      |
//
// Barriers of a stage: "full", where the copy engine counts bytes and each warp that copies arrives; "empty", where
// each warp that multiplies arrives. ldmatrix reads shared memory without bank conflicts. E2M1 needs no arithmetic
// besides the multiplication, a container under 1.5 instructions a code. Predicted rates: docs/gpu.md.
#pragma once

#include <ufp4/cuda/block_mma_sm120.hpp>
#include <ufp4/cuda/mma_sm80.hpp>
#include <ufp4/cuda/tma_sm90.hpp>
#include <ufp4/gpu/kernels/product_group.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned block_mma_tile = 128;     ///< rows and columns of C that a thread block computes
inline constexpr unsigned block_mma_depth = 128;    ///< elements of K in a stage: 64 bytes of each row
inline constexpr unsigned block_mma_stages = 5;     ///< with e4m3 scales 92,160 of the 101,376 bytes of a block
inline constexpr unsigned block_mma_workers = 256;  ///< threads of 8 warps, 2 x 4, of 64 x 32 of C each
inline constexpr unsigned block_mma_threads = block_mma_workers + 96;

struct block_mma_job {
  gemm_job gemm{};
  thread::container_table left{}, right{};  ///< containers by code
  bool by_boxes = false;                    ///< rows of codes are aligned to 16 bytes, and TMA copies them; else to 4
  bool wide_scales = false;                 ///< rows of scales are aligned to 4 bytes; else to 1
  /// log2 of the rows that share a scale
  unsigned left_shift = log2_of(gemm.left.block_rows), right_shift = log2_of(gemm.right.block_rows);
  tile_grid tiles{};
  mma::tensor_map left_codes{}, right_codes{};
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
  static constexpr bool holds(const grid4& grid) { return is_e2m1(grid); }
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
  static constexpr bool holds(const grid4& grid) { return thread::fits_containers(grid); }
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

/// What a thread block uses, from an address aligned to 1024 bytes, which shared_memory() does not guarantee.
template <class Multiplier>
inline constexpr std::size_t block_mma_shared_bytes =
    1024 + block_mma_stages * (block_mma_stage_bytes<Multiplier> + 2 * mma::barrier_bytes);

/// The offset of a 16-byte part of a row: TMA's swizzle of 64 bytes, in memory aligned to 512 bytes, which puts the
/// parts of 8 consecutive rows, which ldmatrix reads at once, into different banks.
UFP4_DEVICE unsigned block_mma_offset(unsigned row, unsigned part) {
  return row * (block_mma_depth / 2) + 16 * (part ^ (row / 2 & 3u));
}

#if defined(UFP4_SIMT_HEADER) || defined(UFP4_HAS_BLOCK_MMA_SM120)

template <class Multiplier>
struct block_mma_worker {
  static constexpr unsigned stage_bytes = block_mma_stage_bytes<Multiplier>, side_bytes = block_mma_tile * 64;
  static constexpr unsigned scale_words = Multiplier::scale_words, lag = 2;
  using place = mma::ring<block_mma_stages>;

  const block_mma_job& job;
  unsigned char* memory;  ///< shared, aligned to 1024 bytes
  std::uint32_t address;  ///< the same in the shared state space
  std::size_t first_row, first_col;
  unsigned stages = static_cast<unsigned>((job.gemm.padded() + block_mma_depth - 1) / block_mma_depth);

  UFP4_DEVICE unsigned char* stage(const place& at) const { return memory + at.stage * stage_bytes; }
  UFP4_DEVICE std::uint32_t* scales(const place& at, unsigned side) const {
    return reinterpret_cast<std::uint32_t*>(stage(at) + 2 * side_bytes) + side * block_mma_tile;
  }
  UFP4_DEVICE std::uint32_t full(const place& at) const {
    return address + block_mma_stages * stage_bytes + at.stage * mma::barrier_bytes;
  }
  UFP4_DEVICE std::uint32_t empty(const place& at) const { return full(at) + block_mma_stages * mma::barrier_bytes; }
  UFP4_DEVICE const gemm_side& side_of(unsigned side) const { return side == 0 ? job.gemm.left : job.gemm.right; }
  UFP4_DEVICE std::size_t first_of(unsigned side) const { return side == 0 ? first_row : first_col; }

  UFP4_DEVICE void start() const {
    if (thread_index().x == 0) {
      for (place at; at.phase == 0; at.advance()) {
        mma::barrier_start(full(at), 3);
        mma::barrier_start(empty(at), block_mma_workers / 32);
      }
      mma::barriers_ready();
    }
    sync_block();
  }

  UFP4_DEVICE void copy_boxes() const {
    place at;
    for (unsigned s = 0; s < stages; ++s, at.advance()) {
      mma::barrier_wait(empty(at), at.phase ^ 1u);
      const std::uint32_t to = address + at.stage * stage_bytes, column = s * (block_mma_depth / 2);
      mma::barrier_expect(full(at), 2 * side_bytes);
      mma::copy_box(to, job.left_codes, column, static_cast<unsigned>(first_row), full(at));
      mma::copy_box(to + side_bytes, job.right_codes, column, static_cast<unsigned>(first_col), full(at));
    }
  }
  /// Called by a warp: copy(s, place) starts the copies of stage s by cp.async, `lag` stages before they are needed.
  template <class Copy>
  UFP4_DEVICE void copy_stages(const Copy& copy) const {
    place at, ready;
    for (unsigned s = 0; s < stages + lag; ++s) {
      if (s < stages) {
        mma::barrier_wait(empty(at), at.phase ^ 1u);
        copy(s, at);
        at.advance();
      }
      mma::commit_copies();  // also empty groups: the number of incomplete groups tells which stage is complete
      if (s < lag) continue;
      mma::wait_copies<lag>();
      arrive(full(ready));
      ready.advance();
    }
  }
  UFP4_DEVICE static void arrive(std::uint32_t barrier) {
    sync_wave();
    if (lane() == 0) mma::barrier_arrive(barrier);
  }
  UFP4_DEVICE void copy_codes(unsigned side, unsigned s, unsigned char* to) const {
    const gemm_side& from = side_of(side);
    const std::size_t bytes = from.padded_cols / 2;
    for (unsigned i = lane(); i < 4 * block_mma_tile; i += 32) {
      const std::size_t row = first_of(side) + i / 4, at = std::size_t{s} * (block_mma_depth / 2) + 16 * (i % 4);
      const auto valid = [&](unsigned word) { return row < from.rows && at + 4 * word < bytes; };
      mma::copy_async16_of(to + block_mma_offset(i / 4, i % 4), valid(0) ? from.codes + row * bytes + at : from.codes,
                           false, valid);
    }
  }
  /// Outside a side the bytes are 0: scales of 0 or 2^-127, times codes of zero.
  UFP4_DEVICE void copy_scale_word(unsigned side, std::size_t row, unsigned s, unsigned word, std::uint32_t* to) const {
    const gemm_side& of = side_of(side);
    const std::size_t blocks = job.gemm.padded() / Multiplier::block,
                      at = std::size_t{s} * (block_mma_depth / Multiplier::block) + 4 * word;
    const bool inside = row < of.rows && at < blocks;
    const auto* all = static_cast<const std::uint8_t*>(of.scales);
    const auto* from = inside ? all + (row >> (side == 0 ? job.left_shift : job.right_shift)) * blocks + at : all;
    if (job.wide_scales) return mma::copy_async4(to, from, inside);
    std::uint32_t some = 0;
    for (unsigned b = 0; b < 4 && inside && at + b < blocks; ++b) some |= std::uint32_t{from[b]} << (8 * b);
    *to = some;
  }
  UFP4_DEVICE void copy_scales(unsigned side) const {
    copy_stages([&](unsigned s, const place& at) {
      UFP4_UNROLL
      for (unsigned i = 0; i < block_mma_tile / 32 * scale_words; ++i) {
        const unsigned row = i / scale_words * 32 + lane(), word = i % scale_words;
        copy_scale_word(side, first_of(side) + row, s, word, scales(at, side) + word * 2 * block_mma_tile + row);
      }
    });
  }
  UFP4_DEVICE void copy(unsigned role) const {
    if (role != 0) {
      copy_scales(role - 1);
    } else if (!job.by_boxes) {
      copy_stages([&](unsigned s, const place& at) {
        for (unsigned side = 0; side < 2; ++side) copy_codes(side, s, stage(at) + side * side_bytes);
      });
    } else if (mma::elected()) {
      copy_boxes();
    }
    sync_wave();
  }

  using sums = float[4][4][4];  ///< of a warp, 64 x 32 of C

  UFP4_DEVICE void multiply_step(const place& at, unsigned row, unsigned col, unsigned step, sums& to) const {
    const unsigned l = lane();
    typename Multiplier::right b[4];
    std::uint32_t scales_b[4];
    UFP4_UNROLL
    for (unsigned n = 0; n < 4; n += 2) {
      // two tiles at once: 8 columns by 16 bytes in each of the four matrices
      const unsigned of = block_mma_tile + col + 8 * n + l / 16 * 8 + l % 8;
      std::uint32_t codes[4];
      mma::load_matrix4(codes, stage(at) + block_mma_offset(of, 2 * step + l / 8 % 2));
      UFP4_UNROLL
      for (unsigned i = 0; i < 2; ++i) {
        Multiplier::prepare(b[n + i], codes[2 * i], codes[2 * i + 1], job.right);
        scales_b[n + i] = Multiplier::scales_of(scales(at, 1) + col + 8 * (n + i) + l / 4, step);
      }
    }
    UFP4_UNROLL
    for (unsigned m = 0; m < 4; ++m) {
      std::uint32_t codes[4];
      mma::load_matrix4(codes, stage(at) + block_mma_offset(row + 16 * m + l % 16, 2 * step + l / 16));
      typename Multiplier::left a;
      Multiplier::prepare(a, codes, job.left);
      const std::uint32_t scales_a = Multiplier::scales_of(scales(at, 0) + row + 16 * m + l / 4 + l % 2 * 8, step);
      UFP4_UNROLL
      for (unsigned n = 0; n < 4; ++n) Multiplier::add(to[m][n], a, b[n], scales_a, scales_b[n]);
    }
  }
  UFP4_DEVICE void multiply(unsigned row, unsigned col, sums& to) const {
    place at;
    for (unsigned s = 0; s < stages; ++s, at.advance()) {
      mma::barrier_wait(full(at), at.phase);
      sync_wave();
      for (unsigned step = 0; step < block_mma_depth / 64; ++step) multiply_step(at, row, col, step, to);
      arrive(empty(at));
    }
  }
};

#endif

/// Floats from row to row of the sums in shared memory: puts the four rows that half a warp writes in different banks.
inline constexpr unsigned block_mma_pitch = block_mma_tile + 8;
static_assert(block_mma_tile * block_mma_pitch * 4 <= block_mma_stages * block_mma_stage_bytes<mxfp4_multiplier>);

/// Thread blocks that run at the same time compute neighbouring tiles, whose operands they read from the L2 cache.
template <class Multiplier>
UFP4_KERNEL(block_mma_threads, 1)
block_mma_tiles(UFP4_PARAMETER block_mma_job job) {
#if defined(UFP4_SIMT_HEADER) || defined(UFP4_HAS_BLOCK_MMA_SM120)
  using worker = block_mma_worker<Multiplier>;
  unsigned char* shared = shared_memory();
  const std::uint32_t address = (mma::shared_address(shared) + 1023) / 1024 * 1024;
  const tile_index tile = tile_of_strips(job.tiles, block_index().x);
  const worker one{job, shared + (address - mma::shared_address(shared)), address,
                   std::size_t{tile.down} * block_mma_tile, std::size_t{tile.across} * block_mma_tile};
  const unsigned warp = thread_index().x / 32, row = warp / 4 * 64, col = warp % 4 * 32;
  one.start();
  typename worker::sums sums = {};
  if (warp < block_mma_workers / 32)
    one.multiply(row, col, sums);
  else
    one.copy(warp - block_mma_workers / 32);
  auto* staged = reinterpret_cast<float*>(one.memory);
  sync_block();  // every warp has read its last codes
  if (warp < block_mma_workers / 32) mma::store_tiles(sums, staged + row * block_mma_pitch + col, block_mma_pitch);
  sync_block();
  thread::store_tile_runs<block_mma_tile, block_mma_tile, block_mma_threads>(
      job.gemm, one.first_row, one.first_col, staged, block_mma_pitch, thread_index().x, true);
#else
  __trap();
#endif
}

/// Codes must be aligned to 4 bytes, as those of every allocation and of every row range of whole words are.
template <class Multiplier>
bool block_mma_takes(const gemm_job& job, const device_facts& facts) {
  return facts.has_specific(12) && job.mode == accumulate::fast &&
         has_blocks(job, Multiplier::block, Multiplier::scale, Multiplier::holds) && is_aligned(job.left.codes, 4) &&
         is_aligned(job.right.codes, 4) && counts_in_32_bits(job) &&
         facts.shared_bytes >= block_mma_shared_bytes<Multiplier>;
}

template <class Product, class Multiplier>
error run_block_mma(const gemm_job& gemm, const device_facts&, std::span<std::byte>, stream where) {
  block_mma_job job{.gemm = gemm};
  const std::size_t blocks = gemm.padded() / Multiplier::block;
  job.by_boxes = gemm.padded() % 32 == 0 && gemm.padded() != 0 && is_aligned(gemm.left.codes, 16) &&
                 is_aligned(gemm.right.codes, 16);
  job.wide_scales = blocks % 4 == 0 && is_aligned(gemm.left.scales, 4) && is_aligned(gemm.right.scales, 4);
  if constexpr (std::is_same_v<Multiplier, container_multiplier>) {
    job.left = thread::container_table_of(gemm.left.grid);
    job.right = thread::container_table_of(gemm.right.grid);
  }
  const auto map = [](mma::tensor_map& to, const gemm_side& side) {
    return mma::make_tensor_map(to, mma::swizzled_64_bytes_tensor, side.codes, side.rows, side.padded_cols / 2,
                                block_mma_tile, block_mma_depth / 2);
  };
  if (job.by_boxes) {
    if (const error e = map(job.left_codes, gemm.left); e != success) return e;
    if (const error e = map(job.right_codes, gemm.right); e != success) return e;
  }
  constexpr auto fits = [](const gemm_job& p) {
    return has_blocks(p, Multiplier::block, Multiplier::scale, Multiplier::holds);
  };
  if constexpr (Product::may(fits))
    return launch_tiled(listed<&block_mma_tiles<Multiplier>>, job, gemm.out, block_mma_tile, block_mma_tile,
                        block_mma_threads, block_mma_shared_bytes<Multiplier>, where);
  return not_supported;
}

template <class Product, class Multiplier>
constexpr gemm_kernel block_mma_kernel(const char* name) {
  return {name,           Multiplier::instruction,      block_mma_tile,
          block_mma_tile, &block_mma_takes<Multiplier>, &run_block_mma<Product, Multiplier>};
}

template <class Product = any_product>
inline constexpr gemm_kernel gemm_nvfp4_sm120 = block_mma_kernel<Product, nvfp4_multiplier>("gemm_nvfp4_sm120");
template <class Product = any_product>
inline constexpr gemm_kernel gemm_mxfp4_sm120 = block_mma_kernel<Product, mxfp4_multiplier>("gemm_mxfp4_sm120");
template <class Product = any_product>
inline constexpr gemm_kernel gemm_mx_containers_sm120 =
    block_mma_kernel<Product, container_multiplier>("gemm_mx_containers_sm120");

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
