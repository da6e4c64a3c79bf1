# ufp4 - hostile arguments of every operation: a result or an error, and an error has written nothing.
# SPDX-License-Identifier: Apache-2.0
#
# UFP4_FUZZ_EXAMPLES=5000 python -m pytest fuzz_test.py makes that many random calls of each kind.
import contextlib
import os

import hypothesis
import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest
from conftest import NAMES

import ufp4

TYPES = [np.float32, np.float32, np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.int8, np.complex64]
EXAMPLES = hypothesis.settings(max_examples=int(os.environ.get("UFP4_FUZZ_EXAMPLES", "100")))
ERRORS = ValueError, TypeError, MemoryError, OverflowError


def strange_views(memory, rows, cols, draw):
    """A matrix inside a buffer of bytes: any strides that stay inside, transposed, reversed, broadcast, unaligned."""
    dtype = np.dtype(draw(st.sampled_from(TYPES)))
    size = dtype.itemsize
    start = 64 + draw(st.sampled_from([0, 0, 0, size, 1]))
    step = draw(st.sampled_from([size, size, 2 * size, 0]))
    pitch = max(step, size) * cols + draw(st.sampled_from([0, 0, size, 3 * size]))
    strides = [(pitch, step), (step, pitch if cols else 0), (0, step)][draw(st.sampled_from([0, 0, 0, 1, 2]))]
    if strides[0] * max(rows - 1, 0) + strides[1] * max(cols - 1, 0) + start + size > memory.nbytes - 64:
        strides = (0, 0)
    x = np.ndarray((rows, cols), dtype, memory, start, strides)
    x = draw(st.sampled_from([lambda v: v, lambda v: v, lambda v: v[::-1], lambda v: v[:, ::-1], lambda v: v.T]))(x)
    if draw(st.integers(0, 7)) == 0:
        x.flags.writeable = False
    return x


@st.composite
def matrices(draw, rows, cols, fill):
    """A buffer and a matrix in it, mostly an ordinary one; its shape is a little wrong now and then."""
    if draw(st.integers(0, 9)) < 7:
        memory = np.full(128 + 4 * rows * cols, fill, np.uint8)
        dtype = draw(st.sampled_from([np.float32, np.float32, np.float16, ml_dtypes.bfloat16]))
        return memory, np.ndarray((rows, cols), dtype, memory, 64)
    rows += draw(st.sampled_from([0] * 9 + [1]))
    cols += draw(st.sampled_from([0] * 9 + [-1 if cols else 0, 1]))
    memory = np.full(256 + 16 * (rows + 4) * (cols + 8) * 2, fill, np.uint8)
    return memory, strange_views(memory, rows, cols, draw)


def call(operation, buffers, outputs):
    """Runs it. Inputs never change; outputs change only where they are, and not at all by a call that fails."""
    before = [b.copy() for b in buffers]
    failed = True
    with contextlib.suppress(*ERRORS):
        operation()
        failed = False
    for memory, was in zip(buffers, before):
        out = next((o for m, o in outputs if m is memory), None)
        if failed or out is None:
            assert np.array_equal(memory, was), "bytes changed"
            continue
        mask = np.zeros(memory.nbytes, bool)
        offset = out.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
        at = np.ndarray(out.shape, f"V{out.itemsize}", mask.view(np.uint8), offset, out.strides)
        at[...] = np.frombuffer(b"\1" * out.itemsize, f"V{out.itemsize}")[0]
        assert np.array_equal(memory[~mask], was[~mask]), "bytes outside the output changed"
    return not failed


POLICIES = st.fixed_dictionaries({}, optional={
    "rht": st.sampled_from([16, 16, 32, 32, 64, 64, 0, None, None, 17, -1, 2**40, "x"]),
    "rounding": st.sampled_from(["toward_zero", "nearest_away", ufp4.Stochastic(3), None, None, 4, "up"]),
    "rule": st.sampled_from([None, None, None, "scale_up", "mx_ceil", "four_over_six", ufp4.Percentile(800), "none", 1]),
    "choose_grid": st.sampled_from([None, None, None, "mae", "max", "rms", 1]),
    "search": st.sampled_from([None, None, "mse", ufp4.Search("mae", 1), "max", 1]),
    "tensor_amax": st.sampled_from([None, None, None, 1.0, 0.0, -1.0, float("nan"), "x"]),
    "shard": st.sampled_from([None] * 6 + [(0, 0, 512), (16, 64, 256), (1, 2), (2**64, 0, 0), (2**63,) * 3,
                                           (-1, 0, 0)])})


@EXAMPLES
@hypothesis.given(st.data())
def test_operations_on_one_matrix_write_their_output_or_nothing(data):
    draw = data.draw
    rows, cols = draw(st.integers(0, 20)), draw(st.integers(0, 70))
    x_memory, x = draw(matrices(rows, cols, 0x3C))
    out_memory, out = draw(matrices(rows, cols, 0xA5))
    name, policies, t = draw(st.sampled_from(NAMES)), draw(POLICIES), draw(st.sampled_from([16, 16, 64, 0, 5]))
    wide_memory, wide = draw(matrices(rows, -(-cols // 16) * 16, 0x5A))
    same = draw(st.integers(0, 5)) == 0
    target, target_memory = (x, x_memory) if same else (out, out_memory)
    buffers, outputs = [x_memory, out_memory], [(target_memory, target)]
    call(lambda: ufp4.quantize(x, name, **policies), buffers, [])
    call(lambda: ufp4.measure(x, name, **policies), buffers, [])
    call(lambda: ufp4.amax(x, t), buffers, [])
    q = ufp4.quantize(np.ones((rows, cols), np.float32), name, rht=16)
    call(lambda: q.dequantize(out=out, undo_transform=draw(st.booleans())), buffers, [(out_memory, out)])
    call(lambda: ufp4.fake_quantize(x, name, out=target, **policies), buffers, outputs)
    call(lambda: ufp4.cast(q, draw(st.sampled_from([*NAMES, "fp4"]))), buffers, [])
    call(lambda: ufp4.hadamard_forward(x, t, out=wide), [x_memory, wide_memory], [(wide_memory, wide)])
    call(lambda: ufp4.hadamard_inverse(wide, t, out=x), [x_memory, wide_memory], [(x_memory, x)])
    call(lambda: ufp4.hadamard_forward(wide, t, out=wide), [wide_memory], [(wide_memory, wide)])


@EXAMPLES
@hypothesis.given(st.data())
def test_products_write_their_output_or_nothing(data):
    draw = data.draw
    m, n, k = draw(st.integers(0, 20)), draw(st.integers(0, 40)), draw(st.integers(0, 70))
    a_memory, a = draw(matrices(m, k, 0x3C))
    b_memory, b = draw(matrices(n, k, 0x3D))
    c_memory, c = draw(matrices(m, n, 0xA5))
    buffers, outputs = [a_memory, b_memory, c_memory], [(c_memory, c)]
    name = draw(st.sampled_from(NAMES))
    mode = draw(st.sampled_from(["fast", "fast", "exact_blocks", "exact_blocks", "folded_bf16", "none"]))
    ones = np.ones(2 * n + 1, np.float32)
    bias = draw(st.sampled_from([None, None, ones[:n], ones[:n], ones[:n + 1], ones[:2 * n:2]]))
    how = {"alpha": draw(st.sampled_from([1.0, float("nan"), 1e38])), "beta": draw(st.sampled_from([0.0, 1.0])),
           "bias": bias, "accumulate": mode}
    rht = draw(st.sampled_from([None, 16, 16, 3]))
    call(lambda: ufp4.matmul(a, b, format=name, rht=rht, out=c, **how), buffers, outputs)
    w = ufp4.quantize(np.ones((n, k), np.float32), name)
    right = draw(st.sampled_from([w, ufp4.prepack(w)])) if w.format.code_bits == 4 else w
    call(lambda: ufp4.matmul(a, right, out=c, **how), buffers, outputs)
    layer = {"recipe": draw(st.sampled_from([*ufp4.recipes(), "none"])),
             "layer": draw(st.sampled_from([0, 1, 2, 65535, 65536])),
             "seed": draw(st.sampled_from([0, 1, 2, 2**64 - 1, 2**64]))}
    add = draw(st.booleans())
    call(lambda: ufp4.linear_forward(a, b, bias=bias, out=c, **layer), buffers, outputs)
    call(lambda: ufp4.linear_backward_input(c, b, out=a, add=add, **layer), buffers, [(a_memory, a)])
    call(lambda: ufp4.linear_backward_weight(c, a, out=b, add=add, **layer), buffers, [(b_memory, b)])


@EXAMPLES
@hypothesis.given(st.data())
def test_arrays_of_other_projects_codes_are_checked(data):
    draw = data.draw
    numbers = st.sampled_from([0, 1, 2, 3, 4, 8, 16, 32])
    codes = np.zeros((draw(numbers), draw(numbers)), draw(st.sampled_from(
        [np.uint8, np.uint8, np.int8, ml_dtypes.float4_e2m1fn])))
    scales = np.zeros((draw(numbers), draw(numbers)), draw(st.sampled_from(
        [np.uint8, np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu])))
    if draw(st.integers(0, 7)) == 0:
        codes, scales = codes[::-1], scales[:, ::2]
    cols = draw(st.sampled_from([None, 0, 1, 16, 2**63, 2**64, -1, 1.5, "x"]))
    with contextlib.suppress(*ERRORS):
        q = ufp4.QuantizedMatrix.from_arrays(codes, scales, draw(st.sampled_from(NAMES)), cols=cols,
                                             tensor_scale=draw(st.sampled_from([1.0, float("nan"), 1e40])),
                                             transform=draw(st.sampled_from([None, 16, 16, 3])))
        assert q.dequantize().shape == q.shape and ufp4.matmul(q, q).shape == (q.shape[0],) * 2


HUGE = [(2**40, 2**20), (2**30, 2**30), (2**58, 4), (1, 2**60), (2**20, 2**40)]


@pytest.mark.parametrize("shape", HUGE)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_matrices_that_memory_cannot_hold_are_errors_of_every_operation(shape, dtype):
    huge = np.lib.stride_tricks.as_strided(np.ones(1, dtype), shape, (0, 0))
    small = np.ones((16, 16), np.float32)
    calls = [lambda: ufp4.quantize(huge, "e1m2_f32"), lambda: ufp4.fake_quantize(huge, "mxfp4"),
             lambda: ufp4.hadamard_forward(huge, 16), lambda: ufp4.matmul(huge, huge, format="mxfp4"),
             lambda: ufp4.linear_forward(huge, small), lambda: ufp4.linear_backward_weight(huge, huge),
             lambda: ufp4.QuantizedMatrix.from_arrays(huge.view(np.uint8)[:, :0], small, "mxfp4", cols=shape[1]),
             lambda: ufp4.quantize(small, "mxfp4").dequantize(out=huge), lambda: ufp4.matmul(small, small, bias=huge)]
    for each in calls:
        with pytest.raises(ERRORS):
            each()


@pytest.mark.parametrize("argument", [None, 0, "x", b"x", object(), [[1.0]], ..., float("nan")])
def test_what_is_no_array_is_an_error_of_every_operation(argument):
    x = np.ones((4, 32), np.float32)
    q = ufp4.quantize(x, "mxfp4")
    for each in (lambda: ufp4.quantize(argument, "mxfp4"), lambda: ufp4.measure(argument, "mxfp4"),
                 lambda: ufp4.amax(argument), lambda: ufp4.fake_quantize(argument, "mxfp4"),
                 lambda: ufp4.hadamard_forward(argument, 16), lambda: ufp4.hadamard_inverse(argument, 16),
                 lambda: ufp4.matmul(argument, q), lambda: ufp4.matmul(q, argument), lambda: ufp4.prepack(argument),
                 lambda: ufp4.linear_forward(argument, x), lambda: ufp4.linear_forward(x, argument),
                 lambda: ufp4.linear_backward_input(argument, x), lambda: ufp4.linear_backward_weight(x, argument),
                 lambda: ufp4.QuantizedMatrix.from_arrays(argument, q.scales, "mxfp4"),
                 lambda: ufp4.QuantizedMatrix.from_arrays(q.codes, argument, "mxfp4")):
        with pytest.raises((ValueError, TypeError)):
            each()
