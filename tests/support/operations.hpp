// ufp4 - runs quantize_into, dequantize and fake_quantize on one matrix and compares the results with the model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ufp4/dequantize.hpp>
#include <ufp4/quantize.hpp>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"

namespace support {

inline const ufp4::cpu::context one_thread{.threads = 1};

/// The same policies for the library and for the model.
struct policies {
  ufp4::transform_spec transform{};
  ufp4::rounding_spec rounding{};
  ufp4::scale_rule_spec rule{};
  model::request theirs{};
};

/// random_hadamard<n>{seed}; n = 1 is no transform.
inline policies random_transform(int n, std::uint64_t seed) {
  using namespace ufp4;
  policies p;
  if (n == 1) return p;
  p.transform = n == 16    ? random_hadamard<16>{seed}.spec()
                : n == 32  ? random_hadamard<32>{seed}.spec()
                : n == 64  ? random_hadamard<64>{seed}.spec()
                : n == 128 ? random_hadamard<128>{seed}.spec()
                           : random_hadamard<256>{seed}.spec();
  p.theirs.t = model::random_transform(static_cast<std::size_t>(n), seed);
  return p;
}

/// Every operation on one matrix, into guarded memory of exactly the documented size, with minimal alignment.
template <class F, class T>
void check_matrix(const std::vector<float>& values, std::size_t rows, std::size_t cols, const policies& p) {
  using namespace ufp4;
  const std::vector<T> held = elements<T>(values);
  const matrix_view<const T> x{held.data(), rows, cols};
  const model::result want = model::quantize(model::format_of<F>(), numbers<T>(held), rows, cols, p.theirs);

  guarded<std::uint8_t> codes(F::has_bytes ? want.codes.size() : want.codes.size() / 2, 1);
  guarded<typename F::scale_type> scales(want.scales.size(), 1);
  quantize_report seen;
  const auto q =
      quantize_into<F>(x, codes.span(), scales.span(), p.transform, p.rounding, p.rule, count_into{seen}, one_thread);
  REQUIRE(q.padded_cols() == want.padded);
  REQUIRE(matches(q, want));
  REQUIRE((codes.guards_intact() && scales.guards_intact()));
  REQUIRE(seen == quantize_report{want.nonfinite_blocks, want.saturated, want.underflowed_scales});

  const std::vector<float> decoded = model::decoded(want), undone = model::decoded(want, p.theirs.t, true);
  guarded<float> back(rows * cols, 1), fake(rows * cols, 1, 0x55);
  const matrix_view<float> to_back{back.data(), rows, cols}, to_fake{fake.data(), rows, cols};
  dequantize(q, to_back, one_thread);
  REQUIRE((same_numbers(back.span(), decoded) && back.guards_intact()));
  fake_quantize<F>(x, to_fake, p.transform, p.rounding, p.rule, one_thread);
  REQUIRE((same_numbers(fake.span(), decoded) && fake.guards_intact()));
  fake_quantize<F>(x, to_fake, p.transform, p.rounding, p.rule, undo_transform{}, one_thread);
  REQUIRE((same_numbers(fake.span(), undone) && fake.guards_intact()));
}

/// Every number of columns from 0 to two runs plus one, under every transform.
template <class F, class T>
void check_tails() {
  INFO(seed_note());
  hostile source(seed(sizeof(T)));
  for (const int n : {1, 16, 32, 64, 128, 256}) {
    const policies p = random_transform(n, seed(static_cast<std::uint64_t>(n)));
    const std::size_t run = static_cast<std::size_t>(n) > F::block_size ? static_cast<std::size_t>(n) : F::block_size;
    for (std::size_t cols = 0; cols <= 2 * run + 1; ++cols) {
      CAPTURE(n, cols);
      const std::size_t rows = 1 + cols % 2;
      check_matrix<F, T>(source.values(rows * cols, cols % 3 == 0), rows, cols, p);
    }
  }
}

}  // namespace support
