// ufp4 - every preset through the operations of a GPU: quantized along rows and columns, multiplied in every mode.
// SPDX-License-Identifier: Apache-2.0
// ctest: amd
//
// A preset that a header has and presets.hpp has not fails here. The rest of what is done with every preset:
// quantize_test.cpp, quantize_policies_test.cpp (compat), dequantize_test.cpp, linear_test.cpp (recipes).
#include "gpu/presets.hpp"
#include "gpu/gemm_check.hpp"
#include "gpu/quantize_check.hpp"

#include "support/declared.hpp"

#include <cmath>
#include <cstdlib>

using namespace ufp4;
using support::text_of;

namespace {

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return names;
}

constexpr std::size_t rows = 21, cols = 100;

std::vector<float> values(std::uint64_t number) { return support::hostile(support::seed(number)).values(rows * cols); }

/// A part of a larger matrix that is contiguous along columns, with a given tensor amax: under every rounding, with and
/// without a transform. quantize_test.cpp has the rest.
template <class F>
void check_quantize() {
  const std::vector<float> x = values(1);
  const matrix_view<const float> by_columns{x.data(), rows, cols, 1, rows};
  const shard last{.first_row = 32, .first_col = 256, .total_cols = 256 + cols};
  for (const transform_spec& t : {transform_spec{}, random_hadamard<16>{3}.spec(), hadamard<128>{}.spec()})
    for (const rounding_spec& r : {rounding_spec{nearest_even{}}, rounding_spec{stochastic{.seed = 5}}}) {
      CAPTURE(t.n, static_cast<int>(r.what));
      if constexpr (ufp4::detail::format_of<F>::two_level)
        support::check_quantize<F>(x, by_columns, t, r, last, tensor_amax{300});
      else
        support::check_quantize<F>(x, by_columns, t, r, last);
    }
}

/// quantize_both is the two calls.
template <class F>
void check_both() {
  const std::vector<float> x = values(2);
  const matrix_view<const float> view{x.data(), rows, cols};
  const support::device_copy<float> in(x, view);
  const support::device_output<ufp4::detail::format_of<F>> down(rows, cols, {}), across(cols, rows, {});
  const gpu::buffer<std::byte> workspace(gpu::workspace_bytes_both<F>({}, in.view()));
  REQUIRE(text_of(gpu::quantize_both<F>({{}, workspace.span()}, in.view(), down.view(), across.view())) == "");
  REQUIRE(down.matches(quantize<F>(view)));
  REQUIRE(across.matches(quantize<F>(transpose(view))));
}

/// The call on host and device; the mode of the device's kernel decides whether bits or bounds are compared.
template <class F>
void check_products() {
  std::mt19937_64 gen{support::seed(4)};
  constexpr std::size_t m = 40, n = 70, k = 200;
  const auto a = model::random_quantized<F>(gen, m, k, model::scales::ordinary, 0x1.8p-7f);
  const auto b = model::random_quantized<F>(gen, n, k, model::scales::ordinary, 0x1.333334p+3f);
  const gpu::quantized_matrix<F> there_a(a.view()), there_b(b.view());
  const std::vector<float> bias(n, 0.25f);
  std::vector<float> start;
  for (std::size_t i = 0; i < m * n; ++i) start.push_back(static_cast<float>(i % 101) - 50.0f);
  const gpu::buffer<float> there_bias{std::span<const float>(bias)};
  const model::bounded exact = model::extended(model::side_of(a), model::side_of(b));
  const auto padded = static_cast<model::wide>(a.padded_cols());
  for (const accumulate mode : {accumulate::exact_blocks, accumulate::fast, accumulate::folded_bf16}) {
    gemm_options options{.alpha = -1.25f, .beta = 0.5f, .accumulate = mode};
    const gpu::buffer<float> c{std::span<const float>(start)};
    const matrix_view<float> out{c.data(), m, n};
    options.bias = there_bias.span();
    const gpu::explanation explained = gpu::explain({}, there_a, there_b, out, options);
    CAPTURE(explained.text());
    const gpu::buffer<std::byte> workspace(gpu::workspace_bytes({}, there_a, there_b, out, options));
    REQUIRE(text_of(gpu::quantized_gemm({{}, workspace.span()}, there_a, there_b, out, options)) == "");
    const std::vector<float> got = support::on_host(c);
    if (explained.mode == accumulate::exact_blocks) {
      options.bias = bias;
      options.accumulate = accumulate::exact_blocks;
      std::vector<float> want = start;
      quantized_gemm(a, b, matrix_view<float>{want.data(), m, n}, options);
      REQUIRE(support::difference(got, want) == "");
      continue;
    }
    const model::wide sums = (padded + 6) * 0x1p-24L, folding = mode == accumulate::folded_bf16 ? 0x1p-8L : 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const model::wide added = 0.5L * static_cast<model::wide>(start[i]) + 0.25L, size = 1.25L * exact.magnitude[i];
      const model::wide error = std::abs(static_cast<model::wide>(got[i]) - (added - 1.25L * exact.value[i]));
      REQUIRE(error <= (sums + folding) * size + sums * (std::abs(added) + 0.25L));
    }
  }
}

/// An unquantized matrix on the left: the host's bits.
template <class F>
void check_plain() {
  std::mt19937_64 gen{support::seed(7)};
  const auto w = model::random_quantized<F>(gen, 33, cols, model::scales::ordinary, 0.3f);
  const std::vector<float> x = model::wide_floats(gen, rows * cols);
  const gpu::buffer<float> there_x{std::span<const float>(x)}, c(rows * 33);
  const gpu::quantized_matrix<F> there_w(w.view());
  std::vector<float> want(rows * 33);
  quantized_gemm(matrix_view<const float>{x.data(), rows, cols}, w, matrix_view<float>{want.data(), rows, 33},
                 support::exactly);
  const matrix_view<const float> in{there_x.data(), rows, cols};
  const matrix_view<float> out{c.data(), rows, 33};
  const gpu::buffer<std::byte> workspace(gpu::workspace_bytes({}, in, there_w, out, support::exactly));
  REQUIRE(text_of(gpu::quantized_gemm({{}, workspace.span()}, in, there_w, out, support::exactly)) == "");
  REQUIRE(support::difference(support::on_host(c), want) == "");
}

}  // namespace

#if defined(UFP4_SIMT_HEADER)
TEST_CASE("UFP4_SIMT_TARGET selects the simulated device and its kernels", "[gpu]") {
  const char* target = std::getenv("UFP4_SIMT_TARGET");
  gpu::device_facts device;
  REQUIRE(gpu::facts(device) == gpu::success);
  CHECK(device.wave == (target != nullptr && std::string(target).starts_with("gfx9") ? 64 : 32));
  const gpu::quantized_matrix<nvfp4> a(64, 64), b(64, 64);
  const gpu::buffer<float> c(64 * 64);
  const std::string kernel = gpu::explain({}, a, b, matrix_view<float>{c.data(), 64, 64}, support::exactly).kernel;
  CAPTURE(kernel);
  CHECK(kernel.find(target == nullptr ? "_sm" : "_gfx") != std::string::npos);
}
#endif

TEST_CASE("the lists of presets and recipes hold all that the headers declare", "[gpu]") {
  std::vector<std::string> formats,
      compat(std::begin(support::compat_preset_names), std::end(support::compat_preset_names)), recipes;
  ufp4::detail::for_each_row(ufp4::detail::presets{}, [&](auto preset) { formats.push_back(preset.name); });
  for (const support::named_recipe& r : support::training_recipes) recipes.push_back(r.name);
  for (const support::named_recipe& r : support::recipes_of_cpus) recipes.push_back(r.name);
  std::vector<std::string> declared = support::declared("block/presets.hpp", "using ", " = block_format<");
  std::erase_if(declared, [](const std::string& name) {
    const format_spec format = preset(name);
    return format.has_bytes() || ufp4::detail::has_extended_blocks(format) || format.outer.type != scale_kind::f32;
  });
  CHECK(sorted(formats) == declared);
  CHECK(sorted(compat) == support::declared("block/compat.hpp", "struct ", " : preset_type<"));
  CHECK(sorted(recipes) ==
        support::declared("recipe/recipes.hpp", "constexpr training_recipe ", "(std::uint64_t seed)"));
}

TEMPLATE_LIST_TEST_CASE("every preset is quantized to the host's bytes, by rows, by columns and both", "[gpu]",
                        support::presets) {
  INFO(support::seed_note());
  check_quantize<TestType>();
  check_both<TestType>();
}

TEMPLATE_LIST_TEST_CASE("every preset has the host's bits, or products within the bound, in every mode", "[gpu]",
                        support::presets) {
  INFO(support::seed_note());
  check_products<TestType>();
}

TEMPLATE_LIST_TEST_CASE("every preset times a plain matrix has the host's bits", "[gpu]", support::presets) {
  INFO(support::seed_note());
  check_plain<TestType>();
}
