// ufp4 - mistakes that the compiler answers with a message: instructions called for an AMD GPU that lacks them.
// SPDX-License-Identifier: Apache-2.0
//
// As host.cpp, compiled for gfx900, which has no matrix instruction at all.
// Without MISTAKE each call is asked for first.
#include <ufp4/hip/mfma_gfx90a.hpp>
#include <ufp4/hip/mfma_scale_gfx950.hpp>
#include <ufp4/hip/wmma_gfx11.hpp>
#include <ufp4/hip/wmma_gfx12.hpp>
#include <ufp4/hip/wmma_iu4.hpp>

using namespace ufp4::gpu::mma;

/// A thread's registers; an instruction takes as many as it has elements for.
template <class Sum, unsigned sums, unsigned words>
struct registers {
  Sum (&d)[sums];
  const std::uint32_t (&a)[words], (&b)[words];
};
template <class M>
using f16_of = registers<float, M::sums, M::f16_words>;
template <class M>
using bf16_of = registers<float, M::sums, M::bf16_words>;
template <class M>
using integers_of = registers<std::int32_t, M::sums, M::words>;

/// Is it called? A mistake calls what the architecture does not have.
template <class M>
constexpr bool called() {
#if defined(MISTAKE)
  return true;
#else
  return M::compiled;
#endif
}

// says: mfma_gfx90a: v_mfma_f32_16x16x16_f16 is an instruction of gfx90a, gfx94x and gfx950 alone; call it under if
//       constexpr (compiled)
UFP4_DEVICE void mfma_f16(f16_of<mfma_gfx90a> with) {
  if constexpr (called<mfma_gfx90a>()) mfma_gfx90a::multiply_f16(with.d, with.a, with.b);
}

// says: mfma_gfx90a: v_mfma_f32_16x16x16_bf16 is an instruction of gfx90a, gfx94x and gfx950 alone; call it under if
//       constexpr (compiled)
UFP4_DEVICE void mfma_bf16(bf16_of<mfma_gfx90a> with) {
  if constexpr (called<mfma_gfx90a>()) mfma_gfx90a::multiply_bf16(with.d, with.a, with.b);
}

// says: mfma_gfx950: v_mfma_f32_16x16x32_bf16 is an instruction of gfx950 alone; call it under if constexpr (compiled)
UFP4_DEVICE void mfma_bf16_of_gfx950(bf16_of<mfma_gfx950> with) {
  if constexpr (called<mfma_gfx950>()) mfma_gfx950::multiply_bf16(with.d, with.a, with.b);
}

// says: wmma_gfx11: v_wmma_f32_16x16x16_f16 as gfx11 has it is an instruction of gfx11 alone; call it under if
//       constexpr (compiled)
UFP4_DEVICE void wmma_f16_of_gfx11(f16_of<wmma_gfx11> with) {
  if constexpr (called<wmma_gfx11>()) wmma_gfx11::multiply_f16(with.d, with.a, with.b);
}

// says: wmma_gfx11: v_wmma_f32_16x16x16_bf16 as gfx11 has it is an instruction of gfx11 alone; call it under if
//       constexpr (compiled)
UFP4_DEVICE void wmma_bf16_of_gfx11(bf16_of<wmma_gfx11> with) {
  if constexpr (called<wmma_gfx11>()) wmma_gfx11::multiply_bf16(with.d, with.a, with.b);
}

// says: wmma_gfx12: v_wmma_f32_16x16x16_f16 as gfx12 has it is an instruction of gfx1200 and gfx1201 alone; call it
//       under if constexpr (compiled)
UFP4_DEVICE void wmma_f16_of_gfx12(f16_of<wmma_gfx12> with) {
  if constexpr (called<wmma_gfx12>()) wmma_gfx12::multiply_f16(with.d, with.a, with.b);
}

// says: wmma_gfx12: v_wmma_f32_16x16x16_bf16 as gfx12 has it is an instruction of gfx1200 and gfx1201 alone; call it
//       under if constexpr (compiled)
UFP4_DEVICE void wmma_bf16_of_gfx12(bf16_of<wmma_gfx12> with) {
  if constexpr (called<wmma_gfx12>()) wmma_gfx12::multiply_bf16(with.d, with.a, with.b);
}

// says: wmma_iu4_gfx11: v_wmma_i32_16x16x16_iu4 as gfx11 has it is an instruction of gfx11 alone; call it under if
//       constexpr (compiled)
UFP4_DEVICE void integers_of_gfx11(integers_of<wmma_iu4_gfx11> with) {
  if constexpr (called<wmma_iu4_gfx11>()) wmma_iu4_gfx11::multiply(with.d, with.a, with.b);
}

// says: wmma_iu4_gfx12: v_wmma_i32 in 4-bit integers as gfx12 has it is an instruction of gfx1200 and gfx1201 alone;
//       call it under if constexpr (compiled)
UFP4_DEVICE void integers_of_gfx12(integers_of<wmma_iu4_gfx12<32>> with) {
  if constexpr (called<wmma_iu4_gfx12<32>>()) wmma_iu4_gfx12<32>::multiply(with.d, with.a, with.b);
}

using nibbles = mfma_scale_gfx950<f8f6f4::e2m1, f8f6f4::e2m1>;

// says: mfma_scale_gfx950: v_mfma_scale_f32_16x16x128_f8f6f4 is an instruction of gfx950 alone; call it under if
//       constexpr (compiled)
UFP4_DEVICE void scaled_blocks(registers<float, nibbles::sums, nibbles::words_a> with) {
  if constexpr (called<nibbles>()) nibbles::multiply(with.d, with.a, with.b, 127, 127);
}
