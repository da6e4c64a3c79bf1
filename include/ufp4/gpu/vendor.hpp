// ufp4 - the GPU that a file is compiled for, and the few functions (shims) in which the GPUs differ.
// SPDX-License-Identifier: Apache-2.0
//
// | compiled by           | runs on                                                           | inline namespace |
// |-----------------------|-------------------------------------------------------------------|------------------|
// | nvcc, clang -x cuda   | NVIDIA GPUs: cuda/cuda_shims.hpp                                  | v0_1_cuda        |
// | hipcc, clang -x hip   | AMD GPUs: hip/hip_shims.hpp                                       | v0_1_hip         |
// | any, UFP4_SIMT_HEADER | the CPU: a header of the program's own defines the shims          | v0_1_simt        |
// | any other             | the CPU: UFP4_GPU is not defined, and nothing in gpu/ can be used |                  |
//
// Outside cuda/ and hip/ no code names a vendor (tests/layers_test.cpp). Every header takes UFP4_HD from here, and in
// device code (UFP4_DEVICE_CODE) detail/bits.hpp takes device_rounded, device_product, device_fma and device_apart.
//
// Kernels use these names and no others of the vendor:
//
// | UFP4_DEVICE, UFP4_KERNEL(threads)      | a device function; a kernel with at most that many threads in a block,   |
// |                                        | in cuda/ also with the blocks that registers must suffice for; after     |
// |                                        | template <...>, because nvcc compiles every kernel that is no template   |
// | UFP4_LAZY_KERNEL(threads)              | the same without template arguments of its own: named k<Use> by function |
// |                                        | templates, with a parameter `class Use = void` (clang instantiates k<>   |
// |                                        | where a template that names it is defined)                               |
// | UFP4_DEVICE_CALL                       | a device function that is called, where inlining would cost registers    |
// | UFP4_PARAMETER                         | qualifies a kernel's parameter whose address such a function receives    |
// | UFP4_UNROLL                            | before a loop: unrolls it completely, so that arrays stay in registers   |
// | thread_index, block_index, block_size, | as index3                                                                |
// | grid_size                              |                                                                          |
// | wave_size(), lane()                    | the number of threads that execute together, 32 or 64; this one's index  |
// | sync_block(), sync_wave()              | barriers: every thread of the block, of the wave, must call them         |
// | shuffle(v, lane), shuffle_xor(v, m)    | another lane's v: trivially copyable, its size a multiple of 4 bytes     |
// | atomic_max, atomic_add                 | on device memory                                                         |
// | shared_memory()                        | of the block: the bytes that the launch requested, aligned to 128 bytes  |
// | device_byte_permute, device_add_down,  | one instruction each, where UFP4_HAS_... is defined; thread/decode.hpp,  |
// | device_fma_down, device_pair_bf16,     | elements.hpp and round.hpp of gpu/ contain the equivalent code           |
// | device_pair_fp16, device_multiply_bf16,|                                                                          |
// | device_multiply_f16, device_fma_f16,   |                                                                          |
// | device_magnitude, device_min_magnitude,|                                                                          |
// | device_max_magnitude                   |                                                                          |
//
// and host code uses: stream, error, launch, load, set_zero, copy, allocate, release, wait, facts, and
// target_spelling_of (an architecture). Of the host functions only `wait`, `allocate`, `release` and the first `launch`
// of a kernel that was not loaded wait for the device.
// UFP4_SIMT_HEADER must be defined before the first header of ufp4.
#pragma once

#include <ufp4/detail/cxx20.hpp>

#if defined(UFP4_SIMT_HEADER)
#define UFP4_GPU v0_1_simt
#define UFP4_HD
#elif defined(__HIPCC__)
#define UFP4_GPU v0_1_hip
#define UFP4_HD __host__ __device__
#elif defined(__CUDACC__)
#define UFP4_GPU v0_1_cuda
#define UFP4_HD __host__ __device__
#if !defined(__clang__)
#define UFP4_CANNOT_COMPILE_CPU_KERNELS 1  // nvcc's front end for host code
#endif
#else
#define UFP4_HD
#endif

// UFP4_GPU_FUNCTION(function) stands after the definition of a function template through which operations reach their
// kernels: a file with UFP4_COMPILE_GPU_KERNELS contains it, for files with UFP4_EXTERNAL_GPU_KERNELS (docs/gpu.md).
#if defined(UFP4_COMPILE_GPU_KERNELS)
#define UFP4_GPU_FUNCTION(...) template __VA_ARGS__;
#elif defined(UFP4_EXTERNAL_GPU_KERNELS)
#define UFP4_GPU_FUNCTION(...) extern template __VA_ARGS__;
#else
#define UFP4_GPU_FUNCTION(...)
#endif

#if defined(UFP4_GPU)
#include <cstddef>
#include <cstdint>

namespace ufp4::detail {}
namespace ufp4::gpu::detail::inline UFP4_GPU {
using namespace ufp4::detail;
}
namespace ufp4::gpu::kernels::inline UFP4_GPU {
using namespace gpu::detail;  // the file of a kernel also has its host code
}

namespace ufp4::gpu::inline UFP4_GPU {

/// A number of threads or blocks, or an index, in three dimensions.
struct index3 {
  unsigned x = 1, y = 1, z = 1;
};

/// The properties of a device by which a kernel is chosen. `architecture`: 10 * major + minor of an NVIDIA GPU (80, 90,
/// 120); of an AMD GPU the number after gfx, read as hexadecimal (0x90a, 0x942, 0x1201). A program may contain code for
/// several architectures; the driver runs the one nearest to the device. A feature of the device can therefore be used
/// only if the program was compiled for it: see `compiled` and `specific`.
struct device_facts {
  int architecture = 0;
  int processors = 1;  ///< multiprocessors, or compute units; of a group of products, the share of one
  int whole = 0;       ///< those of the device, where `processors` is a share; else 0
  int wave = 32;
  std::size_t shared_bytes = 48 * 1024;  ///< the most that one block may request
  int compiled = 0;      ///< the architecture that the running code was compiled for; 0: the device's own. Of AMD
                         ///< GPUs with the same instructions it names one
  bool specific = true;  ///< compiled with the features of one family alone: sm_90a, sm_100a, sm_120a

  /// Does the running code have the instructions that every GPU from `first` on has?
  constexpr bool has(int first) const { return (compiled == 0 ? architecture : compiled) >= first; }
  /// Does it have those that only devices of compute capability `major`.x have?
  constexpr bool has_specific(int major) const {
    return specific && architecture / 10 == major && (compiled == 0 || compiled / 10 == major);
  }
};

/// How a compiler spells an architecture: sm_80, gfx90a.
struct target_spelling {
  const char* prefix;
  int base;  ///< of the digits after the prefix
};

}  // namespace ufp4::gpu::inline UFP4_GPU

#if defined(UFP4_SIMT_HEADER)
#include UFP4_SIMT_HEADER
#else
// static, a copy in each file: kernels are defined in headers, and nvcc does not accept inline kernels.
#define UFP4_KERNEL(...) [[maybe_unused]] static __global__ void __launch_bounds__(__VA_ARGS__)
#define UFP4_UNROLL _Pragma("unroll")
#if defined(__HIPCC__)
#include <ufp4/hip/hip_shims.hpp>
#else
#include <ufp4/cuda/cuda_shims.hpp>
#endif

// The shims that are the same for every vendor but for the prefix of the runtime's names: UFP4_RUNTIME(Malloc) is the
// vendor's spelling of Malloc. A compiler without a runtime (NVRTC) does not define it and gets the device functions
// alone. The vendor's shims define before: probe_threads, allow_shared_bytes, read_facts.
namespace ufp4::gpu::inline UFP4_GPU {

UFP4_DEVICE void atomic_max(std::uint32_t* p, std::uint32_t v) { atomicMax(p, v); }
UFP4_DEVICE void atomic_add(std::uint64_t* p, std::uint64_t v) {
  atomicAdd(reinterpret_cast<unsigned long long*>(p), static_cast<unsigned long long>(v));
}

UFP4_DEVICE unsigned char* shared_memory() {
  extern __shared__ unsigned char ufp4_shared_memory[] __attribute__((aligned(128)));
  return ufp4_shared_memory;
}

#if defined(UFP4_RUNTIME)

/// A queue of work on a device.
using stream = UFP4_RUNTIME(Stream_t);
/// The result of a call of the runtime.
using error = UFP4_RUNTIME(Error_t);
inline constexpr error success = UFP4_RUNTIME(Success);
inline constexpr error invalid_argument = UFP4_RUNTIME(ErrorInvalidValue);
inline constexpr error not_supported = UFP4_RUNTIME(ErrorNotSupported);

/// Queues kernel(arguments...). Returns an error of this launch alone, not one that the kernel causes later.
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

/// Loads the code of a kernel, so that its first launch does not. No code for this device is no error.
inline error load(const void* kernel) {
  UFP4_RUNTIME(FuncAttributes) unused{};
  const error e = UFP4_RUNTIME(FuncGetAttributes)(&unused, kernel);
  if (e != UFP4_RUNTIME(ErrorInvalidDeviceFunction) && e != UFP4_NO_CODE) return e;
  (void)UFP4_RUNTIME(GetLastError)();  // takes the error back
  return success;
}

inline const char* error_text(error e) { return UFP4_RUNTIME(GetErrorString)(e); }
/// Queues zeros for `bytes` bytes.
inline error set_zero(void* p, std::size_t bytes, stream where) {
  return UFP4_RUNTIME(MemsetAsync)(p, 0, bytes, where);
}
/// Queues a copy, between host and device in any direction.
inline error copy(void* to, const void* from, std::size_t bytes, stream where) {
  return UFP4_RUNTIME(MemcpyAsync)(to, from, bytes, UFP4_RUNTIME(MemcpyDefault), where);
}
/// Device memory, aligned to 256 bytes.
inline error allocate(void** p, std::size_t bytes) { return UFP4_RUNTIME(Malloc)(p, bytes); }
/// Frees such memory.
inline error release(void* p) { return UFP4_RUNTIME(Free)(p); }
/// Waits until all work on the stream is complete.
inline error wait(stream where) { return UFP4_RUNTIME(StreamSynchronize)(where); }
inline error current_device(int& device) { return UFP4_RUNTIME(GetDevice)(&device); }

/// Never launched. Compiled for every architecture of the program, as the kernels are. Its bound on the threads tells
/// for which architecture or family the code that the driver chose was compiled; host code has no macro for that.
template <int = 0>
__global__ void __launch_bounds__(probe_threads) compiled_probe() {}

/// The facts of the current device. Cached per thread; lock-free. The first use may load code onto the device.
template <class = void>
error facts(device_facts& out) {
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
UFP4_GPU_FUNCTION(error facts<void>(device_facts&))  // of the code that is launched

#endif  // UFP4_RUNTIME

}  // namespace ufp4::gpu::inline UFP4_GPU
#endif
#define UFP4_LAZY_KERNEL(...) \
  template <class = void>     \
  UFP4_KERNEL(__VA_ARGS__)
#if !defined(UFP4_DEVICE_CALL)
#define UFP4_DEVICE_CALL UFP4_DEVICE
#define UFP4_PARAMETER const
#endif
#endif  // UFP4_GPU
