// ufp4 - GEMM by the block-scaled MFMA of gfx950: the bound of fast, and NaN where a scale is NaN.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/amd_targets.hpp"
#include "gpu/gemm_fast_check.hpp"

#include "support/skip.hpp"

#if !defined(__CUDACC__)
#include <ufp4/hip/gemm_scaled_gfx950.hpp>

using namespace ufp4;

namespace {

namespace kernels = gpu::kernels;

using support::check_bound, support::check_nan_scales, support::check_shapes, support::product_of, support::same_bits,
    support::with_powers, support::shifted;
using support::simulated_amd;

/// Whether the device, real or simulated, has the instruction.
bool can_run_here() {
  gpu::device_facts device;
  if (gpu::facts(device) == gpu::success && device.architecture == 0x950) return true;
  support::skip("v_mfma_scale needs a gfx950");
  return false;
}

constexpr const gpu::gemm_kernel &mx = kernels::gemm_mxfp4_gfx950<>, &bytes = kernels::gemm_mx_containers_gfx950<>;

/// Every way in which K, M and N may be ragged: within a block, within the 128 of an instruction, beyond the steps in
/// shared memory; within a wave's tile and beyond a thread block's; scales on 4 bytes and not.
constexpr support::product_shape shapes[] = {{1, 1, 1},   {17, 5, 48},   {5, 70, 112},  {40, 21, 128},
                                             {9, 9, 300}, {7, 18, 1040}, {130, 129, 96}};

// ---- The instruction by itself ----

namespace mma = gpu::mma;

struct probe_job {
  const std::uint8_t *a, *b, *scale_a, *scale_b;  ///< 16 x 128 codes, a byte each; 16 x 4 scales
  float* d;                                       ///< 16 x 16
};

/// 16 codes of a lane's row, from `column` on, as half `half` of its registers.
template <mma::f8f6f4 element>
UFP4_DEVICE void gather(const std::uint8_t* row, unsigned half, std::uint32_t (&to)[mma::bits_of(element)]) {
  constexpr unsigned bits = mma::bits_of(element);
  for (unsigned e = 0; e < 16; ++e)
    for (unsigned bit = 0; bit < bits; ++bit) {
      const unsigned at = (16 * half + e) * bits + bit;
      to[at / 32] |= static_cast<std::uint32_t>(row[e] >> bit & 1) << at % 32;
    }
}

template <mma::f8f6f4 A, mma::f8f6f4 B>
UFP4_KERNEL(64)
probe(const probe_job job) {
  using op = mma::mfma_scale_gfx950<A, B>;
  const unsigned l = gpu::lane(), row = l % 16, scale = 4 * row + op::block_of_scale(l);
  std::uint32_t a[op::words_a] = {}, b[op::words_b] = {};
  for (unsigned half = 0; half < 2; ++half) {
    gather<A>(job.a + 128 * row + op::first_column(l, half), half, a);
    gather<B>(job.b + 128 * row + op::first_column(l, half), half, b);
  }
  float d[op::sums];
  for (unsigned i = 0; i < op::sums; ++i) d[i] = static_cast<float>(16 * op::row_of_sum(l, i) + row);
  if constexpr (op::compiled) op::multiply(d, a, b, 0xABCDEF00u | job.scale_a[scale], 0x01020300u | job.scale_b[scale]);
  for (unsigned i = 0; i < op::sums; ++i) job.d[16 * op::row_of_sum(l, i) + row] = d[i];
}

/// Random codes of a sign, 1.x or 2.x: sums of their products by powers of two near 1 are exact.
struct probe_operand {
  std::vector<std::uint8_t> codes, scales;
  std::vector<double> values;
};
probe_operand random_operand(std::mt19937_64& gen, mma::f8f6f4 element) {
  struct layout {
    unsigned exponent, mantissa, bias;
  };
  constexpr layout layouts[] = {{4, 3, 7}, {5, 2, 15}, {2, 3, 1}, {3, 2, 3}, {2, 1, 1}};
  const auto [exponent, mantissa, bias] = layouts[static_cast<unsigned>(element)];
  probe_operand all;
  for (unsigned i = 0; i < 64; ++i) all.scales.push_back(static_cast<std::uint8_t>(126 + gen() % 3));
  for (unsigned i = 0; i < 16 * 128; ++i) {
    const auto negative = static_cast<unsigned>(gen() % 2), twice = static_cast<unsigned>(gen() % 2);
    const auto fraction = static_cast<unsigned>(gen() % (1u << mantissa));
    all.codes.push_back(static_cast<std::uint8_t>(((negative << exponent | (bias + twice)) << mantissa) | fraction));
    const double magnitude = (1 + static_cast<double>(fraction) / (1u << mantissa)) * (1 + twice);
    all.values.push_back((negative == 1 ? -magnitude : magnitude) * std::ldexp(1.0, all.scales[i / 32] - 127));
  }
  return all;
}

template <mma::f8f6f4 A, mma::f8f6f4 B>
void check_instruction(std::mt19937_64& gen) {
  CAPTURE(static_cast<int>(A), static_cast<int>(B));
  const probe_operand a = random_operand(gen, A), b = random_operand(gen, B);
  const auto there = [](const std::vector<std::uint8_t>& v) {
    return gpu::buffer<std::uint8_t>{std::span<const std::uint8_t>(v)};
  };
  const auto codes_a = there(a.codes), codes_b = there(b.codes), scales_a = there(a.scales), scales_b = there(b.scales);
  const gpu::buffer<float> d(256);
  const probe_job job{codes_a.data(), codes_b.data(), scales_a.data(), scales_b.data(), d.data()};
  REQUIRE(gpu::launch(&probe<A, B>, {1}, {64}, 0, gpu::stream{}, job) == gpu::success);
  const std::vector<float> got = support::on_host(d);
  for (unsigned i = 0; i < 256; ++i) {
    double sum = i;
    for (unsigned k = 0; k < 128; ++k) sum += a.values[128 * (i / 16) + k] * b.values[128 * (i % 16) + k];
    REQUIRE(static_cast<double>(got[i]) == sum);
  }
}

}  // namespace

TEST_CASE("v_mfma_scale's operands, scales and sums are in the documented places for every pair of formats", "[gpu]") {
  const simulated_amd device(0x950);
  if (!can_run_here()) return;
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(11)};
  using enum mma::f8f6f4;
  const auto with_bytes = [&]<mma::f8f6f4 A>() { check_instruction<A, e4m3>(gen), check_instruction<A, e5m2>(gen); };
  with_bytes.template operator()<e4m3>();
  with_bytes.template operator()<e5m2>();
  const auto with_fewer = [&]<mma::f8f6f4 A>() {
    check_instruction<A, e2m3>(gen), check_instruction<A, e3m2>(gen), check_instruction<A, e2m1>(gen);
  };
  with_fewer.template operator()<e2m3>();
  with_fewer.template operator()<e3m2>();
  with_fewer.template operator()<e2m1>();
}

TEST_CASE("products by the block-scaled MFMA are within the bound of fast for every ragged shape", "[gpu]") {
  const simulated_amd device(0x950);
  if (!can_run_here()) return;
  SECTION("mxfp4") { check_shapes<mxfp4, mxfp4>(mx, shapes); }
  SECTION("mxfp4 x mxfp4 in squares of 32") {
    check_shapes<mxfp4, block_format<fp4<E2M1>, e8m0, square(32)>>(mx, shapes);
  }
  SECTION("mx_e1m2 x mxint4") { check_shapes<mx_e1m2, mxint4>(bytes, shapes); }
  SECTION("mxfp4 x mxint4") { check_shapes<mxfp4, mxint4>(bytes, shapes); }
  SECTION("mx_e1m2 in squares of 32 x mxfp4") {
    check_shapes<block_format<fp4<E1M2>, e8m0, square(32)>, mxfp4>(bytes, shapes);
  }
  SECTION("E3M0 x mx_e1m2") { check_shapes<block_format<fp4<E3M0>, e8m0, 32>, mx_e1m2>(bytes, shapes); }
}

TEST_CASE("the block-scaled MFMA keeps the bound over the whole range of e8m0 scales", "[gpu]") {
  const simulated_amd device(0x950);
  if (!can_run_here()) return;
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  support::check_e8m0_range(mx, bytes, gen, 160);
}

TEST_CASE("the block-scaled MFMA gives the bits of exact_blocks if every sum is exact", "[gpu]") {
  const simulated_amd device(0x950);
  if (!can_run_here()) return;
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  const auto check = [&]<class A, class B>(const gpu::gemm_kernel& kernel, const quantized_matrix<A>& a,
                                           const quantized_matrix<B>& b) {
    CAPTURE(kernel.name, a.rows(), b.rows(), a.cols());
    const std::vector<float> want = model::exact_blocks(model::side_of(a), model::side_of(b), -2.5f);
    REQUIRE(same_bits(product_of(kernel, a, b, {.alpha = -2.5f}), want));
  };
  for (const std::size_t k : {32u, 96u, 130u, 520u}) {
    check(mx, with_powers(gen, model::random_quantized<mxfp4>(gen, 70, k), 127, 3),
          with_powers(gen, model::random_quantized<mxfp4>(gen, 66, k), 127, 3));
    check(bytes, with_powers(gen, model::random_quantized<mxint4>(gen, 70, k), 127, 3),
          with_powers(gen, model::random_quantized<mx_e1m2>(gen, 66, k), 127, 3));
  }
}

#if defined(UFP4_SIMT_HEADER)
TEST_CASE("the bound holds for a matrix unit that truncates", "[gpu]") {
  const simulated_amd device(0x950);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(5)};
  simt::settings().sums = simt::mma_sums::truncated;
  for (const std::size_t k : {32u, 64u, 530u}) {
    check_bound(mx, model::random_quantized<mxfp4>(gen, 9, k), model::random_quantized<mxfp4>(gen, 20, k));
    check_bound(bytes, model::random_quantized<mxint4>(gen, 9, k), model::random_quantized<mx_e1m2>(gen, 20, k));
  }
  simt::settings().sums = simt::mma_sums::nearest;
}

TEST_CASE("the scaled kernels give the same bits in every order of threads and blocks", "[gpu]") {
  const simulated_amd device(0x950);
  std::mt19937_64 gen{support::seed(8)};
  const auto a = model::random_quantized<mxfp4>(gen, 130, 416), b = model::random_quantized<mxfp4>(gen, 20, 416);
  const auto c = model::random_quantized<mxint4>(gen, 20, 416);
  const std::vector<float> first = product_of(mx, a, b), second = product_of(bytes, a, c);
  support::in_every_order([&](const char* order) {
    CAPTURE(order);
    REQUIRE(same_bits(product_of(mx, a, b), first));
    REQUIRE(same_bits(product_of(bytes, a, c), second));
  });
}
#endif

TEST_CASE("a NaN scale reaches every product of its block and no other, by the block-scaled MFMA", "[gpu]") {
  const simulated_amd device(0x950);
  if (!can_run_here()) return;
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(6)};
  check_nan_scales(mx, model::random_quantized<mxfp4>(gen, 6, 160), model::random_quantized<mxfp4>(gen, 9, 160));
  check_nan_scales(bytes, model::random_quantized<mxint4>(gen, 6, 160), model::random_quantized<mxfp4>(gen, 9, 160));
}

TEST_CASE("unaligned codes and scales give the bits of aligned ones by the block-scaled MFMA", "[gpu]") {
  const simulated_amd device(0x950);
  if (!can_run_here()) return;
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(7)};
  const auto a = model::random_quantized<mxfp4>(gen, 6, 200), b = model::random_quantized<mxfp4>(gen, 9, 200);
  const std::vector<float> want = product_of(mx, a, b);
  for (const std::size_t codes : {0u, 1u, 4u})
    for (const std::size_t scales : {0u, 1u, 4u}) {
      CAPTURE(codes, scales);
      const shifted<mxfp4> left(a, codes, 0), right(b, 0, scales);
      REQUIRE(same_bits(product_of(mx, left.view(), right.view()), want));
    }
}

TEST_CASE("a group's products by the block-scaled MFMA are the bits of each alone", "[gpu]") {
  const simulated_amd device(0x950);
  if (!can_run_here()) return;
  gpu::device_facts facts;
  REQUIRE(gpu::facts(facts) == gpu::success);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(9)};
  struct one {
    quantized_matrix<mxint4> a;
    quantized_matrix<mxfp4> b;
    gpu::quantized_matrix<mxint4> there_a{a.view()};
    gpu::quantized_matrix<mxfp4> there_b{b.view()};
    gpu::buffer<float> c{a.rows() * b.rows()};
  };
  std::vector<one> all;
  std::vector<gpu::gemm_job> jobs;
  for (const std::size_t rows : {5u, 140u, 17u})
    all.push_back({model::random_quantized<mxint4>(gen, rows, 96), model::random_quantized<mxfp4>(gen, 21, 96)});
  for (one& x : all)
    jobs.push_back(gpu::detail::call_of(x.there_a.view(), x.there_b.view(),
                                        detail::sink_of(matrix_view<float>{x.c.data(), x.a.rows(), 21}), {}, {})
                       .job);
  REQUIRE(bytes.run_group(jobs, facts, gpu::stream{}) == gpu::success);
  for (const one& x : all) REQUIRE(same_bits(support::on_host(x.c), product_of(bytes, x.a, x.b)));
}

TEST_CASE("explain names v_mfma_scale for e8m0 scales in fast on gfx950 alone", "[gpu]") {
  const auto explained = [](int architecture, const auto& a, const auto& b, accumulate mode) {
    const simulated_amd device(architecture);
    const gpu::quantized_matrix left{a.view()};
    const gpu::quantized_matrix right{b.view()};
    float c = 0;
    return gpu::explain(gpu::context{}, left, right, matrix_view<float>{&c, a.rows(), b.rows()}, {.accumulate = mode});
  };
  if (const simulated_amd device(0x950); !can_run_here()) return;
  std::mt19937_64 gen{1};
  const auto powers = model::random_quantized<mxfp4>(gen, 256, 64);
  const auto whole = model::random_quantized<mxint4>(gen, 256, 64);
  const auto nv = model::random_quantized<nvfp4>(gen, 256, 64);
  CHECK(std::string(explained(0x950, powers, powers, accumulate::fast).kernel) == "gemm_mxfp4_gfx950");
  CHECK(std::string(explained(0x950, powers, whole, accumulate::fast).kernel) == "gemm_mx_containers_gfx950");
  CHECK(std::string(explained(0x950, whole, whole, accumulate::fast).kernel) == "gemm_mx_containers_gfx950");
  CHECK(std::string(explained(0x950, powers, powers, accumulate::fast).instruction) ==
        "v_mfma_scale_f32_16x16x128_f8f6f4");
  const auto is_scaled = [](const gpu::explanation& e) {
    return std::string(e.instruction).find("mfma_scale") != std::string::npos;
  };
  CHECK_FALSE(is_scaled(explained(0x950, powers, powers, accumulate::exact_blocks)));
  CHECK_FALSE(is_scaled(explained(0x950, nv, nv, accumulate::fast)));
#if defined(UFP4_SIMT_HEADER)
  CHECK_FALSE(is_scaled(explained(0x942, powers, powers, accumulate::fast)));
  CHECK_FALSE(is_scaled(explained(0x1201, powers, whole, accumulate::fast)));
#endif
}

TEST_CASE("with K = 0 the kernels of the block-scaled MFMA write beta * C", "[gpu]") {
  const simulated_amd device(0x950);
  if (!can_run_here()) return;
  const quantized_matrix<mxfp4> a(3, 0), b(2, 0);
  CHECK(product_of(mx, a, b) == std::vector<float>(6, 0.0f));
  CHECK(product_of(mx, a, b, {.beta = 2}, {1, 2, 3, 4, 5, 6}) == std::vector<float>{2, 4, 6, 8, 10, 12});
}

#else

TEST_CASE("the block-scaled MFMA is AMD's", "[gpu]") { SUCCEED(); }

#endif
