// ufp4 - the PTX interpreter: comparisons, predicates and selection.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/ptx/decode.hpp"
#include "gpu/ptx/numbers.hpp"

namespace ptx {

namespace {

enum comparison : unsigned { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan, comparisons };
constexpr const char* comparison_names[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                            "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

template <class T>
bool compare(comparison c, T a, T b) {
  const bool unordered = a != a || b != b;
  switch (c) {
    case eq: return a == b;
    case ne: return a != b && !unordered;
    case lt: return a < b;
    case le: return a <= b;
    case gt: return a > b;
    case ge: return a >= b;
    case equ: return a == b || unordered;
    case neu: return a != b;
    case ltu: return a < b || unordered;
    case leu: return a <= b || unordered;
    case gtu: return a > b || unordered;
    case geu: return a >= b || unordered;
    case num: return !unordered;
    default: return unordered;
  }
}

template <class T>
T value_of(word w) {
  if constexpr (std::is_same_v<T, f16>)
    return {};
  else
    return get<T>(w);
}

/// b: how the third operand combines: 0 none, 1 and, 2 or, 3 xor; d: it is negated
mask combined(warp& w, const instruction& i, mask found, bool negated) {
  if (i.b == 0) return negated ? ~found : found;
  const mask other = i.d != 0 ? ~w.bits(i.in[2]) : w.bits(i.in[2]);
  const mask f = negated ? ~found : found;
  return i.b == 1 ? f & other : i.b == 2 ? f | other : f ^ other;
}
void store_predicates(warp& w, const instruction& i, mask m, mask found) {
  const mask first = combined(w, i, found, false), second = combined(w, i, found, true);
  w.bits(i.out[0]) = (w.bits(i.out[0]) & ~m) | (first & m);
  if (i.out.size() > 1) w.bits(i.out[1]) = (w.bits(i.out[1]) & ~m) | (second & m);
}

template <class T, comparison c>
void set_predicate(warp& w, const instruction& i, mask m) {
  const word *a = w.reg(i.in[0]), *b = w.reg(i.in[1]);
  mask found = 0;
  each_lane(m, [&](unsigned l) { found |= mask{compare<T>(c, get<T>(a[l]), get<T>(b[l]))} << l; });
  store_predicates(w, i, m, found);
}
template <class N>
void set_half_predicate(warp& w, const instruction& i, mask m) {
  mask found = 0;
  each_lane(m, [&](unsigned l) {
    const double a = N::value(static_cast<std::uint16_t>(w.reg(i.in[0])[l]));
    const double b = N::value(static_cast<std::uint16_t>(w.reg(i.in[1])[l]));
    found |= mask{compare(static_cast<comparison>(i.a), a, b)} << l;
  });
  store_predicates(w, i, m, found);
}

template <class T, unsigned... n>
handler comparison_handler(unsigned which, std::integer_sequence<unsigned, n...>) {
  static constexpr handler all[] = {set_predicate<T, static_cast<comparison>(n)>...};
  return all[which];
}
template <class T>
handler comparison_of(unsigned which) {
  return comparison_handler<T>(which, std::make_integer_sequence<unsigned, comparisons>{});
}

handler typed_comparison(type_name type, unsigned which) {
  if (type.letter == 'H') return set_half_predicate<f16>;
  if (type.letter == 'B') return set_half_predicate<bf16>;
  if (type.letter == 'f') return type.bits == 32 ? comparison_of<float>(which) : comparison_of<double>(which);
  const bool is_signed = type.letter == 's';
  if (type.bits == 16) return is_signed ? comparison_of<std::int16_t>(which) : comparison_of<std::uint16_t>(which);
  if (type.bits == 32) return is_signed ? comparison_of<std::int32_t>(which) : comparison_of<std::uint32_t>(which);
  return is_signed ? comparison_of<std::int64_t>(which) : comparison_of<std::uint64_t>(which);
}

bool decode_setp(scope& s, const statement& t, instruction& i) {
  const type_name type = type_of(t.type());
  std::string name = t.parts.at(1);
  if (type.letter != 'f' && type.letter != 'H' && type.letter != 'B') {
    static const std::pair<const char*, const char*> unsigned_names[] = {
        {"lo", "lt"}, {"ls", "le"}, {"hi", "gt"}, {"hs", "ge"}};
    for (const auto& [from, to] : unsigned_names)
      if (name == from) name = to;
  }
  for (i.a = 0; i.a < comparisons; ++i.a)
    if (name == comparison_names[i.a]) break;
  if (i.a == comparisons || type.bits < 16) return false;
  const std::string& to = t.operands.at(0);
  const std::size_t bar = to.find('|');
  const std::string first = to.substr(0, bar);
  i.out = {first == "_" ? s.unused() : s.predicate(first)};
  if (bar != std::string::npos) i.out.push_back(s.predicate(to.substr(bar + 1)));
  i.in = {s.reg(t.operands.at(1)), s.reg(t.operands.at(2))};
  if (t.operands.size() > 3) {
    i.d = t.operands[3][0] == '!';
    i.b = t.has("and") ? 1 : t.has("or") ? 2 : 3;
    i.in.push_back(s.predicate(t.operands[3].substr(i.d)));
  }
  i.run = typed_comparison(type, i.a);
  return true;
}

void select(warp& w, const instruction& i, mask m) {
  word* d = w.reg(i.out[0]);
  const word *a = w.reg(i.in[0]), *b = w.reg(i.in[1]);
  const mask p = w.bits(i.in[2]);
  require_valid(w, i.in[2], m, "a condition");
  each_lane(m, [&](unsigned l) { d[l] = (p >> l & 1) != 0 ? a[l] : b[l]; });
  set_valid(w, i.out[0], m, (p & w.valid[i.in[0]]) | (~p & w.valid[i.in[1]]));
}

/// a: 0 and, 1 or, 2 xor, 3 not, 4 mov
void predicate_logic(warp& w, const instruction& i, mask m) {
  const mask x = w.bits(i.in[0]), y = i.in.size() > 1 ? w.bits(i.in[1]) : 0;
  const mask all[] = {x & y, x | y, x ^ y, ~x, x};
  w.bits(i.out[0]) = (w.bits(i.out[0]) & ~m) | (all[i.a] & m);
  // A known 0 of `and`, or 1 of `or`, is the result whatever the other is.
  const mask vx = w.valid[i.in[0]], vy = i.in.size() > 1 ? w.valid[i.in[1]] : all_lanes;
  mask v = vx & vy;
  if (i.a == 0) v |= (vx & ~x) | (vy & ~y);
  if (i.a == 1) v |= (vx & x) | (vy & y);
  set_valid(w, i.out[0], m, v);
}

bool decode_predicate_logic(scope& s, const statement& t, instruction& i) {
  static const char* const names[] = {"and", "or", "xor", "not", "mov"};
  for (i.a = 0; i.a < 5; ++i.a)
    if (t.op() == names[i.a]) break;
  if (i.a == 5) return false;
  i.out = {s.predicate(t.operands.at(0))};
  for (std::size_t o = 1; o < t.operands.size(); ++o) i.in.push_back(s.predicate(t.operands[o]));
  i.effect = kind::own;
  i.run = predicate_logic;
  return true;
}

}  // namespace

bool decode_predicates(scope& s, const statement& t, instruction& i) {
  if (t.op() == "setp") return decode_setp(s, t, i);
  if (t.op() == "selp") {
    i.out = {s.reg(t.operands.at(0))};
    i.in = {s.reg(t.operands.at(1)), s.reg(t.operands.at(2)), s.predicate(t.operands.at(3))};
    i.effect = kind::own;
    i.run = select;
    return true;
  }
  return t.parts.size() == 2 && t.type() == "pred" && decode_predicate_logic(s, t, i);
}

}  // namespace ptx
