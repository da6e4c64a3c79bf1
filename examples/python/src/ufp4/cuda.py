# ufp4 - the operations on CUDA tensors of PyTorch, where the package was built with CUDA.
# SPDX-License-Identifier: Apache-2.0
"""The operations on NVIDIA GPUs, on tensors of PyTorch or any array with DLPack in the memory of a GPU.

    pip install ./examples/python -C cmake.define.UFP4_CUDA=ON      # needs nvcc 12.4 or newer

    import torch, ufp4.cuda
    w = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    q = ufp4.cuda.quantize(w, "nvfp4", rht=16)
    y = ufp4.cuda.matmul(ufp4.cuda.quantize(x, "nvfp4", rht=16), q)

Arguments, bits and messages are those of the functions of the same names in ufp4; products in the mode 'fast' have the
error bound. Work is queued on PyTorch's current stream; no function waits for the GPU. Results and workspaces are memory
of PyTorch.
"""
import contextlib
import dataclasses
from typing import Any

import torch
from torch import Tensor

from . import _core
from ._core import Format, Percentile, QuantizedMatrix, Search, Stochastic, Transform

__all__ = ["QuantizedTensor", "explain_matmul", "is_built", "linear_backward_input", "linear_backward_weight",
           "linear_forward", "matmul", "quantize"]

_TYPES = [torch.float32, torch.bfloat16, torch.float16]
_DEVICE = getattr(_core, "device", None)


def is_built() -> bool:
    """Whether this build of the package has the operations on GPUs."""
    return _DEVICE is not None


def _on_device(operation: str, name: str, x: Any) -> Tensor:
    """x as a tensor without a copy, on a device that this build has operations for."""
    t: Tensor = x if isinstance(x, Tensor) else torch.from_dlpack(x)
    if _DEVICE is None:
        raise ValueError(f"{operation}: {name} is on the device {t.device}, and this ufp4 was built without CUDA: "
                         "pip install ./examples/python -C cmake.define.UFP4_CUDA=ON")
    if t.device.type != _DEVICE:
        raise ValueError(f"{operation}: {name} must be on a {_DEVICE} device, is on {t.device}")
    return t.detach()


def _matrix(operation: str, name: str, x: Any) -> Tensor:
    """The same for a matrix of numbers."""
    t = _on_device(operation, name, x)
    if t.dtype not in _TYPES:
        raise ValueError(f"{operation}: {name} must have elements of float32, bfloat16 or float16, got {t.dtype}")
    if t.dim() != 2:
        raise ValueError(f"{operation}: {name} must have 2 dimensions, got {t.dim()}")
    return t


def _described(t: Tensor) -> tuple[int, ...]:
    """A matrix as the module takes it."""
    return t.data_ptr(), _TYPES.index(t.dtype), *t.shape, *t.stride()


def _same_device(operation: str, *devices: torch.device) -> torch.device:
    if len(set(devices)) != 1:
        raise ValueError(f"{operation}: tensors are on different devices: {', '.join(map(str, devices))}")
    return devices[0]


class _Call(contextlib.AbstractContextManager[Any]):
    """Makes a device current, and knows its stream; keeps the workspace of the call until it is queued."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._current = torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()
        self._kept: list[Tensor] = []

    def __enter__(self) -> "_Call":
        self._current.__enter__()
        self.stream = torch.cuda.current_stream(self._device).cuda_stream if self._device.type == "cuda" else 0
        return self

    def __exit__(self, *error: Any) -> None:
        self._current.__exit__(*error)

    def memory(self, size: int) -> int:
        """The address, a multiple of 256, of memory that PyTorch uses again only for later work on the stream."""
        made = torch.empty(size + 255, dtype=torch.uint8, device=self._device)
        self._kept.append(made)
        return -(-made.data_ptr() // 256) * 256


@dataclasses.dataclass(frozen=True, eq=False)
class QuantizedTensor:
    """A quantized matrix in the memory of a GPU. Made by `quantize` or `from_matrix`; it does not change."""

    codes: Tensor
    """uint8 [rows, padded columns / 2]: two codes a byte, the even column in the low half."""
    scales: Tensor
    """The scales of ufp4.QuantizedMatrix.scales, in PyTorch's type of them; uint8 where it has none."""
    tensor_scale: Tensor
    """The scale of the whole matrix, float32 without dimensions; 1 in formats without one."""
    shape: tuple[int, int]
    """(rows, columns), without padding."""
    format: Format
    """The format of codes and scales."""
    transform: Transform
    """The transform that was applied to the rows before they were quantized."""

    @classmethod
    def from_matrix(cls, q: QuantizedMatrix, device: Any = _DEVICE or "cuda") -> "QuantizedTensor":
        """A copy of a matrix of ufp4.quantize or ufp4.load on a GPU."""
        made = _empty(q.format, q.shape, q.transform, torch.device(device))
        _on_device("from_matrix", "device", made.codes)
        made.codes.copy_(torch.from_numpy(q.codes.copy()))
        made.scales.view(torch.uint8).copy_(torch.from_numpy(q.scales.view("uint8").copy()))
        made.tensor_scale.fill_(q.tensor_scale)
        return made

    def cpu(self) -> QuantizedMatrix:
        """A copy as a ufp4.QuantizedMatrix; waits for the GPU."""
        scales = self.scales.cpu()
        as_bytes = scales.view(torch.uint8) if scales.element_size() == 1 else scales
        return QuantizedMatrix.from_arrays(self.codes.cpu().clone(), as_bytes.clone(), self.format, cols=self.shape[1],
                                           tensor_scale=float(self.tensor_scale), transform=self.transform)

    @property
    def nbytes(self) -> int:
        """Bytes of codes, block scales and tensor scale."""
        return self.codes.nbytes + self.scales.nbytes + (4 if self.format.has_tensor_scale else 0)

    def dequantize(self, dtype: torch.dtype | None = None, *, out: Tensor | None = None) -> Tensor:
        """The values, [rows, columns] of float32 (default), float16 or bfloat16. The transform is not undone."""
        to = _output("dequantize", out, dtype, self.shape, self.codes.device)
        with _Call(to.device) as call:
            _core.device_dequantize(_coded(self), _described(to), call.stream)
        return to


def _empty(format: Format, shape: tuple[int, int], transform: Transform, device: torch.device) -> QuantizedTensor:
    """Memory for a matrix of that shape."""
    cols, scale_rows, scale_cols, scale_type = _core.device_sizes(format, *shape, transform)
    kind = getattr(torch, scale_type, torch.uint8)
    return QuantizedTensor(torch.empty((shape[0], cols // 2), dtype=torch.uint8, device=device),
                           torch.empty((scale_rows, scale_cols), dtype=kind, device=device),
                           torch.ones((), dtype=torch.float32, device=device), shape, format, transform)


def _coded(q: QuantizedTensor) -> tuple[Any, ...]:
    return (q.format, q.transform, *q.shape, q.codes.data_ptr(), q.scales.data_ptr(), q.tensor_scale.data_ptr())


def _output(operation: str, out: Tensor | None, dtype: torch.dtype | None, shape: tuple[int, int],
            device: torch.device) -> Tensor:
    """`out`, or a new tensor of that shape."""
    if out is None:
        return _matrix(operation, "dtype", torch.empty(shape, dtype=dtype or torch.float32, device=device))
    if dtype is not None:
        raise ValueError(f"{operation}: dtype must not be given with out, which has its own")
    _same_device(operation, out.device, device)
    _matrix(operation, "out", out)
    return out


def quantize(x: Any, format: str | Format, *, rht: int | Transform | None = None,
             rounding: str | Stochastic | None = None, rule: str | Percentile | None = None, search: str | Search | None = None,
             choose_grid: str | None = None, tensor_amax: float | None = None,
             shard: tuple[int, int, int] | None = None) -> QuantizedTensor:
    """Quantizes a matrix of float32, float16 or bfloat16 with any strides, as ufp4.quantize does, with its bits."""
    t = _matrix("quantize", "x", x)
    out = _empty(_core.device_format(format), (t.shape[0], t.shape[1]), _core.device_transform(rht), t.device)
    with _Call(t.device) as call:
        _core.device_quantize(_described(t), _coded(out), rounding, rule, search, choose_grid, tensor_amax, shard,
                              call.stream, call.memory)
    return out


def _operand(operation: str, name: str, x: Any) -> tuple[tuple[Any, ...], torch.device, int]:
    """An operand of a product as the module takes it, its device and its rows."""
    if isinstance(x, QuantizedTensor):
        return _coded(x), _on_device(operation, name, x.codes).device, x.shape[0]
    t = _matrix(operation, name, x)
    return _described(t), t.device, t.shape[0]


def _bias(bias: Tensor | None, cols: int, device: torch.device) -> int:
    """The address of a bias, 0 for none."""
    if bias is None:
        return 0
    _same_device("matmul", _on_device("matmul", "bias", bias).device, device)
    if bias.dtype != torch.float32 or bias.shape != (cols,) or not bias.is_contiguous():
        raise ValueError(f"matmul: bias must be {cols} contiguous numbers of float32, got {list(bias.shape)} of "
                         f"{bias.dtype}")
    return bias.data_ptr()


def matmul(a: Any, b: Any, *, out: Tensor | None = None, dtype: torch.dtype | None = None, alpha: float = 1.0,
           beta: float = 0.0, bias: Tensor | None = None, accumulate: str = "fast") -> Tensor:
    """C[M,N] = alpha * A[M,K] * B[N,K]^T + bias + beta * C, as ufp4.matmul; one operand at least is a QuantizedTensor."""
    (left, device, rows), (right, other, cols) = _operand("matmul", "a", a), _operand("matmul", "b", b)
    _same_device("matmul", device, other)
    if beta != 0 and out is None:
        raise ValueError(f"matmul: beta must be 0 without out, got {beta}")
    to = _output("matmul", out, dtype, (rows, cols), device)
    with _Call(device) as call:
        _core.device_matmul(left, right, _described(to), alpha, beta, _bias(bias, cols, device), accumulate, call.stream,
                            call.memory)
    return to


def explain_matmul(a: Any, b: Any, *, dtype: torch.dtype | None = None, accumulate: str = "fast") -> str:
    """Which kernel matmul with these arguments runs on the device of its operands."""
    name = "explain_matmul"
    (left, device, rows), (right, other, cols) = _operand(name, "a", a), _operand(name, "b", b)
    _same_device(name, device, other)
    c = _output(name, None, dtype, (rows, cols), device)
    with _Call(device):
        text: str = _core.device_explain_matmul(left, right, _described(c), accumulate)
    return text


def _linear(product: str, left: Tensor, right: Tensor, out: Tensor, recipe: str, seed: int, step: int, layer: int,
            accumulate: str) -> Tensor:
    with _Call(_same_device(product, left.device, right.device)) as call:
        _core.device_linear(product, recipe, seed, step, layer, accumulate, _described(left), _described(right),
                            _described(out), call.stream, call.memory)
    return out


def linear_forward(x: Any, w: Any, recipe: str = "ufp4", *, bias: Tensor | None = None, seed: int = 0, step: int = 0,
                   layer: int = 0, accumulate: str = "fast") -> Tensor:
    """Y[T,N] = X[T,K] * W[N,K]^T + bias under a recipe, in the type of x."""
    x, w = _matrix("linear_forward", "x", x), _matrix("linear_forward", "w", w)
    kind = x.dtype if bias is None else torch.float32  # the bias is added before the result is rounded to the type of x
    y = torch.empty((x.shape[0], w.shape[0]), dtype=kind, device=x.device)
    _linear("linear_forward", x, w, y, recipe, seed, step, layer, accumulate)
    return y if bias is None else y.add_(bias.detach().float()).to(x.dtype)


def linear_backward_input(dy: Any, w: Any, recipe: str = "ufp4", *, seed: int = 0, step: int = 0, layer: int = 0,
                          accumulate: str = "fast") -> Tensor:
    """dX[T,K] = dY[T,N] * W[N,K] under a recipe, in the type of dy."""
    dy, w = _matrix("linear_backward_input", "dy", dy), _matrix("linear_backward_input", "w", w)
    dx = torch.empty((dy.shape[0], w.shape[1]), dtype=dy.dtype, device=dy.device)
    return _linear("linear_backward_input", dy, w, dx, recipe, seed, step, layer, accumulate)


def linear_backward_weight(dy: Any, x: Any, recipe: str = "ufp4", *, seed: int = 0, step: int = 0, layer: int = 0,
                           accumulate: str = "fast") -> Tensor:
    """dW[N,K] = dY[T,N]^T * X[T,K] under a recipe, in float32."""
    dy, x = _matrix("linear_backward_weight", "dy", dy), _matrix("linear_backward_weight", "x", x)
    dw = torch.empty((dy.shape[1], x.shape[1]), dtype=torch.float32, device=dy.device)
    return _linear("linear_backward_weight", dy, x, dw, recipe, seed, step, layer, accumulate)
