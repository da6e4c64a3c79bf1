// ufp4 - what gemm_blocks_sm90 multiplies: sums of decoded operands, block by block, have the bits of exact_blocks.
// SPDX-License-Identifier: Apache-2.0
// ctest: simulator
//
// The simulator has neither TMA nor wgmma. Here a loop on the host takes their place between the kernel's decoders and
// its epilogue, which are simulated. Its sums are exact, and it tests that any adder of 24 bits would make them so.
#include "gpu/gemm_check.hpp"

#include <ufp4/cuda/gemm_blocks_sm90.hpp>

#include "support/format_pairs.hpp"
#include "support/seed.hpp"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

using namespace ufp4;
namespace kernels = ufp4::gpu::kernels;

namespace {

using support::against_host;

constexpr unsigned tile_side = 128;

struct store_job {
  gpu::gemm_job product{};
  const float* sums = nullptr;
  unsigned stride = 0, down = 1;
  bool usable = true;
};
UFP4_KERNEL(64) store_model(const store_job job) {
  const unsigned row = gpu::block_index().x % job.down * tile_side, col = gpu::block_index().x / job.down * tile_side;
  gpu::thread::store_tile_runs<tile_side, tile_side, 64>(job.product, row, col, job.sums + row * job.stride + col,
                                                         job.stride, gpu::thread_index().x, job.usable);
}

/// Sums of products that are all multiples of 2^-23 of the largest, and below 2^24 of that unit.
float exact_sum(const std::vector<double>& products) {
  double largest = 0, sum = 0;
  for (const double p : products) largest = std::max(largest, std::abs(p)), sum += p;
  if (largest == 0 || !std::isfinite(largest)) return static_cast<float>(sum);
  const double unit = std::ldexp(1.0, std::ilogb(largest) - 23);
  bool exact = static_cast<double>(static_cast<float>(sum)) == sum;
  for (const double p : products) exact = exact && std::fmod(p, unit) == 0;
  if (!exact) FAIL("a sum of products needs more than 24 bits");
  return static_cast<float>(sum);
}

struct model_side {
  const std::uint16_t* elements;
  const float* scales;
  std::size_t padded, stride;
  double element(std::size_t row, std::size_t k) const {
    return static_cast<double>(detail::to_float(std::uint32_t{elements[row * padded + k]} << 16));
  }
};

/// The sum of an element of C, as numerics 6 defines it for the decoded operands.
float model_sum(const gpu::gemm_job& job, const model_side& a, const model_side& b, std::size_t i, std::size_t j) {
  float acc = 0;
  std::vector<double> products(job.block);
  for (std::size_t k = 0; k < job.padded(); k += job.block) {
    for (std::size_t n = 0; n < job.block; ++n) products[n] = a.element(i, k + n) * b.element(j, k + n);
    const float d = exact_sum(products);
    const std::size_t at = k / job.block;
    acc = a.scales == nullptr
              ? acc + d
              : std::fma(d, a.scales[at * a.stride + i] * b.scales[at * b.stride + kernels::paired_place(j)], acc);
  }
  return acc;
}

gpu::error run_model(const gpu::gemm_job& job, const gpu::device_facts&, std::span<std::byte> memory,
                     gpu::stream where) {
  const kernels::block_sums_plan plan(job);
  std::memset(memory.data(), 0, 4);
  for (unsigned s = 0; s < 2; ++s)
    if (const gpu::error e = kernels::queue_block_sums_side(job, s, memory.data(), where); e != gpu::success) return e;
  const bool usable = memory[0] == std::byte{};
  const auto side_of = [&](const gpu::gemm_side& side, unsigned s) {
    return model_side{
        reinterpret_cast<const std::uint16_t*>(memory.data() + plan.elements[s]),
        kernels::folds_blocks(job) ? nullptr : reinterpret_cast<const float*>(memory.data() + plan.scales[s]),
        job.padded(), plan.scales_stride(side)};
  };
  const model_side a = side_of(job.left, 0), b = side_of(job.right, 1);
  const auto up = [](std::size_t n) { return static_cast<unsigned>((n + tile_side - 1) / tile_side); };
  const unsigned down = up(job.out.rows), across = up(job.out.cols), stride = across * tile_side + 8;
  const gpu::buffer<float> sums(std::size_t{down} * tile_side * stride);
  for (std::size_t i = 0; usable && i < job.out.rows; ++i)
    for (std::size_t j = 0; j < job.out.cols; ++j) sums.data()[i * stride + j] = model_sum(job, a, b, i, j);
  return gpu::launch(&store_model, {down * across}, {64}, 0, where, store_job{job, sums.data(), stride, down, usable});
}

constexpr gpu::gemm_kernel model_kernel{
    .name = "block sums",
    .takes = [](const gpu::gemm_job& job, const gpu::device_facts&) { return kernels::takes_block_sums(job); },
    .run = &run_model,
    .workspace = &kernels::gemm_blocks_sm90_workspace};

template <class Left, class Right>
gpu::gemm_job job_of(std::size_t rows, std::size_t cols, std::size_t depth) {
  static const float none = 0;
  const gpu::quantized_matrix<Left> a(rows, depth);
  const gpu::quantized_matrix<Right> b(cols, depth);
  const matrix_view<float> c{const_cast<float*>(&none), rows, cols};
  return gpu::detail::call_of(a.view(), b.view(), detail::sink_of(c), support::exactly, {}).job;
}

int taken, rejected;
constexpr auto check_this = []<class Pair>(Pair) {
  using left = typename Pair::left;
  using right = typename Pair::right;
  if (!kernels::takes_block_sums(job_of<left, right>(3, 5, 256))) {
    ++rejected;
    return;
  }
  ++taken;
  support::check_exact_pair<left, right>(model_kernel, 200, 37);
};

}  // namespace

TEST_CASE("sums of decoded blocks have the bits of exact_blocks for every format that the wgmma kernel takes",
          "[gpu]") {
  taken = rejected = 0;
  support::pairs_of_16(check_this);
  support::pairs_of_longer_blocks(check_this);
  support::pairs_of_squares(check_this);
  // a float beside e8m0 is rejected, because a block of zeros has the scale 2^-127
  CHECK(taken == 33);
  CHECK(rejected == 4);
}

TEST_CASE("the epilogue of four columns at a time has the host's bits for every type and layout of C", "[gpu]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  const auto check = [&](std::size_t m, std::size_t n, support::c_layout layout) {
    CAPTURE(m, n, layout.gap, layout.transposed, layout.reversed);
    const auto a = model::random_quantized<nvfp4>(gen, m, 48, model::scales::ordinary, 0x1.8p-7f);
    const auto b = model::random_quantized<nvint4>(gen, n, 48, model::scales::ordinary, 0x1.333334p+3f);
    std::vector<float> bias(n);
    for (std::size_t j = 0; j < n; ++j) bias[j] = static_cast<float>(j) * 0.3f - 7;
    for (const float beta : {0.0f, -1.3f}) {
      const gemm_options with{
          .alpha = 1.7f, .beta = beta, .accumulate = accumulate::exact_blocks, .bias = std::span<const float>(bias)};
      CHECK(against_host<float>(model_kernel, a, b, with, layout) == "");
      CHECK(against_host<bf16>(model_kernel, a, b, with, layout) == "");
      CHECK(against_host<fp16>(model_kernel, a, b, with, layout) == "");
    }
    CHECK(against_host<bf16>(model_kernel, a, b, support::exactly, layout) == "");
  };
  check(5, 8, {});
  check(130, 132, {});
  check(3, 131, {});
  check(6, 130, {.gap = 2});
  check(7, 9, {.gap = 3});
  check(6, 20, {.transposed = true});
  check(6, 20, {.reversed = true});
}

TEST_CASE("a NaN in a scale makes one row or one column NaN", "[gpu]") {
  std::mt19937_64 gen{support::seed(3)};
  const auto check = [&]<class F>(F) {
    const auto a = support::with_nan(model::random_quantized<F>(gen, 9, 96), 4, 1);
    const auto b = support::with_nan(model::random_quantized<F>(gen, 20, 96), 17, 0);
    CHECK(against_host(model_kernel, a, b) == "");
  };
  check(nvfp4{});
  check(mxint4{});
  check(e1m2_f32{});
}

TEST_CASE("scales whose products could overflow or underflow are computed from codes", "[gpu]") {
  std::mt19937_64 gen{support::seed(4)};
  const auto check = [&]<class F>(F, std::initializer_list<float> scales) {
    for (const float scale : scales) {
      CAPTURE(scale);
      auto a = model::random_quantized<F>(gen, 9, 96), b = model::random_quantized<F>(gen, 20, 96);
      a.scales()[5] = b.scales()[7] = b.scales()[20] = typename F::scale_type(scale);
      CHECK(against_host(model_kernel, a, b) == "");
    }
  };
  check(mxfp4{}, {0x1p-127f, 0x1p-70f, 0x1p-56f, 0x1p55f, 0x1p60f, 0x1p127f});
  check(e2m1_f32{}, {0x1p-149f, 0x1p-75f, 0x1p-69f, 0x1p60f, 0x1.8p63f, 0x1p127f, -0x1p-74f, -2.5f,
                     std::numeric_limits<float>::infinity(), 0.0f, -0.0f});
}

TEST_CASE("decoded scales are in the paired order, and one outside the accepted range sets the flag", "[gpu]") {
  const std::size_t rows = 37, blocks = 5, stride = 48;
  quantized_matrix<e2m1_f32> host(rows, blocks * 16);
  for (std::size_t i = 0; i < host.scales().size(); ++i) host.scales()[i] = static_cast<float>(i + 1);
  gpu::gemm_side side;
  side.rows = rows, side.cols = side.padded_cols = blocks * 16;
  const auto decoded = [&](bool paired, std::uint32_t& unfit) {
    const gpu::buffer<float> scales{std::span<const float>(host.scales())}, out(blocks * stride);
    const gpu::buffer<std::uint32_t> flag(1);
    side.scales = scales.data();
    REQUIRE(gpu::set_zero(flag.data(), 4, {}) == gpu::success);
    REQUIRE(kernels::queue_decode_scales(side, 16, stride, paired, out.data(), {0.5f, 1000.0f}, flag.data(), {}) ==
            gpu::success);
    unfit = support::on_host(flag)[0];
    return support::on_host(out);
  };
  constexpr unsigned order[16] = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};
  std::uint32_t unfit = 9;
  const auto plain = decoded(false, unfit);
  REQUIRE(unfit == 0);
  const auto paired = decoded(true, unfit);
  REQUIRE(unfit == 0);
  for (std::size_t b = 0; b < blocks; ++b)
    for (std::size_t r = 0; r < stride; ++r) {
      const std::size_t other = r / 16 * 16 + order[r % 16];
      REQUIRE(plain[b * stride + r] == (r < rows ? static_cast<float>(r * blocks + b + 1) : 0.0f));
      REQUIRE(paired[b * stride + r] == plain[b * stride + other]);
    }
  for (const auto& [scale, flag] : {std::pair{0.25f, 1u},
                                    {1001.0f, 1u},
                                    {-2000.0f, 1u},
                                    {0.0f, 0u},
                                    {-0.0f, 0u},
                                    {std::nanf(""), 0u},
                                    {std::numeric_limits<float>::infinity(), 1u}}) {
    CAPTURE(scale);
    host.scales()[7] = scale;
    (void)decoded(true, unfit);
    CHECK(unfit == flag);
  }
}

TEST_CASE("the wgmma kernel takes products with 128 rows on both sides and more, on devices that have it", "[gpu]") {
  gpu::device_facts device;
  device.architecture = 90;
  device.shared_bytes = 227 * 1024;
  const auto takes = [&](const gpu::gemm_job& job) { return kernels::gemm_blocks_sm90_takes(job, device); };
  REQUIRE(takes(job_of<nvfp4, nvfp4>(128, 128, 64)));
  REQUIRE_FALSE(takes(job_of<nvfp4, nvfp4>(127, 128, 64)));
  REQUIRE_FALSE(takes(job_of<nvfp4, nvfp4>(128, 127, 64)));
  REQUIRE_FALSE(takes(job_of<nvfp4, nvfp4>(128, 128, 0)));
  REQUIRE_FALSE(takes(job_of<support::nf4_f32, support::nf4_f32>(128, 128, 64)));
  REQUIRE_FALSE(
      takes(job_of<support::blocks_of<ufp4::int4, e4m3, 8>, support::blocks_of<ufp4::int4, e4m3, 8>>(128, 128, 64)));
  gpu::gemm_job folded = job_of<e1m2_f32, e1m2_f32>(128, 128, 64);
  REQUIRE(takes(folded));
  folded.mode = accumulate::folded_bf16;
  REQUIRE_FALSE(takes(folded));
  for (const int other : {80, 89, 100, 120}) {
    device.architecture = other;
    REQUIRE_FALSE(takes(job_of<nvfp4, nvfp4>(128, 128, 64)));
  }
  device.architecture = 90, device.specific = false;
  REQUIRE_FALSE(takes(job_of<nvfp4, nvfp4>(128, 128, 64)));
}
