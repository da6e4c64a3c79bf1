// ufp4 - Hopper's copy engine (TMA) and the barriers in shared memory that it reports to.
// SPDX-License-Identifier: Apache-2.0
//
// | make_tensor_map | on the host: a matrix of bytes and the box that one copy brings. The driver encodes it; its   |
// |                 | entry is asked of the runtime, so nothing links libcuda                                       |
// | copy_box        | one thread: the box at (column, row) of the matrix to shared memory, zeros beyond the matrix, |
// |                 | and its bytes counted off the barrier                                                         |
// | barrier_*       | a barrier flips its phase when as many arrivals and as many bytes as expected have come;      |
// |                 | wait(b, parity) returns when the phase of that parity is over. A fresh barrier is in phase 0, |
// |                 | so wait(b, 1) returns at once                                                                 |
// | fence_to_async  | this thread's stores to shared memory, before whatever it tells others, seen by the copy      |
// |                 | engine and wgmma                                                                              |
//
// Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier", "cp.async.bulk.tensor"; CUDA
// Driver API, cuTensorMapEncodeTiled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/gpu/status.hpp>
#include <ufp4/gpu/vendor.hpp>

#if defined(__CUDACC__) && !defined(UFP4_SIMT_HEADER)
#include <cuda.h>

namespace ufp4::gpu::detail::inline UFP4_GPU {

/// cuTensorMapEncodeTiled of the driver that runs; null where it has none.
inline auto tensor_map_encoder() {
  using encoder = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                               const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                               CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  static const encoder found = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult answer{};
#if CUDART_VERSION >= 12050
    const error e =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &answer);
#else
    const error e = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &entry, cudaEnableDefault, &answer);
#endif
    return reinterpret_cast<encoder>(e == success && answer == cudaDriverEntryPointSuccess ? entry : nullptr);
  }();
  return found;
}

/// rows x row_bytes bytes, packed, on 16 bytes and row_bytes a multiple of 16; boxes of box_rows x box_bytes.
inline error make_tensor_map(CUtensorMap& map, const void* data, std::size_t rows, std::size_t row_bytes,
                             unsigned box_rows, unsigned box_bytes) {
  const auto encode = tensor_map_encoder();
  if (encode == nullptr) return failed(not_supported, "cuTensorMapEncodeTiled", "the driver does not have it");
  const cuuint64_t extent[2] = {row_bytes, rows}, stride[1] = {row_bytes};
  const cuuint32_t box[2] = {box_bytes, box_rows}, step[2] = {1, 1};
  const CUresult r = encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, const_cast<void*>(data), extent, stride, box, step,
                            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return r == CUDA_SUCCESS
             ? success
             : failed(invalid_argument, "cuTensorMapEncodeTiled", "the driver rejected the operand's shape");
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU

namespace ufp4::gpu::mma::inline UFP4_GPU {

/// 8 bytes of shared memory.
using barrier = std::uint64_t;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

UFP4_DEVICE std::uint32_t window_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

/// By one thread; others may use it after barriers_ready() and a sync_block().
UFP4_DEVICE void barrier_start(barrier* b, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(window_address(b)), "r"(arrivals) : "memory");
}
UFP4_DEVICE void barriers_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
UFP4_DEVICE void barrier_arrive(barrier* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(window_address(b)) : "memory");
}
/// An arrival that says how many bytes are on their way.
UFP4_DEVICE void barrier_expect(barrier* b, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(window_address(b)), "r"(bytes)
               : "memory");
}
UFP4_DEVICE bool barrier_done(barrier* b, unsigned parity) {
  std::uint32_t done;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(window_address(b)), "r"(parity)
      : "memory");
  return done != 0;
}
UFP4_DEVICE void barrier_wait(barrier* b, unsigned parity) {
  while (!barrier_done(b, parity)) {
  }
}

UFP4_DEVICE void copy_box(void* shared, const CUtensorMap& from, unsigned column, unsigned row, barrier* b) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(window_address(shared)),
      "l"(&from), "r"(column), "r"(row), "r"(window_address(b))
      : "memory");
}

UFP4_DEVICE void fence_to_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#endif

}  // namespace ufp4::gpu::mma::inline UFP4_GPU

#endif
