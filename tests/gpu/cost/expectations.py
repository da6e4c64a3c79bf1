# ufp4 - what sass_check.py requires of the compiled kernels beside its rules: occupancy, and the exceptions with their reasons.
# SPDX-License-Identifier: Apache-2.0

# kernel, as a regular expression of its name | threads of a block | blocks that a multiprocessor must hold
OCCUPANCY = [
    (r"^gemv_blocks$", 256, 3),
    (r"^gemv_mixed<1u", 256, 2),
    (r"^gemm_bf16<128u, 128u>$", 256, 2),
    (r"^gemm_bf16<64u, 64u>$", 256, 3),
    (r"^multiply_dots<dots_tile<2u, 4u, 4u, 4u>", 256, 1),
    (r"^multiply_dots<dots_tile<1u, 4u, 2u, 2u>", 128, 5),
    (r"^block_mma_tiles", 352, 1),
    (r"^gemm_wgmma<", 384, 1),
    (r"^gemv_f16<(1u, [12]u|2u, 1u),", 256, 2),
    (r"^gemv_dots<.*, 1u, 1u>$", 256, 2),
    (r"^multiply_block_sums<", 384, 1),
    (r"^tcgen05_tiles<", 288, 1),
    (r"^quantize_(lanes|tiles)", 256, 3),
    (r"^dequantize_rows$", 256, 5),
]

_ALL = "80 90a 100a 120a"
_RECOMPUTED = "registers saved around the call that computes the elements of a tile again whose products bf16 cannot hold"
_REFERENCE = "the codec as it stands: a reference, whose loops over a block and a grid index memory"
_CHOSEN_GRID = "formats with every choice, a block or an element a thread: the grid that a block chose is indexed"
_ANY_GRID = "a grid without a plan: sixteen values and their random bits, indexed in a loop"
_PLACE = "one division for the place in the matrix of what a thread or block handles next: the loop is over such places"
_LOADED = "ptxas passes sixteen values from the alternatives of their load to the transform in memory"
_LONG_BLOCK = "the loop over the parts of a block of 128 or 256, which the described formats do not have"
_FEW = "a few registers saved, so that the intended blocks fit in a multiprocessor"
_SHARED_SCALES = "a division for each scale: how many rows share it is known at run time"

# rule | kernel | targets | reason. One that excuses nothing fails.
EXCEPTIONS = [
    ("local", r"^quantize_blocks<", _ALL, _REFERENCE),
    ("reciprocal", r"^quantize_blocks<", _ALL, _REFERENCE),
    ("local", r"^(quantize|decode|dequantize)_extended", _ALL, _CHOSEN_GRID),
    ("reciprocal", r"^(quantize|decode|dequantize)_extended", _ALL, _CHOSEN_GRID),
    ("generic", r"^quantize_extended", "100a 120a", _CHOSEN_GRID),
    ("reciprocal", r"^multiply_simt$", _ALL, "the kernel for every format, layout and mode, which is not built to be fast"),
    ("local", r"^multiply_simt$", "100a", "registers saved around the epilogue in binary64, which grids with extreme values have"),
    ("local", r"^quantize_(lanes|tiles)<\(lanes_path\)2", _ALL, _ANY_GRID),
    ("local", r"^finish_product", _ALL, _RECOMPUTED),
    ("local", r"^multiply_dots<dots_tile<1u", "80 90a 120a", _RECOMPUTED),
    ("local", r"^multiply_dots<dots_tile<2u", "100a", _RECOMPUTED),
    ("local", r"^gemm_bf16<64u", "100a 120a", _RECOMPUTED),
    ("local", r"^gemm_bf16<128u", "90a", "eight values a step, so that two blocks of 256 threads fit in the registers"),
    ("local", r"^quantize_tiles<\(lanes_path\)1, false, 64u>$", "90a", _FEW),
    ("local", r"^quantize_tiles<\(lanes_path\)1, false, 256u>$", "80", _FEW),
    ("local", r"^quantize_tiles<\(lanes_path\)1, true, 64u>$", "100a", _FEW),
    ("local", r"^gemv_f16<2u, 8u, true>$", "80", _FEW),
    ("local", r"^gemv_f16<2u, 8u, false>$", "100a 120a", _FEW),
    ("local", r"^gemv_dots<\(scale_kind\)0, 1u, 1u>$", "100a 120a", _FEW),
    ("local", r"^gemv_dots<\(scale_kind\)4, 2u, 2u>$", "100a 120a", _FEW),
    ("local", r"^gemv_dots<\(scale_kind\)4, 1u, 1u>$", "120a", _FEW),
    ("local", r"^hadamard_rows$", "100a 120a", _LOADED),
    ("reciprocal", r"^(decode_bf16|swizzle_rows)$", _ALL, _PLACE),
    ("reciprocal", r"^multiply_dots<dots_tile<2u, 4u, 4u, 4u>, 64u>$", "80 90a", _LONG_BLOCK),
    ("reciprocal", r"^multiply_dots<dots_tile<2u, 4u, 4u, 4u>, 16u>$", "80", _SHARED_SCALES),
    ("reciprocal", r"^gemm_wgmma<(128u, \(wgmma_fold\)[0-4]|64u, \(wgmma_fold\)[01]|32u, \(wgmma_fold\)1)>$", "90a", "the place of the next tile, in the producer's loop over chunks"),
    ("local", r"^gemm_wgmma<(128u, \(wgmma_fold\)4|64u, \(wgmma_fold\)3)>$", "90a", _FEW),
    ("generic", r"^gemm_wgmma<", "90a", "the flags of tiles to be computed again are read once a tile, outside the loop over K"),
]
