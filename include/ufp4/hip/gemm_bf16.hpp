// ufp4 - quantized_gemm, fast and folded_bf16, on the matrix cores of AMD GPUs: element x scale as bf16, MFMA or WMMA.
// SPDX-License-Identifier: Apache-2.0
//
// Which formats each mode takes: folds (gpu/kernels/folding.hpp). A tile with a product outside bf16's normal range is
// computed again, as in cuda/gemm_bf16_sm80.hpp, so no result depends on a subnormal operand.
//
// The loop over K is in matrix_tile.hpp. One instruction of a wave of 64 takes 32 cycles of the matrix cores on gfx90a
// and 16 on gfx942; for each, a wave of the large tile issues about 8 vector instructions of 4 cycles to decode, which
// run while the matrix cores execute other waves' instructions.
//
// K is summed in ascending order, 16 or 32 columns at a time, for either tile size: the bits depend only on the
// operands and the device. The error bound of section 6 of the numerical specification follows from the rounding of
// sums that mfma_gfx90a.hpp describes (S: the sum of magnitudes; Kp: the padded K):
//
// | CDNA 2     | a product takes part in 2 + Kp / 4 additions, each with an error of at most 2^-24 S: below Kp + 6.  |
// |            | At most Kp nonzero numbers are flushed to zero, each below 2^-126: the Kp * 2^-126 of the bound     |
// | CDNA 3     | seven of eight products lose less than 2^-24 of the greatest, together 7 * 2^-24 S; the running sum |
// |            | loses that much of S twice for every eight: 7 + Kp / 4 + Kp / 1024, below Kp + 6 from Kp = 16 on    |
// | the others | unknown; the CPU simulator checks the bound for sums rounded to nearest or truncated to 24 bits     |
#pragma once

#include <ufp4/gpu/kernels/folding.hpp>
#include <ufp4/hip/matrix_tile.hpp>
#include <ufp4/hip/mfma_gfx90a.hpp>
#include <ufp4/hip/wmma.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

struct matrix_bf16_job : product_group {
  folding side[2]{};
};
static_assert(sizeof(matrix_bf16_job) <= 4096);

template <class Tile>
struct matrix_bf16_worker {
  using tile = Tile;
  using job_type = matrix_bf16_job;
  using Op = typename Tile::Op;
  static constexpr unsigned words = Op::bf16_words;
  matrix_place<Tile> at;
  folding how;         ///< of the operand whose row this thread loads; a copy, because it is chosen at run time
  bool unfit = false;  ///< whether some product of this thread is outside bf16's normal range
  float acc[Tile::down][Tile::across][Op::sums] = {};

  UFP4_DEVICE matrix_bf16_worker(const matrix_bf16_job& job, const grouped_product& product, const tile_place& place)
      : at(job, product, place), how(at.is_left ? job.side[0] : job.side[1]) {}

  /// Eight products, without branches; `rounds` is how.rounds.
  template <bool rounds>
  UFP4_DEVICE thread::words4 fold(std::uint32_t codes, float scale, bool in_range) {
    const thread::split_halves s = thread::split_eight(how.values, codes);
    thread::words4 out;
    UFP4_UNROLL
    for (unsigned w = 0; w < 4; ++w) {
      const float first = rounded(thread::low_float(s, w) * scale);
      const float second = rounded(thread::high_float(s, w) * scale);
      out.word[w] = rounds ? thread::pair_bf16(first, second) : thread::upper_halves(first, second);
    }
    const bool all_zero = (s.low[0] | s.low[1] | ((s.high[0] | s.high[1]) & 0x7F7F7F7Fu)) == 0;
    unfit = unfit | (!in_range & !all_zero);
    return out;
  }
  template <bool rounds>
  UFP4_DEVICE void decode_as(unsigned step, const matrix_cargo& c) {
    const float scale[2] = {at.scale_of(c, step, 0), at.scale_of(c, step, 1)};
    const bool in_range[2] = {is_in_range(how, scale[0]), is_in_range(how, scale[1])};
    UFP4_UNROLL
    for (unsigned piece = 0; piece < 4; ++piece)
      at.put(step, piece, fold<rounds>(c.codes.word[piece], scale[piece / 2], in_range[piece / 2]));
  }
  UFP4_DEVICE void decode(unsigned step, const matrix_cargo& c) {
    if (how.rounds)
      decode_as<true>(step, c);
    else
      decode_as<false>(step, c);
  }

  UFP4_DEVICE void multiply(unsigned step) {
    using unit = typename matrix_place<Tile>::template unit<words>;
    UFP4_UNROLL
    for (unsigned u = 0; u < Tile::chunks * at.units; ++u) {
      unit a[Tile::down], b[Tile::across];
      at.template read<words>(step, at.wave_row(), u / at.units, u % at.units, a);
      at.template read<words>(step, Tile::rows + at.wave_col(), u / at.units, u % at.units, b);
      UFP4_UNROLL
      for (unsigned i = 0; i < at.unit_words / words; ++i) {
        UFP4_UNROLL
        for (unsigned m = 0; m < Tile::down; ++m) {
          UFP4_UNROLL
          for (unsigned n = 0; n < Tile::across; ++n) mma::multiply_bf16<Op>(acc[m][n], a[m][i], b[n][i]);
        }
      }
    }
  }

  UFP4_DEVICE bool usable() const { return !any_of_block(unfit); }
};

template <class Op>
bool matrix_bf16_takes(const gemm_job& job, const device_facts& device) {
  return matrix_cores_take<Op>(job, device) && folds(job.left, job.mode) && folds(job.right, job.mode);
}

template <class Op>
error run_matrix_bf16(std::span<const gemm_job> jobs, const device_facts& device, stream where) {
  const auto make_job = [](const gemm_job& job) {
    return matrix_bf16_job{{}, {folding_of(job.left), folding_of(job.right)}};
  };
  const auto kernel = [](bool large, const matrix_bf16_job&) {
    return large ? listed<&gemm_matrix<matrix_bf16_worker<matrix_tile<Op, 128>>>>
                 : listed<&gemm_matrix<matrix_bf16_worker<matrix_tile<Op, 64>>>>;
  };
  // no scales beside the operands: two thread blocks fit in 64 KiB
  return run_matrix_tiles(jobs, tile_side(jobs, device), 2 * matrix_tile<Op, 128>::operand_bytes, where, make_job,
                          kernel);
}

template <class Op>
constexpr gemm_kernel matrix_bf16_kernel(const char* name) {
  return matrix_kernel<&run_matrix_bf16<Op>>(name, Op::bf16_name, &matrix_bf16_takes<Op>);
}

inline constexpr gemm_kernel gemm_bf16_gfx90a = matrix_bf16_kernel<mma::mfma_gfx90a>("gemm_bf16_gfx90a");
inline constexpr gemm_kernel gemm_bf16_gfx950 = matrix_bf16_kernel<mma::mfma_gfx950>("gemm_bf16_gfx950");
inline constexpr gemm_kernel gemm_bf16_gfx11 = matrix_bf16_kernel<mma::wmma_gfx11>("gemm_bf16_gfx11");
inline constexpr gemm_kernel gemm_bf16_gfx12 = matrix_bf16_kernel<mma::wmma_gfx12>("gemm_bf16_gfx12");

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
