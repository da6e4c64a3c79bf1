// ufp4 - a rejected argument: one message, and nothing otherwise.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/detail/expects.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace detail = ufp4::detail;

namespace {

/// The text of the invalid_argument that expects throws, or "nothing".
template <class... Words>
std::string rejection(bool condition, const Words&... words) {
  try {
    detail::expects(condition, words...);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing";
}

/// A word that must not be asked for.
struct unspoken {
  operator const char*() const { throw std::logic_error("the message was put together for nothing"); }
};

}  // namespace

TEST_CASE("an argument that does not hold is rejected with words and numbers in one message", "[detail]") {
  CHECK(rejection(false, "K is ", std::size_t{256}, " in a and ", 128, " in b") == "K is 256 in a and 128 in b");
  CHECK(rejection(false, std::string("rows"), std::string_view(" is "), -1) == "rows is -1");
  CHECK(rejection(false, "alone") == "alone");
}

TEST_CASE("a float in a message is told from its neighbours", "[detail]") {
  CHECK(rejection(false, "tensor_amax is ", -1.5f) == "tensor_amax is -1.5");
  CHECK(rejection(false, 0.1f) == "0.100000001");
  CHECK(rejection(false, 1e-45f) == "1.40129846e-45");
  CHECK(rejection(false, 3.40282347e38f) == "3.40282347e+38");
}

TEST_CASE("an argument that holds costs no message", "[detail]") {
  CHECK(rejection(true, "anything") == "nothing");
  CHECK(rejection(true, unspoken{}) == "nothing");
}
