// ufp4 - tests: `ufp4 inspect` and `ufp4 formats`: what they list, measure and print.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../examples/ufp4/formats.hpp"
#include "../../examples/ufp4/inspect.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/report_check.hpp"
#include "support/seed.hpp"

namespace {

using ufp4::interop::number_type;
using command_function = int (*)(common::arguments&, std::ostream&, std::ostream&);

std::string run(command_function command, std::vector<std::string> words) {
  std::vector<const char*> values{"command"};
  for (const std::string& word : words) values.push_back(word.c_str());
  common::arguments rest(static_cast<int>(values.size()), values.data(), "-");
  std::ostringstream out, err;
  const int status = command(rest, out, err);  // may throw
  REQUIRE(status == 0);
  CHECK(err.str().empty());
  return out.str();
}
std::string inspected(std::vector<std::string> words) { return run(tool::inspect, std::move(words)); }

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// A Gaussian with an outlier in every 37th place.
std::vector<float> some_values(std::size_t n) {
  std::mt19937_64 random{support::seed(1)};
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = normal(random) * (i % 37 == 0 ? 20.0f : 1.0f);
  return values;
}

std::string npy_file(const std::string& name, const std::vector<float>& values, const std::string& shape,
                     bool fortran = false) {
  const std::string path = support::scratch() / name;
  std::ofstream(path, std::ios::binary) << support::npy("<f4", fortran, shape, support::floats(values));
  return path;
}

tool::measured_matrix measured(const std::string& path, const tool::measure_plan& plan) {
  tool::tensor_input input(path);
  const auto entries = tool::entries_of(input, false);
  REQUIRE(entries.size() == 1);
  REQUIRE(entries[0].not_measured.empty());
  return tool::measure_matrix(input.file(), entries[0], plan, [](double part) {
    CHECK(part >= 0);
    CHECK(part < 1);
  });
}

tool::measure_plan every_format() {
  tool::measure_plan plan;
  plan.formats = tool::formats_in_list("all");
  return plan;
}

/// Calls visit(row) for every preset of the library, in the order of the tool's list.
template <class Visit>
void for_each_format(const Visit& visit) {
  ufp4::detail::for_every_preset(visit);
}

/// Every outcome against analysis::measure on the matrix in memory; the plan has the block's own transform length.
void check_outcomes(const tool::measured_matrix& m, const ufp4::matrix_view<const float>& x, std::uint64_t seed) {
  std::size_t i = 0;
  for_each_format([&](auto preset) {
    using Format = typename decltype(preset)::format;
    INFO(preset.name);
    REQUIRE(i + 1 < m.outcomes.size());
    CHECK(m.outcomes[i].hadamard == 1);
    support::check_report(m.outcomes[i++].report, ufp4::analysis::measure<Format>(x));
    CHECK(m.outcomes[i].hadamard == Format::block_size);
    support::check_report(m.outcomes[i++].report,
                          ufp4::analysis::measure<Format>(x, ufp4::random_hadamard<int{Format::block_size}>{seed}));
  });
  CHECK(i == m.outcomes.size());
}

}  // namespace

TEST_CASE("a matrix read in chunks of rows has the measurements of the whole, bit for bit", "[inspect]") {
  constexpr std::size_t rows = 23, cols = 50;  // no whole number of blocks
  const auto values = some_values(rows * cols);
  const ufp4::matrix_view<const float> x{values.data(), rows, cols};
  const std::string path = npy_file("whole.npy", values, "(23, 50)");
  std::vector<float> columns;
  for (std::size_t k = 0; k < cols; ++k)
    for (std::size_t i = 0; i < rows; ++i) columns.push_back(x(i, k));
  const std::string fortran = npy_file("fortran.npy", columns, "(23, 50)", true);
  for (const std::size_t chunk : {std::size_t{1}, std::size_t{150}, std::size_t{500}, std::size_t{1} << 24}) {
    INFO("chunks of " << chunk);
    tool::measure_plan plan = every_format();
    plan.chunk_elements = chunk;
    plan.seed = 5;
    plan.threads = chunk == 150 ? 2 : 1;
    check_outcomes(measured(path, plan), x, 5);
    check_outcomes(measured(fortran, plan), x, 5);
  }
}

TEST_CASE("bf16, fp16 and E4M3 files and more than two dimensions are measured as the floats that they hold",
          "[inspect]") {
  // 1 to 8 in each type, in a row of eight: two "matrices" of one row.
  const std::vector<float> floats{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8};
  const std::string bf16 = support::words({0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0x40C0, 0x40E0, 0x4100});
  const std::string fp16 = support::words({0x3C00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800});
  const std::string e4m3 = "\x38\x40\x44\x48\x4A\x4C\x4E\x50";
  const auto file = [](const std::string& type, const std::string& bytes) {
    return support::file_with(support::safetensors("{\"x\":{\"dtype\":\"" + type +
                                                       "\",\"shape\":[2,1,8],\"data_offsets\":[0," +
                                                       std::to_string(2 * bytes.size()) + "]}}",
                                                   bytes + bytes));
  };
  for (const std::string& path : {file("BF16", bf16), file("F16", fp16), file("F8_E4M3", e4m3)}) {
    const auto m = measured(path, every_format());
    CHECK(m.rows == 2);
    CHECK(m.cols == 8);
    check_outcomes(m, {floats.data(), 2, 8}, 0);
  }
}

TEST_CASE("the measurements of a block, computed by hand", "[inspect]") {
  // int4_f32: scale 7/7 = 1; 7 and -3 are exact, 0.5 goes to the even 0 and 1.75 to 2.
  std::vector<float> x(16);
  x[0] = 7, x[1] = -3, x[2] = 0.5f, x[3] = 1.75f;
  tool::measure_plan plan;
  plan.formats = {"int4_f32"};
  plan.hadamard = false;
  const auto m = measured(npy_file("hand.npy", x, "(1, 16)"), plan);
  REQUIRE(m.outcomes.size() == 1);
  const double signal = 49 + 9 + 0.25 + 3.0625;
  CHECK(m.outcomes[0].report.sqnr_db == Approx(10 * std::log10(signal / (0.25 + 0.0625))).epsilon(1e-12));
  CHECK(m.outcomes[0].report.attenuation == Approx((49 + 9 + 3.5) / signal).epsilon(1e-12));
  CHECK(m.values.amax == 7);
  CHECK(m.values.rms() == Approx(std::sqrt(signal / 16)).epsilon(1e-12));
  CHECK(m.values.crest() == Approx(7 / std::sqrt(signal / 16)).epsilon(1e-12));
  const double fourth = 7.0 * 7 * 7 * 7 + 81 + 0.0625 + 1.75 * 1.75 * 1.75 * 1.75;
  CHECK(m.values.kurtosis() == Approx(fourth / 16 / (signal / 16 * signal / 16)).epsilon(1e-12));
  CHECK(m.values.zeros == 12);

  const std::string text = inspected({npy_file("hand.npy", x, "(1, 16)"), "--format", "int4_f32", "--rht", "0"});
  CHECK(count(text, "int4_f32  6.00     22.93*") == 1);
  CHECK(count(text, "hand  <f4 1 x 16\n64 B; amax 7, rms 1.958, crest 3.6, kurtosis 10.6, zeros 75.0 %\n") == 1);
  CHECK(count(text, "6 bits: int4_f32 (22.93 dB).") == 1);
}

TEST_CASE("--rows takes evenly spaced rows, and the output has their number", "[inspect]") {
  const auto values = some_values(7 * 32);
  std::vector<float> chosen;
  for (const std::size_t row : {0u, 1u, 2u, 4u, 5u})  // floor(7 i / 5)
    chosen.insert(chosen.end(), values.begin() + static_cast<std::ptrdiff_t>(row * 32),
                  values.begin() + static_cast<std::ptrdiff_t>(row * 32 + 32));
  const std::string path = npy_file("rows.npy", values, "(7, 32)");
  tool::measure_plan plan = every_format();
  plan.rows = 5;
  const auto m = measured(path, plan);
  CHECK(m.rows == 5);
  CHECK(m.of_rows == 7);
  check_outcomes(m, {chosen.data(), 5, 32}, 0);
  CHECK(count(inspected({path, "--rows", "5"}), "5 of 7 rows") == 1);
  CHECK(count(inspected({path, "--rows", "7"}), " of 7 rows") == 0);
}

TEST_CASE("--rht gives every format one length, the same as the library's transform", "[inspect]") {
  const auto values = some_values(4 * 64);
  const std::string path = npy_file("rht.npy", values, "(4, 64)");
  const ufp4::matrix_view<const float> x{values.data(), 4, 64};
  tool::measure_plan plan;
  plan.formats = {"mxfp4", "nvfp4"};
  plan.hadamard_length = 64;
  plan.seed = 9;
  const auto m = measured(path, plan);
  REQUIRE(m.outcomes.size() == 4);
  support::check_report(m.outcomes[1].report, ufp4::analysis::measure<ufp4::mxfp4>(x, ufp4::random_hadamard<64>{9}));
  support::check_report(m.outcomes[3].report, ufp4::analysis::measure<ufp4::nvfp4>(x, ufp4::random_hadamard<64>{9}));
  CHECK(m.outcomes[3].hadamard == 64);
}

TEST_CASE("NaN and infinities are counted, and the SQNR is no number", "[inspect]") {
  std::vector<float> x(32 * 32, 2.0f);
  x[3] = std::numeric_limits<float>::quiet_NaN();
  x[700] = -std::numeric_limits<float>::infinity();
  const std::string path = npy_file("bad.npy", x, "(32, 32)");
  const auto m = measured(path, every_format());
  CHECK(m.values.nonfinite == 2);
  CHECK(m.values.amax == 2);
  CHECK(m.values.rms() == 2);
  for (const auto& o : m.outcomes) {
    CHECK(std::isnan(o.report.sqnr_db));
    CHECK(o.report.nonfinite_blocks == 2);
  }
  const std::string text = inspected({path}), json = inspected({path, "--json"});
  CHECK(count(text, "2 NaNs or infinities") == 1);
  CHECK(count(text, "No format has an SQNR.") == 1);
  CHECK(count(json, "\"sqnr_db\": null") == 12);
  CHECK(count(json, "nan") + count(json, "inf") == 0);
  CHECK(count(json, "\"highest_sqnr\": []") == 1);
}

TEST_CASE("ends of the range: zeros, the highest floats, subnormals, one element", "[inspect]") {
  const float highest = (std::numeric_limits<float>::max)(), least = std::numeric_limits<float>::denorm_min();
  const std::vector<float> zeros(64), big(64, highest), small(64, least), one{3.0f};
  for (const auto& [values, shape] : {std::pair{zeros, "(2, 32)"}, std::pair{big, "(2, 32)"},
                                      std::pair{small, "(2, 32)"}, std::pair{one, "(1, 1)"}}) {
    const std::string path = npy_file("ends.npy", values, shape);
    const auto m = measured(path, every_format());
    const auto view_rows = static_cast<std::size_t>(m.rows), view_cols = static_cast<std::size_t>(m.cols);
    check_outcomes(m, {values.data(), view_rows, view_cols}, 0);
    const std::string text = inspected({path, "--format", "all"});
    CHECK(count(text, "nan") == 0);
  }
}

TEST_CASE("the best of a size is the highest SQNR, the first among equals", "[inspect]") {
  const auto outcome = [](const char* name, std::uint32_t n, double sqnr) {
    tool::format_outcome o;
    o.format = tool::format_named(name);
    o.hadamard = n;
    o.report.sqnr_db = sqnr;
    return o;
  };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  tool::measured_matrix m;
  m.outcomes = {outcome("nvfp4", 1, 20), outcome("nvfp4", 16, 20),   outcome("nv_e1m2", 1, nan),
                outcome("mxfp4", 1, 30), outcome("mx_e1m2", 1, inf), outcome("e2m1_f32", 1, nan)};
  CHECK(tool::detail::best_of_size(m, 4.5) == &m.outcomes[0]);
  CHECK(tool::detail::best_of_size(m, 4.25) == &m.outcomes[4]);
  CHECK(tool::detail::best_of_size(m, 6) == nullptr);
}

namespace {

/// A file with a weight in every layout and tensors of other kinds.
std::string quantized_file() {
  using namespace ufp4;
  static const auto values = some_values(32 * 64);
  const matrix_view<const float> x{values.data(), 32, 64};
  static const auto nv = quantize<nvfp4>(x);
  static const auto mx = quantize<mxfp4>(x);
  static const auto transformed =
      quantize<int4_f32>(matrix_view<const float>{values.data(), 40, 50}, random_hadamard<32>{1});
  static const auto squares = quantize<block_format<fp4<E1M2>, e4m3, square(16), float>>(x);
  static const auto foreign = quantize<block_format<fp4<E3M0>, bf16, 64>>(x);
  interop::safetensors_writer out;
  add_quantized(out, "a.compressed", nv, interop::tensor_layout::compressed_tensors);
  add_quantized(out, "b.modelopt", nv, interop::tensor_layout::modelopt);
  add_quantized(out, "c.mx", mx, interop::tensor_layout::modelopt);
  add_quantized(out, "d.transformed", transformed, interop::tensor_layout::ufp4);
  add_quantized(out, "e.squares", squares, interop::tensor_layout::ufp4);
  add_quantized(out, "f.foreign", foreign, interop::tensor_layout::ufp4);
  const std::vector<std::uint64_t> bytes{4, 4};
  out.add("g_packed", interop::source_of(number_type::u8, bytes, values.data()));  // scales of another shape
  out.add("g_scale", interop::source_of(number_type::f8_e4m3, bytes, values.data()));
  out.add("h.plain", interop::source_of(x));
  out.add("i.vector", interop::source_of(number_type::f32, {64}, values.data()));
  out.add("j.empty", interop::source_of(number_type::f32, {0, 64}, values.data()));
  out.add("k.ids", interop::source_of(number_type::i64, {3}, values.data()));
  const std::string path = support::scratch() / "layouts.safetensors";
  out.write(path);
  return path;
}

}  // namespace

TEST_CASE("quantized weights are found in every layout, with their tensors joined", "[inspect]") {
  const std::string text = inspected({quantized_file(), "--list"});
  CHECK(count(text, "\na.compressed  nvfp4 32 x 64, 1.1 KiB, compressed_tensors layout\n") == 1);  // 1024 + 128 + 4
  CHECK(count(text, "\nb.modelopt  nvfp4 32 x 64, 1.1 KiB, modelopt layout\n") == 1);
  CHECK(count(text, "\nc.mx  mxfp4 32 x 64, 1.1 KiB, modelopt layout\n") == 1);
  CHECK(count(text, "\nd.transformed  int4_f32 40 x 50, ") == 1);
  CHECK(count(text, "ufp4 layout, after a Hadamard transform of 32\n") == 1);
  CHECK(count(text, "\ne.squares  nv_e1m2 in 16 x 16 32 x 64, ") == 1);
  CHECK(count(text, "\nf.foreign_packed  U8 32 x 32, ") == 1);  // not a preset: listed as separate tensors
  CHECK(count(text, "\ng_packed  U8 4 x 4, 16 B\n") == 1);
  CHECK(count(text, "\ng_scale  F8_E4M3 4 x 4, 16 B\n") == 1);
  CHECK(count(text, "a.compressed_scale") + count(text, "b.modelopt_scale_2") == 0);
  CHECK(count(text, "not measured") == 0);
}

TEST_CASE("what cannot be measured is listed with the reason, and the rest is measured", "[inspect]") {
  const std::string path = quantized_file();
  const std::string text = inspected({path});
  CHECK(count(text, "\ni.vector  F32 64, not measured: a vector\n") == 1);
  CHECK(count(text, "\nj.empty  F32 0 x 64, not measured: empty\n") == 1);
  CHECK(count(text, "\nk.ids  I64 3, not measured: integers\n") == 1);
  CHECK(count(text, "\nh.plain  F32 32 x 64\n") == 1);
  // By its name a vector is a matrix of one row.
  CHECK(count(inspected({path, "--tensor", "i.*"}),
              "i.vector  F32 64, quantize copies it: has 1 dimension\n256 B; amax ") == 1);
  CHECK(count(inspected({path, "--tensor", "?.plain", "--tensor", "k*"}), "2 tensors") == 1);
  const std::string json = inspected({path, "--json"});
  CHECK(count(json, "\"quantized\": {\"format\": \"int4_f32\", \"layout\": \"ufp4\", \"rht\": 32}") == 1);
  CHECK(count(json, "\"not_measured\": \"a vector\"") == 1);
  CHECK(count(json, "{") == count(json, "}"));
}

TEST_CASE("ggml's blocks are listed as quantized weights with their format", "[inspect]") {
  using namespace ufp4;
  const auto values = some_values(8 * 128);
  const matrix_view<const float> x{values.data(), 8, 128};
  const auto nv = quantize<nvfp4>(x);
  const auto mx = quantize<mxfp4>(x);
  const auto one_level = quantize<interop::ggml_nvfp4>(x);
  interop::gguf_writer out;
  add_quantized(out, "a.weight", nv);
  add_quantized(out, "b.weight", mx);
  add_quantized(out, "c.weight", one_level);
  out.add("d.weight", interop::source_of(x));
  const std::string path = support::scratch() / "blocks.gguf";
  out.write(path);
  const std::string text = inspected({path});
  CHECK(count(text, ": gguf, 4 tensors, ") == 1);
  CHECK(count(text, "\na.weight  nvfp4 8 x 128, ggml layout\n") == 1);
  CHECK(count(text, "\nb.weight  mxfp4 8 x 128, ggml layout\n") == 1);
  CHECK(count(text, "\nc.weight  nvfp4 without a tensor scale 8 x 128, ggml layout\n") == 1);
  CHECK(count(text, "\nd.weight  F32 8 x 128\n") == 1);
}

TEST_CASE("names from a file cannot send escape sequences to a terminal or make JSON invalid", "[inspect]") {
  // GGUF names are bytes: an escape sequence, a line break, and a byte that is no UTF-8.
  ufp4::interop::gguf_writer out;
  const std::vector<float> values = some_values(32);
  for (const char* name : {"a\x1b[31m", "b\nc", "d\xFF"})
    out.add(name, ufp4::interop::source_of(number_type::f32, {1, 32}, values.data()));
  const std::string path = support::scratch() / "names.gguf";
  out.write(path);
  for (const std::string& text : {inspected({path}), inspected({path, "--list"}), inspected({path, "--detail"})}) {
    CHECK(std::none_of(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == '\xFF'; }));
    CHECK(count(text, "a?[31m") == 1);
    CHECK(count(text, "b?c") == 1);
  }
  const std::string json = inspected({path, "--json"});
  CHECK(ufp4::interop::is_utf8(json));
  CHECK(count(json, "\"name\": \"a\\u001b[31m\"") == 1);
  CHECK(count(json, "\"name\": \"b\\u000ac\"") == 1);
}

TEST_CASE("the tables fit 80 columns", "[inspect]") {
  auto values = some_values(64 * 64);
  values[7] = 3.0e38f;
  ufp4::interop::safetensors_writer out;
  const auto rows = ufp4::matrix_view<const float>{values.data(), 64, 64};
  out.add("model.layers.0.down_proj.weight", ufp4::interop::source_of(rows));
  out.add("model.layers.0.up_proj.weight", ufp4::interop::source_of(rows));
  const std::string path = support::scratch() / "m.safetensors";
  out.write(path);
  for (const std::string& text :
       {run(tool::formats, {}), inspected({path, "--format", "all"}), inspected({path, "--detail", "--format", "all"}),
        inspected({path, "--rht", "256", "--detail"}), inspected({path, "--rht", "0", "--detail"}),
        inspected({path, "--list"})}) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(path)) continue;  // as long as the place is
      INFO(line);
      CHECK(line.size() <= 80);
      CHECK((line.empty() || line.back() != ' '));
    }
  }
}

TEST_CASE("invalid command lines are usage errors, bad files are file errors", "[inspect]") {
  const auto fails = [](std::vector<std::string> words) {
    try {
      run(tool::inspect, std::move(words));
    } catch (const common::usage_error& e) {
      return "usage: " + std::string(e.what());
    } catch (const ufp4::interop::file_error& e) {
      return "file: " + std::string(e.what());
    }
    return std::string("nothing");
  };
  const std::string good = npy_file("good.npy", some_values(32), "(1, 32)");
  CHECK(fails({}) == "usage: no FILE is given");
  CHECK(fails({""}) == "usage: FILE is an empty word");
  CHECK(fails({good, good}) == "usage: " + good + " is a second FILE; give one");
  CHECK(fails({good, "--nonsense"}) == "usage: unknown argument --nonsense");
  CHECK(fails({good, "--rht", "24"}) == "usage: --rht takes 16, 32, 64, 128 or 256, or 0 for none, not 24");
  CHECK(fails({good, "--rht", "512"}) == "usage: --rht takes 16, 32, 64, 128 or 256, or 0 for none, not 512");
  CHECK(fails({good, "--format", "nvfp5"}) == "usage: unknown format nvfp5; there are " + ufp4::detail::preset_names());
  CHECK(fails({good, "--format", "nvfp4,"}) == "usage: --format nvfp4, has an empty name");
  CHECK(fails({good, "--format", ",nvfp4"}) == "usage: --format ,nvfp4 has an empty name");
  CHECK(fails({good, "--format", "all,nvfp5"}).starts_with("usage: unknown format nvfp5; "));
  CHECK(fails({good, "--detail="}) == "usage: --detail takes no value, and got an empty one");
  CHECK(fails({good, "--list=yes"}) == "usage: --list takes no value, and got yes");
  CHECK(fails({"--detail=" + good}) == "usage: --detail takes no value, and got " + good);
  CHECK(fails({good, "--json="}) == "usage: --json needs a value");
  CHECK(fails({good, "--rows=-1"}).starts_with("usage: --rows takes a whole number from 0"));
  CHECK(fails({good, "--format", "nvfp4,nvfp4"}) == "usage: --format names nvfp4 twice");
  CHECK(fails({good, "--rows", "-1"}).starts_with("usage: "));
  CHECK(fails({good, "--threads", "9999"}).starts_with("usage: "));
  CHECK(fails({good, "--tensor", "absent"}) == "file: " + good + ": has no tensor whose name is absent; it has good");
  CHECK(fails({"/nowhere/file.npy"}).starts_with("file: /nowhere/file.npy: cannot be opened"));
  CHECK(fails({support::file_with("garbage that is no tensor file")}).starts_with("file: "));
  CHECK(fails({"/"}) == "file: /: has no .safetensors files");
}

TEST_CASE("the name all selects all formats wherever it is in the list", "[inspect]") {
  std::vector<std::string> all;
  for (const tool::format_facts& f : tool::all_formats()) all.emplace_back(f.name);
  for (const char* list : {"all", "nvfp4,all", "all,nvfp4", "mxfp4,all,int4_f32", "byte,base,extended"}) {
    INFO(list);
    CHECK(tool::formats_in_list(list) == all);
  }
  CHECK(tool::formats_in_list("mxfp4,nvfp4") == std::vector<std::string>{"mxfp4", "nvfp4"});
  CHECK(tool::formats_in_list("extended,nvfp4") ==
        std::vector<std::string>{"nvfp4", "tetrajet2", "if4", "hif4", "mixfp4", "razer"});
}

TEST_CASE("a report never replaces its input, whatever name is given for it", "[inspect]") {
  namespace fs = std::filesystem;
  const std::string path = npy_file("kept", some_values(64), "(2, 32)"), before = read_file(path);
  const std::string hard = support::scratch() / "hard.json", soft = support::scratch() / "soft.json";
  fs::create_hard_link(path, hard);
  fs::create_symlink(path, soft);
  const std::string roundabout = fs::path(path).parent_path() / "." / "kept";
  for (const std::string& out : {path, hard, soft, roundabout}) {
    INFO(out);
    CHECK_THROWS_AS(inspected({path, "--json", out}), common::usage_error);
    CHECK(read_file(path) == before);
  }
  CHECK_THROWS_AS(inspected({soft, "--json", path}), common::usage_error);
  CHECK(read_file(path) == before);
}

TEST_CASE("a name after --json that ends like a file of tensors is rejected", "[inspect]") {
  const std::string path = npy_file("meant.npy", some_values(64), "(2, 32)"), before = read_file(path);
  const std::string name = support::scratch() / "named";
  for (const char* ending : {".npy", ".safetensors", ".gguf"})
    for (const std::vector<std::string>& words : {std::vector<std::string>{"--json", name + ending},
                                                  {"--json", name + ending, path},
                                                  {path, "--json", name + ending},
                                                  {path, "--json=" + name + ending}}) {
      CHECK_THROWS_WITH(inspected(words), "--json " + name + ending +
                                              " would be the report's name, and it ends like a file of tensors; put "
                                              "FILE before --json, or name the report otherwise");
      CHECK_FALSE(std::filesystem::exists(name + ending));
    }
  CHECK_THROWS_AS(inspected({"--json", path, path}), common::usage_error);
  CHECK(read_file(path) == before);
  CHECK_FALSE(inspected({path, "--json", name + ".npy.json"}).empty());
}

TEST_CASE("a report is written completely, or the old file stays", "[inspect]") {
  const std::string path = npy_file("reported.npy", some_values(64), "(2, 32)");
  const std::string report = support::scratch() / "report.json", other = support::scratch() / "other.json";
  std::ofstream(report) << "an older report";
  const std::string cut = support::file_with(read_file(path).substr(0, 200));
  CHECK_THROWS_AS(inspected({cut, "--json", report}), ufp4::interop::file_error);
  CHECK_THROWS_AS(inspected({path, "--tensor", "absent", "--json", other}), ufp4::interop::file_error);
  CHECK(read_file(report) == "an older report");
  CHECK_FALSE(std::filesystem::exists(other));
  common::check_writable(other);
  CHECK_FALSE(std::filesystem::exists(other));
  std::ostringstream out;
  const auto interrupted = [](std::ostream& to) {
    to << "half";
    throw std::runtime_error("interrupted");
  };
  CHECK_THROWS_AS(common::write_to(report, out, interrupted), std::runtime_error);
  CHECK(read_file(report) == "an older report");
  CHECK(inspected({path, "--json", report}).starts_with(path + ": npy"));
  CHECK(read_file(report) == inspected({path, "--json"}));
  CHECK_THROWS_AS(common::check_writable(support::scratch() / "absent/out.json"), std::runtime_error);
  CHECK_THROWS_AS(common::check_writable(std::filesystem::path(report).parent_path()), std::runtime_error);
}

TEST_CASE("what quantize copies is marked and not counted", "[inspect]") {
  const auto values = some_values(4 * 32);
  const std::string ones(128, '\x38');  // 1.0 in e4m3; a source reads it when the file is written
  ufp4::interop::safetensors_writer file;
  file.add("a.cube", ufp4::interop::source_of(number_type::f32, {2, 16, 4}, values.data()));
  file.add("b.fp8", ufp4::interop::source_of(number_type::f8_e4m3, {4, 32}, ones.data()));
  file.add("c.narrow", ufp4::interop::source_of(number_type::f32, {8, 8}, values.data()));
  file.add("d.between", ufp4::interop::source_of(number_type::f32, {4, 24}, values.data()));
  file.add("e.matrix", ufp4::interop::source_of(number_type::f32, {4, 32}, values.data()));
  const std::string path = support::scratch() / "copied.safetensors";
  file.write(path);
  const std::string text = inspected({path, "-f", "nvfp4,mxfp4", "--rht", "0"}), json = inspected({path, "--json"});
  CHECK(count(text,
              "\na.cube  F32 2 x 16 x 4, quantize copies it: 4 elements along dimension 2 are fewer than a block of "
              "16 (see --axis)\n") == 1);
  CHECK(count(text, "\nb.fp8  F8_E4M3 4 x 32, quantize copies it: is not F32, F16 or BF16\n") == 1);
  CHECK(count(text, "\nc.narrow  F32 8 x 8, quantize copies it: 8 columns are fewer than a block of 16\n") == 1);
  CHECK(count(text, "\nd.between  F32 4 x 24\n") == 1);
  CHECK(count(text, "  4.25 bits  mxfp4 1\n  4.5 bits   nvfp4 2\n") == 1);  // blocks of 32 do not fit into 24 columns
  CHECK(count(json, "\"copied\": \"4 elements along dimension 2 are fewer") == 1);
  CHECK(count(json, "\"copied\": null") == 2);
}

TEST_CASE("a tensor's line has the attenuation of the first format without a transform", "[inspect]") {
  ufp4::interop::safetensors_writer file;
  std::vector<float> x(16 * 16);
  for (std::size_t i = 0; i < x.size(); i += 16) x[i] = 7, x[i + 1] = -3, x[i + 2] = 0.5f, x[i + 3] = 1.75f;
  for (const char* name : {"a", "b"}) file.add(name, ufp4::interop::source_of(number_type::f32, {16, 16}, x.data()));
  const std::string path = support::scratch() / "bias.safetensors";
  file.write(path);
  // int4_f32, by hand: (49 + 9 + 0.5 * 0 + 1.75 * 2) / (49 + 9 + 0.25 + 3.0625) = 1.00306
  const std::string text = inspected({path, "-f", "int4_f32,nvfp4"});
  CHECK(count(text, "     amax  crest atten.  4.5 bits") == 1);
  CHECK(count(text, "        7    3.6  1.003  ") == 2);
}

TEST_CASE("JSON distinguishes an SQNR without any error from one that is not a number", "[inspect]") {
  std::vector<float> exact(32);
  exact[0] = 7, exact[1] = -3;  // on the grid of int4_f32, whose scale is then 1
  const std::string lossless = npy_file("exact.npy", exact, "(1, 32)");
  const std::string none = npy_file("zero.npy", std::vector<float>(32), "(1, 32)");
  CHECK(count(inspected({lossless, "--json", "-f", "int4_f32", "--rht", "0"}), "\"sqnr_db\": \"inf\"") == 1);
  CHECK(count(inspected({none, "--json", "-f", "int4_f32", "--rht", "0"}), "\"sqnr_db\": null") == 1);
}

TEST_CASE("the tool lists every preset of the library, in the order of its lists", "[formats]") {
  std::size_t i = 0;
  for_each_format([&](auto preset) {
    REQUIRE(i < tool::all_formats().size());
    const tool::format_facts& f = tool::all_formats()[i++];
    INFO(preset.name);
    CHECK((f.name == preset.name && f.spec == preset.spec && !f.summary.empty() && f.element != "custom"));
    CHECK(&tool::format_named(preset.name) == &f);
  });
  CHECK(i == tool::all_formats().size());
  CHECK(tool::formats_in_list("base").size() == ufp4::detail::presets::size);
  CHECK(tool::formats_in_list("extended").size() == ufp4::detail::extended_presets::size);
  CHECK(tool::formats_in_list("byte").size() ==
        ufp4::detail::byte_presets::size + ufp4::detail::reference_presets::size);
}

TEST_CASE("formats prints the properties of the types", "[formats]") {
  const std::string text = run(tool::formats, {});
  for (const char* line :
       {"nvfp4       0 0.5 1 1.5 2 3 4 6              1x16  e4m3  float     4.50  no",
        "mx_e1m2     0 0.25 0.5 0.75 1 1.25 1.5 1.75  1x32  e8m0  -         4.25  yes",
        "int4_f32    0 1 2 3 4 5 6 7                  1x16  float -         6.00  yes",
        "tetrajet2   0 0.5 1 1.5 2 3 4 6              1x16  e4m3  float/128 4.75  no",
        "            or 0 1 2 3 4 5 6 7 times 0.8571\nhif4        0 0.25 0.5 0.75 1 1.25 1.5 1.75  1x64  e6m2  -",
        "            times 1 or 2 for each 8 columns\n            times 1 or 2 for each 4 columns\nmixfp4",
        "            or 0 0.5 1 1.5 2 3 4 6 times 0.25\nrazer",
        "            and -5\n            or 0 0.5 1 1.5 2 3 4 6 and 5\nint8_f32",
        "int8_f32    0 1 2 ... 127                    1x16  float -         10.00 yes",
        "mxint8      0 0.01562 0.03125 ... 1.984      1x32  e8m0  -         8.25  yes",
        "mxfp8_e5m2  0 1.526e-05 3.052e-05 ... 57344  1x32  e8m0  -         8.25  no",
        "mxfp6_e2m3  0 0.125 0.25 ... 7.5             1x32  e8m0  -         8.25  no"}) {
    INFO(line);
    CHECK(count(text, "\n" + std::string(line)) == 1);
  }
  const std::string json = run(tool::formats, {"--json"});
  CHECK(count(json,
              "\"name\": \"int4_f32\", \"element\": \"int4\", \"values\": [0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, "
              "-4, -3, -2, -1], \"block\": [1, 16], \"scale\": \"float\", \"tensor_scale\": null, "
              "\"bits_per_element\": 6, \"uniform\": true") == 1);
  // E2M1 three times, the five extended presets, and the floats of 8 and 6 bits.
  CHECK(count(json, "\"uniform\": false") == 3 + 5 + 4);
  CHECK(count(json, "\"more_grids\": [{\"factor\": 0.25, \"values\": [0, 0.5, 1, 1.5, 2, 3, 4, 6, ") == 1);
  CHECK(count(json, "\"outer_scale\": \"float/128\", \"more_grids\": [], \"exponent_columns\": []") == 1);
  CHECK(count(json,
              "\"outer_scale\": null, \"more_grids\": [], \"exponent_columns\": [8, 4], "
              "\"group\": \"extended\"") == 1);
}
