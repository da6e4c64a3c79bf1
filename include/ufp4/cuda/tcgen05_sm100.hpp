// ufp4 - the matrix unit of compute capability 10 (sm_100a, sm_103a): descriptors, layouts and instructions of tcgen05.
// SPDX-License-Identifier: Apache-2.0
//
// One thread starts D = D + (A scale_A) (B scale_B)^T of 128 x N x 64 elements of 4 bits. A and B are in shared memory,
// D and the scales in tensor memory: 128 lanes of 512 columns of 32 bits, some of which a block allocates.
//
// Two thread blocks, a pair of a cluster, can share an instruction (blocks = 2, cta_group::2): it is 256 x N x 64, the
// thread of the first block starts it, and all addresses are those of both blocks. Each block has 128 rows of A and of
// D, half of the rows of B, the scales of its rows of A, and the scales of all rows of B.
//
// The functions implement tables of the PTX ISA 9.0, "TensorCore 5th Generation Family Instructions"; a host can test
// them:
//
// | instruction_descriptor | "Instruction descriptor format for .kind::mxf4 and .kind::mxf4nvf4"                    |
// | tensor_descriptor      | "Shared memory descriptor layout"                                                      |
// | scale_offset           | scales as tcgen05.cp.32x128b.warpx4 takes them: the word of row 32 c + l is copied to  |
// |                        | column c of lane l, in four copies; 512 bytes for 128 rows of four scales              |
//
// Device code has the instructions where UFP4_HAS_TCGEN05 is defined. Barriers and the fence are those of tma_sm90.hpp.
#pragma once

#include <ufp4/cuda/tma_sm90.hpp>

namespace ufp4::gpu::mma::inline UFP4_GPU {

/// In a descriptor's field. Publications report that 0, which no table lists, is uniform, E0M3, with the codes of E1M2.
enum class four_bit_element : std::uint32_t {
#if defined(UFP4_UNDOCUMENTED_E0M3)
  e0m3 = 0,
#endif
  e2m1 = 1,
};

enum class block_scale : std::uint32_t { ue4m3 = 0, ue8m0 = 1 };

/// Kinds mxf4 and mxf4nvf4, dense, K = 64, neither side negated or transposed.
struct block_instruction {
  four_bit_element a = four_bit_element::e2m1, b = four_bit_element::e2m1;
  block_scale scale = block_scale::ue4m3;
  unsigned rows = 128, cols = 128;    ///< of D: 128 or 256; a multiple of 8 (of 16 with 256 rows) up to 256
  unsigned scale_a = 0, scale_b = 0;  ///< the first byte in a word of scales: 0, or 2 with two scales for each row
};

UFP4_HD constexpr std::uint32_t instruction_descriptor(const block_instruction& i) {
  return i.scale_b << 4 | static_cast<std::uint32_t>(i.a) << 7 | static_cast<std::uint32_t>(i.b) << 10 |
         (i.cols >> 3) << 17 | static_cast<std::uint32_t>(i.scale) << 23 | (i.rows >> 7) << 27 | i.scale_a << 29;
}

UFP4_HD constexpr std::uint64_t tensor_descriptor(std::uint32_t address, std::uint32_t leading, std::uint32_t stride,
                                                  swizzle pattern) {
  return shared_descriptor(address, leading, stride, pattern) | std::uint64_t{1} << 46;
}

/// The offset of the scale of a block along K, for one of 128 rows.
UFP4_HD constexpr unsigned scale_offset(unsigned row, unsigned block) {
  return block / 4 * 512 + row % 32 * 16 + row / 32 * 4 + block % 4;
}

#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL) ||                              \
    (defined(__CUDA_ARCH_SPECIFIC__) && (__CUDA_ARCH_SPECIFIC__ == 1000 || __CUDA_ARCH_SPECIFIC__ == 1030)) || \
    (defined(__CUDA_ARCH_FAMILY_SPECIFIC__) && __CUDA_ARCH_FAMILY_SPECIFIC__ == 1000)
#define UFP4_HAS_TCGEN05 1

/// An instruction of one thread block or two, by the constant `blocks`: the digit is between the first two texts.
#define UFP4_TCGEN05(before, after, ...)          \
  do {                                            \
    static_assert(blocks == 1 || blocks == 2);    \
    if constexpr (blocks == 1)                    \
      asm volatile(before "1" after __VA_ARGS__); \
    else                                          \
      asm volatile(before "2" after __VA_ARGS__); \
  } while (false)

/// Called by a warp of each block; writes the address, the same in both, to shared memory. 2^5 to 2^9 columns.
template <unsigned blocks, unsigned columns>
UFP4_DEVICE void allocate_tensor_memory(std::uint32_t shared) {
  UFP4_TCGEN05("tcgen05.alloc.cta_group::", ".sync.aligned.shared::cta.b32 [%0], %1;", ::"r"(shared),
               "n"(columns) : "memory");
  UFP4_TCGEN05("tcgen05.relinquish_alloc_permit.cta_group::", ".sync.aligned;", :: : "memory");
}
/// Called by the warp that allocated, of each block.
template <unsigned blocks, unsigned columns>
UFP4_DEVICE void release_tensor_memory(std::uint32_t address) {
  UFP4_TCGEN05("tcgen05.dealloc.cta_group::", ".sync.aligned.b32 %0, %1;", ::"r"(address), "n"(columns) : "memory");
}

/// Before and after a barrier that orders tcgen05 instructions of different threads.
UFP4_DEVICE void tensor_fence_before_sync() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
UFP4_DEVICE void tensor_fence_after_sync() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

/// Arrives, in each block, when all instructions that this thread has started before are complete.
template <unsigned blocks>
UFP4_DEVICE void commit_to(std::uint32_t barrier) {
  if constexpr (blocks == 1)
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier)
                 : "memory");
  else
    asm volatile(
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(
            barrier),
        "h"(static_cast<std::uint16_t>(3))
        : "memory");
}

/// Copies 512 bytes of scales to four columns, before the multiplications that this thread starts afterwards.
template <unsigned blocks>
UFP4_DEVICE void copy_scales_to_tensor(std::uint32_t to, std::uint64_t from) {
  UFP4_TCGEN05("tcgen05.cp.cta_group::", ".32x128b.warpx4 [%0], %1;", ::"r"(to), "l"(from) : "memory");
}

/// E2M1, K = 64: four ue4m3 scales for each row, or two ue8m0. Without `add` D is not read.
template <unsigned blocks, block_scale scale>
UFP4_DEVICE void multiply_blocks(std::uint32_t d, std::uint64_t a, std::uint64_t b, std::uint32_t instruction,
                                 std::uint32_t scales_a, std::uint32_t scales_b, bool add) {
#define UFP4_MULTIPLY_BLOCKS(kind)                                                                                \
  UFP4_TCGEN05("{\n .reg .pred p;\n setp.ne.b32 p, %6, 0;\n tcgen05.mma.cta_group::",                             \
               ".kind::" kind " [%0], %1, %2, %3, [%4], [%5], p;\n}", ::"r"(d), "l"(a), "l"(b), "r"(instruction), \
               "r"(scales_a), "r"(scales_b), "r"(static_cast<std::uint32_t>(add)) : "memory")
  if constexpr (scale == block_scale::ue4m3)
    UFP4_MULTIPLY_BLOCKS("mxf4nvf4.block_scale.scale_vec::4X");
  else
    UFP4_MULTIPLY_BLOCKS("mxf4.block_scale.scale_vec::2X");
#undef UFP4_MULTIPLY_BLOCKS
}

/// copy_box() to this block's shared memory, for a pair: the barrier is in either block, an address of the cluster.
UFP4_DEVICE void copy_box_of_pair(std::uint32_t shared, const CUtensorMap& from, unsigned column, unsigned row,
                                  std::uint32_t b) {
  asm volatile(
      "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3}], [%4];" ::"r"(shared),
      "l"(&from), "r"(column), "r"(row), "r"(b)
      : "memory");
}

/// Called by a whole warp: 32 columns of this lane's row, of lanes 32 (warp % 4) on; complete at wait_tensor_loads().
UFP4_DEVICE void load_tensor32(std::uint32_t (&r)[32], std::uint32_t from) {
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x32.b32 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,"
      "%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, [%32];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]), "=r"(r[8]),
        "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13]), "=r"(r[14]), "=r"(r[15]), "=r"(r[16]),
        "=r"(r[17]), "=r"(r[18]), "=r"(r[19]), "=r"(r[20]), "=r"(r[21]), "=r"(r[22]), "=r"(r[23]), "=r"(r[24]),
        "=r"(r[25]), "=r"(r[26]), "=r"(r[27]), "=r"(r[28]), "=r"(r[29]), "=r"(r[30]), "=r"(r[31])
      : "r"(from)
      : "memory");
}
UFP4_DEVICE void wait_tensor_loads() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }

#undef UFP4_TCGEN05
#endif  // UFP4_HAS_TCGEN05

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
