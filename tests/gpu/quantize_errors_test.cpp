// ufp4 - quantize, quantize_both, dequantize and amax on a GPU reject what the host rejects, with its messages, before
// anything is queued; explain says which kernel a call runs, workspace_bytes what it needs.
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

std::string rejected(const gpu::status& s) {
  CHECK(s.code() == (s.ok() ? gpu::success : gpu::invalid_argument));
  return s.ok() ? "no error" : s.text();
}

template <class... Policies>
void check_rejected(const std::string& message, const Policies&... policies) {
  const bench b;
  CHECK(rejected(gpu::quantize<nvfp4>(b.context(), b.x, b.out.view(), policies...)) == "quantize: " + message);
  CHECK(b.untouched());
}

template <class F, class... Policies>
std::string explained(const Policies&... policies) {
  const std::vector<float> x(16 * 16);
  return gpu::explain<F>({}, matrix_view<const float>{x.data(), 16, 16}, policies...).text();
}

}  // namespace

TEST_CASE("policies that do not fit", "[gpu]") {
  check_rejected("mx_floor, mx_even and mx_ceil are for e8m0 scales", mx_even{});
  check_rejected("four_over_six and mse_search are two searches; choose one", four_over_six{}, mse_search{});
  check_rejected("tensor_amax is -1, not a finite number >= 0", tensor_amax{-1});
  check_rejected("tensor_amax_at is null", gpu::tensor_amax_at{});
  check_rejected("count_at is null", gpu::count_at{});
  check_rejected("undo_transform is for fake_quantize; codes stay in the transformed domain", undo_transform{});
  check_rejected("shard.first_col 16 plus 40 columns exceeds shard.total_cols 55",
                shard{.first_row = 0, .first_col = 16, .total_cols = 55});
  std::array<int, 16> signs = transformer_engine_signs;
  signs[5] = 0;
  check_rejected("signed_hadamard was given a sign that is neither +1 nor -1", signed_hadamard<16>(signs));
}

TEST_CASE("outputs, workspace and memory that do not fit", "[gpu]") {
  const bench b;
  const auto view = b.out.view();
  CHECK(rejected(gpu::quantize<nvfp4>(b.context(), transpose(b.x), view)) == "quantize: out is 3 x 40, but x is 40 x 3");
  CHECK(rejected(gpu::quantize<nvfp4>(b.context(), b.x, b.transformed.view(), random_hadamard<32>{1})) ==
        "quantize: out was made for a transform of length 64 and its signs, not for the one given, of length 32");
  CHECK(rejected(gpu::quantize<nvfp4>({}, b.x, view)) ==
        "quantize: context.workspace has 0 bytes, but the call needs 256");
  CHECK(rejected(gpu::quantize_both<nvfp4>(gpu::context{{}, b.workspace.span().first(256)}, b.x, view,
                                          support::device_output<nvfp4>(cols, rows, {}).view())) ==
        "quantize_both: context.workspace has 256 bytes, but the call needs 512");
  CHECK(rejected(gpu::quantize<nvfp4>(gpu::context{{}, b.workspace.span().subspan(16)}, b.x, view))
            .ends_with(", not a multiple of 256"));
  CHECK(rejected(gpu::quantize<nvfp4>(b.context(), b.x, view, gpu::tensor_amax_at{view.tensor_scale()})) ==
        "quantize: tensor_amax_at is out's tensor_scale, which is written while others still read the maximum");
  CHECK(rejected(gpu::quantize_both<nvfp4>(b.context(), b.x, view, view)) ==
        "quantize_both: out is 3 x 40, but x is 40 x 3");
  CHECK(rejected(gpu::quantize<nvfp4>(b.context(), matrix_view<const float>{nullptr, rows, cols}, view)) ==
        "quantize: x is null, but has 3 x 40 elements");
  auto* inside = reinterpret_cast<std::uint8_t*>(b.values.data());
  const gpu::quantized_view<nvfp4> over({inside + 4, view.codes().size()}, view.scales(), view.tensor_scale(), rows,
                                        cols);
  CHECK(rejected(gpu::quantize<nvfp4>(b.context(), b.x, over)) == "quantize: codes overlaps x");
  const matrix_view<float> out{b.values.data(), rows, cols};
  CHECK(rejected(gpu::dequantize({}, over, out)) == "dequantize: codes overlaps out");
  CHECK(rejected(gpu::dequantize({}, view, matrix_view<float>{b.values.data(), cols, rows})) ==
        "dequantize: out is 40 x 3, but the quantized matrix is 3 x 40");
  const gpu::quantized_view<nvfp4> scale_inside(view.codes(), view.scales(), b.values.data() + 7, rows, cols);
  CHECK(rejected(gpu::dequantize({}, scale_inside, out)) == "dequantize: tensor_scale overlaps out");
  CHECK(rejected(gpu::quantize<nvfp4>(b.context(), b.x, scale_inside)) == "quantize: tensor_scale overlaps x");
  CHECK(rejected(gpu::amax({}, b.x, nullptr)) == "amax: out is null");
  CHECK(b.untouched());
}

TEST_CASE("explain names the kernel, and why not a better one", "[gpu]") {
  CHECK(explained<nvfp4>() == "quantize: quantize_lanes");
  CHECK(explained<e1m2_f32>(random_hadamard<256>{1}, stochastic{.seed = 1}) == "quantize: quantize_lanes");
  CHECK(explained<nvfp4>(toward_zero{}) ==
        "quantize: quantize_lanes; nearest_away and toward_zero round by a loop over the grid's levels");
  CHECK(explained<block_format<nf4, float, 16>>() ==
        "quantize: quantize_lanes; values are rounded by a loop over the grid's levels");
  CHECK(explained<nvfp4>(mse_search{}) == "quantize: quantize_blocks; a search for the scale runs a thread a block");
  CHECK(explained<block_format<fp4<E2M1>, float, 8>>() ==
        "quantize: quantize_blocks; blocks of this shape (or squares after a transform of more than 16) run a thread a "
        "block");
  CHECK(explained<compat::te_nvfp4>() ==
        "quantize: quantize_blocks; a compat preset has a coder of its own, which runs a thread a block");
  const std::vector<float> x(64);
  CHECK(gpu::explain<nvfp4>({}, transpose(matrix_view<const float>{x.data(), 4, 16})).text() ==
        "quantize: quantize_lanes_transposed");
}

TEST_CASE("workspace is needed where a tensor's maximum must be found", "[gpu]") {
  const std::vector<float> x(16);
  const matrix_view<const float> view{x.data(), 1, 16};
  CHECK(gpu::workspace_bytes<nvfp4>({}, view) == 256);
  CHECK(gpu::workspace_bytes<e1m2_f32>({}, view) == 0);
  CHECK(gpu::workspace_bytes<nvfp4>({}, view, tensor_amax{1}) == 0);
  CHECK(gpu::workspace_bytes<nvfp4>({}, view, gpu::tensor_amax_at{x.data()}, stochastic{.seed = 1}) == 0);
  CHECK(gpu::workspace_bytes_both<nvfp4>({}, view) == 512);
  CHECK(gpu::workspace_bytes_both<mxfp4, nvfp4>({}, view, gpu::with(), gpu::with(hadamard<16>{})) == 256);
}
