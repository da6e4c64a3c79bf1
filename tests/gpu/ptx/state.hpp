// ufp4 - the PTX interpreter: what an instruction is once decoded, and the state of warps, thread blocks and clusters.
// SPDX-License-Identifier: Apache-2.0
//
// A register is 32 words, one for each lane; a predicate is the bits of one word. Beside its words a register has:
//
// | valid   | the lanes whose value was computed from values that exist. Uninitialized registers and shared memory |
// |         | are not valid; a copy or an arithmetic result of them is not either, and a branch, an address, a     |
// |         | store or a matrix product that uses one is an error. valid_low: the same for the lower half,         |
// |         | because nvcc packs a value with an uninitialized upper half and takes it out again                   |
// | pending | the group of wgmma, or the loads of tcgen05, that write the register. Until the warp has waited for  |
// |         | them, only mov may use it                                                                            |
// | locked  | the group of wgmma that reads the register. Until the warp has waited for the group, nothing may     |
// |         | write it                                                                                             |
// | written | when the register was written last, in instructions of the warp: wgmma.fence has to come later       |
//
// A warp is a set of paths: lanes at the same instruction. They split at branches, and join where they meet again; the
// path that is furthest behind runs first. Instructions for a whole warp wait until all lanes that take part have met.
#pragma once

#include "gpu/ptx/shared_memory.hpp"
#include "gpu/ptx/tensor_memory.hpp"

#include <bit>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ptx {

using word = std::uint64_t;
using mask = std::uint32_t;
inline constexpr unsigned lanes = 32;
inline constexpr mask all_lanes = ~mask{0};

/// Generic addresses: the two spaces that are not global memory, and the parameters of a kernel, have windows.
inline constexpr word shared_window = word{1} << 60, local_window = word{2} << 60, param_window = word{3} << 60,
                      window_bits = word{7} << 60;

struct warp;
struct instruction;
/// Executes an instruction for some lanes of a warp.
using handler = void (*)(warp&, const instruction&, mask);

/// How the interpreter's loop treats registers before and after a handler.
enum class kind : std::uint8_t {
  pure,    ///< outputs are valid where all inputs are
  copy,    ///< the same; and what is pending for the input is for the output
  pack,    ///< the lower half of the output is the first input
  low,     ///< the output is the lower half of the input
  own,     ///< the handler itself decides what is valid
  product  ///< wgmma, tcgen05.ld: the handler also checks what is pending
};

struct instruction {
  handler run = nullptr;
  std::vector<unsigned> out, in;  ///< registers; constants and addresses of variables are registers too
  int guard = -1;                 ///< a predicate
  bool unless = false;            ///< the guard is negated
  kind effect = kind::pure;
  bool aligned = false;                 ///< every lane of the warp that has not exited takes part
  unsigned a = 0, b = 0, c = 0, d = 0;  ///< for the handler
  std::int64_t offset = 0;              ///< of an address
  unsigned target = 0;                  ///< of a branch or call
  unsigned line = 0;                    ///< in the module's text
  unsigned opcode = 0;                  ///< index of kernel::opcodes
};

/// A value of a register that is known before the kernel starts.
struct constant {
  unsigned reg;
  word value;
};
struct special {
  unsigned reg;
  std::string name;
};

/// A kernel with the functions that it calls, decoded.
struct kernel {
  std::string name;
  std::vector<instruction> code;
  std::vector<std::string> opcodes;
  unsigned registers = 0;
  std::vector<constant> constants;
  std::vector<special> specials;
  std::vector<std::size_t> parameter_at, parameter_bytes;
  std::size_t parameters = 0;     ///< bytes of all
  std::size_t static_shared = 0;  ///< bytes
  std::size_t local_bytes = 0;    ///< of a thread
  unsigned max_threads = 1024;
  unsigned cluster[3] = {1, 1, 1};
};

struct index3 {
  unsigned x = 1, y = 1, z = 1;
  unsigned count() const { return x * y * z; }
};

struct launch {
  const kernel* what;
  index3 grid, block;
  index3 cluster{};
  std::size_t dynamic_shared;
  std::vector<unsigned char> parameters;
};

/// Lanes at one instruction.
struct path {
  unsigned pc = 0;
  mask active = 0;
  bool stalled = false;
  std::vector<unsigned> returns;
};

struct thread_block;

/// A copy by cp.async that its thread has not waited for.
struct thread_copy {
  std::uint32_t to;
  word from;
  unsigned bytes, valid;
};

/// What wgmma reads in shared memory until the group is complete.
struct pending_read {
  unsigned group;
  std::vector<std::uint32_t> pieces;
};

/// Columns of tensor memory that an instruction uses.
struct tensor_use {
  thread_block* block;
  unsigned first, columns;
  bool writes;
};
/// What the products and copies of tcgen05 use that a warp has started since its last commit: 16 bytes of shared
/// memory, and columns.
struct tensor_work {
  std::vector<std::pair<thread_block*, std::uint32_t>> pieces;
  std::vector<tensor_use> columns;
};

struct warp {
  thread_block* block = nullptr;
  unsigned index = 0;
  mask live = all_lanes;
  std::vector<word> registers;
  std::vector<mask> valid, valid_low;
  std::vector<std::uint32_t> pending, locked, written;
  std::vector<path> paths;
  path* now = nullptr;
  std::vector<unsigned char> local;  ///< of lane 0, then of lane 1, ...
  bool retry = false;                ///< set by a handler that has to wait: the instruction runs again
  std::uint32_t count = 0;           ///< instructions
  // wgmma
  std::uint32_t committed = 0, complete = 0, fenced = 0;
  bool open = false;  ///< products since the last commit
  std::vector<pending_read> reads;
  // tcgen05: what is not committed, and loads that have not been waited for. They are a group in the sense of wgmma
  tensor_work tensor_started;
  std::vector<tensor_use> tensor_loads;
  // the last wait at a barrier, load, and fences, in instructions of the warp
  std::uint32_t synced = 0, tensor_loaded = 0, tensor_released = 0, tensor_acquired = 0;
  // cp.async: the copies of each lane by group, the last not committed
  std::vector<std::deque<std::vector<thread_copy>>> copies;
  // a barrier at which the warp waits
  int barrier = -1;
  std::uint64_t barrier_phase = 0;
  std::uint64_t cluster_phase = 0;

  word* reg(unsigned r) { return registers.data() + std::size_t{r} * lanes; }
  mask& bits(unsigned r) { return reinterpret_cast<mask&>(registers[std::size_t{r} * lanes]); }
  unsigned thread(unsigned lane) const { return index * lanes + lane; }
};

/// One barrier of bar.sync.
struct block_barrier {
  unsigned arrived = 0;
  std::uint64_t phase = 0;
};

struct cluster;

struct thread_block {
  const launch* call = nullptr;
  cluster* group = nullptr;
  unsigned rank = 0;  ///< in the cluster
  index3 at{};        ///< in the grid
  shared_memory shared;
  tensor_memory tensor;
  block_barrier barriers[16];
  std::vector<warp> warps;
};

/// A copy by the copy engine that has been started: runs when the scheduler decides.
struct async_work {
  std::function<void()> run;
};

/// The thread blocks that run together.
struct cluster {
  const launch* call = nullptr;
  std::vector<std::unique_ptr<thread_block>> blocks;
  std::deque<async_work> pending;
  std::uint64_t arrived = 0, phase = 0;
  std::vector<std::uint64_t> counts;  ///< executions of each instruction by a warp
  bool progress = false;
};

[[noreturn]] void reject(const std::string& what);

/// Calls f(lane) for the lanes of a mask.
template <class F>
inline void each_lane(mask m, F f) {
  if (m == all_lanes) {
    for (unsigned l = 0; l < lanes; ++l) f(l);
  } else {
    for (; m != 0; m &= m - 1) f(static_cast<unsigned>(std::countr_zero(m)));
  }
}

/// A value of type T in a register's word: floats are their bits, and integers are extended with zeros.
template <class T>
T get(word w) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(static_cast<std::uint32_t>(w));
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<double>(w);
  else
    return static_cast<T>(w);
}
template <class T>
word put(T v) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<std::uint32_t>(v);
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<word>(v);
  else
    return static_cast<std::make_unsigned_t<T>>(v);
}

/// The lanes whose inputs are all valid.
inline mask valid_inputs(const warp& w, const instruction& i) {
  mask v = all_lanes;
  for (const unsigned r : i.in) v &= w.valid[r];
  return v;
}
inline void require_valid(const warp& w, unsigned reg, mask m, const char* use) {
  if ((m & ~w.valid[reg]) != 0) reject(std::string("uses an uninitialized value as ") + use);
}
inline void set_valid(warp& w, unsigned reg, mask m, mask v, mask low) {
  w.valid[reg] = (w.valid[reg] & ~m) | (v & m);
  w.valid_low[reg] = (w.valid_low[reg] & ~m) | (low & m);
}
inline void set_valid(warp& w, unsigned reg, mask m, mask v) { set_valid(w, reg, m, v, v); }

/// Runs a grid; an error is a std::runtime_error that names the instruction, the thread block and the warp.
struct result {
  std::vector<std::uint64_t> counts;  ///< of each instruction, by warps
  std::uint64_t warps = 0;
};
result run(const launch& call, unsigned threads, unsigned order);

/// What the interpreter knows of a module's text, and a kernel of it.
class code_module {
 public:
  explicit code_module(std::string text);
  ~code_module();
  code_module(code_module&&) noexcept;
  const kernel& find(const std::string& name);  ///< decoded at the first use
  bool has(const std::string& name) const;
  std::string line(unsigned number) const;
  word variable(const std::string& name) const;  ///< the address of a global or const variable
  struct text_of_module;

 private:
  std::unique_ptr<text_of_module> text_;
};

}  // namespace ptx
