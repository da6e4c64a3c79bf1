// ufp4 - dequantize on a GPU gives the host's bits for every format, code, scale and output; so does amax.
// SPDX-License-Identifier: Apache-2.0
// ctest: amd
#include "gpu/presets.hpp"
#include "gpu/quantize_check.hpp"

#include <bit>

using namespace ufp4;

namespace {

namespace gpu = support::gpu;

/// The same numbers: NaN is any NaN.
template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return support::same_numbers(support::numbers<T>(a), support::numbers<T>(b));
}

/// Every byte of codes and every kind of scale, into T, by rows or by columns.
template <class F, class T>
void check_dequantize(std::size_t rows, std::size_t cols, const transform_spec& t = {}, bool transposed = false) {
  support::hostile source(support::seed(rows * cols));
  quantized_matrix<F> q(rows, cols, t);
  for (std::uint8_t& c : q.codes()) c = static_cast<std::uint8_t>(source.below(256));
  for (auto& s : q.scales()) {
    const std::uint32_t bits = source.below(8) == 0
                                   ? ufp4::detail::nan_scale(ufp4::detail::scale_traits<typename F::scale_type>::kind)
                               : sizeof(s) == 4 ? source.below(0x7F800000u)
                                                : source.below(sizeof(s) == 2 ? 0x7F80u : 0xFFu);
    s = ufp4::detail::scale_as<typename F::scale_type>(bits);
  }
  if (F::two_level) q.set_tensor_scale(model::float_of(0x30000000u + source.below(0x10000000u)));
  const auto r = static_cast<std::ptrdiff_t>(rows), c = static_cast<std::ptrdiff_t>(cols);
  const std::ptrdiff_t row = transposed ? 1 : c + 1, col = transposed ? r + 2 : 1;
  std::vector<T> want((rows + 2) * (cols + 2),
                      std::bit_cast<T>(std::conditional_t < sizeof(T) == 4, std::uint32_t, std::uint16_t > {0x4321}));
  const gpu::buffer<T> got{std::span<const T>(want)};
  dequantize(q, matrix_view<T>{want.data(), rows, cols, row, col});
  const gpu::quantized_matrix<F> there(q);
  REQUIRE(support::text_of(gpu::dequantize({}, there, matrix_view<T>{got.data(), rows, cols, row, col})) == "");
  CAPTURE(rows, cols, transposed);
  REQUIRE(same(support::on_host(got), want));
}

template <class F>
void check_shapes() {
  for (const std::size_t cols : {1u, 8u, 16u, 31u, 100u, 512u}) {
    check_dequantize<F, float>(5, cols);
    check_dequantize<F, bf16>(3, cols, random_hadamard<64>{1}.spec());
    check_dequantize<F, fp16>(4, cols, {}, true);
  }
  check_dequantize<F, float>(70, 300);
  check_dequantize<F, float>(0, 16);
  check_dequantize<F, float>(3, 0);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("dequantize on the device gives the host's bits", "[gpu]", support::presets) {
  check_shapes<TestType>();
}

TEST_CASE("dequantize gives the host's bits for scales, blocks and grids of no preset", "[gpu]") {
  check_shapes<block_format<nf4, bf16, 64>>();
  check_shapes<block_format<fp4<E3M0>, ue5m3, 2>>();
  check_shapes<block_format<fp4<E2M1>, e4m3, 8, float>>();
  check_shapes<block_format<fp4<E2M1>, e4m3, square(16), float>>();
  check_shapes<block_format<ufp4::int4, float, square(4)>>();
  check_shapes<block_format<ufp4::int4, float, square(128)>>();
  check_shapes<block_format<fp4<E2M1>, e4m3, block_shape(32, 16), float>>();
  check_shapes<block_format<fp4<E1M2>, e8m0, block_shape(2, 64)>>();
}

TEST_CASE("dequantize writes sixteen elements at once where alignment permits, with the same bits", "[gpu]") {
  std::vector<float> x(3 * 64);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13) - 6;
  const auto q = quantize<nvfp4>(matrix_view<const float>{x.data(), 3, 64});
  std::vector<bf16> want(x.size());
  dequantize(q, matrix_view<bf16>{want.data(), 3, 64});
  const support::guarded_buffer<bf16> got(x.size());
  const gpu::quantized_matrix<nvfp4> there(q);
  REQUIRE(gpu::dequantize({}, there.view(), matrix_view<bf16>{got.data(), 3, 64}).ok());
  REQUIRE(got.holds(want.data(), want.size() * sizeof(bf16)));
  REQUIRE(got.guards_intact());
}

TEST_CASE("amax on the device is the host's, wherever the largest element is", "[gpu]") {
  INFO(support::seed_note());
  support::hostile source(support::seed(77));
  const gpu::buffer<float> found(1);
  for (const transform_spec& t :
       {transform_spec{}, random_hadamard<16>{1}.spec(), random_hadamard<128>{2}.to_bf16().spec()})
    for (const std::size_t rows : {0u, 1u, 5u, 130u})
      for (const std::size_t cols : {0u, 1u, 16u, 77u, 300u}) {
        const std::vector<float> x = source.values(rows * cols + 1, cols == 77);
        const auto r = static_cast<std::ptrdiff_t>(rows), c = static_cast<std::ptrdiff_t>(cols);
        for (const auto& view : {matrix_view<const float>{x.data() + 1, rows, cols, c},
                                 matrix_view<const float>{x.data(), rows, cols, 1, r}}) {
          CAPTURE(t.n, rows, cols, view.row_stride());
          const support::device_copy<float> in(x, view);
          REQUIRE(support::text_of(gpu::amax({}, in.view(), found.data(), t)) == "");
          REQUIRE(model::bits_of(support::on_host(found)[0]) == model::bits_of(amax(view, t).value));
        }
      }
  std::vector<bf16> x(2000, bf16::from_bits(0x3F80));
  for (const std::size_t at : {0u, 15u, 31u, 256u, 1999u}) {
    x[at] = bf16::from_bits(0xC100);  // -8
    const support::device_copy<bf16> in(x, {x.data(), 2, 1000});
    REQUIRE(gpu::amax({}, in.view(), found.data()).ok());
    REQUIRE(support::on_host(found)[0] == 8.0f);
    x[at] = bf16::from_bits(0x7F80);  // Inf does not count
  }
}
