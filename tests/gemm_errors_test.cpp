// ufp4 - quantized_gemm: every mistake is named with both values, before anything is written.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/gemm.hpp>

#include "support/catch.hpp"
#include "support/poison.hpp"
#include "support/rejection.hpp"

#include <vector>

using namespace ufp4;

namespace {

const std::vector<float> ones(1 << 14, 1.0f);
matrix_view<const float> sized(std::size_t rows, std::size_t cols) { return {ones.data(), rows, cols}; }

/// The message that a GEMM into a rows x cols matrix is rejected with; C must be as it was.
template <class A, class B>
std::string rejection(const A& a, const B& b, std::size_t rows, std::size_t cols) {
  support::guarded<float> c(rows * cols), poison(rows * cols);
  const std::string text =
      support::rejection([&] { quantized_gemm(a, b, matrix_view<float>{c.data(), rows, cols}, {.beta = 1.0f}); });
  CHECK(c.same_bytes(poison.span()));
  CHECK(c.guards_intact());
  return text;
}

}  // namespace

TEST_CASE("shapes that do not go together are named", "[gemm]") {
  const auto a = quantize<e1m2_f32>(sized(3, 64)), b = quantize<e1m2_f32>(sized(5, 48));
  CHECK(rejection(a, b, 3, 5) == "quantized_gemm: shape mismatch: A has 64 columns (K), B has 48");
  CHECK(rejection(a, operand<e1m2_f32>(sized(5, 48)), 3, 5) ==
        "quantized_gemm: shape mismatch: A has 64 columns (K), B has 48");
  CHECK(rejection(sized(3, 64), b, 3, 5) == "quantized_gemm: shape mismatch: A has 64 columns (K), B has 48");
  const auto same = quantize<e1m2_f32>(sized(5, 64));
  CHECK(rejection(a, same, 4, 5) == "quantized_gemm: shape mismatch: C has 4 rows, A has 3");
  CHECK(rejection(a, same, 3, 6) == "quantized_gemm: shape mismatch: C has 6 columns, B has 5 rows");
  CHECK(rejection(a, sized(5, 64), 3, 3) == "quantized_gemm: shape mismatch: C has 3 columns, B has 5 rows");
}

TEST_CASE("block lengths that differ are named", "[gemm]") {
  const any_quantized a = quantize(spec_of<nvfp4>, sized(3, 64));  // of types known at compile time it does not compile
  const any_quantized b = quantize(spec_of<mxfp4>, sized(5, 64));
  CHECK(rejection(a, b, 3, 5) == "quantized_gemm: block length mismatch: A has 16, B has 32");
  CHECK(rejection(b, operand<nvfp4>(sized(3, 64)), 5, 3) ==
        "quantized_gemm: block length mismatch: A has 32, B has 16");
}

TEST_CASE("transforms that differ are named", "[gemm]") {
  const auto plain = quantize<e1m2_f32>(sized(3, 64));
  const auto h16 = quantize<e1m2_f32>(sized(5, 64), hadamard<16>{});
  const auto h64 = quantize<e1m2_f32>(sized(5, 64), hadamard<64>{});
  const auto seeded = quantize<e1m2_f32>(sized(5, 64), random_hadamard<16>{1});
  const auto reseeded = quantize<e1m2_f32>(sized(5, 64), random_hadamard<16>{2});
  CHECK(rejection(plain, h16, 3, 5) == "quantized_gemm: transform mismatch: A has none, B has hadamard<16>");
  CHECK(rejection(h16, h64, 5, 5) == "quantized_gemm: transform mismatch: A has hadamard<16>, B has hadamard<64>");
  CHECK(rejection(sized(3, 64), h16, 3, 5) == "quantized_gemm: transform mismatch: A has none, B has hadamard<16>");
  const auto words = [](const auto& a, const auto& b) {
    return "quantized_gemm: transform mismatch: hadamard<" + std::to_string(a.transform().n) +
           "> with different signs, first words " + std::to_string(a.transform().signs[0]) + " and " +
           std::to_string(b.transform().signs[0]);
  };
  CHECK(rejection(seeded, reseeded, 5, 5) == words(seeded, reseeded));
  CHECK(rejection(h16, seeded, 5, 5) == words(h16, seeded));
  CHECK(rejection(operand<e1m2_f32>(sized(5, 64), random_hadamard<16>{2}), seeded, 5, 5) == words(reseeded, seeded));

  // Signs that differ beyond the first word differ too.
  std::array<int, 256> signs;
  signs.fill(1);
  const auto before = quantize<e1m2_f32>(sized(5, 256), signed_hadamard<256>(signs));
  signs[255] = -1;
  CHECK_FALSE(rejection(before, quantize<e1m2_f32>(sized(5, 256), signed_hadamard<256>(signs)), 5, 5).empty());

  // Rounding to bf16 after the transform does not change which map it is.
  CHECK(support::rejection([&] {
          std::vector<float> c(25);
          quantized_gemm(h16, quantize<e1m2_f32>(sized(5, 64), hadamard<16>{}.to_bf16()),
                         matrix_view<float>{c.data(), 5, 5});
        }).empty());
}

TEST_CASE("the same random bits on both sides are an error where both are rounded in the call", "[gemm]") {
  const stochastic random_bits{.seed = 7, .stream = 9};
  const auto request = operand<e1m2_f32>(sized(5, 64), random_bits);
  CHECK(rejection(request, operand<int4_f32>(sized(5, 64), random_bits), 5, 5) ==
        "quantized_gemm: A and B use the same random bits: seed 7, stream 9; give one "
        "of them "
        "another stream");
  std::vector<float> c(25);
  const auto accepted = [&](const auto& b) {
    return support::rejection([&] { quantized_gemm(request, b, matrix_view<float>{c.data(), 5, 5}); }).empty();
  };
  CHECK(accepted(operand<int4_f32>(sized(5, 64), stochastic{.seed = 7, .stream = 8})));
  CHECK(accepted(operand<int4_f32>(sized(5, 64), stochastic{.seed = 6, .stream = 9})));
  CHECK(accepted(operand<int4_f32>(sized(5, 64))));
  CHECK(accepted(quantize<int4_f32>(sized(5, 64), random_bits)));
}

TEST_CASE("null memory with a size is named", "[gemm]") {
  const auto a = quantize<e1m2_f32>(sized(3, 32));
  CHECK(support::rejection([&] { quantized_gemm(a, a, matrix_view<float>{nullptr, 3, 3}); }) ==
        "quantized_gemm: C is null, but has 3 x 3 elements");
  const matrix_view<const float> nothing{nullptr, 4, 32};
  CHECK(rejection(a, nothing, 3, 4) == "quantized_gemm: B is null, but has 4 x 32 elements");
  CHECK(rejection(nothing, a, 4, 3) == "quantized_gemm: A is null, but has 4 x 32 elements");
  CHECK(rejection(a, operand<e1m2_f32>(nothing), 3, 4) == "quantized_gemm: x is null, but has 4 x 32 elements");
}

TEST_CASE("C may overlap neither codes nor scales nor a plain operand", "[gemm]") {
  // One piece of memory: 12 floats of C inside the codes, then inside the scales, of a 3 x 64 matrix.
  alignas(16) std::uint8_t memory[256] = {};
  const auto b = quantize<e1m2_f32>(sized(4, 64));
  const auto codes_in = [&](std::size_t at) {
    return quantized_view<e1m2_f32>{{memory + at, 96}, {ones.data(), 12}, 1.0f, 3, 64};
  };
  const auto scales_in = [&](std::size_t at) {
    return quantized_view<e1m2_f32>{
        b.codes().first(96), {reinterpret_cast<const float*>(memory + at), 12}, 1.0f, 3, 64};
  };
  const matrix_view<float> c{reinterpret_cast<float*>(memory + 96), 3, 4};  // bytes 96 .. 143
  const auto said = [&](const auto& left) { return support::rejection([&] { quantized_gemm(left, b, c); }); };
  const auto said_right = [&](const auto& right) {
    return support::rejection([&] { quantized_gemm(b, right, matrix_view<float>{c.data(), 4, 3}); });
  };
  CHECK(said(codes_in(1)) == "quantized_gemm: C overlaps the codes of A");
  CHECK(said(codes_in(143)) == "quantized_gemm: C overlaps the codes of A");
  CHECK(said(codes_in(100)) == "quantized_gemm: C overlaps the codes of A");
  CHECK(said(codes_in(0)) == "");    // ends where C begins
  CHECK(said(codes_in(144)) == "");  // begins where C ends
  CHECK(said_right(codes_in(1)) == "quantized_gemm: C overlaps the codes of B");
  CHECK(said(scales_in(52)) == "quantized_gemm: C overlaps the scales of A");
  CHECK(said(scales_in(140)) == "quantized_gemm: C overlaps the scales of A");
  CHECK(said(scales_in(48)) == "");
  CHECK(said_right(scales_in(140)) == "quantized_gemm: C overlaps the scales of B");

  std::vector<float> x(3 * 64 + 12);
  const auto over_x = [&](std::ptrdiff_t at, auto make) {
    return support::rejection([&] {
      quantized_gemm(make(matrix_view<const float>{x.data(), 3, 64}), b, matrix_view<float>{x.data() + at, 3, 4});
    });
  };
  const auto as_request = [](auto view) { return operand<e1m2_f32>(view); };
  const auto as_is = [](auto view) { return view; };
  const auto as_unquantized = [](auto view) { return unquantized(view); };
  CHECK(over_x(191, as_request) == "quantized_gemm: C overlaps A");
  CHECK(over_x(0, as_is) == "quantized_gemm: C overlaps A");
  CHECK(over_x(180, as_unquantized) == "quantized_gemm: C overlaps A");
  CHECK(support::rejection([&] {  // columns of one buffer
          quantized_gemm(matrix_view<const float>{x.data(), 3, 56, 68}, quantize<e1m2_f32>(sized(4, 56)),
                         matrix_view<float>{x.data() + 60, 3, 4, 68});
        }) == "");
  CHECK(over_x(192, as_request) == "");
  CHECK(over_x(192, as_is) == "");
}

TEST_CASE("a mode or an instruction set that is a number of nobody's is rejected", "[gemm]") {
  const auto a = quantize<e1m2_f32>(sized(3, 64)), b = quantize<e1m2_f32>(sized(4, 64));
  std::vector<float> c(12, 5.0f);
  const matrix_view<float> out{c.data(), 3, 4};
  CHECK(support::rejection([&] { quantized_gemm(a, b, out, {.accumulate = static_cast<accumulate>(3)}); }) ==
        "quantized_gemm: invalid accumulate mode 3");
  CHECK(support::rejection([&] {
          quantized_gemm(a, b, out, cpu::context{.isa = static_cast<cpu::isa>(99)});
        }).starts_with("cpu::context::isa: 99 is not an instruction set of ufp4; available: scalar"));
  CHECK(c == std::vector<float>(12, 5.0f));
}

TEST_CASE("mistakes in the policies of an operand on the fly are named as quantize names them", "[gemm]") {
  const auto b = quantize<e1m2_f32>(sized(4, 64));
  CHECK(rejection(operand<e1m2_f32>(sized(3, 64), mx_ceil{}), b, 3, 4) ==
        "quantized_gemm: mx_floor, mx_even and mx_ceil are for e8m0 scales");
  CHECK(rejection(b, operand<nvfp4>(sized(3, 64), tensor_amax{-1.0f}), 4, 3)
            .find("tensor_amax must be finite and >= 0, got -1") != std::string::npos);
  const signed_hadamard<16> wrong(std::array<int, 16>{2});
  const std::string signs = "quantized_gemm: signed_hadamard was given a sign that is neither +1 nor -1";
  const auto turned = quantize<e1m2_f32>(sized(4, 64), hadamard<16>{});
  CHECK(rejection(operand<e1m2_f32>(sized(3, 64), wrong), operand<e1m2_f32>(sized(4, 64), wrong), 3, 4) == signs);
  // None of the bad signs is -1, so as a map this is the plain transform: the sign is what is rejected.
  CHECK(rejection(unquantized(sized(3, 64), wrong), turned, 3, 4) == signs);
}

TEST_CASE("a tier that the machine lacks is rejected before anything is written", "[gemm]") {
  const auto a = quantize<e1m2_f32>(sized(3, 64));
  const cpu::isa absent = cpu::available().has(cpu::isa::neon) ? cpu::isa::amx : cpu::isa::neon_i8mm;
  support::guarded<float> c(9), poison(9);
  const std::string text = support::rejection(
      [&] { quantized_gemm(a, a, matrix_view<float>{c.data(), 3, 3}, cpu::context{.isa = absent}); });
  CHECK(text.find("cpu::context::isa: " + std::string(cpu::name(absent)) + " is not on this machine") == 0);
  CHECK(c.same_bytes(poison.span()));
}
