// ufp4 - hadamard<n>, random_hadamard<n>, signed_hadamard<n>: transforms as policies and as data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <ufp4/concepts.hpp>
#include <ufp4/detail/bits.hpp>
#include <ufp4/round/philox.hpp>

namespace ufp4::detail::inline UFP4_TYPES {

inline constexpr std::uint32_t max_transform = 256;  ///< the longest run

/// c_n: the binary32 number nearest to n^-1/2.
UFP4_MEMBER constexpr float hadamard_factor(std::uint32_t n) {
  return n == 16    ? 0.25f
         : n == 32  ? to_float(0x3E3504F3u)
         : n == 64  ? 0.125f
         : n == 128 ? to_float(0x3DB504F3u)
                    : 0.0625f;
}

/// The run lengths that a transform may have.
template <int n>
concept hadamard_size = n == 16 || n == 32 || n == 64 || n == 128 || n == 256;

}  // namespace ufp4::detail::inline UFP4_TYPES

namespace ufp4::compat::inline UFP4_TYPES {

/// The signs of Transformer Engine's transform with n = 16 (numerics 4).
inline constexpr std::array<int, 16> transformer_engine_signs{1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1};

}  // namespace ufp4::compat::inline UFP4_TYPES

namespace ufp4::inline UFP4_TYPES {

/// A transform as data: y = c_n H_n (d .* x) on every run of n elements, d_j = -1 where bit j of `signs` is set.
/// Quantized matrices store it and kernels read it. n = 1 means no transform.
struct transform_spec {
  std::uint32_t n = 1;          ///< run length: 1, 16, 32, 64, 128 or 256
  bool rounds_to_bf16 = false;  ///< round y to bf16, as Transformer Engine does
  bool signs_valid = true;      ///< false if a given sign was neither +1 nor -1; operations reject it
  std::uint32_t signs[8] = {};  ///< d_j is bit j % 32 of word j / 32

  /// Whether n is one of the lengths above.
  UFP4_MEMBER constexpr bool valid_length() const { return n == 1 || (n >= 16 && n <= 256 && (n & (n - 1)) == 0); }
  /// Whether d_j = -1.
  UFP4_MEMBER constexpr bool negative(unsigned j) const { return (signs[j / 32] >> (j % 32) & 1u) != 0; }
  UFP4_MEMBER constexpr transform_spec spec() const { return *this; }

  /// The signs of random_hadamard<n>{seed} (numerics 4). The last counter word is "RHT4" in ASCII.
  UFP4_MEMBER static constexpr transform_spec random(std::uint32_t n, std::uint64_t seed) {
    transform_spec spec{.n = n};
    for (std::uint32_t j = 0; j < n; j += 32) {
      const detail::philox_counter words = philox4x32({{j / 128, 0, 0, 0x52485434u}}, seed);
      const std::uint32_t live = n - j >= 32 ? 0xFFFFFFFFu : (1u << n) - 1;
      spec.signs[j / 32] = words.word[j / 32 % 4] & live;
    }
    return spec;
  }

  /// Whether two transforms are the same linear map: equal n and signs. Rounding to bf16 does not count.
  UFP4_MEMBER friend constexpr bool same_map(const transform_spec& a, const transform_spec& b) {
    bool same = a.n == b.n;
    for (int w = 0; a.n > 1 && w < 8; ++w) same = same && a.signs[w] == b.signs[w];
    return same;
  }
};

/// The Hadamard transform H_n without signs.
template <int n>
  requires detail::hadamard_size<n>
struct hadamard {
  bool rounds_to_bf16 = false;  ///< set by to_bf16()
  UFP4_MEMBER constexpr hadamard to_bf16() const { return {true}; }
  UFP4_MEMBER constexpr transform_spec spec() const { return {.n = n, .rounds_to_bf16 = rounds_to_bf16}; }
};

/// Random signs from a seed, then H_n. Equal seeds give equal signs on every backend.
template <int n>
  requires detail::hadamard_size<n>
struct random_hadamard {
  std::uint64_t seed = 0;       ///< of the signs; both operands of a product need the same
  bool rounds_to_bf16 = false;  ///< set by to_bf16()
  UFP4_MEMBER constexpr random_hadamard to_bf16() const { return {seed, true}; }
  UFP4_MEMBER constexpr transform_spec spec() const {
    transform_spec spec = transform_spec::random(n, seed);
    spec.rounds_to_bf16 = rounds_to_bf16;
    return spec;
  }
};

/// Explicit signs, each +1 or -1, then H_n. The operations reject any other number with std::invalid_argument.
template <int n>
  requires detail::hadamard_size<n>
class signed_hadamard {
  static constexpr auto length = static_cast<std::size_t>(n);

 public:
  /// signs[j], of any arithmetic type, is d_j. Host code only: std::array has no device code.
  template <class T = int>
  UFP4_HOST_MEMBER constexpr explicit signed_hadamard(const std::array<T, length>& signs) {
    for (std::uint32_t j = 0; j < n; ++j) {
      if (signs[j] == T(-1)) spec_.signs[j / 32] |= 1u << (j % 32);
      spec_.signs_valid = spec_.signs_valid && (signs[j] == T(1) || signs[j] == T(-1));
    }
  }

  constexpr signed_hadamard to_bf16() const {
    signed_hadamard copy = *this;
    copy.spec_.rounds_to_bf16 = true;
    return copy;
  }
  UFP4_MEMBER constexpr transform_spec spec() const { return spec_; }

 private:
  transform_spec spec_{.n = n};
};

static_assert(detail::transform<hadamard<16>> && detail::transform<random_hadamard<256>> &&
              detail::transform<signed_hadamard<16>> && detail::transform<transform_spec>);

}  // namespace ufp4::inline UFP4_TYPES
