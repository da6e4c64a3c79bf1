// ufp4 - a number prints as the float of its value.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/format/io.hpp>

#include "support/catch.hpp"
#include "support/formats.hpp"

#include <cstdint>
#include <iomanip>
#include <sstream>
#include <string>

using namespace ufp4;

namespace {

template <class T>
std::string printed(T value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

}  // namespace

TEST_CASE("every type prints its value", "[format][io]") {
  CHECK(printed(fp4<E2M1>{1.5f}) == "1.5");
  CHECK(printed(fp4<E2M1>::from_bits(0x8)) == "-0");
  CHECK(printed(fp4<E1M2>{-1.75f}) == "-1.75");
  CHECK(printed(fp4<E3M0>{16.0f}) == "16");
  CHECK(printed(ufp4::int4::from_bits(0x8)) == "-8");
  CHECK(printed(nf4{1.0f}) == "1");
  CHECK(printed(nf4{0.08f}) == "0.0795803");
  CHECK(printed(e4m3{448.0f}) == "448");
  CHECK(printed(e4m3::from_bits(0x7F)) == "nan");
  CHECK(printed(ue5m3{114688.0f}) == "114688");
  CHECK(printed(e8m0{0.5f}) == "0.5");
  CHECK(printed(bf16{-2.5f}) == "-2.5");
  CHECK(printed(fp16{1e9f}) == "inf");
}

TEMPLATE_LIST_TEST_CASE("every code prints as its float does, in wide streams too", "[format][io]",
                        support::byte_types) {
  for (unsigned code = 0; code < 256; ++code) {
    const auto value = TestType::from_bits(static_cast<std::uint8_t>(code));
    std::ostringstream want;
    want << static_cast<float>(value);
    CHECK(printed(value) == want.str());
    std::wostringstream wide, wide_want;
    wide << value;
    wide_want << static_cast<float>(value);
    CHECK(wide.str() == wide_want.str());
  }
}

TEST_CASE("the stream's flags hold and printing can be chained", "[format][io]") {
  std::ostringstream out;
  out << std::showpos << std::fixed << std::setprecision(2) << std::setw(7) << fp4<E2M1>{3.0f} << '|' << e4m3{-2.0f};
  CHECK(out.str() == "  +3.00|-2.00");
}

#if defined(__cpp_lib_format)
TEST_CASE("std::format prints the value, with float's specifications", "[format][io]") {
  CHECK(std::format("{}", fp4<E2M1>{1.5f}) == "1.5");
  CHECK(std::format("{}", fp4<E2M1>::from_bits(0x8)) == "-0");
  CHECK(std::format("{}", ufp4::int4::from_bits(0x8)) == "-8");
  CHECK(std::format("{:+.2f}|{:>6}", e4m3{2.0f}, bf16{-2.5f}) == "+2.00|  -2.5");
  CHECK(std::format("{}", fp16{1e9f}) == "inf");
  CHECK(std::format("{:.3f}", nf4{0.08f}) == "0.080");
  CHECK(std::format(L"{}", e8m0{0.5f}) == L"0.5");
}
#endif
