// ufp4 - quantize, amax, dequantize and the Hadamard transform in portable C++: the reference of the other kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/block/eden.hpp>
#include <ufp4/cpu/elements.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

/// One run of one strip: the transformed values, padded with zeros, and their codes and scales.
struct coded_run {
  static constexpr int max_rows = 128, max_cols = 256;
  alignas(64) float x[max_rows * max_cols];
  alignas(64) std::uint8_t codes[max_rows * max_cols];  ///< one a byte
  std::uint32_t scales[max_cols / 2];                   ///< one a block
  float outer[max_cols / 2];                            ///< the outer scale of each block; 1 in formats of one level
  std::size_t first_row = 0, first_col = 0;
  std::size_t rows = 0;  ///< rows of the matrix in the strip; the other rows are zeros
  int height = 1;        ///< rows of the strip
  int cols = 0;          ///< elements of a row of the run; also the stride of x and codes
};

/// Calls transform(t, first) for every t.n elements of a row: a run holds several where blocks are longer than that.
template <class Transform>
void each_transform(const transform_spec& t, std::size_t width, float* row, const Transform& transform) {
  for (std::size_t k = 0; t.n > 1 && k < width; k += t.n) transform(t, row + k);
}

/// Reads the run at `first_col` of a strip and transforms its rows.
inline void load_run(const quantize_job& job, std::size_t strip, std::size_t first_col, coded_run& run) {
  run.height = job.format.block.rows;
  run.cols = static_cast<int>(job.run());
  run.first_row = strip * static_cast<std::size_t>(run.height);
  run.first_col = first_col;
  const auto height = static_cast<std::size_t>(run.height), width = static_cast<std::size_t>(run.cols);
  run.rows = job.x.rows - run.first_row < height ? job.x.rows - run.first_row : height;
  const std::size_t left = job.x.cols > first_col ? job.x.cols - first_col : 0, live = left < width ? left : width;
  for (std::size_t r = 0; r < height; ++r) {
    float* x = run.x + r * width;
    const std::size_t count = r < run.rows ? live : 0;
    if (count != 0) load_row(job.x, run.first_row + r, first_col, count, x);
    for (std::size_t k = count; k < width; ++k) x[k] = 0.0f;
    if (job.rounds_input_to_bf16)
      for (std::size_t k = 0; k < count; ++k) x[k] = static_cast<float>(round_to<bf16>(x[k]));
    each_transform(job.transform, width, x, hadamard_forward);
  }
  settle(run.x);
}

/// Raises the bits of an amax to |x|, if x is finite.
inline void raise_amax(float x, std::uint32_t& amax) {
  const std::uint32_t m = magnitude_bits(x);
  if (m < infinity_bits && m > amax) amax = m;
}

/// Codes every block of a run. amax[i]: the bits of the amax of what outer scale i of the strip covers, if it has some.
template <class Coder>
void code_run(const quantize_job& job, Coder& coder, [[maybe_unused]] const std::uint32_t* amax, coded_run& run,
              quantize_report& report) {
  const int length = job.format.block.cols;
  [[maybe_unused]] const std::size_t covered = outer_columns(job.format, job.padded_cols);
  for (int b = 0; b < run.cols / length; ++b) {
    const std::size_t col = run.first_col + static_cast<std::size_t>(b * length);
    if constexpr (has(features_of_coder<Coder>, features::further_parts))
      if (covered != 0 && (b == 0 || col % covered == 0))
        coder.tensor = constants_of(coder, ufp4::detail::to_float(amax[col / covered]));
    run.outer[b] = coder.tensor.decode;
    const std::uint64_t index = (job.first_row + run.first_row) * job.whole_padded_cols + job.first_col +
                                run.first_col + static_cast<std::uint64_t>(b * length);
    run.scales[b] = coder({run.x + b * length, run.height, length, run.cols}, index, job.whole_padded_cols,
                          run.codes + b * length, report);
  }
}

/// The same of a run of a row whose scales are then corrected, if the coder's rounding asks for it.
template <class Coder>
void correct_run([[maybe_unused]] const quantize_job& job, [[maybe_unused]] const Coder& coder,
                 [[maybe_unused]] coded_run& run) {
  if constexpr (has(features_of_coder<Coder>, features::corrected_scales))
    if constexpr (requires { coder.rounding.random_bits; })
      if (coder.rounding.what == rounding_spec::kind::eden)
        ufp4::detail::correct_scales(
            job.format, coder.rounding.random_bits,
            {run.x, run.codes, run.scales, run.outer, run.cols / job.format.block.cols,
             (job.first_row + run.first_row) * job.whole_padded_cols + job.first_col + run.first_col});
}

inline void store_codes(const quantize_job& job, const coded_run& run, const quantized_sink& out) {
  const auto width = static_cast<std::size_t>(run.cols), length = static_cast<std::size_t>(job.format.block.cols);
  for (std::size_t r = 0; r < run.rows; ++r)
    ufp4::detail::store_codes(
        job.format, run.codes + r * width, width,
        out.codes + code_bytes(job.format, (run.first_row + r) * job.padded_cols + run.first_col));
  const scale_strip strip = scale_strip_of(job.format, job.padded_cols);
  char* scales = static_cast<char*>(out.scales) + run.first_row / static_cast<std::size_t>(run.height) * strip.bytes();
  const std::size_t first = run.first_col / length, covered = outer_columns(job.format, job.padded_cols);
  for (std::size_t b = 0; b < width / length; ++b)
    store_bits(scales, static_cast<int>(strip.block_bytes), first + b, run.scales[b]);
  if (covered == 0) return;
  if (first == 0)
    std::memset(scales + strip.blocks * strip.block_bytes, 0, strip.outer_at() - strip.blocks * strip.block_bytes);
  for (std::size_t b = 0; b < width / length; ++b)
    if ((first + b) * length % covered == 0)
      store_scale(scales + strip.outer_at(), job.format.outer.type, (first + b) * length / covered,
                  encode_scale(job.format.outer.type, run.outer[b]));
}

/// The bits of the amax of what each outer scale of a strip covers, after the transform. Reads the strip, into `run`.
inline void find_outer_amaxes(const quantize_job& job, std::size_t strip, coded_run& run,
                              buffer<std::uint32_t>& amaxes) {
  const std::size_t covered = outer_columns(job.format, job.padded_cols);
  for (std::size_t i = 0; i < amaxes.size(); ++i) amaxes[i] = 0;
  for (std::size_t k = 0; amaxes.size() != 0 && k < job.padded_cols; k += job.run()) {
    load_run(job, strip, k, run);
    for (int i = 0; i < run.height * run.cols; ++i)
      raise_amax(run.x[i], amaxes[(k + static_cast<std::size_t>(i % run.cols)) / covered]);
  }
}

/// body(run) for every run of strips first .. last - 1, coded. Coder: block_coder, or that of a compat preset.
template <class Coder, class Body>
void each_coded_run(const quantize_job& job, const Coder& with, std::size_t first, std::size_t last,
                    quantize_report& report, const Body& body) {
  coded_run run;
  Coder coder = with;
  buffer<std::uint32_t> amaxes(outer_count(job.format, job.padded_cols));
  for (std::size_t strip = first; strip < last; ++strip) {
    find_outer_amaxes(job, strip, run, amaxes);
    for (std::size_t k = 0; k < job.padded_cols; k += job.run()) {
      load_run(job, strip, k, run);
      code_run(job, coder, amaxes.data(), run, report);
      correct_run(job, coder, run);
      body(run);
    }
  }
}

/// Quantizes strips first .. last - 1 of x.
template <class Coder>
void quantize_strips(const quantize_job& job, const Coder& coder, const quantized_sink& out, std::size_t first,
                     std::size_t last, quantize_report& report) {
  each_coded_run(job, coder, first, last, report, [&](const coded_run& run) { store_codes(job, run, out); });
}

/// The decoded values of a coded run to q: fl(value * fl(block scale * outer scale)).
inline void decode_run(const quantize_job& job, const coded_run& run, float* q) {
  const int length = job.format.block.cols;
  float effective[coded_run::max_cols / 2];
  for (int b = 0; b < run.cols / length; ++b) effective[b] = decode_block(job.format, run.scales[b]) * run.outer[b];
  for (int i = 0; i < run.height * run.cols; ++i) {
    const int b = i % run.cols / length;
    const float power = exp2i(exponent_of(job.format, run.scales[b], i % length));
    q[i] = element_value(job.format, run.scales[b], run.codes[i]) * power * effective[b];
  }
}

/// dequantize(quantize(x)) of strips first .. last - 1, and the inverse transform if asked. x may be out.
template <class Coder>
void fake_quantize_strips(const quantize_job& job, const Coder& coder, bool undo_transform, const sink& out,
                          std::size_t first, std::size_t last, quantize_report& report) {
  each_coded_run(job, coder, first, last, report, [&](coded_run& run) {
    decode_run(job, run, run.x);
    const std::size_t k = run.first_col, width = static_cast<std::size_t>(run.cols);
    const std::size_t left = out.cols > k ? out.cols - k : 0, live = left < width ? left : width;
    for (std::size_t r = 0; r < run.rows; ++r) {
      if (undo_transform) each_transform(job.transform, width, run.x + r * width, hadamard_inverse);
      store_row(out, run.first_row + r, k, live, run.x + r * width);
    }
  });
}

/// The bits of the amax of the finite elements, after the transform, in strips first .. last - 1.
inline std::uint32_t amax_strips(const quantize_job& job, std::size_t first, std::size_t last) {
  std::uint32_t amax = 0;
  coded_run run;
  for (std::size_t strip = first; strip < last; ++strip)
    for (std::size_t k = 0; k < job.padded_cols; k += job.run()) {
      load_run(job, strip, k, run);
      for (int i = 0; i < run.height * run.cols; ++i) raise_amax(run.x[i], amax);
    }
  return amax;
}

/// The kernel in the table of kernels: the library's own policies, as values.
template <features needs = features::all>
void quantize_scalar(const quantize_job& job, const kernel_coder& coder, const quantized_sink& out, std::size_t first,
                     std::size_t last, quantize_report& report) {
  constexpr features coded =
      needs & (features::further_parts | features::search | features::corrected_scales | element_features);
  const auto quantize = [&](const auto& rounding) {
    const block_coder<std::remove_cvref_t<decltype(rounding)>, scale_rule_spec, coded, const format_spec&> own{
        coder.format, coder.rule, coder.tensor, rounding};
    quantize_strips(job, own, out, first, last, report);
  };
  if constexpr (has(needs, features::random_bits | features::other_rounding | features::corrected_scales))
    quantize(coder.rounding);
  else
    quantize(nearest_even{});
}

/// The scale of block b of a row times its outer scale, or without an array of them `factor`: the tensor scale, or 1.
inline float scale_at(const quantized_source& q, std::size_t row, std::size_t b, float factor) {
  return decode_block(q.format, load_block(q.scales, q.format, q.scale_index(row, b))) *
         (q.format.has_outer_array() ? q.outer_scale(row, b) : factor);
}

/// Rows first .. last - 1: fl(value * fl(block scale * outer scale)), in the transformed domain.
template <features needs = features::all>
void dequantize_scalar(const quantized_source& q, const sink& out, std::size_t first, std::size_t last) {
  const auto length = static_cast<std::size_t>(q.format.block.cols);
  const bool bytes = q.format.has_bytes();
  float values[256];
  for (std::size_t i = first; i < last; ++i) {
    const std::uint8_t* codes = q.codes + q.code_index(i, 0);
    for (std::size_t k = 0; k < q.cols; k += length) {
      const float effective = rounded(scale_at(q, i, k / length, q.tensor_scale));
      const std::size_t live = q.cols - k < length ? q.cols - k : length;
      for (std::size_t j = 0; bytes && j < live; ++j) values[j] = value_of(q.format, codes[k + j]) * effective;
      for (std::size_t j = 0; !bytes && j < live; j += 2) {
        const std::uint8_t pair = codes[(k + j) / 2];
        values[j] = q.format.grid.value[pair & 15u] * effective;
        values[j + 1] = q.format.grid.value[pair >> 4] * effective;
      }
      if constexpr (has(needs, features::further_parts))
        if (q.format.choice.count != 0 || q.format.block.group[0] != 0) {
          const std::uint32_t bits = load_block(q.scales, q.format, q.scale_index(i, k / length));
          for (std::size_t j = 0; j < live; ++j)
            values[j] = element_value(q.format, bits, element_code(q.format, codes, k + j)) *
                        exp2i(exponent_of(q.format, bits, static_cast<int>(j))) * effective;
        }
      store_row(out, i, k, live, values);
    }
  }
}

/// Transforms rows first .. last - 1. x is read as if padded with zeros, out written where it has columns; may be x.
inline void hadamard_scalar(const transform_spec& t, bool inverse, const source& x, const sink& out, std::size_t first,
                            std::size_t last) {
  const std::size_t n = t.n, cols = x.cols > out.cols ? x.cols : out.cols;
  const auto within = [n](std::size_t width, std::size_t k) { return width <= k ? 0 : width - k < n ? width - k : n; };
  float run[max_transform];
  for (std::size_t i = first; i < last; ++i)
    for (std::size_t k = 0; k < cols; k += n) {
      const std::size_t in = within(x.cols, k);
      if (in != 0) load_row(x, i, k, in, run);
      for (std::size_t j = in; j < n; ++j) run[j] = 0.0f;
      (inverse ? hadamard_inverse : hadamard_forward)(t, run);
      const std::size_t kept = within(out.cols, k);
      if (kept != 0) store_row(out, i, k, kept, run);
    }
}

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
