// ufp4 - gemm_blocks_sm80: quantized_gemm, exact_blocks, on the tensor cores of compute capability 8.0 and above.
// SPDX-License-Identifier: Apache-2.0
//
// The values of the grids are small integers times a power of two, so the dot product of a block is a sum of products
// of signed bytes, which mma.sync computes exactly: m16n8k16 for blocks of 16, a chain of m16n8k32 for longer ones. The
// integer sum starts at the bits of the float 1.5 * 2^23 * unit. The result is then the bits of that float plus the dot
// product, and one exact subtraction gives the dot product as a float (derivation: cpu/kernels/gemm/gemm_integers.hpp).
// Then acc = fma(d, fl(sA sB), acc), in block order: the host's bits.
//
// For 16 x 8 of C and a block of 16 a warp issues one mma and 12 ordinary instructions, which limit the kernel:
//
// | codes  | stay packed until they are in registers: cp.async copies 16 bytes for each thread to shared memory,     |
// |        | three stages deep; 11 integer instructions decode eight codes to two registers of bytes                 |
// |        | (thread/decode.hpp), which four mma use                                                                 |
// | order  | the order along K within a block is free if both sides agree, so a lane takes codes that are contiguous |
// | banks  | a row of the tile is 16 bytes longer than its codes: eight rows, read at once, are in different banks   |
// | scales | are loaded to registers a step ahead, and decoded to floats once for each tile                          |
#pragma once

#include <ufp4/cuda/memory_sm80.hpp>
#include <ufp4/cuda/mma_sm80.hpp>
#include <ufp4/gpu/kernels/product_group.hpp>

namespace ufp4::gpu::kernels::inline UFP4_GPU {

/// The parameter of the kernel: at most 4096 bytes on compute capability 8.
struct dots_job : product_group {
  thread::byte_table table[2]{};
  std::uint32_t magic = 0;  ///< dot_magic
  bool copies16 = false;    ///< all rows of codes are aligned to 16 bytes; else to 4
};
static_assert(sizeof(dots_job) <= 4096);

/// A tile of C: a grid of warps, each of which computes down x across parts of 16 x 8.
template <unsigned warps_down_, unsigned warps_across_, unsigned down_, unsigned across_>
struct dots_tile {
  static constexpr unsigned warps_across = warps_across_, down = down_, across = across_;
  static constexpr unsigned rows = warps_down_ * down * 16, cols = warps_across * across * 8;
  static constexpr unsigned lines = rows + cols;  ///< rows of both operands in shared memory
  static constexpr unsigned threads = 32 * warps_down_ * warps_across;
  static_assert(lines <= threads, "a thread loads the scales of one row");
};
using dots_wide = dots_tile<2, 4, 4, 4>;    // 128 x 128, 256 threads
using dots_narrow = dots_tile<1, 4, 2, 2>;  // 32 x 64, 128 threads

/// How K is divided. A step is copied to shared memory at once: 64 columns, or one block if that is longer.
///
/// | kind  | blocks of     | a step has | mma of a block |
/// |-------|---------------|------------|----------------|
/// | 16    | 16            | 4 blocks   | one k16        |
/// | 32    | 32            | 2 blocks   | one k32        |
/// | 64    | 64, 128, 256  | 1 block    | 2, 4, 8 k32    |
template <unsigned kind>
struct dots_step {
  static constexpr unsigned blocks = 64 / kind;
  UFP4_DEVICE static unsigned depth(const dots_job& job) { return kind == 64 ? job.block : 64; }
  UFP4_DEVICE static unsigned stride(const dots_job& job) { return depth(job) / 2 + 16; }
};
inline constexpr unsigned code_stages = 3;
inline constexpr std::size_t dots_shared_bytes(unsigned lines, unsigned block) {
  const unsigned depth = block < 64 ? 64 : block;
  return std::size_t{lines} * (code_stages * (depth / 2 + 16) + 2 * sizeof(float) * (depth / block));
}

template <class Tile, unsigned kind>
struct dots_worker {
  using step = dots_step<kind>;
  const dots_job& job;
  const grouped_product& product;
  unsigned row, col;  ///< of C: the first of the tile
  unsigned char* codes;
  float* scales;

  UFP4_DEVICE unsigned char* stage(unsigned s) const {
    return codes + s % code_stages * Tile::lines * step::stride(job);
  }
  UFP4_DEVICE float* scale_stage(unsigned s) const { return scales + s % 2 * step::blocks * Tile::lines; }
  UFP4_DEVICE unsigned steps() const { return (product.padded + step::depth(job) - 1) / step::depth(job); }
  UFP4_DEVICE unsigned blocks() const { return product.padded / job.block; }

  struct place {
    unsigned side, row;
    bool there;
  };
  UFP4_DEVICE place place_of(unsigned line) const {
    const unsigned side = line < Tile::rows ? 0 : 1, at = side == 0 ? row + line : col + line - Tile::rows;
    return {side, at, at < product.rows[side]};
  }

  template <unsigned bytes>
  UFP4_DEVICE void copy_codes(unsigned s) const {
    const unsigned of_row = step::depth(job) / 2 / bytes, row_bytes = product.padded / 2;
    for (unsigned i = thread_index().x; i < Tile::lines * of_row; i += Tile::threads) {
      const unsigned line = i / of_row, within = i % of_row * bytes, at = s * step::depth(job) / 2 + within;
      const place p = place_of(line);
      const bool valid = p.there && at < row_bytes;
      const std::uint8_t* from = product.codes[p.side];
      if (valid) from += std::size_t{p.row} * row_bytes + at;
      unsigned char* to = stage(s) + line * step::stride(job) + within;
      if constexpr (bytes == 16)
        mma::copy_async16(to, from, valid);
      else
        mma::copy_async4(to, from, valid);
    }
  }
  UFP4_DEVICE void copy_codes(unsigned s) const {
    if (s < steps()) {
      if (job.copies16)
        copy_codes<16>(s);
      else
        copy_codes<4>(s);
    }
    mma::commit_copies();
  }

  UFP4_DEVICE void load_scales(unsigned s, std::uint32_t (&raw)[step::blocks]) const {
    const place p = place_of(thread_index().x < Tile::lines ? thread_index().x : 0);
    const std::size_t first = std::size_t{p.row / job.block_rows[p.side]} * blocks();
    UFP4_UNROLL
    for (unsigned i = 0; i < step::blocks; ++i) {
      const unsigned b = s * step::blocks + i;
      raw[i] = p.there && b < blocks() ? thread::load_scale(product.scales[p.side], job.scale[p.side], first + b) : 0;
    }
  }
  /// Stores them as floats. Outside K the codes are 0 and the product of the scales is -0, so fma(+0, -0, acc) is acc.
  UFP4_DEVICE void store_scales(unsigned s, const std::uint32_t (&raw)[step::blocks]) const {
    if (thread_index().x >= Tile::lines) return;
    const unsigned side = thread_index().x < Tile::rows ? 0 : 1;
    UFP4_UNROLL
    for (unsigned i = 0; i < step::blocks; ++i) {
      const float beyond = side == 0 ? -0.0f : 0.0f;
      scale_stage(s)[i * Tile::lines + thread_index().x] =
          s * step::blocks + i < blocks() ? thread::scale_value(job.scale[side], raw[i]) : beyond;
    }
  }

  // The place of a lane in the fragments of mma.sync: see cuda/mma_sm80.hpp.
  UFP4_DEVICE unsigned g() const { return lane() / 4; }
  UFP4_DEVICE unsigned t() const { return lane() % 4; }
  UFP4_DEVICE unsigned warp() const { return thread_index().x / 32; }
  UFP4_DEVICE unsigned first_row() const { return warp() / Tile::warps_across * Tile::down * 16; }
  UFP4_DEVICE unsigned first_col() const { return warp() % Tile::warps_across * Tile::across * 8; }

  /// Eight codes of a line of stage s as bytes, of the 32 columns from 32 b on; k16: four of either block.
  UFP4_DEVICE void fragment(unsigned s, unsigned side, unsigned line, unsigned b, std::uint32_t (&bytes)[2]) const {
    const unsigned char* from = stage(s) + line * step::stride(job);
    std::uint32_t word;
    if constexpr (kind == 16) {
      const auto* half = reinterpret_cast<const std::uint16_t*>(from) + 8 * b + t();
      word = half[0] | std::uint32_t{half[4]} << 16;
    } else {
      word = reinterpret_cast<const std::uint32_t*>(from)[4 * b + t()];
    }
    thread::decode8_s8(job.table[side], word, bytes);
  }

  struct sums {
    float acc[Tile::down][Tile::across][4] = {};
  };
  UFP4_DEVICE void left_scales(unsigned s, unsigned b, unsigned i, float (&out)[2]) const {
    const float* from = scale_stage(s) + b * Tile::lines + first_row() + 16 * i + g();
    out[0] = from[0];
    out[1] = from[8];
  }
  UFP4_DEVICE void right_scales(unsigned s, unsigned b, float (&out)[Tile::across][2]) const {
    const float* from = scale_stage(s) + b * Tile::lines + Tile::rows + first_col() + 2 * t();
    UFP4_UNROLL
    for (unsigned j = 0; j < Tile::across; ++j) {
      out[j][0] = from[8 * j];
      out[j][1] = from[8 * j + 1];
    }
  }

  UFP4_DEVICE void start(std::int32_t (&d)[4]) const {
    UFP4_UNROLL
    for (std::int32_t& one : d) one = static_cast<std::int32_t>(job.magic);
  }
  /// acc = fma(d, fl(sA sB), acc) for a lane's four sums of a 16 x 8 part.
  UFP4_DEVICE void finish(const std::int32_t (&d)[4], const float (&a)[2], const float (&b)[2], float (&acc)[4]) const {
    UFP4_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      const float dot = to_float(static_cast<std::uint32_t>(d[i])) - to_float(job.magic);
      acc[i] = fma(dot, a[i / 2] * b[i % 2], acc[i]);
    }
  }

  UFP4_DEVICE void right_fragments(unsigned s, unsigned b, std::uint32_t (&out)[Tile::across][2]) const {
    UFP4_UNROLL
    for (unsigned j = 0; j < Tile::across; ++j) fragment(s, 1, Tile::rows + first_col() + 8 * j + g(), b, out[j]);
  }

  /// The fragments of 32 columns: registers 0 and 2 are row g, 1 and 3 row g + 8.
  UFP4_DEVICE void left_fragments(unsigned s, unsigned i, unsigned b, std::uint32_t (&a)[4]) const {
    UFP4_UNROLL
    for (unsigned h = 0; h < 2; ++h) {
      std::uint32_t bytes[2];
      fragment(s, 0, first_row() + 16 * i + 8 * h + g(), b, bytes);
      a[h] = bytes[0];
      a[h + 2] = bytes[1];
    }
  }

  UFP4_DEVICE void multiply_short(unsigned s, sums& to) const {
    constexpr unsigned together = 32 / kind;
    UFP4_UNROLL
    for (unsigned p = 0; p < 2; ++p) {
      std::uint32_t b[Tile::across][2];
      float by_b[together][Tile::across][2];
      right_fragments(s, p, b);
      UFP4_UNROLL
      for (unsigned h = 0; h < together; ++h) right_scales(s, together * p + h, by_b[h]);
      UFP4_UNROLL
      for (unsigned i = 0; i < Tile::down; ++i) {
        std::uint32_t a[4];
        left_fragments(s, i, p, a);
        UFP4_UNROLL
        for (unsigned h = 0; h < together; ++h) {
          float by_a[2];
          left_scales(s, together * p + h, i, by_a);
          UFP4_UNROLL
          for (unsigned j = 0; j < Tile::across; ++j) {
            std::int32_t d[4];
            start(d);
            if constexpr (kind == 16)
              mma::mma_s8_k16(d, {a[2 * h], a[2 * h + 1]}, b[j][h]);
            else
              mma::mma_s8_k32(d, a, b[j]);
            finish(d, by_a, by_b[h][j], to.acc[i][j]);
          }
        }
      }
    }
  }

  /// The sums of a long block are kept for 16 rows at a time, to save registers.
  UFP4_DEVICE void multiply_chain(unsigned s, sums& to) const {
    float by_b[Tile::across][2];
    right_scales(s, 0, by_b);
    UFP4_UNROLL
    for (unsigned i = 0; i < Tile::down; ++i) {
      std::int32_t d[Tile::across][4];
      UFP4_UNROLL
      for (auto& one : d) start(one);
      for (unsigned q = 0; q < job.block / 32; ++q) {
        std::uint32_t a[4], b[Tile::across][2];
        left_fragments(s, i, q, a);
        right_fragments(s, q, b);
        UFP4_UNROLL
        for (unsigned j = 0; j < Tile::across; ++j) mma::mma_s8_k32(d[j], a, b[j]);
      }
      float by_a[2];
      left_scales(s, 0, i, by_a);
      UFP4_UNROLL
      for (unsigned j = 0; j < Tile::across; ++j) finish(d[j], by_a, by_b[j], to.acc[i][j]);
    }
  }

  /// The loop over K, with one barrier for each step: after it no thread reads the stage that is written next.
  UFP4_DEVICE void run(sums& to) const {
    copy_codes(0);
    copy_codes(1);
    std::uint32_t raw[step::blocks];
    load_scales(0, raw);
    for (unsigned s = 0; s < steps(); ++s) {
      store_scales(s, raw);
      mma::wait_copies<1>();
      sync_block();
      copy_codes(s + 2);
      load_scales(s + 1, raw);
      if constexpr (kind == 64)
        multiply_chain(s, to);
      else
        multiply_short(s, to);
    }
  }

  UFP4_DEVICE void store(const sums& from) const {
    constexpr unsigned of_row = 4 * Tile::across;
    const thread::epilogue to = epilogue_of(job, product);
    thread::store_sums<Tile::down * of_row>(
        to, [&](unsigned n) { return from.acc[n / of_row][n / 4 % Tile::across][n % 4]; },
        [&](unsigned n) {
          return thread::element_place{row + first_row() + n / of_row * 16 + n / 2 % 2 * 8 + g(),
                                       col + first_col() + n / 4 % Tile::across * 8 + 2 * t() + n % 2};
        },
        [&](std::size_t i, std::size_t j) { return recomputed(job, product, to.by, i, j); });
  }
};

template <class Tile, unsigned kind>
UFP4_KERNEL(Tile::threads)
multiply_dots(UFP4_PARAMETER dots_job job) {
  const grouped_product& product = job.product[product_of(job, block_index().x)];
  const unsigned tile = block_index().x - product.first_tile, down = (product.rows[0] + Tile::rows - 1) / Tile::rows;
  const std::size_t code_bytes = std::size_t{code_stages} * Tile::lines * dots_step<kind>::stride(job);
  const dots_worker<Tile, kind> worker{job,
                                       product,
                                       tile % down * Tile::rows,
                                       tile / down * Tile::cols,
                                       shared_memory(),
                                       reinterpret_cast<float*>(shared_memory() + code_bytes)};
  typename dots_worker<Tile, kind>::sums sums;
  worker.run(sums);
  worker.store(sums);
}

/// The start of block dot products: the bits of 1.5 * 2^23 * unit.
inline std::uint32_t dot_magic(const gemm_job& job) {
  return static_cast<std::uint32_t>(dot_exponent(job) + 23 + 127) << 23 | 0x00400000u;
}

/// Are both grids' integers signed bytes, code 0 zero, and block dot products below 2^22 and, times the units, floats?
constexpr bool byte_dots_are_exact(const gemm_job& job) {
  return exact_dots_below(job, 1 << 22) && integer_amax(job.left.grid) <= 127 && integer_amax(job.right.grid) <= 127 &&
         job.left.grid.integer[0] == 0 && job.right.grid.integer[0] == 0;
}

inline bool takes_dots(const gemm_job& job, const device_facts& device) {
  return device.has(80) && job.mode != accumulate::folded_bf16 && job.block >= 16 && byte_dots_are_exact(job) &&
         is_aligned(job.left.codes, 4) && is_aligned(job.right.codes, 4) && counts_in_32_bits(job);
}
/// Does a product have a large tile for every multiprocessor? The stages of blocks of 256 do not fit in shared memory.
inline bool fills_device(const gemm_job& job, const device_facts& device) {
  using tile = dots_wide;
  return tiles_of(job, tile::rows, tile::cols) >= static_cast<std::size_t>(device.processors) &&
         dots_shared_bytes(tile::lines, job.block) <= device.shared_bytes && job.block < 256;
}

template <class Product, class Tile>
error run_dots(std::span<const gemm_job> jobs, const device_facts&, stream where) {
  while (!jobs.empty()) {
    const gemm_job& first = jobs.front();
    dots_job job{{}, {thread::s8_table_of(first.left.grid), thread::s8_table_of(first.right.grid)}, dot_magic(first)};
    const unsigned tiles = take_products(job, jobs, Tile::rows, Tile::cols);
    job.copies16 = true;
    for (const grouped_product& p : std::span(job.product).first(job.count))
      job.copies16 = job.copies16 && p.padded % 32 == 0 && is_aligned(p.codes[0], 16) && is_aligned(p.codes[1], 16);
    const auto queue = [&](const auto& kernel) {
      return launch(kernel, {tiles}, {Tile::threads}, dots_shared_bytes(Tile::lines, job.block), where, job);
    };
    error e = not_supported;
    if constexpr (Product::may([](const gemm_job& p) { return has_length<16>(p) && byte_dots_are_exact(p); }))
      if (job.block == 16) e = queue(listed<&multiply_dots<Tile, 16>>);
    if constexpr (Product::may([](const gemm_job& p) { return has_length<32>(p) && byte_dots_are_exact(p); }))
      if (job.block == 32) e = queue(listed<&multiply_dots<Tile, 32>>);
    if constexpr (Product::may([](const gemm_job& p) { return p.block > 32 && byte_dots_are_exact(p); }))
      if (job.block > 32) e = queue(listed<&multiply_dots<Tile, 64>>);
    if (e != success) return e;
  }
  return success;
}

template <class Product, class Tile, bool large>
constexpr gemm_kernel make_dots_kernel(const char* name) {
  return {
      .name = name,
      .instruction = "mma.sync.s8",
      .tile_rows = Tile::rows,
      .tile_cols = Tile::cols,
      .takes =
          [](const gemm_job& job, const device_facts& device) {
            return takes_dots(job, device) && (!large || fills_device(job, device));
          },
      .run = [](const gemm_job& job, const device_facts& device, std::span<std::byte>,
                stream where) { return run_dots<Product, Tile>({&job, 1}, device, where); },
      .fast_is = accumulate::exact_blocks,
      .run_group = &run_dots<Product, Tile>,
  };
}

template <class Product = any_product>
inline constexpr gemm_kernel gemm_blocks_sm80 = make_dots_kernel<Product, dots_wide, true>("gemm_blocks_sm80");
template <class Product = any_product>
inline constexpr gemm_kernel gemm_blocks_small_sm80 =
    make_dots_kernel<Product, dots_narrow, false>("gemm_blocks_small_sm80");

}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
