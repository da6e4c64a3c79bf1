// ufp4 - the base of the number types: a code with the conversions, the arithmetic and the comparisons of its value.
// SPDX-License-Identifier: Apache-2.0
//
// A number is a float in every expression; docs/formats.md lists results. These do not compile, for a value would be
// rounded, truncated or taken for a code unseen: a = x, a += x, int i = a, array[a], if (a), a % 2, T::from_bits(a).
#pragma once

#include <compare>
#include <concepts>
#include <ufp4/detail/bits.hpp>

// A namespace of its own, so that no operator of the library's other types is looked up here.
namespace ufp4::detail::scalars::inline UFP4_TYPES {

/// Base of the number types: the code, in the bits `mask` of Bits. Derived has value(), the number as a float, exact.
/// Two Derived are compared by value: -0 == +0, and a NaN is unordered.
template <class Derived, class Bits, Bits mask, class Ordering>
class coded {
 public:
  using ordering = Ordering;  ///< the type of <=>

  /// The number of a code; bits above it are ignored.
  UFP4_MEMBER static constexpr Derived from_bits(Bits bits) {
    Derived value{};
    static_cast<coded&>(value).bits_ = bits & mask;
    return value;
  }
  UFP4_MEMBER constexpr Bits bits() const { return bits_; }

  /// Implicit to float alone, or std::sqrt(a) would be ambiguous; a template, or a float would convert to integers.
  template <std::floating_point Float>
  UFP4_MEMBER constexpr explicit(!std::same_as<Float, float>) operator Float() const {
    // Not static_cast<const Derived&>(*this): of a temporary, nvcc takes that for no constant.
    return static_cast<Float>(from_bits(bits_).value());
  }

 protected:
  Bits bits_;
};

/// The same of the types of scales.hpp, which a NaN may be.
template <class Derived, class Bits>
using small_float = coded<Derived, Bits, static_cast<Bits>(-1), std::partial_ordering>;

template <class T, class Bits, Bits mask, class Ordering>
void derived_from_coded(const coded<T, Bits, mask, Ordering>&);
template <class T>
concept number = requires(const T& x) { derived_from_coded<T>(x); };

/// The value of a number, or a built-in number, in arithmetic. None for others: the operators below are looked up for
/// iterators of numbers too, and clang reads their result types before it tests their constraints.
template <number T>
float promoted(T);
template <class T>
  requires std::is_arithmetic_v<T>
T promoted(T);
template <class A, class B>
using sum_of = decltype(promoted(A{}) + promoted(B{}));

/// The operands of an operator: numbers, or a number and a built-in one.
template <class A, class B>
concept operands = (number<A> || number<B>) && requires { typename sum_of<A, B>; };

// Found through the base class of the operands. g++ has no built-in ones for types whose conversion is a template.
#define UFP4_OPERATOR(op)                                                \
  template <class A, class B>                                            \
    requires operands<A, B>                                              \
  UFP4_MEMBER constexpr sum_of<A, B> operator op(A a, B b) {             \
    return static_cast<sum_of<A, B>>(a) op static_cast<sum_of<A, B>>(b); \
  }                                                                      \
  template <std::floating_point Float, number T>                         \
  UFP4_MEMBER constexpr Float& operator op##=(Float & sum, T a) {        \
    return sum = sum op static_cast<Float>(a);                           \
  }                                                                      \
  template <std::integral Integer, number T>                             \
  void operator op##=(Integer&, T) = delete
UFP4_OPERATOR(+);
UFP4_OPERATOR(-);
UFP4_OPERATOR(*);
UFP4_OPERATOR(/);
#undef UFP4_OPERATOR

template <number T>
UFP4_MEMBER constexpr float operator+(T a) {
  return a.value();
}
template <number T>
UFP4_MEMBER constexpr float operator-(T a) {
  return -a.value();
}

// One by one: std::partial_ordering has no functions for device code. In g++ 11 x < y of a NaN is no constant.
#define UFP4_COMPARISON(op)                                                        \
  template <class A, class B>                                                      \
    requires operands<A, B>                                                        \
  UFP4_MEMBER constexpr bool operator op(A a, B b) {                               \
    const auto x = static_cast<sum_of<A, B>>(a), y = static_cast<sum_of<A, B>>(b); \
    return x == x && y == y && x op y;                                             \
  }
UFP4_COMPARISON(==)
UFP4_COMPARISON(<)
UFP4_COMPARISON(>)
UFP4_COMPARISON(<=)
UFP4_COMPARISON(>=)
#undef UFP4_COMPARISON

/// The type of a <=> b: that of A between two of its numbers.
template <class A, class B>
struct ordering_of {
  using type = std::partial_ordering;
};
template <number A>
struct ordering_of<A, A> {
  using type = typename A::ordering;
};
template <class A, class B>
  requires operands<A, B>
UFP4_MEMBER constexpr typename ordering_of<A, B>::type operator<=>(A a, B b) {
  using ordering = typename ordering_of<A, B>::type;
  if constexpr (std::same_as<ordering, std::partial_ordering>)
    if (!(a == a && b == b)) return ordering::unordered;
  return a < b ? ordering::less : a > b ? ordering::greater : ordering::equivalent;
}

}  // namespace ufp4::detail::scalars::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_TYPES {

using scalars::coded, scalars::small_float;
template <class T>
concept number = scalars::number<T>;

}  // namespace ufp4::detail::inline UFP4_TYPES
