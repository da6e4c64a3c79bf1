// ufp4 - bench: the speed of quantize, compared with the bandwidth of reading its input.
// SPDX-License-Identifier: Apache-2.0
//
// quantize/format/isa/bytes of input/threads, in GB/s of input. After the format: rht16 is a Hadamard transform of 16
// before, sr stochastic rounding, transposed a matrix read along its rows, bf16 an input of bf16, amax a tensor amax
// that the caller knows (the other rows of a two-level format read their input twice).
#include "support/bench.hpp"
#include "support/limits.hpp"
#include "support/operands.hpp"
#include "support/plain.hpp"

#include <cstring>
#include <string>
#include <ufp4/explain.hpp>
#include <ufp4/quantize.hpp>

using namespace ufp4;
using bench::place;

namespace {

bench::row row_at(const place& p, std::string format) {
  return bench::memory_row("quantize", std::move(format), p, bench::traffic::read);
}

struct reading {
  bool transposed = false;
};

template <class F, class T, class... Policies>
void add_rows(const bench::settings& s, const std::string& name, reading how, const Policies&... policies) {
  const auto explain = [&](cpu::isa tier) {
    return cpu::explain<F>(matrix_view<const T>{nullptr, 256, 256}, policies..., cpu::context{.isa = tier});
  };
  const auto row = [&](const place& p) { return row_at(p, name); };
  bench::add_at(bench::places(s, bench::tiers_of(explain)), row, [=](const place& p) {
    const auto [rows, cols] = bench::shape_for(p.bytes / sizeof(T));
    const auto x = bench::plain_matrix<T>(rows, cols);
    const auto read = how.transposed ? transpose(x) : x;
    const auto codes = bench::output_span<std::uint8_t>(bench::code_bytes<F>(rows, cols));
    const auto scales = bench::output_span<typename F::scale_type>(rows * cols / F::block_size);
    const cpu::context ctx{.threads = p.threads, .isa = p.on.tier};
    return [=] { quantize_into<F>(read, codes, scales, policies..., ctx); };
  });
}

template <class F>
void add_format(const bench::settings& s, const std::string& name) {
  const stochastic random_bits{.seed = 7};
  const random_hadamard<16> rht{42};
  add_rows<F, float>(s, name, {});
  if constexpr (F::has_tensor_scale) add_rows<F, float>(s, name + "+amax", {}, tensor_amax{4.0f});
  add_rows<F, float>(s, name + "+rht16", {}, rht);
  add_rows<F, float>(s, name + "+sr", {}, random_bits);
  add_rows<F, float>(s, name + "+rht16+sr", {}, rht, random_bits);
  add_rows<F, float>(s, name + "+transposed", {.transposed = true});
  add_rows<F, bf16>(s, name + "+bf16", {});
}

/// Alternatives that process the same number of bytes.
template <class Call>
void add_alternative(const bench::settings& s, const std::string& name, const std::string& what, const Call& call) {
  const auto row = [&](const place& p) { return row_at(p, name); };
  bench::add_at(bench::places(s, bench::native(what)), row, [=](const place& p) {
    const std::size_t count = p.bytes / sizeof(float);
    const float* x = bench::plain_matrix<float>(1, count).data();
    const auto out = bench::output_span<unsigned char>(p.bytes);
    const auto scales = bench::output_matrix<float>(1, count / 16);
    return [=] { call(x, count, out.data(), scales.data()); };
  });
}

void add_all(const bench::settings& s) {
  add_format<e1m2_f32>(s, "e1m2_f32");
  add_format<nvfp4>(s, "nvfp4");
  add_format<mxfp4>(s, "mxfp4");
  add_format<int8_f32>(s, "int8_f32");
  add_format<mxint8>(s, "mxint8");
  add_alternative(
      s, "plain loop to 4 bits", "one level, binary32 scales, reciprocal",
      [](const float* x, std::size_t n, unsigned char* out, float* scales) { plain::quantize(x, n, out, scales); });
  add_alternative(s, "plain loop to bf16", "nearest even",
                  [](const float* x, std::size_t n, unsigned char* out, float*) {
                    plain::to_bf16(x, n, reinterpret_cast<std::uint16_t*>(out));
                  });
  add_alternative(s, "memcpy", "the C library", [](const float* x, std::size_t n, unsigned char* out, float*) {
    std::memcpy(out, x, n * sizeof(float));
    bench::keep(out);
  });
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, &add_all); }
