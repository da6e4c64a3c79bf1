// ufp4 - the inputs of the tests of the GPU's fast GEMM kernels: pairs of formats, ranges of scales, NaN, alignments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/gemm_check.hpp"

#include "support/catch.hpp"
#include "support/fast_cases.hpp"
#include "support/format_pairs.hpp"
#include "support/gemm_model.hpp"
#include "support/seed.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

namespace support {

// ---- Pairs of formats; check(a, b, options, processors) compares a product with its bound ----

/// Lengths along K.
struct pair_lengths {
  std::vector<std::size_t> ragged;
  std::size_t large = 0;
};

/// Ragged shapes, which a device computes in small tiles, and a large one with one processor, in large tiles.
template <class A, class B, class Check>
void check_pair(ufp4::accumulate mode, const pair_lengths& lengths, Check check) {
  INFO(seed_note());
  INFO((pair_text<A, B>()));
  std::mt19937_64 gen{seed(sizeof(typename A::scale_type) * 16 + sizeof(typename B::scale_type))};
  const auto left = [&](std::size_t m, std::size_t k) {
    return model::random_quantized<A>(gen, m, k, model::scales::ordinary, 0x1.8p-7f);
  };
  const auto right = [&](std::size_t n, std::size_t k) {
    return model::random_quantized<B>(gen, n, k, model::scales::ordinary, 0x1.333334p+3f);
  };
  for (const std::size_t k : lengths.ragged)
    check(left(21, k), right(70, k),
          ufp4::gemm_options{.alpha = -2.7f, .beta = k == 48 ? 1.3f : 0.0f, .accumulate = mode}, 0);
  check(left(131, lengths.large), right(71, lengths.large), ufp4::gemm_options{.accumulate = mode}, 1);
}

template <class Check>
void fast_pairs(const pair_lengths& lengths, Check check) {
  pairs_of_8_bit_scales([&]<class Pair>(Pair) {
    check_pair<typename Pair::left, typename Pair::right>(ufp4::accumulate::fast, lengths, check);
  });
}
template <class Check>
void folded_pairs(const pair_lengths& lengths, Check check) {
  pairs_of_wider_scales([&]<class Pair>(Pair) {
    check_pair<typename Pair::left, typename Pair::right>(ufp4::accumulate::folded_bf16, lengths, check);
  });
}

// ---- Kernels that multiply the stored blocks ----

/// One kernel's C is within the error bound of fast.
template <class A, class B>
void check_bound(const gpu::gemm_kernel& kernel, const ufp4::quantized_matrix<A>& a, const ufp4::quantized_matrix<B>& b,
                 const ufp4::gemm_options& options = {}) {
  CAPTURE(kernel.name, a.rows(), b.rows(), a.cols(), options.alpha, options.beta);
  const std::vector<float> old = old_values(a.rows() * b.rows());
  REQUIRE(product_bound(a, b).broken_by(product_of(kernel, a, b, options, old), options, old) == "");
}

struct product_shape {
  std::size_t m, n, k;
};
template <class A, class B>
void check_shapes(const gpu::gemm_kernel& kernel, std::span<const product_shape> shapes, float tensor_a = 1,
                  float tensor_b = 1) {
  INFO(seed_note());
  std::mt19937_64 gen{seed(sizeof(A) + 7)};
  for (const product_shape& s : shapes)
    check_bound(kernel, model::random_quantized<A>(gen, s.m, s.k, model::scales::ordinary, tensor_a),
                model::random_quantized<B>(gen, s.n, s.k, model::scales::ordinary, tensor_b),
                {.alpha = -2.7f, .beta = 1.3f});
}

/// e8m0 scales of `count` neighbouring powers of two.
template <class F>
ufp4::quantized_matrix<F> with_powers(std::mt19937_64& gen, ufp4::quantized_matrix<F> q, unsigned lowest,
                                      unsigned count) {
  for (auto& s : q.scales()) s = ufp4::e8m0::from_bits(static_cast<std::uint8_t>(lowest + gen() % count));
  return q;
}

/// Products of scales do not overflow in binary32, and some underflow. `codes` takes E2M1, `containers` other grids,
/// too.
inline void check_e8m0_range(const gpu::gemm_kernel& codes, const gpu::gemm_kernel& containers, std::mt19937_64& gen,
                             std::size_t k) {
  struct range {
    unsigned a, b, count;
  };
  for (const range& r : {range{0, 247, 3}, range{50, 50, 20}, range{100, 140, 40}, range{120, 0, 100}}) {
    check_bound(codes, with_powers(gen, model::random_quantized<ufp4::mxfp4>(gen, 9, k), r.a, r.count),
                with_powers(gen, model::random_quantized<ufp4::mxfp4>(gen, 10, k), r.b, r.count));
    check_bound(containers, with_powers(gen, model::random_quantized<ufp4::mxint4>(gen, 9, k), r.a, r.count),
                with_powers(gen, model::random_quantized<ufp4::mx_e1m2>(gen, 10, k), r.b, r.count));
  }
}

/// A NaN scale of a block of zeros on either side makes its row or column NaN, and nothing else.
template <class A, class B>
void check_nan_scales(const gpu::gemm_kernel& kernel, ufp4::quantized_matrix<A> a, ufp4::quantized_matrix<B> b) {
  CAPTURE(kernel.name);
  const std::size_t blocks = a.padded_cols() / A::block_size;
  const auto poison = [&]<class F>(ufp4::quantized_matrix<F>& q, std::size_t row, std::size_t block) {
    q.scales()[row * blocks + block] = typename F::scale_type(std::nanf(""));
    const std::size_t bytes_of_block = F::block_size / 2;
    std::memset(&q.codes()[row * q.padded_cols() / 2 + block * bytes_of_block], 0, bytes_of_block);
  };
  poison(a, 2, blocks - 1);  // the last block, next to the zeros of the padding
  poison(b, 5, 0);
  require_only_nan_in(product_of(kernel, a, b), b.rows(), 2, 5);
}

/// A copy in device memory whose codes and scales begin the given number of elements behind an aligned address.
template <class F>
class shifted {
 public:
  shifted(const ufp4::quantized_matrix<F>& q, std::size_t codes, std::size_t scales)
      : codes_(codes + q.codes().size()), scales_(scales + q.scales().size()), tensor_(F::two_level ? 1 : 0) {
    std::vector<std::uint8_t> all_codes(codes, 0xFF);
    all_codes.insert(all_codes.end(), q.codes().begin(), q.codes().end());
    codes_.upload(all_codes);
    std::vector<typename F::scale_type> all_scales(scales, typename F::scale_type(std::nanf("")));
    all_scales.insert(all_scales.end(), q.scales().begin(), q.scales().end());
    scales_.upload(all_scales);
    const float scale = q.tensor_scale();
    tensor_.upload({&scale, tensor_.size()});
    view_ = {codes_.span().subspan(codes), scales_.span().subspan(scales), tensor_.data(), q.rows(), q.cols()};
  }
  const gpu::quantized_view<F>& view() const { return view_; }

 private:
  gpu::buffer<std::uint8_t> codes_;
  gpu::buffer<typename F::scale_type> scales_;
  gpu::buffer<float> tensor_;
  gpu::quantized_view<F> view_;
};

}  // namespace support
