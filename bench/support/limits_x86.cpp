// ufp4 - benches: the multiply units of an x86 core, also with rescaling of blocks, and AMX with operands in caches.
// SPDX-License-Identifier: Apache-2.0
#include "limits.hpp"

#if defined(__x86_64__)

#include "huge_buffer.hpp"

#include <algorithm>
#include <cstdint>
#include <ufp4/cpu/detect.hpp>
#include <ufp4/cpu/simd/avx2.hpp>
#include <ufp4/cpu/simd/avx512.hpp>
#include <ufp4/cpu/simd/target.hpp>

namespace bench {
namespace {

using ufp4::cpu::isa;

/// Operands: finite as bf16, binary32 and int8 alike.
const unsigned char* operands() {
  static const huge_buffer memory(std::size_t{4} << 20);
  return memory.as<>();
}

// Twelve independent sums cover 4 cycles of latency at three instructions a cycle; 14 and 15 are
// the operands (the upper half of a zmm stays zero, which costs the same), 12 is ones in 16 bits. A macro, because the
// text of an asm statement cannot come from a template.
#define UFP4_BENCH_LOOP(name, instruction)                                                                         \
  void name(long rounds) {                                                                                         \
    asm volatile(                                                                                                  \
        ".irp r,0,1,2,3,4,5,6,7,8,9,10,11\n\tvpxor %%xmm\\r, %%xmm\\r, %%xmm\\r\n\t.endr\n\t"                      \
        "vmovdqu (%[x]), %%ymm14\n\tvmovdqu 64(%[x]), %%ymm15\n\t"                                                 \
        "vpcmpeqd %%ymm12, %%ymm12, %%ymm12\n\tvpsrlw $15, %%ymm12, %%ymm12\n\t"                                   \
        "1:\n\t.irp r,0,1,2,3,4,5,6,7,8,9,10,11\n\t" instruction                                                   \
        "\n\t.endr\n\t"                                                                                            \
        "dec %[n]\n\tjnz 1b\n\tvzeroupper"                                                                         \
        : [n] "+r"(rounds)                                                                                         \
        : [x] "r"(operands())                                                                                      \
        : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
          "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");                                                            \
  }
constexpr double sums = 12;

UFP4_BEGIN_TARGET("avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16,avxvnni,fma")
UFP4_BENCH_LOOP(fma_zmm, "vfmadd231ps %%zmm14, %%zmm15, %%zmm\\r")
UFP4_BENCH_LOOP(fma_ymm, "vfmadd231ps %%ymm14, %%ymm15, %%ymm\\r")
UFP4_BENCH_LOOP(vnni_zmm, "vpdpbusd %%zmm14, %%zmm15, %%zmm\\r")
UFP4_BENCH_LOOP(vnni_ymm, "%{vex%} vpdpbusd %%ymm14, %%ymm15, %%ymm\\r")
UFP4_BENCH_LOOP(bf16_zmm, "vdpbf16ps %%zmm14, %%zmm15, %%zmm\\r")
UFP4_BENCH_LOOP(maddubs_32,
                "vpmaddubsw %%ymm14, %%ymm15, %%ymm13\n\tvpmaddwd %%ymm12, %%ymm13, %%ymm13\n\t"
                "vpaddd %%ymm13, %%ymm\\r, %%ymm\\r")
UFP4_BENCH_LOOP(maddubs_16, "vpmaddubsw %%ymm14, %%ymm15, %%ymm13\n\tvpaddw %%ymm13, %%ymm\\r, %%ymm\\r")
UFP4_END_TARGET
#undef UFP4_BENCH_LOOP

bool has_avx_vnni() { return ufp4::cpu::detail::bits_set(ufp4::cpu::detail::cpuid(7, 1).eax, 1u << 4); }

UFP4_BEGIN_TARGET(UFP4_AVX512)
namespace lanes = ufp4::cpu::detail::avx512;

UFP4_LANE lanes::i32 dot_bytes(lanes::i32 sum, lanes::u8 x, const std::int32_t& four) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(x), "m"(four));
  return sum;
}

constexpr int vnni_rows = 8, vnni_depth = 128;

/// Sixteen columns by eight rows over a depth of 128, everything in L1: the integer dot product of each block is
/// converted to binary32, multiplied by the product of its two scales and added.
template <int block>
void vnni_rescaled(long rounds) {
  constexpr int groups = block / 4;
  const unsigned char* right = operands();
  const auto* left = reinterpret_cast<const std::int32_t*>(operands() + 8192);
  const auto* scales = reinterpret_cast<const float*>(operands() + 16384);
  lanes::f32 acc[vnni_rows] = {};
  for (long i = 0; i < rounds; ++i)
    for (int b = 0; b < vnni_depth / block; ++b) {
      lanes::i32 dots[vnni_rows] = {};
#pragma GCC unroll 8
      for (int k = 0; k < groups; ++k) {
        const auto column = lanes::load_as<lanes::u8>(right + 64 * (b * groups + k));
#pragma GCC unroll 8
        for (int r = 0; r < vnni_rows; ++r)
          dots[r] = dot_bytes(dots[r], column, left[r * (vnni_depth / 4) + b * groups + k]);
      }
      const lanes::f32 by_column = lanes::load(scales + 256 + 16 * b);
#pragma GCC unroll 8
      for (int r = 0; r < vnni_rows; ++r)
        acc[r] = lanes::fma(lanes::to_float(dots[r]), by_column * lanes::broadcast(scales[8 * r + b]), acc[r]);
    }
  asm volatile("" ::"v"(acc[0]), "v"(acc[1]), "v"(acc[2]), "v"(acc[3]), "v"(acc[4]), "v"(acc[5]), "v"(acc[6]),
               "v"(acc[7]));
}
UFP4_END_TARGET
constexpr double vnni_rescaled_work = 2.0 * 16 * vnni_rows * vnni_depth;

UFP4_BEGIN_TARGET(UFP4_AVX2)
namespace half_lanes = ufp4::cpu::detail::avx2;
using i16 = std::int16_t __attribute__((vector_size(32)));

/// One asm statement: if the compiler scheduled the additions last, it would run out of registers.
UFP4_LANE i16 add_products(i16 sum, half_lanes::u8 x, const std::int32_t& four) {
  half_lanes::i32 y;
  asm volatile("vpbroadcastd %3, %1\n\tvpmaddubsw %1, %2, %1\n\tvpaddw %1, %0, %0"
               : "+x"(sum), "=&x"(y)
               : "x"(x), "m"(four));
  return sum;
}
UFP4_LANE half_lanes::i32 sum_pairs(i16 x, i16 ones) {
  half_lanes::i32 r;
  asm("vpmaddwd %2, %1, %0" : "=x"(r) : "x"(x), "x"(ones));
  return r;
}

constexpr int maddubs_rows = 4, maddubs_depth = 128;

/// The same with eight columns by four rows: products of 4-bit values are summed in 16 bits within a block.
template <int block>
void maddubs_rescaled(long rounds) {
  constexpr int groups = block / 4;
  const unsigned char* right = operands();
  const auto* left = reinterpret_cast<const std::int32_t*>(operands() + 8192);
  const auto* scales = reinterpret_cast<const float*>(operands() + 16384);
  const i16 ones = i16{} + std::int16_t{1};
  half_lanes::f32 acc[maddubs_rows] = {};
  for (long i = 0; i < rounds; ++i)
    for (int b = 0; b < maddubs_depth / block; ++b) {
      i16 sums16[maddubs_rows] = {};
#pragma GCC unroll 8
      for (int k = 0; k < groups; ++k) {
        const auto column = half_lanes::load_as<half_lanes::u8>(right + 32 * (b * groups + k));
#pragma GCC unroll 4
        for (int r = 0; r < maddubs_rows; ++r)
          sums16[r] = add_products(sums16[r], column, left[r * (maddubs_depth / 4) + b * groups + k]);
      }
      const half_lanes::f32 by_column = half_lanes::load(scales + 256 + 8 * b);
#pragma GCC unroll 4
      for (int r = 0; r < maddubs_rows; ++r)
        acc[r] = half_lanes::fma(half_lanes::to_float(sum_pairs(sums16[r], ones)),
                                 by_column * half_lanes::broadcast(scales[8 * r + b]), acc[r]);
    }
  asm volatile("" ::"x"(acc[0]), "x"(acc[1]), "x"(acc[2]), "x"(acc[3]));
}
UFP4_END_TARGET
constexpr double maddubs_rescaled_work = 2.0 * 8 * maddubs_rows * maddubs_depth;

UFP4_BEGIN_TARGET(UFP4_AVX512 ",amx-tile,amx-int8,amx-bf16")

/// Tiles 0 to 3 are sums of 16 x 16, 4 and 5 left operands of `bytes` bytes a row, 6 and 7 right ones.
void configure_tiles(int bytes) {
  struct alignas(64) {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  } config;
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = static_cast<std::uint16_t>(t == 4 || t == 5 ? bytes : 64);
    config.rows[t] = static_cast<std::uint8_t>(t < 6 ? 16 : bytes / 4);
  }
  asm volatile("ldtilecfg %0" ::"m"(config));
}
void release_tiles() { asm volatile("tilerelease"); }

template <int tile>
UFP4_LANE void load_tile(const unsigned char* from) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(std::int64_t{64}), "i"(tile) : "memory");
}
template <int sum, int left, int right>
UFP4_LANE void multiply_int8() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sum), "i"(left), "i"(right));
}
template <int sum, int left, int right>
UFP4_LANE void multiply_bf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sum), "i"(left), "i"(right));
}
template <bool bf16>
UFP4_LANE void four_products() {
  if constexpr (bf16) {
    multiply_bf16<0, 4, 6>(), multiply_bf16<1, 4, 7>(), multiply_bf16<2, 5, 6>(), multiply_bf16<3, 5, 7>();
  } else {
    multiply_int8<0, 4, 6>(), multiply_int8<1, 4, 7>(), multiply_int8<2, 5, 6>(), multiply_int8<3, 5, 7>();
  }
}
UFP4_LANE void four_operands(const unsigned char* from) {
  load_tile<4>(from), load_tile<5>(from + 1024), load_tile<6>(from + 2048), load_tile<7>(from + 3072);
}

template <bool bf16, int bytes>
void amx_registers(long rounds) {
  configure_tiles(bytes);
  four_operands(operands());
  for (long i = 0; i < rounds; ++i) four_products<bf16>();
  release_tiles();
}

/// Four loads for four products, with operands that cycle through `bytes` bytes.
template <bool bf16>
void amx_from(long rounds, std::size_t bytes) {
  configure_tiles(64);
  std::size_t at = 0;
  for (long i = 0; i < rounds; ++i) {
    four_operands(operands() + at);
    four_products<bf16>();
    at = at + 4096 < bytes ? at + 4096 : 0;
  }
  release_tiles();
}
template <bool bf16>
void amx_l1(long rounds) {
  amx_from<bf16>(rounds, caches().l1 / 8192 * 4096);
}
template <bool bf16>
void amx_l2(long rounds) {
  amx_from<bf16>(rounds, std::min(caches().l2 / 8192 * 4096, std::size_t{4} << 20));
}

/// The products of one block of `bytes` bytes, with rescaling of the previous block: while a tile is computed, the
/// previous one is read from L1, converted to binary32 (unless it is), scaled and added to sixteen registers.
template <bool bf16, int bytes>
void amx_rescaled(long rounds) {
  alignas(64) static thread_local std::int32_t tiles[2][256];
  const auto* scales = reinterpret_cast<const float*>(operands() + 16384);
  configure_tiles(bytes);
  lanes::f32 acc[16] = {};
  for (long i = 0; i < rounds; ++i) {
    std::int32_t* made = tiles[i & 1];
    const std::int32_t* before = tiles[~i & 1];
    load_tile<4>(operands() + (i & 3) * 1024);
    load_tile<6>(operands() + 4096 + (i & 3) * 1024);
    asm volatile("tilezero %%tmm0" ::: "memory");
    if constexpr (bf16)
      multiply_bf16<0, 4, 6>();
    else
      multiply_int8<0, 4, 6>();
    const lanes::f32 by_column = lanes::load(scales + 256);
#pragma GCC unroll 16
    for (int r = 0; r < 16; ++r) {
      const lanes::f32 dot = bf16 ? lanes::load(reinterpret_cast<const float*>(before) + 16 * r)
                                  : lanes::to_float(lanes::load_as<lanes::i32>(before + 16 * r));
      acc[r] = lanes::fma(dot, by_column * lanes::broadcast(scales[r]), acc[r]);
    }
    asm volatile("tilestored %%tmm0, (%0,%1,1)" ::"r"(made), "r"(std::int64_t{64}) : "memory");
  }
  for (lanes::f32& a : acc) asm volatile("" : "+v"(a));
  release_tiles();
}
UFP4_END_TARGET

/// Operations of one tile product whose operands have `bytes` bytes a row.
constexpr double tile_work(bool bf16, int bytes) { return 2.0 * 16 * 16 * bytes / (bf16 ? 2 : 1); }

constexpr compute_limit limits[] = {
    {"AMX bf16", "GFLOP/s", isa::amx, nullptr, 4 * tile_work(true, 64), &amx_registers<true, 64>},
    {"AMX bf16 from L1", "GFLOP/s", isa::amx, nullptr, 4 * tile_work(true, 64), &amx_l1<true>},
    {"AMX bf16 from L2", "GFLOP/s", isa::amx, nullptr, 4 * tile_work(true, 64), &amx_l2<true>},
    {"AMX bf16, K = 16 of 32", "GFLOP/s", isa::amx, nullptr, 4 * tile_work(true, 32), &amx_registers<true, 32>},
    {"AMX int8", "GOP/s", isa::amx, nullptr, 4 * tile_work(false, 64), &amx_registers<false, 64>},
    {"AMX int8 from L1", "GOP/s", isa::amx, nullptr, 4 * tile_work(false, 64), &amx_l1<false>},
    {"AMX int8 from L2", "GOP/s", isa::amx, nullptr, 4 * tile_work(false, 64), &amx_l2<false>},
    {"AMX int8, K = 32 of 64", "GOP/s", isa::amx, nullptr, 4 * tile_work(false, 32), &amx_registers<false, 32>},
    {"AMX int8, K = 16 of 64", "GOP/s", isa::amx, nullptr, 4 * tile_work(false, 16), &amx_registers<false, 16>},
    {"AMX int8, rescaled every 64", "GOP/s", isa::amx, nullptr, tile_work(false, 64), &amx_rescaled<false, 64>},
    {"AMX int8, rescaled every 32", "GOP/s", isa::amx, nullptr, tile_work(false, 32), &amx_rescaled<false, 32>},
    {"AMX int8, rescaled every 16", "GOP/s", isa::amx, nullptr, tile_work(false, 16), &amx_rescaled<false, 16>},
    {"AMX bf16, rescaled every 32", "GFLOP/s", isa::amx, nullptr, tile_work(true, 64), &amx_rescaled<true, 64>},
    {"AMX bf16, rescaled every 16", "GFLOP/s", isa::amx, nullptr, tile_work(true, 32), &amx_rescaled<true, 32>},
    {"vdpbf16ps zmm", "GFLOP/s", isa::avx512_bf16, nullptr, sums * 64, &bf16_zmm},
    {"vpdpbusd zmm", "GOP/s", isa::avx512, nullptr, sums * 128, &vnni_zmm},
    {"vpdpbusd zmm, rescaled every 32", "GOP/s", isa::avx512, nullptr, vnni_rescaled_work, &vnni_rescaled<32>},
    {"vpdpbusd zmm, rescaled every 16", "GOP/s", isa::avx512, nullptr, vnni_rescaled_work, &vnni_rescaled<16>},
    {"vpdpbusd ymm (AVX-VNNI)", "GOP/s", isa::avx2, &has_avx_vnni, sums * 64, &vnni_ymm},
    {"vpmaddubsw ymm, summed in 32 bits", "GOP/s", isa::avx2, nullptr, sums * 64, &maddubs_32},
    {"vpmaddubsw ymm, summed in 16 bits", "GOP/s", isa::avx2, nullptr, sums * 64, &maddubs_16},
    {"vpmaddubsw ymm, rescaled every 32", "GOP/s", isa::avx2, nullptr, maddubs_rescaled_work, &maddubs_rescaled<32>},
    {"vpmaddubsw ymm, rescaled every 16", "GOP/s", isa::avx2, nullptr, maddubs_rescaled_work, &maddubs_rescaled<16>},
    {"binary32 FMA zmm", "GFLOP/s", isa::avx512, nullptr, sums * 32, &fma_zmm},
    {"binary32 FMA ymm", "GFLOP/s", isa::avx2, nullptr, sums * 16, &fma_ymm},
};

}  // namespace

std::span<const compute_limit> compute_limits() { return limits; }

}  // namespace bench

#endif
