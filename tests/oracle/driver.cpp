// ufp4 - runs a file of cases through the public API, for the comparison with numerics.py.
// SPDX-License-Identifier: Apache-2.0
//
// usage: driver CASES ANSWERS. The case format is cases.py's: unsigned 64-bit little-endian scalars, arrays as byte
// length and bytes. An answer is a status (0 a result, 1 std::invalid_argument, 2 another exception) and a list of
// arrays.
#include <ufp4/ufp4.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using namespace ufp4;

// ---- Reading cases, writing answers ----

class reader {
 public:
  explicit reader(std::string_view data) : rest_{data} {}
  bool done() const { return rest_.empty(); }
  std::uint64_t scalar() {
    std::uint64_t v = 0;
    std::memcpy(&v, take(sizeof v).data(), sizeof v);
    return v;
  }
  std::size_t size() { return static_cast<std::size_t>(scalar()); }
  std::string_view bytes() { return take(size()); }
  template <class T>
  std::vector<T> array() {
    const auto raw = bytes();
    std::vector<T> v(raw.size() / sizeof(T));
    if (!v.empty()) std::memcpy(v.data(), raw.data(), v.size() * sizeof(T));
    return v;
  }

 private:
  std::string_view take(std::size_t n) {
    if (n > rest_.size()) throw std::runtime_error("the case file ends early");
    const auto head = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return head;
  }
  std::string_view rest_;
};

class answer {
 public:
  template <class Range>
  void add(const Range& values) {
    fields_.emplace_back(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(*values.data()));
  }
  friend bool operator==(const answer&, const answer&) = default;
  void write(std::ostream& out, std::uint64_t status) const {
    const auto put = [&](std::uint64_t v) { out.write(reinterpret_cast<const char*>(&v), sizeof v); };
    put(status);
    put(fields_.size());
    for (const auto& f : fields_) {
      put(f.size());
      out.write(f.data(), static_cast<std::streamsize>(f.size()));
    }
  }

 private:
  std::vector<std::string> fields_;
};

[[noreturn]] void unknown(const char* what, std::string_view name) {
  throw std::runtime_error(std::string("the driver has no ") + what + " named " + std::string(name));
}

// ---- Matrices ----

/// A rows x cols matrix of T in one of three layouts; what lies between its elements is `gap` and must stay so.
template <class T>
class stored {
 public:
  using word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>;

  stored(std::string_view layout, std::size_t rows, std::size_t cols, const std::vector<word>& bits)
      : rows_{rows}, cols_{cols} {
    if (layout == "packed") {
      row_stride_ = cols;
    } else if (layout == "strided") {
      row_stride_ = cols + 3;
    } else if (layout == "transposed") {
      row_stride_ = 1;
      col_stride_ = rows;
    } else {
      unknown("layout", layout);
    }
    data_.resize(rows * cols * 2 + 4 * (rows + cols) + 8);
    for (T& v : data_) put(v, gap);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c) put(data_[at(r, c)], bits[r * cols + c]);
  }
  matrix_view<const T> view() const {
    if (col_stride_ != 1) return transpose(matrix_view<const T>{data_.data(), cols_, rows_});
    return {data_.data(), rows_, cols_, static_cast<std::ptrdiff_t>(row_stride_)};
  }
  matrix_view<T> out() { return {data_.data(), rows_, cols_, static_cast<std::ptrdiff_t>(row_stride_)}; }
  std::vector<word> elements() const {
    std::vector<word> v(rows_ * cols_);
    for (std::size_t r = 0; r < rows_; ++r)
      for (std::size_t c = 0; c < cols_; ++c) std::memcpy(&v[r * cols_ + c], &data_[at(r, c)], sizeof(T));
    return v;
  }
  /// Throws if anything beside the elements was written.
  void expect_gaps_intact() {
    for (std::size_t r = 0; r < rows_; ++r)
      for (std::size_t c = 0; c < cols_; ++c) put(data_[at(r, c)], gap);
    for (const T& v : data_)
      if (std::memcmp(&v, &gap, sizeof(T)) != 0) throw std::runtime_error("wrote outside the output matrix");
  }

 private:
  static constexpr word gap = static_cast<word>(0x7FC17FC1u);
  std::size_t at(std::size_t r, std::size_t c) const { return r * row_stride_ + c * col_stride_; }
  static void put(T& v, word bits) { std::memcpy(static_cast<void*>(&v), &bits, sizeof(T)); }
  std::size_t rows_, cols_, row_stride_ = 0, col_stride_ = 1;
  std::vector<T> data_;
};

template <class T>
stored<T> read_as(reader& in, std::string_view layout) {
  const auto rows = in.size(), cols = in.size();
  return {layout, rows, cols, in.array<typename stored<T>::word>()};
}

/// Calls f with a stored<T> of the type that the case names.
template <class Function>
void with_matrix(reader& in, Function f) {
  const auto kind = in.bytes(), layout = in.bytes();
  if (kind == "float") return f(read_as<float>(in, layout));
  if (kind == "bf16") return f(read_as<bf16>(in, layout));
  if (kind == "fp16") return f(read_as<fp16>(in, layout));
  unknown("input type", kind);
}

stored<float> float_matrix(reader& in) {
  const auto kind = in.bytes(), layout = in.bytes();
  if (kind != "float") unknown("binary32 type", kind);
  return read_as<float>(in, layout);
}

stored<float> float_output(std::size_t rows, std::size_t cols) {
  return {"strided", rows, cols, std::vector<std::uint32_t>(rows * cols, 0xFFFFFFFFu)};
}

/// Every NaN has the same bits in an answer.
void add_output(answer& out, stored<float>& result) {
  auto elements = result.elements();
  for (auto& bits : elements)
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) bits = 0x7FC00000u;
  out.add(elements);
  result.expect_gaps_intact();
}

// ---- Policies by name ----

struct transform_case {
  std::string_view kind;
  std::size_t n;
  std::uint64_t seed;
  std::vector<std::int8_t> signs;
  bool to_bf16;

  explicit transform_case(reader& in)
      : kind{in.bytes()}, n{in.size()}, seed{in.scalar()}, signs{in.array<std::int8_t>()}, to_bf16{in.scalar() != 0} {}
};

template <int n, class Function>
void with_one_transform(const transform_case& t, Function f) {
  const auto call = [&](auto policy) { f(t.to_bf16 ? policy.to_bf16() : policy); };
  if (t.kind == "plain") return call(ufp4::hadamard<n>{});
  if (t.kind == "random") return call(ufp4::random_hadamard<n>{t.seed});
  if (t.kind == "signed") {
    std::array<int, n> signs{};
    for (std::size_t j = 0; j < signs.size(); ++j) signs[j] = t.signs.at(j);
    return call(ufp4::signed_hadamard<n>{signs});
  }
  unknown("transform", t.kind);
}

/// Calls f() or f(transform). Without `all`, only those that cases.py uses for every format: compile time.
template <bool all, class Function>
void with_transform(const transform_case& t, Function f) {
  if (t.kind == "none") return f();
  if (t.n == 16) return with_one_transform<16>(t, f);
  if constexpr (all) {
    if (t.n == 32) return with_one_transform<32>(t, f);
    if (t.n == 64) return with_one_transform<64>(t, f);
    if (t.n == 128) return with_one_transform<128>(t, f);
    if (t.n == 256) return with_one_transform<256>(t, f);
  } else if (t.n == 64 && t.kind == "random" && !t.to_bf16) {
    return f(ufp4::random_hadamard<64>{t.seed});
  } else if (t.n == 64 && t.kind == "random") {
    return f(ufp4::random_hadamard<64>{t.seed}.to_bf16());
  }
  unknown("transform length for this format", t.kind);
}

struct rounding_case {
  std::string_view kind;
  std::uint64_t seed, stream;

  explicit rounding_case(reader& in) : kind{in.bytes()}, seed{in.scalar()}, stream{in.scalar()} {}
};

/// Calls f(policy): with `all` of its own type, else as data, which is one instantiation instead of four.
template <bool all, class Function>
void with_rounding(const rounding_case& r, Function f) {
  if constexpr (!all) {
    ufp4::rounding_spec spec;
    return with_rounding<true>(r, [&](auto policy) { spec = policy; }), f(spec);
  }
  if (r.kind == "nearest_even") return f(ufp4::nearest_even{});
  if (r.kind == "nearest_away") return f(ufp4::nearest_away{});
  if (r.kind == "toward_zero") return f(ufp4::toward_zero{});
  if (r.kind == "stochastic") return f(ufp4::stochastic{.seed = r.seed, .stream = r.stream});
  if (r.kind == "eden") return f(ufp4::eden{.seed = r.seed, .stream = r.stream});
  unknown("rounding", r.kind);
}

// ---- Formats by name ----

/// One (format, scale rule) pair; no Rule: the format's default.
template <class Format, bool all_transforms = false, class... Rule>
struct variant {
  std::string_view name;
};

using e2m1_bf16 = block_format<fp4<E2M1>, bf16, 16>;
using e1m2_e4m3 = block_format<fp4<E1M2>, e4m3, 16>;
using int4_ue5m3 = block_format<int4, ue5m3, 16>;
using e3m0_float = block_format<fp4<E3M0>, float, 16>;
using e2m1_ue5m3 = block_format<fp4<E2M1>, ue5m3, 16>;
using e2m1_e4m3 = block_format<fp4<E2M1>, e4m3, 16>;
using e2m1_ue5m3_two = block_format<fp4<E2M1>, ue5m3, 16, float>;
using e3m0_e4m3_two = block_format<fp4<E3M0>, e4m3, 16, float>;
using e1m2_ue5m3_two = block_format<fp4<E1M2>, ue5m3, 16, float>;
using e3m0_mx = block_format<fp4<E3M0>, e8m0, 32>;
using nvfp4_square = block_format<fp4<E2M1>, e4m3, square(16), float>;
using e1m2_f32_square = block_format<fp4<E1M2>, float, square(16)>;
using mxint4_square = block_format<int4, e8m0, square(32)>;
using nf4_float = block_format<ufp4::nf4, float, 16>;
using e2m1_e4m3_row = block_format<fp4<E2M1>, e4m3, 16, ufp4::per_row<float>>;
using e2m1_e4m3_bf16 = block_format<fp4<E2M1>, e4m3, 16, bf16>;
template <class... Elements>
using one_of = ufp4::one_of<Elements...>;
using int4_of_6 = ufp4::scaled<int4, 6, 7>;
using e1m2_times_4 = ufp4::scaled<fp4<E1M2>, 4>;
using pair_float = block_format<one_of<fp4<E1M2>, fp4<E2M1>>, float, 16>;
using pair_bf16_square = block_format<one_of<int4, ufp4::scaled<fp4<E2M1>, 7, 6>>, bf16, square(16)>;
using four_e4m3_row = block_format<one_of<fp4<E2M1>, e1m2_times_4, int4_of_6, ufp4::scaled<ufp4::nf4, 6>>, e4m3, 16,
                                   ufp4::per_row<float>>;
using pair_ue5m3_two = block_format<one_of<fp4<E2M1>, int4_of_6>, ue5m3, 16, float>;
using pair_e8m0 = block_format<one_of<fp4<E2M1>, e1m2_times_4>, e8m0, 32>;
using e2m1_e8m0_groups = block_format<fp4<E2M1>, e8m0, ufp4::grouped(32, 8)>;
using e1m2_e4m3_groups = block_format<fp4<E1M2>, e4m3, ufp4::grouped(16, 8, 2), float>;
using e2m1_e6m2 = block_format<fp4<E2M1>, ufp4::e6m2, 16>;
using int4_ue5m3_square = block_format<int4, ue5m3, square(16), ufp4::per_segment<32, bf16>>;
using e2m1_e4m3_48 = block_format<fp4<E2M1>, e4m3, 16, ufp4::per_segment<48, float>>;
using int4_ue5m3_80 = block_format<int4, ue5m3, 16, ufp4::per_segment<80, bf16>>;
using e2m1_e4m3_square_48 = block_format<fp4<E2M1>, e4m3, square(16), ufp4::per_segment<48, bf16>>;
using nf4_e4m3_1040 = block_format<ufp4::nf4, e4m3, 16, ufp4::per_segment<1040, float>>;
using pair_ue5m3_96 =
    block_format<ufp4::one_of<fp4<E2M1>, ufp4::scaled<int4, 6, 7>>, ue5m3, 32, ufp4::per_segment<96, float>>;
using e1m2_e4m3_groups_160 = block_format<fp4<E1M2>, e4m3, ufp4::grouped(32, 8, 2), ufp4::per_segment<160, float>>;
using int8_e4m3_two = block_format<ufp4::int8, e4m3, 16, float>;
using mxint8_square = block_format<ufp4::int8q6, e8m0, square(32)>;

/// Rules with parameters, by name.
struct four_over_six_mae {
  constexpr ufp4::scale_rule_spec spec() const { return ufp4::four_over_six{ufp4::search_error::absolute}.spec(); }
};
template <int per_mille, bool searches = false>
struct percentile_of {
  constexpr ufp4::scale_rule_spec spec() const {
    ufp4::scale_rule_spec rule = ufp4::percentile{per_mille}.spec();
    rule.searches = searches;
    return rule;
  }
};
template <ufp4::scale_rule_spec::kind kind, ufp4::search_error error, int below, int above>
struct search_around {
  constexpr ufp4::scale_rule_spec spec() const { return {kind, true, error, {below, above}}; }
};
struct percentile_search_largest {
  constexpr ufp4::scale_rule_spec spec() const {
    ufp4::scale_rule_spec rule = percentile_of<900, true>{}.spec();
    rule.grids = ufp4::search_error::largest;
    return rule;
  }
};
/// A rule of a user whose scales are not all finite and positive.
struct users_rule {
  float operator()(const ufp4::block_values& v, float amax) const {
    return v.x[0] == 0 ? v.x[1] : (v.x[0] + 2 * amax) / 16;
  }
};
using up_wide_search = search_around<ufp4::scale_rule_spec::kind::up, ufp4::search_error::squared, 5, 9>;
using ceil_mae_wide_search = search_around<ufp4::scale_rule_spec::kind::mx_ceil, ufp4::search_error::absolute, 4, 3>;
using search_above = search_around<ufp4::scale_rule_spec::kind::by_format, ufp4::search_error::squared, 0, 5>;

template <class Format>
constexpr bool is_one_of_three = std::is_same_v<Format, ufp4::e1m2_f32> || std::is_same_v<Format, ufp4::nvfp4> ||
                                 std::is_same_v<Format, ufp4::mxfp4>;

constexpr auto absolute_error = ufp4::search_error::absolute, squared_error = ufp4::search_error::squared;

/// choose_grid with an error, as a type.
template <ufp4::search_error error>
struct choose_by {};
template <class Policy>
Policy policy_of(Policy policy) {
  return policy;
}
template <ufp4::search_error error>
ufp4::choose_grid policy_of(choose_by<error>) {
  return {error};
}

/// Every preset of a list; with `some_transforms` three of them under all transforms.
template <bool some_transforms, class List>
constexpr auto variants_of = []<class... Rows>(ufp4::detail::preset_rows<Rows...>) {
  return std::tuple{
      variant<typename Rows::format, some_transforms && is_one_of_three<typename Rows::format>>{Rows::name}...};
}(List{});
template <bool some_transforms>
constexpr auto preset_variants = std::tuple_cat(variants_of<some_transforms, ufp4::detail::presets>,
                                                variants_of<some_transforms, ufp4::detail::extended_presets>,
                                                variants_of<some_transforms, ufp4::detail::byte_presets>,
                                                variants_of<some_transforms, ufp4::detail::reference_presets>);

constexpr std::tuple variants =
    std::tuple_cat(preset_variants<true>,
                   std::tuple{
                       variant<nvfp4_square>{"nvfp4_square"},
                       variant<e1m2_f32_square>{"e1m2_f32_square"},
                       variant<mxint4_square>{"mxint4_square"},
                       variant<e2m1_bf16>{"E2M1_bf16_16"},
                       variant<e1m2_e4m3>{"E1M2_e4m3_16"},
                       variant<int4_ue5m3>{"int4_ue5m3_16"},
                       variant<e3m0_float>{"E3M0_float_16"},
                       variant<e2m1_ue5m3>{"E2M1_ue5m3_16"},
                       variant<e2m1_e4m3>{"E2M1_e4m3_16"},
                       variant<e2m1_ue5m3_two>{"E2M1_ue5m3_16_two"},
                       variant<e3m0_e4m3_two>{"E3M0_e4m3_16_two"},
                       variant<e1m2_ue5m3_two>{"E1M2_ue5m3_16_two"},
                       variant<e3m0_mx>{"E3M0_e8m0_32"},
                       variant<nf4_float>{"nf4_float_16"},
                       variant<ufp4::nvint4, false, percentile_of<940, true>>{"nvint4/percentile_search"},
                       variant<e2m1_bf16, false, percentile_of<900>>{"E2M1_bf16_16/percentile"},
                       variant<ufp4::int4_f32, false, percentile_of<900>>{"int4_f32/percentile"},
                       variant<ufp4::mxfp4, false, percentile_of<900>>{"mxfp4/percentile"},
                       variant<ufp4::nvfp4, false, percentile_of<900>>{"nvfp4/percentile"},
                       variant<nvfp4_square, false, percentile_of<990>>{"nvfp4_square/percentile"},
                       variant<ufp4::e1m2_f32, false, search_above>{"e1m2_f32/mse_search_above"},
                       variant<ufp4::mxint4, false, ceil_mae_wide_search>{"mxint4/mx_ceil_mae_wide_search"},
                       variant<ufp4::nvfp4, false, up_wide_search>{"nvfp4/scale_up_wide_search"},
                       variant<ufp4::nvfp4, false, four_over_six_mae>{"nvfp4/four_over_six_mae"},
                       variant<nf4_float, false, ufp4::mae_search>{"nf4_float_16/mae_search"},
                       variant<ufp4::e2m1_f32, false, ufp4::mae_search>{"e2m1_f32/mae_search"},
                       variant<ufp4::mxfp4, false, ufp4::mae_search>{"mxfp4/mae_search"},
                       variant<ufp4::nvfp4, false, ufp4::mae_search>{"nvfp4/mae_search"},
                       variant<nf4_float, false, ufp4::mse_search>{"nf4_float_16/mse_search"},
                       variant<e2m1_bf16, false, ufp4::mse_search>{"E2M1_bf16_16/mse_search"},
                       variant<ufp4::mxint8, false, ufp4::mse_search>{"mxint8/mse_search"},
                       variant<ufp4::int8_f32, false, ufp4::mse_search>{"int8_f32/mse_search"},
                       variant<int8_e4m3_two, false, ufp4::scale_up>{"int8_e4m3_16_two/scale_up"},
                       variant<ufp4::mxint8, false, ufp4::mx_ceil>{"mxint8/mx_ceil"},
                       variant<ufp4::mxfp8_e4m3, false, ufp4::mx_even>{"mxfp8_e4m3/mx_even"},
                       variant<ufp4::mxfp8_e5m2, false, ufp4::mx_ceil>{"mxfp8_e5m2/mx_ceil"},
                       variant<ufp4::mxfp6_e2m3, false, ufp4::mse_search>{"mxfp6_e2m3/mse_search"},
                       variant<ufp4::mxint8, false, ufp4::mx_even>{"mxint8/mx_even"},
                       variant<mxint8_square>{"mxint8_square"},
                       variant<int8_e4m3_two>{"int8_e4m3_16_two"},
                       variant<e2m1_e4m3_row>{"E2M1_e4m3_16_row"},
                       variant<e2m1_e4m3_bf16>{"E2M1_e4m3_16_bf16"},
                       variant<int4_ue5m3_square>{"int4_ue5m3_square_32_bf16"},
                       variant<e2m1_e4m3_48>{"E2M1_e4m3_16_48"},
                       variant<int4_ue5m3_80>{"int4_ue5m3_16_80_bf16"},
                       variant<e2m1_e4m3_square_48>{"E2M1_e4m3_square_48_bf16"},
                       variant<nf4_e4m3_1040>{"nf4_e4m3_16_1040"},
                       variant<pair_ue5m3_96>{"pair_ue5m3_32_96"},
                       variant<e1m2_e4m3_groups_160>{"e1m2_e4m3_groups_160"},
                       variant<e2m1_e8m0_groups>{"e2m1_e8m0_groups"},
                       variant<e1m2_e4m3_groups>{"e1m2_e4m3_groups"},
                       variant<e2m1_e6m2>{"e2m1_e6m2"},
                       variant<ufp4::hif4, false, ufp4::scale_up>{"hif4/scale_up"},
                       variant<pair_float>{"pair_float"},
                       variant<pair_bf16_square>{"pair_bf16_square"},
                       variant<four_e4m3_row>{"four_e4m3_row"},
                       variant<pair_ue5m3_two>{"pair_ue5m3_two"},
                       variant<pair_e8m0>{"pair_e8m0"},
                       variant<pair_e8m0, false, ufp4::mx_ceil>{"pair_e8m0/mx_ceil"},
                       variant<ufp4::if4, false, ufp4::scale_up>{"if4/scale_up"},
                       variant<ufp4::if4, false, choose_by<ufp4::search_error::absolute>>{"if4/choose_grid_absolute"},
                       variant<ufp4::if4, false, choose_by<ufp4::search_error::largest>>{"if4/choose_grid_largest"},
                       variant<e2m1_e4m3_row, false, ufp4::scale_up>{"E2M1_e4m3_16_row/scale_up"},
                       variant<ufp4::tetrajet2, false, ufp4::four_over_six>{"tetrajet2/four_over_six"},
                       variant<ufp4::tetrajet2, false, ufp4::mse_search>{"tetrajet2/mse_search"},
                       variant<ufp4::mxfp4, false, ufp4::mx_even>{"mxfp4/mx_even"},
                       variant<ufp4::mxfp4, false, ufp4::mx_ceil>{"mxfp4/mx_ceil"},
                       variant<ufp4::mxint4, false, ufp4::mx_even>{"mxint4/mx_even"},
                       variant<ufp4::mxint4, false, ufp4::mx_ceil>{"mxint4/mx_ceil"},
                       variant<ufp4::mx_e1m2, false, ufp4::mx_even>{"mx_e1m2/mx_even"},
                       variant<ufp4::mx_e1m2, false, ufp4::mx_ceil>{"mx_e1m2/mx_ceil"},
                       variant<e3m0_mx, false, ufp4::mx_even>{"E3M0_e8m0_32/mx_even"},
                       variant<e3m0_mx, false, ufp4::mx_ceil>{"E3M0_e8m0_32/mx_ceil"},
                       variant<ufp4::nvfp4, false, ufp4::scale_up>{"nvfp4/scale_up"},
                       variant<ufp4::nv_e1m2, false, ufp4::scale_up>{"nv_e1m2/scale_up"},
                       variant<e2m1_bf16, false, ufp4::scale_up>{"E2M1_bf16_16/scale_up"},
                       variant<e1m2_e4m3, false, ufp4::scale_up>{"E1M2_e4m3_16/scale_up"},
                       variant<int4_ue5m3, false, ufp4::scale_up>{"int4_ue5m3_16/scale_up"},
                       variant<e2m1_ue5m3_two, false, ufp4::scale_up>{"E2M1_ue5m3_16_two/scale_up"},
                       variant<ufp4::nvfp4, false, ufp4::four_over_six>{"nvfp4/four_over_six"},
                       variant<nvfp4_square, false, ufp4::four_over_six>{"nvfp4_square/four_over_six"},
                       variant<ufp4::e1m2_f32, false, ufp4::mse_search>{"e1m2_f32/mse_search"},
                       variant<ufp4::e2m1_f32, false, ufp4::mse_search>{"e2m1_f32/mse_search"},
                       variant<ufp4::nvfp4, false, ufp4::mse_search>{"nvfp4/mse_search"},
                       variant<ufp4::nvint4, false, ufp4::mse_search>{"nvint4/mse_search"},
                       variant<ufp4::mxfp4, false, ufp4::mse_search>{"mxfp4/mse_search"},
                       variant<ufp4::mx_e1m2, false, ufp4::mse_search>{"mx_e1m2/mse_search"},
                       variant<e1m2_e4m3, false, ufp4::mse_search>{"E1M2_e4m3_16/mse_search"},
                       variant<int4_ue5m3, false, ufp4::mse_search>{"int4_ue5m3_16/mse_search"},
                       variant<nvfp4_square, false, ufp4::mse_search>{"nvfp4_square/mse_search"},
                       variant<ufp4::mixfp4, false, percentile_of<900>>{"mixfp4/percentile"},
                       variant<ufp4::hif4, false, percentile_of<900>>{"hif4/percentile"},
                       variant<pair_float, false, percentile_of<900>>{"pair_float/percentile"},
                       variant<pair_e8m0, false, percentile_of<900>>{"pair_e8m0/percentile"},
                       variant<ufp4::mixfp4, false, choose_by<absolute_error>>{"mixfp4/choose_grid_absolute"},
                       variant<ufp4::razer, false, choose_by<ufp4::search_error::largest>>{"razer/choose_grid_largest"},
                       variant<ufp4::if4, false, ufp4::mse_search>{"if4/mse_search"},
                       variant<ufp4::mixfp4, false, ufp4::mse_search>{"mixfp4/mse_search"},
                       variant<ufp4::razer, false, ufp4::mse_search>{"razer/mse_search"},
                       variant<ufp4::hif4, false, ufp4::mse_search>{"hif4/mse_search"},
                       variant<pair_float, false, ufp4::mse_search>{"pair_float/mse_search"},
                       variant<pair_bf16_square, false, ufp4::mse_search>{"pair_bf16_square/mse_search"},
                       variant<four_e4m3_row, false, ufp4::mse_search>{"four_e4m3_row/mse_search"},
                       variant<pair_e8m0, false, ufp4::mse_search>{"pair_e8m0/mse_search"},
                       variant<e1m2_e4m3_groups, false, ufp4::mse_search>{"e1m2_e4m3_groups/mse_search"},
                       variant<ufp4::if4, false, ufp4::mae_search>{"if4/mae_search"},
                       variant<ufp4::hif4, false, ufp4::mae_search>{"hif4/mae_search"},
                       variant<pair_ue5m3_two, false, ufp4::mae_search>{"pair_ue5m3_two/mae_search"},
                       variant<e2m1_e8m0_groups, false, ufp4::mae_search>{"e2m1_e8m0_groups/mae_search"},
                       variant<ufp4::mixfp4, false, percentile_search_largest>{"mixfp4/percentile_search_largest"},
                       variant<ufp4::nvfp4, false, users_rule>{"nvfp4/users_rule"},
                       variant<ufp4::mxfp4, false, users_rule>{"mxfp4/users_rule"},
                       variant<ufp4::e2m1_f32, false, users_rule>{"e2m1_f32/users_rule"},
                       variant<e2m1_bf16, false, users_rule>{"E2M1_bf16_16/users_rule"},
                       variant<nvfp4_square, false, users_rule>{"nvfp4_square/users_rule"},
                       variant<ufp4::tetrajet2, false, users_rule>{"tetrajet2/users_rule"},
                   });

/// Calls f(entry) for the entry of `table` with that name.
template <class Table, class Function>
void with_named(const Table& table, std::string_view name, Function f) {
  bool found = false;
  std::apply([&](const auto&... entry) { ((entry.name == name ? (found = true, f(entry)) : void()), ...); }, table);
  if (!found) unknown("format", name);
}

// ---- Operations ----

template <class Type>
void convert(reader& in, answer& out) {
  std::vector<std::uint32_t> bits;
  std::vector<float> values;
  for (const float x : in.array<float>()) bits.push_back(Type{x}.bits());
  for (const std::uint32_t code : in.array<std::uint32_t>())
    values.push_back(static_cast<float>(Type::from_bits(static_cast<decltype(Type{0.0f}.bits())>(code))));
  out.add(bits);
  out.add(values);
}

void run_convert(reader& in, answer& out) {
  const auto type = in.bytes();
  if (type == "E2M1") return convert<fp4<E2M1>>(in, out);
  if (type == "E1M2") return convert<fp4<E1M2>>(in, out);
  if (type == "E3M0") return convert<fp4<E3M0>>(in, out);
  if (type == "int4") return convert<int4>(in, out);
  if (type == "nf4") return convert<ufp4::nf4>(in, out);
  if (type == "int8") return convert<ufp4::int8>(in, out);
  if (type == "int8q6") return convert<ufp4::int8q6>(in, out);
  if (type == "fp8_e4m3") return convert<ufp4::fp8_e4m3>(in, out);
  if (type == "fp8_e5m2") return convert<ufp4::fp8_e5m2>(in, out);
  if (type == "fp6_e3m2") return convert<ufp4::fp6_e3m2>(in, out);
  if (type == "fp6_e2m3") return convert<ufp4::fp6_e2m3>(in, out);
  if (type == "bf16") return convert<bf16>(in, out);
  if (type == "fp16") return convert<fp16>(in, out);
  if (type == "e4m3") return convert<e4m3>(in, out);
  if (type == "ue5m3") return convert<ue5m3>(in, out);
  if (type == "e8m0") return convert<e8m0>(in, out);
  if (type == "e6m2") return convert<ufp4::e6m2>(in, out);
  unknown("scalar type", type);
}

template <class Quantized>
void add_quantized(answer& out, const Quantized& q, const ufp4::quantize_report& report,
                   const ufp4::cpu::context& ctx = {}) {
  out.add(std::array{static_cast<std::uint64_t>(q.padded_cols())});
  out.add(q.codes());
  out.add(q.scale_bytes());
  out.add(std::array{static_cast<float>(q.tensor_scale())});
  out.add(std::array<std::uint64_t, 3>{report.nonfinite_blocks, report.saturated, report.underflowed_scales});
  auto decoded = float_output(q.rows(), q.cols());
  dequantize(q, decoded.out(), ctx);
  add_output(out, decoded);
}

struct quantize_case {
  transform_case transform;
  rounding_case rounding;
  bool has_amax;
  float amax;
  bool has_shard;
  ufp4::shard place;

  explicit quantize_case(reader& in)
      : transform{in},
        rounding{in},
        has_amax{in.scalar() != 0},
        amax{in.array<float>().at(0)},
        has_shard{in.scalar() != 0} {
    place.first_row = in.size();
    place.first_col = in.size();
    place.total_cols = in.size();
  }
};

/// The transform among the policies; none if there is none.
template <class... Policy>
ufp4::transform_spec transform_among(const Policy&... policies) {
  ufp4::transform_spec found;
  [[maybe_unused]] const auto look = [&](const auto& policy) {
    if constexpr (ufp4::detail::transform<std::remove_cvref_t<decltype(policy)>>) found = policy.spec();
  };
  (look(policies), ...);
  return found;
}

template <class Format, bool all, class T, class... Policy>
void quantize_with(const quantize_case& c, const stored<T>& x, answer& out, const Policy&... policies) {
  ufp4::quantize_report report;
  with_rounding<all>(c.rounding, [&](auto rounding) {
    const auto run = [&](const auto&... more) {
      const auto q = ufp4::quantize<Format>(x.view(), rounding, policies..., more..., ufp4::count_into{report});
      add_quantized(out, q, report);
    };
    // Without a tensor scale an amax would be an error; of a shard with one whose case has none it is the shard's own.
    if constexpr (Format::has_tensor_scale) {
      ufp4::tensor_amax amax{c.amax};
      if (!c.has_amax && c.has_shard) amax = ufp4::amax(x.view(), transform_among(policies...));
      if (c.has_shard) return run(c.place, amax);
      if (c.has_amax) return run(amax);
    } else {
      if (c.has_shard) return run(c.place);
    }
    run();
  });
}

template <class Format, bool all, class... Rule>
void quantize_variant(variant<Format, all, Rule...>, reader& in, answer& out) {
  with_matrix(in, [&]<class T>(const stored<T>& x) {
    const quantize_case c{in};
    if constexpr (std::is_same_v<T, float>) {
      with_transform<all>(c.transform, [&](auto... transform) {
        quantize_with<Format, all>(c, x, out, transform..., policy_of(Rule{})...);
      });
    } else if constexpr (all) {
      quantize_with<Format, all>(c, x, out, Rule{}...);
    } else {
      throw std::runtime_error("16-bit input only where all transforms are");
    }
  });
}

constexpr std::tuple three_formats{variant<ufp4::e1m2_f32>{"e1m2_f32"}, variant<ufp4::nvfp4>{"nvfp4"},
                                   variant<ufp4::mxfp4>{"mxfp4"}};

void run_fake(reader& in, answer& out) {
  with_named(three_formats, in.bytes(), [&]<class Format>(variant<Format>) {
    const auto x = float_matrix(in);
    const transform_case transform{in};
    const rounding_case rounding{in};
    const bool undo = in.scalar() != 0;
    auto result = float_output(x.view().rows(), x.view().cols());
    with_transform<true>(transform, [&](auto... t) {
      with_rounding<true>(rounding, [&](auto r) {
        if (undo)
          ufp4::fake_quantize<Format>(x.view(), result.out(), t..., r, ufp4::undo_transform{});
        else
          ufp4::fake_quantize<Format>(x.view(), result.out(), r, t...);
      });
    });
    add_output(out, result);
  });
}

constexpr std::tuple other_projects{
    variant<ufp4::compat::torchao_mx_floor>{"torchao_mx_floor"},
    variant<ufp4::compat::torchao_mx_even>{"torchao_mx_even"},
    variant<ufp4::compat::torchao_mx_ceil>{"torchao_mx_ceil"},
    variant<ufp4::compat::torchao_mx_rceil>{"torchao_mx_rceil"},
    variant<ufp4::compat::ggml_mxfp4>{"ggml_mxfp4"},
    variant<ufp4::compat::ggml_nvfp4>{"ggml_nvfp4"},
    variant<ufp4::compat::torchao_nvfp4>{"torchao_nvfp4"},
    variant<ufp4::compat::te_nvfp4>{"te_nvfp4"},
    variant<ufp4::compat::te_nvfp4_four_over_six<absolute_error, 256>>{"te_four_over_six_absolute_256"},
    variant<ufp4::compat::te_nvfp4_four_over_six<absolute_error, 448>>{"te_four_over_six_absolute_448"},
    variant<ufp4::compat::te_nvfp4_four_over_six<squared_error, 256>>{"te_four_over_six_squared_256"},
    variant<ufp4::compat::te_nvfp4_four_over_six<squared_error, 448>>{"te_four_over_six_squared_448"},
    variant<ufp4::compat::fouroversix_nvfp4<absolute_error>>{"fouroversix_absolute"},
    variant<ufp4::compat::fouroversix_nvfp4<squared_error>>{"fouroversix_squared"}};

void run_compat(reader& in, answer& out) {
  with_named(other_projects, in.bytes(), [&]<class Preset>(variant<Preset>) {
    const auto x = float_matrix(in);
    const transform_case transform{in};
    const bool has_amax = in.scalar() != 0;
    const ufp4::tensor_amax amax{in.array<float>().at(0)};
    ufp4::quantize_report report;
    const auto run = [&](const auto&... policies) {
      const auto q = ufp4::quantize<Preset>(x.view(), policies..., ufp4::count_into{report});
      add_quantized(out, q, report);
    };
    const auto with_amax = [&](const auto&... policies) {
      if constexpr (Preset::format::has_tensor_scale)
        if (has_amax) return run(policies..., amax);
      run(policies...);
    };
    if (transform.kind == "none") return with_amax();
    with_amax(ufp4::random_hadamard<16>{transform.seed});
  });
}

void run_ms_eden(reader& in, answer& out) {
  const auto x = float_matrix(in);
  const transform_case transform{in};
  const std::uint64_t seed = in.scalar(), stream = in.scalar();
  const auto call = [&](const auto& t) {
    add_quantized(out, ufp4::quantize_ms_eden(x.view(), t, ufp4::stochastic{.seed = seed, .stream = stream}), {});
  };
  with_transform<true>(transform, [&](const auto&... t) { (call(t), ...); });
}

void run_hadamard(reader& in, answer& out) {
  const auto x = float_matrix(in);
  const transform_case transform{in};
  auto forward = float_output(x.view().rows(), x.view().cols()), inverse = forward;
  const auto call = [&](const auto& t) {
    ufp4::hadamard_forward(x.view(), forward.out(), t);
    ufp4::hadamard_inverse(x.view(), inverse.out(), t);
  };
  with_transform<true>(transform, [&](const auto&... t) { (call(t), ...); });
  add_output(out, forward);
  add_output(out, inverse);
}

/// A quantized operand as its bytes lie in the case.
template <class Format>
struct stored_quantized {
  std::vector<std::uint8_t> codes;
  std::string_view scale_data;
  std::vector<std::uint32_t> scales;  ///< aligned as every scale type
  float tensor_scale;
  std::size_t rows, cols;

  explicit stored_quantized(reader& in)
      : codes{in.array<std::uint8_t>()},
        scale_data{in.bytes()},
        scales(scale_data.size() / 4 + 1),
        tensor_scale{in.array<float>().at(0)},
        rows{in.size()},
        cols{in.size()} {
    std::memcpy(scales.data(), scale_data.data(), scale_data.size());
  }
  ufp4::quantized_view<Format> view() const {
    const auto bytes = std::as_bytes(std::span(scales)).first(scale_data.size());
    return ufp4::quantized_view<Format>(
        ufp4::any_quantized_view(ufp4::spec_of<Format>, codes, bytes, tensor_scale, rows, cols));
  }
};

constexpr std::tuple viewed_formats =
    std::tuple_cat(preset_variants<false>,
                   std::tuple{variant<nvfp4_square>{"nvfp4_square"}, variant<e1m2_f32_square>{"e1m2_f32_square"},
                              variant<nf4_float>{"nf4_float_16"}});

void run_dequantize(reader& in, answer& out) {
  with_named(viewed_formats, in.bytes(), [&]<class Format>(variant<Format>) {
    const stored_quantized<Format> q{in};
    auto result = float_output(q.rows, q.cols);
    dequantize(q.view(), result.out());
    add_output(out, result);
  });
}

void run_cast(reader& in, answer& out) {
  const std::string to{in.bytes()};
  with_named(viewed_formats, in.bytes(), [&]<class Format>(variant<Format>) {
    const stored_quantized<Format> stored{in};
    ufp4::cast_report report;
    const ufp4::any_quantized q = ufp4::cast(stored.view(), ufp4::preset(to), report);
    out.add(std::array{static_cast<std::uint64_t>(q.padded_cols())});
    out.add(q.codes());
    out.add(q.scale_bytes());
    out.add(std::array{q.tensor_scale()});
    out.add(std::array<std::uint64_t, 3>{report.blocks, report.inexact_blocks, report.inexact_elements});
  });
}

ufp4::gemm_options options_named(std::string_view mode) {
  ufp4::gemm_options o;
  if (mode == "exact_blocks")
    o.accumulate = accumulate::exact_blocks;
  else if (mode == "fast")
    o.accumulate = accumulate::fast;
  else if (mode == "folded_bf16")
    o.accumulate = accumulate::folded_bf16;
  else
    unknown("accumulation", mode);
  return o;
}

void read_factors(reader& in, ufp4::gemm_options& options) {
  const auto factors = in.array<float>();
  options.alpha = factors.at(0);
  options.beta = factors.at(1);
}

template <class Result>
void add_product(answer& out, stored<Result>& c) {
  std::vector<float> values;
  for (const auto bits : c.elements()) {
    Result r{};
    std::memcpy(static_cast<void*>(&r), &bits, sizeof r);
    values.push_back(static_cast<float>(r));
  }
  out.add(values);
  c.expect_gaps_intact();
}

/// A pair of formats that a GEMM is asked for; `narrow` also writes bf16 and fp16.
template <class Left, class Right, bool narrow = false>
struct pairing {
  std::string_view left, right;
};

constexpr std::tuple pairings{
    pairing<ufp4::e1m2_f32, ufp4::e1m2_f32, true>{"e1m2_f32", "e1m2_f32"},
    pairing<ufp4::e1m2_f32, ufp4::int4_f32>{"e1m2_f32", "int4_f32"},
    pairing<ufp4::e2m1_f32, ufp4::nvfp4>{"e2m1_f32", "nvfp4"},
    pairing<ufp4::nvfp4, ufp4::nvfp4, true>{"nvfp4", "nvfp4"},
    pairing<ufp4::nvfp4, nvfp4_square>{"nvfp4", "nvfp4_square"},
    pairing<ufp4::nvint4, ufp4::e1m2_f32>{"nvint4", "e1m2_f32"},
    pairing<ufp4::nv_e1m2, ufp4::nvint4>{"nv_e1m2", "nvint4"},
    pairing<ufp4::mxfp4, ufp4::mxfp4, true>{"mxfp4", "mxfp4"},
    pairing<ufp4::mxint4, ufp4::mx_e1m2>{"mxint4", "mx_e1m2"},
    pairing<nf4_float, nf4_float>{"nf4_float_16", "nf4_float_16"},
    pairing<ufp4::e1m2_f32, nf4_float>{"e1m2_f32", "nf4_float_16"},
    pairing<ufp4::tetrajet2, ufp4::tetrajet2>{"tetrajet2", "tetrajet2"},
    pairing<ufp4::nvfp4, e2m1_e4m3_row>{"nvfp4", "E2M1_e4m3_16_row"},
    pairing<e2m1_e4m3_48, e2m1_e4m3_48>{"E2M1_e4m3_16_48", "E2M1_e4m3_16_48"},
    pairing<ufp4::tetrajet2, e2m1_e4m3_48>{"tetrajet2", "E2M1_e4m3_16_48"},
    pairing<ufp4::if4, ufp4::if4>{"if4", "if4"},
    pairing<ufp4::hif4, ufp4::hif4>{"hif4", "hif4"},
    pairing<ufp4::mixfp4, ufp4::razer>{"mixfp4", "razer"},
    pairing<ufp4::mxfp8_e4m3, ufp4::mxfp4>{"mxfp8_e4m3", "mxfp4"},
    pairing<ufp4::mxfp6_e2m3, ufp4::mxfp8_e5m2>{"mxfp6_e2m3", "mxfp8_e5m2"},
    pairing<ufp4::nvfp4, ufp4::if4>{"nvfp4", "if4"},
    pairing<ufp4::int8_f32, ufp4::nvfp4>{"int8_f32", "nvfp4"},
    pairing<ufp4::mxint8, ufp4::mxfp4>{"mxint8", "mxfp4"},
    pairing<ufp4::mxint8, ufp4::mxint8>{"mxint8", "mxint8"},
    pairing<ufp4::nvint4, ufp4::int8_f32>{"nvint4", "int8_f32"},
    pairing<ufp4::int8_f32, nf4_float>{"int8_f32", "nf4_float_16"},
};

void run_gemm(reader& in, answer& out) {
  auto options = options_named(in.bytes());
  reader names = in;  // both operands' names come before their bytes; the right one is found by reading past the left
  const auto left = names.bytes();
  for (int i = 0; i < 3; ++i) names.bytes();
  names.scalar();
  names.scalar();
  const auto right = names.bytes();
  bool found = false;
  const auto run = [&]<class Left, class Right, bool narrow>(const pairing<Left, Right, narrow>& p) {
    if (p.left != left || p.right != right) return;
    found = true;
    in.bytes();
    const stored_quantized<Left> a{in};
    in.bytes();
    const stored_quantized<Right> b{in};
    with_matrix(in, [&]<class T>(stored<T> c) {
      read_factors(in, options);
      if constexpr (narrow || std::is_same_v<T, float>) {
        quantized_gemm(a.view(), b.view(), c.out(), options);
        add_product(out, c);
      } else {
        unknown("16-bit output for", left);
      }
    });
  };
  std::apply([&](const auto&... p) { (run(p), ...); }, pairings);
  if (!found) unknown("pair of formats", std::string(left) + " and " + std::string(right));
}

constexpr std::tuple plain_left_formats{variant<ufp4::e1m2_f32>{"e1m2_f32"},
                                        variant<ufp4::nvfp4>{"nvfp4"},
                                        variant<ufp4::mxfp4>{"mxfp4"},
                                        variant<ufp4::nvint4>{"nvint4"},
                                        variant<nf4_float>{"nf4_float_16"},
                                        variant<ufp4::tetrajet2>{"tetrajet2"},
                                        variant<ufp4::if4>{"if4"},
                                        variant<ufp4::hif4>{"hif4"},
                                        variant<ufp4::int8_f32>{"int8_f32"},
                                        variant<ufp4::razer>{"razer"},
                                        variant<ufp4::mxfp6_e3m2>{"mxfp6_e3m2"}};

void run_gemm_plain(reader& in, answer& out) {
  auto options = options_named(in.bytes());
  with_matrix(in, [&](const auto& a) {
    with_named(plain_left_formats, in.bytes(), [&]<class Format>(variant<Format>) {
      const stored_quantized<Format> b{in};
      auto c = float_matrix(in);
      read_factors(in, options);
      quantized_gemm(a.view(), b.view(), c.out(), options);
      add_product(out, c);
    });
  });
}

template <class Left, class Right>
void gemm_fly(reader& in, answer& out) {
  const auto x = float_matrix(in), w = float_matrix(in);
  const ufp4::random_hadamard<64> transform{in.scalar()};
  ufp4::stochastic random_bits;
  random_bits.seed = in.scalar();
  random_bits.stream = in.scalar();
  auto c = float_output(x.view().rows(), w.view().rows());
  quantized_gemm(ufp4::operand<Left>(x.view(), transform, random_bits), ufp4::operand<Right>(w.view(), transform),
                 c.out(), options_named("exact_blocks"));
  add_output(out, c);
}

void run_gemm_fly(reader& in, answer& out) {
  const auto left = in.bytes(), right = in.bytes();
  if (left == "e1m2_f32" && right == "int4_f32") return gemm_fly<ufp4::e1m2_f32, ufp4::int4_f32>(in, out);
  if (left == "nvfp4" && right == "nvfp4") return gemm_fly<ufp4::nvfp4, ufp4::nvfp4>(in, out);
  if (left == "mxfp4" && right == "mxint4") return gemm_fly<ufp4::mxfp4, ufp4::mxint4>(in, out);
  unknown("pair of formats", left);
}

void run_derive(reader& in, answer& out) {
  const auto rows = in.array<std::uint64_t>();
  std::vector<std::uint64_t> words;
  for (std::size_t i = 0; i + 3 < rows.size(); i += 4)
    words.push_back(ufp4::recipe::derive(rows[i], rows[i + 1], static_cast<std::uint32_t>(rows[i + 2]),
                                         static_cast<std::uint32_t>(rows[i + 3])));
  out.add(words);
}

void linear(ufp4::recipe::training_recipe recipe, std::string_view gemm, std::uint64_t step, std::uint32_t layer,
            reader& in, answer& out) {
  const auto left = float_matrix(in), right = float_matrix(in);
  const auto l = left.view(), r = right.view();
  recipe.accumulate = accumulate::exact_blocks;
  const auto now = recipe.at(step, layer);
  if (gemm == "fprop") {
    auto y = float_output(l.rows(), r.rows());
    linear_forward(now, l, r, y.out());
    return add_output(out, y);
  }
  if (gemm == "dgrad") {
    auto dx = float_output(l.rows(), r.cols());
    linear_backward_input(now, l, r, dx.out());
    return add_output(out, dx);
  }
  auto dw = float_output(l.cols(), r.cols());
  linear_backward_weight(now, l, r, dw.out());
  add_output(out, dw);
}

void run_linear(reader& in, answer& out) {
  const auto name = in.bytes(), gemm = in.bytes();
  const auto seed = in.scalar(), step = in.scalar();
  const auto layer = static_cast<std::uint32_t>(in.scalar());
  constexpr ufp4::recipe::named_recipe others[] = {{"ufp4-nvint4", ufp4::recipe::ufp4_recipe<ufp4::nvint4>},
                                                   {"ufp4-mx_e1m2", ufp4::recipe::ufp4_recipe<ufp4::mx_e1m2>},
                                                   {"ufp4-mxint4", ufp4::recipe::ufp4_recipe<ufp4::mxint4>}};
  const auto run_named = [&](std::span<const ufp4::recipe::named_recipe> recipes) {
    for (const auto& recipe : recipes)
      if (name == recipe.name) return linear(recipe.make(seed), gemm, step, layer, in, out), true;
    return false;
  };
  if (run_named(ufp4::recipe::named_recipes) || run_named(others)) return;
  unknown("recipe", name);
}

void run_measure(reader& in, answer& out) {
  constexpr std::tuple measured{variant<ufp4::e1m2_f32>{"e1m2_f32"}, variant<ufp4::e2m1_f32>{"e2m1_f32"},
                                variant<ufp4::nvfp4>{"nvfp4"},       variant<ufp4::mxfp4>{"mxfp4"},
                                variant<ufp4::int4_f32>{"int4_f32"}, variant<ufp4::tetrajet2>{"tetrajet2"},
                                variant<ufp4::if4>{"if4"},           variant<ufp4::mixfp4>{"mixfp4"},
                                variant<ufp4::razer>{"razer"},       variant<ufp4::hif4>{"hif4"}};
  with_named(measured, in.bytes(), [&]<class Format>(variant<Format>) {
    const auto x = float_matrix(in);
    const transform_case transform{in};
    with_transform<false>(transform, [&](auto... t) {
      const auto report = ufp4::analysis::measure<Format>(x.view(), t...);
      double delta = 0;
      if constexpr (sizeof...(t) != 0) delta = ufp4::analysis::delta_sqnr<Format>(x.view(), t...);
      out.add(std::array<double, 4>{report.attenuation, report.sqnr_db, report.bucket_utilization, delta});
    });
  });
}

template <class Element>
void bias(answer& out) {
  std::array<double, 8> values{};
  for (std::uint8_t i = 0; i < 8; ++i) values[i] = ufp4::analysis::bin_bias<Element>(i);
  out.add(values);
}

void run_bin_bias(reader& in, answer& out) {
  const auto name = in.bytes();
  if (name == "E2M1") return bias<fp4<E2M1>>(out);
  if (name == "E1M2") return bias<fp4<E1M2>>(out);
  if (name == "E3M0") return bias<fp4<E3M0>>(out);
  if (name == "int4") return bias<int4>(out);
  unknown("element", name);
}

// ---- Formats of a program's own, as data ----

/// A format, and the further grids that it refers to.
struct user_format {
  std::array<ufp4::detail::scaled_grid, 3> more{};
  ufp4::format_spec spec{};

  explicit user_format(reader& in) {
    const auto values = in.array<float>(), factors = in.array<float>();
    spec.grid = grid_at(values, 0);
    for (std::size_t g = 0; g < factors.size(); ++g) more.at(g) = {grid_at(values, g + 1), factors[g]};
    spec.choice = {static_cast<int>(factors.size()), more.data()};
    const auto n = in.array<std::int64_t>();
    const auto number = [&](std::size_t i) { return static_cast<int>(n.at(i)); };
    spec.scale = static_cast<ufp4::scale_kind>(number(0));
    spec.block = {number(1), number(2), {number(3), number(4)}};
    spec.outer = {static_cast<ufp4::outer_scale::kind>(number(5)), static_cast<ufp4::scale_kind>(number(6)), number(7)};
  }
  user_format(const user_format&) = delete;

 private:
  static ufp4::grid4 grid_at(const std::vector<float>& values, std::size_t g) {
    float of_code[16];
    for (std::size_t c = 0; c < 16; ++c) of_code[c] = values.at(16 * g + c);
    return ufp4::grid4::of(of_code);
  }
};

ufp4::transform_spec read_transform(reader& in) {
  ufp4::transform_spec spec;
  with_transform<true>(transform_case{in}, [&](const auto&... t) { ((spec = t.spec()), ...); });
  return spec;
}
ufp4::rounding_spec read_rounding(reader& in) {
  ufp4::rounding_spec spec;
  with_rounding<true>(rounding_case{in}, [&](auto policy) { spec = policy; });
  return spec;
}
ufp4::scale_rule_spec read_rule(reader& in) {
  const auto n = in.array<std::int64_t>();
  return {static_cast<ufp4::scale_rule_spec::kind>(n.at(0)),
          n.at(1) != 0,
          static_cast<ufp4::search_error>(n.at(2)),
          {static_cast<std::uint8_t>(n.at(3)), static_cast<std::uint8_t>(n.at(4))},
          static_cast<std::uint16_t>(n.at(5)),
          static_cast<ufp4::search_error>(n.at(6))};
}

/// A matrix of such a format, and the bytes that it refers to.
struct user_quantized {
  user_format format;
  ufp4::transform_spec transform;
  std::vector<std::uint8_t> codes, scales;
  float tensor_scale;
  std::size_t rows, cols;

  explicit user_quantized(reader& in)
      : format{in},
        transform{read_transform(in)},
        codes{in.array<std::uint8_t>()},
        scales{in.array<std::uint8_t>()},
        tensor_scale{in.array<float>().at(0)},
        rows{in.size()},
        cols{in.size()} {}
  ufp4::any_quantized_view view() const {
    return {format.spec, codes, std::as_bytes(std::span(scales)), tensor_scale, rows, cols, transform};
  }
};

/// Calls f(context, isa's name) on every instruction set of the machine, scalar first.
template <class Function>
void on_every_isa(Function f) {
  for (const auto isa : ufp4::cpu::all_isas)
    if (ufp4::cpu::available().has(isa)) f(ufp4::cpu::context{.threads = 1, .isa = isa}, ufp4::cpu::name(isa));
}
/// The answer of f(context, answer), which every instruction set must give.
template <class Function>
void same_on_every_isa(answer& out, Function f) {
  on_every_isa([&](const ufp4::cpu::context& ctx, const char* name) {
    answer here;
    f(ctx, here);
    if (ctx.isa == ufp4::cpu::isa::scalar) out = here;
    if (here != out) throw std::runtime_error(std::string(name) + " differs from scalar");
  });
}

void run_user_quantize(reader& in, answer& out) {
  const user_format format{in};
  const auto x = float_matrix(in);
  const auto transform = read_transform(in);
  const auto rounding = read_rounding(in);
  const auto rule = read_rule(in);
  const bool has_amax = in.scalar() != 0;
  const ufp4::tensor_amax amax{in.array<float>().at(0)};
  same_on_every_isa(out, [&](const ufp4::cpu::context& ctx, answer& here) {
    ufp4::quantize_report report;
    const auto run = [&](const auto&... more) {
      const auto q =
          ufp4::quantize(format.spec, x.view(), transform, rounding, rule, ufp4::count_into{report}, ctx, more...);
      add_quantized(here, q, report, ctx);
    };
    has_amax ? run(amax) : run();
  });
}

void run_user_cast(reader& in, answer& out) {
  const user_format to{in};
  const user_quantized from{in};
  same_on_every_isa(out, [&](const ufp4::cpu::context& ctx, answer& here) {
    ufp4::cast_report report;
    const ufp4::any_quantized q = ufp4::cast(from.view(), to.spec, report, ctx);
    here.add(std::array{static_cast<std::uint64_t>(q.padded_cols())});
    here.add(q.codes());
    here.add(q.scale_bytes());
    here.add(std::array{q.tensor_scale()});
    here.add(std::array<std::uint64_t, 3>{report.blocks, report.inexact_blocks, report.inexact_elements});
    here.add(std::array{report.signal, report.noise});
  });
}

/// exact_blocks: the product. Other modes: of each element the least and the greatest that an instruction set gives, or
/// a NaN. With B as it is and prepacked.
void run_user_gemm(reader& in, answer& out) {
  auto options = options_named(in.bytes());
  const user_quantized a{in}, b{in};
  const auto initial = float_matrix(in);
  read_factors(in, options);
  const auto packed = ufp4::prepack(b.view());
  const auto product = [&](const auto& right, const ufp4::cpu::context& ctx) {
    auto c = initial;
    quantized_gemm(a.view(), right, c.out(), options, ctx);
    std::pair<answer, std::vector<std::uint32_t>> result{{}, c.elements()};
    add_output(result.first, c);
    return result;
  };
  if (options.accumulate == accumulate::exact_blocks)
    return same_on_every_isa(out, [&](const ufp4::cpu::context& ctx, answer& here) {
      here = product(b.view(), ctx).first;
      if (here != product(packed, ctx).first) throw std::runtime_error("prepacked weights give another product");
    });
  std::vector<float> least, greatest;
  const auto add = [&](const std::vector<std::uint32_t>& bits) {
    least.resize(bits.size(), std::numeric_limits<float>::infinity());
    greatest.resize(bits.size(), -std::numeric_limits<float>::infinity());
    for (std::size_t i = 0; i < bits.size(); ++i) {
      float c;
      std::memcpy(&c, &bits[i], sizeof c);
      if (c != c || c < least[i]) least[i] = c;  // a NaN stays
      if (c != c || c > greatest[i]) greatest[i] = c;
    }
  };
  on_every_isa([&](const ufp4::cpu::context& ctx, const char*) {
    add(product(b.view(), ctx).second);
    add(product(packed, ctx).second);
  });
  out.add(least);
  out.add(greatest);
}

void run(reader& in, answer& out) {
  const auto operation = in.bytes();
  if (operation == "convert") return run_convert(in, out);
  if (operation == "quantize")
    return with_named(variants, in.bytes(), [&](const auto& entry) { quantize_variant(entry, in, out); });
  if (operation == "fake") return run_fake(in, out);
  if (operation == "hadamard") return run_hadamard(in, out);
  if (operation == "dequantize") return run_dequantize(in, out);
  if (operation == "cast") return run_cast(in, out);
  if (operation == "gemm") return run_gemm(in, out);
  if (operation == "gemm_plain") return run_gemm_plain(in, out);
  if (operation == "gemm_fly") return run_gemm_fly(in, out);
  if (operation == "derive") return run_derive(in, out);
  if (operation == "linear") return run_linear(in, out);
  if (operation == "compat") return run_compat(in, out);
  if (operation == "ms_eden") return run_ms_eden(in, out);
  if (operation == "measure") return run_measure(in, out);
  if (operation == "bin_bias") return run_bin_bias(in, out);
  if (operation == "user_quantize") return run_user_quantize(in, out);
  if (operation == "user_cast") return run_user_cast(in, out);
  if (operation == "user_gemm") return run_user_gemm(in, out);
  unknown("operation", operation);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: driver CASES ANSWERS\n"), 2;
  std::ifstream file(argv[1], std::ios::binary);
  if (!file) return std::fprintf(stderr, "driver: cannot read %s\n", argv[1]), 2;
  const std::string data{std::istreambuf_iterator<char>(file), {}};
  std::ofstream answers(argv[2], std::ios::binary);
  reader all{data};
  while (!all.done()) {
    reader in{all.bytes()};
    answer result;
    std::uint64_t status = 0;
    try {
      run(in, result);
    } catch (const std::exception& e) {
      status = dynamic_cast<const std::invalid_argument*>(&e) != nullptr ? 1 : 2;
      result = {};
      result.add(std::string_view(e.what()));
    }
    result.write(answers, status);
    answers.flush();  // a crash then shows at its case
  }
  return answers.good() ? 0 : 1;
}
