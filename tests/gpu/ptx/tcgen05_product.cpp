// ufp4 - the PTX interpreter: tcgen05.mma, block-scaled products of elements of 4 bits.
// SPDX-License-Identifier: Apache-2.0
//
// Sums are of a block of 16 or 32 elements exactly, times both scales, and added to the binary32 sum with one rounding:
// hardware promises neither this order nor this rounding.
//
// With cta_group::2 each of two thread blocks has 128 rows of a and d, half of the rows of b, and, at the same
// addresses of its own tensor memory, the scales of its rows of a and of all rows of b.
//
// Source: PTX ISA, "TensorCore 5th Generation Family Instructions": descriptors, layouts of scales, "Data path layout
// organization".
#include "gpu/ptx/decode.hpp"
#include "gpu/ptx/products.hpp"
#include "gpu/ptx/tcgen05.hpp"

#include <cstring>

namespace ptx {

namespace {

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

constexpr unsigned depth = 64;

/// 64 elements of `rows` rows in the shared memory of a block: at(row, k) receives each.
template <class At>
void read_elements(thread_block& b, const tensor_descriptor& d, unsigned rows, tensor_work& work, At at) {
  for (unsigned row = 0; row < rows; ++row)
    for (unsigned piece = 0; piece < 2; ++piece) {
      unsigned char bytes[16];
      const std::uint32_t from = d.along_k(row, piece);
      b.shared.load_async(from, bytes, 16, "tcgen05.mma");
      b.shared.begin_read(b.shared.piece(from));
      work.pieces.emplace_back(&b, b.shared.piece(from));
      for (unsigned e = 0; e < 32; ++e) at(row, 32 * piece + e) = e2m1_value(bytes[e / 2] >> 4 * (e % 2) & 15u);
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
      all[row * each + k] = block_scale_value(e8m0, static_cast<std::uint8_t>(words[row % 32] >> 8 * (first + k)));
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

struct product {
  unsigned blocks, scales;
  tensor_address d;
  tensor_descriptor a, b;
  instruction_fields how;
  tensor_address scales_a, scales_b;
  bool adds;

  product(warp& w, const instruction& i, unsigned l)
      : blocks(i.a),
        scales(i.b),
        d(w.reg(i.in[0])[l]),
        a(w.reg(i.in[1])[l]),
        b(w.reg(i.in[2])[l]),
        how(static_cast<std::uint32_t>(w.reg(i.in[3])[l]), i.a, i.b),
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

}  // namespace

void multiply_blocks(warp& w, const instruction& i, mask m) {
  require_tensor_fence(w);
  for (const unsigned r : i.in) require_valid(w, r, m, "an operand of tcgen05.mma");
  each_lane(m, [&](unsigned l) {
    const product p(w, i, l);
    const auto blocks = tensor_group(w, p.blocks);
    std::vector<float> right(std::size_t{depth} * p.how.cols);
    const unsigned part = p.how.cols / p.blocks;
    for (unsigned n = 0; n < p.blocks; ++n)
      read_elements(*blocks[n], p.b, part, w.tensor_started,
                    [&](unsigned row, unsigned k) -> float& { return right[k * p.how.cols + n * part + row]; });
    for (thread_block* b : blocks) p.multiply(*b, right, w.tensor_started);
  });
}

}  // namespace ptx
