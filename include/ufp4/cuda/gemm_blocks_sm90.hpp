// ufp4 - gemm_blocks_sm90: quantized_gemm, exact_blocks, on Hopper: wgmma of decoded operands, block by block.
// SPDX-License-Identifier: Apache-2.0
//
// Experimental: compiled only with UFP4_EXPERIMENTAL, and checked at its first call (cuda/first_call_check.hpp).
//
// Both operands are decoded once, to bf16 in the workspace. wgmma then makes the sum over each block of K apart, from
// zero, and the threads add it to the sums of C in block order: the host's bits, because nothing before is rounded.
//
// | scales                | bf16 operands      | wgmma gives, exactly   | a thread adds                               |
// |-----------------------|--------------------|------------------------|---------------------------------------------|
// | 8 bits on both sides  | element * scale    | d * sA * sB            | acc = fl(acc + d sA sB): one instruction    |
// | any other             | element            | d                      | acc = fma(d, fl(sA * sB), acc): two         |
//
// The first row has the bits of fma(d, fl(sA * sB), acc), because sA * sB needs no rounding. The sums are exact: all
// products of a block are multiples of one power of two, and their magnitudes add up to less than 2^23 times that, so
// an adder that keeps 24 bits below its largest term loses nothing. The decoders set a flag if a factor is so large or
// so small that a product could overflow or underflow; all of C is then computed from codes and scales. So no sum of C
// is ever -0, and the sign of a zero that wgmma gives does not matter.
//
// A thread block computes 128 x 256 of C (128 x 128 if the product is small) in steps of 64 columns of K. One thread
// copies both operands by TMA, swizzled, four to six steps ahead. Two warpgroups compute 64 rows each. A warpgroup
// loads its rows of the left operand to registers once for each step (ldmatrix). wgmma m64n64k16 multiplies them with
// 64 columns at a time into one of two sets of 32 registers, while the threads add the other set to the sums. Sums of
// blocks longer than a step stay in registers for several steps, as 64 x 128 in tiles of 128 x 128.
//
// Predicted rates, without the pass that decodes: docs/gpu.md.
#pragma once

#include <ufp4/cuda/first_call_check.hpp>
#include <ufp4/cuda/tma_sm90.hpp>
#include <ufp4/cuda/wgmma_sm90.hpp>
#include <ufp4/gpu/kernels/library_operands.hpp>
#include <ufp4/gpu/kernels/product_group.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

/// `kind`: the block length, and 128 for all that are longer than a step. `folds`: the scales are in the operands.
template <unsigned Cols, unsigned kind_, bool folds_>
struct block_sums_tile {
  static constexpr unsigned rows = 128, cols = Cols, depth = 64, kind = kind_;
  static constexpr bool folds = folds_;
  static constexpr unsigned blocks = kind < depth ? depth / kind : 1;  ///< of a step
  static constexpr unsigned stages = cols == 256 ? 4 : 6, consumers = 256, threads = 128 + consumers;
  static constexpr unsigned left_bytes = rows * 128, stage_operands = (rows + cols) * 128;
  static constexpr unsigned left_scales = blocks * rows, stage_scales = folds ? 0 : blocks * (rows + cols);
  /// Offsets from an address aligned to 1024 bytes, which the swizzle needs and shared_memory() does not guarantee.
  static constexpr unsigned scales_at = stages * stage_operands, barriers_at = scales_at + stages * stage_scales * 4;
  static constexpr std::size_t shared_bytes = 1024 + barriers_at + 2 * stages * mma::barrier_bytes;
  static constexpr unsigned sums_stride = cols + 8, sums = cols / 2;  ///< sums: of a thread
  static_assert(rows * sums_stride * sizeof(float) <= scales_at && shared_bytes <= 227 * 1024);
};

/// Are sums of a block's products below 2^23 units, where the integers of a side are `scale` times those of its grid?
constexpr bool block_sums_are_exact(const gemm_job& job, int left_scale, int right_scale) {
  const auto largest = [](const gemm_side& side, int scale) { return std::int64_t{integer_amax(side.grid)} * scale; };
  return largest(job.left, left_scale) * largest(job.right, right_scale) * job.block < 1 << 23;
}

constexpr bool folds_blocks(const gemm_job& job) {
  const auto integer = [](scale_kind kind) { return (1 << significant_bits(kind)) - 1; };
  return significant_bits(job.left.scale) <= 4 && significant_bits(job.right.scale) <= 4 && products_fit(job.left) &&
         products_fit(job.right) && block_sums_are_exact(job, integer(job.left.scale), integer(job.right.scale));
}

inline bool takes_block_sums(const gemm_job& job) {
  const bool has_e8m0 = job.left.scale == scale_kind::e8m0 || job.right.scale == scale_kind::e8m0;
  // e8m0 is not accepted as a float, because the scale of a block of zeros is 2^-127
  return job.left.exact() && job.right.exact() && thread::fits_bf16(job.left.grid) &&
         thread::fits_bf16(job.right.grid) && job.block >= 16 && job.padded() != 0 && dot_exponent(job) >= -20 &&
         dot_exponent(job) <= 20 && block_sums_are_exact(job, 1, 1) && (folds_blocks(job) || !has_e8m0);
}

/// The workspace: a flag, and for each side its elements and its scales.
struct block_sums_plan : operand_plan {
  static std::size_t scales_stride(const gemm_side& side) { return (side.rows + 15) / 16 * 16; }
  explicit block_sums_plan(const gemm_job& job) {
    add(sizeof(std::uint32_t));
    for (unsigned s = 0; s < 2; ++s) {
      const gemm_side& side = s == 0 ? job.left : job.right;
      elements[s] = add(side.rows * job.padded() * 2);
      if (!folds_blocks(job)) scales[s] = add(job.blocks() * scales_stride(side) * sizeof(float));
    }
  }
};

/// Queues the decoding of side s to the workspace, whose flag is set if the product must not be used.
template <class = void>
error queue_block_sums_side(const gemm_job& job, unsigned s, std::byte* memory, stream where) {
  const block_sums_plan plan(job);
  const gemm_side& side = s == 0 ? job.left : job.right;
  auto* unfit = reinterpret_cast<std::uint32_t*>(memory);
  // folded: products of two are multiples of 2^-126. Else every d * fl(sA * sB) is above 2^-140.
  const decoding range{.folds = folds_blocks(job), .least = -56, .limit = 56};
  auto* elements = reinterpret_cast<std::uint16_t*>(memory + plan.elements[s]);
  const error e = queue_decode_bf16(side, job.block, elements, unfit, where, range);
  if (e != success || range.folds) return e;
  const scale_range accepted{exp2i(-(140 + dot_exponent(job)) / 2), 0x1p60f};
  return queue_decode_scales(side, job.block, plan.scales_stride(side), s == 1,
                             reinterpret_cast<float*>(memory + plan.scales[s]), accepted, unfit, where);
}

/// Decoding must be little work beside the product, so neither side may be short.
inline constexpr std::size_t block_sums_rows = 128;

/// gemm_bf16_sm80 is faster in `fast` where it takes the formats and this kernel does not fold.
inline bool gemm_blocks_sm90_takes(const gemm_job& job, const device_facts& facts) {
  const bool other_is_faster =
      job.mode == accumulate::fast && !folds_blocks(job) && folds(job.left, job.mode) && folds(job.right, job.mode);
  return !other_is_faster && facts.has_specific(9) &&
         facts.shared_bytes >= block_sums_tile<256, 16, false>::shared_bytes && job.mode != accumulate::folded_bf16 &&
         job.left.rows >= block_sums_rows && job.right.rows >= block_sums_rows && counts_in_32_bits(job) &&
         takes_block_sums(job);
}

/// Does a product have a tile of 128 x 256 for every multiprocessor? Longer blocks leave no registers for such tiles.
inline bool has_wide_tiles(const gemm_job& job, const device_facts& facts) {
  return job.block <= 64 && tiles_of(job, 128, 256) >= static_cast<std::size_t>(facts.processors);
}

inline std::size_t gemm_blocks_sm90_workspace(const gemm_job& job, const device_facts&) {
  return block_sums_plan(job).total;
}

#if defined(UFP4_COMPILES_EXPERIMENTAL)

struct block_sums_job {
  gemm_job job{};
  tile_grid tiles{};
  const std::uint32_t* unfit = nullptr;
  CUtensorMap elements[2]{}, scales[2]{};
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class tile>
struct block_sums_worker {
  const block_sums_job& job;
  unsigned char* memory;  ///< shared, aligned to 1024 bytes
  std::uint32_t address;  ///< the same in the shared state space
  unsigned first_row, first_col, steps;
  unsigned thread = thread_index().x;

  enum kind : unsigned { full, empty };
  UFP4_DEVICE std::uint32_t bar(kind which, unsigned stage) const {
    return address + tile::barriers_at + (which * tile::stages + stage) * mma::barrier_bytes;
  }
  UFP4_DEVICE unsigned char* operands(unsigned stage) const { return memory + stage * tile::stage_operands; }
  UFP4_DEVICE float* scales(unsigned stage) const {
    return reinterpret_cast<float*>(memory + tile::scales_at) + stage * tile::stage_scales;
  }

  using place = mma::ring<tile::stages>;

  UFP4_DEVICE void start() const {
    if (thread == 0) {
      for (unsigned s = 0; s < tile::stages; ++s) {
        mma::barrier_start(bar(full, s), 1);
        mma::barrier_start(bar(empty, s), tile::consumers / 32);
      }
      mma::barriers_ready();
    }
    sync_block();
  }

  UFP4_DEVICE void produce() const {
    place at;
    for (unsigned step = 0; step < steps; ++step, at.advance()) {
      mma::barrier_wait(bar(empty, at.stage), at.phase ^ 1u);
      const std::uint32_t done = bar(full, at.stage), to = address + at.stage * tile::stage_operands;
      mma::barrier_expect(done, tile::stage_operands + tile::stage_scales * 4);
      mma::copy_box(to, job.elements[0], step * 128, first_row, done);
      mma::copy_box(to + tile::left_bytes, job.elements[1], step * 128, first_col, done);
      if constexpr (!tile::folds) {
        const unsigned block = step * tile::depth / (tile::kind < tile::depth ? tile::kind : job.job.block);
        const std::uint32_t scales_to = address + tile::scales_at + at.stage * tile::stage_scales * 4;
        mma::copy_box(scales_to, job.scales[0], first_row, block, done);
        mma::copy_box(scales_to + tile::left_scales * 4, job.scales[1], first_col, block, done);
      }
    }
  }

  // The place of a consumer. A warp has 16 rows of C: a lane has columns 8 n + 2 t and 8 n + 2 t + 1 of rows g, g + 8.
  UFP4_DEVICE unsigned consumer() const { return thread - 128; }
  UFP4_DEVICE unsigned warp_row() const { return consumer() / 32 * 16; }
  UFP4_DEVICE void wait_full(const place& at) const {
    mma::barrier_wait(bar(full, at.stage), at.phase);
    sync_wave();  // wgmma needs whole warps
  }
  UFP4_DEVICE void release(unsigned stage) const {
    sync_wave();
    if (lane() == 0) mma::barrier_arrive(bar(empty, stage));
  }

  UFP4_DEVICE void load_left(unsigned stage, std::uint32_t (&left)[4][4]) const {
    UFP4_UNROLL
    for (unsigned k = 0; k < 4; ++k)
      mma::load_matrix4(left[k], operands(stage) + mma::swizzled_offset(warp_row() + lane() % 16, 2 * k + lane() / 16));
  }
  UFP4_DEVICE std::uint64_t right_operand(unsigned stage) const {
    return mma::operand_128(address + stage * tile::stage_operands + tile::left_bytes);
  }

  template <unsigned n>
  UFP4_DEVICE void add(unsigned stage, unsigned b, unsigned first, const float (&d)[n], float* sums) const {
    if constexpr (tile::folds) {
      UFP4_UNROLL
      for (unsigned i = 0; i < n; ++i) sums[i] = sums[i] + d[i];
    } else {
      const float* left = scales(stage) + b * tile::rows + warp_row() + lane() / 4;
      const float* right = scales(stage) + tile::left_scales + b * tile::cols + first + lane() % 4 * 4;
      const float by[2] = {left[0], left[8]};
      UFP4_UNROLL
      for (unsigned i = 0; i < n; i += 8) {
        const auto four = *reinterpret_cast<const thread::words4*>(right + 2 * i);  // of columns 2 t, + 1, + 8, + 9
        UFP4_UNROLL
        for (unsigned j = 0; j < 8; ++j)
          sums[i + j] = fma(d[i + j], by[j / 2 % 2] * to_float(four.word[j / 4 * 2 + j % 2]), sums[i + j]);
      }
    }
  }

  UFP4_DEVICE void consume_short(float (&sums)[tile::sums]) const {
    constexpr unsigned parts = tile::cols / 64, of_block = tile::kind / 16, count = tile::blocks * parts;
    float d[2][32];
    std::uint32_t left[4][4];
    place at;
    for (unsigned step = 0; step < steps; ++step, at.advance()) {
      wait_full(at);
      load_left(at.stage, left);
      const std::uint64_t right = right_operand(at.stage);
      const auto multiply = [&](unsigned i) {
        mma::multiply_fence();
        UFP4_UNROLL
        for (unsigned k = i / parts * of_block; k < (i / parts + 1) * of_block; ++k)
          mma::multiply_k16<false>(d[i % 2], left[k], mma::advanced(right, i % parts * 64 * 128 + 32 * k),
                                   k % of_block != 0);
        mma::multiply_commit();
      };
      multiply(0);
      UFP4_UNROLL
      for (unsigned i = 0; i < count; ++i) {
        if (i + 1 < count) {
          multiply(i + 1);
          mma::multiply_wait<1>();
        } else {
          mma::multiply_wait<0>();
        }
        mma::settle(d[i % 2]);
        add(at.stage, i / parts, i % parts * 64, d[i % 2], sums + i % parts * 32);
      }
      release(at.stage);
    }
  }

  UFP4_DEVICE void consume_long(float (&sums)[tile::sums]) const {
    const unsigned of_block = job.job.block / tile::depth;
    float d[tile::sums];
    std::uint32_t left[4][4];
    place at;
    for (unsigned step = 0, s = 0; step < steps; ++step, at.advance()) {
      wait_full(at);
      load_left(at.stage, left);
      const std::uint64_t right = right_operand(at.stage);
      mma::multiply_fence();
      UFP4_UNROLL
      for (unsigned k = 0; k < 4; ++k)
        mma::multiply_k16<false>(d, left[k], mma::advanced(right, 32 * k), k != 0 || s != 0);
      mma::multiply_commit();
      mma::multiply_wait<0>();
      mma::settle(d);
      if (++s == of_block) {
        add(at.stage, 0, 0, d, sums);
        s = 0;
      }
      release(at.stage);
    }
  }

  UFP4_DEVICE void consume(float (&sums)[tile::sums]) const {
    UFP4_UNROLL
    for (float& one : sums) one = 0;
    if constexpr (tile::kind <= tile::depth)
      consume_short(sums);
    else
      consume_long(sums);
  }

  /// Through shared memory, because a lane's sums are two consecutive columns.
  UFP4_DEVICE void make_tile(bool usable) const {
    float sums[tile::sums];
    consume(sums);
    mma::sync_threads<tile::consumers>(1);  // no thread reads operands any more
    auto* staged = reinterpret_cast<float*>(memory);
    const unsigned t = consumer();
    UFP4_UNROLL
    for (unsigned i = 0; i < tile::sums; i += 2)
      *reinterpret_cast<thread::words2*>(staged + (t / 128 * 64 + mma::sum_row(t % 128, i)) * tile::sums_stride +
                                         mma::sum_col(t, i)) = {{to_bits(sums[i]), to_bits(sums[i + 1])}};
    mma::sync_threads<tile::consumers>(1);
    thread::store_tile_runs<tile::rows, tile::cols, tile::consumers>(job.job, first_row, first_col, staged,
                                                                     tile::sums_stride, t, usable);
  }
};

#endif

template <class tile>
static __global__ void __launch_bounds__(tile::threads, 1) multiply_block_sums(UFP4_PARAMETER block_sums_job job) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const tile_index at = tile_of_strips(job.tiles, block_index().x);
  const bool usable = *job.unfit == 0;
  const std::uint32_t address = (mma::shared_address(shared_memory()) + 1023) / 1024 * 1024;
  auto* memory = shared_memory() + (address - mma::shared_address(shared_memory()));
  const auto steps = static_cast<unsigned>((job.job.padded() + tile::depth - 1) / tile::depth);
  const block_sums_worker<tile> worker{
      job, memory, address, at.down * tile::rows, at.across * tile::cols, usable ? steps : 0};
  worker.start();
  if (worker.thread < 128) {
    mma::set_fewer_registers<24>();
    if (worker.thread == 0) worker.produce();
  } else {
    mma::set_more_registers<240>();
    worker.make_tile(usable);
  }
#else
  __trap();
#endif
}

template <class tile>
error queue_block_operand(const gemm_job& job, unsigned s, std::byte* memory, block_sums_job& task, stream where) {
  const block_sums_plan plan(job);
  const gemm_side& side = s == 0 ? job.left : job.right;
  const unsigned box = s == 0 ? tile::rows : tile::cols;
  if (error e = queue_block_sums_side(job, s, memory, where); e != success) return e;
  const error e = mma::make_tensor_map(task.elements[s], mma::swizzled_bytes_tensor, memory + plan.elements[s],
                                       side.rows, 2 * job.padded(), box, 128);
  if (e != success || tile::folds) return e;
  return mma::make_tensor_map(task.scales[s], mma::float_tensor, memory + plan.scales[s], job.blocks(),
                              plan.scales_stride(side), tile::blocks, box);
}

template <class tile>
error queue_block_sums(const gemm_job& job, const device_facts&, std::span<std::byte> memory, stream where) {
  block_sums_job task{.job = job, .unfit = reinterpret_cast<const std::uint32_t*>(memory.data())};
  if (error e = set_zero(memory.data(), sizeof(std::uint32_t), where); e != success) return e;
  for (unsigned s = 0; s < 2; ++s)
    if (error e = queue_block_operand<tile>(job, s, memory.data(), task, where); e != success) return e;
  return launch_tiled(listed<&multiply_block_sums<tile>>, task, job.out, tile::rows, tile::cols, tile::threads,
                      tile::shared_bytes, where);
}

/// Each kernel is checked at its own first call: two rows of tiles, and more steps than stages.
template <class tile>
error run_block_sums(const gemm_job& job, const device_facts& facts, std::span<std::byte> memory, stream where) {
  return run_checked<&queue_block_sums<tile>>("gemm_blocks_sm90", job, facts, memory, where, 255, 253, 544,
                                              &gemm_blocks_sm90_workspace);
}

template <class Product, unsigned Cols, bool folds>
error run_block_sums(const gemm_job& job, const device_facts& facts, std::span<std::byte> memory, stream where) {
  const auto run = [&]<class tile>(const tile&) { return run_block_sums<tile>(job, facts, memory, where); };
  if constexpr (Product::may([](const gemm_job& p) { return folds_blocks(p) == folds; })) {
    if constexpr (Product::may(&has_length<16>))
      if (job.block == 16) return run(block_sums_tile<Cols, 16, folds>{});
    if constexpr (Product::may(&has_length<32>))
      if (job.block == 32) return run(block_sums_tile<Cols, 32, folds>{});
    if constexpr (Product::may(&has_length<64>))
      if (job.block == 64) return run(block_sums_tile<Cols, 64, folds>{});
    if constexpr (Product::may([](const gemm_job& p) { return p.block > 64; }))
      if (job.block > 64) return run(block_sums_tile<128, 128, folds>{});
  }
  return not_supported;
}

template <class Product>
error run_gemm_blocks_sm90(const gemm_job& job, const device_facts& facts, std::span<std::byte> memory, stream where) {
  const auto run = [&]<unsigned cols>(std::integral_constant<unsigned, cols>) {
    return folds_blocks(job) ? run_block_sums<Product, cols, true>(job, facts, memory, where)
                             : run_block_sums<Product, cols, false>(job, facts, memory, where);
  };
  return has_wide_tiles(job, facts) ? run(std::integral_constant<unsigned, 256>{})
                                    : run(std::integral_constant<unsigned, 128>{});
}

#endif

template <class Product = any_product>
inline constexpr gemm_kernel gemm_blocks_sm90 = {
    .name = "gemm_blocks_sm90",
    .instruction = "wgmma.mma_async.m64n64k16.bf16",
    .tile_rows = 128,
    .tile_cols = 256,
    .takes = &gemm_blocks_sm90_takes,
    .run = UFP4_RUN_EXPERIMENTAL("gemm_blocks_sm90", run_gemm_blocks_sm90<Product>),
    .workspace = &gemm_blocks_sm90_workspace,
    .fast_is = accumulate::exact_blocks,
    .experimental = true,
    .tile_of = [](const gemm_job& job,
                  const device_facts& facts) { return tile_shape{128, has_wide_tiles(job, facts) ? 256u : 128u}; },
};

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
