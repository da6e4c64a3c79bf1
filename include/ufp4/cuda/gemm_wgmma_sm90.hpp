// ufp4 - gemm_wgmma_sm90: quantized_gemm, fast and folded_bf16, on Hopper: TMA copies, decoding to bf16, wgmma.
// SPDX-License-Identifier: Apache-2.0
//
// Experimental: compiled only with UFP4_EXPERIMENTAL, and checked at its first call (cuda/first_call_check.hpp).
//
// A thread block computes 128 x 128 of C in steps of 64 columns of K. Its four warpgroups have two roles:
//
// | producers, 2 | one thread for each row of either operand. One of them starts the TMA copies of both operands'  |
// |              | codes, 32 bytes for each row, four steps ahead. Each reads the codes and scales of its row,     |
// |              | multiplies them to bf16 and stores 128 swizzled bytes                                           |
// | consumers, 2 | 64 rows of C each: four wgmma m64n128k16 for each step, before the previous step's are complete |
//
// Codes and decoded operands have four stages each, and each stage a pair of barriers: full and empty. Scales are
// loaded to registers one step ahead: the four scales of a step are 4 bytes for each row, and TMA copies at least 16.
//
// Formats, decoding, and tiles whose products bf16 cannot hold are those of gemm_bf16_sm80.
#pragma once

#include <ufp4/cuda/first_call_check.hpp>
#include <ufp4/cuda/gemm_bf16_sm80.hpp>
#include <ufp4/cuda/tma_sm90.hpp>
#include <ufp4/cuda/wgmma_sm90.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

struct wgmma_tile {
  static constexpr unsigned rows = 128, cols = 128, depth = 64, stages = 4;
  static constexpr unsigned producers = rows + cols, consumers = 256, threads = producers + consumers;
  static constexpr unsigned code_bytes = depth / 2, left_codes = rows * code_bytes;
  static constexpr unsigned stage_codes = (rows + cols) * code_bytes, stage_operands = (rows + cols) * 2 * depth;
  /// Offsets from an address aligned to 1024 bytes, which the swizzle needs and shared_memory() does not guarantee.
  static constexpr unsigned codes_at = stages * stage_operands, barriers_at = codes_at + stages * stage_codes;
  static constexpr unsigned unfit_at = barriers_at + 4 * stages * 8;
  static constexpr std::size_t shared_bytes = 1024 + unfit_at + 16;
  static constexpr unsigned sums_stride = cols + 8;
  static_assert(rows * sums_stride * sizeof(float) <= barriers_at);
};

/// TMA needs rows of codes aligned to 16 bytes.
inline bool gemm_wgmma_takes(const gemm_job& job, const device_facts& facts) {
  const auto good = [](const gemm_side& side) {
    return is_aligned(side.codes, 16) && side.rows < (std::size_t{1} << 31);
  };
  return facts.has_specific(9) && gemm_bf16_takes(job, facts) && job.padded() % 32 == 0 && job.padded() != 0 &&
         facts.shared_bytes >= wgmma_tile::shared_bytes && good(job.left) && good(job.right);
}

#if defined(UFP4_EXPERIMENTAL) && defined(__CUDACC__) && !defined(UFP4_SIMT_HEADER)

struct wgmma_job : bf16_product {
  CUtensorMap left_codes, right_codes;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// The state of one thread.
struct wgmma_worker {
  using tile = wgmma_tile;
  using decoder = bf16_worker<bf16_tile<128, 128>>;

  const wgmma_job& job;
  unsigned char* memory;  ///< shared, aligned to 1024 bytes
  std::size_t first_row, first_col;
  unsigned steps;
  unsigned thread = thread_index().x;

  enum kind : unsigned { codes_full, codes_empty, tile_full, tile_empty };
  UFP4_DEVICE mma::barrier* bar(kind which, unsigned stage) const {
    return reinterpret_cast<mma::barrier*>(memory + tile::barriers_at) + which * tile::stages + stage;
  }
  UFP4_DEVICE unsigned char* codes(unsigned stage) const { return memory + tile::codes_at + stage * tile::stage_codes; }
  UFP4_DEVICE unsigned char* operands(unsigned stage) const { return memory + stage * tile::stage_operands; }
  UFP4_DEVICE volatile std::uint32_t* unfit() const {
    return reinterpret_cast<volatile std::uint32_t*>(memory + tile::unfit_at);
  }
  /// The n-th use of a stage waits for phase n of `full` and for the phase before n of `empty`.
  UFP4_DEVICE static unsigned phase(unsigned step) { return step / tile::stages & 1u; }

  UFP4_DEVICE void start() const {
    if (thread == 0) {
      *unfit() = 0;
      for (unsigned s = 0; s < tile::stages; ++s) {
        mma::barrier_start(bar(codes_full, s), 1);
        mma::barrier_start(bar(codes_empty, s), tile::producers);
        mma::barrier_start(bar(tile_full, s), tile::producers);
        mma::barrier_start(bar(tile_empty, s), tile::consumers);
      }
      mma::barriers_ready();
    }
    sync_block();
  }

  /// Called by one thread: starts the copies of a step's codes; outside the operands zeros, which count as bytes.
  UFP4_DEVICE void fetch(unsigned step) const {
    const unsigned stage = step % tile::stages;
    mma::barrier_wait(bar(codes_empty, stage), phase(step) ^ 1u);
    mma::barrier_expect(bar(codes_full, stage), tile::stage_codes);
    const unsigned column = step * tile::code_bytes;
    mma::copy_box(codes(stage), job.left_codes, column, static_cast<unsigned>(first_row), bar(codes_full, stage));
    mma::copy_box(codes(stage) + tile::left_codes, job.right_codes, column, static_cast<unsigned>(first_col),
                  bar(codes_full, stage));
  }

  /// The scales of a thread's row in one step, as bits; those outside the operand are not read.
  struct row_scales {
    std::uint32_t bits[4] = {};
  };
  UFP4_DEVICE bool inside(const bf16_side& side, std::size_t row, unsigned step, unsigned i) const {
    return row < side.rows && std::size_t{step} * tile::depth + 16 * i < job.job.padded();
  }
  UFP4_DEVICE row_scales load_scales(const bf16_side& side, std::size_t row, unsigned step) const {
    const std::size_t line = row / side.block_rows * job.job.blocks();
    row_scales s;
    UFP4_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      const std::size_t k = std::size_t{step} * tile::depth + 16 * i;
      if (inside(side, row, step, i)) s.bits[i] = thread::load_scale(side.scales, side.scale, line + k / job.job.block);
    }
    return s;
  }

  /// 64 elements of row `place` of the stage's operands, the left operand's rows first.
  UFP4_DEVICE void decode(const bf16_side& side, std::size_t row, unsigned step, const row_scales& scales,
                          const thread::words4 (&words)[2], unsigned place) const {
    unsigned char* to = operands(step % tile::stages);
    UFP4_UNROLL
    for (unsigned w = 0; w < 8; ++w) {
      // 0 outside the operand, because code 0 need not mean 0
      const float scale = inside(side, row, step, w / 2) ? thread::scale_value(side.scale, scales.bits[w / 2]) : 0.0f;
      const std::uint32_t eight = words[w / 4].word[w % 4];
      *reinterpret_cast<thread::words4*>(to + mma::swizzled_offset(place, w)) = decoder::fold(side, eight, scale);
      if (!is_in_range(side, scale) && !decoder::all_zero(side, eight)) *unfit() = 1;
    }
  }

  UFP4_DEVICE void produce() const {
    const bool is_left = thread < tile::rows;
    const bf16_side side = is_left ? job.left : job.right;
    const std::size_t row = is_left ? first_row + thread : first_col + thread - tile::rows;
    if (thread == 0)
      for (unsigned step = 0; step < tile::stages && step < steps; ++step) fetch(step);
    row_scales next = load_scales(side, row, 0);
    for (unsigned step = 0; step < steps; ++step) {
      const unsigned stage = step % tile::stages;
      const row_scales scales = next;
      if (step + 1 < steps) next = load_scales(side, row, step + 1);
      mma::barrier_wait(bar(codes_full, stage), phase(step));
      const auto* from = reinterpret_cast<const thread::words4*>(codes(stage) + thread * tile::code_bytes);
      const thread::words4 words[2] = {from[0], from[1]};
      mma::barrier_arrive(bar(codes_empty, stage));
      if (thread == 0 && step + tile::stages < steps) fetch(step + tile::stages);
      mma::barrier_wait(bar(tile_empty, stage), phase(step) ^ 1u);
      decode(side, row, step, scales, words, thread);
      mma::fence_to_async();
      mma::barrier_arrive(bar(tile_full, stage));
    }
  }

  UFP4_DEVICE void consume(float (&sums)[64]) const {
    const unsigned group = (thread - tile::producers) / 128;
    UFP4_UNROLL
    for (unsigned i = 0; i < 64; ++i) sums[i] = 0;
    for (unsigned step = 0; step < steps; ++step) {
      const unsigned stage = step % tile::stages;
      mma::barrier_wait(bar(tile_full, stage), phase(step));
      sync_wave();  // wgmma needs whole warps
      const std::uint32_t left = mma::shared_address(operands(stage)) + group * 64 * 128;
      const std::uint32_t right = mma::shared_address(operands(stage)) + tile::rows * 128;
      mma::settle_sums(sums);
      mma::multiply_fence();
      UFP4_UNROLL
      for (unsigned k = 0; k < tile::depth / 16; ++k)
        mma::multiply_bf16_m64n128k16(sums, mma::operand_128(left + 32 * k), mma::operand_128(right + 32 * k));
      mma::multiply_commit();
      mma::settle_sums(sums);
      mma::multiply_wait<1>();  // the previous step has been read
      if (step != 0) mma::barrier_arrive(bar(tile_empty, (step - 1) % tile::stages));
    }
    mma::multiply_wait<0>();
    mma::settle_sums(sums);
  }
};

#endif

[[maybe_unused]] static __global__ void __launch_bounds__(wgmma_tile::threads, 1)
    gemm_wgmma(UFP4_PARAMETER wgmma_job job) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using tile = wgmma_tile;
  const tile_index at = banded_tile(job.tiles, block_index().x);
  const auto aligned = (reinterpret_cast<std::uintptr_t>(shared_memory()) + 1023) / 1024 * 1024;
  const wgmma_worker worker{job, reinterpret_cast<unsigned char*>(aligned), std::size_t{at.down} * tile::rows,
                            std::size_t{at.across} * tile::cols,
                            static_cast<unsigned>((job.job.padded() + tile::depth - 1) / tile::depth)};
  auto* staged = reinterpret_cast<float*>(aligned);
  worker.start();
  if (worker.thread < tile::producers) {
    worker.produce();
    sync_block();  // no thread reads operands any more
  } else {
    float sums[64];
    worker.consume(sums);
    sync_block();
    const unsigned t = worker.thread - tile::producers, row = t / 128 * 64;
    UFP4_UNROLL
    for (unsigned i = 0; i < 64; ++i)
      staged[(row + mma::sum_row(t % 128, i)) * tile::sums_stride + mma::sum_col(t, i)] = sums[i];
  }
  sync_block();
  thread::store_tile<tile::rows, tile::cols, tile::threads>(job.job, worker.first_row, worker.first_col, staged,
                                                            tile::sums_stride, *worker.unfit() == 0);
#else
  __trap();
#endif
}

inline error queue_gemm_wgmma(const gemm_job& job, const device_facts&, std::span<std::byte>, stream where) {
  using tile = wgmma_tile;
  wgmma_job task{bf16_product_of(job), {}, {}};
  const auto map = [&](CUtensorMap& to, const gemm_side& side, unsigned rows) {
    return mma::make_tensor_map(to, side.codes, side.rows, side.padded_cols / 2, rows, tile::code_bytes);
  };
  if (const error e = map(task.left_codes, job.left, tile::rows); e != success) return e;
  if (const error e = map(task.right_codes, job.right, tile::cols); e != success) return e;
  return launch_tiled(listed<&gemm_wgmma>, task, job.out, tile::rows, tile::cols, tile::threads, tile::shared_bytes,
                      where);
}

inline error run_gemm_wgmma(const gemm_job& job, const device_facts& facts, std::span<std::byte> memory, stream where) {
  return run_checked<&queue_gemm_wgmma>("gemm_wgmma_sm90", job, facts, memory, where, wgmma_tile::rows - 1,
                                        wgmma_tile::cols - 3);
}

#else

inline error run_gemm_wgmma(const gemm_job&, const device_facts&, std::span<std::byte>, stream) {
  return not_compiled("gemm_wgmma_sm90");
}

#endif

inline constexpr gemm_kernel gemm_wgmma_sm90 = {
    .name = "gemm_wgmma_sm90",
    .instruction = "wgmma.mma_async.m64n128k16.bf16",
    .tile_rows = wgmma_tile::rows,
    .tile_cols = wgmma_tile::cols,
    .takes = &gemm_wgmma_takes,
    .run = &run_gemm_wgmma,
    .experimental = true,
};

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
