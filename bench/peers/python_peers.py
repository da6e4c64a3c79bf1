#!/usr/bin/env python3
# ufp4 - benches against other libraries: those of Python, beside the package ufp4 in the same process, on one thread.
# SPDX-License-Identifier: Apache-2.0
"""usage: python_peers.py [--smoke]

Prints the lines of side_by_side.hpp for onnxruntime's MatMulNBits, PyTorch's linear in bf16 and numpy's product, each
where it can be imported. --smoke: the first case only.
"""
import importlib
import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import ufp4

N = K = 4096
PRODUCTS = [(1, False), (1, True), (4, False), (16, False), (128, False), (512, False)]
if "--smoke" in sys.argv:
    PRODUCTS = PRODUCTS[:1]
RANDOM = np.random.default_rng(1)
WEIGHTS = RANDOM.standard_normal((N, K), np.float32)


def copies(from_memory, size):
    return (160 << 20) // size + 2 if from_memory else 1


def sample(call, weights, first):
    """Seconds a call, and the number of calls, in at least 20 ms."""
    calls, begin = 0, time.perf_counter()
    while True:
        call((first + calls) % weights)
        calls += 1
        seconds = time.perf_counter() - begin
        if seconds > 0.02:
            return seconds / calls, calls


def compare(m, from_memory, ours, theirs):
    """Two (name, how many weights, call with the number of weights): nine samples of each in turn; the best counts."""
    best, first = [1e30, 1e30], [0, 0]
    for _ in range(9):
        for who, (_, weights, call) in enumerate((ours, theirs)):
            seconds, calls = sample(call, weights, first[who])
            best[who] = min(best[who], seconds)
            first[who] += calls
    case = f"M = {m}" + (", memory" if from_memory else ", cache" if m == 1 else "")
    rates = [2e-9 * m * N * K / seconds for seconds in best]
    print(f"{theirs[0]} | {case} | {ours[0]} | {rates[0]:.1f} | {rates[1]:.1f} | {rates[0] / rates[1]:.2f}", flush=True)


def ours(m, from_memory, name):
    q = ufp4.quantize(WEIGHTS, name)
    weights = [ufp4.QuantizedMatrix.from_arrays(q.codes.copy(), q.scales.copy(), name, tensor_scale=q.tensor_scale)
               for _ in range(copies(from_memory, q.nbytes))]
    x = ufp4.quantize(RANDOM.standard_normal((m, K), np.float32), name)
    y = np.empty((m, N), np.float32)
    return name, len(weights), lambda i: ufp4.matmul(x, weights[i], out=y, threads=1)


def with_onnxruntime(ort, accuracy):
    """Blocks of 32 with binary32 scales. Accuracy level 4 may quantize activations to 8 bits, 0 keeps them binary32."""
    from onnx import TensorProto, helper, numpy_helper
    activations = "8-bit" if accuracy == 4 else "binary32"
    name = f"onnxruntime {ort.__version__} MatMulNBits, {activations} activations"
    codes = RANDOM.integers(0, 256, (N, K // 32, 16), np.uint8)
    scales = RANDOM.random(N * K // 32, np.float32)
    node = helper.make_node("MatMulNBits", ["x", "codes", "scales"], ["y"], domain="com.microsoft", K=K, N=N, bits=4,
                            block_size=32, accuracy_level=accuracy)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", K])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", N])],
                              [numpy_helper.from_array(codes, "codes"), numpy_helper.from_array(scales, "scales")])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    for m, from_memory in PRODUCTS:
        sessions = [ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
                    for _ in range(copies(from_memory, codes.nbytes + scales.nbytes))]
        x = {"x": RANDOM.standard_normal((m, K), np.float32)}
        compare(m, from_memory, ours(m, from_memory, "mxfp4"),
                (name, len(sessions), lambda i: sessions[i].run(None, x)))


def with_torch(torch):
    torch.set_num_threads(1)
    w = torch.randn(N, K).bfloat16()  # not from numpy, of which a package of PyTorch may need another version
    for m, from_memory in PRODUCTS:
        weights = [w.clone() for _ in range(copies(from_memory, 2 * N * K))]
        x = torch.randn(m, K).bfloat16()
        with torch.inference_mode():
            compare(m, from_memory, ours(m, from_memory, "nvfp4"),
                    (f"PyTorch {torch.__version__} linear, bf16", len(weights),
                     lambda i: torch.nn.functional.linear(x, weights[i])))


def with_numpy():
    for m, from_memory in PRODUCTS:
        weights = [WEIGHTS.copy() for _ in range(copies(from_memory, 4 * N * K))]
        x, y = RANDOM.standard_normal((m, K), np.float32), np.empty((m, N), np.float32)
        compare(m, from_memory, ours(m, from_memory, "nvfp4"),
                (f"numpy {np.__version__} matmul, binary32", len(weights), lambda i: np.matmul(x, weights[i].T, out=y)))


def peer(module, run):
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        print(f"left out: {module}: {error} (pip install {module})", file=sys.stderr)
        return
    run(found)


with_numpy()
peer("onnxruntime", lambda ort: [with_onnxruntime(ort, accuracy) for accuracy in (4, 0)])
peer("torch", with_torch)
