// ufp4 - transposing lanes, and the stages of a Hadamard transform across vectors. The only body for all CPU ISAs.
// SPDX-License-Identifier: Apache-2.0
//
// Included by avx512.hpp, avx2.hpp and neon.hpp, inside their target regions and namespaces, after the four shuffles.

/// Transposes four vectors of four lanes in each 16 bytes.
template <class V>
UFP4_LANE void transpose4(V* v) {
  const V ab_low = low_pairs(v[0], v[1]), ab_high = high_pairs(v[0], v[1]);
  const V cd_low = low_pairs(v[2], v[3]), cd_high = high_pairs(v[2], v[3]);
  v[0] = low_quads(ab_low, cd_low);
  v[1] = high_quads(ab_low, cd_low);
  v[2] = low_quads(ab_high, cd_high);
  v[3] = high_quads(ab_high, cd_high);
}

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
