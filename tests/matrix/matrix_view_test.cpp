// ufp4 - matrix_view: strides of any sign, transposes, ranges, and which bytes a view may touch.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/matrix/matrix_view.hpp>

#include <cstring>
#include <type_traits>
#include <vector>

#include <ufp4/dequantize.hpp>
#include <ufp4/quantize.hpp>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"

using namespace ufp4;

static_assert(ufp4::detail::matrix_scalar<float> && ufp4::detail::matrix_scalar<const float> &&
              ufp4::detail::matrix_scalar<bf16> && ufp4::detail::matrix_scalar<fp16>);
static_assert(ufp4::detail::matrix_scalar<their_bf16> && !ufp4::detail::matrix_scalar<double> &&
              !ufp4::detail::matrix_scalar<std::uint16_t>);
static_assert(std::is_convertible_v<matrix_view<float>, matrix_view<const float>>);
static_assert(!std::is_convertible_v<matrix_view<const float>, matrix_view<float>>);

TEST_CASE("element (i, j) is data[i * row_stride + j * col_stride]") {
  float numbers[24];
  for (int i = 0; i < 24; ++i) numbers[i] = static_cast<float>(i);
  const matrix_view<float> packed{numbers, 4, 6};
  CHECK((packed.rows() == 4 && packed.cols() == 6 && packed.row_stride() == 6 && packed.col_stride() == 1));
  CHECK(packed(2, 3) == 15);
  const matrix_view<float> part{numbers + 1, 3, 2, 6};
  CHECK(part(2, 1) == 14);
  const matrix_view<float> backwards{numbers + 23, 4, 6, -6, -1};
  CHECK((backwards(0, 0) == 23 && backwards(3, 5) == 0 && backwards(1, 2) == 15));
  const matrix_view<float> turned = transpose(packed);
  CHECK((turned.rows() == 6 && turned.cols() == 4 && turned(3, 2) == 15));
  CHECK(&transpose(turned)(2, 3) == &packed(2, 3));
  const matrix_view<float> lower = row_range(packed, 2, 2);
  CHECK((lower.rows() == 2 && lower.cols() == 6 && lower(1, 5) == 23));
  CHECK(row_range(backwards, 1, 2)(0, 0) == 17);
  CHECK(row_range(turned, 2, 3)(1, 1) == 9);  // a range of columns
  const matrix_view<const float> read_only = packed;
  CHECK(&read_only(3, 3) == &packed(3, 3));
  packed(0, 0) = 100;
  CHECK(read_only(0, 0) == 100);
  const matrix_view<float> empty;
  CHECK((empty.data() == nullptr && empty.rows() == 0 && empty.cols() == 0));
}

namespace {

/// The elements of a view, packed.
template <class T>
std::vector<T> gathered(const matrix_view<const T>& x) {
  std::vector<T> out;
  for (std::size_t i = 0; i < x.rows(); ++i)
    for (std::size_t j = 0; j < x.cols(); ++j) out.push_back(x(i, j));
  return out;
}

/// Every way to lay rows x cols elements out inside a buffer, as (offset, row stride, column stride).
struct placement {
  std::ptrdiff_t offset, row, col;
};
std::vector<placement> placements(std::size_t rows, std::size_t cols) {
  const auto r = static_cast<std::ptrdiff_t>(rows), c = static_cast<std::ptrdiff_t>(cols);
  return {
      {3, c, 1},             // packed, from an odd place
      {0, c + 5, 1},         // a part of wider rows
      {0, 1, r},             // transposed
      {1, 2, 2 * r + 1},     // transposed, every other element
      {(r - 1) * c, -c, 1},  // rows upside down
      {c - 1, c, -1},        // columns from right to left
      {r * c - 1, -c, -1},   // both
      {(c - 1) * r, 1, -r},  // transposed and mirrored
      {0, 3 * c + 2, 3},     // every third column
  };
}

template <class F, class T>
void check_placements(std::size_t rows, std::size_t cols) {
  support::hostile source(support::seed(rows * 64 + cols));
  const std::vector<T> packed = support::elements<T>(source.values(rows * cols));
  const matrix_view<const T> plain{packed.data(), rows, cols};
  const auto want = quantize<F>(plain, hadamard<32>{});
  std::vector<float> decoded(rows * cols);
  dequantize(want, matrix_view<float>{decoded.data(), rows, cols});
  for (const placement& p : placements(rows, cols)) {
    CAPTURE(rows, cols, p.offset, p.row, p.col);
    std::vector<T> memory(6 * rows * (cols + 5) + 16);
    const matrix_view<T> x{memory.data() + p.offset, rows, cols, p.row, p.col};
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j) x(i, j) = plain(i, j);
    REQUIRE(quantize<F>(x, hadamard<32>{}) == want);
    REQUIRE(model::bits_of(amax(x, hadamard<32>{}).value) == model::bits_of(amax(plain, hadamard<32>{}).value));

    // As an output: every element in its place, nothing else touched.
    support::guarded<float> canvas(6 * rows * (cols + 5) + 16, 0, 0x77);
    std::vector<float> before(canvas.begin(), canvas.end());
    const matrix_view<float> out{canvas.data() + p.offset, rows, cols, p.row, p.col};
    for (const bool fake : {false, true}) {
      std::memset(canvas.data(), 0x77, canvas.size() * sizeof(float));
      if (fake)
        fake_quantize<F>(x, out, hadamard<32>{});
      else
        dequantize(want, out);
      REQUIRE(support::same_numbers(gathered<float>(out), decoded));
      for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < cols; ++j) out(i, j) = before[0];
      REQUIRE((canvas.same_bytes(before) && canvas.guards_intact()));
    }
  }
}

}  // namespace

TEST_CASE("operations read and write through strides: negative, transposed, with gaps") {
  INFO(support::seed_note());
  for (const std::size_t rows : {1u, 2u, 7u})
    for (const std::size_t cols : {1u, 16u, 33u, 70u}) {
      check_placements<nvfp4, float>(rows, cols);
      check_placements<mxfp4, bf16>(rows, cols);
    }
}

TEST_CASE("a zero stride repeats elements") {
  const float row[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  std::vector<float> repeated;
  for (int i = 0; i < 5; ++i) repeated.insert(repeated.end(), row, row + 16);
  CHECK(quantize<nvfp4>(matrix_view<const float>{row, 5, 16, 0, 1}) ==
        quantize<nvfp4>(matrix_view<const float>{repeated.data(), 5, 16}));
  const float one = -3;
  const std::vector<float> all(40, one);
  CHECK(quantize<e1m2_f32>(matrix_view<const float>{&one, 2, 20, 0, 0}) ==
        quantize<e1m2_f32>(matrix_view<const float>{all.data(), 2, 20}));
}

TEST_CASE(
    "two matrices share bytes if an element of one overlaps an element of the other, where rows have one distance") {
  float memory[128] = {};
  const auto lies_in = [&](const float* p, std::size_t size, const detail::source& x) {
    for (std::size_t i = 0; i < x.rows; ++i)
      for (std::size_t j = 0; j < x.cols; ++j) {
        const char* at = static_cast<const char*>(x.data) + x.offset(i, j) * static_cast<std::ptrdiff_t>(size);
        if (at < reinterpret_cast<const char*>(p + 1) && at + size > reinterpret_cast<const char*>(p)) return true;
      }
    return false;
  };
  std::size_t apart = 0;
  const auto check = [&](const matrix_view<float>& a, const auto& b) {
    const detail::source x = detail::source_of(b);
    bool shares = false;
    for (std::size_t i = 0; i < a.rows(); ++i)
      for (std::size_t j = 0; j < a.cols(); ++j) shares = shares || lies_in(&a(i, j), x.kind == dtype::f32 ? 4 : 2, x);
    CAPTURE(a.data() - memory, a.rows(), a.cols(), b.rows(), b.cols());
    CHECK(detail::share_bytes(detail::source_of(a), x) == shares);
    CHECK(detail::share_bytes(x, detail::source_of(a)) == shares);
    CHECK(detail::share_bytes(detail::source_of(transpose(a)), detail::source_of(transpose(b))) == shares);
    apart += !shares && detail::bytes_of(detail::source_of(a)).overlaps(detail::bytes_of(x));
  };
  for (std::ptrdiff_t first = 0; first < 60; ++first)
    for (const std::size_t rows : {1u, 2u, 4u})
      for (const std::size_t cols : {1u, 3u, 10u}) {
        const matrix_view<float> a{memory + first, rows, cols, 10};
        check(a, matrix_view<float>{memory + 23, 3, 5, 10});
        check(a, matrix_view<bf16>{reinterpret_cast<bf16*>(memory + 23) + 1, 3, 5, 20});
      }
  CHECK(apart > 100);
  // Other strides: the bytes from the first to the last decide.
  const auto shares = [](const matrix_view<float>& a, const matrix_view<float>& b) {
    return detail::share_bytes(detail::source_of(a), detail::source_of(b));
  };
  CHECK(shares({memory, 3, 3, 10}, {memory + 5, 3, 3, 12}));
  CHECK(shares({memory, 3, 3, 10, 2}, {memory + 1, 3, 3, 10, 2}));
  CHECK(shares({memory, 3, 3, 10}, {memory + 29, 3, 3, -10}));
  CHECK(shares({memory, 3, 3, 10}, {memory, 3, 3, 0}));
  CHECK(shares({memory, 3, 12, 10}, {memory + 33, 1, 1}) == false);
}

TEST_CASE("the bytes a view may touch reach from its lowest element to past its highest, whatever the strides") {
  float memory[100] = {};
  const auto range = [&](std::ptrdiff_t offset, std::size_t rows, std::size_t cols, std::ptrdiff_t row,
                         std::ptrdiff_t col) {
    const detail::byte_range b =
        detail::bytes_of(detail::source_of(matrix_view<float>{memory + offset, rows, cols, row, col}));
    const auto base = reinterpret_cast<std::uintptr_t>(memory);
    return std::pair<std::size_t, std::size_t>{(b.first - base) / 4, (b.last - base) / 4};
  };
  using ends = std::pair<std::size_t, std::size_t>;
  CHECK(range(10, 2, 3, 3, 1) == ends{10, 16});
  CHECK(range(10, 2, 3, 20, 1) == ends{10, 33});
  CHECK(range(50, 2, 3, -20, 1) == ends{30, 53});
  CHECK(range(50, 2, 3, -20, -2) == ends{26, 51});
  CHECK(range(50, 4, 3, 1, -10) == ends{30, 54});
  CHECK(range(50, 4, 3, 0, 0) == ends{50, 51});
  const detail::byte_range none = detail::bytes_of(detail::source_of(matrix_view<float>{memory, 0, 5}));
  CHECK(!none.overlaps({0, ~std::uintptr_t{0}}));
  CHECK(detail::byte_range{10, 20}.overlaps({19, 30}));
  CHECK(!detail::byte_range{10, 20}.overlaps({20, 30}));
  CHECK(!detail::byte_range{10, 20}.overlaps({5, 10}));
  CHECK(detail::byte_range{10, 20}.overlaps({12, 13}));
  bf16 halves[8];
  const detail::byte_range b = detail::bytes_of(detail::source_of(matrix_view<bf16>{halves, 2, 4}));
  CHECK(b.last - b.first == 16);
}
