// ufp4 - HIP's bfloat16 as an element of matrices, for host and device code. No header of HIP is needed here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/matrix/matrix_view.hpp>

struct __hip_bfloat16;

namespace ufp4::inline UFP4_TYPES {

template <>
struct matrix_element<::__hip_bfloat16> : detail::element_kind<dtype::bf16> {};

}  // namespace ufp4::inline UFP4_TYPES
