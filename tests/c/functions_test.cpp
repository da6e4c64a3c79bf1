// ufp4 - the C interface: the bits of the C++ operations, and a status with a message for every wrong argument.
// SPDX-License-Identifier: Apache-2.0
// ctest: separate
#include <ufp4/c/functions.hpp>

#include "support/catch.hpp"
#include "support/formats.hpp"
#include "support/poison.hpp"
#include "support/random_matrix.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

using namespace ufp4;
using support::random_matrix;

namespace {

constexpr std::size_t rows = 37, cols = 75, outputs = 21;

ufp4_matrix c_matrix(const matrix<float>& x) {
  return {const_cast<float*>(x.data()), x.rows(), x.cols(), static_cast<std::ptrdiff_t>(x.cols()), 1, UFP4_F32};
}
matrix<float> ones(std::size_t r, std::size_t k) {
  matrix<float> all(r, k);
  for (std::size_t i = 0; i < r * k; ++i) all.data()[i] = 1.0f;
  return all;
}
bool same_bits(const matrix<float>& a, const matrix<float>& b) {
  return a.rows() == b.rows() && a.cols() == b.cols() &&
         std::memcmp(a.data(), b.data(), a.rows() * a.cols() * sizeof(float)) == 0;
}

/// A quantized matrix of the C interface with its memory.
struct owned : ufp4_quantized {
  std::vector<std::uint8_t> code_memory;
  std::vector<float> scale_memory;

  owned(const char* name, std::size_t r, std::size_t k, const ufp4_transform* t = nullptr, bool prepacked = false)
      : ufp4_quantized{} {
    ufp4_format preset_format;
    REQUIRE(ufp4_preset(name, &preset_format) == UFP4_OK);
    REQUIRE((prepacked ? ufp4_prepacked_init : ufp4_quantized_init)(&preset_format, r, k, t, this) == UFP4_OK);
    code_memory.resize(codes_size);
    scale_memory.resize(scales_size / sizeof(float) + 1);
    codes = code_memory.data();
    scales = scale_memory.data();
  }
  owned(const owned&) = delete;
};

template <class Q>
bool same_content(const ufp4_quantized& c, const Q& q) {
  return c.codes_size == q.codes().size() && c.scales_size == q.scale_bytes().size() &&
         std::memcmp(c.codes, q.codes().data(), c.codes_size) == 0 &&
         std::memcmp(c.scales, q.scale_bytes().data(), c.scales_size) == 0 && c.tensor_scale == q.tensor_scale();
}

ufp4_transform c_rht() {
  ufp4_transform t;
  REQUIRE(ufp4_random_hadamard(16, 3, &t) == UFP4_OK);
  return t;
}
const auto rht = random_hadamard<16>{3};

/// A number as messages have it.
std::string text_of(double x) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.9g", x);
  return digits;
}
std::string text_of(const void* address) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%p", address);
  return digits;
}

/// The message of a call that must fail with that status.
std::string message_of(std::int32_t status, std::int32_t expected = UFP4_INVALID_ARGUMENT) {
  REQUIRE(status == expected);
  return ufp4_error_message();
}

/// x and w, quantized to two presets and multiplied: the bits of the C++ operations.
void check_product(const char* left, const matrix<float>& x, const char* right, const matrix<float>& w) {
  const ufp4_matrix xm = c_matrix(x), wm = c_matrix(w);
  owned a(left, x.rows(), x.cols()), b(right, w.rows(), w.cols());
  REQUIRE(ufp4_quantize(nullptr, &xm, nullptr, &a) == UFP4_OK);
  REQUIRE(ufp4_quantize(nullptr, &wm, nullptr, &b) == UFP4_OK);
  const any_quantized qx = quantize(preset(left), x), qw = quantize(preset(right), w);
  REQUIRE(same_content(a, qx));
  matrix<float> c(x.rows(), w.rows()), d(x.rows(), w.rows());
  quantized_gemm(qx, qw, d);
  const ufp4_matrix cm = c_matrix(c);
  REQUIRE(ufp4_gemm(nullptr, &a, &b, &cm, nullptr) == UFP4_OK);
  REQUIRE(same_bits(c, d));
}

}  // namespace

TEST_CASE("every preset has a name, and its values are those of the C++ format", "[c]") {
  REQUIRE(ufp4_abi_version() == UFP4_ABI_VERSION);
  REQUIRE(std::string(ufp4_version()) == version_string);
  std::size_t i = 0;
  support::for_each_cpu_preset([&](auto row) {
    REQUIRE(std::string(ufp4_preset_name(i++)) == row.name);
    ufp4_format f;
    REQUIRE(ufp4_preset(row.name, &f) == UFP4_OK);
    for (std::size_t c = 0; c < 16; ++c) REQUIRE(f.values[c] == row.spec.grid.value[c]);
    REQUIRE((f.scale == static_cast<int>(row.spec.scale) && f.block_rows == row.spec.block.rows));
    REQUIRE(f.block_cols == row.spec.block.cols);
    const bool described = !ufp4::detail::has_extended_blocks(row.spec) && row.spec.outer.type == scale_kind::f32;
    REQUIRE((f.has_tensor_scale > 1) == !described);
    if (described) REQUIRE((f.has_tensor_scale == 1) == row.spec.has_tensor_scale());
  });
  REQUIRE((ufp4_preset_count() == i && ufp4_preset_name(i) == nullptr));
}

TEST_CASE("presets of 8-bit and 6-bit floats are known by name, quantize and multiply as in C++", "[c]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(23, rows, cols), w = random_matrix(24, 24, cols);
  std::int32_t kind = UFP4_ELEMENT_E4M3;
  ufp4::detail::for_each_row(ufp4::detail::reference_presets{}, [&](auto row) {
    CAPTURE(row.name);
    using element = typename decltype(row)::format::element_type;
    ufp4_format f;
    REQUIRE(ufp4_preset(row.name, &f) == UFP4_OK);
    REQUIRE(f.element == kind++);
    for (std::uint8_t c = 0; c < 16; ++c) REQUIRE(f.values[c] == static_cast<float>(element::from_bits(c)));
    check_product(row.name, x, "mxfp4", w);
    f.values[1] *= 2;
    ufp4_quantized edited;
    const std::string message = message_of(ufp4_quantized_init(&f, rows, cols, nullptr, &edited));
    REQUIRE(
        message.starts_with("ufp4_quantized_init: format.values must be those of the codes 0 to 15 of format.element " +
                            std::to_string(f.element) + ", got "));
    REQUIRE(message.ends_with(" as values[1]"));
  });
}

TEST_CASE("formats of one byte are known by name, quantize and multiply, and are not prepacked", "[c]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(21, rows, cols), w = random_matrix(22, 24, cols);
  ufp4::detail::for_each_row(ufp4::detail::byte_presets{}, [&](auto row) {
    CAPTURE(row.name);
    ufp4_format f;
    REQUIRE(ufp4_preset(row.name, &f) == UFP4_OK);
    REQUIRE(f.element == UFP4_ELEMENT_INT8);
    for (std::size_t c = 0; c < 16; ++c) REQUIRE(f.values[c] == static_cast<float>(c) * row.spec.grid.unit);
    const char* weights = row.spec.block.cols == 16 ? "nvfp4" : "mxfp4";
    check_product(row.name, x, weights, w);
    ufp4_quantized packed;
    REQUIRE(message_of(ufp4_prepacked_init(&f, rows, cols, nullptr, &packed)).find("elements of one byte") !=
            std::string::npos);
    const float unit = f.values[1];
    f.values[3] = 7;
    REQUIRE(message_of(ufp4_quantized_init(&f, rows, cols, nullptr, &packed)) ==
            "ufp4_quantized_init: format.values of UFP4_ELEMENT_INT8 must be 0 to 15 times values[1], " +
                text_of(unit) + ", got 7 as values[3]");
    f.element = 6;
    REQUIRE(message_of(ufp4_quantized_init(&f, rows, cols, nullptr, &packed)).find("format.element") !=
            std::string::npos);
  });
}

TEST_CASE("ufp4_quantize, ufp4_dequantize and ufp4_prepack give the bits of the C++ operations", "[c]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(1, rows, cols);
  const ufp4_matrix xm = c_matrix(x);
  const ufp4_transform t = c_rht();
  support::for_each_cpu_preset([&](auto row) {
    CAPTURE(row.name);
    const any_quantized expected = quantize(row.spec, x, rht, stochastic{.seed = 5, .stream = 9});
    owned q(row.name, rows, cols, &t), packed(row.name, rows, cols, &t, true);
    ufp4_quantize_options options = UFP4_QUANTIZE_OPTIONS_INIT;
    options.rounding = UFP4_STOCHASTIC, options.seed = 5, options.stream = 9;
    REQUIRE(ufp4_quantize(nullptr, &xm, &options, &q) == UFP4_OK);
    REQUIRE(same_content(q, expected));
    REQUIRE(ufp4_prepack(nullptr, &q, &packed) == UFP4_OK);
    REQUIRE(same_content(packed, prepack(expected)));
    for (const owned* from : {&q, &packed}) {
      matrix<float> decoded(rows, cols);
      const ufp4_matrix out = c_matrix(decoded);
      REQUIRE(ufp4_dequantize(nullptr, from, &out) == UFP4_OK);
      REQUIRE(same_bits(decoded, dequantize(expected)));
    }
  });
}

TEST_CASE("ufp4_quantize_ms_eden has the bits of quantize_ms_eden, and its errors name the argument", "[c]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(30, rows, cols);
  const ufp4_matrix xm = c_matrix(x);
  const ufp4_transform t = c_rht();
  owned q("nvfp4", rows, cols, &t);
  REQUIRE(ufp4_quantize_ms_eden(nullptr, &xm, 7, 3, &q) == UFP4_OK);
  REQUIRE(same_content(q, quantize_ms_eden(matrix_view<const float>(x.data(), rows, cols), rht, stochastic{7, 3})));
  const auto broken = [&](const ufp4_matrix* from, ufp4_quantized* to, const std::string& expected) {
    CHECK(message_of(ufp4_quantize_ms_eden(nullptr, from, 7, 3, to)) == "ufp4_quantize_ms_eden: " + expected);
  };
  owned plain("nvfp4", rows, cols), other("mxfp4", rows, cols, &t), small("nvfp4", 2, cols, &t);
  broken(&xm, &plain, "MS-EDEN needs a transform of at least the block's length, got n = 1");
  broken(&xm, &other, "q.format must be that of ufp4_preset(\"nvfp4\")");
  broken(&xm, &small,
         "shape mismatch: q is 2 x " + std::to_string(cols) + ", x is " + std::to_string(rows) + " x " +
             std::to_string(cols));
  broken(nullptr, &q, "x is NULL");
  broken(&xm, nullptr, "q is NULL");
  q.codes = reinterpret_cast<std::uint8_t*>(const_cast<float*>(x.data()));
  broken(&xm, &q, "codes overlaps x");
}

TEST_CASE("a format that the members of ufp4_format do not describe is the preset, unchanged", "[c]") {
  const matrix<float> x = random_matrix(1, rows, cols);
  const ufp4_matrix xm = c_matrix(x);
  matrix<float> decoded(rows, cols);
  const ufp4_matrix out = c_matrix(decoded);
  ufp4_format f;
  REQUIRE(ufp4_preset("tetrajet2", &f) == UFP4_OK);
  REQUIRE(ufp4_fake_quantize(nullptr, &f, &xm, nullptr, nullptr, &out) == UFP4_OK);
  matrix<float> expected(rows, cols);
  fake_quantize(spec_of<tetrajet2>, x, expected);
  REQUIRE(same_bits(decoded, expected));
  f.block_cols = 32;
  CHECK(message_of(ufp4_fake_quantize(nullptr, &f, &xm, nullptr, nullptr, &out)) ==
        "ufp4_fake_quantize: a member of the format tetrajet2 was changed; only its name, in ufp4_preset, selects it");
  f.has_tensor_scale = 1000;
  CHECK(message_of(ufp4_fake_quantize(nullptr, &f, &xm, nullptr, nullptr, &out)) ==
        "ufp4_fake_quantize: invalid format.has_tensor_scale 1000");
}

TEST_CASE("products of every preset of 4 bits, plain, prepacked and in each mode, and measures have the bits of C++",
          "[c]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(25, 5, 96), w = random_matrix(26, outputs, 96);
  const ufp4_matrix xm = c_matrix(x), wm = c_matrix(w);
  support::for_each_cpu_preset([&](auto row) {
    CAPTURE(row.name);
    owned a(row.name, 5, 96), b(row.name, outputs, 96), packed(row.name, outputs, 96, nullptr, true);
    REQUIRE(ufp4_quantize(nullptr, &xm, nullptr, &a) == UFP4_OK);
    REQUIRE(ufp4_quantize(nullptr, &wm, nullptr, &b) == UFP4_OK);
    REQUIRE(ufp4_prepack(nullptr, &b, &packed) == UFP4_OK);
    const any_quantized qx = quantize(row.spec, x), qw = quantize(row.spec, w);
    for (const std::int32_t mode : {UFP4_FAST, UFP4_EXACT_BLOCKS}) {
      matrix<float> expected(5, outputs);
      quantized_gemm(qx, qw, expected, gemm_options{.accumulate = static_cast<accumulate>(mode)});
      ufp4_gemm_options options = UFP4_GEMM_OPTIONS_INIT;
      options.accumulate = mode;
      for (const owned* right : {&b, &packed}) {
        matrix<float> c(5, outputs);
        const ufp4_matrix cm = c_matrix(c);
        REQUIRE(ufp4_gemm(nullptr, &a, right, &cm, &options) == UFP4_OK);
        REQUIRE(same_bits(c, expected));
      }
    }
    ufp4_report r;
    REQUIRE(ufp4_measure(nullptr, &a.format, &xm, nullptr, nullptr, &r) == UFP4_OK);
    const analysis::report m = analysis::measure(row.spec, matrix_view<const float>(x));
    REQUIRE((r.sqnr_db == m.sqnr_db && r.blocks == m.blocks && r.attenuation == m.attenuation));
  });
}

namespace {

/// x in one format, cast to another: the bits, the tensor scale and the report of the C++ operation, added to a report.
void check_cast(const matrix<float>& x, const char* from, const char* to, const ufp4_transform& t) {
  CAPTURE(from, to);
  const ufp4_matrix xm = c_matrix(x);
  owned q(from, rows, cols, &t), as(to, rows, cols, &t), again(to, rows, cols, &t);
  REQUIRE(ufp4_quantize(nullptr, &xm, nullptr, &q) == UFP4_OK);
  ufp4_cast_report report{1, 2, 3, 4, 5};
  cast_report expected{1, 2, 3, 4, 5};
  REQUIRE(ufp4_cast(nullptr, &q, &as, &report) == UFP4_OK);
  REQUIRE(same_content(as, cast(quantize(preset(from), x, rht), preset(to), expected)));
  REQUIRE((report.blocks == expected.blocks && report.inexact_blocks == expected.inexact_blocks));
  REQUIRE((report.inexact_elements == expected.inexact_elements && report.signal == expected.signal));
  REQUIRE(report.noise == expected.noise);
  REQUIRE(ufp4_cast(nullptr, &q, &again, nullptr) == UFP4_OK);
  REQUIRE(as.code_memory == again.code_memory);
}

}  // namespace

TEST_CASE("ufp4_cast has the bits and the report of cast, for every two presets of 4 bits", "[c]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(27, rows, cols);
  const ufp4_transform t = c_rht();
  const auto every_preset = [](const auto& body) {
    ufp4::detail::for_each_row(ufp4::detail::presets{}, body),
        ufp4::detail::for_each_row(ufp4::detail::extended_presets{}, body);
  };
  every_preset([&](auto from) { every_preset([&](auto to) { check_cast(x, from.name, to.name, t); }); });
}

TEST_CASE("ufp4_cast of mxfp4 to nvfp4 and of nvfp4 to if4 keeps the codes, of E1M2 to int4 and back the values",
          "[c]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(28, rows, 96);
  const ufp4_matrix xm = c_matrix(x);
  const auto exact = [&](const char* from, const char* to) {
    CAPTURE(from, to);
    owned q(from, rows, 96), as(to, rows, 96);
    REQUIRE(ufp4_quantize(nullptr, &xm, nullptr, &q) == UFP4_OK);
    ufp4_cast_report report{};
    REQUIRE(ufp4_cast(nullptr, &q, &as, &report) == UFP4_OK);
    REQUIRE((report.blocks == rows * 96 / static_cast<std::size_t>(as.format.block_cols)));
    REQUIRE((report.inexact_blocks == 0 && report.noise == 0));
    matrix<float> before(rows, 96), after(rows, 96);
    const ufp4_matrix bm = c_matrix(before), am = c_matrix(after);
    REQUIRE(ufp4_dequantize(nullptr, &q, &bm) == UFP4_OK);
    REQUIRE(ufp4_dequantize(nullptr, &as, &am) == UFP4_OK);
    for (std::size_t i = 0; i < rows * 96; ++i) REQUIRE(before.data()[i] == after.data()[i]);
    return q.code_memory == as.code_memory;
  };
  REQUIRE(exact("mxfp4", "nvfp4"));
  REQUIRE(!exact("nv_e1m2", "nvint4"));
  REQUIRE(!exact("nvint4", "nv_e1m2"));
  REQUIRE((exact("nvfp4", "tetrajet2") && exact("nvfp4", "if4") && exact("tetrajet2", "e2m1_f32")));
}

TEST_CASE("a cast that cannot be made is an error that names the argument, and nothing is written", "[c]") {
  const matrix<float> x = random_matrix(29, 4, 64);
  const ufp4_matrix xm = c_matrix(x);
  owned q("mxfp4", 4, 64), packed("mxfp4", 4, 64, nullptr, true);
  REQUIRE(ufp4_quantize(nullptr, &xm, nullptr, &q) == UFP4_OK);
  REQUIRE(ufp4_prepack(nullptr, &q, &packed) == UFP4_OK);
  const auto broken = [&](const ufp4_quantized* from, const char* name, auto change, const std::string& expected) {
    owned to(name, 4, 64);
    std::fill(to.code_memory.begin(), to.code_memory.end(), std::uint8_t{0xA5});
    change(static_cast<ufp4_quantized&>(to));
    ufp4_cast_report report{};
    CHECK(message_of(ufp4_cast(nullptr, from, &to, &report)) == expected);
    for (const std::uint8_t byte : to.code_memory) REQUIRE(byte == 0xA5);
    REQUIRE((report.blocks == 0 && to.tensor_scale == 1));
  };
  const auto unchanged = [](ufp4_quantized&) {};
  broken(nullptr, "nvfp4", unchanged, "ufp4_cast: q is NULL");
  broken(&packed, "nvfp4", unchanged, "ufp4_cast: q.layout must be UFP4_CANONICAL, got 1");
  broken(&q, "mxint8", unchanged, "ufp4_cast: a format with elements of one byte cannot be cast");
  broken(&q, "nvfp4", [](auto& to) { to.rows = 3; }, "ufp4_cast: shape mismatch: to is 3 x 64, q is 4 x 64");
  broken(&q, "nvfp4", [](auto& to) { to.transform.n = 16; }, "ufp4_cast: to.transform is not the transform of q");
  broken(
      &q, "nvfp4", [](auto& to) { to.codes_size -= 1; },
      "ufp4_cast: to: codes has 127 bytes, but 4 x 64 elements (64 with padding) take 128");
  broken(&q, "nvfp4", [&](auto& to) { to.codes = q.codes; }, "ufp4_cast: codes overlaps the quantized matrix");
  CHECK(message_of(ufp4_cast(nullptr, &q, nullptr, nullptr)) == "ufp4_cast: to is NULL");
}

TEST_CASE("the elements of ufp4_matrix may be bf16 and fp16, with any strides", "[c]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(2, rows, cols);
  const any_quantized q = quantize(spec_of<mxfp4>, x);
  const auto check = [&]<class T>(T, std::int32_t kind) {
    matrix<T> half(rows, cols);
    const ufp4_quantized c{[] {
                             ufp4_format f;
                             REQUIRE(ufp4_preset("mxfp4", &f) == UFP4_OK);
                             return f;
                           }(),
                           {},
                           rows,
                           cols,
                           const_cast<std::uint8_t*>(q.codes().data()),
                           const_cast<std::byte*>(q.scale_bytes().data()),
                           q.codes().size(),
                           q.scale_bytes().size(),
                           1,
                           UFP4_CANONICAL};
    const ufp4_matrix out{half.data(), rows, cols, cols, 1, kind};
    REQUIRE(ufp4_dequantize(nullptr, &c, &out) == UFP4_OK);
    REQUIRE(std::memcmp(half.data(), dequantize<T>(q).data(), rows * cols * sizeof(T)) == 0);
    const ufp4_matrix turned{half.data(), cols, rows, 1, cols, kind};
    owned of_half("nvfp4", cols, rows);
    REQUIRE(ufp4_quantize(nullptr, &turned, nullptr, &of_half) == UFP4_OK);
    REQUIRE(same_content(of_half, quantize(spec_of<nvfp4>, transpose<const T>(half))));
  };
  check(bf16{}, UFP4_BF16);
  check(fp16{}, UFP4_FP16);
}

namespace {

/// The three errors that choose a grid; they choose different ones somewhere.
template <class Check>
void check_grid_choice(const matrix<float>& x, const Check& check) {
  for (const char* name : {"if4", "mixfp4", "razer"}) {
    CAPTURE(name);
    std::vector<any_quantized> all;
    for (const std::int32_t by : {UFP4_SQUARED_ERROR, UFP4_ABSOLUTE_ERROR, UFP4_LARGEST_ERROR}) {
      ufp4_quantize_options o = UFP4_QUANTIZE_OPTIONS_INIT;
      o.choose_grid = by;
      all.push_back(quantize(preset(name), x, choose_grid{static_cast<search_error>(by)}));
      check(name, o, all.back());
    }
    const bool differ = all[0].view() != all[1].view() && all[1].view() != all[2].view();
    REQUIRE((differ || name == std::string("razer")));  // its grids differ in one value
  }
}

}  // namespace

TEST_CASE("every rounding, scale rule, search, amax and shard of the options reaches the kernel", "[c]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(3, rows, cols);
  const ufp4_matrix xm = c_matrix(x);
  const auto check = [&](const char* name, const ufp4_quantize_options& options, const any_quantized& expected) {
    owned q(name, rows, cols);
    REQUIRE(ufp4_quantize(nullptr, &xm, &options, &q) == UFP4_OK);
    REQUIRE(same_content(q, expected));
  };
  ufp4_quantize_options o = UFP4_QUANTIZE_OPTIONS_INIT;
  o.rounding = UFP4_NEAREST_AWAY;
  check("e1m2_f32", o, quantize(spec_of<e1m2_f32>, x, nearest_away{}));
  o.rounding = UFP4_TOWARD_ZERO;
  check("e1m2_f32", o, quantize(spec_of<e1m2_f32>, x, toward_zero{}));
  o = UFP4_QUANTIZE_OPTIONS_INIT;
  o.rule = UFP4_RULE_MX_FLOOR;
  check("mxfp4", o, quantize(spec_of<mxfp4>, x, mx_floor{}));
  o.rule = UFP4_RULE_MX_EVEN;
  check("mxfp4", o, quantize(spec_of<mxfp4>, x, mx_even{}));
  o.rule = UFP4_RULE_MX_CEIL;
  check("mxfp4", o, quantize(spec_of<mxfp4>, x, mx_ceil{}));
  o.searches = 1;
  check("mxfp4", o, quantize(spec_of<mxfp4>, x, mx_ceil{}, mse_search{}));
  o.error = UFP4_ABSOLUTE_ERROR, o.search_below = 0, o.search_above = 254;
  check("mxfp4", o, quantize(spec_of<mxfp4>, x, mx_ceil{}, mae_search{0, 254}));
  o = UFP4_QUANTIZE_OPTIONS_INIT;
  o.rule = UFP4_RULE_PERCENTILE, o.per_mille = 800;
  check("nvfp4", o, quantize(spec_of<nvfp4>, x, percentile{800}));
  o = UFP4_QUANTIZE_OPTIONS_INIT;
  o.rule = UFP4_RULE_FOUR_OVER_SIX;
  check("nvfp4", o, quantize(spec_of<nvfp4>, x, four_over_six{}));
  o.error = UFP4_ABSOLUTE_ERROR;
  check("nvfp4", o, quantize(spec_of<nvfp4>, x, four_over_six{search_error::absolute}));
  o.rule = UFP4_RULE_UP;
  check("nvfp4", o, quantize(spec_of<nvfp4>, x, scale_up{}));
  check_grid_choice(x, check);
  o = UFP4_QUANTIZE_OPTIONS_INIT;
  o.has_amax = 1, o.tensor_amax = 1e9f, o.rounding = UFP4_STOCHASTIC;
  o.has_shard = 1, o.first_row = 3, o.first_col = 32, o.total_cols = 32 + cols;
  check("nvfp4", o, quantize(spec_of<nvfp4>, x, stochastic{}, tensor_amax{1e9f}, shard{3, 32, 32 + cols}));
}

TEST_CASE("the three kinds of products have the bits of quantized_gemm", "[c]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(4, rows, cols), w = random_matrix(5, outputs, cols);
  const ufp4_matrix xm = c_matrix(x), wm = c_matrix(w);
  const ufp4_transform t = c_rht();
  const any_quantized ex = quantize(spec_of<nvfp4>, x, rht), ew = quantize(spec_of<nvfp4>, w, rht);
  owned qx("nvfp4", rows, cols, &t), qw("nvfp4", outputs, cols, &t), packed("nvfp4", outputs, cols, &t, true);
  REQUIRE(ufp4_quantize(nullptr, &xm, nullptr, &qx) == UFP4_OK);
  REQUIRE(ufp4_quantize(nullptr, &wm, nullptr, &qw) == UFP4_OK);
  REQUIRE(ufp4_prepack(nullptr, &qw, &packed) == UFP4_OK);
  const std::vector<float> bias(outputs, 0.125f);

  for (const std::int32_t mode : {UFP4_FAST, UFP4_EXACT_BLOCKS, UFP4_FOLDED_BF16}) {
    const gemm_options same{.alpha = 0.5f, .beta = 2, .accumulate = static_cast<accumulate>(mode), .bias = bias};
    ufp4_gemm_options options = UFP4_GEMM_OPTIONS_INIT;
    options.alpha = 0.5f, options.beta = 2, options.accumulate = mode, options.bias = bias.data();
    matrix<float> expected = ones(rows, outputs), plain = ones(rows, outputs);
    quantized_gemm(ex, ew, expected, same);
    quantized_gemm(unquantized<const float>(x, rht), ew, plain, same);
    for (const owned* right : {&qw, &packed}) {
      matrix<float> c = ones(rows, outputs), d = ones(rows, outputs);
      const ufp4_matrix cm = c_matrix(c), dm = c_matrix(d);
      REQUIRE(ufp4_gemm(nullptr, &qx, right, &cm, &options) == UFP4_OK);
      REQUIRE(same_bits(c, expected));
      REQUIRE(ufp4_gemm_mixed(nullptr, &xm, right, &dm, &options) == UFP4_OK);
      REQUIRE(same_bits(d, plain));
    }
  }

  matrix<float> expected(rows, outputs), c(rows, outputs), d(rows, outputs);
  quantized_gemm(ex, ew, expected);
  const ufp4_quantized lefts[] = {qx, qx}, rights[] = {qw, packed};
  const ufp4_matrix out[] = {c_matrix(c), c_matrix(d)};
  REQUIRE(ufp4_gemm_grouped(nullptr, 2, lefts, rights, out, nullptr) == UFP4_OK);
  REQUIRE((same_bits(c, expected) && same_bits(d, expected)));
  REQUIRE(ufp4_gemm_grouped(nullptr, 0, nullptr, nullptr, nullptr, nullptr) == UFP4_OK);
}

TEST_CASE("amax, fake_quantize, measure and the transforms equal the C++ operations", "[c]") {
  INFO(support::seed_note());
  const matrix<float> x = random_matrix(6, rows, cols);
  const ufp4_matrix xm = c_matrix(x);
  const ufp4_transform t = c_rht();
  ufp4_format f;
  REQUIRE(ufp4_preset("int4_f32", &f) == UFP4_OK);

  float largest = 0;
  REQUIRE(ufp4_amax(nullptr, &xm, &t, &largest) == UFP4_OK);
  REQUIRE(largest == amax(matrix_view<const float>(x), rht).value);

  matrix<float> fake(rows, cols), expected(rows, cols);
  const ufp4_matrix fm = c_matrix(fake);
  ufp4_quantize_options options = UFP4_QUANTIZE_OPTIONS_INIT;
  ufp4_counts counts{1, 2, 3};
  options.undo_transform = 1, options.counts = &counts;
  quantize_report seen{1, 2, 3};
  REQUIRE(ufp4_fake_quantize(nullptr, &f, &xm, &t, &options, &fm) == UFP4_OK);
  fake_quantize(spec_of<int4_f32>, x, expected, rht, undo_transform{}, count_into{seen});
  REQUIRE(same_bits(fake, expected));
  REQUIRE((counts.nonfinite_blocks == seen.nonfinite_blocks && counts.saturated == seen.saturated));
  REQUIRE(counts.underflowed_scales == seen.underflowed_scales);

  ufp4_report r;
  REQUIRE(ufp4_measure(nullptr, &f, &xm, &t, nullptr, &r) == UFP4_OK);
  const analysis::report m = analysis::measure(spec_of<int4_f32>, matrix_view<const float>(x), rht);
  REQUIRE((r.sqnr_db == m.sqnr_db && r.attenuation == m.attenuation && r.elements == m.elements));
  REQUIRE((r.bucket_utilization == m.bucket_utilization && r.saturation_rate == m.saturation_rate));
  REQUIRE((r.scale_underflow_rate == m.scale_underflow_rate && r.nonfinite_blocks == m.nonfinite_blocks));
  REQUIRE((r.blocks == m.blocks && std::memcmp(r.histogram, m.histogram.data(), sizeof r.histogram) == 0));

  const std::size_t padded = (cols + 15) / 16 * 16;
  matrix<float> forward(rows, padded), back(rows, cols), expected_forward(rows, padded), expected_back(rows, cols);
  const ufp4_matrix om = c_matrix(forward), bm = c_matrix(back);
  REQUIRE(ufp4_hadamard_forward(nullptr, &xm, &t, &om) == UFP4_OK);
  REQUIRE(ufp4_hadamard_inverse(nullptr, &om, &t, &bm) == UFP4_OK);
  hadamard_forward(matrix_view<const float>(x), expected_forward, rht);
  hadamard_inverse(matrix_view<const float>(expected_forward), expected_back, rht);
  REQUIRE((same_bits(forward, expected_forward) && same_bits(back, expected_back)));
}

TEST_CASE("a recipe's three products have the bits of the C++ functions", "[c]") {
  INFO(support::seed_note());
  constexpr std::size_t tokens = 32, inputs = 48, outs = 16;
  const matrix<float> x = random_matrix(7, tokens, inputs), w = random_matrix(8, outs, inputs);
  const matrix<float> dy = random_matrix(9, tokens, outs);
  const ufp4_matrix xm = c_matrix(x), wm = c_matrix(w), dm = c_matrix(dy);
  const std::vector<float> bias(outs, 3.0f);
  for (std::size_t i = 0; i < ufp4_recipe_count(); ++i) {
    CAPTURE(ufp4_recipe_name(i));
    ufp4_recipe r = UFP4_RECIPE_INIT;
    r.name = ufp4_recipe_name(i), r.seed = 11, r.step = 5, r.layer = 2, r.accumulate = UFP4_EXACT_BLOCKS;
    auto recipe = recipe::named_recipes[i].make(11);
    recipe.accumulate = accumulate::exact_blocks;
    const auto now = recipe.at(5, 2);
    matrix<float> y(tokens, outs), dx(tokens, inputs), dw = ones(outs, inputs);
    matrix<float> ey(tokens, outs), edx(tokens, inputs), edw = ones(outs, inputs);
    const ufp4_matrix ym = c_matrix(y), dxm = c_matrix(dx), dwm = c_matrix(dw);
    REQUIRE(ufp4_linear_forward(nullptr, &r, &xm, &wm, bias.data(), &ym) == UFP4_OK);
    REQUIRE(ufp4_linear_backward_input(nullptr, &r, &dm, &wm, &dxm, UFP4_OVERWRITE) == UFP4_OK);
    REQUIRE(ufp4_linear_backward_weight(nullptr, &r, &dm, &xm, &dwm, UFP4_ADD) == UFP4_OK);
    const matrix_view<const float> xv = x, wv = w, dv = dy;
    linear_forward(now, xv, wv, matrix_view<float>(ey), {.bias = bias});
    linear_backward_input(now, dv, wv, matrix_view<float>(edx));
    linear_backward_weight(now, dv, xv, matrix_view<float>(edw), recipe::write_mode::add);
    REQUIRE((same_bits(y, ey) && same_bits(dx, edx) && same_bits(dw, edw)));
  }
  REQUIRE(ufp4_recipe_name(ufp4_recipe_count()) == nullptr);
}

TEST_CASE("a recipe's grouped products have the bits of the C++ functions, with an expert that has no tokens", "[c]") {
  INFO(support::seed_note());
  constexpr std::size_t tokens = 80, inputs = 48, outs = 16, experts = 3;
  constexpr std::size_t offsets[experts + 1] = {0, 48, 48, tokens};
  const matrix<float> x = random_matrix(14, tokens, inputs), w = random_matrix(15, experts * outs, inputs);
  const matrix<float> dy = random_matrix(16, tokens, outs);
  const ufp4_matrix xm = c_matrix(x), wm = c_matrix(w), dm = c_matrix(dy);
  std::vector<float> bias(experts * outs);
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i);
  const matrix_view<const float> xv = x, wv = w, dv = dy;
  for (std::size_t i = 0; i < ufp4_recipe_count(); ++i) {
    CAPTURE(ufp4_recipe_name(i));
    ufp4_recipe r = UFP4_RECIPE_INIT;
    r.name = ufp4_recipe_name(i), r.seed = 3, r.step = 8, r.layer = 1, r.accumulate = UFP4_EXACT_BLOCKS;
    auto recipe = recipe::named_recipes[i].make(3);
    recipe.accumulate = accumulate::exact_blocks;
    const auto now = recipe.at(8, 1);
    for (const std::int32_t mode : {UFP4_OVERWRITE, UFP4_ADD}) {
      const auto write = mode == UFP4_ADD ? recipe::write_mode::add : recipe::write_mode::overwrite;
      matrix<float> y = ones(tokens, outs), dx = ones(tokens, inputs), dw = ones(experts * outs, inputs);
      matrix<float> ey = y, edx = dx, edw = dw;
      const ufp4_matrix ym = c_matrix(y), dxm = c_matrix(dx), dwm = c_matrix(dw);
      REQUIRE(ufp4_linear_forward_grouped(nullptr, &r, experts, offsets, &xm, &wm, bias.data(), &ym) == UFP4_OK);
      REQUIRE(ufp4_linear_backward_input_grouped(nullptr, &r, experts, offsets, &dm, &wm, &dxm, mode) == UFP4_OK);
      REQUIRE(ufp4_linear_backward_weight_grouped(nullptr, &r, experts, offsets, &dm, &xm, &dwm, mode) == UFP4_OK);
      linear_forward_grouped(now, xv, offsets, wv, matrix_view<float>(ey), {.bias = bias});
      linear_backward_input_grouped(now, dv, offsets, wv, matrix_view<float>(edx), write);
      linear_backward_weight_grouped(now, dv, xv, offsets, matrix_view<float>(edw), write);
      REQUIRE((same_bits(y, ey) && same_bits(dx, edx) && same_bits(dw, edw)));
    }
  }
}

TEST_CASE("wrong experts and offsets of grouped products are errors that name them", "[c]") {
  const matrix<float> x = random_matrix(17, 32, 16), w = random_matrix(18, 32, 16);
  matrix<float> y = ones(32, 16);
  const matrix<float> before = y;
  const ufp4_matrix xm = c_matrix(x), wm = c_matrix(w), ym = c_matrix(y);
  const ufp4_recipe r = UFP4_RECIPE_INIT;
  const auto message = [&](std::size_t experts, const std::size_t* offsets) {
    const std::string text =
        message_of(ufp4_linear_forward_grouped(nullptr, &r, experts, offsets, &xm, &wm, nullptr, &ym));
    REQUIRE(same_bits(y, before));
    const std::string function = "ufp4_linear_forward_grouped: ";
    REQUIRE(text.compare(0, function.size(), function) == 0);
    return text.substr(function.size());
  };
  const std::size_t right[] = {0, 16, 32}, falling[] = {0, 33, 32}, late[] = {1, 16, 32}, few[] = {0, 16, 31};
  REQUIRE(message(2, nullptr) == "offsets is NULL");
  REQUIRE(message(0, right) == "experts must be 1 to 65536, got 0");
  REQUIRE(message(std::size_t{1} << 63, right) == "experts must be 1 to 65536, got 9223372036854775808");
  REQUIRE(message(1, right) == "row count mismatch: w has 32, 1 experts of 16 outputs (columns of y) need 16");
  REQUIRE(message(2, falling) == "offsets must not decrease: offsets[1] = 33, offsets[2] = 32");
  REQUIRE(message(2, late) == "offsets[0] must be 0, got 1");
  REQUIRE(message(2, few) == "the last of offsets must be the number of tokens, 32, got 31");
  REQUIRE(message_of(ufp4_linear_backward_input_grouped(nullptr, &r, 2, right, &ym, nullptr, &ym, 0)) ==
          "ufp4_linear_backward_input_grouped: w is NULL");
  REQUIRE(message_of(ufp4_linear_backward_weight_grouped(nullptr, &r, 2, right, &ym, &xm, &ym, 2)) ==
          "ufp4_linear_backward_weight_grouped: mode must be 0 or 1, got 2");
}

TEST_CASE("a context selects the instruction set, the threads and the caller's executor", "[c]") {
  const matrix<float> x = random_matrix(10, 600, 512);
  const ufp4_matrix xm = c_matrix(x);
  owned q("mxfp4", 600, 512), again("mxfp4", 600, 512);
  ufp4_context context = UFP4_CONTEXT_INIT;
  context.isa = "scalar";
  std::size_t tasks = 0;
  context.executor_state = &tasks;
  context.executor = [](void* state, std::size_t count, void (*task)(const void*, std::size_t), const void* data) {
    *static_cast<std::size_t*>(state) += count;
    while (count-- > 0) task(data, count);
  };
  REQUIRE(ufp4_quantize(&context, &xm, nullptr, &q) == UFP4_OK);
  REQUIRE(tasks > 1);
  REQUIRE(ufp4_quantize(nullptr, &xm, nullptr, &again) == UFP4_OK);
  REQUIRE(q.code_memory == again.code_memory);
  char text[200], cut[10];
  REQUIRE(ufp4_explain_quantize(&context, &xm, nullptr, &q, text, sizeof text) == UFP4_OK);
  REQUIRE(std::string(text) == "quantize: quantize_scalar (scalar)");
  REQUIRE(ufp4_explain_quantize(&context, &xm, nullptr, &q, cut, sizeof cut) == UFP4_OK);
  REQUIRE(std::string(cut) == "quantize:");
}

TEST_CASE("a grid of the program's own works in every operation", "[c]") {
  ufp4_format f;
  REQUIRE(ufp4_preset("e2m1_f32", &f) == UFP4_OK);
  const float values[16] = {0, 1, 2, 3, 4, 5, 6, 8, -8, -7, -6, -5, -4, -3, -2, -1};
  std::memcpy(f.values, values, sizeof values);
  const float x[16] = {8, -8, 8, 3, 2, 1, 0, -1, -2, -3, -4, 5, 6, 4.4f, 0.3f, -6};
  const ufp4_matrix xm{const_cast<float*>(x), 1, 16, 16, 1, UFP4_F32};
  ufp4_quantized q;
  REQUIRE(ufp4_quantized_init(&f, 1, 16, nullptr, &q) == UFP4_OK);
  REQUIRE((q.codes_size == 8 && q.scales_size == 4));
  std::uint8_t codes[8];
  float scale = 0;
  q.codes = codes, q.scales = &scale;
  REQUIRE(ufp4_quantize(nullptr, &xm, nullptr, &q) == UFP4_OK);
  REQUIRE(scale == 1);  // amax 8, divided by 8, the largest magnitude
  const std::uint8_t expected[8] = {0x87, 0x37, 0x12, 0xF0, 0xDE, 0x5C, 0x46, 0xA0};
  REQUIRE(std::memcmp(codes, expected, 8) == 0);
}

TEST_CASE("a wrong argument is an error that names it, and nothing is written", "[c]") {
  const matrix<float> x = random_matrix(12, 4, 32);
  const ufp4_matrix xm = c_matrix(x);
  owned q("nvfp4", 4, 32);
  ufp4_format f;
  REQUIRE(message_of(ufp4_preset(nullptr, &f)) == "ufp4_preset: name is NULL");
  REQUIRE(message_of(ufp4_preset("fp5", &f)).find("unknown format: fp5; the presets are nvfp4") != std::string::npos);
  REQUIRE(message_of(ufp4_random_hadamard(17, 0, &q.transform)) ==
          "ufp4_random_hadamard: transform length must be 16, 32, 64, 128 or 256 (or 1 for none), got 17");
  REQUIRE(message_of(ufp4_quantize(nullptr, nullptr, nullptr, &q)) == "ufp4_quantize: x is NULL");
  REQUIRE(message_of(ufp4_quantize(nullptr, &xm, nullptr, nullptr)) == "ufp4_quantize: q is NULL");

  const auto broken = [&](auto change, const char* expected) {
    ufp4_matrix m = xm;
    ufp4_quantize_options o = UFP4_QUANTIZE_OPTIONS_INIT;
    ufp4_context c = UFP4_CONTEXT_INIT;
    owned out("nvfp4", 4, 32);
    std::fill(out.code_memory.begin(), out.code_memory.end(), std::uint8_t{0xA5});
    change(m, o, c, static_cast<ufp4_quantized&>(out));
    REQUIRE(message_of(ufp4_quantize(&c, &m, &o, &out)) == expected);
    for (const std::uint8_t byte : out.code_memory) REQUIRE(byte == 0xA5);
  };
  broken([](auto& m, auto&, auto&, auto&) { m.data = nullptr; }, "ufp4_quantize: x is null, but has 4 x 32 elements");
  broken(
      [](auto& m, auto&, auto&, auto&) { m.data = static_cast<char*>(m.data) + 1; },
      ("ufp4_quantize: x.data must be aligned to 4 bytes, got " + text_of(reinterpret_cast<const char*>(x.data()) + 1))
          .c_str());
  broken([](auto& m, auto&, auto&, auto&) { m.dtype = 3; }, "ufp4_quantize: x.dtype must be 0 to 2, got 3");
  broken([](auto& m, auto&, auto&, auto&) { m.rows = 3; }, "ufp4_quantize: shape mismatch: q is 4 x 32, x is 3 x 32");
  broken([](auto&, auto& o, auto&, auto&) { o.struct_size = 8; },
         ("ufp4_quantize: options.struct_size must be at least " +
          std::to_string(offsetof(ufp4_quantize_options, choose_grid)) + ", got 8; initialise it with its _INIT macro")
             .c_str());
  broken([](auto&, auto& o, auto&, auto&) { o.rounding = -1; },
         "ufp4_quantize: options.rounding must be 0 to 4, got -1");
  broken([](auto&, auto& o, auto&, auto&) { o.rule = UFP4_RULE_MX_CEIL; },
         "ufp4_quantize: mx_floor, mx_even and mx_ceil are for e8m0 scales");
  broken([](auto&, auto& o, auto&, auto&) { o.undo_transform = 1; },
         "ufp4_quantize: undo_transform is for fake_quantize; codes stay in the transformed domain");
  broken([](auto&, auto& o, auto&, auto&) { o.choose_grid = 3; },
         "ufp4_quantize: options.choose_grid must be 0 to 2, got 3");
  broken([](auto&, auto& o, auto&, auto&) { o.choose_grid = UFP4_ABSOLUTE_ERROR; },
         "ufp4_quantize: choose_grid has no effect: the format has one grid");
  broken([](auto&, auto& o, auto&, auto&) { o.has_amax = 2; }, "ufp4_quantize: options.has_amax must be 0 or 1, got 2");
  broken([](auto&, auto&, auto& c, auto&) { c.threads = -1; },
         "ufp4_quantize: context.threads must not be negative, got -1");
  broken([](auto&, auto&, auto& c, auto&) { c.isa = "sse"; },
         "ufp4_quantize: context.isa: sse is not an instruction set of ufp4");
  broken([](auto&, auto&, auto&, auto& out) { out.codes_size -= 1; },
         "ufp4_quantize: q: codes has 63 bytes, but 4 x 32 elements (32 with padding) take 64");
  broken([](auto&, auto&, auto&, auto& out) { out.scales = nullptr; }, "ufp4_quantize: q: scales is null");
  broken([](auto&, auto&, auto&, auto& out) { out.layout = UFP4_PREPACKED; },
         "ufp4_quantize: q.layout must be UFP4_CANONICAL, got 1");
  broken([](auto&, auto&, auto&, auto& out) { out.format.block_cols = 24; },
         "ufp4_quantize: the block length must be a power of two from 2 to 256, got 1 x 24");
  broken([](auto&, auto&, auto&, auto& out) { out.format.values[3] = NAN; },
         "ufp4_quantize: format.values must be finite, one of them zero and one not, got 15 finite values and 2 zeros");
  broken([](auto& m, auto&, auto&, auto& out) { out.scales = m.data; }, "ufp4_quantize: scales overlaps x");
}

namespace {

/// ufp4_context of a later header, with one more member.
struct grown_context {
  std::size_t struct_size;
  const char* isa;
  ufp4_executor executor;
  void* executor_state;
  std::int32_t threads;
  std::int32_t first_word;  // where the structure of version 0.1 has padding
  std::int64_t added;
};
constexpr grown_context grown_defaults{sizeof(grown_context), nullptr, nullptr, nullptr, 0, 0, 77};

}  // namespace
template <>
inline constexpr std::size_t ufp4::c::detail::size_in_0_1<grown_context> = ufp4::c::detail::size_in_0_1<ufp4_context>;

TEST_CASE("a library whose structure has grown takes that of version 0.1, and the new members have their defaults",
          "[c]") {
  using ufp4::c::detail::with_defaults, ufp4::c::detail::size_in_0_1;
  STATIC_REQUIRE(offsetof(grown_context, added) == size_in_0_1<ufp4_context>);
  // Memory of exactly the old size: AddressSanitizer finds a read behind it.
  std::vector<unsigned char> old(sizeof(ufp4_context));
  const ufp4_context from{sizeof(ufp4_context), "avx2", nullptr, nullptr, 3};
  std::memcpy(old.data(), &from, sizeof from);
  const auto* seen = reinterpret_cast<const grown_context*>(old.data());
  const grown_context now = with_defaults("context", seen, grown_defaults);
  REQUIRE((std::string(now.isa) == "avx2" && now.threads == 3 && now.added == 77));
  const grown_context all{sizeof(grown_context), "scalar", nullptr, nullptr, 2, 0, 5};
  REQUIRE(with_defaults("context", &all, grown_defaults).added == 5);
}

TEST_CASE("options of the size of version 0.1 have the default of choose_grid, whatever their padding holds", "[c]") {
  using ufp4::c::detail::size_in_0_1;
  const matrix<float> x = random_matrix(20, rows, cols);
  const ufp4_matrix xm = c_matrix(x);
  ufp4_quantize_options all = UFP4_QUANTIZE_OPTIONS_INIT;
  all.struct_size = size_in_0_1<ufp4_quantize_options>;
  all.unused = -1, all.choose_grid = UFP4_LARGEST_ERROR;
  // Memory of exactly the old size: AddressSanitizer finds a read behind it.
  std::vector<unsigned char> old(all.struct_size);
  std::memcpy(old.data(), &all, all.struct_size);
  owned q("if4", rows, cols);
  REQUIRE(ufp4_quantize(nullptr, &xm, reinterpret_cast<const ufp4_quantize_options*>(old.data()), &q) == UFP4_OK);
  REQUIRE(same_content(q, quantize(spec_of<if4>, x)));
}

TEST_CASE("struct_size below that of version 0.1 or above that of the library is an error with both sizes", "[c]") {
  using ufp4::c::detail::size_in_0_1;
  STATIC_REQUIRE(size_in_0_1<ufp4_context> == sizeof(ufp4_context));
  STATIC_REQUIRE(size_in_0_1<ufp4_quantize_options> == offsetof(ufp4_quantize_options, choose_grid));
  STATIC_REQUIRE(size_in_0_1<ufp4_gemm_options> == sizeof(ufp4_gemm_options));
  STATIC_REQUIRE(size_in_0_1<ufp4_recipe> == sizeof(ufp4_recipe));
  const matrix<float> x = random_matrix(19, 4, 32);
  const ufp4_matrix xm = c_matrix(x);
  owned q("nvfp4", 4, 32);
  matrix<float> c(4, 4);
  const ufp4_matrix cm = c_matrix(c);
  const auto check = [&](auto structure, const char* name, auto call) {
    const std::size_t right = structure.struct_size, least = size_in_0_1<decltype(structure)>;
    for (const std::size_t wrong : {std::size_t{0}, least - 1, right + 8, ~std::size_t{0}}) {
      structure.struct_size = wrong;
      const std::string text = message_of(call(structure));
      CAPTURE(text);
      const bool older = wrong > right;
      CHECK(text.find(std::string(name) + ".struct_size must be at " + (older ? "most " : "least ") +
                      std::to_string(older ? right : least) + ", got " + std::to_string(wrong)) != std::string::npos);
      CHECK((text.find("is older than the ufp4.h of the program") != std::string::npos) == older);
    }
  };
  check(ufp4_context UFP4_CONTEXT_INIT, "context", [&](const auto& o) { return ufp4_quantize(&o, &xm, nullptr, &q); });
  check(ufp4_quantize_options UFP4_QUANTIZE_OPTIONS_INIT, "options",
        [&](const auto& o) { return ufp4_quantize(nullptr, &xm, &o, &q); });
  check(ufp4_gemm_options UFP4_GEMM_OPTIONS_INIT, "options",
        [&](const auto& o) { return ufp4_gemm(nullptr, &q, &q, &cm, &o); });
  check(ufp4_recipe UFP4_RECIPE_INIT, "recipe",
        [&](const auto& o) { return ufp4_linear_forward(nullptr, &o, &xm, &xm, nullptr, &cm); });
}

TEST_CASE("the message of every failure begins with the name of the C function", "[c]") {
  const auto kept = [](const char* message) {
    ufp4::c::detail::kept_message all;
    all.keep("ufp4_gemm", message);
    return std::string(all.text);
  };
  CHECK(kept("ufp4_gemm: a is NULL") == "ufp4_gemm: a is NULL");
  CHECK(kept("ufp4_gemm, product 1: a is NULL") == "ufp4_gemm, product 1: a is NULL");
  CHECK(kept("quantized_gemm: C overlaps A") == "ufp4_gemm: C overlaps A");
  CHECK(kept("ufp4_gemm_mixed: x") == "ufp4_gemm: x");
  CHECK(kept("unknown format: fp5") == "ufp4_gemm: unknown format: fp5");
  CHECK(kept("std::bad_array") == "ufp4_gemm: std::bad_array");
  CHECK(kept(std::string(5000, 'x').c_str()).size() == 1023);
}

TEST_CASE("wrong arguments of products, layers and texts are errors that name them", "[c]") {
  const matrix<float> x = random_matrix(13, 4, 32);
  const ufp4_matrix xm = c_matrix(x);
  owned q("nvfp4", 4, 32), w("mxfp4", 4, 32), packed("nvfp4", 4, 32, nullptr, true);
  REQUIRE(ufp4_quantize(nullptr, &xm, nullptr, &q) == UFP4_OK);
  REQUIRE(ufp4_quantize(nullptr, &xm, nullptr, &w) == UFP4_OK);
  matrix<float> c(4, 4);
  const ufp4_matrix cm = c_matrix(c);
  REQUIRE(message_of(ufp4_gemm(nullptr, &q, nullptr, &cm, nullptr)) == "ufp4_gemm: b is NULL");
  REQUIRE(message_of(ufp4_gemm(nullptr, &packed, &q, &cm, nullptr)) ==
          "ufp4_gemm: a.layout must be UFP4_CANONICAL, got 1");
  REQUIRE(message_of(ufp4_gemm(nullptr, &q, &w, &cm, nullptr)) ==
          "ufp4_gemm: block length mismatch: A has 16, B has 32");
  REQUIRE(message_of(ufp4_gemm_mixed(nullptr, &xm, nullptr, &cm, nullptr)) == "ufp4_gemm_mixed: b is NULL");
  ufp4_gemm_options options = UFP4_GEMM_OPTIONS_INIT;
  options.accumulate = 7;
  REQUIRE(message_of(ufp4_gemm(nullptr, &q, &q, &cm, &options)) ==
          "ufp4_gemm: options.accumulate must be 0 to 2, got 7");
  const ufp4_matrix twice[] = {cm, cm};
  const ufp4_quantized both[] = {q, q};
  REQUIRE(message_of(ufp4_gemm_grouped(nullptr, 2, both, both, twice, nullptr)) ==
          "ufp4_gemm_grouped: C[0] overlaps C[1]");
  ufp4_matrix shared = cm;
  shared.row_stride = 3;
  const std::string overlap = ": elements of C overlap: 4 x 4 with row stride 3 and column stride 1";
  REQUIRE(message_of(ufp4_gemm(nullptr, &q, &q, &shared, nullptr)) == "ufp4_gemm" + overlap);
  REQUIRE(message_of(ufp4_gemm_mixed(nullptr, &xm, &q, &shared, nullptr)) == "ufp4_gemm_mixed" + overlap);
  REQUIRE(message_of(ufp4_gemm_grouped(nullptr, 1, &q, &q, &shared, nullptr)) ==
          "ufp4_gemm_grouped, product 0" + overlap);
  matrix<float> back(4, 32);
  ufp4_matrix repeated = c_matrix(back);
  repeated.row_stride = 0;
  REQUIRE(message_of(ufp4_dequantize(nullptr, &q, &repeated)) ==
          "ufp4_dequantize: elements of out overlap: 4 x 32 with row stride 0 and column stride 1");
  REQUIRE(message_of(ufp4_prepack(nullptr, &q, &w)) == "ufp4_prepack: to.format is not the format of q");

  ufp4_recipe r = UFP4_RECIPE_INIT;
  r.name = "fp8";
  REQUIRE(message_of(ufp4_linear_forward(nullptr, &r, &xm, &xm, nullptr, &cm)).find("unknown recipe.name: fp8") !=
          std::string::npos);
  r.name = "ufp4";
  REQUIRE(message_of(ufp4_linear_backward_input(nullptr, &r, &xm, &xm, &cm, 2)) ==
          "ufp4_linear_backward_input: mode must be 0 or 1, got 2");
  char text[8];
  REQUIRE(message_of(ufp4_explain_gemm(nullptr, &q, &q, &cm, nullptr, text, 0)) == "ufp4_explain_gemm: size is 0");
  REQUIRE(message_of(ufp4_explain_gemm(nullptr, &q, &q, &cm, nullptr, nullptr, 9)) ==
          "ufp4_explain_gemm: text is NULL");
}

TEST_CASE("a matrix of 2^60 rows without columns has no elements, and every call returns", "[c]") {
  ufp4_matrix x = {nullptr, std::size_t{1} << 60, 0, 1, 1, UFP4_F32};
  ufp4_format format;
  REQUIRE(ufp4_preset("nvfp4", &format) == UFP4_OK);
  ufp4_quantized q;
  REQUIRE(ufp4_quantized_init(&format, x.rows, 0, nullptr, &q) == UFP4_OK);
  REQUIRE(q.codes_size == 0);
  REQUIRE(ufp4_quantize(nullptr, &x, nullptr, &q) == UFP4_OK);
  REQUIRE(ufp4_dequantize(nullptr, &q, &x) == UFP4_OK);
  REQUIRE(ufp4_fake_quantize(nullptr, &format, &x, nullptr, nullptr, &x) == UFP4_OK);
  float amax = 1;
  REQUIRE(ufp4_amax(nullptr, &x, nullptr, &amax) == UFP4_OK);
  REQUIRE(amax == 0);
  ufp4_report report;
  REQUIRE(ufp4_measure(nullptr, &format, &x, nullptr, nullptr, &report) == UFP4_OK);
  REQUIRE(report.elements == 0);
}
