// ufp4 - tests: train_lm's recipes by name and by part, its corpus, its batches and its checkpoint files.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "../../examples/train_lm/checkpoint.hpp"
#include "../../examples/train_lm/corpus.hpp"
#include "../../examples/train_lm/model_recipe.hpp"
#include "../../examples/train_lm/recipes.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace train_lm;
using support::scratch;

namespace {

bool same(const ufp4::recipe::transform_choice& a, const ufp4::recipe::transform_choice& b) {
  return a.what == b.what && same_map(a.spec, b.spec) && a.spec.rounds_to_bf16 == b.spec.rounds_to_bf16;
}

bool same(const ufp4::recipe::operand_policy& a, const ufp4::recipe::operand_policy& b) {
  return a.quantized == b.quantized && a.format == b.format && a.rule == b.rule && a.rounding == b.rounding &&
         same(a.transform, b.transform) && a.ms_eden == b.ms_eden;
}

bool same(const training_recipe& a, const training_recipe& b) {
  for (int i = 0; i < 6; ++i)
    if (!same(a.operand(i), b.operand(i))) return false;
  return a.seed == b.seed && a.redraw_signs_each_step == b.redraw_signs_each_step && a.accumulate == b.accumulate;
}

/// Operands for which something holds, as "024" for X, dY and dY^T.
template <class Holds>
std::string operands(const training_recipe& r, const Holds& holds) {
  std::string which;
  for (int i = 0; i < 6; ++i)
    if (holds(r.operand(i))) which += std::to_string(i);
  return which;
}
std::string transformed(const training_recipe& r) {
  return operands(r, [](const auto& o) { return o.transform.what != ufp4::recipe::transform_choice::kind::none; });
}
std::string stochastic(const training_recipe& r) {
  return operands(r, [](const auto& o) { return o.rounding.what == ufp4::rounding_spec::kind::stochastic; });
}

template <class Error, class F>
std::string rejection(const F& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "(accepted)";
}

std::vector<float> magnitudes(const ufp4::grid4& grid) {
  std::vector<float> found;
  for (int i = grid.zero; i < grid.levels; ++i) found.push_back(grid.level[i]);
  return found;
}

}  // namespace

TEST_CASE("recipes by name are the library's presets", "[recipes]") {
  CHECK(same(make_recipe("bf16", {}, 7), ufp4::recipe::bf16_recipe(7)));
  CHECK(same(make_recipe("ufp4", {}, 7), ufp4::recipe::ufp4_recipe(7)));
  CHECK(same(make_recipe("ufp4-int4", {}, 7), ufp4::recipe::ufp4_recipe<ufp4::int4_f32>(7)));
  CHECK(same(make_recipe("nv-uniform", {}, 7), ufp4::recipe::ufp4_recipe<ufp4::nv_e1m2>(7)));
  CHECK(same(make_recipe("e2m1-baseline", {}, 7), ufp4::recipe::e2m1_baseline_recipe(7)));
  CHECK(same(make_recipe("nvfp4", {}, 7), ufp4::recipe::nvfp4_recipe(7)));
  CHECK(same(make_recipe("te-four-over-six", {}, 7), ufp4::recipe::te_four_over_six_recipe(7)));
  CHECK(same(make_recipe("quartet2", {}, 7), ufp4::recipe::quartet2_recipe(7)));
  CHECK(same(make_recipe("tetrajet2", {}, 7), ufp4::recipe::tetrajet2_recipe(7)));
  CHECK(same(make_recipe("if4", {}, 7), ufp4::recipe::if4_recipe(7)));
  CHECK(same(make_recipe("hif4", {}, 7), ufp4::recipe::hif4_recipe(7)));
  for (const ufp4::recipe::named_recipe& r : ufp4::recipe::named_recipes) {
    CAPTURE(r.name);
    CHECK(same(make_recipe(r.name, {}, 7), r.make(7)));
  }
  CHECK_FALSE(same(make_recipe("ufp4", {}, 7), ufp4::recipe::ufp4_recipe(8)));
}

TEST_CASE("naming a preset's own parts changes nothing", "[recipes]") {
  const recipe_parts own{.format = "e1m2_f32", .rht = "all", .rht_size = "16", .sr = "dy", .signs = "fixed"};
  CHECK(same(make_recipe("ufp4", own, 1), ufp4::recipe::ufp4_recipe(1)));
  CHECK(same(make_recipe("e2m1-baseline", own, 1), ufp4::recipe::ufp4_recipe(1)));
  const recipe_parts uniform{.format = "nv_e1m2", .rht = "fprop+dgrad+wgrad"};
  CHECK(same(make_recipe("nvfp4", uniform, 1), ufp4::recipe::ufp4_recipe<ufp4::nv_e1m2>(1)));
}

TEST_CASE("--sr leaves the scale rules of operands whose rounding it does not change", "[recipes]") {
  CHECK(same(make_recipe("nvfp4", {.sr = "dy"}, 1), ufp4::recipe::nvfp4_recipe(1)));
  CHECK(same(make_recipe("nvfp4", {.sr = "dgrad"}, 1).dgrad.left, ufp4::recipe::nvfp4_recipe(1).dgrad.left));
  const training_recipe none = make_recipe("nvfp4", {.sr = "none"}, 1);
  CHECK(same(none.fprop.right, ufp4::recipe::nvfp4_recipe(1).fprop.right));
  CHECK(none.dgrad.left.rule == ufp4::scale_rule_spec{});
  const training_recipe all = make_recipe("nvfp4", {.sr = "all"}, 1);
  CHECK(all.fprop.left.rule == ufp4::recipe::unclipped(all.fprop.left.format.scale));
}

TEST_CASE("an ablation changes its part and no other", "[recipes]") {
  CHECK(transformed(make_recipe("ufp4-rht-none", {}, 1)) == "");
  CHECK(transformed(make_recipe("ufp4-rht-wgrad", {}, 1)) == "45");
  CHECK(transformed(make_recipe("ufp4-rht-fprop+wgrad", {}, 1)) == "0145");
  CHECK(transformed(make_recipe("ufp4-rht-dgrad+wgrad", {}, 1)) == "2345");
  CHECK(transformed(make_recipe("e2m1-rht-none", {}, 1)) == "");
  CHECK(transformed(make_recipe("e2m1-rht-all", {}, 1)) == "012345");
  CHECK(stochastic(make_recipe("ufp4-rht-none", {}, 1)) == "24");
  CHECK(stochastic(make_recipe("ufp4-no-sr", {}, 1)) == "");
  CHECK(stochastic(make_recipe("ufp4-sr-dgrad", {}, 1)) == "2");
  CHECK(stochastic(make_recipe("ufp4-sr-wgrad", {}, 1)) == "4");
  CHECK(stochastic(make_recipe("ufp4-sr-all", {}, 1)) == "012345");
  CHECK(make_recipe("ufp4-rht-64", {}, 1).dgrad.right.transform.spec.n == 64);
  CHECK(make_recipe("ufp4-signs-step", {}, 1).redraw_signs_each_step);

  training_recipe back = make_recipe("ufp4-rht-wgrad", {}, 1);
  for (auto* o : {&back.fprop.left, &back.fprop.right, &back.dgrad.left, &back.dgrad.right})
    o->transform = ufp4::random_hadamard<16>{};
  CHECK(same(back, ufp4::recipe::ufp4_recipe(1)));
  back = make_recipe("mxfp4", {}, 1);
  CHECK(back.fprop.left.format == ufp4::spec_of<ufp4::mxfp4>);
  CHECK(transformed(back) == "45");
  CHECK(stochastic(back) == "24");
  CHECK(back.dgrad.left.rule == ufp4::mx_ceil{}.spec());  // clipping would bias stochastic rounding
  CHECK(back.fprop.left.rule == ufp4::scale_rule_spec{});
}

TEST_CASE("every recipe in the list can be made, under its own name alone", "[recipes]") {
  std::set<std::string> names;
  for (const named_recipe& r : recipes()) {
    INFO(r.name);
    CHECK(names.insert(r.name).second);
    CHECK(make_recipe(r.name, {}, 3).seed == 3);
  }
}

TEST_CASE("E2M1 clipped to 2, 3 or 4 is E2M1 without its larger values, the maximum mapped to the largest",
          "[recipes]") {
  CHECK(magnitudes(ufp4::spec_of<e2m1_to_2_f32>.grid) == std::vector<float>{0, 0.5f, 1, 1.5f, 2});
  CHECK(magnitudes(ufp4::spec_of<e2m1_to_3_f32>.grid) == std::vector<float>{0, 0.5f, 1, 1.5f, 2, 3});
  CHECK(magnitudes(ufp4::spec_of<e2m1_to_4_f32>.grid) == std::vector<float>{0, 0.5f, 1, 1.5f, 2, 3, 4});
  CHECK(make_recipe("e2m1-clip-3", {}, 1).wgrad.right.format == ufp4::spec_of<e2m1_to_3_f32>);

  // 5 is mapped to 2: 1.9 to 0.76, so to 1 (2.5); -3.2 to -1.28, so to -1.5 (-3.75).
  float x[16] = {5, 1.9f, -3.2f, 0.5f}, y[16];
  ufp4::fake_quantize<e2m1_to_2_f32>(ufp4::matrix_view<const float>(x, 1, 16), ufp4::matrix_view<float>(y, 1, 16));
  CHECK(std::vector<float>(y, y + 4) == std::vector<float>{5, 2.5f, -3.75f, 0});
}

TEST_CASE("clipped formats have the same bits on every instruction set of the machine", "[recipes]") {
  std::vector<float> x(64 * 64);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] =
        static_cast<float>(static_cast<int>(ufp4::philox4x32({{static_cast<std::uint32_t>(i), 0, 0, 0}}, 5).word[0])) *
        1e-9f;
  const ufp4::matrix_view<const float> view(x.data(), 64, 64);
  const auto coded = [&](ufp4::cpu::isa isa) {
    const auto q = ufp4::quantize<e2m1_to_3_f32>(view, ufp4::random_hadamard<16>{1}, ufp4::stochastic{9},
                                                 ufp4::cpu::context{.isa = isa});
    std::vector<float> back(x.size());
    ufp4::dequantize(q, ufp4::matrix_view<float>(back.data(), 64, 64));
    return back;
  };
  CHECK(coded(ufp4::cpu::isa::scalar) == coded(ufp4::cpu::isa::automatic));
}

TEST_CASE("unknown recipes, parts and values are rejected", "[recipes]") {
  const auto message = [](const std::string& name, const recipe_parts& parts) {
    return rejection<usage_error>([&] { make_recipe(name, parts, 1); });
  };
  CHECK(message("ufp5", {}).starts_with("--recipe: unknown recipe: ufp5;"));
  CHECK(message("ufp4", {.format = "e3m0"}).starts_with("--format: unknown format: e3m0;"));
  CHECK(message("ufp4", {.rht = "wgrad+x"}).ends_with("got wgrad+x"));
  CHECK(message("ufp4", {.rht = "wgrad+"}).ends_with("got wgrad+"));
  CHECK(message("ufp4", {.rht_size = "17"}).ends_with("got 17"));
  CHECK(message("ufp4", {.sr = "yes"}).ends_with("got yes"));
  CHECK(message("ufp4", {.clip = "2"}).starts_with("--clip: the recipe has another format than e2m1_f32"));
  CHECK(message("e2m1-baseline", {.clip = "6"}).ends_with("got 6"));
  CHECK(message("ufp4", {.signs = "often"}).ends_with("got often"));
}

TEST_CASE("a part that would change nothing in the recipe is rejected", "[recipes]") {
  const auto message = [](const std::string& name, const recipe_parts& parts) {
    return rejection<usage_error>([&] { make_recipe(name, parts, 1); });
  };
  CHECK(message("ufp4-rht-none", {.signs = "step"}).starts_with("--signs: the recipe has no transform with random"));
  CHECK(message("ufp4", {.rht = "none", .rht_size = "64"}).starts_with("--rht-size: the recipe has no transform"));
  CHECK(message("bf16", {.sr = "dy"}).starts_with("--sr: the recipe quantizes nothing"));
  CHECK(make_recipe("ufp4-rht-none", {.rht = "wgrad", .rht_size = "64", .signs = "step"}, 1).redraw_signs_each_step);
}

TEST_CASE("--format takes every preset of 4 bits, also those with outer scales, several grids and one-bit exponents",
          "[recipes]") {
  CHECK(make_recipe("ufp4", {.format = "hif4"}, 1).wgrad.right.format == ufp4::spec_of<ufp4::hif4>);
  CHECK(make_recipe("ufp4", {.format = "tetrajet2"}, 1).fprop.left.format == ufp4::spec_of<ufp4::tetrajet2>);
  CHECK(make_recipe("ufp4", {.format = "razer"}, 1).dgrad.left.rule == ufp4::scale_up{}.spec());
  CHECK(make_recipe("bf16", {.format = "if4"}, 1).fprop.right.quantized);
  CHECK(formats().size() == ufp4::detail::presets::size + ufp4::detail::extended_presets::size);
}

TEST_CASE("--bf16-blocks puts the four linear layers of its blocks in bf16, and no other", "[recipes]") {
  const training_recipe r = make_recipe("nvfp4", {}, 5);
  const model_recipe some = with_bf16_blocks(r, "1+2", 6);
  std::string kept;
  for (std::uint32_t linear = 0; linear < 24; ++linear) {
    const auto now = some.at(9, linear);
    CHECK((now.step() == 9 && now.layer() == linear));
    CHECK(same(now.recipe(), now.recipe().operand(0).quantized ? r : ufp4::recipe::bf16_recipe(5)));
    if (!now.recipe().operand(0).quantized) kept += std::to_string(linear) + " ";
  }
  CHECK(kept == "0 1 2 3 16 17 18 19 20 21 22 23 ");
  CHECK(with_bf16_blocks(r, "nvfp4", 62).in_bf16 == bf16_blocks{2, 8});
  CHECK(with_bf16_blocks(r, "none", 6).in_bf16 == bf16_blocks{0, 0});
  CHECK(with_bf16_blocks(r, "0+1", 2).at(0, 3).recipe().operand(0).quantized);
}

TEST_CASE("values of --bf16-blocks that are no numbers, or leave no block, are rejected", "[recipes]") {
  const auto message = [](const std::string& word, std::size_t blocks) {
    return rejection<usage_error>([&] { with_bf16_blocks(make_recipe("nvfp4", {}, 1), word, blocks); });
  };
  for (const std::string wrong : {"1", "+", "1+", "+1", "1+2+3", "1+x", "-1+1", "1,2", "", "99999999999999999999+1"})
    CHECK(message(wrong, 6) ==
          "--bf16-blocks must be none, nvfp4 or two numbers joined by +, as 1+2, got " + compare::printable(wrong));
  CHECK(message("3+3", 6) == "--bf16-blocks: 3 first and 3 last blocks are all of the model's 6; use --recipe bf16");
  CHECK(message("7+0", 6).find("are all of the model's 6") != std::string::npos);
  CHECK(message("1+18446744073709551615", 6).find("are all of the model's 6") != std::string::npos);
  CHECK(message("nvfp4", 1).find("are all of the model's 1") != std::string::npos);
  CHECK(message("3+2", 6) == "(accepted)");
  CHECK(rejection<usage_error>([&] { with_bf16_blocks(make_recipe("bf16", {}, 1), "1+1", 6); }) ==
        "--bf16-blocks: the recipe quantizes nothing; add --format");
}

TEST_CASE("text is split by file, a tenth of its bytes for validation, each content once", "[corpus]") {
  const std::string folder = scratch() / "many";
  std::filesystem::create_directories(folder);
  for (int i = 0; i < 200; ++i)
    std::ofstream(folder + "/" + std::to_string(i)) << std::string(static_cast<std::size_t>(500 + i), 'a') << i << '\n';
  std::ofstream(folder + "/twin") << std::string(500, 'a') << 0 << '\n';
  const corpus c = read_corpus({folder}, 16);
  CHECK(c.files == 200);
  const double share =
      static_cast<double>(c.validation.size()) / static_cast<double>(c.train.size() + c.validation.size());
  CHECK(share > 0.09);
  CHECK(share < 0.11);
  std::set<std::string> validating;
  const std::string stream(c.validation.begin(), c.validation.end());
  for (std::size_t at = 0, end; (end = stream.find('\0', at)) != std::string::npos; at = end + 1)
    validating.insert(stream.substr(at, end - at));
  const std::string train(c.train.begin(), c.train.end());
  for (const std::string& text : validating) CHECK(train.find(text) == std::string::npos);

  CHECK(read_corpus({folder}, 16).hash() == c.hash());
  const std::string moved = scratch() / "moved";
  std::filesystem::copy(folder, moved);
  CHECK(read_corpus({moved}, 16).hash() == c.hash());
}

TEST_CASE("one file is split after nine tenths of its bytes", "[corpus]") {
  const std::string path = scratch() / "one.txt";
  std::ofstream(path) << std::string(900, 'x') << std::string(100, 'y');
  const corpus c = read_corpus({path}, 16);
  CHECK(std::string(c.train.begin(), c.train.end()) == std::string(900, 'x') + '\0');
  CHECK(std::string(c.validation.begin(), c.validation.end()) == std::string(100, 'y') + '\0');
}

TEST_CASE("text that is missing, empty or too short is rejected", "[corpus]") {
  const auto message = [](const std::vector<std::string>& places) {
    return rejection<file_error>([&] { read_corpus(places, 64); });
  };
  CHECK(message({"/nowhere/at/all"}) == "/nowhere/at/all: no readable file");
  const std::string empty = scratch() / "empty.txt", brief = scratch() / "brief.txt";
  std::ofstream(empty).flush();
  std::ofstream(brief) << std::string(600, 'a');
  CHECK(message({empty}) == empty + ": the file is empty or cannot be read");
  CHECK(message({brief}).starts_with(brief + ": too short: 541 bytes for training and 61 for validation"));
  CHECK(rejection<file_error>([&] { read_corpus({brief}, 60); }) == "(accepted)");
}

TEST_CASE("batches depend on seed, step and row, not on the number of ranks", "[corpus]") {
  corpus c;
  for (int i = 0; i < 5000; ++i) c.train.push_back(static_cast<std::uint8_t>(i * i / 7));
  const auto bytes = [&](batch_share share, std::uint64_t seed, std::uint64_t step) {
    return training_batch(c, 32, share, seed, step).bytes;
  };
  const auto whole = bytes({8, 4, 0, 4}, 1, 5);
  REQUIRE(whole.size() == 8 * 33);
  for (const train_lm::index parts : {1, 2, 4}) {
    std::vector<std::uint8_t> joined;
    for (train_lm::index first = 0; first < 4; first += 4 / parts) {
      const auto part = bytes({8, 4, first, 4 / parts}, 1, 5);
      joined.insert(joined.end(), part.begin(), part.end());
    }
    CHECK(joined == whole);
  }
  CHECK(bytes({8, 4, 0, 4}, 1, 6) != whole);
  CHECK(bytes({8, 4, 0, 4}, 2, 5) != whole);
}

TEST_CASE("windows begin at every offset of the text and at no other", "[corpus]") {
  std::vector<int> hits(10);
  for (std::uint32_t row = 0; row < 1000; ++row) {
    const std::size_t at = window_offset(10, 3, 7, row);
    REQUIRE(at < 10);
    ++hits[at];
  }
  for (const int n : hits) CHECK(n > 60);  // 100 expected, standard deviation 9.5
}

TEST_CASE("validation windows do not overlap and cover the stream", "[corpus]") {
  corpus c;
  for (int i = 0; i < 1001; ++i) c.validation.push_back(static_cast<std::uint8_t>(i % 251));
  const auto all = validation_batches(c, 50, 1000, 8);
  REQUIRE(all.size() == 3);
  CHECK(all[0].sequences == 8);
  CHECK(all[2].sequences == 4);
  CHECK(all[2].bytes.back() == 1000 % 251);
  const auto some = validation_batches(c, 50, 5, 8);
  REQUIRE(some.size() == 1);
  for (std::size_t i = 0; i < 5; ++i) CHECK(some[0].bytes[i * 51] == static_cast<std::uint8_t>(i * 4 * 50 % 251));
}

namespace {

struct saved {
  matrix<float> a = matrix<float>::Random(3, 5), b = matrix<float>::Random(1, 7);
  std::vector<named_matrix> all() { return {{"a", &a}, {"b \"quoted\"", &b}}; }
};

std::string bytes_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

TEST_CASE("a checkpoint keeps its metadata and the bits of its matrices", "[checkpoint]") {
  saved before, after;
  before.a(0, 0) = -0.0f;
  before.a(1, 1) = std::numeric_limits<float>::quiet_NaN();
  const std::string path = scratch() / "whole.safetensors";
  write_checkpoint(path, {{"step", "12"}, {"note", "a \"b\" \\ c"}}, before.all());
  const checkpoint read(path);
  CHECK(read.word("step") == "12");
  CHECK(read.word("note") == "a \"b\" \\ c");
  read.fill(after.all());
  CHECK(std::memcmp(before.a.data(), after.a.data(), 15 * sizeof(float)) == 0);
  CHECK(before.b == after.b);
  CHECK(data_hash(before.all()) == data_hash(after.all()));
  CHECK_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST_CASE("a checkpoint that lacks a byte, or has one bit changed, is rejected", "[checkpoint]") {
  saved s;
  const std::string path = scratch() / "bad.safetensors";
  write_checkpoint(path, {{"step", "12"}}, s.all());
  const std::string whole = bytes_of(path);
  const auto message = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return rejection<file_error>([&] { checkpoint read(path); });
  };
  CHECK(message(whole) == "(accepted)");
  for (std::size_t length = 0; length < whole.size(); ++length)
    REQUIRE(message(whole.substr(0, length)).starts_with(compare::printable(path) + ": "));
  REQUIRE(message(whole + '\0') != "(accepted)");
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string other = whole;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << bit % 8));
    INFO("bit " << bit);
    REQUIRE(message(other).starts_with(compare::printable(path) + ": "));
  }
}

TEST_CASE("a checkpoint of other shapes changes nothing before it is rejected", "[checkpoint]") {
  saved s;
  const std::string path = scratch() / "shape.safetensors";
  write_checkpoint(path, {}, s.all());
  const checkpoint read(path);
  matrix<float> a = matrix<float>::Zero(3, 5), b = matrix<float>::Zero(7, 1);
  CHECK(rejection<file_error>([&] {
          read.fill({{"a", &a}, {"b \"quoted\"", &b}});
        }).ends_with("is 1 x 7, this model's is 7 x 1"));
  CHECK(rejection<file_error>([&] { read.fill({{"a", &a}, {"c", &b}}); }).ends_with("has no tensor c"));
  CHECK(a == matrix<float>::Zero(3, 5));
  CHECK(rejection<file_error>([&] { read.word("step"); }).ends_with("its metadata has no step"));
  CHECK(rejection<file_error>([&] { checkpoint other(scratch() / "absent"); }).find("cannot be read") !=
        std::string::npos);
  CHECK(rejection<file_error>([&] {
          write_checkpoint("/nowhere/at/all", {}, s.all());
        }).starts_with("/nowhere/at/all.tmp: cannot be opened for writing"));
}
