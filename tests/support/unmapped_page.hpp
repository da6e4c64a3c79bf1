// ufp4 - copies of operands that end where memory ends, so that a read beyond the last byte stops the test.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/catch.hpp"

#include <sys/mman.h>
#include <unistd.h>
#include <cstddef>
#include <cstring>
#include <span>

namespace support {

/// A copy of some bytes whose end is followed by a page that cannot be read.
class before_unmapped_page {
 public:
  template <class T>
  explicit before_unmapped_page(std::span<const T> from) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    size_ = (from.size_bytes() + page - 1) / page * page + page;
    memory_ = static_cast<char*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(memory_ != MAP_FAILED);
    data_ = memory_ + size_ - page - from.size_bytes();
    std::memcpy(data_, from.data(), from.size_bytes());
    REQUIRE(mprotect(memory_ + size_ - page, page, PROT_NONE) == 0);
  }
  before_unmapped_page(const before_unmapped_page&) = delete;
  before_unmapped_page& operator=(const before_unmapped_page&) = delete;
  ~before_unmapped_page() { munmap(memory_, size_); }
  template <class T>
  std::span<const T> as(std::size_t count) const {
    return {reinterpret_cast<const T*>(data_), count};
  }

 private:
  char *memory_ = nullptr, *data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace support
