// ufp4 - the PTX interpreter: what the lanes of a warp do together: shuffles, votes, matches, reductions.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/ptx/decode.hpp"

#include <algorithm>

namespace ptx {

namespace {

/// False, and the path waits, until all live lanes of `members` are here.
bool all_here(warp& w, mask members, mask m) {
  if ((members & w.live & ~m) == 0) return true;
  w.retry = true;
  w.now->stalled = true;
  return false;
}
mask member_mask(warp& w, unsigned reg, mask m) {
  require_valid(w, reg, m, "a mask of lanes");
  mask all = 0;
  each_lane(m, [&](unsigned l) { all |= static_cast<mask>(w.reg(reg)[l]); });
  return all;
}

enum shuffle_kind : unsigned { up, down, bfly, idx };

/// in: value, lane, clamp, members. a: kind
void shuffle(warp& w, const instruction& i, mask m) {
  if (!all_here(w, member_mask(w, i.in[3], m), m)) return;
  word result[lanes];
  mask found = 0, valid = 0;
  each_lane(m, [&](unsigned l) {
    const auto by = static_cast<std::uint32_t>(w.reg(i.in[1])[l]) & 31,
               c = static_cast<std::uint32_t>(w.reg(i.in[2])[l]);
    const unsigned segment = c >> 8 & 31, bound = c & 31;
    const unsigned most = (l & segment) | (bound & ~segment), least = l & segment;
    const int lane = static_cast<int>(l), most_lane = static_cast<int>(most);
    int from = 0;
    bool in = false;
    switch (i.a) {
      case up:
        from = lane - static_cast<int>(by);
        in = from >= most_lane;
        break;
      case down:
        from = lane + static_cast<int>(by);
        in = from <= most_lane;
        break;
      case bfly:
        from = lane ^ static_cast<int>(by);
        in = from <= most_lane;
        break;
      default:
        from = static_cast<int>(least | (by & ~segment));
        in = from <= most_lane;
        break;
    }
    if (!in) from = lane;
    if ((m >> from & 1) == 0) reject("shuffles the value of a lane that does not take part");
    result[l] = w.reg(i.in[0])[from] & 0xFFFFFFFFu;
    found |= mask{in} << l;
    valid |= (w.valid[i.in[0]] >> from & 1) << l;
  });
  each_lane(m, [&](unsigned l) { w.reg(i.out[0])[l] = result[l]; });
  set_valid(w, i.out[0], m, valid);
  if (i.out.size() > 1) {
    w.bits(i.out[1]) = (w.bits(i.out[1]) & ~m) | found;
    set_valid(w, i.out[1], m, all_lanes);
  }
}

/// in: predicate, members. a: 0 ballot, 1 any, 2 all, 3 uni; b: the predicate is negated
void vote(warp& w, const instruction& i, mask m) {
  if (!all_here(w, member_mask(w, i.in[1], m), m)) return;
  require_valid(w, i.in[0], m, "a condition");
  const mask p = (i.b != 0 ? ~w.bits(i.in[0]) : w.bits(i.in[0])) & m;
  if (i.a == 0) {
    each_lane(m, [&](unsigned l) { w.reg(i.out[0])[l] = p; });
  } else {
    const bool r = i.a == 1 ? p != 0 : i.a == 2 ? p == m : p == m || p == 0;
    w.bits(i.out[0]) = (w.bits(i.out[0]) & ~m) | (r ? m : 0);
  }
  set_valid(w, i.out[0], m, all_lanes);
}

/// in: value, members. a: the operation; b: signed
void reduce(warp& w, const instruction& i, mask m) {
  if (!all_here(w, member_mask(w, i.in[1], m), m)) return;
  require_valid(w, i.in[0], m, "an operand of redux");
  bool first = true;
  std::uint32_t r = 0;
  each_lane(m, [&](unsigned l) {
    const auto v = static_cast<std::uint32_t>(w.reg(i.in[0])[l]);
    const bool less = i.b != 0 ? static_cast<std::int32_t>(v) < static_cast<std::int32_t>(r) : v < r;
    if (first)
      r = v;
    else if (i.a == 0)
      r += v;
    else if (i.a == 1)
      r = less ? v : r;
    else if (i.a == 2)
      r = less ? r : v;
    else
      r = i.a == 3 ? r & v : i.a == 4 ? r | v : r ^ v;
    first = false;
  });
  each_lane(m, [&](unsigned l) { w.reg(i.out[0])[l] = r; });
  set_valid(w, i.out[0], m, all_lanes);
}

/// in: value, members. a: all lanes must have the same; b: bits
void match(warp& w, const instruction& i, mask m) {
  if (!all_here(w, member_mask(w, i.in[1], m), m)) return;
  require_valid(w, i.in[0], m, "an operand of match");
  const auto value = [&](unsigned l) { return i.b == 64 ? w.reg(i.in[0])[l] : w.reg(i.in[0])[l] & 0xFFFFFFFFu; };
  word result[lanes];
  mask whole = 0;
  each_lane(m, [&](unsigned l) {
    mask same = 0;
    each_lane(m, [&](unsigned k) { same |= mask{value(k) == value(l)} << k; });
    result[l] = i.a == 0 || same == m ? same : 0;
    whole |= mask{same == m} << l;
  });
  each_lane(m, [&](unsigned l) { w.reg(i.out[0])[l] = result[l]; });
  for (const unsigned r : i.out) set_valid(w, r, m, all_lanes);
  if (i.out.size() > 1) w.bits(i.out[1]) = (w.bits(i.out[1]) & ~m) | (whole & m);
}

void active_mask(warp& w, const instruction& i, mask m) {
  each_lane(m, [&](unsigned l) { w.reg(i.out[0])[l] = m; });
  set_valid(w, i.out[0], m, all_lanes);
}
void elect(warp& w, const instruction& i, mask m) {
  if (!all_here(w, member_mask(w, i.in[0], m), m)) return;
  const auto leader = static_cast<unsigned>(std::countr_zero(m));
  each_lane(m, [&](unsigned l) { w.reg(i.out[0])[l] = leader; });
  w.bits(i.out[1]) = (w.bits(i.out[1]) & ~m) | mask{1} << leader;
  for (const unsigned r : i.out) set_valid(w, r, m, all_lanes);
}
void warp_barrier(warp& w, const instruction& i, mask m) { (void)all_here(w, member_mask(w, i.in[0], m), m); }
void nothing(warp&, const instruction&, mask) {}

void two_results(scope& s, const std::string& operand, instruction& i) {
  const std::size_t bar = operand.find('|');
  const std::string first = operand.substr(0, bar);
  i.out = {first == "_" ? s.unused() : s.reg(first)};
  if (bar != std::string::npos) i.out.push_back(s.predicate(operand.substr(bar + 1)));
}

bool decode_shuffle(scope& s, const statement& t, instruction& i) {
  two_results(s, t.operands.at(0), i);
  for (std::size_t o = 1; o < t.operands.size(); ++o) i.in.push_back(s.reg(t.operands[o]));
  const std::string k = t.one_of({"up", "down", "bfly", "idx"});
  i.a = k == "up" ? up : k == "down" ? down : k == "bfly" ? bfly : idx;
  i.run = shuffle;
  return t.has("sync") && i.in.size() == 4;
}
bool decode_vote(scope& s, const statement& t, instruction& i) {
  const std::string k = t.one_of({"ballot", "any", "all", "uni"});
  i.a = k == "ballot" ? 0 : k == "any" ? 1 : k == "all" ? 2 : 3;
  i.out = {i.a == 0 ? s.reg(t.operands.at(0)) : s.predicate(t.operands.at(0))};
  i.b = t.operands.at(1)[0] == '!';
  i.in = {s.predicate(t.operands[1].substr(i.b)), s.reg(t.operands.at(2))};
  i.run = vote;
  return t.has("sync");
}
bool decode_reduce(scope& s, const statement& t, instruction& i) {
  static const char* const names[] = {"add", "min", "max", "and", "or", "xor"};
  for (i.a = 0; i.a < 6; ++i.a)
    if (t.has(names[i.a])) break;
  i.b = t.type()[0] == 's';
  i.out = {s.reg(t.operands.at(0))};
  i.in = {s.reg(t.operands.at(1)), s.reg(t.operands.at(2))};
  i.run = reduce;
  return i.a < 6 && type_of(t.type()).letter != 'f';
}

}  // namespace

bool decode_warp(scope& s, const statement& t, instruction& i) {
  const std::string& op = t.op();
  const kind before = i.effect;
  i.effect = kind::own;
  if (op == "shfl") return decode_shuffle(s, t, i);
  if (op == "vote") return decode_vote(s, t, i);
  if (op == "redux") return decode_reduce(s, t, i);
  if (op == "match") {
    two_results(s, t.operands.at(0), i);
    i.in = {s.reg(t.operands.at(1)), s.reg(t.operands.at(2))};
    i.a = t.has("all");
    i.b = type_of(t.type()).bits;
    i.run = match;
  } else if (op == "activemask") {
    i.out = {s.reg(t.operands.at(0))};
    i.run = active_mask;
  } else if (op == "elect") {
    two_results(s, t.operands.at(0), i);
    i.in = {s.reg(t.operands.at(1))};
    i.run = elect;
  } else if (op == "bar" && t.has("warp")) {
    i.in = {s.reg(t.operands.at(0))};
    i.run = warp_barrier;
  } else if (op == "setmaxnreg" || op == "nanosleep" || op == "griddepcontrol" || op == "membar") {
    i.run = nothing;
    i.aligned = op == "setmaxnreg";
  } else {
    i.effect = before;
    return false;
  }
  return true;
}

}  // namespace ptx
