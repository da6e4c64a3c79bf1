// ufp4 - the shims of gpu/vendor.hpp for HIP: what differs from CUDA. The rest is there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hip/hip_runtime.h>

#define UFP4_DEVICE __device__ inline __attribute__((always_inline))

#if defined(__HIP_DEVICE_COMPILE__)
#define UFP4_DEVICE_CODE
#define UFP4_HAS_BYTE_PERMUTE
#endif

namespace ufp4::gpu::inline UFP4_GPU {

/// The host's compilation reads kernels but generates no code for them, and so must reject no instruction.
#if !defined(UFP4_DEVICE_CODE)
inline constexpr bool in_host_pass = true;
#else
inline constexpr bool in_host_pass = false;

UFP4_DEVICE float device_rounded(float x) {
  asm("" : "+v"(x));
  return x;
}
UFP4_DEVICE float device_product(float a, float b) { return device_rounded(a * b); }
UFP4_DEVICE std::uint64_t device_wide_product(std::uint32_t a, std::uint32_t b) { return std::uint64_t{a} * b; }
UFP4_DEVICE float device_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
/// Without it clang 15 takes hours to vectorise the unrolled butterflies of sixteen values (gfx90a). Does nothing for
/// loops that are not unrolled: their values are in memory.
UFP4_DEVICE void device_apart(float* values, unsigned count) {
  if (!__builtin_constant_p(count)) return;
  UFP4_UNROLL
  for (unsigned i = 0; i < count; ++i) asm("" : "+v"(values[i]));
}

/// v_perm_b32 has a byte of selector for each byte of the result; its second operand has the bytes of lower numbers.
UFP4_DEVICE std::uint32_t device_byte_permute(std::uint32_t x, std::uint32_t y, std::uint32_t selector) {
  const std::uint32_t pairs = (selector | selector << 8) & 0x00FF00FFu;
  return __builtin_amdgcn_perm(y, x, (pairs | pairs << 4) & 0x0F0F0F0Fu);
}
#endif

// Compiler builtins: the functions in the runtime's headers are calls that only the vendor's device library inlines.
UFP4_DEVICE index3 thread_index() {
  return {__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z()};
}
UFP4_DEVICE index3 block_index() {
  return {__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z()};
}
UFP4_DEVICE index3 block_size() {
  return {__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),
          __builtin_amdgcn_workgroup_size_z()};
}
UFP4_DEVICE index3 grid_size() {
  const index3 block = block_size();
  return {__builtin_amdgcn_grid_size_x() / block.x, __builtin_amdgcn_grid_size_y() / block.y,
          __builtin_amdgcn_grid_size_z() / block.z};
}

/// 64 on gfx9, 32 on gfx10 and later unless the program is compiled otherwise.
UFP4_DEVICE unsigned wave_size() {
#if __has_builtin(__builtin_amdgcn_wavefrontsize)
  return __builtin_amdgcn_wavefrontsize();
#elif defined(__AMDGCN_WAVEFRONT_SIZE)  // clang 15
  return __AMDGCN_WAVEFRONT_SIZE;
#else
  return 0;  // the host's compilation, which does not execute this
#endif
}
UFP4_DEVICE unsigned lane() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)); }
UFP4_DEVICE void sync_block() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
/// The lanes of a wave execute together, so only the order of memory accesses must be enforced.
UFP4_DEVICE void sync_wave() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

/// ds_bpermute takes the byte address of a lane's word.
template <class T>
UFP4_DEVICE T shuffle(T v, unsigned from) {
  static_assert(sizeof(T) % 4 == 0);
  int words[sizeof(T) / 4];
  __builtin_memcpy(words, &v, sizeof v);
  for (unsigned i = 0; i < sizeof(T) / 4; ++i)
    words[i] = __builtin_amdgcn_ds_bpermute(static_cast<int>(4 * from), words[i]);
  __builtin_memcpy(&v, words, sizeof v);
  return v;
}
template <class T>
UFP4_DEVICE T shuffle_xor(T v, unsigned mask) {
  return shuffle(v, lane() ^ mask);
}

#define UFP4_RUNTIME(name) hip##name
#define UFP4_NO_CODE hipErrorNoBinaryForGpu
inline constexpr target_spelling target_spelling_of(int) { return {"gfx", 16}; }

inline hipError_t allow_shared_bytes(const void*, std::size_t) { return hipSuccess; }

/// The number after "gfx" in a target's name; features may follow it: "gfx90a:sramecc+:xnack-" is 0x90a.
inline int architecture_of(const char* name) {
  int number = 0;
  for (const char* c = name + (name[0] == 'g' ? 3 : 0); *c != '\0' && *c != ':'; ++c)
    number = 16 * number + (*c <= '9' ? *c - '0' : *c - 'a' + 10);
  return number;
}

/// Architectures that differ in the instructions that kernels use. In code for the i-th the probe's bound on the
/// threads is 64 (i + 1). The last, 0x900, stands for all others, generic targets too, without matrix instructions.
inline constexpr int probed_architectures[] = {0x90a, 0x942, 0x950, 0x1100, 0x1201, 0x900};
#if defined(__gfx90a__)
inline constexpr int probe_threads = 64;
#elif defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__)
inline constexpr int probe_threads = 128;
#elif defined(__gfx950__)
inline constexpr int probe_threads = 192;
#elif defined(__GFX11__)
inline constexpr int probe_threads = 256;
#elif defined(__gfx1200__) || defined(__gfx1201__)
inline constexpr int probe_threads = 320;
#else
inline constexpr int probe_threads = 384;
#endif
/// The architecture of code whose probe has that bound; 0x900 if the bound is none of the table's.
inline int compiled_of(int bound) {
  constexpr int count = sizeof probed_architectures / sizeof probed_architectures[0];
  return bound % 64 == 0 && bound >= 64 && bound <= 64 * count ? probed_architectures[bound / 64 - 1]
                                                               : probed_architectures[count - 1];
}

inline hipError_t read_facts(int device, const hipFuncAttributes& probe, device_facts& out) {
  hipDeviceProp_t properties;
  if (const auto e = hipGetDeviceProperties(&properties, device); e != hipSuccess) return e;
  out.architecture = architecture_of(properties.gcnArchName);
  out.processors = properties.multiProcessorCount;
  out.wave = properties.warpSize;
  out.shared_bytes = properties.sharedMemPerBlock;
  out.compiled = compiled_of(probe.maxThreadsPerBlock);
  return hipSuccess;
}

}  // namespace ufp4::gpu::inline UFP4_GPU
