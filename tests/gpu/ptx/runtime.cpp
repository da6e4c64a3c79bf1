// ufp4 - a CUDA runtime whose device is the PTX interpreter: what a program compiled by nvcc links instead of cudart.
// SPDX-License-Identifier: Apache-2.0
//
// The program has its PTX, not compressed: -gencode arch=compute_90a,code=compute_90a --no-compress -cudart none.
// Memory of the device is memory of the host; launches and copies are complete when they return.
//
// | variable         | meaning                                                                                  |
// |------------------|------------------------------------------------------------------------------------------|
// | UFP4_PTX_DEVICE  | the device's architecture, 80, 90 (default), 100 or 120; its code is that for the    |
// |                  | highest up to it                                                                         |
// | UFP4_PTX_ORDER   | of warps and blocks: 0 forwards, 1 backwards, others a random seed                       |
// | UFP4_PTX_THREADS | threads of the machine; default all                                                      |
// | UFP4_PTX_COUNTS  | a file: for each launch a line is appended: kernel, blocks, threads, instructions of all |
// |                  | warps                                                                                    |
// | UFP4_PTX_WRITE   | a file: receives the program's PTX for the device                                        |
// | UFP4_PTX_REPLACE | a file with PTX that replaces it                                                         |
#include "gpu/ptx/bulk.hpp"
#include "gpu/ptx/counts.hpp"
#include "gpu/ptx/memory.hpp"
#include "gpu/ptx/state.hpp"

#include <cuda.h>
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>
#include <thread>

namespace {

unsigned setting(const char* name, unsigned otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}
unsigned architecture() { return setting("UFP4_PTX_DEVICE", 90); }

/// The multiprocessors, and the shared memory that one thread block may request, of the device's data sheet.
struct data_sheet {
  unsigned architecture;
  int processors, shared_kib;
};
const data_sheet& device_sheet() {
  static constexpr data_sheet known[] = {{80, 108, 163}, {90, 132, 227}, {100, 148, 227}, {120, 170, 99}};
  for (const data_sheet& one : known)
    if (one.architecture == architecture()) return one;
  ptx::reject("UFP4_PTX_DEVICE names no device that the interpreter knows");
}
std::size_t most_shared() { return static_cast<std::size_t>(device_sheet().shared_kib) * 1024; }

// ---- The program's code ----

struct fat_header {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;
};
struct fat_entry {
  std::uint16_t kind, unknown;
  std::uint32_t header_bytes;
  std::uint64_t bytes;
  std::uint32_t compressed_bytes, unknown_too;
  std::uint16_t minor, major;
  std::uint32_t architecture;
};
struct fat_wrapper {
  std::uint32_t magic, version;
  const unsigned char* data;
};

unsigned target_of(const std::string& text) {
  const std::size_t at = text.find(".target sm_");
  return at == std::string::npos ? 0 : static_cast<unsigned>(std::strtoul(text.c_str() + at + 11, nullptr, 10));
}

/// The code of one file of the program.
struct program_part {
  std::vector<std::string> texts;
  std::optional<ptx::code_module> code;
  unsigned target = 0;

  void load() {
    if (code) return;
    const std::string* best = nullptr;
    for (const auto& t : texts)
      if (target_of(t) <= architecture() && (best == nullptr || target_of(t) > target_of(*best))) best = &t;
    if (best == nullptr) ptx::reject("the program has no PTX, not compressed, for this device");
    target = target_of(*best);
    if (const char* file = std::getenv("UFP4_PTX_WRITE"); file != nullptr) std::ofstream(file) << *best;
    const char* other = std::getenv("UFP4_PTX_REPLACE");
    if (other == nullptr) {
      code.emplace(*best);
    } else {
      std::stringstream text;
      text << std::ifstream(other).rdbuf();
      code.emplace(text.str());
    }
  }
};

std::vector<std::string> texts_of(const void* fat) {
  const auto* wrapper = static_cast<const fat_wrapper*>(fat);
  fat_header header;
  std::memcpy(&header, wrapper->data, sizeof header);
  std::vector<std::string> all;
  for (std::uint64_t at = 0; header.magic == 0xBA55ED50u && at < header.bytes;) {
    const unsigned char* p = wrapper->data + header.header_bytes + at;
    fat_entry e;
    std::memcpy(&e, p, sizeof e);
    const char* text = reinterpret_cast<const char*>(p + e.header_bytes);
    if (e.kind == 1 && e.compressed_bytes == 0) all.emplace_back(text, strnlen(text, e.bytes));
    at += e.header_bytes + e.bytes;
  }
  return all;
}

struct function {
  program_part* part;
  std::string name;
  std::size_t allowed_shared = 48 * 1024;
};
std::map<const void*, function>& functions() {
  static std::map<const void*, function> all;
  return all;
}

// ---- Launches ----

using host_clock = std::chrono::steady_clock;
cudaError_t last = cudaSuccess;
cudaError_t failed(const char* what, const std::string& why) {
  std::fprintf(stderr, "ptx: %s: %s\n", what, why.c_str());
  return last = cudaErrorLaunchFailure;
}

ptx::executed all_launches;

void add_counts(const ptx::launch& call, const ptx::result& r) {
  const ptx::kernel& k = *call.what;
  ++all_launches.launches;
  all_launches.warps += r.warps;
  std::uint64_t instructions = 0;
  for (std::size_t i = 0; i < r.counts.size(); ++i) {
    instructions += r.counts[i];
    const std::string& op = k.opcodes[k.code[i].opcode];
    if (op.rfind("mma.", 0) == 0 || op.rfind("wgmma.mma", 0) == 0 || op.rfind("tcgen05.mma", 0) == 0)
      all_launches.products += r.counts[i];
  }
  all_launches.instructions += instructions;
  const char* file = std::getenv("UFP4_PTX_COUNTS");
  if (file == nullptr) return;
  std::ofstream out(file, std::ios::app);
  out << k.name << ' ' << call.grid.count() << ' ' << call.block.count() << ' ' << r.warps << ' ' << instructions
      << '\n';
}

std::string located(program_part& part, const std::string& why) {
  const unsigned line =
      why.rfind("line ", 0) == 0 ? static_cast<unsigned>(std::strtoul(why.c_str() + 5, nullptr, 10)) : 0;
  return line == 0 ? why : why + "\n  " + part.code->line(line).substr(0, 160);
}

cudaError_t launch(const void* entry, ptx::index3 grid, ptx::index3 block, ptx::index3 cluster, std::size_t shared,
                   void** arguments) {
  const auto found = functions().find(entry);
  if (found == functions().end()) return failed("launch", "the function is not registered");
  function& f = found->second;
  try {
    if (shared > f.allowed_shared) return last = cudaErrorInvalidValue;
    f.part->load();
    const ptx::kernel& k = f.part->code->find(f.name);
    ptx::launch call{&k, grid, block, cluster, shared, std::vector<unsigned char>(k.parameters)};
    if (cluster.count() == 1) call.cluster = {k.cluster[0], k.cluster[1], k.cluster[2]};
    if (k.static_shared + shared > most_shared()) return last = cudaErrorInvalidValue;
    for (std::size_t p = 0; p < k.parameter_at.size(); ++p)
      std::memcpy(call.parameters.data() + k.parameter_at[p], arguments[p], k.parameter_bytes[p]);
    const unsigned threads = setting("UFP4_PTX_THREADS", std::max(1u, std::thread::hardware_concurrency()));
    add_counts(call, run(call, threads, setting("UFP4_PTX_ORDER", 0)));
  } catch (const std::exception& e) {
    return failed(f.name.c_str(), f.part->code ? located(*f.part, e.what()) : e.what());
  }
  return cudaSuccess;
}
ptx::index3 of(dim3 d) { return {d.x, d.y, d.z}; }

// ---- Tensor maps ----

unsigned bytes_of(CUtensorMapDataType t) {
  switch (t) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8: return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32: return 4;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return 8;
    default: return 0;
  }
}

/// What the driver's documentation requires of the arguments.
bool is_valid(const ptx::tensor_map& m) {
  if (m.element_bytes == 0 || m.rank < 1 || m.rank > 5 || m.interleave != 0 || m.swizzle > 3) return false;
  if (m.address % 16 != 0 || m.box[0] * m.element_bytes % 16 != 0) return false;
  if (m.swizzle != 0 && m.box[0] * m.element_bytes > 16u << m.swizzle) return false;
  for (unsigned d = 0; d < m.rank; ++d) {
    if (m.box[d] == 0 || m.box[d] > 256 || m.steps[d] == 0 || m.steps[d] > 8) return false;
    if (d > 0 && (m.strides[d] % 16 != 0 || m.strides[d] >= std::uint64_t{1} << 40)) return false;
  }
  return true;
}

CUresult encode_tiled(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* address,
                      const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                      const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                      CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  ptx::tensor_map m{};
  if (reinterpret_cast<std::uintptr_t>(out) % 64 != 0 || rank > 5 || fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
    return CUDA_ERROR_INVALID_VALUE;
  m.is_map = ptx::tensor_map::signature;
  m.rank = static_cast<std::uint8_t>(rank);
  m.element_bytes = static_cast<std::uint8_t>(bytes_of(type));
  m.swizzle = static_cast<std::uint8_t>(swizzle);
  m.interleave = static_cast<std::uint8_t>(interleave);
  m.address = reinterpret_cast<std::uintptr_t>(address);
  m.strides[0] = m.element_bytes;
  for (unsigned d = 0; d < rank; ++d) {
    if (sizes[d] == 0 || sizes[d] > std::uint64_t{1} << 32 || box[d] > 256 || steps[d] > 8)
      return CUDA_ERROR_INVALID_VALUE;
    m.sizes[d] = static_cast<std::uint32_t>(sizes[d]);
    m.box[d] = static_cast<std::uint16_t>(box[d]);
    m.steps[d] = static_cast<std::uint8_t>(steps[d]);
    if (d > 0) m.strides[d] = strides[d - 1];
  }
  if (!is_valid(m)) return CUDA_ERROR_INVALID_VALUE;
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &m, sizeof m);
  return CUDA_SUCCESS;
}

cudaError_t driver_entry(const char* name, void** entry, cudaDriverEntryPointQueryResult* answer) {
  const bool known = std::strcmp(name, "cuTensorMapEncodeTiled") == 0;
  *entry = known ? reinterpret_cast<void*>(&encode_tiled) : nullptr;
  if (answer != nullptr) *answer = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // namespace

ptx::executed ptx::executed_until_now() { return all_launches; }

extern "C" {

// ---- What nvcc's host code calls ----

void** __cudaRegisterFatBinary(void* fat) {
  auto* part = new program_part{texts_of(fat), {}, 0};
  return reinterpret_cast<void**>(part);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 0; }
void __cudaRegisterFunction(void** part, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  functions()[host] = {reinterpret_cast<program_part*>(part), name};
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

namespace {
struct configuration {
  dim3 grid, block;
  size_t shared = 0;
  void* stream = nullptr;
} configured;
}  // namespace
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  configured = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = configured.grid;
  *block = configured.block;
  *shared = configured.shared;
  *static_cast<void**>(stream) = configured.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* k, const void* f) {
  *k = reinterpret_cast<cudaKernel_t>(const_cast<void*>(f));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(const void* f, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t) {
  return launch(f, of(grid), of(block), {}, shared, arguments);
}

// ---- The runtime's functions that the library and its tests call ----

cudaError_t CUDARTAPI cudaLaunchKernel(const void* f, dim3 grid, dim3 block, void** arguments, size_t shared,
                                       cudaStream_t) {
  return launch(f, of(grid), of(block), {}, shared, arguments);
}
cudaError_t CUDARTAPI cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* f, void** arguments) {
  ptx::index3 cluster{};
  for (unsigned a = 0; a < c->numAttrs; ++a)
    if (c->attrs[a].id == cudaLaunchAttributeClusterDimension) {
      const auto& d = c->attrs[a].val.clusterDim;
      cluster = {d.x, d.y, d.z};
    }
  return launch(f, of(c->gridDim), of(c->blockDim), cluster, c->dynamicSmemBytes, arguments);
}
/// New memory is full of NaN.
cudaError_t CUDARTAPI cudaMalloc(void** p, size_t bytes) {
  *p = std::aligned_alloc(256, (bytes + 511) / 256 * 256);
  std::memset(*p, 0xFF, bytes);
  ptx::device_memory::here().add(*p, bytes);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaFree(void* p) {
  ptx::device_memory::here().remove(p);
  std::free(p);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaMallocAsync(void** p, size_t bytes, cudaStream_t) { return cudaMalloc(p, bytes); }
cudaError_t CUDARTAPI cudaFreeAsync(void* p, cudaStream_t) { return cudaFree(p); }
cudaError_t CUDARTAPI cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  if (bytes != 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind k, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, k);
}
cudaError_t CUDARTAPI cudaMemset(void* p, int v, size_t bytes) {
  if (bytes != 0) std::memset(p, v, bytes);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaMemsetAsync(void* p, int v, size_t bytes, cudaStream_t) { return cudaMemset(p, v, bytes); }
cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t) { return std::exchange(last, cudaSuccess); }
cudaError_t CUDARTAPI cudaDeviceSynchronize() { return std::exchange(last, cudaSuccess); }
cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t* s) {
  *s = nullptr;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) { return cudaStreamCreate(s); }
cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* s) {
  *s = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
// Graphs cannot be captured: every launch is complete when it returns.
cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) { return cudaErrorNotSupported; }
cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) { return cudaErrorNotSupported; }
cudaError_t CUDARTAPI cudaGraphGetNodes(cudaGraph_t, cudaGraphNode_t*, size_t*) { return cudaErrorNotSupported; }
cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t) { return cudaErrorNotSupported; }

// Events are points of the host's time.
cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t* e) {
  *e = reinterpret_cast<cudaEvent_t>(new host_clock::time_point);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t e) {
  delete reinterpret_cast<host_clock::time_point*>(e);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t e, cudaStream_t) {
  *reinterpret_cast<host_clock::time_point*>(e) = host_clock::now();
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t) { return std::exchange(last, cudaSuccess); }
cudaError_t CUDARTAPI cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  const auto at = [](cudaEvent_t e) { return *reinterpret_cast<host_clock::time_point*>(e); };
  *ms = std::chrono::duration<float, std::milli>(at(to) - at(from)).count();
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaProfilerStart() { return cudaSuccess; }
cudaError_t CUDARTAPI cudaProfilerStop() { return cudaSuccess; }
cudaError_t CUDARTAPI cudaDriverGetVersion(int* v) {
  *v = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaRuntimeGetVersion(int* v) { return cudaDriverGetVersion(v); }
cudaError_t CUDARTAPI cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {};
  std::snprintf(p->name, sizeof p->name, "PTX interpreter");
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGetDeviceCount(int* n) {
  *n = 1;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaSetDevice(int) { return cudaSuccess; }
cudaError_t CUDARTAPI cudaGetLastError() { return std::exchange(last, cudaSuccess); }
cudaError_t CUDARTAPI cudaPeekAtLastError() { return last; }
const char* CUDARTAPI cudaGetErrorString(cudaError_t e) {
  return e == cudaSuccess              ? "no error"
         : e == cudaErrorLaunchFailure ? "the interpreter stopped"
                                       : "an error of the interpreter";
}
cudaError_t CUDARTAPI cudaDeviceGetAttribute(int* v, cudaDeviceAttr what, int) {
  const auto a = static_cast<int>(architecture());
  switch (what) {
    case cudaDevAttrComputeCapabilityMajor: *v = a / 10; break;
    case cudaDevAttrComputeCapabilityMinor: *v = a % 10; break;
    case cudaDevAttrMultiProcessorCount: *v = device_sheet().processors; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *v = device_sheet().shared_kib * 1024; break;
    default: *v = 0;
  }
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaFuncGetAttributes(cudaFuncAttributes* a, const void* f) {
  const auto found = functions().find(f);
  if (found == functions().end()) return last = cudaErrorInvalidDeviceFunction;
  try {
    found->second.part->load();
    *a = {};
    a->maxThreadsPerBlock = static_cast<int>(found->second.part->code->find(found->second.name).max_threads);
    a->ptxVersion = a->binaryVersion = static_cast<int>(found->second.part->target);
  } catch (const std::exception& e) {
    return failed(found->second.name.c_str(), e.what());
  }
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaFuncSetAttribute(const void* f, cudaFuncAttribute what, int v) {
  const auto found = functions().find(f);
  if (found == functions().end()) return last = cudaErrorInvalidDeviceFunction;
  if (what == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (v < 0 || static_cast<std::size_t>(v) > most_shared()) return last = cudaErrorInvalidValue;
    found->second.allowed_shared = static_cast<std::size_t>(v);
  }
  return cudaSuccess;
}
#if CUDART_VERSION < 13000
cudaError_t CUDARTAPI cudaGetDriverEntryPoint(const char* name, void** entry, unsigned long long,
                                              cudaDriverEntryPointQueryResult* answer) {
  return driver_entry(name, entry, answer);
}
#endif
#if CUDART_VERSION >= 12050
cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(const char* name, void** entry, unsigned, unsigned long long,
                                                       cudaDriverEntryPointQueryResult* answer) {
  return driver_entry(name, entry, answer);
}
#endif
}
