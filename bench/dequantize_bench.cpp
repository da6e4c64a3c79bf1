// ufp4 - bench: the speed of dequantize, compared with a loop that only stores as many bytes.
// SPDX-License-Identifier: Apache-2.0
//
// dequantize/format to type/isa/bytes of output/threads, in GB/s of output.
#include "support/bench.hpp"
#include "support/limits.hpp"
#include "support/operands.hpp"
#include "support/plain.hpp"

#include <cstring>
#include <string>
#include <ufp4/block/presets.hpp>
#include <ufp4/dequantize.hpp>
#include <ufp4/explain.hpp>

using namespace ufp4;
using bench::place;

namespace {

bench::row row_at(const place& p, std::string format) {
  return bench::memory_row("dequantize", std::move(format), p, bench::traffic::write);
}

template <class F, class T>
void add_rows(const bench::settings& s, const std::string& name) {
  const auto explain = [](cpu::isa tier) {
    return cpu::explain(quantized_view<F>{}, matrix_view<T>{}, cpu::context{.isa = tier});
  };
  const auto row = [&](const place& p) { return row_at(p, name); };
  bench::add_at(bench::places(s, bench::tiers_of(explain)), row, [=](const place& p) {
    const auto [rows, cols] = bench::shape_for(p.bytes / sizeof(T));
    const auto q = bench::quantized_operand<F, 0>(rows, cols);
    const auto out = bench::output_matrix<T>(rows, cols);
    const cpu::context ctx{.threads = p.threads, .isa = p.on.tier};
    return [=] { dequantize(q, out, ctx); };
  });
}

template <class F>
void add_format(const bench::settings& s, const std::string& name) {
  add_rows<F, float>(s, name + " to float");
  add_rows<F, bf16>(s, name + " to bf16");
  add_rows<F, fp16>(s, name + " to fp16");
}

template <class Call>
void add_alternative(const bench::settings& s, const std::string& name, const std::string& what, const Call& call) {
  const auto row = [&](const place& p) { return row_at(p, name); };
  bench::add_at(bench::places(s, bench::native(what)), row, [=](const place& p) {
    const std::size_t count = p.bytes / sizeof(float);
    const auto codes = bench::plain_matrix<float>(1, count).data();
    float* out = bench::output_matrix<float>(1, count).data();
    return [=] { call(codes, count, out); };
  });
}

void add_all(const bench::settings& s) {
  add_format<e1m2_f32>(s, "e1m2_f32");
  add_format<nvfp4>(s, "nvfp4");
  add_format<mxfp4>(s, "mxfp4");
  add_format<int8_f32>(s, "int8_f32");
  add_format<mxint8>(s, "mxint8");
  add_alternative(s, "plain loop to float", "a table of 16 and a product",
                  [](const float* in, std::size_t n, float* out) {
                    plain::dequantize(reinterpret_cast<const std::uint8_t*>(in), in + n / 2, n, out);
                  });
  add_alternative(s, "memcpy", "the C library", [](const float* in, std::size_t n, float* out) {
    std::memcpy(out, in, n * sizeof(float));
    bench::keep(out);
  });
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, &add_all); }
