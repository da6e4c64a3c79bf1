// ufp4 - eight codes in a word: every code in every place, of every grid, and every scale.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/device.hpp"

#include <ufp4/cuda/fragments_sm80.hpp>
#include <ufp4/cuda/mma_sm80.hpp>
#include <ufp4/gpu/thread/decode.hpp>
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

using namespace ufp4;
namespace thread = ufp4::gpu::thread;

namespace {

struct odd_levels {  // more bits than fp16's upper byte has, a range that fp16 has not, zero in the middle
  static constexpr float values[16] = {-0x1p+17f, -200, -100, -3.0625f, -2, -1, -0x1p-20f,  0,
                                       0x1p-10f,  .5f,  1,    1.625f,   3,  7,  0x1.04p+4f, 0x1p+10f};
  static constexpr bool exact_products = false;
};
struct wide_levels {  // the ends of s8
  static constexpr float values[16] = {-128, -127, -100, -64, -3, -2, -1, 0, 1, 2, 5, 7, 63, 100, 126, 127};
  static constexpr bool exact_products = true;
};

struct decoded {
  std::uint32_t s8[2], f16[4], f16_high[4], bf16[4];
};
struct decode_job {
  const std::uint32_t* codes;
  thread::byte_table s8;
  thread::half_table f16, bf16;
  decoded* out;
  unsigned count;
};
UFP4_KERNEL(128) decode_words(const decode_job job) {
  const unsigned i = gpu::block_index().x * 128 + gpu::thread_index().x;
  if (i >= job.count) return;
  decoded& d = job.out[i];
  thread::decode8_s8(job.s8, job.codes[i], d.s8);
  thread::decode8_halves(job.f16, job.codes[i], d.f16);
  thread::decode8_halves(job.f16.high, job.codes[i], d.f16_high);
  thread::decode8_halves(job.bf16, job.codes[i], d.bf16);
}

/// Every code in every place, with neighbours that differ from it and from one another.
std::vector<std::uint32_t> words() {
  std::vector<std::uint32_t> w;
  for (std::uint32_t neighbours : {0u, 0xFFFFFFFFu, 0x01234567u, 0x89ABCDEFu, 0xFEDCBA98u, 0x3C5A96F0u})
    for (unsigned place = 0; place < 8; ++place)
      for (std::uint32_t code = 0; code < 16; ++code)
        w.push_back((neighbours & ~(15u << (4 * place))) | code << (4 * place));
  return w;
}

std::vector<decoded> decode(const std::vector<std::uint32_t>& codes, const grid4& grid) {
  const gpu::buffer<std::uint32_t> in{std::span<const std::uint32_t>(codes)};
  const gpu::buffer<decoded> out(codes.size());
  const auto count = static_cast<unsigned>(codes.size());
  const decode_job job{
      in.data(), thread::s8_table_of(grid), thread::f16_table_of(grid), thread::bf16_table_of(grid), out.data(), count};
  REQUIRE(gpu::launch(&decode_words, {(count + 127) / 128}, {128}, 0, gpu::stream{}, job) == gpu::success);
  return support::on_host(out);
}

template <class Element>
void check_grid() {
  const grid4 grid = grid_of<Element>();
  const std::vector<std::uint32_t> codes = words();
  const std::vector<decoded> all = decode(codes, grid);
  for (std::size_t w = 0; w < codes.size(); ++w)
    for (unsigned k = 0; k < 8; ++k) {
      const unsigned code = codes[w] >> (4 * k) & 15u;
      CAPTURE(codes[w], k, code);
      const auto half = [&](const std::uint32_t(&pairs)[4]) { return pairs[k / 2] >> (16 * (k % 2)) & 0xFFFFu; };
      if (grid.exact_products)
        REQUIRE(static_cast<std::int8_t>(all[w].s8[k / 4] >> (8 * (k % 4)) & 0xFFu) == grid.integer[code]);
      REQUIRE(half(all[w].f16) == fp16(grid.value[code]).bits());
      REQUIRE(half(all[w].f16_high) == (fp16(grid.value[code]).bits() & 0xFF00u));
      REQUIRE(half(all[w].bf16) == ufp4::detail::round_to<bf16>(grid.value[code]).bits());
    }
}

/// 16 x 8 of C over 32 k, straight from packed rows of 16 bytes: all of K as s8, f16 and bf16, and its halves as s8.
struct tile_job {
  const std::uint32_t *left, *right;  // 16 rows of 4 words, 8 rows of 4 words
  thread::byte_table s8_left, s8_right;
  thread::half_table f16_left, f16_right, bf16_left, bf16_right;
  float* out;  // five tiles
};
UFP4_KERNEL(32) multiply_packed(const tile_job job) {
  namespace warp = ufp4::gpu::warp;
  namespace mma = ufp4::gpu::mma;
  const unsigned g = warp::row_of_lane(), t = warp::word_of_lane();
  const std::uint32_t low = job.left[4 * g + t], high = job.left[4 * (g + 8) + t], right = job.right[4 * g + t];
  const auto store = [&](unsigned tile, const auto& d) {
    for (unsigned e = 0; e < 4; ++e)
      job.out[tile * 128 + (g + 8 * (e / 2)) * 8 + 2 * t + e % 2] = static_cast<float>(d[e]);
  };
  std::uint32_t a8[4], b8[2], b_half[2], a[2][4], b[2][2];
  warp::left_s8(job.s8_left, low, high, a8);
  warp::right_s8(job.s8_right, right, b8);
  for (unsigned part = 0; part < 3; ++part) {  // all of K, its first half, its second half
    std::int32_t d[4] = {};
    if (part != 0) warp::of_half(part - 1, b8, b_half);
    mma::mma_s8_k32(d, a8, part == 0 ? b8 : b_half);
    store(part, d);
  }
  float f[4] = {}, h[4] = {};
  warp::left_halves(job.f16_left.high, low, high, a);
  warp::right_halves(job.f16_right, right, b);
  for (unsigned i = 0; i < 2; ++i) mma::mma_f16(f, a[i], b[i]);
  store(3, f);
  warp::left_halves(job.bf16_left, low, high, a);
  warp::right_halves(job.bf16_right, right, b);
  for (unsigned i = 0; i < 2; ++i) mma::mma_bf16(h, a[i], b[i]);
  store(4, h);
}

struct scale_job {
  scale_kind kind;
  unsigned count;
  float* out;
};
UFP4_KERNEL(128) decode_scales(const scale_job job) {
  const unsigned i = gpu::block_index().x * 128 + gpu::thread_index().x;
  if (i < job.count) job.out[i] = thread::scale_value(job.kind, i);
}

struct product_job {
  std::uint32_t* out;
  float x[2], y[2];
};
UFP4_KERNEL(1) multiply_pairs(const product_job job) {
  job.out[0] = thread::pair_bf16(job.x[0], job.x[1]);
  job.out[1] = thread::multiply_bf16(job.out[0], thread::pair_bf16(job.y[0], job.y[1]));
}

}  // namespace

TEST_CASE("a code in any place of a word becomes its value as s8, fp16 and bf16", "[gpu]") {
  SECTION("E2M1") { check_grid<fp4<E2M1>>(); }
  SECTION("E1M2") { check_grid<fp4<E1M2>>(); }
  SECTION("E3M0") { check_grid<fp4<E3M0>>(); }
  SECTION("int4") { check_grid<ufp4::int4>(); }
  SECTION("nf4") { check_grid<nf4>(); }
  SECTION("odd") { check_grid<table_element<odd_levels>>(); }
  SECTION("the ends of s8") { check_grid<table_element<wide_levels>>(); }
}

TEST_CASE("fragments from packed rows multiply to the rows' dot products", "[gpu]") {
  const grid4 left = grid_of<fp4<E2M1>>(), right = grid_of<ufp4::int4>();
  std::vector<std::uint32_t> a(64), b(32);
  for (std::size_t i = 0; i < 64; ++i) a[i] = static_cast<std::uint32_t>(i + 1) * 2654435761u;
  for (std::size_t i = 0; i < 32; ++i) b[i] = static_cast<std::uint32_t>(i + 1) * 2246822519u;
  const gpu::buffer<std::uint32_t> in_a{std::span<const std::uint32_t>(a)}, in_b{std::span<const std::uint32_t>(b)};
  const gpu::buffer<float> out(5 * 128);
  const tile_job job{in_a.data(),
                     in_b.data(),
                     thread::s8_table_of(left),
                     thread::s8_table_of(right),
                     thread::f16_table_of(left),
                     thread::f16_table_of(right),
                     thread::bf16_table_of(left),
                     thread::bf16_table_of(right),
                     out.data()};
  REQUIRE(gpu::launch(&multiply_packed, {1}, {32}, 0, gpu::stream{}, job) == gpu::success);
  const std::vector<float> got = support::on_host(out);
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 8; ++j) {
      float half[2] = {};
      for (std::size_t k = 0; k < 32; ++k)
        half[k / 16] +=
            left.value[a[4 * i + k / 8] >> (4 * (k % 8)) & 15u] * right.value[b[4 * j + k / 8] >> (4 * (k % 8)) & 15u];
      const float* tile = got.data() + i * 8 + j;
      CAPTURE(i, j);
      REQUIRE(tile[0] * left.unit * right.unit == half[0] + half[1]);
      REQUIRE(tile[128] * left.unit * right.unit == half[0]);
      REQUIRE(tile[256] * left.unit * right.unit == half[1]);
      REQUIRE(tile[384] == half[0] + half[1]);
      REQUIRE(tile[512] == half[0] + half[1]);
    }
}

TEST_CASE("tables are reported as exact for the grids that they hold exactly", "[gpu]") {
  for (const grid4& g : {grid_of<fp4<E2M1>>(), grid_of<fp4<E1M2>>(), grid_of<fp4<E3M0>>(), grid_of<ufp4::int4>()}) {
    CHECK(thread::fits_s8(g));
    CHECK(thread::fits_f16(g));
    CHECK(thread::fits_bf16(g));
    CHECK(thread::f16_table_of(g).high_suffices());
    CHECK_FALSE(thread::bf16_table_of(g).high_suffices());
  }
  const grid4 nf = grid_of<nf4>(), odd = grid_of<table_element<odd_levels>>();
  CHECK_FALSE(thread::fits_s8(nf));
  CHECK_FALSE(thread::fits_f16(nf));
  CHECK_FALSE(thread::fits_bf16(nf));
  CHECK_FALSE(thread::fits_f16(odd));  // 2^17
  CHECK(thread::fits_bf16(odd));
  CHECK(thread::fits_s8(grid_of<table_element<wide_levels>>()));
  CHECK_FALSE(thread::f16_table_of(grid_of<table_element<wide_levels>>()).high_suffices());  // 127 has seven bits
}

TEST_CASE("every 8-bit scale, and every bf16, has the host's value", "[gpu]") {
  for (const scale_kind kind : {scale_kind::e4m3, scale_kind::ue5m3, scale_kind::e8m0, scale_kind::bf16}) {
    const unsigned count = kind == scale_kind::bf16 ? 65536 : 256;
    const gpu::buffer<float> out(count);
    REQUIRE(gpu::launch(&decode_scales, {count / 128}, {128}, 0, gpu::stream{}, scale_job{kind, count, out.data()}) ==
            gpu::success);
    const std::vector<float> got = support::on_host(out);
    for (unsigned i = 0; i < count; ++i) {
      CAPTURE(static_cast<int>(kind), i);
      const float want = ufp4::detail::decode_scale(kind, i);
      REQUIRE((std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(want) ||
               (ufp4::detail::is_nan(got[i]) && ufp4::detail::is_nan(want))));
    }
  }
}

TEST_CASE("products of bf16 pairs are rounded once, to even, and keep subnormals and signs of zero", "[gpu]") {
  struct example {
    float x, y;
    std::uint32_t product;  // as bf16
  };
  const example examples[] = {{1.5f, 3, 0x4090},         {-0.0f, 2, 0x8000},      {0, 2, 0x0000},
                              {0x1.02p0f, 3, 0x4042},    {0x1.06p0f, 3, 0x4044},  // ties between 9-bit products
                              {0x1p-126f, .25f, 0x0020}, {0x1p-127f, -1, 0x8040}, {0x1p-133f, .75f, 0x0001},
                              {0x1p-133f, .5f, 0x0000},  {0x1p+127f, 2, 0x7F80},  {0x1.fep+127f, 1, 0x7F7F}};
  for (const example& e : examples) {
    CAPTURE(e.x, e.y);
    const gpu::buffer<std::uint32_t> out(2);
    const product_job job{out.data(), {e.x, 1}, {e.y, -e.y}};
    REQUIRE(gpu::launch(&multiply_pairs, {1}, {1}, 0, gpu::stream{}, job) == gpu::success);
    const std::uint32_t pair = support::on_host(out)[1];
    CHECK((pair & 0xFFFFu) == e.product);
    CHECK(pair >> 16 == ufp4::detail::round_to<bf16>(-e.y).bits());
  }
}
