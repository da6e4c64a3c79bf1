// ufp4 - Eigen matrices as matrix_view and back, ufp4's numbers as Eigen scalars. Needs Eigen; not part of ufp4.hpp.
// SPDX-License-Identifier: Apache-2.0
//
//   Eigen::MatrixXf x(64, 1024);                                   // column-major, or any other order
//   const auto q = ufp4::quantize<ufp4::nvfp4>(ufp4::interop::view(x));
//   Eigen::Matrix<ufp4::fp4<ufp4::E2M1>, 4, 4> m = x.topLeftCorner<4, 4>().cast<ufp4::fp4<ufp4::E2M1>>();
//
// Views do not own memory: the Eigen object must outlive them.
#pragma once

#include <ufp4/detail/cxx20.hpp>  // first

#include <Eigen/Core>
#include <ufp4/format/io.hpp>
#include <ufp4/format/numeric_limits.hpp>
#include <ufp4/matrix/matrix_view.hpp>

namespace ufp4::inline UFP4_TYPES {

// Eigen's 16-bit numbers have the bits of bfloat16 and binary16.
template <>
struct matrix_element<Eigen::bfloat16> : matrix_element<bf16> {};
template <>
struct matrix_element<Eigen::half> : matrix_element<fp16> {};

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::interop {

/// Expressions with an address: matrices, maps, refs, blocks, rows, columns and transposes of these; not sums or casts.
template <class Derived>
concept eigen_in_memory = (static_cast<int>(Eigen::internal::traits<Derived>::Flags) & Eigen::DirectAccessBit) != 0 &&
                          ufp4::detail::matrix_scalar<typename Derived::Scalar>;
/// The same of elements that can be written.
template <class Derived>
concept eigen_writable =
    eigen_in_memory<Derived> && (static_cast<int>(Eigen::internal::traits<Derived>::Flags) & Eigen::LvalueBit) != 0;

/// The elements of an Eigen object, of float, bf16, fp16, Eigen::bfloat16 or Eigen::half, in its own storage order.
template <eigen_in_memory Derived>
matrix_view<const typename Derived::Scalar> view(const Eigen::DenseBase<Derived>& x) {
  const Derived& d = x.derived();
  return {d.data(), static_cast<std::size_t>(d.rows()), static_cast<std::size_t>(d.cols()), d.rowStride(),
          d.colStride()};
}
/// Deleted: the view would refer to a matrix that ends with its statement.
template <class Derived>
void view(const Eigen::PlainObjectBase<Derived>&&) = delete;
/// The same to write into. Accepts temporary blocks and maps, which refer to a matrix, but no temporary matrix.
template <class M, class Derived = std::remove_reference_t<M>>
  requires(!std::is_const_v<Derived> && eigen_writable<Derived> &&
           (std::is_lvalue_reference_v<M> || !std::is_base_of_v<Eigen::PlainObjectBase<Derived>, Derived>))
matrix_view<typename Derived::Scalar> mutable_view(M&& m) {
  return {m.data(), static_cast<std::size_t>(m.rows()), static_cast<std::size_t>(m.cols()), m.rowStride(),
          m.colStride()};
}

/// The row-major Eigen matrix of a view's elements.
template <class T>
using eigen_matrix = Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A view's elements as an Eigen map, to read, or to write where T is not const. Eigen rejects negative strides.
template <class T>
auto map(const matrix_view<T>& x) {
  using matrix = std::conditional_t<std::is_const_v<T>, const eigen_matrix<T>, eigen_matrix<T>>;
  using stride = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
  return Eigen::Map<matrix, Eigen::Unaligned, stride>(x.data(), static_cast<Eigen::Index>(x.rows()),
                                                      static_cast<Eigen::Index>(x.cols()),
                                                      stride(x.row_stride(), x.col_stride()));
}
/// Deleted: the map would refer to a matrix that ends with its statement.
template <class T = void, ufp4::detail::matrix_scalar U>
void map(const matrix<U>&&) = delete;

/// ufp4's numbers that can be elements of an Eigen matrix.
template <class T>
concept stored_number = element_format<T> || ufp4::detail::number<T>;

}  // namespace ufp4::interop

namespace Eigen {

/// Eigen's traits of a number that is stored, compared, printed and cast; for arithmetic use m.cast<float>() first.
template <ufp4::interop::stored_number T>
struct NumTraits<T> {
  // NOLINTBEGIN(readability-identifier-naming): the names that Eigen requires
  using Real = T;                                                                ///< required by Eigen
  using NonInteger = T;                                                          ///< required by Eigen
  using Nested = T;                                                              ///< required by Eigen
  using Literal = T;                                                             ///< required by Eigen
  static constexpr int IsComplex = 0, IsInteger = 0, RequireInitialization = 0;  ///< required by Eigen
  static constexpr int ReadCost = 1, AddCost = HugeCost, MulCost = HugeCost;     ///< required by Eigen
  static constexpr int IsSigned =
      !std::is_same_v<T, ufp4::ue5m3> && !std::is_same_v<T, ufp4::e8m0>;  ///< required by Eigen
  // NOLINTEND(readability-identifier-naming)
  static constexpr T epsilon() { return T(0.0f); }          ///< required by Eigen
  static constexpr T dummy_precision() { return T(0.0f); }  ///< required by Eigen
  static constexpr T highest() { return T((T::max)()); }    ///< required by Eigen
  /// Required by Eigen.
  static constexpr T lowest() {
    if constexpr (std::numeric_limits<T>::is_specialized)
      return std::numeric_limits<T>::lowest();
    else
      return T(-(T::max)());
  }
  static constexpr int digits10() { return 0; }      ///< required by Eigen; 0: printed with the stream's precision
  static constexpr int max_digits10() { return 0; }  ///< the same, by Eigen 5
};

}  // namespace Eigen
