// ufp4 - Ctrl-C as a question asked between steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace common {

namespace detail {
inline volatile std::sig_atomic_t interrupt_seen = 0;
}

/// While one lives, the first SIGINT or SIGTERM is noted; a second one ends the program as it always did.
class interrupt {
 public:
  interrupt() {
    detail::interrupt_seen = 0;
    struct sigaction note{};
    note.sa_handler = [](int) { detail::interrupt_seen = 1; };
    note.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &note, &before_[0]);
    sigaction(SIGTERM, &note, &before_[1]);
  }
  ~interrupt() {
    sigaction(SIGINT, &before_[0], nullptr);
    sigaction(SIGTERM, &before_[1], nullptr);
  }
  interrupt(const interrupt&) = delete;
  interrupt& operator=(const interrupt&) = delete;

  bool seen() const { return detail::interrupt_seen != 0; }

 private:
  struct sigaction before_[2]{};
};

}  // namespace common
