// ufp4 - weights of AWQ and GPTQ: files packed here as those projects pack them are read to the same integers.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/interop/int4_groups.hpp>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/messages.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"

using namespace ufp4;
using interop::int4_layout;
using support::file_rejection;
using support::reports;

namespace {

/// A layer with K inputs, N outputs and G groups: integers by input and output, as the projects store them.
struct layer {
  std::size_t inputs, outputs, groups;
  std::vector<unsigned> codes;        // [K, N]
  std::vector<unsigned> zero_points;  // [G, N]
  std::vector<fp16> scales;           // [G, N]
  std::vector<unsigned> group;        // [K]

  layer(std::size_t k, std::size_t n, std::size_t g, bool shuffled) : inputs(k), outputs(n), groups(g) {
    std::mt19937_64 random{support::seed(k * n + g)};
    for (std::size_t i = 0; i < k * n; ++i) codes.push_back(static_cast<unsigned>(random() % 16));
    for (std::size_t i = 0; i < g * n; ++i) zero_points.push_back(static_cast<unsigned>(random() % 16));
    for (std::size_t i = 0; i < g * n; ++i) scales.push_back(fp16(static_cast<float>(random() % 1000) * 1.3e-4f));
    for (std::size_t i = 0; i < k; ++i) group.push_back(static_cast<unsigned>(shuffled ? random() % g : i / (k / g)));
  }
  /// Element of the weight: output n, input i.
  float value(std::size_t n, std::size_t i) const {
    const std::size_t at = group[i] * outputs + n;
    const int difference = static_cast<int>(codes[i * outputs + n]) - static_cast<int>(zero_points[at]);
    return static_cast<float>(difference) * static_cast<float>(scales[at]);
  }
};

/// AutoAWQ's pack: number j of a row holds the outputs 8 j + order[i], from the lowest bits on.
std::vector<std::uint32_t> packed_awq(const std::vector<unsigned>& values, std::size_t rows, std::size_t outputs) {
  constexpr std::size_t order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  std::vector<std::uint32_t> numbers(rows * outputs / 8);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t j = 0; j < outputs / 8; ++j)
      for (std::size_t i = 0; i < 8; ++i)
        numbers[r * (outputs / 8) + j] |= values[r * outputs + 8 * j + order[i]] << (4 * i);
  return numbers;
}

/// AutoGPTQ's pack of qzeros: outputs in order; `subtracted` from each zero point, modulo 16.
std::vector<std::uint32_t> packed_zeros(const layer& l, unsigned subtracted) {
  std::vector<std::uint32_t> numbers(l.groups * l.outputs / 8);
  for (std::size_t g = 0; g < l.groups; ++g)
    for (std::size_t n = 0; n < l.outputs; ++n)
      numbers[g * (l.outputs / 8) + n / 8] |= (l.zero_points[g * l.outputs + n] + 16 - subtracted) % 16
                                              << (4 * (n % 8));
  return numbers;
}

/// AutoGPTQ's pack of qweight: eight inputs in a number.
std::vector<std::uint32_t> packed_gptq(const layer& l) {
  std::vector<std::uint32_t> numbers(l.inputs / 8 * l.outputs);
  for (std::size_t k = 0; k < l.inputs; ++k)
    for (std::size_t n = 0; n < l.outputs; ++n)
      numbers[k / 8 * l.outputs + n] |= l.codes[k * l.outputs + n] << (4 * (k % 8));
  return numbers;
}

/// A file of the layer "up" in a layout; g_idx where asked for.
std::string saved(const layer& l, int4_layout layout, bool with_indices) {
  using interop::number_type, interop::source_of;
  const bool awq = layout == int4_layout::awq;
  const auto weight = awq ? packed_awq(l.codes, l.inputs, l.outputs) : packed_gptq(l);
  const auto zeros =
      awq ? packed_awq(l.zero_points, l.groups, l.outputs) : packed_zeros(l, layout == int4_layout::gptq ? 1 : 0);
  interop::safetensors_writer out;
  out.add("up.qweight",
          source_of(number_type::i32, {awq ? l.inputs : l.inputs / 8, awq ? l.outputs / 8 : l.outputs}, weight.data()));
  out.add("up.qzeros", source_of(number_type::i32, {l.groups, l.outputs / 8}, zeros.data()));
  out.add("up.scales", source_of(number_type::f16, {l.groups, l.outputs}, l.scales.data()));
  if (with_indices) out.add("up.g_idx", source_of(number_type::i32, {l.inputs}, l.group.data()));
  const std::string path = support::scratch() / "groups.safetensors";
  out.write(path);
  return path;
}

void check(const layer& l, const interop::int4_groups& w) {
  REQUIRE(w.rows == l.outputs);
  REQUIRE(w.cols == l.inputs);
  REQUIRE(w.groups == l.groups);
  std::vector<float> values(w.rows * w.cols);
  std::vector<bf16> rounded(values.size());
  interop::dequantize(w, matrix_view<float>(values.data(), w.rows, w.cols));
  interop::dequantize(w, matrix_view<bf16>(rounded.data(), w.rows, w.cols));
  for (std::size_t n = 0; n < w.rows; ++n)
    for (std::size_t k = 0; k < w.cols; ++k) {
      REQUIRE(w.codes[n * w.cols + k] == l.codes[k * l.outputs + n]);
      REQUIRE(w.zero_points[n * w.groups + w.group[k]] == l.zero_points[l.group[k] * l.outputs + n]);
      REQUIRE(values[n * w.cols + k] == l.value(n, k));
      REQUIRE(rounded[n * w.cols + k].bits() == ufp4::detail::round_to<bf16>(l.value(n, k)).bits());
    }
}

}  // namespace

TEST_CASE("AWQ's order of outputs within a number", "[int4_groups]") {
  for (std::size_t i = 0; i < 8; ++i) {
    constexpr std::size_t order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    CHECK(interop::awq_position(order[i]) == i);
  }
  // output 1 is in bits 16 .. 19
  CHECK(interop::nibble(0x000A0000u, interop::awq_position(1)) == 10);
}

TEST_CASE("weights of AWQ and GPTQ are read to the integers that were packed", "[int4_groups]") {
  for (const std::size_t group_size : {32u, 64u, 128u}) {
    const layer l(256, 24, 256 / group_size, false), shuffled(256, 24, 256 / group_size, true);
    for (const int4_layout layout : {int4_layout::awq, int4_layout::gptq, int4_layout::gptq_v2}) {
      CAPTURE(group_size, static_cast<int>(layout));
      interop::safetensors_reader plain(saved(l, layout, false));
      check(l, interop::read_int4_groups(plain, "up", layout));
      if (layout == int4_layout::awq) continue;
      interop::safetensors_reader indexed(saved(shuffled, layout, true));  // act-order
      check(shuffled, interop::read_int4_groups(indexed, "up", layout));
    }
  }
}

TEST_CASE("a weight of AWQ or GPTQ becomes a zero_point_matrix, its columns in the order of their groups",
          "[int4_groups]") {
  for (const bool shuffled : {false, true}) {
    layer l(256, 24, 4, false);
    if (shuffled) std::shuffle(l.group.begin(), l.group.end(), std::mt19937_64{support::seed(5)});
    interop::safetensors_reader file(saved(l, int4_layout::gptq, true));
    const auto w = interop::read_int4_groups(file, "up", int4_layout::gptq);
    const std::vector<std::uint32_t> order = interop::input_order(w);
    const zero_point_matrix q = interop::to_zero_point_matrix(w);
    CHECK(q.group() == 64);
    for (std::size_t n = 0; n < w.rows; ++n)
      for (std::size_t k = 0; k < w.cols; ++k) REQUIRE(q(n, k) == l.value(n, order[k]));
    if (!shuffled) CHECK(std::is_sorted(order.begin(), order.end()));
  }
  layer uneven(64, 16, 2, false);
  uneven.group[0] = 1;
  interop::safetensors_reader file(saved(uneven, int4_layout::gptq, true));
  const auto w = interop::read_int4_groups(file, "up", int4_layout::gptq);
  CHECK(support::rejection([&] { interop::to_zero_point_matrix(w); }) ==
        "to_zero_point_matrix: groups of different lengths: 64 inputs in 2 groups");
}

TEST_CASE("tensors of AWQ and GPTQ that do not fit each other are rejected with one message", "[int4_groups]") {
  const layer l(64, 16, 2, false);
  const std::string awq = saved(l, int4_layout::awq, false);
  const auto read = [](const std::string& path, int4_layout layout, const std::string& name = "up") {
    return file_rejection([&] {
      interop::safetensors_reader file(path);
      (void)interop::read_int4_groups(file, name, layout);
    });
  };
  CHECK(read(awq, int4_layout::awq) == "accepted");
  CHECK(reports(read(awq, int4_layout::gptq),
                "up.qweight is 64 x 2 I32, which does not fit scales of 2 x 16 in the layout of GPTQ"));
  CHECK(reports(read(awq, int4_layout::awq, "down"), "has no tensor named down.qweight"));
  const auto changed = [&](const std::string& path, const std::string& from, const std::string& to) {
    std::string bytes = support::bytes_of(path);
    const std::size_t at = bytes.find(from);
    REQUIRE(at != std::string::npos);
    return support::file_with(bytes.replace(at, from.size(), to));
  };
  CHECK(reports(read(changed(awq, "up.qzeros", "up.qzeroz"), int4_layout::awq), "has no tensor named up.qzeros"));
  CHECK(reports(read(changed(awq, R"("shape":[2,2])", R"("shape":[4,1])"), int4_layout::awq),
                "up.qzeros is 4 x 1 I32, not the expected 2 x 2 I32"));
  CHECK(reports(read(changed(awq, R"("F16","shape":[2,16])", R"("F16","shape":[4,8] )").c_str(), int4_layout::awq),
                "does not fit scales of 4 x 8"));

  layer bad(64, 16, 2, false);
  bad.group[7] = 2;
  CHECK(reports(read(saved(bad, int4_layout::gptq, true), int4_layout::gptq), "group out of range: 2 of 2"));
  layer three(64, 16, 2, false);
  three.groups = 3;
  three.zero_points.resize(48, 1);
  three.scales.resize(48, fp16(1.0f));
  CHECK(
      reports(read(saved(three, int4_layout::gptq, false), int4_layout::gptq), "3 groups do not divide the 64 inputs"));
  interop::safetensors_reader file(saved(l, int4_layout::awq, false));
  const auto w = interop::read_int4_groups(file, "up", int4_layout::awq);
  std::vector<float> small(16);
  CHECK(support::rejection([&] { interop::dequantize(w, matrix_view<float>(small.data(), 1, 16)); }) ==
        "dequantize: shape mismatch: out is 1 x 16, the weight is 16 x 64");
}

TEST_CASE("random damage to a file of AWQ is accepted or rejected with a file_error", "[int4_groups]") {
  INFO(support::seed_note());
  std::mt19937_64 random{support::seed()};
  const std::string good = support::bytes_of(saved(layer(64, 16, 2, true), int4_layout::gptq, true));
  for (int round = 0; round < 400; ++round) {
    const std::string path = support::file_with(support::damaged(good, random));
    REQUIRE_NOTHROW(file_rejection([&] {
      interop::safetensors_reader file(path);
      (void)interop::read_int4_groups(file, "up", round % 2 != 0 ? int4_layout::gptq : int4_layout::awq);
    }));
  }
}
