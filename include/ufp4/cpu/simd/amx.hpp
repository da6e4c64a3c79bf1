// ufp4 - AMX tiles: the matrix unit that GEMM kernels for the amx tier are written in.
// SPDX-License-Identifier: Apache-2.0
//
// A kernel is a template over a unit, so that tests can run it with tiles that are ordinary memory (tests/support/
// amx_model.hpp). A unit has, all static, tile numbers being template arguments:
//
// | configure(c)      | sets the shapes of all tiles; their contents become zero                               |
// | release()         | removes the shapes of all tiles, so that a context switch saves none                   |
// | zero<t>()         | sets all elements of tile t to zero                                                    |
// | load<t>(p, step)  | reads row r from p + r * step bytes                                                    |
// | store<t>(p, step) | writes row r to p + r * step bytes                                                     |
// | dot_bf16<c, a, b> | c[m][n] += sum over k of a[m][k] * b[k / 2][2 n + k % 2]: binary32, subnormals flushed |
//
// Sources: Intel SDM volume 1, chapter 18, and volume 2: LDTILECFG, TILELOADD, TDPBF16PS.
#pragma once

#include <ufp4/cpu/simd/avx512.hpp>

UFP4_BEGIN_REGION(amx, UFP4_AMX)

/// The operand of LDTILECFG: palette 1 has eight tiles of at most 16 rows of 64 bytes.
struct alignas(64) tile_config {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  constexpr tile_config& shape(int tile, int row_count, int bytes) {
    rows[tile] = static_cast<std::uint8_t>(row_count);
    row_bytes[tile] = static_cast<std::uint16_t>(bytes);
    return *this;
  }
};
static_assert(sizeof(tile_config) == 64);

/// The processor's own tiles. Compilers keep the order of volatile asm statements.
struct hardware {
  static UFP4_LANE void configure(const tile_config& c) { asm volatile("ldtilecfg %0" : : "m"(c)); }
  static UFP4_LANE void release() { asm volatile("tilerelease"); }
  template <int t>
  static UFP4_LANE void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(t));
  }
  template <int t>
  static UFP4_LANE void load(const void* p, std::size_t step) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(step), "i"(t) : "memory");
  }
  template <int t>
  static UFP4_LANE void store(void* p, std::size_t step) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(p), "r"(step), "i"(t) : "memory");
  }
  template <int c, int a, int b>
  static UFP4_LANE void dot_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
};

/// Configures the tiles for one shape; the destructor releases them.
template <class Unit>
class tile_session {
 public:
  explicit tile_session(const tile_config& c) { Unit::configure(c); }
  ~tile_session() { Unit::release(); }
  tile_session(const tile_session&) = delete;
  tile_session& operator=(const tile_session&) = delete;
};
UFP4_END_REGION
