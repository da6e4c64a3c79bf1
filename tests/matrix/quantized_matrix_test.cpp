// ufp4 - quantized_matrix and quantized_view: sizes, ownership, errors, equality, transposes of square blocks.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/matrix/quantized_matrix.hpp>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ufp4/block/presets.hpp>
#include <ufp4/format/table_element.hpp>
#include <ufp4/quantize.hpp>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/seed.hpp"

namespace {

using namespace ufp4;

using square_nvfp4 = block_format<fp4<E2M1>, e4m3, square(16), float>;
using square_mx = block_format<fp4<E1M2>, e8m0, square(32)>;
using square_nf4 = block_format<nf4, float, square(4)>;

template <class F>
void check_sizes(std::size_t rows, std::size_t cols, std::size_t padded, std::size_t scales,
                 const transform_spec& t = {}) {
  CAPTURE(rows, cols);
  const quantized_matrix<F> q(rows, cols, t);
  CHECK(q.rows() == rows);
  CHECK(q.cols() == cols);
  CHECK(q.padded_cols() == padded);
  CHECK(q.codes().size() == rows * padded / 2);
  CHECK(q.scales().size() == scales);
  CHECK(q.tensor_scale() == 1);
  CHECK(q.transform().n == t.n);
  CHECK(reinterpret_cast<std::uintptr_t>(q.codes().data()) % 64 == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(q.scales().data()) % 64 == 0);
}

template <class Make>
std::string message_of(const Make& make) {
  try {
    make();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("sizes: codes of 4 MiB or more begin at a huge page, and a copy of them is equal") {
  const auto place = [](const auto& q) { return reinterpret_cast<std::uintptr_t>(q.codes().data()); };
  quantized_matrix<nvfp4> q(2048, 4096), small(2047, 4096);
  CHECK(q.codes().size() == std::size_t{4} << 20);
  CHECK(place(q) % (std::size_t{2} << 20) == 0);
  CHECK(place(small) % 64 == 0);
  for (std::size_t i = 0; i < q.codes().size(); ++i) q.codes()[i] = static_cast<std::uint8_t>(i * 7);
  const quantized_matrix<nvfp4> copy = q;
  CHECK(place(copy) % (std::size_t{2} << 20) == 0);
  CHECK(std::memcmp(copy.codes().data(), q.codes().data(), q.codes().size()) == 0);
}

TEST_CASE("sizes: codes are padded_cols / 2 bytes a row, scales one a block") {
  check_sizes<nvfp4>(3, 0, 0, 0);
  check_sizes<nvfp4>(0, 40, 48, 0);
  check_sizes<nvfp4>(3, 1, 16, 3);
  check_sizes<nvfp4>(3, 16, 16, 3);
  check_sizes<nvfp4>(3, 17, 32, 6);
  check_sizes<mxfp4>(2, 33, 64, 4);
  check_sizes<mxfp4>(2, 33, 64, 4, hadamard<16>{}.spec());  // the block is the longer
  check_sizes<nvfp4>(2, 33, 64, 8, hadamard<64>{}.spec());  // the transform is
  check_sizes<e1m2_f32>(1, 257, 512, 32, hadamard<256>{}.spec());
  check_sizes<square_nvfp4>(17, 33, 48, 6);
  check_sizes<square_nvfp4>(16, 16, 16, 1);
  check_sizes<square_mx>(1, 1, 32, 1);
}

TEST_CASE("copies are deep, moves keep the memory, both keep everything else") {
  std::vector<float> x(3 * 40);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 60;
  auto q = quantize<nvfp4>(matrix_view<const float>{x.data(), 3, 40}, random_hadamard<32>{9});
  const quantized_matrix<nvfp4> copy = q;
  CHECK(copy == q);
  CHECK(copy.codes().data() != q.codes().data());
  CHECK(copy.scales().data() != q.scales().data());
  CHECK(same_map(copy.transform(), q.transform()));
  q.codes()[5] ^= 1;
  CHECK(!(copy == q));
  q.codes()[5] ^= 1;

  const std::uint8_t* memory = q.codes().data();
  quantized_matrix<nvfp4> moved = std::move(q);
  CHECK(moved.codes().data() == memory);
  CHECK(moved == copy);
  q = copy;  // a moved-from matrix may be assigned to
  CHECK(q == copy);
  quantized_matrix<nvfp4> other(1, 1);
  other = std::move(moved);
  CHECK((other == copy && other.codes().data() == memory && other.cols() == 40 && other.padded_cols() == 64));
  const quantized_matrix<nvfp4>& self = other;
  other = self;
  CHECK(other == copy);
  const quantized_matrix<nvfp4> none;
  CHECK((none.rows() == 0 && none.cols() == 0 && none.codes().empty() && none.scales().empty()));
  quantized_matrix<nvfp4> of_none = none;
  CHECK(of_none == none);
}

TEST_CASE("a view refers to the matrix's memory and equals it") {
  const std::vector<float> x(2 * 20, 1.5f);
  auto q = quantize<nvfp4>(matrix_view<const float>{x.data(), 2, 20}, hadamard<16>{});
  const quantized_view<nvfp4> view = q;
  CHECK((view == q && q == view && view == view && view == q.view()));
  CHECK((view.codes().data() == q.codes().data() && view.scales().data() == q.scales().data()));
  CHECK((view.rows() == 2 && view.cols() == 20 && view.padded_cols() == 32 && view.transform().n == 16));
  CHECK(model::bits_of(view.tensor_scale()) == model::bits_of(q.tensor_scale()));
}

TEST_CASE("== compares bits: any one difference shows, NaNs are equal to themselves, zeros to their own sign") {
  const std::vector<float> x(2 * 32, 1.5f);
  const auto q = quantize<e1m2_f32>(matrix_view<const float>{x.data(), 2, 32});
  const auto differs = [&](auto change) {
    quantized_matrix<e1m2_f32> other = q;
    change(other);
    return !(other == q) && !(q == other);
  };
  CHECK(!differs([](auto&) {}));
  CHECK(differs([](auto& m) { m.codes()[0] ^= 0x01; }));
  CHECK(differs([](auto& m) { m.codes()[31] ^= 0x80; }));
  CHECK(differs([](auto& m) { m.scales()[0] = -m.scales()[0]; }));
  CHECK(differs([](auto& m) { m.scales()[3] = model::float_of(model::bits_of(m.scales()[3]) + 1); }));
  CHECK(differs([](auto& m) { m.set_tensor_scale(2); }));
  CHECK(differs([](auto& m) { m = quantized_matrix<e1m2_f32>(2, 31); }));
  CHECK(differs([](auto& m) { m = quantized_matrix<e1m2_f32>(1, 32); }));
  CHECK(differs([](auto& m) { m = quantized_matrix<e1m2_f32>(4, 16); }));
  quantized_matrix<e1m2_f32> nans = q;
  nans.scales()[1] = model::float_of(0x7FC00000u);
  quantized_matrix<e1m2_f32> again = nans;
  CHECK(nans == again);
  nans.set_tensor_scale(0.0f), again.set_tensor_scale(-0.0f);
  CHECK(!(nans == again));
  // Without a single byte the shape still counts.
  CHECK(!(quantized_matrix<e1m2_f32>(0, 3) == quantized_matrix<e1m2_f32>(0, 4)));
}

TEST_CASE("a view of memory that does not fit says which span and both sizes") {
  std::vector<std::uint8_t> codes(48);
  std::vector<e4m3> scales(6);
  const auto view = [&](std::size_t code_bytes, std::size_t scale_count, std::size_t rows, std::size_t cols,
                        const transform_spec& t = {}) {
    return message_of(
        [&] { quantized_view<nvfp4>({codes.data(), code_bytes}, {scales.data(), scale_count}, 1.0f, rows, cols, t); });
  };
  CHECK(view(48, 6, 3, 20).empty());
  CHECK(view(47, 6, 3, 20) == "quantized_view: codes has 47 bytes, but 3 x 20 elements (32 with padding) take 48");
  CHECK(view(48, 6, 4, 20) == "quantized_view: codes has 48 bytes, but 4 x 20 elements (32 with padding) take 64");
  CHECK(view(48, 6, 3, 20, hadamard<64>{}.spec()) ==
        "quantized_view: codes has 48 bytes, but 3 x 20 elements (64 with padding) take 96");
  CHECK(view(48, 5, 3, 20) == "quantized_view: scales has 5 entries, but 3 x 20 elements take 6");
  CHECK(view(0, 1, 0, 20) == "quantized_view: scales has 1 entries, but 0 x 20 elements take 0");
  const auto null = [&](std::uint8_t* c, e4m3* s) {
    return message_of([&] { quantized_view<nvfp4>({c, 8}, {s, 1}, 1.0f, 1, 16); });
  };
  CHECK(null(nullptr, scales.data()) == "quantized_view: codes is null");
  CHECK(null(codes.data(), nullptr) == "quantized_view: scales is null");
  CHECK(message_of([] { quantized_view<nvfp4>({}, {}, 1.0f, 0, 16); }).empty());
}

TEST_CASE("shapes whose elements cannot be counted are rejected, not wrapped round to a small size") {
  const std::size_t half = std::size_t{1} << 32, most = ~std::size_t{0};
  const std::string text = ": too many elements: 4294967296 x 4294967296";
  CHECK(message_of([&] { quantized_view<nvfp4>({}, {}, 1.0f, half, half); }) == "quantized_view" + text);
  CHECK(message_of([&] { quantized_matrix<nvfp4>(half, half); }) == "quantized_matrix" + text);
  CHECK(message_of([&] { quantized_view<nvfp4>({}, {}, 1.0f, 1, most); }).find("1 x 18446744073709551615") !=
        std::string::npos);
  CHECK(message_of([&] { quantized_matrix<nvfp4>(0, most); }).find("0 x 18446744073709551615") != std::string::npos);
}

namespace {

template <class F, class... Policies>
void check_transpose(std::size_t rows, std::size_t cols, std::uint64_t seed, const Policies&... policies) {
  CAPTURE(rows, cols);
  support::hostile source(seed);
  const std::vector<float> x = source.values(rows * cols, cols % 3 == 0);
  const matrix_view<const float> view{x.data(), rows, cols};
  const auto q = quantize<F>(view, policies...), turned = quantize<F>(transpose(view), policies...);
  const quantized_matrix<F> ours = transpose(q);
  REQUIRE(ours == turned);
  REQUIRE(transpose(q.view()) == turned);
  REQUIRE(transpose(ours) == q);
}

}  // namespace

TEMPLATE_TEST_CASE("the transpose of square blocks is the quantized transpose, ragged edges and NaN blocks included",
                   "", square_nvfp4, square_mx, square_nf4) {
  INFO(support::seed_note());
  const std::size_t edge = TestType::block_size;
  for (const std::size_t rows : {std::size_t{0}, std::size_t{1}, edge - 1, edge, edge + 1, 3 * edge + 2})
    for (const std::size_t cols : {std::size_t{0}, std::size_t{1}, edge - 1, edge, edge + 1, 2 * edge + 3, 2 * edge})
      for (std::uint64_t trial = 0; trial < 6; ++trial) {
        check_transpose<TestType>(rows, cols, support::seed(rows * 1000 + cols * 10 + trial));
        check_transpose<TestType>(rows, cols, support::seed(trial), toward_zero{});
      }
}

TEST_CASE("the transpose of a matrix quantized after a transform is rejected") {
  const std::vector<float> x(16 * 32, 1.0f);
  const auto q = quantize<square_nvfp4>(matrix_view<const float>{x.data(), 16, 32}, hadamard<32>{});
  CHECK(message_of([&] { transpose(q); }) ==
        "transpose: codes after a Hadamard transform cannot be transposed, n is 32");
}
