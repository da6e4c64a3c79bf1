// ufp4 - wgmma: the matrix products of a warpgroup on Hopper, with operands in shared memory. Only sm_90a has them.
// SPDX-License-Identifier: Apache-2.0
//
// A warpgroup is four consecutive warps, the first a multiple of four. wgmma.mma_async m64n128k16 adds the product of
// a 64 x 16 and a 16 x 128 matrix of bf16 to 64 x 128 sums, a quarter of the rows for each warp. Here both operands are
// K-major in rows of 128 bytes, 64 bf16, swizzled:
//
// | swizzle128       | the offset of byte b of row r: the index of a 16-byte piece is exclusive-ored with r mod 8, so |
// |                  | the pieces of eight rows at the same k are in different banks. The base is aligned to 1024     |
// |                  | bytes, the size of eight rows, after which the pattern repeats                                 |
// | operand_128      | the descriptor of such an operand; its start address advances by 32 bytes for the next 16 of K |
// | sum_row, sum_col | the place of element i of a thread's sums in the warpgroup's 64 x 128                          |
//
// Order: stores to operands, fence_to_async (cuda/tma_sm90.hpp), a barrier; then every thread of the warpgroup calls
// multiply_fence, multiply..., multiply_commit, multiply_wait. Between the first and the last the sums must not be
// accessed.
//
// Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": "Shared Memory Matrix Layout", "Matrix
// Descriptor Format", "Register Fragments".
#pragma once

#include <cstdint>
#include <ufp4/gpu/vendor.hpp>

namespace ufp4::gpu::mma::inline UFP4_GPU {

/// Bits 62-63 of a descriptor.
enum class wgmma_swizzle : std::uint8_t { none = 0, bytes_128 = 1, bytes_64 = 2, bytes_32 = 3 };

/// The fields of a matrix descriptor. Addresses and distances are in bytes, multiples of 16 below 2^18.
///
/// | bits  |                                                                                                   |
/// |-------|---------------------------------------------------------------------------------------------------|
/// | 0-13  | start / 16                                                                                        |
/// | 16-29 | leading / 16: between core matrices along K; ignored for swizzled K-major rows                      |
/// | 32-45 | stride / 16: from eight rows to the next eight                                                      |
/// | 49-51 | base offset: 0 if the base of the pattern is aligned to its size                                   |
/// | 62-63 | swizzle                                                                                           |
struct wgmma_descriptor {
  std::uint32_t start = 0, leading = 16, stride = 1024;
  std::uint32_t base_offset = 0;
  wgmma_swizzle swizzle = wgmma_swizzle::bytes_128;

  UFP4_HD constexpr std::uint64_t bits() const {
    const auto field = [](std::uint32_t bytes) { return std::uint64_t{bytes >> 4 & 0x3FFFu}; };
    return field(start) | field(leading) << 16 | field(stride) << 32 | std::uint64_t{base_offset & 7u} << 49 |
           static_cast<std::uint64_t>(swizzle) << 62;
  }
};

UFP4_HD constexpr unsigned swizzle128(unsigned row, unsigned byte) {
  return row * 128 + ((byte / 16 ^ row % 8) * 16 + byte % 16);
}

/// For an operand whose first row is at `start` in the shared state space: a multiple of 1024, plus 32 bytes for every
/// 16 of K.
UFP4_HD constexpr std::uint64_t operand_128(std::uint32_t start) { return wgmma_descriptor{start}.bits(); }

/// Element i of the 64 sums of thread t of a warpgroup.
UFP4_HD constexpr unsigned sum_row(unsigned t, unsigned i) { return t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8; }
UFP4_HD constexpr unsigned sum_col(unsigned t, unsigned i) { return i / 4 * 8 + t % 4 * 2 + i % 2; }

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

UFP4_DEVICE void multiply_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
UFP4_DEVICE void multiply_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until all but the last `left` groups are complete.
template <int left>
UFP4_DEVICE void multiply_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}
/// Tells the compiler that the sums change here.
template <unsigned n>
UFP4_DEVICE void settle_sums(float (&d)[n]) {
#pragma unroll
  for (unsigned i = 0; i < n; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

/// d += a * b^T; a 64 x 16, b 128 x 16, both K-major.
UFP4_DEVICE void multiply_bf16_m64n128k16(float (&d)[64], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.eq.u32 adds, 1, 1;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, adds, 1, 1, 0, 0;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]),
        "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]),
        "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),
        "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "l"(a), "l"(b)
      : "memory");
}

#endif

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
