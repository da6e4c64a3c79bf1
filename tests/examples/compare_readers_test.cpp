// ufp4 - tests: the file readers of examples/compare, on good files and on every kind of bad one.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "../../examples/compare/corpus.hpp"
#include "../../examples/compare/npy.hpp"
#include "../../examples/compare/safetensors.hpp"
#include "compare_files.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"

namespace {

using support::file_with;
using support::floats;
using support::npy;
using support::npy_header;
using support::safetensors;

/// The sentence with which a reader refuses, or "accepted".
template <class Read>
std::string refusal(Read read) {
  try {
    read();
  } catch (const compare::input_error& e) {
    return e.what();
  }
  return "accepted";
}

std::string npy_refusal(const std::string& bytes) {
  const std::string path = file_with(bytes);
  return refusal([&] { compare::read_npy(path, 0); });
}

std::string safetensors_refusal(const std::string& bytes, const std::string& tensor = "") {
  const std::string path = file_with(bytes);
  return refusal([&] { compare::read_safetensors(tensor.empty() ? path : path + ":" + tensor, 0); });
}

bool says(const std::string& sentence, const std::string& part) {
  INFO(sentence);
  CHECK(sentence.find('\n') == std::string::npos);
  const bool found = sentence.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

const std::string six = floats({1, 2, 3, 4, 5, 6});
const std::vector<float> six_values{1, 2, 3, 4, 5, 6};

std::string words(std::initializer_list<unsigned> codes) {
  std::string bytes;
  for (const unsigned code : codes) {
    bytes += static_cast<char>(code & 0xFF);
    bytes += static_cast<char>(code >> 8);
  }
  return bytes;
}

}  // namespace

TEST_CASE("a .npy matrix reads as it was written, in all versions, types and both orders", "[npy]") {
  for (const int version : {1, 2, 3}) {
    const auto m = compare::read_npy(file_with(npy("<f4", false, "(2, 3)", six, version)), 0);
    REQUIRE(m.rows == 2);
    REQUIRE(m.cols == 3);
    REQUIRE(m.values == six_values);
  }
  REQUIRE(compare::read_npy(file_with(npy("<f4", true, "(2, 3)", six)), 0).values ==
          std::vector<float>{1, 3, 5, 2, 4, 6});
  const std::string half = words({0x3C00, 0xC000, 0x3555, 0x0001, 0x8000, 0x7BFF});
  REQUIRE(compare::read_npy(file_with(npy("<f2", false, "(3,2)", half)), 0).values ==
          std::vector<float>{1, -2, 0.333251953125f, 0x1p-24f, -0.0f, 65504});
  const std::string brain = words({0x3F80, 0xC000, 0x0001, 0x7F7F});
  for (const char* type : {"<V2", "|V2"})
    REQUIRE(compare::read_npy(file_with(npy(type, false, "(2, 2)", brain)), 0).values ==
            std::vector<float>{1, -2, 0x1p-133f, 0x1.FEp127f});
  REQUIRE(compare::read_npy(file_with(npy("<f4", false, "(2L, 3L,)", six)), 0).values == six_values);
}

TEST_CASE("a row limit takes evenly spaced rows and says so", "[npy]") {
  for (const bool fortran : {false, true}) {
    const auto m = compare::read_npy(file_with(npy("<f4", fortran, "(6, 1)", six)), 4);
    REQUIRE(m.values == std::vector<float>{1, 2, 4, 5});  // rows 0, 1.5, 3, 4.5
    REQUIRE(says(m.source, "4 of 6 rows"));
  }
  REQUIRE(compare::read_npy(file_with(npy("<f4", false, "(6, 1)", six)), 6).values == six_values);
}

TEST_CASE("a bad .npy file is refused in one sentence that says what is wrong", "[npy]") {
  const std::string good = npy("<f4", false, "(2, 3)", six);
  CHECK(npy_refusal(good) == "accepted");
  CHECK(says(npy_refusal(""), "is empty (0 bytes)"));
  CHECK(says(npy_refusal("\x93NUM"), "not a .npy file"));
  CHECK(says(npy_refusal("PK\x03\x04 a zip archive is no .npy"), "not a .npy file"));
  CHECK(says(npy_refusal(good.substr(0, 9)), "ends inside the .npy header"));
  CHECK(says(npy_refusal(good.substr(0, 30)), "says its header is"));
  CHECK(says(npy_refusal(good.substr(0, good.size() - 1)), "are 24 bytes, but 23 bytes follow"));
  CHECK(says(npy_refusal(good + "x"), "are 24 bytes, but 25 bytes follow"));
  CHECK(says(npy_refusal(npy("<f4", false, "(2, 4)", six)), "2 x 4 float32 values, which are 32 bytes, but 24"));
  CHECK(says(npy_refusal(npy("<f8", false, "(2, 3)", six + six)), "'<f8'; compare reads float32"));
  CHECK(says(npy_refusal(npy("<i4", false, "(2, 3)", six)), "'<i4'"));
  CHECK(says(npy_refusal(npy("|O", false, "(2, 3)", six)), "'|O'"));
  CHECK(says(npy_refusal(npy(">f4", false, "(2, 3)", six)), "big-endian ('>f4')"));
  CHECK(says(npy_refusal(npy("<f4", false, "(6,)", six)), "array of 1 dimension;"));
  CHECK(says(npy_refusal(npy("<f4", false, "()", six.substr(0, 4))), "array of 0 dimensions;"));
  CHECK(says(npy_refusal(npy("<f4", false, "(1, 2, 3)", six)), "array of 3 dimensions;"));
  CHECK(says(npy_refusal(npy("<f4", false, "(0, 3)", "")), "empty matrix: 0 x 3"));
  CHECK(says(npy_refusal(npy("<f4", false, "(3, 0)", "")), "empty matrix: 3 x 0"));
  CHECK(says(npy_refusal(npy("<f4", false, "(9223372036854775807, 2)", six)), "more bytes than 64 bits can count"));
  CHECK(says(npy_refusal(npy("<f4", false, "(4294967296, 4294967296)", six)), "more bytes than 64 bits can count"));
  CHECK(says(npy_refusal(npy("<f4", false, "(99999999999999999999, 2)", six)), "not NumPy's dictionary"));
  CHECK(says(npy_refusal(npy("<f4", false, "(-2, -3)", six)), "not NumPy's dictionary"));
  CHECK(says(npy_refusal(npy("<f4", false, "(2, 3)", floats({1, 2, 3, 4, NAN, 6}))), "a NaN at row 1, column 1"));
  CHECK(says(npy_refusal(npy("<f4", true, "(2, 3)", floats({1, 2, 3, 4, NAN, 6}))), "a NaN at row 0, column 2"));
  CHECK(says(npy_refusal(npy("<f4", false, "(2, 3)", floats({1, 2, 3, -INFINITY, 5, 6}))),
             "an infinity at row 1, column 0"));
  CHECK(says(npy_refusal(npy("<f2", false, "(1, 2)", words({0x7C00, 0}))), "an infinity at row 0, column 0"));
  CHECK(says(npy_refusal(npy("<V2", false, "(1, 2)", words({0, 0x7FC0}))), "a NaN at row 0, column 1"));
  CHECK(says(npy_refusal(npy("<f4", false, "(2, 3)", floats({0, 0, -0.0f, 0, 0, 0}))), "every value is zero"));
  for (const char* dictionary :
       {"", "{", "{}", "[]", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}", "{'descr': '<f4', 'fortran_order': False, 'shape': 6}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} and more"}) {
    INFO(dictionary);
    CHECK(says(npy_refusal(npy_header(dictionary) + six), "not NumPy's dictionary"));
  }
  std::string version = good;
  version[6] = 9;
  CHECK(says(npy_refusal(version), "has .npy version 9"));
  const std::string paint =
      npy_refusal(npy_header("{'descr': '\x1b[31m\xFF', 'fortran_order': False, 'shape': (2, 3)}") + six);
  CHECK(says(paint, "'?[31m?'"));  // what a file says cannot repaint the terminal
}

TEST_CASE("a file that cannot be read is named", "[files]") {
  const auto missing = refusal([] { compare::read_npy("/nowhere/at/all.npy", 0); });
  CHECK(says(missing, "/nowhere/at/all.npy: cannot be opened: No such file or directory"));
  CHECK(says(refusal([] { compare::read_npy(".", 0); }), ".: is a directory, not a file"));
  CHECK(says(refusal([] { compare::read_npy("/dev/null", 0); }), "is not a regular file"));
  CHECK(says(refusal([] { compare::read_safetensors("/nowhere/m.safetensors:w", 0); }),
             "/nowhere/m.safetensors: cannot"));
  CHECK(says(refusal([] { compare::read_corpus({"/nowhere"}, 0); }), "/nowhere: there is no file to read there"));
}

TEST_CASE("a safetensors matrix reads as it was written", "[safetensors]") {
  const std::string header = R"({"__metadata__":{"made":"by \"hand\"","deep":[1,{"a":[null,true,-1.5e3]}]},)"
                             R"("small":{"dtype":"F16","shape":[1,2],"data_offsets":[24,28]},)"
                             R"("w\u00e9ight":{"shape":[2,3],"extra":0,"dtype":"F32","data_offsets":[0,24]},)"
                             R"("brain":{"dtype":"BF16","shape":[2,2],"data_offsets":[28,36]}})";
  const std::string path =
      file_with(safetensors(header + "   ", six + words({0x3C00, 0xC000, 0x3F80, 0xC000, 0x4040, 0})));
  REQUIRE(compare::read_safetensors(path + ":w\xC3\xA9ight", 0).values == six_values);
  REQUIRE(compare::read_safetensors(path + ":small", 0).values == std::vector<float>{1, -2});
  REQUIRE(compare::read_safetensors(path + ":brain", 0).values == std::vector<float>{1, -2, 3, 0});
  const auto largest = compare::read_safetensors(path, 1);
  REQUIRE(largest.values == std::vector<float>{1, 2, 3});
  REQUIRE(says(largest.source, "w\xC3\xA9ight, float32, 1 of 2 rows"));
}

TEST_CASE("a bad safetensors file is refused in one sentence that says what is wrong", "[safetensors]") {
  const auto one = [](const std::string& type, const std::string& shape, const std::string& offsets) {
    return R"({"w":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  const std::string good = safetensors(one("F32", "[2,3]", "[0,24]"), six);
  CHECK(safetensors_refusal(good) == "accepted");
  CHECK(says(safetensors_refusal(""), "is empty (0 bytes)"));
  CHECK(says(safetensors_refusal("1234567"), "shorter than the 8-byte header length"));
  CHECK(says(safetensors_refusal(good.substr(0, 20)), "says its header is"));
  CHECK(says(safetensors_refusal(good.substr(0, good.size() - 1)),
             "lies at bytes 0 to 24 of the data, but there are 23"));
  CHECK(says(safetensors_refusal(good + "x"), "describes 24 bytes of data, but holds 25"));
  CHECK(says(safetensors_refusal(std::string(8, '\xFF') + good), "says its header is 18446744073709551615 bytes long"));
  CHECK(says(safetensors_refusal(safetensors(one("F64", "[2,3]", "[0,24]"), six)),
             "has no float32, float16 or bfloat16"));
  CHECK(says(safetensors_refusal(safetensors(one("F64", "[2,3]", "[0,24]"), six), "w"), "has type F64"));
  CHECK(says(safetensors_refusal(safetensors(one("F32", "[1,2,3]", "[0,24]"), six), "w"),
             "has 3 dimensions (1 x 2 x 3)"));
  CHECK(says(safetensors_refusal(safetensors(one("F32", "[6]", "[0,24]"), six), "w"), "has 1 dimension (6)"));
  CHECK(says(safetensors_refusal(safetensors(one("F32", "[2,4]", "[0,24]"), six)),
             "are 32 bytes, but its data_offsets span 24"));
  CHECK(says(safetensors_refusal(safetensors(one("F32", "[2,3]", "[24,0]"), six)), "lies at bytes 24 to 0"));
  CHECK(says(safetensors_refusal(safetensors(one("F32", "[2,3]", "[0,99]"), six)), "lies at bytes 0 to 99"));
  CHECK(says(safetensors_refusal(safetensors(one("F32", "[4294967296,4294967296]", "[0,24]"), six)),
             "more bytes than 64 bits"));
  CHECK(says(safetensors_refusal(safetensors(one("F32", "[0,3]", "[0,0]"), "")), "is an empty matrix: 0 x 3"));
  CHECK(says(safetensors_refusal(safetensors("{}", "")), "holds no tensors"));
  CHECK(says(safetensors_refusal(safetensors(one("F32", "[2,3]", "[0,24]"), floats({1, 2, NAN, 4, 5, 6}))),
             "a NaN at row 0, column 2"));
  CHECK(says(safetensors_refusal(safetensors(one("F32", "[2,3]", "[0,24]"), std::string(24, '\0'))),
             "every value is zero"));
  for (const std::string& header :
       {std::string("nonsense"), std::string("["), std::string("{\"w\""), std::string("{\"w\":1}"),
        one("F32", "6", "[0,24]"), one("F32", "[2,3.5]", "[0,24]"), one("F32", "[2,-3]", "[0,24]"),
        one("F32", "[2,3]", "[0]"), one("F32", "[2,3]", "[0,24,48]"), one("F32", "[2,3]", "[0,99999999999999999999]"),
        std::string(R"({"w":{"dtype":"F32"}})"), one("F32", "[2,3],\"shape\":[2,3]", "[0,24]"),
        one("F32", "[2,3]", "[0,24]") + "}", one("F32\n", "[2,3]", "[0,24]"), one("\\ud800", "[2,3]", "[0,24]"),
        one("\\u12", "[2,3]", "[0,24]"),
        "{\"__metadata__\":" + std::string(100000, '[') + std::string(100000, ']') + "}"}) {
    INFO(header.substr(0, 100));
    CHECK(says(safetensors_refusal(safetensors(header, six)), "not a JSON object of tensors"));
  }
  const std::string twice = R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                            R"("w":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}})";
  CHECK(says(safetensors_refusal(safetensors(twice, six)), "names tensor w twice"));
}

TEST_CASE("an absent tensor is answered with the names that exist", "[safetensors]") {
  std::string header = "{";
  for (int i = 10; i < 25; ++i) {
    header += i == 10 ? "\"t" : ",\"t";
    header += std::to_string(i);
    header += R"(":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]})";
  }
  const std::string sentence = safetensors_refusal(safetensors(header + "}", six), "x");
  CHECK(says(sentence, "has no tensor named x; it has t10, t11, t12,"));
  CHECK(says(sentence, "t21 and 3 more"));
}

TEST_CASE("random damage to a file is accepted or refused, and nothing else", "[npy][safetensors]") {
  INFO(support::seed_note());
  std::mt19937_64 random{support::seed()};
  const std::string header = R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";
  const std::string seeds[] = {npy("<f4", false, "(2, 3)", six), npy("<f4", true, "(2, 3)", six, 2),
                               safetensors(header, six)};
  for (int round = 0; round < 6000; ++round) {
    std::string bytes = seeds[round % 3];
    for (auto damage = random() % 4 + 1; damage > 0 && !bytes.empty(); --damage) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes.erase(at, random() % 9); break;
        case 2: bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 9)); break;
        default: bytes[at] = "0123456789{}[]()\"':,\\"[random() % 21];
      }
    }
    const std::string path = file_with(bytes);
    REQUIRE_NOTHROW(refusal([&] { compare::read_npy(path, 0); }));
    REQUIRE_NOTHROW(refusal([&] { compare::read_safetensors(path, 0); }));
  }
}

TEST_CASE("text becomes rows of length one, equal texts once, the same on every run", "[corpus]") {
  std::vector<std::string> paths;
  for (const char* word : {"alpha ", "beta ", "beta ", "gamma delta "}) {
    std::string text;
    while (text.size() < 400) text += word;
    paths.push_back(file_with(text));
  }
  paths.push_back(file_with("too short"));
  const auto m = compare::read_corpus(paths, 0);
  REQUIRE(m.rows == 3);
  REQUIRE(m.cols == 1024);
  for (std::size_t i = 0; i < m.rows; ++i) {
    double squares = 0;
    for (std::size_t k = 0; k < m.cols; ++k) {
      const auto v = static_cast<double>(m.values[i * m.cols + k]);
      REQUIRE(v >= 0);
      squares += v * v;
    }
    REQUIRE(squares == Approx(1).epsilon(1e-6));
  }
  REQUIRE(compare::read_corpus(paths, 0).values == m.values);
  CHECK(says(refusal([&] { compare::read_corpus({paths[1], paths[2]}, 0); }), "at least two different texts"));
  const std::string blanks(300, ' '), lines(300, '\n');
  CHECK(says(refusal([&] { compare::read_corpus({file_with(blanks), file_with(lines)}, 0); }), "every value is zero"));
}

TEST_CASE("trigrams ignore case and the amount of white space", "[corpus]") {
  REQUIRE(compare::detail::count_trigrams("Ab\n\n\tcd") == compare::detail::count_trigrams("aB cD"));
  REQUIRE(compare::detail::count_trigrams("ab cd") != compare::detail::count_trigrams("abcd"));
  float sum = 0;
  for (const float count : compare::detail::count_trigrams("abcdef")) sum += count;
  REQUIRE(sum == 4);
}

TEST_CASE("text from outside is made fit to show", "[text]") {
  REQUIRE(compare::printable("plain, \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80") ==
          "plain, \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  REQUIRE(compare::printable("\x1b[2J\n\x7F\x80\xC2\x9B\xC0\xAF\xED\xA0\x80\xF5") == "?[2J???????????");
  REQUIRE(compare::printable(std::string(1000, 'a')).size() < 220);
  REQUIRE(compare::json_text("a\"b\\") == "\"a\\\"b\\\\\"");
  REQUIRE(compare::html_text("<a href=\"&\">") == "&lt;a href=&quot;&amp;&quot;&gt;");
  REQUIRE(compare::fixed(-0.004, 2) == "0.00");
  REQUIRE(compare::fixed(-0.006, 2) == "-0.01");
  REQUIRE(compare::fixed(NAN, 2) == "-");
  REQUIRE(compare::grouped(1234567) == "1,234,567");
  REQUIRE(compare::grouped(123) == "123");
}
