// ufp4 - the PTX interpreter: moves, logic, shifts, permutes, bit fields and dot products of bytes.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/ptx/decode.hpp"

#include <algorithm>

namespace ptx {

namespace {

word low(word w, unsigned bits) { return bits == 64 ? w : w & ((word{1} << bits) - 1); }
std::int64_t extended(word w, unsigned bits) { return static_cast<std::int64_t>(w << (64 - bits)) >> (64 - bits); }

/// a: bits of the type. op(a, b, c, bits)
template <auto op>
void logic(warp& w, const instruction& i, mask m) {
  word* d = w.reg(i.out[0]);
  const word* in[4] = {};
  for (std::size_t n = 0; n < i.in.size(); ++n) in[n] = w.reg(i.in[n]);
  for (std::size_t n = i.in.size(); n < 4; ++n) in[n] = in[0];
  each_lane(m, [&](unsigned l) { d[l] = low(op(in[0][l], in[1][l], in[2][l], in[3][l], i.a), i.a); });
}

constexpr auto op_and = [](word a, word b, word, word, unsigned) { return a & b; };
constexpr auto op_or = [](word a, word b, word, word, unsigned) { return a | b; };
constexpr auto op_xor = [](word a, word b, word, word, unsigned) { return a ^ b; };
constexpr auto op_not = [](word a, word, word, word, unsigned) { return ~a; };
constexpr auto op_cnot = [](word a, word, word, word, unsigned n) { return word{low(a, n) == 0}; };
constexpr auto op_shl = [](word a, word b, word, word, unsigned n) {
  const auto by = static_cast<std::uint32_t>(b);
  return by < n ? a << by : 0;
};
constexpr auto op_shr = [](word a, word b, word, word, unsigned n) {
  const auto by = static_cast<std::uint32_t>(b);
  return by < n ? low(a, n) >> by : 0;
};
constexpr auto op_sar = [](word a, word b, word, word, unsigned n) {
  const auto by = std::min(static_cast<std::uint32_t>(b), n - 1);
  return static_cast<word>(extended(a, n) >> by);
};
constexpr auto op_popc = [](word a, word, word, word, unsigned n) { return word(std::popcount(low(a, n))); };
constexpr auto op_clz = [](word a, word, word, word, unsigned n) {
  return word(std::countl_zero(low(a, n))) - (64 - n);
};
constexpr auto op_brev = [](word a, word, word, word, unsigned n) {
  word r = 0;
  for (unsigned b = 0; b < n; ++b) r |= (a >> b & 1) << (n - 1 - b);
  return r;
};
constexpr auto op_bfi = [](word a, word b, word at, word count, unsigned n) {
  const unsigned p = at & 255, c = count & 255;
  if (p >= n || c == 0) return b;
  const word field = (c >= 64 ? ~word{0} : (word{1} << c) - 1) << p;
  return (b & ~field) | (a << p & field);
};
constexpr auto op_bfe_u = [](word a, word at, word count, word, unsigned n) {
  const unsigned p = at & 255, c = count & 255;
  if (p >= n || c == 0) return word{0};
  return low(a, n) >> p & (c >= 64 ? ~word{0} : (word{1} << c) - 1);
};
constexpr auto op_bfe_s = [](word a, word at, word count, word, unsigned n) {
  const unsigned p = at & 255, c = count & 255;
  if (c == 0) return word{0};
  const std::int64_t value = extended(a, n) >> std::min(p, n - 1);
  return c >= n ? static_cast<word>(value) : static_cast<word>(extended(static_cast<word>(value), c));
};
constexpr auto op_bfind = [](word a, word, word, word, unsigned n) { return word(63 - std::countl_zero(low(a, n))); };
constexpr auto op_prmt = [](word a, word b, word selector, word, unsigned) {
  const word bytes = low(b, 32) << 32 | low(a, 32);
  word r = 0;
  for (unsigned n = 0; n < 4; ++n) {
    const unsigned s = selector >> (4 * n) & 15;
    word byte = bytes >> (8 * (s & 7)) & 255;
    if ((s & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
    r |= byte << (8 * n);
  }
  return r;
};
constexpr auto op_lop3 = [](word a, word b, word c, word table, unsigned) {
  word r = 0;
  for (unsigned n = 0; n < 8; ++n)
    if ((table >> n & 1) != 0) r |= ((n & 4) != 0 ? a : ~a) & ((n & 2) != 0 ? b : ~b) & ((n & 1) != 0 ? c : ~c);
  return r;
};
template <bool left, bool clamp>
constexpr auto op_funnel = [](word a, word b, word by, word, unsigned) {
  const unsigned n = clamp ? static_cast<unsigned>(std::min<word>(low(by, 32), 32)) : by & 31;
  const word both = low(b, 32) << 32 | low(a, 32);
  return left ? (n == 0 ? b : both >> (32 - n)) : (n == 32 ? b : both >> n);
};
template <bool a_signed, bool b_signed>
constexpr auto op_dp4a = [](word a, word b, word c, word, unsigned) {
  for (unsigned n = 0; n < 4; ++n) {
    const word x = a >> (8 * n) & 255, y = b >> (8 * n) & 255;
    c += (a_signed ? static_cast<word>(extended(x, 8)) : x) * (b_signed ? static_cast<word>(extended(y, 8)) : y);
  }
  return c;
};
constexpr auto op_sad = [](word a, word b, word c, word, unsigned n) {
  const std::int64_t x = extended(a, n), y = extended(b, n);
  return c + static_cast<word>(x > y ? x - y : y - x);
};

handler logic_handler(const statement& t) {
  const std::string& op = t.op();
  const bool is_signed = t.type()[0] == 's';
  if (op == "and") return logic<op_and>;
  if (op == "or") return logic<op_or>;
  if (op == "xor") return logic<op_xor>;
  if (op == "not") return logic<op_not>;
  if (op == "cnot") return logic<op_cnot>;
  if (op == "shl") return logic<op_shl>;
  if (op == "shr") return is_signed ? logic<op_sar> : logic<op_shr>;
  if (op == "popc") return logic<op_popc>;
  if (op == "clz") return logic<op_clz>;
  if (op == "brev") return logic<op_brev>;
  if (op == "bfi") return logic<op_bfi>;
  if (op == "bfe") return is_signed ? logic<op_bfe_s> : logic<op_bfe_u>;
  if (op == "bfind" && !is_signed) return logic<op_bfind>;
  if (op == "prmt" && t.parts.size() == 2) return logic<op_prmt>;
  if (op == "lop3") return logic<op_lop3>;
  if (op == "sad") return logic<op_sad>;
  if (op == "shf" && t.has("l")) return t.has("wrap") ? logic<op_funnel<true, false>> : logic<op_funnel<true, true>>;
  if (op == "shf") return t.has("wrap") ? logic<op_funnel<false, false>> : logic<op_funnel<false, true>>;
  if (op == "dp4a" && t.parts.size() == 3) {
    const bool a = t.parts[1] == "s32", b = t.parts[2] == "s32";
    return a ? (b ? logic<op_dp4a<true, true>> : logic<op_dp4a<true, false>>)
             : (b ? logic<op_dp4a<false, true>> : logic<op_dp4a<false, false>>);
  }
  return nullptr;
}

// ---- Moves ----

void move(warp& w, const instruction& i, mask m) {
  word* d = w.reg(i.out[0]);
  const word* a = w.reg(i.in[0]);
  each_lane(m, [&](unsigned l) { d[l] = a[l]; });
}
/// a: bits of one member
void unpack(warp& w, const instruction& i, mask m) {
  const word* a = w.reg(i.in[0]);
  for (unsigned n = 0; n < i.out.size(); ++n) {
    word* d = w.reg(i.out[n]);
    if (d != a) each_lane(m, [&](unsigned l) { d[l] = low(a[l] >> (i.a * n), i.a); });
  }
}
void pack(warp& w, const instruction& i, mask m) {
  each_lane(m, [&](unsigned l) {
    word v = 0;
    for (unsigned n = 0; n < i.in.size(); ++n) v |= low(w.reg(i.in[n])[l], i.a) << (i.a * n);
    w.reg(i.out[0])[l] = v;
  });
}

bool decode_move(scope& s, const statement& t, instruction& i) {
  const auto to = registers_of(s, t.operands.at(0)), from = registers_of(s, t.operands.at(1));
  i.out = to;
  i.in = from;
  const unsigned bits = type_of(t.type()).bits;
  if (to.size() > 1) {
    i.a = bits / static_cast<unsigned>(to.size());
    i.run = unpack;
  } else if (from.size() > 1) {
    i.a = bits / static_cast<unsigned>(from.size());
    i.run = pack;
    if (from.size() == 2) i.effect = kind::pack;
  } else {
    i.run = move;
    i.effect = kind::copy;
  }
  return true;
}

template <bool to_window>
void shared_address(warp& w, const instruction& i, mask m) {
  each_lane(m, [&](unsigned l) {
    const word a = w.reg(i.in[0])[l];
    if (!to_window && (a & window_bits) != shared_window) reject("converts an address that is not in shared memory");
    w.reg(i.out[0])[l] = to_window ? a | shared_window : a & ~window_bits;
  });
}
bool decode_cvta(scope& s, const statement& t, instruction& i) {
  i.out = {s.reg(t.operands.at(0))};
  if (t.operands[1].find('+') != std::string::npos) reject("has an offset");
  i.in = {s.reg(t.operands[1])};
  const bool shared = t.has("shared") || t.has("shared::cta") || t.has("shared::cluster");
  i.run = !shared ? move : t.has("to") ? shared_address<false> : shared_address<true>;
  return true;
}

}  // namespace

bool decode_bits(scope& s, const statement& t, instruction& i) {
  if (t.type() == "pred") return false;
  if (t.op() == "mov") return decode_move(s, t, i);
  if (t.op() == "cvta") return decode_cvta(s, t, i);
  i.run = logic_handler(t);
  if (i.run == nullptr) return false;
  i.out = {s.reg(t.operands.at(0))};
  for (std::size_t o = 1; o < t.operands.size(); ++o) i.in.push_back(s.reg(t.operands[o]));
  const std::string& type = t.op() == "lop3" || t.op() == "prmt" || t.op() == "dp4a" ? "b32" : t.type();
  i.a = type_of(type).bits;
  if (t.op() == "lop3" && t.operands.size() > 5) reject("has a predicate");
  return true;
}

}  // namespace ptx
