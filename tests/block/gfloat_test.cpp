// ufp4 - tests: blocks of 8-bit and 6-bit floats have the scales and codes of gfloat.
// SPDX-License-Identifier: Apache-2.0
#include "gfloat_vectors.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <ufp4/ufp4.hpp>
#include <vector>

#include "paper_vectors.hpp"
#include "support/catch.hpp"

namespace {

using namespace ufp4;

/// All blocks of the vectors in the rows of one matrix, as scales of one byte and codes of eight elements a word.
template <class Preset>
void check(std::span<const std::uint8_t> scales, std::span<const std::uint64_t> codes) {
  constexpr std::size_t cols = paper_vectors::cols, rows = std::size(paper_vectors::inputs) / cols;
  std::vector<float> x;
  for (const std::uint32_t bits : paper_vectors::inputs) x.push_back(std::bit_cast<float>(bits));
  const auto q = quantize<Preset>(matrix_view<const float>{x.data(), rows, cols});
  REQUIRE(q.scale_bytes().size() == scales.size());
  REQUIRE(q.codes().size() == 8 * codes.size());
  for (std::size_t b = 0; b < scales.size(); ++b) {
    CAPTURE(b);
    CHECK(static_cast<std::uint8_t>(q.scale_bytes()[b]) == scales[b]);
    for (std::size_t k = 0; k < 32; ++k) CHECK(q.codes()[32 * b + k] == (codes[4 * b + k / 8] >> (8 * (k % 8)) & 255u));
  }
}

}  // namespace

TEST_CASE("blocks of MXFP8 and MXFP6 have the scales and codes that gfloat gives") {
  namespace gv = gfloat_vectors;
  check<mxfp8_e4m3>(gv::mxfp8_e4m3_scales, gv::mxfp8_e4m3_codes);
  check<mxfp8_e5m2>(gv::mxfp8_e5m2_scales, gv::mxfp8_e5m2_codes);
  check<mxfp6_e3m2>(gv::mxfp6_e3m2_scales, gv::mxfp6_e3m2_codes);
  check<mxfp6_e2m3>(gv::mxfp6_e2m3_scales, gv::mxfp6_e2m3_codes);
}
