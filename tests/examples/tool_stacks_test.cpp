// ufp4 - tests: the tool on experts, convolutions, F4, GPT-OSS, AWQ, GPTQ and ggml's 4-bit types.
// SPDX-License-Identifier: Apache-2.0
// ctest: separate
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <type_traits>
#include <ufp4/interop/gguf_values.hpp>
#include <ufp4/interop/int4_groups.hpp>
#include <ufp4/ufp4.hpp>
#include <vector>

#include "../../examples/ufp4/inspect.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/seed.hpp"
#include "support/tool_commands.hpp"

using namespace ufp4;
using interop::number_type;
using support::contains, support::dequantize_with, support::finished, support::quantize_with, support::scratch;

namespace {

using shape = std::vector<std::uint64_t>;

/// Normal numbers; slices differ in magnitude by powers of two.
std::vector<float> values_of(const shape& extents) {
  std::uint64_t count = 1;
  for (const std::uint64_t extent : extents) count *= extent;
  std::mt19937_64 random{support::seed(count)};
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::ldexp(normal(random), static_cast<int>(i * extents[0] / x.size() % 3));
  return x;
}

std::string file_of(const std::string& name, const std::vector<float>& x, const shape& extents) {
  interop::safetensors_writer out;
  out.add("w", interop::source_of(number_type::f32, extents, x.data()));
  const std::string path = scratch() / name;
  out.write(path);
  return path;
}

std::vector<float> floats_of(interop::tensor_file& file, const std::string& name = "w") {
  const interop::stored_tensor& t = file.at(name);
  REQUIRE(t.type == number_type::f32);
  std::vector<float> x(static_cast<std::size_t>(t.bytes / 4));
  file.read_bytes(t, 0, x.data(), x.size() * 4);
  return x;
}

/// The elements of [outer, cols, inner] with the middle dimension at the end, or back.
std::vector<float> moved(const std::vector<float>& x, std::size_t outer, std::size_t cols, std::size_t inner,
                         bool back = false) {
  std::vector<float> out(x.size());
  for (std::size_t o = 0; o < outer; ++o)
    for (std::size_t k = 0; k < cols; ++k)
      for (std::size_t s = 0; s < inner; ++s) {
        const std::size_t here = (o * cols + k) * inner + s, there = (o * inner + s) * cols + k;
        back ? out[here] = x[there] : out[there] = x[here];
      }
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// What quantize and dequantize make of x [slices, rows, cols]: each slice by itself, of all rows at their places.
template <class F>
std::vector<float> by_slices(const std::vector<float>& x, std::size_t slices, std::size_t cols,
                             const transform_spec& transform, const rounding_spec& rounding = {}) {
  std::vector<float> out(x.size());
  const std::size_t rows = x.size() / slices / cols;
  for (std::size_t s = 0; s < slices; ++s) {
    const matrix_view<const float> slice(x.data() + s * rows * cols, rows, cols);
    const tensor_amax global = amax(slice, transform);
    const matrix_view<float> to(out.data() + s * rows * cols, rows, cols);
    if constexpr (F::two_level)
      fake_quantize<F>(slice, to, transform, rounding, undo_transform{}, shard{s * rows, 0, cols}, global);
    else
      fake_quantize<F>(slice, to, transform, rounding, undo_transform{}, shard{s * rows, 0, cols});
  }
  return out;
}

std::string round_trip(const std::string& in, std::vector<std::string> options) {
  const std::string q = scratch() / "stack_q.safetensors", out = scratch() / "stack_out.safetensors";
  options.insert(options.begin(), {in, "-o", q});
  const finished done = quantize_with(std::move(options));
  REQUIRE(done.rejected.empty());
  REQUIRE(dequantize_with({q, "-o", out}).rejected.empty());
  return out;
}

std::string inspected(std::vector<std::string> words) {
  std::vector<const char*> values{"ufp4"};
  for (const std::string& word : words) values.push_back(word.c_str());
  common::arguments rest(static_cast<int>(values.size()), values.data(), "-");
  std::ostringstream out, err;
  CHECK(tool::inspect(rest, out, err) == 0);
  return out.str();
}

}  // namespace

TEST_CASE("each expert has the bits of quantizing its matrix alone", "[tool][cpu]") {
  const shape extents{3, 10, 48};
  const std::vector<float> x = values_of(extents);
  const std::string in = file_of("experts.safetensors", x, extents);
  const transform_spec sixteen = random_hadamard<16>{5}.spec();
  interop::safetensors_reader plain(round_trip(in, {"-f", "nvfp4"}));
  CHECK(plain.at("w").shape == extents);
  CHECK(same_bits(floats_of(plain), by_slices<nvfp4>(x, 3, 48, {})));
  interop::safetensors_reader transformed(round_trip(in, {"-f", "nv_e1m2", "--rht", "16", "--seed", "5"}));
  CHECK(same_bits(floats_of(transformed), by_slices<nv_e1m2>(x, 3, 48, sixteen)));
  interop::safetensors_reader random(round_trip(in, {"-f", "nvfp4", "--rounding", "stochastic", "--seed", "9"}));
  CHECK(same_bits(floats_of(random), by_slices<nvfp4>(x, 3, 48, {}, stochastic{9, 0})));
  interop::safetensors_reader one_level(round_trip(in, {"-f", "e1m2_f32"}));
  CHECK(same_bits(floats_of(one_level), by_slices<e1m2_f32>(x, 3, 48, {})));

  interop::safetensors_reader file(scratch() / "stack_q.safetensors");
  CHECK(file.at("w_packed").shape == shape{3, 10, 24});
  CHECK(file.at("w_scale").shape == shape{3, 10, 3});
}

TEST_CASE("no bit of a stack depends on the size of the chunks", "[tool]") {
  const shape extents{4, 9, 2, 6};
  const std::vector<float> x = values_of(extents);
  const std::string in = file_of("chunks.safetensors", x, extents);
  for (const std::size_t axis : {std::size_t{0}, std::size_t{1}, std::size_t{3}})
    for (const char* format : {"nvfp4", "mxfp4", "e1m2_f32"}) {
      std::vector<std::string> files;
      for (const std::size_t chunk : {std::size_t{1}, std::size_t{40}, std::size_t{100000}}) {
        tool::tensor_input input(in);
        tool::quantize_request request;
        request.output = scratch() / "chunk_q.safetensors";
        request.format = format;
        request.spec = preset(format);
        request.spec.block.cols = request.spec.block.cols == 32 ? 4 : 2;  // the preset's blocks are longer than a row
        request.layout = interop::tensor_layout::ufp4;
        request.axes = {{"", axis}};
        request.with.chunk = chunk;
        const auto report = tool::quantize_file(input, request);
        CHECK(report.tensors[0].kept.empty());
        files.push_back(support::bytes_of(request.output));
      }
      CHECK(files[1] == files[0]);
      CHECK(files[2] == files[0]);
    }
}

TEST_CASE("a convolution is quantized along its inputs, and comes back in its own order", "[tool][cpu]") {
  const shape extents{5, 19, 3, 2};  // out, in, height, width
  const std::vector<float> x = values_of(extents);
  const std::string in = file_of("conv.safetensors", x, extents);
  interop::safetensors_reader back(round_trip(in, {"-f", "nvfp4", "--axis", "1"}));
  CHECK(back.at("w").shape == extents);
  const std::vector<float> rows = by_slices<nvfp4>(moved(x, 5, 19, 6), 5, 19, {});
  CHECK(same_bits(floats_of(back), moved(rows, 5, 19, 6, true)));

  interop::safetensors_reader file(scratch() / "stack_q.safetensors");
  CHECK(file.at("w_packed").shape == shape{5, 3, 2, 16});
  CHECK(file.at("w_tensor_scale").shape == shape{5});
  CHECK(file.metadata().at("ufp4.w").ends_with(" axis=1"));

  interop::safetensors_reader first(round_trip(in, {"-f", "e1m2_f32", "--axis", "w=1", "--rht", "32"}));
  const auto transform = random_hadamard<32>{0}.spec();
  CHECK(same_bits(floats_of(first), moved(by_slices<e1m2_f32>(moved(x, 5, 19, 6), 1, 19, transform), 5, 19, 6, true)));
}

TEST_CASE("a matrix can be quantized along its columns", "[tool][cpu]") {
  const shape extents{40, 7};
  const std::vector<float> x = values_of(extents);
  const std::string in = file_of("columns.safetensors", x, extents);
  interop::safetensors_reader back(round_trip(in, {"-f", "nvfp4", "--axis", "w=0"}));
  CHECK(back.at("w").shape == extents);
  CHECK(same_bits(floats_of(back), moved(by_slices<nvfp4>(moved(x, 1, 40, 7), 1, 40, {}), 1, 40, 7, true)));
}

TEST_CASE("wrong dimensions are rejected with one message, and layouts that cannot have them", "[tool]") {
  const shape extents{2, 32, 4};
  const std::string in = file_of("wrong.safetensors", values_of(extents), extents),
                    out = scratch() / "never.safetensors";
  const auto rejected = [&](std::vector<std::string> options, const std::string& to) {
    options.insert(options.begin(), {in, "-f", "mxfp4", "-o", to});
    const finished done = quantize_with(std::move(options));
    CHECK(done.usage);
    CHECK_FALSE(std::filesystem::exists(to));
    return done.rejected;
  };
  CHECK(contains(rejected({"--axis", "3"}, out), "--axis 3: tensor w has 3 dimensions, 0 to 2"));
  CHECK(contains(rejected({"--axis", "no*=1"}, out), "has no tensor that --axis no* matches; it has w"));
  for (const char* text : {"-1", "x", "=1", "1.5", "10", "w="})
    CHECK(contains(rejected({"--axis", text}, out), "--axis takes N or PATTERN=N"));
  CHECK(contains(rejected({"--axis", "1", "--layout", "compressed_tensors"}, out), "has matrices only, but tensor w"));
  CHECK(contains(rejected({"--axis", "1", "--layout", "modelopt"}, out), "along the last dimension only"));
  CHECK(contains(rejected({"--axis", "1"}, scratch() / "never.gguf"), "blocks along the last dimension only"));
  CHECK(contains(rejected({"--axis", "1", "--layout", "f5"}, out), "--layout takes one of compressed_tensors"));
  const shape experts{2, 4, 32};
  const std::string other = file_of("experts4.safetensors", values_of(experts), experts);
  CHECK(contains(quantize_with({other, "-f", "mxfp4", "--layout", "gpt_oss", "-o", out}).rejected,
                 "quantizes experts along dimension 1, but tensor w has 3 dimensions: --axis 1 is needed"));
  CHECK(contains(quantize_with({other, "-f", "nvfp4", "--layout", "gpt_oss", "-o", out}).rejected, "has mxfp4 only"));
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("--dry-run reports the sizes that quantize gives and writes nothing", "[tool]") {
  const shape extents{3, 10, 48};
  const std::string in = file_of("dry.safetensors", values_of(extents), extents);
  for (const std::string ending : {".safetensors", ".gguf"}) {
    const std::string out = scratch() / ("dry_out" + ending), format = ending == ".gguf" ? "mxfp4" : "nvfp4";
    const std::string skip = ending == ".gguf" ? "w" : "none";  // 48 columns are no whole blocks of mxfp4
    const finished dry = quantize_with({in, "-f", format, "--skip", skip, "--dry-run", "--json", "-o", out});
    CHECK(dry.rejected.empty());
    CHECK_FALSE(std::filesystem::exists(out));
    CHECK(contains(dry.out, "\"dry_run\": true"));
    const finished real = quantize_with({in, "-f", format, "--skip", skip, "--json", "-o", out});
    const auto size = [](const std::string& json) {
      const std::size_t at = json.find("\"bytes_after\": ") + 15;
      return json.substr(at, json.find_first_not_of("0123456789", at) - at);
    };
    CHECK(std::stoul(size(dry.out)) > 0);
    CHECK(size(dry.out) == size(real.out));
    CHECK(
        contains(quantize_with({in, "-f", format, "--skip", skip, "--dry-run", "-o", out}).out, "nothing was written"));
  }
}

TEST_CASE("GPT-OSS's pairs through the tool: experts of inputs by outputs, quantized along the inputs", "[tool][cpu]") {
  const shape extents{2, 64, 5};
  const std::vector<float> x = values_of(extents);
  const std::string in = file_of("oss.safetensors", x, extents);
  interop::safetensors_reader back(round_trip(in, {"-f", "mxfp4", "--axis", "1", "--layout", "gpt_oss"}));
  CHECK(back.at("w").shape == extents);
  CHECK(same_bits(floats_of(back), moved(by_slices<mxfp4>(moved(x, 2, 64, 5), 2, 64, {}), 2, 64, 5, true)));
  const std::string q = scratch() / "stack_q.safetensors";
  interop::safetensors_reader file(q);
  CHECK(file.at("w_blocks").shape == shape{2, 5, 2, 16});
  CHECK(file.at("w_scales").shape == shape{2, 5, 2});
  CHECK(contains(inspected({q}), "w  mxfp4 2 x 64 x 5, gpt_oss layout\n"));
  const std::string again = scratch() / "again.safetensors";  // parts of a weight are not quantized again
  CHECK(contains(quantize_with({q, "-f", "nvfp4", "-o", again}).out, "copied: is part of a quantized weight"));
}

TEST_CASE("F4 through the tool, and what inspect shows of it", "[tool][cpu]") {
  const shape extents{2, 3, 64};
  const std::vector<float> x = values_of(extents);
  const std::string in = file_of("f4.safetensors", x, extents), q = scratch() / "stack_q.safetensors";
  interop::safetensors_reader nv(round_trip(in, {"-f", "nvfp4", "--layout", "f4"}));
  CHECK(same_bits(floats_of(nv), by_slices<nvfp4>(x, 2, 64, {})));
  interop::safetensors_reader mx(round_trip(in, {"-f", "mxfp4", "--layout", "f4"}));
  CHECK(same_bits(floats_of(mx), by_slices<mxfp4>(x, 2, 64, {})));
  CHECK(contains(inspected({q}), "w  mxfp4 2 x 3 x 64, f4 layout\n"));
  interop::safetensors_reader file(q);
  CHECK(file.at("w").type_name == "F4");
  CHECK(file.at("w").shape == extents);
}

TEST_CASE("experts of .gguf files have a tensor scale each", "[tool][cpu]") {
  const shape extents{3, 2, 64};
  const std::vector<float> x = values_of(extents);
  const std::string in = file_of("gg.safetensors", x, extents), q = scratch() / "gg.gguf", out = scratch() / "gg.npy";
  REQUIRE(quantize_with({in, "-f", "nvfp4", "-o", q}).rejected.empty());
  interop::gguf_reader file(q);
  CHECK(file.at("w").shape == extents);
  CHECK(file.at("w.scale").shape == shape{3});
  REQUIRE(dequantize_with({q, "-o", scratch() / "gg_out.safetensors"}).rejected.empty());
  interop::safetensors_reader back(scratch() / "gg_out.safetensors");
  const std::vector<float> want = by_slices<nvfp4>(x, 3, 64, {}), got = floats_of(back);
  for (std::size_t i = 0; i < want.size(); ++i) REQUIRE(got[i] == want[i]);  // ggml has one zero
}

TEST_CASE("AWQ and GPTQ through the tool, with the version of GPTQ from the configuration beside the file", "[tool]") {
  const std::string folder = scratch() / "int4";
  std::filesystem::create_directories(folder);
  const std::vector<std::uint32_t> weight(16, 0x76543210u), zeros(2, 0x11111111u);
  const std::vector<fp16> scales(16, fp16(0.5f));
  interop::safetensors_writer out;
  out.add("up.qweight", interop::source_of(number_type::i32, {2, 8}, weight.data()));
  out.add("up.qzeros", interop::source_of(number_type::i32, {2, 1}, zeros.data()));
  out.add("up.scales", interop::source_of(number_type::f16, {2, 8}, scales.data()));
  const std::string in = folder + "/in.safetensors", plain = folder + "/plain.safetensors";
  out.write(in);
  // Every output has the codes 0 .. 7 twice; zero points are 1 as stored, 2 in version 1.
  const auto first_row = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {in, "-o", plain});
    const finished done = dequantize_with(std::move(options));
    REQUIRE(done.rejected.empty());
    interop::safetensors_reader file(plain);
    CHECK(file.tensors().size() == 1);
    CHECK(file.at("up.weight").shape == shape{8, 16});
    const std::vector<float> x = floats_of(file, "up.weight");
    return std::vector<float>(x.begin(), x.begin() + 4);
  };
  const std::vector<float> version_1{-1, -0.5f, 0, 0.5f}, version_2{-0.5f, 0, 0.5f, 1};
  CHECK(first_row({}) == version_1);
  CHECK(first_row({"--gptq", "2"}) == version_2);
  CHECK(contains(inspected({in}), "up.weight  int4 (groups of 8) 8 x 16, gptq layout\n"));
  std::ofstream(folder + "/config.json")
      << R"({"a": [1], "quantization_config": {"quant_method": "gptq", "checkpoint_format": "gptq_v2"}})";
  CHECK(first_row({}) == version_2);
  CHECK(contains(inspected({in}), "gptq_v2 layout\n"));
  CHECK(first_row({"--gptq", "1"}) == version_1);
  std::ofstream(folder + "/quantize_config.json") << R"({"checkpoint_format": "gptq"})";
  CHECK(first_row({}) == version_1);

  interop::safetensors_writer awq;
  const std::vector<std::uint32_t> by_inputs(16, 0x76543210u);
  awq.add("up.qweight", interop::source_of(number_type::i32, {16, 1}, by_inputs.data()));
  awq.add("up.qzeros", interop::source_of(number_type::i32, {2, 1}, zeros.data()));
  awq.add("up.scales", interop::source_of(number_type::f16, {2, 8}, scales.data()));
  awq.write(in);
  CHECK(first_row({}) == std::vector<float>(4, -0.5f));  // output 0 has code 0 for every input
  CHECK(contains(inspected({in}), "up.weight  int4 (groups of 8) 8 x 16, awq layout\n"));
  CHECK(contains(quantize_with({in, "-f", "nvfp4", "-o", plain}).out, "copied: is part of a quantized weight"));
}

TEST_CASE("ggml's Q4_0 through the tool has the values of the library's reader", "[tool]") {
  std::string blocks;
  for (int i = 0; i < 4; ++i) blocks += std::string("\x00\x38", 2) + std::string(16, static_cast<char>(0x19 + i));
  interop::stored_tensor like;
  like.type_name = "Q4_0";
  like.shape = {2, 64};
  interop::gguf_writer writer;
  writer.add_copy("w", like, [&](const interop::byte_sink& sink) { sink(blocks.data(), blocks.size()); });
  const std::string in = scratch() / "q4.gguf", out = scratch() / "q4.safetensors";
  writer.write(in);
  CHECK(contains(inspected({in}), "w  Q4_0 2 x 64, ggml layout\n"));
  const finished done = dequantize_with({in, "-o", out});
  CHECK(contains(done.out, "Q4_0 to F32"));
  interop::safetensors_reader back(out);
  std::vector<float> want(128);
  interop::gguf_reader file(in);
  interop::read_ggml_values(file, file.at("w"), 0, matrix_view<float>(want.data(), 2, 64));
  CHECK(want[0] == 0.5f);  // 0.5 (9 - 8)
  CHECK(same_bits(floats_of(back), want));
}

TEST_CASE("inspect measures experts and convolutions as quantize quantizes them", "[inspect][cpu]") {
  const shape extents{3, 20, 4};
  const std::vector<float> x = values_of(extents);
  const std::string in = file_of("measured.safetensors", x, extents);
  const std::string shown = inspected({in, "-f", "nvfp4", "--rht", "0", "--axis", "1", "--json"});
  const std::string done =
      quantize_with({in, "-f", "nvfp4", "--axis", "1", "--json", "-o", scratch() / "m.safetensors"}).out;
  const auto sqnr = [](const std::string& json) {
    return json.substr(json.find("\"sqnr_db\": ") + 11, 12);  // sums in another order: not all digits
  };
  CHECK(sqnr(shown) == sqnr(done));
  CHECK(contains(inspected({in, "--axis", "1", "-f", "nvfp4"}), "w  F32 3 x 20 x 4, along dimension 1\n"));
  CHECK(contains(inspected({in, "--axis", "1", "--rows", "5", "-f", "nvfp4"}), "5 of 12 rows"));
}
