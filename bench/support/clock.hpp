// ufp4 - benches: how long a piece of work took, on a machine that has other work to do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>

namespace bench {

/// Seconds since some start. One thread: the processor time of the calling thread, so that a neighbour who takes the
/// core away does not lengthen the work. Several: the wall clock, since a wait for the slowest thread belongs to the
/// work.
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
