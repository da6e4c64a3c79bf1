// ufp4 - Catch2 2.13 or 3.x under one include.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

// Catch2's macros use __COUNTER__ in the test files; clang 22 calls that an extension of C2y.
#ifdef __has_warning
#if __has_warning("-Wc2y-extensions")
#pragma clang diagnostic ignored "-Wc2y-extensions"
#endif
#endif

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif

/// The counts of a quantize_report, where a comparison of two fails.
template <class T>
  requires requires(const T& r) { r.nonfinite_blocks + r.saturated + r.underflowed_scales; }
struct Catch::StringMaker<T> {
  static std::string convert(const T& r) {
    return std::to_string(r.nonfinite_blocks) + " nonfinite blocks, " + std::to_string(r.saturated) + " saturated, " +
           std::to_string(r.underflowed_scales) + " underflowed scales";
  }
};
