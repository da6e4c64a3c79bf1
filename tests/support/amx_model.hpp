// ufp4 - AMX tiles in ordinary memory: what the instructions do, written from Intel's documentation.
// SPDX-License-Identifier: Apache-2.0
/// A unit for the kernels of cpu/simd/amx.hpp that runs anywhere and rejects what a processor would fault on:
///
///   using kernel = ufp4::cpu::detail::amx::gemm_blocks<support::emulated_tiles>;
///
/// | state    | one a thread, as in a processor                                                                       |
/// | misuse   | std::logic_error: no configuration, a tile without a shape, shapes that do not fit, a bad palette     |
/// | TDPBF16PS | per element of C two chains of fused multiply-adds over k, of the even and of the odd elements, each |
/// |          | from +0; their sum; that added to C. Subnormal operands are zeros and subnormal results become zeros  |
///
/// Source: Intel SDM volume 2: LDTILECFG, TILELOADD, TILESTORED, TILEZERO, TDPBF16PS, AMX exception classes.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>

#include <ufp4/cpu/simd/amx.hpp>

namespace support {

// ---- Binary32 with subnormals flushed on the way in and on the way out, rounded to nearest even.

inline float flushed(float x) { return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x; }

/// The sum of two numbers of binary64 rounded once to binary32; a result below 2^-126, rounded as if there were smaller
/// numbers, is a zero.
inline float rounded_sum(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum) || sum == 0) return static_cast<float>(sum);
  const double back = sum - a, lost = (a - (sum - back)) + (b - back);
  double odd = sum;  // of the two neighbours of the exact sum the one whose last bit is 1: it can be rounded again
  if (lost != 0 && (std::bit_cast<std::uint64_t>(sum) & 1) == 0)
    odd = std::nextafter(sum,
                         lost > 0 ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity());
  if (std::abs(odd) >= 0x1p-126) return static_cast<float>(odd);
  const float scaled = static_cast<float>(odd * 0x1p60);
  return std::abs(scaled) < 0x1p-66f ? std::copysign(0.0f, scaled) : std::copysign(0x1p-126f, scaled);
}

/// a * b + c: the product of two bf16 numbers is exact in binary64.
inline float flushing_fma(float a, float b, float c) {
  return rounded_sum(static_cast<double>(flushed(a)) * static_cast<double>(flushed(b)),
                     static_cast<double>(flushed(c)));
}
inline float flushing_add(float a, float b) {
  return rounded_sum(static_cast<double>(flushed(a)), static_cast<double>(flushed(b)));
}

// ---- The unit.

class emulated_tiles {
 public:
  static void configure(const ufp4::cpu::detail::amx::tile_config& c) {
    must(c.palette <= 1, "LDTILECFG: no such palette");
    state().shape = {};
    state().configured = false;
    if (c.palette == 0) return;
    must(reinterpret_cast<std::uintptr_t>(&c) % 64 == 0 && c.start_row == 0,
         "LDTILECFG: a configuration of ours is aligned");
    for (const std::uint8_t byte : c.reserved) must(byte == 0, "LDTILECFG: a reserved byte is set");
    for (int t = 0; t < 16; ++t) {
      must(t < 8 || (c.rows[t] == 0 && c.row_bytes[t] == 0), "LDTILECFG: a ninth tile");
      must(c.rows[t] <= 16 && c.row_bytes[t] <= 64, "LDTILECFG: a tile is too large");
      must((c.rows[t] == 0) == (c.row_bytes[t] == 0), "LDTILECFG: rows without bytes, or bytes without rows");
      if (t < 8) state().shape[static_cast<std::size_t>(t)] = {c.rows[t], c.row_bytes[t]};
    }
    state().data = {};
    state().configured = true;
  }
  static void release() { state() = {}; }
  static bool configured() { return state().configured; }

  template <int t>
  static void zero() {
    shape_of(t);
    state().data[t] = {};
  }
  template <int t>
  static void load(const void* p, std::size_t step) {
    const extent e = shape_of(t);
    state().data[t] = {};
    for (std::size_t r = 0; r < e.rows; ++r)
      std::memcpy(state().data[t][r].data(), static_cast<const char*>(p) + r * step, e.bytes);
  }
  template <int t>
  static void store(void* p, std::size_t step) {
    const extent e = shape_of(t);
    for (std::size_t r = 0; r < e.rows; ++r)
      std::memcpy(static_cast<char*>(p) + r * step, state().data[t][r].data(), e.bytes);
  }

  template <int c, int a, int b>
  static void dot_bf16() {
    const auto [m, n, pairs] = product_shape(c, a, b);
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        float sum[2] = {0, 0};
        for (std::size_t k = 0; k < pairs; ++k)
          for (std::size_t half = 0; half < 2; ++half)
            sum[half] = flushing_fma(bf16(a, i, 2 * k + half), bf16(b, k, 2 * j + half), sum[half]);
        put(c, i, j, flushing_add(get<float>(c, i, j), flushing_add(sum[0], sum[1])));
      }
  }

 private:
  struct extent {
    std::size_t rows = 0, bytes = 0;
  };
  struct unit_state {
    bool configured = false;
    std::array<extent, 8> shape{};
    std::array<std::array<std::array<std::uint8_t, 64>, 16>, 8> data{};
  };
  struct product_extent {
    std::size_t m, n, k;  ///< k in dwords
  };

  static unit_state& state() {
    thread_local unit_state s;
    return s;
  }
  static void must(bool fine, const char* otherwise) {
    if (!fine) throw std::logic_error(otherwise);
  }
  static extent shape_of(int t) {
    must(state().configured, "tiles are used without a configuration");
    const extent e = state().shape[static_cast<std::size_t>(t)];
    must(e.rows != 0, "a tile without a shape is used");
    return e;
  }
  static product_extent product_shape(int c, int a, int b) {
    must(c != a && c != b && a != b, "a product needs three tiles");
    const extent to = shape_of(c), left = shape_of(a), right = shape_of(b);
    must(to.bytes % 4 == 0 && left.bytes % 4 == 0 && right.bytes % 4 == 0, "a product needs rows of dwords");
    must(to.rows == left.rows, "a product: C has not the rows of A");
    must(to.bytes == right.bytes, "a product: C has not the columns of B");
    must(left.bytes / 4 == right.rows, "a product: A has not as many columns as B has rows");
    return {to.rows, to.bytes / 4, left.bytes / 4};
  }
  template <class T>
  static T get(int t, std::size_t row, std::size_t i) {
    T value;
    std::memcpy(&value, state().data[static_cast<std::size_t>(t)][row].data() + i * sizeof(T), sizeof(T));
    return value;
  }
  static float bf16(int t, std::size_t row, std::size_t i) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(get<std::uint16_t>(t, row, i)) << 16);
  }
  template <class T>
  static void put(int t, std::size_t row, std::size_t i, T value) {
    std::memcpy(state().data[static_cast<std::size_t>(t)][row].data() + i * sizeof(T), &value, sizeof(T));
  }
};

}  // namespace support
