// ufp4 - a tensor_amax for the formats that take one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/matrix/checks.hpp>

namespace support {

/// call(amax) where F has a tensor scale; call() for any other format, for which a tensor_amax would be an error.
template <ufp4::detail::quantizer_target F, class Call>
decltype(auto) with_amax(ufp4::tensor_amax amax, const Call& call) {
  if constexpr (ufp4::detail::format_of<F>::two_level)
    return call(amax);
  else
    return call();
}

}  // namespace support
