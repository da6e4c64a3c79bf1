// ufp4 - the PTX interpreter: tcgen05, the block-scaled products of elements of 4 bits, by one thread block or a pair.
// SPDX-License-Identifier: Apache-2.0
//
// A product or a copy happens when a thread starts it. It is complete when the barrier of a tcgen05.commit has been
// arrived at. Until then nothing may write its operands in shared memory, read its sums, or overwrite its scales.
// Copies and products of one thread are executed in order; the PTX ISA promises that for a copy before a product and
// for products of the same sums, and nothing else is allowed here.
//
// Sums are of a block of 16 or 32 elements exactly, times both scales, and added to the binary32 sum with one rounding:
// hardware promises neither this order nor this rounding.
//
// With cta_group::2 the even thread block of a pair starts the instruction. Each of the two has 128 rows of a and d,
// half of the rows of b, and, at the same addresses of its own tensor memory, the scales of its rows of a and of all
// rows of b. A copy is from each thread block's shared memory to its own tensor memory.
//
// Source: PTX ISA, "TensorCore 5th Generation Family Instructions": descriptors, layouts of scales, pipelined
// instructions, "Data path layout organization".
#include "gpu/ptx/barrier.hpp"
#include "gpu/ptx/bulk.hpp"
#include "gpu/ptx/decode.hpp"
#include "gpu/ptx/memory.hpp"
#include "gpu/ptx/products.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace ptx {

namespace {

/// An address of tensor memory: the lane, and the column.
struct tensor_address {
  unsigned lane, column;
  explicit tensor_address(word w)
      : lane(static_cast<unsigned>(w >> 16 & 0xFFFFu)), column(static_cast<unsigned>(w & 0xFFFFu)) {}
};

std::uint32_t value(warp& w, unsigned reg, unsigned lane) { return static_cast<std::uint32_t>(w.reg(reg)[lane]); }
std::uint32_t uniform(warp& w, unsigned reg, mask m) {
  require_valid(w, reg, m, "an operand of tcgen05");
  const auto first = value(w, reg, static_cast<unsigned>(std::countr_zero(m)));
  each_lane(m, [&](unsigned l) {
    if (value(w, reg, l) != first) reject("has an operand that is not the same in all lanes");
  });
  return first;
}

/// After a wait at a barrier and before an instruction that uses tensor memory there is a fence.
void require_fence(const warp& w) {
  if (w.synced > w.tensor_acquired) reject("comes after a barrier without tcgen05.fence::after_thread_sync");
}

/// The thread blocks that an instruction of a: 1 or 2 thread blocks concerns.
std::vector<thread_block*> group_of(warp& w, unsigned blocks) {
  thread_block& mine = *w.block;
  mine.tensor.require_blocks(blocks);
  if (blocks == 1) return {&mine};
  auto& all = mine.group->blocks;
  if (mine.rank % 2 != 0) reject("is not started by the even thread block of a pair");
  if (mine.rank + 1 >= all.size()) reject("has cta_group::2 in a cluster without pairs");
  return {&mine, all[mine.rank + 1].get()};
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
  require_fence(w);
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

// ---- Operands ----

/// Of shared memory, as tcgen05 reads it.
struct descriptor {
  std::uint32_t start, leading, stride;
  unsigned span;  ///< of the swizzle in bytes; 0: none

  explicit descriptor(word w) {
    const auto field = [w](unsigned at) { return static_cast<std::uint32_t>(w >> at & 0x3FFFu) << 4; };
    start = field(0);
    leading = field(16);
    stride = field(32);
    if ((w >> 46 & 7) != 1) reject("has a descriptor without the constant 1 in bits 46 to 48");
    if ((w >> 49 & 7) != 0) reject("has a descriptor with a base offset, which the interpreter does not know");
    constexpr word unused = word{3} << 14 | word{3} << 30 | word{0x1FF} << 52;
    if ((w & unused) != 0) reject("has a descriptor with bits that must be 0");
    switch (w >> 61) {
      case 0: span = 0; break;
      case 2: span = 128; break;
      case 4: span = 64; break;
      case 6: span = 32; break;
      default: reject("has a descriptor with a swizzle that the interpreter does not know");
    }
  }
  /// 16 bytes of a row of an operand that is contiguous along K.
  std::uint32_t place(unsigned row, unsigned piece) const {
    if (span == 0) return start + row / 8 * stride + piece * leading + row % 8 * 16;
    return swizzled(start + row / 8 * stride + row % 8 * span + piece * 16, span);
  }
};

/// Of kinds mxf4 and mxf4nvf4.
struct instruction_fields {
  unsigned rows, cols, scale_a, scale_b;
  bool e8m0;

  instruction_fields(std::uint32_t d, unsigned blocks, unsigned scales) {
    const auto field = [d](unsigned first, unsigned last) { return d >> first & ((1u << (last - first + 1)) - 1); };
    if (field(7, 9) != 1 || field(10, 11) != 1) reject("has elements that are not E2M1");
    if (field(0, 3) != 0 || field(6, 6) != 0 || field(24, 26) != 0) reject("has descriptor bits that must be 0");
    if (field(12, 16) != 0) reject("negates or transposes an operand, which the interpreter does not know");
    if (field(31, 31) != 0) reject("has K = 96, which the interpreter does not know");
    rows = field(27, 28) << 7;
    cols = field(17, 22) << 3;
    scale_a = field(29, 30);
    scale_b = field(4, 5);
    e8m0 = field(23, 23) != 0;
    if (rows != 128 * blocks) reject("has a number of rows that the interpreter does not know");
    if (cols == 0 || cols > 256 || cols % (8 * blocks) != 0) reject("has an invalid number of columns");
    const unsigned ids = scales == 4 ? 1 : 3;
    if (scale_a % 2 != 0 || scale_b % 2 != 0 || scale_a >= ids || scale_b >= ids)
      reject("has an invalid scale factor id");
    if (e8m0 != (scales == 2)) reject("has scales of a type that the interpreter does not know for this kind");
  }
};

double scale_value(bool e8m0, std::uint8_t code) {
  if (!e8m0) return e4m3::value(code & 0x7Fu);
  return code == 0xFF ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - 127);
}
float element_of_code(unsigned code) {
  constexpr float magnitude[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return (code & 8) != 0 ? -magnitude[code & 7] : magnitude[code & 7];
}

constexpr unsigned depth = 64;

/// 64 elements of `rows` rows in the shared memory of a block: at(row, k) receives each.
template <class At>
void read_elements(thread_block& b, const descriptor& d, unsigned rows, tensor_work& work, At at) {
  for (unsigned row = 0; row < rows; ++row)
    for (unsigned piece = 0; piece < 2; ++piece) {
      unsigned char bytes[16];
      const std::uint32_t from = d.place(row, piece);
      b.shared.load_async(from, bytes, 16, "tcgen05.mma");
      b.shared.begin_read(b.shared.piece(from));
      work.pieces.emplace_back(&b, b.shared.piece(from));
      for (unsigned e = 0; e < 32; ++e) at(row, 32 * piece + e) = element_of_code(bytes[e / 2] >> 4 * (e % 2) & 15u);
    }
}

/// The scales of `rows` rows: `each` of them from byte `first` of a word of tensor memory.
std::vector<double> read_scales(thread_block& b, tensor_address at, unsigned rows, unsigned first, unsigned each,
                                bool e8m0, tensor_work& work) {
  if (at.lane != 0 || at.column % 4 != 0) reject("has scales at an address that is not a multiple of 4 columns");
  const unsigned columns = (rows + 31) / 32;
  b.tensor.begin_scales(at.column, columns);
  work.columns.push_back({&b, at.column, columns, false});
  std::vector<double> all(std::size_t{rows} * each);
  for (unsigned row = 0; row < rows; ++row) {
    const std::uint32_t* words = b.tensor.column(at.column + row / 32);
    for (unsigned part = 1; part < 4; ++part)
      if (words[row % 32] != words[32 * part + row % 32]) reject("has scales that differ among the parts of the lanes");
    for (unsigned k = 0; k < each; ++k)
      all[row * each + k] = scale_value(e8m0, static_cast<std::uint8_t>(words[row % 32] >> 8 * (first + k)));
  }
  return all;
}

/// d[row][col], times the scales of one block along K.
void add_block(float* sums, const std::vector<float>& dots, const std::vector<double>& scales_a,
               const std::vector<double>& scales_b, unsigned block, unsigned each, unsigned cols) {
  std::vector<double> of_col(cols);
  for (unsigned j = 0; j < cols; ++j) of_col[j] = scales_b[j * each + block];
  for (unsigned i = 0; i < tensor_memory::lane_count; ++i) {
    const double of_row = scales_a[i * each + block];
    for (unsigned j = 0; j < cols; ++j)
      sums[i * cols + j] = static_cast<float>(sums[i * cols + j] + dots[i * cols + j] * (of_row * of_col[j]));
  }
}

// ---- Products and copies ----

/// in: d, a, b, descriptor, scales of a and of b, predicate. a: thread blocks; b: scales of a row
struct product {
  unsigned blocks, scales;
  tensor_address d;
  descriptor a, b;
  instruction_fields how;
  tensor_address scales_a, scales_b;
  bool adds;

  product(warp& w, const instruction& i, unsigned l)
      : blocks(i.a),
        scales(i.b),
        d(w.reg(i.in[0])[l]),
        a(w.reg(i.in[1])[l]),
        b(w.reg(i.in[2])[l]),
        how(value(w, i.in[3], l), i.a, i.b),
        scales_a(w.reg(i.in[4])[l]),
        scales_b(w.reg(i.in[5])[l]),
        adds((w.bits(i.in[6]) >> l & 1) != 0) {}

  /// The part of one thread block: 128 rows. b: [k][col].
  void multiply(thread_block& block, const std::vector<float>& right, tensor_work& work) const {
    constexpr unsigned rows = tensor_memory::lane_count;
    std::vector<float> left(rows * depth), sums(std::size_t{rows} * how.cols), dots(sums.size());
    const unsigned length = depth / scales;
    read_elements(block, a, rows, work, [&](unsigned row, unsigned k) -> float& {
      return left[(k / length * rows + row) * length + k % length];
    });
    const auto of_rows = read_scales(block, scales_a, rows, how.scale_a, scales, how.e8m0, work),
               of_cols = read_scales(block, scales_b, how.cols, how.scale_b, scales, how.e8m0, work);
    if (d.lane != 0) reject("has sums that do not begin at lane 0");
    block.tensor.begin_sums(d.column, how.cols, adds);
    work.columns.push_back({&block, d.column, how.cols, true});
    const auto each_sum = [&](auto f) {
      for (unsigned j = 0; j < how.cols; ++j) {
        std::uint32_t* column = block.tensor.column(d.column + j);
        for (unsigned row = 0; row < rows; ++row) f(column[row], sums[row * how.cols + j]);
      }
    };
    if (adds) each_sum([](const std::uint32_t& from, float& to) { to = std::bit_cast<float>(from); });
    for (unsigned s = 0; s < scales; ++s) {
      std::fill(dots.begin(), dots.end(), 0.0f);
      add_products(dots.data(), left.data() + s * rows * length, right.data() + s * length * how.cols, rows, how.cols,
                   length);
      add_block(sums.data(), dots, of_rows, of_cols, s, scales, how.cols);
    }
    each_sum([](std::uint32_t& to, const float& from) { to = std::bit_cast<std::uint32_t>(from); });
  }
};

void multiply(warp& w, const instruction& i, mask m) {
  require_fence(w);
  for (const unsigned r : i.in) require_valid(w, r, m, "an operand of tcgen05.mma");
  each_lane(m, [&](unsigned l) {
    const product p(w, i, l);
    const auto blocks = group_of(w, p.blocks);
    std::vector<float> right(std::size_t{depth} * p.how.cols);
    const unsigned part = p.how.cols / p.blocks;
    for (unsigned n = 0; n < p.blocks; ++n)
      read_elements(*blocks[n], p.b, part, w.tensor_started,
                    [&](unsigned row, unsigned k) -> float& { return right[k * p.how.cols + n * part + row]; });
    for (thread_block* b : blocks) p.multiply(*b, right, w.tensor_started);
  });
}

/// 32 rows of 16 bytes to the same lane of each part of the lanes. in: target, descriptor. a: thread blocks
void copy_scales(warp& w, const instruction& i, mask m) {
  require_fence(w);
  for (const unsigned r : i.in) require_valid(w, r, m, "an operand of tcgen05.cp");
  each_lane(m, [&](unsigned l) {
    const tensor_address to(w.reg(i.in[0])[l]);
    const descriptor from(w.reg(i.in[1])[l]);
    if (to.lane != 0 || to.column % 4 != 0) reject("copies to an address that is not a multiple of 4 columns");
    for (thread_block* b : group_of(w, i.a)) {
      b->tensor.begin_copy(to.column, 4);
      w.tensor_started.columns.push_back({b, to.column, 4, true});
      for (unsigned row = 0; row < 32; ++row) {
        std::uint32_t words[4];
        const std::uint32_t at = from.place(row, 0);
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
  i.run = multiply;
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
