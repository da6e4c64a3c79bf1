// ufp4 - the copy engine of Hopper (TMA) and the barriers in shared memory that it signals.
// SPDX-License-Identifier: Apache-2.0
//
// | make_tensor_map | on the host: describes a matrix of bytes and the box that one copy transfers. The driver    |
// |                 | encodes it; its entry point is queried from the runtime, so no program has to link libcuda  |
// | copy_box        | called by one thread: copies the box at (column, row) of the matrix to shared memory, zeros |
// |                 | outside the matrix, and counts its bytes at the barrier                                     |
// | barrier_*       | a phase is complete when the expected arrivals and bytes have come; wait(b, parity) returns |
// |                 | when the phase of that parity is complete. The first phase is 0: wait(b, 1) returns at once |
// | fence_to_async  | orders this thread's stores to shared memory before what the copy engine and wgmma read     |
//
// Source: PTX ISA, "mbarrier" and "cp.async.bulk.tensor"; CUDA Driver API, cuTensorMapEncodeTiled.
#pragma once

#include <ufp4/cuda/memory_sm80.hpp>
#include <ufp4/gpu/status.hpp>

#if defined(__CUDACC__) && !defined(UFP4_SIMT_HEADER)
#include <cuda.h>

namespace ufp4::gpu::mma::inline UFP4_GPU {

/// cuTensorMapEncodeTiled of the installed driver; null if it has none.
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

/// The type of a matrix and the arrangement of its boxes in shared memory.
struct tensor_kind {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  unsigned element_bytes = 1;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
};
inline constexpr tensor_kind float_tensor{CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4};
/// 16-bit elements in boxes of 64 columns: rows of 128 bytes, swizzled as swizzled_offset says.
inline constexpr tensor_kind swizzled_tensor{CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, CU_TENSOR_MAP_SWIZZLE_128B};

/// A packed matrix of rows x cols, aligned to 16 bytes, with rows of a multiple of 16 bytes; boxes of at most 256 x 256.
inline error make_tensor_map(CUtensorMap& map, tensor_kind kind, const void* data, std::size_t rows, std::size_t cols,
                             unsigned box_rows, unsigned box_cols) {
  const auto encode = tensor_map_encoder();
  if (encode == nullptr) return detail::failed(not_supported, "cuTensorMapEncodeTiled", "the driver does not have it");
  const cuuint64_t extent[2] = {cols, rows}, stride[1] = {cols * kind.element_bytes};
  const cuuint32_t box[2] = {box_cols, box_rows}, step[2] = {1, 1};
  const CUresult r =
      encode(&map, kind.type, 2, const_cast<void*>(data), extent, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
             kind.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return r == CUDA_SUCCESS
             ? success
             : detail::failed(invalid_argument, "cuTensorMapEncodeTiled", "the driver rejects the operand's shape");
}
/// The same of bytes.
inline error make_tensor_map(CUtensorMap& map, const void* data, std::size_t rows, std::size_t row_bytes,
                             unsigned box_rows, unsigned box_bytes) {
  return make_tensor_map(map, tensor_kind{}, data, rows, row_bytes, box_rows, box_bytes);
}

/// 8 bytes of shared memory.
using barrier = std::uint64_t;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/// Called by one thread; others may use the barrier after barriers_ready() and a sync_block().
UFP4_DEVICE void barrier_start(barrier* b, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(arrivals) : "memory");
}
UFP4_DEVICE void barriers_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
UFP4_DEVICE void barrier_arrive(barrier* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
/// An arrival that also announces the bytes to come.
UFP4_DEVICE void barrier_expect(barrier* b, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes)
               : "memory");
}
UFP4_DEVICE void barrier_wait(barrier* b, unsigned parity) {
  std::uint32_t done;
  do {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(shared_address(b)), "r"(parity)
        : "memory");
  } while (done == 0);
}

UFP4_DEVICE void copy_box(void* shared, const CUtensorMap& from, unsigned column, unsigned row, barrier* b) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(shared_address(shared)),
      "l"(&from), "r"(column), "r"(row), "r"(shared_address(b))
      : "memory");
}

UFP4_DEVICE void fence_to_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#endif

}  // namespace ufp4::gpu::mma::inline UFP4_GPU

#endif
