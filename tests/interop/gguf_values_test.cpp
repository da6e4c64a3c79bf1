// ufp4 - ggml's Q4_0, Q4_1, Q4_K and IQ4_NL: every element of a block by ggml's definition.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/interop/gguf_values.hpp>
#include <ufp4/interop/gguf_writer.hpp>

#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/messages.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"

using namespace ufp4;
using support::file_rejection, support::reports;

namespace {

/// A file with one tensor of a type, of random blocks whose scales are small and finite.
std::string file_of(const std::string& type, std::uint64_t rows, std::uint64_t cols, std::vector<std::uint8_t>& data,
                    std::vector<std::uint64_t> shape = {}) {
  const interop::ggml_type& known = *interop::find_ggml_type(type);
  std::mt19937_64 random{support::seed(rows * cols + known.id)};
  data.resize(static_cast<std::size_t>(rows * cols / known.elements * known.bytes));
  for (auto& b : data) b = static_cast<std::uint8_t>(random());
  for (std::size_t at = 0; at < data.size(); at += known.bytes)  // exponents of d, and of m where there is one
    for (const std::size_t half : {std::size_t{0}, std::size_t{2}}) {
      if (half == 2 && known.bytes == 18) continue;
      data[at + half + 1] = static_cast<std::uint8_t>((data[at + half + 1] & 0x8F) | 0x20);
    }
  if (shape.empty()) shape = {rows, cols};
  interop::stored_tensor like;
  like.type_name = type;
  like.shape = std::move(shape);
  interop::gguf_writer out;
  out.add_copy("w", like, [&](const interop::byte_sink& sink) { sink(data.data(), data.size()); });
  const std::string path = support::scratch() / "values.gguf";
  out.write(path);
  return path;
}

double half(const std::uint8_t* at) {
  return static_cast<double>(static_cast<float>(fp16::from_bits(static_cast<std::uint16_t>(at[0] | at[1] << 8))));
}

/// Element i of a block of 256, exactly: ggml-quants.c, get_scale_min_k4 and dequantize_row_q4_K.
double q4_k(const std::uint8_t* block, std::size_t i) {
  const std::uint8_t* q = block + 4;
  const std::size_t j = i / 32;
  const int scale = j < 4 ? q[j] & 63 : (q[j + 4] & 0xF) | ((q[j - 4] >> 6) << 4);
  const int minimum = j < 4 ? q[j + 4] & 63 : (q[j + 4] >> 4) | ((q[j] >> 6) << 4);
  const std::uint8_t byte = block[16 + i / 64 * 32 + i % 32];
  const int code = i % 64 < 32 ? byte & 15 : byte >> 4;
  return half(block) * scale * code - half(block + 2) * minimum;
}

/// Element i of a block of 32.
double short_block(const std::string& type, const std::uint8_t* block, std::size_t i) {
  constexpr int table[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  const std::uint8_t* codes = block + (type == "Q4_1" ? 4 : 2);
  const int code = i < 16 ? codes[i] & 15 : codes[i - 16] >> 4;
  if (type == "Q4_1") return half(block) * code + half(block + 2);
  return half(block) * (type == "Q4_0" ? code - 8 : table[code]);
}

std::vector<float> read(const std::string& path, std::uint64_t first, std::size_t rows, std::size_t cols) {
  interop::gguf_reader file(path);
  std::vector<float> values(rows * cols);
  interop::read_ggml_values(file, file.at("w"), first, matrix_view<float>(values.data(), rows, cols));
  return values;
}

}  // namespace

TEST_CASE("each element of ggml's 4-bit blocks has ggml's value, rounded once", "[gguf]") {
  for (const std::string type : {"Q4_0", "Q4_1", "Q4_K", "IQ4_NL"}) {
    CAPTURE(type);
    std::vector<std::uint8_t> data;
    const std::string path = file_of(type, 3, 512, data);
    const interop::ggml_type& known = *interop::find_ggml_type(type);
    const std::vector<float> values = read(path, 0, 3, 512);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint8_t* block = data.data() + i / known.elements * known.bytes;
      const double want = type == "Q4_K" ? q4_k(block, i % 256) : short_block(type, block, i % 32);
      REQUIRE(values[i] == static_cast<float>(want));
    }
    const std::vector<float> last = read(path, 2, 1, 512);
    CHECK(std::equal(last.begin(), last.end(), values.begin() + 1024));
    interop::gguf_reader file(path);
    std::vector<bf16> rounded(512);
    interop::read_ggml_values(file, file.at("w"), 1, matrix_view<bf16>(rounded.data(), 1, 512));
    for (std::size_t k = 0; k < 512; ++k)
      REQUIRE(rounded[k].bits() == ufp4::detail::round_to<bf16>(values[512 + k]).bits());
  }
}

TEST_CASE("rows of a ggml tensor are all dimensions but the last", "[gguf]") {
  std::vector<std::uint8_t> data;
  const std::string path = file_of("Q4_0", 6, 32, data, {2, 3, 32});
  CHECK(read(path, 0, 6, 32).size() == 192);
  CHECK(support::rejection([&] { read(path, 5, 2, 32); }) ==
        "read_ggml_values: range out of bounds: rows 5 to 7, but tensor w has 6");
  CHECK(support::rejection([&] { read(path, 0, 1, 64); }) ==
        "read_ggml_values: shape mismatch: out has 64 columns, but tensor w has 32");
  interop::gguf_reader file(path);
  float one_row[32] = {};
  CHECK(support::rejection([&] {
          interop::read_ggml_values(file, file.at("w"), 0, matrix_view<float>(one_row, 2, 32, 0));
        }) == "read_ggml_values: elements of out overlap: 2 x 32 with row stride 0 and column stride 1");
}

TEST_CASE("a type without a decoder, and a tensor without elements, are rejected", "[gguf]") {
  std::vector<std::uint8_t> data;
  CHECK(reports(file_rejection([&] { read(file_of("Q6_K", 1, 256, data), 0, 1, 256); }),
                "tensor w is 1 x 256 Q6_K; values of Q4_0, Q4_1, Q4_K and IQ4_NL can be read"));
  CHECK(reports(file_rejection([&] { read(file_of("Q4_0", 0, 32, data), 0, 0, 32); }), "tensor w is 0 x 32 Q4_0; "));
  CHECK(interop::find_ggml_decoder("Q5_K") == nullptr);
}

TEST_CASE("random damage to a file of ggml's blocks is accepted or rejected with a file_error", "[gguf]") {
  INFO(support::seed_note());
  std::mt19937_64 random{support::seed()};
  std::vector<std::uint8_t> data;
  const std::string good = support::bytes_of(file_of("Q4_K", 1, 256, data));
  for (int round = 0; round < 400; ++round) {
    const std::string path = support::file_with(support::damaged(good, random));
    REQUIRE_NOTHROW(file_rejection([&] {
      interop::gguf_reader file(path);
      for (const interop::stored_tensor& t : file.tensors()) {
        if (interop::find_ggml_decoder(t.type_name) == nullptr || t.bytes == 0 || t.bytes > 4096) continue;
        std::vector<float> values(static_cast<std::size_t>(t.shape.back()));
        interop::read_ggml_values(file, t, 0, matrix_view<float>(values.data(), 1, values.size()));
      }
    }));
  }
}
