# ufp4 - what the kernels' loops do, for the cost model: one entry for each row of the table in docs/gpu.md.
# SPDX-License-Identifier: Apache-2.0
#
# To add a kernel, add a Row. Sizes of one call are in Shape; a function of it says how often the loops run and what memory moves.
from dataclasses import dataclass
from math import ceil
from typing import Callable

NVFP4, MXFP4, F32_SCALES = 0.5 + 1 / 16, 0.5 + 1 / 32, 0.5 + 4 / 16  # bytes of an element


@dataclass(frozen=True)
class Shape:
    m: int
    n: int
    k: int

    @property
    def text(self):
        return f"{self.m} x {self.n} x {self.k}" if self.m else f"{self.n} x {self.k}"

    @property
    def flops(self):
        return 2 * self.m * self.n * self.k

    def tiles(self, rows, cols):
        return ceil(self.m / rows) * ceil(self.n / cols)

    def product_bytes(self, element=NVFP4, out=4):
        return (self.m + self.n) * self.k * element + self.m * self.n * out

    def plain_bytes(self, element=NVFP4, out=4):
        """The left operand has 16 bits."""
        return self.n * self.k * element + self.m * (2 * self.k + self.n * out)


@dataclass(frozen=True)
class Part:
    """A loop, and the warps of a block that execute it."""
    has: tuple  # patterns: the innermost loop that contains an instruction for each; empty: the kernel from begin to end
    warps: int
    trips: tuple = ()  # (pattern, count): iterations of inner loops that contain such an instruction
    cold: tuple = ()  # patterns of code that the described case does not execute
    shared: int = 0  # bytes of shared memory that wgmma, tcgen05 and the copy engine read or write in an iteration, of all warps
    matrix: tuple = ()  # (kind, multiply-adds of an iteration in a block) of tcgen05, whose shapes are in descriptors


@dataclass(frozen=True)
class Row:
    what: str  # the row of the table
    table_name: str  # as explain() prints it
    kernel: str  # a regular expression of the compiled kernel's name
    machines: tuple
    shape: Shape
    parts: tuple
    iterations: Callable  # of a shape: (blocks, iterations of a block); what a processor executes is rounded up to whole blocks
    memory: Callable  # of a shape: bytes
    limit: str  # "memory" (a copy of the same bytes), "cuBLAS bf16", or the rate of the data sheet: "bf16 units", "FP4 units"
    wanted: float | None
    bench: str = ""  # the name of the row in bench.json
    library: bool = False  # cuBLAS multiplies afterwards
    # Instructions of a warp on the path that the call executes, where the kernel chooses at run time between types, scales and
    # alignments, so that no call executes its longest path. Counted by hand in the code for sm_90a; units are not counted.
    executed: int | None = None


_HOPPERS = ("H100", "H200")
_ALL = ("A100", "H100", "H200")
_MATRIX = Shape(0, 8192, 8192)
_SMALL_COPIES = r"LDGSTS\.E (desc)?\[|LDGSTS\.E R|LDGSTS\.E \["  # four bytes each: operands that are not aligned to 16
_BYTES = r"LDG\.E\.U8"  # scales that are not aligned to words
# Of AMD's kernels: scales other than E4M3, and what only the last columns of K or scales out of range execute.
_OTHER_SCALES = (r"0x38[08]00000|0xb8800000", r"v_lshlrev_b32_e32 v\d+, 23", r"global_load_ushort", r"global_load_dword v",
                 r"global_load_dwordx2", r"0x7fffffff", r"0x7fc00000")


def _sixteens(threads):
    return lambda s: (ceil(s.n * s.k / 16 / threads), 1)


ROWS = [
    Row("fast, M <= 8", "gemv_f16_sm80", r"^gemv_f16<2u, 1u, false>$", _ALL, Shape(8, 8192, 8192),
        (Part(("HMMA", "LDG"), 1),),  # 32 rows of weights by 256 columns, 32 instructions of 16 x 8 x 16
        lambda s: (ceil(s.n / 32) * ceil(s.k / 256), 1), lambda s: s.product_bytes(), "memory", 0.8, "gemm/nvfp4/fast/8x8192x8192"),
    Row("fast, M <= 16", "gemv_f16_sm80", r"^gemv_f16<2u, 2u, false>$", _ALL, Shape(16, 8192, 8192),
        (Part(("HMMA", "LDG"), 1),),  # two instructions for each, one for 8 rows of the narrow operand
        lambda s: (ceil(s.n / 32) * ceil(s.k / 256), 1), lambda s: s.product_bytes(), "memory", 0.8, "gemm/nvfp4/fast/16x8192x8192"),
    Row("exact_blocks, M <= 16", "gemv_blocks_sm80", r"^gemv_blocks$", _ALL, Shape(8, 8192, 8192),
        (Part(("IMMA", "LDGSTS"), 8, trips=(("IMMA", 2), ("FFMA", 1)), cold=(_SMALL_COPIES,)),),
        lambda s: (ceil(s.n / 16), ceil(s.k / 512)), lambda s: s.product_bytes(), "memory", None,
        "gemm/nvfp4/exact_blocks/8x8192x8192"),
    Row("fast, M = 64", "gemm_wgmma_sm90", r"^gemm_wgmma<64u, \(wgmma_fold\)0>$", _HOPPERS, Shape(64, 8192, 8192),
        # K is divided in 4 where 32 tiles times 8 exceed the multiprocessors; the partial sums are not in the bytes.
        (Part(("HGMMA",), 8, shared=2 * 32 * 64 * 32), Part(("UTMALDG", "STS"), 4)),
        lambda s: (4 * s.tiles(64, 256), ceil(s.k / 256 / 4)), lambda s: s.product_bytes(), "memory", 0.8,
        "gemm/nvfp4/fast/64x8192x8192"),
    Row("fast, M = 32", "gemm_few_f16_sm80", r"^gemv_f16<2u, 4u, false>$", _ALL, Shape(32, 8192, 8192),
        (Part(("HMMA", "LDG"), 8),), lambda s: (ceil(s.n / 32), ceil(s.k / 2048)), lambda s: s.product_bytes(), "memory", 0.8,
        "gemm/nvfp4/fast/32x8192x8192"),
    Row("fast, M = 64", "gemm_few_f16_sm80", r"^gemv_f16<2u, 8u, false>$", _ALL, Shape(64, 8192, 8192),
        (Part(("HMMA", "LDG"), 8),), lambda s: (ceil(s.n / 32), ceil(s.k / 2048)), lambda s: s.product_bytes(), "memory", 0.8,
        "gemm/nvfp4/fast/64x8192x8192"),
    Row("fast, mxfp4, M = 64", "gemm_bf16_sm80", r"^gemm_bf16<64u, 64u>$", _ALL, Shape(64, 8192, 8192),
        (Part(("HMMA", "LDGSTS"), 8, cold=(_SMALL_COPIES,)),),
        lambda s: (s.tiles(64, 64), ceil(s.k / 64)), lambda s: s.product_bytes(MXFP4), "memory", 0.8,
        "gemm/mxfp4/fast/64x8192x8192"),
    Row("fast, mxfp4, M <= 8", "gemv_dots_sm80", r"^gemv_dots<\(scale_kind\)4, 2u, 1u>$", _ALL, Shape(8, 8192, 8192),
        (Part(("IMMA", "LDG"), 8),), lambda s: (ceil(s.n / 32), ceil(s.k / 2048)), lambda s: s.product_bytes(MXFP4), "memory", 0.8,
        "gemm/mxfp4/fast/8x8192x8192"),
    Row("fast, mxfp4, M <= 16", "gemv_dots_sm80", r"^gemv_dots<\(scale_kind\)4, 2u, 2u>$", _ALL, Shape(16, 8192, 8192),
        (Part(("IMMA", "LDG"), 8),), lambda s: (ceil(s.n / 32), ceil(s.k / 2048)), lambda s: s.product_bytes(MXFP4), "memory", 0.8,
        "gemm/mxfp4/fast/16x8192x8192"),
    Row("fast, e1m2_f32, M <= 4", "gemv_dots_sm80", r"^gemv_dots<\(scale_kind\)0, 2u, 1u>$", _ALL, Shape(4, 8192, 8192),
        (Part(("IMMA", "LDG"), 8),), lambda s: (ceil(s.n / 32), ceil(s.k / 2048)), lambda s: s.product_bytes(F32_SCALES), "memory", 0.8),
    Row("fast, e1m2_f32, M <= 8", "gemv_dots_sm80", r"^gemv_dots<\(scale_kind\)0, 1u, 2u>$", _ALL, Shape(8, 8192, 8192),
        (Part(("IMMA", "LDG"), 8),), lambda s: (ceil(s.n / 16), ceil(s.k / 2048)), lambda s: s.product_bytes(F32_SCALES), "memory", 0.8,
        "gemm/e1m2_f32/fast/8x8192x8192"),
    Row("fast, mxfp4, M = 64", "gemm_wgmma_sm90", r"^gemm_wgmma<64u, \(wgmma_fold\)1>$", _HOPPERS, Shape(64, 8192, 8192),
        (Part(("HGMMA",), 8, shared=2 * 32 * 64 * 32), Part(("UTMALDG", "STS"), 4)),
        lambda s: (4 * s.tiles(64, 256), ceil(s.k / 256 / 4)), lambda s: s.product_bytes(MXFP4), "memory", 0.8,
        "gemm/mxfp4/fast/64x8192x8192"),
    Row("fast, mxfp4, M = 32", "gemm_wgmma_sm90", r"^gemm_wgmma<32u, \(wgmma_fold\)1>$", _HOPPERS, Shape(32, 8192, 8192),
        # each of the four producing warps decodes every second step
        (Part(("HGMMA",), 8, shared=2 * 32 * 32 * 32), Part(("UTMALDG", "STS"), 2)),
        lambda s: (4 * s.tiles(32, 256), ceil(s.k / 256 / 4)), lambda s: s.product_bytes(MXFP4), "memory", 0.8,
        "gemm/mxfp4/fast/32x8192x8192"),
    Row("fast, M = 256", "gemm_wgmma_sm90", r"^gemm_wgmma<128u, \(wgmma_fold\)0>$", _HOPPERS, Shape(256, 8192, 8192),
        # K is divided in 2, so that 64 tiles fill 128 of the multiprocessors
        (Part(("HGMMA",), 8, shared=2 * 32 * 128 * 32), Part(("UTMALDG", "STS"), 4)),
        lambda s: (2 * s.tiles(128, 256), ceil(s.k / 256 / 2)), lambda s: s.product_bytes(), "cuBLAS bf16", 0.9,
        "gemm/nvfp4/fast/256x8192x8192"),
    Row("fast, bf16 x nvfp4, M <= 8", "gemv_mixed_sm80", r"^gemv_mixed<1u, fp4_to_bf16>$", _ALL, Shape(8, 8192, 8192),
        (Part(("HMMA", "LDG"), 1),), lambda s: (ceil(s.n / 32) * ceil(s.k / 256), 1), lambda s: s.plain_bytes(), "memory", 0.8,
        "gemm/bf16 x nvfp4/fast/8x8192x8192"),
    Row("fast, bf16 x nvfp4, M <= 16", "gemv_mixed_sm80", r"^gemv_mixed<2u, fp4_to_bf16>$", _ALL, Shape(16, 8192, 8192),
        (Part(("HMMA", "LDG"), 1),), lambda s: (ceil(s.n / 32) * ceil(s.k / 256), 1), lambda s: s.plain_bytes(), "memory", 0.8,
        "gemm/bf16 x nvfp4/fast/16x8192x8192"),
    Row("fast, fp16 x nvfp4, M <= 8", "gemv_mixed_sm80", r"^gemv_mixed<1u, fp4_to_f16>$", _ALL, Shape(8, 8192, 8192),
        (Part(("HMMA", "LDG"), 1),), lambda s: (ceil(s.n / 32) * ceil(s.k / 256), 1), lambda s: s.plain_bytes(), "memory", 0.8),
    Row("fast, M >= 512", "gemm_bf16_sm80", r"^gemm_bf16<128u, 128u>$", ("H100", "H200"), Shape(8192, 8192, 8192),
        (Part(("HMMA", "LDGSTS"), 8, cold=(_SMALL_COPIES,)),),
        lambda s: (s.tiles(128, 128), ceil(s.k / 64)), lambda s: s.product_bytes(), "cuBLAS bf16", 0.9,
        "gemm/nvfp4/fast/8192x8192x8192"),
    Row("fast, M >= 512", "gemm_library_bf16", r"^decode_bf16$", _HOPPERS, Shape(8192, 8192, 8192),
        (Part((), 8),),
        lambda s: (ceil((s.m + s.n) * s.k / 8 / 4 / 256), 1), lambda s: (s.m + s.n) * s.k * (NVFP4 + 2), "cuBLAS bf16", 0.9,
        "gemm/nvfp4/fast/8192x8192x8192", library=True),
    Row("fast, M >= 512", "gemm_wgmma_sm90", r"^gemm_wgmma<128u, \(wgmma_fold\)0>$", _HOPPERS, Shape(8192, 8192, 8192),
        (Part(("HGMMA",), 8, shared=2 * 32 * 128 * 32), Part(("UTMALDG", "STS"), 4)),
        lambda s: (s.tiles(128, 256), ceil(s.k / 256)), lambda s: s.product_bytes(), "cuBLAS bf16", 0.9,
        "gemm/nvfp4/fast/8192x8192x8192"),
    *(Row(what, name, rf"^gemm_wgmma<128u, \(wgmma_fold\){fold}>$", _HOPPERS, Shape(8192, 8192, 8192),
          (Part(("HGMMA",), 8, shared=2 * 32 * 128 * 32), Part(("UTMALDG", "STS"), 4)),
          lambda s: (s.tiles(128, 256), ceil(s.k / 256)), lambda s: s.product_bytes(), "cuBLAS bf16", 0.9, bench)
      for what, name, fold, bench in (
          ("fast, mxfp4, M >= 512", "gemm_wgmma_sm90", 1, "gemm/mxfp4/fast/8192x8192x8192"),
          ("fast, mx_e1m2, M >= 512", "gemm_wgmma_sm90", 2, ""),
          ("fast, ue5m3 scales, M >= 512", "gemm_wgmma_sm90", 3, ""),
          ("folded_bf16, e1m2_f32, M >= 512", "gemm_wgmma_rounded_sm90", 4, "gemm/e1m2_f32/folded_bf16/8192x8192x8192"))),
    Row("exact_blocks, e1m2_f32, M >= 128", "gemm_blocks_sm90", r"^multiply_block_sums<block_sums_tile<256u, 16u, false>", _HOPPERS,
        Shape(8192, 8192, 8192), (Part(("HGMMA",), 8, shared=2 * 16 * 64 * 32),),
        lambda s: (s.tiles(128, 256), ceil(s.k / 64)), lambda s: s.product_bytes(F32_SCALES), "cuBLAS bf16", 0.38,
        "gemm/e1m2_f32/fast/8192x8192x8192"),
    Row("exact_blocks, M >= 128", "gemm_blocks_sm90", r"^multiply_block_sums<block_sums_tile<256u, 16u, true>", _HOPPERS,
        Shape(8192, 8192, 8192), (Part(("HGMMA",), 8, shared=2 * 16 * 64 * 32),),
        lambda s: (s.tiles(128, 256), ceil(s.k / 64)), lambda s: s.product_bytes(), "cuBLAS bf16", 0.38,
        "gemm/nvfp4/exact_blocks/8192x8192x8192"),
    Row("exact_blocks, M >= 128", "gemm_blocks_sm80", r"^multiply_dots<dots_tile<2u, 4u, 4u, 4u>, 16u>$", ("A100",), Shape(8192, 8192, 8192),
        (Part(("IMMA", "LDGSTS"), 8, cold=(_SMALL_COPIES,)),),
        lambda s: (s.tiles(128, 128), ceil(s.k / 64)), lambda s: s.product_bytes(), "cuBLAS bf16", 0.38,
        "gemm/nvfp4/exact_blocks/8192x8192x8192"),
    Row("quantize, bf16, RHT-16 + SR", "quantize_lanes", r"^quantize_lanes<\(lanes_path\)0>$", _ALL, _MATRIX,
        (Part(("STG", "SHFL"), 8),), _sixteens(256), lambda s: s.n * s.k * (2 + NVFP4), "memory", 0.8,
        "quantize/nvfp4/bf16 + RHT-16 + SR", executed=448),
    Row("quantize_both, bf16", "quantize_tiles", r"^quantize_tiles<\(lanes_path\)0, true, 64u>$", _ALL, _MATRIX,
        (Part(("STG", "STS", "LDS"), 8),), lambda s: (ceil(s.n / 64) * ceil(s.k / 64), 1),
        lambda s: s.n * s.k * (2 + 2 * NVFP4), "memory", 0.75, "quantize_both/nvfp4/bf16", executed=543),
    Row("quantize_both, bf16, SR of the transpose", "quantize_tiles", r"^quantize_tiles<\(lanes_path\)0, true, 64u>$", _ALL, _MATRIX,
        (Part(("STG", "STS", "LDS"), 8),), lambda s: (ceil(s.n / 64) * ceil(s.k / 64), 1),
        lambda s: s.n * s.k * (2 + 2 * NVFP4), "memory", 0.75, executed=543 + 195),  # the second from tests/gpu/ptx/budgets.txt
    Row("quantize of the transpose, bf16, RHT-16 + SR", "quantize_tiles", r"^quantize_tiles<\(lanes_path\)0, false, 64u>$", _ALL, _MATRIX,
        (Part(("STG", "STS"), 8),), _sixteens(256), lambda s: s.n * s.k * (2 + NVFP4), "memory", 0.9,
        "quantize/nvfp4/bf16 + RHT-16 + SR of the transpose", executed=478),
    Row("dequantize to bf16", "dequantize_rows", r"^dequantize_rows$", _ALL, _MATRIX,
        (Part((), 8),), _sixteens(256), lambda s: s.n * s.k * (2 + NVFP4), "memory", 0.9, "dequantize/nvfp4/bf16", executed=210),
    # A stage of K = 256. A block of a pair has 128 rows of codes of both operands, which the copy engine writes and the products read
    # once each; scales of 384 rows, which warps write, whose stores are counted, and tcgen05.cp reads. An iteration is two stages.
    Row("native nvfp4, M >= 512", "gemm_nvfp4_tcgen05", r"^tcgen05_tiles<2u, 256u, \(mma::block_scale\)0>$", ("B200",), Shape(8192, 8192, 8192),
        (Part(("UTCOMMA", "UTCCP"), 2, matrix=("tcgen05 f4", 2 * 128 * 256 * 256), shared=2 * (4 * 128 * 128 + 384 * 16)),
         Part((r"LDG\.E\.128", r"STS\.128", "FENCE"), 3), Part(("UTMALDG",), 2)),
        lambda s: (2 * s.tiles(256, 256), ceil(s.k / 512)), lambda s: s.product_bytes(), "FP4 units", 0.8,
        "gemm/nvfp4/fast/8192x8192x8192"),
    Row("native nvfp4, M <= 128", "gemm_nvfp4_tcgen05", r"^tcgen05_tiles<1u, 64u, \(mma::block_scale\)0>$", ("B200",), Shape(128, 8192, 8192),
        (Part(("UTCOMMA", "UTCCP"), 2, matrix=("tcgen05 f4", 2 * 128 * 64 * 256), shared=2 * (2 * 192 * 128 + 256 * 16)),
         Part((r"LDG\.E\.128", r"STS\.128", "FENCE"), 2), Part(("UTMALDG",), 2)),
        lambda s: (s.tiles(128, 64), ceil(s.k / 512)), lambda s: s.product_bytes(), "memory", 0.8, "gemm/nvfp4/fast/128x8192x8192"),
    Row("native mxfp4, M >= 512", "gemm_mxfp4_tcgen05", r"^tcgen05_tiles<2u, 256u, \(mma::block_scale\)1>$", ("B200",), Shape(8192, 8192, 8192),
        (Part(("UTCOMMA", "UTCCP"), 2, matrix=("tcgen05 f4", 2 * 128 * 256 * 256), shared=2 * (4 * 128 * 128 + 384 * 8)),
         Part((r"LDG\.E\.64", r"STS\.128", "FENCE"), 3), Part(("UTMALDG",), 2)),
        lambda s: (2 * s.tiles(256, 256), ceil(s.k / 512)), lambda s: s.product_bytes(MXFP4), "FP4 units", 0.8,
        "gemm/mxfp4/fast/8192x8192x8192"),
    # A stage of K = 128: 256 rows of codes that the copy engine writes; scales of each side by a warp.
    Row("native nvfp4, M >= 512", "gemm_nvfp4_sm120", r"^block_mma_tiles<nvfp4_multiplier>$", ("RTX 5090",), Shape(8192, 8192, 8192),
        (Part(("OMMA", "LDSM"), 8), Part(("UTMALDG",), 1, shared=256 * 64), Part(("LDGSTS", _BYTES), 2, cold=(_BYTES,))),
        lambda s: (s.tiles(128, 128), ceil(s.k / 128)), lambda s: s.product_bytes(), "FP4 units", 0.8, "gemm/nvfp4/fast/8192x8192x8192"),
    Row("native mxfp4, M >= 512", "gemm_mxfp4_sm120", r"^block_mma_tiles<mxfp4_multiplier>$", ("RTX 5090",), Shape(8192, 8192, 8192),
        (Part(("OMMA", "LDSM"), 8), Part(("UTMALDG",), 1, shared=256 * 64), Part(("LDGSTS", _BYTES), 2, cold=(_BYTES,))),
        lambda s: (s.tiles(128, 128), ceil(s.k / 128)), lambda s: s.product_bytes(MXFP4), "FP4 units", 0.8,
        "gemm/mxfp4/fast/8192x8192x8192"),
    Row("fast, M >= 512", "gemm_bf16_gfx90a", r"^gemm_matrix<matrix_bf16_worker<matrix_tile<mma::mfma_gfx90a, 128u>, true>", ("MI300X",),
        Shape(8192, 8192, 8192), (Part(("v_mfma", "ds_write"), 4, cold=_OTHER_SCALES),),
        lambda s: (s.tiles(128, 128), ceil(s.k / 32)), lambda s: s.product_bytes(), "bf16 units", 0.7),
    Row("fast, M >= 512", "gemm_bf16_gfx950", r"^gemm_matrix<matrix_bf16_worker<matrix_tile<mma::mfma_gfx950, 128u>, true>", ("MI355X",),
        Shape(8192, 8192, 8192), (Part(("v_mfma", "ds_write"), 4, cold=_OTHER_SCALES),),
        lambda s: (s.tiles(128, 128), ceil(s.k / 32)), lambda s: s.product_bytes(), "bf16 units", None),
    Row("native mxfp4, M >= 512", "gemm_mxfp4_gfx950", r"^scaled_tiles<code_lines>$", ("MI355X",), Shape(8192, 8192, 8192),
        (Part(("v_mfma", "ds_write"), 4, cold=("s_and_saveexec_b64", "global_load_ubyte")),), lambda s: (s.tiles(128, 128), ceil(s.k / 128)),
        lambda s: s.product_bytes(MXFP4), "FP4 units", None),
    Row("exact_blocks, M >= 128", "gemm_blocks_gfx90a",
        r"^gemm_matrix<matrix_blocks_worker<matrix_tile<mma::mfma_gfx90a, 128u>, 16u>", ("MI300X",), Shape(8192, 8192, 8192),
        (Part(("v_mfma", "ds_write"), 4, cold=_OTHER_SCALES),),
        lambda s: (s.tiles(128, 128), ceil(s.k / 32)), lambda s: s.product_bytes(), "bf16 units", None),
]
