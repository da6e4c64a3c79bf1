// ufp4 - the linear operations on a GPU give the host's bits under every recipe, dense and grouped, saved or not.
// SPDX-License-Identifier: Apache-2.0
// ctest: amd
#include "gpu/device.hpp"

#include <ufp4/ufp4.hpp>

#include "gpu/presets.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

using namespace ufp4;

namespace {

using sizes = std::vector<std::size_t>;

/// Reproducible numbers of many magnitudes; every few hundred elements a zero and, if requested, a NaN.
template <class T>
std::vector<T> numbers(std::size_t count, unsigned seed, bool hostile = false) {
  std::vector<T> all;
  for (std::size_t i = 0; i < count; ++i) {
    const auto h = static_cast<std::uint32_t>(i * 2654435761u + seed * 40503u) * 2246822519u;
    const float mantissa = static_cast<float>(static_cast<int>(h >> 8 & 0xFFFF) - 32768) / 4096.0f;
    const float v = h % 211 == 0 ? 0.0f : mantissa * (h >> 28 == 0 ? 64.0f : 1.0f);
    all.push_back(T(v));
  }
  if (hostile && count > 40) all[37] = T(__builtin_nanf(""));
  return all;
}

/// A matrix on both machines.
template <class T>
struct twin {
  std::size_t rows, cols;
  std::vector<T> host;
  gpu::buffer<T> device;

  twin(std::size_t r, std::size_t c, unsigned seed, bool hostile = false)
      : rows(r), cols(c), host(numbers<T>(r * c, seed, hostile)), device(std::span<const T>(host)) {}
  matrix_view<const T> here() const { return {host.data(), rows, cols}; }
  matrix_view<const T> there() const { return {device.data(), rows, cols}; }
  matrix_view<T> out_here() { return {host.data(), rows, cols}; }
  matrix_view<T> out_there() { return {device.data(), rows, cols}; }

  /// Both machines' bits are equal, but for which NaN is a NaN.
  bool agrees() const {
    const std::vector<T> seen = support::on_host(device);
    for (std::size_t i = 0; i < host.size(); ++i) {
      const auto a = static_cast<float>(host[i]), b = static_cast<float>(seen[i]);
      if (a != a && b != b) continue;
      if (std::memcmp(&host[i], &seen[i], sizeof(T)) != 0) return false;
    }
    return true;
  }
};

struct memory {
  gpu::buffer<std::byte> bytes;
  gpu::context ctx;
  explicit memory(std::size_t size) : bytes(size), ctx{{}, bytes.span()} {}
};

std::vector<support::named_recipe> recipes() {
  std::vector<support::named_recipe> all(std::begin(support::training_recipes), std::end(support::training_recipes));
  for (const support::named_recipe& r : {support::named_recipe{"ufp4<int4_f32>", recipe::ufp4_recipe<int4_f32>(1)},
                                         {"ufp4<nv_e1m2>", recipe::ufp4_recipe<nv_e1m2>(2)},
                                         {"ufp4<nvint4>", recipe::ufp4_recipe<nvint4>(3)},
                                         {"ufp4<mx_e1m2>", recipe::ufp4_recipe<mx_e1m2>(4)},
                                         {"ufp4<mxint4>", recipe::ufp4_recipe<mxint4>(5)}})
    all.push_back(r);
  for (support::named_recipe& r : all) r.what.accumulate = accumulate::exact_blocks;
  return all;
}

/// All three operations on one layer, by expert where offsets are given.
template <class T>
void check_layer(const recipe::bound_recipe& now, std::size_t tokens, std::size_t inputs, std::size_t outputs,
                 const sizes& offsets, recipe::write_mode mode, bool hostile) {
  const std::size_t experts = offsets.size() - 1;
  const twin<T> x(tokens, inputs, 1, hostile), w(experts * outputs, inputs, 2), dy(tokens, outputs, 3);
  twin<T> y(tokens, outputs, 4), dx(tokens, inputs, 5);
  twin<float> dw(experts * outputs, inputs, 6), dw_saved(experts * outputs, inputs, 6);

  recipe::saved_activation host_saved;
  linear_forward_grouped(now, x.here(), offsets, w.here(), y.out_here(), {.saved = &host_saved});
  linear_backward_input_grouped(now, dy.here(), offsets, w.here(), dx.out_here(), mode);
  linear_backward_weight_grouped(now, dy.here(), x.here(), offsets, dw.out_here(), mode);
  linear_backward_weight_grouped(now, dy.here(), host_saved, offsets, dw_saved.out_here(), mode);

  const memory kept(gpu::linear_saved_bytes(now, x.there(), offsets));
  gpu::saved_activation saved(kept.bytes.span());
  {
    const memory m(gpu::linear_forward_workspace_bytes(now, x.there(), w.there(), y.out_there(), offsets));
    REQUIRE(support::text_of(
                gpu::linear_forward_grouped(m.ctx, now, x.there(), offsets, w.there(), y.out_there(), &saved)) == "");
    CHECK(y.agrees());
  }
  {
    const memory m(gpu::linear_backward_input_workspace_bytes(now, dy.there(), w.there(), dx.out_there(), offsets));
    REQUIRE(support::text_of(gpu::linear_backward_input_grouped(m.ctx, now, dy.there(), offsets, w.there(),
                                                                dx.out_there(), mode)) == "");
    CHECK(dx.agrees());
  }
  {
    const memory m(gpu::linear_backward_weight_workspace_bytes(now, dy.there(), x.there(), dw.out_there(), offsets));
    REQUIRE(support::text_of(gpu::linear_backward_weight_grouped(m.ctx, now, dy.there(), x.there(), offsets,
                                                                 dw.out_there(), mode)) == "");
    CHECK(dw.agrees());
  }
  {
    const memory m(gpu::linear_backward_weight_workspace_bytes(now, dy.there(), saved, dw.out_there(), offsets));
    REQUIRE(support::text_of(gpu::linear_backward_weight_grouped(m.ctx, now, dy.there(), saved, offsets,
                                                                 dw_saved.out_there(), mode)) == "");
    CHECK(dw_saved.agrees());
  }
}

}  // namespace

TEST_CASE("a layer's three GEMMs have the host's bits under every recipe", "[gpu]") {
  for (const support::named_recipe& r : recipes()) {
    CAPTURE(r.name);
    check_layer<float>(r.what.at(3, 7), 37, 50, 21, {0, 37}, recipe::write_mode::overwrite, false);
    check_layer<bf16>(r.what.at(4, 1), 16, 33, 18, {0, 16}, recipe::write_mode::add, true);
  }
}

TEST_CASE("experts share a tensor scale, draw random bits of their own, and may have no tokens", "[gpu]") {
  for (const support::named_recipe& r : recipes()) {
    CAPTURE(r.name);
    for (const recipe::write_mode mode : {recipe::write_mode::overwrite, recipe::write_mode::add})
      check_layer<float>(r.what.at(9, 2), 27, 20, 17, {0, 0, 19, 19, 27}, mode, false);
    check_layer<float>(r.what.at(9, 3), 0, 20, 17, {0, 0, 0}, recipe::write_mode::overwrite, false);
  }
}

TEST_CASE("more experts than fit in one launch do not overwrite the workspace before it is read", "[gpu]") {
  sizes offsets{0};
  for (std::size_t e = 0; e < 70; ++e) offsets.push_back(offsets.back() + (e % 4 == 1 ? 0 : 1 + e * 5 % 11));
  for (recipe::training_recipe r : {recipe::ufp4_recipe(7), recipe::nvfp4_recipe(8), recipe::bf16_recipe(9)}) {
    r.accumulate = accumulate::exact_blocks;
    check_layer<float>(r.at(1, 1), offsets.back(), 20, 18, offsets, recipe::write_mode::add, false);
  }
}

#if defined(UFP4_SIMT_HEADER)

namespace {

/// Experts of 20 tokens, but for the last, without any, and what linear_forward_grouped makes of them.
struct mixture {
  static constexpr std::size_t inputs = 32, outputs = 24;
  sizes offsets{0, 20, 40, 60, 60};
  recipe::training_recipe recipe = recipe::ufp4_recipe(1);
  twin<float> x{60, inputs, 1}, w{4 * outputs, inputs, 2}, y{60, outputs, 3};

  explicit mixture(accumulate mode) { recipe.accumulate = mode; }
  gpu::linear_explanation explain() const {
    return gpu::explain_linear_forward({}, recipe.at(0, 0), x.there(), w.there(), y_there(), offsets);
  }
  /// Launches of one call, with exactly the workspace that it needs.
  unsigned long launches() {
    const auto now = recipe.at(0, 0);
    const memory m(gpu::linear_forward_workspace_bytes(now, x.there(), w.there(), y_there(), offsets));
    linear_forward_grouped(now, x.here(), offsets, w.here(), y.out_here());
    const unsigned long before = simt::calls().launches;
    REQUIRE(support::text_of(gpu::linear_forward_grouped(m.ctx, now, x.there(), offsets, w.there(), y.out_there())) ==
            "");
    return simt::calls().launches - before;
  }

 private:
  matrix_view<float> y_there() const { return {y.device.data(), y.rows, y.cols}; }
};

}  // namespace

TEST_CASE("a kernel for many products gets all experts in one launch, other kernels one at a time", "[gpu]") {
  mixture m(accumulate::exact_blocks);
  const unsigned long quantized = 2 * 3;  // the operands of three experts
  CHECK(m.launches() == quantized + 1);
  CHECK(m.y.agrees());
  m.recipe.fprop.left.format = m.recipe.fprop.right.format = spec_of<block_format<nf4, float, 16>>;
  CHECK(m.launches() == quantized + 3);
  CHECK(m.y.agrees());
}

TEST_CASE("the workspace is that of 32 experts, however many follow", "[gpu]") {
  recipe::training_recipe r = recipe::ufp4_recipe(1);
  r.accumulate = accumulate::exact_blocks;
  const twin<float> x(64 * 20, 32, 1), w(64 * 24, 32, 2);
  const auto bytes = [&](std::size_t experts) {
    sizes offsets;
    for (std::size_t e = 0; e <= experts; ++e) offsets.push_back(20 * e);
    twin<float> y(20 * experts, 24, 3);
    return gpu::linear_forward_workspace_bytes(r.at(0, 0), matrix_view<const float>{x.device.data(), 20 * experts, 32},
                                               w.there(), y.out_there(), offsets);
  };
  CHECK(bytes(1) < bytes(2));
  CHECK(bytes(2) < bytes(32));
  CHECK(bytes(64) == bytes(32));
  r.fprop.left.format = r.fprop.right.format = spec_of<block_format<nf4, float, 16>>;  // multiplied one by one
  CHECK(bytes(64) == bytes(1));
}

TEST_CASE("the explanation of a layer names the kernels that quantize and the kernels that multiply", "[gpu]") {
  mixture m(accumulate::exact_blocks);
  const gpu::linear_explanation e = m.explain();
  const std::string multiplies = e.products.at(0).text();
  CHECK(e.products.size() == 4);
  CHECK(std::string(e.products[0].kernel) != "gemm_simt");
  CHECK(multiplies.starts_with("linear_forward_grouped: gemm_"));
  CHECK(e.text() == "linear_forward_grouped: left quantize_lanes, right quantize_lanes\n" + multiplies +
                        (e.products[3].text() == multiplies ? "" : "\n" + e.products[3].text()));

  const auto now = m.recipe.at(0, 0);
  twin<float> dx(60, mixture::inputs, 4), dw(4 * mixture::outputs, mixture::inputs, 5);
  const auto dy = m.y.there();
  const twin<float> one(mixture::outputs, mixture::inputs, 6);
  const auto dense = gpu::explain_linear_backward_input({}, now, dy, one.there(), dx.out_there());
  CHECK(std::string(dense.operation) == "linear_backward_input");
  CHECK(std::string(dense.left) == "quantize_lanes");
  CHECK(std::string(dense.right) == "quantize_tiles");
  const gpu::saved_activation not_yet;
  const auto saved = gpu::explain_linear_backward_weight({}, now, dy, not_yet, dw.out_there(), m.offsets);
  CHECK(
      saved.text().starts_with("linear_backward_weight_grouped: left quantize_tiles, right not quantized "
                               "here\nlinear_backward_weight"));
  CHECK(saved.products.size() == 4);
  const auto plain = gpu::explain_linear_backward_weight({}, recipe::bf16_recipe(1).at(0, 0), dy, m.x.there(),
                                                         dw.out_there(), m.offsets);
  CHECK(std::string(plain.left).empty());
  CHECK(std::string(plain.products.at(0).kernel) == "gemm_simt");
  CHECK(gpu::can_run_linear_forward({}, now, m.x.there(), m.w.there(), m.y.out_there(), m.offsets));
  CHECK(gpu::can_run_linear_backward_input({}, now, dy, one.there(), dx.out_there()));
  CHECK(gpu::can_run_linear_backward_weight({}, now, dy, not_yet, dw.out_there(), m.offsets));
}

#endif

TEST_CASE("the dense operations are the grouped ones with one expert", "[gpu]") {
  recipe::training_recipe r = recipe::ufp4_recipe(11);
  r.accumulate = accumulate::exact_blocks;
  const recipe::bound_recipe now = r.at(1, 1);
  const twin<float> x(20, 32, 1), w(24, 32, 2), dy(20, 24, 3);
  twin<fp16> y(20, 24, 4), dx(20, 32, 5);
  twin<float> dw(24, 32, 6), dw_saved(24, 32, 7);
  linear_forward(now, x.here(), w.here(), y.out_here());
  linear_backward_input(now, dy.here(), w.here(), dx.out_here());
  linear_backward_weight(now, dy.here(), x.here(), dw.out_here());
  dw_saved.host = dw.host;

  const memory m(std::size_t{1} << 16), kept(gpu::linear_saved_bytes(now, x.there()));
  gpu::saved_activation saved(kept.bytes.span());
  REQUIRE(support::text_of(gpu::linear_forward(m.ctx, now, x.there(), w.there(), y.out_there(), &saved)) == "");
  REQUIRE(support::text_of(gpu::linear_backward_input(m.ctx, now, dy.there(), w.there(), dx.out_there())) == "");
  REQUIRE(support::text_of(gpu::linear_backward_weight(m.ctx, now, dy.there(), x.there(), dw.out_there())) == "");
  REQUIRE(support::text_of(gpu::linear_backward_weight(m.ctx, now, dy.there(), saved, dw_saved.out_there())) == "");
  CHECK(y.agrees());
  CHECK(dx.agrees());
  CHECK(dw.agrees());
  CHECK(dw_saved.agrees());
}

TEST_CASE("a recipe with a quantizer that no GPU operation has is rejected, and nothing is written", "[gpu]") {
  const twin<float> x(64, 64, 1), w(64, 64, 2);
  twin<float> y(64, 64, 3);
  const std::vector<float> before = y.host;
  for (const support::named_recipe& r : support::recipes_of_cpus) {
    CAPTURE(r.name);
    CHECK(support::text_of(gpu::linear_backward_input({}, r.what.at(0, 0), x.there(), w.there(), y.out_there())) ==
          "linear_backward_input: dgrad.left (dY): MS-EDEN is not available on GPUs");
  }
  CHECK(y.host == before);
  CHECK(y.agrees());
}

TEST_CASE("a mistake in a layer comes back with the host's message, and nothing is written", "[gpu]") {
  const recipe::bound_recipe now = recipe::ufp4_recipe(1).at(0, 0);
  const twin<float> x(20, 32, 1), w(24, 32, 2), dy(20, 24, 3);
  twin<float> y(20, 24, 4), narrow(20, 23, 5), dw(24, 32, 6);
  const std::vector<float> before = y.host;

  const gpu::context none{};
  const std::size_t needed = gpu::linear_forward_workspace_bytes(now, x.there(), w.there(), y.out_there());
  CHECK(support::text_of(gpu::linear_forward(none, now, x.there(), w.there(), y.out_there())) ==
        "linear_forward: context.workspace is too small: 0 bytes, needs " + std::to_string(needed));
  CHECK(support::text_of(gpu::linear_forward(none, now, x.there(), w.there(), narrow.out_there())) ==
        "linear_forward: row count mismatch: w has 24, 1 experts of 23 outputs (columns of y) need 23");

  const memory m(needed);
  gpu::saved_activation homeless;
  CHECK(support::text_of(gpu::linear_forward(m.ctx, now, x.there(), w.there(), y.out_there(), &homeless)) ==
        "linear_forward: saved.memory is too small: 0 bytes, needs " +
            std::to_string(gpu::linear_saved_bytes(now, x.there())));
  CHECK(support::text_of(gpu::linear_backward_weight(m.ctx, now, dy.there(), homeless, dw.out_there())) ==
        "linear_backward_weight: part count mismatch: saved has 0, offsets has 1 experts");
  const std::size_t many = std::size_t{1} << 32;
  const matrix_view<const float> wide{x.there().data(), 20, many, 0, 0}, wide_w{w.there().data(), 24, many, 0, 0};
  CHECK(support::text_of(gpu::linear_forward(m.ctx, now, wide, wide_w, y.out_there())) ==
        "linear_forward: fprop.left (X) is 20 x 4294967296; on a GPU a matrix has at most 2^32 - 4096 rows and "
        "columns, and 2^42 elements");
  const recipe::bound_recipe plain = recipe::bf16_recipe(1).at(0, 0);  // quantizes nothing, and keeps X^T as bf16
  CHECK(support::text_of(gpu::linear_forward(none, plain, wide, wide_w, y.out_there(), &homeless)) ==
        "linear_forward: wgrad.right (X^T) is 4294967296 x 20; on a GPU a matrix has at most 2^32 - 4096 rows and "
        "columns, and 2^42 elements");
  CHECK(y.host == before);
  CHECK(y.agrees());

  const memory kept(gpu::linear_saved_bytes(now, x.there()));
  gpu::saved_activation saved(kept.bytes.span());
  const std::size_t asked_before = gpu::linear_backward_weight_workspace_bytes(now, dy.there(), saved, dw.out_there());
  REQUIRE(support::text_of(gpu::linear_forward(m.ctx, now, x.there(), w.there(), y.out_there(), &saved)) == "");
  CHECK(gpu::linear_backward_weight_workspace_bytes(now, dy.there(), saved, dw.out_there()) == asked_before);
  recipe::training_recipe other = recipe::ufp4_recipe(2);
  CHECK(support::text_of(gpu::linear_backward_weight(m.ctx, other.at(0, 0), dy.there(), saved, dw.out_there()))
            .starts_with("linear_backward_weight: transform mismatch: saved has length 16 (first signs "));
}
