// ufp4 - gemm_wgmma_sm90: quantized_gemm, fast and folded_bf16, on Hopper: TMA, decoding in registers, wgmma.
// SPDX-License-Identifier: Apache-2.0
//
// Experimental: compiled only with UFP4_EXPERIMENTAL, and checked at its first call (cuda/first_call_check.hpp).
//
// A thread block computes tiles of C: 256 of its columns, which are rows of the right operand, the weights, and 32, 64
// or 128 of its rows. Its three warpgroups have two roles:
//
// | producer     | One thread starts the TMA copies of both operands' codes, parts of 256 of K, some parts ahead.   |
// |              | All threads decode the left operand's rows to swizzled shared memory, in steps of 64 of K, some    |
// |              | steps ahead                                                                                        |
// | consumers, 2 | Each has 128 rows of the weights. A thread decodes the codes of its four rows to wgmma's fragments |
// |              | and the warpgroup multiplies two times 64 rows with the decoded step. While 64 rows are multiplied |
// |              | a thread decodes the codes of the other 64                                                         |
//
// So each code of a tile is decoded once. A sum may be taken in any order, so the order of K within a part is chosen
// such that no element moves between lanes: of the 256 of a part, lane t of four consecutive lanes has elements 64 t
// to 64 t + 63, and multiplies sixteen of them, one block or a part of one, in each of four steps. Element 16 j + p of
// step s is, with t = p % 8 / 2,
//
//   64 t + 16 s + 8 (j / 2) + 4 (j % 2) + 2 (p / 8) + p % 2
//
// (with another order of eight elements in wgmma_fold::mxfp4). The left operand is stored in this order: words of codes
// of the four lanes become parts of 16 bytes.
//
// A ring of parts and a ring of steps have a barrier "full" and one "empty" for each stage; one lane of each warp
// arrives. Thread blocks are persistent: while the consumers store a tile, the producer works on the next. Where the
// tiles are too few for the device, a cluster of up to eight thread blocks computes one: each sums a part of K, then
// stores a part of the rows, adding the parts of K in order from the others' shared memory.
//
// Tiles whose products bf16 cannot hold are those of gemm_bf16_sm80. Rows outside an operand repeat its last row; in a
// part in which K ends, the factors of blocks outside are 0.
//
// Predicted rates: docs/gpu.md.
#pragma once

#include <ufp4/cuda/cluster_sm90.hpp>
#include <ufp4/cuda/fold_sm90.hpp>
#include <ufp4/cuda/gemm_blocks_sm90.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

template <unsigned Rows>
struct wgmma_tile {
  static constexpr unsigned rows = Rows, cols = 256, part = 256, depth = 64, threads = 384;
  static constexpr unsigned group_cols = cols / 2, row_bytes = 128;  ///< a row of a part's codes, and of a step
  static constexpr unsigned weight_bytes = cols * row_bytes, part_bytes = weight_bytes + rows * row_bytes;
  static constexpr unsigned step_bytes = rows * row_bytes;
  static constexpr unsigned parts = Rows == 128 ? 3 : 4, steps = Rows == 32 ? 8 : 4;  ///< stages of the rings
  /// Half a row of a step is a producing thread's unit of work. Of 32 rows two warps decode even steps, two odd steps.
  static constexpr unsigned units = rows * 2, unit_threads = units < 128 ? units : 128, halves = rows == 128 ? 2 : 1;
  static constexpr unsigned pass = 16, stride = group_cols + 4;  ///< rows of C that a warpgroup stores at once; floats
  static constexpr unsigned pass_bytes = pass * stride * 4, shared_stride = cols + 4;
  /// Offsets from an address aligned to 1024 bytes, which the swizzle needs and shared_memory() does not guarantee.
  static constexpr unsigned steps_at = parts * part_bytes, passes_at = steps_at + steps * step_bytes;
  static constexpr unsigned barriers_at = passes_at + 2 * pass_bytes;
  static constexpr unsigned unfit_at = barriers_at + 2 * (parts + steps) * mma::barrier_bytes;
  static constexpr unsigned unfit_slots = 4;
  static constexpr std::size_t shared_bytes = 1024 + unfit_at + 3 * unfit_slots * 4;
  /// Of a thread; 168 at the start, for each of three warpgroups.
  static constexpr int producer_registers = rows == 128 ? 88 : 104, consumer_registers = rows == 128 ? 208 : 200;
  static_assert(producer_registers + 2 * consumer_registers <= 3 * 168);
  static_assert(shared_bytes <= 227 * 1024 && rows * shared_stride * 4 <= barriers_at);
};

/// TMA needs rows of codes aligned to 16 bytes.
inline bool gemm_wgmma_takes(const gemm_job& job, const device_facts& facts, bool rounds) {
  const wgmma_fold how = fold_of(job.left, job.right);
  const auto good = [&](const gemm_side& side) {
    const auto bytes = ufp4::detail::scale_bytes(side.scale);
    return folds(side, job.mode) && (how == wgmma_fold::rounded ? bytes != 1 : bytes != 4) &&
           is_aligned(side.codes, 16) && side.rows < (std::size_t{1} << 31) &&
           side.rows * job.blocks() < (std::size_t{1} << 32);
  };
  return facts.has_specific(9) && job.block >= 16 && job.padded() % 32 == 0 && job.padded() != 0 &&
         job.padded() < (std::size_t{1} << 31) && facts.shared_bytes >= wgmma_tile<128>::shared_bytes &&
         good(job.left) && good(job.right) && (how == wgmma_fold::rounded) == rounds;
}

/// Operands that two tables of bytes decode to bf16 are the limit of a large product here: gemm_blocks_sm90 decodes
/// each once, in a pass of its own, whose share falls below the difference from 1024 rows of C on.
inline bool decodes_once(const gemm_job& job, const device_facts& facts) {
  const wgmma_fold how = fold_of(job.left, job.right);
  return (how == wgmma_fold::e8m0 || how == wgmma_fold::exact) && job.out.rows >= 1024 &&
         gemm_blocks_sm90_takes(job, facts);
}

inline tile_shape wgmma_tile_of(const gemm_job& job, const device_facts&) {
  return {job.out.rows <= 32 ? 32u : job.out.rows <= 64 ? 64u : 128u, wgmma_tile<128>::cols};
}

template <bool rounds>
inline constexpr const char* wgmma_name = rounds ? "gemm_wgmma_rounded_sm90" : "gemm_wgmma_sm90";

#if defined(UFP4_COMPILES_EXPERIMENTAL)

struct wgmma_job {
  gemm_job job{};
  wgmma_side left{}, right{};
  unsigned block_shift = 4;  ///< log2 of the block length
  unsigned cluster = 1;      ///< thread blocks that share a tile, each with `parts` parts of K or, the last, fewer
  unsigned parts = 0;
  tile_grid tiles{};
  CUtensorMap left_codes{}, right_codes{};
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Scales as bits, of the sixteen elements from 64 t + 16 step on in each part: of lanes t = 0 .. lanes - 1 of one
/// row, or of one lane of several rows. Loaded a step ahead, or a part where the scales of four steps are one word.
template <wgmma_fold how, unsigned rows, unsigned lanes>
struct scale_stream {
  static constexpr bool is_byte = how == wgmma_fold::f16 || is_e8m0(how);
  const wgmma_side& side;
  unsigned padded, shift;    ///< log2 of the block length
  unsigned k;                ///< of the first lane, for the next load
  std::uint32_t line[rows];  ///< index of the row's first scale
  std::uint32_t now[rows * lanes], next[rows * lanes];

  UFP4_DEVICE scale_stream(const wgmma_job& job, const wgmma_side& of, unsigned first)
      : side(of), padded(static_cast<unsigned>(job.job.padded())), shift(job.block_shift), k(first) {}
  /// Before load(). Rows outside the operand repeat its last.
  UFP4_DEVICE void set_row(unsigned i, unsigned row) {
    const auto count = static_cast<unsigned>(side.rows);
    line[i] = (row < count ? row : count - 1) / side.block_rows * (padded >> shift);
  }
  UFP4_DEVICE std::uint32_t one(std::uint32_t first, unsigned at) const {
    if (at >= padded) return 0;
    const std::uint32_t i = first + (at >> shift);
    return is_byte ? static_cast<const std::uint8_t*>(side.scales)[i] : load_scale_bits<how>(side, i);
  }
  /// Byte s of the word is the scale of step s.
  UFP4_DEVICE std::uint32_t four(std::uint32_t first, unsigned at) const {
    if (!side.words)
      return one(first, at) | one(first, at + 16) << 8 | one(first, at + 32) << 16 | one(first, at + 48) << 24;
    if (at >= padded) return 0;
    const auto* from = static_cast<const std::uint8_t*>(side.scales) + (first + (at >> shift));
    if (shift == 4) return *reinterpret_cast<const std::uint32_t*>(from);
    return thread::byte_permute(*reinterpret_cast<const std::uint16_t*>(from), 0, 0x1100);
  }
  UFP4_DEVICE void load() {
    UFP4_UNROLL
    for (unsigned i = 0; i < rows * lanes; ++i) {
      const unsigned at = k + i % lanes * 64;
      next[i] = is_byte ? four(line[i / lanes], at) : one(line[i / lanes], at);
    }
    k += is_byte ? 256 : k % 64 == 48 ? 256 - 48 : 16;
  }
  /// Called once for each step, a constant, in order.
  UFP4_DEVICE void advance(unsigned step) {
    if (is_byte && step != 0) return;
    UFP4_UNROLL
    for (unsigned i = 0; i < rows * lanes; ++i) now[i] = next[i];
    load();
  }
  UFP4_DEVICE std::uint32_t bits(unsigned i, unsigned step) const {
    return is_byte ? now[i] >> (8 * step) & 0xFFu : now[i];
  }
};

template <class Tile, wgmma_fold how>
struct wgmma_worker {
  const wgmma_job& job;
  std::uint32_t memory;  ///< in the shared state space, aligned to 1024 bytes
  unsigned first_part = block_index().x % job.cluster * job.parts, end_part = end_of(first_part);
  unsigned lane = gpu::lane(), warp = thread_index().x / 32;
  mma::ring<Tile::parts> codes{};
  mma::ring<Tile::steps> steps{};

  UFP4_DEVICE unsigned end_of(unsigned first) const {
    const unsigned all = (static_cast<unsigned>(job.job.padded()) + Tile::part - 1) / Tile::part;
    return first + job.parts < all ? first + job.parts : all;
  }
  UFP4_DEVICE unsigned first_tile() const { return block_index().x / job.cluster; }
  UFP4_DEVICE unsigned tile_step() const { return grid_size().x / job.cluster; }
  UFP4_DEVICE std::uint32_t barriers(unsigned first) const {
    return memory + Tile::barriers_at + first * mma::barrier_bytes;
  }
  UFP4_DEVICE std::uint32_t codes_full(unsigned stage) const { return barriers(stage); }
  UFP4_DEVICE std::uint32_t codes_empty(unsigned stage) const { return barriers(Tile::parts + stage); }
  UFP4_DEVICE std::uint32_t step_full(unsigned stage) const { return barriers(2 * Tile::parts + stage); }
  UFP4_DEVICE std::uint32_t step_empty(unsigned stage) const { return barriers(2 * Tile::parts + Tile::steps + stage); }
  /// n + 1 if a product of the n-th tile does not fit. group: producer, consumers. No role is four tiles ahead.
  UFP4_DEVICE std::uint32_t unfit(unsigned group, unsigned n) const {
    return memory + Tile::unfit_at + (group * Tile::unfit_slots + n % Tile::unfit_slots) * 4;
  }
  UFP4_DEVICE void arrive(std::uint32_t barrier) const {
    sync_wave();
    if (lane == 0) mma::barrier_arrive(barrier);
  }

  UFP4_DEVICE void start() const {
    if (thread_index().x == 0) {
      for (unsigned s = 0; s < Tile::parts; ++s) {
        mma::barrier_start(codes_full(s), 1);
        mma::barrier_start(codes_empty(s), 12);
      }
      for (unsigned s = 0; s < Tile::steps; ++s) {
        mma::barrier_start(step_full(s), Tile::unit_threads / 32);
        mma::barrier_start(step_empty(s), 8);
      }
      for (unsigned i = 0; i < 3 * Tile::unfit_slots; ++i) mma::store_shared(memory + Tile::unfit_at + 4 * i, 0);
      mma::barriers_ready();
    }
    sync_block();
  }

  UFP4_DEVICE std::uint32_t weight_codes(unsigned stage) const { return memory + stage * Tile::part_bytes; }
  UFP4_DEVICE std::uint32_t row_codes(unsigned stage) const { return weight_codes(stage) + Tile::weight_bytes; }
  UFP4_DEVICE std::uint32_t decoded(unsigned stage) const { return memory + Tile::steps_at + stage * Tile::step_bytes; }
  UFP4_DEVICE unsigned tiles() const { return job.tiles.down * job.tiles.across; }
  UFP4_DEVICE bool inside(unsigned part, unsigned t, unsigned step) const {
    return part * Tile::part + 64 * t + 16 * step < static_cast<unsigned>(job.job.padded());
  }
  /// 0 outside K, because code 0 need not mean 0, and scale code 0 of e8m0 does not.
  UFP4_DEVICE static std::uint32_t factor(const wgmma_side& side, std::uint32_t bits, bool is_inside) {
    const std::uint32_t f = factor_of<how>(side, bits);
    constexpr bool zeros = how == wgmma_fold::f16 || how == wgmma_fold::rounded;  // scale code 0 is 0
    return zeros || is_inside ? f : 0u;
  }

  struct copies {
    unsigned at, part;  ///< tile and part
    mma::ring<Tile::parts> stages{};
  };
  UFP4_DEVICE void fetch(copies& c) const {
    if (c.at >= tiles()) return;
    const tile_index tile = tile_of_strips(job.tiles, c.at);
    const std::uint32_t full = codes_full(c.stages.stage);
    mma::barrier_wait(codes_empty(c.stages.stage), c.stages.phase ^ 1u);
    mma::barrier_expect(full, Tile::part_bytes);
    const unsigned column = c.part * Tile::row_bytes;
    mma::copy_box(weight_codes(c.stages.stage), job.right_codes, column, tile.across * Tile::cols, full);
    mma::copy_box(row_codes(c.stages.stage), job.left_codes, column, tile.down * Tile::rows, full);
    c.stages.advance();
    if (++c.part == end_part) c.part = first_part, c.at += tile_step();
  }

  /// swizzled_offset() from an address whose bits 4 to 9 are 0: one instruction for each part of a row.
  UFP4_DEVICE static std::uint32_t of_sixteen(std::uint32_t from, unsigned row, unsigned sixteen) {
    return (from + mma::swizzled_offset(row, 0)) ^ 16 * sixteen;
  }
  /// Half of a row of a step: word i of each of the four lanes becomes four parts.
  UFP4_DEVICE void decode_half(unsigned row, unsigned i, const std::uint32_t (&words)[4],
                               const std::uint32_t (&factors)[4]) const {
    std::uint32_t pairs[4][4];
    UFP4_UNROLL
    for (unsigned t = 0; t < 4; ++t) fold8<how>(job.left, words[t], factors[t], pairs[t]);
    UFP4_UNROLL
    for (unsigned sixteen = 0; sixteen < 4; ++sixteen)
      mma::store_shared(of_sixteen(decoded(steps.stage), row, 4 * i + sixteen), pairs[0][sixteen], pairs[1][sixteen],
                        pairs[2][sixteen], pairs[3][sixteen]);
  }
  UFP4_DEVICE void decode_step(unsigned row, unsigned first, unsigned part, unsigned step,
                               const scale_stream<how, 1, 4>& scales, std::uint32_t flag, unsigned n) const {
    constexpr unsigned halves = Tile::halves;
    std::uint32_t words[4][halves], factors[4];
    UFP4_UNROLL
    for (unsigned t = 0; t < 4; ++t) {
      const unsigned sixteen = 2 * t + step / 2;
      mma::load_shared(words[t], of_sixteen(row_codes(codes.stage) + 4 * first, row, sixteen) + 8 * (step % 2));
      const bool is_inside = inside(part, t, step);
      const std::uint32_t bits = scales.bits(t, step);
      factors[t] = factor(job.left, bits, is_inside);
      if (is_inside && is_unfit<how>(job.left, bits, words[t][0], words[t][halves - 1])) mma::store_shared(flag, n + 1);
    }
    mma::barrier_wait(step_empty(steps.stage), steps.phase ^ 1u);
    UFP4_UNROLL
    for (unsigned h = 0; h < halves; ++h) {
      const std::uint32_t half[4] = {words[0][h], words[1][h], words[2][h], words[3][h]};
      decode_half(row, first + h, half, factors);
    }
    mma::fence_to_async();
    arrive(step_full(steps.stage));
  }

  UFP4_DEVICE void produce() {
    const unsigned unit = thread_index().x % Tile::unit_threads, row = unit % Tile::rows, first = unit / Tile::rows;
    copies ahead{first_tile(), first_part};
    if (thread_index().x == 0)
      for (unsigned i = 0; i < Tile::parts; ++i) fetch(ahead);
    unsigned n = 0;
    for (unsigned at = first_tile(); at < tiles(); at += tile_step(), ++n) {
      scale_stream<how, 1, 4> scales(job, job.left, first_part * Tile::part);
      scales.set_row(0, tile_of_strips(job.tiles, at).down * Tile::rows + row);
      scales.load();
      for (unsigned part = first_part; part < end_part; ++part) {
        mma::barrier_wait(codes_full(codes.stage), codes.phase);
        UFP4_UNROLL
        for (unsigned step = 0; step < 4; ++step) {
          // the consumers have read the codes of the part before, or will without waiting for this thread
          if (step == 2 && (n != 0 || part != first_part) && thread_index().x == 0) fetch(ahead);
          scales.advance(step);
          const bool is_mine = Tile::unit_threads == 128 || thread_index().x / Tile::unit_threads == step % 2;
          if (is_mine) decode_step(row, first, part, step, scales, unfit(0, n), n);
          steps.advance();
        }
        arrive(codes_empty(codes.stage));
        codes.advance();
      }
    }
  }

  static constexpr unsigned sums_of_thread = Tile::rows / 2;

  UFP4_DEVICE static void decode_fragments(const wgmma_side& side, const std::uint32_t (&words)[2][4], unsigned half,
                                           const std::uint32_t (&factors)[2], std::uint32_t (&a)[4][4]) {
    UFP4_UNROLL
    for (unsigned h = 0; h < 2; ++h) UFP4_UNROLL
    for (unsigned i = 0; i < 2; ++i) {
      std::uint32_t pairs[4];
      fold8<how>(side, words[h][2 * half + i], factors[h], pairs);
      UFP4_UNROLL
      for (unsigned p = 0; p < 4; ++p) a[2 * i + p / 2][h + 2 * (p % 2)] = pairs[p];
    }
  }

  /// One step of both times 64 rows. `previous`: the stage of the step before, or no stage.
  UFP4_DEVICE void multiply_step(float (&sums)[2][sums_of_thread], const std::uint32_t (&words)[2][2][4],
                                 scale_stream<how, 4, 1>& scales, unsigned part, unsigned step, unsigned previous,
                                 bool& unfit) const {
    const bool is_inside = inside(part, lane % 4, step);
    scales.advance(step);
    UFP4_UNROLL
    for (unsigned m = 0; m < 2; ++m) {
      std::uint32_t factors[2];
      UFP4_UNROLL
      for (unsigned h = 0; h < 2; ++h) {
        const std::uint32_t bits = scales.bits(2 * m + h, step);
        factors[h] = factor(job.right, bits, is_inside);
        const std::uint32_t first = words[m][h][step % 2 * 2], last = words[m][h][step % 2 * 2 + 1];
        unfit |= is_inside & is_unfit<how>(job.right, bits, first, last);
      }
      mma::multiply_wait<1>();  // of the step before: m = 0, these 64 rows; m = 1, all
      if (m == 1 && previous != Tile::steps) arrive(step_empty(previous));
      std::uint32_t a[4][4];
      decode_fragments(job.right, words[m], step % 2, factors, a);
      if (m == 0) {
        mma::barrier_wait(step_full(steps.stage), steps.phase);
        sync_wave();  // wgmma needs whole warps
      }
      UFP4_UNROLL
      for (unsigned j = 0; j < 4; ++j) mma::settle(a[j]);
      mma::multiply_fence();
      UFP4_UNROLL
      for (unsigned j = 0; j < 4; ++j)
        mma::multiply_k16<how == wgmma_fold::f16>(sums[m], a[j], mma::operand_128(decoded(steps.stage) + 32 * j));
      mma::multiply_commit();
    }
  }

  UFP4_DEVICE void multiply_tile(float (&sums)[2][sums_of_thread], unsigned group, unsigned first_col, unsigned n) {
    const unsigned row = group * Tile::group_cols + warp % 4 * 16 + lane / 4;  // and 8, 64, 72 more
    scale_stream<how, 4, 1> scales(job, job.right, first_part * Tile::part + 64 * (lane % 4));
    UFP4_UNROLL
    for (unsigned i = 0; i < 4; ++i) scales.set_row(i, first_col + row + i / 2 * 64 + i % 2 * 8);
    scales.load();
    unsigned previous = Tile::steps;
    bool is_unfit = false;
    for (unsigned part = first_part; part < end_part; ++part) {
      mma::barrier_wait(codes_full(codes.stage), codes.phase);
      UFP4_UNROLL
      for (unsigned half = 0; half < 2; ++half) {
        std::uint32_t words[2][2][4];
        UFP4_UNROLL
        for (unsigned i = 0; i < 4; ++i)
          mma::load_shared(words[i / 2][i % 2], weight_codes(codes.stage) +
                                                    mma::swizzled_offset(row, lane % 4 * 2 + half) +
                                                    (i / 2 * 64 + i % 2 * 8) * Tile::row_bytes);
        if (half == 1) {
          arrive(codes_empty(codes.stage));
          codes.advance();
        }
        UFP4_UNROLL
        for (unsigned step = 2 * half; step < 2 * half + 2; ++step) {
          multiply_step(sums, words, scales, part, step, previous, is_unfit);
          previous = steps.stage;
          steps.advance();
        }
      }
    }
    mma::multiply_wait<0>();
    mma::settle(sums[0]), mma::settle(sums[1]);
    if (is_unfit) mma::store_shared(unfit(1 + group, n), n + 1);
    if (previous != Tile::steps) arrive(step_empty(previous));
  }

  /// Sixteen rows of C at a time through shared memory, so that every index of the sums is a constant. No function is
  /// called while sums are in registers, since it would save them.
  UFP4_DEVICE void store(const float (&sums)[2][sums_of_thread], unsigned group, std::size_t first_row,
                         std::size_t first_col, unsigned n) const {
    const thread::epilogue to = thread::epilogue_of(job.job);
    const std::uint32_t staged = memory + Tile::passes_at + group * Tile::pass_bytes;
    const unsigned t = thread_index().x % 128, from = t / 32 * 16 + lane / 4, rows = Tile::pass;
    const std::size_t col = first_col + group * Tile::group_cols + t;
    std::uint32_t again[Tile::rows / 32] = {};
    bool usable = true;
    UFP4_UNROLL
    for (unsigned pass = 0; pass < Tile::rows / rows; ++pass) {
      mma::sync_threads<128>(1 + group);
      UFP4_UNROLL
      for (unsigned m = 0; m < 2; ++m) UFP4_UNROLL
      for (unsigned i = 0; i < 8; ++i) {
        const unsigned at = (mma::sum_col(lane, i) * Tile::stride + 64 * m + from + i / 2 % 2 * 8) * 4;
        mma::store_shared(staged + at, to_bits(sums[m][8 * pass + i]));
      }
      mma::sync_threads<128>(1 + group);
      if (pass == 0) usable = is_usable(group, n);
      for (unsigned r = 0; r < rows; ++r) {
        const std::size_t row = first_row + pass * rows + r;
        if (row >= to.out.rows || col >= to.out.cols) continue;
        std::uint32_t sum[1];
        mma::load_shared(sum, staged + (r * Tile::stride + t) * 4);
        if (usable && is_finite(to_float(sum[0])))
          thread::store_scaled(to, row, col, thread::scaled_result(to, to_float(sum[0])));
        else
          again[pass / 2] |= 1u << (pass % 2 * rows + r);
      }
    }
    UFP4_UNROLL
    for (unsigned word = 0; word < Tile::rows / 32; ++word)
      for (unsigned r = 0; again[word] != 0; ++r, again[word] >>= 1) {
        const std::size_t row = first_row + 32 * word + r;
        if ((again[word] & 1u) != 0) thread::store_scaled(to, row, col, thread::recomputed(job.job, to.by, row, col));
      }
  }
  UFP4_DEVICE bool is_usable(unsigned group, unsigned n) const {
    std::uint32_t of_rows[1], of_weights[1];
    mma::load_shared(of_rows, unfit(0, n));
    mma::load_shared(of_weights, unfit(1 + group, n));
    return of_rows[0] != n + 1 && of_weights[0] != n + 1;
  }

  UFP4_DEVICE void consume() {
    const unsigned group = warp / 4 - 1;
    unsigned n = 0;
    for (unsigned at = first_tile(); at < tiles(); at += tile_step(), ++n) {
      const tile_index tile = tile_of_strips(job.tiles, at);
      const std::size_t row = std::size_t{tile.down} * Tile::rows, col = std::size_t{tile.across} * Tile::cols;
      float sums[2][sums_of_thread] = {};
      multiply_tile(sums, group, tile.across * Tile::cols, n);
      if (job.cluster == 1)
        store(sums, group, row, col, n);
      else
        share(sums, group);
    }
  }

  /// Of a cluster: the sums of this thread block's part of K, where its operands were.
  UFP4_DEVICE void share(const float (&sums)[2][sums_of_thread], unsigned group) const {
    const unsigned from = group * Tile::group_cols + warp % 4 * 16 + lane / 4;
    mma::sync_threads<256>(3);  // no consumer reads operands any more
    UFP4_UNROLL
    for (unsigned m = 0; m < 2; ++m) UFP4_UNROLL
    for (unsigned i = 0; i < sums_of_thread; ++i) {
      const unsigned at = mma::sum_col(lane, i) * Tile::shared_stride + 64 * m + from + i / 2 % 2 * 8;
      mma::store_shared(memory + 4 * at, to_bits(sums[m][i]));
    }
  }
  /// Sums that were stored before are readable in the whole cluster.
  UFP4_DEVICE void sync_sums() const {
    sync_wave();
    if (job.cluster > 1) mma::sync_cluster();
  }
  /// A consumer's part of C after the cluster has shared its sums: some rows, summed in the order of K.
  UFP4_DEVICE void store_shared_sums() const {
    const thread::epilogue to = thread::epilogue_of(job.job);
    const tile_index tile = tile_of_strips(job.tiles, first_tile());
    const unsigned rows = (Tile::rows + job.cluster - 1) / job.cluster, t = thread_index().x - 128;
    const unsigned rank = block_index().x % job.cluster;
    const std::size_t col = std::size_t{tile.across} * Tile::cols + t;
    bool usable = true;
    for (unsigned q = 0; q < job.cluster; ++q)
      usable = usable && mma::load_remote(unfit(0, 0), q) != 1 && mma::load_remote(unfit(1 + t / 128, 0), q) != 1;
    for (unsigned r = rank * rows; r < (rank + 1) * rows && r < Tile::rows; ++r) {
      const std::size_t row = std::size_t{tile.down} * Tile::rows + r;
      if (row >= to.out.rows || col >= to.out.cols) continue;
      float part[8];
      UFP4_UNROLL
      for (unsigned q = 0; q < 8; ++q)
        part[q] = q < job.cluster ? to_float(mma::load_remote(memory + 4 * (r * Tile::shared_stride + t), q)) : 0.0f;
      UFP4_UNROLL
      for (unsigned q = 1; q < 8; ++q) part[0] += part[q];
      thread::store_sum(job.job, to, row, col, usable ? part[0] : ufp4::detail::quiet_nan);
    }
  }
};

#endif

template <unsigned Rows, wgmma_fold how>
[[maybe_unused]] static __global__ void __launch_bounds__(wgmma_tile<Rows>::threads, 1)
    gemm_wgmma(UFP4_PARAMETER wgmma_job job) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using tile = wgmma_tile<Rows>;
  const std::uint32_t memory = (mma::shared_address(shared_memory()) + 1023) / 1024 * 1024;
  wgmma_worker<tile, how> worker{job, memory};
  worker.start();
  if (worker.warp < 4) {
    mma::set_fewer_registers<tile::producer_registers>();
    worker.produce();
    worker.sync_sums();
    worker.sync_sums();
  } else {
    mma::set_more_registers<tile::consumer_registers>();
    worker.consume();
    worker.sync_sums();
    if (job.cluster > 1) worker.store_shared_sums();
    worker.sync_sums();
  }
#else
  __trap();
#endif
}

/// How a job is divided: tiles of C, and thread blocks for each, at most 8, if the tiles are too few for 132
/// multiprocessors (H100 SXM, H200). The sums' order depends on it, so it is the same whatever the device has.
template <unsigned Rows>
void divide(wgmma_job& task, bool splits) {
  using tile = wgmma_tile<Rows>;
  const sink& out = task.job.out;
  const auto parts = static_cast<unsigned>((task.job.padded() + tile::part - 1) / tile::part);
  task.tiles = {static_cast<unsigned>((out.rows + Rows - 1) / Rows),
                static_cast<unsigned>((out.cols + tile::cols - 1) / tile::cols)};
  const std::size_t tiles = std::size_t{task.tiles.down} * task.tiles.across;
  unsigned most = 1;
  while (splits && most < UFP4_TUNE_CLUSTER && 2 * most <= parts && 2 * most * tiles <= 132) most *= 2;
  task.parts = (parts + most - 1) / most;
  task.cluster = (parts + task.parts - 1) / task.parts;
}

template <unsigned Rows, wgmma_fold how, bool splits>
error queue_gemm_wgmma(const gemm_job& job, const device_facts& device, std::span<std::byte>, stream where) {
  using tile = wgmma_tile<Rows>;
  wgmma_job task{.job = job,
                 .left = wgmma_side_of(job.left, job.block, how),
                 .right = wgmma_side_of(job.right, job.block, how),
                 .block_shift = log2_of(job.block)};
  divide<Rows>(task, splits);
  const unsigned tiles = task.tiles.down * task.tiles.across, most = static_cast<unsigned>(device.processors);
  if (tiles == 0) return success;
  const auto map = [&](CUtensorMap& to, const gemm_side& side, unsigned rows) {
    return mma::make_tensor_map(to, mma::swizzled_bytes_tensor, side.codes, side.rows, side.padded_cols / 2, rows, 128);
  };
  if (const error e = map(task.left_codes, job.left, tile::rows); e != success) return e;
  if (const error e = map(task.right_codes, job.right, tile::cols); e != success) return e;
  const unsigned blocks = task.cluster > 1 ? tiles * task.cluster : tiles < most ? tiles : most;
  return mma::launch_clusters(listed<&gemm_wgmma<Rows, how>>, blocks, tile::threads, task.cluster, tile::shared_bytes,
                              where, task);
}

template <unsigned Rows, wgmma_fold how>
error run_gemm_wgmma_rows(const char* name, const gemm_job& job, const device_facts& facts, std::span<std::byte> memory,
                          stream where) {
  constexpr unsigned depth = 5 * 256 + 64;  // of the first call's tile: longer than the rings, no multiple of 256
  wgmma_job task{.job = job};
  divide<Rows>(task, true);
  if (task.cluster > 1)
    return run_checked<&queue_gemm_wgmma<Rows, how, true>>(name, job, facts, memory, where, Rows - 1, 253, depth);
  return run_checked<&queue_gemm_wgmma<Rows, how, false>>(name, job, facts, memory, where, Rows - 1, 253, depth);
}
template <class Product, wgmma_fold how>
error run_gemm_wgmma_as(const char* name, const gemm_job& job, const device_facts& facts, std::span<std::byte> memory,
                        stream where) {
  if constexpr (Product::may([](const gemm_job& p) { return fold_of(p.left, p.right) == how; }))
    switch (wgmma_tile_of(job, facts).rows) {
      case 32: return run_gemm_wgmma_rows<32, how>(name, job, facts, memory, where);
      case 64: return run_gemm_wgmma_rows<64, how>(name, job, facts, memory, where);
      default: return run_gemm_wgmma_rows<128, how>(name, job, facts, memory, where);
    }
  return not_supported;
}

template <class Product, bool rounds>
error run_gemm_wgmma(const gemm_job& job, const device_facts& facts, std::span<std::byte> memory, stream where) {
  using fold = wgmma_fold;
  const auto run = [&]<fold how>(std::integral_constant<fold, how>) {
    return run_gemm_wgmma_as<Product, how>(wgmma_name<rounds>, job, facts, memory, where);
  };
  if constexpr (rounds) return run(std::integral_constant<fold, fold::rounded>{});
  switch (fold_of(job.left, job.right)) {
    case fold::f16: return run(std::integral_constant<fold, fold::f16>{});
    case fold::mxfp4: return run(std::integral_constant<fold, fold::mxfp4>{});
    case fold::e8m0: return run(std::integral_constant<fold, fold::e8m0>{});
    default: return run(std::integral_constant<fold, fold::exact>{});
  }
}

#endif

template <class Product, bool rounds>
constexpr gemm_kernel wgmma_kernel(const char* instruction) {
  return {.name = wgmma_name<rounds>,
          .instruction = instruction,
          .tile_rows = 128,
          .tile_cols = wgmma_tile<128>::cols,
          .takes =
              [](const gemm_job& job, const device_facts& facts) {
                return gemm_wgmma_takes(job, facts, rounds) && (rounds || !decodes_once(job, facts));
              },
          .run = UFP4_RUN_EXPERIMENTAL(wgmma_name<rounds>, run_gemm_wgmma<Product, rounds>),
          .experimental = true,
          .tile_of = &wgmma_tile_of};
}
template <class Product = any_product>
inline constexpr gemm_kernel gemm_wgmma_sm90 = wgmma_kernel<Product, false>("wgmma.mma_async");
/// Of formats whose folded values are rounded: decoding them is the limit, so a library's product of bf16 is faster.
template <class Product = any_product>
inline constexpr gemm_kernel gemm_wgmma_rounded_sm90 = wgmma_kernel<Product, true>("wgmma.mma_async.bf16");

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
