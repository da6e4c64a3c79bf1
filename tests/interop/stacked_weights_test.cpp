// ufp4 - quantized weights of F4 codes, of GPT-OSS's pairs, and of more than two dimensions.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/interop/safetensors.hpp>
#include <ufp4/ufp4.hpp>

#include <bit>
#include <cmath>
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
using interop::number_type, interop::tensor_layout, interop::source_of;
using support::file_rejection, support::file_with, support::reports;

namespace {

using shape = std::vector<std::uint64_t>;

constexpr float e2m1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

/// Random bytes; as e4m3 finite and positive below 0x7F.
std::vector<std::uint8_t> bytes(std::size_t count, unsigned most = 256) {
  std::mt19937_64 random{support::seed(count * 7 + most)};
  std::vector<std::uint8_t> out(count);
  for (auto& b : out) b = static_cast<std::uint8_t>(random() % most);
  return out;
}

/// A weight as tensors that are added one by one.
struct parts {
  interop::safetensors_writer out;
  std::vector<std::uint8_t> codes, scales;
  std::vector<float> factors;

  void add_codes(const std::string& name, number_type type, const shape& extents) {
    codes = bytes(static_cast<std::size_t>(interop::byte_count(type, extents).value()));
    out.add(name, source_of(type, extents, codes.data()));
  }
  void add_scales(const std::string& name, number_type type, const shape& extents, unsigned most = 0x7F) {
    scales = bytes(static_cast<std::size_t>(interop::byte_count(type, extents).value()), most);
    out.add(name, source_of(type, extents, scales.data()));
  }
  void add_factors(const std::string& name, std::vector<float> values, const shape& extents) {
    factors = std::move(values);
    out.add(name, source_of(number_type::f32, extents, factors.data()));
  }
  std::string written() const {
    const std::string path = support::scratch() / "stacked.safetensors";
    out.write(path);
    return path;
  }
  /// Element (row, col) of rows of `cols` elements with blocks of `block`, by the definition.
  float nvfp4_value(std::size_t row, std::size_t col, std::size_t cols, float factor) const {
    const float scale = static_cast<float>(e4m3::from_bits(scales[row * (cols / 16) + col / 16])) * factor;
    return e2m1[code(row * cols + col)] * scale;
  }
  float mxfp4_value(std::size_t row, std::size_t col, std::size_t cols) const {
    return std::ldexp(e2m1[code(row * cols + col)], scales[row * (cols / 32) + col / 32] - 127);
  }

 private:
  unsigned code(std::size_t i) const { return codes[i / 2] >> (4 * (i % 2)) & 15u; }
};

template <class Q>
std::vector<float> values_of(const Q& q) {
  std::vector<float> values(q.rows() * q.cols());
  dequantize(q, matrix_view<float>(values.data(), q.rows(), q.cols()));
  return values;
}

template <class F>
std::string rejected_as(const std::string& path, const std::string& name = "w") {
  return file_rejection([&] {
    interop::safetensors_reader file(path);
    (void)interop::read_quantized<F>(file, name);
  });
}

}  // namespace

TEST_CASE("codes of type F4 are read, with scales of e4m3 or e8m0", "[safetensors]") {
  parts nv;
  nv.add_codes("w", number_type::f4, {3, 32});
  nv.add_scales("w_scale", number_type::f8_e4m3, {3, 2});
  interop::safetensors_reader file(nv.written());
  CHECK(file.at("w").type_name == "F4");
  CHECK(file.at("w").bytes == 48);
  const any_quantized q = interop::read_quantized(file, "w");
  CHECK(q.spec() == spec_of<nvfp4>);
  CHECK(q.tensor_scale() == 1);  // without a tensor scale
  const std::vector<float> values = values_of(q);
  for (std::size_t i = 0; i < values.size(); ++i)
    REQUIRE(std::bit_cast<std::uint32_t>(values[i]) ==
            std::bit_cast<std::uint32_t>(nv.nvfp4_value(i / 32, i % 32, 32, 1)));

  parts mx;
  mx.add_codes("w", number_type::f4, {3, 64});
  mx.add_scales("w_scale", number_type::f8_e8m0, {3, 2}, 200);
  interop::safetensors_reader other(mx.written());
  const std::vector<float> powers = values_of(interop::read_quantized<mxfp4>(other, "w"));
  for (std::size_t i = 0; i < powers.size(); ++i)
    REQUIRE(std::bit_cast<std::uint32_t>(powers[i]) ==
            std::bit_cast<std::uint32_t>(mx.mxfp4_value(i / 64, i % 64, 64)));
}

TEST_CASE("the layouts f4 and gpt_oss have the types and shapes of their definition, and give the same bits back",
          "[safetensors]") {
  const std::vector<float> x(4 * 64, 1.25f);
  const matrix_view<const float> view(x.data(), 4, 64);
  const auto nv = quantize<nvfp4>(view);
  const auto mx = quantize<mxfp4>(view);
  interop::safetensors_writer out;
  interop::add_quantized(out, "nv", nv, tensor_layout::f4);
  interop::add_quantized(out, "mx", mx, tensor_layout::f4);
  interop::add_quantized(out, "pair", mx, tensor_layout::gpt_oss);
  const std::string path = support::scratch() / "layouts.safetensors";
  out.write(path);
  interop::safetensors_reader file(path);
  const auto is = [&](const char* name, const char* type, const shape& extents) {
    return file.at(name).type_name == type && file.at(name).shape == extents;
  };
  CHECK(is("nv", "F4", {4, 64}));
  CHECK(is("nv_scale", "F8_E4M3", {4, 4}));
  CHECK(is("nv_scale_2", "F32", {}));
  CHECK(is("mx", "F4", {4, 64}));
  CHECK(is("mx_scale", "F8_E8M0", {4, 2}));
  CHECK(is("pair_blocks", "U8", {4, 2, 16}));
  CHECK(is("pair_scales", "U8", {4, 2}));
  CHECK(interop::read_quantized<nvfp4>(file, "nv") == nv);
  CHECK(interop::read_quantized<mxfp4>(file, "mx") == mx);
  CHECK(interop::read_quantized<mxfp4>(file, "pair") == mx);

  CHECK(reports(support::rejection([&] { interop::add_quantized(out, "a", nv, tensor_layout::gpt_oss); }),
                "not representable in layout gpt_oss: a is not mxfp4"));
  const auto own = quantize<e1m2_f32>(view);
  CHECK(reports(support::rejection([&] { interop::add_quantized(out, "a", own, tensor_layout::f4); }),
                "not representable in layout f4: a is neither nvfp4 nor mxfp4"));
}

TEST_CASE("GPT-OSS's experts have rows of outputs, and values of inputs by outputs", "[safetensors]") {
  parts experts;
  experts.add_codes("mlp.up_blocks", number_type::u8, {2, 5, 3, 16});
  experts.add_scales("mlp.up_scales", number_type::u8, {2, 5, 3}, 200);
  interop::safetensors_reader file(experts.written());
  const interop::stored_weight weight = interop::find_weight(file, "mlp.up");
  CHECK(weight.format == spec_of<mxfp4>);
  CHECK(weight.shape == shape{2, 96, 5});
  CHECK(weight.axis == 1);
  CHECK((weight.rows == 10 && weight.cols == 96 && weight.parts() == 2 && weight.part_rows() == 5));
  CHECK(interop::with_axis_last(weight.shape, weight.axis) == shape{2, 5, 96});
  const std::vector<float> second = values_of(interop::read_part(file, weight, 1));
  for (std::size_t i = 0; i < second.size(); ++i) REQUIRE(second[i] == experts.mxfp4_value(5 + i / 96, i % 96, 96));
  CHECK(values_of(interop::read_quantized(file, "mlp.up")).size() == 960);
  CHECK(support::rejection([&] { (void)interop::read_part(file, weight, 2); }) ==
        "read_part: range out of bounds: tensor mlp.up_blocks has 2 parts, not part 2");
}

TEST_CASE("experts of three dimensions have a tensor scale for each part, or one", "[safetensors]") {
  for (const bool divisors : {false, true}) {
    parts experts;
    experts.add_codes(divisors ? "w_packed" : "w", number_type::u8, {3, 4, 16});
    experts.add_scales("w_scale", number_type::f8_e4m3, {3, 4, 2});
    experts.add_factors(divisors ? "w_global_scale" : "w_scale_2", {2, 0.5f, 8}, {3});
    interop::safetensors_reader file(experts.written());
    const interop::stored_weight weight = interop::find_weight(file, "w");
    CHECK((weight.shape == shape{3, 4, 32} && weight.axis == 2 && weight.rows == 12 && weight.cols == 32));
    const std::vector<float> factors = divisors ? std::vector<float>{0.5f, 2, 0.125f} : std::vector<float>{2, 0.5f, 8};
    CHECK(weight.part_scales == factors);
    for (std::size_t e = 0; e < 3; ++e) {
      const any_quantized q = interop::read_part(file, weight, e);
      CHECK(q.tensor_scale() == factors[e]);
      const std::vector<float> values = values_of(q);
      for (std::size_t i = 0; i < values.size(); ++i)
        REQUIRE(values[i] == experts.nvfp4_value(4 * e + i / 32, i % 32, 32, factors[e]));
    }
    any_quantized two(spec_of<nvfp4>, 2, 32, {});
    CHECK(support::rejection([&] { read_weight_rows(file, weight, 3, two); }) ==
          "read_weight_rows: several tensor scales: tensor " + std::string(divisors ? "w_packed" : "w") +
              " has one for each part of 4 rows, got rows 3 to 5");
    CHECK(reports(rejected_as<nvfp4>(file.path()), "has a tensor scale for each of its 3 parts"));
  }
  parts shared;
  shared.add_codes("w", number_type::u8, {3, 4, 16});
  shared.add_scales("w_scale", number_type::f8_e4m3, {3, 4, 2});
  shared.add_factors("w_scale_2", {2, 2, 2}, {3});
  interop::safetensors_reader file(shared.written());
  CHECK(interop::find_weight(file, "w").part_scales.empty());  // equal: the weight is one matrix
  CHECK(interop::read_quantized<nvfp4>(file, "w").tensor_scale() == 2);
}

TEST_CASE("the ufp4 layout records the dimension along which blocks run", "[safetensors]") {
  parts conv;
  conv.add_codes("w_packed", number_type::u8, {6, 3, 2, 8});
  conv.add_scales("w_scale", number_type::f8_e4m3, {6, 3, 2, 1});
  conv.add_factors("w_tensor_scale", {0.25f}, {1});
  const std::string extent = interop::format_text(spec_of<nvfp4>) + interop::extent_text(11, {});
  conv.out.set_metadata("ufp4.w", extent + interop::axis_text(1, 4));
  interop::safetensors_reader file(conv.written());
  const interop::stored_weight weight = interop::find_weight(file, "w");
  CHECK(weight.shape == shape{6, 11, 3, 2});
  CHECK((weight.axis == 1 && weight.rows == 36 && weight.cols == 11 && weight.parts() == 6));
  const std::vector<float> values = values_of(interop::read_quantized<nvfp4>(file, "w"));
  for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(values[i] == conv.nvfp4_value(i / 11, i % 11, 16, 0.25f));

  for (const char* axis : {" axis=4", " axis=-1", " axis=", " axis=1 ", " axes=1"}) {
    conv.out.set_metadata("ufp4.w", extent + axis);
    CHECK(reports(rejected_as<nvfp4>(conv.written()), "invalid metadata: "));
  }
}

TEST_CASE("tensors of F4 codes, pairs and stacks that do not fit each other are rejected with one message",
          "[safetensors]") {
  const auto with = [](number_type codes, const shape& extents, number_type scales, const shape& of_scales,
                       const std::string& code_name = "w", const std::string& scale_name = "w_scale") {
    parts p;
    p.add_codes(code_name, codes, extents);
    p.add_scales(scale_name, scales, of_scales);
    return p.written();
  };
  CHECK(reports(rejected_as<mxfp4>(with(number_type::f4, {3, 64}, number_type::f8_e8m0, {3, 1})),
                "w_scale is 3 x 1 F8_E8M0; the scales of 3 x 64 of these codes are 3 x 2 F8_E8M0"));
  CHECK(reports(rejected_as<mxfp4>(with(number_type::f4, {2, 3, 64}, number_type::f8_e8m0, {3, 2, 2})),
                "the scales of 2 x 3 x 64 of these codes are 2 x 3 x 2"));
  CHECK(
      reports(rejected_as<mxfp4>(with(number_type::f4, {64}, number_type::f8_e8m0, {2})), "w is 64 F4; packed codes"));
  CHECK(reports(rejected_as<mxfp4>(with(number_type::f4, {2, 33}, number_type::f8_e8m0, {2, 2})),
                "2 x 33 F4; the rows of packed codes are whole bytes"));
  CHECK(reports(rejected_as<mxfp4>(with(number_type::f4, {2, 48}, number_type::f8_e8m0, {2, 2})),
                "48 codes a row are not 48 columns in blocks of 32"));
  CHECK(reports(rejected_as<mxfp4>(with(number_type::u8, {4, 2, 15}, number_type::u8, {4, 2}, "w_blocks", "w_scales")),
                "w_blocks is 4 x 2 x 15 U8; blocks of MXFP4 are U8"));
  CHECK(reports(rejected_as<mxfp4>(with(number_type::u8, {2, 16}, number_type::u8, {2}, "w_blocks", "w_scales")),
                "blocks of MXFP4 are U8 of 3 or 4 dimensions"));
  CHECK(reports(rejected_as<mxfp4>(with(number_type::u8, {4, 2, 16}, number_type::u8, {4, 3}, "w_blocks", "w_scales")),
                "w_scales is 4 x 3 U8; the scales of 4 x 2 x 16 bytes of these codes are 4 x 2 F8_E8M0"));
  CHECK(reports(rejected_as<nvfp4>(with(number_type::u8, {4, 2, 16}, number_type::u8, {4, 4}, "w_blocks", "w_scales")),
                "has no tensor named "));
  CHECK(reports(rejected_as<nvfp4>(with(number_type::u8, {3, 4, 16}, number_type::f8_e4m3, {3, 4, 2})),
                "has no tensor named w_scale_2"));
  parts two;
  two.add_codes("w", number_type::u8, {3, 4, 16});
  two.add_scales("w_scale", number_type::f8_e4m3, {3, 4, 2});
  two.add_factors("w_scale_2", {1, 2}, {2});
  CHECK(reports(rejected_as<nvfp4>(two.written()),
                "w_scale_2 is 2 F32; a tensor scale is one F32, or 3, one for each part"));

  const auto header = [](const std::string& extents) {
    return support::safetensors(R"({"w":{"dtype":"F4","shape":)" + extents + R"(,"data_offsets":[0,3]}})", "abc");
  };
  CHECK(rejected_as<mxfp4>(file_with(header("[2,3]"))).find("has no quantized weight") != std::string::npos);
  CHECK(reports(rejected_as<mxfp4>(file_with(header("[7]"))), "7 F4 values are not a whole number of bytes"));
  CHECK(reports(rejected_as<mxfp4>(file_with(header("[8]"))), "8 F4 values are 4 bytes, but its data_offsets span 3"));
  CHECK(reports(rejected_as<mxfp4>(file_with(header("[4294967296,4294967296]"))), "more bytes than 64 bits can count"));
}

TEST_CASE("random damage to a file of stacked weights is accepted or rejected with a file_error", "[safetensors]") {
  INFO(support::seed_note());
  std::mt19937_64 random{support::seed()};
  parts experts;
  experts.add_codes("w", number_type::f4, {2, 2, 32});
  experts.add_scales("w_scale", number_type::f8_e4m3, {2, 2, 2});
  experts.add_factors("w_scale_2", {2, 3}, {2});
  parts pair;
  pair.add_codes("w_blocks", number_type::u8, {2, 2, 1, 16});
  pair.add_scales("w_scales", number_type::u8, {2, 2, 1});
  const std::string first = support::bytes_of(experts.written()), second = support::bytes_of(pair.written());
  for (int round = 0; round < 600; ++round) {
    const std::string path = file_with(support::damaged(round % 2 != 0 ? first : second, random));
    REQUIRE_NOTHROW(file_rejection([&] {
      interop::safetensors_reader file(path);
      const interop::stored_weight weight = interop::find_weight(file, "w");
      for (std::size_t i = 0; i < weight.parts() && i < 4; ++i) (void)interop::read_part(file, weight, i);
    }));
  }
}
