// ufp4 - json_cursor: the strings of a header, with every escape that JSON has.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/interop/json_cursor.hpp>

#include "support/catch.hpp"

#include <optional>
#include <string>

using namespace ufp4;

namespace {

std::optional<std::string> read(const std::string& json) {
  std::string out;
  interop::json_cursor cursor(json);
  if (!cursor.string(out)) return std::nullopt;
  return out;
}

}  // namespace

TEST_CASE("an escaped code point is read as its UTF-8 bytes, at the ends of every length", "[interop]") {
  CHECK(read(R"("\u0000")") == std::string(1, '\0'));
  CHECK(read(R"("\u007f")") == "\x7f");
  CHECK(read(R"("\u0080")") == "\xc2\x80");
  CHECK(read(R"("\u07FF")") == "\xdf\xbf");
  CHECK(read(R"("\u0800")") == "\xe0\xa0\x80");
  CHECK(read(R"("\uffff")") == "\xef\xbf\xbf");
  CHECK(read(R"("\ud800\udc00")") == "\xf0\x90\x80\x80");  // U+10000
  CHECK(read(R"("\ud83d\ude00")") == "\xf0\x9f\x98\x80");  // U+1F600
  CHECK(read(R"("\uDBFF\uDFFF")") == "\xf4\x8f\xbf\xbf");  // U+10FFFF
  CHECK(read(R"("a\/\"\\\b\f\n\r\tz")") == "a/\"\\\b\f\n\r\tz");
}

TEST_CASE("half a surrogate pair is no character", "[interop]") {
  for (const char* json :
       {R"("\ud800")", R"("\ud800x")", R"("\ud800\n")", R"("\ud800\u0041")", R"("\ud800\ud800")", R"("\udc00")",
        R"("\udfff\ud800")", R"("\ud83d\ude0")", R"("\ud83d\u")", R"("\x41")", R"("\)"}) {
    CAPTURE(json);
    CHECK_FALSE(read(json).has_value());
  }
}
