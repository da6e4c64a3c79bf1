// ufp4 - .npy files: good ones read as they were written, bad ones are rejected, written ones have NumPy's bytes.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/interop/npy.hpp>
#include <ufp4/ufp4.hpp>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/hostile.hpp"
#include "support/messages.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"

using namespace ufp4;
using support::file_rejection;
using support::file_with;
using support::floats;
using support::npy;
using support::npy_header;
using support::reports;
using support::words;

namespace {

const std::string six = floats({1, 2, 3, 4, 5, 6});
const std::vector<float> six_values{1, 2, 3, 4, 5, 6};

/// The whole matrix, or `count` rows from `first`.
std::vector<float> rows_of(interop::tensor_file& file, const interop::stored_tensor& t, std::size_t first = 0,
                           std::size_t count = 0) {
  file.check_matrix(t);
  if (count == 0) count = static_cast<std::size_t>(t.shape[0]) - first;
  std::vector<float> values(count * static_cast<std::size_t>(t.shape[1]));
  file.read_rows(t, first, matrix_view<float>(values.data(), count, static_cast<std::size_t>(t.shape[1])));
  return values;
}

std::vector<float> read(const std::string& bytes) {
  interop::npy_reader file(file_with(bytes));
  return rows_of(file, file.array());
}

std::string rejected(const std::string& bytes) {
  return file_rejection([&] { read(bytes); });
}

}  // namespace

TEST_CASE("a .npy matrix reads as it was written, in all versions, types and both orders", "[npy]") {
  for (const int version : {1, 2, 3}) REQUIRE(read(npy("<f4", false, "(2, 3)", six, version)) == six_values);
  REQUIRE(read(npy("<f4", true, "(2, 3)", six)) == std::vector<float>{1, 3, 5, 2, 4, 6});
  const std::string half = words({0x3C00, 0xC000, 0x3555, 0x0001, 0x8000, 0x7BFF});
  REQUIRE(read(npy("<f2", false, "(3,2)", half)) == std::vector<float>{1, -2, 0.333251953125f, 0x1p-24f, -0.0f, 65504});
  const std::string brain = words({0x3F80, 0xC000, 0x0001, 0x7F7F});
  for (const char* type : {"<V2", "|V2"})
    REQUIRE(read(npy(type, false, "(2, 2)", brain)) == std::vector<float>{1, -2, 0x1p-133f, 0x1.FEp127f});
  REQUIRE(read(npy("|u1", false, "(2, 2)", std::string("\x00\x7F\x80\xFF", 4))) ==
          std::vector<float>{0, 127, 128, 255});
  REQUIRE(read(npy("|i1", true, "(2, 2)", std::string("\x00\x7F\x80\xFF", 4))) == std::vector<float>{0, -128, 127, -1});
  REQUIRE(read(npy("<f4", false, "(2L, 3L,)", six)) == six_values);
}

TEST_CASE("rows are read at their offsets, and a Fortran matrix is its transpose", "[npy]") {
  for (const bool fortran : {false, true}) {
    interop::npy_reader file(file_with(npy("<f4", fortran, "(3, 2)", six)));
    const auto& t = file.array();
    REQUIRE(rows_of(file, t, 1, 1) == (fortran ? std::vector<float>{2, 5} : std::vector<float>{3, 4}));
    REQUIRE(rows_of(file, transpose(t), 1, 1) == (fortran ? std::vector<float>{4, 5, 6} : std::vector<float>{2, 4, 6}));
    std::vector<float> two(2);
    const matrix_view<float> one_row(two.data(), 1, 2);
    CHECK(reports(support::rejection([&] { file.read_rows(t, 3, one_row); }),
                  "range out of bounds: rows 3 to 4, but tensor  has 3"));
    CHECK(reports(support::rejection([&] { file.read_rows(t, 0, matrix_view<float>(two.data(), 2, 1)); }),
                  "out has 1 columns, but tensor  has 2"));
    CHECK(support::rejection([&] { file.read_rows(t, 0, matrix_view<float>(two.data(), 2, 2, 0)); }) ==
          "read_rows: elements of out overlap: 2 x 2 with row stride 0 and column stride 1");
    std::vector<bf16> rounded(2);
    file.read_rows(t, 0, matrix_view<bf16>(rounded.data(), 1, 2));
    CHECK(static_cast<float>(rounded[1]) == (fortran ? 4 : 2));
  }
}

TEST_CASE("a bad .npy file is rejected with one message that names the problem", "[npy]") {
  const std::string good = npy("<f4", false, "(2, 3)", six);
  CHECK(rejected(good) == "accepted");
  CHECK(reports(rejected(""), "is empty (0 bytes)"));
  CHECK(reports(rejected("\x93NUM"), "not a .npy file"));
  CHECK(reports(rejected("PK\x03\x04 a zip archive is no .npy"), "not a .npy file"));
  CHECK(reports(rejected(good.substr(0, 9)), "ends inside the .npy header"));
  CHECK(reports(rejected(good.substr(0, 30)), "header cut off: its length is"));
  CHECK(reports(rejected(good.substr(0, good.size() - 1)), "are 24 bytes, but 23 bytes follow"));
  CHECK(reports(rejected(good + "x"), "are 24 bytes, but 25 bytes follow"));
  CHECK(reports(rejected(npy("<f4", false, "(2, 4)", six)),
                "size mismatch: 2 x 4 values of type '<f4' are 32 bytes, but 24"));
  CHECK(reports(rejected(npy("<f8", false, "(2, 3)", six + six)), "'<f8'; float32 ('<f4')"));
  for (const char* numbers : {"<f8", "<i8", "|b1"})
    CHECK(reports(rejected(npy(numbers, false, "(2, 3)", six + six)),
                  "can be read; NumPy converts with .astype(np.float32)"));
  CHECK(rejected(npy("|S4", false, "(2, 3)", six)).find("astype") == std::string::npos);
  CHECK(reports(rejected(npy("<i4", false, "(2, 3)", six)), "'<i4'"));
  CHECK(reports(rejected(npy("|O", false, "(2, 3)", six)), "'|O'"));
  CHECK(reports(rejected(npy(">f4", false, "(2, 3)", six)),
                "big-endian ('>f4'); save it in little-endian order, as '<f4'"));
  CHECK(reports(rejected(npy(">f2", false, "(2, 6)", six)),
                "big-endian ('>f2'); save it in little-endian order, as '<f2'"));
  CHECK(reports(rejected(npy("<f4", true, "(1, 2, 3)", six)),
                "is an array of 1 x 2 x 3 in Fortran order, which is read in "));
  for (const std::string& whole : {npy("<f4", true, "(6,)", six), npy("<f4", false, "(1, 2, 3)", six)})
    CHECK_FALSE(interop::npy_reader(file_with(whole)).array().column_major);
  CHECK(reports(rejected(npy("<f4", false, "(6,)", six)), "the array has 1 dimension (6);"));
  CHECK(reports(rejected(npy("<f4", false, "()", six.substr(0, 4))), "has 0 dimensions (no shape);"));
  CHECK(reports(rejected(npy("<f4", false, "(1, 2, 3)", six)), "has 3 dimensions (1 x 2 x 3);"));
  CHECK(reports(rejected(npy("<f4", false, "(0, 3)", "")), "empty matrix: 0 x 3"));
  CHECK(reports(rejected(npy("<f4", false, "(3, 0)", "")), "empty matrix: 3 x 0"));
  CHECK(reports(rejected(npy("<f4", false, "(9223372036854775807, 2)", six)), "more bytes than 64 bits can count"));
  CHECK(reports(rejected(npy("<f4", false, "(4294967296, 4294967296)", six)), "more bytes than 64 bits can count"));
  CHECK(reports(rejected(npy("<f4", false, "(99999999999999999999, 2)", six)), "not NumPy's dictionary"));
  CHECK(reports(rejected(npy("<f4", false, "(-2, -3)", six)), "not NumPy's dictionary"));
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
    CHECK(reports(rejected(npy_header(dictionary) + six), "not NumPy's dictionary"));
  }
  std::string version = good;
  version[6] = 9;
  CHECK(reports(rejected(version), "has .npy version 9"));
  const std::string paint =
      rejected(npy_header("{'descr': '\x1b[31m\xFF', 'fortran_order': False, 'shape': (2, 3)}") + six);
  CHECK(reports(paint, "'?[31m?'"));  // no escape sequences from a file
}

TEST_CASE("a message names the file that cannot be read or written", "[files]") {
  CHECK(reports(file_rejection([] { interop::npy_reader("/nowhere/at/all.npy"); }),
                "/nowhere/at/all.npy: cannot be opened: No such file or directory"));
  CHECK(reports(file_rejection([] { interop::npy_reader("."); }), ".: is a directory, not a file"));
  CHECK(reports(file_rejection([] { interop::npy_reader("/dev/null"); }), "is not a regular file"));
  const float x = 0;
  const auto one = interop::source_of(matrix_view<const float>(&x, 1, 1));
  CHECK(reports(file_rejection([&] { interop::write_npy("/nowhere/out.npy", one); }),
                "/nowhere/out.npy: cannot be opened for"));
}

TEST_CASE("a written array has the bytes of the matrix in memory", "[npy]") {
  const std::string path = support::scratch() / "written.npy";
  const std::vector<float> values = support::hostile(support::seed(1)).values(6, true);
  interop::write_npy(path, interop::source_of(matrix_view<const float>(values.data(), 2, 3)));
  REQUIRE(support::bytes_of(path) == npy("<f4", false, "(2, 3)", floats(values)));
  interop::write_npy(path, interop::source_of(transpose(matrix_view<const float>(values.data(), 2, 3))));
  REQUIRE(support::bytes_of(path) ==
          npy("<f4", false, "(3, 2)", floats({values[0], values[3], values[1], values[4], values[2], values[5]})));
  const std::vector<fp16> halves{fp16(1.0f), fp16::from_bits(0xFFFF)};
  interop::write_npy(path, interop::source_of(matrix_view<const fp16>(halves.data(), 1, 2)));
  REQUIRE(support::bytes_of(path) == npy("<f2", false, "(1, 2)", words({0x3C00, 0xFFFF})));
  const std::vector<bf16> brains{bf16(1.0f), bf16::from_bits(0x7FC1)};
  interop::write_npy(path, interop::source_of(matrix_view<const bf16>(brains.data(), 2, 1)));
  REQUIRE(support::bytes_of(path) == npy("<V2", false, "(2, 1)", words({0x3F80, 0x7FC1})));

  const std::vector<float> ramp{0, 1, 2, 3, 4, 6, -1, -6, 0, 0, 0, 0, 0, 0, 0, 0.5f};
  const auto q = quantize<e2m1_f32>(matrix_view<const float>(ramp.data(), 1, 16));
  interop::write_npy(path, interop::codes_of(q));
  REQUIRE(support::bytes_of(path) == npy("|u1", false, "(1, 8)", std::string("\x20\x54\x76\xFA\x00\x00\x00\x10", 8)));
}

TEST_CASE("a writer leaves the old file where the new one fails", "[npy]") {
  const std::string path = support::scratch() / "kept.npy";
  std::ofstream(path) << "old";
  for (const std::size_t count : {3u, 5u}) {
    const interop::tensor_source wrong{interop::number_type::u8, {2, 2}, [count](const interop::byte_sink& sink) {
                                         for (std::size_t i = 0; i < count; ++i) sink("x", 1);
                                       }};
    REQUIRE_THROWS_AS(interop::write_npy(path, wrong), interop::file_error);
    REQUIRE(support::bytes_of(path) == "old");
    REQUIRE_FALSE(std::filesystem::exists(path + ".tmp"));
  }
  CHECK(reports(support::rejection([&] {
                  interop::write_npy(path, {interop::number_type::f8_e4m3, {1}, [](const interop::byte_sink&) {}});
                }),
                "not of float32, float16, bfloat16, uint8 or int8"));
}

TEST_CASE("random damage to a .npy file is accepted or rejected with a file_error", "[npy]") {
  INFO(support::seed_note());
  std::mt19937_64 random{support::seed()};
  const std::string seeds[] = {npy("<f4", false, "(2, 3)", six), npy("<f4", true, "(2, 3)", six, 2)};
  for (int round = 0; round < 800; ++round) REQUIRE_NOTHROW(rejected(support::damaged(seeds[round % 2], random)));
}
