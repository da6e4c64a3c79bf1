// ufp4 - std::hash of the number types.
// SPDX-License-Identifier: Apache-2.0
//
// Consistent with ==: -0 and +0 are equal and hash alike. The hash of any other value is its code.
#pragma once

#include <cstddef>
#include <typeindex>  // the lightest standard header that declares std::hash
#include <ufp4/format/fp4.hpp>
#include <ufp4/format/int4.hpp>
#include <ufp4/format/scales.hpp>
#include <ufp4/format/table_element.hpp>

namespace ufp4::detail::inline UFP4_TYPES {

/// minus_zero: the code that compares equal to code 0, or 0 for a type that has one zero.
template <class T, unsigned minus_zero>
struct code_hash {
  UFP4_MEMBER constexpr std::size_t operator()(T value) const noexcept {
    return value.bits() == minus_zero ? 0u : value.bits();
  }
};

}  // namespace ufp4::detail::inline UFP4_TYPES

template <class Layout>
struct std::hash<ufp4::fp4<Layout>> : ufp4::detail::code_hash<ufp4::fp4<Layout>, 0x8> {};
template <class Levels>
struct std::hash<ufp4::table_element<Levels>> : ufp4::detail::code_hash<ufp4::table_element<Levels>, 0> {};
template <>
struct std::hash<ufp4::int4> : ufp4::detail::code_hash<ufp4::int4, 0> {};
template <>
struct std::hash<ufp4::e4m3> : ufp4::detail::code_hash<ufp4::e4m3, 0x80> {};
template <>
struct std::hash<ufp4::ue5m3> : ufp4::detail::code_hash<ufp4::ue5m3, 0> {};
template <>
struct std::hash<ufp4::e8m0> : ufp4::detail::code_hash<ufp4::e8m0, 0> {};
template <>
struct std::hash<ufp4::bf16> : ufp4::detail::code_hash<ufp4::bf16, 0x8000> {};
template <>
struct std::hash<ufp4::fp16> : ufp4::detail::code_hash<ufp4::fp16, 0x8000> {};
