// ufp4 - std::hash of the number types.
// SPDX-License-Identifier: Apache-2.0
//
// Consistent with ==: -0 and +0 are equal and hash alike. The hash of any other value is its code.
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
