// ufp4 - quantize, quantize_both, dequantize and amax on a GPU reject what the host rejects, with its messages, before
// anything is queued; explain names the kernel of a call, and workspace_bytes is what it needs.
// SPDX-License-Identifier: Apache-2.0
// ctest: amd
#include "gpu/quantize_check.hpp"

#include <array>
#include <limits>

using namespace ufp4;

namespace {

namespace gpu = support::gpu;

constexpr std::size_t rows = 3, cols = 40;

/// Memory for every operation on a rows x cols matrix, none of which may change.
struct bench {
  gpu::buffer<float> values{std::span<const float>(std::vector<float>(rows * cols, 1.5f))};
  matrix_view<const float> x{values.data(), rows, cols};
  support::device_output<nvfp4> out{rows, cols, {}}, transformed{rows, cols, hadamard<64>{}.spec()};
  gpu::buffer<std::byte> workspace{512};

  gpu::context context() const { return support::context_with(workspace); }
  bool untouched() const {
    bool same = true;
    for (const auto* o : {&out, &transformed}) {
      const std::vector<std::uint8_t> poison(o->codes.span().size() + o->scales.span().size(), 0xA7);
      same = same && o->codes.holds(poison.data(), o->codes.span().size()) &&
             o->scales.holds(poison.data(), o->scales.span().size()) &&
             o->tensor_scale.holds(poison.data(), sizeof(float));
    }
    return same;
  }
};

std::string message_of(const gpu::status& s) {
  CHECK(s.code() == (s.ok() ? gpu::success : gpu::invalid_argument));
  return s.ok() ? "no error" : s.text();
}

template <class... Policies>
void check_rejected(const std::string& message, const Policies&... policies) {
  const bench b;
  CHECK(message_of(gpu::quantize<nvfp4>(b.context(), b.x, b.out.view(), policies...)) == "quantize: " + message);
  CHECK(b.untouched());
}

template <class F, class... Policies>
std::string explained(const Policies&... policies) {
  const std::vector<float> x(16 * 16);
  return gpu::explain<F>({}, matrix_view<const float>{x.data(), 16, 16}, policies...).text();
}

}  // namespace

TEST_CASE("policies that the format or shape does not accept are rejected", "[gpu]") {
  check_rejected("mx_floor, mx_even and mx_ceil are for e8m0 scales", mx_even{});
  check_rejected("four_over_six and a search near a scale are two searches; choose one", four_over_six{}, mse_search{});
  check_rejected("tensor_amax must be finite and >= 0, got -1", tensor_amax{-1});
  check_rejected("tensor_amax_at is null", gpu::tensor_amax_at{});
  check_rejected("count_at is null", gpu::count_at{});
  check_rejected("undo_transform is for fake_quantize; codes stay in the transformed domain", undo_transform{});
  check_rejected("shard exceeds its whole: first_col 16 + 40 columns > total_cols 55",
                 shard{.first_row = 0, .first_col = 16, .total_cols = 55}, tensor_amax{1});
  std::array<int, 16> signs = compat::transformer_engine_signs;
  signs[5] = 0;
  check_rejected("signed_hadamard was given a sign that is neither +1 nor -1", signed_hadamard<16>(signs));
}

TEST_CASE("outputs, workspace and memory of a wrong size or place are rejected", "[gpu]") {
  const bench b;
  const auto view = b.out.view();
  CHECK(message_of(gpu::quantize<nvfp4>(b.context(), transpose(b.x), view)) ==
        "quantize: shape mismatch: out is 3 x 40, x is 40 x 3");
  CHECK(message_of(gpu::quantize<nvfp4>(b.context(), b.x, b.transformed.view(), random_hadamard<32>{1})) ==
        "quantize: transform mismatch: out was made for hadamard<64>, the policies have hadamard<32>");
  CHECK(message_of(gpu::quantize<nvfp4>({}, b.x, view)) ==
        "quantize: context.workspace is too small: 0 bytes, needs 256");
  CHECK(message_of(gpu::quantize_both<nvfp4>(gpu::context{{}, b.workspace.span().first(256)}, b.x, view,
                                             support::device_output<nvfp4>(cols, rows, {}).view())) ==
        "quantize_both: context.workspace is too small: 256 bytes, needs 512");
  CHECK(message_of(gpu::quantize<nvfp4>(gpu::context{{}, b.workspace.span().subspan(16)}, b.x, view))
            .starts_with("quantize: context.workspace is not aligned to 256 bytes: address "));
  CHECK(message_of(gpu::quantize<nvfp4>(b.context(), b.x, view, gpu::tensor_amax_at{view.tensor_scale()})) ==
        "quantize: tensor_amax_at is the tensor_scale of out: it is written while threads still read the amax");
  CHECK(message_of(gpu::quantize_both<nvfp4>(b.context(), b.x, view, view)) ==
        "quantize_both: shape mismatch: out is 3 x 40, x is 40 x 3");
  CHECK(message_of(gpu::quantize<nvfp4>(b.context(), matrix_view<const float>{nullptr, rows, cols}, view)) ==
        "quantize: x is null, but has 3 x 40 elements");
  auto* inside = reinterpret_cast<std::uint8_t*>(b.values.data());
  const gpu::quantized_view<nvfp4> over({inside + 4, view.codes().size()}, view.scales(), view.tensor_scale(), rows,
                                        cols);
  CHECK(message_of(gpu::quantize<nvfp4>(b.context(), b.x, over)) == "quantize: codes overlaps x");
  const matrix_view<float> out{b.values.data(), rows, cols};
  CHECK(message_of(gpu::dequantize({}, over, out)) == "dequantize: codes overlaps out");
  CHECK(message_of(gpu::dequantize({}, view, matrix_view<float>{b.values.data(), cols, rows})) ==
        "dequantize: shape mismatch: out is 40 x 3, the quantized matrix is 3 x 40");
  const gpu::quantized_view<nvfp4> scale_inside(view.codes(), view.scales(), b.values.data() + 7, rows, cols);
  CHECK(message_of(gpu::dequantize({}, scale_inside, out)) == "dequantize: tensor_scale overlaps out");
  CHECK(message_of(gpu::quantize<nvfp4>(b.context(), b.x, scale_inside)) == "quantize: tensor_scale overlaps x");
  CHECK(message_of(gpu::amax({}, b.x, nullptr)) == "amax: out is null");
  const std::size_t many = std::size_t{1} << 32;
  const gpu::buffer<float> found(1);
  CHECK(message_of(gpu::amax({}, matrix_view<const float>{b.x.data(), many, 1, 0}, found.data())) ==
        "amax: x is 4294967296 x 1; on a GPU a matrix has at most 2^32 - 4096 rows and columns, and 2^42 elements");
  CHECK(b.untouched());
}

TEST_CASE("explain names the kernel, and the reason why a faster one is not used", "[gpu]") {
  CHECK(explained<nvfp4>() == "quantize: quantize_lanes");
  CHECK(explained<e1m2_f32>(random_hadamard<256>{1}, stochastic{.seed = 1}) == "quantize: quantize_lanes");
  CHECK(explained<nvfp4>(toward_zero{}) ==
        "quantize: quantize_lanes; nearest_away and toward_zero round by a loop over the grid's levels");
  CHECK(explained<block_format<nf4, float, 16>>() ==
        "quantize: quantize_lanes; values are rounded by a loop over the grid's levels");
  CHECK(explained<nvfp4>(mse_search{}) ==
        "quantize: quantize_blocks; a scale rule that reads a block's values uses one thread for each block");
  CHECK(explained<block_format<fp4<E2M1>, float, 8>>() ==
        "quantize: quantize_blocks; blocks of this shape (or squares with a transform longer than 16) use one "
        "thread for each block");
  CHECK(explained<compat::te_nvfp4>() ==
        "quantize: quantize_blocks; a compat preset has a coder of its own, which uses one thread for each block");
  const std::vector<float> x(64);
  CHECK(gpu::explain<nvfp4>({}, transpose(matrix_view<const float>{x.data(), 4, 16})).text() ==
        "quantize: quantize_tiles");
}

TEST_CASE("workspace is needed if the tensor amax must be computed", "[gpu]") {
  const std::vector<float> x(16);
  const matrix_view<const float> view{x.data(), 1, 16};
  CHECK(gpu::workspace_bytes<nvfp4>({}, view) == 256);
  CHECK(gpu::workspace_bytes<e1m2_f32>({}, view) == 0);
  CHECK(gpu::workspace_bytes<nvfp4>({}, view, tensor_amax{1}) == 0);
  CHECK(gpu::workspace_bytes<nvfp4>({}, view, gpu::tensor_amax_at{x.data()}, stochastic{.seed = 1}) == 0);
  CHECK(gpu::workspace_bytes_both<nvfp4>({}, view) == 512);
  CHECK(gpu::workspace_bytes_both<mxfp4, nvfp4>({}, view, gpu::with(), gpu::with(hadamard<16>{})) == 256);
}
