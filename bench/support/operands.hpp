// ufp4 - benches: matrices to work on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "huge_buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <ufp4/matrix/matrix_view.hpp>
#include <ufp4/matrix/quantized_matrix.hpp>
#include <utility>

namespace bench {

/// Approximately normal values with standard deviation 1: the sum of four uniform values.
class normal_values {
 public:
  float operator()() {
    float sum = 0;
    for (int i = 0; i < 4; ++i) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
      sum += static_cast<float>(state_ >> 40) * 0x1p-24f;
    }
    return (sum - 2) * 1.7320508f;  // sqrt(3): the sum of four uniform values has a variance of 1/3
  }

 private:
  std::uint64_t state_ = 1;
};

/// Memory that all rows of a process share: as many bytes as the largest request so far, filled by fill(memory). Each
/// Tag has memory of its own.
template <class Tag, class Fill>
unsigned char* shared_memory(std::size_t bytes, const Fill& fill) {
  static huge_buffer memory;
  if (memory.size() < bytes) {
    memory = huge_buffer();
    memory = huge_buffer(bytes);
    fill(memory);
  }
  return memory.as<>();
}
template <class Tag>
unsigned char* shared_memory(std::size_t bytes) {
  return shared_memory<Tag>(bytes, [](const huge_buffer&) {});
}

/// rows x cols normal values of type T: float, or a type of 16 bits made from float.
template <class T>
ufp4::matrix_view<const T> plain_matrix(std::size_t rows, std::size_t cols) {
  struct tag {};
  const auto fill = [](const huge_buffer& memory) {
    normal_values next;
    for (std::size_t i = 0; i < memory.size() / sizeof(T); ++i) memory.as<T>()[i] = T(next());
  };
  return {reinterpret_cast<const T*>(shared_memory<tag>(rows * cols * sizeof(T), fill)), rows, cols};
}

/// Memory for output; Which distinguishes several of one type.
template <class T, int Which = 0>
std::span<T> output_span(std::size_t count) {
  struct tag {};
  return {reinterpret_cast<T*>(shared_memory<tag>(count * sizeof(T))), count};
}
/// A matrix for output.
template <class T, int Which = 0>
ufp4::matrix_view<T> output_matrix(std::size_t rows, std::size_t cols) {
  return {output_span<T, Which>(rows * cols).data(), rows, cols};
}

/// Positive scales near one: a byte near the middle of E4M3 or of E8M0, a float between 0.5 and 2.
template <class Scale>
void fill_scales(const huge_buffer& memory) {
  if constexpr (sizeof(Scale) == 1) {
    const int least = std::is_same_v<Scale, ufp4::e8m0> ? 0x7E : 0x30;
    for (std::size_t i = 0; i < memory.size(); ++i)
      memory.as<>()[i] = static_cast<unsigned char>(least + (memory.as<>()[i] & (least == 0x30 ? 15 : 3)));
  } else {
    static_assert(std::is_same_v<Scale, float>);
    for (std::size_t i = 0; i < memory.size() / 4; ++i) memory.as<std::uint32_t>()[i] &= 0x7FFFFFFFu;
  }
}

template <class F>
constexpr std::size_t code_bytes(std::size_t rows, std::size_t cols) {
  return F::has_bytes ? rows * cols : rows * cols / 2;
}
template <class F>
constexpr std::size_t scale_bytes(std::size_t rows, std::size_t cols) {
  return rows * cols / F::block_size * sizeof(typename F::scale_type);
}

/// Number `index` of `count` quantized matrices of random codes, cols a multiple of the block. Side 0 and side 1 of a
/// product have separate memory, which all formats share.
template <class F, int Side>
ufp4::quantized_view<F> quantized_operand(std::size_t rows, std::size_t cols, std::size_t index = 0,
                                          std::size_t count = 1) {
  using scale = typename F::scale_type;
  const std::size_t codes = code_bytes<F>(rows, cols), scales = scale_bytes<F>(rows, cols);
  const unsigned char* code = shared_memory<std::integral_constant<int, Side>>(codes * count) + index * codes;
  using scale_tag = std::pair<scale, std::integral_constant<int, Side>>;
  const unsigned char* at = shared_memory<scale_tag>(scales * count, &fill_scales<scale>) + index * scales;
  return {{code, codes}, {reinterpret_cast<const scale*>(at), scales / sizeof(scale)}, 1.0f, rows, cols};
}

}  // namespace bench
