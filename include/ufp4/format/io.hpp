// ufp4 - printing numbers: operator<< and, where the standard library has <format>, std::formatter.
// SPDX-License-Identifier: Apache-2.0
//
// A number prints as its float value: fp4<E2M1>{1.5f} as 1.5, the code 0x8 of E2M1 as -0, e4m3's 0x7F as nan. The flags
// and the precision of the stream apply, and so do the format specifications of float ("{:+.2f}"). Without
// this header std::cout prints numbers too, by the conversion to float; std::format does not.
// Not part of ufp4.hpp: <format> is the most expensive standard header to compile.
#pragma once

#include <iosfwd>
#include <ufp4/format/fp4.hpp>
#include <ufp4/format/int4.hpp>
#include <ufp4/format/int8.hpp>
#include <ufp4/format/scales.hpp>
#include <ufp4/format/table_element.hpp>
#include <version>

#if defined(__cpp_lib_format)
#include <format>
#endif

namespace ufp4::inline UFP4_TYPES {

/// Prints the float value. The caller includes <ostream> or another stream header.
template <class Char, class Traits, detail::number T>
std::basic_ostream<Char, Traits>& operator<<(std::basic_ostream<Char, Traits>& out, T value) {
  return out << static_cast<float>(value);
}

}  // namespace ufp4::inline UFP4_TYPES

#if defined(__cpp_lib_format)
template <ufp4::detail::number T, class Char>
struct std::formatter<T, Char> : std::formatter<float, Char> {
  template <class Context>
  auto format(T value, Context& context) const {
    return std::formatter<float, Char>::format(static_cast<float>(value), context);
  }
};
#endif
