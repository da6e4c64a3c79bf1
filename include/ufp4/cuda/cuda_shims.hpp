// ufp4 - the shims of gpu/vendor.hpp for CUDA: what differs from HIP. The rest is there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if !defined(__CUDACC_RTC__)
#include <cuda_runtime.h>
#endif

#define UFP4_DEVICE __device__ __forceinline__
#define UFP4_DEVICE_CALL [[maybe_unused]] static __device__ __noinline__
#if defined(__NVCC__) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 700)
#define UFP4_PARAMETER const __grid_constant__  // else a parameter whose address is taken is copied to local memory
#else
#define UFP4_PARAMETER const
#endif

#if defined(__CUDA_ARCH__)
#define UFP4_DEVICE_CODE
#define UFP4_HAS_BYTE_PERMUTE
#define UFP4_HAS_ADD_DOWN
#if __CUDA_ARCH__ >= 800
#define UFP4_HAS_PAIRS
#endif
#if __CUDA_ARCH__ >= 530
#define UFP4_HAS_F16_PAIRS
#endif
#endif

namespace ufp4::gpu::inline UFP4_GPU {

/// Resolved by the compiler: 1 under --use_fast_math and --ftz=true, for which device code has no macro.
extern "C" __device__ int __nvvm_reflect(const char*);

/// No code in a proper build. Under flags that change the promised bits: an unknown instruction, whose name says why.
UFP4_DEVICE void reject_fast_math() {
  if (__nvvm_reflect("__CUDA_FTZ") != 0) asm volatile("ufp4_must_be_compiled_without_use_fast_math_and_ftz;");
#if defined(__NVCC__)  // other compilers do not resolve this name
  if (__nvvm_reflect("__CUDA_PREC_DIV") == 0) asm volatile("ufp4_must_be_compiled_without_prec_div_false;");
#endif
}

#define UFP4_ASM(type, kind, text, ...)       \
  type result;                                \
  asm(text : "=" kind(result) : __VA_ARGS__); \
  return result

#if defined(UFP4_DEVICE_CODE)
/// ptxas fuses a product into a later addition unless an addition with a rounding mode stands between. x + -0 is x.
UFP4_DEVICE float device_rounded(float x) {
  reject_fast_math();
  asm("add.rn.f32 %0, %0, 0f80000000;" : "+f"(x));
  return x;
}
UFP4_DEVICE float device_product(float a, float b) { UFP4_ASM(float, "f", "mul.rn.f32 %0, %1, %2;", "f"(a), "f"(b)); }
UFP4_DEVICE std::uint64_t device_wide_product(std::uint32_t a, std::uint32_t b) {
  UFP4_ASM(std::uint64_t, "l", "mul.wide.u32 %0, %1, %2;", "r"(a), "r"(b));
}
UFP4_DEVICE float device_fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
UFP4_DEVICE void device_apart(float*, unsigned) {}

UFP4_DEVICE std::uint32_t device_byte_permute(std::uint32_t x, std::uint32_t y, std::uint32_t selector) {
  UFP4_ASM(std::uint32_t, "r", "prmt.b32 %0, %1, %2, %3;", "r"(x), "r"(y), "r"(selector));
}
UFP4_DEVICE float device_add_down(float x, float y) { UFP4_ASM(float, "f", "add.rm.f32 %0, %1, %2;", "f"(x), "f"(y)); }
UFP4_DEVICE float device_fma_down(float a, float b, float c) { return __fmaf_rd(a, b, c); }
#endif
#if defined(UFP4_HAS_PAIRS)
UFP4_DEVICE float device_max_magnitude(float a, float b) {
  UFP4_ASM(float, "f", "max.NaN.f32 %0, %1, %2;", "f"(fabsf(a)), "f"(fabsf(b)));
}
UFP4_DEVICE float device_magnitude(float x) { return fabsf(x); }
UFP4_DEVICE float device_min_magnitude(float x, float most) { return fminf(fabsf(x), most); }
UFP4_DEVICE std::uint32_t device_pair_bf16(float first, float second) {
  UFP4_ASM(std::uint32_t, "r", "cvt.rn.bf16x2.f32 %0, %1, %2;", "f"(second), "f"(first));
}
UFP4_DEVICE std::uint32_t device_pair_fp16(float first, float second) {
  UFP4_ASM(std::uint32_t, "r", "cvt.rn.f16x2.f32 %0, %1, %2;", "f"(second), "f"(first));
}
/// sm_80 multiplies no pairs, so this is their fma with -0, which changes no product, nor the sign of a zero.
UFP4_DEVICE std::uint32_t device_multiply_bf16(std::uint32_t pair, std::uint32_t by) {
  UFP4_ASM(std::uint32_t, "r", "fma.rn.bf16x2 %0, %1, %2, %3;", "r"(pair), "r"(by), "r"(0x80008000u));
}
#endif

#if defined(UFP4_HAS_F16_PAIRS)
UFP4_DEVICE std::uint32_t device_multiply_f16(std::uint32_t pair, std::uint32_t by) {
  UFP4_ASM(std::uint32_t, "r", "mul.rn.f16x2 %0, %1, %2;", "r"(pair), "r"(by));
}
UFP4_DEVICE std::uint32_t device_fma_f16(std::uint32_t pair, std::uint32_t by, std::uint32_t c) {
  UFP4_ASM(std::uint32_t, "r", "fma.rn.f16x2 %0, %1, %2, %3;", "r"(pair), "r"(by), "r"(c));
}
#endif

#undef UFP4_ASM

UFP4_DEVICE index3 thread_index() {
  reject_fast_math();  // here, since every kernel calls this function
  return {threadIdx.x, threadIdx.y, threadIdx.z};
}
UFP4_DEVICE index3 block_index() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
UFP4_DEVICE index3 block_size() { return {blockDim.x, blockDim.y, blockDim.z}; }
UFP4_DEVICE index3 grid_size() { return {gridDim.x, gridDim.y, gridDim.z}; }

UFP4_DEVICE constexpr unsigned wave_size() { return 32; }
UFP4_DEVICE unsigned lane() {
  unsigned r;
  asm("mov.u32 %0, %%laneid;" : "=r"(r));
  return r;
}
UFP4_DEVICE void sync_block() { __syncthreads(); }
UFP4_DEVICE void sync_wave() { __syncwarp(); }

/// Word by word: the hardware shuffles 32 bits.
template <class T>
UFP4_DEVICE T shuffle_words(T v, auto one) {
  static_assert(sizeof(T) % 4 == 0);
  std::uint32_t words[sizeof(T) / 4];
  memcpy(words, &v, sizeof v);
#pragma unroll
  for (unsigned i = 0; i < sizeof(T) / 4; ++i) words[i] = one(words[i]);
  memcpy(&v, words, sizeof v);
  return v;
}
template <class T>
UFP4_DEVICE T shuffle(T v, unsigned from) {
  return shuffle_words(v, [from](std::uint32_t w) { return __shfl_sync(0xFFFFFFFFu, w, static_cast<int>(from)); });
}
template <class T>
UFP4_DEVICE T shuffle_xor(T v, unsigned mask) {
  return shuffle_words(v, [mask](std::uint32_t w) { return __shfl_xor_sync(0xFFFFFFFFu, w, static_cast<int>(mask)); });
}

#if !defined(__CUDACC_RTC__)  // for host code; NVRTC compiles kernels alone

#define UFP4_RUNTIME(name) cuda##name
#define UFP4_NO_CODE cudaErrorNoKernelImageForDevice
inline constexpr target_spelling target_spelling_of(int) { return {"sm_", 10}; }

/// A block has 48 KiB unless the kernel is allowed more.
inline cudaError_t allow_shared_bytes(const void* kernel, std::size_t bytes) {
  if (bytes <= 48 * 1024) return cudaSuccess;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(__CUDA_ARCH_FEAT_SM100_ALL) || \
    defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_SPECIFIC__) || defined(__CUDA_ARCH_FAMILY_SPECIFIC__)
inline constexpr int probe_threads = 64;  ///< in code for one family alone (sm_90a)
#else
inline constexpr int probe_threads = 32;
#endif
inline cudaError_t read_facts(int device, const cudaFuncAttributes& probe, device_facts& out) {
  int major = 0, minor = 0, shared = 0;
  const auto get = [&](int& value, cudaDeviceAttr what) { return cudaDeviceGetAttribute(&value, what, device); };
  if (const auto e = get(major, cudaDevAttrComputeCapabilityMajor); e != cudaSuccess) return e;
  if (const auto e = get(minor, cudaDevAttrComputeCapabilityMinor); e != cudaSuccess) return e;
  if (const auto e = get(out.processors, cudaDevAttrMultiProcessorCount); e != cudaSuccess) return e;
  if (const auto e = get(shared, cudaDevAttrMaxSharedMemoryPerBlockOptin); e != cudaSuccess) return e;
  out.architecture = 10 * major + minor;
  out.wave = 32;
  out.shared_bytes = static_cast<std::size_t>(shared);
  out.compiled = probe.ptxVersion;
  out.specific = probe.maxThreadsPerBlock >= 64;
  return cudaSuccess;
}

#endif  // !__CUDACC_RTC__

}  // namespace ufp4::gpu::inline UFP4_GPU
