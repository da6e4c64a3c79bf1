// ufp4 - the progress line on a terminal, which each step overwrites.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "../compare/text.hpp"

namespace train_lm {

/// 75 as "1m15s".
inline std::string duration_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(seconds + 0.5);
  if (whole < 60) return std::to_string(whole) + "s";
  const auto two = [](std::uint64_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  if (whole < 3600) return std::to_string(whole / 60) + "m" + two(whole % 60) + "s";
  return std::to_string(whole / 3600) + "h" + two(whole / 60 % 60) + "m";
}

inline std::string rate_text(double tokens_a_second) {
  return tokens_a_second < 10000 ? compare::fixed(tokens_a_second, 0) : compare::fixed(tokens_a_second / 1000, 1) + "k";
}

/// On stderr; erased at the end; silent where stderr is not a terminal.
class progress_line {
 public:
  explicit progress_line(bool wanted) : shown_(wanted && isatty(STDERR_FILENO) != 0) {}
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;
  ~progress_line() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
  }

  void show(const std::string& text) {
    if (!shown_) return;
    std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
    std::fflush(stderr);
  }

  /// Draws at most ten times a second: a terminal can be slower than a small model.
  void step(std::uint64_t at, std::uint64_t of, double loss, double tokens_a_second, double seconds_left) {
    const auto now = std::chrono::steady_clock::now();
    if (!shown_ || (at < of && now - last_ < std::chrono::milliseconds(100))) return;
    last_ = now;
    constexpr std::size_t width = 24;
    const auto done =
        static_cast<std::size_t>(static_cast<double>(width) * static_cast<double>(at) / static_cast<double>(of));
    show("[" + std::string(done, '#') + std::string(width - done, '.') + "] " + std::to_string(at) + "/" +
         std::to_string(of) + "  loss " + compare::fixed(loss, 3) + "  " + rate_text(tokens_a_second) +
         " tokens/s  eta " + duration_text(seconds_left));
  }

 private:
  bool shown_;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace train_lm
