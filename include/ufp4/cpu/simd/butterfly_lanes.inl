// ufp4 - the stages of a Hadamard transform across vectors. The only body for all CPU instruction sets.
// SPDX-License-Identifier: Apache-2.0
//
// Included by avx512.hpp, avx2.hpp and neon.hpp, inside their target regions and namespaces.

/// Stages of stride 1, 2, ... count / 2: (a, b) becomes (a + b, a - b), element by element, as butterflies() of
/// hadamard/transform.hpp. The difference is one fma, which rounds once too: where additions have fewer units than
/// fmas, this uses the free ones.
template <std::size_t count>
UFP4_LANE void butterflies(f32 (&v)[count]) {
  const f32 minus_one = broadcast(-1.0f);
#pragma GCC unroll 4
  for (std::size_t stride = 1; stride < count; stride *= 2) {
#pragma GCC unroll 16
    for (std::size_t j = 0; j < count; ++j)
      if ((j & stride) == 0) {
        const f32 a = v[j], b = v[j + stride];
        v[j] = a + b;
        v[j + stride] = fma(b, minus_one, a);
      }
  }
}
