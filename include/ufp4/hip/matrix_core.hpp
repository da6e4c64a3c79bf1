// ufp4 - the matrix instructions of AMD GPUs as functions: multiply_f16, multiply_bf16 and multiply_iu4.
// SPDX-License-Identifier: Apache-2.0
//
// Their argument Op is an instruction family, a struct of facts in a header of its own (mfma_gfx90a.hpp, wmma.hpp).
// Every family multiplies 16 rows of a left operand by 16 rows of a right one. Its members:
//
// | wave                     | lanes that execute an instruction together                                           |
// | groups                   | groups of lanes with different columns of a row; more lanes repeat a group's columns |
// | f16_words, bf16_words    | registers with a lane's columns of a row; times 2 * groups they are K                |
// | depth, words             | the same of 4-bit integers: K, and registers with a lane's columns of a row          |
// | sums                     | registers of d; sum i is in row row_of_sum(lane, i) of the left operand              |
// | runs_on(architecture)    | whether a device has the instructions                                                |
// | compiled                 | whether the current pass of the compiler has them                                    |
// | f16, bf16, iu4           | the compiler's builtins over vectors of _Float16, bf16_element, int; if compiled     |
// | f16_layout, bf16_layout, | where the CPU simulator of tests/gpu finds an element of an operand; only there      |
// | iu4_layout               |                                                                                      |
//
// A call of an instruction that is not compiled is a compile-time error in device code, but not in the host's pass.
#pragma once

#include <ufp4/gpu/vendor.hpp>

namespace ufp4::gpu::mma::inline UFP4_GPU {

#if !defined(UFP4_SIMT_HEADER)
/// d = instruction(a, b, d): a and b as vectors of Element, d as a vector of Sum.
template <class Element, class Sum, unsigned words, unsigned sums, class Instruction>
UFP4_DEVICE void multiply_registers(Sum (&d)[sums], const std::uint32_t (&a)[words], const std::uint32_t (&b)[words],
                                    Instruction instruction) {
  using elements = Element __attribute__((ext_vector_type(4 * words / sizeof(Element))));
  using results = Sum __attribute__((ext_vector_type(sums)));
  elements left, right;
  results sum;
  __builtin_memcpy(&left, a, sizeof a);
  __builtin_memcpy(&right, b, sizeof b);
  __builtin_memcpy(&sum, d, sizeof sum);
  sum = instruction(left, right, sum);
  __builtin_memcpy(d, &sum, sizeof sum);
}
#endif

#if defined(UFP4_SIMT_HEADER)
#define UFP4_MATRIX_CORE(name, Element, instruction, simulated) simulated
#else
/// d += Op::instruction(a, b), over vectors of Element.
#define UFP4_MATRIX_CORE(name, Element, instruction, simulated)                                       \
  static_assert(Op::compiled || in_host_pass, name                                                    \
                ": the target of this compilation lacks the instruction; call it under if constexpr " \
                "(Op::compiled)");                                                                    \
  if constexpr (Op::compiled)                                                                         \
  multiply_registers<Element>(d, a, b, [](auto x, auto y, auto sum) { return Op::instruction(x, y, sum); })
#endif

template <class Op>
UFP4_DEVICE void multiply_f16(float (&d)[Op::sums], const std::uint32_t (&a)[Op::f16_words],
                              const std::uint32_t (&b)[Op::f16_words]) {
  UFP4_MATRIX_CORE("multiply_f16", _Float16, f16, (simt::matrix_f16<typename Op::f16_layout>(Op::f16_name, d, a, b)));
}

template <class Op>
UFP4_DEVICE void multiply_bf16(float (&d)[Op::sums], const std::uint32_t (&a)[Op::bf16_words],
                               const std::uint32_t (&b)[Op::bf16_words]) {
  UFP4_MATRIX_CORE("multiply_bf16", typename Op::bf16_element, bf16,
                   (simt::matrix_bf16<typename Op::bf16_layout>(Op::bf16_name, d, a, b)));
}

/// d += a b in signed 4-bit integers (two's complement, element 0 of a register in its lowest four bits), with 32-bit
/// sums that wrap around. The columns may be in any order along K that is the same for a and b.
template <class Op>
UFP4_DEVICE void multiply_iu4(std::int32_t (&d)[Op::sums], const std::uint32_t (&a)[Op::words],
                              const std::uint32_t (&b)[Op::words]) {
  UFP4_MATRIX_CORE("multiply_iu4", int, iu4, (simt::wmma_iu4<typename Op::iu4_layout>(Op::instruction, d, a, b)));
}
#undef UFP4_MATRIX_CORE

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
