// ufp4 - quantized_gemm, exact_blocks, by WMMA in 4-bit integers, for the grids whose values are such: int4 and E1M2.
// SPDX-License-Identifier: Apache-2.0
//
// A grid whose integers are in -8 .. 7 needs no table: int4's codes are the operands, and E1M2's codes, a sign and a
// magnitude, become two's complement in seven instructions for eight codes. One instruction computes the dot product of
// a block of 16 or (gfx12) of 32, several in sequence that of a longer block, exactly. Then acc = fma(d, fl(sA sB),
// acc) in block order: the same bits as on the CPU.
//
// A sum becomes d in one instruction: it starts from the bits of the float 1.5 * 2^23. Adding an integer below 2^22 to
// those bits adds it to that float f, and fma(f, unit, -1.5 * 2^23 * unit) is d, exactly.
//
// The loop over K is in matrix_tile.hpp.
#pragma once

#include <ufp4/hip/matrix_tile.hpp>
#include <ufp4/hip/wmma.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

struct iu4_job : product_group {
  std::uint32_t signs[2] = {};  ///< if codes have a sign and a magnitude: the bits of the signs; else 0
  float unit = 1, offset = 0;   ///< the product of the grids' units; -1.5 * 2^23 times that
};
static_assert(sizeof(iu4_job) <= 4096);

inline constexpr std::uint32_t no_sum_bits = 0x4B400000u;  ///< of 1.5 * 2^23

/// Eight codes as two's complement; `signs`: the bits of their signs, or 0 if they are two's complement already. A
/// negative code of magnitude m becomes 7 - m, plus 1, with the sign bit inverted: 16 - m, or 0 if m is 0, no carry.
UFP4_DEVICE std::uint32_t signed_nibbles(std::uint32_t codes, std::uint32_t signs) {
  const std::uint32_t negative = codes & signs, ones = negative >> 3;
  return (((codes ^ negative) ^ (negative - ones)) + ones) ^ negative;
}

/// `ones`: one instruction computes a block's whole dot product.
template <class Tile, bool ones>
struct iu4_worker {
  using tile = Tile;
  using job_type = iu4_job;
  using Op = typename Tile::Op;
  using fragment = std::uint32_t[Op::words];
  static constexpr unsigned each = 32 / Op::depth;  ///< instructions for the 32 columns of a panel
  static constexpr unsigned waves = waves_of<Op>(1);

  matrix_place<Tile> at;
  std::uint32_t signs;
  unsigned block;
  float unit, offset;
  float acc[Tile::down][Tile::across][Op::sums] = {};
  std::int32_t dot[ones ? 1 : Tile::down][ones ? 1 : Tile::across][Op::sums];

  UFP4_DEVICE iu4_worker(const iu4_job& job, const grouped_product& product, const tile_place& place)
      : at(job, product, place),
        signs(at.is_left ? job.signs[0] : job.signs[1]),
        block(job.block),
        unit(job.unit),
        offset(job.offset) {
    UFP4_UNROLL
    for (auto& row : dot) {
      UFP4_UNROLL
      for (auto& d : row) begin(d);
    }
  }
  UFP4_DEVICE static void begin(std::int32_t (&d)[Op::sums]) {
    UFP4_UNROLL
    for (unsigned i = 0; i < Op::sums; ++i) d[i] = static_cast<std::int32_t>(no_sum_bits);
  }

  /// Panels of 32 columns one after another, each with all its lines, 16 bytes a line: 16 lines have no bank conflict.
  UFP4_DEVICE unsigned char* line_of(unsigned step, unsigned panel, unsigned line) const {
    return at.operands(step) + 16 * (panel * Tile::lines + line);
  }

  UFP4_DEVICE void decode(unsigned step, const matrix_cargo& c) const {
    thread::words4 nibbles;
    UFP4_UNROLL
    for (unsigned w = 0; w < 4; ++w) nibbles.word[w] = signed_nibbles(c.codes.word[w], signs);
    *reinterpret_cast<thread::words4*>(line_of(step, at.half, at.line)) = nibbles;
    at.put_scales(step, c);
  }

  /// Fragments of instruction i of a panel: 16 or 32 columns, in an order along K that is the same for both operands.
  template <unsigned count>
  UFP4_DEVICE void read(unsigned step, unsigned panel, unsigned i, unsigned first, fragment (&to)[count]) const {
    const unsigned word = i * (Op::depth / 8) + lane() / 16 % Op::groups * Op::words;
    UFP4_UNROLL
    for (unsigned p = 0; p < count; ++p) {
      const auto* from = reinterpret_cast<const std::uint32_t*>(line_of(step, panel, first + 16 * p + lane() % 16));
      UFP4_UNROLL
      for (unsigned w = 0; w < Op::words; ++w) to[p][w] = from[word + w];
    }
  }

  /// acc = fma(d, fl(sA sB), acc) of a 16 x 16 part of C.
  UFP4_DEVICE void finish(const std::int32_t (&d)[Op::sums], const float (&left)[Op::sums], float right,
                          float (&to)[Op::sums]) const {
    UFP4_UNROLL
    for (unsigned i = 0; i < Op::sums; ++i) {
      const float shifted = to_float(static_cast<std::uint32_t>(d[i]));
      const float exact = fma(shifted, unit, offset);
      to[i] = fma(exact, rounded(left[i] * right), to[i]);
    }
  }

  /// An instruction for each part of the wave's tile; `ends`: a block's last. Scales are those of its last columns.
  UFP4_DEVICE void multiply_columns(unsigned step, unsigned panel, unsigned i, bool ends) {
    const unsigned sixteen = 2 * panel + (i + 1) * (Op::depth / 16) - 1;
    fragment a[Tile::down], b[Tile::across];
    read(step, panel, i, at.wave_row(), a);
    read(step, panel, i, Tile::rows + at.wave_col(), b);
    UFP4_UNROLL
    for (unsigned m = 0; m < Tile::down; ++m) {
      float left[Op::sums];
      if (ends) at.left_scales(step, sixteen, m, left);
      UFP4_UNROLL
      for (unsigned n = 0; n < Tile::across; ++n) {
        auto& d = dot[ones ? 0 : m][ones ? 0 : n];
        if constexpr (ones) {
          std::int32_t whole[Op::sums];
          begin(whole);
          mma::multiply_iu4<Op>(whole, a[m], b[n]);
          finish(whole, left, at.right_scale(step, sixteen, n), acc[m][n]);
        } else {
          mma::multiply_iu4<Op>(d, a[m], b[n]);
          if (ends) finish(d, left, at.right_scale(step, sixteen, n), acc[m][n]), begin(d);
        }
      }
    }
  }

  UFP4_DEVICE void multiply(unsigned step) {
    UFP4_UNROLL
    for (unsigned panel = 0; panel < Tile::panels; ++panel) {
      UFP4_UNROLL
      for (unsigned i = 0; i < each; ++i) {
        const unsigned end = step * Tile::depth + 32 * panel + (i + 1) * Op::depth;
        if (end <= at.padded) multiply_columns(step, panel, i, ones || end % block == 0);  // the same for all threads
      }
    }
  }

  UFP4_DEVICE bool usable() const { return true; }
};

/// Whether codes are the grid's integers: in two's complement, or as a sign and a magnitude.
constexpr bool codes_are_integers(const grid4& grid, bool twos_complement) {
  for (int c = 0; c < 16; ++c)
    if (grid.integer[c] != (c < 8 ? c : twos_complement ? c - 16 : 8 - c)) return false;
  return true;
}

template <class Op>
constexpr bool fits_iu4(const gemm_job& job) {
  const auto fits = [](const grid4& grid) { return codes_are_integers(grid, true) || codes_are_integers(grid, false); };
  return exact_dots_below(job, 1 << 22) && fits(job.left.grid) && fits(job.right.grid) && job.block % Op::depth == 0;
}
template <class Op>
bool iu4_takes(const gemm_job& job, const device_facts& device) {
  return matrix_cores_take<Op>(job, device) && job.mode != accumulate::folded_bf16 && fits_iu4<Op>(job);
}

template <class Op, class Product>
error run_iu4(std::span<const gemm_job> jobs, const device_facts& device, stream where) {
  const auto make_job = [](const gemm_job& job) {
    const auto signs = [](const grid4& grid) { return codes_are_integers(grid, true) ? 0u : 0x88888888u; };
    const float unit = job.left.grid.unit * job.right.grid.unit;
    return iu4_job{{}, {signs(job.left.grid), signs(job.right.grid)}, unit, -0x1.8p23f * unit};
  };
  if constexpr (Product::may(&fits_iu4<Op>)) {
    const auto kernel = [](bool large, const iu4_job& job) {
      using large_tile = matrix_tile<Op, 128>;
      using small_tile = matrix_tile<Op, 64>;
      if (job.block == Op::depth)
        return large ? listed<&gemm_matrix<iu4_worker<large_tile, true>>>
                     : listed<&gemm_matrix<iu4_worker<small_tile, true>>>;
      return large ? listed<&gemm_matrix<iu4_worker<large_tile, false>>>
                   : listed<&gemm_matrix<iu4_worker<small_tile, false>>>;
    };
    return run_matrix_tiles(jobs, tile_side(jobs, device), matrix_tile<Op, 128>::shared_bytes, where, make_job, kernel);
  }
  return not_supported;
}

template <class Op, class Product>
constexpr gemm_kernel iu4_kernel(const char* name) {
  return matrix_kernel<&run_iu4<Op, Product>, accumulate::exact_blocks>(name, Op::instruction, &iu4_takes<Op>);
}

template <class Product = any_product>
inline constexpr gemm_kernel gemm_iu4_gfx11 = iu4_kernel<mma::wmma_iu4_gfx11, Product>("gemm_iu4_gfx11");
/// Blocks of 32 and longer; and those of 16.
template <class Product = any_product>
inline constexpr gemm_kernel gemm_iu4_gfx12 = iu4_kernel<mma::wmma_iu4_gfx12<32>, Product>("gemm_iu4_gfx12");
template <class Product = any_product>
inline constexpr gemm_kernel gemm_iu4_k16_gfx12 = iu4_kernel<mma::wmma_iu4_gfx12<16>, Product>("gemm_iu4_k16_gfx12");

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
