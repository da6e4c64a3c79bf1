// ufp4 - fast GEMM by tcgen05, the matrix unit of compute capability 10: E2M1 with e4m3 or e8m0 scales. Experimental.
// SPDX-License-Identifier: Apache-2.0
//
// | kernel             | formats                          | instruction                                          |
// |--------------------|----------------------------------|------------------------------------------------------|
// | gemm_nvfp4_tcgen05 | E2M1, e4m3 scales, blocks of 16  | tcgen05.mma.kind::mxf4nvf4.block_scale.scale_vec::4X |
// | gemm_mxfp4_tcgen05 | E2M1, e8m0 scales, blocks of 32  | tcgen05.mma.kind::mxf4.block_scale.scale_vec::2X     |
//
// Experimental (cuda/first_call_check.hpp): whether `fast` keeps its bound is not known (docs/gpu.md).
//
// A tile of C is 256 x 256 for a pair of thread blocks, which share each instruction (cta_group::2): a block has 128
// rows of the tile, and copies the codes of its rows of the left operand and of half of the tile's columns. Where such
// tiles are too few for the device a tile is 128 x 128 or 128 x 64 of one block. Blocks are persistent. Roles of warps:
//
// | warps | role                                                                                                   |
// |-------|--------------------------------------------------------------------------------------------------------|
// | 0 - 3 | epilogue: each reads 32 lanes of tensor memory, rows of C, and stores them through shared memory       |
// | 4     | one thread starts the TMA copies of codes, 256 of K of each row in a stage, swizzled by 128 bytes       |
// | 5     | one thread, of the first block of a pair, starts the copies of scales to tensor memory and the products |
// | 6, .. | each copies the scales of 128 rows from the library's layout to the one that tcgen05.cp takes           |
//
// Barriers of a stage: "full", in the first block, for the codes of both blocks and an arrival of each warp of scales;
// "empty", in each block, where tcgen05.commit arrives. Barriers of a tile: "sums", where tcgen05.commit arrives when
// the products are complete; "drained", in the first block, where the epilogue arrives.
//
// Columns of tensor memory: two tiles' sums, so that the next tile is multiplied while one is stored, and the scales of
// two stages. 256 + 256 + 96 columns are more than 512, so 96 columns of the two sums overlap: the epilogue loads these
// to registers first. The scales of a stage are overwritten two stages later, and no order is promised for a copy after
// a product, so the copy waits until the older stage's products are complete.
#pragma once

#include <ufp4/cuda/cluster_sm90.hpp>
#include <ufp4/cuda/first_call_check.hpp>
#include <ufp4/cuda/tcgen05_sm100.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

/// A tile of `Blocks` thread blocks, 1 or 2, with 128 rows each, and Cols columns.
template <unsigned Blocks, unsigned Cols, mma::block_scale Scale>
struct tcgen05_tile {
  static constexpr mma::block_scale scale = Scale;
  static constexpr unsigned blocks = Blocks, block_rows = 128, rows = block_rows * Blocks, cols = Cols;
  static constexpr unsigned depth = 256, row_bytes = depth / 2, stages = Cols == 64 ? 7 : 5;  ///< depth: K of a stage
  static constexpr unsigned block = Scale == mma::block_scale::ue4m3 ? 16 : 32;
  static constexpr unsigned words = depth / block / 4;        ///< of the scales of a row in a stage
  static constexpr unsigned groups = 1 + (Cols + 127) / 128;  ///< of 128 rows with scales: left, then right
  static constexpr unsigned threads = 32 * (6 + groups);
  /// Of each thread block: codes of its rows of the left operand and of its part of the right one, then scales.
  static constexpr unsigned block_cols = Cols / Blocks, left_bytes = block_rows * row_bytes;
  static constexpr unsigned right_bytes = block_cols * row_bytes, scale_bytes = 128 * words * 4;
  static constexpr unsigned scales_at = left_bytes + right_bytes, stage_bytes = scales_at + groups * scale_bytes;
  static_assert(left_bytes % 1024 == 0 && stage_bytes % 1024 == 0);  // the swizzle's pattern begins there
  /// Each of four warps stages 32 x 32 sums. A row is 36 floats: 16-byte parts of eight rows are in different banks.
  static constexpr unsigned pass = 32, pitch = 36, passes = cols / pass;
  static constexpr unsigned staged_at = stages * stage_bytes, staged_bytes = 32 * pitch * 4;
  static constexpr unsigned barriers_at = staged_at + 4 * staged_bytes, barriers = 2 * stages + 4;
  static constexpr unsigned address_at = barriers_at + barriers * mma::barrier_bytes;
  /// From an address aligned to 1024 bytes, which shared_memory() does not guarantee.
  static constexpr std::size_t shared_bytes = 1024 + address_at + 8;
  static_assert(shared_bytes <= 227 * 1024);
  /// Columns of tensor memory: the sums of odd tiles, and the scales of two stages.
  static constexpr unsigned columns = 512, scale_columns = 16 * groups, tensor_scales_at = columns - 2 * scale_columns;
  static constexpr unsigned second = 2 * cols <= tensor_scales_at ? cols : tensor_scales_at - cols;
  static constexpr unsigned overlap = cols - second, first_passes = overlap / pass;
  static_assert(overlap % pass == 0 && first_passes <= 3);
};

/// TMA needs rows of codes aligned to 16 bytes.
template <mma::block_scale scale>
constexpr bool has_tcgen05_blocks(const gemm_job& job) {
  constexpr scale_kind kind = scale == mma::block_scale::ue4m3 ? scale_kind::e4m3 : scale_kind::e8m0;
  return has_blocks(job, tcgen05_tile<2, 256, scale>::block, kind, is_e2m1);
}
template <mma::block_scale scale>
bool tcgen05_takes(const gemm_job& job, const device_facts& facts) {
  const auto good = [](const gemm_side& s) { return is_aligned(s.codes, 16) && s.rows < (std::size_t{1} << 31); };
  return facts.has_specific(10) && job.mode == accumulate::fast && has_tcgen05_blocks<scale>(job) && good(job.left) &&
         good(job.right) && job.padded() % 32 == 0 && job.padded() != 0 && job.padded() < (std::size_t{1} << 31) &&
         facts.shared_bytes >= tcgen05_tile<2, 256, scale>::shared_bytes;
}

/// 256 x 256, of a pair of thread blocks, where tiles of 128 x 128 are more than the multiprocessors; few: 128 x 64.
inline tile_shape tcgen05_tile_of(const gemm_job& job, const device_facts& facts) {
  const std::size_t tiles = (job.out.rows + 127) / 128 * ((job.out.cols + 127) / 128);
  const auto processors = static_cast<std::size_t>(facts.processors);
  if (job.out.rows > 128 && job.out.cols > 128 && tiles > processors) return {256, 256};
  return {128, 2 * tiles <= processors ? 64u : 128u};
}

template <mma::block_scale scale>
inline constexpr const char* tcgen05_name =
    scale == mma::block_scale::ue4m3 ? "gemm_nvfp4_tcgen05" : "gemm_mxfp4_tcgen05";

#if defined(UFP4_COMPILES_EXPERIMENTAL)

struct tcgen05_job {
  gemm_job gemm{};
  /// log2 of the rows that share a scale
  unsigned left_shift = log2_of(gemm.left.block_rows), right_shift = log2_of(gemm.right.block_rows);
  unsigned scale_alignment = 1;  ///< of rows of scales: those of a stage, 4 bytes, or 1
  tile_grid tiles{};
  CUtensorMap left_codes{}, right_codes{};
};

#if defined(UFP4_HAS_TCGEN05)

template <class Tile>
struct tcgen05_worker {
  const tcgen05_job& job;
  std::uint32_t memory;  ///< in the shared state space, aligned to 1024 bytes
  std::uint32_t tensor = 0;
  unsigned rank = block_index().x % Tile::blocks;  ///< of the block in its pair
  unsigned stages_of_tile = static_cast<unsigned>((job.gemm.padded() + Tile::depth - 1) / Tile::depth);
  mma::ring<Tile::stages> at{};

  UFP4_DEVICE unsigned first_tile() const { return block_index().x / Tile::blocks; }
  UFP4_DEVICE unsigned tile_step() const { return grid_size().x / Tile::blocks; }
  UFP4_DEVICE unsigned tiles() const { return job.tiles.down * job.tiles.across; }
  UFP4_DEVICE std::uint32_t stage(unsigned s) const { return memory + s * Tile::stage_bytes; }
  UFP4_DEVICE std::uint32_t barrier(unsigned i) const { return memory + Tile::barriers_at + i * mma::barrier_bytes; }
  UFP4_DEVICE std::uint32_t full(unsigned s) const { return barrier(s); }
  UFP4_DEVICE std::uint32_t empty(unsigned s) const { return barrier(Tile::stages + s); }
  UFP4_DEVICE std::uint32_t sums_ready(unsigned buffer) const { return barrier(2 * Tile::stages + buffer); }
  UFP4_DEVICE std::uint32_t drained(unsigned buffer) const { return barrier(2 * Tile::stages + 2 + buffer); }
  UFP4_DEVICE std::uint32_t sums(unsigned buffer) const { return tensor + buffer * Tile::second; }

  UFP4_DEVICE std::uint32_t of_pair(std::uint32_t b) const {
    if constexpr (Tile::blocks == 1) return b;
    return mma::remote_address(b, 0);
  }
  UFP4_DEVICE void arrive_at_pair(std::uint32_t b) const {
    sync_wave();
    if (lane() != 0) return;
    if constexpr (Tile::blocks == 1)
      mma::barrier_arrive(b);
    else
      mma::barrier_arrive_remote(of_pair(b));
  }
  UFP4_DEVICE void wait_for_pair(std::uint32_t b, unsigned parity) const {
    if constexpr (Tile::blocks == 1)
      mma::barrier_wait(b, parity);
    else
      mma::barrier_wait_remote(b, parity);
  }
  UFP4_DEVICE static void sync_pair() {
    sync_wave();
    if constexpr (Tile::blocks == 1)
      sync_block();
    else
      mma::sync_cluster();
  }

  UFP4_DEVICE void start(unsigned warp) {
    const std::uint32_t address = memory + Tile::address_at;
    if (warp == 5) mma::allocate_tensor_memory<Tile::blocks, Tile::columns>(address);
    if (thread_index().x == 0) {
      for (unsigned s = 0; s < Tile::stages; ++s) {
        mma::barrier_start(full(s), 1 + Tile::groups * Tile::blocks);
        mma::barrier_start(empty(s), 1);
      }
      for (unsigned buffer = 0; buffer < 2; ++buffer) {
        mma::barrier_start(sums_ready(buffer), 1);
        mma::barrier_start(drained(buffer), 4 * Tile::blocks);
      }
      mma::barriers_ready();
    }
    mma::tensor_fence_before_sync();
    sync_pair();
    mma::tensor_fence_after_sync();
    std::uint32_t at_address[1];
    mma::load_shared(at_address, address);
    tensor = at_address[0];
  }
  /// No block ends while another of its pair may still arrive at its barriers or read its operands.
  UFP4_DEVICE void finish(unsigned warp) const {
    mma::tensor_fence_before_sync();
    sync_pair();
    mma::tensor_fence_after_sync();
    if (warp == 5) mma::release_tensor_memory<Tile::blocks, Tile::columns>(tensor);
  }

  UFP4_DEVICE void fetch(tile_index tile, unsigned s) const {
    const std::uint32_t to = stage(at.stage), b = of_pair(full(at.stage));
    const unsigned column = s * Tile::row_bytes;
    mma::barrier_wait(empty(at.stage), at.phase ^ 1u);
    if (rank == 0) mma::barrier_expect(full(at.stage), Tile::scales_at * Tile::blocks);
    const auto copy = [&](std::uint32_t shared, const CUtensorMap& from, unsigned row) {
      if constexpr (Tile::blocks == 1)
        mma::copy_box(shared, from, column, row, b);
      else
        mma::copy_box_of_pair(shared, from, column, row, b);
    };
    copy(to, job.left_codes, tile.down * Tile::rows + rank * Tile::block_rows);
    copy(to + Tile::left_bytes, job.right_codes, tile.across * Tile::cols + rank * Tile::block_cols);
  }
  UFP4_DEVICE void copy_codes() {
    for (unsigned t = first_tile(); t < tiles(); t += tile_step()) {
      const tile_index tile = tile_of_strips(job.tiles, t);
      for (unsigned s = 0; s < stages_of_tile; ++s, at.advance()) fetch(tile, s);
    }
    // The last commits arrive before the block ends.
    for (unsigned i = 0; i < Tile::stages; ++i, at.advance()) mma::barrier_wait(empty(at.stage), at.phase ^ 1u);
  }

  /// Of rows lane, lane + 32, lane + 64 and lane + 96 of a group, two stages.
  struct scale_words {
    std::uint32_t of[2][4][Tile::words];
  };
  /// The scales of this lane's rows from the first block on; null outside the operand.
  struct scale_rows {
    const std::uint8_t* from[4];
  };
  UFP4_DEVICE scale_rows rows_of(unsigned group, tile_index tile) const {
    const gemm_side& side = group == 0 ? job.gemm.left : job.gemm.right;
    const unsigned shift = group == 0 ? job.left_shift : job.right_shift;
    const std::size_t first = group == 0 ? std::size_t{tile.down} * Tile::rows + rank * Tile::block_rows
                                         : std::size_t{tile.across} * Tile::cols + (group - 1) * 128;
    const std::size_t blocks = job.gemm.padded() / Tile::block;
    scale_rows rows;
    UFP4_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      const std::size_t row = first + 32 * i + lane();
      rows.from[i] =
          row < side.rows ? static_cast<const std::uint8_t*>(side.scales) + (row >> shift) * blocks : nullptr;
    }
    return rows;
  }
  /// Of one row in one stage; zeros outside the operand. alignment: of the row, and a divisor of its bytes.
  template <unsigned alignment>
  UFP4_DEVICE void load_words(const std::uint8_t* row, unsigned s, std::uint32_t (&to)[Tile::words]) const {
    const auto blocks = static_cast<unsigned>(job.gemm.padded() / Tile::block);
    const unsigned first = s * 4 * Tile::words;
    UFP4_UNROLL
    for (unsigned w = 0; w < Tile::words; ++w) to[w] = 0;
    if (row == nullptr || first >= blocks) return;
    if constexpr (alignment == 4 * Tile::words) {
      using part = std::conditional_t<Tile::words == 4, thread::words4, thread::words2>;
      const part all = *reinterpret_cast<const part*>(row + first);
      UFP4_UNROLL
      for (unsigned w = 0; w < Tile::words; ++w) to[w] = all.word[w];
    } else {
      UFP4_UNROLL
      for (unsigned w = 0; w < Tile::words; ++w)
        for (unsigned b = 4 * w; b < 4 * w + 4 && first + b < blocks; b += alignment)
          to[w] |= (alignment == 4 ? *reinterpret_cast<const std::uint32_t*>(row + first + b) : row[first + b])
                   << (8 * (b % 4));
    }
  }
  template <unsigned alignment>
  UFP4_DEVICE void load_two(const scale_rows& rows, unsigned s, scale_words& to) const {
    UFP4_UNROLL
    for (unsigned i = 0; i < 4; ++i) UFP4_UNROLL
    for (unsigned half = 0; half < 2; ++half) load_words<alignment>(rows.from[i], s + half, to.of[half][i]);
  }
  /// One stage: word w of row 32 i + lane is word i of the lane's 16 bytes in the w-th 512 bytes.
  UFP4_DEVICE void store_words(unsigned group, const std::uint32_t (&of)[4][Tile::words]) const {
    mma::barrier_wait(empty(at.stage), at.phase ^ 1u);
    const std::uint32_t to = stage(at.stage) + Tile::scales_at + group * Tile::scale_bytes + 16 * lane();
    UFP4_UNROLL
    for (unsigned w = 0; w < Tile::words; ++w) mma::store_shared(to + 512 * w, of[0][w], of[1][w], of[2][w], of[3][w]);
    mma::fence_to_async();
    arrive_at_pair(full(at.stage));
  }
  template <unsigned alignment>
  UFP4_DEVICE void copy_aligned_scales(unsigned group) {
    for (unsigned t = first_tile(); t < tiles(); t += tile_step()) {
      const scale_rows rows = rows_of(group, tile_of_strips(job.tiles, t));
      scale_words next;
      load_two<alignment>(rows, 0, next);
      for (unsigned s = 0; s < stages_of_tile; s += 2) {
        const scale_words now = next;
        load_two<alignment>(rows, s + 2, next);
        UFP4_UNROLL
        for (unsigned half = 0; half < 2; ++half)
          if (s + half < stages_of_tile) store_words(group, now.of[half]), at.advance();
      }
    }
  }
  UFP4_DEVICE void copy_scales(unsigned group) {
    switch (job.scale_alignment) {
      case 4 * Tile::words: return copy_aligned_scales<4 * Tile::words>(group);
      case 4: return copy_aligned_scales<4>(group);
      default: return copy_aligned_scales<1>(group);
    }
  }

  /// Starts the copies of a stage's scales, then its products: `steps` times 64 of K.
  UFP4_DEVICE void multiply_stage(std::uint32_t d, unsigned buffer, unsigned steps, bool add) const {
    constexpr unsigned groups = Tile::groups, steps_of_word = 4 / Tile::words;
    const std::uint32_t left = stage(at.stage), right = left + Tile::left_bytes;
    const std::uint32_t scales = tensor + Tile::tensor_scales_at + buffer * Tile::scale_columns;
    UFP4_UNROLL
    for (unsigned w = 0; w < Tile::words; ++w) UFP4_UNROLL
    for (unsigned g = 0; g < groups; ++g)
      mma::copy_scales_to_tensor<Tile::blocks>(
          scales + 4 * (w * groups + g),
          mma::tensor_descriptor(left + Tile::scales_at + g * Tile::scale_bytes + 512 * w, 0, 128, mma::swizzle::none));
    UFP4_UNROLL
    for (unsigned step = 0; step < 4; ++step) {
      if (step >= steps) break;
      // 64 elements are 32 bytes of each row. Within the 128 bytes of the swizzle only the start address changes.
      const auto codes = [step](std::uint32_t side) {
        return mma::tensor_descriptor(side + 32 * step, 0, 1024, mma::swizzle::bytes_128);
      };
      const unsigned word = step / steps_of_word, first = step % steps_of_word * (4 / steps_of_word);
      const mma::block_instruction how{
          .scale = Tile::scale, .rows = Tile::rows, .cols = Tile::cols, .scale_a = first, .scale_b = first};
      const std::uint32_t scales_a = scales + 4 * word * groups;
      mma::multiply_blocks<Tile::blocks, Tile::scale>(d, codes(left), codes(right), mma::instruction_descriptor(how),
                                                      scales_a, scales_a + 4, add || step > 0);
    }
  }
  /// No sums of an earlier tile are left in the columns of the n-th.
  UFP4_DEVICE void wait_until_drained(unsigned n) const {
    constexpr unsigned lag = Tile::overlap != 0 ? 1 : 2;
    if (n < lag) return;
    const unsigned before = n - lag;
    wait_for_pair(drained(before % 2), before / 2 % 2);
  }
  UFP4_DEVICE void multiply() {
    const auto padded = static_cast<unsigned>(job.gemm.padded());
    mma::ring<Tile::stages> complete{};  // two stages behind
    unsigned n = 0, issued = 0;
    for (unsigned t = first_tile(); t < tiles(); t += tile_step(), ++n) {
      wait_until_drained(n);
      for (unsigned s = 0; s < stages_of_tile; ++s, ++issued, at.advance()) {
        wait_for_pair(full(at.stage), at.phase);
        if (issued >= 2) {
          mma::barrier_wait(empty(complete.stage), complete.phase);
          complete.advance();
        }
        mma::tensor_fence_after_sync();
        const unsigned left = padded - s * Tile::depth, steps = left >= Tile::depth ? 4 : (left + 63) / 64;
        multiply_stage(sums(n % 2), issued % 2, steps, s > 0);
        mma::commit_to<Tile::blocks>(empty(at.stage));
      }
      mma::commit_to<Tile::blocks>(sums_ready(n % 2));
    }
  }

  UFP4_DEVICE void store_pass(unsigned warp, std::size_t row, std::size_t col, const std::uint32_t (&of)[32]) const {
    const unsigned at = Tile::staged_at + warp * Tile::staged_bytes;
    sync_wave();  // the pass before has been read
    UFP4_UNROLL
    for (unsigned c = 0; c < 32; c += 4)
      mma::store_shared(memory + at + (lane() * Tile::pitch + c) * 4, of[c], of[c + 1], of[c + 2], of[c + 3]);
    sync_wave();
    // A pointer that is computed from shared_memory() keeps its state space.
    unsigned char* shared = shared_memory();
    const auto* staged = reinterpret_cast<const float*>(shared + (memory - mma::shared_address(shared)) + at);
    thread::store_tile_runs<32, 32, 32>(job.gemm, row, col, staged, Tile::pitch, lane(), true);
  }
  UFP4_DEVICE void load_pass(unsigned buffer, unsigned warp, unsigned pass, std::uint32_t (&to)[32]) const {
    mma::load_tensor32(to, sums(buffer) + (warp * 32 << 16) + col_of(buffer, pass));
  }
  /// The column of a pass in the tile: columns that overlap with those of the other tile come first.
  UFP4_DEVICE static unsigned col_of(unsigned buffer, unsigned pass) {
    return (Tile::overlap == 0 || buffer == 1 ? pass * Tile::pass : pass * Tile::pass + Tile::second) % Tile::cols;
  }
  UFP4_DEVICE void release_sums(unsigned buffer) const {
    mma::tensor_fence_before_sync();
    arrive_at_pair(drained(buffer));
  }
  UFP4_DEVICE void store_sums(unsigned warp, tile_index tile, unsigned buffer) const {
    const std::size_t row = std::size_t{tile.down} * Tile::rows + rank * Tile::block_rows + warp * 32;
    const std::size_t col = std::size_t{tile.across} * Tile::cols;
    if constexpr (Tile::overlap != 0) {
      std::uint32_t early[Tile::first_passes][32];
      UFP4_UNROLL
      for (unsigned p = 0; p < Tile::first_passes; ++p) load_pass(buffer, warp, p, early[p]);
      mma::wait_tensor_loads();
      release_sums(buffer);
      UFP4_UNROLL
      for (unsigned p = 0; p < Tile::first_passes; ++p) store_pass(warp, row, col + col_of(buffer, p), early[p]);
    }
    _Pragma("unroll 1")  // the code of a pass once
        for (unsigned p = Tile::first_passes; p < Tile::passes; ++p) {
      std::uint32_t later[32];
      load_pass(buffer, warp, p, later);
      mma::wait_tensor_loads();
      if (Tile::overlap == 0 && p == Tile::passes - 1) release_sums(buffer);
      store_pass(warp, row, col + col_of(buffer, p), later);
    }
  }
  UFP4_DEVICE void store(unsigned warp) const {
    unsigned n = 0;
    for (unsigned t = first_tile(); t < tiles(); t += tile_step(), ++n) {
      mma::barrier_wait(sums_ready(n % 2), n / 2 % 2);
      mma::tensor_fence_after_sync();
      store_sums(warp, tile_of_strips(job.tiles, t), n % 2);
    }
  }
};

#endif  // UFP4_HAS_TCGEN05

template <unsigned Blocks, unsigned Cols, mma::block_scale scale>
[[maybe_unused]] static __global__ void __launch_bounds__(tcgen05_tile<Blocks, Cols, scale>::threads, 1)
    tcgen05_tiles(UFP4_PARAMETER tcgen05_job job) {
#if defined(UFP4_HAS_TCGEN05)
  const unsigned warp = thread_index().x / 32;
  tcgen05_worker<tcgen05_tile<Blocks, Cols, scale>> worker{job,
                                                           (mma::shared_address(shared_memory()) + 1023) / 1024 * 1024};
  worker.start(warp);
  if (warp < 4) {
    worker.store(warp);
  } else if (warp == 4) {
    if (mma::elected()) worker.copy_codes();
  } else if (warp == 5) {
    if (worker.rank == 0 && mma::elected()) worker.multiply();
  } else {
    worker.copy_scales(warp - 6);
  }
  worker.finish(warp);
#else
  __trap();
#endif
}

template <unsigned Blocks, unsigned Cols, mma::block_scale scale>
error queue_tcgen05(const gemm_job& gemm, const device_facts& facts, std::span<std::byte>, stream where) {
  using tile = tcgen05_tile<Blocks, Cols, scale>;
  tcgen05_job job{.gemm = gemm};
  const std::size_t down = (gemm.out.rows + tile::rows - 1) / tile::rows,
                    across = (gemm.out.cols + tile::cols - 1) / tile::cols;
  if (down == 0 || across == 0) return success;
  if (down > 0x3FFFFFFFu / across) return not_supported;  // tiles are counted in 32 bits
  job.tiles = {static_cast<unsigned>(down), static_cast<unsigned>(across)};
  const std::size_t of_row = gemm.padded() / tile::block;
  for (const unsigned bytes : {4u, 4 * tile::words})
    if (of_row % bytes == 0 && is_aligned(gemm.left.scales, bytes) && is_aligned(gemm.right.scales, bytes))
      job.scale_alignment = bytes;
  const auto map = [](CUtensorMap& to, const gemm_side& side, unsigned rows) {
    return mma::make_tensor_map(to, mma::swizzled_bytes_tensor, side.codes, side.rows, side.padded_cols / 2, rows, 128);
  };
  if (const error e = map(job.left_codes, gemm.left, tile::block_rows); e != success) return e;
  if (const error e = map(job.right_codes, gemm.right, tile::block_cols); e != success) return e;
  const unsigned tiles = job.tiles.down * job.tiles.across;
  const unsigned most = static_cast<unsigned>(facts.processors) / Blocks, clusters = tiles < most ? tiles : most;
  return mma::launch_clusters(listed<&tcgen05_tiles<Blocks, Cols, scale>>, Blocks * clusters, tile::threads, Blocks,
                              tile::shared_bytes, where, job);
}

/// One thread block or pair computes the first call's tiles: two, a part of a third, and more stages than the ring has.
template <unsigned Blocks, unsigned Cols, mma::block_scale scale>
error run_tcgen05_as(const gemm_job& job, const device_facts& facts, std::span<std::byte> memory, stream where) {
  using tile = tcgen05_tile<Blocks, Cols, scale>;
  static detail::first_call_check first_call;
  device_facts one = facts;
  one.processors = Blocks;
  const error e = first_call.check(&queue_tcgen05<Blocks, Cols, scale>, tcgen05_name<scale>, job, one, tile::rows - 1,
                                   2 * tile::cols + 5, where, tile::stages / 3 * tile::depth + 64);
  return e == success ? queue_tcgen05<Blocks, Cols, scale>(job, facts, memory, where) : e;
}
template <class Product, mma::block_scale scale>
error run_tcgen05(const gemm_job& job, const device_facts& facts, std::span<std::byte> memory, stream where) {
  if constexpr (Product::may(&has_tcgen05_blocks<scale>)) switch (tcgen05_tile_of(job, facts).cols) {
      case 64: return run_tcgen05_as<1, 64, scale>(job, facts, memory, where);
      case 128: return run_tcgen05_as<1, 128, scale>(job, facts, memory, where);
      default: return run_tcgen05_as<2, 256, scale>(job, facts, memory, where);
    }
  return not_supported;
}

#endif

template <class Product, mma::block_scale scale>
constexpr gemm_kernel tcgen05_kernel(const char* instruction) {
  return {.name = tcgen05_name<scale>,
          .instruction = instruction,
          .tile_rows = 256,
          .tile_cols = 256,
          .takes = &tcgen05_takes<scale>,
          .run = UFP4_RUN_EXPERIMENTAL(tcgen05_name<scale>, run_tcgen05<Product, scale>),
          .experimental = true,
          .tile_of = &tcgen05_tile_of};
}
template <class Product = any_product>
inline constexpr gemm_kernel gemm_nvfp4_tcgen05 =
    tcgen05_kernel<Product, mma::block_scale::ue4m3>("tcgen05.mma.kind::mxf4nvf4.block_scale.scale_vec::4X");
template <class Product = any_product>
inline constexpr gemm_kernel gemm_mxfp4_tcgen05 =
    tcgen05_kernel<Product, mma::block_scale::ue8m0>("tcgen05.mma.kind::mxf4.block_scale.scale_vec::2X");

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
