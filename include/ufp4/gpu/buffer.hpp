// ufp4 - buffer: owns device memory; for examples, tests and first programs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gpu/status.hpp>
#include <utility>

namespace ufp4::gpu::inline UFP4_GPU {

/// n trivially copyable objects in device memory. Movable, not copyable. Not for inner loops: the constructor
/// allocates, upload and download wait. A failure throws std::invalid_argument with the runtime's text.
template <class T>
class buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  buffer() = default;
  /// Allocates `size` elements. Throws std::invalid_argument with the error of the runtime if that fails.
  explicit buffer(std::size_t size) : size_(size) {
    void* p = nullptr;
    const error e = allocate(&p, size * sizeof(T));
    detail::expects(e == success, "buffer: allocation failed: ", size * sizeof(T), " bytes: ", error_text(e));
    data_ = static_cast<T*>(p);
  }
  explicit buffer(std::span<const T> values) : buffer(values.size()) { upload(values); }  ///< allocates and copies
  /// Moves.
  buffer(buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  /// Moves.
  buffer& operator=(buffer other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~buffer() {
    if (data_ != nullptr) (void)release(data_);
  }

  T* data() const { return data_; }                      ///< in device memory
  std::size_t size() const { return size_; }             ///< in elements
  std::span<T> span() const& { return {data_, size_}; }  ///< in device memory
  std::span<T> span() const&& = delete;                  ///< the memory ends with its statement

  /// Copies from the host and waits. Throws if the sizes differ or the copy fails.
  void upload(std::span<const T> values) {
    detail::expects(values.size() == size_, "buffer: size mismatch: upload of ", values.size(), " objects into ",
                    size_);
    finish(copy(data_, values.data(), size_ * sizeof(T), stream{}));
  }
  /// Copies to the host and waits. Throws if the sizes differ or the copy fails.
  void download(std::span<T> values) const {
    detail::expects(values.size() == size_, "buffer: size mismatch: download of ", size_, " objects into ",
                    values.size());
    finish(copy(values.data(), data_, size_ * sizeof(T), stream{}));
  }

 private:
  static void finish(error e) {
    if (e == success) e = wait(stream{});
    detail::expects(e == success, "buffer: copy failed: ", error_text(e));
  }
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ufp4::gpu::inline UFP4_GPU
