// ufp4 - device.hpp under NVRTC, which has no standard library and no host: a user's kernel compiles from a string.
// SPDX-License-Identifier: Apache-2.0
// ctest: separate
//
// libnvrtc is opened while the test runs, so that the test needs no toolkit to build; it needs no GPU either.
#include <dlfcn.h>

#include <cstddef>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/skip.hpp"

namespace {

/// The seven functions of nvrtc.h that the test calls; a result of 0 is success.
struct nvrtc {
  using program = void*;
  int (*create)(program*, const char* source, const char* name, int, const char* const*, const char* const*);
  int (*compile)(program, int, const char* const*);
  int (*log_size)(program, std::size_t*);
  int (*log)(program, char*);
  int (*ptx_size)(program, std::size_t*);
  int (*ptx)(program, char*);
  int (*destroy)(program*);
};

/// The library, or null where there is none.
const nvrtc* library() {
  static nvrtc all{};
  static const bool found = [] {
    void* handle = nullptr;
    for (const char* name : {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"})
      if (handle == nullptr) handle = dlopen(name, RTLD_NOW);
    if (handle == nullptr) return false;
    const auto get = [&](auto& function, const char* name) {
      void* symbol = dlsym(handle, name);
      __builtin_memcpy(&function, &symbol, sizeof symbol);
      return symbol != nullptr;
    };
    return get(all.create, "nvrtcCreateProgram") && get(all.compile, "nvrtcCompileProgram") &&
           get(all.log_size, "nvrtcGetProgramLogSize") && get(all.log, "nvrtcGetProgramLog") &&
           get(all.ptx_size, "nvrtcGetPTXSize") && get(all.ptx, "nvrtcGetPTX") &&
           get(all.destroy, "nvrtcDestroyProgram");
  }();
  return found ? &all : nullptr;
}

struct outcome {
  bool compiled = false;
  std::string log, ptx;
};

// Without assertions: a test case that has made one does not count as skipped.
outcome compile(const char* source, std::vector<std::string> more) {
  const nvrtc& rtc = *library();
  std::vector<std::string> options{"-std=c++20", "-I" UFP4_SOURCE_DIR "/include",
                                   "-I" UFP4_SOURCE_DIR "/include/ufp4/rtc", "--device-as-default-execution-space"};
  options.insert(options.end(), more.begin(), more.end());
  std::vector<const char*> words;
  for (const std::string& option : options) words.push_back(option.c_str());
  nvrtc::program program = nullptr;
  outcome result;
  if (rtc.create(&program, source, "user.cu", 0, nullptr, nullptr) != 0) return result;
  result.compiled = rtc.compile(program, static_cast<int>(words.size()), words.data()) == 0;
  const auto text = [&](auto size, auto get, std::string& out) {
    std::size_t length = 0;
    if (size(program, &length) != 0) return;
    out.resize(length);
    if (get(program, out.data()) != 0) out.clear();
    out.resize(out.find_last_not_of(std::string{"\0\n", 2}) + 1);
  };
  text(rtc.log_size, rtc.log, result.log);
  if (result.compiled) text(rtc.ptx_size, rtc.ptx, result.ptx);
  rtc.destroy(&program);
  return result;
}

/// Why nothing can be compiled here, or "". A libnvrtc without its libnvrtc-builtins is found and compiles nothing.
std::string missing() {
#if defined(__SANITIZE_ADDRESS__)
  return "LeakSanitizer breaks off at exit in a process that has opened libnvrtc, so nothing was compiled at run time";
#else
  if (library() == nullptr) return "there is no libnvrtc here (CUDA toolkit 12.8 or newer)";
  const outcome empty = compile("", {"--gpu-architecture=sm_120a"});
  if (empty.compiled) return "";
  return "libnvrtc does not compile an empty program for sm_120a as C++20 (CUDA toolkit 12.8 or newer): " + empty.log;
#endif
}

bool contains(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

constexpr const char* user_kernel = R"(
#include <ufp4/device.hpp>

// Sixteen numbers a thread: transformed, quantized with stochastic rounding, and what became of them.
extern "C" __global__ void user(const float* x, unsigned char* codes, unsigned char* scales, float* seen,
                                unsigned* random_bits, float global_amax) {
  const unsigned block = blockIdx.x * blockDim.x + threadIdx.x;
  float v[16];
  for (int k = 0; k < 16; ++k) v[k] = x[16 * block + k];
  ufp4::hadamard_forward(ufp4::random_hadamard<16>{42}.spec(), v);
  unsigned char packed[8];
  const ufp4::e4m3 scale = ufp4::quantize_block<ufp4::nvfp4>(v, packed, ufp4::stochastic{.seed = 7}, 16ull * block,
                                                             ufp4::tensor_constants::of<ufp4::nvfp4>(global_amax));
  for (int k = 0; k < 8; ++k) codes[8 * block + k] = packed[k];
  scales[block] = scale.bits();
  ufp4::dequantize_block<ufp4::nvfp4>(packed, scale, v, 1.0f);
  for (int k = 0; k < 16; ++k) seen[16 * block + k] = v[k];
  random_bits[block] = ufp4::philox4x32({{block, 0, 0, 0}}, 7).word[0];
}

// Numbers in expressions, and a grid of the program's own with the codes of the hardware.
struct levels {
  static constexpr float values[16] = {0, .5, 1, 1.5, 2, 3, 4, 6, -0.0f, -.5, -1, -1.5, -2, -3, -4, -6};
};
extern "C" __global__ void dot(const unsigned char* a, const unsigned char* b, float* y, int n) {
  float sum = 0;
  for (int i = 0; i < n; ++i) {
    const auto p = ufp4::table_element<levels>::from_bits(a[i]);
    const auto q = ufp4::int4::from_bits(b[i]);
    if (p != q && p < 3 && -q <= 2.0) sum += p * q + 2 * p;
  }
  *y = ufp4::table_element<levels>(sum) / ufp4::bf16(sum);
}

// A run of 64 elements in four lanes.
extern "C" __global__ void across(const float* x, float* y) {
  float v[16];
  for (int k = 0; k < 16; ++k) v[k] = x[16 * threadIdx.x + k];
  ufp4::gpu::warp::hadamard(ufp4::random_hadamard<64>{1}.spec(), false, threadIdx.x % 4, v);
  for (int k = 0; k < 16; ++k) y[16 * threadIdx.x + k] = v[k];
}
)";

}  // namespace

TEST_CASE("a user's kernel compiles under NVRTC, without a warning, for every architecture", "[gpu]") {
  if (const std::string reason = missing(); !reason.empty()) return support::skip(reason);
  for (const char* target : {"80", "90a", "100a", "120a"}) {
    CAPTURE(target);
    const outcome result = compile(user_kernel, {std::string{"--gpu-architecture=sm_"} + target});
    CHECK(result.log == "");
    CHECK(result.compiled);
    CHECK(contains(result.ptx, ".entry user("));
    CHECK(contains(result.ptx, ".entry across("));
    CHECK(contains(result.ptx, ".entry dot("));
    CHECK(contains(result.ptx, "shfl.sync.bfly"));
    CHECK(contains(result.ptx, "div.rn.f32"));
    CHECK_FALSE(contains(result.ptx, ".ftz"));
    CHECK_FALSE(contains(result.ptx, ".approx"));
  }
}

TEST_CASE("flags that change the promised bits are rejected by name", "[gpu]") {
  if (const std::string reason = missing(); !reason.empty()) return support::skip(reason);
  for (const char* flag : {"--use_fast_math", "--ftz=true"}) {
    CAPTURE(flag);
    const outcome result = compile(user_kernel, {"--gpu-architecture=sm_80", flag});
    CHECK_FALSE(result.compiled);
    CHECK(contains(result.log, "ufp4_must_be_compiled_without_use_fast_math_and_ftz"));
  }
}
