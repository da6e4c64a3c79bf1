// ufp4 - the PTX interpreter: copies of boxes by tensor maps (TMA), with swizzles and multicast.
// SPDX-License-Identifier: Apache-2.0
//
// Source: PTX ISA, "cp.async.bulk.tensor", "Swizzling modes": the swizzle is a function of the shared address.
#include "gpu/ptx/bulk.hpp"
#include "gpu/ptx/decode.hpp"
#include "gpu/ptx/memory.hpp"

#include <cstring>

namespace ptx {

namespace {

/// A box: where it is in the tensor, and in shared memory.
struct box_copy {
  tensor_map map;
  std::int32_t at[5] = {};
  std::uint32_t shared = 0;
  unsigned bytes() const {
    unsigned n = map.element_bytes;
    for (unsigned d = 0; d < map.rank; ++d) n *= map.box[d];
    return n;
  }
};

unsigned span_of(const tensor_map& m) { return m.swizzle == 0 ? 0 : 16u << m.swizzle; }

tensor_map read_map(warp& w, word address) {
  tensor_map m;
  if ((address & 63) != 0) reject("uses a tensor map that is not aligned to 64 bytes");
  if ((address & window_bits) == param_window)
    load(w, space::param, 0, address, &m, sizeof m);
  else
    std::memcpy(&m, device_memory::here().find(address, sizeof m), sizeof m);
  if (m.is_map != tensor_map::signature) reject("uses a tensor map that cuTensorMapEncodeTiled did not make");
  return m;
}

/// Calls f(place in shared memory, address in global memory or 0, bytes) for each row of a box.
template <class F>
void each_row(const box_copy& c, F f) {
  const tensor_map& m = c.map;
  const unsigned row = m.box[0] * m.element_bytes;
  unsigned index[5] = {};
  for (unsigned at = 0; at < c.bytes(); at += row) {
    word address = m.address;
    bool inside = true;
    for (unsigned d = 1; d < m.rank; ++d) {
      const std::int64_t i = std::int64_t{c.at[d]} + index[d] * m.steps[d];
      inside = inside && i >= 0 && i < static_cast<std::int64_t>(m.sizes[d]);
      address += static_cast<word>(i) * m.strides[d];
    }
    for (unsigned e = 0; e < m.box[0]; ++e) {
      const std::int64_t i = std::int64_t{c.at[0]} + e;
      const bool here = inside && i >= 0 && i < static_cast<std::int64_t>(m.sizes[0]);
      f(at + e * m.element_bytes, here ? address + static_cast<word>(i) * m.element_bytes : 0, m.element_bytes);
    }
    for (unsigned d = 1; d < m.rank && ++index[d] == m.box[d]; ++d) index[d] = 0;
  }
}

/// The bytes of a box as they lie in shared memory, in pieces of 16; counted at a barrier of `counter`.
void arrive_box(thread_block& b, const box_copy& c, std::uint32_t to, thread_block& counter, std::uint32_t barrier) {
  const unsigned bytes = c.bytes();
  std::vector<unsigned char> data(bytes);
  each_row(c, [&](unsigned at, word from, unsigned n) {
    if (from != 0) std::memcpy(data.data() + at, device_memory::here().find(from, n), n);
  });
  for (unsigned at = 0; at < bytes; at += 16)
    b.shared.finish_copy(swizzled(to + at, span_of(c.map)), data.data() + at, std::min(16u, bytes - at));
  complete_bytes(counter, barrier, bytes);
}

box_copy box_of(warp& w, const instruction& i, unsigned lane) {
  box_copy c;
  c.map = read_map(w, w.reg(i.in[0])[lane]);
  if (c.map.rank != i.a)
    reject("has " + std::to_string(i.a) + " dimensions, and the tensor map " + std::to_string(c.map.rank));
  for (unsigned d = 0; d < i.a; ++d) c.at[d] = static_cast<std::int32_t>(w.reg(i.in[1 + d])[lane]);
  return c;
}
void require_place(std::uint32_t at, const tensor_map& m) {
  if (at % 128 != 0) reject("copies a box to shared memory that is not aligned to 128 bytes");
  if (m.swizzle != 0 && at % (8 * span_of(m)) != 0)
    reject("copies a swizzled box to an address that its pattern does not begin at");
}

/// in: map, coordinates, target, barrier, [blocks of the cluster]. a: dimensions; b: multicast; c: the barrier may be
/// of the other thread block of the pair
void load_box(warp& w, const instruction& i, mask m) {
  for (const unsigned r : i.in) require_valid(w, r, m, "an operand of a copy");
  each_lane(m, [&](unsigned l) {
    const box_copy c = box_of(w, i, l);
    auto to = static_cast<std::uint32_t>(w.reg(i.in[1 + i.a])[l]),
         bar = static_cast<std::uint32_t>(w.reg(i.in[2 + i.a])[l]);
    thread_block& mine = block_of(w, to);
    thread_block& barrier_block = block_of(w, bar);
    require_place(to, c.map);
    cluster& all = *w.block->group;
    const unsigned blocks = i.b != 0 ? static_cast<unsigned>(w.reg(i.in[3 + i.a])[l]) & 0xFFFFu : 1u << mine.rank;
    if (blocks >> all.blocks.size() != 0) reject("copies to a thread block that is not in the cluster");
    for (unsigned r = 0; r < all.blocks.size(); ++r) {
      if ((blocks >> r & 1) == 0) continue;
      thread_block* b = all.blocks[r].get();
      const bool of_pair = i.c != 0 && barrier_block.rank / 2 == r / 2;
      if (i.b == 0 && &barrier_block != b && !of_pair) reject("counts bytes at a barrier of another thread block");
      thread_block* counter = i.b == 0 ? &barrier_block : b;
      b->shared.begin_copy(to, c.bytes());
      all.pending.push_back({[b, c, to, counter, bar] { arrive_box(*b, c, to, *counter, bar); }});
    }
  });
}

/// in: map, coordinates, source. Reads and writes at once.
void store_box(warp& w, const instruction& i, mask m) {
  for (const unsigned r : i.in) require_valid(w, r, m, "an operand of a copy");
  each_lane(m, [&](unsigned l) {
    const box_copy c = box_of(w, i, l);
    const auto from = static_cast<std::uint32_t>(w.reg(i.in[1 + i.a])[l]);
    require_place(from, c.map);
    std::vector<unsigned char> data(c.bytes());
    for (unsigned at = 0; at < c.bytes(); at += 16)
      w.block->shared.load_async(swizzled(from + at, span_of(c.map)), data.data() + at, std::min(16u, c.bytes() - at),
                                 "the copy engine");
    each_row(c, [&](unsigned at, word to, unsigned n) {
      if (to != 0) std::memcpy(device_memory::here().find(to, n), data.data() + at, n);
    });
  });
}

/// Of [map, {x, y}]: the map's and the coordinates' registers.
void tensor_operand(scope& s, const std::string& operand, instruction& i) {
  const auto parts = split_list(std::string_view(operand).substr(1, operand.size() - 2));
  i.in = {address_of(s, "[" + parts.at(0) + "]", i)};
  if (i.offset != 0) reject("has an offset");
  for (const unsigned r : registers_of(s, parts.at(1))) i.in.push_back(r);
  i.a = static_cast<unsigned>(i.in.size()) - 1;
}
void nothing(warp&, const instruction&, mask) {}

}  // namespace

bool decode_tensor_copy(scope& s, const statement& t, instruction& i) {
  if (t.op() == "cp" && t.has("prefetch") && t.has("tensor")) {
    i.effect = kind::own;
    i.run = nothing;
    return true;
  }
  if (t.op() != "cp" || t.parts.size() < 4 || t.parts[2] != "bulk" || t.parts[3] != "tensor") return false;
  i.c = t.has("cta_group::2");
  if (t.has("im2col") || (i.c != 0 && t.has("multicast::cluster"))) return false;
  i.effect = kind::own;
  const bool loads = t.has("mbarrier::complete_tx::bytes");
  tensor_operand(s, t.operands.at(loads ? 1 : 0), i);
  i.offset = 0;
  i.in.push_back(address_of(s, t.operands.at(loads ? 0 : 1), i));
  if (loads) i.in.push_back(address_of(s, t.operands.at(2), i));
  i.b = t.has("multicast::cluster");
  if (i.b != 0) i.in.push_back(s.reg(t.operands.at(3)));
  if (i.offset != 0) reject("has an offset");
  i.run = loads ? load_box : store_box;
  return true;
}

}  // namespace ptx
