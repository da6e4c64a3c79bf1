// ufp4 - one rounding means one rounding: vectors on which a product fused into the following add gives other bits.
// SPDX-License-Identifier: Apache-2.0
/// Built with -O3 -march=native -ffp-contract=fast as well. Each test searches for inputs on which the fused arithmetic
/// would give another result, by the model (numerics 5, in long double: nothing there can be fused), says how many it
/// found, and wants the unfused result on every one of them.
#include <ufp4/dequantize.hpp>
#include <ufp4/quantize.hpp>

#include <functional>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/seed.hpp"

namespace {

using namespace ufp4;

const cpu::context one_thread{.threads = 1};

/// What moves_up compares with the random number: k of numerics 3, from the distance of |t| to the lower neighbour.
std::uint32_t steps(float distance, float gap) {
  return static_cast<std::uint32_t>(std::floor(model::add(model::mul(model::div(distance, gap), 65536.0f), 0.5f)));
}

/// An E2M1 element x under the factor e whose random number decides otherwise when t = fl(x * e) is not rounded first.
struct close_call {
  float x, e, t;
  std::uint32_t lower, upper;  // codes
  std::uint32_t k, fused_k;
};

/// Among uniform x in (0, amax): e is the factor of a block with that amax under global_amax = amax.
std::vector<close_call> close_calls(std::mt19937_64& gen, float amax, float e, std::size_t wanted) {
  const model::grid g = model::grid_of<fp4<E2M1>>();
  std::vector<close_call> found;
  for (int i = 0; i < 200000 && found.size() < wanted; ++i) {
    const float x = static_cast<float>(gen() >> 40) * 0x1p-24f * amax, t = model::mul(x, e);
    std::uint32_t low = 0;
    while (low < 7 && g.value[low + 1] <= t) ++low;
    if (low == 7 || g.value[low] == t) continue;
    const float gap = g.value[low + 1] - g.value[low];
    const std::uint32_t k = steps(model::sub(t, g.value[low]), gap),
                        fused = steps(model::fma(x, e, -g.value[low]), gap);
    if (k != fused) found.push_back({x, e, t, low, low + 1, k, fused});
  }
  return found;
}

/// The first row of a 16-column matrix whose element 0 draws r.
std::size_t row_with_random_word(const model::rounding& random_bits, std::uint32_t r) {
  for (std::size_t row = 0;; ++row)
    if (random_bits.random_word(row * 16) == r) return row;
}

/// Stochastic rounding as a user might write it, with a random number that is given.
struct own_stochastic {
  std::uint32_t r;
  bool round_up(const neighbours& n, float t, std::uint64_t) const {
    const float p = (t - n.lower) / (n.upper - n.lower);
    return static_cast<std::uint32_t>(p * 65536.0f + 0.5f) + r >= 65536u;
  }
};

}  // namespace

TEST_CASE("stochastic rounding: t is rounded before the lower neighbour is subtracted") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed()};
  const model::rounding theirs{model::rounding::stochastic, 21, 22};
  const stochastic ours{.seed = 21, .stream = 22};
  const grid4 grid = spec_of<nvfp4>.grid;
  std::size_t tried = 0;
  for (const float amax : {0.7f, 1.1f, 3.3f, 100.3f, 0.013f}) {
    model::block b{{}, amax, model::tensor_level_of(model::format_of<nvfp4>(), model::rule::by_format, amax)};
    const float e = model::scale_for(model::format_of<nvfp4>(), model::rule::by_format, false, b).by;
    for (const close_call& c : close_calls(gen, amax, e, 6)) {
      const std::uint32_t more = c.k > c.fused_k ? c.k : c.fused_k;
      const std::size_t row = row_with_random_word(theirs, 65536 - more);  // moves up with the larger k only
      const std::uint32_t want = c.k == more ? c.upper : c.lower;
      std::vector<float> x(16, 0.0f);
      x[0] = c.x, x[1] = amax;
      CAPTURE(c.x, c.e, c.t, c.k, c.fused_k, row);
      const matrix_view<const float> view{x.data(), 1, 16};
      const shard place{.first_row = row, .first_col = 0, .total_cols = 16};
      const tensor_amax g{amax};
      const auto q = quantize<nvfp4>(view, ours, place, g, one_thread);
      CHECK((q.codes()[0] & 15u) == want);
      std::vector<float> fake(16);
      fake_quantize<nvfp4>(view, matrix_view<float>{fake.data(), 1, 16}, ours, place, g, one_thread);
      CHECK(fake[0] == model::mul(grid.value[want], b.tensor.tensor_scale * static_cast<float>(q.scales()[0])));
      std::uint8_t packed[8];
      quantize_block<nvfp4>(x.data(), packed, ours, row * 16, tensor_constants::of<nvfp4>(amax));  // a user's kernel
      CHECK((packed[0] & 15u) == want);
      quantize_block<nvfp4>(x.data(), packed, rounding_spec(ours), row * 16, tensor_constants::of<nvfp4>(amax));
      CHECK((packed[0] & 15u) == want);
      quantize_block<nvfp4>(x.data(), packed, own_stochastic{65536 - more}, 0, tensor_constants::of<nvfp4>(amax));
      CHECK((packed[0] & 15u) == want);
      // A user's own product, straight into the rounding.
      CHECK(ufp4::detail::round_to_grid(grid, ours, c.x * c.e, row * 16) == want);
      const neighbours around{grid.value[c.lower], grid.value[c.upper], static_cast<int>(c.lower)};
      CHECK(ours.round_up(around, c.x * c.e, row * 16) == (want == c.upper));
      ++tried;
    }
  }
  CHECK(tried == 30);
}

namespace {

using values = std::vector<float>;
/// Which of a search's candidates wins, and the scale code it stands for.
struct winner {
  int candidate;
  std::uint32_t code;
};
using decision = std::function<winner(const values& block, bool fused)>;

/// Blocks of n values on which the fused decision differs from the unfused one. Such blocks lie where two candidates
/// err by nearly the same: one value of a random block is moved, by bisection, to where the decision changes; then a
/// few values are moved by an ulp or two.
std::vector<values> disagreements(std::mt19937_64& gen, std::size_t n, const decision& decide, std::size_t wanted) {
  std::normal_distribution<float> normal;
  std::vector<values> found;
  for (int attempt = 0; attempt < 400 && found.size() < wanted; ++attempt) {
    values block(n);
    for (float& x : block) x = normal(gen);
    const std::size_t at = gen() % n;
    const auto decided = [&](std::uint32_t bits) {
      block[at] = model::float_of(bits);
      return decide(block, false).candidate;
    };
    std::uint32_t a = model::bits_of(model::absolute(normal(gen))), b = model::bits_of(model::absolute(normal(gen)));
    const int at_a = decided(a);
    if (decided(b) == at_a) continue;
    while (a + 1 < b || b + 1 < a) {
      const std::uint32_t middle = a / 2 + b / 2 + (a & b & 1u);
      (decided(middle) == at_a ? a : b) = middle;
    }
    decided(a);
    for (int i = 0; i < 200; ++i) {
      values moved = block;
      for (int j = 0; j < 3; ++j) {
        float& x = moved[gen() % n];
        x = model::float_of(model::bits_of(x) + static_cast<std::uint32_t>(gen() % 5) - 2);
      }
      if (decide(moved, false).code == decide(moved, true).code) continue;
      found.push_back(moved);
      break;
    }
  }
  return found;
}

/// model::error_of, and the same with each product fused into the subtraction.
float error_of(const model::format& f, const model::trial& t, const values& x, bool fused) {
  float err = 0;
  for (const float v : x) {
    const float q = f.g.value[t.dead ? f.g.zero : model::round(f.g, t.scaled(v), {}, 0)];
    const float d = fused ? model::fma(-q, t.effective, v) : model::sub(v, model::mul(q, t.effective));
    err = model::fma(d, d, err);
  }
  return err;
}

}  // namespace

TEST_CASE("four_over_six: value * scale is rounded before it is subtracted from x") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  const model::format f = model::format_of<nvfp4>();
  const float global_amax = 5.3f;
  const model::tensor_level tensor = model::tensor_level_of(f, model::rule::four_over_six, global_amax);
  const auto choice = [&](const values& x, bool fused) {
    const float u = model::mul(model::largest_finite(x), tensor.times);
    const model::trial six = model::try_scale(f, tensor, model::nearest_code(f.s, u));
    const model::trial four = model::try_scale(f, tensor, model::nearest_code(f.s, model::mul(1.5f, u)));
    return error_of(f, four, x, fused) < error_of(f, six, x, fused) ? winner{4, four.code} : winner{6, six.code};
  };
  const std::vector<values> blocks = disagreements(gen, 16, choice, 20);
  CHECK(blocks.size() == 20);
  for (const values& x : blocks) {
    const auto q = quantize<nvfp4>(matrix_view<const float>{x.data(), 1, 16}, four_over_six{}, tensor_amax{global_amax},
                                   one_thread);
    CHECK(q.scales()[0].bits() == choice(x, false).code);
    std::uint8_t packed[8];
    const ufp4::scale_rule_spec rule = four_over_six{}.spec();
    const auto s = quantize_block<nvfp4>(x.data(), packed, nearest_even{}, 0,
                                         tensor_constants::of<nvfp4>(global_amax, rule), rule);
    CHECK(s.bits() == choice(x, false).code);
  }
}

namespace {

/// mse_search's choice among float scales around the rule's, by an error.
template <class Error>
winner searched(const model::format& f, const values& x, const Error& error) {
  const model::block b{x, model::largest_finite(x), {}};
  const std::uint32_t rule = model::rule_code(f, model::rule::by_format, b);
  winner best{};
  float least = 0;
  for (int j = -8; j <= 16; ++j) {
    const std::uint32_t code =
        model::bits_of(model::mul(model::float_of(rule), model::add(1, static_cast<float>(j) / 32)));
    const float err = error(model::try_scale(f, {}, code));
    if (j == -8 || err < least) best = {j, code}, least = err;
  }
  return best;
}

}  // namespace

TEST_CASE("mse_search: value * scale is rounded before it is subtracted from x") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  const model::format f = model::format_of<e2m1_f32>();
  const auto choice = [&](const values& x, bool fused) {
    return searched(f, x, [&](const model::trial& t) { return error_of(f, t, x, fused); });
  };
  const std::vector<values> blocks = disagreements(gen, 16, choice, 20);
  CHECK(blocks.size() == 20);
  for (const values& x : blocks) {
    const auto q = quantize<e2m1_f32>(matrix_view<const float>{x.data(), 1, 16}, mse_search{}, one_thread);
    CHECK(model::bits_of(q.scales()[0]) == choice(x, false).code);
  }
}

TEST_CASE("mse_search after a transform: the factor c_n is applied before anything is subtracted") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(3)};
  using F = block_format<fp4<E2M1>, float, 32>;
  const model::format f = model::format_of<F>();
  const float c = model::float_of(0x3E3504F3u);  // n = 32: not a power of two
  // Fused: d = fma(c, sum, -fl(v * s)), with the sums of the butterflies.
  const auto choice = [&](const values& x, bool fused) {
    values sums = x, y;
    for (std::size_t stride = 1; stride < 32; stride *= 2) {
      values z(32);
      for (std::size_t j = 0; j < 32; ++j)
        z[j] = (j & stride) != 0 ? model::sub(sums[j ^ stride], sums[j]) : model::add(sums[j], sums[j ^ stride]);
      sums = z;
    }
    for (const float sum : sums) y.push_back(model::mul(sum, c));
    return searched(f, y, [&](const model::trial& t) {
      float err = 0;
      for (std::size_t i = 0; i < 32; ++i) {
        const float q = model::mul(f.g.value[model::round(f.g, t.scaled(y[i]), {}, 0)], t.effective);
        const float d = fused ? model::fma(c, sums[i], -q) : model::sub(y[i], q);
        err = model::fma(d, d, err);
      }
      return err;
    });
  };
  const std::vector<values> blocks = disagreements(gen, 32, choice, 8);
  CHECK(blocks.size() == 8);
  for (const values& x : blocks) {
    const auto q = quantize<F>(matrix_view<const float>{x.data(), 1, 32}, hadamard<32>{}, mse_search{}, one_thread);
    CHECK(model::bits_of(q.scales()[0]) == choice(x, false).code);
  }
}

namespace {

/// The inverse of fake_quantize, where the first stage adds products value * scale: as written, and fused into the
/// first addition. Blocks of 2 and a transform of 16, so that neighbours have different scales.
template <std::size_t n>
std::vector<float> undone(const std::vector<float>& decoded, const std::vector<float>& scales, bool fused) {
  std::vector<float> x(n), y(n);
  for (std::size_t j = 0; j < n; j += 2) {
    const float s = scales[j / 2], a = decoded[j], b = decoded[j + 1], product = model::mul(b, s);
    x[j] = fused ? model::fma(a, s, product) : model::add(model::mul(a, s), product);
    x[j + 1] = fused ? model::fma(a, s, -product) : model::sub(model::mul(a, s), product);
  }
  for (std::size_t stride = 2; stride < n; stride *= 2, x = y)
    for (std::size_t j = 0; j < n; ++j)
      y[j] = (j & stride) != 0 ? model::sub(x[j ^ stride], x[j]) : model::add(x[j], x[j ^ stride]);
  for (float& v : x) v = model::mul(v, 0.25f);
  return x;
}

}  // namespace

TEST_CASE("fake_quantize with undo_transform: decoded values are rounded before the inverse adds them") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  std::normal_distribution<float> normal;
  using F = block_format<fp4<E2M1>, float, 2>;
  int differing = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<float> x(16), out(16);
    for (float& v : x) v = normal(gen);
    const matrix_view<const float> view{x.data(), 1, 16};
    const model::result q = model::quantize(model::format_of<F>(), x, 1, 16, {.t = model::plain_transform(16)});
    std::vector<float> elements, scales;
    for (const std::uint8_t c : q.codes) elements.push_back(model::grid_of<fp4<E2M1>>().value[c]);
    for (const std::uint32_t s : q.scales) scales.push_back(model::float_of(s));
    const std::vector<float> want = undone<16>(elements, scales, false);
    differing += !support::same_numbers(want, undone<16>(elements, scales, true));
    fake_quantize<F>(view, matrix_view<float>{out.data(), 1, 16}, hadamard<16>{}, undo_transform{}, one_thread);
    REQUIRE(support::same_numbers(out, want));
    fake_quantize<F>(view, matrix_view<float>{out.data(), 1, 16}, hadamard<16>{}, one_thread);
    hadamard_inverse(hadamard<16>{}.spec(), out.data());
    REQUIRE(support::same_numbers(out, want));
  }
  CHECK(differing > 1000);
}

TEST_CASE("a block decoded and inverted in a user's own kernel: each product is rounded where it is stored") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(5)};
  using F = block_format<fp4<E2M1>, float, 16>;
  int differing = 0;
  for (int i = 0; i < 2000; ++i) {
    std::uint8_t packed[8];
    float back[16];
    for (std::uint8_t& byte : packed) byte = static_cast<std::uint8_t>(gen());
    const float scale = 0.1f + static_cast<float>(gen() >> 40) * 0x1p-24f;
    std::vector<float> elements;
    for (std::size_t k = 0; k < 16; ++k)
      elements.push_back(model::grid_of<fp4<E2M1>>().value[ufp4::detail::code_at(packed, k)]);
    const std::vector<float> scales(8, scale), want = undone<16>(elements, scales, false);
    differing += !support::same_numbers(want, undone<16>(elements, scales, true));
    dequantize_block<F>(packed, scale, back);
    hadamard_inverse(hadamard<16>{}.spec(), back);
    bool same = true;
    for (std::size_t k = 0; k < 16; ++k) same = same && back[k] == want[k];
    REQUIRE(same);
  }
  CHECK(differing > 1000);
}

namespace {

/// acc += x[k] in index order, as a user's kernel does right after decoding a block.
float summed(const std::uint8_t* packed, float scale) {
  float x[16], acc = 0;
  dequantize_block<block_format<fp4<E2M1>, float, 16>>(packed, scale, x);
  for (const float v : x) acc += v;
  return acc;
}

}  // namespace

TEST_CASE("a sum over a decoded block adds rounded products, even where everything is inlined") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(6)};
  const model::grid g = model::grid_of<fp4<E2M1>>();
  int differing = 0, wrong = 0;
  for (int i = 0; i < 2000; ++i) {
    std::uint8_t packed[8];
    for (std::uint8_t& byte : packed) byte = static_cast<std::uint8_t>(gen());
    const float scale = 0.1f + static_cast<float>(gen() >> 40) * 0x1p-24f;
    float want = 0, fused = 0;
    for (std::size_t k = 0; k < 16; ++k) {
      const float v = g.value[ufp4::detail::code_at(packed, k)];
      want = model::add(want, model::mul(v, scale));
      fused = model::fma(v, scale, fused);
    }
    differing += want != fused;
    wrong += summed(packed, scale) != want;
  }
  CHECK(differing > 500);
  CHECK(wrong == 0);
}

TEST_CASE("a sum over a transformed run adds products with c_n that were rounded") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(8)};
  std::normal_distribution<float> normal;
  const float c = model::float_of(0x3E3504F3u);  // n = 32
  int differing = 0, wrong = 0;
  for (int i = 0; i < 2000; ++i) {
    float x[32], sums[32], got = 0, want = 0, fused = 0;
    for (std::size_t j = 0; j < 32; ++j) x[j] = sums[j] = normal(gen);
    for (std::size_t stride = 1; stride < 32; stride *= 2)
      for (std::size_t j = 0; j < 32; ++j) {
        if ((j & stride) != 0) continue;
        const float a = sums[j], b = sums[j + stride];
        sums[j] = model::add(a, b), sums[j + stride] = model::sub(a, b);
      }
    for (const float s : sums) want = model::add(want, model::mul(s, c)), fused = model::fma(s, c, fused);
    hadamard_forward(hadamard<32>{}.spec(), x);
    for (const float v : x) got += v;
    differing += want != fused;
    wrong += got != want;
  }
  CHECK(differing > 1000);
  CHECK(wrong == 0);
}

TEST_CASE("products of a user's kernel are rounded before a transform adds them") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(7)};
  std::normal_distribution<float> normal;
  const transform_spec plain = hadamard<16>{}.spec();
  int differing = 0, wrong = 0;
  for (int i = 0; i < 2000; ++i) {
    float a[16], s[16], forward[16], back[16];
    for (float& v : a) v = normal(gen);
    for (std::size_t k = 0; k < 16; k += 2) s[k] = s[k + 1] = normal(gen);
    for (std::size_t k = 0; k < 16; ++k) forward[k] = a[k] * s[k];
    hadamard_forward(plain, forward);
    for (std::size_t k = 0; k < 16; ++k) back[k] = a[k] * s[k];
    hadamard_inverse(plain, back);
    std::vector<float> scales;
    for (std::size_t k = 0; k < 16; k += 2) scales.push_back(s[k]);
    const std::vector<float> want = undone<16>({a, a + 16}, scales, false);
    differing += !support::same_numbers(want, undone<16>({a, a + 16}, scales, true));
    wrong += !support::same_numbers(forward, want) + !support::same_numbers(back, want);
  }
  CHECK(differing > 1000);
  CHECK(wrong == 0);
}
