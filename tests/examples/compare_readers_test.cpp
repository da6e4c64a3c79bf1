// ufp4 - tests: reading a matrix in examples/compare: which matrix, which rows, which errors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "../../examples/compare/corpus.hpp"
#include "../../examples/compare/random_matrix.hpp"
#include "../../examples/compare/stored_matrix.hpp"
#include "../../examples/compare/text.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/messages.hpp"

namespace {

using support::file_rejection;
using support::file_with;
using support::floats;
using support::npy;
using support::reports;
using support::safetensors;
using support::words;

std::string npy_rejection(const std::string& bytes) {
  const std::string path = file_with(bytes);
  return file_rejection([&] { compare::read_npy(path, 0); });
}

std::string safetensors_rejection(const std::string& bytes, const std::string& tensor = "") {
  const std::string path = file_with(bytes);
  return file_rejection([&] { compare::read_safetensors(tensor.empty() ? path : path + ":" + tensor, 0); });
}

const std::string six = floats({1, 2, 3, 4, 5, 6});
const std::vector<float> six_values{1, 2, 3, 4, 5, 6};

}  // namespace

TEST_CASE("a row limit takes evenly spaced rows, and the source's description states it", "[npy]") {
  for (const bool fortran : {false, true}) {
    const auto m = compare::read_npy(file_with(npy("<f4", fortran, "(6, 1)", six)), 4);
    REQUIRE(m.values == std::vector<float>{1, 2, 4, 5});  // rows 0, 1.5, 3, 4.5
    REQUIRE(reports(m.source, "4 of 6 rows"));
  }
  REQUIRE(compare::read_npy(file_with(npy("<f4", false, "(6, 1)", six)), 6).values == six_values);
}

TEST_CASE("a .npy file that cannot be compared is rejected with one message", "[npy]") {
  CHECK(npy_rejection(npy("<f4", false, "(2, 3)", six)) == "accepted");
  CHECK(reports(npy_rejection("PK"), "not a .npy file"));
  CHECK(
      reports(npy_rejection(npy("|u1", false, "(2, 3)", "123456")), "holds values of type |u1; compare reads float32"));
  CHECK(reports(npy_rejection(npy("<f4", false, "(6,)", six)), "has 1 dimension (6); a matrix has 2"));
  CHECK(reports(npy_rejection(npy("<f4", false, "(0, 3)", "")), "empty matrix: 0 x 3"));
  CHECK(reports(npy_rejection(npy("<f4", false, "(2, 3)", floats({1, 2, 3, 4, NAN, 6}))), "a NaN at row 1, column 1"));
  CHECK(reports(npy_rejection(npy("<f4", true, "(2, 3)", floats({1, 2, 3, 4, NAN, 6}))), "a NaN at row 0, column 2"));
  CHECK(reports(npy_rejection(npy("<f4", false, "(2, 3)", floats({1, 2, 3, -INFINITY, 5, 6}))),
                "an infinity at row 1, column 0"));
  CHECK(reports(npy_rejection(npy("<f2", false, "(1, 2)", words({0x7C00, 0}))), "an infinity at row 0, column 0"));
  CHECK(reports(npy_rejection(npy("<V2", false, "(1, 2)", words({0, 0x7FC0}))), "a NaN at row 0, column 1"));
  CHECK(reports(npy_rejection(npy("<f4", false, "(2, 3)", floats({0, 0, -0.0f, 0, 0, 0}))), "every value is zero"));
}

TEST_CASE("the message names the file that cannot be read", "[files]") {
  const auto missing = file_rejection([] { compare::read_npy("/nowhere/at/all.npy", 0); });
  CHECK(reports(missing, "/nowhere/at/all.npy: cannot be opened: No such file or directory"));
  CHECK(reports(file_rejection([] { compare::read_npy(".", 0); }), ".: is a directory, not a file"));
  CHECK(reports(file_rejection([] { compare::read_npy("/dev/null", 0); }), "is not a regular file"));
  CHECK(reports(file_rejection([] { compare::read_safetensors("/nowhere/m.safetensors:w", 0); }),
                "/nowhere/m.safetensors: cannot"));
  CHECK(
      reports(file_rejection([] { compare::read_corpus({"/nowhere"}, 0); }), "/nowhere: has no file that can be read"));
}

TEST_CASE("without a name the largest float matrix of a safetensors file is compared", "[safetensors]") {
  const std::string header = R"({"bytes":{"dtype":"U8","shape":[2,20],"data_offsets":[36,76]},)"
                             R"("small":{"dtype":"F16","shape":[1,2],"data_offsets":[24,28]},)"
                             R"("list":{"dtype":"F32","shape":[9],"data_offsets":[0,36]},)"
                             R"("w:1":{"shape":[2,3],"dtype":"F32","data_offsets":[0,24]},)"
                             R"("brain":{"dtype":"BF16","shape":[2,2],"data_offsets":[28,36]}})";
  const std::string data = six + words({0x3C00, 0xC000, 0x3F80, 0xC000, 0x4040, 0}) + std::string(40, '\1');
  const std::string path = file_with(safetensors(header, data));
  REQUIRE(compare::read_safetensors(path + ":w:1", 0).values == six_values);
  REQUIRE(compare::read_safetensors(path + ":small", 0).values == std::vector<float>{1, -2});
  REQUIRE(compare::read_safetensors(path + ":brain", 0).values == std::vector<float>{1, -2, 3, 0});
  const auto largest = compare::read_safetensors(path, 1);
  REQUIRE(largest.values == std::vector<float>{1, 2, 3});
  REQUIRE(reports(largest.source, "w:1, float32, 1 of 2 rows"));
  CHECK(reports(file_rejection([&] { compare::read_safetensors(path + ":bytes", 0); }),
                "tensor bytes has type U8; compare reads"));
  CHECK(reports(file_rejection([&] { compare::read_safetensors(path + ":list", 0); }),
                "tensor list has 1 dimension (9)"));
  CHECK(reports(file_rejection([&] { compare::read_safetensors(path + ":x", 0); }),
                "has no tensor named x; it has brain, bytes, list, small, w:1"));
}

TEST_CASE("a safetensors file without a matrix to compare is rejected with one message", "[safetensors]") {
  const auto one = [](const std::string& type, const std::string& shape) {
    return R"({"w":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":[0,24]}})";
  };
  CHECK(safetensors_rejection(safetensors(one("F32", "[2,3]"), six)) == "accepted");
  CHECK(reports(safetensors_rejection(safetensors("{}", "")), "holds no tensors"));
  CHECK(reports(safetensors_rejection(safetensors(one("F64", "[1,3]"), six)),
                "has no float32, float16 or bfloat16 tensor of 2 dimensions; it has w"));
  CHECK(reports(safetensors_rejection(safetensors(one("F32", "[2,3]"), floats({1, 2, NAN, 4, 5, 6})), "w"),
                "a NaN at row 0, column 2"));
  CHECK(reports(safetensors_rejection(safetensors(one("F32", "[2,3]"), std::string(24, '\0'))), "every value is zero"));
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
  CHECK(
      reports(file_rejection([&] { compare::read_corpus({paths[1], paths[2]}, 0); }), "at least two different texts"));
  const std::string blanks(300, ' '), lines(300, '\n');
  CHECK(reports(file_rejection([&] { compare::read_corpus({file_with(blanks), file_with(lines)}, 0); }),
                "every value is zero"));
}

TEST_CASE("trigrams ignore case and the amount of white space", "[corpus]") {
  REQUIRE(compare::detail::count_trigrams("Ab\n\n\tcd") == compare::detail::count_trigrams("aB cD"));
  REQUIRE(compare::detail::count_trigrams("ab cd") != compare::detail::count_trigrams("abcd"));
  float sum = 0;
  for (const float count : compare::detail::count_trigrams("abcdef")) sum += count;
  REQUIRE(sum == 4);
}

TEST_CASE("random matrices have the moments of their distributions, and the same numbers in every run", "[random]") {
  struct expected {
    const char* name;
    double variance, kurtosis, kurtosis_margin;
  };
  // Student's t with n degrees of freedom: variance n / (n - 2), kurtosis 3 + 6 / (n - 4). Of the outliers 15 of 16
  // columns have variance 1, one 400.
  const double variance = (15 + 400) / 16.0, fourth = 3 * (15 + 160000) / 16.0;
  for (const expected& e : {expected{"gauss", 1, 3, 0.1}, expected{"laplace", 2, 6, 0.3}, expected{"t5", 5 / 3.0, 9, 3},
                            expected{"outliers", variance, fourth / (variance * variance), 3}}) {
    INFO(e.name);
    const compare::matrix m = compare::random_matrix(e.name, 0);
    REQUIRE((m.rows == 256 && m.cols == 1024 && m.values.size() == 256 * 1024));
    double sum = 0, squares = 0, fourths = 0;
    for (const float v : m.values) {
      const double x = static_cast<double>(v);
      sum += x, squares += x * x, fourths += x * x * x * x;
    }
    const auto n = static_cast<double>(m.values.size());
    CHECK(sum / n == Approx(0).margin(0.02 * std::sqrt(e.variance)));
    CHECK(squares / n == Approx(e.variance).epsilon(0.02));
    CHECK(fourths * n / (squares * squares) == Approx(e.kurtosis).margin(e.kurtosis_margin));
    CHECK(compare::random_matrix(e.name, 0).values == m.values);
    const compare::matrix half = compare::random_matrix(e.name, 128);
    REQUIRE(half.rows == 128);
    CHECK(std::equal(half.values.end() - 1024, half.values.end(), m.values.begin() + 254 * 1024));
  }
  const auto gauss = compare::random_matrix("gauss", 0), outliers = compare::random_matrix("outliers", 0);
  for (std::size_t i = 0; i < 64; ++i)
    CHECK(outliers.values[i] == Approx((i % 16 == 3 ? 20.0f : 1.0f) * gauss.values[i]).epsilon(1e-6));
}

TEST_CASE("text of untrusted origin is printed without control characters", "[text]") {
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
