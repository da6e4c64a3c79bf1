// ufp4 - cast: a quantized matrix in another block format, without loss where its values and scales fit.
// SPDX-License-Identifier: Apache-2.0
//
//   auto nv = ufp4::cast<ufp4::nvfp4>(mx);            // of mxfp4: exact if all scales are within 2^17 of each other
//   ufp4::cast_report report;
//   auto mx = ufp4::cast<ufp4::mxfp4>(nv, report);    // with loss: report.sqnr_db()
//
// A block that fits keeps its codes (in another encoding where the element type differs) under the same effective
// scale. Any other block is quantized from its decoded values, and counted. Numerics 5, "Casts".
#pragma once

#include <cmath>
#include <ufp4/dequantize.hpp>
#include <vector>

namespace ufp4::inline UFP4_TYPES {

/// What a cast could not keep. A block is one of the result.
struct cast_report {
  std::uint64_t blocks = 0;            ///< of the result, padding included
  std::uint64_t inexact_blocks = 0;    ///< with a value that differs; blocks that became NaN count
  std::uint64_t inexact_elements = 0;  ///< values that differ; -0 and 0 are the same value
  double signal = 0, noise = 0;        ///< sums of squares of the values, and of the differences, where both are finite

  /// 10 log10(signal / noise): infinite if nothing was lost.
  double sqnr_db() const { return 10 * std::log10(signal / noise); }

  /// Adds the counts of another report.
  cast_report& operator+=(const cast_report& other) {
    blocks += other.blocks, inexact_blocks += other.inexact_blocks, inexact_elements += other.inexact_elements;
    signal += other.signal, noise += other.noise;
    return *this;
  }
};

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_CODE {

/// The codes of one grid on another whose values are `ratio` times as large, a power of two.
struct code_map {
  std::uint8_t code[16] = {};
  bool exists[16] = {};
  float ratio = 1;
};

inline float smallest_step(const grid4& g) {
  return g.zero + 1 < g.levels ? g.level[g.zero + 1] : -g.level[g.zero - 1];
}

inline code_map map_codes(const grid4& from, const grid4& to) {
  code_map m;
  const float ratio = smallest_step(to) / smallest_step(from);
  if ((to_bits(ratio) & 0x007FFFFFu) == 0) m.ratio = ratio;
  for (int c = 0; c < 16; ++c) {
    const float wanted = from.value[c] * m.ratio;
    for (std::uint8_t k = 0; k < 16; ++k) {
      const bool same_bits = to_bits(to.value[k]) == to_bits(wanted);
      if (to.value[k] == wanted && (same_bits || !m.exists[c])) m.code[c] = k, m.exists[c] = true;
    }
  }
  return m;
}

/// One call of cast.
struct cast_job {
  quantized_source from;
  format_spec to;
  code_map map;
  tensor_constants tensor;  ///< of the result
  std::size_t padded_cols;  ///< of the result
  std::uint8_t* codes;
  void* scales;

  std::size_t length() const { return static_cast<std::size_t>(to.block.cols); }
  std::size_t height() const { return static_cast<std::size_t>(to.block.rows); }
  /// fl(block scale * tensor scale) of the block at a column of a strip, or 0 beyond the padding.
  float effective(std::size_t strip, std::size_t col) const {
    if (col >= from.padded_cols) return 0.0f;
    const std::size_t block = col / static_cast<std::size_t>(from.format.block.cols);
    const std::size_t at = from.scale_index(strip * height(), block);
    return decode_scale(from.format.scale, load_scale(from.scales, from.format.scale, at)) * from.tensor_scale;
  }
  std::uint8_t code(std::size_t row, std::size_t col) const {
    if (col >= from.padded_cols) return from.format.grid.code[from.format.grid.zero];
    return code_at(from.codes + row * from.padded_cols / 2, col);
  }
};

/// The tensor scale of the result (numerics 5): from the tensor scale, or a power of two from the largest scale.
inline float cast_tensor_scale(const cast_job& job) {
  const format_spec &from = job.from.format, &to = job.to;
  if (!to.has_tensor_scale()) return 1.0f;
  if (from.has_tensor_scale() && from.scale == to.scale) return job.from.tensor_scale / job.map.ratio;
  float largest = 0.0f;
  for (std::size_t r = 0; r < job.from.rows; r += job.height())
    for (std::size_t k = 0; k < job.from.padded_cols; k += static_cast<std::size_t>(from.block.cols)) {
      const float e = job.effective(r / job.height(), k) / job.map.ratio;
      if (e <= max_finite && e > largest) largest = e;
    }
  if (largest == 0.0f) return 1.0f;
  const float most = decode_scale(to.scale, max_scale(to.scale));
  int t = floor_log2(largest) - floor_log2(most);
  if (static_cast<double>(largest) > std::ldexp(static_cast<double>(most), t)) ++t;
  return exp2i(t < -126 ? -126 : t > 127 ? 127 : t);
}

/// One block of the result: whether it can be written directly, and its scale if so.
struct cast_block {
  bool direct = true, is_nan = false;
  std::uint32_t scale = 0;
};

/// The scale of the result for an effective scale, if it is the same number.
inline bool scale_of_cast(const cast_job& job, float effective, std::uint32_t& bits) {
  const float wanted = effective / job.map.ratio;
  bits = encode_scale(job.to.scale, job.to.has_tensor_scale() ? wanted / job.tensor.decode : wanted);
  const float got = rounded(decode_scale(job.to.scale, bits) * job.tensor.decode);
  return got == wanted && rounded(wanted * job.map.ratio) == effective;
}

inline cast_block classify(const cast_job& job, std::size_t strip, std::size_t col) {
  cast_block b;
  float scale = 0.0f;
  const std::size_t first = strip * job.height(), left = job.from.rows - first;
  const std::size_t rows = left < job.height() ? left : job.height();
  for (std::size_t k = col; k < col + job.length(); ++k) {
    const float e = job.effective(strip, k);
    b.is_nan = b.is_nan || !(e <= max_finite);
    for (std::size_t r = first; r < first + rows; ++r) {
      const std::uint8_t c = job.code(r, k);
      if (e == 0.0f || job.from.format.grid.value[c] == 0.0f) continue;
      b.direct = b.direct && job.map.exists[c] && (scale == 0.0f || scale == e);
      scale = e;
    }
  }
  if (b.is_nan) b.scale = nan_scale(job.to.scale);
  if (!b.is_nan && b.direct && scale != 0.0f) b.direct = scale_of_cast(job, scale, b.scale);
  return b;
}

/// A strip in memory: decoded values, and their codes and scales in the new format.
struct cast_strip {
  buffer<float> values;
  buffer<std::uint8_t> codes;
  buffer<std::byte> scales;
  bool quantized = false;

  explicit cast_strip(const cast_job& job)
      : values(job.height() * job.padded_cols),
        codes(job.height() * job.padded_cols / 2),
        scales(job.padded_cols / job.length() * static_cast<std::size_t>(scale_bytes(job.to.scale))) {}
};

inline void decode_strip(const cast_job& job, std::size_t strip, cast_strip& s) {
  for (std::size_t r = 0; r < job.height(); ++r)
    for (std::size_t k = 0; k < job.padded_cols; ++k) {
      const std::size_t row = strip * job.height() + r;
      const float value = row < job.from.rows ? job.from.format.grid.value[job.code(row, k)] : 0.0f;
      s.values.data()[r * job.padded_cols + k] = value * job.effective(strip, k);
    }
}

/// Quantizes the decoded strip under mse_search.
inline void quantize_strip(const cpu::context& ctx, const cast_job& job, cast_strip& s) {
  const std::size_t cols = job.padded_cols;
  cpu::detail::quantize_job q{
      .x = {s.values.data(), dtype::f32, job.height(), cols, static_cast<std::ptrdiff_t>(cols), 1}, .format = job.to};
  q.padded_cols = q.whole_padded_cols = cols;
  const block_coder<rounding_spec> coder{job.to, mse_search{}.spec(), job.tensor, {}};
  const auto& table = cpu::detail::kernels::quantize<quantize_needs::all>;
  quantize_report ignored;
  cpu::detail::quantize_kernel_for(table, q, coder, cpu::resolve(ctx))
      .kernel(q, coder, {s.codes.data(), s.scales.data()}, 0, 1, ignored);
  s.quantized = true;
}

/// The code of an element of the result.
inline std::uint8_t cast_code(const cast_job& job, const cast_block& b, const cast_strip& s, std::size_t strip,
                              std::size_t r, std::size_t k) {
  const grid4 &from = job.from.format.grid, &to = job.to.grid;
  if (b.is_nan) return to.code[to.zero];
  if (!b.direct) return code_at(s.codes.data() + r * job.padded_cols / 2, k);
  const std::uint8_t c = job.code(strip * job.height() + r, k);
  const bool vanished = from.value[c] != 0.0f && s.values.data()[r * job.padded_cols + k] == 0.0f;
  return vanished ? to.code[to.zero] : job.map.code[c];
}

/// Adds an element that was x and is q.
inline std::uint64_t count_cast_error(float x, float q, bool is_nan, cast_report& report) {
  if (is_nan) return x == x ? 1 : 0;
  const double lost = q == x ? 0.0 : static_cast<double>(q) - static_cast<double>(x);
  if (magnitude(x) <= max_finite && magnitude(q) <= max_finite) {
    report.signal += static_cast<double>(x) * static_cast<double>(x);
    report.noise += lost * lost;
  }
  return lost != 0 ? 1 : 0;
}

/// Writes the block at `col` of a strip, and counts its errors.
inline void write_block(const cast_job& job, std::size_t strip, std::size_t col, const cast_block& b,
                        const cast_strip& s, cast_report& report) {
  const std::size_t block = col / job.length(), blocks = job.padded_cols / job.length();
  const bool copies = !b.direct && !b.is_nan;
  const std::uint32_t bits = copies ? load_scale(s.scales.data(), job.to.scale, block) : b.scale;
  store_scale(job.scales, job.to.scale, strip * blocks + block, bits);
  const float effective = rounded(decode_scale(job.to.scale, bits) * job.tensor.decode);
  std::uint64_t differ = 0;
  for (std::size_t r = 0; r < job.height() && strip * job.height() + r < job.from.rows; ++r) {
    std::uint8_t* out = job.codes + (strip * job.height() + r) * job.padded_cols / 2;
    for (std::size_t k = col; k < col + job.length(); ++k) {
      const std::uint8_t c = cast_code(job, b, s, strip, r, k);
      out[k / 2] = static_cast<std::uint8_t>(k % 2 == 0 ? c : out[k / 2] | c << 4);
      const float x = s.values.data()[r * job.padded_cols + k];
      differ += count_cast_error(x, rounded(job.to.grid.value[c] * effective), b.is_nan, report);
    }
  }
  report.blocks += 1;
  report.inexact_blocks += differ != 0 ? 1 : 0;
  report.inexact_elements += differ;
}

inline cast_report cast_one_strip(const cpu::context& ctx, const cast_job& job, std::size_t strip) {
  cast_report report;
  cast_strip s(job);
  decode_strip(job, strip, s);
  for (std::size_t k = 0; k < job.padded_cols; k += job.length()) {
    const cast_block b = classify(job, strip, k);
    if (!b.direct && !b.is_nan && !s.quantized) quantize_strip(ctx, job, s);
    write_block(job, strip, k, b, s, report);
  }
  return report;
}

/// All strips, in the exact floating-point environment; the sums of a report are added in the order of the strips.
inline cast_report cast_strips(const cpu::context& ctx, cast_job& job) {
  cpu::detail::parallel_for(ctx, 1, [&](std::size_t) {
    const float scale = cast_tensor_scale(job), factor = 1.0f / scale;
    job.tensor = {scale, (factor < max_finite ? factor : max_finite) * (1.0f / job.to.grid.qmax)};
  });
  const std::size_t strips = scale_rows(job.from.rows, job.to.block);
  std::vector<cast_report> reports(strips);
  cpu::detail::parallel_rows(ctx, strips, job.height() * job.padded_cols, [&](std::size_t first, std::size_t last) {
    for (std::size_t strip = first; strip < last; ++strip) reports[strip] = cast_one_strip(ctx, job, strip);
  });
  cast_report all;
  for (const cast_report& r : reports) all += r;
  return all;
}

inline void check_cast(const char* operation, const any_quantized_view& q, const format_spec& to) {
  check_format(operation, to);
  expects(!q.spec().is_wide() && !to.is_wide(), operation, ": a format with elements of one byte cannot be cast");
  expects(!is_extended(q.spec()), operation, ": format not available: the matrix has ", extended_parts);
  expects(!is_extended(to), operation, ": format not available: the result has ", extended_parts);
  expects(q.spec().block.rows == to.block.rows, operation, ": both formats need blocks of as many rows, got ",
          q.spec().block.rows, " and ", to.block.rows);
}

/// Casts into memory of the sizes of the result, checked. Returns its tensor scale.
inline float cast_to(const cpu::context& ctx, const any_quantized_view& q, const format_spec& to,
                     const quantized_storage& memory, cast_report& report) {
  cast_job job{quantized_source_of(q),
               to,
               map_codes(q.spec().grid, to.grid),
               {},
               padded_length(q.cols(), to.block, q.transform()),
               memory.codes.data(),
               memory.scales.data()};
  report += cast_strips(ctx, job);
  return job.tensor.decode;
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_CODE {

/// q in another format, in the transformed domain of q.
///
/// | exact blocks | the values times a power of two are on the grid of `to`, and the effective scale over it is one |
/// |              | of its scales: the decoded values are the same numbers                                           |
/// | other blocks | quantized from the decoded values, nearest even, under mse_search; counted in `report`           |
/// | tensor scale | that of q where the scale types are the same; else a power of two that the largest scale fits    |
/// | NaN blocks   | NaN blocks; a block of the result with a part of one is NaN                                      |
/// | errors       | std::invalid_argument for blocks of different numbers of rows, elements of one byte, or an       |
/// |              | invalid format                                                                                   |
/// | bits         | numerics 5; the same on every instruction set and with every number of threads                   |
inline any_quantized cast(const cpu::context& ctx, const any_quantized_view& q, const format_spec& to,
                          cast_report& report) {
  detail::check_cast("cast", q, to);
  any_quantized out(to, q.rows(), q.cols(), q.transform());
  out.set_tensor_scale(detail::cast_to(ctx, q, to, out.storage(), report));
  return out;
}
/// The same into the caller's memory of storage_size(to, q.rows(), q.cols(), q.transform()), which must not overlap q.
/// The returned view refers to it.
inline any_quantized_view cast_into(const cpu::context& ctx, const any_quantized_view& q, const format_spec& to,
                                    const quantized_storage& memory, cast_report& report) {
  constexpr const char* operation = "cast_into";
  detail::check_cast(operation, q, to);
  detail::check_spans(operation, {to, 1.0f, q.rows(), q.cols(), q.transform()}, memory.codes, memory.scales);
  detail::check_memory_apart(operation, q, memory);
  const float scale = detail::cast_to(ctx, q, to, memory, report);
  return {to, memory.codes, memory.scales, scale, q.rows(), q.cols(), q.transform()};
}
/// The same on all cores, with or without a report.
inline any_quantized cast(const any_quantized_view& q, const format_spec& to, cast_report& report) {
  return cast(cpu::context{}, q, to, report);
}
inline any_quantized cast(const any_quantized_view& q, const format_spec& to) {
  cast_report ignored;
  return cast(q, to, ignored);
}
/// The same with the format as a type: cast<nvfp4>(q).
template <any_block_format To, quantized_like Q>
quantized_matrix<To> cast(const cpu::context& ctx, const Q& q, cast_report& report) {
  return quantized_matrix<To>(cast(ctx, any_quantized_view(q), spec_of<To>, report));
}
template <any_block_format To, quantized_like Q>
quantized_matrix<To> cast(const Q& q, cast_report& report) {
  return cast<To>(cpu::context{}, q, report);
}
template <any_block_format To, quantized_like Q>
quantized_matrix<To> cast(const Q& q) {
  cast_report ignored;
  return cast<To>(q, ignored);
}

}  // namespace ufp4::inline UFP4_CODE
