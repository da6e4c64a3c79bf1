// ufp4 - mbarrier and copies of boxes (TMA) in the CPU simulator, from the PTX ISA (the wrappers: cuda/tma_sm90.hpp).
// SPDX-License-Identifier: Apache-2.0
//
// A box is written when a thread waits for its barrier and nothing but the box's bytes is missing: the latest moment
// that the hardware may take. Until then poison lies there. A thread that waits runs again when the phase is complete;
// a phase that never completes is reported as threads that wait for each other are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ufp4::simt {

/// The address of shared memory in its state space, in which it does not begin at a multiple of 1024.
inline constexpr std::uint32_t shared_begin = 128;
inline std::uint32_t shared_address(const void* p) {
  return shared_begin + static_cast<std::uint32_t>(static_cast<const unsigned char*>(p) - the_machine.shared);
}

inline mbarrier& barrier_at(std::uint32_t at, const char* what) {
  const auto found = the_machine.mbarriers.find(at);
  if (found == the_machine.mbarriers.end()) reject(what);
  return found->second;
}

inline void barrier_start(std::uint32_t at, unsigned arrivals) {
  const unwatched machinery;
  if (!device().has(90) || is_amd(device())) {
    std::fprintf(stderr, "simt: %s uses a barrier in shared memory, which architecture %d does not have\n",
                 thread_name(the_machine.current).text, device().architecture);
    std::abort();
  }
  check_shared(the_machine.current, the_machine.shared + (at - shared_begin), 8, "a barrier");
  the_machine.mbarriers[at] = {};
  the_machine.mbarriers[at].expected = the_machine.mbarriers[at].pending = arrivals;
}

inline void write_box(const box_under_way& c) {
  for (unsigned row = 0; row < c.map.box_rows; ++row)
    for (unsigned piece = 0; piece < c.map.box_bytes; piece += 16) {
      std::uint32_t at = c.to + row * c.map.box_bytes + piece;
      if (c.map.swizzled_row != 0) at ^= (at >> 7 & (c.map.swizzled_row / 16 - 1)) << 4;
      unsigned char* to = the_machine.shared + (at - shared_begin);
      const std::size_t column = c.first_byte + piece;
      if (c.first_row + row < c.map.rows && column < c.map.row_bytes)
        std::memcpy(to, c.map.data + (c.first_row + row) * c.map.row_bytes + column, 16);
      else
        std::memset(to, 0, 16);
    }
}

/// Completes the phase if all have arrived and all bytes have come; bytes come when a thread waits.
inline void finish_phase(mbarrier& b) {
  if (b.pending != 0 || (b.waiting.empty() && !b.copies.empty())) return;
  for (const box_under_way& c : b.copies) {
    write_box(c);
    b.bytes -= c.map.box_rows * c.map.box_bytes;
  }
  b.copies.clear();
  if (b.bytes != 0) return;
  b.pending = b.expected;
  ++b.phase;
  for (const unsigned t : b.waiting) {
    the_machine.waves[t / the_machine.wave]->ready |= std::uint64_t{1} << t % the_machine.wave;
    the_machine.ready_waves |= std::uint64_t{1} << t / the_machine.wave;
  }
  b.waiting.clear();
}

/// `bytes`: that the phase waits for as well.
inline void barrier_arrive(std::uint32_t at, unsigned bytes) {
  const unwatched machinery;
  mbarrier& b = barrier_at(at, "arrives at a barrier that was not started");
  if (b.pending == 0) reject("arrives at a barrier at which all have arrived");
  happens_before(&b);
  b.bytes += bytes;
  --b.pending;
  finish_phase(b);
}

inline void barrier_wait(std::uint32_t at, unsigned parity) {
  const unwatched machinery;
  mbarrier& b = barrier_at(at, "waits at a barrier that was not started");
  while (b.phase % 2 == parity % 2) {
    b.waiting.push_back(the_machine.current);
    thread_now().waits_at = "a barrier in shared memory";
    finish_phase(b);
    give_way();
    thread_now().waits_at = nullptr;
  }
  happens_after(&b);
}

inline void copy_box(std::uint32_t to, const tensor_map& from, unsigned column, unsigned row, std::uint32_t barrier) {
  const unwatched machinery;
  mbarrier& b = barrier_at(barrier, "copies a box for a barrier that was not started");
  const unsigned bytes = from.box_rows * from.box_bytes, pattern = from.swizzled_row == 0 ? 128 : 8 * from.swizzled_row;
  unsigned char* first = the_machine.shared + (to - shared_begin);
  check_shared(the_machine.current, first, 1, "a copy of a box");
  check_shared(the_machine.current, first + bytes - 1, 1, "a copy of a box");
  if (to % pattern != 0) reject("copies a box to an address at which its pattern does not begin");
  std::memset(first, poison, bytes);
  b.copies.push_back({from, std::size_t{column} * from.element_bytes, row, to});
  finish_phase(b);
}

}  // namespace ufp4::simt
