// ufp4 - the PTX interpreter: arithmetic of integers and floats, lane by lane.
// SPDX-License-Identifier: Apache-2.0
//
// Everything is correctly rounded, also .approx and .full, which the hardware rounds less well.
#include "gpu/ptx/decode.hpp"
#include "gpu/ptx/numbers.hpp"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <limits>

namespace ptx {

namespace {

template <class T, auto op>
void unary(warp& w, const instruction& i, mask m) {
  word* d = w.reg(i.out[0]);
  const word* a = w.reg(i.in[0]);
  each_lane(m, [&](unsigned l) { d[l] = put<T>(op(get<T>(a[l]))); });
}
template <class T, auto op>
void binary(warp& w, const instruction& i, mask m) {
  word* d = w.reg(i.out[0]);
  const word *a = w.reg(i.in[0]), *b = w.reg(i.in[1]);
  each_lane(m, [&](unsigned l) { d[l] = put<T>(op(get<T>(a[l]), get<T>(b[l]))); });
}
template <class T, auto op>
void ternary(warp& w, const instruction& i, mask m) {
  word* d = w.reg(i.out[0]);
  const word *a = w.reg(i.in[0]), *b = w.reg(i.in[1]), *c = w.reg(i.in[2]);
  each_lane(m, [&](unsigned l) { d[l] = put<T>(op(get<T>(a[l]), get<T>(b[l]), get<T>(c[l]))); });
}

// ---- Integers ----

template <class T>
using unsigned_of = std::make_unsigned_t<T>;
__extension__ using wide_unsigned = unsigned __int128;
__extension__ using wide_signed = __int128;
template <class T>
struct twice;
template <>
struct twice<std::uint16_t> {
  using type = std::uint32_t;
};
template <>
struct twice<std::int16_t> {
  using type = std::int32_t;
};
template <>
struct twice<std::uint32_t> {
  using type = std::uint64_t;
};
template <>
struct twice<std::int32_t> {
  using type = std::int64_t;
};
template <>
struct twice<std::uint64_t> {
  using type = wide_unsigned;
};
template <>
struct twice<std::int64_t> {
  using type = wide_signed;
};

template <class T>
constexpr T wrapped_add(T a, T b) {
  return static_cast<T>(static_cast<unsigned_of<T>>(static_cast<unsigned_of<T>>(a) + static_cast<unsigned_of<T>>(b)));
}
template <class T>
constexpr T wrapped_sub(T a, T b) {
  return static_cast<T>(static_cast<unsigned_of<T>>(static_cast<unsigned_of<T>>(a) - static_cast<unsigned_of<T>>(b)));
}
template <class T>
constexpr T wrapped_mul(T a, T b) {
  return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
template <class T>
constexpr T high_mul(T a, T b) {
  using W = typename twice<T>::type;
  return static_cast<T>((static_cast<W>(a) * static_cast<W>(b)) >> (8 * sizeof(T)));
}
template <class T>
constexpr T quotient(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return wrapped_sub<T>(0, a);
  return static_cast<T>(a / b);
}
template <class T>
constexpr T remainder(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return 0;
  return static_cast<T>(a % b);
}

template <class T>
handler integer_op(const std::string& op) {
  if (op == "add") return binary<T, [](T a, T b) { return wrapped_add(a, b); }>;
  if (op == "sub") return binary<T, [](T a, T b) { return wrapped_sub(a, b); }>;
  if (op == "mul") return binary<T, [](T a, T b) { return wrapped_mul(a, b); }>;
  if (op == "mulhi") return binary<T, [](T a, T b) { return high_mul(a, b); }>;
  if (op == "mad") return ternary<T, [](T a, T b, T c) { return wrapped_add(wrapped_mul(a, b), c); }>;
  if (op == "madhi") return ternary<T, [](T a, T b, T c) { return wrapped_add(high_mul(a, b), c); }>;
  if (op == "div") return binary<T, [](T a, T b) { return quotient(a, b); }>;
  if (op == "rem") return binary<T, [](T a, T b) { return remainder(a, b); }>;
  if (op == "min") return binary<T, [](T a, T b) { return a < b ? a : b; }>;
  if (op == "max") return binary<T, [](T a, T b) { return b < a ? a : b; }>;
  if (op == "neg") return unary<T, [](T a) { return wrapped_sub<T>(0, a); }>;
  if (op == "abs") return unary<T, [](T a) { return a < 0 ? wrapped_sub<T>(0, a) : a; }>;
  return nullptr;
}

template <class T>
void wide(warp& w, const instruction& i, mask m) {
  using W = typename twice<T>::type;
  word* d = w.reg(i.out[0]);
  const word *a = w.reg(i.in[0]), *b = w.reg(i.in[1]);
  const word* c = i.in.size() > 2 ? w.reg(i.in[2]) : nullptr;
  each_lane(m, [&](unsigned l) {
    const W p = static_cast<W>(get<T>(a[l])) * static_cast<W>(get<T>(b[l]));
    const auto sum = static_cast<std::uint64_t>(p) + (c == nullptr ? 0 : c[l]);
    d[l] = sizeof(T) == 2 ? sum & 0xFFFFFFFFu : sum;
  });
}

handler integer_handler(const statement& t, type_name type) {
  std::string op = t.op();
  const bool is_signed = type.letter == 's';
  if (t.has("wide"))
    return type.bits == 32 ? (is_signed ? handler(wide<std::int32_t>) : handler(wide<std::uint32_t>))
                           : (is_signed ? handler(wide<std::int16_t>) : handler(wide<std::uint16_t>));
  if (t.has("hi")) op += "hi";
  if (t.has("sat")) return nullptr;
  switch (type.bits) {
    case 16: return is_signed ? integer_op<std::int16_t>(op) : integer_op<std::uint16_t>(op);
    case 32: return is_signed ? integer_op<std::int32_t>(op) : integer_op<std::uint32_t>(op);
    case 64: return is_signed ? integer_op<std::int64_t>(op) : integer_op<std::uint64_t>(op);
    default: return nullptr;
  }
}

// ---- Floats ----

template <class T>
T minimum(T a, T b) {
  if (a != a) return canonical(b);
  if (b != b) return canonical(a);
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class T>
T maximum(T a, T b) {
  if (a != a) return canonical(b);
  if (b != b) return canonical(a);
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
/// min.NaN and max.NaN.
template <class T, T (*choose)(T, T)>
T or_nan(T a, T b) {
  return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : choose(a, b);
}
template <class T>
T saturated(T a) {
  return a != a ? T{0} : a < 0 ? T{0} : a > 1 ? T{1} : a;
}

template <class T>
handler nearest_op(const std::string& op) {
  if (op == "add") return binary<T, [](T a, T b) { return canonical(a + b); }>;
  if (op == "sub") return binary<T, [](T a, T b) { return canonical(a - b); }>;
  if (op == "mul") return binary<T, [](T a, T b) { return canonical(a * b); }>;
  if (op == "div") return binary<T, [](T a, T b) { return canonical(a / b); }>;
  if (op == "fma" || op == "mad") return ternary<T, [](T a, T b, T c) { return canonical(std::fma(a, b, c)); }>;
  if (op == "min") return binary<T, [](T a, T b) { return minimum(a, b); }>;
  if (op == "max") return binary<T, [](T a, T b) { return maximum(a, b); }>;
  if (op == "sqrt") return unary<T, [](T a) { return canonical(std::sqrt(a)); }>;
  if (op == "rcp") return unary<T, [](T a) { return canonical(T{1} / a); }>;
  if (op == "neg") return unary<T, [](T a) { return -a; }>;
  if (op == "abs") return unary<T, [](T a) { return std::fabs(a); }>;
  if (op == "rsqrt")
    return unary<T, [](T a) { return canonical(static_cast<T>(1.0L / std::sqrt(static_cast<long double>(a)))); }>;
  if (op == "ex2") return unary<T, [](T a) { return canonical(static_cast<T>(std::exp2(static_cast<double>(a)))); }>;
  if (op == "lg2") return unary<T, [](T a) { return canonical(static_cast<T>(std::log2(static_cast<double>(a)))); }>;
  if (op == "sin") return unary<T, [](T a) { return canonical(static_cast<T>(std::sin(static_cast<double>(a)))); }>;
  if (op == "cos") return unary<T, [](T a) { return canonical(static_cast<T>(std::cos(static_cast<double>(a)))); }>;
  if (op == "tanh") return unary<T, [](T a) { return canonical(static_cast<T>(std::tanh(static_cast<double>(a)))); }>;
  if (op == "copysign") return binary<T, [](T a, T b) { return std::copysign(b, a); }>;
  return nullptr;
}

/// Another rounding: of the environment, while the same handler runs.
void directed(warp& w, const instruction& i, mask m) {
  std::fesetround(static_cast<int>(i.b));
  static handler (*const find[])(const std::string&) = {nearest_op<float>, nearest_op<double>};
  static const char* const names[] = {"add", "sub", "mul", "div", "fma", "sqrt", "rcp"};
  find[i.d](names[i.c])(w, i, m);
  std::fesetround(FE_TONEAREST);
}
bool set_direction(const statement& t, instruction& i) {
  const std::string r = t.one_of({"rm", "rp", "rz"});
  if (r.empty()) return false;
  i.b = static_cast<unsigned>(r == "rm" ? FE_DOWNWARD : r == "rp" ? FE_UPWARD : FE_TOWARDZERO);
  static const char* const names[] = {"add", "sub", "mul", "div", "fma", "sqrt", "rcp"};
  for (i.c = 0; i.c < 7; ++i.c)
    if (t.op() == names[i.c]) break;
  if (i.c == 7) reject("has a rounding that the interpreter does not know");
  i.d = t.type() == "f64";
  i.run = directed;
  return true;
}

template <auto op>
void saturated_float(warp& w, const instruction& i, mask m) {
  nearest_op<float>(op())(w, i, m);
  each_lane(m, [&](unsigned l) { w.reg(i.out[0])[l] = put<float>(saturated(get<float>(w.reg(i.out[0])[l]))); });
}

/// Nothing between the operation and the type but these.
bool has_only(const statement& t, std::initializer_list<std::string_view> known) {
  const auto is_known = [&](const std::string& part) {
    return std::find(known.begin(), known.end(), part) != known.end();
  };
  return std::all_of(t.parts.begin() + 1, t.parts.end() - 1, is_known);
}

bool decode_float(const statement& t, instruction& i, type_name type) {
  if (!has_only(t, {"rn", "rm", "rp", "rz", "sat", "NaN", "approx", "full"})) return false;
  if (set_direction(t, i)) return true;
  if (t.has("sat") && type.bits == 32) {
    const std::string& op = t.op();
    if (op == "add") i.run = saturated_float<[] { return "add"; }>;
    if (op == "mul") i.run = saturated_float<[] { return "mul"; }>;
    if (op == "fma") i.run = saturated_float<[] { return "fma"; }>;
    return i.run != nullptr;
  }
  if (t.has("NaN")) {
    if (type.bits != 32) return false;
    if (t.op() == "min")
      i.run = binary<float, [](float a, float b) { return canonical(or_nan<float, minimum>(a, b)); }>;
    if (t.op() == "max")
      i.run = binary<float, [](float a, float b) { return canonical(or_nan<float, maximum>(a, b)); }>;
    return i.run != nullptr;
  }
  i.run = type.bits == 32 ? nearest_op<float>(t.op()) : nearest_op<double>(t.op());
  return i.run != nullptr;
}

// ---- f16 and bf16, alone and in pairs: computed in binary64 to odd, which rounds as the exact result does ----

template <class N>
double of_half(word w) {
  return N::value(static_cast<std::uint16_t>(w));
}
using half_op = double (*)(double, double, double);

half_op half_operation(const std::string& op) {
  if (op == "add") return [](double a, double b, double) { return odd_sum(a, b); };
  if (op == "sub") return [](double a, double b, double) { return odd_sum(a, -b); };
  if (op == "mul") return [](double a, double b, double) { return a * b; };
  if (op == "fma") return [](double a, double b, double c) { return odd_sum(a * b, c); };
  if (op == "min") return [](double a, double b, double) { return minimum(a, b); };
  if (op == "max") return [](double a, double b, double) { return maximum(a, b); };
  if (op == "neg") return [](double a, double, double) { return -a; };
  if (op == "abs") return [](double a, double, double) { return std::fabs(a); };
  if (op == "ex2") return [](double a, double, double) { return std::exp2(a); };
  if (op == "tanh") return [](double a, double, double) { return std::tanh(a); };
  return nullptr;
}
constexpr const char* half_names[] = {"add", "sub", "mul", "fma", "min", "max", "neg", "abs", "ex2", "tanh"};

/// a: which operation; b: how many halves; c: 1 with relu, 2 saturated; d: a NaN gives NaN.
template <class N>
void halves(warp& w, const instruction& i, mask m) {
  static const auto ops = [] {
    std::vector<half_op> all;
    for (const char* n : half_names) all.push_back(half_operation(n));
    return all;
  }();
  const half_op op = ops[i.a];
  const auto in = [&](unsigned n, unsigned l, unsigned h) {
    return n < i.in.size() ? of_half<N>(w.reg(i.in[n])[l] >> (16 * h)) : 0.0;
  };
  each_lane(m, [&](unsigned l) {
    word r = 0;
    for (unsigned h = 0; h < i.b; ++h) {
      const double a = in(0, l, h), b = in(1, l, h);
      double v = i.d && (a != a || b != b) ? std::nan("") : op(a, b, in(2, l, h));
      if (i.c == 1 && v < 0) v = 0;
      if (i.c == 2) v = saturated(v);
      r |= word{N::rounded(v)} << (16 * h);
    }
    w.reg(i.out[0])[l] = r;
  });
}

bool decode_half(const statement& t, instruction& i, type_name type) {
  if (!has_only(t, {"rn", "relu", "sat", "NaN", "approx"})) return false;
  for (i.a = 0; i.a < std::size(half_names); ++i.a)
    if (t.op() == half_names[i.a]) break;
  if (i.a == std::size(half_names)) return false;
  i.b = type.bits / 16;
  i.c = t.has("relu") ? 1 : t.has("sat") ? 2 : 0;
  i.d = t.has("NaN");
  i.run = type.letter == 'H' ? halves<f16> : halves<bf16>;
  return true;
}

}  // namespace

bool decode_arithmetic(scope& s, const statement& t, instruction& i) {
  if (t.has("ftz")) reject("flushes subnormals, which no kernel may");
  const type_name type = type_of(t.type());
  if (type.letter == 0 || t.operands.size() < 2) return false;
  i.out = {s.reg(t.operands[0])};
  for (std::size_t o = 1; o < t.operands.size(); ++o) i.in.push_back(s.reg(t.operands[o]));
  if (type.letter == 'H' || type.letter == 'B') return decode_half(t, i, type);
  if (type.letter == 'f') return decode_float(t, i, type);
  i.run = integer_handler(t, type);
  return i.run != nullptr;
}

}  // namespace ptx
