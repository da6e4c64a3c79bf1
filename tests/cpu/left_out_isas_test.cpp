// ufp4 - a build with UFP4_ISAS contains the kernels of the listed instruction sets alone, and says so.
// SPDX-License-Identifier: Apache-2.0
// ctest: alone
#undef UFP4_EXTERNAL_KERNELS  // the kernels that other tests share are all
#undef UFP4_ISAS
#define UFP4_ISAS avx2, neon
#include <ufp4/explain.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/rejection.hpp"

using namespace ufp4;

namespace {

#if defined(__aarch64__)
constexpr cpu::isa kept = cpu::isa::neon, left_out = cpu::isa::neon_dotprod;
#else
constexpr cpu::isa kept = cpu::isa::avx2, left_out = cpu::isa::avx512;
#endif

}  // namespace

TEST_CASE("a build contains the listed instruction sets and scalar, whatever the machine has") {
  for (const cpu::isa tier : cpu::all_isas)
    CHECK(cpu::compiled().has(tier) == (tier == kept || tier == cpu::isa::scalar));
}

TEST_CASE("calls run on the best tier that was not left out, with the bits of every other one") {
  const cpu::isa best = cpu::available().has(kept) ? kept : cpu::isa::scalar;
  CHECK(cpu::resolve({}) == best);
  std::vector<float> values(40 * 256), c(40 * 40), scalar_c(40 * 40);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 53) - 26;
  const matrix_view<const float> x{values.data(), 40, 256};
  const cpu::context scalar{.isa = cpu::isa::scalar};
  const auto q = quantize<nvfp4>(x);
  CHECK(q == quantize<nvfp4>(x, scalar));
  const gemm_options exactly{.accumulate = accumulate::exact_blocks};
  quantized_gemm(q, q, matrix_view<float>{c.data(), 40, 40}, exactly);
  quantized_gemm(q, q, matrix_view<float>{scalar_c.data(), 40, 40}, exactly, scalar);
  CHECK(c == scalar_c);
}

TEST_CASE("to ask for a tier that was left out is an error that names the reason, and explain() reports it") {
  const bool here = cpu::available().has(left_out);
  const std::string names = cpu::available().has(kept) ? std::string("scalar, ") + cpu::name(kept) : "scalar";
  CHECK(support::rejection([] { cpu::resolve(cpu::context{.isa = left_out}); }) ==
        std::string("cpu::context::isa: ") + cpu::name(left_out) +
            (here ? " was left out of this build" : " is not on this machine") + "; available: " + names);
  std::vector<float> values(64);
  const std::string text = cpu::explain<nvfp4>(matrix_view<const float>{values.data(), 2, 32}).text();
  CAPTURE(text);
  CHECK((text.find("was left out of this build") != std::string::npos) ==
        !cpu::compiled().has(cpu::available().best()));
}
