# ufp4 - ufp4.cuda has the bits of the functions on the CPU: on a GPU, or compiled for the CPU simulator of GPU kernels.
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from conftest import FOUR_BITS as NAMES
from conftest import normal, same_bits

torch = pytest.importorskip("torch")
import ufp4  # noqa: E402
import ufp4.cuda  # noqa: E402
import ufp4.torch  # noqa: E402

EXACT = {"accumulate": "exact_blocks"}
if not ufp4.cuda.is_built():
    pytest.skip("this package was built without CUDA", allow_module_level=True)
DEVICE = ufp4._core.device


def on_device(x, dtype=torch.float32):
    return torch.from_numpy(np.ascontiguousarray(x)).to(DEVICE, dtype)


def same_values(t, y):
    """A tensor of the device and an array or a tensor of the CPU, bit for bit."""
    other = y if isinstance(y, torch.Tensor) else torch.from_dlpack(y)
    kind = {2: torch.int16, 4: torch.int32}[t.element_size()]
    return t.dtype == other.dtype and torch.equal(t.cpu().view(kind), other.view(kind))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_quantize_and_dequantize_have_the_bits_of_the_cpu(name, dtype):
    x = on_device(normal(20, 75), dtype)
    x[3, 5] = float("nan")
    rule = {"nvfp4": "four_over_six", "nv_e1m2": "scale_up", "mxfp4": "mx_ceil", "mx_e1m2": "mx_even",
            "tetrajet2": "four_over_six", "if4": "scale_up", "hif4": "scale_up"}.get(name)
    grids = [{"choose_grid": error} for error in ("mae", "max")] if len(ufp4.format(name).grids) > 1 else []
    searches = [{"search": "mse"}, {"search": ufp4.Search("mae", 1, 2)}]
    for policies in ({}, {"rht": 16}, {"rht": ufp4.random_hadamard(64, 9), "rounding": ufp4.Stochastic(7, 3)},
                     {"rounding": "nearest_away", "rule": rule}, {"rule": ufp4.Percentile(900)}, *grids, *searches):
        q, want = ufp4.cuda.quantize(x, name, **policies), ufp4.quantize(x.cpu(), name, **policies)
        assert q.cpu() == want and q.nbytes == want.nbytes and q.format == want.format and q.shape == want.shape
        assert same_values(q.dequantize(), want.dequantize())
        out = torch.zeros(20, 75, dtype=dtype, device=DEVICE)
        assert q.dequantize(out=out) is out and same_values(q.dequantize(dtype), out)
        assert ufp4.cuda.QuantizedTensor.from_matrix(want, DEVICE).cpu() == want
    assert ufp4.cuda.quantize(x.T, name).cpu() == ufp4.quantize(x.cpu().T, name)
    assert ufp4.cuda.quantize(x[::2, ::3], name).cpu() == ufp4.quantize(x.cpu()[::2, ::3], name)


@pytest.mark.parametrize("name", ["nvfp4", "if4", "tetrajet2"])
def test_shards_and_an_amax_have_the_bits_of_the_whole(name):
    x = on_device(normal(48, 256))
    policies = {"rht": 32, "rounding": ufp4.Stochastic(5)}
    if name != "tetrajet2":
        policies["tensor_amax"] = 40.0
    whole = ufp4.cuda.quantize(x, name, **policies)
    part = ufp4.cuda.quantize(x[16:32, 128:], name, shard=(16, 128, 256), **policies)
    assert torch.equal(part.codes, whole.codes[16:32, 64:]) and part.tensor_scale == whole.tensor_scale


@pytest.mark.parametrize("name", ["nvfp4", "mxfp4", "e1m2_f32", "nvint4", "tetrajet2", "if4", "mixfp4", "razer", "hif4"])
def test_products_have_the_bits_of_the_cpu(name):
    x, w, bias = normal(17, 80, 1), normal(33, 80, 2), normal(1, 33)[0]
    a, b = ufp4.quantize(x, name, rht=16), ufp4.quantize(w, name, rht=16)
    da, db = (ufp4.cuda.quantize(on_device(m), name, rht=16) for m in (x, w))
    assert same_values(ufp4.cuda.matmul(da, db, **EXACT), ufp4.matmul(a, b, **EXACT))
    assert same_values(ufp4.cuda.matmul(on_device(x), db, **EXACT), ufp4.matmul(x, b, **EXACT))
    assert same_values(ufp4.cuda.matmul(db, on_device(x), **EXACT), ufp4.matmul(b, x, **EXACT))
    out = torch.ones(17, 33, dtype=torch.bfloat16, device=DEVICE)
    want = torch.ones(17, 33, dtype=torch.bfloat16)
    factors = {"alpha": 0.5, "beta": 2.0, **EXACT}
    ufp4.matmul(a, b, out=want, bias=bias, **factors)
    assert ufp4.cuda.matmul(da, db, out=out, bias=on_device(bias), **factors) is out and same_values(out, want)
    fast = ufp4.cuda.matmul(da, db)
    assert np.allclose(fast.cpu().numpy(), ufp4.matmul(a, b, **EXACT), rtol=1e-2, atol=0.5)
    assert "matmul: gem" in ufp4.cuda.explain_matmul(da, db)


@pytest.mark.parametrize("name", ["tetrajet2", "if4", "mixfp4", "razer"])
def test_products_of_two_formats_have_the_bits_of_the_cpu(name):
    x, w = normal(9, 150, 1), normal(20, 150, 2)
    a, b = ufp4.quantize(x, "nvfp4"), ufp4.quantize(w, name)
    da, db = ufp4.cuda.quantize(on_device(x), "nvfp4"), ufp4.cuda.quantize(on_device(w), name)
    assert same_values(ufp4.cuda.matmul(da, db, **EXACT), ufp4.matmul(a, b, **EXACT))
    assert same_values(ufp4.cuda.matmul(db, da, **EXACT), ufp4.matmul(b, a, **EXACT))


def test_the_scales_of_an_extended_format_are_the_bytes_of_the_cpu():
    x = normal(5, 300)
    for name in ("tetrajet2", "if4", "hif4"):
        q, want = ufp4.cuda.quantize(on_device(x), name), ufp4.quantize(x, name)
        assert q.scales.dtype == torch.uint8 and same_bits(q.scales.cpu().numpy(), want.scales)


RECIPES_OF_CPUS = ("quartet2",)  # without kernels for GPUs


@pytest.mark.parametrize("recipe", RECIPES_OF_CPUS)
def test_a_recipe_without_kernels_for_gpus_is_an_error(recipe):
    x, w = (on_device(normal(64, 64, seed)) for seed in (1, 2))
    with pytest.raises(ValueError, match="MS-EDEN is not available on GPUs"):
        ufp4.cuda.linear_backward_input(x, w, recipe)


@pytest.mark.parametrize("recipe", [name for name in ufp4.recipes() if name not in RECIPES_OF_CPUS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_products_of_a_recipe_have_the_bits_of_the_cpu(recipe, dtype):
    x, w, dy = (on_device(normal(*s), dtype) for s in ((32, 48, 1), (16, 48, 2), (32, 16, 3)))
    bias = on_device(normal(1, 16)[0])
    layer, place = ufp4.Linear(recipe, seed=2, layer=7, **EXACT), {"seed": 2, "layer": 7, "step": 4, **EXACT}
    cx, cw, cdy, cbias = x.cpu(), w.cpu(), dy.cpu(), bias.cpu().numpy()
    for b, cb in ((None, None), (bias, cbias)):
        want = torch.empty(32, 16, dtype=dtype)
        layer.forward(cx, cw, 4, bias=cb, out=want)
        assert same_values(ufp4.cuda.linear_forward(x, w, recipe, bias=b, **place), want)
    want = torch.empty(32, 48, dtype=dtype)
    layer.dgrad(cdy, cw, 4, out=want)
    assert same_values(ufp4.cuda.linear_backward_input(dy, w, recipe, **place), want)
    assert same_values(ufp4.cuda.linear_backward_weight(dy, x, recipe, **place), layer.wgrad(cdy, cx, 4))


def test_a_model_has_the_same_bits_on_the_device(monkeypatch):
    def losses(device):
        torch.manual_seed(1)
        nn = torch.nn
        model = nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 16))
        model = ufp4.torch.quantize_model(model, **EXACT).to(device)
        assert model[0].weight.device.type == device and model[0].step.device.type == "cpu"
        x = torch.randn(32, 48).to(device)
        for step in range(2):
            ufp4.torch.set_step(model, step)
            y = model(x)
            y.square().sum().backward()
        return [t.cpu() for t in (y, *(p.grad for p in model.parameters()))]

    want = losses("cpu")
    monkeypatch.setattr(ufp4.torch, "_on_gpu", lambda x: True)  # the simulator has its tensors in the memory of the CPU
    same = [torch.equal(a, b) for a, b in zip(losses(DEVICE), want)]
    assert same == [True] * len(want) if DEVICE == "cpu" else same[0]  # sums for a bias have no fixed order


class Capsule:
    """An object with nothing but DLPack."""

    def __init__(self, t):
        self.t = t

    def __dlpack__(self, **keywords):
        return self.t.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.t.__dlpack_device__()


def test_arrays_of_other_projects_are_used_in_place():
    x = on_device(normal(6, 32))
    assert ufp4.cuda.quantize(Capsule(x), "nvfp4").cpu() == ufp4.quantize(x.cpu(), "nvfp4")


ERRORS = {
    "elements of float32, bfloat16 or float16, got torch.float64": lambda x: ufp4.cuda.quantize(x.double(), "nvfp4"),
    "x must have 2 dimensions, got 1": lambda x: ufp4.cuda.quantize(x[0], "nvfp4"),
    "x must be on a": lambda x: ufp4.cuda.quantize(x.to("meta"), "nvfp4"),
    "unknown format: fp4": lambda x: ufp4.cuda.quantize(x, "fp4"),
    "formats with elements of one byte run on the CPU only": lambda x: ufp4.cuda.quantize(x, "mxint8"),
    "are for e8m0 scales": lambda x: ufp4.cuda.quantize(x, "nvfp4", rule="mx_ceil"),
    "choose_grid has no effect: the format has one grid": lambda x: ufp4.cuda.quantize(x, "hif4", choose_grid="max"),
    "a shard of a format with a tensor scale needs": lambda x: ufp4.cuda.quantize(x, "razer", shard=(0, 0, 64)),
    "n must be 16, 32, 64, 128 or 256, got 17": lambda x: ufp4.cuda.quantize(x, "nvfp4", rht=17),
    "tensor_amax has no effect": lambda x: ufp4.cuda.quantize(x, "mxfp4", tensor_amax=1.0),
    "a shard of a format with a tensor scale": lambda x: ufp4.cuda.quantize(x, "nvfp4", shard=(0, 0, 64)),
    "one of the operands must be quantized": lambda x: ufp4.cuda.matmul(x, x),
    "A has 32 columns (K), B has 64": lambda x: ufp4.cuda.matmul(x[:, :32], ufp4.cuda.quantize(x, "mxfp4")),
    "transform mismatch": lambda x: ufp4.cuda.matmul(*(ufp4.cuda.quantize(x, "nvfp4", rht=n) for n in (16, None))),
    "C has 4 rows, A has 5": lambda x: ufp4.cuda.matmul(x, ufp4.cuda.quantize(x, "mxfp4"), out=x[:4, :5].clone()),
    "C overlaps A": lambda x: ufp4.cuda.matmul(x, ufp4.cuda.quantize(x, "mxfp4"), out=x[:, :5]),
    "bias must be 5 contiguous numbers": lambda x: ufp4.cuda.matmul(x, ufp4.cuda.quantize(x, "mxfp4"), bias=x[0, :4]),
    "beta must be 0 without out": lambda x: ufp4.cuda.matmul(x, ufp4.cuda.quantize(x, "mxfp4"), beta=1.0),
    "unknown accumulate: slow": lambda x: ufp4.cuda.matmul(x, ufp4.cuda.quantize(x, "mxfp4"), accumulate="slow"),
    "unknown recipe: fp4": lambda x: ufp4.cuda.linear_forward(x, x, "fp4"),
    "K mismatch: w has 32 columns, x has 64": lambda x: ufp4.cuda.linear_forward(x, x[:, :32]),
}


@pytest.mark.parametrize("message", ERRORS)
def test_an_argument_that_does_not_fit_is_a_value_error(message):
    with pytest.raises(ValueError) as error:
        ERRORS[message](on_device(normal(5, 64)))
    assert message in str(error.value)
