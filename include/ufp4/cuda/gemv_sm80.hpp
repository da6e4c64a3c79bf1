// ufp4 - gemv_blocks_sm80: quantized_gemm with at most 16 rows on one side, with the bits of exact_blocks.
// SPDX-License-Identifier: Apache-2.0
//
// Bound by memory bandwidth. Sixteen rows of the long operand ("weights") are the rows of mma.sync, the few rows of the
// other ("narrow") its columns. A thread block has sixteen rows of weights. It computes 512 columns of K, a slab, at a
// time, 64 columns in each warp, so that 4096 rows already fill a device:
//
// | weights  | are copied through shared memory once, 16 bytes for each cp.async, three slabs ahead: 12 KB in flight  |
// |          | for each thread block, which hides the latency. A warp copies what it multiplies: no barrier is needed |
// | decoding | of weights is done in registers, 11 integer instructions for 8 codes (thread/decode.hpp), once for all |
// |          | narrow rows; of narrow rows to signed bytes in shared memory, once in a slab for all warps             |
// | blocks   | warps compute block dot products d and products t = fl(sA * sB), both to shared memory                 |
// | sums     | one thread for each output computes acc = fma(d, t, acc), block by block; other warps go on to the     |
// |          | next slab                                                                                              |
//
// So only the part whose order determines the bits, one fma for each block, is not parallel along K; `fast` and
// `exact_blocks` are the same kernel. A block dot product is exact in integers, and one subtraction makes it a float as
// in cuda/gemm_blocks_sm80.hpp. Of blocks of 16 four narrow rows are the columns of an mma twice (gemv_dots_sm80.hpp).
#pragma once

#include <ufp4/cuda/gemm_blocks_sm80.hpp>
#include <ufp4/cuda/gemv_stream_sm80.hpp>
#include <ufp4/gpu/kernels/folding.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

struct gemv_side : stream_side {
  scale_kind scale = scale_kind::f32;
  thread::byte_table values{};
};
struct gemv_job {
  gemv_side weights{}, narrow{};
  std::size_t padded = 0;
  std::size_t blocks = 0;    ///< of a row
  unsigned block_shift = 4;  ///< log2 of the block length, 16, 32 or 64: shifts replace divisions
  unsigned columns = 4;      ///< narrow rows, rounded up to those of one mma
  bool grain16 = false;      ///< rows of weights are aligned to 16 bytes; else to 4
  bool swapped = false;      ///< weights are the left operand
  std::uint32_t magic = 0;   ///< dot_magic
  gemm_job product{};
};

struct gemv_plan {
  static constexpr unsigned threads = 256, warps = threads / 32, rows = 16, warp_k = 64, slab_k = warps * warp_k;
  static constexpr unsigned stages = 4, stage_bytes = rows * slab_k / 2;
  static constexpr unsigned narrow_stride = slab_k + 32;  ///< bytes: puts four narrow rows into different banks
  static constexpr unsigned scale_stride = slab_k / 16 + 1, most_columns = 16;
  static_assert(slab_k == 1u << 9);
  unsigned block_shift, columns;

  UFP4_HD unsigned blocks_shift() const { return 9 - block_shift; }
  UFP4_HD unsigned blocks() const { return 1u << blocks_shift(); }  ///< of a slab
  /// Pairs (d, t) from one block to the next: except with 16 columns, column pairs of two rows are in different banks.
  UFP4_HD unsigned pair_stride() const { return rows * columns + (columns == 8 ? 4 : 8); }
  UFP4_HD unsigned narrow_at() const { return stages * stage_bytes; }
  UFP4_HD unsigned scales_at() const { return narrow_at() + columns * narrow_stride; }
  UFP4_HD unsigned pairs_at() const { return (scales_at() + (rows + columns) * scale_stride * 4 + 15) / 16 * 16; }
  UFP4_HD std::size_t shared_bytes() const { return pairs_at() + std::size_t{8} * blocks() * pair_stride(); }
};

struct __attribute__((may_alias, aligned(8))) gemv_pair {
  float d, t;
};
struct __attribute__((may_alias, aligned(16))) gemv_two_pairs {
  gemv_pair pair[2];
};

/// The work of one thread. Slabs are counted along K.
struct gemv_worker {
  static constexpr unsigned narrow_passes = 4, scale_passes = 2;

  const gemv_job& job;
  std::size_t first_row;  ///< of the weights
  gemv_plan plan;
  unsigned char* memory = shared_memory();
  unsigned place = thread_index().x, team = thread_index().x / 32, l = lane();
  std::uint32_t narrow_codes[narrow_passes] = {}, weight_scales[scale_passes] = {}, narrow_scales[scale_passes] = {};
  float acc = 0;

  UFP4_DEVICE gemv_worker(const gemv_job& j, std::size_t row)
      : job(j), first_row(row), plan{j.block_shift, j.columns} {}

  UFP4_DEVICE unsigned slabs() const {
    return static_cast<unsigned>((job.padded + gemv_plan::slab_k - 1) / gemv_plan::slab_k);
  }
  UFP4_DEVICE std::size_t blocks_before(unsigned slab) const { return std::size_t{slab} * plan.blocks(); }
  UFP4_DEVICE float* weight_scale(unsigned row) const {
    return reinterpret_cast<float*>(memory + plan.scales_at()) + row * gemv_plan::scale_stride;
  }
  UFP4_DEVICE float* narrow_scale(unsigned row) const { return weight_scale(gemv_plan::rows + row); }
  UFP4_DEVICE gemv_pair* pairs(unsigned block) const {
    return reinterpret_cast<gemv_pair*>(memory + plan.pairs_at()) + block * plan.pair_stride();
  }

  /// Every other four rows have their two parts of 16 bytes swapped, so that eight rows are in different banks.
  UFP4_DEVICE unsigned char* staged(unsigned slab, unsigned row, unsigned part) const {
    constexpr unsigned row_bytes = gemv_plan::warp_k / 2;
    return memory + slab % gemv_plan::stages * gemv_plan::stage_bytes + (team * gemv_plan::rows + row) * row_bytes +
           16 * (part ^ (row / 4 & 1u));
  }
  UFP4_DEVICE void copy(unsigned slab) const {
    const unsigned row = l / 2, part = l % 2;
    const std::size_t k = std::size_t{slab} * gemv_plan::slab_k + team * gemv_plan::warp_k + 32 * part;
    const auto inside = [&](std::size_t at) { return first_row + row < job.weights.rows && at < job.padded; };
    const std::uint8_t* from = job.weights.codes + (inside(k) ? ((first_row + row) * job.padded + k) / 2 : 0);
    mma::copy_async16_of(staged(slab, row, part), from, job.grain16,
                         [&](unsigned word) { return inside(k + 8 * word); });
    mma::commit_copies();
  }

  UFP4_DEVICE std::uint32_t scale_bits(const gemv_side& side, std::size_t row, std::size_t block) const {
    return row < side.rows && block < job.blocks
               ? thread::load_scale(side.scales, side.scale, (row >> side.rows_shift) * job.blocks + block)
               : 0u;
  }
  /// Loads narrow codes and all scales of a slab to registers; consecutive threads load consecutive elements of a row.
  UFP4_DEVICE void load(unsigned slab) {
    constexpr unsigned words = gemv_plan::slab_k / 8;
    UFP4_UNROLL
    for (unsigned i = 0; i < narrow_passes; ++i) {
      const unsigned at = i * gemv_plan::threads + place, row = at / words;
      const std::size_t k = std::size_t{slab} * gemv_plan::slab_k + at % words * 8;
      narrow_codes[i] =
          row < job.narrow.rows && k < job.padded
              ? reinterpret_cast<const thread::words1*>(job.narrow.codes + (row * job.padded + k) / 2)->word
              : 0u;
    }
    UFP4_UNROLL
    for (unsigned i = 0; i < scale_passes; ++i) {
      const unsigned at = i * gemv_plan::threads + place, row = at >> plan.blocks_shift();
      const std::size_t block = blocks_before(slab) + (at & (plan.blocks() - 1));
      weight_scales[i] = row < gemv_plan::rows ? scale_bits(job.weights, first_row + row, block) : 0u;
      narrow_scales[i] = scale_bits(job.narrow, row, block);
    }
  }
  UFP4_DEVICE void spread() const {
    constexpr unsigned words = gemv_plan::slab_k / 8;
    UFP4_UNROLL
    for (unsigned i = 0; i < narrow_passes; ++i) {
      const unsigned at = i * gemv_plan::threads + place, row = at / words;
      thread::words2 bytes;
      thread::decode8_s8(job.narrow.values, narrow_codes[i], bytes.word);
      if (row < job.columns)
        *reinterpret_cast<thread::words2*>(memory + plan.narrow_at() + row * gemv_plan::narrow_stride +
                                           at % words * 8) = bytes;
    }
    UFP4_UNROLL
    for (unsigned i = 0; i < scale_passes; ++i) {
      const unsigned at = i * gemv_plan::threads + place, row = at >> plan.blocks_shift(),
                     block = (at & (plan.blocks() - 1));
      if (row < gemv_plan::rows) weight_scale(row)[block] = thread::scale_value(job.weights.scale, weight_scales[i]);
      if (row < job.columns) narrow_scale(row)[block] = thread::scale_value(job.narrow.scale, narrow_scales[i]);
    }
  }

  /// Eight bytes of the narrow row that is this lane's column, from 32 k of the slab.
  UFP4_DEVICE void narrow_bytes(unsigned row, unsigned k, std::uint32_t (&b)[2]) const {
    const auto* at = memory + plan.narrow_at() + row * gemv_plan::narrow_stride + k + 8 * warp::word_of_lane();
    const auto bytes = *reinterpret_cast<const thread::words2*>(at);
    b[0] = bytes.word[0], b[1] = bytes.word[1];
  }
  /// Stores this lane's four dot products of a block, with their factors, for rows g and g + 8 and two columns.
  UFP4_DEVICE void store_dots(const std::int32_t (&d)[4], unsigned block, unsigned column) const {
    const float a = narrow_scale(column)[block], b = narrow_scale(column + 1)[block];
    const float zero = to_float(job.magic);
    UFP4_UNROLL
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned row = warp::row_of_lane() + 8 * i;
      const float s = weight_scale(row)[block];
      const auto dot = [&](std::int32_t bits) { return to_float(static_cast<std::uint32_t>(bits)) - zero; };
      const gemv_two_pairs two{{{dot(d[2 * i]), rounded(a * s)}, {dot(d[2 * i + 1]), rounded(b * s)}}};
      *reinterpret_cast<gemv_two_pairs*>(pairs(block) + row * job.columns + column) = two;
    }
  }
  UFP4_DEVICE void multiply(unsigned slab) const {
    const unsigned g = warp::row_of_lane(), t = warp::word_of_lane(), first_k = team * gemv_plan::warp_k;
    std::uint32_t a[2][4];
    UFP4_UNROLL
    for (unsigned s = 0; s < 2; ++s) {
      const auto word = [&](unsigned row) {
        return reinterpret_cast<const thread::words1*>(staged(slab, row, s) + 4 * t)->word;
      };
      warp::left_s8(job.weights.values, word(g), word(g + 8), a[s]);
    }
    const auto start = static_cast<std::int32_t>(job.magic);
    const bool halves = job.block_shift == 4;
    for (unsigned first = 0; first < job.columns; first += halves ? 4 : 8) {
      std::int32_t d[4] = {start, start, start, start};
      UFP4_UNROLL
      for (unsigned s = 0; s < 2; ++s) {
        std::uint32_t b[2];
        narrow_bytes(first + (halves ? g % 4 : g), first_k + 32 * s, b);
        if (halves) warp::of_half(g / 4, b, b);
        mma::mma_s8_k32(d, a[s], b);
        if (s == 0 && job.block_shift == 6) continue;
        if (halves)
          store_dots(d, team * 4 + 2 * s + t / 2, first + 2 * t % 4);
        else
          store_dots(d, job.block_shift == 5 ? team * 2 + s : team, first + 2 * t);
        d[0] = d[1] = d[2] = d[3] = start;
      }
    }
  }
  /// One output for each thread: row place / columns of the weights, narrow row place % columns.
  UFP4_DEVICE void add_up(unsigned slab) {
    if (place >= gemv_plan::rows * job.columns) return;
    const std::size_t rest = job.blocks - blocks_before(slab);
    const unsigned count = rest < plan.blocks() ? static_cast<unsigned>(rest) : plan.blocks();
    for (unsigned block = 0; block < count; ++block) {
      const gemv_pair p = pairs(block)[place];
      acc = fma(p.d, p.t, acc);
    }
  }

  UFP4_DEVICE void run() {
    constexpr int ahead = gemv_plan::stages - 1;
    if (slabs() == 0) return;
    for (unsigned slab = 0; slab < ahead; ++slab) copy(slab);  // zeros outside K
    load(0);
    for (unsigned slab = 0; slab < slabs(); ++slab) {
      spread();
      sync_block();  // the slab is stored, and the previous one added up
      load(slab + 1);
      copy(slab + ahead);
      mma::wait_copies<ahead>();
      sync_wave();  // a warp reads what its lanes copied
      multiply(slab);
      sync_block();
      add_up(slab);
    }
  }

  UFP4_DEVICE void store() const {
    const std::size_t row = first_row + place / job.columns, column = place % job.columns;
    if (place >= gemv_plan::rows * job.columns || row >= job.weights.rows || column >= job.narrow.rows) return;
    const thread::epilogue to = thread::epilogue_of(job.product);
    thread::store_sum(job.product, to, job.swapped ? row : column, job.swapped ? column : row, acc);
  }
};

UFP4_LAZY_KERNEL(256) gemv_blocks(UFP4_PARAMETER gemv_job job) {
  gemv_worker worker(job, std::size_t{block_index().x} * gemv_plan::rows);
  worker.run();
  worker.store();
}

inline gemv_job gemv_job_of(const gemm_job& job) {
  const bool swapped = weights_are_left(job);
  const auto side = [](const gemm_side& s) {
    return gemv_side{stream_side_of(s), s.scale, thread::s8_table_of(s.grid)};
  };
  const gemm_side &weights = swapped ? job.left : job.right, &narrow = swapped ? job.right : job.left;
  const auto group = static_cast<unsigned>(job.block == 16 ? 4 : 8);
  return {.weights = side(weights),
          .narrow = side(narrow),
          .padded = job.padded(),
          .blocks = job.blocks(),
          .block_shift = log2_of(job.block),
          .columns = (static_cast<unsigned>(narrow.rows) + group - 1) / group * group,
          .grain16 = is_aligned(weights.codes, 16) && job.padded() % 32 == 0,
          .swapped = swapped,
          .magic = dot_magic(job),
          .product = job};
}

/// Takes folded_bf16 if rounding to bf16 would change nothing.
inline bool gemv_takes(const gemm_job& job, const device_facts& facts) {
  if (!facts.has(80) || facts.wave != 32 || narrow_rows(job) > gemv_plan::most_columns || job.block < 16 ||
      job.block > 64)
    return false;
  if (job.mode == accumulate::folded_bf16 && !(products_fit(job.left) && products_fit(job.right))) return false;
  if (!byte_dots_are_exact(job) || !is_aligned(job.left.codes, 4) || !is_aligned(job.right.codes, 4)) return false;
  return gemv_plan{log2_of(job.block), gemv_plan::most_columns}.shared_bytes() <= facts.shared_bytes;
}

template <class Product, class Use = void>
error run_gemv(const gemm_job& job, const device_facts&, std::span<std::byte>, stream where) {
  const gemv_job gemv = gemv_job_of(job);
  const std::size_t blocks = (gemv.weights.rows + gemv_plan::rows - 1) / gemv_plan::rows;
  if constexpr (Product::may([](const gemm_job& p) { return p.block <= 64 && byte_dots_are_exact(p); }))
    return launch(listed<&gemv_blocks<Use>>, {static_cast<unsigned>(blocks)}, {gemv_plan::threads},
                  gemv_plan{gemv.block_shift, gemv.columns}.shared_bytes(), where, gemv);
  return not_supported;
}

template <class Product = any_product>
inline constexpr gemm_kernel gemv_blocks_sm80 = {.name = "gemv_blocks_sm80",
                                                 .instruction = "mma.sync.m16n8k32.s8",
                                                 .tile_rows = gemv_plan::most_columns,
                                                 .tile_cols = gemv_plan::rows,
                                                 .takes = &gemv_takes,
                                                 .run = &run_gemv<Product>,
                                                 .fast_is = accumulate::exact_blocks};

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
