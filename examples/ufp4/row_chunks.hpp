// ufp4 - a stored matrix in chunks of rows, in the type it is stored in, and the values of a quantized chunk.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ufp4/dequantize.hpp>
#include <ufp4/hadamard.hpp>
#include <ufp4/interop/tensor_file.hpp>
#include <utility>
#include <vector>

namespace tool {

/// 2^22 elements: with all intermediate results tens of megabytes, and enough work for every thread.
inline constexpr std::size_t usual_chunk = std::size_t{1} << 22;

/// The number of rows with at most `chunk` elements, a multiple of `height` and at least `height`; at most `rows`.
inline std::size_t rows_at_once(std::uint64_t rows, std::uint64_t cols, std::size_t height, std::size_t chunk) {
  const std::uint64_t fit = chunk / (std::max<std::uint64_t>)(cols, 1) / height * height;
  return static_cast<std::size_t>((std::min)(rows, (std::max<std::uint64_t>)(fit, height)));
}

namespace detail {

template <class T, class Visit>
void for_typed_chunks(ufp4::interop::tensor_file& file, const ufp4::interop::stored_tensor& t, std::size_t at_once,
                      Visit& visit) {
  const auto rows = static_cast<std::size_t>(t.shape[0]), cols = static_cast<std::size_t>(t.shape[1]);
  std::vector<T> memory(at_once * cols);
  for (std::size_t first = 0; first < rows; first += at_once) {
    const std::size_t count = (std::min)(at_once, rows - first);
    if (t.column_major)
      file.read_rows(t, first, ufp4::matrix_view<T>(memory.data(), count, cols));
    else
      file.read_bytes(t, std::uint64_t{first} * cols * sizeof(T), memory.data(), count * cols * sizeof(T));
    visit(first, ufp4::matrix_view<const T>(memory.data(), count, cols));
  }
}

}  // namespace detail

/// visit(first row, matrix_view of float, bf16 or fp16) over a matrix of F32, BF16 or F16, from top to bottom.
template <class Visit>
void for_chunks(ufp4::interop::tensor_file& file, const ufp4::interop::stored_tensor& t, std::size_t at_once,
                Visit visit) {
  using ufp4::interop::number_type;
  if (t.type == number_type::bf16) return detail::for_typed_chunks<ufp4::bf16>(file, t, at_once, visit);
  if (t.type == number_type::f16) return detail::for_typed_chunks<ufp4::fp16>(file, t, at_once, visit);
  detail::for_typed_chunks<float>(file, t, at_once, visit);
}

/// The bytes of a tensor, unchanged, in pieces; `progress` is called before each piece.
inline ufp4::interop::byte_source bytes_of(ufp4::interop::tensor_file& file, const ufp4::interop::stored_tensor& t,
                                           std::function<void()> progress) {
  return [&file, &t, progress = std::move(progress)](const ufp4::interop::byte_sink& sink) {
    constexpr std::uint64_t piece = 1 << 20;
    std::vector<unsigned char> memory(static_cast<std::size_t>((std::min)(piece, t.bytes)));
    for (std::uint64_t at = 0; at < t.bytes; at += piece) {
      progress();
      const auto count = static_cast<std::size_t>((std::min)(piece, t.bytes - at));
      file.read_bytes(t, at, memory.data(), count);
      sink(memory.data(), count);
    }
  };
}

/// The values of a quantized matrix: decoded, its transform undone, rounded to out's type once.
template <ufp4::matrix_scalar T>
void restore(const ufp4::cpu::context& ctx, const ufp4::any_quantized_view& q, const ufp4::matrix_view<T>& out) {
  if (q.transform().n == 1) return ufp4::dequantize(ctx, q, out);
  const std::size_t padded = q.padded_cols();  // the inverse transform reads the padding too
  const ufp4::matrix<float> transformed =
      ufp4::dequantize(ctx, ufp4::any_quantized_view(q.spec(), q.codes(), q.scale_bytes(), q.tensor_scale(), q.rows(),
                                                     padded, q.transform()));
  const std::size_t runs = (q.cols() + q.transform().n - 1) / q.transform().n;  // fewer than a longer block has
  const ufp4::matrix_view<const float> used(transformed.data(), q.rows(), runs * q.transform().n,
                                            static_cast<std::ptrdiff_t>(padded));
  ufp4::hadamard_inverse(ctx, used, out, q.transform());
}

}  // namespace tool
