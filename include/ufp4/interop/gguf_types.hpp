// ufp4 - ggml's tensor types: their numbers, names and blocks.
// SPDX-License-Identifier: Apache-2.0
/// Source: ggml-org/ggml, enum ggml_type of ggml.h and the block structures of ggml-common.h.
#pragma once

#include <cstdint>
#include <string_view>
#include <ufp4/detail/compiler.hpp>

namespace ufp4::interop::inline UFP4_TYPES {

/// One value of ggml's enum ggml_type.
struct ggml_type {
  std::uint32_t id;               ///< in GGUF files
  std::string_view name;          ///< as ggml spells it; that of a number_type for the types that are decoded here
  std::uint16_t elements, bytes;  ///< of one block; blocks are contiguous along the last dimension
};

/// Every type whose block size is known here.
inline constexpr ggml_type ggml_types[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},        {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},     {8, "Q8_0", 32, 34},      {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},  {13, "Q5_K", 256, 176},   {14, "Q6_K", 256, 210},
    {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74}, {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110}, {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136},
    {24, "I8", 1, 1},         {25, "I16", 1, 2},       {26, "I32", 1, 4},        {27, "I64", 1, 8},
    {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},  {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},   {40, "NVFP4", 64, 36},    {41, "Q1_0", 128, 18}};

/// The type with that number or name, or nullptr.
constexpr const ggml_type* find_ggml_type(std::uint32_t id) {
  for (const ggml_type& t : ggml_types)
    if (t.id == id) return &t;
  return nullptr;
}
constexpr const ggml_type* find_ggml_type(std::string_view name) {
  for (const ggml_type& t : ggml_types)
    if (t.name == name) return &t;
  return nullptr;
}

}  // namespace ufp4::interop::inline UFP4_TYPES
