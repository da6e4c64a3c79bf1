// ufp4 - the Hadamard transform of rows over one instruction set's lanes.
// SPDX-License-Identifier: Apache-2.0
//
// Needs the names of simd/, and hadamard_regs: how many registers of a run are transformed at once. A stage of a stride
// below `lanes` is one exchange and one fma with +-1, which rounds a + b and a - b as the scalar code does, zeros
// included; other stages combine registers. A longer run is transformed in parts, then across them in the cache.
#if !defined(UFP4_HADAMARD_LANES)
#define UFP4_HADAMARD_LANES
#include <ufp4/cpu/kernels/kernels_scalar.hpp>
#include <ufp4/cpu/simd/lanes.hpp>

UFP4_BEGIN_LANES(transform_kernel)

/// Constants of a call: `flip` is xored into the input, `factor` multiplies the output. The inverse has its signs in
/// the factors: a product with -c is the negated product.
struct hadamard_constants {
  alignas(64) std::uint32_t flip[max_transform];
  alignas(64) float factor[max_transform];
  f32 sign[4];  ///< strides 1, 2, 4, 8: +1 in the lanes that add, -1 in those that subtract

  hadamard_constants(const transform_spec& t, bool inverse) {
    u32 to_top{};  // shifts that bring the bit of a lane to the sign
    for (std::size_t l = 0; l < lanes; ++l) {
      to_top[l] = static_cast<std::uint32_t>(31 - l);
      for (std::size_t s = 0; s < 4; ++s) sign[s][l] = (l >> s & 1) != 0 ? -1.0f : 1.0f;
    }
    const u32 c = as_bits(broadcast(hadamard_factor(t.n)));
    for (std::size_t j = 0; j < t.n; j += lanes) {
      const u32 minus = (broadcast(t.signs[j / 32] >> j % 32) << to_top) & sign_mask;
      store(flip + j, inverse ? u32{} : minus);
      store(factor + j, inverse ? c ^ minus : c);
    }
  }
};

/// Prefetches the cache lines 4 KiB ahead, since a hardware prefetcher stops at the end of its page. Not for a run of
/// 16 lines: its own loads already occupy as many outstanding lines as a core has.
template <std::size_t regs>
UFP4_LANE void prefetch(const float* x) {
  constexpr std::size_t line = 16, page = 1024;
  for (std::size_t k = 0; regs * lanes < 16 * line && k < regs * lanes; k += line) __builtin_prefetch(x + page + k);
}

/// One stage within registers. All registers finish it before the next stage starts, so that the chains of dependent
/// instructions are short enough for the scheduler of the processor.
template <std::size_t stride, std::size_t regs>
UFP4_LANE void stage(f32 sign, f32 (&v)[regs]) {
#pragma GCC unroll 16
  for (std::size_t r = 0; r < regs; ++r) v[r] = fma(v[r], sign, exchange<stride>(v[r]));
}
template <std::size_t regs>
UFP4_LANE void within(const f32 (&sign)[4], f32 (&v)[regs]) {
  stage<1>(sign[0], v);
  stage<2>(sign[1], v);
  if constexpr (lanes > 4) stage<4>(sign[2], v);
  if constexpr (lanes > 8) stage<8>(sign[3], v);
}

/// `count` runs of `regs` registers, one after the other; y may be x. Two loops for the two kinds of stores: with a
/// branch in one loop compilers do not store while they compute.
template <std::size_t regs, bool past_caches>
void transform_runs(const hadamard_constants& h, const float* x, float* y, std::size_t count) {
  const f32 sign[4] = {h.sign[0], h.sign[1], h.sign[2], h.sign[3]};
  u32 flip[regs];
  f32 factor[regs], v[regs];
  for (std::size_t r = 0; r < regs; ++r)
    flip[r] = load_as<u32>(h.flip + r * lanes), factor[r] = load(h.factor + r * lanes);
  for (; count != 0; --count, x += regs * lanes, y += regs * lanes) {
    prefetch<regs>(x);
#pragma GCC unroll 16
    for (std::size_t r = 0; r < regs; ++r) v[r] = as_float(as_bits(load(x + r * lanes)) ^ flip[r]);
    within(sign, v);
    butterflies(v);
#pragma GCC unroll 16
    for (std::size_t r = 0; r < regs; ++r)
      past_caches ? stream(y + r * lanes, v[r] * factor[r]) : store(y + r * lanes, v[r] * factor[r]);
  }
}

/// `count` runs of parts * hadamard_regs registers.
template <std::size_t parts>
void transform_long_runs(const hadamard_constants& h, const float* x, float* y, std::size_t count) {
  constexpr std::size_t part = hadamard_regs * lanes, n = parts * part;
  const f32 sign[4] = {h.sign[0], h.sign[1], h.sign[2], h.sign[3]};
  for (; count != 0; --count, x += n, y += n) {
    for (std::size_t p = 0; p < n; p += part) {
      f32 v[hadamard_regs];
      prefetch<hadamard_regs>(x + p);
#pragma GCC unroll 16
      for (std::size_t r = 0; r < hadamard_regs; ++r)
        v[r] = as_float(as_bits(load(x + p + r * lanes)) ^ load_as<u32>(h.flip + p + r * lanes));
      within(sign, v);
      butterflies(v);
#pragma GCC unroll 16
      for (std::size_t r = 0; r < hadamard_regs; ++r) store(y + p + r * lanes, v[r]);
    }
    for (std::size_t j = 0; j < part; j += lanes) {
      f32 v[parts];
#pragma GCC unroll 4
      for (std::size_t p = 0; p < parts; ++p) v[p] = load(y + p * part + j);
      butterflies(v);
#pragma GCC unroll 4
      for (std::size_t p = 0; p < parts; ++p) store(y + p * part + j, v[p] * load(h.factor + p * part + j));
    }
  }
}

using run_transform = void(const hadamard_constants&, const float*, float*, std::size_t);

template <bool past_caches = false>
run_transform* transform_of(std::size_t n) {
  constexpr std::size_t least = 16 / lanes;  // registers of the shortest run
  switch (n) {
    case 16: return &transform_runs<least, past_caches>;
    case 32: return &transform_runs<2 * least, past_caches>;
    case 64: return &transform_runs<4 * least, past_caches>;
  }
  if constexpr (hadamard_regs == 16 * least)
    return n == 128 ? &transform_runs<8 * least, past_caches> : &transform_runs<16 * least, past_caches>;
  else
    return n == 128 ? &transform_long_runs<2> : &transform_long_runs<4>;
}

/// A vector of neighbours of any type.
template <dtype kind>
UFP4_LANE f32 load_vector(const void* data, std::ptrdiff_t at) {
  if constexpr (kind == dtype::f32) return load(static_cast<const float*>(data) + at);
  const auto half = load_as<half_u16>(static_cast<const std::uint16_t*>(data) + (kind == dtype::f32 ? 0 : at));
  return kind == dtype::bf16 ? widen_bf16(half) : widen_fp16(half);
}

/// load_row and store_row, by registers where elements are contiguous.
inline void read_row(const source& x, std::size_t i, std::size_t k, std::size_t count, float* out) {
  std::size_t done = 0;
  const auto widen = [&]<dtype kind>() {
    const std::ptrdiff_t first = x.offset(i, k);
    for (; count - done >= lanes; done += lanes)
      store(out + done, load_vector<kind>(x.data, first + static_cast<std::ptrdiff_t>(done)));
  };
  const bool whole = x.col_stride == 1 && count != 0;
  if (whole && x.kind == dtype::f32) widen.operator()<dtype::f32>();
  if (whole && x.kind == dtype::bf16) widen.operator()<dtype::bf16>();
  if (whole && x.kind == dtype::fp16) widen.operator()<dtype::fp16>();
  if (done != count) load_row(x, i, k + done, count - done, out + done);
}
inline void write_row(const sink& x, std::size_t i, std::size_t k, std::size_t count, const float* values) {
  std::size_t done = 0;
  const auto narrow = [&]<dtype kind>() {
    auto* p = static_cast<std::uint16_t*>(x.data) + x.offset(i, k);
    for (; count - done >= lanes; done += lanes) {
      const f32 v = load(values + done);
      store(p + done, kind == dtype::bf16 ? narrow_bf16(v) : narrow_fp16(v));
    }
  };
  const bool whole = x.col_stride == 1 && count != 0;
  if (whole && x.kind == dtype::bf16) narrow.operator()<dtype::bf16>();
  if (whole && x.kind == dtype::fp16) narrow.operator()<dtype::fp16>();
  if (done != count) store_row(x, i, k + done, count - done, values + done);
}

/// Columns from k on, through a buffer: any type and stride, columns that are no whole run, outputs rounded to bf16.
inline void transform_buffered(const transform_spec& t, const hadamard_constants& h, const source& x, const sink& out,
                               std::size_t i, std::size_t k) {
  constexpr std::size_t part = 1024;  // floats, whole runs: the first-level cache keeps them
  alignas(64) float run[part];
  const auto left = [](std::size_t width, std::size_t at) {
    return width <= at ? 0 : width - at < part ? width - at : part;
  };
  for (const std::size_t cols = x.cols > out.cols ? x.cols : out.cols; k < cols; k += part) {
    const std::size_t in = left(x.cols, k), kept = left(out.cols, k), count = ((in > kept ? in : kept) + t.n - 1) / t.n;
    read_row(x, i, k, in, run);
    for (std::size_t j = in; j < count * t.n; ++j) run[j] = 0.0f;
    transform_of(t.n)(h, run, run, count);
    for (std::size_t j = 0; t.rounds_to_bf16 && j < count * t.n; j += lanes)
      store(run + j, as_float(round_bf16(load(run + j)) & 0xFFFF0000u));
    write_row(out, i, k, kept, run);
  }
}

/// Whether the rows of another matrix than x are written past the caches: of 64 MiB or more, which few caches hold.
inline bool writes_past_caches(const source& x, const sink& out) {
  constexpr std::size_t large = std::size_t{1} << 24, line = 64;  // elements; bytes
  return x.data != out.data && out.rows * out.cols >= large && reinterpret_cast<std::uintptr_t>(out.data) % line == 0 &&
         static_cast<std::size_t>(out.row_stride) * sizeof(float) % line == 0;
}

/// Does what hadamard_scalar does.
inline void hadamard_rows(const transform_spec& t, bool inverse, const source& x, const sink& out, std::size_t first,
                          std::size_t last) {
  if (t.n == 1) return hadamard_scalar(t, inverse, x, out, first, last);
  const hadamard_constants h(t, inverse);
  const bool direct =
      x.kind == dtype::f32 && out.kind == dtype::f32 && x.col_stride == 1 && out.col_stride == 1 && !t.rounds_to_bf16;
  const std::size_t narrow = x.cols < out.cols ? x.cols : out.cols, runs = direct ? narrow / t.n : 0;
  const auto packed = [&](const auto& m) { return m.row_stride == static_cast<std::ptrdiff_t>(runs * t.n); };
  const bool joined = runs * t.n == x.cols && x.cols == out.cols && packed(x) && packed(out);
  const std::size_t rows = joined && last > first ? last - first : 1;  // at a time
  const bool past_caches = direct && writes_past_caches(x, out);
  run_transform* const transform = past_caches ? transform_of<true>(t.n) : transform_of(t.n);
  for (std::size_t i = first; i < last; i += rows) {
    if (runs != 0)
      transform(h, static_cast<const float*>(x.data) + x.offset(i, 0), static_cast<float*>(out.data) + out.offset(i, 0),
                runs * rows);
    transform_buffered(t, h, x, out, i, runs * t.n);
  }
  if (past_caches) end_stream();
}
UFP4_END_LANES
#endif
