// ufp4 - quantized_gemm in integers over classes of dot products: the body of each tier of gemm_int8_neon.hpp.
// SPDX-License-Identifier: Apache-2.0
#if defined(__aarch64__)
#include <ufp4/cpu/kernels/gemm/int8_panels_neon.hpp>

UFP4_BEGIN_LANES()

using namespace neon;

/// Dots is a layout (int8_panels) with the dot products of a unit and eight columns: sum, begin(start), add(sums, left,
/// right) of 16 k, end(sum, start, c) as bits.
template <class Dots>
struct int8_gemm : int8_panels<Dots> {
  using int8_panels<Dots>::rows;

  static bool takes(const gemm_job& job) { return int8_fits(job) && Dots::fits(job); }

  static void multiply(const gemm_job& job, const std::byte* left, const std::byte* right, std::size_t live,
                       std::size_t length, float* acc, std::size_t stride) {
    return live <= Dots::unit_rows ? multiply_units<1>(job, left, right, length, acc, stride)
                                   : multiply_units<rows / Dots::unit_rows>(job, left, right, length, acc, stride);
  }

  template <std::size_t units>
  static void multiply_units(const gemm_job& job, const std::byte* left, const std::byte* right, std::size_t length,
                             float* acc, std::size_t stride) {
    constexpr std::size_t registers = Dots::unit_registers;
    const u32 start = broadcast(magic_bits(job));
    const std::size_t block = job.block;
    f32 kept[units][registers];
#pragma GCC unroll 4
    for (std::size_t u = 0; u < units; ++u)
#pragma GCC unroll 4
      for (std::size_t c = 0; c < registers; ++c) kept[u][c] = Dots::load_c(acc, stride, u, c);
    for (std::size_t k = 0; k < length; k += block) {
      typename Dots::sum sum[units];
#pragma GCC unroll 4
      for (std::size_t u = 0; u < units; ++u) sum[u] = Dots::begin(start);
      for (std::size_t i = 0; i < block; i += 16, left += Dots::left_piece, right += Dots::right_piece)
        Dots::add(sum, left, right);
#pragma GCC unroll 4
      for (std::size_t u = 0; u < units; ++u) {
        const f32 by = Dots::by_rows(left, u);
#pragma GCC unroll 4
        for (std::size_t c = 0; c < registers; ++c)
          kept[u][c] = fma(as_float(Dots::end(sum[u], start, c)) - as_float(start),
                           rounded(load_as<f32>(right + 16 * c) * by), kept[u][c]);
      }
      left += 4 * Dots::left_scales;
      right += 4 * Dots::right_scales;
    }
#pragma GCC unroll 4
    for (std::size_t u = 0; u < units; ++u)
#pragma GCC unroll 4
      for (std::size_t c = 0; c < registers; ++c) Dots::store_c(acc, stride, u, c, kept[u][c]);
  }
};

template <class Dots, features needs = features::all>
inline constexpr gemm_kernel int8_kernel =
    wide_kernel_of<blocked_gemm<int8_gemm<Dots>>, needs>(Dots::tier, Dots::name, Dots::tile_depth, 512, 128);

/// The sums of a unit in 32 bits, which any grid fits.
template <std::size_t registers>
struct sums_of_32_bits {
  struct sum {
    u32 v[registers];
  };

  static bool fits(const gemm_job&) { return true; }

  UFP4_LANE static sum begin(u32 start) {
    if constexpr (registers == 2) return {{start, start}};
    if constexpr (registers == 4) return {{start, start, start, start}};
  }
  UFP4_LANE static u32 end(const sum& s, u32, std::size_t c) { return s.v[c]; }
};

/// sum[p].v[c] += the products of 16 bytes of pair p of rows and pair c of columns.
template <class Sum, std::size_t pairs, class Add>
UFP4_LANE void add_matrices(Sum (&sum)[pairs], const std::byte* left, const std::byte* right, const Add& add) {
  u8 b[4];
#pragma GCC unroll 4
  for (std::size_t c = 0; c < 4; ++c) b[c] = load_as<u8>(right + 16 * c);
#pragma GCC unroll 4
  for (std::size_t p = 0; p < pairs; ++p) {
    const u8 a = load_as<u8>(left + 16 * p);
#pragma GCC unroll 4
    for (std::size_t c = 0; c < 4; ++c) add(sum[p].v[c], a, b[c]);
  }
}
UFP4_END_LANES
#endif
