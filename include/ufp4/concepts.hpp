// ufp4 - every concept of the library.
// SPDX-License-Identifier: Apache-2.0
//
//   operand(view, policies) -> transform -> block amax -> scale_rule -> rounding_policy -> pack -> quantized_matrix
//
// A type of a user that meets one of these concepts is accepted wherever a type of the library is.
#pragma once

#include <ufp4/detail/cxx20.hpp>  // first

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <ufp4/detail/compiler.hpp>

namespace ufp4::detail::inline UFP4_TYPES {

/// What the codes of an element of one byte mean, as data for kernels; `none`: elements have 4 bits. A closed set.
enum class byte_element : std::uint8_t { none, int8, e4m3, e5m2, e3m2, e2m3 };

/// An element of one byte: T::byte names its codes, T::unit() is the power of two that its values are multiples of.
/// Conversion from float rounds to nearest and saturates (numerics 1); max() is the largest magnitude that it gives.
template <class T>
concept byte_element_format = std::is_trivially_copyable_v<T> && sizeof(T) == 1 && std::is_constructible_v<T, float> &&
                              requires(T element, std::uint8_t bits) {
                                { T::from_bits(bits) } -> std::same_as<T>;
                                { element.bits() } -> std::same_as<std::uint8_t>;
                                { static_cast<float>(element) } -> std::same_as<float>;
                                { (T::max)() } -> std::same_as<float>;
                                { T::byte } -> std::convertible_to<byte_element>;
                                { T::unit() } -> std::same_as<float>;
                              };
/// Describes a type of block scales; specialised in format/scales.hpp.
template <class T>
struct scale_traits;

/// A type of block scales: float, bf16, e4m3, ue5m3, e8m0 or e6m2.
template <class T>
concept scale_format = requires { scale_traits<T>::kind; };
struct scale_rule_spec;  // block/scale_rules.hpp

/// A scale rule of the library, a closed set that every kernel supports: default_scale, scale_up, mx_floor, mx_even,
/// mx_ceil, four_over_six, percentile, mse_search, mae_search, or scale_rule_spec, which is any of them as data.
template <class T>
concept builtin_scale_rule = requires(const T t) {
  { t.spec() } -> std::same_as<scale_rule_spec>;
};

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

/// A type of block scales as data, for kernels. The set is closed, because every kernel handles each type.
enum class scale_kind : std::uint8_t { f32, bf16, e4m3, ue5m3, e8m0, e6m2 };

/// Sixteen values with their codes, in any order. Conversion from float rounds to nearest and saturates (numerics 1);
/// max() is the largest magnitude that it gives. Whether dot products of blocks are exact is computed from the values
/// (grid4::exact_products); a type may state it in a member exact_products, which then must be right.
template <class T>
concept element_format =
    !detail::byte_element_format<T> && !detail::scale_format<T> && std::is_trivially_copyable_v<T> && sizeof(T) == 1 &&
    std::is_constructible_v<T, float> && requires(T element, std::uint8_t bits) {
      { T::from_bits(bits) } -> std::same_as<T>;
      { element.bits() } -> std::same_as<std::uint8_t>;
      { static_cast<float>(element) } -> std::same_as<float>;
      { (T::max)() } -> std::same_as<float>;
    };

/// The two neighbours of a value on a grid.
struct neighbours {
  float lower;     ///< the neighbour nearer to zero
  float upper;     ///< the neighbour farther from zero
  int lower_rank;  ///< steps from zero to lower along the grid; ties of nearest_even go to the even rank
};

/// round_up(n, t, index) is true to round t to n.upper, false for n.lower. It is called for values strictly between two
/// neighbours, not for representable values and not beyond the grid. `index` is the element index in the whole operand
/// (numerics 3). A policy that is a function of its arguments alone gives the same bits on every backend.
template <class P>
concept rounding_policy =
    std::is_trivially_copyable_v<P> && requires(const P policy, neighbours n, float t, std::uint64_t index) {
      { policy.round_up(n, t, index) } -> std::same_as<bool>;
    };

struct transform_spec;  // hadamard/transform.hpp
struct block_values;    // block/scale_rules.hpp

/// A scale rule of a user: rule(values, amax) returns the scale of a block of finite values with amax > 0 (the default:
/// amax / qmax). The result is rounded to the scale type (numerics 2), after a division by a two-level format's tensor
/// scale. A negative, infinite or NaN result makes a NaN block. Called once a block, on several threads at a time.
template <class T>
concept scale_rule = std::is_trivially_copyable_v<T> && !detail::builtin_scale_rule<T> &&
                     requires(const T rule, const block_values& values, float amax) {
                       { rule(values, amax) } -> std::same_as<float>;
                     };

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

/// The scale_traits of that type.
template <scale_kind value>
struct scale_of_kind {
  static constexpr scale_kind kind = value;  ///< the type
};

/// Any element type of a block format.
template <class T>
concept any_element_format = element_format<T> || byte_element_format<T>;

/// A transform of runs along the contraction axis: hadamard, random_hadamard, signed_hadamard or transform_spec.
template <class T>
concept transform = requires(const T t) {
  { t.spec() } -> std::same_as<transform_spec>;
};

/// Any scale rule: what operations accept.
template <class T>
concept any_scale_rule = builtin_scale_rule<T> || scale_rule<T>;

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::cpu::inline UFP4_TYPES {

/// A task of a parallel loop: call it with an index. Non-owning and trivially copyable.
struct task_ref {
  const void* object;                                                ///< the callable
  void (*call)(const void* object, std::size_t index);               ///< calls it
  void operator()(std::size_t index) const { call(object, index); }  ///< runs task `index`
};

/// A caller's thread pool: executor(n, task) calls task(i) once for every i < n, on any threads in any order, and
/// returns when all calls have returned. Tasks do not throw.
template <class E>
concept executor = requires(E& e, std::size_t n, task_ref task) { e(n, task); };

}  // namespace ufp4::cpu::inline UFP4_TYPES
