// ufp4 - hadamard_forward and hadamard_inverse on a GPU, with the host's bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gpu/status.hpp>
#include <ufp4/gpu/warp/hadamard_run.hpp>
#include <ufp4/matrix/checks.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

struct hadamard_job {
  thread::row_reader in{};
  thread::row_writer out{};
  transform_spec transform{};
  bool inverse = false;
  std::uint32_t across = 1;  ///< groups of sixteen elements in a row, one for each thread
};

inline constexpr unsigned hadamard_threads = 256;

/// Each thread transforms sixteen elements of a row. Threads outside the matrix take part in the shuffles and store
/// nothing. x and out may be the same matrix: a thread reads only what it writes.
UFP4_LAZY_KERNEL(hadamard_threads) hadamard_rows(const hadamard_job job) {
  const std::size_t at = std::size_t{block_index().x} * hadamard_threads + thread_index().x;
  const thread::grid_place here = thread::split(at, job.across);
  float v[thread::run_of_thread];
  job.in.load(here.row, here.sixteen, v);
  warp::hadamard(job.transform, job.inverse, here.sixteen & ((job.transform.n < 16 ? 1 : job.transform.n / 16) - 1), v);
  job.out.store(here.row, here.sixteen, v);
}

template <class Use = void>
error queue_hadamard(const source& x, const sink& out, const transform_spec& t, bool inverse, std::size_t padded_cols,
                     stream where) {
  const std::size_t across = (padded_cols + 15) / 16;
  const hadamard_job job{thread::reader_of(x), thread::writer_of(out), t, inverse,
                         static_cast<std::uint32_t>(across == 0 ? 1 : across)};
  return launch_each(listed<&hadamard_rows<Use>>, x.rows * across, hadamard_threads, 0, where, job);
}
UFP4_GPU_FUNCTION(error queue_hadamard<void>(const source&, const sink&, const transform_spec&, bool, std::size_t,
                                             stream))

template <matrix_scalar X, matrix_scalar Y>
status transform_rows(const char* operation, const context& ctx, const transform_spec& t, bool inverse,
                      const matrix_view<X>& x, const matrix_view<Y>& out) {
  return checked([&]() -> status {
    check_transform(operation, t, inverse, x, out);
    check_places(operation, "x", x.rows(), x.cols());
    check_places(operation, "out", out.rows(), out.cols());
    return status_of(
        operation, queue_hadamard(source_of(x), sink_of(out), t, inverse, inverse ? x.cols() : out.cols(), ctx.where));
  });
}

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU

namespace ufp4::gpu::inline UFP4_GPU {

/// The same as the host's (hadamard.hpp) for shapes, aliasing and bits. x and out are in device memory.
template <detail::matrix_scalar X, detail::matrix_scalar Y, detail::transform Transform>
status hadamard_forward(const context& ctx, const matrix_view<X>& x, const matrix_view<Y>& out, const Transform& t) {
  return kernels::transform_rows("hadamard_forward", ctx, t.spec(), false, x, out);
}
/// The inverse, in the same way.
template <detail::matrix_scalar X, detail::matrix_scalar Y, detail::transform Transform>
status hadamard_inverse(const context& ctx, const matrix_view<X>& x, const matrix_view<Y>& out, const Transform& t) {
  return kernels::transform_rows("hadamard_inverse", ctx, t.spec(), true, x, out);
}

}  // namespace ufp4::gpu::inline UFP4_GPU
