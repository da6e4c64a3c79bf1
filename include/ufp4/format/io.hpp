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
#include <ufp4/format/fp8.hpp>
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
namespace ufp4::detail::inline UFP4_TYPES {

template <class T, class Char>
struct value_formatter : std::formatter<float, Char> {
  template <class Context>
  auto format(T value, Context& context) const {
    return std::formatter<float, Char>::format(static_cast<float>(value), context);
  }
};

}  // namespace ufp4::detail::inline UFP4_TYPES

// One for each type: g++ 14 has a formatter for what converts to float, and one for all numbers would be ambiguous.
#define UFP4_FORMATTER(type) \
  template <class Char>      \
  struct std::formatter<ufp4::type, Char> : ufp4::detail::value_formatter<ufp4::type, Char> {};
UFP4_FORMATTER(int4)
UFP4_FORMATTER(e4m3)
UFP4_FORMATTER(ue5m3)
UFP4_FORMATTER(e8m0)
UFP4_FORMATTER(e6m2)
UFP4_FORMATTER(bf16)
UFP4_FORMATTER(fp16)
#undef UFP4_FORMATTER
template <class Layout, class Char>
struct std::formatter<ufp4::fp4<Layout>, Char> : ufp4::detail::value_formatter<ufp4::fp4<Layout>, Char> {};
template <class Layout, int special, class Char>
struct std::formatter<ufp4::fp4_remapped<Layout, special>, Char>
    : ufp4::detail::value_formatter<ufp4::fp4_remapped<Layout, special>, Char> {};
template <class Levels, class Char>
struct std::formatter<ufp4::table_element<Levels>, Char>
    : ufp4::detail::value_formatter<ufp4::table_element<Levels>, Char> {};
template <int bits, class Char>
struct std::formatter<ufp4::detail::scaled_int8<bits>, Char>
    : ufp4::detail::value_formatter<ufp4::detail::scaled_int8<bits>, Char> {};
template <ufp4::detail::byte_element kind, class Char>
struct std::formatter<ufp4::detail::byte_float<kind>, Char>
    : ufp4::detail::value_formatter<ufp4::detail::byte_float<kind>, Char> {};
#endif
