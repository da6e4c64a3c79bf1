// ufp4 - the copy engine of Hopper (TMA) and the barriers in shared memory that it signals.
// SPDX-License-Identifier: Apache-2.0
//
// | make_tensor_map | on the host: describes a matrix of bytes and the box that one copy transfers. The driver    |
// |                 | encodes it; its entry point is queried from the runtime, so no program has to link libcuda  |
// | copy_box        | called by one thread: copies the box at (column, row) of the matrix to shared memory, zeros |
// |                 | outside the matrix, and counts its bytes at the barrier                                     |
// | barrier_*       | a phase is complete when the expected arrivals and bytes have come; wait(b, parity) returns |
// |                 | when the phase of that parity is complete. The first phase is 0: wait(b, 1) returns at once |
// | load_shared,    | by an address in the shared state space                                                     |
// | store_shared    |                                                                                             |
// | ring            | the stages of a pipeline, in order, and the parity of their barriers                        |
// | fence_to_async  | orders this thread's stores to shared memory before what the copy engine and wgmma read     |
//
// Source: PTX ISA, "mbarrier" and "cp.async.bulk.tensor"; CUDA Driver API, cuTensorMapEncodeTiled.
#pragma once

#include <ufp4/cuda/memory_sm80.hpp>
#include <ufp4/gpu/status.hpp>

#if defined(__CUDACC__) && !defined(UFP4_SIMT_HEADER)
#include <cuda.h>
#endif

namespace ufp4::gpu::mma::inline UFP4_GPU {

/// The bytes of a barrier. Below, barriers and shared memory are addresses in the shared state space: an address that
/// is computed as an integer and becomes a pointer again loses the state space, and its loads and stores are slower.
inline constexpr unsigned barrier_bytes = 8;

#if defined(UFP4_SIMT_HEADER) || defined(__CUDACC__)

/// The elements of a matrix, and how the 16-byte parts of a box's row are stored: in order, or, of rows of 64 or 128
/// bytes, swizzled (swizzled_offset), in memory aligned to eight rows.
struct tensor_kind {
  unsigned element_bytes, swizzled_row;  ///< 0: not swizzled
};
inline constexpr tensor_kind swizzled_bytes_tensor{1, 128}, swizzled_64_bytes_tensor{1, 64}, float_tensor{4, 0};

#if defined(UFP4_SIMT_HEADER)

using tensor_map = simt::tensor_map;

inline error make_tensor_map(tensor_map& map, tensor_kind kind, const void* data, std::size_t rows, std::size_t cols,
                             unsigned box_rows, unsigned box_cols) {
  map = {static_cast<const unsigned char*>(data),
         rows,
         cols * kind.element_bytes,
         box_rows,
         box_cols * kind.element_bytes,
         kind.element_bytes,
         kind.swizzled_row};
  return map.valid() ? success : invalid_argument;
}

#else

using tensor_map = CUtensorMap;

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

/// A packed matrix of rows x cols, aligned to 16 bytes, with rows of a multiple of 16 bytes; boxes of box_rows x
/// box_cols, both at most 256. Columns are counted in elements.
inline error make_tensor_map(tensor_map& map, tensor_kind kind, const void* data, std::size_t rows, std::size_t cols,
                             unsigned box_rows, unsigned box_cols) {
  const auto encode = tensor_map_encoder();
  if (encode == nullptr) return detail::failed(not_supported, "cuTensorMapEncodeTiled", "the driver does not have it");
  const cuuint64_t extent[2] = {cols, rows}, stride[1] = {cols * kind.element_bytes};
  const cuuint32_t box[2] = {box_cols, box_rows}, step[2] = {1, 1};
  const auto type = kind.element_bytes == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  const auto swizzle = kind.swizzled_row == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                       : kind.swizzled_row == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                 : CU_TENSOR_MAP_SWIZZLE_NONE;
  const CUresult r =
      encode(&map, type, 2, const_cast<void*>(data), extent, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return r == CUDA_SUCCESS
             ? success
             : detail::failed(invalid_argument, "cuTensorMapEncodeTiled", "the driver rejects the operand's shape");
}

#endif

/// A position in a ring of stages with two barriers each: "full" is waited for with `phase`, "empty" with the opposite.
template <unsigned stages>
struct ring {
  unsigned stage = 0, phase = 0;
  UFP4_DEVICE void advance() {
    if (++stage == stages) stage = 0, phase ^= 1u;
  }
};

#if defined(UFP4_SIMT_HEADER) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900)

/// Called by a whole warp: true in one lane, so that the compiler knows that one thread executes what depends on it.
UFP4_DEVICE bool elected() {
  std::uint32_t is = 0;
  UFP4_PTX_SM90(is = lane() == 0, "{\n.reg .pred p;\nelect.sync _|p, 0xFFFFFFFF;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(is));
  return is != 0;
}

/// Called by one thread; others may use the barrier after barriers_ready() and a sync_block().
UFP4_DEVICE void barrier_start(std::uint32_t b, unsigned arrivals) {
  UFP4_PTX_SM90(simt::barrier_start(b, arrivals), "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b),
                "r"(arrivals) : "memory");
}
UFP4_DEVICE void barriers_ready() {
  UFP4_PTX_SM90((void)0, "fence.mbarrier_init.release.cluster;" :: : "memory");
  UFP4_PTX_SM90((void)0, "fence.proxy.async.shared::cta;" :: : "memory");
}
UFP4_DEVICE void barrier_arrive(std::uint32_t b) {
  UFP4_PTX_SM90(simt::barrier_arrive(b, 0), "mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory");
}
/// An arrival that also announces the bytes to come.
UFP4_DEVICE void barrier_expect(std::uint32_t b, unsigned bytes) {
  UFP4_PTX_SM90(simt::barrier_arrive(b, bytes), "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b),
                "r"(bytes) : "memory");
}
UFP4_DEVICE void barrier_wait(std::uint32_t b, unsigned parity) {
  std::uint32_t done = 0;
  do {
    UFP4_PTX_SM90((simt::barrier_wait(b, parity), done = 1),
                  "{\n.reg .pred p;\n"
                  "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                  "selp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(b),
                  "r"(parity) : "memory");
  } while (done == 0);
}

/// The state space of the target. For sm_120 ptxas adds a check to each copy to the shared memory of a cluster;
/// compilers that do not know the other form do not know sm_120 either.
#if defined(UFP4_HAS_BLOCK_MMA_SM120)
#define UFP4_BOX_TARGET "shared::cta"
#else
#define UFP4_BOX_TARGET "shared::cluster"
#endif
UFP4_DEVICE void copy_box(std::uint32_t shared, const tensor_map& from, unsigned column, unsigned row,
                          std::uint32_t b) {
  UFP4_PTX_SM90(simt::copy_box(shared, from, column, row, b),
                "cp.async.bulk.tensor.2d." UFP4_BOX_TARGET
                ".global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(shared),
                "l"(&from), "r"(column), "r"(row), "r"(b) : "memory");
}
#undef UFP4_BOX_TARGET

#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && !defined(UFP4_SIMT_HEADER)

UFP4_DEVICE void fence_to_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// A barrier of `threads` threads of the block, a multiple of 32; ids 1 to 15 are free.
template <unsigned threads>
UFP4_DEVICE void sync_threads(unsigned id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(threads) : "memory");
}

/// 16, 8 or 4 bytes of shared memory, aligned to their size.
UFP4_DEVICE void load_shared(std::uint32_t (&to)[4], std::uint32_t at) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at)
               : "memory");
}
UFP4_DEVICE void load_shared(std::uint32_t (&to)[2], std::uint32_t at) {
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(at) : "memory");
}
UFP4_DEVICE void load_shared(std::uint32_t (&to)[1], std::uint32_t at) {
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(to[0]) : "r"(at) : "memory");
}
UFP4_DEVICE void store_shared(std::uint32_t at, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
UFP4_DEVICE void store_shared(std::uint32_t at, std::uint32_t a) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(a) : "memory");
}

#endif
#endif

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
