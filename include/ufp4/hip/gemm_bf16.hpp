// ufp4 - quantized_gemm, fast and folded_bf16, on the matrix cores of AMD GPUs: element x scale as bf16, MFMA or WMMA.
// SPDX-License-Identifier: Apache-2.0
//
// Which formats each mode takes: folds (gpu/kernels/folding.hpp). A tile with a product outside bf16's normal range is
// computed again, as in cuda/gemm_bf16_sm80.hpp, so no result depends on a subnormal operand.
//
// The loop over K is in matrix_tile.hpp. Decoding multiplies a scale and the values of the grid once per block of 16,
// not each element: eight products, because most grids are mirrored (code c + 8 is minus code c), make a table of bf16
// numbers in registers, and byte permutes look up the elements in it.
//
// K is summed in ascending order, 16 or 32 columns at a time, for either tile size: the bits depend only on the
// operands and the device. Why the bound of `fast` holds: docs/gpu.md.
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

/// Is the value of code c + 8 minus that of code c, for zeros too, and is 0 the value of codes 0 and 8 alone?
constexpr bool is_mirrored(const grid4& grid) {
  bool mirrored = grid.value[0] == 0;
  for (unsigned c = 0; c < 8; ++c)
    mirrored =
        mirrored && (c == 0 || grid.value[c] != 0) && to_bits(grid.value[c + 8]) == (to_bits(grid.value[c]) ^ 1u << 31);
  return mirrored;
}

/// The products of one scale with the values of a grid as bf16, in a table; of a mirrored grid those of codes 0 to 7.
template <bool mirrored>
struct folded_block {
  static constexpr unsigned words = mirrored ? 2 : 4;
  thread::half_table products{};
  std::uint32_t flips;  ///< the sign bits of eight codes if the scale is negative

  UFP4_DEVICE folded_block(const float (&value)[16], float scale, bool rounds) {
    UFP4_UNROLL
    for (unsigned w = 0; w < words; ++w) {
      std::uint32_t pair[2];
      UFP4_UNROLL
      for (unsigned i = 0; i < 2; ++i) {
        const unsigned c = 4 * w + 2 * i;
        float two[2];
        thread::multiply_pair(value[c], value[c + 1], scale, two);
        pair[i] = rounds ? thread::pair_bf16(two[0], two[1]) : thread::upper_halves(two[0], two[1]);
      }
      products.low.word[w] = thread::select_bytes(pair[1], pair[0], 0x06040200u);
      products.high.word[w] = thread::select_bytes(pair[1], pair[0], 0x07050301u);
    }
    flips = (to_bits(scale) >> 31) * 0x88888888u;
  }

  /// Eight products, in the order of split_eight.
  UFP4_DEVICE thread::words4 operator()(std::uint32_t codes) const {
    thread::split_halves s;
    if constexpr (mirrored)
      s = look_up_mirrored(codes);
    else
      s = thread::split_eight(products, codes);
    thread::words4 out;
    UFP4_UNROLL
    for (unsigned w = 0; w < 4; ++w) out.word[w] = thread::halves_word(s, w);
    return out;
  }

 private:
  UFP4_DEVICE thread::split_halves look_up_mirrored(std::uint32_t codes) const {
    constexpr std::uint32_t sign = 0x80808080u;
    const std::uint32_t signed_codes = codes ^ flips;
    thread::split_halves s;
    UFP4_UNROLL
    for (unsigned odd = 0; odd < 2; ++odd) {
      const std::uint32_t place = codes >> 4 * odd & 0x07070707u, signs = odd == 0 ? signed_codes << 4 : signed_codes;
      s.low[odd] = thread::select_bytes(products.low.word[1], products.low.word[0], place);
      const std::uint32_t high = thread::select_bytes(products.high.word[1], products.high.word[0], place);
      s.high[odd] = (high & ~sign) | (signs & sign);
    }
    return s;
  }
};

/// `plain`: both grids are mirrored, and no product has more than 8 significant bits.
template <class Tile, bool usual>
struct matrix_bf16_worker {
  using tile = Tile;
  using job_type = matrix_bf16_job;
  using Op = typename Tile::Op;
  static constexpr unsigned words = Op::bf16_words, waves = waves_of<Op>(2);
  matrix_place<Tile> at;
  folding how;         ///< of the operand whose row this thread loads; a copy, because it is chosen at run time
  float value[16];     ///< of its grid
  bool unfit = false;  ///< whether some product of this thread is outside bf16's normal range
  float acc[Tile::down][Tile::across][Op::sums] = {};

  UFP4_DEVICE matrix_bf16_worker(const matrix_bf16_job& job, const grouped_product& product, const tile_place& place)
      : at(job, product, place), how(at.is_left ? job.side[0] : job.side[1]) {
    UFP4_UNROLL
    for (unsigned c = 0; c < 16; ++c) value[c] = at.is_left ? job.value[0][c] : job.value[1][c];
  }

  UFP4_DEVICE bool all_zero(std::uint32_t codes) const {
    if constexpr (usual) return (codes & 0x77777777u) == 0;
    const thread::split_halves s = thread::split_eight(how.values, codes);
    return (s.low[0] | s.low[1] | ((s.high[0] | s.high[1]) & 0x7F7F7F7Fu)) == 0;
  }
  /// Marks the tile if a product of these sixteen codes with a scale is outside bf16's normal range.
  UFP4_DEVICE void check(float scale, std::uint32_t first, std::uint32_t second) {
    if (!is_in_range(how, scale)) unfit = unfit | !(all_zero(first) && all_zero(second));
  }
  UFP4_DEVICE void decode(unsigned step, const matrix_cargo& c) {
    UFP4_UNROLL
    for (unsigned i = 0; i < 2; ++i) {
      const float scale = at.scale_of(c, step, i);
      const folded_block<usual> fold(value, scale, !usual && how.rounds);
      check(scale, c.codes.word[2 * i], c.codes.word[2 * i + 1]);
      UFP4_UNROLL
      for (unsigned part = 2 * i; part < 2 * i + 2; ++part) at.put(step, part, fold(c.codes.word[part]));
    }
  }

  UFP4_DEVICE void multiply(unsigned step) {
    using unit = typename matrix_place<Tile>::template unit<words>;
    UFP4_UNROLL
    for (unsigned u = 0; u < Tile::panels * at.units; ++u) {
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

/// Are the products of both sides looked up as in folded_block<true>, without rounding?
constexpr bool are_usual(const gemm_job& job) {
  const auto is_usual = [](const gemm_side& side) { return is_mirrored(side.grid) && products_fit(side); };
  return is_usual(job.left) && is_usual(job.right);
}

template <class Op, bool usual>
error run_matrix_bf16_as(std::span<const gemm_job> jobs, const device_facts& device, stream where) {
  const auto make_job = [](const gemm_job& job) {
    return matrix_bf16_job{{}, {folding_of(job.left), folding_of(job.right)}};
  };
  const auto kernel = [](bool large, const matrix_bf16_job&) {
    return large ? listed<&gemm_matrix<matrix_bf16_worker<matrix_tile<Op, 128>, usual>>>
                 : listed<&gemm_matrix<matrix_bf16_worker<matrix_tile<Op, 64>, usual>>>;
  };
  // no scales beside the operands: two thread blocks fit in 64 KiB
  return run_matrix_tiles(jobs, tile_side(jobs, device), 2 * matrix_tile<Op, 128>::operand_bytes, where, make_job,
                          kernel);
}

template <class Op, class Product>
error run_matrix_bf16(std::span<const gemm_job> jobs, const device_facts& device, stream where) {
  if (jobs.empty()) return success;
  if constexpr (Product::may(&may_fold)) {
    if constexpr (Product::may(&are_usual))
      if (are_usual(jobs.front())) return run_matrix_bf16_as<Op, true>(jobs, device, where);
    if constexpr (Product::may([](const gemm_job& p) { return !are_usual(p); }))
      return run_matrix_bf16_as<Op, false>(jobs, device, where);
  }
  return not_supported;
}

template <class Op, class Product>
constexpr gemm_kernel matrix_bf16_kernel(const char* name) {
  return matrix_kernel<&run_matrix_bf16<Op, Product>>(name, Op::bf16_name, &matrix_bf16_takes<Op>);
}

template <class Product = any_product>
inline constexpr gemm_kernel gemm_bf16_gfx90a = matrix_bf16_kernel<mma::mfma_gfx90a, Product>("gemm_bf16_gfx90a");
template <class Product = any_product>
inline constexpr gemm_kernel gemm_bf16_gfx950 = matrix_bf16_kernel<mma::mfma_gfx950, Product>("gemm_bf16_gfx950");
template <class Product = any_product>
inline constexpr gemm_kernel gemm_bf16_gfx11 = matrix_bf16_kernel<mma::wmma_gfx11, Product>("gemm_bf16_gfx11");
template <class Product = any_product>
inline constexpr gemm_kernel gemm_bf16_gfx12 = matrix_bf16_kernel<mma::wmma_gfx12, Product>("gemm_bf16_gfx12");

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
