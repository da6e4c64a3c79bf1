// ufp4 - tests: `ufp4 compare` as a program: what it prints and writes, and its exit status.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "../../examples/compare/program.hpp"
#include "../../examples/ufp4/inspect.hpp"
#include "../../examples/ufp4/program.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/seed.hpp"

namespace {

struct finished {
  int status;
  std::string out, err;
};

finished compare_with(std::vector<std::string> arguments) {
  std::vector<const char*> values{"compare"};
  for (const std::string& argument : arguments) values.push_back(argument.c_str());
  std::ostringstream out, err;
  common::arguments rest(static_cast<int>(values.size()), values.data(), "-");
  const tool::command command{"compare", "", compare::help_text, compare::run};
  const int status = tool::detail::run_command(command, rest, out, err);
  return {status, out.str(), err.str()};
}

std::string read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// A matrix with outliers, 12 x 40: neither a whole number of blocks of 16 nor of 32.
const std::string& some_matrix() {
  static const std::string path = [] {
    std::mt19937_64 random{support::seed(1)};
    std::normal_distribution<float> normal;
    std::vector<float> values(12 * 40);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = normal(random) * (i % 16 == 3 ? 20.0f : 1.0f);
    const std::string at = support::scratch() / "some.npy";
    std::ofstream(at, std::ios::binary) << support::npy("<f4", false, "(12, 40)", support::floats(values));
    return at;
  }();
  return path;
}

compare::comparison compared(const std::vector<float>& values, std::size_t rows, std::size_t cols) {
  const compare::matrix m{"test", rows, cols, values};
  return compare::run_comparison(m, {}, [](std::size_t, std::size_t, const std::string&) {});
}

}  // namespace

TEST_CASE("wrong usage gives one message and exit status 2", "[usage]") {
  const std::vector<std::vector<std::string>> wrong{{"--nonsense"},
                                                    {"file.npy"},
                                                    {"--npy"},
                                                    {"--npy", "--json"},
                                                    {"--rows", "many"},
                                                    {"--rows", "-1"},
                                                    {"--rows", "1e3"},
                                                    {"--threads", "4097"},
                                                    {"--seed", "18446744073709551616"},
                                                    {"--npy", "a", "--safetensors", "b"},
                                                    {"--npy", "a", "--random", "gauss"},
                                                    {"--random", "cauchy"},
                                                    {"--json", "--csv"},
                                                    {"--html", "a", "--no-html"},
                                                    {"--npy="},
                                                    {"--no-html=yes"},
                                                    {"--json="},
                                                    {"--json", "same.out", "--csv", "same.out"},
                                                    {"--csv", "./compare.html"},
                                                    {"--json", "weights.npy"},
                                                    {"--csv", "model.safetensors"},
                                                    {"--html", "model.gguf"}};
  for (const auto& arguments : wrong) {
    const auto end = compare_with(arguments);
    INFO(arguments.front() << ": " << end.err);
    CHECK(end.status == 2);
    CHECK(end.out.empty());
    CHECK(end.err.starts_with("ufp4 compare: "));
    CHECK(count(end.err, "\n") == 1);
  }
}

TEST_CASE("the help text has every option", "[usage]") {
  const std::string help = compare::help_text;
  for (const char* flag : {"--npy", "--safetensors", "--text", "--random", "--json", "--csv", "--html", "--no-html",
                           "--format", "--rule", "--search", "--rows", "--seed", "--threads", "--help", "examples"})
    CHECK(count(help, flag) > 0);
}

TEST_CASE("an input or an output that fails gives one message and exit status 1", "[usage]") {
  const std::vector<std::vector<std::string>> failing{
      {"--npy", "/nowhere.npy"},
      {"--npy", support::file_with("garbage")},
      {"--safetensors", support::file_with("garbage")},
      {"--text", "/nowhere"},
      {"--npy", some_matrix(), "--no-html", "--json", "/nowhere/out.json"},
      {"--npy", some_matrix(), "--html", "/nowhere/out.html"}};
  for (const auto& arguments : failing) {
    const auto end = compare_with(arguments);
    INFO(end.err);
    CHECK(end.status == 1);
    CHECK(end.err.starts_with("ufp4 compare: "));
    CHECK(count(end.err, "\n") == 1);
  }
}

TEST_CASE("one run fills the table, JSON, CSV and HTML with all presets twice", "[reports]") {
  const std::string json = support::scratch() / "c.json", csv = support::scratch() / "c.csv",
                    html = support::scratch() / "c.html";
  const auto end = compare_with({"--npy=" + some_matrix(), "-f", "all", "--json", json, "--csv", csv, "--html", html});
  INFO(end.err);
  REQUIRE(end.status == 0);
  REQUIRE(end.err.empty());
  for (const tool::format_facts& f : tool::all_formats()) {
    const std::string name(f.name);
    INFO(name);
    CHECK(count(end.out, "\n" + name + " ") == 2);
    CHECK(count(read_file(csv), "\n" + name + ",") == 2);
    CHECK(count(read_file(json), "{\"format\": \"" + name + "\"") == 2);
    CHECK(count(read_file(html), "<td class=\"mono\">" + name + "</td>") == 2);
  }
  CHECK(count(end.out, "report: " + html) == 1);
  const std::string page = read_file(html);
  // Codes are counted where a code is a value: not where blocks choose grids or exponents, nor for codes of one byte.
  CHECK(count(page, "code histogram of ") == ufp4::detail::presets::size + 1);
  CHECK(count(page, "code histogram of tetrajet2") == 1);
  for (const char* outside : {"<script", "<link", "<img", "http://", "https://", "url(", "@import"})
    CHECK(count(page, outside) == 0);
  for (const char* tag : {"svg", "div", "section", "figure", "g", "p", "td", "span"})
    CHECK(count(page, "<" + std::string(tag) + " ") + count(page, "<" + std::string(tag) + ">") ==
          count(page, "</" + std::string(tag) + ">"));
  for (const std::string& text : {end.out, page, read_file(json), read_file(csv)}) {
    CHECK(count(text, "nan") == 0);
    CHECK(count(text, "inf") == 0);
  }
}

TEST_CASE("a report never replaces its input, whatever name is given for it", "[usage]") {
  namespace fs = std::filesystem;
  const std::string path = support::scratch() / "kept.array", before = read_file(some_matrix());
  std::ofstream(path, std::ios::binary) << before;
  const std::string hard = support::scratch() / "hard.out", soft = support::scratch() / "soft.out";
  fs::create_hard_link(path, hard);
  fs::create_symlink(path, soft);
  for (const std::string& out : {path, hard, soft})
    for (const char* flag : {"--json", "--csv", "--html"})
      for (const auto& [kind, input] : {std::pair{"--npy", path}, {"--safetensors", path + ":x"}, {"--text", path}}) {
        const auto end = compare_with({kind, input, flag, out});
        INFO(kind << " " << flag << " " << out << ": " << end.err);
        CHECK(end.status == 2);
        CHECK(count(end.err, std::string(flag) + " " + out + " would overwrite the input " + path) == 1);
        CHECK(read_file(path) == before);
      }
  CHECK_FALSE(fs::exists("compare.html"));
}

TEST_CASE("a report that cannot be written is an error before the work, and no file is left", "[usage]") {
  const std::string json = support::scratch() / "early.json";
  const auto end = compare_with({"--npy", some_matrix(), "--no-html", "--json", json, "--csv", "/nowhere/out.csv"});
  CHECK(end.status == 1);
  CHECK(end.out.empty());
  CHECK(count(end.err, "/nowhere/out.csv") == 1);
  CHECK_FALSE(std::filesystem::exists(json));
}

TEST_CASE("compare and inspect have the same measurements of one matrix", "[experiment]") {
  const auto compared_as = compare_with({"--npy", some_matrix(), "-f", "all", "--csv", "--rows", "0"});
  REQUIRE(compared_as.status == 0);
  std::ostringstream inspected_as, none;
  const std::vector<const char*> words{"inspect", some_matrix().c_str(), "-f", "all", "--json"};
  common::arguments rest(static_cast<int>(words.size()), words.data(), "-");
  REQUIRE(tool::inspect(rest, inspected_as, none) == 0);
  std::istringstream lines(compared_as.out);
  std::string line, field;
  std::getline(lines, line);
  int alike = 0;
  while (std::getline(lines, line)) {
    std::vector<std::string> fields;
    for (std::istringstream row(line); std::getline(row, field, ',');) fields.push_back(field);
    // format, element, scale, block, rht, bits_per_element, bytes, sqnr_db
    const std::size_t at = inspected_as.str().find("{\"format\": \"" + fields[0] + "\", ");
    const std::size_t from = inspected_as.str().find("\"rht\": " + fields[4] + ", \"sqnr_db\": ", at);
    INFO(line);
    REQUIRE(from < std::string::npos);
    CHECK(inspected_as.str().find("\"sqnr_db\": " + fields[7] + ",", from) ==
          inspected_as.str().find("\"sqnr_db\": ", from));
    ++alike;
  }
  CHECK(alike == 2 * static_cast<int>(tool::all_formats().size()));
}

TEST_CASE("--rule of compare and inspect measures a scale rule of the library, and JSON names it", "[experiment]") {
  const compare::matrix m = compare::read_npy(some_matrix(), 0);
  const ufp4::matrix_view<const float> x(m.values.data(), m.rows, m.cols);
  const auto rule = ufp4::four_over_six{ufp4::search_error::absolute};
  const double sqnr_db = ufp4::analysis::measure(ufp4::spec_of<ufp4::nvfp4>, x, rule).sqnr_db;
  REQUIRE(sqnr_db != ufp4::analysis::measure(ufp4::spec_of<ufp4::nvfp4>, x).sqnr_db);
  const std::string number = "\"sqnr_db\": " + compare::decibels_json(sqnr_db) + ",";
  const std::vector<std::string> options{"-f", "nvfp4", "--rule", "four_over_six_mae", "--json", "--rows", "0"};

  std::vector<std::string> words{"--npy", some_matrix()};
  words.insert(words.end(), options.begin(), options.end());
  const finished compared_as = compare_with(words);
  CHECK(count(compared_as.out, "\"rule\": \"four_over_six_mae\"") == 1);
  CHECK(count(compared_as.out, number) == 1);
  std::vector<const char*> values{"inspect", some_matrix().c_str()};
  for (const std::string& option : options) values.push_back(option.c_str());
  common::arguments rest(static_cast<int>(values.size()), values.data(), "-");
  std::ostringstream inspected_as, none;
  REQUIRE(tool::inspect(rest, inspected_as, none) == 0);
  CHECK(count(inspected_as.str(), "\"rule\": \"four_over_six_mae\"") == 1);
  CHECK(count(inspected_as.str(), number) == 1);
  CHECK(count(compare_with({"--npy", some_matrix(), "-f", "nvfp4", "--json"}).out, "\"rule\": null") == 1);
  const finished wrong = compare_with({"--npy", some_matrix(), "-f", "nvfp4,mxfp4", "--rule", "four_over_six"});
  CHECK((wrong.status == 2 && count(wrong.err, "mxfp4: four_over_six is for grids of 4 bits that end at 6") == 1));
}

TEST_CASE("JSON and CSV distinguish an SQNR without any error from one that is not a number", "[reports]") {
  auto c = compared({7, -3, 1, 2}, 1, 4);
  for (auto& o : c.outcomes) o.sqnr_db = std::numeric_limits<double>::infinity();
  c.outcomes.back().sqnr_db = std::numeric_limits<double>::quiet_NaN();
  std::ostringstream json, csv;
  compare::write_json(json, c, "0");
  compare::write_csv(csv, c);
  CHECK(count(json.str(), "\"sqnr_db\": \"inf\"") == 17);
  CHECK(count(json.str(), "\"sqnr_db\": null") == 1);
  CHECK(count(csv.str(), ",inf,") == 17);
}

TEST_CASE("machine-readable output is alone on stdout and the same in every run, except times", "[reports]") {
  const auto csv = compare_with({"--npy", some_matrix(), "--csv"});
  REQUIRE(csv.status == 0);
  REQUIRE(csv.out.starts_with("format,"));
  REQUIRE(count(csv.out, "\n") == 19);
  const auto json = compare_with({"--npy", some_matrix(), "--json", "-"});
  REQUIRE(json.out.starts_with("{\n"));
  REQUIRE(count(json.out, "{") == count(json.out, "}"));
  REQUIRE(compare_with({"--npy", some_matrix(), "--html", "-"}).out.starts_with("<!DOCTYPE html>"));

  const auto without_times = [](const std::string& text) {
    std::istringstream lines(text);
    std::string out;
    for (std::string line; std::getline(lines, line);) {
      const std::size_t from = line.find("\"quantize_ms\""), to = line.find("\"scale_underflow_rate\"");
      out += from == std::string::npos ? line : line.substr(0, from) + line.substr(to);
    }
    return out;
  };
  const auto again = compare_with({"--npy", some_matrix(), "--json", "--threads", "1"});
  REQUIRE(without_times(again.out) == without_times(json.out));
  REQUIRE(without_times(compare_with({"--npy", some_matrix(), "--json", "--seed", "2"}).out) !=
          without_times(json.out));
}

TEST_CASE("the bytes of a quantized matrix are counted exactly", "[experiment]") {
  const auto c = compared(std::vector<float>(4 * 64, 1.0f), 4, 64);
  for (const auto& o : c.outcomes) {
    const std::size_t scales = o.format.scale == "binary32" ? 4 * 4 * 4 : o.format.scale == "E8M0" ? 4 * 2 : 4 * 4 + 4;
    CHECK(o.bytes == 4 * 64 / 2 + scales);
  }
}

TEST_CASE("a matrix that every format represents exactly has no error and keeps every neighbour", "[experiment]") {
  // Sixteen values, each 0 or the block's amax: every grid has both. Rows differ pairwise, and each has one twin.
  std::vector<float> values(8 * 32, 0.0f);
  for (std::size_t i = 0; i < 8; ++i)
    for (std::size_t k = 0; k < 32; ++k) values[i * 32 + k] = (k / 4) == i / 2 || k == 16 + i / 2 ? 1.0f : 0.0f;
  const auto c = compared(values, 8, 32);
  REQUIRE(c.neighbours == 8);
  for (const auto& o : c.outcomes) {
    if (o.hadamard != 0 || o.format.scale == "E8M0") continue;  // a power of two does not take 1 to qmax
    INFO(o.format.name);
    CHECK(o.product_error < 1e-3);
    CHECK(o.neighbours_kept == 8);
    CHECK(o.attenuation == Approx(1).margin(1e-3));
  }
}

TEST_CASE("a nearest neighbour may have a negative cosine", "[experiment]") {
  std::vector<float> values(2 * 16, 1.0f);
  std::fill(values.begin(), values.begin() + 16, -1.0f);
  const auto c = compared(values, 2, 16);
  REQUIRE(c.neighbours == 2);
  for (const auto& o : c.outcomes) CHECK(o.neighbours_kept == 2);
}

TEST_CASE("ends of the range give numbers or dashes, and every report can be written", "[experiment]") {
  for (const float size : {1e30f, 1e-30f, 1e-44f}) {
    std::vector<float> values(3 * 20);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = size * (static_cast<float>(i % 7) - 2);
    const auto c = compared(values, 3, 20);
    std::ostringstream shown, numbers;
    compare::print_table(shown, c, true);
    compare::write_html(shown, c, "0");
    compare::write_json(numbers, c, "0");
    compare::write_csv(numbers, c);
    CHECK(count(shown.str(), "nan") == 0);
    CHECK(count(numbers.str(), "nan") == 0);
    CHECK(count(numbers.str(), "inf") == 0);
  }
  const auto lonely = compared({1, 2, 3}, 1, 3);  // one row has no neighbour
  REQUIRE(lonely.neighbours == 0);
  REQUIRE(std::isnan(lonely.kept_share(lonely.outcomes.front())));
}

TEST_CASE("equal texts are equally good, and nothing is best if all texts are equal", "[reading]") {
  auto c = compared({1, 2, 3, 4, 5, 6, 7, 9}, 2, 4);
  const auto& error = compare::metric_named("product_error");
  const auto marked = [&] {
    const auto best = compare::best_of(c, error);
    return std::count(best.begin(), best.end(), true);
  };
  for (auto& o : c.outcomes) o.product_error = 0.02;
  CHECK(marked() == 0);
  c.outcomes[3].product_error = 0.01;
  c.outcomes[7].product_error = 0.010001;
  CHECK(marked() == 2);
  for (auto& o : c.outcomes) o.product_error = INFINITY;
  CHECK(marked() == 0);
  c.outcomes[5].product_error = NAN;
  CHECK(marked() == 0);
  c.outcomes[6].product_error = 3;
  CHECK(marked() == 1);
}

TEST_CASE("the summary names a grid only where its SQNR is higher", "[reading]") {
  auto c = compared({1, 2, 3, 4, 5, 6, 7, 9}, 2, 4);
  const auto set = [&](double e2m1, double uniform) {
    for (auto& o : c.outcomes) o.sqnr_db = o.format.uniform ? uniform : e2m1;
  };
  set(20, 21);
  CHECK(count(compare::reading_of(c).front(),
              "the uniform grid has the higher SQNR with every kind of scale by 1.00 dB") == 2);
  set(22.5, 21);
  CHECK(count(compare::reading_of(c).front(), "E2M1 has the higher SQNR with every kind of scale by 1.50 dB") == 2);
  set(21, 21.001);
  CHECK(count(compare::reading_of(c).front(), "both have the same SQNR with every kind of scale") == 2);
  set(INFINITY, 21);
  for (const auto& paragraph : compare::reading_of(c)) CHECK(count(paragraph, "the higher SQNR") == 0);
  set(20, 21);
  for (auto& o : c.outcomes)
    if (o.format.scale == "E8M0") o.sqnr_db = o.format.uniform ? 15 : 16;
  const auto text = compare::reading_of(c).front();
  CHECK(count(text,
              "E2M1 has the higher SQNR with E8M0 scales by 1.00 dB, the uniform grid has the higher SQNR with E4M3 + "
              "tensor "
              "and binary32") == 2);
}
