// ufp4 - the PTX interpreter: the memory of the device, and addresses of all state spaces.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/ptx/state.hpp"

#include <map>

namespace ptx {

/// What the program has allocated on the device. It changes only while no kernel runs.
class device_memory {
 public:
  static device_memory& here();
  void add(const void* at, std::size_t bytes) { blocks_[reinterpret_cast<word>(at)] = bytes; }
  void remove(const void* at) { blocks_.erase(reinterpret_cast<word>(at)); }
  /// The bytes at an address of global memory; an error if they are not all in one allocation.
  unsigned char* find(word at, std::size_t bytes) const;

 private:
  std::map<word, std::size_t> blocks_;
};

enum class space : unsigned { generic, global, shared, local, param };

/// The shared memory that an address means: of the warp's block, or, after mapa, of another block of the cluster.
thread_block& block_of(warp& w, std::uint32_t& at);

/// Loads and stores of one lane. load returns whether all bytes are initialized.
bool load(warp& w, space s, unsigned lane, word at, void* to, unsigned bytes);
void store(warp& w, space s, unsigned lane, word at, const void* from, unsigned bytes);

}  // namespace ptx
