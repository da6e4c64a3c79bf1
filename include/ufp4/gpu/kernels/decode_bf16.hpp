// ufp4 - decode_bf16: an operand of a product as a plain bf16 matrix in device memory, with the scales folded in.
// SPDX-License-Identifier: Apache-2.0
//
// | exact   | if value * scale has at most 8 significant bits (products_fit): 8-bit scales and the usual grids |
// | rounded | to nearest even otherwise: folded_bf16 only                                                      |
// | range   | a product of finite factors that is not a normal bf16 number below `limit` sets a flag in device |
// |         | memory; the multiplication is then not used (kernels/finish_product.hpp)                         |
// | NaN     | a scale of NaN makes its block NaN                                                               |
//
// Bound by memory bandwidth: for 8 elements 4.5 to 6 bytes are read and 16 are written. A warp reads 128 bytes of codes
// and writes 512 contiguous bytes at a time, with four such loads in flight before the first use, and executes about 60
// instructions for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/gpu/gemm_kernel.hpp>
#include <ufp4/gpu/kernels/folding.hpp>
#include <ufp4/gpu/thread/elements.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned decode_threads = 256, decode_steps = 4;

struct decode_bf16_job {
  gemm_side side{};
  unsigned block_shift = 4;        ///< log2 of the block length along K, at least 3
  bool rounds = false;             ///< some product may have more than 8 significant bits
  std::uint32_t limit = 0x7F80u;   ///< bf16 bits: products must be smaller in magnitude
  scale_range safe{};              ///< scales whose products are normal and below the limit
  std::uint16_t* out = nullptr;    ///< rows x padded_cols bf16, packed, aligned to 16 bytes
  std::uint32_t* unfit = nullptr;  ///< set to 1

  UFP4_HD std::size_t row_eights() const { return side.padded_cols / 8; }
  UFP4_HD std::size_t eights() const { return side.rows * row_eights(); }
};

/// Four bytes from any address.
UFP4_DEVICE std::uint32_t load_word(const std::uint8_t* p) {
  if (reinterpret_cast<std::uintptr_t>(p) % 4 == 0) {
    std::uint32_t word;
    __builtin_memcpy(&word, __builtin_assume_aligned(p, 4), 4);
    return word;
  }
  return p[0] | std::uint32_t{p[1]} << 8 | std::uint32_t{p[2]} << 16 | std::uint32_t{p[3]} << 24;
}

/// The scale of the group of eight elements with index `at`, counted row by row.
UFP4_DEVICE float scale_of_eight(const decode_bf16_job& job, std::size_t at) {
  const std::size_t block = at >> (job.block_shift - 3);  // rows hold whole blocks
  if (job.side.block_rows == 1) return thread::scale_at(job.side.scale, job.side.scales, block);
  const std::size_t across = job.side.padded_cols >> job.block_shift;
  const thread::grid_place place = thread::split(block, across);
  return thread::scale_at(job.side.scale, job.side.scales, place.row / job.side.block_rows * across + place.sixteen);
}

/// Is a bf16 product of finite factors neither a normal number below the limit nor an exact zero?
UFP4_DEVICE bool is_unfit(std::uint32_t limit, std::uint32_t product, float value, float scale) {
  const std::uint32_t m = product & 0x7FFFu;
  return value != 0.0f && scale != 0.0f && (m < 0x0080u || m >= limit) && ufp4::detail::is_finite(value) &&
         ufp4::detail::is_finite(scale);
}

/// Eight products as bf16. `table`: the grid's values in shared memory, each in its own bank.
UFP4_DEVICE thread::words4 decode_eight(const decode_bf16_job& job, const float* table, std::uint32_t codes,
                                        float scale) {
  thread::words4 out;
  const float size = ufp4::detail::magnitude(scale);
  const bool safe = size >= job.safe.low && size <= job.safe.high;
  bool unfit = false;
  UFP4_UNROLL
  for (unsigned j = 0; j < 4; ++j) {
    std::uint32_t half[2];
    UFP4_UNROLL
    for (unsigned h = 0; h < 2; ++h) {
      const float value = table[codes >> (8 * j + 4 * h) & 15u];
      const float product = ufp4::detail::rounded(value * scale);
      half[h] = job.rounds ? round_to<bf16>(product).bits() : ufp4::detail::to_bits(product) >> 16;
      if (!safe) unfit = unfit || is_unfit(job.limit, half[h], value, scale);
    }
    out.word[j] = half[0] | half[1] << 16;
  }
  if (unfit) atomic_max(job.unfit, 1u);
  return out;
}

/// The same for an operand that is not quantized.
UFP4_DEVICE thread::words4 round_eight(const decode_bf16_job& job, std::size_t at) {
  const thread::grid_place place = thread::split(at, job.row_eights());
  const std::size_t row = place.row, k = place.sixteen * 8;
  thread::words4 out;
  bool unfit = false;
  for (unsigned j = 0; j < 4; ++j) {
    std::uint32_t half[2];
    for (unsigned h = 0; h < 2; ++h) {
      const std::size_t col = k + 2 * j + h;
      const float x = col < job.side.plain.cols ? thread::load(job.side.plain, row, col) : 0.0f;
      half[h] = round_to<bf16>(x).bits();
      unfit = unfit || is_unfit(job.limit, half[h], x, 1.0f);
    }
    out.word[j] = half[0] | half[1] << 16;
  }
  if (unfit) atomic_max(job.unfit, 1u);
  return out;
}

/// Each thread decodes four groups of eight elements, decode_threads groups apart.
UFP4_KERNEL(decode_threads) decode_bf16(const decode_bf16_job job) {
  auto* table = reinterpret_cast<float*>(shared_memory());
  if (thread_index().x < 16) table[thread_index().x] = job.side.grid.value[thread_index().x];
  sync_block();
  const std::size_t first = std::size_t{block_index().x} * (decode_threads * decode_steps) + thread_index().x;
  auto* out = reinterpret_cast<thread::words4*>(job.out);
  if (!job.side.is_quantized) {
    for (unsigned u = 0; u < decode_steps; ++u)
      if (const std::size_t at = first + u * decode_threads; at < job.eights()) out[at] = round_eight(job, at);
    return;
  }
  std::uint32_t codes[decode_steps] = {};
  float scale[decode_steps] = {};
  UFP4_UNROLL
  for (unsigned u = 0; u < decode_steps; ++u) {
    const std::size_t at = first + u * decode_threads;
    if (at >= job.eights()) continue;
    codes[u] = load_word(job.side.codes + 4 * at);
    scale[u] = scale_of_eight(job, at);
  }
  UFP4_UNROLL
  for (unsigned u = 0; u < decode_steps; ++u) {
    const std::size_t at = first + u * decode_threads;
    if (at < job.eights()) out[at] = decode_eight(job, table, codes[u], scale[u]);
  }
}

/// Can a side be decoded to bf16 in this mode? `block`: of the product.
inline bool decodes_to_bf16(const gemm_side& side, unsigned block, accumulate mode) {
  if (mode == accumulate::exact_blocks || block < 8) return false;
  if (!side.is_quantized && side.transform.n != 1) return false;
  return mode == accumulate::folded_bf16 || products_fit(side);
}

/// Queues `out` = side as bf16, rows x padded_cols, packed, aligned to 16 bytes. Sets *unfit to 1, which the caller has
/// cleared, if a product is not below 2^limit.
inline error queue_decode_bf16(const gemm_side& side, unsigned block, std::uint16_t* out, std::uint32_t* unfit,
                               stream where, int limit = 128) {
  decode_bf16_job job{side, log2_of(block), !products_fit(side), static_cast<std::uint32_t>(limit + 127) << 7, {},
                      out,  unfit};
  if (side.is_quantized) job.safe = safe_scales(side.grid, limit < 127 ? limit : 127);
  constexpr std::size_t of_block = decode_threads * decode_steps;
  const std::size_t blocks = (job.eights() + of_block - 1) / of_block;
  if (blocks == 0) return success;
  return launch(&decode_bf16, {static_cast<unsigned>(blocks)}, {decode_threads}, 16 * sizeof(float), where, job);
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
