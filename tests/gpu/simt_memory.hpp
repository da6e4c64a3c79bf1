// ufp4 - ldmatrix and cp.async in the CPU simulator, from the PTX ISA's tables (the wrappers: cuda/memory_sm80.hpp).
// SPDX-License-Identifier: Apache-2.0
//
// A copy reads and writes when its thread waits for it, the latest moment that the hardware may take; until then poison
// lies there, which the hardware may show as well. So who reads too early, or overwrites what others still read, gets
// other bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ufp4::simt {

/// Rejects an instruction that the simulated device does not have: compute capability 8.0 brought them, 12.x the
/// block-scaled.
inline void check_device(const char* name, bool block_scaled) {
  const device_facts& d = device();
  const bool nvidia = d.wave == 32 && d.architecture < 200;
  if (nvidia && (block_scaled ? d.has_specific(12) : d.has(80))) return;
  std::fprintf(stderr, "simt: %s executes %s, which architecture %d does not have\n",
               thread_name(the_machine.current).text, name, d.architecture);
  std::abort();
}

inline void check_whole(const char* name, unsigned lanes) {
  if (lanes == 32) return;
  std::fprintf(stderr, "simt: %s executes %s in a wave of %u threads\n", thread_name(the_machine.current).text, name,
               lanes);
  std::abort();
}

/// Rejects an address that is not `bytes` of this block's shared memory, aligned so.
inline void check_shared(unsigned thread, const void* p, std::size_t bytes, const char* what) {
  const machine& m = the_machine;
  const auto at = reinterpret_cast<std::uintptr_t>(p), first = reinterpret_cast<std::uintptr_t>(m.shared);
  if (at % bytes == 0 && at >= first && at + bytes <= first + m.shared_bytes) return;
  std::fprintf(stderr, "simt: %s gives %s an address %s\n", thread_name(thread).text, what,
               at % bytes != 0 ? "that is not aligned" : "outside its block's shared memory");
  std::abort();
}

/// 8 x 8 matrices of b16: row i of matrix j from lane 8 j + i; a lane gets two neighbours of a row of each.
template <std::size_t matrices>
void load_matrix(std::uint32_t (&r)[matrices], const void* shared_row) {
  struct registers {
    std::uint32_t r[matrices];
  };
  const char* const name = matrices == 4 ? "ldmatrix.x4" : "ldmatrix.x2";
  check_device(name, false);
#if defined(UFP4_SIMT_TSAN)
  if (lane_now() < 8 * matrices) {  // each lane's row, which one lane reads for all
    for (unsigned i = 0; i < 16; ++i) (void)static_cast<const volatile unsigned char*>(shared_row)[i];
  }
#endif
  const registers got =
      meet<registers>(name, shared_row, [name](const void* const* rows, registers* given, unsigned lanes) {
        check_whole(name, lanes);
        const unsigned first = the_machine.current - lane_now();
        for (unsigned row = 0; row < 8 * matrices; ++row) check_shared(first + row, rows[row], 16, name);
        for (unsigned l = 0; l < 32; ++l)
          for (unsigned j = 0; j < matrices; ++j)
            std::memcpy(&given[l].r[j], static_cast<const unsigned char*>(rows[8 * j + l / 4]) + 4 * (l % 4), 4);
      });
  std::memcpy(r, got.r, sizeof r);
}

template <unsigned bytes>
void copy_async(void* shared, const void* global, bool valid) {
  check_device("cp.async", false);
  check_shared(the_machine.current, shared, bytes, "cp.async");
  if (reinterpret_cast<std::uintptr_t>(global) % bytes != 0)
    reject("gives cp.async an address of device memory that is not aligned");
  std::memset(shared, poison, bytes);
  simt_thread& me = thread_now();
  me.copies.push_back({shared, global, bytes, valid, me.copy_group});
}

inline void commit_copies() { ++thread_now().copy_group; }

inline void wait_copies(int left) {
  simt_thread& me = thread_now();
  const auto still_out = static_cast<unsigned long>(left);
  std::erase_if(me.copies, [&](const copy_under_way& c) {
    if (c.group + still_out >= me.copy_group) return false;
    if (c.valid)
      std::memcpy(c.to, c.from, c.bytes);
    else
      std::memset(c.to, 0, c.bytes);
    return true;
  });
}

}  // namespace ufp4::simt
