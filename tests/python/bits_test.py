# ufp4 - the Python package has the bits of the oracle, of the tool and of ml_dtypes.
# SPDX-License-Identifier: Apache-2.0
import subprocess

import hypothesis
import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from conftest import normal, numerics, same_bits

import ufp4

NAMES = [f.name for f in ufp4.formats()]
RULES = {"nvfp4": "four_over_six", "nv_e1m2": "scale_up", "mxfp4": "mx_ceil", "mx_e1m2": "mx_even"}


def codes_of(q):
    return np.stack([q.codes & 15, q.codes >> 4], axis=-1).reshape(q.shape[0], -1)


def scale_bits(q):
    kind = {"f32": np.uint32, "bf16": np.uint16}.get(q.format.scale, np.uint8)
    return q.scales.view(kind).astype(np.uint32)


def equals_oracle(q, want):
    return (np.array_equal(codes_of(q), want.codes) and np.array_equal(scale_bits(q), want.scales)
            and np.float32(q.tensor_scale).tobytes() == np.float32(want.tensor_scale).tobytes())


def test_the_presets_are_those_of_the_oracle():
    not_listed = {"int8_f32", "mxint8"}  # elements of one byte
    rejected = {"tetrajet2", "if4", "mixfp4", "razer", "hif4",  # what only C++ and C have
                "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3"}
    assert set(NAMES) | not_listed | rejected == set(numerics.PRESETS)
    for name in NAMES:
        values = np.array(ufp4.format(name).values, np.float32)
        assert same_bits(values, numerics.PRESETS[name].element.values)
    for name in not_listed:
        assert ufp4.quantize(np.ones((2, 64), np.float32), name).dequantize().tolist() == [[1.0] * 64] * 2
    for name in rejected:
        with pytest.raises(ValueError, match=f"format not available in Python: {name}"):
            ufp4.quantize(np.ones((2, 64), np.float32), name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cols", [64, 50])
def test_quantize_has_the_bits_of_the_oracle(name, cols):
    x = normal(5, cols)
    x[2, 3] = np.nan
    fmt = numerics.PRESETS[name]
    assert equals_oracle(ufp4.quantize(x, name), numerics.quantize(x, fmt))
    t = numerics.random_hadamard(32, 11)
    q = ufp4.quantize(x, name, rht=ufp4.random_hadamard(32, 11), rounding=ufp4.Stochastic(7, 3))
    assert equals_oracle(q, numerics.quantize(x, fmt, t, numerics.Rounding("stochastic", 7, 3)))
    if name in RULES:
        assert equals_oracle(ufp4.quantize(x, name, rule=RULES[name]), numerics.quantize(x, fmt, rule=RULES[name]))


Rule = numerics.Rule
RULES_OF_VALUES = [
    ("nvfp4", {"search": "mse"}, Rule("nearest", searches=True)),
    ("nvint4", {"search": "mae", "rule": "scale_up"}, Rule("scale_up", searches=True, absolute=True)),
    ("mxfp4", {"search": ufp4.Search("mse", 2, 3), "rule": "mx_ceil"}, Rule("mx_ceil", True, False, 2, 3)),
    ("e1m2_f32", {"search": ufp4.Search(above=0)}, Rule("nearest", searches=True, above=0)),
    ("nvfp4", {"rule": "four_over_six_mae"}, Rule("four_over_six", absolute=True)),
    ("mxint4", {"rule": ufp4.Percentile(900)}, Rule("percentile", per_mille=900)),
]


@pytest.mark.parametrize("name, policies, rule", RULES_OF_VALUES)
def test_rules_that_read_values_have_the_bits_of_the_oracle(name, policies, rule):
    x = normal(7, 200)
    assert equals_oracle(ufp4.quantize(x, name, **policies), numerics.quantize(x, numerics.PRESETS[name], rule=rule))


def test_search_and_percentile_compare_and_reject():
    assert ufp4.Search("mae", 1, 2) == ufp4.Search("mae", 1, 2) != ufp4.Search("mae", 1)
    assert ufp4.Percentile(900) == ufp4.Percentile(900) and hash(ufp4.Search()) == hash(ufp4.Search("mse"))
    assert repr(ufp4.Search("mae", 1)) == "ufp4.Search('mae', 1, None)"
    with pytest.raises(ValueError, match="Search: below must be 0 to 254, got 255"):
        ufp4.Search(below=255)
    with pytest.raises(ValueError, match="Percentile: per_mille must be 1 to 1000, got 0"):
        ufp4.Percentile(0)
    with pytest.raises(ValueError, match="quantize: unknown search: max; it is one of mse, mae"):
        ufp4.quantize(normal(2, 32), "nvfp4", search="max")


@hypothesis.given(st.sampled_from(NAMES), st.integers(1, 6), st.integers(1, 70), st.integers(0, 2**32 - 1),
                  st.sampled_from(["nearest_even", "nearest_away", "toward_zero"]), st.sampled_from([1, 16, 64]))
def test_any_matrix_quantizes_to_the_bits_of_the_oracle(name, rows, cols, seed, rounding, n):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2**32, (rows, cols), np.uint32).view(np.float32)  # any bits: NaN, infinities, subnormals
    ours = ufp4.quantize(x, name, rht=ufp4.random_hadamard(n, 5) if n > 1 else None, rounding=rounding)
    t = numerics.random_hadamard(n, 5) if n > 1 else numerics.IDENTITY
    assert equals_oracle(ours, numerics.quantize(x, numerics.PRESETS[name], t, numerics.Rounding(rounding)))


@pytest.mark.parametrize("name", NAMES)
def test_dequantize_has_the_bits_of_the_oracle(name):
    x = normal(7, 50)
    q = ufp4.quantize(x, name, rht=16)
    want = numerics.quantize(x, numerics.PRESETS[name], numerics.random_hadamard(16, 0))
    assert same_bits(q.dequantize(), np.ascontiguousarray(numerics.dequantize(want)))
    undone = numerics.inverse(numerics.dequantize_padded(want), want.transform)[:, :50]
    assert same_bits(q.dequantize(undo_transform=True), np.ascontiguousarray(undone))
    assert same_bits(q.dequantize("bfloat16"), numerics.dequantize(want).astype(ml_dtypes.bfloat16))
    assert same_bits(ufp4.fake_quantize(x, name, rht=16, undo_transform=True), np.ascontiguousarray(undone))


@pytest.mark.parametrize("pair", [("e1m2_f32", "int4_f32"), ("nvfp4", "nvfp4"), ("mxfp4", "mxint4")])
def test_matmul_in_exact_blocks_has_the_bits_of_the_oracle(pair):
    x, w = normal(5, 96, 1), normal(9, 96, 2)
    t = numerics.random_hadamard(16, 0)
    a, b = (ufp4.quantize(m, name, rht=16) for m, name in zip((x, w), pair))
    oa, ob = (numerics.quantize(m, numerics.PRESETS[name], t) for m, name in zip((x, w), pair))
    assert same_bits(ufp4.matmul(a, b, accumulate="exact_blocks"), numerics.exact_blocks(oa, ob))
    c = normal(5, 9, 3)
    got = ufp4.matmul(a, b, accumulate="exact_blocks", alpha=0.5, beta=2, out=c.copy())
    assert same_bits(got, numerics.exact_blocks(oa, ob, 0.5, 2, c))


@pytest.mark.parametrize("recipe", ["ufp4", "e2m1-baseline", "nvfp4"])
def test_the_products_of_a_recipe_have_the_bits_of_the_oracle(recipe):
    x, w, dy = normal(32, 48, 1), normal(16, 48, 2), normal(32, 16, 3)
    layer = ufp4.Linear(recipe, seed=5, layer=3, accumulate="exact_blocks")
    expected = {gemm: numerics.linear(recipe.replace("-", "_"), 5, 9, 3, gemm, *operands)[2]
                for gemm, operands in (("fprop", (x, w)), ("dgrad", (dy, w)), ("wgrad", (dy, x)))}
    assert same_bits(layer.forward(x, w, 9), expected["fprop"])
    assert same_bits(layer.dgrad(dy, w, 9), expected["dgrad"])
    assert same_bits(layer.wgrad(dy, x, 9), expected["wgrad"])


def test_a_measurement_is_that_of_the_oracle():
    x = normal(20, 128)
    m = ufp4.measure(x, "nvfp4", rht=16)
    want = numerics.measure(numerics.quantize(x, numerics.PRESETS["nvfp4"], numerics.random_hadamard(16, 0)))
    assert np.allclose((m.attenuation, m.sqnr_db, m.bucket_utilization), want, rtol=1e-10)
    assert m.elements == x.size == sum(m.histogram) and m.blocks == x.size // 16


def test_values_and_scales_are_those_of_ml_dtypes():
    x = normal(16, 64)
    for name, scale in (("nvfp4", ml_dtypes.float8_e4m3fn), ("mxfp4", ml_dtypes.float8_e8m0fnu)):
        q = ufp4.quantize(x, name)
        assert q.unpacked().dtype == ml_dtypes.float4_e2m1fn and q.scales.dtype == scale
        length = q.format.block[1]
        scales = np.repeat(q.scales.astype(np.float32) * np.float32(q.tensor_scale), length, axis=1)
        assert same_bits(q.dequantize(), q.unpacked().astype(np.float32) * scales)
    y = np.linspace(-6, 6, 1601, dtype=np.float32)[None, :]
    y = np.pad(y, ((0, 0), (0, 15)), constant_values=6)  # every block has an amax of its own; scale 1 is forced below
    e2m1 = ufp4.Format(ufp4.format("mxfp4").values, "f32", (1, 256))
    blocks = np.concatenate([np.full((7, 1), 6, np.float32), np.resize(y, (7, 255))], axis=1)
    q = ufp4.quantize(blocks, e2m1)
    assert np.array_equal(q.scales, np.ones((7, 1), np.float32))
    assert np.array_equal(codes_of(q), blocks.astype(ml_dtypes.float4_e2m1fn).view(np.uint8))


@pytest.mark.parametrize("name", NAMES)
def test_the_tool_writes_the_same_bits(tool, tmp_path, name):
    x = {"layer.a": normal(40, 96, 1), "layer.b": normal(8, 80, 2, ml_dtypes.bfloat16)}
    source, out = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    ufp4.save(source, x)
    for options, policies in (([], {}), (["--rht", "16", "--seed", "9"], {"rht": ufp4.random_hadamard(16, 9)})):
        subprocess.run([tool, "quantize", source, "-f", name, "--layout", "ufp4", *options, "-o", out], check=True,
                       capture_output=True)
        assert ufp4.load(out) == {key: ufp4.quantize(m, name, **policies) for key, m in x.items()}
    back = tmp_path / "back.safetensors"
    ufp4.save(source, {key: ufp4.quantize(m, name, rht=16) for key, m in x.items()})
    subprocess.run([tool, "dequantize", source, "--to", "f32", "-o", back], check=True, capture_output=True)
    for key, values in safetensors.numpy.load_file(back).items():
        assert same_bits(values, ufp4.quantize(x[key], name, rht=16).dequantize(undo_transform=True))
