// ufp4 - quantized weights in GGUF files: ggml's MXFP4 and NVFP4 blocks.
// SPDX-License-Identifier: Apache-2.0
/// | ggml's type | block                                                                                              |
/// |-------------|----------------------------------------------------------------------------------------------------|
/// | MXFP4 (39)  | 17 bytes for 32 elements: e8m0 scale; 16 bytes, byte j holds elements j (low) and j + 16           |
/// | NVFP4 (40)  | 36 bytes for 64 elements: 4 e4m3 scales; 4 times 8 bytes, byte j holds elements j and j + 8        |
///
/// The tensor scale of NVFP4 is a tensor of its own: "blk.0.ffn_up.scale", F32 [1] or one for each expert, a factor,
/// beside "blk.0.ffn_up.weight". ggml reads the e4m3 code 0x7F and the e8m0 code 0xFF, NaNs here, as 0 and as 2^128; it
/// ignores the sign bit of e4m3. Codes and scales are moved, never rounded.
///
/// Sources: ggml-org/ggml, ggml-common.h; llama.cpp's conversion of NVFP4 checkpoints.
#pragma once

#include <ufp4/block/layouts.hpp>
#include <ufp4/interop/gguf_writer.hpp>
#include <ufp4/interop/quantized_weight.hpp>

namespace ufp4::interop::inline UFP4_CODE {

/// One of ggml's blocks: scales, then codes in split halves.
struct ggml_block {
  number_type type;              ///< the type in the library
  std::size_t elements, scales;  ///< one scale for elements / scales elements
  std::uint8_t scale_mask;       ///< bits of a scale that ggml reads

  constexpr std::size_t bytes() const { return scales + elements / 2; }  ///< of a block
  constexpr std::size_t length() const { return elements / scales; }     ///< elements that share a scale
  /// Bytes of a row of `cols` elements, a multiple of `elements`.
  constexpr std::size_t row_bytes(std::size_t cols) const { return cols / elements * bytes(); }
};
/// The quantized types of ggml that the library reads and writes.
inline constexpr ggml_block ggml_blocks[] = {{number_type::mxfp4, 32, 1, 0xFF}, {number_type::nvfp4, 64, 4, 0x7F}};

/// The block of a format: of mxfp4, nvfp4 and ggml_nvfp4; nullptr for every other.
constexpr const ggml_block* find_ggml_block(const format_spec& format) {
  if (format == spec_of<mxfp4>) return &ggml_blocks[0];
  return format == spec_of<nvfp4> || format == spec_of<ggml_nvfp4> ? &ggml_blocks[1] : nullptr;
}

/// Row i of a matrix as ggml's blocks, which must be whole: find_ggml_block(q.spec())->row_bytes(q.cols()) bytes.
inline void to_ggml_row(const any_quantized_view& q, std::size_t i, std::uint8_t* out) {
  const ggml_block& block = *find_ggml_block(q.spec());
  const std::uint8_t* codes = q.codes().data() + i * q.cols() / 2;
  const std::byte* scales = q.scale_bytes().data() + i * (q.cols() / block.length());
  for (std::size_t b = 0; b < q.cols() / block.elements; ++b, out += block.bytes()) {
    for (std::size_t s = 0; s < block.scales; ++s) out[s] = static_cast<std::uint8_t>(scales[b * block.scales + s]);
    // The length as a constant: a division by a variable in the inner loop costs five times as much.
    const std::uint8_t* half = codes + b * block.elements / 2;
    block.length() == 16 ? ufp4::compat::split_halves(half, 4, 16, out + 4)
                         : ufp4::compat::split_halves(half, 1, 32, out + 1);
  }
}
/// The inverse of to_ggml_row.
inline void from_ggml_row(const std::uint8_t* in, quantized_memory& q, std::size_t i) {
  const ggml_block& block = *find_ggml_block(q.spec());
  std::uint8_t* codes = q.codes().data() + i * q.cols() / 2;
  std::byte* scales = q.scale_bytes().data() + i * (q.cols() / block.length());
  for (std::size_t b = 0; b < q.cols() / block.elements; ++b, in += block.bytes()) {
    for (std::size_t s = 0; s < block.scales; ++s) scales[b * block.scales + s] = std::byte(in[s] & block.scale_mask);
    std::uint8_t* half = codes + b * block.elements / 2;
    block.length() == 16 ? ufp4::compat::join_halves(in + 4, 4, 16, half)
                         : ufp4::compat::join_halves(in + 1, 1, 32, half);
  }
}

/// The name of the tensor scale of a weight: "x.scale" for "x.weight" and for "x".
inline std::string ggml_scale_name(std::string_view weight) {
  constexpr std::string_view ending = ".weight";
  if (weight.ends_with(ending)) weight.remove_suffix(ending.size());
  return std::string(weight) + ".scale";
}

/// Adds a quantized matrix as ggml's blocks, and its tensor scale if it has one. The memory must stay valid until the
/// file is written. std::invalid_argument for another format, columns not a multiple of the block, and a transform.
inline void add_quantized(gguf_writer& out, const std::string& name, const any_quantized_view& q) {
  const ggml_block* const block = find_ggml_block(q.spec());
  const std::string shown = printable(name), format_name(ufp4::detail::preset_name(q.spec()));
  expects(block != nullptr, "add_quantized: format not available in GGUF: ", shown, " is neither mxfp4 nor nvfp4",
          format_name.empty() ? "" : ", but " + format_name);
  expects(q.transform().n == 1, "add_quantized: transform not representable in GGUF: ", shown,
          " was quantized after a Hadamard transform of ", q.transform().n);
  expects(q.cols() % block->elements == 0, "add_quantized: ", shown, " has ", q.cols(),
          " columns, not a multiple of ggml's ", block->elements);
  out.add(name, {block->type, {q.rows(), q.cols()}, [q, block](const byte_sink& sink) {
                   std::vector<std::uint8_t> row(block->row_bytes(q.cols()));
                   for (std::size_t i = 0; i < q.rows(); ++i) {
                     to_ggml_row(q, i, row.data());
                     sink(row.data(), row.size());
                   }
                 }});
  if (q.spec().has_tensor_scale()) out.add(ggml_scale_name(name), source_of(q.tensor_scale(), {1}));
}

/// A matrix of ggml's blocks, checked and not yet read. Of more than two dimensions (experts) all but the last count as
/// rows. NVFP4 with a tensor scale is nvfp4, without one ggml_nvfp4. file_error if there is no such matrix.
inline stored_weight find_weight(gguf_reader& file, const std::string& name) {
  const stored_tensor& t = file.at(name);
  const ggml_block& block = ggml_blocks[t.type == number_type::nvfp4];
  if (t.type != block.type || t.shape.size() < 2) file.fail(tensor_text(t) + ", not a matrix of MXFP4 or NVFP4");
  if (t.bytes == 0) file.fail("tensor " + printable(name) + " is an empty matrix: " + shape_text(t.shape));
  stored_weight weight{.format = spec_of<mxfp4>, .codes = &t, .scales = &t};
  weight.cols = static_cast<std::size_t>(t.shape.back());
  weight.rows = static_cast<std::size_t>(t.bytes / block.row_bytes(weight.cols));
  weight.shape = t.shape;
  weight.axis = t.shape.size() - 1;
  if (t.type == number_type::mxfp4) return weight;
  const stored_tensor* const scale = file.find(ggml_scale_name(name));
  weight.format = scale != nullptr ? spec_of<nvfp4> : spec_of<ggml_nvfp4>;
  if (scale != nullptr) read_tensor_scales(file, *scale, weight);
  return weight;
}

/// The same of a weight that must have that format. NVFP4 without a tensor scale is also read as nvfp4, with the tensor
/// scale 1; NVFP4 with one is not read as ggml_nvfp4.
inline stored_weight find_weight(gguf_reader& file, const std::string& name, const format_spec& format) {
  stored_weight weight = find_weight(file, name);
  if (weight.format == spec_of<ggml_nvfp4> && format == spec_of<nvfp4>) weight.format = format;
  if (weight.format == format) return weight;
  if (weight.format == spec_of<nvfp4> && format == spec_of<ggml_nvfp4>)
    file.fail("tensor " + printable(name) + " has a tensor scale, " + ggml_scale_name(printable(name)) +
              "; it can be read as nvfp4");
  const char* const blocks = format == spec_of<mxfp4> ? "MXFP4" : "NVFP4";
  file.fail(tensor_text(*weight.codes), ", not a matrix of ", find_ggml_block(format) ? blocks : "this format");
}

/// Rows first .. first + out.rows() - 1 of a weight. std::invalid_argument as check_weight_rows.
inline void read_weight_rows(gguf_reader& file, const stored_weight& weight, std::size_t first, quantized_memory& out) {
  check_weight_rows(weight, first, out);
  out.set_tensor_scale(tensor_scale_at(weight, first));
  std::vector<std::uint8_t> row(find_ggml_block(weight.format)->row_bytes(weight.cols));
  for (std::size_t i = 0; i < out.rows(); ++i) {
    file.read_bytes(*weight.codes, std::uint64_t{first + i} * row.size(), row.data(), row.size());
    from_ggml_row(row.data(), out, i);
  }
}

}  // namespace ufp4::interop::inline UFP4_CODE
