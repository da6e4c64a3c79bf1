# ufp4 - the PyTorch layers: operators by torch.library's own checks, bits of the library, torch.compile, models.
# SPDX-License-Identifier: Apache-2.0
import copy
import os
import subprocess

import numpy as np
import pytest
from conftest import same_bits

torch = pytest.importorskip("torch")
import ufp4  # noqa: E402
import ufp4.torch  # noqa: E402

RECIPES = ufp4.recipes()


def sample(recipe="ufp4", dtype=torch.float32, bias=True, grad=True):
    torch.manual_seed(0)
    x, w = torch.randn(32, 48, dtype=dtype), torch.randn(24, 48, dtype=dtype)
    b = torch.randn(24, dtype=dtype) if bias else None
    for t in (x, w, b) if grad else ():
        if t is not None:
            t.requires_grad_()
    return x, w, b, torch.tensor(7), recipe, 3, 5, "exact_blocks"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
def test_the_operators_pass_the_checks_of_torch(dtype, bias):
    x, w, b, step, *policy = sample(dtype=dtype, bias=bias)
    torch.library.opcheck(torch.ops.ufp4.linear.default, (x, w, b, step, *policy))
    dy = torch.randn(32, 24, dtype=dtype)
    torch.library.opcheck(torch.ops.ufp4.linear_dgrad.default, (dy, w.detach(), step, *policy))
    torch.library.opcheck(torch.ops.ufp4.linear_wgrad.default, (dy, x.detach(), step, *policy))


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_forward_and_backward_have_the_bits_of_the_library(recipe, dtype):
    x, w, b, step, *policy = sample(recipe, dtype)
    layer = ufp4.Linear(recipe, seed=3, layer=5, accumulate="exact_blocks")
    y = torch.ops.ufp4.linear(x, w, b, step, *policy)
    dy = torch.randn(32, 24, dtype=dtype)
    y.backward(dy)
    bias = b.detach().float()

    def torch_bits(t):
        return t.detach().float().numpy()

    xd, wd = x.detach(), w.detach()
    assert same_bits(torch_bits(y), np.asarray(layer.forward(xd, wd, 7, bias=bias), np.float32))
    assert same_bits(torch_bits(x.grad), np.asarray(layer.dgrad(dy, wd, 7), np.float32))
    dw = torch.from_dlpack(layer.wgrad(dy, xd, 7)).to(dtype)
    assert same_bits(torch_bits(w.grad), torch_bits(dw))
    assert torch.equal(b.grad, dy.float().sum(0).to(dtype))


def test_the_derivatives_of_the_recipe_bf16_are_those_of_a_linear_layer():
    x, w, b, step, _, *policy = sample("bf16")
    x, w = (t.detach().bfloat16().float().requires_grad_() for t in (x, w))  # rounding to bfloat16 changes nothing
    dy = torch.randn(32, 24).bfloat16().float()
    torch.ops.ufp4.linear(x, w, b, step, "bf16", *policy).backward(dy)
    for got, exact in ((x.grad, dy @ w), (w.grad, dy.T @ x)):
        assert torch.allclose(got, exact, rtol=1e-5, atol=1e-4)


def test_the_gradient_of_ufp4_is_that_of_a_linear_layer_but_for_the_rounding():
    x, w, b, step, *policy = sample()
    dy = torch.randn(32, 24)
    torch.ops.ufp4.linear(x, w, b, step, *policy).backward(dy)
    for got, exact in ((x.grad, dy @ w), (w.grad, dy.T @ x)):
        assert (got - exact).norm() < 0.25 * exact.norm()


def small_model():
    torch.manual_seed(1)
    nn = torch.nn
    return nn.Sequential(nn.Linear(48, 64), nn.Tanh(), nn.Linear(64, 64), nn.Linear(64, 10))


def test_quantize_model_replaces_layers_and_keeps_parameters():
    model = small_model()
    parameters = dict(model.named_parameters())
    made = ufp4.torch.quantize_model(model, "nvfp4", skip=["3"], seed=9)
    assert made is model and type(model[3]) is torch.nn.Linear
    assert [type(m) for m in (model[0], model[2])] == [ufp4.torch.Linear] * 2
    assert [m.layer for m in (model[0], model[2])] == [0, 1]
    assert {n: p.data_ptr() for n, p in model.named_parameters()} == {n: p.data_ptr() for n, p in parameters.items()}
    assert "recipe='nvfp4', seed=9, layer=1" in repr(model[2])
    assert type(ufp4.torch.quantize_model(torch.nn.Linear(16, 16))) is ufp4.torch.Linear
    for arguments in ({"recipe": "fp4"}, {"skip": ["head"]}):
        with pytest.raises(ValueError, match="quantize_model"):
            ufp4.torch.quantize_model(small_model(), **arguments)


def test_the_step_changes_the_gradient_and_is_part_of_the_state():
    model = ufp4.torch.quantize_model(small_model())
    x = torch.randn(3, 16, 48)

    def gradient():
        model.zero_grad()
        model(x).square().sum().backward()
        return model[0].weight.grad.clone()

    first, again = gradient(), gradient()
    ufp4.torch.set_step(model, 1)
    assert torch.equal(first, again) and not torch.equal(first, gradient())
    other = ufp4.torch.quantize_model(small_model())
    other.load_state_dict(model.state_dict())
    assert int(other[2].step) == 1
    assert torch.equal(copy.deepcopy(model)(x), model(x)) and model(x).shape == (3, 16, 10)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_compiled_model_has_the_same_bits(backend):
    model = small_model()
    model[1] = torch.nn.ReLU()  # exact: the compiler may fuse the operations of a tanh, which changes bits
    model = ufp4.torch.quantize_model(model)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    x = torch.randn(16, 48)
    for step in range(3):
        ufp4.torch.set_step(model, step)
        model.zero_grad()
        y = model(x)
        y.square().sum().backward()
        gradient = model[0].weight.grad.clone()
        model.zero_grad()
        z = compiled(x)
        z.square().sum().backward()
        assert torch.equal(y, z) and torch.equal(gradient, model[0].weight.grad)


@pytest.mark.skipif("UFP4_TORCH_LINEAR" not in os.environ, reason="UFP4_TORCH_LINEAR does not name torch_linear_bits")
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_the_layer_has_the_bits_of_the_one_for_libtorch(recipe, kind, tmp_path):
    dtype = [torch.float32, torch.bfloat16, torch.float16][kind]
    shapes = {"x": (32, 48), "w": (24, 48), "b": (24,), "dy": (32, 24)}
    torch.manual_seed(kind)
    tensors = {name: torch.randn(shape).to(dtype) for name, shape in shapes.items()}
    for name, tensor in tensors.items():
        (tmp_path / name).write_bytes(tensor.float().numpy().tobytes())
    subprocess.run([os.environ["UFP4_TORCH_LINEAR"], tmp_path, recipe, str(kind), "32", "48", "24"], check=True)
    layer = ufp4.torch.Linear(48, 24, recipe=recipe, seed=3, layer=5, dtype=dtype)
    ufp4.torch.set_step(layer, 7)
    with torch.no_grad():
        layer.weight.copy_(tensors["w"])
        layer.bias.copy_(tensors["b"])
    x = tensors["x"].requires_grad_()
    y = layer(x)
    y.backward(tensors["dy"])
    for name, got in (("y", y), ("dx", x.grad), ("dw", layer.weight.grad), ("db", layer.bias.grad)):
        want = np.fromfile(tmp_path / name, np.float32).reshape(got.shape)
        assert same_bits(got.detach().float().numpy(), want), name


def test_a_layer_with_two_names_is_one_layer_under_both():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.other = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)
            self.second = self.first
            self.parts = torch.nn.ModuleList([torch.nn.Sequential(self.other)] * 2)

    model = ufp4.torch.quantize_model(Tied())
    assert isinstance(model.first, ufp4.torch.Linear) and model.second is model.first and model.first.layer == 0
    assert isinstance(model.other, ufp4.torch.Linear) and model.parts[0][0] is model.parts[1][0] is model.other
    assert model.other.layer == 1 and not [m for m in model.modules() if type(m) is torch.nn.Linear]
    skipped = ufp4.torch.quantize_model(Tied(), skip=["second"])
    assert type(skipped.first) is type(skipped.second) is torch.nn.Linear and skipped.other.layer == 0


def test_errors_are_those_of_the_library():
    with pytest.raises(ValueError, match="must have elements of float32, bfloat16 or float16, got float64"):
        ufp4.torch.Linear(16, 16, bias=False)(torch.zeros(2, 16, dtype=torch.float64))
    with pytest.raises(ValueError, match="shape mismatch|columns"):
        ufp4.torch.Linear(16, 16, bias=False)(torch.zeros(2, 17))


def test_a_build_without_cuda_reports_how_to_get_it():
    assert not ufp4.cuda.is_built()
    with pytest.raises(ValueError, match="x is on the device cpu, and this ufp4 was built without CUDA: pip .*UFP4_CUDA=ON"):
        ufp4.cuda.quantize(torch.zeros(2, 16), "nvfp4")


def test_the_shapes_of_a_model_are_known_without_data():
    model = ufp4.torch.quantize_model(small_model()).to("meta")
    assert model(torch.empty(7, 48, device="meta")).shape == (7, 10) and model[0].step.device.type == "cpu"


def test_tensors_are_used_in_place():
    w = torch.randn(32, 64, dtype=torch.bfloat16)
    q = ufp4.quantize(w, "nvfp4")
    assert q == ufp4.quantize(w.T.contiguous().T, "nvfp4")
    out = torch.empty(32, 64, dtype=torch.bfloat16)
    assert q.dequantize(out=out) is out
    codes = torch.from_dlpack(q.codes).view(torch.float4_e2m1fn_x2)
    same = ufp4.QuantizedMatrix.from_arrays(codes, q.scales, "nvfp4", tensor_scale=q.tensor_scale)
    assert same == q and torch.from_dlpack(same.codes.view(torch.uint8)).data_ptr() == codes.data_ptr()
