// ufp4 - the code that a page of docs/ shows stands in its program under examples/snippets/, line by line.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace {

const std::filesystem::path root = UFP4_SOURCE_DIR;

using lines = std::vector<std::string>;

/// Without indentation and without what differs by it: the program's code stands inside main().
lines read(const std::filesystem::path& path) {
  std::ifstream file(path);
  lines out;
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find_first_not_of(' ');
    out.push_back(first == std::string::npos ? "" : line.substr(first));
  }
  return out;
}

/// The blocks between ```cpp and ```.
std::vector<lines> snippets(const lines& page) {
  std::vector<lines> found;
  bool inside = false;
  for (const std::string& line : page) {
    if (line.rfind("```", 0) == 0) {
      inside = !inside && line == "```cpp";
      if (inside) found.emplace_back();
    } else if (inside) {
      found.back().push_back(line);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("every snippet of a page stands in the page's program", "[docs]") {
  std::size_t pages = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root / "examples" / "snippets")) {
    const std::filesystem::path page = root / "docs" / entry.path().stem().concat(".md");
    CAPTURE(page.string());
    REQUIRE(std::filesystem::exists(page));
    const lines program = read(entry.path());
    const std::vector<lines> shown = snippets(read(page));
    CHECK_FALSE(shown.empty());
    for (const lines& snippet : shown) {
      CAPTURE(snippet.front());
      CHECK(std::search(program.begin(), program.end(), snippet.begin(), snippet.end()) != program.end());
    }
    ++pages;
  }
  CHECK(pages >= 3);
}

TEST_CASE("a page that shows C++ has a program", "[docs]") {
  const auto has_program = [](const std::filesystem::path& page) {
    const std::filesystem::path program = root / "examples" / "snippets" / page.stem();
    return std::filesystem::exists(program.string() + ".cpp") || std::filesystem::exists(program.string() + ".cu");
  };
  for (const auto& entry : std::filesystem::directory_iterator(root / "docs")) {
    if (entry.path().extension() != ".md" || snippets(read(entry.path())).empty()) continue;
    CAPTURE(entry.path().string());
    CHECK(has_program(entry.path()));
  }
}

TEST_CASE("the file of kernels that cpu.md shows is the one that these tests link", "[docs]") {
  const lines page = read(root / "docs" / "cpu.md");
  lines file = read(root / "tests" / "support" / "kernels.cpp");
  std::erase_if(file, [](const std::string& line) { return line.empty() || line.rfind("//", 0) == 0; });
  REQUIRE(file.size() == 2);
  const auto heading = std::find(page.begin(), page.end(), "// kernels.cpp");
  REQUIRE(page.end() - heading > 2);
  CHECK(std::equal(file.begin(), file.end(), heading + 1));
}
