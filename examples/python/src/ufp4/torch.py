# ufp4 - linear layers of PyTorch whose three products are in 4 bits.
# SPDX-License-Identifier: Apache-2.0
"""Linear layers under a training recipe for PyTorch, on the CPU, and on NVIDIA GPUs in builds with CUDA (ufp4.cuda).

    import torch, ufp4.torch
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    ufp4.torch.quantize_model(model, recipe="ufp4", skip=["2"])
    for step, (x, y) in enumerate(batches):
        ufp4.torch.set_step(model, step)  # new random bits
        ...

The operators torch.ops.ufp4.linear, linear_dgrad and linear_wgrad have shapes without data (fake kernels) and a
derivative, so torch.compile traces them. Weights stay in their own type; each product quantizes its operands, as
`ufp4.Linear` does.
"""
import fnmatch
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from . import _core, cuda

__all__ = ["Linear", "quantize_model", "set_step"]


def _place(step: Tensor, recipe: str, seed: int, layer: int, accumulate: str) -> dict[str, Any]:
    return {"recipe": recipe, "seed": seed, "layer": layer, "step": int(step), "accumulate": accumulate}


def _on_gpu(x: Tensor) -> bool:
    """Whether ufp4.cuda multiplies it; its message names a device that it does not have."""
    return x.device.type != "cpu"


@torch.library.custom_op("ufp4::linear", mutates_args=())
def _linear(x: Tensor, w: Tensor, bias: Tensor | None, step: Tensor, recipe: str, seed: int, layer: int,
            accumulate: str) -> Tensor:
    place = _place(step, recipe, seed, layer, accumulate)
    if _on_gpu(x):
        return cuda.linear_forward(x, w, bias=bias, **place)
    y = x.new_empty(x.shape[0], w.shape[0])
    b = None if bias is None else bias.detach().float().contiguous()
    _core.linear_forward(x.detach(), w.detach(), bias=b, out=y, **place)
    return y


@torch.library.custom_op("ufp4::linear_dgrad", mutates_args=())
def _linear_dgrad(dy: Tensor, w: Tensor, step: Tensor, recipe: str, seed: int, layer: int, accumulate: str) -> Tensor:
    place = _place(step, recipe, seed, layer, accumulate)
    if _on_gpu(dy):
        return cuda.linear_backward_input(dy, w, **place)
    dx = dy.new_empty(dy.shape[0], w.shape[1])
    _core.linear_backward_input(dy.detach(), w.detach(), out=dx, **place)
    return dx


@torch.library.custom_op("ufp4::linear_wgrad", mutates_args=())
def _linear_wgrad(dy: Tensor, x: Tensor, step: Tensor, recipe: str, seed: int, layer: int, accumulate: str) -> Tensor:
    place = _place(step, recipe, seed, layer, accumulate)
    if _on_gpu(dy):
        return cuda.linear_backward_weight(dy, x, **place)
    dw = dy.new_empty(dy.shape[1], x.shape[1], dtype=torch.float32)
    _core.linear_backward_weight(dy.detach(), x.detach(), out=dw, **place)
    return dw


@_linear.register_fake
def _(x: Tensor, w: Tensor, bias: Tensor | None, step: Tensor, recipe: str, seed: int, layer: int,
      accumulate: str) -> Tensor:
    torch._check(x.dim() == 2 and w.dim() == 2, lambda: "linear: x and w must have 2 dimensions")
    torch._check(x.shape[1] == w.shape[1], lambda: f"linear: x has {x.shape[1]} columns, w has {w.shape[1]}")
    return x.new_empty(x.shape[0], w.shape[0])


@_linear_dgrad.register_fake
def _(dy: Tensor, w: Tensor, step: Tensor, recipe: str, seed: int, layer: int, accumulate: str) -> Tensor:
    return dy.new_empty(dy.shape[0], w.shape[1])


@_linear_wgrad.register_fake
def _(dy: Tensor, x: Tensor, step: Tensor, recipe: str, seed: int, layer: int, accumulate: str) -> Tensor:
    return dy.new_empty(dy.shape[1], x.shape[1], dtype=torch.float32)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, w, bias, step, *ctx.policy = inputs
    ctx.bias_type = None if bias is None else bias.dtype
    ctx.save_for_backward(x, w, step)


def _backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
    x, w, step = ctx.saved_tensors
    dx = _linear_dgrad(dy, w, step, *ctx.policy) if ctx.needs_input_grad[0] else None
    dw = _linear_wgrad(dy, x, step, *ctx.policy).to(w.dtype) if ctx.needs_input_grad[1] else None
    db = dy.float().sum(0).to(ctx.bias_type) if ctx.needs_input_grad[2] else None
    return dx, dw, db, None, None, None, None, None


_linear.register_autograd(_backward, setup_context=_save)


class Linear(nn.Module):
    """A linear layer whose forward, dgrad and wgrad products are those of a recipe.

    x [..., in_features] of float32, float16 or bfloat16 becomes [..., out_features] of the same type. The weight may be
    in another of these types. The random signs and bits depend on seed, layer, product and `step`, which `set_step`
    changes.
    """

    step: Tensor

    def __init__(self, in_features: int, out_features: int, bias: bool = True, *, recipe: str = "ufp4", seed: int = 0,
                 layer: int = 0, accumulate: str = "fast", dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.recipe, self.seed, self.layer, self.accumulate = recipe, seed, layer, accumulate
        self.weight = nn.Parameter(torch.empty(out_features, in_features, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(out_features, dtype=dtype)) if bias else None
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    @classmethod
    def of(cls, linear: nn.Linear, **policy: Any) -> "Linear":
        """A layer with the parameters of a torch.nn.Linear, not copies. policy: recipe, seed, layer, accumulate."""
        made = cls(1, 1, False, **policy)
        made.in_features, made.out_features = linear.in_features, linear.out_features
        made.weight, made.bias = linear.weight, linear.bias
        return made.train(linear.training)

    def _apply(self, fn: Any, recurse: bool = True) -> "Linear":
        step = self.step
        super()._apply(fn, recurse)
        self.step = step  # stays in the memory of the CPU: to read it waits for nothing
        return self

    def forward(self, x: Tensor) -> Tensor:
        """x [..., in_features] * weight^T + bias: [..., out_features].

        ValueError: an x of another type than float32, float16 and bfloat16, or with other columns.
        """
        rows = x.reshape(-1, x.shape[-1])
        y = _linear(rows, self.weight, self.bias, self.step, self.recipe, self.seed, self.layer, self.accumulate)
        return y.reshape(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        """What print shows of the layer."""
        return (f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
                f"recipe={self.recipe!r}, seed={self.seed}, layer={self.layer}")


def quantize_model(model: nn.Module, recipe: str = "ufp4", skip: Iterable[str] = (), *, seed: int = 0,
                   accumulate: str = "fast") -> nn.Module:
    """Replaces every torch.nn.Linear of a model, in place, by a Linear with the same parameters; returns the model.

    skip: names as of model.named_modules(), where * is any text, as ["lm_head", "*.gate"]. The layers are numbered in
    the order of their names' appearance, so the same model gets the same random bits. A layer with several names is
    replaced by one layer with these names; it is skipped if one of them is. ValueError: a pattern that no module has,
    or an unknown recipe.
    """
    if recipe not in _core.recipes():
        raise ValueError(f"quantize_model: unknown recipe: {recipe}; the recipes are {', '.join(_core.recipes())}")
    patterns = list(skip)
    all_names = [name for name, _ in model.named_modules(remove_duplicate=False)]
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in all_names):
            raise ValueError(f"quantize_model: no module has the name {pattern}")
    found: dict[nn.Linear, list[str]] = {}  # the names of each layer
    for name, module in model.named_modules(remove_duplicate=False):
        if type(module) is nn.Linear:
            found.setdefault(module, []).append(name)
    kept = [(names, module) for module, names in found.items()
            if not any(fnmatch.fnmatchcase(name, p) for name in names for p in patterns)]
    for number, (names, module) in enumerate(kept):
        made = Linear.of(module, recipe=recipe, seed=seed, layer=number, accumulate=accumulate)
        if names == [""]:
            return made
        for name in names:
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, made)
    return model


def set_step(model: nn.Module, step: int) -> None:
    """Sets the training step of every Linear of a model, after the backward pass of the step before."""
    for module in model.modules():
        if isinstance(module, Linear):
            module.step.fill_(step)
