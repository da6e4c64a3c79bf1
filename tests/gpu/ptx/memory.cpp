// ufp4 - the PTX interpreter: ld, st, atom and red in all state spaces.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/ptx/memory.hpp"

#include "gpu/ptx/decode.hpp"
#include "gpu/ptx/numbers.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace ptx {

device_memory& device_memory::here() {
  static device_memory one;
  return one;
}

unsigned char* device_memory::find(word at, std::size_t bytes) const {
  auto after = blocks_.upper_bound(at);
  if (after != blocks_.begin()) {
    --after;
    if (at + bytes <= after->first + after->second) return reinterpret_cast<unsigned char*>(at);
  }
  char text[80];
  std::snprintf(text, sizeof text, "accesses %zu bytes at 0x%llx, outside of all allocations", bytes,
                static_cast<unsigned long long>(at));
  reject(text);
}

thread_block& block_of(warp& w, std::uint32_t& at) {
  const unsigned rank = at >> 24;
  at &= 0xFFFFFFu;
  if (rank == 0) return *w.block;
  if (rank > w.block->group->blocks.size()) reject("addresses a thread block that is not in the cluster");
  return *w.block->group->blocks[rank - 1];
}

namespace {

space space_of(space s, word at) {
  if (s == space::param) return (at & window_bits) == local_window ? space::local : space::param;
  if (s != space::generic) return s;
  switch (at & window_bits) {
    case shared_window: return space::shared;
    case local_window: return space::local;
    case param_window: return space::param;
    default: return space::global;
  }
}
unsigned char* private_bytes(warp& w, space s, unsigned lane, word at, unsigned bytes) {
  at &= ~window_bits;
  if (s == space::local) {
    const std::size_t each = w.local.size() / lanes;
    if (at + bytes > each) reject("accesses local memory out of range");
    return w.local.data() + each * lane + at;
  }
  const auto& p = w.block->call->parameters;
  if (at + bytes > p.size()) reject("accesses parameters out of range");
  return const_cast<unsigned char*>(p.data()) + at;
}
void require_aligned(word at, unsigned bytes) {
  if ((at & (bytes - 1)) != 0) reject("accesses an address that is not a multiple of " + std::to_string(bytes));
}
/// The last allocation that a thread of the machine used.
unsigned char* global_bytes(word at, unsigned bytes) { return device_memory::here().find(at, bytes); }

}  // namespace

bool load(warp& w, space s, unsigned lane, word at, void* to, unsigned bytes) {
  switch (s = space_of(s, at)) {
    case space::shared: {
      auto in_block = static_cast<std::uint32_t>(at);
      thread_block& b = block_of(w, in_block);
      return b.shared.load(in_block, to, bytes);
    }
    case space::global: std::memcpy(to, global_bytes(at, bytes), bytes); return true;
    default: std::memcpy(to, private_bytes(w, s, lane, at, bytes), bytes); return true;
  }
}

void store(warp& w, space s, unsigned lane, word at, const void* from, unsigned bytes) {
  switch (s = space_of(s, at)) {
    case space::shared: {
      auto in_block = static_cast<std::uint32_t>(at);
      thread_block& b = block_of(w, in_block);
      return b.shared.store(in_block, from, bytes, w.thread(lane));
    }
    case space::global: std::memcpy(global_bytes(at, bytes), from, bytes); return;
    case space::param: reject("stores to a parameter");
    default: std::memcpy(private_bytes(w, s, lane, at, bytes), from, bytes); return;
  }
}

namespace {

std::mutex atomics;

/// a: space; b: bytes of an element; c: sign-extends
void load_lanes(warp& w, const instruction& i, mask m) {
  require_valid(w, i.in[0], m, "an address");
  const auto n = static_cast<unsigned>(i.out.size());
  const word* base = w.reg(i.in[0]);
  mask valid = 0;
  word all[16];
  each_lane(m, [&](unsigned l) {
    unsigned char bytes[64];
    const word at = base[l] + static_cast<word>(i.offset);
    require_aligned(at, i.b * n);
    valid |= mask{load(w, static_cast<space>(i.a), l, at, bytes, i.b * n)} << l;
    for (unsigned e = 0; e < n; ++e) {
      all[e] = 0;
      std::memcpy(&all[e], bytes + e * i.b, i.b);
      if (i.c != 0) all[e] = static_cast<word>(static_cast<std::int64_t>(all[e] << (64 - 8 * i.b)) >> (64 - 8 * i.b));
    }
    for (unsigned e = 0; e < n; ++e) w.reg(i.out[e])[l] = all[e];
  });
  for (const unsigned r : i.out) set_valid(w, r, m, valid);
}

void store_lanes(warp& w, const instruction& i, mask m) {
  for (const unsigned r : i.in) require_valid(w, r, m, r == i.in[0] ? "an address" : "what is stored");
  const auto n = static_cast<unsigned>(i.in.size()) - 1;
  const word* base = w.reg(i.in[0]);
  each_lane(m, [&](unsigned l) {
    unsigned char bytes[64];
    const word at = base[l] + static_cast<word>(i.offset);
    require_aligned(at, i.b * n);
    for (unsigned e = 0; e < n; ++e) std::memcpy(bytes + e * i.b, w.reg(i.in[e + 1]) + l, i.b);
    store(w, static_cast<space>(i.a), l, at, bytes, i.b * n);
  });
}

space space_name(const statement& t) {
  if (t.has("global") || t.has("const")) return space::global;
  if (t.has("shared") || t.has("shared::cta") || t.has("shared::cluster")) return space::shared;
  if (t.has("local")) return space::local;
  return t.has("param") ? space::param : space::generic;
}

bool decode_load(scope& s, const statement& t, instruction& i) {
  const type_name type = type_of(t.type());
  i.a = static_cast<unsigned>(space_name(t));
  i.b = type.bits / 8;
  i.c = type.letter == 's';
  i.effect = kind::own;
  if (t.op() == "st") {
    i.in = {address_of(s, t.operands.at(0), i)};
    for (const unsigned r : registers_of(s, t.operands.at(1))) i.in.push_back(r);
    i.run = store_lanes;
  } else {
    i.out = registers_of(s, t.operands.at(0));
    i.in = {address_of(s, t.operands.at(1), i)};
    i.run = load_lanes;
  }
  return type.bits >= 8;
}

// ---- Atomics: one lane after another, under a lock ----

using combine = word (*)(word, word, word);
template <class T>
combine combination(const std::string& op) {
  if (op == "add") return [](word a, word b, word) { return put<T>(static_cast<T>(get<T>(a) + get<T>(b))); };
  if (op == "min") return [](word a, word b, word) { return put<T>(std::min(get<T>(a), get<T>(b))); };
  if (op == "max") return [](word a, word b, word) { return put<T>(std::max(get<T>(a), get<T>(b))); };
  return nullptr;
}
combine combination_of(const statement& t) {
  const std::string op = t.one_of({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"});
  const type_name type = type_of(t.type());
  if (op == "and") return [](word a, word b, word) { return a & b; };
  if (op == "or") return [](word a, word b, word) { return a | b; };
  if (op == "xor") return [](word a, word b, word) { return a ^ b; };
  if (op == "exch") return [](word, word b, word) { return b; };
  if (op == "cas") return [](word a, word b, word c) { return a == b ? c : a; };
  if (op == "inc") return [](word a, word b, word) { return a >= b ? word{0} : a + 1; };
  if (op == "dec") return [](word a, word b, word) { return a == 0 || a > b ? b : a - 1; };
  if (type.letter == 'f') return type.bits == 32 ? combination<float>(op) : combination<double>(op);
  if (type.bits == 32) return type.letter == 's' ? combination<std::int32_t>(op) : combination<std::uint32_t>(op);
  if (type.bits == 64) return type.letter == 's' ? combination<std::int64_t>(op) : combination<std::uint64_t>(op);
  return nullptr;
}
std::vector<combine>& combinations() {
  static std::vector<combine> all;
  return all;
}

/// a: space; b: bytes; c: which combination; d: elements
void atomic_lanes(warp& w, const instruction& i, mask m) {
  for (const unsigned r : i.in) require_valid(w, r, m, r == i.in[0] ? "an address" : "an atomic's operand");
  const std::lock_guard guard(atomics);
  const combine f = combinations()[i.c];
  bool valid = true;
  each_lane(m, [&](unsigned l) {
    const word at = w.reg(i.in[0])[l] + static_cast<word>(i.offset);
    require_aligned(at, i.b);
    for (unsigned e = 0; e < i.d; ++e) {
      word old = 0, operands[2] = {};
      valid = load(w, static_cast<space>(i.a), l, at + e * i.b, &old, i.b) && valid;
      std::memcpy(&operands[0], w.reg(i.in[1 + e]) + l, i.b);
      if (i.in.size() > 1 + i.d) std::memcpy(&operands[1], w.reg(i.in[1 + i.d]) + l, i.b);
      const word now = f(old, operands[0], operands[1]);
      store(w, static_cast<space>(i.a), l, at + e * i.b, &now, i.b);
      if (!i.out.empty()) w.reg(i.out[e])[l] = old;
    }
  });
  if (!valid) reject("changes uninitialized memory by an atomic");
  for (const unsigned r : i.out) set_valid(w, r, m, all_lanes);
}

bool decode_atomic(scope& s, const statement& t, instruction& i) {
  const combine f = combination_of(t);
  if (f == nullptr || t.has("async")) return false;
  static std::mutex lock;
  const std::lock_guard guard(lock);
  i.a = static_cast<unsigned>(space_name(t));
  i.b = type_of(t.type()).bits / 8;
  i.c = static_cast<unsigned>(combinations().size());
  combinations().push_back(f);
  std::size_t o = 0;
  if (t.op() == "atom") i.out = registers_of(s, t.operands.at(o++));
  i.in = {address_of(s, t.operands.at(o++), i)};
  const auto values = registers_of(s, t.operands.at(o++));
  i.d = static_cast<unsigned>(values.size());
  i.in.insert(i.in.end(), values.begin(), values.end());
  if (o < t.operands.size() && t.has("cas")) i.in.push_back(s.reg(t.operands[o]));
  i.effect = kind::own;
  i.run = atomic_lanes;
  return true;
}

// ---- Addresses ----

void is_space(warp& w, const instruction& i, mask m) {
  mask found = 0;
  each_lane(m, [&](unsigned l) {
    found |= mask{space_of(space::generic, w.reg(i.in[0])[l]) == static_cast<space>(i.a)} << l;
  });
  w.bits(i.out[0]) = (w.bits(i.out[0]) & ~m) | (found & m);
}
void map_address(warp& w, const instruction& i, mask m) {
  each_lane(m, [&](unsigned l) {
    const word at = w.reg(i.in[0])[l], rank = static_cast<std::uint32_t>(w.reg(i.in[1])[l]);
    w.reg(i.out[0])[l] = (at & ~word{0xFF000000u}) | (rank + 1) << 24;
  });
}
void nothing(warp&, const instruction&, mask) {}

}  // namespace

bool decode_memory(scope& s, const statement& t, instruction& i) {
  const std::string& op = t.op();
  if (op == "st" && t.has("async")) return false;
  if (op == "ld" || op == "st" || op == "ldu") return decode_load(s, t, i);
  if (op == "atom" || op == "red") return decode_atomic(s, t, i);
  if (op == "isspacep") {
    i.a = static_cast<unsigned>(space_name(t));
    i.out = {s.predicate(t.operands.at(0))};
    i.in = {s.reg(t.operands.at(1))};
    i.run = is_space;
  } else if (op == "mapa") {
    i.out = {s.reg(t.operands.at(0))};
    i.in = {s.reg(t.operands.at(1)), s.reg(t.operands.at(2))};
    i.run = map_address;
  } else if (op == "prefetch" || op == "prefetchu" || op == "applypriority" || op == "discard") {
    i.effect = kind::own;
    i.run = nothing;
  } else {
    return false;
  }
  return true;
}

}  // namespace ptx
