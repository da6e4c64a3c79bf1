// ufp4 - gemm_job: a product as the GPU's kernels take it; gemm_kernel: a kernel, and how quantized_gemm chooses one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/block/presets.hpp>
#include <ufp4/gpu/status.hpp>
#include <ufp4/gpu/tuning.hpp>
#include <ufp4/matrix/job.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

/// One operand of a product: canonical codes and scales, or an unquantized matrix. Pointers are to device memory.
struct gemm_side {
  bool is_quantized = true;                         ///< false for an unquantized matrix
  const std::uint8_t* codes = nullptr;              ///< or the unquantized elements
  const void* scales = nullptr;                     ///< block scales, in the type `scale`
  const float* tensor_scale = nullptr;              ///< null: 1
  grid4 grid{};                                     ///< the element format
  scale_kind scale = scale_kind::f32;               ///< the type of the block scales
  unsigned block_rows = 1;                          ///< rows that share a scale
  std::size_t rows = 0, cols = 0, padded_cols = 0;  ///< of the operand
  detail::source unquantized{};                     ///< if not quantized: the matrix, without the transform
  bool rounds_unquantized_to_bf16 = false;          ///< its elements are first rounded to nearest even: the bf16 recipe
  transform_spec transform{};                       ///< of an unquantized operand
  const format_spec* extended = nullptr;            ///< in host memory: a format that kernels for any format decode

  /// Are the values of the grid small integers times a power of two?
  UFP4_HD constexpr bool exact() const { return is_quantized && grid.exact_products; }
};

/// C = alpha * left * right^T + bias + beta * C: the parameter of a kernel.
struct gemm_job {
  gemm_side left{}, right{};           ///< the operands
  detail::sink out{};                  ///< C
  unsigned block = 16;                 ///< length along K of a block of either side
  float alpha = 1, beta = 0;           ///< as in gemm_options
  accumulate mode = accumulate::fast;  ///< as in gemm_options
  const float* bias = nullptr;         ///< one float for each column of C, or null
  bool in_binary64 = false;            ///< needs_binary64; set by the kernel that adds up in binary64

  UFP4_HD std::size_t padded() const { return left.padded_cols; }          ///< the padded length of K
  UFP4_HD std::size_t blocks() const { return left.padded_cols / block; }  ///< blocks along K
};

/// The part of C that one thread block computes.
struct tile_shape {
  unsigned rows, cols;  ///< of C
};

/// One way to multiply. A job runs on the first kernel of the vendor's table, gemm_kernels(), that takes it.
struct gemm_kernel {
  const char* name = "";         ///< as explain() reports it
  const char* instruction = "";  ///< the machine instruction that multiplies: "fma", "mma.sync.m16n8k32.s8", ...
  unsigned tile_rows = 1, tile_cols = 1;  ///< the part of C that one thread block computes
  /// Can this program's code run the job on this device? Reads no data.
  bool (*takes)(const gemm_job&, const device_facts&) = nullptr;
  /// Queues the kernel.
  error (*run)(const gemm_job&, const device_facts&, std::span<std::byte> workspace, stream) = nullptr;
  /// Bytes of device memory that `run` needs.
  std::size_t (*workspace)(const gemm_job&, const device_facts&) = [](const gemm_job&, const device_facts&) {
    return std::size_t{0};
  };
  /// exact_blocks if `fast` gives the bits of exact_blocks wherever those are finite.
  accumulate fast_is = accumulate::fast;
  /// Whether it takes extended formats (kernels/decode_extended.hpp) and those that need sums in binary64.
  bool any_format = false;
  /// Not run on any device yet, and built on instructions that the CPU simulator does not emulate: chosen only if the
  /// program defines UFP4_EXPERIMENTAL (docs/gpu.md, cuda/first_call_check.hpp).
  bool experimental = false;
  /// The tiles that a job alone would be cut into; null: tile_rows x tile_cols.
  tile_shape (*tile_of)(const gemm_job&, const device_facts&) = nullptr;
  /// Queues jobs that differ only in pointers, shapes and strides, without bias, none empty. Null: they run one by one.
  error (*run_group)(std::span<const gemm_job>, const device_facts&, stream) = nullptr;
};

/// The `Product` of a call whose types show nothing of the operands, so that every kernel is compiled.
struct any_product {
  /// Whether a product of these types may be one for which holds(job); see detail::product_of.
  static constexpr bool may(bool (*)(const gemm_job&)) { return true; }
};

/// The kernels for the GPUs that this program is compiled for, the fastest first. cuda.hpp and hip.hpp define it. What
/// the types of a product exclude is not compiled; the table names every kernel, and chooses the same.
template <class Product = any_product>
std::span<const gemm_kernel* const> gemm_kernels();

/// Which kernel runs a product.
struct explanation {
  const char* operation = "";                ///< the operation
  const char* kernel = "";                   ///< its name in the vendor's table; "" if no kernel takes the product
  const char* instruction = "";              ///< the machine instruction that multiplies
  std::size_t tile_rows = 0, tile_cols = 0;  ///< the part of C that a thread block computes
  accumulate mode = accumulate::fast;        ///< exact_blocks also if the kernel of `fast` has those bits
  std::string note;                          ///< why a faster kernel is not used; may be empty

  /// All members in one line.
  std::string text() const {
    const std::string line = detail::concat(operation, ": ", kernel, " (", instruction, "), tiles of ", tile_rows,
                                            " x ", tile_cols, ", accumulate ", detail::name(mode));
    return note.empty() ? line : line + "; " + note;
  }
};

}  // namespace ufp4::gpu::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

inline unsigned log2_of(unsigned power) { return static_cast<unsigned>(__builtin_ctz(power)); }
inline bool is_aligned(const void* p, std::size_t bytes) { return reinterpret_cast<std::uintptr_t>(p) % bytes == 0; }

/// Does the grid have the values of an element format, code by code?
template <element_format Element>
constexpr bool has_values_of(const grid4& grid) {
  constexpr grid4 of = grid_of<Element>();
  for (unsigned c = 0; c < 16; ++c)
    if (grid.value[c] != of.value[c]) return false;
  return true;
}
constexpr bool is_e2m1(const grid4& grid) { return has_values_of<fp4<E2M1>>(grid); }

/// Do both operands have blocks and scales of that kind, and grids for which holds(grid)?
template <class Holds>
constexpr bool has_blocks(const gemm_job& job, unsigned block, scale_kind scale, const Holds& holds) {
  const auto fits = [&](const gemm_side& s) { return s.is_quantized && s.scale == scale && holds(s.grid); };
  return job.block == block && fits(job.left) && fits(job.right);
}

constexpr bool has_unquantized(const gemm_job& job) { return !job.left.is_quantized || !job.right.is_quantized; }
constexpr bool has_extended(const gemm_job& job) {
  return job.left.extended != nullptr || job.right.extended != nullptr;
}
/// Whether the mode adds up in binary64, as only gemm_simt does.
constexpr bool needs_binary64(const gemm_job& job) {
  const auto extreme = [](const gemm_side& side) {
    if (!side.is_quantized) return false;
    return side.extended != nullptr ? has_extreme_values(*side.extended) : has_extreme_values(side.grid);
  };
  return job.mode != accumulate::exact_blocks && (extreme(job.left) || extreme(job.right));
}
template <unsigned block>
constexpr bool has_length(const gemm_job& job) {
  return job.block == block;
}

constexpr int integer_amax(const grid4& grid) {
  int amax = 0;
  for (const int i : grid.integer) amax = amax < i ? i : amax < -i ? -i : amax;
  return amax;
}
constexpr int dot_exponent(const gemm_job& job) {
  return floor_log2(job.left.grid.unit) + floor_log2(job.right.grid.unit);
}
/// Is every block's dot product an integer below `most` (at most 2^24) times the units, and therefore a float?
constexpr bool exact_dots_below(const gemm_job& job, std::int64_t most) {
  if (!job.left.exact() || !job.right.exact()) return false;
  const std::int64_t product = std::int64_t{integer_amax(job.left.grid)} * integer_amax(job.right.grid);
  const int exponent = dot_exponent(job);
  return product * job.block < most && exponent >= -149 && exponent <= 103;
}

#if defined(UFP4_EXPERIMENTAL)
inline constexpr bool takes_experimental = true;
#else
inline constexpr bool takes_experimental = false;
#endif

inline bool takes(const gemm_kernel& kernel, const gemm_job& job, const device_facts& device) {
  return ((!has_extended(job) && !needs_binary64(job)) || kernel.any_format) && kernel.takes(job, device);
}

/// The first kernel of the table that takes a job; null if there is none.
template <class Product = any_product>
const gemm_kernel* choose_kernel(const gemm_job& job, const device_facts& device) {
  for (const gemm_kernel* kernel : gemm_kernels<Product>())
    if ((takes_experimental || !kernel->experimental) && !UFP4_TUNE_LEAVES_OUT(kernel->name) &&
        takes(*kernel, job, device))
      return kernel;
  return nullptr;
}
UFP4_GPU_FUNCTION(const gemm_kernel* choose_kernel<any_product>(const gemm_job&, const device_facts&))

/// The facts that a kernel runs with: products that are not in one launch run one by one, each on the whole device.
inline device_facts facts_for(const gemm_kernel& kernel, device_facts device) {
  if (kernel.run_group == nullptr && device.whole != 0) device.processors = device.whole;
  return device;
}

/// An architecture as compilers spell it: "sm_90", "gfx942".
inline std::string target_name(int architecture) {
  const target_spelling how = target_spelling_of(architecture);
  std::string digits;
  for (int rest = architecture; rest != 0; rest /= how.base)
    digits.insert(digits.begin(), "0123456789abcdef"[rest % how.base]);
  return how.prefix + digits;
}

/// Why kernels above the chosen one are not used, where the author of the program can change that.
template <class Product = any_product>
std::string why_not_better(const gemm_job& job, const device_facts& device, const gemm_kernel* chosen) {
  device_facts able = device, common = device;
  able.compiled = common.compiled = 0;
  able.specific = true, common.specific = false;
  std::string why;
  for (const gemm_kernel* kernel : gemm_kernels<Product>()) {
    if (kernel == chosen) break;
    if (!takes(*kernel, job, able)) continue;
    if (!why.empty()) why += "; ";
    if (!kernel->takes(job, device))
      why += concat(kernel->name, " needs code compiled for ", target_name(device.architecture),
                    kernel->takes(job, common) ? "" : "a", ", which this program lacks");
    else
      why += concat(kernel->name, " has not run on a device yet and is only used with UFP4_EXPERIMENTAL");
  }
  return why;
}
UFP4_GPU_FUNCTION(std::string why_not_better<any_product>(const gemm_job&, const device_facts&, const gemm_kernel*))

/// `kernel`: the one that was chosen; null: chooses it.
template <class Product = any_product>
explanation explain_job(const char* operation, const gemm_job& job, const device_facts& device,
                        const gemm_kernel* kernel = nullptr) {
  explanation e{operation, "", "", 0, 0, job.mode, {}};
  if (kernel == nullptr) kernel = choose_kernel<Product>(job, device);
  e.note = why_not_better<Product>(job, device, kernel);
  if (kernel == nullptr) return e;
  e.kernel = kernel->name;
  e.instruction = kernel->instruction;
  const device_facts own = facts_for(*kernel, device);
  const tile_shape tile =
      kernel->tile_of != nullptr ? kernel->tile_of(job, own) : tile_shape{kernel->tile_rows, kernel->tile_cols};
  e.tile_rows = tile.rows, e.tile_cols = tile.cols;
  if (e.mode == accumulate::fast && !needs_binary64(job)) e.mode = kernel->fast_is;
  return e;
}

inline bool is_empty(const gemm_job& job) { return job.out.rows == 0 || job.out.cols == 0; }

/// The workspace of the kernel that was chosen for a job; 0 if there is none, or nothing to compute.
inline std::size_t kernel_bytes(const gemm_kernel* kernel, const gemm_job& job, const device_facts& device) {
  return kernel == nullptr || is_empty(job) ? 0 : kernel->workspace(job, facts_for(*kernel, device));
}

/// The tiles of C, one for each thread block.
struct tile_grid {
  unsigned down = 0, across = 0;
};
struct tile_index {
  unsigned down, across;
};
/// The tile of a thread block: eight tile rows of one tile column, then of the next, so that the operands that thread
/// blocks share are in the cache.
UFP4_DEVICE tile_index tile_of_strips(const tile_grid& tiles, unsigned at) {
  const unsigned strip = 8 * tiles.across, first = at / strip * 8, left = tiles.down - first;
  const unsigned down = left < 8 ? left : 8;
  return {first + at % strip % down, at % strip / down};
}

/// Queues a thread block for each rows x cols of C; sets job.tiles.
template <class Job>
error launch_tiled(const listed_kernel<Job>& kernel, Job job, const sink& out, unsigned rows, unsigned cols,
                   unsigned threads, std::size_t shared_bytes, stream where) {
  const std::size_t down = (out.rows + rows - 1) / rows, across = (out.cols + cols - 1) / cols;
  if (down == 0 || across == 0) return success;
  if (down > 0x7FFFFFFFu / across) return not_supported;  // a grid has at most 2^31 - 1 blocks
  job.tiles = {static_cast<unsigned>(down), static_cast<unsigned>(across)};
  return launch(kernel, {job.tiles.down * job.tiles.across}, {threads}, shared_bytes, where, job);
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
