// ufp4 - bench: the speed of the Hadamard transform, in and out of place, compared with loops that only move memory.
// SPDX-License-Identifier: Apache-2.0
//
// hadamard/n and where to/isa/bytes of the matrix/threads, in GB/s of input. random_hadamard, so signs are applied too.
#include "support/bench.hpp"
#include "support/limits.hpp"
#include "support/operands.hpp"
#include "support/plain.hpp"

#include <string>
#include <ufp4/explain.hpp>
#include <ufp4/hadamard.hpp>

using namespace ufp4;
using bench::place;

namespace {

bench::row row_at(const place& p, std::string format, bool in_place) {
  return bench::memory_row("hadamard", std::move(format), p, in_place ? bench::traffic::update : bench::traffic::copy);
}

template <int n>
void add_rows(const bench::settings& s, bool in_place) {
  const auto explain = [](cpu::isa tier) {
    const matrix_view<float> x{nullptr, 256, 256};
    return cpu::explain(x, x, random_hadamard<n>{42}, cpu::context{.isa = tier});
  };
  const auto row = [&](const place& p) {
    return row_at(p, std::to_string(n) + (in_place ? " in place" : " to another"), in_place);
  };
  bench::add_at(bench::places(s, bench::tiers_of(explain)), row, [=](const place& p) {
    const auto [rows, cols] = bench::shape_for(p.bytes / sizeof(float));
    const auto out = bench::output_matrix<float>(rows, cols);
    const matrix_view<const float> x = in_place ? out : bench::plain_matrix<float>(rows, cols);
    const cpu::context ctx{.threads = p.threads, .isa = p.on.tier};
    return [=] { hadamard_forward(x, out, random_hadamard<n>{42}, ctx); };
  });
}

/// The simplest implementation, in place.
void add_plain(const bench::settings& s, std::size_t n) {
  const std::string what = "radix-2 butterflies";
  const auto row = [&](const place& p) { return row_at(p, "plain loop " + std::to_string(n) + " in place", true); };
  bench::add_at(bench::places(s, bench::native(what)), row, [=](const place& p) {
    const std::size_t count = p.bytes / sizeof(float);
    float* x = bench::output_matrix<float>(1, count).data();
    return [=] { plain::hadamard(x, count, n); };
  });
}

void add_all(const bench::settings& s) {
  for (const bool in_place : {true, false}) {
    add_rows<16>(s, in_place);
    add_rows<64>(s, in_place);
    add_rows<128>(s, in_place);
    add_rows<256>(s, in_place);
  }
  add_plain(s, 16);
  add_plain(s, 128);
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, &add_all); }
