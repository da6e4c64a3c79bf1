// ufp4 - mistakes in host programs that must not compile, each with the compiler's error message.
// SPDX-License-Identifier: Apache-2.0
//
// check.sh compiles this file twice. With MISTAKE the compiler must print the message behind "error:" for a line of
// each function; without, the file must compile. If a concept rejects the code, the message contains the concept's
// name. A message that does not fit in 120 columns precedes its function, on lines that begin with "//" and eight
// blanks.
#include <ufp4/ufp4.hpp>

#include <array>
#include <cmath>
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
};

// error: the special value of fp4_remapped is not a value of its layout
void remapped_to_a_value_of_its_layout() { (void)fp4_remapped<E2M1, pick<4, 5>()>(1.0f); }

// error: the values of a table_element must be finite, of at least two numbers, and one must be +0
void table_without_a_zero() { (void)table_element<levels>(1.0f); }

/// Integers. States whether products are exact.
template <bool Stated>
struct stated_levels {
  static constexpr float values[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
  static constexpr bool exact_products = Stated;
};

// error: exact_products is stated, but not as the values are; leave it out: it is computed
void table_that_states_what_is_not_so() { (void)table_element<stated_levels<pick<0, 1>() == 1>>(1.0f); }

/// A user-defined element: c - Offset / 2, the last value times LastTimes.
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

void element_without_a_zero() {                    // error: an element format needs a zero
  (void)grid_of<shifted<pick<15, 16>(), true>>();  // -7.5, -6.5, ..., 7.5
}

/// A user-defined element of one byte with that largest magnitude.
template <int Most>
struct of_one_byte {
  static constexpr ufp4::detail::byte_element byte = ufp4::detail::byte_element::int8;
  of_one_byte() = default;
  constexpr explicit of_one_byte(float v) : code(ufp4::int8(v).bits()) {}
  static constexpr of_one_byte from_bits(std::uint8_t bits) { return of_one_byte(static_cast<float>(bits)); }
  constexpr std::uint8_t bits() const { return code; }
  constexpr explicit operator float() const { return static_cast<float>(ufp4::int8::from_bits(code)); }
  static constexpr float unit() { return 1; }
  static constexpr float max() { return Most; }
  std::uint8_t code;
};

void wide_element_with_another_maximum() {  // error: an element of one byte has the largest magnitude of its kind
  (void)grid_of<of_one_byte<pick<100, 127>()>>();
}

// error: exact_products is stated, but not as the values are; leave it out: it is computed
void products_that_are_not_exact() {
  (void)grid_of<shifted<16, pick<1, 0>() == 1, 1000>>();  // the last value is 7000
}

// Block formats.

void blocks_of_24() {  // error: the block length must be a power of two from 2 to 256
  (void)block_format<int4, float, pick<24, 32>()>::block_size;
}

void blocks_of_512() {  // error: the block length must be a power of two from 2 to 256
  (void)block_format<int4, float, pick<512, 256>()>::block_size;
}

void blocks_of_three_rows() {  // error: the rows of a block must be a power of two from 1 to 128
  (void)block_format<int4, float, block_shape(pick<3, 4>(), 16)>::block_size;
}

void blocks_of_256_rows() {  // error: the rows of a block must be a power of two from 1 to 128
  (void)block_format<int4, float, block_shape(pick<256, 128>(), 128)>::block_size;
}

// error: the outer scale is void, float, bf16, per_row<T> or per_segment<cols, T>
void double_tensor_scale() {
#if defined(MISTAKE)
  (void)block_format<int4, e4m3, 16, double>::block_size;
#else
  (void)block_format<int4, e4m3, 16, float>::block_size;
#endif
}

// error: outer scales are float or bf16; a segment is a positive multiple of the block length
void outer_scales_of_40_columns() {
#if defined(MISTAKE)
  (void)block_format<int4, e4m3, 16, per_segment<40, float>>::block_size;
#else
  (void)block_format<int4, e4m3, 16, per_segment<48, float>>::block_size;
#endif
}

// error: outer scales of rows and segments are float where a block has more than 8 one-bit exponents
void bf16_outer_scales_of_rows_beside_24_exponents() {
#if defined(MISTAKE)
  (void)block_format<fp4<E1M2>, e4m3, grouped(64, 8, 4), per_row<bf16>>::block_size;
#else
  (void)block_format<fp4<E1M2>, e4m3, grouped(64, 8, 4), per_row<float>>::block_size;
#endif
}

// error: only e4m3 and ue5m3 block scales take outer scales: the range of the others needs none
void tensor_scale_beside_wide_scales() {
#if defined(MISTAKE)
  (void)block_format<int4, e8m0, 32, float>::block_size;
#else
  (void)block_format<int4, e8m0, 32>::block_size;
#endif
}

void a_factor_of_zero() {  // error: the factor of a grid is positive
  (void)block_format<one_of<fp4<E2M1>, scaled<int4, pick<0, 6>(), 7>>, e4m3, 16, float>::block_size;
}

void one_grid_to_choose_from() {  // error: a block chooses among two to four grids
#if defined(MISTAKE)
  (void)block_format<one_of<fp4<E2M1>>, e4m3, 16, float>::block_size;
#else
  (void)block_format<one_of<fp4<E2M1>, int4>, e4m3, 16, float>::block_size;
#endif
}

void three_grids_under_a_float_scale() {  // error: bf16 and float scales can store the choice of two grids only
#if defined(MISTAKE)
  (void)block_format<one_of<fp4<E2M1>, int4, fp4<E1M2>>, float, 16>::block_size;
#else
  (void)block_format<one_of<fp4<E2M1>, int4>, float, 16>::block_size;
#endif
}

// error: one-bit exponents: groups are descending powers of two within a block of one row, at most 24 in all, under a
//        scale of 8 bits, with one grid
void groups_that_ascend() { (void)block_format<fp4<E1M2>, e6m2, grouped(64, pick<4, 8>(), pick<8, 4>())>::block_size; }

void scales_of_fp16() {  // error: scale_format
#if defined(MISTAKE)
  (void)block_format<int4, fp16, 16>::block_size;
#else
  (void)block_format<int4, bf16, 16>::block_size;
#endif
}

void elements_of_char() {  // error: element_format
#if defined(MISTAKE)
  (void)block_format<signed char, float, 16>::block_size;
#else
  (void)block_format<int4, float, 16>::block_size;
#endif
}

// Policies.

void two_transforms() {  // error: two transforms in one call
#if defined(MISTAKE)
  (void)quantize<nvfp4>(x, hadamard<16>{}, random_hadamard<16>{42});
#else
  (void)quantize<nvfp4>(x, random_hadamard<16>{42});
#endif
}

void two_roundings() {  // error: two rounding policies in one call
#if defined(MISTAKE)
  (void)quantize<nvfp4>(x, stochastic{1, 2}, nearest_even{});
#else
  (void)quantize<nvfp4>(x, stochastic{1, 2});
#endif
}

void two_scale_rules() {  // error: two scale rules in one call
#if defined(MISTAKE)
  (void)quantize<mxfp4>(x, mx_floor{}, mx_even{});
#else
  (void)quantize<mxfp4>(x, mx_floor{}, mse_search{});
#endif
}

// error: not a policy: after the matrix come a transform, a rounding policy, a scale rule, tensor_amax, shard,
//        count_into, cpu::context (and for fake_quantize undo_transform)
void no_policy() {
#if defined(MISTAKE)
  (void)quantize<nvfp4>(x, 42);
#else
  (void)quantize<nvfp4>(x, stochastic{42});
#endif
}

void two_contexts() {  // error: two contexts in one call
#if defined(MISTAKE)
  (void)quantize<nvfp4>(x, cpu::context{}, cpu::context{.threads = 1});
#else
  (void)quantize<nvfp4>(x, stochastic{42}, cpu::context{.threads = 1});
#endif
}

void context_of_an_operand() {  // error: operand: the cpu::context is the last argument of quantized_gemm
#if defined(MISTAKE)
  quantized_gemm(operand<nvfp4>(x, cpu::context{}), w, y);
#else
  quantized_gemm(operand<nvfp4>(x), w, y, cpu::context{});
#endif
}

/// A user-defined rounding policy.
struct upwards {
  bool round_up(neighbours, float, std::uint64_t) const { return true; }
};

void preset_with_a_rounding() {  // error: a compat preset has a rounding of its own; leave the rounding policy out
#if defined(MISTAKE)
  (void)quantize<compat::te_nvfp4>(x, upwards{});
#else
  (void)quantize<nvfp4>(x, upwards{});
#endif
}

/// A user-defined scale rule.
struct amax_over_8 {
  float operator()(block_values, float amax) const { return amax / 8; }
};

void preset_with_a_scale_rule() {  // error: a compat preset has a scale rule of its own; leave the scale rule out
#if defined(MISTAKE)
  (void)quantize<compat::te_nvfp4>(x, amax_over_8{});
#else
  (void)quantize<nvfp4>(x, amax_over_8{});
#endif
}

// error: a search looks around a scale rule of the library's own, not around one of the program's
void search_around_a_user_rule() {
#if defined(MISTAKE)
  (void)quantize<nvfp4>(x, amax_over_8{}, mse_search{});
#else
  (void)quantize<nvfp4>(x, scale_up{}, mse_search{});
#endif
}

void two_searches() {  // error: two searches for a scale in one call
#if defined(MISTAKE)
  (void)quantize<nvfp4>(x, mse_search{}, mae_search{});
#else
  (void)quantize<nvfp4>(x, mae_search{});
#endif
}

void a_choice_around_a_user_rule() {  // error: choose_grid compares the scales of a rule of the library's own
#if defined(MISTAKE)
  (void)quantize<if4>(x, amax_over_8{}, choose_grid{});
#else
  (void)quantize<if4>(x, scale_up{}, choose_grid{});
#endif
}

void amax_without_a_tensor_scale() {  // error: tensor_amax has no effect: the format has no tensor scale
#if defined(MISTAKE)
  (void)quantize<e1m2_f32>(x, tensor_amax{5});
#else
  (void)quantize<nvfp4>(x, tensor_amax{5});
#endif
}

// error: a shard of a format with a tensor scale needs the tensor_amax of the whole operand
void shard_without_amax() {
#if defined(MISTAKE)
  (void)quantize<nvfp4>(x, shard{.first_row = 16});
#else
  (void)quantize<nvfp4>(x, shard{.first_row = 16}, tensor_amax{5});
#endif
}

void transform_of_24() {  // error: hadamard_size
  (void)hadamard<pick<24, 32>()>{};
}

// Matrices.

void output_of_const_elements() {  // error: the output is a view of const elements
#if defined(MISTAKE)
  dequantize(q, x);
#else
  dequantize(q, y);
#endif
}

// error: matrix_view: elements are float, bf16, fp16, _Float16, std::float16_t, std::bfloat16_t, __half, or a GPU
//        vendor's bfloat16 with bfloat16.hpp of the vendor's folder; convert others, such as double, first
void matrix_of_double(const double* data) {
#if defined(MISTAKE)
  (void)quantize<nvfp4>(matrix_view<const double>{data, 4, 16});
#else
  (void)data, (void)quantize<nvfp4>(x);
#endif
}

void matrix_of_const_elements() {  // error: a matrix of const elements could not be filled
#if defined(MISTAKE)
  (void)matrix<const float>(2, 2);
#else
  (void)matrix<float>(2, 2);
#endif
}

// error: quantize<F>: F is a block format, such as nvfp4 or block_format<fp4<E2M1>, e4m3, 16>, or a compat preset
void no_format() {
#if defined(MISTAKE)
  (void)quantize<fp4<E2M1>>(x);
#else
  (void)quantize<e2m1_f32>(x);
#endif
}

// Views of temporaries. Each of these would refer to freed memory in the next statement.

void view_of_a_temporary_matrix() {  // error: deleted
#if defined(MISTAKE)
  const matrix_view<float> v = matrix<float>(4, 16);
#else
  matrix<float> m(4, 16);
  const matrix_view<float> v = m;
#endif
  (void)v;
}

void const_view_of_a_temporary_matrix() {  // error: deleted
#if defined(MISTAKE)
  const matrix_view<const float> v(dequantize(q));
#else
  const matrix<float> m = dequantize(q);
  const matrix_view<const float> v(row_range(m, 0, 2));
#endif
  (void)v;
}

void view_assigned_from_a_temporary_matrix() {  // error: deleted
  matrix_view<float> v;
#if defined(MISTAKE)
  v = matrix<float>(4, 16);
#else
  v = row_range(y, 0, 2);
#endif
  (void)v;
}

void transpose_of_a_temporary_matrix() {  // error: deleted
#if defined(MISTAKE)
  (void)transpose(dequantize(q));
#else
  (void)transpose(row_range(y, 0, 2));
#endif
}

void const_transpose_of_a_temporary_matrix() {  // error: deleted
#if defined(MISTAKE)
  (void)transpose<const float>(dequantize(q));
#else
  const matrix<float> m = dequantize(q);
  (void)transpose<float>(m);
#endif
}

void rows_of_a_temporary_matrix() {  // error: deleted
#if defined(MISTAKE)
  (void)row_range(dequantize(q), 0, 2);
#else
  (void)row_range(transpose(y), 0, 2);
#endif
}

void columns_of_a_temporary_matrix() {  // error: deleted
#if defined(MISTAKE)
  (void)col_range(dequantize(q), 0, 2);
#else
  (void)col_range(transpose(y), 0, 2);
#endif
}

void batch_in_a_temporary_matrix() {  // error: deleted
#if defined(MISTAKE)
  (void)matrix_batch<float>(matrix<float>(4, 16), 2, 32);
#else
  (void)matrix_batch<float>(y, 2, 32);
#endif
}

void operand_of_a_temporary_matrix() {  // error: deleted
#if defined(MISTAKE)
  const auto a = operand<nvfp4>(dequantize(q), hadamard<16>{});
#else
  const auto a = operand<nvfp4>(row_range(x, 0, 2), hadamard<16>{});
#endif
  (void)a;
}

void plain_operand_of_a_temporary_matrix() {  // error: deleted
#if defined(MISTAKE)
  const auto a = unquantized(dequantize(q), hadamard<16>{});
#else
  const auto a = unquantized(row_range(x, 0, 2), hadamard<16>{});
#endif
  (void)a;
}

void view_of_a_temporary_quantized_matrix() {  // error: deleted
#if defined(MISTAKE)
  const quantized_view<nvfp4> v = quantize<nvfp4>(x);
#else
  const quantized_view<nvfp4> v = row_range(q, 0, 2);
#endif
  (void)v;
}

void untyped_view_of_a_temporary_quantized_matrix() {  // error: deleted
#if defined(MISTAKE)
  const any_quantized_view v = quantize<nvfp4>(x);
#else
  const any_quantized_view v = q;
#endif
  (void)v;
}

void view_of_a_temporary_any_quantized() {  // error: deleted
#if defined(MISTAKE)
  const any_quantized_view v = quantize(spec_of<nvfp4>, x);
#else
  const any_quantized_view v = any_quantized_view(q);
#endif
  (void)v;
}

void view_assigned_from_a_temporary_any_quantized() {  // error: deleted
  any_quantized_view v = q;
#if defined(MISTAKE)
  v = quantize(spec_of<nvfp4>, x);
#else
  v = w;
#endif
  (void)v;
}

void typed_view_of_a_temporary_any_quantized() {  // error: deleted
#if defined(MISTAKE)
  const quantized_view<nvfp4> v(quantize(spec_of<nvfp4>, x));
#else
  const quantized_view<nvfp4> v(any_quantized_view{q});
#endif
  (void)v;
}

void view_member_of_a_temporary() {  // error: deleted
#if defined(MISTAKE)
  (void)quantize<nvfp4>(x).view();
#else
  (void)q.view();
#endif
}

void view_member_of_a_temporary_any_quantized() {  // error: deleted
#if defined(MISTAKE)
  (void)quantize(spec_of<nvfp4>, x).view();
#else
  const any_quantized named = quantize(spec_of<nvfp4>, x);
  (void)named.view();
#endif
}

void rows_of_a_temporary_quantized_matrix() {  // error: deleted
#if defined(MISTAKE)
  (void)row_range(quantize<nvfp4>(x), 0, 2);
#else
  (void)row_range(q.view(), 0, 2);
#endif
}

void rows_of_a_temporary_any_quantized() {  // error: deleted
#if defined(MISTAKE)
  (void)row_range(quantize(spec_of<nvfp4>, x), 0, 2);
#else
  (void)col_range(quantize(spec_of<nvfp4>, x), 0, 16);
#endif
}

void signed_part_of_temporary_weights() {  // error: deleted
#if defined(MISTAKE)
  (void)zero_point_matrix().signed_part();
#else
  const zero_point_matrix weights;
  (void)weights.signed_part();
#endif
}

/// A temporary that is used within its statement compiles.
void temporaries_within_a_statement() {
  dequantize(quantize<nvfp4>(x), matrix<float>(4, 16));
  quantized_gemm(quantize<nvfp4>(x), quantize(spec_of<nvfp4>, x), matrix<float>(4, 4));
  quantized_gemm(dequantize(q), prepack(quantize<nvfp4>(x)), y);
  (void)unpack(prepack(quantize(spec_of<nvfp4>, x)));
  (void)(quantize<nvfp4>(x) == quantize(spec_of<nvfp4>, dequantize(q)));
  (void)cast<mxfp4>(quantize<nvfp4>(x));
  (void)cast(quantize(spec_of<nvfp4>, x), spec_of<mxfp4>);
  (void)cast(quantize<nvfp4>(x), spec_of<mxfp4>);
  (void)col_range(quantize<nvfp4>(x), 0, 16);
  (void)(quantize<nvfp4>(x).codes()[0] + quantize<nvfp4>(x).scales()[0]);
  (void)prepack(quantize<nvfp4>(x), cpu::context{});
  (void)(quantize<nvfp4>(x).spec() == quantize(spec_of<nvfp4>, x).spec());
  const transform_spec& copied = quantize<nvfp4>(x).transform();
  (void)copied;
}

// Products.

void product_of_floats() {  // error: at least one side must be quantized
#if defined(MISTAKE)
  quantized_gemm(x, x, y);
#else
  quantized_gemm(x, w, y);
#endif
}

// error: block length mismatch: A and B have blocks of different lengths along K
void product_of_16_and_32(const quantized_matrix<mxfp4>& m) {
#if defined(MISTAKE)
  quantized_gemm(q, m, y);
#else
  (void)m, quantized_gemm(q, w, y);
#endif
}

void packed_on_the_left() {  // error: a prepacked_matrix is a right operand
#if defined(MISTAKE)
  quantized_gemm(packed, q, y);
#else
  quantized_gemm(q, packed, y);
#endif
}

void product_of_vectors(const std::vector<float>& v) {  // error: any_operand
#if defined(MISTAKE)
  quantized_gemm(v, w, y);
#else
  (void)v, quantized_gemm(x, w, y);
#endif
}

void grouped_floats() {  // error: a: a sequence of quantized matrices or views of them
  const std::array<matrix_view<float>, 1> c{y};
  const std::array<quantized_view<nvfp4>, 1> b{w};
#if defined(MISTAKE)
  const std::array<matrix_view<const float>, 1> a{x};
#else
  const std::array<quantized_view<nvfp4>, 1> a{q};
#endif
  quantized_gemm_grouped(a, b, c);
}

void grouped_by_floats() {  // error: b: a sequence of quantized matrices, views of them, or prepacked matrices
  const std::array<matrix_view<float>, 1> c{y};
  const std::array<quantized_view<nvfp4>, 1> a{q};
#if defined(MISTAKE)
  const std::array<matrix_view<const float>, 1> b{x};
#else
  const std::array<quantized_view<nvfp4>, 1> b{w};
#endif
  quantized_gemm_grouped(a, b, c);
}

// Recipes.

void seed_of_a_rounding_in_a_recipe() {  // error: a_recipe_derives_the_seeds_of_its_operands
  recipe::operand_policy policy;
  policy.rounding = stochastic{pick<7, 0>()};
}

void seed_of_a_transform_in_a_recipe() {  // error: a_recipe_derives_the_seeds_of_its_operands
  recipe::operand_policy policy;
  policy.transform = random_hadamard<16>{pick<7, 0>()};
}

struct constant_rule {};

void own_scale_rule_in_a_recipe() {  // error: builtin_scale_rule
  recipe::operand_policy policy;
#if defined(MISTAKE)
  policy.rule = recipe::rule_choice(constant_rule{});
#else
  policy.rule = scale_up{};
#endif
}

// Arguments of another type. check.sh also counts the lines of each of these messages alone.

// error: quantize: the elements of x are float, bf16 or fp16 (matrix_element lists the types); convert others, such as
//        double, first
void no_elements_of_a_matrix() {
#if defined(MISTAKE)
  (void)quantize<nvfp4>(std::vector<double>(64));
#else
  (void)quantize<nvfp4>(std::vector<float>(64));
#endif
}

void no_matrix() {  // error: quantize: x is a matrix_view, a matrix, a span, array or vector, or a matrix_batch
#if defined(MISTAKE)
  (void)quantize<nvfp4>(64, cpu::context{});
#endif
}

// error: quantize: x is a matrix_view, matrix or matrix_batch of float, bf16 or fp16
void no_matrix_of_a_format_as_data() {
#if defined(MISTAKE)
  quantize(spec_of<nvfp4>, std::vector<float>(64));
#endif
}

// error: quantize: a rounding policy is a class such as nearest_even, stochastic, or one of your own (rounding_policy
//        in concepts.hpp), not a function
void function_as_policy() {
#if defined(MISTAKE)
  quantize<nvfp4>(x, std::round);
#endif
}

void vector_as_product() {  // error: quantized_gemm: C is a matrix_view or matrix of float, bf16 or fp16
#if defined(MISTAKE)
  quantized_gemm(q, w, std::vector<float>(64));
#endif
}

void vector_as_decoded_matrix() {  // error: dequantize: out is a matrix_view or matrix of float, bf16 or fp16
#if defined(MISTAKE)
  dequantize(q, std::vector<float>(64));
#endif
}

// A context in the first place.

void context_before_a_product() {  // error: quantized_gemm: a cpu::context is the last argument
#if defined(MISTAKE)
  quantized_gemm(cpu::context{}, q, w, y, {.alpha = 2.0f});
#else
  quantized_gemm(q, w, y, {.alpha = 2.0f}, cpu::context{});
#endif
}

void context_before_a_quantized_matrix() {  // error: dequantize: a cpu::context is the last argument
#if defined(MISTAKE)
  dequantize(cpu::context{}, q, y);
#else
  dequantize(q, y, cpu::context{});
#endif
}
