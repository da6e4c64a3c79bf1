// ufp4 - benches: the multiply units of an aarch64 core, from registers.
// SPDX-License-Identifier: Apache-2.0
#include "limits.hpp"

#if defined(__aarch64__)

namespace bench {
namespace {

using ufp4::cpu::isa;

// Twenty-four independent sums cover 4 cycles of latency at up to six instructions a cycle; 30 and
// 31 are the operands. A macro, because the text of an asm statement cannot come from a template.
#define UFP4_BENCH_LOOP(name, instruction)                                                                            \
  void name(long rounds) {                                                                                            \
    asm volatile(                                                                                                     \
        ".arch armv8.2-a+dotprod+i8mm+bf16\n\t"                                                                       \
        "movi v30.16b, #63\n\tmovi v31.16b, #63\n\t"                                                                  \
        ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n\t"                                    \
        "movi v\\r\\().16b, #0\n\t.endr\n\t"                                                                          \
        "1:\n\t.irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n\t" instruction                  \
        "\n\t.endr\n\tsubs %[n], %[n], #1\n\tb.ne 1b"                                                                 \
        : [n] "+r"(rounds)                                                                                            \
        :                                                                                                             \
        : "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", \
          "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v30", "v31");                                      \
  }
UFP4_BENCH_LOOP(fmla, "fmla v\\r\\().4s, v30.4s, v31.4s")
UFP4_BENCH_LOOP(sdot, "sdot v\\r\\().4s, v30.16b, v31.16b")
UFP4_BENCH_LOOP(smmla, "smmla v\\r\\().4s, v30.16b, v31.16b")
UFP4_BENCH_LOOP(bfmmla, "bfmmla v\\r\\().4s, v30.8h, v31.8h")
#undef UFP4_BENCH_LOOP
constexpr double sums = 24;

constexpr compute_limit limits[] = {
    {"bfmmla", "GFLOP/s", isa::neon_bf16, nullptr, sums * 32, &bfmmla},
    {"smmla", "GOP/s", isa::neon_i8mm, nullptr, sums * 64, &smmla},
    {"sdot", "GOP/s", isa::neon_dotprod, nullptr, sums * 32, &sdot},
    {"binary32 FMA", "GFLOP/s", isa::neon, nullptr, sums * 8, &fmla},
};

}  // namespace

std::span<const compute_limit> compute_limits() { return limits; }

}  // namespace bench

#elif !defined(__x86_64__)

namespace bench {

std::span<const compute_limit> compute_limits() { return {}; }

}  // namespace bench

#endif
