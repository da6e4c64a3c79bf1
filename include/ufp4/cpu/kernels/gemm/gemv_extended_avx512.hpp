// ufp4 - quantized_gemm on AVX-512 VNNI of one row by weights with outer scales, several grids or one-bit exponents.
// SPDX-License-Identifier: Apache-2.0
//
// The loop of int8_gemv: a vector holds 128 k of one column in the order of memory. What is stored for their blocks is
// read in the same order: for each byte of two codes one byte of it is picked, and one or two bits of that select the
// entry of the table of integers (extended_blocks_avx512.hpp). Scales are decoded for sixteen columns, a panel of K at
// a time.
#pragma once

#include <ufp4/cpu/kernels/gemm/gemm_extended_avx512.hpp>

UFP4_BEGIN_REGION(avx512, UFP4_AVX512)

/// Where the selectors of 128 codes are in what is stored for their blocks, for each byte of two codes.
struct selector_places {
  /// One bit of a selector: which byte; `adds` is added to the selector if the byte has some of these bits.
  struct level {
    alignas(64) std::uint8_t byte[64] = {}, bits[64] = {};
    std::uint32_t adds = 0x10101010u;
  };
  level of[2];
  std::uint32_t most = 0xFFFFFFFFu;  ///< a byte above it counts as it: the number of a grid that does not exist
  bool has_second = false;

  explicit selector_places(const format_spec& f) {
    if (f.block.group.wide != 0) {
      has_second = f.block.group.narrow != 0;
      for (int l = 0; l <= (has_second ? 1 : 0); ++l)
        place(f, of[l], [&](int k) { return exponent_bit(f.block, l, k); });
    } else if (f.choice.count != 0) {
      const auto bit = static_cast<std::uint32_t>(grid_shift(f));
      const bool is_sign = bit % 8 != 0;
      has_second = f.choice.count > 1;
      if (!is_sign) most = static_cast<std::uint32_t>(f.choice.count) * 0x01010101u;
      place(f, of[0], [=](int) { return bit; });
      if (has_second) place(f, of[1], [=](int) { return bit + 1; }), of[1].adds = 0x20202020u;
    }
  }

 private:
  /// bit_of(k): the bit of column k of a block, among those stored for it.
  template <class Bit>
  static void place(const format_spec& f, level& to, const Bit& bit_of) {
    const auto bytes = static_cast<std::uint32_t>(stored_bytes(f));
    const int shift = __builtin_ctz(static_cast<unsigned>(f.block.cols));
    for (int i = 0; i < 64; ++i) {
      const std::uint32_t bit = bit_of(2 * i & (f.block.cols - 1));
      to.byte[i] = static_cast<std::uint8_t>(static_cast<std::uint32_t>(2 * i >> shift) * bytes + bit / 8);
      to.bits[i] = static_cast<std::uint8_t>(1u << bit % 8);
    }
  }
};

/// A gemv_panel of columns in the order of memory, of codes with selectors.
struct selecting_panel : gemv_panel {
  static constexpr bool selects = true;
  u32 byte[2], bits[2], adds[2], most;
  bool has_second;

  selecting_panel(const gemv_panel& panel, const selector_places& places)
      : gemv_panel(panel), most(broadcast(places.most)), has_second(places.has_second) {
    for (int l = 0; l < 2; ++l) {
      byte[l] = load_as<u32>(places.of[l].byte), bits[l] = load_as<u32>(places.of[l].bits);
      adds[l] = broadcast(places.of[l].adds);
    }
  }
  UFP4_LANE void add_products(u32& dots, u32 dword, const std::uint8_t* at, u32 even, u32 odd) const {
    const u8 from = load_as<u8>(at);
    u32 s = where_set(pick(from, 0), bits[0], adds[0]);
    if (has_second) s = s + where_set(pick(from, 1), bits[1], adds[1]);
    add_dots(dots, selected(table, dword, s), even);
    add_dots(dots, selected(table, dword >> 4, s), odd);
  }

 private:
  UFP4_LANE u32 pick(u8 from, int l) const {
    u32 picked = reinterpret_cast<u32>(lookup_bytes(from, byte[l]));
    asm("vpminub %1, %0, %0" : "+v"(picked) : "v"(most));
    return picked;
  }
  /// `value` in the bytes of v that have some of these bits, elsewhere 0.
  UFP4_LANE static u32 where_set(u32 v, u32 some, u32 value) {
    u32 r;
    std::uint64_t which;
    asm("vptestmb %2, %1, %0" : "=Yk"(which) : "v"(v), "v"(some));
    asm("vmovdqu8 %1, %0%{%2%}%{z%}" : "=v"(r) : "v"(value), "Yk"(which));
    return r;
  }
};

/// A gemv_panel of interleaved codes with selectors.
struct selecting_lanes : gemv_panel {
  const std::uint32_t* bits;  ///< of decode_stored
  bool has_exponents;
  exponent_selectors select;

  selecting_lanes(const gemv_panel& panel, const format_spec& f, const std::uint32_t* of)
      : gemv_panel(panel), bits(of), has_exponents(f.block.group.wide != 0), select(f.block) {}
  UFP4_LANE void add_products(u32& even_dots, u32& odd_dots, u32 dword, std::size_t block, std::size_t group,
                              const std::uint8_t* even, const std::uint8_t* odd) const {
    u32 s = load_as<u32>(bits + block * lanes);
    if (has_exponents) s = select(s, static_cast<std::uint32_t>(group));
    add_dots(even_dots, selected(table, dword, s), even);
    add_dots(odd_dots, selected(table, dword >> 4, s), odd);
  }
};

struct extended_gemv {
  static constexpr std::size_t tile_rows = 1, tile_cols = lanes;
  static constexpr std::size_t most_blocks = gemv_depth / 16;

  /// What a packed row begins with: what is the same for all columns.
  struct head {
    selector_places places;
    u8 table;
    f32 magic;
  };
  /// The memory of a task.
  struct scratch {
    alignas(64) float scale[most_blocks * lanes], sums[lanes];
    alignas(64) std::uint32_t bits[most_blocks * lanes];
    u32 stored[most_blocks];
    std::uint8_t codes[staged_code_bytes(gemv_depth)], blocks[staged_block_bytes(most_blocks)];
  };

  static bool takes(const gemm_job& job) {
    if (job.out.rows != 1 || job.right.has_bytes() || job.block > 64) return false;
    return extended_gemm::takes(job);
  }
  static std::size_t left_bytes(const gemm_job& job, std::size_t rows) {
    return rows * (sizeof(head) + int8_gemv<>::parts(job) * sizeof(gemv_part_of_row));
  }
  static void pack_left(const gemm_job& job, std::size_t row, std::size_t, std::byte* out) {
    const format_spec& f = job.right.q.format;
    new (out) head{selector_places(f), selected_table(f, true), as_float(broadcast(magic_bits(job)))};
    out += sizeof(head);
    const quantized_source& q = job.left.q;
    if (!has(parts_of(q.format), features::further_parts)) return int8_gemv<>::pack_left(job, row, 1, out);
    const u8 table = selected_table(q.format, false);
    int8_gemv<>::pack_parts(
        job, out,
        [&](std::size_t block, std::size_t count, float* scale) {
          for (std::size_t b = 0; b < count; ++b) scale[b] = scale_at(q, row, block + b, 1.0f);
        },
        [&](std::size_t k) {
          const std::uint32_t bits = load_block(q.scales, q.format, q.scale_index(row, k / job.block));
          return extended_gemm::selected_bytes(q, table, bits, row, k, false);
        });
  }

  /// Blocks of 16, 32 or 64.
  template <class Panel>
  static f32 multiply_rows(const Panel& s, std::size_t block, const gemv_part_of_row* row, f32 sum) {
    constexpr read_ahead how = read_ahead::second_level;
    if (block == 16) return gemv_rows<8, how>(s, row, sum);
    return block == 32 ? gemv_rows<4, how>(s, row, sum) : gemv_rows<2, how>(s, row, sum);
  }
  template <class Panel>
  static f32 multiply_interleaved(const Panel& s, std::size_t block, const gemv_part_of_row* row, f32 sum) {
    constexpr read_ahead how = read_ahead::none;
    if (block == 16) return gemv_interleaved<8, how>(s, row, sum);
    return block == 32 ? gemv_interleaved<4, how>(s, row, sum) : gemv_interleaved<2, how>(s, row, sum);
  }
  /// The panel from block `first` on of columns [col, col + live): their scales, and where their bits are.
  static void read_blocks(const quantized_source& q, std::size_t col, std::size_t live, std::size_t first,
                          gemv_panel& s, scratch& memory) {
    if (q.interleaved) {
      stored_dwords_of(q, col, live, first, s.blocks, memory.blocks, memory.stored);
    } else {
      const stored_rows rows = stored_rows_of(q, col, live, first, s.blocks, memory.blocks);
      s.stored = rows.p, s.stored_step = rows.step;
      transpose_stored(rows, s.blocks * stored_bytes(q.format), memory.stored);
      s.scale_ahead = rows.p + lanes * rows.step;
    }
    decode_stored(q.format, memory.stored, s.blocks, memory.scale, q.interleaved ? memory.bits : nullptr);
    multiply_by_outer(q, col, live, first, s.blocks, memory.scale);
  }
  static f32 multiply_panel(const gemv_panel& s, const quantized_source& q, const head& constants,
                            const scratch& memory, const gemv_part_of_row* row, f32 sum) {
    const bool selects = q.format.choice.count != 0 || q.format.block.group.wide != 0;
    const auto block = static_cast<std::size_t>(q.format.block.cols);
    if (q.interleaved)
      return selects ? multiply_interleaved(selecting_lanes(s, q.format, memory.bits), block, row, sum)
                     : multiply_interleaved(s, block, row, sum);
    return selects ? multiply_rows(selecting_panel(s, constants.places), block, row, sum)
                   : multiply_rows(s, block, row, sum);
  }
  static std::size_t scratch_bytes(const gemm_job&, std::size_t) { return sizeof(scratch); }
  static void multiply(const gemm_job& job, const gemm_part& part, const std::byte* left, std::byte* memory) {
    const quantized_source& q = job.right.q;
    const auto& constants = *reinterpret_cast<const head*>(left);
    const auto* parts = reinterpret_cast<const gemv_part_of_row*>(left + sizeof(head));
    auto& own = *reinterpret_cast<scratch*>(memory);
    gemv_panel s{};
    s.table = constants.table, s.magic = constants.magic;
    s.scale = own.scale;
    s.stored_part = gemv_part / job.block * stored_bytes(q.format);
    s.scale_bytes = lanes * stored_bytes(q.format);
    for (std::size_t j = 0; j < part.cols; j += lanes) {
      const std::size_t live = part.cols - j < lanes ? part.cols - j : lanes, col = part.col + j;
      f32 sum{};
      for (std::size_t k = 0; k < job.padded(); k += gemv_depth) {
        const std::size_t depth = job.padded() - k < gemv_depth ? job.padded() - k : gemv_depth;
        s.blocks = depth / job.block;
        s.codes = codes_of<features::all, gemv_part>(q, col, live, k, depth, own.codes);
        s.ahead = int8_gemv<>::prefetch_codes_for_decoding(q.codes + (col + lanes) * (q.padded_cols / 2) + k * 8);
        read_blocks(q, col, live, k / job.block, s, own);
        sum = multiply_panel(s, q, constants, own, parts + k / gemv_part, sum);
      }
      store(own.sums, sum);
      store_sums(job, {part.row, 1, col, live}, own.sums, lanes);
    }
  }
};

template <features needs = features::all>
inline constexpr gemm_kernel gemv_extended_kernel =
    kernel_of<extended_gemv, needs>(isa::avx512, "gemv_extended_avx512", 4, 1, 128, accumulate::exact_blocks,
                                    features::byte_element | features::further_parts);
UFP4_END_REGION
