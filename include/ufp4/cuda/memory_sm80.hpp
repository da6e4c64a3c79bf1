// ufp4 - moving tiles on compute capability 8.0 and above: ldmatrix, and copies to shared memory that run on their own.
// SPDX-License-Identifier: Apache-2.0
//
// | load_matrix4, 2 | every lane of the warp comes. Lane 8i + r brings the address of row r of the 8 x 8 matrix i of  |
// |                 | b16: 16 bytes of shared memory, on 16 bytes. Lane l gets in r[i] the elements 2 (l % 4) and 2   |
// |                 | (l % 4) + 1 of row l / 4, the first in the low half: a fragment of mma.sync. load_matrix2 looks |
// |                 | at no address of the lanes 16 to 31                                                             |
// | copy_async16, 4 | copies that many bytes, aligned so on both sides, from device to shared memory without          |
// |                 | registers; where not valid, reads nothing and writes zeros. What lies there is anybody's guess  |
// |                 | until the copy is waited for                                                                    |
// | commit_copies   | closes a group: the copies of this thread since the last commit                                 |
// | wait_copies<n>  | waits until all but the last n groups of this thread are done. The copies are then visible to   |
// |                 | this thread, to others after a barrier                                                          |
//
// The 16-byte copy goes past L1 (.cg): a tile is read once by a thread block.
#pragma once

#include <cstdint>
#include <ufp4/gpu/vendor.hpp>

namespace ufp4::gpu::mma::inline UFP4_GPU {

#if defined(__CUDACC__) && !defined(UFP4_SIMT_HEADER)
/// The address within the shared window, which ldmatrix and cp.async take.
UFP4_DEVICE std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}
#endif

UFP4_DEVICE void load_matrix4(std::uint32_t (&r)[4], const void* shared_row) {
#if defined(UFP4_SIMT_HEADER)
  simt::load_matrix(r, shared_row);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(shared_row))
               : "memory");
#else
  __trap();
#endif
}

UFP4_DEVICE void load_matrix2(std::uint32_t (&r)[2], const void* shared_row) {
#if defined(UFP4_SIMT_HEADER)
  simt::load_matrix(r, shared_row);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(shared_row))
               : "memory");
#else
  __trap();
#endif
}

UFP4_DEVICE void copy_async16(void* shared, const void* global, bool valid) {
#if defined(UFP4_SIMT_HEADER)
  simt::copy_async<16>(shared, global, valid);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
               "r"(valid ? 16 : 0)
               : "memory");
#else
  __trap();
#endif
}

UFP4_DEVICE void copy_async4(void* shared, const void* global, bool valid) {
#if defined(UFP4_SIMT_HEADER)
  simt::copy_async<4>(shared, global, valid);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(shared)), "l"(global),
               "r"(valid ? 4 : 0)
               : "memory");
#else
  __trap();
#endif
}

UFP4_DEVICE void commit_copies() {
#if defined(UFP4_SIMT_HEADER)
  simt::commit_copies();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  __trap();
#endif
}

template <int left>
UFP4_DEVICE void wait_copies() {
  static_assert(left >= 0);
#if defined(UFP4_SIMT_HEADER)
  simt::wait_copies(left);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
#else
  __trap();
#endif
}

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
