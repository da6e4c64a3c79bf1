// ufp4 - the values of ggml's 4-bit blocks that are no format of this library: Q4_0, Q4_1, Q4_K and IQ4_NL.
// SPDX-License-Identifier: Apache-2.0
/// | type   | elements, bytes | block                                                             | value          |
/// |--------|-----------------|-------------------------------------------------------------------|----------------|
/// | Q4_0   | 32, 18          | f16 d; 16 bytes, byte j holds elements j (low nibble) and j + 16  | d (q - 8)      |
/// | Q4_1   | 32, 20          | f16 d, f16 m; 16 bytes as above                                   | d q + m        |
/// | IQ4_NL | 32, 18          | as Q4_0; q is an index of iq4_nl_values                           | d values[q]    |
/// | Q4_K   | 256, 144        | f16 d, f16 dmin; 12 bytes: a scale s and a minimum m of 6 bits    | d s q - dmin m |
/// |        |                 | for each of 8 parts; 4 times 32 bytes for two parts, the first low|                |
///
/// The values are ggml's: products are exact in binary32, so the one addition of Q4_1 and Q4_K is the only rounding.
/// Read only. Source: ggml-org/ggml, ggml-common.h (block structures) and ggml-quants.c (dequantize_row_*).
#pragma once

#include <ufp4/interop/gguf_reader.hpp>

namespace ufp4::interop::inline UFP4_CODE {

/// The values of IQ4_NL's codes.
inline constexpr std::int8_t iq4_nl_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                  1,    13,   25,  38,  53,  69,  89,  113};

/// Decoding of one type: all values of a block.
struct ggml_decoder {
  std::string_view type;                                     ///< as ggml spells it
  void (*decode)(const std::uint8_t* block, float* values);  ///< one block, as many values as it has elements
};

/// The binary16 number at `at`.
inline float ggml_half(const std::uint8_t* at) { return decode_number(number_type::f16, at); }

/// value(code) for 32 codes in split halves.
template <class Value>
void decode_halves(const std::uint8_t* codes, float* values, Value value) {
  for (int j = 0; j < 16; ++j) {
    values[j] = value(codes[j] & 15);
    values[j + 16] = value(codes[j] >> 4);
  }
}

/// Decodes a block of Q4_0 into 32 values.
inline void decode_q4_0(const std::uint8_t* block, float* values) {
  const float d = ggml_half(block);
  decode_halves(block + 2, values, [d](int q) { return static_cast<float>(q - 8) * d; });
}
/// Decodes a block of Q4_1 into 32 values.
inline void decode_q4_1(const std::uint8_t* block, float* values) {
  const float d = ggml_half(block), m = ggml_half(block + 2);
  decode_halves(block + 4, values, [d, m](int q) { return d * static_cast<float>(q) + m; });
}
/// Decodes a block of IQ4_NL into 32 values.
inline void decode_iq4_nl(const std::uint8_t* block, float* values) {
  const float d = ggml_half(block);
  decode_halves(block + 2, values, [d](int q) { return d * static_cast<float>(iq4_nl_values[q]); });
}
/// Decodes a block of Q4_K into 256 values.
inline void decode_q4_k(const std::uint8_t* block, float* values) {
  const float d = ggml_half(block), dmin = ggml_half(block + 2);
  const std::uint8_t *six = block + 4, *codes = block + 16;
  for (int part = 0; part < 8; ++part) {
    // Parts 0 .. 3 have their 6 bits in bytes 0 .. 3 and 4 .. 7, whose upper 2 bits belong to parts 4 .. 7.
    const int i = part % 4, upper = part < 4 ? 0 : 1;
    const int scale = upper ? (six[8 + i] & 15) | (six[i] >> 6 << 4) : six[i] & 63;
    const int minimum = upper ? six[8 + i] >> 4 | (six[4 + i] >> 6 << 4) : six[4 + i] & 63;
    const float step = d * static_cast<float>(scale), offset = dmin * static_cast<float>(minimum);
    for (int j = 0; j < 32; ++j) {
      const int q = codes[part / 2 * 32 + j] >> (part % 2 * 4) & 15;
      values[part * 32 + j] = step * static_cast<float>(q) - offset;
    }
  }
}

/// The types whose values can be read, beside MXFP4 and NVFP4.
inline constexpr ggml_decoder ggml_decoders[] = {
    {"Q4_0", decode_q4_0}, {"Q4_1", decode_q4_1}, {"Q4_K", decode_q4_k}, {"IQ4_NL", decode_iq4_nl}};

/// The decoder of a type, or nullptr.
constexpr const ggml_decoder* find_ggml_decoder(std::string_view type) {
  return find_entry(ggml_decoders, &ggml_decoder::type, type);
}

/// Rows first .. first + out.rows() - 1 of a tensor of one of these types, rounded to out's type. Its columns are the
/// last dimension, its rows all others. file_error for another type and for a tensor without elements;
/// std::invalid_argument for a range or a number of columns that the tensor does not have.
template <ufp4::detail::matrix_scalar T>
void read_ggml_values(gguf_reader& file, const stored_tensor& t, std::uint64_t first, const matrix_view<T>& out) {
  const ggml_decoder* const decoder = find_ggml_decoder(t.type_name);
  if (decoder == nullptr || t.shape.empty() || t.bytes == 0)
    file.fail(tensor_text(t), "; values of Q4_0, Q4_1, Q4_K and IQ4_NL can be read");
  const ggml_type& type = *find_ggml_type(t.type_name);
  const std::uint64_t cols = t.shape.back(), row_bytes = cols / type.elements * type.bytes, rows = t.bytes / row_bytes;
  expects(out.cols() == cols, "read_ggml_values: shape mismatch: out has ", out.cols(), " columns, but tensor ",
          printable(t.name), " has ", cols);
  expects(first <= rows && out.rows() <= rows - first, "read_ggml_values: range out of bounds: rows ", first, " to ",
          first + out.rows(), ", but tensor ", printable(t.name), " has ", rows);
  ufp4::detail::check_output("read_ggml_values", "out", out);
  std::vector<std::uint8_t> row(static_cast<std::size_t>(row_bytes));
  float values[256];
  for (std::size_t i = 0; i < out.rows(); ++i) {
    file.read_bytes(t, (first + i) * row_bytes, row.data(), row.size());
    for (std::size_t k = 0; k < out.cols(); ++k) {
      if (k % type.elements == 0) decoder->decode(row.data() + k / type.elements * type.bytes, values);
      out(i, k) = ufp4::detail::round_to<T>(values[k % type.elements]);
    }
  }
}

}  // namespace ufp4::interop::inline UFP4_CODE
