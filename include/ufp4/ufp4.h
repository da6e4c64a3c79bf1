// ufp4 - the C interface: 4-bit block-scaled matrices for programs in C99 and in every language that calls C.
// SPDX-License-Identifier: Apache-2.0
//
//   ufp4_format nvfp4;
//   ufp4_preset("nvfp4", &nvfp4);
//   ufp4_quantized q;
//   ufp4_quantized_init(&nvfp4, rows, cols, NULL, &q);
//   q.codes = malloc(q.codes_size), q.scales = malloc(q.scales_size);
//   if (ufp4_quantize(NULL, &x, NULL, &q) != UFP4_OK) puts(ufp4_error_message());
//
// Link the target ufp4::c (docs/c.md), or a file that includes ufp4/c/functions.hpp, compiled by a C++20 compiler.
//
// | status   | a function that can fail returns UFP4_OK or the kind of failure, and writes its outputs only after     |
// |          | all arguments have passed the checks; ufp4_error_message() is the message of the thread's last failure |
// | memory   | every matrix is in memory of the caller. docs/c.md lists what a call allocates for its work, which it  |
// |          | frees before it returns. Only the threads of the library's thread pool outlive a call, and the message |
// |          | of a failure, 1 KiB a thread                                                                           |
// | threads  | every function may be called from several threads at a time                                            |
// | bits     | the same as those of the C++ operations of the same names; docs/numerics.md                            |
// | versions | structures whose first member is struct_size may grow; initialise them with their _INIT macro. Members |
// |          | that a program's older header lacks have their defaults; a structure of a newer header is an error. The|
// |          | others, the constants and the functions do not change while UFP4_ABI_VERSION stays the same            |
#pragma once

#include <stddef.h>
#include <stdint.h>

/// The functions that the library exports; everything else is hidden.
#if defined(__GNUC__)
#define UFP4_C_API __attribute__((visibility("default")))
#else
#define UFP4_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// The version of this interface. A program compares it with ufp4_abi_version() of the library that it has loaded.
#define UFP4_ABI_VERSION 1

/// What a function returns.
enum {
  UFP4_OK = 0,                ///< done
  UFP4_INVALID_ARGUMENT = 1,  ///< an argument is wrong; the message names it and its value
  UFP4_OUT_OF_MEMORY = 2,     ///< memory for the work of the call could not be allocated
  UFP4_INTERNAL_ERROR = 3     ///< any other failure, with its message
};

/// The types of the elements of a matrix.
enum {
  UFP4_F32 = 0,   ///< binary32
  UFP4_BF16 = 1,  ///< bfloat16
  UFP4_FP16 = 2   ///< binary16
};

/// The types of block scales.
enum {
  UFP4_SCALE_F32 = 0,    ///< binary32
  UFP4_SCALE_BF16 = 1,   ///< bfloat16
  UFP4_SCALE_E4M3 = 2,   ///< FP8 E4M3, as NVFP4 has
  UFP4_SCALE_UE5M3 = 3,  ///< unsigned E5M3
  UFP4_SCALE_E8M0 = 4    ///< powers of two, as the MX formats have
};

/// What the codes of a format are.
enum {
  UFP4_ELEMENT_4_BITS = 0,  ///< two codes a byte, sixteen values
  UFP4_ELEMENT_INT8 = 1,    ///< one code a byte: two's complement, -127 to 127 times a unit
  UFP4_ELEMENT_E4M3 = 2,    ///< one code a byte: the FP8 of OCP MX with 4 bits of exponent, 3 of mantissa
  UFP4_ELEMENT_E5M2 = 3,    ///< one code a byte: the FP8 with 5 and 2
  UFP4_ELEMENT_E3M2 = 4,    ///< one code a byte, in its low 6 bits: the FP6 with 3 and 2
  UFP4_ELEMENT_E2M3 = 5     ///< one code a byte, in its low 6 bits: the FP6 with 2 and 3
};

/// The orders of codes and scales in memory.
enum {
  UFP4_CANONICAL = 0,  ///< by rows; two codes of 4 bits a byte, the even column in the low half
  UFP4_PREPACKED = 1   ///< the order in which the kernels read the right operand of a product
};

/// How a scaled number becomes a code (numerics 3).
enum {
  UFP4_NEAREST_EVEN = 0,  ///< to the nearest value, ties to the even code
  UFP4_NEAREST_AWAY = 1,  ///< to the nearest value, ties away from zero
  UFP4_TOWARD_ZERO = 2,   ///< to the value that is not beyond the number
  UFP4_STOCHASTIC = 3,    ///< to a neighbour, with a probability that has the number as its mean
  UFP4_EDEN = 4           ///< to the nearest value; scales are corrected so that the gain is 1: a transform
};

/// How the amax of a block becomes its scale (numerics 5).
enum {
  UFP4_RULE_DEFAULT = 0,        ///< amax / qmax, rounded to nearest; UFP4_RULE_MX_FLOOR for E8M0
  UFP4_RULE_UP = 1,             ///< the smallest scale that clips nothing: E4M3, UE5M3, bfloat16
  UFP4_RULE_MX_FLOOR = 2,       ///< floor(log2 amax) - floor(log2 qmax): E8M0
  UFP4_RULE_MX_EVEN = 3,        ///< the same of amax rounded to the bits of an element: E8M0
  UFP4_RULE_MX_CEIL = 4,        ///< the smallest power of two that clips nothing: E8M0
  UFP4_RULE_FOUR_OVER_SIX = 5,  ///< amax becomes 6 or 4, whichever has the smaller error: nvfp4
  UFP4_RULE_PERCENTILE = 6      ///< the default of a percentile of the magnitudes instead of the amax
};

/// How a search and UFP4_RULE_FOUR_OVER_SIX compare scales, and blocks with several grids their grids.
enum {
  UFP4_SQUARED_ERROR = 0,   ///< by the sum of the squared errors of a block
  UFP4_ABSOLUTE_ERROR = 1,  ///< by the sum of the magnitudes of the errors
  UFP4_LARGEST_ERROR = 2    ///< by the largest magnitude of an error; choose_grid only
};

/// How a product adds up (numerics 6).
enum {
  UFP4_FAST = 0,          ///< the fastest kernel, within the error bound of the specification
  UFP4_EXACT_BLOCKS = 1,  ///< the same bits on every machine
  UFP4_FOLDED_BF16 = 2    ///< scales are multiplied into bfloat16 elements first
};

/// What a function of a linear layer does with its output.
enum {
  UFP4_OVERWRITE = 0,  ///< stores the product
  UFP4_ADD = 1         ///< adds the product to it
};

/// rows x cols elements; element (i, j) is data[i * row_stride + j * col_stride].
typedef struct ufp4_matrix {
  void* data;            ///< element (0, 0); may be NULL if there is no element. An input is not written
  size_t rows;           ///< number of rows
  size_t cols;           ///< number of columns
  ptrdiff_t row_stride;  ///< between rows, in elements, of any sign
  ptrdiff_t col_stride;  ///< between columns, in elements, of any sign
  int32_t dtype;         ///< UFP4_F32, UFP4_BF16 or UFP4_FP16
} ufp4_matrix;

/// A Hadamard transform of runs of n elements with signs. ufp4_hadamard and ufp4_random_hadamard fill it.
typedef struct ufp4_transform {
  uint32_t n;               ///< 16, 32, 64, 128 or 256; 0 or 1 for none
  uint32_t rounds_to_bf16;  ///< 1 to round the result to bfloat16, as Transformer Engine does; else 0
  uint32_t signs[8];        ///< the sign of element j is negative if bit j % 32 of word j / 32 is set
} ufp4_transform;

/// A block format. ufp4_preset fills it; a program may change any member, unless has_tensor_scale is above 1.
typedef struct ufp4_format {
  float values[16];    ///< the number that each code means; one is zero, all are finite. Of INT8: of codes 0 to 15
  int32_t scale;       ///< UFP4_SCALE_F32 to UFP4_SCALE_E8M0
  int32_t block_rows;  ///< 1, or the height of a block; a power of two up to 128
  int32_t block_cols;  ///< elements along the contraction axis; a power of two from 2 to 256
  int32_t has_tensor_scale;  ///< 1 for a binary32 scale of the whole matrix besides; else 0. ufp4_preset stores a
                             ///< larger number in formats that the other members do not describe completely
  int32_t element;           ///< UFP4_ELEMENT_4_BITS; or one of a byte, which is not prepacked, and of which `values`
                             ///< has the codes 0 to 15
} ufp4_format;

/// A quantized matrix in memory of the caller. ufp4_quantized_init fills all but the two addresses.
typedef struct ufp4_quantized {
  ufp4_format format;        ///< the meaning of codes and scales
  ufp4_transform transform;  ///< was applied to the rows before they were quantized
  size_t rows;               ///< number of rows
  size_t cols;               ///< number of columns without padding
  uint8_t* codes;            ///< codes_size bytes
  void* scales;              ///< scales_size bytes, aligned as a scale is
  size_t codes_size;         ///< in bytes
  size_t scales_size;        ///< in bytes
  float tensor_scale;        ///< 1 unless the format has one; written by ufp4_quantize
  int32_t layout;            ///< UFP4_CANONICAL or UFP4_PREPACKED
} ufp4_quantized;

/// Counts of special cases; calls add to it.
typedef struct ufp4_counts {
  uint64_t nonfinite_blocks;    ///< blocks with a NaN or an infinity: their scale is NaN
  uint64_t saturated;           ///< elements beyond the values of the format under their scale
  uint64_t underflowed_scales;  ///< blocks with amax > 0 whose scale became 0
} ufp4_counts;

/// Runs task(data, i) once for every i < count, on any threads in any order, and returns when all have returned.
typedef void (*ufp4_executor)(void* state, size_t count, void (*task)(const void* data, size_t i), const void* data);

/// On which threads and with which instructions a call runs. NULL instead of one: all cores, the best instructions.
typedef struct ufp4_context {
  size_t struct_size;      ///< set by UFP4_CONTEXT_INIT
  const char* isa;         ///< an instruction set of docs/cpu.md as "avx2"; NULL for the best of the machine
  ufp4_executor executor;  ///< runs the tasks instead of the library's threads; NULL for these
  void* executor_state;    ///< first argument of executor
  int32_t threads;         ///< at most; 0 for all cores
} ufp4_context;
/// A context with all defaults.
#define UFP4_CONTEXT_INIT {sizeof(ufp4_context), NULL, NULL, NULL, 0}

/// The policies of ufp4_quantize and ufp4_fake_quantize. NULL instead of them: the defaults.
typedef struct ufp4_quantize_options {
  size_t struct_size;      ///< set by UFP4_QUANTIZE_OPTIONS_INIT
  uint64_t seed;           ///< of the random bits of UFP4_STOCHASTIC and UFP4_EDEN
  uint64_t stream;         ///< tells operands of the same seed apart
  size_t first_row;        ///< if has_shard: the place of row 0 in the whole matrix
  size_t first_col;        ///< if has_shard: the place of column 0 in the whole matrix
  size_t total_cols;       ///< if has_shard: the columns of the whole matrix
  ufp4_counts* counts;     ///< counts are added to it, unless it is NULL
  int32_t rounding;        ///< UFP4_NEAREST_EVEN to UFP4_EDEN
  int32_t rule;            ///< UFP4_RULE_DEFAULT to UFP4_RULE_PERCENTILE
  int32_t searches;        ///< 1 to search near the scale of the rule for the smallest error
  int32_t error;           ///< UFP4_SQUARED_ERROR or UFP4_ABSOLUTE_ERROR
  int32_t search_below;    ///< steps of the search below the scale, 0 to 254; -1 for the default of the scale type
  int32_t search_above;    ///< steps above, in the same way
  int32_t per_mille;       ///< of UFP4_RULE_PERCENTILE: 1 to 1000
  int32_t has_amax;        ///< 1 if tensor_amax is given
  float tensor_amax;       ///< the amax of the whole transformed matrix, for formats with a tensor scale
  int32_t has_shard;       ///< 1 if the matrix is a part of a larger one, whose bits it shall have
  int32_t undo_transform;  ///< 1 to apply the inverse transform to the result; ufp4_fake_quantize only
  int32_t unused;          ///< padding of the first header, which had no member behind it; not read
  int32_t choose_grid;     ///< UFP4_SQUARED_ERROR to UFP4_LARGEST_ERROR: the grid of a block has the smallest, of equal
                           ///< ones the first; other than squared only for formats of several grids
} ufp4_quantize_options;
/// Nearest even, the default rule, no tensor amax, no shard, grids by squared errors.
#define UFP4_QUANTIZE_OPTIONS_INIT \
  {sizeof(ufp4_quantize_options), 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0, -1, -1, 1000, 0, 0, 0, 0, 0, UFP4_SQUARED_ERROR}

/// The factors, the mode and the bias of a product. NULL instead of them: alpha 1, beta 0, UFP4_FAST, no bias.
typedef struct ufp4_gemm_options {
  size_t struct_size;  ///< set by UFP4_GEMM_OPTIONS_INIT
  const float* bias;   ///< one number a column of C, added before beta * C; NULL for none
  float alpha;         ///< factor of the product
  float beta;          ///< factor of C, which is read only if it is not 0
  int32_t accumulate;  ///< UFP4_FAST, UFP4_EXACT_BLOCKS or UFP4_FOLDED_BF16
} ufp4_gemm_options;
/// The defaults.
#define UFP4_GEMM_OPTIONS_INIT {sizeof(ufp4_gemm_options), NULL, 1, 0, UFP4_FAST}

/// A training recipe at one step of one layer (docs/recipes.md).
typedef struct ufp4_recipe {
  size_t struct_size;  ///< set by UFP4_RECIPE_INIT
  const char* name;    ///< one of ufp4_recipe_name
  uint64_t seed;       ///< of the random signs and of stochastic rounding
  uint64_t step;       ///< training step; the same step, layer and seed give the same bits
  uint32_t layer;      ///< number of the layer, below 65536
  int32_t accumulate;  ///< of the three products
} ufp4_recipe;
/// The recipe `ufp4` with seed 0 at step 0 of layer 0.
#define UFP4_RECIPE_INIT {sizeof(ufp4_recipe), "ufp4", 0, 0, 0, UFP4_FAST}

/// What a format does to data (numerics 8).
typedef struct ufp4_report {
  double attenuation;         ///< sum(x q) / sum(x x): below 1 if rounding shrinks values; NaN if x is zero
  double sqnr_db;             ///< 10 log10(sum x^2 / sum (q - x)^2)
  double bucket_utilization;  ///< 2^entropy of the values in use, divided by their number; NaN for elements of one byte
  double scale_underflow_rate;  ///< share of blocks with amax > 0 whose scale became 0
  double saturation_rate;       ///< share of elements that count as saturated
  uint64_t nonfinite_blocks;    ///< blocks with a NaN or an infinity
  uint64_t elements;            ///< elements that were measured
  uint64_t blocks;              ///< blocks, padding included
  uint64_t histogram[16];       ///< elements by code; zeros for elements of one byte
} ufp4_report;

/// What ufp4_cast could not keep; calls add to it. A block is one of the result. 10 log10(signal / noise) is the SQNR.
typedef struct ufp4_cast_report {
  uint64_t blocks;            ///< of the result, padding included
  uint64_t inexact_blocks;    ///< with a value that differs; blocks that became NaN count
  uint64_t inexact_elements;  ///< values that differ; -0 and 0 are the same value
  double signal;              ///< sum of the squares of the values, where value and result are finite
  double noise;               ///< sum of the squares of the differences there
} ufp4_cast_report;

/// UFP4_ABI_VERSION of the library.
UFP4_C_API uint32_t ufp4_abi_version(void);
/// The version of the library, as "0.1.0".
UFP4_C_API const char* ufp4_version(void);
/// The message of the last call of this thread that failed; "" if none has. Valid until the next failure.
UFP4_C_API const char* ufp4_error_message(void);

/// The number of preset formats of 4 bits. ufp4_preset also knows those of elements of a byte, by name only.
UFP4_C_API size_t ufp4_preset_count(void);
/// The name of preset i; NULL if there is none.
UFP4_C_API const char* ufp4_preset_name(size_t i);
/// The format of that name, of every preset of the library; an unknown name is an error that lists all.
UFP4_C_API int32_t ufp4_preset(const char* name, ufp4_format* format);

/// The number of recipes.
UFP4_C_API size_t ufp4_recipe_count(void);
/// The name of recipe i; NULL if there is none.
UFP4_C_API const char* ufp4_recipe_name(size_t i);

/// The Hadamard transform of runs of n elements, without signs.
UFP4_C_API int32_t ufp4_hadamard(uint32_t n, ufp4_transform* transform);
/// The same with random signs. Both operands of a product need the same seed.
UFP4_C_API int32_t ufp4_random_hadamard(uint32_t n, uint64_t seed, ufp4_transform* transform);

/// A matrix of that format and shape after a transform (NULL: none), its sizes computed, its addresses NULL.
UFP4_C_API int32_t ufp4_quantized_init(const ufp4_format* format, size_t rows, size_t cols,
                                       const ufp4_transform* transform, ufp4_quantized* q);
/// The same in the order UFP4_PREPACKED, for ufp4_prepack.
UFP4_C_API int32_t ufp4_prepacked_init(const ufp4_format* format, size_t rows, size_t cols,
                                       const ufp4_transform* transform, ufp4_quantized* q);

/// The largest finite magnitude of x after a transform (NULL: none).
UFP4_C_API int32_t ufp4_amax(const ufp4_context* context, const ufp4_matrix* x, const ufp4_transform* transform,
                             float* amax);
/// Transforms, scales and rounds x into q, whose shape, format and transform were set by ufp4_quantized_init.
UFP4_C_API int32_t ufp4_quantize(const ufp4_context* context, const ufp4_matrix* x,
                                 const ufp4_quantize_options* options, ufp4_quantized* q);
/// The same by MS-EDEN: q has the format nvfp4 and a transform. UFP4_EDEN is its form without bias. Codes are
/// the nearest ones; scales are corrected for each run of the transform, then rounded with the random bits of seed and
/// stream (numerics 5, "MS-EDEN"). The operands of one product need different random bits.
UFP4_C_API int32_t ufp4_quantize_ms_eden(const ufp4_context* context, const ufp4_matrix* x, uint64_t seed,
                                         uint64_t stream, ufp4_quantized* q);
/// The decoded values of a quantized or prepacked matrix; its transform is not undone.
UFP4_C_API int32_t ufp4_dequantize(const ufp4_context* context, const ufp4_quantized* q, const ufp4_matrix* out);
/// ufp4_quantize and ufp4_dequantize in one pass, without codes in memory. `out` may be x itself.
UFP4_C_API int32_t ufp4_fake_quantize(const ufp4_context* context, const ufp4_format* format, const ufp4_matrix* x,
                                      const ufp4_transform* transform, const ufp4_quantize_options* options,
                                      const ufp4_matrix* out);
/// q in the format of `to`, which has the shape and the transform of q and was set by ufp4_quantized_init: blocks whose
/// values and scales fit keep their values, the others are quantized from them (numerics 5, "Casts"). Counts are added
/// to `report`, unless it is NULL. An error for formats of elements of a byte, or whose blocks have different heights.
UFP4_C_API int32_t ufp4_cast(const ufp4_context* context, const ufp4_quantized* q, ufp4_quantized* to,
                             ufp4_cast_report* report);
/// What ufp4_quantize with these arguments would lose.
UFP4_C_API int32_t ufp4_measure(const ufp4_context* context, const ufp4_format* format, const ufp4_matrix* x,
                                const ufp4_transform* transform, const ufp4_quantize_options* options,
                                ufp4_report* report);

/// Transforms the rows of x. `out` has the columns of x, padded to a multiple of n; it may be x itself.
UFP4_C_API int32_t ufp4_hadamard_forward(const ufp4_context* context, const ufp4_matrix* x,
                                         const ufp4_transform* transform, const ufp4_matrix* out);
/// The inverse: x has the columns of `out`, padded to a multiple of n.
UFP4_C_API int32_t ufp4_hadamard_inverse(const ufp4_context* context, const ufp4_matrix* x,
                                         const ufp4_transform* transform, const ufp4_matrix* out);

/// Copies a quantized matrix into the order that products read fastest. `to` is of ufp4_prepacked_init.
UFP4_C_API int32_t ufp4_prepack(const ufp4_context* context, const ufp4_quantized* q, ufp4_quantized* to);

/// C[M,N] = alpha * A[M,K] * B[N,K]^T + bias + beta * C. Transforms must be the same; B may be prepacked.
UFP4_C_API int32_t ufp4_gemm(const ufp4_context* context, const ufp4_quantized* a, const ufp4_quantized* b,
                             const ufp4_matrix* c, const ufp4_gemm_options* options);
/// The same with an A that is not quantized; it is transformed as B was.
UFP4_C_API int32_t ufp4_gemm_mixed(const ufp4_context* context, const ufp4_matrix* a, const ufp4_quantized* b,
                                   const ufp4_matrix* c, const ufp4_gemm_options* options);
/// `count` products of one call; no C may overlap another or an operand, and bias must be NULL.
UFP4_C_API int32_t ufp4_gemm_grouped(const ufp4_context* context, size_t count, const ufp4_quantized* a,
                                     const ufp4_quantized* b, const ufp4_matrix* c, const ufp4_gemm_options* options);

/// Y[T,N] = X[T,K] * W[N,K]^T + bias under a recipe; bias has N numbers, or is NULL.
UFP4_C_API int32_t ufp4_linear_forward(const ufp4_context* context, const ufp4_recipe* recipe, const ufp4_matrix* x,
                                       const ufp4_matrix* w, const float* bias, const ufp4_matrix* y);
/// dX[T,K] = dY[T,N] * W[N,K]; `mode` is UFP4_OVERWRITE or UFP4_ADD.
UFP4_C_API int32_t ufp4_linear_backward_input(const ufp4_context* context, const ufp4_recipe* recipe,
                                              const ufp4_matrix* dy, const ufp4_matrix* w, const ufp4_matrix* dx,
                                              int32_t mode);
/// dW[N,K] = dY[T,N]^T * X[T,K]; `mode` is UFP4_OVERWRITE or UFP4_ADD.
UFP4_C_API int32_t ufp4_linear_backward_weight(const ufp4_context* context, const ufp4_recipe* recipe,
                                               const ufp4_matrix* dy, const ufp4_matrix* x, const ufp4_matrix* dw,
                                               int32_t mode);

// The same for a mixture of experts, whose tokens are sorted by expert: expert e has the rows offsets[e] to
// offsets[e + 1] - 1 of X, Y, dX and dY, and the rows e * N to e * N + N - 1 of W and dW. `offsets` has experts + 1
// numbers that do not decrease, from 0 to T. Every expert's tokens are quantized as a matrix of their own, but one amax
// serves all; an expert without tokens writes zeros to its part of dW, or adds nothing (numerics 7).

/// ufp4_linear_forward of each expert; bias has experts * N numbers, or is NULL.
UFP4_C_API int32_t ufp4_linear_forward_grouped(const ufp4_context* context, const ufp4_recipe* recipe, size_t experts,
                                               const size_t* offsets, const ufp4_matrix* x, const ufp4_matrix* w,
                                               const float* bias, const ufp4_matrix* y);
/// ufp4_linear_backward_input of each expert.
UFP4_C_API int32_t ufp4_linear_backward_input_grouped(const ufp4_context* context, const ufp4_recipe* recipe,
                                                      size_t experts, const size_t* offsets, const ufp4_matrix* dy,
                                                      const ufp4_matrix* w, const ufp4_matrix* dx, int32_t mode);
/// ufp4_linear_backward_weight of each expert.
UFP4_C_API int32_t ufp4_linear_backward_weight_grouped(const ufp4_context* context, const ufp4_recipe* recipe,
                                                       size_t experts, const size_t* offsets, const ufp4_matrix* dy,
                                                       const ufp4_matrix* x, const ufp4_matrix* dw, int32_t mode);

/// Which kernel ufp4_quantize would run, as text of at most `size` bytes with its zero; a longer one is cut.
UFP4_C_API int32_t ufp4_explain_quantize(const ufp4_context* context, const ufp4_matrix* x,
                                         const ufp4_quantize_options* options, const ufp4_quantized* q, char* text,
                                         size_t size);
/// The same for ufp4_gemm.
UFP4_C_API int32_t ufp4_explain_gemm(const ufp4_context* context, const ufp4_quantized* a, const ufp4_quantized* b,
                                     const ufp4_matrix* c, const ufp4_gemm_options* options, char* text, size_t size);

#ifdef __cplusplus
}
#endif
