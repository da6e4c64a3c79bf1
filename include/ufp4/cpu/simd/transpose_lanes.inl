// ufp4 - transposing 4 x 4 lanes. The only body for all CPU instruction sets.
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
