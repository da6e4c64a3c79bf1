// ufp4 - what fuzz targets share: decisions and matrices out of bytes, rejections, comparison of bits.
// SPDX-License-Identifier: Apache-2.0
//
// A target makes its decisions from the first bytes and its data from the rest, so that small changes of an input are
// small changes of a case. A finding ends the process; libFuzzer keeps the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <ufp4/cpu/detect.hpp>

#include "support/strided.hpp"

namespace fuzz {

/// Ends the process with a message.
[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "FOUND: %s\n", what.c_str());
  std::abort();
}
inline void require(bool condition, const std::string& what) {
  if (!condition) fail(what);
}

/// Bytes as numbers; zeros behind the end.
class input {
 public:
  input(const std::uint8_t* data, std::size_t size) : at_(data), left_(size) {}

  template <class T>
  T raw() {
    T value{};
    const std::size_t n = left_ < sizeof value ? left_ : sizeof value;
    if (n != 0) std::memcpy(&value, at_, n);
    at_ += n, left_ -= n;
    return value;
  }
  std::uint8_t byte() { return raw<std::uint8_t>(); }
  std::size_t below(std::size_t n) { return n <= 256 ? byte() % n : raw<std::uint16_t>() % n; }
  bool one_in(std::size_t n) { return below(n) == n - 1; }

  /// Numbers as they stand in the input, from its start again at its end; on a coarse grid if the first byte says so,
  /// so that ties and equal maxima are common.
  template <class T>
  std::vector<T> numbers(std::size_t n) {
    const bool coarse = (byte() & 1u) != 0;
    const std::uint8_t* const first = at_;
    const std::size_t size = left_;
    std::vector<float> values(n);
    for (float& v : values) {
      if (left_ < (coarse ? 1 : sizeof v)) at_ = first, left_ = size;
      v = coarse ? static_cast<float>(raw<std::int8_t>()) * 0.125f : raw<float>();
    }
    return support::elements<T>(values);
  }
  /// The same of bytes: codes, and scales of any type.
  void fill(void* to, std::size_t n) {
    const std::uint8_t* const first = at_;
    const std::size_t size = left_;
    for (std::size_t i = 0; i < n; ++i) {
      if (left_ == 0) at_ = first, left_ = size;
      static_cast<std::uint8_t*>(to)[i] = byte();
    }
  }

 private:
  const std::uint8_t* at_;
  std::size_t left_;
};

inline support::layout layout(input& in) { return support::all_layouts[in.below(std::size(support::all_layouts))]; }

/// The message that f was rejected with, or nothing. Any other exception is a finding.
template <class F>
std::string rejection(const F& f) {
  try {
    f();
  } catch (const std::invalid_argument& error) {
    require(std::strlen(error.what()) > 10, "a rejection without a message");
    return error.what();
  }
  return {};
}

template <class T>
bool same_bytes(const T& a, const T& b) {
  return a.size() == b.size() && (a.size() == 0 || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

/// The tiers that this machine has, scalar first.
inline const std::vector<ufp4::cpu::isa>& tiers() {
  static const std::vector<ufp4::cpu::isa> all = [] {
    std::vector<ufp4::cpu::isa> found;
    for (const ufp4::cpu::isa i : ufp4::cpu::all_isas)
      if (ufp4::cpu::available().has(i)) found.push_back(i);
    return found;
  }();
  return all;
}

/// Calls f with a value of the type that the input picks.
template <class... Types, class F>
void with_one_of(input& in, const F& f) {
  const std::size_t chosen = in.below(sizeof...(Types));
  std::size_t i = 0;
  ((i++ == chosen ? f.template operator()<Types>() : void()), ...);
}

}  // namespace fuzz
