// ufp4 - first_call_check: an experimental kernel multiplies one tile, which is compared, before it multiplies a job.
// SPDX-License-Identifier: Apache-2.0
//
// For kernels that may never have run anywhere, because the CPU simulator does not emulate their instructions:
//
// | chosen  | only by a program that defines UFP4_EXPERIMENTAL; explain names the kernel otherwise                   |
// | checked | the first call on a device multiplies one tile of random codes with scales of 1 and 2, in the formats  |
// |         | of the job, and compares it with gemm_simt's. All sums are exact in binary32, so a difference of more  |
// |         | than 2^-12 of the tile's amax is a mistake: this call and every later one return an error              |
//
// The first call allocates some hundred kilobytes and waits, unlike all others. It cannot be captured into a graph:
// multiply once before. Several threads may make the first call at the same time; each checks for itself.
#pragma once

#include <atomic>
#include <ufp4/gpu/buffer.hpp>
#include <ufp4/gpu/kernels/gemm_simt.hpp>
#include <vector>

namespace ufp4::gpu::detail::inline UFP4_GPU {

/// One object for each kernel, `static first_call_check first_call;`, which remembers the verdict for each device.
class first_call_check {
 public:
  using runner = error (*)(const gemm_job&, const device_facts&, std::span<std::byte>, stream);
  using sizer = std::size_t (*)(const gemm_job&, const device_facts&);

  /// success, or why `kernel` must not run `job`, which is kept for the status of the operation. `depth`: K of the
  /// tile, a multiple of 32, longer than the kernel's pipeline, and not a multiple of a stage; rounded up to whole
  /// blocks, at least two. `workspace`: the bytes that the kernel needs; null: none.
  template <class = void>
  error check(runner kernel, const char* name, const gemm_job& job, const device_facts& device, unsigned rows,
              unsigned cols, stream where, unsigned depth = 288, sizer workspace = nullptr) {
    const int here = device_number();
    if (here < 0) return failed(not_supported, name, "device numbers above 63 are not supported");
    if (seen_[here] == verdict::unknown) {
      if (is_capturing(where))
        return failed(not_supported, name,
                      "the first call on a device copies a tile to the host; multiply once before a graph is captured");
      verdict made = verdict::unknown;
      if (const error e = try_tile(kernel, job, device, rows, cols, depth, workspace, where, made); e != success)
        return e;
      seen_[here] = made;
    }
    if (seen_[here] == verdict::right) return success;
    return failed(not_supported, name,
                  "the tile of the first call differs from gemm_simt's: compile without "
                  "UFP4_EXPERIMENTAL, and report it");
  }

 private:
  enum class verdict : std::uint8_t { unknown, right, wrong };
  static constexpr int most_devices = 64;
  std::atomic<verdict> seen_[most_devices] = {};

#if defined(__CUDACC__) && !defined(UFP4_SIMT_HEADER)
  static int device_number() {
    int device = 0;
    return current_device(device) == success && device < most_devices ? device : -1;
  }
  static bool is_capturing(stream where) {
    cudaStreamCaptureStatus now = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(where, &now) != cudaSuccess || now != cudaStreamCaptureStatusNone;
  }
#else
  static int device_number() { return 0; }
  static bool is_capturing(stream) { return false; }
#endif

  struct random_side {
    buffer<std::uint8_t> codes, scales;
    gemm_side side{};

    random_side(const gemm_side& like, unsigned block, unsigned rows, unsigned cols, std::uint32_t seed)
        : codes(std::size_t{rows} * cols / 2), side(like) {
      const unsigned bytes = static_cast<unsigned>(ufp4::detail::scale_bytes(like.scale)),
                     strips = (rows + like.block_rows - 1) / like.block_rows;
      std::vector<std::uint8_t> code(codes.size()), scale(std::size_t{strips} * (cols / block) * bytes);
      const auto draw = [&seed] { return (seed = seed * 1664525u + 1013904223u) >> 24; };
      for (std::uint8_t& c : code) c = static_cast<std::uint8_t>(draw());
      for (std::size_t i = 0; i < scale.size(); i += bytes) {
        const std::uint32_t bits = ufp4::detail::encode_scale(like.scale, draw() < 128 ? 1.0f : 2.0f);
        for (unsigned b = 0; b < bytes; ++b) scale[i + b] = static_cast<std::uint8_t>(bits >> (8 * b));
      }
      scales = buffer<std::uint8_t>(scale.size());
      codes.upload(code);
      scales.upload(scale);
      side.codes = codes.data();
      side.scales = scales.data();
      side.tensor_scale = nullptr;
      side.rows = rows;
      side.cols = side.padded_cols = cols;
      side.transform = {};
    }
  };

  template <class = void>
  static error try_tile(runner kernel, const gemm_job& job, const device_facts& device, unsigned rows, unsigned cols,
                        unsigned depth, sizer workspace, stream where, verdict& made) {
    const unsigned blocks = (depth + job.block - 1) / job.block;
    depth = (blocks < 2 ? 2 : blocks) * job.block;
    const random_side left(job.left, job.block, rows, depth, 1), right(job.right, job.block, cols, depth, 2);
    const buffer<float> got(std::size_t{rows} * cols), want(got.size());
    gemm_job tile{.left = left.side, .right = right.side, .block = job.block, .mode = job.mode};
    const buffer<std::byte> memory(workspace == nullptr ? 0 : workspace(tile, device));
    const auto make = [&](const buffer<float>& c, runner by) {
      tile.out = {c.data(), dtype::f32, rows, cols, static_cast<std::ptrdiff_t>(cols), 1};
      return by(tile, device, {memory.data(), memory.size()}, where);
    };
    if (error e = set_zero(got.data(), got.size() * sizeof(float), where); e != success) return e;
    if (error e = make(got, kernel); e != success) return e;
    if (error e = make(want, kernels::gemm_simt<>.run); e != success) return e;
    if (error e = wait(where); e != success) return e;
    made = agree(got, want) ? verdict::right : verdict::wrong;
    return success;
  }

  static bool agree(const buffer<float>& got, const buffer<float>& want) {
    std::vector<float> a(got.size()), b(want.size());
    got.download(a);
    want.download(b);
    float amax = 0, apart = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] != a[i] || b[i] != b[i]) return false;
      const float size = ufp4::detail::magnitude(b[i]), off = ufp4::detail::magnitude(a[i] - b[i]);
      amax = size > amax ? size : amax;
      apart = off > apart ? off : apart;
    }
    return apart <= amax * 0x1p-12f;
  }
};

/// `run` of the experimental kernel that `queue` queues.
template <auto queue>
error run_checked(const char* name, const gemm_job& job, const device_facts& device, std::span<std::byte> memory,
                  stream where, unsigned rows, unsigned cols, unsigned depth = 288,
                  first_call_check::sizer workspace = nullptr) {
  static first_call_check first_call;
  const error e =
      UFP4_TUNE_UNCHECKED ? success : first_call.check(queue, name, job, device, rows, cols, where, depth, workspace);
  return e == success ? queue(job, device, memory, where) : e;
}
/// UFP4_RUN_EXPERIMENTAL(name, function): `run` of a kernel that only programs with UFP4_EXPERIMENTAL compile.
#if defined(UFP4_EXPERIMENTAL) && defined(__CUDACC__) && !defined(UFP4_SIMT_HEADER)
#define UFP4_COMPILES_EXPERIMENTAL
#define UFP4_RUN_EXPERIMENTAL(name, ...) &__VA_ARGS__
#else
#define UFP4_RUN_EXPERIMENTAL(name, ...)                                                                             \
  [](const gemm_job&, const device_facts&, std::span<std::byte>, stream) {                                           \
    return detail::failed(not_supported, name, "this file was compiled without UFP4_EXPERIMENTAL, or not for CUDA"); \
  }
#endif

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
