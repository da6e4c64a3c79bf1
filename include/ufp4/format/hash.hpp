// ufp4 - std::hash of the number types.
// SPDX-License-Identifier: Apache-2.0
//
// Consistent with ==: equal values, such as -0 and +0, hash alike. The hash of another value is a code that it has.
#pragma once

#include <typeindex>  // the lightest standard header that declares std::hash
#include <ufp4/format/fp4.hpp>
#include <ufp4/format/int4.hpp>
#include <ufp4/format/int8.hpp>
#include <ufp4/format/scales.hpp>
#include <ufp4/format/table_element.hpp>

template <ufp4::detail::number T>
struct std::hash<T> {
  UFP4_MEMBER constexpr std::size_t operator()(T value) const noexcept {
    return value == T::from_bits(0) ? 0u : value.bits();
  }
};

/// A table may have several codes of one value.
template <class Levels>
struct std::hash<ufp4::table_element<Levels>> {
  UFP4_MEMBER constexpr std::size_t operator()(ufp4::table_element<Levels> value) const noexcept {
    return value == 0 ? 0u : ufp4::table_element<Levels>(value.value()).bits() + 1u;
  }
};
