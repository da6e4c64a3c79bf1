// ufp4 - `ufp4 bench`: the speed of quantize, dequantize and GEMM on this machine, in a few seconds.
// SPDX-License-Identifier: Apache-2.0
/// An estimate with the names of the kernels; the programs in bench/ measure accurately.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <ufp4/cpu/detect.hpp>
#include <ufp4/explain.hpp>
#include <ufp4/gemm.hpp>
#include <ufp4/version.hpp>
#include <utility>
#include <vector>

#include "../common/arguments.hpp"
#include "../common/output.hpp"
#include "../common/terminal.hpp"
#include "../compare/text.hpp"
#include "format_list.hpp"

namespace tool {

inline constexpr const char* bench_help =
    R"(ufp4 bench - how fast this machine quantizes and multiplies, and with which instructions.

usage: ufp4 bench [OPTION]...

  -f, --format NAME   of both operands (default nvfp4)
  --size M N K        C is M x N, A is M x K, B is N x K (default 1024 1024 1024)
  --isa NAME          instead of the best of the processor: scalar, avx2, avx512, amx, neon, ...
  --threads N         0 is all cores (default 0)
  --json [FILE]       the numbers as JSON; without FILE, or with -, on stdout instead of the table.
                      FILE must not end in .safetensors, .npy or .gguf
  --help

Rates are of the fastest of several runs. GB/s counts the bytes of binary32 read or written;
GFLOP/s is 2 M N K divided by the time. The plain loop is binary32, one thread, vectorized by the compiler.

examples
  ufp4 bench
  ufp4 bench --format e1m2_f32 --size 16 4096 4096
  ufp4 bench --isa avx2 --threads 1 --json

exit status: 0 done; 1 an output cannot be written, or there is not enough memory; 2 wrong usage
)";

struct bench_options {
  std::string format = "nvfp4";
  std::size_t m = 1024, n = 1024, k = 1024;
  ufp4::cpu::context ctx;
  std::optional<std::string> json;
};

struct bench_row {
  std::string what;
  double milliseconds = 0;
  double rate = 0;  ///< 1e9 bytes or operations a second
  std::string_view unit;
  std::string kernel, isa;  ///< empty for the plain loop
  std::string note;
};

namespace detail {

/// usage_error for unknown instructions, and instructions that this machine does not have.
inline ufp4::cpu::isa parse_isa(const std::string& text) {
  std::string known, here;
  bool is_known = false;
  for (const ufp4::cpu::isa i : ufp4::cpu::all_isas) {
    known += (known.empty() ? "" : ", ") + std::string(name(i));
    is_known = is_known || text == name(i);
    if (!ufp4::cpu::available().has(i)) continue;
    if (text == name(i)) return i;
    here += (here.empty() ? "" : ", ") + std::string(name(i));
  }
  if (is_known) throw common::usage_error("--isa " + text + " is not available on this machine, which has " + here);
  throw common::usage_error("--isa takes " + known + ", not " + ufp4::interop::printable(text));
}

inline bench_options parse_bench(common::arguments& rest) {
  bench_options o;
  constexpr std::uint64_t most = 1 << 16;
  while (!rest.empty()) {
    const std::string flag = rest.next();
    if (flag == "--format" || flag == "-f") {
      o.format = format_named(rest.value(flag)).name;
    } else if (flag == "--size") {
      for (std::size_t* extent : {&o.m, &o.n, &o.k}) *extent = static_cast<std::size_t>(rest.number(flag, 1, most));
    } else if (flag == "--isa") {
      o.ctx.isa = parse_isa(rest.value(flag));
    } else if (flag == "--threads") {
      o.ctx.threads = static_cast<int>(rest.number(flag, 0, 4096));
    } else if (flag == "--json") {
      o.json = common::report_name(rest, flag);
    } else {
      common::reject_argument(flag);
    }
  }
  return o;
}

/// Milliseconds of the fastest call of at least two, and of more until they have taken a third of a second.
inline double fastest_ms(const std::function<void()>& call) {
  using clock = std::chrono::steady_clock;
  double best = 0, spent = 0;
  for (int i = 0; i < 2 || (i < 100 && spent < 333); ++i) {
    const auto begin = clock::now();
    call();
    const double ms = std::chrono::duration<double, std::milli>(clock::now() - begin).count();
    best = i == 0 ? ms : std::min(best, ms);
    spent += ms;
  }
  return best;
}

/// A B^T for the first `rows` rows of A, with sixteen independent sums, which compilers can vectorize.
inline void plain_product(const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& c,
                          std::size_t rows, std::size_t n, std::size_t k) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      float sums[16] = {};
      const float *x = a.data() + i * k, *y = b.data() + j * k;
      std::size_t l = 0;
      for (; l + 16 <= k; l += 16)
        for (std::size_t lane = 0; lane < 16; ++lane) sums[lane] += x[l + lane] * y[l + lane];
      float sum = 0;
      for (; l < k; ++l) sum += x[l] * y[l];
      for (const float s : sums) sum += s;
      c[i * n + j] = sum;
    }
}

/// The measurements of one run, with their operands.
class bench_run {
 public:
  explicit bench_run(const bench_options& o)
      : o_(o), a_(gaussian(o.m * o.k, 1)), b_(gaussian(o.n * o.k, 2)), c_(o.m * o.n), decoded_(o.m * o.k) {}

  std::vector<bench_row> rows(const ufp4::format_spec& format) {
    using namespace ufp4;
    const matrix_view<const float> a{a_.data(), o_.m, o_.k}, b{b_.data(), o_.n, o_.k};
    const matrix_view<float> c{c_.data(), o_.m, o_.n}, decoded{decoded_.data(), o_.m, o_.k};
    const random_hadamard<16> rht{1};
    any_quantized qa = quantize(format, a, o_.ctx), transformed = quantize(format, a, rht, o_.ctx);
    const any_quantized qb = quantize(format, b, o_.ctx);
    const double elements = static_cast<double>(o_.m) * static_cast<double>(o_.k);

    add("quantize A", 4 * elements, "GB/s", cpu::explain(format, a, o_.ctx), [&] { quantize_into(a, qa, o_.ctx); });
    add("RHT 16, quantize A", 4 * elements, "GB/s", cpu::explain(format, a, rht, o_.ctx),
        [&] { quantize_into(a, transformed, rht, o_.ctx); });
    add("dequantize A", 4 * elements, "GB/s", cpu::explain(qa, decoded, o_.ctx),
        [&] { dequantize(qa, decoded, o_.ctx); });
    for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks}) {
      const gemm_options options{.accumulate = mode};
      add("GEMM " + std::string(ufp4::detail::name(mode)), operations(o_.m), "GFLOP/s",
          cpu::explain(qa, qb, c, options, o_.ctx), [&] { quantized_gemm(qa, qb, c, options, o_.ctx); });
    }
    add_plain();
    return std::move(rows_);
  }

 private:
  static std::vector<float> gaussian(std::size_t count, std::uint64_t seed) {
    std::mt19937_64 random{seed};
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& v : values) v = normal(random);
    return values;
  }

  double operations(std::size_t rows) const {
    return 2 * static_cast<double>(rows) * static_cast<double>(o_.n) * static_cast<double>(o_.k);
  }

  void add(std::string what, double work, std::string_view unit, const ufp4::cpu::explanation& e,
           const std::function<void()>& call) {
    line_.show(what);
    const double ms = fastest_ms(call);
    rows_.push_back({std::move(what), ms, work / ms / 1e6, unit, e.kernel, name(e.isa), e.note});
  }

  /// On a number of rows that takes about 10^9 operations: the rate does not depend on it.
  void add_plain() {
    const auto rows = static_cast<std::size_t>(std::clamp(1e9 / operations(1), 1.0, static_cast<double>(o_.m)));
    line_.show("plain loop");
    const double ms = fastest_ms([&] { plain_product(a_, b_, c_, rows, o_.n, o_.k); });
    const std::string note = rows == o_.m ? "" : "on " + std::to_string(rows) + " rows of A";
    rows_.push_back({"plain binary32 loop", ms, operations(rows) / ms / 1e6, "GFLOP/s", "", "", note});
  }

  const bench_options& o_;
  std::vector<float> a_, b_, c_, decoded_;
  common::progress_line line_;
  std::vector<bench_row> rows_;
};

/// The instructions of the run: "avx512", or "avx2 (asked for)".
inline std::string isa_text(const bench_options& o) {
  const std::string tier = name(ufp4::cpu::resolve(o.ctx));
  return o.ctx.isa == ufp4::cpu::isa::automatic ? tier : tier + " (asked for)";
}

inline std::string threads_text(const bench_options& o) {
  return o.ctx.threads == 0 ? "all cores"
                            : std::to_string(o.ctx.threads) + (o.ctx.threads == 1 ? " thread" : " threads");
}

inline void print_bench(std::ostream& out, const bench_options& o, const std::vector<bench_row>& rows) {
  using common::left, common::right, compare::fixed;
  out << "ufp4 " << ufp4::version_string << ": " << o.format << ", C " << o.m << " x " << o.n << ", K " << o.k << "; "
      << isa_text(o) << ", " << threads_text(o) << "\n\n"
      << left("", 21) << right("ms", 10) << right("rate", 10) << "          kernel\n";
  for (const bench_row& r : rows)
    out << left(r.what, 21) << right(fixed(r.milliseconds, 3), 10) << right(fixed(r.rate, 1), 10) << " "
        << left(std::string(r.unit), 9) << (r.kernel.empty() ? "the compiler's, one thread" : r.kernel) << "\n";
  std::vector<std::pair<std::string, std::string>> notes;  // each with the rows that it applies to
  for (const bench_row& r : rows) {
    if (r.note.empty()) continue;
    const auto known = std::find_if(notes.begin(), notes.end(), [&](const auto& n) { return n.first == r.note; });
    if (known == notes.end())
      notes.emplace_back(r.note, r.what);
    else
      known->second += "; " + r.what;
  }
  for (const auto& [note, what] : notes)
    out << (&note == &notes.front().first ? "\n" : "") << common::wrapped(note + " (" + what + ")", 79);
}

inline void write_bench_json(std::ostream& out, const bench_options& o, const std::vector<bench_row>& rows) {
  using ufp4::interop::json_text;
  out << "{\"version\": \"" << ufp4::version_string << "\", \"format\": \"" << o.format << "\", \"m\": " << o.m
      << ", \"n\": " << o.n << ", \"k\": " << o.k << ", \"isa\": \"" << name(ufp4::cpu::resolve(o.ctx))
      << "\", \"threads\": " << o.ctx.threads << ",\n \"results\": [";
  const char* separator = "\n";
  for (const bench_row& r : rows)
    out << std::exchange(separator, ",\n") << "  {\"what\": " << json_text(r.what)
        << ", \"milliseconds\": " << compare::shortest(r.milliseconds, "null")
        << ", \"rate\": " << compare::shortest(r.rate, "null") << ", \"unit\": " << json_text(r.unit)
        << ", \"kernel\": " << (r.kernel.empty() ? "null" : json_text(r.kernel))
        << ", \"isa\": " << (r.isa.empty() ? "null" : json_text(r.isa)) << ", \"note\": " << json_text(r.note) << "}";
  out << "\n ]}\n";
}

}  // namespace detail

inline int bench(common::arguments& rest, std::ostream& out, std::ostream&) {
  const bench_options o = detail::parse_bench(rest);
  if (o.json) common::check_writable(*o.json);
  const std::vector<bench_row> rows = detail::bench_run(o).rows(format_named(o.format).spec);
  if (o.json != "-") detail::print_bench(out, o, rows);
  if (o.json) common::write_to(*o.json, out, [&](std::ostream& to) { detail::write_bench_json(to, o, rows); });
  return 0;
}

}  // namespace tool
