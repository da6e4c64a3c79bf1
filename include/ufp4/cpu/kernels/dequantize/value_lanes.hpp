// ufp4 - dequantize: values of a row to memory, over one instruction set's lanes.
// SPDX-License-Identifier: Apache-2.0
#if !defined(UFP4_VALUE_LANES)
#define UFP4_VALUE_LANES
#include <ufp4/cpu/kernel_tables.hpp>
#include <ufp4/cpu/kernels/kernels_scalar.hpp>
#include <ufp4/cpu/simd/lanes.hpp>

UFP4_BEGIN_LANES(dequantize_kernel)

inline constexpr std::size_t group = 16, group_regs = group / lanes;

/// Every NaN becomes the quiet NaN, of which a rounding that adds to its bits leaves a NaN.
UFP4_LANE f32 quiet_nans(f32 v) { return v == v ? v : as_float(broadcast(0x7FC00000u)); }

/// Writes `live` values to row i from column k on.
inline void store_values(const sink& out, std::size_t i, std::size_t k, std::size_t live, const float* values) {
  std::size_t done = 0;
  if (out.col_stride == 1 && out.kind != dtype::f32) {
    auto* half = static_cast<std::uint16_t*>(out.data) + out.offset(i, k);
    for (; done + lanes <= live; done += lanes)
      store(half + done,
            out.kind == dtype::bf16 ? narrow_bf16(quiet_nans(load(values + done))) : narrow_fp16(load(values + done)));
  }
  if (done != live) store_row(out, i, k + done, live - done, values + done);
}
UFP4_END_LANES
#endif
