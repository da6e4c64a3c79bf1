// ufp4 - .safetensors files: tensors, and quantized matrices in the layouts of other projects and in ours.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/interop/safetensors.hpp>
#include <ufp4/ufp4.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/formats.hpp"
#include "support/hostile.hpp"
#include "support/messages.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"

using namespace ufp4;
using interop::number_type, interop::tensor_layout;
using support::file_rejection;
using support::file_with;
using support::floats;
using support::reports;
using support::safetensors;
using support::words;

namespace {

// A writer reads the memory of a matrix when the file is written, so it accepts no temporary matrix.
template <class M>
concept has_source = requires(M&& m) { interop::source_of(std::forward<M>(m)); };
template <class Q>
concept can_be_added =
    requires(interop::safetensors_writer& file, Q&& q) { interop::add_quantized(file, "w", std::forward<Q>(q)); };
static_assert(has_source<const matrix<float>&> && has_source<matrix_view<float>> && !has_source<matrix<float>>);
static_assert(can_be_added<const any_quantized&> && can_be_added<quantized_view<nvfp4>>);
static_assert(!can_be_added<any_quantized> && !can_be_added<quantized_matrix<nvfp4>>);

const std::string six = floats({1, 2, 3, 4, 5, 6});

std::vector<float> rows_of(interop::safetensors_reader& file, const std::string& name) {
  const auto& t = file.at(name);
  file.check_matrix(t);
  std::vector<float> values(static_cast<std::size_t>(t.shape[0] * t.shape[1]));
  file.read_rows(t, 0, matrix_view<float>(values.data(), t.shape[0], t.shape[1]));
  return values;
}

std::string rejected(const std::string& bytes, const std::string& tensor = "w") {
  const std::string path = file_with(bytes);
  return file_rejection([&] {
    interop::safetensors_reader file(path);
    rows_of(file, tensor);
  });
}

std::string one(const std::string& type, const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

/// The matrix of the tests that quantize: hostile values, so that scales differ and every code occurs.
struct weights {
  std::size_t rows, cols;
  std::vector<float> values;
  weights(std::size_t r, std::size_t c)
      : rows(r), cols(c), values(support::hostile(support::seed(r * c)).values(r * c)) {}
  matrix_view<const float> view() const { return {values.data(), rows, cols}; }
};

template <class Q>
std::string saved(const Q& q, tensor_layout layout, const std::string& name = "layers.0.weight") {
  interop::safetensors_writer out;
  interop::add_quantized(out, name, q, layout);
  const std::string path = support::scratch() / "quantized.safetensors";
  out.write(path);
  return path;
}

template <class F, class Q>
void require_round_trip(const Q& q, tensor_layout layout) {
  interop::safetensors_reader file(saved(q, layout));
  const auto back = interop::read_quantized<F>(file, "layers.0.weight");
  REQUIRE(back == q);
  REQUIRE(same_map(back.transform(), q.transform()));
  REQUIRE(back.transform().rounds_to_bf16 == q.transform().rounds_to_bf16);
}

/// name -> "F32 2 x 3" of every tensor.
std::map<std::string, std::string> described(const interop::tensor_file& file) {
  std::map<std::string, std::string> all;
  for (const auto& t : file.tensors()) all[t.name] = t.type_name + " " + interop::shape_text(t.shape);
  return all;
}

}  // namespace

TEST_CASE("a safetensors matrix reads as it was written", "[safetensors]") {
  const std::string header = R"({"__metadata__":{"made":"by \"hand\"","deep":[1,{"a":[null,true,-1.5e3]}]},)"
                             R"("small":{"dtype":"F16","shape":[1,2],"data_offsets":[24,28]},)"
                             R"("w\u00e9ight":{"shape":[2,3],"extra":0,"dtype":"F32","data_offsets":[0,24]},)"
                             R"("six_bit":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]},)"
                             R"("brain":{"dtype":"BF16","shape":[2,2],"data_offsets":[28,36]},)"
                             R"("scales":{"dtype":"F8_E4M3","shape":[2,1],"data_offsets":[28,30]},)"
                             R"("powers":{"dtype":"F8_E8M0","shape":[1,2],"data_offsets":[29,31]}})";
  const std::string data = six + words({0x3C00, 0xC000, 0x7E3F, 0xC000, 0x4040, 0});
  interop::safetensors_reader file(file_with(safetensors(header + "   ", data)));
  REQUIRE(rows_of(file, "w\xC3\xA9ight") == std::vector<float>{1, 2, 3, 4, 5, 6});
  REQUIRE(rows_of(file, "small") == std::vector<float>{1, -2});
  REQUIRE(rows_of(file, "brain")[1] == -2);
  REQUIRE(rows_of(file, "scales") == std::vector<float>{1.875f, 448});      // 0x3F, 0x7E
  REQUIRE(rows_of(file, "powers") == std::vector<float>{0.5f, 0x1p-127f});  // 0x7E, 0x00
  REQUIRE(file.metadata().at("made") == "by \"hand\"");
  REQUIRE(file.metadata().size() == 1);
  char raw[3] = {};
  file.read_bytes(file.at("six_bit"), 0, raw, 3);
  REQUIRE(std::string(raw, 3) == six.substr(0, 3));
  CHECK(reports(support::rejection([&] { file.read_bytes(file.at("six_bit"), 1, raw, 3); }),
                "range out of bounds: bytes 1 to 4, but tensor six_bit has 3"));
  CHECK(reports(file_rejection([&] { rows_of(file, "six_bit"); }), "tensor six_bit has type F6_E2M3; F32, F16,"));
}

TEST_CASE("a row at the end of a file larger than memory costs that row", "[safetensors]") {
  const std::string header = R"({"w":{"dtype":"F32","shape":[1073741824,1024],"data_offsets":[0,4398046511104]}})";
  const std::string path = support::scratch() / "large.safetensors";
  std::ofstream(path, std::ios::binary) << safetensors(header, "");
  std::error_code error;
  std::filesystem::resize_file(path, 8 + header.size() + (std::uint64_t{1} << 42), error);  // 4 TiB, all hole
  if (error) return support::skip("this file system has no sparse file of 4 TiB: " + error.message());
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out).seekp(-4, std::ios::end) << floats({7});
  interop::safetensors_reader file(path);
  std::vector<float> row(1024);
  file.read_rows(file.at("w"), 1073741823, matrix_view<float>(row.data(), 1, 1024));
  CHECK(row[1023] == 7);
  CHECK(row[1022] == 0);
  std::filesystem::remove(path);
}

TEST_CASE("a bad safetensors file is rejected with one message that names the problem", "[safetensors]") {
  const std::string good = safetensors(one("F32", "[2,3]", "[0,24]"), six);
  CHECK(rejected(good) == "accepted");
  CHECK(reports(rejected(""), "is empty (0 bytes)"));
  CHECK(reports(rejected("1234567"), "shorter than the 8-byte header length"));
  CHECK(reports(rejected(good.substr(0, 20)), "header cut off: its length is "));
  CHECK(reports(rejected(good.substr(0, good.size() - 1)),
                "data outside the file: bytes 0 to 24 of the data, which have 23"));
  CHECK(reports(rejected(good + "x"), "size mismatch: the header describes 24 bytes of data, the file has 25"));
  CHECK(reports(rejected(std::string(8, '\xFF') + good), "header cut off: its length is 18446744073709551615 bytes"));
  CHECK(reports(rejected(safetensors(one("F64", "[1,3]", "[0,24]"), six)), "has type F64"));
  CHECK(reports(rejected(safetensors(one("F32", "[1,2,3]", "[0,24]"), six)), "has 3 dimensions (1 x 2 x 3)"));
  CHECK(reports(rejected(safetensors(one("F32", "[6]", "[0,24]"), six)), "has 1 dimension (6)"));
  CHECK(
      reports(rejected(safetensors(one("F32", "[2,4]", "[0,24]"), six)), "are 32 bytes, but its data_offsets span 24"));
  CHECK(reports(rejected(safetensors(one("F32", "[2,3]", "[24,0]"), six)), "data outside the file: bytes 24 to 0"));
  CHECK(reports(rejected(safetensors(one("F32", "[2,3]", "[0,99]"), six)), "data outside the file: bytes 0 to 99"));
  CHECK(
      reports(rejected(safetensors(one("F32", "[4294967296,4294967296]", "[0,24]"), six)), "more bytes than 64 bits"));
  CHECK(reports(rejected(safetensors(one("F32", "[0,3]", "[0,0]"), "")), "is an empty matrix: 0 x 3"));
  CHECK(reports(rejected(safetensors("{}", "")), "has no tensor named w; it has none"));
  for (const std::string& header :
       {std::string("nonsense"), std::string("["), std::string("{\"w\""), std::string("{\"w\":1}"),
        one("F32", "6", "[0,24]"), one("F32", "[2,3.5]", "[0,24]"), one("F32", "[2,-3]", "[0,24]"),
        one("F32", "[2,3]", "[0]"), one("F32", "[2,3]", "[0,24,48]"), one("F32", "[2,3]", "[0,99999999999999999999]"),
        std::string(R"({"w":{"dtype":"F32"}})"), one("F32", "[2,3],\"shape\":[2,3]", "[0,24]"),
        one("F32", "[2,3]", "[0,24]") + "}", one("F32\n", "[2,3]", "[0,24]"), one("\\ud800", "[2,3]", "[0,24]"),
        one("\\u12", "[2,3]", "[0,24]"), std::string(R"({"__metadata__":{"a":"b})"),
        "{\"__metadata__\":" + std::string(100000, '[') + std::string(100000, ']') + "}"}) {
    INFO(header.substr(0, 100));
    CHECK(reports(rejected(safetensors(header, six)), "not a JSON object of tensors"));
  }
  const std::string twice = R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                            R"("w":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}})";
  CHECK(reports(rejected(safetensors(twice, six)), "two tensors have the name w"));
}

TEST_CASE("the message about an absent tensor lists the names that exist", "[safetensors]") {
  std::string header = "{";
  for (int i = 10; i < 25; ++i) {
    header += i == 10 ? "\"t" : ",\"t";
    header += std::to_string(i);
    header += R"(":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]})";
  }
  const std::string message = rejected(safetensors(header + "}", six), "x\x1b");
  CHECK(reports(message, "has no tensor named x?; it has t10, t11, t12,"));
  CHECK(reports(message, "t21 and 3 more"));
}

TEST_CASE("what is written is read again, wide types first and every name as it was", "[safetensors]") {
  const std::vector<float> values = support::hostile(support::seed(2)).values(6, true);
  const std::vector<bf16> brains{bf16(1.0f), bf16::from_bits(0xFFC1)};
  interop::safetensors_writer out;
  const std::string unusual_name = "a\"b\\c\n\xC3\xA9";
  const std::uint8_t bytes[3] = {1, 2, 255};
  out.add("bytes", interop::source_of(number_type::u8, {3}, bytes));
  out.add("brain", interop::source_of(matrix_view<const bf16>(brains.data(), 2, 1)));
  out.add(unusual_name, {number_type::f32, {2, 3}, [&](const interop::byte_sink& sink) {  // piece by piece
                           for (const float& v : values) sink(&v, sizeof v);
                         }});
  out.add("nothing", interop::source_of(number_type::f8_e8m0, {0, 5}, nullptr));
  out.set_metadata("format", "pt\n");
  const std::string path = support::scratch() / "written.safetensors";
  out.write(path);

  interop::safetensors_reader file(path);
  REQUIRE(file.metadata() == std::map<std::string, std::string>{{"format", "pt\n"}});
  REQUIRE(described(file) ==
          std::map<std::string, std::string>{
              {unusual_name, "F32 2 x 3"}, {"brain", "BF16 2 x 1"}, {"bytes", "U8 3"}, {"nothing", "F8_E8M0 0 x 5"}});
  std::string raw(24, '\0');
  file.read_bytes(file.at(unusual_name), 0, raw.data(), 24);
  REQUIRE(raw == floats(values));
  REQUIRE(file.at(unusual_name).offset % 8 == 0);
  REQUIRE(file.at("brain").offset == file.at(unusual_name).offset + 24);
  REQUIRE(file.at("bytes").offset == file.at("brain").offset + 4);
  REQUIRE(support::bytes_of(path).ends_with(floats(values) + words({0x3F80, 0xFFC1}) + "\x01\x02\xFF"));
}

TEST_CASE("a header's text has tensors and metadata in their order, and is read back", "[safetensors]") {
  interop::safetensors_header header{{{"z", "1"}, {"a", "say \"x\""}},
                                     {{"w", "F32", {2, 3}, 0, 24}, {"s", "U8", {}, 24, 25}}};
  const std::string text = to_text(header);
  CHECK(text.size() % 8 == 0);
  CHECK(text.substr(0, text.find_last_not_of(' ') + 1) ==
        R"({"__metadata__":{"z":"1","a":"say \"x\""},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
        R"("s":{"dtype":"U8","shape":[],"data_offsets":[24,25]}})");
  const auto again = interop::parse_safetensors_header(text);
  REQUIRE(again);
  CHECK(again->metadata == header.metadata);
  REQUIRE(again->tensors.size() == 2);
  CHECK(again->tensors[0].name == "w");
  CHECK(again->tensors[0].shape == std::vector<std::uint64_t>{2, 3});
  CHECK(again->tensors[1].dtype == "U8");
  CHECK(again->tensors[1].end == 25);
  CHECK(interop::parse_safetensors_header("{}")->tensors.empty());
  CHECK(to_text(interop::safetensors_header{}) == "{}      ");
  CHECK_FALSE(interop::parse_safetensors_header(text + "x"));
  CHECK_FALSE(interop::parse_safetensors_header(R"({"w":{"dtype":"F32","shape":[2]}})"));
}

TEST_CASE("pieces of a file can be written in any order", "[safetensors]") {
  const std::string path = support::scratch() / "pieces";
  interop::output_file file(path);
  file.write("ab");
  file.write_at(6, "gh", 2);
  file.write_at(2, "cd", 2);
  file.write("ef");
  CHECK(file.written() == 8);
  CHECK_FALSE(std::filesystem::exists(path));
  file.finish();
  CHECK(support::bytes_of(path) == "abcdefgh");
}

TEST_CASE("an unfinished file has a unique name and is removed after any failure", "[safetensors]") {
  const std::string path = support::scratch() / "unique", theirs = path + ".tmp";
  std::ofstream(theirs) << "theirs";
  {
    interop::output_file one(path), two(path);
    one.write("one");
    two.write("two");
    CHECK(std::filesystem::exists(path + ".tmp-1"));
    CHECK(std::filesystem::exists(path + ".tmp-2"));
    two.finish();
    CHECK(support::bytes_of(path) == "two");
  }
  CHECK_FALSE(std::filesystem::exists(path + ".tmp-1"));
  CHECK_FALSE(std::filesystem::exists(path + ".tmp-2"));
  CHECK(support::bytes_of(theirs) == "theirs");
  CHECK(support::bytes_of(path) == "two");

  std::filesystem::remove(theirs);
  std::filesystem::remove(path);
  {
    interop::output_file file(path);
    file.write("x");
    std::filesystem::create_directory(path);  // between the checks and the rename
    CHECK_THROWS_AS(file.finish(), interop::file_error);
  }
  CHECK_FALSE(std::filesystem::exists(theirs));
}

TEST_CASE("an output file replaces what a link names, keeps its permissions, and replaces no other kind of file",
          "[safetensors]") {
  namespace fs = std::filesystem;
  const auto write = [](const std::string& path) {
    interop::output_file file(path);
    file.write("new");
    file.finish();
  };
  const std::string folder = support::scratch() / "links", target = folder + "/target", link = folder + "/link";
  fs::create_directory(folder);
  std::ofstream(target) << "old";
  fs::permissions(target, fs::perms(0640));
  fs::create_symlink("target", link);
  write(link);
  CHECK(fs::is_symlink(link));
  CHECK(support::bytes_of(target) == "new");
  CHECK(fs::status(target).permissions() == fs::perms(0640));

  fs::create_symlink("link", folder + "/second");
  fs::remove(target);
  write(folder + "/second");  // two links to a name that is free
  CHECK(support::bytes_of(target) == "new");
  CHECK(fs::is_symlink(folder + "/second"));

  fs::create_symlink("loop", folder + "/loop");
  CHECK_THROWS_AS(interop::output_file(folder + "/loop"), interop::file_error);
  CHECK_THROWS_AS(interop::output_file(folder), interop::file_error);
  CHECK_THROWS_AS(interop::output_file("/dev/null"), interop::file_error);
  CHECK(std::distance(fs::directory_iterator(folder), {}) == 4);
}

TEST_CASE("a writer rejects what the format cannot represent", "[safetensors]") {
  interop::safetensors_writer out;
  const auto source = interop::source_of(number_type::u8, {0}, nullptr);
  out.add("w", source);
  CHECK(reports(support::rejection([&] { out.add("w", source); }), "tensor w is already in the file"));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 40000; ++i) out.add("layers." + std::to_string(i) + ".weight", source);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));  // comparing each with all takes minutes
  CHECK(reports(support::rejection([&] { out.add("\xFF", source); }), "tensor ?: the name is not UTF-8"));
  CHECK(reports(support::rejection([&] { out.add("__metadata__", source); }), "__metadata__"));
  CHECK(reports(support::rejection([&] { out.add("x", {number_type::nvfp4, {1, 64}, {}}); }), "does not have"));
  CHECK(reports(support::rejection([&] { out.add("x", {number_type::f32, {1ull << 62, 4}, {}}); }), "64 bits"));
  CHECK(reports(support::rejection([&] { out.set_metadata("a", "\x80"); }), "not UTF-8: metadata a"));
}

TEST_CASE("compressed-tensors' layout: packed codes, e4m3 scales, and the tensor scale's reciprocal", "[safetensors]") {
  const weights w(5, 64);
  const auto q = quantize<nvfp4>(w.view());
  interop::safetensors_reader file(saved(q, tensor_layout::compressed_tensors));
  REQUIRE(described(file) == std::map<std::string, std::string>{{"layers.0.weight_packed", "U8 5 x 32"},
                                                                {"layers.0.weight_scale", "F8_E4M3 5 x 4"},
                                                                {"layers.0.weight_global_scale", "F32 1"}});
  float divisor = 0;
  file.read_bytes(file.at("layers.0.weight_global_scale"), 0, &divisor, 4);
  REQUIRE(1 / divisor == q.tensor_scale());
  const auto codes = rows_of(file, "layers.0.weight_packed"), scales = rows_of(file, "layers.0.weight_scale");
  std::vector<float> y(5 * 64);
  dequantize(q, matrix_view<float>(y.data(), 5, 64));
  constexpr float grid[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t k = 0; k < 64; ++k) {
      const unsigned code = static_cast<unsigned>(codes[i * 32 + k / 2]) >> (k % 2 * 4) & 15u;
      const float value = (code & 8u ? -1.0f : 1.0f) * grid[code & 7u], s = scales[i * 4 + k / 16];
      if (std::isnan(s)) continue;
      REQUIRE(value * (s * (1 / divisor)) == y[i * 64 + k]);
    }
  require_round_trip<nvfp4>(q, tensor_layout::compressed_tensors);
  const auto mx = quantize<mxfp4>(w.view());
  require_round_trip<mxfp4>(mx, tensor_layout::compressed_tensors);
  interop::safetensors_reader mx_file(saved(mx, tensor_layout::compressed_tensors));
  REQUIRE(described(mx_file) == std::map<std::string, std::string>{{"layers.0.weight_packed", "U8 5 x 32"},
                                                                   {"layers.0.weight_scale", "U8 5 x 2"}});
}

TEST_CASE("every tensor scale that quantize gives is some float's reciprocal", "[safetensors]") {
  std::mt19937_64 random{support::seed(3)};
  for (int i = 0; i < 200000; ++i) {
    const float global_amax = std::bit_cast<float>(static_cast<std::uint32_t>(random() % 0x7F800000u));
    const float s = 2688.0f / global_amax, factor = 1 / s;
    if (!std::isfinite(s)) continue;
    const float divisor = interop::divisor_of(factor);
    if (1 / divisor != factor) FAIL("global_amax = " << global_amax);
  }
  for (const float global_amax : {0.0f, 0x1p-149f, 0x1.8p-130f, 0x1p-120f, 0x1p-116f, 1.0f, 0x1.fffffep127f}) {
    CAPTURE(global_amax);
    require_round_trip<nvfp4>(
        quantize<nvfp4>(matrix_view<const float>(std::vector<float>(16, global_amax).data(), 1, 16)),
        tensor_layout::compressed_tensors);
  }
  CHECK(interop::divisor_of(0) == 0);
  CHECK(interop::divisor_of(0x1p-140f) == 0);
  CHECK(interop::divisor_of(0x1.fffffep-1f) == 0);  // between 1/1 and 1/(1 + 2^-23)
}

TEST_CASE("ModelOpt's layout keeps the tensor scale as a factor", "[safetensors]") {
  const weights w(3, 32);
  auto q = quantize<nvfp4>(w.view());
  q.set_tensor_scale(0x1.fffffep-1f);
  CHECK(reports(support::rejection([&] { saved(q, tensor_layout::compressed_tensors); }),
                "0.99999994, which is not the reciprocal of a float"));
  interop::safetensors_reader file(saved(q, tensor_layout::modelopt));
  REQUIRE(described(file) == std::map<std::string, std::string>{{"layers.0.weight", "U8 3 x 16"},
                                                                {"layers.0.weight_scale", "F8_E4M3 3 x 2"},
                                                                {"layers.0.weight_scale_2", "F32 no shape"}});
  require_round_trip<nvfp4>(q, tensor_layout::modelopt);
  require_round_trip<mxfp4>(quantize<mxfp4>(w.view()), tensor_layout::modelopt);
}

TEST_CASE("torchao's flattened tensors are read", "[safetensors]") {
  const weights w(2, 32);
  const auto q = quantize<compat::torchao_nvfp4>(w.view());
  const float scale = q.tensor_scale();
  interop::safetensors_writer out;
  out.add("0._weight_qdata", interop::source_of(number_type::u8, {2, 16}, q.codes().data()));
  out.add("0._weight_scale", interop::source_of(number_type::f8_e4m3, {2, 2}, q.scales().data()));
  out.add("0._weight_per_tensor_scale", interop::source_of(number_type::f32, {}, &scale));
  const std::string path = support::scratch() / "torchao.safetensors";
  out.write(path);
  interop::safetensors_reader file(path);
  REQUIRE(interop::read_quantized<nvfp4>(file, "0.weight") == q);
}

TEST_CASE("torchao's NVFP4 without a tensor scale has the factor 1, and the other layouts must have one",
          "[safetensors]") {
  const weights w(2, 32);
  auto q = quantize<nvfp4>(w.view());
  q.set_tensor_scale(1);
  const auto codes = interop::source_of(number_type::u8, {2, 16}, q.codes().data());
  const auto scales = interop::source_of(number_type::f8_e4m3, {2, 2}, q.scales().data());
  interop::safetensors_writer out;
  out.add("0._weight_qdata", codes);
  out.add("0._weight_scale", scales);
  out.add("ct_packed", codes);
  out.add("ct_scale", scales);
  const std::string path = support::scratch() / "one_level.safetensors";
  out.write(path);
  interop::safetensors_reader file(path);
  REQUIRE(interop::read_quantized<nvfp4>(file, "0.weight") == q);
  CHECK_THROWS_AS(interop::read_quantized<nvfp4>(file, "ct"), interop::file_error);
}

TEST_CASE("metadata of the ufp4 layout without any of its tensors are ignored", "[safetensors]") {
  const weights w(2, 32);
  const auto q = quantize<mxfp4>(w.view());
  interop::safetensors_writer out;
  out.add("0._weight_qdata", interop::source_of(number_type::u8, {2, 16}, q.codes().data()));
  out.add("0._weight_scale", interop::source_of(number_type::f8_e8m0, {2, 1}, q.scales().data()));
  out.set_metadata("ufp4.0.weight", "left behind");
  const std::string path = support::scratch() / "left_behind.safetensors";
  out.write(path);
  interop::safetensors_reader file(path);
  CHECK_FALSE(interop::has_own_layout(file, "0.weight"));
  CHECK(interop::read_quantized<mxfp4>(file, "0.weight") == q);
}

using stored_formats = support::presets_and<block_format<nf4, bf16, 64>, block_format<fp4<E3M0>, ue5m3, 8, float>,
                                            block_format<fp4<E1M2>, e4m3, square(16)>, int8_f32, mxint8,
                                            block_format<int8, e4m3, square(16), float>>;
TEMPLATE_LIST_TEST_CASE("the ufp4 layout stores every format, ragged columns and the transform", "[safetensors]",
                        stored_formats) {
  for (const std::size_t cols : {1u, 15u, 16u, 33u, 128u}) {
    const weights w(cols % 7 + 17, cols);
    require_round_trip<TestType>(quantize<TestType>(w.view()), tensor_layout::ufp4);
    if constexpr (TestType::block.rows == 1) {
      require_round_trip<TestType>(quantize<TestType>(w.view(), random_hadamard<16>{42}), tensor_layout::ufp4);
      require_round_trip<TestType>(quantize<TestType>(w.view(), random_hadamard<128>{7}.to_bf16()),
                                   tensor_layout::ufp4);
    }
  }
}

TEST_CASE("codes of one byte are stored as I8, and the metadata names the integers and their unit", "[safetensors]") {
  const weights w(3, 40);
  interop::safetensors_reader file(saved(quantize<mxint8>(w.view()), tensor_layout::ufp4));
  const auto& codes = file.at("layers.0.weight_packed");
  CHECK(codes.type == number_type::i8);
  CHECK(codes.shape == std::vector<std::uint64_t>{3, 64});
  CHECK(file.metadata().at("ufp4.layers.0.weight").starts_with("grid=int8*0.015625 scale=e8m0 block=1x32 cols=40 "));
}

namespace {

/// A file with a weight of a format, read back without and with the format; the tensor of scales, as described.
template <class F>
std::string require_stored(const char* expected_scales) {
  const weights w(5, 200);
  const auto q = quantize<F>(w.view(), random_hadamard<32>{5});
  require_round_trip<F>(q, tensor_layout::ufp4);
  interop::safetensors_reader file(saved(q, tensor_layout::ufp4));
  const any_quantized back = interop::read_quantized(file, "layers.0.weight");
  REQUIRE((back.spec() == spec_of<F> && back.view() == any_quantized_view(q)));
  CHECK(described(file).at("layers.0.weight_scale") == expected_scales);
  CHECK(described(file).contains("layers.0.weight_tensor_scale") == F::has_tensor_scale);
  const std::string& text = file.metadata().at("ufp4.layers.0.weight");
  return text.substr(text.find(" scale="), text.find(" cols=") - text.find(" scale="));
}

/// Several grids of a block, of which the second has a factor.
using own_grids = block_format<one_of<int4, scaled<fp4<E3M0>, 1, 4>, fp4<E1M2>>, e4m3, 32, bf16>;
/// The range of float in the outer scales of rows.
using own_rows = block_format<fp4<E2M1>, ue5m3, 16, per_row<bf16>>;
using own_segments = block_format<fp4<E2M1>, e4m3, 16, per_segment<48, float>>;

}  // namespace

TEST_CASE("the ufp4 layout stores outer scales, grids and one-bit exponents, and the metadata describe them",
          "[safetensors]") {
  INFO(support::seed_note());
  // 200 columns in runs of 32 are 224: 14 scales, 2 bytes up to the next float, and 2 floats for 128 columns each.
  CHECK(require_stored<tetrajet2>("U8 5 x 24") == " scale=e4m3 outer=f32/128 block=1x16");
  CHECK(require_stored<if4>("U8 5 x 14") == " scale=e4m3 block=1x16");
  CHECK(require_stored<mixfp4>("U8 5 x 14") == " scale=e4m3 block=1x16");
  CHECK(require_stored<razer>("U8 5 x 14") == " scale=e4m3 block=1x16");
  CHECK(require_stored<hif4>("U8 5 x 16") == " scale=e6m2 block=1x64/8/4");  // 4 blocks of 4 bytes
  CHECK(require_stored<mxfp8_e4m3>("F8_E8M0 5 x 7") == " scale=e8m0 block=1x32");
  CHECK(require_stored<mxfp8_e5m2>("F8_E8M0 5 x 7") == " scale=e8m0 block=1x32");
  CHECK(require_stored<mxfp6_e3m2>("F8_E8M0 5 x 7") == " scale=e8m0 block=1x32");
  CHECK(require_stored<mxfp6_e2m3>("F8_E8M0 5 x 7") == " scale=e8m0 block=1x32");
}

TEST_CASE("the metadata of the ufp4 layout differ for any two presets, and for formats of a program's own",
          "[safetensors]") {
  std::vector<std::string> texts;
  for (const format_spec& f : interop::known_formats()) {
    // A binary32 tensor scale is told by its tensor.
    texts.push_back(interop::format_text(f) + (f.has_tensor_scale() ? " and a tensor scale" : ""));
  }
  std::sort(texts.begin(), texts.end());
  CHECK(std::adjacent_find(texts.begin(), texts.end()) == texts.end());
  CHECK(
      interop::format_text(spec_of<if4>).find(" grid1=0,1,2,3,4,5,6,7,-8,-7,-6,-5,-4,-3,-2,-1*0.85714287 scale=e4m3") !=
      std::string::npos);
  CHECK(interop::format_text(spec_of<mxfp6_e2m3>) == "grid=fp6_e2m3 scale=e8m0 block=1x32");
  const weights w(4, 64);
  require_round_trip<own_rows>(quantize<own_rows>(w.view()), tensor_layout::ufp4);
  require_round_trip<own_segments>(quantize<own_segments>(w.view()), tensor_layout::ufp4);
  CHECK(interop::format_text(spec_of<own_segments>).ends_with(" scale=e4m3 outer=f32/48 block=1x16"));
  const auto q = quantize<own_grids>(w.view());
  interop::safetensors_reader file(saved(q, tensor_layout::ufp4));
  CHECK(interop::read_quantized<own_grids>(file, "layers.0.weight") == q);
  CHECK(file.metadata().at("ufp4.layers.0.weight").find("*1 scale=e4m3 outer=bf16/tensor block=1x32 cols=64 ") !=
        std::string::npos);
  CHECK(reports(file_rejection([&] { interop::read_quantized(file, "layers.0.weight"); }), "unknown format: "));
}

TEST_CASE("scales of several grids and of segments are rejected in another type or shape", "[safetensors]") {
  const weights w(2, 64);
  const auto q = quantize<tetrajet2>(w.view());
  interop::safetensors_writer out;
  const interop::quantized_names names = interop::names_of("w", tensor_layout::ufp4);
  out.add(names.codes, interop::source_of(number_type::u8, {2, 32}, q.codes().data()));
  out.add(names.scales, interop::source_of(number_type::f8_e4m3, {2, 4}, q.scale_bytes().data()));
  out.set_metadata("ufp4.w", interop::format_text(q.spec()) + interop::extent_text(64, {}));
  const std::string path = support::scratch() / "short.safetensors";
  out.write(path);
  CHECK(reports(file_rejection([&] {
                  interop::safetensors_reader file(path);
                  interop::find_weight(file, "w");
                }),
                "the scales of 2 x 32 bytes of these codes are 2 x 8 U8"));
}

TEST_CASE("without a format a weight is read in the format that the file states", "[safetensors]") {
  const weights w(40, 50);
  for (const format_spec& format : interop::known_formats()) {
    const any_quantized q = quantize(format, w.view());
    interop::safetensors_reader file(saved(q, tensor_layout::ufp4));
    const any_quantized back = interop::read_quantized(file, "layers.0.weight");
    REQUIRE(back.spec() == format);
    REQUIRE(back.tensor_scale() == q.tensor_scale());
    REQUIRE(std::ranges::equal(back.codes(), q.codes()));
    REQUIRE(std::ranges::equal(back.scale_bytes(), q.scale_bytes()));
    any_quantized rows(format, 8, 50);
    if (format.block.rows > 1) continue;
    interop::read_weight_rows(file, interop::find_weight(file, "layers.0.weight"), 32, rows);
    REQUIRE(std::ranges::equal(rows.codes(), q.codes().last(rows.codes().size())));
  }
  const weights even(4, 64);
  for (const auto layout : {tensor_layout::compressed_tensors, tensor_layout::modelopt}) {
    interop::safetensors_reader nv(saved(quantize<nvfp4>(even.view()), layout));
    CHECK(interop::find_weight(nv, "layers.0.weight").format == spec_of<nvfp4>);
    interop::safetensors_reader mx(saved(quantize<mxfp4>(even.view()), layout));
    CHECK(interop::find_weight(mx, "layers.0.weight").format == spec_of<mxfp4>);
  }
}

TEMPLATE_TEST_CASE("a weight read by rows is that part of the whole", "[safetensors]", nvfp4, e1m2_f32,
                   (block_format<int4, e4m3, square(8)>), int8_f32) {
  const weights w(50, 40);
  const auto q = quantize<TestType>(w.view());
  interop::safetensors_reader file(saved(q, tensor_layout::ufp4));
  const auto weight = interop::find_weight<TestType>(file, "layers.0.weight");
  REQUIRE(weight.rows == 50);
  REQUIRE(weight.cols == 40);
  for (const auto& [first, count] : std::vector<std::pair<std::size_t, std::size_t>>{{0, 50}, {16, 24}, {48, 2}}) {
    quantized_matrix<TestType> part(count, 40);
    interop::read_weight_rows(file, weight, first, part);
    REQUIRE(part == row_range(q, first, count));
  }
  const auto rejection = [&](std::size_t first, std::size_t rows, std::size_t cols, const transform_spec& t = {}) {
    quantized_matrix<TestType> part(rows, cols, t);
    return support::rejection([&] { interop::read_weight_rows(file, weight, first, part); });
  };
  CHECK(reports(rejection(48, 3, 40), "has 50 rows, not 48 to 51"));
  CHECK(reports(rejection(51, 0, 40), "has 50 rows"));
  CHECK(reports(rejection(0, 8, 41), "has 40 columns, but out has 41"));
  CHECK(reports(rejection(0, 8, 40, hadamard<16>{}.spec()),
                "transform mismatch: tensor layers.0.weight_packed has none, out hadamard<16>"));
  if constexpr (TestType::block.rows > 1) {
    CHECK(reports(rejection(4, 8, 40), "blocks of 8 rows, got rows 4 to 12"));
    CHECK(reports(rejection(0, 4, 40), "blocks of 8 rows, got rows 0 to 4"));
  }
}

TEST_CASE("a layout rejects what it cannot represent", "[safetensors]") {
  const weights w(2, 40);
  for (const auto layout : {tensor_layout::compressed_tensors, tensor_layout::modelopt}) {
    CHECK(reports(support::rejection([&] { saved(quantize<e1m2_f32>(w.view()), layout); }),
                  "is neither nvfp4 nor mxfp4, but e1m2_f32; tensor_layout::ufp4 represents every matrix"));
    CHECK(reports(support::rejection([&] { saved(quantize<hif4>(w.view()), layout); }),
                  "layers.0.weight is neither nvfp4 nor mxfp4, but hif4; "));
    CHECK(reports(support::rejection([&] { saved(quantize<tetrajet2>(w.view()), layout); }), "but tetrajet2; "));
    CHECK(reports(support::rejection([&] { saved(quantize<nvfp4>(w.view()), layout); }),
                  "has 40 columns, not a multiple of"));
    CHECK(reports(support::rejection([&] { saved(quantize<nvfp4>(w.view(), hadamard<16>{}), layout); }),
                  "after a Hadamard transform of 16"));
  }
}

TEST_CASE("a quantized weight in another format than asked for is rejected with one message", "[safetensors]") {
  const weights w(4, 64);
  const auto q = quantize<e1m2_f32>(w.view());
  const auto ask = [](const std::string& path, auto format, const std::string& name = "layers.0.weight") {
    return file_rejection([&] {
      interop::safetensors_reader file(path);
      interop::read_quantized<decltype(format)>(file, name);
    });
  };
  const std::string own = saved(q, tensor_layout::ufp4);
  CHECK(ask(own, e1m2_f32{}) == "accepted");
  CHECK(reports(ask(own, int4_f32{}), "format mismatch: it has grid=0,0.25,0.5,0.75,1,1.25,1.5,1.75,-0,-0.25"));
  CHECK(reports(ask(own, e1m2_f32{}, "no"),
                "has no quantized weight named no: neither no_packed nor _no_qdata nor no_blocks nor no with"));

  const auto change = [&](const std::string& from, const std::string& to) {
    std::string bytes = support::bytes_of(own);
    const std::size_t at = bytes.find(from);
    REQUIRE(at != std::string::npos);
    REQUIRE(from.size() == to.size());
    return file_with(bytes.replace(at, from.size(), to));
  };
  CHECK(reports(ask(change("cols=64", "cols=65"), e1m2_f32{}), "64 codes a row are not 65 columns"));
  CHECK(reports(ask(change("cols=64", "cols=48"), e1m2_f32{}), "64 codes a row are not 48 columns in blocks of 16"));
  CHECK(reports(ask(change("cols=64", "cols=-4"), e1m2_f32{}), "invalid metadata: "));
  CHECK(reports(ask(change("hadamard=1", "hadamard=2"), e1m2_f32{}), "invalid metadata: "));
  CHECK(reports(ask(change("signs=00000000", "signs=00000002"), e1m2_f32{}), "invalid metadata: "));
  CHECK(reports(ask(change("signs=00000000", "signs=000 0000"), e1m2_f32{}), "invalid metadata: "));
  CHECK(reports(ask(change("weight_scale\"", "weight_scalf\""), e1m2_f32{}),
                "has no tensor named layers.0.weight_scale"));
  CHECK(reports(ask(change("\"F32\",\"shape\":[4,4]", "\"F32\",\"shape\":[2,8]"), e1m2_f32{}),
                "is 2 x 8 F32; the scales of 4 x 32"));

  const std::string two_level = saved(quantize<nvfp4>(w.view()), tensor_layout::ufp4);
  CHECK(ask(two_level, nvfp4{}) == "accepted");
  CHECK(reports(ask(two_level, block_format<fp4<E2M1>, e4m3, 16>{}),
                "format mismatch: it has a tensor scale, layers.0.weight_tensor_scale"));

  const std::string shared = saved(quantize<nvfp4>(w.view()), tensor_layout::compressed_tensors);
  CHECK(ask(shared, nvfp4{}) == "accepted");
  CHECK(reports(ask(shared, mxfp4{}),
                "weight_scale is 4 x 4 F8_E4M3; the scales of 4 x 32 bytes of these codes are 4 x 2"));
  CHECK(reports(ask(shared, e1m2_f32{}), "has no ufp4 metadata, so it can be read as nvfp4 or mxfp4"));

  for (const float bad : {0.0f, -1.0f, HUGE_VALF, NAN, 0x1p-140f}) {
    std::string bytes = support::bytes_of(shared);
    const std::size_t data = 8 + static_cast<std::size_t>(static_cast<unsigned char>(bytes[0])) +
                             256 * static_cast<std::size_t>(static_cast<unsigned char>(bytes[1]));
    bytes.replace(data, 4, floats({bad}));  // the one F32 comes first
    CHECK(reports(ask(file_with(bytes), nvfp4{}), "weight_global_scale: invalid tensor scale: "));
  }
}

TEST_CASE("random damage to a file is accepted or rejected with a file_error", "[safetensors]") {
  INFO(support::seed_note());
  std::mt19937_64 random{support::seed()};
  const weights w(3, 40);
  const std::string plain = safetensors(one("F32", "[2,3]", "[0,24]"), six);
  const std::string own = support::bytes_of(saved(quantize<nvfp4>(w.view(), hadamard<32>{}), tensor_layout::ufp4, "w"));
  for (int round = 0; round < 800; ++round) {
    const std::string path = file_with(support::damaged(round % 2 != 0 ? plain : own, random));
    REQUIRE_NOTHROW(file_rejection([&] {
      interop::safetensors_reader file(path);
      if (file.find("w") != nullptr) rows_of(file, "w");
    }));
    REQUIRE_NOTHROW(file_rejection([&] {
      interop::safetensors_reader file(path);
      interop::read_quantized<nvfp4>(file, "w");
    }));
  }
}

TEST_CASE("printable() replaces control characters and bytes that are not UTF-8", "[text]") {
  REQUIRE(interop::printable("plain, \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80") ==
          "plain, \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  REQUIRE(interop::printable("\x1b[2J\n\x7F\x80\xC2\x9B\xC0\xAF\xED\xA0\x80\xF5") == "?[2J???????????");
  // U+202E, which reverses the direction of what follows; U+2066; U+200B; U+2028; U+061C; U+FEFF
  REQUIRE(interop::printable("\xE2\x80\xAE|\xE2\x81\xA6|\xE2\x80\x8B|\xE2\x80\xA8|\xD8\x9C|\xEF\xBB\xBF") ==
          "???|???|???|???|??|???");
  REQUIRE(interop::printable("\xF3\xA0\x80\x81\xF3\xA0\x81\xBF\xF3\xA0\x82\x80") == "????????\xF3\xA0\x82\x80");
  // U+2010, U+2030, U+2070, U+0620 and U+FEFC are text
  const std::string shown = "\xE2\x80\x90 \xE2\x80\xB0 \xE2\x81\xB0 \xD8\xA0 \xEF\xBB\xBC";
  REQUIRE(interop::printable(shown) == shown);
  REQUIRE(interop::printable(std::string(1000, 'a')).size() < 220);
  REQUIRE(interop::json_text("a\"b\\\x01") == "\"a\\\"b\\\\\\u0001\"");
  REQUIRE(interop::is_utf8("\xC2\x80"));
  for (const char* bad :
       {"\xC0\xAF", "\xED\xA0\x80", "\xF5", "\x80", "\xE2\x82", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80"})
    REQUIRE_FALSE(interop::is_utf8(bad));
}
