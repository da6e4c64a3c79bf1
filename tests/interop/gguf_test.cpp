// ufp4 - GGUF files: ggml's MXFP4 and NVFP4 blocks in and out; arbitrary bytes are accepted or rejected.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/interop/gguf.hpp>
#include <ufp4/ufp4.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/hostile.hpp"
#include "support/messages.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"

using namespace ufp4;
using interop::ggml_nvfp4, interop::number_type;
using support::file_rejection;
using support::file_with;
using support::floats;
using support::little_endian;
using support::reports;

namespace {

std::string text(const std::string& s) { return little_endian(s.size(), 8) + s; }
std::string pair(const std::string& key, unsigned type, const std::string& value) {
  return text(key) + little_endian(type, 4) + value;
}
/// A tensor's line: extents with the contiguous one first.
std::string tensor(const std::string& name, const std::vector<std::uint64_t>& extents, unsigned type,
                   std::uint64_t offset) {
  std::string line = text(name) + little_endian(extents.size(), 4);
  for (const auto extent : extents) line += little_endian(extent, 8);
  return line + little_endian(type, 4) + little_endian(offset, 8);
}
std::string gguf(const std::vector<std::string>& pairs, const std::vector<std::string>& tensors,
                 const std::string& data, std::size_t alignment = 32, unsigned version = 3) {
  std::string bytes =
      "GGUF" + little_endian(version, 4) + little_endian(tensors.size(), 8) + little_endian(pairs.size(), 8);
  for (const auto& p : pairs) bytes += p;
  for (const auto& t : tensors) bytes += t;
  bytes.resize((bytes.size() + alignment - 1) / alignment * alignment, '\0');
  return bytes + data;
}

std::string rejected(const std::string& bytes) {
  const std::string path = file_with(bytes);
  return file_rejection([&] { interop::gguf_reader file(path); });
}

template <class Q>
std::string saved(const Q& q, const std::string& name = "blk.0.ffn_up.weight") {
  interop::gguf_writer out;
  out.set_string("general.architecture", "llama");
  interop::add_quantized(out, name, q);
  const std::string path = support::scratch() / "quantized.gguf";
  out.write(path);
  return path;
}

std::vector<float> weights(std::size_t n) { return support::hostile(support::seed(n)).values(n, false, false); }

}  // namespace

TEST_CASE("a GGUF file written by hand reads as its layout requires", "[gguf]") {
  std::string strings = little_endian(8, 4) + little_endian(2, 8) + text("a") + text("bc");
  std::string nested = little_endian(9, 4) + little_endian(1, 8) + little_endian(0, 4) + little_endian(3, 8) + "xyz";
  const std::vector<std::string> pairs{pair("general.architecture", 8, text("llama")),
                                       pair("list", 9, strings),
                                       pair("flag", 7, "\x01"),
                                       pair("nested", 9, nested),
                                       pair("f", 6, floats({1.5f})),
                                       pair("count", 4, little_endian(7, 4)),
                                       pair("general.alignment", 4, little_endian(64, 4))};
  std::string block = "\x80";  // 2^1
  for (int j = 0; j < 16; ++j) block += static_cast<char>(j | (15 - j) << 4);
  std::string data = floats({1, 2, 3, 4, 5, 6});
  data.resize(64, '\0');
  for (const unsigned version : {2u, 3u}) {
    interop::gguf_reader file(file_with(
        gguf(pairs, {tensor("w", {3, 2}, 0, 0), tensor("q", {32, 1}, 39, 64), tensor("other", {256}, 99, 9999)},
             data + block, 64, version)));
    REQUIRE(file.strings().at("general.architecture") == "llama");
    REQUIRE(file.integers().at("flag") == 1);
    REQUIRE(file.integers().at("count") == 7);
    REQUIRE(file.alignment() == 64);
    REQUIRE(file.at("other").type_name == "number 99 of ggml");
    float row[3] = {};
    file.read_rows(file.at("w"), 1, matrix_view<float>(row, 1, 3));
    REQUIRE(row[2] == 6);
    const auto q = interop::read_quantized<mxfp4>(file, "q");
    REQUIRE(q.scales()[0].bits() == 0x80);
    for (std::size_t k = 0; k < 32; ++k)
      REQUIRE((q.codes()[k / 2] >> (k % 2 * 4) & 15) == static_cast<int>(k < 16 ? k : 31 - k));
  }
}

TEMPLATE_TEST_CASE("blocks come back unchanged, whatever the shape", "[gguf]", mxfp4, nvfp4, ggml_nvfp4,
                   compat::ggml_mxfp4, compat::ggml_nvfp4) {
  for (const std::size_t rows : {1u, 3u})
    for (const std::size_t cols : {64u, 192u}) {
      const auto values = weights(rows * cols);
      const auto q = quantize<TestType>(matrix_view<const float>(values.data(), rows, cols));
      interop::gguf_reader file(saved(q));
      REQUIRE(interop::read_quantized<ufp4::detail::format_of<TestType>>(file, "blk.0.ffn_up.weight") == q);
      REQUIRE(file.at("blk.0.ffn_up.weight").offset % 32 == 0);
      REQUIRE(file.strings().at("general.architecture") == "llama");
      const bool two_level = ufp4::detail::format_of<TestType>::two_level;
      REQUIRE((file.find("blk.0.ffn_up.scale") != nullptr) == two_level);
      const auto weight = interop::find_weight<ufp4::detail::format_of<TestType>>(file, "blk.0.ffn_up.weight");
      quantized_matrix<ufp4::detail::format_of<TestType>> last(1, cols);
      interop::read_weight_rows(file, weight, rows - 1, last);
      REQUIRE(last == row_range(q, rows - 1, 1));
    }
}

TEST_CASE("NVFP4's block is four scales, then 8 bytes of codes for each 16 elements in split halves", "[gguf]") {
  std::vector<float> ramp(64);
  for (std::size_t k = 0; k < 64; ++k)
    ramp[k] = static_cast<float>(k % 16 == 15 ? 6 : k % 16 == 7 ? -1 : 0) * static_cast<float>(1 << k / 16);
  const auto q = quantize<compat::ggml_nvfp4>(matrix_view<const float>(ramp.data(), 1, 64));
  std::uint8_t block[36];
  interop::to_ggml_row(q, 0, block);
  const std::uint8_t half[8] = {0, 0, 0, 0, 0, 0, 0, 0x7A};  // element 7: -1; element 15: 6
  for (int s = 0; s < 4; ++s) {
    CHECK(block[s] == 0x38 + 8 * s);  // 1, 2, 4, 8
    CHECK(std::memcmp(block + 4 + 8 * s, half, 8) == 0);
  }
}

TEST_CASE("a tensor scale is a tensor beside its weight, and is read with it", "[gguf]") {
  const auto values = weights(128);
  const auto q = quantize<nvfp4>(matrix_view<const float>(values.data(), 2, 64));
  interop::gguf_reader file(saved(q, "head"));
  REQUIRE(interop::read_quantized<nvfp4>(file, "head") == q);
  CHECK(reports(file_rejection([&] { interop::read_quantized<ggml_nvfp4>(file, "head"); }),
                "has a tensor scale, head.scale;"));
  const auto plain = quantize<compat::ggml_nvfp4>(matrix_view<const float>(values.data(), 2, 64));
  interop::gguf_reader without(saved(plain, "head"));
  REQUIRE(interop::read_quantized<nvfp4>(without, "head").tensor_scale() == 1);
  CHECK(reports(file_rejection([&] { interop::read_quantized<mxfp4>(without, "head"); }),
                "head is 2 x 64 NVFP4, not a matrix of MXFP4"));
}

TEST_CASE("without a format a weight is read as mxfp4, nvfp4 or, without a tensor scale, ggml_nvfp4", "[gguf]") {
  const auto values = weights(128);
  for (const format_spec& format : {spec_of<mxfp4>, spec_of<nvfp4>, spec_of<ggml_nvfp4>}) {
    const any_quantized q = quantize(format, matrix_view<const float>(values.data(), 2, 64));
    interop::gguf_reader file(saved(q, "w"));
    const any_quantized back = interop::read_quantized(file, "w");
    CHECK(back.spec() == format);
    CHECK(back.tensor_scale() == q.tensor_scale());
    CHECK(std::ranges::equal(back.codes(), q.codes()));
    CHECK(std::ranges::equal(back.scale_bytes(), q.scale_bytes()));
  }
  const any_quantized other = quantize(spec_of<e1m2_f32>, matrix_view<const float>(values.data(), 2, 64));
  CHECK(reports(support::rejection([&] { saved(other, "w"); }), "format not available in GGUF: w is neither"));
  ufp4::detail::for_each_row(ufp4::detail::extended_presets{}, [&](auto row) {
    const auto extended = quantize<typename decltype(row)::format>(matrix<float>(2, 64));
    CHECK(reports(support::rejection([&] { saved(extended, "w"); }),
                  std::string("w is neither mxfp4 nor nvfp4, but ") + row.name));
  });
}

TEST_CASE("the sign bit of a block scale is not read, as in ggml", "[gguf]") {
  const std::string block = "\xB8\x38\x80\x7F" + std::string(32, '\x11');
  interop::gguf_reader file(file_with(gguf({}, {tensor("w", {64, 1}, 40, 0)}, block)));
  const auto q = interop::read_quantized<ggml_nvfp4>(file, "w");
  const std::uint8_t want[4] = {0x38, 0x38, 0, 0x7F};
  for (std::size_t s = 0; s < 4; ++s) CHECK(q.scales()[s].bits() == want[s]);
}

TEST_CASE("a writer keeps every key of another file, and its alignment", "[gguf]") {
  const std::string pairs = pair("general.alignment", 4, little_endian(64, 4)) + pair("f", 6, floats({1.5f})) +
                            pair("tokens", 9, little_endian(8, 4) + little_endian(2, 8) + text("a") + text("bc"));
  const std::string path = file_with("GGUF" + little_endian(3, 4) + little_endian(0, 8) + little_endian(3, 8) + pairs);
  interop::gguf_reader from(path);
  interop::gguf_writer out;
  out.keep_pairs(from);
  const float values[3] = {1, 2, 3};
  out.add("x", interop::source_of(number_type::f32, {3}, values));
  out.add("y", interop::source_of(number_type::f32, {1}, values));
  const std::string written = support::scratch() / "kept.gguf";
  out.write(written);
  interop::gguf_reader file(written);
  CHECK(file.pair_bytes() == pairs);
  CHECK(file.pair_count() == 3);
  CHECK(file.alignment() == 64);
  CHECK(file.at("y").offset - file.at("x").offset == 64);
  out.set_string("a", "b");
  CHECK(reports(support::rejection([&] { out.write(written); }),
                "both keep_pairs and set_string: 3 keys and 1 keys; use one of them"));
}

TEST_CASE("a tensor of a type that is not decoded is copied byte for byte", "[gguf]") {
  const std::string blocks(2 * 210, '\x5a'), path = support::scratch() / "copied.gguf";
  interop::gguf_reader from(file_with(gguf({}, {tensor("q", {256, 2}, 14, 0)}, blocks)));
  REQUIRE(from.at("q").type_name == "Q6_K");
  REQUIRE(from.at("q").bytes == blocks.size());
  interop::gguf_writer out;
  out.add_copy("q", from.at("q"), [&](const interop::byte_sink& sink) { sink(blocks.data(), blocks.size()); });
  out.add_copy("f", {.name = "", .type_name = "F32", .type = number_type::f32, .shape = {1}},
               interop::source_of(number_type::f32, {1}, "abcd").write);
  out.write(path);
  interop::stored_tensor unknown;
  unknown.type_name = "number 99 of ggml";
  interop::gguf_reader file(path);
  std::string got(blocks.size(), '\0');
  file.read_bytes(file.at("q"), 0, got.data(), got.size());
  CHECK(got == blocks);
  CHECK(file.at("q").type_name == "Q6_K");
  CHECK(file.at("f").type == number_type::f32);
  CHECK(reports(support::rejection([&] { out.add_copy("x", unknown, {}); }), "has a type that ggml does not have"));
}

TEST_CASE("a writer takes as many tensors as a model has", "[gguf]") {
  const auto begin = std::chrono::steady_clock::now();
  const auto source = interop::source_of(number_type::f32, {0}, nullptr);
  interop::gguf_writer out;
  for (int i = 0; i < 40000; ++i) out.add("blk." + std::to_string(i) + ".weight", source);
  CHECK(reports(support::rejection([&] { out.add("blk.7.weight", source); }),
                "tensor blk.7.weight is already in the file"));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));  // comparing each with all takes minutes
}

TEST_CASE("the rows of a tensor with three dimensions, experts, are those of all of its matrices", "[gguf]") {
  const auto values = weights(6 * 64);
  const auto q = quantize<mxfp4>(matrix_view<const float>(values.data(), 6, 64));
  const std::string bytes = support::bytes_of(saved(q, "w"));
  const interop::gguf_reader flat(file_with(bytes));
  const std::string blocks = bytes.substr(flat.at("w").offset, flat.at("w").bytes);
  interop::gguf_reader file(file_with(gguf({}, {tensor("w", {64, 2, 3}, 39, 0)}, blocks)));
  const auto weight = interop::find_weight<mxfp4>(file, "w");
  CHECK(weight.rows == 6);
  CHECK(weight.cols == 64);
  CHECK(interop::read_quantized<mxfp4>(file, "w") == q);
}

TEST_CASE("plain tensors are written with their extents in reverse order and aligned", "[gguf]") {
  const std::vector<bf16> brain{bf16(1.0f), bf16(2.0f), bf16(3.0f)};
  const std::vector<float> f = weights(5);
  interop::gguf_writer out;
  out.add("brain", interop::source_of(matrix_view<const bf16>(brain.data(), 1, 3)));
  out.add("f", interop::source_of(matrix_view<const float>(f.data(), 1, 5)));
  const std::string path = support::scratch() / "plain.gguf";
  out.write(path);
  std::string data = support::words({0x3F80, 0x4000, 0x4040});
  data.resize(32, '\0');
  data += floats(f);
  data.resize(64, '\0');
  REQUIRE(support::bytes_of(path) == gguf({}, {tensor("brain", {3, 1}, 30, 0), tensor("f", {5, 1}, 0, 32)}, data));
}

TEST_CASE("what GGUF cannot represent is rejected before anything is written", "[gguf]") {
  const auto values = weights(96);
  const matrix_view<const float> x(values.data(), 1, 96);
  CHECK(reports(support::rejection([&] { saved(quantize<nvfp4>(x)); }), "has 96 columns, not a multiple of ggml's 64"));
  CHECK(reports(support::rejection([&] { saved(quantize<mxfp4>(x, hadamard<32>{})); }),
                "after a Hadamard transform of 32"));
  interop::gguf_writer out;
  const auto source = interop::source_of(number_type::f32, {0}, nullptr);
  out.add("w", source);
  CHECK(reports(support::rejection([&] { out.add("w", source); }), "tensor w is already in the file"));
  CHECK(reports(support::rejection([&] { out.add(std::string(64, 'n'), source); }), "has 64 bytes; ggml takes 63"));
  CHECK(reports(support::rejection([&] { out.add("x", {number_type::f32, {}, {}}); }),
                "has 0 dimensions; ggml takes 1 to 4"));
  CHECK(reports(support::rejection([&] { out.add("x", {number_type::u8, {1}, {}}); }),
                "has a type that ggml does not have"));
  CHECK(reports(support::rejection([&] { out.add("x", {number_type::mxfp4, {2, 33}, {}}); }),
                "x has no byte count: 2 x 33 MXFP4 is not a whole number of blocks"));
}

TEST_CASE("a bad GGUF file is rejected with one message that names the problem", "[gguf]") {
  const std::string six = floats({1, 2, 3, 4, 5, 6});
  const std::string good = gguf({pair("a", 8, text("b"))}, {tensor("w", {3, 2}, 0, 0)}, six);
  CHECK(rejected(good) == "accepted");
  CHECK(reports(rejected("GGUF"), "shorter than that format's head of 24 bytes"));
  CHECK(reports(rejected("GGML" + good.substr(4)), "does not begin with GGUF"));
  CHECK(reports(rejected(gguf({}, {}, "", 32, 1)), "has GGUF version 1"));
  CHECK(reports(rejected(gguf({}, {}, "", 32, 3u << 24)), "is a big-endian GGUF file; little-endian ones can be read"));
  CHECK(reports(rejected(gguf({}, {tensor("w", {128}, 12, 0)}, six)), "tensor w: no byte count: 128 Q4_K is not"));
  CHECK(reports(rejected(gguf({}, {tensor("w", {256}, 12, 0)}, six)),
                "data outside the file: 144 bytes at byte 0 of the data"));
  CHECK(reports(rejected(good.substr(0, 60)), "ends inside its header"));
  CHECK(reports(rejected(good.substr(0, good.size() - 1)),
                "data outside the file: 24 bytes at byte 0 of the data, which have 23"));
  const auto w = [&](const std::vector<std::uint64_t>& extents, unsigned type, std::uint64_t offset) {
    return rejected(gguf({}, {tensor("w", extents, type, offset)}, six));
  };
  constexpr std::uint64_t huge = std::uint64_t{1} << 63;
  CHECK(reports(w({3, 2}, 0, huge), "24 bytes at byte 9223372036854775808"));
  CHECK(reports(w({huge, 8}, 0, 0), "no byte count"));
  CHECK(reports(w({31, 1}, 39, 0), "no byte count: 1 x 31 MXFP4"));
  CHECK(reports(w({1, 1, 1, 1, 1}, 0, 0), "has 5 dimensions; ggml has up to 4"));
  CHECK(reports(rejected(gguf({}, {tensor("w", {1}, 0, 0), tensor("w", {1}, 0, 0)}, six)),
                "two tensors have the name w"));
  CHECK(reports(rejected(gguf({pair("a", 13, "")}, {}, six)), "metadata value not readable: type 13"));
  CHECK(reports(rejected(gguf({pair("a", 8, little_endian(huge, 8))}, {}, six)),
                "string too long: 9223372036854775808 bytes"));
  CHECK(reports(rejected(gguf({pair("a", 9, little_endian(12, 4) + little_endian(huge, 8))}, {}, six)),
                "ends inside an array"));
  CHECK(reports(rejected(gguf({pair("a", 9, little_endian(8, 4) + little_endian(huge, 8))}, {}, six)),
                "ends inside its header"));
  std::string deep;
  for (int i = 0; i < 20; ++i) deep += little_endian(9, 4) + little_endian(1, 8);
  CHECK(reports(rejected(gguf({pair("a", 9, deep)}, {}, six)), "nested too deeply"));
  for (const std::uint64_t alignment : {0u, 12u, 1u << 24})
    CHECK(reports(rejected(gguf({pair("general.alignment", 4, little_endian(alignment, 4))}, {}, six)),
                  "general.alignment must be a multiple of 8 up to 1048576, got "));
  const std::string empty = file_with(gguf({}, {tensor("w", {0, huge}, 39, 0)}, ""));
  CHECK(reports(file_rejection([&] {
                  interop::gguf_reader file(empty);
                  interop::read_quantized<mxfp4>(file, "w");
                }),
                "is an empty matrix: 9223372036854775808 x 0"));
  for (const float bad : {-1.0f, NAN, HUGE_VALF}) {
    std::string data(36, '\0');
    data.resize(64, '\0');
    const std::string path =
        file_with(gguf({}, {tensor("w", {64, 1}, 40, 0), tensor("w.scale", {1}, 0, 64)}, data + floats({bad})));
    interop::gguf_reader file(path);
    CHECK(reports(file_rejection([&] { interop::read_quantized<nvfp4>(file, "w"); }),
                  "tensor w.scale: invalid tensor scale: "));
  }
}

TEST_CASE("random damage to a GGUF file is accepted or rejected with a file_error", "[gguf]") {
  INFO(support::seed_note());
  std::mt19937_64 random{support::seed()};
  const auto values = weights(128);
  const std::string good =
      support::bytes_of(saved(quantize<nvfp4>(matrix_view<const float>(values.data(), 2, 64)), "w"));
  for (int round = 0; round < 800; ++round) {
    const std::string path = file_with(support::damaged(good, random));
    REQUIRE_NOTHROW(file_rejection([&] {
      interop::gguf_reader file(path);
      interop::read_quantized<nvfp4>(file, "w");
    }));
  }
}
