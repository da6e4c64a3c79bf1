// ufp4 - fuzz target: quantized_gemm of any two sides into any matrix, each tier against the scalar one.
// SPDX-License-Identifier: Apache-2.0
//
// Codes and scales are bytes of the input, also NaN scales. exact_blocks: the same numbers on every tier and on two
// threads. The other modes: the same on two threads. Shapes that do not fit are rejected with the same message, and C
// is unchanged.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ufp4/gemm.hpp>

#include <ufp4/block/presets.hpp>

#include "input.hpp"
#include "policies.hpp"

namespace {

using namespace ufp4;
using fuzz::require;

struct shape {
  std::size_t rows_a, rows_b, cols_a, cols_b, rows_c, cols_c;
  transform_spec transform_a, transform_b;
};

/// Sizes that fit, except in a few cases.
shape read_shape(fuzz::input& in) {
  const bool wide = in.one_in(8);
  const std::size_t m = in.below(wide ? 140 : 20), n = in.below(wide ? 140 : 20),
                    k = in.below(in.one_in(8) ? 1100 : 100);
  const transform_spec t = fuzz::transform(in);
  shape s{m, n, k, k, m, n, t, t};
  switch (in.below(32)) {
    case 0: s.cols_b = in.below(100); break;
    case 1: s.rows_c = in.below(20); break;
    case 2: s.cols_c = in.below(20); break;
    case 3: s.transform_b = fuzz::transform(in); break;
    default: break;
  }
  return s;
}

template <class Format>
quantized_matrix<Format> random_matrix(fuzz::input& in, std::size_t rows, std::size_t cols, const transform_spec& t) {
  quantized_matrix<Format> q(rows, cols, t);
  in.fill(q.codes().data(), q.codes().size_bytes());
  in.fill(q.scales().data(), q.scales().size_bytes());
  if (Format::two_level) q.set_tensor_scale(in.raw<float>());
  return q;
}

/// The format of a quantized matrix as data, so that blocks of different lengths compile; anything else as it is.
template <class Q>
decltype(auto) untyped(const Q& q) {
  if constexpr (ufp4::detail::quantized<Q>)
    return any_quantized_view(q);
  else
    return (q);
}

template <class T, class A, class B>
void multiply(fuzz::input& in, const shape& s, const A& a, const B& b) {
  constexpr accumulate modes[] = {accumulate::exact_blocks, accumulate::fast, accumulate::folded_bf16};
  const accumulate mode = modes[in.below(4) % 3];
  const std::vector<float> bias(in.one_in(4) ? s.cols_c + (in.one_in(8) ? 1 : 0) : 0, 0.375f);
  const gemm_options options{.alpha = in.one_in(2) ? in.raw<float>() : 1.0f,
                             .beta = in.one_in(2) ? in.raw<float>() : 0.0f,
                             .accumulate = mode,
                             .bias = bias};
  const support::layout l = fuzz::layout(in);
  const std::vector<T> before = in.numbers<T>(s.rows_c * s.cols_c);
  const auto product = [&](cpu::isa tier, int threads, support::strided<T>& c) {
    c.fill(before);
    return fuzz::rejection([&] {
      quantized_gemm(untyped(a), untyped(b), c.view(), options, cpu::context{.threads = threads, .isa = tier});
    });
  };
  support::strided<T> untouched(s.rows_c, s.cols_c, l), want(s.rows_c, s.cols_c, l);
  untouched.fill(before);
  const std::string rejected = product(cpu::isa::scalar, 1, want);
  require(rejected.empty() || want.same_as(untouched), "C was written before the error: " + rejected);
  const bool fits = s.cols_a == s.cols_b && s.rows_c == s.rows_a && s.cols_c == s.rows_b;
  require(fits || !rejected.empty(), "shapes that do not fit were accepted");
  for (const cpu::isa tier : fuzz::tiers()) {
    const std::string where = std::string(cpu::name(tier)) + ", " + ufp4::detail::name(mode);
    support::strided<T> got(s.rows_c, s.cols_c, l), again(s.rows_c, s.cols_c, l);
    require(product(tier, 1, got) == rejected, where + " has another message than: " + rejected);
    if (mode == accumulate::exact_blocks) require(got.same_as(want), where + " differs from the scalar kernel");
    (void)product(tier, 2, again);
    require(again.same_as(got), where + " differs on two threads");
  }
}

template <class T>
struct plain {
  support::strided<T> memory;
  plain(fuzz::input& in, std::size_t rows, std::size_t cols) : memory(rows, cols, fuzz::layout(in)) {
    memory.fill(in.numbers<T>(rows * cols));
  }
  matrix_view<T> view() { return memory.view(); }
};

/// One side quantized, the other quantized, prepacked, quantized by the call, or not quantized.
template <class FormatA, class FormatB>
void check(fuzz::input& in) {
  const shape s = read_shape(in);
  for (const transform_spec& t : {s.transform_a, s.transform_b})
    if (!t.valid_length()) {
      require(!fuzz::rejection([&] { quantized_matrix<FormatA>(s.rows_a, s.cols_a, t); }).empty(),
              "an invalid length was accepted");
      return;
    }
  const auto a = random_matrix<FormatA>(in, s.rows_a, s.cols_a, s.transform_a);
  switch (in.below(8)) {
    case 0: {
      plain<float> x(in, s.rows_b, s.cols_b);
      return multiply<float>(in, s, a, operand<FormatB>(x.view(), s.transform_b, fuzz::rounding(in)));
    }
    case 1: {
      plain<float> x(in, s.rows_b, s.cols_b);
      return multiply<float>(in, s, a, unquantized(x.view(), s.transform_b));
    }
    case 2: {
      plain<bf16> x(in, s.rows_a, s.cols_a);
      const auto b = random_matrix<FormatB>(in, s.rows_b, s.cols_b, s.transform_b);
      return multiply<float>(in, s, unquantized(x.view(), s.transform_a), prepack(b));
    }
    case 3: {
      const auto b = random_matrix<FormatB>(in, s.rows_b, s.cols_b, s.transform_b);
      return multiply<float>(in, s, a, prepack(b));
    }
    case 4: {
      const auto b = random_matrix<FormatB>(in, s.rows_b, s.cols_b, s.transform_b);
      return multiply<bf16>(in, s, a, b);
    }
    default: {
      const auto b = random_matrix<FormatB>(in, s.rows_b, s.cols_b, s.transform_b);
      return multiply<float>(in, s, a, b);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  fuzz::with_one_of<nvfp4, e1m2_f32, mxfp4, block_format<fp4<E3M0>, ue5m3, 16, float>, block_format<int4, e8m0, 256>>(
      in, [&]<class A> { fuzz::with_one_of<nvfp4, nvint4, mxint4>(in, [&]<class B> { check<A, B>(in); }); });
  return 0;
}
