// ufp4 - bench: C = A * B^T from 4-bit blocks, compared with the multiply units, the weights' bandwidth, and Eigen.
// SPDX-License-Identifier: Apache-2.0
//
// gemm/operands and mode/isa/MxNxK/threads, in GFLOP/s (2 M N K). B are weights: the same in every call or, with
// `+rotating`, a different matrix in each call, so many that they are read from memory. The bound is the multiply unit
// that the kernel uses, with the rescaling that its blocks need; for M = 1 it is the bandwidth of reading the weights.
#include "support/bench.hpp"
#include "support/clock.hpp"
#include "support/limits.hpp"
#include "support/operands.hpp"
#include "support/plain.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <ufp4/explain.hpp>
#include <ufp4/gemm.hpp>
#include <ufp4/gemm_grouped.hpp>
#include <vector>

using namespace ufp4;
using bench::settings;

namespace {

struct size {
  std::size_t m, n, k;
  bool rotating = false;
  std::size_t experts = 1;  ///< products in one call

  std::string name() const {
    const std::string one = std::to_string(m) + 'x' + std::to_string(n) + 'x' + std::to_string(k);
    return (experts == 1 ? one : std::to_string(experts) + " of " + one) + (rotating ? "+rotating" : "");
  }
  double work() const {
    return 2e-9 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
           static_cast<double>(experts);
  }
};

/// More bytes of weights than any cache holds.
std::size_t rotation_bytes() {
  return std::clamp(4 * bench::caches().l3, std::size_t{128} << 20, std::size_t{1} << 30);
}

/// The multiply unit of a kernel, by the kernel's name, with the rescaling of its blocks if such a loop exists; null
/// for scalar.
const char* unit_of(const cpu::explanation& e, int block) {
  const auto is = [&](const char* part) { return std::strstr(e.kernel, part) != nullptr; };
  const bool int8 = is("int8"), bf16 = is("bf16") || is("mixed");
  switch (e.isa) {
    case cpu::isa::amx:
      if (e.mode != accumulate::exact_blocks) return "AMX bf16";
      return block == 16 ? "AMX bf16, rescaled every 16" : "AMX bf16, rescaled every 32";
    case cpu::isa::avx512_bf16:
    case cpu::isa::avx512:
      if (int8) return block == 16 ? "vpdpbusd zmm, rescaled every 16" : "vpdpbusd zmm, rescaled every 32";
      return bf16 ? "vdpbf16ps zmm" : "binary32 FMA zmm";
    case cpu::isa::avx_vnni:
      if (int8) return "vpdpbusd ymm (AVX-VNNI)";
      return "binary32 FMA ymm";
    case cpu::isa::avx2:
      if (int8) return block == 16 ? "vpmaddubsw ymm, rescaled every 16" : "vpmaddubsw ymm, rescaled every 32";
      return "binary32 FMA ymm";
    case cpu::isa::neon_bf16:
    case cpu::isa::neon_i8mm: return int8 ? "smmla" : bf16 ? "bfmmla" : "binary32 FMA";
    case cpu::isa::neon_dotprod: return int8 ? "sdot" : "binary32 FMA";
    case cpu::isa::neon: return "binary32 FMA";
    default: return nullptr;
  }
}

/// One way to call the operation.
struct product {
  std::string name;
  int block;
  std::size_t (*weight_bytes)(std::size_t n, std::size_t k);
  std::function<cpu::explanation(const cpu::context&, const size&)> explain;
  std::function<std::function<void()>(const cpu::context&, const size&)> prepare;

  std::size_t count(const size& s) const {
    if (!s.rotating) return s.experts;
    return (rotation_bytes() + weight_bytes(s.n, s.k) - 1) / weight_bytes(s.n, s.k);
  }
};

void add_row(const product& p, const size& s, cpu::isa tier, int threads) {
  const cpu::context ctx{.threads = threads, .isa = tier};
  const cpu::explanation e = p.explain(ctx, s);
  bench::row r{.operation = "gemm",
               .format = p.name,
               .isa = cpu::name(tier),
               .shape = s.name(),
               .threads = threads,
               .unit = "GFLOP/s",
               .work = s.work(),
               .kernel = e.kernel,
               .bound_name = "",
               .bound = {},
               .prepare = {}};
  r.kernel += std::string(", ") + ufp4::detail::name(e.mode);
  r.prepare = [=] { return p.prepare(ctx, s); };
  const char* unit = unit_of(e, p.block);
  const std::size_t passed = p.weight_bytes(s.n, s.k) * s.experts, span = p.weight_bytes(s.n, s.k) * p.count(s);
  if (s.m == 1 && unit != nullptr) {  // two operations a weight: reading it takes longer than multiplying
    r.bound_name = "read of weights";
    r.bound = [=] {
      return s.work() * bench::bandwidth(bench::traffic::read, span, threads) / (static_cast<double>(passed) / 1e9);
    };
  } else if (unit != nullptr) {
    // Kernels for unquantized operands multiply the two bf16 terms of an fp16 element.
    const bool twice = p.name.starts_with("fp16") && std::strstr(e.kernel, "mixed") != nullptr;
    r.bound_name = unit + std::string(twice ? ", two terms" : "");
    r.bound = [=] { return bench::peak(unit, threads) / (twice ? 2 : 1); };
  }
  bench::add(std::move(r));
}

template <class F>
std::size_t bytes_of_weights(std::size_t n, std::size_t k) {
  return bench::code_bytes<F>(n, k) + bench::scale_bytes<F>(n, k);
}

/// `count` right operands of N x K: views, or prepacked once for each shape.
template <class F>
std::vector<quantized_view<F>> views(const size& s, std::size_t count) {
  std::vector<quantized_view<F>> found;
  for (std::size_t i = 0; i < count; ++i) found.push_back(bench::quantized_operand<F, 1>(s.n, s.k, i, count));
  return found;
}
template <class F>
const std::vector<prepacked_matrix<F>>& prepacked(const size& s, std::size_t count) {
  static std::vector<prepacked_matrix<F>> one, many;
  std::vector<prepacked_matrix<F>>& kept = count == 1 ? one : many;
  if (kept.size() == count && kept[0].rows() == s.n && kept[0].cols() == s.k) return kept;
  kept.clear();
  for (const auto& view : views<F>(s, count)) kept.push_back(prepack(view));
  return kept;
}

/// Calls quantized_gemm with left(s) and each of rights(s, count) in sequence.
template <class F, class Left, class Rights>
product single(std::string name, accumulate mode, const Left& left, const Rights& rights) {
  product p{std::move(name), F::block_size, &bytes_of_weights<F>, {}, {}};
  const gemm_options options{.accumulate = mode};
  p.explain = [=](const cpu::context& ctx, const size& s) {
    return cpu::explain(left(s), rights(s, 1)[0], bench::output_matrix<float>(s.m, s.n), options, ctx);
  };
  p.prepare = [=](const cpu::context& ctx, const size& s) -> std::function<void()> {
    const product shape{"", F::block_size, &bytes_of_weights<F>, {}, {}};
    decltype(auto) b = rights(s, shape.count(s));
    const auto a = left(s);
    const auto c = bench::output_matrix<float>(s.m, s.n);
    const auto next = std::make_shared<std::size_t>(0);
    if constexpr (std::is_reference_v<decltype(b)>)
      return [=, &b] { quantized_gemm(a, b[(*next)++ % b.size()], c, options, ctx); };
    else
      return [=] { quantized_gemm(a, b[(*next)++ % b.size()], c, options, ctx); };
  };
  return p;
}

template <class F>
product both_quantized(const std::string& name, accumulate mode) {
  return single<F>(
      name, mode, [](const size& s) { return bench::quantized_operand<F, 0>(s.m, s.k); },
      [](const size& s, std::size_t count) { return views<F>(s, count); });
}
/// Activations in a format of their own.
template <class A, class F>
product mixed(const std::string& name) {
  return single<F>(
      name, accumulate::fast, [](const size& s) { return bench::quantized_operand<A, 0>(s.m, s.k); },
      [](const size& s, std::size_t count) { return views<F>(s, count); });
}
template <class F>
product with_prepacked(const std::string& name, accumulate mode) {
  return single<F>(
      name, mode, [](const size& s) { return bench::quantized_operand<F, 0>(s.m, s.k); },
      [](const size& s, std::size_t count) -> const std::vector<prepacked_matrix<F>>& {
        return prepacked<F>(s, count);
      });
}
template <class F, class X>
product weight_only(const std::string& name) {
  return single<F>(
      name, accumulate::fast, [](const size& s) { return bench::plain_matrix<X>(s.m, s.k); },
      [](const size& s, std::size_t count) { return views<F>(s, count); });
}
template <class F>
product weight_only_prepacked(const std::string& name) {
  return single<F>(
      name, accumulate::fast, [](const size& s) { return bench::plain_matrix<bf16>(s.m, s.k); },
      [](const size& s, std::size_t count) -> const std::vector<prepacked_matrix<F>>& {
        return prepacked<F>(s, count);
      });
}

/// A mixture of experts: that many products, in one call or in separate calls.
template <class F>
product experts(const std::string& name, accumulate mode, bool one_call) {
  product p = both_quantized<F>(name, mode);
  p.prepare = [=](const cpu::context& ctx, const size& s) -> std::function<void()> {
    std::vector<quantized_view<F>> a;
    std::vector<matrix_view<float>> c;
    const auto all = bench::output_matrix<float>(s.m * s.experts, s.n);
    for (std::size_t e = 0; e < s.experts; ++e) {
      a.push_back(bench::quantized_operand<F, 0>(s.m, s.k, e, s.experts));
      c.push_back(row_range(all, e * s.m, s.m));
    }
    const auto b = views<F>(s, s.experts);
    const gemm_options options{.accumulate = mode};
    if (one_call)
      return [=] {
        quantized_gemm_grouped(std::span<const quantized_view<F>>(a), std::span<const quantized_view<F>>(b),
                               std::span<const matrix_view<float>>(c), options, ctx);
      };
    return [=] {
      for (std::size_t e = 0; e < s.experts; ++e) quantized_gemm(a[e], b[e], c[e], options, ctx);
    };
  };
  return p;
}

constexpr std::size_t wide = 4096;

/// The same product at several sizes: on the best tier that has a kernel for it, on one thread and on all, and, where
/// `lesser` is set, on the other tiers.
void add_product(const settings& s, const product& p, std::span<const size> sizes, bool lesser = false) {
  for (const size& each : sizes) {
    const auto found = bench::tiers_of([&](cpu::isa tier) { return p.explain({.isa = tier}, each); });
    const cpu::isa best = found.back().tier;
    for (const bench::tier_kernel& t : found)
      if (t.tier != cpu::isa::scalar && (t.tier == best || (lesser && !s.quick))) add_row(p, each, t.tier, 1);
    if (bench::cores() > 1 && best != cpu::isa::scalar) add_row(p, each, best, bench::cores());
  }
}

std::vector<product> all_products() {
  std::vector<product> found;
  const auto add_format = [&]<class F>(F, const std::string& name) {
    found.push_back(both_quantized<F>(name + " fast", accumulate::fast));
    found.push_back(both_quantized<F>(name + " exact_blocks", accumulate::exact_blocks));
    found.push_back(both_quantized<F>(name + " folded_bf16", accumulate::folded_bf16));
  };
  add_format(nvfp4{}, "nvfp4");
  add_format(mxfp4{}, "mxfp4");
  add_format(e1m2_f32{}, "e1m2_f32");
  found.push_back(with_prepacked<nvfp4>("nvfp4 prepacked fast", accumulate::fast));
  found.push_back(with_prepacked<e1m2_f32>("e1m2_f32 prepacked exact_blocks", accumulate::exact_blocks));
  found.push_back(weight_only<nvfp4, bf16>("bf16 x nvfp4 fast"));
  found.push_back(weight_only<mxfp4, bf16>("bf16 x mxfp4 fast"));
  found.push_back(weight_only<e1m2_f32, bf16>("bf16 x e1m2_f32 fast"));
  found.push_back(weight_only<nvfp4, fp16>("fp16 x nvfp4 fast"));
  found.push_back(mixed<int8_f32, nvfp4>("int8_f32 x nvfp4 fast"));
  found.push_back(mixed<mxint8, mxfp4>("mxint8 x mxfp4 fast"));
  found.push_back(mixed<mxint8, mxint8>("mxint8 x mxint8 fast"));
  found.push_back(weight_only_prepacked<nvfp4>("bf16 x nvfp4 prepacked fast"));
  return found;
}

void add_eigen(std::span<const size> sizes) {
  if (!plain::has_eigen()) return;
  for (const size& s : sizes)
    for (const bool half : {false, true}) {
      if (s.rotating || (half && s.m > 128)) continue;  // Eigen's bf16 takes seconds
      bench::row r{.operation = "gemm",
                   .format = half ? "Eigen bfloat16" : "Eigen float",
                   .isa = "native",
                   .shape = s.name(),
                   .threads = 1,
                   .unit = "GFLOP/s",
                   .work = s.work(),
                   .kernel = "Eigen",
                   .bound_name = "",
                   .bound = {},
                   .prepare = {}};
      r.prepare = [=]() -> std::function<void()> {
        if (half) {
          const void* bits = bench::plain_matrix<bf16>(s.n, s.k).data();  // A is the first rows of B
          const auto* b = static_cast<const std::uint16_t*>(bits);
          std::uint16_t* c = bench::output_span<std::uint16_t>(s.m * s.n).data();
          return [=] { plain::eigen_bf16(b, b, c, s.m, s.n, s.k); };
        }
        const float* b = bench::plain_matrix<float>(s.n, s.k).data();
        float* c = bench::output_matrix<float>(s.m, s.n).data();
        return [=] { plain::eigen_float(b, b, c, s.m, s.n, s.k); };
      };
      bench::add(std::move(r));
    }
}

/// Calls so small that what surrounds the kernel counts: the limit is the kernel, called directly. A row times 256
/// calls, since one takes no longer than to read the clock.
template <class Call, class Kernel>
void add_small_call(std::string format, std::string shape, const char* unit, double work, const Call& prepare,
                    const Kernel& prepare_kernel) {
  for (const int threads : {0, 1}) {
    const cpu::context ctx{.threads = threads};
    bench::row r{.operation = "call_overhead",
                 .format = format + (threads == 0 ? ", default context" : ", one thread"),
                 .isa = cpu::name(cpu::available().best()),
                 .shape = shape,
                 .threads = 1,
                 .unit = unit,
                 .work = work,
                 .kernel = format,
                 .bound_name = "the kernel called directly",
                 .bound = {},
                 .prepare = {}};
    constexpr int calls = 256;
    r.work *= calls;
    r.bound = [=] {
      const auto kernel = prepare_kernel();
      double best = 1e9;
      for (int repetition = 0; repetition < 50; ++repetition) {
        const bench::stopwatch watch(1);
        for (int i = 0; i < calls; ++i) kernel();
        best = std::min(best, watch.seconds());
      }
      return work * calls / best;
    };
    r.prepare = [=]() -> std::function<void()> {
      return [call = prepare(ctx)] {
        for (int i = 0; i < calls; ++i) call();
      };
    };
    bench::add(std::move(r));
  }
}

/// Integers from -18 to 18.
std::vector<float> small_numbers(std::size_t count) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>(i % 37) - 18;
  return x;
}

template <class F>
void add_small_product(const std::string& name, const size& s) {
  const std::vector<float> x = small_numbers(s.m * s.k), w = small_numbers(s.n * s.k);
  const auto a = std::make_shared<quantized_matrix<F>>(quantize<F>(matrix_view<const float>{x.data(), s.m, s.k}));
  const auto b = std::make_shared<quantized_matrix<F>>(quantize<F>(matrix_view<const float>{w.data(), s.n, s.k}));
  const auto c = std::make_shared<std::vector<float>>(s.m * s.n);
  const matrix_view<float> y{c->data(), s.m, s.n};
  const gemm_options options{};
  add_small_call(
      "quantized_gemm " + name, s.name(), "GFLOP/s", s.work(),
      [=](const cpu::context& ctx) { return [=, own = c] { quantized_gemm(*a, *b, y, options, ctx); }; },
      [=] {
        const auto job = std::make_shared<detail::gemm_job>(detail::gemm_job_of(*a, *b, detail::sink_of(y), options));
        const auto place = std::make_shared<cpu::detail::gemm_job_place>();
        const auto plan = cpu::detail::plan_gemm(cpu::detail::kernels::gemm<ufp4::detail::features::all>, *job,
                                                 cpu::resolve({}), *place);
        const auto left = std::make_shared<detail::buffer<std::byte>>(plan.kernel->left_bytes(*plan.job, s.m));
        const auto scratch = std::make_shared<detail::buffer<std::byte>>(plan.kernel->scratch_bytes(*plan.job, s.m));
        return [=, own = job, held = place] {
          plan.kernel->pack_left(*plan.job, 0, s.m, left->data());
          for (std::size_t col = 0; col < s.n; col += plan.kernel->part_cols)
            plan.kernel->multiply(*plan.job, {0, s.m, col, std::min(s.n - col, plan.kernel->part_cols)}, left->data(),
                                  scratch->data());
        };
      });
}

/// One row of `count` numbers. The kernel's own time lacks the pass for the amax of the whole, which nvfp4 has.
template <class F>
void add_small_quantize(const std::string& name, const std::string& shape, std::size_t count) {
  const auto numbers = std::make_shared<std::vector<float>>(small_numbers(count));
  const matrix_view<const float> x{numbers->data(), 1, count};
  const auto q = std::make_shared<quantized_matrix<F>>(quantize<F>(x));
  add_small_call(
      "quantize_into " + name, shape, "GB/s", 1e-9 * static_cast<double>(count * sizeof(float)),
      [=](const cpu::context& ctx) { return [=, own = numbers] { quantize_into(x, *q, ctx); }; },
      [=] {
        const auto policies = detail::collect();
        const auto job = detail::make_job(detail::source_of(x), spec_of<F>, policies);
        const auto coder = detail::make_coder(spec_of<F>, policies, 18.0f);  // the amax of small_numbers
        const auto kernel =
            cpu::detail::quantize_kernel_for(cpu::detail::kernels::quantize<ufp4::detail::features::all>, job, coder,
                                             cpu::resolve({}))
                .kernel;
        return [=, own = numbers] {
          quantize_report report;
          kernel(job, coder, {q->codes().data(), q->scales().data()}, 0, 1, report);
        };
      });
}

void add_small_calls() {
  add_small_product<nvfp4>("nvfp4", {4, 64, 64});
  add_small_product<nvfp4>("nvfp4", {16, 16, 64});
  add_small_product<nvfp4>("nvfp4", {1, 256, 256});
  add_small_product<e1m2_f32>("e1m2_f32", {1, 256, 256});
  add_small_quantize<mxfp4>("mxfp4", "256B", 64);
  add_small_quantize<e1m2_f32>("e1m2_f32", "256B", 64);
  add_small_quantize<nvfp4>("nvfp4", "256B", 64);
  add_small_quantize<mxfp4>("mxfp4", "1KB", 256);
}

void add_all(const settings& s) {
  add_small_calls();
  std::vector<size> sizes{
      {1, wide, wide}, {1, wide, wide, true}, {16, wide, wide}, {128, wide, wide}, {512, wide, wide}};
  std::vector<size> few_rows{{2, wide, wide}, {4, wide, wide}};  // on the best tier
  std::vector<size> squares{{512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 2048}};
  const std::vector<size> scalar_sizes{{1, wide, wide}, {16, wide, wide}};
  if (s.quick) {
    sizes = {{1, wide, wide}, {1, wide, wide, true}, {16, wide, wide}, {128, wide, wide}};
    few_rows.clear();
    squares = {{1024, 1024, 1024}};
  }
  for (const product& p : all_products()) {
    add_product(s, p, sizes, true);
    add_product(s, p, few_rows);
    add_product(s, p, squares);
  }
  for (const auto& p : {both_quantized<nvfp4>("nvfp4 fast", accumulate::fast),
                        both_quantized<e1m2_f32>("e1m2_f32 exact_blocks", accumulate::exact_blocks)})
    for (const size& each : scalar_sizes) add_row(p, each, cpu::isa::scalar, 1);
  const std::vector<size> groups{{.m = 16, .n = 1024, .k = 2048, .experts = 32}};
  add_product(s, experts<nvfp4>("nvfp4 fast, grouped", accumulate::fast, true), groups);
  add_product(s, experts<nvfp4>("nvfp4 fast, one after another", accumulate::fast, false), groups);
  add_eigen(sizes);
  add_eigen(squares);
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, &add_all); }
