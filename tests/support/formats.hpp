// ufp4 - type lists for TEMPLATE_LIST_TEST_CASE: the preset formats, and the formats of one number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tuple>
#include <type_traits>
#include <ufp4/block/presets.hpp>
#include <ufp4/format/fp4.hpp>
#include <ufp4/format/int4.hpp>
#include <ufp4/format/scales.hpp>
#include <ufp4/format/table_element.hpp>
#include <utility>

namespace support {

/// The types of all lists, in that order.
template <class... Lists>
using joined = decltype(std::tuple_cat(std::declval<Lists>()...));

template <bool chosen, class T>
using list_of_one_if = std::conditional_t<chosen, std::tuple<T>, std::tuple<>>;

template <class Rows>
struct preset_types;
template <class... Rows>
struct preset_types<ufp4::detail::preset_rows<Rows...>> {
  using all = std::tuple<typename Rows::format...>;
  using one_level = joined<list_of_one_if<!Rows::format::two_level, typename Rows::format>...>;
  using two_level = joined<list_of_one_if<Rows::format::two_level, typename Rows::format>...>;
};

/// Every preset, in the order of ufp4::presets; those without and those with a tensor scale.
using presets = preset_types<ufp4::detail::presets>::all;
using one_level_presets = preset_types<ufp4::detail::presets>::one_level;
using two_level_presets = preset_types<ufp4::detail::presets>::two_level;

/// Calls visit(preset_row<...>{}) for every preset that CPU operations have.
template <class Visit>
void for_each_cpu_preset(Visit&& visit) {
  ufp4::detail::for_each_row(ufp4::detail::presets{}, visit);
  ufp4::detail::for_each_row(ufp4::detail::extended_presets{}, visit);
}

/// Every preset, then More.
template <class... More>
using presets_and = joined<presets, std::tuple<More...>>;

// The formats of one number.
using fp4_types = std::tuple<ufp4::fp4<ufp4::E2M1>, ufp4::fp4<ufp4::E1M2>, ufp4::fp4<ufp4::E3M0>>;
using element_types = joined<fp4_types, std::tuple<ufp4::int4, ufp4::nf4>>;
using byte_scale_types = std::tuple<ufp4::e4m3, ufp4::ue5m3, ufp4::e8m0>;
using half_types = std::tuple<ufp4::bf16, ufp4::fp16>;
using scale_types = joined<byte_scale_types, half_types>;
using byte_types = joined<element_types, byte_scale_types>;  ///< whose codes fit a byte
using float_types = joined<fp4_types, scale_types>;          ///< with exponents

}  // namespace support
