# ufp4 - arrays in and out: types, strides, DLPack, no copies, and errors before anything is written.
# SPDX-License-Identifier: Apache-2.0
import base64
import copy
import ctypes
import pickle
import zlib

import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest
from conftest import NAMES, bits, normal, same_bits

import ufp4


class Capsule:
    """An object with nothing but DLPack."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **kwargs):
        return self.x.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_strides_of_any_sign_are_read_in_place(dtype):
    x = normal(24, 64, 1, dtype)
    want = ufp4.quantize(x, "nvfp4")
    assert ufp4.quantize(np.asfortranarray(x), "nvfp4") == want
    wide = np.zeros((48, 128), dtype)
    wide[::2, ::2] = x
    assert ufp4.quantize(wide[::2, ::2], "nvfp4") == want
    assert ufp4.quantize(x[::-1, ::-1].copy()[::-1, ::-1], "nvfp4") == want
    read_only = x.copy()
    read_only.flags.writeable = False
    assert ufp4.quantize(read_only, "nvfp4") == want
    if dtype != ml_dtypes.bfloat16:
        assert ufp4.quantize(Capsule(x), "nvfp4") == want


class OnDevice:
    """An array of float32 in the memory of a device, as DLPack describes it. No byte of it exists."""

    class Tensor(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                    ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                    ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                    ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

    def __init__(self, kind, number):
        self.device = kind, number
        self.shape, self.strides = (ctypes.c_int64 * 2)(4, 32), (ctypes.c_int64 * 2)(32, 1)
        self.made = self.Tensor(4096, (ctypes.c_int32 * 2)(kind, number), 2, 2, 32, 1, self.shape, self.strides)

    def __dlpack__(self, **keywords):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.made), b"dltensor", None)

    def __dlpack_device__(self):
        return self.device


@pytest.mark.parametrize("kind, number, text", [(2, 1, "the CUDA device 1"), (10, 0, "the ROCm device 0"),
                                                (8, 0, "device 0 of DLPack's kind 8")])
def test_an_array_of_another_device_is_an_error_that_names_it(kind, number, text):
    x = normal(4, 32)
    message = f"x is in the memory of {text}, not of the CPU; ufp4.cuda has the operations on CUDA tensors"
    for call in (ufp4.amax, lambda a: ufp4.quantize(a, "nvfp4"), lambda a: ufp4.linear_forward(a, x)):
        with pytest.raises(ValueError, match=message):
            call(OnDevice(kind, number))


def test_outputs_are_written_in_place():
    x = normal(6, 32)
    q = ufp4.quantize(x, "e1m2_f32")
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
        guarded = np.full((8, 34), 7, dtype)
        out = guarded[1:7, 1:33]
        assert q.dequantize(out=out) is out
        assert same_bits(out.copy(), q.dequantize(dtype))
        guarded[1:7, 1:33] = 7
        assert (guarded == np.asarray(7, dtype)).all()
    capsule = Capsule(np.zeros((6, 32), np.float32))
    assert q.dequantize(out=capsule) is capsule and same_bits(capsule.x, q.dequantize())
    same = x.copy()
    assert ufp4.fake_quantize(same, "e1m2_f32", out=same) is same and same_bits(same, q.dequantize())


def test_codes_and_scales_are_views_that_keep_their_memory():
    q = ufp4.quantize(normal(6, 64), "nvfp4")
    codes, scales = q.codes, q.scales
    assert np.shares_memory(codes, q.codes) and np.shares_memory(scales.view(np.uint8), q.scales.view(np.uint8))
    before = codes.copy(), scales.copy()
    del q
    assert same_bits(codes, before[0]) and same_bits(scales, before[1])


@pytest.mark.parametrize("name", NAMES)
def test_from_arrays_refers_to_the_arrays(name):
    q = ufp4.quantize(normal(5, 50), name, rht=64)
    parts = {"cols": 50, "tensor_scale": q.tensor_scale, "transform": q.transform}
    made = ufp4.QuantizedMatrix.from_arrays(q.codes, q.scales, name, **parts)
    assert made == q and made.codes.ctypes.data == q.codes.ctypes.data
    assert same_bits(made.dequantize(undo_transform=True), q.dequantize(undo_transform=True))
    if q.format.scale != "f32":
        assert ufp4.QuantizedMatrix.from_arrays(q.codes, q.scales.view(np.uint8), name, **parts) == q
    is_e2m1 = name in ("nvfp4", "mxfp4", "e2m1_f32", "tetrajet2")
    assert q.unpacked().dtype == (ml_dtypes.float4_e2m1fn if is_e2m1 else np.uint8)
    if is_e2m1:
        assert ufp4.QuantizedMatrix.from_arrays(q.unpacked(), q.scales, name, **parts) == q


@pytest.mark.parametrize("name", NAMES)
def test_pickles_copies_and_files_have_the_same_bits(name, tmp_path):
    weights = {"a": ufp4.quantize(normal(5, 50), name, rht=16), "b": ufp4.quantize(normal(32, 64), name)}
    assert pickle.loads(pickle.dumps(weights)) == weights == copy.deepcopy(weights)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(weights["a"], protocol)) == weights["a"]
    path = tmp_path / "weights.safetensors"
    ufp4.save(path, {**weights, "bias": np.arange(3.0)}, metadata={"made": "here"})
    assert ufp4.load(path) == weights and ufp4.load(path, "a") == weights["a"]


def test_files_of_other_layouts_are_read(tmp_path):
    path = tmp_path / "weights.safetensors"
    for name in ("nvfp4", "mxfp4"):
        q = ufp4.quantize(normal(32, 64), name)
        for layout in ("compressed_tensors", "modelopt", "ufp4", "f4") + (("gpt_oss",) if name == "mxfp4" else ()):
            ufp4.save(path, {"w": q}, layout=layout)
            assert ufp4.load(path, "w") == q
    with pytest.raises(ValueError, match="is neither nvfp4 nor mxfp4"):
        ufp4.save(path, {"w": ufp4.quantize(normal(4, 16), "nvint4")}, layout="modelopt")
    with pytest.raises(ValueError, match="has no quantized weight named absent"):
        ufp4.load(path, "absent")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="size mismatch|outside the file"):
        ufp4.load(path)
    with pytest.raises(OSError):
        ufp4.load(tmp_path / "absent")


def test_values_can_be_compared_pickled_and_printed():
    for value in (ufp4.format("nvfp4"), ufp4.format("nvfp4").with_block(16, 16), ufp4.random_hadamard(64, 3, to_bf16=True),
                  ufp4.Stochastic(2**64 - 1, 4), ufp4.quantize(normal(2, 16), "nvfp4").transform):
        again = pickle.loads(pickle.dumps(value))
        assert again == value and hash(again) == hash(value) and repr(again) == repr(value)
    own = ufp4.Format([i / 4 for i in range(-8, 8)], "bf16", (1, 8))
    assert eval(repr(own)) == own and own.bits == 6 and own.name == ""
    assert ufp4.format("nvfp4") != ufp4.format("mxfp4") and ufp4.format("nvfp4") != "nvfp4"
    assert ufp4.signed_hadamard(ufp4.random_hadamard(32, 5).signs) == ufp4.random_hadamard(32, 5)
    assert repr(ufp4.quantize(normal(2, 16), "nvfp4")) == "<ufp4.QuantizedMatrix nvfp4, 2 x 16>"


def test_a_format_of_the_programs_own_works_in_every_operation(tmp_path):
    own = ufp4.Format([i / 4 for i in range(-8, 8)], "bf16", (1, 8))
    x = normal(6, 24)
    q = ufp4.quantize(x, own)
    assert same_bits(ufp4.fake_quantize(x, own), q.dequantize()) and ufp4.measure(x, own).sqnr_db > 15
    assert pickle.loads(pickle.dumps(q)) == q
    assert np.allclose(ufp4.matmul(q, q), q.dequantize() @ q.dequantize().T, rtol=1e-5, atol=1e-4)


# Pickles (compressed) of quantized matrices, written by the version 0.1.0: versioning.md promises that later versions read them.
OLD_PICKLES = {
    "nvfp4": """
eNprYJmqyMQABj1cpWkFJnrxyflFqVN6+ANLE/NKMqtSU3wTS4oyK6ZMnqLZOEUjg6GHzS2/KDexBCoQO0XDnQEK3O0fwBgfYIwfUIYDTI0DB4whAGNIQBkN
MDX7Yebsh5mzH2bOAZiaAzBzDsDMOQA1J7WHJdUk13iKN6O3QNuUDm+GkilJ3gru9snnbUHSQC9whhQl5hWnAf0B8YW3ANAbXv+BwJsRSsEZqHwsvNTO9ilJ
PWJ5pbkFlZDQ08stzSnJTCwqSqyc0sMTX5SanJ9XXFJUmgwKtB5WsMopPex5KRAlk6d4M7ROcWZMmtI+JWiKBtB0ZpDDM4R7WFNKKgtSQZqYSg2ndHZA5Jl7
GGum+Pn5ITkI5MVOZ4Pjltdkwzd6l4psf3xSxqz4YLzJ7NrA1Nl//uXkpcv6HbkYoR/25cC6Wzwn3+z+e3zv7popQG0ZQhmiIPszxBG2MwFtl+90Zqupq6mu
BasCIj0AftbG0A==
""",
    "int8_f32": """
eNprYJnqw8QABj1cpWkFJnrxyflFqVN6+ANLE/NKMqtSU3wTS4oyK6ZMnqLZOEUjg6GHzS2/KDexBCoQO0XDnQEK3O0/QBkOMBEHDhhDAMYQgTEkYAwZGEMB
xlCCMVRgDDUYQwPG0IIxdGAMPQgjtYc5zdhoijejt0DblE5vxpIpSd4KcLcBfcAZUpSYV5wG9AbEE96MsVM626ck9YjlleYWVEKCQC+3NKckM7GoKLFySg9P
fFFqcn5ecUlRaTLI5z2sYJVTetjzUiBKJk/xZmid4syYNKV9StAUDaDlzN4KbVMyhHtYU0oqC1JBmphKDad0dkDkmXsYa6b4+fl5/QcCMOHNAHRop3NCo/HZ
esktaQyzfJ7ThDkFaE2GUIYoyL0Z4gjXMgFdK9PDlGaC7EYbrG6UaHVStMWGQWYDkR4AMDvAxg==
""",
    "mxfp4": """
eNprYJn6hJEBDHq4StMKTPTik/OLUqf08AeWJuaVZFalpvgmlhRlVkyZPEWzcYpGBkMPm1t+UW5iCVQgdoqGOwMUuNs/gDE+wBg/oAwHmBoHDhhDAMaQgDIa
YGr2w8zZDzNnP8ycAzA1B2DmHICZcwBqTmoPS6pFrsEUb0ZvhbYpnd4MJVOSvBXgbgJ6gTOkKDGvOA3oD4gvvBljp3S2T0nqEcsrzS2ohISBXm5pTklmYlFR
YuWUHp74otTk/LzikqLSZJDXe1jBKqf0sOelQJRMnuLN0DrFmTFpSvuUoCkaQMuZvQXapmQI97CmlFQWpII0MZUaTunsgMgz9zDWTPHz8/P6DwRgAuzQTmcD
v5xLbHGvjqjlPlhKFHMKUFuGUIYoyP4McYTtjEDb5Tudmevr60FKgEgPAA/jnrY=
""",
    "own": """
eNprYJn6k5EBDHq4StMKTPTik/OLUqf08AeWJuaVZFalpvgmlhRlVkyZPEWzcYpGBkMPm1t+UW5iCVQgdoqG+wGIAQzu+//AGD9gjC8wxgcY4wWM8QDGuABl
MMDMsYeJ2MPU2MN02cPMsYeZbA+zyx5qe2oPS1KaodkUb0ZvjrYpnd4MJVOSvBXgOoFe4AwpSswrTgP6A+ILb8bYKZ3tU5J6xPJKcwsqIWGgl1uaU5KZWFSU
WDmlhye+KDU5P6+4pKg0GeT1Hlawyik97HkpECWTp3gztE5xZkya0j4laIoG0HJmb4G2KRnCPawpJZUFqSBNTKWGUzo7IPLMPYw1U/z8/Lz+AwGYADu009lg
w1ervkts0esfa+QSxZwC1JYhlCEKsj9DHGE70PMZ8p3OEgoO2CFIHxDpAQCyoKoO
""",
}


@pytest.mark.parametrize("name", OLD_PICKLES)
def test_a_pickle_of_an_older_version_is_read(name):
    x = np.arange(96, dtype=np.float32).reshape(3, 32) * 7 % 11 - 5
    form = ufp4.Format([i / 4 for i in range(-8, 8)], "bf16", (1, 8)) if name == "own" else name
    q = pickle.loads(zlib.decompress(base64.b64decode(OLD_PICKLES[name])))
    assert q == ufp4.quantize(x, form, rht=16 if name == "nvfp4" else None)


ERRORS = {
    "x must be an array of numpy": lambda x: ufp4.quantize([[1.0]], "nvfp4"),
    "x must have elements of float32, bfloat16 or float16, got float64": lambda x: ufp4.quantize(x.astype(float), "nvfp4"),
    "x must have 2 dimensions, got 1": lambda x: ufp4.quantize(x[0], "nvfp4"),
    "unknown format: fp4; the presets are nvfp4": lambda x: ufp4.quantize(x, "fp4"),
    "n must be 16, 32, 64, 128 or 256, got 17": lambda x: ufp4.quantize(x, "nvfp4", rht=17),
    "got 4294967312": lambda x: ufp4.quantize(x, "nvfp4", rht=2**32 + 16),
    "unknown rounding: up": lambda x: ufp4.quantize(x, "nvfp4", rounding="up"),
    "unknown rule: up": lambda x: ufp4.quantize(x, "nvfp4", rule="up"),
    "are for e8m0 scales": lambda x: ufp4.quantize(x, "nvfp4", rule="mx_ceil"),
    "tensor_amax must be finite": lambda x: ufp4.quantize(x, "nvfp4", tensor_amax=float("nan")),
    "tensor_amax has no effect": lambda x: ufp4.quantize(x, "mxfp4", tensor_amax=1.0),
    "shard.first_col must be a multiple of 32": lambda x: ufp4.quantize(x, "mxfp4", shard=(0, 16, 99)),
    "shard must be a tuple (first_row, first_col, total_cols), got 3": lambda x: ufp4.quantize(x, "mxfp4", shard=3),
    "of three numbers that are not negative, got (0, -1, 99)": lambda x: ufp4.quantize(x, "mxfp4", shard=(0, -1, 99)),
    "float32 with 1 dimension, got float16 (5) with strides (1)": lambda x: ufp4.matmul(
        x, x, format="mxfp4", bias=np.zeros(5, np.float16)),
    "float32 with 1 dimension, got float32 (5) with strides (2)": lambda x: ufp4.matmul(
        x, x, format="mxfp4", bias=np.zeros(10, np.float32)[::2]),
    "unknown isa: sse9": lambda x: ufp4.quantize(x, "mxfp4", isa="sse9"),
    "threads must not be negative, got -1": lambda x: ufp4.quantize(x, "mxfp4", threads=-1),
    "dtype must be float32, bfloat16 or float16": lambda x: ufp4.quantize(x, "mxfp4").dequantize("int8"),
    "out is read-only": lambda x: ufp4.quantize(x, "mxfp4").dequantize(out=np.broadcast_to(np.float32(0), x.shape)),
    "shape mismatch: out is 1 x 1": lambda x: ufp4.quantize(x, "mxfp4").dequantize(out=np.zeros((1, 1), np.float32)),
    "not aligned to 4 bytes: its address is ": lambda x: ufp4.quantize(np.zeros(9, np.uint8)[1:].view(np.float32)[None], "mxfp4"),
    "format has no effect: both": lambda x: ufp4.matmul(*2 * [ufp4.quantize(x, "mxfp4")], format="mxfp4"),
    "one of the operands must be quantized": lambda x: ufp4.matmul(x, x),
    "a has 64 columns, b has 32": lambda x: ufp4.matmul(ufp4.quantize(x, "mxfp4"), x[:, :32]),
    "transform mismatch": lambda x: ufp4.matmul(ufp4.quantize(x, "nvfp4", rht=16), ufp4.quantize(x, "nvfp4")),
    "a PrepackedMatrix must be the second": lambda x: ufp4.matmul(*2 * [ufp4.prepack(ufp4.quantize(x, "mxfp4"))]),
    "unknown accumulate: slow": lambda x: ufp4.matmul(x, x, format="mxfp4", accumulate="slow"),
    "beta must be 0 without out": lambda x: ufp4.matmul(x, x, format="mxfp4", beta=1),
    "bias has 3 entries, C has 5 columns": lambda x: ufp4.matmul(x, x, format="mxfp4", bias=np.zeros(3, np.float32)),
    "unknown recipe: fp4; the recipes are bf16": lambda x: ufp4.linear_forward(x, x, "fp4"),
    "add has no effect without out": lambda x: ufp4.linear_backward_input(x, x, add=True),
    "values must be finite": lambda x: ufp4.Format([0] * 16),
    "block length must be a power of two from 2 to 256, got 1 x 3": lambda x: ufp4.Format(range(16), "f32", (1, 3)),
    "float4_e2m1fn, but the format has other values": lambda x: ufp4.QuantizedMatrix.from_arrays(
        ufp4.quantize(x, "nvfp4").unpacked(), ufp4.quantize(x, "nvfp4").scales, "nv_e1m2"),
    "scales are 5 x 3, but the codes need 5 x 4": lambda x: ufp4.QuantizedMatrix.from_arrays(
        ufp4.quantize(x, "nvfp4").codes, np.zeros((5, 3), np.uint8), "nvfp4"),
    "codes must be C-contiguous, got (5, 32) with strides (64, 2)": lambda x: ufp4.QuantizedMatrix.from_arrays(
        np.zeros((5, 64), np.uint8)[:, ::2], np.zeros((5, 4), np.uint8), "nvfp4"),
    "has no tensor scale, but tensor_scale is 2": lambda x: ufp4.QuantizedMatrix.from_arrays(
        np.zeros((5, 32), np.uint8), np.zeros((5, 2), np.uint8), "mxfp4", tensor_scale=2),
}


@pytest.mark.parametrize("message", ERRORS)
def test_an_argument_that_does_not_fit_is_a_value_error(message):
    with pytest.raises(ValueError) as error:
        ERRORS[message](normal(5, 64))
    assert message in str(error.value)


def test_overlapping_outputs_are_rejected_before_they_are_written():
    memory = normal(6, 32)
    before = memory.copy()
    for call in (lambda: ufp4.fake_quantize(memory[:3], "mxfp4", out=memory[1:4]),
                 lambda: ufp4.hadamard_forward(memory[:, :16], 16, out=memory[:, 8:24]),
                 lambda: ufp4.matmul(memory, ufp4.quantize(memory, "mxfp4"), out=memory[:, :6]),
                 lambda: ufp4.matmul(memory, memory, format="mxfp4", bias=memory[0, :6], out=memory[:, :6])):
        with pytest.raises(ValueError, match="overlaps"):
            call()
        assert same_bits(memory, before)


@pytest.mark.parametrize("operation, call", {
    "dequantize": lambda x, q, out: q.dequantize(out=out),
    "fake_quantize": lambda x, q, out: ufp4.fake_quantize(x, "nvfp4", out=out),
    "hadamard_forward": lambda x, q, out: ufp4.hadamard_forward(x, 16, out=out),
    "hadamard_inverse": lambda x, q, out: ufp4.hadamard_inverse(x, 16, out=out),
    "matmul": lambda x, q, out: ufp4.matmul(q, ufp4.quantize(np.eye(64, dtype=np.float32), "nvfp4"), out=out),
    "linear_forward": lambda x, q, out: ufp4.linear_forward(x, np.eye(64, dtype=np.float32), out=out),
    "linear_backward_input": lambda x, q, out: ufp4.linear_backward_input(x, np.eye(64, dtype=np.float32), out=out),
    "linear_backward_weight": lambda x, q, out: ufp4.linear_backward_weight(normal(16, 8), normal(16, 64), out=out),
}.items())
def test_an_output_whose_elements_share_memory_is_rejected_and_one_with_gaps_is_written(operation, call):
    x = normal(8, 64)
    q = ufp4.quantize(x, "nvfp4")
    for row, column in (0, 1), (64, 0), (32, 1), (63, 1), (3, 2):
        memory = np.zeros(1024, np.float32)
        out = np.lib.stride_tricks.as_strided(memory, (8, 64), (4 * row, 4 * column))
        with pytest.raises(ValueError, match=f"^{operation}: elements of out overlap: 8 x 64 with row stride {row} and"):
            call(x, q, out)
        assert not memory.any()
    for row, column in (64, 1), (128, 2), (1, 8), (64, 3):
        memory = np.zeros(1024, np.float32)
        call(x, q, np.lib.stride_tricks.as_strided(memory, (8, 64), (4 * row, 4 * column)))
        assert memory.any()


ANY_ARRAY = hnp.arrays(st.sampled_from([np.float32, np.float16, np.float64, np.int8, np.uint8, np.complex64, bool]),
                       hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=40))
ANYTHING = st.one_of(ANY_ARRAY, st.none(), st.integers(-2**70, 2**70), st.floats(), st.text(max_size=4), st.binary(max_size=4),
                     st.just(object()), st.lists(st.integers(0, 9), max_size=3))


@hypothesis.given(st.data())
def test_any_arguments_give_a_result_or_an_error(data):
    views = st.sampled_from([lambda x: x, lambda x: x.T, lambda x: x[::-1], lambda x: x[..., ::2], lambda x: x[..., ::-3]])
    x = data.draw(ANYTHING)
    if isinstance(x, np.ndarray) and x.ndim > 0:
        x = data.draw(views)(x)
    names = st.one_of(st.sampled_from(NAMES), ANYTHING)
    keywords = data.draw(st.dictionaries(st.sampled_from(["rht", "rounding", "rule", "choose_grid", "tensor_amax", "shard", "threads", "isa"]),
                                         ANYTHING, max_size=2))
    before = bits(x).copy() if isinstance(x, np.ndarray) else None
    for operation in (ufp4.quantize, ufp4.measure, ufp4.fake_quantize):
        try:
            operation(x, data.draw(names), **keywords)
        except (ValueError, TypeError):
            pass
    for other in (x, data.draw(ANYTHING)):
        try:
            ufp4.matmul(x, other, format=data.draw(names), bias=data.draw(ANYTHING), out=data.draw(ANYTHING))
        except (ValueError, TypeError):
            pass
    try:
        ufp4.QuantizedMatrix.from_arrays(x, data.draw(ANYTHING), data.draw(names), cols=data.draw(ANYTHING)).dequantize()
    except (ValueError, TypeError):
        pass
    assert before is None or np.array_equal(bits(x), before)


def test_shapes_that_memory_cannot_hold_are_errors():
    huge = np.broadcast_to(np.float32(1), (2**40, 2**20))
    for call in (lambda: ufp4.quantize(huge, "nvfp4"), lambda: ufp4.fake_quantize(huge, "nvfp4"),
                 lambda: ufp4.matmul(huge, ufp4.quantize(huge[:1], "nvfp4"))):
        with pytest.raises((ValueError, MemoryError)):
            call()
    assert ufp4.quantize(np.zeros((0, 16), np.float32), "nvfp4").shape == (0, 16)
    assert ufp4.quantize(np.zeros((3, 0), np.float32), "nvfp4").dequantize().shape == (3, 0)
    assert ufp4.matmul(*2 * [ufp4.quantize(np.zeros((3, 0), np.float32), "nvfp4")]).tolist() == [[0] * 3] * 3
