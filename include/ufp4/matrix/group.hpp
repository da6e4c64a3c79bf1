// ufp4 - many products in one call: the types of a group, and the checks that no output overlaps.
// SPDX-License-Identifier: Apache-2.0
//
// CPU and GPU operations check here before they write anything, so an error message is the same on both.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ufp4/detail/expects.hpp>
#include <ufp4/matrix/matrix_view.hpp>
#include <vector>

namespace ufp4::detail::inline UFP4_CODE {

/// std::vector, std::array, std::span.
template <class T>
concept sequence = requires(const T& all) {
  typename T::value_type;
  { all.data()[0] } -> std::convertible_to<const typename T::value_type&>;
  { all.size() } -> std::convertible_to<std::size_t>;
};

/// Memory of one product of a group.
struct group_range {
  byte_range bytes;
  std::size_t entry;
  bool output;

  static int by_address(const void* a, const void* b) {
    const auto x = static_cast<const group_range*>(a)->bytes.first, y = static_cast<const group_range*>(b)->bytes.first;
    return x < y ? -1 : x > y;
  }
};
inline void add_range(std::vector<group_range>& all, const void* data, std::size_t size, std::size_t entry) {
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  if (size != 0) all.push_back({{first, first + size}, entry, false});
}
inline void add_output(std::vector<group_range>& all, const sink& out, std::size_t entry) {
  const byte_range c = bytes_of(out);
  if (c.first != c.last) all.push_back({c, entry, true});
}

/// The products of a group run at the same time, so no output may share memory with another or with any operand.
inline void check_group_memory(std::vector<group_range> all) {
  if (!all.empty()) std::qsort(all.data(), all.size(), sizeof(group_range), &group_range::by_address);
  const group_range *output = nullptr, *operand = nullptr;  // those that reach furthest so far
  for (const group_range& r : all) {
    expects(output == nullptr || r.bytes.first >= output->bytes.last, "quantized_gemm_grouped: C[",
            output == nullptr ? 0 : output->entry, "] overlaps ", r.output ? "C[" : "an operand of product [", r.entry,
            "]");
    expects(!r.output || operand == nullptr || r.bytes.first >= operand->bytes.last, "quantized_gemm_grouped: C[",
            r.entry, "] overlaps an operand of product [", operand == nullptr ? 0 : operand->entry, "]");
    const group_range*& furthest = r.output ? output : operand;
    if (furthest == nullptr || r.bytes.last > furthest->bytes.last) furthest = &r;
  }
}

}  // namespace ufp4::detail::inline UFP4_CODE
