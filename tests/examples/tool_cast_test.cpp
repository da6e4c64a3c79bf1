// ufp4 - tests: `ufp4 cast`: files have the bits of the library's cast, and nothing is lost where it is exact.
// SPDX-License-Identifier: Apache-2.0
// ctest: separate
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <ufp4/ufp4.hpp>
#include <vector>

#include "../../examples/ufp4/cast.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/hostile.hpp"
#include "support/seed.hpp"
#include "support/tool_commands.hpp"

using namespace ufp4;
using support::contains, support::finished, support::scratch;

namespace {

using interop::number_type;
using interop::tensor_layout;

finished cast_with(std::vector<std::string> words) { return support::run(tool::cast, std::move(words)); }

std::vector<float> some_values(std::size_t count) {
  std::vector<float> x;
  support::hostile source(support::seed(count));
  for (std::size_t i = 0; i < count; ++i) x.push_back(static_cast<float>(source.below(2001)) - 1000.5f);
  return x;
}

/// A file with the weights a and b in a format, a vector, and a string of metadata.
std::string file_of(const any_quantized& a, const any_quantized& b, tensor_layout layout) {
  static const float norm[3] = {1, 2, 3};
  interop::safetensors_writer out;
  interop::add_quantized(out, "a", a, layout);
  interop::add_quantized(out, "b", b, layout);
  out.add("norm", interop::source_of(number_type::f32, {3}, norm));
  out.set_metadata("format", "pt");
  const std::string path = scratch() / "in.safetensors";
  out.write(path);
  return path;
}

any_quantized weight(const format_spec& format, std::size_t rows, std::size_t cols, const transform_spec& t = {}) {
  const std::vector<float> x = some_values(rows * cols);
  return quantize(format, matrix_view<const float>(x.data(), rows, cols), t);
}

}  // namespace

TEST_CASE("cast files have the bits of the operation, for every two presets that it knows", "[tool]") {
  INFO(support::seed_note());
  const std::string out = scratch() / "out.safetensors";
  const transform_spec t = random_hadamard<16>{3}.spec();
  const auto every_preset = [](const auto& body) {
    ufp4::detail::for_each_row(ufp4::detail::presets{}, body),
        ufp4::detail::for_each_row(ufp4::detail::extended_presets{}, body);
  };
  every_preset([&](auto from) {
    const any_quantized a = weight(from.spec, 6, 70, t), b = weight(from.spec, 32, 64);
    const std::string in = file_of(a, b, tensor_layout::ufp4);
    every_preset([&](auto to) {
      CAPTURE(from.name, to.name);
      REQUIRE(cast_with({in, "-f", to.name, "-o", out}).rejected.empty());
      interop::safetensors_reader file(out);
      CHECK(interop::read_quantized(file, "a") == cast(a, to.spec));
      CHECK(interop::read_quantized(file, "b") == cast(b, to.spec));
      CHECK(file.metadata().at("format") == "pt");
      CHECK(file.at("norm").shape == std::vector<std::uint64_t>{3});
    });
  });
}

TEST_CASE("mxfp4 becomes nvfp4 in the layout of most readers, and the table says that it is exact", "[tool]") {
  const any_quantized a = weight(spec_of<mxfp4>, 6, 96), b = weight(spec_of<mxfp4>, 32, 64);
  const std::string out = scratch() / "out.safetensors";
  const finished done = cast_with({file_of(a, b, tensor_layout::compressed_tensors), "-f", "nvfp4", "-o", out});
  CHECK(contains(done.out, "mxfp4 to nvfp4, exact"));
  CHECK(contains(done.out, "layout compressed_tensors; 2 of 3 tensors converted"));
  interop::safetensors_reader file(out);
  CHECK((file.find("a_packed") != nullptr && file.find("a_global_scale") != nullptr));
  CHECK(!file.metadata().contains("ufp4.a"));
  std::vector<float> before(6 * 96), after(6 * 96);
  dequantize(a, matrix_view<float>(before.data(), 6, 96));
  dequantize(interop::read_quantized(file, "a"), matrix_view<float>(after.data(), 6, 96));
  CHECK(before == after);
}

TEST_CASE("the report of a cast with loss has its SQNR and counts the blocks that differ", "[tool]") {
  const any_quantized a = weight(spec_of<nvfp4>, 6, 96), b = weight(spec_of<nvfp4>, 32, 64);
  const std::string in = file_of(a, b, tensor_layout::modelopt), out = scratch() / "out.safetensors";
  cast_report lost;
  (void)cast(a, spec_of<mxfp4>, lost);
  REQUIRE(lost.inexact_blocks > 0);
  const finished table = cast_with({in, "-f", "mxfp4", "--tensor", "a", "-o", out});
  CHECK(contains(table.out, "nvfp4 to mxfp4; " + std::to_string(lost.inexact_blocks) + " of 18 blocks differ"));
  CHECK(contains(table.out, compare::fixed(lost.sqnr_db(), 1) + " dB"));
  CHECK(contains(table.out, "copied: is no weight that --tensor chooses"));
  interop::safetensors_reader file(out);
  CHECK(interop::read_quantized(file, "b") == b);
  const finished json = cast_with({in, "-f", "mxfp4", "--tensor", "a", "-o", out, "--json"});
  CHECK(contains(json.out, "\"sqnr_db\": " + compare::decibels_json(lost.sqnr_db()) +
                               ", \"inexact_blocks\": " + std::to_string(lost.inexact_blocks) + ", \"blocks\": 18"));
}

TEST_CASE("a weight that has the format already is written in the layout of the output, with its bits", "[tool]") {
  const any_quantized a = weight(spec_of<nvfp4>, 6, 96), b = weight(spec_of<nvfp4>, 32, 64);
  const std::string in = file_of(a, b, tensor_layout::compressed_tensors), out = scratch() / "out.safetensors";
  REQUIRE(cast_with({in, "-f", "nvfp4", "--layout", "f4", "-o", out}).rejected.empty());
  interop::safetensors_reader file(out);
  CHECK(file.at("a").type == number_type::f4);
  CHECK((interop::read_quantized(file, "a") == a && interop::read_quantized(file, "b") == b));
}

TEST_CASE("experts are cast slice by slice, and keep their shape and axis", "[tool]") {
  const std::vector<float> x = some_values(3 * 64 * 8);
  interop::safetensors_writer writer;
  writer.add("w", interop::source_of(number_type::f32, {3, 64, 8}, x.data()));
  const std::string plain = scratch() / "plain.safetensors", in = scratch() / "in.safetensors";
  const std::string out = scratch() / "out.safetensors";
  writer.write(plain);
  REQUIRE(support::quantize_with({plain, "-f", "mxfp4", "--axis", "1", "-o", in}).rejected.empty());
  REQUIRE(cast_with({in, "-f", "nvfp4", "-o", out}).rejected.empty());
  interop::safetensors_reader before(in), after(out);
  const interop::stored_weight from = interop::find_weight(before, "w"), to = interop::find_weight(after, "w");
  CHECK((to.format == spec_of<nvfp4> && to.shape == from.shape && to.axis == 1 && to.parts() == 3));
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(interop::read_part(after, to, i) == cast(interop::read_part(before, from, i), spec_of<nvfp4>));
}

TEST_CASE("what cannot be cast is an error that names the weight and its format, and OUT is not written", "[tool]") {
  const std::string out = scratch() / "unwritten.safetensors";
  const any_quantized plain = weight(spec_of<nvfp4>, 6, 64), wide = weight(spec_of<mxint8>, 6, 64);
  const std::string in = file_of(plain, wide, tensor_layout::ufp4);
  const auto rejected = [&](std::vector<std::string> words, bool usage) {
    words.insert(words.end(), {"-o", out});
    const finished done = cast_with(words);
    CHECK((done.usage == usage && !std::filesystem::exists(out)));
    return done.rejected;
  };
  CHECK(contains(rejected({in, "-f", "mxfp4"}, false),
                 "weight b is mxint8 and cannot become mxfp4: cast: a format with elements of one byte"));
  CHECK(contains(rejected({in, "-f", "mxint8", "--skip", "b"}, false),
                 "weight a is nvfp4 and cannot become mxint8: cast: a format with elements of one byte"));
  CHECK(contains(rejected({in, "-f", "int4_f32", "--skip", "b", "--layout", "modelopt"}, true),
                 "layout modelopt has nvfp4 and mxfp4 only, not int4_f32; --layout ufp4 represents everything"));
  CHECK(contains(rejected({in}, true), "-f FORMAT is needed; there are nvfp4"));
  CHECK(contains(rejected({in, "-f", "fp5"}, true), "unknown format fp5"));
  CHECK(contains(rejected({in, "-f", "mxfp4", "--tensor", "c"}, true),
                 "has no quantized weight that --tensor c matches"));
  CHECK(contains(rejected({in, "-f", "mxfp4", "--skip", "*"}, false), "that --skip leaves to be converted"));
  CHECK(contains(rejected({std::filesystem::path(in).parent_path().string(), "-f", "mxfp4"}, true),
                 "is a folder; `ufp4 cast` converts one file at a time"));
  const any_quantized turned = weight(spec_of<mxfp4>, 6, 64, random_hadamard<16>{1}.spec());
  CHECK(contains(rejected({file_of(turned, turned, tensor_layout::ufp4), "-f", "nvfp4", "--layout", "f4"}, true),
                 "layout f4 does not record a Hadamard transform, but weight a has one"));
  const any_quantized ragged = weight(spec_of<mxfp4>, 6, 40);
  CHECK(contains(rejected({file_of(ragged, ragged, tensor_layout::ufp4), "-f", "nvfp4", "--layout", "f4"}, true),
                 "layout f4 has no padding, but weight a has 40 columns, not a multiple of 16 (--skip leaves it)"));
}

TEST_CASE("--dry-run prints the sizes of a cast and writes nothing", "[tool]") {
  const std::string out = scratch() / "unwritten.safetensors";
  const any_quantized a = weight(spec_of<mxfp4>, 6, 96);
  const finished done = cast_with({file_of(a, a, tensor_layout::ufp4), "-f", "nvfp4", "-o", out, "--dry-run"});
  CHECK(contains(done.out, "2 of 3 tensors would be converted; nothing was written"));
  CHECK(!std::filesystem::exists(out));
}
