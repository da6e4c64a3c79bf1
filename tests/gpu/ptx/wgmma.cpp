// ufp4 - the PTX interpreter: wgmma, with descriptors of operands in shared memory, and the rules of its order.
// SPDX-License-Identifier: Apache-2.0
//
// The product happens when a warp issues it: a quarter of the rows for each warp. Errors, until the group is complete:
// reading or writing a sum, writing a register of a, writing an operand in shared memory (also by a copy). Before it:
// wgmma.fence after the registers were written, fence.proxy.async after the operands were stored.
//
// Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": fragments, matrix descriptor, canonical layouts.
#include "gpu/ptx/bulk.hpp"
#include "gpu/ptx/decode.hpp"
#include "gpu/ptx/descriptor.hpp"
#include "gpu/ptx/products.hpp"

#include <cstring>

namespace ptx {

namespace {

struct descriptor : matrix_descriptor {
  static unsigned span_of(word w) {
    constexpr unsigned spans[] = {0, 128, 64, 32};
    return spans[w >> 62];
  }
  explicit descriptor(word w)
      : matrix_descriptor(w, span_of(w), word{3} << 14 | word{3} << 30 | word{7} << 46 | word{0x3FF} << 52) {}
  /// 16 bytes of an operand that is contiguous along rows: `k`, and the piece-th 8 rows.
  std::uint32_t along_rows(unsigned k, unsigned piece) const {
    if (span == 0) return start + piece * stride + k / 8 * leading + k % 8 * 16;
    const unsigned pieces = span / 16;
    return swizzled(start + piece / pieces * leading + k / 8 * stride + k % 8 * span + piece % pieces * 16, span);
  }
};

struct shape {
  unsigned n, k, a_registers;  ///< 0: a is in shared memory
  element a, b;
  bool transposed_a, transposed_b, negative_a, negative_b;
};
shape shape_of(const instruction& i) {
  return {i.a & 0xFFFFu,
          i.a >> 16,
          i.b & 15,
          static_cast<element>(i.b >> 4 & 15),
          static_cast<element>(i.b >> 8 & 15),
          (i.c & 1) != 0,
          (i.c & 2) != 0,
          (i.c & 4) != 0,
          (i.c & 8) != 0};
}

/// Reads operands of one product, and remembers which 16 bytes.
class operand_reader {
 public:
  operand_reader(warp& w, pending_read& read) : shared_(w.block->shared), read_(read) {}

  /// `lines` rows (of a) or columns (of b) from `first` on, to to[line * line_step + k * k_step].
  void read(const descriptor& d, bool transposed, element e, unsigned first, unsigned lines, unsigned k, float* to,
            unsigned line_step, unsigned k_step, float sign) {
    const unsigned in_part = 128 / bits_of(e);
    const unsigned outer = transposed ? k : lines, inner = transposed ? lines : k;
    for (unsigned o = 0; o < outer; ++o)
      for (unsigned p = 0; p < inner / in_part; ++p) {
        const std::uint32_t at = transposed ? d.along_rows(o, first / in_part + p) : d.along_k(first + o, p);
        unsigned char bytes[16];
        piece(at, bytes);
        for (unsigned x = 0; x < in_part; ++x) {
          std::uint32_t code = 0;
          std::memcpy(&code, bytes + x * bits_of(e) / 8, bits_of(e) / 8);
          const unsigned i = p * in_part + x;
          to[transposed ? i * line_step + o * k_step : o * line_step + i * k_step] = sign * element_value(e, code);
        }
      }
  }

 private:
  void piece(std::uint32_t at, unsigned char* bytes) {
    shared_.load_async(at, bytes, 16, "wgmma");
    shared_.begin_read(shared_.piece(at));
    read_.pieces.push_back(shared_.piece(at));
  }
  shared_memory& shared_;
  pending_read& read_;
};

void check_register(warp& w, unsigned r, bool is_sum) {
  if (w.fenced == 0) reject("comes before the first wgmma.fence");
  if (w.written[r] > w.fenced) reject("uses a register that was written after the last wgmma.fence");
  if (!is_sum && w.pending[r] > w.complete) reject("reads a sum of a wgmma that has not been waited for");
  if (is_sum && w.locked[r] > w.complete) reject("overwrites an operand of a wgmma that has not been waited for");
}
word uniform(warp& w, unsigned reg) {
  require_valid(w, reg, all_lanes, "a descriptor");
  const word v = w.reg(reg)[0];
  for (unsigned l = 1; l < lanes; ++l)
    if (w.reg(reg)[l] != v) reject("has a descriptor that is not the same in all lanes");
  return v;
}

void read_a_registers(warp& w, const instruction& i, const shape& s, float* a) {
  const unsigned n = 32 / bits_of(s.a), each = bits_of(s.a);
  for (unsigned r = 0; r < s.a_registers; ++r) {
    const unsigned reg = i.in[2 + r];
    require_valid(w, reg, all_lanes, "an operand of wgmma");
    check_register(w, reg, false);
    w.locked[reg] = w.committed + 1;
    for (unsigned l = 0; l < lanes; ++l)
      for (unsigned e = 0; e < n; ++e)
        a[(l / 4 + 8 * (r % 2)) * s.k + n * (l % 4) + e + 4 * n * (r / 2)] =
            (s.negative_a ? -1.0f : 1.0f) *
            element_value(s.a, static_cast<std::uint32_t>(w.reg(reg)[l]) >> (each * e) & ((1u << each) - 1));
  }
}

unsigned sum_place(unsigned lane, unsigned i, unsigned n) {
  return (lane / 4 + i / 2 % 2 * 8) * n + i / 4 * 8 + lane % 4 * 2 + i % 2;
}

/// out: the sums; in: scale-d, b, then a or its registers.
template <class T>
void multiply(warp& w, const instruction& i, mask) {
  const shape s = shape_of(i);
  if (w.block->warps.size() < w.index / 4 * 4 + 4) reject("is executed by a warp that belongs to no warpgroup");
  pending_read read{w.committed + 1, {}};
  operand_reader reader(w, read);
  std::vector<float> a(std::size_t{16} * s.k), b(std::size_t{s.n} * s.k);
  std::vector<T> d(std::size_t{16} * s.n);
  reader.read(descriptor(uniform(w, i.in[1])), s.transposed_b, s.b, 0, s.n, s.k, b.data(), 1, s.n,
              s.negative_b ? -1.0f : 1.0f);
  if (s.a_registers != 0)
    read_a_registers(w, i, s, a.data());
  else
    reader.read(descriptor(uniform(w, i.in[2])), s.transposed_a, s.a, w.index % 4 * 16, 16, s.k, a.data(), s.k, 1,
                s.negative_a ? -1.0f : 1.0f);
  require_valid(w, i.in[0], all_lanes, "a condition");
  const bool adds = w.bits(i.in[0]) == all_lanes;
  for (const unsigned r : i.out) check_register(w, r, true);
  for (unsigned x = 0; adds && x < i.out.size(); ++x) {
    require_valid(w, i.out[x], all_lanes, "a sum");
    for (unsigned l = 0; l < lanes; ++l) d[sum_place(l, x, s.n)] = get<T>(w.reg(i.out[x])[l]);
  }
  add_products(d.data(), a.data(), b.data(), 16, s.n, s.k);
  for (unsigned x = 0; x < i.out.size(); ++x) {
    for (unsigned l = 0; l < lanes; ++l) w.reg(i.out[x])[l] = put<T>(d[sum_place(l, x, s.n)]);
    w.pending[i.out[x]] = w.committed + 1;
    set_valid(w, i.out[x], all_lanes, all_lanes);
  }
  w.open = true;
  w.reads.push_back(std::move(read));
}

bool negative(const std::string& s) { return std::stoi(s) < 0; }

/// wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {d}, a, b, scale-d, [signs of a and b, [transposes]]
bool decode_multiply(scope& s, const statement& t, instruction& i) {
  const std::string& name = t.parts.at(4);
  const std::size_t n = name.find('n'), k = name.find('k');
  if (name.substr(0, 3) != "m64" || t.parts.size() != 8) return false;
  i.a = static_cast<unsigned>(std::stoul(name.substr(n + 1))) | static_cast<unsigned>(std::stoul(name.substr(k + 1)))
                                                                    << 16;
  const element a = element_of(t.parts[6]), b = element_of(t.parts[7]);
  if (a == element::none || b == element::none || t.parts[5] != (is_integer(a) ? "s32" : "f32")) return false;
  i.out = registers_of(s, t.operands.at(0));
  if (i.out.size() != (i.a & 0xFFFFu) / 2) reject("has a wrong number of sums");
  i.in = {s.predicate(t.operands.at(3)), s.reg(t.operands.at(2))};
  const auto left = registers_of(s, t.operands.at(1));
  const unsigned in_registers = left.size() > 1 ? static_cast<unsigned>(left.size()) : 0;
  i.in.insert(i.in.end(), left.begin(), left.end());
  i.b = in_registers | static_cast<unsigned>(a) << 4 | static_cast<unsigned>(b) << 8;
  const auto flag = [&](std::size_t o, unsigned bit, bool is_sign) {
    if (o < t.operands.size() && (is_sign ? negative(t.operands[o]) : t.operands[o] != "0")) i.c |= bit;
  };
  flag(4, 4, true);
  flag(5, 8, true);
  if (in_registers == 0) flag(6, 1, false);
  flag(in_registers == 0 ? 7 : 6, 2, false);
  i.effect = kind::product;
  i.run = is_integer(a) ? multiply<std::int32_t> : multiply<float>;
  return true;
}

void fence(warp& w, const instruction&, mask) { w.fenced = w.count; }
void commit(warp& w, const instruction&, mask) {
  ++w.committed;
  w.open = false;
}
/// a: groups that may be left
void wait(warp& w, const instruction& i, mask) {
  if (w.committed < i.a + w.complete) return;
  w.complete = w.committed - i.a;
  std::erase_if(w.reads, [&](const pending_read& r) {
    if (r.group > w.complete) return false;
    for (const std::uint32_t p : r.pieces) w.block->shared.end_read(p);
    return true;
  });
}

}  // namespace

bool decode_wgmma(scope& s, const statement& t, instruction& i) {
  if (t.op() != "wgmma") return false;
  i.aligned = true;
  const std::string& what = t.parts.at(1);
  if (what == "mma_async") return decode_multiply(s, t, i);
  i.effect = kind::own;
  if (what == "wait_group") i.a = static_cast<unsigned>(std::stoul(t.operands.at(0)));
  i.run = what == "fence" ? fence : what == "commit_group" ? commit : what == "wait_group" ? wait : nullptr;
  return i.run != nullptr;
}

}  // namespace ptx
