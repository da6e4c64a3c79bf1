// ufp4 - the comparison as CSV: a header line, then a line per format and transform.
// SPDX-License-Identifier: Apache-2.0
/// Numbers are written unrounded; one that is not finite is an empty field, an SQNR without any error inf. No field
/// needs quotes.
#pragma once

#include <cmath>
#include <cstddef>
#include <ostream>

#include "metrics.hpp"

namespace compare {

inline void write_csv(std::ostream& out, const comparison& c) {
  out << "format,element,scale,block,rht";
  for (const metric& m : metrics) out << "," << m.key;
  out << ",scale_underflow_rate,saturation_rate";
  for (std::size_t code = 0; code < 16; ++code) out << ",code_" << code;
  out << "\n";
  for (const outcome& o : c.outcomes) {
    out << o.format.name << "," << o.format.element << "," << o.format.scale << "," << o.format.block << ","
        << o.hadamard;
    for (const metric& m : metrics)
      out << ","
          << (m.key == "sqnr_db" && o.sqnr_db > 0 && std::isinf(o.sqnr_db) ? "inf" : shortest(m.value(c, o), ""));
    out << "," << shortest(o.underflow_rate, "") << "," << shortest(o.saturation_rate, "");
    for (const std::uint64_t count : o.histogram) out << "," << count;
    out << "\n";
  }
}

}  // namespace compare
