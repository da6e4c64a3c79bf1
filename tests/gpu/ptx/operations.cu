// ufp4 - every operation on compiled code: the PTX of the kernels runs in the interpreter, launched by the library's
// host code, and gives the host's bits, or keeps the bound of fast.
// SPDX-License-Identifier: Apache-2.0
//
// Compiled and run by tests/gpu/compiled.sh. The GEMM kernels are those of the table: a new one is tested where it
// takes one of the products here.
#define UFP4_EXPERIMENTAL
#include "gpu/gemm_check.hpp"
#include "gpu/quantize_check.hpp"

#include <ufp4/cuda/library_gemm.hpp>

#include "gpu/ptx/counts.hpp"
#include "support/fast_cases.hpp"

#include <cstdio>
#include <map>
#include <set>

using namespace ufp4;
using support::check_quantize;
using support::text_of;

namespace {

gpu::device_facts device() {
  gpu::device_facts facts;
  REQUIRE(gpu::facts(facts) == gpu::success);
  return facts;
}

// ---- Counts: a line for each operation, which compiled.sh compares with its budget ----

template <class Work>
void count(const char* name, std::size_t elements, Work work) {
  const ptx::executed before = ptx::executed_until_now();
  work();
  const ptx::executed after = ptx::executed_until_now();
  const auto instructions = after.instructions - before.instructions, warps = after.warps - before.warps;
  std::printf("count sm_%d %s %.2f %.6f %llu\n", device().architecture, name,
              static_cast<double>(instructions) / static_cast<double>(warps),
              static_cast<double>(instructions) / static_cast<double>(elements),
              static_cast<unsigned long long>(after.products - before.products));
}

template <class T>
std::vector<T> numbers(std::size_t n) {
  std::vector<T> all;
  std::uint32_t s = 1;
  for (std::size_t i = 0; i < n; ++i) {
    s = s * 1664525u + 1013904223u;
    all.push_back(T(static_cast<float>(static_cast<std::int32_t>(s)) * 0x1p-30f));
  }
  return all;
}

// ---- Products ----

/// Launches of the last call of each kernel of the table.
std::map<std::string, std::uint64_t> last_launches;

/// Every kernel of the table that takes the product. Returns their names.
template <class A, class B>
std::set<std::string> check_products(std::size_t m, std::size_t n, std::size_t k, accumulate mode, int processors) {
  std::mt19937_64 gen{m * 1000 + n + k};
  const auto a = model::random_quantized<A>(gen, m, k, model::scales::ordinary, 0x1.8p-7f);
  const auto b = model::random_quantized<B>(gen, n, k, model::scales::ordinary, 0x1.333334p+3f);
  const gpu::quantized_matrix<A> left{a.view()};
  const gpu::quantized_matrix<B> right{b.view()};
  const gemm_options options{.alpha = -2.5f, .beta = 1.5f, .accumulate = mode};
  std::vector<float> old, want;
  for (std::size_t i = 0; i < m * n; ++i) old.push_back(static_cast<float>(i % 101) - 50.0f);
  want = old;
  quantized_gemm(a, b, matrix_view<float>{want.data(), m, n}, options, cpu::context{.threads = 1});
  gpu::device_facts facts = device();
  if (processors != 0) facts.processors = processors;
  std::set<std::string> names;
  for (const gpu::gemm_kernel* kernel : gpu::cuda_gemm_kernels<>) {
    const gpu::buffer<float> c{std::span<const float>(old)};
    const auto sink = detail::sink_of(matrix_view<float>{c.data(), m, n});
    const gpu::gemm_job job = gpu::detail::call_of(left.view(), right.view(), sink, options, {}).job;
    if (!kernel->takes(job, facts)) continue;
    CAPTURE(kernel->name, m, n, k, processors);
    const gpu::buffer<std::byte> workspace(kernel->workspace(job, facts));
    const std::uint64_t before = ptx::executed_until_now().launches;
    REQUIRE(kernel->run(job, facts, workspace.span(), gpu::stream{}) == gpu::success);
    last_launches[kernel->name] = ptx::executed_until_now().launches - before;
    const std::vector<float> got = support::on_host(c);
    if (mode == accumulate::exact_blocks)
      REQUIRE(support::difference(got, want) == "");
    else
      REQUIRE(support::product_bound(a, b).broken_by(got, options, old) == "");
    names.insert(kernel->name);
  }
  return names;
}

struct product_shape {
  std::size_t m, n, k;
  int processors;  ///< 0: of the device
};
const std::vector<product_shape> every_size = {{5, 70, 300, 0}, {21, 70, 64, 0}, {131, 71, 416, 1}};
/// One processor: few thread blocks fill it, so kernels of few rows take larger tiles.
const std::vector<product_shape> few_rows = {{3, 70, 320, 0}, {3, 70, 320, 1}, {12, 70, 320, 0}, {12, 70, 320, 1}};
const std::vector<product_shape> wgmma_tiles = {{21, 70, 64, 0}, {50, 70, 416, 0}, {131, 71, 416, 1}};

template <class A, class B = A>
std::set<std::string> check_shapes(accumulate mode, const std::vector<product_shape>& shapes = every_size) {
  std::set<std::string> all;
  for (const auto& [m, n, k, processors] : shapes) all.merge(check_products<A, B>(m, n, k, mode, processors));
  return all;
}

/// Few unquantized rows of type T times weights: sums that are exact, so C has the host's bits.
template <class F, class T>
void check_plain(std::size_t m) {
  const std::size_t n = 70, k = 1112;
  std::mt19937_64 gen{m};
  auto weights = model::random_quantized<F>(gen, n, k);
  for (auto& s : weights.scales()) s = typename F::scale_type(static_cast<float>(1u << gen() % 3));
  std::vector<T> x;
  for (std::size_t i = 0; i < m * k; ++i) x.push_back(T(static_cast<float>(gen() % 17) * 0.25f - 2.0f));
  const gpu::buffer<T> there{std::span<const T>(x)};
  const gpu::quantized_matrix<F> right{weights.view()};
  std::vector<float> want(m * n);
  const gpu::buffer<float> c(m * n);
  const matrix_view<float> out{c.data(), m, n};
  quantized_gemm(unquantized(matrix_view<const T>{x.data(), m, k}), weights, matrix_view<float>{want.data(), m, n},
                 cpu::context{.threads = 1});
  const auto plain = unquantized(matrix_view<const T>{there.data(), m, k});
  REQUIRE(std::string(gpu::explain({}, plain, right, out).kernel) == "gemv_mixed_sm80");
  REQUIRE(text_of(gpu::quantized_gemm({}, plain, right, out)) == "");
  REQUIRE(support::difference(support::on_host(c), want) == "");
}

/// A library that multiplies bf16 on the host.
gpu::error multiply(const gpu::library_product& p, std::span<std::byte>, gpu::stream) {
  const auto* a = static_cast<const bf16*>(p.left);
  const auto* b = static_cast<const bf16*>(p.right);
  auto* out = static_cast<float*>(p.out);
  for (std::size_t i = 0; i < p.rows; ++i)
    for (std::size_t j = 0; j < p.cols; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < p.depth; ++k)
        sum += static_cast<float>(a[i * p.depth + k]) * static_cast<float>(b[j * p.depth + k]);
      float& c = out[i * p.out_stride + j];
      c = *p.beta == 0 ? *p.alpha * sum : *p.alpha * sum + *p.beta * c;
    }
  return gpu::success;
}
bool is_ready() { return true; }
constexpr gpu::gemm_library host_library{&is_ready, 16, &multiply, true, &gpu::detail::run_library<>};
struct library_on_the_host {
  library_on_the_host() { gpu::installed_library = &host_library; }
  ~library_on_the_host() { gpu::installed_library = nullptr; }
};

/// Counts the instructions of quantized_gemm as the table chooses its kernel.
template <class F>
void count_product(const char* name, std::size_t m, accumulate mode) {
  const std::size_t n = 128, k = 1024;
  std::mt19937_64 gen{1};
  const gpu::quantized_matrix<F> a{model::random_quantized<F>(gen, m, k)}, b{model::random_quantized<F>(gen, n, k)};
  const gpu::buffer<float> c(m * n);
  const matrix_view<float> out{c.data(), m, n};
  const gemm_options options{.accumulate = mode};
  const gpu::buffer<std::byte> workspace(gpu::workspace_bytes({}, a, b, out, options));
  const gpu::context ctx{{}, workspace.span()};
  REQUIRE(text_of(gpu::quantized_gemm(ctx, a, b, out, options)) == "");  // an experimental kernel checks itself
  count(name, m * n * k, [&] { REQUIRE(text_of(gpu::quantized_gemm(ctx, a, b, out, options)) == ""); });
}

}  // namespace

TEST_CASE("quantize has the host's bytes") {
  const auto x = numbers<float>(37 * 300);
  const auto h = numbers<bf16>(37 * 300);
  const matrix_view<const float> xt{x.data(), 300, 37, 1, 300};
  const matrix_view<const bf16> ht{h.data(), 300, 37, 1, 300};
  check_quantize<nvfp4>(x, 37, 300);
  check_quantize<nvfp4>(h, 37, 300, random_hadamard<16>{1}, stochastic{.seed = 3});
  check_quantize<mxfp4>(x, 37, 300, stochastic{.seed = 3});
  check_quantize<e1m2_f32>(h, 37, 300, random_hadamard<32>{1});
  check_quantize<e1m2_f32>(x, 37, 300, random_hadamard<128>{1});
  check_quantize<nvfp4>(x, xt, random_hadamard<16>{1}, stochastic{.seed = 3});
  check_quantize<mxfp4>(h, ht);
  check_quantize<nvfp4>(x, xt, random_hadamard<128>{1});
  check_quantize<nvfp4>(x, 37, 300, toward_zero{});
  check_quantize<nvfp4>(x, xt, toward_zero{});
  check_quantize<compat::te_nvfp4>(x, 37, 300);
  check_quantize<block_format<fp4<E2M1>, e4m3, square(16), float>>(x, 37, 300, random_hadamard<256>{7});
}

/// Rounded with `of_columns`, the transpose of a matrix.
template <class F, class Rounding>
void check_both(const Rounding& of_columns) {
  const auto x = numbers<bf16>(48 * 70);
  const matrix_view<const bf16> xv{x.data(), 48, 70};
  const auto rows = quantize<F>(xv, random_hadamard<16>{1}, cpu::context{.threads = 1});
  const auto cols = quantize<F>(transpose(xv), of_columns, cpu::context{.threads = 1});
  const support::device_copy<bf16> in(x, xv);
  const support::device_output<F> down(48, 70, rows.transform()), across(70, 48, cols.transform());
  const gpu::buffer<std::byte> workspace(512);
  REQUIRE(text_of(gpu::quantize_both<F>({{}, workspace.span()}, in.view(), down.view(), across.view(),
                                        gpu::with(random_hadamard<16>{1}), gpu::with(of_columns))) == "");
  REQUIRE(down.matches(rows));
  REQUIRE(across.matches(cols));
}

TEST_CASE("quantize_both has the host's bytes of the matrix and of its transpose") {
  check_both<nvfp4>(stochastic{.seed = 3});
  check_both<mxfp4>(stochastic{.seed = 3});
  check_both<nvfp4>(toward_zero{});
}

TEST_CASE("amax, hadamard_forward and dequantize have the host's bits") {
  const auto x = numbers<float>(21 * 100);
  const gpu::buffer<float> in{std::span<const float>(x)}, top(1), out(21 * 112), back(21 * 100);
  const matrix_view<const float> here{x.data(), 21, 100}, there{in.data(), 21, 100};
  for (const bool transposed : {false, true}) {
    REQUIRE(text_of(gpu::amax({}, transposed ? transpose(there) : there, top.data(), hadamard<16>{})) == "");
    REQUIRE(support::on_host(top)[0] == amax(transposed ? transpose(here) : here, hadamard<16>{}).value);
    REQUIRE(text_of(gpu::amax({}, transposed ? transpose(there) : there, top.data(), hadamard<128>{})) == "");
    REQUIRE(support::on_host(top)[0] == amax(transposed ? transpose(here) : here, hadamard<128>{}).value);
  }
  std::vector<float> want(21 * 112);
  hadamard_forward(here, matrix_view<float>{want.data(), 21, 112}, hadamard<16>{});
  REQUIRE(text_of(gpu::hadamard_forward({}, there, matrix_view<float>{out.data(), 21, 112}, hadamard<16>{})) == "");
  REQUIRE(support::same_bits(support::on_host(out), want));
  const auto q = quantize<nvfp4>(here, random_hadamard<16>{1});
  std::vector<float> plain(21 * 100);
  dequantize(q, matrix_view<float>{plain.data(), 21, 100});
  const gpu::quantized_matrix<nvfp4> device_q{q.view()};
  REQUIRE(text_of(gpu::dequantize({}, device_q, matrix_view<float>{back.data(), 21, 100})) == "");
  REQUIRE(support::same_bits(support::on_host(back), plain));
}

/// Quantized, decoded and multiplied by itself.
template <class F>
void check_extended() {
  const auto x = numbers<float>(9 * 300);
  check_quantize<F>(x, 9, 300);
  check_quantize<F>(x, 9, 300, random_hadamard<16>{1}, stochastic{.seed = 3});
  const auto q = quantize<F>(matrix_view<const float>{x.data(), 9, 300}, cpu::context{.threads = 1});
  const gpu::quantized_matrix<F> there(q);
  std::vector<float> values(9 * 300), sums(9 * 9);
  const gpu::buffer<float> out(9 * 300), c(9 * 9);
  dequantize(q, matrix_view<float>{values.data(), 9, 300}, cpu::context{.threads = 1});
  REQUIRE(text_of(gpu::dequantize({}, there, matrix_view<float>{out.data(), 9, 300})) == "");
  REQUIRE(support::difference(support::on_host(out), values) == "");
  const gemm_options exactly{.accumulate = accumulate::exact_blocks};
  const matrix_view<float> product{c.data(), 9, 9};
  const gpu::buffer<std::byte> workspace(gpu::workspace_bytes({}, there, there, product, exactly));
  quantized_gemm(q, q, matrix_view<float>{sums.data(), 9, 9}, exactly, cpu::context{.threads = 1});
  REQUIRE(text_of(gpu::quantized_gemm({{}, workspace.span()}, there, there, product, exactly)) == "");
  REQUIRE(support::difference(support::on_host(c), sums) == "");
}

TEST_CASE("formats with outer scales of segments, several grids and one-bit exponents have the host's bits") {
  check_extended<tetrajet2>();
  check_extended<if4>();
  check_extended<hif4>();
}

TEST_CASE("products with exact_blocks have the host's bits in every kernel of the table") {
  auto names = check_shapes<nvfp4>(accumulate::exact_blocks);
  names.merge(check_shapes<mxfp4>(accumulate::exact_blocks));
  names.merge(check_shapes<e1m2_f32, nvfp4>(accumulate::exact_blocks));
  names.merge(check_shapes<block_format<ufp4::int4, e4m3, 64>>(accumulate::exact_blocks));
  for (const char* kernel : {"gemv_blocks_sm80", "gemm_blocks_sm80", "gemm_blocks_small_sm80", "gemm_simt"}) {
    CAPTURE(kernel);
    REQUIRE(names.count(kernel) == 1);
  }
}

TEST_CASE(
    "exact_blocks has the host's bits in wgmma's tiles of both widths, with blocks of each length, and each kernel "
    "multiplies a tile first") {
  if (!device().has_specific(9)) return;
  const auto check = []<class A, class B>(support::format_pair<A, B>) {
    for (const int processors : {1, 1000}) {  // tiles of 128 x 256, of 128 x 128
      const auto names = check_products<A, B>(150, 270, 400, accumulate::exact_blocks, processors);
      REQUIRE(names.count("gemm_blocks_sm90") == 1);
      const bool is_new = processors == 1 || A::block.cols <= 64;  // longer blocks have one width
      CHECK((last_launches["gemm_blocks_sm90"] > 5) == is_new);    // alone a product is at most five launches
    }
  };
  check(support::format_pair<nvfp4, nvint4>{});
  check(support::format_pair<mxfp4, mxint4>{});
  check(support::format_pair<e1m2_f32, nvfp4>{});
  check(support::format_pair<support::blocks_of<fp4<E2M1>, bf16, 32>, support::blocks_of<ufp4::int4, float, 32>>{});
  check(support::format_pair<support::blocks_of<fp4<E2M1>, e4m3, 64>, support::blocks_of<ufp4::int4, ue5m3, 64>>{});
  check(support::format_pair<support::blocks_of<fp4<E2M1>, float, 64>, support::blocks_of<ufp4::int4, e4m3, 64>>{});
  check(support::format_pair<support::blocks_of<fp4<E2M1>, e8m0, 128>, support::blocks_of<fp4<E1M2>, e8m0, 128>>{});
  check(support::format_pair<support::blocks_of<fp4<E2M1>, float, 256>, support::blocks_of<fp4<E2M1>, bf16, 256>>{});
}

TEST_CASE("products with fast and folded_bf16 keep their bounds in every kernel of the table") {
  using exact = support::blocks_of<fp4<E2M1>, ue5m3, 16>;
  auto names = check_shapes<nvfp4>(accumulate::fast, few_rows);
  for (const auto mode : {accumulate::fast, accumulate::folded_bf16}) names.merge(check_shapes<nvfp4>(mode));
  names.merge(check_shapes<nvint4>(accumulate::fast, few_rows));
  for (const std::size_t m : {20u, 50u}) {
    names.merge(check_products<nvfp4, nvfp4>(m, 70, 320, accumulate::fast, 0));
    names.merge(check_products<nvint4, nvint4>(m, 70, 320, accumulate::fast, 0));
  }
  names.merge(check_shapes<mxfp4>(accumulate::fast, few_rows));
  names.merge(check_shapes<e1m2_f32>(accumulate::fast, {{3, 70, 320, 0}, {3, 70, 320, 1}, {5, 70, 320, 0}}));
  names.merge(check_shapes<nvfp4>(accumulate::fast, wgmma_tiles));
  names.merge(check_shapes<mxfp4>(accumulate::fast, wgmma_tiles));
  names.merge(check_shapes<mxint4>(accumulate::fast, wgmma_tiles));
  names.merge(check_shapes<exact>(accumulate::fast, wgmma_tiles));
  names.merge(check_shapes<e1m2_f32>(accumulate::folded_bf16, wgmma_tiles));
  for (const char* kernel : {"gemv_f16_sm80", "gemm_few_f16_sm80", "gemv_dots_sm80", "gemm_bf16_sm80"}) {
    CAPTURE(kernel);
    REQUIRE(names.count(kernel) == 1);
  }
  for (const char* kernel : {"gemm_wgmma_sm90", "gemm_wgmma_rounded_sm90"}) {
    CAPTURE(kernel);
    REQUIRE(names.count(kernel) == (device().has_specific(9) ? 1u : 0u));
  }
}

TEST_CASE("products with few plain rows have the host's bits where sums are exact") {
  for (const std::size_t m : {3u, 12u}) {
    check_plain<nvfp4, bf16>(m);
    check_plain<nvint4, bf16>(m);
    check_plain<mxfp4, bf16>(m);
    check_plain<nv_e1m2, fp16>(m);
    check_plain<nvint4, fp16>(m);
  }
}

TEST_CASE(
    "products by a library keep the bound of folded_bf16: operands are decoded, and results finished, by kernels") {
  const library_on_the_host library;
  const std::size_t m = 1024, n = 128, k = 32;  // the smallest product that a library gets
  std::mt19937_64 gen{1};
  const auto a = model::random_quantized<e1m2_f32>(gen, m, k), b = model::random_quantized<e1m2_f32>(gen, n, k);
  const gpu::quantized_matrix<e1m2_f32> left{a.view()}, right{b.view()};
  const gpu::buffer<float> c(m * n), bias{std::span<const float>(std::vector<float>(n))};
  const matrix_view<float> out{c.data(), m, n};
  for (const gemm_options& options : {gemm_options{.accumulate = accumulate::folded_bf16},
                                      gemm_options{.accumulate = accumulate::folded_bf16, .bias = bias.span()}}) {
    REQUIRE(std::string(gpu::explain({}, left, right, out, options).kernel) == "gemm_library_bf16");
    const gpu::buffer<std::byte> workspace(gpu::workspace_bytes({}, left, right, out, options));
    REQUIRE(text_of(gpu::quantized_gemm({{}, workspace.span()}, left, right, out, options)) == "");
    REQUIRE(support::product_bound(a, b).broken_by(support::on_host(c), options, {}) == "");
  }
}

TEST_CASE("the products of a group have the bits of their own") {
  const std::vector<std::size_t> tokens = {3, 0, 40, 130, 7};
  std::mt19937_64 gen{3};
  const auto all = model::random_quantized<nvfp4>(gen, 180, 80);
  const gpu::quantized_matrix<nvfp4> device_all{all.view()};
  std::vector<quantized_matrix<nvfp4>> weights;
  std::vector<gpu::quantized_matrix<nvfp4>> device_weights;
  std::vector<gpu::quantized_view<nvfp4>> left;
  std::vector<float> want(180 * 24);
  const gpu::buffer<float> c(want.size());
  std::vector<matrix_view<float>> parts;
  std::size_t first = 0;
  const gemm_options options{.accumulate = accumulate::exact_blocks};
  for (const std::size_t t : tokens) {
    weights.push_back(model::random_quantized<nvfp4>(gen, 24, 80));
    device_weights.emplace_back(weights.back().view());
    left.push_back(gpu::row_range(device_all, first, t));
    parts.push_back({c.data() + first * 24, t, 24});
    quantized_gemm(row_range(all, first, t), weights.back(), matrix_view<float>{want.data() + first * 24, t, 24},
                   options);
    first += t;
  }
  const gpu::buffer<std::byte> workspace(
      gpu::workspace_bytes_grouped(gpu::context{}, left, device_weights, parts, options));
  REQUIRE(text_of(gpu::quantized_gemm_grouped({{}, workspace.span()}, left, device_weights, parts, options)) == "");
  REQUIRE(support::difference(support::on_host(c), want) == "");
}

TEST_CASE("a layer's forward and backward products have the host's bits") {
  const std::size_t tokens = 37, inputs = 50, outputs = 21;
  const auto x = numbers<float>(tokens * inputs), w = numbers<float>(outputs * inputs),
             dy = numbers<float>(tokens * outputs);
  const gpu::buffer<float> dev_x{std::span<const float>(x)}, dev_w{std::span<const float>(w)},
      dev_dy{std::span<const float>(dy)};
  const gpu::buffer<float> y(tokens * outputs), dx(tokens * inputs), dw(outputs * inputs);
  std::vector<float> want_y(y.size()), want_dx(dx.size()), want_dw(dw.size());
  const matrix_view<const float> xv{x.data(), tokens, inputs}, wv{w.data(), outputs, inputs},
      dyv{dy.data(), tokens, outputs};
  const matrix_view<const float> xd{dev_x.data(), tokens, inputs}, wd{dev_w.data(), outputs, inputs},
      dyd{dev_dy.data(), tokens, outputs};
  for (recipe::training_recipe r : {recipe::nvfp4_recipe(5), recipe::ufp4_recipe(1), recipe::bf16_recipe(6)}) {
    r.accumulate = accumulate::exact_blocks;
    const recipe::bound_recipe now = r.at(3, 7);
    const gpu::buffer<std::byte> memory(1 << 20);
    const gpu::context ctx{{}, memory.span()};
    linear_forward(now, xv, wv, matrix_view<float>{want_y.data(), tokens, outputs});
    linear_backward_input(now, dyv, wv, matrix_view<float>{want_dx.data(), tokens, inputs});
    linear_backward_weight(now, dyv, xv, matrix_view<float>{want_dw.data(), outputs, inputs});
    REQUIRE(text_of(gpu::linear_forward(ctx, now, xd, wd, matrix_view<float>{y.data(), tokens, outputs})) == "");
    REQUIRE(text_of(gpu::linear_backward_input(ctx, now, dyd, wd, matrix_view<float>{dx.data(), tokens, inputs})) ==
            "");
    REQUIRE(text_of(gpu::linear_backward_weight(ctx, now, dyd, xd, matrix_view<float>{dw.data(), outputs, inputs})) ==
            "");
    REQUIRE(support::difference(support::on_host(y), want_y) == "");
    REQUIRE(support::difference(support::on_host(dx), want_dx) == "");
    REQUIRE(support::difference(support::on_host(dw), want_dw) == "");
  }
}

TEST_CASE("prepare() loads the kernels that have code for this device, and no error of the others remains") {
  static const int no_kernel = 0;
  const gpu::detail::kernel_entry without_code(&no_kernel);
  REQUIRE(text_of(gpu::prepare()) == "");
  REQUIRE(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("instructions of each operation") {
  const std::size_t rows = 64, cols = 1024, all = rows * cols;
  const gpu::buffer<float> x{std::span<const float>(numbers<float>(all))};
  const gpu::buffer<bf16> h{std::span<const bf16>(numbers<bf16>(all))};
  const matrix_view<const float> xv{x.data(), rows, cols};
  const matrix_view<const bf16> hv{h.data(), rows, cols};
  const gpu::buffer<float> y(all), top(1);
  const matrix_view<float> yv{y.data(), rows, cols};
  const random_hadamard<16> rht{1};
  const stochastic sr{.seed = 1};
  const tensor_amax known{2.0f};
  const gpu::quantized_matrix<nvfp4> q(rows, cols), qr(rows, cols, rht.spec()), qt(cols, rows),
      qtr(cols, rows, rht.spec());
  const gpu::quantized_matrix<mxfp4> qm(rows, cols);
  const gpu::quantized_matrix<e1m2_f32> qe(rows, cols);
  const auto run = [](const gpu::status& s) { REQUIRE(text_of(s) == ""); };
  count("quantize/nvfp4/bf16", all, [&] { run(gpu::quantize<nvfp4>({}, hv, q, known)); });
  count("quantize/nvfp4/bf16/rht/sr", all, [&] { run(gpu::quantize<nvfp4>({}, hv, qr, rht, sr, known)); });
  count("quantize/nvfp4/float", all, [&] { run(gpu::quantize<nvfp4>({}, xv, q, known)); });
  count("quantize/mxfp4/bf16", all, [&] { run(gpu::quantize<mxfp4>({}, hv, qm)); });
  count("quantize/e1m2_f32/bf16", all, [&] { run(gpu::quantize<e1m2_f32>({}, hv, qe)); });
  count("quantize/nvfp4/bf16/transposed", all, [&] { run(gpu::quantize<nvfp4>({}, transpose(hv), qt, known)); });
  count("quantize_both/nvfp4/bf16", all,
        [&] { run(gpu::quantize_both<nvfp4>({}, hv, q.view(), qt.view(), gpu::with(known), gpu::with(known))); });
  count("quantize_both/nvfp4/bf16/sr", all,
        [&] { run(gpu::quantize_both<nvfp4>({}, hv, q.view(), qt.view(), gpu::with(known), gpu::with(known, sr))); });
  count("quantize/nvfp4/bf16/rht/sr/transposed", all,
        [&] { run(gpu::quantize<nvfp4>({}, transpose(hv), qtr, rht, sr, known)); });
  count("amax/bf16", all, [&] { run(gpu::amax({}, hv, top.data())); });
  count("hadamard_forward/float", all, [&] { run(gpu::hadamard_forward({}, xv, yv, rht)); });
  count("dequantize/nvfp4/float", all, [&] { run(gpu::dequantize({}, q, yv)); });
  count_product<nvfp4>("quantized_gemm/nvfp4/fast/8", 8, accumulate::fast);
  count_product<nvfp4>("quantized_gemm/nvfp4/fast/64", 64, accumulate::fast);
  count_product<nvfp4>("quantized_gemm/nvfp4/fast/256", 256, accumulate::fast);
  count_product<e1m2_f32>("quantized_gemm/e1m2_f32/folded_bf16/256", 256, accumulate::folded_bf16);
  count_product<nvfp4>("quantized_gemm/nvfp4/exact_blocks/256", 256, accumulate::exact_blocks);
  count_product<e1m2_f32>("quantized_gemm/e1m2_f32/exact_blocks/8", 8, accumulate::exact_blocks);
}
