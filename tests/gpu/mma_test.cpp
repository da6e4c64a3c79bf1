// ufp4 - the wrappers of mma.sync, ldmatrix and cp.async agree with the PTX ISA's tables.
// SPDX-License-Identifier: Apache-2.0
//
// Matrices are laid out here by the coordinates of the tables as they are printed there, element i of a lane's fragment
// at a time, and multiplied by three loops. On a GPU this is the test of the hardware against that reading.
#include "gpu/device.hpp"

#include <ufp4/cuda/block_mma_sm120.hpp>
#include <ufp4/cuda/memory_sm80.hpp>
#include <ufp4/cuda/mma_sm80.hpp>
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace ufp4;

namespace {

// ---- The device ----

struct lane_words {
  std::uint32_t a[4], b[2], scales_a, scales_b, d[4];
};
struct tiles_job {
  lane_words* lanes;
};

/// A warp a tile: d += a b.
template <class Instruction>
UFP4_KERNEL(32)
multiply_tiles(const tiles_job job) {
  lane_words& mine = job.lanes[32 * gpu::block_index().x + gpu::lane()];
  typename Instruction::sum d[4];
  std::memcpy(d, mine.d, sizeof d);
  Instruction::run(d, mine);
  std::memcpy(mine.d, d, sizeof d);
}

gpu::device_facts facts() {
  gpu::device_facts f;
  REQUIRE(gpu::facts(f) == gpu::success);
  return f;
}

/// Whether the device has these instructions; the simulated one has.
bool has_mma() { return facts().has(80); }
bool has_block_mma() {
#if defined(UFP4_SIMT_HEADER)
  simt::device().architecture = 120;
#endif
  return facts().has_specific(12);
}

// ---- The PTX ISA's fragment tables: g = groupID, t = threadID_in_group, i of a lane's fragment ----

/// Elements of `bits` bits, `each` in a register. Registers alternate between row g and row g + 8 of A; the second half
/// of A's and of B's registers holds the second half of k.
template <unsigned k_, unsigned bits_>
struct fragment_table {
  static constexpr unsigned k = k_, bits = bits_, each = 32 / bits;
  static unsigned a_row(unsigned g, unsigned i) { return i / each % 2 == 0 ? g : g + 8; }
  static unsigned a_col(unsigned t, unsigned i) { return t * each + i % each + (i < 2 * each ? 0 : k / 2); }
  static unsigned b_row(unsigned t, unsigned i) { return t * each + i % each + (i < each ? 0 : k / 2); }
};
using halves_k16 = fragment_table<16, 16>;
using bytes_k16 = fragment_table<16, 8>;
using bytes_k32 = fragment_table<32, 8>;
using nibbles_k64 = fragment_table<64, 4>;

// ---- Elements ----

double value_of_fp16(unsigned c) {
  return static_cast<double>(static_cast<float>(fp16::from_bits(static_cast<std::uint16_t>(c))));
}
struct f16 {
  static double value(unsigned c) { return value_of_fp16(c); }
};
struct b16 {
  static double value(unsigned c) {
    return static_cast<double>(static_cast<float>(bf16::from_bits(static_cast<std::uint16_t>(c))));
  }
};
struct s8 {
  static double value(unsigned c) { return c < 128 ? c : static_cast<double>(c) - 256; }
};
struct e4m3_bytes {
  static double value(unsigned c) {
    return static_cast<double>(static_cast<float>(e4m3::from_bits(static_cast<std::uint8_t>(c))));
  }
};
struct nibble {
  static double value(unsigned c) {
    return static_cast<double>(static_cast<float>(fp4<E2M1>::from_bits(static_cast<std::uint8_t>(c))));
  }
};
struct ue4m3 {
  static constexpr unsigned one = 0x38;
  static double value(unsigned c) { return e4m3_bytes::value(c); }
};
struct ue8m0 {
  static constexpr unsigned one = 127;
  static double value(unsigned c) {
    return static_cast<double>(static_cast<float>(e8m0::from_bits(static_cast<std::uint8_t>(c))));
  }
};
struct no_scale {
  static constexpr unsigned one = 0;
  static double value(unsigned) { return 1; }
};

// ---- Instructions ----

template <class Table, class Sum, class A, class B = A, class Scale = no_scale, unsigned scaled_blocks = 1>
struct instruction : Table {
  using sum = Sum;
  using a_element = A;
  using b_element = B;
  using scale = Scale;
  static constexpr unsigned blocks = scaled_blocks;
};
struct mma_f16 : instruction<halves_k16, float, f16> {
  static UFP4_DEVICE void run(float (&d)[4], const lane_words& w) { gpu::mma::mma_f16(d, w.a, w.b); }
};
struct mma_bf16 : instruction<halves_k16, float, b16> {
  static UFP4_DEVICE void run(float (&d)[4], const lane_words& w) { gpu::mma::mma_bf16(d, w.a, w.b); }
};
struct mma_s8_k32 : instruction<bytes_k32, std::int32_t, s8> {
  static UFP4_DEVICE void run(std::int32_t (&d)[4], const lane_words& w) { gpu::mma::mma_s8_k32(d, w.a, w.b); }
};
struct mma_s8_k16 : instruction<bytes_k16, std::int32_t, s8> {
  static UFP4_DEVICE void run(std::int32_t (&d)[4], const lane_words& w) {
    const std::uint32_t a[2] = {w.a[0], w.a[1]};
    gpu::mma::mma_s8_k16(d, a, w.b[0]);
  }
};
struct mma_mxf4nvf4 : instruction<nibbles_k64, float, nibble, nibble, ue4m3, 4> {
  static UFP4_DEVICE void run(float (&d)[4], const lane_words& w) {
    gpu::mma::mma_mxf4nvf4(d, w.a, w.b, w.scales_a, w.scales_b);
  }
};
struct mma_mxf4 : instruction<nibbles_k64, float, nibble, nibble, ue8m0, 2> {
  static UFP4_DEVICE void run(float (&d)[4], const lane_words& w) {
    gpu::mma::mma_mxf4(d, w.a, w.b, w.scales_a, w.scales_b);
  }
};
struct mma_mxf8f6f4 : instruction<bytes_k32, float, e4m3_bytes, e4m3_bytes, ue8m0> {
  static UFP4_DEVICE void run(float (&d)[4], const lane_words& w) {
    gpu::mma::mma_mxf8f6f4(d, w.a, w.b, w.scales_a, w.scales_b);
  }
};

// ---- One tile on the host ----

template <class I>
struct tile {
  unsigned a[16][I::k] = {}, b[I::k][8] = {}, scales_a[16][I::blocks], scales_b[I::blocks][8];
  typename I::sum d[16][8] = {};

  tile() {
    for (auto& row : scales_a)
      for (unsigned& s : row) s = I::scale::one;
    for (auto& block : scales_b)
      for (unsigned& s : block) s = I::scale::one;
  }

  /// What three loops make of it.
  double product(unsigned r, unsigned c) const {
    double sum = static_cast<double>(d[r][c]);
    for (unsigned k = 0; k < I::k; ++k) {
      const unsigned j = k / (I::k / I::blocks);
      sum += I::a_element::value(a[r][k]) * I::scale::value(scales_a[r][j]) * I::b_element::value(b[k][c]) *
             I::scale::value(scales_b[j][c]);
    }
    return sum;
  }
};

template <class I>
void put(const tile<I>& x, lane_words* lanes) {
  constexpr unsigned each = 32 / I::bits;
  for (unsigned l = 0; l < 32; ++l) {
    const unsigned g = l >> 2, t = l % 4;
    lane_words w{};
    for (unsigned i = 0; i < 16 * I::k / 32; ++i)
      w.a[i / each] |= x.a[I::a_row(g, i)][I::a_col(t, i)] << I::bits * (i % each);
    for (unsigned i = 0; i < 8 * I::k / 32; ++i) w.b[i / each] |= x.b[I::b_row(t, i)][g] << I::bits * (i % each);
    // Lanes that the selectors do not name, and bytes beyond the blocks, hold scales that would be seen: 4 or 1.5.
    w.scales_a = w.scales_b = I::scale::one == 127 ? 0x81818181u : 0x3C3C3C3Cu;
    const auto set = [](std::uint32_t& word, unsigned j, unsigned byte) {
      word = (word & ~(0xFFu << 8 * j)) | byte << 8 * j;
    };
    for (unsigned j = 0; j < I::blocks; ++j) {
      if (t < 2) set(w.scales_a, j, x.scales_a[t == 0 ? g : g + 8][j]);
      if (t == 0) set(w.scales_b, j, x.scales_b[j][g]);
    }
    for (unsigned i = 0; i < 4; ++i) std::memcpy(&w.d[i], &x.d[i < 2 ? g : g + 8][t * 2 + (i & 1)], 4);
    lanes[l] = w;
  }
}

/// Runs all and compares values: neither the sign of a zero nor the bits of a NaN are promised.
template <class I>
void require_products(const std::vector<tile<I>>& tiles) {
  std::vector<lane_words> lanes(32 * tiles.size());
  for (std::size_t i = 0; i < tiles.size(); ++i) put(tiles[i], &lanes[32 * i]);
  const gpu::buffer<lane_words> on_device{std::span<const lane_words>(lanes)};
  REQUIRE(gpu::launch(multiply_tiles<I>, {static_cast<unsigned>(tiles.size())}, {32}, 0, gpu::stream{},
                      tiles_job{on_device.data()}) == gpu::success);
  on_device.download(lanes);
  for (std::size_t i = 0; i < tiles.size(); ++i)
    for (unsigned l = 0; l < 32; ++l)
      for (unsigned e = 0; e < 4; ++e) {
        const unsigned r = (e < 2 ? 0 : 8) + (l >> 2), c = l % 4 * 2 + (e & 1);
        typename I::sum got;
        std::memcpy(&got, &lanes[32 * i + l].d[e], sizeof got);
        const double want = tiles[i].product(r, c), is = static_cast<double>(got);
        if (is == want || (is != is && want != want)) continue;
        CAPTURE(i, r, c, got);
        REQUIRE(is == want);
      }
}

/// Tiles of elements a(gen), b(gen), scales scale(gen) and sums d(gen), to begin with, whose products add exactly.
template <class I, class A, class B, class Scale, class D>
std::vector<tile<I>> random_tiles(unsigned count, A a, B b, Scale scale, D d) {
  std::mt19937_64 gen{support::seed()};
  std::vector<tile<I>> tiles(count);
  for (tile<I>& x : tiles) {
    for (auto& row : x.a)
      for (unsigned& v : row) v = a(gen);
    for (auto& row : x.b)
      for (unsigned& v : row) v = b(gen);
    for (auto& row : x.scales_a)
      for (unsigned& v : row) v = scale(gen);
    for (auto& row : x.scales_b)
      for (unsigned& v : row) v = scale(gen);
    for (auto& row : x.d)
      for (auto& v : row) v = static_cast<typename I::sum>(d(gen));
  }
  return tiles;
}

/// With both kinds of rounding of the CPU simulator: exact sums have the same bits.
template <class I>
void require_exact_products(const std::vector<tile<I>>& tiles) {
#if defined(UFP4_SIMT_HEADER)
  simt::settings().sums = simt::mma_sums::truncated;
  require_products(tiles);
  simt::settings().sums = simt::mma_sums::nearest;
#endif
  require_products(tiles);
}

unsigned zero_scale(std::mt19937_64&) { return 0; }
int integer(std::mt19937_64& gen, int limit) { return std::uniform_int_distribution<int>{-limit, limit}(gen); }

/// One product a sum: every code of `a` times every code of `b`, at every place along K in turn.
template <class I>
std::vector<tile<I>> every_product(const std::vector<unsigned>& a, const std::vector<unsigned>& b) {
  std::vector<tile<I>> tiles;
  for (std::size_t i = 0; i < a.size(); i += 16)
    for (std::size_t j = 0; j < b.size(); j += 8) {
      tile<I> x;
      for (unsigned r = 0; r < 16 && i + r < a.size(); ++r) x.a[r][(r + tiles.size()) % I::k] = a[i + r];
      for (unsigned k = 0; k < I::k; ++k)
        for (unsigned c = 0; c < 8 && j + c < b.size(); ++c) x.b[k][c] = b[j + c];
      tiles.push_back(x);
    }
  return tiles;
}

template <class Element>
std::vector<unsigned> finite_codes(unsigned codes) {
  std::vector<unsigned> all;
  for (unsigned c = 0; c < codes; ++c)
    if (std::isfinite(Element::value(c))) all.push_back(c);
  return all;
}

}  // namespace

TEST_CASE("tiles of small integers multiply exactly, in f16 and bf16", "[gpu]") {
  INFO(support::seed_note());
  if (!has_mma()) return support::skip("mma.sync with these operands needs compute capability 8.0");
  // |sum| <= 16 64^2 + 2^20 < 2^24
  const auto d = [](auto& gen) { return integer(gen, 1 << 20); };
  const auto half = [](auto& gen) { return unsigned{fp16{static_cast<float>(integer(gen, 64))}.bits()}; };
  const auto bf = [](auto& gen) { return unsigned{bf16{static_cast<float>(integer(gen, 64))}.bits()}; };
  require_exact_products(random_tiles<mma_f16>(8, half, half, zero_scale, d));
  require_exact_products(random_tiles<mma_bf16>(8, bf, bf, zero_scale, d));
}

TEST_CASE("every normal f16 and bf16 multiplies", "[gpu]") {
  if (!has_mma()) return support::skip("mma.sync with these operands needs compute capability 8.0");
  std::vector<unsigned> all, some, all_bf, some_bf;
  for (unsigned c = 0; c < 0x10000; ++c) {
    const unsigned e = c >> 10 & 31u, e_bf = c >> 7 & 255u;
    if (e != 0 && e != 31) all.push_back(c);
    if (e_bf > 63 && e_bf < 190) all_bf.push_back(c);  // the product of two is a normal float
  }
  for (unsigned i = 0; i < 8; ++i) {
    some.push_back(all[all.size() / 8 * i + 7 * i]);
    some_bf.push_back(all_bf[all_bf.size() / 8 * i + 7 * i]);
  }
  require_products(every_product<mma_f16>(all, some));
  require_products(every_product<mma_bf16>(all_bf, some_bf));
}

TEST_CASE("tiles of s8 multiply exactly, and sums wrap", "[gpu]") {
  INFO(support::seed_note());
  if (!has_mma()) return support::skip("mma.sync with these operands needs compute capability 8.0");
  const auto code = [](auto& gen) { return static_cast<unsigned>(gen() & 255u); };
  const auto d = [](auto& gen) { return integer(gen, 1 << 30); };
  require_products(random_tiles<mma_s8_k32>(16, code, code, zero_scale, d));
  require_products(random_tiles<mma_s8_k16>(16, code, code, zero_scale, d));

  auto wrapping = random_tiles<mma_s8_k32>(1, code, code, zero_scale, [](auto&) { return 0; });
  std::vector<lane_words> lanes(32), zero(32);
  put(wrapping[0], zero.data());
  for (auto& row : wrapping[0].d)
    for (std::int32_t& v : row) v = std::numeric_limits<std::int32_t>::max();
  put(wrapping[0], lanes.data());
  for (auto* some : {&lanes, &zero}) {
    const gpu::buffer<lane_words> on_device{std::span<const lane_words>(*some)};
    REQUIRE(gpu::launch(multiply_tiles<mma_s8_k32>, {1}, {32}, 0, gpu::stream{}, tiles_job{on_device.data()}) ==
            gpu::success);
    on_device.download(*some);
  }
  for (unsigned l = 0; l < 32; ++l)
    for (unsigned e = 0; e < 4; ++e) REQUIRE(lanes[l].d[e] == zero[l].d[e] + 0x7FFFFFFFu);
}

TEST_CASE("block-scaled tiles of e2m1 multiply exactly", "[gpu]") {
  INFO(support::seed_note());
  if (!has_block_mma()) return support::skip("block-scaled mma.sync needs compute capability 12.x");
  const auto code = [](auto& gen) { return static_cast<unsigned>(gen() & 15u); };
  // ue4m3 from 1/2 to 15/8 in sixteenths or eighths: products are multiples of 2^-10, and |sum| < 64 36 1.875^2 + 2^12
  // < 2^14.
  const auto scale = [](auto& gen) { return 0x30u + static_cast<unsigned>(gen() & 15u); };
  require_exact_products(
      random_tiles<mma_mxf4nvf4>(8, code, code, scale, [](auto& gen) { return integer(gen, 4096); }));
  // ue8m0 from 1/4 to 4: multiples of 2^-6, and |sum| < 64 36 16 + 2^12 < 2^16.
  const auto power = [](auto& gen) { return 125u + static_cast<unsigned>(gen() % 5); };
  require_exact_products(random_tiles<mma_mxf4>(8, code, code, power, [](auto& gen) { return integer(gen, 4096); }));
}

TEST_CASE("every product of two e2m1 is in the right place", "[gpu]") {
  if (!has_block_mma()) return support::skip("block-scaled mma.sync needs compute capability 12.x");
  const std::vector<unsigned> codes = finite_codes<nibble>(16);
  for (unsigned rotation = 0; rotation < 64; ++rotation) {
    auto tiles = every_product<mma_mxf4nvf4>(codes, codes);
    auto others = every_product<mma_mxf4>(codes, codes);
    for (auto& x : tiles)
      for (auto& row : x.a) std::rotate(std::begin(row), std::begin(row) + rotation, std::end(row));
    for (auto& x : others)
      for (auto& row : x.a) std::rotate(std::begin(row), std::begin(row) + rotation, std::end(row));
    require_products(tiles);
    require_products(others);
  }
}

TEST_CASE("every pair of e4m3 codes multiplies in bytes", "[gpu]") {
  if (!has_block_mma()) return support::skip("block-scaled mma.sync needs compute capability 12.x");
  const std::vector<unsigned> codes = finite_codes<e4m3_bytes>(256);
  require_products(every_product<mma_mxf8f6f4>(codes, codes));
}

TEST_CASE("tiles of bytes multiply exactly, with their scales", "[gpu]") {
  INFO(support::seed_note());
  if (!has_block_mma()) return support::skip("block-scaled mma.sync needs compute capability 12.x");
  // Integers up to 8 and scales from 1/2 to 2: |sum| <= 32 64 4 + 2^12.
  const auto code = [](auto& gen) { return unsigned{e4m3{static_cast<float>(integer(gen, 8))}.bits()}; };
  const auto power = [](auto& gen) { return 126u + static_cast<unsigned>(gen() % 3); };
  const auto d = [](auto& gen) { return integer(gen, 4096); };
  require_exact_products(random_tiles<mma_mxf8f6f4>(8, code, code, power, d));
}

TEST_CASE("every scale multiplies its own block, row and column", "[gpu]") {
  if (!has_block_mma()) return support::skip("block-scaled mma.sync needs compute capability 12.x");
  const auto check = [](auto instruction, unsigned codes) {
    using I = decltype(instruction);
    std::vector<tile<I>> tiles;
    for (unsigned first = 0; first < codes; first += 16)
      for (unsigned j = 0; j < I::blocks; ++j)
        for (const bool of_a : {true, false}) {
          tile<I> x;
          // One product a sum, 4 times the scale: a normal float with every ue8m0 but the two greatest.
          for (unsigned r = 0; r < 16; ++r) x.a[r][I::k / I::blocks * j + r % 16] = 6;
          for (auto& row : x.b)
            for (unsigned& v : row) v = 2;
          for (unsigned i = 0; i < (of_a ? 16u : 8u); ++i) {
            const unsigned scale = std::min(first + i, codes - 1);
            (of_a ? x.scales_a[i][j] : x.scales_b[j][i]) = scale;
          }
          tiles.push_back(x);
        }
    require_products(tiles);
  };
  check(mma_mxf4nvf4{}, 0x7F);
  check(mma_mxf4{}, 0xFD);
}

TEST_CASE("a NaN stays in its row and column", "[gpu]") {
  if (!has_block_mma()) return support::skip("block-scaled mma.sync needs compute capability 12.x");
  const auto check = []<class Instruction>(Instruction, auto set_nan) {
    tile<Instruction> x;
    set_nan(x);
    require_products(std::vector{x});
  };
  check(mma_f16{}, [](auto& x) { x.a[3][5] = x.b[9][6] = 0x7E00; });
  check(mma_bf16{}, [](auto& x) { x.a[12][15] = x.b[0][1] = 0x7FC0; });
  check(mma_mxf4nvf4{}, [](auto& x) { x.scales_a[11][2] = x.scales_b[3][4] = 0x7F; });
  check(mma_mxf4{}, [](auto& x) { x.scales_a[1][1] = x.scales_b[0][7] = 0xFF; });
  check(mma_mxf8f6f4{}, [](auto& x) { x.a[8][31] = 0x7F, x.scales_b[0][2] = 0xFF; });
}

// ---- Memory ----

namespace {

struct rows_job {
  std::uint32_t* out;  // 32 lanes of 4 words
};

/// Shared memory holds the number of every b16; rows are handed to ldmatrix in a mixed order.
UFP4_KERNEL(32) load_rows(const rows_job job) {
  auto* shared = reinterpret_cast<std::uint16_t*>(gpu::shared_memory());
  for (unsigned i = gpu::lane(); i < 40 * 8; i += 32) shared[i] = static_cast<std::uint16_t>(i);
  gpu::sync_block();
  std::uint32_t four[4];
  gpu::mma::load_matrix4(four, shared + 8 * ((gpu::lane() * 7 + 3) % 40));
  for (unsigned i = 0; i < 4; ++i) job.out[4 * gpu::lane() + i] = four[i];
}

struct copies_job {
  const std::uint32_t* in;  // 2 stages of 64 lanes of 4 words
  std::uint32_t* out;       // as many, then 64 of the 4-byte copies
};

/// Two groups of copies; every third is not valid. The first group is read while the second may still be under way.
UFP4_KERNEL(64) copy_rows(const copies_job job) {
  auto* shared = reinterpret_cast<std::uint32_t*>(gpu::shared_memory());
  const unsigned me = gpu::thread_index().x, other = me ^ 63u;
  for (unsigned stage = 0; stage < 2; ++stage) {
    gpu::mma::copy_async16(shared + 256 * stage + 4 * me, job.in + 256 * stage + 4 * me, me % 3 != 0);
    gpu::mma::commit_copies();
  }
  gpu::mma::wait_copies<1>();
  gpu::sync_block();
  for (unsigned i = 0; i < 4; ++i) job.out[4 * me + i] = shared[4 * other + i];
  gpu::mma::wait_copies<0>();
  gpu::sync_block();
  for (unsigned i = 0; i < 4; ++i) job.out[256 + 4 * me + i] = shared[256 + 4 * other + i];
  gpu::sync_block();
  gpu::mma::copy_async4(shared + me, job.in + 255 - me, me % 3 != 1);
  gpu::mma::commit_copies();
  gpu::mma::wait_copies<0>();
  gpu::sync_block();
  job.out[512 + me] = shared[other];
}

}  // namespace

TEST_CASE("ldmatrix gives each lane two neighbours of a row of each matrix", "[gpu]") {
  if (!has_mma()) return support::skip("these tests need compute capability 8.0");
  const gpu::buffer<std::uint32_t> out(128);
  REQUIRE(gpu::launch(load_rows, {1}, {32}, 40 * 16, gpu::stream{}, rows_job{out.data()}) == gpu::success);
  const std::vector<std::uint32_t> got = support::on_host(out);
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned matrix = 0; matrix < 4; ++matrix) {
      const unsigned row = ((8 * matrix + lane / 4) * 7 + 3) % 40, first = 8 * row + lane % 4 * 2;
      REQUIRE(got[4 * lane + matrix] == (first | (first + 1) << 16));
    }
  }
}

TEST_CASE("copies have arrived after the wait, and are zero if not valid", "[gpu]") {
  if (!has_mma()) return support::skip("these tests need compute capability 8.0");
  std::vector<std::uint32_t> in(512);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint32_t>(i + 1) * 0x01010101u;
  const gpu::buffer<std::uint32_t> from{std::span<const std::uint32_t>(in)}, out(512 + 64);
  support::in_every_order([&](const char* order) {
    CAPTURE(order);
    REQUIRE(gpu::set_zero(out.data(), out.size() * 4, gpu::stream{}) == gpu::success);
    REQUIRE(gpu::launch(copy_rows, {1}, {64}, 2048, gpu::stream{}, copies_job{from.data(), out.data()}) ==
            gpu::success);
    const std::vector<std::uint32_t> got = support::on_host(out);
    for (unsigned me = 0; me < 64; ++me) {
      const unsigned other = me ^ 63u;
      for (unsigned stage = 0; stage < 2; ++stage)
        for (unsigned i = 0; i < 4; ++i)
          REQUIRE(got[256 * stage + 4 * me + i] == (other % 3 == 0 ? 0 : in[256 * stage + 4 * other + i]));
      REQUIRE(got[512 + me] == (other % 3 == 1 ? 0 : in[255 - other]));
    }
  });
}
