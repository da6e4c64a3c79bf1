// ufp4 - memory instructions of compute capability 8.0 and above: ldmatrix, and asynchronous copies to shared memory.
// SPDX-License-Identifier: Apache-2.0
//
// | load_matrix4    | Called by every lane of the warp. Lane 8i + r passes the address of row r of the 8 x 8 matrix i |
// |                 | of 16-bit elements: 16 bytes of shared memory, aligned to 16. Lane l receives in r[i] elements  |
// |                 | 2 (l % 4) and 2 (l % 4) + 1 of row l / 4, the first in the low half: a fragment of mma.sync     |
// | copy_async16, 4 | Copies 16 or 4 bytes, aligned to that size on both sides, from device to shared memory without  |
// |                 | registers. If not `valid`, writes zeros without reading. The bytes are undefined until the wait |
// | commit_copies   | Closes a group: the copies of this thread since the last commit                                 |
// | wait_copies<n>  | Waits until all but the last n groups of this thread are complete. The copies are then visible  |
// |                 | to this thread, and to others after a barrier                                                   |
//
// The 16-byte copy bypasses L1 (.cg), because a thread block reads a tile once.
#pragma once

#include <ufp4/cuda/ptx.hpp>

namespace ufp4::gpu::mma::inline UFP4_GPU {

/// The offset of a 16-byte part of a row of 128 bytes: the parts of eight rows are in different banks. In memory
/// aligned to 1024 bytes it is the 128-byte swizzle of wgmma and tcgen05.
UFP4_HD constexpr unsigned swizzled_offset(unsigned row, unsigned part) { return row * 128 + 16 * (part ^ row % 8); }

enum class swizzle : std::uint64_t { none = 0, bytes_128 = 2, bytes_64 = 4, bytes_32 = 6 };

/// What the matrix descriptors of wgmma and tcgen05 have in common. In bytes, multiples of 16 in the shared state
/// space. `stride`: from eight rows to the next; `leading`: from 16 bytes of a row to the next, ignored if swizzled.
///
/// | bits 0-13    | 16-29        | 32-45       | 61-63   |
/// |--------------|--------------|-------------|---------|
/// | address / 16 | leading / 16 | stride / 16 | swizzle |
UFP4_HD constexpr std::uint64_t shared_descriptor(std::uint32_t address, std::uint32_t leading, std::uint32_t stride,
                                                  swizzle pattern) {
  const auto field = [](std::uint32_t x) { return std::uint64_t{(x & 0x3FFFFu) >> 4}; };
  return field(address) | field(leading) << 16 | field(stride) << 32 | static_cast<std::uint64_t>(pattern) << 61;
}

#if defined(UFP4_SIMT_HEADER)
UFP4_DEVICE std::uint32_t shared_address(const void* p) { return simt::shared_address(p); }
#elif defined(__CUDACC__)
UFP4_DEVICE std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}
#endif

UFP4_DEVICE void load_matrix4(std::uint32_t (&r)[4], const void* shared_row) {
  UFP4_PTX_SM80(simt::load_matrix(r, shared_row),
                "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]),
                "=r"(r[3]) : "r"(shared_address(shared_row)) : "memory");
}

UFP4_DEVICE void copy_async16(void* shared, const void* global, bool valid) {
  UFP4_PTX_SM80(simt::copy_async<16>(shared, global, valid),
                "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
                "r"(valid ? 16 : 0) : "memory");
}

UFP4_DEVICE void copy_async4(void* shared, const void* global, bool valid) {
  UFP4_PTX_SM80(simt::copy_async<4>(shared, global, valid),
                "cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(shared)), "l"(global),
                "r"(valid ? 4 : 0) : "memory");
}

/// 16 bytes as one copy if `wide`, which needs that alignment, else as four; part i, at byte 4 i, only if valid(i).
template <class Valid>
UFP4_DEVICE void copy_async16_of(unsigned char* shared, const std::uint8_t* global, bool wide, const Valid& valid) {
  if (wide) return copy_async16(shared, global, valid(0));
  for (unsigned i = 0; i < 4; ++i) copy_async4(shared + 4 * i, valid(i) ? global + 4 * i : global, valid(i));
}

UFP4_DEVICE void commit_copies() { UFP4_PTX_SM80(simt::commit_copies(), "cp.async.commit_group;" :: : "memory"); }

template <int left>
UFP4_DEVICE void wait_copies() {
  static_assert(left >= 0);
  UFP4_PTX_SM80(simt::wait_copies(left), "cp.async.wait_group %0;" ::"n"(left) : "memory");
}

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
