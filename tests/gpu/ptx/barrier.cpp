// ufp4 - the PTX interpreter: barriers of blocks and clusters, mbarrier objects, and fences.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/ptx/barrier.hpp"

#include "gpu/ptx/decode.hpp"
#include "gpu/ptx/memory.hpp"

#include <algorithm>

namespace ptx {

void arrive(memory_barrier& b, std::uint32_t count) {
  if (count > b.pending) reject("arrives at a barrier more often than it expects");
  b.pending -= count;
  complete_if_ready(b);
}
void complete_if_ready(memory_barrier& b) {
  if (b.pending != 0 || b.bytes != 0) return;
  ++b.phase;
  b.pending = b.expected;
}

namespace {

/// What tcgen05.ld has read may be overwritten after a barrier, if there is a fence between.
void require_fence(const warp& w) {
  if (w.tensor_loaded > w.tensor_released)
    reject("arrives at a barrier after tcgen05.ld without tcgen05.fence::before_thread_sync");
}
void wait_here(warp& w) {
  w.retry = true;
  w.now->stalled = true;
}
std::uint32_t value(warp& w, unsigned reg, unsigned lane) { return static_cast<std::uint32_t>(w.reg(reg)[lane]); }

// ---- bar.sync, bar.arrive ----

unsigned live_threads(const thread_block& b) {
  unsigned n = 0;
  for (const warp& w : b.warps) n += w.live != 0 ? lanes : 0;
  return n;
}
void complete_if_ready(block_barrier& b, unsigned expected) {
  if (b.arrived < expected) return;
  b.arrived = 0;
  ++b.phase;
}

/// in: barrier, and the threads that are expected. a: 1 does not wait
void block_barrier_sync(warp& w, const instruction& i, mask m) {
  const auto first = static_cast<unsigned>(std::countr_zero(m));
  const std::uint32_t id = value(w, i.in[0], first);
  if (id >= 16) reject("uses barrier " + std::to_string(id));
  block_barrier& b = w.block->barriers[id];
  require_fence(w);
  const unsigned expected = i.in.size() > 1 ? value(w, i.in[1], first) : live_threads(*w.block);
  if (expected % lanes != 0) reject("expects threads that are not whole warps");
  if (w.barrier < 0) {
    w.barrier = static_cast<int>(id);
    w.barrier_phase = b.phase;
    b.arrived += lanes;
    w.block->group->progress = true;
  }
  complete_if_ready(b, expected);
  if (i.a == 0 && b.phase == w.barrier_phase) return wait_here(w);
  w.barrier = -1;
  w.synced = w.count;
}

// ---- barrier.cluster ----

std::uint64_t live_warps(const cluster& c) {
  std::uint64_t n = 0;
  for (const auto& b : c.blocks)
    for (const warp& w : b->warps) n += w.live != 0;
  return n;
}
void cluster_arrive(warp& w, const instruction&, mask) {
  cluster& c = *w.block->group;
  require_fence(w);
  w.cluster_phase = c.phase;
  if (++c.arrived >= live_warps(c)) {
    c.arrived = 0;
    ++c.phase;
  }
}
void cluster_wait(warp& w, const instruction&, mask) {
  cluster& c = *w.block->group;
  if (c.phase == w.cluster_phase && c.arrived >= live_warps(c)) {
    c.arrived = 0;
    ++c.phase;
  }
  if (c.phase == w.cluster_phase) return wait_here(w);
  w.synced = w.count;
}

// ---- mbarrier ----

memory_barrier& barrier_at(warp& w, word address) {
  auto at = static_cast<std::uint32_t>(address);
  return block_of(w, at).shared.barrier(at);
}
word address_in(warp& w, const instruction& i, unsigned lane) {
  return w.reg(i.in[0])[lane] + static_cast<word>(i.offset);
}

void barrier_init(warp& w, const instruction& i, mask m) {
  each_lane(m, [&](unsigned l) {
    w.block->shared.start_barrier(static_cast<std::uint32_t>(address_in(w, i, l)), value(w, i.in[1], l), w.thread(l));
  });
}
void barrier_stop(warp& w, const instruction& i, mask m) {
  each_lane(m, [&](unsigned l) { w.block->shared.stop_barrier(static_cast<std::uint32_t>(address_in(w, i, l))); });
}
/// in: address, then a count or bytes. a: 1 arrives, 2 expects bytes, 4 the second is the bytes
void barrier_arrive(warp& w, const instruction& i, mask m) {
  require_fence(w);
  each_lane(m, [&](unsigned l) {
    memory_barrier& b = barrier_at(w, address_in(w, i, l));
    for (const unsigned r : i.out) w.reg(r)[l] = b.phase;
    if ((i.a & 2) != 0) b.bytes += value(w, i.in[1], l);
    if ((i.a & 8) != 0) b.bytes -= value(w, i.in[1], l);
    if ((i.a & 1) != 0) arrive(b, (i.a & 2) == 0 && i.in.size() > 1 ? value(w, i.in[1], l) : 1);
    if ((i.a & 8) != 0) complete_if_ready(b);
  });
  for (const unsigned r : i.out) set_valid(w, r, m, all_lanes);
}
/// in: address, parity or state. a: parity; b: does not wait
void barrier_wait(warp& w, const instruction& i, mask m) {
  mask done = 0;
  each_lane(m, [&](unsigned l) {
    const memory_barrier& b = barrier_at(w, address_in(w, i, l));
    const word v = w.reg(i.in[1])[l];
    const bool complete = i.a != 0 ? (b.phase & 1) != (v & 1) : b.phase != v;
    done |= mask{complete} << l;
  });
  // Every lane of the path must go on; a lane that could and waits for another does no harm.
  if (i.b == 0 && done != m) return wait_here(w);
  w.synced = w.count;
  w.bits(i.out[0]) = (w.bits(i.out[0]) & ~m) | done;
  set_valid(w, i.out[0], m, all_lanes);
}

bool decode_mbarrier(scope& s, const statement& t, instruction& i) {
  const std::string& what = t.parts.at(1);
  const auto rest = [&](std::size_t from) {
    i.in = {address_of(s, t.operands.at(from), i)};
    for (std::size_t o = from + 1; o < t.operands.size(); ++o) i.in.push_back(s.reg(t.operands[o]));
  };
  if (what == "init" || what == "inval") {
    rest(0);
    i.run = what == "init" ? barrier_init : barrier_stop;
  } else if (what == "arrive") {
    const bool token = t.operands.at(0)[0] != '[';
    if (token && t.operands[0] != "_") i.out = {s.reg(t.operands[0])};
    rest(token);
    i.a = 1u | (t.has("expect_tx") ? 2u : 0u);
    i.run = barrier_arrive;
  } else if (what == "expect_tx" || what == "complete_tx") {
    rest(0);
    i.a = what == "expect_tx" ? 2 : 8;
    i.run = barrier_arrive;
  } else if (what == "try_wait" || what == "test_wait") {
    i.out = {s.predicate(t.operands.at(0))};
    rest(1);
    i.in.resize(2);
    i.a = t.has("parity");
    i.b = what == "test_wait";
    i.run = barrier_wait;
  } else {
    return false;
  }
  return true;
}

// ---- Fences ----

void fence_async(warp& w, const instruction&, mask m) {
  each_lane(m, [&](unsigned l) { w.block->shared.fence(w.thread(l)); });
}
void nothing(warp&, const instruction&, mask) {}

}  // namespace

bool decode_barrier(scope& s, const statement& t, instruction& i) {
  const std::string& op = t.op();
  const kind before = i.effect;
  i.effect = kind::own;
  if (op == "mbarrier") return decode_mbarrier(s, t, i);
  if (op == "fence") {
    const bool async =
        (t.has("proxy") && (t.parts.at(2) == "async" || t.parts[2] == "async::generic")) || t.has("mbarrier_init");
    const bool other_space = t.has("global");
    i.run = async && !other_space ? fence_async : nothing;
  } else if (op == "barrier" && t.has("cluster")) {
    i.aligned = true;
    i.run = t.has("arrive") ? cluster_arrive : cluster_wait;
  } else if ((op == "bar" || op == "barrier") && (t.has("sync") || t.has("arrive"))) {
    for (const auto& o : t.operands) i.in.push_back(s.reg(o));
    i.a = t.has("arrive");
    i.aligned = true;
    i.run = block_barrier_sync;
  } else {
    i.effect = before;
    return false;
  }
  return true;
}

}  // namespace ptx
