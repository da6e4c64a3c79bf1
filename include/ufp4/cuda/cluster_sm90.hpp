// ufp4 - clusters of thread blocks on Hopper, whose blocks run at the same time and read each other's shared memory.
// SPDX-License-Identifier: Apache-2.0
//
// | launch_clusters | on the host: queues a kernel in clusters of consecutive thread blocks, at most 8                |
// | sync_cluster    | a barrier of all threads of the cluster; orders accesses to shared memory                       |
// | remote_address  | an address of this block's shared memory, but of the block `rank` of the cluster                |
// | load_remote     | 4 bytes there                                                                                   |
// | barrier_arrive_ | arrives at a barrier of any block of the cluster, or waits at one of this block; what the       |
// | remote,         | arriving threads have done before is visible to the waiting ones, whatever their blocks         |
// | barrier_wait_   |                                                                                                 |
// | remote          |                                                                                                 |
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
UFP4_DEVICE std::uint32_t remote_address(std::uint32_t shared, unsigned rank) {
  std::uint32_t r;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(shared), "r"(rank));
  return r;
}
UFP4_DEVICE std::uint32_t load_remote(std::uint32_t shared, unsigned rank) {
  std::uint32_t r;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(r) : "r"(remote_address(shared, rank)) : "memory");
  return r;
}
UFP4_DEVICE void barrier_arrive_remote(std::uint32_t b) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(b) : "memory");
}
UFP4_DEVICE void barrier_wait_remote(std::uint32_t b, unsigned parity) {
  std::uint32_t done;
  do {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(b), "r"(parity)
        : "memory");
  } while (done == 0);
}

#endif

}  // namespace ufp4::gpu::mma::inline UFP4_GPU

#endif
