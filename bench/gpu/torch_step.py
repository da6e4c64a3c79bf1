#!/usr/bin/env python3
"""ufp4 - one training step of ufp4.torch.Linear beside nn.Linear in bf16, on a GPU: lines of bench.json (measure.hpp).

torch_step.py [--small] [--device DEVICE]. A step is forward, backward and SGD of a layer without bias, T = N = K = 8192,
in bf16. The first line of each recipe is a check: the quantized layer's results are near those of nn.Linear.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import copy
import json
import time

import torch
import ufp4.torch

RECIPES = ("ufp4", "e2m1-baseline")


def print_line(**values):
    print(json.dumps({"kind": "torch", **values}), flush=True)


def step(layer, optimizer, x, dy):
    optimizer.zero_grad(set_to_none=True)
    x.grad = None
    layer(x).backward(dy)
    optimizer.step()


def microseconds(call, device, once):
    """The median of batches."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    times = []
    for _ in range(2 if once else 8):
        wait()
        began = time.perf_counter()
        call()
        wait()
        times.append(1e6 * (time.perf_counter() - began))
    return sorted(times[1:])[len(times[1:]) // 2]


def relative_error(a, b):
    a, b = a.float(), b.float()
    return float((a - b).norm() / b.norm())


def check(name, layer, plain, x, dy):
    """|result - nn.Linear's| / |nn.Linear's| of Y, dX and dW."""
    results = []
    for module in (layer, plain):
        x.grad = None
        module.weight.grad = None
        y = module(x)
        y.backward(dy)
        results.append((y.detach(), x.grad.clone(), module.weight.grad.clone()))
    errors = [relative_error(a, b) for a, b in zip(*results)]
    print_line(name=name + "/check", error_y=errors[0], error_dx=errors[1], error_dw=errors[2])
    if not all(e < 0.3 for e in errors):
        raise SystemExit(f"{name}: the relative errors of Y, dX, dW are {errors}")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--small", action="store_true")
    arguments.add_argument("--device", default="cuda")
    options = arguments.parse_args()
    n = 64 if options.small else 8192
    torch.manual_seed(0)
    x = torch.randn(n, n, device=options.device, dtype=torch.bfloat16).requires_grad_()
    dy = torch.randn(n, n, device=options.device, dtype=torch.bfloat16)
    plain = torch.nn.Linear(n, n, bias=False, device=options.device, dtype=torch.bfloat16)
    layers = {"torch/nn.Linear, bf16": copy.deepcopy(plain)}
    for recipe in RECIPES:
        layers[f"torch/ufp4.torch.Linear, {recipe}"] = ufp4.torch.Linear.of(copy.deepcopy(plain), recipe=recipe)
    for name, layer in layers.items():
        if isinstance(layer, ufp4.torch.Linear):
            check(name, layer, plain, x, dy)
        optimizer = torch.optim.SGD(layer.parameters(), lr=1e-3)
        us = microseconds(lambda: step(layer, optimizer, x, dy), options.device, options.small)
        print_line(name=name + "/step", us=us, tflops=3 * 2 * n**3 / us * 1e-6)


if __name__ == "__main__":
    main()
