// ufp4 - quantize on a GPU gives the host's bytes under every scale rule, block shape, grid, preset, shard and rounding
// policy, the program's own included.
// SPDX-License-Identifier: Apache-2.0
// ctest: amd
#include "gpu/presets.hpp"
#include "gpu/quantize_check.hpp"

#include "format/user_tables.hpp"

using namespace ufp4;
using support::check_quantize;

namespace {

/// A policy of a program's own: to the neighbour with the even rank.
struct to_even_rank {
  UFP4_HD bool round_up(const neighbours& n, float, std::uint64_t) const { return n.lower_rank % 2 != 0; }
};

template <class F, class... Policies>
void check_some(const Policies&... policies) {
  INFO(support::seed_note());
  support::hostile source(support::seed(sizeof(F)));
  for (const std::size_t cols : {17u, 96u, 290u}) {
    CAPTURE(cols);
    for (const bool all_magnitudes : {false, true})
      check_quantize<F>(source.values(3 * cols, all_magnitudes), 3, cols, policies...);
  }
}

template <class Element, class Scale, int length>
void check_length() {
  using F = block_format<Element, Scale, length>;
  check_some<F>();
  check_some<F>(random_hadamard<64>{2}, stochastic{.seed = 5});
}

template <int size>
void check_square() {
  using two_level = block_format<fp4<E2M1>, e4m3, square(size), float>;
  using one_level = block_format<ufp4::int4, bf16, square(size)>;
  support::hostile source(support::seed(size));
  for (const std::size_t rows : {1u, 16u, 37u}) {
    const std::vector<float> x = source.values(rows * 70);
    CAPTURE(size, rows);
    check_quantize<two_level>(x, rows, 70);
    check_quantize<one_level>(x, rows, 70, random_hadamard<16>{7}, stochastic{.seed = 1});
    check_quantize<two_level>(x, rows, 70, random_hadamard<32>{7}, nearest_away{});
  }
}

}  // namespace

TEST_CASE("blocks of every length have the host's bytes", "[gpu]") {
  check_length<fp4<E2M1>, e8m0, 2>();
  check_length<fp4<E1M2>, float, 8>();
  check_length<ufp4::int4, e4m3, 16>();
  check_length<fp4<E2M1>, ue5m3, 32>();
  check_length<fp4<E1M2>, bf16, 64>();
  check_length<fp4<E2M1>, e8m0, 128>();
  check_length<ufp4::int4, float, 256>();
}

TEST_CASE("squares of every size have the host's bytes", "[gpu]") {
  check_square<2>();
  check_square<16>();
  check_square<64>();
}

TEST_CASE("the largest tile, 80 KiB, is quantized if a block has that much shared memory, else rejected with a message",
          "[gpu]") {
  using F = block_format<ufp4::int4, float, square(64)>;
  namespace gpu = support::gpu;
  gpu::device_facts device;
  REQUIRE(gpu::facts(device) == gpu::success);
  const std::vector<float> x(70 * 300, 1.5f);
  if (device.shared_bytes >= 80 * 1024) {
    check_quantize<F>(x, 70, 300, random_hadamard<256>{7});
    check_quantize<block_format<ufp4::int4, float, square(128)>>(x, 70, 300);
    return;
  }
  const support::device_copy<float> in(x, {x.data(), 70, 300});
  const support::device_output<F> out(70, 300, random_hadamard<256>{7}.spec());
  const gpu::status s = gpu::quantize<F>({}, in.view(), out.view(), random_hadamard<256>{7});
  CHECK(s.code() == gpu::not_supported);
  CHECK(s.text() ==
        "quantize: quantize_blocks: the rows of a block times a run need more shared memory than a block of this "
        "device has");
}

TEST_CASE("grids that are neither uniform nor E2M1 have the host's bytes", "[gpu]") {
  check_some<block_format<fp4<E3M0>, float, 16>>();
  check_some<block_format<nf4, float, 64>>(random_hadamard<16>{3});
  check_some<block_format<nf4, e4m3, 16, float>>(stochastic{.seed = 9});
  check_some<block_format<fp4<E3M0>, e8m0, 32>>(stochastic{.seed = 9});
}

TEST_CASE("grids that are not symmetric, or at the ends of binary32, have the host's bytes and counts", "[gpu]") {
  check_some<block_format<format_tests::counting, e8m0, 32>>();
  check_some<block_format<fp4_remapped<E2M1, 8>, float, 16>>();
  check_some<block_format<format_tests::multiples_of<-4>, e8m0, 32>>(mx_ceil{});
  check_some<block_format<format_tests::multiples_of<-4>, float, 16>>(stochastic{.seed = 9});
  check_some<block_format<format_tests::multiples_of<-4>, e4m3, 16, float>>(mse_search{});
  check_some<block_format<format_tests::multiples_of<-149>, ue5m3, 16, float>>();
  check_some<block_format<format_tests::multiples_of<120>, e4m3, 16, float>>();
  check_some<block_format<one_of<fp4<E2M1>, scaled<format_tests::multiples_of<-4>, 4>>, float, 16>>(
      choose_grid{search_error::largest});
}

TEST_CASE("rectangular blocks have the host's bytes", "[gpu]") {
  check_some<block_format<fp4<E2M1>, e4m3, block_shape(32, 16), float>>(stochastic{.seed = 3});
  check_some<block_format<ufp4::int4, float, block_shape(128, 32)>>();
  check_some<block_format<fp4<E1M2>, e8m0, block_shape(2, 64)>>(random_hadamard<16>{1});
}

TEST_CASE("every scale rule gives the host's bytes", "[gpu]") {
  check_some<nvfp4>(scale_up{}, stochastic{.seed = 4});
  check_some<nvfp4>(four_over_six{}, random_hadamard<16>{1});
  check_some<nvfp4>(mse_search{}, stochastic{.seed = 4});
  check_some<nvfp4>(four_over_six{search_error::absolute});
  check_some<nvfp4>(mae_search{.below = 1, .above = 3}, scale_up{});
  check_some<mxfp4>(percentile{850}, random_hadamard<16>{1});
  check_some<e1m2_f32>(mse_search{});
  check_some<mxfp4>(mx_even{});
  check_some<mx_e1m2>(mx_even{});
  check_some<mxint4>(mx_ceil{}, stochastic{.seed = 4});
  check_some<mxfp4>(mx_floor{}, mse_search{});
  check_some<block_format<fp4<E2M1>, ue5m3, 16>>(scale_up{});
}

TEMPLATE_LIST_TEST_CASE("compat presets give the host's bytes", "[gpu]", support::compat_presets) {
  check_some<TestType>();
}
TEST_CASE("compat presets after a transform give the host's bytes", "[gpu]") {
  check_some<compat::torchao_mx_even>(random_hadamard<32>{1});
  check_some<compat::torchao_nvfp4>(random_hadamard<16>{1});
}

TEST_CASE("a user-defined rounding policy gives the host's bytes", "[gpu]") {
  check_some<nvfp4>(to_even_rank{});
  check_some<e1m2_f32>(to_even_rank{}, random_hadamard<16>{4});
}

TEST_CASE("a shard has the bits of its place in the whole matrix", "[gpu]") {
  support::hostile source(support::seed(8));
  const std::vector<float> x = source.values(6 * 100, false, false);
  for (const std::uint64_t far : {std::uint64_t{0}, std::uint64_t{48}, std::uint64_t{1} << 40}) {
    const shard place{.first_row = far + 3, .first_col = far, .total_cols = far + 100};
    CAPTURE(far);
    check_quantize<e1m2_f32>(x, 6, 100, stochastic{.seed = 7, .stream = 1}, place);
    check_quantize<nvfp4>(x, 6, 100, random_hadamard<16>{2}, stochastic{.seed = 7}, tensor_amax{40}, place);
    check_quantize<block_format<nf4, float, 16>>(x, 6, 100, stochastic{.seed = 7}, place);
  }
}

TEST_CASE("a tensor_amax, from the host or from device memory, gives the same tensor scale", "[gpu]") {
  support::hostile source(support::seed(9));
  const std::vector<float> x = source.values(3 * 40, false, false);
  const matrix_view<const float> view{x.data(), 3, 40};
  const support::device_copy<float> in(x, view);
  for (const float g : {0.0f, -0.0f, 0x1p-149f, 1e-3f, 7.0f, 3e38f}) {
    CAPTURE(g);
    check_quantize<nvfp4>(x, 3, 40, tensor_amax{g});
    const support::gpu::buffer<float> there(std::span<const float>(&g, 1));
    const support::device_output<nvfp4> out(3, 40, {});
    REQUIRE(support::text_of(support::gpu::quantize<nvfp4>({}, in.view(), out.view(),
                                                           support::gpu::tensor_amax_at{there.data()})) == "");
    REQUIRE(out.matches(quantize<nvfp4>(view, tensor_amax{g})));
  }
}

TEST_CASE("a tensor_amax_at that is not a finite number >= 0 makes the tensor scale NaN", "[gpu]") {
  const std::vector<float> x(32, 1.0f);
  const support::device_copy<float> in(x, {x.data(), 1, 32});
  for (const std::uint32_t bits : {0x7F800000u, 0x7FC00000u, 0xFFC00000u, 0xBF800000u, 0x80000001u}) {
    const float g = model::float_of(bits);
    const support::gpu::buffer<float> there(std::span<const float>(&g, 1));
    for (const ufp4::scale_rule_spec& rule : {ufp4::scale_rule_spec{}, mse_search{}.spec()}) {
      support::gpu::quantized_matrix<nvfp4> out(1, 32);
      REQUIRE(support::gpu::quantize<nvfp4>({}, in.view(), out, rule, support::gpu::tensor_amax_at{there.data()}).ok());
      REQUIRE(model::bits_of(out.download().tensor_scale()) == 0x7FC00000u);
    }
  }
}

TEST_CASE("quantize takes the result of the GPU's amax from device memory", "[gpu]") {
  support::hostile source(support::seed(10));
  const std::vector<float> x = source.values(5 * 70);
  const matrix_view<const float> view{x.data(), 5, 70};
  const support::device_copy<float> in(x, view);
  const support::gpu::buffer<float> found(1);
  REQUIRE(support::gpu::amax({}, in.view(), found.data(), random_hadamard<16>{3}).ok());
  const support::device_output<nvfp4> out(5, 70, random_hadamard<16>{3}.spec());
  REQUIRE(support::gpu::quantize<nvfp4>({}, in.view(), out.view(), random_hadamard<16>{3},
                                        support::gpu::tensor_amax_at{found.data()})
              .ok());
  REQUIRE(out.matches(quantize<nvfp4>(view, random_hadamard<16>{3})));
}

TEST_CASE("reports add up over calls", "[gpu]") {
  std::vector<float> x(64, 1.0f);
  x[3] = model::float_of(0x7FC00000u);
  const support::device_copy<float> in(x, {x.data(), 1, 64});
  const support::gpu::buffer<quantize_report> report(std::span<const quantize_report>(std::vector<quantize_report>(1)));
  support::gpu::quantized_matrix<e1m2_f32> out(1, 64);
  for (int i = 0; i < 3; ++i)
    REQUIRE(support::gpu::quantize<e1m2_f32>({}, in.view(), out, support::gpu::count_at{report.data()}).ok());
  REQUIRE(support::on_host(report)[0] == quantize_report{.nonfinite_blocks = 3});
}
