// ufp4 - quantize on a GPU reads any strides and alignment, input contiguous along columns through shared memory, and
// both ways in one pass; always the host's bytes.
// SPDX-License-Identifier: Apache-2.0
// ctest: amd
#include "gpu/quantize_check.hpp"

using namespace ufp4;
using support::check_quantize;

namespace {

/// A rows x cols matrix of the values, in memory with strides of its own, `shift` elements off.
template <class T>
struct laid_out {
  laid_out(const std::vector<T>& values, std::size_t rows, std::size_t cols, std::ptrdiff_t row, std::ptrdiff_t col,
           std::size_t shift = 0)
      : memory(shift + 1 + rows * static_cast<std::size_t>(row < 0 ? -row : row) +
               cols * static_cast<std::size_t>(col < 0 ? -col : col)) {
    std::ptrdiff_t first = static_cast<std::ptrdiff_t>(shift);
    if (row < 0) first -= static_cast<std::ptrdiff_t>(rows - 1) * row;
    if (col < 0) first -= static_cast<std::ptrdiff_t>(cols - 1) * col;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j)
        memory[static_cast<std::size_t>(first + static_cast<std::ptrdiff_t>(i) * row +
                                        static_cast<std::ptrdiff_t>(j) * col)] = values[i * cols + j];
    view = {memory.data() + first, rows, cols, row, col};
  }
  std::vector<T> memory;
  matrix_view<const T> view;
};

template <class F, class T, class... Policies>
void check_strides(std::size_t rows, std::size_t cols, std::uint64_t number, const Policies&... policies) {
  INFO(support::seed_note());
  support::hostile source(support::seed(number));
  const std::vector<T> values = support::elements<T>(source.values(rows * cols, number % 2 == 0));
  const auto c = static_cast<std::ptrdiff_t>(cols), r = static_cast<std::ptrdiff_t>(rows);
  const std::ptrdiff_t strides[][2] = {{c, 1},     {c + 3, 1}, {2 * c + 1, 2}, {1, r},
                                       {1, r + 1}, {-c, 1},    {c, -1},        {-1, r}};
  for (const auto& stride : strides)
    for (const std::size_t shift : {0u, 1u, 4u}) {
      CAPTURE(rows, cols, stride[0], stride[1], shift);
      const laid_out<T> x(values, rows, cols, stride[0], stride[1], shift);
      check_quantize<F>(x.memory, x.view, policies...);
    }
}

using square_nvfp4 = block_format<fp4<E2M1>, e4m3, square(16), float>;

template <class Rows, class Other = void, class T, class R, class C>
std::string check_both(const std::vector<T>& memory, const matrix_view<const T>& x, const R& for_rows,
                       const C& for_cols) {
  namespace gpu = support::gpu;
  using Cols = std::conditional_t<std::is_void_v<Other>, Rows, Other>;
  quantize_report seen[2];
  const auto down = std::apply(
      [&](const auto&... p) { return quantize<Rows>(x, p..., count_into{seen[0]}, cpu::context{.threads = 1}); },
      for_rows);
  const auto across = std::apply(
      [&](const auto&... p) {
        return quantize<Cols>(transpose(x), p..., count_into{seen[1]}, cpu::context{.threads = 1});
      },
      for_cols);
  const support::device_copy<T> in(memory, x);
  const support::device_output<ufp4::detail::format_of<Rows>> rows(x.rows(), x.cols(), down.transform());
  const support::device_output<ufp4::detail::format_of<Cols>> cols(x.cols(), x.rows(), across.transform());
  const gpu::buffer<std::byte> workspace(512);
  const gpu::buffer<quantize_report> reports(std::span<const quantize_report>(std::vector<quantize_report>(2)));
  const auto with = [&](int which, const auto& tuple) {
    return std::apply([&](const auto&... p) { return gpu::with(p..., gpu::count_at{reports.data() + which}); }, tuple);
  };
  const auto of_rows = with(0, for_rows);
  const auto of_cols = with(1, for_cols);
  REQUIRE(support::text_of(gpu::quantize_both<Rows, Cols>(support::context_with(workspace), in.view(), rows.view(),
                                                          cols.view(), of_rows, of_cols)) == "");
  REQUIRE(rows.matches(down));
  REQUIRE(cols.matches(across));
  REQUIRE(support::on_host(reports)[0] == seen[0]);
  REQUIRE(support::on_host(reports)[1] == seen[1]);
  return gpu::explain_both<Rows, Cols>({}, in.view(), of_rows, of_cols).text();
}

}  // namespace

TEST_CASE("input with any strides and alignment gives the host's bytes", "[gpu]") {
  check_strides<nvfp4, float>(5, 70, 1);
  check_strides<e1m2_f32, bf16>(67, 33, 2, random_hadamard<32>{1}, stochastic{.seed = 4});
  check_strides<mxfp4, fp16>(5, 48, 3);
}

TEST_CASE("input that is contiguous along columns gives the host's bytes in whole and partial tiles", "[gpu]") {
  for (const std::size_t rows : {2u, 64u, 131u})
    for (const std::size_t cols : {1u, 64u, 260u}) {
      support::hostile source(support::seed(rows + cols));
      const std::vector<float> values = source.values(rows * cols, rows == 64);
      const laid_out<float> x(values, rows, cols, 1, static_cast<std::ptrdiff_t>(rows));
      CAPTURE(rows, cols);
      check_quantize<nvfp4>(x.memory, x.view, stochastic{.seed = 6});
      check_quantize<int4_f32>(x.memory, x.view, random_hadamard<64>{1});
      check_quantize<mxfp4>(x.memory, x.view, random_hadamard<128>{1});
      check_quantize<nv_e1m2>(x.memory, x.view, random_hadamard<256>{1}, stochastic{.seed = 6});
      check_quantize<square_nvfp4>(x.memory, x.view, random_hadamard<16>{1});
      check_quantize<nvfp4>(x.memory, x.view, mse_search{});
    }
}

TEST_CASE("codes and scales need no alignment", "[gpu]") {
  const std::vector<float> values = support::hostile(support::seed(5)).values(3 * 48, false, false);
  const matrix_view<const float> x{values.data(), 3, 48};
  const support::device_copy<float> in(values, x);
  const auto want = quantize<mxfp4>(x);
  const support::gpu::buffer<std::uint8_t> memory(400);
  for (const std::size_t off : {1u, 2u, 4u, 7u}) {
    const std::span<std::uint8_t> codes = memory.span().subspan(off, want.codes().size());
    const std::span<e8m0> scales{reinterpret_cast<e8m0*>(memory.data() + 201 + off), want.scales().size()};
    REQUIRE(
        support::gpu::quantize<mxfp4>({}, in.view(), support::gpu::quantized_view<mxfp4>(codes, scales, nullptr, 3, 48))
            .ok());
    const std::vector<std::uint8_t> all = support::on_host(memory);
    REQUIRE(std::memcmp(all.data() + off, want.codes().data(), want.codes().size()) == 0);
    REQUIRE(std::memcmp(all.data() + 201 + off, want.scales().data(), want.scales().size()) == 0);
  }
}

TEST_CASE("quantize_both in one pass gives the bytes of the two calls", "[gpu]") {
  const std::string one_pass = "quantize_both: quantize_tiles";
  for (const std::size_t rows : {1u, 64u, 100u})
    for (const std::size_t cols : {1u, 48u, 150u}) {
      support::hostile source(support::seed(rows * cols));
      const std::vector<float> values = source.values(rows * cols, cols == 48);
      const matrix_view<const float> x{values.data(), rows, cols};
      const std::vector<bf16> short_values = support::elements<bf16>(values);
      const laid_out<bf16> transposed(short_values, rows, cols, 1, static_cast<std::ptrdiff_t>(rows) + 5);
      const auto plain = std::tuple<>{};
      CAPTURE(rows, cols);
      REQUIRE(check_both<nvfp4>(values, x, plain, std::tuple{random_hadamard<16>{2}, stochastic{.seed = 5}}) ==
              one_pass);
      REQUIRE(check_both<e1m2_f32, mxint4>(values, x, std::tuple{random_hadamard<64>{3}}, plain) == one_pass);
      REQUIRE(check_both<square_nvfp4, nvfp4>(values, x, plain, std::tuple{tensor_amax{9}}) == one_pass);
      REQUIRE(check_both<nvint4, square_nvfp4>(transposed.memory, transposed.view, std::tuple{scale_up{}}, plain) ==
              one_pass);
      REQUIRE(check_both<nvfp4>(values, x, std::tuple{random_hadamard<128>{2}}, plain).find("read twice") !=
              std::string::npos);
      REQUIRE(check_both<nvfp4, compat::te_nvfp4>(values, x, plain, plain).find("read twice") != std::string::npos);
    }
}

TEST_CASE("more tiles than thread blocks give the host's bytes", "[gpu]") {
  // 16 blocks of 256 sixteens on each multiprocessor, of which the CPU simulator has four: 2^18 elements.
  const std::size_t rows = 530, cols = 600;
  support::hostile source(support::seed(12));
  const std::vector<float> values = source.values(rows * cols);
  const matrix_view<const float> x{values.data(), rows, cols};
  check_quantize<nvfp4>(values, x, random_hadamard<16>{3});
  check_quantize<square_nvfp4>(values, x);
  check_quantize<nvfp4>(values, matrix_view<const float>{values.data(), rows, cols, 1, 530}, random_hadamard<16>{3});
  check_both<mxfp4>(values, x, std::tuple<>{}, std::tuple{stochastic{.seed = 5}});
}
