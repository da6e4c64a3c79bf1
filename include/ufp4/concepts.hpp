// ufp4 - the map of the library: every concept on one page.
// SPDX-License-Identifier: Apache-2.0
//
//   operand(view, policies) -> transform -> block amax -> scale_rule -> rounding_policy -> pack -> quantized_matrix
//
// A type of a user's own that meets one of these concepts works wherever one of ours does.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <ufp4/detail/compiler.hpp>

namespace ufp4::inline UFP4_TYPES {

/// Sixteen values with their codes. Conversion from float rounds to nearest and saturates (numerics 1); max() is the
/// largest magnitude that it gives; exact_products says that every product of two values, and every sum of up to 256
/// of them, is a binary32 number (so a block's dot product is exact in any order).
template <class T>
concept element_format = std::is_trivially_copyable_v<T> && sizeof(T) == 1 && std::is_constructible_v<T, float> &&
                         requires(T element, std::uint8_t bits) {
                           { T::from_bits(bits) } -> std::same_as<T>;
                           { element.bits() } -> std::same_as<std::uint8_t>;
                           { static_cast<float>(element) } -> std::same_as<float>;
                           { (T::max)() } -> std::same_as<float>;
                           { T::exact_products } -> std::convertible_to<bool>;
                         };

/// Says of a type how a block scale of that type is made and read; specialised in format/scales.hpp for float, bf16,
/// e4m3, ue5m3 and e8m0. The set is closed: kernels know each of them.
template <class T>
struct scale_traits;

template <class T>
concept scale_format = requires { scale_traits<T>::kind; };

/// The two neighbours of a value on a grid: |lower| is nearer to zero, upper lies beyond the value.
struct neighbours {
  float lower;
  float upper;
  int lower_rank;  ///< steps from zero to lower along the grid; ties of nearest_even go to the even rank
};

/// Picks a neighbour for a value t strictly between the two. Representable and saturating values never ask.
/// `index` is the element's place in the whole operand (numerics 3): a policy that is a function of its arguments alone
/// gives the same bits on every backend.
template <class P>
concept rounding_policy =
    std::is_trivially_copyable_v<P> && requires(const P policy, neighbours n, float t, std::uint64_t index) {
      { policy.round_up(n, t, index) } -> std::same_as<bool>;
    };

struct transform_spec;   // hadamard/transform.hpp
struct scale_rule_spec;  // block/scale_rules.hpp
struct block_values;     // block/scale_rules.hpp

/// An orthogonal transform of runs along the contraction axis: any of the hadamard family.
template <class T>
concept transform = requires(const T t) {
  { t.spec() } -> std::same_as<transform_spec>;
};

/// A scale rule of the library's own, a closed set that every kernel knows: default_scale, scale_up, mx_floor, mx_even,
/// mx_ceil, four_over_six, mse_search, or scale_rule_spec, which holds any of them as data.
template <class T>
concept builtin_scale_rule = requires(const T t) {
  { t.spec() } -> std::same_as<scale_rule_spec>;
};

/// A scale rule of a user's own: rule(values, amax) returns the scale of a block of finite values, amax > 0 being their
/// largest magnitude; the default rule's answer is amax / qmax. The result is rounded to the block's scale type as
/// numerics 2 says, for a two-level format after a division by the tensor scale. A negative, infinite or NaN result
/// makes a NaN block. Called once a block by the portable kernels, on several threads at a time.
template <class T>
concept scale_rule = std::is_trivially_copyable_v<T> && !builtin_scale_rule<T> &&
                     requires(const T rule, const block_values& values, float amax) {
                       { rule(values, amax) } -> std::same_as<float>;
                     };

/// Either of them: what operations accept.
template <class T>
concept any_scale_rule = builtin_scale_rule<T> || scale_rule<T>;

/// A task of a parallel loop: call it with an index. Non-owning and trivially copyable.
struct task_ref {
  const void* object;
  void (*call)(const void* object, std::size_t index);
  void operator()(std::size_t index) const { call(object, index); }
};

/// Something that runs tasks: executor(n, task) calls task(i) once for every i < n, on whatever threads, in whatever
/// order, and returns when all calls have returned. Tasks do not throw.
template <class E>
concept executor = requires(E& e, std::size_t n, task_ref task) { e(n, task); };

}  // namespace ufp4::inline UFP4_TYPES
