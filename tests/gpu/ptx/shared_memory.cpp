// ufp4 - the PTX interpreter: shared memory.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/ptx/shared_memory.hpp"

#include "gpu/ptx/state.hpp"

#include <cstring>

namespace ptx {

namespace {

constexpr unsigned thread_bits = 11;
std::string hex(std::uint32_t at) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%x", at);
  return text;
}

}  // namespace

void shared_memory::resize(std::size_t bytes, unsigned threads) {
  bytes = (bytes + 15) / 16 * 16;
  data_.assign(bytes, 0xA5);
  state_.assign(bytes, byte_state::uninitialized);
  writer_.assign(bytes / 4, 0);
  readers_.assign(bytes / 16, 0);
  fences_.assign(threads, 1);
  barriers_.clear();
}

std::size_t shared_memory::index(std::uint32_t at, unsigned bytes) const {
  if (at < shared_base || at - shared_base + std::size_t{bytes} > data_.size())
    reject("accesses shared memory out of range: " + hex(at));
  return at - shared_base;
}

unsigned char* shared_memory::data(std::uint32_t at, unsigned bytes) { return data_.data() + index(at, bytes); }

bool shared_memory::load(std::uint32_t at, void* to, unsigned bytes) const {
  const std::size_t i = index(at, bytes);
  std::memcpy(to, data_.data() + i, bytes);
  bool valid = true;
  for (std::size_t b = i; b < i + bytes; ++b) {
    if (state_[b] == byte_state::in_flight) reject("reads bytes of a copy that has not been waited for: " + hex(at));
    valid = valid && state_[b] == byte_state::valid;
  }
  return valid;
}

void shared_memory::require_unread(std::size_t i, unsigned bytes) const {
  for (std::size_t p = i / 16; p <= (i + bytes - 1) / 16; ++p)
    if (readers_[p] != 0) reject("overwrites an operand of an asynchronous product that has not been waited for");
}

void shared_memory::store(std::uint32_t at, const void* from, unsigned bytes, unsigned thread) {
  const std::size_t i = index(at, bytes);
  require_unread(i, bytes);
  for (std::size_t b = i; b < i + bytes; ++b) {
    if (state_[b] == byte_state::in_flight) reject("overwrites the target of a copy that has not arrived: " + hex(at));
    state_[b] = byte_state::valid;
  }
  std::memcpy(data_.data() + i, from, bytes);
  for (std::size_t w = i / 4; w <= (i + bytes - 1) / 4; ++w) writer_[w] = (thread + 1) | fences_[thread] << thread_bits;
}

void shared_memory::load_async(std::uint32_t at, void* to, unsigned bytes, const char* reader) const {
  const std::size_t i = index(at, bytes);
  for (std::size_t w = i / 4; w <= (i + bytes - 1) / 4; ++w) {
    const std::uint32_t thread = (writer_[w] & ((1u << thread_bits) - 1));
    if (thread != 0 && fences_[thread - 1] << thread_bits >> thread_bits == writer_[w] >> thread_bits)
      reject(std::string(reader) + " reads what thread " + std::to_string(thread - 1) +
             " stored without fence.proxy.async: " + hex(at));
  }
  for (std::size_t b = i; b < i + bytes; ++b)
    if (state_[b] != byte_state::valid)
      reject(std::string(reader) +
             (state_[b] == byte_state::in_flight ? " reads bytes of a copy that has not arrived: "
                                                 : " reads uninitialized shared memory: ") +
             hex(at));
  std::memcpy(to, data_.data() + i, bytes);
}

void shared_memory::begin_copy(std::uint32_t at, unsigned bytes) {
  const std::size_t i = index(at, bytes);
  require_unread(i, bytes);
  for (std::size_t b = i; b < i + bytes; ++b) {
    if (state_[b] == byte_state::in_flight) reject("starts a copy over one that has not arrived: " + hex(at));
    state_[b] = byte_state::in_flight;
  }
}

void shared_memory::finish_copy(std::uint32_t at, const void* from, unsigned bytes) {
  const std::size_t i = index(at, bytes);
  std::memcpy(data_.data() + i, from, bytes);
  for (std::size_t b = i; b < i + bytes; ++b) state_[b] = byte_state::valid;
  for (std::size_t w = i / 4; w <= (i + bytes - 1) / 4; ++w) writer_[w] = 0;
}

memory_barrier& shared_memory::barrier(std::uint32_t at) {
  const auto found = barriers_.find(at);
  if (found == barriers_.end()) reject("uses a barrier that was not initialized: " + hex(at));
  return found->second;
}

void shared_memory::start_barrier(std::uint32_t at, std::uint32_t arrivals, unsigned thread) {
  if (at % 8 != 0) reject("initializes a barrier that is not aligned to 8 bytes: " + hex(at));
  const std::uint64_t bits = arrivals;
  store(at, &bits, 8, thread);
  barriers_[at] = {arrivals, arrivals, 0, 0};
}

void shared_memory::stop_barrier(std::uint32_t at) {
  (void)barrier(at);
  barriers_.erase(at);
}

}  // namespace ptx
