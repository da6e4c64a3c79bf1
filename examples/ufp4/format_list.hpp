// ufp4 - the formats that the command-line tool knows by name: every preset of the library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <ufp4/block/presets.hpp>
#include <ufp4/interop/text.hpp>

#include "../common/arguments.hpp"

namespace tool {

/// What cannot be read off a format's type.
struct format_name {
  std::string_view name;
  std::string_view element;  ///< as the library spells it
  std::string_view summary;
  std::string_view peers;  ///< what others call it; empty where it has no other name
};

/// In the order in which the tool shows them: by kind of scale, E2M1 first.
inline constexpr std::array<format_name, 9> format_names{{
    {"nvfp4", "fp4<E2M1>", "E2M1, E4M3 scales of 16, one tensor scale",
     "NVFP4: Transformer Engine, ModelOpt, torchao, compressed-tensors"},
    {"nv_e1m2", "fp4<E1M2>", "the uniform grid with NVFP4's scales",
     "NVFP4 with E0M3 elements, in hardware literature"},
    {"nvint4", "int4", "4-bit integers with NVFP4's scales", "NVINT4"},
    {"mxfp4", "fp4<E2M1>", "E2M1, power-of-two scales of 32", "OCP MXFP4: torchao, ggml, compressed-tensors"},
    {"mx_e1m2", "fp4<E1M2>", "the uniform grid with MXFP4's scales", ""},
    {"mxint4", "int4", "4-bit integers with MXFP4's scales", "MXINT4"},
    {"e2m1_f32", "fp4<E2M1>", "E2M1, binary32 scales of 16", "the E2M1 baseline of the UFP4 paper"},
    {"e1m2_f32", "fp4<E1M2>", "the uniform grid, binary32 scales of 16", "UFP4 (arXiv 2606.20381)"},
    {"int4_f32", "int4", "4-bit integers, binary32 scales of 16", "symmetric INT4 in groups of 16"},
}};

/// "nvfp4, nv_e1m2, ...".
inline std::string listed_formats() {
  std::string text;
  for (const format_name& f : format_names) text += (text.empty() ? "" : ", ") + std::string(f.name);
  return text;
}

[[noreturn]] inline void reject_format(std::string_view name) {
  throw common::usage_error("unknown format " + ufp4::interop::printable(name) + "; there are " + listed_formats());
}

/// The row of that name; common::usage_error, which lists the names, for any other.
inline const format_name& named_format(std::string_view name) {
  for (const format_name& f : format_names)
    if (f.name == name) return f;
  reject_format(name);
}

/// visit(std::type_identity<Format>{}) of the format of that name, and what it returned: the same type for every
/// format. Throws common::usage_error, which lists the names, for any other.
template <class Visit>
auto visit_format(std::string_view name, Visit visit) {
  using std::type_identity;
  if (name == "nvfp4") return visit(type_identity<ufp4::nvfp4>{});
  if (name == "nv_e1m2") return visit(type_identity<ufp4::nv_e1m2>{});
  if (name == "nvint4") return visit(type_identity<ufp4::nvint4>{});
  if (name == "mxfp4") return visit(type_identity<ufp4::mxfp4>{});
  if (name == "mx_e1m2") return visit(type_identity<ufp4::mx_e1m2>{});
  if (name == "mxint4") return visit(type_identity<ufp4::mxint4>{});
  if (name == "e2m1_f32") return visit(type_identity<ufp4::e2m1_f32>{});
  if (name == "e1m2_f32") return visit(type_identity<ufp4::e1m2_f32>{});
  if (name == "int4_f32") return visit(type_identity<ufp4::int4_f32>{});
  reject_format(name);
}

}  // namespace tool
