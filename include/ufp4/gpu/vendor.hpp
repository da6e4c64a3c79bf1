// ufp4 - which compiler makes code for a GPU here, and the few shims between one source and the machines that run it.
// SPDX-License-Identifier: Apache-2.0
//
// | compiled by            | machine                                                        | inline namespace |
// |------------------------|----------------------------------------------------------------|------------------|
// | nvcc, clang -x cuda    | NVIDIA GPUs                                                    | v0_1_cuda        |
// | hipcc, clang -x hip    | AMD GPUs                                                       | v0_1_hip         |
// | any, UFP4_SIMT_HEADER  | the host: a header of the program's own that has all of this   | v0_1_simt        |
// | any other              | none: UFP4_GPU is not defined, and nothing of gpu/ can be used |                  |
//
// Outside cuda/ and hip/ no other file's code names a vendor (tests/layers_test.cpp). Every header takes UFP4_HD from
// here; detail/bits.hpp, while a GPU's own code is made (UFP4_DEVICE_CODE), also device_rounded, device_product,
// device_fma and device_apart.
//
// Kernels take what they need from here and from nowhere else:
//
// | UFP4_DEVICE, UFP4_KERNEL(threads)      | a function of a thread; a kernel with blocks of at most so many threads |
// | UFP4_UNROLL                            | before a loop: its turns are written out one by one,                    |
// |                                        | so that arrays stay in registers                                        |
// | thread_index, block_index, block_size, | as index3                                                               |
// | grid_size                              |                                                                         |
// | wave_size(), lane()                    | threads that run together (32, or 64 on some AMD GPUs),                 |
// |                                        | and the place among them                                                |
// | sync_block(), sync_wave()              | barriers; every thread of the block, of the wave, must come             |
// | shuffle(v, lane), shuffle_xor(v, m)    | another lane's v; v is trivially copyable and a multiple of 4 bytes     |
// | atomic_max, atomic_add                 | on device memory                                                        |
// | shared_memory()                        | the block's, as many bytes as the launch said; on 128 bytes             |
// | device_byte_permute, device_add_down,  | one instruction, where UFP4_HAS_... says so: gpu/thread/decode.hpp and  |
// | device_pair_bf16, device_multiply_bf16 | round.hpp have the same for every machine                               |
//
// and hosts: stream, error, launch, set_zero, copy, allocate, release, wait, facts, target_spelling_of (an
// architecture). No host call here but `wait` waits. Of a vendor's current_device and read_facts the end of this header
// makes facts. UFP4_SIMT_HEADER is defined before the first header of ufp4.
#pragma once

#if defined(UFP4_SIMT_HEADER)
#define UFP4_GPU v0_1_simt
#define UFP4_HD
#elif defined(__HIPCC__)
#define UFP4_GPU v0_1_hip
#define UFP4_HD __host__ __device__
#elif defined(__CUDACC__)
#define UFP4_GPU v0_1_cuda
#define UFP4_HD __host__ __device__
#else
#define UFP4_HD
#endif

#if defined(UFP4_GPU)
#include <cstddef>
#include <cstdint>

namespace ufp4::gpu::inline UFP4_GPU {

struct index3 {
  unsigned x = 1, y = 1, z = 1;
};

/// What a kernel is chosen by. `architecture`: 10 * major + minor of an NVIDIA GPU (80, 90, 120), the number behind gfx
/// of an AMD one, read as hexadecimal (0x90a, 0x942, 0x1201). Of several codes in one program the driver runs the one
/// nearest to the device, so what an architecture can do is there only if the program was compiled for it: `compiled`,
/// which of AMD GPUs with the same instructions names one, and `specific`.
struct device_facts {
  int architecture = 0;
  int processors = 1;  ///< multiprocessors, or compute units
  int wave = 32;
  std::size_t shared_bytes = 48 * 1024;  ///< that one block may ask for
  int compiled = 0;      ///< the architecture that the running code was compiled for; 0: the device's own
  bool specific = true;  ///< with the features that only its family has: sm_90a, sm_100a, sm_120a

  /// Has the running code the instructions that every GPU from `first` on has?
  constexpr bool has(int first) const { return (compiled == 0 ? architecture : compiled) >= first; }
  /// Those that only devices of compute capability `major`.x have?
  constexpr bool has_specific(int major) const {
    return specific && architecture / 10 == major && (compiled == 0 || compiled / 10 == major);
  }
};

/// How compilers are told of an architecture: sm_80, gfx90a.
struct target_spelling {
  const char* prefix;
  int base;  ///< of the digits behind it
};

}  // namespace ufp4::gpu::inline UFP4_GPU

#if defined(UFP4_SIMT_HEADER)
#include UFP4_SIMT_HEADER
#elif defined(__HIPCC__)
#include <ufp4/hip/hip_shims.hpp>
#else
#include <ufp4/cuda/cuda_shims.hpp>
#endif

#if !defined(UFP4_SIMT_HEADER) && !defined(__CUDACC_RTC__)  // that header has facts of its own; NVRTC compiles no host
namespace ufp4::gpu::inline UFP4_GPU {

/// Of the current device: read once a device and thread, which asks no lock of anybody.
inline error facts(device_facts& out) {
  thread_local int known = -1;
  thread_local device_facts last;
  int device = 0;
  if (error e = current_device(device); e != success) return e;
  if (device != known) {
    device_facts now;
    if (error e = read_facts(device, now); e != success) return e;
    last = now;
    known = device;
  }
  out = last;
  return success;
}

}  // namespace ufp4::gpu::inline UFP4_GPU
#endif
#endif  // UFP4_GPU
