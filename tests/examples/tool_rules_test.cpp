// ufp4 - tests: --rule and --search of the tool name the library's scale rules, and reject everything else.
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "../../examples/ufp4/scale_rule_options.hpp"
#include "support/catch.hpp"

namespace {

using namespace ufp4;

std::string rejected(const std::string& flag, const std::string& value) {
  try {
    (void)(flag == "--rule" ? tool::detail::rule_named(value) : tool::detail::search_named(value));
  } catch (const common::usage_error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("--rule has every rule of the library that needs no search") {
  CHECK(tool::detail::rule_named("default") == ufp4::scale_rule_spec{});
  CHECK(tool::detail::rule_named("mx_ceil") == mx_ceil{}.spec());
  CHECK(tool::detail::rule_named("four_over_six_mae") == four_over_six{search_error::absolute}.spec());
  CHECK(tool::detail::rule_named("percentile:1") == percentile{1}.spec());
  CHECK(tool::detail::rule_named("percentile:1000") == percentile{1000}.spec());
  for (const char* wrong :
       {"", "percentile", "percentile:", "percentile:0", "percentile:1001", "percentile:-1", "mse"}) {
    INFO(wrong);
    CHECK(rejected("--rule", wrong).find("--rule takes default, scale_up,") == 0);
  }
}

TEST_CASE("--search has an error and, after a colon, a window") {
  CHECK(tool::detail::search_named("mse") == mse_search{}.spec());
  CHECK(tool::detail::search_named("mae") == mae_search{}.spec());
  CHECK(tool::detail::search_named("mse:0,254") == mse_search{0, 254}.spec());
  CHECK(tool::detail::search_named("mae:3,5") == mae_search{3, 5}.spec());
  for (const char* wrong : {"", "max", "mse:", "mse:3", "mse:3,", "mse:,5", "mse:255,1", "mse:3,5,", "mse: 3,5"}) {
    INFO(wrong);
    CHECK(rejected("--search", wrong).find("--search takes mse or mae, or mse:BELOW,ABOVE with 0 to 254 steps, not ") ==
          0);
  }
}

TEST_CASE("a search joins the rule before it and after it, and a rule that does not fit the format is a usage error") {
  tool::scale_choice choice;
  choice.rule = tool::detail::rule_named("mx_ceil");
  ufp4::detail::join_search(choice.rule, tool::detail::search_named("mae:1,2"));
  CHECK(choice.rule ==
        ufp4::scale_rule_spec{ufp4::scale_rule_spec::kind::mx_ceil, true, search_error::absolute, {1, 2}});
  CHECK_NOTHROW(tool::check_rule(choice, tool::format_named("mxfp4")));
  CHECK_THROWS_AS(tool::check_rule(choice, tool::format_named("nvfp4")), common::usage_error);
}

TEST_CASE("a list of formats has each name once, or groups") {
  CHECK(tool::formats_in_list("nvfp4,mxfp4") == std::vector<std::string>{"nvfp4", "mxfp4"});
  CHECK(tool::formats_in_list("all").size() == tool::all_formats().size());
  CHECK(tool::formats_in_list("hif4,nvfp4") == std::vector<std::string>{"hif4", "nvfp4"});
  CHECK_THROWS_AS(tool::formats_in_list("nvfp4,nvfp4"), common::usage_error);
  CHECK_THROWS_AS(tool::formats_in_list("all,if4,if4"), common::usage_error);
  CHECK_THROWS_AS(tool::formats_in_list("nvfp4,,mxfp4"), common::usage_error);
}
