// ufp4 - fast GEMM with the block-scaled MFMA of gfx950, which takes 4-bit codes and e8m0 scales as they are stored.
// SPDX-License-Identifier: Apache-2.0
//
// | kernel                     | elements                          | v_mfma_scale_f32_16x16x128_f8f6f4 of |
// |----------------------------|-----------------------------------|--------------------------------------|
// | gemm_mxfp4_gfx950          | E2M1                              | e2m1 x e2m1, the codes themselves    |
// | gemm_mx_containers_gfx950  | any pair of grids that E4M3 holds | e4m3 x e4m3 (thread/decode.hpp)      |
//
// Every instruction's sum starts from zero, and a binary32 addition outside the instruction adds it to the running sum,
// because how many bits the unit keeps is not reported (docs/gpu.md, the bound of `fast`). A lane has four sums of an
// instruction: two packed additions, executed while the matrix unit works on the next one.
//
// A thread block of four waves computes 128 x 128 of C, each wave 64 x 64: 16 MFMAs for 8 fragments from shared memory,
// without bank conflicts. Device memory is read 16 bytes a lane, one step ahead. A container is computed once, before
// it is stored in shared memory, in less than two instructions a code. Predicted rates: docs/gpu.md.
#pragma once

#include <ufp4/hip/matrix_tile.hpp>
#include <ufp4/hip/mfma_scale_gfx950.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

inline constexpr unsigned scaled_tile = 128;     ///< rows and columns of C, one thread block's
inline constexpr unsigned scaled_depth = 128;    ///< elements of K in a step: one instruction's
inline constexpr unsigned scaled_threads = 256;  ///< 4 waves of 64, 2 x 2, of 64 x 64 of C each

struct scaled_shape {
  static constexpr unsigned rows = scaled_tile, cols = scaled_tile;
};

struct scaled_job : product_group {
  thread::container_table tables[2]{};  ///< containers by code, left and right
};
static_assert(sizeof(scaled_job) <= 4096);

/// Lines of 128 elements in shared memory, and the steps that are there at once. place(line, p): the offset of a part
/// of 16 bytes, such that 8 neighbouring lines, which 8 lanes read at once, are in different banks.
struct code_lines {
  using op = mma::mfma_scale_gfx950<mma::f8f6f4::e2m1, mma::f8f6f4::e2m1>;
  static constexpr unsigned bytes = 64, steps = 2;
  UFP4_DEVICE static unsigned place(unsigned line, unsigned p) { return line * bytes + 16 * (p ^ (line / 2 & 3u)); }
};
struct container_lines {
  using op = mma::mfma_scale_gfx950<mma::f8f6f4::e4m3, mma::f8f6f4::e4m3>;
  static constexpr unsigned bytes = 128, steps = 1;  // two would need more than the 64 KiB that every runtime allows
  UFP4_DEVICE static unsigned place(unsigned line, unsigned p) { return line * bytes + 16 * (p ^ (line & 7u)); }
};

/// A step: 128 rows of A, 128 of B, then 4 scales of each.
template <class Lines>
inline constexpr unsigned scaled_step_bytes = 2 * scaled_tile * (Lines::bytes + 4);

static_assert(64 * 64 * 4 <= scaled_step_bytes<code_lines>, "sixteen rows of every wave's sums");

template <class T>
UFP4_DEVICE T load_unaligned(const void* from) {
  T v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

template <class Lines>
struct scaled_worker {
  using op = typename Lines::op;
  using part = thread::words4;
  static constexpr unsigned words = op::words_a;
  static constexpr unsigned parts = scaled_depth / 32;                        ///< of 16 bytes, in the codes of a line
  static constexpr unsigned mine = 2 * scaled_tile * parts / scaled_threads;  ///< those that a thread loads
  static_assert(scaled_depth == op::depth && scaled_threads == 2 * scaled_tile && words == op::words_b);
  const scaled_job& job;
  const grouped_product& product;
  tile_place place;  ///< in C

  /// A thread's share of a step, in registers during the previous one: codes, and the scales of line thread_index().x.
  struct cargo {
    part codes[mine];
    std::uint32_t scales;
  };
  struct sums {
    float tile[4][4][op::sums] = {};
  };

  UFP4_DEVICE unsigned char* lines(std::size_t s) const {
    return shared_memory() + s % Lines::steps * scaled_step_bytes<Lines>;
  }
  UFP4_DEVICE unsigned char* scales(std::size_t s) const { return lines(s) + 2 * scaled_tile * Lines::bytes; }

  /// The addresses of a thread's share of the operands; beyond the last row, the last row. Codes need no alignment:
  /// AMD's global loads of several words take any address (the HSA ABI sets the unaligned access mode).
  struct source {
    const std::uint8_t* codes[mine];
    const std::uint8_t* scales;
    std::size_t row_bytes, blocks;
  };
  /// The line of the tile that has part i of a thread: those of the left operand, then those of the right one.
  UFP4_DEVICE static unsigned line_of_part(unsigned i) { return (i * scaled_threads + thread_index().x) / parts; }
  UFP4_DEVICE unsigned row_of(unsigned side, unsigned line) const {
    const unsigned row = (side == 0 ? place.row : place.col) + line % scaled_tile, last = product.rows[side] - 1;
    return row < last ? row : last;
  }
  UFP4_DEVICE source source_of() const {
    source s;
    s.row_bytes = product.padded / 2, s.blocks = product.padded / op::block;
    UFP4_UNROLL
    for (unsigned i = 0; i < mine; ++i) {
      const unsigned side = 2 * i / mine;
      s.codes[i] =
          product.codes[side] + row_of(side, line_of_part(i)) * s.row_bytes + thread_index().x % parts * sizeof(part);
    }
    const unsigned side = thread_index().x / scaled_tile;
    s.scales = static_cast<const std::uint8_t*>(product.scales[side]) +
               row_of(side, thread_index().x) / job.block_rows[side] * s.blocks;
    return s;
  }

  /// Behind the end of a row, which only the last step reaches, codes are 0 and scales 2^-127. Others do not branch.
  UFP4_DEVICE static void load(const source& from, std::size_t s, cargo& to) {
    constexpr unsigned bytes = scaled_depth / 2;
    const std::size_t at = s * bytes, first = s * (scaled_depth / op::block);
    if (at + bytes <= from.row_bytes) {
      UFP4_UNROLL
      for (unsigned i = 0; i < mine; ++i) to.codes[i] = load_unaligned<part>(from.codes[i] + at);
      to.scales = load_unaligned<std::uint32_t>(from.scales + first);
      return;
    }
    const bool inside = at + thread_index().x % parts * sizeof(part) < from.row_bytes;
    UFP4_UNROLL
    for (unsigned i = 0; i < mine; ++i) to.codes[i] = inside ? load_unaligned<part>(from.codes[i] + at) : part{};
    to.scales = 0;
    UFP4_UNROLL
    for (unsigned b = 0; b < 3; ++b)
      if (first + b < from.blocks) to.scales |= std::uint32_t{from.scales[first + b]} << (8 * b);
  }

  /// Containers of half a part's codes; of each word the even codes first: the same order along K for both operands.
  UFP4_DEVICE static part containers_of(const thread::container_table& table, const part& codes, unsigned half) {
    part containers;
    UFP4_UNROLL
    for (unsigned w = 0; w < 4; ++w)
      containers.word[w] = thread::select_four(table, codes.word[2 * half + w / 2] >> 4 * (w % 2));
    return containers;
  }
  UFP4_DEVICE static void put_part(unsigned char* step, unsigned line, unsigned p, const thread::container_table& table,
                                   const part& codes) {
    if constexpr (words == 4) {
      (void)table;
      *reinterpret_cast<part*>(step + Lines::place(line, p)) = codes;
    } else {
      UFP4_UNROLL
      for (unsigned half = 0; half < 2; ++half)
        *reinterpret_cast<part*>(step + Lines::place(line, 2 * p + half)) = containers_of(table, codes, half);
    }
  }
  UFP4_DEVICE void put(std::size_t s, const cargo& from) const {
    UFP4_UNROLL
    for (unsigned i = 0; i < mine; ++i)
      put_part(lines(s), line_of_part(i), thread_index().x % parts, job.tables[2 * i / mine], from.codes[i]);
    reinterpret_cast<std::uint32_t*>(scales(s))[thread_index().x] = from.scales;
  }

  UFP4_DEVICE static unsigned wave_row() { return thread_index().x / op::wave / 2 * 64; }
  UFP4_DEVICE static unsigned wave_col() { return thread_index().x / op::wave % 2 * 64; }

  /// A lane's elements of the 16 lines from `line` on, and their scale.
  struct fragment {
    std::uint32_t element[words];
    std::uint32_t scale;
  };
  UFP4_DEVICE fragment fragment_of(std::size_t s, unsigned line) const {
    constexpr unsigned elements_of_part = 128 / words;  // of 16 bytes; words are bits an element
    fragment f;
    line += lane() % 16;
    UFP4_UNROLL
    for (unsigned w = 0; w < words; w += 4) {
      const unsigned column = op::first_column(lane(), w / 4);
      const part p = *reinterpret_cast<const part*>(lines(s) + Lines::place(line, column / elements_of_part));
      UFP4_UNROLL
      for (unsigned i = 0; i < 4; ++i) f.element[w + i] = p.word[i];
    }
    f.scale = scales(s)[4 * line + op::block_of_scale(lane())];
    return f;
  }

  UFP4_DEVICE void multiply(std::size_t s, sums& to) const {
    fragment b[4];
    UFP4_UNROLL
    for (unsigned n = 0; n < 4; ++n) b[n] = fragment_of(s, scaled_tile + wave_col() + 16 * n);
    UFP4_UNROLL
    for (unsigned m = 0; m < 4; ++m) {
      const fragment a = fragment_of(s, wave_row() + 16 * m);
      UFP4_UNROLL
      for (unsigned n = 0; n < 4; ++n) {
        float four_blocks[op::sums] = {};
        op::multiply(four_blocks, a.element, b[n].element, a.scale, b[n].scale);
        UFP4_UNROLL
        for (unsigned i = 0; i < op::sums; ++i) to.tile[m][n][i] = to.tile[m][n][i] + four_blocks[i];
      }
    }
  }

  UFP4_DEVICE void run(sums& to) const {
    const std::size_t steps = (product.padded + scaled_depth - 1) / scaled_depth;
    if (steps == 0) return;  // all threads agree
    const source from = source_of();
    cargo next;
    load(from, 0, next);
    put(0, next);
    sync_block();
    for (std::size_t s = 0; s < steps; ++s) {
      if (s + 1 < steps) load(from, s + 1, next);
      multiply(s, to);
      if constexpr (Lines::steps == 1) sync_block();  // all threads have read the elements that put overwrites
      if (s + 1 < steps) put(s + 1, next);
      sync_block();
    }
  }

  UFP4_DEVICE void store(const sums& from) const {
    store_waves<op>(job, product, thread_index().x / op::wave, {place.row + wave_row(), place.col + wave_col()},
                    from.tile);
  }
};

template <class Lines>
UFP4_KERNEL(scaled_threads)
scaled_tiles(const scaled_job job) {
  if constexpr (Lines::op::compiled) {
    const grouped_product& product = job.product[product_of(job, block_index().x)];
    const scaled_worker<Lines> worker{job, product,
                                      place_of_tile<scaled_shape>(product, block_index().x - product.first_tile)};
    typename scaled_worker<Lines>::sums sums;
    worker.run(sums);
    worker.store(sums);
  } else {
    __builtin_trap();  // never launched: the table does not choose this kernel for this device
  }
}

template <class Lines>
constexpr bool has_scaled_blocks(const gemm_job& job) {
  using op = typename Lines::op;
  const auto holds = [](const grid4& grid) {
    return grid.exact_products && (op::words_a == 4 ? is_e2m1(grid) : thread::fits_containers(grid));
  };
  return has_blocks(job, op::block, scale_kind::e8m0, holds);
}
template <class Lines>
bool scaled_takes(const gemm_job& job, const device_facts& device) {
  return has_instructions<typename Lines::op>(device) && job.mode == accumulate::fast &&
         has_scaled_blocks<Lines>(job) && counts_in_32_bits(job) &&
         device.shared_bytes >= Lines::steps * scaled_step_bytes<Lines>;
}

template <class Lines, class Product>
error run_scaled(std::span<const gemm_job> jobs, const device_facts&, stream where) {
  const auto make_job = [](const gemm_job& job) {
    return scaled_job{{}, {thread::container_table_of(job.left.grid), thread::container_table_of(job.right.grid)}};
  };
  if constexpr (Product::may(&has_scaled_blocks<Lines>))
    return run_matrix_tiles(jobs, scaled_tile, Lines::steps * scaled_step_bytes<Lines>, where, make_job,
                            [](bool, const scaled_job&) { return listed<&scaled_tiles<Lines>>; });
  return not_supported;
}

template <class Lines, class Product>
constexpr gemm_kernel scaled_kernel(const char* name) {
  return matrix_kernel<&run_scaled<Lines, Product>>(name, Lines::op::instruction, &scaled_takes<Lines>, nullptr);
}

template <class Product = any_product>
inline constexpr gemm_kernel gemm_mxfp4_gfx950 = scaled_kernel<code_lines, Product>("gemm_mxfp4_gfx950");
template <class Product = any_product>
inline constexpr gemm_kernel gemm_mx_containers_gfx950 =
    scaled_kernel<container_lines, Product>("gemm_mx_containers_gfx950");

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
