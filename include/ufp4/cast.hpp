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
#include <cstring>
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

/// The smallest positive value; of a grid without one, the smallest magnitude of the negative values.
inline float smallest_step(const grid4& g) {
  return g.zero + 1 < g.levels ? g.level[g.zero + 1] : -g.level[g.zero - 1];
}

inline code_map map_codes(const grid4& from, const grid4& to) {
  code_map m;
  const float ratio = smallest_step(to) / smallest_step(from);
  if ((to_bits(ratio) & 0x007FFFFFu) == 0 && ratio >= 0x1p-126f && ratio <= max_finite) m.ratio = ratio;
  for (int c = 0; c < 16; ++c) {
    const double wanted = static_cast<double>(from.value[c]) * static_cast<double>(m.ratio);  // exact
    bool same_sign = false;                                                                   // of zeros
    for (std::uint8_t k = 0; k < 16 && !same_sign; ++k) {
      if (static_cast<double>(to.value[k]) != wanted) continue;
      same_sign = is_negative(to.value[k]) == is_negative(from.value[c]);
      if (same_sign || !m.exists[c]) m.code[c] = k, m.exists[c] = true;
    }
  }
  return m;
}

/// Of every grid of one format on every grid of another, and the first grid that has every value of the first one.
struct code_maps {
  code_map map[4][4];  ///< by the number of the grid of q, and of `to`
  int whole = 0;       ///< g* of numerics 5

  code_maps(const format_spec& from, const format_spec& to) {
    for (int h = 0; h <= from.choice.count; ++h)
      for (int g = 0; g <= to.choice.count; ++g) map[h][g] = map_codes(nth_grid(from, h), nth_grid(to, g));
    for (int g = to.choice.count; g >= 0; --g) {
      bool all = true;
      for (const bool exists : map[0][g].exists) all = all && exists;
      if (all) whole = g;
    }
  }
};
struct cast_job {
  quantized_source from;
  format_spec to;
  code_maps maps;
  std::size_t padded_cols;  ///< of the result
  std::uint8_t* codes;
  void* scales;
  float tensor_scale = 1;  ///< of the result

  std::size_t length() const { return static_cast<std::size_t>(to.block.cols); }
  std::size_t height() const { return static_cast<std::size_t>(to.block.rows); }
  std::size_t source_length() const { return static_cast<std::size_t>(from.format.block.cols); }
  /// What q stores for its block at a column of a strip, a column that q has.
  std::uint32_t stored(std::size_t strip, std::size_t col) const {
    return load_block(from.scales, from.format, from.scale_index(strip * height(), col / source_length()));
  }
  /// The outer scale of q there; 1 if it has none.
  float outer(std::size_t strip, std::size_t col) const {
    return from.format.has_outer_array() ? from.outer_scale(strip * height(), col / source_length())
                                         : from.tensor_scale;
  }
  std::uint8_t code(std::size_t row, std::size_t col) const {
    if (col >= from.padded_cols) return from.format.grid.code[from.format.grid.zero];
    return code_at(from.codes + row * from.padded_cols / 2, col);
  }
};

/// A column of a strip of q: the number of its grid, the effective scale of its block, two to its one-bit exponents;
/// scales of 0 beyond the padding of q.
struct cast_column {
  int grid = 0;
  float effective = 0, power = 1;
  float scale() const { return effective * power; }  ///< e of numerics 5
};
inline cast_column column_of(const cast_job& job, std::size_t strip, std::size_t col) {
  if (col >= job.from.padded_cols) return {};
  const format_spec& f = job.from.format;
  const std::uint32_t bits = job.stored(strip, col);
  const float effective = rounded(decode_block(f, bits) * job.outer(strip, col));
  return {grid_number(f, bits), effective, exp2i(exponent_of(f, bits, static_cast<int>(col % job.source_length())))};
}
struct cast_scope {
  std::size_t first_strip, last_strip, first_col, last_col;
};

/// The least power of two, up to `limit`, under which the block scales reach `largest`.
inline float power_for(scale_kind scale, float largest, float limit) {
  if (largest == 0.0f) return 1.0f;
  const float most = decode_scale(scale, max_scale(scale));
  int t = floor_log2(largest) - floor_log2(most);
  if (static_cast<double>(largest) > std::ldexp(static_cast<double>(most), t)) ++t;
  const int last = floor_log2(limit);
  return exp2i(t < -126 ? -126 : t > last ? last : t);
}

/// The outer scale of the result for a scope (numerics 5): from that of q, or a power of two from its largest scale.
inline float cast_outer_scale(const cast_job& job, const cast_scope& scope) {
  const format_spec &from = job.from.format, &to = job.to;
  const int g = job.maps.whole;
  const float factor = factor_of(to, g), power = exp2i(exponent_levels(from.block));
  const bool representable = to.outer.type == scale_kind::f32 || from == to;
  bool keeps = from.two_level() && from.scale == to.scale && representable, any = false;
  float kept = 1.0f, largest = 0.0f;
  const std::size_t end = scope.last_col < job.from.padded_cols ? scope.last_col : job.from.padded_cols;
  for (std::size_t s = scope.first_strip; s < scope.last_strip; ++s)
    for (std::size_t k = scope.first_col; k < end; k = (k / job.source_length() + 1) * job.source_length()) {
      const float outer = job.outer(s, k);
      keeps = keeps && (!any || outer == kept);
      kept = outer, any = true;
      const std::uint32_t bits = job.stored(s, k);
      const float e = rounded(decode_block(from, bits) * outer) * power;
      const float part = magnitude(e / rounded(job.maps.map[grid_number(from, bits)][g].ratio * factor));
      if (part <= max_finite && part > largest) largest = part;
    }
  const float limit = outer_bounds::of(to, {}).decode, quotient = kept / rounded(job.maps.map[0][g].ratio * factor);
  if (keeps && any && quotient > 0.0f && quotient <= limit) return quotient;
  return power_for(to.scale, largest, limit);
}

/// One block of the result: whether it can be written directly, on which grid, and what is stored for it then.
struct cast_block {
  bool direct = true, is_nan = false;
  int grid = 0;
  std::uint32_t bits = 0;
};

/// What is stored for a block of the result on grid g for e, if its scale is the same number.
inline bool scale_of_cast(const cast_job& job, float ratio, int g, float outer, float e, std::uint32_t& bits) {
  const float wanted = e / ratio;
  bits = encode_scale(job.to.scale, wanted / rounded(outer * factor_of(job.to, g)));
  bits = with_grid_number(job.to, bits, g);
  const float got = rounded(decode_block(job.to, bits) * outer);
  return magnitude(wanted) <= max_finite && grid_number(job.to, bits) == g && got == wanted &&
         rounded(wanted * ratio) == e;
}

/// Whether a block whose elements other than 0 have these codes and this scale is direct on a grid, which it then gets.
inline bool fits_directly(const cast_job& job, const cast_column& one, std::uint32_t codes, float outer,
                          cast_block& b) {
  for (int g = 0; g <= job.to.choice.count; ++g) {
    const code_map& m = job.maps.map[one.grid][g];
    bool exist = true;
    for (int c = 0; c < 16; ++c) exist = exist && ((codes >> c & 1) == 0 || m.exists[c]);
    if (!exist || !scale_of_cast(job, m.ratio, g, outer, one.scale(), b.bits)) continue;
    b.grid = g;
    return true;
  }
  return false;
}

/// The block at `col` of a strip, under the outer scale of the result.
inline cast_block classify(const cast_job& job, std::size_t strip, std::size_t col, float outer) {
  cast_block b;
  cast_column one;  // what the elements other than 0 have
  std::uint32_t codes = 0;
  const std::size_t first = strip * job.height(), left = job.from.rows - first;
  const std::size_t rows = left < job.height() ? left : job.height();
  for (std::size_t k = col; k < col + job.length(); ++k) {
    const cast_column c = column_of(job, strip, k);
    b.is_nan = b.is_nan || !(magnitude(c.effective) <= max_finite);
    for (std::size_t r = first; r < first + rows; ++r) {
      const std::uint8_t code = job.code(r, k);
      if (c.scale() == 0.0f || nth_grid(job.from.format, c.grid).value[code] == 0.0f) continue;
      b.direct = b.direct && (codes == 0 || (one.scale() == c.scale() && one.grid == c.grid));
      one = c, codes |= 1u << code;
    }
  }
  if (b.is_nan) b.bits = nan_scale(job.to.scale);
  if (b.is_nan || codes == 0) {
    b.direct = !b.is_nan;
    return b;
  }
  if (job.to.block.group[0] != 0 && job.from.format == job.to && job.outer(strip, col) == outer) {
    b.direct = true, b.bits = job.stored(strip, col);
    return b;
  }
  if (b.direct) b.direct = fits_directly(job, one, codes, outer, b);
  return b;
}

/// A strip in memory: decoded values, and their codes and what is stored for each block in the new format.
struct cast_strip {
  buffer<float> values;
  buffer<std::uint8_t> codes;  ///< one a byte
  buffer<std::uint32_t> blocks;

  explicit cast_strip(const cast_job& job)
      : values(job.height() * job.padded_cols),
        codes(job.height() * job.padded_cols),
        blocks(job.padded_cols / job.length()) {}
};

inline void decode_strip(const cast_job& job, std::size_t strip, cast_strip& s) {
  for (std::size_t k = 0; k < job.padded_cols; ++k) {
    const cast_column c = column_of(job, strip, k);
    for (std::size_t r = 0; r < job.height(); ++r) {
      const std::size_t row = strip * job.height() + r;
      const float value = row < job.from.rows ? nth_grid(job.from.format, c.grid).value[job.code(row, k)] : 0.0f;
      s.values.data()[r * job.padded_cols + k] = rounded(value * c.power) * c.effective;
    }
  }
}

/// Quantizes columns first .. last - 1 of the decoded strip, which one outer scale covers, under that scale.
inline void quantize_columns(const cpu::context& ctx, const cast_job& job, std::size_t first, std::size_t last,
                             float outer, cast_strip& s) {
  const std::size_t width = last - first, blocks = width / job.length();
  format_spec f = job.to;
  if (f.has_outer_array()) f.outer.span = outer_scale::kind::tensor, f.outer.segment = 0;
  const int bytes = block_bytes(f.scale, f.choice.count, f.block);
  cpu::detail::quantize_job q{
      .x = {s.values.data() + first, dtype::f32, job.height(), width, static_cast<std::ptrdiff_t>(job.padded_cols), 1},
      .format = f};
  q.padded_cols = q.whole_padded_cols = width;
  const float encode = at_most(1.0f / outer, max_finite);
  const kernel_coder coder{f, mse_search{}.spec(), {outer, scale_factor_of(encode, qmax_of(f, 0)), encode}, {}};
  const auto& table = cpu::detail::kernels::quantize < format_features | features::search > ;
  buffer<std::uint8_t> codes(job.height() * width / 2);
  buffer<std::byte> scales(blocks * static_cast<std::size_t>(bytes));
  quantize_report ignored;
  cpu::detail::quantize_kernel_for(table, q, coder, cpu::resolve(ctx))
      .kernel(q, coder, {codes.data(), scales.data()}, 0, 1, ignored);
  for (std::size_t r = 0; r < job.height(); ++r)
    for (std::size_t k = 0; k < width; ++k)
      s.codes.data()[r * job.padded_cols + first + k] = code_at(codes.data() + r * width / 2, k);
  for (std::size_t b = 0; b < blocks; ++b)
    s.blocks.data()[first / job.length() + b] = load_bits(scales.data(), bytes, b);
}
inline std::uint8_t cast_code(const cast_job& job, const cast_block& b, const cast_strip& s, std::size_t strip,
                              std::size_t r, std::size_t k) {
  const grid4& to = nth_grid(job.to, b.grid);
  if (b.is_nan) return to.code[to.zero];
  if (!b.direct) return s.codes.data()[r * job.padded_cols + k];
  const std::uint8_t c = job.code(strip * job.height() + r, k);
  const bool is_zero = s.values.data()[r * job.padded_cols + k] == 0.0f;
  if (!is_zero && job.from.format.choice.count == 0) return job.maps.map[0][b.grid].code[c];
  const cast_column column = column_of(job, strip, k);
  const bool vanished = column.scale() == 0.0f && nth_grid(job.from.format, column.grid).value[c] != 0.0f;
  return vanished ? to.code[to.zero] : job.maps.map[column.grid][b.grid].code[c];
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
inline void write_block(const cast_job& job, std::size_t strip, std::size_t col, const cast_block& b, float outer,
                        const cast_strip& s, cast_report& report) {
  const std::size_t block = col / job.length();
  const scale_strip layout = scale_strip_of(job.to, job.padded_cols);
  const std::uint32_t bits = b.direct || b.is_nan ? b.bits : s.blocks.data()[block];
  store_bits(static_cast<char*>(job.scales) + strip * layout.bytes(), static_cast<int>(layout.block_bytes), block,
             bits);
  const float effective = rounded(decode_block(job.to, bits) * outer);
  std::uint64_t differ = 0;
  for (std::size_t r = 0; r < job.height() && strip * job.height() + r < job.from.rows; ++r) {
    std::uint8_t* out = job.codes + (strip * job.height() + r) * job.padded_cols / 2;
    for (std::size_t k = col; k < col + job.length(); ++k) {
      const std::uint8_t c = cast_code(job, b, s, strip, r, k);
      out[k / 2] = static_cast<std::uint8_t>(k % 2 == 0 ? c : out[k / 2] | c << 4);
      const float x = s.values.data()[r * job.padded_cols + k];
      const float power = exp2i(exponent_of(job.to, bits, static_cast<int>(k - col)));
      differ += count_cast_error(x, rounded(element_value(job.to, bits, c) * power * effective), b.is_nan, report);
    }
  }
  report.blocks += 1;
  report.inexact_blocks += differ != 0 ? 1 : 0;
  report.inexact_elements += differ;
}

/// Columns first .. last - 1 of a strip, which one outer scale covers.
inline void cast_columns(const cpu::context& ctx, const cast_job& job, std::size_t strip, std::size_t first,
                         std::size_t last, float outer, cast_strip& s, cast_report& report) {
  bool quantized = false;
  for (std::size_t k = first; k < last; k += job.length()) {
    const cast_block b = classify(job, strip, k, outer);
    if (!b.direct && !b.is_nan && !quantized) quantize_columns(ctx, job, first, last, outer, s), quantized = true;
    write_block(job, strip, k, b, outer, s, report);
  }
}

inline cast_report cast_one_strip(const cpu::context& ctx, const cast_job& job, std::size_t strip) {
  cast_report report;
  cast_strip s(job);
  decode_strip(job, strip, s);
  const std::size_t covered = outer_columns(job.to, job.padded_cols);
  if (covered == 0) {
    cast_columns(ctx, job, strip, 0, job.padded_cols, job.tensor_scale, s, report);
    return report;
  }
  const scale_strip layout = scale_strip_of(job.to, job.padded_cols);
  char* const scales = static_cast<char*>(job.scales) + strip * layout.bytes();
  const std::size_t used = layout.blocks * layout.block_bytes;
  std::memset(scales + used, 0, layout.outer_at() - used);
  for (std::size_t first = 0; first < job.padded_cols; first += covered) {
    const std::size_t last = first + covered < job.padded_cols ? first + covered : job.padded_cols;
    const float outer = cast_outer_scale(job, {strip, strip + 1, first, last});
    store_scale(scales + layout.outer_at(), job.to.outer.type, first / covered, encode_scale(job.to.outer.type, outer));
    cast_columns(ctx, job, strip, first, last, outer, s, report);
  }
  return report;
}

/// All strips, in the exact floating-point environment; the sums of a report are added in the order of the strips.
inline cast_report cast_strips(const cpu::context& ctx, cast_job& job) {
  const std::size_t strips = scale_rows(job.from.rows, job.to.block);
  if (job.to.has_tensor_scale())
    cpu::detail::parallel_for(
        ctx, 1, [&](std::size_t) { job.tensor_scale = cast_outer_scale(job, {0, strips, 0, job.padded_cols}); });
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
  expects(!q.spec().has_bytes() && !to.has_bytes(), operation, ": a format with elements of one byte cannot be cast");
  expects(q.spec().block.rows == to.block.rows, operation, ": both formats need blocks of as many rows, got ",
          q.spec().block.rows, " and ", to.block.rows);
}

/// Casts into memory of the sizes of the result, checked. Returns its tensor scale.
inline float cast_to(const cpu::context& ctx, const any_quantized_view& q, const format_spec& to,
                     const quantized_storage& memory, cast_report& report) {
  cast_job job{quantized_source_of(q), to,
               {q.spec(), to},         padded_length(q.cols(), to.block, q.transform()),
               memory.codes.data(),    memory.scales.data()};
  report += cast_strips(ctx, job);
  return job.tensor_scale;
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_CODE {

/// q in another format, in the transformed domain of q.
///
/// | exact blocks | the values times a power of two are on the grid of `to`, and the effective scale over it is one |
/// |              | of its scales: the decoded values are the same numbers                                           |
/// | other blocks | quantized from the decoded values, nearest even, under mse_search; counted in `report`           |
/// | outer scales | those of q where the scale types are the same and the new ones are binary32, or the formats are  |
/// |              | the same; else powers of two that the largest scales fit                                         |
/// | NaN blocks   | NaN blocks; a block of the result with a part of one is NaN                                      |
/// | errors       | std::invalid_argument for blocks of different numbers of rows, elements of one byte, or an       |
/// |              | invalid format                                                                                   |
/// | bits         | numerics 5; the same on every instruction set and with every number of threads                   |
inline any_quantized cast(const detail::quantized_argument& q, const format_spec& to, cast_report& report,
                          const cpu::context& ctx = {}) {
  detail::check_cast("cast", q, to);
  any_quantized out(to, q.rows(), q.cols(), q.transform());
  out.set_tensor_scale(detail::cast_to(ctx, q, to, out.storage(), report));
  return out;
}
/// The same into the caller's memory of storage_size(to, ...), not overlapping q, to which the returned view refers.
inline any_quantized_view cast_into(const detail::quantized_argument& q, const format_spec& to,
                                    const quantized_storage& memory, cast_report& report,
                                    const cpu::context& ctx = {}) {
  constexpr const char* operation = "cast_into";
  detail::check_cast(operation, q, to);
  detail::check_spans(operation, to, q.rows(), q.cols(), q.transform(), memory.codes, memory.scales);
  detail::check_memory_apart(operation, q, memory);
  const float scale = detail::cast_to(ctx, q, to, memory, report);
  return {to, memory.codes, memory.scales, scale, q.rows(), q.cols(), q.transform()};
}
/// The same without a report.
inline any_quantized cast(const detail::quantized_argument& q, const format_spec& to, const cpu::context& ctx = {}) {
  cast_report ignored;
  return cast(q, to, ignored, ctx);
}
/// The same with the format as a type: cast<nvfp4>(q).
template <detail::any_block_format To, detail::quantized_like Q>
quantized_matrix<To> cast(const Q& q, cast_report& report, const cpu::context& ctx = {}) {
  return quantized_matrix<To>(cast(any_quantized_view(q), spec_of<To>, report, ctx));
}
template <detail::any_block_format To, detail::quantized_like Q>
quantized_matrix<To> cast(const Q& q, const cpu::context& ctx = {}) {
  cast_report ignored;
  return cast<To>(q, ignored, ctx);
}

}  // namespace ufp4::inline UFP4_CODE
