// ufp4 - tests: `ufp4 quantize` and `ufp4 dequantize`: the files have the bits of the library's operations.
// SPDX-License-Identifier: Apache-2.0
// ctest: separate
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <type_traits>
#include <ufp4/ufp4.hpp>
#include <vector>

#include "../../examples/ufp4/dequantize.hpp"
#include "../../examples/ufp4/quantize.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/formats.hpp"
#include "support/seed.hpp"
#include "support/tool_commands.hpp"

using namespace ufp4;
using support::contains, support::dequantize_with, support::finished, support::quantize_with, support::scratch;
using namespace std::string_literals;

namespace {

using interop::number_type;
using interop::tensor_layout;

constexpr const char* weight = "layers.0.up.weight";

/// Normal numbers, with an outlier in every row, as float, bf16 or fp16 can hold them.
template <class T>
std::vector<T> some_values(std::size_t rows, std::size_t cols) {
  std::mt19937_64 random{support::seed(rows * 1000 + cols)};
  std::normal_distribution<float> normal;
  std::vector<T> values;
  for (std::size_t i = 0; i < rows * cols; ++i)
    values.push_back(static_cast<T>(ufp4::detail::round_to<T>(normal(random) * (i % cols == i % 7 ? 30.0f : 1.0f))));
  return values;
}
template <>
std::vector<float> some_values<float>(std::size_t rows, std::size_t cols) {
  std::vector<float> values;
  for (const bf16 v : some_values<bf16>(rows, cols)) values.push_back(static_cast<float>(v) * 1.01f);
  return values;
}

/// A file with a matrix called `weight` and, before and after it, tensors that are not matrices of floats.
template <class T>
std::string file_of(const std::vector<T>& values, std::size_t rows, std::size_t cols) {
  static const float norm[3] = {1, 2, 3};
  static const std::uint8_t ids[4] = {9, 8, 7, 6};
  interop::safetensors_writer out;
  out.add("a.norm", interop::source_of(number_type::f32, {3}, norm));
  out.add(weight, interop::source_of(matrix_view<const T>(values.data(), rows, cols)));
  out.add("z.ids", interop::source_of(number_type::u8, {2, 2}, ids));
  out.set_metadata("format", "pt");
  const std::string path = scratch() / "in.safetensors";
  out.write(path);
  return path;
}

template <class T, class V>
bool same_bits(const std::vector<T>& a, const std::vector<V>& b) {
  return a.size() * sizeof(T) == b.size() * sizeof(V) && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

std::string raw(interop::tensor_file& file, const std::string& name) {
  const interop::stored_tensor& t = file.at(name);
  std::string bytes(static_cast<std::size_t>(t.bytes), '\0');
  file.read_bytes(t, 0, bytes.data(), bytes.size());
  return bytes;
}

/// The values of a matrix that was quantized without a transform.
template <class T, class F>
std::vector<T> decoded(const quantized_matrix<F>& q) {
  std::vector<T> values(q.rows() * q.cols());
  dequantize(q, matrix_view<T>(values.data(), q.rows(), q.cols()));
  return values;
}

template <class T>
constexpr number_type stored_as = std::is_same_v<T, bf16>   ? number_type::bf16
                                  : std::is_same_v<T, fp16> ? number_type::f16
                                                            : number_type::f32;

/// The matrix as it comes out of quantize and dequantize on files, in T.
template <class T>
std::vector<T> dequantized(const std::string& path, std::size_t chunk, int threads) {
  tool::tensor_input in(path);
  tool::dequantize_request request;
  request.output = scratch() / "plain.safetensors";
  request.to = stored_as<T>;
  request.chunk = chunk;
  request.ctx.threads = threads;
  dequantize_file(in, request);
  interop::safetensors_reader file(request.output);
  const std::string bytes = raw(file, weight);
  CHECK(file.at(weight).type == stored_as<T>);
  CHECK(file.tensors().size() == 3);
  CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}});
  CHECK(raw(file, "z.ids") == "\x09\x08\x07\x06");
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

template <class F, class T>
void check_round_trip(std::size_t rows, std::size_t cols, std::size_t chunk, const transform_spec& transform,
                      const rounding_spec& rounding, int threads) {
  CAPTURE(rows, cols, chunk, transform.n, threads);
  const std::vector<T> values = some_values<T>(rows, cols);
  tool::tensor_input in(file_of(values, rows, cols));
  tool::quantize_request request;
  request.output = scratch() / "out.safetensors";
  request.format = "F";
  request.spec = spec_of<F>;
  request.with.transform = transform;
  request.with.rounding = rounding;
  request.with.ctx.threads = threads;
  request.with.chunk = chunk;
  const tool::conversion report = tool::quantize_file(in, request);
  CHECK(report.tensors[1].kept.empty());

  rounding_spec second = rounding;
  second.random_bits.stream = 1;  // the matrix is the second tensor
  const matrix_view<const T> x(values.data(), rows, cols);
  const quantized_matrix<F> whole = ufp4::quantize<F>(x, transform, second);
  interop::safetensors_reader file(request.output);
  const quantized_matrix<F> stored = interop::read_quantized<F>(file, weight);
  CHECK(stored == whole);
  CHECK(same_map(stored.transform(), transform));
  CHECK(raw(file, "z.ids") == "\x09\x08\x07\x06");
  std::vector<T> plain(rows * cols);
  fake_quantize<F>(x, matrix_view<T>(plain.data(), rows, cols), transform, second, undo_transform{});
  CHECK(same_bits(dequantized<T>(request.output, chunk, threads), plain));
}

template <class F>
using squares =
    block_format<typename F::element_type, typename F::scale_type, square(F::block.cols), typename F::outer_type>;

using presets = support::joined<
    support::presets_and<squares<nvfp4>, squares<mxint4>, squares<e1m2_f32>>,
    std::tuple<tetrajet2, if4, mixfp4, razer, hif4, mxint8, mxfp8_e4m3, mxfp8_e5m2, mxfp6_e3m2, mxfp6_e2m3>>;

std::string good_file(std::size_t rows = 40, std::size_t cols = 64) {
  return file_of(some_values<float>(rows, cols), rows, cols);
}

/// A file with the weights a and b, both quantized from the 4 x 32 values.
std::string two_weights(const std::vector<float>& x, const std::string& format) {
  interop::safetensors_writer writer;
  for (const char* name : {"a", "b"}) writer.add(name, interop::source_of(matrix_view<const float>(x.data(), 4, 32)));
  const std::string in = scratch() / "two.safetensors", q = scratch() / "two_q.safetensors";
  writer.write(in);
  REQUIRE(quantize_with({in, "-f", format, "-o", q}).rejected.empty());
  return q;
}

/// Whether the file has its old content and no unfinished file is beside it.
bool is_untouched(const std::string& path, const std::string& before) {
  return support::bytes_of(path) == before && !std::filesystem::exists(path + ".tmp");
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("a matrix through files has the bits of quantizing and decoding it whole", "[tool][cpu]",
                        presets) {
  INFO(support::seed_note());
  const transform_spec none, sixteen = random_hadamard<16>{7}.spec(), long_runs = random_hadamard<128>{8}.spec();
  check_round_trip<TestType, float>(70, 64, 16 * 64, none, nearest_even{}, 1);  // chunks of 16 rows, and 6
  check_round_trip<TestType, bf16>(70, 64, 1, sixteen, nearest_even{}, 3);      // of one block of rows
  const std::size_t ragged = TestType::block.cols > 41 ? 105 : 41;  // a matrix of less than a block is copied
  check_round_trip<TestType, fp16>(90, ragged, 1500, none, nearest_even{}, 2);  // 36 rows fit, whole blocks are 32
  check_round_trip<TestType, float>(33, ragged, 500, long_runs, nearest_even{}, 1);
  check_round_trip<TestType, bf16>(33, 257, 3000, sixteen, stochastic{5, 0}, 3);
  check_round_trip<TestType, float>(1, 300, 1 << 20, none, stochastic{5, 0}, 1);  // whole
}

namespace {

/// A file of every preset by its name: the bits of quantize on the matrix; layouts that lack the format name it.
template <class Row>
void check_preset(Row row, const std::string& in, const matrix_view<const float>& x) {
  CAPTURE(row.name);
  const std::string out = scratch() / "q.safetensors", gguf = scratch() / "q.gguf";
  const finished done = quantize_with({in, "-f", row.name, "-o", out});
  REQUIRE(done.rejected.empty());
  const any_quantized q = quantize(row.spec, x);
  interop::safetensors_reader file(out);
  CHECK(interop::read_quantized(file, weight) == q);
  CHECK(contains(done.out, "format " + std::string(row.name)));
  if (interop::is_shared_format(row.spec)) return;
  const std::string lacks = std::string("has nvfp4 and mxfp4 only, not ") + row.name;
  CHECK(contains(quantize_with({in, "-f", row.name, "--layout", "modelopt", "-o", out}).rejected, lacks));
  CHECK(contains(quantize_with({in, "-f", row.name, "-o", gguf}).rejected,
                 std::string("a .gguf file has nvfp4 and mxfp4, not ") + row.name));
}

}  // namespace

TEST_CASE("every preset is quantized by its name, and a layout or file that lacks it is an error with the name",
          "[tool]") {
  INFO(support::seed_note());
  const std::string in = good_file(24, 192);
  const std::vector<float> values = some_values<float>(24, 192);
  const matrix_view<const float> x(values.data(), 24, 192);
  const auto check = [&](auto row) { check_preset(row, in, x); };
  ufp4::detail::for_every_preset(check);
}

TEST_CASE("--choose-grid decides by which error a block chooses its grid, beside a rule in any order", "[tool]") {
  INFO(support::seed_note());
  const std::string in = good_file(24, 192), out = scratch() / "q.safetensors";
  const std::vector<float> values = some_values<float>(24, 192);
  const matrix_view<const float> x(values.data(), 24, 192);
  std::vector<any_quantized> all;
  for (const auto& [name, error] : {std::pair("mse", search_error::squared), std::pair("mae", search_error::absolute),
                                    std::pair("max", search_error::largest)}) {
    CAPTURE(name);
    const finished done = quantize_with({in, "-f", "if4", "--choose-grid", name, "--rule", "scale_up", "-o", out});
    REQUIRE(done.rejected.empty());
    CHECK(contains(done.out, "rule scale_up; choose_grid " + std::string(name)));
    interop::safetensors_reader file(out);
    all.push_back(interop::read_quantized(file, weight));
    CHECK(all.back() == quantize(spec_of<if4>, x, scale_up{}, choose_grid{error}));
  }
  CHECK((all[0].view() != all[1].view() && all[1].view() != all[2].view()));
}

TEST_CASE("a run on a folder is the same command only with the same rule, search and choice of grids", "[tool]") {
  tool::quantize_request request;
  request.format = "if4";
  request.layout = tensor_layout::ufp4;
  CHECK(tool::detail::quantize_settings_text(request) == "quantize --format if4 --layout ufp4");
  request.scales.name = "scale_up", request.scales.search = "mae:1,2", request.scales.grids = "max";
  CHECK(tool::detail::quantize_settings_text(request) ==
        "quantize --format if4 --layout ufp4 --rule scale_up --search mae:1,2 --choose-grid max");
}

TEST_CASE("the other projects' layouts have the same bits, and their weights are found by names and types", "[tool]") {
  const std::string in = good_file();
  const std::vector<float> x = some_values<float>(40, 64);
  const auto nv = ufp4::quantize<nvfp4>(matrix_view<const float>(x.data(), 40, 64));
  const auto mx = ufp4::quantize<mxfp4>(matrix_view<const float>(x.data(), 40, 64));
  const std::string out = scratch() / "q.safetensors";
  for (const std::string layout : {"compressed_tensors", "modelopt", "ufp4"})
    for (const std::string format : {"nvfp4", "mxfp4"}) {
      CAPTURE(layout, format);
      REQUIRE(quantize_with({in, "-f", format, "--layout", layout, "-o", out}).rejected.empty());
      interop::safetensors_reader file(out);
      CHECK((file.find(std::string(weight) + (layout == "modelopt" ? "" : "_packed")) != nullptr));
      if (format == "nvfp4") {
        CHECK(interop::read_quantized<nvfp4>(file, weight) == nv);
        CHECK(same_bits(dequantized<float>(out, 777, 1), decoded<float>(nv)));
      } else {
        CHECK(interop::read_quantized<mxfp4>(file, weight) == mx);
        CHECK(same_bits(dequantized<float>(out, 777, 1), decoded<float>(mx)));
      }
    }
}

TEST_CASE("weights with torchao's names are found", "[tool]") {
  const std::vector<float> x = some_values<float>(8, 32);
  const auto q = ufp4::quantize<nvfp4>(matrix_view<const float>(x.data(), 8, 32));
  const float scale = q.tensor_scale();
  interop::safetensors_writer writer;
  writer.add("up._weight_qdata", interop::source_of(number_type::u8, {8, 16}, q.codes().data()));
  writer.add("up._weight_scale", interop::source_of(number_type::f8_e4m3, {8, 2}, q.scales().data()));
  writer.add("up._weight_per_tensor_scale", interop::source_of(scale, {}));
  const std::string in = scratch() / "ao.safetensors", out = scratch() / "ao_plain.safetensors";
  writer.write(in);
  REQUIRE(dequantize_with({in, "-o", out}).rejected.empty());
  interop::safetensors_reader file(out);
  REQUIRE(file.tensors().size() == 1);
  const std::vector<float> want = decoded<float>(q);
  CHECK(raw(file, "up.weight") == support::floats(want));
}

TEST_CASE(
    "the layout is the first that can represent every weight, and one that cannot is rejected before anything is "
    "written",
    "[tool]") {
  const std::string even = good_file(), out = scratch() / "layout.safetensors";
  const auto layout_of = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"-o", out});
    const finished done = quantize_with(words);
    const std::size_t at = done.out.find("layout ");
    return at == std::string::npos ? done.rejected : done.out.substr(at + 7, done.out.find(';', at) - at - 7);
  };
  CHECK(layout_of({even, "-f", "nvfp4"}) == "compressed_tensors");
  CHECK(layout_of({even, "-f", "nvfp4", "--rht", "16"}) == "ufp4");
  CHECK(layout_of({even, "-f", "mxint4"}) == "ufp4");
  const std::string before = support::bytes_of(out);
  for (const std::string layout : {"compressed_tensors", "modelopt"}) {
    CHECK(contains(layout_of({even, "-f", "e1m2_f32", "--layout", layout}), "has nvfp4 and mxfp4 only, not e1m2_f32"));
    CHECK(contains(layout_of({even, "-f", "mxfp4", "--rht", "32", "--layout", layout}), "Hadamard transform"));
  }
  CHECK(is_untouched(out, before));
  const std::string ragged = file_of(some_values<float>(4, 41), 4, 41);
  CHECK(contains(layout_of({ragged, "-f", "nvfp4", "--layout", "modelopt"}), "has 41 columns, not a multiple of 16"));
  CHECK(is_untouched(out, before));
  CHECK(layout_of({ragged, "-f", "nvfp4"}) == "ufp4");
}

TEST_CASE(
    "tensors that are not matrices of floats, too narrow, empty or left out are copied, with the reason in the report",
    "[tool]") {
  interop::safetensors_writer writer;
  const std::vector<float> x = some_values<float>(4, 64);
  const auto some = [&](number_type type, std::vector<std::uint64_t> shape) {
    return interop::source_of(type, std::move(shape), x.data());
  };
  writer.add("up", some(number_type::f32, {4, 64}));
  writer.add("lm_head", some(number_type::f32, {4, 64}));
  writer.add("narrow", some(number_type::f16, {8, 15}));
  writer.add("cube", some(number_type::f32, {2, 8, 4}));
  writer.add("empty", some(number_type::f32, {0, 64}));
  writer.add("wide", some(number_type::f64, {2, 16}));
  writer.add("scalar", some(number_type::f32, {}));
  const std::string in = scratch() / "copies.safetensors", out = scratch() / "copied.safetensors";
  writer.write(in);
  const finished done = quantize_with({in, "-f", "nvfp4", "--skip", "lm_*", "-o", out});
  REQUIRE(done.rejected.empty());
  for (const char* line :
       {"copied: by --skip", "copied: 15 columns are fewer than a block of 16",
        "copied: 4 elements along dimension 2 are fewer than a block of 16", "copied: is empty",
        "copied: is not F32, F16 or BF16", "copied: has 0 dimensions", "F32 to nvfp4", "1 of 7 tensors converted"})
    CHECK(contains(done.out, line));
  interop::safetensors_reader before(in), after(out);
  for (const char* name : {"lm_head", "narrow", "cube", "empty", "wide", "scalar"}) {
    CHECK(raw(before, name) == raw(after, name));
    CHECK(before.at(name).shape == after.at(name).shape);
    CHECK(before.at(name).type == after.at(name).type);
  }
  const finished chosen = quantize_with({in, "-f", "nvfp4", "--tensor", "lm_????", "-o", out});
  CHECK(contains(chosen.out, "copied: not chosen by --tensor"));
  CHECK(contains(chosen.out, "1 of 7 tensors converted"));
}

TEST_CASE("a tensor of a type without a name here is copied from .safetensors", "[tool]") {
  const std::string data = support::floats(some_values<float>(1, 32)) + "\1\0\1"s;
  const std::string in =
      support::file_with(support::safetensors(R"({"w":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]},)"
                                              R"("mask":{"dtype":"BOOL","shape":[3],"data_offsets":[128,131]}})",
                                              data));
  const std::string out = scratch() / "mask.safetensors";
  REQUIRE(quantize_with({in, "-f", "mxfp4", "-o", out}).rejected.empty());
  interop::safetensors_reader file(out);
  CHECK(file.at("mask").type_name == "BOOL");
  CHECK(raw(file, "mask") == "\1\0\1"s);
}

TEST_CASE("GGUF takes nvfp4 and mxfp4 in whole blocks, and comes back", "[tool]") {
  const std::string in = good_file(), out = scratch() / "q.gguf", plain = scratch() / "plain.safetensors";
  const std::vector<float> x = some_values<float>(40, 64);
  const auto nv = ufp4::quantize<nvfp4>(matrix_view<const float>(x.data(), 40, 64));
  const finished done = quantize_with({in, "-f", "nvfp4", "--skip", "a.*", "-o", out});
  CHECK(done.usage);
  CHECK(contains(done.rejected, "q.gguf cannot be a .gguf file: tensor z.ids has a type that ggml does not have"));
  CHECK_FALSE(std::filesystem::exists(out));
  const std::string npy = scratch() / "up.npy";
  std::ofstream(npy, std::ios::binary) << support::npy("<f4", false, "(40, 64)", support::floats(x));
  REQUIRE(quantize_with({npy, "-f", "nvfp4", "-o", out}).rejected.empty());
  interop::gguf_reader file(out);
  CHECK(interop::read_quantized<nvfp4>(file, "up") == nv);
  REQUIRE(dequantize_with({out, "-o", plain}).rejected.empty());
  interop::safetensors_reader again(plain);
  CHECK(again.tensors().size() == 1);
  std::vector<float> got(40 * 64);
  again.read_rows(again.at("up"), 0, matrix_view<float>(got.data(), 40, 64));
  std::vector<float> want = decoded<float>(nv);
  for (std::size_t i = 0; i < want.size(); ++i) REQUIRE(got[i] == want[i]);  // ggml has one zero

  interop::gguf_writer model;
  model.set_string("general.architecture", "llama");
  model.add("up", interop::source_of(matrix_view<const float>(x.data(), 40, 64)));
  const std::string from = scratch() / "model.gguf";
  model.write(from);
  REQUIRE(quantize_with({from, "-f", "nvfp4", "-o", out}).rejected.empty());
  interop::gguf_reader quantized(out);
  CHECK(quantized.strings().at("general.architecture") == "llama");
  CHECK(interop::read_quantized<nvfp4>(quantized, "up") == nv);

  CHECK(contains(quantize_with({npy, "-f", "e1m2_f32", "-o", out}).rejected, "a .gguf file has nvfp4 and mxfp4"));
  CHECK(contains(quantize_with({npy, "-f", "nvfp4", "--rht", "16", "-o", out}).rejected, "Hadamard transform"));
  CHECK(contains(quantize_with({npy, "-f", "nvfp4", "--layout", "ufp4", "-o", out}).rejected, "--layout"));
  std::ofstream(npy, std::ios::binary) << support::npy("<f4", false, "(64, 40)", support::floats(x));
  CHECK(contains(quantize_with({npy, "-f", "nvfp4", "-o", out}).rejected, "40 columns, not a multiple of ggml's 64"));
}

TEST_CASE("ggml's blocks are copied to .gguf files only: .safetensors has no type for them", "[tool]") {
  const std::vector<float> x = some_values<float>(4, 64);
  const auto mx = ufp4::quantize<mxfp4>(matrix_view<const float>(x.data(), 4, 64));
  interop::gguf_writer writer;
  for (const char* name : {"up", "gate"})
    writer.add(name, interop::source_of(matrix_view<const float>(x.data(), 4, 64)));
  for (const char* name : {"down", "out"}) interop::add_quantized(writer, name, mx);
  const std::string in = scratch() / "mixed.gguf", out = scratch() / "mixed.safetensors",
                    kept = scratch() / "kept.gguf";
  writer.write(in);

  CHECK(contains(quantize_with({in, "-f", "nvfp4", "-o", out}).rejected,
                 "cannot have tensor down as it is: MXFP4 in ggml's blocks is no type of .safetensors files"));
  CHECK(contains(dequantize_with({in, "--tensor", "down", "-o", out}).rejected, "cannot have tensor out as it is"));
  CHECK_FALSE(std::filesystem::exists(out));
  REQUIRE(quantize_with({in, "-f", "nvfp4", "-o", kept}).rejected.empty());
  interop::gguf_reader file(kept);
  CHECK(interop::read_quantized<mxfp4>(file, "down") == mx);
  CHECK(dequantize_with({kept, "-o", out}).rejected.empty());
}

TEST_CASE("a .npy file in either order is quantized, and one weight becomes a .npy file", "[tool]") {
  const std::vector<float> x = some_values<float>(40, 64);
  std::vector<float> transposed;
  for (std::size_t k = 0; k < 64; ++k)
    for (std::size_t i = 0; i < 40; ++i) transposed.push_back(x[i * 64 + k]);
  const auto q = ufp4::quantize<e2m1_f32>(matrix_view<const float>(x.data(), 40, 64));
  const std::string in = scratch() / "up.npy", out = scratch() / "up.safetensors", back = scratch() / "back.npy";
  for (const bool fortran : {false, true}) {
    std::ofstream(in, std::ios::binary) << support::npy("<f4", fortran, "(40, 64)",
                                                        support::floats(fortran ? transposed : x));
    REQUIRE(quantize_with({in, "-f", "e2m1_f32", "-o", out}).rejected.empty());
    interop::safetensors_reader file(out);
    CHECK(interop::read_quantized<e2m1_f32>(file, "up") == q);
  }
  REQUIRE(dequantize_with({out, "--to", "f16", "-o", back}).rejected.empty());
  interop::npy_reader array(back);
  CHECK(array.array().type == number_type::f16);
  const std::vector<fp16> want = decoded<fp16>(q);
  CHECK(raw(array, "") == std::string(reinterpret_cast<const char*>(want.data()), want.size() * 2));
  CHECK(contains(dequantize_with({in, "-o", out}).rejected, "is a .npy file, which has no quantized weights"));
}

TEST_CASE("a .npy output is for one weight", "[tool]") {
  const std::string q = two_weights(some_values<float>(4, 32), "mxfp4");
  const std::string out = scratch() / "two.npy";
  CHECK(contains(dequantize_with({q, "-o", out}).rejected, "2 weights would be dequantized; --tensor chooses one"));
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK(dequantize_with({q, "--tensor", "b", "-o", out}).rejected.empty());
  CHECK(contains(dequantize_with({q, "--tensor", "c*", "-o", out}).rejected, "--tensor c*"));
}

TEST_CASE("a weight that is not chosen stays quantized", "[tool]") {
  const std::vector<float> x = some_values<float>(4, 32);
  const std::string q = two_weights(x, "int4_f32");
  const std::string out = scratch() / "half.safetensors", rest = scratch() / "rest.safetensors";
  REQUIRE(dequantize_with({q, "--tensor", "b", "-o", out}).rejected.empty());
  interop::safetensors_reader half(out);
  CHECK(half.find("b") != nullptr);
  const auto want = ufp4::quantize<int4_f32>(matrix_view<const float>(x.data(), 4, 32));
  CHECK(interop::read_quantized<int4_f32>(half, "a") == want);
  CHECK(half.metadata().size() == 1);
  REQUIRE(dequantize_with({out, "-o", rest}).rejected.empty());
  interop::safetensors_reader all(rest);
  CHECK(raw(all, "a") == raw(half, "b"));
}

TEST_CASE("patterns: a star is any text, a question mark one character, and all of the name counts", "[tool]") {
  using tool::matches;
  CHECK(matches("a.b", "a.b"));
  CHECK_FALSE(matches("a.b", "a.b.c"));
  CHECK_FALSE(matches("a.b", "aXb"));
  CHECK(matches("*", ""));
  CHECK(matches("*.weight", "layers.0.weight"));
  CHECK_FALSE(matches("*.weight", "layers.0.weight_scale"));
  CHECK(matches("l*.?.w*", "layers.0.weight"));
  CHECK_FALSE(matches("l*.?.w*", "layers.10.weight"));
  CHECK(matches("*a*b*", "xxaxbxabx"));
  CHECK_FALSE(matches("?", ""));
  CHECK(matches("gr\u00f6\u00dfe.?", "gr\u00f6\u00dfe.\u00e9"));  // a character, and not a byte
  CHECK_FALSE(matches("*??", "\u00e9"));
  CHECK(matches("*??b*", "x\u00e9\u00e9b"));
  CHECK_FALSE(matches("*??ab", "\U0001F600ab"));
  CHECK(matches("?", "\xff"));
  CHECK(matches(std::string(2000, '*') + "b", std::string(20000, 'a') + "b"));  // no exponential search
}

TEST_CASE("a block with NaN or infinity is counted, and decodes to NaN alone", "[tool]") {
  std::vector<float> x = some_values<float>(4, 64);
  x[70] = NAN;
  x[200] = INFINITY;
  const std::string in = file_of(x, 4, 64), out = scratch() / "nan.safetensors";
  const finished done = quantize_with({in, "-f", "nvfp4", "-o", out});
  CHECK(contains(done.out, "2 blocks hold NaN or infinities\n"));
  const std::string blocks = scratch() / "nan.gguf", array = scratch() / "nan.npy";
  std::ofstream(array, std::ios::binary) << support::npy("<f4", false, "(4, 64)", support::floats(x));
  CHECK(contains(quantize_with({array, "-f", "nvfp4", "-o", blocks}).out,
                 "2 blocks hold NaN or infinities, and ggml reads them as 0\n"));
  CHECK(contains(quantize_with({in, "-f", "nvfp4", "--json", "-o", out}).out,
                 R"("sqnr_db": null, "nonfinite_blocks": 2)"));
  const std::vector<float> got = dequantized<float>(out, 64, 1);
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::isnan(got[i]) == ((i / 16 == 4) || (i / 16 == 12)));
}

TEST_CASE("the SQNR of the report is that of the matrix and what comes back", "[tool]") {
  const std::vector<float> x = some_values<float>(40, 64);
  const std::string in = file_of(x, 40, 64), out = scratch() / "sqnr.safetensors";
  const finished done = quantize_with({in, "-f", "e1m2_f32", "--rht", "64", "--seed", "3", "--json", "-o", out});
  const std::vector<float> got = dequantized<float>(out, 1 << 20, 1);
  double signal = 0, noise = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double lost = static_cast<double>(got[i]) - static_cast<double>(x[i]);
    signal += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    noise += lost * lost;
  }
  const std::size_t at = done.out.find("\"sqnr_db\": ");
  REQUIRE(at != std::string::npos);
  CHECK(std::abs(std::stod(done.out.substr(at + 11)) - 10 * std::log10(signal / noise)) < 1e-9);
  interop::json_cursor json(done.out);
  CHECK(json.skip_value());
  CHECK(json.at_end());
  CHECK(contains(done.out, R"("rht": 64)"));
  CHECK(contains(done.out, R"("seed": 3)"));
}

TEST_CASE("an invalid command line is rejected before a file is opened", "[tool]") {
  const std::string in = good_file(), out = scratch() / "never.safetensors";
  const auto rejected = [&](std::vector<std::string> words) {
    const finished done = quantize_with(std::move(words));
    CHECK(done.usage);
    return done.rejected;
  };
  CHECK(contains(rejected({}), "no FILE is given"));
  CHECK(contains(rejected({in, "-f", "nvfp4"}), "-o OUT is needed"));
  CHECK(contains(rejected({in, "-o", out}), "-f FORMAT is needed; there are nvfp4"));
  CHECK(contains(rejected({in, "-f", "fp5", "-o", out}), "unknown format fp5"));
  CHECK(contains(rejected({in, "-f", "if4", "-o", out, "--choose-grid", "rms"}),
                 "--choose-grid takes mse, mae or max, not rms"));
  CHECK(contains(rejected({in, "-f", "nvfp4", "-o", out, "--choose-grid", "max"}),
                 "nvfp4: choose_grid has no effect: the format has one grid"));
  CHECK(contains(rejected({in, in, "-f", "nvfp4", "-o", out}), "is a second FILE"));
  CHECK(contains(rejected({in, "-f", "nvfp4", "-o", out, "--fast"}), "unknown argument --fast"));
  CHECK(contains(rejected({in, "-f", "nvfp4", "-o", out, "--rht", "24"}),
                 "--rht takes 16, 32, 64, 128 or 256, or 0 for none, not 24"));
  CHECK(contains(rejected({in, "-f", "nvfp4", "-o", out, "--rht", "many"}), "--rht takes"));
  CHECK(contains(rejected({in, "-f", "nvfp4", "-o", out, "--seed", "-1"}),
                 "--seed takes a whole number from 0 to 18446744073709551615, not -1"));
  CHECK(contains(rejected({in, "-f", "nvfp4", "-o", out, "--seed", "--rht"}), "--seed needs a value"));
  CHECK(
      contains(rejected({in, "-f", "nvfp4", "-o", out, "--rounding", "up"}), "--rounding takes nearest or stochastic"));
  CHECK(contains(rejected({in, "-f", "nvfp4", "-o", out, "--layout", "torch"}), "not torch"));
  CHECK(contains(rejected({in, "-f", "nvfp4", "-o", "never.npy"}), "ends in neither .safetensors nor .gguf"));
  CHECK(contains(dequantize_with({in, "-o", "never.bin"}).rejected, "ends in neither .safetensors nor .gguf nor .npy"));
  CHECK(contains(dequantize_with({in, "-o", out, "--to", "f8"}).rejected, "--to takes f32, bf16 or f16, not f8"));
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK_FALSE(std::filesystem::exists(out + ".tmp"));
}

TEST_CASE("FILE is never overwritten, whatever name is given for it", "[tool]") {
  const std::string in = good_file(), before = support::bytes_of(in);
  const std::string link = scratch() / "link.safetensors", odd = scratch() / "odd.safetensors.tmp";
  std::error_code ignored;
  std::filesystem::remove(link, ignored);
  std::filesystem::create_symlink(in, link);
  std::filesystem::copy_file(in, odd, std::filesystem::copy_options::overwrite_existing);
  for (const std::string& out : {in, link, scratch() / "./in.safetensors"})
    CHECK(contains(quantize_with({in, "-f", "nvfp4", "-o", out}).rejected, "would overwrite FILE itself"));
  CHECK(quantize_with({odd, "-f", "nvfp4", "-o", scratch() / "odd.safetensors"}).rejected.empty());
  CHECK(contains(dequantize_with({in, "-o", in}).rejected, "would overwrite FILE itself"));
  CHECK(support::bytes_of(in) == before);
  CHECK(support::bytes_of(odd) == before);
}

TEST_CASE("an output that cannot be written leaves the old file unchanged", "[tool]") {
  const std::string in = good_file(400, 64), out = scratch() / "kept.safetensors";
  CHECK(contains(quantize_with({in, "-f", "nvfp4", "-o", "/nowhere/at/all.safetensors"}).rejected,
                 "cannot be opened for writing"));
  std::ofstream(out) << "precious";
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = old;
  small.rlim_cur = 4096;  // as if the disk were full after 4096 bytes
  setrlimit(RLIMIT_FSIZE, &small);
  const finished full = quantize_with({in, "-f", "nvfp4", "-o", out});
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  CHECK(contains(full.rejected, "could not be written to its end: "s + std::strerror(EFBIG)));
  CHECK(is_untouched(out, "precious"));
  CHECK(quantize_with({in, "-f", "nvfp4", "-o", out}).rejected.empty());
  CHECK(support::bytes_of(out).size() > 4096);
}

TEST_CASE("a --tensor that matches nothing is rejected, and a file without weights", "[tool]") {
  const std::string in = good_file(), out = scratch() / "never.safetensors";
  const finished done = quantize_with({in, "-f", "nvfp4", "--tensor", "lm_head*", "-o", out});
  CHECK(contains(done.rejected, "has no tensor that --tensor lm_head* matches; it has a.norm"));
  CHECK(done.usage);
  CHECK(contains(dequantize_with({in, "-o", out}).rejected, "has no quantized weights"));
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("damaged files are rejected with a message or converted, and never leave an incomplete output", "[tool]") {
  INFO(support::seed_note());
  const std::string in = good_file(8, 64), q = scratch() / "to_damage.safetensors", out = scratch() / "d.safetensors";
  REQUIRE(quantize_with({in, "-f", "nvfp4", "-o", q}).rejected.empty());
  const std::string plain = support::bytes_of(in), quantized = support::bytes_of(q);
  for (std::size_t length = 0; length < plain.size(); length += 97)
    CHECK_FALSE(
        quantize_with({support::file_with(plain.substr(0, length)), "-f", "nvfp4", "-o", out}).rejected.empty());
  for (std::size_t length = 0; length < quantized.size(); length += 37)
    CHECK_FALSE(dequantize_with({support::file_with(quantized.substr(0, length)), "-o", out}).rejected.empty());
  CHECK_FALSE(std::filesystem::exists(out));
  std::mt19937_64 random{support::seed(9)};
  for (int i = 0; i < 300; ++i) {
    quantize_with({support::file_with(support::damaged(plain, random)), "-f", "mxfp4", "-o", out});
    dequantize_with({support::file_with(support::damaged(quantized, random)), "-o", out});
    CHECK_FALSE(std::filesystem::exists(out + ".tmp"));
  }
}

TEST_CASE("the message about an unknown format contains the file's description of it", "[tool]") {
  const std::vector<float> x = some_values<float>(4, 64);
  const auto q = ufp4::quantize<block_format<fp4<E3M0>, bf16, 32>>(matrix_view<const float>(x.data(), 4, 64));
  interop::safetensors_writer writer;
  interop::add_quantized(writer, "w", q);
  const std::string in = scratch() / "odd_format.safetensors", out = scratch() / "never.safetensors";
  writer.write(in);
  const finished done = dequantize_with({in, "-o", out});
  CHECK(contains(done.rejected, "tensor w: unknown format: grid=0,"));
  CHECK(contains(done.rejected, "scale=bf16 block=1x32"));
  CHECK_FALSE(contains(done.rejected, "interop"));
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("a second run in another format does not change weights that are already quantized, in every layout",
          "[tool]") {
  const std::vector<float> x = some_values<float>(40, 512);
  const matrix_view<const float> view(x.data(), 40, 512);
  interop::safetensors_writer writer;
  for (const char* name : {"a", "b"}) writer.add(name, interop::source_of(view));
  const std::string in = scratch() / "mixed.safetensors", first = scratch() / "first.safetensors";
  const std::string second = scratch() / "second.safetensors", plain = scratch() / "mixed_plain.safetensors";
  writer.write(in);
  for (const std::string layout : {"ufp4", "compressed_tensors", "modelopt"}) {
    CAPTURE(layout);
    const std::string format = layout == "ufp4" ? "e1m2_f32" : "nvfp4";
    REQUIRE(quantize_with({in, "-f", format, "--layout", layout, "--tensor", "a", "-o", first}).rejected.empty());
    const finished done = quantize_with({first, "-f", "e2m1_f32", "-o", second});
    REQUIRE(done.rejected.empty());
    CHECK(contains(done.out, "copied: is part of a quantized weight"));
    CHECK(contains(done.out, "; 1 of "));
    REQUIRE(dequantize_with({second, "-o", plain}).rejected.empty());
    interop::safetensors_reader file(plain);
    REQUIRE(file.tensors().size() == 2);
    const std::vector<float> a =
        layout == "ufp4" ? decoded<float>(ufp4::quantize<e1m2_f32>(view)) : decoded<float>(ufp4::quantize<nvfp4>(view));
    CHECK(raw(file, "a") == support::floats(a));
    CHECK(raw(file, "b") == support::floats(decoded<float>(ufp4::quantize<e2m1_f32>(view))));
    CHECK(contains(quantize_with({first, "-f", "nvfp4", "--tensor", "a*", "-o", second}).rejected,
                   "nothing to quantize"));
  }
}

TEST_CASE("a tensor named like the scales of a weight beside it is copied, and a matrix without such a weight is not",
          "[tool]") {
  const std::vector<float> x = some_values<float>(4, 64);
  const auto some = [&](number_type type) { return interop::source_of(type, {4, 64}, x.data()); };
  interop::safetensors_writer writer;
  for (const char* codes : {"fp8.weight", "old.qweight", "ct.weight_packed"}) writer.add(codes, some(number_type::i8));
  const char* scales[] = {"fp8.weight_scale_inv", "fp8.weight_scale", "old.scales", "ct.weight_scale"};
  for (const char* name : scales) writer.add(name, some(number_type::f32));
  for (const char* name : {"own_scale", "upscale", "my.scales"}) writer.add(name, some(number_type::f32));
  const std::string in = scratch() / "others.safetensors", out = scratch() / "others_q.safetensors";
  writer.write(in);
  const finished done = quantize_with({in, "-f", "nvfp4", "-o", out});
  REQUIRE(done.rejected.empty());
  CHECK(contains(done.out, "copied: has the scales of fp8.weight by its name"));
  CHECK(contains(done.out, "copied: has the scales of old.qweight by its name"));
  CHECK(contains(done.out, "3 of 10 tensors converted"));
  interop::safetensors_reader before(in), after(out);
  for (const char* name : scales) CHECK(raw(after, name) == raw(before, name));
}

TEST_CASE("metadata about a weight in the ufp4 layout are replaced when it is quantized again", "[tool]") {
  const std::vector<float> x = some_values<float>(4, 64);
  const matrix_view<const float> view(x.data(), 4, 64);
  interop::safetensors_writer writer;
  writer.add("a", interop::source_of(view));
  writer.set_metadata("ufp4.a", "grid=0 scale=f32 block=1x16 cols=64 hadamard=1 bf16=0 signs=00000000");
  writer.set_metadata("ufp4.b", "of a tensor that is not there");
  const std::string in = scratch() / "stale.safetensors", out = scratch() / "fresh.safetensors";
  writer.write(in);
  for (const std::string layout : {"compressed_tensors", "modelopt", "ufp4"}) {
    CAPTURE(layout);
    REQUIRE(quantize_with({in, "-f", "nvfp4", "--layout", layout, "-o", out}).rejected.empty());
    interop::safetensors_reader file(out);
    CHECK(file.metadata().contains("ufp4.a") == (layout == "ufp4"));
    CHECK_FALSE(file.metadata().contains("ufp4.b"));
    CHECK(interop::read_quantized<nvfp4>(file, "a") == ufp4::quantize<nvfp4>(view));
  }
}

TEST_CASE("metadata strings of a .safetensors file are copied into a .gguf file", "[tool]") {
  const std::vector<float> x = some_values<float>(4, 64);
  interop::safetensors_writer writer;
  writer.add("a", interop::source_of(matrix_view<const float>(x.data(), 4, 64)));
  writer.set_metadata("general.architecture", "llama");
  writer.set_metadata("format", "pt");
  writer.set_metadata("ufp4.a", "stale");
  const std::string in = scratch() / "strings.safetensors", out = scratch() / "strings.gguf";
  writer.write(in);
  REQUIRE(quantize_with({in, "-f", "mxfp4", "-o", out}).rejected.empty());
  CHECK(interop::gguf_reader(out).strings() ==
        std::map<std::string, std::string>{{"format", "pt"}, {"general.architecture", "llama"}});
}

TEST_CASE("what GGUF cannot represent is wrong usage, and nothing is written", "[tool]") {
  const std::vector<float> x = some_values<float>(4, 64);
  const std::string in = scratch() / "unfit.safetensors", out = scratch() / "unfit.gguf";
  const auto rejected = [&](const std::string& name, std::vector<std::uint64_t> shape) {
    interop::safetensors_writer writer;
    writer.add("a", interop::source_of(matrix_view<const float>(x.data(), 4, 64)));
    writer.add(name, interop::source_of(number_type::f32, std::move(shape), x.data()));
    writer.write(in);
    const finished done = quantize_with({in, "-f", "nvfp4", "-o", out});
    CHECK(done.usage);
    CHECK_FALSE(std::filesystem::exists(out));
    CHECK_FALSE(std::filesystem::exists(out + ".tmp"));
    CHECK_FALSE(contains(done.rejected, "gguf_writer"));
    return done.rejected;
  };
  CHECK(contains(rejected(std::string(64, 'n'), {4}), "unfit.gguf cannot be a .gguf file: the name nnn"));
  CHECK(contains(rejected("deep", {1, 1, 1, 2, 2}), "5 dimensions; ggml takes 1 to 4"));
  CHECK(contains(rejected("number", {}), "0 dimensions; ggml takes 1 to 4"));
  CHECK(contains(rejected("a.scale", {1}), "a.scale is already in the file"));
  CHECK(contains(rejected("blocks", {4, 32}), "32 columns, not a multiple of ggml's 64"));
}

TEST_CASE("--json goes to a file beside the table, or to standard output instead of it", "[tool]") {
  const std::string in = good_file(), q = scratch() / "j.safetensors", back = scratch() / "jb.safetensors";
  const std::string json = scratch() / "done.json";
  const finished quantized = quantize_with({in, "-f", "nvfp4", "-o", q, "--json", json});
  CHECK(contains(quantized.out, "tensors converted"));
  CHECK(quantize_with({in, "-f", "nvfp4", "-o", q, "--json", "-"}).out == support::bytes_of(json));
  CHECK(quantize_with({in, "-f", "nvfp4", "-o", q, "--json"}).out == support::bytes_of(json));
  const finished plain = dequantize_with({q, "--json", json, "-o", back});
  CHECK(contains(plain.out, "tensors converted"));
  CHECK(dequantize_with({q, "-o", back, "--json"}).out == support::bytes_of(json));
  CHECK(contains(support::bytes_of(json), R"("type": "U8", "format": "nvfp4", "to": "F32")"));

  const std::string before = support::bytes_of(in), there = support::bytes_of(q), plain_there = support::bytes_of(back);
  const std::string to_file = scratch() / "in.json", to_out = scratch() / "jb.json";
  std::filesystem::create_symlink(in, to_file);
  std::filesystem::create_symlink(back, to_out);
  CHECK(
      contains(quantize_with({in, "-f", "nvfp4", "-o", q, "--json", to_file}).rejected, "would overwrite FILE itself"));
  CHECK(contains(dequantize_with({q, "-o", back, "--json", to_out}).rejected, "would overwrite OUT"));
  for (const std::string& meant : {in, q, scratch() / "new.npy", scratch() / "new.gguf"}) {
    CHECK(contains(quantize_with({"--json", meant, "-f", "nvfp4", "-o", q}).rejected, "put FILE before --json"));
    CHECK(contains(quantize_with({in, "-f", "nvfp4", "-o", q, "--json", meant}).rejected, "put FILE before --json"));
    CHECK(contains(dequantize_with({"--json", meant, "-o", back}).rejected, "put FILE before --json"));
    CHECK(contains(dequantize_with({q, "-o", back, "--json", meant}).rejected, "put FILE before --json"));
  }
  CHECK_FALSE(std::filesystem::exists(scratch() / "new.npy"));
  CHECK_FALSE(std::filesystem::exists(scratch() / "new.gguf"));
  CHECK(contains(
      quantize_with({in, "-f", "nvfp4", "-o", q, "--tensor", "nothing", "--json", scratch() / "none.json"}).rejected,
      "--tensor nothing"));
  CHECK_FALSE(std::filesystem::exists(scratch() / "none.json"));
  CHECK(support::bytes_of(in) == before);
  CHECK(support::bytes_of(q) == there);
  CHECK(support::bytes_of(back) == plain_there);
}

TEST_CASE("JSON has names whole, types as the file spells them, and tells a lossless matrix from one of zeros",
          "[tool]") {
  const std::string name(500, 'n');
  const std::vector<float> ones(16, 1.0f), zeros(16, 0.0f);
  interop::safetensors_writer writer;
  writer.add(name, interop::source_of(matrix_view<const float>(ones.data(), 1, 16)));
  writer.add("zeros", interop::source_of(matrix_view<const float>(zeros.data(), 1, 16)));
  const std::string in = scratch() / "long.safetensors", out = scratch() / "long_q.safetensors";
  writer.write(in);
  const finished done = quantize_with({in, "-f", "e2m1_f32", "-o", out, "--json"});
  CHECK(contains(done.out, "{\"name\": \"" + name + "\", \"shape\": [1, 16], \"type\": \"F32\""));
  CHECK(contains(done.out, R"("sqnr_db": "inf", "nonfinite_blocks": 0)"));
  CHECK(contains(done.out, R"("sqnr_db": null, "nonfinite_blocks": 0)"));
  const std::string npy = scratch() / "j.npy";
  std::ofstream(npy, std::ios::binary) << support::npy("<f4", false, "(1, 16)", support::floats(ones));
  CHECK(
      contains(quantize_with({npy, "-f", "e2m1_f32", "-o", out, "--json"}).out, R"("type": "<f4", "to": "e2m1_f32")"));
}

TEST_CASE("--rht 0 is no transform", "[tool]") {
  const std::string in = good_file(), one = scratch() / "rht0.safetensors", two = scratch() / "none.safetensors";
  REQUIRE(quantize_with({in, "-f", "e1m2_f32", "--rht", "0", "-o", one}).rejected.empty());
  REQUIRE(quantize_with({in, "-f", "e1m2_f32", "-o", two}).rejected.empty());
  CHECK(support::bytes_of(one) == support::bytes_of(two));
}

TEST_CASE("an OUT that is no regular file is rejected, and stays", "[tool]") {
  const std::string in = good_file(), folder = scratch() / "folder.safetensors", pipe = scratch() / "pipe.safetensors";
  const std::string q = scratch() / "regular.safetensors", array = scratch() / "pipe.npy";
  std::filesystem::create_directory(folder);
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE(mkfifo(array.c_str(), 0600) == 0);
  CHECK(contains(quantize_with({in, "-f", "nvfp4", "-o", folder}).rejected, "is a directory"));
  CHECK(contains(quantize_with({in, "-f", "nvfp4", "-o", pipe}).rejected, "is not a regular file"));
  REQUIRE(quantize_with({in, "-f", "nvfp4", "-o", q}).rejected.empty());
  CHECK(contains(dequantize_with({q, "-o", array}).rejected, "is not a regular file"));
  CHECK(std::filesystem::is_fifo(pipe));
  CHECK(std::filesystem::is_fifo(array));
  CHECK_FALSE(std::filesystem::exists(pipe + ".tmp"));
}

namespace {

volatile std::sig_atomic_t interruptions = 0;
struct sigaction listened_before{};  // Catch does

volatile std::sig_atomic_t interrupting = SIGINT;

/// Raises the signal once, as soon as another handler is installed.
void interrupt_listener(int) {
  struct sigaction now{};
  sigaction(interrupting, nullptr, &now);
  if (now.sa_handler == listened_before.sa_handler || interruptions != 0) return;
  interruptions = 1;
  std::raise(interrupting);
}

/// The timer that calls it every millisecond.
class interrupting_timer {
 public:
  explicit interrupting_timer(int signal) {
    interruptions = 0;
    interrupting = signal;
    sigaction(signal, nullptr, &listened_before);
    before_ = std::signal(SIGALRM, interrupt_listener);
    const itimerval often{{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &often, nullptr);
  }
  ~interrupting_timer() {
    const itimerval never{};
    setitimer(ITIMER_REAL, &never, nullptr);
    std::signal(SIGALRM, before_);
  }

 private:
  void (*before_)(int) = nullptr;
};

}  // namespace

TEST_CASE("Ctrl-C and a closed terminal leave OUT unchanged and no unfinished file, with status 130", "[tool]") {
  const std::string in = good_file(3000, 2048), out = scratch() / "stopped.safetensors";
  std::ofstream(out) << "precious";
  const char* words[] = {"ufp4", in.c_str(), "-f", "nvfp4", "--rht", "16", "--threads", "1", "-o", out.c_str()};
  common::arguments rest(10, words, "-");
  std::ostringstream shown, err;
  int status = 0;
  {
    const interrupting_timer timer(GENERATE(SIGINT, SIGTERM, SIGHUP));
    status = tool::quantize(rest, shown, err);
  }
  CHECK(interruptions == 1);
  CHECK(status == 130);
  CHECK(contains(err.str(), "stopped.safetensors is unchanged"));
  CHECK(shown.str().empty());
  CHECK(is_untouched(out, "precious"));
}

TEST_CASE("a signal that is ignored stays ignored while a conversion listens, and after it", "[tool]") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const auto before = std::signal(signal, SIG_IGN);
    {
      const common::interrupt stop;
      std::raise(signal);
      CHECK_FALSE(stop.seen());
    }
    CHECK(std::signal(signal, before) == SIG_IGN);
  }
}

TEST_CASE("quantizing calls the progress function for every tensor before it writes anything", "[tool]") {
  for (const char* name : {"asks.safetensors", "asks.gguf"}) {
    const std::string in = file_of(some_values<float>(4, 64), 4, 64), out = scratch() / name;
    tool::tensor_input input(in);
    tool::quantize_request request;
    request.output = out;
    request.spec = spec_of<nvfp4>;
    request.skipped = {"*"};
    std::vector<bool> there;
    request.progress = [&](std::size_t, std::size_t, const std::string&, double) {
      there.push_back(std::filesystem::exists(out + ".tmp"));
      if (there.size() == 2) throw std::runtime_error("enough");
    };
    CHECK_THROWS_AS(tool::quantize_file(input, request), std::runtime_error);
    CHECK(there == std::vector<bool>{false, false});
  }
}

TEST_CASE("a --skip that matches nothing and a file without matrices are notes: a loop over a model's files goes on",
          "[tool]") {
  const std::string in = good_file(), out = scratch() / "shard.safetensors";
  const finished skipped = quantize_with({in, "-f", "nvfp4", "--skip", "lm_head*", "-o", out});
  CHECK(contains(skipped.notes, "ufp4: note: "));
  CHECK(contains(skipped.notes, "has no tensor that --skip lm_head* matches; it has a.norm"));
  CHECK(contains(skipped.out, "1 of 3 tensors converted"));
  CHECK(quantize_with({in, "-f", "nvfp4", "--skip", "a.*", "-o", out}).notes.empty());

  const finished copied = quantize_with({in, "-f", "nvfp4", "--skip", "layers.*", "-o", out});
  CHECK(copied.rejected.empty());
  CHECK(contains(copied.notes,
                 "in.safetensors has nothing to quantize: a.norm is copied (has 1 dimension), and so are 2 "
                 "others\n"));
  interop::safetensors_reader before(in), after(out);
  for (const char* name : {"a.norm", weight, "z.ids"}) CHECK(raw(before, name) == raw(after, name));

  const std::string kept = support::bytes_of(out);
  const finished named = quantize_with({in, "-f", "nvfp4", "--tensor", "z*", "-o", out});
  CHECK(contains(named.rejected,
                 "has nothing to quantize of what --tensor chooses: z.ids is copied (is not F32, F16 or BF16)"));
  const std::string npy = scratch() / "vector.npy";
  std::ofstream(npy, std::ios::binary) << support::npy("<f4", false, "(2,)", support::floats({1, 2}));
  CHECK(contains(quantize_with({npy, "-f", "nvfp4", "-o", out}).rejected, "vector is copied (has 1 dimension)"));
  CHECK(is_untouched(out, kept));
}

TEST_CASE("blocks that underflow because of one huge value are counted: the SQNR does not show them", "[tool]") {
  std::vector<float> x(256 * 16, 1.0f);
  x[0] = 1e30f;
  const std::string in = file_of(x, 16, 256), out = scratch() / "huge.safetensors";
  CHECK(
      contains(quantize_with({in, "-f", "nvfp4", "-o", out}).out, "F32 to nvfp4; 255 of 256 blocks rounded to zero\n"));
  CHECK(contains(quantize_with({in, "-f", "nvfp4", "-o", out, "--json"}).out,
                 R"("nonfinite_blocks": 0, "underflowed_blocks": 255, "blocks": 256})"));
  CHECK_FALSE(contains(quantize_with({good_file(), "-f", "nvfp4", "-o", out}).out, "rounded to zero"));
}

TEST_CASE("a metadata string of the ufp4 layout without its weight is ignored and not copied", "[tool]") {
  const std::vector<float> x = some_values<float>(4, 64);
  const matrix_view<const float> view(x.data(), 4, 64);
  const auto q = ufp4::quantize<nvfp4>(view);
  const std::string text = interop::format_text(spec_of<nvfp4>) + interop::extent_text(64, {});
  interop::safetensors_writer writer;
  interop::add_quantized(writer, "w", q, tensor_layout::ufp4);
  writer.set_metadata("ufp4.absent", text);
  const std::string in = scratch() / "leftover.safetensors", out = scratch() / "leftover_plain.safetensors";
  writer.write(in);
  REQUIRE(dequantize_with({in, "-o", out}).rejected.empty());
  interop::safetensors_reader file(out);
  CHECK(raw(file, "w") == support::floats(decoded<float>(q)));
  CHECK(file.metadata().empty());
}

TEST_CASE("torchao's description of weights that are plain now is dropped, and kept of those that are not", "[tool]") {
  const std::vector<float> x = some_values<float>(8, 32);
  const auto q = ufp4::quantize<mxfp4>(matrix_view<const float>(x.data(), 8, 32));
  interop::safetensors_writer writer;
  for (const std::string name : {"l.a", "l.b"}) {
    const interop::quantized_names parts = interop::torchao_names_of(name);
    writer.add(parts.codes, interop::source_of(number_type::u8, {8, 16}, q.codes().data()));
    writer.add(parts.scales, interop::source_of(number_type::f8_e8m0, {8, 1}, q.scales().data()));
    writer.set_metadata(name, R"({"_type": "MXTensor", "_data": {}})");
  }
  writer.add("l.norm", interop::source_of(1.0f, {1}));
  writer.set_metadata("l.norm", R"({"_type": "Tensor"})");
  writer.set_metadata("tensor_names", R"(["l.a", "l.b", "l.norm"])");
  writer.set_metadata("format", "pt");
  const std::string in = scratch() / "ao_names.safetensors", out = scratch() / "ao_names_plain.safetensors";
  writer.write(in);
  REQUIRE(dequantize_with({in, "-o", out}).rejected.empty());
  CHECK(interop::safetensors_reader(out).metadata() == std::map<std::string, std::string>{{"format", "pt"}});
  REQUIRE(dequantize_with({in, "--tensor", "l.b", "-o", out}).rejected.empty());
  interop::safetensors_reader half(out);
  CHECK(half.metadata().at("tensor_names") == R"(["l.a", "l.b", "l.norm"])");
  CHECK(half.metadata().at("l.a") == R"({"_type": "MXTensor", "_data": {}})");
  CHECK(half.metadata().at("l.b") == R"({"_type": "Tensor"})");
  CHECK(half.metadata().at("l.norm") == R"({"_type": "Tensor"})");
}

TEST_CASE("torchao's NVFP4 without a tensor scale has the factor 1", "[tool]") {
  const std::vector<float> x = some_values<float>(8, 32);
  auto q = ufp4::quantize<nvfp4>(matrix_view<const float>(x.data(), 8, 32));
  interop::safetensors_writer writer;
  writer.add("l._w_qdata", interop::source_of(number_type::u8, {8, 16}, q.codes().data()));
  writer.add("l._w_scale", interop::source_of(number_type::f8_e4m3, {8, 2}, q.scales().data()));
  const std::string in = scratch() / "ao_one.safetensors", out = scratch() / "ao_one_plain.safetensors";
  writer.write(in);
  REQUIRE(dequantize_with({in, "-o", out}).rejected.empty());
  q.set_tensor_scale(1);
  interop::safetensors_reader file(out);
  CHECK(raw(file, "l.w") == support::floats(decoded<float>(q)));
}

TEST_CASE("--skip leaves a weight quantized, and one that matches nothing is a note", "[tool]") {
  const std::vector<float> x = some_values<float>(4, 32);
  const std::string q = two_weights(x, "int4_f32");
  const std::string out = scratch() / "half.safetensors";
  const finished done = dequantize_with({q, "--skip", "a", "--skip", "c", "-o", out});
  CHECK(contains(done.notes, "has no quantized weight that --skip c matches; the first of 2 is a"));
  interop::safetensors_reader half(out);
  CHECK(half.find("b") != nullptr);
  CHECK(interop::read_quantized<int4_f32>(half, "a") ==
        ufp4::quantize<int4_f32>(matrix_view<const float>(x.data(), 4, 32)));
  CHECK(contains(dequantize_with({q, "--skip", "*", "-o", out}).rejected, "no quantized weight that --skip leaves"));
}

namespace {

/// A GGUF file with a tensor of ggml's type `id` of 256 elements called "blocks", a weight "up" and experts in MXFP4.
std::string gguf_with(std::uint32_t id, const std::string& blocks) {
  const std::vector<float> x = some_values<float>(6, 64);
  const auto mx = ufp4::quantize<mxfp4>(matrix_view<const float>(x.data(), 6, 64));
  interop::gguf_writer writer;
  writer.set_string("general.architecture", "llama");
  interop::stored_tensor like;
  like.type_name = "Q6_K";
  like.shape = {256};
  writer.add_copy("blocks", like, [&](const interop::byte_sink& sink) { sink(blocks.data(), blocks.size()); });
  interop::add_quantized(writer, "up", mx);
  writer.add("experts", {number_type::mxfp4, {3, 2, 64}, [&](const interop::byte_sink& sink) {
                           std::vector<std::uint8_t> row(34);
                           for (std::size_t i = 0; i < 6; ++i) {
                             interop::to_ggml_row(mx, i, row.data());
                             sink(row.data(), row.size());
                           }
                         }});
  writer.add("matrix", interop::source_of(matrix_view<const float>(x.data(), 6, 64)));
  const std::string path = scratch() / "odd.gguf";
  writer.write(path);
  std::string bytes = support::bytes_of(path);
  bytes[bytes.find("blocks") + 6 + 4 + 8] = static_cast<char>(id);  // behind the number of dimensions and the extent
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace

TEST_CASE("ggml's other blocks are copied from .gguf to .gguf, and experts in MXFP4 are dequantized", "[tool]") {
  const std::string blocks = std::string(210, '\x5a'), in = gguf_with(14, blocks);
  const std::string out = scratch() / "odd_out.gguf", plain = scratch() / "odd_plain.safetensors";
  const std::vector<float> x = some_values<float>(6, 64);
  const matrix_view<const float> view(x.data(), 6, 64);
  const std::vector<float> want = decoded<float>(ufp4::quantize<mxfp4>(view));

  REQUIRE(quantize_with({in, "-f", "nvfp4", "-o", out}).rejected.empty());
  interop::gguf_reader quantized(out);
  CHECK(quantized.at("blocks").type_name == "Q6_K");
  CHECK(raw(quantized, "blocks") == blocks);
  CHECK(interop::read_quantized<nvfp4>(quantized, "matrix") == ufp4::quantize<nvfp4>(view));

  REQUIRE(dequantize_with({in, "-o", out}).rejected.empty());
  interop::gguf_reader file(out);
  CHECK(raw(file, "blocks") == blocks);
  CHECK(file.at("experts").shape == std::vector<std::uint64_t>{3, 2, 64});
  CHECK(file.at("experts").type == number_type::f32);
  const std::string bytes = raw(file, "experts");
  REQUIRE(bytes.size() == want.size() * 4);
  std::vector<float> got(want.size());
  std::memcpy(got.data(), bytes.data(), bytes.size());
  for (std::size_t i = 0; i < want.size(); ++i) REQUIRE(got[i] == want[i]);  // ggml has one zero
  CHECK(raw(file, "up") == bytes);
  CHECK(file.strings().at("general.architecture") == "llama");

  CHECK(contains(dequantize_with({in, "-o", plain}).rejected,
                 "tensor blocks is Q6_K in ggml's blocks, which only .gguf files can have: use -o OUT.gguf"));
  CHECK_FALSE(std::filesystem::exists(plain));
  CHECK(dequantize_with({in, "--tensor", "up", "-o", scratch() / "odd.npy"}).rejected.empty());
}

TEST_CASE("a type unknown here prevents copies, not reading other tensors", "[tool]") {
  const std::string in = gguf_with(99, std::string(210, 'x')), out = scratch() / "new.gguf";
  for (const finished& done : {quantize_with({in, "-f", "nvfp4", "-o", out}), dequantize_with({in, "-o", out})})
    CHECK(contains(done.rejected,
                   "tensor blocks is number 99 of ggml, a type of unknown size that can be neither read nor copied"));
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK(dequantize_with({in, "--tensor", "experts", "-o", scratch() / "new.npy"}).rejected.empty());
}
