// ufp4 - the PTX interpreter: tcgen05 except its products: tensor memory, loads, copies of scales, commits.
// SPDX-License-Identifier: Apache-2.0
//
// A product or a copy happens when a thread starts it. It is complete when the barrier of a tcgen05.commit has been
// arrived at. Until then nothing may write its operands in shared memory, read its sums, or overwrite its scales.
// Copies and products of one thread are executed in order; the PTX ISA promises that for a copy before a product and
// for products of the same sums, and nothing else is allowed here.
//
// With cta_group::2 the even thread block of a pair starts an instruction for both. A copy is from each thread block's
// shared memory to its own tensor memory.
//
// Source: PTX ISA, "TensorCore 5th Generation Family Instructions": pipelined instructions, tcgen05.cp, tcgen05.ld.
#include "gpu/ptx/tcgen05.hpp"

#include "gpu/ptx/barrier.hpp"
#include "gpu/ptx/decode.hpp"
#include "gpu/ptx/memory.hpp"

#include <utility>

namespace ptx {

void require_tensor_fence(const warp& w) {
  if (w.synced > w.tensor_acquired) reject("comes after a barrier without tcgen05.fence::after_thread_sync");
}

std::vector<thread_block*> tensor_group(warp& w, unsigned blocks) {
  thread_block& mine = *w.block;
  mine.tensor.require_blocks(blocks);
  if (blocks == 1) return {&mine};
  auto& all = mine.group->blocks;
  if (mine.rank % 2 != 0) reject("is not started by the even thread block of a pair");
  if (mine.rank + 1 >= all.size()) reject("has cta_group::2 in a cluster without pairs");
  return {&mine, all[mine.rank + 1].get()};
}

namespace {

std::uint32_t value(warp& w, unsigned reg, unsigned lane) { return static_cast<std::uint32_t>(w.reg(reg)[lane]); }
std::uint32_t uniform(warp& w, unsigned reg, mask m) {
  require_valid(w, reg, m, "an operand of tcgen05");
  const auto first = value(w, reg, static_cast<unsigned>(std::countr_zero(m)));
  each_lane(m, [&](unsigned l) {
    if (value(w, reg, l) != first) reject("has an operand that is not the same in all lanes");
  });
  return first;
}

// ---- Allocation ----

/// in: address in shared memory, columns. a: thread blocks
void allocate(warp& w, const instruction& i, mask m) {
  const auto at = uniform(w, i.in[0], m), columns = uniform(w, i.in[1], m);
  if (i.a == 2 && w.block->group->blocks.size() % 2 != 0) reject("has cta_group::2 in a cluster without pairs");
  const std::uint32_t address = w.block->tensor.allocate(columns, i.a);
  w.block->shared.store(at + static_cast<std::uint32_t>(i.offset), &address, 4, w.thread(0));
}
void release(warp& w, const instruction& i, mask m) {
  const tensor_address at(uniform(w, i.in[0], m));
  w.block->tensor.require_blocks(i.a);
  w.block->tensor.release(at.column, uniform(w, i.in[1], m));
}
void relinquish(warp& w, const instruction&, mask) { w.block->tensor.relinquish(); }

// ---- Fences, loads ----

void fence_before(warp& w, const instruction&, mask) { w.tensor_released = w.count; }
void fence_after(warp& w, const instruction&, mask) { w.tensor_acquired = w.count; }

/// out: a column each, the warp's 32 lanes of it; in: address
void load_columns(warp& w, const instruction& i, mask m) {
  require_tensor_fence(w);
  const tensor_address at(uniform(w, i.in[0], m));
  if (at.lane != w.index % 4 * 32) reject("reads lanes of tensor memory that belong to another warp");
  tensor_memory& tensor = w.block->tensor;
  const auto n = static_cast<unsigned>(i.out.size());
  tensor.begin_load(at.column, n);
  for (unsigned c = 0; c < n; ++c) {
    const std::uint32_t* from = tensor.column(at.column + c) + at.lane;
    for (unsigned l = 0; l < lanes; ++l) w.reg(i.out[c])[l] = from[l];
    if (w.pending[i.out[c]] > w.complete) reject("overwrites a result of tcgen05.ld that has not been waited for");
    w.pending[i.out[c]] = w.committed + 1;
    w.written[i.out[c]] = w.count;
    set_valid(w, i.out[c], m, all_lanes);
  }
  w.open = true;
  w.tensor_loads.push_back({w.block, at.column, n, false});
  w.tensor_loaded = w.count;
}
void wait_loads(warp& w, const instruction&, mask) {
  w.committed += w.open;
  w.complete = w.committed;
  w.open = false;
  for (const tensor_use& u : w.tensor_loads) u.block->tensor.end_load(u.first, u.columns);
  w.tensor_loads.clear();
}

// ---- Copies ----

/// 32 rows of 16 bytes to the same lane of each part of the lanes. in: target, descriptor. a: thread blocks
void copy_scales(warp& w, const instruction& i, mask m) {
  require_tensor_fence(w);
  for (const unsigned r : i.in) require_valid(w, r, m, "an operand of tcgen05.cp");
  each_lane(m, [&](unsigned l) {
    const tensor_address to(w.reg(i.in[0])[l]);
    const tensor_descriptor from(w.reg(i.in[1])[l]);
    if (to.lane != 0 || to.column % 4 != 0) reject("copies to an address that is not a multiple of 4 columns");
    for (thread_block* b : tensor_group(w, i.a)) {
      b->tensor.begin_copy(to.column, 4);
      w.tensor_started.columns.push_back({b, to.column, 4, true});
      for (unsigned row = 0; row < 32; ++row) {
        std::uint32_t words[4];
        const std::uint32_t at = from.along_k(row, 0);
        b->shared.load_async(at, words, 16, "tcgen05.cp");
        b->shared.begin_read(b->shared.piece(at));
        w.tensor_started.pieces.emplace_back(b, b->shared.piece(at));
        for (unsigned part = 0; part < 4; ++part)
          for (unsigned c = 0; c < 4; ++c) b->tensor.column(to.column + c)[32 * part + row] = words[c];
      }
    }
  });
}

// ---- Commits ----

void finish(const tensor_work& work) {
  for (const auto& [block, piece] : work.pieces) block->shared.end_read(piece);
  for (const tensor_use& u : work.columns)
    u.writes ? u.block->tensor.end_write(u.first, u.columns) : u.block->tensor.end_scales(u.first, u.columns);
}
void arrive_at(thread_block& b, std::uint32_t barrier) {
  bool lives = false;
  for (const warp& w : b.warps) lives = lives || w.live != 0;
  if (!lives) reject("tcgen05.commit arrives at a barrier of a thread block that has exited");
  std::uint64_t bits;
  b.shared.load_async(barrier, &bits, 8, "tcgen05.commit");
  arrive(b.shared.barrier(barrier), 1);
}

/// in: barrier, [mask of thread blocks]. a: thread blocks; b: multicast
void commit(warp& w, const instruction& i, mask m) {
  for (const unsigned r : i.in) require_valid(w, r, m, "an operand of tcgen05.commit");
  each_lane(m, [&](unsigned l) {
    cluster& all = *w.block->group;
    w.block->tensor.require_blocks(i.a);
    auto at = value(w, i.in[0], l) + static_cast<std::uint32_t>(i.offset);
    thread_block& one = block_of(w, at);
    const unsigned targets = i.b != 0 ? value(w, i.in[1], l) & 0xFFFFu : 1u << one.rank;
    if (targets >> all.blocks.size() != 0) reject("arrives at a thread block that is not in the cluster");
    std::vector<thread_block*> blocks;
    for (unsigned r = 0; r < all.blocks.size(); ++r)
      if ((targets >> r & 1) != 0) blocks.push_back(all.blocks[r].get());
    all.pending.push_back({[blocks, at, work = std::exchange(w.tensor_started, {})] {
      finish(work);
      for (thread_block* b : blocks) arrive_at(*b, at);
    }});
  });
}

// ---- Decoding ----

bool decode_multiply(scope& s, const statement& t, instruction& i) {
  if (!t.has("block_scale") || t.operands.size() != 7) return false;
  if (t.has("kind::mxf4nvf4"))
    i.b = t.has("scale_vec::4X") || t.has("block16") ? 4 : 0;
  else if (t.has("kind::mxf4"))
    i.b = 2;
  if (i.b == 0) return false;
  i.in = {address_of(s, t.operands[0], i)};
  for (std::size_t o = 1; o < 4; ++o) i.in.push_back(s.reg(t.operands[o]));
  for (std::size_t o = 4; o < 6; ++o) i.in.push_back(address_of(s, t.operands[o], i));
  i.in.push_back(s.predicate(t.operands[6]));
  if (i.offset != 0) reject("has an offset");
  i.run = multiply_blocks;
  return true;
}
bool decode_load(scope& s, const statement& t, instruction& i) {
  if (!t.has("32x32b") || t.has("pack::16b")) return false;
  i.out = registers_of(s, t.operands.at(0));
  if (!t.has("x" + std::to_string(i.out.size()))) reject("has a wrong number of registers");
  i.in = {address_of(s, t.operands.at(1), i)};
  if (i.offset != 0) reject("has an offset");
  i.effect = kind::product;
  i.run = load_columns;
  return true;
}
bool decode_copy_scales(scope& s, const statement& t, instruction& i) {
  if (!t.has("32x128b") || !t.has("warpx4")) return false;
  i.in = {address_of(s, t.operands.at(0), i), s.reg(t.operands.at(1))};
  if (i.offset != 0) reject("has an offset");
  i.run = copy_scales;
  return true;
}

}  // namespace

bool decode_tcgen05(scope& s, const statement& t, instruction& i) {
  if (t.op() != "tcgen05") return false;
  const std::string& what = t.parts.at(1);
  i.aligned = t.has("aligned");
  i.effect = kind::own;
  i.a = t.has("cta_group::2") ? 2 : 1;
  if (what == "mma") return decode_multiply(s, t, i);
  if (what == "ld") return decode_load(s, t, i);
  if (what == "cp") return decode_copy_scales(s, t, i);
  if (what == "fence::before_thread_sync" || what == "fence::after_thread_sync") {
    i.run = what == "fence::before_thread_sync" ? fence_before : fence_after;
  } else if (what == "wait::ld") {
    i.run = wait_loads;
  } else if (what == "relinquish_alloc_permit") {
    i.run = relinquish;
  } else if (what == "alloc") {
    i.in = {address_of(s, t.operands.at(0), i), s.reg(t.operands.at(1))};
    i.run = allocate;
  } else if (what == "dealloc") {
    i.in = {s.reg(t.operands.at(0)), s.reg(t.operands.at(1))};
    i.run = release;
  } else if (what == "commit") {
    i.in = {address_of(s, t.operands.at(0), i)};
    i.b = t.has("multicast::cluster");
    if (i.b != 0) i.in.push_back(s.reg(t.operands.at(1)));
    i.run = commit;
  }
  return i.run != nullptr;
}

}  // namespace ptx
