// ufp4 - the PTX interpreter: cp.async of single threads, and bulk copies without a tensor map.
// SPDX-License-Identifier: Apache-2.0
//
// cp.async writes when its thread waits, as late as possible; until then its target must not be accessed. What it wrote
// counts as a store of the thread: wgmma may read it after fence.proxy.async.
#include "gpu/ptx/barrier.hpp"
#include "gpu/ptx/bulk.hpp"
#include "gpu/ptx/decode.hpp"
#include "gpu/ptx/memory.hpp"

#include <cstring>

namespace ptx {

void complete_bytes(thread_block& b, std::uint32_t barrier, unsigned bytes) {
  std::uint64_t bits;
  b.shared.load_async(barrier, &bits, 8, "the copy engine");
  memory_barrier& at = b.shared.barrier(barrier);
  at.bytes -= bytes;
  complete_if_ready(at);
}

namespace {

word address(warp& w, const instruction& i, unsigned n, unsigned lane, std::int64_t offset) {
  return w.reg(i.in[n])[lane] + static_cast<word>(offset);
}

// ---- cp.async ----

/// in: target, source, [bytes that are copied]. a: bytes; c, d: offsets
void copy_async(warp& w, const instruction& i, mask m) {
  for (const unsigned r : i.in) require_valid(w, r, m, "an operand of cp.async");
  each_lane(m, [&](unsigned l) {
    thread_copy c{static_cast<std::uint32_t>(address(w, i, 0, l, static_cast<std::int32_t>(i.c))),
                  address(w, i, 1, l, static_cast<std::int32_t>(i.d)), i.a,
                  i.in.size() > 2 ? static_cast<unsigned>(w.reg(i.in[2])[l]) : i.a};
    if (c.valid > c.bytes) reject("copies more bytes than the copy has");
    if (c.to % c.bytes != 0 || c.from % c.bytes != 0) reject("copies to or from an address that is not aligned");
    if (c.valid != 0) (void)device_memory::here().find(c.from, c.valid);
    w.block->shared.begin_copy(c.to, c.bytes);
    w.copies[l].back().push_back(c);
  });
}
void finish(warp& w, unsigned lane, const std::vector<thread_copy>& group) {
  for (const thread_copy& c : group) {
    unsigned char bytes[16] = {};
    if (c.valid != 0) std::memcpy(bytes, device_memory::here().find(c.from, c.valid), c.valid);
    w.block->shared.finish_copy(c.to, bytes, c.bytes);
    w.block->shared.store(c.to, bytes, c.bytes, w.thread(lane));
  }
}
void commit(warp& w, const instruction&, mask m) {
  each_lane(m, [&](unsigned l) { w.copies[l].emplace_back(); });
}
void finish_but(warp& w, unsigned lane, std::size_t left) {
  auto& groups = w.copies[lane];
  while (groups.size() > left + 1) {
    finish(w, lane, groups.front());
    groups.pop_front();
  }
}
/// a: groups that may be left
void wait_group(warp& w, const instruction& i, mask m) {
  each_lane(m, [&](unsigned l) { finish_but(w, l, i.a); });
}
void finish_all(warp& w, unsigned lane) {
  w.copies[lane].emplace_back();
  finish_but(w, lane, 0);
}
void wait_all(warp& w, const instruction&, mask m) {
  each_lane(m, [&](unsigned l) { finish_all(w, l); });
}
/// The arrival happens when the thread's copies are complete. a: 1 it is one of those that the barrier expects
void arrive_after_copies(warp& w, const instruction& i, mask m) {
  each_lane(m, [&](unsigned l) {
    const auto at = static_cast<std::uint32_t>(address(w, i, 0, l, i.offset));
    memory_barrier& b = w.block->shared.barrier(at);
    if (i.a == 0) ++b.pending;
    w.block->group->pending.push_back({[&w, at, l] {
      finish_all(w, l);
      arrive(w.block->shared.barrier(at), 1);
    }});
  });
}

bool decode_thread_copy(scope& s, const statement& t, instruction& i) {
  i.effect = kind::own;
  if (t.has("commit_group")) {
    i.run = commit;
  } else if (t.has("wait_group") || t.has("wait_all")) {
    if (t.has("wait_group")) i.a = static_cast<unsigned>(std::stoul(t.operands.at(0)));
    i.run = t.has("wait_group") ? wait_group : wait_all;
  } else if (t.has("mbarrier")) {
    i.in = {address_of(s, t.operands.at(0), i)};
    i.a = t.has("noinc");
    i.run = arrive_after_copies;
  } else {
    i.in = {address_of(s, t.operands.at(0), i)};
    i.c = static_cast<unsigned>(i.offset);
    i.offset = 0;
    i.in.push_back(address_of(s, t.operands.at(1), i));
    i.d = static_cast<unsigned>(i.offset);
    i.a = static_cast<unsigned>(std::stoul(t.operands.at(2)));
    if (t.operands.size() > 3 && !t.has("L2::cache_hint")) i.in.push_back(s.reg(t.operands[3]));
    i.run = copy_async;
  }
  return true;
}

// ---- cp.async.bulk ----

/// in: target, source, bytes, barrier
void bulk_load(warp& w, const instruction& i, mask m) {
  each_lane(m, [&](unsigned l) {
    auto to = static_cast<std::uint32_t>(w.reg(i.in[0])[l]), barrier = static_cast<std::uint32_t>(w.reg(i.in[3])[l]);
    const word from = w.reg(i.in[1])[l];
    const auto bytes = static_cast<unsigned>(w.reg(i.in[2])[l]);
    if (to % 16 != 0 || from % 16 != 0 || bytes % 16 != 0) reject("copies to or from an address that is not aligned");
    thread_block& b = block_of(w, to);
    (void)block_of(w, barrier);
    b.shared.begin_copy(to, bytes);
    b.group->pending.push_back({[&b, to, from, bytes, barrier] {
      b.shared.finish_copy(to, device_memory::here().find(from, bytes), bytes);
      complete_bytes(b, barrier, bytes);
    }});
  });
}
/// in: target, source, bytes
void bulk_store(warp& w, const instruction& i, mask m) {
  each_lane(m, [&](unsigned l) {
    const word to = w.reg(i.in[0])[l];
    const auto from = static_cast<std::uint32_t>(w.reg(i.in[1])[l]);
    const auto bytes = static_cast<unsigned>(w.reg(i.in[2])[l]);
    if (to % 16 != 0 || from % 16 != 0 || bytes % 16 != 0) reject("copies to or from an address that is not aligned");
    std::vector<unsigned char> data(bytes);
    w.block->shared.load_async(from, data.data(), bytes, "the copy engine");
    std::memcpy(device_memory::here().find(to, bytes), data.data(), bytes);
  });
}
void nothing(warp&, const instruction&, mask) {}

bool decode_bulk(scope& s, const statement& t, instruction& i) {
  i.effect = kind::own;
  if (t.has("commit_group") || t.has("wait_group") || t.has("prefetch")) {
    i.run = nothing;
    return true;
  }
  if (t.has("multicast::cluster")) return false;
  const bool loads = t.has("mbarrier::complete_tx::bytes");
  if (loads && t.parts.at(3) == "shared::cluster" && t.parts.at(4) == "shared::cta") return false;
  for (std::size_t o = 0; o < (loads ? 4u : 3u); ++o) {
    i.offset = 0;
    i.in.push_back(o == 2 ? s.reg(t.operands.at(o)) : address_of(s, t.operands.at(o), i));
    if (i.offset != 0) reject("has an offset");
  }
  i.run = loads ? bulk_load : bulk_store;
  return true;
}

}  // namespace

bool decode_copy(scope& s, const statement& t, instruction& i) {
  if (t.op() != "cp" || t.parts.size() < 3 || t.parts[1] != "async") return false;
  return t.parts[2] == "bulk" ? decode_bulk(s, t, i) : decode_thread_copy(s, t, i);
}

}  // namespace ptx
