// ufp4 - the PTX interpreter: the shared memory of a block, and what has to happen before it may be read or written.
// SPDX-License-Identifier: Apache-2.0
//
// | state of a byte  | uninitialized, valid, or the target of an asynchronous copy that has not arrived             |
// | writer of a word | the thread that stored it, and how many fences for the async proxy that thread had executed: |
// |                  | wgmma and the copy engine may read the word when the thread has executed another one         |
// | readers          | of 16 bytes: products that have not been waited for; nothing may write them                  |
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace ptx {

/// Addresses in the shared state space begin here: the first bytes are the system's, and 0 is never a valid address.
inline constexpr std::uint32_t shared_base = 1024;

enum class byte_state : unsigned char { uninitialized, valid, in_flight };

/// An mbarrier object. Phase n is complete when no arrivals and no bytes are expected any more.
struct memory_barrier {
  std::uint32_t expected = 0, pending = 0;
  std::int64_t bytes = 0;
  std::uint64_t phase = 0;
};

class shared_memory {
 public:
  void resize(std::size_t bytes, unsigned threads);
  std::size_t end() const { return shared_base + data_.size(); }

  /// Returns whether all bytes are initialized.
  bool load(std::uint32_t at, void* to, unsigned bytes) const;
  void store(std::uint32_t at, const void* from, unsigned bytes, unsigned thread);

  /// By the async proxy: every word that a thread stored must have been fenced.
  void load_async(std::uint32_t at, void* to, unsigned bytes, const char* reader) const;
  /// An asynchronous copy begins to write, and arrives.
  void begin_copy(std::uint32_t at, unsigned bytes);
  void finish_copy(std::uint32_t at, const void* from, unsigned bytes);
  void fence(unsigned thread) { ++fences_[thread]; }

  void begin_read(std::uint32_t piece) { ++readers_[piece]; }
  void end_read(std::uint32_t piece) { --readers_[piece]; }
  std::uint32_t piece(std::uint32_t at) const { return (at - shared_base) / 16; }

  memory_barrier& barrier(std::uint32_t at);
  void start_barrier(std::uint32_t at, std::uint32_t arrivals, unsigned thread);
  void stop_barrier(std::uint32_t at);

  unsigned char* data(std::uint32_t at, unsigned bytes);

 private:
  std::size_t index(std::uint32_t at, unsigned bytes) const;
  void require_unread(std::size_t i, unsigned bytes) const;

  std::vector<unsigned char> data_;
  std::vector<byte_state> state_;
  std::vector<std::uint32_t> writer_;  ///< 0, or 1 + thread, and fences above bit 11
  std::vector<std::uint32_t> fences_;  ///< of each thread
  std::vector<std::uint16_t> readers_;
  std::map<std::uint32_t, memory_barrier> barriers_;
};

}  // namespace ptx
