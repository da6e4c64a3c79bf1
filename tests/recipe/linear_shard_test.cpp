// ufp4 - a batch split over ranks gives the bits of the whole batch: Y and dX row by row, dW microbatch by microbatch.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
//
// The ranks run one after the other in one process, twice. In the first pass each rank records the amax of its part; in
// the second it gets the maximum over all ranks.
#include <ufp4/recipe/linear.hpp>

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "recipe/linear_model.hpp"
#include "support/catch.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

using namespace ufp4;
using namespace linear_model;

namespace {

constexpr std::size_t microbatches = 4, inputs = 72, outputs = 40;

/// Tokens of expert e in microbatch m, all multiples of 16: empty and unequal parts, and an expert without tokens.
using routing = std::vector<std::vector<std::size_t>>;
const routing dense = {{48, 48, 48, 48}};
const routing experts = {{16, 64, 0, 32}, {0, 0, 0, 0}, {48, 16, 80, 16}, {0, 0, 0, 48}};

/// Some matrix rows of a batch, sorted by expert, inside an expert by microbatch.
struct rows_of_batch {
  std::size_t experts = 0;
  std::vector<float> x, dy;
  std::vector<std::size_t> by_expert{0}, by_segment{0};
  std::vector<std::size_t> first;          ///< an expert's tokens that earlier ranks hold
  std::vector<std::uint32_t> segment_ids;  ///< expert * microbatches + microbatch

  std::size_t tokens() const { return by_segment.back(); }
  matrix_view<const float> x_view() const { return {x.data(), tokens(), inputs}; }
  matrix_view<const float> dy_view() const { return {dy.data(), tokens(), outputs}; }
};

/// A token's values do not depend on the rank that holds it. Later microbatches have larger values, so that the ranks
/// have different amaxes.
float value_at(std::uint64_t seed, std::size_t e, std::size_t m, std::size_t i) {
  const auto word = [](std::size_t n) { return static_cast<std::uint32_t>(n); };
  const std::uint32_t bits = philox4x32({{word(i), word(m), word(e), 0}}, seed).word[0];
  const float uniform = static_cast<float>(bits >> 8) / (1 << 23) - 1;
  return uniform * static_cast<float>(1 + 3 * m);
}

/// Microbatches from .. to - 1.
rows_of_batch part_of(const routing& counts, std::size_t from, std::size_t to) {
  rows_of_batch rows;
  rows.experts = counts.size();
  for (std::size_t e = 0; e < counts.size(); ++e) {
    const auto before = counts[e].begin();
    rows.first.push_back(std::accumulate(before, before + static_cast<std::ptrdiff_t>(from), std::size_t{0}));
    for (std::size_t m = from; m < to; ++m) {
      for (std::size_t i = 0; i < counts[e][m] * inputs; ++i) rows.x.push_back(value_at(support::seed(1), e, m, i));
      for (std::size_t i = 0; i < counts[e][m] * outputs; ++i) rows.dy.push_back(value_at(support::seed(2), e, m, i));
      rows.by_segment.push_back(rows.by_segment.back() + counts[e][m]);
      rows.segment_ids.push_back(static_cast<std::uint32_t>(e * microbatches + m));
    }
    rows.by_expert.push_back(rows.by_segment.back());
  }
  return rows;
}

/// The outputs of a rank, in the order of its rows.
struct results {
  std::vector<float> y, dx, dw;
};

/// A rank's side of the all-reduce: records the amax of each operand, or replays the recorded maxima.
struct exchange {
  bool replays = false;
  std::vector<float> amaxes;
  std::size_t next = 0;
  float operator()(float local_amax) {
    if (!replays) amaxes.push_back(local_amax);
    return replays ? amaxes.at(next++) : local_amax;
  }
};

enum class placed { no, yes };

results run(const cpu::context& ctx, const recipe::training_recipe& r, const rows_of_batch& rows, placed how,
            exchange& ranks) {
  std::mt19937_64 gen{support::seed(3)};
  const tensor<float> w(gen, rows.experts * outputs, inputs);
  recipe::bound_recipe now = r.at(7, 9), wgrad = now;
  if (how == placed::yes) {
    const auto agree = recipe::amax_agreement::of(ranks);
    now = now.shard({.first = rows.first, .tokens = agree});
    wgrad = wgrad.shard({.part = rows.segment_ids, .tokens = agree});
  }
  const std::size_t t = rows.tokens(), segments = rows.by_segment.size() - 1;
  results out{std::vector<float>(t * outputs), std::vector<float>(t * inputs),
              std::vector<float>(segments * outputs * inputs)};
  linear_forward_grouped(now, rows.x_view(), rows.by_expert, w.view(), matrix_view{out.y.data(), t, outputs}, {}, ctx);
  linear_backward_input_grouped(now, rows.dy_view(), rows.by_expert, w.view(), matrix_view{out.dx.data(), t, inputs},
                                {}, ctx);
  linear_backward_weight_grouped(wgrad, rows.dy_view(), rows.x_view(), rows.by_segment,
                                 matrix_view{out.dw.data(), segments * outputs, inputs}, {}, ctx);
  return out;
}

/// Joins the outputs of all ranks in the order of the whole batch: by expert, then by microbatch.
results assembled(const routing& counts, const std::vector<results>& ranks) {
  results all;
  std::vector<std::size_t> row(ranks.size(), 0), segment(ranks.size(), 0);
  const std::size_t each = microbatches / ranks.size();
  const auto take = [](std::vector<float>& to, const std::vector<float>& from, std::size_t at, std::size_t count) {
    to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(at),
              from.begin() + static_cast<std::ptrdiff_t>(at + count));
  };
  for (std::size_t e = 0; e < counts.size(); ++e)
    for (std::size_t m = 0; m < microbatches; ++m) {
      const std::size_t rank = m / each, t = counts[e][m], area = outputs * inputs;
      take(all.y, ranks[rank].y, row[rank] * outputs, t * outputs);
      take(all.dx, ranks[rank].dx, row[rank] * inputs, t * inputs);
      take(all.dw, ranks[rank].dw, segment[rank]++ * area, area);
      row[rank] += t;
    }
  return all;
}

results split(const cpu::context& ctx, const recipe::training_recipe& r, const routing& counts, std::size_t ranks,
              placed how) {
  std::vector<rows_of_batch> parts;
  std::vector<exchange> exchanges(ranks);
  for (std::size_t q = 0; q < ranks; ++q) {
    parts.push_back(part_of(counts, q * microbatches / ranks, (q + 1) * microbatches / ranks));
    run(ctx, r, parts[q], how, exchanges[q]);
  }
  std::vector<float> amaxes = exchanges[0].amaxes;
  for (const exchange& e : exchanges) {
    REQUIRE(e.amaxes.size() == amaxes.size());  // a collective: as many calls on every rank
    for (std::size_t i = 0; i < amaxes.size(); ++i) amaxes[i] = std::max(amaxes[i], e.amaxes[i]);
  }
  std::vector<results> out;
  for (std::size_t q = 0; q < ranks; ++q) {
    exchange replay{.replays = true, .amaxes = amaxes};
    out.push_back(run(ctx, r, parts[q], how, replay));
  }
  return assembled(counts, out);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct named_recipe {
  const char* name;
  recipe::training_recipe recipe;
};

/// The preset recipes, mxfp4 with transforms, stochastic rounding of all six operands, and square blocks of tokens.
std::vector<named_recipe> all_recipes() {
  using recipe::training_recipe, recipe::uniform_recipe;
  training_recipe mx = uniform_recipe(8, {.format = spec_of<mxfp4>, .transform = random_hadamard<32>{}});
  recipe::round_gradients_stochastically(mx);
  mx.dgrad.left.rule = mx.wgrad.left.rule = mx_ceil{};
  training_recipe random_bits =
      uniform_recipe(9, {.format = spec_of<nv_e1m2>, .rounding = stochastic{}, .transform = random_hadamard<16>{}});
  training_recipe square_tokens = recipe::nvfp4_recipe(11);
  square_tokens.fprop.left.format.block = square(16);
  return {{"ufp4", recipe::ufp4_recipe(1)},
          {"ufp4 int4", recipe::ufp4_recipe<int4_f32>(2)},
          {"ufp4 nv_e1m2", recipe::ufp4_recipe<nv_e1m2>(3)},
          {"ufp4 nvint4", recipe::ufp4_recipe<nvint4>(4)},
          {"ufp4 mx_e1m2", recipe::ufp4_recipe<mx_e1m2>(5)},
          {"ufp4 mxint4", recipe::ufp4_recipe<mxint4>(6)},
          {"e2m1_baseline", recipe::e2m1_baseline_recipe(7)},
          {"nvfp4", recipe::nvfp4_recipe(10)},
          {"mxfp4", mx},
          {"random bits everywhere", random_bits},
          {"square blocks of tokens", square_tokens},
          {"te_four_over_six", recipe::te_four_over_six_recipe(12)},
          {"tetrajet2", recipe::tetrajet2_recipe(13)},
          {"if4", recipe::if4_recipe(14)},
          {"hif4", recipe::hif4_recipe(15)},
          {"quartet2", recipe::quartet2_recipe(16)},
          {"bf16", recipe::bf16_recipe(0)}};
}

}  // namespace

TEST_CASE("2 and 4 ranks give the whole batch's Y, dX and dW of every microbatch", "[recipe]") {
  INFO(support::seed_note());
  for (named_recipe r : all_recipes())
    for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks, accumulate::folded_bf16})
      for (const routing& counts : {dense, experts}) {
        r.recipe.accumulate = mode;
        CAPTURE(r.name, static_cast<int>(mode), counts.size());
        exchange unused;
        const results whole = run({}, r.recipe, part_of(counts, 0, microbatches), placed::no, unused);
        for (const std::size_t ranks : {1u, 2u, 4u}) {
          CAPTURE(ranks);
          const results parts = split({}, r.recipe, counts, ranks, placed::yes);
          REQUIRE(same_bits(parts.y, whole.y));
          REQUIRE(same_bits(parts.dx, whole.dx));
          REQUIRE(same_bits(parts.dw, whole.dw));
        }
      }
}

TEST_CASE("2 ranks give the whole batch's bits on every instruction set", "[recipe]") {
  INFO(support::seed_note());
  for (const cpu::isa tier : support::runnable_isas())
    for (const named_recipe& r :
         {named_recipe{"ufp4", recipe::ufp4_recipe(1)}, named_recipe{"nvfp4", recipe::nvfp4_recipe(2)},
          named_recipe{"bf16", recipe::bf16_recipe(3)}}) {
      CAPTURE(cpu::name(tier), r.name);
      const cpu::context ctx{.threads = 2, .isa = tier};
      exchange unused;
      const results whole = run(ctx, r.recipe, part_of(experts, 0, microbatches), placed::no, unused);
      const results parts = split(ctx, r.recipe, experts, 2, placed::yes);
      REQUIRE(same_bits(parts.y, whole.y));
      REQUIRE(same_bits(parts.dx, whole.dx));
      REQUIRE(same_bits(parts.dw, whole.dw));
    }
}

TEST_CASE("without a token_shard a split batch gets other random bits, and other tensor scales", "[recipe]") {
  INFO(support::seed_note());
  for (const named_recipe& r : all_recipes()) {
    CAPTURE(r.name);
    exchange unused;
    const results whole = run({}, r.recipe, part_of(dense, 0, microbatches), placed::no, unused);
    const results parts = split({}, r.recipe, dense, 2, placed::no);
    const auto keeps_bits = [](const recipe::operand_policy& tokens) {
      const bool draws = tokens.rounding.what == rounding_spec::kind::stochastic;
      return !tokens.quantized || (!draws && !tokens.format.has_tensor_scale());
    };
    CHECK(same_bits(parts.y, whole.y) == keeps_bits(r.recipe.fprop.left));
    CHECK(same_bits(parts.dx, whole.dx) == keeps_bits(r.recipe.dgrad.left));
    CHECK(same_bits(parts.dw, whole.dw) == (keeps_bits(r.recipe.wgrad.left) && keeps_bits(r.recipe.wgrad.right)));
  }
}

TEST_CASE("experts on different ranks keep their random bits and their weights' tensor scale", "[recipe]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  const std::size_t offsets[] = {0, 32, 80}, one[] = {0, 48};
  const std::uint32_t second[] = {1};
  tensor<float> w(gen, 2 * outputs, inputs);
  for (std::size_t i = 0; i < outputs * inputs; ++i)
    w.data[i] *= 64;  // the expert of the other rank has the largest weight
  const layer<float> l(gen, 80, inputs, outputs);
  for (const recipe::training_recipe& r : {recipe::nvfp4_recipe(1), recipe::ufp4_recipe<nv_e1m2>(2)}) {
    const recipe::bound_recipe now = r.at(1, 2);
    output<float> y(80, outputs), dx(80, inputs), part_y(48, outputs), part_dx(48, inputs);
    linear_forward_grouped(now, l.x.view(), offsets, w.view(), y.view());
    linear_backward_input_grouped(now, l.dy.view(), offsets, w.view(), dx.view());
    const auto amax_of_both = [&](const recipe::bound_operand& o, const auto& a, const auto& b) {
      return std::max(amax(a, o.transform).value, amax(b, o.transform).value);
    };
    float tokens = 0, weights = 0;
    const auto give_tokens = [&](float) { return tokens; };
    const auto give_weights = [&](float) { return weights; };
    const recipe::bound_recipe here = now.shard({.part = second,
                                                 .tokens = recipe::amax_agreement::of(give_tokens),
                                                 .weights = recipe::amax_agreement::of(give_weights)});
    tokens = amax_of_both(now.operand(0), l.x.part(0, 32), l.x.part(32, 48));
    weights = amax_of_both(now.operand(1), w.part(0, outputs), w.part(outputs, outputs));
    linear_forward_grouped(here, l.x.part(32, 48), one, w.part(outputs, outputs), part_y.view());
    REQUIRE(part_y.c.size() == 48 * outputs);
    CHECK(std::memcmp(part_y.c.data(), y.c.data() + 32 * outputs, 48 * outputs * 4) == 0);
    tokens = amax_of_both(now.operand(2), l.dy.part(0, 32), l.dy.part(32, 48));
    weights = amax_of_both(now.operand(3), transpose(w.part(0, outputs)), transpose(w.part(outputs, outputs)));
    linear_backward_input_grouped(here, l.dy.part(32, 48), one, w.part(outputs, outputs), part_dx.view());
    CHECK(std::memcmp(part_dx.c.data(), dx.c.data() + 32 * inputs, 48 * inputs * 4) == 0);
  }
}

TEST_CASE("a part of a part has the codes that quantize gives under shard{}", "[recipe]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(5)};
  const std::size_t first = 64, total = 200, count = 96, middle[] = {first}, all[] = {total};
  const layer<float> l(gen, count, inputs, outputs);
  const recipe::bound_recipe now = recipe::ufp4_recipe(12).at(3, 4), here = now.shard({.first = middle, .total = all});
  const transform_spec dgrad = now.operand(2).transform, wgrad = now.operand(4).transform;
  output<float> dx(count, inputs), want_dx(count, inputs), dw(outputs, inputs), want_dw(outputs, inputs);
  output<float> again(outputs, inputs), y(count, outputs);
  const auto random_bits = [&](int i) { return now.operand(i).rounding.random_bits; };
  quantized_gemm(
      quantize<e1m2_f32>(l.dy.view(), dgrad, random_bits(2), shard{.first_row = first, .total_cols = outputs}),
      quantize<e1m2_f32>(transpose(l.w.view()), dgrad), want_dx.view());
  quantized_gemm(quantize<e1m2_f32>(transpose(l.dy.view()), wgrad, random_bits(4), shard{0, first, total}),
                 quantize<e1m2_f32>(transpose(l.x.view()), wgrad), want_dw.view());
  linear_backward_input(here, l.dy.view(), l.w.view(), dx.view());
  linear_backward_weight(here, l.dy.view(), l.x.view(), dw.view());
  CHECK(dx.c.same_bytes(want_dx.c.span()));
  CHECK(dw.c.same_bytes(want_dw.c.span()));
  recipe::saved_activation saved;
  linear_forward(here, l.x.view(), l.w.view(), y.view(), {.saved = &saved});
  linear_backward_weight(here, l.dy.view(), saved, again.view());
  CHECK(again.c.same_bytes(want_dw.c.span()));
}

namespace {

const std::vector<float> ones(1 << 14, 1.0f);
matrix_view<const float> sized(std::size_t rows, std::size_t cols) { return {ones.data(), rows, cols}; }

/// The error message of an operation that writes a rows x cols output, which an error must leave unchanged.
template <class Call>
std::string message(std::size_t rows, std::size_t cols, const Call& call) {
  support::guarded<float> out(rows * cols), poison(rows * cols);
  const std::string text = support::rejection([&] { call(matrix_view<float>{out.data(), rows, cols}); });
  CHECK(out.same_bytes(poison.span()) == !text.empty());
  return text;
}
std::string forward(const recipe::training_recipe& r, const recipe::token_shard& place, std::size_t tokens = 32) {
  return message(tokens, 6,
                 [&](auto y) { linear_forward(r.at(0, 0).shard(place), sized(tokens, 32), sized(6, 32), y); });
}
std::string weight(const recipe::training_recipe& r, const recipe::token_shard& place, std::size_t tokens = 32) {
  return message(6, 32, [&](auto dw) {
    linear_backward_weight(r.at(0, 0).shard(place), sized(tokens, 6), sized(tokens, 32), dw);
  });
}

}  // namespace

TEST_CASE("a token_shard that does not fit is rejected before anything is written", "[recipe]") {
  const recipe::training_recipe r = recipe::ufp4_recipe(1);
  const std::size_t at8[] = {8}, at16[] = {16}, at48[] = {48}, two[] = {0, 16}, far[] = {SIZE_MAX - 15};
  const std::uint32_t beyond[] = {65536};
  CHECK(forward(r, {.first = at16}) == "");
  CHECK(forward(r, {.first = two}) == "linear_forward: token_shard.first must have one entry per part, 1, got 2");
  CHECK(forward(r, {.total = two}) == "linear_forward: token_shard.total must have one entry per part, 1, got 2");
  CHECK(forward(r, {.first = at8}) == "linear_forward: token_shard.first[0] must be a multiple of 16, got 8");
  CHECK(forward(r, {.part = beyond}) == "linear_forward: token_shard.part[0] must be below 65536, got 65536");
  CHECK(forward(r, {}, 24) ==
        "linear_forward: the tokens of part 0 must be a multiple of 16 under a token_shard (pad with rows of zeros), "
        "got 24");
  CHECK(forward(r, {.first = at16, .total = at16}) ==
        "linear_forward: token_shard.first[0] + tokens exceeds token_shard.total[0]: 16 + 32 > 16");
  CHECK(forward(r, {.first = far, .total = at16}) ==
        "linear_forward: token_shard.first[0] + tokens exceeds token_shard.total[0]: 18446744073709551600 + 32 > 16");
  CHECK(weight(r, {.first = at16, .total = at48}) == "");
  CHECK(
      weight(r, {.first = at16}) ==
      "linear_backward_weight: token_shard.first without token_shard.total: wgrad contracts the tokens, and the random "
      "bits depend on their total number");
  CHECK(
      weight(recipe::ufp4_recipe<mx_e1m2>(1), {.first = at16, .total = at48}) ==
      "linear_backward_weight: token_shard.first[0] must be a multiple of 32, the longer of block and transform along "
      "the tokens, got 16");
  const std::size_t zero[] = {0}, at80[] = {80};
  CHECK(
      weight(recipe::ufp4_recipe<mx_e1m2>(1), {.first = zero, .total = at80}, 48) ==
      "linear_backward_weight: the tokens of part 0 must be a multiple of 32, the longer of block and transform along "
      "the tokens, or the last of the whole part: got 0 .. 48 of 80");
  // tetrajet2 has outer scales of 128 tokens: a part of them would have others than the whole.
  const std::size_t at128[] = {128}, at160[] = {160};
  CHECK(weight(recipe::tetrajet2_recipe(1), {.first = at128, .total = at160}) == "");
  CHECK(weight(recipe::tetrajet2_recipe(1), {.first = at16, .total = at48}) ==
        "linear_backward_weight: token_shard.first[0] must be a multiple of 128, the least common multiple of block, "
        "transform and segment along the tokens, got 16");
  recipe::training_recipe segments = recipe::tetrajet2_recipe(1);
  segments.wgrad.left.format = segments.wgrad.right.format =
      spec_of<block_format<fp4<E2M1>, e4m3, 16, per_segment<48, float>>>;
  CHECK(weight(segments, {.first = at48, .total = at80}) == "");
  CHECK(weight(segments, {.first = zero, .total = at80}) ==
        "linear_backward_weight: the tokens of part 0 must be a multiple of 48, the least common multiple of block, "
        "transform and segment along the tokens, or the last of the whole part: got 0 .. 32 of 80");
  segments.wgrad.right.format = spec_of<block_format<fp4<E2M1>, e4m3, 16, per_row<float>>>;
  CHECK(
      weight(segments, {.first = at48, .total = at80}) ==
      "linear_backward_weight: the tokens of part 0 must be the whole part, since wgrad.right (X^T) has an outer scale "
      "for each row: got 48 .. 80 of 80");
  recipe::training_recipe tall = recipe::e2m1_baseline_recipe(1);
  tall.fprop.left.format.block = tall.fprop.right.format.block = square(32);
  CHECK(forward(tall, {.first = at16}) ==
        "linear_forward: token_shard.first[0] must be a multiple of 32, the block height of fprop.left (X), got 16");
}

TEST_CASE("a tensor scale needs an amax_agreement, whose result is checked", "[recipe]") {
  const recipe::training_recipe r = recipe::nvfp4_recipe(1);
  CHECK(forward(r, {}) ==
        "linear_forward: token_shard.tokens is missing: the tensor scale of fprop.left (X) needs the amax of the whole "
        "batch");
  float result = 1;
  const auto agree = [&](float) { return result; };
  const recipe::token_shard place{.tokens = recipe::amax_agreement::of(agree)};
  CHECK(forward(r, place) == "");
  for (const float wrong :
       {0.5f, -2.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    result = wrong;
    const std::string text = forward(r, place);
    CAPTURE(text);
    CHECK(text.starts_with("token_shard.tokens: the amax must be finite and not below that of this call: got "));
    CHECK(text.ends_with(" for fprop.left (X), this call has 1"));
  }
  CHECK(forward(recipe::ufp4_recipe(1), {}) == "");  // no tensor scale, no agreement needed
}

TEST_CASE("amax_agreements are called in the order of the operands, also without tokens", "[recipe]") {
  for (const std::size_t tokens : {0u, 32u}) {
    std::vector<char> calls;
    const auto tokens_agree = [&](float amax) { return calls.push_back('t'), amax; };
    const auto weights_agree = [&](float amax) { return calls.push_back('w'), amax; };
    const recipe::bound_recipe now = recipe::ufp4_recipe<nvint4>(1).at(0, 0).shard(
        {.tokens = recipe::amax_agreement::of(tokens_agree), .weights = recipe::amax_agreement::of(weights_agree)});
    output<float> y(tokens, 6), dx(tokens, 32), dw(6, 32);
    recipe::saved_activation saved;
    linear_forward(now, sized(tokens, 32), sized(6, 32), y.view(), {.saved = &saved});
    CHECK(calls == std::vector<char>{'t', 'w', 't'});
    linear_backward_input(now, sized(tokens, 6), sized(6, 32), dx.view());
    CHECK(calls == std::vector<char>{'t', 'w', 't', 't', 'w'});
    linear_backward_weight(now, sized(tokens, 6), sized(tokens, 32), dw.view());
    CHECK(calls == std::vector<char>{'t', 'w', 't', 't', 'w', 't', 't'});
    linear_backward_weight(now, sized(tokens, 6), saved, dw.view());
    CHECK(calls.size() == 8);
  }
}
