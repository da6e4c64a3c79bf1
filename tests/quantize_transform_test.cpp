// ufp4 - the operations under every kind of transform: plain, seeded, given signs, rounded to bf16, overflowing.
// SPDX-License-Identifier: Apache-2.0
#include "support/operations.hpp"

#include <array>

using namespace ufp4;

namespace {

template <class F>
void check_kinds(const support::policies& p) {
  INFO(support::seed_note());
  support::hostile source(support::seed(p.transform.n));
  for (std::size_t cols = 1; cols < 300; cols += 7) {
    CAPTURE(cols);
    support::check_matrix<F, float>(source.values(2 * cols, cols % 3 == 0), 2, cols, p);
  }
}

template <int n>
support::policies given_signs(bool to_bf16) {
  std::array<int, n> signs{};
  support::policies p;
  p.theirs.t = model::plain_transform(n);
  for (std::size_t j = 0; j < n; ++j) {
    p.theirs.t.flipped[j] = j * j % 7 < 3;
    signs[j] = p.theirs.t.flipped[j] ? -1 : 1;
  }
  p.theirs.t.to_bf16 = to_bf16;
  p.transform = to_bf16 ? signed_hadamard<n>(signs).to_bf16().spec() : signed_hadamard<n>(signs).spec();
  return p;
}

}  // namespace

TEMPLATE_TEST_CASE("plain, given and bf16-rounded transforms give the model's bits", "", e1m2_f32, nvfp4, mx_e1m2) {
  support::policies plain, rounded = support::random_transform(128, 9);
  plain.transform = hadamard<64>{}.spec();
  plain.theirs.t = model::plain_transform(64);
  rounded.transform = random_hadamard<128>{9}.to_bf16().spec();
  rounded.theirs.t.to_bf16 = true;
  check_kinds<TestType>(plain);
  check_kinds<TestType>(rounded);
  check_kinds<TestType>(given_signs<16>(false));
  check_kinds<TestType>(given_signs<16>(true));
  check_kinds<TestType>(given_signs<256>(true));
}

TEST_CASE("Transformer Engine's signs: + + + - + - - - - - - + - + - -") {
  support::policies p;
  p.transform = signed_hadamard<16>(compat::transformer_engine_signs).to_bf16().spec();
  p.theirs.t = model::plain_transform(16);
  p.theirs.t.to_bf16 = true;
  const char* text = "+++-+------+-+--";
  for (std::size_t j = 0; j < 16; ++j) p.theirs.t.flipped[j] = text[j] == '-';
  check_kinds<nvfp4>(p);
}

TEST_CASE("finite input that overflows in the transform makes NaN blocks of its run, and is counted") {
  std::vector<float> x(64, 1.0f);
  for (std::size_t k = 16; k < 32; ++k) x[k] = 3e38f;
  quantize_report seen;
  const auto q = quantize<e1m2_f32>(matrix_view<const float>{x.data(), 1, 64}, hadamard<16>{}, count_into{seen});
  CHECK(seen == quantize_report{1, 0, 0});
  for (std::size_t b = 0; b < 4; ++b) CHECK((q.scales()[b] != q.scales()[b]) == (b == 1));
  for (std::size_t k = 16; k < 32; ++k) CHECK(ufp4::detail::code_at(q.codes().data(), k) == 0);
}

TEST_CASE("a transform shorter than the block acts on each of its runs") {
  std::vector<float> x(32, 0.0f);
  x[0] = 4, x[16] = -8;
  std::vector<float> fake(32);
  fake_quantize<mxfp4>(matrix_view<const float>{x.data(), 1, 32}, matrix_view<float>{fake.data(), 1, 32},
                       hadamard<16>{});
  for (std::size_t k = 0; k < 32; ++k) CHECK(fake[k] == (k < 16 ? 1.0f : -2.0f));
  fake_quantize<mxfp4>(matrix_view<const float>{x.data(), 1, 32}, matrix_view<float>{fake.data(), 1, 32},
                       hadamard<16>{}, undo_transform{});
  CHECK(fake == x);
}
