// ufp4 - wgmma for the GPU bench alone: each operand type with 8 columns, bf16 with 256, operands without a swizzle.
// SPDX-License-Identifier: Apache-2.0
//
// The bench has instructions of its own, so that a ceiling does not change with the kernels that it is compared with.
// Operands are in core matrices of 8 rows of 16 bytes, 128 bytes each: the two of one K step adjacent, the next 8 rows
// 256 bytes further. Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
#pragma once

#include "gpu/measure.hpp"

#if defined(__CUDACC__)

namespace bench {

/// Of an operand at a shared address. `rows_apart`: bytes from 8 rows to the next; 0 if all rows are the same.
UFP4_DEVICE std::uint64_t unswizzled_operand(const void* at, unsigned rows_apart) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
  return std::uint64_t{(address & 0x3FFFFu) >> 4} | std::uint64_t{128 >> 4} << 16 |
         std::uint64_t{rows_apart >> 4} << 32;
}

/// wgmma.mma_async of one operand type, m64n8, K of 32 bytes: UFP4_WGMMA(function, type of a sum, constraint, text,
/// end).
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
/// Of a thread that has written operands, before the barrier.
UFP4_DEVICE void publish_operands() { asm volatile("fence.proxy.async;" ::: "memory"); }
UFP4_DEVICE void wgmma_begin() { asm volatile("fence.proxy.async;\nwgmma.fence.sync.aligned;" ::: "memory"); }
UFP4_DEVICE void wgmma_end() {
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}
#define UFP4_WGMMA(function, sum, constraint, text, end)                                            \
  UFP4_DEVICE void function(sum(&d)[4], std::uint64_t a, std::uint64_t b) {                         \
    asm volatile("{\n.reg .pred adds;\nsetp.eq.u32 adds, 1, 1;\nwgmma.mma_async.sync.aligned." text \
                 " {%0, %1, %2, %3}, %4, %5, adds" end ";\n}"                                       \
                 : constraint(d[0]), constraint(d[1]), constraint(d[2]), constraint(d[3])           \
                 : "l"(a), "l"(b)                                                                   \
                 : "memory");                                                                       \
  }
#define UFP4_EIGHT(i)                                                                                         \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
/// d += a b^T; a 64 x 16, b 256 x 16.
UFP4_DEVICE void wgmma_bf16_n256(float (&d)[128], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.eq.u32 adds, 1, 1;\nwgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
      "%128, %129, adds, 1, 1, 0, 0;\n}"
      : UFP4_EIGHT(0), UFP4_EIGHT(8), UFP4_EIGHT(16), UFP4_EIGHT(24), UFP4_EIGHT(32), UFP4_EIGHT(40), UFP4_EIGHT(48),
        UFP4_EIGHT(56), UFP4_EIGHT(64), UFP4_EIGHT(72), UFP4_EIGHT(80), UFP4_EIGHT(88), UFP4_EIGHT(96), UFP4_EIGHT(104),
        UFP4_EIGHT(112), UFP4_EIGHT(120)
      : "l"(a), "l"(b)
      : "memory");
}
#undef UFP4_EIGHT
#else
UFP4_DEVICE void publish_operands() {}
UFP4_DEVICE void wgmma_begin() {}
UFP4_DEVICE void wgmma_end() {}
#define UFP4_WGMMA(function, sum, constraint, text, end) \
  UFP4_DEVICE void function(sum(&)[4], std::uint64_t, std::uint64_t) { __trap(); }
UFP4_DEVICE void wgmma_bf16_n256(float (&)[128], std::uint64_t, std::uint64_t) { __trap(); }
#endif

UFP4_WGMMA(wgmma_bf16, float, "+f", "m64n8k16.f32.bf16.bf16", ", 1, 1, 0, 0")
UFP4_WGMMA(wgmma_f16, float, "+f", "m64n8k16.f32.f16.f16", ", 1, 1, 0, 0")
UFP4_WGMMA(wgmma_e4m3, float, "+f", "m64n8k32.f32.e4m3.e4m3", ", 1, 1")
UFP4_WGMMA(wgmma_s8, std::int32_t, "+r", "m64n8k32.s32.s8.s8", "")
#undef UFP4_WGMMA

}  // namespace bench

#endif
