// ufp4 - tests: `ufp4 quantize DIR` and `ufp4 dequantize DIR`: every file, the index, config.json, and continuation.
// SPDX-License-Identifier: Apache-2.0
// ctest: separate
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <ufp4/ufp4.hpp>
#include <vector>

#include "../../examples/ufp4/inspect.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/seed.hpp"
#include "support/tool_commands.hpp"

using namespace ufp4;
namespace fs = std::filesystem;
using interop::number_type;
using support::bytes_of, support::contains, support::dequantize_with, support::finished, support::quantize_with,
    support::scratch;

namespace {

constexpr const char* first_shard = "model-00001-of-00002.safetensors";
constexpr const char* second_shard = "model-00002-of-00002.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

std::vector<float> values_of(std::size_t count, unsigned seed) {
  std::mt19937_64 random{support::seed(seed)};
  std::normal_distribution<float> normal;
  std::vector<float> x(count);
  for (float& v : x) v = normal(random);
  return x;
}

void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

/// A new folder in the scratch directory.
std::string folder(const std::string& name) {
  const std::string path = scratch() / name;
  fs::remove_all(path);
  fs::create_directories(path);
  return path;
}
/// The path of a folder that is not there.
std::string no_folder(const std::string& name) {
  fs::remove_all(scratch() / name);
  return scratch() / name;
}

/// A shard with a matrix of `cols` columns, a norm and, if `head`, an output matrix.
void write_shard(const std::string& path, const std::string& layer, std::size_t cols, bool head) {
  const std::vector<float> x = values_of(8 * cols, static_cast<unsigned>(cols)), norm = values_of(32, 7);
  interop::safetensors_writer out;
  out.add(layer + ".up.weight", interop::source_of(number_type::f32, {8, cols}, x.data()));
  out.add(layer + ".norm.weight", interop::source_of(number_type::f32, {32}, norm.data()));
  if (head) out.add("lm_head.weight", interop::source_of(number_type::f32, {8, cols}, x.data()));
  out.set_metadata("format", "pt");
  out.write(path);
}

/// A model in two files.
std::string a_model(std::size_t second_cols = 96) {
  const std::string path = folder("model");
  write_shard(path + "/" + first_shard, "layers.0", 64, false);
  write_shard(path + "/" + second_shard, "layers.1", second_cols, true);
  write(
      path + "/" + index_name,
      std::string(R"({"metadata": {"total_size": 5, "total_parameters": 7}, "weight_map": {"layers.0.up.weight": ")") +
          first_shard + R"(", "layers.0.norm.weight": ")" + first_shard + R"(", "layers.1.up.weight": ")" +
          second_shard + R"("}})");
  write(path + "/config.json",
        R"({"architectures": ["Llama"], "limit": [0.0, Infinity], "quantization_config": null, "n": {"a": 1}})");
  write(path + "/tokenizer.json", "{}");
  write(path + "/empty.txt", "");
  write(path + "/pytorch_model.bin", "weights");
  write(path + "/hf_quant_config.json", "{}");
  fs::create_directories(path + "/original");
  return path;
}

finished quantize_model(const std::string& in, const std::string& out, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {in, "-f", "nvfp4", "--skip", "lm_head.weight", "-o", out});
  return quantize_with(std::move(more));
}

std::string member(const std::string& path, const std::string& key) {
  for (const tool::json_member& m : tool::read_members(path))
    if (m.key == key) return m.value;
  return "none";
}

/// The time of the last change, to see whether a file was written again.
auto time_of(const std::string& path) { return fs::last_write_time(path); }

/// Runs the conversion until `stop` files are converted, then interrupts it.
int interrupted_after(std::size_t stop, const std::string& in, const std::string& out, std::string& errors) {
  tool::conversion_command<tool::quantize_request> c;
  c.input = in;
  c.request.output = out;
  c.request.skipped = {"lm_head.weight"};
  c.request.format = "nvfp4";
  c.request.spec = spec_of<nvfp4>;
  tool::model_method<tool::quantize_request> method = tool::quantize_method();
  std::size_t done = 0;
  method.convert = [&, whole = method.convert](tool::tensor_input& file, const tool::quantize_request& request) {
    if (request.dry_run) return whole(file, request);
    if (done++ == stop) throw tool::detail::interrupted();
    return whole(file, request);
  };
  std::ostringstream text, err;
  const int status = tool::run_model(c, method, text, err);
  errors = err.str();
  return status;
}

}  // namespace

TEST_CASE("each file of a model has the bits of converting it alone, and the index and config.json describe them",
          "[tool][cpu]") {
  const std::string in = a_model(), out = no_folder("small");
  const finished done = quantize_model(in, out);
  REQUIRE(done.rejected.empty());
  CHECK(contains(done.out, "model-00001-of-00002.safetensors"));
  CHECK(contains(done.out, "1 of 2 tensors, lowest SQNR "));
  CHECK(contains(done.out, "format nvfp4; layout compressed_tensors; 2 of 5 tensors"));
  CHECK(contains(done.notes, "left out, as other weights: pytorch_model.bin"));
  CHECK(contains(done.notes, "left out, as folders: original"));
  for (const char* shard : {first_shard, second_shard}) {
    const std::string alone = scratch() / "alone.safetensors";
    std::vector<std::string> words{in + "/" + shard, "-f", "nvfp4", "--layout", "compressed_tensors", "-o", alone};
    words.insert(words.end(), {"--skip", "lm_head.weight"});
    REQUIRE(quantize_with(words).rejected.empty());
    CHECK(bytes_of(out + "/" + shard) == bytes_of(alone));
  }
  CHECK(bytes_of(out + "/tokenizer.json") == "{}");
  CHECK(fs::file_size(out + "/empty.txt") == 0);
  for (const char* name : {"pytorch_model.bin", "hf_quant_config.json", "original"})
    CHECK_FALSE(fs::exists(out + "/" + name));

  const std::string map = member(out + "/" + index_name, "weight_map");
  CHECK(contains(map, "\"layers.0.up.weight_packed\": \"model-00001-of-00002.safetensors\""));
  CHECK(contains(map, "\"layers.1.up.weight_global_scale\": \"model-00002-of-00002.safetensors\""));
  CHECK(contains(map, "\"lm_head.weight\": \"model-00002-of-00002.safetensors\""));
  // 8 x 64 and 8 x 96 elements: codes, scales and a float; the head; two norms
  const int total = 256 + 32 + 4 + 384 + 48 + 4 + 8 * 96 * 4 + 2 * 128;
  const std::string metadata = member(out + "/" + index_name, "metadata");
  CHECK(contains(metadata, "\"total_size\": " + std::to_string(total)));
  CHECK(contains(metadata, "\"total_parameters\": 7"));

  const std::string config = out + "/config.json";
  CHECK(member(config, "architectures") == "[\"Llama\"]");
  CHECK(member(config, "limit") == "[0.0, Infinity]");
  CHECK(member(config, "n") == "{\"a\": 1}");
  CHECK(contains(member(config, "quantization_config"), "\"format\": \"nvfp4-pack-quantized\""));
  CHECK(contains(member(config, "quantization_config"), "\"ignore\": [\"lm_head\"]"));
  CHECK(contains(member(out + "/" + tool::conversion_journal::name, "settings"),
                 "quantize --format nvfp4 --layout compressed_tensors --skip lm_head.weight"));
}

TEST_CASE("an interrupted conversion continues, and what is complete is not written again", "[tool]") {
  const std::string in = a_model(), out = no_folder("interrupted"), whole = no_folder("uninterrupted");
  REQUIRE(quantize_model(in, whole).rejected.empty());
  std::string errors;
  CHECK(interrupted_after(1, in, out, errors) == 130);
  CHECK(contains(errors, "interrupted; 1 of 2 files are complete; the same command continues"));
  CHECK(fs::exists(out + "/" + first_shard));
  for (const char* name : {second_shard, index_name, "config.json"}) CHECK_FALSE(fs::exists(out + "/" + name));

  write(out + "/" + second_shard + ".tmp", "unfinished");
  write(out + "/" + second_shard + ".tmp-1", "unfinished");
  const auto before = time_of(out + "/" + first_shard);
  const finished done = quantize_model(in, out);
  REQUIRE(done.rejected.empty());
  CHECK(contains(done.out, "complete before"));
  CHECK(time_of(out + "/" + first_shard) == before);
  CHECK_FALSE(fs::exists(out + "/" + second_shard + ".tmp"));
  CHECK_FALSE(fs::exists(out + "/" + second_shard + ".tmp-1"));
  for (const char* name : {first_shard, second_shard, index_name, "config.json", "tokenizer.json"})
    CHECK(bytes_of(out + "/" + name) == bytes_of(whole + "/" + name));
}

TEST_CASE("a file that is cut off, gone or older than its input is converted again", "[tool]") {
  const std::string in = a_model(), out = no_folder("resumed");
  REQUIRE(quantize_model(in, out).rejected.empty());
  const std::string good = bytes_of(out + "/" + second_shard);
  const auto again = [&](const std::string& shard) {
    const auto kept = time_of(out + "/" + first_shard);
    const finished done = quantize_model(in, out);
    CHECK(done.rejected.empty());
    CHECK(bytes_of(out + "/" + second_shard) == good);
    if (shard == second_shard) CHECK(time_of(out + "/" + first_shard) == kept);
  };
  fs::resize_file(out + "/" + second_shard, good.size() - 1);  // a partial file under the final name
  again(second_shard);
  write(out + "/" + second_shard, std::string(good.size(), 'x'));
  again(second_shard);
  fs::remove(out + "/" + second_shard);
  again(second_shard);
  fs::last_write_time(in + "/" + second_shard, time_of(in + "/" + second_shard) + std::chrono::hours(1));
  const auto old = time_of(out + "/" + second_shard);
  again(second_shard);
  CHECK(time_of(out + "/" + second_shard) != old);
}

TEST_CASE("--dry-run on a model prints the sizes that quantize gives and writes nothing", "[tool]") {
  const std::string in = a_model(), out = no_folder("dry");
  const finished dry = quantize_model(in, out, {"--dry-run"});
  REQUIRE(dry.rejected.empty());
  CHECK_FALSE(fs::exists(out));
  CHECK(contains(dry.out, "; nothing was written\n"));
  const finished real = quantize_model(in, out);
  const auto sizes = [](const std::string& text) {
    return text.substr(text.rfind("tensors, "), text.substr(text.rfind("tensors, ")).find_first_of(";\n"));
  };
  CHECK(sizes(dry.out) == sizes(real.out));
  CHECK(contains(quantize_model(in, out, {"--dry-run"}).out, "; complete\n"));
}

TEST_CASE("all files of a model get the same layout", "[tool]") {
  const std::string in = a_model(90), out = no_folder("layouts");  // 90 columns need padding
  REQUIRE(quantize_model(in, out).rejected.empty());
  for (const char* shard : {first_shard, second_shard}) {
    interop::safetensors_reader file(out + "/" + shard);
    const std::string layer = shard == first_shard ? "layers.0" : "layers.1";
    CHECK(file.metadata().contains("ufp4." + layer + ".up.weight"));
  }
  CHECK(contains(member(out + "/config.json", "quantization_config"), "\"layout\": \"ufp4\""));
  const finished rejected = quantize_model(in, no_folder("layouts2"), {"--layout", "modelopt"});
  CHECK(contains(rejected.rejected, "layers.1.up.weight has 90 columns, not a multiple of 16"));
  CHECK_FALSE(fs::exists(scratch() / "layouts2"));
}

TEST_CASE("a quantized model is dequantized to the names of the plain one, without a quantization_config", "[tool]") {
  const std::string in = a_model(), small = no_folder("small2"), plain = no_folder("plain");
  REQUIRE(quantize_model(in, small).rejected.empty());
  const finished done = dequantize_with({small, "--to", "bf16", "-o", plain});
  REQUIRE(done.rejected.empty());
  CHECK(contains(done.out, "to BF16; 2 of 5 tensors"));
  const std::string alone = scratch() / "alone.safetensors";
  REQUIRE(dequantize_with({small + "/" + first_shard, "--to", "bf16", "-o", alone}).rejected.empty());
  CHECK(bytes_of(plain + "/" + first_shard) == bytes_of(alone));
  CHECK(member(plain + "/config.json", "quantization_config") == "none");
  CHECK(contains(member(plain + "/" + index_name, "weight_map"), "\"layers.1.up.weight\": "));
  CHECK_FALSE(contains(member(plain + "/" + index_name, "weight_map"), "_packed"));
  CHECK(contains(quantize_model(small, no_folder("twice")).rejected,
                 "has a quantization_config: the model is quantized"));
}

TEST_CASE("random bits differ between the files of a model", "[tool]") {
  const std::string in = folder("same"), out = no_folder("same_out");
  for (const char* shard : {"a.safetensors", "b.safetensors"}) {
    const std::vector<float> x = values_of(64 * 64, 3);
    interop::safetensors_writer file;
    file.add(std::string(1, shard[0]) + ".weight", interop::source_of(number_type::f32, {64, 64}, x.data()));
    file.write(in + "/" + shard);
  }
  const finished done = quantize_with({in, "-f", "mxfp4", "--rounding", "stochastic", "-o", out});
  REQUIRE(done.rejected.empty());
  CHECK(contains(done.notes, "has no config.json"));
  interop::safetensors_reader a(out + "/a.safetensors"), b(out + "/b.safetensors");
  const auto first = interop::read_quantized<mxfp4>(a, "a.weight"),
             second = interop::read_quantized<mxfp4>(b, "b.weight");
  CHECK(std::memcmp(first.codes().data(), second.codes().data(), first.codes().size()) != 0);
  CHECK(contains(member(out + "/" + index_name, "weight_map"), "\"b.weight_packed\": \"b.safetensors\""));
}

TEST_CASE("a folder that cannot be converted is rejected with one message, and nothing is written", "[tool]") {
  const std::string in = a_model(), out = no_folder("never");
  const auto rejected = [&](const std::string& from, const std::string& to, std::vector<std::string> more = {}) {
    const finished done = quantize_model(from, to, std::move(more));
    CHECK_FALSE(done.rejected.empty());
    return done.rejected;
  };
  CHECK(contains(rejected(in, out, {"--tensor", "no*"}),
                 "has no tensor that --tensor no* matches, in none of its files"));
  CHECK(contains(rejected(in, out, {"--axis", "no*=0"}), "has no tensor that --axis no* matches"));
  CHECK(contains(rejected(in, out, {"--tensor", "*.norm.weight"}), "has no tensor to convert"));
  CHECK(contains(rejected(in, scratch() / "never.safetensors"), "ends like a file, but FILE is a folder"));
  CHECK(contains(rejected(in, in), "-o " + in + " would overwrite FILE itself"));
  CHECK(contains(rejected(folder("nothing"), out), "has no .safetensors files"));
  CHECK(contains(dequantize_with({in, "-o", out}).rejected, "has no quantized weights"));
  const std::string full = folder("full");
  write(full + "/mine.txt", "mine");
  CHECK(contains(rejected(in, full), "is not empty, and not the output of an interrupted conversion"));
  CHECK(bytes_of(full + "/mine.txt") == "mine");
  CHECK(contains(rejected(in, full + "/mine.txt"), "is a file, not a folder for a model"));

  const auto with_index = [&](const std::string& text) {
    const std::string broken = a_model();
    write(broken + "/" + index_name, text);
    return rejected(broken, out);
  };
  CHECK(contains(with_index("{"), "is not a JSON object"));
  CHECK(contains(with_index("[]"), "is not a JSON object"));
  CHECK(contains(with_index("{}"), "has no weight_map"));
  CHECK(contains(with_index(R"({"weight_map": {"a": 1}})"), "weight_map is not an object of strings"));
  CHECK(contains(with_index(R"({"weight_map": {"a": "gone.safetensors"}})"), "names a file that is missing: gone"));
  for (const char* name : {"../up.safetensors", "/etc/up.safetensors", "a\\\\b.safetensors", ".safetensors", "x.bin"})
    CHECK(contains(with_index(R"({"weight_map": {"a": ")" + std::string(name) + "\"}}"),
                   "weight_map has a file that is not a .safetensors file of this folder"));
  const std::string cut = a_model();
  fs::resize_file(cut + "/" + second_shard, 300);
  CHECK(contains(rejected(cut, out), std::string(second_shard) + ": "));
  const std::string text = a_model();
  write(text + "/config.json", "not JSON");
  CHECK(contains(rejected(text, out), "config.json: is not a JSON object"));
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("a folder of another conversion, and a journal that is none, are rejected", "[tool]") {
  const std::string in = a_model(), out = no_folder("other");
  REQUIRE(quantize_model(in, out).rejected.empty());
  const std::string before = bytes_of(out + "/" + first_shard);
  CHECK(contains(quantize_model(in, out, {"--layout", "modelopt"}).rejected,
                 "was begun with other settings: quantize --format nvfp4 --layout compressed_tensors --skip"));
  CHECK(contains(quantize_model(in, out, {"--dry-run", "--layout", "modelopt"}).rejected, "use another folder"));
  CHECK(bytes_of(out + "/" + first_shard) == before);
  for (const char* text : {"x", R"({"settings": 5})", R"({"settings": "", "files": {"a": [1, 2]}})",
                           R"({"files": {"a": ["x", 1, 2]}})", R"({"files": []})"}) {
    write(out + "/" + tool::conversion_journal::name, text);
    CHECK(contains(quantize_model(in, out).rejected, std::string(tool::conversion_journal::name) + ": is not "));
  }
}

TEST_CASE("random damage to the index, config.json or the journal is accepted or rejected with one message", "[tool]") {
  INFO(support::seed_note());
  std::mt19937_64 random{support::seed()};
  const std::string in = a_model(), out = no_folder("damaged");
  REQUIRE(quantize_model(in, out).rejected.empty());
  for (int round = 0; round < 60; ++round) {
    const std::string path = round % 3 == 0   ? in + "/" + index_name
                             : round % 3 == 1 ? in + "/config.json"
                                              : out + "/" + tool::conversion_journal::name;
    const std::string good = bytes_of(path);
    write(path, support::damaged(good, random));
    const finished done = quantize_model(in, out, {"--dry-run"});
    CHECK(done.rejected.find('\n') == std::string::npos);
    write(path, good);
  }
}

TEST_CASE("a weight whose parts are in two files is not dequantized", "[tool]") {
  const std::string in = folder("split"), out = no_folder("split_out");
  const std::vector<std::uint8_t> codes(32, 0x22), scales(4, 0x38);
  interop::safetensors_writer first, second;
  first.add("w_packed", interop::source_of(number_type::u8, {2, 16}, codes.data()));
  first.add("v_packed", interop::source_of(number_type::u8, {2, 16}, codes.data()));
  first.add("v_scale", interop::source_of(number_type::u8, {2, 1}, scales.data()));
  second.add("w_scale", interop::source_of(number_type::u8, {2, 1}, scales.data()));
  first.write(in + "/a.safetensors");
  second.write(in + "/b.safetensors");
  CHECK(contains(dequantize_with({in, "-o", out}).rejected,
                 "b.safetensors: has w_scale, but w_packed is in a.safetensors"));
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("the time that is left is that of the rate until now", "[tool]") {
  CHECK(tool::clock_text(0) == "0:00");
  CHECK(tool::clock_text(59.6) == "1:00");
  CHECK(tool::clock_text(83) == "1:23");
  CHECK(tool::clock_text(3723) == "1:02:03");
  tool::work_clock clock(100);
  CHECK(clock.part() == 0);
  CHECK(clock.part(25) == 0.25);
  clock.finished(100);
  CHECK(clock.part() == 1);
}

TEST_CASE("inspect of a folder has the report of each file and one last table, and patterns match in any file",
          "[tool]") {
  const std::string in = a_model();
  const auto inspected = [](std::vector<std::string> words) { return support::run(tool::inspect, std::move(words)); };
  const auto shown = inspected({in, "-f", "nvfp4"});
  const std::string first = in + "/" + first_shard, second = in + "/" + second_shard;
  CHECK(contains(shown.out, first + ": safetensors, 2 tensors"));
  CHECK(contains(shown.out, second + ": safetensors, 3 tensors"));
  CHECK(shown.out.find("Highest SQNR of its size") == shown.out.rfind("Highest SQNR of its size"));
  CHECK(contains(shown.out, "4.5 bits   nvfp4 3"));
  for (const std::string& path : {first, second}) {  // the lines of a tensor are those of its file alone
    const std::string alone = inspected({path, "-f", "nvfp4", "--list"}).out, all = inspected({in, "--list"}).out;
    CHECK(contains(all, alone));
  }
  const std::string one = inspected({in, "--tensor", "lm_head.weight", "--list"}).out;
  CHECK((contains(one, "lm_head.weight") && !contains(one, "layers.0.up.weight  ")));
  CHECK(contains(inspected({in, "--tensor", "none*"}).rejected, "model: has no tensor whose name is none*"));
  const std::string json = inspected({in, "-f", "nvfp4", "--json"}).out;
  CHECK(json.starts_with("{\"input\": " + interop::json_text(in) + ", \"kind\": \"model\", \"files\": ["));
  const auto members = tool::json_members(json);
  REQUIRE((members && members->size() == 3));
  interop::json_cursor files(members->back().value);
  std::vector<std::string> names;
  REQUIRE(files.array([&] {
    return files.object([&](const std::string& key) {
      return key == "input" ? files.string(names.emplace_back()) : files.skip_value();
    });
  }));
  CHECK(names == std::vector<std::string>{first, second});
  CHECK(contains(inspected({folder("empty")}).rejected, "has no .safetensors files"));
}
