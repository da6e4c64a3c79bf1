// ufp4 - std::mdspan as matrix_view and back; needs C++23's <mdspan>. Not part of ufp4.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/detail/cxx20.hpp>  // first

#include <version>

#if !defined(__cpp_lib_mdspan)
#error "ufp4: interop/mdspan.hpp needs a standard library with <mdspan> (C++23)"
#endif

#include <array>
#include <mdspan>
#include <ufp4/matrix/matrix_view.hpp>

namespace ufp4::interop {

/// Accessors of plain memory: the element is pointer[mapping].
template <class Accessor>
concept plain_accessor = std::is_same_v<Accessor, std::default_accessor<typename Accessor::element_type>>;

/// The elements of a two-dimensional mdspan in any strided layout: row-major, column-major, those of submdspan.
template <class T, class Extents, class Layout, plain_accessor Accessor>
  requires(Extents::rank() == 2 && std::mdspan<T, Extents, Layout, Accessor>::is_always_strided() &&
           ufp4::detail::matrix_scalar<T>)
matrix_view<T> view(const std::mdspan<T, Extents, Layout, Accessor>& x) {
  return {x.data_handle(), static_cast<std::size_t>(x.extent(0)), static_cast<std::size_t>(x.extent(1)),
          static_cast<std::ptrdiff_t>(x.stride(0)), static_cast<std::ptrdiff_t>(x.stride(1))};
}

/// A matrix with any strides as an mdspan.
template <class T>
using strided_span = std::mdspan<T, std::dextents<std::ptrdiff_t, 2>, std::layout_stride>;

/// A view's elements as an mdspan. Strides must not be negative: a precondition of layout_stride.
template <class T>
strided_span<T> span_of(const matrix_view<T>& x) {
  using extents = std::dextents<std::ptrdiff_t, 2>;
  const extents shape(x.rows(), x.cols());
  return {x.data(), std::layout_stride::mapping<extents>(shape, std::array{x.row_stride(), x.col_stride()})};
}
/// Deleted: the span would refer to a matrix that ends with its statement.
template <class T = void, ufp4::detail::matrix_scalar U>
void span_of(const matrix<U>&&) = delete;

}  // namespace ufp4::interop
