// ufp4 - quantized_gemm, exact_blocks, on the matrix cores of AMD GPUs: one kernel for MFMA and both kinds of WMMA.
// SPDX-License-Identifier: Apache-2.0
//
// The grids' values are small integers times a power of two, and exact in fp16. The dot product of a block of 16 has
// less than 24 bits, so one instruction with K = 16 computes it exactly in binary32, in any order; several in sequence
// compute that of a longer block. Then acc = fma(d, fl(sA sB), acc) in block order: the same bits as on the CPU.
//
// The loop over K is in matrix_tile.hpp; scales are stored in shared memory as floats, after the decoded values. Two
// operations for each of a lane's sums limit the speed. 8-bit integers would not be faster: gfx90a multiplies them at
// the rate of fp16, and gfx942's faster instruction, of K = 32, spans two blocks of 16 and gives integer sums that must
// be converted first.
#pragma once

#include <ufp4/hip/matrix_tile.hpp>
#include <ufp4/hip/mfma_gfx90a.hpp>
#include <ufp4/hip/wmma.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

struct matrix_blocks_job : product_group {
  thread::half_table values[2]{};  ///< of the grids, as fp16
};
static_assert(sizeof(matrix_blocks_job) <= 4096);

/// How long the registers with the sums of a block are in use:
///
/// | kind | blocks of    | sums are kept                                                |
/// |------|--------------|--------------------------------------------------------------|
/// | 16   | 16           | for one instruction                                          |
/// | 32   | 32           | for the instructions of a slab, for 16 rows at a time        |
/// | 64   | 64, 128, ... | from step to step, for all rows, in twice as many registers  |
template <class Tile, unsigned kind>
struct matrix_blocks_worker {
  using tile = Tile;
  using job_type = matrix_blocks_job;
  using Op = typename Tile::Op;
  static constexpr unsigned words = Op::f16_words, waves = waves_of<Op>(kind == 64 ? 1 : 2);
  using unit = typename matrix_place<Tile>::template unit<words>;
  static constexpr unsigned sixteens = matrix_place<Tile>::unit_words / words;   ///< of columns, in a unit
  static constexpr unsigned round = kind == 32 ? matrix_place<Tile>::units : 1;  ///< units read at once
  static_assert(sixteens * matrix_place<Tile>::units == 2, "an instruction multiplies 16 columns");
  using sums = float[Tile::across][Op::sums];

  matrix_place<Tile> at;
  thread::half_table values;  ///< of the operand whose row this thread loads; a copy, because it is chosen at run time
  unsigned block;
  sums acc[Tile::down] = {};
  sums dot[kind == 64 ? Tile::down : 1] = {};

  UFP4_DEVICE matrix_blocks_worker(const matrix_blocks_job& job, const grouped_product& product,
                                   const tile_place& place)
      : at(job, product, place), values(at.is_left ? job.values[0] : job.values[1]), block(job.block) {}

  /// The codes of part `part`. If an instruction takes half a part, the halves are from the first and from the last
  /// 16 columns: four columns of either for each of the four groups of lanes.
  UFP4_DEVICE static std::uint32_t codes_of(const matrix_cargo& c, unsigned part) {
    if constexpr (words == 2)
      return thread::select_bytes(c.codes.word[2 + part / 2], c.codes.word[part / 2],
                                  part % 2 == 0 ? 0x05040100u : 0x07060302u);
    else
      return c.codes.word[part];
  }

  UFP4_DEVICE void decode(unsigned step, const matrix_cargo& c) const {
    UFP4_UNROLL
    for (unsigned part = 0; part < 4; ++part) {
      const thread::split_halves s = thread::split_eight(values, codes_of(c, part));
      thread::words4 elements;
      UFP4_UNROLL
      for (unsigned w = 0; w < 4; ++w) elements.word[w] = thread::halves_word(s, w);
      at.put(step, part, elements);
    }
    at.put_scales(step, c);
  }

  /// acc = fma(d, fl(sA sB), acc) of 16 rows of the wave, and d = 0; the scales are those of 16 columns of the step.
  UFP4_DEVICE void finish(unsigned step, unsigned sixteen, unsigned m, sums& d) {
    float left[Op::sums];
    at.left_scales(step, sixteen, m, left);
    UFP4_UNROLL
    for (unsigned n = 0; n < Tile::across; ++n) {
      const float right = at.right_scale(step, sixteen, n);
      UFP4_UNROLL
      for (unsigned i = 0; i < Op::sums; ++i) {
        acc[m][n][i] = fma(d[n][i], left[i] * right, acc[m][n][i]);
        d[n][i] = 0;
      }
    }
  }

  UFP4_DEVICE bool ends_block(unsigned sixteen, unsigned end) const {
    return kind == 16 || (kind == 32 ? sixteen % 2 == 1 : end % block == 0);
  }

  UFP4_DEVICE void multiply(unsigned step) {
    UFP4_UNROLL
    for (unsigned first = 0; first < Tile::panels * at.units; first += round) {
      unit a[round][Tile::down], b[round][Tile::across];
      UFP4_UNROLL
      for (unsigned r = 0; r < round; ++r) {
        const unsigned slab = (first + r) / at.units, u = (first + r) % at.units;
        at.template read<words>(step, at.wave_row(), slab, u, a[r]);
        at.template read<words>(step, Tile::rows + at.wave_col(), slab, u, b[r]);
      }
      UFP4_UNROLL
      for (unsigned m = 0; m < Tile::down; ++m) {
        sums& d = dot[kind == 64 ? m : 0];
        UFP4_UNROLL
        for (unsigned i = 0; i < round * sixteens; ++i) {
          const unsigned sixteen = first * sixteens + i, end = step * Tile::depth + 16 * sixteen + 16;
          if (end > at.padded) continue;  // the same for the whole thread block
          UFP4_UNROLL
          for (unsigned n = 0; n < Tile::across; ++n)
            mma::multiply_f16<Op>(d[n], a[i / sixteens][m][i % sixteens], b[i / sixteens][n][i % sixteens]);
          if (ends_block(sixteen, end)) finish(step, sixteen, m, d);
        }
      }
    }
  }

  UFP4_DEVICE bool usable() const { return true; }
};

/// Whether every value is a normal fp16 number or 0; CDNA 2 flushes subnormal operands to zero.
constexpr bool is_normal_f16(const grid4& grid) {
  for (const float v : grid.value)
    if (v != 0.0f && magnitude(v) < 0x1p-14f) return false;
  return thread::fits_f16(grid);
}

constexpr bool has_f16_dots(const gemm_job& job) {
  return exact_dots_below(job, 1 << 24) && is_normal_f16(job.left.grid) && is_normal_f16(job.right.grid);
}
template <class Op>
bool matrix_blocks_take(const gemm_job& job, const device_facts& device) {
  return matrix_cores_take<Op>(job, device) && job.mode != accumulate::folded_bf16 && has_f16_dots(job);
}

/// The kernel for blocks of 16, of 32, or (64) of any greater length.
template <class Op, unsigned block>
auto matrix_blocks_of(bool large) {
  constexpr unsigned side = block > 16 && Op::wave == 32 ? 64 : 128;
  return large ? listed<&gemm_matrix<matrix_blocks_worker<matrix_tile<Op, side>, block>>>
               : listed<&gemm_matrix<matrix_blocks_worker<matrix_tile<Op, 64>, block>>>;
}

/// The side of the tiles of jobs. A wave of 32 has too few registers for the sums of longer blocks in a large tile.
template <class Op>
unsigned matrix_blocks_side(std::span<const gemm_job> jobs, const device_facts& device) {
  return tile_side(jobs, device, Op::wave == 32 && !jobs.empty() && jobs.front().block > 16);
}

template <class Op, unsigned block>
error run_matrix_blocks_of(std::span<const gemm_job> jobs, const device_facts& device, stream where) {
  const auto make_job = [](const gemm_job& job) {
    return matrix_blocks_job{{}, {thread::f16_table_of(job.left.grid), thread::f16_table_of(job.right.grid)}};
  };
  const auto kernel = [](bool large, const matrix_blocks_job&) { return matrix_blocks_of<Op, block>(large); };
  return run_matrix_tiles(jobs, matrix_blocks_side<Op>(jobs, device), matrix_tile<Op, 128>::shared_bytes, where,
                          make_job, kernel);
}

template <class Op, class Product>
error run_matrix_blocks(std::span<const gemm_job> jobs, const device_facts& device, stream where) {
  if (jobs.empty()) return success;
  const unsigned block = jobs.front().block;
  if constexpr (Product::may([](const gemm_job& p) { return has_length<16>(p) && has_f16_dots(p); }))
    if (block == 16) return run_matrix_blocks_of<Op, 16>(jobs, device, where);
  if constexpr (Product::may([](const gemm_job& p) { return has_length<32>(p) && has_f16_dots(p); }))
    if (block == 32) return run_matrix_blocks_of<Op, 32>(jobs, device, where);
  if constexpr (Product::may([](const gemm_job& p) { return p.block > 32 && has_f16_dots(p); }))
    return run_matrix_blocks_of<Op, 64>(jobs, device, where);
  return not_supported;
}

template <class Op, class Product>
constexpr gemm_kernel matrix_blocks_kernel(const char* name) {
  const auto tile = [](const gemm_job& job, const device_facts& device) {
    const unsigned side = matrix_blocks_side<Op>({&job, 1}, device);
    return tile_shape{side, side};
  };
  return matrix_kernel<&run_matrix_blocks<Op, Product>, accumulate::exact_blocks>(name, Op::f16_name,
                                                                                  &matrix_blocks_take<Op>, tile);
}

template <class Product = any_product>
inline constexpr gemm_kernel gemm_blocks_gfx90a = matrix_blocks_kernel<mma::mfma_gfx90a, Product>("gemm_blocks_gfx90a");
template <class Product = any_product>
inline constexpr gemm_kernel gemm_blocks_gfx11 = matrix_blocks_kernel<mma::wmma_gfx11, Product>("gemm_blocks_gfx11");
template <class Product = any_product>
inline constexpr gemm_kernel gemm_blocks_gfx12 = matrix_blocks_kernel<mma::wmma_gfx12, Product>("gemm_blocks_gfx12");

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
