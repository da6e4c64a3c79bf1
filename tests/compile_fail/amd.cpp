// ufp4 - mistakes that must not compile: matrix instructions called for an AMD GPU that lacks them.
// SPDX-License-Identifier: Apache-2.0
//
// As host.cpp, compiled for gfx900, which has no matrix instruction at all. Without MISTAKE each call is under
// if constexpr (compiled).
#include <ufp4/hip/mfma_gfx90a.hpp>
#include <ufp4/hip/mfma_scale_gfx950.hpp>
#include <ufp4/hip/wmma.hpp>

using namespace ufp4::gpu::mma;

/// A thread's registers; an instruction takes as many as it has elements for.
template <class Sum, unsigned sums, unsigned words>
struct registers {
  Sum (&d)[sums];
  const std::uint32_t (&a)[words], (&b)[words];
};

/// Whether the instruction is called. A mistake calls one that the architecture does not have.
template <class Op>
constexpr bool called() {
#if defined(MISTAKE)
  return true;
#else
  return Op::compiled;
#endif
}

template <class Op>
UFP4_DEVICE void call_f16(registers<float, Op::sums, Op::f16_words> with) {
  if constexpr (called<Op>()) multiply_f16<Op>(with.d, with.a, with.b);
}
template <class Op>
UFP4_DEVICE void call_bf16(registers<float, Op::sums, Op::bf16_words> with) {
  if constexpr (called<Op>()) multiply_bf16<Op>(with.d, with.a, with.b);
}
template <class Op>
UFP4_DEVICE void call_iu4(registers<std::int32_t, Op::sums, Op::words> with) {
  if constexpr (called<Op>()) multiply_iu4<Op>(with.d, with.a, with.b);
}

// error: multiply_f16: the target of this compilation lacks the instruction; call it under if constexpr (Op::compiled)
UFP4_DEVICE void f16_of_mfma(registers<float, 4, 2> with) { call_f16<mfma_gfx90a>(with); }
// error: multiply_f16: the target of this compilation lacks the instruction; call it under if constexpr (Op::compiled)
UFP4_DEVICE void f16_of_wmma_gfx11(registers<float, 8, 8> with) { call_f16<wmma_gfx11>(with); }
// error: multiply_f16: the target of this compilation lacks the instruction; call it under if constexpr (Op::compiled)
UFP4_DEVICE void f16_of_wmma_gfx12(registers<float, 8, 4> with) { call_f16<wmma_gfx12>(with); }

// error: multiply_bf16: the target of this compilation lacks the instruction; call it under if constexpr (Op::compiled)
UFP4_DEVICE void bf16_of_mfma(registers<float, 4, 2> with) { call_bf16<mfma_gfx90a>(with); }
// error: multiply_bf16: the target of this compilation lacks the instruction; call it under if constexpr (Op::compiled)
UFP4_DEVICE void bf16_of_mfma_gfx950(registers<float, 4, 4> with) { call_bf16<mfma_gfx950>(with); }
// error: multiply_bf16: the target of this compilation lacks the instruction; call it under if constexpr (Op::compiled)
UFP4_DEVICE void bf16_of_wmma_gfx11(registers<float, 8, 8> with) { call_bf16<wmma_gfx11>(with); }
// error: multiply_bf16: the target of this compilation lacks the instruction; call it under if constexpr (Op::compiled)
UFP4_DEVICE void bf16_of_wmma_gfx12(registers<float, 8, 4> with) { call_bf16<wmma_gfx12>(with); }

// error: multiply_iu4: the target of this compilation lacks the instruction; call it under if constexpr (Op::compiled)
UFP4_DEVICE void iu4_of_gfx11(registers<std::int32_t, 8, 2> with) { call_iu4<wmma_iu4_gfx11>(with); }
// error: multiply_iu4: the target of this compilation lacks the instruction; call it under if constexpr (Op::compiled)
UFP4_DEVICE void iu4_of_gfx12(registers<std::int32_t, 8, 2> with) { call_iu4<wmma_iu4_gfx12<32>>(with); }

using nibbles = mfma_scale_gfx950<f8f6f4::e2m1, f8f6f4::e2m1>;

// error: mfma_scale_gfx950: the target of this compilation lacks the instruction; call it under if constexpr (compiled)
UFP4_DEVICE void scaled_blocks(registers<float, nibbles::sums, nibbles::words_a> with) {
  if constexpr (called<nibbles>()) nibbles::multiply(with.d, with.a, with.b, 127, 127);
}
