// ufp4 - the Hadamard kernels of every tier give the scalar kernel's bits and write nothing else.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/hadamard.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/seed.hpp"
#include "support/strided.hpp"
#include "support/threads.hpp"

namespace {

using namespace ufp4;
using support::strided;

transform_spec spec_of_length(std::uint32_t n, bool has_signs, bool rounds) {
  transform_spec t = n == 16    ? random_hadamard<16>{5}.spec()
                     : n == 32  ? random_hadamard<32>{6}.spec()
                     : n == 64  ? random_hadamard<64>{7}.spec()
                     : n == 128 ? random_hadamard<128>{8}.spec()
                                : random_hadamard<256>{9}.spec();
  t.rounds_to_bf16 = rounds;
  if (!has_signs)
    for (auto& word : t.signs) word = 0;
  return t;
}

constexpr std::uint32_t lengths[] = {16, 32, 64, 128, 256};

struct question {
  transform_spec t;
  bool inverse;
  std::size_t rows, cols;  ///< of the narrow side

  std::size_t padded() const { return (cols + t.n - 1) / t.n * t.n; }
  std::size_t in() const { return inverse ? padded() : cols; }
  std::size_t out() const { return inverse ? cols : padded(); }

  template <class X, class Y>
  void call(cpu::isa tier, const matrix_view<X>& x, const matrix_view<Y>& y) const {
    const cpu::context ctx{.threads = 1, .isa = tier};
    if (inverse)
      hadamard_inverse(x, y, t, ctx);
    else
      hadamard_forward(x, y, t, ctx);
  }
};

template <class X, class Y>
void compare(const question& q, support::layout from, support::layout to, const std::vector<float>& values) {
  strided<X> x(q.rows, q.in(), from);
  x.fill(support::elements<X>(values));
  strided<Y> want(q.rows, q.out(), to);
  q.call(cpu::isa::scalar, x.view(), want.view());
  for (const cpu::isa tier : support::runnable_isas()) {
    strided<Y> got(q.rows, q.out(), to);
    q.call(tier, x.view(), got.view());
    CAPTURE(cpu::name(tier), q.t.n, q.inverse, q.rows, q.cols);
    REQUIRE(got.same_as(want));
  }
}

template <class T>
void compare_in_place(const question& q, support::layout shape, const std::vector<float>& values) {
  strided<T> want(q.rows, q.padded(), shape);
  want.fill(support::elements<T>(values));
  q.call(cpu::isa::scalar, want.view(), want.view());
  for (const cpu::isa tier : support::runnable_isas()) {
    strided<T> got(q.rows, q.padded(), shape);
    got.fill(support::elements<T>(values));
    q.call(tier, got.view(), got.view());
    CAPTURE(cpu::name(tier), q.t.n, q.inverse, q.rows, q.cols);
    REQUIRE(got.same_as(want));
  }
}

}  // namespace

TEST_CASE("every tier transforms rows of every width as the scalar kernel does", "[cpu]") {
  INFO(support::seed_note());
  support::hostile source(support::seed(1));
  for (const std::uint32_t n : lengths)
    for (std::size_t cols = 0; cols <= 600; ++cols) {
      if (cols > 40 && (cols + 1) % 16 > 2 && cols % 13 != 0) continue;
      const question q{spec_of_length(n, cols % 4 != 1, cols % 5 == 2), cols % 2 != 0, 1 + cols % 3, cols};
      compare<float, float>(q, support::layout::packed, support::layout::packed,
                            source.values(q.rows * q.in(), cols % 3 == 0));
      compare<float, float>(q, support::layout::wide, support::layout::wide, source.values(q.rows * q.in()));
    }
}

TEST_CASE("every tier reads and writes every pair of types as the scalar kernel does", "[cpu]") {
  INFO(support::seed_note());
  support::hostile source(support::seed(2));
  for (const std::uint32_t n : lengths)
    for (const std::size_t cols : {1u, 7u, 15u, 16u, 17u, 31u, 33u, 100u, 128u, 250u, 255u, 257u, 1030u})
      for (const bool inverse : {false, true}) {
        const question q{spec_of_length(n, true, cols % 3 == 0), inverse, 2, cols};
        const std::vector<float> values = source.values(q.rows * q.in(), cols % 2 == 0);
        const auto check = [&]<class X>(X) {
          for (const auto shape : {support::layout::packed, support::layout::wide}) {
            compare<X, float>(q, shape, support::layout::wide, values);
            compare<X, bf16>(q, shape, support::layout::packed, values);
            compare<X, fp16>(q, shape, support::layout::wide, values);
          }
        };
        check(float{});
        check(bf16{});
        check(fp16{});
      }
}

TEST_CASE("every tier transforms strided, reversed and transposed matrices", "[cpu]") {
  INFO(support::seed_note());
  support::hostile source(support::seed(3));
  for (const std::uint32_t n : lengths)
    for (const std::size_t cols : {5u, 64u, 300u})
      for (const auto from : support::all_layouts)
        for (const auto to : support::all_layouts) {
          const question q{spec_of_length(n, true, false), cols == 64, 3, cols};
          const std::vector<float> values = source.values(q.rows * q.in());
          compare<float, float>(q, from, to, values);
          compare<fp16, bf16>(q, from, to, values);
        }
}

TEST_CASE("every tier works in place", "[cpu]") {
  INFO(support::seed_note());
  support::hostile source(support::seed(4));
  for (const std::uint32_t n : lengths)
    for (const std::size_t runs : {1u, 2u, 3u, 7u})
      for (const auto shape : support::all_layouts) {
        const question q{spec_of_length(n, true, runs == 3), runs % 2 == 0, 4, runs * n};
        const std::vector<float> values = source.values(q.rows * q.cols, runs == 1);
        compare_in_place<float>(q, shape, values);
        compare_in_place<bf16>(q, shape, values);
        compare_in_place<fp16>(q, shape, values);
      }
}

TEST_CASE("every tier keeps the signs of zeros", "[cpu]") {
  // All 2^8 patterns of +0 and -0 in the first half of a run, followed by a pair that cancels.
  for (const std::uint32_t n : lengths)
    for (std::uint32_t pattern = 0; pattern < 256; ++pattern) {
      std::vector<float> values(n, 0.0f);
      for (std::size_t k = 0; k < 8; ++k) values[k * n / 16] = (pattern >> k & 1u) != 0 ? -0.0f : 0.0f;
      if (pattern % 3 == 0) values[n - 1] = 3, values[n - 2] = -3;
      if (pattern % 3 == 1)
        for (std::size_t k = 8; k < n; ++k) values[k] = -0.0f;
      for (const bool inverse : {false, true})
        compare<float, float>({spec_of_length(n, pattern % 2 != 0, false), inverse, 1, n}, support::layout::packed,
                              support::layout::packed, values);
    }
}

TEST_CASE("a NaN of any payload is a NaN in bf16 on every tier", "[cpu]") {
  for (const std::uint32_t payload : {0x7FFFFFFFu, 0xFFFFFFFFu, 0x7FFF8000u, 0x7F800001u})
    for (const std::uint32_t n : lengths)
      for (const bool rounds : {false, true}) {
        std::vector<float> values(2 * n, 1.0f);
        values[n / 2] = std::bit_cast<float>(payload);
        const question q{spec_of_length(n, true, rounds), false, 1, 2 * n};
        compare<float, float>(q, support::layout::packed, support::layout::packed, values);
        compare<float, bf16>(q, support::layout::packed, support::layout::packed, values);
      }
}

TEST_CASE("every tier gives the scalar kernel's bits for many rows, with and without gaps between them", "[cpu]") {
  INFO(support::seed_note());
  support::hostile source(support::seed(5));
  for (const std::uint32_t n : lengths) {
    const question q{spec_of_length(n, true, false), false, 70, 2 * n};
    const std::vector<float> values = source.values(q.rows * q.cols, false, false);
    compare<float, float>(q, support::layout::packed, support::layout::packed, values);
    compare<float, float>(q, support::layout::packed, support::layout::wide, values);
    compare<float, float>(q, support::layout::wide, support::layout::packed, values);
  }
}

TEST_CASE("every tier writes 64 MiB, more than caches hold, with the bits of one row", "[cpu]") {
  INFO(support::seed_note());
  support::hostile source(support::seed(6));
  constexpr std::size_t rows = 4096, cols = 4096, line = 64;
  std::vector<float> memory(rows * cols + 2 * line);
  const std::size_t past = reinterpret_cast<std::uintptr_t>(memory.data()) % line / sizeof(float);
  float* const aligned = memory.data() + (line / sizeof(float) - past);
  for (const std::uint32_t n : {32u, 256u}) {
    const question q{spec_of_length(n, true, false), false, rows, cols};
    const std::vector<float> row = source.values(cols);
    std::vector<float> want(cols);
    q.call(cpu::isa::scalar, matrix_view<const float>(row.data(), 1, cols), matrix_view<float>(want.data(), 1, cols));
    for (const cpu::isa tier : support::runnable_isas()) {
      if (tier == cpu::isa::scalar) continue;
      std::fill(memory.begin(), memory.end(), 3.0f);
      q.call(tier, matrix_view<const float>(row.data(), rows, cols, 0, 1), matrix_view<float>(aligned, rows, cols));
      CAPTURE(cpu::name(tier), n);
      bool same = aligned[-1] == 3.0f && aligned[rows * cols] == 3.0f;
      for (std::size_t i = 0; i < rows; ++i)
        same = same && std::memcmp(aligned + i * cols, want.data(), cols * sizeof(float)) == 0;
      REQUIRE(same);
    }
  }
}
