// ufp4 - quantized_gemm on every tier at the limits of its lanes: integers as large as they get, every block length,
// every kind of scale, tails of the register tiles, sources in either order.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
//
// Jobs are made of plain values, as the operations make them, so that a format is a row of a table and not a template.
#include <ufp4/gemm.hpp>

#include "support/catch.hpp"
#include "support/gemm_model.hpp"
#include "support/hostile.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"
#include "support/threads.hpp"

#include <cstring>
#include <string>
#include <vector>

using namespace ufp4;

namespace {

/// Grids whose largest integer is the last that fits, and the first that does not, in the 16-bit sums of a block of 16
/// (8 * 45 * 90 and 16 * 45 * 45 are below 2^15; the same of 46 are not), and in a signed byte.
template <int largest>
struct up_to {
  static constexpr bool exact_products = true;
  static constexpr float values[16] = {-largest, -36, -25, -16, -9, -4, -2, -1, 0, 1, 3, 7, 12, 20, 30, largest};
};
/// The largest integer that a grid may have; its products need all 24 bits at a block of 256.
struct to_181 {
  static constexpr bool exact_products = true;
  static constexpr float values[16] = {-181, -180, -97, -64, -31, -8, -5, -1, 0, 1, 6, 32, 65, 100, 179, 181};
};
/// Not symmetric: the offset that makes the right operand unsigned is not its largest magnitude.
struct lopsided {
  static constexpr bool exact_products = true;
  static constexpr float values[16] = {-60, -9, -5, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
};
/// Two of these have a unit of 2^-140 between them: dot products are subnormal.
struct tiny {
  static constexpr bool exact_products = true;
  static constexpr float values[16] = {-0x8p-70f, -0x7p-70f, -0x6p-70f, -0x5p-70f, -0x4p-70f, -0x3p-70f,
                                       -0x2p-70f, -0x1p-70f, 0,         0x1p-70f,  0x2p-70f,  0x3p-70f,
                                       0x4p-70f,  0x5p-70f,  0x6p-70f,  0x7p-70f};
};
struct named_grid {
  const char* name;
  grid4 grid;
  ufp4::detail::byte_element byte = ufp4::detail::byte_element::none;
};
const named_grid grids[] = {{"e2m1", grid_of<fp4<E2M1>>()},
                            {"e1m2", grid_of<fp4<E1M2>>()},
                            {"e3m0", grid_of<fp4<E3M0>>()},
                            {"int4", grid_of<ufp4::int4>()},
                            {"nf4", grid_of<nf4>()},
                            {"up to 45", grid_of<table_element<up_to<45>>>()},
                            {"up to 46", grid_of<table_element<up_to<46>>>()},
                            {"up to 127", grid_of<table_element<up_to<127>>>()},
                            {"up to 128", grid_of<table_element<up_to<128>>>()},
                            {"up to 181", grid_of<table_element<to_181>>()},
                            {"lopsided", grid_of<table_element<lopsided>>()},
                            {"tiny", grid_of<table_element<tiny>>()},
                            {"int8", grid_of<ufp4::int8>(), ufp4::detail::byte_element::int8},
                            {"int8q6", grid_of<int8q6>(), ufp4::detail::byte_element::int8}};
const named_grid& grid_named(const std::string& name) {
  for (const named_grid& g : grids)
    if (g.name == name) return g;
  throw std::invalid_argument(name);
}

constexpr scale_kind kinds[] = {scale_kind::f32, scale_kind::bf16, scale_kind::e4m3, scale_kind::ue5m3,
                                scale_kind::e8m0};
const char* name_of(scale_kind kind) {
  const char* names[] = {"f32", "bf16", "e4m3", "ue5m3", "e8m0"};
  for (std::size_t i = 0; i < 5; ++i)
    if (kinds[i] == kind) return names[i];
  return "?";
}

/// A quantized matrix of any format, its memory guarded.
struct quantized_side {
  format_spec format;
  std::size_t rows, padded;
  support::guarded<std::uint8_t> codes, scales;

  quantized_side(const named_grid& of, scale_kind kind, block_shape block, std::size_t rows_, std::size_t padded_)
      : format{of.grid, kind, block, {}, of.byte},
        rows(rows_),
        padded(padded_),
        codes(ufp4::detail::code_bytes(format, rows * padded), 1),
        scales(ufp4::detail::scale_rows(rows, block) * (padded / static_cast<std::size_t>(block.cols)) *
                   static_cast<std::size_t>(ufp4::detail::scale_bytes(kind)),
               1) {}

  std::size_t count_of_scales() const {
    return scales.size() / static_cast<std::size_t>(ufp4::detail::scale_bytes(format.scale));
  }
  void fill(std::uint8_t code) { std::memset(codes.data(), format.has_bytes() ? code : code * 17, codes.size()); }
  /// Any codes; any scales, with NaN and negative ones where `special`.
  void fill(std::mt19937_64& gen, bool special) {
    for (std::uint8_t& pair : codes) pair = static_cast<std::uint8_t>(gen());
    for (std::size_t i = 0; i < count_of_scales(); ++i)
      cpu::detail::store_scale(scales.data(), format.scale, i, draw(gen, special));
  }
  void fill_scales(std::uint32_t bits) {
    for (std::size_t i = 0; i < count_of_scales(); ++i) cpu::detail::store_scale(scales.data(), format.scale, i, bits);
  }
  std::uint32_t draw(std::mt19937_64& gen, bool special) const {
    using model::random_scale;
    const auto kind = special ? model::scales::hostile : model::scales::ordinary;
    if (special && gen() % 64 == 0) return ufp4::detail::nan_scale(format.scale);
    switch (format.scale) {
      case scale_kind::f32: return model::bits_of(random_scale<float>(gen, kind));
      case scale_kind::bf16: return random_scale<ufp4::bf16>(gen, kind).bits();
      case scale_kind::e4m3: return random_scale<e4m3>(gen, kind).bits() | (special ? gen() % 2 * 0x80u : 0u);
      case scale_kind::ue5m3: return random_scale<ue5m3>(gen, kind).bits();
      case scale_kind::e8m0: return random_scale<e8m0>(gen, kind).bits();
      case scale_kind::e6m2: break;
    }
    return 0;
  }

  cpu::detail::gemm_operand side() const {
    return {.q = {codes.data(), scales.data(), format, rows, padded, padded, 1.0f, {}}};
  }
};

/// The same in the interleaved order of job.hpp: groups of 16 rows, what fills the last one up being noise.
struct interleaved {
  std::vector<std::uint8_t> codes, scales;
  cpu::detail::quantized_source q;

  interleaved(const quantized_side& from, std::mt19937_64& gen) : q(from.side().q) {
    const std::size_t groups = (from.rows + 15) / 16,
                      bytes = static_cast<std::size_t>(ufp4::detail::scale_bytes(q.format.scale));
    q.interleaved = true;
    codes.resize(groups * ((q.padded_cols + 7) / 8) * 64);
    scales.resize(groups * 16 * q.blocks() * bytes);
    for (std::uint8_t& c : codes) c = static_cast<std::uint8_t>(gen());
    for (std::uint8_t& s : scales) s = static_cast<std::uint8_t>(gen());
    const cpu::detail::quantized_source plain = from.side().q;
    for (std::size_t i = 0; i < from.rows; ++i) {
      for (std::size_t k = 0; k < q.padded_cols; k += 2)
        codes[q.code_index(i, k)] = plain.codes[plain.code_index(i, k)];
      for (std::size_t b = 0; b < q.blocks(); ++b)
        cpu::detail::store_scale(scales.data(), q.format.scale, q.scale_index(i, b),
                                 cpu::detail::load_scale(plain.scales, q.format.scale, plain.scale_index(i, b)));
    }
    q.codes = codes.data();
    q.scales = scales.data();
  }
  cpu::detail::gemm_operand side() const { return {.q = q}; }
};

/// An unquantized matrix cut into blocks.
struct plain_matrix {
  std::size_t rows, cols;
  std::vector<float> x;
  cpu::detail::gemm_operand side(std::size_t block, std::size_t padded, const transform_spec& transform = {}) const {
    return {.is_quantized = false,
            .unquantized = {.x = {x.data(), dtype::f32, rows, cols, static_cast<std::ptrdiff_t>(cols), 1},
                            .format = ufp4::detail::unquantized_format(static_cast<int>(block)),
                            .transform = transform,
                            .padded_cols = padded}};
  }
};

cpu::detail::gemm_job job_of(const cpu::detail::gemm_operand& a, const cpu::detail::gemm_operand& b, accumulate mode) {
  return {.left = a,
          .right = b,
          .block = static_cast<std::size_t>(a.is_quantized ? a.q.format.block.cols : b.q.format.block.cols),
          .mode = mode};
}

std::vector<float> product(cpu::detail::gemm_job job, cpu::isa tier) {
  const std::size_t m = job.left.rows(), n = job.right.rows();
  support::guarded<float> c(m * n, 1);
  job.out = {c.data(), dtype::f32, m, n, static_cast<std::ptrdiff_t>(n), 1};
  cpu::detail::run_gemms(cpu::context{.threads = 1, .isa = tier},
                         cpu::detail::kernels::gemm<ufp4::detail::features::all>, {&job, 1});
  REQUIRE(c.guards_intact());
  return {c.begin(), c.end()};
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  bool equal = a.size() == b.size();
  for (std::size_t i = 0; equal && i < a.size(); ++i) equal = support::same_number(a[i], b[i]);
  return equal;
}

/// Sums that overflow give the formula's infinity or NaN in exact_blocks, and their true value in fast.
bool same_where_finite(const std::vector<float>& fast, const std::vector<float>& exact) {
  bool equal = fast.size() == exact.size();
  for (std::size_t i = 0; equal && i < fast.size(); ++i)
    equal = !std::isfinite(exact[i]) || support::same_number(fast[i], exact[i]);
  return equal;
}

std::vector<cpu::isa> vector_tiers() {
  std::vector<cpu::isa> tiers = support::runnable_isas();
  tiers.erase(tiers.begin());
  return tiers;
}

/// exact_blocks on every tier has the scalar bits.
void check_exact(const cpu::detail::gemm_operand& a, const cpu::detail::gemm_operand& b) {
  const cpu::detail::gemm_job job = job_of(a, b, accumulate::exact_blocks);
  const std::vector<float> expected = product(job, cpu::isa::scalar);
  for (const cpu::isa tier : vector_tiers()) {
    CAPTURE(cpu::name(tier),
            cpu::detail::gemm_kernel_for(cpu::detail::kernels::gemm<ufp4::detail::features::all>, job, tier).name);
    REQUIRE(same(product(job, tier), expected));
  }
}

/// By hand: block sums in 64-bit integers.
std::vector<float> by_hand(const quantized_side& a, const quantized_side& b) {
  const auto block = static_cast<std::size_t>(a.format.block.cols);
  const double unit = static_cast<double>(a.format.grid.unit) * static_cast<double>(b.format.grid.unit);
  const auto integer = [](const quantized_side& m, std::size_t row, std::size_t k) {
    if (m.format.has_bytes()) return std::int64_t{static_cast<std::int8_t>(m.codes[row * m.padded + k])};
    const std::uint8_t pair = m.codes[(row * m.padded + k) / 2];
    return std::int64_t{m.format.grid.integer[k % 2 == 0 ? pair % 16 : pair / 16]};
  };
  std::vector<float> out;
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < b.rows; ++j) {
      float acc = 0;
      for (std::size_t k = 0; k < a.padded; k += block) {
        std::int64_t sum = 0;
        for (std::size_t e = k; e < k + block; ++e) sum += integer(a, i, e) * integer(b, j, e);
        float scale[2];
        std::memcpy(&scale[0], a.scales.data() + 4 * (i * (a.padded / block) + k / block), 4);
        std::memcpy(&scale[1], b.scales.data() + 4 * (j * (b.padded / block) + k / block), 4);
        acc = model::fma(static_cast<float>(static_cast<double>(sum) * unit), model::mul(scale[0], scale[1]), acc);
      }
      out.push_back(acc);
    }
  return out;
}

std::uint8_t code_of_extreme(const named_grid& of, bool negative) {
  if (of.byte != ufp4::detail::byte_element::none) return negative ? 0x80 : 0x7F;
  const grid4& grid = of.grid;
  std::size_t best = 0;
  for (std::size_t c = 0; c < 16; ++c)
    if (negative ? grid.value[c] < grid.value[best] : grid.value[c] > grid.value[best]) best = c;
  return static_cast<std::uint8_t>(best);
}

}  // namespace

TEST_CASE("no sum overflows where every code is the grid's largest or smallest", "[gemm]") {
  for (const named_grid& left : grids)
    for (const named_grid& right : grids)
      for (const int block : {16, 32, 64, 128, 256}) {
        if (!left.grid.exact_products || !right.grid.exact_products) continue;
        const std::string pair = std::string(left.name) + right.name;
        CAPTURE(left.name, right.name, block);
        quantized_side a(left, scale_kind::f32, block, 4, 256), b(right, scale_kind::f32, block, 5, 256);
        a.fill_scales(0x3F800000u);
        b.fill_scales(0x3F800000u);
        for (const int signs : {0, 1, 2, 3}) {
          a.fill(code_of_extreme(left, signs % 2 != 0));
          b.fill(code_of_extreme(right, signs / 2 != 0));
          const std::vector<float> expected = by_hand(a, b);
          for (const cpu::isa tier : support::runnable_isas())
            for (const accumulate mode : {accumulate::exact_blocks, accumulate::fast}) {
              CAPTURE(signs, cpu::name(tier));
              if (mode == accumulate::fast && pair.find("up to") != std::string::npos)
                continue;  // sums beyond 2^24 units: fast may round them in its own order
              REQUIRE(same(product(job_of(a.side(), b.side(), mode), tier), expected));
            }
        }
      }
}

TEST_CASE("exact_blocks has the scalar bits at every block length, for every grid and kind of scale", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  std::size_t pair = 0;
  for (const named_grid& left : grids)
    for (int block = 2; block <= 256; block *= 2)
      for (const bool special : {false, true}) {
        const named_grid& right = grids[pair % std::size(grids)];
        const scale_kind one = kinds[pair % 5], other = kinds[pair / 5 % 5];
        const std::size_t padded = static_cast<std::size_t>(block) * (1 + pair++ % 9);
        CAPTURE(left.name, right.name, block, padded, special, name_of(one), name_of(other));
        quantized_side a(left, one, block, 9, padded), b(right, other, block, 18, padded);
        a.fill(gen, special);
        b.fill(gen, special);
        check_exact(a.side(), b.side());
      }
}

TEST_CASE("every finite and NaN code of every kind of scale is decoded alike", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  for (const scale_kind kind : kinds)
    for (const bool on_the_left : {false, true}) {
      CAPTURE(name_of(kind), on_the_left);
      const std::size_t rows = 64, blocks = 4;  // 256 codes; of the wider kinds the ends of the range and some between
      quantized_side all(grid_named("e2m1"), kind, 16, rows, 16 * blocks),
          ones(grid_named("int4"), scale_kind::f32, 16, 3, 16 * blocks);
      for (std::uint8_t& pair : all.codes) pair = static_cast<std::uint8_t>(gen());
      ones.fill(gen, false);
      for (std::size_t i = 0; i < rows * blocks; ++i) {
        const auto code = static_cast<std::uint32_t>(i);
        const std::uint32_t bits = kind == scale_kind::f32    ? code * 0x01010101u
                                   : kind == scale_kind::bf16 ? code * 0x0101u
                                                              : code;
        cpu::detail::store_scale(all.scales.data(), kind, i, bits);
      }
      on_the_left ? check_exact(all.side(), ones.side()) : check_exact(ones.side(), all.side());
    }
}

TEST_CASE("every tail of rows, columns and K has the scalar bits and writes nothing beyond", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(3)};
  for (const char* name : {"e2m1", "e3m0", "nf4", "int8"})
    for (std::size_t m = 1; m <= 13; ++m)
      for (std::size_t n = 1; n <= 35; n += m % 4 == 1 ? 1 : 7) {
        const std::size_t padded = 16 * (1 + (m * n) % 5);
        CAPTURE(name, m, n, padded);
        quantized_side a(grid_named(name), scale_kind::f32, 16, m, padded),
            b(grid_named(name), scale_kind::e4m3, 16, n, padded);
        a.fill(gen, false);
        b.fill(gen, false);
        check_exact(a.side(), b.side());
        if (!a.format.has_bytes()) continue;
        quantized_side w(grid_named("e2m1"), scale_kind::e4m3, 16, n, padded);
        w.fill(gen, false);
        check_exact(a.side(), w.side());
        check_exact(w.side(), a.side());
      }
  for (std::size_t padded = 992; padded <= 1120; padded += 16) {  // across the end of a slice of K
    quantized_side a(grid_named("e1m2"), scale_kind::bf16, 16, 5, padded),
        b(grid_named("int4"), scale_kind::f32, 16, 17, padded);
    CAPTURE(padded);
    a.fill(gen, false);
    b.fill(gen, false);
    check_exact(a.side(), b.side());
  }
}

TEST_CASE("square blocks and interleaved sources are read on either side", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  for (const char* name : {"e2m1", "nf4"})
    for (const scale_kind kind : kinds)
      for (const int block : {2, 8, 16, 32}) {
        CAPTURE(name, name_of(kind), block);
        const auto padded = static_cast<std::size_t>(block) * 7;
        quantized_side squares(grid_named(name), kind, square(block), 21, padded),
            lines(grid_named("e1m2"), kind, block, 19, padded);
        squares.fill(gen, false);
        lines.fill(gen, false);
        check_exact(squares.side(), lines.side());
        check_exact(lines.side(), squares.side());
        quantized_side rows(grid_named(name), kind, block, 37, padded);
        rows.fill(gen, true);
        const interleaved transposed(rows, gen), other(lines, gen);
        const std::vector<float> expected =
            product(job_of(lines.side(), rows.side(), accumulate::exact_blocks), cpu::isa::scalar);
        for (const cpu::isa tier : support::runnable_isas()) {
          CAPTURE(cpu::name(tier));
          REQUIRE(same(product(job_of(lines.side(), transposed.side(), accumulate::exact_blocks), tier), expected));
          REQUIRE(same(product(job_of(other.side(), transposed.side(), accumulate::exact_blocks), tier), expected));
          REQUIRE(same(product(job_of(other.side(), rows.side(), accumulate::exact_blocks), tier), expected));
        }
      }
}

TEST_CASE("a plain operand on either side gives the chain's bits at every block length, hostile values included",
          "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(5)};
  support::hostile source(support::seed(6));
  for (int block = 2; block <= 256; block *= 2)
    for (const bool special : {false, true})
      for (const int n : {1, 32}) {
        const std::size_t run = static_cast<std::size_t>(block > n ? block : n);
        const std::size_t cols = 3 * run - 1, padded = 3 * run;
        const transform_spec transform = n == 1 ? transform_spec{} : random_hadamard<32>{9}.spec();
        CAPTURE(block, special, n);
        const plain_matrix x{7, cols, source.values(7 * cols, special)}, w{18, cols, source.values(18 * cols, special)};
        quantized_side few(grid_named("e2m1"), scale_kind::e4m3, block, 7, padded),
            many(grid_named("nf4"), scale_kind::f32, block, 18, padded);
        few.fill(gen, special);
        many.fill(gen, special);
        cpu::detail::gemm_operand left = few.side(), right = many.side();
        left.q.transform = right.q.transform = transform;
        check_exact(x.side(run == 0 ? 1 : static_cast<std::size_t>(block), padded, transform), right);
        check_exact(left, w.side(static_cast<std::size_t>(block), padded, transform));
      }
}

TEST_CASE(
    "on AVX2 and NEON fast has the bits of exact_blocks where grids are exact, from 2^-40 to 2^10, and sums finite",
    "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(7)};
  for (const cpu::isa tier :
       {cpu::isa::avx2, cpu::isa::neon, cpu::isa::neon_dotprod, cpu::isa::neon_i8mm, cpu::isa::neon_bf16}) {
    if (!cpu::available().has(tier)) continue;
    for (const named_grid& g : grids) {
      if (!g.grid.exact_products || ufp4::detail::has_extreme_values(g.grid)) continue;  // fast: binary64
      CAPTURE(cpu::name(tier), g.name);
      quantized_side a(g, scale_kind::f32, 16, 6, 176), b(g, scale_kind::e8m0, 16, 18, 176);
      a.fill(gen, true);
      b.fill(gen, true);
      const std::vector<float> exact = product(job_of(a.side(), b.side(), accumulate::exact_blocks), tier);
      REQUIRE(same_where_finite(product(job_of(a.side(), b.side(), accumulate::fast), tier), exact));
    }
  }
}

TEST_CASE("folded_bf16 is within its bound on every tier, plain operands included", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(8)};
  for (const char* name : {"e2m1", "e3m0", "nf4"})
    for (const int block : {4, 16, 64}) {
      const auto padded = static_cast<std::size_t>(block) * 5;
      quantized_side a(grid_named(name), scale_kind::f32, block, 5, padded),
          b(grid_named(name), scale_kind::f32, block, 18, padded);
      a.fill(gen, false);
      b.fill(gen, false);
      const plain_matrix x{5, padded, model::wide_floats(gen, 5 * padded)};
      const auto value = [&](const quantized_side& m, std::size_t row, std::size_t k) {
        const std::uint8_t pair = m.codes[(row * padded + k) / 2];
        float scale;
        std::memcpy(&scale, m.scales.data() + 4 * (row * 5 + k / static_cast<std::size_t>(block)), 4);
        return static_cast<double>(m.format.grid.value[k % 2 == 0 ? pair % 16 : pair / 16]) *
               static_cast<double>(scale);
      };
      for (const bool plain : {false, true})
        for (const cpu::isa tier : support::runnable_isas()) {
          CAPTURE(name, block, plain, cpu::name(tier));
          const cpu::detail::gemm_operand left = plain ? x.side(static_cast<std::size_t>(block), padded) : a.side();
          cpu::detail::gemm_job job = job_of(left, b.side(), accumulate::folded_bf16);
          job.block = static_cast<std::size_t>(block);
          const std::vector<float> c = product(job, tier);
          for (std::size_t i = 0; i < 5; ++i)
            for (std::size_t j = 0; j < 18; ++j) {
              double sum = 0, magnitude = 0;
              for (std::size_t k = 0; k < padded; ++k) {
                const double term =
                    (plain ? static_cast<double>(x.x[i * padded + k]) : value(a, i, k)) * value(b, j, k);
                sum += term;
                magnitude += std::abs(term);
              }
              const double bound = (0x1p-7 + 0x1p-16 + static_cast<double>(padded + 6) * 0x1p-24) * magnitude;
              REQUIRE(std::abs(static_cast<double>(c[i * 18 + j]) - sum) <= bound);
            }
        }
    }
}

TEST_CASE("integer kernels take a grid up to their limit and no further", "[gemm]") {
  const auto kernel = [](const char* left, const char* right, int block, cpu::isa tier,
                         accumulate mode = accumulate::exact_blocks) {
    const quantized_side a(grid_named(left), scale_kind::f32, block, 4, 256),
        b(grid_named(right), scale_kind::f32, block, 4, 256);
    return std::string(cpu::detail::gemm_kernel_for(cpu::detail::kernels::gemm<ufp4::detail::features::all>,
                                                    job_of(a.side(), b.side(), mode), tier)
                           .name);
  };
  struct row {
    const char *left, *right;
    int block;
    bool sums_of_16_bits, bytes;  ///< may AVX2 and plain NEON, may the dot product instructions
    bool steps = false;           ///< may AVX2 where only the sums of 16 k fit 16 bits
  };
  const row rows[] = {{"e2m1", "e2m1", 16, true, true},
                      {"e2m1", "e2m1", 128, true, true},
                      {"e2m1", "e2m1", 8, false, false},
                      {"e1m2", "int4", 256, true, true},
                      {"e3m0", "e3m0", 16, false, true},
                      {"e3m0", "e1m2", 16, true, true},
                      {"up to 45", "up to 45", 16, true, true},
                      {"up to 46", "up to 46", 16, false, true},
                      {"up to 45", "up to 45", 32, false, true, true},
                      {"up to 127", "up to 127", 256, false, true},
                      {"e1m2", "up to 128", 16, false, false},
                      {"nf4", "e2m1", 16, false, false},
                      {"int8", "e2m1", 16, true, true},
                      {"int8", "e2m1", 32, false, true, true},
                      {"int8", "e1m2", 32, true, true},
                      {"int8", "int8", 32, false, true},
                      {"e2m1", "int8", 32, false, true},
                      {"int8", "nf4", 16, false, false}};
  for (const row& r : rows) {
    CAPTURE(r.left, r.right, r.block);
#if defined(__x86_64__)
    if (!cpu::available().has(cpu::isa::avx2)) return support::skip("there is no AVX2 here");
    const std::string wide = "gemm_f32_avx2";
    CHECK(kernel(r.left, r.right, r.block, cpu::isa::avx2) == (r.sums_of_16_bits ? "gemm_int8_avx2"
                                                               : r.steps         ? "gemm_int8_steps_avx2"
                                                                                 : wide));
    if (cpu::available().has(cpu::isa::avx512) && r.block % 8 == 0)
      CHECK(kernel(r.left, r.right, r.block, cpu::isa::avx512) == (r.bytes ? "gemm_int8_avx512" : "gemm_f32_avx512"));
    CHECK(kernel(r.left, r.right, r.block, cpu::isa::avx2, accumulate::folded_bf16) == wide);
#elif defined(__aarch64__)
    const std::string wide = "gemm_f32_neon";
    CHECK(kernel(r.left, r.right, r.block, cpu::isa::neon) == (r.sums_of_16_bits ? "gemm_int8_neon" : wide));
    CHECK(kernel(r.left, r.right, r.block, cpu::isa::neon_dotprod) == (r.bytes ? "gemm_int8_dotprod" : wide));
    CHECK(kernel(r.left, r.right, r.block, cpu::isa::neon_i8mm) == (r.bytes ? "gemm_int8_i8mm" : wide));
    CHECK(kernel(r.left, r.right, r.block, cpu::isa::neon_i8mm, accumulate::folded_bf16) == wide);
    CHECK(kernel(r.left, r.right, r.block, cpu::isa::neon_bf16) == (r.bytes ? "gemm_int8_i8mm" : wide));
    const bool of_bytes = grid_named(r.left).byte != ufp4::detail::byte_element::none ||
                          grid_named(r.right).byte != ufp4::detail::byte_element::none;
    CHECK(kernel(r.left, r.right, r.block, cpu::isa::neon_bf16, accumulate::folded_bf16) ==
          (of_bytes ? wide : "gemm_bf16_neon"));
#endif
  }
}
