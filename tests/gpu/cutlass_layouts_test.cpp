// ufp4 - descriptors, swizzles, fragments and scale layouts equal those of CUTLASS.
// SPDX-License-Identifier: Apache-2.0
//
// The numbers are those of CUTLASS's own constexpr code, compared once with no difference: cute/arch/mma_sm90_desc.hpp,
// mma_sm100_desc.hpp; cute/atom/mma_traits_sm90_gmma.hpp, mma_traits_sm120.hpp; cutlass/detail/
// sm100_blockscaled_layout.hpp. A layout is written as CUTLASS writes it: extents and strides of a coordinate's digits,
// the lowest first. It maps (lane, element of the lane) to the index in the tile, or (row, column) to the place in
// memory.
#include "gpu/device.hpp"

#include <ufp4/cuda/block_mma_sm120.hpp>
#include <ufp4/cuda/tcgen05_sm100.hpp>
#include <ufp4/cuda/wgmma_sm90.hpp>
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/skip.hpp"

#include <initializer_list>
#include <vector>

using namespace ufp4;

namespace {

namespace mma = gpu::mma;

struct digit {
  unsigned extent, stride;
};
/// The sum of digit * stride over the digits of x.
unsigned place(unsigned x, std::initializer_list<digit> digits) {
  unsigned at = 0;
  for (const digit d : digits) at += x % d.extent * d.stride, x /= d.extent;
  return at;
}

/// Where the 16-byte piece p of row r is in rows of 128 bytes, in units of 16 bytes from the row's begin: the swizzle
/// of Layout_K_SW128_Atom.
constexpr unsigned swizzle_128[8][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}, {2, 3, 0, 1, 6, 7, 4, 5},
                                        {3, 2, 1, 0, 7, 6, 5, 4}, {4, 5, 6, 7, 0, 1, 2, 3}, {5, 4, 7, 6, 1, 0, 3, 2},
                                        {6, 7, 4, 5, 2, 3, 0, 1}, {7, 6, 5, 4, 3, 2, 1, 0}};

}  // namespace

TEST_CASE("the descriptors of operands in shared memory are those of CUTLASS", "[gpu]") {
  // GmmaDescriptor: address 0x2400, leading 1, stride 64 (of 16 bytes), LayoutType::B128
  STATIC_REQUIRE(mma::operand_128(0x2400) == 0x4000004000010240u);
  // UMMA::SmemDescriptor: version 1, address 0x2C400; SWIZZLE_128B with stride 64; SWIZZLE_NONE with stride 8
  STATIC_REQUIRE(mma::tensor_descriptor(0x2C400, 0, 1024, mma::swizzle::bytes_128) == 0x4000404000002C40u);
  STATIC_REQUIRE(mma::tensor_descriptor(0x2C400, 0, 128, mma::swizzle::none) == 0x0000400800002C40u);
}

TEST_CASE("the instruction descriptors of block-scaled products are those of CUTLASS", "[gpu]") {
  // UMMA::make_instr_desc_block_scaled of float_e2m1_t, 128 x 128, both operands K-major
  STATIC_REQUIRE(mma::instruction_descriptor({.scale = mma::block_scale::ue4m3}) == 0x08200480u);
  // with float_ue8m0_t, and a_sf_id_ and b_sf_id_ 2
  STATIC_REQUIRE(mma::instruction_descriptor({.scale = mma::block_scale::ue8m0, .scale_a = 2, .scale_b = 2}) ==
                 0x48A004A0u);
  // 256 x 256 for a pair of thread blocks: m_dim_ 16 in bits 24 to 28, n_dim_ 32 in bits 17 to 22
  STATIC_REQUIRE(mma::instruction_descriptor({.rows = 256, .cols = 256}) == 0x10400480u);
}

TEST_CASE("the 128-byte swizzle is that of CUTLASS's K-major layouts of bf16 and of 4-bit elements", "[gpu]") {
  for (unsigned row = 0; row < 128; ++row)
    for (unsigned piece = 0; piece < 8; ++piece)  // 8 elements of bf16, or 32 of 4 bits
      REQUIRE(mma::swizzled_offset(row, piece) == 128 * row + 16 * swizzle_128[row % 8][piece]);
}

TEST_CASE("the sums of a warpgroup are where CUTLASS's CLayout_64x128 has them", "[gpu]") {
  for (unsigned t = 0; t < 128; ++t)
    for (unsigned i = 0; i < 64; ++i) {
      const unsigned at = place(t, {{4, 128}, {8, 1}, {4, 16}}) + place(i, {{2, 64}, {2, 8}, {16, 512}});
      REQUIRE(mma::sum_row(t, i) == at % 64);
      REQUIRE(mma::sum_col(t, i) == at / 64);
    }
}

TEST_CASE("scales are where CUTLASS's SfKMajorAtom and its tiles have them", "[gpu]") {
  for (unsigned row = 0; row < 128; ++row)
    for (unsigned block = 0; block < 4; ++block)
      REQUIRE(mma::scale_offset(row, block) == place(row, {{32, 16}, {4, 4}}) + block);
  // tile_atom_to_shape_SFA of 384 rows and 512 columns in blocks of 16: tiles along K first
  for (unsigned row = 0; row < 384; ++row)
    for (unsigned block = 0; block < 32; ++block)
      REQUIRE(compat::swizzled_index(row, block, 32) ==
              place(row, {{32, 16}, {4, 4}, {3, 4096}}) + place(block, {{4, 1}, {8, 512}}));
}

namespace {

/// What a lane holds for mma.sync kind::mxf4nvf4.
struct lane_words {
  std::uint32_t a[4] = {}, b[2] = {}, scales_a = 0, scales_b = 0;
  float d[4] = {};
};
struct tile_job {
  lane_words* lanes;
};
UFP4_KERNEL(32) multiply_tile(const tile_job job) {
  lane_words& mine = job.lanes[gpu::lane()];
  mma::mma_mxf4nvf4(mine.d, mine.a, mine.b, mine.scales_a, mine.scales_b);
}

bool has_block_mma() {
#if defined(UFP4_SIMT_HEADER)
  simt::device().architecture = 120;
#endif
  gpu::device_facts device;
  return gpu::facts(device) == gpu::success && device.has_specific(12);
}

/// Codes and scales whose products differ from place to place; 0x38 is 1, 0x40 is 2 and 0x48 is 4.
unsigned code_at(unsigned line, unsigned k) { return (line * 5 + k * 3 + line * k) % 16; }
unsigned scale_at(unsigned line, unsigned block) { return 0x38u + 8 * ((line + 2 * block) % 3); }
double value_at(unsigned line, unsigned k) {
  const auto code = fp4<E2M1>::from_bits(static_cast<std::uint8_t>(code_at(line, k)));
  const auto scale = e4m3::from_bits(static_cast<std::uint8_t>(scale_at(line, k / 16)));
  return static_cast<double>(static_cast<float>(code)) * static_cast<double>(static_cast<float>(scale));
}

}  // namespace

TEST_CASE("mma.sync kind::mxf4nvf4 takes operands and scales in the order of CUTLASS's SM120 16x8x64", "[gpu]") {
  if (!has_block_mma()) return support::skip("mma.sync kind::mxf4nvf4 needs compute capability 12.0");
  std::vector<lane_words> lanes(32);
  for (unsigned l = 0; l < 32; ++l) {
    for (unsigned i = 0; i < 32; ++i) {  // ALayout: index row + 16 k
      const unsigned at = place(l, {{4, 128}, {8, 1}}) + place(i, {{8, 16}, {2, 8}, {2, 512}});
      lanes[l].a[i / 8] |= code_at(at % 16, at / 16) << 4 * (i % 8);
    }
    for (unsigned i = 0; i < 16; ++i) {  // BLayout: index column + 8 k
      const unsigned at = place(l, {{4, 64}, {8, 1}}) + place(i, {{8, 8}, {2, 256}});
      lanes[l].b[i / 8] |= code_at(at % 8 + 16, at / 8) << 4 * (i % 8);
    }
    for (unsigned block = 0; block < 4; ++block) {  // SFALayout, SFBLayout: the same for 16 k
      const unsigned row = place(l, {{2, 8}, {2, 0}, {8, 1}}), column = place(l, {{4, 0}, {8, 1}});
      lanes[l].scales_a |= scale_at(row, block) << 8 * block;
      lanes[l].scales_b |= scale_at(column + 16, block) << 8 * block;
    }
  }
  const gpu::buffer<lane_words> on_device{std::span<const lane_words>(lanes)};
  REQUIRE(gpu::launch(multiply_tile, {1}, {32}, 0, gpu::stream{}, tile_job{on_device.data()}) == gpu::success);
  on_device.download(lanes);
  for (unsigned l = 0; l < 32; ++l)
    for (unsigned i = 0; i < 4; ++i) {  // SM80_16x8_Row: index row + 16 column
      const unsigned at = place(l, {{4, 32}, {8, 1}}) + place(i, {{2, 16}, {2, 8}});
      double sum = 0;
      for (unsigned k = 0; k < 64; ++k) sum += value_at(at % 16, k) * value_at(at / 16 + 16, k);
      REQUIRE(static_cast<double>(lanes[l].d[i]) == sum);
    }
}
