// ufp4 - quantize rows of contiguous elements without a transform: the loops over them, with AVX-512.
// SPDX-License-Identifier: Apache-2.0
//
// ordered_avx512.hpp computes the amaxes of a chunk and the codes of a part, which is some neighbouring chunks.
#pragma once

#if defined(__x86_64__)

#include <ufp4/cpu/kernels/quantize/ordered_avx512.hpp>

#include <ufp4/cpu/kernels/quantize/block_scale_lanes.hpp>

UFP4_BEGIN_LANES(quantize_kernel)

/// Whether a job is for these loops, if its rounder has ordered_functions. Blocks of 32 of large matrices of binary32
/// are faster in tiles where the second-level cache is read ahead.
inline bool takes_ordered(const quantize_job& job) {
  const auto block = static_cast<std::size_t>(job.format.block.cols);
  if (job.format.is_wide() || job.format.block.rows != 1 || job.transform.n != 1 || job.counts ||
      job.x.col_stride != 1 || (block != lanes && block != 2 * lanes))
    return false;
  return block == lanes || job.x.kind != dtype::f32 || read_ahead_of(job.x) != read_ahead::second_level;
}

/// One call of quantize_lanes for such a job.
class ordered_rows {
 public:
  ordered_rows(const quantize_job& job, const kernel_coder& coder, const quantized_sink& out, quantize_report& report,
               const rounding_plan& plan, scales_of_amax* scales, const ordered_functions& functions)
      : job_(job),
        coder_(coder),
        out_(out),
        report_(report),
        plan_(plan),
        choose_scales_(scales),
        do_(functions),
        ahead_(read_ahead_of(job.x)),
        block_(static_cast<std::size_t>(job.format.block.cols)),
        block_shift_(static_cast<unsigned>(__builtin_ctzll(block_))),
        element_bytes_(job.x.kind == dtype::f32 ? 4 : 2) {
    if (coder.rounding.what == rounding_spec::kind::stochastic)
      random_bits_ = random_bit_lanes(coder.rounding.random_bits);
  }

  void strips(std::size_t first, std::size_t last) {
    source x = job_.x;
    const std::size_t width = join_rows(job_, x, first, last);
    for (std::size_t row = first; row < last; ++row) quantize_row(x, row, width);
  }

 private:
  /// Whole chunks of a row from column k on, and the scales of their blocks.
  struct part {
    const char* x = nullptr;
    std::size_t row = 0, k = 0, chunks = 0;
    std::uint32_t zero[chunks_of_a_part];  ///< a bit for each block whose codes are +0
    vector_factors of;
  };
  /// `live`: how many blocks are not padding.
  void choose_chunk(part& p, std::size_t c, std::size_t live = lanes) {
    const std::size_t chunk = block_ * lanes, place = p.row * job_.padded_cols + p.k + c * chunk;
    prefetch_ahead(ahead_, p.x + c * chunk * element_bytes_, chunk * element_bytes_);
    const u32 amax = do_.amax(p.x + c * chunk * element_bytes_, block_ / lanes);
    u32 bits;
    lane_scales s;
    choose_scales_(coder_, amax, bits, s, report_);
    store_scales(out_.scales, job_.format.scale, &bits, 1, place >> block_shift_, 1, live);
    p.zero[c] = lane_bits(s.zero) & ~(~0u << live);
    each_vector(amax, p.of.amax + c * block_);
    each_vector(as_bits(s.factor), p.of.factor + c * block_);
  }
  /// A number of each block to each vector of a chunk.
  void each_vector(u32 of_block, float* out) const {
    u32 low = of_block, high = of_block;
    if (block_ != lanes) {
      interleave(low, high);
      store(out + lanes, high);
    }
    store(out, low);
  }
  std::uint8_t* codes_at(std::size_t row, std::size_t k) const { return out_.codes + (row * job_.padded_cols + k) / 2; }
  /// The first `vectors` of a part.
  void code_part(const part& p, std::size_t vectors, std::uint8_t* codes) {
    const std::uint64_t element = (job_.first_row + p.row) * job_.whole_padded_cols + job_.first_col + p.k;
    do_.code(plan_, {p.x, vectors, &p.of, element / 8, &random_bits_, do_.products, codes});
    for (std::size_t c = 0; c < p.chunks; ++c)
      for (std::uint32_t left = p.zero[c]; left != 0; left &= left - 1)
        __builtin_memset(codes + (c * lanes + static_cast<std::size_t>(__builtin_ctz(left))) * block_ / 2,
                         static_cast<int>(plan_.zeros & 0xFFu), block_ / 2);
  }
  /// A row of `width` padded elements. A part is coded while the scales of the next one are computed.
  void quantize_row(const source& x, std::size_t row, std::size_t width) {
    const std::size_t chunk = block_ * lanes, chunks = x.cols / chunk;
    const char* data =
        static_cast<const char*>(x.data) + x.offset(row, 0) * static_cast<std::ptrdiff_t>(element_bytes_);
    part parts[2];
    part *here = parts, *before = parts + 1;
    for (std::size_t c = 0; c < chunks; c += before->chunks) {
      here->x = data + c * chunk * element_bytes_;
      here->row = row;
      here->k = c * chunk;
      here->chunks = chunks - c < chunks_of_a_part ? chunks - c : chunks_of_a_part;
      for (std::size_t i = 0; i < here->chunks; ++i) choose_chunk(*here, i);
      if (do_.prepare != nullptr) do_.prepare(plan_, here->of, here->chunks * block_);
      if (c != 0) code_part(*before, before->chunks * block_, codes_at(row, before->k));
      part* const next = before;
      before = here;
      here = next;
    }
    if (chunks != 0) code_part(*before, before->chunks * block_, codes_at(row, before->k));
    if (chunks * chunk < width) rest_of_row(x, row, chunks * chunk, width);
  }
  /// What is left of a row, less than a chunk, in a buffer that is filled up with zeros.
  void rest_of_row(const source& x, std::size_t row, std::size_t k, std::size_t width) {
    alignas(64) char staged[2 * lanes * lanes * sizeof(float)];
    alignas(64) std::uint8_t codes[lanes * lanes];
    const std::size_t live = x.cols < k ? 0 : (x.cols - k) * element_bytes_, chunk = block_ * lanes * element_bytes_;
    for (std::size_t i = live / 64 * 64; i < chunk; i += 64) store(staged + i, u32{});
    if (live != 0)
      __builtin_memcpy(
          staged, static_cast<const char*>(x.data) + x.offset(row, k) * static_cast<std::ptrdiff_t>(element_bytes_),
          live);
    part p;
    p.x = staged;
    p.row = row;
    p.k = k;
    p.chunks = 1;
    choose_chunk(p, 0, (width - k) >> block_shift_);
    if (do_.prepare != nullptr) do_.prepare(plan_, p.of, block_);
    code_part(p, (width - k + 8 * lanes - 1) / (8 * lanes) * 8, codes);
    __builtin_memcpy(codes_at(row, k), codes, (width - k) / 2);
  }

  const quantize_job& job_;
  const kernel_coder& coder_;
  const quantized_sink& out_;
  quantize_report& report_;
  const rounding_plan& plan_;
  scales_of_amax* choose_scales_;
  ordered_functions do_;
  read_ahead ahead_;
  std::size_t block_;  ///< elements of a block
  unsigned block_shift_;
  std::size_t element_bytes_;
  random_bit_lanes random_bits_;  ///< of stochastic rounding
};
UFP4_END_LANES

#endif
