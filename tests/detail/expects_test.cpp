// ufp4 - a refused argument: one sentence, and nothing otherwise.
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
std::string refusal(bool condition, const Words&... words) {
  try {
    detail::expects(condition, words...);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing";
}

/// A word that must not be asked for.
struct unspoken {
  operator std::string() const { throw std::logic_error("the sentence was put together for nothing"); }
};

}  // namespace

TEST_CASE("an argument that does not hold is refused with words and numbers in one sentence", "[detail]") {
  CHECK(refusal(false, "K is ", std::size_t{256}, " in a and ", 128, " in b") == "K is 256 in a and 128 in b");
  CHECK(refusal(false, std::string("rows"), std::string_view(" is "), -1) == "rows is -1");
  CHECK(refusal(false, "alone") == "alone");
}

TEST_CASE("a float in a sentence is told from its neighbours", "[detail]") {
  CHECK(refusal(false, "tensor_amax is ", -1.5f) == "tensor_amax is -1.5");
  CHECK(refusal(false, 0.1f) == "0.100000001");
  CHECK(refusal(false, 1e-45f) == "1.40129846e-45");
  CHECK(refusal(false, 3.40282347e38f) == "3.40282347e+38");
}

TEST_CASE("an argument that holds costs no sentence", "[detail]") {
  CHECK(refusal(true, "anything") == "nothing");
  CHECK(refusal(true, unspoken{}) == "nothing");
}
