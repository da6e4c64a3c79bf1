// ufp4 - the operands of a product: their types, the checks of their combination, and the job that kernels receive.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/matrix/checks.hpp>
#include <ufp4/matrix/matrix.hpp>
#include <ufp4/matrix/operand.hpp>
#include <ufp4/matrix/prepacked.hpp>

namespace ufp4::inline UFP4_TYPES {

/// The factors of a product, its mode and its bias.
struct gemm_options {
  float alpha = 1.0f;                                    ///< factor of the product
  float beta = 0.0f;                                     ///< factor of C; C is read only if it is not 0
  ufp4::accumulate accumulate = ufp4::accumulate::fast;  ///< the order of sums, and a bound: numerics 6
  std::span<const float> bias{};  ///< empty, or one number a column of C, added after the scaling, before beta * C
};

}  // namespace ufp4::inline UFP4_TYPES

namespace ufp4::detail::inline UFP4_CODE {

/// A matrix that is not quantized, its element type as data.
struct unquantized_side {
  source x;
  transform_spec transform{};

  template <class T>
  unquantized_side(const matrix_view<T>& view) : x(source_of(view)) {}
  template <class T>
  unquantized_side(const unquantized_operand<T>& o) : x(source_of(o.x)), transform(o.transform) {}
};

template <class F, class T, class O>
void requested(const quantize_request<F, T, O>&);
template <class T>
concept request_operand = requires(const T& x) { requested(x); };
/// A matrix_view, a matrix, an unquantized_operand, or unquantized_side itself.
template <class T>
concept unquantized_input = std::is_constructible_v<unquantized_side, const T&>;
/// The types of an operand of a GEMM. At least one operand is quantized; only the right one may be prepacked.
template <class T>
concept any_operand = quantized_like<T> || request_operand<T> || unquantized_input<T> || prepacked_like<T>;

/// True of a quantized matrix in the memory of another machine, whose operations check it here but read it themselves.
template <class T>
struct is_device_matrix : std::false_type {};
template <class T>
concept coded_operand = quantized_like<T> || prepacked_like<T> || is_device_matrix<T>::value;

/// The format of a side where its type tells, else one with blocks of length 0 (an unquantized side, or a format as
/// data).
template <class T>
inline constexpr format_spec static_format{{}, {}, block_shape{0, 0}, {}};
template <coded_operand T>
  requires requires { typename T::format; }
inline constexpr format_spec static_format<T> = spec_of<typename T::format>;
template <class F, class T, class O>
inline constexpr format_spec static_format<quantize_request<F, T, O>> = spec_of<format_of<F>>;
template <class T>
inline constexpr int static_block_length = static_format<T>.block.cols;
/// What the format of a quantized matrix needs, where its type tells which it is; else what any does.
template <class Q>
inline constexpr features features_of_matrix =
    static_block_length<Q> == 0 ? format_features : features_of(static_format<Q>);
template <class A, class B>
inline constexpr bool blocks_may_match =
    static_block_length<A> == 0 || static_block_length<B> == 0 || static_block_length<A> == static_block_length<B>;

/// The properties of an operand that are known before it is quantized; shapes are checked on them first.
struct operand_shape {
  std::size_t rows = 0, cols = 0, padded_cols = 0;
  int block = 0;  ///< 0: unquantized, takes the other side's
  transform_spec transform;
  bool stochastic = false;
  ufp4::stochastic random_bits{};
};

template <coded_operand Q>
operand_shape shape_of(const Q& q) {
  int block = static_block_length<Q>;
  if constexpr (static_block_length<Q> == 0) block = q.spec().block.cols;
  return {q.rows(), q.cols(), q.padded_cols(), block, q.transform()};
}
template <class F, class T, class O>
operand_shape shape_of(const quantize_request<F, T, O>& r) {
  constexpr block_shape block = format_of<F>::block;
  const std::size_t padded = padded_length(r.x.cols(), block, r.options.transform);
  operand_shape s{r.x.rows(), r.x.cols(), padded, block.cols, r.options.transform};
  if constexpr (std::is_same_v<decltype(r.options.rounding), rounding_spec>) {
    s.stochastic = r.options.rounding.what >= rounding_spec::kind::stochastic;
    s.random_bits = r.options.rounding.random_bits;
  }
  return s;
}
inline operand_shape shape_of(const unquantized_side& x) { return {x.x.rows, x.x.cols, 0, 0, x.transform}; }

inline void check_bias(const char* operation, const sink& c, std::span<const float> bias) {
  expects(bias.empty() || bias.size() == c.cols, operation, ": shape mismatch: bias has ", bias.size(),
          " entries, C has ", c.cols, " columns");
  expects(!bytes_of(c).overlaps(bytes_of(bias)), operation, ": C overlaps bias");
}

inline void check_product(const char* operation, const operand_shape& a, const operand_shape& b, const sink& c) {
  expects(a.cols == b.cols, operation, ": shape mismatch: A has ", a.cols, " columns (K), B has ", b.cols);
  expects(c.rows == a.rows, operation, ": shape mismatch: C has ", c.rows, " rows, A has ", a.rows);
  expects(c.cols == b.rows, operation, ": shape mismatch: C has ", c.cols, " columns, B has ", b.rows, " rows");
  expects(a.block == 0 || b.block == 0 || a.block == b.block, operation, ": block length mismatch: A has ", a.block,
          ", B has ", b.block);
  if (a.transform.n != b.transform.n) [[unlikely]]
    reject(concat(operation, ": transform mismatch: A has ", transform_name(a.transform), ", B has ",
                  transform_name(b.transform)));
  expects(same_map(a.transform, b.transform), operation, ": transform mismatch: hadamard<", a.transform.n,
          "> with different signs, first words ", a.transform.signs[0], " and ", b.transform.signs[0]);
  expects(!(a.stochastic && b.stochastic && a.random_bits.seed == b.random_bits.seed &&
            a.random_bits.stream == b.random_bits.stream),
          operation, ": A and B use the same random bits: seed ", a.random_bits.seed, ", stream ", a.random_bits.stream,
          "; give one of them another stream");
  check_output(operation, "C", c);
}
template <coded_operand Q>
void check_operand(const char* operation, const char* name, const Q& q, const sink& out) {
  const byte_range c = bytes_of(out);
  expects(!c.overlaps(bytes_of(q.codes())), operation, ": C overlaps the codes of ", name);
  expects(!c.overlaps(bytes_of(scales_in(q))), operation, ": C overlaps the scales of ", name);
}
template <class F, class T, class O>
void check_operand(const char* operation, const char* name, const quantize_request<F, T, O>& r, const sink& c) {
  check_quantize<F>(operation, r.x, r.options);
  expects(!share_bytes(c, source_of(r.x)), operation, ": C overlaps ", name);
}
inline void check_operand(const char* operation, const char* name, const unquantized_side& side, const sink& c) {
  check_data(operation, name, side.x);
  check_signs(operation, side.transform);
  expects(!share_bytes(c, side.x), operation, ": C overlaps ", name);
}

/// A side as kernels take it. `block`: what an unquantized side is cut into.
template <quantized_like Q>
gemm_operand gemm_operand_of(const Q& q, int) {
  return {.q = quantized_source_of(q)};
}
template <prepacked_like P>
gemm_operand gemm_operand_of(const P& p, int) {
  return {.q = prepacked_source(p)};
}
inline gemm_operand gemm_operand_of(const unquantized_side& side, int block) {
  gemm_operand out{.is_quantized = false,
                   .unquantized = {.x = side.x, .format = unquantized_format(block), .transform = side.transform}};
  out.unquantized.padded_cols = padded_length(side.x.cols, block, side.transform);
  return out;
}
/// A side that is not quantized yet, without its codes: enough to know the kernel.
template <class F, class T, class O>
gemm_operand gemm_operand_of(const quantize_request<F, T, O>& r, int) {
  const operand_shape s = shape_of(r);
  return {.q = {nullptr, nullptr, spec_of<format_of<F>>, s.rows, s.cols, s.padded_cols, 1.0f, s.transform}};
}
template <class A, class B>
  requires(any_operand<A> || coded_operand<A>) && (any_operand<B> || coded_operand<B>)
void check_gemm(const char* operation, const A& a, const B& b, const sink& out, const gemm_options& options) {
  static_assert(blocks_may_match<A, B>, "block length mismatch: A and B have blocks of different lengths along K");
  static_assert(!(unquantized_input<A> && unquantized_input<B>), "at least one side must be quantized");
  static_assert(!prepacked_like<A>, "a prepacked_matrix is a right operand");
  check_product(operation, shape_of(a), shape_of(b), out);
  check_mode(operation, options.accumulate);
  check_operand(operation, "A", a, out);
  check_operand(operation, "B", b, out);
  check_bias(operation, out, options.bias);
}

template <any_operand A, any_operand B>
gemm_job gemm_job_of(const A& a, const B& b, const sink& out, const gemm_options& options) {
  const int left = shape_of(a).block, block = left != 0 ? left : shape_of(b).block;
  return {.left = gemm_operand_of(a, block),
          .right = gemm_operand_of(b, block),
          .out = out,
          .block = static_cast<std::size_t>(block),
          .alpha = options.alpha,
          .beta = options.beta,
          .mode = options.accumulate,
          .bias = options.bias.empty() ? nullptr : options.bias.data()};
}

/// std::vector, std::array, std::span.
template <class T>
concept sequence = requires(const T& all) {
  typename T::value_type;
  { all.data()[0] } -> std::convertible_to<const typename T::value_type&>;
  { all.size() } -> std::convertible_to<std::size_t>;
};
struct group_range {
  byte_range bytes;
  std::size_t entry;
  bool output;

  static int by_address(const void* a, const void* b) {
    const auto x = static_cast<const group_range*>(a)->bytes.first, y = static_cast<const group_range*>(b)->bytes.first;
    return x < y ? -1 : x > y;
  }
};
/// All ranges of a group, at most as many as `most`.
struct group_ranges {
  explicit group_ranges(std::size_t most) : all(most) {}
  buffer<group_range> all;
  std::size_t count = 0;
};
inline void add_range(group_ranges& to, const void* data, std::size_t size, std::size_t entry) {
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  if (size != 0) to.all[to.count++] = {{first, first + size}, entry, false};
}
inline void add_output(group_ranges& to, const sink& out, std::size_t entry) {
  const byte_range c = bytes_of(out);
  if (c.first != c.last) to.all[to.count++] = {c, entry, true};
}

/// The products of a group run at the same time, so no output may share memory with another or with any operand.
inline void check_group_memory(const group_ranges& ranges) {
  if (ranges.count != 0) std::qsort(ranges.all.data(), ranges.count, sizeof(group_range), &group_range::by_address);
  const group_range *output = nullptr, *operand = nullptr;  // those that reach furthest so far
  for (std::size_t i = 0; i < ranges.count; ++i) {
    const group_range& r = ranges.all[i];
    expects(output == nullptr || r.bytes.first >= output->bytes.last, "quantized_gemm_grouped: C[",
            output == nullptr ? 0 : output->entry, "] overlaps ", r.output ? "C[" : "an operand of product [", r.entry,
            "]");
    expects(!r.output || operand == nullptr || r.bytes.first >= operand->bytes.last, "quantized_gemm_grouped: C[",
            r.entry, "] overlaps an operand of product [", operand == nullptr ? 0 : operand->entry, "]");
    const group_range*& furthest = r.output ? output : operand;
    if (furthest == nullptr || r.bytes.last > furthest->bytes.last) furthest = &r;
  }
}

}  // namespace ufp4::detail::inline UFP4_CODE
