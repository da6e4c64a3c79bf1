// ufp4 - contiguous elements without a transform, as lane_quantizer gives them to ordered_avx512.hpp.
// SPDX-License-Identifier: Apache-2.0
//
// A chunk is as many blocks of one or two vectors as there are lanes. A part is some neighbouring chunks.
#if !defined(UFP4_ORDERED_CHUNK_LANES)
#define UFP4_ORDERED_CHUNK_LANES
#include <ufp4/cpu/kernels/quantize/code_lanes.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE::UFP4_LANES::quantize_kernel {

constexpr std::size_t chunks_of_a_part = 4, vectors_of_a_part = chunks_of_a_part * 2 * lanes;

/// Numbers of each vector of a part: the amax and the factor of its block, and what is computed from them.
struct vector_factors {
  alignas(64) float amax[vectors_of_a_part];
  float factor[vectors_of_a_part];
  float scale[vectors_of_a_part], bound[vectors_of_a_part];  ///< prepare_near
  bool in_range;                                             ///< a rounder without a bound is enough
};

struct ordered_part;
using code_ordered = void(const rounding_plan&, const ordered_part&);
struct ordered_part {
  const void* x;
  std::size_t vectors;  ///< a multiple of eight
  const vector_factors* of;
  std::uint64_t random_group;  ///< number of the first eight elements in the operand (numerics 3)
  const random_bit_lanes* random_bits;
  code_ordered* products;  ///< for binary32 elements
  std::uint8_t* codes;
};

/// The functions of a call for elements of one type.
struct ordered_functions {
  u32 (*amax)(const void* x, std::size_t vectors_a_block) = nullptr;  ///< of a chunk; null: takes other calls only
  void (*prepare)(const rounding_plan&, vector_factors&, std::size_t vectors) = nullptr;  ///< null: needs none
  code_ordered *code = nullptr, *products = nullptr;
};

}  // namespace ufp4::cpu::detail::inline UFP4_CODE::UFP4_LANES::quantize_kernel
#endif
