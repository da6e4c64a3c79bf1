// ufp4 - Ctrl-C as a flag that long work polls.
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

/// During the lifetime of an object the first SIGINT, SIGTERM or SIGHUP sets a flag; a second one ends the program. A
/// signal that was ignored before, as under nohup, stays ignored.
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
