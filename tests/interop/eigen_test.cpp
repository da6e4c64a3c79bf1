// ufp4 - tests: Eigen matrices as matrix_view and back, and the numbers of ufp4 as Eigen scalars.
// SPDX-License-Identifier: Apache-2.0
#if __has_include(<Eigen/Core>)
#include <ufp4/interop/eigen.hpp>
#endif
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/skip.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

#if __has_include(<Eigen/Core>)

using namespace ufp4;
using interop::mutable_view, interop::view;

namespace {

/// 3 x 5 with x(i, j) = 10 i + j.
template <class Matrix>
Matrix numbered() {
  Matrix x(3, 5);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 5; ++j) x(i, j) = typename Matrix::Scalar(static_cast<float>(10 * i + j));
  return x;
}

/// Does a view read 10 (i0 + i) + j0 + j everywhere?
template <class T>
bool reads(const matrix_view<T>& v, std::size_t i0, std::size_t j0, std::size_t rows, std::size_t cols) {
  if (v.rows() != rows || v.cols() != cols) return false;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j)
      if (static_cast<float>(v(i, j)) != static_cast<float>(10 * (i0 + i) + j0 + j)) return false;
  return true;
}

using row_major = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

}  // namespace

TEST_CASE("a view of an Eigen object reads its elements, whatever its storage order", "[interop]") {
  const Eigen::MatrixXf columns = numbered<Eigen::MatrixXf>();
  const row_major rows = numbered<row_major>();
  CHECK(reads(view(columns), 0, 0, 3, 5));
  CHECK(reads(view(rows), 0, 0, 3, 5));
  CHECK(view(columns).row_stride() == 1);
  CHECK(view(rows).col_stride() == 1);
  CHECK(view(columns).data() == columns.data());
  CHECK(reads(view(columns.block(1, 2, 2, 3)), 1, 2, 2, 3));
  CHECK(reads(view(rows.row(2)), 2, 0, 1, 5));
  CHECK(reads(view(rows.col(4)), 0, 4, 3, 1));
  CHECK(reads(transpose(view(rows.transpose())), 0, 0, 3, 5));
  const Eigen::Map<const row_major, 0, Eigen::OuterStride<>> map(rows.data(), 3, 4, Eigen::OuterStride<>(5));
  CHECK(reads(view(map), 0, 0, 3, 4));
  const Eigen::Ref<const Eigen::MatrixXf> ref = columns.leftCols(2);
  CHECK(reads(view(ref), 0, 0, 3, 2));
}

TEST_CASE("a view of a temporary Eigen matrix does not compile, of a temporary block it does", "[interop]") {
  const auto reads_from = []<class M>(M&& m) { return requires { interop::view(std::forward<M>(m)); }; };
  const auto writes_to = []<class M>(M&& m) { return requires { interop::mutable_view(std::forward<M>(m)); }; };
  Eigen::MatrixXf m = Eigen::MatrixXf::Ones(4, 4);
  CHECK((reads_from(m) && writes_to(m) && reads_from(m.topRows(2)) && writes_to(m.topRows(2))));
  CHECK_FALSE((reads_from(Eigen::MatrixXf(m)) || writes_to(Eigen::MatrixXf(m))));
}

TEST_CASE("a view of Eigen's 16-bit numbers reads their values", "[interop]") {
  const auto brain = numbered<Eigen::Matrix<Eigen::bfloat16, -1, -1>>();
  const auto half = numbered<Eigen::Matrix<Eigen::half, -1, -1>>();
  CHECK(reads(view(brain), 0, 0, 3, 5));
  CHECK(reads(view(half), 0, 0, 3, 5));
  const auto exact = numbered<Eigen::MatrixXf>();
  const auto same = [](const auto& a, const auto& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); };
  const auto q = quantize<e1m2_f32>(view(exact)), qb = quantize<e1m2_f32>(view(brain)),
             qh = quantize<e1m2_f32>(view(half));
  CHECK(same(q.codes(), qb.codes()));
  CHECK(same(q.codes(), qh.codes()));
}

TEST_CASE("a product is written through mutable_view into the Eigen matrix, or into its block", "[interop]") {
  const Eigen::MatrixXf x = Eigen::MatrixXf::Ones(4, 32);
  Eigen::MatrixXf y = Eigen::MatrixXf::Constant(6, 4, -1.0f);
  const auto q = quantize<mxfp4>(view(x));
  quantized_gemm(q, q, mutable_view(y.topRows(4)));
  CHECK(y.topRows(4) == Eigen::MatrixXf::Constant(4, 4, 32.0f));
  CHECK(y.bottomRows(2) == Eigen::MatrixXf::Constant(2, 4, -1.0f));
}

TEST_CASE("map gives Eigen a view's elements with their strides", "[interop]") {
  std::vector<float> memory(24);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
  const matrix_view<float> every_other{memory.data(), 3, 4, 8, 2};
  auto m = interop::map(every_other);
  CHECK(m(2, 3) == 22.0f);
  m.row(1).setZero();
  CHECK(memory[8] == 0.0f);
  CHECK(memory[9] == 9.0f);
  const matrix_view<const float> to_read = every_other;
  CHECK(interop::map(to_read).sum() == 0.0f + 2 + 4 + 6 + 16 + 18 + 20 + 22);
}

TEST_CASE("matrices of 4-bit numbers are made, cast, compared and printed", "[interop]") {
  Eigen::Vector4f x(0.7f, -2.6f, 100.0f, 0.0f);
  const Eigen::Matrix<fp4<E2M1>, 4, 1> m = x.cast<fp4<E2M1>>();
  CHECK(m.cast<float>() == Eigen::Vector4f(0.5f, -3.0f, 6.0f, 0.0f));
  CHECK(m(1).bits() == 0xD);
  Eigen::Matrix<fp4<E2M1>, 4, 1> other = m;
  CHECK(other == m);
  other(2) = fp4<E2M1>(4.0f);
  CHECK(other != m);
  std::ostringstream text;
  text << m.transpose();
  CHECK(text.str() == "0.5  -3   6   0");
  text.str("");
  text << m.transpose().format(Eigen::IOFormat(Eigen::FullPrecision));
  CHECK(text.str() == "0.5  -3   6   0");
}

TEMPLATE_TEST_CASE("every number of the library is an Eigen scalar", "[interop]", fp4<E2M1>, fp4<E1M2>, fp4<E3M0>, int4,
                   nf4, e4m3, ue5m3, e8m0, bf16, fp16) {
  Eigen::Matrix<TestType, Eigen::Dynamic, Eigen::Dynamic> m(2, 3);
  m.setConstant(TestType(1.0f));
  CHECK(m.template cast<float>().sum() == 6.0f);
  CHECK(static_cast<float>(Eigen::NumTraits<TestType>::highest()) >= 1.0f);
  CHECK(static_cast<float>(Eigen::NumTraits<TestType>::lowest()) < 1.0f);
  CHECK(m.cwiseEqual(m).all());
}

#else

TEST_CASE("Eigen interoperability", "[interop]") { support::skip("there is no Eigen here (libeigen3-dev)"); }

#endif
