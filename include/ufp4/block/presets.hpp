// ufp4 - the preset formats: their types, and the one list of them that everything else iterates over.
// SPDX-License-Identifier: Apache-2.0
//
// The tool, the file formats, the tests and the benchmarks take their lists from here. To add one: docs/extending.md.
#pragma once

#include <ufp4/block/block_format.hpp>
#include <ufp4/format/fp4.hpp>
#include <ufp4/format/int4.hpp>

namespace ufp4::inline UFP4_TYPES {

// One level, binary32 scales: the UFP4 paper (arXiv 2606.20381), its integer twin and its baseline.
using e1m2_f32 = block_format<fp4<E1M2>, float, 16>;  ///< UFP4 of the paper
using int4_f32 = block_format<int4, float, 16>;       ///< the same grid in two's complement
using e2m1_f32 = block_format<fp4<E2M1>, float, 16>;  ///< the baseline of the paper

// Two levels, E4M3 scales: NVFP4 (arXiv 2509.25149), and the uniform grid with the same scales.
using nvfp4 = block_format<fp4<E2M1>, e4m3, 16, float>;    ///< NVFP4
using nv_e1m2 = block_format<fp4<E1M2>, e4m3, 16, float>;  ///< the uniform grid with the scales of NVFP4
using nvint4 = block_format<int4, e4m3, 16, float>;        ///< the same in two's complement

// Power-of-two scales: OCP MXFP4, and the uniform grid with the same scales.
using mxfp4 = block_format<fp4<E2M1>, e8m0, 32>;    ///< OCP MXFP4
using mx_e1m2 = block_format<fp4<E1M2>, e8m0, 32>;  ///< the uniform grid with the scales of MXFP4
using mxint4 = block_format<int4, e8m0, 32>;        ///< the same in two's complement

/// NVFP4 with a binary32 scale for every 128 columns of a row: TetraJet-v2, arXiv 2510.27527.
using tetrajet2 = block_format<fp4<E2M1>, e4m3, 16, per_segment<128, float>>;

/// IF4 (arXiv 2603.28765): each block is E2M1 or, where the sign bit of its scale is set, a 4-bit integer times 6/7.
using if4 = block_format<one_of<fp4<E2M1>, scaled<int4, 6, 7>>, e4m3, 16, float>;
/// MixFP4 (arXiv 2605.31035): each block is E1M2 or, where the sign bit of its scale is set, E2M1 in its units of 1/4.
using mixfp4 = block_format<one_of<fp4<E1M2>, scaled<fp4<E2M1>, 1, 4>>, e4m3, 16, float>;
/// RaZeR (arXiv 2501.04052) with e4m3 scales: E2M1 with -5 instead of -0 or, where the sign bit of the scale is set, 5.
using razer = block_format<one_of<fp4_remapped<E2M1, -5>, fp4_remapped<E2M1, 5>>, e4m3, 16, float>;

/// HiF4 (arXiv 2602.11287): 64 numbers of sign and two bits under an e6m2 scale; groups of 8 and of 4 have exponents.
using hif4 = block_format<fp4<E1M2>, e6m2, grouped(64, 8, 4)>;
// Elements of one byte, for activations beside 4-bit weights with blocks of the same length.
using int8_f32 = block_format<int8, float, 16>;  ///< binary32 scales: beside nvfp4 and the *_f32 formats
using mxint8 = block_format<int8q6, e8m0, 32>;   ///< OCP MXINT8: beside mxfp4, mx_e1m2 and mxint4

// Floats of a byte: references with elements of more bits, of OCP Microscaling Formats v1.0.
using mxfp8_e4m3 = block_format<fp8_e4m3, e8m0, 32>;  ///< OCP MXFP8 with E4M3
using mxfp8_e5m2 = block_format<fp8_e5m2, e8m0, 32>;  ///< OCP MXFP8 with E5M2
using mxfp6_e3m2 = block_format<fp6_e3m2, e8m0, 32>;  ///< OCP MXFP6 with E3M2; a code of 6 bits takes a byte
using mxfp6_e2m3 = block_format<fp6_e2m3, e8m0, 32>;  ///< OCP MXFP6 with E2M3; a code of 6 bits takes a byte

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

/// A string literal as a template argument.
template <std::size_t size>
struct literal {
  char text[size] = {};  ///< with its terminating zero
  /// From a string literal.
  constexpr literal(const char (&from)[size]) {
    for (std::size_t i = 0; i < size; ++i) text[i] = from[i];
  }
};

/// One preset: its type, and its name in files, on command lines and in messages.
template <any_block_format Format, literal spelled>
struct preset_row {
  using format = Format;
  static constexpr const char* name = spelled.text;            ///< in files, on command lines and in messages
  static constexpr const format_spec& spec = spec_of<Format>;  ///< the format as data
};

/// A list of presets.
template <class... Rows>
struct preset_rows {
  static constexpr std::size_t size = sizeof...(Rows);  ///< number of presets
};

/// In the order in which lists show them: by kind of scale, E2M1 first.
using presets =
    preset_rows<preset_row<nvfp4, "nvfp4">, preset_row<nv_e1m2, "nv_e1m2">, preset_row<nvint4, "nvint4">,
                preset_row<mxfp4, "mxfp4">, preset_row<mx_e1m2, "mx_e1m2">, preset_row<mxint4, "mxint4">,
                preset_row<e2m1_f32, "e2m1_f32">, preset_row<e1m2_f32, "e1m2_f32">, preset_row<int4_f32, "int4_f32">>;

/// Presets with outer scales of rows or segments, several grids or one-bit exponents, which GGUF does not have.
using extended_presets =
    preset_rows<preset_row<tetrajet2, "tetrajet2">, preset_row<if4, "if4">, preset_row<hif4, "hif4">,
                preset_row<mixfp4, "mixfp4">, preset_row<razer, "razer">>;
/// The presets whose elements take one byte, which GPUs, casts, prepacking and GGUF do not have.
using byte_presets = preset_rows<preset_row<int8_f32, "int8_f32">, preset_row<mxint8, "mxint8">>;
/// The presets of 8-bit and 6-bit floats.
using reference_presets = preset_rows<preset_row<mxfp8_e4m3, "mxfp8_e4m3">, preset_row<mxfp8_e5m2, "mxfp8_e5m2">,
                                      preset_row<mxfp6_e3m2, "mxfp6_e3m2">, preset_row<mxfp6_e2m3, "mxfp6_e2m3">>;

/// Calls visit(preset_row<...>{}) for every row of a list, in its order.
template <class Visit, class... Rows>
constexpr void for_each_row(preset_rows<Rows...>, Visit&& visit) {
  (visit(Rows{}), ...);
}
/// The same for every row of every list, the 4-bit ones first.
template <class Visit>
constexpr void for_every_preset(Visit&& visit) {
  for_each_row(presets{}, visit);
  for_each_row(extended_presets{}, visit);
  for_each_row(byte_presets{}, visit);
  for_each_row(reference_presets{}, visit);
}

}  // namespace ufp4::detail::inline UFP4_TYPES
