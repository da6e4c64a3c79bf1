// ufp4 - fast GEMM by tcgen05, the matrix unit of compute capability 10: E2M1 with e4m3 or e8m0 scales. Experimental.
// SPDX-License-Identifier: Apache-2.0
//
// | kernel             | formats                          | instruction (tcgen05.mma.cta_group::1)    |
// |--------------------|----------------------------------|-------------------------------------------|
// | gemm_nvfp4_tcgen05 | E2M1, e4m3 scales, blocks of 16  | kind::mxf4nvf4.block_scale.scale_vec::4X  |
// | gemm_mxfp4_tcgen05 | E2M1, e8m0 scales, blocks of 32  | kind::mxf4.block_scale.scale_vec::2X      |
//
// Experimental (cuda/first_call_check.hpp): the simulator emulates neither tensor memory nor the asynchronous proxy.
//
// The design is kept simple: a thread block computes 128 x 128 of C with two stages of K = 256. Its four warps copy one
// stage to shared memory while the matrix unit multiplies the other; one thread starts the copies of scales and four
// multiplications for each stage. There is no TMA, no cluster and no specialized warp.
#pragma once

#include <ufp4/cuda/first_call_check.hpp>
#include <ufp4/cuda/tcgen05_sm100.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned tcgen05_tile = 128;     ///< rows and columns of C that a thread block computes
inline constexpr unsigned tcgen05_depth = 256;    ///< elements of K in a stage: 128 bytes of a row, as the swizzle
inline constexpr unsigned tcgen05_threads = 128;  ///< the four warps that can read the 128 lanes of tensor memory

template <mma::block_scale scale>
inline constexpr unsigned tcgen05_block = scale == mma::block_scale::ue4m3 ? 16 : 32;

/// One side's part of a stage in shared memory: 128 rows of codes, then their scales.
inline constexpr unsigned tcgen05_code_bytes = tcgen05_tile * tcgen05_depth / 2;
template <mma::block_scale scale>
inline constexpr unsigned tcgen05_side_bytes = tcgen05_code_bytes + tcgen05_tile * tcgen05_depth / tcgen05_block<scale>;
/// Two stages, two barriers and an address. The stages are aligned to 1024 bytes, which the launch does not guarantee.
template <mma::block_scale scale>
inline constexpr unsigned tcgen05_shared_bytes = 1024 + 4 * tcgen05_side_bytes<scale> + 32;

template <mma::block_scale scale>
inline constexpr const char* tcgen05_name =
    scale == mma::block_scale::ue4m3 ? "gemm_nvfp4_tcgen05" : "gemm_mxfp4_tcgen05";

template <mma::block_scale scale>
bool tcgen05_takes(const gemm_job& job, const device_facts& facts) {
  constexpr scale_kind kind = scale == mma::block_scale::ue4m3 ? scale_kind::e4m3 : scale_kind::e8m0;
  return facts.has_specific(10) && job.mode == accumulate::fast &&
         has_blocks(job, tcgen05_block<scale>, kind, is_e2m1) && is_aligned(job.left.codes, 16) &&
         is_aligned(job.right.codes, 16) && job.padded() % 32 == 0 && facts.shared_bytes >= tcgen05_shared_bytes<scale>;
}

#if defined(UFP4_EXPERIMENTAL) && defined(__CUDACC__) && !defined(UFP4_SIMT_HEADER)

struct tcgen05_job {
  gemm_job gemm{};
  /// log2 of the rows that share a scale
  unsigned left_shift = log2_of(gemm.left.block_rows), right_shift = log2_of(gemm.right.block_rows);
  bool wide_scales = false;  ///< rows of scales are aligned to 4 bytes; else to 1
  tile_grid tiles{};
};

#if defined(UFP4_HAS_TCGEN05)

/// What a thread copies of one side: eight pieces of 16 bytes of codes, and the scales of a row.
template <mma::block_scale scale>
struct tcgen05_pieces {
  static constexpr unsigned words = tcgen05_depth / tcgen05_block<scale> / 4;  ///< of the scales of a row
  thread::words4 codes[8];
  std::uint32_t scales[words];
};

/// Eight consecutive threads read the 128 bytes of a row, 16 rows at a time; zeros outside the side.
template <mma::block_scale scale>
UFP4_DEVICE void read_pieces(const gemm_side& side, unsigned shift, bool wide_scales, std::size_t first_row,
                             std::size_t k, tcgen05_pieces<scale>& to) {
  const unsigned t = thread_index().x;
  const std::size_t bytes = side.padded_cols / 2, blocks = side.padded_cols / tcgen05_block<scale>;
  UFP4_UNROLL
  for (unsigned i = 0; i < 8; ++i) {
    const std::size_t row = first_row + 16 * i + t / 8, at = k / 2 + 16 * (t % 8);
    to.codes[i] = {};
    if (row < side.rows && at < bytes)
      to.codes[i] = *reinterpret_cast<const thread::words4*>(side.codes + row * bytes + at);
  }
  const std::size_t row = first_row + t;
  const auto* scales = static_cast<const std::uint8_t*>(side.scales) + (row >> shift) * blocks;
  UFP4_UNROLL
  for (unsigned w = 0; w < to.words; ++w) {
    const std::size_t at = k / tcgen05_block<scale> + 4 * w;
    to.scales[w] = 0;
    if (row >= side.rows || at >= blocks) continue;
    if (wide_scales)
      to.scales[w] = *reinterpret_cast<const std::uint32_t*>(scales + at);
    else
      for (unsigned b = 0; b < 4 && at + b < blocks; ++b) to.scales[w] |= std::uint32_t{scales[at + b]} << (8 * b);
  }
}
template <mma::block_scale scale>
UFP4_DEVICE void write_pieces(const tcgen05_pieces<scale>& from, unsigned char* side) {
  const unsigned t = thread_index().x;
  UFP4_UNROLL
  for (unsigned i = 0; i < 8; ++i)
    *reinterpret_cast<thread::words4*>(side + mma::swizzled_offset(16 * i + t / 8, t % 8)) = from.codes[i];
  UFP4_UNROLL
  for (unsigned w = 0; w < from.words; ++w)
    *reinterpret_cast<std::uint32_t*>(side + tcgen05_code_bytes + mma::scale_offset(t, 4 * w)) = from.scales[w];
}

/// The columns of tensor memory: D, then the scales of each side for two stages, four columns for each word.
inline constexpr unsigned tcgen05_columns = 256, tcgen05_scales_at = 128, tcgen05_scales_of_side = 16;

/// Called by one thread: starts the copies of a stage's scales, then its multiplications.
template <mma::block_scale scale>
UFP4_DEVICE void start_stage(std::uint32_t tensor, unsigned char* stage, unsigned buffer, bool add) {
  constexpr unsigned words = tcgen05_pieces<scale>::words, steps = tcgen05_depth / 64, steps_of_word = steps / words;
  const std::uint32_t left = mma::shared_address(stage), right = left + tcgen05_side_bytes<scale>;
  const std::uint32_t scales_a = tensor + tcgen05_scales_at + 2 * buffer * tcgen05_scales_of_side,
                      scales_b = scales_a + tcgen05_scales_of_side;
  const auto scales_from = [](std::uint32_t side, unsigned w) {
    return mma::tensor_descriptor(side + tcgen05_code_bytes + 512 * w, 0, 128, mma::swizzle::none);
  };
  for (unsigned w = 0; w < words; ++w) {
    mma::copy_scales_to_tensor(scales_a + 4 * w, scales_from(left, w));
    mma::copy_scales_to_tensor(scales_b + 4 * w, scales_from(right, w));
  }
  for (unsigned step = 0; step < steps; ++step) {
    // 64 elements are 32 bytes of each row. Within the 128 bytes of the swizzle only the start address changes.
    const auto codes_from = [step](std::uint32_t side) {
      return mma::tensor_descriptor(side + 32 * step, 0, 1024, mma::swizzle::bytes_128);
    };
    const unsigned word = step / steps_of_word, first = step % steps_of_word * (4 / steps_of_word);
    const mma::block_instruction instruction{.scale = scale, .scale_a = first, .scale_b = first};
    mma::multiply_blocks<scale>(tensor, codes_from(left), codes_from(right), mma::instruction_descriptor(instruction),
                                scales_a + 4 * word, scales_b + 4 * word, add || step > 0);
  }
}

/// D to C, through shared memory: a lane of tensor memory is a row, which one thread reads.
UFP4_DEVICE void store_tensor(const gemm_job& job, std::uint32_t tensor, bool empty, std::size_t first_row,
                              std::size_t first_col, float* shared) {
  constexpr unsigned pitch = tcgen05_tile + 1;  // the rows of a warp begin in different banks
  static_assert(tcgen05_tile * pitch * 4 <= 4 * tcgen05_side_bytes<mma::block_scale::ue8m0>);
  const unsigned t = thread_index().x;
  for (unsigned col = 0; col < tcgen05_tile; col += 8) {
    std::uint32_t eight[8];
    mma::load_tensor8(eight, tensor + (t / 32 * 32 << 16) + col);
    mma::wait_tensor_loads();
    UFP4_UNROLL
    for (unsigned e = 0; e < 8; ++e) shared[t * pitch + col + e] = empty ? 0.0f : to_float(eight[e]);
  }
  mma::tensor_fence_before_sync();
  sync_block();
  thread::store_tile<tcgen05_tile, tcgen05_tile, tcgen05_threads>(job, first_row, first_col, shared, pitch);
}

#endif  // UFP4_HAS_TCGEN05

template <mma::block_scale scale>
UFP4_KERNEL(tcgen05_threads)
tcgen05_tiles(UFP4_PARAMETER tcgen05_job job) {
#if defined(UFP4_HAS_TCGEN05)
  constexpr unsigned side_bytes = tcgen05_side_bytes<scale>;
  unsigned char* shared = shared_memory();
  shared += (1024 - mma::shared_address(shared) % 1024) % 1024;
  const std::uint32_t barriers = mma::shared_address(shared + 4 * side_bytes);
  auto* tensor_at = reinterpret_cast<std::uint32_t*>(shared + 4 * side_bytes + 2 * mma::barrier_bytes);
  const unsigned t = thread_index().x;
  if (t < 32) mma::allocate_tensor_memory<tcgen05_columns>(tensor_at);
  if (t == 0) {
    mma::barrier_start(barriers, 1);
    mma::barrier_start(barriers + mma::barrier_bytes, 1);
    mma::barriers_ready();
  }
  mma::tensor_fence_before_sync();
  sync_block();
  mma::tensor_fence_after_sync();
  const std::uint32_t tensor = *tensor_at;

  const std::size_t first_row = std::size_t{block_index().x % job.tiles.down} * tcgen05_tile;
  const std::size_t first_col = std::size_t{block_index().x / job.tiles.down} * tcgen05_tile;
  const std::size_t stages = (job.gemm.padded() + tcgen05_depth - 1) / tcgen05_depth;
  for (std::size_t s = 0; s < stages; ++s) {
    const auto buffer = static_cast<unsigned>(s % 2);
    unsigned char* stage = shared + 2 * buffer * side_bytes;
    tcgen05_pieces<scale> left, right;
    read_pieces(job.gemm.left, job.left_shift, job.wide_scales, first_row, s * tcgen05_depth, left);
    read_pieces(job.gemm.right, job.right_shift, job.wide_scales, first_col, s * tcgen05_depth, right);
    if (s >= 2)  // stage s - 2 is complete
      mma::barrier_wait(barriers + mma::barrier_bytes * buffer, static_cast<unsigned>(s / 2 - 1) % 2);
    write_pieces(left, stage);
    write_pieces(right, stage + side_bytes);
    mma::fence_to_async();
    sync_block();
    if (t == 0) {
      mma::tensor_fence_after_sync();
      start_stage<scale>(tensor, stage, buffer, s > 0);
      mma::commit_to(barriers + mma::barrier_bytes * buffer);
    }
  }
  if (stages > 0)  // the last commit waits for all earlier ones
    mma::barrier_wait(barriers + static_cast<unsigned>((stages - 1) % 2) * mma::barrier_bytes,
                      static_cast<unsigned>((stages - 1) / 2) % 2);
  mma::tensor_fence_after_sync();
  store_tensor(job.gemm, tensor, stages == 0, first_row, first_col, reinterpret_cast<float*>(shared));
  if (t < 32) mma::release_tensor_memory<tcgen05_columns>(tensor);
#else
  __trap();
#endif
}

template <mma::block_scale scale>
error queue_tcgen05(const gemm_job& gemm, const device_facts&, std::span<std::byte>, stream where) {
  tcgen05_job job{.gemm = gemm};
  job.wide_scales = gemm.padded() / tcgen05_block<scale> % 4 == 0 && is_aligned(gemm.left.scales, 4) &&
                    is_aligned(gemm.right.scales, 4);
  return launch_tiled(listed<&tcgen05_tiles<scale>>, job, gemm.out, tcgen05_tile, tcgen05_tile, tcgen05_threads,
                      tcgen05_shared_bytes<scale>, where);
}

/// K of the first call's tile: three and a half stages, so that a buffer is used twice.
template <mma::block_scale scale>
error run_tcgen05(const gemm_job& job, const device_facts& facts, std::span<std::byte> memory, stream where) {
  return run_checked<&queue_tcgen05<scale>>(tcgen05_name<scale>, job, facts, memory, where, tcgen05_tile - 1,
                                            tcgen05_tile - 3, 3 * tcgen05_depth + tcgen05_depth / 2);
}

#else

template <mma::block_scale scale>
error run_tcgen05(const gemm_job&, const device_facts&, std::span<std::byte>, stream) {
  return not_compiled(tcgen05_name<scale>);
}

#endif

template <mma::block_scale scale>
constexpr gemm_kernel tcgen05_kernel(const char* instruction) {
  return {.name = tcgen05_name<scale>,
          .instruction = instruction,
          .tile_rows = tcgen05_tile,
          .tile_cols = tcgen05_tile,
          .takes = &tcgen05_takes<scale>,
          .run = &run_tcgen05<scale>,
          .experimental = true};
}
inline constexpr gemm_kernel gemm_nvfp4_tcgen05 =
    tcgen05_kernel<mma::block_scale::ue4m3>("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X");
inline constexpr gemm_kernel gemm_mxfp4_tcgen05 =
    tcgen05_kernel<mma::block_scale::ue8m0>("tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X");

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
