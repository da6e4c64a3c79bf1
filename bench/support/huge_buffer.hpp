// ufp4 - benches: memory in huge pages, so that page tables do not influence the results.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace bench {

/// `size` bytes of small positive binary32 values (as bf16 pairs too: no NaN, no infinity, no subnormal), all
/// initialized.
class huge_buffer {
 public:
  huge_buffer() = default;
  explicit huge_buffer(std::size_t size) : size_((size + page - 1) / page * page) {
    void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<unsigned char*>(memory);
#if defined(MADV_HUGEPAGE)
    madvise(memory, size_, MADV_HUGEPAGE);  // optional: the buffer also works without
#endif
    fill();
  }
  huge_buffer(huge_buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  huge_buffer& operator=(huge_buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~huge_buffer() {
    if (data_ != nullptr) munmap(data_, size_);
  }

  std::size_t size() const { return size_; }
  template <class T = unsigned char>
  T* as(std::size_t byte = 0) const {
    return reinterpret_cast<T*>(data_ + byte);
  }

 private:
  /// 0x3F00 plus random low bits of the exponent and fraction in both halves: values of about 0.5 to 2, either sign.
  void fill() {
    auto* words = as<std::uint32_t>();
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < size_ / 4; ++i) {
      state = state * 1664525u + 1013904223u;  // Numerical Recipes' generator: fast, and random enough in the high bits
      const std::uint32_t h = state >> 7;
      words[i] = 0x3F003F00u | (h & 0x007F007Fu) | (h << 8 & 0x80008000u);
    }
  }

  static constexpr std::size_t page = std::size_t{1} << 21;
  unsigned char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace bench
