// ufp4 - clusters of thread blocks on Hopper, whose blocks run at the same time and read each other's shared memory.
// SPDX-License-Identifier: Apache-2.0
//
// | launch_clusters | on the host: queues a kernel in clusters of consecutive thread blocks, at most 8                |
// | sync_cluster    | a barrier of all threads of the cluster; orders accesses to shared memory                       |
// | load_remote     | 4 bytes at an address of this block's shared memory, but of the block `rank` of the cluster     |
//
// Source: PTX ISA, "barrier.cluster", "mapa"; CUDA C++ Programming Guide, "Thread Block Clusters".
#pragma once

#include <ufp4/cuda/memory_sm80.hpp>
#include <ufp4/gpu/listed_kernel.hpp>

#if defined(__CUDACC__) && !defined(UFP4_SIMT_HEADER)

namespace ufp4::gpu::mma::inline UFP4_GPU {

/// `blocks` is a multiple of `cluster`.
template <class Job>
error launch_clusters(const listed_kernel<Job>& which, unsigned blocks, unsigned threads, unsigned cluster,
                      std::size_t shared_bytes, stream where, Job job) {
  const auto* entry = reinterpret_cast<const void*>(which.kernel);
  if (const error e = allow_shared_bytes(entry, shared_bytes); e != success) return e;
  cudaLaunchAttribute shape{};
  shape.id = cudaLaunchAttributeClusterDimension;
  shape.val.clusterDim = {cluster, 1, 1};
  cudaLaunchConfig_t how{};
  how.gridDim = dim3(blocks);
  how.blockDim = dim3(threads);
  how.dynamicSmemBytes = shared_bytes;
  how.stream = where;
  how.attrs = &shape;
  how.numAttrs = 1;
  void* at[1] = {&job};
  return cudaLaunchKernelExC(&how, entry, at);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

UFP4_DEVICE void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
UFP4_DEVICE std::uint32_t load_remote(std::uint32_t shared, unsigned rank) {
  std::uint32_t r;
  asm volatile(
      "{\n.reg .u32 there;\n"
      "mapa.shared::cluster.u32 there, %1, %2;\n"
      "ld.shared::cluster.u32 %0, [there];\n}"
      : "=r"(r)
      : "r"(shared), "r"(rank)
      : "memory");
  return r;
}

#endif

}  // namespace ufp4::gpu::mma::inline UFP4_GPU

#endif
