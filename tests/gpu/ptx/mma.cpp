// ufp4 - the PTX interpreter: mma.sync, ldmatrix, stmatrix, and the sums of all matrix products.
// SPDX-License-Identifier: Apache-2.0
//
// Fragments: with n elements in a register, g = lane / 4 and t = lane % 4, element e of register r is of
// row g + 8 (r % 2), column n t + e + 4 n (r / 2) of a, and of row n t + e + 4 n r, column g of b; sum i is of
// row g + 8 (i / 2), column 2 t + i % 2.
#include "gpu/ptx/decode.hpp"
#include "gpu/ptx/memory.hpp"
#include "gpu/ptx/products.hpp"

#include <cstring>

namespace ptx {

const float* f16_values() {
  static const std::vector<float> all = [] {
    std::vector<float> v(65536);
    for (unsigned c = 0; c < 65536; ++c) v[c] = static_cast<float>(f16::value(static_cast<std::uint16_t>(c)));
    return v;
  }();
  return all.data();
}

namespace {

template <class T>
inline __attribute__((always_inline)) void add_rows(T* d, const float* a, const float* b, unsigned rows, unsigned n,
                                                    unsigned k) {
  for (unsigned i = 0; i < rows; ++i)
    for (unsigned x = 0; x < k; ++x) {
      const float f = a[i * k + x];
      for (unsigned j = 0; j < n; ++j) {
        if constexpr (std::is_same_v<T, float>)
          d[i * n + j] = __builtin_fmaf(f, b[x * n + j], d[i * n + j]);
        else
          d[i * n + j] = static_cast<T>(static_cast<std::uint32_t>(d[i * n + j]) +
                                        static_cast<std::uint32_t>(static_cast<std::int32_t>(f * b[x * n + j])));
      }
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void add_rows_fma(float* d, const float* a, const float* b, unsigned rows,
                                                      unsigned n, unsigned k) {
  add_rows(d, a, b, rows, n, k);
}
#endif

}  // namespace

void add_products(float* d, const float* a, const float* b, unsigned rows, unsigned n, unsigned k) {
#if defined(__x86_64__)
  static const bool has_fma = __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
  if (has_fma) return add_rows_fma(d, a, b, rows, n, k);
#endif
  add_rows(d, a, b, rows, n, k);
}
void add_products(std::int32_t* d, const float* a, const float* b, unsigned rows, unsigned n, unsigned k) {
  add_rows(d, a, b, rows, n, k);
}

namespace {

/// blocks: of K that have a scale each; 0: no scales. In an instruction: `a` is K, `b` the elements and scales, `c` the
/// numbers of registers.
struct mma_shape {
  unsigned k, a_registers, b_registers;
  element a, b;
  unsigned blocks;
  bool e8m0;
};
mma_shape shape_of(const instruction& i) {
  return {i.a,           i.c & 15,      i.c >> 4, static_cast<element>(i.b & 15), static_cast<element>(i.b >> 4 & 15),
          i.b >> 8 & 15, i.b >> 12 != 0};
}

/// The scales of 16 rows of a or 8 columns of b, from the lanes whose selector is 0: of a row g and g + 8 the lanes
/// 4 g and 4 g + 1, of a column g the lane 4 g. Byte n is of block n.
double scale_of(warp& w, unsigned reg, const mma_shape& s, bool left, unsigned index, unsigned block) {
  const unsigned from = left ? index % 8 * 4 + index / 8 : index * 4;
  return block_scale_value(s.e8m0, static_cast<std::uint8_t>(w.reg(reg)[from] >> (8 * block)));
}
/// The exact sum of each block, times both scales, is added to the binary32 sum with one rounding.
void add_scaled(warp& w, const instruction& i, const mma_shape& s, float* d, const float* a, const float* b) {
  const unsigned length = s.k / s.blocks, scales = s.a_registers + s.b_registers + 4;
  for (unsigned n = 0; n < s.blocks; ++n)
    for (unsigned row = 0; row < 16; ++row)
      for (unsigned col = 0; col < 8; ++col) {
        double dot = 0;
        for (unsigned x = n * length; x < (n + 1) * length; ++x) dot += double{a[row * s.k + x]} * b[x * 8 + col];
        const double by = scale_of(w, i.in[scales], s, true, row, n) * scale_of(w, i.in[scales + 3], s, false, col, n);
        d[row * 8 + col] = static_cast<float>(d[row * 8 + col] + dot * by);
      }
}

/// out: d; in: a, b, c; with block scales also the register and two selectors of a, and of b.
template <class T>
void multiply(warp& w, const instruction& i, mask) {
  const mma_shape s = shape_of(i);
  for (const unsigned r : i.in) require_valid(w, r, all_lanes, "an operand of mma");
  float a[16 * 64], b[64 * 8];
  T d[16 * 8];
  const unsigned n = 32 / bits_of(s.a), each = bits_of(s.a);
  for (unsigned l = 0; l < lanes; ++l) {
    const unsigned g = l / 4, t = l % 4;
    for (unsigned r = 0; r < s.a_registers; ++r)
      for (unsigned e = 0; e < n; ++e)
        a[(g + 8 * (r % 2)) * s.k + n * t + e + 4 * n * (r / 2)] =
            element_value(s.a, static_cast<std::uint32_t>(w.reg(i.in[r])[l]) >> (each * e) & ((1u << each) - 1));
    for (unsigned r = 0; r < s.b_registers; ++r)
      for (unsigned e = 0; e < n; ++e)
        b[(n * t + e + 4 * n * r) * 8 + g] = element_value(
            s.b, static_cast<std::uint32_t>(w.reg(i.in[s.a_registers + r])[l]) >> (each * e) & ((1u << each) - 1));
    for (unsigned x = 0; x < 4; ++x)
      d[(g + 8 * (x / 2)) * 8 + 2 * t + x % 2] = get<T>(w.reg(i.in[s.a_registers + s.b_registers + x])[l]);
  }
  if constexpr (std::is_same_v<T, float>) {
    if (s.blocks != 0)
      add_scaled(w, i, s, d, a, b);
    else
      add_products(d, a, b, 16, 8, s.k);
  } else {
    add_products(d, a, b, 16, 8, s.k);
  }
  for (unsigned l = 0; l < lanes; ++l)
    for (unsigned x = 0; x < 4; ++x) w.reg(i.out[x])[l] = put<T>(d[(l / 4 + 8 * (x / 2)) * 8 + 2 * (l % 4) + x % 2]);
}

/// The registers of a, b and c behind d; the shape but for its blocks.
bool decode_operands(scope& s, const statement& t, instruction& i, element a, element b) {
  i.a = static_cast<unsigned>(std::stoul(t.parts[3].substr(6)));
  if (a == element::none || b == element::none || bits_of(a) != bits_of(b)) return false;
  i.out = registers_of(s, t.operands.at(0));
  unsigned counts[3];
  for (unsigned o = 0; o < 3; ++o) {
    const auto all = registers_of(s, t.operands.at(1 + o));
    counts[o] = static_cast<unsigned>(all.size());
    i.in.insert(i.in.end(), all.begin(), all.end());
  }
  const unsigned n = 32 / bits_of(a);
  if (counts[0] * n * 32 != 16 * i.a || counts[1] * n * 32 != 8 * i.a || counts[2] != 4) return false;
  i.b = static_cast<unsigned>(a) | static_cast<unsigned>(b) << 4;
  i.c = counts[0] | counts[1] << 4;
  return true;
}

/// mma.sync.aligned.m16n8k64.row.col.kind::K.block_scale.scale_vec::V.f32.a.b.f32.scale d, a, b, c, {scales of a},
/// {byte, thread}, {scales of b}, {byte, thread}: selectors must be 0.
bool decode_block_multiply(scope& s, const statement& t, instruction& i) {
  struct kind_of {
    const char *kind, *vector, *scale;
    unsigned k, blocks, bits;
  };
  constexpr kind_of known[] = {{"kind::mxf4nvf4", "scale_vec::4X", "ue4m3", 64, 4, 4},
                               {"kind::mxf4", "scale_vec::2X", "ue8m0", 64, 2, 4},
                               {"kind::mxf8f6f4", "scale_vec::1X", "ue8m0", 32, 1, 8}};
  if (t.parts.size() != 14 || t.parts[9] != "f32" || t.parts[12] != "f32") return false;
  const element a = element_of(t.parts[10]), b = element_of(t.parts[11]);
  if (!decode_operands(s, t, i, a, b) || is_integer(a) || is_integer(b)) return false;
  for (const kind_of& one : known) {
    if (t.parts[6] != one.kind || t.parts[8] != one.vector || t.parts[13] != one.scale) continue;
    if (i.a != one.k || bits_of(a) != one.bits) return false;
    i.b |= one.blocks << 8 | unsigned{t.parts[13] == "ue8m0"} << 12;
    for (unsigned o = 4; o < 8; ++o)
      for (const unsigned r : registers_of(s, t.operands.at(o))) i.in.push_back(r);
    for (const unsigned o : {5u, 7u})
      if (t.operands.at(o) != "{0,0}" && t.operands.at(o) != "{0, 0}")
        reject("selects scales in a way that the interpreter does not know");
    i.run = multiply<float>;
    return true;
  }
  return false;
}

bool decode_multiply(scope& s, const statement& t, instruction& i) {
  // mma.sync.aligned.m16n8k16.row.col.d.a.b.c
  if (t.parts.size() < 10 || t.parts[3].substr(0, 5) != "m16n8" || t.parts[4] != "row" || t.parts[5] != "col")
    return false;
  if (t.has("block_scale")) return decode_block_multiply(s, t, i);
  const element a = element_of(t.parts[7]), b = element_of(t.parts[8]);
  if (t.parts.size() != 10 || t.parts[6] != t.parts[9] || !decode_operands(s, t, i, a, b)) return false;
  if (t.parts[6] != (is_integer(a) ? "s32" : "f32")) return false;
  i.run = is_integer(a) ? multiply<std::int32_t> : multiply<float>;
  return true;
}

/// a: matrices; b: transposed. Lane 8 m + r has the address of row r of matrix m.
void load_matrices(warp& w, const instruction& i, mask) {
  word result[4][lanes];
  for (unsigned x = 0; x < i.a; ++x) {
    std::uint16_t rows[8][8];
    for (unsigned r = 0; r < 8; ++r) {
      const auto at = static_cast<std::uint32_t>(w.reg(i.in[0])[8 * x + r] + static_cast<word>(i.offset));
      if (at % 16 != 0) reject("loads a row that is not aligned to 16 bytes");
      if (!w.block->shared.load(at, rows[r], 16)) reject("ldmatrix reads uninitialized shared memory");
    }
    for (unsigned l = 0; l < lanes; ++l)
      result[x][l] = i.b != 0 ? rows[2 * (l % 4)][l / 4] | std::uint32_t{rows[2 * (l % 4) + 1][l / 4]} << 16
                              : rows[l / 4][2 * (l % 4)] | std::uint32_t{rows[l / 4][2 * (l % 4) + 1]} << 16;
  }
  for (unsigned x = 0; x < i.a; ++x) {
    std::memcpy(w.reg(i.out[x]), result[x], sizeof result[x]);
    set_valid(w, i.out[x], all_lanes, all_lanes);
  }
}
void store_matrices(warp& w, const instruction& i, mask) {
  for (const unsigned r : i.in) require_valid(w, r, all_lanes, "an operand of stmatrix");
  for (unsigned x = 0; x < i.a; ++x) {
    std::uint16_t rows[8][8];
    for (unsigned l = 0; l < lanes; ++l)
      for (unsigned h = 0; h < 2; ++h) {
        const auto v = static_cast<std::uint16_t>(w.reg(i.in[1 + x])[l] >> (16 * h));
        (i.b != 0 ? rows[2 * (l % 4) + h][l / 4] : rows[l / 4][2 * (l % 4) + h]) = v;
      }
    for (unsigned r = 0; r < 8; ++r) {
      const auto at = static_cast<std::uint32_t>(w.reg(i.in[0])[8 * x + r] + static_cast<word>(i.offset));
      if (at % 16 != 0) reject("stores a row that is not aligned to 16 bytes");
      w.block->shared.store(at, rows[r], 16, w.thread(8 * x + r));
    }
  }
}

bool decode_matrix_access(scope& s, const statement& t, instruction& i) {
  if (!t.has("m8n8") || type_of(t.type()).bits != 16) return false;
  const bool loads = t.op() == "ldmatrix";
  const unsigned base = address_of(s, t.operands.at(loads ? 1 : 0), i);
  const auto registers = registers_of(s, t.operands.at(loads ? 0 : 1));
  i.a = static_cast<unsigned>(registers.size());
  i.b = t.has("trans");
  i.in = {base};
  if (loads)
    i.out = registers;
  else
    i.in.insert(i.in.end(), registers.begin(), registers.end());
  i.effect = kind::own;
  i.run = loads ? load_matrices : store_matrices;
  return true;
}

}  // namespace

bool decode_mma(scope& s, const statement& t, instruction& i) {
  const std::string& op = t.op();
  if (op != "mma" && op != "ldmatrix" && op != "stmatrix") return false;
  i.aligned = true;
  return op == "mma" ? decode_multiply(s, t, i) : decode_matrix_access(s, t, i);
}

}  // namespace ptx
