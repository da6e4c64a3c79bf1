// ufp4 - fuzz target: quantize, dequantize, fake_quantize and the Hadamard transform, each tier against the scalar one.
// SPDX-License-Identifier: Apache-2.0
//
// Any shape, strides, format, policies and floats. Invalid ones are rejected with the same message by every tier,
// before anything is written; valid ones give the same bits, and write nothing else.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ufp4/dequantize.hpp>
#include <ufp4/hadamard.hpp>
#include <ufp4/quantize.hpp>

#include <ufp4/block/compat.hpp>
#include <ufp4/block/presets.hpp>
#include <ufp4/format/table_element.hpp>

#include "input.hpp"
#include "policies.hpp"

namespace {

using namespace ufp4;
using fuzz::require;

/// The arguments of one call.
struct request {
  transform_spec transform;
  rounding_spec rounding;
  ufp4::scale_rule_spec rule;
  std::optional<tensor_amax> amax;
  std::optional<shard> place;
};

request read(fuzz::input& in, std::size_t cols) {
  request r{fuzz::transform(in), fuzz::rounding(in), fuzz::rule(in), {}, {}};
  if (in.one_in(4)) r.amax = tensor_amax{in.raw<float>()};
  if (in.one_in(4)) r.place = fuzz::place(in, cols);
  return r;
}

/// operation(policies...). Of a compat preset, whose format is a type, only policies that compile.
template <class Format, class F>
void with_policies(const request& r, quantize_report& report, const F& operation) {
  const count_into count{report};
  if constexpr (!ufp4::detail::any_block_format<Format>) {
    if constexpr (ufp4::detail::format_of<Format>::two_level) {
      if (r.amax && r.place) return operation(r.transform, r.rounding, r.rule, count, *r.amax, *r.place);
      if (r.amax) return operation(r.transform, r.rounding, r.rule, count, *r.amax);
    } else {
      if (r.place) return operation(r.transform, r.rounding, r.rule, count, *r.place);
    }
    return operation(r.transform, r.rounding, r.rule, count);
  } else {
    if (r.amax && r.place) return operation(r.transform, r.rounding, r.rule, count, *r.amax, *r.place);
    if (r.amax) return operation(r.transform, r.rounding, r.rule, count, *r.amax);
    if (r.place) return operation(r.transform, r.rounding, r.rule, count, *r.place);
    operation(r.transform, r.rounding, r.rule, count);
  }
}

template <class Format>
struct outcome {
  std::string rejected;
  quantized_matrix<ufp4::detail::format_of<Format>> q;
  quantize_report report;
};

template <class Format, class T>
outcome<Format> quantized(cpu::isa tier, const matrix_view<T>& x, const request& r) {
  outcome<Format> o;
  const cpu::context ctx{.threads = 1, .isa = tier};
  o.rejected = fuzz::rejection([&] {
    with_policies<Format>(r, o.report, [&](const auto&... policies) {
      if constexpr (ufp4::detail::any_block_format<
                        Format>)  // the format as data: policies that do not go with it are errors
        o.q = quantized_matrix<Format>(quantize(spec_of<Format>, matrix_view<const T>(x), policies..., ctx));
      else
        o.q = quantize<Format>(matrix_view<const T>(x), policies..., ctx);
    });
  });
  return o;
}

template <class Format, class T, class... Policies>
void fake(const cpu::context& ctx, const matrix_view<const T>& x, const matrix_view<float>& out,
          const Policies&... policies) {
  if constexpr (ufp4::detail::any_block_format<Format>)
    fake_quantize(spec_of<Format>, x, out, policies..., ctx);
  else
    fake_quantize<Format>(x, out, policies..., ctx);
}

/// fake_quantize into out; returns the message if it is rejected.
template <class Format, class T>
std::string fake(cpu::isa tier, const matrix_view<T>& x, const request& r, bool undo, const matrix_view<float>& out) {
  const cpu::context ctx{.threads = 1, .isa = tier};
  const matrix_view<const T> from = x;
  quantize_report report;
  return fuzz::rejection([&] {
    with_policies<Format>(r, report, [&](const auto&... policies) {
      if (undo)
        fake<Format>(ctx, from, out, policies..., undo_transform{});
      else
        fake<Format>(ctx, from, out, policies...);
    });
  });
}

template <class Format, class T>
void check(fuzz::input& in) {
  const std::size_t rows = in.below(9), cols = in.below(in.one_in(4) ? 1200 : 140);
  const request r = read(in, cols);
  const support::layout from = fuzz::layout(in), to = fuzz::layout(in);
  const bool undo = in.one_in(2);
  support::strided<T> x(rows, cols, from);
  x.fill(in.numbers<T>(rows * cols));

  const outcome<Format> want = quantized<Format>(cpu::isa::scalar, x.view(), r);
  support::strided<float> want_plain(rows, cols, to), want_fake(rows, cols, to);
  const std::string fake_rejected = fake<Format>(cpu::isa::scalar, x.view(), r, undo, want_fake.view());
  require(want.rejected.empty() == fake_rejected.empty(),
          "only one of quantize and fake_quantize rejects: " + want.rejected + fake_rejected);
  if (want.rejected.empty()) dequantize(want.q, want_plain.view(), cpu::context{.threads = 1, .isa = cpu::isa::scalar});
  for (const cpu::isa tier : fuzz::tiers()) {
    const std::string where = cpu::name(tier);
    const outcome<Format> got = quantized<Format>(tier, x.view(), r);
    require(got.rejected == want.rejected, where + " has another message: " + got.rejected + want.rejected);
    support::strided<float> plain(rows, cols, to), faked(rows, cols, to);
    fake<Format>(tier, x.view(), r, undo, faked.view());
    require(faked.same_as(want_fake), where + ": fake_quantize differs");
    if (!want.rejected.empty()) continue;
    require(fuzz::same_bytes(got.q.codes(), want.q.codes()), where + ": codes differ");
    require(fuzz::same_bytes(got.q.scale_bytes(), want.q.scale_bytes()), where + ": scales differ");
    require(got.q == want.q, where + ": tensor scales differ");
    require(got.report == want.report, where + ": reports differ");
    dequantize(got.q, plain.view(), cpu::context{.threads = 1, .isa = tier});
    require(plain.same_as(want_plain), where + ": dequantize differs");
    if (!undo || r.transform.n == 1)
      require(plain.same_as(faked), where + ": fake_quantize is not dequantize(quantize)");
  }
}

/// The transform alone, into a matrix of another type, forward or inverse; shapes that do not fit are rejected.
void check_transform(fuzz::input& in) {
  const transform_spec t = fuzz::transform(in);
  const std::size_t rows = in.below(9), cols = in.below(600), n = t.n == 0 ? 1 : t.n;
  const bool inverse = in.one_in(2);
  std::size_t padded = (cols + n - 1) / n * n;
  if (in.one_in(16) || padded > 4096) padded = in.below(1024);
  const support::layout from = fuzz::layout(in), to = fuzz::layout(in);
  support::strided<float> x(rows, inverse ? padded : cols, from);
  x.fill(in.numbers<float>(rows * (inverse ? padded : cols)));
  const auto run = [&](cpu::isa tier, support::strided<bf16>& out) {
    const cpu::context ctx{.threads = 1, .isa = tier};
    return fuzz::rejection([&] {
      if (inverse)
        hadamard_inverse(x.view(), out.view(), t, ctx);
      else
        hadamard_forward(x.view(), out.view(), t, ctx);
    });
  };
  support::strided<bf16> want(rows, inverse ? cols : padded, to);
  const std::string rejected = run(cpu::isa::scalar, want);
  for (const cpu::isa tier : fuzz::tiers()) {
    support::strided<bf16> got(rows, inverse ? cols : padded, to);
    require(run(tier, got) == rejected, std::string(cpu::name(tier)) + ": the transform has another message");
    require(got.same_as(want), std::string(cpu::name(tier)) + ": the transform differs");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  switch (in.below(8)) {
    case 0: check_transform(in); break;
    case 1: check<nvfp4, bf16>(in); break;
    case 2: check<mxfp4, fp16>(in); break;
    default:
      fuzz::with_one_of<nvfp4, mxfp4, e1m2_f32, nvint4, block_format<nf4, float, 32>,
                        block_format<fp4<E3M0>, ue5m3, 64, float>, block_format<int4, bf16, 256>,
                        block_format<fp4<E1M2>, e4m3, square(16), float>,
                        block_format<fp4<E2M1>, e4m3, 16, per_segment<48, float>>, compat::te_nvfp4,
                        compat::torchao_mx_rceil, compat::ggml_mxfp4>(in,
                                                                      [&]<class Format> { check<Format, float>(in); });
  }
  return 0;
}
