// ufp4 - poisoned and guarded buffers for the outputs (and inputs) of tests.
// SPDX-License-Identifier: Apache-2.0
/// A buffer of n elements between two runs of guard bytes:
///
///   support::guarded<float> c(m * n);
///   quantized_gemm(a, b, matrix_view<float>{c.data(), m, n});
///   REQUIRE(c.guards_intact());
///
/// | body      | every byte 0xFF at first: NaN as float, bf16, fp16, e4m3 and e8m0, so a premature read is visible   |
/// | unwritten | an element that was not written differs if the same call fills two buffers with different poison     |
/// | guards    | 64 bytes and more on either side, each byte another value, so that a copied neighbour is detected   |
/// | alignment | 64 bytes, plus `shift` elements for the unaligned case                                              |
/// | reads     | under AddressSanitizer the guards may not be read either                                            |
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define UFP4_TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UFP4_TEST_ASAN 1
#endif
#endif
#if defined(UFP4_TEST_ASAN)
#include <sanitizer/asan_interface.h>
#endif

namespace support {

template <class T>
class guarded {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit guarded(std::size_t n, std::size_t shift = 0, std::uint8_t poison = 0xFF)
      : size_{n}, bytes_(n * sizeof(T) + shift * sizeof(T) + 3 * guard) {
    const std::size_t odd = reinterpret_cast<std::uintptr_t>(bytes_.data()) % guard;
    first_ = guard + (guard - odd) % guard + shift * sizeof(T);
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = in_body(i) ? poison : guard_byte(i);
    close_guards();
  }
  guarded(const guarded&) = delete;  // a copy would need its own alignment and guards
  guarded& operator=(const guarded&) = delete;
  ~guarded() { open_guards(); }

  T* data() { return reinterpret_cast<T*>(bytes_.data() + first_); }
  const T* data() const { return reinterpret_cast<const T*>(bytes_.data() + first_); }
  std::size_t size() const { return size_; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  std::span<T> span() { return {data(), size_}; }
  std::span<const T> span() const { return {data(), size_}; }

  /// No byte before the first or after the last element was written.
  bool guards_intact() const {
    open_guards();
    bool intact = true;
    for (std::size_t i = 0; i < bytes_.size(); ++i) intact = intact && (in_body(i) || bytes_[i] == guard_byte(i));
    close_guards();
    return intact;
  }

  /// Compares bytes: -0.f differs from 0.f, and a NaN equals itself.
  bool same_bytes(std::span<const T> other) const {
    return other.size() == size_ && (size_ == 0 || std::memcmp(data(), other.data(), size_ * sizeof(T)) == 0);
  }

 private:
  static constexpr std::size_t guard = 64;

  bool in_body(std::size_t i) const { return i >= first_ && i < first_ + size_ * sizeof(T); }
  static std::uint8_t guard_byte(std::size_t i) { return static_cast<std::uint8_t>(0x5A ^ (i * 37)); }

#if defined(UFP4_TEST_ASAN)
  void close_guards() const {
    const std::size_t last = first_ + size_ * sizeof(T);
    ASAN_POISON_MEMORY_REGION(bytes_.data(), first_);
    ASAN_POISON_MEMORY_REGION(bytes_.data() + last, bytes_.size() - last);
  }
  void open_guards() const { ASAN_UNPOISON_MEMORY_REGION(bytes_.data(), bytes_.size()); }
#else
  void close_guards() const {}
  void open_guards() const {}
#endif

  std::size_t size_;
  std::size_t first_ = 0;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace support
