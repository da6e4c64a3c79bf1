// ufp4 - pairs of formats whose products are tested on every backend.
// SPDX-License-Identifier: Apache-2.0
//
// Each function calls check(pair{}) for pairs of one kind; a pair has the types `left` and `right`:
//
//   support::pairs_of_16([](auto pair) { check<typename decltype(pair)::left, typename decltype(pair)::right>(); });
#pragma once

#include <string>
#include <type_traits>
#include <ufp4/block/presets.hpp>
#include <ufp4/block/scale_rules.hpp>
#include <ufp4/format/table_element.hpp>

namespace support {

template <class Left, class Right>
struct format_pair {
  using left = Left;
  using right = Right;
};

// Formats that are not presets.
using e3m0_f32 = ufp4::block_format<ufp4::fp4<ufp4::E3M0>, float, 16>;
using e3m0_bf16 = ufp4::block_format<ufp4::fp4<ufp4::E3M0>, ufp4::bf16, 16>;
using e2m1_bf16 = ufp4::block_format<ufp4::fp4<ufp4::E2M1>, ufp4::bf16, 16>;
using e1m2_ue5m3 = ufp4::block_format<ufp4::fp4<ufp4::E1M2>, ufp4::ue5m3, 16>;
using int4_e8m0 = ufp4::block_format<ufp4::int4, ufp4::e8m0, 16>;
using nvfp4_square = ufp4::block_format<ufp4::fp4<ufp4::E2M1>, ufp4::e4m3, ufp4::square(16), float>;
using mxint4_square = ufp4::block_format<ufp4::int4, ufp4::e8m0, ufp4::square(32)>;
using nvfp4_rectangle = ufp4::block_format<ufp4::fp4<ufp4::E2M1>, ufp4::e4m3, ufp4::block_shape(32, 16), float>;
using int4_128 = ufp4::block_format<ufp4::int4, float, ufp4::square(128)>;
using nf4_f32 = ufp4::block_format<ufp4::nf4, float, 16>;
using nf4_mx = ufp4::block_format<ufp4::nf4, ufp4::e8m0, 32>;
using int8_e4m3 = ufp4::block_format<ufp4::int8, ufp4::e4m3, 16, float>;
using mxint8_square = ufp4::block_format<ufp4::int8q6, ufp4::e8m0, ufp4::square(32)>;
template <class Element, class Scale, int length>
using blocks_of = ufp4::block_format<Element, Scale, length>;

/// What a failing check prints of a pair: the presets' names, or the number of the format's scale kind and its block.
template <class Format>
std::string format_text() {
  std::string text;
  const auto compare = [&](auto row) {
    if constexpr (std::is_same_v<typename decltype(row)::format, Format>) text = row.name;
  };
  ufp4::detail::for_each_row(ufp4::detail::presets{}, compare);
  ufp4::detail::for_each_row(ufp4::detail::byte_presets{}, compare);
  if (!text.empty()) return text;
  return "scale kind " + std::to_string(static_cast<int>(ufp4::spec_of<Format>.scale)) + ", blocks of " +
         std::to_string(Format::block.rows) + " x " + std::to_string(Format::block.cols) + ", value of code 7 " +
         std::to_string(ufp4::detail::value_of(ufp4::spec_of<Format>, 7));
}
template <class Left, class Right>
std::string pair_text() {
  return format_text<Left>() + " x " + format_text<Right>();
}

/// check(pair{}) for each of Pairs.
template <class... Pairs, class Check>
void for_each_pair(Check check) {
  (check(Pairs{}), ...);
}

/// Blocks of 16 of small integers, with every kind of scale and every regular grid.
template <class Check>
void pairs_of_16(Check check) {
  using namespace ufp4;
  for_each_pair<format_pair<e1m2_f32, e1m2_f32>, format_pair<int4_f32, e2m1_f32>, format_pair<nvfp4, nvfp4>,
                format_pair<nv_e1m2, nvint4>, format_pair<e1m2_f32, nvfp4>, format_pair<e3m0_f32, e3m0_f32>,
                format_pair<e3m0_f32, nvint4>, format_pair<e2m1_bf16, int4_f32>, format_pair<e1m2_ue5m3, int4_e8m0>,
                format_pair<e3m0_bf16, e1m2_ue5m3>, format_pair<e1m2_ue5m3, e2m1_bf16>, format_pair<e3m0_f32, nvfp4>,
                format_pair<e2m1_bf16, e1m2_f32>, format_pair<nvint4, nvfp4>, format_pair<e1m2_f32, nvint4>>(check);
}

/// Longer blocks of small integers.
template <class Check>
void pairs_of_longer_blocks(Check check) {
  using namespace ufp4;
  for_each_pair<format_pair<mxfp4, mxint4>, format_pair<mxfp4, mx_e1m2>,
                format_pair<mxint4, blocks_of<fp4<E2M1>, float, 32>>,
                format_pair<blocks_of<fp4<E1M2>, e4m3, 32>, mxfp4>,
                format_pair<blocks_of<fp4<E2M1>, float, 64>, blocks_of<ufp4::int4, e4m3, 64>>,
                format_pair<blocks_of<fp4<E1M2>, ue5m3, 64>, blocks_of<ufp4::int4, bf16, 64>>,
                format_pair<blocks_of<fp4<E3M0>, e8m0, 128>, blocks_of<fp4<E1M2>, float, 128>>,
                format_pair<blocks_of<fp4<E2M1>, e8m0, 256>, blocks_of<fp4<E3M0>, float, 256>>,
                format_pair<blocks_of<fp4<E3M0>, e8m0, 256>, blocks_of<fp4<E3M0>, float, 256>>,
                format_pair<blocks_of<fp4<E3M0>, float, 256>, blocks_of<fp4<E3M0>, float, 256>>>(check);
}

/// Blocks that no matrix instruction takes.
template <class Check>
void pairs_of_shorter_blocks(Check check) {
  using namespace ufp4;
  for_each_pair<format_pair<blocks_of<fp4<E1M2>, float, 2>, blocks_of<ufp4::int4, e4m3, 2>>,
                format_pair<blocks_of<fp4<E1M2>, ue5m3, 2>, blocks_of<ufp4::int4, bf16, 2>>,
                format_pair<blocks_of<fp4<E2M1>, float, 4>, blocks_of<ufp4::int4, e4m3, 4>>,
                format_pair<blocks_of<fp4<E2M1>, float, 8>, blocks_of<ufp4::int4, e4m3, 8>>>(check);
}

/// Square and other rectangular blocks, whose rows share a scale.
template <class Check>
void pairs_of_squares(Check check) {
  using namespace ufp4;
  for_each_pair<
      format_pair<nvfp4, nvfp4_square>, format_pair<nvfp4_square, nvfp4>, format_pair<nvfp4_square, nvfp4_square>,
      format_pair<e1m2_f32, nvfp4_square>, format_pair<mx_e1m2, mxint4_square>, format_pair<mxint4_square, mxfp4>,
      format_pair<mxint4_square, mx_e1m2>, format_pair<nvfp4_square, nvint4>, format_pair<nvfp4_square, e2m1_f32>,
      format_pair<nvfp4_rectangle, nvfp4>, format_pair<nvfp4_square, nvfp4_rectangle>, format_pair<int4_128, int4_128>>(
      check);
}

/// At least one grid whose products are not exact.
template <class Check>
void pairs_without_exact_products(Check check) {
  using namespace ufp4;
  for_each_pair<
      format_pair<nf4_f32, nf4_f32>, format_pair<nf4_f32, e1m2_f32>, format_pair<nvfp4, nf4_f32>,
      format_pair<nf4_f32, nvfp4>, format_pair<nf4_mx, mxfp4>, format_pair<nf4_mx, blocks_of<nf4, e4m3, 32>>,
      format_pair<blocks_of<fp4<E2M1>, e8m0, 256>, blocks_of<nf4, float, 256>>,
      format_pair<ufp4::block_format<fp4<E2M1>, float, square(8)>, ufp4::block_format<nf4, float, square(8)>>>(check);
}

/// Elements of one byte on the left, of 4 bits on the right: on every tier's integer units where the sums fit.
template <class Check>
void pairs_of_wide_left(Check check) {
  using namespace ufp4;
  for_each_pair<format_pair<int8_f32, nvfp4>, format_pair<int8_f32, e1m2_f32>, format_pair<int8_f32, e3m0_f32>,
                format_pair<int8_e4m3, nvfp4_square>, format_pair<int8_f32, nf4_f32>, format_pair<mxint8, mxfp4>,
                format_pair<mxint8, mxint4>, format_pair<mxint8_square, mx_e1m2>,
                format_pair<blocks_of<ufp4::int8, bf16, 64>, blocks_of<fp4<E2M1>, e4m3, 64>>,
                format_pair<blocks_of<ufp4::int8, e8m0, 256>, blocks_of<fp4<E3M0>, float, 256>>,
                format_pair<blocks_of<ufp4::int8, float, 4>, blocks_of<fp4<E2M1>, float, 4>>>(check);
}
/// Elements of one byte on the right.
template <class Check>
void pairs_of_wide_right(Check check) {
  using namespace ufp4;
  for_each_pair<format_pair<nvfp4, int8_f32>, format_pair<int8_f32, int8_e4m3>, format_pair<mxint8, mxint8>,
                format_pair<mxfp4, mxint8_square>, format_pair<nf4_f32, int8_f32>,
                format_pair<blocks_of<ufp4::int8, float, 256>, blocks_of<int8q6, e8m0, 256>>>(check);
}

/// All of the above but those of one byte.
template <class Check>
void all_kinds_of_pairs(Check check) {
  pairs_of_16(check);
  pairs_of_longer_blocks(check);
  pairs_of_shorter_blocks(check);
  pairs_of_squares(check);
  pairs_without_exact_products(check);
}

/// Presets of 8-bit scales, whose products with the grid bf16 holds, and others of that kind.
template <class Check>
void pairs_of_8_bit_scales(Check check) {
  using namespace ufp4;
  for_each_pair<format_pair<nvfp4, nvfp4>, format_pair<nv_e1m2, nvint4>, format_pair<mxfp4, mxfp4>,
                format_pair<mx_e1m2, mxint4>, format_pair<nvfp4_square, nvfp4>,
                format_pair<blocks_of<fp4<E3M0>, ue5m3, 128>, blocks_of<fp4<E1M2>, e8m0, 128>>>(check);
}

/// Scales whose products with the grid bf16 must round.
template <class Check>
void pairs_of_wider_scales(Check check) {
  using namespace ufp4;
  for_each_pair<format_pair<e1m2_f32, e2m1_f32>, format_pair<e1m2_f32, int4_f32>, format_pair<e2m1_f32, e2m1_f32>,
                format_pair<nvfp4, int4_f32>, format_pair<e2m1_bf16, nvint4>,
                format_pair<blocks_of<fp4<E3M0>, ue5m3, 64>, blocks_of<fp4<E1M2>, bf16, 64>>>(check);
}

}  // namespace support
