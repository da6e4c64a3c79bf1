// ufp4 - tests of Hopper's kernel that need no GPU: descriptors, the swizzle, the places of sums, and the canary.
// SPDX-License-Identifier: Apache-2.0
//
// Expected values are worked out from the tables of the PTX ISA: "Matrix Descriptor Format", "Swizzling Modes",
// "Register Fragments" of wgmma.
#include "gpu/device.hpp"

#include <ufp4/cuda/first_call_check.hpp>
#include <ufp4/cuda/gemm_bf16_sm80.hpp>
#include <ufp4/cuda/gemm_wgmma_sm90.hpp>
#include <ufp4/cuda/wgmma_sm90.hpp>
#include <ufp4/gpu/gemm.hpp>
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"

#include <cstring>
#include <set>
#include <vector>

using namespace ufp4;
namespace mma = ufp4::gpu::mma;

namespace {

unsigned byte_offset(unsigned row, unsigned byte) { return mma::swizzled_offset(row, byte / 16) + byte % 16; }

}  // namespace

TEST_CASE("a matrix descriptor has its fields at the bits that the PTX ISA documents", "[gpu]") {
  using mma::shared_descriptor;
  using mma::swizzle;
  STATIC_REQUIRE(shared_descriptor(0, 0, 0, swizzle::none) == 0);
  STATIC_REQUIRE(shared_descriptor(16, 0, 0, swizzle::none) == 1);
  STATIC_REQUIRE(shared_descriptor(0x3FFF0, 0, 0, swizzle::none) == 0x3FFF);
  STATIC_REQUIRE(shared_descriptor(0, 16, 0, swizzle::none) == std::uint64_t{1} << 16);
  STATIC_REQUIRE(shared_descriptor(0, 0x3FFF0, 0, swizzle::none) == std::uint64_t{0x3FFF} << 16);
  STATIC_REQUIRE(shared_descriptor(0, 0, 16, swizzle::none) == std::uint64_t{1} << 32);
  STATIC_REQUIRE(shared_descriptor(0, 0, 0x3FFF0, swizzle::none) == std::uint64_t{0x3FFF} << 32);
  STATIC_REQUIRE(shared_descriptor(0, 0, 0, swizzle::bytes_128) == std::uint64_t{1} << 62);
  STATIC_REQUIRE(shared_descriptor(0, 0, 0, swizzle::bytes_64) == std::uint64_t{2} << 62);
  STATIC_REQUIRE(shared_descriptor(0, 0, 0, swizzle::bytes_32) == std::uint64_t{3} << 62);
}

TEST_CASE("the operand's descriptor steps by 1024 bytes for eight rows, and by two units for 16 columns of K",
          "[gpu]") {
  STATIC_REQUIRE(mma::operand_128(0) == 0x4000004000010000u);
  STATIC_REQUIRE(mma::operand_128(0x2400) == 0x4000004000010240u);
  for (unsigned k = 0; k < 4; ++k) REQUIRE(mma::operand_128(0x2400 + 32 * k) == mma::operand_128(0x2400) + 2 * k);
}

TEST_CASE("the swizzle is a permutation of every eight rows, and its own inverse within a row", "[gpu]") {
  std::set<unsigned> seen;
  for (unsigned row = 0; row < 16; ++row)
    for (unsigned byte = 0; byte < 128; ++byte) {
      const unsigned at = byte_offset(row, byte);
      REQUIRE(at / 128 == row);
      REQUIRE(byte_offset(row, at % 128) == row * 128 + byte);
      seen.insert(at);
    }
  REQUIRE(seen.size() == 16 * 128);
  REQUIRE(*seen.rbegin() == 16 * 128 - 1);
}

TEST_CASE("the swizzle is an exclusive or of address bits 4 to 6 with bits 7 to 9, as documented", "[gpu]") {
  for (unsigned row = 0; row < 64; ++row)
    for (unsigned byte = 0; byte < 128; ++byte) {
      const unsigned plain = row * 128 + byte;
      REQUIRE(byte_offset(row, byte) == (plain ^ (plain >> 7 & 7u) << 4));
    }
  // the first and the last of the eight rows in the table of 128-byte swizzling
  for (unsigned piece = 0; piece < 8; ++piece) {
    REQUIRE(byte_offset(0, 16 * piece) == 16 * piece);
    REQUIRE(byte_offset(7, 16 * piece) == 7 * 128 + 16 * (7 - piece));
  }
  // pieces of the same k in eight rows are in eight different groups of banks
  for (unsigned piece = 0; piece < 8; ++piece) {
    unsigned quarters = 0;
    for (unsigned row = 0; row < 8; ++row) quarters |= 1u << (byte_offset(row, 16 * piece) % 128 / 16);
    REQUIRE(quarters == 0xFFu);
  }
}

TEST_CASE("the sums of a warpgroup cover 64 x N for N = 128, a quarter of the rows a warp", "[gpu]") {
  std::set<unsigned> seen;
  for (unsigned t = 0; t < 128; ++t)
    for (unsigned i = 0; i < 64; ++i) {
      REQUIRE(mma::sum_row(t, i) / 16 == t / 32);
      seen.insert(mma::sum_row(t, i) * 128 + mma::sum_col(t, i));
    }
  REQUIRE(seen.size() == 64 * 128);
  REQUIRE(*seen.rbegin() == 64 * 128 - 1);
  // the table's first rows: d0 and d1 neighbours, d2 eight rows down, d4 eight columns on; lane 5 in row 1
  REQUIRE((mma::sum_row(0, 0) == 0 && mma::sum_col(0, 0) == 0));
  REQUIRE((mma::sum_row(0, 1) == 0 && mma::sum_col(0, 1) == 1));
  REQUIRE((mma::sum_row(0, 2) == 8 && mma::sum_col(0, 2) == 0));
  REQUIRE((mma::sum_row(0, 4) == 0 && mma::sum_col(0, 4) == 8));
  REQUIRE((mma::sum_row(37, 63) == 16 + 1 + 8 && mma::sum_col(37, 63) == 120 + 3));
}

namespace {

template <class F>
gpu::gemm_job job_of(const gpu::quantized_matrix<F>& a, const gpu::quantized_matrix<F>& b, float* c,
                     accumulate mode = accumulate::fast) {
  return gpu::detail::call_of(a.view(), b.view(),
                              detail::sink_of(matrix_view<float>{c, a.view().rows(), b.view().rows()}),
                              {.accumulate = mode}, {})
      .job;
}

/// A kernel that mistakes one column for its neighbour: what a wrong descriptor would do.
gpu::error off_by_one(const gpu::gemm_job& job, const gpu::device_facts& device, std::span<std::byte> memory,
                      gpu::stream where) {
  gpu::gemm_job wrong = job;
  wrong.right.codes += job.padded() / 2;
  wrong.right.rows -= 1;
  wrong.out.cols -= 1;
  return gpu::kernels::gemm_simt<>.run(wrong, device, memory, where);
}

}  // namespace

TEST_CASE("Hopper's kernel takes operands that TMA can load, and only on Hopper", "[gpu]") {
  const gpu::quantized_matrix<nvfp4> a(128, 64), b(128, 64), ragged(128, 48);
  gpu::device_facts hopper{.architecture = 90, .shared_bytes = 227 * 1024};
  const gpu::gemm_kernel& kernel = gpu::kernels::gemm_wgmma_sm90<>;
  const gpu::gemm_job job = job_of(a, b, nullptr);
  REQUIRE(kernel.takes(job, hopper));
  REQUIRE_FALSE(kernel.takes(job_of(ragged, ragged, nullptr), hopper));
  REQUIRE_FALSE(kernel.takes(job_of(a, b, nullptr, accumulate::exact_blocks), hopper));
  gpu::gemm_job misaligned = job;
  ++misaligned.right.codes;
  REQUIRE_FALSE(kernel.takes(misaligned, hopper));
  hopper.specific = false;  // compiled for sm_90, which has no wgmma
  REQUIRE_FALSE(kernel.takes(job, hopper));
  REQUIRE_FALSE(kernel.takes(job, {.architecture = 100, .shared_bytes = 227 * 1024}));
  REQUIRE_FALSE(kernel.takes(job, {.architecture = 90}));
  REQUIRE(kernel.experimental);
}

TEST_CASE("wgmma multiplies in f16 where every value times every e4m3 scale is zero or a normal f16 number", "[gpu]") {
  const auto side = [](const auto& q) {
    return gpu::detail::call_of(q.view(), q.view(), detail::sink_of(matrix_view<float>{}), {}, {}).job.left;
  };
  const auto all_exact = [](const grid4& grid) {
    for (unsigned bits = 0; bits < 127; ++bits)
      for (const float v : grid.value) {
        const float product = v * static_cast<float>(e4m3::from_bits(static_cast<std::uint8_t>(bits)));
        const float m = product < 0 ? -product : product;
        if (static_cast<float>(fp16(product)) != product || (m != 0 && m < 0x1p-14f)) return false;
      }
    return true;
  };
  const auto nv = side(gpu::quantized_matrix<nvfp4>(1, 32)), e1m2 = side(gpu::quantized_matrix<nv_e1m2>(1, 32)),
             integer = side(gpu::quantized_matrix<nvint4>(1, 32));
  for (const auto& s : {nv, e1m2, integer}) {
    CHECK(all_exact(s.grid));
    CHECK(gpu::kernels::folds_to_f16(s));
  }
  const auto mx = side(gpu::quantized_matrix<mxfp4>(1, 32)), f32 = side(gpu::quantized_matrix<e1m2_f32>(1, 32));
  CHECK_FALSE(gpu::kernels::folds_to_f16(mx));
  using gpu::kernels::fold_of;
  using gpu::kernels::wgmma_fold;
  CHECK(fold_of(nv, integer) == wgmma_fold::f16);
  CHECK(fold_of(mx, mx) == wgmma_fold::mxfp4);
  CHECK(fold_of(mx, side(gpu::quantized_matrix<mxint4>(1, 32))) == wgmma_fold::e8m0);
  CHECK(fold_of(nv, mx) == wgmma_fold::exact);
  CHECK(fold_of(f32, nv) == wgmma_fold::rounded);
}

TEST_CASE("a correct kernel passes its canary, and an incorrect one is never launched", "[gpu]") {
  const gpu::quantized_matrix<nvfp4> a(16, 32), b(16, 32);
  const gpu::buffer<float> c(256);
  gpu::device_facts device;
  REQUIRE(gpu::facts(device) == gpu::success);
  const gpu::gemm_job job = job_of(a, b, c.data());
  gpu::detail::first_call_check right, wrong;
  for (int call = 0; call < 2; ++call) {
    REQUIRE(right.check(gpu::kernels::gemm_bf16_sm80<>.run, "new", job, device, 63, 61, {}) == gpu::success);
    const gpu::error e = wrong.check(&off_by_one, "new", job, device, 63, 61, {});
    const gpu::status s = gpu::detail::status_of("quantized_gemm", e);
    REQUIRE(s.code() == gpu::not_supported);
    REQUIRE(s.text() ==
            "quantized_gemm: new: the tile of the first call differs from gemm_simt's: compile without "
            "UFP4_EXPERIMENTAL, and report it");
  }
}

TEST_CASE("the tile of a first call is whole blocks, at least two, and no shorter than its kernel requires", "[gpu]") {
  static std::vector<std::size_t> depths;
  depths.clear();
  const gpu::detail::first_call_check::runner record = [](const gpu::gemm_job& job, const gpu::device_facts& facts,
                                                          std::span<std::byte> memory, gpu::stream where) {
    depths.push_back(job.padded());
    return gpu::kernels::gemm_simt<>.run(job, facts, memory, where);
  };
  const auto tile_of = [&]<class F>(F, unsigned depth) {
    const gpu::quantized_matrix<F> a(16, 256), b(16, 256);
    const gpu::buffer<float> c(256);
    gpu::device_facts device;
    REQUIRE(gpu::facts(device) == gpu::success);
    gpu::detail::first_call_check first_call;
    REQUIRE(first_call.check(record, "new", job_of(a, b, c.data()), device, 15, 13, {}, depth) == gpu::success);
  };
  tile_of(nvfp4{}, 288);
  tile_of(mxfp4{}, 544);
  tile_of(block_format<fp4<E2M1>, float, 64>{}, 544);
  tile_of(block_format<fp4<E2M1>, float, 128>{}, 544);
  tile_of(block_format<fp4<E2M1>, float, 256>{}, 544);
  tile_of(block_format<fp4<E2M1>, float, 256>{}, 96);
  REQUIRE(depths == std::vector<std::size_t>{288, 544, 576, 640, 768, 512});
}

#if !defined(UFP4_EXPERIMENTAL)
TEST_CASE("explain reports that a program was compiled without UFP4_EXPERIMENTAL", "[gpu]") {
  const gpu::status s = gpu::detail::status_of("quantized_gemm", gpu::kernels::gemm_wgmma_sm90<>.run({}, {}, {}, {}));
  REQUIRE(s.text() ==
          "quantized_gemm: gemm_wgmma_sm90: this file was compiled without UFP4_EXPERIMENTAL, or not for CUDA");
}
#endif
