// ufp4 - main() of every test binary.
// SPDX-License-Identifier: Apache-2.0
#define CATCH_CONFIG_RUNNER  // Catch2 2.13 compiles itself here
#include <cstdio>
#include <exception>
#include <string_view>

#include "support/catch.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"

#if __has_include(<catch2/catch_all.hpp>)
using listener_base = Catch::EventListenerBase;
#else
using listener_base = Catch::TestEventListenerBase;
#endif

namespace {

bool something_ran = false;
bool something_skipped = false;

struct skip_watch : listener_base {
  using listener_base::listener_base;
  void testCaseStarting(const Catch::TestCaseInfo&) override { support::skipped = false; }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    (support::skipped && stats.totals.assertions.total() == 0 ? something_skipped : something_ran) = true;
  }
};
CATCH_REGISTER_LISTENER(skip_watch)

constexpr int all_skipped = 77;  // SKIP_RETURN_CODE in tests/CMakeLists.txt

/// Catch2 2.13 succeeds if no test case matches, which hides a wrong filter.
bool asks_for_a_list(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "-l" || word == "-t" || word == "-h" || word == "-?" || word == "--help" || word.starts_with("--list"))
      return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    support::seed();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  const int result = Catch::Session().run(argc, argv);
  if (result == 0 && !something_ran && !something_skipped && !asks_for_a_list(argc, argv)) {
    std::fprintf(stderr, "%s: no test case matches the arguments\n", argv[0]);
    return 2;
  }
  if (result != 0) std::fprintf(stderr, "%s\n", support::seed_note().c_str());
  return result == 0 && something_skipped && !something_ran ? all_skipped : result;
}
