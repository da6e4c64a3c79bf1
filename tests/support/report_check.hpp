// ufp4 - compares two analysis reports, member by member.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/analysis/measure.hpp>

#include "support/catch.hpp"

namespace support {

inline bool same_number(double a, double b) { return a == b || (a != a && b != b); }

/// `same` compares the members that are sums of products; the rest are counts, and equal.
template <class Same = bool (*)(double, double)>
void check_report(const ufp4::analysis::report& got, const ufp4::analysis::report& want, Same same = same_number) {
  CHECK(same(got.sqnr_db, want.sqnr_db));
  CHECK(same(got.attenuation, want.attenuation));
  CHECK(same(got.bucket_utilization, want.bucket_utilization));
  CHECK(got.scale_underflow_rate == want.scale_underflow_rate);
  CHECK(got.saturation_rate == want.saturation_rate);
  CHECK(got.nonfinite_blocks == want.nonfinite_blocks);
  CHECK(got.elements == want.elements);
  CHECK(got.blocks == want.blocks);
  CHECK(got.histogram == want.histogram);
}

}  // namespace support
