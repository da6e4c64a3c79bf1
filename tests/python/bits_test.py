# ufp4 - the Python package has the bits of the oracle, of the tool and of ml_dtypes.
# SPDX-License-Identifier: Apache-2.0
import json
import subprocess

import hypothesis
import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from conftest import FOUR_BITS, NAMES, PLAIN, normal, numerics, same_bits

import ufp4

RULES = {"nvfp4": "four_over_six", "nv_e1m2": "scale_up", "mxfp4": "mx_ceil", "mx_e1m2": "mx_even"}


def codes_of(q):
    return np.stack([q.codes & 15, q.codes >> 4], axis=-1).reshape(q.shape[0], -1)


def equals_oracle(q, want):
    return (np.array_equal(q.codes, want.packed()) and np.array_equal(q.scales.view(np.uint8).ravel(), want.scale_bytes())
            and np.float32(q.tensor_scale).tobytes() == np.float32(want.tensor_scale).tobytes())


def test_the_presets_are_those_of_the_oracle():
    assert sorted(NAMES) == sorted(numerics.PRESETS) and len(PLAIN) == 9 and len(FOUR_BITS) == 14
    for name in NAMES:
        f, want = ufp4.format(name), numerics.PRESETS[name]
        assert same_bits(np.array(f.values, np.float32), want.element.values[:16])
        assert f.code_bits == getattr(want.element, "bits", 4) and f.has_tensor_scale == want.tensor_scale
        grids = [want.grid(g).values[:16] * want.factor(g) for g in range(len(want.more) + 1)]
        assert same_bits(np.array(f.grids, np.float32), np.array(grids, np.float32))
        assert f.exponent_groups == list(want.groups)
        q = ufp4.quantize(np.ones((128, 1024), np.float32), name)
        assert f.bits == 8 * (q.codes.nbytes + q.scales.nbytes) / (128 * 1024)
    assert ufp4.format("tetrajet2").outer_scale == ("f32", 128) and ufp4.format("nvfp4").outer_scale == ("f32", "tensor")
    assert ufp4.format("hif4").outer_scale is None and ufp4.format("hif4").scale == "e6m2"


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
    q = ufp4.quantize(x, name, rht=ufp4.random_hadamard(64, 11), rounding=ufp4.Eden(7, 3))
    eden = numerics.Rounding("eden", 7, 3)
    assert equals_oracle(q, numerics.quantize(x, fmt, numerics.random_hadamard(64, 11), eden))
    if name in RULES:
        assert equals_oracle(ufp4.quantize(x, name, rule=RULES[name]), numerics.quantize(x, fmt, rule=RULES[name]))


@pytest.mark.parametrize("name", ["if4", "mixfp4", "razer"])
def test_the_error_that_chooses_a_grid_has_the_bits_of_the_oracle(name):
    x = normal(40, 200)
    made = []
    for error, word in (("mse", "squared"), ("mae", "absolute"), ("max", "largest")):
        made.append(ufp4.quantize(x, name, choose_grid=error))
        rule = numerics.Rule(numerics.default_rule(numerics.PRESETS[name]), grids=word)
        assert equals_oracle(made[-1], numerics.quantize(x, numerics.PRESETS[name], rule=rule))
        assert same_bits(made[-1].dequantize(), ufp4.fake_quantize(x, name, choose_grid=error))
        assert ufp4.measure(x, name, choose_grid=error).sqnr_db > 15
    assert made[0] == ufp4.quantize(x, name)
    assert name == "razer" or made[0] != made[1] != made[2] != made[0]  # razer's grids differ in one value
    with pytest.raises(ValueError, match="choose_grid has no effect: the format has one grid"):
        ufp4.quantize(x, "nvfp4", choose_grid="max")
    with pytest.raises(ValueError, match="quantize: unknown choose_grid: rms; it is one of mse, mae, max"):
        ufp4.quantize(x, name, choose_grid="rms")


@pytest.mark.parametrize("cols", [256, 90])
def test_ms_eden_has_the_bits_of_the_oracle(cols):
    x = normal(7, cols, 6)
    for n in (16, 128):
        q = ufp4.quantize_ms_eden(x, ufp4.random_hadamard(n, 5), ufp4.Stochastic(7, 3))
        assert equals_oracle(q, numerics.ms_eden(x, numerics.random_hadamard(n, 5), 7, 3))
    with pytest.raises(ValueError, match="quantize_ms_eden: MS-EDEN needs a transform of at least the block's length"):
        ufp4.quantize_ms_eden(x, 0, ufp4.Stochastic(1))
    with pytest.raises(ValueError, match="quantize: eden needs a transform of at least the block's length"):
        ufp4.quantize(x, "nvfp4", rounding=ufp4.Eden(1))


@pytest.mark.parametrize("to", FOUR_BITS)
def test_a_cast_has_the_bits_and_the_counts_of_the_oracle(to):
    for name in FOUR_BITS:
        x = normal(6, 90, 4)
        x[1, 70] = np.inf
        t = numerics.random_hadamard(16, 0) if name == "nvint4" else numerics.IDENTITY
        q = ufp4.quantize(x, name, rht=t.n if t.n > 1 else None)
        got, lost = ufp4.cast(q, to)
        want, counts, _ = numerics.cast(numerics.quantize(x, numerics.PRESETS[name], t), numerics.PRESETS[to])
        assert equals_oracle(got, want) and got.transform == q.transform and got.shape == q.shape
        assert (lost.blocks, lost.inexact_blocks, lost.inexact_elements) == counts


def test_exact_casts_lose_nothing_and_others_report_their_sqnr():
    x = normal(32, 256)
    for name, to in (("mxfp4", "nvfp4"), ("nv_e1m2", "nvint4"), ("nvint4", "nv_e1m2"), ("mxint4", "mx_e1m2"),
                     ("nvfp4", "tetrajet2"), ("nvfp4", "if4"), ("nvfp4", "mixfp4"), ("tetrajet2", "e2m1_f32")):
        q = ufp4.quantize(x, name)
        got, lost = ufp4.cast(q, ufp4.format(to))
        assert np.array_equal(got.dequantize(), q.dequantize()) and lost.inexact_blocks == 0
        assert lost.sqnr_db == np.inf and got.format == ufp4.format(to)
    q = ufp4.quantize(x, "nvfp4")
    got, lost = ufp4.cast(q, "mxfp4")
    before, after = q.dequantize().astype(np.float64), got.dequantize().astype(np.float64)
    assert lost.sqnr_db == pytest.approx(10 * np.log10((before**2).sum() / ((after - before)**2).sum()), abs=1e-9)
    assert 15 < lost.sqnr_db < 40 and lost.signal == pytest.approx((before**2).sum())


def test_a_cast_that_cannot_be_made_is_a_value_error():
    q = ufp4.quantize(normal(4, 64), "mxfp4")
    with pytest.raises(ValueError, match="cast: a format with elements of one byte"):
        ufp4.cast(q, "mxint8")
    with pytest.raises(ValueError, match="blocks of as many rows, got 1 and 16"):
        ufp4.cast(q, ufp4.format("nvfp4").with_block(16, 16))
    with pytest.raises(ValueError, match="cast: unknown format: fp4"):
        ufp4.cast(q, "fp4")


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


PAIRS = [("e1m2_f32", "int4_f32"), ("nvfp4", "nvfp4"), ("mxfp4", "mxint4"), ("tetrajet2", "tetrajet2"), ("if4", "nvfp4"),
         ("mixfp4", "razer"), ("hif4", "hif4"), ("mxfp8_e4m3", "mxfp4"), ("mxfp6_e2m3", "mxint4"), ("int8_f32", "if4")]


@pytest.mark.parametrize("pair", PAIRS)
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
    expected = {gemm: numerics.linear(recipe, 5, 9, 3, gemm, *operands)[2]
                for gemm, operands in (("fprop", (x, w)), ("dgrad", (dy, w)), ("wgrad", (dy, x)))}
    assert same_bits(layer.forward(x, w, 9), expected["fprop"])
    assert same_bits(layer.dgrad(dy, w, 9), expected["dgrad"])
    assert same_bits(layer.wgrad(dy, x, 9), expected["wgrad"])


@pytest.mark.parametrize("name", NAMES)
def test_a_measurement_is_that_of_the_oracle(name):
    x = normal(20, 128)
    m = ufp4.measure(x, name, rht=16)
    q = numerics.quantize(x, numerics.PRESETS[name], numerics.random_hadamard(16, 0))
    attenuation, sqnr_db, bucket_utilization = numerics.measure(q)
    assert np.allclose((m.attenuation, m.sqnr_db), (attenuation, sqnr_db), rtol=1e-10)
    assert m.elements == x.size and m.blocks == x.size // q.format.block
    if name in PLAIN:
        assert np.isclose(m.bucket_utilization, bucket_utilization, rtol=1e-10) and sum(m.histogram) == x.size


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


def tensors_in(path):
    """The bytes of each tensor of a .safetensors file, and its metadata."""
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    metadata = header.pop("__metadata__", {})
    return {name: data[begin + t["data_offsets"][0]:begin + t["data_offsets"][1]] for name, t in header.items()}, metadata


@pytest.mark.parametrize("name", NAMES)
def test_a_file_has_the_codes_and_scales_of_the_oracle(name, tmp_path):
    x, fmt = normal(6, 150), numerics.PRESETS[name]
    want = numerics.quantize(x, fmt)
    ufp4.save(tmp_path / "w.safetensors", {"w": ufp4.quantize(x, name)})
    tensors, metadata = tensors_in(tmp_path / "w.safetensors")
    assert tensors["w_packed"] == want.packed().tobytes() and tensors["w_scale"] == want.scale_bytes().tobytes()
    assert ("w_tensor_scale" in tensors) == fmt.tensor_scale
    if fmt.tensor_scale:
        assert tensors["w_tensor_scale"] == np.float32(want.tensor_scale).tobytes()
    words = dict(word.split("=") for word in metadata["ufp4.w"].split())
    assert words["cols"] == "150" and words["block"] == "x".join(["1", "/".join(str(n) for n in (fmt.block, *fmt.groups))])
    grids = [words[key].split("*") for key in sorted(words) if key.startswith("grid")]
    if "," in grids[0][0]:
        values = [np.array(g[0].split(","), np.float32) * np.float32(g[1] if len(g) > 1 else 1) for g in grids]
        assert same_bits(np.array(values), np.array(ufp4.format(name).grids, np.float32))
    assert words.get("outer") == ("f32/128" if name == "tetrajet2" else None)


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
