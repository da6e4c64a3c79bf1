// ufp4 - mpi_ranks: the processes of an MPI program.
// SPDX-License-Identifier: Apache-2.0
//
// | sums       | how                                                                             | the same bits for |
// |------------|---------------------------------------------------------------------------------|-------------------|
// | microbatch | a rank receives one slice of the parameters from every microbatch, adds them    | every number of   |
// |            | left to right and sends the sums to all: with m microbatches per rank, (m + 1)  | ranks             |
// |            | (R - 1) / R times the parameters are sent                                       |                   |
// | all_reduce | a rank adds its own microbatches, then MPI_Allreduce, which adds in an order of | one number of     |
// |            | its own: 2 (R - 1) / R times                                                    | ranks, at best    |
#pragma once

#define OMPI_SKIP_MPICXX 1  // neither library's own C++ interface, which MPI 3 removed
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "ranks.hpp"

namespace train_lm {

enum class gradient_sums : std::uint8_t { microbatch, all_reduce };

class mpi_ranks final : public ranks {
 public:
  /// Only the thread that constructs it may call it. One object per process.
  explicit mpi_ranks(gradient_sums sums = gradient_sums::microbatch) : sums_(sums) {
    int given = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given), "MPI_Init_thread");
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &count_), "MPI_Comm_size");
  }
  ~mpi_ranks() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int count() const override { return count_; }

  float maximum(float here) override {
    float all = here;
    check(MPI_Allreduce(&here, &all, 1, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
    return all;
  }
  std::vector<std::uint64_t> gather(std::span<const std::uint64_t> here) override { return gather(here, MPI_UINT64_T); }
  std::vector<double> gather(std::span<const double> here) override { return gather(here, MPI_DOUBLE); }

  void sum(const microbatch_gradients<float>& here, std::vector<matrix<float>>& sums) override {
    if (sums_ == gradient_sums::all_reduce) {
      sum_in_order(here, sums);
      for (matrix<float>& s : sums)
        check(MPI_Allreduce(MPI_IN_PLACE, s.data(), as_count(s.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
              "MPI_Allreduce");
      return;
    }
    sums.resize(here.stacked.size());
    index parameters = 0;
    for (std::size_t p = 0; p < sums.size(); ++p) {
      sums[p].resize(here.stacked[p].rows() / here.microbatches, here.stacked[p].cols());
      parameters += sums[p].size();
    }
    for (index at = 0; at < parameters; at += at_once) sum_range(here, at, std::min(at_once, parameters - at), sums);
  }

  void give_up(int exit_status) override { MPI_Abort(MPI_COMM_WORLD, exit_status); }

 private:
  static constexpr index at_once = index{1} << 20;  ///< parameters: 4 MB per microbatch

  static void check(int error, const char* call) {
    if (error != MPI_SUCCESS)
      throw std::runtime_error(std::string(call) + " failed with code " + std::to_string(error));
  }
  static int as_count(index n) {
    if (n > 0x7FFFFFFF)
      throw std::runtime_error(std::to_string(n) + " numbers exceed the limit of an MPI call, 2147483647");
    return static_cast<int>(n);
  }

  template <class T>
  std::vector<T> gather(std::span<const T> here, MPI_Datatype type) {
    std::vector<T> all(here.size() * static_cast<std::size_t>(count_));
    const int n = as_count(static_cast<index>(here.size()));
    check(MPI_Allgather(here.data(), n, type, all.data(), n, type, MPI_COMM_WORLD), "MPI_Allgather");
    return all;
  }

  /// body(parameter, its first element, count, how many came before) for elements first .. first + count - 1 of all
  /// parameters one after the other.
  template <class Body>
  static void for_range(const std::vector<matrix<float>>& parameters, index first, index count, const Body& body) {
    index done = 0;
    for (std::size_t p = 0; p < parameters.size() && done < count; ++p) {
      const index size = parameters[p].size();
      if (first < size) {
        const index here = std::min(count - done, size - first);
        body(p, first, here, done);
        done += here;
        first += here;
      }
      first -= size;
    }
  }

  /// `count` parameters from `first` on, split into a slice a rank.
  void sum_range(const microbatch_gradients<float>& here, index first, index count, std::vector<matrix<float>>& sums) {
    const index slice = (count + count_ - 1) / count_, each = here.microbatches, all = each * count_;
    to_.assign(static_cast<std::size_t>(all * slice), 0.0f);
    from_.resize(to_.size());
    for (index q = 0; q < count_; ++q)
      for (index m = 0; m < each; ++m) {
        float* out = to_.data() + (q * each + m) * slice;
        const index live = std::clamp<index>(count - q * slice, 0, slice);
        for_range(sums, first + q * slice, live, [&](std::size_t p, index at, index n, index done) {
          std::copy_n(here.stacked[p].data() + m * sums[p].size() + at, n, out + done);
        });
      }
    const int message = as_count(each * slice);
    check(MPI_Alltoall(to_.data(), message, MPI_FLOAT, from_.data(), message, MPI_FLOAT, MPI_COMM_WORLD),
          "MPI_Alltoall");
    // Microbatch m of rank q is at q * each + m, its number in the batch.
    for (index m = 1; m < all; ++m)
      for (index i = 0; i < slice; ++i)
        from_[static_cast<std::size_t>(i)] += from_[static_cast<std::size_t>(m * slice + i)];
    to_.resize(static_cast<std::size_t>(slice * count_));
    check(
        MPI_Allgather(from_.data(), as_count(slice), MPI_FLOAT, to_.data(), as_count(slice), MPI_FLOAT, MPI_COMM_WORLD),
        "MPI_Allgather");
    for_range(sums, first, count, [&](std::size_t p, index at, index n, index done) {
      std::copy_n(to_.data() + done, n, sums[p].data() + at);
    });
  }

  gradient_sums sums_;
  int rank_ = 0, count_ = 1;
  std::vector<float> to_, from_;
};

}  // namespace train_lm
