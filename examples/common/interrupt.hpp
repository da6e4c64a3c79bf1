// ufp4 - Ctrl-C as a question asked between steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csignal>
#include <cstddef>

namespace common {

namespace detail {
inline volatile std::sig_atomic_t interrupt_seen = 0;
inline constexpr std::array interrupting_signals{SIGINT, SIGTERM, SIGHUP};
}  // namespace detail

/// While one lives, the first SIGINT, SIGTERM or SIGHUP is noted; a second one ends the program as it always did. One
/// that was ignored stays ignored, as under nohup.
class interrupt {
 public:
  interrupt() {
    detail::interrupt_seen = 0;
    struct sigaction note{};
    note.sa_handler = [](int) { detail::interrupt_seen = 1; };
    note.sa_flags = static_cast<int>(SA_RESETHAND);
    for (std::size_t i = 0; i < before_.size(); ++i) {
      sigaction(detail::interrupting_signals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaction(detail::interrupting_signals[i], &note, nullptr);
    }
  }
  ~interrupt() {
    for (std::size_t i = 0; i < before_.size(); ++i) sigaction(detail::interrupting_signals[i], &before_[i], nullptr);
  }
  interrupt(const interrupt&) = delete;
  interrupt& operator=(const interrupt&) = delete;

  bool seen() const { return detail::interrupt_seen != 0; }

 private:
  std::array<struct sigaction, detail::interrupting_signals.size()> before_{};
};

}  // namespace common
