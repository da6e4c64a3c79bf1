// ufp4 - descriptors and layouts of tcgen05 have the bits of the PTX ISA's tables; its kernels run as documented.
// SPDX-License-Identifier: Apache-2.0
//
// The instructions themselves run in the PTX interpreter (gpu/ptx/tcgen05_products.cu).
#include "gpu/device.hpp"

#include <ufp4/cuda/gemm_tcgen05_sm100.hpp>
#include <ufp4/cuda/tcgen05_sm100.hpp>
#include <ufp4/gpu/gemm.hpp>
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <set>
#include <string>

using namespace ufp4;

namespace {

namespace mma = gpu::mma;

/// Bits first to last of a word, as the tables number them.
constexpr std::uint64_t field(std::uint64_t word, unsigned first, unsigned last) {
  return word >> first & ((std::uint64_t{1} << (last - first + 1)) - 1);
}

}  // namespace

TEST_CASE("the instruction descriptor of mxf4nvf4 and mxf4 has its fields at the bits of the table", "[gpu]") {
  for (const unsigned cols : {8u, 64u, 128u, 256u})
    for (const auto scale : {mma::block_scale::ue4m3, mma::block_scale::ue8m0})
      for (const unsigned id : {0u, 2u}) {
        const std::uint32_t d =
            mma::instruction_descriptor({.scale = scale, .cols = cols, .scale_a = id, .scale_b = 2 - id});
        CHECK(field(d, 0, 3) == 0);       // dense
        CHECK(field(d, 4, 5) == 2 - id);  // scale factor B
        CHECK(field(d, 6, 6) == 0);
        CHECK(field(d, 7, 9) == 1);    // A is E2M1
        CHECK(field(d, 10, 11) == 1);  // B is E2M1
        CHECK(field(d, 12, 16) == 0);  // not negated, not transposed
        CHECK(field(d, 17, 22) == cols / 8);
        CHECK(field(d, 23, 23) == (scale == mma::block_scale::ue8m0 ? 1 : 0));
        CHECK(field(d, 24, 26) == 0);
        CHECK(field(d, 27, 28) == 1);   // 128 rows
        CHECK(field(d, 29, 30) == id);  // scale factor A
        CHECK(field(d, 31, 31) == 0);   // K = 64
      }
  CHECK(field(mma::instruction_descriptor({.rows = 256, .cols = 256}), 27, 28) == 2);
  // 128 x 256 x 64 with ue4m3 scales, as a compiler of another project encodes it (Triton's tests of mxf4nvf4).
  CHECK(mma::instruction_descriptor({.cols = 256}) == 138413184u);
}

TEST_CASE("the shared memory descriptor has its fields at the bits of the table", "[gpu]") {
  const std::uint64_t d = mma::tensor_descriptor(0x2C540, 0x80, 0x400, mma::swizzle::bytes_128);
  CHECK(field(d, 0, 13) == 0x2C54);
  CHECK(field(d, 14, 15) == 0);
  CHECK(field(d, 16, 29) == 0x8);
  CHECK(field(d, 30, 31) == 0);
  CHECK(field(d, 32, 45) == 0x40);
  CHECK(field(d, 46, 48) == 1);
  CHECK(field(d, 49, 51) == 0);  // the pattern begins where the tile does
  CHECK(field(d, 52, 60) == 0);
  CHECK(field(d, 61, 63) == 2);
  CHECK(mma::tensor_descriptor(0xFFFFFFF0, 0, 0, mma::swizzle::none) == (std::uint64_t{1} << 46 | 0x3FFF));
}

TEST_CASE("128-byte swizzling exchanges the address bits 4 to 6 with 7 to 9 by exclusive or, and is a permutation",
          "[gpu]") {
  std::set<unsigned> seen;
  for (unsigned row = 0; row < 128; ++row)
    for (unsigned piece = 0; piece < 8; ++piece) {
      const unsigned plain = row * 128 + piece * 16, swizzled = mma::swizzled_offset(row, piece);
      CHECK(swizzled == (plain ^ (plain >> 3 & 0x70u)));
      seen.insert(swizzled);
    }
  CHECK(seen.size() == 1024);
}

TEST_CASE("a copy of 32 lanes of 128 bits, repeated for four warps, copies each row's scales to its lane and column",
          "[gpu]") {
  // Lane l of 32 takes bytes 16 l to 16 l + 15 as four words, one a column; the scales of a row are the word of lane
  // row % 32 in column row / 32.
  for (unsigned blocks : {4u, 16u})
    for (unsigned row = 0; row < 128; ++row)
      for (unsigned block = 0; block < blocks; ++block) {
        const unsigned at = mma::scale_offset(row, block), within = at % 512;
        CHECK(at / 512 == block / 4);        // a copy for every four blocks
        CHECK(within / 16 == row % 32);      // lane
        CHECK(within % 16 / 4 == row / 32);  // column
        CHECK(within % 4 == block % 4);      // byte of the word
      }
}

TEST_CASE("tcgen05's kernels are chosen on their devices, and only in programs that allow experimental kernels",
          "[gpu]") {
  const gpu::device_facts there{.architecture = 100, .shared_bytes = 227 * 1024};
  gpu::gemm_side side;
  side.grid = grid_of<fp4<E2M1>>();
  side.scale = scale_kind::e4m3;
  side.rows = 256, side.cols = side.padded_cols = 512;
  gpu::gemm_job job{.left = side, .right = side, .block = 16};
  const gpu::gemm_kernel* const chosen = gpu::detail::choose_kernel(job, there);
  REQUIRE(chosen != nullptr);
#if defined(UFP4_EXPERIMENTAL)
  CHECK(chosen == &gpu::kernels::gemm_nvfp4_tcgen05<>);
#else
  CHECK(chosen != &gpu::kernels::gemm_nvfp4_tcgen05<>);
  const std::string why = gpu::detail::why_not_better(job, there, chosen);
  CHECK(why.find("gemm_nvfp4_tcgen05 has not run on a device yet") != std::string::npos);
#endif
  CHECK(gpu::kernels::gemm_nvfp4_tcgen05<>.takes(job, there));
  const auto is_rejected = [&](auto change) {
    gpu::gemm_job other = job;
    gpu::device_facts facts = there;
    change(other, facts);
    return !gpu::kernels::gemm_nvfp4_tcgen05<>.takes(other, facts);
  };
  CHECK(is_rejected([](gpu::gemm_job&, gpu::device_facts& f) { f.architecture = 120; }));
  CHECK(is_rejected([](gpu::gemm_job&, gpu::device_facts& f) { f.compiled = 90; }));
  CHECK(is_rejected([](gpu::gemm_job&, gpu::device_facts& f) { f.specific = false; }));
  CHECK(is_rejected([](gpu::gemm_job& j, gpu::device_facts&) { j.mode = accumulate::exact_blocks; }));
  CHECK(is_rejected([](gpu::gemm_job& j, gpu::device_facts&) { j.left.grid = grid_of<fp4<E1M2>>(); }));
  CHECK(is_rejected([](gpu::gemm_job& j, gpu::device_facts&) { j.left.padded_cols = j.right.padded_cols = 48; }));
  CHECK(is_rejected([](gpu::gemm_job& j, gpu::device_facts&) { j.right.codes = reinterpret_cast<std::uint8_t*>(8); }));
  CHECK(is_rejected([](gpu::gemm_job& j, gpu::device_facts&) { j.right.is_quantized = false; }));
  CHECK(is_rejected([](gpu::gemm_job&, gpu::device_facts& f) { f.shared_bytes = 48 * 1024; }));
  CHECK(is_rejected([](gpu::gemm_job& j, gpu::device_facts&) { j.left.padded_cols = j.right.padded_cols = 0; }));
  job.block = 32;
  job.left.scale = job.right.scale = scale_kind::e8m0;
  CHECK(gpu::kernels::gemm_mxfp4_tcgen05<>.takes(job, there));
  CHECK_FALSE(gpu::kernels::gemm_nvfp4_tcgen05<>.takes(job, there));
}

TEST_CASE(
    "tcgen05 computes tiles of 256 x 256 by pairs of thread blocks where tiles of 128 x 128 exceed the device, "
    "and narrow tiles where they would leave half of it without work",
    "[gpu]") {
  const gpu::device_facts there{.architecture = 100, .processors = 148, .shared_bytes = 227 * 1024};
  struct row {
    std::size_t m, n;
    unsigned rows, cols;
  };
  for (const row& r : {row{128, 128 * 1000, 128, 128}, row{64, 8192, 128, 64}, row{128, 128 * 74, 128, 64},
                       row{128, 128 * 75, 128, 128}, row{1024, 1024, 128, 64}, row{12 * 128, 12 * 128, 128, 128},
                       row{12 * 128, 13 * 128, 256, 256}, row{8192, 8192, 256, 256}}) {
    CAPTURE(r.m, r.n);
    gpu::gemm_job job;
    job.out.rows = r.m, job.out.cols = r.n;
    CHECK(gpu::kernels::gemm_nvfp4_tcgen05<>.tile_of(job, there).rows == r.rows);
    CHECK(gpu::kernels::gemm_nvfp4_tcgen05<>.tile_of(job, there).cols == r.cols);
  }
}
