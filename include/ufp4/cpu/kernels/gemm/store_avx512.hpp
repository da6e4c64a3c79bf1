// ufp4 - from sums to elements of C with AVX-512: store_part, sixteen elements at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ufp4/cpu/kernels/gemm/store_part.hpp>
#include <ufp4/cpu/simd/avx512.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX512)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace avx512 {

/// The first `count` of sixteen elements at p; other lanes are zero.
template <class V>
UFP4_LANE V load_some(const void* p, std::size_t count) {
  V v{};
  if (count == lanes) return load_as<V>(p);
  std::memcpy(&v, p, count * sizeof(V) / lanes);
  return v;
}
template <class V>
UFP4_LANE void store_some(void* p, V v, std::size_t count) {
  if (count == lanes) return store(p, v);
  std::memcpy(p, &v, count * sizeof(V) / lanes);
}
UFP4_LANE f32 load_result(const sink& out, const void* p, std::size_t count) {
  if (out.kind == dtype::f32) return load_some<f32>(p, count);
  const half_u16 v = load_some<half_u16>(p, count);
  return out.kind == dtype::bf16 ? widen_bf16(v) : widen_fp16(v);
}
UFP4_LANE void store_result(const sink& out, void* p, f32 v, std::size_t count) {
  if (out.kind == dtype::f32) return store_some(p, v, count);
  store_some(p, out.kind == dtype::bf16 ? narrow_bf16(v) : narrow_fp16(v), count);
}

/// store_part where C's rows are contiguous. `acc` holds whole vectors.
inline void store_sums(const gemm_job& job, const gemm_part& part, const float* acc, std::size_t stride) {
  const result_scales by = detail::scales_of(job);
  const special_range special = special_range::of(job);
  const bool exact = job.mode == accumulate::exact_blocks;
  if (job.out.col_stride != 1 || (!exact && special.has(by.b))) return store_part(job, part, acc, stride);
  const std::ptrdiff_t width = job.out.kind == dtype::f32 ? 4 : 2;
  for (std::size_t i = 0; i < part.rows; ++i)
    for (std::size_t j = 0; j < part.cols; j += lanes) {
      const std::size_t row = part.row + i, col = part.col + j, count = part.cols - j < lanes ? part.cols - j : lanes;
      const f32 v = load(acc + i * stride + j), left = rounded(v * by.a);
      const u32 magnitude = as_bits(exact ? v : left) & ufp4::detail::magnitude_mask;
      const u32 found = reinterpret_cast<u32>(magnitude - special.least >= ufp4::detail::infinity_bits - special.least);
      if (any(found & reinterpret_cast<u32>(as_bits(v) != 0u))) {
        store_part(job, {row, 1, col, count}, acc + i * stride + j, lanes);
        continue;
      }
      f32 r = rounded(left * by.b);
      auto* out = static_cast<std::byte*>(job.out.data) + job.out.offset(row, col) * width;
      if (job.bias != nullptr) r = r + (job.swapped ? broadcast(job.bias[row]) : load_some<f32>(job.bias + col, count));
      if (job.beta != 0.0f) r = fma(broadcast(job.beta), load_result(job.out, out, count), r);
      store_result(job.out, out, r, count);
    }
}

}  // namespace avx512
}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
