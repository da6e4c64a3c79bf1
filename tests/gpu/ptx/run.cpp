// ufp4 - the PTX interpreter: runs a grid. Clusters run on threads of the machine; the warps of a cluster in turns.
// SPDX-License-Identifier: Apache-2.0
//
// A warp runs until it has to wait. What the copy engine does may happen at any time; run_cluster tells when it does.
#include "gpu/ptx/state.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

namespace ptx {

namespace {

word special_value(const warp& w, unsigned lane, const std::string& name) {
  const thread_block& b = *w.block;
  const index3 size = b.call->block, grid = b.call->grid, cluster = b.call->cluster;
  const unsigned t = w.thread(lane);
  const index3 thread{t % size.x, t / size.x % size.y, t / size.x / size.y};
  const auto axis = [&](const index3& i) { return name.back() == 'x' ? i.x : name.back() == 'y' ? i.y : i.z; };
  const auto is = [&](std::string_view prefix) { return std::string_view(name).substr(0, prefix.size()) == prefix; };
  const auto over = [&](const index3& a, const index3& by) { return index3{a.x / by.x, a.y / by.y, a.z / by.z}; };
  if (is("%tid.")) return axis(thread);
  if (is("%ntid.")) return axis(size);
  if (is("%ctaid.")) return axis(b.at);
  if (is("%nctaid.")) return axis(grid);
  if (is("%clusterid.")) return axis(over(b.at, cluster));
  if (is("%nclusterid.")) return axis(over(grid, cluster));
  if (is("%cluster_ctaid.")) return axis({b.at.x % cluster.x, b.at.y % cluster.y, b.at.z % cluster.z});
  if (is("%cluster_nctaid.")) return axis(cluster);
  if (name == "%cluster_ctarank") return b.rank;
  if (name == "%cluster_nctarank") return cluster.count();
  if (name == "%laneid") return lane;
  if (name == "%warpid") return w.index;
  if (name == "%nwarpid") return b.warps.size();
  if (name == "%lanemask_lt") return (mask{1} << lane) - 1;
  if (name == "%lanemask_le") return (mask{2} << lane) - 1;
  if (name == "%lanemask_eq") return mask{1} << lane;
  if (name == "%lanemask_gt") return ~((mask{2} << lane) - 1);
  if (name == "%lanemask_ge") return ~((mask{1} << lane) - 1);
  if (name == "%dynamic_smem_size") return b.call->dynamic_shared;
  if (name == "%total_smem_size") return b.call->dynamic_shared + b.call->what->static_shared;
  if (is("%clock") || is("%globaltimer") || name == "%smid") return 0;
  reject("the special register " + name + " is not known");
}

void start_warp(warp& w, thread_block& b, unsigned index) {
  const kernel& k = *b.call->what;
  const bool fresh = w.registers.size() != std::size_t{k.registers} * lanes;
  w.block = &b;
  w.index = index;
  const unsigned threads = b.call->block.count(), first = index * lanes;
  w.live = threads - first >= lanes ? all_lanes : (mask{1} << (threads - first)) - 1;
  if (fresh) {
    w.registers.assign(std::size_t{k.registers} * lanes, 0xDEAD'BEEF'DEAD'BEEFull);
    for (const auto& c : k.constants) std::fill_n(w.reg(c.reg), lanes, c.value);
  }
  w.valid.assign(k.registers, 0);
  w.valid_low.assign(k.registers, 0);
  w.pending.assign(k.registers, 0);
  w.locked.assign(k.registers, 0);
  w.written.assign(k.registers, 0);
  for (const auto& c : k.constants) set_valid(w, c.reg, all_lanes, all_lanes);
  for (const auto& s : k.specials) {
    set_valid(w, s.reg, all_lanes, all_lanes);
    each_lane(all_lanes, [&](unsigned l) { w.reg(s.reg)[l] = special_value(w, l, s.name); });
  }
  w.paths.clear();
  w.paths.reserve(2 * lanes);
  w.paths.push_back({0, w.live, false, {}});
  w.local.assign(k.local_bytes * lanes, 0xA5);
  w.count = w.committed = w.complete = w.fenced = 0;
  w.open = false;
  w.reads.clear();
  w.tensor_started = {};
  w.tensor_loads.clear();
  w.synced = w.tensor_loaded = w.tensor_released = w.tensor_acquired = 0;
  w.copies.assign(lanes, std::deque<std::vector<thread_copy>>(1));
  w.barrier = -1;
}

void check_registers(warp& w, const instruction& i) {
  const auto fail = [&w](const char* how) {
    reject(std::string(how) + (w.tensor_loads.empty() ? " a sum of a wgmma" : " a result of tcgen05.ld") +
           " that has not been waited for");
  };
  if (i.effect == kind::copy) {
    for (const unsigned r : i.out)
      if (w.pending[r] > w.complete && w.pending[i.in[0]] <= w.complete) fail("overwrites");
  } else {
    for (const unsigned r : i.in)
      if (w.pending[r] > w.complete) fail("reads");
    for (const unsigned r : i.out)
      if (w.pending[r] > w.complete) fail("overwrites");
  }
  for (const unsigned r : i.out)
    if (w.locked[r] > w.complete) reject("overwrites an operand of a wgmma that has not been waited for");
}

void finish_registers(warp& w, const instruction& i, mask m) {
  const mask v = valid_inputs(w, i);
  for (const unsigned r : i.out) {
    w.written[r] = w.count;
    if (i.effect == kind::low) {
      set_valid(w, r, m, w.valid_low[i.in[0]]);
    } else if (i.effect == kind::pack) {
      set_valid(w, r, m, v, w.valid_low[i.in[0]]);
    } else if (i.effect == kind::copy) {
      set_valid(w, r, m, v, w.valid_low[i.in[0]]);
      w.pending[r] = w.pending[i.in[0]];
      w.written[r] = w.written[i.in[0]];
    } else {
      set_valid(w, r, m, v);
    }
  }
}

/// Joins the current path with others at the same place.
void join(warp& w) {
  for (std::size_t a = 0; a < w.paths.size(); ++a)
    for (std::size_t b = w.paths.size() - 1; b > a; --b)
      if (w.paths[a].pc == w.paths[b].pc && w.paths[a].returns == w.paths[b].returns) {
        w.paths[a].active |= w.paths[b].active;
        w.paths[a].stalled = false;
        w.paths.erase(w.paths.begin() + static_cast<std::ptrdiff_t>(b));
      }
}
void drop_empty(warp& w) {
  std::erase_if(w.paths, [](const path& p) { return p.active == 0; });
}
/// The path that is furthest behind and can go on; null if all wait.
path* next_path(warp& w) {
  path* best = nullptr;
  for (path& p : w.paths)
    if (!p.stalled && (best == nullptr || p.pc < best->pc)) best = &p;
  return best;
}

/// One instruction of the path w.now.
void step(warp& w, const kernel& k) {
  const instruction& i = k.code[w.now->pc];
  const bool wgmma = w.committed + w.open > w.complete;
  mask m = w.now->active;
  if (i.aligned && m != w.live) {
    w.now->stalled = true;
    return;
  }
  if (i.guard >= 0) {
    const auto g = static_cast<unsigned>(i.guard);
    require_valid(w, g, m, "a condition");
    m &= i.unless ? ~w.bits(g) : w.bits(g);
  }
  if (wgmma && i.effect != kind::product) check_registers(w, i);
  ++w.count;
  w.retry = false;
  const unsigned pc = w.now->pc;
  if (m != 0) {
    i.run(w, i, m);
    if (!w.retry && i.effect < kind::own) finish_registers(w, i, m);
    if (!w.retry && i.effect == kind::own)
      for (const unsigned r : i.out)
        if (r < w.written.size()) w.written[r] = w.count;
  }
  if (w.now->stalled) return;
  ++w.block->group->counts[pc];
  w.block->group->progress = true;
  if (!w.retry) ++w.now->pc;
}

[[noreturn]] void rethrow(const warp& w, const std::exception& e, unsigned pc) {
  const thread_block& b = *w.block;
  throw std::runtime_error("line " + std::to_string(b.call->what->code[pc].line) + ", block (" +
                           std::to_string(b.at.x) + ", " + std::to_string(b.at.y) + ", " + std::to_string(b.at.z) +
                           "), warp " + std::to_string(w.index) + ": " + e.what());
}

/// Until the warp waits or has exited. True if it has exited.
bool run_warp(warp& w) {
  const kernel& k = *w.block->call->what;
  for (path& p : w.paths) p.stalled = false;
  while (!w.paths.empty()) {
    w.now = w.paths.size() == 1 ? (w.paths[0].stalled ? nullptr : w.paths.data()) : next_path(w);
    if (w.now == nullptr) return false;
    const unsigned pc = w.now->pc;
    try {
      step(w, k);
    } catch (const std::exception& e) {
      rethrow(w, e, pc);
    }
    if (w.paths.size() > 1 || w.now->active == 0) {
      drop_empty(w);
      join(w);
    }
  }
  return true;
}

[[noreturn]] void deadlock(const cluster& c) {
  std::string where;
  for (const auto& b : c.blocks)
    for (const warp& w : b->warps)
      for (const path& p : w.paths) {
        if (where.size() > 600) continue;
        where += "; block " + std::to_string(b->at.x) + " warp " + std::to_string(w.index) + " at line " +
                 std::to_string(c.call->what->code[p.pc].line);
      }
  throw std::runtime_error("line 0: no warp can go on" + where);
}

/// The copy engine does the first thing that it has to do.
void run_pending(cluster& c) {
  const auto work = std::move(c.pending.front());
  c.pending.pop_front();
  c.progress = true;  // a warp that waited before may go on
  work.run();
}

/// Copies arrive as late as possible in order 0, as early as possible in order 1, else at random.
void run_cluster(cluster& c, unsigned order) {
  std::vector<warp*> all;
  for (const auto& b : c.blocks)
    for (warp& w : b->warps) all.push_back(&w);
  std::mt19937 random(order);
  if (order == 1) std::reverse(all.begin(), all.end());
  while (!all.empty()) {
    if (order > 1) std::shuffle(all.begin(), all.end(), random);
    c.progress = false;
    std::erase_if(all, [&](warp* w) {
      const bool exited = run_warp(*w);
      while (!c.pending.empty() && (order == 1 || (order > 1 && random() % 4 == 0))) run_pending(c);
      return exited;
    });
    if (c.progress || all.empty()) continue;
    if (c.pending.empty()) deadlock(c);
    run_pending(c);
  }
  while (!c.pending.empty()) run_pending(c);
  for (const auto& b : c.blocks)
    if (!b->tensor.is_empty()) throw std::runtime_error("line 0: a thread block exits without tcgen05.dealloc");
}

void start_cluster(cluster& c, const launch& call, unsigned number) {
  c.call = &call;
  c.counts.resize(call.what->code.size());
  c.arrived = c.phase = 0;
  const index3 size = call.cluster;
  const index3 clusters{call.grid.x / size.x, call.grid.y / size.y, call.grid.z / size.z};
  const index3 at{number % clusters.x, number / clusters.x % clusters.y, number / clusters.x / clusters.y};
  c.blocks.resize(size.count());
  for (unsigned r = 0; r < size.count(); ++r) {
    if (c.blocks[r] == nullptr) c.blocks[r] = std::make_unique<thread_block>();
    thread_block& b = *c.blocks[r];
    b.call = &call;
    b.group = &c;
    b.rank = r;
    b.at = {at.x * size.x + r % size.x, at.y * size.y + r / size.x % size.y, at.z * size.z + r / size.x / size.y};
    b.tensor.reset();
    b.shared.resize(call.what->static_shared + call.dynamic_shared, call.block.count());
    for (auto& barrier : b.barriers) barrier = {};
    b.warps.resize((call.block.count() + lanes - 1) / lanes);
    for (unsigned w = 0; w < b.warps.size(); ++w) start_warp(b.warps[w], b, w);
  }
}

/// Clusters that threads of the machine take.
struct work_list {
  std::atomic<unsigned> next{0};
  std::mutex lock;
  std::exception_ptr first;
  std::vector<std::uint64_t> counts;
};

void take_clusters(work_list& list, const launch& call, unsigned clusters, unsigned order) {
  cluster c;
  try {
    for (unsigned n = list.next++; n < clusters; n = list.next++) {
      start_cluster(c, call, order == 1 ? clusters - 1 - n : n);
      run_cluster(c, order);
    }
  } catch (...) {
    const std::lock_guard guard(list.lock);
    if (list.first == nullptr) list.first = std::current_exception();
    list.next = clusters;
  }
  const std::lock_guard guard(list.lock);
  list.counts.resize(call.what->code.size());
  for (std::size_t i = 0; i < c.counts.size(); ++i) list.counts[i] += c.counts[i];
}

}  // namespace

result run(const launch& call, unsigned threads, unsigned order) {
  if (call.grid.x % call.cluster.x != 0 || call.grid.y % call.cluster.y != 0 || call.grid.z % call.cluster.z != 0)
    reject("the grid is not a multiple of the cluster");
  if (call.block.count() > call.what->max_threads) reject("more threads in a block than the kernel was compiled for");
  const unsigned clusters = call.grid.count() / call.cluster.count();
  work_list list;
  std::vector<std::thread> others;
  for (unsigned t = 1; t < std::min(threads, clusters); ++t)
    others.emplace_back([&] { take_clusters(list, call, clusters, order); });
  take_clusters(list, call, clusters, order);
  for (auto& t : others) t.join();
  if (list.first != nullptr) std::rethrow_exception(list.first);
  result r;
  r.counts = std::move(list.counts);
  r.warps = std::uint64_t{call.grid.count()} * ((call.block.count() + lanes - 1) / lanes);
  return r;
}

}  // namespace ptx
