// ufp4 - the comparison as JSON.
// SPDX-License-Identifier: Apache-2.0
/// Numbers are written unrounded; one that is not finite becomes null, an SQNR without any error "inf".
/// Keys are those of metrics.hpp.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>

#include "metrics.hpp"
#include "reading.hpp"

namespace compare {

inline void write_json(std::ostream& out, const comparison& c, const std::string& version) {
  out << "{\n  \"ufp4\": " << json_text(version) << ",\n  \"matrix\": {\"source\": " << json_text(c.source)
      << ", \"rows\": " << c.rows << ", \"cols\": " << c.cols << ", \"rms\": " << shortest(c.rms, "null")
      << ", \"amax\": " << shortest(c.amax, "null") << ", \"zeros\": " << shortest(c.zeros, "null")
      << ", \"binary32_bytes\": " << c.binary32_bytes << ", \"rows_with_neighbour\": " << c.neighbours
      << "},\n  \"seed\": " << c.with.seed
      << ",\n  \"rule\": " << (c.with.scales.name.empty() ? "null" : json_text(c.with.scales.name))
      << ",\n  \"search\": " << (c.with.scales.search.empty() ? "null" : json_text(c.with.scales.search))
      << ",\n  \"results\": [";
  const char* separator = "\n";
  for (const outcome& o : c.outcomes) {
    out << separator << "    {\"format\": " << json_text(o.format.name)
        << ", \"element\": " << json_text(o.format.element) << ", \"scale\": " << json_text(o.format.scale)
        << ", \"block\": " << o.format.block << ", \"rht\": " << o.hadamard;
    for (const metric& m : metrics)
      out << ", \"" << m.key
          << "\": " << (m.key == "sqnr_db" ? decibels_json(o.sqnr_db) : shortest(m.value(c, o), "null"));
    out << ", \"scale_underflow_rate\": " << shortest(o.underflow_rate, "null")
        << ", \"saturation_rate\": " << shortest(o.saturation_rate, "null") << ", \"histogram\": [";
    for (std::size_t code = 0; code < 16; ++code) out << (code ? ", " : "") << o.histogram[code];
    out << "]}";
    separator = ",\n";
  }
  out << "\n  ],\n  \"reading\": [";
  separator = "\n";
  for (const std::string& paragraph : reading_of(c)) {
    out << separator << "    " << json_text(paragraph);
    separator = ",\n";
  }
  out << "\n  ]\n}\n";
}

}  // namespace compare
