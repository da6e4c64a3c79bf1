// ufp4 - the layer rule: who may include whom, read off the include lines.
// SPDX-License-Identifier: Apache-2.0
//
// A module is a folder of include/ufp4, or a header that the table names by itself. A header includes its own module,
// modules of its layer and of lower ones. The table is the rule; a module that is not in it is an error.
#include "support/catch.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

enum class layer { base, numbers, blocks, matrix, machine, operations, uses, embedded, umbrella, guest };

struct module_rule {
  std::string_view name;  // a folder, or a header at the top
  layer level;
  std::string_view only_from = {};  // where not empty: the modules that may include this one, besides itself
};

// `machine` lies below the operations, which call it, and no machine knows another: so each names who may include it.
constexpr module_rule modules[] = {
    {"version.hpp", layer::base},
    {"config.hpp", layer::base},
    {"concepts.hpp", layer::base},
    {"detail", layer::base},
    {"rtc", layer::base},                   // standard headers for compilers that have none
    {"detail/expects.hpp", layer::matrix},  // throws messages, so no kernel may have it
    {"format", layer::numbers},
    {"round", layer::numbers},
    {"hadamard", layer::blocks},
    {"block", layer::blocks},
    {"matrix", layer::matrix},
    {"cpu", layer::machine,
     "quantize.hpp quantize_ms_eden.hpp dequantize.hpp cast.hpp hadamard.hpp gemm.hpp gemm_grouped.hpp explain.hpp "
     "gemm_zero_points.hpp "
     "recipe analysis batch.hpp ufp4.hpp "
     "interop c"},
    {"quantize.hpp", layer::operations},
    {"quantize_ms_eden.hpp", layer::operations},
    {"dequantize.hpp", layer::operations},
    {"cast.hpp", layer::operations},
    {"hadamard.hpp", layer::operations},
    {"gemm.hpp", layer::operations},
    {"gemm_grouped.hpp", layer::operations},
    {"gemm_zero_points.hpp", layer::operations},
    {"explain.hpp", layer::operations},
    {"recipe", layer::uses},
    {"analysis", layer::uses},
    {"batch.hpp", layer::uses},
    {"ufp4.h", layer::base, "c"},  // C99
    {"c", layer::guest, "c"},      // its functions
    {"device.hpp", layer::embedded},
    {"gpu", layer::embedded,
     "gpu/vendor.hpp cuda hip device.hpp cuda.hpp hip.hpp"},  // operations and kernels that vendors share
    {"gpu/vendor.hpp", layer::base,
     "detail gpu cuda hip device.hpp cuda.hpp hip.hpp"},  // which compiler, and its shims
    {"cuda/cuda_shims.hpp", layer::base, "gpu/vendor.hpp"},
    {"hip/hip_shims.hpp", layer::base, "gpu/vendor.hpp"},
    {"cuda", layer::embedded, "gpu/vendor.hpp cuda.hpp"},
    {"hip", layer::embedded, "gpu/vendor.hpp hip.hpp"},
    {"ufp4.hpp", layer::umbrella, "interop c"},
    {"cuda.hpp", layer::umbrella, "interop"},
    {"hip.hpp", layer::umbrella, "interop"},
    {"interop", layer::guest, "interop"},
};

const module_rule* module_of(const std::string& header) {
  for (const std::string& name : {header, header.substr(0, header.find('/'))}) {
    const auto found =
        std::find_if(std::begin(modules), std::end(modules), [&](const module_rule& r) { return r.name == name; });
    if (found != std::end(modules)) return &*found;
  }
  return nullptr;
}

bool lists(std::string_view names, std::string_view name) {
  std::istringstream words{std::string{names}};
  for (std::string word; words >> word;) {
    if (word == name) return true;
  }
  return false;
}

bool starts_with_one_of(std::string_view name, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](std::string_view start) { return name.starts_with(start); });
}

bool is_intrinsics(std::string_view name) {
  return name.ends_with("intrin.h") || name == "cpuid.h" || name.starts_with("arm_");
}

bool is_vendor(std::string_view name) {
  return starts_with_one_of(name,
                            {"cuda", "cublas", "cub/", "cute/", "cutlass/", "device_", "hip/", "mma.h", "nv", "roc"});
}

/// What is wrong with `header` including `target`, or nothing. Both are paths below include/ufp4; a target elsewhere
/// keeps its angle brackets.
std::string objection(const std::string& header, const std::string& target, bool target_exists) {
  const module_rule* from = module_of(header);
  if (from == nullptr) return "its own module is not in the architecture";
  if (target.front() == '<') {
    const std::string name = target.substr(1, target.size() - 2);
    if (from->level <= layer::blocks && (name == "vector" || name == "string" || name == "iostream")) {
      return "layers up to block are device-safe";
    }
    if (is_intrinsics(name) && from->name != "cpu") return "intrinsics live in cpu/";
    if (is_vendor(name) &&
        !lists("cuda hip cuda/cuda_shims.hpp hip/hip_shims.hpp cuda.hpp hip.hpp interop", from->name)) {
      return "vendor headers live in cuda/, hip/ and interop/";
    }
    return "";
  }
  const module_rule* to = module_of(target);
  if (to == nullptr) return "that module is not in the architecture";
  if (!target_exists) return "there is no such header";
  if (to->level > from->level) return "that module is in a higher layer";
  if (to->name != from->name && !to->only_from.empty() && !lists(to->only_from, from->name)) {
    return "only " + std::string{to->only_from} + " may include that module";
  }
  if (from->name == "device.hpp" && to->level > layer::blocks && to->name != "gpu") {
    return "device.hpp holds only what is legal inside a kernel";
  }
  return "";
}

/// The name in an include line with its opening bracket or quote, or nothing: "<vector", "\"../bits.hpp".
std::string included(std::string_view line) {
  const auto skip_blanks = [&] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
  for (const std::string_view word : {"#", "include"}) {
    skip_blanks();
    if (!line.starts_with(word)) return "";
    line.remove_prefix(word.size());
  }
  skip_blanks();
  if (line.empty() || (line.front() != '<' && line.front() != '"')) return "";
  return std::string{line.substr(0, line.find(line.front() == '<' ? '>' : '"', 1))};
}

/// One message an offending include line, in the form of a compiler's message. `sources`: path below include/ufp4 ->
/// text.
std::vector<std::string> violations(const std::map<std::string, std::string>& sources) {
  std::vector<std::string> found;
  for (const auto& [header, text] : sources) {
    std::istringstream lines{text};
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
      const std::string name = included(line);
      if (name.empty()) continue;
      std::string target = name.substr(1);
      if (target.starts_with("ufp4/")) {
        target = target.substr(5);
      } else if (name.front() == '"') {
        target = (std::filesystem::path{header}.parent_path() / target).lexically_normal().generic_string();
      } else {
        target = "<" + target + ">";
      }
      const std::string why = objection(header, target, sources.contains(target));
      if (!why.empty()) {
        found.push_back("include/ufp4/" + header + ":" + std::to_string(number) + ": " + line + "   // " + why);
      }
    }
  }
  return found;
}

/// Code in which a GPU's vendor is named: its compilers' macros, its runtimes, its architectures. Comments may name
/// one: where a format comes from, what a kernel's reader should know. Formats are called what they are called:
/// nvfp4, nv_e1m2.
std::vector<std::string> vendors_named(const std::map<std::string, std::string>& sources) {
  static const std::regex name(
      "__CUDA|__HIP|__NV|__nv|__AMD|CUDA|NVIDIA|ROCM|amdgcn|cublas|gfx[0-9]|sm_[0-9]|(^|[^A-Za-z])(cuda|hip|nvcc|AMD|"
      "HIP)([^a-z]|$)");
  std::vector<std::string> found;
  for (const auto& [header, text] : sources) {
    const bool may = header == "gpu/vendor.hpp" || header == "cuda.hpp" || header == "hip.hpp" ||
                     starts_with_one_of(header, {"cuda/", "hip/"});
    if (may) continue;
    std::istringstream lines{text};
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
      const std::string code = line.substr(0, line.find("//"));
      if (std::regex_search(code, name))
        found.push_back("include/ufp4/" + header + ":" + std::to_string(number) + ": " + line + "   // names a vendor");
    }
  }
  return found;
}

std::map<std::string, std::string> library_sources() {
  const std::filesystem::path root = std::filesystem::path{UFP4_SOURCE_DIR} / "include" / "ufp4";
  std::map<std::string, std::string> sources;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{root}) {
    if (!entry.is_regular_file()) continue;
    std::ostringstream text;
    text << std::ifstream{entry.path(), std::ios::binary}.rdbuf();
    sources[entry.path().lexically_relative(root).generic_string()] = text.str();
  }
  return sources;
}

/// Lane headers that one header includes, and those that choose among headers.
bool is_read_for_each(const std::string& header) {
  const std::string_view names =
      "cpu/simd/lanes.hpp cpu/simd/lane_types.hpp cpu/simd/x86_lanes.hpp "
      "cpu/kernels/lane_kernels.hpp cpu/kernels/gemm/int8_lanes.hpp";
  return lists(names, header);
}

/// The first message about a header that consists of `line`, or nothing.
std::string verdict(const std::string& header, const std::string& line) {
  const auto found = violations({{header, line + "\n"},
                                 {"round/nearest.hpp", ""},
                                 {"block/presets.hpp", ""},
                                 {"cpu/isa.hpp", ""},
                                 {"gpu/vendor.hpp", ""},
                                 {"cuda/launch.hpp", ""},
                                 {"gemm.hpp", ""},
                                 {"detail/expects.hpp", ""},
                                 {"interop/eigen.hpp", ""}});
  return found.empty() ? "" : found.front();
}

}  // namespace

TEST_CASE("every header of the library includes only what its layer may", "[layers]") {
  const auto sources = library_sources();
  REQUIRE(sources.contains("version.hpp"));
  const auto found = violations(sources);
  for (const std::string& message : found) std::cerr << message << '\n';  // whole lines; Catch2 would wrap them
  CHECK(found.empty());
}

// A lane header is read once for every instruction set: architecture decision 4. Its guard is reset where that begins.
TEST_CASE("every header opens with its purpose, its licence, and is read once, or once for an instruction set",
          "[layers]") {
  const auto sources = library_sources();
  const std::string& resets = sources.at("cpu/kernels/lane_kernels.hpp") + sources.at("cpu/simd/avx2.hpp");
  for (const auto& [header, text] : sources) {
    INFO("include/ufp4/" << header);
    CHECK(text.rfind("// ufp4 - ", 0) == 0);
    CHECK(text.find("\n// SPDX-License-Identifier: Apache-2.0\n") == text.find('\n'));
    static const std::regex lane_guard("defined\\((UFP4_\\w+_LANES)\\)\n#define \\1\n");
    std::smatch guard;
    if (std::regex_search(text, guard, lane_guard))
      CHECK(resets.find("#undef " + guard.str(1) + "\n") != std::string::npos);
    else if (!is_read_for_each(header))
      CHECK(text.find("\n#pragma once\n") != std::string::npos);
  }
}

TEST_CASE("no file outside gpu/vendor.hpp, cuda/ and hip/ names a vendor, but the two umbrella headers", "[layers]") {
  const auto found = vendors_named(library_sources());
  for (const std::string& message : found) std::cerr << message << '\n';
  CHECK(found.empty());
  CHECK(vendors_named({{"gpu/vendor.hpp", "#if defined(__HIPCC__)"}, {"cuda/tma.hpp", "cudaError_t e;"}}).empty());
  CHECK(vendors_named({{"format/fp4.hpp", "// as CUDA's\nusing nvfp4 = nv_e1m2;"}}).empty());
  for (const char* line : {"#if defined(__CUDACC__)", "#ifdef __HIP_DEVICE_COMPILE__", "hipStream_t s;",
                           "cuda::context c;", "#include <hip/hip_runtime.h>", "asm(\"sm_80\");", "return \"gfx90a\";"})
    CHECK(vendors_named({{"gpu/gemm.hpp", line}}).size() == 1);
}

TEST_CASE("every kernel is launched as a listed one, so that gpu::prepare() loads it", "[layers]") {
  const std::regex unlisted(R"(\blaunch(_\w+)?\(\s*&)");
  const auto launches_unlisted = [&](const std::string& text) { return std::regex_search(text, unlisted); };
  for (const auto& [header, text] : library_sources()) {
    INFO("include/ufp4/" << header);
    CHECK_FALSE(launches_unlisted(text));
  }
  CHECK(launches_unlisted("return launch(&gemv_blocks, {1}, {32}, 0, where, job);"));
  CHECK(launches_unlisted("launch_tiled(\n  &gemm_bf16<side, side>, job"));
  CHECK_FALSE(launches_unlisted("return launch(listed<&gemv_blocks>, {1}, {32}, 0, where, job);"));
}

TEST_CASE("the rule lets lower layers and siblings pass", "[layers]") {
  CHECK(verdict("format/fp4.hpp", "#include <ufp4/round/nearest.hpp>").empty());
  CHECK(verdict("format/fp4.hpp", "#include <cstdint>").empty());
  CHECK(verdict("hadamard/transform.hpp", "#include \"../block/presets.hpp\"").empty());
  CHECK(verdict("gemm.hpp", "#include <ufp4/cpu/isa.hpp>").empty());
  CHECK(verdict("matrix/matrix_view.hpp", "#include <ufp4/detail/expects.hpp>").empty());
  CHECK(verdict("cpu/kernels/gemm_amx.hpp", "#  include <immintrin.h>").empty());
  CHECK(verdict("cuda/mma_sm80.hpp", "#include <cuda_fp4.h>").empty());
  CHECK(verdict("interop/mdspan.hpp", "#include <ufp4/gemm.hpp>").empty());
  CHECK(verdict("format/fp4.hpp", "// #include <vector>").empty());
}

TEST_CASE("the rule names the line that breaks it", "[layers]") {
  CHECK(verdict("format/fp4.hpp", "\n#include <ufp4/block/presets.hpp>") ==
        "include/ufp4/format/fp4.hpp:2: #include <ufp4/block/presets.hpp>   // that module is in a higher layer");
  CHECK_FALSE(verdict("format/fp4.hpp", "#include <vector>").empty());
  CHECK_FALSE(verdict("block/packing.hpp", "#include <ufp4/detail/expects.hpp>").empty());
  CHECK_FALSE(verdict("block/packing.hpp", "#include <immintrin.h>").empty());
  CHECK_FALSE(verdict("hadamard/signs.hpp", "#include <arm_neon.h>").empty());
  CHECK_FALSE(verdict("block/packing.hpp", "#include <cuda_runtime.h>").empty());
  CHECK_FALSE(verdict("gemm.hpp", "#include <immintrin.h>").empty());
  CHECK_FALSE(verdict("quantize.hpp", "#include <hip/hip_runtime.h>").empty());
  CHECK_FALSE(verdict("cpu/dispatch.hpp", "#include <ufp4/gpu/vendor.hpp>").empty());
  CHECK_FALSE(verdict("hip/launch.hpp", "#include <ufp4/cuda/launch.hpp>").empty());
  CHECK_FALSE(verdict("hip/launch.hpp", "#include \"../cuda/launch.hpp\"").empty());
  CHECK_FALSE(verdict("cuda/launch.hpp", "#include <ufp4/cpu/isa.hpp>").empty());
  CHECK_FALSE(verdict("matrix/operand.hpp", "#include <ufp4/cpu/isa.hpp>").empty());
  CHECK_FALSE(verdict("device.hpp", "#include <ufp4/gemm.hpp>").empty());
  CHECK_FALSE(verdict("ufp4.hpp", "#include <ufp4/interop/eigen.hpp>").empty());
  CHECK_FALSE(verdict("ufp4.hpp", "#include <ufp4/cuda/launch.hpp>").empty());
  CHECK_FALSE(verdict("gemm.hpp", "#include <ufp4/nothing/here.hpp>").empty());
  CHECK_FALSE(verdict("gemm.hpp", "#include <ufp4/round/absent.hpp>").empty());
  CHECK_FALSE(verdict("gemm.hpp", "#include \"../../elsewhere.hpp\"").empty());
}
