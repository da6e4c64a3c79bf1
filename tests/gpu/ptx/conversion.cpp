// ufp4 - the PTX interpreter: cvt.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/ptx/decode.hpp"
#include "gpu/ptx/numbers.hpp"

#include <algorithm>
#include <cfenv>
#include <cmath>

namespace ptx {

namespace {

enum rounding : unsigned { nearest, zero, down, up };

/// An integer or float as the widest of its kind.
struct number {
  bool is_float = false;
  double f = 0;
  std::int64_t s = 0;
  std::uint64_t u = 0;
};

std::int64_t extended(word w, unsigned bits) { return static_cast<std::int64_t>(w << (64 - bits)) >> (64 - bits); }
word low(word w, unsigned bits) { return bits >= 64 ? w : w & ((word{1} << bits) - 1); }

double float_value(type_name t, word w) {
  if (t.letter == 'H') return f16::value(static_cast<std::uint16_t>(w));
  if (t.letter == 'B') return bf16::value(static_cast<std::uint16_t>(w));
  return t.bits == 32 ? static_cast<double>(get<float>(w)) : get<double>(w);
}
double integral(double v, unsigned r) {
  switch (r) {
    case nearest: return std::nearbyint(v);
    case zero: return std::trunc(v);
    case down: return std::floor(v);
    default: return std::ceil(v);
  }
}
word float_code(type_name t, double v, unsigned r) {
  if (t.letter == 'H') return f16::rounded(v);
  if (t.letter == 'B') return bf16::rounded(v);
  if (t.bits == 64) return put(v);
  float f = static_cast<float>(v);
  const auto d = static_cast<double>(f);
  if (r == zero && std::fabs(d) > std::fabs(v)) f = std::nextafterf(f, 0.0f);
  if (r == down && d > v) f = std::nextafterf(f, -HUGE_VALF);
  if (r == up && d < v) f = std::nextafterf(f, HUGE_VALF);
  return put(canonical(f));
}
word integer_of(type_name t, double v, unsigned r) {
  if (v != v) return t.bits == 64 ? word{1} << 63 : 0;
  v = integral(v, r);
  if (t.letter == 'u') {
    const double most = std::ldexp(1.0, static_cast<int>(t.bits));
    return v <= 0 ? 0 : v >= most ? low(~word{0}, t.bits) : static_cast<word>(v);
  }
  const double most = std::ldexp(1.0, static_cast<int>(t.bits) - 1);
  const std::int64_t n = v >= most   ? static_cast<std::int64_t>((word{1} << (t.bits - 1)) - 1)
                         : v < -most ? extended(word{1} << (t.bits - 1), t.bits)
                                     : static_cast<std::int64_t>(v);
  return static_cast<word>(n);
}
word saturated_integer(type_name to, type_name from, word w) {
  __extension__ using wide = __int128;
  const wide v = from.letter == 's' ? wide{extended(w, from.bits)} : wide{low(w, from.bits)};
  const wide one = 1;
  const wide least = to.letter == 's' ? -(one << (to.bits - 1)) : wide{0};
  const wide most = (one << (to.bits - (to.letter == 's'))) - 1;
  return static_cast<word>(std::clamp(v, least, most));
}

struct conversion {
  type_name to, from;
  unsigned rounding = nearest;
  bool integral = false, saturate = false, relu = false;
};
/// Of the instruction's a: both types, packed.
conversion unpacked(const instruction& i) {
  conversion c;
  c.to = {static_cast<char>(i.a & 255), i.a >> 8 & 255};
  c.from = {static_cast<char>(i.a >> 16 & 255), i.a >> 24};
  c.rounding = i.b;
  c.integral = (i.c & 1) != 0;
  c.saturate = (i.c & 2) != 0;
  c.relu = (i.c & 4) != 0;
  return c;
}

word converted(const conversion& c, word w) {
  if (!c.from.is_float() && !c.to.is_float()) {
    if (c.saturate) w = saturated_integer(c.to, c.from, w);
    return c.from.letter == 's' ? static_cast<word>(extended(w, c.from.bits))
                                : low(w, c.saturate ? c.to.bits : c.from.bits);
  }
  if (!c.from.is_float()) {
    if (c.to.letter == 'f' && c.to.bits == 32 && c.rounding == nearest)  // once, not through binary64
      return c.from.letter == 's' ? put(static_cast<float>(extended(w, c.from.bits)))
                                  : put(static_cast<float>(low(w, c.from.bits)));
    return float_code(
        c.to,
        c.from.letter == 's' ? static_cast<double>(extended(w, c.from.bits)) : static_cast<double>(low(w, c.from.bits)),
        c.rounding);
  }
  double v = float_value(c.from, w);
  if (!c.to.is_float()) return integer_of(c.to, v, c.rounding);
  if (c.integral) v = integral(v, c.rounding);
  if (c.relu && !(v > 0)) v = 0;
  if (c.saturate) v = v != v ? 0 : std::clamp(v, 0.0, 1.0);
  return float_code(c.to, v, c.rounding);
}

void convert(warp& w, const instruction& i, mask m) {
  const conversion c = unpacked(i);
  each_lane(m, [&](unsigned l) { w.reg(i.out[0])[l] = converted(c, w.reg(i.in[0])[l]); });
}
void convert_integers(warp& w, const instruction& i, mask m) {
  const unsigned from = i.a >> 24;
  const bool is_signed = (i.a >> 16 & 255) == 's';
  word* d = w.reg(i.out[0]);
  const word* a = w.reg(i.in[0]);
  const unsigned to = i.a >> 8 & 255;
  const bool to_signed = (i.a & 255) == 's';
  each_lane(m, [&](unsigned l) {
    const word v = is_signed ? static_cast<word>(extended(a[l], from)) : low(a[l], from);
    d[l] = to_signed ? static_cast<word>(extended(v, to)) : low(v, to);
  });
}

/// Two floats to a pair: the first operand becomes the upper half. a: 0 f16, 1 bf16, 2 e4m3, 3 e5m2; c: 1 relu
void convert_pair(warp& w, const instruction& i, mask m) {
  each_lane(m, [&](unsigned l) {
    double v[2] = {get<float>(w.reg(i.in[1])[l]), get<float>(w.reg(i.in[0])[l])};
    if (i.c != 0)
      for (double& x : v) x = x < 0 ? 0 : x;
    w.reg(i.out[0])[l] = i.a == 0   ? f16::rounded(v[0]) | word{f16::rounded(v[1])} << 16
                         : i.a == 1 ? bf16::rounded(v[0]) | word{bf16::rounded(v[1])} << 16
                         : i.a == 2 ? e4m3::rounded(v[0]) | word{e4m3::rounded(v[1])} << 8
                                    : e5m2::rounded(v[0]) | word{e5m2::rounded(v[1])} << 8;
  });
}
void unpack_eight(warp& w, const instruction& i, mask m) {
  each_lane(m, [&](unsigned l) {
    word r = 0;
    for (unsigned h = 0; h < 2; ++h) {
      const auto c = static_cast<std::uint8_t>(w.reg(i.in[0])[l] >> (8 * h));
      r |= word{f16::rounded(i.a == 2 ? e4m3::value(c) : e5m2::value(c))} << (16 * h);
    }
    w.reg(i.out[0])[l] = r;
  });
}

bool decode_pair(scope& s, const statement& t, instruction& i, const std::string& to, const std::string& from) {
  static const char* const names[] = {"f16x2", "bf16x2", "e4m3x2", "e5m2x2"};
  i.out = {s.reg(t.operands.at(0))};
  for (std::size_t o = 1; o < t.operands.size(); ++o) i.in.push_back(s.reg(t.operands[o]));
  i.c = t.has("relu");
  if (to == "f16x2" && (from == "e4m3x2" || from == "e5m2x2")) {
    i.a = from == "e4m3x2" ? 2 : 3;
    i.run = unpack_eight;
    return true;
  }
  for (i.a = 0; i.a < 4; ++i.a)
    if (to == names[i.a]) break;
  i.run = convert_pair;
  return i.a < 4 && from == "f32" && i.in.size() == 2 && !t.has("rz") && !t.has("rs");
}

}  // namespace

bool decode_conversion(scope& s, const statement& t, instruction& i) {
  if (t.op() != "cvt" || t.parts.size() < 3) return false;
  if (t.has("ftz")) reject("flushes subnormals, which no kernel may");
  const std::string &to = t.parts[t.parts.size() - 2], &from = t.parts.back();
  if (to.find("x2") != std::string::npos) return decode_pair(s, t, i, to, from);
  const type_name d = type_of(to), f = type_of(from);
  if (d.letter == 0 || f.letter == 0) return false;
  i.out = {s.reg(t.operands.at(0))};
  i.in = {s.reg(t.operands.at(1))};
  i.a = static_cast<unsigned>(d.letter) | d.bits << 8 | static_cast<unsigned>(f.letter) << 16 | f.bits << 24;
  const std::string r = t.one_of({"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi"});
  i.b = r.empty() || r[1] == 'n' ? nearest : r[1] == 'z' ? zero : r[1] == 'm' ? down : up;
  i.c = (r.size() == 3 ? 1u : 0u) | (t.has("sat") ? 2u : 0u) | (t.has("relu") ? 4u : 0u);
  if (i.b != nearest && (d.letter == 'H' || d.letter == 'B'))
    reject("has a rounding that the interpreter does not know");
  const bool integers = !d.is_float() && !f.is_float() && i.c == 0;
  i.run = integers ? convert_integers : convert;
  if (integers && f.bits > 16 && d.bits <= f.bits / 2) i.effect = kind::low;
  return true;
}

}  // namespace ptx
