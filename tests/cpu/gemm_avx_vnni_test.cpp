// ufp4 - the AVX-VNNI kernel of quantized_gemm: the scalar bits, in the encoding that processors with AVX-512 have too.
// SPDX-License-Identifier: Apache-2.0
// ctest: separate bits
#include <ufp4/cpu/kernels.hpp>
#include <ufp4/gemm.hpp>

#include "support/catch.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"

#include <cmath>
#include <vector>

#if defined(__x86_64__)

using namespace ufp4;

namespace {

namespace kernels = ufp4::cpu::detail;

constexpr const char* no_avx512 = "there is no AVX-512 VNNI, whose encoding of vpdpbusd this test runs";

bool runs_here() { return cpu::available().has(cpu::isa::avx512); }

/// One product by the kernel itself, as the driver would run it: packed whole, part after part.
template <class A, class B>
void check(const A& a, const B& b, accumulate mode) {
  using blocked = kernels::blocked_gemm<kernels::avx2::int8_gemm<kernels::avx2::dots_in_32_bits<false>>>;
  CAPTURE(a.rows(), b.rows(), a.cols());
  const std::size_t m = a.rows(), n = b.rows();
  support::guarded<float> got(m * n), want(m * n);
  const gemm_options options{.accumulate = mode};
  const auto job = detail::gemm_job_of(a, b, detail::sink_of(matrix_view<float>{got.data(), m, n}), options);
  REQUIRE(kernels::avx2::int8_kernel<kernels::avx2::dots_in_32_bits<true>>.takes(job));
  detail::buffer<std::byte> left(blocked::left_bytes(job, m)), scratch(blocked::scratch_bytes(job, m));
  blocked::pack_left(job, 0, m, left.data());
  blocked::multiply(job, {0, m, 0, n}, left.data(), scratch.data());
  quantized_gemm(a, b, matrix_view<float>{want.data(), m, n}, {.accumulate = accumulate::exact_blocks},
                 cpu::context{.threads = 1, .isa = cpu::isa::scalar});
  bool equal = true;
  for (std::size_t i = 0; i < m * n; ++i)  // where the sum overflows, fast gives the true value
    equal = equal && (support::same_number(got[i], want[i]) || !std::isfinite(want[i]));
  REQUIRE(equal);
  REQUIRE(got.guards_intact());
}

template <class A, class B>
void check_shapes(std::mt19937_64& gen, std::size_t k) {
  for (const std::size_t m : {1u, 2u, 3u, 4u, 5u, 9u})
    for (const std::size_t n : {1u, 7u, 8u, 16u, 17u, 33u})
      check(model::random_quantized<A>(gen, m, k, model::scales::hostile),
            model::random_quantized<B>(gen, n, k, model::scales::hostile), accumulate::fast);
}

}  // namespace

TEST_CASE("vpdpbusd on eight columns gives the scalar bits for every grid, scale and tail", "[avx_vnni]") {
  if (!runs_here()) return support::skip(no_avx512);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  for (const std::size_t k : {16u, 90u, 1100u}) {
    check_shapes<e1m2_f32, nvfp4>(gen, k);
    check_shapes<mxfp4, mxint4>(gen, k);
  }
  check_shapes<block_format<fp4<E3M0>, ufp4::bf16, 16>, block_format<fp4<E3M0>, ue5m3, square(16), float>>(gen, 70);
  check_shapes<block_format<fp4<E3M0>, float, 256>, block_format<fp4<E2M1>, e4m3, 256>>(gen, 300);
}

TEST_CASE("vpdpbusd gives the scalar bits for elements of one byte on either side", "[avx_vnni]") {
  if (!runs_here()) return support::skip(no_avx512);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  check_shapes<int8_f32, nvfp4>(gen, 90);
  check_shapes<mxint8, mxfp4>(gen, 1100);
  check_shapes<nvfp4, int8_f32>(gen, 90);
  check_shapes<mxint8, mxint8>(gen, 300);
}

TEST_CASE("sums beyond 16 bits, which AVX2 rejects, are exact", "[avx_vnni]") {
  if (!runs_here()) return support::skip(no_avx512);
  auto a = quantized_matrix<block_format<fp4<E3M0>, float, 256>>(4, 256);
  auto b = quantized_matrix<block_format<fp4<E3M0>, float, 256>>(16, 256);
  for (auto& byte : a.codes()) byte = 0x77;  // 16 everywhere: a dot product of 65536
  for (auto& byte : b.codes()) byte = 0xFF;
  for (auto& s : a.scales()) s = 1;
  for (auto& s : b.scales()) s = 1;
  const auto job = detail::gemm_job_of(a, b, {}, {});
  CHECK_FALSE(kernels::avx2::int8_kernel<kernels::avx2::pairs_in_16_bits>.takes(job));
  check(a, b, accumulate::exact_blocks);
}

#endif
