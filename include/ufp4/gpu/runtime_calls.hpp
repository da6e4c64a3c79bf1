// ufp4 - the shims of gpu/vendor.hpp that are the same for every vendor but for the prefix of the runtime's names.
// SPDX-License-Identifier: Apache-2.0
//
// UFP4_RUNTIME(Malloc) is the vendor's spelling of Malloc; a compiler without a runtime (NVRTC) does not define it and
// gets the device functions alone. The vendor's shims define before: probe_threads, allow_shared_bytes, read_facts.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ufp4::gpu::inline UFP4_GPU {

/// *p = max(*p, v).
UFP4_DEVICE void atomic_max(std::uint32_t* p, std::uint32_t v) { atomicMax(p, v); }
/// *p += v.
UFP4_DEVICE void atomic_add(std::uint64_t* p, std::uint64_t v) {
  atomicAdd(reinterpret_cast<unsigned long long*>(p), static_cast<unsigned long long>(v));
}

/// The dynamic shared memory of the block.
UFP4_DEVICE unsigned char* shared_memory() {
  extern __shared__ unsigned char ufp4_shared_memory[] __attribute__((aligned(128)));
  return ufp4_shared_memory;
}

#if defined(UFP4_RUNTIME)

/// A queue of work on a device.
using stream = UFP4_RUNTIME(Stream_t);

/// Queues kernel(arguments...). Returns an error of the launch itself, not one that the kernel causes later, nor an
/// older one.
template <class... Parameters, class... Arguments>
error launch(void (*kernel)(Parameters...), index3 blocks, index3 threads, std::size_t shared_bytes, stream where,
             const Arguments&... arguments) {
  const auto* entry = reinterpret_cast<const void*>(kernel);
  if (const error e = allow_shared_bytes(entry, shared_bytes); e != success) return e;
  const auto queue = [&](Parameters... values) {
    void* at[sizeof...(Parameters) + 1] = {&values...};
    return UFP4_RUNTIME(LaunchKernel)(entry, dim3(blocks.x, blocks.y, blocks.z), dim3(threads.x, threads.y, threads.z),
                                      at, shared_bytes, where);
  };
  return queue(static_cast<Parameters>(arguments)...);
}

/// The text of the runtime.
inline const char* error_text(error e) { return UFP4_RUNTIME(GetErrorString)(e); }
/// Queues zeros for `bytes` bytes.
inline error set_zero(void* p, std::size_t bytes, stream where) {
  return UFP4_RUNTIME(MemsetAsync)(p, 0, bytes, where);
}
/// Queues a copy, between host and device in any direction.
inline error copy(void* to, const void* from, std::size_t bytes, stream where) {
  return UFP4_RUNTIME(MemcpyAsync)(to, from, bytes, UFP4_RUNTIME(MemcpyDefault), where);
}
/// Device memory, aligned to 256 bytes; with a stream, in the order of the stream.
inline error allocate(void** p, std::size_t bytes) { return UFP4_RUNTIME(Malloc)(p, bytes); }
inline error allocate(void** p, std::size_t bytes, stream where) { return UFP4_RUNTIME(MallocAsync)(p, bytes, where); }
/// Frees such memory.
inline error release(void* p) { return UFP4_RUNTIME(Free)(p); }
inline error release(void* p, stream where) { return UFP4_RUNTIME(FreeAsync)(p, where); }
/// Waits until all work on the stream is complete.
inline error wait(stream where) { return UFP4_RUNTIME(StreamSynchronize)(where); }
/// The number of the current device.
inline error current_device(int& device) { return UFP4_RUNTIME(GetDevice)(&device); }

/// Never launched. Compiled for every architecture of the program, as the kernels are. Its bound on the threads tells
/// for which architecture or family the code that the driver chose was compiled; host code has no macro for that.
template <int = 0>
__global__ void __launch_bounds__(probe_threads) compiled_probe() {}

/// The facts of the current device. Cached per thread; lock-free. The first use of the probe may load the program's
/// code onto the device.
inline error facts(device_facts& out) {
  thread_local int known = -1;
  thread_local device_facts last;
  int device = 0;
  if (error e = current_device(device); e != success) return e;
  if (device != known) {
    device_facts now;
    UFP4_RUNTIME(FuncAttributes) probe{};
    const auto* entry = reinterpret_cast<const void*>(&compiled_probe<>);
    if (error e = UFP4_RUNTIME(FuncGetAttributes)(&probe, entry); e != success) return e;
    if (error e = read_facts(device, probe, now); e != success) return e;
    last = now;
    known = device;
  }
  out = last;
  return success;
}

#endif  // UFP4_RUNTIME

}  // namespace ufp4::gpu::inline UFP4_GPU
