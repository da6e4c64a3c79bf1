// ufp4 - the PTX interpreter: branches, calls, returns and exits.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/ptx/control.hpp"

#include <cstring>
#include <utility>

namespace ptx {

namespace {

/// The lanes that leave go on at another instruction; the others stay.
void leave(warp& w, mask m, unsigned target, std::vector<unsigned> returns) {
  w.now->active &= ~m;
  w.paths.push_back({target, m, false, std::move(returns)});
}
void copy_parameters(warp& w, const std::vector<unsigned>& list, unsigned from, unsigned to, mask m) {
  const std::size_t bytes = w.local.size() / lanes;
  for (unsigned p = from; p < to; p += 3)
    each_lane(m, [&](unsigned l) {
      unsigned char* base = w.local.data() + bytes * l;
      std::memmove(base + list[p], base + list[p + 1], list[p + 2]);
    });
}

}  // namespace

void branch(warp& w, const instruction& i, mask m) {
  if (m == 0) return;
  if (m == w.now->active) {
    w.now->pc = i.target;
    w.retry = true;  // the program counter is set
    w.block->group->progress = true;
    w.now->stalled = false;
  } else {
    // w.now is invalid after this, as `paths` may move: the loop looks it up again.
    const auto returns = w.now->returns;
    leave(w, m, i.target, returns);
  }
}
void exit_lanes(warp& w, const instruction&, mask m) {
  w.now->active &= ~m;
  w.live &= ~m;
}
void trap(warp&, const instruction&, mask m) {
  if (m != 0) reject("executes trap");
}

void call_function(warp& w, const instruction& i, mask m) {
  if (m == 0) return;
  copy_parameters(w, i.out, 0, i.b, m);
  auto returns = w.now->returns;
  returns.push_back(w.now->pc);
  if (m == w.now->active) {
    w.now->pc = i.target;
    w.now->returns = std::move(returns);
    w.retry = true;
  } else {
    leave(w, m, i.target, std::move(returns));
  }
}

void return_from(warp& w, const instruction& i, mask m) {
  if (m == 0) return;
  if (w.now->returns.empty()) return exit_lanes(w, i, m);
  const unsigned caller = w.now->returns.back();
  const instruction& c = w.block->call->what->code[caller];
  copy_parameters(w, c.out, c.b, static_cast<unsigned>(c.out.size()), m);
  auto returns = w.now->returns;
  returns.pop_back();
  if (m == w.now->active) {
    w.now->pc = caller + 1;
    w.now->returns = std::move(returns);
    w.retry = true;
  } else {
    leave(w, m, caller + 1, std::move(returns));
  }
}

}  // namespace ptx
