// ufp4 - mistakes that the compiler answers with a message: those of a host program.
// SPDX-License-Identifier: Apache-2.0
//
// Compiled by check.sh, twice: with MISTAKE each function must bring the message behind "says:", at a line of its own;
// without, the corrected file must compile. What is rejected by a concept says the concept's name. A message over 120
// columns stands above its function and continues on lines that begin with "//" and seven blanks.
#include <ufp4/ufp4.hpp>

#include <array>
#include <cstdint>
#include <vector>

using namespace ufp4;

extern const matrix_view<const float> x;
extern const matrix_view<float> y;
extern const quantized_matrix<nvfp4> q, w;
extern const prepacked_matrix<nvfp4> packed;
extern quantize_report seen;

/// One of two numbers.
template <int Wrong, int Right>
constexpr int pick() {
#if defined(MISTAKE)
  return Wrong;
#else
  return Right;
#endif
}

// Element types.

/// -7 + shift, ..., 8 + shift
constexpr float shift = pick<1, 0>() / 2.0f;
struct levels {
  static constexpr float values[16] = {-7 + shift, -6 + shift, -5 + shift, -4 + shift, -3 + shift, -2 + shift,
                                       -1 + shift, shift,      1 + shift,  2 + shift,  3 + shift,  4 + shift,
                                       5 + shift,  6 + shift,  7 + shift,  8 + shift};
  static constexpr bool exact_products = false;
};

// says: the values of a table_element must be finite, ascending, distinct and hold a zero
void table_without_a_zero() { (void)table_element<levels>(1.0f); }

/// An element of a user's own: c - Offset / 2, the last value times LastTimes.
template <int Offset, bool Exact, int LastTimes = 1>
struct shifted {
  static constexpr bool exact_products = Exact;
  shifted() = default;
  constexpr explicit shifted(float v) : code(0) {
    while (code < 15 && value(code) < v) ++code;
  }
  static constexpr shifted from_bits(std::uint8_t bits) {
    shifted s{};
    s.code = bits;
    return s;
  }
  static constexpr float value(int c) {
    return (static_cast<float>(c) - static_cast<float>(Offset) / 2) * static_cast<float>(c == 15 ? LastTimes : 1);
  }
  constexpr std::uint8_t bits() const { return code; }
  constexpr explicit operator float() const { return value(code); }
  static constexpr float max() { return value(15); }
  std::uint8_t code;
};

void element_without_a_zero() {                     // says: an element format needs a zero
  (void)grid_of<shifted<pick<15, 16>(), false>>();  // -7.5, -6.5, ..., 7.5
}

// says: exact_products: the values are not small integers times a power of two; set it to false
void products_that_are_not_exact() {
  (void)grid_of<shifted<16, pick<1, 0>() == 1, 1000>>();  // the last value is 7000
}

// Block formats.

void blocks_of_24() {  // says: the block length must be a power of two from 2 to 256
  (void)block_format<int4, float, pick<24, 32>()>::block_size;
}

void blocks_of_512() {  // says: the block length must be a power of two from 2 to 256
  (void)block_format<int4, float, pick<512, 256>()>::block_size;
}

void oblong_blocks() {  // says: a block is 1 x B, or a square of at most 64 x 64
  (void)block_format<int4, float, block_shape(pick<4, 16>(), 16)>::block_size;
}

void large_squares() {  // says: a block is 1 x B, or a square of at most 64 x 64
  (void)block_format<int4, float, square(pick<128, 64>())>::block_size;
}

void double_tensor_scale() {  // says: the tensor scale is float, or void for none
#if defined(MISTAKE)
  (void)block_format<int4, e4m3, 16, double>::block_size;
#else
  (void)block_format<int4, e4m3, 16, float>::block_size;
#endif
}

// says: float, bf16 and e8m0 block scales take no tensor scale: their range needs none
void tensor_scale_beside_wide_scales() {
#if defined(MISTAKE)
  (void)block_format<int4, e8m0, 32, float>::block_size;
#else
  (void)block_format<int4, e8m0, 32>::block_size;
#endif
}

void scales_of_fp16() {  // says: scale_format
#if defined(MISTAKE)
  (void)block_format<int4, fp16, 16>::block_size;
#else
  (void)block_format<int4, bf16, 16>::block_size;
#endif
}

void elements_of_char() {  // says: element_format
#if defined(MISTAKE)
  (void)block_format<signed char, float, 16>::block_size;
#else
  (void)block_format<int4, float, 16>::block_size;
#endif
}

// Policies.

void two_transforms() {  // says: two transforms in one call
#if defined(MISTAKE)
  (void)quantize<nvfp4>(x, hadamard<16>{}, random_hadamard<16>{42});
#else
  (void)quantize<nvfp4>(x, random_hadamard<16>{42});
#endif
}

void two_roundings() {  // says: two rounding policies in one call
#if defined(MISTAKE)
  (void)quantize<nvfp4>(x, stochastic{1, 2}, nearest_even{});
#else
  (void)quantize<nvfp4>(x, stochastic{1, 2});
#endif
}

void two_scale_rules() {  // says: two scale rules in one call
#if defined(MISTAKE)
  (void)quantize<mxfp4>(x, mx_floor{}, mx_even{});
#else
  (void)quantize<mxfp4>(x, mx_floor{}, mse_search{});
#endif
}

// says: not a policy: after the matrix come a transform, a rounding policy, a scale rule, tensor_amax, shard,
//       count_into (and for fake_quantize undo_transform)
void no_policy() {
#if defined(MISTAKE)
  (void)quantize<nvfp4>(x, 42);
#else
  (void)quantize<nvfp4>(x, stochastic{42});
#endif
}

/// A rounding policy of a user's own.
struct upwards {
  bool round_up(neighbours, float, std::uint64_t) const { return true; }
};

void preset_with_a_rounding() {  // says: a compat preset has a rounding of its own; leave the rounding policy out
#if defined(MISTAKE)
  (void)quantize<compat::te_nvfp4>(x, upwards{});
#else
  (void)quantize<nvfp4>(x, upwards{});
#endif
}

void transform_of_24() {  // says: hadamard_size
  (void)hadamard<pick<24, 32>()>{};
}

// Matrices.

void output_of_const_elements() {  // says: the output is a view of const elements
#if defined(MISTAKE)
  dequantize(q, x);
#else
  dequantize(q, y);
#endif
}

void matrix_of_double(const double* data) {  // says: matrix_scalar
#if defined(MISTAKE)
  (void)quantize<nvfp4>(matrix_view<const double>{data, 4, 16});
#else
  (void)data, (void)quantize<nvfp4>(x);
#endif
}

void no_format() {  // says: quantizer_target
#if defined(MISTAKE)
  (void)quantize<fp4<E2M1>>(x);
#else
  (void)quantize<e2m1_f32>(x);
#endif
}

// Products.

void product_of_floats() {  // says: at least one side must be quantized
#if defined(MISTAKE)
  quantized_gemm(x, x, y);
#else
  quantized_gemm(x, w, y);
#endif
}

void packed_on_the_left() {  // says: a prepacked_matrix is a right operand
#if defined(MISTAKE)
  quantized_gemm(packed, q, y);
#else
  quantized_gemm(q, packed, y);
#endif
}

void product_of_vectors(const std::vector<float>& v) {  // says: any_operand
#if defined(MISTAKE)
  quantized_gemm(v, w, y);
#else
  (void)v, quantized_gemm(x, w, y);
#endif
}

void grouped_floats() {  // says: a: a sequence of quantized_matrix or quantized_view
  const std::array<matrix_view<float>, 1> c{y};
  const std::array<quantized_view<nvfp4>, 1> b{w};
#if defined(MISTAKE)
  const std::array<matrix_view<const float>, 1> a{x};
#else
  const std::array<quantized_view<nvfp4>, 1> a{q};
#endif
  quantized_gemm_grouped(a, b, c);
}

void grouped_by_floats() {  // says: b: a sequence of quantized_matrix, quantized_view or prepacked_matrix
  const std::array<matrix_view<float>, 1> c{y};
  const std::array<quantized_view<nvfp4>, 1> a{q};
#if defined(MISTAKE)
  const std::array<matrix_view<const float>, 1> b{x};
#else
  const std::array<quantized_view<nvfp4>, 1> b{w};
#endif
  quantized_gemm_grouped(a, b, c);
}
