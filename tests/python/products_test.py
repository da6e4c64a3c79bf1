# ufp4 - products of every kind of operand, transforms and the amax, against the oracle and against each other.
# SPDX-License-Identifier: Apache-2.0
import ml_dtypes
import numpy as np
import pytest
from conftest import FOUR_BITS, normal, numerics, same_bits

import ufp4

X, W = normal(17, 80, 1), normal(33, 80, 2)
EXACT = {"accumulate": "exact_blocks"}


@pytest.mark.parametrize("name", FOUR_BITS)
def test_prepacked_weights_and_operands_of_the_call_change_no_bit(name):
    a, b = ufp4.quantize(X, name, rht=16), ufp4.quantize(W, name, rht=16)
    for mode in ("fast", "exact_blocks", "folded_bf16"):
        want = ufp4.matmul(a, b, accumulate=mode)
        assert same_bits(ufp4.matmul(a, ufp4.prepack(b), accumulate=mode), want)
        assert same_bits(ufp4.matmul(X, W, format=name, rht=16, accumulate=mode), want)
        assert same_bits(ufp4.matmul(X, b, format=name, rht=16, accumulate=mode), want)
        assert same_bits(ufp4.matmul(a, W, format=ufp4.format(name), rht=16, accumulate=mode), want)
    assert ufp4.prepack(b).shape == b.shape and ufp4.prepack(b).format == b.format


def test_a_plain_operand_is_transformed_as_the_other_was():
    b = ufp4.quantize(W, "nvfp4", rht=16)
    want = numerics.quantize(W, numerics.PRESETS["nvfp4"], numerics.random_hadamard(16, 0))
    transformed = numerics.forward(X, want.transform)
    assert same_bits(ufp4.matmul(X, b, **EXACT), numerics.exact_blocks_plain_left(transformed, want))
    left = ufp4.matmul(b, X, **EXACT)
    assert np.allclose(left, ufp4.matmul(X, b, **EXACT).T, rtol=1e-5, atol=1e-4)
    half = ufp4.matmul(X.astype(ml_dtypes.bfloat16), ufp4.prepack(b), **EXACT)
    assert same_bits(half, ufp4.matmul(X.astype(ml_dtypes.bfloat16).astype(np.float32), b, **EXACT))


def test_bias_factors_and_output_types():
    a, b = ufp4.quantize(X, "e1m2_f32"), ufp4.quantize(W, "e1m2_f32")
    plain, bias = ufp4.matmul(a, b, **EXACT), normal(1, 33)[0]
    assert same_bits(ufp4.matmul(a, b, bias=bias, **EXACT), plain + bias)
    assert same_bits(ufp4.matmul(a, b, dtype="float16", **EXACT), plain.astype(np.float16))
    assert same_bits(ufp4.matmul(a, b, dtype=ml_dtypes.bfloat16, **EXACT), plain.astype(ml_dtypes.bfloat16))
    assert same_bits(ufp4.matmul(a, b, alpha=0.5, **EXACT), plain / 2)
    into = np.zeros((33, 17), np.float32).T
    assert ufp4.matmul(a, b, out=into, **EXACT) is into and same_bits(into.copy(), plain)


@pytest.mark.parametrize("n", [16, 32, 64, 128, 256])
def test_transforms_are_those_of_the_oracle(n):
    x = normal(5, 300)
    padded = np.pad(x, ((0, 0), (0, -300 % n)))
    for ours, theirs in ((ufp4.hadamard(n), numerics.hadamard(n)),
                         (ufp4.random_hadamard(n, 2**63 + 1), numerics.random_hadamard(n, 2**63 + 1)),
                         (ufp4.random_hadamard(n, 3, to_bf16=True), numerics.random_hadamard(n, 3, True))):
        y = ufp4.hadamard_forward(x, ours)
        assert same_bits(y, np.ascontiguousarray(numerics.forward(padded, theirs)))
        back = ufp4.hadamard_inverse(y, ours, cols=300)
        assert same_bits(back, np.ascontiguousarray(numerics.inverse(y, theirs)[:, :300]))
        assert ufp4.amax(x, ours) == np.abs(y).max()
    assert ufp4.hadamard_forward(x.astype(np.float16), n).dtype == np.float16
    assert ufp4.hadamard_forward(x, n, dtype="bfloat16").dtype == ml_dtypes.bfloat16


def test_shards_have_the_bits_of_the_whole():
    x, policies = normal(48, 256), {"rht": 32, "rounding": ufp4.Stochastic(5)}
    amax = ufp4.amax(x, 32)
    whole = ufp4.quantize(x, "nvfp4", **policies)
    part = ufp4.quantize(x[16:32, 64:128], "nvfp4", shard=(16, 64, 256), tensor_amax=amax, **policies)
    assert same_bits(part.codes, np.ascontiguousarray(whole.codes[16:32, 32:64]))
    assert same_bits(part.scales, np.ascontiguousarray(whole.scales[16:32, 4:8]))
    assert part.tensor_scale == whole.tensor_scale


def test_square_blocks_and_a_search_for_the_scale():
    square = ufp4.format("nvfp4").with_block(16, 16)
    q = ufp4.quantize(normal(40, 64), square)
    assert q.scales.shape == (3, 4) and q.nbytes == 40 * 32 + 12 + 4
    assert ufp4.measure(X, "e1m2_f32", search="mse").sqnr_db > ufp4.measure(X, "e1m2_f32").sqnr_db


@pytest.mark.parametrize("recipe", ufp4.recipes())
def test_the_products_of_every_recipe_add_and_write_in_place(recipe):
    x, w, dy = normal(32, 48, 1), normal(16, 48, 2), normal(32, 16, 3)
    layer = ufp4.Linear(recipe, seed=2, layer=7)
    for call, exact in ((lambda **to: layer.dgrad(dy, w, 4, **to), dy @ w),
                        (lambda **to: layer.wgrad(dy, x, 4, **to), dy.T @ x)):
        first = call()
        assert np.linalg.norm(first - exact) < 0.6 * np.linalg.norm(exact)  # stochastic rounding of outliers
        total = np.ones_like(first)
        assert call(out=total, add=True) is total and np.allclose(total, first + 1, rtol=1e-5, atol=1e-5)
    bias = normal(1, 16)[0]
    assert np.allclose(layer.forward(x, w, 4, bias=bias), layer.forward(x, w, 4) + bias, rtol=1e-5, atol=1e-5)
    assert layer.forward(x.astype(ml_dtypes.bfloat16), w).dtype == ml_dtypes.bfloat16
