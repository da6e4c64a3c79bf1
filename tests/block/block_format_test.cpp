// ufp4 - block_format: the presets as numerics 5 lists them, and what a format type says of itself.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/block/block_format.hpp>

#include <ufp4/block/presets.hpp>

#include <type_traits>

#include "support/catch.hpp"

using namespace ufp4;

template <class F, class Element, class Scale, int length, bool two_level>
constexpr bool preset =
    std::is_same_v<typename F::element_type, Element> && std::is_same_v<typename F::scale_type, Scale> &&
    F::block == block_shape{1, length} && F::block_size == length && F::two_level == two_level &&
    F::has_tensor_scale == two_level && std::is_void_v<typename F::outer_type> != two_level;

static_assert(preset<e1m2_f32, fp4<E1M2>, float, 16, false>);
static_assert(preset<int4_f32, ufp4::int4, float, 16, false>);
static_assert(preset<e2m1_f32, fp4<E2M1>, float, 16, false>);
static_assert(preset<nvfp4, fp4<E2M1>, e4m3, 16, true>);
static_assert(preset<nv_e1m2, fp4<E1M2>, e4m3, 16, true>);
static_assert(preset<nvint4, ufp4::int4, e4m3, 16, true>);
static_assert(preset<mxfp4, fp4<E2M1>, e8m0, 32, false>);
static_assert(preset<mx_e1m2, fp4<E1M2>, e8m0, 32, false>);
static_assert(preset<mxint4, ufp4::int4, e8m0, 32, false>);

static_assert(e1m2_f32::bits_per_element == 6.0 && nvfp4::bits_per_element == 4.5 && mxfp4::bits_per_element == 4.25);
static_assert(block_format<fp4<E2M1>, bf16, 16>::bits_per_element == 5.0);
static_assert(block_format<fp4<E2M1>, e4m3, square(16), float>::bits_per_element == 4.03125);

static_assert(square(16) == block_shape{16, 16} && block_shape(32) == block_shape{1, 32});
static_assert(ufp4::detail::any_block_format<nvfp4> && !ufp4::detail::any_block_format<float> &&
              !ufp4::detail::any_block_format<fp4<E2M1>>);

TEST_CASE("spec_of says what the type says") {
  const format_spec f = spec_of<block_format<fp4<E3M0>, ue5m3, square(8), float>>;
  CHECK(f.scale == scale_kind::ue5m3);
  CHECK((f.block.rows == 8 && f.block.cols == 8));
  CHECK(f.two_level());
  CHECK(f.grid == grid_of<fp4<E3M0>>());
  CHECK(spec_of<mxfp4>.scale == scale_kind::e8m0);
  CHECK(spec_of<e1m2_f32>.scale == scale_kind::f32);
  CHECK(spec_of<block_format<fp4<E2M1>, bf16, 16>>.scale == scale_kind::bf16);
  CHECK(spec_of<nvfp4> == spec_of<block_format<fp4<E2M1>, e4m3, 16, float>>);
  CHECK(!(spec_of<nvfp4> == spec_of<nv_e1m2>));
  CHECK(!(spec_of<nvfp4> == spec_of<block_format<fp4<E2M1>, e4m3, 16>>));
}
