// ufp4 - benches: the time of a piece of work on a machine that also runs other programs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>

namespace bench {

/// Seconds since an arbitrary start. For one thread: the processor time of the calling thread, which does not include
/// time that other programs use the core. For several: the wall clock, because waiting for the slowest thread is part
/// of the work.
class stopwatch {
 public:
  explicit stopwatch(int threads) : clock_(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC), start_(now()) {}
  double seconds() const { return now() - start_; }

 private:
  double now() const {
    timespec t{};
    clock_gettime(clock_, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }

  clockid_t clock_;
  double start_;
};

}  // namespace bench
