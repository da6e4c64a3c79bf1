// ufp4 - tests: the formats of papers have the bits of their authors' code, but where a documented step differs.
// SPDX-License-Identifier: Apache-2.0
#include "paper_vectors.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <ufp4/ufp4.hpp>
#include <vector>

#include "support/catch.hpp"

namespace {

using namespace ufp4;
namespace pv = paper_vectors;

/// One matrix of the vectors, quantized.
template <class Preset>
auto coded_matrix(std::size_t m) {
  constexpr std::size_t size = pv::rows * pv::cols;
  std::vector<float> x(size);
  for (std::size_t i = 0; i < size; ++i) x[i] = std::bit_cast<float>(pv::inputs[m * size + i]);
  return quantize<Preset>(matrix_view<const float>{x.data(), pv::rows, pv::cols});
}

/// Whether `words` words of 16 codes from element 16 * first of q on are those of the authors.
template <class Quantized>
bool same_codes(const Quantized& q, std::size_t first, const std::uint64_t* authors, std::size_t words) {
  for (std::size_t w = 0; w < words; ++w) {
    std::uint64_t word = 0;
    for (std::size_t k = 0; k < 8; ++k) word |= std::uint64_t{q.codes()[8 * (first + w) + k]} << (8 * k);
    if (word != authors[w]) return false;
  }
  return true;
}

/// Bytes of T at an offset of the scales of q.
template <class T, class Quantized>
T scales_at(const Quantized& q, std::size_t offset) {
  T value;
  std::memcpy(&value, q.scale_bytes().data() + offset, sizeof(T));
  return value;
}

bool flag(std::span<const std::uint32_t> bits, std::size_t i) { return (bits[i / 32] >> (i % 32) & 1u) != 0; }

constexpr std::size_t blocks = pv::rows * pv::cols / 16;  // of 16 elements, in a matrix

/// Compares blocks of 16 elements with scales of one byte: equal where `same` has a bit, and there only.
template <class Preset>
void check_blocks(std::span<const std::uint64_t> codes, std::span<const std::uint8_t> scales,
                  std::span<const std::uint32_t> same) {
  for (std::size_t m = 0; m < pv::matrices; ++m) {
    const auto q = coded_matrix<Preset>(m);
    for (std::size_t b = 0; b < blocks; ++b) {
      CAPTURE(m, b);
      const std::size_t at = m * blocks + b;
      CHECK((scales_at<std::uint8_t>(q, b) == scales[at] && same_codes(q, b, &codes[at], 1)) == flag(same, at));
    }
  }
}

}  // namespace

TEST_CASE("hif4 has the bits of HiFloat4's quant_hifx, but where bf16 steps and ties round differently") {
  for (std::size_t m = 0; m < pv::matrices; ++m) {
    const auto q = coded_matrix<hif4>(m);
    for (std::size_t b = 0; b < blocks / 4; ++b) {
      CAPTURE(m, b);
      const std::size_t at = m * (blocks / 4) + b;
      const bool same =
          scales_at<std::uint32_t>(q, 4 * b) == pv::hif4_scales[at] && same_codes(q, 4 * b, &pv::hif4_codes[4 * at], 4);
      CHECK(same == flag(pv::hif4_same, at));
    }
  }
}

TEST_CASE("if4 has the bits of fouroversix, but where errors are nearly equal or a scale is subnormal") {
  check_blocks<if4>(pv::if4_codes, pv::if4_scales, pv::if4_same);
}

TEST_CASE("nvint4 has the bits of INT_vs_FP, but where that rounds scales to bf16 or clamps them") {
  check_blocks<nvint4>(pv::nvint4_codes, pv::nvint4_scales, pv::nvint4_same);
}

TEST_CASE("razer has the bits of NVFP4-RaZeR, but where that chooses the special value by another error") {
  check_blocks<razer>(pv::razer_codes, pv::razer_scales, pv::razer_same);
}

TEST_CASE("tetrajet2 has the bits of TetraJet-v2's kernel, but the last bit of some outer scales and scales of zeros") {
  constexpr std::size_t row_blocks = pv::cols / 16, strip = row_blocks + sizeof(float);
  for (std::size_t m = 0; m < pv::matrices; ++m) {
    const auto q = coded_matrix<tetrajet2>(m);
    for (std::size_t i = 0; i < pv::rows; ++i) {
      CAPTURE(m, i);
      const std::size_t row = m * pv::rows + i;
      const bool same_outer = scales_at<std::uint32_t>(q, i * strip + row_blocks) == pv::tetrajet2_outers[row];
      CHECK(same_outer == flag(pv::tetrajet2_outer_same, row));
      for (std::size_t k = 0; k < row_blocks; ++k) {
        CAPTURE(k);
        const std::size_t at = row * row_blocks + k;
        const bool same = scales_at<std::uint8_t>(q, i * strip + k) == pv::tetrajet2_scales[at] &&
                          same_codes(q, i * row_blocks + k, &pv::tetrajet2_codes[at], 1);
        CHECK(same == flag(pv::tetrajet2_same, at));
      }
    }
  }
}
