// ufp4 - amax, quantize, quantize_into, fake_quantize and dequantize reject bad arguments in one message, before
// anything is written.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/dequantize.hpp>
#include <ufp4/hadamard.hpp>
#include <ufp4/quantize.hpp>

#include <array>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/poison.hpp"
#include "support/rejection.hpp"

namespace {

using namespace ufp4;

constexpr std::size_t rows = 3, cols = 40;

/// Memory for every operation on a rows x cols matrix, none of which may change.
struct bench {
  std::vector<float> values = std::vector<float>(rows * cols, 1.5f);
  matrix_view<const float> x{values.data(), rows, cols};
  support::guarded<std::uint8_t> codes{rows * 64 / 2};
  support::guarded<e4m3> nv_scales{rows * 4};
  support::guarded<float> out{rows * cols};
  quantize_report report{};

  bool untouched() const {
    const auto poisoned = [](const auto& buffer) {
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(buffer.data());
      bool all = buffer.guards_intact();
      for (std::size_t i = 0; i < buffer.size() * sizeof(buffer[0]); ++i) all = all && bytes[i] == 0xFF;
      return all;
    };
    return poisoned(codes) && poisoned(nv_scales) && poisoned(out) && report == quantize_report{};
  }
};

template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "no error";
}

/// The same bad policies to each of the three operations; nothing may be written, nothing counted.
template <class... Policies>
void check_rejected(const std::string& message, const Policies&... policies) {
  bench b;
  const auto out = matrix_view<float>{b.out.data(), rows, cols};
  CHECK(message_of([&] { quantize<nvfp4>(b.x, policies..., count_into{b.report}); }) == "quantize: " + message);
  CHECK(message_of([&] {
          quantize_into<nvfp4>(b.x, b.codes.span(), b.nv_scales.span(), policies..., count_into{b.report});
        }) == "quantize_into: " + message);
  quantized_matrix<nvfp4> q(rows, cols);
  std::memset(q.codes().data(), 0xFF, q.codes().size());
  CHECK(message_of([&] { quantize_into(b.x, q, policies..., count_into{b.report}); }) == "quantize_into: " + message);
  for (const std::uint8_t byte : q.codes()) REQUIRE(byte == 0xFF);
  CHECK(message_of([&] { fake_quantize<nvfp4>(b.x, out, policies..., count_into{b.report}); }) ==
        "fake_quantize: " + message);
  CHECK(b.untouched());
}

}  // namespace

TEST_CASE("rules that do not go with the format") {
  check_rejected("mx_floor, mx_even and mx_ceil are for e8m0 scales", mx_even{});
  check_rejected("four_over_six and a search near a scale are two searches; choose one", four_over_six{}, mse_search{});
  const std::vector<float> x(32, 1.0f);
  const matrix_view<const float> view{x.data(), 1, 32};
  CHECK(message_of([&] { quantize<mxfp4>(view, scale_up{}); }) ==
        "quantize: scale_up is for e4m3, ue5m3, e6m2 and bf16 scales; for e8m0 use mx_ceil");
  CHECK(message_of([&] { quantize<e2m1_f32>(view, scale_up{}); }) ==
        "quantize: scale_up is for e4m3, ue5m3, e6m2 and bf16 scales; a float scale is not rounded");
  CHECK(message_of([&] { quantize<nv_e1m2>(view, four_over_six{}); }) ==
        "quantize: four_over_six is for grids of 4 bits that end at 6, with two levels of scales (nvfp4)");
}

TEST_CASE("signs that are neither +1 nor -1") {
  std::array<int, 16> signs = compat::transformer_engine_signs;
  signs[5] = 0;
  check_rejected("signed_hadamard was given a sign that is neither +1 nor -1", signed_hadamard<16>(signs));
  signs[5] = 2;
  check_rejected("signed_hadamard was given a sign that is neither +1 nor -1", signed_hadamard<16>(signs));
  bench b;
  CHECK(message_of([&] { amax(b.x, signed_hadamard<16>(signs)); }) ==
        "amax: signed_hadamard was given a sign that is neither +1 nor -1");
}

TEST_CASE("lengths of which there is no transform, in a transform_spec made by hand") {
  for (const std::uint32_t n : {0u, 2u, 24u, 512u, 0xFFFFFFFFu}) {
    const transform_spec t{.n = n};
    const std::string message =
        "transform length must be 16, 32, 64, 128 or 256 (or 1 for none), got " + std::to_string(n);
    check_rejected(message, t);
    bench b;
    const auto out = matrix_view<float>{b.out.data(), rows, cols};
    CHECK(message_of([&] { amax(b.x, t); }) == "amax: " + message);
    CHECK(message_of([&] { hadamard_forward(b.x, out, t); }) == "hadamard_forward: " + message);
    CHECK(message_of([&] { quantized_matrix<nvfp4>(1, 1, t); }) == "quantized_matrix: " + message);
  }
}

TEST_CASE("a tensor_amax that is not a finite number >= 0") {
  const float infinity = std::numeric_limits<float>::infinity();
  check_rejected("tensor_amax must be finite and >= 0, got -1", tensor_amax{-1});
  check_rejected("tensor_amax must be finite and >= 0, got -1.40129846e-45", tensor_amax{-0x1p-149f});
  check_rejected("tensor_amax must be finite and >= 0, got inf", tensor_amax{infinity});
  check_rejected("tensor_amax must be finite and >= 0, got -inf", tensor_amax{-infinity});
  check_rejected("tensor_amax must be finite and >= 0, got nan", tensor_amax{model::float_of(0x7FC00000u)});
  bench b;
  CHECK(message_of([&] { quantize<nvfp4>(b.x, tensor_amax{-0.0f}); }) == "no error");
}

TEST_CASE("shards that do not fit the whole") {
  const tensor_amax amax{1};
  check_rejected("shard.first_col must be a multiple of 16 (the longer of block and transform), got 8", amax,
                 shard{.first_row = 0, .first_col = 8, .total_cols = 48});
  check_rejected("shard.first_col must be a multiple of 32 (the longer of block and transform), got 16", amax,
                 shard{.first_row = 0, .first_col = 16, .total_cols = 56}, hadamard<32>{});
  check_rejected("shard exceeds its whole: first_col 16 + 40 columns > total_cols 55", amax,
                 shard{.first_row = 0, .first_col = 16, .total_cols = 55});
  check_rejected("shard exceeds its whole: first_col 64 + 40 columns > total_cols 48", amax,
                 shard{.first_row = 0, .first_col = 64, .total_cols = 48});
  check_rejected("shard exceeds its whole: first_col 18446744073709551600 + 40 columns > total_cols 24", amax,
                 shard{.first_row = 0, .first_col = ~std::size_t{15}, .total_cols = 24});  // 2^64 - 16 + 40 = 24
  check_rejected(
      "the columns of a shard that is not the last must be a multiple of 16 (the longer of block and transform), got "
      "40",
      amax, shard{.first_row = 0, .first_col = 16, .total_cols = 57});
  bench b;
  using square = block_format<fp4<E2M1>, e4m3, ufp4::square(16), float>;
  CHECK(message_of([&] { quantize<square>(b.x, amax, shard{.first_row = 8, .first_col = 0, .total_cols = 40}); }) ==
        "quantize: shard.first_row must be a multiple of the block's 16 rows, got 8");
  CHECK(message_of([&] { quantize<nvfp4>(b.x, amax, shard{.first_row = 5, .first_col = 16, .total_cols = 56}); }) ==
        "no error");
  CHECK(message_of([&] { quantize(spec_of<nvfp4>, b.x, shard{.first_row = 5, .total_cols = 40}); }) ==
        "quantize: a shard of a format with a tensor scale needs the tensor_amax of the whole operand");
  CHECK(message_of([&] { quantize(spec_of<mxfp4>, b.x, shard{.first_row = 5, .total_cols = 40}); }) == "no error");
}

TEST_CASE("a rounding_spec of a kind that there is not") {
  rounding_spec rounding;
  rounding.what = static_cast<rounding_spec::kind>(5);
  check_rejected("invalid kind of rounding_spec: 5", rounding);
}

TEST_CASE("null data with a non-zero extent") {
  const matrix_view<const float> nothing{nullptr, rows, cols};
  bench b;
  const auto out = matrix_view<float>{b.out.data(), rows, cols};
  const std::string message = "x is null, but has 3 x 40 elements";
  CHECK(message_of([&] { amax(nothing); }) == "amax: " + message);
  CHECK(message_of([&] { quantize<nvfp4>(nothing); }) == "quantize: " + message);
  CHECK(message_of([&] { quantize_into<nvfp4>(nothing, b.codes.span(), b.nv_scales.span()); }) ==
        "quantize_into: " + message);
  CHECK(message_of([&] { fake_quantize<nvfp4>(nothing, out); }) == "fake_quantize: " + message);
  CHECK(message_of([&] { fake_quantize<nvfp4>(b.x, matrix_view<float>{nullptr, rows, cols}); }) ==
        "fake_quantize: out is null, but has 3 x 40 elements");
  CHECK(message_of([&] { dequantize(quantize<nvfp4>(b.x), matrix_view<float>{nullptr, rows, cols}); }) ==
        "dequantize: out is null, but has 3 x 40 elements");
  CHECK(b.untouched());
  CHECK(amax(matrix_view<const float>{nullptr, 0, cols}).value == 0);
  const auto empty = quantize<nvfp4>(matrix_view<const float>{nullptr, rows, 0});
  CHECK(empty.codes().empty());
}

TEST_CASE("undo_transform is for fake_quantize alone") {
  std::vector<float> x(16, 1.0f), out(16);
  const matrix_view<const float> in{x.data(), 1, 16};
  CHECK(support::rejection([&] { quantize<nvfp4>(in, hadamard<16>{}, undo_transform{}); }) ==
        "quantize: undo_transform is for fake_quantize; codes stay in the transformed domain");
  CHECK(support::rejection([&] {
          fake_quantize<nvfp4>(in, matrix_view<float>{out.data(), 1, 16}, hadamard<16>{}, undo_transform{});
        }).empty());
}

TEST_CASE("outputs of another shape") {
  bench b;
  CHECK(message_of([&] { quantize_into<nvfp4>(b.x, b.codes.span().first(71), b.nv_scales.span().first(9)); }) ==
        "quantize_into: codes has 71 bytes, but 3 x 40 elements (48 with padding) take 72");
  CHECK(message_of([&] { quantize_into<nvfp4>(b.x, b.codes.span().first(72), b.nv_scales.span().first(8)); }) ==
        "quantize_into: scales has 8 entries, but 3 x 40 elements take 9");
  std::vector<std::byte> scale_bytes(36 + 3);  // nine floats and a part of one
  CHECK(message_of([&] { quantize_into<e1m2_f32>(b.x, {b.codes.span().first(72), scale_bytes}); }) ==
        "quantize_into: scales has 9 entries and a part of one, but 3 x 40 elements take 9");
  CHECK(message_of([&] {
          quantize_into<nvfp4>(b.x, b.codes.span().first(72), b.nv_scales.span().first(9), hadamard<64>{});
        }) == "quantize_into: codes has 72 bytes, but 3 x 40 elements (64 with padding) take 96");
  quantized_matrix<nvfp4> other(rows, cols + 1), turned(rows, cols, hadamard<32>{}.spec());
  CHECK(message_of([&] { quantize_into(b.x, other); }) == "quantize_into: shape mismatch: out is 3 x 41, x is 3 x 40");
  CHECK(message_of([&] { quantize_into(b.x, turned); }) ==
        "quantize_into: transform mismatch: out was made for hadamard<32>, the call has none");
  CHECK(message_of([&] { quantize_into(b.x, turned, random_hadamard<32>{1}); }) ==
        "quantize_into: transform mismatch: out was made for hadamard<32>, the call has hadamard<32> with other signs");
  CHECK(message_of([&] { fake_quantize<nvfp4>(b.x, matrix_view<float>{b.out.data(), cols, rows}); }) ==
        "fake_quantize: shape mismatch: out is 40 x 3, x is 3 x 40");
  CHECK(message_of([&] { dequantize(quantize<nvfp4>(b.x), matrix_view<float>{b.out.data(), rows, cols - 1}); }) ==
        "dequantize: shape mismatch: out is 3 x 39, the quantized matrix is 3 x 40");
  CHECK(b.untouched());
}

TEST_CASE("memory that overlaps") {
  std::vector<float> memory(400, 2.0f);
  const matrix_view<float> x{memory.data() + 100, rows, cols};  // floats 100 .. 219
  auto* bytes = reinterpret_cast<std::uint8_t*>(memory.data());
  std::vector<std::uint8_t> codes(72);
  std::vector<e4m3> scales(9);
  const auto into = [&](std::uint8_t* c, e4m3* s) {
    return message_of([&] { quantize_into<nvfp4>(x, std::span<std::uint8_t>(c, 72), std::span<e4m3>(s, 9)); });
  };
  auto* small = reinterpret_cast<e4m3*>(bytes);
  CHECK(into(bytes + 400 - 71, scales.data()) == "quantize_into: codes overlaps x");
  CHECK(into(bytes + 879, scales.data()) == "quantize_into: codes overlaps x");
  CHECK(into(codes.data(), small + 400 - 8) == "quantize_into: scales overlaps x");
  CHECK(into(codes.data(), small + 879) == "quantize_into: scales overlaps x");
  CHECK(message_of([&] {
          quantize_into<nvfp4>(x, std::span<std::uint8_t>(bytes, 72), std::span<e4m3>(small + 71, 9));
        }) == "quantize_into: codes overlaps scales");
  CHECK(message_of([&] {
          quantize_into<nvfp4>(x, std::span<std::uint8_t>(bytes + 8, 72), std::span<e4m3>(small, 9));
        }) == "quantize_into: codes overlaps scales");
  const std::string overlaps = "fake_quantize: out overlaps x without being the same matrix";
  const auto fake = [&](std::ptrdiff_t offset, std::ptrdiff_t row_stride, std::ptrdiff_t col_stride = 1) {
    return message_of([&] {
      fake_quantize<nvfp4>(x, matrix_view<float>{memory.data() + offset, rows, cols, row_stride, col_stride});
    });
  };
  CHECK(fake(101, 40) == overlaps);
  CHECK(fake(100, 41) == overlaps);
  CHECK(fake(100, 1, 3) == overlaps);
  CHECK(fake(219, 40) == overlaps);
  CHECK(message_of([&] {
          fake_quantize<nvfp4>(x, matrix_view<bf16>{reinterpret_cast<bf16*>(memory.data() + 100), rows, cols});
        }) == overlaps);  // the same place and strides, another type
  for (const float v : memory) REQUIRE(v == 2.0f);

  const auto out_over = [&](std::size_t code_byte, std::size_t scale_byte) {
    const quantized_view<nvfp4> q({bytes + code_byte, 72}, {small + scale_byte, 9}, 1.0f, rows, cols);
    return message_of([&] { dequantize(q, x); });
  };
  CHECK(out_over(400 - 71, 0) == "dequantize: codes overlaps out");
  CHECK(out_over(0, 879) == "dequantize: scales overlaps out");
  for (const float v : memory) REQUIRE(v == 2.0f);
  // Touching is not overlapping, and one row may have any stride.
  const matrix_view<const float> row{memory.data() + 100, 1, cols, 99};
  CHECK(message_of([&] { fake_quantize<nvfp4>(row, matrix_view<float>{memory.data() + 100, 1, cols}); }) == "no error");
  CHECK(fake(220, 40) == "no error");
  CHECK(into(bytes + 880, small + 400 - 9) == "no error");
}

TEST_CASE("an instruction set that this machine lacks is rejected before anything is written") {
  cpu::isa absent = cpu::isa::automatic;
  for (const cpu::isa i : cpu::all_isas)
    if (!cpu::available().has(i)) absent = i;
  REQUIRE(absent != cpu::isa::automatic);  // no machine has both NEON and AVX2
  const cpu::context context{.isa = absent};
  bench b;
  const auto out = matrix_view<float>{b.out.data(), rows, cols};
  const std::string part =
      std::string("cpu::context::isa: ") + cpu::name(absent) + " is not on this machine; available: ";
  const auto q = quantize<nvfp4>(b.x);
  for (const std::string& message :
       {message_of([&] { quantize<nvfp4>(b.x, context); }), message_of([&] { dequantize(q, out, context); }),
        message_of([&] { amax(b.x, {}, context); }), message_of([&] { fake_quantize<nvfp4>(b.x, out, context); }),
        message_of([&] { quantize_into<nvfp4>(b.x, b.codes.span().first(72), b.nv_scales.span().first(9), context); })})
    CHECK(message.find(part) != std::string::npos);
  CHECK(b.untouched());
}
