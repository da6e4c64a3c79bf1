// ufp4 - reading the command lines of examples.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <ufp4/interop/text.hpp>
#include <vector>

namespace common {

/// An invalid command line: exit status 2.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Rejects a flag or a word that the command does not know.
[[noreturn]] inline void reject_argument(const std::string& word) {
  throw usage_error("unknown argument " + ufp4::interop::printable(word));
}

/// The command line, one argument after the other. "--name=value" is "--name value"; after a flag without a value,
/// next() rejects it.
class arguments {
 public:
  /// A word that starts with `flag_mark` is a flag, never the value of the flag before it; "-" alone is a value.
  arguments(int count, const char* const* values, std::string_view flag_mark) : flag_mark_(flag_mark) {
    for (int i = 1; i < count; ++i) {
      const std::string_view argument = values[i];
      const std::size_t equals = argument.starts_with("--") ? argument.find('=') : std::string_view::npos;
      words_.push_back({std::string(argument.substr(0, equals)), false});
      if (equals != std::string_view::npos) words_.push_back({std::string(argument.substr(equals + 1)), true});
    }
  }

  bool empty() const { return at_ == words_.size(); }
  /// A flag, or a word that is not a flag's value. usage_error for a value attached to a flag that takes none.
  std::string next() {
    if (words_[at_].attached)
      throw usage_error(words_[at_ - 1].text + " takes no value, and got " +
                        (words_[at_].text.empty() ? "an empty one" : ufp4::interop::printable(words_[at_].text)));
    return words_[at_++].text;
  }

  /// The flag's value, if one follows.
  std::optional<std::string> optional_value() {
    if (empty()) return {};
    const auto& [text, attached] = words_[at_];
    if (attached && text.empty()) throw usage_error(words_[at_ - 1].text + " needs a value");
    if (!attached && text.starts_with(flag_mark_) && text != "-") return {};
    return words_[at_++].text;
  }
  /// The value of a flag that needs one. Negative numbers count as values, to be rejected by their range.
  std::string value(const std::string& flag) {
    auto found = optional_value();
    if (!found && !empty() && is_negative(words_[at_].text)) found = words_[at_++].text;
    if (!found || found->empty()) throw usage_error(flag + " needs a value");
    return *found;
  }

  /// A whole number from `least` to `most`.
  std::uint64_t number(const std::string& flag, std::uint64_t least, std::uint64_t most) {
    const std::string text = value(flag);
    std::uint64_t result = 0;
    if (!parse(text, result) || result < least || result > most)
      throw usage_error(flag + " takes a whole number from " + std::to_string(least) + " to " + std::to_string(most) +
                        ", not " + ufp4::interop::printable(text));
    return result;
  }
  /// Finite and above 0.
  double positive(const std::string& flag) {
    const std::string text = value(flag);
    double result = 0;
    if (!parse(text, result) || !(result > 0) || !std::isfinite(result))
      throw usage_error(flag + " takes a number above 0, not " + ufp4::interop::printable(text));
    return result;
  }
  /// From 0 to below 1.
  double share(const std::string& flag) {
    const std::string text = value(flag);
    double result = 0;
    if (!parse(text, result) || !(result >= 0) || !(result < 1))
      throw usage_error(flag + " takes a number from 0 to below 1, not " + ufp4::interop::printable(text));
    return result;
  }

 private:
  static bool is_negative(std::string_view text) {
    return text.size() > 1 && text[0] == '-' && ((text[1] >= '0' && text[1] <= '9') || text[1] == '.');
  }

  template <class Number>
  static bool parse(const std::string& text, Number& result) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result);
    return error == std::errc{} && end == text.data() + text.size();
  }

  struct word {
    std::string text;
    bool attached;  ///< followed a flag's "="
  };

  std::string_view flag_mark_;
  std::vector<word> words_;
  std::size_t at_ = 0;
};

}  // namespace common
