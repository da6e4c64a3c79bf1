// ufp4 - cpu::explain: the kernel that every shape class runs on every tier, so that no fallback hides.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/explain.hpp>
#include <ufp4/format/table_element.hpp>

#include "support/catch.hpp"
#include "support/rejection.hpp"
#include "support/threads.hpp"

#include <string>
#include <vector>

using namespace ufp4;

namespace {

std::vector<float> memory(1 << 14, 1.0f);
/// Only shapes matter: explain reads no element.
matrix_view<float> sized(std::size_t rows, std::size_t cols) { return {memory.data(), rows, cols}; }
template <class T>
matrix_view<const T> sized_as(std::size_t rows, std::size_t cols) {
  static const std::vector<T> one(1);
  return {one.data(), rows, cols};
}

/// A kernel's name for each tier, in the order of cpu::all_isas.
struct expected {
  const char *scalar, *avx2, *avx_vnni, *avx512, *avx512_bf16, *amx, *neon, *neon_dotprod, *neon_i8mm, *neon_bf16;
  const char* on(cpu::isa tier) const {
    const char* const names[] = {scalar, avx2, avx_vnni,     avx512,    avx512_bf16,
                                 amx,    neon, neon_dotprod, neon_i8mm, neon_bf16};
    for (std::size_t i = 0; i < std::size(names); ++i)
      if (cpu::all_isas[i] == tier) return names[i];
    return "";
  }
};

constexpr expected int8_kernels = {"gemm_scalar",      "gemm_int8_avx2",   "gemm_int8_avx_vnni", "gemm_int8_avx512",
                                   "gemm_int8_avx512", "gemm_int8_avx512", "gemm_int8_neon",     "gemm_int8_dotprod",
                                   "gemm_int8_i8mm",   "gemm_int8_i8mm"};
constexpr expected float_kernels = {"gemm_scalar",     "gemm_f32_avx2",   "gemm_f32_avx2", "gemm_f32_avx512",
                                    "gemm_f32_avx512", "gemm_f32_avx512", "gemm_f32_neon", "gemm_f32_neon",
                                    "gemm_f32_neon",   "gemm_f32_neon"};

constexpr expected with_amx(expected e, const char* kernel) {
  e.amx = kernel;
  return e;
}
constexpr expected with_avx512(expected e, const char* kernel) {
  e.avx512 = e.avx512_bf16 = e.amx = kernel;
  return e;
}

/// explain says so on every tier of this machine. The choice of the amx tier is a question of shapes, so it can be
/// asked wherever its parent runs.
template <class A, class B>
void check(const expected& want, const A& a, const B& b, std::size_t m, std::size_t n, accumulate mode) {
  const gemm_options options{.accumulate = mode};
  for (const cpu::isa tier : support::runnable_isas()) {
    CAPTURE(cpu::name(tier), m, n, ufp4::detail::name(mode));
    const cpu::explanation e = cpu::explain(a, b, sized(m, n), options, cpu::context{.isa = tier});
    CHECK(std::string(e.kernel) == want.on(tier));
    CHECK(e.text().find(e.kernel) != std::string::npos);
  }
  if (!cpu::available().has(cpu::isa::avx512_bf16)) return;
  const auto job = detail::gemm_job_of(a, b, detail::sink_of(sized(m, n)), options);
  CAPTURE(m, n, ufp4::detail::name(mode));
  cpu::detail::gemm_job_place place;
  const auto plan =
      cpu::detail::plan_gemm(cpu::detail::kernels::gemm<ufp4::detail::features::all>, job, cpu::isa::amx, place);
  CHECK(std::string(plan.kernel->name) == want.amx);
}

template <class A, class B>
void check(const expected& want, std::size_t m, std::size_t n, accumulate mode) {
  check(want, operand<A>(sized(m, 4096)), operand<B>(sized(n, 4096)), m, n, mode);
}

constexpr accumulate fast = accumulate::fast, exact = accumulate::exact_blocks, folded = accumulate::folded_bf16;

}  // namespace

TEST_CASE("many rows of exact grids run the integer kernels, or tiles where there are any", "[explain]") {
  for (const std::size_t m : {16u, 128u, 512u}) {
    check<nvfp4, nvfp4>(with_amx(int8_kernels, "gemm_bf16_amx"), m, 4096, fast);
    check<mxfp4, mxint4>(with_amx(int8_kernels, "gemm_bf16_amx"), m, 4096, fast);
    check<e1m2_f32, e1m2_f32>(with_amx(int8_kernels, "gemm_blocks_amx"), m, 4096, fast);
    check<nvfp4, e2m1_f32>(with_amx(int8_kernels, "gemm_blocks_amx"), m, 4096, exact);
    check<mx_e1m2, mxfp4>(with_amx(int8_kernels, "gemm_blocks_amx"), m, 4096, exact);
  }
  check<nv_e1m2, nvint4>(int8_kernels, 3, 4096, fast);
  check<e1m2_f32, int4_f32>(int8_kernels, 8, 4096, exact);
}

TEST_CASE("one row streams the weights, and one column does on its side", "[explain]") {
  for (const accumulate mode : {fast, exact}) {
    check<nvfp4, nvfp4>(with_avx512(int8_kernels, "gemv_int8_avx512"), 1, 4096, mode);
    check<mxfp4, mxfp4>(with_avx512(int8_kernels, "gemv_int8_avx512"), 1, 4096, mode);
    check<e1m2_f32, e1m2_f32>(with_avx512(int8_kernels, "gemv_int8_avx512"), 4096, 1, mode);
  }
}

TEST_CASE("folded_bf16 runs bf16 units where it rounds, and the exact kernel where there is nothing to round",
          "[explain]") {
  expected wide = float_kernels;
  wide.avx512_bf16 = "gemm_bf16_avx512";
  wide.amx = "gemm_bf16_amx";
  wide.neon_bf16 = "gemm_bf16_neon";
  check<e1m2_f32, e1m2_f32>(wide, 128, 4096, folded);
  check<e2m1_f32, int4_f32>(wide, 16, 4096, folded);
  check<nvfp4, e1m2_f32>(wide, 16, 4096, folded);
  check<nvfp4, nv_e1m2>(with_amx(int8_kernels, "gemm_bf16_amx"), 128, 4096, folded);
  check<mxfp4, mxint4>(with_amx(int8_kernels, "gemm_bf16_amx"), 16, 4096, folded);
  check<nvint4, nvfp4>(with_avx512(int8_kernels, "gemv_int8_avx512"), 1, 4096, folded);
}

TEST_CASE("plain operands and grids without exact products run the binary32 kernels", "[explain]") {
  using nf4_f32 = block_format<nf4, float, 16>;
  for (const accumulate mode : {fast, exact}) {
    check<nf4_f32, nf4_f32>(float_kernels, 128, 4096, mode);
    check(float_kernels, sized_as<bf16>(128, 4096), operand<nf4_f32>(sized(4096, 4096)), 128, 4096, mode);
    check(float_kernels, sized(128, 4096), operand<nvfp4>(sized(4096, 4096)), 128, 4096, mode);
    check(float_kernels, operand<mxfp4>(sized(128, 4096)), unquantized(sized(4096, 4096)), 128, 4096, mode);
  }
}

TEST_CASE("bf16 and fp16 rows that are not quantized run on bf16 units in fast mode", "[explain]") {
  for (const std::size_t m : {1u, 2u, 128u}) {
    expected plain = float_kernels;
    if (m != 2) plain.avx512_bf16 = plain.amx = m == 1 ? "gemv_mixed_avx512" : "gemm_mixed_avx512";
    expected folded_scales = plain;  // 8 bits: value * scale is a bf16 number
    folded_scales.neon_bf16 = "gemm_bf16_neon";
    if (m == 128) folded_scales.amx = "gemm_bf16_amx";
    const auto nv = operand<nvfp4>(sized(4096, 4096));
    const auto mx = operand<mxfp4>(sized(4096, 4096));
    const auto wide = operand<e1m2_f32>(sized(4096, 4096));
    check(folded_scales, sized_as<bf16>(m, 4096), nv, m, 4096, fast);
    check(folded_scales, sized_as<bf16>(m, 4096), mx, m, 4096, fast);
    check(plain, sized_as<bf16>(m, 4096), wide, m, 4096, fast);
    check(float_kernels, sized_as<bf16>(m, 4096), nv, m, 4096, exact);
    check(float_kernels, sized(m, 4096), nv, m, 4096, fast);
    check(plain, sized_as<fp16>(m, 4096), mx, m, 4096, fast);
    // An element of fp16 is two numbers of bf16: without folded scales several rows are faster in binary32.
    check(m == 1 ? plain : float_kernels, sized_as<fp16>(m, 4096), wide, m, 4096, fast);
  }
}

TEST_CASE("the other operations run the vector kernel of their tier, and say where they do not", "[explain]") {
  const std::string scalar = "scalar";
  for (const cpu::isa tier : support::runnable_isas()) {
    const cpu::context ctx{.isa = tier};
    std::string best = cpu::name(tier);
    if (best == "avx_vnni") best = "avx2";
    if (best == "avx512_bf16" || best == "amx") best = "avx512";
    if (best.rfind("neon", 0) == 0) best = "neon";
    CAPTURE(cpu::name(tier));
    const auto x = sized(64, 128);
    const auto q = quantize<nvfp4>(x);
    CHECK(cpu::explain<nvfp4>(x, random_hadamard<16>{1}, stochastic{2}, ctx).kernel == "quantize_" + best);
    CHECK(cpu::explain<mx_e1m2>(transpose(x), mx_ceil{}, ctx).kernel == "quantize_" + best);
    CHECK(cpu::explain<e1m2_f32>(x, mse_search{}, ctx).kernel == "quantize_" + best);
    using squares = block_format<fp4<E2M1>, e4m3, square(16), float>;
    CHECK(cpu::explain<squares>(x, mse_search{}, ctx).kernel == "quantize_" + best);
    CHECK(cpu::explain<tetrajet2>(x, mae_search{}, ctx).kernel == "quantize_" + best);
    for (const format_spec& format : {spec_of<if4>, spec_of<razer>, spec_of<hif4>})
      CHECK(cpu::explain(format, x, mse_search{}, ctx).kernel == "quantize_" + best);
    using irregular = block_format<nf4, e6m2, grouped(32, 16)>;
    CHECK(cpu::explain<irregular>(x, mse_search{}, ctx).kernel == std::string("quantize_scalar"));
    CHECK(cpu::explain<mxfp8_e4m3>(x, stochastic{2}, mse_search{}, ctx).kernel == "quantize_" + best);
    CHECK(cpu::explain<compat::ggml_mxfp4>(x, ctx).kernel == std::string("quantize_scalar"));
    CHECK(cpu::explain(x, x, hadamard<64>{}, ctx).kernel == "hadamard_" + best);
    CHECK(std::string(cpu::explain(q, x, ctx).kernel).rfind("dequantize_" + best, 0) == 0);
    CHECK(std::string(cpu::explain(quantize<if4>(x), x, ctx).kernel).rfind("dequantize_" + best, 0) == 0);
    for (const format_spec& format : {spec_of<block_format<int4, float, 8>>, spec_of<mxfp8_e4m3>,
                                      spec_of<block_format<ufp4::int8, e4m3, 16, per_row<float>>>})
      CHECK(cpu::explain(quantize(format, x), x, ctx).kernel == std::string("dequantize_scalar"));
    if (tier != cpu::isa::scalar) {
      CHECK(cpu::explain<irregular>(x, mse_search{}, ctx).note ==
            "no " + std::string(cpu::name(tier)) + " kernel takes this call");
    }
  }
}

TEST_CASE("explain says how sums are made, and rejects a tier that is not there", "[explain]") {
  const auto qx = operand<nvfp4>(sized(128, 4096)), qw = operand<nvfp4>(sized(4096, 4096));
  const cpu::explanation scalar = cpu::explain(qx, qw, sized(128, 4096), cpu::context{.isa = cpu::isa::scalar});
  CHECK(scalar.text() == "quantized_gemm: gemm_scalar (scalar), tiles of 1 x 1 x 1, accumulate fast");
  if (cpu::available().has(cpu::isa::avx512)) {
    const cpu::explanation e = cpu::explain(qx, qw, sized(128, 4096), cpu::context{.isa = cpu::isa::avx512});
    CHECK(e.text() == "quantized_gemm: gemm_int8_avx512 (avx512), tiles of 8 x 16 x 4, accumulate exact_blocks");
  }
  for (const cpu::isa tier : cpu::all_isas)
    if (!cpu::available().has(tier))
      CHECK_FALSE(
          support::rejection([&] { cpu::explain(qx, qw, sized(128, 4096), cpu::context{.isa = tier}); }).empty());
}
