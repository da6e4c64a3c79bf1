// ufp4 - tests: the ODR key is the same wherever it is used (detail/odr_key.hpp).
// SPDX-License-Identifier: Apache-2.0
#include <string_view>
#include <ufp4/cpu/simd/target.hpp>

#include "support/catch.hpp"

namespace {

#define UFP4_TEST_TEXT_OF(text) #text
#define UFP4_TEST_TEXT(text) UFP4_TEST_TEXT_OF(text)
constexpr std::string_view key = UFP4_TEST_TEXT(UFP4_CODE);

#if defined(__x86_64__)
// A region without a function would be a warning of clang's.
UFP4_BEGIN_TARGET(UFP4_AVX2)
[[maybe_unused]] void function_avx2() {}
constexpr std::string_view key_in_avx2 = UFP4_TEST_TEXT(UFP4_CODE);
UFP4_END_TARGET
UFP4_BEGIN_TARGET(UFP4_AVX512_BF16)
[[maybe_unused]] void function_avx512_bf16() {}
constexpr std::string_view key_in_avx512_bf16 = UFP4_TEST_TEXT(UFP4_CODE);
UFP4_END_TARGET
UFP4_BEGIN_TARGET(UFP4_AVX512)
[[maybe_unused]] void function_avx512() {}
constexpr std::string_view key_in_avx512 = UFP4_TEST_TEXT(UFP4_CODE);
UFP4_END_TARGET
UFP4_BEGIN_TARGET(UFP4_AMX)
[[maybe_unused]] void function_amx() {}
constexpr std::string_view key_in_amx = UFP4_TEST_TEXT(UFP4_CODE);
UFP4_END_TARGET

TEST_CASE("a target region has the ODR key of its file", "[detail]") {
  CHECK(key_in_avx2 == key);
  CHECK(key_in_avx512_bf16 == key);
  CHECK(key_in_avx512 == key);
  CHECK(key_in_amx == key);
}
#endif

TEST_CASE("the ODR key has the version, ten digits of instruction sets and two of settings", "[detail]") {
  REQUIRE(key.size() == std::string_view("v0_1_0000000000_00").size());
  CHECK(key.substr(0, 5) == "v0_1_");
  CHECK(key.find_first_not_of("0123456789abcdef_", 5) == std::string_view::npos);
  CHECK(key[15] == '_');
}

}  // namespace
