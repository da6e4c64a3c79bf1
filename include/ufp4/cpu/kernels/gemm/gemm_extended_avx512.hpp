// ufp4 - quantized_gemm on AVX-512 VNNI for formats with outer scales, several grids or one-bit exponents.
// SPDX-License-Identifier: Apache-2.0
//
// The products, records and tiles of gemm_int8_avx512.hpp. Codes are decoded in registers by the first tile of rows, by
// a table that selectors index too (extended_blocks_avx512.hpp); selectors, and scales times outer scales in binary32,
// are decoded for a panel of K of sixteen columns before.
#pragma once

#include <ufp4/cpu/kernels/gemm/extended_blocks_avx512.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_int8_avx512.hpp>

UFP4_BEGIN_REGION(avx512, UFP4_AVX512)

/// Codes with selectors: their table, and of a panel what selects.
struct selected_codes {
  static constexpr std::size_t most_blocks = int8_products<>::few_most / 16;

  explicit selected_codes(const format_spec& f)
      : table(selected_table(f, true)),
        select(f.block),
        has_exponents(f.block.group.wide != 0),
        selects(has_exponents || f.choice.count != 0),
        shift(__builtin_ctz(static_cast<unsigned>(f.block.cols / 16))) {}

  u8 table;
  exponent_selectors select;
  bool has_exponents, selects;
  int shift;                                            ///< from steps of 16 k to blocks
  alignas(64) std::uint32_t bits[most_blocks * lanes];  ///< of decode_stored
  u32 stored[most_blocks];                              ///< before they are decoded
  std::uint8_t staged[staged_block_bytes(most_blocks)];
};
/// Decodes them as a step_decoder does.
struct selecting_decoder {
  const selected_codes& of;
  u8 table;
  explicit selecting_decoder(const selected_codes& codes) : of(codes), table(codes.table) {}

  UFP4_LANE step_bytes operator()(u32 first, u32 second, std::size_t step) const {
    if (!of.selects) return step_decoder{table}(first, second, step);
    const std::size_t block = step >> of.shift;
    u32 s = load_as<u32>(of.bits + block * lanes), t = s;
    if (of.has_exponents) {
      const auto word = static_cast<std::uint32_t>(2 * (step - (block << of.shift)));
      s = of.select(s, word), t = of.select(t, word + 1);
    }
    return {{selected(table, first, s), selected(table, first >> 4, s), selected(table, second, t),
             selected(table, second >> 4, t)}};
  }
};

struct extended_products : int8_products<> {
  static selected_codes table(const gemm_job& job) { return selected_codes(job.right.q.format); }
  using decoder = selecting_decoder;
  static void read_scales(const quantized_source& q, std::size_t row, std::size_t live, std::size_t block,
                          std::size_t count, float* out, selected_codes& codes) {
    stored_dwords_of(q, row, live, block, count, codes.staged, codes.stored);
    decode_stored(q.format, codes.stored, count, out, codes.selects ? codes.bits : nullptr);
    multiply_by_outer(q, row, live, block, count, out);
  }
};

struct extended_gemm : int8_gemm<> {
  using panel = column_panel<extended_products>;

  static bool takes(const gemm_job& job) {
    const auto suits = [](const gemm_operand& side) {
      const column_groups group = side.q.format.block.group;
      const features parts = parts_of(side.q.format);
      if (!side.is_quantized || has(parts, features::byte_float)) return false;
      if (has(parts, features::byte_element) && has(parts, features::further_parts)) return false;
      return (group.wide == 0 || (group.wide >= 2 && group.narrow != 1));
    };
    if (!suits(job.left) || !suits(job.right) || job.mode == accumulate::folded_bf16) return false;
    if (!has(parts_of(job.left.q.format) | parts_of(job.right.q.format), features::further_parts)) return false;
    if (job.block % 16 != 0 || !integers_fit_bytes(job)) return false;
    const int most = integers_of(job.left.q.format).amax() * integers_of(job.right.q.format).amax();
    return most <= (1 << 22) / static_cast<int>(job.block);  // magic_bits
  }

  /// 16 k of a row of 4-bit elements as left_bytes_of gives them, from the bits of their block and a selected_table.
  static i8x16 selected_bytes(const quantized_source& q, u8 table, std::uint32_t bits, std::size_t row, std::size_t k,
                              bool in_order) {
    std::uint64_t words[2];
    const int first = static_cast<int>(k % static_cast<std::size_t>(q.format.block.cols) / 8);
    for (int w = 0; w < 2; ++w) {
      std::uint32_t codes;
      __builtin_memcpy(&codes, q.codes + q.code_index(row, k + 8 * static_cast<std::size_t>(w)), 4);
      const std::uint64_t both = codes | std::uint64_t{codes >> 4} << 32, s = selector_of(q.format, bits, first + w);
      words[w] = (both & 0x0F0F0F0F0F0F0F0Fu) | s | s << 32;
    }
    const u8 bytes = low(table, broadcast_16(words));
    i8x16 result;
    __builtin_memcpy(&result, &bytes, sizeof result);
    return in_order ? pick_bytes(result, i8x16{0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15}) : result;
  }
  static void pack_row(const gemm_job& job, std::size_t row, std::size_t r, std::size_t live, std::byte* out) {
    const quantized_source& q = job.left.q;
    if (!has(parts_of(q.format), features::further_parts)) return int8_gemm<>::pack_row(job, row, r, live, out);
    const u8 table = selected_table(q.format, false);
    const auto offset = static_cast<std::uint8_t>(-integers_of(job.right.q.format).low);
    const std::uint32_t magic = magic_bits(job);
    for (std::size_t b = 0; b < job.padded() / job.block; ++b, out += record(job, live)) {
      const std::uint32_t bits = load_block(q.scales, q.format, q.scale_index(row, b));
      const float scale = scale_at(q, row, b, 1.0f);
      std::uint32_t start = magic;
      for (std::size_t k = 0; k < job.block; k += 16) {
        const i8x16 bytes = selected_bytes(q, table, bits, row, b * job.block + k, job.right.has_bytes());
        avx512::store(out + live * 8 + k * live + r * 16, bytes);
        start -= weighted_sum(offset, bytes);
      }
      __builtin_memcpy(out + r * 4, &start, 4);
      __builtin_memcpy(out + live * 4 + r * 4, &scale, 4);
    }
  }
};

template <features needs = features::all>
inline constexpr gemm_kernel gemm_extended_kernel = kernel_of<streamed_gemm<extended_gemm>, needs>(
    isa::avx512, "gemm_extended_avx512", 4, 512, 256, accumulate::exact_blocks,
    features::byte_element | features::further_parts);
UFP4_END_REGION
